//! What the protocol can express.

use super::Dialect;
use crate::capability::{CapabilityTable, Knobs, Support, Support::Degraded, Support::Lossless};
use crate::feature::Feature as F;

/// The table of a dialect.
pub(super) const fn of(dialect: Dialect) -> &'static CapabilityTable {
    match dialect {
        Dialect::Gemini => &GEMINI,
        Dialect::Vertex => &VERTEX,
        Dialect::Antigravity => &ANTIGRAVITY,
    }
}

const KNOBS: Knobs = Knobs {
    mid_conversation_system: false,
    max_tool_id_length: super::MAX_CALL_ID,
    max_tool_name_length: super::tool_names::MAX_NAME,
    max_cache_breakpoints: 0,
    max_stop_sequences: 5,
    max_temperature: 2.0,
    default_max_output_tokens: 8_192,
};

static GEMINI: CapabilityTable = CapabilityTable {
    features: GEMINI_FEATURES,
    knobs: KNOBS,
};
static VERTEX: CapabilityTable = CapabilityTable {
    features: VERTEX_FEATURES,
    knobs: KNOBS,
};
static ANTIGRAVITY: CapabilityTable = CapabilityTable {
    features: ANTIGRAVITY_FEATURES,
    knobs: KNOBS,
};

/// What every dialect says the same way, and what one dialect adds.
macro_rules! features {
    ($($own:expr),* $(,)?) => {
        &[
            (F::ConversationSystemInline, Degraded("said by the user")),
            (F::ConversationSystemRole, Degraded("developer and system are one role")),
            (F::ConversationMessageBoundary, Degraded("neighbours of one role are joined")),
            (F::ConversationOrder, Lossless),
            (F::ConversationPortability, Degraded("goes on from a state of its own only")),
            (F::PartText, Lossless),
            (F::PartRefusal, Degraded("sent as text")),
            (F::PartImage, Lossless),
            (F::PartImageDetail, Degraded("said as a media resolution")),
            (F::PartAudio, Lossless),
            (F::PartVideo, Lossless),
            (F::PartDocument, Lossless),
            (F::PartDocumentContext, Degraded("sent as text")),
            (F::PartFile, Degraded("media that the service reads")),
            (F::PartJson, Degraded("sent as the JSON text")),
            (F::ReasoningText, Degraded("without a signature of another owner")),
            (F::ReasoningSignature, Lossless),
            (F::ToolFunction, Lossless),
            (F::ToolCustom, Degraded("offered as a function with one text argument")),
            (F::ToolStrict, Degraded("calls are checked for the request as a whole")),
            (F::ToolDescription, Lossless),
            (F::ToolName, Lossless),
            (F::ToolHosted, Lossless), // kinds without a member are reported by the encoder
            (F::ToolHostedWebSearch, Lossless),
            (F::ToolHostedWebFetch, Degraded("offered as URL context")),
            (F::ToolCallId, Lossless),
            (F::ToolCallArguments, Lossless),
            (F::ToolCallHosted, Degraded("own calls only; others are told as text")),
            (F::ToolResultError, Lossless),
            (F::ToolResultMedia, Lossless),
            (F::ToolChoice, Lossless),
            (F::ToolChoiceAllowed, Lossless),
            (F::GenerationMaxOutputTokens, Lossless),
            (F::GenerationTemperature, Lossless),
            (F::GenerationTopP, Lossless),
            (F::GenerationTopK, Lossless),
            (F::GenerationStopSequences, Lossless),
            (F::GenerationCandidateCount, Lossless),
            (F::GenerationSeed, Lossless),
            (F::GenerationPresencePenalty, Lossless),
            (F::GenerationFrequencyPenalty, Lossless),
            (F::GenerationLogprobs, Lossless),
            (F::GenerationReasoningMode, Lossless), // what a model cannot do is reported by the encoder
            (F::GenerationReasoningEffort, Lossless),
            (F::GenerationReasoningBudget, Lossless),
            (F::GenerationReasoningSummary, Lossless),
            (F::GenerationParallelTools, Degraded("several calls are always allowed")),
            (F::GenerationOutputModalities, Lossless),
            (F::GenerationMedia, Lossless),
            (F::OutputJsonObject, Lossless),
            (F::OutputSchema, Lossless),
            (F::OutputGrammar, Lossless), // lists of values only; others are reported by the encoder
            (F::OutputMedia, Lossless),
            (F::StateResources, Lossless),
            (F::MetadataLabels, Lossless),
            (F::ResponseCandidates, Lossless),
            (F::ResponseUsage, Lossless),
            (F::ResponseFinishReason, Lossless),
            $($own,)*
        ]
    };
}

const GEMINI_FEATURES: &[(F, Support)] = features![
    (F::ToolHostedCodeExecution, Lossless),
    (F::ToolHostedComputerUse, Degraded("its actions are calls of own functions")),
    (F::ToolHostedMcp, Lossless),
    (F::ToolHostedFileSearch, Lossless),
    (F::GenerationServiceTier, Lossless),
    (F::GenerationSafetySettings, Lossless),
    (F::OutputIncludes, Lossless),
    (F::StatePersist, Lossless),
];

const VERTEX_FEATURES: &[(F, Support)] = features![
    (F::ToolHostedCodeExecution, Lossless),
    (F::ToolHostedComputerUse, Degraded("its actions are calls of own functions")),
    (F::GenerationSafetySettings, Lossless),
    (F::OutputIncludes, Lossless), // own switches only; others are reported by the encoder
];

const ANTIGRAVITY_FEATURES: &[(F, Support)] = features![(F::OutputIncludes, Lossless)];
