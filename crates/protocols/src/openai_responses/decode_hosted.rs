//! Items of hosted and built-in tools, approvals, programs, compaction, references, and items of unknown types.

use super::decode_item::{Item, Made, arguments, call_id, caller, encrypted};
use super::decode_part;
use super::decode_part::source_id;
use super::kept::{self, Keeper, number};
use super::wire::Node;
use crate::keeper::Keep;
use crate::media;
use crate::side::MAX_UNMAPPED_BYTES;
use throughline_format::citation::{SourceType, UnifiedSource};
use throughline_format::compaction::audit_hash;
use throughline_format::item::{
    ApprovalDecision, ApprovalReason, ApprovalRequestItem, ApprovalResponseItem, ApprovalSubject, CodeExecutionItem,
    CodeExecutionResultItem, CompactionSummaryItem, ComputerActionItem, ComputerActionResultItem, CoveredRange, ExecutionOutcome,
    FoundItem, MessageItem, ReferenceItem, ReferenceTarget, ResourceTarget, Role, ServerToolResultItem, SummaryAuthor, ToolCallItem,
    ToolResultItem,
};
use throughline_format::part::{GroundingSourcePart, JsonPart, MediaPart};
use throughline_format::resource::ResourceType;
use throughline_format::tool::Execution;
use throughline_format::{
    Json, PartBody, Sha256, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedToolLifecycle, UnifiedToolType,
};

pub(super) fn body(keeper: &mut Keeper, item: &Item<'_>, rest: &mut Node, kind: &str) -> Vec<Made> {
    let (node, Some(id)) = (item.node, item.ids.first()) else {
        return Vec::new();
    };
    let second = item.ids.get(1).cloned().unwrap_or_else(|| id.clone());
    match kind {
        "web_search_call" => web_search(node, id, &second),
        "file_search_call" => file_search(keeper, item, id, &second),
        "code_interpreter_call" => code_interpreter(keeper, item, rest, id, &second),
        "image_generation_call" => image_generation(node, id, &second),
        "mcp_call" => mcp_call(node, id, &second),
        "mcp_list_tools" => mcp_list_tools(node, id),
        "mcp_approval_request" => {
            rest.take("id");
            approval_request(node, id)
        }
        "mcp_approval_response" => approval_response(node),
        "computer_call" => computer_call(node, id),
        "computer_call_output" => computer_output(keeper, item, id),
        "local_shell_call" | "shell_call" => shell_call(keeper, item, id, kind),
        "local_shell_call_output" => {
            let call = node.str("call_id").or_else(|| node.str("id")).unwrap_or_default();
            if rest.str("id").as_ref() == Some(&call) {
                // Here the ID is the call's.
                rest.take("id");
            }
            let stdout = node.str("output");
            one(Role::Tool, execution_result(call, ExecutionOutcome::Ok, stdout))
        }
        "shell_call_output" => shell_output(node, id),
        "tool_search_call" => tool_search_call(node, id),
        "tool_search_output" => tool_search_output(item, id),
        "program" => program(keeper, item, rest, id),
        "program_output" => {
            let outcome = if node.str("status").as_deref() == Some("incomplete") {
                ExecutionOutcome::Failed
            } else {
                ExecutionOutcome::Ok
            };
            one(Role::Assistant, execution_result(call_id(node, id), outcome, node.str("result")))
        }
        "compaction" | "compaction_summary" | "context_compaction" => compaction(keeper, item, rest, id),
        "item_reference" => item_reference(keeper, item, rest, id),
        _ => unknown(keeper, item, kind),
    }
}

fn one(role: Role, body: UnifiedItemBody) -> Vec<Made> {
    vec![Made::new(role, body)]
}

/// An item of a type that has no Unified word: kept whole behind an empty message.
pub(super) fn unknown(keeper: &mut Keeper, item: &Item<'_>, kind: &str) -> Vec<Made> {
    let Some(id) = item.ids.first() else { return Vec::new() };
    let role = match kind {
        "additional_tools" | "configuration_update" => Role::Developer,
        "compaction_trigger" => Role::User,
        _ => Role::Assistant,
    };
    let placement = (role == Role::Developer).then_some(throughline_format::item::Placement::Inline);
    let mut made = Made::new(
        role,
        UnifiedItemBody::Message(MessageItem {
            parts: Vec::new(),
            placement,
        }),
    );
    let whole = item.node.to_json();
    if whole.as_str().len() > MAX_UNMAPPED_BYTES {
        let kind = ResourceType::Other("item".into());
        let payload = whole.as_str().as_bytes().to_vec();
        let resource = id.resource(number::WHOLE);
        made.provider_data = Some(vec![keeper.payload(
            Keep {
                schema: kept::ITEM,
                resource_type: kind,
                subject: Some(id),
                resource_id: resource,
                paths: vec![item.path.clone()],
            },
            payload,
        )]);
        let reason = "an item of a type without a word; kept for the same protocol";
        keeper.loss.info(crate::Feature::WireUnmapped, item.path.clone(), reason);
    }
    vec![made]
}

fn hosted_call(node: &Node, id: &UnifiedId, tool_type: UnifiedToolType, name: &str, given: Option<Json>) -> ToolCallItem {
    ToolCallItem {
        call_id: call_id(node, id),
        name: name.to_owned(),
        tool_type,
        namespace: None,
        server_label: None,
        raw_arguments: given.as_ref().map(|json| json.as_str().to_owned()).unwrap_or_default(),
        input: given,
        lifecycle: lifecycle(node.str("status").as_deref()),
        caller: caller(node),
        execution: Execution::Provider,
        provider_executed: true,
        private_linkage: None,
    }
}

/// The state of a call that the provider executes.
pub(super) fn lifecycle(status: Option<&str>) -> UnifiedToolLifecycle {
    match status {
        Some("in_progress" | "searching" | "interpreting" | "generating" | "calling") => UnifiedToolLifecycle::Executing,
        Some("failed") => UnifiedToolLifecycle::OutputError,
        Some("incomplete" | "cancelled") => UnifiedToolLifecycle::Cancelled,
        _ => UnifiedToolLifecycle::OutputReady,
    }
}

/// A found source as a part.
fn source(part_id: UnifiedId, r#type: SourceType, uri: Option<String>, title: Option<String>) -> GroundingSourcePart {
    GroundingSourcePart {
        source: UnifiedSource {
            source_id: source_id(&part_id, 0),
            r#type,
            uri,
            title,
            resource: None,
            document_index: None,
            document_item_id: None,
            document_part_id: None,
            license: None,
            published_at: None,
        },
        score: None,
        excerpt: None,
        page_age: None,
        parts: None,
    }
}

fn web_search(node: &Node, id: &UnifiedId, second: &UnifiedId) -> Vec<Made> {
    let action = node.get("action");
    let call = hosted_call(node, id, UnifiedToolType::WebSearch, "web_search", action.map(Node::to_json));
    let texts = |node: &Node, key: &str| -> Vec<String> { node.list(key).iter().filter_map(Node::as_text).collect() };
    let mut queries = action.map(|action| texts(action, "queries")).unwrap_or_default();
    if let Some(query) = action.and_then(|action| action.str("query")).filter(|_| queries.is_empty()) {
        queries.push(query);
    }
    let sources = action.map(|action| action.list("sources")).unwrap_or_default();
    let parts = sources.iter().filter_map(|found| found.str("url")).enumerate().map(|(n, url)| {
        let part_id = second.part(n as u64);
        UnifiedContentPart::new(
            part_id.clone(),
            PartBody::GroundingSource(source(part_id, SourceType::Web, Some(url), None)),
        )
    });
    let found = FoundItem {
        call_id: Some(call.call_id.clone()),
        queries,
        parts: parts.collect(),
        retrieved_at: None,
        error: None,
    };
    vec![
        Made::new(Role::Assistant, UnifiedItemBody::ServerToolCall(call)),
        Made::new(Role::Assistant, UnifiedItemBody::SearchResult(found)),
    ]
}

fn file_search(keeper: &mut Keeper, item: &Item<'_>, id: &UnifiedId, second: &UnifiedId) -> Vec<Made> {
    let node = item.node;
    let queries: Vec<String> = node.list("queries").iter().filter_map(Node::as_text).collect();
    let given = Json::from_serialize(&serde_json::json!({"queries": queries})).ok();
    let call = hosted_call(node, id, UnifiedToolType::FileSearch, "file_search", given);
    let mut parts = Vec::new();
    for (n, found) in node.list("results").iter().enumerate() {
        let part_id = second.part(n as u64);
        let mut part = source(part_id.clone(), SourceType::File, None, found.str("filename"));
        part.score = found.value("score");
        part.excerpt = found.str("text");
        part.source.resource = found.str("file_id").map(|file| {
            let path = format!("{}/results/{n}/file_id", item.path);
            keeper.hold(&part_id, number::HANDLE, ResourceType::File, &file, path)
        });
        parts.push(UnifiedContentPart::new(part_id, PartBody::GroundingSource(part)));
    }
    let found = FoundItem {
        call_id: Some(call.call_id.clone()),
        queries,
        parts,
        retrieved_at: None,
        error: None,
    };
    vec![
        Made::new(Role::Assistant, UnifiedItemBody::ServerToolCall(call)),
        Made::new(Role::Assistant, UnifiedItemBody::RetrievalResult(found)),
    ]
}

fn code_interpreter(keeper: &mut Keeper, item: &Item<'_>, rest: &mut Node, id: &UnifiedId, second: &UnifiedId) -> Vec<Made> {
    let node = item.node;
    let container = container(keeper, id, node.str("container_id"), format!("{}/container_id", item.path));
    if container.is_some() && node.has("code") && node.get("code").is_none() {
        rest.take("code");
    }
    let call = CodeExecutionItem {
        call_id: call_id(node, id),
        language: Some("python".into()),
        code: node.str("code"),
        commands: None,
        lifecycle: lifecycle(node.str("status").as_deref()),
        execution: Execution::Provider,
        caller: caller(node),
        container,
    };
    let outputs = node.list("outputs");
    let mut result = CodeExecutionResultItem {
        call_id: call.call_id.clone(),
        outcome: outcome(node.str("status").as_deref()),
        exit_code: None,
        stdout: None,
        stderr: None,
        output: Vec::new(),
        error: None,
    };
    if let ([only], Some(logs)) = (outputs, outputs.first().and_then(|o| o.str("logs"))) {
        if only.kind() == "logs" {
            result.stdout = Some(logs);
        }
    } else {
        for output in outputs {
            let part_id = second.part(result.output.len() as u64);
            if let Some(logs) = output.str("logs") {
                result.output.push(UnifiedContentPart::text(part_id, logs));
            } else if let Some(url) = output.str("url") {
                let source = media::source_of_url(&url);
                result
                    .output
                    .push(UnifiedContentPart::new(part_id, PartBody::Image(MediaPart { source, media: None })));
            }
        }
    }
    vec![
        Made::new(Role::Assistant, UnifiedItemBody::CodeExecution(call)),
        Made::new(Role::Assistant, UnifiedItemBody::CodeExecutionResult(result)),
    ]
}

fn container(
    keeper: &mut Keeper,
    id: &UnifiedId,
    handle: Option<String>,
    path: String,
) -> Option<throughline_format::UnifiedProviderResourceRef> {
    handle.map(|handle| keeper.hold(id, number::HANDLE, ResourceType::Container, &handle, path))
}

fn outcome(status: Option<&str>) -> ExecutionOutcome {
    if matches!(status, Some("failed" | "incomplete")) {
        ExecutionOutcome::Failed
    } else {
        ExecutionOutcome::Ok
    }
}

/// Members of an image call that say how the image was made.
pub(super) const IMAGE_MEMBERS: &[&str] = &[
    "action",
    "background",
    "output_format",
    "prompt",
    "quality",
    "revised_prompt",
    "size",
];

fn image_generation(node: &Node, id: &UnifiedId, second: &UnifiedId) -> Vec<Made> {
    let members = IMAGE_MEMBERS.iter().map(|key| (*key, node.get(key).cloned()));
    let given = Node::object(members);
    let call = hosted_call(
        node,
        id,
        UnifiedToolType::ImageGeneration,
        "image_generation",
        Some(given.to_json()),
    );
    let format = node.str("output_format").unwrap_or_else(|| "png".into());
    let image = node.str("result").map(|data| {
        let source = media::inline(&format!("image/{format}"), &data);
        UnifiedContentPart::new(second.part(0), PartBody::Image(MediaPart { source, media: None }))
    });
    let result = ServerToolResultItem {
        call_id: call.call_id.clone(),
        tool_type: UnifiedToolType::ImageGeneration,
        name: None,
        output: image.into_iter().collect(),
        is_error: (call.lifecycle == UnifiedToolLifecycle::OutputError).then_some(true),
        error: None,
        execution: Execution::Provider,
    };
    vec![
        Made::new(Role::Assistant, UnifiedItemBody::ServerToolCall(call)),
        Made::new(Role::Assistant, UnifiedItemBody::ServerToolResult(result)),
    ]
}

fn mcp_call(node: &Node, id: &UnifiedId, second: &UnifiedId) -> Vec<Made> {
    let mut call = hosted_call(node, id, UnifiedToolType::Mcp, &node.str("name").unwrap_or_default(), None);
    call.raw_arguments = arguments(node);
    call.input = Json::of_arguments(&call.raw_arguments);
    call.server_label = node.str("server_label");
    let error = node
        .get("error")
        .map(|error| error.as_text().or_else(|| error.str("message")).unwrap_or_else(|| error.to_text()));
    if error.is_some() {
        call.lifecycle = UnifiedToolLifecycle::OutputError;
    }
    let text = node.str("output").or_else(|| error.clone());
    let result = ServerToolResultItem {
        call_id: call.call_id.clone(),
        tool_type: UnifiedToolType::Mcp,
        name: Some(call.name.clone()),
        output: text
            .map(|text| UnifiedContentPart::text(second.part(0), text))
            .into_iter()
            .collect(),
        is_error: error.is_some().then_some(true),
        error: None,
        execution: Execution::Provider,
    };
    vec![
        Made::new(Role::Assistant, UnifiedItemBody::ServerToolCall(call)),
        Made::new(Role::Assistant, UnifiedItemBody::ServerToolResult(result)),
    ]
}

/// Name of the result that lists the tools of a server.
pub(super) const LISTING: &str = "mcp_list_tools";

fn mcp_list_tools(node: &Node, id: &UnifiedId) -> Vec<Made> {
    let value = node.get("tools").map_or_else(Json::null, Node::to_json);
    let part = PartBody::Json(JsonPart { value, schema_name: None });
    let result = ServerToolResultItem {
        call_id: call_id(node, id),
        tool_type: UnifiedToolType::Mcp,
        name: Some(LISTING.into()),
        output: vec![UnifiedContentPart::new(id.part(0), part)],
        is_error: node.get("error").map(|_| true),
        error: None,
        execution: Execution::Provider,
    };
    one(Role::Assistant, UnifiedItemBody::ServerToolResult(result))
}

fn approval_request(node: &Node, id: &UnifiedId) -> Vec<Made> {
    let body = ApprovalRequestItem {
        approval_id: node.str("id").unwrap_or_else(|| id.to_string()),
        call_id: None,
        subject: ApprovalSubject::Mcp,
        name: node.str("name"),
        server_label: node.str("server_label"),
        raw_arguments: node.get("arguments").map(|_| arguments(node)),
        reasons: None,
    };
    one(Role::Assistant, UnifiedItemBody::ApprovalRequest(body))
}

fn approval_response(node: &Node) -> Vec<Made> {
    let body = ApprovalResponseItem {
        approval_id: node.str("approval_request_id").unwrap_or_default(),
        decision: if node.value("approve") == Some(true) {
            ApprovalDecision::Approved
        } else {
            ApprovalDecision::Denied
        },
        reason: node.str("reason"),
        acknowledged: None,
    };
    one(Role::User, UnifiedItemBody::ApprovalResponse(body))
}

/// An action of the record names itself by `action`, one of the wire by `type`.
pub(super) fn rename(action: &Node, from: &str, to: &str) -> Node {
    match action {
        Node::Object(members) => Node::Object(
            members
                .iter()
                .map(|(key, node)| (if key == from { to.to_owned() } else { key.clone() }, node.clone()))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn computer_call(node: &Node, id: &UnifiedId) -> Vec<Made> {
    let call_id = call_id(node, id);
    let actions = node.get("action").into_iter().chain(node.list("actions"));
    let actions = actions.map(|action| rename(action, "type", "action").to_json()).collect();
    let checks = node.list("pending_safety_checks");
    let call = ComputerActionItem {
        call_id: call_id.clone(),
        environment: None,
        actions,
        lifecycle: if checks.is_empty() {
            UnifiedToolLifecycle::ArgumentsReady
        } else {
            UnifiedToolLifecycle::ApprovalRequired
        },
        execution: Execution::Client,
        approval_id: (!checks.is_empty()).then(|| call_id.clone()),
    };
    let mut made = one(Role::Assistant, UnifiedItemBody::ComputerAction(call));
    if !checks.is_empty() {
        let reason = |check: &Node| ApprovalReason {
            code: check.str("code"),
            message: check.str("message"),
        };
        let request = ApprovalRequestItem {
            approval_id: call_id.clone(),
            call_id: Some(call_id),
            subject: ApprovalSubject::SafetyCheck,
            name: None,
            server_label: None,
            raw_arguments: None,
            reasons: Some(checks.iter().map(reason).collect()),
        };
        made.push(Made::new(Role::Assistant, UnifiedItemBody::ApprovalRequest(request)));
    }
    made
}

fn computer_output(keeper: &mut Keeper, item: &Item<'_>, id: &UnifiedId) -> Vec<Made> {
    let node = item.node;
    let call_id = call_id(node, id);
    let path = format!("{}/output", item.path);
    let output = node
        .get("output")
        .map(|output| decode_part::part(keeper, id.part(0), output, &path));
    let result = ComputerActionResultItem {
        call_id: call_id.clone(),
        output: output.into_iter().collect(),
        current_url: node.at(&["output", "current_url"]).and_then(Node::as_text),
        is_error: None,
        error: None,
    };
    let mut made = one(Role::Tool, UnifiedItemBody::ComputerActionResult(result));
    let checks = node.list("acknowledged_safety_checks");
    if !checks.is_empty() {
        let response = ApprovalResponseItem {
            approval_id: call_id,
            decision: ApprovalDecision::Approved,
            reason: None,
            acknowledged: Some(checks.iter().map(|check| check.str("code").unwrap_or_default()).collect()),
        };
        made.push(Made::new(Role::User, UnifiedItemBody::ApprovalResponse(response)));
    }
    made
}

fn shell_call(keeper: &mut Keeper, item: &Item<'_>, id: &UnifiedId, kind: &str) -> Vec<Made> {
    let node = item.node;
    let texts = |key: &str| -> Vec<String> {
        let list = node.get("action").map(|action| action.list(key)).unwrap_or_default();
        list.iter().filter_map(Node::as_text).collect()
    };
    let hosted = node.at(&["environment", "container_id"]).and_then(Node::as_text);
    let execution = if hosted.is_some() { Execution::Provider } else { Execution::Client };
    let container = container(keeper, id, hosted, format!("{}/environment/container_id", item.path));
    let is_local = kind == "local_shell_call";
    let call = CodeExecutionItem {
        call_id: if is_local {
            node.str("call_id").or_else(|| node.str("id")).unwrap_or_else(|| id.to_string())
        } else {
            call_id(node, id)
        },
        language: Some("shell".into()),
        code: is_local.then(|| command_line(&texts("command"))),
        commands: (!is_local).then(|| texts("commands")),
        lifecycle: if execution == Execution::Provider {
            lifecycle(node.str("status").as_deref())
        } else {
            UnifiedToolLifecycle::ArgumentsReady
        },
        execution,
        caller: caller(node),
        container,
    };
    one(Role::Assistant, UnifiedItemBody::CodeExecution(call))
}

/// Words of a command as one line for a shell.
fn command_line(words: &[String]) -> String {
    let is_plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c));
    let quoted: Vec<String> = words
        .iter()
        .map(|word| {
            if is_plain(word) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect();
    quoted.join(" ")
}

fn execution_result(call_id: String, outcome: ExecutionOutcome, stdout: Option<String>) -> UnifiedItemBody {
    UnifiedItemBody::CodeExecutionResult(CodeExecutionResultItem {
        call_id,
        outcome,
        exit_code: None,
        stdout,
        stderr: None,
        output: Vec::new(),
        error: None,
    })
}

fn shell_output(node: &Node, id: &UnifiedId) -> Vec<Made> {
    let chunks = node.list("output");
    let joined = |key: &str| -> Option<String> {
        let texts: Vec<String> = chunks.iter().filter_map(|chunk| chunk.str(key)).collect();
        (!chunks.is_empty()).then(|| texts.concat())
    };
    let last = chunks.last().and_then(|chunk| chunk.get("outcome"));
    let exit_code: Option<i64> = last.and_then(|outcome| outcome.value("exit_code"));
    let outcome = match (last.map(Node::kind).as_deref(), exit_code) {
        (Some("timeout"), _) => ExecutionOutcome::Timeout,
        (_, Some(code)) if code != 0 => ExecutionOutcome::Failed,
        _ => ExecutionOutcome::Ok,
    };
    let result = CodeExecutionResultItem {
        call_id: call_id(node, id),
        outcome,
        exit_code,
        stdout: joined("stdout"),
        stderr: joined("stderr"),
        output: Vec::new(),
        error: None,
    };
    one(Role::Tool, UnifiedItemBody::CodeExecutionResult(result))
}

fn tool_search_call(node: &Node, id: &UnifiedId) -> Vec<Made> {
    let is_client = node.str("execution").as_deref() == Some("client");
    let mut call = hosted_call(node, id, UnifiedToolType::ToolSearch, "tool_search", None);
    call.raw_arguments = arguments(node);
    call.input = Json::of_arguments(&call.raw_arguments);
    if !is_client {
        return one(Role::Assistant, UnifiedItemBody::ServerToolCall(call));
    }
    call.execution = Execution::Client;
    call.provider_executed = false;
    call.lifecycle = UnifiedToolLifecycle::ArgumentsReady;
    one(Role::Assistant, UnifiedItemBody::ToolCall(call))
}

fn tool_search_output(item: &Item<'_>, id: &UnifiedId) -> Vec<Made> {
    let node = item.node;
    let value = node.get("tools").map_or_else(Json::null, Node::to_json);
    let part = PartBody::Json(JsonPart { value, schema_name: None });
    let output = vec![UnifiedContentPart::new(id.part(0), part)];
    let call_id = call_id(node, id);
    if node.str("execution").as_deref() == Some("client") {
        let body = ToolResultItem {
            call_id,
            name: None,
            output,
            is_error: None,
            error: None,
            execution: Execution::Client,
        };
        return one(Role::Tool, UnifiedItemBody::ToolResult(body));
    }
    let body = ServerToolResultItem {
        call_id,
        tool_type: UnifiedToolType::ToolSearch,
        name: None,
        output,
        is_error: None,
        error: None,
        execution: Execution::Provider,
    };
    one(Role::Assistant, UnifiedItemBody::ServerToolResult(body))
}

fn program(keeper: &mut Keeper, item: &Item<'_>, rest: &mut Node, id: &UnifiedId) -> Vec<Made> {
    let node = item.node;
    let body = CodeExecutionItem {
        call_id: call_id(node, id),
        language: Some("javascript".into()),
        code: node.str("code"),
        commands: None,
        lifecycle: UnifiedToolLifecycle::OutputReady,
        execution: Execution::Provider,
        caller: None,
        container: None,
    };
    let mut made = one(Role::Assistant, UnifiedItemBody::CodeExecution(body));
    private_content(keeper, item, rest, id, "fingerprint", &mut made);
    made
}

/// Keeps the private content of an item as a reference of the item.
fn private_content(keeper: &mut Keeper, item: &Item<'_>, rest: &mut Node, id: &UnifiedId, key: &str, made: &mut [Made]) {
    let Some(text) = rest.take(key).and_then(|node| node.as_text()) else {
        return;
    };
    let reference = encrypted(keeper, id, text, format!("{}/{key}", item.path));
    if let Some(head) = made.first_mut() {
        head.provider_data.get_or_insert_default().push(reference);
    }
}

fn compaction(keeper: &mut Keeper, item: &Item<'_>, rest: &mut Node, id: &UnifiedId) -> Vec<Made> {
    let body = CompactionSummaryItem {
        parts: Vec::new(),
        covers: CoveredRange {
            from_item_id: id.clone(),
            to_item_id: id.clone(),
            count: 0,
        },
        audit_hash: audit_hash(std::iter::empty()).unwrap_or_else(|_| Sha256::of(b"")),
        replaces: false,
        author: SummaryAuthor::Provider,
    };
    let mut made = one(Role::Assistant, UnifiedItemBody::CompactionSummary(body));
    private_content(keeper, item, rest, id, "encrypted_content", &mut made);
    made
}

/// A compaction of a request covers what stands before it, as far as anybody tells.
pub(super) fn cover(summary: &mut CompactionSummaryItem, before: &[UnifiedItem]) {
    let (Some(first), Some(last)) = (before.first(), before.last()) else {
        return;
    };
    summary.covers = CoveredRange {
        from_item_id: first.id.clone(),
        to_item_id: last.id.clone(),
        count: before.len() as u64,
    };
    if let Ok(hash) = audit_hash(before) {
        summary.audit_hash = hash;
    }
}

fn item_reference(keeper: &mut Keeper, item: &Item<'_>, rest: &mut Node, id: &UnifiedId) -> Vec<Made> {
    let wire_id = rest.take("id").and_then(|node| node.as_text()).unwrap_or_default();
    let kind = ResourceType::Other("item".into());
    let resource = keeper.hold(id, number::HANDLE, kind, &wire_id, format!("{}/id", item.path));
    let target = ReferenceTarget::Resource(ResourceTarget { resource });
    one(Role::Assistant, UnifiedItemBody::Reference(ReferenceItem { target }))
}
