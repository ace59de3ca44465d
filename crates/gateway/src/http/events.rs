//! GET /unified/v2/operations/{id}/events: the committed events of an operation, from any point, as often as asked for.

use super::App;
use super::address::{Parameters, PathId};
use super::failure::{Failure, event_stream, json};
use super::gate::Scope;
use super::lists;
use super::relay::{self, Detached, Framing};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, header};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use throughline_engine::{Delivery, Engine, Principal, Subscription};
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId, UnifiedOperation};

/// Where a reader begins, and how much it wants.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Start {
    cursor: Option<String>,
    after: Option<String>,
    limit: Option<String>,
}

/// The handler.
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
    Parameters(start): Parameters<Start>,
    headers: HeaderMap,
) -> Response<Body> {
    match respond(&app, &scope, &principal, &id, &start, &headers).await {
        Ok(response) => response,
        Err(failure) => failure.respond(&scope),
    }
}

async fn respond(
    app: &Arc<App>,
    scope: &Scope,
    principal: &Principal,
    id: &str,
    start: &Start,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    let operation = app.operation(principal, id).await?;
    let after = begin(&app.engine, principal, &operation, start, headers)?;
    let subscription = match app.engine.subscribe(principal, &operation.operation_id, after).await {
        Ok(subscription) => subscription,
        Err(error) => return Err(ahead(&app.engine, principal, &operation, error).await),
    };
    let framing = EventFraming {
        engine: Arc::clone(&app.engine),
        principal: principal.clone(),
        conversation: operation.conversation_id,
        operation: operation.operation_id,
        start: after,
    };
    if wants_page(headers) {
        return page(
            subscription,
            &framing,
            operation.last_sequence,
            after,
            lists::limit(start.limit.as_deref())?,
        )
        .await;
    }
    Ok(event_stream(relay::body(app, scope, subscription, framing, Bytes::new())))
}

/// `Last-Event-ID`, else `cursor`, else `after`, else the beginning.
fn begin(
    engine: &Engine,
    principal: &Principal,
    operation: &UnifiedOperation,
    start: &Start,
    headers: &HeaderMap,
) -> Result<u64, UnifiedError> {
    let last_event_id = headers
        .get("last-event-id")
        .map(|value| value.to_str().unwrap_or("?"))
        .filter(|value| !value.is_empty());
    if let Some(cursor) = last_event_id.or(start.cursor.as_deref()) {
        return engine.read_cursor(principal, &operation.operation_id, cursor);
    }
    let Some(after) = &start.after else { return Ok(0) };
    after.parse().map_err(|_| {
        UnifiedError::new(
            ErrorCategory::InvalidRequest,
            "invalid-value",
            "expected a number in ?after=; a cursor goes into ?cursor=",
        )
    })
}

/// A place beyond the head is answered with the head's cursor, from which the reader can go on.
async fn ahead(engine: &Engine, principal: &Principal, operation: &UnifiedOperation, error: UnifiedError) -> Failure {
    if error.code != "conflict.cursor-ahead" {
        return error.into();
    }
    let head = engine
        .operation(principal, &operation.operation_id)
        .await
        .map_or(operation.last_sequence, |now| now.last_sequence);
    let cursor = engine
        .cursor(principal, &operation.conversation_id, &operation.operation_id, head)
        .ok();
    Failure { error, loss: None, cursor }
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accept.contains("application/json") && !accept.contains("text/event-stream")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    data: Vec<Box<RawValue>>,
    cursor: String,
    has_more: bool,
}

/// The committed events up to the head as it was when the request came, without waiting for more.
async fn page(
    mut subscription: Subscription,
    framing: &EventFraming,
    head: u64,
    after: u64,
    limit: usize,
) -> Result<Response<Body>, Failure> {
    let (mut data, mut last) = (Vec::new(), after);
    while last < head && data.len() < limit {
        let Some(delivery) = subscription.next().await? else { break };
        last = delivery.sequence;
        let raw = serde_json::from_slice(&delivery.bytes)
            .map_err(|_| UnifiedError::new(ErrorCategory::Storage, "corrupt", format!("event {last} cannot be read")))?;
        data.push(raw);
    }
    let page = Page {
        data,
        cursor: framing.cursor(last)?,
        has_more: last < head,
    };
    Ok(json(StatusCode::OK, serde_json::to_string(&page).unwrap_or_default()))
}

/// Events as the native API sends them.
pub(super) struct EventFraming {
    pub(super) engine: Arc<Engine>,
    pub(super) principal: Principal,
    pub(super) conversation: UnifiedId,
    pub(super) operation: UnifiedId,
    /// Where the subscriber began.
    pub(super) start: u64,
}

impl EventFraming {
    fn cursor(&self, after: u64) -> Result<String, UnifiedError> {
        self.engine.cursor(&self.principal, &self.conversation, &self.operation, after)
    }
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    kind: &'a str,
}

#[derive(Serialize)]
struct DetachedData<'a> {
    reason: &'a str,
    cursor: String,
}

impl Framing for EventFraming {
    fn event(&mut self, delivery: &Delivery) -> Result<Bytes, UnifiedError> {
        let corrupt = || {
            UnifiedError::new(
                ErrorCategory::Storage,
                "corrupt",
                format!("event {} cannot be read", delivery.sequence),
            )
        };
        let kind = serde_json::from_slice::<Kind<'_>>(&delivery.bytes).map_err(|_| corrupt())?.kind;
        let cursor = self.cursor(delivery.sequence)?;
        let mut frame = Vec::with_capacity(delivery.bytes.len() + cursor.len() + kind.len() + 32);
        for piece in [
            b"id: ",
            cursor.as_bytes(),
            b"\nevent: ",
            kind.as_bytes(),
            b"\ndata: ",
            &delivery.bytes,
            b"\n\n",
        ] {
            frame.extend_from_slice(piece);
        }
        Ok(Bytes::from(frame))
    }

    fn failed(&mut self, error: UnifiedError) -> Bytes {
        tracing::warn!(operation = %self.operation, code = %error.code, "events cannot be read");
        Bytes::new()
    }

    fn detached(&mut self, why: Detached, after: Option<u64>) -> Bytes {
        let Ok(cursor) = self.cursor(after.unwrap_or(self.start)) else {
            return Bytes::new();
        };
        let data = serde_json::to_string(&DetachedData {
            reason: why.reason(),
            cursor,
        })
        .unwrap_or_default();
        Bytes::from(format!("event: detached\ndata: {data}\n\n"))
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b": keep-alive\n\n")
    }
}
