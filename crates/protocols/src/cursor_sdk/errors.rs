//! Error bodies both ways: `{"error": {"code", "message"}}` of the Cloud API.

use crate::codec::{ErrorHeaders, WireError};
use crate::object::Object;
use throughline_format::{ErrorCategory, UnifiedError};

/// Reads an error answer.
pub(super) fn decode(status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |pointer: &str| value.pointer(pointer).and_then(serde_json::Value::as_str);
    let error = of_code(text("/error/code").unwrap_or_default(), text("/error/message"), Some(status));
    headers.apply(error)
}

/// The error that a code of the API means; the code decides over the status.
pub(super) fn of_code(code: &str, message: Option<&str>, status: Option<u16>) -> UnifiedError {
    use ErrorCategory as C;
    let (category, detail) = match code {
        "unauthorized" | "api_key_not_found" => (C::Auth, "provider"),
        "plan_required"
        | "role_forbidden"
        | "feature_unavailable"
        | "integration_not_connected"
        | "repository_access"
        | "service_account_required"
        | "forbidden" => (C::Permission, "provider"),
        "agent_not_found" | "run_not_found" | "artifact_not_found" | "not_found" => (C::NotFound, "provider"),
        "agent_busy" => (C::Conflict, "agent-busy"),
        "agent_archived" | "agent_id_conflict" | "run_not_cancellable" => (C::Conflict, "provider"),
        "stream_expired" => (C::Checkpoint, "stream-expired"),
        "invalid_last_event_id" => (C::Checkpoint, "cursor"),
        "rate_limit_exceeded" => (C::RateLimit, "provider"),
        "usage_limit_exceeded" => (C::Quota, "exhausted"),
        "client_cancelled" => (C::Cancelled, "provider"),
        "not_implemented" => (C::Unsupported, "provider"),
        "upstream_error" | "internal_error" | "stream_unavailable" | "pr_resolution_failed" => (C::Server, "provider"),
        "invalid_model" => (C::NotFound, "model"),
        "validation_error" | "missing_body" | "invalid_branch_name" | "repository_required" => (C::InvalidRequest, "provider"),
        _ => match status {
            Some(401) => (C::Auth, "provider"),
            Some(403) => (C::Permission, "provider"),
            Some(404) => (C::NotFound, "provider"),
            Some(409) => (C::Conflict, "provider"),
            Some(410) => (C::Checkpoint, "stream-expired"),
            Some(429) => (C::RateLimit, "provider"),
            Some(400..=499) => (C::InvalidRequest, "provider"),
            _ => (C::Server, "provider"),
        },
    };
    let mut error = UnifiedError::new(category, detail, message.unwrap_or("the provider gave no message"));
    if !code.is_empty() {
        error.provider_code = Some(code.chars().take(128).collect());
    }
    // Another run of the agent ends by itself.
    error.retryable |= code == "agent_busy";
    error.http_status = status.map(u64::from);
    error
}

/// Writes an error body.
pub(super) fn encode(error: &UnifiedError) -> WireError {
    use ErrorCategory as C;
    let (status, code) = match error.category {
        C::InvalidRequest | C::MaxContext | C::ContentFilter => (400, "validation_error"),
        C::Unsupported => (501, "not_implemented"),
        C::Checkpoint => (410, "stream_expired"),
        C::Auth => (401, "unauthorized"),
        C::Permission => (403, "role_forbidden"),
        C::NotFound => (404, "agent_not_found"),
        C::Conflict => (409, "agent_busy"),
        C::TooLarge => (413, "validation_error"),
        C::RateLimit | C::Limit => (429, "rate_limit_exceeded"),
        C::Quota => (429, "usage_limit_exceeded"),
        C::Cancelled => (499, "client_cancelled"),
        C::Overloaded | C::Storage => (503, "stream_unavailable"),
        C::Timeout => (504, "upstream_error"),
        C::Network | C::Interrupted => (502, "upstream_error"),
        C::Server | C::Internal => (500, "internal_error"),
    };
    WireError {
        status,
        body: Object::default().with("error", &object(error, code)).to_json().as_str().to_owned(),
    }
}

/// The error object.
fn object(error: &UnifiedError, code: &str) -> Object {
    Object::default()
        .with("code", error.provider_code.as_deref().unwrap_or(code))
        .with("message", &error.message)
}
