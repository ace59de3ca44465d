//! Tools and tool choice to the wire.

use super::dialect::WebSearch;
use super::encode_request::RequestEncoder;
use super::encode_settings::put_if;
use super::private::{Entries, Form};
use super::wire;
use crate::capability::Support;
use crate::feature::Feature;
use crate::openai::strict_schema::fits_strict;
use crate::tool_offer::{ToolOffer, report_as_function};
use crate::wire::Extra;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use throughline_format::intent::{GrammarSyntax, UnifiedRequirement};
use throughline_format::tool::{AllowedMode, Execution, ToolChoiceKind, UnifiedToolSelector};
use throughline_format::{Json, ProtocolFamily, UnifiedToolDefinition, UnifiedToolType};

/// The member of a function's arguments that holds the text of a custom call, where a dialect has no custom tools.
pub(super) const CUSTOM_INPUT: &str = "input";

impl RequestEncoder<'_> {
    /// Whether the target has custom tools.
    pub(super) fn has_custom(&self) -> bool {
        self.capabilities.support(Feature::ToolCustom) == Support::Lossless
    }
}

/// Writes tools and choice.
pub(super) fn tools(encoder: &mut RequestEncoder, root: &Entries, form: &Form, wire: &mut wire::Request, extra: &mut Extra) {
    let mut names: Vec<String> = Vec::new();
    for (index, tool) in encoder.request.tools.iter().enumerate() {
        let entries = Entries::of(encoder.context.private.as_ref(), tool.provider_data.as_ref());
        let path = format!("/tools/{index}");
        losses_of(encoder, tool, &entries, &path);
        let before = names.len();
        let is_owner = encoder.same_family && (tool.provider_data.is_none() || !entries.is_empty());
        let as_function = match ToolOffer::of(tool, is_owner) {
            ToolOffer::OwnForm => false,
            // The hosted tools of this wire are all executed by the provider.
            ToolOffer::OwnFormOrFunction | ToolOffer::Function => true,
            ToolOffer::Withheld(why) => {
                let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
                encoder.loss.intent(requirement, Feature::of_tool(&tool.kind), path, why);
                continue;
            }
        };
        let is_hosted = tool.execution == Execution::Provider;
        match &tool.kind {
            kind if as_function || *kind == UnifiedToolType::Function => {
                if *kind != UnifiedToolType::Function {
                    report_as_function(&mut encoder.loss, tool, &path);
                }
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
            UnifiedToolType::Custom if !encoder.has_custom() => {
                let definition = custom_as_function(encoder, tool, &path);
                names.extend(definition.name.clone());
                wire.tools.get_or_insert_default().push(wire::Tool {
                    kind: Some("function".into()),
                    function: Some(definition),
                    custom: None,
                    extra: Extra::default(),
                });
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
            UnifiedToolType::WebSearch if is_hosted && takes_options(encoder) => {
                wire.web_search_options = Some(web_search(tool, root));
                lost_options(encoder, tool, &path, true);
            }
            UnifiedToolType::WebSearch if is_hosted && encoder.dialect.web_search != WebSearch::Options => {
                search_of_dialect(encoder, tool, &path, wire, extra);
            }
            kind => {
                let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
                encoder.loss.intent(
                    requirement,
                    Feature::of_tool(kind),
                    path,
                    "the target has no form for this hosted tool",
                );
            }
        }
        // The mark stands on the definition itself.
        let is_new = names.len() > before;
        if let (Some(mark), Some("cache_control"), true) = (&tool.cache, encoder.dialect.cache_mark, is_new)
            && entries.get("/cache_control").is_none()
            && let Some(last) = wire.tools.as_mut().and_then(|t| t.last_mut())
        {
            let value = super::marks::mark("cache_control", mark.ttl);
            last.extra.0.push(("cache_control".into(), Json::from_value(&value)));
        }
    }
    if !encoder.same_family {
        only_once(encoder, wire);
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
            tool.cache.is_some() && entries.get("/cache_control").is_none() && encoder.dialect.cache_mark.is_none(),
        ),
    ];
    if tool.cache.is_some() && (entries.get("/cache_control").is_some() || encoder.dialect.cache_mark.is_some()) {
        encoder.loss.remark(
            Feature::WireSpelling,
            format!("{path}/cache/breakpoint"),
            "said as the member `cache_control` of the definition",
        );
    }
    for (member, feature, is_lost) in lost {
        if is_lost {
            encoder
                .loss
                .info(feature, format!("{path}/{member}"), "the target has no form for it");
        }
    }
}

/// A name that two tools have is refused: the first one keeps it.
fn only_once(encoder: &mut RequestEncoder, wire: &mut wire::Request) {
    let Some(tools) = &mut wire.tools else { return };
    let mut seen: BTreeSet<String> = BTreeSet::new();
    tools.retain(|tool| {
        let function = tool.function.as_ref().and_then(|f| f.name.clone());
        let name = function.or_else(|| tool.custom.as_ref().and_then(|c| c.name.clone()));
        let is_first = name.as_ref().is_none_or(|name| seen.insert(name.clone()));
        if !is_first {
            encoder.loss.warning(
                Feature::ToolName,
                "/tools",
                format!("two tools are named {}; the target gets the first one", name.unwrap_or_default()),
            );
        }
        is_first
    });
}

/// Whether the target takes the options of the search models.
fn takes_options(encoder: &RequestEncoder) -> bool {
    encoder.dialect.web_search == WebSearch::Options
        && (encoder.same_family || encoder.capabilities.support(Feature::ToolHostedWebSearch) == Support::Lossless)
}

/// Options of a hosted search that have no form; size and place have one where `has_place`.
fn lost_options(encoder: &mut RequestEncoder, tool: &UnifiedToolDefinition, path: &str, has_place: bool) {
    let Some(config) = &tool.config else { return };
    let lost = [
        ("allowedDomains", config.allowed_domains.is_some()),
        ("blockedDomains", config.blocked_domains.is_some()),
        ("maxUses", config.max_uses.is_some()),
        ("contextSize", config.context_size.is_some() && !has_place),
        ("userLocation", config.user_location.is_some() && !has_place),
        ("maxContentTokens", config.max_content_tokens.is_some()),
        ("searchTypes", config.search_types.is_some()),
        ("timeRange", config.time_range.is_some()),
        ("citations", config.citations.is_some()),
    ];
    for (member, _) in lost.iter().filter(|(_, is_lost)| *is_lost) {
        encoder.loss.info(
            Feature::ToolHostedWebSearch,
            format!("{path}/config/{member}"),
            "the target's search has no such option",
        );
    }
}

/// A hosted search in the form of the dialect.
fn search_of_dialect(encoder: &mut RequestEncoder, tool: &UnifiedToolDefinition, path: &str, wire: &mut wire::Request, extra: &mut Extra) {
    if let Support::Unsupported(why) = encoder.capabilities.support(Feature::ToolHostedWebSearch) {
        let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
        encoder.loss.intent(requirement, Feature::ToolHostedWebSearch, path, why);
        return;
    }
    encoder.loss.info(
        Feature::ToolHostedWebSearch,
        format!("{path}/kind"),
        "the search is asked for in the form of the dialect",
    );
    let offer = |wire: &mut wire::Request, kind: &str, member: &str, value: Value| {
        wire.tools.get_or_insert_default().push(wire::Tool {
            kind: Some(kind.to_owned()),
            function: None,
            custom: None,
            extra: Extra(vec![(member.to_owned(), Json::from_value(&value))]),
        });
    };
    match encoder.dialect.web_search {
        WebSearch::Options => {}
        WebSearch::Plugin => extra.0.push(("plugins".into(), Json::from_value(&json!([{"id": "web"}])))),
        WebSearch::Parameters => {
            let country = tool
                .config
                .as_ref()
                .and_then(|c| c.user_location.as_ref())
                .and_then(|l| l.country.clone());
            let mut parameters = json!({"mode": "auto"});
            if let (Some(country), Some(members)) = (country, parameters.as_object_mut()) {
                members.insert("sources".into(), json!([{"type": "web", "country": country}]));
            }
            extra.0.push(("search_parameters".into(), Json::from_value(&parameters)));
        }
        WebSearch::Builtin => offer(wire, "builtin_function", "function", json!({"name": "$web_search"})),
        WebSearch::Tool => offer(wire, "web_search", "web_search", json!({"enable": true})),
    }
    lost_options(encoder, tool, path, false);
}

/// A custom tool as a function with one text.
fn custom_as_function(encoder: &mut RequestEncoder, tool: &UnifiedToolDefinition, path: &str) -> wire::FunctionDefinition {
    let name = name_of(encoder, tool, path);
    let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Optional);
    encoder.loss.intent(
        requirement,
        Feature::ToolCustom,
        format!("{path}/kind"),
        "the dialect has no custom tools; it is a function with one text",
    );
    let grammar = tool.grammar.as_ref().filter(|g| g.syntax != GrammarSyntax::Text);
    if grammar.is_some() {
        let strength = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
        let why = "the dialect enforces no grammar on a tool's input";
        encoder.loss.intent(strength, Feature::ToolCustom, format!("{path}/grammar"), why);
    }
    let parameters = json!({"type": "object", "properties": {CUSTOM_INPUT: {"type": "string"}}, "required": [CUSTOM_INPUT], "additionalProperties": false});
    wire::FunctionDefinition {
        name: Some(name),
        description: tool.description.clone(),
        parameters: Some(Json::from_value(&parameters)),
        strict: None,
        extra: Extra::default(),
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
    if let (Some(wanted), Support::Unsupported(why)) = (strict, encoder.capabilities.support(Feature::ToolStrict)) {
        strict = None;
        if wanted {
            let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
            encoder.loss.intent(requirement, Feature::ToolStrict, format!("{path}/strict"), why);
        } else {
            encoder.loss.info(Feature::ToolStrict, format!("{path}/strict"), why);
        }
    }
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

fn choice(encoder: &mut RequestEncoder, root: &Entries, form: &Form, wire: &mut wire::Request, names: &[String]) {
    let Some(choice) = &encoder.request.tool_choice else {
        if let Some(raw) = root.get("/tool_choice") {
            wire.tool_choice = Some(raw.clone());
        }
        return;
    };
    if choice.validated.is_some() {
        let reason = "calls are checked by tool, with `strict`, not for the request as a whole";
        encoder
            .loss
            .otherwise(choice.requirement, Feature::ToolChoice, "/toolChoice/validated", reason);
    }
    let max = encoder.capabilities.knobs().max_tool_name_length;
    let has_custom = encoder.has_custom();
    let offered = &encoder.request.tools;
    let selector = |s: &UnifiedToolSelector| {
        let kind = if s.tool_type == UnifiedToolType::Custom && has_custom {
            "custom"
        } else {
            "function"
        };
        // The name on the wire has the namespace of the tool that is meant.
        let given = s.name.as_deref().unwrap_or_default();
        let tool = offered.iter().find(|t| t.kind == s.tool_type && t.name.as_deref() == Some(given));
        let name = crate::tool_name::wire(tool.and_then(|t| t.namespace.as_deref()), given, max).into_owned();
        let is_known = matches!(s.tool_type, UnifiedToolType::Function | UnifiedToolType::Custom) && names.contains(&name);
        is_known.then(|| json!({"type": kind, kind: {"name": name}}))
    };
    let support = encoder.capabilities.support(match choice.kind {
        ToolChoiceKind::Allowed => Feature::ToolChoiceAllowed,
        ToolChoiceKind::Auto | ToolChoiceKind::None | ToolChoiceKind::Required | ToolChoiceKind::Named => Feature::ToolChoice,
    });
    let is_plain = matches!(choice.kind, ToolChoiceKind::Auto | ToolChoiceKind::None);
    match support {
        Support::Lossless => {}
        Support::Degraded(_) if is_plain || encoder.dialect.name == "llama-cpp" => {}
        // The report of intents has said it already.
        Support::Degraded(_) | Support::Unsupported(_) => return,
    }
    // What the wire said besides, where it still means this choice.
    let written = root
        .get("/tool_choice")
        .filter(|raw| super::decode_settings::tool_choice(raw).as_ref() == Some(choice));
    let value = match choice.kind {
        ToolChoiceKind::Auto => Some(json!("auto")),
        ToolChoiceKind::None => Some(json!("none")),
        ToolChoiceKind::Required => Some(json!(encoder.dialect.any)),
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
            let json = Some(written.cloned().unwrap_or_else(|| Json::from_value(&value)));
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
