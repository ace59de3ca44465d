//! Which result answers which call, where several calls share an ID, and IDs of a wire that no two calls share.
//!
//! Clients, proxies and models repeat IDs, over turns and even within one. A result is then its call's by place: calls of one
//! turn are answered in their order, and a call of a later turn takes the ID over from those of earlier turns. Both steps take
//! time in proportion to the history, whatever IDs it holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use throughline_format::item::Role;
use throughline_format::{UnifiedItem, UnifiedItemBody};

/// Calls that wait for their result, by ID.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls<'a> {
    open: BTreeMap<&'a str, Waiting>,
    turn: usize,
    /// Somebody else than the model spoke since the newest call.
    turn_is_over: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    turn: usize,
    calls: VecDeque<usize>,
}

impl<'a> OpenCalls<'a> {
    /// A call stands at this place.
    pub(crate) fn call(&mut self, id: &'a str, place: usize) {
        if std::mem::take(&mut self.turn_is_over) {
            self.turn += 1;
        }
        let waiting = self.open.entry(id).or_default();
        if waiting.turn != self.turn {
            // Calls of earlier turns that share the ID stay without a result.
            waiting.calls.clear();
            waiting.turn = self.turn;
        }
        waiting.calls.push_back(place);
    }

    /// The place of the call that a result with this ID answers.
    pub(crate) fn result(&mut self, id: &str) -> Option<usize> {
        self.open.get_mut(id)?.calls.pop_front()
    }

    /// Somebody else than the model says something: the next call is of another turn.
    pub(crate) const fn end_turn(&mut self) {
        self.turn_is_over = true;
    }

    /// Ends the turn when an item is not the model's, nor of a provider that runs a tool in the model's turn.
    pub(crate) fn hear(&mut self, item: &UnifiedItem) {
        let is_call = matches!(
            item.body,
            UnifiedItemBody::ToolCall(_)
                | UnifiedItemBody::ServerToolCall(_)
                | UnifiedItemBody::CodeExecution(_)
                | UnifiedItemBody::ComputerAction(_)
                | UnifiedItemBody::Reasoning(_)
        );
        if !is_call && item.role.is_some_and(|role| role != Role::Assistant) {
            self.end_turn();
        }
    }

    /// The place of the newest call with this ID that waits for its result.
    pub(crate) fn newest(&self, id: &str) -> Option<usize> {
        self.open.get(id)?.calls.back().copied()
    }
}

/// The results that answer calls, over the turns of a wire: place of a result to place of its call, each a turn and an index.
///
/// A turn gives the IDs of its calls, then those of the results that stand in it, with their indexes.
pub(crate) fn answers<'a>(
    turns: impl Iterator<Item = (Vec<(usize, &'a str)>, Vec<(usize, &'a str)>)>,
) -> BTreeMap<(usize, usize), (usize, usize)> {
    let (mut calls, mut answers, mut open) = (Vec::new(), BTreeMap::new(), OpenCalls::default());
    for (turn, (called, answered)) in turns.enumerate() {
        open.end_turn();
        for (index, id) in called {
            open.call(id, calls.len());
            calls.push((turn, index));
        }
        for (index, id) in answered {
            if let Some(call) = open.result(id).and_then(|call| calls.get(call)) {
                answers.insert((turn, index), *call);
            }
        }
    }
    answers
}

/// Tries for an ID that nobody else has. Only a target with IDs of one or two characters needs more.
const TRIES: usize = 64;

/// IDs that are given out, so that no two calls get one.
#[derive(Debug, Default)]
pub(crate) struct FreeIds {
    used: BTreeSet<String>,
    /// The next number by the ID that was asked for.
    next: BTreeMap<String, usize>,
}

impl FreeIds {
    /// Whether a call has this ID already.
    pub(crate) fn is_taken(&self, id: &str) -> bool {
        self.used.contains(id)
    }

    /// A free ID for a call: `first`, when nobody has it, else that of the call's ID and a number, as `spell` says it.
    ///
    /// The result depends on the calls before this one only.
    pub(crate) fn take(&mut self, call_id: &str, first: String, spell: impl Fn(&str) -> String) -> String {
        if self.used.insert(first.clone()) {
            return first;
        }
        let next = self.next.entry(call_id.to_owned()).or_insert(2);
        let mut id = first;
        for _ in 0..TRIES {
            id = spell(&format!("{call_id}#{next}"));
            *next += 1;
            if self.used.insert(id.clone()) {
                break;
            }
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_find_their_calls_by_place() {
        // A call is its ID, a result "=" and its ID, "-" is a word of the user; the numbers are the places of the answered calls.
        let rows: [(&str, &[Option<usize>]); 6] = [
            ("a b =b =a", &[Some(1), Some(0)]),
            ("a a =a =a", &[Some(0), Some(1)]),
            ("a =a a =a =a", &[Some(0), Some(2), None]),
            ("a - a =a =a", &[Some(2), None]),
            ("a b =a a =a =b", &[Some(0), Some(3), Some(1)]),
            ("=a", &[None]),
        ];
        for (history, expected) in rows {
            let mut open = OpenCalls::default();
            let mut found = Vec::new();
            for (place, word) in history.split(' ').enumerate() {
                match word.strip_prefix('=') {
                    Some(id) => {
                        found.push(open.result(id));
                        open.end_turn();
                    }
                    None if word == "-" => open.end_turn(),
                    None => open.call(word, place),
                }
            }
            assert_eq!(found, expected, "{history}");
        }
    }

    #[test]
    fn no_two_calls_get_one_id() {
        let spell = |id: &str| crate::call_id::wire(id, 40).into_owned();
        let mut ids = FreeIds::default();
        let given: Vec<String> = ["c", "c", "c#2", "c", "d"]
            .iter()
            .map(|id| ids.take(id, spell(id), spell))
            .collect();
        assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), given.len(), "{given:?}");
        assert_eq!((given.first(), given.last()), (Some(&"c".to_owned()), Some(&"d".to_owned())));
        // A wire that has fewer IDs than there are calls ends all the same.
        let mut few = FreeIds::default();
        let short = |id: &str| crate::call_id::wire(id, 1).into_owned();
        assert!((0..100).all(|_| few.take("long", short("long"), short).len() == 1));
    }
}
