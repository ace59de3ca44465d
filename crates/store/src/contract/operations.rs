//! Operations and their end.

use throughline_format::{OperationState, Sha256, UnifiedOperation, clause};

use super::{Store, World, samples};
use crate::StoreError;
use crate::batch::{WriteBatch, WriteOp};
use crate::records::{EventRange, OperationFilter, SweepRequest};
use samples::{append_events, id, in_state};

pub(super) async fn states_follow_the_table(store: Store) {
    clause!("OP-01");
    let world = World::new(store).await;
    for (from_number, from) in OperationState::ALL.iter().enumerate() {
        for (to_number, to) in OperationState::ALL.iter().enumerate() {
            let operation = in_state(&samples::operation(&format!("op_{from_number}_{to_number}"), &world), *from);
            world.commit(vec![WriteOp::PutOperation(operation.clone())]).await.unwrap();
            let outcome = world.commit(vec![WriteOp::UpdateOperation(in_state(&operation, *to))]).await;
            let stored = world.store.operation(&operation.operation_id).await.unwrap().unwrap();
            if from == to || from.may_become(*to) {
                outcome.unwrap();
                assert_eq!(stored.state, *to);
            } else {
                assert_eq!(outcome.unwrap_err().code(), "conflict.operation-state", "{from} to {to}");
                assert_eq!(stored.state, *from);
            }
        }
    }
}

pub(super) async fn fields_are_kept(store: Store) {
    clause!("OP-01");
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1"]).await;
    let full = serde_json::json!({
        "schemaVersion": "2.0", "operationId": "op_full", "conversationId": world.conversation_id, "state": "running", "owner": samples::owner("a"), "principalRef": samples::PRINCIPAL,
        "sourceBranchId": world.branch_id, "sourceHeadItemId": "i1", "inputItemIds": ["i2"],
        "providerJob": {"resourceId": "r1", "resourceType": "response", "ownerFingerprint": Sha256::of(b"o")},
        "polling": {"nextAt": samples::START, "intervalMs": 500, "attempts": 0}, "webhook": {"webhookRef": "w1", "state": "registered"},
        "cancellation": "best-effort", "cancelRequestedAt": samples::START, "idempotencyKeyHash": Sha256::of(b"k"), "requestFingerprint": Sha256::of(b"r"),
        "createdAt": samples::START, "startedAt": samples::START, "updatedAt": samples::START, "deadline": samples::START,
        "cleanupLease": {"leaseId": "lease_1", "expiresAt": samples::START}, "lastSequence": 0,
    });
    let full: UnifiedOperation = serde_json::from_str(&full.to_string()).unwrap();
    world.commit(vec![WriteOp::PutOperation(full.clone())]).await.unwrap();
    assert_eq!(world.store.operation(&full.operation_id).await.unwrap().as_ref(), Some(&full));
    // What it is cannot be changed by an update.
    let changes: [fn(&mut UnifiedOperation); 6] = [
        |operation| operation.principal_ref = "principal-b".to_owned(),
        |operation| operation.source_branch_id = samples::id("br_x"),
        |operation| operation.source_head_item_id = None,
        |operation| operation.idempotency_key_hash = None,
        |operation| operation.request_fingerprint = Sha256::of(b"x"),
        |operation| operation.created_at = samples::START.plus_millis(1),
    ];
    for change in changes {
        let mut changed = full.clone();
        change(&mut changed);
        assert_eq!(
            world.refused(vec![WriteOp::UpdateOperation(changed)]).await,
            "invalid-request.validation"
        );
    }
    let mut other_principal = samples::operation("op_b", &world);
    other_principal.principal_ref = "principal-b".to_owned();
    assert_eq!(
        world.refused(vec![WriteOp::PutOperation(other_principal)]).await,
        "invalid-request.validation"
    );
    let mut other_branch = samples::operation("op_b", &world);
    other_branch.source_branch_id = id("br_x");
    assert_eq!(world.refused(vec![WriteOp::PutOperation(other_branch)]).await, "not-found.resource");
    assert_eq!(
        world
            .refused(vec![WriteOp::UpdateOperation(samples::operation("op_b", &world))])
            .await,
        "not-found.resource"
    );
}

pub(super) async fn idempotency_keys_are_unique_per_principal(store: Store) {
    let world = World::new(store.clone()).await;
    let other = World::of(store.clone(), "other", "principal-b").await;
    let key = Sha256::of(b"key");
    let keyed = |world: &World, operation_id: &str, principal: &str, request: &[u8]| {
        let mut operation = samples::operation(operation_id, world);
        operation.principal_ref = principal.to_owned();
        operation.idempotency_key_hash = Some(key);
        operation.request_fingerprint = Sha256::of(request);
        WriteOp::PutOperation(operation)
    };
    world.commit(vec![keyed(&world, "op_1", samples::PRINCIPAL, b"r")]).await.unwrap();
    world.commit(vec![keyed(&world, "op_1", samples::PRINCIPAL, b"r")]).await.unwrap();
    for (request, same_request) in [(b"r", true), (b"x", false)] {
        let error = world
            .commit(vec![keyed(&world, "op_2", samples::PRINCIPAL, request)])
            .await
            .unwrap_err();
        assert_eq!(
            error,
            StoreError::Idempotency {
                operation_id: id("op_1"),
                same_request
            }
        );
        assert_eq!(error.code(), "conflict.idempotency");
    }
    other.commit(vec![keyed(&other, "op_3", "principal-b", b"r")]).await.unwrap();
    let find = async |principal: &str, key: &Sha256| {
        store
            .operation_by_idempotency_key(principal, key)
            .await
            .unwrap()
            .map(|operation| operation.operation_id.to_string())
    };
    assert_eq!(find(samples::PRINCIPAL, &key).await.as_deref(), Some("op_1"));
    assert_eq!(find("principal-b", &key).await.as_deref(), Some("op_3"));
    assert_eq!(find("principal-c", &key).await, None);
    assert_eq!(find(samples::PRINCIPAL, &Sha256::of(b"other")).await, None);
}

pub(super) async fn ended_operations_are_frozen(store: Store) {
    clause!("OP-01");
    let world = World::new(store).await;
    let operation = world.start("op_1").await;
    let ended = in_state(&operation, OperationState::Cancelled);
    world
        .commit(vec![
            append_events(&operation.operation_id, 1, &["a"]),
            WriteOp::UpdateOperation(ended.clone()),
        ])
        .await
        .unwrap();
    world.commit(vec![WriteOp::UpdateOperation(ended.clone())]).await.unwrap();
    world.commit(vec![append_events(&operation.operation_id, 1, &["a"])]).await.unwrap();
    let mut changed = ended;
    changed.cancel_requested_at = Some(world.now);
    for op in [
        WriteOp::UpdateOperation(changed),
        append_events(&operation.operation_id, 2, &["b"]),
        WriteOp::PutResult {
            operation_id: operation.operation_id.clone(),
            result: samples::result(&operation.operation_id),
        },
    ] {
        assert_eq!(world.refused(vec![op]).await, "conflict.operation-state");
    }
}

/// The whole end of a turn.
fn terminal_batch(world: &World, operation: &UnifiedOperation) -> Vec<WriteOp> {
    let operation_id = operation.operation_id.clone();
    let mut ended = in_state(operation, OperationState::Completed);
    ended.result_id = Some(id("res_op_1"));
    vec![
        append_events(&operation_id, 1, &["operation.completed", "stream.completed"]),
        world.append(None, vec![samples::message("op_1.i0", "answer")]),
        WriteOp::PutResource(Box::new(samples::resource(world, "op_1.i0.r0", "a", b"signature"))),
        WriteOp::PutCheckpoint(Box::new(samples::checkpoint(world, "ckpt_1", "op_1.i0", b"handle"))),
        WriteOp::PutResult {
            operation_id: operation_id.clone(),
            result: samples::result(&operation_id),
        },
        WriteOp::UpdateOperation(ended),
        WriteOp::PutLineage(vec![super::index::link(world, samples::PRINCIPAL, "l1", "op_1.i0")]),
    ]
}

/// Everything that the end of a turn changes, as one value.
async fn state_of(world: &World) -> String {
    let store = &world.store;
    let operation = id("op_1");
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        store.conversation(&world.conversation_id).await,
        store.branch(&world.branch_id).await,
        world.path(&world.branch_id).await,
        world.events(&operation).await,
        store.operation(&operation).await,
        store.result(&operation).await,
        store.resources(&world.conversation_id, None).await,
        (
            store.checkpoints(&world.conversation_id, None).await,
            store.lineage(samples::PRINCIPAL, &[Sha256::of(b"l1")]).await
        ),
    )
}

pub(super) async fn the_end_is_one_step(store: Store) {
    clause!("LIVE-06", "OP-02");
    let mut world = World::new(store).await;
    let operation = world.start("op_1").await;
    let before = state_of(&world).await;
    world.now = world.now.plus_millis(5_000);
    let batch = terminal_batch(&world, &operation);
    // A failure at any place leaves nothing of the batch.
    for place in 0..=batch.len() {
        let mut broken = batch.clone();
        broken.insert(place, append_events(&operation.operation_id, 77, &["gap"]));
        assert_eq!(world.refused(broken).await, "conflict.event-gap");
        assert_eq!(state_of(&world).await, before, "failure before operation {place}");
    }
    let receipt = world.commit(batch).await.unwrap();
    assert_eq!(receipt.last_updated_at, Some(world.now));
    assert_eq!(world.clock().await, world.now);
    assert_eq!(world.events(&operation.operation_id).await.len(), 2);
    assert_eq!(
        world.store.result(&operation.operation_id).await.unwrap(),
        Some(*samples::result(&operation.operation_id))
    );
    assert_eq!(
        world.store.operation(&operation.operation_id).await.unwrap().unwrap().state,
        OperationState::Completed
    );
    assert_eq!(
        world.store.branch(&world.branch_id).await.unwrap().unwrap().head_item_id,
        Some(id("op_1.i0"))
    );
    assert_eq!(world.store.checkpoints(&world.conversation_id, None).await.unwrap().len(), 1);
}

pub(super) async fn whole_batches_may_be_repeated(store: Store) {
    let mut world = World::new(store).await;
    let operation = world.start("op_1").await;
    let batch = terminal_batch(&world, &operation);
    let mut reversed_end = batch.clone();
    reversed_end.swap(0, 5);
    world.commit(reversed_end).await.expect("the end may stand before the last events");
    let after = state_of(&world).await;
    world.now = world.now.plus_millis(5_000);
    world.commit(batch.clone()).await.unwrap();
    world
        .store
        .commit(WriteBatch {
            now: world.now,
            conversation_id: world.conversation_id.clone(),
            ops: batch,
        })
        .await
        .unwrap();
    assert_eq!(state_of(&world).await, after);
}

pub(super) async fn a_deleted_operation_is_as_if_absent(store: Store) {
    let mut world = World::new(store.clone()).await;
    let mut operation = samples::operation("op_1", &world);
    operation.idempotency_key_hash = Some(Sha256::of(b"key"));
    let delete = || WriteOp::DeleteOperation { operation_id: id("op_1") };
    world.commit(vec![WriteOp::PutOperation(operation.clone())]).await.unwrap();
    assert_eq!(world.refused(vec![delete()]).await, "conflict.operation-active");
    world.commit(terminal_batch(&world, &operation)).await.unwrap();
    let clock = world.clock().await;
    world.now = world.now.plus_millis(5_000);
    world.commit(vec![delete()]).await.unwrap();
    world.commit(vec![delete()]).await.expect("deleting twice is a success");
    assert_eq!(world.clock().await, clock, "a deletion keeps no conversation longer");
    assert_eq!(store.operation(&id("op_1")).await.unwrap(), None);
    assert_eq!(store.result(&id("op_1")).await.unwrap(), None);
    assert_eq!(
        store
            .operation_by_idempotency_key(samples::PRINCIPAL, &Sha256::of(b"key"))
            .await
            .unwrap(),
        None
    );
    let whole = EventRange {
        after: 0,
        through: 9,
        max_events: 9,
        max_bytes: 999,
    };
    assert_eq!(
        store.events_after(&id("op_1"), whole).await.unwrap_err().code(),
        "not-found.resource"
    );
    assert_eq!(store.last_sequence(&id("op_1")).await.unwrap_err().code(), "not-found.resource");
    // The journal keeps what other turns stand on, and the ID stays taken.
    assert_eq!(world.path(&world.branch_id).await.len(), 1);
    let mut other = samples::operation("op_1", &world);
    other.request_fingerprint = Sha256::of(b"another");
    assert_eq!(world.refused(vec![WriteOp::PutOperation(other)]).await, "conflict.duplicate");
    // The key is free again.
    let mut again = samples::operation("op_2", &world);
    again.idempotency_key_hash = Some(Sha256::of(b"key"));
    world.commit(vec![WriteOp::PutOperation(again)]).await.unwrap();
    for (deleted, expected) in [(false, "op_2"), (true, "op_1")] {
        let filter = OperationFilter {
            deleted,
            ..OperationFilter::default()
        };
        let listed = store.operations(filter).await.unwrap();
        assert_eq!(listed.iter().map(|o| o.operation_id.as_str()).collect::<Vec<_>>(), [expected]);
    }
    // Its two events go, a step at a time.
    let mut removed = 0;
    for _ in 0..9 {
        let step = SweepRequest {
            max_rows: 1,
            ..SweepRequest::new(world.now)
        };
        let report = store.sweep(step).await.unwrap();
        removed += report.rows;
        if !report.more {
            break;
        }
    }
    assert!(removed >= 2, "{removed}");
    assert_eq!(store.sweep(SweepRequest::new(world.now)).await.unwrap().rows, 0);
    assert!(store.check().await.unwrap().is_ok());
}

pub(super) async fn lists_are_filtered(store: Store) {
    let world = World::new(store.clone()).await;
    let other = World::of(store.clone(), "other", "principal-b").await;
    for name in ["op_c", "op_a", "op_b"] {
        world.start(name).await;
    }
    let mut foreign = samples::operation("op_d", &other);
    foreign.principal_ref = "principal-b".to_owned();
    other.commit(vec![WriteOp::PutOperation(foreign)]).await.unwrap();
    let done = in_state(&samples::operation("op_a", &world), OperationState::Failed);
    world.commit(vec![WriteOp::UpdateOperation(done)]).await.unwrap();
    let list = async |filter: OperationFilter| {
        let found = store.operations(filter).await.unwrap();
        found.iter().map(|operation| operation.operation_id.to_string()).collect::<Vec<_>>()
    };
    let all = OperationFilter::default();
    assert_eq!(list(all.clone()).await, ["op_c", "op_a", "op_b", "op_d"]);
    assert_eq!(
        list(OperationFilter {
            conversation_id: Some(world.conversation_id.clone()),
            ..all.clone()
        })
        .await,
        ["op_c", "op_a", "op_b"]
    );
    assert_eq!(
        list(OperationFilter {
            principal_ref: Some("principal-b".to_owned()),
            ..all.clone()
        })
        .await,
        ["op_d"]
    );
    for (branch_id, expected) in [
        (&world.branch_id, &["op_c", "op_a", "op_b"][..]),
        (&other.branch_id, &["op_d"]),
        (&id("br_nobodys"), &[]),
    ] {
        let filter = OperationFilter {
            branch_id: Some(branch_id.clone()),
            ..all.clone()
        };
        assert_eq!(list(filter).await, expected, "{branch_id}");
    }
    assert_eq!(
        list(OperationFilter {
            states: vec![OperationState::Running, OperationState::Queued],
            ..all.clone()
        })
        .await,
        ["op_c", "op_b", "op_d"]
    );
    assert_eq!(
        list(OperationFilter {
            after: Some(id("op_c")),
            limit: 2,
            ..all.clone()
        })
        .await,
        ["op_a", "op_b"]
    );
    assert_eq!(
        store
            .operations(OperationFilter {
                after: Some(id("op_x")),
                ..all
            })
            .await
            .unwrap_err()
            .code(),
        "not-found.resource"
    );
}
