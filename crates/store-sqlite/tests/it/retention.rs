//! Cleanup beside the work: small transactions, appends first, and no half of a conversation.

use std::sync::Arc;

use throughline_format::clause;
use throughline_store::contract::{World, samples};
use throughline_store::{
    ConversationReader as _, EventReader as _, OperationReader as _, StateWriter as _, StoreAdmin as _, SweepRequest, WriteOp, clean,
};

use crate::support::{Home, world};

#[tokio::test]
async fn steps_are_bounded_in_rows_and_in_bytes() {
    clause!("RET-05");
    let home = Home::new();
    let (store, world) = world(&home).await;
    // Many small rows, and then few large ones.
    let operation = world.start("op_small").await.operation_id;
    for first in (1..=2_000).step_by(500) {
        let words: Vec<String> = (0..500).map(|number| format!("event {number}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        world.commit(vec![samples::append_events(&operation, first, &words)]).await.unwrap();
    }
    let large = world.start("op_large").await.operation_id;
    for sequence in 1..=24 {
        let events = vec![bytes::Bytes::from(vec![b'x'; 1_000_000])];
        world
            .commit(vec![WriteOp::AppendEvents {
                operation_id: large.clone(),
                first_sequence: sequence,
                events,
            }])
            .await
            .unwrap();
    }
    for operation in store.operations(throughline_store::OperationFilter::default()).await.unwrap() {
        let ended = samples::in_state(&operation, throughline_format::OperationState::Failed);
        world.commit(vec![WriteOp::UpdateOperation(ended)]).await.unwrap();
    }
    let delete = WriteOp::DeleteConversation {
        only_if: throughline_store::DeletionCondition::Always,
    };
    world.commit(vec![delete]).await.unwrap();
    assert_eq!(
        store.last_sequence(&operation).await.unwrap_err().code(),
        "not-found.resource",
        "hidden at once and whole"
    );
    let (mut steps, mut rows) = (0, 0);
    loop {
        let before: i64 = home
            .sql()
            .query_row("SELECT ifnull(sum(length(body)), 0) FROM stream_events", [], |row| row.get(0))
            .unwrap();
        let step = store.sweep(SweepRequest::new(world.now)).await.unwrap();
        let after: i64 = home
            .sql()
            .query_row("SELECT ifnull(sum(length(body)), 0) FROM stream_events", [], |row| row.get(0))
            .unwrap();
        assert!(
            step.rows <= 500 && before - after <= 5_200_000,
            "{step:?}, {} bytes",
            before - after
        );
        steps += 1;
        rows += step.rows;
        if !step.more {
            break;
        }
    }
    assert!(steps >= 9 && rows >= 2_024 + 4, "{steps} steps, {rows} rows");
    let left: i64 = home
        .sql()
        .query_row(
            "SELECT (SELECT count(*) FROM stream_events) + (SELECT count(*) FROM operations) + (SELECT count(*) FROM conversations)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
    assert!(store.check().await.unwrap().is_ok());
}

/// Appends and retention meet on the same old conversations: either the append wins and everything is there, or it is told that
/// the conversation is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_against_a_cleanup_keeps_all_or_nothing() {
    clause!("RET-05", "RET-02");
    let home = Home::new();
    let store = Arc::new(home.open());
    let mut worlds = Vec::new();
    for number in 0..40 {
        let world = World::of(store.clone(), &format!("c{number}"), samples::PRINCIPAL).await;
        world.say(&world.branch_id, &[&format!("c{number}.i1")]).await;
        worlds.push(world);
    }
    let late = samples::START.plus_millis(8 * samples::DAY);
    let cleaning = tokio::spawn({
        let store = store.clone();
        async move { clean(store.as_ref(), &|| late).await.unwrap() }
    });
    let mut kept = Vec::new();
    for (number, world) in worlds.iter_mut().enumerate().rev() {
        world.now = late;
        let item = samples::message(&format!("c{number}.i2"), "late");
        let append = world.append(Some(&format!("c{number}.i1")), vec![item]);
        match world.commit(vec![append]).await {
            Ok(_) => kept.push(number),
            Err(error) => assert_eq!(error.code(), "not-found.resource"),
        }
    }
    let report = cleaning.await.unwrap();
    assert_eq!(report.removed, 40 - kept.len() as u64, "{report:?}");
    for (number, world) in worlds.iter().enumerate() {
        let found = store.conversation(&world.conversation_id).await.unwrap();
        assert_eq!(found.is_some(), kept.contains(&number));
        if found.is_some() {
            assert_eq!(world.path(&world.branch_id).await.len(), 2);
        }
    }
    assert!(store.check().await.unwrap().is_ok());
}
