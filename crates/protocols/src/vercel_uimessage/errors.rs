//! Errors both ways: the text of an `error` chunk, and a body in the same form, which is what the SDK shows as the message.

use crate::codec::{ErrorHeaders, WireError, http_status};
use crate::object::Object;
use throughline_format::{ErrorCategory, UnifiedError};

/// The error that a chunk tells.
pub(super) fn of_text(text: &str) -> UnifiedError {
    let message = if text.is_empty() { "the other side gave no message" } else { text };
    UnifiedError::new(ErrorCategory::Server, "provider", message)
}

/// Reads an error answer: any text, since applications answer what they like.
pub(super) fn decode(status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let told = ["/errorText", "/error/message", "/error", "/message"]
        .iter()
        .find_map(|pointer| value.pointer(pointer).and_then(serde_json::Value::as_str));
    let category = match status {
        401 => ErrorCategory::Auth,
        403 => ErrorCategory::Permission,
        404 => ErrorCategory::NotFound,
        408 | 504 => ErrorCategory::Timeout,
        409 => ErrorCategory::Conflict,
        413 => ErrorCategory::TooLarge,
        429 => ErrorCategory::RateLimit,
        503 | 529 => ErrorCategory::Overloaded,
        400..=499 => ErrorCategory::InvalidRequest,
        _ => ErrorCategory::Server,
    };
    let mut error = UnifiedError::new(category, "provider", told.unwrap_or("the other side gave no message"));
    error.http_status = Some(u64::from(status));
    headers.apply(error)
}

/// The `error` chunk of an error.
pub(super) fn chunk(error: &UnifiedError) -> Object {
    Object::of_type("error").with("errorText", &error.message)
}

/// Writes an error body.
pub(super) fn encode(error: &UnifiedError) -> WireError {
    WireError {
        status: http_status(error.category),
        body: chunk(error).with("code", &error.code).to_json().as_str().to_owned(),
    }
}
