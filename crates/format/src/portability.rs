//! Whether a history can go to a target: the explicit decision with its reasons (spec, Conversation identity and completeness).
//!
//! Complete history is portable to every target. Partial history goes anywhere with a loss: what is missing stays missing.
//! History that is only a reference continues at its owner and nowhere else. The decision does not depend on who asks;
//! [`loss`] tells what it means for one who continues privately, and for one who does not.

use crate::UnifiedId;
use crate::conversation::{
    Completeness, MissingReason, PortabilityReason, PortabilityVerdict, UnifiedConversationInput, UnifiedMissingRange,
    UnifiedPortabilityDecision,
};
use crate::item::UnifiedItemBody;
use crate::loss::{LossSeverity, UnifiedLossEntry};
use crate::profile::{ProtocolFamily, UnifiedProtocolProfile};
use crate::resource::ResourceType;
use std::collections::HashSet;

/// Feature word of the losses that a decision means.
pub const FEATURE: &str = "conversation.portability";

/// Most reasons that name single items; one more tells how many were left out.
const MAX_ITEM_REASONS: usize = 64;

/// Kinds of provider state that a family can go on from by reference.
pub const fn continues_from(family: &ProtocolFamily) -> &'static [ResourceType] {
    match family {
        ProtocolFamily::OpenAiResponses => &[ResourceType::Response, ResourceType::Conversation],
        ProtocolFamily::GeminiInteractions => &[ResourceType::Interaction],
        ProtocolFamily::CursorSdk => &[ResourceType::Session, ResourceType::Run],
        ProtocolFamily::OpenAiChat
        | ProtocolFamily::AnthropicMessages
        | ProtocolFamily::GeminiGenerateContent
        | ProtocolFamily::VertexGemini
        | ProtocolFamily::Antigravity
        | ProtocolFamily::VercelUiMessage
        | ProtocolFamily::Other(_) => &[],
    }
}

/// The decision for one target.
pub fn decide(conversation: &UnifiedConversationInput, target: &UnifiedProtocolProfile) -> UnifiedPortabilityDecision {
    let (decision, reasons) = match conversation.completeness {
        Completeness::Complete => (
            PortabilityVerdict::Portable,
            vec![reason("history.complete", "all observable history is here")],
        ),
        Completeness::Partial => (PortabilityVerdict::PortableWithLoss, partial(conversation, target)),
        Completeness::ReferenceOnly => (PortabilityVerdict::OwnerOnly, reference_only(conversation, target)),
    };
    UnifiedPortabilityDecision {
        decision,
        target: target.clone(),
        reasons,
    }
}

fn reason(code: &str, message: impl Into<String>) -> PortabilityReason {
    PortabilityReason {
        code: code.to_owned(),
        message: message.into(),
        item_id: None,
    }
}

fn partial(conversation: &UnifiedConversationInput, target: &UnifiedProtocolProfile) -> Vec<PortabilityReason> {
    let ranges = conversation.missing.as_deref().unwrap_or_default();
    let mut reasons = missing(ranges);
    if reasons.is_empty() {
        reasons.push(reason(
            "history.partial",
            "a part of the history is missing, and nothing tells which",
        ));
    }
    reasons.extend(torn(conversation));
    if conversation.continuations.as_ref().is_some_and(|c| !c.is_empty()) {
        reasons.push(continuation(conversation, target));
    }
    reasons
}

fn reference_only(conversation: &UnifiedConversationInput, target: &UnifiedProtocolProfile) -> Vec<PortabilityReason> {
    let mut reasons = vec![
        reason(
            "history.reference-only",
            "the history is held by a provider and cannot be rebuilt from here",
        ),
        continuation(conversation, target),
    ];
    reasons.extend(missing(conversation.missing.as_deref().unwrap_or_default()));
    reasons
}

/// What the target family can do with the state that the history continues.
fn continuation(conversation: &UnifiedConversationInput, target: &UnifiedProtocolProfile) -> PortabilityReason {
    let family = &target.family;
    let legal = continues_from(family);
    let held = conversation.continuations.iter().flatten();
    if legal.is_empty() {
        return reason(
            "target.stateless",
            format!("{} has no way to continue from a provider's state", family_word(family)),
        );
    }
    if held.into_iter().any(|c| legal.contains(&c.resource_type)) {
        return reason(
            "target.owner",
            format!("{} can continue, when the target is the owner of the state", family_word(family)),
        );
    }
    reason(
        "target.other-state",
        format!("{} cannot continue from this kind of state", family_word(family)),
    )
}

/// A family in a message: an unknown one is the client's text and is not repeated.
fn family_word(family: &ProtocolFamily) -> &str {
    match family {
        ProtocolFamily::Other(_) => "the target",
        known => known.as_str(),
    }
}

fn missing(ranges: &[UnifiedMissingRange]) -> Vec<PortabilityReason> {
    let mut reasons: Vec<_> = ranges
        .iter()
        .take(MAX_ITEM_REASONS)
        .map(|range| {
            let (code, why) = match &range.reason {
                MissingReason::NotSent => ("missing.not-sent", "the client did not send it"),
                MissingReason::TruncatedBySource => ("missing.truncated-by-source", "the source cut it"),
                MissingReason::Expired => ("missing.expired", "it is no longer kept"),
                MissingReason::ProviderHeld => ("missing.provider-held", "only the provider has it"),
                MissingReason::Other(_) => ("missing.other", "the source gives another reason"),
            };
            let count = range.count.map_or_else(|| "some history".to_owned(), |n| format!("{n} items"));
            PortabilityReason {
                code: code.to_owned(),
                message: format!("{count} missing: {why}"),
                item_id: range.after_item_id.clone().or_else(|| range.before_item_id.clone()),
            }
        })
        .collect();
    if ranges.len() > MAX_ITEM_REASONS {
        reasons.push(reason(
            "missing.more",
            format!("{} more ranges are missing", ranges.len() - MAX_ITEM_REASONS),
        ));
    }
    reasons
}

/// Results whose call lies in what is missing: every family pairs them, so they go as text.
fn torn(conversation: &UnifiedConversationInput) -> Vec<PortabilityReason> {
    let mut calls: HashSet<&str> = HashSet::new();
    let (mut torn, mut more) = (Vec::new(), 0_usize);
    for item in &conversation.items {
        let Some(id) = item.call_id() else { continue };
        let is_call = matches!(
            item.body,
            UnifiedItemBody::ToolCall(_)
                | UnifiedItemBody::ServerToolCall(_)
                | UnifiedItemBody::ComputerAction(_)
                | UnifiedItemBody::CodeExecution(_)
        );
        if is_call {
            calls.insert(id);
        } else if !calls.contains(id) {
            if torn.len() < MAX_ITEM_REASONS {
                torn.push(about_item(
                    "pairing.result-without-call",
                    "the call of this result is missing",
                    &item.id,
                ));
            } else {
                more += 1;
            }
        }
    }
    if more > 0 {
        torn.push(reason("pairing.more", format!("{more} more results are without their call")));
    }
    torn
}

fn about_item(code: &str, message: &str, item: &UnifiedId) -> PortabilityReason {
    PortabilityReason {
        item_id: Some(item.clone()),
        ..reason(code, message)
    }
}

/// What a decision means for a projection: nothing when the history is portable or its owner continues privately,
/// a warning when something is missing, an error when the history cannot leave its owner.
pub fn loss(decision: &UnifiedPortabilityDecision, continues_privately: bool) -> Option<UnifiedLossEntry> {
    let (severity, why) = match decision.decision {
        PortabilityVerdict::Portable => return None,
        PortabilityVerdict::PortableWithLoss | PortabilityVerdict::OwnerOnly if continues_privately => return None,
        PortabilityVerdict::PortableWithLoss => (LossSeverity::Warning, "a part of the history is not here"),
        PortabilityVerdict::OwnerOnly => (LossSeverity::Error, "the history is held by another provider"),
    };
    let codes: Vec<&str> = decision.reasons.iter().take(8).map(|r| r.code.as_str()).collect();
    Some(UnifiedLossEntry {
        path: "/conversation".to_owned(),
        feature: FEATURE.to_owned(),
        severity,
        reason: format!("{why} ({})", codes.join(", ")),
        source_item_id: None,
        target_capability: None,
    })
}
