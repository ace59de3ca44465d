//! Tool definitions and tool choice from the wire.

use super::encode_tools;
use super::kept::{self, Form, Keeper, number};
use super::wire::Node;
use crate::keeper::Keep;
use throughline_format::intent::{GrammarSyntax, ImageIntent};
use throughline_format::resource::ResourceType;
use throughline_format::tool::{
    AllowedMode, ApprovalLists, ApprovalRule, Caller, Execution, NetworkPolicy, Portability, ToolApproval, ToolChoiceKind, ToolGrammar,
    UnifiedHostedToolConfig, UnifiedToolSelector, UserLocation,
};
use throughline_format::{UnifiedId, UnifiedProviderResourceRef, UnifiedToolChoice, UnifiedToolDefinition, UnifiedToolType};

/// Stems of the wire's tool types, the longest first; what follows a stem is its version.
pub(super) const STEMS: &[(&str, UnifiedToolType, Execution, Portability)] = &[
    (
        "programmatic_tool_calling",
        UnifiedToolType::ProgrammaticCalling,
        Execution::Provider,
        Portability::OwnerBound,
    ),
    (
        "image_generation",
        UnifiedToolType::ImageGeneration,
        Execution::Provider,
        Portability::Equivalent,
    ),
    (
        "code_interpreter",
        UnifiedToolType::CodeExecution,
        Execution::Provider,
        Portability::Equivalent,
    ),
    (
        "computer_use",
        UnifiedToolType::ComputerUse,
        Execution::Client,
        Portability::Equivalent,
    ),
    ("local_shell", UnifiedToolType::Shell, Execution::Client, Portability::Portable),
    ("apply_patch", UnifiedToolType::ApplyPatch, Execution::Client, Portability::Portable),
    (
        "file_search",
        UnifiedToolType::FileSearch,
        Execution::Provider,
        Portability::OwnerBound,
    ),
    (
        "tool_search",
        UnifiedToolType::ToolSearch,
        Execution::Provider,
        Portability::Equivalent,
    ),
    (
        "web_search",
        UnifiedToolType::WebSearch,
        Execution::Provider,
        Portability::Equivalent,
    ),
    ("computer", UnifiedToolType::ComputerUse, Execution::Client, Portability::Equivalent),
    ("shell", UnifiedToolType::Shell, Execution::Client, Portability::Portable),
    ("mcp", UnifiedToolType::Mcp, Execution::Provider, Portability::Equivalent),
];

/// Prefix of the kinds that have no word.
pub(super) const OTHER: &str = "openai-responses:";

/// All definitions of a request; the tools of a namespace are definitions of their own.
pub(super) fn tools(keeper: &mut Keeper, list: &[Node], path: &str) -> Vec<UnifiedToolDefinition> {
    let mut tools: Vec<UnifiedToolDefinition> = Vec::new();
    for (n, node) in list.iter().enumerate() {
        let path = format!("{path}/{n}");
        let inner = node.list("tools");
        if node.kind() != "namespace" || inner.is_empty() {
            let id = keeper.context.operation_id.tool(tools.len() as u64);
            tools.push(tool(keeper, id, node, &path));
            continue;
        }
        let mut wrapper = node.clone();
        wrapper.take("tools");
        for (m, one) in inner.iter().enumerate() {
            let id = keeper.context.operation_id.tool(tools.len() as u64);
            let mut tool = tool(keeper, id.clone(), one, &format!("{path}/tools/{m}"));
            tool.namespace = node.str("name");
            if m == 0 {
                let kind = ResourceType::Other("namespace".into());
                let resource = id.resource(number::WHOLE);
                let reference = keeper.payload(
                    Keep {
                        schema: kept::NAMESPACE,
                        resource_type: kind,
                        subject: Some(&id),
                        resource_id: resource,
                        paths: vec![path.clone()],
                    },
                    wrapper.to_text(),
                );
                if let (Some(last), Node::Object(members)) = (keeper.resources.last_mut(), &wrapper) {
                    last.wire_paths = members.iter().map(|(key, _)| format!("{path}/{key}")).collect();
                }
                tool.provider_data.get_or_insert_default().push(reference);
            }
            tools.push(tool);
        }
    }
    tools
}

fn tool(keeper: &mut Keeper, id: UnifiedId, node: &Node, path: &str) -> UnifiedToolDefinition {
    let first = keeper.resources.len();
    let mut rest = node.clone();
    let mut tool = known(keeper, &id, node, path);
    let mut references = Vec::new();
    let credentials = Node::object(["authorization", "headers"].map(|key| (key, rest.take(key))));
    if credentials != Node::Object(Vec::new()) {
        let kind = ResourceType::Other("credentials".into());
        let resource = id.resource(number::CREDENTIALS);
        references.push(keeper.payload(
            Keep {
                schema: kept::CREDENTIALS,
                resource_type: kind,
                subject: Some(&id),
                resource_id: resource,
                paths: vec![String::new()],
            },
            credentials.to_text(),
        ));
        if let Some(last) = keeper.resources.last_mut() {
            last.wire_paths = ["authorization", "headers"].iter().map(|key| format!("{path}/{key}")).collect();
        }
    }
    let just = kept::Just(keeper.resources.get(first..).unwrap_or_default());
    let mut difference = match encode_tools::plain(&tool, &just) {
        Some(written) => rest.difference(&written),
        None => super::wire::Difference {
            set: vec![(String::new(), rest.to_json())],
            absent: Vec::new(),
        },
    };
    let callers = rest
        .get("allowed_callers")
        .map(|callers| ("/allowed_callers".to_owned(), callers.to_json()));
    let mut form = Form {
        spelled: callers.into_iter().collect(),
        ..Form::default()
    };
    if only_names(&rest) {
        // Another spelling of a list that the record has.
        let is_it = |(pointer, _): &mut (String, throughline_format::Json)| pointer == "/allowed_tools";
        form.members.extend(difference.set.extract_if(.., is_it));
    }
    references.extend(keeper.difference(Some(&id), number::UNMAPPED, path, difference, form, |_| true));
    tool.provider_data = kept::listed(references);
    tool
}

fn known(keeper: &mut Keeper, id: &UnifiedId, node: &Node, path: &str) -> UnifiedToolDefinition {
    let kind = node.kind();
    let name = node.str("name");
    let mut tool = match kind.as_str() {
        "function" => UnifiedToolDefinition::function(id.clone(), name.unwrap_or_default()),
        "custom" => UnifiedToolDefinition::new(
            id.clone(),
            UnifiedToolType::Custom,
            Execution::Client,
            Portability::Portable,
            Some(name.unwrap_or_default()),
        ),
        word => {
            let stem = STEMS.iter().find_map(|(stem, kind, execution, portability)| {
                let version = word.strip_prefix(stem)?;
                let is_whole = version.is_empty() || version.starts_with('_');
                is_whole.then(|| (kind.clone(), *execution, *portability, version.trim_start_matches('_').to_owned()))
            });
            let Some((kind, execution, portability, version)) = stem else {
                let kind = UnifiedToolType::Other(format!("{OTHER}{word}").into());
                return UnifiedToolDefinition::new(id.clone(), kind, Execution::Provider, Portability::OwnerBound, name);
            };
            let name = name.or_else(|| (kind == UnifiedToolType::Shell).then(|| word.to_owned()));
            let mut tool = UnifiedToolDefinition::new(id.clone(), kind, execution, portability, name);
            tool.version = (!version.is_empty()).then_some(version);
            if word == "computer_use" {
                // A word of its own that is no version of the other one.
                tool.name = Some("computer_use".into());
            }
            tool
        }
    };
    tool.description = node.str("description");
    tool.strict = node.value("strict");
    tool.defer_loading = node.value("defer_loading");
    tool.r#async = node.value("async");
    tool.input_schema = node.get("parameters").map(Node::to_json);
    tool.output_schema = node.get("output_schema").map(Node::to_json);
    tool.allowed_callers = node.get("allowed_callers").map(|list| {
        let word = |node: &Node| match node.as_text().as_deref() {
            Some("direct") => Some(Caller::Model),
            Some("programmatic") => Some(Caller::Code),
            _ => None,
        };
        list.as_list().unwrap_or_default().iter().filter_map(word).collect()
    });
    match &tool.kind {
        UnifiedToolType::Custom => tool.grammar = node.get("format").map(grammar),
        UnifiedToolType::ToolSearch if node.str("execution").as_deref() == Some("client") => {
            tool.execution = Execution::Client;
        }
        UnifiedToolType::Shell => {
            let environment = node.get("environment");
            if environment.is_some_and(|environment| environment.kind() != "local") {
                tool.execution = Execution::Provider;
                tool.portability = Portability::Equivalent;
            }
            if let Some(handle) = environment.and_then(|environment| environment.str("container_id")) {
                tool.resources = Some(vec![container(keeper, id, &handle, format!("{path}/environment/container_id"))]);
            }
            tool.config = listed(environment.map(runtime));
        }
        UnifiedToolType::CodeExecution => {
            if let Some(handle) = node.str("container") {
                tool.resources = Some(vec![container(keeper, id, &handle, format!("{path}/container"))]);
                tool.portability = Portability::OwnerBound;
            }
            tool.config = listed(node.get("container").map(runtime));
        }
        UnifiedToolType::FileSearch => {
            let stores = node.list("vector_store_ids").iter().filter_map(Node::as_text).enumerate();
            let stores: Vec<UnifiedProviderResourceRef> = stores
                .map(|(n, handle)| {
                    let kind = ResourceType::Other("vector-store".into());
                    let path = format!("{path}/vector_store_ids/{n}");
                    keeper.hold(id, number::HANDLE + n as u64, kind, &handle, path)
                })
                .collect();
            tool.resources = (!stores.is_empty()).then_some(stores);
            tool.config = listed(Some(search(node)));
        }
        UnifiedToolType::Mcp => {
            tool.approval = node.get("require_approval").and_then(approval);
            tool.config = listed(Some(server(node)));
            tool.description = None;
        }
        UnifiedToolType::WebSearch | UnifiedToolType::ComputerUse | UnifiedToolType::ImageGeneration => {
            tool.config = listed(Some(search(node)));
            let place = node.at(&["user_location", "type"]).and_then(Node::as_text);
            keeper
                .loss
                .only_word(format!("{path}/user_location/type"), place.as_deref(), "approximate");
        }
        _ => {}
    }
    tool
}

fn listed(config: Option<UnifiedHostedToolConfig>) -> Option<UnifiedHostedToolConfig> {
    config.filter(|config| *config != UnifiedHostedToolConfig::default())
}

fn container(keeper: &mut Keeper, id: &UnifiedId, handle: &str, path: String) -> UnifiedProviderResourceRef {
    keeper.hold(id, number::HANDLE, ResourceType::Container, handle, path)
}

fn grammar(format: &Node) -> ToolGrammar {
    ToolGrammar {
        syntax: match format.kind().as_str() {
            "grammar" => GrammarSyntax::from_word(&format.str("syntax").unwrap_or_else(|| "lark".into())),
            _ => GrammarSyntax::Text,
        },
        definition: format.str("definition"),
    }
}

fn texts(node: Option<&Node>) -> Option<Vec<String>> {
    let list = node?.as_list()?;
    list.iter().map(Node::as_text).collect()
}

/// Options of an environment that executes.
fn runtime(node: &Node) -> UnifiedHostedToolConfig {
    UnifiedHostedToolConfig {
        memory_limit: node.str("memory_limit"),
        network: node.get("network_policy").map(|policy| NetworkPolicy {
            mode: policy.kind(),
            allowed_domains: texts(policy.get("allowed_domains")),
        }),
        ..UnifiedHostedToolConfig::default()
    }
}

/// Options of searches, of the computer and of images.
fn search(node: &Node) -> UnifiedHostedToolConfig {
    let is_files = node.kind() == "file_search";
    let place = node.get("user_location").map(|place| UserLocation {
        city: place.str("city"),
        region: place.str("region"),
        country: place.str("country"),
        timezone: place.str("timezone"),
        ..UserLocation::default()
    });
    let image = ImageIntent {
        size: node.str("size"),
        quality: node.str("quality"),
        format: node.str("output_format"),
        background: node.str("background"),
        ..ImageIntent::default()
    };
    UnifiedHostedToolConfig {
        allowed_domains: node.at(&["filters", "allowed_domains"]).and_then(|list| texts(Some(list))),
        context_size: node.str("search_context_size"),
        search_types: texts(node.get("search_content_types")),
        user_location: place,
        max_results: node.value("max_num_results"),
        score_threshold: node.at(&["ranking_options"]).and_then(|options| options.value("score_threshold")),
        ranker: node.at(&["ranking_options", "ranker"]).and_then(Node::as_text),
        filter: node.get("filters").filter(|_| is_files).map(Node::to_json),
        environment: node.str("environment"),
        display_width: node.value("display_width"),
        display_height: node.value("display_height"),
        image: (image != ImageIntent::default()).then_some(image),
        ..UnifiedHostedToolConfig::default()
    }
}

/// Whether the tools of a server that may be called are a filter of nothing but names.
fn only_names(node: &Node) -> bool {
    matches!(node.get("allowed_tools"), Some(Node::Object(members)) if members.iter().all(|(key, _)| key == "tool_names"))
}

/// Options of an MCP server; an address with a secret in it stays in the private copy.
fn server(node: &Node) -> UnifiedHostedToolConfig {
    let server_url = node.str("server_url").map(|url| crate::address::plain(&url));
    UnifiedHostedToolConfig {
        server_label: node.str("server_label"),
        server_url,
        connector: node.str("connector_id"),
        // A filter names tools too; what else it says stays in the private copy.
        allowed_tools: texts(node.get("allowed_tools")).or_else(|| texts(node.at(&["allowed_tools", "tool_names"]))),
        description: node.str("server_description"),
        ..UnifiedHostedToolConfig::default()
    }
}

fn approval(node: &Node) -> Option<ToolApproval> {
    match node.as_text().as_deref() {
        Some("always") => return Some(ToolApproval::Rule(ApprovalRule::Always)),
        Some("never") => return Some(ToolApproval::Rule(ApprovalRule::Never)),
        Some(_) => return None,
        None => {}
    }
    let names = |key: &str| node.at(&[key, "tool_names"]).and_then(|list| texts(Some(list)));
    let lists = ApprovalLists {
        always_for: names("always"),
        never_for: names("never"),
    };
    (lists != ApprovalLists::default()).then_some(ToolApproval::Lists(lists))
}

/// The choice that a member means; none for a form that is not known.
pub(super) fn choice(node: &Node) -> Option<UnifiedToolChoice> {
    if let Some(word) = node.as_text() {
        let kind = match word.as_str() {
            "auto" => ToolChoiceKind::Auto,
            "none" => ToolChoiceKind::None,
            "required" => ToolChoiceKind::Required,
            _ => return None,
        };
        return Some(UnifiedToolChoice::simple(kind));
    }
    if node.kind() != "allowed_tools" {
        return selector(node).map(|tool| UnifiedToolChoice {
            tool: Some(tool),
            ..UnifiedToolChoice::simple(ToolChoiceKind::Named)
        });
    }
    let tools = node.list("tools").iter().map(selector).collect::<Option<Vec<_>>>()?;
    Some(UnifiedToolChoice {
        mode: Some(AllowedMode::from_word(&node.str("mode")?)?),
        tools: Some(tools),
        ..UnifiedToolChoice::simple(ToolChoiceKind::Allowed)
    })
}

fn selector(node: &Node) -> Option<UnifiedToolSelector> {
    let word = node.kind();
    let tool_type = match word.as_str() {
        "function" => UnifiedToolType::Function,
        "custom" => UnifiedToolType::Custom,
        word => {
            let stem = STEMS
                .iter()
                .find(|(stem, ..)| word.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))?;
            stem.1.clone()
        }
    };
    Some(UnifiedToolSelector {
        tool_type,
        name: node.str("name"),
        server_label: node.str("server_label"),
    })
}
