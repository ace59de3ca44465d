//! Calls of a request and of the branch that it shares, paired by their place: IDs may differ between twins, and a client's
//! wire may have renamed them.

use std::collections::{HashMap, HashSet};
use throughline_format::tool::Execution;
use throughline_format::{UnifiedItem, UnifiedItemBody};

/// The journal's ID of each call of the shared history, by the ID in the client's copy; the newest call counts when an ID was
/// used twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallPairs(HashMap<String, String>);

impl CallPairs {
    /// Pairs the calls of two copies of one history; no pairs when their numbers differ.
    pub(crate) fn align(asked: &[UnifiedItem], known: &[UnifiedItem]) -> Self {
        let (asked, known) = (calls(asked), calls(known));
        if asked.len() != known.len() {
            return Self::default();
        }
        Self(asked.into_iter().zip(known).collect())
    }

    /// The journal's ID of a call as the client names it.
    pub(crate) fn known(&self, asked: &str) -> Option<&str> {
        self.0.get(asked).map(String::as_str)
    }

    /// Whether the client's ID and the journal's name one call.
    pub(crate) fn same(&self, asked: &str, known: &str) -> bool {
        self.known(asked).map_or(asked == known, |k| k == known)
    }
}

/// Whether an item is a call that its client answers with a result: of a tool, or an action on its computer.
pub(crate) const fn is_call(item: &UnifiedItem) -> bool {
    matches!(item.body, UnifiedItemBody::ToolCall(_) | UnifiedItemBody::ComputerAction(_))
}

/// Whether an item is the result of such a call.
pub(crate) const fn is_result(item: &UnifiedItem) -> bool {
    matches!(item.body, UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ComputerActionResult(_))
}

fn of_client(item: &UnifiedItem) -> Option<&str> {
    match &item.body {
        UnifiedItemBody::ToolCall(call) if call.execution == Execution::Client => Some(&call.call_id),
        UnifiedItemBody::ComputerAction(call) if call.execution == Execution::Client => Some(&call.call_id),
        _ => None,
    }
}

fn calls(items: &[UnifiedItem]) -> Vec<String> {
    items.iter().filter_map(of_client).map(str::to_owned).collect()
}

/// Where the result of each call of the client stands, in the order of the calls: the first one behind its call counts.
pub(crate) fn result_places(items: &[UnifiedItem]) -> Vec<Option<usize>> {
    let mut found: Vec<(&str, Option<usize>)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(id) = item.call_id() else { continue };
        if of_client(item).is_some() {
            found.push((id, None));
        } else if is_result(item)
            && let Some((_, place @ None)) = found.iter_mut().rfind(|(call, place)| *call == id && place.is_none())
        {
            *place = Some(index);
        }
    }
    found.into_iter().map(|(_, place)| place).collect()
}

/// Calls that have no result among the items.
pub(crate) fn open_calls(items: &[UnifiedItem]) -> Vec<String> {
    let answered: HashSet<&str> = items
        .iter()
        .filter(|i| {
            let hosted = matches!(
                i.body,
                UnifiedItemBody::ServerToolResult(_)
                    | UnifiedItemBody::CodeExecutionResult(_)
                    | UnifiedItemBody::SearchResult(_)
                    | UnifiedItemBody::RetrievalResult(_)
            );
            hosted || is_result(i)
        })
        .filter_map(UnifiedItem::call_id)
        .collect();
    items
        .iter()
        .filter(|i| matches!(i.body, UnifiedItemBody::ServerToolCall(_) | UnifiedItemBody::CodeExecution(_)) || is_call(i))
        .filter_map(UnifiedItem::call_id)
        .filter(|id| !answered.contains(id))
        .map(str::to_owned)
        .collect()
}
