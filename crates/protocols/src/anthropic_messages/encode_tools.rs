//! Tools and tool choice for the wire.

use super::decode_state::SERVER_ONLY;
use super::decode_tools::VENDOR_TOOLS;
use super::encode_block::{BlockEncoder, typed};
use super::encode_history::Mark;
use super::encode_state;
use super::schema;
use crate::capability::Capabilities;
use crate::feature::Feature;
use crate::raw::{self};
use crate::raw::{json, object};
use crate::tool_offer::ToolOffer;
use std::borrow::Cow;
use std::collections::BTreeSet;
use throughline_format::intent::{ParallelTools, UnifiedRequirement};
use throughline_format::loss::LossSeverity;
use throughline_format::tool::{AllowedMode, ApprovalRule, Caller, ToolApproval, ToolChoiceKind, UnifiedHostedToolConfig};
use throughline_format::{Json, UnifiedRequestV2, UnifiedToolDefinition, UnifiedToolType};

/// A tool as the wire takes it, with its cache mark.
pub(super) struct WireTool {
    /// The definition.
    pub(super) json: Json,
    /// Its mark.
    pub(super) mark: Option<Mark>,
    /// Whether it may carry one.
    pub(super) markable: bool,
    /// Its name.
    pub(super) name: Option<String>,
    /// Pointer into the record.
    pub(super) path: String,
}

/// The name as the wire may carry it: itself, else with other characters replaced and a digest that keeps names apart.
pub(super) fn wire_name<'a>(name: &'a str, capabilities: &Capabilities) -> Cow<'a, str> {
    crate::tool_name::wire(None, name, capabilities.knobs().max_tool_name_length)
}

/// All tools that the target can offer.
pub(super) fn tools(encoder: &mut BlockEncoder<'_>, request: &UnifiedRequestV2) -> Vec<WireTool> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (n, tool) in request.tools.iter().enumerate() {
        let path = format!("/tools/{n}");
        let mut entries = encode_state::all_unmapped(encoder, tool);
        entries.retain(|entry| !encode_state::is_of_server(entry));
        let json = match ToolOffer::of(tool, !entries.is_empty()) {
            ToolOffer::OwnForm => tool_json(encoder, tool, &path),
            ToolOffer::OwnFormOrFunction if has_form(tool) => tool_json(encoder, tool, &path),
            ToolOffer::OwnFormOrFunction | ToolOffer::Function => {
                if tool.kind != UnifiedToolType::Function {
                    encoder.loss.info(
                        Feature::of_tool(&tool.kind),
                        format!("{path}/kind"),
                        "who executes it is on this side; the target gets a function",
                    );
                }
                Some(function(encoder, tool, &path))
            }
            ToolOffer::Withheld(why) => {
                lost(encoder, tool, Feature::of_tool(&tool.kind), &path, why);
                None
            }
        };
        let Some(json) = json else { continue };
        let name = tool
            .name
            .as_deref()
            .map(|name| wire_name(name, &encoder.context.capabilities).into_owned());
        if name.as_ref().is_some_and(|name| !names.insert(name.clone())) {
            encoder
                .loss
                .warning(Feature::ToolName, path, "another tool has this name; the second is left out");
            continue;
        }
        if entries.is_empty() && tool.provider_data.as_ref().is_some_and(|d| !d.is_empty()) {
            encoder
                .loss
                .info(Feature::WireUnmapped, path.clone(), "fields of another owner's wire stay with it");
        }
        if tool.allowed_callers.is_some() {
            encoder.remark(&format!("{path}/allowedCallers"), "said by the words of the wire");
        }
        let mark = tool.cache.as_ref().filter(|c| c.breakpoint).map(|c| Mark(c.ttl));
        found.push(WireTool {
            json: raw::put_all(json, &entries),
            mark,
            markable: tool.defer_loading != Some(true),
            name,
            path,
        });
    }
    if !found.is_empty()
        && request.tools.iter().all(|t| t.defer_loading == Some(true))
        && let Some(first) = found.first_mut()
    {
        encoder.loss.warning(
            Feature::ToolDeferLoading,
            first.path.clone(),
            "at least one tool must not be deferred",
        );
        first.json = raw::put(&first.json, "/defer_loading", &json(&false));
        first.markable = true;
    }
    found
}

fn lost(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, feature: Feature, path: &str, reason: &str) {
    let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
    encoder.loss.add(LossSeverity::of_requirement(requirement), feature, path, reason);
}

fn tool_json(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, path: &str) -> Option<Json> {
    match &tool.kind {
        UnifiedToolType::Function => Some(function(encoder, tool, path)),
        UnifiedToolType::Custom => {
            lost(
                encoder,
                tool,
                Feature::ToolCustom,
                path,
                "offered as a function with one text argument",
            );
            let schema = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;
            let description = tool.grammar.as_ref().and_then(|g| g.definition.as_ref()).map_or_else(
                || tool.description.clone(),
                |grammar| {
                    Some(format!(
                        "{}\n\nThe input follows this grammar:\n{grammar}",
                        tool.description.clone().unwrap_or_default()
                    ))
                },
            );
            Some(custom(
                &encoder.context.capabilities,
                tool,
                description,
                Json::from_text(schema.to_owned()).unwrap_or_else(|_| Json::null()),
                None,
            ))
        }
        kind => vendor(encoder, tool, kind, path),
    }
}

fn function(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, path: &str) -> Json {
    if tool
        .name
        .as_deref()
        .is_some_and(|name| wire_name(name, &encoder.context.capabilities) != name)
    {
        encoder.loss.warning(
            Feature::ToolName,
            format!("{path}/name"),
            "the target's alphabet for tool names is smaller",
        );
    }
    if tool.output_schema.is_some() {
        encoder.loss.info(
            Feature::ToolFunction,
            format!("{path}/outputSchema"),
            "the target has no output schema",
        );
    }
    if tool.approval.is_some() {
        lost(
            encoder,
            tool,
            Feature::ToolApproval,
            &format!("{path}/approval"),
            "the target asks nobody for approval",
        );
    }
    let given = tool
        .input_schema
        .clone()
        .unwrap_or_else(|| object(vec![("type".into(), json("object")), ("properties".into(), object(Vec::new()))]));
    let (schema, changed) = schema::object_schema(&given);
    if changed {
        lost(
            encoder,
            tool,
            Feature::ToolFunction,
            &format!("{path}/inputSchema"),
            "the target takes plain object schemas only; the rest is told in the description",
        );
    }
    let mut description = tool.description.clone();
    if changed && tool.input_schema.is_some() {
        description = Some(
            format!(
                "{}\n\nThe input also follows this JSON Schema: {}",
                description.unwrap_or_default(),
                given.as_str()
            )
            .trim()
            .to_owned(),
        );
    }
    let mut strict = tool.strict;
    if strict == Some(true) && !schema::is_strict(&schema) {
        lost(
            encoder,
            tool,
            Feature::ToolStrict,
            &format!("{path}/strict"),
            "the schema is outside the target's strict subset",
        );
        strict = None;
    }
    custom(&encoder.context.capabilities, tool, description, schema, strict)
}

fn custom(
    capabilities: &Capabilities,
    tool: &UnifiedToolDefinition,
    description: Option<String>,
    schema: Json,
    strict: Option<bool>,
) -> Json {
    let name = wire_name(tool.name.as_deref().unwrap_or("tool"), capabilities).into_owned();
    let mut members = vec![("name".to_owned(), json(&name))];
    let mut add = |key: &str, value: Option<Json>| members.extend(value.map(|v| (key.to_owned(), v)));
    add("description", description.map(|d| json(&d)));
    add("input_schema", Some(schema));
    add("input_examples", tool.input_examples.as_ref().map(json));
    add("strict", strict.map(|s| json(&s)));
    add("defer_loading", tool.defer_loading.map(|d| json(&d)));
    add("eager_input_streaming", tool.eager_input.map(|e| json(&e)));
    add("allowed_callers", tool.allowed_callers.as_ref().map(|c| callers(c)));
    object(members)
}

fn callers(callers: &[Caller]) -> Json {
    let words: Vec<_> = callers
        .iter()
        .map(|c| {
            if *c == Caller::Model {
                "direct"
            } else {
                super::DEFAULT_CODE_CALLER
            }
        })
        .collect();
    json(&words)
}

/// The dated type that a foreign tool is offered as.
const fn default_version(kind: &UnifiedToolType) -> Option<&'static str> {
    match kind {
        UnifiedToolType::WebSearch => Some("20250305"),
        UnifiedToolType::WebFetch => Some("20250910"),
        UnifiedToolType::CodeExecution => Some("20250825"),
        _ => None,
    }
}

/// Whether the wire has the tool as its own: a dated type that it came with, or one that a tool without a date is offered as.
fn has_form(tool: &UnifiedToolDefinition) -> bool {
    let is_known = VENDOR_TOOLS.iter().any(|(_, kind, ..)| *kind == tool.kind);
    is_known && (tool.version.is_some() || default_version(&tool.kind).is_some()) || matches!(tool.kind, UnifiedToolType::Other(_))
}

fn vendor(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, kind: &UnifiedToolType, path: &str) -> Option<Json> {
    let feature = Feature::of_tool(kind);
    let config = tool.config.clone().unwrap_or_default();
    let stem = match kind {
        UnifiedToolType::Mcp => return mcp_toolset(encoder, tool, &config, path),
        // The container has the skills.
        UnifiedToolType::Skill => return None,
        UnifiedToolType::Other(word) => word.strip_prefix("anthropic-messages:"),
        UnifiedToolType::ToolSearch => Some(if tool.name.as_deref().is_some_and(|n| n.contains("regex")) {
            "tool_search_tool_regex"
        } else {
            "tool_search_tool_bm25"
        }),
        UnifiedToolType::ComputerUse if tool.name.is_none() => match config.environment.as_deref() {
            Some("browser") => Some("browser_toolset"),
            Some("computer") => Some("computer_toolset"),
            _ => None,
        },
        known => VENDOR_TOOLS.iter().find(|(_, kind, ..)| kind == known).map(|(stem, ..)| *stem),
    };
    let native = tool.version.is_some() || matches!(kind, UnifiedToolType::Other(_) | UnifiedToolType::ToolSearch);
    let Some(stem) = stem.filter(|_| native || default_version(kind).is_some()) else {
        lost(encoder, tool, feature, path, "the target has no such hosted tool");
        return None;
    };
    if tool.version.is_none() && default_version(kind).is_some() {
        lost(encoder, tool, feature, path, "offered as the target's own hosted tool");
    }
    let word = match tool.version.as_deref().or(default_version(kind)) {
        Some(version) => format!("{stem}_{version}"),
        None => stem.to_owned(),
    };
    if stem.ends_with("_toolset") {
        encoder.remark(&format!("{path}/config/environment"), "said by the type of the tool");
    }
    let name = tool.name.clone().or_else(|| default_version(kind).map(|_| stem.to_owned()));
    Some(vendor_json(tool, &word, name, &config))
}

/// The toolset of an MCP server; the server itself stands in a list of its own.
fn mcp_toolset(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, config: &UnifiedHostedToolConfig, path: &str) -> Option<Json> {
    let native = encode_state::all_unmapped(encoder, tool).is_empty() && config.server_url.is_none() && config.connector.is_none();
    if config.server_label.is_none() || (config.server_url.is_none() && !native) {
        lost(
            encoder,
            tool,
            Feature::ToolHostedMcp,
            path,
            "the target takes servers with a name and an address",
        );
        return None;
    }
    if tool
        .approval
        .as_ref()
        .is_some_and(|rule| *rule != ToolApproval::Rule(ApprovalRule::Never))
    {
        let path = format!("{path}/approval");
        lost(encoder, tool, Feature::ToolApproval, &path, "the target asks nobody for approval");
    }
    if config.description.is_some() {
        encoder.loss.info(
            Feature::ToolDescription,
            format!("{path}/config/description"),
            "the target describes no servers",
        );
    }
    if tool.version.as_deref() == Some(SERVER_ONLY) {
        encoder.remark(&format!("{path}/version"), "the server stands alone, without a toolset");
        return None;
    }
    let switch = |on: bool| object(vec![("enabled".into(), json(&on))]);
    let allowed = config.allowed_tools.as_ref();
    let configs = allowed.map(|names| object(names.iter().map(|name| (name.clone(), switch(true))).collect()));
    Some(typed(
        "mcp_toolset",
        [
            ("mcp_server_name", config.server_label.as_ref().map(json)),
            ("default_config", allowed.map(|_| switch(false))),
            ("configs", configs),
            ("defer_loading", tool.defer_loading.map(|v| json(&v))),
        ],
    ))
}

fn vendor_json(tool: &UnifiedToolDefinition, word: &str, name: Option<String>, config: &UnifiedHostedToolConfig) -> Json {
    let place = config.user_location.as_ref().map(|place| {
        typed(
            "approximate",
            [
                ("city", place.city.as_ref().map(json)),
                ("region", place.region.as_ref().map(json)),
                ("country", place.country.as_ref().map(json)),
                ("timezone", place.timezone.as_ref().map(json)),
            ],
        )
    });
    let off = config.excluded_actions.as_ref();
    let configs = off.map(|names| {
        let switch = object(vec![("enabled".into(), json(&false))]);
        object(names.iter().map(|name| (name.clone(), switch.clone())).collect())
    });
    let blocked = config
        .blocked_domains
        .as_ref()
        .filter(|_| config.allowed_domains.as_ref().is_none_or(Vec::is_empty));
    typed(
        word,
        [
            ("name", name.map(|n| json(&n))),
            ("allowed_domains", config.allowed_domains.as_ref().map(json)),
            ("blocked_domains", blocked.map(json)),
            ("max_uses", config.max_uses.map(|v| json(&v))),
            ("max_content_tokens", config.max_content_tokens.map(|v| json(&v))),
            ("user_location", place),
            ("citations", config.citations.map(|on| object(vec![("enabled".into(), json(&on))]))),
            ("display_width_px", config.display_width.map(|v| json(&v))),
            ("display_height_px", config.display_height.map(|v| json(&v))),
            ("enable_zoom", config.zoom.map(|v| json(&v))),
            ("configs", configs),
            ("input_examples", tool.input_examples.as_ref().map(json)),
            ("strict", tool.strict.map(|v| json(&v))),
            ("defer_loading", tool.defer_loading.map(|v| json(&v))),
            ("allowed_callers", tool.allowed_callers.as_ref().map(|c| callers(c))),
        ],
    )
}

/// Definitions for tools that the history names and the request does not: the wire wants every called tool defined.
pub(super) fn historic(encoder: &mut BlockEncoder<'_>, names: BTreeSet<String>) -> Vec<WireTool> {
    let schema = object(vec![("type".into(), json("object")), ("properties".into(), object(Vec::new()))]);
    names
        .into_iter()
        .map(|name| {
            encoder.loss.info(
                Feature::ToolFunction,
                "/tools",
                "a tool of the history is defined for the target, which demands it; it may not be called",
            );
            let json = object(vec![("name".into(), json(&name)), ("input_schema".into(), schema.clone())]);
            WireTool {
                json,
                mark: None,
                markable: true,
                name: Some(name),
                path: "/tools".into(),
            }
        })
        .collect()
}

/// The tool choice, the parallel policy included.
pub(super) fn choice(encoder: &mut BlockEncoder<'_>, request: &UnifiedRequestV2, tools: &[WireTool]) -> Option<Json> {
    let parallel = request.generation.parallel_tools.as_ref();
    if parallel.is_some() {
        encoder.remark("/generation/parallelTools", "said by the switch of the tool choice");
    }
    let disable = parallel.map(|p| ("disable_parallel_tool_use", Some(json(&(p.value == ParallelTools::OneAtATime)))));
    let Some(choice) = &request.tool_choice else {
        if tools.is_empty() {
            if let Some(parallel) = parallel {
                encoder.loss.intent(
                    parallel.requirement,
                    Feature::GenerationParallelTools,
                    "/generation/parallelTools",
                    "there are no tools to call",
                );
            }
            return None;
        }
        return disable.map(|disable| typed("auto", [disable]));
    };
    let lost =
        |encoder: &mut BlockEncoder<'_>, feature, reason: &str| encoder.loss.intent(choice.requirement, feature, "/toolChoice", reason);
    let name = choice
        .tool
        .as_ref()
        .and_then(|t| t.name.as_deref())
        .map(|n| wire_name(n, &encoder.context.capabilities).into_owned());
    let named = |encoder: &mut BlockEncoder<'_>, name: Option<String>| {
        let known = name.filter(|name| tools.iter().any(|t| t.name.as_ref() == Some(name)));
        if known.is_none() {
            lost(encoder, Feature::ToolChoice, "the chosen tool is not offered");
        }
        known
    };
    let (kind, name) = match choice.kind {
        ToolChoiceKind::Auto => ("auto", None),
        ToolChoiceKind::None => ("none", None),
        ToolChoiceKind::Required => ("any", None),
        ToolChoiceKind::Named => match named(encoder, name) {
            Some(name) => ("tool", Some(name)),
            None => ("auto", None),
        },
        ToolChoiceKind::Allowed => match (choice.tools.as_deref(), choice.mode) {
            (Some([one]), Some(AllowedMode::Required)) => match named(
                encoder,
                one.name
                    .as_deref()
                    .map(|n| wire_name(n, &encoder.context.capabilities).into_owned()),
            ) {
                Some(name) => ("tool", Some(name)),
                None => ("any", None),
            },
            (_, mode) => {
                lost(
                    encoder,
                    Feature::ToolChoiceAllowed,
                    "the target cannot choose among some of the tools; all are allowed",
                );
                (if mode == Some(AllowedMode::Required) { "any" } else { "auto" }, None)
            }
        },
    };
    if tools.is_empty() && kind != "none" && kind != "auto" {
        lost(encoder, Feature::ToolChoice, "the target forces tools only where there are some");
        return None;
    }
    if let Some(parallel) = parallel.filter(|_| kind == "none") {
        encoder.loss.intent(
            parallel.requirement,
            Feature::GenerationParallelTools,
            "/generation/parallelTools",
            "no tool may be called",
        );
    }
    let disable = disable.filter(|_| kind != "none").unwrap_or(("disable_parallel_tool_use", None));
    Some(typed(kind, [("name", name.map(|n| json(&n))), disable]))
}
