//! What the summary in effect stands for: the one rule of the format, as encoders use it.

use std::collections::BTreeSet;
use throughline_format::UnifiedItem;
use throughline_format::compaction::{self, Reader};

/// Why a summary that stands for nothing is left out.
pub(crate) const ALL_IS_SENT: &str = "a summary of another owner; the items that it is of are sent";

/// Indexes of the items that are not sent because a summary stands for them. Instructions are never among them: encoders say
/// the newest ones in their own place.
pub(crate) fn covered(items: &[UnifiedItem]) -> BTreeSet<usize> {
    compaction::covered(items, Reader::AnyTarget)
        .filter(|index| items.get(*index).is_some_and(|item| !item.is_instructions()))
        .collect()
}
