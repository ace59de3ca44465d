//! Every finish reason and usage counter of Chat Completions, and what else an answer holds besides text and calls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod openai_chat_support;

use openai_chat_support::*;
use serde_json::{Value, json};
use throughline_format::event::EventBody;
use throughline_format::{ProtocolFamily, UnifiedFinishReason, UnifiedResponseStatus, UnifiedResultV2};
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::{Codec, DecodeContext, Decoded, EncodeContext};

fn text() -> Value {
    json!({"role": "assistant", "content": "a"})
}

fn decode(body: &Value) -> Decoded {
    OpenAiChat
        .decode_response(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
}

/// The owner of an answer gets it back as it was.
fn comes_back(body: &Value) {
    let resources = decode(body).resources;
    let encoded = OpenAiChat
        .encode_response(&fold_response(body).fold.result(), &encode_context(Some(&resources)))
        .unwrap();
    let again: Value = serde_json::from_str(&encoded.body).unwrap();
    assert_eq!(without_nulls(&again), without_nulls(body));
}

fn streamed(body: &Value) -> UnifiedResultV2 {
    let choice = &body["choices"][0];
    let mut end = chunk(&json!({}), None);
    end["choices"][0]["finish_reason"] = choice["finish_reason"].clone();
    let mut last = json!({"id": "c1", "model": "m-1", "choices": []});
    last["usage"] = body["usage"].clone();
    fold_stream(sse(&[chunk(&choice["message"], None), end, last]).as_bytes(), 7)
        .fold
        .result()
}

/// A provider's word becomes a reason, in whole answers and in streams, and comes back.
fn check_reason(message: &Value, word: &Value, expected: UnifiedFinishReason) {
    let mut body = answer(message, "");
    body["choices"][0]["finish_reason"] = word.clone();
    for result in [fold_response(&body).fold.result(), streamed(&body)] {
        assert_eq!(result.status.finish_reason, Some(expected), "{word}");
        assert_eq!(
            result.status.original_reason.as_deref(),
            word.as_str().filter(|w| !w.is_empty()),
            "the word is kept"
        );
        assert_eq!(result.status.state, expected.state());
    }
    comes_back(&body);
}

#[test]
fn every_finish_reason_is_read() {
    use UnifiedFinishReason as R;
    let called = json!({"role": "assistant", "content": null, "tool_calls": [call("1", "f", "{}")]});
    let legacy = json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}});
    let refused = json!({"role": "assistant", "content": null, "refusal": "no"});
    check_reason(&text(), &json!("stop"), R::Stop);
    check_reason(&refused, &json!("stop"), R::Refusal);
    check_reason(&text(), &json!("length"), R::Length);
    check_reason(&called, &json!("tool_calls"), R::ToolCalls);
    check_reason(&called, &json!("stop"), R::ToolCalls);
    check_reason(&legacy, &json!("function_call"), R::ToolCalls);
    check_reason(&text(), &json!("content_filter"), R::ContentFilter);
    check_reason(&text(), &json!("eos"), R::Stop);
    check_reason(&text(), &json!("model_length"), R::MaxContext);
    check_reason(&text(), &json!("model_context_window_exceeded"), R::MaxContext);
    check_reason(&text(), &json!("sensitive"), R::ContentFilter);
    check_reason(&text(), &json!("a-new-word"), R::Unknown);
}

#[test]
fn a_reason_that_is_a_failure_fails_the_operation() {
    for (word, category, retryable) in [
        ("insufficient_system_resource", "overloaded", true),
        ("network_error", "server", true),
        ("error", "server", true),
    ] {
        let result = fold_response(&answer(&text(), word)).fold.result();
        let error = result.error.unwrap();
        assert_eq!(
            (error.category.as_str(), error.retryable, error.provider_code.as_deref()),
            (category, retryable, Some(word))
        );
        assert_eq!(result.status.original_reason.as_deref(), Some(word));
    }
}

/// A reason of another protocol as its word here, and whether the report names what the word does not tell.
fn check_word(reason: UnifiedFinishReason, word: &str, is_exact: bool) {
    let mut result = fold_response(&answer(&text(), "stop")).fold.result();
    result.provenance.profile.family = ProtocolFamily::AnthropicMessages;
    result.status = UnifiedResponseStatus::finished(reason, Some("their_word".into()));
    let encoded = OpenAiChat.encode_response(&result, &encode_context(None)).unwrap();
    let body: Value = serde_json::from_str(&encoded.body).unwrap();
    assert_eq!(body["choices"][0]["finish_reason"], word, "{reason:?}");
    let names = |path: &str| encoded.loss.entries.iter().any(|e| e.path == path);
    assert!(names("/status/originalReason"), "{reason:?}");
    assert_eq!(names("/status/finishReason"), !is_exact, "{reason:?}: {:?}", encoded.loss.entries);
}

#[test]
fn every_reason_has_a_word() {
    use UnifiedFinishReason as R;
    check_word(R::Stop, "stop", true);
    check_word(R::Length, "length", true);
    check_word(R::ToolCalls, "tool_calls", true);
    check_word(R::ContentFilter, "content_filter", true);
    for (reason, word) in [
        (R::Refusal, "content_filter"),
        (R::MaxContext, "length"),
        (R::RequiresAction, "tool_calls"),
        (R::Paused, "stop"),
        (R::Interrupted, "length"),
        (R::MalformedToolCall, "stop"),
        (R::Incomplete, "length"),
        (R::Unknown, "stop"),
    ] {
        check_word(reason, word, false);
    }
}

/// A usage object has this value at a pointer into the record, in whole answers and streams, and comes back.
fn check_usage(usage: &Value, pointer: &str, value: f64, source: &str) {
    let mut body = answer(&text(), "stop");
    body["usage"] = usage.clone();
    for result in [fold_response(&body).fold.result(), streamed(&body)] {
        let record = serde_json::to_value(result.usage.unwrap()).unwrap();
        let counter = record.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {record}"));
        assert_eq!(
            (counter["value"].as_f64(), counter["source"].as_str(), counter["scope"].as_str()),
            (Some(value), Some(source), Some("request")),
            "{pointer}"
        );
    }
    comes_back(&body);
}

#[test]
fn every_usage_counter_is_read() {
    let with = |more: Value| {
        let mut usage = json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120});
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        usage
    };
    let prompt = |key: &str| with(json!({"prompt_tokens_details": {key: 3}}));
    let completion = |key: &str| with(json!({"completion_tokens_details": {key: 3}}));
    check_usage(&with(json!({})), "/inputTotal", 100.0, "reported");
    check_usage(&with(json!({})), "/outputTotal", 20.0, "reported");
    check_usage(&with(json!({})), "/total", 120.0, "reported");
    check_usage(&prompt("cached_tokens"), "/cacheRead", 3.0, "reported");
    check_usage(&prompt("cache_write_tokens"), "/cacheWrite", 3.0, "reported");
    check_usage(&prompt("audio_tokens"), "/inputByModality/audio", 3.0, "reported");
    check_usage(&prompt("image_tokens"), "/inputByModality/image", 3.0, "reported");
    check_usage(&prompt("text_tokens"), "/inputByModality/text", 3.0, "reported");
    check_usage(&prompt("video_tokens"), "/inputByModality/video", 3.0, "reported");
    check_usage(&completion("reasoning_tokens"), "/reasoning", 3.0, "reported");
    check_usage(&completion("audio_tokens"), "/outputByModality/audio", 3.0, "reported");
    check_usage(&completion("image_tokens"), "/outputByModality/image", 3.0, "reported");
    check_usage(&completion("text_tokens"), "/outputByModality/text", 3.0, "reported");
    check_usage(&completion("accepted_prediction_tokens"), "/acceptedPrediction", 3.0, "reported");
    check_usage(&completion("rejected_prediction_tokens"), "/rejectedPrediction", 3.0, "reported");
    let both = with(json!({"prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10}}));
    check_usage(&both, "/inputUncached", 60.0, "derived");
    check_usage(
        &with(json!({"prompt_tokens_details": {"cached_tokens": 0}})),
        "/cacheRead",
        0.0,
        "reported",
    );
    // Dialects.
    check_usage(
        &with(json!({"prompt_cache_hit_tokens": 40, "prompt_cache_miss_tokens": 60})),
        "/cacheRead",
        40.0,
        "reported",
    );
    check_usage(
        &with(json!({"prompt_cache_hit_tokens": 40, "prompt_cache_miss_tokens": 60})),
        "/inputUncached",
        60.0,
        "reported",
    );
    check_usage(&with(json!({"cached_tokens": 4})), "/cacheRead", 4.0, "reported");
    check_usage(&with(json!({"num_cached_tokens": 4})), "/cacheRead", 4.0, "reported");
    check_usage(
        &with(json!({"prompt_tokens_details": {"cache_creation_input_tokens": 5}})),
        "/cacheWrite",
        5.0,
        "reported",
    );
    check_usage(&with(json!({"audio_prompt_tokens": 6})), "/inputByModality/audio", 6.0, "reported");
    check_usage(
        &with(json!({"total_tokens": 127, "completion_tokens_details": {"reasoning_tokens": 7}})),
        "/outputTotal",
        27.0,
        "derived",
    );
    check_usage(
        &with(json!({"prompt_tokens_details": {"cached_tokens": 300}})),
        "/inputTotal",
        400.0,
        "derived",
    );
    check_usage(&with(json!({"cost": 0.25, "is_byok": false})), "/cost/0", 0.25, "reported");
    check_usage(&with(json!({"cost": {"total_cost": 0.5}})), "/cost/0", 0.5, "reported");
    check_usage(&with(json!({"cost_in_usd_ticks": 7})), "/cost/0", 7.0, "reported");
    check_usage(
        &with(json!({"server_tool_use_details": {"web_search_requests": 2}})),
        "/serverToolCalls/web-search",
        2.0,
        "reported",
    );
}

#[test]
fn absent_counters_stay_unknown_and_unreadable_usage_is_kept() {
    let mut body = answer(&text(), "stop");
    body["usage"] = json!({"prompt_tokens": 1});
    let record = serde_json::to_value(fold_response(&body).fold.result().usage.unwrap()).unwrap();
    assert_eq!(record.as_object().unwrap().len(), 1, "{record}");
    comes_back(&body);
    body["usage"] = json!({"prompt_tokens": "many"});
    assert!(fold_response(&body).fold.result().usage.is_none());
    comes_back(&body);
}

#[test]
fn what_an_answer_holds_besides_comes_back_to_its_owner() {
    let token = json!({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -1.5, "bytes": null}]});
    let mut with_tokens = answer(&text(), "stop");
    with_tokens["choices"][0]["logprobs"] = json!({"content": [token], "refusal": null});
    let mut refused = answer(&json!({"role": "assistant", "content": null, "refusal": "no"}), "stop");
    refused["choices"][0]["logprobs"] = json!({"content": null, "refusal": [token]});
    let cited = json!({"role": "assistant", "content": "see a", "annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.org", "title": "t", "start_index": 0, "end_index": 3}}, {"type": "file", "file": {"hash": "h"}}]});
    let spoken =
        json!({"role": "assistant", "content": null, "audio": {"id": "audio_1", "data": "AAAA", "expires_at": 9, "transcript": "hi"}});
    let custom = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "c", "input": "{raw"}}]});
    let signed = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s"}}}]});
    let mut tier = answer(&text(), "stop");
    tier["service_tier"] = json!("flex");
    tier["system_fingerprint"] = json!("fp");
    tier["metadata"] = json!({"a": "b"});
    tier["moderation"] = json!({"input": {"type": "moderation_results", "model": "m", "results": []}});
    let mut azure = answer(&text(), "stop");
    azure["prompt_filter_results"] = json!([{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": false}}}]);
    azure["choices"][0]["content_filter_results"] = json!({"hate": {"filtered": false}});
    let mut groq = answer(
        &json!({"role": "assistant", "content": "a", "executed_tools": [{"type": "search", "output": "x".repeat(20_000)}]}),
        "stop",
    );
    groq["x_groq"] = json!({"id": "req"});
    let mut xai = answer(&text(), "stop");
    xai["citations"] = json!(["https://e.org"]);
    for body in [
        with_tokens,
        refused,
        answer(&cited, "stop"),
        answer(&spoken, "stop"),
        answer(&custom, "tool_calls"),
        answer(&signed, "tool_calls"),
        tier,
        azure,
        groq,
        xai,
    ] {
        comes_back(&body);
        let foreign = OpenAiChat
            .encode_response(&fold_response(&body).fold.result(), &encode_context(None))
            .unwrap()
            .body;
        for secret in [
            "audio_1",
            "thought_signature",
            "content_filter_results",
            "executed_tools",
            "system_fingerprint",
            "moderation_results",
        ] {
            assert!(!foreign.contains(secret), "{secret} stays with its owner: {foreign}");
        }
    }
}

#[test]
fn reasoning_details_come_back_byte_for_byte_and_only_to_their_owner() {
    for details in [
        json!([{"type": "reasoning.encrypted", "data": "gAAAA/+==", "id": "r1", "format": "openai-responses-v1", "index": 0}]),
        json!([{"type": "reasoning.text", "text": "t", "signature": "Sig/+=", "format": "anthropic-claude-v1", "index": 0}, {"type": "reasoning.encrypted", "data": "x", "index": 1}]),
        json!([{"type": "reasoning.summary", "summary": "s", "format": "xai-responses-v1", "index": 0}]),
    ] {
        let turn = json!({"role": "assistant", "content": "a", "reasoning": "t", "reasoning_details": details});
        comes_back(&answer(&turn, "stop"));
        let request = json!({"model": "m", "messages": [{"role": "user", "content": "q"}, turn, {"role": "user", "content": "q"}]});
        let decoded = decode_request(&request);
        let record = serde_json::to_string(&decoded.unified).unwrap();
        let (own, _) = encode_request(&decoded.unified, &encode_context(Some(&decoded.resources)));
        assert_eq!(own["messages"][1]["reasoning_details"].to_string(), details.to_string());
        let (other, losses) = encode_request(&decoded.unified, &encode_context(None));
        for secret in ["gAAAA/+==", "Sig/+="] {
            assert!(!record.contains(secret) && !other.to_string().contains(secret));
        }
        assert!(losses.iter().any(|(_, f)| f == "reasoning.text"), "{losses:?}");
    }
}

#[test]
fn what_a_stream_leaves_out_is_a_warning_that_names_it() {
    let late = json!({"annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.org"}}]});
    let cases = [
        (
            vec![json!({"choices": [{"index": 5000, "delta": {"content": "x"}}]})],
            "response.choice-index",
            "response.candidates at /choices/0",
        ),
        (vec![json!({"choices": 3})], "stream.unreadable-chunk", "wire.unmapped at /choices"),
        (
            vec![chunk(&json!({"content": [{"type": "novel"}]}), None)],
            "response.unknown-part",
            "/choices/0/message/content/0",
        ),
        (
            vec![chunk(&late, None)],
            "response.late-annotation",
            "citation at /choices/0/message/annotations/0",
        ),
    ];
    for (extra, code, said) in cases {
        let mut chunks = extra;
        chunks.push(chunk(&json!({"content": "a"}), Some("stop")));
        let mut decoder = OpenAiChat.stream_decoder(&DecodeContext::offline());
        let mut out = decoder.push(sse(&chunks).as_bytes());
        out.extend(decoder.finish());
        let warnings: Vec<_> = out
            .drafts
            .iter()
            .filter_map(|d| {
                if let EventBody::Warning(w) = &d.body {
                    Some((w.code.clone(), w.message.clone()))
                } else {
                    None
                }
            })
            .collect();
        assert!(warnings.iter().any(|(c, m)| c == code && m.contains(said)), "{code}: {warnings:?}");
        assert!(decoder.is_finished());
    }
}

#[test]
fn pieces_of_lists_in_a_stream_are_joined() {
    let token = |t: &str| json!({"token": t, "logprob": -1.0, "bytes": null, "top_logprobs": []});
    let piece = |t: &str| {
        let mut piece = chunk(&json!({"refusal": t}), None);
        piece["choices"][0]["logprobs"] = json!({"content": null, "refusal": [token(t)]});
        piece
    };
    let mut decoder = OpenAiChat.stream_decoder(&DecodeContext::offline());
    let out = decoder.push(sse(&[piece("n"), piece("o"), chunk(&json!({}), Some("stop"))]).as_bytes());
    let kept = out.resources.iter().find(|r| r.schema == "openai-chat/unmapped@1").unwrap();
    let kept: Value = serde_json::from_slice(&kept.payload).unwrap();
    let list = kept["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["pointer"] == "/choices/0/logprobs/refusal")
        .unwrap();
    assert_eq!(list["value"].as_array().unwrap().len(), 2, "{list}");
}

#[test]
fn a_stream_says_what_it_cannot_say() {
    let mut result = decode(&answer(
        &json!({"role": "assistant", "content": "a", "reasoning_content": "t"}),
        "stop",
    ));
    let private = decode(&answer(
        &json!({"role": "assistant", "content": "a", "reasoning": "t", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}),
        "stop",
    ));
    let losses = |decoded: Decoded, context: EncodeContext| {
        let mut fold = throughline_protocols::offline::OfflineFold::new();
        fold.push(decoded).unwrap();
        let mut encoder = OpenAiChat.stream_encoder(&context);
        for event in &fold.events {
            encoder.push(event);
        }
        encoder.loss().entries.iter().map(|e| e.path.clone()).collect::<Vec<_>>()
    };
    assert!(losses(std::mem::take(&mut result), encode_context(None)).is_empty());
    assert!(losses(private, encode_context(None)).contains(&"/output/0/parts".to_owned()));
    let mut body = answer(&text(), "stop");
    body["usage"] = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cost": 1});
    assert_eq!(losses(decode(&body), encode_context(None)), ["/usage/cost"]);
    let unasked = EncodeContext {
        stream_usage: false,
        ..encode_context(None)
    };
    assert_eq!(losses(decode(&body), unasked), ["/usage"], "the client asked for none");
}

#[test]
fn members_without_a_word_come_back_in_a_stream_of_their_owner() {
    let mut first = chunk(&json!({"content": "a"}), None);
    first["provider"] = json!("p");
    let mut last = chunk(&json!({"channel": "final"}), Some("stop"));
    last["choices"][0]["native_finish_reason"] = json!("end");
    last["citations"] = json!(["https://e.org"]);
    let fold = fold_stream(sse(&[first, last]).as_bytes(), 7);
    let frames = |context: &EncodeContext| {
        let mut encoder = OpenAiChat.stream_encoder(context);
        let frames = fold.events.iter().flat_map(|event| encoder.push(event));
        frames.map(|frame| frame.data).collect::<Vec<_>>().join("\n")
    };
    let (own, foreign) = (frames(&encode_context(Some(&fold.resources))), frames(&encode_context(None)));
    for kept in [
        r#""provider":"p""#,
        r#""channel":"final""#,
        r#""native_finish_reason":"end""#,
        r#""citations":["https://e.org"]"#,
    ] {
        assert_eq!(own.matches(kept).count(), 1, "{kept} in {own}");
        assert!(!foreign.contains(kept), "{kept} stays with its owner");
    }
}

#[test]
fn a_call_that_cannot_be_read_is_told_apart() {
    let error = json!({"error": {"message": "no", "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "{"}});
    let result = fold_stream(
        format!("data: {}\n\ndata: {error}\n\n", chunk(&json!({"content": "a"}), None)).as_bytes(),
        7,
    )
    .fold
    .result();
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::MalformedToolCall));
    assert_eq!(result.status.original_reason.as_deref(), Some("tool_use_failed"));
    assert!(result.error.is_some());
}
