//! The strength of intents by feature: what it is when nobody says anything, and how headers and routes change it.

use crate::feature::Feature;
use throughline_format::{UnifiedIntent, UnifiedRequestV2, UnifiedRequirement};

/// The strength of a feature when nobody says anything, and whether anybody may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultStrength {
    /// What its loss is by default.
    pub requirement: UnifiedRequirement,
    /// Whether headers, routes and `--requirements` change it. What asks for nothing of the answer has no strength of its own.
    pub can_be_set: bool,
}

/// The default strength of what a request asks for (open-types.md, section 13); `None` for the forms of items, parts and
/// answers, which nobody asks for and whose loss a codec judges itself.
pub const fn default_strength(feature: Feature) -> Option<DefaultStrength> {
    use Feature as F;
    let (requirement, can_be_set) = match feature {
        // A privacy statement: to store what the client wants nobody to store would be worse than to refuse.
        F::StatePersist => (UnifiedRequirement::Required, true),
        // How the answer is told, and echoes of what was sent.
        F::OutputVerbosity | F::OutputIncludes => (UnifiedRequirement::Optional, true),
        // Neither model nor user sees whether these arrive.
        F::CacheMode
        | F::CacheAffinityKey
        | F::CacheBreakpoints
        | F::CacheRetention
        | F::MetadataLabels
        | F::MetadataEndUser
        | F::ModelFallbacks => (UnifiedRequirement::Optional, false),
        F::GenerationMaxOutputTokens
        | F::GenerationTemperature
        | F::GenerationTopP
        | F::GenerationTopK
        | F::GenerationMinP
        | F::GenerationStopSequences
        | F::GenerationCandidateCount
        | F::GenerationSeed
        | F::GenerationPresencePenalty
        | F::GenerationFrequencyPenalty
        | F::GenerationRepetitionPenalty
        | F::GenerationLogitBias
        | F::GenerationLogprobs
        | F::GenerationReasoningMode
        | F::GenerationReasoningEffort
        | F::GenerationReasoningBudget
        | F::GenerationReasoningSummary
        | F::GenerationParallelTools
        | F::GenerationMaxToolCalls
        | F::GenerationServiceTier
        | F::GenerationPrediction
        | F::GenerationPrefill
        | F::GenerationSafetySettings
        | F::GenerationOutputModalities
        | F::OutputJsonObject
        | F::OutputSchema
        | F::OutputGrammar
        | F::OutputMedia
        | F::StateBackground
        | F::StateContextManagement
        | F::ToolChoice
        | F::ToolChoiceAllowed
        | F::ToolFunction
        | F::ToolCustom
        | F::ToolHosted
        | F::ToolHostedWebSearch
        | F::ToolHostedWebFetch
        | F::ToolHostedCodeExecution
        | F::ToolHostedComputerUse
        | F::ToolHostedMcp
        | F::ToolHostedFileSearch => (UnifiedRequirement::Preferred, true),
        F::GenerationMedia => (UnifiedRequirement::Preferred, false),
        F::ConversationPortability
        | F::ConversationSystemInline
        | F::ConversationSystemRole
        | F::ConversationMessageBoundary
        | F::ConversationMessageName
        | F::ConversationMessageEmpty
        | F::ConversationOrder
        | F::ConversationInterruption
        | F::ConversationItem
        | F::PartText
        | F::PartRefusal
        | F::PartImage
        | F::PartImageDetail
        | F::PartAudio
        | F::PartVideo
        | F::PartDocument
        | F::PartDocumentContext
        | F::PartFile
        | F::PartJson
        | F::PartArtifact
        | F::PartLogprobs
        | F::Citation
        | F::CitationSpan
        | F::GroundingSource
        | F::ReasoningText
        | F::ReasoningSignature
        | F::ReasoningRedacted
        | F::ToolStrict
        | F::ToolDescription
        | F::ToolName
        | F::ToolDeferLoading
        | F::ToolAllowedCallers
        | F::ToolApproval
        | F::ToolCallId
        | F::ToolCallArguments
        | F::ToolCallHosted
        | F::ToolResultError
        | F::ToolResultMedia
        | F::OutputSchemaName
        | F::StateResources
        | F::ResponseCandidates
        | F::ResponseUsage
        | F::ResponseFinishReason
        | F::ResponseSafety
        | F::WireUnmapped
        | F::WireSpelling
        | F::RecordBookkeeping => return None,
    };
    Some(DefaultStrength { requirement, can_be_set })
}

/// Sets the strength of every intent and tool of the request that `feature` names; tells whether there was one.
pub fn set_strength(request: &mut UnifiedRequestV2, feature: Feature, requirement: UnifiedRequirement) -> bool {
    let mut hit = false;
    let g = &mut request.generation;
    macro_rules! each {
        ($($feature:ident => $intent:expr),+ $(,)?) => {
            match feature { $(Feature::$feature => hit |= raise($intent, requirement),)+ _ => {} }
        };
    }
    each! {
        GenerationMaxOutputTokens => &mut g.max_output_tokens,
        GenerationTemperature => &mut g.temperature,
        GenerationTopP => &mut g.top_p,
        GenerationTopK => &mut g.top_k,
        GenerationMinP => &mut g.min_p,
        GenerationStopSequences => &mut g.stop_sequences,
        GenerationCandidateCount => &mut g.candidate_count,
        GenerationSeed => &mut g.seed,
        GenerationPresencePenalty => &mut g.presence_penalty,
        GenerationFrequencyPenalty => &mut g.frequency_penalty,
        GenerationRepetitionPenalty => &mut g.repetition_penalty,
        GenerationLogitBias => &mut g.logit_bias,
        GenerationLogprobs => &mut g.logprobs,
        GenerationParallelTools => &mut g.parallel_tools,
        GenerationMaxToolCalls => &mut g.max_tool_calls,
        GenerationServiceTier => &mut g.service_tier,
        GenerationPrediction => &mut g.prediction,
        GenerationPrefill => &mut g.prefill,
        GenerationSafetySettings => &mut g.safety_settings,
        GenerationOutputModalities => &mut g.output_modalities,
    }
    if let Some(r) = &mut g.reasoning {
        each! {
            GenerationReasoningMode => &mut r.mode,
            GenerationReasoningEffort => &mut r.effort,
            GenerationReasoningBudget => &mut r.budget_tokens,
            GenerationReasoningSummary => &mut r.summary,
        }
    }
    if let Some(output) = &mut request.output {
        each! {
            OutputSchema => &mut output.format,
            OutputJsonObject => &mut output.format,
            OutputGrammar => &mut output.format,
            OutputMedia => &mut output.format,
            OutputVerbosity => &mut output.verbosity,
            OutputIncludes => &mut output.includes,
        }
    }
    if let Some(state) = &mut request.state {
        each! {
            StatePersist => &mut state.persist,
            StateBackground => &mut state.background,
            StateContextManagement => &mut state.context_management,
        }
    }
    if matches!(feature, Feature::ToolChoice | Feature::ToolChoiceAllowed)
        && let Some(choice) = &mut request.tool_choice
    {
        choice.requirement = requirement;
        hit = true;
    }
    for tool in &mut request.tools {
        if feature.covers_tool(&tool.kind) {
            tool.requirement = Some(requirement);
            hit = true;
        }
    }
    hit
}

fn raise<T>(intent: &mut Option<UnifiedIntent<T>>, requirement: UnifiedRequirement) -> bool {
    intent.as_mut().map(|i| i.requirement = requirement).is_some()
}
