//! How to generate: the members of `generationConfig`, safety settings and class of service.

use super::schema;
use super::wire::{GenerationConfig, SafetySetting as WireSafety, SpeechConfig, ThinkingConfig, VoiceConfig};
use crate::feature::Feature;
use crate::google::media;
use crate::keeper::Keeper;
use crate::raw::{below, json};
use throughline_format::intent::{
    GrammarFormat, GrammarSyntax, ImageIntent, Include, JsonSchemaFormat, LogprobsIntent, MediaFormat, Nothing, OutputFormat,
    OutputModality, ReasoningEffort, ReasoningIntent, ReasoningMode, ReasoningSummary, SafetySetting, Seed, ServiceTier, SpeechIntent,
    SpeechVoice,
};
use throughline_format::{Json, UnifiedGenerationIntent, UnifiedIntent, UnifiedOutputIntent};

/// What a request asks for.
#[derive(Default)]
pub(super) struct Settings {
    /// Generation.
    pub(super) generation: UnifiedGenerationIntent,
    /// Form of the answer.
    pub(super) output: Option<UnifiedOutputIntent>,
}

impl Settings {
    /// Something that the answer is to contain besides.
    pub(super) fn include(&mut self, include: Include) {
        let output = self.output.get_or_insert_default();
        let list = output.includes.get_or_insert_with(|| UnifiedIntent::preferred(Vec::new()));
        list.value.push(include);
    }
}

/// Reads `generationConfig`.
pub(super) fn generation(
    keeper: &mut Keeper,
    settings: &mut Settings,
    mut config: GenerationConfig,
    prefix: &str,
    fields: &mut Vec<(String, Json)>,
    form: &mut Vec<(String, Json)>,
) {
    let path = format!("{prefix}/generationConfig");
    if json(&config).as_str() == "{}" {
        form.push((path, json(&config)));
        return;
    }
    if config.response_mime_type.is_some() {
        let at = format!("{path}/responseMimeType");
        keeper.loss.info(Feature::WireSpelling, at, "said by the kind of the answer's form");
    }
    fields.extend(below(&path, std::mem::take(&mut config.extra.0)));
    format(settings, &mut config, &path, form);
    let g = &mut settings.generation;
    g.candidate_count = config.candidate_count.map(UnifiedIntent::preferred);
    g.max_output_tokens = config.max_output_tokens.map(UnifiedIntent::preferred);
    g.temperature = config.temperature.map(UnifiedIntent::preferred);
    g.top_p = config.top_p.map(UnifiedIntent::preferred);
    g.top_k = config.top_k.map(UnifiedIntent::preferred);
    g.stop_sequences = config.stop_sequences.map(UnifiedIntent::preferred);
    g.seed = config.seed.map(Seed::from_i64).map(UnifiedIntent::preferred);
    g.presence_penalty = config.presence_penalty.map(UnifiedIntent::preferred);
    g.frequency_penalty = config.frequency_penalty.map(UnifiedIntent::preferred);
    match (config.response_logprobs, config.logprobs) {
        (None, None) => {}
        (Some(enabled), top) => {
            let at = format!("{path}/responseLogprobs");
            keeper
                .loss
                .info(Feature::WireSpelling, at, "said by the intent of log probabilities");
            g.logprobs = Some(UnifiedIntent::preferred(LogprobsIntent { enabled, top }));
        }
        // A number without the switch asks for nothing.
        (None, Some(top)) => fields.push((format!("{path}/logprobs"), json(&top))),
    }
    if let Some(list) = config.response_modalities {
        let known: Option<Vec<_>> = list.iter().map(|word| modality(word)).collect();
        match known {
            Some(known) => g.output_modalities = Some(UnifiedIntent::preferred(known)),
            None => fields.push((format!("{path}/responseModalities"), json(&list))),
        }
    }
    if let Some(word) = config.media_resolution {
        match media::resolution(&word) {
            Some(resolution) => g.media.get_or_insert_default().input_resolution = Some(UnifiedIntent::preferred(resolution)),
            None => fields.push((format!("{path}/mediaResolution"), json(&word))),
        }
    }
    if let Some(image) = config.image_config {
        fields.extend(below(&format!("{path}/imageConfig"), image.extra.0));
        if image.aspect_ratio.is_some() || image.image_size.is_some() {
            g.media.get_or_insert_default().image = Some(UnifiedIntent::preferred(ImageIntent {
                aspect_ratio: image.aspect_ratio,
                size: image.image_size,
                ..ImageIntent::default()
            }));
        }
    }
    if let Some(config) = config.speech_config {
        let speech = speech(config, &format!("{path}/speechConfig"), fields);
        if let Some(speech) = speech {
            g.media.get_or_insert_default().speech = Some(UnifiedIntent::preferred(speech));
        }
    }
    if let Some(config) = config.thinking_config {
        thinking(keeper, g, config, &format!("{path}/thinkingConfig"), fields, form);
    }
}

/// The form of the answer: media type and schema together.
fn format(settings: &mut Settings, config: &mut GenerationConfig, path: &str, form: &mut Vec<(String, Json)>) {
    let mime = config.response_mime_type.take();
    let sources = [
        ("responseJsonSchema", config.response_json_schema.take()),
        ("_responseJsonSchema", config.old_response_json_schema.take()),
        ("responseSchema", config.response_schema.take()),
    ];
    let mut schema = None;
    for (key, value) in sources {
        let Some(value) = value else { continue };
        if schema.is_none() {
            let opened = if key == "responseSchema" {
                schema::from_proto(&value)
            } else {
                value.clone()
            };
            if key != "responseJsonSchema" {
                // Written as the other member for anybody else.
                form.push((format!("{path}/responseJsonSchema"), Json::null()));
                form.push((format!("{path}/{key}"), value));
            }
            schema = Some(opened);
        } else {
            form.push((format!("{path}/{key}"), value));
        }
    }
    let format = match (mime.as_deref(), schema) {
        (None, None) => return,
        (Some("text/x.enum"), Some(schema)) => OutputFormat::Grammar(GrammarFormat {
            syntax: GrammarSyntax::Enum,
            definition: schema.as_str().to_owned(),
        }),
        (mime, Some(schema)) => {
            if mime != Some("application/json") {
                form.push((format!("{path}/responseMimeType"), mime.map_or_else(Json::null, json)));
            }
            OutputFormat::JsonSchema(JsonSchemaFormat {
                schema,
                name: None,
                description: None,
                strict: None,
            })
        }
        (Some("application/json"), None) => OutputFormat::JsonObject(Nothing {}),
        (Some("text/plain"), None) => {
            form.push((format!("{path}/responseMimeType"), json("text/plain")));
            OutputFormat::Text(Nothing {})
        }
        (Some(other), None) => OutputFormat::Media(MediaFormat {
            media_type: other.to_owned(),
        }),
    };
    settings.output.get_or_insert_default().format = Some(UnifiedIntent::preferred(format));
}

fn modality(word: &str) -> Option<OutputModality> {
    match word {
        "TEXT" => Some(OutputModality::Text),
        "IMAGE" => Some(OutputModality::Image),
        "AUDIO" => Some(OutputModality::Audio),
        "VIDEO" => Some(OutputModality::Video),
        _ => None,
    }
}

fn speech(config: SpeechConfig, path: &str, fields: &mut Vec<(String, Json)>) -> Option<SpeechIntent> {
    fields.extend(below(path, config.extra.0));
    let mut voices = Vec::new();
    let mut voice = |config: VoiceConfig, speaker: Option<String>, path: &str, fields: &mut Vec<(String, Json)>| {
        fields.extend(below(path, config.extra.0));
        if let Some(built) = config.prebuilt_voice_config {
            fields.extend(below(&format!("{path}/prebuiltVoiceConfig"), built.extra.0));
            if let Some(name) = built.voice_name {
                voices.push(SpeechVoice { voice: name, speaker });
            }
        }
    };
    if let Some(one) = config.voice_config {
        voice(one, None, &format!("{path}/voiceConfig"), fields);
    }
    if let Some(several) = config.multi_speaker_voice_config {
        let path = format!("{path}/multiSpeakerVoiceConfig");
        fields.extend(below(&path, several.extra.0));
        for (n, one) in several.speaker_voice_configs.unwrap_or_default().into_iter().enumerate() {
            let path = format!("{path}/speakerVoiceConfigs/{n}");
            fields.extend(below(&path, one.extra.0));
            if let Some(config) = one.voice_config {
                voice(config, one.speaker, &format!("{path}/voiceConfig"), fields);
            }
        }
    }
    if voices.is_empty() && config.language_code.is_none() {
        return None;
    }
    Some(SpeechIntent {
        voices,
        language: config.language_code,
        format: None,
    })
}

fn thinking(
    keeper: &mut Keeper,
    generation: &mut UnifiedGenerationIntent,
    config: ThinkingConfig,
    path: &str,
    fields: &mut Vec<(String, Json)>,
    form: &mut Vec<(String, Json)>,
) {
    fields.extend(below(path, config.extra.0));
    let mut intent = ReasoningIntent::default();
    if let Some(include) = config.include_thoughts {
        let summary = if include { ReasoningSummary::Auto } else { ReasoningSummary::None };
        intent.summary = Some(UnifiedIntent::preferred(summary));
        keeper.loss.info(
            Feature::WireSpelling,
            format!("{path}/includeThoughts"),
            "said by the word of the reasoning summary",
        );
    }
    match config.thinking_budget {
        None => {}
        Some(0) => intent.mode = Some(UnifiedIntent::preferred(ReasoningMode::Off)),
        Some(tokens) => match u64::try_from(tokens) {
            Ok(tokens) => intent.budget_tokens = Some(UnifiedIntent::preferred(tokens)),
            Err(_) => intent.mode = Some(UnifiedIntent::preferred(ReasoningMode::Auto)),
        },
    }
    if let Some(budget) = config.thinking_budget.filter(|b| *b <= 0) {
        keeper.loss.info(
            Feature::WireSpelling,
            format!("{path}/thinkingBudget"),
            "said by the word of the reasoning mode",
        );
        if budget < -1 {
            form.push((format!("{path}/thinkingBudget"), json(&budget)));
        }
    }
    if let Some(level) = config.thinking_level {
        let effort = match level.to_ascii_uppercase().as_str() {
            "MINIMAL" => Some(ReasoningEffort::Minimal),
            "LOW" => Some(ReasoningEffort::Low),
            "MEDIUM" => Some(ReasoningEffort::Medium),
            "HIGH" => Some(ReasoningEffort::High),
            "XHIGH" => Some(ReasoningEffort::XHigh),
            _ => None,
        };
        match effort {
            Some(effort) => {
                if level != effort.as_str().to_ascii_uppercase() {
                    form.push((format!("{path}/thinkingLevel"), json(&level)));
                }
                intent.effort = Some(UnifiedIntent::preferred(effort));
            }
            None => fields.push((format!("{path}/thinkingLevel"), json(&level))),
        }
    }
    if intent != ReasoningIntent::default() {
        generation.reasoning = Some(intent);
    } else if config.thinking_budget.is_none() && fields.iter().all(|(p, _)| !p.starts_with(path)) {
        form.push((path.to_owned(), crate::raw::object(Vec::new())));
    }
}

/// Reads `safetySettings`; one without its words is kept as it is.
pub(super) fn safety(list: Option<Vec<WireSafety>>, prefix: &str, fields: &mut Vec<(String, Json)>) -> Option<Vec<SafetySetting>> {
    let list = list?;
    let is_whole = |s: &WireSafety| s.category.is_some() && s.threshold.is_some() && s.extra.is_empty();
    if list.is_empty() || !list.iter().all(is_whole) {
        fields.push((format!("{prefix}/safetySettings"), json(&list)));
    }
    let known: Vec<_> = list
        .into_iter()
        .filter_map(|s| {
            Some(SafetySetting {
                category: s.category?,
                threshold: s.threshold?,
                method: s.method,
            })
        })
        .collect();
    (!known.is_empty()).then_some(known)
}

/// The class of service behind a word.
pub(super) fn tier(word: &str) -> ServiceTier {
    match word {
        "standard" => ServiceTier::Standard,
        "flex" => ServiceTier::Flex,
        "priority" => ServiceTier::Priority,
        other => ServiceTier::Other(format!("gemini-generate-content:{other}").into()),
    }
}
