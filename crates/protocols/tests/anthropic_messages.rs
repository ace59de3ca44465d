//! The Messages protocol through the public interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::Everything;
use throughline_format::item::{ItemStatus, Role};
use throughline_format::{ErrorCategory, LossSeverity, ProtocolFamily, UnifiedProtocolProfile, UnifiedRequestV2};
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, Encoded, SideResource};

const CODEC: AnthropicMessages = AnthropicMessages;

fn decode(body: &Value) -> DecodedRequest {
    CODEC
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
}

fn context(resources: &[SideResource]) -> EncodeContext {
    EncodeContext {
        private: Arc::new(Everything::of(resources)),
        ..EncodeContext::plain(Capabilities::of(CODEC.capabilities()))
    }
}

fn encode(request: &UnifiedRequestV2, resources: &[SideResource]) -> (Value, Encoded) {
    let encoded = CODEC.encode_request(request, &context(resources)).unwrap();
    (serde_json::from_str(&encoded.body).unwrap(), encoded)
}

/// The request as another family's client would have sent it, and without private state.
fn foreign(body: &Value) -> (Value, Encoded) {
    let mut decoded = decode(body);
    let profile = UnifiedProtocolProfile::of(ProtocolFamily::OpenAiChat);
    decoded.unified.source.profile = profile.clone();
    for item in &mut decoded.unified.conversation.items {
        item.base.provenance.profile = Some(profile.clone());
    }
    encode(&decoded.unified, &[])
}

fn features(encoded: &Encoded) -> Vec<&str> {
    encoded.loss.entries.iter().map(|e| e.feature.as_str()).collect()
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does it.", "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn full_request() -> Value {
    json!({
        "model": "claude-test", "max_tokens": 2048, "temperature": 1, "stop_sequences": ["END"], "service_tier": "auto",
        "metadata": {"user_id": "u-1"}, "speed": "fast", "stream": true,
        "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"},
        "output_config": {"effort": "high", "later": {"a": 1}},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "tools": [
            {"name": "look", "input_schema": {"type": "object", "properties": {}}, "strict": false, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 2, "user_location": {"type": "approximate", "city": "Bern"}},
            {"type": "strange_tool_20270101", "name": "strange", "power": 3}
        ],
        "system": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Look at this."},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}, "transformations": {"oversized_image": "error"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A note"}, "title": "Note", "citations": {"enabled": false}},
                {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "found"}]}
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": " deep \n", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "text", "text": "Searching.", "citations": [
                    {"type": "char_location", "cited_text": "A", "document_index": 0, "document_title": null, "start_char_index": 0, "end_char_index": 1}]},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "c2VjcmV0"}]},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"z": 1.50, "a": [1, 2]}, "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}},
                {"type": "hologram", "depth": 3}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": false, "content": [
                    {"type": "text", "text": "ok"}, {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}}], "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "And now?"}
            ]},
            {"role": "system", "content": "Answer in French."}
        ]
    })
}

/// Content as lists, so that the two spellings of one text compare equal.
fn listed(mut body: Value) -> Value {
    fn lift(value: &mut Value) {
        if let Value::String(text) = value {
            *value = json!([{"type": "text", "text": text}]);
        }
    }
    fn without_nulls(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, v| !v.is_null());
                map.values_mut().for_each(without_nulls);
            }
            Value::Array(list) => list.iter_mut().for_each(without_nulls),
            _ => {}
        }
    }
    if let Some(system) = body.get_mut("system") {
        lift(system);
    }
    for message in body["messages"].as_array_mut().unwrap() {
        lift(&mut message["content"]);
        for block in message["content"].as_array_mut().unwrap() {
            if block["type"] == "tool_result" && block.get("content").is_some() {
                lift(&mut block["content"]);
            }
        }
    }
    without_nulls(&mut body);
    body
}

#[test]
fn a_request_comes_back_as_it_was_for_its_owner() {
    let body = full_request();
    let decoded = decode(&body);
    assert!(decoded.stream);
    let mut context = context(&decoded.resources);
    context.stream = true;
    let encoded = CODEC.encode_request(&decoded.unified, &context).unwrap();
    let back: Value = serde_json::from_str(&encoded.body).unwrap();
    assert_eq!(listed(back), listed(body.clone()));

    let spelled = body.to_string().replace("1.5,", "1.50 ,");
    let decoded = CODEC.decode_request(spelled.as_bytes(), &DecodeContext::offline()).unwrap();
    let encoded = CODEC.encode_request(&decoded.unified, &context).unwrap();
    assert!(encoded.body.contains("1.50 ,"), "arguments keep their spelling");
}

#[test]
fn items_follow_the_blocks() {
    let decoded = decode(&full_request());
    let kinds: Vec<_> = decoded
        .unified
        .conversation
        .items
        .iter()
        .map(|i| (i.body.kind(), i.role.unwrap()))
        .collect();
    let (a, u, s, t) = (Role::Assistant, Role::User, Role::System, Role::Tool);
    assert_eq!(
        kinds,
        [
            ("message", s),
            ("message", s),
            ("message", u),
            ("reasoning", a),
            ("reasoning", a),
            ("message", a),
            ("server-tool-call", a),
            ("search-result", a),
            ("tool-call", a),
            ("message", a),
            ("tool-result", t),
            ("message", u),
            ("message", s),
        ]
    );
    let text = serde_json::to_string(&decoded.unified).unwrap();
    for private in ["c2ln", "ZGF0YQ==", "c2VjcmV0", "file_1"] {
        assert!(!text.contains(private), "{private} stands in the record");
        assert!(
            decoded
                .resources
                .iter()
                .any(|r| String::from_utf8_lossy(&r.payload).contains(private))
        );
    }
    let kept: Vec<_> = decoded.loss.entries.iter().map(|e| e.path.as_str()).collect();
    for path in [
        "/speed",
        "/output_config/later",
        "/tools/2/power",
        "/messages/0/content/1/transformations",
        "/messages/1/content/6",
    ] {
        assert!(kept.contains(&path), "{path} is not reported: {kept:?}");
    }
}

#[test]
fn credentials_are_never_kept() {
    let body = json!({"model": "m", "max_tokens": 1, "messages": [user("hi")], "fallback_credit_token": "tok-1",
        "mcp_servers": [{"type": "url", "name": "n", "url": "https://a.example", "authorization_token": "tok-2"}]});
    let decoded = decode(&body);
    let all: String = decoded
        .resources
        .iter()
        .map(|r| String::from_utf8_lossy(&r.payload).into_owned())
        .collect();
    assert!(!all.contains("tok-"));
    let server = decoded.unified.tools[0].config.as_ref().unwrap();
    assert_eq!(server.server_url.as_deref(), Some("https://a.example"));
    assert_eq!(
        decoded.loss.entries.iter().filter(|e| e.severity == LossSeverity::Warning).count(),
        2
    );
}

#[test]
fn wrong_bodies_name_the_place() {
    for (body, path) in [
        (json!({"messages": 3}), "/messages"),
        (
            json!({"model": "m", "messages": [{"role": "robot", "content": "x"}]}),
            "/messages/0/role",
        ),
        (
            json!({"model": "m", "messages": [user("x")], "tools": [{"description": "no name"}]}),
            "/tools/0",
        ),
    ] {
        let error = CODEC
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap_err();
        assert_eq!(error.category, ErrorCategory::InvalidRequest);
        assert!(error.field_path.as_deref().unwrap_or_default().starts_with(path), "{error:?}");
    }
}

#[test]
fn foreign_reasoning_and_hosted_work_never_go_out_as_such() {
    let (body, encoded) = foreign(&full_request());
    let text = encoded.body.clone();
    for gone in [
        "c2ln",
        "ZGF0YQ",
        "c2VjcmV0",
        "file_1",
        "thinking\",\"thinking",
        "web_search_tool_result",
        "strange",
    ] {
        assert!(!text.contains(gone), "{gone} went out");
    }
    assert!(body.get("thinking").is_none(), "the turn with calls has no signed thinking");
    for feature in [
        "reasoning.text",
        "reasoning.signature",
        "reasoning.redacted",
        "tool.call.hosted",
        "generation.reasoning.budget",
        "citation",
        "part.file",
    ] {
        assert!(features(&encoded).contains(&feature), "{feature} is not reported");
    }
}

#[test]
fn every_call_is_answered_next_and_first() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "r"});
    let body = json!({"model": "m", "max_tokens": 9, "tools": [tool("f")], "messages": [
        {"role": "assistant", "content": [call("a.1"), call("b"), call("b")]},
        {"role": "user", "content": [{"type": "text", "text": "hm"}, result("b"), result("gone")]},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
        {"role": "user", "content": [result("a.1")]},
        {"role": "assistant", "content": [call("z")]},
    ]});
    let (out, encoded) = foreign(&body);
    let messages = out["messages"].as_array().unwrap();
    assert_eq!(messages[0]["role"], "user");
    let mut roles = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for (n, message) in messages.iter().enumerate() {
        roles.push(message["role"].as_str().unwrap());
        let blocks = message["content"].as_array().unwrap();
        let calls: Vec<_> = blocks
            .iter()
            .filter(|b| b["type"] == "tool_use")
            .map(|b| b["id"].as_str().unwrap())
            .collect();
        assert!(
            calls
                .iter()
                .all(|id| ids.insert((*id).to_owned()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'))
        );
        if !calls.is_empty() {
            let next = messages[n + 1]["content"].as_array().unwrap();
            let answers: Vec<_> = next
                .iter()
                .take(calls.len())
                .map(|b| b["tool_use_id"].as_str().unwrap_or("none"))
                .collect();
            let mut sorted = answers.clone();
            sorted.sort_unstable();
            let mut wanted = calls.clone();
            wanted.sort_unstable();
            assert_eq!(sorted, wanted);
            assert!(next.iter().skip(calls.len()).all(|b| b["type"] != "tool_result"));
        }
    }
    assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
    for feature in [
        "tool.call.id",
        "conversation.interruption",
        "conversation.order",
        "conversation.message.boundary",
    ] {
        assert!(features(&encoded).contains(&feature), "{feature} is not reported");
    }
}

#[test]
fn parameters_are_moved_into_the_range_of_the_wire() {
    let mut decoded = decode(
        &json!({"model": "m", "max_tokens": 9, "messages": [user("x"), {"role": "assistant", "content": "So "}], "stop_sequences": ["a", "  "]}),
    );
    decoded.unified.generation.max_output_tokens = None;
    decoded.unified.generation.temperature = Some(throughline_format::UnifiedIntent::preferred(1.7));
    decoded.unified.source.profile = UnifiedProtocolProfile::of(ProtocolFamily::OpenAiChat);
    let (out, encoded) = encode(&decoded.unified, &[]);
    assert_eq!(
        (&out["max_tokens"], &out["temperature"], &out["stop_sequences"]),
        (&json!(4096), &json!(1), &json!(["a"]))
    );
    assert_eq!(out["messages"][1]["content"][0]["text"], "So");
    for feature in [
        "generation.max_output_tokens",
        "generation.temperature",
        "generation.stop_sequences",
    ] {
        assert!(features(&encoded).contains(&feature));
    }
}

#[test]
fn effort_alone_becomes_adaptive_thinking_for_foreign_requests_only() {
    for (effort, thinking, config) in [
        ("high", json!({"type": "adaptive"}), json!({"effort": "high"})),
        ("minimal", json!({"type": "adaptive"}), json!({"effort": "low"})),
        ("none", json!({"type": "disabled"}), Value::Null),
    ] {
        let body = json!({"model": "m", "max_tokens": 9, "messages": [user("x")], "output_config": {"effort": effort}});
        let (out, _) = foreign(&body);
        assert_eq!(
            (&out["thinking"], out.get("output_config").unwrap_or(&Value::Null)),
            (&thinking, &config)
        );
    }
    let body = json!({"model": "m", "max_tokens": 9, "messages": [user("x")], "output_config": {"effort": "high"}});
    let decoded = decode(&body);
    assert!(encode(&decoded.unified, &decoded.resources).0.get("thinking").is_none());
}

#[test]
fn cache_marks_are_limited_and_never_moved() {
    let mark = |ttl: Option<&str>| ttl.map_or(json!({"type": "ephemeral"}), |ttl| json!({"type": "ephemeral", "ttl": ttl}));
    let text = |n: usize| json!({"type": "text", "text": format!("t{n}"), "cache_control": mark(None)});
    let body = json!({"model": "m", "max_tokens": 9, "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": mark(None)}],
        "messages": [{"role": "user", "content": [text(0), text(1), text(2), text(3), {"type": "text", "text": "late", "cache_control": mark(Some("1h"))}]}]});
    let decoded = decode(&body);
    let (out, encoded) = encode(&decoded.unified, &decoded.resources);
    let marked: Vec<_> = out["messages"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b.get("cache_control").is_some())
        .collect();
    assert_eq!(marked, [false, true, true, true, false]);
    assert!(out["tools"][0].get("cache_control").is_some());
    assert_eq!(features(&encoded).iter().filter(|f| **f == "cache.breakpoints").count(), 2);
}

#[test]
fn system_text_keeps_its_place_or_is_said_by_the_user() {
    let body = json!({"model": "m", "max_tokens": 9, "system": "Top.", "messages": [
        user("one"), {"role": "assistant", "content": "two"}, user("three"), {"role": "system", "content": "four"}, {"role": "assistant", "content": "five"}, user("six")]});
    let decoded = decode(&body);
    let (out, _) = encode(&decoded.unified, &decoded.resources);
    assert_eq!(out["messages"][3]["role"], "system");
    let mut context = context(&[]);
    context.capabilities.set("mid_conversation_system", &json!(false)).unwrap();
    let encoded = CODEC.encode_request(&decoded.unified, &context).unwrap();
    let out: Value = serde_json::from_str(&encoded.body).unwrap();
    assert_eq!(out["messages"][2]["content"][1]["text"], "four");
    assert!(features(&encoded).contains(&"conversation.system.inline"));
    assert_eq!(out["system"], "Top.");
}

#[test]
fn a_prefill_is_an_unfinished_item() {
    let decoded = decode(&json!({"model": "m", "max_tokens": 9, "messages": [user("x"), {"role": "assistant", "content": "So"}]}));
    let last = decoded.unified.conversation.items.last().unwrap();
    assert_eq!(last.status, ItemStatus::InProgress);
    assert_eq!(decoded.unified.generation.prefill.as_ref().unwrap().value.item_id, last.id);
    let mut context = context(&decoded.resources);
    context.target_model = Some("claude-opus-4-6".into());
    let out: Value = serde_json::from_str(&CODEC.encode_request(&decoded.unified, &context).unwrap().body).unwrap();
    assert_eq!(out["messages"].as_array().unwrap().last().unwrap()["role"], "user");
}

#[test]
fn encoding_is_stable_by_prefix() {
    let body = full_request();
    let all = body["messages"].as_array().unwrap();
    let blocks = |count: usize| {
        let mut part = body.clone();
        part["messages"] = json!(all[..count]);
        let decoded = decode(&part);
        let out = listed(encode(&decoded.unified, &decoded.resources).0);
        let list = out["messages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|m| m["content"].as_array().unwrap().clone())
            .collect::<Vec<_>>();
        list.into_iter()
            .map(|mut b| {
                b.as_object_mut().unwrap().remove("cache_control");
                b
            })
            .collect::<Vec<_>>()
    };
    for count in [1, 3] {
        let (short, long) = (blocks(count), blocks(count + 1));
        assert_eq!(short[..], long[..short.len()]);
    }
}

/// The same body for its owner, as the target gets it.
fn resent(body: &Value) -> (Value, Encoded) {
    let decoded = decode(body);
    encode(&decoded.unified, &decoded.resources)
}

#[test]
fn no_white_space_is_left_at_the_end_of_a_prefill() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    let redacted = json!({"type": "redacted_thinking", "data": "ZGF0"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}});
    let base = |messages: Value| json!({"model": "claude-test", "max_tokens": 2000, "messages": messages});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});

    let said = assistant(json!([text("said"), text("\n"), text(" \u{1f}\n")]));
    let (body, encoded) = resent(&base(json!([user("hi"), said, assistant(json!("\n"))])));
    assert_eq!(listed(body)["messages"], json!([user("hi"), assistant(json!([text("said")]))]));
    assert_eq!(features(&encoded).iter().filter(|f| **f == "part.text").count(), 3);

    // Thinking that is not sent comes off first; what stood apart because of it is joined.
    let mut request = base(json!([
        user("hi"), assistant(json!([thinking])), user("more"), assistant(json!([call])),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}]},
        assistant(json!([text("x"), text("\n"), redacted, thinking]))
    ]));
    request["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    let (body, _) = resent(&request);
    assert_eq!(body["thinking"], Value::Null);
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(
        messages.iter().map(|m| m["role"].as_str().unwrap()).collect::<Vec<_>>(),
        ["user", "assistant", "user", "assistant"]
    );
    assert_eq!(messages[0]["content"], json!([text("hi"), text("more")]));
    assert_eq!(messages[3]["content"], json!([text("x")]));

    // With thinking, what is left of a history must not become a prefill.
    let unsigned = json!({"type": "thinking", "thinking": "hm", "signature": ""});
    let mut request = base(json!([user("hi"), assistant(json!([thinking, text("x"), unsigned]))]));
    request["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    assert_eq!(resent(&request).0["messages"][2]["role"], "user");
}

#[test]
fn results_of_one_turn_stand_in_one_message() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let result = |id: &str, said: &str| json!({"type": "tool_result", "tool_use_id": id, "content": said});
    let text = |text: &str| json!({"type": "text", "text": text});
    let body = json!({"model": "claude-test", "max_tokens": 10, "messages": [
        user("hi"), {"role": "assistant", "content": [call("a"), call("b"), call("a")]},
        {"role": "user", "content": [result("a", "1"), text("said"), result("b", "2")], "mark": 1},
        {"role": "user", "content": [result("a", "3"), text("more")], "mark": 2},
        {"role": "user", "content": [text("last")]}]});
    let (sent, _) = resent(&body);
    let messages = sent["messages"].as_array().unwrap();
    let renamed = messages[1]["content"][2]["id"].as_str().unwrap();
    assert_eq!(messages.len(), 5);
    assert_eq!(
        messages[2]["content"],
        json!([result("a", "1"), result("b", "2"), result(renamed, "3"), text("said")])
    );
    // What else the messages hold stays theirs.
    assert_eq!((&messages[2]["mark"], &messages[3]["mark"]), (&json!(1), &json!(2)));
    assert_eq!(
        (&messages[3]["content"], &messages[4]["content"]),
        (&json!([text("more")]), &json!([text("last")]))
    );

    let alone = json!({"model": "claude-test", "max_tokens": 10, "messages": [
        user("hi"), {"role": "assistant", "content": [call("a"), call("b")]},
        {"role": "user", "content": [result("a", "1")]}, {"role": "user", "content": [result("b", "2")], "mark": 2}]});
    let (sent, encoded) = resent(&alone);
    assert_eq!(sent["messages"][2]["content"], json!([result("a", "1"), result("b", "2")]));
    assert_eq!(sent["messages"].as_array().unwrap().len(), 3);
    assert!(
        encoded
            .loss
            .entries
            .iter()
            .any(|e| e.reason.contains("its own fields are left out"))
    );
}

#[test]
fn calls_of_the_history_have_a_definition_whatever_became_of_the_tools() {
    // The wire refuses calls without tools; the one that is offered here has no form on it.
    for tools in [json!(null), json!([{"googleMaps": {}}])] {
        let mut body = json!({"contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"output": "1"}}}]}]});
        if tools.is_array() {
            body["tools"] = tools;
        }
        let source = throughline_protocols::codec_of(&ProtocolFamily::GeminiGenerateContent).unwrap();
        let decoded = source
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap();
        let target = throughline_protocols::codec_of(&ProtocolFamily::AnthropicMessages).unwrap();
        let context = EncodeContext::plain(Capabilities::of(target.capabilities()));
        let encoded = target.encode_request(&decoded.unified, &context).unwrap();
        let made: Value = serde_json::from_str(&encoded.body).unwrap();
        assert_eq!(
            made["tools"],
            json!([{"name": "f", "input_schema": {"type": "object", "properties": {}}}])
        );
        assert_eq!(made["tool_choice"], json!({"type": "none"}));
        assert!(
            encoded
                .loss
                .entries
                .iter()
                .any(|e| e.feature == "tool.function" && e.path == "/tools")
        );
    }
}
