//! A file as somebody hands it in: one record, a list of records, or one record a line.

use super::check::MAX_LISTED;
use super::semantics::{self, Extent};
use super::structure::structure_and_sizes;
use super::text::{member_names, skip_space, text_error};
use super::{Pending, Violation};
use crate::event::{EventBody, UnifiedEventV2};
use crate::json::decode::{DecodeCode, DecodeError, decode_unscanned};
use crate::record_kind::RecordKind;
use crate::shape::Shape;
use crate::{UnifiedItem, UnifiedResultV2};
use serde::de::DeserializeOwned;

/// What [`validate_document`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which record it is, such as `item`, `items` for a list; `unknown` when nothing tells.
    pub record: &'static str,
    /// Everything that is wrong with it.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    fn unknown(error: DecodeError) -> Self {
        Self {
            record: "unknown",
            violations: vec![error.into()],
        }
    }
}

/// Validates a document: its structure, and the rules across members when the structure is sound.
///
/// It may be one record, a JSON array of records of one kind, or records of one kind one a line (a log of events, say). Which
/// kind it is, is told by the members of the first one ([`RecordKind::of_members`]). Paths into lines begin with the line's
/// number from 0, blank lines not counted, as if the lines were an array. The ID `pending` is taken wherever `convert` and `fold`
/// write it.
pub fn validate_document(bytes: &[u8]) -> Report {
    match text_error(bytes) {
        None => one_value(bytes),
        Some(error) => lines(bytes).unwrap_or_else(|| Report::unknown(error)),
    }
}

/// The kind of the object that JSON text begins with.
fn kind_of(text: &[u8]) -> Option<RecordKind> {
    let names = member_names(text)?;
    RecordKind::of_members(|name| names.iter().any(|known| **known == *name.as_bytes()))
}

fn no_record(pointer: &str) -> DecodeError {
    DecodeError::new(DecodeCode::UnknownDiscriminator, pointer, RecordKind::NONE_OF_THEM)
}

fn one_value(text: &[u8]) -> Report {
    let begin = skip_space(text, 0);
    match text.get(begin) {
        Some(b'{') => match kind_of(text) {
            Some(kind) => Report {
                record: kind.name(),
                violations: one_record(text, kind),
            },
            None => Report::unknown(no_record("")),
        },
        Some(b'[') => list(text, skip_space(text, begin + 1)),
        _ => Report::unknown(DecodeError::new(
            DecodeCode::WrongType,
            "",
            "expected a record or a list of records",
        )),
    }
}

/// An array of records; `first` is where its first element stands.
fn list(text: &[u8], first: usize) -> Report {
    let element = text.get(first..).unwrap_or_default();
    let kind = match element.first() {
        // An empty list is one of whatever was wanted.
        Some(b']') => RecordKind::Item,
        Some(b'{') => match kind_of(element) {
            Some(kind) => kind,
            None => return Report::unknown(no_record("/0")),
        },
        _ => return Report::unknown(DecodeError::new(DecodeCode::WrongType, "/0", "expected a record")),
    };
    let mut violations = structure_and_sizes(text, Shape::List(kind.shape_of()));
    if violations.is_empty() {
        violations = rules_of_list(&List::Array(text), kind);
    }
    Report {
        record: kind.plural(),
        violations,
    }
}

/// Records one a line; nothing when the first line is no record.
fn lines(text: &[u8]) -> Option<Report> {
    let lines: Vec<&[u8]> = text
        .split(|byte| *byte == b'\n')
        .filter(|line| skip_space(line, 0) < line.len())
        .collect();
    let first = lines.first().filter(|line| text_error(line).is_none())?;
    let kind = kind_of(first)?;
    let mut violations = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if violations.len() >= MAX_LISTED {
            break;
        }
        violations.extend(structure_and_sizes(line, kind.shape_of()()).into_iter().map(|v| v.within(index)));
    }
    if violations.is_empty() {
        violations = rules_of_list(&List::Lines(&lines), kind);
    }
    Some(Report {
        record: kind.plural(),
        violations,
    })
}

/// Several records of one kind whose structure is sound.
enum List<'a> {
    /// As a JSON array.
    Array(&'a [u8]),
    /// One a line.
    Lines(&'a [&'a [u8]]),
}

impl List<'_> {
    /// Decodes what the structure allows and checks it.
    fn rules<T: DeserializeOwned>(&self, check: impl FnOnce(&[T]) -> Vec<Violation>) -> Vec<Violation> {
        let records = match self {
            Self::Array(text) => decode_unscanned(text),
            Self::Lines(lines) => lines.iter().map(|line| decode_unscanned(line)).collect::<Result<Vec<T>, _>>(),
        };
        told(records, |records| check(&records))
    }

    /// The same for records that say nothing about each other.
    fn rules_of_each<T: DeserializeOwned>(&self, check: impl Fn(&T) -> Vec<Violation>) -> Vec<Violation> {
        self.rules(|records: &[T]| {
            let records = records.iter().enumerate();
            let violations = records.flat_map(|(index, record)| check(record).into_iter().map(move |v| v.within(index)));
            violations.take(MAX_LISTED).collect()
        })
    }
}

fn rules_of_list(list: &List<'_>, kind: RecordKind) -> Vec<Violation> {
    match kind {
        RecordKind::Event => list.rules(event_log),
        RecordKind::Item => list.rules(|items: &[UnifiedItem]| semantics::items(items, Pending::Allowed)),
        RecordKind::Request => list.rules_of_each(semantics::request),
        RecordKind::Result => list.rules_of_each(|result: &UnifiedResultV2| semantics::result(result, Pending::Allowed)),
        RecordKind::Operation => list.rules_of_each(semantics::operation),
        RecordKind::Export => list.rules_of_each(semantics::export),
        RecordKind::Checkpoint => list.rules_of_each(semantics::checkpoint),
        RecordKind::Conversation => list.rules_of_each(semantics::conversation),
    }
}

fn one_record(text: &[u8], kind: RecordKind) -> Vec<Violation> {
    let violations = structure_and_sizes(text, kind.shape_of()());
    if violations.is_empty() { rules_of(text, kind) } else { violations }
}

/// The rules of a record whose structure is sound.
fn rules_of(text: &[u8], kind: RecordKind) -> Vec<Violation> {
    match kind {
        RecordKind::Request => rules(text, semantics::request),
        RecordKind::Result => rules(text, |result: &UnifiedResultV2| semantics::result(result, Pending::Allowed)),
        RecordKind::Event => rules(text, |event: &UnifiedEventV2| semantics::event(event, Pending::Allowed)),
        RecordKind::Operation => rules(text, semantics::operation),
        RecordKind::Export => rules(text, semantics::export),
        RecordKind::Item => rules(text, |item: &UnifiedItem| semantics::item(item, Pending::Allowed)),
        RecordKind::Conversation => rules(text, semantics::conversation),
        RecordKind::Checkpoint => rules(text, semantics::checkpoint),
    }
}

/// Decodes what the structure allows and checks it.
fn rules<T: DeserializeOwned>(text: &[u8], check: impl FnOnce(&T) -> Vec<Violation>) -> Vec<Violation> {
    told(decode_unscanned(text), |record| check(&record))
}

/// That something sound does not decode would be a fault of the validator of structure; it is told.
fn told<T>(record: Result<T, DecodeError>, check: impl FnOnce(T) -> Vec<Violation>) -> Vec<Violation> {
    match record {
        Ok(record) => check(record),
        Err(error) => vec![error.into()],
    }
}

/// A log that has not ended yet is the beginning of one.
fn event_log(log: &[UnifiedEventV2]) -> Vec<Violation> {
    let has_ended = log.iter().any(|event| matches!(event.body, EventBody::StreamCompleted(_)));
    let extent = if has_ended { Extent::Whole } else { Extent::Prefix };
    semantics::event_log(log, extent, Pending::Allowed)
}

impl Violation {
    /// The same violation seen from the list that holds the record.
    fn within(mut self, index: usize) -> Self {
        self.path.insert_str(0, &format!("/{index}"));
        self
    }
}
