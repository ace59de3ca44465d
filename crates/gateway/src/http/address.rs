//! What an address says beyond its route: the ID in its path, the parameters of its query.
//!
//! axum's own extractors refuse in plain text; these two refuse in the shape of the path.

use super::failure::Failure;
use super::gate::Scope;
use super::lists::invalid;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use throughline_format::{ErrorCategory, UnifiedError};

/// The one variable segment of a path. One that is no UTF-8 names nothing.
pub(super) struct PathId(pub(super) String);

/// The parameters of a query, each at most once; those that nobody knows are passed over.
pub(super) struct Parameters<T>(pub(super) T);

fn refusal(parts: &Parts, error: UnifiedError) -> Response<Body> {
    if let Some(scope) = parts.extensions.get::<Scope>() {
        return Failure::from(error).respond(scope);
    }
    // The gate gives every request its scope.
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Response<Body>;

    #[expect(clippy::disallowed_types, reason = "its refusal is put into shape here")]
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let read = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let named = read.map(|axum::extract::Path(id)| Self(id));
        named.map_err(|_| {
            let error = UnifiedError::new(
                ErrorCategory::NotFound,
                "path",
                "the path names nothing: a segment of it is no UTF-8",
            );
            refusal(parts, error)
        })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Response<Body>;

    #[expect(clippy::disallowed_types, reason = "its refusal is put into shape here")]
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let read = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let asked = read.map(|axum::extract::Query(asked)| Self(asked));
        // The text of the refusal may repeat what the address holds, which may be a key.
        asked.map_err(|_| {
            refusal(
                parts,
                invalid("the query of the address cannot be read: a parameter is there twice, or is no UTF-8"),
            )
        })
    }
}

/// What a parameter says that is true or false; absent is false.
pub(super) fn switch(value: Option<&str>, name: &str) -> Result<bool, UnifiedError> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(invalid(format!("expected true or false in ?{name}="))),
    }
}
