//! What was running when the process went down.

use crate::support::*;
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use throughline_engine::{EngineLimits, RecoveryReport};
use throughline_format::resource::ResourceStatus;
use throughline_format::{ErrorCategory, OperationState, UnifiedError, UnifiedId};
use throughline_store::{MemoryStore, RecordKind, ResealedRecord, WriteBatch, WriteOp};
use tokio::sync::mpsc;

#[tokio::test]
async fn committed_events_survive_and_the_operation_ends_as_interrupted() {
    let world = World::new();
    let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
    World::expect(&world.chat, Answer::Live(chunks));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let (id, branch, conversation) = (turn.operation_id.clone(), turn.branch_id.clone(), turn.conversation_id.clone());
    send.send(Ok(chat_frame(
        &json!([{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]),
    )
    .into()))
        .unwrap();
    let mut watcher = turn.subscription;
    let mut seen = Vec::new();
    while !seen
        .last()
        .is_some_and(|b: &Bytes| std::str::from_utf8(b).unwrap().contains("half"))
    {
        seen.push(watcher.next().await.unwrap().unwrap().bytes);
    }

    // The process is gone: another engine opens the same store. The old producer hangs on its provider for ever.
    let next = World::over(Arc::clone(&world.store), 1_000_000);
    assert_eq!(
        next.engine.recover(&next).await.unwrap(),
        RecoveryReport {
            interrupted: 1,
            ..RecoveryReport::default()
        }
    );
    assert_eq!(next.engine.recover(&next).await.unwrap(), RecoveryReport::default());
    let operation = next.engine.operation(&World::principal(), &id).await.unwrap();
    assert_eq!(operation.state, OperationState::Failed);
    let error = operation.error.unwrap();
    assert_eq!(
        (error.category, error.operation_id.as_ref()),
        (ErrorCategory::Interrupted, Some(&id))
    );
    assert_eq!(next.kinds(&branch).await, ["message", "message", "interruption"]);
    let mut replay = next.engine.subscribe(&World::principal(), &id, 0).await.unwrap();
    let mut replayed = Vec::new();
    while let Some(delivery) = replay.next().await.unwrap() {
        replayed.push(delivery.bytes);
    }
    assert_eq!(replayed[..seen.len()], seen[..], "what a subscriber saw is what is replayed");
    assert!(replayed.len() > seen.len());

    World::expect(&next.chat, Answer::Sse(chat_sse("whole")));
    let mut request = next.request(
        &CHAT,
        &chat_body("gpt-a", &[user("one"), json!({"role":"assistant","content":"half"}), user("go on")]),
    );
    request.conversation = Some(conversation);
    let turn = next.begin_with(request).await;
    assert_eq!(turn.branch_id, branch);
    turn.collect().await.unwrap();
}

/// A background answer of which `seen` frames came, and a subscriber that has seen a text of them.
async fn half_told(
    world: &World,
    frames: &[String],
    text: &str,
) -> (
    throughline_engine::Turn,
    mpsc::UnboundedSender<Result<Bytes, UnifiedError>>,
    Vec<Bytes>,
) {
    let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
    World::expect(&world.responses, Answer::Live(chunks));
    let body = json!({"model":"o-x","stream":true,"background":true,"store":true,"input":"one"});
    let mut turn = world.begin(&throughline_format::ProtocolFamily::OpenAiResponses, &body).await;
    send.send(Ok(frames.concat().into())).unwrap();
    let mut seen: Vec<Bytes> = Vec::new();
    while !seen.last().is_some_and(|b| std::str::from_utf8(b).unwrap().contains(text)) {
        seen.push(turn.subscription.next().await.unwrap().unwrap().bytes);
    }
    (turn, send, seen)
}

async fn replay(world: &World, id: &throughline_format::UnifiedId) -> Vec<Bytes> {
    let mut replay = world.engine.subscribe(&World::principal(), id, 0).await.unwrap();
    let mut events = Vec::new();
    while let Some(delivery) = replay.next().await.unwrap() {
        events.push(delivery.bytes);
    }
    events
}

#[tokio::test]
async fn work_of_the_provider_goes_on_after_a_restart_without_a_seam() {
    let frames = responses_frames("resp_1", "first half, second half", true);
    // However far it came: the rest follows, nothing twice.
    for cut in 4..frames.len() - 1 {
        let world = World::new();
        let (turn, _send, seen) = half_told(&world, &frames[..cut], "first half").await;
        let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());

        let next = World::over(Arc::clone(&world.store), 1_000_000);
        World::expect(&next.responses, Answer::Sse(frames.concat()));
        let report = next.engine.recover(&next).await.unwrap();
        assert_eq!(
            report,
            RecoveryReport {
                resumed: 1,
                ..RecoveryReport::default()
            }
        );
        let told = replay(&next, &id).await;
        assert_eq!(told[..seen.len()], seen[..], "what a subscriber saw is what is replayed");
        assert_eq!(*next.responses.0.resumed_after.lock().unwrap(), [None]);
        let result = next.engine.result(&World::principal(), &id).await.unwrap().unwrap();
        assert_eq!(next.items(&branch).await[1..], result.output[..]);
        let texts: Vec<_> = result
            .output
            .iter()
            .flat_map(throughline_format::UnifiedItem::parts)
            .filter_map(|p| p.as_text())
            .collect();
        assert_eq!(texts, ["first half, second half"], "cut after {cut}");
        assert_eq!(
            next.engine.operation(&World::principal(), &id).await.unwrap().state,
            OperationState::Completed
        );
        let mut fold = throughline_format::Fold::new(id.clone());
        for event in &told {
            fold.push(&serde_json::from_slice(event).unwrap()).unwrap();
        }
        assert_eq!(fold.items(), &result.output[..], "the fold is the stored result");
    }
}

#[tokio::test]
async fn a_broken_connection_to_work_of_the_provider_is_gone_on_with_after_the_last_event() {
    let world = World::new();
    let frames = responses_frames("resp_1", "first half, second half", true);
    let (turn, send, _) = half_told(&world, &frames[..4], "first half").await;
    // In the middle of a frame.
    send.send(Ok(frames[4][..20].to_owned().into())).unwrap();
    World::expect(&world.responses, Answer::Sse(frames[4..].concat()));
    drop(send);
    let id = turn.operation_id.clone();
    replay(&world, &id).await;
    let result = world.engine.result(&World::principal(), &id).await.unwrap().unwrap();
    assert_eq!(*world.responses.0.resumed_after.lock().unwrap(), [Some("3".to_owned())]);
    assert_eq!(result.output[0].parts()[0].as_text(), Some("first half, second half"));
}

#[tokio::test]
async fn work_that_the_provider_lost_or_tells_otherwise_is_an_interruption() {
    let gone = || Answer::Refuse(UnifiedError::new(ErrorCategory::NotFound, "response", "no such response"));
    let other = || Answer::Sse(responses_frames("resp_1", "something else entirely", true).concat());
    for answer in [gone(), other()] {
        let world = World::new();
        let frames = responses_frames("resp_1", "first half, second half", true);
        let (turn, _send, seen) = half_told(&world, &frames[..4], "first half").await;
        let next = World::over(Arc::clone(&world.store), 1_000_000);
        World::expect(&next.responses, answer);
        assert_eq!(next.engine.recover(&next).await.unwrap().resumed, 1);
        let told = replay(&next, &turn.operation_id).await;
        assert_eq!(told[..seen.len()], seen[..]);
        let operation = next.engine.operation(&World::principal(), &turn.operation_id).await.unwrap();
        assert_eq!(operation.error.unwrap().category, ErrorCategory::Interrupted);
        assert_eq!(next.kinds(&turn.branch_id).await, ["message", "message", "interruption"]);
    }
}

#[tokio::test]
async fn a_stop_leaves_work_of_the_provider_to_the_next_start_and_another_owner_never_gets_it() {
    let world = World::new();
    let frames = responses_frames("resp_1", "first half, second half", true);
    let (turn, _send, _) = half_told(&world, &frames[..4], "first half").await;
    world.engine.shutdown().await;
    let state = |w: &World| {
        let (engine, id) = (Arc::clone(&w.engine), turn.operation_id.clone());
        async move { engine.operation(&World::principal(), &id).await.unwrap().state }
    };
    assert_eq!(state(&world).await, OperationState::Running, "the provider works on");
    let mut next = World::over(Arc::clone(&world.store), 1_000_000);
    next.change_owner = Some(|owner| owner.credential_fingerprint = "v1:00".into());
    let report = next.engine.recover(&next).await.unwrap();
    assert_eq!(
        report,
        RecoveryReport {
            interrupted: 1,
            ..RecoveryReport::default()
        }
    );
    assert!(next.responses.0.resumed_after.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_kept_request_that_is_not_understood_whole_or_not_usable_is_not_gone_on_with() {
    let same: fn(String) -> String = |head| head;
    for (name, change, status, waiting) in [
        ("as it was", same, ResourceStatus::Active, 1),
        (
            "it demands what this build does not know",
            |head| head.replace("\"require\":[]", "\"require\":[\"no-such-feature\"]"),
            ResourceStatus::Active,
            0,
        ),
        ("taken back", same, ResourceStatus::Revoked, 0),
    ] {
        let limits = EngineLimits {
            concurrent_operations: 1,
            ..EngineLimits::default()
        };
        let world = World::bounded(Arc::new(MemoryStore::default()), 1, limits);
        let (_send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
        World::expect(&world.chat, Answer::Live(chunks));
        let _runs = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
        let mut request = world.request(&CHAT, &chat_body("gpt-a", &[user("two")]));
        request.options.background = true;
        let waits = world.begin_with(request).await;

        let kept = UnifiedId::parse(&format!("{}.request", waits.operation_id)).unwrap();
        let kept = world.store.resource(&kept).await.unwrap().unwrap();
        let plain = world.vault.open(&kept.seal_context(), &kept.sealed).unwrap();
        let changed = change(String::from_utf8(plain.to_vec()).unwrap());
        let reseal = WriteOp::Reseal(ResealedRecord {
            kind: RecordKind::Resource,
            record_id: kept.resource_id.clone(),
            replaces: kept.sealed.digest(),
            sealed: world.vault.seal(&kept.seal_context(), changed.as_bytes()).unwrap(),
        });
        let mut batch = WriteBatch::new(kept.created_at, kept.conversation_id.clone()).with(reseal);
        if status != ResourceStatus::Active {
            let resource_id = kept.resource_id.clone();
            batch.push(WriteOp::SetResourceStatus { resource_id, status });
        }
        world.store.commit(batch).await.unwrap();

        let next = World::bounded(Arc::clone(&world.store), 1_000_000, limits);
        World::expect(&next.chat, Answer::Sse(chat_sse("an answer")));
        let report = next.engine.recover(&next).await.unwrap();
        assert_eq!(
            (report.waiting, report.interrupted, report.failed),
            (waiting, 2 - waiting, 0),
            "{name}"
        );
    }
}
