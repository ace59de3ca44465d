//! The Chat Completions codec: answers, streams and errors both ways.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod openai_chat_support;

use openai_chat_support::*;
use serde_json::{Value, json};
use throughline_format::UnifiedItemBody;
use throughline_protocols::Codec;
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::openai_chat::OpenAiChat;

// ---- answers and streams ---------------------------------------------------------------------------------------------

/// Pairs of a stream and the whole answer of the same content.
fn same_answers() -> Vec<(&'static str, Vec<Value>, Value)> {
    let details = |text: &str| json!([{"type": "reasoning.text", "text": text, "index": 0}]);
    vec![
        (
            "text",
            vec![
                chunk(&json!({"role": "assistant", "content": ""}), None),
                chunk(&json!({"content": "Hé"}), None),
                chunk(&json!({"content": "llo"}), None),
                chunk(&json!({}), Some("stop")),
            ],
            answer(&json!({"role": "assistant", "content": "Héllo", "refusal": null}), "stop"),
        ),
        (
            "refusal",
            vec![
                chunk(&json!({"role": "assistant", "refusal": "I "}), None),
                chunk(&json!({"refusal": "cannot"}), None),
                chunk(&json!({}), Some("stop")),
            ],
            answer(&json!({"role": "assistant", "content": null, "refusal": "I cannot"}), "stop"),
        ),
        (
            "calls",
            vec![
                chunk(&json!({"role": "assistant", "content": "Let me"}), None),
                chunk(
                    &json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
                    None,
                ),
                chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"x\":"}}]}), None),
                chunk(
                    &json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "1}"}}]}),
                    None,
                ),
                chunk(
                    &json!({"tool_calls": [{"index": 1, "id": "b", "type": "custom", "custom": {"name": "g", "input": ""}}]}),
                    None,
                ),
                chunk(&json!({"tool_calls": [{"index": 1, "custom": {"input": "free"}}]}), None),
                chunk(&json!({}), Some("tool_calls")),
            ],
            answer(
                &json!({"role": "assistant", "content": "Let me", "tool_calls": [call("a", "f", "{\"x\":1}"), {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free"}}]}),
                "tool_calls",
            ),
        ),
        (
            "reasoning",
            vec![
                chunk(&json!({"role": "assistant", "reasoning_content": "Think"}), None),
                chunk(&json!({"reasoning_content": " more", "reasoning": " more"}), None),
                chunk(&json!({"content": "So."}), Some("stop")),
            ],
            answer(
                &json!({"role": "assistant", "reasoning_content": "Think more", "content": "So."}),
                "stop",
            ),
        ),
        (
            "reasoning details",
            vec![
                chunk(
                    &json!({"role": "assistant", "content": "", "reasoning": "A", "reasoning_details": details("A")}),
                    None,
                ),
                chunk(&json!({"reasoning": "B", "reasoning_details": details("B")}), None),
                chunk(
                    &json!({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]}),
                    None,
                ),
                chunk(&json!({"content": "C"}), Some("stop")),
            ],
            answer(
                &json!({"role": "assistant", "reasoning": "AB", "reasoning_details": [{"type": "reasoning.text", "text": "AB", "index": 0, "signature": "s"}], "content": "C"}),
                "stop",
            ),
        ),
        (
            "thinking parts",
            vec![
                chunk(
                    &json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}]}),
                    None,
                ),
                chunk(&json!({"content": [{"type": "text", "text": "A"}]}), None),
                chunk(&json!({"content": ""}), Some("stop")),
            ],
            answer(
                &json!({"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}, {"type": "text", "text": "A"}]}),
                "stop",
            ),
        ),
        (
            "citations",
            vec![
                chunk(&json!({"content": "See it"}), None),
                chunk(
                    &json!({"annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.org", "title": "E", "start_index": 0, "end_index": 3}}]}),
                    None,
                ),
                chunk(&json!({}), Some("stop")),
            ],
            answer(
                &json!({"role": "assistant", "content": "See it", "annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.org", "title": "E", "start_index": 0, "end_index": 3}}]}),
                "stop",
            ),
        ),
        (
            "legacy",
            vec![
                chunk(&json!({"function_call": {"name": "f", "arguments": ""}}), None),
                chunk(&json!({"function_call": {"arguments": "{}"}}), None),
                chunk(&json!({}), Some("function_call")),
            ],
            answer(
                &json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}),
                "function_call",
            ),
        ),
        (
            "audio",
            vec![
                chunk(&json!({"audio": {"id": "x", "data": "AAA"}}), None),
                chunk(&json!({"audio": {"data": "A", "transcript": "la "}}), None),
                chunk(&json!({"audio": {"transcript": "la"}}), None),
                chunk(&json!({}), Some("stop")),
            ],
            answer(
                &json!({"role": "assistant", "content": null, "audio": {"id": "x", "data": "AAAA", "transcript": "la la", "expires_at": 5}}),
                "stop",
            ),
        ),
        (
            "length",
            vec![chunk(&json!({"content": "cut"}), None), chunk(&json!({}), Some("length"))],
            answer(&json!({"role": "assistant", "content": "cut"}), "length"),
        ),
    ]
}

#[test]
fn a_stream_folds_like_the_whole_answer_however_it_is_cut() {
    for (name, chunks, whole) in same_answers() {
        let text = sse(&chunks);
        let expected = visible(&fold_response(&whole).fold.result());
        for (bytes, kind) in [(text.clone().into_bytes(), "lf"), (text.replace('\n', "\r\n").into_bytes(), "crlf")] {
            for piece in [1, 7, 64, usize::MAX] {
                let got = fold_stream(&bytes, piece);
                assert_eq!(visible(&got.fold.result()), expected, "{name}, {kind}, pieces of {piece}");
            }
        }
    }
}

#[test]
fn an_answer_comes_back_as_it_was() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "prompt_cache_hit_tokens": 2, "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0}});
    for (name, _, mut whole) in same_answers() {
        whole["usage"] = usage.clone();
        whole["system_fingerprint"] = json!("fp");
        whole["choices"][0]["native_finish_reason"] = json!("end");
        if let Some(calls) = whole["choices"][0]["message"].get_mut("tool_calls") {
            calls[0]["index"] = json!(0);
            if calls[0].get("function").is_some() {
                calls[0]["function"]["more"] = json!(1);
            }
        }
        let folded = fold_response(&whole);
        let encoded = OpenAiChat
            .encode_response(&folded.fold.result(), &encode_context(Some(&folded.resources)))
            .unwrap();
        let again: Value = serde_json::from_str(&encoded.body).unwrap();
        assert_eq!(without_nulls(&again), without_nulls(&whole), "{name}");
    }
}

#[test]
fn an_encoded_stream_decodes_to_the_same_result() {
    for (name, chunks, whole) in same_answers() {
        for folded in [fold_stream(sse(&chunks).as_bytes(), 64), fold_response(&whole)] {
            let mut encoder = OpenAiChat.stream_encoder(&encode_context(None));
            let frames: Vec<_> = folded.events.iter().flat_map(|event| encoder.push(event)).collect();
            let text: String = frames.iter().map(throughline_protocols::WireFrame::to_sse).collect();
            assert_eq!(frames.last().unwrap().data, "[DONE]", "{name}");
            let again = fold_stream(text.as_bytes(), 7);
            let mut expected = visible(&folded.fold.result());
            if name == "legacy" {
                // A stream says calls in the newer way only.
                expected["output"][0]["callId"] = visible(&again.fold.result())["output"][0]["callId"].clone();
            }
            assert_eq!(visible(&again.fold.result()), expected, "{name}");
        }
    }
}

#[test]
fn encoded_streams_keep_the_rules() {
    let chunks = [
        chunk(&json!({"role": "assistant", "content": "Hi"}), None),
        chunk(
            &json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            None,
        ),
        chunk(&json!({}), Some("tool_calls")),
        json!({"id": "c1", "model": "m-1", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}),
    ];
    let folded = fold_stream(sse(&chunks).as_bytes(), 64);
    for stream_usage in [true, false] {
        let mut context = encode_context(None);
        context.stream_usage = stream_usage;
        let mut encoder = OpenAiChat.stream_encoder(&context);
        let data: Vec<String> = folded.events.iter().flat_map(|event| encoder.push(event)).map(|f| f.data).collect();
        assert_eq!(data.last().map(String::as_str), Some("[DONE]"));
        let values: Vec<Value> = data[..data.len() - 1].iter().map(|d| serde_json::from_str(d).unwrap()).collect();
        assert!(
            values
                .iter()
                .all(|v| v["id"] == values[0]["id"] && v["created"] == values[0]["created"] && v["object"] == "chat.completion.chunk")
        );
        assert_eq!(values.iter().filter(|v| v["choices"][0]["delta"].get("role").is_some()).count(), 1);
        let first_call = values.iter().find_map(|v| v["choices"][0]["delta"].get("tool_calls")).unwrap();
        assert_eq!(first_call[0]["function"]["arguments"], "");
        let usage: Vec<&Value> = values.iter().filter(|v| v["usage"].is_object()).collect();
        assert_eq!(usage.len(), usize::from(stream_usage));
        assert!(usage.iter().all(|v| v["choices"] == json!([])));
    }
}

#[test]
fn dialect_deltas_are_understood() {
    let f = |arguments: Value| json!({"name": "f", "arguments": arguments});
    let one = |text: &str| vec![("f", text.to_owned())];
    #[allow(clippy::type_complexity)] // name, deltas, calls
    let cases: Vec<(&str, Vec<Value>, Vec<(&str, String)>)> = vec![
        (
            "no index",
            vec![
                json!({"tool_calls": [{"id": "a", "function": f(json!("{\"x\""))}]}),
                json!({"tool_calls": [{"function": {"arguments": ":1}"}}]}),
            ],
            one("{\"x\":1}"),
        ),
        (
            "no index, two calls",
            vec![json!({"tool_calls": [{"id": "a", "function": f(json!("{}"))}, {"id": "b", "function": f(json!("[]"))}]})],
            vec![("f", "{}".into()), ("f", "[]".into())],
        ),
        (
            "index 0 twice",
            vec![
                json!({"tool_calls": [{"index": 0, "id": "a", "function": f(json!("{}"))}]}),
                json!({"tool_calls": [{"index": 0, "id": "b", "function": f(json!("{}"))}]}),
            ],
            vec![("f", "{}".into()), ("f", "{}".into())],
        ),
        (
            "empty id and name later",
            vec![
                json!({"tool_calls": [{"index": 0, "id": "a", "function": f(json!("{"))}]}),
                json!({"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": "}"}}]}),
            ],
            one("{}"),
        ),
        (
            "arguments as object",
            vec![json!({"tool_calls": [{"index": 0, "id": "a", "function": f(json!({"x": 1}))}]})],
            one("{\"x\":1}"),
        ),
        (
            "arguments null",
            vec![json!({"tool_calls": [{"index": 0, "id": "a", "function": f(Value::Null)}]})],
            one(""),
        ),
        (
            "no id",
            vec![json!({"tool_calls": [{"index": 0, "function": f(json!("{}"))}]})],
            one("{}"),
        ),
        (
            "name after arguments",
            vec![
                json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{}"}}]}),
                json!({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}),
            ],
            one("{}"),
        ),
        (
            "interleaved",
            vec![
                json!({"tool_calls": [{"index": 0, "id": "a", "function": f(json!("{\"x\":"))}]}),
                json!({"tool_calls": [{"index": 1, "id": "b", "function": f(json!("{}"))}]}),
                json!({"tool_calls": [{"index": 0, "function": {"arguments": "2}"}}]}),
            ],
            vec![("f", "{\"x\":2}".into()), ("f", "{}".into())],
        ),
    ];
    for (name, deltas, expected) in cases {
        let mut chunks: Vec<Value> = deltas.iter().map(|d| chunk(d, None)).collect();
        chunks.push(json!({"choices": null}));
        chunks.push(chunk(&json!({"role": null, "content": null, "tool_calls": null}), Some("stop")));
        let result = fold_stream(sse(&chunks).as_bytes(), 13).fold.result();
        let calls: Vec<(&str, String)> = result
            .output
            .iter()
            .filter_map(|i| {
                if let UnifiedItemBody::ToolCall(c) = &i.body {
                    Some((c.name.as_str(), c.raw_arguments.clone()))
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(calls, expected, "{name}");
        let ids: std::collections::BTreeSet<_> = result.output.iter().filter_map(|i| i.call_id()).collect();
        assert_eq!(ids.len(), expected.len(), "{name}: {ids:?}");
        let status = serde_json::to_value(&result.status).unwrap();
        assert_eq!(
            status,
            json!({"state": "completed", "finishReason": "tool-calls", "originalReason": "stop"}),
            "{name}: calls decide"
        );
    }
}

#[test]
fn candidates_stay_apart() {
    let interleaved = |index: u64, delta: Value, finish: Option<&str>| json!({"model": "m-1", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]});
    let chunks = [
        interleaved(0, json!({"role": "assistant", "content": "a"}), None),
        interleaved(1, json!({"role": "assistant", "content": "x"}), None),
        interleaved(0, json!({"content": "b"}), None),
        interleaved(1, json!({}), Some("length")),
        interleaved(
            0,
            json!({"tool_calls": [{"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            None,
        ),
        interleaved(0, json!({}), Some("tool_calls")),
    ];
    let whole = json!({"model": "m-1", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "ab", "tool_calls": [call("1", "f", "{}")]}, "finish_reason": "tool_calls"},
        {"index": 1, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}]});
    let folded = fold_stream(sse(&chunks).as_bytes(), 5);
    let result = visible(&folded.fold.result());
    assert_eq!(result, visible(&fold_response(&whole).fold.result()));
    assert_eq!(result["output"].as_array().unwrap().len(), 2);
    assert_eq!(result["alternatives"][0]["index"], 1);
    assert_eq!(result["alternatives"][0]["status"]["finishReason"], "length");
    let encoded = OpenAiChat.encode_response(&folded.fold.result(), &encode_context(None)).unwrap();
    let again: Value = serde_json::from_str(&encoded.body).unwrap();
    assert_eq!(again["choices"][1]["message"]["content"], "x");
    assert_eq!(again["choices"][1]["finish_reason"], "length");
}

#[test]
fn torn_streams_and_errors_in_streams_end_the_operation() {
    let text = chunk(&json!({"content": "half"}), None);
    let finish = chunk(&json!({}), Some("stop"));
    let cases = [
        (
            "torn",
            format!("data: {text}\n\n"),
            "incomplete",
            "interrupted",
            Some("interrupted.stream"),
        ),
        (
            "torn in a chunk",
            format!("data: {text}\n\ndata: {{\"choi"),
            "incomplete",
            "interrupted",
            Some("interrupted.stream"),
        ),
        ("no end", format!("data: {text}\n\ndata: {finish}\n\n"), "completed", "stop", None),
        (
            "error object",
            format!("data: {text}\n\ndata: {{\"error\":{{\"message\":\"boom\",\"type\":\"server_error\",\"code\":null}}}}\n\n"),
            "failed",
            "failed",
            Some("server.provider"),
        ),
        (
            "error event",
            "event: error\ndata: {\"message\":\"slow down\",\"code\":429}\n\n".to_owned(),
            "failed",
            "failed",
            Some("rate-limit.provider"),
        ),
        (
            "error reason",
            format!(
                "data: {text}\n\ndata: {}\n\ndata: [DONE]\n\n",
                chunk(&json!({}), Some("insufficient_system_resource"))
            ),
            "failed",
            "failed",
            Some("overloaded.provider"),
        ),
        (
            "unknown reason",
            format!("data: {text}\n\ndata: {}\n\ndata: [DONE]\n\n", chunk(&json!({}), Some("moon"))),
            "incomplete",
            "unknown",
            None,
        ),
        (
            "unreadable chunk",
            format!("data: {text}\n\ndata: {{\"choices\":7}}\n\ndata: {finish}\n\ndata: [DONE]\n\n"),
            "completed",
            "stop",
            None,
        ),
    ];
    for (name, bytes, state, reason, code) in cases {
        let folded = fold_stream(bytes.as_bytes(), 9);
        let result = folded.fold.result();
        let status = serde_json::to_value(&result.status).unwrap();
        assert_eq!(
            (status["state"].as_str(), status["finishReason"].as_str()),
            (Some(state), Some(reason)),
            "{name}"
        );
        assert_eq!(result.error.as_ref().map(|e| e.code.as_str()), code, "{name}");
        if name != "error event" {
            assert_eq!(result.output[0].parts()[0].as_text(), Some("half"), "{name}");
        }
        let mut encoder = OpenAiChat.stream_encoder(&encode_context(None));
        let frames: Vec<_> = folded.events.iter().flat_map(|event| encoder.push(event)).collect();
        let is_failed = code.is_some();
        assert_eq!(frames.last().unwrap().data == "[DONE]", !is_failed, "{name}");
        assert_eq!(frames.last().unwrap().data.starts_with("{\"error\":"), is_failed, "{name}");
    }
}

#[test]
fn usage_keeps_unknown_unknown() {
    let decode = |usage: Value| {
        let mut whole = answer(&json!({"content": "x"}), "stop");
        whole["usage"] = usage;
        serde_json::to_value(fold_response(&whole).fold.result().usage).unwrap()
    };
    let full = decode(json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10, "audio_tokens": 0, "text_tokens": 90},
        "completion_tokens_details": {"reasoning_tokens": 8, "accepted_prediction_tokens": 1, "rejected_prediction_tokens": 2, "audio_tokens": 0}}));
    for (member, value) in [
        ("inputTotal", 100.0),
        ("cacheRead", 60.0),
        ("cacheWrite", 10.0),
        ("inputUncached", 30.0),
        ("outputTotal", 20.0),
        ("reasoning", 8.0),
        ("total", 120.0),
        ("acceptedPrediction", 1.0),
        ("rejectedPrediction", 2.0),
    ] {
        assert_eq!(full[member]["value"], value, "{member}");
    }
    assert_eq!(full["inputUncached"]["source"], "derived");
    assert_eq!(full["inputByModality"]["text"]["value"], 90.0);
    let sparse = decode(json!({"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5, "prompt_tokens_details": null}));
    assert!(sparse.get("cacheRead").is_none() && sparse.get("inputUncached").is_none());
    assert_eq!(sparse["outputTotal"]["value"], 0.0);
    assert_eq!(
        decode(json!({"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6, "prompt_cache_hit_tokens": 3}))["cacheRead"]["value"],
        3.0
    );
    let beside = decode(
        json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22, "completion_tokens_details": {"reasoning_tokens": 7}}),
    );
    assert_eq!(
        (beside["outputTotal"]["value"].as_f64(), beside["outputTotal"]["source"].as_str()),
        (Some(12.0), Some("derived"))
    );
    assert!(decode(Value::Null).is_null());
}

#[test]
fn logprobs_are_kept() {
    let tokens =
        json!([{"token": "Hi", "logprob": -0.25, "bytes": [72, 105], "top_logprobs": [{"token": "Yo", "logprob": -2.5, "bytes": null}]}]);
    let mut whole = answer(&json!({"role": "assistant", "content": "Hi"}), "stop");
    whole["choices"][0]["logprobs"] = json!({"content": tokens, "refusal": null});
    let folded = fold_response(&whole);
    let part = serde_json::to_value(&folded.fold.result().output[0].parts()[0]).unwrap();
    assert_eq!(part["logprobs"][0]["top"][0]["token"], "Yo");
    let encoded = OpenAiChat.encode_response(&folded.fold.result(), &encode_context(None)).unwrap();
    let again: Value = serde_json::from_str(&encoded.body).unwrap();
    assert_eq!(without_nulls(&again["choices"][0]["logprobs"]["content"]), without_nulls(&tokens));
}

#[test]
fn errors_have_categories_and_shapes() {
    let cases = [
        (
            400,
            json!({"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}),
            "max-context",
            false,
        ),
        (
            400,
            json!({"error": {"message": "bad", "type": "invalid_request_error", "param": "messages", "code": null}}),
            "invalid-request",
            false,
        ),
        (401, json!({"error": {"message": "key", "code": "invalid_api_key"}}), "auth", false),
        (403, json!({"error": {"message": "no"}}), "permission", false),
        (
            404,
            json!({"error": {"message": "no model", "code": "model_not_found"}}),
            "not-found",
            false,
        ),
        (
            429,
            json!({"error": {"message": "slow", "code": "rate_limit_exceeded"}}),
            "rate-limit",
            true,
        ),
        (
            429,
            json!({"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}}),
            "quota",
            false,
        ),
        (500, json!({"error": {"message": "oops", "type": "server_error"}}), "server", true),
        (503, json!({"error": {"message": "busy"}}), "overloaded", true),
        (
            400,
            json!({"object": "error", "message": "mistral's form", "type": "invalid_request_error", "code": "3230"}),
            "invalid-request",
            false,
        ),
        (400, json!({"code": "x", "error": "xai's form"}), "invalid-request", false),
        (502, json!("<html>"), "server", true),
    ];
    for (status, body, category, retryable) in cases {
        let headers = ErrorHeaders {
            request_id: Some("req".into()),
            retry_after_ms: Some(5),
            should_retry: None,
        };
        let error = OpenAiChat.decode_error(status, &headers, body.to_string().as_bytes());
        assert_eq!((error.category.as_str(), error.retryable), (category, retryable), "{body}");
        assert_eq!((error.http_status, error.retry_after_ms), (Some(u64::from(status)), Some(5)));
        let wire = OpenAiChat.encode_error(&error);
        let value: Value = serde_json::from_str(&wire.body).unwrap();
        assert_eq!(value["error"]["message"], error.message.as_str());
        let again = OpenAiChat.decode_error(wire.status, &ErrorHeaders::default(), wire.body.as_bytes());
        assert_eq!(again.category, error.category, "{body}");
    }
    let failed = fold_response(&json!({"error": {"message": "upstream", "code": 502}})).fold.result();
    assert_eq!(failed.status.state.as_str(), "failed");
    let encoded = OpenAiChat.encode_response(&failed, &encode_context(None)).unwrap();
    assert!(encoded.body.starts_with("{\"error\":"));
}
