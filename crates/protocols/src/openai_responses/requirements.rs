//! Which members of a request body became which intent: the pointers whose strength a caller may set.

use crate::feature::Feature as F;
use crate::requirement::Became::{Intents, Model, Tool};
use crate::requirement::RequirementPointer;

/// The table.
pub(crate) const POINTERS: &[RequirementPointer] = &[
    ("/model", Model),
    ("/max_output_tokens", Intents(&[F::GenerationMaxOutputTokens])),
    ("/max_tool_calls", Intents(&[F::GenerationMaxToolCalls])),
    ("/temperature", Intents(&[F::GenerationTemperature])),
    ("/top_p", Intents(&[F::GenerationTopP])),
    ("/top_logprobs", Intents(&[F::GenerationLogprobs])),
    (
        "/reasoning",
        Intents(&[F::GenerationReasoningEffort, F::GenerationReasoningSummary]),
    ),
    ("/reasoning/effort", Intents(&[F::GenerationReasoningEffort])),
    ("/reasoning/summary", Intents(&[F::GenerationReasoningSummary])),
    ("/text/format", Intents(&[F::OutputSchema])),
    ("/text/verbosity", Intents(&[F::OutputVerbosity])),
    ("/include", Intents(&[F::OutputIncludes])),
    ("/parallel_tool_calls", Intents(&[F::GenerationParallelTools])),
    ("/service_tier", Intents(&[F::GenerationServiceTier])),
    ("/store", Intents(&[F::StatePersist])),
    ("/background", Intents(&[F::StateBackground])),
    ("/context_management", Intents(&[F::StateContextManagement])),
    ("/truncation", Intents(&[F::StateContextManagement])),
    ("/tools/*", Tool),
    ("/tool_choice", Intents(&[F::ToolChoice])),
];
