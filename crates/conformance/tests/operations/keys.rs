//! Idempotency keys over a restart, and the life of the operations that hold them.

use crate::support::*;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use throughline_engine::{Principal, TurnOptions, TurnRequest};
use throughline_format::{OperationState, ProtocolFamily};
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
