//! [`Provider`]: one account of the configuration, ready to be a target.

use crate::credential::Credential;
use crate::cursor::{CursorUpstream, FollowPolicy};
use crate::endpoint::Endpoint;
use crate::headers::{HeaderFilter, may_be_forwarded};
use crate::kind::ProviderKind;
use crate::retry::RetryPolicy;
use crate::upstream::{HttpUpstream, Timeouts, UpstreamConfig};
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
    /// Its key.
    pub credential: Option<Credential>,
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
            forward_headers: Vec::new(),
            max_concurrency: None,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            dialect: None,
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
        let base = spec
            .base_url
            .as_deref()
            .or(spec.kind.default_base_url())
            .ok_or_else(|| invalid("base_url is missing".to_owned()))?;
        let mut endpoint = Endpoint::parse(base)?;
        if let Some(suffix) = spec.kind.redundant_suffix() {
            endpoint = endpoint.without_suffix(suffix);
        }
        if spec.credential.is_none() && spec.kind.needs_credential() {
            return Err(UnifiedError::new(
                ErrorCategory::Auth,
                "credential",
                "a credential is missing; name a variable with api_key_env or a file with api_key_file",
            ));
        }
        if let Some(refused) = spec.forward_headers.iter().find(|name| !may_be_forwarded(name)) {
            return Err(invalid(format!("the header {refused:.64} is never forwarded")));
        }
        if spec.max_concurrency == Some(0) || spec.retry.attempts == 0 {
            return Err(invalid("max_concurrency and retry.attempts begin at 1".to_owned()));
        }
        let credential = spec.credential.as_ref().map(Credential::bytes).unwrap_or_default();
        let owner = UnifiedResourceOwner {
            profile: codec.profile(),
            provider: spec.kind.service().to_owned(),
            credential_fingerprint: vault.credential_fingerprint(credential).map_err(|error| error.to_unified())?,
            endpoint_fingerprint: endpoint.fingerprint(),
            project: None,
            region: None,
            tenant: None,
            model: None,
            model_family: None,
            api_revision: None,
        };
        let config = UpstreamConfig {
            kind: spec.kind,
            endpoint,
            credential: spec.credential,
            codec: Arc::clone(&codec),
            filter: HeaderFilter::new(spec.kind, &spec.forward_headers),
            timeouts: spec.timeouts,
            retry: spec.retry,
            max_concurrency: spec.max_concurrency,
        };
        let upstream: Arc<dyn Upstream> = if spec.kind == ProviderKind::Cursor {
            Arc::new(CursorUpstream::new(config, spec.follow)?)
        } else {
            Arc::new(HttpUpstream::new(config)?)
        };
        Ok(Self {
            name: spec.name,
            kind: spec.kind,
            dialect: spec.dialect,
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
            client_state_is_ours: options.client_state_is_ours,
        })
    }
}
