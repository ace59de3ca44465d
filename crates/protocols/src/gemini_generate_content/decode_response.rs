//! Unstreamed responses of the wire as events.

use super::Dialect;
use super::answer::Answer;
use super::spelling::Spelling;
use super::wire_answer::Response;
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::google::status;
use crate::raw;
use throughline_format::{DecodeError, Json, UnifiedError, UnifiedFinishReason};

/// Reads a response body; an error body becomes a failed operation.
pub(super) fn decode(dialect: Dialect, body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
    let given: Json = throughline_format::json::decode_slice(body)?;
    let mut answer = Answer::new(dialect, context, true);
    if let Some(error) = status::error_of(&given) {
        answer.fail(status::from_error(&error, None), UnifiedFinishReason::Failed, Some(given.as_str()));
        return Ok(answer.draft.take());
    }
    let (text, _) = Spelling::of(given.as_str());
    let given = Json::from_text(text.into_owned()).unwrap_or_else(|_| Json::null());
    // An unstreamed call of a streaming method answers with an array.
    let list = if given.as_str().starts_with('[') {
        given.decode::<Vec<Json>>().unwrap_or_default()
    } else {
        vec![given]
    };
    let several = list.len() > 1;
    if several {
        answer = Answer::new(dialect, context, false);
    }
    for body in list {
        take(&mut answer, dialect, &body).map_err(UnifiedError::from)?;
    }
    if !answer.started {
        return Err(UnifiedError::new(
            throughline_format::ErrorCategory::InvalidRequest,
            "missing-field",
            "candidates is required",
        )
        .at("/candidates"));
    }
    answer.complete();
    Ok(answer.draft.take())
}

/// Takes a response or a chunk, out of its envelope where it has one.
pub(super) fn take(answer: &mut Answer, dialect: Dialect, body: &Json) -> Result<(), DecodeError> {
    let inner = (dialect == Dialect::Antigravity).then(|| raw::get(body, "response")).flatten();
    let proper = if dialect == Dialect::Antigravity {
        match &inner {
            Some(inner) => {
                let outer = raw::members(body).into_iter().filter(|(key, _)| key != "response").collect();
                answer.envelope(outer);
                inner
            }
            None if raw::get(body, "candidates").is_some() || raw::get(body, "promptFeedback").is_some() => {
                answer.bare();
                body
            }
            None => {
                // Credits or a sign of life, and no piece of the answer.
                answer.envelope(raw::members(body));
                answer
                    .draft
                    .warn("stream.without-response", "a chunk without a piece of the answer");
                return Ok(());
            }
        }
    } else {
        body
    };
    let response: Response = throughline_format::json::decode_str(proper.as_str())?;
    answer.take_response(response);
    Ok(())
}
