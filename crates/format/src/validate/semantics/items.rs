//! Items, each for itself; what they are to each other stands in [`super::path`].

use super::parts::{self, Allowed, Known};
use super::path::Walk;
use super::shared;
use crate::item::{
    CompactionSummaryItem, ComputerActionItem, ItemStatus, MessageItem, ReferenceTarget, Role, ToolCallItem, UnifiedItem, UnifiedItemBase,
    UnifiedItemBody,
};
use crate::lifecycle::UnifiedToolLifecycle;
use crate::provenance::{ItemOrigin, UnifiedItemProvenance};
use crate::tool::UnifiedToolType;
use crate::validate::{Check, Pending, Rule};
use crate::{Json, UnifiedError, UnifiedId};
use serde::de::IgnoredAny;

/// What an item stands in.
pub(super) struct Around<'a> {
    pub(super) pending: Pending,
    /// The conversation of the record, when it is known.
    pub(super) conversation: Option<&'a UnifiedId>,
    pub(super) known: &'a Known<'a>,
}

/// The rules of an item alone.
pub(super) fn one(check: &mut Check, item: &UnifiedItem, around: &Around<'_>) {
    place(check, item, around);
    provenance(check, &item.provenance);
    shared::cache_mark(check, item.cache.as_ref());
    shared::data_refs(check, item.provider_data.as_ref());
    match &item.body {
        UnifiedItemBody::Message(message) => self::message(check, item, message, around),
        UnifiedItemBody::Reasoning(reasoning) => parts::list(check, "parts", &reasoning.parts, around.known, Allowed::Reasoning),
        UnifiedItemBody::ToolCall(call) => tool_call(check, item, call),
        UnifiedItemBody::ServerToolCall(call) => {
            tool_call(check, item, call);
            let hosted = !matches!(call.tool_type, UnifiedToolType::Function | UnifiedToolType::Custom);
            check.require(hosted, "toolType", Rule::CallName, "a hosted tool's call names its type");
        }
        UnifiedItemBody::ToolResult(r) => call_result(check, &r.call_id, r.is_error, r.error.as_ref(), &r.output, around),
        UnifiedItemBody::ServerToolResult(r) => call_result(check, &r.call_id, r.is_error, r.error.as_ref(), &r.output, around),
        UnifiedItemBody::ComputerActionResult(r) => {
            call_result(check, &r.call_id, r.is_error, r.error.as_ref(), &r.output, around);
            if let Some(address) = &r.current_url {
                let has_password = shared::user_info(address).is_some();
                check.require(
                    !has_password,
                    "currentUrl",
                    Rule::Url,
                    "user name and password belong in the execution context",
                );
            }
        }
        UnifiedItemBody::CodeExecutionResult(r) => call_result(check, &r.call_id, None, r.error.as_ref(), &r.output, around),
        UnifiedItemBody::ApprovalRequest(request) => {
            shared::foreign_id(check, "approvalId", &request.approval_id);
            if let Some(id) = &request.call_id {
                shared::foreign_id(check, "callId", id);
            }
        }
        UnifiedItemBody::ApprovalResponse(response) => shared::foreign_id(check, "approvalId", &response.approval_id),
        UnifiedItemBody::ComputerAction(action) => computer_action(check, item, action),
        UnifiedItemBody::CodeExecution(code) => {
            shared::foreign_id(check, "callId", &code.call_id);
            lifecycle(check, item, code.lifecycle);
            if let Some(id) = code.caller.as_ref().and_then(|c| c.call_id.as_ref()) {
                check.inside("caller", |check| shared::foreign_id(check, "callId", id));
            }
        }
        UnifiedItemBody::SearchResult(found) | UnifiedItemBody::RetrievalResult(found) => {
            if let Some(id) = &found.call_id {
                shared::foreign_id(check, "callId", id);
            }
            parts::list(check, "parts", &found.parts, around.known, Allowed::Sources);
            shared::error_option(check, found.error.as_ref());
        }
        UnifiedItemBody::Artifact(artifact) => {
            parts::metadata(check, "media", &artifact.media);
            parts::same_digest(check, artifact.media.sha256.as_ref(), &artifact.sha256);
        }
        UnifiedItemBody::Reference(reference) => check.inside("target", |check| match &reference.target {
            ReferenceTarget::Item(target) => around.known.item(check, "itemId", &target.item_id),
            ReferenceTarget::Resource(_) => {}
            ReferenceTarget::Url(target) => shared::url(check, "url", &target.url),
        }),
        UnifiedItemBody::CompactionSummary(summary) => self::summary(check, summary, around),
        UnifiedItemBody::ProviderSwitch(switch) => {
            shared::attribution(check, "to", &switch.to);
            if let Some(from) = &switch.from {
                shared::attribution(check, "from", from);
            }
        }
        UnifiedItemBody::Interruption(interruption) => {
            check.each("openCallIds", &interruption.open_call_ids, |check, id| {
                let kept = (1..=512).contains(&id.len()) && !id.chars().any(char::is_control);
                if !kept {
                    check.broken(Rule::CallId, "1 to 512 bytes, no control characters");
                }
            });
        }
        UnifiedItemBody::Error(error) => shared::error(check, "error", &error.error),
    }
}

/// The rules of a page of items, which is the place of `check`.
pub(super) fn page(check: &mut Check, list: &[UnifiedItem], around: &Around<'_>) {
    let (mut ids, mut part_ids) = (shared::Ids::of("item"), shared::Ids::of("part"));
    let mut walk = Walk::new(false, false);
    for (index, item) in list.iter().enumerate() {
        check.element(index, |check| {
            ids.add(check, "id", &item.id);
            super::conversation::part_ids(check, item, &mut part_ids);
            one(check, item, around);
            if let Some(before) = walk.last() {
                let rises = item.sequence > before.sequence;
                check.require(rises, "sequence", Rule::Sequence, "sequences rise along the path");
                super::conversation::parent(check, item, Some(before), false);
            }
            walk.enter(check, item);
        });
    }
    super::conversation::one_conversation(check, list);
    super::conversation::branch_path(check, list, None);
}

/// Conversation and branch: both known or both pending, and of the conversation that the record is about.
fn place(check: &mut Check, item: &UnifiedItemBase, around: &Around<'_>) {
    let (conversation, branch) = (item.conversation_id.is_pending(), item.branch_id.is_pending());
    if item.id.is_pending() {
        check.broken_at("id", Rule::PendingId, "an item has an ID of its own");
    }
    if conversation != branch {
        let member = if conversation { "branchId" } else { "conversationId" };
        check.broken_at(
            member,
            Rule::PendingId,
            "conversation and branch are pending together or not at all",
        );
    } else if conversation && around.pending == Pending::Refused {
        check.broken_at("conversationId", Rule::PendingId, "the item is in a journal, so its place is known");
    } else if let Some(expected) = around.conversation {
        let same = conversation || item.conversation_id == *expected;
        check.require(
            same,
            "conversationId",
            Rule::OtherConversation,
            "the item belongs to another conversation than the record",
        );
    }
    check.require(item.sequence >= 1, "sequence", Rule::Sequence, "sequences count from 1");
}

fn provenance(check: &mut Check, provenance: &UnifiedItemProvenance) {
    check.inside("provenance", |check| {
        check.require(
            provenance.truncated != Some(false),
            "truncated",
            Rule::AlwaysTrue,
            "leave it out instead",
        );
        let made_here = provenance.synthetic.is_none() || provenance.origin == ItemOrigin::Engine;
        check.require(made_here, "synthetic", Rule::SyntheticOrigin, "only the engine makes stand-ins");
        shared::attribution(check, "attribution", &provenance.attribution);
    });
}

fn message(check: &mut Check, item: &UnifiedItem, message: &MessageItem, around: &Around<'_>) {
    check.require(item.role.is_some(), "role", Rule::MessageRole, "a message has a role");
    if message.placement.is_some() {
        let system = matches!(item.role, Some(Role::System | Role::Developer));
        check.require(
            system,
            "placement",
            Rule::Placement,
            "it stands on system and developer messages only",
        );
    }
    parts::list(check, "parts", &message.parts, around.known, Allowed::Content);
}

fn lifecycle(check: &mut Check, item: &UnifiedItem, lifecycle: UnifiedToolLifecycle) {
    let streaming = lifecycle == UnifiedToolLifecycle::ArgumentsStreaming;
    let kept = !streaming || item.status == ItemStatus::InProgress;
    check.require(
        kept,
        "lifecycle",
        Rule::LifecycleStatus,
        format_args!("the item is {}, so its arguments are no longer being written", item.status),
    );
}

fn tool_call(check: &mut Check, item: &UnifiedItem, call: &ToolCallItem) {
    shared::foreign_id(check, "callId", &call.call_id);
    check.require(!call.name.is_empty(), "name", Rule::CallName, "a call names its tool");
    lifecycle(check, item, call.lifecycle);
    if call.input.is_some() {
        let parses = serde_json::from_str::<IgnoredAny>(&call.raw_arguments).is_ok();
        check.require(
            parses,
            "input",
            Rule::CallInput,
            "the argument text is no JSON, so there is no input",
        );
    }
    if let Some(id) = call.caller.as_ref().and_then(|c| c.call_id.as_ref()) {
        check.inside("caller", |check| shared::foreign_id(check, "callId", id));
    }
    if let Some(linkage) = &call.private_linkage {
        check.inside("privateLinkage", |check| {
            shared::data_ref(check, linkage);
            let own = linkage.scope == crate::ProviderDataScope::OwnerPrivate;
            check.require(own, "scope", Rule::AnnotationScope, "private state is owner-private");
        });
    }
}

fn call_result(
    check: &mut Check,
    call_id: &str,
    is_error: Option<bool>,
    error: Option<&UnifiedError>,
    output: &[crate::UnifiedContentPart],
    around: &Around<'_>,
) {
    shared::foreign_id(check, "callId", call_id);
    let contradicts = is_error == Some(false) && error.is_some();
    check.require(!contradicts, "isError", Rule::ResultError, "there is an error, so it is not false");
    shared::error_option(check, error);
    parts::list(check, "output", output, around.known, Allowed::Content);
}

#[derive(serde::Deserialize)]
struct ActionProbe {
    #[serde(default)]
    action: Option<IgnoredAny>,
}

fn computer_action(check: &mut Check, item: &UnifiedItem, action: &ComputerActionItem) {
    shared::foreign_id(check, "callId", &action.call_id);
    lifecycle(check, item, action.lifecycle);
    if let Some(id) = &action.approval_id {
        shared::foreign_id(check, "approvalId", id);
    }
    check.each("actions", &action.actions, |check, json: &Json| {
        let names_it = json.is_object() && json.decode::<ActionProbe>().is_ok_and(|p| p.action.is_some());
        if !names_it {
            check.broken(Rule::ComputerAction, "an action is an object with the member action");
        }
    });
}

fn summary(check: &mut Check, summary: &CompactionSummaryItem, around: &Around<'_>) {
    parts::list(check, "parts", &summary.parts, around.known, Allowed::Content);
    check.inside("covers", |check| {
        check.require(
            summary.covers.count >= 1 || summary.covers.from_item_id == summary.covers.to_item_id,
            "count",
            Rule::CompactionRange,
            "a summary covers at least one item, or names itself when it stands for what is missing",
        );
    });
}
