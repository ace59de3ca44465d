//! [`Provider`]: one account of the configuration, ready to be a target.

use crate::account::{Account, AccountConfig, Timeouts};
use crate::credential::Credential;
use crate::cursor::{CursorUpstream, FollowPolicy};
use crate::endpoint::Endpoint;
use crate::grant::Grant;
use crate::headers::{HeaderFilter, may_be_forwarded};
use crate::kind::ProviderKind;
use crate::retry::RetryPolicy;
use crate::upstream::HttpUpstream;
use std::sync::Arc;
use throughline_engine::ports::{Target, Upstream};
use throughline_format::{ErrorCategory, UnifiedError, UnifiedRequirement, UnifiedResourceOwner};
use throughline_protocols::{Capabilities, Codec, Feature};
use throughline_store::Vault;

/// Everything that the configuration says about a provider. Credentials are resolved already.
#[derive(Clone, Debug)]
pub struct ProviderSpec {
    /// Name in the configuration.
    pub name: String,
    /// What it speaks.
    pub kind: ProviderKind,
    /// Base address; absent = the kind's own.
    pub base_url: Option<String>,
    /// Its key, or an access token that somebody else renews.
    pub credential: Option<Credential>,
    /// Where access tokens come from, in the place of a fixed one.
    pub grant: Option<Grant>,
    /// Project of the account, where the service has such.
    pub project: Option<String>,
    /// Location of the account, where the service has such.
    pub location: Option<String>,
    /// Client headers that go on besides the kind's own list.
    pub forward_headers: Vec<String>,
    /// Most requests at once; absent = no bound.
    pub max_concurrency: Option<usize>,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// When to send again.
    pub retry: RetryPolicy,
    /// Dialect of the chat protocol.
    pub dialect: Option<String>,
    /// Whether its answers begin with their reasoning as a `<think>` block.
    pub reasoning_tags: bool,
    /// How runs of an agent are followed.
    pub follow: FollowPolicy,
}

impl ProviderSpec {
    /// A provider with defaults for everything else.
    pub fn new(name: impl Into<String>, kind: ProviderKind) -> Self {
        Self {
            name: name.into(),
            kind,
            base_url: None,
            credential: None,
            grant: None,
            project: None,
            location: None,
            forward_headers: Vec::new(),
            max_concurrency: None,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            dialect: None,
            reasoning_tags: false,
            follow: FollowPolicy::default(),
        }
    }
}

/// What a route decides about a target.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    /// Overrides of the target's capability table.
    pub capabilities: Vec<(String, serde_json::Value)>,
    /// Requirement strengths.
    pub requirements: Vec<(Feature, UnifiedRequirement)>,
    /// Whether state that clients present counts as this account's own.
    pub client_state_is_ours: bool,
}

/// An account with its driver, its protocol and its identity. Cloning shares the driver.
#[derive(Clone)]
pub struct Provider {
    name: String,
    kind: ProviderKind,
    dialect: Option<String>,
    reasoning_tags: bool,
    codec: Arc<dyn Codec>,
    owner: UnifiedResourceOwner,
    upstream: Arc<dyn Upstream>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Provider {
    /// Makes the driver of an account with the codec of its protocol.
    ///
    /// # Errors
    /// `unsupported.direction` when this build has no codec for it; `auth.credential`, `invalid-request.invalid-value` when
    /// the specification cannot work.
    pub fn connect(spec: ProviderSpec, vault: &Vault) -> Result<Self, UnifiedError> {
        let family = spec.kind.family();
        let codec = throughline_protocols::codec_of(&family).ok_or_else(|| {
            UnifiedError::new(
                ErrorCategory::Unsupported,
                "direction",
                format!("this version does not speak {family} with providers yet"),
            )
        })?;
        Self::connect_with(spec, codec, vault)
    }

    /// Makes the driver of an account with the given codec.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_with(spec: ProviderSpec, codec: Arc<dyn Codec>, vault: &Vault) -> Result<Self, UnifiedError> {
        let invalid = |message: String| UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message);
        let endpoint = endpoint(&spec)?;
        if spec.credential.is_none() && spec.grant.is_none() && spec.kind.needs_credential() {
            return Err(UnifiedError::new(
                ErrorCategory::Auth,
                "credential",
                "a credential is missing; the configuration names a variable or file that holds it",
            ));
        }
        if let Some(refused) = spec.forward_headers.iter().find(|name| !may_be_forwarded(name)) {
            return Err(invalid(format!("the header {refused:.64} is never forwarded")));
        }
        if spec.max_concurrency == Some(0) || spec.retry.attempts == 0 {
            return Err(invalid("max_concurrency and retry.attempts begin at 1".to_owned()));
        }
        let granted = || spec.grant.as_ref().map(Grant::identity);
        let credential = spec.credential.as_ref().map(Credential::bytes).or_else(granted).unwrap_or_default();
        let owner = UnifiedResourceOwner {
            project: spec.project.clone(),
            region: spec.location.clone(),
            ..UnifiedResourceOwner::of_account(
                codec.profile(),
                spec.kind.service().to_owned(),
                vault.credential_fingerprint(credential).map_err(|error| error.to_unified())?,
                endpoint.fingerprint(),
            )
        };
        let account = Account::new(AccountConfig {
            kind: spec.kind,
            endpoint,
            credential: spec.credential,
            grant: spec.grant,
            codec: Arc::clone(&codec),
            filter: HeaderFilter::new(spec.kind, &spec.forward_headers),
            timeouts: spec.timeouts,
            retry: spec.retry,
            max_concurrency: spec.max_concurrency,
        })?;
        let upstream: Arc<dyn Upstream> = if spec.kind == ProviderKind::Cursor {
            Arc::new(CursorUpstream::new(account, spec.follow))
        } else {
            Arc::new(HttpUpstream::new(account))
        };
        Ok(Self {
            name: spec.name,
            kind: spec.kind,
            dialect: spec.dialect.or_else(|| spec.kind.dialect().map(str::to_owned)),
            reasoning_tags: spec.reasoning_tags,
            codec,
            owner,
            upstream,
        })
    }

    /// Name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it speaks.
    pub const fn kind(&self) -> ProviderKind {
        self.kind
    }

    /// The driver.
    pub fn upstream(&self) -> Arc<dyn Upstream> {
        Arc::clone(&self.upstream)
    }

    /// Whose private state a model of this account makes.
    pub fn owner(&self, model: &str) -> UnifiedResourceOwner {
        UnifiedResourceOwner {
            model_family: throughline_engine::owner::model_family(model),
            ..self.owner.clone()
        }
    }

    /// The target for a model of this account.
    ///
    /// # Errors
    /// `invalid-request.usage` when a capability override is unknown.
    pub fn build_target(&self, model: &str, options: &TargetOptions) -> Result<Target, UnifiedError> {
        let mut capabilities = Capabilities::of(self.codec.capabilities());
        for (key, value) in &options.capabilities {
            capabilities.set(key, value)?;
        }
        Ok(Target {
            provider: self.name.clone(),
            codec: Arc::clone(&self.codec),
            owner: self.owner(model),
            model: model.to_owned(),
            model_provider: self.kind.model_provider().map(str::to_owned),
            upstream: self.upstream(),
            capabilities,
            requirements: options.requirements.clone(),
            dialect: self.dialect.clone(),
            reasoning_tags: self.reasoning_tags,
            client_state_is_ours: options.client_state_is_ours,
        })
    }
}

/// Where requests of an account go. Vertex's base goes on with project and location.
fn endpoint(spec: &ProviderSpec) -> Result<Endpoint, UnifiedError> {
    let invalid = |message: &str| UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message.to_owned());
    let location = spec.location.as_deref();
    let own = location.filter(|_| spec.kind == ProviderKind::Vertex).map(vertex_base);
    let base = spec
        .base_url
        .clone()
        .or(own)
        .or_else(|| spec.kind.default_base_url().map(str::to_owned))
        .ok_or_else(|| invalid("base_url is missing"))?;
    let mut endpoint = Endpoint::parse(&base)?;
    if let Some(suffix) = spec.kind.redundant_suffix() {
        endpoint = endpoint.without_suffix(suffix);
    }
    if spec.kind != ProviderKind::Vertex {
        return Ok(endpoint);
    }
    let (Some(project), Some(location)) = (spec.project.as_deref(), location) else {
        return Err(invalid("project and location are missing"));
    };
    if !is_plain(project) || !is_plain(location) {
        return Err(invalid("project and location have letters, digits and `-`, `.`, `:`"));
    }
    Endpoint::parse(endpoint.join(&format!("/v1/projects/{project}/locations/{location}")).as_str())
}

/// The service's host of a location.
fn vertex_base(location: &str) -> String {
    match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

/// Whether a name may stand in a path and in a host.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:".contains(&b))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn vertex_goes_to_the_host_of_its_location() {
        let at = |base: Option<&str>, project: &str, location: &str| {
            let spec = ProviderSpec {
                base_url: base.map(str::to_owned),
                project: Some(project.to_owned()),
                location: Some(location.to_owned()),
                ..ProviderSpec::new("v", ProviderKind::Vertex)
            };
            endpoint(&spec)
                .map(|endpoint| endpoint.join("/x").to_string())
                .map_err(|error| error.code)
        };
        for (base, project, location, expected) in [
            (
                None,
                "p-1",
                "global",
                Ok("https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/x"),
            ),
            (
                None,
                "example.com:p",
                "europe-west4",
                Ok("https://europe-west4-aiplatform.googleapis.com/v1/projects/example.com:p/locations/europe-west4/x"),
            ),
            (
                None,
                "p",
                "eu",
                Ok("https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/x"),
            ),
            (
                Some("http://127.0.0.1:9/v1/"),
                "p",
                "l",
                Ok("http://127.0.0.1:9/v1/projects/p/locations/l/x"),
            ),
            (None, "p/../q", "global", Err("invalid-request.invalid-value")),
            (None, "p", "evil.example.com/", Err("invalid-request.invalid-value")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(at(base, project, location), expected, "{project} {location}");
        }
        let spec = ProviderSpec::new("v", ProviderKind::Vertex);
        assert_eq!(
            endpoint(&ProviderSpec {
                base_url: Some("http://x".into()),
                ..spec
            })
            .unwrap_err()
            .code,
            "invalid-request.invalid-value"
        );
    }
}
