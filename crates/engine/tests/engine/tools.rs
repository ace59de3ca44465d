//! Tools that the gateway itself executes, and what somebody must allow first.

use crate::support::*;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_engine::{Approval, Engine, ToolExecutor, ToolInvocation, Turn, TurnOptions, TurnRequest};
use throughline_format::item::ApprovalDecision;
use throughline_format::part::TextPart;
use throughline_format::resource::ResourceStatus;
use throughline_format::{
    ErrorCategory, OperationState, PartBody, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedItemBody, UnifiedResultV2,
    UnifiedToolDefinition, UnifiedToolLifecycle,
};
use throughline_protocols::unified_native::UnifiedNative;

/// Answers from a table; remembers what it was asked.
#[derive(Default)]
pub struct Shelf {
    pub asked: Mutex<Vec<String>>,
}

impl ToolExecutor for Shelf {
    fn executes(&self, tool: &UnifiedToolDefinition) -> bool {
        tool.name.as_deref() != Some("unknown")
    }

    fn run(&self, call: ToolInvocation) -> BoxFuture<'static, Result<Vec<PartBody>, UnifiedError>> {
        self.asked.lock().unwrap().push(call.raw_arguments.clone());
        async move {
            match call.raw_arguments.as_str() {
                r#"{"q":"fail"}"# => Err(UnifiedError::new(ErrorCategory::Server, "shelf", "the shelf is closed")),
                r#"{"q":"panic"}"# => panic!("the tool is broken"),
                r#"{"q":"wait"}"# => std::future::pending().await,
                asked => Ok(vec![PartBody::Text(TextPart {
                    text: format!("found {asked}"),
                    ..TextPart::default()
                })]),
            }
        }
        .boxed()
    }
}

pub fn tool(name: &str, execution: &str, approval: &Value) -> Value {
    json!({"toolId": format!("t-{name}"), "kind": "function", "execution": execution, "portability": "portable", "name": name,
        "inputSchema": {"type": "object"}, "approval": approval})
}

pub fn unified(model: &str, tools: &[Value], items: &[Value]) -> Value {
    json!({"schemaVersion": "2.0", "requestId": "req_mine", "model": {"requested": model}, "generation": {}, "tools": tools,
        "conversation": {"completeness": "complete", "items": items},
        "source": {"profile": {"family": "unified"}, "origin": "client", "receivedAt": "2026-01-01T00:00:00.000Z"}})
}

pub fn said(text: &str) -> Value {
    json!({"id": format!("m-{text}"), "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-01T00:00:00.000Z", "role": "user",
        "visibility": "model", "status": "completed", "provenance": {"origin": "client", "attribution": {}}, "kind": "message",
        "parts": [{"partId": format!("p-{text}"), "kind": "text", "text": text}]})
}

pub fn native(body: &Value) -> TurnRequest {
    TurnRequest {
        principal: World::principal(),
        codec: Arc::new(UnifiedNative),
        body: Bytes::from(body.to_string()),
        model: None,
        stream: None,
        conversation: None,
        branch: None,
        require: Vec::new(),
        client_family: None,
        session: None,
        client_headers: Vec::new(),
        transport: None,
        options: TurnOptions {
            waits_for_approvals: true,
            ..TurnOptions::default()
        },
    }
}

fn calls(list: &[(&str, &str, &str)]) -> Answer {
    let blocks: Vec<Value> = list
        .iter()
        .map(|(id, name, asked)| json!({"type": "tool_use", "id": id, "name": name, "input": {"q": asked}}))
        .collect();
    Answer::Sse(anthropic_sse(&blocks, "tool_use"))
}

fn says(text: &str) -> Answer {
    Answer::Sse(anthropic_sse(&[json!({"type": "text", "text": text})], "end_turn"))
}

pub fn world() -> (World, Arc<Shelf>) {
    let (world, shelf) = (World::new(), Arc::new(Shelf::default()));
    assert!(world.engine.register_tools(Arc::<Shelf>::clone(&shelf)));
    assert!(!world.engine.register_tools(Arc::<Shelf>::clone(&shelf)), "once");
    (world, shelf)
}

pub async fn until(engine: &Engine, id: &UnifiedId, state: OperationState) {
    for _ in 0..500 {
        if engine.operation(&World::principal(), id).await.unwrap().state == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the operation did not become {state}");
}

fn decide(approval_id: &str, decision: ApprovalDecision) -> Approval {
    Approval {
        approval_id: approval_id.into(),
        decision,
        reason: Some("because".into()),
    }
}

pub fn kinds(result: &UnifiedResultV2) -> Vec<&'static str> {
    result.output.iter().map(|item| item.body.kind()).collect()
}

fn states(result: &UnifiedResultV2) -> Vec<UnifiedToolLifecycle> {
    result
        .output
        .iter()
        .filter_map(throughline_format::UnifiedItem::lifecycle)
        .collect()
}

async fn begin(world: &World, tools: &[Value]) -> Turn {
    world.begin_with(native(&unified("claude-x", tools, &[said("look")]))).await
}

#[tokio::test]
async fn a_call_is_run_and_the_turn_goes_on_with_its_result() {
    let (world, shelf) = world();
    World::expect(
        &world.anthropic,
        calls(&[("toolu_1", "shelf", "books"), ("toolu_2", "shelf", "maps")]),
    );
    World::expect(&world.anthropic, says("There are both."));
    let turn = begin(&world, &[tool("shelf", "ccr", &json!("never"))]).await;
    let branch = turn.branch_id.clone();
    let result = turn.collect().await.unwrap();
    assert_eq!(kinds(&result), ["tool-call", "tool-call", "tool-result", "tool-result", "message"]);
    assert_eq!(states(&result), [UnifiedToolLifecycle::OutputReady; 2]);
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Stop));
    assert_eq!(*shelf.asked.lock().unwrap(), [r#"{"q":"books"}"#, r#"{"q":"maps"}"#]);
    let used = result.usage.unwrap().output_total.unwrap().value;
    assert!((used - 14.0).abs() < f64::EPSILON, "both answers are counted: {used}");
    let sent = World::last_call(&world.anthropic);
    assert_eq!(sent["messages"][1]["content"][0]["id"], "toolu_1");
    assert_eq!(sent["messages"][2]["content"][0]["content"], r#"found {"q":"books"}"#);
    assert_eq!(
        world.kinds(&branch).await,
        ["message", "tool-call", "tool-call", "tool-result", "tool-result", "message"]
    );
    let items = world.items(&branch).await;
    assert!(items.iter().zip(1..).all(|(item, n)| item.sequence == n), "dense");
    assert!(items.windows(2).all(|pair| pair[1].parent_id.as_ref() == Some(&pair[0].id)));
    let mut revised = world.store.branch_revisions(&branch).await.unwrap();
    revised.retain(|revision| revision.change.lifecycle == Some(UnifiedToolLifecycle::OutputReady));
    assert_eq!(revised.len(), 2, "what was appended before it ran tells how it went");
}

#[tokio::test]
async fn a_question_holds_the_operation_until_it_is_decided() {
    for decision in [ApprovalDecision::Approved, ApprovalDecision::Denied] {
        let (world, shelf) = world();
        World::expect(&world.anthropic, calls(&[("toolu_1", "shelf", "books")]));
        World::expect(&world.anthropic, says("Done."));
        let turn = begin(&world, &[tool("shelf", "ccr", &json!("always"))]).await;
        let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
        until(&world.engine, &id, OperationState::RequiresAction).await;
        assert!(shelf.asked.lock().unwrap().is_empty(), "nothing runs before");
        assert_eq!(
            world.kinds(&branch).await,
            ["message", "tool-call", "approval-request"],
            "the transition appended what was complete"
        );
        let me = World::principal();
        let ask = async |question: &str, decision| world.engine.decide(&me, &id, decide(question, decision)).await;
        assert_eq!(ask("approve:other", decision).await.unwrap_err().code, "not-found.resource");
        let operation = ask("approve:toolu_1", decision).await.unwrap();
        assert_ne!(
            operation.state,
            OperationState::RequiresAction,
            "the decision is committed when it is answered"
        );
        let result = turn.collect().await.unwrap();
        assert_eq!(
            kinds(&result),
            ["tool-call", "approval-request", "approval-response", "tool-result", "message"]
        );
        let UnifiedItemBody::ToolResult(told) = &result.output[3].body else {
            panic!()
        };
        let ran = shelf.asked.lock().unwrap().len();
        match decision {
            ApprovalDecision::Approved => {
                assert_eq!(
                    (ran, told.is_error, states(&result)),
                    (1, None, vec![UnifiedToolLifecycle::OutputReady])
                );
            }
            ApprovalDecision::Denied => {
                assert_eq!(
                    (ran, told.is_error, states(&result)),
                    (0, Some(true), vec![UnifiedToolLifecycle::ApprovalDenied])
                );
                assert_eq!(told.output[0].as_text(), Some("The call was not allowed: because"));
            }
        }
        assert_eq!(ask("approve:toolu_1", decision).await.unwrap_err().code, "conflict.operation-state");
    }
}

#[tokio::test]
async fn a_question_is_decided_once() {
    let (world, _) = world();
    World::expect(&world.anthropic, calls(&[("a", "shelf", "x"), ("b", "shelf", "y")]));
    World::expect(&world.anthropic, says("Done."));
    let turn = begin(&world, &[tool("shelf", "ccr", &json!("always"))]).await;
    let id = turn.operation_id.clone();
    until(&world.engine, &id, OperationState::RequiresAction).await;
    let me = World::principal();
    let ask = async |question: &str, decision| world.engine.decide(&me, &id, decide(question, decision)).await;
    assert_eq!(
        ask("approve:a", ApprovalDecision::Approved).await.unwrap().state,
        OperationState::RequiresAction
    );
    assert!(ask("approve:a", ApprovalDecision::Approved).await.is_ok(), "the same again");
    assert_eq!(
        ask("approve:a", ApprovalDecision::Denied).await.unwrap_err().code,
        "conflict.approval"
    );
    let other = throughline_engine::Principal::new("somebody else");
    let foreign = world
        .engine
        .decide(&other, &id, decide("approve:b", ApprovalDecision::Approved))
        .await;
    assert_eq!(foreign.unwrap_err().code, "not-found.resource");
    ask("approve:b", ApprovalDecision::Denied).await.unwrap();
    let result = turn.collect().await.unwrap();
    assert_eq!(
        states(&result),
        [UnifiedToolLifecycle::OutputReady, UnifiedToolLifecycle::ApprovalDenied]
    );
}

#[tokio::test]
async fn a_tool_that_fails_is_a_result_and_no_end() {
    for (asked, code) in [("fail", "server.shelf"), ("panic", "internal.tool")] {
        let (world, _) = world();
        World::expect(&world.anthropic, calls(&[("toolu_1", "shelf", asked)]));
        World::expect(&world.anthropic, says("Never mind."));
        let result = begin(&world, &[tool("shelf", "ccr", &json!("never"))])
            .await
            .collect()
            .await
            .unwrap();
        let UnifiedItemBody::ToolResult(told) = &result.output[1].body else {
            panic!()
        };
        assert_eq!(told.error.as_ref().unwrap().code, code);
        assert_eq!(states(&result), [UnifiedToolLifecycle::OutputError]);
        assert_eq!(World::last_call(&world.anthropic)["messages"][2]["content"][0]["is_error"], true);
    }
}

#[tokio::test]
async fn calls_of_the_client_end_the_operation_and_ours_are_done_by_then() {
    let (world, _) = world();
    World::expect(&world.anthropic, calls(&[("a", "shelf", "x"), ("b", "desk", "y")]));
    let tools = [tool("shelf", "ccr", &json!("never")), tool("desk", "client", &json!("never"))];
    let turn = begin(&world, &tools).await;
    let conversation = turn.conversation_id.clone();
    let result = turn.collect().await.unwrap();
    assert_eq!(kinds(&result), ["tool-call", "tool-call", "tool-result"]);
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::ToolCalls));

    // The client answers for a call that is not open, for one that has its result, and then for its own, twice.
    let answer = |call: &str| {
        json!({"id": "r", "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-01T00:00:00.000Z", "role": "tool", "visibility": "model",
            "status": "completed", "provenance": {"origin": "client", "attribution": {}}, "kind": "tool-result", "callId": call,
            "output": [{"partId": "rp", "kind": "text", "text": "on the desk"}], "execution": "client"})
    };
    let ask = async |call: &str| {
        let mut body = unified("claude-x", &tools, &[answer(call)]);
        body["conversation"]["completeness"] = json!("partial");
        body["conversation"]["missing"] = json!([{"reason": "not-sent"}]);
        let mut request = native(&body);
        request.conversation = Some(conversation.clone());
        match world.engine.begin(request, &world).await {
            Ok(turn) => Ok(turn.collect().await.unwrap()),
            Err(error) => Err(error.error),
        }
    };
    for (call, code) in [("nobody", "invalid-request.tool-result"), ("a", "conflict.tool-result")] {
        let error = ask(call).await.unwrap_err();
        assert_eq!(error.code, code);
        assert_eq!(error.field_path.as_deref(), Some("/conversation/items/0/callId"));
    }
    World::expect(&world.anthropic, says("Thanks."));
    assert_eq!(kinds(&ask("b").await.unwrap()), ["message"]);
    assert_eq!(ask("b").await.unwrap_err().code, "conflict.tool-result", "late, and twice");
}

#[tokio::test]
async fn a_tool_that_nobody_executes_is_refused_before_anything_is_sent() {
    let (world, _) = world();
    for world in [&World::new(), &world] {
        let body = unified("claude-x", &[tool("unknown", "ccr", &json!("never"))], &[said("x")]);
        let error = world.engine.begin(native(&body), world).await.err().unwrap().error;
        assert_eq!(
            (error.code.as_str(), error.field_path.as_deref()),
            ("unsupported.tool", Some("/tools/0/execution"))
        );
        assert!(world.conversations().await.is_empty());
    }
}

#[tokio::test]
async fn a_model_that_never_stops_asking_is_stopped() {
    let (world, _) = world();
    for n in 0..=64 {
        World::expect(&world.anthropic, calls(&[(&format!("toolu_{n}"), "shelf", "again")]));
    }
    let turn = begin(&world, &[tool("shelf", "ccr", &json!("never"))]).await;
    assert_eq!(turn.collect().await.unwrap_err().code, "limit.tool-rounds");
    assert_eq!(world.anthropic.0.calls.lock().unwrap().len(), 65);
}

#[tokio::test]
async fn cancelling_reaches_a_tool_and_a_question() {
    for approval in ["never", "always"] {
        let (world, _) = world();
        World::expect(&world.anthropic, calls(&[("toolu_1", "shelf", "wait")]));
        let turn = begin(&world, &[tool("shelf", "ccr", &json!(approval))]).await;
        let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
        if approval == "always" {
            until(&world.engine, &id, OperationState::RequiresAction).await;
        } else {
            while world.kinds(&branch).await.len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        world.engine.cancel(&World::principal(), &id, None).await.unwrap();
        assert_eq!(turn.collect().await.unwrap_err().category, ErrorCategory::Cancelled);
        let operation = world.engine.operation(&World::principal(), &id).await.unwrap();
        assert_eq!(operation.state, OperationState::Cancelled);
        let items = world.items(&branch).await;
        let UnifiedItemBody::Interruption(torn) = &items.last().unwrap().body else {
            panic!("{approval}")
        };
        assert_eq!(torn.open_call_ids, ["toolu_1"]);
    }
}

#[tokio::test]
async fn what_others_append_meanwhile_costs_nothing() {
    let (world, _) = world();
    World::expect(&world.anthropic, calls(&[("toolu_1", "shelf", "books")]));
    World::expect(&world.anthropic, says("Done."));
    let turn = begin(&world, &[tool("shelf", "ccr", &json!("always"))]).await;
    let (id, branch, conversation) = (turn.operation_id.clone(), turn.branch_id.clone(), turn.conversation_id.clone());
    until(&world.engine, &id, OperationState::RequiresAction).await;
    let new = throughline_engine::NewItems {
        items: vec![serde_json::from_str(&said("beside").to_string()).unwrap()],
        ..Default::default()
    };
    world.engine.append_items(&World::principal(), &conversation, new).await.unwrap();
    let decision = decide("approve:toolu_1", ApprovalDecision::Approved);
    world.engine.decide(&World::principal(), &id, decision).await.unwrap();
    turn.collect().await.unwrap();
    assert_eq!(world.kinds(&branch).await, ["message", "tool-call", "approval-request", "message"]);
    let branches = world.store.branches(&conversation).await.unwrap();
    let other = branches.iter().find(|b| b.branch_id != branch).unwrap();
    assert_eq!(
        world.kinds(&other.branch_id).await,
        [
            "message",
            "tool-call",
            "approval-request",
            "approval-response",
            "tool-result",
            "message"
        ]
    );
}

/// A Responses answer that calls a tool.
fn responses_call(id: &str) -> Answer {
    let call =
        json!({"type":"function_call","id":"fc_1","call_id":"call_1","name":"shelf","arguments":r#"{"q":"books"}"#,"status":"completed"});
    let whole = json!({"id":id,"object":"response","created_at":1,"status":"completed","model":"o-x","output":[call],"store":true});
    Answer::Sse(format!(
        "event: response.completed\ndata: {}\n\n",
        json!({"type":"response.completed","sequence_number":0,"response":whole})
    ))
}

#[tokio::test]
async fn a_later_answer_goes_on_by_no_checkpoint_that_the_branch_has_left_behind() {
    let (world, _) = world();
    let tools = [tool("shelf", "ccr", &json!("never"))];
    let ask = |items: &[Value]| {
        let mut body = unified("o-x", &tools, items);
        for at in 0..items.len() {
            let placed = &mut body["conversation"]["items"][at];
            placed["sequence"] = json!(at + 1);
            if at > 0 {
                placed["parentId"] = items[at - 1]["id"].clone();
            }
        }
        body["state"] = json!({"persist": {"value": true, "requirement": "preferred"}});
        native(&body)
    };
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_A", "alpha")));
    let turn = world.begin_with(ask(&[said("one")])).await;
    let (branch, conversation) = (turn.branch_id.clone(), turn.conversation_id.clone());
    turn.collect().await.unwrap();
    let mut answer = said("alpha");
    answer["role"] = json!("assistant");

    World::expect(&world.responses, responses_call("resp_B"));
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_C", "gamma")));
    let turn = world.begin_with(ask(&[said("one"), answer, said("two")])).await;
    assert_eq!(turn.branch_id, branch);
    turn.collect().await.unwrap();
    let sent = world.responses.0.calls.lock().unwrap().clone();
    assert_eq!(sent[1]["previous_response_id"], "resp_A", "the branch stood there");
    assert!(sent[2].get("previous_response_id").is_none(), "it has gone on: {}", sent[2]);
    let text = sent[2]["input"].to_string();
    let told = ["one", "alpha", "two", "call_1", "found"].map(|word| text.find(word));
    assert!(told.iter().all(Option::is_some) && told.is_sorted(), "the whole history: {text}");
    let mut made = world.store.checkpoints(&conversation, None).await.unwrap();
    made.retain(|checkpoint| checkpoint.status == ResourceStatus::Active);
    let head = world.store.branch(&branch).await.unwrap().unwrap().head_item_id.unwrap();
    assert_eq!(made.iter().map(|c| &c.journal_head_item_id).collect::<Vec<_>>(), [&head]);
}

#[tokio::test]
async fn a_checkpoint_never_stands_behind_an_answer_that_it_does_not_know() {
    let (world, _) = world();
    let mut body = unified("o-x", &[tool("shelf", "ccr", &json!("never"))], &[said("one")]);
    body["state"] = json!({"persist": {"value": true, "requirement": "preferred"}});
    let nameless = responses_sse("resp_B", "beta").replace(r#""id":"resp_B","#, "");
    World::expect(&world.responses, responses_call("resp_A"));
    World::expect(&world.responses, Answer::Sse(nameless));
    let turn = world.begin_with(native(&body)).await;
    let conversation = turn.conversation_id.clone();
    let result = turn.collect().await.unwrap();
    assert_eq!(kinds(&result), ["tool-call", "tool-result", "message"]);
    let made = world.store.checkpoints(&conversation, None).await.unwrap();
    assert!(made.is_empty(), "the provider did not name its last answer");
}
