//! Tools and tool choice to the wire.

use super::encode_request::RequestEncoder;
use super::encode_settings::put_if;
use super::private::{Entries, Form};
use super::wire;
use crate::feature::Feature;
use crate::wire::Extra;
use serde_json::{Value, json};
use throughline_format::intent::{GrammarSyntax, UnifiedRequirement};
use throughline_format::tool::{AllowedMode, ToolChoiceKind, UnifiedToolSelector};
use throughline_format::{Json, ProtocolFamily, UnifiedToolDefinition, UnifiedToolType};

/// Writes tools and choice.
pub(super) fn tools(encoder: &mut RequestEncoder, root: &Entries, form: &Form, wire: &mut wire::Request, extra: &mut Extra) {
    let mut names: Vec<String> = Vec::new();
    for (index, tool) in encoder.request.tools.iter().enumerate() {
        let entries = Entries::of(encoder.context.private.as_ref(), tool.provider_data.as_ref());
        let path = format!("/tools/{index}");
        losses_of(encoder, tool, &entries, &path);
        match &tool.kind {
            UnifiedToolType::Function => {
                let prefix = if form.legacy { "" } else { "/function" };
                let definition = function(
                    encoder,
                    tool,
                    &path,
                    entries.level(prefix, if form.legacy { &["type"] } else { &[] }),
                );
                names.extend(definition.name.clone());
                if form.legacy {
                    wire.functions.get_or_insert_default().push(definition);
                } else {
                    let kind = if entries.get("/type").is_some() {
                        None
                    } else {
                        Some("function".to_owned())
                    };
                    wire.tools.get_or_insert_default().push(wire::Tool {
                        kind,
                        function: Some(definition),
                        custom: None,
                        extra: entries.level("", &["type"]),
                    });
                }
            }
            UnifiedToolType::Custom => {
                let definition = custom(encoder, tool, &path, &entries);
                names.extend(definition.name.clone());
                wire.tools.get_or_insert_default().push(wire::Tool {
                    kind: Some("custom".into()),
                    function: None,
                    custom: Some(definition),
                    extra: entries.level("", &[]),
                });
            }
            UnifiedToolType::Other(_) if entries.get("/type").is_some() => {
                let kind = entries.get("/type").and_then(|k| k.decode().ok());
                let inner = |member: &str| entries.get(member).cloned();
                let function = inner("/function").and_then(|j| j.decode().ok());
                let custom = inner("/custom").and_then(|j| j.decode().ok());
                wire.tools.get_or_insert_default().push(wire::Tool {
                    kind,
                    function,
                    custom,
                    extra: entries.level("", &["type", "function", "custom"]),
                });
            }
            UnifiedToolType::WebSearch if encoder.same_family => wire.web_search_options = Some(web_search(tool, root)),
            kind => {
                let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
                encoder.loss.intent(
                    requirement,
                    hosted_feature(kind),
                    path,
                    "the target has no form for this hosted tool",
                );
            }
        }
    }
    if wire.tools.is_none() && wire.functions.is_none() {
        put_if(extra, root, "tools", |raw| {
            raw.as_str() == "[]" && encoder.same_family && encoder.request.tools.is_empty()
        });
    }
    choice(encoder, root, form, wire, &names);
}

/// Members of a definition that this wire has no form for.
fn losses_of(encoder: &mut RequestEncoder, tool: &UnifiedToolDefinition, entries: &Entries, path: &str) {
    let lost = [
        ("inputExamples", Feature::ToolDescription, tool.input_examples.is_some()),
        ("outputSchema", Feature::ToolDescription, tool.output_schema.is_some()),
        ("deferLoading", Feature::ToolDeferLoading, tool.defer_loading.is_some()),
        ("eagerInput", Feature::ToolCallArguments, tool.eager_input.is_some()),
        ("async", Feature::ToolFunction, tool.r#async.is_some()),
        ("allowedCallers", Feature::ToolAllowedCallers, tool.allowed_callers.is_some()),
        ("approval", Feature::ToolApproval, tool.approval.is_some()),
        (
            "cache",
            Feature::CacheBreakpoints,
            tool.cache.is_some() && entries.get("/cache_control").is_none(),
        ),
    ];
    for (member, feature, is_lost) in lost {
        if is_lost {
            encoder
                .loss
                .info(feature, format!("{path}/{member}"), "the target has no form for it");
        }
    }
}

fn name_of(encoder: &mut RequestEncoder, tool: &UnifiedToolDefinition, path: &str) -> String {
    let given = tool.name.as_deref().unwrap_or_default();
    let name = crate::tool_name::wire(tool.namespace.as_deref(), given, encoder.capabilities.knobs().max_tool_name_length).into_owned();
    if name != given {
        encoder.loss.info(
            Feature::ToolName,
            format!("{path}/name"),
            "the target refuses this name; it gets a replacement derived from it",
        );
    }
    name
}

fn function(encoder: &mut RequestEncoder, tool: &UnifiedToolDefinition, path: &str, extra: Extra) -> wire::FunctionDefinition {
    let name = name_of(encoder, tool, path);
    let (mut strict, mut parameters) = (tool.strict, tool.input_schema.clone());
    let parsed = parameters.as_ref().filter(|_| !encoder.same_family).map(Json::parse);
    if let Some(schema) = parsed {
        if strict == Some(true)
            && let Err(why) = fits_strict(&schema)
        {
            strict = Some(false);
            let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
            encoder.loss.intent(
                requirement,
                Feature::ToolStrict,
                format!("{path}/strict"),
                format!("the target's strict mode refuses the schema: {why}"),
            );
        }
        if schema.get("type").and_then(Value::as_str) != Some("object") && schema != json!({}) {
            let Value::Object(members) = schema else {
                return wire::FunctionDefinition {
                    name: Some(name),
                    description: tool.description.clone(),
                    parameters: None,
                    strict,
                    extra,
                };
            };
            let mut typed = serde_json::Map::from_iter([("type".to_owned(), json!("object"))]);
            typed.extend(members.into_iter().filter(|(key, _)| key != "type"));
            parameters = Some(Json::from_value(&Value::Object(typed)));
            encoder.loss.info(
                Feature::ToolFunction,
                format!("{path}/inputSchema"),
                "the target demands an object schema",
            );
        }
    }

    wire::FunctionDefinition {
        name: Some(name),
        description: tool.description.clone(),
        parameters,
        strict,
        extra,
    }
}

fn custom(encoder: &mut RequestEncoder, tool: &UnifiedToolDefinition, path: &str, entries: &Entries) -> wire::CustomDefinition {
    let name = name_of(encoder, tool, path);
    let format = tool.grammar.as_ref().map(|grammar| {
        let extra = entries.level("/custom/format", &["grammar"]);
        if grammar.syntax == GrammarSyntax::Text {
            return wire::CustomFormat {
                kind: Some("text".into()),
                grammar: None,
                extra,
            };
        }
        let inner = wire::Grammar {
            syntax: Some(grammar.syntax.as_str().to_owned()),
            definition: grammar.definition.clone(),
            extra: entries.level("/custom/format/grammar", &[]),
        };
        wire::CustomFormat {
            kind: Some("grammar".into()),
            grammar: Some(inner),
            extra,
        }
    });
    wire::CustomDefinition {
        name: Some(name),
        description: tool.description.clone(),
        format,
        extra: entries.level("/custom", &["format"]),
    }
}

fn web_search(tool: &UnifiedToolDefinition, root: &Entries) -> wire::WebSearchOptions {
    let config = tool.config.as_ref();
    let place = config.and_then(|c| c.user_location.as_ref()).map(|l| wire::Place {
        city: l.city.clone(),
        country: l.country.clone(),
        region: l.region.clone(),
        timezone: l.timezone.clone(),
        extra: root.level("/web_search_options/user_location/approximate", &[]),
    });
    let user_location = place.map(|p| wire::UserLocation {
        kind: Some("approximate".into()),
        approximate: Some(p),
        extra: root.level("/web_search_options/user_location", &["approximate"]),
    });
    wire::WebSearchOptions {
        search_context_size: config.and_then(|c| c.context_size.clone()),
        user_location,
        extra: root.level("/web_search_options", &["user_location"]),
    }
}

fn hosted_feature(kind: &UnifiedToolType) -> Feature {
    match kind {
        UnifiedToolType::WebSearch => Feature::ToolHostedWebSearch,
        UnifiedToolType::WebFetch | UnifiedToolType::UrlContext => Feature::ToolHostedWebFetch,
        UnifiedToolType::CodeExecution | UnifiedToolType::Shell | UnifiedToolType::Container => Feature::ToolHostedCodeExecution,
        UnifiedToolType::ComputerUse => Feature::ToolHostedComputerUse,
        UnifiedToolType::Mcp => Feature::ToolHostedMcp,
        UnifiedToolType::FileSearch | UnifiedToolType::Retrieval => Feature::ToolHostedFileSearch,
        _ => Feature::ToolHosted,
    }
}

fn choice(encoder: &mut RequestEncoder, root: &Entries, form: &Form, wire: &mut wire::Request, names: &[String]) {
    let Some(choice) = &encoder.request.tool_choice else {
        if let Some(raw) = root.get("/tool_choice") {
            wire.tool_choice = Some(raw.clone());
        }
        return;
    };
    let max = encoder.capabilities.knobs().max_tool_name_length;
    let selector = |s: &UnifiedToolSelector| {
        let kind = if s.tool_type == UnifiedToolType::Custom {
            "custom"
        } else {
            "function"
        };
        let name = crate::tool_name::wire(None, s.name.as_deref().unwrap_or_default(), max).into_owned();
        let is_known = matches!(s.tool_type, UnifiedToolType::Function | UnifiedToolType::Custom) && names.contains(&name);
        is_known.then(|| json!({"type": kind, kind: {"name": name}}))
    };
    let is_any =
        root.get("/tool_choice").is_some_and(|raw| raw.as_str() == "\"any\"") || encoder.context.dialect.as_deref() == Some("mistral");
    let value = match choice.kind {
        ToolChoiceKind::Auto => Some(json!("auto")),
        ToolChoiceKind::None => Some(json!("none")),
        ToolChoiceKind::Required => Some(json!(if is_any { "any" } else { "required" })),
        ToolChoiceKind::Named if form.legacy => choice.tool.as_ref().and_then(|t| t.name.as_ref()).map(|name| json!({"name": name})),
        ToolChoiceKind::Named => choice.tool.as_ref().and_then(selector),
        ToolChoiceKind::Allowed => {
            let tools: Vec<Value> = choice.tools.iter().flatten().filter_map(selector).collect();
            let mode = choice.mode.unwrap_or(AllowedMode::Auto).as_str();
            (!tools.is_empty()).then(|| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}))
        }
    };
    let has_tools = wire.tools.is_some() || wire.functions.is_some();
    let keeps = encoder.request.source.profile.family == ProtocolFamily::OpenAiChat && root.get("/tools").is_some();
    match value {
        Some(value) if has_tools || keeps => {
            let json = Some(Json::from_value(&value));
            if form.legacy {
                wire.function_call = json;
            } else {
                wire.tool_choice = json;
            }
        }
        _ if matches!(choice.kind, ToolChoiceKind::Auto | ToolChoiceKind::None) => {
            encoder.loss.info(Feature::ToolChoice, "/toolChoice", "there are no tools");
        }
        _ => encoder.loss.intent(
            choice.requirement,
            Feature::ToolChoice,
            "/toolChoice",
            "the tool that is to be called is not offered to the target",
        ),
    }
}

/// Whether OpenAI's strict mode takes a schema; otherwise why not.
pub(super) fn fits_strict(schema: &Value) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") || schema.get("anyOf").is_some() {
        return Err("its root is not an object".into());
    }
    fits_node(schema, 0)
}

/// Keywords that strict mode refuses.
const REFUSED: &[&str] = &[
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "uniqueItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "default",
];
/// String formats that strict mode knows.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

fn fits_node(node: &Value, depth: usize) -> Result<(), String> {
    let Value::Object(members) = node else { return Ok(()) };
    if depth > 10 {
        return Err("it nests too deeply".into());
    }
    if let Some(key) = members.keys().find(|k| REFUSED.contains(&k.as_str())) {
        return Err(format!("keyword {key}"));
    }
    if members.contains_key("$ref") && members.len() > 1 {
        return Err("members beside $ref".into());
    }
    if members.get("format").and_then(Value::as_str).is_some_and(|f| !FORMATS.contains(&f)) {
        return Err("a string format".into());
    }
    let properties = members.get("properties").and_then(Value::as_object);
    if properties.is_some() || members.get("type").and_then(Value::as_str) == Some("object") {
        if members.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err("an object that is open".into());
        }
        let required: Vec<&str> = members
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if properties.is_some_and(|p| p.keys().any(|k| !required.contains(&k.as_str()))) {
            return Err("optional properties".into());
        }
    }
    for inner in properties.into_iter().flat_map(serde_json::Map::values) {
        fits_node(inner, depth + 1)?;
    }
    for key in ["$defs", "definitions"] {
        for inner in members
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(serde_json::Map::values)
        {
            fits_node(inner, depth)?;
        }
    }
    for inner in members
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .chain(members.get("items"))
    {
        fits_node(inner, depth + 1)?;
    }
    Ok(())
}
