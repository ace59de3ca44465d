//! Records with one of everything, and every codec to try them with.

use serde_json::{Map, Value, json};
use throughline_format::json::decode_slice;
use throughline_format::{ProtocolFamily, UnifiedRequestV2, UnifiedResultV2};
use throughline_protocols::{Codec, codec_of, families};

/// What every sample holds: legal as text, as a name and as base64.
pub const MARK: &str = "TUFSS0VS";
pub const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
pub const TIME: &str = "2026-01-31T12:00:00.000Z";

/// Every codec of the registry.
pub fn codecs() -> impl Iterator<Item = (&'static ProtocolFamily, std::sync::Arc<dyn Codec>)> {
    families()
        .iter()
        .map(|family| (family, codec_of(family).expect("every family of the list has a codec")))
}

pub fn with(base: &Value, more: &Value) -> Value {
    let mut members: Map<String, Value> = base.as_object().unwrap().clone();
    members.extend(more.as_object().unwrap().clone());
    Value::Object(members)
}

pub fn item(source: &ProtocolFamily, number: usize, role: &str, body: &Value) -> Value {
    let base = json!({"id": format!("op.i{number}"), "conversationId": "pending", "branchId": "pending", "sequence": number + 1,
        "createdAt": TIME, "role": role, "visibility": "model", "status": "completed",
        "provenance": {"origin": "client", "attribution": {}, "profile": {"family": source.as_str()}}});
    with(&base, body)
}

pub fn request(source: &ProtocolFamily, items: &[Value], tools: &[Value]) -> UnifiedRequestV2 {
    let record = json!({"schemaVersion": "2.0", "requestId": "op", "conversation": {"completeness": "complete", "items": items},
        "model": {"requested": "m"}, "generation": {}, "tools": tools,
        "source": {"profile": {"family": source.as_str()}, "origin": "client", "receivedAt": TIME}});
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {record}"))
}

pub fn text() -> Value {
    json!({"partId": "op.x.p0", "kind": "text", "text": MARK})
}

/// A part of each kind, media from a place and in the record.
pub fn parts() -> Vec<Value> {
    let media = |kind: &str, media_type: &str| {
        [
            json!({"kind": kind, "source": {"kind": "inline", "mediaType": media_type, "data": MARK, "encoding": "base64"}}),
            json!({"kind": kind, "source": {"kind": "url", "url": format!("https://example.org/{MARK}")}}),
        ]
    };
    let source = json!({"sourceId": "s1", "type": "web", "uri": "https://example.org/", "title": MARK});
    let mut bodies = vec![
        text(),
        json!({"kind": "reasoning", "text": MARK, "form": "full", "state": "disclosed"}),
        json!({"kind": "refusal", "text": MARK}),
        json!({"kind": "json", "value": {"a": MARK}}),
        json!({"kind": "citation", "source": source, "quotedText": "words"}),
        json!({"kind": "grounding-source", "source": source}),
        json!({"kind": "artifact-reference", "artifactId": MARK, "sha256": HASH}),
    ];
    for (kind, media_type) in [
        ("image", "image/png"),
        ("audio", "audio/wav"),
        ("video", "video/mp4"),
        ("document", "application/pdf"),
        ("file", "application/pdf"),
        ("binary", "application/octet-stream"),
    ] {
        bodies.extend(media(kind, media_type));
    }
    bodies.iter().map(|body| with(&json!({"partId": "op.x.p0"}), body)).collect()
}

/// An item of each kind, with the role that it has.
pub fn items() -> Vec<(&'static str, Value)> {
    let call = json!({"callId": "c1", "name": MARK, "toolType": "function", "rawArguments": "{}", "input": {}, "lifecycle": "output-ready",
        "execution": "client", "providerExecuted": false});
    let result = json!({"callId": "c1", "name": "f", "output": [text()], "execution": "client"});
    let found = json!({"queries": [MARK], "parts": [{"partId": "op.x.p0", "kind": "grounding-source",
        "source": {"sourceId": "s1", "type": "web", "uri": "https://example.org/", "title": MARK}}]});
    let kind = |word: &str, members: &Value| with(&json!({"kind": word}), members);
    vec![
        ("user", json!({"kind": "message", "parts": [text()]})),
        ("assistant", json!({"kind": "message", "parts": [text()]})),
        ("system", json!({"kind": "message", "parts": [text()], "placement": "instructions"})),
        ("developer", json!({"kind": "message", "parts": [text()], "placement": "inline"})),
        ("assistant", json!({"kind": "reasoning", "parts": [parts().get(1)]})),
        ("assistant", kind("tool-call", &call)),
        ("tool", kind("tool-result", &result)),
        (
            "assistant",
            json!({"kind": "approval-request", "approvalId": MARK, "subject": "plan"}),
        ),
        (
            "user",
            json!({"kind": "approval-response", "approvalId": MARK, "decision": "denied"}),
        ),
        (
            "assistant",
            kind(
                "server-tool-call",
                &with(&call, &json!({"toolType": "web-search", "execution": "provider"})),
            ),
        ),
        (
            "assistant",
            kind("server-tool-result", &with(&result, &json!({"toolType": "web-search"}))),
        ),
        (
            "assistant",
            json!({"kind": "computer-action", "callId": "c1", "actions": [{"action": MARK}], "lifecycle": "output-ready", "execution": "client"}),
        ),
        (
            "tool",
            json!({"kind": "computer-action-result", "callId": "c1", "output": [text()]}),
        ),
        (
            "assistant",
            json!({"kind": "code-execution", "callId": "c1", "code": MARK, "lifecycle": "output-ready", "execution": "provider"}),
        ),
        (
            "assistant",
            json!({"kind": "code-execution-result", "callId": "c1", "outcome": "ok", "stdout": MARK, "output": []}),
        ),
        ("assistant", kind("search-result", &found)),
        ("assistant", kind("retrieval-result", &found)),
        (
            "assistant",
            json!({"kind": "artifact", "artifactId": MARK, "sha256": HASH, "media": {}}),
        ),
        (
            "assistant",
            json!({"kind": "reference", "target": {"kind": "url", "url": format!("https://example.org/{MARK}")}}),
        ),
        (
            "user",
            json!({"kind": "compaction-summary", "parts": [text()], "covers": {"fromItemId": "op.i8", "toItemId": "op.i9", "count": 2},
                "auditHash": HASH, "replaces": true, "author": "client"}),
        ),
        (
            "assistant",
            json!({"kind": "provider-switch", "to": {"model": MARK}, "toProfile": {"family": "openai-chat"}, "reason": "client"}),
        ),
        (
            "assistant",
            json!({"kind": "interruption", "cause": "deadline", "operationId": MARK, "openCallIds": []}),
        ),
        (
            "assistant",
            json!({"kind": "error", "error": {"category": "server", "code": "server.x", "message": MARK, "retryable": false}}),
        ),
    ]
}

/// A result with text, reasoning and two calls, of this family.
pub fn result(family: &ProtocolFamily) -> UnifiedResultV2 {
    let base = |number: usize, body: &Value| {
        let provenance = json!({"provenance": {"origin": "provider", "attribution": {}, "profile": {"family": family.as_str()}}});
        with(&item(family, number, "assistant", body), &provenance)
    };
    let call = |number: usize| {
        json!({"kind": "tool-call", "callId": format!("call_{number}"), "name": "look", "toolType": "function", "rawArguments": "{\"at\":\"sea\"}",
            "input": {"at": "sea"}, "lifecycle": "arguments-ready", "execution": "client", "providerExecuted": false})
    };
    let text = json!({"kind": "message", "parts": [{"partId": "op.i0.p0", "kind": "text", "text": "It is é, \n\"so\"."}]});
    let counter = |value: u64| json!({"value": value, "scope": "request", "source": "reported"});
    let record = json!({"schemaVersion": "2.0", "responseId": "res_1", "operationId": "op", "model": {"model": "m"},
        "status": {"state": "completed", "finishReason": "tool-calls"}, "output": [base(0, &text), base(1, &call(1)), base(2, &call(2))],
        "usage": {"inputTotal": counter(7), "outputTotal": counter(3)},
        "provenance": {"profile": {"family": family.as_str()}, "attribution": {}}});
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {record}"))
}

/// An answer of a wire with this usage.
pub fn answer(family: &str, usage: &Value) -> Value {
    let candidate = json!([{"content": {"role": "model", "parts": [{"text": "a"}]}, "finishReason": "STOP"}]);
    match family {
        "anthropic-messages" => json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "a"}], "usage": usage}),
        "openai-chat" => json!({"id": "c", "object": "chat.completion", "model": "m", "usage": usage,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]}),
        "openai-responses" => json!({"id": "resp_1", "object": "response", "model": "m", "status": "completed", "usage": usage, "output":
            [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "a", "annotations": []}]}]}),
        "gemini-generate-content" | "vertex-gemini" => json!({"candidates": candidate, "usageMetadata": usage}),
        "antigravity" => json!({"response": {"candidates": candidate, "usageMetadata": usage}}),
        "gemini-interactions" => json!({"id": "v1_1", "object": "interaction", "model": "m", "status": "completed", "usage": usage,
            "steps": [{"type": "model_output", "content": [{"type": "text", "text": "a"}]}]}),
        "cursor-sdk" => json!({"id": "run_1", "status": "finished", "result": "a", "usage": usage}),
        "vercel-uimessage" => {
            json!({"id": "u", "role": "assistant", "parts": [{"type": "text", "text": "a"}], "metadata": {"usage": usage}})
        }
        other => panic!("no answer of {other}"),
    }
}
