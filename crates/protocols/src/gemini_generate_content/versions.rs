//! The versions of the Gemini API: `v1beta`, which is what everything else here speaks, and `v1`, which has less of it.
//!
//! `v1` is a row of features, no codec of its own: [`taught`] says what its table has otherwise, and [`reduced`] takes from a request
//! what it has no members for. Items and parts ask [`PartEncoder::reduced`](super::encode_part::PartEncoder). What it lacks is
//! reported by the strength of the intent, as for any other target. It takes texts, data in the body, and most of the settings.

use super::Dialect;
use super::encode_part::PartEncoder;
use super::encode_tools::lost;
use crate::capability::Support;
use crate::context::EncodeContext;
use crate::feature::Feature as F;
use throughline_format::UnifiedRequestV2;
use throughline_format::intent::OutputFormat;
use throughline_format::resource::UnmappedEntry;

/// The words of `dialect`; the first is spoken without one.
pub(super) const WORDS: [&str; 2] = ["v1beta", "v1"];

/// Why something cannot be said.
pub(super) const NO_MEMBER: &str = "version v1 of the API has no member for it";

const NO: Support = Support::Unsupported(NO_MEMBER);

/// What the table of `v1` says otherwise.
const FEATURES: &[(F, Support)] = &[
    (F::ToolChoice, NO),
    (F::ToolChoiceAllowed, NO),
    (F::GenerationParallelTools, NO),
    (F::GenerationReasoningMode, NO),
    (F::GenerationReasoningEffort, NO),
    (F::GenerationReasoningBudget, NO),
    (F::GenerationReasoningSummary, NO),
    (F::GenerationOutputModalities, NO),
    (F::GenerationMedia, NO),
    (F::GenerationServiceTier, NO),
    (F::OutputJsonObject, NO),
    (F::OutputGrammar, NO),
    (F::OutputMedia, NO),
    (F::OutputIncludes, NO),
    (F::StatePersist, NO),
    (F::StateResources, NO),
    (F::MetadataLabels, NO),
];

/// Whether a target is asked in the version that has less.
pub(super) fn is_reduced(dialect: Dialect, word: Option<&str>) -> bool {
    dialect == Dialect::Gemini && word == Some("v1")
}

/// The context with what the version can say. What a route says of a feature stands over it.
pub(super) fn taught(context: &EncodeContext) -> EncodeContext {
    let mut taught = context.clone();
    for (feature, support) in FEATURES {
        taught.capabilities.learn(*feature, *support);
    }
    taught
}

/// The request without what the version has no members for. Intents are reported by the table; tools are here.
pub(super) fn reduced(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2) -> UnifiedRequestV2 {
    for (n, tool) in request.tools.iter().enumerate() {
        lost(encoder, tool, &format!("/tools/{n}"), NO_MEMBER);
    }
    let mut reduced = request.clone();
    reduced.tools = Vec::new();
    reduced.tool_choice = None;
    reduced.state = None;
    let generation = &mut reduced.generation;
    (generation.reasoning, generation.media, generation.service_tier) = (None, None, None);
    generation.output_modalities = None;
    if let Some(metadata) = &mut reduced.metadata {
        metadata.labels = None;
    }
    if let Some(output) = &mut reduced.output {
        output.includes = None;
        output.format = output.format.take().filter(|f| matches!(f.value, OutputFormat::JsonSchema(_)));
    }
    reduced
}

/// Leaves of the body's members without a word those that the version has.
pub(super) fn only_known(encoder: &mut PartEncoder<'_>, fields: &mut Vec<UnmappedEntry>) {
    fields.retain(|field| {
        let known = field.pointer == "/generationConfig/enableEnhancedCivicAnswers";
        if !known {
            encoder.loss.warning(F::WireUnmapped, field.pointer.clone(), NO_MEMBER);
        }
        known
    });
}
