//! The UI message stream: every type of chunk read, every event written for every major, usage and endings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, corpus, files, fold_response, fold_stream, result_of, sse};
use throughline_format::status::ResponseState;
use throughline_format::usage::{UnifiedCounter, UsageScope, UsageSource};
use throughline_format::{ErrorCategory, EventBody, UnifiedItemBody, UnifiedResultV2, UnifiedUsage};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::vercel_uimessage::VercelUiMessage;
use throughline_protocols::{Capabilities, Codec, EncodeContext};

fn stream(chunks: &[Value]) -> String {
    let lines = chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
    lines.map(|data| ["data: ", &data, "\n\n"].concat()).collect()
}

/// The message that a stream's owner would have stored, by way of the record.
fn stored(fold: &OfflineFold) -> Value {
    let owner = EncodeContext {
        private: Arc::new(Everything::of(&fold.resources)),
        ..EncodeContext::plain(Capabilities::of(VercelUiMessage.capabilities()))
    };
    let encoded = VercelUiMessage.encode_response(&result_of(fold), &owner).unwrap();
    serde_json::from_str::<Value>(&encoded.body).unwrap()[0].clone()
}

/// The chunks of one message, without those around it, give these parts: what the SDK's own reader makes of them.
fn check(chunks: Value, parts: Value) {
    let mut all = vec![json!({"type": "start", "messageId": "m"})];
    all.extend(chunks.as_array().unwrap().clone());
    all.push(json!({"type": "finish", "finishReason": "stop"}));
    let text = stream(&all);
    let whole = fold_stream(&VercelUiMessage, text.as_bytes(), usize::MAX);
    assert_eq!(stored(&whole)["parts"], parts, "{chunks}");
    for piece in [1, 7, 64] {
        let cut = fold_stream(&VercelUiMessage, text.as_bytes(), piece);
        assert_eq!(result_of(&cut), result_of(&whole), "{chunks} in pieces of {piece}");
    }
}

#[test]
fn every_type_of_chunk() {
    check(
        json!([{"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "a"}, {"type": "text-delta", "id": "1", "delta": "b"}, {"type": "text-end", "id": "1"}]),
        json!([{"type": "text", "text": "ab", "state": "done"}]),
    );
    check(
        json!([{"type": "text-start", "id": "1", "providerMetadata": {"x": 1}}, {"type": "text-delta", "id": "1", "delta": "a", "providerMetadata": {"x": 2}}, {"type": "text-end", "id": "1"}]),
        json!([{"type": "text", "text": "a", "state": "done", "providerMetadata": {"x": 2}}]),
    );
    check(
        json!([{"type": "text-start", "id": "1"}, {"type": "text-start", "id": "2"}, {"type": "text-delta", "id": "2", "delta": "b"}, {"type": "text-delta", "id": "1", "delta": "a"}, {"type": "text-end", "id": "1"}, {"type": "text-end", "id": "2"}]),
        json!([{"type": "text", "text": "a", "state": "done"}, {"type": "text", "text": "b", "state": "done"}]),
    );
    check(
        json!([{"type": "text-start", "id": "1"}, {"type": "text-end", "id": "1"}, {"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "again"}, {"type": "text-end", "id": "1", "citations": []}]),
        json!([{"type": "text", "text": "", "state": "done"}, {"type": "text", "text": "again", "state": "done", "citations": []}]),
    );
    check(
        json!([{"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "open"}]),
        json!([{"type": "text", "text": "open", "state": "streaming"}]),
    );
    check(
        json!([{"type": "reasoning-start", "id": "r"}, {"type": "reasoning-delta", "id": "r", "delta": "hm", "providerMetadata": {"anthropic": {"signature": "s"}}}, {"type": "reasoning-end", "id": "r"}]),
        json!([{"type": "reasoning", "text": "hm", "state": "done", "providerMetadata": {"anthropic": {"signature": "s"}}, "id": "r"}]),
    );
    check(
        json!([{"type": "tool-input-start", "toolCallId": "c", "toolName": "f"}, {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{\"a\""}, {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": ":1}"}, {"type": "tool-input-available", "toolCallId": "c", "toolName": "f", "input": {"a": 1}}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "input-available", "input": {"a": 1}}]),
    );
    check(
        json!([{"type": "tool-input-start", "toolCallId": "c", "toolName": "f", "inputEncoding": "text", "title": "F"}, {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "SEL"}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "input-streaming", "rawInput": "SEL", "title": "F", "inputEncoding": "text"}]),
    );
    check(
        json!([{"type": "tool-input-available", "toolCallId": "c", "toolName": "f", "input": {}, "dynamic": true, "providerExecuted": true, "providerMetadata": {"x": 1}, "toolMetadata": {"y": 2}}]),
        json!([{"type": "dynamic-tool", "toolName": "f", "toolCallId": "c", "state": "input-available", "input": {}, "providerExecuted": true, "callProviderMetadata": {"x": 1}, "toolMetadata": {"y": 2}}]),
    );
    check(
        json!([{"type": "tool-input-error", "toolCallId": "c", "toolName": "f", "input": "x", "errorText": "bad"}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "output-error", "input": "x", "errorText": "bad"}]),
    );
    let call = json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "f", "input": {}});
    check(
        json!([call, {"type": "tool-output-available", "toolCallId": "c", "output": {"o": 1}, "providerMetadata": {"x": 1}}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {}, "output": {"o": 1}, "resultProviderMetadata": {"x": 1}}]),
    );
    check(
        json!([call, {"type": "tool-output-available", "toolCallId": "c", "output": 1, "preliminary": true}, {"type": "tool-output-available", "toolCallId": "c", "output": 2}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {}, "output": 2}]),
    );
    check(
        json!([call, {"type": "tool-output-error", "toolCallId": "c", "errorText": "bad"}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "output-error", "input": {}, "errorText": "bad"}]),
    );
    check(
        json!([call, {"type": "tool-approval-request", "approvalId": "q", "toolCallId": "c", "reason": "costs", "isAutomatic": true, "signature": "s"}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "approval-requested", "input": {}, "approval": {"id": "q", "requestReason": "costs", "isAutomatic": true, "signature": "s"}}]),
    );
    check(
        json!([call, {"type": "tool-approval-request", "approvalId": "q", "toolCallId": "c"}, {"type": "tool-approval-response", "approvalId": "q", "approved": true, "reason": "ok"}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "approval-responded", "input": {}, "approval": {"id": "q", "approved": true, "reason": "ok"}}]),
    );
    check(
        json!([call, {"type": "tool-approval-request", "approvalId": "q", "toolCallId": "c"}, {"type": "tool-approval-response", "approvalId": "q", "approved": false}, {"type": "tool-output-denied", "toolCallId": "c"}]),
        json!([{"type": "tool-f", "toolCallId": "c", "state": "output-denied", "input": {}, "approval": {"id": "q", "approved": false}}]),
    );
    check(
        json!([{"type": "source-url", "sourceId": "s", "url": "http://x", "title": "X"}]),
        json!([{"type": "source-url", "sourceId": "s", "url": "http://x", "title": "X"}]),
    );
    check(
        json!([{"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "T"}]),
        json!([{"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "T"}]),
    );
    check(
        json!([{"type": "file", "url": "data:image/png;base64,AAAA", "mediaType": "image/png"}]),
        json!([{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}]),
    );
    check(
        json!([{"type": "reasoning-file", "url": "http://x", "mediaType": "image/png"}]),
        json!([{"type": "reasoning-file", "url": "http://x", "mediaType": "image/png"}]),
    );
    check(
        json!([{"type": "custom", "kind": "openai.x", "providerMetadata": {"a": 1}}]),
        json!([{"type": "custom", "providerMetadata": {"a": 1}, "kind": "openai.x"}]),
    );
    check(
        json!([{"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "t"}]}]),
        json!([{"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "t"}]}]),
    );
    check(
        json!([{"type": "data-w", "id": "1", "data": 1}, {"type": "data-w", "data": 3}, {"type": "data-w", "id": "1", "data": 2}, {"type": "data-n", "data": 4, "transient": true}]),
        json!([{"type": "data-w", "data": 2, "id": "1"}, {"type": "data-w", "data": 3}]),
    );
    check(
        json!([{"type": "start-step"}, {"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "no"}, call, {"type": "reset-step"}, {"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "yes"}, {"type": "text-end", "id": "1"}, {"type": "finish-step"}]),
        json!([{"type": "step-start"}, {"type": "text", "text": "yes", "state": "done"}]),
    );
    check(
        json!([{"type": "start-step"}, call, {"type": "finish-step"}, {"type": "start-step"}, {"type": "tool-output-available", "toolCallId": "c", "output": "late"}, {"type": "finish-step"}]),
        json!([{"type": "step-start"}, {"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {}, "output": "late"}, {"type": "step-start"}]),
    );
    check(json!([{"type": "hologram", "depth": 3}]), json!([{"type": "hologram", "depth": 3}]));
}

#[test]
fn what_the_sdk_refuses_is_a_warning() {
    for (chunk, code) in [
        (json!({"type": "text-delta", "id": "1", "delta": "x"}), "stream.not-started"),
        (json!({"type": "text-end", "id": "1"}), "stream.not-started"),
        (json!({"type": "reasoning-delta", "id": "1", "delta": "x"}), "stream.not-started"),
        (
            json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "x"}),
            "stream.not-started",
        ),
        (
            json!({"type": "tool-output-available", "toolCallId": "c", "output": 1}),
            "stream.unknown-call",
        ),
        (json!({"type": "tool-output-denied", "toolCallId": "c"}), "stream.unknown-call"),
        (
            json!({"type": "tool-approval-request", "approvalId": "q", "toolCallId": "c"}),
            "stream.unknown-call",
        ),
        (
            json!({"type": "tool-approval-response", "approvalId": "q", "approved": true}),
            "stream.unknown-approval",
        ),
        (json!({"type": "data-n", "data": 1, "transient": true}), "stream.transient-data"),
        (json!({"type": "text-start"}), "stream.unreadable-chunk"),
        (json!({"kind": "nothing"}), "stream.unreadable-chunk"),
        (json!({"type": "finish-step", "extra": 1}), "stream.unknown-member"),
    ] {
        let fold = fold_stream(
            &VercelUiMessage,
            stream(&[chunk.clone(), json!({"type": "finish", "finishReason": "stop"})]).as_bytes(),
            9,
        );
        let codes: Vec<_> = fold
            .events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::Warning(warning) => Some(warning.code.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(codes, [code], "{chunk}");
        assert_eq!(result_of(&fold).status.state, ResponseState::Completed, "{chunk}");
    }
}

#[test]
fn endings() {
    let text = [
        json!({"type": "start"}),
        json!({"type": "text-start", "id": "1"}),
        json!({"type": "text-delta", "id": "1", "delta": "a"}),
        json!({"type": "text-end", "id": "1"}),
    ];
    let call = json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "f", "input": {}});
    let ask = json!({"type": "tool-approval-request", "approvalId": "q", "toolCallId": "c"});
    let end = |last: &[Value]| result_of(&fold_stream(&VercelUiMessage, stream(&[&text[..], last].concat()).as_bytes(), 11));
    let finish = |word: &str| json!({"type": "finish", "finishReason": word});
    for (last, expected) in [
        (vec![finish("stop")], "completed stop stop"),
        (vec![finish("length")], "incomplete length length"),
        (vec![finish("content-filter")], "incomplete content-filter content-filter"),
        (vec![call.clone(), finish("tool-calls")], "completed tool-calls tool-calls"),
        (vec![call.clone(), finish("stop")], "completed tool-calls stop"),
        (
            vec![call.clone(), ask, finish("tool-calls")],
            "requires-action requires-action tool-calls",
        ),
        (vec![finish("interrupted")], "incomplete interrupted interrupted"),
        (vec![finish("other")], "incomplete unknown other"),
        (vec![finish("later-word")], "incomplete unknown later-word"),
        (vec![json!({"type": "finish"})], "incomplete unknown -"),
        (vec![finish("error")], "failed failed -"),
        (
            vec![json!({"type": "error", "errorText": "boom"}), finish("error")],
            "failed failed -",
        ),
        (vec![json!({"type": "abort", "reason": "user"})], "cancelled cancelled -"),
        (vec![], "incomplete interrupted -"),
    ] {
        let status = end(&last).status;
        let said = format!(
            "{} {} {}",
            status.state,
            status.finish_reason.unwrap(),
            status.original_reason.as_deref().unwrap_or("-")
        );
        assert_eq!(said, expected, "{last:?}");
    }
    let failed = end(&[json!({"type": "error", "errorText": "boom"}), finish("error")]);
    assert_eq!(failed.error.unwrap().message, "boom");
    assert_eq!(failed.output[0].parts()[0].as_text(), Some("a"), "what was said is kept");
    // Torn: without its end it is an interruption, after its finish chunk a warning.
    let torn: String = text.iter().map(|c| ["data: ", &c.to_string(), "\n\n"].concat()).collect();
    let error = result_of(&fold_stream(&VercelUiMessage, torn.as_bytes(), 3)).error.unwrap();
    assert_eq!(error.category, ErrorCategory::Interrupted);
    let nearly = format!("{torn}data: {}\n\n", finish("stop"));
    assert_eq!(
        result_of(&fold_stream(&VercelUiMessage, nearly.as_bytes(), 3)).status.state,
        ResponseState::Completed
    );
}

const fn counter(value: f64, scope: UsageScope) -> UnifiedCounter {
    UnifiedCounter {
        value,
        scope,
        source: UsageSource::Reported,
    }
}

#[test]
fn usage_stands_in_the_metadata() {
    let of = |metadata: Value| {
        let chunks = [
            json!({"type": "start"}),
            json!({"type": "finish", "finishReason": "stop", "messageMetadata": metadata}),
        ];
        let from_stream = result_of(&fold_stream(&VercelUiMessage, stream(&chunks).as_bytes(), 64)).usage;
        let body = json!([{"id": "a", "role": "assistant", "metadata": metadata, "parts": []}]);
        assert_eq!(
            result_of(&fold_response(&VercelUiMessage, body.to_string().as_bytes())).usage,
            from_stream
        );
        from_stream
    };
    let operation = |value| Some(counter(value, UsageScope::Operation));
    let usage = UnifiedUsage {
        total: operation(3.0),
        ..UnifiedUsage::default()
    };
    assert_eq!(of(json!({"totalTokens": 3})), Some(usage.clone()));
    assert_eq!(of(json!({"usage": {"totalTokens": 3}, "totalTokens": "many"})), Some(usage));
    assert_eq!(
        of(
            json!({"usage": {"inputTokens": 5, "inputTokenDetails": {"noCacheTokens": 3, "cacheReadTokens": 2, "cacheWriteTokens": 0}, "outputTokens": 4, "outputTokenDetails": {"reasoningTokens": 1}, "totalTokens": 9}})
        ),
        Some(UnifiedUsage {
            input_total: operation(5.0),
            input_uncached: operation(3.0),
            cache_read: operation(2.0),
            cache_write: operation(0.0),
            output_total: operation(4.0),
            reasoning: operation(1.0),
            total: operation(9.0),
            ..UnifiedUsage::default()
        })
    );
    assert_eq!(of(json!({"createdAt": 5})), None, "unknown is not zero");
    assert_eq!(of(json!("a word")), None);
}

#[test]
fn a_figure_of_a_session_is_never_shown_as_the_usage_of_an_answer() {
    throughline_format::clause!("USE-02");
    let body = json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]});
    let mut result: UnifiedResultV2 = result_of(&fold_response(&OpenAiChat, body.to_string().as_bytes()));
    for (scope, is_shown) in [
        (UsageScope::Request, true),
        (UsageScope::Operation, true),
        (UsageScope::Session, false),
        (UsageScope::Cumulative, false),
    ] {
        result.usage = Some(UnifiedUsage {
            input_total: Some(counter(7.0, scope)),
            ..UnifiedUsage::default()
        });
        let context = EncodeContext::plain(Capabilities::of(VercelUiMessage.capabilities()));
        let encoded = VercelUiMessage.encode_response(&result, &context).unwrap();
        assert_eq!(encoded.body.contains("\"inputTokens\":7"), is_shown, "{scope}: {}", encoded.body);
        let is_reported = encoded.loss.entries.iter().any(|e| e.path == "/usage/inputTotal");
        assert_eq!(is_reported, !is_shown, "{scope}");
    }
}

/// The types of the chunks that a stream becomes for a client of this major.
fn written(fold: &OfflineFold, major: &str) -> Vec<Value> {
    let context = EncodeContext {
        dialect: Some(major.to_owned()),
        ..EncodeContext::plain(Capabilities::of(VercelUiMessage.capabilities()))
    };
    let mut encoder = VercelUiMessage.stream_encoder(&context);
    let frames: Vec<_> = fold.events.iter().flat_map(|event| encoder.push(event)).collect();
    let text = sse(&frames);
    assert!(text.ends_with("data: [DONE]\n\n"));
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[test]
fn every_major_gets_only_chunks_that_it_knows() {
    const FIVE: &[&str] = &[
        "start",
        "start-step",
        "finish-step",
        "text-start",
        "text-delta",
        "text-end",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "tool-input-start",
        "tool-input-delta",
        "tool-input-available",
        "tool-input-error",
        "tool-output-available",
        "tool-output-error",
        "source-url",
        "source-document",
        "file",
        "message-metadata",
        "error",
        "abort",
        "finish",
    ];
    const SIX: &[&str] = &["tool-approval-request", "tool-output-denied"];
    const SEVEN: &[&str] = &[
        "tool-approval-response",
        "custom",
        "reasoning-file",
        "steering-message",
        "reset-step",
    ];
    let known = |major: &str, kind: &str| {
        kind.starts_with("data-") || FIVE.contains(&kind) || major >= "6" && SIX.contains(&kind) || major >= "7" && SEVEN.contains(&kind)
    };
    let call = |id: &str| json!({"type": "tool-input-available", "toolCallId": id, "toolName": "f", "input": {}});
    let chunks = [
        json!({"type": "start", "messageId": "m"}),
        json!({"type": "start-step"}),
        json!({"type": "reasoning-start", "id": "r"}),
        json!({"type": "reasoning-delta", "id": "r", "delta": "hm"}),
        json!({"type": "reasoning-end", "id": "r"}),
        call("a"),
        json!({"type": "tool-approval-request", "approvalId": "q", "toolCallId": "a"}),
        json!({"type": "tool-approval-response", "approvalId": "q", "approved": false}),
        json!({"type": "tool-output-denied", "toolCallId": "a"}),
        call("b"),
        json!({"type": "tool-output-available", "toolCallId": "b", "output": 1}),
        call("c"),
        json!({"type": "tool-output-error", "toolCallId": "c", "errorText": "e"}),
        json!({"type": "text-start", "id": "t"}),
        json!({"type": "text-delta", "id": "t", "delta": "x"}),
        json!({"type": "text-end", "id": "t", "citations": [{"source": {"type": "source", "sourceType": "url", "id": "s", "url": "http://x"}, "startIndex": 0, "endIndex": 1}]}),
        json!({"type": "file", "url": "http://x", "mediaType": "image/png"}),
        json!({"type": "data-w", "data": 1}),
        json!({"type": "finish-step"}),
        json!({"type": "finish", "finishReason": "stop"}),
    ];
    let fold = fold_stream(&VercelUiMessage, stream(&chunks).as_bytes(), 64);
    for major in ["5", "6", "7"] {
        let written = written(&fold, major);
        let kinds: Vec<_> = written.iter().map(|c| c["type"].as_str().unwrap()).collect();
        assert!(kinds.iter().all(|kind| known(major, kind)), "{major}: {kinds:?}");
        let finish = written.last().unwrap();
        assert_eq!(finish.get("finishReason").is_some(), major >= "6", "{major}");
        let end = written.iter().find(|c| c["type"] == "text-end").unwrap();
        assert_eq!(end.get("citations").is_some(), major >= "7", "{major}");
        assert!(kinds.contains(&"source-url"), "{major}: what is cited is a source");
        let denied = written
            .iter()
            .find(|c| c["toolCallId"] == "a" && c["type"].as_str().unwrap().starts_with("tool-output"))
            .unwrap();
        assert_eq!(
            denied["type"],
            if major == "5" { "tool-output-error" } else { "tool-output-denied" }
        );
    }
}

#[test]
fn failures_are_told_in_each_majors_words() {
    let open = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n";
    let failed = format!("{open}data: {{\"error\":{{\"message\":\"boom\",\"code\":500}}}}\n\n");
    for (text, major, last) in [
        (open, "7", vec!["text-end", "finish-step", "error", "finish interrupted"]),
        (open, "6", vec!["text-end", "finish-step", "error", "abort"]),
        (open, "5", vec!["text-end", "finish-step", "error", "abort"]),
        (&failed, "7", vec!["text-end", "finish-step", "error", "finish error"]),
        (&failed, "5", vec!["text-end", "finish-step", "error", "finish"]),
    ] {
        let fold = fold_stream(&OpenAiChat, text.as_bytes(), 5);
        let said: Vec<String> = written(&fold, major)
            .iter()
            .map(|c| {
                format!("{} {}", c["type"].as_str().unwrap(), c["finishReason"].as_str().unwrap_or(""))
                    .trim()
                    .to_owned()
            })
            .collect();
        assert_eq!(said[said.len() - 4..], last, "{major}: {said:?}");
    }
}

#[test]
fn an_encoded_stream_decodes_to_the_same_answer() {
    let Some(folder) = corpus("wire/vercel-uimessage/streams") else {
        return;
    };
    let mut tried = 0;
    for file in files(&folder, ".sse") {
        let bytes = std::fs::read(&file).unwrap();
        let first = fold_stream(&VercelUiMessage, &bytes, 4096);
        let owner = EncodeContext {
            private: Arc::new(Everything::of(&first.resources)),
            ..EncodeContext::plain(Capabilities::of(VercelUiMessage.capabilities()))
        };
        let mut encoder = VercelUiMessage.stream_encoder(&owner);
        let frames: Vec<_> = first.events.iter().flat_map(|event| encoder.push(event)).collect();
        let again = fold_stream(&VercelUiMessage, sse(&frames).as_bytes(), 333);
        let strip = |fold: &OfflineFold| {
            let result = result_of(fold);
            let items = result.output.iter().map(|item| {
                let mut item = item.clone();
                item.provider_data = None;
                if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut item.body {
                    call.private_linkage = None;
                }
                for part in item.parts_mut().into_iter().flatten() {
                    part.provider_data = None;
                }
                item
            });
            (items.collect::<Vec<_>>(), result.status, result.usage)
        };
        assert_eq!(strip(&first), strip(&again), "{}", file.display());
        tried += 1;
    }
    assert!(tried > 0);
}
