//! Which members of a request body became which intent: the pointers whose strength a caller may set.

use crate::feature::Feature as F;
use crate::requirement::Became::{Intents, Model, Tool};
use crate::requirement::RequirementPointer;

/// Rows of the request proper, behind a prefix.
macro_rules! rows {
    ($prefix:literal $(, $own:expr)*) => {
        &[
            (concat!($prefix, "/generationConfig/maxOutputTokens"), Intents(&[F::GenerationMaxOutputTokens])),
            (concat!($prefix, "/generationConfig/temperature"), Intents(&[F::GenerationTemperature])),
            (concat!($prefix, "/generationConfig/topP"), Intents(&[F::GenerationTopP])),
            (concat!($prefix, "/generationConfig/topK"), Intents(&[F::GenerationTopK])),
            (concat!($prefix, "/generationConfig/stopSequences"), Intents(&[F::GenerationStopSequences])),
            (concat!($prefix, "/generationConfig/candidateCount"), Intents(&[F::GenerationCandidateCount])),
            (concat!($prefix, "/generationConfig/seed"), Intents(&[F::GenerationSeed])),
            (concat!($prefix, "/generationConfig/presencePenalty"), Intents(&[F::GenerationPresencePenalty])),
            (concat!($prefix, "/generationConfig/frequencyPenalty"), Intents(&[F::GenerationFrequencyPenalty])),
            (concat!($prefix, "/generationConfig/responseLogprobs"), Intents(&[F::GenerationLogprobs])),
            (concat!($prefix, "/generationConfig/logprobs"), Intents(&[F::GenerationLogprobs])),
            (
                concat!($prefix, "/generationConfig/responseMimeType"),
                Intents(&[F::OutputJsonObject, F::OutputSchema, F::OutputGrammar, F::OutputMedia]),
            ),
            (concat!($prefix, "/generationConfig/responseSchema"), Intents(&[F::OutputSchema, F::OutputGrammar])),
            (concat!($prefix, "/generationConfig/responseJsonSchema"), Intents(&[F::OutputSchema, F::OutputGrammar])),
            (concat!($prefix, "/generationConfig/responseModalities"), Intents(&[F::GenerationOutputModalities])),
            (
                concat!($prefix, "/generationConfig/thinkingConfig"),
                Intents(&[
                    F::GenerationReasoningMode,
                    F::GenerationReasoningBudget,
                    F::GenerationReasoningEffort,
                    F::GenerationReasoningSummary,
                ]),
            ),
            (
                concat!($prefix, "/generationConfig/thinkingConfig/thinkingBudget"),
                Intents(&[F::GenerationReasoningBudget, F::GenerationReasoningMode]),
            ),
            (
                concat!($prefix, "/generationConfig/thinkingConfig/thinkingLevel"),
                Intents(&[F::GenerationReasoningEffort]),
            ),
            (
                concat!($prefix, "/generationConfig/thinkingConfig/includeThoughts"),
                Intents(&[F::GenerationReasoningSummary]),
            ),
            (concat!($prefix, "/toolConfig"), Intents(&[F::ToolChoice, F::OutputIncludes])),
            (concat!($prefix, "/toolConfig/functionCallingConfig"), Intents(&[F::ToolChoice])),
            (
                concat!($prefix, "/toolConfig/includeServerSideToolInvocations"),
                Intents(&[F::OutputIncludes]),
            ),
            (concat!($prefix, "/safetySettings"), Intents(&[F::GenerationSafetySettings])),
            (concat!($prefix, "/serviceTier"), Intents(&[F::GenerationServiceTier])),
            (concat!($prefix, "/store"), Intents(&[F::StatePersist])),
            (concat!($prefix, "/tools/*"), Tool),
            (concat!($prefix, "/model"), Model),
            $($own,)*
        ]
    };
}

/// The table of the Gemini API and of Vertex.
pub(crate) const POINTERS: &[RequirementPointer] = rows!("");
/// The table of the envelope.
pub(crate) const ENVELOPE_POINTERS: &[RequirementPointer] = rows!("/request", ("/model", Model));
