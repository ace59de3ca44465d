//! Usage through every protocol: each counter is read where a wire has it, and shown or named where it has not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::samples::{answer, codecs, result};
use support::{captured_results, fold_response, fold_stream, result_of, sse};
use throughline_format::json::decode_slice;
use throughline_format::loss::UnifiedLossEntry;
use throughline_format::shape::ShapedRecord;
use throughline_format::usage::UnifiedUsageCounters;
use throughline_format::{EventBody, ProtocolFamily, UnifiedResultV2};
use throughline_protocols::{Capabilities, EncodeContext, codec_of, families};

const FIGURE: u64 = 47_111;

/// Usage with this one counter.
fn one(member: &str, scope: &str) -> Value {
    let counter = json!({"value": FIGURE, "scope": scope, "source": "reported"});
    let value = match member {
        "cacheWriteByTtl" => json!({"1800": counter}),
        "inputByModality" | "outputByModality" | "cacheReadByModality" | "toolPromptByModality" => json!({"audio": counter}),
        "serverToolCalls" => json!({"web-search": counter}),
        "cost" => json!([{"value": FIGURE, "scope": scope, "source": "reported", "unit": "USD", "kind": "cost"}]),
        "others" => json!([{"inputTotal": {"value": FIGURE, "scope": "session", "source": "reported"}}]),
        _ => counter,
    };
    json!({ member: value })
}

fn with_usage(family: &ProtocolFamily, usage: &Value) -> UnifiedResultV2 {
    let mut record = serde_json::to_value(result(family)).unwrap();
    record["usage"] = usage.clone();
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {record}"))
}

/// An unstreamed answer and a stream in this protocol, whose usage is this: each with the loss report's paths.
fn shown(family: &ProtocolFamily, source: &ProtocolFamily, usage: &Value) -> [(String, Vec<String>); 2] {
    let codec = codec_of(family).unwrap();
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    let result = with_usage(source, usage);
    let encoded = codec.encode_response(&result, &context).unwrap();
    let paths = |entries: &[UnifiedLossEntry]| entries.iter().map(|entry| entry.path.clone()).collect();
    let whole = (encoded.body, paths(&encoded.loss.entries));

    let chat = codec_of(&ProtocolFamily::OpenAiChat).unwrap();
    let body = json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    let mut events = fold_response(chat.as_ref(), body.to_string().as_bytes()).events;
    let mut encoder = codec.stream_encoder(&context);
    let mut frames = Vec::new();
    for event in &mut events {
        if let EventBody::UsageUpdate(update) = &mut event.body {
            update.usage = result.usage.clone().unwrap();
        }
        frames.extend(encoder.push(event));
    }
    [whole, (sse(&frames), paths(&encoder.loss().entries))]
}

#[test]
fn every_counter_is_shown_or_named_and_a_figure_of_many_answers_is_never_shown() {
    throughline_format::clause!("USE-01");
    throughline_format::clause!("USE-02");
    let mut wrong = Vec::new();
    for family in families() {
        for source in [family.clone(), ProtocolFamily::from_word("elsewhere:wire")] {
            for (member, scope) in UnifiedUsageCounters::RECORD
                .members
                .iter()
                .flat_map(|member| ["request", "session", "cumulative"].map(|scope| (member.name, scope)))
            {
                // Alone, and where a wire says a usage because it knows what it cannot do without.
                let mut beside = json!({});
                for counter in ["inputTotal", "outputTotal"] {
                    beside[counter] = json!({"value": 1, "scope": "request", "source": "reported"});
                }
                beside[member] = one(member, scope)[member].clone();
                let shown = [one(member, scope), beside].map(|usage| shown(family, &source, &usage));
                for (text, paths) in shown.into_iter().flatten() {
                    let is_shown = text.contains(&FIGURE.to_string());
                    let is_named = paths.iter().any(|path| path.starts_with(&format!("/usage/{member}")));
                    if !is_shown && !is_named || is_shown && scope != "request" {
                        wrong.push(format!(
                            "{family} from {source}: {member} of a {scope}: shown {is_shown}, named {is_named}: {text}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Members of a usage object, and the counters that they are: (member, key or index within, value, source).
type Row = (Value, &'static str, f64, &'static str);

fn rows(family: &str) -> Vec<Row> {
    let (said, made) = ("reported", "derived");
    match family {
        "anthropic-messages" => vec![
            (json!({"input_tokens": 5}), "/inputUncached", 5.0, said),
            (
                json!({"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}),
                "/inputTotal",
                10.0,
                made,
            ),
            (json!({"cache_read_input_tokens": 3}), "/cacheRead", 3.0, said),
            (json!({"cache_creation_input_tokens": 2}), "/cacheWrite", 2.0, said),
            (
                json!({"cache_creation": {"ephemeral_5m_input_tokens": 2}}),
                "/cacheWriteByTtl/300",
                2.0,
                said,
            ),
            (
                json!({"cache_creation": {"ephemeral_1h_input_tokens": 2}}),
                "/cacheWriteByTtl/3600",
                2.0,
                said,
            ),
            (json!({"output_tokens": 7}), "/outputTotal", 7.0, said),
            (json!({"output_tokens_details": {"thinking_tokens": 4}}), "/reasoning", 4.0, said),
            (json!({"input_tokens": 5, "output_tokens": 7}), "/total", 12.0, made),
            (
                json!({"server_tool_use": {"web_search_requests": 1}}),
                "/serverToolCalls/web-search",
                1.0,
                said,
            ),
            (
                json!({"server_tool_use": {"web_fetch_requests": 1}}),
                "/serverToolCalls/web-fetch",
                1.0,
                said,
            ),
        ],
        "openai-chat" => vec![
            (json!({"prompt_tokens": 5}), "/inputTotal", 5.0, said),
            (json!({"completion_tokens": 7}), "/outputTotal", 7.0, said),
            (json!({"total_tokens": 12}), "/total", 12.0, said),
            (json!({"prompt_tokens_details": {"cached_tokens": 3}}), "/cacheRead", 3.0, said),
            (
                json!({"prompt_tokens_details": {"cache_write_tokens": 2}}),
                "/cacheWrite",
                2.0,
                said,
            ),
            (json!({"prompt_cache_miss_tokens": 2}), "/inputUncached", 2.0, said),
            (
                json!({"prompt_tokens_details": {"audio_tokens": 3}}),
                "/inputByModality/audio",
                3.0,
                said,
            ),
            (
                json!({"completion_tokens_details": {"audio_tokens": 3}}),
                "/outputByModality/audio",
                3.0,
                said,
            ),
            (
                json!({"completion_tokens_details": {"reasoning_tokens": 4}}),
                "/reasoning",
                4.0,
                said,
            ),
            (
                json!({"completion_tokens_details": {"accepted_prediction_tokens": 4}}),
                "/acceptedPrediction",
                4.0,
                said,
            ),
            (
                json!({"completion_tokens_details": {"rejected_prediction_tokens": 4}}),
                "/rejectedPrediction",
                4.0,
                said,
            ),
            (json!({"cost": 0.25}), "/cost/0", 0.25, said),
        ],
        "openai-responses" => vec![
            (json!({"input_tokens": 5}), "/inputTotal", 5.0, said),
            (json!({"output_tokens": 7}), "/outputTotal", 7.0, said),
            (json!({"total_tokens": 12}), "/total", 12.0, said),
            (json!({"input_tokens_details": {"cached_tokens": 3}}), "/cacheRead", 3.0, said),
            (json!({"input_tokens_details": {"cache_write_tokens": 2}}), "/cacheWrite", 2.0, said),
            (json!({"output_tokens_details": {"reasoning_tokens": 4}}), "/reasoning", 4.0, said),
            (
                json!({"server_side_tool_usage_details": {"mcp_calls": 2}}),
                "/serverToolCalls/mcp",
                2.0,
                said,
            ),
            (json!({"cost_in_usd_ticks": 2_500_000_000_u64}), "/cost/0", 0.25, said),
        ],
        "gemini-generate-content" | "vertex-gemini" | "antigravity" => vec![
            (json!({"promptTokenCount": 5}), "/inputTotal", 5.0, said),
            (
                json!({"promptTokenCount": 5, "cachedContentTokenCount": 3}),
                "/inputUncached",
                2.0,
                made,
            ),
            (json!({"cachedContentTokenCount": 3}), "/cacheRead", 3.0, said),
            (
                json!({"candidatesTokenCount": 5, "thoughtsTokenCount": 2}),
                "/outputTotal",
                7.0,
                made,
            ),
            (json!({"thoughtsTokenCount": 2}), "/reasoning", 2.0, said),
            (json!({"toolUsePromptTokenCount": 2}), "/toolPrompt", 2.0, said),
            (json!({"totalTokenCount": 12}), "/total", 12.0, said),
            (
                json!({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}]}),
                "/inputByModality/audio",
                2.0,
                said,
            ),
            (
                json!({"candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 2}]}),
                "/outputByModality/image",
                2.0,
                said,
            ),
            (
                json!({"cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 2}]}),
                "/cacheReadByModality/text",
                2.0,
                said,
            ),
            (
                json!({"toolUsePromptTokensDetails": [{"modality": "TEXT", "tokenCount": 2}]}),
                "/toolPromptByModality/text",
                2.0,
                said,
            ),
        ],
        "gemini-interactions" => vec![
            (json!({"total_input_tokens": 5}), "/inputTotal", 5.0, said),
            (
                json!({"total_input_tokens": 5, "total_cached_tokens": 3}),
                "/inputUncached",
                2.0,
                made,
            ),
            (json!({"total_cached_tokens": 3}), "/cacheRead", 3.0, said),
            (
                json!({"total_output_tokens": 5, "total_thought_tokens": 2}),
                "/outputTotal",
                7.0,
                made,
            ),
            (json!({"total_thought_tokens": 2}), "/reasoning", 2.0, said),
            (json!({"total_tool_use_tokens": 2}), "/toolPrompt", 2.0, said),
            (json!({"total_tokens": 12}), "/total", 12.0, said),
            (
                json!({"input_tokens_by_modality": [{"modality": "audio", "tokens": 2}]}),
                "/inputByModality/audio",
                2.0,
                said,
            ),
            (
                json!({"output_tokens_by_modality": [{"modality": "image", "tokens": 2}]}),
                "/outputByModality/image",
                2.0,
                said,
            ),
            (
                json!({"cached_tokens_by_modality": [{"modality": "text", "tokens": 2}]}),
                "/cacheReadByModality/text",
                2.0,
                said,
            ),
            (
                json!({"tool_use_tokens_by_modality": [{"modality": "text", "tokens": 2}]}),
                "/toolPromptByModality/text",
                2.0,
                said,
            ),
        ],
        "cursor-sdk" => vec![
            (json!({"inputTokens": 5}), "/inputUncached", 5.0, said),
            (json!({"outputTokens": 7}), "/outputTotal", 7.0, said),
            (json!({"cacheReadTokens": 3}), "/cacheRead", 3.0, said),
            (json!({"cacheWriteTokens": 2}), "/cacheWrite", 2.0, said),
            (json!({"reasoningTokens": 4}), "/reasoning", 4.0, said),
            (json!({"totalTokens": 12}), "/total", 12.0, said),
        ],
        "vercel-uimessage" => vec![
            (json!({"inputTokens": 5}), "/inputTotal", 5.0, said),
            (json!({"inputTokenDetails": {"noCacheTokens": 5}}), "/inputUncached", 5.0, said),
            (json!({"inputTokenDetails": {"cacheReadTokens": 3}}), "/cacheRead", 3.0, said),
            (json!({"inputTokenDetails": {"cacheWriteTokens": 2}}), "/cacheWrite", 2.0, said),
            (json!({"outputTokens": 7}), "/outputTotal", 7.0, said),
            (json!({"outputTokenDetails": {"reasoningTokens": 4}}), "/reasoning", 4.0, said),
            (json!({"totalTokens": 12}), "/total", 12.0, said),
        ],
        other => panic!("no row for {other}"),
    }
}

#[test]
fn every_counter_of_every_wire_is_read_and_what_is_absent_stays_unknown() {
    throughline_format::clause!("USE-01");
    let mut seen = BTreeSet::new();
    for (family, codec) in codecs() {
        for (usage, at, value, source) in rows(family.as_str()) {
            let body = answer(family.as_str(), &usage);
            let record = serde_json::to_value(result_of(&fold_response(codec.as_ref(), body.to_string().as_bytes()))).unwrap();
            let counter = record["usage"].pointer(at).cloned().unwrap_or_default();
            let found = (counter["value"].as_f64(), counter["source"].as_str());
            assert_eq!(found, (Some(value), Some(source)), "{family}: {usage} is {at}: {}", record["usage"]);
            // What the wire does not say, and what is no sum of it, is not there, least of all as nothing.
            assert!(
                !record["usage"].to_string().contains("\"value\":0,"),
                "{family}: {usage}: {}",
                record["usage"]
            );
            seen.insert(at.split('/').nth(1).unwrap().to_owned());
        }
    }
    let absent: Vec<_> = UnifiedUsageCounters::RECORD
        .members
        .iter()
        .filter(|member| member.name != "others" && !seen.contains(member.name))
        .map(|member| member.name)
        .collect();
    assert!(absent.is_empty(), "no wire is tried with {absent:?}");
}

/// A family, the pointer of its usage, and pairs of a member and the counter that it is.
type Captured = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Where captured answers say counters: the pointer of the usage, its members and the counters that they are.
const CAPTURED: &[Captured] = &[
    (
        "anthropic-messages",
        "/usage",
        &[
            ("/input_tokens", "/inputUncached"),
            ("/output_tokens", "/outputTotal"),
            ("/cache_read_input_tokens", "/cacheRead"),
            ("/cache_creation_input_tokens", "/cacheWrite"),
            ("/server_tool_use/web_search_requests", "/serverToolCalls/web-search"),
        ],
    ),
    (
        "openai-chat",
        "/usage",
        &[
            ("/total_tokens", "/total"),
            ("/prompt_tokens_details/cached_tokens", "/cacheRead"),
            ("/completion_tokens_details/reasoning_tokens", "/reasoning"),
            ("/completion_tokens_details/accepted_prediction_tokens", "/acceptedPrediction"),
        ],
    ),
    (
        "openai-responses",
        "/usage",
        &[
            ("/input_tokens", "/inputTotal"),
            ("/output_tokens", "/outputTotal"),
            ("/total_tokens", "/total"),
            ("/input_tokens_details/cached_tokens", "/cacheRead"),
            ("/output_tokens_details/reasoning_tokens", "/reasoning"),
        ],
    ),
    (
        "gemini-generate-content",
        "/usageMetadata",
        &[
            ("/promptTokenCount", "/inputTotal"),
            ("/cachedContentTokenCount", "/cacheRead"),
            ("/thoughtsTokenCount", "/reasoning"),
            ("/toolUsePromptTokenCount", "/toolPrompt"),
            ("/totalTokenCount", "/total"),
        ],
    ),
    (
        "vertex-gemini",
        "/usageMetadata",
        &[("/promptTokenCount", "/inputTotal"), ("/totalTokenCount", "/total")],
    ),
    (
        "antigravity",
        "/response/usageMetadata",
        &[("/promptTokenCount", "/inputTotal"), ("/totalTokenCount", "/total")],
    ),
    (
        "gemini-interactions",
        "/usage",
        &[("/total_input_tokens", "/inputTotal"), ("/total_tokens", "/total")],
    ),
];

#[test]
fn captured_counters_are_read_as_they_were_reported() {
    throughline_format::clause!("USE-01");
    let mut seen = 0;
    for (family, usage, members) in CAPTURED {
        let Some(captured) = captured_results(&ProtocolFamily::from_word(family)) else {
            return;
        };
        for (file, body, result) in captured {
            let Some(wire) = body.pointer(usage) else { continue };
            let record = serde_json::to_value(result).unwrap();
            for (member, counter) in *members {
                let reported = wire.pointer(member).and_then(Value::as_f64);
                let found = record["usage"].pointer(counter).and_then(|counter| counter["value"].as_f64());
                assert!(
                    reported.is_none() || found == reported,
                    "{}: {member} = {reported:?} is not {found:?}",
                    file.display()
                );
                seen += usize::from(reported.is_some());
            }
        }
    }
    assert!(seen > 2_000, "only {seen} counters");
}

/// Counters of tokens that are there, under their names.
fn counted(result: &UnifiedResultV2) -> Vec<(String, f64)> {
    let usage = serde_json::to_value(result).unwrap()["usage"].clone();
    let members = usage.as_object().cloned().unwrap_or_default();
    let value = |counter: &Value| counter["value"].as_f64();
    members
        .iter()
        .filter_map(|(member, counter)| Some((member.clone(), value(counter)?)))
        .collect()
}

#[test]
fn a_counter_that_nobody_knows_is_zero_nowhere_and_one_that_is_zero_stays_so() {
    throughline_format::clause!("CACHE-03");
    const COUNTERS: [&str; 7] = [
        "inputTotal",
        "inputUncached",
        "cacheRead",
        "cacheWrite",
        "outputTotal",
        "reasoning",
        "total",
    ];
    let (mut wrong, mut kept) = (Vec::new(), BTreeSet::new());
    for family in families() {
        let codec = codec_of(family).unwrap();
        for source in [family.clone(), ProtocolFamily::from_word("elsewhere:wire")] {
            for (member, figure) in COUNTERS.iter().flat_map(|member| [(*member, FIGURE), (*member, 0)]) {
                let counter = |value: u64| json!({"value": value, "scope": "request", "source": "reported"});
                let mut usage = json!({});
                if figure == 0 {
                    // Some wires say nothing without both of these.
                    usage = json!({"inputTotal": counter(FIGURE), "outputTotal": counter(FIGURE)});
                }
                usage[member] = counter(figure);
                let [(body, told), (frames, told_of_stream)] = shown(family, &source, &usage);
                let again = [
                    (result_of(&fold_response(codec.as_ref(), body.as_bytes())), told),
                    (result_of(&fold_stream(codec.as_ref(), frames.as_bytes(), 4096)), told_of_stream),
                ];
                for (again, told) in again {
                    // Anthropic's type demands a number for the input and for the output, and the report says what it stands for.
                    let is_demanded = |other: &str| {
                        *family == ProtocolFamily::AnthropicMessages
                            && matches!(other, "inputTotal" | "inputUncached" | "outputTotal" | "total")
                            && told.iter().any(|path| path == "/usage")
                    };
                    for (other, value) in counted(&again) {
                        if value == 0.0 && other != member && figure != 0 && !is_demanded(&other) {
                            wrong.push(format!("{family} from {source}: with {member} alone, {other} is {value}: {body}"));
                        }
                        if value == 0.0 && other == member && figure == 0 {
                            kept.insert((family.to_string(), member));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every wire of a model has a place for these three, so zero comes back where zero was said.
    for member in ["cacheRead", "outputTotal"] {
        let families: BTreeSet<_> = kept
            .iter()
            .filter(|(_, kept)| *kept == member)
            .map(|(family, _)| family.as_str())
            .collect();
        for family in ["anthropic-messages", "openai-chat", "vercel-uimessage"] {
            assert!(families.contains(family), "{member} of zero is lost by {family}: {families:?}");
        }
    }
}
