//! Error bodies, both ways: <https://platform.openai.com/docs/guides/error-codes>.

use crate::codec::{ErrorHeaders, WireError, http_status};
use serde_json::{Value, json};
use throughline_format::{ErrorCategory, UnifiedError};

/// Reads an error answer of a provider.
pub(crate) fn decode(status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
    let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let mut error = of_value(&value, Some(status));
    error.http_status = Some(u64::from(status));
    headers.apply(error)
}

/// Reads an error object: OpenAI's, or one of the forms that dialects use.
pub(crate) fn of_value(value: &Value, status: Option<u16>) -> UnifiedError {
    let object = match value.get("error") {
        Some(inner @ Value::Object(_)) => inner,
        _ => value,
    };
    let text = |key: &str| match object.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let message = match (object.get("message"), value.get("error"), value.get("detail")) {
        (Some(Value::String(text)), ..) | (_, Some(Value::String(text)), _) | (.., Some(Value::String(text))) => text.clone(),
        _ => "the provider gave no message".to_owned(),
    };
    let (kind, code) = (text("type"), text("code"));
    let status = status.or_else(|| {
        code.as_deref()
            .or(text("status_code").as_deref())
            .and_then(|c| c.parse().ok())
            .filter(|s| (400..600).contains(s))
    });
    let (category, detail) = category(status, kind.as_deref(), code.as_deref(), &message);
    let mut error = UnifiedError::new(category, detail, message);
    error.provider_code = code.or(kind).map(|c| c.chars().take(128).collect());
    error.http_status = status.map(u64::from);
    error.field_path = text("param").filter(|p| throughline_format::json::is_pointer(p));
    error
}

/// Category and detail of an error; code words decide over the status.
fn category(status: Option<u16>, kind: Option<&str>, code: Option<&str>, message: &str) -> (ErrorCategory, &'static str) {
    let has = |word: &str| code == Some(word) || kind == Some(word);
    if has("previous_response_not_found") || has("invalid_encrypted_content") || has("item_not_found") {
        return (ErrorCategory::Checkpoint, "provider");
    }
    if has("conversation_locked") {
        return (ErrorCategory::Conflict, "conversation");
    }
    if has("vector_store_timeout") {
        return (ErrorCategory::Timeout, "provider");
    }
    if has("bio_policy") || has("misalignment_policy_violation") || has("image_content_policy_violation") {
        return (ErrorCategory::ContentFilter, "request");
    }
    if has("invalid_prompt") || has("data_residency_mismatch") || code.is_some_and(|code| code.contains("image")) {
        return (ErrorCategory::InvalidRequest, "provider");
    }
    if has("context_length_exceeded") || message.contains("maximum context length") {
        return (ErrorCategory::MaxContext, "prompt");
    }
    if has("insufficient_quota") || has("billing_hard_limit_reached") || has("billing_not_active") || status == Some(402) {
        return (ErrorCategory::Quota, "exhausted");
    }
    if has("content_filter") || has("content_policy_violation") {
        return (ErrorCategory::ContentFilter, "request");
    }
    if has("rate_limit_exceeded") || has("slow_down") || has("rate_limit_error") {
        return (ErrorCategory::RateLimit, "provider");
    }
    if has("server_is_overloaded") || has("service_unavailable_error") || has("overloaded_error") {
        return (ErrorCategory::Overloaded, "provider");
    }
    if has("invalid_api_key") || has("authentication_error") {
        return (ErrorCategory::Auth, "provider");
    }
    if has("model_not_found") {
        return (ErrorCategory::NotFound, "model");
    }
    match status {
        Some(401) => (ErrorCategory::Auth, "provider"),
        Some(403) => (ErrorCategory::Permission, "provider"),
        Some(404) => (ErrorCategory::NotFound, "provider"),
        Some(408 | 504) => (ErrorCategory::Timeout, "provider"),
        Some(409) => (ErrorCategory::Conflict, "provider"),
        Some(413) => (ErrorCategory::TooLarge, "provider"),
        Some(429) => (ErrorCategory::RateLimit, "provider"),
        Some(503 | 529) => (ErrorCategory::Overloaded, "provider"),
        Some(400..=499) => (ErrorCategory::InvalidRequest, "provider"),
        Some(500..=599) => (ErrorCategory::Server, "provider"),
        _ if has("invalid_request_error") => (ErrorCategory::InvalidRequest, "provider"),
        _ => (ErrorCategory::Server, "provider"),
    }
}

/// Writes an error in OpenAI's shape.
pub(crate) fn encode(error: &UnifiedError) -> WireError {
    WireError {
        status: http_status(error.category),
        body: object(error).to_string(),
    }
}

/// The code of a failed response: one that clients act on, or that the answer did not come about.
pub(crate) fn code_of_response(error: &UnifiedError) -> &'static str {
    acted_on(error.category).unwrap_or(match error.category {
        ErrorCategory::InvalidRequest | ErrorCategory::Unsupported | ErrorCategory::TooLarge => "invalid_prompt",
        _ => "server_error",
    })
}

/// The codes on which clients act.
const fn acted_on(category: ErrorCategory) -> Option<&'static str> {
    Some(match category {
        ErrorCategory::MaxContext => "context_length_exceeded",
        ErrorCategory::Quota => "insufficient_quota",
        ErrorCategory::RateLimit => "rate_limit_exceeded",
        ErrorCategory::Overloaded => "server_is_overloaded",
        _ => return None,
    })
}

/// The error object of bodies and streams.
pub(crate) fn object(error: &UnifiedError) -> Value {
    let kind = match error.category {
        ErrorCategory::Auth => "authentication_error",
        ErrorCategory::Permission => "permission_error",
        ErrorCategory::Quota => "insufficient_quota",
        ErrorCategory::RateLimit | ErrorCategory::Limit => "rate_limit_error",
        ErrorCategory::Conflict => "conflict_error",
        ErrorCategory::Overloaded | ErrorCategory::Server | ErrorCategory::Internal | ErrorCategory::Storage => "server_error",
        ErrorCategory::Timeout | ErrorCategory::Network | ErrorCategory::Interrupted | ErrorCategory::Cancelled => "api_error",
        _ => "invalid_request_error",
    };
    let code = acted_on(error.category).unwrap_or(match error.category {
        ErrorCategory::ContentFilter => "content_filter",
        ErrorCategory::Auth => "invalid_api_key",
        ErrorCategory::NotFound if error.code == "not-found.model" => "model_not_found",
        // The provider's own word tells a client more than the name of a category.
        _ if error.code.ends_with(".provider") => error.provider_code.as_deref().unwrap_or(&error.code),
        _ => error.code.as_str(),
    });
    json!({"error": {"message": error.message, "type": kind, "param": error.field_path, "code": code}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_a_place_only_as_a_pointer() {
        for (param, place) in [
            ("/messages/0", Some("/messages/0")),
            ("/a~b", None),
            ("messages[0]", None),
            ("", None),
        ] {
            let error = of_value(&json!({"error": {"message": "no", "param": param}}), Some(400));
            assert_eq!(error.field_path.as_deref(), place, "{param}");
        }
    }
}
