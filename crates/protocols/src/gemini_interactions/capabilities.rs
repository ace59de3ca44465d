//! What the protocol can express.

use crate::capability::{CapabilityTable, Knobs, Support, Support::Degraded, Support::Lossless};
use crate::feature::Feature as F;

/// The table.
pub(super) static TABLE: CapabilityTable = CapabilityTable {
    features: FEATURES,
    knobs: Knobs {
        mid_conversation_system: false,
        max_tool_id_length: super::MAX_CALL_ID,
        max_tool_name_length: super::MAX_NAME,
        max_cache_breakpoints: 0,
        max_stop_sequences: usize::MAX,
        max_temperature: 2.0,
        default_max_output_tokens: 8_192,
    },
};

const FEATURES: &[(F, Support)] = &[
    (F::ConversationPortability, Lossless),
    (F::ConversationSystemInline, Degraded("said by the user")),
    (F::ConversationSystemRole, Degraded("developer and system are one role")),
    (F::ConversationMessageBoundary, Lossless),
    (F::ConversationOrder, Lossless),
    (F::ConversationPortability, Degraded("goes on from a state of its own only")),
    (F::PartText, Lossless),
    (F::PartRefusal, Degraded("sent as text")),
    (F::PartImage, Lossless),
    (F::PartAudio, Lossless),
    (F::PartVideo, Lossless),
    (F::PartDocument, Lossless),
    (F::PartFile, Degraded("sent as a document")),
    (F::PartJson, Degraded("sent as the JSON text")),
    (F::Citation, Degraded("address, title and span only")),
    (F::CitationSpan, Lossless),
    (F::ReasoningText, Degraded("with own signatures only")),
    (F::ReasoningSignature, Lossless),
    (F::ToolFunction, Lossless),
    (F::ToolCustom, Degraded("offered as a function with one text argument")),
    (F::ToolDescription, Lossless),
    (F::ToolName, Lossless),
    (F::ToolDeferLoading, Lossless),
    (F::ToolHosted, Lossless), // kinds without a member are reported by the encoder
    (F::ToolHostedWebSearch, Lossless),
    (F::ToolHostedWebFetch, Degraded("offered as URL context")),
    (F::ToolHostedCodeExecution, Lossless),
    (F::ToolHostedComputerUse, Degraded("its actions are calls of own functions")),
    (F::ToolHostedMcp, Lossless),
    (F::ToolHostedFileSearch, Lossless),
    (F::ToolCallId, Lossless),
    (F::ToolCallArguments, Lossless),
    (F::ToolCallHosted, Degraded("own calls only; others are told as text")),
    (F::ToolResultError, Lossless),
    (F::ToolResultMedia, Lossless),
    (F::ToolChoice, Lossless),
    (F::ToolChoiceAllowed, Lossless),
    (F::GenerationMaxOutputTokens, Lossless),
    (F::GenerationTemperature, Lossless), // deprecated: written for its own clients only, which the encoder reports
    (F::GenerationTopP, Lossless),
    (F::GenerationStopSequences, Lossless),
    (F::GenerationSeed, Lossless),
    (F::GenerationReasoningMode, Lossless), // off is reported by the encoder
    (F::GenerationReasoningEffort, Lossless),
    (F::GenerationReasoningSummary, Lossless),
    (F::GenerationParallelTools, Degraded("several calls are always allowed")),
    (F::GenerationServiceTier, Lossless),
    (F::GenerationSafetySettings, Lossless), // own words only
    (F::OutputJsonObject, Lossless),
    (F::OutputSchema, Lossless),
    (F::StatePersist, Lossless),
    (F::StateBackground, Lossless),
    (F::MetadataLabels, Lossless),
    (F::ResponseUsage, Lossless),
    (F::ResponseFinishReason, Lossless),
];
