//! Rules across members and records, one module per area. Each function lists every rule that a record breaks.
//!
//! * `items`, `parts`, `path`: history and what stands in it; `conversation`, `request`, `tools`: what comes in.
//! * `result`, `usage`, `events`, `operation`, `checkpoint`: what goes out and how it got there.
//! * `export`, `revisions`, `transport`, `numbers`, `shared`: bundles, changes, safe transport metadata, every number of
//!   a record, and what all share.
//!
//! References are followed as far as the record is whole: a result may point into history that it does not hold, a
//! complete request or a bundle may not.

mod checkpoint;
mod conversation;
mod events;
mod export;
mod items;
mod numbers;
mod operation;
mod parts;
mod path;
mod request;
mod result;
mod revisions;
mod shared;
mod tools;
mod transport;
mod usage;

pub use events::Extent;
pub use export::export_fingerprint;

use super::{Check, Pending, Rule, Violation};
use crate::event::UnifiedEventV2;
use crate::item::{UnifiedItem, UnifiedItemRevision};
use crate::operation::UnifiedProviderCheckpoint;
use crate::{UnifiedConversation, UnifiedExportV2, UnifiedOperation, UnifiedPortableAnnotation, UnifiedRequestV2, UnifiedResultV2};
use serde::Serialize;

/// Runs an area's rules, then looks at every number.
fn all<T: Serialize + ?Sized>(record: &T, rules: impl FnOnce(&mut Check)) -> Vec<Violation> {
    Check::run(|check| {
        rules(check);
        // Deeper parts than the rules allow are not walked at all.
        if !check.has(Rule::PartDepth) {
            numbers::check(check, record);
        }
    })
}

/// The rules of a request.
pub fn request(request: &UnifiedRequestV2) -> Vec<Violation> {
    all(request, |check| request::check(check, request))
}

/// The rules of a result.
pub fn result(result: &UnifiedResultV2, pending: Pending) -> Vec<Violation> {
    all(result, |check| result::check(check, result, pending))
}

/// The rules of one item alone: nothing that other items would tell.
pub fn item(item: &UnifiedItem, pending: Pending) -> Vec<Violation> {
    all(item, |check| {
        let known = parts::Known::of([item].into_iter(), false);
        items::one(
            check,
            item,
            &items::Around {
                pending,
                conversation: None,
                known: &known,
            },
        );
    })
}

/// The rules of items that follow one another on a path, as a page of a journal has them: what stands before the first one
/// is not known.
pub fn items(list: &[UnifiedItem], pending: Pending) -> Vec<Violation> {
    all(list, |check| {
        let known = parts::Known::of(list.iter(), false);
        let around = items::Around {
            pending,
            conversation: None,
            known: &known,
        };
        items::page(check, list, &around);
    })
}

/// The rules of a conversation as a record.
pub fn conversation(conversation: &UnifiedConversation) -> Vec<Violation> {
    all(conversation, |check| conversation::record(check, conversation))
}

/// The rules of one event alone.
pub fn event(event: &UnifiedEventV2, pending: Pending) -> Vec<Violation> {
    all(event, |check| events::one(check, event, pending))
}

/// The rules of the log of one operation, each event's own included.
pub fn event_log(log: &[UnifiedEventV2], extent: Extent, pending: Pending) -> Vec<Violation> {
    all(log, |check| events::log(check, log, extent, pending))
}

/// The rules of an operation.
pub fn operation(operation: &UnifiedOperation) -> Vec<Violation> {
    all(operation, |check| operation::check(check, operation))
}

/// The rules of an operation that changes: its own, and that it may become what it becomes.
pub fn operation_change(before: &UnifiedOperation, after: &UnifiedOperation) -> Vec<Violation> {
    all(after, |check| {
        operation::check(check, after);
        operation::change(check, before, after);
    })
}

/// The rules of a checkpoint.
pub fn checkpoint(checkpoint: &UnifiedProviderCheckpoint) -> Vec<Violation> {
    all(checkpoint, |check| checkpoint::check(check, checkpoint))
}

/// The rules of a checkpoint that changes: only its status does.
pub fn checkpoint_change(before: &UnifiedProviderCheckpoint, after: &UnifiedProviderCheckpoint) -> Vec<Violation> {
    all(after, |check| {
        checkpoint::check(check, after);
        checkpoint::change(check, before, after);
    })
}

/// The rules of the revisions of one item, in order; paths begin at their list.
pub fn item_revisions(item: &UnifiedItem, list: &[UnifiedItemRevision]) -> Vec<Violation> {
    all(list, |check| revisions::of_item(check, item, list.iter().enumerate()))
}

/// The rules of a registered annotation.
pub fn annotation(annotation: &UnifiedPortableAnnotation) -> Vec<Violation> {
    all(annotation, |check| crate::annotation::annotation_rules(check, annotation))
}

/// The rules of a bundle.
pub fn export(export: &UnifiedExportV2) -> Vec<Violation> {
    all(export, |check| export::check(check, export))
}
