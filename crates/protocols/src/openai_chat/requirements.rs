//! Which members of a request body became which intent: the pointers whose strength a caller may set.

use crate::feature::Feature as F;
use crate::requirement::Became::{Intents, Model, Tool};
use crate::requirement::RequirementPointer;

/// The table.
pub(crate) const POINTERS: &[RequirementPointer] = &[
    ("/model", Model),
    ("/max_tokens", Intents(&[F::GenerationMaxOutputTokens])),
    ("/max_completion_tokens", Intents(&[F::GenerationMaxOutputTokens])),
    ("/temperature", Intents(&[F::GenerationTemperature])),
    ("/top_p", Intents(&[F::GenerationTopP])),
    ("/top_k", Intents(&[F::GenerationTopK])),
    ("/min_p", Intents(&[F::GenerationMinP])),
    ("/stop", Intents(&[F::GenerationStopSequences])),
    ("/n", Intents(&[F::GenerationCandidateCount])),
    ("/seed", Intents(&[F::GenerationSeed])),
    ("/presence_penalty", Intents(&[F::GenerationPresencePenalty])),
    ("/frequency_penalty", Intents(&[F::GenerationFrequencyPenalty])),
    ("/repetition_penalty", Intents(&[F::GenerationRepetitionPenalty])),
    ("/logit_bias", Intents(&[F::GenerationLogitBias])),
    ("/logprobs", Intents(&[F::GenerationLogprobs])),
    ("/top_logprobs", Intents(&[F::GenerationLogprobs])),
    ("/reasoning_effort", Intents(&[F::GenerationReasoningEffort])),
    ("/parallel_tool_calls", Intents(&[F::GenerationParallelTools])),
    ("/service_tier", Intents(&[F::GenerationServiceTier])),
    ("/prediction", Intents(&[F::GenerationPrediction])),
    ("/modalities", Intents(&[F::GenerationOutputModalities])),
    ("/response_format", Intents(&[F::OutputSchema])),
    ("/verbosity", Intents(&[F::OutputVerbosity])),
    ("/store", Intents(&[F::StatePersist])),
    ("/tools/*", Tool),
    ("/functions/*", Tool),
    ("/tool_choice", Intents(&[F::ToolChoice])),
    ("/function_call", Intents(&[F::ToolChoice])),
];
