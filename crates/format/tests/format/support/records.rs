//! Samples of the root records and of what is stored beside them, with every optional member set.

use super::parts::{HASH, TIME, attribution, data_ref, error, items, parts, profile, resource_ref, with};
use serde_json::{Value, json};

fn wish(value: &Value) -> Value {
    json!({"value": value, "requirement": "preferred"})
}

fn image() -> Value {
    json!({"aspectRatio": "16:9", "size": "1x1", "quality": "hd", "format": "png", "background": "none", "count": 0})
}

pub(crate) fn generation() -> Value {
    json!({
        "maxOutputTokens": wish(&json!(0)), "temperature": wish(&json!(0.0)), "topP": wish(&json!(0.9)), "topK": wish(&json!(40.0)), "minP": wish(&json!(0.1)),
        "stopSequences": wish(&json!([])), "candidateCount": wish(&json!(2)), "seed": wish(&json!("9223372036854775807")), "presencePenalty": wish(&json!(-0.5)),
        "frequencyPenalty": wish(&json!(0.5)), "repetitionPenalty": wish(&json!(1.5)), "logitBias": wish(&json!({"map:50256": -100.0})),
        "logprobs": wish(&json!({"enabled": true, "top": 0})),
        "reasoning": {"mode": wish(&json!("auto")), "effort": wish(&json!("xhigh")), "budgetTokens": wish(&json!(0)), "summary": wish(&json!("concise"))},
        "parallelTools": wish(&json!("one-at-a-time")), "maxToolCalls": wish(&json!(1)), "serviceTier": wish(&json!("flex")),
        "prediction": wish(&json!({"parts": [{"partId": "pr.p0", "kind": "text", "text": "x"}]})), "prefill": wish(&json!({"itemId": "op.i0"})),
        "safetySettings": wish(&json!([{"category": "c", "threshold": "t", "method": "m"}])), "outputModalities": wish(&json!(["text", "audio"])),
        "media": {
            "inputResolution": wish(&json!("ultra-high")),
            "speech": wish(&json!({"voices": [{"voice": "v", "speaker": "A"}], "language": "en", "format": "wav"})),
            "image": wish(&image()),
            "video": wish(&json!({"aspectRatio": "16:9", "resolution": "720p", "durationSeconds": 4.5})),
        },
    })
}

/// One of each form of output.
pub(crate) fn formats() -> Vec<Value> {
    vec![
        json!({"kind": "text"}),
        json!({"kind": "json-object"}),
        json!({"kind": "json-schema", "schema": {"opaque": 1}, "name": "n", "description": "d", "strict": false}),
        json!({"kind": "grammar", "syntax": "lark", "definition": "start: \"a\""}),
        json!({"kind": "media", "mediaType": "image/png"}),
    ]
}

/// Tools with every member set; the second has the other spelling of the approval rule.
pub(crate) fn tools() -> Vec<Value> {
    let full = json!({
        "toolId": "t0", "kind": "custom", "execution": "ccr", "portability": "owner-bound", "requirement": "required", "name": "run", "namespace": "ns", "description": "",
        "inputSchema": {"opaque": 1}, "outputSchema": {"opaque": 1}, "inputExamples": [{"opaque": 1}], "grammar": {"syntax": "regex", "definition": "a+"}, "strict": false,
        "deferLoading": false, "eagerInput": true, "async": true, "allowedCallers": ["model", "acme:robot"], "approval": {"alwaysFor": ["a"], "neverFor": []},
        "cache": {"breakpoint": true, "ttl": 1800}, "version": "20260209",
        "config": {
            "allowedDomains": [], "blockedDomains": ["x.org"], "maxUses": 0, "contextSize": "low", "maxContentTokens": 1,
            "userLocation": {"city": "Wien", "region": "W", "country": "AT", "timezone": "Europe/Vienna", "latitude": 48.25, "longitude": 16.5},
            "searchTypes": ["web"], "timeRange": "day", "citations": false, "maxResults": 1, "scoreThreshold": 0.5, "filter": {"opaque": 1}, "ranker": "r",
            "latitude": 1.5, "longitude": 2.5, "language": "de", "widget": true, "memoryLimit": "1g", "network": {"mode": "allow", "allowedDomains": ["y.org"]},
            "environment": "browser", "displayWidth": 1, "displayHeight": 1, "excludedActions": ["drag"], "zoom": false, "injectionCheck": true, "disabledSafetyPolicies": ["account_creation"], "serverLabel": "s",
            "serverUrl": "https://mcp.example.org", "connector": "c", "allowedTools": ["a"], "description": "d", "credentialRef": "cr1", "image": image(),
        },
        "resources": [resource_ref()], "providerData": [data_ref()],
    });
    vec![
        full.clone(),
        with(
            &full,
            &json!({"toolId": "t1", "approval": "always", "cache": {"breakpoint": true, "ttl": "1h"}}),
        ),
    ]
}

/// One tool choice of each kind.
pub(crate) fn choices() -> Vec<Value> {
    let tool = json!({"toolType": "mcp", "name": "run", "serverLabel": "srv"});
    let simple = |kind: &str| json!({"requirement": "required", "kind": kind, "validated": true});
    vec![
        simple("auto"),
        simple("none"),
        simple("required"),
        json!({"requirement": "optional", "kind": "named", "tool": tool}),
        json!({"requirement": "preferred", "kind": "allowed", "mode": "required", "tools": [tool], "validated": true}),
    ]
}

fn transport() -> Value {
    json!({"profile": profile(), "action": "generate", "method": "POST", "pathTemplate": "/v1beta/models/{model}:generateContent", "requestId": "r", "traceId": "t",
        "idempotencyKey": "k", "accept": "json-array", "stream": false, "contentType": "application/json", "contentEncoding": "gzip", "betas": [], "clientFamily": "codex"})
}

pub(crate) fn request() -> Value {
    json!({
        "schemaVersion": "2.0", "requestId": "rq1",
        "conversation": {"conversationId": "c1", "branchId": "b1", "headItemId": "i9", "completeness": "partial", "items": items(), "continuations": [resource_ref()],
            "missing": [{"afterItemId": "i1", "beforeItemId": "i5", "count": 3, "reason": "provider-held", "resource": resource_ref()}]},
        "model": {"requested": "m", "modelProvider": "anthropic", "fallbacks": [], "requirement": "required"},
        "generation": generation(), "tools": tools(), "toolChoice": choices()[4],
        "cache": {"mode": "explicit", "affinityKey": "k", "breakpoints": [{"itemId": "op.i0", "partId": "op.i0.p0", "ttl": "1h"}], "retention": "conversation"},
        "state": {"persist": wish(&json!(false)), "background": wish(&json!({"completionWindow": "24h", "webhookRef": "w1"})),
            "contextManagement": wish(&json!([{"kind": "clear-tool-uses", "triggerTokens": 1000, "keep": 0}])), "resources": [resource_ref()]},
        "output": {"format": wish(&formats()[2]), "verbosity": wish(&json!("low")), "includes": wish(&json!(["citations", "acme:more"]))},
        "metadata": {"labels": {"map:id": "x", "map:": ""}, "endUserRef": "u"},
        "source": {"profile": profile(), "origin": "import", "receivedAt": TIME, "clientFamily": "codex", "transport": transport(),
            "import": {"runtime": "codex", "runtimeVersion": "1.2", "sourceSha256": HASH}},
    })
}

/// Whole figures are written without a fraction.
fn counter(value: u64) -> Value {
    json!({"value": value, "scope": "session", "source": "estimated"})
}

pub(crate) fn usage() -> Value {
    let map = || json!({"map:id": counter(1)});
    let counters = json!({
        "inputTotal": counter(0), "inputUncached": counter(1), "cacheRead": counter(2), "cacheWrite": counter(3), "outputTotal": counter(4), "reasoning": counter(5),
        "total": counter(6), "toolPrompt": counter(7), "acceptedPrediction": counter(8), "rejectedPrediction": counter(9), "cacheWriteByTtl": map(),
        "inputByModality": map(), "outputByModality": map(), "cacheReadByModality": map(), "toolPromptByModality": map(), "serverToolCalls": map(),
        "cost": [{"value": 0.125, "scope": "request", "source": "reported", "unit": "USD", "kind": "credits-left"}],
    });
    with(&counters, &json!({"others": [counters]}))
}

pub(crate) fn status() -> Value {
    json!({"state": "incomplete", "finishReason": "content-filter", "originalReason": "SAFETY", "stopSequence": "", "safety": {"category": "c", "explanation": "e"}})
}

pub(crate) fn model() -> Value {
    json!({"requested": "m", "model": "m-1", "modelProvider": "openai", "family": "m", "version": "2026-01-01", "serviceTier": "flex"})
}

pub(crate) fn losses() -> Value {
    json!([{"path": "/generation/seed", "feature": "generation.seed", "severity": "warning", "reason": "r", "sourceItemId": "i1", "targetCapability": "seed"}])
}

pub(crate) fn result() -> Value {
    json!({
        "schemaVersion": "2.0", "responseId": "rs1", "conversationId": "c1", "operationId": "op", "model": model(), "status": status(), "output": items(), "usage": usage(),
        "error": error(), "state": {"checkpoints": ["cp1"], "resources": [resource_ref()], "invalidated": []},
        "provenance": {"profile": profile(), "attribution": attribution(), "requestId": "rq1", "providerRequestId": "req_1",
            "attempts": [{"attribution": attribution(), "outcome": "fallback", "errorCode": "overloaded.busy"}]},
        "loss": {"disposition": "degraded", "entries": losses()}, "alternatives": [{"index": 1, "status": status(), "output": [items()[0]]}],
    })
}

pub(crate) fn owner() -> Value {
    json!({"profile": profile(), "provider": "vertex", "credentialFingerprint": "v1:0123456789abcdef0123456789abcdef", "endpointFingerprint": "0123456789abcdef0123456789abcdef",
        "project": "p", "region": "r", "tenant": "t", "model": "m-1", "modelFamily": "m", "apiRevision": "2026-01-15"})
}

pub(crate) fn operation() -> Value {
    json!({
        "schemaVersion": "2.0", "operationId": "op", "conversationId": "c1", "state": "requires-action", "owner": owner(), "principalRef": "pr1", "sourceBranchId": "b1",
        "sourceHeadItemId": "i1", "inputItemIds": ["i2"], "providerJob": resource_ref(), "polling": {"nextAt": TIME, "intervalMs": 1000, "attempts": 0},
        "webhook": {"webhookRef": "w1", "state": "received"}, "cancellation": "best-effort", "cancelRequestedAt": TIME, "idempotencyKeyHash": HASH,
        "requestFingerprint": HASH, "resultId": "rs1", "error": error(),
        "portability": {"decision": "portable-with-loss", "target": profile(), "reasons": [{"code": "c", "message": "m", "itemId": "i1"}]},
        "loss": {"disposition": "degraded", "entries": losses()}, "createdAt": TIME, "startedAt": TIME, "updatedAt": TIME, "endedAt": TIME, "deadline": TIME,
        "sourceProfile": profile(), "decodeLoss": {"disposition": "degraded", "entries": [{"path": "/x", "feature": "wire.unmapped", "severity": "info", "reason": "kept"}]},
        "cleanupLease": {"leaseId": "l1", "expiresAt": TIME}, "lastSequence": 0,
    })
}

pub(crate) fn revision() -> Value {
    json!({"revisionId": "rv1", "itemId": "op.i0", "number": 1, "createdAt": TIME,
        "change": {"status": "failed", "parts": [parts()[0]], "lifecycle": "output-error", "error": error()}, "reason": "r", "operationId": "op"})
}

pub(crate) fn export() -> Value {
    json!({
        "schemaVersion": "2.0", "exportedAt": TIME,
        "conversation": {"conversationId": "c1", "defaultBranchId": "b1", "createdAt": TIME, "lastUpdatedAt": TIME, "principalRef": "pr1", "title": "",
            "metadata": {"labels": {"map:a": "b"}, "endUserRef": "u"}},
        "branches": [{"branchId": "b1", "conversationId": "c1", "parentBranchId": "b0", "forkItemId": "i1", "headItemId": "i2", "headSequence": 2, "createdAt": TIME}],
        "items": items(), "revisions": [revision()],
        "annotations": [{"resourceId": "an1", "profile": profile(), "schema": "message/phase@1", "payload": {"opaque": 1}}],
        "artifacts": [{"artifactId": "a1", "sha256": HASH, "size": 5, "mediaType": "image/png", "name": "n", "sealed": true, "createdAt": TIME}],
        "privateResources": [{"resourceId": "op.i0.r0", "resourceType": "reasoning", "sha256": HASH, "size": 0}], "fingerprint": HASH,
    })
}

pub(crate) fn checkpoint() -> Value {
    json!({"checkpointId": "cp1", "conversationId": "c1", "branchId": "b1", "journalHeadItemId": "i1", "owner": owner(), "resourceType": "interaction",
        "encryptedPayload": "AAECAw==", "status": "active", "createdAt": TIME, "expiresAt": TIME})
}

pub(crate) fn lease() -> Value {
    json!({"leaseId": "l1", "holder": "h", "purpose": "export", "conversationId": "c1", "expiresAt": TIME})
}

pub(crate) fn unmapped() -> Value {
    json!({"entries": [{"pointer": "/x", "value": {"opaque": null}}]})
}
