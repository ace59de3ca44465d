//! Which members of a request body became which intent: the pointers whose strength a caller may set.

use crate::feature::Feature as F;
use crate::requirement::Became::{Intents, Model, Tool};
use crate::requirement::RequirementPointer;

/// The table.
pub(crate) const POINTERS: &[RequirementPointer] = &[
    ("/model", Model),
    ("/agent", Model),
    ("/tools/*", Tool),
    ("/generation_config/max_output_tokens", Intents(&[F::GenerationMaxOutputTokens])),
    ("/generation_config/seed", Intents(&[F::GenerationSeed])),
    ("/generation_config/stop_sequences", Intents(&[F::GenerationStopSequences])),
    ("/generation_config/temperature", Intents(&[F::GenerationTemperature])),
    ("/generation_config/top_p", Intents(&[F::GenerationTopP])),
    ("/generation_config/thinking_level", Intents(&[F::GenerationReasoningEffort])),
    ("/generation_config/thinking_summaries", Intents(&[F::GenerationReasoningSummary])),
    ("/generation_config/tool_choice", Intents(&[F::ToolChoice, F::ToolChoiceAllowed])),
    ("/response_format", Intents(&[F::OutputSchema, F::OutputJsonObject])),
    ("/background", Intents(&[F::StateBackground])),
    ("/store", Intents(&[F::StatePersist])),
    ("/service_tier", Intents(&[F::GenerationServiceTier])),
    ("/safety_settings", Intents(&[F::GenerationSafetySettings])),
];
