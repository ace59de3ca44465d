//! Usage in the metadata of messages: the wire has no place of its own for it, so this is a convention of applications.
//!
//! Read and written is the member `usage` in the shape of the SDK's own usage record, and read `totalTokens` beside it. A
//! message is one operation with all its steps, which is what the figures count over.

use super::wire::{Figure, Metadata, Usage};
use crate::object::Object;
use crate::raw::json;
use throughline_format::usage::{UnifiedCounter, UsageScope, UsageSource};
use throughline_format::{Json, UnifiedUsage};

/// The usage that metadata tells, when it tells any.
pub(super) fn decode(metadata: &Json) -> Option<UnifiedUsage> {
    let metadata: Metadata = metadata.decode().ok()?;
    let usage: Option<Usage> = metadata.usage.and_then(|raw| raw.decode().ok());
    let total: Option<f64> = metadata.total_tokens.and_then(|raw| raw.decode().ok());
    let counter = |value: Option<f64>| {
        value.filter(|v| v.is_finite() && *v >= 0.0).map(|value| UnifiedCounter {
            value,
            scope: UsageScope::Operation,
            source: UsageSource::Reported,
        })
    };
    let mut counters = UnifiedUsage {
        total: counter(total),
        ..UnifiedUsage::default()
    };
    if let Some(usage) = usage {
        let input = usage.input_details.as_ref();
        counters.input_total = counter(usage.input_tokens);
        counters.input_uncached = counter(input.and_then(|d| d.no_cache_tokens));
        counters.cache_read = counter(input.and_then(|d| d.cache_read_tokens).or(usage.cached_input_tokens));
        counters.cache_write = counter(input.and_then(|d| d.cache_write_tokens));
        counters.output_total = counter(usage.output_tokens);
        counters.reasoning = counter(
            usage
                .output_details
                .as_ref()
                .and_then(|d| d.reasoning_tokens)
                .or(usage.reasoning_tokens),
        );
        counters.total = counter(usage.total_tokens).or(counters.total);
    }
    (counters != UnifiedUsage::default()).then_some(counters)
}

/// The value of the metadata's `usage`, and the members that it has no place for.
///
/// A counter over a session or of all time is never shown as the usage of one answer.
pub(super) fn encode(usage: &UnifiedUsage, major: u8) -> (Option<Json>, Vec<&'static str>) {
    let mut lost = Vec::new();
    let mut figure = |name: &'static str, counter: Option<UnifiedCounter>| {
        let counter = counter?;
        if matches!(counter.scope, UsageScope::Session | UsageScope::Cumulative) {
            lost.push(name);
            return None;
        }
        // Whole figures are written as integers, as the record writes them.
        json(&counter).decode::<Figure>().ok().map(|value| value.value)
    };
    let input = figure("inputTotal", usage.input_total);
    let uncached = figure("inputUncached", usage.input_uncached);
    let read = figure("cacheRead", usage.cache_read);
    let write = figure("cacheWrite", usage.cache_write);
    let output = figure("outputTotal", usage.output_total);
    let reasoning = figure("reasoning", usage.reasoning);
    let total = figure("total", usage.total);
    let mut value = Object::default()
        .with_some("inputTokens", input.as_ref())
        .with_some("outputTokens", output.as_ref())
        .with_some("totalTokens", total.as_ref());
    if major >= 6 {
        let details = Object::default()
            .with_some("noCacheTokens", uncached.as_ref())
            .with_some("cacheReadTokens", read.as_ref())
            .with_some("cacheWriteTokens", write.as_ref());
        if !details.is_empty() {
            value = value.with("inputTokenDetails", &details);
        }
        if let Some(reasoning) = reasoning {
            value = value.with("outputTokenDetails", &Object::default().with("reasoningTokens", &reasoning));
        }
    } else {
        value = value
            .with_some("reasoningTokens", reasoning.as_ref())
            .with_some("cachedInputTokens", read.as_ref());
        for (name, there) in [("inputUncached", uncached.is_some()), ("cacheWrite", write.is_some())] {
            if there {
                lost.push(name);
            }
        }
    }
    for (name, there) in [
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
