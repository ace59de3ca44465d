//! Operations that exist: GET /unified/v2/operations and /operations/{id}, its loss, POST .../cancel and .../approvals, DELETE.

use super::App;
use super::address::{Parameters, PathId};
use super::failure::{Failure, done, json};
use super::gate::Scope;
use super::lists::{self, Page};
use super::view::View;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use throughline_engine::{Approval, OperationQuery, Principal, TranslationLoss};
use throughline_format::item::ApprovalDecision;
use throughline_format::{LossDisposition, OperationState, UnifiedError, UnifiedId, UnifiedLossEntry, UnifiedOperation};
use throughline_protocols::unified_native;

impl App {
    /// The operation that a path names.
    ///
    /// # Errors
    /// `not-found.resource` also for what is no ID at all.
    pub(super) async fn operation(&self, principal: &Principal, id: &str) -> Result<UnifiedOperation, UnifiedError> {
        self.engine.operation(principal, &lists::id(id, "operation")?).await
    }

    /// The operation as answers show it: with the cursor after its last event, and the result once it has ended.
    pub(super) async fn operation_view(&self, principal: &Principal, operation: &UnifiedOperation) -> Result<View, UnifiedError> {
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
        Ok(view)
    }
}

/// GET: the operation, with its result once it has ended.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
) -> Response<Body> {
    let view = async {
        let operation = app.operation(&principal, &id).await?;
        app.operation_view(&principal, &operation).await
    };
    match view.await {
        Ok(view) => json(StatusCode::OK, view.to_json()),
        Err(error) => Failure::from(error).respond(&scope),
    }
}

/// Which operations to list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Filter {
    conversation: Option<String>,
    state: Option<String>,
    after: Option<String>,
    limit: Option<String>,
}

impl Filter {
    fn query(&self) -> Result<OperationQuery, UnifiedError> {
        let states = self.state.as_deref().into_iter().flat_map(|words| words.split(','));
        let state = |word: &str| {
            let quoted = serde_json::Value::from(word.trim());
            serde_json::from_value::<OperationState>(quoted).map_err(|_| lists::invalid("?state= names no state of an operation"))
        };
        Ok(OperationQuery {
            conversation: self.conversation.as_deref().map(|id| lists::id(id, "conversation")).transpose()?,
            states: states.map(state).collect::<Result<_, _>>()?,
            after: self.after.as_deref().map(|id| lists::id(id, "operation")).transpose()?,
            limit: lists::limit(self.limit.as_deref())?,
        })
    }
}

/// GET: the principal's operations in the order in which they began.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    Parameters(filter): Parameters<Filter>,
) -> Response<Body> {
    let listed = async {
        let found = app.engine.operations(&principal, filter.query()?).await?;
        let mut page = Page::default();
        for operation in &found.operations {
            if !page.push(&operation.operation_id, app.operation_view(&principal, operation).await?) {
                break;
            }
        }
        Ok::<_, UnifiedError>(page.to_json(found.has_more))
    };
    match listed.await {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => Failure::from(error).respond(&scope),
    }
}

/// A loss report with what was translated.
#[derive(Serialize)]
struct Loss<'a> {
    from: &'a str,
    to: &'a str,
    disposition: LossDisposition,
    entries: &'a [UnifiedLossEntry],
}

impl<'a> Loss<'a> {
    fn of(loss: &'a TranslationLoss) -> Self {
        let word = |profile: &'a Option<throughline_format::UnifiedProtocolProfile>| {
            profile.as_ref().map_or(unified_native::WORD, |profile| profile.family.as_str())
        };
        Self {
            from: word(&loss.from),
            to: word(&loss.to),
            disposition: loss.report.disposition,
            entries: &loss.report.entries,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Losses<'a> {
    operation_id: &'a UnifiedId,
    decode_loss: Loss<'a>,
    projection_loss: Loss<'a>,
    result_loss: Loss<'a>,
}

/// GET: what the operation lost on its way in, out and back.
pub(super) async fn loss(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
) -> Response<Body> {
    let losses = async { app.engine.losses(&principal, &lists::id(&id, "operation")?).await };
    match losses.await {
        Ok(losses) => {
            let body = Losses {
                operation_id: &losses.operation_id,
                decode_loss: Loss::of(&losses.decode),
                projection_loss: Loss::of(&losses.projection),
                result_loss: Loss::of(&losses.result),
            };
            json(StatusCode::OK, serde_json::to_string(&body).unwrap_or_default())
        }
        Err(error) => Failure::from(error).respond(&scope),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DecideBody {
    approval_id: String,
    decision: ApprovalDecision,
    #[serde(default)]
    reason: Option<String>,
}

/// POST: decides a question of an operation that waits for it.
pub(super) async fn decide(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let decided = async {
        let operation = app.operation(&principal, &id).await?;
        let body: DecideBody = app.read_json(&headers, body).await?;
        let approval = Approval {
            approval_id: body.approval_id,
            decision: body.decision,
            reason: body.reason,
        };
        let operation = app.engine.decide(&principal, &operation.operation_id, approval).await?;
        Ok::<_, UnifiedError>(app.operation_view(&principal, &operation).await?.to_json())
    };
    match decided.await {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => Failure::from(error).respond(&scope),
    }
}

/// DELETE: the operation is not found any more. 204.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
) -> Response<Body> {
    let deleted = async { app.engine.delete_operation(&principal, &lists::id(&id, "operation")?).await };
    match deleted.await {
        Ok(()) => done(),
        Err(error) => Failure::from(error).respond(&scope),
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    #[serde(default)]
    reason: Option<String>,
}

/// POST: asks an operation to stop. 202, or 200 when it had ended already.
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let cancelled = async {
        let operation = app.operation(&principal, &id).await?;
        let body: CancelBody = app.read_json(&headers, body).await?;
        let outcome = app.engine.cancel(&principal, &operation.operation_id, body.reason).await?;
        let view = app.operation_view(&principal, &outcome.operation).await?;
        Ok::<_, UnifiedError>((outcome.accepted, view.to_json()))
    };
    match cancelled.await {
        Ok((true, body)) => json(StatusCode::ACCEPTED, body),
        Ok((false, body)) => json(StatusCode::OK, body),
        Err(error) => Failure::from(error).respond(&scope),
    }
}
