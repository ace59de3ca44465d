//! A checkpoint, and how its status may change. That it has exactly the specification's members is the decoder's work.

use super::shared;
use crate::operation::UnifiedProviderCheckpoint;
use crate::validate::{Check, Rule};

pub(super) fn check(check: &mut Check, checkpoint: &UnifiedProviderCheckpoint) {
    for (member, id) in [
        ("checkpointId", &checkpoint.checkpoint_id),
        ("conversationId", &checkpoint.conversation_id),
        ("branchId", &checkpoint.branch_id),
        ("journalHeadItemId", &checkpoint.journal_head_item_id),
    ] {
        check.require(!id.is_pending(), member, Rule::PendingId, "a checkpoint knows its place");
    }
    shared::owner(check, &checkpoint.owner);
    check.require(
        !checkpoint.encrypted_payload.0.is_empty(),
        "encryptedPayload",
        Rule::Checkpoint,
        "there is nothing sealed in it",
    );
    if let Some(end) = checkpoint.expires_at {
        check.require(
            checkpoint.created_at <= end,
            "expiresAt",
            Rule::Checkpoint,
            "it ends before it began",
        );
    }
}

/// What may change between two records of one checkpoint: its status, along the table.
pub(super) fn change(check: &mut Check, before: &UnifiedProviderCheckpoint, after: &UnifiedProviderCheckpoint) {
    let legal = before.status == after.status || before.status.may_become(after.status);
    check.require(
        legal,
        "status",
        Rule::Transition,
        format_args!("a checkpoint may not go from {} to {}", before.status, after.status),
    );
    let identity = [
        ("checkpointId", before.checkpoint_id == after.checkpoint_id),
        ("conversationId", before.conversation_id == after.conversation_id),
        ("branchId", before.branch_id == after.branch_id),
        ("journalHeadItemId", before.journal_head_item_id == after.journal_head_item_id),
        ("owner", before.owner == after.owner),
        ("resourceType", before.resource_type == after.resource_type),
        ("createdAt", before.created_at == after.created_at),
    ];
    for (member, same) in identity {
        check.require(same, member, Rule::Identity, "it never changes");
    }
}
