//! A result: status, items, alternatives, usage, losses.

use super::conversation::part_ids;
use super::items::{self, Around};
use super::parts::Known;
use super::path::Walk;
use super::shared::{self, Ids};
use super::usage;
use crate::UnifiedResultV2;
use crate::item::{ItemStatus, UnifiedItem, UnifiedItemBody};
use crate::status::{ResponseState, UnifiedFinishReason, UnifiedResponseStatus};
use crate::tool::Execution;
use crate::validate::{Check, Pending, Rule};
use std::collections::HashSet;

pub(super) fn check(check: &mut Check, result: &UnifiedResultV2, pending: Pending) {
    for (member, id) in [
        ("responseId", Some(&result.response_id)),
        ("conversationId", result.conversation_id.as_ref()),
        ("operationId", result.operation_id.as_ref()),
    ] {
        check.require(
            !id.is_some_and(crate::UnifiedId::is_pending),
            member,
            Rule::PendingId,
            "leave it out when it is not known",
        );
    }
    check.inside("status", |check| status(check, &result.status));
    let all = || {
        result
            .output
            .iter()
            .chain(result.alternatives.iter().flatten().flat_map(|a| &a.output))
    };
    let mut known = Known::of(all(), false);
    known.answer = true;
    let around = Around {
        pending,
        conversation: result.conversation_id.as_ref(),
        known: &known,
    };
    let (mut ids, mut part_ids) = (Ids::of("item"), Ids::of("part"));
    output(check, &result.output, &result.status, &around, &mut ids, &mut part_ids);
    let mut indexes = HashSet::new();
    check.each("alternatives", result.alternatives.iter().flatten(), |check, alternative| {
        check.require(
            alternative.index >= 1 && indexes.insert(alternative.index),
            "index",
            Rule::Alternatives,
            "from 1 on, each once; candidate 0 is the output",
        );
        check.inside("status", |check| status(check, &alternative.status));
        output(check, &alternative.output, &alternative.status, &around, &mut ids, &mut part_ids);
    });
    usage::check(check, result.usage.as_ref());
    shared::error_option(check, result.error.as_ref());
    shared::loss(check, result.loss.as_ref());
    check.inside("provenance", |check| {
        shared::attribution(check, "attribution", &result.provenance.attribution);
        check.secret_free_option("providerRequestId", result.provenance.provider_request_id.as_ref());
        check.each("attempts", result.provenance.attempts.iter().flatten(), |check, attempt| {
            shared::attribution(check, "attribution", &attempt.attribution);
        });
    });
    check.inside("model", |check| {
        check.secret_free("model", &result.model.model);
        check.secret_free_option("requested", result.model.requested.as_ref());
    });
    if let Some(state) = &result.state {
        check.inside("state", |check| {
            let mut made = Ids::of("checkpoint");
            check.inside("checkpoints", |check| {
                for (index, id) in state.checkpoints.iter().enumerate() {
                    made.add(check, &index.to_string(), id);
                }
            });
            let mut resources = Ids::of("resource");
            check.each("resources", &state.resources, |check, resource| {
                resources.add(check, "resourceId", &resource.resource_id);
            });
        });
    }
}

/// State and finish reason.
pub(super) fn status(check: &mut Check, status: &UnifiedResponseStatus) {
    let ended = !matches!(status.state, ResponseState::Queued | ResponseState::InProgress);
    match status.finish_reason {
        Some(reason) => {
            let state = reason.state();
            check.require(
                status.state == state,
                "finishReason",
                Rule::FinishReason,
                format_args!("{reason} goes with the state {state}"),
            );
        }
        None => check.require(
            !ended,
            "finishReason",
            Rule::FinishReason,
            format_args!("a response that is {} says why", status.state),
        ),
    }
    check.secret_free_option("originalReason", status.original_reason.as_ref());
}

fn output<'a>(
    check: &mut Check,
    list: &'a [UnifiedItem],
    status: &UnifiedResponseStatus,
    around: &Around<'_>,
    ids: &mut Ids<'a>,
    parts: &mut Ids<'a>,
) {
    let ended = matches!(
        status.state,
        ResponseState::Completed | ResponseState::Incomplete | ResponseState::Failed | ResponseState::Cancelled
    );
    let mut walk = Walk::new(false, false);
    check.inside("output", |check| {
        for (index, item) in list.iter().enumerate() {
            check.element(index, |check| {
                ids.add(check, "id", &item.id);
                part_ids(check, item, parts);
                items::one(check, item, around);
                let kept = !ended || item.status != ItemStatus::InProgress;
                check.require(kept, "status", Rule::ItemStatus, "the response has ended");
                if let Some(before) = walk.last() {
                    check.require(
                        item.sequence > before.sequence,
                        "sequence",
                        Rule::Sequence,
                        "sequences rise along the path",
                    );
                    super::conversation::parent(check, item, Some(before), false);
                }
                walk.enter(check, item);
            });
        }
    });
    let asked = list
        .iter()
        .any(|i| matches!(i.body, UnifiedItemBody::ApprovalRequest(_)) && walk.is_open(i));
    let called = list.iter().any(|i| walk.is_open(i) && is_clients(i));
    let expected = if asked {
        UnifiedFinishReason::RequiresAction
    } else {
        UnifiedFinishReason::ToolCalls
    };
    let stops = status.finish_reason == Some(UnifiedFinishReason::Stop);
    check.inside("status", |check| {
        let kept = !(stops && (asked || called));
        check.require(
            kept,
            "finishReason",
            Rule::FinishReason,
            format_args!("somebody has to act, so it is {expected}"),
        );
    });
}

/// Whether a call is the client's to execute.
fn is_clients(item: &UnifiedItem) -> bool {
    let execution = match &item.body {
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => call.execution,
        UnifiedItemBody::ComputerAction(call) => call.execution,
        UnifiedItemBody::CodeExecution(call) => call.execution,
        _ => return false,
    };
    execution == Execution::Client
}
