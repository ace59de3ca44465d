//! Which members of a request body became which intent: the pointers whose strength a caller may set.

use crate::feature::Feature as F;
use crate::requirement::Became::{Intents, Model, Tool};
use crate::requirement::RequirementPointer;

/// The table.
pub(crate) const POINTERS: &[RequirementPointer] = &[
    ("/model", Model),
    ("/max_tokens", Intents(&[F::GenerationMaxOutputTokens])),
    ("/temperature", Intents(&[F::GenerationTemperature])),
    ("/top_p", Intents(&[F::GenerationTopP])),
    ("/top_k", Intents(&[F::GenerationTopK])),
    ("/stop_sequences", Intents(&[F::GenerationStopSequences])),
    (
        "/thinking",
        Intents(&[
            F::GenerationReasoningMode,
            F::GenerationReasoningBudget,
            F::GenerationReasoningSummary,
        ]),
    ),
    ("/thinking/type", Intents(&[F::GenerationReasoningMode])),
    ("/thinking/budget_tokens", Intents(&[F::GenerationReasoningBudget])),
    ("/thinking/display", Intents(&[F::GenerationReasoningSummary])),
    ("/output_config/effort", Intents(&[F::GenerationReasoningEffort])),
    ("/output_config/format", Intents(&[F::OutputSchema])),
    ("/output_format", Intents(&[F::OutputSchema])),
    ("/service_tier", Intents(&[F::GenerationServiceTier])),
    ("/fallbacks", Intents(&[F::ModelFallbacks])),
    ("/context_management", Intents(&[F::StateContextManagement])),
    ("/tools/*", Tool),
    ("/tool_choice", Intents(&[F::ToolChoice])),
    ("/tool_choice/disable_parallel_tool_use", Intents(&[F::GenerationParallelTools])),
];
