//! One turn end to end: what goes upstream, what is committed, what the client gets.

use crate::support::*;
use serde_json::json;
use throughline_format::{ErrorCategory, OperationState, UnifiedError, UnifiedFinishReason, UnifiedRequirement, clause};
use throughline_protocols::Feature;

#[tokio::test]
async fn the_same_protocol_passes_the_clients_bytes_through() {
    let world = World::new();
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"hello"})], "end_turn")),
    );
    let body =
        json!({"model":"claude-x","max_tokens":10,"stream":true,"future_field":{"n":1.0},"messages":[{"role":"user","content":"hi"}]});
    let turn = world.begin(&ANTHROPIC, &body).await;
    let result = turn.collect().await.unwrap();
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Stop));
    assert_eq!(world.anthropic.0.raw_calls.lock().unwrap()[0], body.to_string());
}

#[tokio::test]
async fn a_conversation_changes_provider_and_stays_whole() {
    let world = World::new();
    World::expect(&world.chat, Answer::Sse(chat_sse("from chat")));
    let first = world.begin(&ANTHROPIC, &anthropic_body("gpt-a", &[user("one")])).await;
    let branch = first.branch_id.clone();
    first.collect().await.unwrap();

    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"from claude"})], "end_turn")),
    );
    let said = |text: &str| json!({"role":"assistant","content":[{"type":"text","text":text}]});
    let turn = world
        .begin(
            &ANTHROPIC,
            &anthropic_body("claude-x", &[user("one"), said("from chat"), user("two")]),
        )
        .await;
    assert_eq!(turn.branch_id, branch);
    turn.collect().await.unwrap();

    World::expect(&world.chat, Answer::Sse(chat_sse("again")));
    let turn = world
        .begin(
            &ANTHROPIC,
            &anthropic_body(
                "gpt-a",
                &[user("one"), said("from chat"), user("two"), said("from claude"), user("three")],
            ),
        )
        .await;
    assert_eq!(turn.branch_id, branch);
    turn.collect().await.unwrap();

    let sent = World::last_call(&world.chat);
    let texts: Vec<String> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(texts, ["one", "from chat", "two", "from claude", "three"]);
    assert_eq!(
        world.kinds(&branch).await,
        [
            "message",
            "message",
            "provider-switch",
            "message",
            "message",
            "provider-switch",
            "message",
            "message"
        ]
    );
    let items = world.items(&branch).await;
    assert!(
        items.iter().zip(1..).all(|(item, n)| item.sequence == n),
        "the sequence is dense along the path"
    );
    assert!(items.windows(2).all(|pair| pair[1].parent_id.as_ref() == Some(&pair[0].id)));
}

#[tokio::test]
async fn a_required_feature_that_the_target_lacks_ends_the_turn_before_anything_is_sent() {
    clause!("LOSS-02");
    let mut world = World::new();
    world.requirements = vec![(Feature::GenerationTopK, UnifiedRequirement::Required)];
    let mut body = anthropic_body("gpt-a", &[user("one")]);
    body["top_k"] = json!(5);
    let error = world.engine.begin(world.request(&ANTHROPIC, &body), &world).await.err().unwrap();
    assert_eq!(error.error.code, "unsupported.projection");
    assert!(error.loss.unwrap().is_unsupported());
    assert!(world.chat.0.calls.lock().unwrap().is_empty());
    assert!(world.conversations().await.is_empty());

    // The same wish, only preferred: the turn goes on, and the report says what it lost.
    world.requirements.clear();
    World::expect(&world.chat, Answer::Sse(chat_sse("ok")));
    let turn = world.begin(&ANTHROPIC, &body).await;
    assert!(turn.loss.entries.iter().any(|e| e.feature == "generation.top_k"));
    turn.collect().await.unwrap();
}

#[tokio::test]
async fn a_refusal_of_the_provider_is_the_operations_error() {
    let world = World::new();
    World::expect(
        &world.chat,
        Answer::Refuse(UnifiedError::new(ErrorCategory::RateLimit, "provider", "slow down")),
    );
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let id = turn.operation_id.clone();
    let branch = turn.branch_id.clone();
    let told = turn.collect().await.unwrap_err();
    assert_eq!(told.code, "rate-limit.provider");
    let operation = world.engine.operation(&World::principal(), &id).await.unwrap();
    assert_eq!(operation.state, OperationState::Failed);
    let stored = operation.error.unwrap();
    assert_eq!(stored.category, ErrorCategory::RateLimit);
    let result = world.engine.result(&World::principal(), &id).await.unwrap().unwrap();
    for error in [told, stored, result.error.unwrap()] {
        assert_eq!(
            error.operation_id.as_ref(),
            Some(&id),
            "every error of an operation says whose it is"
        );
    }
    // The same request again answers in the same place: the conversation is found by nothing yet, since no answer was given.
    assert_eq!(world.kinds(&branch).await, ["message"]);
}

#[tokio::test]
async fn an_unstreamed_answer_gives_the_same_record_as_a_stream() {
    let world = World::new();
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"hello"})], "end_turn")),
    );
    let streamed = world
        .begin(&ANTHROPIC, &anthropic_body("claude-x", &[user("a")]))
        .await
        .collect()
        .await
        .unwrap();
    World::expect(
        &world.anthropic,
        Answer::Json(
            json!({"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":7}}),
        ),
    );
    let mut body = anthropic_body("claude-x", &[user("b")]);
    body["stream"] = json!(false);
    let whole = world.begin(&ANTHROPIC, &body).await.collect().await.unwrap();
    assert_eq!(
        throughline_format::content_fingerprint(&whole).unwrap(),
        throughline_format::content_fingerprint(&streamed).unwrap()
    );
}

#[tokio::test]
async fn a_torn_stream_is_an_interruption_and_the_conversation_goes_on() {
    let world = World::new();
    let torn = anthropic_sse(&[json!({"type":"text","text":"half an ans"})], "end_turn");
    let torn = torn.split("event: content_block_stop").next().unwrap().to_owned();
    World::expect(&world.anthropic, Answer::Sse(torn));
    let turn = world.begin(&ANTHROPIC, &anthropic_body("claude-x", &[user("one")])).await;
    let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
    assert_eq!(turn.collect().await.unwrap_err().category, ErrorCategory::Interrupted);
    let result = world.engine.result(&World::principal(), &id).await.unwrap().unwrap();
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Interrupted));
    assert_eq!(world.kinds(&branch).await, ["message", "message", "interruption"]);

    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"whole"})], "end_turn")),
    );
    let next = anthropic_body(
        "claude-x",
        &[user("one"), json!({"role":"assistant","content":"half an ans"}), user("go on")],
    );
    let turn = world.begin(&ANTHROPIC, &next).await;
    assert_eq!(turn.branch_id, branch, "what was delivered is evidence, even when it was cut");
    turn.collect().await.unwrap();
}

#[tokio::test]
async fn heartbeats_of_the_provider_take_no_number() {
    clause!("EVT-01");
    let world = World::new();
    let sse = anthropic_sse(&[json!({"type":"text","text":"hello"})], "end_turn");
    let with_pings = sse.replace(
        "event: content_block_delta",
        "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: content_block_delta",
    );
    World::expect(&world.anthropic, Answer::Sse(with_pings));
    let turn = world.begin(&ANTHROPIC, &anthropic_body("claude-x", &[user("one")])).await;
    let id = turn.operation_id.clone();
    turn.collect().await.unwrap();
    let mut replay = world.engine.subscribe(&World::principal(), &id, 0).await.unwrap();
    let mut expected = 1;
    while let Some(delivery) = replay.next().await.unwrap() {
        assert_eq!(delivery.sequence, expected);
        assert!(!delivery.event().unwrap().body.kind().starts_with("heartbeat"));
        expected += 1;
    }
}

#[tokio::test]
async fn a_turn_of_another_provider_is_never_passed_through() {
    let world = World::new();
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"from claude"})], "end_turn")),
    );
    world
        .begin(&CHAT, &chat_body("claude-x", &[user("one")]))
        .await
        .collect()
        .await
        .unwrap();
    World::expect(&world.chat, Answer::Sse(chat_sse("ok")));
    let mut body = chat_body(
        "gpt-a",
        &[user("one"), json!({"role":"assistant","content":"from claude"}), user("two")],
    );
    body["a_field_of_tomorrow"] = json!(1);
    world.begin(&CHAT, &body).await.collect().await.unwrap();
    let sent = World::last_call(&world.chat);
    assert_eq!(sent["messages"].as_array().unwrap().len(), 3);
    assert_ne!(world.chat.0.raw_calls.lock().unwrap()[0], body.to_string());
}

#[tokio::test]
async fn an_item_over_the_limit_ends_the_operation_and_keeps_what_came_before() {
    clause!("SEC-04");
    let world = World::new();
    let (send, chunks) = tokio::sync::mpsc::unbounded_channel();
    World::expect(&world.chat, Answer::Live(chunks));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
    let piece = "\u{1}\"x".repeat(64 * 1024);
    for _ in 0..60 {
        let delta = chat_frame(&json!([{"index":0,"delta":{"content":piece},"finish_reason":null}]));
        if send.send(Ok(delta.into())).is_err() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(turn.collect().await.unwrap_err().code, "limit.item");
    let operation = world.engine.operation(&World::principal(), &id).await.unwrap();
    assert_eq!(operation.state, OperationState::Failed);
    assert_eq!(world.kinds(&branch).await, ["message", "message"]);
    assert_eq!(world.engine.running(), 0);
}

#[tokio::test]
async fn one_long_text_and_very_many_pieces_are_committed_in_parts() {
    let world = World::new();
    // Quotes and non-ASCII text, so that a cut in the middle of a character would show.
    let long = "é\"ü".repeat(400_000);
    World::expect(
        &world.anthropic,
        Answer::Json(
            json!({"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":long}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":7}}),
        ),
    );
    let mut body = anthropic_body("claude-x", &[user("long")]);
    body["stream"] = json!(false);
    let result = world.begin(&ANTHROPIC, &body).await.collect().await.unwrap();
    assert_eq!(result.output[0].parts()[0].as_text().unwrap(), long);

    let blocks: Vec<_> = (0..700)
        .map(|n| json!({"type":"tool_use","id":format!("toolu_{n}"),"name":"f","input":{"n":n}}))
        .collect();
    World::expect(&world.anthropic, Answer::Sse(anthropic_sse(&blocks, "tool_use")));
    let mut body = anthropic_body("claude-x", &[user("many")]);
    body["tools"] = json!([{"name":"f","input_schema":{"type":"object"}}]);
    let result = world.begin(&ANTHROPIC, &body).await.collect().await.unwrap();
    assert_eq!(result.output.len(), 700);
}

#[tokio::test]
async fn a_tool_whose_name_the_target_refuses_is_called_by_its_own_name_again() {
    let world = World::new();
    let long = format!("mcp__{}", "a_very_long_server_name__".repeat(4));
    let mut body = anthropic_body("gpt-a", &[user("go")]);
    body["tools"] = json!([{"name":long,"input_schema":{"type":"object"}}, {"name":"short","input_schema":{"type":"object"}}]);
    // The provider is asked first, so that its answer can use the name that it was offered.
    let (send, chunks) = tokio::sync::mpsc::unbounded_channel();
    World::expect(&world.chat, Answer::Live(chunks));
    let turn = world.begin(&ANTHROPIC, &body).await;
    let branch = turn.branch_id.clone();
    while world.chat.0.calls.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let offered = World::last_call(&world.chat)["tools"][0]["function"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(offered.len() <= 64 && offered != long);
    let calls = json!([
        {"index":0,"id":"c1","type":"function","function":{"name":offered,"arguments":"{}"}},
        {"index":1,"id":"c2","type":"function","function":{"name":"short","arguments":"{}"}}
    ]);
    let sse = chat_frame(&json!([{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":calls},"finish_reason":null}]))
        + &chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"tool_calls"}]))
        + "data: [DONE]\n\n";
    send.send(Ok(sse.into())).unwrap();
    drop(send);
    let (encode, codec) = (turn.encode.clone(), throughline_protocols::codec_of(&ANTHROPIC).unwrap());
    let result = turn.collect().await.unwrap();
    let answer: serde_json::Value = serde_json::from_str(&codec.encode_response(&result, &encode).unwrap().body).unwrap();
    assert_eq!(answer["content"][0]["name"], json!(long));
    assert_eq!(answer["content"][1]["name"], "short");

    // The next turn goes on at the head, and the provider finds its call under the name that it knows.
    World::expect(&world.chat, Answer::Sse(chat_sse("done")));
    let results = json!([{"type":"tool_result","tool_use_id":"c1","content":"1"},{"type":"tool_result","tool_use_id":"c2","content":"2"}]);
    let mut next = anthropic_body(
        "gpt-a",
        &[
            user("go"),
            json!({"role":"assistant","content":answer["content"]}),
            json!({"role":"user","content":results}),
        ],
    );
    next["tools"] = body["tools"].clone();
    let turn = world.begin(&ANTHROPIC, &next).await;
    assert_eq!(turn.branch_id, branch);
    turn.collect().await.unwrap();
    assert_eq!(
        World::last_call(&world.chat)["messages"][1]["tool_calls"][0]["function"]["name"],
        json!(offered)
    );
}
