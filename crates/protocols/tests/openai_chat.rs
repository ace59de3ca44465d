//! The Chat Completions codec: requests both ways, histories that the wire refuses, and captured traffic where it is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod openai_chat_support;

use openai_chat_support::*;
use serde_json::{Value, json};
use throughline_format::ProtocolFamily;
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::{Codec, DecodeContext};

// ---- requests ------------------------------------------------------------------------------------------------------

#[test]
fn messages_become_items_in_order() {
    let decoded = decode_request(&json!({"model": "m", "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Use metric units."}]},
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]},
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [call("a", "look", "{\"x\": 1}"), call("b", "look", "{broken")]},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "system", "content": "Now answer."}
    ]}));
    let request = &decoded.unified;
    assert_eq!(
        kinds(request),
        [
            "message",
            "message",
            "message",
            "reasoning",
            "message",
            "tool-call",
            "tool-call",
            "tool-result",
            "tool-result",
            "message"
        ]
    );
    let value = serde_json::to_value(request).unwrap();
    let items = value["conversation"]["items"].as_array().unwrap();
    assert_eq!(items[0]["placement"], "instructions");
    assert_eq!(items[1]["role"], "developer");
    assert_eq!(items[9]["placement"], "inline");
    assert_eq!(
        items[2]["parts"][1]["source"],
        json!({"kind": "inline", "mediaType": "image/png", "data": "AAAA", "encoding": "base64"})
    );
    assert_eq!(items[2]["parts"][1]["media"]["detail"], "low");
    assert_eq!(items[5]["input"], json!({"x": 1}));
    assert_eq!(items[5]["rawArguments"], "{\"x\": 1}");
    assert!(items[6].get("input").is_none(), "text that is no JSON has no parsed form");
    assert_eq!(items[7]["callId"], "b");
}

#[test]
fn a_request_comes_back_as_it_was() {
    let tool = json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number"}}}, "strict": false}});
    let user = json!([{"role": "user", "content": "hi"}]);
    let cases = [
        json!({"model": "m", "messages": user, "max_tokens": 5, "temperature": 0.5, "top_p": 1, "n": 2, "stop": "x", "seed": 9_007_199_254_740_993_i64, "presence_penalty": -1, "frequency_penalty": 0.25,
               "logit_bias": {"50256": -100}, "logprobs": true, "top_logprobs": 3, "service_tier": "default", "store": false, "metadata": {"k": "v"}, "user": "u", "prompt_cache_key": "k",
               "safety_identifier": "s", "prompt_cache_retention": "24h", "verbosity": "low", "reasoning_effort": "minimal", "stream": false}),
        json!({"model": "m", "messages": user, "max_completion_tokens": 5, "stop": ["x"], "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true, "description": "d"}}}),
        json!({"model": "m", "messages": user, "tools": [tool, {"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}}}],
               "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}}, "parallel_tool_calls": false}),
        json!({"model": "m", "messages": user, "tools": [tool], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
        json!({"model": "m", "messages": user, "modalities": ["text", "audio"], "audio": {"format": "wav", "voice": "alloy"}, "prediction": {"type": "content", "content": "abc"}, "web_search_options": {"search_context_size": "low"}}),
        json!({"model": "m", "messages": [{"role": "user", "name": "bo", "content": [{"type": "text", "text": "a"}, {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
               {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}, {"type": "file", "file": {"file_id": "file-1"}},
               {"type": "mystery", "x": [1, null]}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral", "ttl": "1h"}}, {"type": "video_url", "video_url": {"url": "https://e.org/v"}}]}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "assistant", "tool_calls": [call("functions.f:0", "f", "")]},
               {"role": "tool", "tool_call_id": "functions.f:0", "content": [{"type": "text", "text": "r"}]}, {"role": "assistant", "content": "", "tool_calls": [call("2", "f", "{}")]},
               {"role": "tool", "tool_call_id": "2", "content": "r"}, {"role": "assistant", "refusal": "no"}, {"role": "assistant", "audio": {"id": "audio_1"}}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "r"}],
               "functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": {"name": "f"}}),
        json!({"model": "m", "reasoning": {"effort": "high", "exclude": true}, "top_k": 4, "models": ["x"], "provider": {"order": ["y"]}, "messages": [{"role": "user", "content": "q"},
               {"role": "assistant", "content": "a", "reasoning": "r", "reasoning_details": [{"type": "reasoning.text", "text": "r", "signature": "s", "index": 0}]}, {"role": "user", "content": "q"}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"type": "text", "text": "a"}], "prefix": true}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"},
               "extra_content": {"google": {"thought_signature": "sig"}}, "index": 0}]}, {"role": "tool", "tool_call_id": "1", "name": "f", "content": [{"type": "image_url", "image_url": {"url": "https://e.org/i"}}]}]}),
    ];
    for body in cases {
        let decoded = decode_request(&body);
        let (again, losses) = encode_request(&decoded.unified, &encode_context(Some(&decoded.resources)));
        assert_eq!(without_nulls(&again), without_nulls(&body));
        assert!(losses.iter().all(|(severity, _)| severity == "info"), "{losses:?} for {body}");
    }
}

#[test]
fn a_streaming_request_asks_for_usage_unless_its_client_did_not() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "q"}], "stream": true});
    let decoded = decode_request(&body);
    assert!(decoded.stream);
    let mut context = encode_context(Some(&decoded.resources));
    context.stream = true;
    let (own, _) = encode_request(&decoded.unified, &context);
    assert!(own.get("stream_options").is_none());
    let mut request = decoded.unified;
    request.source.profile.family = ProtocolFamily::AnthropicMessages;
    let (other, _) = encode_request(&request, &context);
    assert_eq!(
        (&other["stream"], &other["stream_options"]["include_usage"]),
        (&json!(true), &json!(true))
    );
}

#[test]
fn illegal_histories_become_legal() {
    let long = "x".repeat(70);
    let longer = format!("{long}y");
    let user = |text: &str| json!({"role": "user", "content": text});
    let cases = [
        // unanswered at the end, and in the middle
        json!([user("q"), {"role": "assistant", "content": "a", "tool_calls": [call("1", "f", "{}"), call("2", "f", "{}")]}, {"role": "tool", "tool_call_id": "2", "content": "r"}]),
        json!([user("q"), {"role": "assistant", "tool_calls": [call("1", "f", "{}")]}, user("never mind")]),
        // the result comes late, or has no call
        json!([user("q"), {"role": "assistant", "tool_calls": [call("1", "f", "{}")]}, user("wait"), {"role": "tool", "tool_call_id": "1", "content": "r"}]),
        json!([{"role": "tool", "tool_call_id": "9", "content": "r"}, user("q")]),
        json!([user("q"), {"role": "assistant", "tool_calls": [call("1", "f", "{}")]}, {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "tool", "tool_call_id": "1", "content": "again"}]),
        // IDs that collide when cut, or come twice
        json!([user("q"), {"role": "assistant", "tool_calls": [call(&long, "f", "{}"), call(&longer, "f", "{}")]}, {"role": "tool", "tool_call_id": longer, "content": "r"}, {"role": "tool", "tool_call_id": long, "content": "r"}]),
        json!([user("q"), {"role": "assistant", "tool_calls": [call("1", "f", "{}")]}, {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "assistant", "tool_calls": [call("1", "f", "{}")]}, {"role": "tool", "tool_call_id": "1", "content": "r"}]),
        // reasoning, media in results, names that are refused, nothing at all
        json!([user("q"), {"role": "assistant", "reasoning_content": "think", "tool_calls": [call("1", "mcp.server:f", "")]},
               {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]),
        json!([user("q"), {"role": "assistant", "reasoning_content": "only"}, user("")]),
        json!([{"role": "assistant", "content": ""}]),
    ];
    for messages in cases {
        let (body, _) = foreign(&json!({"model": "m", "messages": messages}));
        assert_paired(&body);
        assert!(!body["messages"].as_array().unwrap().is_empty());
        assert!(!body.to_string().contains("reasoning_content"));
        for message in body["messages"].as_array().unwrap() {
            for called in message["tool_calls"].as_array().into_iter().flatten() {
                let name = called["function"]["name"].as_str().unwrap();
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') && name.len() <= 64);
            }
            assert!(message["role"] == "assistant" || message.get("content").is_some_and(|c| !c.is_null()));
        }
    }
}

#[test]
fn repairs_are_losses() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let (body, losses) = foreign(
        &json!({"model": "m", "top_k": 3, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "reasoning_content": "t", "tool_calls": [call("1", "f", "{}"), call("2", "f", "{}")]},
        {"role": "tool", "tool_call_id": "1", "content": [image]}]}),
    );
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"]);
    assert_eq!(messages[4]["content"][1]["type"], "image_url");
    for feature in [
        "reasoning.text",
        "tool.result.media",
        "conversation.interruption",
        "generation.top_k",
    ] {
        assert!(losses.contains(&("warning".into(), feature.into())), "{feature} in {losses:?}");
    }
    assert!(body.get("top_k").is_none());
}

#[test]
fn a_dialect_that_demands_reasoning_gets_it() {
    let mut request = decode_request(&json!({"model": "m", "max_completion_tokens": 9, "messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "reasoning_content": "t", "tool_calls": [call("1", "f", "{}")]}, {"role": "tool", "tool_call_id": "1", "content": "r"},
        {"role": "assistant", "tool_calls": [call("2", "f", "{}")]}, {"role": "tool", "tool_call_id": "2", "content": "r"}]})).unified;
    for item in &mut request.conversation.items {
        item.provider_data = None;
    }
    let mut context = encode_context(None);
    context.dialect = Some("deepseek".into());
    let (body, _) = encode_request(&request, &context);
    assert_eq!(body["messages"][1]["reasoning_content"], "t");
    assert!(body["messages"][3]["reasoning_content"].as_str().is_some_and(|t| !t.is_empty()));
    assert_eq!(body["max_tokens"], 9);
}

#[test]
fn bad_requests_name_their_place() {
    let cases = [
        (json!({"model": "m"}), "invalid-request.missing-field", ""),
        (json!({"model": "m", "messages": 3}), "invalid-request.wrong-type", "/messages"),
        (json!({"model": "m", "messages": []}), "invalid-request.invalid-value", "/messages"),
        (
            json!({"model": "m", "messages": [{"content": "x"}]}),
            "invalid-request.missing-field",
            "/messages/0/role",
        ),
        (
            json!({"model": "m", "messages": [{"role": "king", "content": "x"}]}),
            "invalid-request.invalid-value",
            "/messages/0/role",
        ),
        (
            json!({"model": "m", "messages": [{"role": "tool", "content": "x"}]}),
            "invalid-request.missing-field",
            "/messages/0/tool_call_id",
        ),
        (
            json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": "hot"}),
            "invalid-request.wrong-type",
            "/temperature",
        ),
    ];
    for (body, code, path) in cases {
        let error = OpenAiChat
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.field_path.as_deref().unwrap_or_default()),
            (code, path),
            "{body}"
        );
    }
}

// ---- captured traffic --------------------------------------------------------------------------------------------------

#[test]
fn captured_traffic_survives() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/wire/openai-chat");
    if !root.is_dir() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "the corpus is missing");
        return;
    }
    let files = |folder: &str| {
        let mut list: Vec<_> = std::fs::read_dir(root.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        list.retain(|p| !p.to_string_lossy().ends_with(".meta.json"));
        list.sort();
        list
    };
    for path in files("requests") {
        let bytes = std::fs::read(&path).unwrap();
        let decoded = OpenAiChat.decode_request(&bytes, &DecodeContext::offline()).unwrap();
        OpenAiChat
            .encode_request(&decoded.unified, &encode_context(Some(&decoded.resources)))
            .unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        let (other, _) = foreign(&body);
        assert_paired(&other);
    }
    for path in files("streams") {
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let bytes = if path.extension().is_some_and(|e| e == "jsonl") {
            text.lines()
                .fold(String::new(), |text, l| text + &format!("data: {l}\n\n"))
                .into_bytes()
        } else {
            bytes
        };
        let whole = fold_stream(&bytes, usize::MAX);
        assert_eq!(
            visible(&fold_stream(&bytes, 7).fold.result()),
            visible(&whole.fold.result()),
            "{path:?}"
        );
        if whole.fold.result().error.is_some() {
            continue;
        }
        let mut encoder = OpenAiChat.stream_encoder(&encode_context(Some(&whole.resources)));
        let again: String = whole
            .events
            .iter()
            .flat_map(|event| encoder.push(event))
            .map(|f| f.to_sse())
            .collect();
        let (mut a, mut b) = (
            visible(&whole.fold.result()),
            visible(&fold_stream(again.as_bytes(), 64).fold.result()),
        );
        for side in [&mut a, &mut b] {
            // Dialects that count otherwise are written in OpenAI's counters.
            side.as_object_mut().unwrap().remove("usage");
            for item in side["output"].as_array_mut().unwrap() {
                // The details that tell a summary come after its text.
                if let Some(part) = item.get_mut("parts").and_then(|p| p.get_mut(0)) {
                    part.as_object_mut().unwrap().remove("form");
                }
            }
        }
        assert_eq!(a, b, "{path:?}");
    }
}
