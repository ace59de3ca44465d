//! Intents: what a request asks for, with the strength of each wish (open-types.md, section 1).

use crate::json::{Json, UserMap};
use crate::macros::{open_words, record, standalone_union, tagged_union, words};
use crate::part::UnifiedContentPart;
use crate::{Count, Seconds, UnifiedId};

words! {
    /// How much a request depends on an intent.
    pub enum UnifiedRequirement {
        /// Without it the request must not run.
        Required = "required",
        /// It may be lost only with a warning.
        Preferred = "preferred",
        /// It may be lost with a note.
        Optional = "optional",
    }
}

record! {
    /// One wish with its strength.
    pub struct UnifiedIntent<T> {
        /// What is wished.
        value: T,
        /// How strongly.
        requirement: UnifiedRequirement,
    }
}

impl<T> UnifiedIntent<T> {
    /// A preferred wish: the default strength (open-types.md, section 13).
    pub const fn preferred(value: T) -> Self {
        Self {
            value,
            requirement: UnifiedRequirement::Preferred,
        }
    }

    /// A wish of the given strength.
    pub const fn new(value: T, requirement: UnifiedRequirement) -> Self {
        Self { value, requirement }
    }
}

record! {
    /// Which model is wanted.
    pub struct UnifiedModelIntent {
        /// As the client wrote it.
        requested: String,
        /// Vendor, when the client named one.
        model_provider?: String,
        /// Only what the client itself allowed.
        fallbacks?: Vec<String>,
        /// Absent = preferred: a route may map the name.
        requirement?: UnifiedRequirement,
    }
}

/// A seed: a safe integer, or decimal text for 64-bit seeds beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// Within ±(2^53-1).
    Number(i64),
    /// Decimal text.
    Text(String),
}

impl Seed {
    /// Picks the form that keeps the value exact.
    pub fn from_i64(value: i64) -> Self {
        if value.unsigned_abs() <= crate::MAX_SAFE_INTEGER {
            Self::Number(value)
        } else {
            Self::Text(value.to_string())
        }
    }

    /// The value, when it fits 64 bits.
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Self::Number(n) => Some(*n),
            Self::Text(t) => t.parse().ok(),
        }
    }
}

impl serde::Serialize for Seed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(n) => serializer.serialize_i64(*n),
            Self::Text(t) => serializer.serialize_str(t),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Seed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl serde::de::Visitor<'_> for Visit {
            type Value = Seed;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number or its decimal text")
            }
            fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Seed, E> {
                if n.unsigned_abs() <= crate::MAX_SAFE_INTEGER {
                    Ok(Seed::Number(n))
                } else {
                    Err(E::custom("a seed beyond 2^53-1 is written as decimal text"))
                }
            }
            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Seed, E> {
                i64::try_from(n)
                    .map_err(|_| E::custom("a seed beyond 2^53-1 is written as decimal text"))
                    .and_then(|n| self.visit_i64(n))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Seed, E> {
                text.parse::<i64>()
                    .map(|_| Seed::Text(text.to_owned()))
                    .map_err(|_| E::custom("a seed is a 64-bit whole number"))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

open_words! {
    /// Whether the model is to reason.
    pub enum ReasoningMode { Off = "off", Auto = "auto", On = "on", }
}
open_words! {
    /// How much the model is to reason.
    pub enum ReasoningEffort {
        None = "none", Minimal = "minimal", Low = "low", Medium = "medium", High = "high", XHigh = "xhigh", Max = "max",
    }
}
words! {
    /// How much of the reasoning is to be disclosed.
    pub enum ReasoningSummary { None = "none", Auto = "auto", Concise = "concise", Detailed = "detailed", Full = "full", }
}
words! {
    /// Whether several calls may stand in one answer.
    pub enum ParallelTools { Allow = "allow", OneAtATime = "one-at-a-time", }
}
open_words! {
    /// Class of service.
    pub enum ServiceTier { Auto = "auto", Standard = "standard", Flex = "flex", Priority = "priority", }
}
words! {
    /// A kind of output.
    pub enum OutputModality { Text = "text", Image = "image", Audio = "audio", Video = "video", }
}
words! {
    /// How finely input media are read.
    pub enum InputResolution { Low = "low", Medium = "medium", High = "high", UltraHigh = "ultra-high", }
}

record! {
    /// Wishes about reasoning.
    #[derive(Default)]
    pub struct ReasoningIntent {
        /// On, off or left to the model.
        mode?: UnifiedIntent<ReasoningMode>,
        /// Effort word.
        effort?: UnifiedIntent<ReasoningEffort>,
        /// Budget in tokens.
        budget_tokens?: UnifiedIntent<Count>,
        /// What is to be disclosed.
        summary?: UnifiedIntent<ReasoningSummary>,
    }
}
record! {
    /// Log probabilities of the answer's tokens.
    pub struct LogprobsIntent {
        /// Whether they are wanted.
        enabled: bool,
        /// Alternatives per token.
        top?: Count,
    }
}
record! {
    /// Text that the answer probably repeats.
    pub struct PredictionIntent {
        /// The predicted content.
        parts: Vec<UnifiedContentPart>,
    }
}
record! {
    /// The answer's beginning, written by the client.
    pub struct PrefillIntent {
        /// The last, assistant, item of the conversation; its status is in-progress.
        item_id: UnifiedId,
    }
}
record! {
    /// One safety threshold.
    pub struct SafetySetting {
        /// Category, in the vendor's word.
        category: String,
        /// Threshold, in the vendor's word.
        threshold: String,
        /// Method, where the vendor has several.
        method?: String,
    }
}
record! {
    /// A voice, for one speaker where there are several.
    pub struct SpeechVoice {
        /// Voice name.
        voice: String,
        /// Speaker that it belongs to.
        speaker?: String,
    }
}
record! {
    /// Speech output.
    pub struct SpeechIntent {
        /// Voices.
        voices: Vec<SpeechVoice>,
        /// Language tag.
        language?: String,
        /// Container or codec.
        format?: String,
    }
}
record! {
    /// Image output; also the configuration of the image-generation tool.
    #[derive(Default)]
    pub struct ImageIntent {
        /// Such as `16:9`.
        aspect_ratio?: String,
        /// Such as `1024x1024`.
        size?: String,
        /// Quality word.
        quality?: String,
        /// File format.
        format?: String,
        /// Background word.
        background?: String,
        /// Number of images.
        count?: Count,
    }
}
record! {
    /// Video output.
    #[derive(Default)]
    pub struct VideoIntent {
        /// Such as `16:9`.
        aspect_ratio?: String,
        /// Such as `720p`.
        resolution?: String,
        /// Length.
        duration_seconds?: Seconds,
    }
}
record! {
    /// Media of input and output.
    #[derive(Default)]
    pub struct MediaIntent {
        /// Resolution for input media.
        input_resolution?: UnifiedIntent<InputResolution>,
        /// Speech output.
        speech?: UnifiedIntent<SpeechIntent>,
        /// Image output.
        image?: UnifiedIntent<ImageIntent>,
        /// Video output.
        video?: UnifiedIntent<VideoIntent>,
    }
}
record! {
    /// How the answer is to be generated, in concepts rather than provider field names.
    #[derive(Default)]
    pub struct UnifiedGenerationIntent {
        /// Limit of output tokens, reasoning included where the provider counts so.
        max_output_tokens?: UnifiedIntent<Count>,
        /// Sampling temperature, in the source's range.
        temperature?: UnifiedIntent<f64>,
        /// Nucleus sampling.
        top_p?: UnifiedIntent<f64>,
        /// Top-k sampling.
        top_k?: UnifiedIntent<f64>,
        /// Min-p sampling.
        min_p?: UnifiedIntent<f64>,
        /// Texts that end the answer.
        stop_sequences?: UnifiedIntent<Vec<String>>,
        /// Number of alternative answers.
        candidate_count?: UnifiedIntent<Count>,
        /// Sampling seed.
        seed?: UnifiedIntent<Seed>,
        /// Presence penalty.
        presence_penalty?: UnifiedIntent<f64>,
        /// Frequency penalty.
        frequency_penalty?: UnifiedIntent<f64>,
        /// Repetition penalty.
        repetition_penalty?: UnifiedIntent<f64>,
        /// Bias by token ID; never portable.
        logit_bias?: UnifiedIntent<UserMap<f64>>,
        /// Log probabilities.
        logprobs?: UnifiedIntent<LogprobsIntent>,
        /// Reasoning.
        reasoning?: ReasoningIntent,
        /// Parallel calls; inverted flags of the wire are normalised.
        parallel_tools?: UnifiedIntent<ParallelTools>,
        /// Limit of tool calls.
        max_tool_calls?: UnifiedIntent<Count>,
        /// Class of service.
        service_tier?: UnifiedIntent<ServiceTier>,
        /// Predicted output.
        prediction?: UnifiedIntent<PredictionIntent>,
        /// Prefilled beginning of the answer.
        prefill?: UnifiedIntent<PrefillIntent>,
        /// Safety thresholds.
        safety_settings?: UnifiedIntent<Vec<SafetySetting>>,
        /// Kinds of output.
        output_modalities?: UnifiedIntent<Vec<OutputModality>>,
        /// Media controls.
        media?: MediaIntent,
    }
}

record! {
    /// No members.
    #[derive(Default)]
    pub struct Nothing {}
}
record! {
    /// A JSON Schema that the answer must satisfy.
    pub struct JsonSchemaFormat {
        /// The schema as written.
        schema: Json,
        /// Its name.
        name?: String,
        /// What it describes.
        description?: String,
        /// Strict enforcement; absent is not false.
        strict?: bool,
    }
}
open_words! {
    /// A grammar language.
    pub enum GrammarSyntax { Lark = "lark", Regex = "regex", Enum = "enum", Text = "text", }
}
record! {
    /// A grammar that the answer must follow.
    pub struct GrammarFormat {
        /// Its language.
        syntax: GrammarSyntax,
        /// Its text.
        definition: String,
    }
}
record! {
    /// An answer of a media type.
    pub struct MediaFormat {
        /// The media type.
        media_type: String,
    }
}
tagged_union! {
    /// Form of the answer.
    pub enum OutputFormat {
        /// Free text.
        Text(Nothing) = "text",
        /// Any JSON object.
        JsonObject(Nothing) = "json-object",
        /// JSON by schema.
        JsonSchema(JsonSchemaFormat) = "json-schema",
        /// Text by grammar.
        Grammar(GrammarFormat) = "grammar",
        /// A media type.
        Media(MediaFormat) = "media",
    }
}
standalone_union!(OutputFormat);

open_words! {
    /// Length of the answer.
    pub enum Verbosity { Low = "low", Medium = "medium", High = "high", }
}
open_words! {
    /// Something that the answer is to contain besides its content.
    pub enum Include {
        ReasoningPrivateState = "reasoning-private-state",
        SearchSources = "search-sources",
        SearchResults = "search-results",
        FileSearchResults = "file-search-results",
        CodeOutputs = "code-outputs",
        ComputerScreenshots = "computer-screenshots",
        InputImageUrls = "input-image-urls",
        OutputLogprobs = "output-logprobs",
        ServerToolInvocations = "server-tool-invocations",
        StreamUsage = "stream-usage",
        Citations = "citations",
    }
}
record! {
    /// What the answer is to look like.
    #[derive(Default)]
    pub struct UnifiedOutputIntent {
        /// Its form.
        format?: UnifiedIntent<OutputFormat>,
        /// Its length.
        verbosity?: UnifiedIntent<Verbosity>,
        /// What it is to contain besides.
        includes?: UnifiedIntent<Vec<Include>>,
    }
}
