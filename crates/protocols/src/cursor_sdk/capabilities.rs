//! What a prompt for an agent runtime can express: one table that projection and documentation read.

use crate::capability::{CapabilityTable, Knobs, Support};
use crate::feature::Feature;

/// The table. The runtime owns model calls, sampling, tools and history, so most of a request is not for it.
pub(super) static TABLE: CapabilityTable = CapabilityTable {
    features: &[
        (Feature::ConversationPortability, Support::Lossless),
        (Feature::ConversationSystemInline, Support::Degraded("as text of the prompt")),
        (Feature::ConversationSystemRole, Support::Degraded("as text of the prompt")),
        (Feature::ConversationMessageBoundary, Support::Degraded("marked in the prompt")),
        (Feature::PartText, Support::Lossless),
        (Feature::PartImage, Support::Degraded("five, of the last message")),
        (Feature::PartRefusal, Support::Degraded("as text")),
        (Feature::PartJson, Support::Degraded("as text")),
        (Feature::ReasoningText, Support::Degraded("in answers; a prompt carries none")),
        (Feature::ToolCallId, Support::Degraded("as text of the prompt")),
        (Feature::ToolCallArguments, Support::Degraded("as text of the prompt")),
        (
            Feature::ToolCallHosted,
            Support::Degraded("in answers as calls of the runtime, in a prompt as text"),
        ),
        (Feature::ToolResultError, Support::Degraded("in answers, as the result's status")),
        (Feature::MetadataLabels, Support::Lossless),
        (Feature::ResponseUsage, Support::Lossless),
        (Feature::ResponseFinishReason, Support::Degraded("finished, error or cancelled")),
    ],
    knobs: Knobs {
        mid_conversation_system: true,
        max_tool_id_length: 512,
        max_tool_name_length: 128,
        max_cache_breakpoints: 0,
        max_stop_sequences: 0,
        max_temperature: 2.0,
        default_max_output_tokens: 4_096,
    },
};
