//! Protocol profiles: which wire form something has (spec, Version and protocol profiles).

use crate::macros::{open_words, record};

open_words! {
    /// A family of wire protocols. Vercel's UI messages are a codec of this project beside the eight of the specification.
    pub enum ProtocolFamily {
        OpenAiChat = "openai-chat",
        OpenAiResponses = "openai-responses",
        AnthropicMessages = "anthropic-messages",
        GeminiGenerateContent = "gemini-generate-content",
        GeminiInteractions = "gemini-interactions",
        VertexGemini = "vertex-gemini",
        Antigravity = "antigravity",
        CursorSdk = "cursor-sdk",
        VercelUiMessage = "vercel-uimessage",
    }
}

record! {
    /// A protocol family with its own version and revision, independent of the format's version.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    pub struct UnifiedProtocolProfile {
        /// The family.
        family: ProtocolFamily,
        /// Version of the protocol, such as `2023-06-01`.
        version?: String,
        /// Revision within the version; part of the fingerprint.
        revision?: String,
    }
}

impl UnifiedProtocolProfile {
    /// A profile without version and revision.
    pub const fn of(family: ProtocolFamily) -> Self {
        Self {
            family,
            version: None,
            revision: None,
        }
    }
}

/// Value of `schemaVersion` in every root record: `"2.0"` and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaVersion;

impl SchemaVersion {
    /// The version as it is written.
    pub const TEXT: &'static str = "2.0";

    /// Takes the one version that there is.
    ///
    /// # Errors
    /// What to say about another version.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == Self::TEXT {
            return Ok(Self);
        }
        // The version is named so that the reader knows which program to use; it is bounded and plain, or not shown.
        let plain = text.len() <= 16 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
        let shown = if plain { text } else { "of another form" };
        Err(format!("schemaVersion {shown} is not supported; this program reads 2.0"))
    }
}

impl serde::Serialize for SchemaVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::TEXT)
    }
}

impl<'de> serde::Deserialize<'de> for SchemaVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}
