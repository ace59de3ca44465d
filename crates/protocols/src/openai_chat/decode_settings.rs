//! Requests from the wire: everything beside the messages.

use super::decode_dialect::{dialect_format, dialect_reasoning, dialect_setting, safety};
use super::decode_request::RequestDecoder;
use super::private::{Form, Leftovers};
use super::wire;
use crate::codec::DecodedRequest;
use crate::feature::Feature;
use crate::wire::TextOr;
use std::collections::BTreeMap;
use throughline_format::cache::{CacheMode, UnifiedCacheDirective, UnifiedCacheIntent};
use throughline_format::intent::{
    GrammarSyntax, Include, JsonSchemaFormat, LogprobsIntent, MediaIntent, Nothing, OutputFormat, OutputModality, ParallelTools,
    PredictionIntent, PrefillIntent, ReasoningIntent, Seed, ServiceTier, SpeechIntent, SpeechVoice, Verbosity,
};
use throughline_format::json::UserMap;
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::request::UnifiedStateInput;
use throughline_format::tool::{
    AllowedMode, Execution, Portability, ToolChoiceKind, ToolGrammar, UnifiedHostedToolConfig, UnifiedToolSelector, UserLocation,
};
use throughline_format::{
    Count, Json, UnifiedContentPart, UnifiedGenerationIntent, UnifiedId, UnifiedIntent, UnifiedOutputIntent, UnifiedRequirement,
    UnifiedToolChoice, UnifiedToolDefinition, UnifiedToolType,
};

/// Makes the request of what was read.
pub(super) fn finish(wire: wire::Request, mut decoder: RequestDecoder) -> DecodedRequest {
    let mut left = Leftovers::default();
    let mut form = Form::default();
    let operation = decoder.context.operation_id.clone();
    let breakpoints = std::mem::take(&mut decoder.breakpoints);
    if wire.model.is_none() {
        form.absent.push("/model".into());
    }
    let mut request = decoder.request(wire.model.clone());
    let stream = wire.stream == Some(true);
    if wire.stream == Some(false) {
        left.add_value("/stream", false);
    }
    let mut extra = wire.extra.clone();
    request.generation = generation(&wire, &mut left, &operation);
    as_written(&wire, &mut form);
    request.generation.prefill = decoder
        .prefill
        .clone()
        .map(|item_id| UnifiedIntent::preferred(PrefillIntent { item_id }));
    for (key, value) in &extra.0 {
        dialect_setting(&mut request.generation, key, value);
    }
    let reasoning = dialect_reasoning(&extra.0, wire.reasoning_effort.as_deref());
    request.generation.reasoning = (reasoning != ReasoningIntent::default()).then_some(reasoning);
    request.output = output(&wire, &mut left);
    for (key, raw) in &extra.0 {
        if let Some(format) = dialect_format(key, raw) {
            request
                .output
                .get_or_insert_default()
                .format
                .get_or_insert(UnifiedIntent::preferred(format));
        }
        if key == "moderation" {
            request.generation.safety_settings = safety(raw).and_then(preferred);
        }
    }
    cache(&wire, breakpoints, &mut request.cache, &mut left, &mut form);
    request.state = wire.store.map(|store| UnifiedStateInput {
        persist: Some(UnifiedIntent::new(store, UnifiedRequirement::Required)),
        ..UnifiedStateInput::default()
    });
    request.metadata = metadata(&wire, &mut left);
    if let Some(models) = extra
        .0
        .iter()
        .find(|(k, _)| k == "models")
        .and_then(|(_, v)| v.decode::<Vec<String>>().ok())
    {
        request.model.fallbacks = Some(models);
    }
    // Tools.
    if wire.tools.as_ref().is_some_and(Vec::is_empty) {
        left.add("/tools", Json::from_value(&serde_json::json!([])));
    }
    for (index, definition) in wire.functions.into_iter().flatten().enumerate() {
        form.legacy = true;
        let tool = wire::Tool {
            kind: None,
            function: Some(definition),
            custom: None,
            extra: crate::wire::Extra::default(),
        };
        request.tools.push(decode_tool(
            &mut decoder,
            operation.tool(index as Count),
            tool,
            format!("/functions/{index}"),
            true,
        ));
    }
    for (index, tool) in wire.tools.into_iter().flatten().enumerate() {
        let number = request.tools.len() as Count;
        request.tools.push(decode_tool(
            &mut decoder,
            operation.tool(number),
            tool,
            format!("/tools/{index}"),
            false,
        ));
    }
    let prediction = wire.prediction.as_ref().and_then(|prediction| prediction.kind.as_deref());
    decoder.loss.only_word("/prediction/type", prediction, "content");
    if let Some(options) = wire.web_search_options {
        let place = options.user_location.as_ref().and_then(|place| place.kind.as_deref());
        decoder
            .loss
            .only_word("/web_search_options/user_location/type", place, "approximate");
        request
            .tools
            .push(web_search(options, operation.tool(request.tools.len() as Count), &mut left));
    }
    if let Some(choice) = wire.tool_choice {
        request.tool_choice = tool_choice(&choice);
        if request.tool_choice.as_ref().is_none_or(|known| !is_all_said(known, &choice)) {
            left.add("/tool_choice", choice);
        }
    }
    if let Some(choice) = wire.function_call {
        form.legacy = true;
        request.tool_choice = match choice.parse() {
            serde_json::Value::String(word) => simple_choice(&word),
            value => value
                .get("name")
                .and_then(|n| n.as_str())
                .map(|n| UnifiedToolChoice::named(UnifiedToolType::Function, n.to_owned())),
        };
        if request.tool_choice.is_none() {
            left.add("/function_call", choice);
        }
    }
    left.extra("", std::mem::take(&mut extra));
    decoder.report("", &left);
    let (raw, refused) = left.resource(None, operation.resource(1), "");
    decoder.report_refused("", refused);
    decoder.resources.extend(raw);
    decoder.resources.extend(form.resource(None, operation.resource(2), ""));
    DecodedRequest {
        unified: request,
        resources: decoder.resources,
        loss: decoder.loss.finish(),
        stream,
    }
}

/// Flags, and numbers that the record holds under another name: their spelling is remembered.
fn as_written(wire: &wire::Request, form: &mut Form) {
    let usage = wire.stream_options.as_ref().and_then(|o| o.include_usage);
    for (pointer, flag) in [
        ("/store", wire.store),
        ("/parallel_tool_calls", wire.parallel_tool_calls),
        ("/logprobs", wire.logprobs),
        ("/stream_options/include_usage", usage),
    ] {
        if let Some(flag) = flag {
            form.member(pointer, flag);
        }
    }
    let numbers = [
        ("/temperature", wire.temperature),
        ("/top_p", wire.top_p),
        ("/frequency_penalty", wire.frequency_penalty),
        ("/presence_penalty", wire.presence_penalty),
    ];
    for (pointer, number) in numbers {
        if let Some(number) = number.filter(|n| n.fract() == 0.0) {
            form.member(pointer, number);
        }
    }
    for (pointer, number) in [
        ("/n", wire.n),
        ("/top_logprobs", wire.top_logprobs),
        ("/max_tokens", wire.max_tokens),
        ("/max_completion_tokens", wire.max_completion_tokens),
    ] {
        if let Some(number) = number.filter(|n| *n < 2) {
            form.member(pointer, number);
        }
    }
    if let Some(seed) = wire.seed.filter(|s| *s == 0 || *s == 1) {
        form.member("/seed", seed);
    }
}

#[allow(clippy::unnecessary_wraps)] // every place that takes one is optional
fn preferred<T>(value: T) -> Option<UnifiedIntent<T>> {
    Some(UnifiedIntent::preferred(value))
}

fn generation(wire: &wire::Request, left: &mut Leftovers, operation: &UnifiedId) -> UnifiedGenerationIntent {
    let mut g = UnifiedGenerationIntent::default();
    // Which of the two spellings it was is remembered only for the older one.
    if let Some(limit) = wire.max_tokens {
        g.max_output_tokens = preferred(limit);
        left.add_value("/max_tokens", limit);
    }
    if let Some(limit) = wire.max_completion_tokens {
        g.max_output_tokens = preferred(limit);
    }
    g.temperature = wire.temperature.and_then(preferred);
    g.top_p = wire.top_p.and_then(preferred);
    g.candidate_count = wire.n.and_then(preferred);
    g.stop_sequences = match &wire.stop {
        Some(TextOr::Text(text)) => {
            left.add_value("/stop", text.clone());
            preferred(vec![text.clone()])
        }
        Some(TextOr::List(list)) => preferred(list.clone()),
        None => None,
    };
    g.seed = wire.seed.map(Seed::from_i64).and_then(preferred);
    g.frequency_penalty = wire.frequency_penalty.and_then(preferred);
    g.presence_penalty = wire.presence_penalty.and_then(preferred);
    g.logit_bias = wire.logit_bias.clone().and_then(|b| preferred(UserMap(b)));
    if wire.logprobs.is_some() || wire.top_logprobs.is_some() {
        g.logprobs = preferred(LogprobsIntent {
            enabled: wire.logprobs.unwrap_or(false),
            top: wire.top_logprobs,
        });
    }
    g.parallel_tools = wire
        .parallel_tool_calls
        .and_then(|on| preferred(if on { ParallelTools::Allow } else { ParallelTools::OneAtATime }));
    g.service_tier = wire.service_tier.as_deref().and_then(|word| {
        preferred(match word {
            "default" => ServiceTier::Standard,
            other => ServiceTier::from_word(other),
        })
    });
    if let Some(modalities) = &wire.modalities {
        let known: Vec<_> = modalities.iter().filter_map(|m| OutputModality::from_word(m)).collect();
        if known.len() != modalities.len() {
            left.add("/modalities", Json::from_serialize(modalities).unwrap_or_else(|_| Json::null()));
        }
        g.output_modalities = preferred(known);
    }
    if let Some(audio) = &wire.audio {
        let voice = audio.voice.as_ref().and_then(|v| v.decode::<String>().ok());
        if voice.is_none()
            && let Some(raw) = &audio.voice
        {
            left.add("/audio/voice", raw.clone());
        }
        left.extra("/audio", audio.extra.clone());
        let voices = voice.into_iter().map(|voice| SpeechVoice { voice, speaker: None }).collect();
        g.media = Some(MediaIntent {
            speech: preferred(SpeechIntent {
                voices,
                language: None,
                format: audio.format.clone(),
            }),
            ..MediaIntent::default()
        });
    }
    if let Some(prediction) = &wire.prediction {
        left.extra("/prediction", prediction.extra.clone());
        let base = operation.resource(3);
        let texts: Vec<String> = match &prediction.content {
            Some(TextOr::Text(text)) => vec![text.clone()],
            Some(TextOr::List(list)) => {
                left.add("/prediction/content", Json::from_serialize(list).unwrap_or_else(|_| Json::null()));
                list.iter()
                    .filter_map(|p| if let wire::Part::Text(t) = p { Some(t.text.clone()) } else { None })
                    .collect()
            }
            None => Vec::new(),
        };
        let parts = texts
            .into_iter()
            .enumerate()
            .map(|(i, text)| UnifiedContentPart::text(base.part(i as Count), text))
            .collect();
        g.prediction = preferred(PredictionIntent { parts });
    }
    g
}

fn output(wire: &wire::Request, left: &mut Leftovers) -> Option<UnifiedOutputIntent> {
    let mut output = UnifiedOutputIntent {
        verbosity: wire.verbosity.as_deref().map(Verbosity::from_word).and_then(preferred),
        ..UnifiedOutputIntent::default()
    };
    if let Some(format) = &wire.response_format {
        let known = match (format.kind.as_deref(), &format.json_schema) {
            (Some("text"), None) => Some(OutputFormat::Text(Nothing {})),
            (Some("json_object"), None) => Some(OutputFormat::JsonObject(Nothing {})),
            (Some("json_schema"), Some(s)) => s.schema.clone().map(|schema| {
                left.extra("/response_format/json_schema", s.extra.clone());
                OutputFormat::JsonSchema(JsonSchemaFormat {
                    schema,
                    name: s.name.clone(),
                    description: s.description.clone(),
                    strict: s.strict,
                })
            }),
            _ => None,
        };
        match known {
            Some(known) => {
                left.extra("/response_format", format.extra.clone());
                output.format = preferred(known);
            }
            None => left.add("/response_format", Json::from_serialize(format).unwrap_or_else(|_| Json::null())),
        }
    }
    if let Some(options) = &wire.stream_options {
        if options.include_usage == Some(true) {
            output.includes = Some(UnifiedIntent::new(vec![Include::StreamUsage], UnifiedRequirement::Optional));
        }
        left.extra("/stream_options", options.extra.clone());
    }
    (output != UnifiedOutputIntent::default()).then_some(output)
}

fn cache(
    wire: &wire::Request,
    breakpoints: Vec<throughline_format::cache::CacheBreakpoint>,
    cache: &mut Option<UnifiedCacheIntent>,
    left: &mut Leftovers,
    form: &mut Form,
) {
    let mode = wire.prompt_cache_options.as_ref().and_then(|options| {
        left.extra("/prompt_cache_options", options.extra.clone());
        match options.mode.as_deref() {
            Some("explicit") => Some(CacheMode::Explicit),
            Some("implicit") => Some(CacheMode::Automatic),
            Some(other) => {
                left.add_value("/prompt_cache_options/mode", other);
                None
            }
            None => None,
        }
    });
    // Where the wire names no mode, the record's is ours and must not appear on the wire later.
    form.cache_mode = mode.is_some();
    if mode.is_none() && wire.prompt_cache_key.is_none() && breakpoints.is_empty() {
        return;
    }
    *cache = Some(UnifiedCacheIntent {
        mode: mode.unwrap_or(CacheMode::Automatic),
        affinity_key: wire.prompt_cache_key.clone(),
        breakpoints: (!breakpoints.is_empty()).then_some(breakpoints),
        retention: None,
    });
}

fn metadata(wire: &wire::Request, left: &mut Leftovers) -> Option<UnifiedSemanticMetadata> {
    let labels = wire.metadata.as_ref().and_then(|m| {
        let labels = m.decode::<BTreeMap<String, String>>().ok();
        if labels.is_none() {
            left.add("/metadata", m.clone());
        }
        labels
    });
    let metadata = UnifiedSemanticMetadata {
        labels: labels.map(UserMap),
        end_user_ref: wire.user.clone(),
    };
    (metadata.labels.is_some() || metadata.end_user_ref.is_some()).then_some(metadata)
}

fn decode_tool(decoder: &mut RequestDecoder, id: UnifiedId, tool: wire::Tool, path: String, legacy: bool) -> UnifiedToolDefinition {
    let mut left = Leftovers::default();
    let prefix = |inner: &str| if legacy { String::new() } else { inner.to_owned() };
    let is_function = matches!(tool.kind.as_deref(), None | Some("function"));
    let mut definition = match (tool.function, tool.custom) {
        (Some(function), None) if is_function => {
            if tool.kind.is_none() && !legacy {
                left.add_value("/type", "");
            }
            let mut d = UnifiedToolDefinition::function(id.clone(), function.name.unwrap_or_default());
            d.description = function.description;
            d.input_schema = function.parameters;
            d.strict = function.strict;
            left.extra(&prefix("/function"), function.extra);
            d
        }
        (None, Some(custom)) => {
            let mut d = UnifiedToolDefinition::new(
                id.clone(),
                UnifiedToolType::Custom,
                Execution::Client,
                Portability::Portable,
                custom.name,
            );
            d.description = custom.description;
            if let Some(format) = custom.format {
                d.grammar = Some(match format.grammar {
                    Some(grammar) => {
                        left.extra("/custom/format/grammar", grammar.extra);
                        ToolGrammar {
                            syntax: GrammarSyntax::from_word(grammar.syntax.as_deref().unwrap_or("lark")),
                            definition: grammar.definition,
                        }
                    }
                    None => ToolGrammar {
                        syntax: GrammarSyntax::Text,
                        definition: None,
                    },
                });
                left.extra("/custom/format", format.extra);
            }
            left.extra("/custom", custom.extra);
            d
        }
        (function, custom) => {
            let kind = tool.kind.clone().unwrap_or_default();
            left.add_value("/type", kind.clone());
            for (key, value) in [
                ("/function", Json::from_serialize(&function)),
                ("/custom", Json::from_serialize(&custom)),
            ] {
                left.add(key, value.unwrap_or_else(|_| Json::null()));
            }
            UnifiedToolDefinition::new(
                id.clone(),
                UnifiedToolType::Other(format!("openai-chat:{kind}").into()),
                Execution::Provider,
                Portability::OwnerBound,
                None,
            )
        }
    };
    if let Some((_, mark)) = tool.extra.0.iter().find(|(k, _)| k == "cache_control") {
        definition.cache = Some(UnifiedCacheDirective::mark(super::decode_parts::ttl_of(mark)));
    }
    left.extra("", tool.extra);
    decoder.report(&path, &left);
    let (raw, refused) = left.resource(Some(&id), id.resource(1), &path);
    decoder.report_refused(&path, refused);
    if let Some(resource) = raw {
        definition.provider_data = Some(vec![resource.reference()]);
        decoder.resources.push(resource);
    }
    if definition.name.as_ref().is_some_and(String::is_empty) {
        decoder
            .loss
            .warning(Feature::ToolName, format!("{path}/function/name"), "a tool without a name");
    }
    definition
}

fn web_search(options: wire::WebSearchOptions, id: UnifiedId, left: &mut Leftovers) -> UnifiedToolDefinition {
    let mut tool = UnifiedToolDefinition::new(id, UnifiedToolType::WebSearch, Execution::Provider, Portability::Equivalent, None);
    left.extra("/web_search_options", options.extra);
    let user_location = options.user_location.and_then(|location| {
        left.extra("/web_search_options/user_location", location.extra);
        let place = location.approximate?;
        left.extra("/web_search_options/user_location/approximate", place.extra);
        Some(UserLocation {
            city: place.city,
            region: place.region,
            country: place.country,
            timezone: place.timezone,
            ..UserLocation::default()
        })
    });
    let config = UnifiedHostedToolConfig {
        context_size: options.search_context_size,
        user_location,
        ..UnifiedHostedToolConfig::default()
    };
    tool.config = (config != UnifiedHostedToolConfig::default()).then_some(config);
    tool
}

fn simple_choice(word: &str) -> Option<UnifiedToolChoice> {
    let kind = match word {
        "auto" => ToolChoiceKind::Auto,
        "none" => ToolChoiceKind::None,
        "required" | "any" => ToolChoiceKind::Required,
        _ => return None,
    };
    Some(UnifiedToolChoice::simple(kind))
}

/// Whether a choice says all that the wire says.
fn is_all_said(choice: &UnifiedToolChoice, wire: &Json) -> bool {
    let selector = |tool: &UnifiedToolSelector| {
        let kind = if tool.tool_type == UnifiedToolType::Custom {
            "custom"
        } else {
            "function"
        };
        serde_json::json!({"type": kind, kind: {"name": tool.name}})
    };
    let said = match choice.kind {
        ToolChoiceKind::Auto => "auto".into(),
        ToolChoiceKind::None => "none".into(),
        ToolChoiceKind::Required => "required".into(),
        ToolChoiceKind::Named => choice.tool.as_ref().map(selector).unwrap_or_default(),
        ToolChoiceKind::Allowed => {
            let tools: Vec<_> = choice.tools.iter().flatten().map(selector).collect();
            serde_json::json!({"type": "allowed_tools", "allowed_tools": {"mode": choice.mode.map(AllowedMode::as_str), "tools": tools}})
        }
    };
    wire.parse() == said
}

/// The choice that a member means; `None` for a form that is not known.
pub(super) fn tool_choice(choice: &Json) -> Option<UnifiedToolChoice> {
    let value = choice.parse();
    if let Some(word) = value.as_str() {
        return simple_choice(word);
    }
    let selector = |value: &serde_json::Value| {
        let kind = value.get("type")?.as_str()?;
        let name = value.get(kind)?.get("name")?.as_str()?.to_owned();
        let tool_type = match kind {
            "function" => UnifiedToolType::Function,
            "custom" => UnifiedToolType::Custom,
            _ => return None,
        };
        Some(UnifiedToolSelector {
            tool_type,
            name: Some(name),
            server_label: None,
        })
    };
    if value.get("type")?.as_str()? != "allowed_tools" {
        return selector(&value).map(|tool| UnifiedToolChoice {
            tool: Some(tool),
            ..UnifiedToolChoice::simple(ToolChoiceKind::Named)
        });
    }
    let allowed = value.get("allowed_tools")?;
    let mode = AllowedMode::from_word(allowed.get("mode")?.as_str()?)?;
    let tools = allowed.get("tools")?.as_array()?.iter().map(selector).collect::<Option<Vec<_>>>()?;
    Some(UnifiedToolChoice {
        mode: Some(mode),
        tools: Some(tools),
        ..UnifiedToolChoice::simple(ToolChoiceKind::Allowed)
    })
}
