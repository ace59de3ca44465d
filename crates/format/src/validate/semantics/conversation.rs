//! The history of a request: order, completeness, branch and head, and what its items are to each other.

use super::items::{self, Around};
use super::parts::{self, Known};
use super::path::Walk;
use super::shared::{self, Ids};
use crate::UnifiedId;
use crate::conversation::{Completeness, UnifiedConversation, UnifiedConversationInput};
use crate::item::{ItemStatus, UnifiedItem};
use crate::resource::ResourceType;
use crate::validate::{Check, Pending, Rule};
use std::collections::{HashMap, HashSet};

/// The history, which is the place of `check`. `prefill` is the one item that may be in progress.
pub(super) fn check<'a>(
    check: &mut Check,
    input: &'a UnifiedConversationInput,
    known: &Known<'a>,
    prefill: Option<&UnifiedId>,
    parts: &mut Ids<'a>,
) {
    let whole = input.completeness == Completeness::Complete;
    placed(check, input);
    let around = Around {
        pending: Pending::Allowed,
        conversation: input.conversation_id.as_ref(),
        known,
    };
    let mut ids = Ids::of("item");
    check.each("items", &input.items, |check, item| {
        ids.add(check, "id", &item.id);
        items::one(check, item, &around);
        let running = item.status == ItemStatus::InProgress && prefill != Some(&item.id);
        check.require(
            !running,
            "status",
            Rule::ItemStatus,
            "history is finished; only the prefill is in progress",
        );
    });
    check.inside("items", |check| {
        for (index, item) in input.items.iter().enumerate() {
            check.element(index, |check| part_ids(check, item, parts));
        }
        order(check, input, whole);
        one_conversation(check, &input.items);
        branch_path(check, &input.items, input.branch_id.as_ref());
        let mut walk = Walk::new(whole, whole && Walk::needs_audit(&input.items));
        for (index, item) in input.items.iter().enumerate() {
            check.element(index, |check| walk.enter(check, item));
        }
    });
    completeness(check, input);
    continuations(check, input);
}

/// A conversation as a record, which is the place of `check`.
pub(super) fn record(check: &mut Check, conversation: &UnifiedConversation) {
    for (member, id) in [
        ("conversationId", &conversation.conversation_id),
        ("defaultBranchId", &conversation.default_branch_id),
    ] {
        check.require(!id.is_pending(), member, Rule::PendingId, "a conversation has an ID of its own");
    }
    let ordered = conversation.created_at <= conversation.last_updated_at;
    check.require(ordered, "lastUpdatedAt", Rule::OperationTimes, "it comes before createdAt");
    shared::principal(check, &conversation.principal_ref);
    if let Some(found) = &conversation.metadata {
        check.inside("metadata", |check| super::request::metadata(check, found));
    }
}

/// IDs of the parts of an item.
pub(super) fn part_ids<'a>(check: &mut Check, item: &'a UnifiedItem, seen: &mut Ids<'a>) {
    parts::ids(check, list_member(item), item.parts(), seen);
}

/// The member that holds the parts of an item.
pub(super) fn list_member(item: &UnifiedItem) -> &'static str {
    use crate::item::UnifiedItemBody as B;
    match &item.body {
        B::ToolResult(_) | B::ServerToolResult(_) | B::ComputerActionResult(_) | B::CodeExecutionResult(_) => "output",
        _ => "parts",
    }
}

/// Conversation, branch and head.
fn placed(check: &mut Check, input: &UnifiedConversationInput) {
    for (member, id) in [
        ("conversationId", &input.conversation_id),
        ("branchId", &input.branch_id),
        ("headItemId", &input.head_item_id),
    ] {
        let pending = id.as_ref().is_some_and(UnifiedId::is_pending);
        check.require(!pending, member, Rule::PendingId, "leave it out when it is not known");
    }
    let homeless = input.conversation_id.is_none() && input.branch_id.is_some();
    check.require(
        !homeless,
        "branchId",
        Rule::BranchHead,
        "a branch is named together with its conversation",
    );
    if let Some(head) = &input.head_item_id {
        let last = input.items.last();
        let complete = input.completeness == Completeness::Complete;
        let kept = last.map_or(!complete, |last| last.id == *head);
        check.require(kept, "headItemId", Rule::BranchHead, "the head is the last item");
    }
}

/// Sequences and parents along the path.
fn order(check: &mut Check, input: &UnifiedConversationInput, whole: bool) {
    let declared: HashSet<_> = input
        .missing
        .iter()
        .flatten()
        .map(|m| (m.after_item_id.as_ref(), m.before_item_id.as_ref()))
        .collect();
    let mut before: Option<&UnifiedItem> = None;
    for (index, item) in input.items.iter().enumerate() {
        check.element(index, |check| {
            let position = index as u64 + 1;
            if whole {
                check.require(
                    item.sequence == position,
                    "sequence",
                    Rule::Sequence,
                    format_args!("on a complete path this is item {position}"),
                );
            } else if let Some(before) = before {
                check.require(
                    item.sequence > before.sequence,
                    "sequence",
                    Rule::Sequence,
                    "sequences rise along the path",
                );
                let gap = item.sequence > before.sequence.saturating_add(1);
                let (after, until) = (Some(&before.id), Some(&item.id));
                let told = [(after, until), (after, None), (None, until), (None, None)]
                    .iter()
                    .any(|range| declared.contains(range));
                check.require(
                    !gap || told,
                    "sequence",
                    Rule::Missing,
                    "items are missing before this one that no range declares",
                );
            }
            parent(check, item, before, whole);
        });
        before = Some(item);
    }
}

/// The parent of an item, as far as the item before it is known.
pub(super) fn parent(check: &mut Check, item: &UnifiedItem, before: Option<&UnifiedItem>, whole: bool) {
    let Some(parent) = &item.parent_id else { return };
    match before {
        Some(before) => {
            let adjacent = item.sequence == before.sequence.saturating_add(1) || whole;
            check.require(
                !adjacent || *parent == before.id,
                "parentId",
                Rule::Parent,
                "the parent is the item before it",
            );
        }
        None => check.require(!whole, "parentId", Rule::Parent, "the first item of a path has no parent"),
    }
}

/// Without a conversation of the record, the items still belong to one.
pub(super) fn one_conversation(check: &mut Check, items: &[UnifiedItem]) {
    let mut first = None;
    for (index, item) in items.iter().enumerate().filter(|(_, i)| !i.conversation_id.is_pending()) {
        let expected = *first.get_or_insert(&item.conversation_id);
        check.element(index, |check| {
            check.require(
                item.conversation_id == *expected,
                "conversationId",
                Rule::OtherConversation,
                "earlier items belong to another conversation",
            );
        });
    }
}

/// A path goes through its branches one after the other; it ends on the branch of the record.
pub(super) fn branch_path(check: &mut Check, items: &[UnifiedItem], branch: Option<&UnifiedId>) {
    let (mut left, mut current): (HashSet<&UnifiedId>, Option<&UnifiedId>) = (HashSet::new(), None);
    for (index, item) in items.iter().enumerate().filter(|(_, i)| !i.branch_id.is_pending()) {
        if current == Some(&item.branch_id) {
            continue;
        }
        if let Some(current) = current {
            left.insert(current);
        }
        let back = left.contains(&item.branch_id) || (branch.is_some() && current == branch);
        check.element(index, |check| {
            check.require(
                !back,
                "branchId",
                Rule::BranchPath,
                "the path left this branch, or its last branch, before",
            );
        });
        current = Some(&item.branch_id);
    }
}

fn completeness(check: &mut Check, input: &UnifiedConversationInput) {
    let missing = input.missing.as_deref();
    match input.completeness {
        Completeness::Complete => check.require(
            missing.is_none(),
            "missing",
            Rule::Missing,
            "a complete history has nothing missing",
        ),
        Completeness::Partial => check.require(
            missing.is_some_and(|m| !m.is_empty()),
            "missing",
            Rule::Missing,
            "a partial history declares what is missing",
        ),
        Completeness::ReferenceOnly => {
            let held = input.continuations.as_ref().is_some_and(|c| !c.is_empty())
                || missing.iter().copied().flatten().any(|m| m.resource.is_some());
            check.require(
                held,
                "continuations",
                Rule::Completeness,
                "name the provider's state that holds the history",
            );
        }
    }
    let places: HashMap<&UnifiedId, usize> = input.items.iter().enumerate().map(|(i, item)| (&item.id, i)).collect();
    check.each("missing", input.missing.iter().flatten(), |check, range| {
        let mut find = |member: &str, id: Option<&UnifiedId>| {
            let at = id.and_then(|id| places.get(id)).copied();
            check.require(id.is_none() || at.is_some(), member, Rule::UnknownReference, "no item has this ID");
            at
        };
        let (after, before) = (
            find("afterItemId", range.after_item_id.as_ref()),
            find("beforeItemId", range.before_item_id.as_ref()),
        );
        if let (Some(after), Some(before)) = (after, before) {
            check.require(
                after + 1 == before,
                "beforeItemId",
                Rule::Range,
                "the range lies between two neighbours",
            );
        }
        check.require(range.count != Some(0), "count", Rule::Missing, "nothing is missing in it");
    });
}

/// Whether a resource continues a history by itself.
pub(super) const fn continues(resource_type: &ResourceType) -> bool {
    matches!(
        resource_type,
        ResourceType::Response | ResourceType::Conversation | ResourceType::Interaction | ResourceType::Session
    )
}

fn continuations(check: &mut Check, input: &UnifiedConversationInput) {
    let mut ids = Ids::of("continuation");
    check.each("continuations", input.continuations.iter().flatten(), |check, resource| {
        ids.add(check, "resourceId", &resource.resource_id);
        let fits = continues(&resource.resource_type) || matches!(resource.resource_type, ResourceType::Other(_));
        check.require(
            fits,
            "resourceType",
            Rule::Continuation,
            "what does not continue a history stands in state.resources",
        );
    });
}
