//! Loss reports: what a decode or a projection could not say (spec, Provider data and projection loss).

use crate::UnifiedId;
use crate::intent::UnifiedRequirement;
use crate::macros::{record, words};

words! {
    /// What a report means as a whole.
    pub enum LossDisposition { Lossless = "lossless", Degraded = "degraded", Unsupported = "unsupported", }
}
words! {
    /// How bad an entry is.
    pub enum LossSeverity {
        /// Nothing that the model or the user would notice.
        Info = "info",
        /// They could notice.
        Warning = "warning",
        /// A required intent is lost.
        Error = "error",
    }
}
record! {
    /// One thing that was lost or changed.
    pub struct UnifiedLossEntry {
        /// JSON Pointer: into the wire body for a decode, into the Unified record for a projection.
        path: String,
        /// Word of the closed list of features.
        feature: String,
        /// How bad it is.
        severity: LossSeverity,
        /// Why.
        reason: String,
        /// Item that it came from.
        source_item_id?: UnifiedId,
        /// Key of the target's capability table.
        target_capability?: String,
    }
}
record! {
    /// What was lost.
    pub struct UnifiedLossReport {
        /// As a whole.
        disposition: LossDisposition,
        /// One by one.
        entries: Vec<UnifiedLossEntry>,
    }
}

impl Default for UnifiedLossReport {
    fn default() -> Self {
        Self {
            disposition: LossDisposition::Lossless,
            entries: Vec::new(),
        }
    }
}

impl UnifiedLossReport {
    /// Adds an entry and raises the disposition to what it means.
    pub fn push(&mut self, entry: UnifiedLossEntry) {
        self.disposition = self.disposition.max(match entry.severity {
            LossSeverity::Info | LossSeverity::Warning => LossDisposition::Degraded,
            LossSeverity::Error => LossDisposition::Unsupported,
        });
        self.entries.push(entry);
    }

    /// Adds a remark that loses nothing: the disposition stays what it is.
    pub fn note(&mut self, entry: UnifiedLossEntry) {
        self.entries.push(entry);
    }

    /// Adds all entries of another report, and the worse of both dispositions.
    pub fn extend(&mut self, other: Self) {
        self.disposition = self.disposition.max(other.disposition);
        self.entries.extend(other.entries);
    }

    /// Whether a required intent is lost, so that nothing may be sent.
    pub fn is_unsupported(&self) -> bool {
        self.disposition == LossDisposition::Unsupported
    }
}

impl LossSeverity {
    /// Severity of losing an intent of this strength.
    pub const fn of_requirement(requirement: UnifiedRequirement) -> Self {
        match requirement {
            UnifiedRequirement::Required => Self::Error,
            UnifiedRequirement::Preferred => Self::Warning,
            UnifiedRequirement::Optional => Self::Info,
        }
    }
}
