//! Content parts (spec, Content parts; open-types.md, section 5).

use crate::citation::{UnifiedCitation, UnifiedSource, UnifiedTextAnnotation};
use crate::json::Json;
use crate::macros::{record, tagged_union, union_with_base, words};
use crate::media::{UnifiedDataSource, UnifiedMediaMetadata};
use crate::resource::{Issuer, UnifiedProviderDataRef};
use crate::{Sha256, UnifiedId};

record! {
    /// What every part has.
    pub struct UnifiedPartBase {
        /// Stable ID of the part.
        part_id: UnifiedId,
        /// Registered annotations and private payloads.
        provider_data?: Vec<UnifiedProviderDataRef>,
    }
}

record! {
    /// An alternative token.
    pub struct TopLogprob {
        /// The token's text.
        token: String,
        /// Its bytes.
        bytes?: Vec<u8>,
        /// Natural logarithm of its probability.
        logprob: f64,
    }
}
record! {
    /// A token of the text with its probability.
    pub struct UnifiedTokenLogprob {
        /// The token's text.
        token: String,
        /// Its bytes.
        bytes?: Vec<u8>,
        /// Natural logarithm of its probability.
        logprob: f64,
        /// Alternatives; absent is not empty.
        top?: Vec<TopLogprob>,
    }
}
record! {
    /// Text.
    #[derive(Default)]
    pub struct TextPart {
        /// The text; may be empty.
        text: String,
        /// Language tag.
        language?: String,
        /// Style word.
        style?: String,
        /// Citations and other remarks.
        annotations?: Vec<UnifiedTextAnnotation>,
        /// Token probabilities.
        logprobs?: Vec<UnifiedTokenLogprob>,
    }
}
words! {
    /// How much of the reasoning the text is.
    pub enum ReasoningForm { Summary = "summary", Full = "full", }
}
words! {
    /// Whether the reasoning is visible.
    pub enum ReasoningState {
        /// The text is there.
        Disclosed = "disclosed",
        /// The provider left the text out.
        Omitted = "omitted",
        /// The provider replaced it by private data; this is the canonical marker.
        Redacted = "redacted",
    }
}
record! {
    /// Private state of a piece of reasoning.
    pub struct ReasoningPrivateState {
        /// The sealed payload.
        r#ref: UnifiedProviderDataRef,
        /// Who made it.
        issuer: Issuer,
    }
}
record! {
    /// Disclosed reasoning, or the marker that there was some.
    pub struct ReasoningPart {
        /// The text; may be empty.
        text: String,
        /// How much it is.
        form: ReasoningForm,
        /// Whether it is visible.
        state: ReasoningState,
        /// Signature or encrypted content.
        private_state?: ReasoningPrivateState,
    }
}
record! {
    /// The model declines.
    pub struct RefusalPart {
        /// Its words.
        text: String,
        /// Category.
        category?: String,
    }
}
record! {
    /// Media or a file.
    pub struct MediaPart {
        /// Where the data is.
        source: UnifiedDataSource,
        /// What is known about it.
        media?: UnifiedMediaMetadata,
    }
}
record! {
    /// A JSON value as content.
    pub struct JsonPart {
        /// The value as written.
        value: Json,
        /// Name of its schema.
        schema_name?: String,
    }
}
record! {
    /// A source that was found, with what is known of the finding.
    pub struct GroundingSourcePart {
        /// The source.
        source: UnifiedSource,
        /// Score of the finding.
        score?: f64,
        /// Its words.
        excerpt?: String,
        /// Age as the vendor says it.
        page_age?: String,
        /// Its content.
        parts?: Vec<UnifiedContentPart>,
    }
}
record! {
    /// Points to an artifact.
    pub struct ArtifactReferencePart {
        /// The artifact.
        artifact_id: UnifiedId,
        /// Its digest.
        sha256: Sha256,
        /// What is known about it.
        media?: UnifiedMediaMetadata,
    }
}

tagged_union! {
    /// Kind of a part with the members of the kind.
    pub enum PartBody {
        /// Text.
        Text(TextPart) = "text",
        /// Reasoning.
        Reasoning(ReasoningPart) = "reasoning",
        /// Refusal.
        Refusal(RefusalPart) = "refusal",
        /// Image.
        Image(MediaPart) = "image",
        /// Audio.
        Audio(MediaPart) = "audio",
        /// Video.
        Video(MediaPart) = "video",
        /// Document that is read as such.
        Document(MediaPart) = "document",
        /// File.
        File(MediaPart) = "file",
        /// Bytes of no known kind.
        Binary(MediaPart) = "binary",
        /// JSON value.
        Json(JsonPart) = "json",
        /// Citation that stands alone.
        Citation(UnifiedCitation) = "citation",
        /// Source that was found.
        GroundingSource(GroundingSourcePart) = "grounding-source",
        /// Artifact.
        ArtifactReference(ArtifactReferencePart) = "artifact-reference",
    }
}

union_with_base! {
    /// One content part: a stable ID and a kind.
    pub struct UnifiedContentPart { base: UnifiedPartBase, body: PartBody }
}

impl UnifiedContentPart {
    /// A part without provider data.
    pub const fn new(part_id: UnifiedId, body: PartBody) -> Self {
        Self {
            base: UnifiedPartBase {
                part_id,
                provider_data: None,
            },
            body,
        }
    }

    /// A text part.
    pub fn text(part_id: UnifiedId, text: impl Into<String>) -> Self {
        Self::new(
            part_id,
            PartBody::Text(TextPart {
                text: text.into(),
                ..TextPart::default()
            }),
        )
    }

    /// The text of a text, refusal or reasoning part.
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            PartBody::Text(part) => Some(&part.text),
            PartBody::Reasoning(part) => Some(&part.text),
            PartBody::Refusal(part) => Some(&part.text),
            _ => None,
        }
    }
}
