//! Every bound, at it and one beyond.

use bytes::Bytes;
use throughline_format::clause;

use super::{Store, World, samples};
use crate::batch::WriteOp;
use crate::{StoreError, StoreLimits};
use samples::{append_events, id};

/// Bounds that are quickly reached.
pub(super) fn small() -> StoreLimits {
    StoreLimits {
        item_bytes: 2_000,
        event_bytes: 100,
        result_bytes: 1_000,
        payload_bytes: 200,
        record_bytes: 2_000,
        inline_bytes: 1_000,
        artifact_bytes: 10,
        batch_bytes: 6_000,
        batch_ops: 12,
        batch_items: 4,
        batch_events: 8,
        batch_index_rows: 3,
        branches: 3,
        checkpoints: 3,
    }
}

pub(super) async fn items_are_bounded(store: Store) {
    clause!("SEC-04");
    let world = World::new(store).await;
    let empty = serde_json::to_string(&samples::message("i1", "")).unwrap().len();
    let room = small().item_bytes - empty;
    let error = world
        .commit(vec![world.append(None, vec![samples::message("i1", &"x".repeat(room + 1))])])
        .await
        .unwrap_err();
    assert_eq!(
        error,
        StoreError::TooLarge {
            what: crate::Oversize::Item,
            size: 2_001,
            limit: 2_000
        }
    );
    assert_eq!(error.code(), "too-large.item");
    world
        .commit(vec![world.append(None, vec![samples::message("i1", &"x".repeat(room))])])
        .await
        .unwrap();
    let long = serde_json::json!({"parts": [{"kind": "text", "partId": "p", "text": "x".repeat(2_000)}]});
    assert_eq!(
        world
            .refused(vec![WriteOp::AddRevision(samples::revision("rev_1", "i1", 1, &long))])
            .await,
        "too-large.item"
    );
}

pub(super) async fn events_are_bounded(store: Store) {
    clause!("SEC-04");
    let world = World::new(store).await;
    let operation = world.start("op_1").await.operation_id;
    let event = |length| WriteOp::AppendEvents {
        operation_id: operation.clone(),
        first_sequence: 1,
        events: vec![Bytes::from(vec![b'x'; length])],
    };
    assert_eq!(world.refused(vec![event(101)]).await, "too-large.event");
    world.commit(vec![event(100)]).await.unwrap();
    let words = |count| vec!["e"; count];
    assert_eq!(world.refused(vec![append_events(&operation, 2, &words(9))]).await, "limit.batch");
    assert_eq!(
        world
            .refused(vec![
                append_events(&operation, 2, &words(4)),
                append_events(&operation, 6, &words(5))
            ])
            .await,
        "limit.batch"
    );
    world.commit(vec![append_events(&operation, 2, &words(8))]).await.unwrap();
}

pub(super) async fn payloads_are_bounded(store: Store) {
    clause!("SEC-04");
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1"]).await;
    let sealing = samples::resource(&world, "r0", "a", b"").sealed.as_bytes().len();
    let payload = |length: usize| vec![0u8; length - sealing];
    for (length, fits) in [(201, false), (200, true)] {
        let resource = WriteOp::PutResource(Box::new(samples::resource(&world, "r1", "a", &payload(length))));
        let checkpoint = WriteOp::PutCheckpoint(Box::new(samples::checkpoint(&world, "ckpt_1", "i1", &payload(length))));
        for op in [resource, checkpoint] {
            let outcome = world.commit(vec![op]).await;
            assert_eq!(outcome.map_err(|error| error.code()).err(), (!fits).then_some("too-large.payload"));
        }
    }
}

pub(super) async fn records_are_bounded(store: Store) {
    clause!("SEC-04");
    let world = World::new(store).await;
    let mut operation = samples::operation("op_1", &world);
    operation.input_item_ids = vec![id("an-item-with-a-rather-long-name"); 100];
    assert_eq!(world.refused(vec![WriteOp::PutOperation(operation)]).await, "too-large.record");
    let operation = world.start("op_1").await.operation_id;
    let mut result = samples::result(&operation);
    result.model.model = "m".repeat(1_000);
    assert_eq!(
        world
            .refused(vec![WriteOp::PutResult {
                operation_id: operation,
                result
            }])
            .await,
        "too-large.result"
    );
}

pub(super) async fn batches_are_bounded(store: Store) {
    clause!("SEC-04");
    let world = World::new(store).await;
    let release = |count| {
        (0..count)
            .map(|_| WriteOp::ReleaseLease {
                lease_id: samples::id("lease_1"),
            })
            .collect::<Vec<_>>()
    };
    world.commit(release(12)).await.unwrap();
    assert_eq!(world.refused(release(13)).await, "limit.batch");
    let messages = |count: usize, text: &str| {
        (0..count)
            .map(|number| samples::message(&format!("i{number}"), text))
            .collect::<Vec<_>>()
    };
    assert_eq!(world.refused(vec![world.append(None, messages(5, "x"))]).await, "limit.batch");
    assert_eq!(
        world.refused(vec![world.append(None, messages(4, &"x".repeat(1_500)))]).await,
        "too-large.batch"
    );
    world.commit(vec![world.append(None, messages(4, "x"))]).await.unwrap();
    let links = |count| vec![super::index::link(&world, samples::PRINCIPAL, "l", "i1"); count];
    world.commit(vec![WriteOp::PutLineage(links(3))]).await.unwrap();
    assert_eq!(
        world
            .refused(vec![WriteOp::PutLineage(links(2)), WriteOp::PutLineage(links(2))])
            .await,
        "limit.batch"
    );
}

pub(super) async fn branches_are_bounded(store: Store) {
    clause!("SEC-04");
    let world = World::new(store).await;
    let branch = |name: &str| WriteOp::CreateBranch(samples::root(&world.conversation_id, &samples::id(name)));
    world.commit(vec![branch("br_2"), branch("br_3")]).await.unwrap();
    assert_eq!(world.refused(vec![branch("br_4")]).await, "limit.branches");
    world.commit(vec![branch("br_3")]).await.expect("a repetition needs no room");
}

pub(super) async fn artifacts_are_bounded(store: Store) {
    clause!("SEC-04");
    let world = World::new(store).await;
    let put = |bytes: &[u8]| WriteOp::PutArtifact {
        principal_ref: samples::PRINCIPAL.to_owned(),
        artifact: samples::artifact("art_1", bytes),
    };
    assert_eq!(world.refused(vec![put(b"12345678901")]).await, "too-large.artifact");
    world.commit(vec![put(b"1234567890")]).await.unwrap();
}

pub(super) async fn checkpoints_are_bounded(store: Store) {
    clause!("CKPT-04");
    let world = World::new(store).await;
    let head = world.say(&world.branch_id, &["i1"]).await;
    let keep = small().checkpoints;
    let put = |name: &str| WriteOp::PutCheckpoint(Box::new(samples::checkpoint(&world, name, head.as_str(), b"x")));
    let stale = |name: &str| WriteOp::SetCheckpointStatus {
        checkpoint_id: id(name),
        status: throughline_format::resource::ResourceStatus::Stale,
    };
    let names = async || {
        let known = world
            .store
            .checkpoints(&world.conversation_id, Some(&world.branch_id))
            .await
            .unwrap();
        known
            .into_iter()
            .map(|checkpoint| checkpoint.checkpoint_id.to_string())
            .collect::<Vec<_>>()
    };
    // The first one stays active, as the handle of a place does; the others go stale one after the other.
    world.commit(vec![put("c0")]).await.unwrap();
    for number in 1..=keep + 2 {
        let name = format!("c{number}");
        let checkpoint = put(&name);
        world.commit(vec![checkpoint.clone(), stale(&name)]).await.unwrap();
        world.commit(vec![checkpoint]).await.unwrap();
        assert_eq!(names().await.len(), (number + 1).min(keep));
    }
    assert_eq!(names().await, ["c5", "c4", "c0"], "the oldest go, active ones last");
    assert_eq!(world.store.checkpoint(&id("c1")).await.unwrap(), None);
    for name in ["c6", "c7", "c8"] {
        world.commit(vec![put(name)]).await.unwrap();
    }
    assert_eq!(names().await, ["c8", "c7", "c6"]);
}
