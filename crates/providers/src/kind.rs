//! [`ProviderKind`]: what a provider speaks, where it lives by default, how it is asked.

use std::borrow::Cow;
use std::fmt::Write as _;
use throughline_format::ProtocolFamily;
use throughline_protocols::Job;

/// Which of OpenAI's two protocols an account is asked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenAiApi {
    /// `/responses`, the default of contract.md.
    #[default]
    Responses,
    /// `/chat/completions`.
    Chat,
}

/// Which version of the Gemini API an account is asked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeminiApi {
    /// `/v1beta`, which has everything.
    #[default]
    V1Beta,
    /// `/v1`: no tools, no instructions, no thinking.
    V1,
}

impl GeminiApi {
    /// The word in paths, and that of the codec's dialect.
    const fn word(self) -> &'static str {
        match self {
            Self::V1Beta => "v1beta",
            Self::V1 => "v1",
        }
    }
}

/// Kind of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// Anthropic, or a server that speaks its protocol.
    Anthropic,
    /// OpenAI.
    OpenAi(OpenAiApi),
    /// OpenAI's protocols at an Azure resource, below its `/openai/v1`.
    Azure(OpenAiApi),
    /// A server that speaks the protocol of OpenAI's chat completions.
    OpenAiCompatible,
    /// Cursor's Cloud Agents.
    Cursor,
    /// The Gemini API's GenerateContent.
    Gemini(GeminiApi),
    /// Gemini on Vertex, in one project and location.
    Vertex,
    /// The Antigravity envelope.
    Antigravity,
    /// The Gemini API's Interactions.
    Interactions,
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
            Self::OpenAi(OpenAiApi::Responses) | Self::Azure(OpenAiApi::Responses) => ProtocolFamily::OpenAiResponses,
            Self::OpenAi(OpenAiApi::Chat) | Self::Azure(OpenAiApi::Chat) | Self::OpenAiCompatible => ProtocolFamily::OpenAiChat,
            Self::Cursor => ProtocolFamily::CursorSdk,
            Self::Gemini(_) => ProtocolFamily::GeminiGenerateContent,
            Self::Vertex => ProtocolFamily::VertexGemini,
            Self::Antigravity => ProtocolFamily::Antigravity,
            Self::Interactions => ProtocolFamily::GeminiInteractions,
        }
    }

    /// The dialect of the protocol that the kind itself decides.
    pub const fn dialect(self) -> Option<&'static str> {
        match self {
            // The other version is what the codec speaks by itself.
            Self::Gemini(GeminiApi::V1) => Some(GeminiApi::V1.word()),
            Self::Anthropic
            | Self::OpenAi(_)
            | Self::Azure(_)
            | Self::OpenAiCompatible
            | Self::Cursor
            | Self::Gemini(GeminiApi::V1Beta)
            | Self::Vertex
            | Self::Antigravity
            | Self::Interactions => None,
        }
    }

    /// Base address when the configuration names none.
    pub const fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::OpenAi(_) => Some("https://api.openai.com/v1"),
            Self::Cursor => Some("https://api.cursor.com"),
            Self::Gemini(_) | Self::Interactions => Some("https://generativelanguage.googleapis.com"),
            Self::Antigravity => Some("https://cloudcode-pa.googleapis.com"),
            // The address is that of the resource, region or server.
            Self::Azure(_) | Self::OpenAiCompatible | Self::Vertex => None,
        }
    }

    /// Identity of the service in owner records. Servers of one protocol differ by endpoint besides.
    pub const fn service(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi(_) => "openai",
            Self::Azure(_) => "azure",
            Self::OpenAiCompatible => "openai-compatible",
            Self::Cursor => "cursor",
            Self::Gemini(_) => "gemini",
            Self::Vertex => "vertex",
            Self::Antigravity => "antigravity",
            Self::Interactions => "gemini-interactions",
        }
    }

    /// Vendor of the models, where the kind tells it.
    pub const fn model_provider(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("anthropic"),
            Self::OpenAi(_) => Some("openai"),
            Self::Gemini(_) | Self::Interactions => Some("google"),
            // Models of several vendors; Cursor's runtime chooses one itself.
            Self::Azure(_) | Self::OpenAiCompatible | Self::Cursor | Self::Vertex | Self::Antigravity => None,
        }
    }

    /// Whether the service refuses requests without a credential.
    pub const fn needs_credential(self) -> bool {
        !matches!(self, Self::OpenAiCompatible)
    }

    /// Path of a request for a model below the base address, and its query; `None` when the model's name cannot stand in one.
    pub(crate) fn path(self, model: &str, stream: bool) -> Option<(Cow<'static, str>, Option<&'static str>)> {
        let plain = |path: &'static str| Some((Cow::Borrowed(path), None));
        // The URL chooses the stream.
        let method = if stream { "streamGenerateContent" } else { "generateContent" };
        let query = stream.then_some("alt=sse");
        match self {
            Self::Anthropic => plain("/v1/messages"),
            Self::OpenAi(OpenAiApi::Responses) | Self::Azure(OpenAiApi::Responses) => plain("/responses"),
            Self::OpenAi(OpenAiApi::Chat) | Self::Azure(OpenAiApi::Chat) | Self::OpenAiCompatible => plain("/chat/completions"),
            Self::Cursor => plain("/v1/agents"),
            Self::Interactions => plain("/v1beta/interactions"),
            Self::Antigravity => Some((Cow::Owned(format!("/v1internal:{method}")), query)),
            Self::Gemini(api) => {
                let model = in_path(model, &["models/", "tunedModels/", "dynamic/"], "models/")?;
                Some((Cow::Owned(format!("/{}/{model}:{method}", api.word())), query))
            }
            Self::Vertex => {
                let model = in_path(model, &["publishers/", "endpoints/"], "publishers/google/models/")?;
                Some((Cow::Owned(format!("/{model}:{method}")), query))
            }
        }
    }

    /// Path and query below the base address under which the stream of stored work is read again, IDs escaped; `None` where the
    /// service keeps none, or the work is of another one.
    pub(crate) fn resume_path(self, job: &Job, after: Option<&str>) -> Option<(String, String)> {
        let [id] = job.ids.as_slice() else { return None };
        let (folder, place) = match self {
            Self::OpenAi(OpenAiApi::Responses) | Self::Azure(OpenAiApi::Responses) => ("/responses", "starting_after"),
            Self::Interactions => ("/v1beta/interactions", "last_event_id"),
            Self::OpenAi(OpenAiApi::Chat)
            | Self::Azure(OpenAiApi::Chat)
            | Self::OpenAiCompatible
            | Self::Anthropic
            | Self::Cursor
            | Self::Gemini(_)
            | Self::Vertex
            | Self::Antigravity => return None,
        };
        let after = after.map(|after| format!("&{place}={}", escaped(after))).unwrap_or_default();
        Some((format!("{folder}/{}", escaped(id)), format!("stream=true{after}")))
    }

    /// Segment that the base may carry and that [`path`](Self::path) has already.
    pub(crate) const fn redundant_suffix(self) -> Option<&'static str> {
        match self {
            Self::Anthropic | Self::Cursor | Self::Vertex => Some("/v1"),
            Self::Gemini(GeminiApi::V1) => Some("/v1"),
            Self::Gemini(GeminiApi::V1Beta) | Self::Interactions => Some("/v1beta"),
            Self::OpenAi(_) | Self::Azure(_) | Self::OpenAiCompatible | Self::Antigravity => None,
        }
    }

    pub(crate) const fn credential_header(self) -> CredentialHeader {
        match self {
            Self::Anthropic => CredentialHeader {
                name: "x-api-key",
                prefix: "",
            },
            Self::Azure(_) => CredentialHeader {
                name: "api-key",
                prefix: "",
            },
            Self::Gemini(_) | Self::Interactions => CredentialHeader {
                name: "x-goog-api-key",
                prefix: "",
            },
            Self::OpenAi(_) | Self::OpenAiCompatible | Self::Cursor | Self::Vertex | Self::Antigravity => CredentialHeader {
                name: "authorization",
                prefix: "Bearer ",
            },
        }
    }

    /// Headers that every request of this kind carries.
    pub(crate) const fn fixed_headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[("anthropic-version", "2023-06-01")],
            Self::Interactions => &[("api-revision", "2026-05-20")],
            Self::OpenAi(_)
            | Self::Azure(_)
            | Self::OpenAiCompatible
            | Self::Cursor
            | Self::Gemini(_)
            | Self::Vertex
            | Self::Antigravity => &[],
        }
    }
}

/// A text as one segment of a path or one value of a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// A model as a path: its own when it begins with one of these, else below `usual`. A name comes from a client, so it has
/// plain segments only.
fn in_path(model: &str, own: &[&str], usual: &str) -> Option<String> {
    let plain = |segment: &str| {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._@+-".contains(&b);
        !matches!(segment, "" | "." | "..") && segment.bytes().all(legal)
    };
    if !model.split('/').all(plain) {
        return None;
    }
    let named = own.iter().any(|prefix| model.starts_with(prefix));
    Some(if named { model.to_owned() } else { format!("{usual}{model}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_work_is_read_again_where_its_service_keeps_it() {
        let job = |ids: &[&str]| Job {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            outlives_connection: true,
        };
        let responses = ProviderKind::OpenAi(OpenAiApi::Responses);
        let cases = [
            (
                responses,
                job(&["resp_1"]),
                Some("7"),
                Some("/responses/resp_1?stream=true&starting_after=7"),
            ),
            (responses, job(&["resp_1"]), None, Some("/responses/resp_1?stream=true")),
            (
                responses,
                job(&["../files?x"]),
                None,
                Some("/responses/%2E%2E%2Ffiles%3Fx?stream=true"),
            ),
            (
                ProviderKind::Interactions,
                job(&["v1_a"]),
                Some("e/1&x"),
                Some("/v1beta/interactions/v1_a?stream=true&last_event_id=e%2F1%26x"),
            ),
            (responses, job(&["a", "b"]), None, None),
            (ProviderKind::Anthropic, job(&["a"]), None, None),
        ];
        for (kind, job, after, expected) in cases {
            let got = kind.resume_path(&job, after).map(|(path, query)| format!("{path}?{query}"));
            assert_eq!(got.as_deref(), expected, "{kind:?}");
        }
    }

    #[test]
    fn the_model_stands_in_the_path_and_nothing_else_does() {
        let cases = [
            (
                ProviderKind::Gemini(GeminiApi::V1Beta),
                "gemini-3-pro",
                false,
                Some("/v1beta/models/gemini-3-pro:generateContent"),
            ),
            (
                ProviderKind::Gemini(GeminiApi::V1Beta),
                "models/gemini-3-pro",
                true,
                Some("/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
            ),
            (
                ProviderKind::Gemini(GeminiApi::V1Beta),
                "tunedModels/x",
                false,
                Some("/v1beta/tunedModels/x:generateContent"),
            ),
            (
                ProviderKind::Gemini(GeminiApi::V1),
                "gemini-3-pro",
                true,
                Some("/v1/models/gemini-3-pro:streamGenerateContent?alt=sse"),
            ),
            (
                ProviderKind::Vertex,
                "gemini-3-pro",
                true,
                Some("/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse"),
            ),
            (ProviderKind::Vertex, "endpoints/1", false, Some("/endpoints/1:generateContent")),
            (
                ProviderKind::Antigravity,
                "../x",
                true,
                Some("/v1internal:streamGenerateContent?alt=sse"),
            ),
            (ProviderKind::Interactions, "m", true, Some("/v1beta/interactions")),
            (ProviderKind::Gemini(GeminiApi::V1Beta), "../files", false, None),
            (ProviderKind::Gemini(GeminiApi::V1Beta), "a?key=b", false, None),
            (ProviderKind::Gemini(GeminiApi::V1Beta), "a:b", false, None),
            (ProviderKind::Vertex, "", false, None),
        ];
        for (kind, model, stream, expected) in cases {
            let got = kind
                .path(model, stream)
                .map(|(path, query)| query.map_or_else(|| path.to_string(), |q| format!("{path}?{q}")));
            assert_eq!(got.as_deref(), expected, "{kind:?} {model}");
        }
    }
}
