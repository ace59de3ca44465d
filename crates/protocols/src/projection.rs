//! Finding losses by table: every intent of a request is looked up in the target's capabilities, not coded per pair.

use crate::capability::{Capabilities, Support};
use crate::codec::{Codec, StreamEncoder};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::media::untold;
use crate::strength::default_strength;
use throughline_format::cache::{CacheTtl, UnifiedCacheIntent};
use throughline_format::conversation::{Completeness, UnifiedConversationInput};
use throughline_format::intent::{OutputFormat, UnifiedRequirement};
use throughline_format::item::{ToolCallItem, Visibility};
use throughline_format::loss::{LossSeverity, UnifiedLossEntry};
use throughline_format::media::UnifiedMediaMetadata;
use throughline_format::request::BackgroundIntent;
use throughline_format::{
    Count, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedIntent, UnifiedItem, UnifiedLossReport, UnifiedRequestV2,
    UnifiedResponseStatus, UnifiedResultV2, UnifiedUsage,
};

/// Collects the losses of one projection.
#[derive(Debug, Default)]
pub struct LossCollector {
    report: UnifiedLossReport,
}

impl LossCollector {
    /// An empty collector.
    pub fn new() -> Self {
        Self::default()
    }

    /// A loss of the given severity.
    pub fn add(&mut self, severity: LossSeverity, feature: Feature, path: impl Into<String>, reason: impl Into<String>) {
        self.add_for(severity, feature, path, reason, None);
    }

    /// A loss that comes from one item.
    pub fn add_for(
        &mut self,
        severity: LossSeverity,
        feature: Feature,
        path: impl Into<String>,
        reason: impl Into<String>,
        item: Option<&UnifiedId>,
    ) {
        self.report.push(UnifiedLossEntry {
            path: path.into(),
            feature: feature.as_str().to_owned(),
            severity,
            reason: reason.into(),
            source_item_id: item.cloned(),
            target_capability: Some(feature.as_str().to_owned()),
        });
    }

    /// Something that neither model nor user notices.
    pub fn info(&mut self, feature: Feature, path: impl Into<String>, reason: impl Into<String>) {
        self.add(LossSeverity::Info, feature, path, reason);
    }

    /// A word that stands in the record under another name: it loses nothing and changes no disposition.
    pub fn renamed(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.report.note(UnifiedLossEntry {
            path: path.into(),
            feature: Feature::RecordBookkeeping.as_str().to_owned(),
            severity: LossSeverity::Info,
            reason: reason.into(),
            source_item_id: None,
            target_capability: None,
        });
    }

    /// Whether a model must not see an item: one that is for clients or for the gateway is in no request. It loses nothing by that.
    pub fn hides(&mut self, item: &UnifiedItem, path: &str) -> bool {
        let is_hidden = item.visibility != Visibility::Model;
        if is_hidden {
            self.hidden(item, path);
        }
        is_hidden
    }

    /// Whether a client must not see an item: one that is for the gateway only.
    pub fn hides_from_clients(&mut self, item: &UnifiedItem, path: &str) -> bool {
        let is_hidden = item.visibility == Visibility::Internal;
        if is_hidden {
            self.hidden(item, path);
        }
        is_hidden
    }

    fn hidden(&mut self, item: &UnifiedItem, path: &str) {
        self.report.note(UnifiedLossEntry {
            path: path.to_owned(),
            feature: Feature::RecordBookkeeping.as_str().to_owned(),
            severity: LossSeverity::Info,
            reason: format!("what is for `{}` only is not sent", item.visibility.as_str()),
            source_item_id: Some(item.id.clone()),
            target_capability: None,
        });
    }

    /// What is known of a medium that a wire does not say. `told` are the members that it says, or that its encoder reports itself.
    pub fn media(&mut self, media: Option<&UnifiedMediaMetadata>, feature: Feature, path: &str, told: &[&str]) {
        for (severity, member, reason) in untold(media, told) {
            let path = format!("{path}/media/{member}");
            match severity {
                Some(severity) => self.add(severity, feature, path, reason),
                None => self.remark(feature, path, reason),
            }
        }
    }

    /// A marker of the journal that says something about the conversation and is no part of it: it loses nothing.
    pub fn marker(&mut self, path: impl Into<String>, item: &UnifiedId) {
        self.report.note(UnifiedLossEntry {
            path: path.into(),
            feature: Feature::RecordBookkeeping.as_str().to_owned(),
            severity: LossSeverity::Info,
            reason: "a marker of the journal; the model is not told of it".to_owned(),
            source_item_id: Some(item.clone()),
            target_capability: None,
        });
    }

    /// Something that is said in another form and loses nothing by it: the disposition stays what it is.
    pub fn remark(&mut self, feature: Feature, path: impl Into<String>, reason: impl Into<String>) {
        self.report.note(UnifiedLossEntry {
            path: path.into(),
            feature: feature.as_str().to_owned(),
            severity: LossSeverity::Info,
            reason: reason.into(),
            source_item_id: None,
            target_capability: None,
        });
    }

    /// Something that they could notice.
    pub fn warning(&mut self, feature: Feature, path: impl Into<String>, reason: impl Into<String>) {
        self.add(LossSeverity::Warning, feature, path, reason);
    }

    /// The loss of an intent of this strength.
    pub fn intent(&mut self, requirement: UnifiedRequirement, feature: Feature, path: impl Into<String>, reason: impl Into<String>) {
        self.add(LossSeverity::of_requirement(requirement), feature, path, reason);
    }

    /// An intent that is said in another way: nothing else may stand for what is required, and anything else is only noted.
    pub fn otherwise(&mut self, requirement: UnifiedRequirement, feature: Feature, path: impl Into<String>, reason: impl Into<String>) {
        let severity = if requirement == UnifiedRequirement::Required {
            LossSeverity::Error
        } else {
            LossSeverity::Info
        };
        self.add(severity, feature, path, reason);
    }

    /// Cache marks whose life the target says by another one that it knows.
    pub fn cache_lives(&mut self, cache: Option<&UnifiedCacheIntent>, sent: impl Fn(CacheTtl) -> Count) {
        let marks = cache.into_iter().flat_map(|cache| cache.breakpoints.iter().flatten());
        for (number, ttl) in marks.enumerate().filter_map(|(number, mark)| Some((number, mark.ttl?))) {
            if sent(ttl) != ttl.seconds() {
                let path = format!("/cache/breakpoints/{number}/ttl");
                self.info(
                    Feature::CacheBreakpoints,
                    path,
                    "the target knows other lives of a cache; the nearest is said",
                );
            }
        }
    }

    /// A word that can only be one: another one is read as it, and the report says so.
    pub fn only_word(&mut self, path: impl Into<String>, said: Option<&str>, word: &str) {
        if let Some(other) = said.filter(|said| *said != word) {
            self.warning(
                Feature::WireUnmapped,
                path,
                format!("{other:?} is not known here; read as {word:?}"),
            );
        }
    }

    /// A webhook of background work, which no body names: who may call whom back is settled with the provider, not by request.
    pub fn webhook(&mut self, background: &UnifiedIntent<BackgroundIntent>) {
        if background.value.webhook_ref.is_some() {
            let (path, reason) = ("/state/background/value/webhookRef", "the body of a request names no webhook");
            self.intent(background.requirement, Feature::StateBackground, path, reason);
        }
    }

    /// History that the target does not get because somebody else holds it: an error when nothing else of it is here
    /// (open-types.md, UnifiedPortabilityDecision: `owner-only`), a warning when a part is missing.
    pub fn held_elsewhere(&mut self, conversation: &UnifiedConversationInput, path: impl Into<String>, reason: &str) {
        let severity = match conversation.completeness {
            Completeness::ReferenceOnly => LossSeverity::Error,
            Completeness::Complete | Completeness::Partial => LossSeverity::Warning,
        };
        self.add(severity, Feature::ConversationPortability, path, reason);
    }

    /// A call whose namespace stands in front of its name, since the wire has only a name.
    pub fn joined_name(&mut self, call: &ToolCallItem, path: &str) {
        if call.namespace.is_some() {
            let reason = "the target has only a name, and the namespace stands in front of it";
            self.info(Feature::ToolName, format!("{path}/namespace"), reason);
            self.info(Feature::ToolName, format!("{path}/name"), reason);
        }
    }

    /// The report.
    pub fn finish(self) -> UnifiedLossReport {
        self.report
    }

    /// The report so far.
    pub const fn report(&self) -> &UnifiedLossReport {
        &self.report
    }

    /// Reports the provider's resources of an answer when the client's wire has no place for them.
    pub fn report_state(&mut self, result: &UnifiedResultV2) {
        let resources = result.state.iter().flat_map(|state| &state.resources);
        for (index, _) in resources.enumerate() {
            self.info(
                Feature::StateResources,
                format!("/state/resources/{index}"),
                "a resource of the provider, of which the wire says nothing",
            );
        }
    }

    /// Reports the error of an answer that did not fail, and which the wire therefore does not tell as an error.
    pub fn untold_error(&mut self, result: &UnifiedResultV2) {
        if result.error.is_some() {
            let reason = "the target tells an error only of a failed answer";
            self.warning(Feature::ResponseFinishReason, "/error", reason);
        }
    }

    /// Reports the counters of a stream that ends with an error, after which nothing comes.
    pub fn untold_usage(&mut self, usage: Option<&UnifiedUsage>) {
        if usage.is_some() {
            let reason = "a stream that fails ends before its counters";
            self.info(Feature::ResponseUsage, "/usage", reason);
        }
    }

    /// Reports every intent of the request that the target cannot say as it is. Encoders write only what is left.
    pub fn report_intents(&mut self, request: &UnifiedRequestV2, capabilities: &Capabilities) {
        // A target that can go on from a state of its own tells itself what it cannot.
        if matches!(capabilities.support(Feature::ConversationPortability), Support::Unsupported(_)) {
            let conversation = &request.conversation;
            for (path, there) in [
                ("/conversation/continuations", conversation.continuations.is_some()),
                ("/conversation/missing", conversation.missing.is_some()),
            ] {
                if there {
                    let reason = "the target goes on from no state that another provider holds";
                    self.held_elsewhere(conversation, path, reason);
                }
            }
        }
        for (feature, path, requirement) in intents(request) {
            match capabilities.support(feature) {
                Support::Lossless => {}
                // Another way of saying it weakens nothing that was required only when the table says so; required stays an error.
                Support::Degraded(how) => self.otherwise(requirement, feature, path, how),
                Support::Unsupported(why) => self.intent(requirement, feature, path, why),
            }
        }
        // A target that has a place for them reports itself what of them it may see.
        if let Support::Unsupported(why) = capabilities.support(Feature::StateResources) {
            let resources = request.state.iter().flat_map(|state| state.resources.iter().flatten());
            for (index, _) in resources.enumerate() {
                self.warning(Feature::StateResources, format!("/state/resources/{index}"), why);
            }
        }
    }

    /// The same for a target that keeps no answer which could be asked for again: a request that nothing is stored is met there.
    pub fn report_intents_without_store(&mut self, request: &UnifiedRequestV2, capabilities: &Capabilities) {
        let persist = request.state.as_ref().and_then(|state| state.persist.as_ref());
        if persist.is_none_or(|persist| persist.value) || capabilities.support(Feature::StatePersist) == Support::Lossless {
            return self.report_intents(request, capabilities);
        }
        let mut capabilities = capabilities.clone();
        capabilities.learn(Feature::StatePersist, Support::Lossless);
        self.report_intents(request, &capabilities);
        self.remark(
            Feature::StatePersist,
            "/state/persist",
            "the target keeps no answer that could be asked for again",
        );
    }
}

/// What a whole stream did not say. Its items lose what they lose in an answer of this wire, which names their places; how the stream
/// ended is told by its encoder alone.
///
/// # Errors
/// As [`Codec::encode_response`].
pub fn stream_loss(
    codec: &dyn Codec,
    result: &UnifiedResultV2,
    context: &EncodeContext,
    encoder: &dyn StreamEncoder,
) -> Result<UnifiedLossReport, UnifiedError> {
    let of_error = |entry: &UnifiedLossEntry| entry.path.starts_with("/error");
    let of_ending = |entry: &UnifiedLossEntry| of_error(entry) || entry.path.starts_with("/status");
    // The items of a stream that fails were said before; only an answer that fails is an error and nothing else.
    let mut said = result.clone();
    said.error = None;
    said.status = UnifiedResponseStatus::finished(UnifiedFinishReason::Stop, None);
    let of_items = codec.encode_response(&said, context)?.loss;
    let of_whole = encoder.loss().entries.iter().filter(|entry| is_of_whole(&entry.path));
    let mut report = UnifiedLossReport {
        disposition: encoder.loss().disposition,
        ..UnifiedLossReport::default()
    };
    for entry in of_items.entries.iter().filter(|entry| !of_ending(entry)) {
        report.disposition = report.disposition.max(of_items.disposition);
        report.note(entry.clone());
    }
    let of_failure = match &result.error {
        Some(_) => codec.encode_response(result, context)?.loss.entries,
        None => Vec::new(),
    };
    for entry in of_whole.chain(of_failure.iter().filter(|entry| of_error(entry))) {
        if !report.entries.contains(entry) {
            report.note(entry.clone());
        }
    }
    Ok(report)
}

/// Whether a place is a member of the answer, and not an item or inside one.
fn is_of_whole(path: &str) -> bool {
    let member = path.split('/').nth(1).unwrap_or_default();
    ["model", "status", "usage", "error", "state", "alternatives"].contains(&member)
}

/// Every intent that the request carries: its feature, its place and its strength.
pub fn intents(request: &UnifiedRequestV2) -> Vec<(Feature, &'static str, UnifiedRequirement)> {
    let mut found = Vec::new();
    let g = &request.generation;
    macro_rules! each {
        ($($intent:expr => $feature:ident $path:literal),+ $(,)?) => {
            $(if let Some(requirement) = strength($intent.as_ref()) { found.push((Feature::$feature, $path, requirement)); })+
        };
    }
    each! {
        g.max_output_tokens => GenerationMaxOutputTokens "/generation/maxOutputTokens",
        g.temperature => GenerationTemperature "/generation/temperature",
        g.top_p => GenerationTopP "/generation/topP",
        g.top_k => GenerationTopK "/generation/topK",
        g.min_p => GenerationMinP "/generation/minP",
        g.stop_sequences => GenerationStopSequences "/generation/stopSequences",
        g.candidate_count => GenerationCandidateCount "/generation/candidateCount",
        g.seed => GenerationSeed "/generation/seed",
        g.presence_penalty => GenerationPresencePenalty "/generation/presencePenalty",
        g.frequency_penalty => GenerationFrequencyPenalty "/generation/frequencyPenalty",
        g.repetition_penalty => GenerationRepetitionPenalty "/generation/repetitionPenalty",
        g.logit_bias => GenerationLogitBias "/generation/logitBias",
        g.logprobs => GenerationLogprobs "/generation/logprobs",
        g.parallel_tools => GenerationParallelTools "/generation/parallelTools",
        g.max_tool_calls => GenerationMaxToolCalls "/generation/maxToolCalls",
        g.service_tier => GenerationServiceTier "/generation/serviceTier",
        g.prediction => GenerationPrediction "/generation/prediction",
        g.prefill => GenerationPrefill "/generation/prefill",
        g.safety_settings => GenerationSafetySettings "/generation/safetySettings",
        g.output_modalities => GenerationOutputModalities "/generation/outputModalities",
    }
    if let Some(r) = &g.reasoning {
        each! {
            r.mode => GenerationReasoningMode "/generation/reasoning/mode",
            r.effort => GenerationReasoningEffort "/generation/reasoning/effort",
            r.budget_tokens => GenerationReasoningBudget "/generation/reasoning/budgetTokens",
            r.summary => GenerationReasoningSummary "/generation/reasoning/summary",
        }
    }
    if let Some(m) = &g.media {
        each! {
            m.input_resolution => GenerationMedia "/generation/media/inputResolution",
            m.speech => GenerationMedia "/generation/media/speech",
            m.image => GenerationMedia "/generation/media/image",
            m.video => GenerationMedia "/generation/media/video",
        }
    }
    if let Some(output) = &request.output {
        if let Some(format) = &output.format {
            let feature = match format.value {
                OutputFormat::Text(_) => None,
                OutputFormat::JsonObject(_) => Some(Feature::OutputJsonObject),
                OutputFormat::JsonSchema(_) => Some(Feature::OutputSchema),
                OutputFormat::Grammar(_) => Some(Feature::OutputGrammar),
                OutputFormat::Media(_) => Some(Feature::OutputMedia),
            };
            found.extend(feature.map(|f| (f, "/output/format", format.requirement)));
        }
        each! {
            output.verbosity => OutputVerbosity "/output/verbosity",
            output.includes => OutputIncludes "/output/includes",
        }
    }
    if let Some(state) = &request.state {
        each! {
            state.persist => StatePersist "/state/persist",
            state.background => StateBackground "/state/background",
            state.context_management => StateContextManagement "/state/contextManagement",
        }
    }
    if let Some(choice) = &request.tool_choice {
        let allowed = matches!(choice.kind, throughline_format::tool::ToolChoiceKind::Allowed);
        found.push((
            if allowed { Feature::ToolChoiceAllowed } else { Feature::ToolChoice },
            "/toolChoice",
            choice.requirement,
        ));
    }
    if let Some(cache) = &request.cache {
        if cache.affinity_key.is_some() {
            found.push(unset(Feature::CacheAffinityKey, "/cache/affinityKey"));
        }
        if cache.breakpoints.as_ref().is_some_and(|b| !b.is_empty()) {
            found.push(unset(Feature::CacheBreakpoints, "/cache/breakpoints"));
        }
        if cache.retention.is_some() {
            found.push(unset(Feature::CacheRetention, "/cache/retention"));
        }
        found.push(unset(Feature::CacheMode, "/cache/mode"));
    }
    if let Some(metadata) = &request.metadata {
        if metadata.labels.is_some() {
            found.push(unset(Feature::MetadataLabels, "/metadata/labels"));
        }
        if metadata.end_user_ref.is_some() {
            found.push(unset(Feature::MetadataEndUser, "/metadata/endUserRef"));
        }
    }
    if request.model.fallbacks.is_some() {
        found.push(unset(Feature::ModelFallbacks, "/model/fallbacks"));
    }
    found
}

/// An intent whose strength nobody sets.
fn unset(feature: Feature, path: &'static str) -> (Feature, &'static str, UnifiedRequirement) {
    let default = default_strength(feature).map_or(UnifiedRequirement::Preferred, |d| d.requirement);
    (feature, path, default)
}

fn strength<T>(intent: Option<&UnifiedIntent<T>>) -> Option<UnifiedRequirement> {
    intent.map(|i| i.requirement)
}
