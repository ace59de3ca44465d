//! The current view of items: the base with its revisions in order.

use crate::support::parse;
use serde_json::{Value, json};
use throughline_format::UnifiedItem;
use throughline_format::revision::bring_up_to_date;

const ERROR: &str = "tool.failed";

fn error() -> Value {
    json!({"category": "server", "code": ERROR, "message": "no", "retryable": false})
}

fn item(body: &Value) -> Value {
    let mut item = json!({"id": "i1", "conversationId": "c1", "branchId": "b1", "sequence": 1, "createdAt": "2026-01-31T12:00:00.000Z", "visibility": "model",
        "status": "in-progress", "provenance": {"origin": "client", "attribution": {}}});
    item.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    item
}

fn text(text: &str) -> Value {
    json!([{"partId": "i1.p0", "kind": "text", "text": text}])
}

/// The item after revisions that each change what is told, in the order of their numbers.
fn current(body: &Value, changes: &[(u64, Value)]) -> Value {
    let mut items: Vec<UnifiedItem> = vec![parse(&item(body))];
    let of = |(number, change): &(u64, Value)| {
        parse(
            &json!({"revisionId": format!("r{number}"), "itemId": "i1", "number": number, "createdAt": "2026-01-31T12:00:00.000Z", "change": change, "reason": "test"}),
        )
    };
    let mut revisions: Vec<_> = changes.iter().map(of).collect();
    revisions.push(parse(
        &json!({"revisionId": "other", "itemId": "i2", "number": 1, "createdAt": "2026-01-31T12:00:00.000Z", "change": {"status": "failed"}, "reason": "test"}),
    ));
    bring_up_to_date(&mut items, &revisions);
    serde_json::to_value(&items[0]).unwrap()
}

#[test]
fn each_change_is_seen_in_the_kinds_that_have_it() {
    let message = json!({"kind": "message", "role": "user", "parts": text("a")});
    let result = json!({"kind": "tool-result", "callId": "c", "output": text("a"), "execution": "client"});
    let call = json!({"kind": "tool-call", "callId": "c", "name": "f", "toolType": "function", "rawArguments": "{}", "lifecycle": "arguments-ready", "execution": "client", "providerExecuted": false});
    let actions = json!({"kind": "computer-action", "callId": "c", "actions": [], "lifecycle": "arguments-ready", "execution": "client"});
    let shown = json!({"kind": "computer-action-result", "callId": "c", "output": text("a")});
    let code = json!({"kind": "code-execution", "callId": "c", "lifecycle": "executing", "execution": "provider"});
    let ran = json!({"kind": "code-execution-result", "callId": "c", "outcome": "ok", "output": text("a")});
    let found = json!({"kind": "search-result", "queries": [], "parts": []});
    for (body, change, pointer, expected) in [
        (&message, json!({"status": "completed"}), "/status", json!("completed")),
        (&message, json!({"parts": text("b")}), "/parts/0/text", json!("b")),
        (&message, json!({"lifecycle": "executing"}), "/lifecycle", Value::Null),
        (&message, json!({"error": error()}), "/error", Value::Null),
        (&result, json!({"parts": text("b")}), "/output/0/text", json!("b")),
        (&result, json!({"error": error()}), "/error/code", json!(ERROR)),
        (&call, json!({"lifecycle": "executing"}), "/lifecycle", json!("executing")),
        (&call, json!({"parts": text("b")}), "/parts", Value::Null),
        (&actions, json!({"lifecycle": "executing"}), "/lifecycle", json!("executing")),
        (&shown, json!({"parts": []}), "/output", json!([])),
        (&shown, json!({"error": error()}), "/error/code", json!(ERROR)),
        (&code, json!({"lifecycle": "output-error"}), "/lifecycle", json!("output-error")),
        (&ran, json!({"error": error()}), "/error/code", json!(ERROR)),
        (&found, json!({"error": error()}), "/error/code", json!(ERROR)),
    ] {
        let now = current(body, &[(1, change.clone())]);
        assert_eq!(now.pointer(pointer).cloned().unwrap_or_default(), expected, "{change} of {body}");
    }
}

#[test]
fn a_later_number_counts_wherever_it_stands_in_the_list() {
    let body = json!({"kind": "message", "role": "user", "parts": text("a")});
    let (one, two) = ((1, json!({"parts": text("one")})), (2, json!({"parts": text("two")})));
    let done = (3, json!({"status": "completed"}));
    for order in [
        [one.clone(), two.clone(), done.clone()],
        [done.clone(), two.clone(), one.clone()],
        [two, done, one],
    ] {
        let now = current(&body, &order);
        assert_eq!((&now["parts"][0]["text"], &now["status"]), (&json!("two"), &json!("completed")));
    }
    assert_eq!(current(&body, &[]), item(&body), "without a revision it is what was appended");
}
