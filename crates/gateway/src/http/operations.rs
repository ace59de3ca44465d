//! GET /unified/v2/operations/{id} and POST .../cancel.

use super::App;
use super::failure::{Failure, json};
use super::gate::Scope;
use super::view::View;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use std::sync::Arc;
use throughline_engine::Principal;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId, UnifiedOperation};

impl App {
    /// The operation that a path names.
    ///
    /// # Errors
    /// `not-found.resource` also for what is no ID at all.
    pub(super) async fn operation(&self, principal: &Principal, id: &str) -> Result<UnifiedOperation, UnifiedError> {
        let id = UnifiedId::parse(id).map_err(|_| UnifiedError::new(ErrorCategory::NotFound, "resource", "there is no such operation"))?;
        self.engine.operation(principal, &id).await
    }

    async fn view(&self, principal: &Principal, operation: &UnifiedOperation) -> Result<String, UnifiedError> {
        let cursor = self.engine.cursor(
            principal,
            &operation.conversation_id,
            &operation.operation_id,
            operation.last_sequence,
        )?;
        let mut view = View::of(operation)?.with("cursor", &cursor)?;
        if operation.state.is_terminal()
            && let Some(result) = self.engine.result(principal, &operation.operation_id).await?
        {
            view = view.with("result", &result)?;
        }
        Ok(view.to_json())
    }
}

/// GET: the operation, with its result once it has ended.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response<Body> {
    let view = async {
        let operation = app.operation(&principal, &id).await?;
        app.view(&principal, &operation).await
    };
    match view.await {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => Failure::from(error).respond(&scope),
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    #[serde(default)]
    reason: Option<String>,
}

/// POST: asks a running operation to stop. 202, or 200 when it had ended already.
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let cancelled = async {
        let operation = app.operation(&principal, &id).await?;
        let body = app.read_body(&headers, body).await?;
        let body: CancelBody = if body.is_empty() {
            CancelBody::default()
        } else {
            serde_json::from_slice(&body).map_err(|error| {
                UnifiedError::new(
                    ErrorCategory::InvalidRequest,
                    "json",
                    format!("expected {{\"reason\": string}}, line {} column {}", error.line(), error.column()),
                )
            })?
        };
        let outcome = app.engine.cancel(&principal, &operation.operation_id, body.reason).await?;
        Ok::<_, UnifiedError>((outcome.accepted, app.view(&principal, &outcome.operation).await?))
    };
    match cancelled.await {
        Ok((true, body)) => json(StatusCode::ACCEPTED, body),
        Ok((false, body)) => json(StatusCode::OK, body),
        Err(error) => Failure::from(error).respond(&scope),
    }
}
