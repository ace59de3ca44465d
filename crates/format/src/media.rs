//! Data sources and media metadata (spec, Content parts; open-types.md, section 5).

use crate::json::WordOrRecord;
use crate::macros::{open_words, record, standalone_union, tagged_union, words};
use crate::resource::UnifiedProviderResourceRef;
use crate::{Count, Seconds, Sha256, UnifiedId};
use base64::Engine as _;

words! {
    /// How inline data is written.
    pub enum InlineEncoding {
        /// Binary; standard base64 text in JSON.
        Bytes = "bytes",
        /// Base64 text as the source wrote it.
        Base64 = "base64",
        /// Text.
        Utf8 = "utf8",
    }
}
/// Data of a record: text, or bytes as base64 text. The declarations for other languages allow bytes here.
pub type InlineData = String;

record! {
    /// Data that stands in the record.
    pub struct InlineSource {
        /// Media type.
        media_type: String,
        /// The data in the given encoding.
        data: InlineData,
        /// How it is written.
        encoding: InlineEncoding,
    }
}

impl InlineSource {
    /// The bytes that the data stands for; `None` when it is not valid base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self.encoding {
            InlineEncoding::Utf8 => Some(self.data.clone().into_bytes()),
            InlineEncoding::Bytes | InlineEncoding::Base64 => decode_base64(&self.data),
        }
    }
}

/// Opens standard or URL-safe base64, with or without padding; white space is ignored.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let bare: String;
    let trimmed = if text.bytes().any(|b| b.is_ascii_whitespace()) {
        bare = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        bare.as_str()
    } else {
        text
    };
    let trimmed = trimmed.trim_end_matches('=');
    if trimmed.contains(['-', '_']) {
        URL_SAFE_NO_PAD.decode(trimmed).ok()
    } else {
        STANDARD_NO_PAD.decode(trimmed).ok()
    }
}

/// Writes standard base64 with padding.
pub fn encode_base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

record! {
    /// Data at an address.
    pub struct UrlSource {
        /// The address.
        url: String,
        /// Headers for fetching it, resolved by the execution context only.
        headers_ref?: UnifiedId,
    }
}
record! {
    /// Data in the artifact store.
    pub struct ArtifactSource {
        /// The artifact.
        artifact_id: UnifiedId,
        /// Its digest.
        sha256: Sha256,
    }
}
record! {
    /// Data held by a provider.
    pub struct ResourceSource {
        /// The sealed handle.
        resource: UnifiedProviderResourceRef,
    }
}
tagged_union! {
    /// Where data is.
    pub enum UnifiedDataSource {
        /// In the record.
        Inline(InlineSource) = "inline",
        /// At an address.
        Url(UrlSource) = "url",
        /// In the artifact store.
        Artifact(ArtifactSource) = "artifact",
        /// At a provider.
        ProviderResource(ResourceSource) = "provider-resource",
    }
}
standalone_union!(UnifiedDataSource);

words! {
    /// What an index counts.
    pub enum UnifiedIndexUnit {
        Utf8Byte = "utf8-byte",
        Utf16 = "utf16",
        CodePoint = "code-point",
        /// The vendor does not say which character it means.
        Character = "character",
        Token = "token",
        Page = "page",
        Block = "block",
        None = "none",
    }
}
record! {
    /// Pages from and to, 1-based and inclusive.
    pub struct PageRange {
        /// First page.
        from: Count,
        /// Last page.
        to: Count,
    }
}
record! {
    /// A range in the source; the end is exclusive.
    pub struct IndexRange {
        /// First index.
        start: Count,
        /// Index after the last.
        end: Count,
        /// What the indexes count.
        unit: UnifiedIndexUnit,
    }
}
record! {
    /// A stretch of time.
    #[derive(Default)]
    pub struct TimeRange {
        /// Begin.
        start_seconds?: Seconds,
        /// End.
        end_seconds?: Seconds,
    }
}
record! {
    /// A word of a transcript.
    pub struct TranscriptWord {
        /// The word.
        text: String,
        /// Begin.
        start_seconds?: Seconds,
        /// End.
        end_seconds?: Seconds,
        /// Who says it.
        speaker?: String,
    }
}
record! {
    /// What is said in audio or video.
    pub struct Transcript {
        /// The text.
        text: String,
        /// Language tag.
        language?: String,
        /// The words with times.
        words?: Vec<TranscriptWord>,
    }
}
record! {
    /// A rule of one provider family about the medium.
    pub struct MediaConstraint {
        /// Protocol family.
        family: String,
        /// Rule word.
        rule: String,
        /// Its value.
        value?: String,
    }
}
open_words! {
    /// How closely an image is looked at.
    pub enum ImageDetail { Low = "low", High = "high", Auto = "auto", Original = "original", }
}
record! {
    /// A resolution given as a number of tokens.
    pub struct TokenResolution {
        /// Tokens.
        tokens: Count,
    }
}
/// How finely a medium is read.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum MediaResolution {
    /// By word.
    Word(crate::intent::InputResolution),
    /// By tokens.
    Tokens(TokenResolution),
}

impl<'de> serde::Deserialize<'de> for MediaResolution {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::json::word_or_record(deserializer, "a resolution word or an object with `tokens`").map(|either| match either {
            WordOrRecord::Word(word) => Self::Word(word),
            WordOrRecord::Record(tokens) => Self::Tokens(tokens),
        })
    }
}
record! {
    /// What is known about a medium besides its data.
    #[derive(Default)]
    pub struct UnifiedMediaMetadata {
        /// File name.
        name?: String,
        /// Media type.
        media_type?: String,
        /// Bytes.
        size?: Count,
        /// Digest of the bytes.
        sha256?: Sha256,
        /// Document title.
        title?: String,
        /// Document context.
        context?: String,
        /// Whether citations into it are wanted.
        citations_enabled?: bool,
        /// Text in place of an image.
        alt_text?: String,
        /// Selected pages.
        pages?: Vec<PageRange>,
        /// Selected range.
        range?: IndexRange,
        /// Selected time.
        time?: TimeRange,
        /// Frames per second at which video is read.
        fps?: f64,
        /// How closely an image is looked at.
        detail?: ImageDetail,
        /// How finely it is read.
        resolution?: MediaResolution,
        /// Pixels.
        width?: Count,
        /// Pixels.
        height?: Count,
        /// Length.
        duration_seconds?: Seconds,
        /// Hertz.
        sample_rate?: Count,
        /// Audio channels.
        channels?: Count,
        /// What is said.
        transcript?: Transcript,
        /// Provider rules.
        constraints?: Vec<MediaConstraint>,
    }
}
