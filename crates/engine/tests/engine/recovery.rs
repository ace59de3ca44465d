//! What was running when the process went down.

use crate::support::*;
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use throughline_engine::RecoveryReport;
use throughline_format::{ErrorCategory, OperationState};
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
    assert_eq!(next.engine.recover().await.unwrap(), RecoveryReport { interrupted: 1, failed: 0 });
    assert_eq!(next.engine.recover().await.unwrap(), RecoveryReport::default());
    let operation = next.engine.operation(&World::principal(), &id).await.unwrap();
    assert_eq!(operation.state, OperationState::Failed);
    assert_eq!(operation.error.unwrap().category, ErrorCategory::Interrupted);
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
