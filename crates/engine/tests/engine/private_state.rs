//! Private state goes to its owner and to nobody else.

use crate::support::*;
use serde_json::{Value, json};
use throughline_format::{UnifiedId, clause};
use throughline_store::{SealedResource, WriteBatch, WriteOp};

fn thinking(signature: &str) -> Vec<Value> {
    vec![
        json!({"type":"thinking","thinking":"hm","signature":signature}),
        json!({"type":"text","text":"done"}),
    ]
}

fn with_thinking(mut body: Value) -> Value {
    body["thinking"] = json!({"type":"adaptive"});
    body
}

#[tokio::test]
async fn a_signature_returns_to_its_owner_even_when_the_client_never_saw_it() {
    clause!("CKPT-05");
    let world = World::new();
    World::expect(&world.anthropic, Answer::Sse(anthropic_sse(&thinking("SIGNATURE-1"), "end_turn")));
    let first = world.begin(&CHAT, &chat_body("claude-x", &[user("one")])).await;
    first.collect().await.unwrap();

    let second = chat_body(
        "claude-x",
        &[user("one"), json!({"role":"assistant","content":"done"}), user("two")],
    );
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"ok"})], "end_turn")),
    );
    let mut second = second;
    second["reasoning_effort"] = json!("high");
    world.begin(&CHAT, &second).await.collect().await.unwrap();
    assert!(
        World::last_call(&world.anthropic).to_string().contains("SIGNATURE-1"),
        "the owner gets its signature back"
    );

    let mut third = chat_body("gpt-a", &[user("one"), json!({"role":"assistant","content":"done"}), user("three")]);
    World::expect(&world.chat, Answer::Sse(chat_sse("ok")));
    world.begin(&CHAT, &third).await.collect().await.unwrap();
    assert!(
        !World::last_call(&world.chat).to_string().contains("SIGNATURE-1"),
        "another provider does not"
    );

    third["model"] = json!("claude-other");
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"ok"})], "end_turn")),
    );
    world.begin(&CHAT, &third).await.collect().await.unwrap();
    assert!(
        !World::last_call(&world.anthropic).to_string().contains("SIGNATURE-1"),
        "another credential of the same provider does not"
    );
}

#[tokio::test]
async fn only_what_the_request_tells_of_is_opened() {
    let world = World::new();
    World::expect(&world.anthropic, Answer::Sse(anthropic_sse(&thinking("SIGNATURE-1"), "end_turn")));
    let first = world.begin(&CHAT, &chat_body("claude-x", &[user("one")])).await;
    let conversation = first.conversation_id.clone();
    first.collect().await.unwrap();
    // Of the same owner, as another branch would have it, and damaged: whoever opens it fails.
    let kept = world.store.resources(&conversation, None).await.unwrap().remove(0);
    let other = SealedResource {
        resource_id: UnifiedId::parse("op_other.i0.s0").unwrap(),
        subject: None,
        ..kept
    };
    let batch = WriteBatch::new(other.created_at, conversation).with(WriteOp::PutResource(Box::new(other)));
    world.store.commit(batch).await.unwrap();

    let mut second = chat_body(
        "claude-x",
        &[user("one"), json!({"role":"assistant","content":"done"}), user("two")],
    );
    second["reasoning_effort"] = json!("high");
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"ok"})], "end_turn")),
    );
    world.begin(&CHAT, &second).await.collect().await.unwrap();
    assert!(World::last_call(&world.anthropic).to_string().contains("SIGNATURE-1"));
}

#[tokio::test]
async fn a_client_of_the_owners_protocol_gets_the_signature_and_may_present_it() {
    let world = World::new();
    World::expect(&world.anthropic, Answer::Sse(anthropic_sse(&thinking("SIGNATURE-2"), "end_turn")));
    let turn = world
        .begin(&ANTHROPIC, &with_thinking(anthropic_body("claude-x", &[user("one")])))
        .await;
    let (encode, codec) = (turn.encode.clone(), throughline_protocols::codec_of(&ANTHROPIC).unwrap());
    let result = turn.collect().await.unwrap();
    let answer: Value = serde_json::from_str(&codec.encode_response(&result, &encode).unwrap().body).unwrap();
    assert_eq!(answer["content"][0]["signature"], "SIGNATURE-2");

    let next = with_thinking(anthropic_body(
        "claude-x",
        &[user("one"), json!({"role":"assistant","content":answer["content"]}), user("two")],
    ));
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"ok"})], "end_turn")),
    );
    world.begin(&ANTHROPIC, &next).await.collect().await.unwrap();
    assert_eq!(
        world.anthropic.0.raw_calls.lock().unwrap()[1],
        next.to_string(),
        "known state of the owner passes through"
    );
}

#[tokio::test]
async fn a_signature_of_unknown_origin_goes_to_nobody() {
    let world = World::new();
    let history = [
        user("one"),
        json!({"role":"assistant","content":thinking("FROM-ELSEWHERE")}),
        user("two"),
    ];
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"ok"})], "end_turn")),
    );
    let turn = world.begin(&ANTHROPIC, &with_thinking(anthropic_body("claude-x", &history))).await;
    turn.collect().await.unwrap();
    let sent = World::last_call(&world.anthropic).to_string();
    assert!(!sent.contains("FROM-ELSEWHERE"));
    assert!(sent.contains("done"));
}

#[tokio::test]
async fn synthetic_signatures_never_go_upstream() {
    throughline_format::clause!("REAS-03");
    let world = World::new();
    let sse = chat_frame(&json!([{"index":0,"delta":{"role":"assistant","reasoning_content":"let me see"},"finish_reason":null}]))
        + &chat_sse("answer");
    World::expect(&world.chat, Answer::Sse(sse));
    let turn = world
        .begin(&ANTHROPIC, &with_thinking(anthropic_body("gpt-a", &[user("one")])))
        .await;
    let (encode, codec) = (turn.encode.clone(), throughline_protocols::codec_of(&ANTHROPIC).unwrap());
    let result = turn.collect().await.unwrap();
    let answer: Value = serde_json::from_str(&codec.encode_response(&result, &encode).unwrap().body).unwrap();
    assert!(answer["content"][0]["signature"].as_str().unwrap().starts_with("tl-synthetic:"));

    let next = with_thinking(anthropic_body(
        "claude-x",
        &[user("one"), json!({"role":"assistant","content":answer["content"]}), user("two")],
    ));
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"ok"})], "end_turn")),
    );
    world.begin(&ANTHROPIC, &next).await.collect().await.unwrap();
    let sent = World::last_call(&world.anthropic).to_string();
    assert!(!sent.contains("tl-synthetic:"));
    assert!(sent.contains("answer"));
}
