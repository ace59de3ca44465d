//! Errors as answers: in the client's own shape on its protocol's paths, in the native shape elsewhere.

use super::body;
use super::gate::Scope;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId, UnifiedLossReport};

/// An error with what an answer adds to it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: UnifiedError,
    pub(crate) loss: Option<UnifiedLossReport>,
    pub(crate) cursor: Option<String>,
}

impl From<UnifiedError> for Failure {
    fn from(error: UnifiedError) -> Self {
        Self {
            error,
            loss: None,
            cursor: None,
        }
    }
}

#[derive(Serialize)]
struct NativeBody<'a> {
    error: NativeError<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NativeError<'a> {
    #[serde(flatten)]
    error: &'a UnifiedError,
    request_id: &'a UnifiedId,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<&'a UnifiedLossReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

impl Failure {
    /// The answer in the shape of the path.
    pub(crate) fn respond(&self, scope: &Scope) -> Response<Body> {
        let (status, body) = if let Some(codec) = &scope.codec {
            let wire = codec.encode_error(&self.error);
            (wire.status, wire.body)
        } else {
            let native = NativeBody {
                error: NativeError {
                    error: &self.error,
                    request_id: &scope.request_id,
                    loss: self.loss.as_ref(),
                    cursor: self.cursor.as_deref(),
                },
            };
            (native_status(&self.error), serde_json::to_string(&native).unwrap_or_default())
        };
        let status = match StatusCode::from_u16(status) {
            // No category of errors means this status, and it is what tells clients and proxies that nobody else was slow.
            Ok(_) if self.error.code == body::SLOW => StatusCode::REQUEST_TIMEOUT,
            Ok(status) => status,
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = json(status, body);
        if let Some(ms) = self.error.retry_after_ms {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
            response
                .headers_mut()
                .insert(HeaderName::from_static("retry-after-ms"), HeaderValue::from(ms));
        }
        // SDKs ask again on these statuses unless they are told that it is of no use.
        if !self.error.retryable && (status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 429)) {
            response
                .headers_mut()
                .insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
        }
        response
    }
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer without a body: what was asked for is done, and there is nothing to show.
pub(crate) fn done() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// An answer that is an event stream.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// HTTP status of an error in the native API (contract.md, section 1).
pub fn native_status(error: &UnifiedError) -> u16 {
    match error.category {
        ErrorCategory::InvalidRequest | ErrorCategory::MaxContext | ErrorCategory::ContentFilter => 400,
        ErrorCategory::Auth => 401,
        ErrorCategory::Permission => 403,
        ErrorCategory::NotFound => 404,
        ErrorCategory::Conflict | ErrorCategory::Checkpoint => 409,
        ErrorCategory::Limit if error.code == "limit.concurrency" => 503,
        ErrorCategory::TooLarge | ErrorCategory::Limit => 413,
        ErrorCategory::Unsupported => 422,
        ErrorCategory::RateLimit | ErrorCategory::Quota => 429,
        ErrorCategory::Cancelled => 499,
        ErrorCategory::Storage if matches!(error.code.as_str(), "storage.busy" | "storage.full") => 503,
        ErrorCategory::Storage | ErrorCategory::Internal => 500,
        ErrorCategory::Server | ErrorCategory::Network | ErrorCategory::Interrupted => 502,
        ErrorCategory::Overloaded => 503,
        ErrorCategory::Timeout => 504,
    }
}
