//! Tool definitions, tool choice, and the schemas of answers.

use super::shared::{self, Ids};
use crate::intent::OutputFormat;
use crate::json::Json;
use crate::tool::{
    Portability, ToolChoiceKind, UnifiedHostedToolConfig, UnifiedToolChoice, UnifiedToolDefinition, UnifiedToolSelector, UnifiedToolType,
};
use crate::validate::{Check, Rule};
use std::collections::HashSet;

/// Tools and choice of a request, which is the place of `check`.
pub(super) fn check(check: &mut Check, tools: &[UnifiedToolDefinition], choice: Option<&UnifiedToolChoice>) {
    let mut ids = Ids::of("tool");
    let mut names = HashSet::new();
    check.each("tools", tools, |check, tool| {
        ids.add(check, "toolId", &tool.tool_id);
        let named = matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom);
        match &tool.name {
            Some(name) if named => {
                check.require(!name.is_empty(), "name", Rule::ToolName, "a function or custom tool has a name");
                let fresh = names.insert((tool.namespace.as_deref(), name.as_str()));
                check.require(fresh, "name", Rule::ToolName, "another tool has this name");
            }
            None if named => check.broken_at("name", Rule::ToolName, "a function or custom tool has a name"),
            Some(_) | None => {}
        }
        one(check, tool);
    });
    if let Some(choice) = choice {
        check.inside("toolChoice", |check| self::choice(check, choice, tools));
    }
}

fn one(check: &mut Check, tool: &UnifiedToolDefinition) {
    for (member, schema) in [("inputSchema", &tool.input_schema), ("outputSchema", &tool.output_schema)] {
        check.require(
            schema.as_ref().is_none_or(Json::is_object),
            member,
            Rule::ToolSchema,
            "a schema is a JSON object",
        );
    }
    let custom = tool.grammar.is_none() || tool.kind == UnifiedToolType::Custom;
    check.require(custom, "grammar", Rule::ToolSchema, "a grammar stands on custom tools");
    let bound = tool.resources.as_ref().is_some_and(|r| !r.is_empty()) && tool.portability != Portability::OwnerBound;
    check.require(!bound, "portability", Rule::ToolResources, "the tool needs a resource of one owner");
    shared::cache_mark(check, tool.cache.as_ref());
    shared::data_refs(check, tool.provider_data.as_ref());
    if let Some(config) = &tool.config {
        check.inside("config", |check| self::config(check, config, &tool.kind));
    }
}

const SEARCH: &[&str] = &[
    "allowedDomains",
    "blockedDomains",
    "maxUses",
    "contextSize",
    "maxContentTokens",
    "userLocation",
    "searchTypes",
    "timeRange",
    "citations",
];
const RETRIEVAL: &[&str] = &["maxResults", "scoreThreshold", "filter", "ranker"];
const MAPS: &[&str] = &["latitude", "longitude", "language", "widget"];
const CODE: &[&str] = &["language", "memoryLimit", "network"];
const COMPUTER: &[&str] = &[
    "environment",
    "displayWidth",
    "displayHeight",
    "excludedActions",
    "zoom",
    "injectionCheck",
    "disabledSafetyPolicies",
];
const MCP: &[&str] = &[
    "serverLabel",
    "serverUrl",
    "connector",
    "allowedTools",
    "description",
    "credentialRef",
];
const IMAGE: &[&str] = &["image"];

/// Members that the `config` of a kind of tool has (open-types.md, section 2); kinds of no table are not looked into.
pub(super) const fn config_members(kind: &UnifiedToolType) -> Option<&'static [&'static str]> {
    match kind {
        UnifiedToolType::WebSearch | UnifiedToolType::WebFetch => Some(SEARCH),
        UnifiedToolType::FileSearch | UnifiedToolType::Retrieval => Some(RETRIEVAL),
        UnifiedToolType::Maps => Some(MAPS),
        UnifiedToolType::CodeExecution | UnifiedToolType::Shell | UnifiedToolType::Container => Some(CODE),
        UnifiedToolType::ComputerUse => Some(COMPUTER),
        UnifiedToolType::Mcp => Some(MCP),
        UnifiedToolType::ImageGeneration => Some(IMAGE),
        UnifiedToolType::Function
        | UnifiedToolType::Custom
        | UnifiedToolType::UrlContext
        | UnifiedToolType::Skill
        | UnifiedToolType::Memory
        | UnifiedToolType::ApplyPatch
        | UnifiedToolType::TextEditor
        | UnifiedToolType::ToolSearch
        | UnifiedToolType::ProgrammaticCalling
        | UnifiedToolType::Advisor => Some(&[]),
        UnifiedToolType::Other(_) => None,
    }
}

fn config(check: &mut Check, config: &UnifiedHostedToolConfig, kind: &UnifiedToolType) {
    let here = [
        ("allowedDomains", config.allowed_domains.is_some()),
        ("blockedDomains", config.blocked_domains.is_some()),
        ("maxUses", config.max_uses.is_some()),
        ("contextSize", config.context_size.is_some()),
        ("maxContentTokens", config.max_content_tokens.is_some()),
        ("userLocation", config.user_location.is_some()),
        ("searchTypes", config.search_types.is_some()),
        ("timeRange", config.time_range.is_some()),
        ("citations", config.citations.is_some()),
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
        ("environment", config.environment.is_some()),
        ("displayWidth", config.display_width.is_some()),
        ("displayHeight", config.display_height.is_some()),
        ("excludedActions", config.excluded_actions.is_some()),
        ("zoom", config.zoom.is_some()),
        ("injectionCheck", config.injection_check.is_some()),
        ("disabledSafetyPolicies", config.disabled_safety_policies.is_some()),
        ("serverLabel", config.server_label.is_some()),
        ("serverUrl", config.server_url.is_some()),
        ("connector", config.connector.is_some()),
        ("allowedTools", config.allowed_tools.is_some()),
        ("description", config.description.is_some()),
        ("credentialRef", config.credential_ref.is_some()),
        ("image", config.image.is_some()),
    ];
    if let Some(legal) = config_members(kind) {
        for (member, _) in here.iter().filter(|(member, there)| *there && !legal.contains(member)) {
            check.broken_at(member, Rule::ToolConfig, format_args!("{kind} has no such option"));
        }
    }
    if let Some(address) = &config.server_url {
        let bare = shared::user_info(address).is_none() && !address.contains(['?', '#']);
        check.require(
            bare,
            "serverUrl",
            Rule::ToolConfig,
            "no user name, no query; credentials are resolved by the execution context",
        );
        check.secret_free("serverUrl", address);
    }
    let place = config.user_location.as_ref();
    for (member, degrees, most) in [("latitude", config.latitude, 90.0), ("longitude", config.longitude, 180.0)] {
        shared::in_range(check, member, degrees, -most, most);
    }
    check.inside("userLocation", |check| {
        shared::in_range(check, "latitude", place.and_then(|p| p.latitude), -90.0, 90.0);
        shared::in_range(check, "longitude", place.and_then(|p| p.longitude), -180.0, 180.0);
    });
}

fn choice(check: &mut Check, choice: &UnifiedToolChoice, tools: &[UnifiedToolDefinition]) {
    let (one, allowed) = (choice.kind == ToolChoiceKind::Named, choice.kind == ToolChoiceKind::Allowed);
    let with = |there: bool, belongs: bool| if belongs { there } else { !there };
    check.require(
        with(choice.tool.is_some(), one),
        "tool",
        Rule::ToolChoice,
        "it stands with named and only there",
    );
    check.require(
        with(choice.mode.is_some(), allowed),
        "mode",
        Rule::ToolChoice,
        "it stands with allowed and only there",
    );
    check.require(
        with(choice.tools.is_some(), allowed),
        "tools",
        Rule::ToolChoice,
        "they stand with allowed and only there",
    );
    check.require(
        choice.validated != Some(false),
        "validated",
        Rule::AlwaysTrue,
        "leave it out instead",
    );
    check.require(
        !(one && choice.validated.is_some()),
        "validated",
        Rule::ToolChoice,
        "a named choice is not free",
    );
    let named = Named::of(tools);
    if let Some(tool) = &choice.tool {
        check.inside("tool", |check| named.check(check, tool));
    }
    check.each("tools", choice.tools.iter().flatten(), |check, tool| named.check(check, tool));
}

/// The tools of a request as selectors name them.
struct Named<'a> {
    kinds: HashSet<&'a UnifiedToolType>,
    /// Name of each tool, none for tools without.
    names: HashSet<(&'a UnifiedToolType, Option<&'a str>)>,
    servers: HashSet<Option<&'a str>>,
}

impl<'a> Named<'a> {
    fn of(tools: &'a [UnifiedToolDefinition]) -> Self {
        let servers = tools
            .iter()
            .filter(|t| t.kind == UnifiedToolType::Mcp)
            .map(|t| t.config.as_ref().and_then(|c| c.server_label.as_deref()));
        Self {
            kinds: tools.iter().map(|t| &t.kind).collect(),
            names: tools.iter().map(|t| (&t.kind, t.name.as_deref())).collect(),
            servers: servers.collect(),
        }
    }

    /// A selector names a tool of the request. The tools of an MCP server are not listed one by one, so its label is enough.
    fn check(&self, check: &mut Check, selector: &UnifiedToolSelector) {
        let (kind, name) = (&selector.tool_type, selector.name.as_deref());
        let found = match kind {
            UnifiedToolType::Mcp => {
                self.kinds.contains(kind) && (selector.server_label.is_none() || self.servers.contains(&selector.server_label.as_deref()))
            }
            UnifiedToolType::Function | UnifiedToolType::Custom => self.names.contains(&(kind, name)),
            _ if name.is_none() => self.kinds.contains(kind),
            _ => self.names.contains(&(kind, name)) || self.names.contains(&(kind, None)),
        };
        if !found {
            check.broken(Rule::UnknownReference, "no tool of the request is meant");
        }
    }
}

/// The form of an answer.
pub(super) fn output_format(check: &mut Check, format: &OutputFormat) {
    match format {
        OutputFormat::JsonSchema(json) => check.require(json.schema.is_object(), "schema", Rule::ToolSchema, "a schema is a JSON object"),
        OutputFormat::Media(media) => shared::media_type(check, "mediaType", &media.media_type),
        OutputFormat::Text(_) | OutputFormat::JsonObject(_) | OutputFormat::Grammar(_) => {}
    }
}
