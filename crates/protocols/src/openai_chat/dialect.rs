//! The dialects: what each may carry beyond OpenAI's wire, where it spells things in another way, and what it refuses.
//!
//! One row a dialect, by the names of the configuration key `providers.*.dialect`. The encoder reads it; the decoder needs it
//! only for what a payload cannot show. Without a dialect the encoder writes plain OpenAI. What a route says about a
//! capability stands over what its dialect knows ([`Capabilities::is_overridden`]).

use crate::capability::{Capabilities, CapabilityTable, Support};
use crate::feature::Feature as F;
use std::borrow::Cow;

/// When the reasoning of earlier turns goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningBack {
    /// What came from this wire, in the members that it came in.
    Own,
    /// Every turn with calls needs some, or the provider refuses the request.
    WithCalls,
    /// Whatever reasoning the history has goes along, and none is demanded.
    Kept,
}

/// How reasoning is turned on and off, and bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// Only as an effort.
    Effort,
    /// `thinking: {"type": "enabled" | "disabled"}`.
    Thinking,
    /// `thinking: {"type": "adaptive" | "disabled"}`.
    Adaptive,
    /// `enable_thinking`, `thinking_budget`.
    EnableThinking,
    /// `reasoning: {"effort", "max_tokens", "enabled", "exclude"}`.
    Reasoning,
    /// `chat_template_kwargs: {"enable_thinking"}`.
    Template,
}

/// Which call IDs the wire takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallIds {
    /// `[A-Za-z0-9_-]` up to the bound of the capabilities.
    Plain,
    /// Exactly nine of `[A-Za-z0-9]`.
    Nine,
    /// Any: they enter the prompt as written and are never replaced.
    Verbatim,
}

/// How a hosted web search is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebSearch {
    /// Not at all, or by `web_search_options` where the capabilities say so.
    Options,
    /// `plugins: [{"id": "web"}]`.
    Plugin,
    /// `search_parameters`.
    Parameters,
    /// A tool of type `builtin_function` named `$web_search`.
    Builtin,
    /// A tool of type `web_search`.
    Tool,
}

/// How a grammar of the answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grammar {
    /// Not at all.
    None,
    /// `structured_outputs: {"regex" | "grammar"}`.
    Structured,
    /// `grammar`, in the server's own notation.
    Member,
}

/// One dialect.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Name in the configuration.
    pub name: &'static str,
    /// Features that it has otherwise than the family's table says.
    pub features: &'static [(F, Support)],
    /// It knows only `max_tokens`.
    pub old_limit: bool,
    /// Stop sequences per request.
    pub stops: usize,
    /// Largest temperature.
    pub max_temperature: f64,
    /// When reasoning goes back.
    pub back: ReasoningBack,
    /// Member of a message that holds reasoning text; `thinking` is a content part, `tags` is `<think>` in the content.
    pub reasoning: &'static str,
    /// How reasoning is switched.
    pub switch: Switch,
    /// Effort words that it knows, from less to more; others become the next one that it knows.
    pub efforts: &'static [&'static str],
    /// Its word for a forced call.
    pub any: &'static str,
    /// Call IDs.
    pub call_ids: CallIds,
    /// Member of the seed.
    pub seed: &'static str,
    /// Member of the repetition penalty.
    pub repetition: &'static str,
    /// Member of content parts, messages and tools that marks a cache breakpoint.
    pub cache_mark: Option<&'static str>,
    /// Member of the last message that says that the answer continues it.
    pub prefix: Option<&'static str>,
    /// Completions can be stored, so that `store` means something.
    pub stores: bool,
    /// It knows the role `developer`.
    pub developer: bool,
    /// It takes `stream_options`.
    pub stream_options: bool,
    /// Calls stream their arguments only with `tool_stream`.
    pub tool_stream: bool,
    /// A user message may stand directly after a result.
    pub user_after_tool: bool,
    /// Words of `modalities` that it answers in.
    pub modalities: &'static [&'static str],
    /// It reads `video_url` parts.
    pub video: bool,
    /// Part type of a document by address.
    pub document_url: Option<&'static str>,
    /// Web search.
    pub web_search: WebSearch,
    /// Grammars.
    pub grammar: Grammar,
    /// Classes of service: our word and its word; `None` = OpenAI's words.
    pub tiers: Option<&'static [(&'static str, &'static str)]>,
}

const NO: Support = Support::Unsupported("the dialect has no form for it");
const REFUSED: Support = Support::Unsupported("the dialect refuses it");
const YES: Support = Support::Lossless;
const AS_FUNCTION: Support = Support::Degraded("as a function with one text");
const AS_OBJECT: Support = Support::Degraded("as a JSON object, with the schema in a system message");
/// A dialect takes only `none` and `auto`.
pub(super) const IGNORED_CHOICE: Support = Support::Degraded("only none and auto");
const AS_SWITCH: Support = Support::Degraded("as a switch");
const AS_EFFORT: Support = Support::Degraded("as an effort");

const EVERY_EFFORT: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// OpenAI itself, and what every row below is a change of.
const OPENAI: Dialect = Dialect {
    name: "openai",
    features: &[],
    old_limit: false,
    stops: 4,
    max_temperature: 2.0,
    back: ReasoningBack::Own,
    reasoning: "reasoning_content",
    switch: Switch::Effort,
    efforts: EVERY_EFFORT,
    any: "required",
    call_ids: CallIds::Plain,
    seed: "seed",
    repetition: "repetition_penalty",
    cache_mark: None,
    prefix: None,
    stores: true,
    developer: true,
    stream_options: true,
    tool_stream: false,
    user_after_tool: true,
    modalities: &["text", "audio"],
    video: false,
    document_url: None,
    web_search: WebSearch::Options,
    grammar: Grammar::None,
    tiers: None,
};

/// A server that knows the older, common part of the wire.
const COMMON: Dialect = Dialect {
    old_limit: true,
    stores: false,
    developer: false,
    ..OPENAI
};

/// Every dialect.
pub(super) static DIALECTS: &[Dialect] = &[
    OPENAI,
    Dialect { name: "azure", ..OPENAI },
    Dialect {
        name: "deepseek",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoiceAllowed, NO),
            (F::PartImage, NO),
            (F::PartAudio, NO),
            (F::PartDocument, NO),
            (F::GenerationCandidateCount, NO),
            (F::GenerationSeed, NO),
            (F::GenerationParallelTools, NO),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::GenerationPrefill, YES),
            (F::GenerationOutputModalities, NO),
            (F::GenerationMedia, NO),
            (F::GenerationReasoningMode, YES),
            (F::OutputSchema, AS_OBJECT),
            (F::OutputVerbosity, NO),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
            (F::MetadataEndUser, NO),
        ],
        stops: 16,
        back: ReasoningBack::WithCalls,
        switch: Switch::Thinking,
        efforts: &["low", "high", "max"],
        prefix: Some("prefix"),
        ..COMMON
    },
    Dialect {
        name: "openrouter",
        features: &[
            (F::GenerationTopK, YES),
            (F::GenerationMinP, YES),
            (F::GenerationRepetitionPenalty, YES),
            (F::GenerationReasoningMode, YES),
            (F::GenerationReasoningBudget, YES),
            (F::GenerationReasoningSummary, Support::Degraded("only whether it is told")),
            (F::PartVideo, YES),
            (F::ModelFallbacks, YES),
            (F::CacheBreakpoints, YES),
            (F::ToolHostedWebSearch, Support::Degraded("as a plugin")),
            (F::StatePersist, NO),
        ],
        reasoning: "reasoning",
        stores: false,
        switch: Switch::Reasoning,
        repetition: "repetition_penalty",
        cache_mark: Some("cache_control"),
        modalities: &["text", "audio", "image"],
        video: true,
        document_url: Some("file"),
        web_search: WebSearch::Plugin,
        ..OPENAI
    },
    Dialect {
        name: "groq",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoiceAllowed, NO),
            (F::PartAudio, NO),
            (F::PartDocument, NO),
            (F::GenerationCandidateCount, REFUSED),
            (F::GenerationLogprobs, REFUSED),
            (F::GenerationLogitBias, REFUSED),
            (F::GenerationPrediction, NO),
            (F::GenerationOutputModalities, NO),
            (F::GenerationMedia, NO),
            (F::OutputVerbosity, NO),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
        ],
        reasoning: "reasoning",
        efforts: &["none", "low", "medium", "high"],
        stores: false,
        tiers: Some(&[("auto", "auto"), ("standard", "on_demand"), ("flex", "flex")]),
        ..OPENAI
    },
    Dialect {
        name: "mistral",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoiceAllowed, NO),
            (F::GenerationLogprobs, REFUSED),
            (F::GenerationLogitBias, REFUSED),
            (F::GenerationReasoningMode, NO),
            (F::GenerationReasoningEffort, NO),
            (F::GenerationReasoningBudget, NO),
            (F::GenerationServiceTier, REFUSED),
            (F::GenerationPrefill, YES),
            (F::GenerationOutputModalities, REFUSED),
            (F::GenerationMedia, REFUSED),
            (F::OutputVerbosity, REFUSED),
            (F::CacheAffinityKey, REFUSED),
            (F::StatePersist, REFUSED),
            (F::MetadataLabels, REFUSED),
            (F::MetadataEndUser, REFUSED),
        ],
        max_temperature: 1.5,
        reasoning: "thinking",
        any: "any",
        call_ids: CallIds::Nine,
        seed: "random_seed",
        prefix: Some("prefix"),
        stream_options: false,
        user_after_tool: false,
        document_url: Some("document_url"),
        ..COMMON
    },
    Dialect {
        name: "xai",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoiceAllowed, NO),
            (F::GenerationStopSequences, REFUSED),
            (F::GenerationPresencePenalty, REFUSED),
            (F::GenerationFrequencyPenalty, REFUSED),
            (F::GenerationLogitBias, REFUSED),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::GenerationOutputModalities, NO),
            (F::GenerationMedia, NO),
            (F::OutputVerbosity, NO),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
            (F::ToolHostedWebSearch, Support::Degraded("as search parameters")),
        ],
        efforts: &["low", "high"],
        stores: false,
        web_search: WebSearch::Parameters,
        ..OPENAI
    },
    Dialect {
        name: "qwen",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoice, IGNORED_CHOICE),
            (F::ToolChoiceAllowed, NO),
            (F::ToolStrict, NO),
            (F::GenerationTopK, YES),
            (F::GenerationRepetitionPenalty, YES),
            (F::GenerationFrequencyPenalty, NO),
            (F::GenerationLogitBias, NO),
            (F::GenerationReasoningMode, YES),
            (F::GenerationReasoningBudget, YES),
            (F::GenerationReasoningEffort, AS_SWITCH),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::OutputVerbosity, NO),
            (F::PartVideo, YES),
            (F::CacheBreakpoints, YES),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
            (F::MetadataEndUser, NO),
        ],
        switch: Switch::EnableThinking,
        cache_mark: Some("cache_control"),
        video: true,
        ..COMMON
    },
    Dialect {
        name: "kimi",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoice, IGNORED_CHOICE),
            (F::ToolChoiceAllowed, NO),
            (F::ToolCallId, YES),
            (F::ToolHostedWebSearch, Support::Degraded("as the built-in function of the dialect")),
            (F::GenerationReasoningMode, YES),
            (F::GenerationReasoningEffort, AS_SWITCH),
            (F::GenerationSeed, NO),
            (F::GenerationLogprobs, NO),
            (F::GenerationLogitBias, NO),
            (F::GenerationParallelTools, NO),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::GenerationPrefill, YES),
            (F::OutputVerbosity, NO),
            (F::PartVideo, YES),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
            (F::MetadataEndUser, NO),
        ],
        stops: 5,
        max_temperature: 1.0,
        back: ReasoningBack::Kept,
        switch: Switch::Thinking,
        call_ids: CallIds::Verbatim,
        prefix: Some("partial"),
        video: true,
        web_search: WebSearch::Builtin,
        ..COMMON
    },
    Dialect {
        name: "glm",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoice, IGNORED_CHOICE),
            (F::ToolChoiceAllowed, NO),
            (F::ToolStrict, NO),
            (F::ToolHostedWebSearch, Support::Degraded("as the search tool of the dialect")),
            (F::GenerationCandidateCount, NO),
            (F::GenerationSeed, NO),
            (F::GenerationPresencePenalty, NO),
            (F::GenerationFrequencyPenalty, NO),
            (F::GenerationLogprobs, NO),
            (F::GenerationLogitBias, NO),
            (F::GenerationReasoningMode, YES),
            (F::GenerationParallelTools, NO),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::OutputSchema, AS_OBJECT),
            (F::OutputVerbosity, NO),
            (F::PartVideo, YES),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
        ],
        stops: 1,
        max_temperature: 1.0,
        back: ReasoningBack::Kept,
        switch: Switch::Thinking,
        stream_options: false,
        tool_stream: true,
        video: true,
        document_url: Some("file_url"),
        web_search: WebSearch::Tool,
        ..COMMON
    },
    Dialect {
        name: "minimax",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoice, NO),
            (F::ToolChoiceAllowed, NO),
            (F::ToolStrict, NO),
            (F::GenerationReasoningMode, YES),
            (F::GenerationReasoningEffort, AS_SWITCH),
            (F::GenerationLogitBias, NO),
            (F::GenerationPrediction, NO),
            (F::OutputJsonObject, NO),
            (F::OutputSchema, NO),
            (F::OutputVerbosity, NO),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
        ],
        max_temperature: 1.0,
        back: ReasoningBack::Kept,
        reasoning: "tags",
        switch: Switch::Adaptive,
        ..COMMON
    },
    Dialect {
        name: "vllm",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoiceAllowed, NO),
            (F::GenerationTopK, YES),
            (F::GenerationMinP, YES),
            (F::GenerationRepetitionPenalty, YES),
            (F::GenerationReasoningMode, YES),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::OutputGrammar, YES),
            (F::OutputVerbosity, NO),
            (F::PartVideo, YES),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
        ],
        reasoning: "reasoning",
        switch: Switch::Template,
        video: true,
        grammar: Grammar::Structured,
        ..COMMON
    },
    Dialect {
        name: "llama-cpp",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoice, Support::Degraded("a choice of one tool is no more than a hint")),
            (F::ToolChoiceAllowed, NO),
            (F::ToolStrict, NO),
            (F::GenerationTopK, YES),
            (F::GenerationMinP, YES),
            (F::GenerationRepetitionPenalty, YES),
            (F::GenerationReasoningMode, YES),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::OutputGrammar, YES),
            (F::OutputVerbosity, NO),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
            (F::MetadataEndUser, NO),
        ],
        switch: Switch::Template,
        repetition: "repeat_penalty",
        grammar: Grammar::Member,
        ..COMMON
    },
    Dialect {
        name: "ollama",
        features: &[
            (F::ToolCustom, AS_FUNCTION),
            (F::ToolChoice, NO),
            (F::ToolChoiceAllowed, NO),
            (F::ToolStrict, NO),
            (F::GenerationCandidateCount, NO),
            (F::GenerationLogitBias, NO),
            (F::GenerationReasoningMode, AS_EFFORT),
            (F::GenerationParallelTools, NO),
            (F::GenerationServiceTier, NO),
            (F::GenerationPrediction, NO),
            (F::OutputVerbosity, NO),
            (F::CacheAffinityKey, NO),
            (F::StatePersist, NO),
            (F::MetadataLabels, NO),
            (F::MetadataEndUser, NO),
        ],
        reasoning: "reasoning",
        efforts: &["none", "low", "medium", "high"],
        ..COMMON
    },
];

impl Dialect {
    /// The dialect of this name; OpenAI's own without one, and for a name that is not known.
    pub(super) fn of(name: Option<&str>) -> &'static Self {
        let known = name.and_then(|name| DIALECTS.iter().find(|d| d.name == name));
        known.unwrap_or(&OPENAI_ITSELF)
    }

    /// Tells the capabilities of a target what this dialect has otherwise, except for what the route says itself.
    pub(super) fn teach(&self, capabilities: &mut Capabilities, table: &CapabilityTable) {
        for (feature, support) in self.features {
            capabilities.learn(*feature, *support);
        }
        let stops = capabilities.is_overridden("max_stop_sequences");
        let knobs = capabilities.knobs_mut();
        if !stops {
            knobs.max_stop_sequences = self.stops;
        }
        knobs.max_temperature = self.max_temperature.min(table.knobs.max_temperature);
    }

    /// An effort in a word that the dialect knows: the word itself, else the next one that it knows, else its highest.
    pub(super) fn effort<'a>(&self, word: &'a str) -> Cow<'a, str> {
        let rank = |word: &str| EVERY_EFFORT.iter().position(|known| *known == word);
        if self.efforts.contains(&word) {
            return Cow::Borrowed(word);
        }
        let Some(wanted) = rank(word) else { return Cow::Borrowed(word) };
        let next = self.efforts.iter().find(|known| rank(known).is_some_and(|r| r > wanted && r > 0));
        let next = next.or_else(|| self.efforts.last()).copied();
        next.map_or(Cow::Borrowed(word), |known| Cow::Owned(known.to_owned()))
    }

    /// A call ID that the dialect takes.
    pub(super) fn call_id<'a>(&self, call_id: &'a str, max_length: usize) -> Cow<'a, str> {
        match self.call_ids {
            CallIds::Plain => crate::call_id::wire(call_id, max_length),
            CallIds::Nine => crate::call_id::wire_exact(call_id, 9),
            CallIds::Verbatim if call_id.is_empty() => crate::call_id::wire(call_id, max_length),
            CallIds::Verbatim => Cow::Borrowed(call_id),
        }
    }

    /// Its word for a class of service.
    pub(super) fn tier(&self, word: &str) -> Option<&'static str> {
        self.tiers?.iter().find(|(ours, _)| *ours == word).map(|(_, theirs)| *theirs)
    }
}

/// The row that stands for no dialect.
static OPENAI_ITSELF: Dialect = OPENAI;

#[cfg(test)]
mod tests {
    use super::{DIALECTS, Dialect, EVERY_EFFORT};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_efforts_ordered() {
        let names: BTreeSet<_> = DIALECTS.iter().map(|d| d.name).collect();
        assert_eq!(names.len(), DIALECTS.len());
        for dialect in DIALECTS {
            let ranks: Vec<_> = dialect.efforts.iter().map(|w| EVERY_EFFORT.iter().position(|e| e == w)).collect();
            assert!(ranks.is_sorted() && !ranks.contains(&None), "{}", dialect.name);
            let features: BTreeSet<_> = dialect.features.iter().map(|(f, _)| f).collect();
            assert_eq!(features.len(), dialect.features.len(), "{} names a feature twice", dialect.name);
        }
    }

    #[test]
    fn an_effort_becomes_the_next_known_one() {
        let cases = [
            ("deepseek", "medium", "high"),
            ("deepseek", "xhigh", "max"),
            ("deepseek", "minimal", "low"),
            ("groq", "max", "high"),
            ("groq", "none", "none"),
            ("openai", "xhigh", "xhigh"),
            ("xai", "own-word", "own-word"),
        ];
        for (dialect, word, expected) in cases {
            assert_eq!(Dialect::of(Some(dialect)).effort(word), expected, "{dialect} {word}");
        }
    }
}
