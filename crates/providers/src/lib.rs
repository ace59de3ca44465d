//! Drivers for model providers: where a request goes, which headers it carries, when it is tried again.
//!
//! What it is: [`HttpUpstream`], the engine's [`Upstream`](throughline_engine::ports::Upstream) over HTTP for the wire
//! protocols of this build, and [`Provider`], one account of the configuration from which targets are built. What it must
//! never do: read configuration files or the environment, print or store a credential, send a client's own credential or
//! cookie to a provider, follow a redirect, or write wire JSON (bodies come from codecs).
//!
//! Where to start reading: [`provider`] (from a specification to a target), then [`upstream`] (one call).

#![forbid(unsafe_code)]

mod account;
pub mod credential;
pub mod cursor;
pub mod endpoint;
pub mod grant;
pub mod headers;
pub mod kind;
pub mod provider;
pub mod redact;
mod retry;
mod transport;
pub mod upstream;

pub use account::Timeouts;
pub use credential::Credential;
pub use cursor::FollowPolicy;
pub use endpoint::Endpoint;
pub use grant::Grant;
pub use kind::{GeminiApi, OpenAiApi, ProviderKind};
pub use provider::{Provider, ProviderSpec, TargetOptions};
pub use retry::RetryPolicy;
pub use upstream::HttpUpstream;
