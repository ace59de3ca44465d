//! Errors of the native API: a [`UnifiedError`] under the member `error`.

use crate::codec::{ErrorHeaders, WireError, http_status};
use serde::{Deserialize, Serialize};
use throughline_format::{ErrorCategory, UnifiedError};

#[derive(Serialize)]
struct Written<'a> {
    error: &'a UnifiedError,
}

#[derive(Deserialize)]
struct Read {
    error: UnifiedError,
}

/// The error of an answer; the status tells the category when the body does not.
pub(super) fn decode(status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
    let mut error = serde_json::from_slice::<Read>(body).map_or_else(
        |_| {
            let category = match status {
                401 => ErrorCategory::Auth,
                403 => ErrorCategory::Permission,
                404 => ErrorCategory::NotFound,
                409 => ErrorCategory::Conflict,
                413 => ErrorCategory::TooLarge,
                422 => ErrorCategory::Unsupported,
                429 => ErrorCategory::RateLimit,
                503 => ErrorCategory::Overloaded,
                504 => ErrorCategory::Timeout,
                400..=499 => ErrorCategory::InvalidRequest,
                _ => ErrorCategory::Server,
            };
            UnifiedError::new(category, "provider", format!("the provider answered with status {status}"))
        },
        |read| read.error,
    );
    error.message = throughline_format::error::sanitise(&error.message);
    error.http_status = Some(u64::from(status));
    error.provider_request_id.clone_from(&headers.request_id);
    error.retry_after_ms = headers.retry_after_ms.or(error.retry_after_ms);
    error.retryable = headers.should_retry.unwrap_or(error.retryable);
    error
}

/// The error as an answer.
pub(super) fn encode(error: &UnifiedError) -> WireError {
    WireError {
        status: http_status(error.category),
        body: serde_json::to_string(&Written { error }).unwrap_or_default(),
    }
}
