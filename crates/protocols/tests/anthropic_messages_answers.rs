//! Answers of the Messages protocol through the public interface: responses, streams, errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_cmp,
    clippy::format_collect,
    missing_docs
)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, corpus, files, fold_response, fold_stream, result_of, sse};
use throughline_format::{ErrorCategory, UnifiedFinishReason, UnifiedItemBody};
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, SideResource, WireFrame};

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

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

/// Events of a stream as its bytes.
fn stream(events: &[Value]) -> String {
    events
        .iter()
        .map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap()))
        .collect()
}

fn begin() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 7, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0, "output_tokens": 1}}})
}

fn answer() -> (String, Value) {
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let cite = json!({"type": "web_search_result_location", "cited_text": "q", "url": "https://a.example", "title": "A", "encrypted_index": "aW5kZXg="});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "c2VjcmV0"}]});
    let events = [
        begin(),
        json!({"type": "ping"}),
        start(0, json!({"type": "thinking", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm "})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "ü🌍"})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(1, json!({"type": "signature_delta", "signature": "b21pdA=="})),
        stop(1),
        start(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "He"})),
        delta(2, json!({"type": "text_delta", "text": "llo"})),
        stop(2),
        start(3, json!({"type": "text", "text": "", "citations": []})),
        delta(3, json!({"type": "text_delta", "text": "cited"})),
        delta(3, json!({"type": "citations_delta", "citation": cite})),
        stop(3),
        start(
            4,
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
        ),
        delta(4, json!({"type": "input_json_delta", "partial_json": "{\"query\": "})),
        delta(4, json!({"type": "input_json_delta", "partial_json": "\"x\"}"})),
        stop(4),
        start(5, found.clone()),
        stop(5),
        start(
            6,
            json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": {"type": "direct"}}),
        ),
        delta(6, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(6, json!({"type": "input_json_delta", "partial_json": "{\"a\":1.50}"})),
        stop(6),
        json!({"type": "brand_new_event"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null, "container": {"id": "c1"}}, "usage": {"output_tokens": 20, "inference_geo": "eu"}}),
        json!({"type": "message_stop"}),
    ];
    let whole = format!(
        r#"{{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "stop_reason": "tool_use", "stop_sequence": null, "container": {{"id": "c1"}},
        "usage": {{"input_tokens": 7, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0, "output_tokens": 20, "inference_geo": "eu"}}, "content": [
        {{"type": "thinking", "thinking": "hm ü🌍", "signature": "c2ln"}}, {{"type": "thinking", "thinking": "", "signature": "b21pdA=="}},
        {{"type": "text", "text": "Hello"}}, {{"type": "text", "text": "cited", "citations": [{cite}]}},
        {{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {{"query": "x"}}}}, {found},
        {{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {{"a":1.50}}, "caller": {{"type": "direct"}}}}]}}"#
    );
    (
        stream(&events),
        serde_json::from_str::<Box<serde_json::value::RawValue>>(&whole)
            .map(|raw| json!(raw.get()))
            .unwrap(),
    )
}

#[test]
fn cuts_and_line_ends_do_not_show() {
    let (text, _) = answer();
    let whole = fold_stream(&CODEC, text.as_bytes(), usize::MAX);
    for bytes in [text.clone(), text.replace('\n', "\r\n")] {
        for piece in [1, 7, 64] {
            let cut = fold_stream(&CODEC, bytes.as_bytes(), piece);
            assert_eq!(result_of(&cut), result_of(&whole));
            assert_eq!(cut.events, whole.events);
        }
    }
}

#[test]
fn a_stream_folds_to_what_the_response_says() {
    let (text, whole) = answer();
    let streamed = fold_stream(&CODEC, text.as_bytes(), 5);
    let plain = fold_response(&CODEC, whole.as_str().unwrap().as_bytes());
    assert_eq!(result_of(&streamed), result_of(&plain));
    let result = result_of(&streamed);
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::ToolCalls));
    let kinds: Vec<_> = result.output.iter().map(|i| i.body.kind()).collect();
    assert_eq!(
        kinds,
        [
            "reasoning",
            "reasoning",
            "message",
            "server-tool-call",
            "search-result",
            "tool-call"
        ]
    );
    let usage = result.usage.unwrap();
    assert_eq!(usage.input_total.unwrap().value, 9.0);
    assert_eq!(usage.output_total.unwrap().value, 20.0);
    assert!(usage.reasoning.is_none());
}

/// The answer of a fold encoded as a stream again.
fn restream(fold: &throughline_protocols::offline::OfflineFold) -> Vec<WireFrame> {
    let mut encoder = CODEC.stream_encoder(&context(&fold.resources));
    fold.events.iter().flat_map(|event| encoder.push(event)).collect()
}

/// Checks the framing of a stream.
fn assert_framing(frames: &[WireFrame]) {
    let values: Vec<Value> = frames.iter().map(|f| serde_json::from_str(&f.data).unwrap()).collect();
    let named = |(f, v): (&WireFrame, &Value)| f.event == v["type"].as_str() || f.event.is_none() && v["type"] == "brand_new_event";
    assert!(frames.iter().zip(&values).all(named));
    let mut open = None;
    let mut next = 0;
    for (n, value) in values.iter().enumerate() {
        match value["type"].as_str().unwrap() {
            "message_start" => assert_eq!(n, 0),
            "content_block_start" => {
                assert!(open.is_none(), "two blocks are open");
                assert_eq!(value["index"], next);
                open = Some(next);
            }
            "content_block_delta" => assert_eq!(value["index"].as_u64(), open),
            "content_block_stop" => {
                assert_eq!(value["index"].as_u64(), open.take());
                next += 1;
            }
            "message_delta" => assert_eq!(n, values.len() - 2),
            "message_stop" => assert_eq!(n, values.len() - 1),
            other => assert!(matches!(other, "ping" | "error" | "brand_new_event"), "{other}"),
        }
    }
    assert!(open.is_none());
}

#[test]
fn an_answer_comes_back_as_it_was_for_its_owner() {
    let (text, whole) = answer();
    for fold in [
        fold_stream(&CODEC, text.as_bytes(), usize::MAX),
        fold_response(&CODEC, whole.as_str().unwrap().as_bytes()),
    ] {
        let frames = restream(&fold);
        assert_framing(&frames);
        let again = fold_stream(&CODEC, sse(&frames).as_bytes(), 11);
        assert_eq!(result_of(&again), result_of(&fold));
        let encoded = CODEC.encode_response(&result_of(&fold), &context(&fold.resources)).unwrap();
        let (back, source): (Value, Value) = (
            serde_json::from_str(&encoded.body).unwrap(),
            serde_json::from_str(whole.as_str().unwrap()).unwrap(),
        );
        assert_eq!(back, source);
    }
}

#[test]
fn foreign_reasoning_gets_a_synthetic_signature_that_never_goes_back() {
    let (text, _) = answer();
    let fold = fold_stream(&CODEC, text.as_bytes(), usize::MAX);
    let encoded = CODEC.encode_response(&result_of(&fold), &context(&[])).unwrap();
    let body: Value = serde_json::from_str(&encoded.body).unwrap();
    let signature = body["content"][0]["signature"].as_str().unwrap();
    assert!(signature.starts_with("tl-synthetic:"));
    let request = json!({"model": "m", "max_tokens": 9, "messages": [user("x"), {"role": "assistant", "content": body["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}]}]});
    let decoded = decode(&request);
    let sent = CODEC.encode_request(&decoded.unified, &context(&decoded.resources)).unwrap();
    assert!(!sent.body.contains("tl-synthetic:"), "{}", sent.body);
}

#[test]
fn streams_that_break_off_are_interrupted() {
    let (text, _) = answer();
    for end in (0..text.len() - 40).step_by(97).filter(|end| text.is_char_boundary(*end)) {
        let fold = fold_stream(&CODEC, &text.as_bytes()[..end], 9);
        let result = result_of(&fold);
        assert_eq!(result.error.as_ref().unwrap().category, ErrorCategory::Interrupted, "cut at {end}");
        assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Interrupted));
        let frames = restream(&fold);
        assert_eq!(frames.last().unwrap().event, Some("error"));
    }
}

#[test]
fn what_captured_streams_show_beyond_the_types() {
    let usage = json!({"input_tokens": 0, "output_tokens": 0});
    let whole_start = json!({"type": "message_start", "message": {"id": "m1", "type": "message", "role": "assistant", "model": "c", "stop_reason": "tool_use", "usage": usage,
        "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]}});
    let stop = json!({"type": "message_stop"});
    let call_start = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}});
    let cases: Vec<(&str, Vec<Value>, UnifiedFinishReason)> = vec![
        (
            "content in message_start",
            vec![whole_start.clone(), stop.clone()],
            UnifiedFinishReason::ToolCalls,
        ),
        (
            "same begin twice",
            vec![whole_start.clone(), whole_start, stop.clone()],
            UnifiedFinishReason::ToolCalls,
        ),
        (
            "input in block start",
            vec![
                begin(),
                call_start.clone(),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                stop.clone(),
            ],
            UnifiedFinishReason::ToolCalls,
        ),
        (
            "another message begins",
            vec![
                begin(),
                call_start,
                json!({"type": "message_start", "message": {"id": "other", "content": []}}),
                stop,
            ],
            UnifiedFinishReason::Interrupted,
        ),
    ];
    for (name, events, reason) in cases {
        let result = result_of(&fold_stream(&CODEC, stream(&events).as_bytes(), 13));
        assert_eq!(result.status.finish_reason, Some(reason), "{name}");
        assert_eq!(result.output.len(), 1, "{name}");
        let UnifiedItemBody::ToolCall(call) = &result.output[0].body else {
            panic!("{name}")
        };
        if reason == UnifiedFinishReason::ToolCalls {
            assert_eq!(call.raw_arguments.replace(' ', ""), "{\"a\":1}", "{name}");
        }
    }
}

#[test]
fn errors_both_ways() {
    let overloaded =
        json!({"type": "error", "error": {"details": null, "type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"});
    let result = result_of(&fold_stream(&CODEC, stream(&[begin(), overloaded.clone()]).as_bytes(), 3));
    let error = result.error.unwrap();
    assert_eq!(
        (error.category, error.retryable, error.provider_request_id.as_deref()),
        (ErrorCategory::Overloaded, true, Some("req_1"))
    );
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Failed));

    let spent = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "no", "details": {"error_code": "enforced_spend_limit_reached"}}});
    for (status, body, category, retryable) in [
        (529, overloaded.to_string(), ErrorCategory::Overloaded, true),
        (429, spent.to_string(), ErrorCategory::Quota, false),
        (404, "not json".to_owned(), ErrorCategory::NotFound, false),
        (500, "{}".to_owned(), ErrorCategory::Server, true),
    ] {
        let headers = ErrorHeaders {
            retry_after_ms: Some(1500),
            ..ErrorHeaders::default()
        };
        let error = CODEC.decode_error(status, &headers, body.as_bytes());
        assert_eq!(
            (error.category, error.retryable, error.http_status, error.retry_after_ms),
            (category, retryable, Some(u64::from(status)), Some(1500))
        );
        let wire = CODEC.encode_error(&error);
        let value: Value = serde_json::from_str(&wire.body).unwrap();
        assert_eq!(value["type"], "error");
        assert!(wire.status >= 400);
    }
}

#[test]
fn captured_answers_come_back_through_a_stream() {
    let Some(folder) = corpus("wire/anthropic-messages/responses") else {
        return;
    };
    for file in files(&folder, ".json") {
        let body = std::fs::read(&file).unwrap();
        let fold = fold_response(&CODEC, &body);
        if fold.fold.result().error.is_some() {
            continue;
        }
        let frames = restream(&fold);
        assert_framing(&frames);
        let again = fold_stream(&CODEC, sse(&frames).as_bytes(), usize::MAX);
        assert_eq!(result_of(&again), result_of(&fold), "{}", file.display());
    }
}

#[test]
fn captured_streams_come_back_and_fold_alike() {
    let Some(folder) = corpus("wire/anthropic-messages/streams") else {
        return;
    };
    for file in files(&folder, ".sse") {
        let bytes = std::fs::read(&file).unwrap();
        let fold = fold_stream(&CODEC, &bytes, usize::MAX);
        assert_eq!(result_of(&fold_stream(&CODEC, &bytes, 7)), result_of(&fold), "{}", file.display());
        let frames = restream(&fold);
        if fold.fold.result().error.is_none() {
            assert_framing(&frames);
            let again = fold_stream(&CODEC, sse(&frames).as_bytes(), usize::MAX);
            assert_eq!(result_of(&again), result_of(&fold), "{}", file.display());
        }
    }
}
