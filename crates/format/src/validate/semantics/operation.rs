//! An operation, and how it may change.

use super::shared::{self, Ids};
use crate::operation::{OperationState, UnifiedOperation};
use crate::validate::{Check, Rule};
use crate::{Timestamp, UnifiedId, canonical};

pub(super) fn check(check: &mut Check, operation: &UnifiedOperation) {
    for (member, id) in [
        ("operationId", Some(&operation.operation_id)),
        ("conversationId", Some(&operation.conversation_id)),
        ("sourceBranchId", Some(&operation.source_branch_id)),
        ("sourceHeadItemId", operation.source_head_item_id.as_ref()),
        ("resultId", operation.result_id.as_ref()),
    ] {
        check.require(
            !id.is_some_and(UnifiedId::is_pending),
            member,
            Rule::PendingId,
            "an operation knows its place",
        );
    }
    shared::principal(check, &operation.principal_ref);
    let mut inputs = Ids::of("input item");
    check.inside("inputItemIds", |check| {
        for (index, id) in operation.input_item_ids.iter().enumerate() {
            inputs.add(check, &index.to_string(), id);
        }
    });
    if let Some(head) = &operation.source_head_item_id {
        check.require(
            !inputs.has(head),
            "sourceHeadItemId",
            Rule::BranchHead,
            "the head is the one before this turn's own input",
        );
    }
    times(check, operation);
    ending(check, operation);
    job(check, operation);
    if let Some(owner) = &operation.owner {
        shared::owner(check, owner);
    }
    shared::error_option(check, operation.error.as_ref());
    shared::portability(check, operation.portability.as_ref());
    shared::loss(check, operation.loss.as_ref());
    if let Some(report) = &operation.decode_loss {
        check.inside("decodeLoss", |check| shared::loss_entries(check, "entries", &report.entries));
    }
    let lost = operation.loss.as_ref().is_some_and(crate::UnifiedLossReport::is_unsupported);
    let runs = matches!(
        operation.state,
        OperationState::Running | OperationState::RequiresAction | OperationState::Completed
    );
    check.require(
        !(lost && runs),
        "state",
        Rule::OperationLoss,
        "a required intent is lost, so nothing is executed",
    );
}

fn times(check: &mut Check, operation: &UnifiedOperation) {
    let mut follows = |member: &str, earlier: Option<Timestamp>, later: Option<Timestamp>, what: &str| {
        if let (Some(earlier), Some(later)) = (earlier, later) {
            check.require(
                earlier <= later,
                member,
                Rule::OperationTimes,
                format_args!("it comes before {what}"),
            );
        }
    };
    let (created, started, ended) = (Some(operation.created_at), operation.started_at, operation.ended_at);
    follows("startedAt", created, started, "createdAt");
    follows("updatedAt", created, Some(operation.updated_at), "createdAt");
    follows("updatedAt", started, Some(operation.updated_at), "startedAt");
    follows("updatedAt", ended, Some(operation.updated_at), "endedAt");
    follows("endedAt", created, ended, "createdAt");
    follows("endedAt", started, ended, "startedAt");
    follows("cancelRequestedAt", created, operation.cancel_requested_at, "createdAt");
    follows("deadline", created, operation.deadline, "createdAt");
}

fn ending(check: &mut Check, operation: &UnifiedOperation) {
    let state = operation.state;
    let rule = Rule::OperationEnd;
    if state.is_terminal() {
        check.require(
            operation.ended_at.is_some(),
            "endedAt",
            rule,
            format_args!("an operation that is {state} has ended"),
        );
        check.require(
            operation.cleanup_lease.is_none(),
            "cleanupLease",
            rule,
            "an operation that has ended holds no lease",
        );
        check.require(
            operation.polling.is_none(),
            "polling",
            rule,
            "nobody asks for an operation that has ended",
        );
    } else {
        check.require(
            operation.ended_at.is_none(),
            "endedAt",
            rule,
            format_args!("an operation that is {state} goes on"),
        );
        check.require(
            operation.error.is_none(),
            "error",
            rule,
            format_args!("an operation that is {state} has no error"),
        );
    }
    match state {
        OperationState::Queued => check.require(
            operation.started_at.is_none(),
            "startedAt",
            rule,
            "a queued operation has not begun",
        ),
        OperationState::Running | OperationState::RequiresAction => {
            check.require(
                operation.started_at.is_some(),
                "startedAt",
                rule,
                format_args!("an operation that is {state} has begun"),
            );
        }
        OperationState::Completed => {
            check.require(
                operation.result_id.is_some(),
                "resultId",
                rule,
                "a completed operation has a result",
            );
            check.require(operation.error.is_none(), "error", rule, "a completed operation has no error");
            check.require(
                operation.owner.is_some(),
                "owner",
                Rule::Owner,
                "somebody answered, so there is an owner",
            );
        }
        OperationState::Failed => check.require(operation.error.is_some(), "error", rule, "a failed operation says how"),
        OperationState::Cancelled | OperationState::Expired => {}
    }
}

fn job(check: &mut Check, operation: &UnifiedOperation) {
    let job = operation.provider_job.as_ref();
    check.require(
        operation.polling.is_none() || job.is_some(),
        "polling",
        Rule::OperationJob,
        "there is no job to ask for",
    );
    check.require(
        operation.webhook.is_none() || job.is_some(),
        "webhook",
        Rule::OperationJob,
        "there is no job that reports",
    );
    if let Some(polling) = &operation.polling {
        check.inside("polling", |check| {
            check.require(polling.interval_ms > 0, "intervalMs", Rule::Number, "it is above 0");
        });
    }
    let Some(job) = job else { return };
    match operation.owner.as_ref().map(canonical::fingerprint) {
        None => check.broken_at("providerJob", Rule::OperationJob, "a job belongs to an owner"),
        Some(Ok(owner)) => {
            let same = owner == job.owner_fingerprint;
            check.inside("providerJob", |check| {
                check.require(same, "ownerFingerprint", Rule::OperationJob, "the job belongs to another owner");
            });
        }
        Some(Err(_)) => {}
    }
}

/// What may change between two records of one operation.
pub(super) fn change(check: &mut Check, before: &UnifiedOperation, after: &UnifiedOperation) {
    let identity = [
        ("operationId", before.operation_id == after.operation_id),
        ("conversationId", before.conversation_id == after.conversation_id),
        ("principalRef", before.principal_ref == after.principal_ref),
        ("sourceBranchId", before.source_branch_id == after.source_branch_id),
        ("sourceHeadItemId", before.source_head_item_id == after.source_head_item_id),
        ("idempotencyKeyHash", before.idempotency_key_hash == after.idempotency_key_hash),
        ("requestFingerprint", before.request_fingerprint == after.request_fingerprint),
        ("createdAt", before.created_at == after.created_at),
        ("startedAt", before.started_at.is_none() || before.started_at == after.started_at),
    ];
    for (member, same) in identity {
        check.require(same, member, Rule::Identity, "it never changes");
    }
    let legal = before.state == after.state || before.state.may_become(after.state);
    check.require(
        legal,
        "state",
        Rule::Transition,
        format_args!("an operation may not go from {} to {}", before.state, after.state),
    );
    check.require(
        before.updated_at <= after.updated_at,
        "updatedAt",
        Rule::OperationTimes,
        "time does not go back",
    );
    check.require(
        before.last_sequence <= after.last_sequence,
        "lastSequence",
        Rule::EventOrder,
        "events are not taken back",
    );
    let frozen = !before.state.is_terminal() || before == after;
    if !frozen && legal {
        check.broken(Rule::Identity, "an operation that has ended stays as it is");
    }
}
