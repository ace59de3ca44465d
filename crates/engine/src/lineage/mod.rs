//! How a stateless client's full history finds its conversation.
//!
//! A history becomes a list of atoms ([`atoms`]): what every client echoes back the same, whatever its protocol. A chain of
//! hashes over them, rooted in the authenticated principal ([`chain`]), is looked up from its end. A match counts only where
//! an answer was delivered by this gateway (evidence), or an ID of one leads to it (`echo`); then [`place`] decides what is new and whether it is appended at the
//! head or forks a branch. Without evidence the client's own name of its `session` may still lead to the place of a retry.

pub mod atoms;
pub(crate) mod calls;
pub mod chain;
mod echo;
pub(crate) mod find;
pub(crate) mod issued;
pub mod place;
pub(crate) mod session;
pub(crate) mod summary;

/// Version of the rule. A change of the rule rebuilds links from the journal and never mixes two rules.
pub const LINEAGE_VERSION: u32 = 1;
