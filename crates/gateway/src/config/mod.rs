//! The configuration of a gateway: its types and their defaults. [`parse`] reads them from `throughline.toml`.
//!
//! Nothing here looks for a file or variable by itself: the file's text, its name and a function that reads variables are
//! arguments.

mod account;
mod parse;
mod problem;
mod reader;
pub mod units;

pub use parse::{listen_address, log_format, parse};
pub use problem::{ConfigError, Problem};
pub use reader::Placed;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::EngineLimits;
use throughline_engine::ports::Clock;
use throughline_format::{ProtocolFamily, UnifiedRequirement};
use throughline_protocols::Feature;
use throughline_providers::{Credential, Grant, ProviderKind, ProviderSpec, RetryPolicy, Timeouts};
use throughline_store::StoreLimits;

/// Port of a gateway that is not told another one.
pub const DEFAULT_PORT: u16 = 8484;

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `[server]`
    pub server: ServerConfig,
    /// `[auth]`
    pub auth: AuthConfig,
    /// `[store]`
    pub store: StoreConfig,
    /// `[limits]`
    pub limits: LimitsConfig,
    /// `[providers.NAME]`, in the order of the file.
    pub providers: Vec<ProviderConfig>,
    /// `[[routes]]`; the first match wins.
    pub routes: Vec<RouteConfig>,
    /// `[telemetry]`
    pub telemetry: TelemetryConfig,
}

/// `[server]`
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Values of `Host` that are taken on a gateway without keys, besides loopback addresses.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that are taken on a gateway without keys, besides its own.
    pub allowed_origins: Vec<String>,
    /// How long running operations may go on after a stop signal.
    pub shutdown_grace: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            allowed_hosts: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            allowed_origins: Vec::new(),
            shutdown_grace: Duration::from_secs(20),
        }
    }
}

/// `[auth]`
#[derive(Clone, Copy, Debug, Default)]
pub struct AuthConfig {
    /// Whether every request needs a client key.
    pub required: bool,
}

/// How durable a commit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Committed means on the disk.
    #[default]
    Full,
    /// The last commits may be lost in a power cut.
    Normal,
}

/// `[store]`
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Days that a conversation is kept after its last update.
    pub retention_days: u32,
    /// How durable a commit is.
    pub durability: Durability,
    /// Whether raw bodies of provider calls are kept, sealed, for finding faults.
    pub diagnostics: bool,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            retention_days: 7,
            durability: Durability::Full,
            diagnostics: false,
        }
    }
}

/// `[limits]`
#[derive(Clone, Copy, Debug)]
pub struct LimitsConfig {
    /// Bytes of a request body.
    pub request_body: usize,
    /// How long a connection may be silent within a request, and before the next one.
    pub request_idle: Duration,
    /// Connections at one time.
    pub connections: usize,
    /// Bytes of an unstreamed answer of a provider.
    pub answer: usize,
    /// Bytes of a journal item.
    pub item: usize,
    /// Bytes of an event.
    pub event: usize,
    /// Bytes of an artifact.
    pub artifact: u64,
    /// Items of a request.
    pub items_per_request: usize,
    /// Tools of a request.
    pub tools_per_request: usize,
    /// Operations at one time.
    pub concurrent_operations: usize,
    /// Background operations that wait for one of them to end.
    pub queued_operations: usize,
    /// How long an operation may take at most.
    pub operation: Duration,
    /// Recent events in memory for each operation.
    pub ring_events: usize,
    /// Bytes of them.
    pub ring: usize,
    /// How long a subscriber may take no bytes.
    pub subscriber_lag: Duration,
}

const MIB: usize = 1024 * 1024;

impl Default for LimitsConfig {
    /// Those of the engine and of the store, and the gateway's own.
    fn default() -> Self {
        let (engine, store) = (EngineLimits::default(), StoreLimits::default());
        Self {
            request_body: 32 * MIB,
            request_idle: Duration::from_mins(1),
            connections: 1_024,
            answer: engine.answer_bytes,
            item: store.item_bytes,
            event: store.event_bytes,
            artifact: store.artifact_bytes,
            items_per_request: engine.items_per_request,
            tools_per_request: engine.tools_per_request,
            concurrent_operations: engine.concurrent_operations,
            queued_operations: engine.queued_operations,
            operation: Duration::from_millis(engine.operation_millis.unsigned_abs()),
            ring_events: engine.ring_events,
            ring: engine.ring_bytes,
            subscriber_lag: Duration::from_mins(1),
        }
    }
}

/// Where the key of a provider stands. Never in the configuration itself.
#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// It has none.
    Absent,
    /// In a variable.
    Variable(Placed<String>),
    /// In a file.
    File(Placed<PathBuf>),
    /// In a credentials file of Google's, whose path a variable holds: access tokens are got with it.
    CredentialsFile(Placed<String>),
    /// Made by this process: the built-in upstreams of the demo.
    BuiltIn(Credential),
}

/// `[providers.NAME]`
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Its name.
    pub name: Placed<String>,
    /// What it speaks.
    pub kind: ProviderKind,
    /// Base address.
    pub base_url: Option<String>,
    /// Where its key stands.
    pub credential: CredentialSource,
    /// Project of the account, where the service has such.
    pub project: Option<String>,
    /// Location of the account, where the service has such.
    pub location: Option<String>,
    /// Client headers that go on.
    pub forward_headers: Vec<String>,
    /// Requests at one time.
    pub max_concurrency: Option<usize>,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// When to send again.
    pub retry: RetryPolicy,
    /// Dialect of the chat protocol.
    pub dialect: Option<String>,
    /// Whether its answers begin with their reasoning as a `<think>` block.
    pub reasoning_tags: bool,
}

impl ProviderConfig {
    /// The specification for the driver, with the key looked up. `clock` tells when an access token ends.
    ///
    /// # Errors
    /// A problem that names the variable or file, and never shows what is in it.
    pub fn resolve(&self, variable: &dyn Fn(&str) -> Option<String>, clock: &Arc<dyn Clock>) -> Result<ProviderSpec, Problem> {
        let mut grant = None;
        let set =
            |name: &Placed<String>| variable(&name.value).ok_or_else(|| problem(name, format!("the variable {} is not set", name.value)));
        let credential = match &self.credential {
            CredentialSource::Absent => None,
            CredentialSource::BuiltIn(credential) => Some(credential.clone()),
            CredentialSource::Variable(name) => {
                let text = set(name)?;
                Some(Credential::new(&text).map_err(|error| problem(name, format!("{} in the variable {}", error.message, name.value)))?)
            }
            CredentialSource::CredentialsFile(name) => {
                let path = set(name)?;
                let text = read(name, Path::new(&path))?;
                let read = Grant::from_json(&text, Arc::clone(clock));
                grant = Some(read.map_err(|error| problem(name, format!("{} in the file {path}", error.message)))?);
                None
            }
            CredentialSource::File(path) => {
                let (text, shown) = (read(path, &path.value)?, path.value.display());
                Some(Credential::new(&text).map_err(|error| problem(path, format!("{} in the file {shown}", error.message)))?)
            }
        };
        Ok(ProviderSpec {
            base_url: self.base_url.clone(),
            credential,
            grant,
            project: self.project.clone(),
            location: self.location.clone(),
            forward_headers: self.forward_headers.clone(),
            max_concurrency: self.max_concurrency,
            timeouts: self.timeouts,
            retry: self.retry,
            dialect: self.dialect.clone(),
            reasoning_tags: self.reasoning_tags,
            ..ProviderSpec::new(self.name.value.clone(), self.kind)
        })
    }
}

/// The text of a file that a key names, wiped when dropped.
fn read<T>(place: &Placed<T>, path: &Path) -> Result<zeroize::Zeroizing<String>, Problem> {
    let text = std::fs::read_to_string(path);
    let unreadable = |error: std::io::Error| problem(place, format!("the file {} cannot be read: {}", path.display(), error.kind()));
    text.map(zeroize::Zeroizing::new).map_err(unreadable)
}

fn problem<T>(place: &Placed<T>, message: String) -> Problem {
    Problem {
        line: (place.line > 0).then_some(place.line),
        key: place.key.clone(),
        message,
    }
}

/// A provider, and the name of the model there.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Name of the provider.
    pub provider: Placed<String>,
    /// Model sent upstream; absent = the requested name.
    pub model: Option<String>,
}

/// `[[routes]]`
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// Pattern on the requested model.
    pub pattern: String,
    /// Protocols of clients that it serves; empty = all.
    pub inbound: Vec<ProtocolFamily>,
    /// Where it goes.
    pub target: Choice,
    /// Where else, before the first byte.
    pub fallback: Vec<Choice>,
    /// Requirement strengths.
    pub requirements: Vec<(Feature, UnifiedRequirement)>,
    /// Overrides of the target's capability table.
    pub capabilities: Vec<(String, Placed<serde_json::Value>)>,
    /// Whether private state that clients present counts as the provider's own account's.
    pub client_state_is_ours: bool,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Pretty,
    /// One JSON object a line.
    Json,
}

/// `[telemetry]`
#[derive(Clone, Copy, Debug, Default)]
pub struct TelemetryConfig {
    /// How log lines are written.
    pub log_format: LogFormat,
}

/// Paths in a file count from the file's folder.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
}
