//! Usage and finish reasons, both ways.

use super::wire;
use crate::turn_usage;
use serde_json::{Map, Value, json};
use throughline_format::json::UserMap;
use throughline_format::status::ResponseState;
use throughline_format::usage::{CostKind, UnifiedCost, UsageScope, UsageSource};
use throughline_format::{Json, UnifiedCounter, UnifiedFinishReason, UnifiedResponseStatus, UnifiedUsage};

/// The counters of a usage object; absent stays unknown.
pub(super) fn decode(raw: &Json) -> Option<UnifiedUsage> {
    let wire: wire::Usage = raw.decode().ok()?;
    let (prompt, completion) = (wire.prompt_tokens_details.as_ref(), wire.completion_tokens_details.as_ref());
    let dialect = |keys: &[&str]| {
        keys.iter()
            .find_map(|k| wire.extra.0.iter().find(|(key, _)| key == k).and_then(|(_, v)| v.parse().as_f64()))
    };
    let reported = |value: Option<f64>| value.map(UnifiedCounter::reported);
    let mut usage = UnifiedUsage {
        input_total: reported(wire.prompt_tokens),
        output_total: reported(wire.completion_tokens),
        total: reported(wire.total_tokens),
        cache_read: reported(
            prompt
                .and_then(|p| p.cached_tokens)
                .or_else(|| dialect(&["prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"])),
        ),
        cache_write: reported(prompt.and_then(|p| p.cache_write_tokens).or_else(|| {
            let inside = prompt
                .and_then(|p| p.extra.0.iter().find(|(k, _)| k == "cache_creation_input_tokens"))
                .and_then(|(_, v)| v.parse().as_f64());
            inside.or_else(|| dialect(&["cache_creation_input_tokens"]))
        })),
        reasoning: reported(completion.and_then(|c| c.reasoning_tokens)),
        accepted_prediction: reported(completion.and_then(|c| c.accepted_prediction_tokens)),
        rejected_prediction: reported(completion.and_then(|c| c.rejected_prediction_tokens)),
        input_by_modality: prompt
            .and_then(|p| {
                modalities(&[
                    ("audio", p.audio_tokens),
                    ("image", p.image_tokens),
                    ("text", p.text_tokens),
                    ("video", p.video_tokens),
                ])
            })
            .or_else(|| modalities(&[("audio", dialect(&["audio_prompt_tokens"]))])),
        output_by_modality: completion
            .and_then(|c| modalities(&[("audio", c.audio_tokens), ("image", c.image_tokens), ("text", c.text_tokens)])),
        ..UnifiedUsage::default()
    };
    if let (Some(input), Some(output), Some(total), Some(reasoning)) = (
        wire.prompt_tokens,
        wire.completion_tokens,
        wire.total_tokens,
        completion.and_then(|c| c.reasoning_tokens),
    ) {
        // One dialect counts reasoning beside the answer; the total tells.
        if reasoning > 0.0 && is_same(input + output + reasoning, total) {
            usage.output_total = Some(UnifiedCounter::derived(output + reasoning));
        }
    }
    usage.input_uncached = reported(dialect(&["prompt_cache_miss_tokens"]));
    if let (Some(input), Some(read), None) = (usage.input_total, usage.cache_read, usage.input_uncached) {
        if read.value > input.value {
            usage.input_total = Some(UnifiedCounter::derived(input.value + read.value));
            usage.input_uncached = Some(UnifiedCounter::derived(input.value));
        } else if let Some(write) = usage.cache_write {
            usage.input_uncached = Some(UnifiedCounter::derived((input.value - read.value - write.value).max(0.0)));
        }
    }
    usage.cost = cost(&wire);
    let details = member(&wire, "server_tool_use_details").map(Json::parse);
    let searches = details.as_ref().and_then(|d| d.get("web_search_requests")).and_then(Value::as_f64);
    usage.server_tool_calls = searches.map(|count| std::iter::once(("web-search".to_owned(), UnifiedCounter::reported(count))).collect());
    (usage != UnifiedUsage::default()).then_some(usage)
}

fn member<'a>(wire: &'a wire::Usage, key: &str) -> Option<&'a Json> {
    wire.extra.0.iter().find(|(k, _)| k == key).map(|(_, value)| value)
}

/// Cost as a number, as an object with a total, or in a provider's own small unit.
fn cost(wire: &wire::Usage) -> Option<Vec<UnifiedCost>> {
    let of = |value: f64, unit: &str| UnifiedCost {
        value,
        scope: UsageScope::Request,
        source: UsageSource::Reported,
        unit: unit.to_owned(),
        kind: CostKind::Cost,
    };
    let dollars = member(wire, "cost").map(Json::parse);
    let dollars = dollars.and_then(|c| c.as_f64().or_else(|| c.get("total_cost").and_then(Value::as_f64)));
    let ticks = member(wire, "cost_in_usd_ticks").and_then(|c| c.parse().as_f64());
    let found: Vec<_> = dollars
        .map(|c| of(c, "USD"))
        .into_iter()
        .chain(ticks.map(|c| of(c, "usd-ticks")))
        .collect();
    (!found.is_empty()).then_some(found)
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.5
}

fn modalities(counters: &[(&str, Option<f64>)]) -> Option<UserMap<UnifiedCounter>> {
    let map: UserMap<_> = counters
        .iter()
        .filter_map(|(name, value)| value.map(|v| ((*name).to_owned(), UnifiedCounter::reported(v))))
        .collect();
    (!map.is_empty()).then_some(map)
}

/// A number as JSON, whole where it is whole.
pub(super) fn number(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation)] // checked
    if value.fract() == 0.0 && value.abs() < 9e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

/// Writes the counters; the second value names members without a form here. The type demands input, output and their sum: where nobody
/// knows one of them there is no usage, since zero would be a figure.
pub(super) fn encode(usage: &UnifiedUsage) -> (Option<Value>, Vec<&'static str>) {
    let known = |counter: Option<UnifiedCounter>| counter.map(|c| c.value);
    let sum = match (usage.input_uncached, usage.cache_read, usage.cache_write) {
        (Some(uncached), read, write) => Some(uncached.value + read.map_or(0.0, |r| r.value) + write.map_or(0.0, |w| w.value)),
        _ => None,
    };
    let input = known(usage.input_total).or(sum);
    let output = known(usage.output_total);
    let (Some(input), Some(output)) = (input, output) else {
        return (None, turn_usage::known(usage));
    };
    let mut object = Map::new();
    object.insert("prompt_tokens".into(), number(input));
    object.insert("completion_tokens".into(), number(output));
    object.insert("total_tokens".into(), number(known(usage.total).unwrap_or(input + output)));
    let mut details = Map::new();
    let add = |map: &mut Map<String, Value>, key: String, value: Option<f64>| {
        if let Some(value) = value {
            map.insert(key, number(value));
        }
    };
    add(&mut details, "cached_tokens".into(), known(usage.cache_read));
    add(&mut details, "cache_write_tokens".into(), known(usage.cache_write));
    for (name, counter) in usage.input_by_modality.iter().flat_map(|m| &m.0) {
        add(&mut details, format!("{name}_tokens"), Some(counter.value));
    }
    if !details.is_empty() {
        object.insert("prompt_tokens_details".into(), Value::Object(std::mem::take(&mut details)));
    }
    add(&mut details, "reasoning_tokens".into(), known(usage.reasoning));
    for (name, counter) in usage.output_by_modality.iter().flat_map(|m| &m.0) {
        add(&mut details, format!("{name}_tokens"), Some(counter.value));
    }
    add(&mut details, "accepted_prediction_tokens".into(), known(usage.accepted_prediction));
    add(&mut details, "rejected_prediction_tokens".into(), known(usage.rejected_prediction));
    if !details.is_empty() {
        object.insert("completion_tokens_details".into(), Value::Object(details));
    }
    (Some(Value::Object(object)), without_place(usage))
}

/// Known counters that the wire has no place for.
fn without_place(usage: &UnifiedUsage) -> Vec<&'static str> {
    turn_usage::named(&[
        ("inputUncached", usage.input_uncached.is_some()),
        ("toolPrompt", usage.tool_prompt.is_some()),
        ("cacheWriteByTtl", usage.cache_write_by_ttl.is_some()),
        ("cacheReadByModality", usage.cache_read_by_modality.is_some()),
        ("toolPromptByModality", usage.tool_prompt_by_modality.is_some()),
        ("serverToolCalls", usage.server_tool_calls.is_some()),
        ("cost", usage.cost.is_some()),
        ("others", usage.others.is_some()),
    ])
}

/// How an answer ended. Calls decide over `stop`, and so does a refusal.
pub(super) fn status(word: Option<&str>, has_calls: bool, has_refusal: bool) -> UnifiedResponseStatus {
    use UnifiedFinishReason as R;
    let reason = match word {
        Some("stop" | "tool_calls" | "function_call" | "eos" | "stop_sequence") | None if has_calls => R::ToolCalls,
        Some("stop" | "eos" | "stop_sequence") if has_refusal => R::Refusal,
        Some("stop" | "eos" | "stop_sequence") => R::Stop,
        Some("tool_calls" | "function_call") => R::ToolCalls,
        Some("length") => R::Length,
        Some("model_length" | "model_context_window_exceeded") => R::MaxContext,
        Some("content_filter" | "sensitive") => R::ContentFilter,
        Some("error" | "insufficient_system_resource" | "network_error") => R::Failed,
        _ => R::Unknown,
    };
    UnifiedResponseStatus::finished(reason, word.map(str::to_owned))
}

/// The word for an ending: the provider's own where it is one of this wire; none when a provider of this wire gave none.
pub(super) fn finish_word(status: &UnifiedResponseStatus, is_own: bool, has_refusal: bool) -> Option<String> {
    use UnifiedFinishReason as R;
    if let Some(word) = &status.original_reason
        && (is_own || matches!(word.as_str(), "stop" | "length" | "tool_calls" | "function_call" | "content_filter"))
    {
        return Some(word.clone());
    }
    let word = match status.finish_reason {
        Some(R::ToolCalls | R::RequiresAction) => "tool_calls",
        Some(R::Length | R::MaxContext | R::Interrupted | R::Incomplete) => "length",
        // A refusal that the message holds is told by it.
        Some(R::Refusal) if has_refusal => "stop",
        Some(R::ContentFilter | R::Refusal) => "content_filter",
        Some(R::Unknown) if is_own => return None,
        None if status.state == ResponseState::Incomplete => "length",
        _ => "stop",
    };
    Some(word.to_owned())
}
