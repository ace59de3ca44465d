//! Events for themselves, and logs.

use super::{check, found, rows, set};
use crate::support::parse;
use serde_json::{Value, json};
use throughline_format::UnifiedEventV2;
use throughline_format::validate::semantics::{self, Extent};
use throughline_format::validate::{Pending, Violation};

const TIME: &str = "2026-01-31T12:00:00.000Z";

fn event(sequence: u64, body: Value) -> Value {
    let mut event =
        json!({"schemaVersion": "2.0", "operationId": "op", "eventId": format!("op.e{sequence}"), "sequence": sequence, "timestamp": TIME});
    event.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    event
}

fn item(id: &str, body: Value) -> Value {
    let mut item = json!({"id": id, "conversationId": "c1", "branchId": "b1", "sequence": 1, "createdAt": TIME, "visibility": "model", "status": "in-progress",
        "provenance": {"origin": "provider", "attribution": {}}});
    item.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    item
}

/// A whole log: a text, a call, the end.
fn log() -> Value {
    let done = json!({"state": "completed", "finishReason": "tool-calls"});
    let message = item("op.i0", json!({"kind": "message", "role": "assistant", "parts": []}));
    let call = item(
        "op.i1",
        json!({"kind": "tool-call", "callId": "k", "name": "run", "toolType": "function", "rawArguments": "", "lifecycle": "arguments-streaming", "execution": "client",
        "providerExecuted": false}),
    );
    let bodies = [
        json!({"kind": "operation.created", "sourceBranchId": "b1", "target": {"family": "openai-chat"}}),
        json!({"kind": "operation.running"}),
        json!({"kind": "response.started", "responseId": "rs", "model": {"model": "m"}, "profile": {"family": "openai-chat"}}),
        json!({"kind": "item.started", "itemId": "op.i0", "item": message}),
        json!({"kind": "item.delta", "itemId": "op.i0", "delta": {"kind": "part-started", "part": {"partId": "op.i0.p0", "kind": "text", "text": ""}}}),
        json!({"kind": "text.delta", "itemId": "op.i0", "partId": "op.i0.p0", "text": "hi"}),
        json!({"kind": "item.completed", "itemId": "op.i0", "status": "completed"}),
        json!({"kind": "item.started", "itemId": "op.i1", "callId": "k", "item": call}),
        json!({"kind": "tool-arguments.delta", "itemId": "op.i1", "callId": "k", "text": "{}"}),
        json!({"kind": "tool-arguments.ready", "itemId": "op.i1", "callId": "k", "rawArguments": "{}", "input": {}}),
        json!({"kind": "item.completed", "itemId": "op.i1", "status": "completed"}),
        json!({"kind": "usage.update", "usage": {"total": {"value": 1.0, "scope": "request", "source": "reported"}}}),
        json!({"kind": "operation.completed", "status": done}),
        json!({"kind": "stream.completed", "status": done, "itemIds": ["op.i0", "op.i1"]}),
    ];
    bodies.into_iter().enumerate().map(|(i, body)| event(i as u64 + 1, body)).collect()
}

#[allow(clippy::ptr_arg)] // what is decoded is a list that owns its events
fn whole(log: &Vec<UnifiedEventV2>) -> Vec<Violation> {
    semantics::event_log(log, Extent::Whole, Pending::Refused)
}

#[test]
fn a_log_is_dense_and_ends_once() {
    throughline_format::clause!("EVT-01", "EVT-03");
    check(
        &log(),
        whole,
        rows! {
            "/4/sequence" = 9, "/4/eventId" = "op.e9" => "/4/sequence" "event-order", "/8/sequence" "event-order";
            "/4" = null => "/4/sequence" "event-order", "/4/kind" "event-fold";
            "/4/eventId" = "op.e9" => "/4/eventId" "event-id";
            "/5/operationId" = "other", "/5/eventId" = "other.e6" => "/5/operationId" "event-order";
            "/13" = null => "" "event-end";
            "/12" = null => "/12/kind" "event-end", "/12/sequence" "event-order";
            "/-" = (event(15, json!({"kind": "warning", "code": "x", "message": "m"}))) => "/14/kind" "event-end";
            "/-" = (event(15, json!({"kind": "stream.completed", "status": {"state": "completed", "finishReason": "stop"}, "itemIds": []}))) => "/14/kind" "event-end";
            "/-" = (event(6, json!({"kind": "text.delta", "itemId": "op.i0", "partId": "op.i0.p0", "text": "hi"}))) => ;
            "/-" = (event(6, json!({"kind": "text.delta", "itemId": "op.i0", "partId": "op.i0.p0", "text": "ho"}))) => "/14/sequence" "event-order";
            "/-" = (event(14, json!({"kind": "heartbeat"}))) => ;
            "/-" = (event(13, json!({"kind": "heartbeat"}))) => "/14/sequence" "event-order";
            "/12/kind" = "operation.expired", "/12/status" = null => ;
            "/13/itemIds" = ["op.i1", "op.i0"] => "/13/itemIds" "event-items";
        },
    );
    let prefix = |log: &Vec<UnifiedEventV2>| semantics::event_log(log, Extent::Prefix, Pending::Refused);
    let mut running = log();
    running.as_array_mut().unwrap().truncate(6);
    check(
        &running,
        prefix,
        rows! { "/0/kind" = "warning", "/0/code" = "c", "/0/message" = "m", "/0/sourceBranchId" = null, "/0/target" = null => ; },
    );
    let mut torn = log();
    torn.as_array_mut().unwrap().truncate(13);
    assert_eq!(found(&prefix(&parse(&torn))), [(String::new(), "event-end")]);
    assert_eq!(whole(&Vec::new()), []);
}

#[test]
fn events_fit_what_came_before() {
    check(
        &log(),
        whole,
        rows! {
            "/5/partId" = "nowhere" => "/5/kind" "event-fold";
            "/5/kind" = "reasoning.delta" => "/5/kind" "event-fold";
            "/6/itemId" = "nowhere" => "/6/kind" "event-fold";
            "/2" = (event(3, json!({"kind": "operation.queued"}))) => "/2/kind" "transition";
            "/11" = (event(12, json!({"kind": "tool.lifecycle", "itemId": "op.i1", "callId": "k", "from": "arguments-ready", "to": "approval-denied"}))) => "/11/to" "transition", "/11/kind" "transition";
            "/11" = (event(12, json!({"kind": "tool.lifecycle", "itemId": "op.i1", "callId": "k", "from": "executing", "to": "output-ready"}))) => "/11/kind" "transition";
        },
    );
}

fn one(event: &UnifiedEventV2) -> Vec<Violation> {
    semantics::event(event, Pending::Refused)
}

#[test]
fn events_name_what_they_are_about() {
    for (index, member) in [
        (3, "itemId"),
        (4, "itemId"),
        (5, "itemId"),
        (5, "partId"),
        (6, "itemId"),
        (8, "itemId"),
        (8, "callId"),
        (9, "callId"),
    ] {
        let mut record = log()[index].clone();
        set(&mut record, &format!("/{member}"), json!(null));
        assert_eq!(found(&one(&parse(&record))), [(format!("/{member}"), "event-subject")], "{index}");
    }
    check(
        &log()[3],
        one,
        rows! {
            "/sequence" = 0, "/eventId" = "op.e0" => "/sequence" "event-order";
            "/candidate" = 0 => "/candidate" "event-subject";
            "/itemId" = "op.i9" => "/item/id" "event-subject";
            "/item/status" = "completed" => "/item/status" "item-status";
            "/item/role" = null => "/item/role" "message-role";
            "/item/conversationId" = "pending", "/item/branchId" = "pending" => "/item/conversationId" "pending-id";
        },
    );
}

#[test]
fn payloads_keep_their_own_rules() {
    let sample = event(1, json!({"kind": "warning", "code": "c", "message": "m"}));
    let other = |body: Value| {
        let record: UnifiedEventV2 = parse(&event(1, body));
        found(&one(&record))
            .into_iter()
            .map(|(path, rule)| format!("{path} {rule}"))
            .collect::<Vec<_>>()
    };
    check(&sample, one, rows! { "/eventId" = "x" => "/eventId" "event-id"; });
    let delta = |delta: Value| json!({"kind": "item.delta", "itemId": "i", "partId": "p", "delta": delta});
    let signature = |scope: &str| json!({"kind": "signature.ready", "itemId": "i", "issuer": "provider", "providerData": {"profile": {"family": "f"}, "scope": scope, "schema": "a/b@1", "resourceId": "r"}});
    let key = crate::secrets::made_up("sk-");
    let cases: Vec<(Value, &[&str])> = vec![
        (delta(json!({"kind": "media", "base64": "?"})), &["/delta/base64 inline-data"]),
        (
            delta(json!({"kind": "field", "pointer": "/role", "value": 1})),
            &["/delta/pointer event-fold"],
        ),
        (delta(json!({"kind": "output"})), &["/delta/text event-subject"]),
        (signature("owner-private"), &[]),
        (signature("portable-annotation"), &["/providerData/scope annotation-scope"]),
        (
            json!({"kind": "item.completed", "itemId": "i", "status": "in-progress"}),
            &["/status item-status"],
        ),
        (
            json!({"kind": "operation.completed", "status": {"state": "failed", "finishReason": "stop"}}),
            &["/status/finishReason finish-reason"],
        ),
        (
            json!({"kind": "operation.failed", "error": {"category": "server", "code": "x", "message": "m", "retryable": true}}),
            &["/error/code error-code"],
        ),
        (
            json!({"kind": "tool-arguments.ready", "itemId": "i", "callId": "k", "rawArguments": "{", "input": {}}),
            &["/input call-input"],
        ),
        (
            json!({"kind": "loss.update", "entries": [{"path": "x", "feature": "f", "severity": "info", "reason": "r"}]}),
            &["/entries/0/path pointer"],
        ),
        (
            json!({"kind": "usage.update", "usage": {"total": {"value": -1.0, "scope": "request", "source": "reported"}}}),
            &["/usage/total/value number"],
        ),
        (json!({"kind": "warning", "code": "c", "message": key}), &["/message secret"]),
        (json!({"kind": "operation.cancelled", "reason": key}), &["/reason secret"]),
        (
            json!({"kind": "source.ready", "itemId": "i", "part": {"partId": "p", "kind": "image", "source": {"kind": "url", "url": ""}}}),
            &["/part/source/url url"],
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(other(body.clone()), expected, "{body}");
    }
}
