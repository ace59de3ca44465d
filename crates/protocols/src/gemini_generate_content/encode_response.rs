//! Results as responses of the wire, and what responses and streams share.

use super::encode_item::Piece;
use super::encode_part::PartEncoder;
use super::{Dialect, finish, kept, usage};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::google::status;
use crate::keeper::to_json;
use crate::raw::{self, json, object, put_all};
use crate::side;
use crate::turn_usage;
use throughline_format::{Json, UnifiedFinishReason, UnifiedItem, UnifiedResponseStatus, UnifiedResultV2, UnifiedUsage};

/// What was kept of an answer, for its owner.
#[derive(Default)]
pub(super) struct Shell {
    /// Members of each candidate besides its parts.
    candidates: Vec<(u64, Vec<(String, Json)>)>,
    /// The body had no envelope.
    pub(super) bare: bool,
    /// The body named no model.
    pub(super) no_model: bool,
    /// The body had no candidates.
    pub(super) no_candidates: bool,
}

impl Shell {
    /// The kept shell of an answer.
    pub(super) fn of(context: &EncodeContext, native: bool) -> Self {
        let bytes = context.private.root_payload(kept::ANSWER).filter(|_| native);
        let Some(value) = bytes.as_ref().and_then(to_json) else {
            return Self::default();
        };
        let flag = |key: &str| raw::get(&value, key).is_some();
        let list: Vec<Json> = raw::get(&value, "candidates").and_then(|c| c.decode().ok()).unwrap_or_default();
        let one = |c: &Json| {
            let index = raw::get(c, "candidate")?.decode().ok()?;
            Some((index, raw::get(c, "members").map(|m| raw::members(&m)).unwrap_or_default()))
        };
        Self {
            candidates: list.iter().filter_map(one).collect(),
            bare: flag("bare"),
            no_model: flag("noModel"),
            no_candidates: flag("noCandidates"),
        }
    }

    /// Members of a candidate besides its parts, where they are known.
    pub(super) fn members(&self, index: u64) -> Option<&Vec<(String, Json)>> {
        self.candidates
            .iter()
            .find(|(known, _)| *known == index)
            .map(|(_, members)| members)
    }
}

/// Parts of items in order.
pub(super) fn parts(encoder: &mut PartEncoder<'_>, items: &[UnifiedItem], path: &str) -> Vec<Json> {
    let mut made = Vec::new();
    for (n, item) in items.iter().enumerate() {
        for (piece, _) in encoder.item(item, &format!("{path}/{n}"), true) {
            match piece {
                Piece::Part(json) | Piece::Call(json) => made.push(json),
                Piece::Result(json, beside) => {
                    made.push(json);
                    made.extend(beside);
                }
                Piece::Nothing => {}
            }
        }
    }
    made
}

/// The word for a status, reported where it is not exact.
pub(super) fn finish_word(encoder: &mut PartEncoder<'_>, status: &UnifiedResponseStatus, native: bool, path: &str) -> Option<Json> {
    let Some((word, exact)) = finish::word(status, native) else {
        if status.original_reason.is_some() {
            let reason = "the answer goes on; another provider's word for that is not sent";
            encoder
                .loss
                .info(Feature::ResponseFinishReason, format!("{path}/originalReason"), reason);
        }
        return None;
    };
    if exact {
        let at = format!("{path}/finishReason");
        encoder.loss.remark(
            Feature::ResponseFinishReason,
            at,
            "said by the wire's own word, and by the calls themselves",
        );
    } else {
        encoder.loss.warning(
            Feature::ResponseFinishReason,
            format!("{path}/finishReason"),
            "the wire has no such word; the nearest is sent",
        );
    }
    if !native && status.stop_sequence.is_some() {
        encoder.loss.info(
            Feature::ResponseFinishReason,
            format!("{path}/stopSequence"),
            "the wire does not say which text ended the answer",
        );
    }
    if !native && status.safety.is_some() {
        encoder.loss.info(
            Feature::ResponseSafety,
            format!("{path}/safety"),
            "the wire has no room for it beside the reason",
        );
    }
    if !native && status.original_reason.is_some() {
        encoder.loss.info(
            Feature::ResponseFinishReason,
            format!("{path}/originalReason"),
            "another provider's word is not sent",
        );
    }
    Some(json(&word))
}

/// One candidate of the wire.
pub(super) fn candidate(encoder: &mut PartEncoder<'_>, shell: &Shell, index: u64, parts: &[Json], finish: Option<Json>) -> Json {
    let parts = json(parts);
    let Some(members) = shell.members(index) else {
        let content = object(vec![("role".into(), json("model")), ("parts".into(), parts)]);
        let mut members = vec![("content".to_owned(), content)];
        members.extend(finish.map(|word| ("finishReason".to_owned(), word)));
        members.push(("index".into(), json(&index)));
        return object(members);
    };
    let _ = encoder;
    let mut made = Vec::new();
    for (key, value) in members {
        if key != "content" {
            made.push((key.clone(), value.clone()));
            continue;
        }
        let mut content = raw::members(value);
        let untold = content.iter().any(|(key, _)| key == "noParts");
        content.retain(|(key, _)| key != "noParts");
        if !untold {
            content.insert(0, ("parts".to_owned(), parts.clone()));
        }
        made.push((key.clone(), object(content)));
    }
    object(made)
}

/// Usage as it was written, for the same owner, else from the counters.
pub(super) fn usage(encoder: &mut PartEncoder<'_>, counters: Option<&UnifiedUsage>, tier: Option<&str>, native: bool) -> Option<Json> {
    if counters.is_some() {
        encoder.loss.remark(
            Feature::ResponseUsage,
            "/usage",
            "sums are told by their parts, and nothing by absence",
        );
    }
    let own = encoder.context.private.root_payload(kept::USAGE).filter(|_| native);
    if let Some(own) = own.as_ref().and_then(to_json) {
        return Some(own);
    }
    let counters = turn_usage::counters(&mut encoder.loss, counters);
    let Some(counters) = counters.as_ref() else {
        if tier.is_some() {
            let reason = "there are no counters to stand beside";
            encoder.loss.info(Feature::GenerationServiceTier, "/model/serviceTier", reason);
        }
        return None;
    };
    for (member, is_there) in [
        ("inputUncached", turn_usage::hides_uncached(counters)),
        ("cacheWrite", counters.cache_write.is_some()),
        ("cacheWriteByTtl", counters.cache_write_by_ttl.is_some()),
        ("acceptedPrediction", counters.accepted_prediction.is_some()),
        ("rejectedPrediction", counters.rejected_prediction.is_some()),
        ("serverToolCalls", counters.server_tool_calls.is_some()),
        ("cost", counters.cost.is_some()),
        ("others", counters.others.is_some()),
    ] {
        if is_there {
            let path = format!("/usage/{member}");
            encoder.loss.info(Feature::ResponseUsage, path, "the wire has no such counter");
        }
    }
    let Some(made) = usage::encode(counters) else {
        if tier.is_some() {
            let reason = "there are no counters to stand beside";
            encoder.loss.info(Feature::GenerationServiceTier, "/model/serviceTier", reason);
        }
        return None;
    };
    match tier {
        Some(tier @ ("standard" | "flex" | "priority")) => Some(raw::put(&made, "/serviceTier", &json(tier))),
        Some(_) => {
            let reason = "the target has no such class of service";
            encoder.loss.info(Feature::GenerationServiceTier, "/model/serviceTier", reason);
            Some(made)
        }
        None => Some(made),
    }
}

/// A body in its envelope, with the kept fields of the whole.
pub(super) fn wrap(encoder: &PartEncoder<'_>, body: Json, shell: &Shell, native: bool) -> Json {
    let enveloped = encoder.dialect == Dialect::Antigravity && !shell.bare;
    let body = if enveloped { object(vec![("response".into(), body)]) } else { body };
    let bytes = encoder
        .context
        .private
        .root_payload(&side::unmapped_schema(&encoder.profile))
        .filter(|_| native);
    let fields = bytes.map(|bytes| raw::entries(&bytes)).unwrap_or_default();
    put_all(body, &fields)
}

/// Our ID of a response, as the wire's.
pub(super) fn response_id(id: &throughline_format::UnifiedId) -> Json {
    let plain: String = id
        .as_str()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    json(&plain)
}

/// Writes a response body; a failed result becomes an error body.
pub(super) fn encode(dialect: Dialect, result: &UnifiedResultV2, context: &EncodeContext) -> Encoded {
    let model = context.target_model.clone().unwrap_or_else(|| result.model.model.clone());
    let mut encoder = PartEncoder::new(context, dialect, &model);
    encoder.answering = true;
    let native = encoder.is_native(Some(&result.provenance.profile));
    let shell = Shell::of(context, native);
    encoder.loss.report_state(result);
    let own_error = context.private.root_payload(kept::ERROR_BODY);
    let failed = result.status.finish_reason == Some(UnifiedFinishReason::Failed);
    if let (true, Some(error)) = (failed && (own_error.is_some() || shell.candidates.is_empty()), &result.error) {
        let reason = "said by the error body";
        encoder
            .loss
            .remark(Feature::ResponseUsage, "/usage", "an error body holds no counters");
        encoder.loss.remark(Feature::ResponseFinishReason, "/status", reason);
        encoder.loss.remark(Feature::RecordBookkeeping, "/error", reason);
        encoder.loss.remark(Feature::RecordBookkeeping, "/model", reason);
        if !result.output.is_empty() || result.usage.is_some() {
            encoder
                .loss
                .warning(Feature::ConversationItem, "/output", "an error body holds no piece of an answer");
        }
        let own = own_error.as_ref().and_then(to_json).map(|body| body.as_str().to_owned());
        return Encoded {
            body: own.unwrap_or_else(|| status::encode(error).body),
            loss: encoder.loss.finish(),
        };
    }
    let mut candidates = Vec::new();
    if shell.no_candidates {
        parts(&mut encoder, &result.output, "/output");
        let reason = "said by the feedback on the prompt";
        encoder.loss.remark(Feature::ResponseFinishReason, "/status", reason);
    } else {
        let made = parts(&mut encoder, &result.output, "/output");
        let word = finish_word(&mut encoder, &result.status, native, "/status");
        candidates.push(candidate(&mut encoder, &shell, 0, &made, word));
        for (n, other) in result.alternatives.iter().flatten().enumerate() {
            let path = format!("/alternatives/{n}");
            let made = parts(&mut encoder, &other.output, &format!("{path}/output"));
            let word = finish_word(&mut encoder, &other.status, native, &format!("{path}/status"));
            candidates.push(candidate(&mut encoder, &shell, other.index, &made, word));
        }
    }
    if result.error.is_some() {
        encoder
            .loss
            .remark(Feature::RecordBookkeeping, "/error", "said by the word for how the answer ended");
    }
    let mut members = Vec::new();
    if !shell.no_candidates {
        members.push(("candidates".to_owned(), json(&candidates)));
    }
    members.extend(
        usage(&mut encoder, result.usage.as_ref(), result.model.service_tier.as_deref(), native).map(|u| ("usageMetadata".to_owned(), u)),
    );
    if !shell.no_model {
        members.push(("modelVersion".into(), json(&model)));
    }
    if !native {
        members.push(("responseId".into(), response_id(&result.response_id)));
    }
    let body = wrap(&encoder, object(members), &shell, native);
    Encoded {
        body: body.as_str().to_owned(),
        loss: encoder.loss.finish(),
    }
}
