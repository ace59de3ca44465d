//! What UI messages can express: one table that projection and documentation read.

use crate::capability::{CapabilityTable, Knobs, Support};
use crate::feature::Feature;

/// The table.
pub(super) static TABLE: CapabilityTable = CapabilityTable {
    features: &[
        (Feature::ConversationSystemInline, Support::Lossless),
        (
            Feature::ConversationSystemRole,
            Support::Degraded("developer messages are system messages"),
        ),
        (
            Feature::ConversationMessageBoundary,
            Support::Degraded("a turn of the assistant is one message, its answers are steps"),
        ),
        (
            Feature::ConversationOrder,
            Support::Degraded("a result stands in the part of its call"),
        ),
        (
            Feature::ConversationInterruption,
            Support::Degraded("a cancelled call is one that failed"),
        ),
        (Feature::PartText, Support::Lossless),
        (Feature::PartRefusal, Support::Degraded("as text")),
        (Feature::PartImage, Support::Lossless),
        (Feature::PartAudio, Support::Lossless),
        (Feature::PartVideo, Support::Lossless),
        (Feature::PartDocument, Support::Lossless),
        (Feature::PartFile, Support::Lossless),
        (Feature::PartJson, Support::Degraded("as text, but for data parts of its own")),
        (Feature::Citation, Support::Degraded("as sources; with spans from major 7 on")),
        (
            Feature::CitationSpan,
            Support::Degraded("from major 7 on, in UTF-16 units of the answer"),
        ),
        (Feature::GroundingSource, Support::Degraded("address or title only")),
        (Feature::ReasoningText, Support::Lossless),
        (
            Feature::ReasoningSignature,
            Support::Degraded("stays with its provider; provider metadata of its own comes back"),
        ),
        (
            Feature::ToolName,
            Support::Degraded("the namespace of a tool stands in front of its name"),
        ),
        (Feature::ToolCallId, Support::Lossless),
        (Feature::ToolCallArguments, Support::Lossless),
        (
            Feature::ToolApproval,
            Support::Degraded("from major 6 on; answers in streams from major 7 on"),
        ),
        (
            Feature::ToolCallHosted,
            Support::Degraded("as calls that the provider executed, without private payloads"),
        ),
        (Feature::ToolResultError, Support::Degraded("as a text")),
        (Feature::ToolResultMedia, Support::Degraded("in a JSON value of parts")),
        (Feature::ResponseUsage, Support::Degraded("in the message's metadata")),
        (
            Feature::ResponseFinishReason,
            Support::Degraded("one of six words, from major 6 on, in streams only"),
        ),
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
