//! Requests to the wire: everything beside the messages. Tools are in [`super::encode_tools`].

use super::dialect::Dialect;
use super::encode_parts::{json_of, text};
use super::encode_request::RequestEncoder;
use super::private::{Entries, Form};
use super::{encode_output, encode_reasoning, encode_tools, wire};
use crate::capability::{Capabilities, Support};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::wire::{Extra, TextOr};
use serde_json::{Value, json};
use throughline_format::cache::CacheMode;
use throughline_format::intent::{Include, MediaIntent, OutputModality, ParallelTools, ServiceTier, UnifiedIntent, UnifiedRequirement};
use throughline_format::tool::ToolChoiceKind;
use throughline_format::{Json, ProtocolFamily, UnifiedId, UnifiedItem, UnifiedRequestV2};

/// Root members that are put back only under a condition.
const GUARDED: &[&str] = &[
    "max_tokens",
    "stop",
    "tools",
    "top_k",
    "min_p",
    "repetition_penalty",
    "models",
    "tool_choice",
    "stream",
    "reasoning",
    "thinking",
    "enable_thinking",
    "thinking_budget",
    "chat_template_kwargs",
    "random_seed",
    "repeat_penalty",
    "structured_outputs",
    "guided_regex",
    "guided_grammar",
    "guided_json",
    "grammar",
    "json_schema",
    "moderation",
];
/// Says which intents this request can carry beyond the table, because they come back as they came.
pub(super) fn adjust(request: &UnifiedRequestV2, root: &Entries, context: &EncodeContext, capabilities: &mut Capabilities) {
    let mut lossless = |feature: Feature| capabilities.learn(feature, Support::Lossless);
    let same_family = request.source.profile.family == ProtocolFamily::OpenAiChat;
    for (member, feature) in [
        ("top_k", Feature::GenerationTopK),
        ("min_p", Feature::GenerationMinP),
        ("repetition_penalty", Feature::GenerationRepetitionPenalty),
        ("repeat_penalty", Feature::GenerationRepetitionPenalty),
        ("models", Feature::ModelFallbacks),
        ("moderation", Feature::GenerationSafetySettings),
    ] {
        if root.get(&format!("/{member}")).is_some() {
            lossless(feature);
        }
    }
    let persist = request.state.as_ref().and_then(|s| s.persist.as_ref()).map(|p| p.value);
    if persist == Some(false) && !Dialect::of(context.dialect.as_deref()).stores {
        lossless(Feature::StatePersist);
    }
    let choice = request.tool_choice.as_ref().map(|choice| choice.kind);
    if capabilities.support(Feature::ToolChoice) == super::dialect::IGNORED_CHOICE {
        match choice {
            Some(ToolChoiceKind::Auto | ToolChoiceKind::None) => capabilities.learn(Feature::ToolChoice, Support::Lossless),
            // Nothing else says it, so a call that was to be made may not be.
            Some(ToolChoiceKind::Required | ToolChoiceKind::Named | ToolChoiceKind::Allowed) => {
                capabilities.learn(Feature::ToolChoice, Support::Unsupported("the dialect chooses tools by itself"));
            }
            None => {}
        }
    }
    let mut lossless = |feature: Feature| capabilities.learn(feature, Support::Lossless);
    if same_family {
        lossless(Feature::CacheMode);
        lossless(Feature::GenerationLogitBias);
        let prefill = request
            .generation
            .prefill
            .as_ref()
            .and_then(|p| request.conversation.items.iter().find(|i| i.id == p.value.item_id));
        if prefill.is_some_and(|item| Entries::of(context.private.as_ref(), item.provider_data.as_ref()).is_prefix()) {
            lossless(Feature::GenerationPrefill);
        }
    }
    if encode_reasoning::members(request, root).is_some() {
        for feature in [
            Feature::GenerationReasoningMode,
            Feature::GenerationReasoningEffort,
            Feature::GenerationReasoningBudget,
            Feature::GenerationReasoningSummary,
        ] {
            lossless(feature);
        }
    }
    let format = request.output.as_ref().and_then(|o| o.format.as_ref());
    if format.is_some_and(|f| encode_output::written_format(root, &f.value).is_some()) {
        lossless(Feature::OutputGrammar);
        lossless(Feature::OutputSchema);
    }
    if request
        .output
        .as_ref()
        .and_then(|o| o.includes.as_ref())
        .is_some_and(|i| i.value == [Include::StreamUsage])
    {
        lossless(Feature::OutputIncludes);
    }
    let marks = request.cache.as_ref().and_then(|c| c.breakpoints.as_ref());
    let comes_back = |id: &UnifiedId| {
        let item = request.conversation.items.iter().find(|item| item.id == *id);
        item.is_some_and(|item| is_kept(context, item))
    };
    if marks.is_some_and(|marks| marks.iter().all(|mark| comes_back(&mark.item_id))) {
        lossless(Feature::CacheBreakpoints);
    }
}

/// Whether members of an item or of its parts come back as they were written, cache marks among them.
fn is_kept(context: &EncodeContext, item: &UnifiedItem) -> bool {
    let of_parts = item.parts().iter().filter_map(|part| part.base.provider_data.as_ref());
    let mut all = item.provider_data.iter().chain(of_parts).flatten();
    all.any(|r| r.schema == super::private::UNMAPPED && context.private.payload(&r.resource_id).is_some())
}

/// The whole body.
pub(super) fn body(encoder: &mut RequestEncoder, root: &Entries, messages: Vec<wire::Message>) -> wire::Request {
    let (request, context) = (encoder.request, encoder.context);
    let form = Form::of_root(context.private.as_ref());
    let g = &request.generation;
    let mut extra = root.level("", GUARDED);
    let mut wire = empty(model(encoder, &form), messages);
    let plain = |feature: Feature| encoder.capabilities.support(feature) == Support::Lossless;
    if let Some(limit) = g
        .max_output_tokens
        .as_ref()
        .filter(|_| plain(Feature::GenerationMaxOutputTokens))
        .map(|l| l.value)
    {
        let is_old = root.get("/max_tokens").is_some_and(|v| v.as_str() == limit.to_string()) || encoder.dialect.old_limit;
        *(if is_old {
            &mut wire.max_tokens
        } else {
            &mut wire.max_completion_tokens
        }) = Some(limit);
    }
    let max_temperature = encoder.capabilities.knobs().max_temperature;
    wire.temperature = g
        .temperature
        .as_ref()
        .filter(|_| plain(Feature::GenerationTemperature))
        .map(|t| t.value.min(max_temperature));
    wire.top_p = g.top_p.as_ref().filter(|_| plain(Feature::GenerationTopP)).map(|t| t.value);
    wire.n = g
        .candidate_count
        .as_ref()
        .filter(|_| plain(Feature::GenerationCandidateCount))
        .map(|n| n.value);
    let seed = g
        .seed
        .as_ref()
        .filter(|_| plain(Feature::GenerationSeed))
        .and_then(|s| s.value.to_i64());
    let is_named = encoder.dialect.seed != "seed" || root.get("/random_seed").is_some();
    wire.seed = seed.filter(|_| !is_named);
    if let Some(seed) = seed.filter(|_| is_named) {
        extra.0.push(("random_seed".into(), Json::from_value(&json!(seed))));
    }
    wire.frequency_penalty = g
        .frequency_penalty
        .as_ref()
        .filter(|_| plain(Feature::GenerationFrequencyPenalty))
        .map(|p| p.value);
    wire.presence_penalty = g
        .presence_penalty
        .as_ref()
        .filter(|_| plain(Feature::GenerationPresencePenalty))
        .map(|p| p.value);
    wire.logit_bias = g
        .logit_bias
        .as_ref()
        .filter(|_| plain(Feature::GenerationLogitBias))
        .map(|b| b.value.0.clone());
    let mut has_logprobs = false;
    if let Some(logprobs) = g.logprobs.as_ref().filter(|_| plain(Feature::GenerationLogprobs)) {
        wire.logprobs = Some(logprobs.value.enabled);
        has_logprobs = true;
        wire.top_logprobs = logprobs.value.top.map(|t| t.min(20));
    }
    if has_logprobs {
        let path = "/generation/logprobs/value/enabled";
        encoder
            .loss
            .remark(Feature::WireSpelling, path, "said as the member `logprobs` itself");
    }
    let plain = |feature: Feature| encoder.capabilities.support(feature) == Support::Lossless;
    let prediction = g.prediction.as_ref().filter(|_| plain(Feature::GenerationPrediction));
    let modalities = g.output_modalities.as_ref().filter(|_| plain(Feature::GenerationOutputModalities));
    let is_parallel = plain(Feature::GenerationParallelTools);
    let (is_tier, is_media) = (plain(Feature::GenerationServiceTier), plain(Feature::GenerationMedia));
    let stops = g.stop_sequences.as_ref().filter(|_| plain(Feature::GenerationStopSequences));
    let store = request
        .state
        .as_ref()
        .and_then(|s| s.persist.as_ref())
        .filter(|_| plain(Feature::StatePersist));
    wire.store = store.map(|s| s.value).filter(|_| encoder.dialect.stores);
    if store.is_some() && !encoder.dialect.stores {
        let why = "the dialect has no store of completions, so nothing has to be forbidden";
        encoder.loss.remark(Feature::StatePersist, "/state/persist", why);
    }
    if let Some(requirement) = g.temperature.as_ref().filter(|t| t.value > max_temperature).map(|t| t.requirement) {
        encoder.loss.intent(
            requirement,
            Feature::GenerationTemperature,
            "/generation/temperature",
            "the target's range ends earlier; the value is cut to it",
        );
    }
    if let Some(stops) = stops {
        let max = encoder.capabilities.knobs().max_stop_sequences;
        if stops.value.len() > max {
            encoder.loss.intent(
                stops.requirement,
                Feature::GenerationStopSequences,
                "/generation/stopSequences",
                "the target takes fewer stop sequences; the first ones are sent",
            );
        }
        let list: Vec<String> = stops.value.iter().take(max).cloned().collect();
        let is_text = root.get("/stop").is_some_and(|s| s.decode::<String>().is_ok_and(|s| [s] == *list));
        wire.stop = match list.as_slice() {
            [only] if is_text => Some(TextOr::Text(only.clone())),
            _ => Some(TextOr::List(list)),
        };
    }
    if let Some(prediction) = prediction {
        let texts: Vec<String> = prediction
            .value
            .parts
            .iter()
            .filter_map(|p| p.as_text().map(str::to_owned))
            .collect();
        let content = match (root.get("/prediction/content").and_then(|c| c.decode().ok()), texts.as_slice()) {
            (Some(list), _) => TextOr::List(list),
            (None, [only]) => TextOr::Text(only.clone()),
            (None, _) => TextOr::List(texts.into_iter().map(text).collect()),
        };
        wire.prediction = Some(wire::Prediction {
            kind: Some("content".into()),
            content: Some(content),
            extra: root.level("/prediction", &["content"]),
        });
    }
    if let Some(modalities) = modalities {
        let written = root.get("/modalities").and_then(|m| m.decode().ok());
        wire.modalities = written.or_else(|| known_modalities(encoder, modalities));
    }
    if let Some(speech) = g.media.as_ref().and_then(|m| m.speech.as_ref()).filter(|_| is_media) {
        let voice = root.get("/audio/voice").cloned().or_else(|| {
            speech
                .value
                .voices
                .first()
                .map(|v| Json::from_value(&Value::String(v.voice.clone())))
        });
        // The type demands a format, and a stream has only this one.
        let usual = if encoder.context.stream { "pcm16" } else { "wav" };
        let format = speech.value.format.clone();
        wire.audio = Some(wire::AudioOutput {
            format: format.or_else(|| (!encoder.same_family).then(|| usual.to_owned())),
            voice,
            extra: root.level("/audio", &["voice"]),
        });
    }
    if let Some(media) = g.media.as_ref().filter(|_| is_media) {
        media_losses(encoder, media, root.get("/audio/voice").is_some());
    }
    if let Some(tier) = g.service_tier.as_ref().filter(|_| is_tier) {
        wire.service_tier = tier_word(encoder, &tier.value);
        if wire.service_tier.is_none() {
            encoder.loss.intent(
                tier.requirement,
                Feature::GenerationServiceTier,
                "/generation/serviceTier",
                "the target does not know this class of service",
            );
        }
    }
    encode_reasoning::write(encoder, root, &mut wire, &mut extra);
    samplers(encoder, root, &mut extra);
    put_if(&mut extra, root, "moderation", |raw| {
        super::decode_dialect::safety(raw).as_ref() == g.safety_settings.as_ref().map(|s| &s.value)
    });
    encode_tools::tools(encoder, root, &form, &mut wire, &mut extra);
    if let Some(parallel) = g.parallel_tools.as_ref().filter(|_| is_parallel) {
        if wire.tools.is_some() || wire.functions.is_some() {
            wire.parallel_tool_calls = Some(parallel.value == ParallelTools::Allow);
        } else {
            encoder
                .loss
                .info(Feature::GenerationParallelTools, "/generation/parallelTools", "there are no tools");
        }
    }
    encode_output::write(encoder, root, &mut wire, &mut extra);
    cache(encoder, root, &form, &mut wire);
    metadata(encoder, &mut wire);
    stream(encoder, root, &form, &mut wire, &mut extra);
    extra
        .0
        .retain(|(key, _)| !(key == "response_format" && wire.response_format.is_some()));
    wire.extra = extra;
    wire
}

/// Puts a root member back when it still holds.
pub(super) fn put_if(extra: &mut Extra, root: &Entries, member: &str, holds: impl Fn(&Json) -> bool) {
    if let Some(raw) = root.get(&format!("/{member}")).filter(|raw| holds(raw)) {
        extra.0.push((member.to_owned(), raw.clone()));
    }
}

fn metadata(encoder: &mut RequestEncoder, wire: &mut wire::Request) {
    let Some(metadata) = &encoder.request.metadata else { return };
    let supports = |feature: Feature| encoder.capabilities.support(feature) == Support::Lossless;
    if supports(Feature::MetadataEndUser) {
        wire.user.clone_from(&metadata.end_user_ref);
    }
    let Some(labels) = metadata.labels.as_ref().filter(|_| supports(Feature::MetadataLabels)) else {
        return;
    };
    let fits = |key: &str, value: &str| key.chars().count() <= 64 && value.chars().count() <= 512;
    let kept: serde_json::Map<String, Value> = labels
        .0
        .iter()
        .filter(|(k, v)| encoder.same_family || fits(k, v))
        .take(if encoder.same_family { usize::MAX } else { 16 })
        .map(|(k, v)| (k.clone(), Value::String(v.clone())))
        .collect();
    if kept.len() < labels.0.len() {
        encoder.loss.warning(
            Feature::MetadataLabels,
            "/metadata/labels",
            "the target takes 16 labels of bounded length",
        );
    }
    wire.metadata = json_of(&kept);
}

fn stream(encoder: &mut RequestEncoder, root: &Entries, form: &Form, wire: &mut wire::Request, extra: &mut Extra) {
    if !encoder.context.stream {
        wire.stream = root.get("/stream").and_then(|s| s.decode().ok()).filter(|on| !on);
        return;
    }
    wire.stream = Some(true);
    if encoder.dialect.tool_stream && wire.tools.is_some() && root.get("/tool_stream").is_none() {
        extra.0.push(("tool_stream".into(), Json::from_value(&Value::Bool(true))));
    }
    let includes = encoder.request.output.as_ref().and_then(|o| o.includes.as_ref());
    let wants_usage =
        includes.is_some_and(|i| i.value.contains(&Include::StreamUsage)) || !encoder.same_family || encoder.context.ask_for_usage;
    let refuses_usage = form.written("/stream_options/include_usage").is_some_and(|v| v.as_str() == "false");
    if !encoder.dialect.stream_options {
        if includes.is_some() {
            encoder.loss.remark(
                Feature::OutputIncludes,
                "/output/includes",
                "the dialect tells usage without being asked",
            );
        }
        return;
    }
    let extra = root.level("/stream_options", &[]);
    if wants_usage || refuses_usage || !extra.is_empty() {
        wire.stream_options = Some(wire::StreamOptions {
            include_usage: (wants_usage || refuses_usage).then_some(wants_usage),
            extra,
        });
    }
}

/// The model's name; a body that named none gets none back, since its path tells it.
fn model(encoder: &mut RequestEncoder, form: &Form) -> Option<String> {
    let requested = &encoder.request.model.requested;
    let target = encoder.context.target_model.clone();
    if target.is_none() && requested == crate::UNSPECIFIED_MODEL {
        encoder.loss.info(
            Feature::RecordBookkeeping,
            "/model/requested",
            "the request names no model; the route tells the target which one it is",
        );
    }
    let is_absent = target.is_none() && form.absent.iter().any(|pointer| pointer == "/model");
    (!is_absent).then(|| target.unwrap_or_else(|| requested.clone()))
}

/// What the wire has no word for: of the media all but speech, and of speech all but one voice and its format.
fn media_losses(encoder: &mut RequestEncoder, media: &MediaIntent, own_voice: bool) {
    let speech = media.speech.as_ref();
    let is_one = speech.is_none_or(|s| s.value.voices.len() < 2 && s.value.voices.iter().all(|v| v.speaker.is_none()));
    let wanted = |there: bool, requirement: Option<UnifiedRequirement>| requirement.filter(|_| there);
    let of_speech = speech.map(|s| s.requirement);
    let speaks = speech.is_some_and(|s| s.value.language.is_some());
    for (path, requirement) in [
        ("inputResolution", media.input_resolution.as_ref().map(|i| i.requirement)),
        ("image", media.image.as_ref().map(|i| i.requirement)),
        ("video", media.video.as_ref().map(|i| i.requirement)),
        ("speech/value/language", wanted(speaks, of_speech)),
        ("speech/value/voices", wanted(!is_one && !own_voice, of_speech)),
    ] {
        if let Some(requirement) = requirement {
            let path = format!("/generation/media/{path}");
            encoder
                .loss
                .intent(requirement, Feature::GenerationMedia, path, "the target has no form for it");
        }
    }
}

/// The target's word for a class of service; `None` when it has none.
fn tier_word(encoder: &RequestEncoder, tier: &ServiceTier) -> Option<String> {
    let word = tier.as_str();
    if let Some(tiers) = encoder.dialect.tiers {
        let theirs = tiers.iter().map(|(_, theirs)| *theirs).find(|theirs| *theirs == word);
        return encoder.dialect.tier(word).or(theirs).map(str::to_owned);
    }
    match tier {
        ServiceTier::Standard => Some("default".into()),
        ServiceTier::Other(word) if !encoder.same_family && !matches!(&**word, "scale" | "fast") => None,
        ServiceTier::Auto | ServiceTier::Flex | ServiceTier::Priority | ServiceTier::Other(_) => Some(word.to_owned()),
    }
}

/// Samplers that only dialects have, and fallback models: as they came, or in the dialect's own members.
fn samplers(encoder: &RequestEncoder, root: &Entries, extra: &mut Extra) {
    let (request, g) = (encoder.request, &encoder.request.generation);
    let supports = |feature: Feature| encoder.capabilities.support(feature) == Support::Lossless;
    for (member, feature, value) in [
        ("top_k", Feature::GenerationTopK, g.top_k.as_ref()),
        ("min_p", Feature::GenerationMinP, g.min_p.as_ref()),
        (
            "repetition_penalty",
            Feature::GenerationRepetitionPenalty,
            g.repetition_penalty.as_ref(),
        ),
        (
            "repeat_penalty",
            Feature::GenerationRepetitionPenalty,
            g.repetition_penalty.as_ref(),
        ),
    ] {
        let Some(value) = value.filter(|_| supports(feature)) else {
            continue;
        };
        let raw = root.get(&format!("/{member}"));
        let is_own_name = feature != Feature::GenerationRepetitionPenalty || member == encoder.dialect.repetition;
        let other = if member == "repeat_penalty" {
            "repetition_penalty"
        } else {
            "repeat_penalty"
        };
        let is_elsewhere = feature == Feature::GenerationRepetitionPenalty && root.get(&format!("/{other}")).is_some();
        match raw {
            Some(raw) if raw.parse().as_f64() == Some(value.value) => extra.0.push((member.to_owned(), raw.clone())),
            None if is_own_name && !is_elsewhere => {
                let number = super::usage::number(value.value);
                extra.0.push((member.to_owned(), Json::from_value(&number)));
            }
            _ => {}
        }
    }
    let Some(fallbacks) = request.model.fallbacks.as_ref().filter(|_| supports(Feature::ModelFallbacks)) else {
        return;
    };
    match root.get("/models") {
        Some(raw) if raw.decode::<Vec<String>>().ok().as_ref() == Some(fallbacks) => extra.0.push(("models".into(), raw.clone())),
        _ => extra.0.push(("models".into(), Json::from_value(&json!(fallbacks)))),
    }
}

fn cache(encoder: &mut RequestEncoder, root: &Entries, form: &Form, wire: &mut wire::Request) {
    let Some(cache) = &encoder.request.cache else { return };
    if encoder.capabilities.support(Feature::CacheAffinityKey) == Support::Lossless {
        wire.prompt_cache_key.clone_from(&cache.affinity_key);
    }
    let mode = match cache.mode {
        CacheMode::Explicit => "explicit",
        CacheMode::Automatic | CacheMode::Disabled => "implicit",
    };
    wire.prompt_cache_options = form.cache_mode.then(|| wire::CacheOptions {
        mode: Some(mode.into()),
        extra: root.level("/prompt_cache_options", &[]),
    });
    if !form.cache_mode && encoder.same_family {
        encoder.loss.remark(
            Feature::CacheMode,
            "/cache/mode",
            "the body named no mode and names none again: the record's is what the target does by itself",
        );
    }
}

fn empty(model: Option<String>, messages: Vec<wire::Message>) -> wire::Request {
    wire::Request {
        model,
        messages,
        max_completion_tokens: None,
        max_tokens: None,
        temperature: None,
        top_p: None,
        n: None,
        stop: None,
        seed: None,
        frequency_penalty: None,
        presence_penalty: None,
        logit_bias: None,
        logprobs: None,
        top_logprobs: None,
        reasoning_effort: None,
        verbosity: None,
        modalities: None,
        audio: None,
        prediction: None,
        response_format: None,
        tools: None,
        tool_choice: None,
        parallel_tool_calls: None,
        functions: None,
        function_call: None,
        web_search_options: None,
        stream: None,
        stream_options: None,
        store: None,
        metadata: None,
        service_tier: None,
        prompt_cache_key: None,
        prompt_cache_options: None,
        user: None,
        extra: Extra::default(),
    }
}

/// The words of the kinds of answer that the dialect gives; others are reported.
fn known_modalities(encoder: &mut RequestEncoder, wanted: &UnifiedIntent<Vec<OutputModality>>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for (n, modality) in wanted.value.iter().enumerate() {
        let word = modality.as_str();
        if encoder.dialect.modalities.contains(&word) {
            words.push(word.to_owned());
        } else {
            let path = format!("/generation/outputModalities/value/{n}");
            let reason = format!("the target gives no answer in {word}");
            encoder
                .loss
                .intent(wanted.requirement, Feature::GenerationOutputModalities, path, reason);
        }
    }
    (!words.is_empty()).then_some(words)
}
