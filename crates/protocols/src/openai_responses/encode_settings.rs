//! What stands beside the input, to the wire.

use super::CODEX;
use super::decode_settings::INCLUDES;
use super::wire::Node;
use super::{encode_tools, kept};
use crate::capability::{Capabilities, Support};
use crate::context::PrivateState;
use crate::feature::Feature;
use crate::openai;
use crate::openai::strict_schema::fits_strict;
use crate::projection::LossCollector;
use throughline_format::cache::CacheMode;
use throughline_format::intent::{Include, OutputFormat, ParallelTools, ReasoningEffort, ReasoningMode, ReasoningSummary, ServiceTier};
use throughline_format::loss::LossSeverity;
use throughline_format::request::ContextEditKind;
use throughline_format::resource::ResourceType;
use throughline_format::{Count, UnifiedIntent, UnifiedRequestV2, UnifiedRequirement};

/// Least output limit that the target takes.
const MIN_OUTPUT_TOKENS: Count = 16;

/// What settings are encoded with.
pub(super) struct Settings<'a> {
    pub private: &'a dyn PrivateState,
    /// Absent = everything that the record says, for comparing.
    pub capabilities: Option<&'a Capabilities>,
    pub loss: LossCollector,
    /// The request came in on this protocol.
    pub is_own: bool,
    pub dialect: Option<&'a str>,
}

/// What the record says, for comparing with what was read.
pub(super) fn plain(request: &UnifiedRequestV2, private: &dyn PrivateState) -> Node {
    let mut settings = Settings {
        private,
        capabilities: None,
        loss: LossCollector::new(),
        is_own: true,
        dialect: None,
    };
    let mut node = settings.body(request);
    if let Some(choice) = request.tool_choice.as_ref().and_then(encode_tools::plain_choice) {
        node.put("tool_choice", choice);
    }
    node
}

impl Settings<'_> {
    fn says(&self, feature: Feature) -> bool {
        self.capabilities
            .is_none_or(|capabilities| !matches!(capabilities.support(feature), Support::Unsupported(_)))
    }

    /// The value of an intent that the target can say.
    fn value<'r, T>(&self, feature: Feature, intent: Option<&'r UnifiedIntent<T>>) -> Option<&'r T> {
        intent.filter(|_| self.says(feature)).map(|intent| &intent.value)
    }

    fn lost<T>(&mut self, intent: Option<&UnifiedIntent<T>>, feature: Feature, path: &str, reason: &str) {
        let requirement = intent.map_or(UnifiedRequirement::Preferred, |intent| intent.requirement);
        self.loss.intent(requirement, feature, path, reason);
    }

    /// All members but input, instructions, tools and their choice.
    pub(super) fn body(&mut self, request: &UnifiedRequestV2) -> Node {
        let mut body = Node::Object(Vec::new());
        let mut put = |key: &str, node: Option<Node>| {
            if let Some(node) = node {
                body.put(key, node);
            }
        };
        let g = &request.generation;
        put("max_output_tokens", self.max_output_tokens(request));
        put("temperature", self.temperature(request));
        put("top_p", self.value(Feature::GenerationTopP, g.top_p.as_ref()).map(Node::of));
        let logprobs = self.value(Feature::GenerationLogprobs, g.logprobs.as_ref());
        put(
            "top_logprobs",
            logprobs.filter(|l| l.enabled).map(|l| Node::of(&l.top.unwrap_or(0).min(20))),
        );
        if g.logprobs.is_some() && self.capabilities.is_some() {
            let reason = "said as a number of alternatives and an include";
            self.loss.remark(Feature::GenerationLogprobs, "/generation/logprobs", reason);
        }
        let wants_logprobs = logprobs.is_some_and(|l| l.enabled);
        put("reasoning", self.reasoning(request));
        put("text", self.text(request));
        let parallel = self.value(Feature::GenerationParallelTools, g.parallel_tools.as_ref());
        put(
            "parallel_tool_calls",
            parallel.map(|parallel| Node::of(&(*parallel == ParallelTools::Allow))),
        );
        put(
            "max_tool_calls",
            self.value(Feature::GenerationMaxToolCalls, g.max_tool_calls.as_ref()).map(Node::of),
        );
        put("service_tier", self.service_tier(request));
        put("include", self.includes(request, wants_logprobs));
        self.state(request, &mut put);
        if let Some(cache) = &request.cache {
            put("prompt_cache_key", cache.affinity_key.as_deref().map(Node::text));
            let is_explicit = cache.mode == CacheMode::Explicit && self.is_own;
            if cache.mode == CacheMode::Disabled && self.is_own {
                let reason = "the target caches by itself and cannot be kept from it";
                self.loss.info(Feature::CacheMode, "/cache/mode", reason);
            }
            put(
                "prompt_cache_options",
                is_explicit.then(|| Node::object([("mode", Some(Node::text("explicit")))])),
            );
        }
        put("metadata", self.labels(request));
        let user = request.metadata.as_ref().and_then(|metadata| metadata.end_user_ref.as_deref());
        put("user", user.filter(|_| self.says(Feature::MetadataEndUser)).map(Node::text));
        if self.dialect == Some(CODEX) {
            self.codex(&mut body);
        }
        body
    }

    /// The service behind Codex refuses what its own client does not send.
    fn codex(&mut self, body: &mut Node) {
        for (member, feature, path) in [
            (
                "max_output_tokens",
                Feature::GenerationMaxOutputTokens,
                "/generation/maxOutputTokens",
            ),
            ("temperature", Feature::GenerationTemperature, "/generation/temperature"),
            ("top_p", Feature::GenerationTopP, "/generation/topP"),
            ("top_logprobs", Feature::GenerationLogprobs, "/generation/logprobs"),
            ("max_tool_calls", Feature::GenerationMaxToolCalls, "/generation/maxToolCalls"),
            ("metadata", Feature::MetadataLabels, "/metadata/labels"),
            ("user", Feature::MetadataEndUser, "/metadata/endUserRef"),
            ("background", Feature::StateBackground, "/state/background"),
            ("truncation", Feature::StateContextManagement, "/state/contextManagement"),
        ] {
            if body.take(member).is_some() {
                self.loss.warning(feature, path, "this dialect refuses it");
            }
        }
        body.put("store", Node::of(&false));
    }

    fn max_output_tokens(&mut self, request: &UnifiedRequestV2) -> Option<Node> {
        let intent = request.generation.max_output_tokens.as_ref();
        let value = *self.value(Feature::GenerationMaxOutputTokens, intent)?;
        if value < MIN_OUTPUT_TOKENS && self.capabilities.is_some() && !self.is_own {
            let reason = "the target's least limit is 16";
            self.lost(intent, Feature::GenerationMaxOutputTokens, "/generation/maxOutputTokens", reason);
            return Some(Node::of(&MIN_OUTPUT_TOKENS));
        }
        Some(Node::of(&value))
    }

    fn temperature(&mut self, request: &UnifiedRequestV2) -> Option<Node> {
        let intent = request.generation.temperature.as_ref();
        let value = *self.value(Feature::GenerationTemperature, intent)?;
        let max = self
            .capabilities
            .map_or(f64::MAX, |capabilities| capabilities.knobs().max_temperature);
        if value > max {
            let reason = "the target's range ends earlier; the value is cut to it";
            self.lost(intent, Feature::GenerationTemperature, "/generation/temperature", reason);
        }
        Some(Node::of(&value.min(max)))
    }

    fn reasoning(&mut self, request: &UnifiedRequestV2) -> Option<Node> {
        let wanted = request.generation.reasoning.as_ref()?;
        let mut effort = self.value(Feature::GenerationReasoningEffort, wanted.effort.as_ref()).cloned();
        if effort.as_ref().is_some_and(|effort| openai::is_foreign_effort(request, effort)) {
            let path = "/generation/reasoning/effort";
            self.lost(
                wanted.effort.as_ref(),
                Feature::GenerationReasoningEffort,
                path,
                openai::UNKNOWN_WORD,
            );
            effort = None;
        }
        let budget = self
            .value(Feature::GenerationReasoningBudget, wanted.budget_tokens.as_ref())
            .copied();
        let mode = wanted.mode.as_ref().map(|mode| &mode.value);
        let effort = effort.or_else(|| budget.map(effort_of_budget)).or(match mode {
            Some(ReasoningMode::On) => Some(ReasoningEffort::Medium),
            Some(ReasoningMode::Off) => Some(ReasoningEffort::None),
            _ => None,
        });
        let summary = self.value(Feature::GenerationReasoningSummary, wanted.summary.as_ref());
        let word = match summary {
            Some(ReasoningSummary::None) if !self.is_own => None,
            Some(ReasoningSummary::Full) => {
                let reason = "the target discloses summaries only";
                self.lost(
                    wanted.summary.as_ref(),
                    Feature::GenerationReasoningSummary,
                    "/generation/reasoning/summary",
                    reason,
                );
                Some("detailed")
            }
            Some(summary) => Some(summary.as_str()),
            None => None,
        };
        if effort.is_none() && word.is_none() {
            return None;
        }
        Some(Node::object([
            ("effort", effort.map(|effort| Node::text(effort.as_str()))),
            ("summary", word.map(Node::text)),
        ]))
    }

    fn text(&mut self, request: &UnifiedRequestV2) -> Option<Node> {
        let output = request.output.as_ref()?;
        let format = output.format.as_ref().and_then(|format| self.format(format));
        let mut verbosity = self.value(Feature::OutputVerbosity, output.verbosity.as_ref());
        if verbosity.is_some_and(|verbosity| openai::is_foreign_verbosity(request, verbosity)) {
            let path = "/output/verbosity";
            self.lost(output.verbosity.as_ref(), Feature::OutputVerbosity, path, openai::UNKNOWN_WORD);
            verbosity = None;
        }
        if format.is_none() && verbosity.is_none() {
            return None;
        }
        Some(Node::object([
            ("format", format),
            ("verbosity", verbosity.map(|verbosity| Node::text(verbosity.as_str()))),
        ]))
    }

    fn format(&mut self, format: &UnifiedIntent<OutputFormat>) -> Option<Node> {
        match &format.value {
            OutputFormat::Text(_) => Some(Node::typed("text", [])),
            OutputFormat::JsonObject(_) => self.says(Feature::OutputJsonObject).then(|| Node::typed("json_object", [])),
            OutputFormat::JsonSchema(schema) => {
                if !self.says(Feature::OutputSchema) {
                    return None;
                }
                let name = schema.name.clone().filter(|name| self.is_own || !name.is_empty());
                let name = name.or_else(|| (!self.is_own).then(|| "response".to_owned()));
                let name = name.map(|name| crate::tool_name::wire(None, &name, 64).into_owned());
                let mut strict = schema.strict;
                if !self.is_own {
                    // Whoever asks for a schema without a word on strictness means it.
                    strict = Some(strict.unwrap_or(true));
                    if strict == Some(true)
                        && let Err(why) = fits_strict(&schema.schema.parse())
                    {
                        strict = Some(false);
                        let reason = format!("the target's strict mode refuses the schema: {why}");
                        self.lost(Some(format), Feature::OutputSchema, "/output/format/value/strict", &reason);
                    }
                }
                Some(Node::typed(
                    "json_schema",
                    [
                        ("name", name.as_deref().map(Node::text)),
                        ("schema", Some(Node::Leaf(schema.schema.clone()))),
                        ("strict", strict.map(|strict| Node::of(&strict))),
                        ("description", schema.description.as_deref().map(Node::text)),
                    ],
                ))
            }
            OutputFormat::Grammar(grammar) if self.is_own && self.says(Feature::OutputGrammar) => Some(Node::typed(
                "grammar",
                [
                    ("syntax", Some(Node::text(grammar.syntax.as_str()))),
                    ("definition", Some(Node::text(&grammar.definition))),
                ],
            )),
            OutputFormat::Grammar(_) | OutputFormat::Media(_) => None,
        }
    }

    fn service_tier(&mut self, request: &UnifiedRequestV2) -> Option<Node> {
        let intent = request.generation.service_tier.as_ref();
        let word = match self.value(Feature::GenerationServiceTier, intent)? {
            ServiceTier::Standard => "default".to_owned(),
            ServiceTier::Other(word) if !self.is_own && !matches!(&**word, "scale" | "fast" | "ultrafast") => {
                let reason = "the target does not know this class of service";
                self.lost(intent, Feature::GenerationServiceTier, "/generation/serviceTier", reason);
                return None;
            }
            word => word.as_str().to_owned(),
        };
        Some(Node::text(&word))
    }

    fn includes(&mut self, request: &UnifiedRequestV2, wants_logprobs: bool) -> Option<Node> {
        let intent = request.output.as_ref().and_then(|output| output.includes.as_ref());
        let mut words = Vec::new();
        if intent.is_some() && self.capabilities.is_some() {
            self.loss
                .remark(Feature::OutputIncludes, "/output/includes", "said in the target's words");
        }
        for include in self.value(Feature::OutputIncludes, intent).into_iter().flatten() {
            match INCLUDES.iter().find(|(_, known)| known == include) {
                Some((word, _)) => words.push(*word),
                // Usage always comes with a stream, and citations with the answer.
                None if matches!(include, Include::StreamUsage | Include::Citations) => {
                    let reason = "the target always gives it";
                    self.loss
                        .add(LossSeverity::Info, Feature::OutputIncludes, "/output/includes", reason);
                }
                None => self.lost(
                    intent,
                    Feature::OutputIncludes,
                    "/output/includes",
                    "the target has no word for one of them",
                ),
            }
        }
        if !self.is_own {
            // Without its state at the provider, reasoning lives only in what comes back.
            for (word, is_wanted) in [
                ("reasoning.encrypted_content", true),
                ("message.output_text.logprobs", wants_logprobs),
            ] {
                if is_wanted && !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        if words.is_empty() && (intent.is_none() || !self.is_own) {
            return None;
        }
        Some(Node::List(words.into_iter().map(Node::text).collect()))
    }

    fn state(&mut self, request: &UnifiedRequestV2, put: &mut impl FnMut(&str, Option<Node>)) {
        let state = request.state.as_ref();
        let persist = self.value(Feature::StatePersist, state.and_then(|state| state.persist.as_ref()));
        // A conversation of another protocol is not stored unless somebody asks for it, or for work that can be fetched later.
        let wanted = state.and_then(|state| state.background.as_ref());
        let mut background = self.value(Feature::StateBackground, wanted);
        if background.is_some() && !self.is_own && persist == Some(&false) {
            self.lost(
                wanted,
                Feature::StateBackground,
                "/state/background",
                "the target works in the background only on what it may store",
            );
            background = None;
        }
        let store = persist.copied().or_else(|| (!self.is_own && background.is_none()).then_some(false));
        put("store", store.map(|store| Node::of(&store)));
        put("background", background.map(|_| Node::of(&true)));
        if let Some(intent) = state.and_then(|state| state.background.as_ref()).filter(|_| background.is_some()) {
            self.loss.webhook(intent);
        }
        if let Some(window) = background.and_then(|background| background.completion_window.as_deref()) {
            put(
                "background_options",
                Some(Node::object([("completion_window", Some(Node::text(window)))])),
            );
        }
        let edits = state.and_then(|state| state.context_management.as_ref());
        let mut compactions = Vec::new();
        for (n, edit) in self.value(Feature::StateContextManagement, edits).into_iter().flatten().enumerate() {
            match edit.kind {
                ContextEditKind::Compact => compactions.push(Node::typed(
                    "compaction",
                    [("compact_threshold", edit.trigger_tokens.map(|tokens| Node::of(&tokens)))],
                )),
                ContextEditKind::Truncate => put("truncation", Some(Node::text("auto"))),
                ContextEditKind::ClearToolUses | ContextEditKind::ClearReasoning | ContextEditKind::Other(_) => {
                    let path = format!("/state/contextManagement/value/{n}");
                    self.lost(edits, Feature::StateContextManagement, &path, "the target has no such rule");
                }
            }
        }
        put("context_management", (!compactions.is_empty()).then_some(Node::List(compactions)));
        let text = |schema: &str| {
            let bytes = self.private.root_payload(schema)?;
            String::from_utf8(bytes.to_vec()).ok()
        };
        let tree = |schema: &str| self.private.root_payload(schema).and_then(|bytes| kept::tree(&bytes));
        let conversation = &request.conversation;
        for (n, held) in conversation.continuations.iter().flatten().enumerate() {
            let sent = match held.resource_type {
                ResourceType::Response => text(kept::PREVIOUS).map(|id| ("previous_response_id", Node::text(&id))),
                ResourceType::Conversation => tree(kept::CONVERSATION).map(|id| ("conversation", id)),
                _ => None,
            };
            if let Some((member, handle)) = sent {
                put(member, Some(handle));
            } else {
                let path = format!("/conversation/continuations/{n}");
                self.loss.held_elsewhere(conversation, path, "the history is held by another owner");
            }
        }
        if conversation.missing.is_some() && !self.is_own {
            let reason = "a part of the history that another provider holds";
            self.loss.held_elsewhere(conversation, "/conversation/missing", reason);
        } else if conversation.missing.is_some() {
            let reason = "said by the item or handle that stands for it";
            self.loss.remark(Feature::RecordBookkeeping, "/conversation/missing", reason);
        }
        if state.is_some_and(|state| state.resources.is_some()) {
            put("prompt", tree(kept::PROMPT));
        }
    }

    fn labels(&mut self, request: &UnifiedRequestV2) -> Option<Node> {
        let labels = request.metadata.as_ref()?.labels.as_ref()?;
        if !self.says(Feature::MetadataLabels) {
            return None;
        }
        let fits = |key: &str, value: &str| key.chars().count() <= 64 && value.chars().count() <= 512;
        let kept: Vec<(String, Node)> = labels
            .0
            .iter()
            .filter(|(key, value)| self.is_own || fits(key, value))
            .take(if self.is_own { usize::MAX } else { 16 })
            .map(|(key, value)| (key.clone(), Node::text(value)))
            .collect();
        if kept.len() < labels.0.len() {
            let reason = "the target takes 16 labels of bounded length";
            self.loss.warning(Feature::MetadataLabels, "/metadata/labels", reason);
        }
        Some(Node::Object(kept))
    }
}

/// The effort that a budget stands for.
fn effort_of_budget(tokens: Count) -> ReasoningEffort {
    match tokens {
        0 => ReasoningEffort::None,
        1..=1_024 => ReasoningEffort::Minimal,
        1_025..=4_096 => ReasoningEffort::Low,
        4_097..=16_384 => ReasoningEffort::Medium,
        _ => ReasoningEffort::High,
    }
}
