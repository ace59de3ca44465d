//! A sample of every kind of part and item with every optional member set.

use serde_json::{Map, Value, json};

pub(crate) const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
pub(crate) const TIME: &str = "2026-01-31T12:00:00.123Z";

/// Puts the members of both objects into one.
pub(crate) fn with(base: &Value, more: &Value) -> Value {
    let mut out: Map<String, Value> = base.as_object().unwrap().clone();
    out.extend(more.as_object().unwrap().clone());
    Value::Object(out)
}

pub(crate) fn profile() -> Value {
    json!({"family": "gemini-interactions", "version": "v1beta", "revision": "2026-01-15"})
}

pub(crate) fn data_ref() -> Value {
    json!({"profile": profile(), "scope": "owner-private", "schema": "anthropic-messages/signature@1", "resourceId": "op.i0.r0"})
}

pub(crate) fn resource_ref() -> Value {
    json!({"resourceId": "op.r1", "resourceType": "container", "ownerFingerprint": HASH, "status": "active", "expiresAt": TIME})
}

pub(crate) fn attribution() -> Value {
    json!({"provider": "claude-code", "modelProvider": "anthropic", "model": "claude-1"})
}

pub(crate) fn error() -> Value {
    json!({"category": "rate-limit", "code": "rate-limit.tokens", "message": "too fast", "httpStatus": 429, "grpcStatus": "RESOURCE_EXHAUSTED",
        "providerCode": "rate_limit_error", "retryable": true, "retryAfterMs": 0, "fieldPath": "/messages/0", "operationId": "op", "itemId": "op.i0",
        "providerRequestId": "req_1", "diagnosticRef": "d1"})
}

fn span() -> Value {
    json!({"of": "answer", "start": 0, "end": 4, "unit": "code-point", "partId": "op.i0.p0"})
}

pub(crate) fn source() -> Value {
    json!({"sourceId": "s1", "type": "web", "uri": "https://example.org/", "title": "", "resource": resource_ref(), "documentIndex": 0,
        "documentItemId": "i1", "documentPartId": "i1.p0", "license": "CC0", "publishedAt": "yesterday"})
}

pub(crate) fn citation() -> Value {
    json!({"source": source(), "quotedText": "words", "spans": [span()], "supports": {"partId": "op.i0.p0", "relation": "quotes"}, "confidence": 0.5,
        "queries": ["q"], "retrievedAt": TIME})
}

pub(crate) fn logprob() -> Value {
    json!({"token": "a", "bytes": [97], "logprob": -0.25, "top": [{"token": "b", "bytes": [98], "logprob": -1.5}]})
}

/// One of each kind of annotation.
pub(crate) fn annotations() -> Value {
    json!([
        with(&json!({"kind": "citation"}), &citation()),
        {"kind": "file-path", "artifactId": "a1", "resource": resource_ref(), "span": span()},
        {"kind": "speech", "speaker": "A", "style": "calm", "span": span()},
    ])
}

pub(crate) fn media() -> Value {
    json!({"name": "n.pdf", "mediaType": "application/pdf", "size": 0, "sha256": HASH, "title": "T", "context": "C", "citationsEnabled": false, "altText": "",
        "pages": [{"from": 1, "to": 2}], "range": {"start": 0, "end": 9, "unit": "utf8-byte"}, "time": {"startSeconds": 0.5, "endSeconds": 1.5}, "fps": 0.5,
        "detail": "original", "resolution": {"tokens": 64}, "width": 1, "height": 2, "durationSeconds": 3.5, "sampleRate": 16000, "channels": 1,
        "transcript": {"text": "t", "language": "en", "words": [{"text": "t", "startSeconds": 0.5, "endSeconds": 0.75, "speaker": "A"}]},
        "constraints": [{"family": "openai-chat", "rule": "oversized", "value": "downsize"}]})
}

/// One of each kind of data source.
pub(crate) fn sources() -> Vec<Value> {
    vec![
        json!({"kind": "inline", "mediaType": "image/png", "data": "aGVsbG8=", "encoding": "base64"}),
        json!({"kind": "url", "url": "https://example.org/a.png", "headersRef": "h1"}),
        json!({"kind": "artifact", "artifactId": "a1", "sha256": HASH}),
        json!({"kind": "provider-resource", "resource": resource_ref()}),
    ]
}

/// One part of each kind, and media of each kind of source.
pub(crate) fn parts() -> Vec<Value> {
    let bodies = [
        json!({"kind": "text", "text": "", "language": "en", "style": "plain", "annotations": annotations(), "logprobs": [logprob()]}),
        json!({"kind": "reasoning", "text": "", "form": "summary", "state": "redacted", "privateState": {"ref": data_ref(), "issuer": "client-asserted"}}),
        json!({"kind": "refusal", "text": "no", "category": "policy"}),
        json!({"kind": "image", "source": sources()[0], "media": with(&media(), &json!({"resolution": "ultra-high"}))}),
        json!({"kind": "audio", "source": sources()[1], "media": media()}),
        json!({"kind": "video", "source": sources()[2], "media": media()}),
        json!({"kind": "document", "source": sources()[3], "media": media()}),
        json!({"kind": "file", "source": {"kind": "inline", "mediaType": "text/plain", "data": "", "encoding": "utf8"}, "media": media()}),
        json!({"kind": "binary", "source": {"kind": "inline", "mediaType": "application/x", "data": "AAE=", "encoding": "bytes"}, "media": media()}),
        json!({"kind": "json", "value": {"opaque": 1.0}, "schemaName": "s"}),
        with(&json!({"kind": "citation"}), &citation()),
        json!({"kind": "grounding-source", "source": source(), "score": 0.25, "excerpt": "e", "pageAge": "2 days", "parts": [{"partId": "x.p0", "kind": "text", "text": "t"}]}),
        json!({"kind": "artifact-reference", "artifactId": "a1", "sha256": HASH, "media": media()}),
    ];
    bodies
        .iter()
        .enumerate()
        .map(|(i, body)| with(&json!({"partId": format!("op.i0.p{i}"), "providerData": [data_ref()]}), body))
        .collect()
}

pub(crate) fn item_base(id: &str) -> Value {
    json!({"id": id, "conversationId": "c1", "branchId": "b1", "sequence": 1, "parentId": "i0", "createdAt": TIME, "role": "assistant", "visibility": "model",
        "status": "completed",
        "provenance": {"origin": "provider", "attribution": attribution(), "profile": profile(), "operationId": "op", "requestId": "rq", "responseId": "rs",
            "synthetic": "summary", "truncated": true},
        "cache": {"breakpoint": true, "ttl": "5m"}, "providerData": [data_ref()]})
}

fn call_members() -> Value {
    json!({"callId": "call|1:a", "name": "run", "toolType": "function", "namespace": "ns", "serverLabel": "srv", "input": {"opaque": 1e5}, "rawArguments": "{\"opaque\":1e5}",
        "lifecycle": "executing", "caller": {"kind": "code", "callId": "c9"}, "execution": "ccr", "providerExecuted": false, "privateLinkage": data_ref()})
}

fn result_members() -> Value {
    json!({"callId": "call|1:a", "name": "run", "output": [{"partId": "o.p0", "kind": "text", "text": "done"}], "isError": false, "error": error(), "execution": "client"})
}

fn found_members() -> Value {
    json!({"callId": "c2", "queries": ["q"], "parts": [parts()[11]], "retrievedAt": TIME, "error": error()})
}

/// One item of each kind with every optional member set.
pub(crate) fn items() -> Vec<Value> {
    let kind = |word: &str, members: &Value| with(&json!({"kind": word}), members);
    let bodies = [
        json!({"kind": "message", "parts": parts(), "placement": "inline"}),
        json!({"kind": "reasoning", "parts": [parts()[1]]}),
        kind("tool-call", &call_members()),
        kind("tool-result", &result_members()),
        json!({"kind": "approval-request", "approvalId": "ap1", "callId": "c1", "subject": "plan", "name": "run", "serverLabel": "srv", "rawArguments": "{}",
            "reasons": [{"code": "c", "message": "m"}]}),
        json!({"kind": "approval-response", "approvalId": "ap1", "decision": "denied", "reason": "no", "acknowledged": ["c"]}),
        kind("server-tool-call", &call_members()),
        kind("server-tool-result", &with(&result_members(), &json!({"toolType": "web-search"}))),
        json!({"kind": "computer-action", "callId": "c3", "environment": "browser", "actions": [{"opaque": "click"}], "lifecycle": "arguments-ready", "execution": "client",
            "approvalId": "ap2"}),
        json!({"kind": "computer-action-result", "callId": "c3", "output": [parts()[3]], "currentUrl": "https://example.org/", "isError": true, "error": error()}),
        json!({"kind": "code-execution", "callId": "c4", "language": "python", "code": "1", "commands": ["ls"], "lifecycle": "output-ready", "execution": "provider",
            "caller": {"kind": "model", "callId": "c0"}, "container": resource_ref()}),
        json!({"kind": "code-execution-result", "callId": "c4", "outcome": "ok", "exitCode": -1, "stdout": "", "stderr": "e", "output": [parts()[12]], "error": error()}),
        kind("search-result", &found_members()),
        kind("retrieval-result", &found_members()),
        json!({"kind": "artifact", "artifactId": "a1", "sha256": HASH, "media": media(), "purpose": "generated"}),
        json!({"kind": "reference", "target": {"kind": "item", "itemId": "i3"}}),
        json!({"kind": "compaction-summary", "parts": [parts()[0]], "covers": {"fromItemId": "i1", "toItemId": "i2", "count": 2}, "auditHash": HASH, "replaces": true,
            "author": "engine"}),
        json!({"kind": "provider-switch", "from": attribution(), "to": attribution(), "fromProfile": profile(), "toProfile": profile(), "reason": "runtime-boundary"}),
        json!({"kind": "interruption", "cause": "deadline", "operationId": "op", "openCallIds": ["c1"]}),
        json!({"kind": "error", "error": error()}),
    ];
    let mut out: Vec<Value> = bodies
        .iter()
        .enumerate()
        .map(|(i, body)| with(&item_base(&format!("op.i{i}")), body))
        .collect();
    for (i, target) in [
        json!({"kind": "resource", "resource": resource_ref()}),
        json!({"kind": "url", "url": "https://example.org/"}),
    ]
    .iter()
    .enumerate()
    {
        out.push(with(
            &item_base(&format!("op.ref{i}")),
            &json!({"kind": "reference", "target": target}),
        ));
    }
    out
}
