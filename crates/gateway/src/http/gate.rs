//! What every request passes: request ID, shape of its errors, authentication, panic fence.

use super::failure::Failure;
use super::models;
use super::surface::Spoken;
use super::{App, Phase};
use crate::auth::Client;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Response};
use axum::middleware::Next;
use futures_util::FutureExt as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use throughline_engine::ports::IdKind;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId};
use throughline_protocols::Codec;

/// What is known of a request before its handler runs.
#[derive(Clone)]
pub(crate) struct Scope {
    /// Its ID.
    pub(crate) request_id: UnifiedId,
    /// Shape of errors; absent = the native one.
    pub(crate) codec: Option<Arc<dyn Codec>>,
    /// The client key that let it in; absent = none was needed.
    pub(crate) key: Option<UnifiedId>,
}

/// `throughline-request`
pub(crate) const REQUEST_HEADER: HeaderName = HeaderName::from_static("throughline-request");

/// After which time a client asks a gateway that starts, or stops, again.
pub(super) const RETRY_MILLIS: u64 = 1_000;

/// Paths that anybody may ask.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/healthz" | "/readyz")
}

impl App {
    /// The protocol whose shapes a request is answered in; absent = the native one.
    fn shape(&self, request: &Request) -> Option<&Spoken> {
        let path = request.uri().path();
        if path.starts_with(models::SHARED) {
            return self
                .surface
                .of_family(&models::family(request.method(), request.uri(), request.headers()));
        }
        self.surface.of_path(path)
    }
}

/// The middleware.
pub(crate) async fn gate(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response<Body> {
    let spoken = app.shape(&request).cloned();
    let mut scope = Scope {
        request_id: app.ids.next(IdKind::Request),
        codec: spoken.as_ref().map(|spoken| Arc::clone(&spoken.codec)),
        key: None,
    };
    let path = request.uri().path().to_owned();
    let admitted = if is_open(&path) {
        Ok(None)
    } else {
        admit(&app, &request, &path).map(Some)
    };
    let mut response = match admitted {
        Ok(client) => {
            if let Some(client) = client {
                request.extensions_mut().insert(client.principal);
                scope.key = client.key;
            }
            request.extensions_mut().insert(scope.clone());
            if let Ok(response) = AssertUnwindSafe(next.run(request)).catch_unwind().await {
                response
            } else {
                tracing::error!(request = %scope.request_id, "a handler panicked");
                Failure::from(UnifiedError::new(
                    ErrorCategory::Internal,
                    "panic",
                    "the gateway made a mistake; the request ID helps to find it",
                ))
                .respond(&scope)
            }
        }
        Err(error) => Failure::from(error).respond(&scope),
    };
    let request_id = response
        .headers()
        .get(REQUEST_HEADER)
        .cloned()
        .or_else(|| HeaderValue::from_str(scope.request_id.as_str()).ok());
    if let Some(request_id) = request_id {
        // Where the client's SDK looks for it.
        if let Some(spoken) = &spoken {
            response
                .headers_mut()
                .insert(HeaderName::from_static(spoken.protocol.request_id), request_id.clone());
        }
        response.headers_mut().insert(REQUEST_HEADER, request_id);
    }
    tracing::debug!(request = %scope.request_id, path, status = response.status().as_u16(), "answered");
    response
}

fn admit(app: &App, request: &Request, path: &str) -> Result<Client, UnifiedError> {
    if app.phase() == Phase::Starting {
        let message = "the gateway is starting; ask again in a moment";
        let mut error = UnifiedError::new(ErrorCategory::Overloaded, "starting", message);
        error.retry_after_ms = Some(RETRY_MILLIS);
        return Err(error);
    }
    app.auth
        .authenticate(request.headers(), request.uri(), path.starts_with("/unified/"))
}
