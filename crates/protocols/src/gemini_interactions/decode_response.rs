//! Whole interactions of the wire as events.

use super::answer::Answer;
use super::wire::Interaction;
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::google::status;
use crate::raw;
use throughline_format::{ErrorCategory, Json, UnifiedError, UnifiedFinishReason};

/// Reads a response body; an error body becomes a failed operation.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
    let given: Json = throughline_format::json::decode_slice(body)?;
    let mut answer = Answer::new(context);
    if let (Some(error), None) = (status::error_of(&given), raw::get(&given, "status")) {
        answer.fail(status::from_error(&error, None), UnifiedFinishReason::Failed, Some(given.as_str()));
        return Ok(answer.draft.take());
    }
    let wire: Interaction = throughline_format::json::decode_str(given.as_str())?;
    if wire.status.is_none() && wire.steps.is_none() {
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "missing-field", "status is required").at("/status"));
    }
    answer.interaction(wire, &given, "");
    answer.complete();
    Ok(answer.draft.take())
}
