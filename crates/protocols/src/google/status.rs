//! Errors as `google.rpc.Status`, both ways: <https://cloud.google.com/apis/design/errors>.

use super::media::seconds;
use crate::codec::{ErrorHeaders, WireError};
use crate::raw;
use serde::Deserialize;
use throughline_format::{ErrorCategory, Json, UnifiedError};

/// Status words with HTTP status, category, and whether asking again may help.
const WORDS: &[(&str, u16, ErrorCategory, bool)] = &[
    ("INVALID_ARGUMENT", 400, ErrorCategory::InvalidRequest, false),
    ("FAILED_PRECONDITION", 400, ErrorCategory::InvalidRequest, false),
    ("OUT_OF_RANGE", 400, ErrorCategory::InvalidRequest, false),
    ("UNAUTHENTICATED", 401, ErrorCategory::Auth, false),
    ("PERMISSION_DENIED", 403, ErrorCategory::Permission, false),
    ("NOT_FOUND", 404, ErrorCategory::NotFound, false),
    ("ABORTED", 409, ErrorCategory::Conflict, true),
    ("ALREADY_EXISTS", 409, ErrorCategory::Conflict, false),
    ("RESOURCE_EXHAUSTED", 429, ErrorCategory::RateLimit, true),
    ("CANCELLED", 499, ErrorCategory::Cancelled, true),
    ("INTERNAL", 500, ErrorCategory::Server, true),
    ("UNKNOWN", 500, ErrorCategory::Server, true),
    ("DATA_LOSS", 500, ErrorCategory::Server, true),
    ("UNIMPLEMENTED", 501, ErrorCategory::Unsupported, false),
    ("UNAVAILABLE", 503, ErrorCategory::Overloaded, true),
    ("DEADLINE_EXCEEDED", 504, ErrorCategory::Timeout, true),
];

/// Reasons that waiting does not help.
const SPENT: &[&str] = &["QUOTA_EXHAUSTED", "INSUFFICIENT_G1_CREDITS_BALANCE"];
/// Reasons that the model has no capacity: another model may have.
const FULL: &[&str] = &["MODEL_CAPACITY_EXHAUSTED", "MODEL_CAPACITY_EXCEEDED"];

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    code: Option<Json>,
    message: Option<String>,
    #[serde(rename = "status")]
    word: Option<String>,
    details: Vec<Detail>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Detail {
    #[serde(rename = "@type")]
    kind: String,
    #[serde(rename = "retryDelay")]
    retry_delay: Option<String>,
    reason: Option<String>,
    violations: Vec<Violation>,
    #[serde(rename = "fieldViolations")]
    field_violations: Vec<Violation>,
    #[serde(rename = "requestId")]
    request_id: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Violation {
    #[serde(rename = "quotaId")]
    quota_id: Option<String>,
    field: Option<String>,
}

/// The error that the member `error` of a body tells; `http` is the status of the answer.
pub fn from_error(error: &Json, http: Option<u16>) -> UnifiedError {
    let Ok(status) = error.decode::<Status>() else {
        let text = error.decode::<String>().unwrap_or_else(|_| "the provider gave no message".into());
        let (category, retryable) = by_http(http);
        let mut error = UnifiedError::new(category, "provider", text);
        error.retryable = retryable;
        error.http_status = http.map(u64::from);
        return error;
    };
    let code = status.code.as_ref().and_then(|c| c.decode::<u16>().ok());
    let number = code.or(http);
    let word = status.word.clone().filter(|w| !w.is_empty());
    let known = WORDS.iter().find(|(known, ..)| word.as_deref() == Some(known));
    let (mut category, mut retryable) = known.map_or_else(|| by_http(number), |(.., category, retry)| (*category, *retry));
    let message = status.message.unwrap_or_else(|| "the provider gave no message".into());
    let detail = |name: &'static str| {
        status
            .details
            .iter()
            .filter(move |d| d.kind.ends_with(&format!("google.rpc.{name}")))
    };
    let reason = detail("ErrorInfo").find_map(|d| d.reason.clone());
    let retry_delay = detail("RetryInfo").find_map(|d| d.retry_delay.as_deref().and_then(seconds));
    let daily = detail("QuotaFailure")
        .flat_map(|d| &d.violations)
        .any(|v| v.quota_id.as_deref().is_some_and(|q| q.contains("PerDay") || q.contains("Daily")));
    let is_reason = |list: &[&str]| reason.as_deref().is_some_and(|r| list.contains(&r));
    if category == ErrorCategory::RateLimit {
        if daily || is_reason(SPENT) || has_no_quota(&message) {
            (category, retryable) = (ErrorCategory::Quota, false);
        } else if is_reason(FULL) {
            category = ErrorCategory::Overloaded;
        }
    }
    if is_reason(&["API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED"]) {
        (category, retryable) = (ErrorCategory::Auth, false);
    }
    if category == ErrorCategory::InvalidRequest && message.contains("exceeds the maximum number of tokens") {
        category = ErrorCategory::MaxContext;
    }
    let mut error = UnifiedError::new(category, "provider", message.as_str());
    error.retryable = retryable;
    error.http_status = number.map(u64::from);
    error.provider_code = reason.or_else(|| status.code.as_ref().and_then(|c| c.decode::<String>().ok()));
    error.grpc_status = word;
    error.retry_after_ms = retry_delay.or_else(|| told_delay(&message)).and_then(milliseconds);
    error.field_path = detail("BadRequest")
        .flat_map(|d| &d.field_violations)
        .find_map(|v| v.field.as_deref().map(pointer));
    error.provider_request_id = detail("RequestInfo").find_map(|d| d.request_id.clone());
    error
}

/// Reads an error answer; a body may be an object, or an array of one.
pub fn decode(status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
    let text = std::str::from_utf8(body).unwrap_or_default().trim();
    let told = Json::from_text(text.to_owned()).ok().and_then(|json| error_of(&json));
    let mut error = if let Some(error) = told {
        from_error(&error, Some(status))
    } else {
        let (category, retryable) = by_http(Some(status));
        let mut error = UnifiedError::new(category, "provider", format!("the provider answered with status {status}"));
        error.retryable = retryable;
        error
    };
    error.http_status = Some(u64::from(status));
    headers.apply(error)
}

/// The member `error` of a body, of the only element of an array, or of an envelope.
pub fn error_of(body: &Json) -> Option<Json> {
    if body.as_str().starts_with('[') {
        return body.decode::<Vec<Json>>().ok()?.first().and_then(error_of);
    }
    raw::get(body, "error").or_else(|| raw::get(body, "response").and_then(|inner| raw::get(&inner, "error")))
}

/// Status word and HTTP status for an error.
fn word_of(error: &UnifiedError) -> (&'static str, u16) {
    let own = error.grpc_status.as_deref();
    if let Some((word, http, ..)) = WORDS.iter().find(|(word, ..)| Some(*word) == own) {
        return (word, *http);
    }
    match error.category {
        ErrorCategory::InvalidRequest
        | ErrorCategory::MaxContext
        | ErrorCategory::TooLarge
        | ErrorCategory::ContentFilter
        | ErrorCategory::Unsupported
        | ErrorCategory::Checkpoint => ("INVALID_ARGUMENT", 400),
        ErrorCategory::Auth => ("UNAUTHENTICATED", 401),
        ErrorCategory::Permission => ("PERMISSION_DENIED", 403),
        ErrorCategory::NotFound => ("NOT_FOUND", 404),
        ErrorCategory::Conflict => ("ABORTED", 409),
        ErrorCategory::RateLimit | ErrorCategory::Quota | ErrorCategory::Limit => ("RESOURCE_EXHAUSTED", 429),
        ErrorCategory::Cancelled => ("CANCELLED", 499),
        ErrorCategory::Overloaded => ("UNAVAILABLE", 503),
        ErrorCategory::Timeout => ("DEADLINE_EXCEEDED", 504),
        ErrorCategory::Server | ErrorCategory::Network | ErrorCategory::Interrupted | ErrorCategory::Storage | ErrorCategory::Internal => {
            ("INTERNAL", 500)
        }
    }
}

/// Error body, also the data of an error in a stream.
pub fn encode(error: &UnifiedError) -> WireError {
    let (word, status) = word_of(error);
    let mut details = Vec::new();
    if let Some(wait) = error.retry_after_ms {
        details.push(serde_json::json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": super::media::duration(wait as f64 / 1_000.0),
        }));
    }
    if let Some(field) = &error.field_path {
        details.push(serde_json::json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": field, "description": error.message}],
        }));
    }
    let mut inner = serde_json::json!({"code": status, "message": error.message, "status": word});
    if let (Some(members), false) = (inner.as_object_mut(), details.is_empty()) {
        members.insert("details".into(), details.into());
    }
    WireError {
        status,
        body: serde_json::json!({ "error": inner }).to_string(),
    }
}

fn by_http(status: Option<u16>) -> (ErrorCategory, bool) {
    match status {
        Some(401) => (ErrorCategory::Auth, false),
        Some(403) => (ErrorCategory::Permission, false),
        Some(404) => (ErrorCategory::NotFound, false),
        Some(408 | 504) => (ErrorCategory::Timeout, true),
        Some(409) => (ErrorCategory::Conflict, true),
        Some(413) => (ErrorCategory::TooLarge, false),
        Some(429) => (ErrorCategory::RateLimit, true),
        Some(499) => (ErrorCategory::Cancelled, true),
        Some(501) => (ErrorCategory::Unsupported, false),
        Some(503) => (ErrorCategory::Overloaded, true),
        Some(400..=498) => (ErrorCategory::InvalidRequest, false),
        _ => (ErrorCategory::Server, true),
    }
}

fn milliseconds(seconds: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // inside the range that was checked
    (0.0..1e12).contains(&seconds).then_some((seconds * 1_000.0).ceil() as u64)
}

/// The wait that a message tells: "Please retry in 12.3s".
fn told_delay(message: &str) -> Option<f64> {
    let rest = message.split_once("retry in ")?.1;
    let word = rest.split_whitespace().next()?.trim_end_matches(['.', ',']);
    seconds(word)
}

/// Whether a quota is none at all: waiting for more of it is in vain.
fn has_no_quota(message: &str) -> bool {
    message.match_indices("limit: 0").any(|(at, found)| {
        !message
            .get(at + found.len()..)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    })
}

/// A field path such as `contents[0].parts` as a pointer.
fn pointer(field: &str) -> String {
    let flat = field.replace('[', ".").replace(']', "");
    flat.split('.').filter(|t| !t.is_empty()).fold(String::new(), |at, token| {
        at + "/" + &throughline_format::json::escape_pointer_token(token)
    })
}
