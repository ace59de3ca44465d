//! [`Check`]: the place that a validator is at, and what it found so far.

use super::{Rule, VALIDATION, Violation};
use crate::json::escape_pointer_token;
use std::fmt::Write as _;

/// Violations that are listed one by one; a last one tells how many more there are.
pub(crate) const MAX_LISTED: usize = 10_000;
/// Longest key of a free map that a pointer names; what is wrong with a longer one is told at the map.
const MAX_KEY: usize = 128;

/// A validator's place and findings.
#[derive(Debug, Default)]
pub(crate) struct Check {
    path: String,
    found: Vec<Violation>,
    left_off: usize,
}

impl Check {
    /// Runs a validator from the root of a record and hands out what it found.
    pub(crate) fn run(validator: impl FnOnce(&mut Self)) -> Vec<Violation> {
        let mut check = Self::default();
        validator(&mut check);
        if check.left_off > 0 {
            let more = check.left_off;
            check.path.clear();
            check.found.push(Violation {
                code: VALIDATION,
                path: String::new(),
                message: format!("{}: {more} more violations are not listed", Rule::Unlisted),
            });
        }
        check.found
    }

    /// Whether this rule was broken already.
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.found.iter().any(|violation| violation.rule() == Some(rule))
    }

    /// The place, to come back to.
    pub(crate) fn place(&self) -> usize {
        self.path.len()
    }

    /// Back to a place that this one is inside of.
    pub(crate) fn back_to(&mut self, place: usize) {
        self.path.truncate(place);
    }

    /// Goes to a member or element. A key too long for a pointer leaves the place where it is.
    pub(crate) fn go(&mut self, token: &str) {
        if token.len() <= MAX_KEY {
            self.path.push('/');
            self.path.push_str(&escape_pointer_token(token));
        }
    }

    /// Goes on inside a member.
    pub(crate) fn inside<R>(&mut self, member: &str, validator: impl FnOnce(&mut Self) -> R) -> R {
        let place = self.place();
        self.go(member);
        let result = validator(self);
        self.back_to(place);
        result
    }

    /// Goes on at a pointer relative to here.
    pub(crate) fn below<R>(&mut self, pointer: &str, validator: impl FnOnce(&mut Self) -> R) -> R {
        let place = self.place();
        self.path.push_str(pointer);
        let result = validator(self);
        self.back_to(place);
        result
    }

    /// Goes on at an element of a list that is the place.
    pub(crate) fn element<R>(&mut self, index: usize, validator: impl FnOnce(&mut Self) -> R) -> R {
        let place = self.place();
        let _ = write!(self.path, "/{index}"); // writing to a string cannot fail
        let result = validator(self);
        self.back_to(place);
        result
    }

    /// Goes on inside each element of a list.
    pub(crate) fn each<'t, T>(&mut self, member: &str, list: impl IntoIterator<Item = &'t T>, mut validator: impl FnMut(&mut Self, &'t T))
    where
        T: 't,
    {
        self.inside(member, |check| {
            for (index, element) in list.into_iter().enumerate() {
                check.element(index, |check| validator(check, element));
            }
        });
    }

    /// Notes that the place breaks a rule.
    pub(crate) fn broken(&mut self, rule: Rule, why: impl std::fmt::Display) {
        if self.found.len() < MAX_LISTED {
            self.found.push(Violation {
                code: VALIDATION,
                path: self.path.clone(),
                message: format!("{rule}: {why}"),
            });
        } else {
            self.left_off += 1;
        }
    }

    /// Notes that a member breaks a rule.
    pub(crate) fn broken_at(&mut self, member: &str, rule: Rule, why: impl std::fmt::Display) {
        self.inside(member, |check| check.broken(rule, why));
    }

    /// Notes that a member breaks a rule, unless `kept`.
    pub(crate) fn require(&mut self, kept: bool, member: &str, rule: Rule, why: impl std::fmt::Display) {
        if !kept {
            self.broken_at(member, rule, why);
        }
    }

    /// A text that comes from transport, metadata, errors or annotations holds no credential.
    pub(crate) fn secret_free(&mut self, member: &str, text: &str) {
        if let Some(kind) = crate::secrets::find(text) {
            self.broken_at(
                member,
                Rule::Secret,
                format_args!("it looks like {kind}; credentials stand in no record"),
            );
        }
    }

    /// The same for a text that may be absent.
    pub(crate) fn secret_free_option(&mut self, member: &str, text: Option<&String>) {
        if let Some(text) = text {
            self.secret_free(member, text);
        }
    }
}
