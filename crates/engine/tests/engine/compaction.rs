//! Compaction on request: what is read, what stays, and what is refused.

use crate::support::*;
use serde_json::{Value, json};
use throughline_engine::{CompactRequest, Principal};
use throughline_format::compaction::verify;
use throughline_format::{UnifiedContentPart, UnifiedId, UnifiedItemBody, clause};

fn summary(text: &str) -> Vec<UnifiedContentPart> {
    vec![serde_json::from_str(&json!({"partId": "x", "kind": "text", "text": text}).to_string()).unwrap()]
}

fn assistant(text: &str) -> Value {
    json!({"role":"assistant","content":text})
}

fn anthropic_text(text: &str) -> Answer {
    Answer::Sse(anthropic_sse(&[json!({"type":"text","text":text})], "end_turn"))
}

/// Two turns of chat; gives conversation and branch.
async fn talked(world: &World) -> (UnifiedId, UnifiedId) {
    World::expect(&world.chat, Answer::Sse(chat_sse("alpha")));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let place = (turn.conversation_id.clone(), turn.branch_id.clone());
    turn.collect().await.unwrap();
    World::expect(&world.chat, Answer::Sse(chat_sse("beta")));
    let history = [user("one"), assistant("alpha"), user("two")];
    world.begin(&CHAT, &chat_body("gpt-a", &history)).await.collect().await.unwrap();
    place
}

fn request(place: &(UnifiedId, UnifiedId), through: &UnifiedId) -> CompactRequest {
    CompactRequest {
        conversation_id: place.0.clone(),
        branch_id: None,
        through_item_id: through.clone(),
        summary: summary("they said one and alpha"),
    }
}

#[tokio::test]
async fn projections_read_the_summary_and_the_journal_keeps_everything() {
    clause!("ITEM-04");
    let world = World::new();
    let place = talked(&world).await;
    let before = world.items(&place.1).await;
    let made = world
        .engine
        .compact(&World::principal(), request(&place, &before[1].id))
        .await
        .unwrap();
    let UnifiedItemBody::CompactionSummary(told) = &made.body else {
        panic!()
    };
    assert!(told.replaces && told.covers.count == 2);
    let after = world.items(&place.1).await;
    assert_eq!((&after[..4], &after[4]), (&before[..], &made), "nothing is taken away");
    assert_eq!(verify(told, &after), Ok(()));

    // The same protocol and the client's whole history: the summary is read all the same, by every target.
    let history = [user("one"), assistant("alpha"), user("two"), assistant("beta"), user("three")];
    World::expect(&world.chat, Answer::Sse(chat_sse("gamma")));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &history)).await;
    assert_eq!(turn.branch_id, place.1, "the client still lands on its branch");
    turn.collect().await.unwrap();
    let longer = [&history[..], &[assistant("gamma"), user("four")]].concat();
    World::expect(&world.anthropic, anthropic_text("delta"));
    world.begin(&CHAT, &chat_body("claude-x", &longer)).await.collect().await.unwrap();
    for sent in [World::last_call(&world.chat), World::last_call(&world.anthropic)] {
        let text = sent["messages"].to_string();
        let order: Vec<_> = ["they said one and alpha", "two", "beta", "three"]
            .iter()
            .map(|w| text.find(w))
            .collect();
        assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{text}");
        assert!(!text.contains("\"one\"") && !text.contains("\"alpha\""), "{text}");
    }
    assert_eq!(world.items(&place.1).await[..4], before[..]);
}

#[tokio::test]
async fn what_is_no_whole_prefix_of_ones_own_branch_is_refused() {
    let world = World::new();
    let place = talked(&world).await;
    let items = world.items(&place.1).await;
    let unknown = UnifiedId::parse("op_x.i9").unwrap();
    let error = world
        .engine
        .compact(&World::principal(), request(&place, &unknown))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.field_path.as_deref()),
        ("invalid-request.invalid-value", Some("/throughItemId"))
    );
    let mut empty = request(&place, &items[1].id);
    empty.summary.clear();
    let error = world.engine.compact(&World::principal(), empty).await.unwrap_err();
    assert_eq!(error.field_path.as_deref(), Some("/summary"));
    let stranger = Principal::new("somebody else");
    let error = world.engine.compact(&stranger, request(&place, &items[1].id)).await.unwrap_err();
    assert_eq!(error.code, "not-found.resource");
    assert_eq!(world.items(&place.1).await, items, "nothing was written");
}

#[tokio::test]
async fn a_summary_never_parts_a_call_from_its_result() {
    let world = World::new();
    let call = json!({"type":"tool_use","id":"toolu_1","name":"look","input":{}});
    World::expect(&world.anthropic, Answer::Sse(anthropic_sse(&[call], "tool_use")));
    let mut body = chat_body("claude-x", &[user("one")]);
    body["tools"] = json!([{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]);
    let turn = world.begin(&CHAT, &body).await;
    let place = (turn.conversation_id.clone(), turn.branch_id.clone());
    turn.collect().await.unwrap();
    let items = world.items(&place.1).await;
    let error = world
        .engine
        .compact(&World::principal(), request(&place, &items[1].id))
        .await
        .unwrap_err();
    assert!(
        error.message.contains(items[0].id.as_str()),
        "it names where it would be whole: {}",
        error.message
    );
}

#[tokio::test]
async fn while_an_answer_is_on_its_way_nothing_is_compacted_and_checkpoints_fall_with_it() {
    let world = World::new();
    let place = talked(&world).await;
    let items = world.items(&place.1).await;
    let (send, chunks) = tokio::sync::mpsc::unbounded_channel();
    World::expect(&world.responses, Answer::Live(chunks));
    let mut body = chat_body(
        "o-x",
        &[user("one"), assistant("alpha"), user("two"), assistant("beta"), user("three")],
    );
    body["store"] = json!(true);
    let turn = world.begin(&CHAT, &body).await;
    let error = world
        .engine
        .compact(&World::principal(), request(&place, &items[1].id))
        .await
        .unwrap_err();
    assert_eq!(error.code, "conflict.operation-active");
    send.send(Ok(responses_sse("resp_A", "gamma").into())).unwrap();
    turn.collect().await.unwrap();
    let status = || async { world.store.checkpoints(&place.0, None).await.unwrap()[0].status };
    assert_eq!(status().await.as_str(), "active");
    world
        .engine
        .compact(&World::principal(), request(&place, &items[1].id))
        .await
        .unwrap();
    assert_eq!(
        status().await.as_str(),
        "stale",
        "what the provider holds is no longer what is read"
    );
}
