//! Error bodies and events, both ways.

use super::wire::ErrorAnswer;
use crate::codec::{ErrorHeaders, WireError};
use crate::raw;
use raw::json;
use throughline_format::{ErrorCategory, UnifiedError};

/// Error types of the wire with category, detail of our code, status and whether asking again may help.
const TYPES: &[(&str, ErrorCategory, u16, bool)] = &[
    ("invalid_request_error", ErrorCategory::InvalidRequest, 400, false),
    ("authentication_error", ErrorCategory::Auth, 401, false),
    ("billing_error", ErrorCategory::Quota, 402, false),
    ("permission_error", ErrorCategory::Permission, 403, false),
    ("not_found_error", ErrorCategory::NotFound, 404, false),
    ("conflict_error", ErrorCategory::Conflict, 409, true),
    ("request_too_large", ErrorCategory::TooLarge, 413, false),
    ("rate_limit_error", ErrorCategory::RateLimit, 429, true),
    ("api_error", ErrorCategory::Server, 500, true),
    ("timeout_error", ErrorCategory::Timeout, 504, true),
    ("overloaded_error", ErrorCategory::Overloaded, 529, true),
];

/// Codes inside rate limit errors that waiting does not help.
const SPENT: &[&str] = &[
    "contract_spend_limit_reached",
    "enforced_spend_limit_reached",
    "ramp_limit_exceeded",
];

#[derive(serde::Deserialize)]
struct Details {
    error_code: Option<String>,
}

/// The error that an error event or body tells; `status` only with a body.
pub(super) fn from_answer(answer: &ErrorAnswer, status: Option<u16>) -> UnifiedError {
    let kind = answer.error.kind.as_deref().unwrap_or_default();
    let known = TYPES.iter().find(|(word, ..)| *word == kind);
    let (category, retryable) = known.map_or_else(|| by_status(status), |(_, category, _, retryable)| (*category, *retryable));
    let code = answer
        .error
        .extra
        .0
        .iter()
        .find(|(key, _)| key == "details")
        .and_then(|(_, details)| details.decode::<Option<Details>>().ok().flatten())
        .and_then(|d| d.error_code);
    let message = answer
        .error
        .message
        .clone()
        .unwrap_or_else(|| "the provider gave no message".into());
    let spent = category == ErrorCategory::RateLimit && code.as_deref().is_some_and(|code| SPENT.contains(&code));
    let too_long = category == ErrorCategory::InvalidRequest && message.starts_with("prompt is too long");
    let category = if spent {
        ErrorCategory::Quota
    } else if too_long {
        ErrorCategory::MaxContext
    } else {
        category
    };
    let mut error = UnifiedError::new(category, "provider", message);
    error.retryable = retryable && !spent;
    error.http_status = status.map(u64::from);
    error.provider_code = code.or_else(|| (!kind.is_empty()).then(|| kind.to_owned()));
    error.provider_request_id.clone_from(&answer.request_id);
    error
}

/// Category by status alone.
fn by_status(status: Option<u16>) -> (ErrorCategory, bool) {
    match status {
        Some(401) => (ErrorCategory::Auth, false),
        Some(402) => (ErrorCategory::Quota, false),
        Some(403) => (ErrorCategory::Permission, false),
        Some(404) => (ErrorCategory::NotFound, false),
        Some(408 | 504) => (ErrorCategory::Timeout, true),
        Some(409) => (ErrorCategory::Conflict, true),
        Some(413 | 431) => (ErrorCategory::TooLarge, false),
        Some(429) => (ErrorCategory::RateLimit, true),
        Some(529) => (ErrorCategory::Overloaded, true),
        Some(400..=499) => (ErrorCategory::InvalidRequest, false),
        _ => (ErrorCategory::Server, true),
    }
}

/// Reads an error answer.
pub(super) fn decode(status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
    let error = if let Ok(answer) = serde_json::from_slice::<ErrorAnswer>(body) {
        from_answer(&answer, Some(status))
    } else {
        let (category, retryable) = by_status(Some(status));
        let mut error = UnifiedError::new(category, "provider", format!("the provider answered with status {status}"));
        error.retryable = retryable;
        error.http_status = Some(u64::from(status));
        error
    };
    headers.apply(error)
}

/// Error type and status of the wire for an error.
fn wire_type(error: &UnifiedError) -> (&'static str, u16) {
    let (kind, status) = match error.category {
        ErrorCategory::InvalidRequest
        | ErrorCategory::MaxContext
        | ErrorCategory::ContentFilter
        | ErrorCategory::Unsupported
        | ErrorCategory::Checkpoint => ("invalid_request_error", 400),
        ErrorCategory::Auth => ("authentication_error", 401),
        ErrorCategory::Quota => ("billing_error", 402),
        ErrorCategory::Permission => ("permission_error", 403),
        ErrorCategory::NotFound => ("not_found_error", 404),
        ErrorCategory::Conflict => ("conflict_error", 409),
        ErrorCategory::TooLarge => ("request_too_large", 413),
        ErrorCategory::RateLimit | ErrorCategory::Limit => ("rate_limit_error", 429),
        ErrorCategory::Timeout => ("timeout_error", 504),
        ErrorCategory::Overloaded => ("overloaded_error", 529),
        ErrorCategory::Cancelled => ("invalid_request_error", 499),
        ErrorCategory::Server | ErrorCategory::Network | ErrorCategory::Interrupted | ErrorCategory::Storage | ErrorCategory::Internal => {
            ("api_error", 500)
        }
    };
    (kind, status)
}

/// Error body or data of an error event.
pub(super) fn encode(error: &UnifiedError) -> WireError {
    let (kind, status) = wire_type(error);
    let body = serde_json::json!({
        "type": "error",
        "error": { "type": kind, "message": error.message },
        "request_id": error.provider_request_id,
    });
    WireError {
        status,
        body: json(&body).as_str().to_owned(),
    }
}
