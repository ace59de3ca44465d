//! [`LineUp`]: several threads work on a list, and the result is that of one.
//!
//! Each takes the next entry, and does what concerns nobody else. What must come in order waits at the gate: an entry goes on
//! when all before it have told what they work on, and none of them works on the same thing.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Where several threads meet.
pub(super) struct LineUp<K> {
    state: Mutex<State<K>>,
    changed: Condvar,
    /// Size of every entry, and how much of it may be at work at once.
    sizes: Vec<u64>,
    room: u64,
}

struct State<K> {
    /// The entry that is taken next.
    next: usize,
    /// The entry that may pass the gate next.
    gate: usize,
    /// Size of all that is at work.
    taken: u64,
    /// What those behind the gate work on, in the order in which they passed.
    at_work: Vec<(usize, Vec<K>)>,
}

impl<K: PartialEq> LineUp<K> {
    /// For entries of these sizes, of which so much may be at work; one that is larger is at work alone.
    pub(super) fn new(sizes: Vec<u64>, room: u64) -> Self {
        let state = State {
            next: 0,
            gate: 0,
            taken: 0,
            at_work: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            sizes,
            room,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<K>>, until: impl Fn(&State<K>) -> bool) -> MutexGuard<'a, State<K>> {
        let waited = self.changed.wait_while(state, |state| !until(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// The next entry, once there is room for it; `None` behind the last one.
    pub(super) fn take(&self) -> Option<Turn<'_, K>> {
        let size = |at: usize| self.sizes.get(at).copied();
        let fits = |state: &State<K>| size(state.next).is_none_or(|size| state.taken == 0 || state.taken + size <= self.room);
        let mut state = self.wait(self.state(), fits);
        let at = state.next;
        state.taken += size(at)?;
        state.next += 1;
        Some(Turn {
            line_up: self,
            at,
            passed: false,
        })
    }
}

/// An entry at work. It lets the others go on when it is dropped.
pub(super) struct Turn<'a, K: PartialEq> {
    line_up: &'a LineUp<K>,
    at: usize,
    passed: bool,
}

impl<K: PartialEq> Turn<'_, K> {
    /// Position of the entry.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Waits until an entry that works on these things may go on.
    pub(super) fn pass(&mut self, things: Vec<K>) {
        if std::mem::replace(&mut self.passed, true) {
            return;
        }
        let mut state = self.line_up.wait(self.line_up.state(), |state| state.gate == self.at);
        state.gate += 1;
        state.at_work.push((self.at, things));
        self.line_up.changed.notify_all();
        drop(self.line_up.wait(state, |state| state.is_free(self.at)));
    }
}

impl<K: PartialEq> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        self.pass(Vec::new());
        let mut state = self.line_up.state();
        state.at_work.retain(|(other, _)| *other != self.at);
        let size = self.line_up.sizes.get(self.at).copied().unwrap_or(0);
        state.taken = state.taken.saturating_sub(size);
        self.line_up.changed.notify_all();
    }
}

impl<K: PartialEq> State<K> {
    /// Whether nobody who passed before an entry works on the same things.
    fn is_free(&self, at: usize) -> bool {
        let own = self.at_work.iter().find(|(entry, _)| *entry == at);
        let before = self
            .at_work
            .iter()
            .take_while(|(entry, _)| *entry != at)
            .flat_map(|(_, things)| things);
        own.is_none_or(|(_, own)| before.into_iter().all(|thing| !own.contains(thing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works off a list with several threads; gives what was done, in its order.
    fn work_off(things: &[&'static str], threads: usize) -> Vec<(usize, &'static str)> {
        let line_up = LineUp::new(vec![1; things.len()], 2);
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(mut turn) = line_up.take() {
                        let Some(thing) = things.get(turn.at()).copied() else { continue };
                        // The first is the slowest.
                        std::thread::sleep(std::time::Duration::from_millis(if turn.at() == 0 { 30 } else { 1 }));
                        turn.pass(vec![thing]);
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((turn.at(), thing));
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn every_entry_is_done_once_and_equal_things_in_their_order() {
        for threads in [1, 2, 5] {
            let things = ["a", "b", "a", "a", "b", "c"];
            let done = work_off(&things, threads);
            let mut entries: Vec<usize> = done.iter().map(|(at, _)| *at).collect();
            for thing in ["a", "b"] {
                let of_thing: Vec<usize> = done.iter().filter(|(_, t)| *t == thing).map(|(at, _)| *at).collect();
                assert!(of_thing.is_sorted(), "{threads} threads: {done:?}");
            }
            entries.sort_unstable();
            assert_eq!(entries, [0, 1, 2, 3, 4, 5], "{threads} threads");
        }
    }

    #[test]
    fn an_entry_that_never_passes_the_gate_stops_nobody() {
        let line_up = LineUp::<&str>::new(vec![9, 1], 2);
        // Larger than the room, so alone.
        drop(line_up.take());
        let mut turn = line_up.take().into_iter();
        turn.next().into_iter().for_each(|mut turn| turn.pass(vec!["a"]));
        assert!(line_up.take().is_none());
    }
}
