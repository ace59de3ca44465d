//! The HTTP surface: paths, who may use them, and what every answer carries.
//!
//! Client protocols answer in their own shapes, written by their codecs; the native API under `/unified/v2` writes records
//! of the format. Nothing here builds wire JSON of a provider, except the models lists.

mod address;
mod body;
mod bundles;
mod chats;
mod client;
mod compact;
mod conversations;
mod events;
mod failure;
mod gate;
mod health;
mod inbound;
mod interactions;
mod lists;
mod model_methods;
mod models;
mod operations;
mod relay;
mod session;
mod start;
mod surface;
mod view;

pub use client::client_family;
pub use failure::native_status;

use crate::auth::Authenticator;
use crate::config::LimitsConfig;
use crate::routing::RouteTable;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Router};
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::Engine;
use throughline_engine::ports::{Clock, IdSource};
use throughline_format::UnifiedError;
use tokio::sync::watch;

/// Pause without an event after which a comment keeps the connection open (contract.md, section 2).
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How far the process is between start and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not ready yet.
    Starting,
    /// Takes requests.
    Serving,
    /// Takes no new operation; running ones go on.
    Draining,
    /// Subscribers are detached.
    Closing,
}

/// Everything that handlers share.
pub struct App {
    engine: Arc<Engine>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
    routes: Arc<RouteTable>,
    auth: Authenticator,
    surface: surface::Surface,
    limits: HttpLimits,
    chats: chats::Chats,
    phase: watch::Sender<Phase>,
}

/// Bounds and pauses of the HTTP surface.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Bytes of a request body.
    pub request_body: usize,
    /// How long the next piece of a request body may take; the whole body may take ten times as long.
    pub request_idle: Duration,
    /// How long a subscriber may take no bytes.
    pub subscriber_lag: Duration,
    /// Pause without an event after which a comment is sent.
    pub keep_alive: Duration,
}

impl From<&LimitsConfig> for HttpLimits {
    fn from(limits: &LimitsConfig) -> Self {
        Self {
            request_body: limits.request_body,
            request_idle: limits.request_idle,
            subscriber_lag: limits.subscriber_lag,
            keep_alive: KEEP_ALIVE,
        }
    }
}

/// What an [`App`] is built from.
pub struct AppConfig {
    /// The engine.
    pub engine: Arc<Engine>,
    /// IDs of requests that begin no operation.
    pub ids: Arc<dyn IdSource>,
    /// Time, for the models list.
    pub clock: Arc<dyn Clock>,
    /// Routes.
    pub routes: Arc<RouteTable>,
    /// Who may use it.
    pub auth: Authenticator,
    /// Bounds.
    pub limits: HttpLimits,
}

impl App {
    /// The shared state of the handlers, in phase [`Phase::Starting`].
    ///
    /// # Errors
    /// When this build lacks a codec of an inbound path.
    pub fn new(config: AppConfig) -> Result<Arc<Self>, UnifiedError> {
        Ok(Arc::new(Self {
            engine: config.engine,
            ids: config.ids,
            clock: config.clock,
            routes: config.routes,
            auth: config.auth,
            surface: surface::Surface::new()?,
            limits: config.limits,
            chats: chats::Chats::default(),
            phase: watch::Sender::new(Phase::Starting),
        }))
    }

    /// Moves on to a later phase; there is no way back.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    fn phase(&self) -> Phase {
        *self.phase.borrow()
    }
}

/// Every path of the gateway.
pub fn router(app: Arc<App>) -> Router {
    let mut turns = Router::new();
    for spoken in app.surface.iter() {
        for path in spoken.protocol.turns {
            let codec = Arc::clone(&spoken.codec);
            let turn = |State(app), Extension(scope), Extension(principal), headers, body| {
                inbound::turn(app, codec, scope, principal, headers, body, inbound::Shape::default())
            };
            let handler = match *path {
                // Chats are asked for again by their ID, so they have a handler of their own.
                chats::TURN => post(chats::turn),
                _ if spoken.codec.wire_traits().model_in_url => post(model_methods::call).get(models::one),
                _ => post(turn),
            };
            turns = turns.route(path, handler);
        }
    }
    for root in interactions::TURNS {
        turns = turns
            .route(&format!("{root}/{{id}}"), get(interactions::one).delete(interactions::delete))
            .route(&format!("{root}/{{id}}/cancel"), post(interactions::cancel));
    }
    turns
        .route("/vercel/chat/{id}/stream", get(chats::resume))
        .route("/v1/models", get(models::list))
        .route("/unified/v2/conversations/{id}/compact", post(compact::create))
        .route("/unified/v2/conversations", get(conversations::list).post(conversations::create))
        .route(
            "/unified/v2/conversations/{id}",
            get(conversations::one).delete(conversations::delete),
        )
        .route(
            "/unified/v2/conversations/{id}/branches",
            get(conversations::branches).post(conversations::fork),
        )
        .route(
            "/unified/v2/conversations/{id}/items",
            get(conversations::items).post(conversations::append),
        )
        .route("/unified/v2/conversations/{id}/export", get(bundles::export))
        .route("/unified/v2/import", post(bundles::import))
        .route("/unified/v2/operations", get(operations::list).post(start::begin))
        .route("/v1beta/models", get(models::list))
        .route("/unified/v2/operations/{id}", get(operations::one).delete(operations::delete))
        .route("/unified/v2/operations/{id}/events", get(events::stream))
        .route("/unified/v2/operations/{id}/cancel", post(operations::cancel))
        .route("/unified/v2/operations/{id}/approvals", post(operations::decide))
        .route("/unified/v2/operations/{id}/loss", get(operations::loss))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/", get(health::root))
        .fallback(health::unknown_path)
        .method_not_allowed_fallback(health::wrong_method)
        // Others than these go on as they are, and are refused in the client's own shape.
        .layer(tower_http::decompression::RequestDecompressionLayer::new().pass_through_unaccepted(true))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), gate::gate))
        .with_state(app)
}
