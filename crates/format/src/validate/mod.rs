//! Validation: whether a record keeps the rules of the format, with every rule that it breaks.
//!
//! * [`semantics`] checks rules across members and records (this is what a JSON Schema cannot say); every violation of it
//!   has the code [`VALIDATION`], and its message begins with the word of the rule ([`Rule`], listed in `docs/rules.md`).
//! * [`structure()`] checks what a record is made of (members, types, discriminators), as decoding does, which stops at the first
//!   mistake; its violations have the codes of decoding.
//! * [`validate_document`] takes a file as somebody hands it in and does both.
//!
//! All violations are listed, not the first only, in the order in which they are found. The work is linear in the input and
//! needs no machine stack for its nesting. No message quotes a value of the input.

mod check;
mod document;
mod rules;
pub mod semantics;
mod structure;
mod text;

pub(crate) use check::Check;
pub use document::{Report, validate_document};
pub use rules::{Rule, rules_page};
pub use structure::{MAX_EVENT_BYTES, MAX_ITEM_BYTES, structure, structure_and_sizes};

/// Code of every violation of a rule across members.
pub const VALIDATION: &str = "invalid-request.validation";

/// One rule that a record breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message} (at {path:?})")]
pub struct Violation {
    /// Stable code of the error (contract.md, section 1).
    pub code: &'static str,
    /// JSON Pointer of the place.
    pub path: String,
    /// What is wrong; for [`VALIDATION`] it begins with the word of the rule and a colon.
    pub message: String,
}

impl Violation {
    /// The rule, when this is one across members.
    pub fn rule(&self) -> Option<Rule> {
        let (word, _) = self.message.split_once(':')?;
        if self.code == VALIDATION { Rule::from_word(word) } else { None }
    }
}

impl From<crate::json::DecodeError> for Violation {
    fn from(error: crate::json::DecodeError) -> Self {
        Self {
            code: error.code.as_str(),
            path: error.pointer,
            message: error.message,
        }
    }
}

impl From<Violation> for crate::UnifiedError {
    fn from(violation: Violation) -> Self {
        let detail = violation.code.trim_start_matches("invalid-request.");
        Self::new(crate::ErrorCategory::InvalidRequest, detail, violation.message).at(violation.path)
    }
}

/// Whether the ID `pending` may stand for a conversation and branch that are not known yet.
///
/// It may in a request and in what the stand-alone `convert` and `fold` commands print (open-types.md, section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// It may.
    Allowed,
    /// The record is in a journal, or comes from one.
    Refused,
}
