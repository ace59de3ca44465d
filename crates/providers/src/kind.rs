//! [`ProviderKind`]: what a provider speaks, where it lives by default, how it is asked.

use throughline_format::ProtocolFamily;

/// Which of OpenAI's two protocols an account is asked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenAiApi {
    /// `/responses`, the default of contract.md.
    #[default]
    Responses,
    /// `/chat/completions`.
    Chat,
}

/// Kind of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// Anthropic, or a server that speaks its protocol.
    Anthropic,
    /// OpenAI.
    OpenAi(OpenAiApi),
    /// A server that speaks the protocol of OpenAI's chat completions.
    OpenAiCompatible,
    /// Cursor's Cloud Agents.
    Cursor,
}

/// How a credential travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CredentialHeader {
    pub(crate) name: &'static str,
    pub(crate) prefix: &'static str,
}

impl ProviderKind {
    /// The protocol that is spoken with it.
    pub fn family(self) -> ProtocolFamily {
        match self {
            Self::Anthropic => ProtocolFamily::AnthropicMessages,
            Self::OpenAi(OpenAiApi::Responses) => ProtocolFamily::OpenAiResponses,
            Self::OpenAi(OpenAiApi::Chat) | Self::OpenAiCompatible => ProtocolFamily::OpenAiChat,
            Self::Cursor => ProtocolFamily::CursorSdk,
        }
    }

    /// Base address when the configuration names none.
    pub const fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::OpenAi(_) => Some("https://api.openai.com/v1"),
            Self::OpenAiCompatible => None,
            Self::Cursor => Some("https://api.cursor.com"),
        }
    }

    /// Identity of the service in owner records. Servers of one protocol differ by endpoint besides.
    pub const fn service(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi(_) => "openai",
            Self::OpenAiCompatible => "openai-compatible",
            Self::Cursor => "cursor",
        }
    }

    /// Vendor of the models, where the kind tells it.
    pub const fn model_provider(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("anthropic"),
            Self::OpenAi(_) => Some("openai"),
            // The runtime chooses the model, whoever made it.
            Self::OpenAiCompatible | Self::Cursor => None,
        }
    }

    /// Whether the service refuses requests without a credential.
    pub const fn needs_credential(self) -> bool {
        !matches!(self, Self::OpenAiCompatible)
    }

    /// Path of a model request below the base address.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi(OpenAiApi::Responses) => "/responses",
            Self::OpenAi(OpenAiApi::Chat) | Self::OpenAiCompatible => "/chat/completions",
            Self::Cursor => "/v1/agents",
        }
    }

    /// Segment that the base may carry and that [`path`](Self::path) has already.
    pub(crate) const fn redundant_suffix(self) -> Option<&'static str> {
        match self {
            Self::Anthropic | Self::Cursor => Some("/v1"),
            Self::OpenAi(_) | Self::OpenAiCompatible => None,
        }
    }

    pub(crate) const fn credential_header(self) -> CredentialHeader {
        match self {
            Self::Anthropic => CredentialHeader {
                name: "x-api-key",
                prefix: "",
            },
            Self::OpenAi(_) | Self::OpenAiCompatible | Self::Cursor => CredentialHeader {
                name: "authorization",
                prefix: "Bearer ",
            },
        }
    }

    /// Headers that every request of this kind carries.
    pub(crate) const fn fixed_headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[("anthropic-version", "2023-06-01")],
            Self::OpenAi(_) | Self::OpenAiCompatible | Self::Cursor => &[],
        }
    }
}
