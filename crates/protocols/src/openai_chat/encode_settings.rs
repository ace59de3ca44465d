//! Requests to the wire: everything beside the messages. Tools are in [`super::encode_tools`].

use super::decode_settings::{REASONING_MEMBERS, dialect_reasoning};
use super::encode_parts::{json_of, text};
use super::encode_request::{RequestEncoder, message};
use super::private::{Entries, Form};
use super::{encode_tools, wire};
use crate::capability::Capabilities;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::wire::{Extra, TextOr};
use serde_json::{Value, json};
use throughline_format::cache::CacheMode;
use throughline_format::intent::{
    Include, OutputFormat, ParallelTools, ReasoningEffort, ReasoningIntent, ReasoningMode, ServiceTier, UnifiedRequirement,
};
use throughline_format::{Count, Json, ProtocolFamily, UnifiedRequestV2};

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
];
/// Dialects that know only the older spelling of the token limit.
const OLD_LIMIT: &[&str] = &[
    "deepseek",
    "mistral",
    "qwen",
    "kimi",
    "glm",
    "minimax",
    "vllm",
    "llama-cpp",
    "ollama",
];

/// Says which intents this request can carry beyond the table, because they come back as they came.
pub(super) fn adjust(request: &UnifiedRequestV2, root: &Entries, context: &EncodeContext, capabilities: &mut Capabilities) {
    let mut lossless = |feature: Feature| {
        // The word is one of the list, so this cannot fail.
        let _ = capabilities.set(feature.as_str(), &Value::Bool(true));
    };
    let same_family = request.source.profile.family == ProtocolFamily::OpenAiChat;
    for (member, feature) in [
        ("top_k", Feature::GenerationTopK),
        ("min_p", Feature::GenerationMinP),
        ("repetition_penalty", Feature::GenerationRepetitionPenalty),
        ("models", Feature::ModelFallbacks),
    ] {
        if root.get(&format!("/{member}")).is_some() {
            lossless(feature);
        }
    }
    if same_family {
        lossless(Feature::CacheMode);
        lossless(Feature::GenerationLogitBias);
        let prefill = request
            .generation
            .prefill
            .as_ref()
            .and_then(|p| request.conversation.items.iter().find(|i| i.id == p.value.item_id));
        if prefill.is_some_and(|item| Entries::of(context.private.as_ref(), item.provider_data.as_ref()).covers("/prefix")) {
            lossless(Feature::GenerationPrefill);
        }
    }
    if reasoning_members(request, root).is_some() {
        for feature in [
            Feature::GenerationReasoningMode,
            Feature::GenerationReasoningEffort,
            Feature::GenerationReasoningBudget,
            Feature::GenerationReasoningSummary,
        ] {
            lossless(feature);
        }
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
    let comes_back = |id| {
        let item = request.conversation.items.iter().find(|i| i.id == id);
        item.is_some_and(|i| payload_exists(context, i))
    };
    if marks.is_some_and(|marks| marks.iter().all(|m| comes_back(m.item_id.clone()))) {
        lossless(Feature::CacheBreakpoints);
    }
}

fn payload_exists(context: &EncodeContext, item: &throughline_format::UnifiedItem) -> bool {
    item.provider_data
        .iter()
        .flatten()
        .any(|r| r.schema == super::private::UNMAPPED && context.private.payload(&r.resource_id).is_some())
        || item.provider_data.is_none()
            && item
                .provenance
                .profile
                .as_ref()
                .is_some_and(|p| p.family == ProtocolFamily::OpenAiChat)
}

/// The reasoning members of a dialect, when they still say what the record says; with OpenAI's own member beside them.
#[allow(clippy::type_complexity)] // used here only
fn reasoning_members(request: &UnifiedRequestV2, root: &Entries) -> Option<(Vec<(String, Json)>, Option<String>)> {
    let members: Vec<(String, Json)> = REASONING_MEMBERS
        .iter()
        .filter_map(|m| root.get(&format!("/{m}")).map(|v| ((*m).to_owned(), v.clone())))
        .collect();
    if members.is_empty() {
        return None;
    }
    let wanted = request.generation.reasoning.clone().unwrap_or_default();
    if dialect_reasoning(&members, None) == wanted {
        return Some((members, None));
    }
    let effort = wanted.effort.as_ref().map(|e| e.value.as_str().to_owned());
    (dialect_reasoning(&members, effort.as_deref()) == wanted).then_some((members, effort))
}

/// The whole body.
pub(super) fn body(encoder: &mut RequestEncoder, root: &Entries, messages: Vec<wire::Message>) -> wire::Request {
    let (request, context) = (encoder.request, encoder.context);
    let form = Form::of_root(context.private.as_ref());
    let g = &request.generation;
    let mut extra = root.level("", GUARDED);
    let mut wire = empty(
        context.target_model.clone().unwrap_or_else(|| request.model.requested.clone()),
        messages,
    );
    let plain = |feature: Feature| matches!(encoder.capabilities.support(feature), crate::Support::Lossless);
    if let Some(limit) = g
        .max_output_tokens
        .as_ref()
        .filter(|_| plain(Feature::GenerationMaxOutputTokens))
        .map(|l| l.value)
    {
        let is_old = root.get("/max_tokens").is_some_and(|v| v.as_str() == limit.to_string())
            || context.dialect.as_deref().is_some_and(|d| OLD_LIMIT.contains(&d));
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
    wire.seed = g
        .seed
        .as_ref()
        .filter(|_| plain(Feature::GenerationSeed))
        .and_then(|s| s.value.to_i64());
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
    if let Some(logprobs) = g.logprobs.as_ref().filter(|_| plain(Feature::GenerationLogprobs)) {
        wire.logprobs = Some(logprobs.value.enabled);
        wire.top_logprobs = logprobs.value.top.map(|t| t.min(20));
    }
    let prediction = g.prediction.as_ref().filter(|_| plain(Feature::GenerationPrediction));
    let modalities = g.output_modalities.as_ref().filter(|_| plain(Feature::GenerationOutputModalities));
    let (is_tier, is_media) = (plain(Feature::GenerationServiceTier), plain(Feature::GenerationMedia));
    let stops = g.stop_sequences.as_ref().filter(|_| plain(Feature::GenerationStopSequences));
    let store = request
        .state
        .as_ref()
        .and_then(|s| s.persist.as_ref())
        .filter(|_| plain(Feature::StatePersist));
    wire.store = store.map(|s| s.value);
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
        wire.modalities = match root.get("/modalities").and_then(|m| m.decode().ok()) {
            Some(raw) => Some(raw),
            None => Some(modalities.value.iter().map(|m| m.as_str().to_owned()).collect()),
        };
    }
    if let Some(speech) = g.media.as_ref().and_then(|m| m.speech.as_ref()).filter(|_| is_media) {
        let voice = root.get("/audio/voice").cloned().or_else(|| {
            speech
                .value
                .voices
                .first()
                .map(|v| Json::from_value(&Value::String(v.voice.clone())))
        });
        wire.audio = Some(wire::AudioOutput {
            format: speech.value.format.clone(),
            voice,
            extra: root.level("/audio", &["voice"]),
        });
    }
    if let Some(media) = &g.media {
        let lost = [
            ("inputResolution", media.input_resolution.is_some()),
            ("image", media.image.is_some()),
            ("video", media.video.is_some()),
        ];
        for (member, _) in lost.iter().filter(|(_, is_lost)| *is_lost) {
            encoder.loss.warning(
                Feature::GenerationMedia,
                format!("/generation/media/{member}"),
                "the target has no form for it",
            );
        }
    }
    if let Some(tier) = g.service_tier.as_ref().filter(|_| is_tier) {
        wire.service_tier = match &tier.value {
            ServiceTier::Standard => Some("default".into()),
            ServiceTier::Other(word) if !encoder.same_family && !matches!(&**word, "scale" | "fast") => None,
            word => Some(word.as_str().to_owned()),
        };
        if wire.service_tier.is_none() {
            encoder.loss.intent(
                tier.requirement,
                Feature::GenerationServiceTier,
                "/generation/serviceTier",
                "the target does not know this class of service",
            );
        }
    }
    reasoning(encoder, root, &mut wire, &mut extra);
    for (member, value) in [
        ("top_k", g.top_k.as_ref()),
        ("min_p", g.min_p.as_ref()),
        ("repetition_penalty", g.repetition_penalty.as_ref()),
    ] {
        put_if(&mut extra, root, member, |raw| {
            value.is_some_and(|v| raw.parse().as_f64() == Some(v.value))
        });
    }
    put_if(&mut extra, root, "models", |raw| {
        raw.decode::<Vec<String>>().ok() == request.model.fallbacks
    });
    encode_tools::tools(encoder, root, &form, &mut wire, &mut extra);
    if let Some(parallel) = &g.parallel_tools {
        if wire.tools.is_some() || wire.functions.is_some() {
            wire.parallel_tool_calls = Some(parallel.value == ParallelTools::Allow);
        } else {
            encoder
                .loss
                .info(Feature::GenerationParallelTools, "/generation/parallelTools", "there are no tools");
        }
    }
    output(encoder, root, &mut wire);
    if let Some(cache) = &request.cache {
        wire.prompt_cache_key.clone_from(&cache.affinity_key);
        let mode = match cache.mode {
            CacheMode::Explicit => "explicit",
            _ => "implicit",
        };
        wire.prompt_cache_options = form.cache_mode.then(|| wire::CacheOptions {
            mode: Some(mode.into()),
            extra: root.level("/prompt_cache_options", &[]),
        });
    }
    metadata(encoder, &mut wire);
    stream(encoder, root, &form, &mut wire);
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

fn reasoning(encoder: &mut RequestEncoder, root: &Entries, wire: &mut wire::Request, extra: &mut Extra) {
    let request = encoder.request;
    if let Some((members, effort)) = reasoning_members(request, root) {
        extra.0.extend(members);
        wire.reasoning_effort = effort;
        return;
    }
    let Some(wanted) = &request.generation.reasoning else { return };
    let ReasoningIntent {
        mode,
        effort,
        budget_tokens,
        ..
    } = wanted;
    let is_off = mode.as_ref().is_some_and(|m| m.value == ReasoningMode::Off);
    if let Some(effort) = effort {
        wire.reasoning_effort = Some(effort.value.as_str().to_owned());
    } else if let Some(budget) = budget_tokens {
        wire.reasoning_effort = Some(effort_of_budget(budget.value).as_str().to_owned());
    } else if mode.as_ref().is_some_and(|m| m.value == ReasoningMode::On) {
        wire.reasoning_effort = Some(ReasoningEffort::Medium.as_str().to_owned());
    }
    if !is_off {
        return;
    }
    // Without thinking: models that do not reason refuse an effort, so it is said only where the dialect has a switch.
    wire.reasoning_effort = effort.as_ref().map(|e| e.value.as_str().to_owned());
    let switch = match encoder.context.dialect.as_deref() {
        Some("deepseek" | "glm" | "kimi" | "minimax") => Some(("thinking", json!({"type": "disabled"}))),
        Some("qwen") => Some(("enable_thinking", json!(false))),
        Some("openrouter") => Some(("reasoning", json!({"enabled": false}))),
        _ => None,
    };
    match switch {
        Some((member, value)) => extra.0.push((member.to_owned(), Json::from_value(&value))),
        None if effort.is_none() => {
            let requirement = mode.as_ref().map_or(UnifiedRequirement::Optional, |m| m.requirement);
            encoder.loss.intent(
                requirement,
                Feature::GenerationReasoningMode,
                "/generation/reasoning/mode",
                "the target has no switch that all of its models take; the model's default applies",
            );
        }
        None => {}
    }
}

/// The effort that a budget stands for.
fn effort_of_budget(tokens: Count) -> ReasoningEffort {
    match tokens {
        0..=1_024 => ReasoningEffort::Minimal,
        1_025..=4_096 => ReasoningEffort::Low,
        4_097..=16_384 => ReasoningEffort::Medium,
        _ => ReasoningEffort::High,
    }
}

fn output(encoder: &mut RequestEncoder, root: &Entries, wire: &mut wire::Request) {
    let Some(output) = &encoder.request.output else { return };
    if matches!(encoder.capabilities.support(Feature::OutputVerbosity), crate::Support::Lossless) {
        wire.verbosity = output.verbosity.as_ref().map(|v| v.value.as_str().to_owned());
    }
    let Some(format) = &output.format else { return };
    let extra = root.level("/response_format", &["json_schema"]);
    let supports = |feature| matches!(encoder.capabilities.support(feature), crate::Support::Lossless);
    let (kind, schema) = match &format.value {
        OutputFormat::Text(_) => ("text", None),
        OutputFormat::JsonObject(_) if supports(Feature::OutputJsonObject) => ("json_object", None),
        OutputFormat::JsonSchema(s) if supports(Feature::OutputSchema) => {
            let name = s
                .name
                .as_deref()
                .map_or_else(|| "response".to_owned(), |n| crate::tool_name::wire(None, n, 64).into_owned());
            let mut strict = s.strict;
            if !encoder.same_family {
                // Whoever asks for a schema without a word on strictness means it.
                strict = Some(strict.unwrap_or(true));
                if strict == Some(true)
                    && let Err(why) = encode_tools::fits_strict(&s.schema.parse())
                {
                    strict = Some(false);
                    encoder.loss.intent(
                        format.requirement,
                        Feature::OutputSchema,
                        "/output/format/strict",
                        format!("the target's strict mode refuses the schema: {why}"),
                    );
                }
            }
            let extra = root.level("/response_format/json_schema", &[]);
            (
                "json_schema",
                Some(wire::SchemaFormat {
                    name: Some(name),
                    description: s.description.clone(),
                    schema: Some(s.schema.clone()),
                    strict,
                    extra,
                }),
            )
        }
        _ => return,
    };
    if kind == "json_object" && !encoder.same_family && !mentions_json(&wire.messages) {
        let mut note = message("system");
        note.content = Some(TextOr::Text("Answer with a JSON object.".into()));
        let at = wire
            .messages
            .iter()
            .take_while(|m| matches!(m.role.as_deref(), Some("system" | "developer")))
            .count();
        wire.messages.insert(at, note);
        encoder.loss.info(
            Feature::OutputJsonObject,
            "/output/format",
            "the target demands the word JSON in a message; a system message with it was added",
        );
    }
    wire.response_format = Some(wire::ResponseFormat {
        kind: Some(kind.into()),
        json_schema: schema,
        extra,
    });
}

fn mentions_json(messages: &[wire::Message]) -> bool {
    let has = |text: &str| text.to_ascii_lowercase().contains("json");
    messages.iter().any(|m| match &m.content {
        Some(TextOr::Text(text)) => has(text),
        Some(TextOr::List(parts)) => parts.iter().any(|p| matches!(p, wire::Part::Text(t) if has(&t.text))),
        None => false,
    })
}

fn metadata(encoder: &mut RequestEncoder, wire: &mut wire::Request) {
    let Some(metadata) = &encoder.request.metadata else { return };
    wire.user.clone_from(&metadata.end_user_ref);
    let Some(labels) = &metadata.labels else { return };
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

fn stream(encoder: &RequestEncoder, root: &Entries, form: &Form, wire: &mut wire::Request) {
    if !encoder.context.stream {
        wire.stream = root.get("/stream").and_then(|s| s.decode().ok()).filter(|on| !on);
        return;
    }
    wire.stream = Some(true);
    let includes = encoder.request.output.as_ref().and_then(|o| o.includes.as_ref());
    let wants_usage =
        includes.is_some_and(|i| i.value.contains(&Include::StreamUsage)) || !encoder.same_family || encoder.context.ask_for_usage;
    let refuses_usage = form.written("/stream_options/include_usage").is_some_and(|v| v.as_str() == "false");
    let extra = root.level("/stream_options", &[]);
    if wants_usage || refuses_usage || !extra.is_empty() {
        wire.stream_options = Some(wire::StreamOptions {
            include_usage: (wants_usage || refuses_usage).then_some(wants_usage),
            extra,
        });
    }
}

fn empty(model: String, messages: Vec<wire::Message>) -> wire::Request {
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
