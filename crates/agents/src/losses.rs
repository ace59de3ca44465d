//! Entries of loss reports about transcripts, in the words of the closed list.

use throughline_format::{LossSeverity, UnifiedId, UnifiedLossEntry, UnifiedLossReport};
use throughline_protocols::Feature;

/// An entry.
pub(crate) fn entry(
    severity: LossSeverity,
    feature: Feature,
    path: impl Into<String>,
    reason: &str,
    item: Option<&UnifiedId>,
) -> UnifiedLossEntry {
    UnifiedLossEntry {
        path: path.into(),
        feature: feature.as_str().to_owned(),
        severity,
        reason: reason.to_owned(),
        source_item_id: item.cloned(),
        target_capability: None,
    }
}

/// Adds another report whose paths begin with `from`, which becomes `to`.
pub(crate) fn extend_moved(report: &mut UnifiedLossReport, other: UnifiedLossReport, from: &str, to: &str) {
    let disposition = other.disposition;
    for mut entry in other.entries {
        if let Some(rest) = entry.path.strip_prefix(from) {
            entry.path = format!("{to}{rest}");
        }
        report.note(entry);
    }
    report.disposition = report.disposition.max(disposition);
}
