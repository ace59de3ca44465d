//! Tool definitions of the wire.

use super::decode_request::ttl;
use super::kept::Keeper;
use super::wire::{CacheControl, CustomTool, Members, VendorTool};
use crate::feature::Feature;
use crate::keeper;
use crate::raw::below;
use crate::raw::{self};
use crate::wire::peek_tag;
use throughline_format::cache::UnifiedCacheDirective;
use throughline_format::tool::{Caller, Execution, Portability, UnifiedHostedToolConfig, UserLocation};
use throughline_format::{Json, UnifiedError, UnifiedId, UnifiedToolDefinition, UnifiedToolType};

/// Stems of the vendor's tool types with what they are; the longest stem that matches counts.
pub(super) const VENDOR_TOOLS: &[(&str, UnifiedToolType, Execution, Portability)] = &[
    ("bash", UnifiedToolType::Shell, Execution::Client, Portability::Portable),
    ("text_editor", UnifiedToolType::TextEditor, Execution::Client, Portability::Portable),
    ("memory", UnifiedToolType::Memory, Execution::Client, Portability::Portable),
    ("computer", UnifiedToolType::ComputerUse, Execution::Client, Portability::Equivalent),
    (
        "web_search",
        UnifiedToolType::WebSearch,
        Execution::Provider,
        Portability::Equivalent,
    ),
    ("web_fetch", UnifiedToolType::WebFetch, Execution::Provider, Portability::Equivalent),
    (
        "code_execution",
        UnifiedToolType::CodeExecution,
        Execution::Provider,
        Portability::Equivalent,
    ),
    (
        "tool_search_tool_bm25",
        UnifiedToolType::ToolSearch,
        Execution::Provider,
        Portability::Equivalent,
    ),
    (
        "tool_search_tool_regex",
        UnifiedToolType::ToolSearch,
        Execution::Provider,
        Portability::Equivalent,
    ),
    (
        "computer_toolset",
        UnifiedToolType::ComputerUse,
        Execution::Client,
        Portability::Equivalent,
    ),
    (
        "browser_toolset",
        UnifiedToolType::ComputerUse,
        Execution::Client,
        Portability::Equivalent,
    ),
    ("mcp_toolset", UnifiedToolType::Mcp, Execution::Provider, Portability::Equivalent),
    ("advisor", UnifiedToolType::Advisor, Execution::Provider, Portability::OwnerBound),
];

/// All definitions of a request.
pub(super) fn tools(keeper: &mut Keeper, raw: Vec<Json>) -> Result<Vec<UnifiedToolDefinition>, UnifiedError> {
    raw.into_iter()
        .enumerate()
        .map(|(n, raw)| {
            let (tool_id, path) = (keeper.context.operation_id.tool(n as u64), format!("/tools/{n}"));
            let decoded = match peek_tag(raw.as_str(), "type").as_deref() {
                None | Some("custom") => {
                    throughline_format::json::decode_str(raw.as_str()).map(|tool| custom(keeper, tool_id, tool, &path))
                }
                Some(_) => throughline_format::json::decode_str(raw.as_str()).map(|tool| vendor(keeper, tool_id, tool, &path)),
            };
            decoded.map_err(|error| UnifiedError::from(error.within(&path)))
        })
        .collect()
}

fn custom(keeper: &mut Keeper, tool_id: UnifiedId, wire: CustomTool, path: &str) -> UnifiedToolDefinition {
    let mut fields: Vec<_> = wire.extra.into_unmapped().collect();
    let mut tool = UnifiedToolDefinition::function(tool_id.clone(), wire.name);
    tool.description = wire.description;
    tool.input_schema = wire.input_schema;
    tool.input_examples = wire.input_examples;
    tool.strict = wire.strict;
    tool.defer_loading = wire.defer_loading;
    tool.eager_input = wire.eager_input_streaming;
    tool.allowed_callers = callers(keeper, path, wire.allowed_callers, &mut fields);
    tool.cache = directive(keeper, path, wire.cache_control, &mut fields);
    tool.provider_data = keeper::references([keeper.unmapped(&tool_id, path, fields)]);
    tool
}

fn vendor(keeper: &mut Keeper, tool_id: UnifiedId, wire: VendorTool, path: &str) -> UnifiedToolDefinition {
    let mut fields: Vec<_> = wire.extra.into_unmapped().collect();
    let (stem, version) = split_date(&wire.kind);
    let known = VENDOR_TOOLS.iter().find(|(known, ..)| *known == stem);
    let (kind, execution, portability) = known.map_or_else(
        || {
            (
                UnifiedToolType::Other(format!("anthropic-messages:{stem}").into()),
                Execution::Provider,
                Portability::OwnerBound,
            )
        },
        |(_, kind, execution, portability)| (kind.clone(), *execution, *portability),
    );
    let mut config = UnifiedHostedToolConfig {
        allowed_domains: wire.allowed_domains,
        blocked_domains: wire.blocked_domains,
        max_uses: wire.max_uses,
        max_content_tokens: wire.max_content_tokens,
        citations: wire.citations.as_ref().and_then(|c| c.enabled),
        display_width: wire.display_width_px,
        display_height: wire.display_height_px,
        zoom: wire.enable_zoom,
        server_label: wire.mcp_server_name,
        ..UnifiedHostedToolConfig::default()
    };
    config.environment = stem.strip_suffix("_toolset").filter(|what| *what != "mcp").map(str::to_owned);
    match stem {
        "mcp_toolset" => {
            config.allowed_tools = allowed(&fields);
            if only_allows(&fields) {
                // An encoder writes the same switches again.
                fields.retain(|(pointer, _)| !matches!(pointer.as_str(), "/default_config" | "/configs"));
                for member in ["default_config", "configs"] {
                    let reason = "said by the names of the tools that may be called";
                    keeper.loss.info(Feature::WireSpelling, format!("{path}/{member}"), reason);
                }
            }
        }
        "computer_toolset" | "browser_toolset" => config.excluded_actions = excluded(&fields),
        _ => {}
    }
    fields.extend(below("/citations", wire.citations.map(|c| c.extra.0).unwrap_or_default()));
    config.user_location = wire.user_location.map(|place| {
        let loss = &mut keeper.loss;
        loss.only_word(format!("{path}/user_location/type"), place.kind.as_deref(), "approximate");
        fields.extend(below("/user_location", place.extra.0));
        UserLocation {
            city: place.city,
            region: place.region,
            country: place.country,
            timezone: place.timezone,
            ..UserLocation::default()
        }
    });
    let mut tool = UnifiedToolDefinition::new(tool_id.clone(), kind, execution, portability, wire.name);
    tool.version = version.map(str::to_owned);
    tool.config = (config != UnifiedHostedToolConfig::default()).then_some(config);
    tool.input_examples = wire.input_examples;
    tool.strict = wire.strict;
    tool.defer_loading = wire.defer_loading;
    tool.allowed_callers = callers(keeper, path, wire.allowed_callers, &mut fields);
    tool.cache = directive(keeper, path, wire.cache_control, &mut fields);
    tool.provider_data = keeper::references([keeper.unmapped(&tool_id, path, fields)]);
    tool
}

/// Whether the switches of a server's tools say nothing but which of them are on.
fn only_allows(fields: &[(String, Json)]) -> bool {
    let of = |pointer: &str| fields.iter().find(|(key, _)| key == pointer).map(|(_, value)| raw::members(value));
    let is_switch = |members: &[(String, Json)], on: &str| matches!(members, [(key, value)] if key == "enabled" && value.as_str() == on);
    let (Some(default), Some(configs)) = (of("/default_config"), of("/configs")) else {
        return false;
    };
    is_switch(&default, "false") && configs.iter().all(|(_, switch)| is_switch(&raw::members(switch), "true"))
}

/// The tools of an MCP server that are on where all others are off.
fn allowed(fields: &[(String, Json)]) -> Option<Vec<String>> {
    let of = |pointer: &str| fields.iter().find(|(key, _)| key == pointer).map(|(_, value)| value);
    let off = of("/default_config")?.decode::<Switch>().ok()?.enabled == Some(false);
    let members = of("/configs").and_then(|configs| configs.decode::<Members>().ok());
    off.then(|| switched(members, true))
}

/// The members of a toolset that are off.
fn excluded(fields: &[(String, Json)]) -> Option<Vec<String>> {
    let (_, configs) = fields.iter().find(|(key, _)| key == "/configs")?;
    let off = switched(configs.decode().ok(), false);
    (!off.is_empty()).then_some(off)
}

/// Names whose switch stands so.
fn switched(configs: Option<Members>, on: bool) -> Vec<String> {
    let members = configs.map(|configs| configs.extra.0).unwrap_or_default();
    let stands = |value: &Json| value.decode::<Switch>().is_ok_and(|switch| switch.enabled == Some(on));
    members
        .into_iter()
        .filter(|(_, value)| stands(value))
        .map(|(name, _)| name)
        .collect()
}

#[derive(serde::Deserialize)]
struct Switch {
    enabled: Option<bool>,
}

/// A dated type as stem and date.
fn split_date(kind: &str) -> (&str, Option<&str>) {
    match kind.rsplit_once('_') {
        Some((stem, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => (stem, Some(date)),
        _ => (kind, None),
    }
}

/// Callers in the record's words; dated words are kept too.
fn callers(keeper: &mut Keeper, path: &str, words: Option<Vec<String>>, fields: &mut Vec<(String, Json)>) -> Option<Vec<Caller>> {
    let words = words?;
    if words.iter().any(|word| word != "direct") {
        fields.push(("/allowed_callers".into(), raw::json(&words)));
    } else {
        keeper.loss.info(
            Feature::WireSpelling,
            format!("{path}/allowed_callers"),
            "said by the words of the record",
        );
    }
    Some(
        words
            .iter()
            .map(|word| if word == "direct" { Caller::Model } else { Caller::Code })
            .collect(),
    )
}

fn directive(
    keeper: &mut Keeper,
    path: &str,
    control: Option<CacheControl>,
    fields: &mut Vec<(String, Json)>,
) -> Option<UnifiedCacheDirective> {
    let control = control?;
    let loss = &mut keeper.loss;
    loss.only_word(format!("{path}/cache_control/type"), control.kind.as_deref(), "ephemeral");
    let directive = UnifiedCacheDirective::mark(ttl(&control));
    fields.extend(below("/cache_control", control.extra.0));
    Some(directive)
}
