//! Idempotency keys and names of sessions over a restart, and the life of the operations that hold them.

use crate::support::*;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use throughline_engine::{ClientSession, Principal, TurnOptions, TurnRequest};
use throughline_format::{ErrorCategory, OperationState, ProtocolFamily, UnifiedError};
use throughline_protocols::codec_of;

fn keyed(mut request: TurnRequest, key: &str) -> TurnRequest {
    request.options.idempotency_key = Some(key.into());
    request
}

fn messages(text: &str) -> TurnRequest {
    let body: Value = json!({"model": "claude-x", "max_tokens": 10, "stream": true, "messages": [{"role": "user", "content": text}]});
    request(codec_of(&ProtocolFamily::AnthropicMessages).unwrap(), &body, TurnOptions::default())
}

#[tokio::test]
async fn a_key_outlives_the_process_and_not_its_conversation() {
    for home in homes() {
        let world = World::open(&home, 1);
        let mut ids = Vec::new();
        for request in [native(&[], &[said("once")]), messages("twice")] {
            world.answers(&says("done"));
            let key = format!("key-{}", ids.len());
            let turn = world.begin(keyed(request, &key)).await;
            ids.push(turn.operation_id.clone());
            turn.collect().await.unwrap();
        }
        world.close(&home).await;

        let world = World::open(&home, 1_000);
        world.engine.recover(&world).await.unwrap();
        for (index, request) in [native(&[], &[said("once")]), messages("twice")].into_iter().enumerate() {
            let turn = world.begin(keyed(request, &format!("key-{index}"))).await;
            assert_eq!(turn.operation_id, ids[index]);
            assert_eq!(turn.collect().await.unwrap().output[0].parts()[0].as_text(), Some("done"));
        }
        assert!(world.provider.bodies.lock().unwrap().is_empty(), "nothing was sent again");
        let refused = world.try_begin(keyed(messages("something else"), "key-1")).await.err().unwrap();
        assert_eq!(refused.error.code, "conflict.idempotency");
        // Another principal's key of the same name is another key, and so is no key.
        let mut foreign = keyed(messages("something else"), "key-1");
        foreign.principal = Principal::new("you");
        for request in [foreign, messages("twice")] {
            world.answers(&says("new"));
            let turn = world.begin(request).await;
            assert!(!ids.contains(&turn.operation_id));
            turn.collect().await.unwrap();
        }
        world.clock.0.fetch_add(8 * DAY, Ordering::SeqCst);
        world.engine.clean().await.unwrap();
        world.answers(&says("again"));
        let turn = world.begin(keyed(messages("something else"), "key-1")).await;
        assert!(!ids.contains(&turn.operation_id), "the key went with the conversation");
        let id = turn.operation_id.clone();
        drop(turn);
        world.until(&id, OperationState::Completed).await;
        world.close(&home).await;
    }
}

#[tokio::test]
async fn the_session_of_a_client_outlives_the_process_as_a_keyed_hash_and_dies_with_its_conversation() {
    let of = |text: &str, id: &str| TurnRequest {
        session: Some(ClientSession {
            family: "claude-code".into(),
            id: id.into(),
            subagent: None,
            asks_again: false,
        }),
        ..messages(text)
    };
    let canary = "canary-of-a-session";
    for home in homes() {
        let world = World::open(&home, 1);
        let feed = world.live();
        let turn = world.begin(of("once", canary)).await;
        let conversation = turn.conversation_id.clone();
        feed.send(Err(UnifiedError::new(ErrorCategory::Server, "x", "no"))).unwrap();
        drop(feed);
        assert!(turn.collect().await.is_err());
        world.close(&home).await;
        if let Home::Sqlite(folder) = &home {
            let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
            let bytes: Vec<u8> = files
                .filter(|path| path.is_file())
                .flat_map(|path| std::fs::read(path).unwrap())
                .collect();
            let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(holds("once") && !holds(canary));
        }

        let world = World::open(&home, 1_000);
        for (id, joins) in [("another", false), (canary, true)] {
            world.answers(&says("done"));
            let turn = world.begin(of("once", id)).await;
            assert_eq!(turn.conversation_id == conversation, joins, "{id}");
            turn.collect().await.unwrap();
        }
        world.clock.0.fetch_add(8 * DAY, Ordering::SeqCst);
        world.engine.clean().await.unwrap();
        world.answers(&says("anew"));
        let mut again = of("once", canary);
        again.session.as_mut().unwrap().asks_again = true;
        let turn = world.begin(again).await;
        assert_ne!(turn.conversation_id, conversation);
        turn.collect().await.unwrap();
        world.close(&home).await;
    }
}
