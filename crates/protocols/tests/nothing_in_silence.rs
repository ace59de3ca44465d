//! No encoder drops anything in silence: every kind of item, part and tool, one at a time, is in the body or in the loss report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use serde_json::{Map, Value, json};
use throughline_format::json::decode_slice;
use throughline_format::{PartBody, ProtocolFamily, UnifiedItemBody, UnifiedRequestV2, UnifiedToolType};
use throughline_protocols::{Capabilities, Codec, EncodeContext, codec_of, families};

/// What every sample holds: legal as text, as a name and as base64.
const MARK: &str = "TUFSS0VS";
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const TIME: &str = "2026-01-31T12:00:00.000Z";

/// A codec that wrote nothing of a sample and reported nothing either.
type Silence = String;

fn codecs() -> impl Iterator<Item = (&'static ProtocolFamily, std::sync::Arc<dyn Codec>)> {
    families()
        .iter()
        .map(|family| (family, codec_of(family).expect("every family of the list has a codec")))
}

fn with(base: &Value, more: &Value) -> Value {
    let mut members: Map<String, Value> = base.as_object().unwrap().clone();
    members.extend(more.as_object().unwrap().clone());
    Value::Object(members)
}

fn item(source: &ProtocolFamily, number: usize, role: &str, body: &Value) -> Value {
    let base = json!({"id": format!("op.i{number}"), "conversationId": "pending", "branchId": "pending", "sequence": number + 1,
        "createdAt": TIME, "role": role, "visibility": "model", "status": "completed",
        "provenance": {"origin": "client", "attribution": {}, "profile": {"family": source.as_str()}}});
    with(&base, body)
}

fn request(source: &ProtocolFamily, items: &[Value], tools: &[Value]) -> UnifiedRequestV2 {
    let record = json!({"schemaVersion": "2.0", "requestId": "op", "conversation": {"completeness": "complete", "items": items},
        "model": {"requested": "m"}, "generation": {}, "tools": tools,
        "source": {"profile": {"family": source.as_str()}, "origin": "client", "receivedAt": TIME}});
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {record}"))
}

/// What is wrong with the answer to a request whose sample stands at `path`: nothing when the body holds the mark, or an entry
/// names the path, something inside it, or what it stands in.
fn silence(what: &str, path: &str, mark: &str, family: &ProtocolFamily, codec: &dyn Codec, request: &UnifiedRequestV2) -> Option<Silence> {
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    let encoded = codec.encode_request(request, &context).expect("losses are no errors");
    let holds = |outer: &str, inner: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let names = |entry: &str| holds(path, entry) || entry.len() > "/conversation/items".len() && holds(entry, path);
    if encoded.body.contains(mark) || encoded.loss.entries.iter().any(|entry| names(&entry.path)) {
        return None;
    }
    Some(format!("{family}: {what}: {} {:?}", encoded.body, encoded.loss.entries))
}

/// Tries a sample with every codec, as history of that very protocol and of another one.
fn try_all(what: &str, path: &str, mark: &str, make: impl Fn(&ProtocolFamily) -> UnifiedRequestV2) -> Vec<Silence> {
    let own_and_other = |family: &ProtocolFamily| [family.clone(), ProtocolFamily::CursorSdk];
    codecs()
        .flat_map(|(family, codec)| own_and_other(family).map(|source| (family, codec.clone(), source)))
        .filter_map(|(family, codec, source)| silence(&format!("{what} of {source}"), path, mark, family, codec.as_ref(), &make(&source)))
        .collect()
}

fn text() -> Value {
    json!({"partId": "op.x.p0", "kind": "text", "text": MARK})
}

/// A part of each kind, media from a place and in the record.
fn parts() -> Vec<Value> {
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
fn items() -> Vec<(&'static str, Value)> {
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

/// Every word of a list stands as `kind` in one of the samples at least.
fn assert_covered<'a>(words: &[&str], samples: impl Iterator<Item = &'a Value>) {
    let seen: Vec<&str> = samples.filter_map(|sample| sample["kind"].as_str()).collect();
    let absent: Vec<_> = words.iter().filter(|word| !seen.contains(word)).collect();
    assert!(absent.is_empty(), "no sample of {absent:?}");
}

fn assert_nothing(silences: &[Silence]) {
    assert!(silences.is_empty(), "dropped in silence:\n{}", silences.join("\n"));
}

#[test]
fn every_kind_of_item_is_written_or_reported() {
    let samples = items();
    assert_covered(UnifiedItemBody::KINDS, samples.iter().map(|(_, body)| body));
    let try_item = |(role, body): &(&str, Value)| {
        try_all(&format!("{role} {}", body["kind"]), "/conversation/items/0", MARK, |source| {
            request(source, &[item(source, 0, role, body)], &[])
        })
    };
    assert_nothing(&samples.iter().flat_map(try_item).collect::<Vec<_>>());
}

#[test]
fn every_kind_of_part_is_written_or_reported_wherever_it_stands() {
    let samples = parts();
    assert_covered(PartBody::KINDS, samples.iter());
    let mut silences = Vec::new();
    for part in &samples {
        for role in ["user", "assistant"] {
            let what = format!("{role} message with {part}");
            let body = json!({"kind": "message", "parts": [part]});
            silences.extend(try_all(&what, "/conversation/items/0/parts/0", MARK, |source| {
                request(source, &[item(source, 0, role, &body)], &[])
            }));
        }
        let call = json!({"kind": "tool-call", "callId": "c1", "name": "f", "toolType": "function", "rawArguments": "{}", "input": {},
            "lifecycle": "output-ready", "execution": "client", "providerExecuted": false});
        let result = json!({"kind": "tool-result", "callId": "c1", "output": [part], "execution": "client"});
        silences.extend(try_all(
            &format!("result with {part}"),
            "/conversation/items/1/output/0",
            MARK,
            |source| {
                let items = [item(source, 0, "assistant", &call), item(source, 1, "tool", &result)];
                request(source, &items, &[])
            },
        ));
    }
    assert_nothing(&silences);
}

#[test]
fn every_kind_of_tool_is_written_or_reported() {
    let hello = json!({"kind": "message", "parts": [{"partId": "op.i0.p0", "kind": "text", "text": "hello"}]});
    let try_tool = |kind: &&str| {
        let execution = if matches!(*kind, "function" | "custom") {
            "client"
        } else {
            "provider"
        };
        let tool = json!({"toolId": "op.t0", "kind": kind, "execution": execution, "portability": "portable", "name": MARK});
        // A hosted tool may be a member of its own, which holds no name.
        let mark = if execution == "client" {
            MARK.to_owned()
        } else {
            kind.replace('-', "_")
        };
        try_all(kind, "/tools/0", &mark, |source| {
            request(source, &[item(source, 0, "user", &hello)], std::slice::from_ref(&tool))
        })
    };
    let kinds = UnifiedToolType::WORDS.iter().chain(&["cursor-sdk:unheard-of"]);
    assert_nothing(&kinds.flat_map(try_tool).collect::<Vec<_>>());
}
