//! Calls and results of a history, and what each of them is called on the wire.

use super::encode_step::wire_name;
use crate::pairing::{FreeIds, OpenCalls};
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::{UnifiedItem, UnifiedItemBody};

/// What pairing found, by index of the item.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Results that have their call.
    pub(super) answered: BTreeSet<usize>,
    /// Calls that have no result.
    pub(super) unanswered: BTreeSet<usize>,
    /// IDs of calls and results that are not their own.
    pub(super) renamed: BTreeMap<usize, String>,
    /// Names of results, where that of their call has a namespace in front.
    pub(super) called: BTreeMap<usize, String>,
}

impl Pairs {
    /// The pairs of these items; every call has an ID of its own.
    pub(super) fn of(items: &[UnifiedItem]) -> Self {
        let (mut ids, mut open) = (FreeIds::default(), OpenCalls::default());
        let spell = |id: &str| crate::call_id::wire(id, super::MAX_CALL_ID).into_owned();
        let mut pairs = Self::default();
        for (index, item) in items.iter().enumerate() {
            open.hear(item);
            match &item.body {
                UnifiedItemBody::ToolCall(call) => {
                    let first = if call.call_id.is_empty() { spell("") } else { call.call_id.clone() };
                    let id = ids.take(&call.call_id, first, spell);
                    if id != call.call_id {
                        pairs.renamed.insert(index, id);
                    }
                    open.call(&call.call_id, index);
                    pairs.unanswered.insert(index);
                }
                UnifiedItemBody::ToolResult(result) => {
                    let Some(call) = open.result(&result.call_id) else { continue };
                    pairs.answered.insert(index);
                    pairs.unanswered.remove(&call);
                    if let Some(id) = pairs.renamed.get(&call).cloned() {
                        pairs.renamed.insert(index, id);
                    }
                    if let Some(UnifiedItemBody::ToolCall(called)) = items.get(call).map(|item| &item.body)
                        && called.namespace.is_some()
                    {
                        let name = wire_name(called.namespace.as_deref(), &called.name);
                        pairs.called.insert(index, name);
                    }
                }
                _ => {}
            }
        }
        pairs
    }
}
