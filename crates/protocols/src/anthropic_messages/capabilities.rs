//! What the protocol can express.

use crate::capability::Support::{Degraded, Lossless};
use crate::capability::{CapabilityTable, Knobs, Support};
use crate::feature::Feature as F;

/// The table that projections and docs read.
pub(super) static TABLE: CapabilityTable = CapabilityTable {
    features: FEATURES,
    knobs: Knobs {
        mid_conversation_system: true,
        max_tool_id_length: 64,
        max_tool_name_length: 128,
        max_cache_breakpoints: 4,
        max_stop_sequences: 8_191,
        max_temperature: 1.0,
        default_max_output_tokens: 4_096,
    },
};

const FEATURES: &[(F, Support)] = &[
    (F::ConversationSystemInline, Lossless),
    (F::ConversationSystemRole, Degraded("developer and system are one role")),
    (F::ConversationMessageBoundary, Degraded("neighbours of one role are joined")),
    (F::ConversationOrder, Lossless),
    (F::ConversationPortability, Degraded("goes on from a state of its own only")),
    (F::PartText, Lossless),
    (F::PartRefusal, Degraded("sent as text")),
    (F::PartImage, Lossless),
    (F::PartDocument, Lossless),
    (F::PartDocumentContext, Lossless),
    (F::PartFile, Lossless),
    (F::PartJson, Degraded("sent as the JSON text")),
    (F::Citation, Degraded("own citations only")),
    (F::CitationSpan, Lossless),
    (F::ReasoningText, Degraded("with own signatures only")),
    (F::ReasoningSignature, Lossless),
    (F::ReasoningRedacted, Lossless),
    (F::ToolFunction, Lossless),
    (F::ToolCustom, Degraded("offered as a function with one text argument")),
    (F::ToolStrict, Lossless),
    (F::ToolDescription, Lossless),
    (F::ToolName, Lossless),
    (F::ToolDeferLoading, Lossless),
    (F::ToolAllowedCallers, Lossless),
    (F::ToolHosted, Lossless),
    (F::ToolHostedWebSearch, Lossless),
    (F::ToolHostedWebFetch, Lossless),
    (F::ToolHostedCodeExecution, Lossless),
    (F::ToolHostedComputerUse, Lossless),
    (F::ToolHostedMcp, Lossless),
    (F::ToolCallId, Lossless),
    (F::ToolCallArguments, Lossless),
    (F::ToolCallHosted, Lossless),
    (F::ToolResultError, Lossless),
    (F::ToolResultMedia, Lossless),
    (F::ToolChoice, Lossless),
    (F::ToolChoiceAllowed, Lossless), // narrowed by the encoder, which reports it
    (F::GenerationMaxOutputTokens, Lossless),
    (F::GenerationTemperature, Lossless),
    (F::GenerationTopP, Lossless),
    (F::GenerationTopK, Lossless),
    (F::GenerationStopSequences, Lossless),
    (F::GenerationReasoningMode, Lossless),
    (F::GenerationReasoningEffort, Lossless),
    (F::GenerationReasoningBudget, Lossless),
    (F::GenerationReasoningSummary, Lossless),
    (F::GenerationParallelTools, Lossless),
    (F::GenerationServiceTier, Lossless), // classes without a word are reported by the encoder
    (F::GenerationPrefill, Lossless),
    (F::OutputSchema, Lossless),
    (F::StatePersist, Lossless),           // the wire stores nothing; a wish to store is reported by the encoder
    (F::StateContextManagement, Lossless), // rules without a word are reported by the encoder
    (F::StateResources, Lossless),
    (F::ModelFallbacks, Lossless), // those of other protocols are reported by the encoder
    (F::CacheMode, Lossless),
    (F::CacheBreakpoints, Lossless),
    (F::MetadataEndUser, Lossless),
    (F::ResponseUsage, Lossless),
    (F::ResponseFinishReason, Lossless),
    (F::ResponseSafety, Lossless),
];

/// Model families that refuse an assistant message at the end.
const NO_PREFILL: &[&str] = &[
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-4-9",
    "claude-sonnet-4-6",
    "claude-sonnet-4-7",
    "claude-sonnet-4-8",
    "claude-sonnet-4-9",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-fable",
    "claude-mythos",
];

/// Whether the model is known to refuse an assistant message at the end.
pub(super) fn refuses_prefill(model: &str) -> bool {
    NO_PREFILL.iter().any(|family| model.contains(family))
}
