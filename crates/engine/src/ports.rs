//! What the engine needs from outside: time, IDs, a way upstream, and a choice of target.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use std::sync::Arc;
use throughline_format::{ErrorCategory, ProtocolFamily, Timestamp, UnifiedError, UnifiedId, UnifiedRequirement, UnifiedResourceOwner};
use throughline_protocols::{Capabilities, Codec, Feature, Job};

/// The only source of time. Only the binary implements it with a real clock.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// What an ID names; the prefix of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// `conv_`
    Conversation,
    /// `br_`
    Branch,
    /// `op_`
    Operation,
    /// `req_`
    Request,
    /// `ckpt_`
    Checkpoint,
    /// `lease_`
    Lease,
    /// `rev_`
    Revision,
    /// `art_`
    Artifact,
}

impl IdKind {
    /// The prefix.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Conversation => "conv_",
            Self::Branch => "br_",
            Self::Operation => "op_",
            Self::Request => "req_",
            Self::Checkpoint => "ckpt_",
            Self::Lease => "lease_",
            Self::Revision => "rev_",
            Self::Artifact => "art_",
        }
    }
}

/// The only source of IDs that are not derived.
pub trait IdSource: Send + Sync {
    /// A new ID.
    fn next(&self, kind: IdKind) -> UnifiedId;
}

/// One request to a provider: bytes of its wire and what the driver needs to send them. Never a record: like everything of the
/// execution context (spec, Runtime execution context) it has no serialised form, so none can hold it.
///
/// ```compile_fail,E0277
/// fn stored<T: serde::Serialize>(_: &T) {}
/// fn keep(call: &throughline_engine::ports::UpstreamCall) {
///     stored(call);
/// }
/// ```
pub struct UpstreamCall {
    /// Conversation, for the diagnostic store.
    pub conversation_id: UnifiedId,
    /// Operation, for logs.
    pub operation_id: UnifiedId,
    /// Our request ID.
    pub request_id: UnifiedId,
    /// Model, for protocols whose URL carries it.
    pub model: String,
    /// The body.
    pub body: Bytes,
    /// Whether the body asks for a stream.
    pub stream: bool,
    /// Client headers; the driver's allowlist decides which of them go on.
    pub client_headers: Vec<(String, String)>,
}

impl std::fmt::Debug for UpstreamCall {
    /// Sizes only: bodies and headers hold what users say.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamCall")
            .field("operation_id", &self.operation_id)
            .field("model", &self.model)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A provider's answer, status 2xx. Anything else is an error of [`Upstream::call`].
pub struct UpstreamReply {
    /// Whether the body is an event stream.
    pub is_stream: bool,
    /// The provider's trace ID.
    pub provider_request_id: Option<String>,
    /// The body as it arrives; a broken connection is an error element. Dropping it closes the connection.
    pub body: BoxStream<'static, Result<Bytes, UnifiedError>>,
}

/// The stream of work that goes on at the provider, to be read again: after a place that the provider named, or from its
/// begin. It has no serialised form either.
pub struct ResumeCall {
    /// Conversation, for the diagnostic store.
    pub conversation_id: UnifiedId,
    /// Operation, for logs.
    pub operation_id: UnifiedId,
    /// Our request ID.
    pub request_id: UnifiedId,
    /// The work.
    pub job: Job,
    /// The provider's own name of the last event that was taken; absent = from the begin.
    pub after: Option<String>,
}

impl std::fmt::Debug for ResumeCall {
    /// Without the handles of the work.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResumeCall")
            .field("operation_id", &self.operation_id)
            .field("from_begin", &self.after.is_none())
            .finish_non_exhaustive()
    }
}

/// A driver for one provider account.
pub trait Upstream: Send + Sync {
    /// Sends a request. Retries that are safe happen inside; dropping the future cancels.
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>>;

    /// Reads the stream of work that [`StreamDecoder::job`](throughline_protocols::StreamDecoder::job) told of. A driver
    /// whose provider keeps no such work refuses with `unsupported.resume`.
    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        drop(call);
        Box::pin(async {
            Err(UnifiedError::new(
                ErrorCategory::Unsupported,
                "resume",
                "this provider keeps no work that could be read again",
            ))
        })
    }

    /// Whether the provider reports the background work of this account to a webhook of this name, and somebody hands its
    /// reports to [`Engine::webhook_received`](crate::Engine::webhook_received). Where it does not, a request that names one
    /// loses that wish.
    fn has_webhook(&self, webhook_ref: &UnifiedId) -> bool {
        let _ = webhook_ref;
        false
    }
}

/// Where a turn goes.
#[derive(Clone)]
pub struct Target {
    /// Name of the provider in the configuration.
    pub provider: String,
    /// Its protocol.
    pub codec: Arc<dyn Codec>,
    /// Whose private state it makes and may see.
    pub owner: UnifiedResourceOwner,
    /// Model name sent upstream.
    pub model: String,
    /// Vendor of the model, when the configuration tells it.
    pub model_provider: Option<String>,
    /// The driver.
    pub upstream: Arc<dyn Upstream>,
    /// What the target can express, overrides applied.
    pub capabilities: Capabilities,
    /// Requirement strengths that the route sets.
    pub requirements: Vec<(Feature, UnifiedRequirement)>,
    /// Dialect to write.
    pub dialect: Option<String>,
    /// Whether its answers begin with their reasoning as a `<think>` block.
    pub reasoning_tags: bool,
    /// Whether state that clients present counts as this owner's (`client_state = "same-account"`).
    pub client_state_is_ours: bool,
}

/// Chooses the target of a turn.
pub trait Router: Send + Sync {
    /// Targets in the order in which they are tried; later ones are fallbacks before the first byte.
    ///
    /// # Errors
    /// `not-found.model` when no route matches.
    fn route(&self, inbound: &ProtocolFamily, model: &str) -> Result<Vec<Target>, UnifiedError>;
}
