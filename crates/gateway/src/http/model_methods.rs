//! Turns of protocols whose URL names the model and the method: POST /v1beta/models/{model}:generateContent and its like.

use super::App;
use super::address::PathId;
use super::failure::Failure;
use super::gate::Scope;
use super::inbound::{self, Container, Shape};
use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Response};
use std::sync::Arc;
use throughline_engine::Principal;
use throughline_format::{ErrorCategory, UnifiedError};

/// What a path asks of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Generate,
    Stream,
    CountTokens,
}

/// The model and the method of a path such as `gemini-3-pro:generateContent`.
fn parse(action: &str) -> Result<(&str, Method), UnifiedError> {
    let unknown = || {
        let message = "expected MODEL:generateContent, MODEL:streamGenerateContent or MODEL:countTokens in the path";
        UnifiedError::new(ErrorCategory::NotFound, "path", message)
    };
    let (model, method) = action.rsplit_once(':').filter(|(model, _)| !model.is_empty()).ok_or_else(unknown)?;
    let method = match method {
        "generateContent" => Method::Generate,
        "streamGenerateContent" => Method::Stream,
        "countTokens" => Method::CountTokens,
        _ => return Err(unknown()),
    };
    Ok((model, method))
}

/// Whether the query asks for server-sent events; a stream is one JSON array without it.
fn asks_for_events(query: Option<&str>) -> bool {
    query.unwrap_or_default().split('&').any(|pair| pair == "alt=sse")
}

/// POST: a method of a model.
pub(super) async fn call(
    State(app): State<Arc<App>>,
    Extension(scope): Extension<Scope>,
    Extension(principal): Extension<Principal>,
    PathId(action): PathId,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let (model, method) = match parse(&action) {
        Ok(parsed) => parsed,
        Err(error) => return Failure::from(error).respond(&scope),
    };
    let Some(codec) = scope.codec.clone() else {
        return super::health::unknown_path(Extension(scope)).await;
    };
    if method == Method::CountTokens {
        let message = "this gateway does not count tokens; usage stands in every answer";
        let mut error = UnifiedError::new(ErrorCategory::Unsupported, "count-tokens", message);
        error.grpc_status = Some("UNIMPLEMENTED".to_owned());
        return Failure::from(error).respond(&scope);
    }
    let shape = Shape {
        model: Some(model.to_owned()),
        stream: Some(method == Method::Stream),
        container: if asks_for_events(query.as_deref()) {
            Container::Events
        } else {
            Container::Array
        },
        ..Shape::default()
    };
    let as_array = method == Method::Stream && matches!(shape.container, Container::Array);
    let answer = inbound::turn(app, codec, scope, principal, headers, body, shape).await;
    if as_array && !answer.status().is_success() {
        return in_array(answer).await;
    }
    answer
}

/// Bytes of an error that are looked at; the gateway writes none that is longer.
const ERROR_BYTES: usize = 1 << 20;

/// A refusal as whoever reads the array expects it: the array's only element.
async fn in_array(refusal: Response<Body>) -> Response<Body> {
    let (mut parts, body) = refusal.into_parts();
    let error = axum::body::to_bytes(body, ERROR_BYTES).await.unwrap_or_default();
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from([b"[".as_slice(), &error, b"]"].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries() {
        for (action, expected) in [
            ("gemini-3-pro:generateContent", Some(("gemini-3-pro", Method::Generate))),
            ("qwen/qwen3:4b:streamGenerateContent", Some(("qwen/qwen3:4b", Method::Stream))),
            ("m:countTokens", Some(("m", Method::CountTokens))),
            ("m:embedContent", None),
            (":generateContent", None),
            ("m", None),
        ] {
            assert_eq!(parse(action).ok(), expected, "{action}");
        }
        for (query, expected) in [
            (None, false),
            (Some("key=a&alt=sse"), true),
            (Some("alt=json"), false),
            (Some("xalt=sse"), false),
        ] {
            assert_eq!(asks_for_events(query), expected, "{query:?}");
        }
    }
}
