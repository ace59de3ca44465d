//! Client protocols: one turn each, streamed or not.

use super::failure::{Failure, event_stream, json};
use super::gate::{REQUEST_HEADER, RETRY_MILLIS, Scope};
use super::relay::{self, Detached, Framing};
use super::{App, Phase, client, session};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use futures_util::FutureExt as _;
use std::sync::Arc;
use throughline_engine::{Delivery, Principal, Turn, TurnError, TurnOptions, TurnRequest};
use throughline_format::event::{ErrorEvent, EventBody, EventDraft};
use throughline_format::{ErrorCategory, LossDisposition, UnifiedError, UnifiedId, UnifiedLossReport};
use throughline_protocols::{Codec, StreamEncoder};

const CONVERSATION: HeaderName = HeaderName::from_static("throughline-conversation");
const OPERATION: HeaderName = HeaderName::from_static("throughline-operation");
const CURSOR: HeaderName = HeaderName::from_static("throughline-cursor");
const LOSS: HeaderName = HeaderName::from_static("throughline-loss");

/// Learns of an operation.
pub(super) type Began = Box<dyn FnOnce(&UnifiedId) + Send>;

/// What a protocol adds to a turn beside its codec.
#[derive(Default)]
pub(super) struct Shape {
    /// Dialect of the client.
    pub(super) dialect: Option<String>,
    /// ID of the client's message that the answer goes on with.
    pub(super) message_id: Option<String>,
    /// Model, when the URL names it.
    pub(super) model: Option<String>,
    /// Whether the answer is a stream, when the URL says so.
    pub(super) stream: Option<bool>,
    /// How a stream's frames are held together.
    pub(super) container: Container,
    /// Headers that its readers want on a stream.
    pub(super) stream_headers: &'static [(&'static str, &'static str)],
    /// Learns of the operation before anything of it is sent.
    pub(super) began: Option<Began>,
}

/// What holds the frames of a stream together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Container {
    /// Server-sent events.
    #[default]
    Events,
    /// The elements of one JSON array.
    Array,
}

impl Shape {
    /// Sets the stream's headers.
    pub(super) fn mark(headers: &mut HeaderMap, marks: &'static [(&'static str, &'static str)]) {
        for (name, value) in marks {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
}

/// One turn of any client protocol.
pub(super) async fn turn(
    app: Arc<App>,
    codec: Arc<dyn Codec>,
    scope: Scope,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
    shape: Shape,
) -> Response<Body> {
    if app.phase() >= Phase::Draining {
        return Failure::from(draining()).respond(&scope);
    }
    let request = match request(&app, &codec, principal, &headers, body).await {
        Ok(request) => TurnRequest {
            model: shape.model,
            stream: shape.stream,
            ..request
        },
        Err(error) => return Failure::from(error).respond(&scope),
    };
    let mut turn = match app.engine.begin(request, app.routes.as_ref()).await {
        Ok(turn) => turn,
        Err(TurnError { error, loss }) => return refused(&scope, error, loss),
    };
    let meta = Meta::of(&turn);
    if let Some(began) = shape.began {
        began(&turn.operation_id);
    }
    turn.encode.dialect = shape.dialect.or(turn.encode.dialect);
    turn.encode.message_id = shape.message_id;
    let is_stream = turn.stream;
    let mut response = if is_stream {
        streamed(&app, codec.as_ref(), &scope, turn, shape.container).await
    } else {
        whole(codec.as_ref(), &scope, turn).await
    };
    meta.apply(response.headers_mut());
    if is_stream && response.status().is_success() {
        Shape::mark(response.headers_mut(), shape.stream_headers);
    }
    response
}

/// The answer to a turn that did not begin.
pub(super) fn refused(scope: &Scope, error: UnifiedError, loss: Option<UnifiedLossReport>) -> Response<Body> {
    let mut response = Failure {
        error,
        loss: loss.clone(),
        cursor: None,
    }
    .respond(scope);
    if let Some(loss) = loss {
        set_loss(response.headers_mut(), &loss);
    }
    response
}

/// The error of a gateway that takes nothing new any more.
pub(super) fn draining() -> UnifiedError {
    let message = "the gateway is shutting down; ask again in a moment";
    let mut error = UnifiedError::new(ErrorCategory::Overloaded, "draining", message);
    error.retry_after_ms = Some(RETRY_MILLIS);
    error
}

async fn request(
    app: &App,
    codec: &Arc<dyn Codec>,
    principal: Principal,
    headers: &HeaderMap,
    body: Body,
) -> Result<TurnRequest, UnifiedError> {
    let (conversation, branch) = (
        client::id_header(headers, "throughline-conversation")?,
        client::id_header(headers, "throughline-branch")?,
    );
    let require = client::required_features(headers)?;
    let client_family = client::family_of(headers);
    let body = app.read_body(headers, body).await?;
    Ok(TurnRequest {
        principal,
        codec: Arc::clone(codec),
        model: None,
        stream: None,
        conversation,
        branch,
        require,
        session: session::client_session(client_family.as_deref(), headers, &body),
        body,
        client_family,
        client_headers: client::client_headers(headers),
        transport: None,
        options: TurnOptions {
            idempotency_key: client::idempotency_key(headers)?,
            ..TurnOptions::default()
        },
    })
}

/// What an answer tells about its turn.
pub(super) struct Meta {
    conversation: UnifiedId,
    operation: UnifiedId,
    request: UnifiedId,
    cursor: String,
    loss: UnifiedLossReport,
}

impl Meta {
    pub(super) fn of(turn: &Turn) -> Self {
        Self {
            conversation: turn.conversation_id.clone(),
            operation: turn.operation_id.clone(),
            request: turn.request_id.clone(),
            cursor: turn.cursor.clone(),
            loss: turn.loss.clone(),
        }
    }

    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        for (name, value) in [
            (CONVERSATION, self.conversation.as_str()),
            (OPERATION, self.operation.as_str()),
            (CURSOR, &self.cursor),
            (REQUEST_HEADER, self.request.as_str()),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        set_loss(headers, &self.loss);
    }
}

pub(super) fn set_loss(headers: &mut HeaderMap, loss: &UnifiedLossReport) {
    headers.insert(
        LOSS,
        HeaderValue::from_static(match loss.disposition {
            LossDisposition::Lossless => "lossless",
            LossDisposition::Degraded => "degraded",
            LossDisposition::Unsupported => "unsupported",
        }),
    );
}

async fn whole(codec: &dyn Codec, scope: &Scope, turn: Turn) -> Response<Body> {
    let encode = turn.encode.clone();
    let encoded = match turn.collect().await {
        Ok(result) => codec.encode_response(&result, &encode),
        Err(error) => Err(error),
    };
    match encoded {
        Ok(encoded) => json(StatusCode::OK, encoded.body),
        Err(error) => Failure::from(error).respond(scope),
    }
}

async fn streamed(app: &Arc<App>, codec: &dyn Codec, scope: &Scope, mut turn: Turn, container: Container) -> Response<Body> {
    let mut framing = ProtocolFraming::new(codec.stream_encoder(&turn.encode), turn.operation_id.clone());
    framing.container = container;
    let first = match opening(&mut turn, &mut framing).await {
        Ok(first) => first,
        Err(error) => return Failure::from(error.of_operation(&turn.operation_id)).respond(scope),
    };
    let body = relay::body(app, scope, turn.subscription, framing, first);
    match container {
        Container::Events => event_stream(body),
        Container::Array => json(StatusCode::OK, body),
    }
}

/// The status line waits for the event that tells whether there is an answer at all, so that a refusal of the provider is
/// an HTTP error in the client's shape. Gives the frames up to there.
async fn opening(turn: &mut Turn, framing: &mut ProtocolFraming) -> Result<Bytes, UnifiedError> {
    let ended = || UnifiedError::new(ErrorCategory::Interrupted, "operation", "the operation ended without an answer");
    let mut first = Vec::new();
    let mut begun = false;
    loop {
        // A refusal is committed together with the begin of its empty answer, so one look further is needed; it never waits.
        let delivery = if begun {
            match turn.subscription.next().now_or_never() {
                Some(next) => next?,
                None => return Ok(first.into()),
            }
        } else {
            turn.subscription.next().await?
        };
        let delivery = delivery.ok_or_else(ended)?;
        let event = delivery.event()?;
        let last = begun;
        match event.body {
            EventBody::ResponseStarted(_) | EventBody::OperationCompleted(_) => begun = true,
            EventBody::OperationFailed(ErrorEvent { error }) => return Err(error),
            EventBody::OperationExpired(_) => {
                return Err(UnifiedError::new(
                    ErrorCategory::Timeout,
                    "deadline",
                    "the deadline of the operation passed before it had an answer",
                ));
            }
            EventBody::OperationCancelled(_) => {
                return Err(UnifiedError::new(
                    ErrorCategory::Cancelled,
                    "operation",
                    "the operation was cancelled before it had an answer",
                ));
            }
            _ => {}
        }
        first.extend_from_slice(&framing.event(&delivery)?);
        if last {
            return Ok(first.into());
        }
    }
}

/// Events as frames of a client's protocol.
pub(super) struct ProtocolFraming {
    encoder: Box<dyn StreamEncoder>,
    operation_id: UnifiedId,
    last: u64,
    /// What holds the frames together.
    container: Container,
    /// Frames so far.
    count: u64,
    /// Frames that the client has already.
    skip: u64,
}

impl ProtocolFraming {
    /// Frames of one operation from its begin.
    pub(super) fn new(encoder: Box<dyn StreamEncoder>, operation_id: UnifiedId) -> Self {
        Self {
            encoder,
            operation_id,
            last: 0,
            container: Container::default(),
            count: 0,
            skip: 0,
        }
    }

    /// The same without the first frames, for a client that has them already.
    pub(super) fn after(mut self, frames: u64) -> Self {
        self.skip = frames;
        self
    }

    fn frames(&mut self, event: &throughline_format::UnifiedEventV2) -> Bytes {
        let mut text = String::new();
        for frame in self.encoder.push(event) {
            let first = self.count == 0;
            self.count += 1;
            if self.count <= self.skip {
                continue;
            }
            match self.container {
                Container::Events => text.push_str(&frame.to_sse()),
                Container::Array => {
                    text.push_str(if first { "[" } else { ",\n" });
                    text.push_str(&frame.data);
                }
            }
        }
        Bytes::from(text)
    }
}

impl Framing for ProtocolFraming {
    fn event(&mut self, delivery: &Delivery) -> Result<Bytes, UnifiedError> {
        self.last = delivery.sequence;
        let event = delivery.event()?;
        Ok(self.frames(&event))
    }

    fn failed(&mut self, error: UnifiedError) -> Bytes {
        // The protocol's own form of an error in a stream. The event is only shown, never stored.
        let time = throughline_format::Timestamp::EPOCH;
        let event = EventDraft::new(EventBody::OperationFailed(ErrorEvent { error })).stamp(&self.operation_id, self.last + 1, time);
        let frames = self.frames(&event);
        Bytes::from([frames, self.end()].concat())
    }

    fn end(&mut self) -> Bytes {
        match (self.container, self.count) {
            (Container::Events, _) => Bytes::new(),
            (Container::Array, 0) => Bytes::from_static(b"[]"),
            (Container::Array, _) => Bytes::from_static(b"]"),
        }
    }

    fn detached(&mut self, _: Detached, _: Option<u64>) -> Bytes {
        // No client protocol can say it; a cut connection is what their SDKs understand.
        Bytes::new()
    }

    fn keep_alive(&self) -> Bytes {
        match self.container {
            Container::Events => Bytes::from(self.encoder.keep_alive().into_owned()),
            // White space between the elements says nothing.
            Container::Array => Bytes::from_static(b"\n"),
        }
    }
}
