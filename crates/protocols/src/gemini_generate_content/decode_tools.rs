//! Tools and tool choice of requests.

use super::decode_settings::Settings;
use super::kept::{self, TOOL};
use super::schema;
use super::wire::{FunctionDeclaration, RetrievalConfig, Tool, ToolConfig};
use crate::feature::Feature;
use crate::keeper::{Keep, Keeper, references};
use crate::raw::{self, below, json, object};
use throughline_format::intent::Include;
use throughline_format::resource::ResourceType;
use throughline_format::tool::{
    AllowedMode, Execution, Portability, ToolChoiceKind, UnifiedHostedToolConfig, UnifiedToolSelector, UserLocation,
};
use throughline_format::{Json, UnifiedId, UnifiedToolChoice, UnifiedToolDefinition, UnifiedToolType};

/// Hosted tools of the wire: member, kind, and who executes.
pub(super) const HOSTED: &[(&str, UnifiedToolType, Execution)] = &[
    ("googleSearch", UnifiedToolType::WebSearch, Execution::Provider),
    ("googleSearchRetrieval", UnifiedToolType::WebSearch, Execution::Provider),
    ("enterpriseWebSearch", UnifiedToolType::WebSearch, Execution::Provider),
    ("parallelAiSearch", UnifiedToolType::WebSearch, Execution::Provider),
    ("exaAiSearch", UnifiedToolType::WebSearch, Execution::Provider),
    ("urlContext", UnifiedToolType::UrlContext, Execution::Provider),
    ("codeExecution", UnifiedToolType::CodeExecution, Execution::Provider),
    ("googleMaps", UnifiedToolType::Maps, Execution::Provider),
    ("fileSearch", UnifiedToolType::FileSearch, Execution::Provider),
    ("retrieval", UnifiedToolType::Retrieval, Execution::Provider),
    ("computerUse", UnifiedToolType::ComputerUse, Execution::Client),
    ("mcpServers", UnifiedToolType::Mcp, Execution::Provider),
];

/// Reads the tools: every function and every hosted member is one definition.
pub(super) fn tools(keeper: &mut Keeper, list: Vec<Tool>, prefix: &str) -> Vec<UnifiedToolDefinition> {
    let mut found = Vec::new();
    for (group, tool) in list.into_iter().enumerate() {
        let path = format!("{prefix}/tools/{group}");
        let empty = tool.function_declarations.as_ref().is_none_or(Vec::is_empty) && tool.extra.is_empty();
        let declared = tool.function_declarations.unwrap_or_default().into_iter().enumerate();
        for (n, declaration) in declared {
            let tool_id = keeper.context.operation_id.tool(found.len() as u64);
            let path = format!("{path}/functionDeclarations/{n}");
            found.push(function(keeper, &tool_id, declaration, group, &path));
        }
        for (key, value) in tool.extra.0 {
            let tool_id = keeper.context.operation_id.tool(found.len() as u64);
            let known = HOSTED.iter().find(|(member, ..)| *member == key);
            let (kind, execution) = known.map_or_else(
                || {
                    let word = format!("gemini-generate-content:{key}");
                    (UnifiedToolType::Other(word.into()), Execution::Provider)
                },
                |(_, kind, execution)| (kind.clone(), *execution),
            );
            found.push(hosted(keeper, &tool_id, &key, value, (kind, execution), group, &path));
        }
        if empty {
            keeper
                .loss
                .info(Feature::ToolFunction, path, "a tool without declarations offers nothing");
        }
    }
    found
}

fn function(keeper: &mut Keeper, tool_id: &UnifiedId, wire: FunctionDeclaration, group: usize, path: &str) -> UnifiedToolDefinition {
    let mut tool = UnifiedToolDefinition::function(tool_id.clone(), wire.name.unwrap_or_default());
    tool.description = wire.description;
    let mut form = Vec::new();
    let mut paths = Vec::new();
    match (wire.parameters_json_schema, wire.parameters) {
        (Some(schema), other) => {
            tool.input_schema = Some(schema);
            form.extend(other.map(|schema| ("parameters".to_owned(), schema)));
        }
        (None, Some(schema)) => {
            tool.input_schema = Some(schema::from_proto(&schema));
            paths.push(format!("{path}/parameters"));
            form.push(("parameters".into(), schema));
        }
        (None, None) => {}
    }
    match (wire.response_json_schema, wire.response) {
        (Some(schema), other) => {
            tool.output_schema = Some(schema);
            form.extend(other.map(|schema| ("response".to_owned(), schema)));
        }
        (None, Some(schema)) => {
            tool.output_schema = Some(schema::from_proto(&schema));
            paths.push(format!("{path}/response"));
            form.push(("response".into(), schema));
        }
        (None, None) => {}
    }
    let unmapped = keeper.unmapped(tool_id, path, wire.extra.into_unmapped());
    let place = place(keeper, tool_id, group, None, form, paths);
    tool.provider_data = references([Some(place), unmapped]);
    tool
}

/// Keeps where a tool stood and how it was spelled.
fn place(
    keeper: &mut Keeper,
    tool_id: &UnifiedId,
    group: usize,
    member: Option<&str>,
    written: Vec<(String, Json)>,
    paths: Vec<String>,
) -> throughline_format::UnifiedProviderDataRef {
    let mut members = vec![("group".to_owned(), json(&group))];
    members.extend(member.map(|m| ("member".to_owned(), json(m))));
    members.push(("written".into(), object(written)));
    let kept = Keep {
        schema: TOOL,
        resource_type: ResourceType::Other("form".into()),
        subject: Some(tool_id),
        resource_id: tool_id.resource(2),
        paths,
    };
    keeper.payload(kept, object(members).as_str().as_bytes().to_vec())
}

fn hosted(
    keeper: &mut Keeper,
    tool_id: &UnifiedId,
    member: &str,
    value: Json,
    (kind, execution): (UnifiedToolType, Execution),
    group: usize,
    path: &str,
) -> UnifiedToolDefinition {
    let value = without_credentials(keeper, member, value, &format!("{path}/{member}"));
    let owner_bound = matches!(
        kind,
        UnifiedToolType::FileSearch | UnifiedToolType::Retrieval | UnifiedToolType::Mcp | UnifiedToolType::Other(_)
    );
    let portability = if owner_bound {
        Portability::OwnerBound
    } else {
        Portability::Equivalent
    };
    let mut tool = UnifiedToolDefinition::new(tool_id.clone(), kind, execution, portability, None);
    tool.config = config_of(member, &value);
    tool.version = matches!(
        member,
        "googleSearchRetrieval" | "enterpriseWebSearch" | "parallelAiSearch" | "exaAiSearch"
    )
    .then(|| member.to_owned());
    let paths = if raw::members(&value).is_empty() && !value.as_str().starts_with('[') {
        Vec::new()
    } else {
        vec![format!("{path}/{member}")]
    };
    let reference = place(keeper, tool_id, group, Some(member), vec![(member.to_owned(), value)], paths);
    tool.provider_data = Some(vec![reference]);
    tool
}

/// Takes credentials out of what is kept: they are never stored.
fn without_credentials(keeper: &mut Keeper, member: &str, value: Json, path: &str) -> Json {
    let mut take = |value: &Json, pointer: &str| {
        keeper
            .loss
            .warning(Feature::ToolHostedMcp, format!("{path}{pointer}"), "a credential is never kept");
        raw::put(value, pointer, &Json::null())
    };
    match member {
        "parallelAiSearch" | "exaAiSearch" if raw::get(&value, "apiKey").is_some() => take(&value, "/apiKey"),
        "mcpServers" => {
            let mut list: Vec<Json> = value.decode().unwrap_or_default();
            let mut changed = value.clone();
            for (n, server) in list.iter_mut().enumerate() {
                let transport = raw::get(server, "streamableHttpTransport");
                let headers = transport.and_then(|t| raw::get(&t, "headers"));
                for (name, _) in headers.map(|h| raw::members(&h)).unwrap_or_default() {
                    let name = throughline_format::json::escape_pointer_token(&name).into_owned();
                    changed = take(&changed, &format!("/{n}/streamableHttpTransport/headers/{name}"));
                }
            }
            changed
        }
        _ => value,
    }
}

/// What the record says of a hosted tool's options.
fn config_of(member: &str, value: &Json) -> Option<UnifiedHostedToolConfig> {
    let text = |key: &str| raw::get(value, key).and_then(|v| v.decode::<String>().ok());
    let list = |key: &str| raw::get(value, key).and_then(|v| v.decode::<Vec<String>>().ok());
    let mut config = UnifiedHostedToolConfig::default();
    match member {
        "googleSearch" | "enterpriseWebSearch" => {
            config.blocked_domains = list("excludeDomains");
            config.search_types = raw::get(value, "searchTypes").map(|types| raw::members(&types).into_iter().map(|(k, _)| k).collect());
            config.time_range = raw::get(value, "timeRangeFilter").map(|range| {
                let end = |key: &str| raw::get(&range, key).and_then(|v| v.decode::<String>().ok()).unwrap_or_default();
                format!("{}/{}", end("startTime"), end("endTime"))
            });
        }
        "googleMaps" => config.widget = raw::get(value, "enableWidget").and_then(|v| v.decode().ok()),
        "fileSearch" => {
            config.filter = raw::get(value, "metadataFilter");
            config.max_results = raw::get(value, "topK").and_then(|v| v.decode().ok());
        }
        "computerUse" => {
            config.environment = text("environment").map(|word| word.trim_start_matches("ENVIRONMENT_").to_ascii_lowercase());
            config.excluded_actions = list("excludedPredefinedFunctions");
            config.injection_check = raw::get(value, "enablePromptInjectionDetection").and_then(|v| v.decode().ok());
            config.disabled_safety_policies =
                list("disabledSafetyPolicies").map(|words| words.iter().map(|word| word.to_ascii_lowercase()).collect());
        }
        "mcpServers" => {
            let first = value.decode::<Vec<Json>>().ok().and_then(|l| l.into_iter().next());
            let server = first.as_ref();
            config.server_label = server.and_then(|s| raw::get(s, "name")).and_then(|v| v.decode().ok());
            config.server_url = server
                .and_then(|s| raw::get(s, "streamableHttpTransport"))
                .and_then(|t| raw::get(&t, "url"))
                .and_then(|v| v.decode::<String>().ok())
                .map(|url| crate::address::plain(&url));
        }
        _ => {}
    }
    (config != UnifiedHostedToolConfig::default()).then_some(config)
}

/// Reads `toolConfig`.
pub(super) fn config(
    keeper: &mut Keeper,
    settings: &mut Settings,
    config: ToolConfig,
    tools: &mut [UnifiedToolDefinition],
    path: &str,
    fields: &mut Vec<(String, Json)>,
    form: &mut Vec<(String, Json)>,
) -> Option<UnifiedToolChoice> {
    let bare = form.len() + fields.len();
    fields.extend(below(path, config.extra.0));
    match config.include_server_side_tool_invocations {
        Some(true) => {
            let at = format!("{path}/includeServerSideToolInvocations");
            keeper
                .loss
                .info(Feature::WireSpelling, at, "said by the word of what is to be included");
            settings.include(Include::ServerToolInvocations);
        }
        Some(false) => fields.push((format!("{path}/includeServerSideToolInvocations"), json(&false))),
        None => {}
    }
    if let Some(retrieval) = config.retrieval_config {
        place_of(retrieval, tools, &format!("{path}/retrievalConfig"), fields);
    }
    let Some(calling) = config.function_calling_config else {
        if config.include_server_side_tool_invocations.is_none() && form.len() + fields.len() == bare {
            form.push((path.to_owned(), object(Vec::new())));
        }
        return None;
    };
    let path = format!("{path}/functionCallingConfig");
    fields.extend(below(&path, calling.extra.0));
    let select = |name: &String| UnifiedToolSelector {
        tool_type: UnifiedToolType::Function,
        name: Some(name.clone()),
        server_label: None,
    };
    if calling.allowed_function_names.as_ref().is_some_and(Vec::is_empty) {
        form.push((format!("{path}/allowedFunctionNames"), json::<[Json]>(&[])));
    }
    if calling.mode.is_some() {
        let at = format!("{path}/mode");
        keeper.loss.info(Feature::WireSpelling, at, "said by the kind of the tool choice");
    }
    let names = calling.allowed_function_names.unwrap_or_default();
    let mode = calling.mode.map(|m| m.to_ascii_uppercase());
    let allowed = |mode| UnifiedToolChoice {
        mode: Some(mode),
        tools: Some(names.iter().map(select).collect()),
        ..UnifiedToolChoice::simple(ToolChoiceKind::Allowed)
    };
    Some(match (mode.as_deref(), names.as_slice()) {
        (Some("AUTO"), []) => UnifiedToolChoice::simple(ToolChoiceKind::Auto),
        (Some("NONE"), []) => UnifiedToolChoice::simple(ToolChoiceKind::None),
        (Some("ANY"), []) => UnifiedToolChoice::simple(ToolChoiceKind::Required),
        (Some("ANY"), [only]) => UnifiedToolChoice::named(UnifiedToolType::Function, only.clone()),
        (Some("ANY"), _) => allowed(AllowedMode::Required),
        (Some("VALIDATED"), []) => UnifiedToolChoice {
            validated: Some(true),
            ..UnifiedToolChoice::simple(ToolChoiceKind::Auto)
        },
        (Some("VALIDATED"), _) => UnifiedToolChoice {
            validated: Some(true),
            ..allowed(AllowedMode::Auto)
        },
        (mode, names) => {
            // Another word, or names beside a mode that has none.
            fields.extend(mode.map(|m| (format!("{path}/mode"), json(m))));
            if !names.is_empty() {
                fields.push((format!("{path}/allowedFunctionNames"), json(names)));
            }
            if mode.is_none() && names.is_empty() && !fields.iter().any(|(at, _)| at.starts_with(&path)) {
                form.push((path, object(Vec::new())));
            }
            return None;
        }
    })
}

/// The user's place belongs to the tools that search.
fn place_of(retrieval: RetrievalConfig, tools: &mut [UnifiedToolDefinition], path: &str, fields: &mut Vec<(String, Json)>) {
    let searches = |tool: &&mut UnifiedToolDefinition| matches!(tool.kind, UnifiedToolType::Maps | UnifiedToolType::WebSearch);
    let Some(tool) = tools.iter_mut().find(searches) else {
        fields.push((path.to_owned(), json(&retrieval)));
        return;
    };
    fields.extend(below(path, retrieval.extra.0));
    let config = tool.config.get_or_insert_default();
    config.language = retrieval.language_code;
    if let Some(place) = retrieval.lat_lng {
        fields.extend(below(&format!("{path}/latLng"), place.extra.0));
        config.user_location = Some(UserLocation {
            latitude: place.latitude,
            longitude: place.longitude,
            ..UserLocation::default()
        });
    }
}

/// The place of a tool, when the target may see it.
pub(super) struct Place {
    /// Which of the wire's tools it belongs to.
    pub(super) group: usize,
    /// Member of a hosted tool.
    pub(super) member: Option<String>,
    /// Members as they were written.
    pub(super) written: Vec<(String, Json)>,
}

/// The kept place of a tool.
pub(super) fn place_of_tool(tool: &UnifiedToolDefinition, context: &crate::context::EncodeContext) -> Option<Place> {
    let text = crate::keeper::text_of(tool.provider_data.as_ref(), kept::TOOL, context)?;
    let value = Json::from_text(text).ok()?;
    Some(Place {
        group: raw::get(&value, "group")?.decode().ok()?,
        member: raw::get(&value, "member").and_then(|m| m.decode().ok()),
        written: raw::get(&value, "written").map(|w| raw::members(&w)).unwrap_or_default(),
    })
}
