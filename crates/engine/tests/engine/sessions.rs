//! What the client's own name of its session settles, and what it never does.

use crate::support::*;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_engine::{ClientSession, Principal, Turn, TurnRequest};
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId};
use tokio::sync::mpsc;

type Place = (UnifiedId, UnifiedId);

fn session(id: impl Into<Option<&'static str>>) -> Option<ClientSession> {
    id.into().map(|id| ClientSession {
        family: "claude-code".into(),
        id: id.into(),
        subagent: None,
        asks_again: false,
    })
}

fn said(text: &str) -> Value {
    json!({"role":"assistant","content":text})
}

fn of(world: &World, session: Option<ClientSession>, messages: &[Value]) -> TurnRequest {
    TurnRequest {
        session,
        ..world.request(&CHAT, &chat_body("gpt-a", messages))
    }
}

fn place(turn: &Turn) -> Place {
    (turn.conversation_id.clone(), turn.branch_id.clone())
}

/// A turn to its end, whatever that is.
async fn ended(world: &World, request: TurnRequest, answer: Answer) -> Place {
    World::expect(&world.chat, answer);
    let turn = world.begin_with(request).await;
    let place = place(&turn);
    let _ = turn.collect().await;
    place
}

async fn answered(world: &World, session: Option<ClientSession>, messages: &[Value], text: &str) -> Place {
    ended(world, of(world, session, messages), Answer::Sse(chat_sse(text))).await
}

#[tokio::test]
async fn equal_histories_are_settled_by_the_session_before_the_head_and_the_time() {
    let first = [user("hi")];
    let longer = [user("hi"), said("hello"), user("two")];
    let other = [user("hi"), said("hello"), user("zwei")];
    for (name, before, expected) in [
        ("its own twin, though the other one is newer", session("a"), 0),
        ("its own twin", session("b"), 1),
        ("no session: the newest", None, 1),
        ("an unknown session: the newest", session("c"), 1),
    ] {
        let world = World::new();
        let twins = [
            answered(&world, session("a"), &first, "hello").await,
            answered(&world, session("b"), &first, "hello").await,
        ];
        assert_ne!(twins[0].0, twins[1].0, "a session alone joins nothing");
        assert_eq!(answered(&world, before, &longer, "2").await, twins[expected], "{name}");
    }
    let world = World::new();
    let twins = [
        answered(&world, session("a"), &first, "hello").await,
        answered(&world, session("b"), &first, "hello").await,
    ];
    assert_eq!(answered(&world, session("a"), &longer, "2").await, twins[0]);
    let edited = answered(&world, session("a"), &other, "2").await;
    assert_eq!(
        edited.0, twins[0].0,
        "its own twin, though it goes on there and the other one ends there"
    );
    assert_ne!(edited.1, twins[0].1);
}

#[tokio::test]
async fn issued_ids_outrank_the_session_and_so_does_deeper_evidence() {
    let world = World::new();
    let call = |id: &str| json!({"id":id,"type":"function","function":{"name":"a","arguments":"{}"}});
    let sse = |id: &str| {
        let mut indexed = call(id);
        indexed["index"] = json!(0);
        chat_frame(&json!([{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[indexed]},"finish_reason":null}]))
            + &chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"tool_calls"}]))
            + "data: [DONE]\n\n"
    };
    let mut twins = Vec::new();
    for (name, id) in [("a", "call_first"), ("b", "call_second")] {
        let request = of(&world, session(name), &[user("go")]);
        twins.push(ended(&world, request, Answer::Sse(sse(id))).await);
    }
    let history = |id: &str| {
        vec![
            user("go"),
            json!({"role":"assistant","content":null,"tool_calls":[call(id)]}),
            json!({"role":"tool","tool_call_id":id,"content":"r"}),
        ]
    };
    assert_eq!(answered(&world, session("a"), &history("call_second"), "done").await, twins[1]);
    let deeper = [&history("call_second")[..], &[said("done"), user("more")]].concat();
    assert_eq!(answered(&world, session("a"), &deeper, "ok").await, twins[1]);
}

fn refused() -> Answer {
    Answer::Refuse(UnifiedError::new(ErrorCategory::Server, "x", "no"))
}

fn broken() -> Answer {
    Answer::Sse(chat_frame(
        &json!([{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]),
    ))
}

fn empty() -> Answer {
    Answer::Sse(chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"stop"}])) + "data: [DONE]\n\n")
}

fn edit(request: &mut TurnRequest, change: fn(&mut Value)) {
    let mut body: Value = serde_json::from_slice(&request.body).unwrap();
    change(&mut body);
    request.body = Bytes::from(body.to_string());
}

#[tokio::test]
async fn what_was_asked_in_vain_is_asked_again_in_the_same_place() {
    type Case = (&'static str, fn() -> Answer, fn(&mut TurnRequest), bool);
    let whole = || Answer::Sse(chat_sse("1"));
    let cases: [Case; 14] = [
        ("a refusal, asked again", refused, |_| {}, true),
        ("half an answer, asked again", broken, |_| {}, true),
        ("an answer of nothing, asked again", empty, |_| {}, true),
        ("an answer, asked anew", whole, |_| {}, false),
        (
            "an answer that did not reach it",
            whole,
            |r| r.session.as_mut().unwrap().asks_again = true,
            true,
        ),
        ("without a session", refused, |r| r.session = None, false),
        ("in another session", refused, |r| r.session = session("b"), false),
        (
            "by a subagent",
            refused,
            |r| r.session.as_mut().unwrap().subagent = Some("s".into()),
            false,
        ),
        (
            "by another agent",
            refused,
            |r| r.session.as_mut().unwrap().family = "codex".into(),
            false,
        ),
        (
            "by somebody else",
            refused,
            |r| r.principal = Principal::new("somebody else"),
            false,
        ),
        (
            "another question",
            refused,
            |r| edit(r, |b| b["messages"][1]["content"] = json!("two")),
            false,
        ),
        (
            "other instructions",
            refused,
            |r| edit(r, |b| b["messages"][0]["content"] = json!("be long")),
            false,
        ),
        (
            "other tools",
            refused,
            |r| edit(r, |b| b["tools"] = json!([{"type":"function","function":{"name":"a"}}])),
            false,
        ),
        ("other parameters", refused, |r| edit(r, |b| b["temperature"] = json!(0.5)), true),
    ];
    for (name, answer, change, joins) in cases {
        let world = World::new();
        let asked = [json!({"role":"system","content":"be brief"}), user("one")];
        let first = ended(&world, of(&world, session("a"), &asked), answer()).await;
        let stored = world.items(&first.1).await;
        let mut request = of(&world, session("a"), &asked);
        change(&mut request);
        let second = ended(&world, request, Answer::Sse(chat_sse("2"))).await;
        assert_eq!(second.0 == first.0, joins, "{name}");
        assert_eq!(world.conversations().await.len(), if joins { 1 } else { 2 }, "{name}");
        if joins {
            let now = world.items(&second.1).await;
            assert_eq!(now[..2], stored[..2], "{name}: the question is shared, not copied");
            let asked_on = [&asked[..], &[said("2"), user("three")]].concat();
            assert_eq!(answered(&world, session("a"), &asked_on, "3").await, second, "{name}");
        }
    }
}

#[tokio::test]
async fn the_last_answer_in_a_place_says_whether_it_was_asked_in_vain() {
    let world = World::new();
    let asked = [user("one")];
    let first = ended(&world, of(&world, session("a"), &asked), refused()).await;
    assert_eq!(answered(&world, session("a"), &asked, "1").await, first);
    let anew = answered(&world, session("a"), &asked, "1").await;
    assert_ne!(anew.0, first.0, "there is an answer now");
}

#[tokio::test]
async fn while_the_answer_is_on_its_way_the_same_question_gets_a_branch_of_its_own() {
    let world = World::new();
    let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
    World::expect(&world.chat, Answer::Live(chunks));
    let running = world.begin_with(of(&world, session("a"), &[user("one")])).await;
    let second = answered(&world, session("a"), &[user("one")], "2").await;
    assert_eq!(second.0, running.conversation_id);
    assert_ne!(second.1, running.branch_id);
    send.send(Ok(chat_sse("1").into())).unwrap();
    drop(send);
    let branch = running.branch_id.clone();
    running.collect().await.unwrap();
    assert_eq!(world.kinds(&branch).await, ["message", "message"]);
    assert_eq!(world.kinds(&second.1).await, ["message", "message"]);
}

#[tokio::test]
async fn a_question_asked_again_is_recovered_like_any_other() {
    let world = World::new();
    let first = ended(&world, of(&world, session("a"), &[user("one")]), refused()).await;
    let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
    World::expect(&world.chat, Answer::Live(chunks));
    let mut again = world.begin_with(of(&world, session("a"), &[user("one")])).await;
    assert_eq!(place(&again), first);
    let begin = json!([{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]);
    send.send(Ok(chat_frame(&begin).into())).unwrap();
    while !std::str::from_utf8(&again.subscription.next().await.unwrap().unwrap().bytes)
        .unwrap()
        .contains("half")
    {}
    let next = World::over(Arc::clone(&world.store), 1_000_000);
    assert_eq!(next.engine.recover(&next).await.unwrap().interrupted, 1);
    let history = [user("one"), said("half"), user("go on")];
    assert_eq!(answered(&next, None, &history, "whole").await, first, "its half answer is evidence");
}

#[tokio::test]
async fn a_session_never_outranks_content() {
    let world = World::new();
    let first = answered(&world, session("a"), &[user("one")], "1").await;
    for (name, messages) in [
        ("another question", vec![user("two")]),
        ("another answer", vec![user("one"), said("never given"), user("two")]),
        ("a part of an answer", vec![user("they said 1"), user("two")]),
    ] {
        let place = answered(&world, session("a"), &messages, "ok").await;
        assert_ne!(place.0, first.0, "{name}");
    }
}

#[tokio::test]
async fn a_summary_goes_on_with_the_conversation_of_its_session() {
    let summary = "They asked for one and for two, and each of them was answered in full.";
    let shorter = [user(&format!("This session goes on:\n\n{summary}\n\nGo on.")), user("and three?")];
    for (name, asks, principal, joins) in [
        ("the session", session("a"), "tester", true),
        ("another session", session("b"), "tester", false),
        ("no session", None, "tester", false),
        ("somebody else's session", session("a"), "somebody else", false),
    ] {
        let world = World::new();
        let root = answered(&world, session("a"), &[user("one")], "1").await;
        let orders = [user("one"), said("1"), user("sum up")];
        assert_eq!(answered(&world, session("a"), &orders, summary).await, root);
        // What else the session asked stands in no way.
        answered(&world, session("a"), &[user("a title, please")], "title").await;
        let mut request = of(&world, asks, &shorter);
        request.principal = Principal::new(principal);
        let fork = ended(&world, request, Answer::Sse(chat_sse("three"))).await;
        assert_eq!(fork.0 == root.0, joins, "{name}");
        if joins {
            assert_ne!(fork.1, root.1);
            let whole = world.items(&root.1).await;
            assert_eq!(world.items(&fork.1).await[..4], whole[..], "{name}: the ancestry is there");
            assert_eq!(
                world.kinds(&fork.1).await[4..],
                ["compaction-summary", "message", "message"],
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn a_summary_may_stand_behind_what_the_user_wrote() {
    let summary = "They asked for one and for two, and each of them was answered in full.";
    let world = World::new();
    let root = answered(&world, session("a"), &[user("one")], "1").await;
    let orders = [user("one"), said("1"), user("sum up")];
    assert_eq!(answered(&world, session("a"), &orders, summary).await, root);
    // Codex keeps the messages of its user, and puts the summary behind them.
    let shorter = [user("one"), user(&format!("Another model began:\n{summary}")), user("and three?")];
    let fork = answered(&world, session("a"), &shorter, "three").await;
    assert_eq!(fork.0, root.0);
    assert_ne!(fork.1, root.1);
    assert_eq!(
        world.kinds(&fork.1).await[4..],
        ["compaction-summary", "message", "message"],
        "what the user wrote is part of it"
    );
    // The client goes on from there, and the model reads what the client sent.
    let mut longer = shorter.to_vec();
    longer.extend([said("three"), user("and four?")]);
    assert_eq!(answered(&world, session("a"), &longer, "four").await, fork);
    let sent = World::last_call(&world.chat)["messages"].clone();
    let begin = sent[0].to_string();
    assert!(begin.find("\"one\"") < begin.find("one and for two"), "{sent}");
    assert_eq!(sent.to_string().matches("one and for two").count(), 1, "{sent}");
    assert_eq!(sent.as_array().unwrap().len(), 4, "{sent}");
}
