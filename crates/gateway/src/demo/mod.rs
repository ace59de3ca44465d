//! The demo: built-in upstreams that need no key and no network, and the configuration that reaches them.
//!
//! The upstreams are a real HTTP server on a loopback port that speaks the two wire protocols through the codecs. The
//! gateway reaches them with the same driver as any provider, with a key that this process makes up.

mod script;
mod upstream;

pub use upstream::DemoUpstream;

use crate::config::{Choice, Config, CredentialSource, Placed, ProviderConfig, RouteConfig};
use std::net::SocketAddr;
use throughline_format::UnifiedError;
use throughline_providers::{Credential, ProviderKind, RetryPolicy, Timeouts};

/// Model on the chat protocol.
pub const OPENAI_MODEL: &str = "demo-openai";
/// Model on Anthropic's protocol; it shows its thinking.
pub const ANTHROPIC_MODEL: &str = "demo-anthropic";

/// Adds the demo's providers and routes, before those of a file.
///
/// # Errors
/// When the made-up key is no legal key.
pub(crate) fn configure(config: &mut Config, upstream: SocketAddr, key: &str) -> Result<(), UnifiedError> {
    for (index, (name, kind, path)) in [
        (OPENAI_MODEL, ProviderKind::OpenAiCompatible, "/v1"),
        (ANTHROPIC_MODEL, ProviderKind::Anthropic, ""),
    ]
    .into_iter()
    .enumerate()
    {
        config.providers.push(ProviderConfig {
            name: Placed::built_in(name.to_owned()),
            kind,
            base_url: Some(format!("http://{upstream}{path}")),
            credential: CredentialSource::BuiltIn(Credential::new(key)?),
            project: None,
            location: None,
            forward_headers: Vec::new(),
            max_concurrency: None,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            dialect: None,
            reasoning_tags: false,
        });
        config.routes.insert(
            index,
            RouteConfig {
                pattern: name.to_owned(),
                inbound: Vec::new(),
                target: Choice {
                    provider: Placed::built_in(name.to_owned()),
                    model: None,
                },
                fallback: Vec::new(),
                requirements: Vec::new(),
                capabilities: Vec::new(),
                client_state_is_ours: false,
            },
        );
    }
    Ok(())
}
