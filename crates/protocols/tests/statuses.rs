//! How an answer ended, through every protocol: each reason in the words of each wire, and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::samples::{answer, codecs, result};
use support::{captured_results, fold_response, fold_stream, result_of, sse};
use throughline_format::annotation;
use throughline_format::json::decode_slice;
use throughline_format::{EventBody, Json, ProtocolFamily, ProviderDataScope, UnifiedFinishReason, UnifiedResultV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, codec_of};

const REASONS: &[UnifiedFinishReason] = &[
    UnifiedFinishReason::Stop,
    UnifiedFinishReason::Length,
    UnifiedFinishReason::ToolCalls,
    UnifiedFinishReason::ContentFilter,
    UnifiedFinishReason::Refusal,
    UnifiedFinishReason::MaxContext,
    UnifiedFinishReason::MalformedToolCall,
    UnifiedFinishReason::RequiresAction,
    UnifiedFinishReason::Paused,
    UnifiedFinishReason::Cancelled,
    UnifiedFinishReason::Interrupted,
    UnifiedFinishReason::Failed,
    UnifiedFinishReason::Incomplete,
    UnifiedFinishReason::Unknown,
];

/// A text answer that ended so, or one with calls where it is that.
fn ended(source: &ProtocolFamily, reason: UnifiedFinishReason, original: Option<&str>) -> UnifiedResultV2 {
    let mut record = serde_json::to_value(result(source)).unwrap();
    if !matches!(reason, UnifiedFinishReason::ToolCalls | UnifiedFinishReason::RequiresAction) {
        record["output"].as_array_mut().unwrap().truncate(1);
    }
    record["status"] = json!({"state": reason.state().as_str(), "finishReason": reason.as_str()});
    if let Some(word) = original {
        record["status"]["originalReason"] = json!(word);
    }
    if reason == UnifiedFinishReason::Failed {
        record["error"] = json!({"category": "server", "code": "server.x", "message": "it broke", "retryable": true});
    }
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {record}"))
}

/// A stream of this protocol whose answer ended so.
fn streamed(codec: &dyn Codec, reason: UnifiedFinishReason, original: Option<&str>) -> (String, Vec<String>) {
    let chat = codec_of(&ProtocolFamily::OpenAiChat).unwrap();
    let body = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "It is so."}}]});
    let mut events = fold_response(chat.as_ref(), body.to_string().as_bytes()).events;
    let status = ended(&ProtocolFamily::OpenAiChat, reason, original).status;
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    let mut encoder = codec.stream_encoder(&context);
    let mut frames = Vec::new();
    for event in &mut events {
        match &mut event.body {
            EventBody::OperationCompleted(done) => done.status = status.clone(),
            EventBody::StreamCompleted(done) => done.status = status.clone(),
            _ => {}
        }
        frames.extend(encoder.push(event));
    }
    let told = encoder.loss().entries.iter().map(|entry| entry.path.clone()).collect();
    (sse(&frames), told)
}

fn reason_of(result: &UnifiedResultV2) -> &'static str {
    result.status.finish_reason.map_or("none", UnifiedFinishReason::as_str)
}

#[test]
fn every_reason_comes_back_from_every_wire_or_the_report_says_that_it_does_not() {
    throughline_format::clause!("STAT-01");
    let mut wrong = Vec::new();
    for (family, codec) in codecs() {
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        for reason in REASONS {
            for source in [family.clone(), ProtocolFamily::from_word("elsewhere:wire")] {
                let encoded = codec.encode_response(&ended(&source, *reason, None), &context).unwrap();
                let mut fold = OfflineFold::new();
                fold.push(codec.decode_response(encoded.body.as_bytes(), &DecodeContext::offline()).unwrap())
                    .unwrap();
                let result = result_of(&fold);
                let told = encoded.loss.entries.iter().any(|entry| entry.path.starts_with("/status"));
                if reason_of(&result) != reason.as_str() && !told {
                    wrong.push(format!("{family} from {source}: {reason} is {}", reason_of(&result)));
                }
            }
            // An answer that failed ends a stream with its error, which another event tells.
            if *reason != UnifiedFinishReason::Failed {
                let (text, told) = streamed(codec.as_ref(), *reason, None);
                let result = result_of(&fold_stream(codec.as_ref(), text.as_bytes(), 64));
                if reason_of(&result) != reason.as_str() && !told.iter().any(|path| path.starts_with("/status")) {
                    wrong.push(format!("stream of {family}: {reason} is {}: {text}", reason_of(&result)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The word of a wire for an ending, and the reason that it is.
fn words(family: &str) -> Vec<(&'static str, &'static str)> {
    match family {
        "anthropic-messages" => vec![
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("tool_use", "tool-calls"),
            ("pause_turn", "paused"),
            ("refusal", "refusal"),
            ("model_context_window_exceeded", "max-context"),
            ("later_word", "unknown"),
        ],
        "openai-chat" => vec![
            ("stop", "stop"),
            ("length", "length"),
            ("tool_calls", "tool-calls"),
            ("function_call", "tool-calls"),
            ("content_filter", "content-filter"),
            ("model_length", "max-context"),
            ("error", "failed"),
            ("later_word", "unknown"),
        ],
        "openai-responses" => vec![
            ("completed", "stop"),
            ("incomplete:max_output_tokens", "length"),
            ("incomplete:content_filter", "content-filter"),
            ("incomplete:steered", "interrupted"),
            ("incomplete:later_word", "unknown"),
            ("incomplete", "incomplete"),
            ("failed", "failed"),
            ("cancelled", "cancelled"),
        ],
        "gemini-generate-content" | "vertex-gemini" | "antigravity" => vec![
            ("STOP", "stop"),
            ("MAX_TOKENS", "length"),
            ("SAFETY", "content-filter"),
            ("RECITATION", "content-filter"),
            ("BLOCKLIST", "content-filter"),
            ("PROHIBITED_CONTENT", "content-filter"),
            ("SPII", "content-filter"),
            ("IMAGE_SAFETY", "content-filter"),
            ("MALFORMED_FUNCTION_CALL", "malformed-tool-call"),
            ("UNEXPECTED_TOOL_CALL", "malformed-tool-call"),
            ("TOO_MANY_TOOL_CALLS", "incomplete"),
            ("NO_IMAGE", "failed"),
            ("LATER_WORD", "unknown"),
        ],
        "gemini-interactions" => vec![
            ("completed", "stop"),
            ("requires_action", "requires-action"),
            ("incomplete", "length"),
            ("budget_exceeded", "incomplete"),
            ("failed", "failed"),
            ("cancelled", "cancelled"),
            ("later_word", "unknown"),
        ],
        "cursor-sdk" => vec![
            ("finished", "stop"),
            ("cancelled", "cancelled"),
            ("expired", "incomplete"),
            ("error", "failed"),
        ],
        // The word is in streams only.
        "vercel-uimessage" => vec![
            ("stop", "stop"),
            ("length", "length"),
            ("content-filter", "content-filter"),
            ("tool-calls", "tool-calls"),
            ("interrupted", "interrupted"),
            ("other", "unknown"),
        ],
        other => panic!("no words of {other}"),
    }
}

/// An answer of a wire that ended with this word.
fn ended_with(family: &str, word: &str) -> Value {
    let mut body = answer(family, &json!({}));
    let (at, word) = match family {
        "anthropic-messages" => ("/stop_reason", word),
        "openai-chat" => ("/choices/0/finish_reason", word),
        "gemini-generate-content" | "vertex-gemini" => ("/candidates/0/finishReason", word),
        "antigravity" => ("/response/candidates/0/finishReason", word),
        _ => ("/status", word.split(':').next().unwrap()),
    };
    *body.pointer_mut(at).unwrap() = json!(word);
    body
}

#[test]
fn every_word_of_every_wire_is_its_reason_and_stays_beside_it() {
    throughline_format::clause!("STAT-01");
    let mut seen = BTreeSet::new();
    for (family, codec) in codecs() {
        for (word, reason) in words(family.as_str()) {
            let result = if family.as_str() == "vercel-uimessage" {
                let finish = json!({"type": "finish", "finishReason": word});
                let text = format!("data: {{\"type\":\"start\"}}\n\ndata: {finish}\n\n");
                result_of(&fold_stream(codec.as_ref(), format!("{text}data: [DONE]\n\n").as_bytes(), 64))
            } else {
                let mut body = ended_with(family.as_str(), word);
                if let Some((_, detail)) = word.split_once(':') {
                    body["incomplete_details"] = json!({"reason": detail});
                }
                result_of(&fold_response(codec.as_ref(), body.to_string().as_bytes()))
            };
            assert_eq!(reason_of(&result), reason, "{family}: {word}");
            seen.insert(reason);
            // Its end alone is no reason, and an error says itself how an answer failed.
            if word == "finished" || reason == "failed" {
                continue;
            }
            let original = result.status.original_reason.as_deref();
            assert_eq!(original, word.split(':').next_back(), "{family}: {word}");
            // It is the inline form of a registered annotation.
            let payload = Json::from_value(&json!({"reason": original}));
            let finding = annotation::check("status/original-reason@1", ProviderDataScope::PortableAnnotation, &payload);
            assert_eq!(finding, annotation::Finding::Valid, "{family}: {word}");
        }
        // A stream that breaks off has no word, and is interrupted.
        let (text, _) = streamed(codec.as_ref(), UnifiedFinishReason::Stop, None);
        let torn = &text[..text.find("so.").unwrap()];
        let result = result_of(&fold_stream(codec.as_ref(), torn.as_bytes(), 16));
        assert_eq!(reason_of(&result), "interrupted", "{family}: {torn}");
        seen.insert("interrupted");
    }
    let never: Vec<_> = REASONS.iter().filter(|reason| !seen.contains(reason.as_str())).collect();
    assert!(never.is_empty(), "no wire is tried with {never:?}");
}

/// A refusal has its own parts, where a wire has no word for it.
#[test]
fn a_refusal_that_only_its_parts_tell_is_one() {
    let refused = json!({"role": "assistant", "content": null, "refusal": "I will not."});
    let chat = json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": refused, "finish_reason": "stop"}]});
    let mut responses = answer("openai-responses", &json!({}));
    responses["output"][0]["content"] = json!([{"type": "refusal", "refusal": "I will not."}]);
    for (family, body) in [(ProtocolFamily::OpenAiChat, chat), (ProtocolFamily::OpenAiResponses, responses)] {
        let codec = codec_of(&family).unwrap();
        assert_eq!(
            reason_of(&result_of(&fold_response(codec.as_ref(), body.to_string().as_bytes()))),
            "refusal",
            "{family}"
        );
    }
}

#[test]
fn captured_endings_keep_the_word_of_the_provider() {
    throughline_format::clause!("STAT-01");
    let mut seen = 0;
    for (family, at) in [
        ("anthropic-messages", "/stop_reason"),
        ("openai-chat", "/choices/0/finish_reason"),
        ("openai-responses", "/incomplete_details/reason"),
        ("gemini-generate-content", "/candidates/0/finishReason"),
        ("vertex-gemini", "/candidates/0/finishReason"),
        ("antigravity", "/response/candidates/0/finishReason"),
        ("gemini-interactions", "/status"),
    ] {
        let Some(captured) = captured_results(&ProtocolFamily::from_word(family)) else {
            return;
        };
        for (file, body, result) in captured {
            let Some(word) = body.pointer(at).and_then(Value::as_str).filter(|word| !word.is_empty()) else {
                continue;
            };
            if result.status.finish_reason == Some(UnifiedFinishReason::Failed) {
                continue;
            }
            assert_eq!(result.status.original_reason.as_deref(), Some(word), "{}", file.display());
            let known = words(family)
                .into_iter()
                .find(|(known, _)| known.split(':').next_back() == Some(word));
            if let Some((_, reason)) = known.filter(|_| !matches!(word, "stop" | "STOP" | "end_turn" | "completed" | "requires_action")) {
                assert_eq!(reason_of(&result), reason, "{}: {word}", file.display());
            }
            assert!(reason_of(&result) != "unknown" || word == "OTHER", "{}: {word}", file.display());
            seen += 1;
        }
    }
    assert!(seen > 700, "only {seen} endings");
}
