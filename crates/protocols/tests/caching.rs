//! Wishes about caches through every protocol, apart from what a provider caches under a name of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::samples::{codecs, item, request};
use support::{Everything, captured_requests};
use throughline_format::ProtocolFamily;
use throughline_format::UnifiedRequestV2;
use throughline_format::cache::UnifiedCacheIntent;
use throughline_format::json::decode_slice;
use throughline_format::shape::ShapedRecord;
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, codec_of, families};

fn codec(family: &str) -> Arc<dyn Codec> {
    codec_of(&ProtocolFamily::from_word(family)).unwrap()
}

fn decode(family: &str, body: &Value) -> DecodedRequest {
    codec(family)
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
}

/// A request with two messages and this cache intent.
fn asking(source: &ProtocolFamily, cache: &Value) -> UnifiedRequestV2 {
    let text = |number: usize, role: &str| {
        let part = json!({"partId": format!("op.i{number}.p0"), "kind": "text", "text": "hi"});
        item(source, number, role, &json!({"kind": "message", "parts": [part]}))
    };
    let mut record = serde_json::to_value(request(source, &[text(0, "user"), text(1, "assistant"), text(2, "user")], &[])).unwrap();
    record["cache"] = cache.clone();
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {record}"))
}

/// Every field of the intent, with what a target may do with it.
fn intents() -> Vec<(&'static str, Value)> {
    let marks = |mark: Value| json!({"mode": "explicit", "breakpoints": [mark]});
    vec![
        ("/cache/mode", json!({"mode": "automatic"})),
        ("/cache/mode", json!({"mode": "explicit"})),
        ("/cache/mode", json!({"mode": "disabled"})),
        ("/cache/affinityKey", json!({"mode": "automatic", "affinityKey": "group-1"})),
        ("/cache/breakpoints", marks(json!({"itemId": "op.i0"}))),
        ("/cache/breakpoints", marks(json!({"itemId": "op.i0", "partId": "op.i0.p0"}))),
        ("/cache/breakpoints", marks(json!({"itemId": "op.i0", "ttl": "5m"}))),
        ("/cache/breakpoints", marks(json!({"itemId": "op.i0", "ttl": "1h"}))),
        ("/cache/breakpoints", marks(json!({"itemId": "op.i0", "ttl": 1800}))),
        ("/cache/retention", json!({"mode": "automatic", "retention": "request"})),
        ("/cache/retention", json!({"mode": "automatic", "retention": "conversation"})),
    ]
}

#[test]
fn every_field_of_a_cache_intent_is_said_or_the_report_says_that_it_is_not() {
    throughline_format::clause!("CACHE-01");
    let members: Vec<_> = UnifiedCacheIntent::RECORD.members.iter().map(|member| member.name).collect();
    assert_eq!(
        members,
        ["mode", "affinityKey", "breakpoints", "retention"],
        "no handle of a provider has a member"
    );
    let (mut silent, mut said) = (Vec::new(), 0);
    for (family, codec) in codecs() {
        for source in [family.clone(), ProtocolFamily::from_word("elsewhere:wire")] {
            for (path, cache) in intents() {
                let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
                let encoded = codec.encode_request(&asking(&source, &cache), &context).unwrap();
                let again = codec
                    .decode_request(encoded.body.as_bytes(), &DecodeContext::offline())
                    .unwrap()
                    .unified;
                let again = serde_json::to_value(&again).unwrap()["cache"].clone();
                let member = path.trim_start_matches("/cache/");
                let same = match member {
                    "breakpoints" => {
                        again["breakpoints"][0]["ttl"] == cache["breakpoints"][0]["ttl"] && again["breakpoints"][0].is_object()
                    }
                    // Without a word each of these wires places the marks itself.
                    "mode" => again["mode"] == cache["mode"] || cache["mode"] == "automatic" && again.is_null(),
                    _ => again[member] == cache[member],
                };
                said += usize::from(same);
                if !same && !encoded.loss.entries.iter().any(|entry| entry.path.starts_with(path)) {
                    silent.push(format!("{family} from {source}: {cache} is {again}: {}", encoded.body));
                }
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(said > 20, "{said}");
}

#[test]
fn marks_keys_and_modes_of_every_wire_are_the_portable_intent() {
    throughline_format::clause!("CACHE-01");
    let long = json!({"type": "ephemeral", "ttl": "1h"});
    let claude = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "s", "cache_control": long}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": long}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "5m"}}]}]});
    let mark = json!({"mode": "explicit", "ttl": "30m"});
    let responses = json!({"model": "m", "prompt_cache_key": "group-1", "prompt_cache_options": {"mode": "explicit"},
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": mark}]}]});
    let chat = json!({"model": "m", "prompt_cache_key": "group-1", "messages": [{"role": "user", "content":
        [{"type": "text", "text": "a", "prompt_cache_breakpoint": mark}]}]});
    for (family, body, pointer, value) in [
        ("anthropic-messages", &claude, "/cache/mode", json!("explicit")),
        (
            "anthropic-messages",
            &claude,
            "/cache/breakpoints/0",
            json!({"itemId": "op_offline.i0", "ttl": "1h"}),
        ),
        (
            "anthropic-messages",
            &claude,
            "/cache/breakpoints/1",
            json!({"itemId": "op_offline.i1", "partId": "op_offline.i1.p0", "ttl": "5m"}),
        ),
        (
            "anthropic-messages",
            &claude,
            "/tools/0/cache",
            json!({"breakpoint": true, "ttl": "1h"}),
        ),
        ("openai-responses", &responses, "/cache/mode", json!("explicit")),
        ("openai-responses", &responses, "/cache/affinityKey", json!("group-1")),
        (
            "openai-responses",
            &responses,
            "/cache/breakpoints/0",
            json!({"itemId": "op_offline.i0", "partId": "op_offline.i0.p0", "ttl": 1800}),
        ),
        ("openai-chat", &chat, "/cache/mode", json!("automatic")),
        ("openai-chat", &chat, "/cache/affinityKey", json!("group-1")),
        (
            "openai-chat",
            &chat,
            "/cache/breakpoints/0",
            json!({"itemId": "op_offline.i0", "partId": "op_offline.i0.p0", "ttl": 1800}),
        ),
    ] {
        let decoded = decode(family, body);
        let record = serde_json::to_value(&decoded.unified).unwrap();
        assert_eq!(record.pointer(pointer), Some(&value), "{family}: {}", record["cache"]);
        // And back to the wire where it came from.
        let context = EncodeContext {
            private: Arc::new(Everything::of(&decoded.resources)),
            ..EncodeContext::plain(Capabilities::of(codec(family).capabilities()))
        };
        let back: Value = serde_json::from_str(&codec(family).encode_request(&decoded.unified, &context).unwrap().body).unwrap();
        for member in ["system", "messages", "tools", "input", "prompt_cache_key", "prompt_cache_options"] {
            let marks = |value: &Value| value.to_string().matches("cache_").count();
            assert_eq!(marks(&back[member]), marks(&body[member]), "{family}: {member}: {back}");
        }
    }
}

/// Requests that name something that a provider keeps, and its name.
fn owned() -> Vec<(&'static str, Value, &'static str)> {
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "cachedContent": "cachedContents/owned-1"});
    let turn = json!([{"type": "message", "role": "user", "content": "hi"}]);
    vec![
        ("gemini-generate-content", gemini.clone(), "owned-1"),
        ("vertex-gemini", gemini.clone(), "owned-1"),
        ("antigravity", json!({"model": "m", "project": "p", "request": gemini}), "owned-1"),
        (
            "openai-responses",
            json!({"model": "m", "previous_response_id": "resp_owned-2", "input": turn}),
            "owned-2",
        ),
        (
            "openai-responses",
            json!({"model": "m", "conversation": {"id": "conv_owned-3"}, "input": turn}),
            "owned-3",
        ),
        (
            "gemini-interactions",
            json!({"model": "m", "previous_interaction_id": "v1_owned-4", "input": "hi"}),
            "owned-4",
        ),
        (
            "anthropic-messages",
            json!({"model": "m", "max_tokens": 9, "container": "container_owned-5", "messages": [{"role": "user", "content": "hi"}]}),
            "owned-5",
        ),
        (
            "cursor-sdk",
            json!({"prompt": {"text": "hi"}, "agentId": "agent-owned-6"}),
            "owned-6",
        ),
    ]
}

#[test]
fn what_a_provider_keeps_under_its_own_name_is_no_portable_key() {
    throughline_format::clause!("CACHE-01");
    throughline_format::clause!("CACHE-02");
    for (family, body, name) in owned() {
        let decoded = decode(family, &body);
        let record = serde_json::to_value(&decoded.unified).unwrap();
        assert_eq!(record.get("cache"), None, "{family}: a handle is no wish about caches: {record}");
        assert!(!record.to_string().contains(name), "{family} shows {name}: {record}");
        let kept = decoded
            .resources
            .iter()
            .any(|resource| String::from_utf8_lossy(&resource.payload).contains(name));
        assert!(kept, "{family} loses {name}");
        for target in families() {
            let target_codec = codec_of(target).unwrap();
            let context = EncodeContext::plain(Capabilities::of(target_codec.capabilities()));
            let sent = target_codec.encode_request(&decoded.unified, &context).unwrap().body;
            assert!(!sent.contains(name), "{family} to {target}: {sent}");
            assert!(!sent.contains("prompt_cache_key"), "{family} to {target} makes a key of it: {sent}");
        }
        // The owner gets it back where it stood, and makes no key of it either.
        let context = EncodeContext {
            private: Arc::new(Everything::of(&decoded.resources)),
            ..EncodeContext::plain(Capabilities::of(codec(family).capabilities()))
        };
        let back = codec(family).encode_request(&decoded.unified, &context).unwrap().body;
        assert!(!back.contains("prompt_cache_key"), "{family}: {back}");
    }
}

/// Members of captured bodies that name what a provider keeps.
const HANDLES: &[&str] = &[
    "previous_response_id",
    "conversation",
    "previous_interaction_id",
    "cachedContent",
    "container",
];

#[test]
fn captured_keys_are_keys_and_captured_handles_are_none() {
    throughline_format::clause!("CACHE-01");
    throughline_format::clause!("CACHE-02");
    let (mut keys, mut marks, mut handles) = (0, 0, 0);
    for (family, _) in codecs() {
        let Some(captured) = captured_requests(family) else { return };
        for (file, body, decoded) in captured {
            let record = serde_json::to_value(&decoded.unified).unwrap();
            let key = body.get("prompt_cache_key").filter(|key| !key.is_null());
            assert_eq!(record.pointer("/cache/affinityKey"), key, "{}", file.display());
            keys += usize::from(key.is_some());
            if family.as_str() == "anthropic-messages" {
                let here = record.pointer("/cache/breakpoints").and_then(Value::as_array).map_or(0, Vec::len);
                let messages = json!([body["messages"], body["system"]]).to_string();
                assert_eq!(here, messages.matches("\"cache_control\":{").count(), "{}", file.display());
                marks += here;
            }
            let inner = body.get("request").filter(|_| family.as_str() == "antigravity").unwrap_or(&body);
            for name in HANDLES
                .iter()
                .filter_map(|member| inner.get(member)?.as_str())
                .filter(|name| name.len() > 8)
            {
                assert!(!record.to_string().contains(name), "{}: {name}", file.display());
                handles += 1;
            }
        }
    }
    assert!(keys > 1 && marks > 20 && handles > 20, "{keys} {marks} {handles}");
}
