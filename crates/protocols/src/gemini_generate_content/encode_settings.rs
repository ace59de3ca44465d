//! How to generate, for the wire.

use super::Dialect;
use super::encode_part::PartEncoder;
use super::models::{Generation, budgets, levels};
use super::schema::{self, Subset};
use crate::feature::Feature;
use crate::google::media::resolution_word;
use crate::raw::{json, number, object};
use throughline_format::intent::{
    GrammarSyntax, OutputFormat, OutputModality, ReasoningEffort, ReasoningIntent, ReasoningMode, ReasoningSummary, SafetySetting, Seed,
    ServiceTier, SpeechIntent,
};
use throughline_format::{Json, UnifiedIntent, UnifiedRequestV2, UnifiedRequirement};

/// Members of an object on their way.
type Members = Vec<(String, Json)>;

/// Writes `generationConfig`; none when it would be empty.
pub(super) fn generation(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> Option<Json> {
    let g = &request.generation;
    let mut members: Members = Vec::new();
    let mut add = |key: &str, value: Option<Json>| members.extend(value.map(|v| (key.to_owned(), v)));
    add("candidateCount", g.candidate_count.as_ref().map(|i| json(&i.value)));
    add("maxOutputTokens", g.max_output_tokens.as_ref().map(|i| json(&i.value)));
    add("temperature", temperature(encoder, g.temperature.as_ref()));
    add("topP", g.top_p.as_ref().map(|i| number(i.value)));
    add("topK", top_k(encoder, g.top_k.as_ref()));
    add("stopSequences", stops(encoder, g.stop_sequences.as_ref()));
    add("seed", seed(encoder, g.seed.as_ref(), native));
    add("presencePenalty", g.presence_penalty.as_ref().map(|i| number(i.value)));
    add("frequencyPenalty", g.frequency_penalty.as_ref().map(|i| number(i.value)));
    if let Some(logprobs) = &g.logprobs {
        encoder.loss.remark(
            Feature::WireSpelling,
            "/generation/logprobs/value/enabled",
            "said by the switch of the wire",
        );
        add("responseLogprobs", Some(json(&logprobs.value.enabled)));
        let top = logprobs.value.top;
        if top.is_some_and(|top| top > 20) {
            encoder.loss.intent(
                logprobs.requirement,
                Feature::GenerationLogprobs,
                "/generation/logprobs/value/top",
                "the target gives 20 alternatives at most",
            );
        }
        add("logprobs", top.map(|top| json(&top.min(20))));
    }
    members.extend(format(encoder, request, native));
    if let Some(intent) = &g.output_modalities {
        let words: Vec<_> = intent.value.iter().map(|m| modality(*m)).collect();
        members.push(("responseModalities".into(), json(&words)));
    }
    if let Some(media) = &g.media {
        members.extend(self::media(encoder, media, native));
    }
    if let Some(intent) = &g.reasoning {
        members.extend(thinking(encoder, intent, native).map(|t| ("thinkingConfig".to_owned(), t)));
    }
    (!members.is_empty()).then(|| object(members))
}

fn temperature(encoder: &mut PartEncoder<'_>, intent: Option<&UnifiedIntent<f64>>) -> Option<Json> {
    let intent = intent?;
    let value = intent.value.clamp(0.0, encoder.context.capabilities.knobs().max_temperature);
    if (value - intent.value).abs() > f64::EPSILON {
        encoder.loss.intent(
            intent.requirement,
            Feature::GenerationTemperature,
            "/generation/temperature",
            "moved into the target's range",
        );
    }
    Some(number(value))
}

fn stops(encoder: &mut PartEncoder<'_>, intent: Option<&UnifiedIntent<Vec<String>>>) -> Option<Json> {
    let intent = intent?;
    let limit = encoder.context.capabilities.knobs().max_stop_sequences;
    let mut kept = Vec::new();
    for (n, stop) in intent.value.iter().enumerate() {
        if stop.is_empty() || kept.len() >= limit {
            encoder.loss.intent(
                intent.requirement,
                Feature::GenerationStopSequences,
                format!("/generation/stopSequences/value/{n}"),
                "more stop sequences than the target takes, or an empty one",
            );
        } else {
            kept.push(stop);
        }
    }
    (!kept.is_empty() || intent.value.is_empty()).then(|| json(&kept))
}

fn seed(encoder: &mut PartEncoder<'_>, intent: Option<&UnifiedIntent<Seed>>, native: bool) -> Option<Json> {
    let intent = intent?;
    match intent.value.to_i64() {
        Some(seed) if native || i32::try_from(seed).is_ok() => Some(json(&seed)),
        _ => {
            encoder.loss.intent(
                intent.requirement,
                Feature::GenerationSeed,
                "/generation/seed",
                "the target's seeds have 32 bits",
            );
            None
        }
    }
}

fn modality(modality: OutputModality) -> &'static str {
    match modality {
        OutputModality::Text => "TEXT",
        OutputModality::Image => "IMAGE",
        OutputModality::Audio => "AUDIO",
        OutputModality::Video => "VIDEO",
    }
}

/// Media type and schema of the answer.
fn format(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> Members {
    let Some(intent) = request.output.as_ref().and_then(|o| o.format.as_ref()) else {
        return Vec::new();
    };
    let reduced = encoder.reduced;
    let mime = |word: &str| (!reduced).then(|| ("responseMimeType".to_owned(), json(word)));
    let lost = |encoder: &mut PartEncoder<'_>, feature, path: &str, reason: &str| {
        encoder.loss.intent(intent.requirement, feature, path, reason);
    };
    if encoder.generation() == Generation::Foreign && !native {
        if !matches!(intent.value, OutputFormat::Text(_)) {
            lost(encoder, Feature::OutputSchema, "/output/format", "not with this model");
        }
        return Vec::new();
    }
    match &intent.value {
        OutputFormat::Text(_) => Vec::new(),
        OutputFormat::JsonObject(_) => mime("application/json").into_iter().collect(),
        OutputFormat::JsonSchema(wanted) => {
            if wanted.name.is_some() || wanted.description.is_some() {
                encoder
                    .loss
                    .info(Feature::OutputSchemaName, "/output/format/value", "the target names no schemas");
            }
            if wanted.strict.is_some() {
                encoder.loss.info(
                    Feature::OutputSchema,
                    "/output/format/value/strict",
                    "the target always holds to the schema",
                );
            }
            if native {
                let at = "/output/format/value/schema";
                encoder.loss.remark(Feature::WireSpelling, at, "written as the client wrote it");
            }
            let (key, schema) = self::schema(
                encoder,
                &wanted.schema,
                native,
                intent.requirement,
                Feature::OutputSchema,
                "/output/format/value/schema",
            );
            let key = if key { "responseJsonSchema" } else { "responseSchema" };
            mime("application/json").into_iter().chain([(key.to_owned(), schema)]).collect()
        }
        OutputFormat::Grammar(grammar) if grammar.syntax == GrammarSyntax::Enum => {
            if let Some(schema) = Json::from_text(grammar.definition.clone()).ok().filter(Json::is_object) {
                mime("text/x.enum")
                    .into_iter()
                    .chain([("responseJsonSchema".to_owned(), schema)])
                    .collect()
            } else {
                lost(
                    encoder,
                    Feature::OutputGrammar,
                    "/output/format",
                    "the target takes lists of values only",
                );
                Vec::new()
            }
        }
        OutputFormat::Grammar(_) => {
            lost(encoder, Feature::OutputGrammar, "/output/format", "the target takes no grammars");
            Vec::new()
        }
        OutputFormat::Media(_) if !native => {
            lost(encoder, Feature::OutputMedia, "/output/format", "the target has no such media type");
            Vec::new()
        }
        OutputFormat::Media(media) => mime(&media.media_type).into_iter().collect(),
    }
}

/// A schema as the dialect takes it; the first value tells whether it is JSON Schema. What it cost is reported.
pub(super) fn schema(
    encoder: &mut PartEncoder<'_>,
    schema: &Json,
    native: bool,
    requirement: UnifiedRequirement,
    feature: Feature,
    path: &str,
) -> (bool, Json) {
    if native {
        return (true, schema.clone());
    }
    // A route that names formats or types of values speaks of the older member, which has rules about them.
    let capabilities = &encoder.context.capabilities;
    let older = !encoder.reduced && (capabilities.list("string_formats").is_some() || capabilities.list("enum_types").is_some());
    let (made, changes) = match encoder.dialect {
        Dialect::Antigravity => schema::to_proto(schema, Subset::Antigravity, &mut encoder.schema_nodes),
        Dialect::Gemini if older => schema::to_proto(schema, Subset::Gemini, &mut encoder.schema_nodes),
        Dialect::Vertex if older => schema::to_proto(schema, Subset::Vertex, &mut encoder.schema_nodes),
        Dialect::Gemini | Dialect::Vertex => schema::to_json_schema(schema, &mut encoder.schema_nodes),
    };
    for change in changes {
        let at = format!("{path}{}", change.path);
        if change.weakens {
            encoder.loss.intent(requirement, feature, at, change.reason);
        } else {
            encoder.loss.info(feature, at, change.reason);
        }
    }
    (encoder.dialect != Dialect::Antigravity && !older, made)
}

fn media(encoder: &mut PartEncoder<'_>, media: &throughline_format::intent::MediaIntent, native: bool) -> Members {
    let mut members = Vec::new();
    if let Some(resolution) = &media.input_resolution {
        let word = format!("MEDIA_RESOLUTION_{}", resolution_word(resolution.value));
        members.push(("mediaResolution".to_owned(), json(&word)));
    }
    if let Some(speech) = &media.speech {
        if speech.value.format.is_some() {
            encoder.loss.intent(
                speech.requirement,
                Feature::GenerationMedia,
                "/generation/media/speech/value/format",
                "the target chooses the format",
            );
        }
        members.push(("speechConfig".into(), self::speech(&speech.value)));
    }
    if let Some(intent) = &media.image {
        let image = &intent.value;
        let mut inner = Vec::new();
        inner.extend(image.aspect_ratio.as_ref().map(|v| ("aspectRatio".to_owned(), json(v))));
        let size = image
            .size
            .as_ref()
            .filter(|size| native || matches!(size.as_str(), "1K" | "2K" | "4K"));
        inner.extend(size.map(|v| ("imageSize".to_owned(), json(v))));
        let lost = (image.size.is_some() && size.is_none())
            || [&image.quality, &image.format, &image.background].iter().any(|m| m.is_some())
            || image.count.is_some();
        if lost {
            encoder.loss.intent(
                intent.requirement,
                Feature::GenerationMedia,
                "/generation/media/image/value",
                "the target takes an aspect ratio and a size of 1K, 2K or 4K",
            );
        }
        if !inner.is_empty() {
            members.push(("imageConfig".into(), object(inner)));
        }
    }
    if let Some(video) = &media.video {
        encoder.loss.intent(
            video.requirement,
            Feature::GenerationMedia,
            "/generation/media/video",
            "the target has no form for it",
        );
    }
    members
}

fn speech(speech: &SpeechIntent) -> Json {
    let voice = |name: &str| {
        let built = object(vec![("voiceName".into(), json(name))]);
        object(vec![("prebuiltVoiceConfig".into(), built)])
    };
    let mut members = Vec::new();
    if speech.voices.iter().any(|v| v.speaker.is_some()) || speech.voices.len() > 1 {
        let list: Vec<Json> = speech
            .voices
            .iter()
            .map(|v| {
                let mut one = Vec::new();
                one.extend(v.speaker.as_ref().map(|s| ("speaker".to_owned(), json(s))));
                one.push(("voiceConfig".into(), voice(&v.voice)));
                object(one)
            })
            .collect();
        let several = object(vec![("speakerVoiceConfigs".into(), json(&list))]);
        members.push(("multiSpeakerVoiceConfig".to_owned(), several));
    } else if let Some(only) = speech.voices.first() {
        members.push(("voiceConfig".into(), voice(&only.voice)));
    }
    members.extend(speech.language.as_ref().map(|l| ("languageCode".to_owned(), json(l))));
    object(members)
}

/// Thinking: levels from the third generation on, budgets before; never both for a client of another wire.
fn thinking(encoder: &mut PartEncoder<'_>, intent: &ReasoningIntent, native: bool) -> Option<Json> {
    let mut members: Members = Vec::new();
    if let Some(summary) = &intent.summary {
        let include = summary.value != ReasoningSummary::None;
        if !matches!(summary.value, ReasoningSummary::None | ReasoningSummary::Auto) {
            encoder.loss.otherwise(
                summary.requirement,
                Feature::GenerationReasoningSummary,
                "/generation/reasoning/summary",
                "the target has one form of summary",
            );
        }
        encoder.loss.remark(
            Feature::WireSpelling,
            "/generation/reasoning/summary",
            "said by the flag for thoughts",
        );
        members.push(("includeThoughts".to_owned(), json(&include)));
    }
    let off = matches!(intent.mode.as_ref().map(|m| &m.value), Some(ReasoningMode::Off))
        || matches!(intent.effort.as_ref().map(|e| &e.value), Some(ReasoningEffort::None));
    if native {
        if intent.mode.is_some() {
            let reason = "said by the budget";
            encoder.loss.remark(Feature::WireSpelling, "/generation/reasoning/mode", reason);
        }
        let mode = intent.mode.as_ref().map(|m| &m.value);
        let budget = match (mode, &intent.budget_tokens) {
            (_, Some(budget)) => Some(json(&budget.value)),
            (Some(ReasoningMode::Off), None) => Some(json(&0)),
            (Some(ReasoningMode::Auto), None) => Some(json(&-1)),
            _ => None,
        };
        members.extend(budget.map(|b| ("thinkingBudget".to_owned(), b)));
        let level = intent.effort.as_ref().map(|e| e.value.as_str().to_ascii_uppercase());
        members.extend(level.map(|l| ("thinkingLevel".to_owned(), json(&l))));
        return (!members.is_empty()).then(|| object(members));
    }
    let by_level = match encoder.generation() {
        Generation::Third => true,
        Generation::Second | Generation::Foreign => false,
        Generation::Unknown => intent.budget_tokens.is_none() && !off,
    };
    if let Some(mode) = intent.mode.as_ref().filter(|m| matches!(m.value, ReasoningMode::Other(_))) {
        encoder.loss.intent(
            mode.requirement,
            Feature::GenerationReasoningMode,
            "/generation/reasoning/mode",
            "the target has no such mode",
        );
    }
    if by_level {
        members.extend(level(encoder, intent, off).map(|l| ("thinkingLevel".to_owned(), json(l))));
    } else {
        members.extend(budget(encoder, intent, off).map(|b| ("thinkingBudget".to_owned(), b)));
    }
    (!members.is_empty()).then(|| object(members))
}

/// How strongly it is wished that the model does not think: as strongly as the stronger of the two words for it.
fn strength_of_off(intent: &ReasoningIntent) -> UnifiedRequirement {
    let mode = intent
        .mode
        .as_ref()
        .filter(|m| m.value == ReasoningMode::Off)
        .map(|m| m.requirement);
    let effort = intent
        .effort
        .as_ref()
        .filter(|e| e.value == ReasoningEffort::None)
        .map(|e| e.requirement);
    mode.into_iter().chain(effort).min().unwrap_or(UnifiedRequirement::Preferred)
}

/// Top-k, of which the wire takes whole numbers only.
fn top_k(encoder: &mut PartEncoder<'_>, intent: Option<&UnifiedIntent<f64>>) -> Option<Json> {
    let intent = intent?;
    let whole = intent.value.trunc();
    if whole.to_bits() != intent.value.to_bits() {
        let reason = "the target takes whole numbers; the fraction is cut";
        encoder
            .loss
            .intent(intent.requirement, Feature::GenerationTopK, "/generation/topK", reason);
    }
    Some(number(whole))
}

/// The level for an effort, inside the model's list.
fn level(encoder: &mut PartEncoder<'_>, intent: &ReasoningIntent, off: bool) -> Option<&'static str> {
    let known = levels(&encoder.model);
    if let Some(budget) = &intent.budget_tokens {
        encoder.loss.intent(
            budget.requirement,
            Feature::GenerationReasoningBudget,
            "/generation/reasoning/budgetTokens",
            "the target's model takes levels and no budget",
        );
    }
    let least = known.first().copied();
    if off {
        encoder.loss.intent(
            strength_of_off(intent),
            Feature::GenerationReasoningMode,
            "/generation/reasoning",
            "the target's model cannot be kept from thinking; the least level is sent",
        );
        return least;
    }
    if intent.effort.is_some() && intent.mode.is_some() {
        let reason = "said by the level";
        encoder.loss.remark(Feature::WireSpelling, "/generation/reasoning/mode", reason);
    }
    let Some(effort) = &intent.effort else {
        if intent.mode.is_some() {
            encoder.loss.info(
                Feature::GenerationReasoningMode,
                "/generation/reasoning/mode",
                "what the target's model does by itself",
            );
        }
        return None;
    };
    let wanted = match &effort.value {
        ReasoningEffort::None | ReasoningEffort::Minimal => "MINIMAL",
        ReasoningEffort::Low => "LOW",
        ReasoningEffort::Medium => "MEDIUM",
        ReasoningEffort::High => "HIGH",
        ReasoningEffort::XHigh | ReasoningEffort::Max => "XHIGH",
        ReasoningEffort::Other(_) => "",
    };
    if known.contains(&wanted) {
        return known.iter().find(|l| **l == wanted).copied();
    }
    let chosen = match wanted {
        "" => None,
        "XHIGH" | "MEDIUM" => Some("HIGH"),
        _ => least,
    };
    let reason = chosen.map_or_else(
        || "the target has no such effort".to_owned(),
        |l| format!("{l} is the nearest level of the target's model"),
    );
    encoder.loss.intent(
        effort.requirement,
        Feature::GenerationReasoningEffort,
        "/generation/reasoning/effort",
        reason,
    );
    chosen
}

/// The budget for a budget, or for an effort.
fn budget(encoder: &mut PartEncoder<'_>, intent: &ReasoningIntent, off: bool) -> Option<Json> {
    let (least, most, may_be_off) = budgets(&encoder.model);
    if off {
        if may_be_off {
            encoder
                .loss
                .remark(Feature::WireSpelling, "/generation/reasoning", "said by a budget of nothing");
            return Some(json(&0));
        }
        encoder.loss.intent(
            strength_of_off(intent),
            Feature::GenerationReasoningMode,
            "/generation/reasoning",
            "the target's model cannot be kept from thinking; the least budget is sent",
        );
        return Some(json(&least));
    }
    if let Some(budget) = &intent.budget_tokens {
        let value = if encoder.generation() == Generation::Second {
            budget.value.clamp(least, most)
        } else {
            budget.value
        };
        if value != budget.value {
            encoder.loss.intent(
                budget.requirement,
                Feature::GenerationReasoningBudget,
                "/generation/reasoning/budgetTokens",
                "moved into the range of the target's model",
            );
        }
        if intent.mode.is_some() {
            let reason = "said by the budget";
            encoder.loss.remark(Feature::WireSpelling, "/generation/reasoning/mode", reason);
        }
        if let Some(effort) = &intent.effort {
            encoder.loss.intent(
                effort.requirement,
                Feature::GenerationReasoningEffort,
                "/generation/reasoning/effort",
                "the budget says it",
            );
        }
        return Some(json(&value));
    }
    if let Some(effort) = &intent.effort {
        if intent.mode.is_some() {
            let reason = "said by the budget";
            encoder.loss.remark(Feature::WireSpelling, "/generation/reasoning/mode", reason);
        }
        encoder.loss.otherwise(
            effort.requirement,
            Feature::GenerationReasoningEffort,
            "/generation/reasoning/effort",
            "said as a budget",
        );
        let tokens = match &effort.value {
            ReasoningEffort::None => 0,
            ReasoningEffort::Minimal => 512,
            ReasoningEffort::Low => 1_024,
            ReasoningEffort::Medium => 8_192,
            ReasoningEffort::High | ReasoningEffort::XHigh | ReasoningEffort::Max => 24_576,
            ReasoningEffort::Other(_) => return None,
        };
        return Some(json(&tokens.clamp(least, most)));
    }
    match intent.mode.as_ref().map(|m| &m.value) {
        Some(ReasoningMode::On | ReasoningMode::Auto) => {
            let reason = "said by a budget that the model chooses";
            encoder.loss.remark(Feature::WireSpelling, "/generation/reasoning/mode", reason);
            Some(json(&-1))
        }
        _ => None,
    }
}

/// Writes `safetySettings`.
pub(super) fn safety(encoder: &mut PartEncoder<'_>, intent: Option<&UnifiedIntent<Vec<SafetySetting>>>, native: bool) -> Option<Json> {
    let intent = intent?;
    let mut list = Vec::new();
    for (n, setting) in intent.value.iter().enumerate() {
        if !native && !setting.category.starts_with("HARM_CATEGORY_") {
            encoder.loss.intent(
                intent.requirement,
                Feature::GenerationSafetySettings,
                format!("/generation/safetySettings/value/{n}"),
                "the target has no such category",
            );
            continue;
        }
        let mut members = vec![
            ("category".to_owned(), json(&setting.category)),
            ("threshold".to_owned(), json(&setting.threshold)),
        ];
        match &setting.method {
            Some(method) if native || encoder.dialect == Dialect::Vertex => members.push(("method".into(), json(method))),
            Some(_) => encoder.loss.intent(
                intent.requirement,
                Feature::GenerationSafetySettings,
                format!("/generation/safetySettings/value/{n}/method"),
                "the target has no methods",
            ),
            None => {}
        }
        list.push(object(members));
    }
    (!list.is_empty()).then(|| json(&list))
}

/// The word of a class of service.
pub(super) fn tier(encoder: &mut PartEncoder<'_>, intent: Option<&UnifiedIntent<ServiceTier>>, native: bool) -> Option<Json> {
    let intent = intent?;
    match &intent.value {
        ServiceTier::Standard | ServiceTier::Flex | ServiceTier::Priority => Some(json(intent.value.as_str())),
        ServiceTier::Other(word) if native => Some(json(word.strip_prefix("gemini-generate-content:").unwrap_or(word))),
        ServiceTier::Auto | ServiceTier::Other(_) => {
            encoder.loss.intent(
                intent.requirement,
                Feature::GenerationServiceTier,
                "/generation/serviceTier",
                "the target has no such class",
            );
            None
        }
    }
}
