//! Usage counters: sums that hold when everything is known, and scopes that do not mix.

use super::shared;
use crate::usage::{UnifiedCounter, UnifiedUsage, UnifiedUsageCounters, UsageScope, UsageSource};
use crate::validate::{Check, Rule};

/// Usage that stands in `usage`.
pub(super) fn check(check: &mut Check, usage: Option<&UnifiedUsage>) {
    let Some(usage) = usage else { return };
    check.inside("usage", |check| {
        counters(check, usage);
        check.each("others", usage.others.iter().flatten(), |check, other| {
            counters(check, other);
            check.require(
                other.others.is_none(),
                "others",
                Rule::UsageScope,
                "wider scopes stand side by side",
            );
            for (member, here, wider) in pairs(usage, other) {
                let is_wider = wider.scope > here.scope;
                check.require(
                    is_wider,
                    member,
                    Rule::UsageScope,
                    format_args!("the top level has the scope {}, this one is not wider", here.scope),
                );
            }
        });
    });
}

fn each(counters: &UnifiedUsageCounters) -> [(&'static str, Option<UnifiedCounter>); 10] {
    [
        ("inputTotal", counters.input_total),
        ("inputUncached", counters.input_uncached),
        ("cacheRead", counters.cache_read),
        ("cacheWrite", counters.cache_write),
        ("outputTotal", counters.output_total),
        ("reasoning", counters.reasoning),
        ("total", counters.total),
        ("toolPrompt", counters.tool_prompt),
        ("acceptedPrediction", counters.accepted_prediction),
        ("rejectedPrediction", counters.rejected_prediction),
    ]
}

fn pairs<'a>(
    top: &'a UnifiedUsageCounters,
    other: &'a UnifiedUsageCounters,
) -> impl Iterator<Item = (&'static str, UnifiedCounter, UnifiedCounter)> + 'a {
    each(top)
        .into_iter()
        .zip(each(other))
        .filter_map(|((member, here), (_, wider))| Some((member, here?, wider?)))
}

fn counters(check: &mut Check, usage: &UnifiedUsageCounters) {
    for (member, counter) in each(usage) {
        check.inside(member, |check| shared::not_negative(check, "value", counter.map(|c| c.value)));
    }
    let parts = [usage.input_uncached, usage.cache_read, usage.cache_write];
    if let (Some(total), [Some(a), Some(b), Some(c)]) = (usage.input_total, parts) {
        is_sum(check, "inputTotal", total, &[a, b, c]);
    }
    if let Some(whole) = usage.output_total {
        for (member, part) in [("reasoning", usage.reasoning), ("rejectedPrediction", usage.rejected_prediction)] {
            at_most(check, member, part, whole);
        }
    }
    // A total that the vendor reports follows its own rule; one that was derived follows ours.
    if let (Some(total), Some(input), Some(output)) = (usage.total, usage.input_total, usage.output_total)
        && total.source == UsageSource::Derived
    {
        match usage.tool_prompt {
            None => is_sum(check, "total", total, &[input, output]),
            Some(tools) if !same(total.value, input.value + output.value) => is_sum(check, "total", total, &[input, output, tools]),
            Some(_) => {}
        }
    }
    maps(check, usage);
    check.each("cost", usage.cost.iter().flatten(), |check, cost| {
        check.require(!cost.unit.is_empty(), "unit", Rule::Bound, "a currency or the name of the credit");
        if cost.kind != crate::usage::CostKind::CreditsLeft {
            shared::not_negative(check, "value", Some(cost.value));
        }
    });
}

fn maps(check: &mut Check, usage: &UnifiedUsageCounters) {
    let groups = [
        ("cacheWriteByTtl", &usage.cache_write_by_ttl, usage.cache_write),
        ("inputByModality", &usage.input_by_modality, usage.input_total),
        ("outputByModality", &usage.output_by_modality, usage.output_total),
        ("cacheReadByModality", &usage.cache_read_by_modality, usage.cache_read),
        ("toolPromptByModality", &usage.tool_prompt_by_modality, usage.tool_prompt),
        ("serverToolCalls", &usage.server_tool_calls, None),
    ];
    for (member, group, whole) in groups {
        let Some(group) = group else { continue };
        check.inside(member, |check| {
            for (key, counter) in &group.0 {
                check.inside(key, |check| shared::not_negative(check, "value", Some(counter.value)));
                if member == "cacheWriteByTtl" {
                    let seconds = !key.is_empty() && key.len() <= 12 && key.bytes().all(|b| b.is_ascii_digit());
                    check.require(seconds, key, Rule::Bound, "the key is a number of seconds");
                }
            }
        });
        let ours = |w: &UnifiedCounter| w.source != UsageSource::Reported || group.0.values().any(|c| c.source != UsageSource::Reported);
        if let Some(whole) = whole.filter(|w| group.0.values().all(|c| c.scope == w.scope) && ours(w)) {
            let sum: f64 = group.0.values().map(|c| c.value).sum();
            let more = sum > whole.value + slack(whole.value);
            check.require(!more, member, Rule::UsageSum, "the parts are more than the whole");
        }
    }
}

/// Numbers are exact up to 2^53; beyond, and for fractions, the last digits are not held against anyone.
fn slack(value: f64) -> f64 {
    value.abs() * 1e-9
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= slack(a.max(b)) || !a.is_finite() || !b.is_finite()
}

fn is_sum(check: &mut Check, member: &str, total: UnifiedCounter, summands: &[UnifiedCounter]) {
    if summands.iter().any(|s| s.scope != total.scope) {
        return;
    }
    let sum: f64 = summands.iter().map(|s| s.value).sum();
    check.require(same(total.value, sum), member, Rule::UsageSum, "it is not the sum of its summands");
}

/// What a provider reported stands as it reported it, even where it does not add up; figures of our own do.
fn at_most(check: &mut Check, member: &str, part: Option<UnifiedCounter>, whole: UnifiedCounter) {
    let ours = |p: &UnifiedCounter| p.source != UsageSource::Reported || whole.source != UsageSource::Reported;
    if let Some(part) = part.filter(|p| p.scope == whole.scope && ours(p)) {
        let more = part.value > whole.value + slack(whole.value);
        check.require(!more, member, Rule::UsageSum, "a part is not larger than its whole");
    }
}

/// The scopes from narrow to wide; the order of the words is theirs.
const _: () = assert!((UsageScope::Request as u8) < (UsageScope::Cumulative as u8));
