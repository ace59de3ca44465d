//! Stream events: dense, ordered, repeatable.

use bytes::Bytes;
use futures_util::future::join_all;
use throughline_format::{OperationState, clause};

use super::{Store, World, samples};
use crate::StoreError;
use crate::batch::{OperationHead, WriteOp};
use crate::records::EventRange;
use samples::{append_events, id};

pub(super) async fn sequences_are_dense(store: Store) {
    clause!("EVT-03", "EVT-05");
    let world = World::new(store).await;
    let operation = world.start("op_1").await.operation_id;
    assert_eq!(world.store.last_sequence(&operation).await.unwrap(), 0);
    let receipt = world
        .commit(vec![
            append_events(&operation, 1, &["a", "b"]),
            append_events(&operation, 3, &["c"]),
        ])
        .await
        .unwrap();
    assert_eq!(
        receipt.sequences,
        [OperationHead {
            operation_id: operation.clone(),
            last_sequence: 3
        }]
    );
    assert_eq!(world.events(&operation).await, samples::events(&["a", "b", "c"]));
    assert_eq!(world.store.last_sequence(&operation).await.unwrap(), 3);
    assert_eq!(world.store.operation(&operation).await.unwrap().unwrap().last_sequence, 3);
    assert_eq!(world.path(&world.branch_id).await, [], "events are no journal entries");
    let unknown = id("op_x");
    assert_eq!(world.store.last_sequence(&unknown).await.unwrap_err().code(), "not-found.resource");
    let range = EventRange {
        after: 0,
        through: 9,
        max_events: 9,
        max_bytes: 9,
    };
    assert_eq!(
        world.store.events_after(&unknown, range).await.unwrap_err().code(),
        "not-found.resource"
    );
    assert_eq!(world.refused(vec![append_events(&unknown, 1, &["a"])]).await, "not-found.resource");
}

pub(super) async fn append_is_repeatable(store: Store) {
    clause!("EVT-03");
    let world = World::new(store).await;
    let operation = world.start("op_1").await.operation_id;
    for _ in 0..2 {
        world.commit(vec![append_events(&operation, 1, &["a", "b"])]).await.unwrap();
    }
    // A repetition may overlap with what is new.
    let receipt = world.commit(vec![append_events(&operation, 2, &["b", "c", "d"])]).await.unwrap();
    assert_eq!(receipt.sequences[0].last_sequence, 4);
    world
        .commit(vec![append_events(&operation, 1, &["a", "b", "c", "d"])])
        .await
        .unwrap();
    world.commit(vec![append_events(&operation, 3, &["c"])]).await.unwrap();
    assert_eq!(world.events(&operation).await, samples::events(&["a", "b", "c", "d"]));
}

pub(super) async fn conflicts_and_gaps_change_nothing(store: Store) {
    clause!("EVT-03");
    let world = World::new(store).await;
    let operation = world.start("op_1").await.operation_id;
    world.commit(vec![append_events(&operation, 1, &["a", "b"])]).await.unwrap();
    let before = world.events(&operation).await;
    let conflict = world
        .commit(vec![append_events(&operation, 1, &["a", "x", "c"])])
        .await
        .unwrap_err();
    assert_eq!(
        conflict,
        StoreError::EventConflict {
            operation_id: operation.clone(),
            sequence: 2
        }
    );
    let gap = world.commit(vec![append_events(&operation, 4, &["d"])]).await.unwrap_err();
    assert_eq!(
        gap,
        StoreError::EventGap {
            operation_id: operation.clone(),
            expected: 3,
            found: 4
        }
    );
    // A good append before the bad one in the same batch does not stay either.
    world
        .commit(vec![append_events(&operation, 3, &["c"]), append_events(&operation, 9, &["z"])])
        .await
        .unwrap_err();
    for number in [0, u64::from(u32::MAX), u64::MAX] {
        assert_eq!(
            world.refused(vec![append_events(&operation, number, &["z"])]).await,
            "invalid-request.validation"
        );
    }
    assert_eq!(world.events(&operation).await, before);
}

pub(super) async fn replay_is_bounded(store: Store) {
    let world = World::new(store).await;
    let operation = world.start("op_1").await.operation_id;
    let events: Vec<Bytes> = (1..=20).map(|number| Bytes::from(vec![b'x'; number])).collect();
    world
        .commit(vec![WriteOp::AppendEvents {
            operation_id: operation.clone(),
            first_sequence: 1,
            events,
        }])
        .await
        .unwrap();
    let read = async |after, through, max_events, max_bytes| {
        let events = world
            .store
            .events_after(
                &operation,
                EventRange {
                    after,
                    through,
                    max_events,
                    max_bytes,
                },
            )
            .await
            .unwrap();
        assert!(events.iter().all(|event| event.bytes.len() as u64 == event.sequence));
        (events.first().map(|event| event.sequence), events.len())
    };
    assert_eq!(read(0, 20, 100, usize::MAX).await, (Some(1), 20));
    assert_eq!(
        read(7, 12, 100, usize::MAX).await,
        (Some(8), 5),
        "never beyond what the reader knows to be published"
    );
    assert_eq!(read(7, 20, 3, usize::MAX).await, (Some(8), 3));
    assert_eq!(read(9, 20, 100, 10 + 11).await, (Some(10), 2));
    assert_eq!(
        read(9, 20, 100, 1).await,
        (Some(10), 1),
        "one event at least, or a reader would stand still"
    );
    assert_eq!(read(20, u64::MAX, 100, usize::MAX).await, (None, 0));
    assert_eq!(read(u64::MAX, u64::MAX, 100, usize::MAX).await, (None, 0));
    assert_eq!(read(12, 3, 100, usize::MAX).await, (None, 0));
}

pub(super) async fn producers_do_not_disturb_each_other(store: Store) {
    let world = World::new(store.clone()).await;
    let other = World::of(store, "other", samples::PRINCIPAL).await;
    let mut operations = Vec::new();
    for number in 0u8..8 {
        let home = if number.is_multiple_of(2) { &world } else { &other };
        operations.push((home, home.start(&format!("op_{number}")).await.operation_id));
    }
    join_all(operations.iter().map(async |(home, operation)| {
        for sequence in 1..=25 {
            let event = format!("{operation}-{sequence}");
            let receipt = home.commit(vec![append_events(operation, sequence, &[&event])]).await.unwrap();
            assert_eq!(receipt.sequences[0].last_sequence, sequence);
        }
    }))
    .await;
    for (home, operation) in &operations {
        let expected: Vec<String> = (1..=25).map(|sequence| format!("{operation}-{sequence}")).collect();
        assert_eq!(
            home.events(operation).await,
            samples::events(&expected.iter().map(String::as_str).collect::<Vec<_>>())
        );
    }
}

pub(super) async fn one_bad_batch_fails_alone(store: Store) {
    clause!("STORE-01");
    let world = World::new(store).await;
    let operation = world.start("op_1").await.operation_id;
    world.start("op_2").await;
    // Sent together, so that a store that groups commits has them in one group.
    let batch = |number: usize| {
        let fine = number.is_multiple_of(2);
        let name = format!("op_{}_{}", if fine { "good" } else { "bad" }, number / 2 + 1);
        let mut ops = vec![WriteOp::PutOperation(samples::operation(&name, &world))];
        if !fine {
            ops.push(append_events(&operation, 100, &["gap"]));
        }
        ops
    };
    let outcomes = join_all((0..18).map(|number| world.commit(batch(number)))).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_ok(), number.is_multiple_of(2), "{outcome:?}");
    }
    for number in 1..=9 {
        assert!(world.store.operation(&id(&format!("op_good_{number}"))).await.unwrap().is_some());
        assert_eq!(world.store.operation(&id(&format!("op_bad_{number}"))).await.unwrap(), None);
    }
    let operation = world.store.operation(&operation).await.unwrap().unwrap();
    assert_eq!(operation.state, OperationState::Running);
}

pub(super) async fn long_data_in_events_is_read_back_identical(store: Store) {
    clause!("PART-05");
    let world = World::new(store.clone()).await;
    let operation = world.start("op_1").await;
    let bound = super::sizes::small().inline_bytes;
    let data = "AAAA".repeat(bound);
    let image = |part: &str, data: &str| serde_json::json!({"kind": "image", "partId": part, "source": {"kind": "inline", "mediaType": "image/png", "encoding": "base64", "data": data}});
    let item = samples::item(
        "i9",
        &serde_json::json!({"kind": "message", "role": "assistant", "parts": [image("i9.p0", &data)]}),
    );
    let event = |sequence: u64, members: serde_json::Value| {
        let mut whole = serde_json::json!({"schemaVersion": "2.0", "operationId": "op_1", "eventId": format!("op_1.e{sequence}"), "sequence": sequence,
            "timestamp": samples::START, "itemId": "i9"});
        whole.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let event: throughline_format::UnifiedEventV2 = serde_json::from_str(&whole.to_string()).unwrap();
        Bytes::from(serde_json::to_vec(&event).unwrap())
    };
    let source = serde_json::json!({"kind": "grounding-source", "partId": "s", "source": {"sourceId": "s1", "type": "web"}, "parts": [image("s.0", &data)]});
    let events = vec![
        event(
            1,
            serde_json::json!({"kind": "item.delta", "delta": {"kind": "part-started", "part": image("p1", &data)}}),
        ),
        event(
            2,
            serde_json::json!({"kind": "item.completed", "status": "completed", "item": item}),
        ),
        event(
            3,
            serde_json::json!({"kind": "item.delta", "delta": {"kind": "output", "part": image("p3", &data)}}),
        ),
        event(4, serde_json::json!({"kind": "source.ready", "part": source})),
        event(5, serde_json::json!({"kind": "artifact.ready", "part": image("p5", &data)})),
        // Short data stays, and a text that looks like the store's own word is a text.
        event(
            6,
            serde_json::json!({"kind": "item.delta", "delta": {"kind": "part-started", "part": image("p6", "AAAA")}}),
        ),
        event(7, serde_json::json!({"kind": "text.delta", "text": "art_inline.bn.0"})),
    ];
    let append = |first_sequence: u64, events: Vec<Bytes>| WriteOp::AppendEvents {
        operation_id: operation.operation_id.clone(),
        first_sequence,
        events,
    };
    world.commit(vec![append(1, events.clone())]).await.unwrap();
    assert_eq!(world.events(&operation.operation_id).await, events);
    world.commit(vec![append(1, events.clone())]).await.unwrap();
    let other = event(
        1,
        serde_json::json!({"kind": "item.delta", "delta": {"kind": "part-started", "part": image("p1", &"BBBB".repeat(bound))}}),
    );
    assert_eq!(world.refused(vec![append(1, vec![other])]).await, "conflict.event");
    // A page holds no more bytes than were asked for, but for its first event.
    let range = EventRange {
        after: 0,
        through: u64::MAX,
        max_events: 10,
        max_bytes: 2 * data.len(),
    };
    assert_eq!(store.events_after(&operation.operation_id, range).await.unwrap().len(), 1);

    // What is no data is bounded as ever.
    let long = "x".repeat(2 * bound);
    let mut spelled = events[0].to_vec();
    spelled.push(b' ');
    for refused in [
        event(8, serde_json::json!({"kind": "text.delta", "text": long})),
        event(
            8,
            serde_json::json!({"kind": "item.delta", "delta": {"kind": "part-started", "part": image(&"p".repeat(128), &format!("{data}!!"))}}),
        ),
        Bytes::from(spelled),
    ] {
        assert_eq!(world.refused(vec![append(8, vec![refused])]).await, "too-large.event");
    }
    assert!(store.check().await.unwrap().is_ok());
}
