//! Interactions that exist: GET /v1beta/interactions/{id}, whole or as its stream from a place on, POST .../cancel, DELETE; the
//! same under /v1.
//!
//! An interaction is an operation, and its ID the operation's, also where the provider itself holds one.

use super::App;
use super::address::{Parameters, PathId, switch};
use super::failure::{Failure, event_stream, json};
use super::gate::Scope;
use super::inbound::ProtocolFraming;
use super::lists;
use super::relay;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use serde::Deserialize;
use std::sync::Arc;
use throughline_engine::Principal;
use throughline_format::{ErrorCategory, Fold, UnifiedError, UnifiedOperation, UnifiedResultV2};
use throughline_protocols::Codec;

/// Paths of a turn: SDKs of one vendor use either.
pub(super) const TURNS: &[&str] = &["/v1beta/interactions", "/v1/interactions"];

/// How an interaction is read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Reading {
    /// Whether its events are wanted.
    stream: Option<String>,
    /// The event after which a reader goes on.
    last_event_id: Option<String>,
}

fn codec(scope: &Scope) -> Result<Arc<dyn Codec>, UnifiedError> {
    scope
        .codec
        .clone()
        .ok_or_else(|| UnifiedError::new(ErrorCategory::Unsupported, "direction", "this build has no codec for interactions"))
}

/// The interaction as far as it is committed.
async fn snapshot(app: &App, principal: &Principal, operation: &UnifiedOperation) -> Result<UnifiedResultV2, UnifiedError> {
    let id = &operation.operation_id;
    if operation.state.is_terminal()
        && let Some(result) = app.engine.result(principal, id).await?
    {
        return Ok(result);
    }
    let mut subscription = app.engine.subscribe(principal, id, 0).await?;
    let mut fold = Fold::new(id.clone());
    let mut read = 0;
    while read < operation.last_sequence {
        let Some(delivery) = subscription.next().await? else { break };
        read = delivery.sequence;
        fold.push(&delivery.event()?)
            .map_err(|error| UnifiedError::new(ErrorCategory::Internal, "event-grammar", error.to_string()))?;
    }
    Ok(fold.result())
}

async fn whole(app: &App, scope: &Scope, principal: &Principal, operation: &UnifiedOperation) -> Result<Response<Body>, UnifiedError> {
    let codec = codec(scope)?;
    let result = snapshot(app, principal, operation).await?;
    let context = app
        .engine
        .reading(principal, &operation.operation_id, codec.as_ref(), false)
        .await?;
    let encoded = codec.encode_response(&result, &context)?;
    Ok(json(StatusCode::OK, encoded.body))
}

/// GET: the interaction; with `?stream=true` its events, after `last_event_id` when one is named.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
    Parameters(reading): Parameters<Reading>,
) -> Response<Body> {
    let read = async {
        let operation = app.operation(&principal, &id).await?;
        if !switch(reading.stream.as_deref(), "stream")? {
            return whole(&app, &scope, &principal, &operation).await;
        }
        // The ID of an event is its number in the stream.
        let after = reading.last_event_id.as_deref().map_or(Ok(0), |text| {
            text.parse::<u64>().map_err(|_| {
                let message = "expected the event_id of one of its events in ?last_event_id=";
                UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message)
            })
        })?;
        let codec = codec(&scope)?;
        let subscription = app.engine.subscribe(&principal, &operation.operation_id, 0).await?;
        let context = app
            .engine
            .reading(&principal, &operation.operation_id, codec.as_ref(), true)
            .await?;
        let encoder = codec.stream_encoder(&context);
        let framing = ProtocolFraming::new(encoder, operation.operation_id.clone()).after(after);
        Ok(event_stream(relay::body(&app, &scope, subscription, framing, Bytes::new())))
    };
    match read.await {
        Ok(response) => response,
        Err(error) => Failure::from(error).respond(&scope),
    }
}

/// POST: stops a running interaction, and shows it.
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
) -> Response<Body> {
    let cancelled = async {
        let operation = app.operation(&principal, &id).await?;
        let id = operation.operation_id;
        if app.engine.cancel(&principal, &id, None).await?.accepted {
            // Whoever cancels sees the end, not the moment before it.
            let mut subscription = app.engine.subscribe(&principal, &id, 0).await?;
            while subscription.next().await?.is_some() {}
        }
        let operation = app.engine.operation(&principal, &id).await?;
        whole(&app, &scope, &principal, &operation).await
    };
    match cancelled.await {
        Ok(response) => response,
        Err(error) => Failure::from(error).respond(&scope),
    }
}

/// DELETE: it is not found any more, and nothing goes on from it by its ID.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
) -> Response<Body> {
    let deleted = async { app.engine.delete_operation(&principal, &lists::id(&id, "operation")?).await };
    match deleted.await {
        Ok(()) => json(StatusCode::OK, "{}".to_owned()),
        Err(error) => Failure::from(error).respond(&scope),
    }
}
