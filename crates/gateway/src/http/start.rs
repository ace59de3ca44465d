//! POST /unified/v2/operations: a turn in the form of the format itself, in the foreground, streamed or in the background.

use super::events::EventFraming;
use super::failure::{Failure, event_stream, json};
use super::gate::Scope;
use super::inbound::{self, Meta};
use super::relay;
use super::{App, Phase, client};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::{Principal, Turn, TurnError, TurnOptions, TurnRequest};
use throughline_format::{EventBody, Timestamp, UnifiedError, UnifiedId};
use throughline_protocols::unified_native::UnifiedNative;

/// Longest time that an answer is held back for `Prefer: wait=`.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Begin<'a> {
    #[serde(default)]
    conversation_id: Option<UnifiedId>,
    #[serde(default)]
    branch_id: Option<UnifiedId>,
    #[serde(borrow)]
    request: &'a RawValue,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    deadline: Option<Timestamp>,
}

/// The handler.
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    if app.phase() >= Phase::Draining {
        return Failure::from(inbound::draining()).respond(&scope);
    }
    let begun = async {
        let body = app.read_body(&headers, body).await?;
        let (request, stream) = request(&principal, &headers, &body)?;
        let turn = app.engine.begin(request, app.routes.as_ref()).await.map_err(within_request)?;
        Ok::<_, TurnError>((turn, stream))
    };
    let (turn, stream) = match begun.await {
        Ok(begun) => begun,
        Err(TurnError { error, loss }) => return inbound::refused(&scope, error, loss),
    };
    let meta = Meta::of(&turn);
    let answered = if stream {
        Ok(streamed(&app, &scope, principal, turn))
    } else {
        told(&app, &principal, &headers, turn).await
    };
    let mut response = answered.unwrap_or_else(|error| Failure::from(error).respond(&scope));
    meta.apply(response.headers_mut());
    response
}

fn request(principal: &Principal, headers: &HeaderMap, body: &Bytes) -> Result<(TurnRequest, bool), UnifiedError> {
    let asked: Begin<'_> = throughline_format::json::decode_slice(body)?;
    let request = TurnRequest {
        principal: principal.clone(),
        codec: Arc::new(UnifiedNative),
        body: body.slice_ref(asked.request.get().as_bytes()),
        model: None,
        stream: Some(asked.stream),
        conversation: place(asked.conversation_id, headers, "throughline-conversation")?,
        branch: place(asked.branch_id, headers, "throughline-branch")?,
        require: client::required_features(headers)?,
        client_family: client::family_of(headers),
        session: None,
        client_headers: client::client_headers(headers),
        transport: None,
        options: TurnOptions {
            idempotency_key: client::idempotency_key(headers)?,
            background: asked.background,
            deadline: asked.deadline,
            waits_for_approvals: true,
        },
    };
    Ok((request, asked.stream))
}

/// The place that body or header names.
fn place(named: Option<UnifiedId>, headers: &HeaderMap, header: &'static str) -> Result<Option<UnifiedId>, UnifiedError> {
    match named {
        Some(id) => Ok(Some(id)),
        None => client::id_header(headers, header),
    }
}

/// Errors of the record stand below `/request` in the body.
fn within_request(mut refused: TurnError) -> TurnError {
    if let Some(path) = &mut refused.error.field_path
        && path != "/deadline"
    {
        path.insert_str(0, "/request");
    }
    refused
}

fn streamed(app: &Arc<App>, scope: &Scope, principal: Principal, turn: Turn) -> Response<Body> {
    let framing = EventFraming {
        engine: Arc::clone(&app.engine),
        principal,
        conversation: turn.conversation_id,
        operation: turn.operation_id,
        start: 0,
    };
    event_stream(relay::body(app, scope, turn.subscription, framing, Bytes::new()))
}

/// The operation as it stands: accepted, or 200 when it ended within the time that the client wants to wait.
async fn told(app: &App, principal: &Principal, headers: &HeaderMap, mut turn: Turn) -> Result<Response<Body>, UnifiedError> {
    let waited = wait(headers);
    if let Some(wait) = waited {
        // Running out of time is no error: the client asks again.
        let _ = tokio::time::timeout(wait, settled(&mut turn)).await;
    }
    let operation = app.engine.operation(principal, &turn.operation_id).await?;
    let status = if waited.is_some() && operation.state.is_terminal() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let mut response = json(status, app.operation_view(principal, &operation).await?.to_json());
    if waited.is_some() {
        response
            .headers_mut()
            .insert(HeaderName::from_static("preference-applied"), HeaderValue::from_static("wait"));
    }
    Ok(response)
}

/// Until the operation has ended or somebody is needed.
async fn settled(turn: &mut Turn) -> Result<(), UnifiedError> {
    while let Some(delivery) = turn.subscription.next().await? {
        if matches!(delivery.event()?.body, EventBody::OperationRequiresAction(_)) {
            break;
        }
    }
    Ok(())
}

/// `Prefer: wait=SECONDS` (RFC 7240).
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer");
    let mut words = values
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let seconds = words.find_map(|word| word.trim().strip_prefix("wait=")?.parse().ok())?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn preferences() {
        for (value, expected) in [
            (Some("wait=10"), Some(10)),
            (Some("respond-async, wait=2"), Some(2)),
            (Some("wait=100000"), Some(300)),
            (Some("wait=x"), None),
            (Some("return=minimal"), None),
            (None, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert("prefer", HeaderValue::from_static(value));
            }
            assert_eq!(wait(&headers), expected.map(Duration::from_secs), "{value:?}");
        }
    }
}
