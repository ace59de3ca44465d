//! Messages of Chat Completions: every role and part both ways, repairs of every history, and encodings that only grow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod openai_chat_support;

use openai_chat_support::*;
use serde_json::{Value, json};
use throughline_format::{ProtocolFamily, UnifiedProtocolProfile};
use throughline_protocols::EncodeContext;

fn body(messages: &Value) -> Value {
    json!({"model": "m", "messages": messages})
}

/// A message becomes items of these kinds with a value at a pointer into them, and comes back to its owner as it was.
fn check(message: &Value, kinds_of: &[&str], pointer: &str, expected: &Value) {
    let whole = body(&json!([{"role": "user", "content": "q"}, message]));
    let decoded = decode_request(&whole);
    let found = kinds(&decoded.unified);
    assert_eq!(found[1..], *kinds_of, "{message}");
    let record = serde_json::to_value(&decoded.unified).unwrap();
    let items = &record["conversation"]["items"].as_array().unwrap()[1..];
    assert_eq!(json!(items).pointer(pointer), Some(expected), "{pointer} of {message}");
    let (again, _) = encode_request(&decoded.unified, &encode_context(Some(&decoded.resources)));
    assert_eq!(without_nulls(&again["messages"][1]), without_nulls(message), "comes back");
}

#[test]
fn every_part_has_its_form() {
    let user = |part: Value| json!({"role": "user", "content": [{"type": "text", "text": "see"}, part]});
    check(
        &json!({"role": "user", "content": "a"}),
        &["message"],
        "/0/parts/0/text",
        &json!("a"),
    );
    check(
        &json!({"role": "user", "content": [{"type": "text", "text": "a"}]}),
        &["message"],
        "/0/parts/0/text",
        &json!("a"),
    );
    check(
        &user(json!({"type": "image_url", "image_url": {"url": "https://e.org/i.png"}})),
        &["message"],
        "/0/parts/1/source/url",
        &json!("https://e.org/i.png"),
    );
    for detail in ["auto", "low", "high", "original"] {
        check(
            &user(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": detail}})),
            &["message"],
            "/0/parts/1/media/detail",
            &json!(detail),
        );
    }
    check(
        &user(json!({"type": "image_url", "image_url": "https://e.org/i.png"})),
        &["message"],
        "/0/parts/1/kind",
        &json!("image"),
    );
    check(
        &user(json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})),
        &["message"],
        "/0/parts/1/source/mediaType",
        &json!("audio/wav"),
    );
    check(
        &user(json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}})),
        &["message"],
        "/0/parts/1/source/mediaType",
        &json!("audio/mpeg"),
    );
    check(
        &user(json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}})),
        &["message"],
        "/0/parts/1/kind",
        &json!("document"),
    );
    check(
        &user(json!({"type": "file", "file": {"file_id": "file-1"}})),
        &["message"],
        "/0/parts/1/source/kind",
        &json!("provider-resource"),
    );
    check(
        &user(json!({"type": "video_url", "video_url": {"url": "https://e.org/v"}})),
        &["message"],
        "/0/parts/1/kind",
        &json!("video"),
    );
    check(
        &user(json!({"type": "file_url", "file_url": {"url": "https://e.org/d"}})),
        &["message"],
        "/0/parts/1/kind",
        &json!("document"),
    );
    check(
        &user(json!({"type": "document_url", "document_url": "https://e.org/d"})),
        &["message"],
        "/0/parts/1/kind",
        &json!("document"),
    );
    check(
        &user(json!({"type": "document_url", "document_url": {"url": "https://e.org/d"}, "document_name": "n"})),
        &["message"],
        "/0/parts/1/kind",
        &json!("document"),
    );
    check(
        &user(json!({"type": "reference", "reference_ids": [1]})),
        &["message"],
        "/0/parts/0/text",
        &json!("see"),
    );
}

#[test]
fn every_role_and_member_has_its_form() {
    check(
        &json!({"role": "developer", "content": "d"}),
        &["message"],
        "/0/placement",
        &json!("inline"),
    );
    check(
        &json!({"role": "system", "content": [{"type": "text", "text": "s"}]}),
        &["message"],
        "/0/role",
        &json!("system"),
    );
    check(
        &json!({"role": "user", "content": "a", "name": "bo"}),
        &["message"],
        "/0/role",
        &json!("user"),
    );
    check(
        &json!({"role": "assistant", "content": "a", "name": "bo"}),
        &["message"],
        "/0/parts/0/text",
        &json!("a"),
    );
    check(
        &json!({"role": "assistant", "content": null, "refusal": "no"}),
        &["message"],
        "/0/parts/0",
        &json!({"partId": "op_offline.i1.p0", "kind": "refusal", "text": "no"}),
    );
    check(
        &json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}),
        &["message"],
        "/0/parts/0/kind",
        &json!("refusal"),
    );
    check(
        &json!({"role": "assistant", "audio": {"id": "audio_1"}}),
        &["message"],
        "/0/parts/0/source/kind",
        &json!("provider-resource"),
    );
    check(
        &json!({"role": "assistant", "content": "a", "reasoning_content": "t"}),
        &["reasoning", "message"],
        "/0/parts/0/text",
        &json!("t"),
    );
    check(
        &json!({"role": "assistant", "content": "a", "reasoning": "t"}),
        &["reasoning", "message"],
        "/0/parts/0/text",
        &json!("t"),
    );
    check(
        &json!({"role": "assistant", "content": "a", "reasoning_text": "t"}),
        &["reasoning", "message"],
        "/0/parts/0/text",
        &json!("t"),
    );
    check(
        &json!({"role": "assistant", "content": "a", "reasoning": "t", "reasoning_content": "t"}),
        &["reasoning", "message"],
        "/0/parts/0/text",
        &json!("t"),
    );
    check(
        &json!({"role": "assistant", "content": "a", "annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.org", "title": "t", "start_index": 0, "end_index": 1}}]}),
        &["message"],
        "/0/parts/0/text",
        &json!("a"),
    );
}

/// A turn with calls and its results, which have to be legal together.
fn check_turn(messages: &Value, pointer: &str, expected: &Value) {
    let decoded = decode_request(&body(messages));
    let record = serde_json::to_value(&decoded.unified).unwrap();
    assert_eq!(
        record["conversation"]["items"].pointer(pointer),
        Some(expected),
        "{pointer} of {record}"
    );
    let (again, _) = encode_request(&decoded.unified, &encode_context(Some(&decoded.resources)));
    assert_eq!(without_nulls(&again["messages"]), without_nulls(messages), "comes back");
}

#[test]
fn calls_and_results_have_their_form() {
    let turn = |calls: Value, result: Value| json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": calls}, result]);
    let result = json!({"role": "tool", "tool_call_id": "1", "content": "r"});
    check_turn(
        &turn(json!([call("1", "f", "{\"a\":1}")]), result.clone()),
        "/1/input",
        &json!({"a": 1}),
    );
    check_turn(
        &turn(json!([call("1", "f", "{broken")]), result.clone()),
        "/1/rawArguments",
        &json!("{broken"),
    );
    check_turn(&turn(json!([call("1", "f", "")]), result.clone()), "/1/rawArguments", &json!(""));
    check_turn(
        &turn(
            json!([{"id": "1", "type": "custom", "custom": {"name": "c", "input": "raw"}}]),
            result.clone(),
        ),
        "/1/toolType",
        &json!("custom"),
    );
    check_turn(
        &turn(
            json!([call("1", "f", "{}")]),
            json!({"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "r"}]}),
        ),
        "/2/output/0/text",
        &json!("r"),
    );
    check_turn(
        &json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "r"}]),
        "/2/name",
        &json!("f"),
    );
    check_turn(
        &json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "text", "tool_calls": [call("1", "f", "{}"), call("2", "f", "{}")]},
        {"role": "tool", "tool_call_id": "2", "content": "b"}, {"role": "tool", "tool_call_id": "1", "content": "a"}]),
        "/4/callId",
        &json!("2"),
    );
}

/// A long history with everything that can be wrong in it.
fn long_history() -> Value {
    let long = "x".repeat(70);
    json!([{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "reasoning_content": "t", "tool_calls": [call("functions.f:0", "mcp.server:f", "{}"), call(&long, "f", "")]},
        {"role": "tool", "tool_call_id": long, "content": "r"}, {"role": "tool", "tool_call_id": "functions.f:0", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "see"}]}, {"role": "system", "content": "now"},
        {"role": "assistant", "content": null, "refusal": "no"}, {"role": "user", "content": ""},
        {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c", "tool_calls": [call("functions.f:0", "f", "{}")]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": ""}, {"role": "developer", "content": "d"},
        {"role": "user", "content": "q"}, {"role": "assistant", "reasoning": "only"}, {"role": "user", "content": "end"}])
}

#[test]
fn the_messages_of_a_history_only_grow() {
    let all = long_history();
    let all = all.as_array().unwrap();
    for dialect in [
        None,
        Some("deepseek"),
        Some("openrouter"),
        Some("groq"),
        Some("mistral"),
        Some("xai"),
        Some("qwen"),
        Some("kimi"),
        Some("glm"),
        Some("minimax"),
        Some("vllm"),
        Some("llama-cpp"),
        Some("ollama"),
    ] {
        for is_own in [true, false] {
            let mut before: Vec<Value> = Vec::new();
            for length in 1..=all.len() {
                let mut decoded = decode_request(&body(&json!(all[..length])));
                if !is_own {
                    let other = UnifiedProtocolProfile::of(ProtocolFamily::AnthropicMessages);
                    decoded.unified.source.profile = other.clone();
                    for item in &mut decoded.unified.conversation.items {
                        item.provenance.profile = Some(other.clone());
                        item.provider_data = None;
                    }
                }
                let resources = is_own.then_some(decoded.resources.as_slice());
                let context = EncodeContext {
                    dialect: dialect.map(str::to_owned),
                    ..encode_context(resources)
                };
                let (encoded, _) = encode_request(&decoded.unified, &context);
                let messages = encoded["messages"].as_array().unwrap().clone();
                // A call that nobody answered yet has a note in place of its result, and a request of nothing an empty message:
                // both end where the next turn writes something else.
                let open = all[..length].iter().rev().take_while(|m| m["role"] == "tool").count();
                let is_whole =
                    length == all.len() || all[length]["role"] != "tool" && (open > 0 || all[length - 1].get("tool_calls").is_none());
                if is_whole {
                    assert!(
                        messages.starts_with(&before),
                        "{dialect:?} own {is_own} at {length}:\n{}\n{}",
                        json!(before),
                        json!(messages)
                    );
                    before = messages;
                }
            }
            assert!(before.len() > all.len() / 2, "{dialect:?}: nothing was compared");
        }
    }
}

#[test]
fn the_same_history_has_the_same_bytes() {
    let decoded = decode_request(&body(&long_history()));
    let encode = || encode_request(&decoded.unified, &encode_context(None)).0.to_string();
    assert_eq!(encode(), encode());
}

#[test]
fn tool_names_and_choices_agree_whatever_the_bound() {
    let name = "mcp.server:".repeat(8);
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [call("1", &name, "{}")]}, {"role": "tool", "tool_call_id": "1", "content": "r"}],
        "tools": [{"type": "function", "function": {"name": name}}], "tool_choice": {"type": "function", "function": {"name": name}}});
    let mut decoded = decode_request(&request).unified;
    decoded.source.profile.family = ProtocolFamily::AnthropicMessages;
    for max in [5, 16, 40, 64, 128] {
        let mut context = encode_context(None);
        context.capabilities.set("max_tool_name_length", &json!(max)).unwrap();
        let (body, losses) = encode_request(&decoded, &context);
        let offered = body["tools"][0]["function"]["name"].as_str().unwrap();
        assert!(offered.len() <= max, "{max}: {offered}");
        assert_eq!(body["tool_choice"]["function"]["name"], offered);
        assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["name"], offered);
        assert!(losses.iter().any(|(_, f)| f == "tool.name"));
    }
}

#[test]
fn what_the_model_may_not_see_is_not_sent() {
    let mut decoded = decode_request(&body(
        &json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "secret"}, {"role": "user", "content": "end"}]),
    ))
    .unified;
    for visibility in ["client", "internal"] {
        decoded.conversation.items[1].visibility = serde_json::from_value(json!(visibility)).unwrap();
        let (encoded, losses) = encode_request(&decoded, &encode_context(None));
        assert_eq!(encoded["messages"].as_array().unwrap().len(), 2, "{visibility}: {encoded}");
        assert!(losses.contains(&("info".into(), "record.bookkeeping".into())));
    }
}

#[test]
fn another_text_of_reasoning_is_kept_for_its_owner_and_named() {
    let message = json!({"role": "assistant", "content": "a", "reasoning_content": "one text", "reasoning": "another"});
    check(&message, &["reasoning", "message"], "/0/parts/0/text", &json!("one text"));
    let decoded = decode_request(&body(&json!([{"role": "user", "content": "q"}, message])));
    assert!(
        decoded.loss.entries.iter().any(|e| e.path == "/messages/1/reasoning"),
        "{:?}",
        decoded.loss.entries
    );
}
