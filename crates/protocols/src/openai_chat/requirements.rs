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
    ("/random_seed", Intents(&[F::GenerationSeed])),
    ("/repetition_penalty", Intents(&[F::GenerationRepetitionPenalty])),
    ("/repeat_penalty", Intents(&[F::GenerationRepetitionPenalty])),
    ("/logit_bias", Intents(&[F::GenerationLogitBias])),
    ("/logprobs", Intents(&[F::GenerationLogprobs])),
    ("/top_logprobs", Intents(&[F::GenerationLogprobs])),
    ("/reasoning_effort", Intents(&[F::GenerationReasoningEffort])),
    ("/parallel_tool_calls", Intents(&[F::GenerationParallelTools])),
    ("/service_tier", Intents(&[F::GenerationServiceTier])),
    ("/prediction", Intents(&[F::GenerationPrediction])),
    ("/modalities", Intents(&[F::GenerationOutputModalities])),
    ("/response_format", Intents(&[F::OutputSchema])),
    ("/structured_outputs", Intents(&[F::OutputGrammar])),
    ("/guided_regex", Intents(&[F::OutputGrammar])),
    ("/guided_grammar", Intents(&[F::OutputGrammar])),
    ("/guided_json", Intents(&[F::OutputSchema])),
    ("/grammar", Intents(&[F::OutputGrammar])),
    ("/thinking", Intents(&[F::GenerationReasoningMode, F::GenerationReasoningBudget])),
    ("/enable_thinking", Intents(&[F::GenerationReasoningMode])),
    ("/thinking_budget", Intents(&[F::GenerationReasoningBudget])),
    (
        "/reasoning",
        Intents(&[
            F::GenerationReasoningMode,
            F::GenerationReasoningEffort,
            F::GenerationReasoningBudget,
            F::GenerationReasoningSummary,
        ]),
    ),
    ("/moderation", Intents(&[F::GenerationSafetySettings])),
    ("/verbosity", Intents(&[F::OutputVerbosity])),
    ("/store", Intents(&[F::StatePersist])),
    ("/tools/*", Tool),
    ("/functions/*", Tool),
    ("/tool_choice", Intents(&[F::ToolChoice])),
    ("/function_call", Intents(&[F::ToolChoice])),
];
