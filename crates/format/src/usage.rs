//! Usage counters with scope and source; unknown stays unknown (open-types.md, section 7).

use crate::json::UserMap;
use crate::macros::{record, words};

words! {
    /// What a counter counts over.
    pub enum UsageScope { Request = "request", Operation = "operation", Session = "session", Cumulative = "cumulative", }
}
words! {
    /// Where a counter comes from.
    pub enum UsageSource { Reported = "reported", Estimated = "estimated", Derived = "derived", }
}
record! {
    /// One counter.
    #[derive(Copy)]
    pub struct UnifiedCounter {
        /// The figure.
        #[serde(serialize_with = "figure")]
        value: f64,
        /// What it counts over.
        scope: UsageScope,
        /// Where it comes from.
        source: UsageSource,
    }
}

/// Whole figures are written as integers: `3`, not `3.0`.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::cast_possible_truncation)] // serde's signature; whole and within ±2^53
fn figure<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() <= crate::MAX_SAFE_INTEGER as f64 {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

impl UnifiedCounter {
    /// A figure that the provider reported for this request.
    pub const fn reported(value: f64) -> Self {
        Self {
            value,
            scope: UsageScope::Request,
            source: UsageSource::Reported,
        }
    }

    /// A figure computed from reported ones of this request.
    pub const fn derived(value: f64) -> Self {
        Self {
            value,
            scope: UsageScope::Request,
            source: UsageSource::Derived,
        }
    }
}

words! {
    /// What a cost figure is.
    pub enum CostKind { Cost = "cost", CreditsUsed = "credits-used", CreditsLeft = "credits-left", }
}
record! {
    /// Money or credits.
    pub struct UnifiedCost {
        /// The figure.
        #[serde(serialize_with = "figure")]
        value: f64,
        /// What it counts over.
        scope: UsageScope,
        /// Where it comes from.
        source: UsageSource,
        /// ISO currency or the vendor's credit name.
        unit: String,
        /// What the figure is.
        kind: CostKind,
    }
}
record! {
    /// The counters of one scope, every one optional.
    #[derive(Default)]
    pub struct UnifiedUsageCounters {
        /// Everything sent, cached or not.
        input_total?: UnifiedCounter,
        /// Neither read from nor written to a cache.
        input_uncached?: UnifiedCounter,
        /// Read from a cache.
        cache_read?: UnifiedCounter,
        /// Written to a cache.
        cache_write?: UnifiedCounter,
        /// Everything generated, reasoning included.
        output_total?: UnifiedCounter,
        /// Reasoning.
        reasoning?: UnifiedCounter,
        /// The vendor's total.
        total?: UnifiedCounter,
        /// Prompts of tools.
        tool_prompt?: UnifiedCounter,
        /// Predicted tokens that were used.
        accepted_prediction?: UnifiedCounter,
        /// Predicted tokens that were not.
        rejected_prediction?: UnifiedCounter,
        /// Cache writes by life in seconds.
        cache_write_by_ttl?: UserMap<UnifiedCounter>,
        /// Input by modality.
        input_by_modality?: UserMap<UnifiedCounter>,
        /// Output by modality.
        output_by_modality?: UserMap<UnifiedCounter>,
        /// Cache reads by modality.
        cache_read_by_modality?: UserMap<UnifiedCounter>,
        /// Tool prompts by modality.
        tool_prompt_by_modality?: UserMap<UnifiedCounter>,
        /// Calls of hosted tools by tool type.
        server_tool_calls?: UserMap<UnifiedCounter>,
        /// Cost.
        cost?: Vec<UnifiedCost>,
        /// The same quantities at wider scopes; only at the top level, never added to it.
        others?: Vec<UnifiedUsageCounters>,
    }
}

/// Usage of a result: the counters of the narrowest scope, with wider ones in `others`.
pub type UnifiedUsage = UnifiedUsageCounters;
