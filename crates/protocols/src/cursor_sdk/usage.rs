//! Usage: what a turn reports, what a run has used, and the counters of a whole agent, which no turn ever shows as its own.

use super::wire;
use crate::object::Object;
use crate::raw::json;
use throughline_format::usage::{CostKind, UnifiedCost, UnifiedCounter, UsageScope, UsageSource};
use throughline_format::{Json, UnifiedUsage};

/// Reads counters of one scope. Zeros everywhere mean that nothing was recorded, so nothing is known.
pub(super) fn decode(raw: &Json, scope: UsageScope) -> Option<UnifiedUsage> {
    let usage: wire::Usage = raw.decode().ok()?;
    let figures = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.total_tokens,
    ];
    if figures.iter().flatten().all(|figure| *figure == 0.0) {
        return None;
    }
    let counter = |value: Option<f64>| {
        value.filter(|v| v.is_finite() && *v >= 0.0).map(|value| UnifiedCounter {
            value,
            scope,
            source: UsageSource::Reported,
        })
    };
    let cost = |value: Option<f64>| {
        value.filter(|v| v.is_finite()).map(|cents| UnifiedCost {
            value: cents / 100.0,
            scope,
            source: UsageSource::Reported,
            unit: "USD".to_owned(),
            kind: CostKind::Cost,
        })
    };
    // The four counters are disjoint, as their names and their sum say.
    Some(UnifiedUsage {
        input_uncached: counter(usage.input_tokens),
        cache_read: counter(usage.cache_read_tokens),
        cache_write: counter(usage.cache_write_tokens),
        output_total: counter(usage.output_tokens),
        reasoning: counter(usage.reasoning_tokens),
        total: counter(usage.total_tokens),
        cost: usage.cost.and_then(|c| cost(c.raw_cost_cents)).map(|cost| vec![cost]),
        ..UnifiedUsage::default()
    })
}

/// What is known of a run so far: its own counters, and those of the agent beside them.
pub(super) fn joined(turn: Option<&UnifiedUsage>, session: Option<&UnifiedUsage>) -> Option<UnifiedUsage> {
    let mut usage = turn.cloned().unwrap_or_default();
    if let Some(session) = session {
        usage.others.get_or_insert_default().push(session.clone());
    }
    (usage != UnifiedUsage::default()).then_some(usage)
}

/// The sum of two turns of one run; a figure that one of them does not report is not known of both.
pub(super) fn sum(a: &UnifiedUsage, b: &UnifiedUsage) -> UnifiedUsage {
    let add = |a: Option<UnifiedCounter>, b: Option<UnifiedCounter>| {
        Some(UnifiedCounter {
            value: a?.value + b?.value,
            scope: UsageScope::Operation,
            source: UsageSource::Derived,
        })
    };
    UnifiedUsage {
        input_uncached: add(a.input_uncached, b.input_uncached),
        cache_read: add(a.cache_read, b.cache_read),
        cache_write: add(a.cache_write, b.cache_write),
        output_total: add(a.output_total, b.output_total),
        reasoning: add(a.reasoning, b.reasoning),
        total: add(a.total, b.total),
        ..UnifiedUsage::default()
    }
}

/// The counters of `GET /v1/agents/{id}/usage`: those of the run, and those of the whole agent at their own scope.
pub(super) fn of_agent(raw: &Json, run: &str) -> Option<UnifiedUsage> {
    let usage: wire::AgentUsage = raw.decode().ok()?;
    let of_run = usage
        .runs
        .into_iter()
        .flatten()
        .find(|r| r.id.as_deref() == Some(run))
        .and_then(|r| r.usage);
    let turn = of_run.and_then(|raw| decode(&raw, UsageScope::Operation));
    let session = usage.total_usage.and_then(|raw| decode(&raw, UsageScope::Session));
    joined(turn.as_ref(), session.as_ref())
}

/// Writes the counters of a run, with the members that have no place.
pub(super) fn encode(usage: &UnifiedUsage) -> (Option<Json>, Vec<&'static str>) {
    let mut lost = Vec::new();
    let mut figure = |name: &'static str, counter: Option<UnifiedCounter>| {
        let counter = counter?;
        if matches!(counter.scope, UsageScope::Session | UsageScope::Cumulative) {
            lost.push(name);
            return None;
        }
        crate::object::Object::of(&json(&counter)).and_then(|object| object.get("value").cloned())
    };
    // Input without the cache is the counter here; of a total alone it cannot be told.
    let uncached = figure("inputUncached", usage.input_uncached);
    let read = figure("cacheRead", usage.cache_read);
    let write = figure("cacheWrite", usage.cache_write);
    let plain = if uncached.is_none() && read.is_none() && write.is_none() {
        figure("inputTotal", usage.input_total)
    } else {
        None
    };
    let output = figure("outputTotal", usage.output_total);
    let reasoning = figure("reasoning", usage.reasoning);
    let total = figure("total", usage.total);
    let value = Object::default()
        .with_some("inputTokens", uncached.as_ref().or(plain.as_ref()))
        .with_some("outputTokens", output.as_ref())
        .with_some("cacheReadTokens", read.as_ref())
        .with_some("cacheWriteTokens", write.as_ref())
        .with_some("reasoningTokens", reasoning.as_ref())
        .with_some("totalTokens", total.as_ref());
    for (name, there) in [
        ("inputTotal", usage.input_total.is_some() && plain.is_none()),
        ("toolPrompt", usage.tool_prompt.is_some()),
        ("acceptedPrediction", usage.accepted_prediction.is_some()),
        ("rejectedPrediction", usage.rejected_prediction.is_some()),
        ("cacheWriteByTtl", usage.cache_write_by_ttl.is_some()),
        ("inputByModality", usage.input_by_modality.is_some()),
        ("outputByModality", usage.output_by_modality.is_some()),
        ("cacheReadByModality", usage.cache_read_by_modality.is_some()),
        ("toolPromptByModality", usage.tool_prompt_by_modality.is_some()),
        ("serverToolCalls", usage.server_tool_calls.is_some()),
        ("cost", usage.cost.is_some()),
        ("others", usage.others.is_some()),
    ] {
        if there {
            lost.push(name);
        }
    }
    ((!value.is_empty()).then(|| value.to_json()), lost)
}
