//! Raising or lowering the strength of an intent by its feature, as headers and routes name it.

use crate::feature::Feature;
use throughline_format::tool::UnifiedToolType;
use throughline_format::{UnifiedIntent, UnifiedRequestV2, UnifiedRequirement};

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
        if names_tool(feature, &tool.kind) {
            tool.requirement = Some(requirement);
            hit = true;
        }
    }
    hit
}

fn raise<T>(intent: &mut Option<UnifiedIntent<T>>, requirement: UnifiedRequirement) -> bool {
    intent.as_mut().map(|i| i.requirement = requirement).is_some()
}

fn names_tool(feature: Feature, kind: &UnifiedToolType) -> bool {
    match feature {
        Feature::ToolFunction => *kind == UnifiedToolType::Function,
        Feature::ToolCustom => *kind == UnifiedToolType::Custom,
        Feature::ToolHostedWebSearch => *kind == UnifiedToolType::WebSearch,
        Feature::ToolHostedWebFetch => *kind == UnifiedToolType::WebFetch,
        Feature::ToolHostedCodeExecution => *kind == UnifiedToolType::CodeExecution,
        Feature::ToolHostedComputerUse => *kind == UnifiedToolType::ComputerUse,
        Feature::ToolHostedMcp => *kind == UnifiedToolType::Mcp,
        Feature::ToolHostedFileSearch => *kind == UnifiedToolType::FileSearch,
        Feature::ToolHosted => !matches!(kind, UnifiedToolType::Function | UnifiedToolType::Custom),
        _ => false,
    }
}
