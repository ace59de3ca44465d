//! A history that comes back changed: results that the client pruned or annotated, and messages that it edited.

use crate::support::*;
use serde_json::{Value, json};
use throughline_engine::{ItemQuery, Turn};
use throughline_format::validate::semantics;
use throughline_format::{UnifiedId, clause};

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}})
}

fn calls(ids: &[&str]) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>()})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn body(model: &str, messages: &[Value]) -> Value {
    json!({"model": model, "stream": true, "messages": messages, "tools": [{"type": "function", "function": {"name": "read"}}]})
}

fn calls_sse(ids: &[&str]) -> String {
    let mut sse = String::new();
    for (index, id) in ids.iter().enumerate() {
        let call = json!({"index": index, "id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}});
        sse += &chat_frame(
            &json!([{"index": 0, "delta": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": null}]),
        );
    }
    sse + &chat_frame(&json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])) + "data: [DONE]\n\n"
}

async fn ask(world: &World, messages: &[Value], answer: String) -> (UnifiedId, UnifiedId) {
    World::expect(&world.chat, Answer::Sse(answer));
    end(world.begin(&CHAT, &body("gpt-a", messages)).await).await
}

async fn end(turn: Turn) -> (UnifiedId, UnifiedId) {
    let place = (turn.conversation_id.clone(), turn.branch_id.clone());
    turn.collect().await.unwrap();
    place
}

/// Texts of the results on a branch, as the API tells them.
async fn results(world: &World, (conversation, branch): &(UnifiedId, UnifiedId)) -> Vec<String> {
    let query = ItemQuery {
        branch: Some(branch.clone()),
        limit: 100,
        ..ItemQuery::default()
    };
    let page = world.engine.items(&World::principal(), conversation, query).await.unwrap();
    let results = page.items.iter().filter(|item| item.body.kind() == "tool-result");
    results.map(|item| item.parts()[0].as_text().unwrap().to_owned()).collect()
}

/// A conversation with two calls, their results, and an answer after them.
async fn with_results(world: &World) -> (UnifiedId, UnifiedId) {
    let root = ask(world, &[user("go")], calls_sse(&["c1", "c2"])).await;
    let second = [
        user("go"),
        calls(&["c1", "c2"]),
        result("c1", "one, at length"),
        result("c2", "two, at length"),
    ];
    assert_eq!(ask(world, &second, chat_sse("done")).await, root);
    root
}

fn pruned(tail: &[Value]) -> Vec<Value> {
    let mut messages = vec![
        user("go"),
        calls(&["c1", "c2"]),
        result("c1", "[cut]"),
        result("c2", "two, at length"),
        said("done"),
    ];
    messages.extend_from_slice(tail);
    messages
}

#[tokio::test]
async fn a_result_that_the_client_pruned_is_revised_and_read_so_from_then_on() {
    clause!("ITEM-03");
    let world = World::new();
    let root = with_results(&world).await;
    assert_eq!(
        ask(&world, &pruned(&[user("more")]), chat_sse("ok")).await,
        root,
        "it stays at the head"
    );

    assert_eq!(results(&world, &root).await, ["[cut]", "two, at length"]);
    // The journal keeps what was there.
    let bundle = world.engine.export(&World::principal(), &root.0).await.unwrap();
    let stored: Vec<&str> = bundle
        .items
        .iter()
        .filter(|i| i.body.kind() == "tool-result")
        .map(|i| i.parts()[0].as_text().unwrap())
        .collect();
    assert_eq!(stored, ["one, at length", "two, at length"]);
    assert_eq!(bundle.revisions.len(), 1);
    assert_eq!(
        (bundle.revisions[0].number, bundle.revisions[0].reason.as_str()),
        (1, "client.rewrite")
    );
    assert!(semantics::export(&bundle).is_empty(), "{:?}", semantics::export(&bundle));

    // The same history again is no further revision, and another provider reads the client's text.
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type": "text", "text": "fine"})], "end_turn")),
    );
    let turn = world
        .begin(&CHAT, &body("claude-x", &pruned(&[user("more"), said("ok"), user("again")])))
        .await;
    assert_eq!(end(turn).await, root);
    let sent = World::last_call(&world.anthropic).to_string();
    assert!(sent.contains("[cut]") && !sent.contains("one, at length"), "{sent}");
    assert_eq!(world.store.branch_revisions(&root.1).await.unwrap().len(), 1);

    // What only names the conversation reads it too.
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type": "text", "text": "yes"})], "end_turn")),
    );
    let mut request = world.request(&CHAT, &body("claude-x", &[user("and then?")]));
    request.conversation = Some(root.0.clone());
    end(world.begin_with(request).await).await;
    let sent = World::last_call(&world.anthropic).to_string();
    assert!(sent.contains("[cut]") && !sent.contains("one, at length"), "{sent}");
}

#[tokio::test]
async fn another_result_with_nothing_behind_it_is_another_run_and_forks_after_the_call() {
    let world = World::new();
    let root = with_results(&world).await;
    let again = [
        user("go"),
        calls(&["c1", "c2"]),
        result("c1", "another run"),
        result("c2", "two, at length"),
    ];
    let fork = ask(&world, &again, chat_sse("done again")).await;
    assert_eq!(fork.0, root.0);
    assert_ne!(fork.1, root.1);
    assert_eq!(results(&world, &fork).await, ["another run", "two, at length"]);
    assert_eq!(
        results(&world, &root).await,
        ["one, at length", "two, at length"],
        "the first run is left alone"
    );
    assert!(world.store.branch_revisions(&fork.1).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_edited_message_with_answers_behind_it_forks_before_it() {
    let world = World::new();
    let root = with_results(&world).await;
    ask(&world, &pruned(&[user("more")]), chat_sse("ok")).await;
    let edited = [
        user("go on"),
        calls(&["c1", "c2"]),
        result("c1", "one, at length"),
        result("c2", "two, at length"),
        said("done"),
        user("more"),
    ];
    let other = ask(&world, &edited, chat_sse("ok")).await;
    assert_ne!(other.0, root.0, "nothing before the edit was answered by this gateway");
    assert_eq!(results(&world, &root).await, ["[cut]", "two, at length"]);

    let late = pruned(&[user("less"), said("ok"), user("again")]);
    let fork = ask(&world, &late, chat_sse("fine")).await;
    assert_eq!(fork.0, root.0);
    assert_ne!(fork.1, root.1);
    let texts: Vec<String> = world
        .items(&root.1)
        .await
        .iter()
        .flat_map(|i| i.parts().iter().filter_map(|p| p.as_text().map(str::to_owned)))
        .collect();
    assert!(
        texts.contains(&"more".to_owned()) && !texts.contains(&"less".to_owned()),
        "{texts:?}"
    );
}

#[tokio::test]
async fn results_are_compared_by_the_place_of_their_call_when_an_id_comes_twice() {
    let world = World::new();
    let root = ask(&world, &[user("go")], calls_sse(&["1"])).await;
    let mut messages = vec![user("go"), calls(&["1"]), result("1", "first")];
    assert_eq!(ask(&world, &messages, calls_sse(&["1"])).await, root);
    messages.extend([calls(&["1"]), result("1", "second")]);
    assert_eq!(ask(&world, &messages, chat_sse("done")).await, root);
    messages.extend([said("done"), user("more")]);
    assert_eq!(ask(&world, &messages, chat_sse("ok")).await, root);
    assert!(
        world.store.branch_revisions(&root.1).await.unwrap().is_empty(),
        "nothing was changed"
    );
    messages[2] = result("1", "[cut]");
    messages.extend([said("ok"), user("and more")]);
    assert_eq!(ask(&world, &messages, chat_sse("ok")).await, root);
    assert_eq!(results(&world, &root).await, ["[cut]", "second"]);
}

#[tokio::test]
async fn two_copies_of_a_history_do_not_revise_a_result_for_ever() {
    let world = World::new();
    let root = with_results(&world).await;
    let mut tail = Vec::new();
    for turn in 0..70 {
        tail.push(user(&format!("question {turn}")));
        let mut messages = pruned(&tail);
        messages[2] = result("c1", &format!("copy {}", turn % 2));
        assert_eq!(ask(&world, &messages, chat_sse("ok")).await, root);
        assert!(World::last_call(&world.chat).to_string().contains(&format!("copy {}", turn % 2)));
        tail.push(said("ok"));
    }
    assert_eq!(world.store.branch_revisions(&root.1).await.unwrap().len(), 64);
}

#[tokio::test]
async fn a_summary_made_after_a_revision_covers_the_items_as_they_were_appended() {
    let world = World::new();
    let root = with_results(&world).await;
    ask(&world, &pruned(&[user("more")]), chat_sse("ok")).await;
    let summary = "They read both, and each of them was answered in full and at length.";
    let orders = pruned(&[user("more"), said("ok"), user("sum up")]);
    assert_eq!(ask(&world, &orders, chat_sse(summary)).await, root);
    World::expect(&world.chat, Answer::Sse(chat_sse("three")));
    let mut request = world.request(&CHAT, &body("gpt-a", &[user(&format!("Earlier:\n{summary}")), user("go on")]));
    request.conversation = Some(root.0.clone());
    let fork = end(world.begin_with(request).await).await;
    assert!(world.kinds(&fork.1).await.contains(&"compaction-summary"));
    let bundle = world.engine.export(&World::principal(), &root.0).await.unwrap();
    assert!(semantics::export(&bundle).is_empty(), "{:?}", semantics::export(&bundle));
}
