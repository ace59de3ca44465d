//! UI messages of the Vercel AI SDK: POST /vercel/chat, and GET /vercel/chat/{id}/stream for a client that comes back.
//!
//! The SDK asks for a running stream by the ID of its chat and reads it from the beginning, so what is remembered is which
//! operation a chat began last: in this process only, since no operation of another one is running.

use super::App;
use super::address::PathId;
use super::failure::{Failure, event_stream};
use super::gate::Scope;
use super::inbound::{self, Began, ProtocolFraming, Shape};
use super::relay;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use throughline_engine::Principal;
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError, UnifiedId};
use throughline_protocols::vercel_uimessage::{Chat, Major};
use throughline_protocols::{Capabilities, Codec, EncodeContext};

/// Path of a turn.
pub(super) const TURN: &str = "/vercel/chat";

/// Names the major version of the client's SDK.
const MAJOR: &str = "throughline-ai-sdk";

/// What tells the SDK's readers that a stream is theirs.
const STREAM_HEADERS: &[(&str, &str)] = &[("x-vercel-ai-ui-message-stream", "v1")];

/// Chats that are remembered at most; the oldest one is forgotten first.
const MAX_CHATS: usize = 4_096;

/// Longest ID of a chat that is remembered, in bytes.
const MAX_ID_BYTES: usize = 512;

/// The last operation of each chat.
#[derive(Default)]
pub(super) struct Chats(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    by_chat: HashMap<(Principal, String), Running>,
    order: VecDeque<(Principal, String)>,
}

/// An operation with what its stream looks like to the client that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Running {
    operation: UnifiedId,
    message_id: Option<String>,
}

impl Chats {
    fn begin(&self, principal: Principal, chat: String, running: Running) {
        if chat.len() > MAX_ID_BYTES {
            return;
        }
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (principal, chat);
        if remembered.by_chat.insert(key.clone(), running).is_none() {
            remembered.order.push_back(key);
        }
        while remembered.order.len() > MAX_CHATS {
            if let Some(oldest) = remembered.order.pop_front() {
                remembered.by_chat.remove(&oldest);
            }
        }
    }

    fn last(&self, principal: &Principal, chat: &str) -> Option<Running> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.by_chat.get(&(principal.clone(), chat.to_owned())).cloned()
    }
}

fn codec(app: &App) -> Result<Arc<dyn Codec>, UnifiedError> {
    let spoken = app.surface.of_family(&ProtocolFamily::VercelUiMessage);
    spoken
        .map(|spoken| Arc::clone(&spoken.codec))
        .ok_or_else(|| UnifiedError::new(ErrorCategory::Unsupported, "direction", "this build has no codec for UI messages"))
}

/// The major that a client names; absent = the newest one.
fn major(headers: &HeaderMap) -> Result<Option<String>, UnifiedError> {
    let Some(value) = headers.get(MAJOR) else { return Ok(None) };
    let word = value.to_str().unwrap_or_default().trim();
    if Major::named(word).is_none() {
        return Err(UnifiedError::new(
            ErrorCategory::InvalidRequest,
            "invalid-value",
            format!("the header {MAJOR} is 5, 6 or 7"),
        ));
    }
    Ok(Some(word.to_owned()))
}

/// POST: a turn of a chat.
pub(super) async fn turn(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let prepared = async {
        let dialect = major(&headers)?;
        let body = app.read_body(&headers, body).await?;
        Ok::<_, UnifiedError>((codec(&app)?, dialect, body))
    };
    let (codec, dialect, body) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => return Failure::from(error).respond(&scope),
    };
    let chat = Chat::of(&body);
    let message_id = chat.continues.clone();
    let began = chat.id.map(|id| {
        let (app, principal, message_id) = (Arc::clone(&app), principal.clone(), message_id.clone());
        let remember = move |operation: &UnifiedId| {
            let running = Running {
                operation: operation.clone(),
                message_id,
            };
            app.chats.begin(principal, id, running);
        };
        Box::new(remember) as Began
    });
    let shape = Shape {
        dialect,
        message_id,
        stream_headers: STREAM_HEADERS,
        began,
        ..Shape::default()
    };
    inbound::turn(app, codec, scope, principal, headers, Body::from(body), shape).await
}

/// GET: the chat's stream from its beginning while it runs, else 204.
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Response<Body> {
    match replay(&app, &scope, &principal, &id, &headers).await {
        Ok(Some(response)) => response,
        Ok(None) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Err(error) => Failure::from(error).respond(&scope),
    }
}

async fn replay(
    app: &Arc<App>,
    scope: &Scope,
    principal: &Principal,
    id: &str,
    headers: &HeaderMap,
) -> Result<Option<Response<Body>>, UnifiedError> {
    let dialect = major(headers)?;
    let Some(running) = app.chats.last(principal, id) else {
        return Ok(None);
    };
    let operation = match app.engine.operation(principal, &running.operation).await {
        Ok(operation) => operation,
        // Retention may have taken it away.
        Err(error) if error.category == ErrorCategory::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if operation.state.is_terminal() {
        return Ok(None);
    }
    let codec = codec(app)?;
    let subscription = app.engine.subscribe(principal, &running.operation, 0).await?;
    let context = EncodeContext {
        stream: true,
        dialect,
        message_id: running.message_id,
        created_at: operation.created_at,
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    let framing = ProtocolFraming::new(codec.stream_encoder(&context), running.operation.clone());
    let mut response = event_stream(relay::body(app, scope, subscription, framing, Bytes::new()));
    Shape::mark(response.headers_mut(), STREAM_HEADERS);
    if let Ok(value) = HeaderValue::from_str(running.operation.as_str()) {
        response
            .headers_mut()
            .insert(HeaderName::from_static("throughline-operation"), value);
    }
    Ok(Some(response))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn running(number: usize) -> Running {
        Running {
            operation: UnifiedId::parse(&format!("op_{number}")).unwrap(),
            message_id: None,
        }
    }

    #[test]
    fn the_last_operation_of_a_chat_counts_and_the_oldest_chat_is_forgotten() {
        let (chats, me) = (Chats::default(), Principal::new("me"));
        for number in 0..=MAX_CHATS {
            chats.begin(me.clone(), format!("c{number}"), running(number));
            // A chat that goes on takes no second place.
            chats.begin(me.clone(), format!("c{number}"), running(number + 1));
        }
        assert_eq!(chats.last(&me, "c0"), None, "one beyond the bound");
        assert_eq!(chats.last(&me, "c1"), Some(running(2)), "at the bound");
        assert_eq!(chats.last(&Principal::new("you"), "c1"), None);
        chats.begin(me.clone(), "x".repeat(MAX_ID_BYTES), running(1));
        chats.begin(me.clone(), "x".repeat(MAX_ID_BYTES + 1), running(1));
        assert!(chats.last(&me, &"x".repeat(MAX_ID_BYTES)).is_some());
        assert!(chats.last(&me, &"x".repeat(MAX_ID_BYTES + 1)).is_none());
    }

    #[test]
    fn majors() {
        for (value, expected) in [
            (None, Ok(None)),
            (Some("5"), Ok(Some("5".to_owned()))),
            (Some(" 7 "), Ok(Some("7".to_owned()))),
            (Some("8"), Err("invalid-request.invalid-value".to_owned())),
            (Some("v6"), Err("invalid-request.invalid-value".to_owned())),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(HeaderName::from_static(MAJOR), HeaderValue::from_static(value));
            }
            assert_eq!(major(&headers).map_err(|error| error.code), expected, "{value:?}");
        }
    }
}
