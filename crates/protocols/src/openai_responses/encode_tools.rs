//! Tool definitions and tool choice to the wire.

use super::decode_tools::{OTHER, STEMS};
use super::encode_item::MAX_NAME;
use super::kept;
use super::wire::Node;
use crate::capability::{Capabilities, Support};
use crate::context::PrivateState;
use crate::feature::Feature;
use crate::openai::strict_schema::{close, fits_strict};
use crate::projection::LossCollector;
use crate::tool_offer::{ToolOffer, report_as_function, report_restrictions};
use std::collections::BTreeSet;
use throughline_format::intent::GrammarSyntax;
use throughline_format::loss::LossSeverity;
use throughline_format::tool::{
    AllowedMode, ApprovalRule, Caller, Execution, Portability, ToolApproval, ToolChoiceKind, UnifiedHostedToolConfig, UnifiedToolSelector,
};
use throughline_format::{Json, UnifiedRequestV2, UnifiedRequirement, UnifiedToolChoice, UnifiedToolDefinition, UnifiedToolType};

/// The name as the wire may carry it.
pub(super) fn wire_name(name: &str) -> String {
    crate::tool_name::wire(None, name, MAX_NAME).into_owned()
}

/// Writes a definition from the record alone; none for kinds that are kept whole.
pub(super) fn plain(tool: &UnifiedToolDefinition, private: &dyn PrivateState) -> Option<Node> {
    let text = |value: Option<&String>| value.map(|value| Node::text(value));
    let callers = tool.allowed_callers.as_ref().map(|callers| {
        let word = |caller: &Caller| Node::text(if *caller == Caller::Model { "direct" } else { "programmatic" });
        Node::List(callers.iter().map(word).collect())
    });
    let common = [
        ("description", text(tool.description.as_ref())),
        ("parameters", tool.input_schema.clone().map(Node::Leaf)),
        ("strict", tool.strict.map(|strict| Node::of(&strict))),
        ("defer_loading", tool.defer_loading.map(|defer| Node::of(&defer))),
        ("async", tool.r#async.map(|on| Node::of(&on))),
        ("allowed_callers", callers),
        ("output_schema", tool.output_schema.clone().map(Node::Leaf)),
    ];
    let word = wire_type(tool)?;
    let mut node = Node::typed(&word, []);
    let mut add = |members: Vec<(&str, Option<Node>)>| {
        for (key, value) in members {
            if let Some(value) = value {
                node.put(key, value);
            }
        }
    };
    if matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom) {
        add(vec![("name", text(tool.name.as_ref()))]);
    }
    add(common.into());
    let config = tool.config.clone().unwrap_or_default();
    match &tool.kind {
        UnifiedToolType::Custom => {
            let format = tool.grammar.as_ref().map(|grammar| match grammar.syntax {
                GrammarSyntax::Text => Node::typed("text", []),
                _ => Node::typed(
                    "grammar",
                    [
                        ("syntax", Some(Node::text(grammar.syntax.as_str()))),
                        ("definition", text(grammar.definition.as_ref())),
                    ],
                ),
            });
            add(vec![("format", format)]);
        }
        UnifiedToolType::ToolSearch => {
            let execution = (tool.execution == Execution::Client).then(|| Node::text("client"));
            add(vec![("execution", execution)]);
        }
        UnifiedToolType::Shell => {
            let handle = handle_of(tool, private);
            let environment = match (handle, tool.execution) {
                (Some(handle), _) => Some(Node::typed("container_reference", [("container_id", Some(Node::text(&handle)))])),
                (None, Execution::Client) => None,
                (None, _) => Some(container(&config, "container_auto")),
            };
            add(vec![("environment", environment)]);
        }
        UnifiedToolType::CodeExecution => {
            let handle = handle_of(tool, private).map(|handle| Node::text(&handle));
            add(vec![("container", handle.or_else(|| Some(container(&config, "auto"))))]);
        }
        UnifiedToolType::Mcp => add(server(tool, &config)),
        UnifiedToolType::WebSearch | UnifiedToolType::FileSearch | UnifiedToolType::ComputerUse | UnifiedToolType::ImageGeneration => {
            if tool.kind == UnifiedToolType::FileSearch {
                let stores = tool
                    .resources
                    .iter()
                    .flatten()
                    .filter_map(|resource| kept::handle(private, resource));
                add(vec![(
                    "vector_store_ids",
                    Some(Node::List(stores.map(|id| Node::text(&id)).collect())),
                )]);
            }
            add(options(&config));
        }
        // No options of their own.
        UnifiedToolType::Function
        | UnifiedToolType::WebFetch
        | UnifiedToolType::Retrieval
        | UnifiedToolType::UrlContext
        | UnifiedToolType::Maps
        | UnifiedToolType::Container
        | UnifiedToolType::Skill
        | UnifiedToolType::Memory
        | UnifiedToolType::ApplyPatch
        | UnifiedToolType::TextEditor
        | UnifiedToolType::ProgrammaticCalling
        | UnifiedToolType::Advisor
        | UnifiedToolType::Other(_) => {}
    }
    Some(node)
}

fn handle_of(tool: &UnifiedToolDefinition, private: &dyn PrivateState) -> Option<String> {
    tool.resources.iter().flatten().find_map(|resource| kept::handle(private, resource))
}

/// The wire's type word of a definition.
fn wire_type(tool: &UnifiedToolDefinition) -> Option<String> {
    let stem = match &tool.kind {
        UnifiedToolType::Function => return Some("function".into()),
        UnifiedToolType::Custom => return Some("custom".into()),
        UnifiedToolType::ComputerUse if tool.version.is_some() || tool.name.as_deref() == Some("computer_use") => "computer_use",
        UnifiedToolType::ComputerUse => "computer",
        UnifiedToolType::Shell if tool.name.as_deref() == Some("local_shell") => "local_shell",
        UnifiedToolType::Shell => "shell",
        UnifiedToolType::Other(_) => return None,
        kind => STEMS.iter().find(|(_, known, ..)| known == kind).map(|(stem, ..)| *stem)?,
    };
    Some(match &tool.version {
        Some(version) => format!("{stem}_{version}"),
        None => stem.to_owned(),
    })
}

fn strings(list: Option<&Vec<String>>) -> Option<Node> {
    list.map(|list| Node::List(list.iter().map(|text| Node::text(text)).collect()))
}

fn container(config: &UnifiedHostedToolConfig, kind: &str) -> Node {
    let network = config.network.as_ref().map(|network| {
        let domains = strings(network.allowed_domains.as_ref());
        Node::typed(&network.mode, [("allowed_domains", domains)])
    });
    let members = [
        ("memory_limit", config.memory_limit.as_deref().map(Node::text)),
        ("network_policy", network),
    ];
    Node::typed(kind, members)
}

fn server(tool: &UnifiedToolDefinition, config: &UnifiedHostedToolConfig) -> Vec<(&'static str, Option<Node>)> {
    let names = |names: &Option<Vec<String>>| names.as_ref().map(|names| Node::object([("tool_names", strings(Some(names)))]));
    let approval = tool.approval.as_ref().map(|approval| match approval {
        ToolApproval::Rule(ApprovalRule::Always) => Node::text("always"),
        ToolApproval::Rule(ApprovalRule::Never) => Node::text("never"),
        ToolApproval::Lists(lists) => Node::object([("always", names(&lists.always_for)), ("never", names(&lists.never_for))]),
    });
    vec![
        ("server_label", config.server_label.as_deref().map(Node::text)),
        ("server_url", config.server_url.as_deref().map(Node::text)),
        ("connector_id", config.connector.as_deref().map(Node::text)),
        ("allowed_tools", strings(config.allowed_tools.as_ref())),
        ("server_description", config.description.as_deref().map(Node::text)),
        ("require_approval", approval),
    ]
}

fn options(config: &UnifiedHostedToolConfig) -> Vec<(&'static str, Option<Node>)> {
    let text = |value: &Option<String>| value.as_deref().map(Node::text);
    let place = config.user_location.as_ref().map(|place| {
        Node::typed(
            "approximate",
            [
                ("city", text(&place.city)),
                ("region", text(&place.region)),
                ("country", text(&place.country)),
                ("timezone", text(&place.timezone)),
            ],
        )
    });
    let domains = config
        .allowed_domains
        .as_ref()
        .map(|domains| Node::object([("allowed_domains", strings(Some(domains)))]));
    let ranking = Node::object([
        ("ranker", text(&config.ranker)),
        ("score_threshold", config.score_threshold.map(|score| Node::of(&score))),
    ]);
    let image = config.image.clone().unwrap_or_default();
    vec![
        ("filters", config.filter.as_ref().map(Node::open).or(domains)),
        ("search_context_size", text(&config.context_size)),
        ("search_content_types", strings(config.search_types.as_ref())),
        ("user_location", place),
        ("max_num_results", config.max_results.map(|n| Node::of(&n))),
        ("ranking_options", (ranking != Node::Object(Vec::new())).then_some(ranking)),
        ("environment", text(&config.environment)),
        ("display_width", config.display_width.map(|n| Node::of(&n))),
        ("display_height", config.display_height.map(|n| Node::of(&n))),
        ("size", text(&image.size)),
        ("quality", text(&image.quality)),
        ("output_format", text(&image.format)),
        ("background", text(&image.background)),
    ]
}

/// What the tools of a request are encoded with.
pub(super) struct Tools<'a> {
    pub private: &'a dyn PrivateState,
    pub capabilities: &'a Capabilities,
    pub loss: &'a mut LossCollector,
    /// The request came in on this protocol.
    pub is_own: bool,
    /// Names that are offered.
    pub names: BTreeSet<String>,
}

impl Tools<'_> {
    /// All tools that the target can offer; those of one namespace stand in it.
    pub(super) fn list(&mut self, request: &UnifiedRequestV2) -> Vec<Node> {
        let mut found: Vec<Node> = Vec::new();
        let mut namespace: Option<&String> = None;
        for (n, tool) in request.tools.iter().enumerate() {
            let path = format!("/tools/{n}");
            let Some(node) = self.tool(tool, &path) else { continue };
            if let Some(name) = node.str("name").filter(|_| matches!(node.kind().as_str(), "function" | "custom")) {
                let full = format!("{}/{name}", tool.namespace.as_deref().unwrap_or_default());
                if !self.names.insert(full) && !self.is_own {
                    let reason = "another tool has this name; the second is left out";
                    self.loss.warning(Feature::ToolName, path, reason);
                    continue;
                }
                self.names.insert(name);
            }
            let Some(group) = &tool.namespace else {
                namespace = None;
                found.push(node);
                continue;
            };
            let references = tool.provider_data.as_ref();
            let wrapper = kept::payload(self.private, references, kept::NAMESPACE).and_then(|bytes| kept::tree(&bytes));
            if namespace != Some(group) || wrapper.is_some() {
                let wrapper = wrapper.unwrap_or_else(|| {
                    Node::typed(
                        "namespace",
                        [
                            ("name", Some(Node::text(&wire_name(group)))),
                            ("description", Some(Node::text(group))),
                        ],
                    )
                });
                found.push(wrapper);
            }
            namespace = Some(group);
            if let Some(last) = found.last_mut() {
                let mut inner = last.list("tools").to_vec();
                inner.push(node);
                last.put("tools", Node::List(inner));
            }
        }
        found
    }

    fn lost(&mut self, tool: &UnifiedToolDefinition, feature: Feature, path: &str, reason: &str) {
        let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
        self.loss.intent(requirement, feature, path, reason);
    }

    fn tool(&mut self, tool: &UnifiedToolDefinition, path: &str) -> Option<Node> {
        let references = tool.provider_data.as_ref();
        let entries = kept::entries(self.private, references);
        let is_private = references.is_some_and(|references| !references.is_empty());
        let mine = |schema: &str| kept::payload(self.private, references, schema);
        let has_owner =
            !entries.is_empty() || mine(kept::FORM).is_some() || mine(kept::CREDENTIALS).is_some() || mine(kept::NAMESPACE).is_some();
        if is_private && !has_owner {
            let reason = "members without a word stay with the protocol and owner that they came from";
            self.loss.info(Feature::WireUnmapped, format!("{path}/providerData"), reason);
        }
        // Its owner is whoever gave its resources and options a form.
        match ToolOffer::of(tool, self.is_own && (has_owner || !is_private)) {
            ToolOffer::Withheld(why) => {
                self.lost(tool, Feature::of_tool(&tool.kind), path, why);
                return None;
            }
            ToolOffer::Function if tool.kind != UnifiedToolType::Function => {
                let name = tool.name.clone().unwrap_or_default();
                return Some(self.as_function(tool, &name, Feature::of_tool(&tool.kind), path));
            }
            ToolOffer::Function | ToolOffer::OwnForm | ToolOffer::OwnFormOrFunction => {}
        }
        let is_known = match &tool.kind {
            UnifiedToolType::Function | UnifiedToolType::Custom => true,
            UnifiedToolType::Other(word) => word.starts_with(OTHER) && entries.iter().any(|entry| entry.pointer.is_empty()),
            UnifiedToolType::WebSearch
            | UnifiedToolType::WebFetch
            | UnifiedToolType::FileSearch
            | UnifiedToolType::Retrieval
            | UnifiedToolType::UrlContext
            | UnifiedToolType::Maps
            | UnifiedToolType::CodeExecution
            | UnifiedToolType::ComputerUse
            | UnifiedToolType::Mcp
            | UnifiedToolType::Container
            | UnifiedToolType::Skill
            | UnifiedToolType::Memory
            | UnifiedToolType::ImageGeneration
            | UnifiedToolType::Shell
            | UnifiedToolType::ApplyPatch
            | UnifiedToolType::TextEditor
            | UnifiedToolType::ToolSearch
            | UnifiedToolType::ProgrammaticCalling
            | UnifiedToolType::Advisor => return self.hosted(tool, path, &entries),
        };
        if !is_known {
            self.lost(tool, Feature::of_tool(&tool.kind), path, "the target has no such hosted tool");
            return None;
        }
        let mut node = plain(tool, self.private).unwrap_or_else(Node::null);
        if !node.is_null() {
            self.client(tool, &mut node, path);
        }
        kept::restore(&mut node, &entries, &kept::form(self.private, references));
        Some(node)
    }

    /// A tool that the client executes: its name is legal, its schema an object, and strict only where the target takes it.
    fn client(&mut self, tool: &UnifiedToolDefinition, node: &mut Node, path: &str) {
        let name = tool.name.clone().unwrap_or_default();
        let wire = wire_name(if name.is_empty() { "tool" } else { &name });
        if wire != name {
            let reason = "the target refuses this name; it gets a replacement derived from it";
            self.loss.info(Feature::ToolName, format!("{path}/name"), reason);
            node.put("name", Node::text(&wire));
        }
        if tool.allowed_callers.is_some() {
            let path = format!("{path}/allowedCallers");
            self.loss.remark(Feature::ToolAllowedCallers, path, "said in the target's words");
        }
        for (member, feature, is_there) in [
            ("inputExamples", Feature::ToolDescription, tool.input_examples.is_some()),
            ("eagerInput", Feature::ToolFunction, tool.eager_input.is_some()),
            ("cache", Feature::CacheBreakpoints, tool.cache.is_some()),
        ] {
            if is_there {
                self.loss.info(feature, format!("{path}/{member}"), "the target has no form for it");
            }
        }
        if tool.approval.is_some() {
            self.lost(
                tool,
                Feature::ToolApproval,
                &format!("{path}/approval"),
                "the target asks nobody for approval",
            );
        }
        if self.is_own || tool.kind == UnifiedToolType::Custom {
            return;
        }
        let schema = tool.input_schema.as_ref().map(Json::parse);
        let is_object = schema
            .as_ref()
            .is_some_and(|schema| schema.get("type").and_then(|kind| kind.as_str()) == Some("object"));
        if !is_object {
            if tool.input_schema.is_some() {
                let reason = "the target takes only schemas of objects; any object is taken";
                self.lost(tool, Feature::ToolFunction, &format!("{path}/inputSchema"), reason);
            }
            node.put("parameters", Node::of(&serde_json::json!({"type": "object", "properties": {}})));
        }
        // Absent is not false here: the target would try to be strict.
        let mut strict = tool.strict == Some(true);
        if strict && let Err(why) = fits_strict(&schema.unwrap_or_default()) {
            if let Some(closed) = tool.input_schema.as_ref().and_then(|schema| close(&schema.parse())) {
                node.put("parameters", Node::of(&closed));
                let reason = "strict mode wants closed objects: what was optional may be null, and a null reaches the tool as one";
                self.loss.info(Feature::ToolStrict, format!("{path}/inputSchema"), reason);
            } else {
                strict = false;
                let reason = format!("the target's strict mode refuses the schema: {why}");
                self.lost(tool, Feature::ToolStrict, &format!("{path}/strict"), &reason);
            }
        }
        node.put("strict", Node::of(&strict));
    }

    fn hosted(
        &mut self,
        tool: &UnifiedToolDefinition,
        path: &str,
        entries: &[throughline_format::resource::UnmappedEntry],
    ) -> Option<Node> {
        let feature = Feature::of_tool(&tool.kind);
        if let Support::Unsupported(why) = self.capabilities.support(feature) {
            self.lost(tool, feature, path, why);
            return None;
        }
        let references = tool.provider_data.as_ref();
        let config = tool.config.clone().unwrap_or_default();
        let needs_owner = tool.resources.as_ref().is_some_and(|resources| !resources.is_empty());
        if needs_owner && handle_of(tool, self.private).is_none() {
            self.lost(tool, feature, path, "the tool needs a resource of its owner");
            return None;
        }
        if self.is_own {
            self.loss
                .remark(Feature::RecordBookkeeping, format!("{path}/kind"), "said in the target's word");
            if tool.version.is_some() {
                let reason = "the target says it in the type word";
                self.loss.remark(Feature::RecordBookkeeping, format!("{path}/version"), reason);
            }
            let Some(mut node) = plain(tool, self.private) else {
                self.lost(tool, feature, path, "the target has no such hosted tool");
                return None;
            };
            kept::restore(&mut node, entries, &kept::form(self.private, references));
            let credentials = kept::payload(self.private, references, kept::CREDENTIALS).and_then(|bytes| kept::tree(&bytes));
            if let Some(credentials) = credentials {
                node.extend(credentials);
            }
            return Some(node);
        }
        let is_offered = match &tool.kind {
            UnifiedToolType::WebSearch | UnifiedToolType::ImageGeneration | UnifiedToolType::CodeExecution => true,
            UnifiedToolType::Mcp => config.server_url.is_some(),
            UnifiedToolType::Function
            | UnifiedToolType::Custom
            | UnifiedToolType::WebFetch
            | UnifiedToolType::FileSearch
            | UnifiedToolType::Retrieval
            | UnifiedToolType::UrlContext
            | UnifiedToolType::Maps
            | UnifiedToolType::ComputerUse
            | UnifiedToolType::Container
            | UnifiedToolType::Skill
            | UnifiedToolType::Memory
            | UnifiedToolType::Shell
            | UnifiedToolType::ApplyPatch
            | UnifiedToolType::TextEditor
            | UnifiedToolType::ToolSearch
            | UnifiedToolType::ProgrammaticCalling
            | UnifiedToolType::Advisor
            | UnifiedToolType::Other(_) => false,
        };
        if !is_offered || tool.portability == Portability::OwnerBound {
            if tool.execution == Execution::Client
                && let Some(name) = &tool.name
            {
                return Some(self.as_function(tool, name, feature, path));
            }
            self.lost(tool, feature, path, "the target has no such hosted tool");
            return None;
        }
        self.loss.info(feature, path, "offered as the target's own hosted tool");
        self.left_behind(tool, &config, path);
        let mut offered = tool.clone();
        offered.version = None;
        offered.strict = None;
        offered.allowed_callers = None;
        offered.defer_loading = None;
        offered.input_schema = None;
        let mut node = plain(&offered, self.private)?;
        if tool.kind == UnifiedToolType::Mcp && node.get("server_label").is_none() {
            node.put("server_label", Node::text(&wire_name(tool.name.as_deref().unwrap_or("server"))));
        }
        report_restrictions(self.loss, tool, path);
        if tool.kind == UnifiedToolType::Mcp && tool.approval.is_none() {
            // Every other wire runs such a tool without a question; here silence would mean that somebody is asked each time.
            node.put("require_approval", Node::text("never"));
            let reason = "nobody is asked for approval, as on the wire that it comes from";
            self.loss.info(Feature::ToolApproval, format!("{path}/approval"), reason);
        }
        Some(node)
    }

    /// Options of a hosted tool that the target's own has not.
    fn left_behind(&mut self, tool: &UnifiedToolDefinition, config: &UnifiedHostedToolConfig, path: &str) {
        let lost = [
            ("name", tool.name.is_some()),
            ("version", tool.version.is_some()),
            ("strict", tool.strict.is_some()),
            ("deferLoading", tool.defer_loading.is_some()),
            ("allowedCallers", tool.allowed_callers.is_some()),
            ("inputSchema", tool.input_schema.is_some()),
            ("cache", tool.cache.is_some()),
            ("config/blockedDomains", config.blocked_domains.is_some()),
            ("config/maxUses", config.max_uses.is_some()),
            ("config/maxContentTokens", config.max_content_tokens.is_some()),
            ("config/timeRange", config.time_range.is_some()),
            ("config/citations", config.citations.is_some()),
        ];
        for (member, _) in lost.iter().filter(|(_, is_there)| *is_there) {
            self.loss.warning(
                Feature::of_tool(&tool.kind),
                format!("{path}/{member}"),
                "the target's own tool has no such option",
            );
        }
    }

    /// A tool that another vendor has built in and the client executes, as a function.
    fn as_function(&mut self, tool: &UnifiedToolDefinition, name: &str, feature: Feature, path: &str) -> Node {
        if tool.input_schema.is_some() {
            report_as_function(self.loss, tool, path);
        } else {
            self.lost(tool, feature, path, "offered as a function; the target knows nothing of its use");
        }
        let schema = tool.input_schema.clone().map(Node::Leaf);
        let open = || Node::of(&serde_json::json!({"type": "object", "properties": {}, "additionalProperties": true}));
        Node::typed(
            "function",
            [
                ("name", Some(Node::text(&wire_name(name)))),
                ("description", tool.description.as_deref().map(Node::text)),
                ("parameters", Some(schema.unwrap_or_else(open))),
                ("strict", Some(Node::of(&false))),
            ],
        )
    }

    /// The tool choice; one that names a tool which is not offered is none.
    pub(super) fn choice(&mut self, request: &UnifiedRequestV2, tools: &[Node]) -> Option<Node> {
        let choice = request.tool_choice.as_ref()?;
        let node = plain_choice(choice)?;
        if self.is_own {
            return Some(node);
        }
        let lost = |this: &mut Self, feature, reason: &str| this.loss.intent(choice.requirement, feature, "/toolChoice", reason);
        let is_offered = |this: &Self, tool: &UnifiedToolSelector| match (&tool.tool_type, &tool.name) {
            (UnifiedToolType::Function | UnifiedToolType::Custom, Some(name)) => this.names.contains(&wire_name(name)),
            _ => tools
                .iter()
                .any(|offered| selector_word(&tool.tool_type).is_some_and(|word| offered.kind().starts_with(word))),
        };
        match choice.kind {
            ToolChoiceKind::Named if !choice.tool.as_ref().is_some_and(|tool| is_offered(self, tool)) => {
                lost(self, Feature::ToolChoice, "the chosen tool is not offered");
                None
            }
            ToolChoiceKind::Required if tools.is_empty() => {
                lost(self, Feature::ToolChoice, "there are no tools");
                None
            }
            ToolChoiceKind::Allowed if choice.tools.iter().flatten().any(|tool| !is_offered(self, tool)) => {
                lost(
                    self,
                    Feature::ToolChoiceAllowed,
                    "one of the allowed tools is not offered; all tools are allowed",
                );
                Some(Node::text(if choice.mode == Some(AllowedMode::Required) {
                    "required"
                } else {
                    "auto"
                }))
            }
            ToolChoiceKind::Auto | ToolChoiceKind::None | ToolChoiceKind::Required | ToolChoiceKind::Named | ToolChoiceKind::Allowed => {
                if choice.validated == Some(true) {
                    let reason = "the target has no checked free choice";
                    self.loss
                        .add(LossSeverity::Info, Feature::ToolChoice, "/toolChoice/validated", reason);
                }
                Some(node)
            }
        }
    }
}

fn selector_word(kind: &UnifiedToolType) -> Option<&'static str> {
    match kind {
        UnifiedToolType::Function => Some("function"),
        UnifiedToolType::Custom => Some("custom"),
        kind => STEMS.iter().rev().find(|(_, known, ..)| known == kind).map(|(stem, ..)| *stem),
    }
}

/// The choice from the record alone.
pub(super) fn plain_choice(choice: &UnifiedToolChoice) -> Option<Node> {
    let selector = |tool: &UnifiedToolSelector| {
        Some(Node::typed(
            selector_word(&tool.tool_type)?,
            [
                ("name", tool.name.as_deref().map(|name| Node::text(&wire_name(name)))),
                ("server_label", tool.server_label.as_deref().map(Node::text)),
            ],
        ))
    };
    Some(match choice.kind {
        ToolChoiceKind::Auto => Node::text("auto"),
        ToolChoiceKind::None => Node::text("none"),
        ToolChoiceKind::Required => Node::text("required"),
        ToolChoiceKind::Named => selector(choice.tool.as_ref()?)?,
        ToolChoiceKind::Allowed => {
            let mode = choice.mode.unwrap_or(AllowedMode::Auto);
            let tools = choice.tools.iter().flatten().filter_map(selector).collect();
            Node::typed(
                "allowed_tools",
                [("mode", Some(Node::text(mode.as_str()))), ("tools", Some(Node::List(tools)))],
            )
        }
    })
}
