//! What unstreamed and streamed answers to the wire share: citations, probabilities, and what neither can say.

use super::usage;
use crate::feature::Feature;
use crate::projection::LossCollector;
use serde_json::{Value, json};
use throughline_format::citation::{SpanOf, UnifiedSpan, UnifiedTextAnnotation};
use throughline_format::media::UnifiedIndexUnit;
use throughline_format::part::{TopLogprob, UnifiedTokenLogprob};
use throughline_format::result::UnifiedResolvedModel;
use throughline_format::{Count, UnifiedError, UnifiedFinishReason, UnifiedResponseStatus};

/// Token probability on the wire.
pub(super) fn logprob(token: &UnifiedTokenLogprob) -> Value {
    let top = |t: &TopLogprob| json!({"token": t.token, "logprob": t.logprob, "bytes": t.bytes});
    let alternatives: Vec<Value> = token.top.iter().flatten().map(top).collect();
    json!({"token": token.token, "logprob": token.logprob, "bytes": token.bytes, "top_logprobs": alternatives})
}

/// A citation of an address; without a span it is about the whole text. What it does not say is reported at `path`.
pub(super) fn url_citation(
    annotation: &UnifiedTextAnnotation,
    offset: Count,
    text: &str,
    path: &str,
    loss: &mut LossCollector,
) -> Option<Value> {
    let UnifiedTextAnnotation::Citation(citation) = annotation else {
        loss.warning(Feature::Citation, path, "the target cites only addresses");
        return None;
    };
    let Some(url) = &citation.source.uri else {
        loss.warning(Feature::Citation, path, "the target cites only addresses");
        return None;
    };
    let whole = (0, text.chars().count() as Count);
    let of_answer = citation.spans.iter().flatten().position(|s| s.of == SpanOf::Answer);
    let span = of_answer.and_then(|at| citation.spans.iter().flatten().nth(at));
    let (start, end) = match span.map(|s| characters(s, text)) {
        Some(Some(place)) => place,
        Some(None) => {
            let reason = "the target counts characters, and these indexes cannot be told in them; the citation is of the whole text";
            loss.info(Feature::CitationSpan, format!("{path}/spans"), reason);
            whole
        }
        None => whole,
    };
    if let Some(span) = span {
        let spans = format!("{path}/spans/{}", of_answer.unwrap_or_default());
        if matches!(span.unit, UnifiedIndexUnit::Character | UnifiedIndexUnit::CodePoint) {
            loss.remark(
                Feature::CitationSpan,
                format!("{spans}/of"),
                "the target's spans are always of the answer",
            );
            loss.remark(
                Feature::CitationSpan,
                format!("{spans}/unit"),
                "the target's spans are always of characters",
            );
        } else {
            loss.remark(Feature::CitationSpan, spans, "the indexes are told in the target's unit");
        }
    }
    let others = citation.spans.iter().flatten().count() - usize::from(span.is_some());
    let untold = crate::cited::untold(citation, &["source/title"]);
    for member in untold.into_iter().chain((others > 0).then_some("spans")) {
        let reason = "the target says only address, title and place";
        loss.info(Feature::Citation, format!("{path}/{member}"), reason);
    }
    Some(
        json!({"type": "url_citation", "url_citation": {"url": url, "title": citation.source.title.clone().unwrap_or_default(), "start_index": start.saturating_add(offset), "end_index": end.saturating_add(offset)}}),
    )
}

/// Begin and end of a span in characters of the text, as far as its unit tells them.
fn characters(span: &UnifiedSpan, text: &str) -> Option<(Count, Count)> {
    let count = |index: Count| -> Option<Count> {
        let index = usize::try_from(index).ok()?;
        match span.unit {
            UnifiedIndexUnit::Character | UnifiedIndexUnit::CodePoint => Some(index as Count),
            UnifiedIndexUnit::Utf8Byte => text.get(..index).map(|begin| begin.chars().count() as Count),
            UnifiedIndexUnit::Utf16 => {
                let mut units = 0;
                let before = text.chars().take_while(|c| {
                    let is_before = units < index;
                    units += if is_before { c.len_utf16() } else { 0 };
                    is_before
                });
                let characters = before.count() as Count;
                (units == index).then_some(characters)
            }
            UnifiedIndexUnit::Token | UnifiedIndexUnit::Page | UnifiedIndexUnit::Block | UnifiedIndexUnit::None => None,
        }
    };
    Some((count(span.start)?, count(span.end)?))
}

/// What of a status the finish word does not tell.
pub(super) fn status_losses(
    loss: &mut LossCollector,
    status: &UnifiedResponseStatus,
    word: Option<&str>,
    has_calls: bool,
    has_refusal: bool,
    path: &str,
) {
    use UnifiedFinishReason as R;
    if status.original_reason.as_deref().is_some_and(|o| Some(o) != word) {
        loss.info(
            Feature::ResponseFinishReason,
            format!("{path}/originalReason"),
            "the target has another word for it",
        );
    }
    let plain = match status.finish_reason {
        Some(R::Stop) => Some("stop"),
        Some(R::Length) => Some("length"),
        Some(R::ToolCalls) => Some("tool_calls"),
        Some(R::ContentFilter) => Some("content_filter"),
        _ => None,
    };
    if let Some(reason) = status.finish_reason.filter(|_| plain.is_none() || plain != word) {
        let read = usage::status(word, has_calls, has_refusal).finish_reason;
        let at = format!("{path}/finishReason");
        if read == Some(reason) {
            let why = "the target tells it by the provider's own word, or by what the answer holds";
            loss.remark(Feature::ResponseFinishReason, at, why);
        } else {
            loss.info(Feature::ResponseFinishReason, at, "the target has no word for exactly this reason");
        }
    }
    for (member, feature, is_there) in [
        ("stopSequence", Feature::ResponseFinishReason, status.stop_sequence.is_some()),
        ("safety", Feature::ResponseSafety, status.safety.is_some()),
    ] {
        if is_there {
            loss.info(feature, format!("{path}/{member}"), "the target has no form for it");
        }
    }
}

/// What of the model an answer does not tell.
pub(super) fn model_losses(loss: &mut LossCollector, model: &UnifiedResolvedModel, told: &str) {
    for (member, is_there) in [
        ("requested", model.requested.is_some()),
        ("model", model.model != told),
        ("modelProvider", model.model_provider.is_some()),
        ("family", model.family.is_some()),
        ("version", model.version.is_some()),
    ] {
        if is_there {
            loss.info(
                Feature::ConversationItem,
                format!("/model/{member}"),
                "the target names only the model that answered",
            );
        }
    }
}

/// What of an error its object does not tell.
pub(super) fn error_losses(loss: &mut LossCollector, error: &UnifiedError) {
    for (member, is_there) in [
        ("category", true),
        ("code", true),
        ("retryable", true),
        ("httpStatus", error.http_status.is_some()),
        ("grpcStatus", error.grpc_status.is_some()),
        ("retryAfterMs", error.retry_after_ms.is_some()),
        ("providerCode", error.provider_code.is_some()),
        ("providerRequestId", error.provider_request_id.is_some()),
    ] {
        if is_there {
            loss.info(
                Feature::ResponseFinishReason,
                format!("/error/{member}"),
                "an error body has only message, type and code",
            );
        }
    }
}

/// Says which counters have no place.
pub(super) fn usage_losses(loss: &mut LossCollector, lost: Vec<&'static str>) {
    for member in lost {
        loss.info(
            Feature::ResponseUsage,
            format!("/usage/{member}"),
            "the target has no counter for it, or not without one that is unknown",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::characters;
    use throughline_format::citation::{SpanOf, UnifiedSpan};
    use throughline_format::media::UnifiedIndexUnit as U;

    #[test]
    fn spans_are_told_in_characters() {
        let text = "aé😀b";
        let cases = [
            (U::Character, 1, 3, Some((1, 3))),
            (U::CodePoint, 0, 4, Some((0, 4))),
            (U::Utf8Byte, 1, 7, Some((1, 3))),
            (U::Utf8Byte, 2, 7, None),
            (U::Utf16, 2, 4, Some((2, 3))),
            (U::Utf16, 3, 4, None),
            (U::Utf16, 0, 5, Some((0, 4))),
            (U::Page, 0, 1, None),
        ];
        for (unit, start, end, expected) in cases {
            let span = UnifiedSpan {
                of: SpanOf::Answer,
                start,
                end,
                unit,
                part_id: None,
            };
            assert_eq!(characters(&span, text), expected, "{unit:?} {start}..{end}");
        }
    }
}
