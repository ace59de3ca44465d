//! Bodies of Chat Completions against OpenAI's published description, where the specification folder has it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod openai_chat_support;

use openai_chat_support::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use throughline_format::ProtocolFamily;
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::{Codec, DecodeContext, EncodeContext};

/// The published description, or `None` where it is absent; in CI it has to be there.
fn description() -> Option<Value> {
    let root = std::env::var_os("THROUGHLINE_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let Ok(text) = std::fs::read_to_string(root.join("specs/openai-openapi-subset.json")) else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "the description of the wire is missing"
        );
        eprintln!("skipped: no description of the wire");
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

/// What is wrong with a value by a schema of the description; nothing of the unknown members.
fn problem(all: &Value, schema: &Value, value: &Value, path: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/components/schemas/")) {
        return problem(all, &all["components"]["schemas"][name], value, path);
    }
    if value.is_null() && schema["nullable"] == true {
        return None;
    }
    let each = |key: &str| schema[key].as_array().into_iter().flatten();
    if let Some(found) = each("allOf").find_map(|s| problem(all, s, value, path)) {
        return Some(found);
    }
    for key in ["anyOf", "oneOf"] {
        let found: Vec<String> = each(key).filter_map(|s| problem(all, s, value, path)).collect();
        if !found.is_empty() && found.len() == each(key).count() {
            // The problem that lies deepest is the one of the form that was meant.
            return found.into_iter().max_by_key(|p| p.split(':').next().map_or(0, str::len));
        }
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Some(format!("{path}: {value} is none of {words:?}"));
    }
    let is_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => true,
    };
    if !is_type {
        return Some(format!("{path}: {value} is no {}", schema["type"]));
    }
    let number = value.as_f64();
    let length = value.as_array().map(Vec::len).or_else(|| value.as_str().map(|s| s.chars().count()));
    let bound = |key: &str| schema[key].as_f64();
    let too_small = number.zip(bound("minimum")).is_some_and(|(n, min)| n < min)
        || length.zip(bound("minItems")).is_some_and(|(n, min)| (n as f64) < min);
    let too_large = number.zip(bound("maximum")).is_some_and(|(n, max)| n > max)
        || length
            .zip(bound("maxItems").or(bound("maxLength")))
            .is_some_and(|(n, max)| n as f64 > max);
    if too_small || too_large {
        return Some(format!("{path}: {value} is out of range"));
    }
    if let Some(missing) = each("required")
        .filter_map(Value::as_str)
        .find(|key| value.is_object() && value.get(key).is_none())
    {
        return Some(format!("{path}: {missing} is missing"));
    }
    let mut members = schema["properties"].as_object().into_iter().flatten();
    let inner = members.find_map(|(key, s)| value.get(key).and_then(|v| problem(all, s, v, &format!("{path}/{key}"))));
    let elements = value.as_array().into_iter().flatten().enumerate();
    let element = || {
        elements
            .filter(|_| schema.get("items").is_some())
            .find_map(|(i, v)| problem(all, &schema["items"], v, &format!("{path}/{i}")))
    };
    inner.or_else(element)
}

fn check(all: &Value, name: &str, value: &Value) {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    if let Some(problem) = problem(all, &schema, value, "") {
        panic!("{name}: {problem} in {value}");
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let Some(all) = description() else { return };
    let schema = json!({"$ref": "#/components/schemas/CreateChatCompletionRequest"});
    let wrong = [
        json!({"messages": [{"role": "user", "content": "q"}]}),
        json!({"model": "m", "messages": []}),
        json!({"model": "m", "messages": [{"role": "king", "content": "q"}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "novel"}]}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": "q"}], "temperature": 3}),
        json!({"model": "m", "messages": [{"role": "user", "content": "q"}], "tools": [{"type": "function"}]}),
    ];
    for body in wrong {
        assert!(problem(&all, &schema, &body, "").is_some(), "{body}");
    }
}

#[test]
fn requests_of_another_protocol_follow_the_description() {
    let Some(all) = description() else { return };
    let function = json!({"type": "function", "function": {"name": "f.g", "parameters": {"type": "object"}, "strict": true}});
    let custom = json!({"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}}});
    let user = json!({"role": "user", "content": "q"});
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}});
    let histories = [
        json!([user]),
        json!([{"role": "system", "content": "s"}, user, {"role": "assistant", "content": "", "reasoning_content": "t", "tool_calls": [call("a.b", "f.g", "{}"), call("2", "f", "")]}, {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "r"}, image]}]),
        json!([user, {"role": "assistant", "refusal": "no"}, {"role": "developer", "content": "d"}, {"role": "user", "content": [{"type": "text", "text": ""}, image]}]),
        json!([{"role": "tool", "tool_call_id": "1", "content": "r"}]),
        json!([{"role": "assistant", "content": ""}]),
        json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}, {"type": "video_url", "video_url": {"url": "https://e.org"}}]}]),
        json!([user, {"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "c", "input": "raw"}}]}, {"role": "tool", "tool_call_id": "1", "content": "r"}]),
    ];
    let settings = [
        json!({}),
        json!({"tools": [function, custom, function], "tool_choice": {"type": "function", "function": {"name": "f.g"}}, "parallel_tool_calls": false}),
        json!({"tools": [function], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f.g"}}]}}}),
        json!({"parallel_tool_calls": true, "tool_choice": "required"}),
        json!({"response_format": {"type": "json_object"}, "stop": ["1", "2", "3", "4", "5"], "seed": 5, "n": 2, "logprobs": true, "top_logprobs": 5, "stream": true}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {"type": "object", "default": {}}}}, "max_tokens": 5, "reasoning_effort": "high", "verbosity": "low"}),
        json!({"modalities": ["text", "audio"], "audio": {"format": "wav", "voice": "alloy"}, "prediction": {"type": "content", "content": "x"}, "service_tier": "flex", "metadata": {"k": "v".repeat(600)}}),
        json!({"logit_bias": {"1": 2}, "user": "u", "prompt_cache_key": "k", "store": false, "web_search_options": {"search_context_size": "low"}}),
    ];
    for messages in &histories {
        for more in &settings {
            let mut body = json!({"model": "m", "messages": messages});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let mut decoded = decode_request(&body);
            let stream = decoded.stream;
            for family in [ProtocolFamily::OpenAiChat, ProtocolFamily::GeminiGenerateContent] {
                decoded.unified.source.profile.family = family.clone();
                for item in &mut decoded.unified.conversation.items {
                    item.provenance.profile.as_mut().unwrap().family = family.clone();
                }
                let (encoded, _) = encode_request(
                    &decoded.unified,
                    &EncodeContext {
                        stream,
                        ..encode_context(None)
                    },
                );
                check(&all, "CreateChatCompletionRequest", &encoded);
                assert_paired(&encoded);
            }
        }
    }
}

#[test]
fn answers_and_chunks_follow_the_description() {
    let Some(all) = description() else { return };
    let token = json!({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -1.5, "bytes": null}]});
    let mut with_tokens = answer(&json!({"role": "assistant", "content": "a"}), "stop");
    with_tokens["choices"][0]["logprobs"] = json!({"content": [token], "refusal": null});
    with_tokens["usage"] =
        json!({"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1}});
    with_tokens["service_tier"] = json!("flex");
    let turns = [
        with_tokens,
        answer(&json!({"role": "assistant", "content": null, "refusal": "no"}), "stop"),
        answer(
            &json!({"role": "assistant", "content": "a", "reasoning_content": "t", "annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.org", "title": "t", "start_index": 0, "end_index": 1}}]}),
            "length",
        ),
        answer(
            &json!({"role": "assistant", "content": null, "tool_calls": [call("1", "f", "{\"a\":1}"), {"id": "2", "type": "custom", "custom": {"name": "c", "input": "x"}}]}),
            "tool_calls",
        ),
        answer(
            &json!({"role": "assistant", "content": null, "audio": {"id": "a", "data": "AAAA", "expires_at": 9, "transcript": "hi"}}),
            "stop",
        ),
        answer(&json!({"role": "assistant", "content": "a"}), "a-new-word"),
        answer(&json!({"role": "assistant", "content": ""}), "content_filter"),
    ];
    for body in turns {
        let fold = fold_response(&body);
        let mut result = fold.fold.result();
        result.provenance.profile.family = ProtocolFamily::AnthropicMessages;
        let encoded = OpenAiChat.encode_response(&result, &encode_context(None)).unwrap();
        check(&all, "CreateChatCompletionResponse", &serde_json::from_str(&encoded.body).unwrap());
        let mut encoder = OpenAiChat.stream_encoder(&encode_context(None));
        let mut other = throughline_protocols::offline::OfflineFold::new();
        other
            .push(
                OpenAiChat
                    .decode_response(body.to_string().as_bytes(), &DecodeContext::offline())
                    .unwrap(),
            )
            .unwrap();
        for frame in other
            .events
            .iter()
            .flat_map(|event| encoder.push(event))
            .filter(|frame| frame.data != "[DONE]")
        {
            let mut chunk: Value = serde_json::from_str(&frame.data).unwrap();
            // The description says in words that the other chunks carry a null, and its type forbids it.
            if chunk["usage"].is_null() {
                chunk.as_object_mut().unwrap().remove("usage");
            }
            // Words of the provider itself go to its own clients as they are, and the description is older than custom calls
            // in streams.
            let is_custom = chunk["choices"][0]["delta"]["tool_calls"][0].get("custom").is_some();
            if chunk["choices"][0]["finish_reason"] != "a-new-word" && !is_custom {
                check(&all, "CreateChatCompletionStreamResponse", &chunk);
            }
        }
    }
}
