//! Tools and tool choice for the wire.

use super::decode_state::SERVER_ONLY;
use super::decode_tools::VENDOR_TOOLS;
use super::encode_block::{BlockEncoder, is_native, typed};
use super::encode_history::Mark;
use super::encode_state;
use super::schema;
use super::tool_names::Names;
use crate::feature::Feature;
use crate::raw::{self};
use crate::raw::{json, object};
use crate::tool_offer::{ToolOffer, report_as_function, report_restrictions};
use std::collections::BTreeSet;
use throughline_format::intent::{ParallelTools, UnifiedRequirement};
use throughline_format::loss::LossSeverity;
use throughline_format::tool::{
    AllowedMode, ApprovalRule, Caller, Execution, ToolApproval, ToolChoiceKind, UnifiedHostedToolConfig, UnifiedToolSelector,
};
use throughline_format::{Json, ProtocolFamily, UnifiedRequestV2, UnifiedToolDefinition, UnifiedToolType};

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

/// All tools that the target can offer.
pub(super) fn tools(encoder: &mut BlockEncoder<'_>, request: &UnifiedRequestV2) -> Vec<WireTool> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    let is_own = is_native(Some(&request.source.profile));
    for (n, tool) in request.tools.iter().enumerate() {
        let path = format!("/tools/{n}");
        let mut entries = encode_state::all_unmapped(encoder, tool);
        entries.retain(|entry| !encode_state::is_of_server(entry));
        let json = match ToolOffer::of(tool, !entries.is_empty()) {
            ToolOffer::OwnForm => tool_json(encoder, tool, is_own, &path),
            ToolOffer::OwnFormOrFunction if has_form(tool, is_own) => tool_json(encoder, tool, is_own, &path),
            ToolOffer::OwnFormOrFunction | ToolOffer::Function => {
                if tool.kind != UnifiedToolType::Function {
                    report_as_function(&mut encoder.loss, tool, &path);
                }
                Some(function(encoder, tool, &path))
            }
            ToolOffer::Withheld(why) => {
                lost(encoder, tool, Feature::of_tool(&tool.kind), &path, why);
                None
            }
        };
        let Some(json) = json else { continue };
        let name: Option<String> = raw::get(&json, "name").and_then(|name| name.decode().ok());
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

fn tool_json(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, is_own: bool, path: &str) -> Option<Json> {
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
            named(encoder, tool, path);
            Some(custom(
                &encoder.names,
                tool,
                description,
                Json::from_text(schema.to_owned()).unwrap_or_else(|_| Json::null()),
                None,
            ))
        }
        kind => vendor(encoder, tool, kind, is_own, path),
    }
}

/// Tells when a function goes by another name than its own.
fn named(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, path: &str) {
    let name = tool.name.as_deref().unwrap_or("tool");
    if encoder.names.wire(tool.namespace.as_deref(), name) == name {
        return;
    }
    let reason = if encoder.names.is_shared(name) {
        "a tool of the target has this name; calls come back with the function's own"
    } else if tool.namespace.is_some() {
        "the target has no namespaces; this one stands in front of the name"
    } else {
        "the target's alphabet for tool names is smaller"
    };
    encoder.loss.warning(Feature::ToolName, format!("{path}/name"), reason);
}

fn function(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, path: &str) -> Json {
    named(encoder, tool, path);
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
    custom(&encoder.names, tool, description, schema, strict)
}

fn custom(names: &Names, tool: &UnifiedToolDefinition, description: Option<String>, schema: Json, strict: Option<bool>) -> Json {
    let name = names
        .wire(tool.namespace.as_deref(), tool.name.as_deref().unwrap_or("tool"))
        .into_owned();
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

/// The dates that the types of the wire have.
const VERSIONS: &[(&str, &[&str])] = &[
    ("bash", &["20241022", "20250124"]),
    ("text_editor", &["20241022", "20250124", "20250429", "20250728"]),
    ("memory", &["20250818"]),
    ("computer", &["20241022", "20250124", "20251124"]),
    ("computer_toolset", &["20260801"]),
    ("browser_toolset", &["20260801"]),
    ("web_search", &["20250305", "20260209", "20260318"]),
    ("web_fetch", &["20250910", "20260209", "20260309", "20260318"]),
    ("code_execution", &["20250522", "20250825", "20260120", "20260521"]),
    ("tool_search_tool_bm25", &["20251119"]),
    ("tool_search_tool_regex", &["20251119"]),
    ("advisor", &["20260301"]),
];

/// A tool of the provider's as the wire says it.
struct HostedForm {
    /// Its type without the date.
    stem: String,
    /// The date.
    version: Option<String>,
    /// Whether the date is the one that the tool came with.
    is_dated: bool,
    name: Option<String>,
}

/// The tool of the provider's that a tool is offered as. A date counts when it came over this wire or is one of its dates: other
/// wires have dates of their own, and a type that is made of one exists nowhere.
fn hosted_form(tool: &UnifiedToolDefinition, is_own: bool) -> Option<HostedForm> {
    let stem = match &tool.kind {
        // A toolset stands beside its server, and the container has the skills.
        UnifiedToolType::Mcp | UnifiedToolType::Skill => return None,
        UnifiedToolType::Other(word) => word.strip_prefix("anthropic-messages:")?,
        // The provider would search, and the client is to.
        UnifiedToolType::ToolSearch if tool.execution != Execution::Provider => return None,
        UnifiedToolType::ToolSearch if tool.name.as_deref().is_some_and(|n| n.contains("regex")) => "tool_search_tool_regex",
        UnifiedToolType::ToolSearch => "tool_search_tool_bm25",
        UnifiedToolType::ComputerUse if tool.name.is_none() => match tool.config.as_ref()?.environment.as_deref()? {
            "browser" => "browser_toolset",
            "computer" => "computer_toolset",
            _ => return None,
        },
        known => VENDOR_TOOLS.iter().find(|(_, kind, ..)| kind == known).map(|(stem, ..)| *stem)?,
    };
    let is_of_wire = is_own || matches!(tool.kind, UnifiedToolType::Other(_));
    let is_date = |version: &str| {
        let dates = VERSIONS.iter().find(|(known, _)| *known == stem);
        dates.is_some_and(|(_, dates)| dates.contains(&version))
    };
    let dated = tool.version.clone().filter(|version| is_of_wire || is_date(version));
    let default = default_version(&tool.kind);
    let needs_no_date = matches!(tool.kind, UnifiedToolType::Other(_) | UnifiedToolType::ToolSearch);
    if dated.is_none() && default.is_none() && !needs_no_date {
        return None;
    }
    // Names of such tools are fixed; only an editor's depends on its date.
    let fixed = (default.is_some() || tool.kind == UnifiedToolType::ToolSearch).then(|| stem.to_owned());
    let own = tool.name.clone().filter(|_| is_of_wire || dated.is_some());
    Some(HostedForm {
        stem: stem.to_owned(),
        is_dated: dated.is_some(),
        version: dated.or_else(|| default.map(str::to_owned)),
        name: own.or(fixed),
    })
}

/// The name that a tool has at the provider as one of the provider's own.
pub(super) fn hosted_name(tool: &UnifiedToolDefinition) -> Option<String> {
    let is_offered = matches!(ToolOffer::of(tool, true), ToolOffer::OwnForm | ToolOffer::OwnFormOrFunction);
    let is_hosted = !matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom);
    hosted_form(tool, false).filter(|_| is_offered && is_hosted)?.name
}

/// Whether the wire has the tool as its own: a dated type that it came with, or one that a tool without a date is offered as.
fn has_form(tool: &UnifiedToolDefinition, is_own: bool) -> bool {
    match tool.kind {
        UnifiedToolType::Mcp => tool.version.is_some(),
        _ => hosted_form(tool, is_own).is_some(),
    }
}

fn vendor(encoder: &mut BlockEncoder<'_>, tool: &UnifiedToolDefinition, kind: &UnifiedToolType, is_own: bool, path: &str) -> Option<Json> {
    let feature = Feature::of_tool(kind);
    let config = tool.config.clone().unwrap_or_default();
    match kind {
        UnifiedToolType::Mcp => return mcp_toolset(encoder, tool, &config, path),
        // The container has the skills.
        UnifiedToolType::Skill => return None,
        _ => {}
    }
    let Some(form) = hosted_form(tool, is_own) else {
        let reason = if *kind == UnifiedToolType::ToolSearch {
            "the client is to search, and at the target only the provider does"
        } else {
            "the target has no such hosted tool"
        };
        lost(encoder, tool, feature, path, reason);
        return None;
    };
    if !form.is_dated && default_version(kind).is_some() {
        lost(encoder, tool, feature, path, "offered as the target's own hosted tool");
    }
    if tool.version.is_some() && !form.is_dated {
        let reason = "the version is of another wire's tool; the target's own has the target's date";
        encoder.loss.info(feature, format!("{path}/version"), reason);
    }
    if tool.name.is_some() && tool.name != form.name {
        let reason = "the name of the target's own tool is fixed";
        encoder.loss.info(feature, format!("{path}/name"), reason);
    }
    left_behind(encoder, feature, &config, path);
    let word = match &form.version {
        Some(version) => format!("{}_{version}", form.stem),
        None => form.stem.clone(),
    };
    if form.stem.ends_with("_toolset") {
        encoder.remark(&format!("{path}/config/environment"), "said by the type of the tool");
    }
    Some(vendor_json(tool, &word, form.name, &config))
}

/// Options that no tool of the provider's has.
fn left_behind(encoder: &mut BlockEncoder<'_>, feature: Feature, config: &UnifiedHostedToolConfig, path: &str) {
    let reason = "the target's own tool has no such option";
    if config.context_size.is_some() {
        encoder.loss.info(feature, format!("{path}/config/contextSize"), reason);
    }
    for (member, is_there) in [
        ("searchTypes", config.search_types.is_some()),
        ("timeRange", config.time_range.is_some()),
        ("maxResults", config.max_results.is_some()),
        ("scoreThreshold", config.score_threshold.is_some()),
        ("filter", config.filter.is_some()),
        ("ranker", config.ranker.is_some()),
        ("latitude", config.latitude.is_some()),
        ("longitude", config.longitude.is_some()),
        ("language", config.language.is_some()),
        ("widget", config.widget.is_some()),
        ("memoryLimit", config.memory_limit.is_some()),
        ("network", config.network.is_some()),
        ("connector", config.connector.is_some()),
        ("image", config.image.is_some()),
    ] {
        if is_there {
            encoder.loss.warning(feature, format!("{path}/config/{member}"), reason);
        }
    }
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
    if !native {
        report_restrictions(&mut encoder.loss, tool, path);
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

/// The name on the wire of the tool that is meant: by kind and name, else by name alone, else the only one of its kind.
fn offered(request: &UnifiedRequestV2, tools: &[WireTool], wanted: &UnifiedToolSelector) -> Option<String> {
    let find = |is: &dyn Fn(&UnifiedToolDefinition) -> bool| request.tools.iter().position(is);
    let of_kind = find(&|tool| tool.kind == wanted.tool_type && tool.name == wanted.name);
    let at = match wanted.name {
        Some(_) => of_kind.or_else(|| find(&|tool| tool.name == wanted.name)),
        None => of_kind.or_else(|| find(&|tool| tool.kind == wanted.tool_type)),
    }?;
    let path = format!("/tools/{at}");
    tools.iter().find(|tool| tool.path == path)?.name.clone()
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
    if choice.validated.is_some() {
        let reason = "calls are checked by tool, with `strict`, not for the request as a whole";
        encoder
            .loss
            .otherwise(choice.requirement, Feature::ToolChoice, "/toolChoice/validated", reason);
    }
    let lost =
        |encoder: &mut BlockEncoder<'_>, feature, reason: &str| encoder.loss.intent(choice.requirement, feature, "/toolChoice", reason);
    let named = |encoder: &mut BlockEncoder<'_>, tool: Option<&UnifiedToolSelector>| {
        let known = tool.and_then(|tool| offered(request, tools, tool));
        if known.is_none() {
            lost(encoder, Feature::ToolChoice, "the chosen tool is not offered");
        }
        known
    };
    let (kind, name) = match choice.kind {
        ToolChoiceKind::Auto => ("auto", None),
        ToolChoiceKind::None => ("none", None),
        ToolChoiceKind::Required => ("any", None),
        ToolChoiceKind::Named => match named(encoder, choice.tool.as_ref()) {
            Some(name) => ("tool", Some(name)),
            None => ("auto", None),
        },
        ToolChoiceKind::Allowed => match (choice.tools.as_deref(), choice.mode) {
            (Some([one]), Some(AllowedMode::Required)) => match named(encoder, Some(one)) {
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
    let is_own = request.source.profile.family == ProtocolFamily::AnthropicMessages;
    if tools.is_empty() && !is_own && matches!(kind, "none" | "auto") {
        encoder.loss.info(
            Feature::ToolChoice,
            "/toolChoice",
            "there are no tools, and the target takes no choice among none",
        );
        return None;
    }
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
