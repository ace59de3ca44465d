//! Subscribers, cursors, cancel.

use crate::support::*;
use bytes::Bytes;
use serde_json::json;
use throughline_engine::{Principal, Subscription};
use throughline_format::{OperationState, UnifiedFinishReason, clause};
use tokio::sync::mpsc;

async fn rest(mut subscription: Subscription) -> Vec<(u64, Bytes)> {
    let mut all = Vec::new();
    while let Some(delivery) = subscription.next().await.unwrap() {
        all.push((delivery.sequence, delivery.bytes));
    }
    all
}

fn delta(text: &str) -> Bytes {
    chat_frame(&json!([{"index":0,"delta":{"content":text},"finish_reason":null}])).into()
}

fn last_frames() -> Bytes {
    (chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"stop"}])) + "data: [DONE]\n\n").into()
}

#[tokio::test]
async fn every_subscriber_sees_one_to_n_live_replayed_or_both() {
    clause!("LIVE-01");
    let world = World::new();
    let (send, chunks) = mpsc::unbounded_channel();
    World::expect(&world.chat, Answer::Live(chunks));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let id = turn.operation_id.clone();
    let from_start = tokio::spawn(rest(turn.subscription));
    let mut readers = vec![from_start];
    for n in 0..20 {
        send.send(Ok(delta(&format!("piece {n} ")))).unwrap();
        tokio::task::yield_now().await;
        if n % 5 == 0 {
            let subscription = world.engine.subscribe(&World::principal(), &id, 0).await.unwrap();
            readers.push(tokio::spawn(rest(subscription)));
        }
    }
    send.send(Ok(last_frames())).unwrap();
    drop(send);
    let mut seen = Vec::new();
    for reader in readers {
        seen.push(reader.await.unwrap());
    }
    let replayed = rest(world.engine.subscribe(&World::principal(), &id, 0).await.unwrap()).await;
    assert!(replayed.iter().zip(1..).all(|((sequence, _), n)| *sequence == n));
    for one in &seen {
        assert_eq!(*one, replayed, "live and replayed are the same bytes");
    }
    let half = replayed.len() as u64 / 2;
    let tail = rest(world.engine.subscribe(&World::principal(), &id, half).await.unwrap()).await;
    assert_eq!(tail[..], replayed[usize::try_from(half).unwrap()..]);
    assert_eq!(world.engine.running(), 0);
}

#[tokio::test]
async fn a_dropped_client_does_not_stop_the_answer_and_cancel_does() {
    clause!("LIVE-04");
    let world = World::new();
    let (send, chunks) = mpsc::unbounded_channel();
    World::expect(&world.chat, Answer::Live(chunks));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
    drop(turn);
    send.send(Ok(delta("still here"))).unwrap();
    let mut watcher = world.engine.subscribe(&World::principal(), &id, 0).await.unwrap();
    loop {
        let delivery = watcher.next().await.unwrap().unwrap();
        if std::str::from_utf8(&delivery.bytes).unwrap().contains("still here") {
            break;
        }
    }
    let outcome = world.engine.cancel(&World::principal(), &id, Some("enough".into())).await.unwrap();
    assert!(outcome.accepted);
    // The answer promises what the journal says already: a kill of the process takes nothing back.
    let known = world.engine.operation(&World::principal(), &id).await.unwrap();
    assert!(
        known.cancel_requested_at.is_some() || known.state == OperationState::Cancelled,
        "{known:?}"
    );
    rest(watcher).await;
    assert!(send.is_closed(), "the connection upstream is closed");
    let operation = world.engine.operation(&World::principal(), &id).await.unwrap();
    assert_eq!(operation.state, OperationState::Cancelled);
    let result = world.engine.result(&World::principal(), &id).await.unwrap().unwrap();
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Cancelled));
    assert_eq!(world.kinds(&branch).await, ["message", "message", "interruption"]);
    assert!(!world.engine.cancel(&World::principal(), &id, None).await.unwrap().accepted);
}

#[tokio::test]
async fn a_cursor_is_bound_to_principal_operation_and_bytes() {
    clause!("LIVE-02");
    let world = World::new();
    World::expect(&world.chat, Answer::Sse(chat_sse("1")));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let (conversation, id) = (turn.conversation_id.clone(), turn.operation_id.clone());
    turn.collect().await.unwrap();
    let (me, other) = (World::principal(), Principal::new("other"));
    let cursor = world.engine.cursor(&me, &conversation, &id, 3).unwrap();
    assert_eq!(world.engine.read_cursor(&me, &id, &cursor).unwrap(), 3);
    assert_eq!(
        world.engine.read_cursor(&other, &id, &cursor).unwrap_err().code,
        "invalid-request.cursor"
    );
    assert_eq!(
        world.engine.read_cursor(&me, &conversation, &cursor).unwrap_err().code,
        "invalid-request.cursor"
    );
    let bytes = data_encoding::BASE64URL_NOPAD.decode(cursor.as_bytes()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let text = data_encoding::BASE64URL_NOPAD.encode(&altered);
        assert_eq!(
            world.engine.read_cursor(&me, &id, &text).unwrap_err().code,
            "invalid-request.cursor",
            "bit {bit}"
        );
    }
    let later = World::over(std::sync::Arc::clone(&world.store), 8 * 86_400_000);
    assert_eq!(
        later.engine.read_cursor(&me, &id, &cursor).unwrap_err().code,
        "invalid-request.cursor",
        "expired after the retention time"
    );
    assert_eq!(
        world.engine.subscribe(&me, &id, 999).await.err().unwrap().code,
        "conflict.cursor-ahead"
    );
    assert_eq!(
        world.engine.subscribe(&other, &id, 0).await.err().unwrap().code,
        "not-found.resource"
    );
}

#[tokio::test]
async fn a_second_request_while_an_answer_is_on_its_way_gets_its_own_branch() {
    let world = World::new();
    World::expect(&world.chat, Answer::Sse(chat_sse("1")));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let branch = turn.branch_id.clone();
    turn.collect().await.unwrap();
    let next = chat_body("gpt-a", &[user("one"), json!({"role":"assistant","content":"1"}), user("two")]);
    let (send, chunks) = mpsc::unbounded_channel();
    World::expect(&world.chat, Answer::Live(chunks));
    let slow = world.begin(&CHAT, &next).await;
    assert_eq!(slow.branch_id, branch);
    World::expect(&world.chat, Answer::Sse(chat_sse("fast")));
    let fast = world.begin(&CHAT, &next).await;
    assert_ne!(fast.branch_id, branch);
    fast.collect().await.unwrap();
    send.send(Ok(chat_sse("slow").into())).unwrap();
    drop(send);
    slow.collect().await.unwrap();
    assert_eq!(world.kinds(&branch).await.len(), 4);
}
