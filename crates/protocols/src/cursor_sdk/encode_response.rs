//! Results of runs to the wire.

use super::private::{FORM, RUN, UNMAPPED};
use super::{is_own, usage};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::object::Object;
use crate::projection::LossCollector;
use throughline_format::loss::LossSeverity;
use throughline_format::resource::ResourceType;
use throughline_format::status::{ResponseState, UnifiedFinishReason, UnifiedResponseStatus};
use throughline_format::{PartBody, UnifiedItemBody, UnifiedResultV2};

/// Writes a result: the text of the answer and how the run stands. Calls are no part of it.
pub(super) fn encode(result: &UnifiedResultV2, context: &EncodeContext) -> Encoded {
    let mut loss = LossCollector::new();
    let own = is_own(Some(&result.provenance.profile));
    let mut text = String::new();
    for (index, item) in result.output.iter().enumerate() {
        let path = format!("/output/{index}");
        let UnifiedItemBody::Message(message) = &item.body else {
            let feature = match &item.body {
                UnifiedItemBody::Reasoning(_) => Feature::ReasoningText,
                _ => Feature::ToolCallHosted,
            };
            let reason = "the result of a run is its text; a stream of it has the rest";
            loss.add_for(LossSeverity::Warning, feature, path, reason, Some(&item.id));
            continue;
        };
        for (number, part) in message.parts.iter().enumerate() {
            let path = format!("{path}/parts/{number}");
            match &part.body {
                PartBody::Text(part) => {
                    if part.annotations.is_some() || part.logprobs.is_some() {
                        loss.info(Feature::Citation, path, "the result of a run is its text");
                    }
                    text.push_str(&part.text);
                }
                PartBody::Refusal(refusal) => {
                    loss.info(Feature::PartRefusal, path, "as text");
                    text.push_str(&refusal.text);
                }
                PartBody::Json(data) => {
                    loss.info(Feature::PartJson, path, "as text");
                    text.push_str(data.value.as_str());
                }
                PartBody::Image(_)
                | PartBody::Audio(_)
                | PartBody::Video(_)
                | PartBody::Document(_)
                | PartBody::File(_)
                | PartBody::Binary(_)
                | PartBody::Reasoning(_)
                | PartBody::Citation(_)
                | PartBody::GroundingSource(_)
                | PartBody::ArtifactReference(_) => {
                    loss.warning(Feature::PartFile, path, "the result of a run is its text");
                }
            }
        }
    }
    let state = result.state.as_ref();
    let handle = |kind: ResourceType| {
        let mut known = state?.resources.iter().filter(|r| r.resource_type == kind);
        let bytes = known.find_map(|r| context.private.payload(&r.resource_id))?;
        String::from_utf8(bytes.to_vec()).ok()
    };
    let agent = handle(ResourceType::Session);
    let id = handle(ResourceType::Run).unwrap_or_else(|| format!("run-{}", result.response_id));
    if state.is_some() {
        loss.renamed("/state", format!("the handles are the provider's ({RUN})"));
    }
    let forms: Vec<String> = context
        .private
        .root_payload(FORM)
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let has = |form: &str| forms.iter().any(|known| known == form);
    let word = forms.iter().find_map(|form| form.strip_prefix("status:"));
    let mut body = Object::default()
        .with("id", &id)
        .with_some("agentId", agent.as_ref())
        .with_some("requestId", result.provenance.provider_request_id.as_ref())
        .with("status", word.unwrap_or_else(|| status_word(&result.status)))
        .with_some("result", (!has("no-result") || !text.is_empty()).then_some(&text));
    let model = context.target_model.as_ref().unwrap_or(&result.model.model);
    if has("model-word") {
        body = body.with("model", model);
    } else if !has("no-model") {
        body = body.with("model", &Object::default().with("id", model));
    } else {
        loss.renamed("/model", "nobody named a model");
    }
    if let Some(counters) = &result.usage {
        let (value, lost) = usage::encode(counters);
        if let Some(value) = value {
            body.set("usage", value);
        }
        for member in lost {
            loss.info(
                Feature::ResponseUsage,
                format!("/usage/{member}"),
                "the target has no counter for it",
            );
        }
    }
    if let Some(error) = result.error.as_ref().filter(|_| !has("no-error")) {
        body = body.with(
            "error",
            &Object::default().with("code", &error.code).with("message", &error.message),
        );
        loss.info(Feature::ResponseFinishReason, "/error", "the target says code and message");
    }
    for entry in crate::keeper::unmapped_in(context.private.root_payload(UNMAPPED)) {
        body.put(&entry.pointer, entry.value);
    }
    loss.renamed("/status", "as finished, error or cancelled");
    if !own {
        loss.info(
            Feature::ResponseFinishReason,
            "/status",
            "the target says finished, error or cancelled",
        );
        for (member, there) in [
            ("requested", result.model.requested.is_some()),
            ("modelProvider", result.model.model_provider.is_some()),
            ("version", result.model.version.is_some()),
            ("family", result.model.family.is_some()),
            ("serviceTier", result.model.service_tier.is_some()),
        ] {
            if there {
                loss.info(
                    Feature::RecordBookkeeping,
                    format!("/model/{member}"),
                    "the target names the model only",
                );
            }
        }
    }
    for number in 0..result.alternatives.as_ref().map_or(0, Vec::len) {
        loss.warning(
            Feature::ResponseCandidates,
            format!("/alternatives/{number}"),
            "the target has one answer",
        );
    }
    Encoded {
        body: body.to_json().as_str().to_owned(),
        loss: loss.finish(),
    }
}

/// The status of a run. What was cut at a limit is finished here; what was torn is no answer that anybody may take for a whole one.
pub(super) const fn status_word(status: &UnifiedResponseStatus) -> &'static str {
    match (status.state, &status.finish_reason) {
        (ResponseState::Queued | ResponseState::InProgress | ResponseState::RequiresAction, _) => "running",
        (
            ResponseState::Incomplete,
            Some(UnifiedFinishReason::Interrupted | UnifiedFinishReason::Unknown | UnifiedFinishReason::Failed) | None,
        )
        | (ResponseState::Failed, _) => "error",
        (ResponseState::Completed | ResponseState::Incomplete, _) => "finished",
        (ResponseState::Cancelled, _) => "cancelled",
    }
}
