//! The life of operations: which state follows which, and what makes it.

use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::{EngineLimits, Turn, TurnOptions, TurnRequest};
use throughline_format::{ErrorCategory, EventBody, OperationState as S, UnifiedId};
use throughline_store::{MemorySettings, MemoryStore};

/// One operation at a time, and a minute for each.
fn world() -> World {
    let limits = EngineLimits {
        concurrent_operations: 1,
        queued_operations: 2,
        operation_millis: 60_000,
        ..EngineLimits::default()
    };
    World::bounded(Arc::new(MemoryStore::new(MemorySettings::default())), 1, limits)
}

fn ask(world: &World, text: &str) -> TurnRequest {
    TurnRequest {
        options: TurnOptions {
            background: true,
            ..TurnOptions::default()
        },
        ..world.request(&ANTHROPIC, &anthropic_body("claude-x", &[user(text)]))
    }
}

/// The states that the events of an operation tell, in order.
async fn states(world: &World, id: &UnifiedId) -> Vec<S> {
    let mut events = world.engine.subscribe(&World::principal(), id, 0).await.unwrap();
    let mut states = Vec::new();
    while let Some(delivery) = events.next().await.unwrap() {
        states.extend(match delivery.event().unwrap().body {
            EventBody::OperationQueued(_) => Some(S::Queued),
            EventBody::OperationRunning(_) => Some(S::Running),
            EventBody::OperationRequiresAction(_) => Some(S::RequiresAction),
            EventBody::OperationCompleted(_) => Some(S::Completed),
            EventBody::OperationFailed(_) => Some(S::Failed),
            EventBody::OperationCancelled(_) => Some(S::Cancelled),
            EventBody::OperationExpired(_) => Some(S::Expired),
            _ => None,
        });
    }
    states
}

async fn end(world: &World, turn: Turn) -> (Vec<S>, Option<ErrorCategory>) {
    let id = turn.operation_id.clone();
    let error = turn.collect().await.err();
    let operation = world.engine.operation(&World::principal(), &id).await.unwrap();
    let result = world.engine.result(&World::principal(), &id).await.unwrap().unwrap();
    for told in [&error, &operation.error, &result.error].into_iter().flatten() {
        assert_eq!(told.operation_id.as_ref(), Some(&id), "{told:?}");
    }
    let error = error.map(|error| error.category);
    let states = states(world, &id).await;
    assert_eq!(states.last(), Some(&operation.state), "record and events agree");
    assert!(
        throughline_format::validate::semantics::operation(&operation).is_empty(),
        "{operation:?}"
    );
    assert!(operation.cleanup_lease.is_none() && operation.ended_at.is_some());
    (states, error)
}

#[tokio::test(start_paused = true)]
async fn what_waits_runs_in_turn() {
    let world = world();
    let (feed, chunks) = tokio::sync::mpsc::unbounded_channel();
    World::expect(&world.anthropic, Answer::Live(chunks));
    let mut turns = Vec::new();
    for text in ["a", "b", "c"] {
        turns.push(world.begin_with(ask(&world, text)).await);
        World::expect(
            &world.anthropic,
            Answer::Sse(anthropic_sse(&[json!({"type": "text", "text": text})], "end_turn")),
        );
    }
    let refused = world.engine.begin(ask(&world, "d"), &world).await.err().unwrap();
    assert_eq!(refused.error.code, "limit.concurrency");
    for operation in world.store.operations(throughline_store::OperationFilter::default()).await.unwrap() {
        assert!(
            throughline_format::validate::semantics::operation(&operation).is_empty(),
            "{operation:?}"
        );
    }
    feed.send(Ok(anthropic_sse(&[], "end_turn").into())).unwrap();
    let mut seen = Vec::new();
    for turn in turns {
        seen.push(end(&world, turn).await.0);
    }
    assert_eq!(
        seen,
        [
            vec![S::Running, S::Completed],
            vec![S::Queued, S::Running, S::Completed],
            vec![S::Queued, S::Running, S::Completed]
        ]
    );
    let asked: Vec<_> = world
        .anthropic
        .0
        .calls
        .lock()
        .unwrap()
        .iter()
        .map(|body| body["messages"][0]["content"].clone())
        .collect();
    assert_eq!(asked, ["a", "b", "c"], "in order");
}

#[tokio::test(start_paused = true)]
async fn deadlines_and_cancellation_end_whatever_runs_or_waits() {
    for cancelled in [false, true] {
        let world = world();
        let (feed, chunks) = tokio::sync::mpsc::unbounded_channel();
        World::expect(&world.anthropic, Answer::Live(chunks));
        // For the one that waits, when it gets the slot in its last moment.
        let (_spare, chunks) = tokio::sync::mpsc::unbounded_channel();
        World::expect(&world.anthropic, Answer::Live(chunks));
        let running = world.begin_with(ask(&world, "a")).await;
        let waiting = world.begin_with(ask(&world, "b")).await;
        if cancelled {
            for id in [&waiting.operation_id, &running.operation_id] {
                let first = world.engine.cancel(&World::principal(), id, None).await.unwrap();
                let again = world.engine.cancel(&World::principal(), id, None).await.unwrap();
                assert!(first.accepted);
                assert!(
                    !again.accepted || again.operation.cancel_requested_at == first.operation.cancel_requested_at,
                    "the first request counts"
                );
            }
        } else {
            // The one that runs is done at its deadline, and the one that waits has no time left either.
            tokio::time::sleep(Duration::from_secs(59)).await;
            assert!(!feed.is_closed());
        }
        let (waited, why) = end(&world, waiting).await;
        let (ran, because) = end(&world, running).await;
        feed.closed().await;
        let (last, error) = if cancelled {
            (S::Cancelled, ErrorCategory::Cancelled)
        } else {
            (S::Expired, ErrorCategory::Timeout)
        };
        assert_eq!((ran, because), (vec![S::Running, last], Some(error)));
        assert_eq!(why, Some(error));
        // Both deadlines are due in one moment; whether the slot is free before is no matter.
        assert!(waited == [S::Queued, last] || waited == [S::Queued, S::Running, last], "{waited:?}");
    }
}

#[tokio::test]
async fn a_deadline_of_ones_own_is_at_most_the_engines() {
    let world = world();
    World::expect(&world.anthropic, Answer::Sse(anthropic_sse(&[], "end_turn")));
    let mut request = ask(&world, "a");
    request.options.deadline = Some(throughline_format::Timestamp::from_millis(1_990_000_000_000));
    let id = world.begin_with(request).await.operation_id;
    let operation = world.engine.operation(&World::principal(), &id).await.unwrap();
    assert_eq!(operation.deadline, Some(operation.created_at.plus_millis(60_000)));
    let mut late = ask(&world, "b");
    late.options.deadline = Some(operation.created_at);
    let error = world.engine.begin(late, &world).await.err().unwrap().error;
    assert_eq!(
        (error.code.as_str(), error.field_path.as_deref()),
        ("invalid-request.invalid-value", Some("/deadline"))
    );
}
