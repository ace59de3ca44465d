//! Whether the process lives and takes requests, and what paths that do not exist answer.

use super::failure::{Failure, json};
use super::gate::Scope;
use super::{App, Phase};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use std::sync::Arc;
use throughline_format::{ErrorCategory, UnifiedError};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize)]
struct Status<'a> {
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
}

fn status(code: StatusCode, status: &str, version: Option<&str>) -> Response<Body> {
    json(code, serde_json::to_string(&Status { status, version }).unwrap_or_default())
}

/// The process answers.
pub(super) async fn healthz() -> Response<Body> {
    status(StatusCode::OK, "ok", Some(VERSION))
}

/// The process takes requests.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Response<Body> {
    match app.phase() {
        Phase::Serving if app.engine.is_storage_failing() => status(StatusCode::SERVICE_UNAVAILABLE, "storage-error", None),
        Phase::Serving => status(StatusCode::OK, "ok", None),
        Phase::Starting => status(StatusCode::SERVICE_UNAVAILABLE, "starting", None),
        Phase::Draining | Phase::Closing => status(StatusCode::SERVICE_UNAVAILABLE, "draining", None),
    }
}

/// Some agents ask for the root before their first request.
pub(super) async fn root() -> Response<Body> {
    status(StatusCode::OK, "throughline", Some(VERSION))
}

/// A path that this gateway does not have.
pub(super) async fn unknown_path(Extension(scope): Extension<Scope>) -> Response<Body> {
    Failure::from(UnifiedError::new(ErrorCategory::NotFound, "path", "the gateway has no such path")).respond(&scope)
}

/// A method that this path does not have.
pub(super) async fn wrong_method(Extension(scope): Extension<Scope>) -> Response<Body> {
    let mut response = Failure::from(UnifiedError::new(
        ErrorCategory::InvalidRequest,
        "method",
        "the path does not take this method",
    ))
    .respond(&scope);
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}
