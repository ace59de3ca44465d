//! Parameters of a request: limits, sampling, thinking, form of the answer.

use super::encode_block::{BlockEncoder, typed};
use super::encode_turns::{self, Turn};
use super::schema;
use crate::feature::Feature;
use crate::raw::{json, object};
use throughline_format::intent::{OutputFormat, ReasoningEffort, ReasoningIntent, ReasoningMode, ReasoningSummary, ServiceTier};
use throughline_format::{Json, UnifiedRequestV2};

/// Least thinking budget of the wire.
const MIN_BUDGET: u64 = 1_024;

/// What became of the thinking switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingKind {
    /// With a budget.
    Enabled,
    /// As much as the model likes.
    Adaptive,
    /// Off.
    Disabled,
    /// A mode of the wire without a word of ours.
    Other,
}

/// Writes everything but model, tools, instructions and messages.
pub(super) struct Parameters<'a, 'b> {
    /// Losses and context.
    pub(super) encoder: &'a mut BlockEncoder<'b>,
    /// The request.
    pub(super) request: &'a UnifiedRequestV2,
    /// Whether the request came over this protocol.
    pub(super) native: bool,
    /// Whether the request only fills the cache of its own provider.
    pub(super) prewarms: bool,
    /// What was decided about thinking.
    pub(super) thinking: Option<ThinkingKind>,
}

impl Parameters<'_, '_> {
    /// Everything but model, tools, system and messages.
    pub(super) fn write(&mut self, turns: &[Turn], choice: Option<&Json>) -> Vec<(String, Json)> {
        let request = self.request;
        let generation = &request.generation;
        let mut members = Vec::new();
        let max_tokens = self.max_tokens();
        members.push(("max_tokens".to_owned(), json(&max_tokens)));
        if self.encoder.context.stream {
            members.push(("stream".into(), json(&true)));
        }
        let thinking = self.thinking(turns, choice, max_tokens);
        members.extend(thinking.map(|thinking| ("thinking".to_owned(), thinking)));
        members.extend(self.output_config().map(|config| ("output_config".to_owned(), config)));
        let on = self.thinking == Some(ThinkingKind::Enabled) && !self.native;
        if let Some(intent) = &generation.temperature {
            let limit = self.encoder.context.capabilities.knobs().max_temperature;
            let value = intent.value.clamp(0.0, limit);
            if (value - intent.value).abs() > f64::EPSILON {
                self.encoder.loss.intent(
                    intent.requirement,
                    Feature::GenerationTemperature,
                    "/generation/temperature",
                    "the target's temperatures end at 1",
                );
            }
            if on && (value - 1.0).abs() > f64::EPSILON {
                self.encoder.loss.intent(
                    intent.requirement,
                    Feature::GenerationTemperature,
                    "/generation/temperature",
                    "not with thinking",
                );
            } else {
                members.push(("temperature".into(), number(value)));
            }
        }
        if let Some(intent) = &generation.top_p {
            if on && intent.value < 0.95 {
                self.encoder
                    .loss
                    .intent(intent.requirement, Feature::GenerationTopP, "/generation/topP", "not with thinking");
            } else {
                members.push(("top_p".into(), number(intent.value)));
            }
        }
        if let Some(intent) = &generation.top_k {
            if on {
                self.encoder
                    .loss
                    .intent(intent.requirement, Feature::GenerationTopK, "/generation/topK", "not with thinking");
            } else {
                members.push(("top_k".into(), number(intent.value)));
            }
        }
        members.extend(self.stop_sequences().map(|stops| ("stop_sequences".to_owned(), stops)));
        if let Some(intent) = &generation.service_tier {
            match &intent.value {
                ServiceTier::Auto => members.push(("service_tier".into(), json("auto"))),
                ServiceTier::Standard => members.push(("service_tier".into(), json("standard_only"))),
                ServiceTier::Other(word) if self.native => members.push(("service_tier".into(), json(&**word))),
                _ => self.encoder.loss.intent(
                    intent.requirement,
                    Feature::GenerationServiceTier,
                    "/generation/serviceTier",
                    "the target has no such class",
                ),
            }
        }
        if let Some(user) = request.metadata.as_ref().and_then(|m| m.end_user_ref.as_ref()) {
            if user.chars().count() <= 512 {
                members.push(("metadata".into(), object(vec![("user_id".into(), json(user))])));
            } else {
                self.encoder
                    .loss
                    .info(Feature::MetadataEndUser, "/metadata/endUserRef", "longer than the target takes");
            }
        }
        members
    }

    /// The limit that the wire demands. Zero asks for no answer at all, which only its own kept field says.
    fn max_tokens(&mut self) -> u64 {
        let path = "/generation/maxOutputTokens";
        match &self.request.generation.max_output_tokens {
            Some(limit) if limit.value == 0 => {
                let reason = "the least limit of an answer is 1";
                self.encoder
                    .loss
                    .intent(limit.requirement, Feature::GenerationMaxOutputTokens, path, reason);
                1
            }
            Some(limit) => limit.value,
            None if self.prewarms => 0,
            None => {
                self.encoder.loss.info(
                    Feature::GenerationMaxOutputTokens,
                    path,
                    "the target demands a limit; the configured default is sent",
                );
                self.encoder.context.capabilities.knobs().default_max_output_tokens
            }
        }
    }

    fn stop_sequences(&mut self) -> Option<Json> {
        let intent = self.request.generation.stop_sequences.as_ref()?;
        let limit = self.encoder.context.capabilities.knobs().max_stop_sequences;
        let mut kept = Vec::new();
        for (n, stop) in intent.value.iter().enumerate() {
            if stop.trim().is_empty() || kept.len() >= limit {
                let reason = if stop.trim().is_empty() {
                    "the target refuses blank stop sequences"
                } else {
                    "more stop sequences than the target takes"
                };
                self.encoder.loss.intent(
                    intent.requirement,
                    Feature::GenerationStopSequences,
                    format!("/generation/stopSequences/value/{n}"),
                    reason,
                );
            } else {
                kept.push(stop);
            }
        }
        (!kept.is_empty() || intent.value.is_empty()).then(|| json(&kept))
    }

    fn thinking(&mut self, turns: &[Turn], choice: Option<&Json>, max_tokens: u64) -> Option<Json> {
        let intent = self.request.generation.reasoning.as_ref()?;
        let Some((kind, mut members)) = self.thinking_kind(intent, max_tokens) else {
            self.summary_without_thinking(intent);
            return None;
        };
        self.thinking = Some(kind);
        if kind == ThinkingKind::Enabled {
            let forced = !self.native
                && choice.is_some_and(|c| matches!(crate::wire::peek_tag(c.as_str(), "type").as_deref(), Some("any" | "tool")));
            let reason = if forced {
                Some("the target does not think with budget when a tool is forced")
            } else if encode_turns::lacks_thinking(turns) {
                Some("the target demands its own signed thinking before the calls of the open turn")
            } else {
                None
            };
            if let Some(reason) = reason {
                let requirement = intent
                    .budget_tokens
                    .as_ref()
                    .map_or(throughline_format::UnifiedRequirement::Preferred, |b| b.requirement);
                self.encoder
                    .loss
                    .intent(requirement, Feature::GenerationReasoningBudget, "/generation/reasoning", reason);
                self.thinking = None;
                self.summary_without_thinking(intent);
                return None;
            }
        }
        if kind == ThinkingKind::Disabled {
            self.summary_without_thinking(intent);
        } else if let Some(summary) = &intent.summary {
            let word = if summary.value == ReasoningSummary::None {
                "omitted"
            } else {
                "summarized"
            };
            if matches!(summary.value, ReasoningSummary::None | ReasoningSummary::Auto) {
                self.encoder
                    .remark("/generation/reasoning/summary", "said by the display of the thinking");
            } else {
                self.encoder.loss.otherwise(
                    summary.requirement,
                    Feature::GenerationReasoningSummary,
                    "/generation/reasoning/summary",
                    "the target has one form of summary",
                );
            }
            members.push(("display".to_owned(), json(word)));
        }
        Some(object(members))
    }

    /// Without thinking there is nothing to disclose.
    fn summary_without_thinking(&mut self, intent: &ReasoningIntent) {
        if let Some(summary) = &intent.summary {
            self.encoder.loss.intent(
                summary.requirement,
                Feature::GenerationReasoningSummary,
                "/generation/reasoning/summary",
                "there is no thinking to disclose",
            );
        }
    }

    fn thinking_kind(&mut self, intent: &ReasoningIntent, max_tokens: u64) -> Option<(ThinkingKind, Vec<(String, Json)>)> {
        let of = |word: &str| vec![("type".to_owned(), json(word))];
        let effort_off = intent.effort.as_ref().is_some_and(|e| e.value == ReasoningEffort::None);
        match intent.mode.as_ref().map(|m| &m.value) {
            Some(ReasoningMode::Off) => {
                if let Some(budget) = &intent.budget_tokens {
                    self.encoder.loss.intent(
                        budget.requirement,
                        Feature::GenerationReasoningBudget,
                        "/generation/reasoning/budgetTokens",
                        "thinking is off",
                    );
                }
                return Some((ThinkingKind::Disabled, of("disabled")));
            }
            Some(ReasoningMode::Other(word)) => {
                let word = word.strip_prefix("anthropic-messages:");
                if let Some(mode) = intent.mode.as_ref().filter(|_| word.is_none()) {
                    self.encoder.loss.intent(
                        mode.requirement,
                        Feature::GenerationReasoningMode,
                        "/generation/reasoning/mode",
                        "the target has no such mode",
                    );
                }
                return word.map(|word| (ThinkingKind::Other, of(word)));
            }
            None if effort_off => return Some((ThinkingKind::Disabled, of("disabled"))),
            _ => {}
        }
        if let Some(budget) = &intent.budget_tokens {
            let mut value = budget.value;
            if !self.native {
                value = value.max(MIN_BUDGET).min(max_tokens.saturating_sub(1));
                if value < MIN_BUDGET {
                    self.encoder.loss.intent(
                        budget.requirement,
                        Feature::GenerationReasoningBudget,
                        "/generation/reasoning/budgetTokens",
                        "no budget fits under the output limit",
                    );
                    return None;
                }
                if value != budget.value {
                    self.encoder.loss.intent(
                        budget.requirement,
                        Feature::GenerationReasoningBudget,
                        "/generation/reasoning/budgetTokens",
                        "moved into the target's range",
                    );
                }
            }
            let mut members = of("enabled");
            members.push(("budget_tokens".into(), json(&value)));
            return Some((ThinkingKind::Enabled, members));
        }
        match &intent.mode {
            Some(mode) => {
                if mode.value == ReasoningMode::Auto {
                    self.encoder.loss.info(
                        Feature::GenerationReasoningMode,
                        "/generation/reasoning/mode",
                        "said as adaptive thinking",
                    );
                }
                Some((ThinkingKind::Adaptive, of("adaptive")))
            }
            None if !self.native && intent.effort.is_some() => {
                self.encoder.loss.info(
                    Feature::GenerationReasoningMode,
                    "/generation/reasoning/effort",
                    "adaptive thinking is switched on for the effort to count",
                );
                Some((ThinkingKind::Adaptive, of("adaptive")))
            }
            None => None,
        }
    }

    fn output_config(&mut self) -> Option<Json> {
        let mut members = Vec::new();
        if let Some(effort) = self.request.generation.reasoning.as_ref().and_then(|r| r.effort.as_ref()) {
            let path = "/generation/reasoning/effort";
            let word = match &effort.value {
                ReasoningEffort::None => {
                    self.encoder
                        .loss
                        .info(Feature::GenerationReasoningEffort, path, "said by switching thinking off");
                    None
                }
                ReasoningEffort::Minimal => {
                    let reason = "low is the target's least effort";
                    self.encoder
                        .loss
                        .otherwise(effort.requirement, Feature::GenerationReasoningEffort, path, reason);
                    Some("low")
                }
                ReasoningEffort::Other(word) if !self.native => {
                    self.encoder.loss.intent(
                        effort.requirement,
                        Feature::GenerationReasoningEffort,
                        path,
                        format!("the target has no effort {word:.20}"),
                    );
                    None
                }
                known => Some(known.as_str()),
            };
            members.extend(word.map(|word| ("effort".to_owned(), json(word))));
        }
        // Free text is the default; forms without a word are reported by the table.
        if let Some(format) = self.request.output.as_ref().and_then(|o| o.format.as_ref())
            && let OutputFormat::JsonSchema(wanted) = &format.value
        {
            let strict = if self.native {
                wanted.schema.clone()
            } else {
                schema::strict(&wanted.schema)
            };
            if strict != wanted.schema {
                let reason = "moved into the target's subset; the rest is told in descriptions";
                self.encoder
                    .loss
                    .intent(format.requirement, Feature::OutputSchema, "/output/format/value/schema", reason);
            }
            let (path, how) = ("/output/format/value/strict", "the target always enforces the schema");
            match wanted.strict {
                Some(true) => self.encoder.remark(path, how),
                Some(false) => self.encoder.loss.info(Feature::OutputSchema, path, how),
                None => {}
            }
            if wanted.name.is_some() || wanted.description.is_some() {
                self.encoder
                    .loss
                    .info(Feature::OutputSchemaName, "/output/format/value", "the target names no schemas");
            }
            members.push(("format".into(), typed("json_schema", [("schema", Some(strict))])));
        }
        (!members.is_empty()).then(|| object(members))
    }
}

/// A number without a needless fraction.
fn number(value: f64) -> Json {
    #[allow(clippy::cast_possible_truncation)] // whole and far inside the range of i64
    if value.fract() == 0.0 && value.abs() < 1e15 {
        json(&(value as i64))
    } else {
        json(&value)
    }
}
