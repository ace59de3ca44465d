//! Usage counters, both ways. Proto JSON leaves out zero and unset alike, so an absent counter is unknown.

use super::wire_answer::{ModalityCount, Usage};
use crate::raw::{json, number, object};
use throughline_format::json::UserMap;
use throughline_format::usage::UnifiedUsageCounters;
use throughline_format::{Json, UnifiedCounter, UnifiedUsage};

/// Usage as the record says it; what it cannot say is in the private copy.
pub(super) fn decode(raw: &Json) -> UnifiedUsage {
    let Ok(wire) = raw.decode::<Usage>() else {
        return UnifiedUsageCounters::default();
    };
    let reported = |value: Option<f64>| value.map(UnifiedCounter::reported);
    let parts = [
        wire.prompt_token_count,
        wire.candidates_token_count,
        wire.thoughts_token_count,
        wire.tool_use_prompt_token_count,
    ];
    let told: f64 = parts.iter().flatten().sum();
    // What is told adds up to the total: then what is not told was nothing.
    let adds_up = parts.iter().any(Option::is_some) && wire.total_token_count.is_some_and(|total| (total - told).abs() < 0.5);
    let or_zero = |value: Option<f64>| reported(value).or_else(|| adds_up.then(|| UnifiedCounter::derived(0.0)));
    let (candidates, thoughts) = (or_zero(wire.candidates_token_count), or_zero(wire.thoughts_token_count));
    let difference = wire.prompt_token_count.zip(wire.cached_content_token_count);
    UnifiedUsageCounters {
        input_total: reported(wire.prompt_token_count),
        input_uncached: difference.map(|(prompt, cached)| UnifiedCounter::derived((prompt - cached).max(0.0))),
        cache_read: reported(wire.cached_content_token_count),
        output_total: candidates
            .zip(thoughts)
            .map(|(visible, thoughts)| UnifiedCounter::derived(visible.value + thoughts.value)),
        reasoning: thoughts,
        tool_prompt: or_zero(wire.tool_use_prompt_token_count),
        total: reported(wire.total_token_count),
        input_by_modality: by_modality(wire.prompt_tokens_details),
        output_by_modality: by_modality(wire.candidates_tokens_details),
        cache_read_by_modality: by_modality(wire.cache_tokens_details),
        tool_prompt_by_modality: by_modality(wire.tool_use_prompt_tokens_details),
        ..UnifiedUsageCounters::default()
    }
}

fn by_modality(list: Option<Vec<ModalityCount>>) -> Option<UserMap<UnifiedCounter>> {
    let map: UserMap<_> = list?
        .into_iter()
        .filter_map(|entry| Some((entry.modality?.to_ascii_lowercase(), UnifiedCounter::reported(entry.token_count?))))
        .collect();
    (!map.is_empty()).then_some(map)
}

/// Usage as the wire says it: unknown counters are left out, and so is a counter that was derived to be nothing.
pub(super) fn encode(usage: &UnifiedUsage) -> Option<Json> {
    let mut members = Vec::new();
    let mut add = |key: &str, value: Option<f64>| members.extend(value.map(|v| (key.to_owned(), number(v))));
    let value = |counter: Option<UnifiedCounter>| counter.map(|c| c.value);
    let parts = [usage.input_uncached, usage.cache_read, usage.cache_write];
    let sum = usage.input_uncached.map(|_| parts.iter().flatten().map(|c| c.value).sum());
    let input = value(usage.input_total).or(sum);
    let reasoning = value(usage.reasoning);
    let visible = value(usage.output_total).map(|total| (total - reasoning.unwrap_or(0.0)).max(0.0));
    let tool = value(usage.tool_prompt).filter(|v| *v > 0.0);
    add("promptTokenCount", input);
    add("cachedContentTokenCount", value(usage.cache_read));
    add("candidatesTokenCount", visible);
    add("thoughtsTokenCount", reasoning.filter(|v| *v > 0.0));
    add("toolUsePromptTokenCount", tool);
    let sum = input
        .zip(value(usage.output_total))
        .map(|(input, output)| input + output + tool.unwrap_or(0.0));
    add("totalTokenCount", value(usage.total).or(sum));
    for (key, map) in [
        ("promptTokensDetails", &usage.input_by_modality),
        ("cacheTokensDetails", &usage.cache_read_by_modality),
        ("candidatesTokensDetails", &usage.output_by_modality),
        ("toolUsePromptTokensDetails", &usage.tool_prompt_by_modality),
    ] {
        let list: Vec<Json> = map
            .iter()
            .flat_map(|m| &m.0)
            .map(|(name, counter)| modality(name, *counter))
            .collect();
        if !list.is_empty() {
            members.push((key.to_owned(), json(&list)));
        }
    }
    (!members.is_empty()).then(|| object(members))
}

fn modality(name: &str, counter: UnifiedCounter) -> Json {
    object(vec![
        ("modality".into(), json(&name.to_ascii_uppercase())),
        ("tokenCount".into(), number(counter.value)),
    ])
}
