//! Operations that run tools of their process, questions that somebody must decide first, and results that come from outside:
//! in time, late, twice, or of a call that nobody made.

use crate::invariants;
use crate::world::{Rng, Shared, World};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::{Approval, Engine, NewItems, Principal, ToolExecutor, ToolInvocation, TurnOptions, TurnRequest};
use throughline_format::item::ApprovalDecision;
use throughline_format::part::TextPart;
use throughline_format::tool::Execution;
use throughline_format::{ErrorCategory, PartBody, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedToolDefinition};
use throughline_protocols::unified_native::UnifiedNative;
use throughline_store::ItemPage;

const MODELS: [&str; 6] = ["claude", "other-claude", "gpt", "o", "o", "other-o"];

/// What models call most of the time when they have it.
pub const TOOL: &str = "reach";

/// Runs calls, each at most once, as its seed has it.
pub struct Hands(pub Arc<Shared>);

impl ToolExecutor for Hands {
    fn executes(&self, _: &UnifiedToolDefinition) -> bool {
        true
    }

    fn run(&self, call: ToolInvocation) -> BoxFuture<'static, Result<Vec<PartBody>, UnifiedError>> {
        let mut rng = self.0.rng();
        let fate = rng.below(100);
        let mut world = self.0.lock();
        world.figures.ran += 1;
        if !world.ran.insert((call.operation_id.clone(), call.call_id.clone())) {
            world
                .violations
                .push(format!("{} of {} is run again", call.call_id, call.operation_id));
        }
        async move {
            match fate {
                0..3 => std::future::pending().await,
                3..40 => tokio::time::sleep(Duration::from_millis(rng.below(120))).await,
                _ => {}
            }
            if fate > 90 {
                return Err(UnifiedError::new(ErrorCategory::Server, "simulated", "the tool fails"));
            }
            let text = format!("looked for {}", call.call_id);
            Ok(vec![PartBody::Text(TextPart {
                text,
                ..TextPart::default()
            })])
        }
        .boxed()
    }
}

fn pending(id: &str, role: &str, rest: &Value) -> Value {
    let mut item = json!({"id": id, "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-01T00:00:00.000Z",
        "role": role, "visibility": "model", "status": "completed", "provenance": {"origin": "client", "attribution": {}}});
    item.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    item
}

fn text(text: &str) -> Value {
    json!([{"partId": "mine-p", "kind": "text", "text": text}])
}

/// A request whose tool this process executes, or now and then the client; in a conversation of before or a new one.
pub fn ask(shared: &Shared, conversation: Option<UnifiedId>, rng: &mut Rng) -> TurnRequest {
    let ask = {
        let mut state = shared.lock();
        state.minted += 1;
        let ask = format!("ask{:06}.", state.minted);
        state.asks.insert(ask.clone(), vec![ask.clone()]);
        ask
    };
    let execution = if rng.chance(70) { "ccr" } else { "client" };
    let approval = if rng.chance(65) { "always" } else { "never" };
    let mut body = json!({"schemaVersion": "2.0", "requestId": "req_mine", "model": {"requested": MODELS[rng.below(6) as usize]}, "generation": {},
        "tools": [{"toolId": "t-look", "kind": "function", "execution": execution, "portability": "portable", "name": TOOL,
            "inputSchema": {"type": "object"}, "approval": approval}],
        "conversation": {"completeness": "complete", "items": [pending("mine", "user", &json!({"kind": "message", "parts": text(&ask)}))]},
        "source": {"profile": {"family": "unified"}, "origin": "client", "receivedAt": "2026-01-01T00:00:00.000Z"}});
    if rng.chance(60) {
        let wish = |value: Value| json!({"value": value, "requirement": "preferred"});
        body["state"] = json!({"persist": wish(json!(true)), "background": wish(json!({}))});
    }
    TurnRequest {
        principal: World::principal(),
        codec: Arc::new(UnifiedNative),
        body: Bytes::from(body.to_string()),
        model: None,
        stream: Some(true),
        conversation,
        branch: None,
        require: Vec::new(),
        client_family: None,
        session: None,
        client_headers: Vec::new(),
        transport: None,
        options: TurnOptions {
            background: rng.chance(80),
            waits_for_approvals: true,
            ..TurnOptions::default()
        },
    }
}

/// Questions of an operation and what was decided about each, as they are stored.
pub async fn questions(world: &World, id: &UnifiedId) -> Vec<(String, Option<ApprovalDecision>)> {
    let mut questions: Vec<(String, Option<ApprovalDecision>)> = Vec::new();
    for item in invariants::answer(world, id).await {
        match item.body {
            UnifiedItemBody::ApprovalRequest(request) => questions.push((request.approval_id, None)),
            UnifiedItemBody::ApprovalResponse(response) => {
                for (_, decision) in questions.iter_mut().filter(|(id, _)| *id == response.approval_id) {
                    assert!(decision.replace(response.decision).is_none(), "{id}: decided twice");
                }
            }
            _ => {}
        }
    }
    questions
}

/// Somebody decides: for the first time, again, otherwise, too late, about nothing, or about what is not theirs.
pub async fn decide(world: &World, engine: &Engine, rng: &mut Rng) {
    let recent: Vec<UnifiedId> = world.shared.lock().natives.iter().rev().take(6).cloned().collect();
    let (mut open, mut known, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for id in &recent {
        let Ok(operation) = engine.operation(&World::principal(), id).await else {
            continue;
        };
        for (question, decision) in questions(world, id).await {
            let list = match decision {
                _ if operation.state.is_terminal() => &mut over,
                None => &mut open,
                Some(_) => &mut known,
            };
            list.push((id.clone(), question, decision));
        }
    }
    let fate = rng.below(100);
    let list = match fate {
        0..55 if !open.is_empty() => &open,
        0..66 if !known.is_empty() => &known,
        66..80 => &over,
        _ => &open,
    };
    let Some((id, question, before)) = list.get(rng.below(list.len() as u64) as usize).cloned() else {
        return;
    };
    let decision = if rng.chance(70) {
        ApprovalDecision::Approved
    } else {
        ApprovalDecision::Denied
    };
    let (principal, approval_id) = match fate {
        80..90 => (World::principal(), "approve:nothing".to_owned()),
        90.. => (Principal::new("somebody else"), question.clone()),
        _ => (World::principal(), question.clone()),
    };
    let is_ours = fate < 80;
    let approval = Approval {
        approval_id,
        decision,
        reason: None,
    };
    let outcome = engine.decide(&principal, &id, approval).await;
    let after = questions(world, &id).await.into_iter().find(|(asked, _)| *asked == question);
    let after = after.and_then(|(_, decision)| decision);
    let figures = &mut world.shared.lock().figures;
    match outcome.map_err(|error| error.code) {
        Ok(_) => {
            assert!(is_ours, "{id}: what is not there was decided");
            assert_eq!(after, Some(decision), "{id}: told, and not committed");
            figures.decided += u64::from(before.is_none());
            figures.repeated += u64::from(before.is_some());
        }
        Err(code) => {
            match code.as_str() {
                "not-found.resource" => assert!(!is_ours, "{id}: {question} is lost"),
                "conflict.approval" => {
                    assert!(
                        is_ours && after.is_some_and(|first| first != decision),
                        "{id}: {before:?} {decision:?} {after:?}"
                    );
                    figures.contradicted += 1;
                }
                "conflict.operation-state" => figures.too_late += 1,
                other => panic!("{id}: {other}"),
            }
            assert_eq!(after, before, "{id}: a refused decision changed something");
        }
    }
}

/// The client's own results: of an open call, of one that is answered, of none.
pub async fn result(world: &World, engine: &Engine, rng: &mut Rng) {
    let recent: Vec<UnifiedId> = world.shared.lock().natives.iter().rev().take(6).cloned().collect();
    let Some(id) = recent.get(rng.below(recent.len() as u64) as usize) else {
        return;
    };
    let Ok(operation) = engine.operation(&World::principal(), id).await else {
        return;
    };
    let branch = operation.source_branch_id.clone();
    let path = world.store.branch_items(&branch, ItemPage::default()).await.unwrap();
    let is_result = |item: &&UnifiedItem| matches!(item.body, UnifiedItemBody::ToolResult(_));
    let answered: Vec<&str> = path.iter().filter(is_result).filter_map(UnifiedItem::call_id).collect();
    let calls: Vec<&str> = path
        .iter()
        .filter(|item| matches!(&item.body, UnifiedItemBody::ToolCall(call) if call.execution != Execution::Ccr || answered.contains(&call.call_id.as_str())))
        .filter_map(UnifiedItem::call_id)
        .collect();
    let call = match calls.get(rng.below(calls.len() as u64) as usize) {
        Some(call) if rng.chance(80) => *call,
        _ => "call_nobody_made",
    };
    let expected = match (calls.contains(&call), answered.contains(&call)) {
        (false, _) => Err("invalid-request.tool-result".to_owned()),
        (true, true) => Err("conflict.tool-result".to_owned()),
        (true, false) => Ok(()),
    };
    let result = json!({"kind": "tool-result", "callId": call, "output": text("seen"), "execution": "client"});
    let new = NewItems {
        branch: Some(branch.clone()),
        expected_head: None,
        items: vec![serde_json::from_str(&pending("mine-r", "tool", &result).to_string()).unwrap()],
    };
    let outcome = engine.append_items(&World::principal(), &operation.conversation_id, new).await;
    let outcome = outcome.map(|_| ()).map_err(|error| error.code);
    assert_eq!(outcome, expected, "{branch}: {call} of {calls:?}, {answered:?} answered");
    let grown = world.store.branch_items(&branch, ItemPage::default()).await.unwrap().len() - path.len();
    assert_eq!(
        grown,
        usize::from(expected.is_ok()),
        "{branch}: a refused result is stored, or a taken one is not"
    );
    let figures = &mut world.shared.lock().figures;
    figures.brought += u64::from(expected.is_ok());
    figures.stray += u64::from(expected.is_err());
}
