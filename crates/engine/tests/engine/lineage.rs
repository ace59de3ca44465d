//! How a stateless client's history finds its conversation.

use crate::support::*;
use serde_json::{Value, json};
use throughline_engine::lineage::atoms::atoms;
use throughline_engine::lineage::chain::Link;
use throughline_format::ProtocolFamily;
use throughline_protocols::{DecodeContext, codec_of};

/// `{name, protocol, body, atoms, link}`: neighbours with equal links show one history in two forms.
fn vectors() -> Vec<Value> {
    include_str!("lineage_vectors.jsonl")
        .lines()
        .filter(|l| !l.trim().is_empty())
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// The vectors of the design page, when the checkout beside this one is there.
fn shared_vectors() -> Vec<Value> {
    let Some(page) = shared("design/lineage.md") else {
        return Vec::new();
    };
    let text = std::fs::read_to_string(page).unwrap();
    text.lines()
        .filter(|l| l.starts_with("{\"name\""))
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn atoms_and_links_follow_the_vectors() {
    check_vectors(&vectors(), b"vector-key", "principal-v", 5);
    let shared = shared_vectors();
    check_vectors(&shared, b"lineage-test-key", "principal-a", if shared.is_empty() { 0 } else { 3 });
}

fn check_vectors(vectors: &[Value], key: &[u8], principal: &str, least: usize) {
    let mut shown = 0;
    for vector in vectors {
        let Some(codec) = codec_of(&ProtocolFamily::from_word(vector["protocol"].as_str().unwrap())) else {
            continue;
        };
        // The design page's bodies hold the history alone.
        let mut body = vector["body"].clone();
        for (key, value) in [("model", json!("m")), ("max_tokens", json!(9))] {
            body.as_object_mut().unwrap().entry(key).or_insert(value);
        }
        let request = codec
            .decode_request(&serde_json::to_vec(&body).unwrap(), &DecodeContext::offline())
            .unwrap();
        let list = atoms(&request.unified.conversation.items);
        let got: Vec<Value> = list.iter().map(|a| serde_json::from_str(&a.canonical).unwrap()).collect();
        assert_eq!(Value::from(got), vector["atoms"], "{}", vector["name"]);
        let link = Link::root(key, principal).along(&list).last().copied().unwrap();
        assert_eq!(link.hash.to_hex(), vector["link"].as_str().unwrap(), "{}", vector["name"]);
        shown += 1;
    }
    assert!(shown >= least, "only {shown} vectors have a codec");
}

async fn answer(world: &World, body: &Value, text: &str) -> throughline_format::UnifiedId {
    World::expect(&world.chat, Answer::Sse(chat_sse(text)));
    let turn = world.begin(&CHAT, body).await;
    let branch = turn.branch_id.clone();
    turn.collect().await.unwrap();
    branch
}

fn said(text: &str) -> Value {
    json!({"role":"assistant","content":text})
}

#[tokio::test]
async fn a_growing_history_stays_on_one_branch() {
    let world = World::new();
    let mut messages = vec![json!({"role":"system","content":"be brief"}), user("one")];
    let first = answer(&world, &chat_body("gpt-a", &messages), "1").await;
    messages.extend([said("1"), user("two")]);
    assert_eq!(answer(&world, &chat_body("gpt-a", &messages), "2").await, first);
    messages.extend([said("2"), user("three")]);
    assert_eq!(answer(&world, &chat_body("gpt-a", &messages), "3").await, first);
    assert_eq!(world.kinds(&first).await, ["message"; 7]);
    assert_eq!(world.conversations().await.len(), 1);
}

#[tokio::test]
async fn equal_first_messages_stay_apart() {
    let world = World::new();
    let body = chat_body("gpt-a", &[user("hi")]);
    let first = answer(&world, &body, "hello").await;
    assert_ne!(answer(&world, &body, "hello").await, first);
    assert_eq!(world.conversations().await.len(), 2);
}

#[tokio::test]
async fn asking_again_under_an_answer_gives_a_sibling_answer() {
    let world = World::new();
    let root = answer(&world, &chat_body("gpt-a", &[user("one")]), "1").await;
    let again = chat_body("gpt-a", &[user("one"), said("1"), user("two")]);
    assert_eq!(answer(&world, &again, "2").await, root);
    let sibling = answer(&world, &again, "2 again").await;
    assert_ne!(sibling, root);
    let (old, new) = (world.items(&root).await, world.items(&sibling).await);
    assert_eq!(old.len(), 4);
    assert_eq!(new.len(), 4);
    assert_eq!(old[2].id, new[2].id, "the question is shared, not copied");
    assert_ne!(old[3].id, new[3].id);
    assert_eq!(world.conversations().await.len(), 1);
}

#[tokio::test]
async fn an_edited_question_forks_and_a_changed_system_text_does_not() {
    let world = World::new();
    let system = |text: &str| json!({"role":"system","content":text});
    let root = answer(&world, &chat_body("gpt-a", &[system("a"), user("one")]), "1").await;
    let same = answer(
        &world,
        &chat_body("gpt-a", &[system("b"), user("one"), said("1"), user("two")]),
        "2",
    )
    .await;
    assert_eq!(same, root);
    assert_eq!(World::last_call(&world.chat)["messages"][0]["content"], "b");
    let edited = answer(
        &world,
        &chat_body("gpt-a", &[system("b"), user("one"), said("1"), user("zwei")]),
        "2",
    )
    .await;
    assert_ne!(edited, root);
    assert_eq!(world.conversations().await.len(), 1);
}

#[tokio::test]
async fn a_client_that_stops_sending_instructions_has_none() {
    let world = World::new();
    let system = json!({"role":"system","content":"be brief"});
    for (messages, sent) in [
        (vec![system.clone(), user("one")], true),
        (vec![user("one"), said("1"), user("two")], false),
        (vec![system, user("one"), said("1"), user("two"), said("1"), user("three")], true),
    ] {
        let reply = json!({"type":"text","text":"1"});
        World::expect(&world.anthropic, Answer::Sse(anthropic_sse(&[reply], "end_turn")));
        let turn = world.begin(&CHAT, &chat_body("claude-x", &messages)).await;
        turn.collect().await.unwrap();
        let call = World::last_call(&world.anthropic);
        assert_eq!(call.to_string().contains("be brief"), sent, "{call}");
        assert_eq!(call["messages"].as_array().unwrap().len(), messages.len() - usize::from(sent));
    }
    assert_eq!(world.conversations().await.len(), 1);
}

#[tokio::test]
async fn pruned_and_reordered_results_still_land_on_the_head() {
    let world = World::new();
    let call = |id: &str, name: &str| json!({"id":id,"type":"function","function":{"name":name,"arguments":"{}"}});
    let tools = json!([{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]);
    let body = |messages: Vec<Value>| json!({"model":"gpt-a","stream":true,"tools":tools,"messages":messages});
    let calls = json!({"role":"assistant","content":null,"tool_calls":[call("c1", "a"), call("c2", "b")]});
    let mut sse = chat_frame(&json!([{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]));
    for (index, (id, name)) in [("c1", "a"), ("c2", "b")].into_iter().enumerate() {
        sse += &chat_frame(
            &json!([{"index":0,"delta":{"tool_calls":[{"index":index,"id":id,"type":"function","function":{"name":name,"arguments":"{}"}}]},"finish_reason":null}]),
        );
    }
    sse += &chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"tool_calls"}]));
    sse += "data: [DONE]\n\n";
    World::expect(&world.chat, Answer::Sse(sse));
    let turn = world.begin(&CHAT, &body(vec![user("go")])).await;
    let root = turn.branch_id.clone();
    turn.collect().await.unwrap();
    let result = |id: &str, text: &str| json!({"role":"tool","tool_call_id":id,"content":text});
    let second = answer(
        &world,
        &body(vec![user("go"), calls.clone(), result("c2", "2"), result("c1", "1")]),
        "done",
    )
    .await;
    assert_eq!(second, root);
    let third = answer(
        &world,
        &body(vec![
            user("go"),
            calls,
            result("c1", "[cut]"),
            result("c2", "[cut]"),
            said("done"),
            user("more"),
        ]),
        "ok",
    )
    .await;
    assert_eq!(third, root);
}

#[tokio::test]
async fn two_principals_never_meet() {
    let world = World::new();
    let root = answer(&world, &chat_body("gpt-a", &[user("one")]), "1").await;
    World::expect(&world.chat, Answer::Sse(chat_sse("2")));
    let mut request = world.request(&CHAT, &chat_body("gpt-a", &[user("one"), said("1"), user("two")]));
    request.principal = throughline_engine::Principal::new("somebody else");
    let turn = world.begin_with(request).await;
    assert_ne!(turn.branch_id, root);
    turn.collect().await.unwrap();
    assert_eq!(world.conversations().await.len(), 2);
}

#[tokio::test]
async fn a_named_conversation_takes_a_delta_and_must_belong_to_the_principal() {
    let world = World::new();
    World::expect(&world.chat, Answer::Sse(chat_sse("1")));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let (conversation, branch) = (turn.conversation_id.clone(), turn.branch_id.clone());
    turn.collect().await.unwrap();

    World::expect(&world.chat, Answer::Sse(chat_sse("2")));
    let mut request = world.request(&CHAT, &chat_body("gpt-a", &[user("two")]));
    request.conversation = Some(conversation.clone());
    let turn = world.begin_with(request).await;
    assert_eq!(turn.branch_id, branch);
    turn.collect().await.unwrap();
    let sent = World::last_call(&world.chat);
    let texts: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|m| m["content"].clone()).collect();
    assert_eq!(texts, [json!("one"), json!("1"), json!("two")]);

    let mut foreign = world.request(&CHAT, &chat_body("gpt-a", &[user("three")]));
    foreign.conversation = Some(conversation);
    foreign.principal = throughline_engine::Principal::new("somebody else");
    let error = world.engine.begin(foreign, &world).await.err().unwrap().error;
    assert_eq!(error.code, "not-found.resource");
}

#[tokio::test]
async fn twins_are_settled_by_the_ids_that_they_echo() {
    let world = World::new();
    let tools = json!([{"type":"function","function":{"name":"a"}}]);
    let body = |messages: Vec<Value>| json!({"model":"gpt-a","stream":true,"tools":tools,"messages":messages});
    let call = |id: &str| json!({"id":id,"type":"function","function":{"name":"a","arguments":"{}"}});
    let sse = |id: &str| {
        chat_frame(
            &json!([{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":id,"type":"function","function":{"name":"a","arguments":"{}"}}]},"finish_reason":null}]),
        ) + &chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"tool_calls"}]))
            + "data: [DONE]\n\n"
    };
    let mut branches = Vec::new();
    for id in ["call_first", "call_second"] {
        World::expect(&world.chat, Answer::Sse(sse(id)));
        let turn = world.begin(&CHAT, &body(vec![user("go")])).await;
        branches.push(turn.branch_id.clone());
        turn.collect().await.unwrap();
    }
    assert_ne!(branches[0], branches[1]);
    for (id, branch) in ["call_first", "call_second"].into_iter().zip(&branches) {
        let history = vec![
            user("go"),
            json!({"role":"assistant","content":null,"tool_calls":[call(id)]}),
            json!({"role":"tool","tool_call_id":id,"content":id}),
        ];
        assert_eq!(answer(&world, &body(history), "done").await, *branch);
        let items = world.items(branch).await;
        let ids: Vec<_> = items.iter().filter_map(|i| i.call_id()).collect();
        assert_eq!(ids, [id, id], "call and result are one pair");
    }
}

/// A call of a tool, with a text before it, as a stream of Chat.
fn call_with_text(id: &str, text: &str) -> String {
    let call = json!([{"index":0,"id":id,"type":"function","function":{"name":"a","arguments":"{}"}}]);
    let delta = |delta: Value| json!([{"index":0,"delta":delta,"finish_reason":null}]);
    chat_frame(&delta(json!({"role":"assistant","content":text})))
        + &chat_frame(&delta(json!({"tool_calls":call})))
        + &chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"tool_calls"}]))
        + "data: [DONE]\n\n"
}

#[tokio::test]
async fn a_client_that_leaves_out_the_text_beside_a_call_is_found_by_the_ids_that_it_echoes() {
    let world = World::new();
    let tools = json!([{"type":"function","function":{"name":"a"}}]);
    let body = |messages: &[Value]| json!({"model":"gpt-a","stream":true,"tools":tools,"messages":messages});
    let call = |id: &str| json!({"role":"assistant","content":null,"tool_calls":[{"id":id,"type":"function","function":{"name":"a","arguments":"{}"}}]});
    let result = |id: &str| json!({"role":"tool","tool_call_id":id,"content":"r"});
    let first = answer(&world, &body(&[user("hi")]), "hello").await;
    // Twice, so that the second time an earlier answer is evidence too.
    let mut messages = vec![user("hi"), said("hello"), user("go")];
    for id in ["call_one", "call_two"] {
        World::expect(&world.chat, Answer::Sse(call_with_text(id, "Let me look.")));
        let turn = world.begin(&CHAT, &body(&messages)).await;
        assert_eq!(turn.branch_id, first, "{id}");
        turn.collect().await.unwrap();
        messages.extend([call(id), result(id)]);
    }
    assert_eq!(answer(&world, &body(&messages), "done").await, first);
    assert_eq!(world.conversations().await.len(), 1);
    // What the client left out is still there.
    let said_by_all: Vec<_> = world.items(&first).await.iter().flat_map(|item| item.parts().to_vec()).collect();
    let looks = said_by_all.iter().filter(|part| part.as_text() == Some("Let me look.")).count();
    assert_eq!(looks, 2);

    // An ID proves nothing: other words before it, or a call that was not so, begin a conversation of their own.
    for stranger in [
        vec![user("other"), said("hello"), user("go"), call("call_one"), result("call_one")],
        vec![user("hi"), user("go"), said("invented"), call("call_one"), result("call_one")],
    ] {
        assert_ne!(answer(&world, &body(&stranger), "who").await, first);
    }
    assert_eq!(world.conversations().await.len(), 3);
}

#[tokio::test]
async fn a_result_belongs_to_its_call_by_place_when_the_client_renamed_it() {
    let world = World::new();
    let tools = json!([{"type":"function","function":{"name":"a"}}]);
    let body = |messages: Vec<Value>| json!({"model":"gpt-a","stream":true,"tools":tools,"messages":messages});
    let sse = chat_frame(
        &json!([{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_as_issued","type":"function","function":{"name":"a","arguments":"{}"}}]},"finish_reason":null}]),
    ) + &chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"tool_calls"}]))
        + "data: [DONE]\n\n";
    World::expect(&world.chat, Answer::Sse(sse));
    let turn = world.begin(&CHAT, &body(vec![user("go")])).await;
    let branch = turn.branch_id.clone();
    turn.collect().await.unwrap();
    let call = json!({"id":"renamed_by_client","type":"function","function":{"name":"a","arguments":"{}"}});
    let history = vec![
        user("go"),
        json!({"role":"assistant","content":null,"tool_calls":[call]}),
        json!({"role":"tool","tool_call_id":"renamed_by_client","content":"r"}),
    ];
    assert_eq!(answer(&world, &body(history), "done").await, branch);
    let items = world.items(&branch).await;
    let ids: Vec<_> = items.iter().filter_map(|i| i.call_id()).collect();
    assert_eq!(ids, ["call_as_issued", "call_as_issued"]);
}

#[tokio::test]
async fn another_image_under_the_same_text_is_another_question() {
    let world = World::new();
    let root = answer(&world, &chat_body("gpt-a", &[user("one")]), "1").await;
    let see = |data: &str| json!({"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":format!("data:image/png;base64,{data}")}}]});
    let ask = |data: &str| chat_body("gpt-a", &[user("one"), said("1"), see(data)]);
    assert_eq!(answer(&world, &ask("aGVsbG8="), "a").await, root);
    let other = answer(&world, &ask("d29ybGQ="), "b").await;
    assert_ne!(other, root);
    assert_ne!(
        world.items(&root).await[2].id,
        world.items(&other).await[2].id,
        "the other image is an item of its own"
    );
}

#[tokio::test]
async fn a_clients_own_compaction_is_a_fork_of_the_conversation_that_it_names() {
    let world = World::new();
    let summary = "They asked for one and for two, and each of them was answered in full.";
    let root = answer(&world, &chat_body("gpt-a", &[user("one")]), "1").await;
    let conversation = world.conversations().await[0].conversation_id.clone();
    let orders = chat_body("gpt-a", &[user("one"), said("1"), user("sum up")]);
    assert_eq!(answer(&world, &orders, summary).await, root);
    let whole = world.items(&root).await;

    let shorter = format!("This session goes on from an earlier one:\n\n{summary}\n\nGo on.");
    let begin = |body: Value| {
        let mut request = world.request(&CHAT, &body);
        request.conversation = Some(conversation.clone());
        world.begin_with(request)
    };
    World::expect(&world.chat, Answer::Sse(chat_sse("three")));
    let turn = begin(chat_body("gpt-a", &[user(&shorter), user("and three?")])).await;
    assert_eq!(turn.conversation_id, conversation, "no new conversation with lost ancestry");
    let fork = turn.branch_id.clone();
    assert_ne!(fork, root);
    turn.collect().await.unwrap();
    assert_eq!(world.kinds(&fork).await[4..], ["compaction-summary", "message", "message"]);
    assert_eq!(world.items(&fork).await[..4], whole[..], "the ancestry is there");
    let sent = World::last_call(&world.chat)["messages"].clone();
    assert_eq!(sent.as_array().unwrap().len(), 2, "and not sent again: {sent}");
    assert!(sent[0].to_string().contains("Go on."));

    // The next request of the shorter history lands on the fork by what was answered there.
    let next = chat_body("gpt-a", &[user(&shorter), user("and three?"), said("three"), user("four")]);
    assert_eq!(answer(&world, &next, "4").await, fork);

    // Something new in a named conversation is still something new.
    World::expect(&world.chat, Answer::Sse(chat_sse("five")));
    let turn = begin(chat_body("gpt-a", &[user("They asked for one.")])).await;
    assert_eq!(turn.branch_id, root);
    turn.collect().await.unwrap();
}
