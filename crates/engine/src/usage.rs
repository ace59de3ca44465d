//! Usage of an operation with several answers: the provider reports each one for itself.

use throughline_format::usage::{UsageScope, UsageSource};
use throughline_format::{EventBody, EventDraft, UnifiedCounter, UnifiedUsage};

/// Adds what earlier answers used to every report among the drafts, since a report replaces the one before.
pub(crate) fn add_to(before: Option<&UnifiedUsage>, drafts: &mut [EventDraft]) {
    let Some(before) = before else { return };
    for draft in drafts {
        if let EventBody::UsageUpdate(update) = &mut draft.body {
            update.usage = sum(before, &update.usage);
        }
    }
}

/// The sum of two answers. A figure is there only when both have it; cost and break-downs are of one answer and not added.
fn sum(a: &UnifiedUsage, b: &UnifiedUsage) -> UnifiedUsage {
    let add = |x: Option<&UnifiedCounter>, y: Option<&UnifiedCounter>| {
        x.zip(y).map(|(x, y)| UnifiedCounter {
            value: x.value + y.value,
            scope: UsageScope::Operation,
            source: UsageSource::Derived,
        })
    };
    UnifiedUsage {
        input_total: add(a.input_total.as_ref(), b.input_total.as_ref()),
        input_uncached: add(a.input_uncached.as_ref(), b.input_uncached.as_ref()),
        cache_read: add(a.cache_read.as_ref(), b.cache_read.as_ref()),
        cache_write: add(a.cache_write.as_ref(), b.cache_write.as_ref()),
        output_total: add(a.output_total.as_ref(), b.output_total.as_ref()),
        reasoning: add(a.reasoning.as_ref(), b.reasoning.as_ref()),
        total: add(a.total.as_ref(), b.total.as_ref()),
        tool_prompt: add(a.tool_prompt.as_ref(), b.tool_prompt.as_ref()),
        accepted_prediction: add(a.accepted_prediction.as_ref(), b.accepted_prediction.as_ref()),
        rejected_prediction: add(a.rejected_prediction.as_ref(), b.rejected_prediction.as_ref()),
        ..UnifiedUsage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::sum;
    use throughline_format::usage::UsageSource;
    use throughline_format::{UnifiedCounter, UnifiedUsage};

    #[test]
    fn a_sum_with_something_unknown_is_unknown_and_one_of_zeros_is_zero() {
        throughline_format::clause!("CACHE-03");
        let one = UnifiedUsage {
            input_total: Some(UnifiedCounter::reported(7.0)),
            cache_read: Some(UnifiedCounter::reported(0.0)),
            cache_write: Some(UnifiedCounter::reported(3.0)),
            ..UnifiedUsage::default()
        };
        let other = UnifiedUsage {
            input_total: Some(UnifiedCounter::reported(5.0)),
            cache_read: Some(UnifiedCounter::reported(0.0)),
            ..UnifiedUsage::default()
        };
        for both in [sum(&one, &other), sum(&other, &one)] {
            assert_eq!(both.input_total.map(|c| c.value), Some(12.0));
            assert_eq!(both.input_total.map(|c| c.source), Some(UsageSource::Derived));
            assert_eq!(both.cache_read.map(|c| c.value), Some(0.0));
            assert_eq!(both.cache_write, None);
            assert_eq!(both.output_total, None);
        }
    }
}
