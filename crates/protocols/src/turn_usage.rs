//! Which counters of a record may be shown as the usage of one answer.
//!
//! A figure over a session or of all time holds many answers: a client that read it as the usage of this one would count them all
//! again. So it is told in the loss report and shown nowhere.

use crate::feature::Feature;
use crate::projection::LossCollector;
use throughline_format::json::UserMap;
use throughline_format::usage::UsageScope;
use throughline_format::{UnifiedCounter, UnifiedUsage};

/// The counters of one answer, where there are any; the others are reported.
pub(crate) fn counters(loss: &mut LossCollector, usage: Option<&UnifiedUsage>) -> Option<UnifiedUsage> {
    let (usage, wider) = of_answer(usage?);
    for member in wider {
        loss.info(
            Feature::ResponseUsage,
            format!("/usage/{member}"),
            "counts over more than this answer, so it is not shown as its usage",
        );
    }
    (usage != UnifiedUsage::default()).then_some(usage)
}

/// The counters of one answer, and the names of those that count over more.
pub(crate) fn of_answer(usage: &UnifiedUsage) -> (UnifiedUsage, Vec<&'static str>) {
    let mut usage = usage.clone();
    let mut wider = Vec::new();
    for (member, counter) in [
        ("inputTotal", &mut usage.input_total),
        ("inputUncached", &mut usage.input_uncached),
        ("cacheRead", &mut usage.cache_read),
        ("cacheWrite", &mut usage.cache_write),
        ("outputTotal", &mut usage.output_total),
        ("reasoning", &mut usage.reasoning),
        ("total", &mut usage.total),
        ("toolPrompt", &mut usage.tool_prompt),
        ("acceptedPrediction", &mut usage.accepted_prediction),
        ("rejectedPrediction", &mut usage.rejected_prediction),
    ] {
        if counter.as_ref().is_some_and(is_wider) {
            *counter = None;
            wider.push(member);
        }
    }
    for (member, map) in [
        ("cacheWriteByTtl", &mut usage.cache_write_by_ttl),
        ("inputByModality", &mut usage.input_by_modality),
        ("outputByModality", &mut usage.output_by_modality),
        ("cacheReadByModality", &mut usage.cache_read_by_modality),
        ("toolPromptByModality", &mut usage.tool_prompt_by_modality),
        ("serverToolCalls", &mut usage.server_tool_calls),
    ] {
        if drop_wider(map) {
            wider.push(member);
        }
    }
    (usage, wider)
}

/// The names of all counters that are known: what a wire leaves out that says no usage at all.
pub(crate) fn known(usage: &UnifiedUsage) -> Vec<&'static str> {
    // Named one by one, so that a new counter is not forgotten.
    let UnifiedUsage {
        input_total,
        input_uncached,
        cache_read,
        cache_write,
        output_total,
        reasoning,
        total,
        tool_prompt,
        accepted_prediction,
        rejected_prediction,
        cache_write_by_ttl,
        input_by_modality,
        output_by_modality,
        cache_read_by_modality,
        tool_prompt_by_modality,
        server_tool_calls,
        cost,
        others,
    } = usage;
    named(&[
        ("inputTotal", input_total.is_some()),
        ("inputUncached", input_uncached.is_some()),
        ("cacheRead", cache_read.is_some()),
        ("cacheWrite", cache_write.is_some()),
        ("outputTotal", output_total.is_some()),
        ("reasoning", reasoning.is_some()),
        ("total", total.is_some()),
        ("toolPrompt", tool_prompt.is_some()),
        ("acceptedPrediction", accepted_prediction.is_some()),
        ("rejectedPrediction", rejected_prediction.is_some()),
        ("cacheWriteByTtl", cache_write_by_ttl.is_some()),
        ("inputByModality", input_by_modality.is_some()),
        ("outputByModality", output_by_modality.is_some()),
        ("cacheReadByModality", cache_read_by_modality.is_some()),
        ("toolPromptByModality", tool_prompt_by_modality.is_some()),
        ("serverToolCalls", server_tool_calls.is_some()),
        ("cost", cost.is_some()),
        ("others", others.is_some()),
    ])
}

/// Whether a wire that says all input and what was read from a cache does not tell by it what was neither read nor written.
pub(crate) fn hides_uncached(usage: &UnifiedUsage) -> bool {
    let value = |counter: Option<UnifiedCounter>| counter.map(|counter| counter.value);
    value(usage.input_uncached).is_some_and(|uncached| match (value(usage.input_total), value(usage.cache_read)) {
        (Some(total), Some(read)) => (total - read - uncached).abs() > 0.5,
        (Some(_), None) => true,
        (None, _) => usage.cache_write.is_some(),
    })
}

/// The names of those that are there.
pub(crate) fn named(members: &[(&'static str, bool)]) -> Vec<&'static str> {
    let there = members.iter().filter(|(_, is_there)| *is_there);
    there.map(|(member, _)| *member).collect()
}

fn is_wider(counter: &UnifiedCounter) -> bool {
    matches!(counter.scope, UsageScope::Session | UsageScope::Cumulative)
}

/// Takes the wider counters out of a map; tells whether there were any.
fn drop_wider(map: &mut Option<UserMap<UnifiedCounter>>) -> bool {
    let Some(counters) = map else { return false };
    let before = counters.0.len();
    counters.0.retain(|_, counter| !is_wider(counter));
    let dropped = counters.0.len() < before;
    if counters.0.is_empty() && dropped {
        *map = None;
    }
    dropped
}
