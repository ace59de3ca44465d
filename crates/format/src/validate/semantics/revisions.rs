//! Revisions of items: numbered, legal, and about something that the item has.

use super::parts::{self, Allowed, Known};
use super::shared;
use crate::UnifiedContentPart;
use crate::item::{ItemStatus, UnifiedItem, UnifiedItemBody, UnifiedItemRevision};
use crate::lifecycle::UnifiedToolLifecycle;
use crate::validate::{Check, Rule};

/// Which parts the kind of an item takes; none when it has no parts.
fn takes_parts(item: &UnifiedItem) -> Option<Allowed> {
    match &item.body {
        UnifiedItemBody::Reasoning(_) => Some(Allowed::Reasoning),
        UnifiedItemBody::SearchResult(_) | UnifiedItemBody::RetrievalResult(_) => Some(Allowed::Sources),
        UnifiedItemBody::Message(_)
        | UnifiedItemBody::ToolResult(_)
        | UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::CompactionSummary(_) => Some(Allowed::Content),
        UnifiedItemBody::ToolCall(_)
        | UnifiedItemBody::ServerToolCall(_)
        | UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_)
        | UnifiedItemBody::ComputerAction(_)
        | UnifiedItemBody::CodeExecution(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::Reference(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_)
        | UnifiedItemBody::Error(_) => None,
    }
}

/// The revisions of one item in order, each with its place in the list that `check` is at.
pub(super) fn of_item<'a>(check: &mut Check, item: &UnifiedItem, list: impl Iterator<Item = (usize, &'a UnifiedItemRevision)>) {
    let (mut status, mut lifecycle, mut number): (ItemStatus, Option<UnifiedToolLifecycle>, u64) = (item.status, item.lifecycle(), 0);
    for (index, revision) in list {
        check.element(index, |check| {
            number += 1;
            check.require(
                revision.item_id == item.id,
                "itemId",
                Rule::UnknownReference,
                "it is a revision of another item",
            );
            check.require(
                revision.number == number,
                "number",
                Rule::RevisionNumber,
                format_args!("this is number {number}"),
            );
            check.require(
                item.created_at <= revision.created_at,
                "createdAt",
                Rule::RevisionChange,
                "the item was made later",
            );
            check.secret_free("reason", &revision.reason);
            let change = &revision.change;
            check.inside("change", |check| {
                let something = change.status.is_some() || change.parts.is_some() || change.lifecycle.is_some() || change.error.is_some();
                if !something {
                    check.broken(Rule::RevisionChange, "it changes nothing");
                }
                if let Some(to) = change.status {
                    let legal = status == to || status.may_become(to);
                    check.require(
                        legal,
                        "status",
                        Rule::Transition,
                        format_args!("an item may not go from {status} to {to}"),
                    );
                    status = to;
                }
                match (change.lifecycle, lifecycle) {
                    (Some(_), None) => check.broken_at("lifecycle", Rule::RevisionChange, "the item is no call"),
                    (Some(to), Some(from)) => {
                        let legal = from == to || from.may_become(to);
                        check.require(
                            legal,
                            "lifecycle",
                            Rule::Transition,
                            format_args!("a call may not go from {from} to {to}"),
                        );
                        lifecycle = Some(to);
                    }
                    (None, _) => {}
                }
                if let Some(new) = &change.parts {
                    new_parts(check, item, new);
                }
                shared::error_option(check, change.error.as_ref());
            });
        });
    }
}

fn new_parts(check: &mut Check, item: &UnifiedItem, new: &[UnifiedContentPart]) {
    let Some(allowed) = takes_parts(item) else {
        check.broken_at("parts", Rule::RevisionChange, "this kind of item has no parts");
        return;
    };
    let known = Known::of(std::iter::empty(), false);
    let mut ids = shared::Ids::of("part");
    parts::ids(check, "parts", new, &mut ids);
    parts::list(check, "parts", new, &known, allowed);
}
