//! GET /v1/models and /v1beta/models: the names that routes take, in the list of the client's own protocol.

use super::App;
use super::address::PathId;
use super::failure::{Failure, json};
use super::gate::Scope;
use crate::routing::no_model;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use serde::Serialize;
use std::sync::Arc;
use throughline_format::{ProtocolFamily, Timestamp};

/// A list as Anthropic writes it.
#[derive(Serialize)]
struct AnthropicList<'a> {
    data: Vec<AnthropicModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicModel<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: String,
}

impl<'a> AnthropicModel<'a> {
    fn new(id: &'a str, now: Timestamp) -> Self {
        Self {
            kind: "model",
            id,
            display_name: id,
            created_at: now.to_string(),
        }
    }
}

/// A list as OpenAI writes it.
#[derive(Serialize)]
struct OpenAiList<'a> {
    object: &'static str,
    data: Vec<OpenAiModel<'a>>,
}

#[derive(Serialize)]
struct OpenAiModel<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
}

impl<'a> OpenAiModel<'a> {
    fn new(id: &'a str, now: Timestamp) -> Self {
        Self {
            id,
            object: "model",
            created: now.seconds(),
            owned_by: "throughline",
        }
    }
}

/// A list as Google writes it.
#[derive(Serialize)]
struct GeminiList<'a> {
    models: Vec<GeminiModel<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiModel<'a> {
    name: String,
    display_name: &'a str,
    supported_generation_methods: &'static [&'static str],
}

impl<'a> GeminiModel<'a> {
    fn new(id: &'a str) -> Self {
        Self {
            name: format!("models/{id}"),
            display_name: id,
            supported_generation_methods: &["generateContent", "streamGenerateContent"],
        }
    }
}

/// Begin of the paths that several protocols have.
pub(super) const SHARED: &str = "/v1/models";

/// Whose shapes a request for models is answered in, by what only one protocol's clients send.
pub(super) fn family(method: &Method, uri: &Uri, headers: &HeaderMap) -> ProtocolFamily {
    let has_key = || uri.query().unwrap_or_default().split('&').any(|pair| pair.starts_with("key="));
    if headers.contains_key("anthropic-version") {
        ProtocolFamily::AnthropicMessages
    } else if !uri.path().starts_with(SHARED) || *method == Method::POST || headers.contains_key("x-goog-api-key") || has_key() {
        ProtocolFamily::GeminiGenerateContent
    } else {
        ProtocolFamily::OpenAiChat
    }
}

/// The list. Routes know no dates, so the time of the request stands where a date must.
pub(super) async fn list(State(app): State<Arc<App>>, method: Method, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let (family, now) = (family(&method, &uri, &headers), app.clock.now());
    let names = app.routes.models(&family);
    let text = match family {
        ProtocolFamily::AnthropicMessages => serde_json::to_string(&AnthropicList {
            data: names.iter().map(|name| AnthropicModel::new(name, now)).collect(),
            has_more: false,
            first_id: names.first().copied(),
            last_id: names.last().copied(),
        }),
        ProtocolFamily::GeminiGenerateContent => serde_json::to_string(&GeminiList {
            models: names.iter().map(|name| GeminiModel::new(name)).collect(),
        }),
        _ => serde_json::to_string(&OpenAiList {
            object: "list",
            data: names.iter().map(|name| OpenAiModel::new(name, now)).collect(),
        }),
    };
    json(StatusCode::OK, text.unwrap_or_default())
}

/// One model; any name that a route takes.
pub(super) async fn one(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    PathId(id): PathId,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    let (family, now) = (family(&method, &uri, &headers), app.clock.now());
    if !app.routes.knows(&family, &id) {
        return Failure::from(no_model(&id)).respond(&scope);
    }
    let text = match family {
        ProtocolFamily::AnthropicMessages => serde_json::to_string(&AnthropicModel::new(&id, now)),
        ProtocolFamily::GeminiGenerateContent => serde_json::to_string(&GeminiModel::new(&id)),
        _ => serde_json::to_string(&OpenAiModel::new(&id, now)),
    };
    json(StatusCode::OK, text.unwrap_or_default())
}
