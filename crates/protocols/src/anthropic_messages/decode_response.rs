//! Unstreamed responses of the wire as events.

use super::answer::Answer;
use super::errors;
use super::wire::{AnyError, ErrorAnswer, Response, TextOrError};
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::wire::peek_tag;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedFinishReason};

/// Reads a response body; an error body becomes a failed operation.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
    let mut answer = Answer::new(context);
    let text = std::str::from_utf8(body).unwrap_or_default();
    if peek_tag(text, "type").as_deref() != Some("message")
        && let Ok(error) = throughline_format::json::decode_slice::<AnyError>(body)
    {
        let error = match error.error {
            TextOrError::Error(inner) => errors::from_answer(
                &ErrorAnswer {
                    error: inner,
                    request_id: error.request_id,
                    extra: error.extra,
                },
                None,
            ),
            TextOrError::Text(text) => UnifiedError::new(ErrorCategory::Server, "provider", text),
        };
        answer.error_body(text.trim());
        answer.fail(error, UnifiedFinishReason::Failed);
        return Ok(answer.take());
    }
    let response: Response = throughline_format::json::decode_slice(body)?;
    if response.content.is_none() {
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "missing-field", "content is required").at("/content"));
    }
    answer.start(response, true);
    answer.complete();
    Ok(answer.take())
}
