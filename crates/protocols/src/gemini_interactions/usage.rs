//! Usage counters, both ways.

use super::wire::{ModalityCount, Usage};
use crate::raw::{json, number, object};
use throughline_format::json::UserMap;
use throughline_format::usage::{UnifiedUsageCounters, UsageScope};
use throughline_format::{Json, UnifiedCounter, UnifiedUsage};

/// Usage as the record says it. For an agent the figures cover its whole run.
pub(super) fn decode(raw: &Json, agent: bool) -> UnifiedUsage {
    let Ok(wire) = raw.decode::<Usage>() else {
        return UnifiedUsageCounters::default();
    };
    let scoped = |mut counter: UnifiedCounter| {
        if agent {
            counter.scope = UsageScope::Operation;
        }
        counter
    };
    let reported = |value: Option<f64>| value.map(UnifiedCounter::reported).map(scoped);
    let derived = |value: Option<f64>| value.map(UnifiedCounter::derived).map(scoped);
    let by = |list: Option<Vec<ModalityCount>>| {
        let map: UserMap<_> = list?
            .into_iter()
            .filter_map(|m| Some((m.modality?.to_ascii_lowercase(), scoped(UnifiedCounter::reported(m.tokens?)))))
            .collect();
        (!map.is_empty()).then_some(map)
    };
    let tools: UserMap<_> = wire
        .grounding_tool_count
        .into_iter()
        .flatten()
        .filter_map(|t| {
            Some((
                super::decode_step::hosted_type(&t.kind?).as_str().to_owned(),
                scoped(UnifiedCounter::reported(t.count?)),
            ))
        })
        .collect();
    let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    UnifiedUsageCounters {
        input_total: reported(wire.total_input_tokens),
        input_uncached: derived(
            wire.total_input_tokens
                .zip(wire.total_cached_tokens)
                .map(|(input, cached)| (input - cached).max(0.0)),
        ),
        cache_read: reported(wire.total_cached_tokens),
        output_total: derived(sum(wire.total_output_tokens, wire.total_thought_tokens)),
        reasoning: reported(wire.total_thought_tokens),
        tool_prompt: reported(wire.total_tool_use_tokens),
        total: reported(wire.total_tokens),
        input_by_modality: by(wire.input_tokens_by_modality),
        output_by_modality: by(wire.output_tokens_by_modality),
        cache_read_by_modality: by(wire.cached_tokens_by_modality),
        tool_prompt_by_modality: by(wire.tool_use_tokens_by_modality),
        server_tool_calls: (!tools.is_empty()).then_some(tools),
        ..UnifiedUsageCounters::default()
    }
}

/// Usage as the wire says it; unknown counters are left out.
pub(super) fn encode(usage: &UnifiedUsage) -> Json {
    let mut members = Vec::new();
    let value = |c: Option<UnifiedCounter>| c.map(|c| c.value);
    let mut add = |key: &str, value: Option<f64>| members.extend(value.map(|v| (key.to_owned(), number(v))));
    let parts = [usage.input_uncached, usage.cache_read, usage.cache_write];
    let sum = usage.input_uncached.map(|_| parts.iter().flatten().map(|c| c.value).sum());
    let input = value(usage.input_total).or(sum);
    let reasoning = value(usage.reasoning);
    add("total_input_tokens", input);
    add("total_cached_tokens", value(usage.cache_read));
    add(
        "total_output_tokens",
        value(usage.output_total).map(|total| (total - reasoning.unwrap_or(0.0)).max(0.0)),
    );
    add("total_thought_tokens", reasoning);
    add("total_tool_use_tokens", value(usage.tool_prompt));
    let whole = input.zip(value(usage.output_total)).map(|(i, o)| i + o);
    add("total_tokens", value(usage.total).or(whole));
    for (key, map) in [
        ("input_tokens_by_modality", &usage.input_by_modality),
        ("output_tokens_by_modality", &usage.output_by_modality),
        ("cached_tokens_by_modality", &usage.cache_read_by_modality),
        ("tool_use_tokens_by_modality", &usage.tool_prompt_by_modality),
    ] {
        let list: Vec<Json> = map
            .iter()
            .flat_map(|m| &m.0)
            .map(|(name, c)| object(vec![("modality".into(), json(name)), ("tokens".into(), number(c.value))]))
            .collect();
        if !list.is_empty() {
            members.push((key.to_owned(), json(&list)));
        }
    }
    object(members)
}
