//! Gemini GenerateContent with its dialects: responses and streams, one line per finish reason, counter and error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, fold_response, fold_stream, result_of, sse};
use throughline_format::citation::UnifiedTextAnnotation;
use throughline_format::media::UnifiedIndexUnit;
use throughline_format::{PartBody, UnifiedItemBody};
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::gemini_generate_content::GeminiGenerateContent;
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, EncodeContext, span};

const GEMINI: GeminiGenerateContent = GeminiGenerateContent::GEMINI;
const VERTEX: GeminiGenerateContent = GeminiGenerateContent::VERTEX;
const ANTIGRAVITY: GeminiGenerateContent = GeminiGenerateContent::ANTIGRAVITY;

fn answer(candidate: &Value) -> Value {
    json!({"candidates": [candidate], "modelVersion": "gemini-3-pro"})
}

fn own(codec: &dyn Codec, fold: &OfflineFold) -> EncodeContext {
    EncodeContext {
        private: Arc::new(Everything::of(&fold.resources)),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    }
}

fn round_trip(codec: &dyn Codec, body: &Value) -> Value {
    let fold = fold_response(codec, body.to_string().as_bytes());
    let encoded = codec.encode_response(&result_of(&fold), &own(codec, &fold)).unwrap();
    serde_json::from_str(&encoded.body).unwrap()
}

#[test]
fn every_finish_reason_has_its_meaning() {
    let call = json!({"functionCall": {"name": "f", "args": {}}});
    let cases = [
        ("STOP", false, "stop", "completed"),
        ("STOP", true, "tool-calls", "completed"),
        ("OTHER", true, "tool-calls", "completed"),
        ("OTHER", false, "unknown", "incomplete"),
        ("MAX_TOKENS", false, "length", "incomplete"),
        ("CONTINUATION", false, "paused", "incomplete"),
        ("SAFETY", false, "content-filter", "incomplete"),
        ("BLOCKLIST", false, "content-filter", "incomplete"),
        ("PROHIBITED_CONTENT", false, "content-filter", "incomplete"),
        ("SPII", false, "content-filter", "incomplete"),
        ("MODEL_ARMOR", false, "content-filter", "incomplete"),
        ("RECITATION", false, "content-filter", "incomplete"),
        ("IMAGE_RECITATION", false, "content-filter", "incomplete"),
        ("IMAGE_SAFETY", false, "content-filter", "incomplete"),
        ("IMAGE_PROHIBITED_CONTENT", false, "content-filter", "incomplete"),
        ("ESCALATION", false, "content-filter", "incomplete"),
        ("MALFORMED_FUNCTION_CALL", false, "malformed-tool-call", "incomplete"),
        ("UNEXPECTED_TOOL_CALL", false, "malformed-tool-call", "incomplete"),
        ("TOO_MANY_TOOL_CALLS", false, "incomplete", "incomplete"),
        ("LANGUAGE", false, "unknown", "incomplete"),
        ("NO_IMAGE", false, "failed", "failed"),
        ("IMAGE_OTHER", false, "failed", "failed"),
        ("MALFORMED_RESPONSE", false, "failed", "failed"),
        ("MISSING_THOUGHT_SIGNATURE", false, "failed", "failed"),
        ("PUP_LIMITED_DISABLED", false, "failed", "failed"),
        ("SOMETHING_NEW", false, "unknown", "incomplete"),
    ];
    for (word, with_call, reason, state) in cases {
        let parts = if with_call { json!([call]) } else { json!([{"text": "x"}]) };
        let body = answer(&json!({"content": {"role": "model", "parts": parts}, "finishReason": word, "index": 0}));
        let status = serde_json::to_value(result_of(&fold_response(&GEMINI, body.to_string().as_bytes())).status).unwrap();
        assert_eq!(
            (&status["finishReason"], &status["state"]),
            (&json!(reason), &json!(state)),
            "{word}"
        );
        assert_eq!(status["originalReason"], word);
        assert_eq!(round_trip(&GEMINI, &body), body, "{word}");
        let stream = format!("data: {body}\n\n");
        let streamed = serde_json::to_value(result_of(&fold_stream(&GEMINI, stream.as_bytes(), 3)).status).unwrap();
        assert_eq!(streamed, status, "{word}");
    }
}

#[test]
fn a_refused_prompt_is_a_content_filter_and_nothing_at_all_is_an_error() {
    for (feedback, reason) in [
        (json!({"blockReason": "SAFETY"}), "content-filter"),
        (json!({"blockReason": "MODEL_ARMOR", "blockReasonMessage": "why"}), "content-filter"),
        (json!({"blockReason": "BLOCK_REASON_UNSPECIFIED"}), "failed"),
        (json!({}), "failed"),
    ] {
        let body = json!({"promptFeedback": feedback, "modelVersion": "m"});
        let fold = fold_response(&GEMINI, body.to_string().as_bytes());
        let result = result_of(&fold);
        assert_eq!(result.status.finish_reason.unwrap().as_str(), reason, "{feedback}");
        if reason == "content-filter" {
            assert!(matches!(result.output[0].body, UnifiedItemBody::Error(_)));
            assert_eq!(round_trip(&GEMINI, &body), body);
        } else {
            assert!(result.error.unwrap().retryable);
        }
    }
}

#[test]
fn unknown_counters_stay_unknown_and_sums_say_that_they_are() {
    // What is told, then input, uncached, cache read, output, reasoning, tool prompt, total; "?" is unknown, "=" derived.
    let cases = [
        (json!({"promptTokenCount": 5}), "5 ? ? ? ? ? ?"),
        (json!({"promptTokenCount": 5, "totalTokenCount": 5}), "5 ? ? =0 =0 =0 5"),
        (
            json!({"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8}),
            "5 ? ? =3 =0 =0 8",
        ),
        (
            json!({"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 20}),
            "5 ? ? ? ? ? 20",
        ),
        (
            json!({"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}),
            "5 ? ? =7 4 ? ?",
        ),
        (
            json!({"promptTokenCount": 5, "cachedContentTokenCount": 2, "candidatesTokenCount": 3, "thoughtsTokenCount": 4,
                "toolUsePromptTokenCount": 1, "totalTokenCount": 13}),
            "5 =3 2 =7 4 1 13",
        ),
        (json!({"totalTokenCount": 9}), "? ? ? ? ? ? 9"),
    ];
    for (told, expected) in cases {
        let mut body = answer(&json!({"content": {"parts": [{"text": "x"}], "role": "model"}, "finishReason": "STOP"}));
        body["usageMetadata"] = told.clone();
        let usage = result_of(&fold_response(&GEMINI, body.to_string().as_bytes())).usage.unwrap();
        let list = [
            usage.input_total,
            usage.input_uncached,
            usage.cache_read,
            usage.output_total,
            usage.reasoning,
            usage.tool_prompt,
            usage.total,
        ];
        let word = |c: Option<throughline_format::UnifiedCounter>| match c {
            None => "?".to_owned(),
            Some(c) if c.source == throughline_format::usage::UsageSource::Derived => format!("={}", c.value),
            Some(c) => c.value.to_string(),
        };
        assert_eq!(list.map(word).join(" "), expected, "{told}");
        assert_eq!(usage.cache_write, None, "never told");
        assert_eq!(round_trip(&GEMINI, &body), body);
    }
    let by = json!([{"modality": "AUDIO", "tokenCount": 3}]);
    let mut body = answer(&json!({"content": {"parts": [{"text": "x"}], "role": "model"}, "finishReason": "STOP"}));
    body["usageMetadata"] =
        json!({"promptTokensDetails": by, "candidatesTokensDetails": by, "cacheTokensDetails": by, "toolUsePromptTokensDetails": by});
    let usage = result_of(&fold_response(&GEMINI, body.to_string().as_bytes())).usage.unwrap();
    let maps = [
        usage.input_by_modality,
        usage.output_by_modality,
        usage.cache_read_by_modality,
        usage.tool_prompt_by_modality,
    ];
    assert!(maps.iter().all(|m| m.as_ref().unwrap().0["audio"].value.to_string() == "3"));
}

// ---- streams ---------------------------------------------------------------------------------------------------

fn chunks() -> Vec<Value> {
    vec![
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "thin", "thought": true}]}}], "modelVersion": "m"}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "king", "thought": true}]}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Grüße "}]}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "🌍", "thoughtSignature": "c2ln"}]}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "!"}]}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 2}}}]}}]}),
        json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1}}),
    ]
}

fn as_sse(chunks: &[Value]) -> String {
    chunks
        .iter()
        .fold(String::new(), |text, chunk| text + &format!("data: {chunk}\r\n\r\n"))
}

#[test]
fn a_stream_folds_alike_wherever_it_is_cut_and_however_it_is_framed() {
    let text = as_sse(&chunks());
    let whole = result_of(&fold_stream(&GEMINI, text.as_bytes(), usize::MAX));
    let shape: Vec<_> = whole.output.iter().map(|i| i.body.kind()).collect();
    assert_eq!(shape, ["reasoning", "message", "tool-call", "tool-call"]);
    let parts: Vec<_> = whole.output[1].parts().iter().map(|p| p.as_text().unwrap()).collect();
    assert_eq!(parts, ["Grüße 🌍", "!"], "a signature closes its part");
    for piece in (1..80).chain([97, 512]) {
        assert_eq!(
            result_of(&fold_stream(&GEMINI, text.as_bytes(), piece)),
            whole,
            "in pieces of {piece}"
        );
    }
    let array = json!(chunks()).to_string();
    for piece in [1, 3, 64, usize::MAX] {
        assert_eq!(result_of(&fold_stream(&GEMINI, array.as_bytes(), piece)), whole);
    }
    let enveloped: Vec<_> = chunks().into_iter().map(|c| json!({"response": c})).collect();
    let enveloped = result_of(&fold_stream(&ANTIGRAVITY, as_sse(&enveloped).as_bytes(), 5));
    assert_eq!(enveloped.output.len(), 4);
}

#[test]
fn a_stream_that_is_encoded_again_folds_to_the_same() {
    for codec in [GEMINI, VERTEX, ANTIGRAVITY] {
        let list: Vec<_> = chunks()
            .into_iter()
            .map(|c| if codec == ANTIGRAVITY { json!({"response": c}) } else { c })
            .collect();
        let fold = fold_stream(&codec, as_sse(&list).as_bytes(), 7);
        let mut encoder = codec.stream_encoder(&own(&codec, &fold));
        let frames: Vec<_> = fold.events.iter().flat_map(|e| encoder.push(e)).collect();
        let again = fold_stream(&codec, sse(&frames).as_bytes(), 11);
        let content = |fold: &OfflineFold| -> Vec<Value> {
            let parts = |i: &throughline_format::UnifiedItem| i.parts().iter().map(|p| p.as_text().map(str::to_owned)).collect::<Vec<_>>();
            result_of(fold).output.iter().map(|i| json!([i.body.kind(), parts(i)])).collect()
        };
        // A signature behind its text is a piece of its own there.
        let (a, b) = (content(&fold), content(&again));
        assert_eq!(a.first(), b.first());
        assert_eq!(a.last(), b.last());
        assert_eq!(result_of(&again).status, result_of(&fold).status);
        assert_eq!(result_of(&again).usage, result_of(&fold).usage);
    }
}

#[test]
fn a_stream_without_its_end_is_interrupted_and_an_error_fails_it() {
    let text = as_sse(&chunks()[..5]);
    let cases = [
        (text.clone(), "interrupted", "interrupted.stream"),
        (
            format!("{text}data: {{\"error\":{{\"code\":503,\"message\":\"x\",\"status\":\"UNAVAILABLE\"}}}}\n\n"),
            "failed",
            "overloaded.provider",
        ),
        (
            format!("{text}{{\"error\":{{\"code\":429,\"message\":\"x\",\"status\":\"RESOURCE_EXHAUSTED\"}}}}"),
            "failed",
            "rate-limit.provider",
        ),
        (
            "[{\"error\":{\"code\":400,\"message\":\"x\",\"status\":\"INVALID_ARGUMENT\"}}]".to_owned(),
            "failed",
            "invalid-request.provider",
        ),
        (format!("{text}data: {{broken\n\n"), "failed", "server.malformed-event"),
    ];
    for (text, reason, code) in cases {
        for piece in [1, usize::MAX] {
            let result = result_of(&fold_stream(&GEMINI, text.as_bytes(), piece));
            assert_eq!(result.status.finish_reason.unwrap().as_str(), reason, "{text}");
            assert_eq!(result.error.unwrap().code, code);
        }
    }
}

#[test]
fn streamed_arguments_are_one_call() {
    let part = |call: Value| json!({"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}}]});
    let list = [
        part(json!({"name": "f", "id": "c", "willContinue": true})),
        part(json!({"partialArgs": [{"jsonPath": "$.city", "stringValue": "Be", "willContinue": true}], "willContinue": true})),
        part(json!({"partialArgs": [{"jsonPath": "$.city", "stringValue": "lém"}], "willContinue": true})),
        part(json!({"partialArgs": [{"jsonPath": "$.days[0]", "numberValue": 3}], "willContinue": true})),
        part(json!({})),
        json!({"candidates": [{"finishReason": "STOP"}]}),
    ];
    let fold = fold_stream(&VERTEX, as_sse(&list).as_bytes(), 9);
    let result = result_of(&fold);
    let UnifiedItemBody::ToolCall(call) = &result.output[0].body else {
        panic!("{result:?}")
    };
    assert_eq!((result.output.len(), call.call_id.as_str()), (1, "c"));
    assert_eq!(call.raw_arguments, r#"{"city":"Belém","days":[3]}"#);
    assert_eq!(result.status.finish_reason.unwrap().as_str(), "tool-calls");
    let pieces: String = fold
        .events
        .iter()
        .filter_map(|e| match &e.body {
            throughline_format::EventBody::ToolArgumentsDelta(delta) => Some(delta.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(pieces, call.raw_arguments, "the pieces join to the whole");
}

// ---- grounding -------------------------------------------------------------------------------------------------

fn grounded(texts: &[&str], segment: &Value) -> OfflineFold {
    let parts: Vec<_> = texts.iter().map(|t| json!({"text": t})).collect();
    let metadata = json!({"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0], "confidenceScores": [0.9]}]});
    let body = answer(&json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "groundingMetadata": metadata}));
    assert_eq!(round_trip(&GEMINI, &body), body);
    fold_response(&GEMINI, body.to_string().as_bytes())
}

/// The words that the citation's span stands for, and the number of the part that it is on.
fn cited(fold: &OfflineFold) -> (usize, Option<String>) {
    let result = result_of(fold);
    for (n, part) in result.output[0].parts().iter().enumerate() {
        let PartBody::Text(text) = &part.body else { continue };
        if let Some(UnifiedTextAnnotation::Citation(c)) = text.annotations.iter().flatten().next() {
            let span = c.spans.as_ref().map(|s| &s[0]);
            return (n, span.map(|s| span::slice(&text.text, s.start, s.end).unwrap().to_owned()));
        }
    }
    panic!("no citation: {result:?}")
}

#[test]
fn spans_are_bytes_of_their_part_and_never_guessed() {
    let cases = [
        (vec!["Belém é"], json!({"endIndex": 6, "text": "Belém"}), 0, Some("Belém")),
        (
            vec!["a", "東京タワー"],
            json!({"partIndex": 1, "startIndex": 6, "endIndex": 15, "text": "タワー"}),
            1,
            Some("タワー"),
        ),
        // Over all of the text, as streams count.
        (
            vec!["ab", "cd"],
            json!({"startIndex": 2, "endIndex": 4, "text": "cd"}),
            1,
            Some("cd"),
        ),
        // Characters where bytes are due: the words are kept, the span is not.
        (vec!["é Belém"], json!({"startIndex": 2, "endIndex": 7, "text": "Belém"}), 0, None),
        (vec!["é"], json!({"startIndex": 1, "endIndex": 2}), 0, None),
    ];
    for (texts, segment, part, words) in cases {
        let fold = grounded(&texts, &segment);
        assert_eq!(cited(&fold), (part, words.map(str::to_owned)), "{segment}");
        let result = result_of(&fold);
        let UnifiedItemBody::SearchResult(found) = &result.output[1].body else {
            panic!("{result:?}")
        };
        assert_eq!((found.queries.as_slice(), found.parts.len()), (["q".to_owned()].as_slice(), 1));
    }
}

proptest! {
    #[test]
    fn indexes_convert_exactly(text in "[a-zéß東京🌍👩‍🚀\u{301}]{0,24}", at in 0..24_usize) {
        let units = [UnifiedIndexUnit::Utf8Byte, UnifiedIndexUnit::CodePoint, UnifiedIndexUnit::Utf16];
        let byte = text.char_indices().map(|(n, _)| n).chain([text.len()]).nth(at % (text.chars().count() + 1)).unwrap();
        for from in &units {
            let index = span::of_byte(&text, byte, from).unwrap();
            prop_assert_eq!(span::to_byte(&text, index, from), Some(byte));
            for to in &units {
                let there = span::convert(&text, index, from, to).unwrap();
                prop_assert_eq!(span::convert(&text, there, to, from), Some(index));
            }
        }
        prop_assert_eq!(span::of_byte(&text, byte, &UnifiedIndexUnit::Utf16).unwrap(), text[..byte].encode_utf16().count() as u64);
    }

    #[test]
    fn cited_words_are_found_in_any_text(before in "[ -~é東🌍]{0,12}", words in "[a-zé東🌍]{1,8}", after in "[ -~é東🌍]{0,12}") {
        let text = format!("{before}{words}{after}");
        let segment = json!({"startIndex": before.len(), "endIndex": before.len() + words.len(), "text": words});
        prop_assert_eq!(cited(&grounded(&[&text], &segment)), (0, Some(words)));
    }
}

// ---- errors ----------------------------------------------------------------------------------------------------

#[test]
fn every_error_has_its_category() {
    let retry = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]);
    let daily = json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDay"}]}]);
    let reason = |word: &str| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": word}]);
    let cases = [
        (400, "INVALID_ARGUMENT", json!([]), "invalid-request", false, None),
        (400, "FAILED_PRECONDITION", json!([]), "invalid-request", false, None),
        (400, "INVALID_ARGUMENT", reason("API_KEY_INVALID"), "auth", false, None),
        (401, "UNAUTHENTICATED", json!([]), "auth", false, None),
        (403, "PERMISSION_DENIED", json!([]), "permission", false, None),
        (404, "NOT_FOUND", json!([]), "not-found", false, None),
        (409, "ABORTED", json!([]), "conflict", true, None),
        (429, "RESOURCE_EXHAUSTED", retry, "rate-limit", true, Some(34_500)),
        (429, "RESOURCE_EXHAUSTED", daily, "quota", false, None),
        (429, "RESOURCE_EXHAUSTED", reason("QUOTA_EXHAUSTED"), "quota", false, None),
        (
            503,
            "RESOURCE_EXHAUSTED",
            reason("MODEL_CAPACITY_EXHAUSTED"),
            "overloaded",
            true,
            None,
        ),
        (499, "CANCELLED", json!([]), "cancelled", true, None),
        (500, "INTERNAL", json!([]), "server", true, None),
        (501, "UNIMPLEMENTED", json!([]), "unsupported", false, None),
        (503, "UNAVAILABLE", json!([]), "overloaded", true, None),
        (504, "DEADLINE_EXCEEDED", json!([]), "timeout", true, None),
        (418, "", json!([]), "invalid-request", false, None),
    ];
    for (http, word, details, category, retryable, wait) in cases {
        let body = json!({"error": {"code": http, "message": "m", "status": word, "details": details}});
        for body in [body.to_string(), json!([body]).to_string()] {
            let error = GEMINI.decode_error(http, &ErrorHeaders::default(), body.as_bytes());
            let got = (error.category.as_str(), error.retryable, error.retry_after_ms);
            assert_eq!(got, (category, retryable, wait), "{body}");
        }
    }
    let html = GEMINI.decode_error(502, &ErrorHeaders::default(), b"<html>Bad Gateway");
    assert_eq!((html.category.as_str(), html.http_status), ("server", Some(502)));
    let told = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Please retry in 12.3s."}});
    let error = GEMINI.decode_error(429, &ErrorHeaders::default(), told.to_string().as_bytes());
    assert_eq!(error.retry_after_ms, Some(12_300));
    let wire = GEMINI.encode_error(&error);
    assert_eq!(wire.status, 429);
    assert_eq!(
        GEMINI
            .decode_error(429, &ErrorHeaders::default(), wire.body.as_bytes())
            .retry_after_ms,
        Some(12_300)
    );
}
