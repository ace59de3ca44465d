//! [`Continuation`]: which private state of an answer lets its owner go on from there, and how the next request says so.
//!
//! A codec knows its own handles; whether a handle may be used is the engine's to decide (owner, head, status). [`Job`] is
//! the same for work that goes on at the provider while nobody is connected.

use throughline_format::item::newest_instructions;
use throughline_format::{PartBody, UnifiedItem};

/// How a handle of an answer goes into the owner's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// Schema under which a request presents the handle.
    pub presented_as: &'static str,
    /// What it stands for.
    pub holds: Held,
}

/// What a handle stands for at its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The whole history up to the answer: a request names it in `continuations` and carries only what is new.
    History(Inherited),
    /// A place that the answer worked in, such as a container: a request names it in `state.resources` beside its history.
    Place,
}

/// What becomes of the instructions when a history goes on by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// None are inherited, and a request says any of them apart from its input.
    Nothing,
    /// None are inherited, and a request says them apart from its input only when they are one text.
    NothingButOneText,
    /// They are part of what the owner remembers, and a request cannot change them.
    Instructions,
}

impl Inherited {
    /// Whether a request that carries `new` items after a shared history may go on by the handle: the instructions that it
    /// would send are the newest of the whole path, said once and in their place.
    pub fn allows(self, path: &[UnifiedItem], new: &[UnifiedItem]) -> bool {
        match self {
            Self::Nothing => true,
            Self::NothingButOneText => match path.get(newest_instructions(path)).unwrap_or_default() {
                [] => true,
                [only] => matches!(only.parts(), [part] if matches!(part.body, PartBody::Text(_))),
                _ => false,
            },
            Self::Instructions => !new.iter().any(UnifiedItem::is_instructions),
        }
    }
}

/// Work that goes on at the provider, and what a driver needs to read its stream again.
#[derive(Clone, PartialEq, Eq)]
pub struct Job {
    /// IDs of the work, outermost first, as a driver puts them into an address.
    pub ids: Vec<String>,
    /// Whether the work goes on when its connection is closed, however it is closed.
    pub outlives_connection: bool,
}

impl std::fmt::Debug for Job {
    /// Without the IDs: they are handles of the owner.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("ids", &self.ids.len())
            .field("outlives_connection", &self.outlives_connection)
            .finish()
    }
}
