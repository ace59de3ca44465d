//! [`DemoUpstream`]: the HTTP server that the demo's providers are.

use super::script::{DemoPrivate, Place, Scripts};
use super::{ANTHROPIC_MODEL, OPENAI_MODEL};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::ports::{Clock, IdKind, IdSource};
use throughline_format::{ErrorCategory, EventBody, Fold, ProtocolFamily, UnifiedError};
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext};
use tokio::net::TcpListener;

/// Pause before each piece of text.
const PAUSE: Duration = Duration::from_millis(25);
/// Largest request; the gateway's own limit is the smaller one in practice.
const MAX_BODY: usize = 64 * 1024 * 1024;

struct Shared {
    scripts: Scripts,
    key: String,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

/// The running server; it stops when this value is dropped.
pub struct DemoUpstream {
    address: SocketAddr,
    key: String,
    task: tokio::task::JoinHandle<()>,
}

impl DemoUpstream {
    /// Starts the server on a free loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Result<Self, UnifiedError> {
        let failed = |what: &str| UnifiedError::new(ErrorCategory::Internal, "demo", what.to_owned());
        let mut secret = [0u8; 16];
        getrandom::fill(&mut secret).map_err(|_| failed("the system gives no randomness"))?;
        let key = format!("demo-{}", data_encoding::HEXLOWER.encode(&secret));
        let scripts = Scripts::load().map_err(|_| failed("the demo's conversations cannot be read"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(|_| failed("the demo's upstream found no port"))?;
        let address = listener.local_addr().map_err(|_| failed("the demo's upstream has no address"))?;
        let router = Router::new()
            .route("/v1/messages", post(messages))
            .route("/v1/chat/completions", post(chat_completions))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(Arc::new(Shared {
                scripts,
                key: key.clone(),
                clock,
                ids,
            }));
        let task = tokio::spawn(async move {
            if axum::serve(listener, router).await.is_err() {
                tracing::error!("the demo's upstream stopped");
            }
        });
        Ok(Self { address, key, task })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key that it asks for.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

impl Drop for DemoUpstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn messages(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let key = headers.get("x-api-key").and_then(|value| value.to_str().ok());
    answer(&shared, &ProtocolFamily::AnthropicMessages, key, &body)
}

async fn chat_completions(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let key = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    answer(&shared, &ProtocolFamily::OpenAiChat, key, &body)
}

fn answer(shared: &Shared, family: &ProtocolFamily, key: Option<&str>, body: &[u8]) -> Response<Body> {
    let Some(codec) = throughline_protocols::codec_of(family) else {
        return respond(StatusCode::NOT_IMPLEMENTED, "application/json", Body::empty());
    };
    if key != Some(shared.key.as_str()) {
        return refuse(
            codec.as_ref(),
            &UnifiedError::new(
                ErrorCategory::Auth,
                "key",
                "the demo's upstream takes only the key of its own process",
            ),
        );
    }
    play(shared, codec.as_ref(), body).unwrap_or_else(|error| refuse(codec.as_ref(), &error))
}

fn play(shared: &Shared, codec: &dyn Codec, body: &[u8]) -> Result<Response<Body>, UnifiedError> {
    let operation_id = shared.ids.next(IdKind::Operation);
    let now = shared.clock.now();
    let decoded = codec.decode_request(
        body,
        &DecodeContext {
            operation_id: operation_id.clone(),
            received_at: now,
            ..DecodeContext::offline()
        },
    )?;
    let family = codec.profile().family;
    let (model, call_prefix) = if family == ProtocolFamily::AnthropicMessages {
        (ANTHROPIC_MODEL, "toolu_")
    } else {
        (OPENAI_MODEL, "call_")
    };
    if decoded.unified.model.requested != model {
        return Err(UnifiedError::new(
            ErrorCategory::NotFound,
            "model",
            format!("the demo's upstream has only the model {model} on this protocol"),
        ));
    }
    let place = Place {
        profile: codec.profile(),
        model: model.to_owned(),
        call_id: operation_id.as_str().replacen("op_", call_prefix, 1),
        thinks: family == ProtocolFamily::AnthropicMessages,
        now,
        input_bytes: body.len(),
        operation_id,
    };
    let events = shared.scripts.answer(&decoded.unified).events(&place);
    let context = EncodeContext {
        private: Arc::new(DemoPrivate::of(&events)),
        stream: decoded.stream,
        created_at: now,
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    let stamped = (1..)
        .zip(events.drafts)
        .map(|(sequence, draft)| draft.stamp(&place.operation_id, sequence, now));
    if decoded.stream {
        let mut encoder = codec.stream_encoder(&context);
        let mut chunks = VecDeque::new();
        for event in stamped {
            let pause = if matches!(event.body, EventBody::TextDelta(_) | EventBody::ReasoningDelta(_)) {
                PAUSE
            } else {
                Duration::ZERO
            };
            let text: String = encoder.push(&event).iter().map(throughline_protocols::WireFrame::to_sse).collect();
            if !text.is_empty() {
                chunks.push_back((pause, Bytes::from(text)));
            }
        }
        let body = stream::unfold(chunks, |mut chunks| async move {
            let (pause, text) = chunks.pop_front()?;
            tokio::time::sleep(pause).await;
            Some((Ok::<_, std::convert::Infallible>(text), chunks))
        });
        return Ok(respond(StatusCode::OK, "text/event-stream", Body::from_stream(body)));
    }
    let mut fold = Fold::new(place.operation_id.clone());
    for event in stamped {
        fold.push(&event)
            .map_err(|error| UnifiedError::new(ErrorCategory::Internal, "event-grammar", error.to_string()))?;
    }
    let encoded = codec.encode_response(&fold.result(), &context)?;
    Ok(respond(StatusCode::OK, "application/json", Body::from(encoded.body)))
}

fn refuse(codec: &dyn Codec, error: &UnifiedError) -> Response<Body> {
    let wire = codec.encode_error(error);
    respond(
        StatusCode::from_u16(wire.status).unwrap_or(StatusCode::BAD_REQUEST),
        "application/json",
        Body::from(wire.body),
    )
}

fn respond(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
