//! Chats of the Vercel AI SDK: the stream, and the stream again from its beginning while it runs.

use crate::support::{Frames, Settings, World, delta, done, header};
use bytes::Bytes;
use serde_json::{Value, json};
use throughline_format::Timestamp;
use throughline_gateway::auth::ClientKeys;

fn body(chat: &str, messages: &Value) -> Value {
    json!({"id": chat, "model": "plain", "messages": messages, "trigger": "submit-message"})
}

fn hello() -> Value {
    json!([{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}])
}

/// Reads until the chunks have said this text.
async fn until(frames: &mut Frames, text: &str) -> Vec<Value> {
    let (mut chunks, mut said) = (Vec::new(), String::new());
    while said != text {
        let frame = frames.next().await.unwrap().unwrap();
        let chunk: Value = serde_json::from_str(&frame.data).unwrap();
        said.push_str(chunk["delta"].as_str().unwrap_or_default());
        chunks.push(chunk);
    }
    chunks
}

async fn rest(frames: Frames) -> Vec<String> {
    frames.rest().await.into_iter().map(|frame| frame.data).collect()
}

#[tokio::test]
async fn a_chat_that_comes_back_reads_its_stream_from_the_beginning() {
    let world = World::new().await;
    let feed = world.provider.live();
    feed.send(Ok(Bytes::from(delta("one ")))).unwrap();
    let response = world.post("/vercel/chat", &body("c/1", &hello())).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "x-vercel-ai-ui-message-stream"), "v1");
    let operation = header(&response, "throughline-operation");
    let mut first = Frames::new(response);
    let seen = until(&mut first, "one ").await;
    assert_eq!(seen[0], json!({"type": "start", "messageId": operation}));
    drop(first);

    // The ID of a chat is anything, so a client escapes it.
    let again = world.get("/vercel/chat/c%2F1/stream").send().await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(header(&again, "x-vercel-ai-ui-message-stream"), "v1");
    assert_eq!(header(&again, "throughline-operation"), operation);
    let mut again = Frames::new(again);
    assert_eq!(until(&mut again, "one ").await, seen, "the same from the beginning");
    feed.send(Ok(Bytes::from(delta("two")))).unwrap();
    feed.send(Ok(Bytes::from(done()))).unwrap();
    drop(feed);
    let end = rest(again).await;
    assert_eq!(end.last().unwrap(), "[DONE]");
    assert!(end.iter().any(|data| data.contains("\"delta\":\"two\"")));

    for path in ["/vercel/chat/c%2F1/stream", "/vercel/chat/unknown/stream"] {
        let nothing = world.get(path).send().await.unwrap();
        assert_eq!(nothing.status(), 204, "{path}: nothing runs");
    }
}

#[tokio::test]
async fn an_answer_goes_on_with_the_clients_message_and_speaks_its_major() {
    let world = World::new().await;
    let mut messages = hello();
    messages
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "mine", "role": "assistant", "parts": [{"type": "text", "text": "well", "state": "done"}]}));
    for (major, finish) in [(None, json!("stop")), (Some("6"), json!("stop")), (Some("5"), Value::Null)] {
        let feed = world.provider.live();
        feed.send(Ok(Bytes::from(delta("on")))).unwrap();
        feed.send(Ok(Bytes::from(done()))).unwrap();
        drop(feed);
        let mut request = world.post("/vercel/chat", &body("c", &messages));
        if let Some(major) = major {
            request = request.header("throughline-ai-sdk", major);
        }
        let chunks = rest(Frames::new(request.send().await.unwrap())).await;
        assert_eq!(chunks[0], json!({"type": "start", "messageId": "mine"}).to_string());
        let last: Value = serde_json::from_str(&chunks[chunks.len() - 2]).unwrap();
        assert_eq!((&last["type"], &last["finishReason"]), (&json!("finish"), &finish), "{major:?}");
        assert_eq!(last["messageMetadata"]["usage"]["totalTokens"], 7);
    }
    let refused = world
        .post("/vercel/chat", &body("c", &messages))
        .header("throughline-ai-sdk", "4")
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), 400);
    let error: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(error["type"], "error");
    assert!(error["errorText"].as_str().unwrap().contains("throughline-ai-sdk"));
}

#[tokio::test]
async fn a_chat_belongs_to_whoever_began_it() {
    let mut keys = ClientKeys::default();
    let mine = keys.create("me", Timestamp::EPOCH).unwrap().key.to_string();
    let yours = keys.create("you", Timestamp::EPOCH).unwrap().key.to_string();
    let world = World::with(Settings {
        required: true,
        keys,
        ..Settings::default()
    })
    .await;
    let feed = world.provider.live();
    feed.send(Ok(Bytes::from(delta("one ")))).unwrap();
    let begun = world
        .post("/vercel/chat", &body("c", &hello()))
        .bearer_auth(&mine)
        .send()
        .await
        .unwrap();
    assert_eq!(begun.status(), 200);
    let ask = |key: String| world.get("/vercel/chat/c/stream").bearer_auth(key).send();
    assert_eq!(ask(yours).await.unwrap().status(), 204);
    assert_eq!(ask(mine).await.unwrap().status(), 200);
    assert_eq!(world.get("/vercel/chat/c/stream").send().await.unwrap().status(), 401);
}
