//! Records that break no rule, rich enough that every rule has a place in them.

use crate::support::parse;
use serde_json::{Value, json};
use throughline_format::compaction::audit_hash;
use throughline_format::{UnifiedItem, UnifiedOperation, fingerprint};

pub(crate) const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
pub(crate) const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
pub(crate) const TIME: &str = "2026-01-31T12:00:00.000Z";
pub(crate) const LATER: &str = "2026-01-31T12:00:01.000Z";

fn item(number: usize, body: Value) -> Value {
    let mut item = json!({"id": format!("i{number}"), "conversationId": "c1", "branchId": "b1", "sequence": number, "createdAt": TIME, "visibility": "model", "status": "completed",
        "provenance": {"origin": "client", "attribution": {}}});
    if number > 1 {
        item["parentId"] = json!(format!("i{}", number - 1));
    }
    item.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    item
}

fn text(part_id: &str) -> Value {
    json!({"partId": part_id, "kind": "text", "text": "words"})
}

fn call(kind: &str, call_id: &str, tool_type: &str, execution: &str) -> Value {
    json!({"kind": kind, "callId": call_id, "name": "run", "toolType": tool_type, "input": {"a": 1}, "rawArguments": "{\"a\": 1}", "lifecycle": "arguments-ready",
        "execution": execution, "providerExecuted": execution == "provider"})
}

/// A path of 21 items with something of everything; places in the list are one less than the numbers in the IDs.
pub(crate) fn items() -> Vec<Value> {
    let image = json!({"partId": "p2", "kind": "image", "source": {"kind": "inline", "mediaType": "image/png", "data": "aGVsbG8=", "encoding": "base64"},
        "media": {"mediaType": "image/png", "size": 5, "sha256": HELLO, "pages": [{"from": 1, "to": 2}], "range": {"start": 0, "end": 5, "unit": "utf8-byte"},
            "time": {"startSeconds": 0.5, "endSeconds": 1.0}, "fps": 1.0, "durationSeconds": 2.0, "transcript": {"text": "t", "words": [{"text": "t", "startSeconds": 0.0, "endSeconds": 0.5}]}}});
    let citation = json!({"kind": "citation", "source": {"sourceId": "s1", "type": "document", "documentItemId": "i2", "documentPartId": "p3"}, "quotedText": "q",
        "spans": [{"of": "answer", "start": 0, "end": 4, "unit": "code-point", "partId": "p10"}, {"of": "source", "start": 2, "end": 9, "unit": "utf8-byte", "partId": "p3"}],
        "supports": {"partId": "p10", "relation": "quotes"}, "confidence": 0.5});
    let bodies = vec![
        json!({"kind": "message", "role": "system", "placement": "instructions", "parts": [text("p0")]}),
        json!({"kind": "message", "role": "user", "cache": {"breakpoint": true, "ttl": "5m"}, "parts": [text("p1"), image,
            {"partId": "p3", "kind": "document", "source": {"kind": "url", "url": "https://example.org/a.pdf?sig=1"}}]}),
        json!({"kind": "reasoning", "parts": [{"partId": "p4", "kind": "reasoning", "text": "hm", "form": "full", "state": "disclosed"}]}),
        call("tool-call", "k1", "function", "client"),
        json!({"kind": "tool-result", "callId": "k1", "output": [text("p5")], "execution": "client"}),
        json!({"kind": "approval-request", "approvalId": "a1", "callId": "k1", "subject": "tool-call"}),
        json!({"kind": "approval-response", "approvalId": "a1", "decision": "approved"}),
        call("server-tool-call", "k2", "web-search", "provider"),
        json!({"kind": "search-result", "callId": "k2", "queries": ["q"], "parts": [{"partId": "p6", "kind": "grounding-source", "source": {"sourceId": "s2", "type": "web"}, "parts": [text("p7")]}]}),
        json!({"kind": "server-tool-result", "callId": "k2", "toolType": "web-search", "output": [text("p8")], "execution": "provider"}),
        json!({"kind": "computer-action", "callId": "k3", "actions": [{"action": "click"}], "lifecycle": "executing", "execution": "client", "approvalId": "a1"}),
        json!({"kind": "computer-action-result", "callId": "k3", "output": [text("p9")], "currentUrl": "https://example.org/"}),
        json!({"kind": "code-execution", "callId": "k4", "code": "1", "lifecycle": "output-ready", "execution": "provider"}),
        json!({"kind": "code-execution-result", "callId": "k4", "outcome": "ok", "output": []}),
        json!({"kind": "artifact", "artifactId": "art1", "sha256": HASH, "media": {"sha256": HASH}}),
        json!({"kind": "reference", "target": {"kind": "item", "itemId": "i2"}}),
        json!({"kind": "compaction-summary", "parts": [text("p11")], "covers": {"fromItemId": "i1", "toItemId": "i2", "count": 2}, "auditHash": HASH, "replaces": true, "author": "client"}),
        json!({"kind": "interruption", "cause": "deadline", "operationId": "op", "openCallIds": []}),
        json!({"kind": "error", "error": {"category": "rate-limit", "code": "rate-limit.tokens", "message": "too fast", "retryable": true, "httpStatus": 429, "fieldPath": "/a"}}),
        json!({"kind": "provider-switch", "to": {"model": "m"}, "toProfile": {"family": "openai-chat"}, "reason": "client"}),
        json!({"kind": "message", "role": "assistant", "parts": [{"partId": "p10", "kind": "text", "text": "answer", "annotations": [citation]}]}),
    ];
    let mut items: Vec<Value> = bodies.into_iter().enumerate().map(|(index, body)| item(index + 1, body)).collect();
    let covered: Vec<UnifiedItem> = items[..2].iter().map(parse).collect();
    items[16]["auditHash"] = json!(audit_hash(&covered).unwrap());
    items
}

pub(crate) fn request() -> Value {
    let wish = |value: Value| json!({"value": value, "requirement": "preferred"});
    json!({
        "schemaVersion": "2.0", "requestId": "rq1",
        "conversation": {"conversationId": "c1", "branchId": "b1", "headItemId": "i21", "completeness": "complete", "items": items(),
            "continuations": [{"resourceId": "r1", "resourceType": "response", "ownerFingerprint": HASH}]},
        "model": {"requested": "m"},
        "generation": {"temperature": wish(json!(0.5)), "topP": wish(json!(0.9)), "maxOutputTokens": wish(json!(10)), "prediction": wish(json!({"parts": [text("pr0")]}))},
        "tools": [
            {"toolId": "t1", "kind": "function", "execution": "client", "portability": "portable", "name": "run", "inputSchema": {"type": "object"}, "cache": {"breakpoint": true}},
            {"toolId": "t2", "kind": "mcp", "execution": "provider", "portability": "owner-bound", "config": {"serverLabel": "srv", "serverUrl": "https://mcp.example.org/x"},
                "resources": [{"resourceId": "r2", "resourceType": "container", "ownerFingerprint": HASH}]},
            {"toolId": "t3", "kind": "web-search", "execution": "provider", "portability": "equivalent", "config": {"maxUses": 1, "userLocation": {"latitude": 1.0, "longitude": 2.0}}},
        ],
        "toolChoice": {"requirement": "preferred", "kind": "allowed", "mode": "auto", "tools": [{"toolType": "function", "name": "run"}, {"toolType": "mcp", "serverLabel": "srv"}]},
        "cache": {"mode": "explicit", "affinityKey": "session-1", "breakpoints": [{"itemId": "i2", "ttl": "5m"}, {"itemId": "i2", "partId": "p1", "ttl": "1h"}]},
        "state": {"resources": [{"resourceId": "r3", "resourceType": "container", "ownerFingerprint": HASH}]},
        "output": {"format": wish(json!({"kind": "json-schema", "schema": {"type": "object"}}))},
        "metadata": {"labels": {"team": "a"}, "endUserRef": "u1"},
        "source": {"profile": {"family": "openai-chat"}, "origin": "client", "receivedAt": TIME, "clientFamily": "codex",
            "transport": {"profile": {"family": "openai-chat"}, "action": "chat.completions", "method": "POST", "pathTemplate": "/v1/models/{model}", "requestId": "r-1", "traceId": "t-1",
                "idempotencyKey": "k-1", "accept": "sse", "stream": true, "contentType": "application/json", "betas": ["tools-2024-04-04"]}},
    })
}

pub(crate) fn counter(value: f64) -> Value {
    json!({"value": value, "scope": "request", "source": "reported"})
}

pub(crate) fn result() -> Value {
    let mut answer = item(1, json!({"kind": "message", "role": "assistant", "parts": [text("p1")]}));
    answer["id"] = json!("o1");
    let mut called = item(2, call("tool-call", "k1", "function", "client"));
    called["id"] = json!("o2");
    called["parentId"] = json!("o1");
    let mut other = answer.clone();
    other["id"] = json!("x1");
    other["parts"] = json!([text("px1")]);
    let derived = |value: f64| json!({"value": value, "scope": "request", "source": "derived"});
    json!({
        "schemaVersion": "2.0", "responseId": "rs1", "conversationId": "c1", "operationId": "op1", "model": {"model": "m"},
        "status": {"state": "completed", "finishReason": "tool-calls", "originalReason": "tool_use"}, "output": [answer, called],
        "usage": {"inputTotal": derived(30.0), "inputUncached": counter(10.0), "cacheRead": counter(15.0), "cacheWrite": counter(5.0), "outputTotal": derived(20.0), "reasoning": counter(5.0),
            "total": derived(50.0), "cacheWriteByTtl": {"300": derived(5.0)}, "cost": [{"value": 0.5, "scope": "request", "source": "reported", "unit": "USD", "kind": "cost"}],
            "others": [{"total": {"value": 500.0, "scope": "session", "source": "reported"}}]},
        "state": {"checkpoints": ["cp1"], "resources": [], "invalidated": []},
        "provenance": {"profile": {"family": "openai-chat"}, "attribution": {"model": "m"}, "providerRequestId": "req_1"},
        "loss": {"disposition": "degraded", "entries": [{"path": "/generation/seed", "feature": "generation.seed", "severity": "warning", "reason": "no seed"}]},
        "alternatives": [{"index": 1, "status": {"state": "completed", "finishReason": "stop"}, "output": [other]}],
    })
}

pub(crate) fn owner() -> Value {
    json!({"profile": {"family": "openai-responses"}, "provider": "openai", "credentialFingerprint": "v1:0123456789abcdef0123456789abcdef",
        "endpointFingerprint": "0123456789abcdef0123456789abcdef", "model": "m"})
}

/// A running background operation.
pub(crate) fn operation() -> Value {
    let mut operation = json!({
        "schemaVersion": "2.0", "operationId": "op1", "conversationId": "c1", "state": "running", "owner": owner(), "principalRef": "pr1", "sourceBranchId": "b1", "sourceHeadItemId": "i1",
        "inputItemIds": ["i2"], "providerJob": {"resourceId": "r1", "resourceType": "run", "ownerFingerprint": HASH}, "polling": {"nextAt": LATER, "intervalMs": 1000, "attempts": 0},
        "cancellation": "supported", "requestFingerprint": HASH, "createdAt": TIME, "startedAt": TIME, "updatedAt": LATER, "cleanupLease": {"leaseId": "l1", "expiresAt": LATER},
        "portability": {"decision": "portable", "target": {"family": "openai-responses"}, "reasons": []}, "lastSequence": 3,
    });
    let record: UnifiedOperation = parse(&operation);
    operation["providerJob"]["ownerFingerprint"] = json!(fingerprint(&record.owner.unwrap()).unwrap());
    operation
}

pub(crate) fn checkpoint() -> Value {
    json!({"checkpointId": "cp1", "conversationId": "c1", "branchId": "b1", "journalHeadItemId": "i1", "owner": owner(), "resourceType": "response", "encryptedPayload": "AAECAw==",
        "status": "active", "createdAt": TIME, "expiresAt": LATER})
}
