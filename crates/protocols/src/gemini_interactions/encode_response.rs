//! Results as interactions of the wire.

use super::encode_step::StepEncoder;
use super::{errors, kept, usage};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::keeper::to_json;
use crate::raw::{self, json, object};
use crate::turn_usage;
use throughline_format::status::{ResponseState, UnifiedResponseStatus};
use throughline_format::{Json, UnifiedFinishReason, UnifiedId, UnifiedItemBody, UnifiedResultV2, UnifiedUsage};

/// The word for a status, and whether it says exactly that.
pub(super) fn status_word(status: &UnifiedResponseStatus, native: bool) -> (String, bool) {
    if let Some(word) = status.original_reason.as_ref().filter(|_| native) {
        return (word.clone(), true);
    }
    let (word, exact) = match status.finish_reason {
        None if status.state == ResponseState::Queued => ("queued", true),
        None => ("in_progress", true),
        Some(UnifiedFinishReason::Stop) => ("completed", true),
        Some(UnifiedFinishReason::ToolCalls | UnifiedFinishReason::RequiresAction) => ("requires_action", true),
        Some(UnifiedFinishReason::Length | UnifiedFinishReason::Incomplete) => ("incomplete", true),
        Some(UnifiedFinishReason::Paused) => ("requires_continuation", true),
        Some(UnifiedFinishReason::Failed) => ("failed", true),
        Some(UnifiedFinishReason::Cancelled) => ("cancelled", true),
        Some(UnifiedFinishReason::Refusal) => ("completed", false),
        Some(
            UnifiedFinishReason::ContentFilter
            | UnifiedFinishReason::MaxContext
            | UnifiedFinishReason::MalformedToolCall
            | UnifiedFinishReason::Interrupted
            | UnifiedFinishReason::Unknown,
        ) => ("incomplete", false),
    };
    (word.to_owned(), exact)
}

/// The word, reported where it is not exact.
pub(super) fn status(encoder: &mut StepEncoder<'_>, status: &UnifiedResponseStatus, native: bool) -> Json {
    let (word, exact) = status_word(status, native);
    if exact {
        let reason = "said by the status of the interaction";
        encoder.loss.remark(Feature::ResponseFinishReason, "/status", reason);
    } else {
        let reason = "the wire has no such status; the nearest is sent";
        encoder.loss.warning(Feature::ResponseFinishReason, "/status", reason);
    }
    json(&word)
}

/// Counters as they were written, for the same owner, else from the record.
pub(super) fn counters(encoder: &mut StepEncoder<'_>, own: Option<Json>, usage: Option<&UnifiedUsage>, native: bool) -> Option<Json> {
    if usage.is_some() {
        let reason = "sums are told by their parts";
        encoder.loss.remark(Feature::ResponseUsage, "/usage", reason);
    }
    if let Some(own) = own.filter(|_| native) {
        return Some(own);
    }
    let usage = &turn_usage::counters(&mut encoder.loss, usage)?;
    for (member, is_there) in [
        ("inputUncached", turn_usage::hides_uncached(usage)),
        ("cacheWrite", usage.cache_write.is_some()),
        ("cacheWriteByTtl", usage.cache_write_by_ttl.is_some()),
        ("acceptedPrediction", usage.accepted_prediction.is_some()),
        ("rejectedPrediction", usage.rejected_prediction.is_some()),
        ("serverToolCalls", usage.server_tool_calls.is_some()),
        ("cost", usage.cost.is_some()),
        ("others", usage.others.is_some()),
    ] {
        if is_there {
            let path = format!("/usage/{member}");
            encoder.loss.info(Feature::ResponseUsage, path, "the wire has no such counter");
        }
    }
    Some(usage::encode(usage))
}

/// Our ID of a response, as the wire's.
pub(super) fn interaction_id(id: &UnifiedId) -> Json {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    json(&id.as_str().chars().map(plain).collect::<String>())
}

/// The class of service, where the wire has it.
pub(super) fn service_tier(encoder: &mut StepEncoder<'_>, tier: Option<&str>) -> Option<Json> {
    match tier {
        Some("standard" | "flex" | "priority" | "deferred") => tier.map(json),
        Some(_) => {
            let reason = "the target has no such class of service";
            encoder.loss.info(Feature::GenerationServiceTier, "/model/serviceTier", reason);
            None
        }
        None => None,
    }
}

/// What was kept of an interaction, under the ID by which its client finds it again.
pub(super) fn shell(context: &EncodeContext, native: bool) -> Vec<(String, Json)> {
    let bytes = context.private.root_payload(kept::ANSWER).filter(|_| native);
    let mut shell = bytes.as_ref().and_then(to_json).map(|json| raw::members(&json)).unwrap_or_default();
    if let (Some(ours), false) = (&context.answer_id, shell.is_empty()) {
        shell.retain(|(key, _)| key != "id");
        shell.insert(0, ("id".to_owned(), interaction_id(ours)));
    }
    shell
}

/// Writes a response body; a failed result becomes an error body.
pub(super) fn encode(result: &UnifiedResultV2, context: &EncodeContext) -> Encoded {
    let mut encoder = StepEncoder::new(context);
    encoder.answering = true;
    let native = encoder.is_native(Some(&result.provenance.profile));
    let shell = shell(context, native);
    let own_error = context.private.root_payload(kept::ERROR_BODY);
    let failed = result.status.finish_reason == Some(UnifiedFinishReason::Failed);
    if let (true, Some(error)) = (failed && (own_error.is_some() || shell.is_empty()), &result.error) {
        let reason = "said by the error body";
        for path in ["/status", "/error", "/model"] {
            encoder.loss.remark(Feature::RecordBookkeeping, path, reason);
        }
        if !result.output.is_empty() || result.usage.is_some() {
            let reason = "an error body holds no piece of an answer";
            encoder.loss.warning(Feature::ConversationItem, "/output", reason);
            encoder.loss.info(Feature::ResponseUsage, "/usage", reason);
        }
        let own = own_error.as_ref().and_then(to_json).map(|body| body.as_str().to_owned());
        return Encoded {
            body: own.unwrap_or_else(|| errors::encode(error).body),
            loss: encoder.loss.finish(),
        };
    }
    for (n, _) in result.state.iter().flat_map(|s| &s.resources).enumerate() {
        let path = format!("/state/resources/{n}");
        if native {
            encoder.loss.remark(Feature::StateResources, path, "the interaction's own handle");
        } else {
            encoder.loss.info(Feature::StateResources, path, "a resource of another provider");
        }
    }
    encoder.loss.untold_error(result);
    if result.alternatives.is_some() {
        let reason = "the wire has one answer";
        encoder.loss.warning(Feature::ResponseCandidates, "/alternatives", reason);
    }
    let mut steps = Vec::new();
    for (n, item) in result.output.iter().enumerate() {
        let path = format!("/output/{n}");
        if let UnifiedItemBody::Reasoning(thought) = &item.body
            && thought.parts.iter().all(|p| p.as_text().is_none_or(str::is_empty))
            && !native
        {
            let reason = "there is nothing to tell of it";
            encoder.loss.info(Feature::ReasoningRedacted, path, reason);
            continue;
        }
        steps.extend(encoder.item(item, &path));
    }
    let had_steps = !steps.is_empty() || !native;
    let own_usage = shell.iter().find(|(key, _)| key == "usage").map(|(_, usage)| usage.clone());
    let word = status(&mut encoder, &result.status, native);
    let counted = counters(&mut encoder, own_usage, result.usage.as_ref(), native);
    let mut members = shell;
    if members.is_empty() {
        members.push(("id".to_owned(), interaction_id(&result.response_id)));
        members.push(("object".into(), json("interaction")));
        members.push(("model".into(), json(context.target_model.as_ref().unwrap_or(&result.model.model))));
        members.push(("status".into(), word));
        members.extend(counted.map(|u| ("usage".to_owned(), u)));
        members.extend(service_tier(&mut encoder, result.model.service_tier.as_deref()).map(|tier| ("service_tier".to_owned(), tier)));
        if !native && (result.status.original_reason.is_some() || result.status.stop_sequence.is_some() || result.status.safety.is_some()) {
            let reason = "another provider's word and detail of the ending are not sent";
            encoder.loss.info(Feature::ResponseFinishReason, "/status", reason);
        }
    }
    if had_steps {
        members.push(("steps".into(), json(&steps)));
    }
    Encoded {
        body: object(members).as_str().to_owned(),
        loss: encoder.loss.finish(),
    }
}
