//! Items of hosted and built-in tools, approvals, programs, compaction and references to the wire.

use super::decode_hosted::{IMAGE_MEMBERS, LISTING, rename};
use super::decode_item::CallKind;
use super::encode_item::{Writer, status_word};
use super::encode_part::Side;
use super::kept;
use super::wire::Node;
use crate::feature::Feature;
use crate::media;
use crate::visible_text::visible_text;
use throughline_format::item::{
    ApprovalDecision, ApprovalRequestItem, ApprovalResponseItem, ApprovalSubject, CodeExecutionItem, CodeExecutionResultItem,
    ComputerActionItem, ComputerActionResultItem, ExecutionOutcome, FoundItem, ReferenceTarget, ServerToolResultItem, ToolCallItem,
};
use throughline_format::loss::LossSeverity;
use throughline_format::media::UnifiedDataSource;
use throughline_format::tool::Execution;
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedItem, UnifiedItemBody, UnifiedToolLifecycle, UnifiedToolType};

/// Whether an item may have a second one in its wire item at all.
pub(super) fn may_have_companion(item: &UnifiedItemBody) -> bool {
    use UnifiedItemBody as B;
    matches!(
        item,
        B::ServerToolCall(_) | B::CodeExecution(_) | B::ComputerAction(_) | B::ComputerActionResult(_)
    )
}

/// The second item that belongs to the same wire item as the first, when that is so.
pub(super) fn is_companion(first: &UnifiedItemBody, second: &UnifiedItemBody) -> bool {
    use UnifiedItemBody as B;
    match (first, second) {
        (B::ServerToolCall(call), B::SearchResult(found) | B::RetrievalResult(found)) => found.call_id.as_ref() == Some(&call.call_id),
        (B::ServerToolCall(call), B::ServerToolResult(result)) => {
            call.tool_type != UnifiedToolType::ToolSearch && result.call_id == call.call_id
        }
        (B::CodeExecution(call), B::CodeExecutionResult(result)) => {
            super::decode_item::call_kind(first).is_none() && result.call_id == call.call_id
        }
        (B::ComputerAction(call), B::ApprovalRequest(request)) => {
            request.subject == ApprovalSubject::SafetyCheck && request.call_id.as_ref() == Some(&call.call_id)
        }
        (B::ComputerActionResult(result), B::ApprovalResponse(response)) => response.approval_id == result.call_id,
        _ => false,
    }
}

impl Writer<'_> {
    pub(super) fn hosted(&mut self, items: &[&UnifiedItem]) -> Option<Node> {
        let head = *items.first()?;
        let second = items.get(1).map(|item| &item.body);
        match &head.body {
            UnifiedItemBody::ServerToolCall(call) => self.server_call(head, call, second),
            UnifiedItemBody::ServerToolResult(result) => self.listing(head, result),
            UnifiedItemBody::ComputerAction(call) => Some(self.computer_call(head, call, second)),
            UnifiedItemBody::ComputerActionResult(result) => self.computer_output(result, second),
            UnifiedItemBody::CodeExecution(call) => Some(self.execution(head, call, second)),
            UnifiedItemBody::CodeExecutionResult(result) => Some(self.execution_output(head, result)),
            UnifiedItemBody::ApprovalRequest(request) => approval_request(request),
            UnifiedItemBody::ApprovalResponse(response) => {
                self.remark(Feature::RecordBookkeeping, "/decision", "said as a flag");
                Some(approval_response(response))
            }
            UnifiedItemBody::CompactionSummary(_) => {
                for member in ["/covers", "/auditHash", "/author", "/replaces"] {
                    self.remark(Feature::RecordBookkeeping, member, "the target keeps it in what it encrypted");
                }
                let text = kept::text(self.private, head.provider_data.as_ref(), kept::ENCRYPTED);
                let text = text.or_else(|| self.is_plain.then(String::new))?;
                Some(Node::typed("compaction", [("encrypted_content", Some(Node::text(&text)))]))
            }
            UnifiedItemBody::Reference(reference) => match &reference.target {
                ReferenceTarget::Resource(target) => {
                    let id = kept::handle(self.private, &target.resource)?;
                    Some(Node::typed("item_reference", [("id", Some(Node::text(&id)))]))
                }
                ReferenceTarget::Item(_) | ReferenceTarget::Url(_) => None,
            },
            UnifiedItemBody::Message(_)
            | UnifiedItemBody::Reasoning(_)
            | UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ToolResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => None,
        }
    }

    fn server_call(&mut self, item: &UnifiedItem, call: &ToolCallItem, second: Option<&UnifiedItemBody>) -> Option<Node> {
        let status = Some(Node::text(lifecycle_word(call.lifecycle)));
        let found = match second {
            Some(UnifiedItemBody::SearchResult(found) | UnifiedItemBody::RetrievalResult(found)) => Some(found),
            _ => None,
        };
        let result = match second {
            Some(UnifiedItemBody::ServerToolResult(result)) => Some(result),
            _ => None,
        };
        let output = result.map(|result| result.output.as_slice()).unwrap_or_default();
        let given = call.input.as_ref().map(Node::open);
        let same = "the target says it by the type of the item";
        if call.tool_type != UnifiedToolType::Mcp {
            self.remark(Feature::RecordBookkeeping, "/name", same);
            if self.is_native {
                self.remark(Feature::RecordBookkeeping, "/input", "the target says it in members of the item");
            } else {
                let reason = "what another vendor's tool was asked is said as far as the target has words";
                self.note(LossSeverity::Info, Feature::ToolCallHosted, "/input", reason);
            }
        }
        match &call.tool_type {
            UnifiedToolType::WebSearch => {
                let action = given.filter(|given| given.has("type") || !self.fills());
                let action = action.or_else(|| self.fills().then(|| search_action(call, found, output)));
                Some(Node::typed("web_search_call", [("status", status), ("action", action)]))
            }
            UnifiedToolType::WebFetch => {
                let url = given.and_then(|given| given.get("url").cloned()).unwrap_or_else(|| Node::text(""));
                let action = Node::typed("open_page", [("url", Some(url))]);
                self.note(
                    LossSeverity::Info,
                    Feature::ToolHostedWebFetch,
                    "",
                    "a fetched page is a step of the web search",
                );
                Some(Node::typed("web_search_call", [("status", status), ("action", Some(action))]))
            }
            UnifiedToolType::FileSearch => {
                let queries = given
                    .and_then(|given| given.get("queries").cloned())
                    .unwrap_or(Node::List(Vec::new()));
                let results = self.file_results(found.map(|found| found.parts.as_slice()).unwrap_or_default());
                let results = (!results.is_empty()).then_some(Node::List(results));
                Some(Node::typed(
                    "file_search_call",
                    [("status", status), ("queries", Some(queries)), ("results", results)],
                ))
            }
            UnifiedToolType::ImageGeneration => {
                let mut node = Node::typed("image_generation_call", [("status", status)]);
                for key in IMAGE_MEMBERS {
                    if let Some(value) = given.as_ref().and_then(|given| given.get(key)) {
                        node.put(key, value.clone());
                    }
                }
                let data = output.iter().find_map(|part| match &part.body {
                    PartBody::Image(image) => match &image.source {
                        UnifiedDataSource::Inline(inline) => Some(media::base64_of(inline)),
                        _ => None,
                    },
                    _ => None,
                });
                if let Some(data) = data {
                    node.put("result", Node::text(&data));
                }
                Some(node)
            }
            UnifiedToolType::Mcp => {
                let is_failed = result.is_some_and(|result| result.is_error == Some(true));
                let said = (!output.is_empty()).then(|| Node::text(&output_text(output)));
                let members = if is_failed { ("error", said) } else { ("output", said) };
                Some(Node::typed(
                    "mcp_call",
                    [
                        ("status", status),
                        (
                            "server_label",
                            call.server_label.as_deref().map(Node::text).or_else(|| Some(Node::text(""))),
                        ),
                        ("name", Some(Node::text(&call.name))),
                        ("arguments", Some(Node::text(&Self::arguments(item, call)))),
                        members,
                    ],
                ))
            }
            UnifiedToolType::ToolSearch => Some(Node::typed(
                "tool_search_call",
                [
                    ("status", status),
                    ("execution", Some(Node::text("server"))),
                    ("arguments", given.or_else(|| Some(Node::text(&call.raw_arguments)))),
                ],
            )),
            UnifiedToolType::CodeExecution => {
                let code = ["code", "command"]
                    .iter()
                    .find_map(|key| given.as_ref().and_then(|given| given.str(key)));
                let code = code.unwrap_or_else(|| call.raw_arguments.clone());
                let logs = Node::typed("logs", [("logs", Some(Node::text(&output_text(output))))]);
                let outputs = if output.is_empty() { Vec::new() } else { vec![logs] };
                Some(Node::typed(
                    "code_interpreter_call",
                    [
                        ("status", status),
                        ("code", Some(Node::text(&code))),
                        ("container_id", Some(Node::text("none"))),
                        ("outputs", Some(Node::List(outputs))),
                    ],
                ))
            }
            UnifiedToolType::Function
            | UnifiedToolType::Custom
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
            | UnifiedToolType::ProgrammaticCalling
            | UnifiedToolType::Advisor
            | UnifiedToolType::Other(_) => None,
        }
    }

    fn file_results(&self, parts: &[UnifiedContentPart]) -> Vec<Node> {
        let result = |part: &UnifiedContentPart| {
            let PartBody::GroundingSource(found) = &part.body else {
                return None;
            };
            let handle = found
                .source
                .resource
                .as_ref()
                .and_then(|resource| kept::handle(self.private, resource));
            Some(Node::object([
                ("file_id", handle.as_deref().map(Node::text)),
                ("filename", found.source.title.as_deref().map(Node::text)),
                ("score", found.score.map(|score| Node::of(&score))),
                ("text", found.excerpt.as_deref().map(Node::text)),
            ]))
        };
        parts.iter().filter_map(result).collect()
    }

    /// A result of a hosted tool that is an item of its own.
    fn listing(&mut self, item: &UnifiedItem, result: &ServerToolResultItem) -> Option<Node> {
        let value = result.output.iter().find_map(|part| match &part.body {
            PartBody::Json(json) => Some(Node::open(&json.value)),
            _ => None,
        });
        self.remark(Feature::RecordBookkeeping, "/name", "the target says it by the type of the item");
        let value = value?;
        let list = if value.has("tools") { value.get("tools")?.clone() } else { value };
        // What another vendor found are names of tools at best; a list of anything but tools is told as text.
        let is_tool = |node: &Node| !matches!(node.kind().as_str(), "" | "tool_reference") || node.has("name");
        let tools = Some(list).filter(|list| list.as_list().is_some_and(|list| list.iter().all(is_tool)));
        tools.as_ref()?;
        match &result.tool_type {
            UnifiedToolType::Mcp if result.name.as_deref() == Some(LISTING) => Some(Node::typed("mcp_list_tools", [("tools", tools)])),
            UnifiedToolType::ToolSearch => Some(Node::typed(
                "tool_search_output",
                [
                    ("status", Some(Node::text(status_word(item.status)))),
                    ("execution", Some(Node::text("server"))),
                    ("tools", tools),
                ],
            )),
            _ => None,
        }
    }

    fn computer_call(&mut self, item: &UnifiedItem, call: &ComputerActionItem, second: Option<&UnifiedItemBody>) -> Node {
        let mut actions: Vec<Node> = call
            .actions
            .iter()
            .map(|action: &Json| rename(&Node::open(action), "action", "type"))
            .collect();
        let checks = match second {
            Some(UnifiedItemBody::ApprovalRequest(request)) => request.reasons.clone().unwrap_or_default(),
            _ => Vec::new(),
        };
        let check = |reason: &throughline_format::item::ApprovalReason| {
            Node::object([
                ("code", reason.code.as_deref().map(Node::text)),
                ("message", reason.message.as_deref().map(Node::text)),
            ])
        };
        let single = if actions.len() == 1 { actions.pop() } else { None };
        Node::typed(
            "computer_call",
            [
                ("status", Some(Node::text(status_word(item.status)))),
                ("call_id", Some(self.id_of(&call.call_id))),
                ("action", single),
                ("actions", (!actions.is_empty()).then_some(Node::List(actions))),
                ("pending_safety_checks", Some(Node::List(checks.iter().map(check).collect()))),
            ],
        )
    }

    fn computer_output(&mut self, result: &ComputerActionResultItem, second: Option<&UnifiedItemBody>) -> Option<Node> {
        let call_id = Some(self.id_of(&result.call_id));
        let mut shot = self.parts(&result.output, Side::Input, true, "output").into_iter().next();
        if let Some(shot) = &mut shot {
            shot.put("type", Node::text("computer_screenshot"));
        }
        let checks = match second {
            Some(UnifiedItemBody::ApprovalResponse(response)) => response.acknowledged.clone(),
            _ => None,
        };
        let check = |code: &String| Node::object([("code", Some(Node::text(code)))]);
        Some(Node::typed(
            "computer_call_output",
            [
                ("call_id", call_id),
                ("output", Some(shot?)),
                (
                    "acknowledged_safety_checks",
                    checks.map(|checks| Node::List(checks.iter().map(check).collect())),
                ),
            ],
        ))
    }

    fn execution(&mut self, item: &UnifiedItem, call: &CodeExecutionItem, second: Option<&UnifiedItemBody>) -> Node {
        let call_id = Some(self.id_of(&call.call_id));
        self.remark(
            Feature::RecordBookkeeping,
            "/language",
            "the target says it by the type of the item",
        );
        let container = call.container.as_ref().and_then(|container| kept::handle(self.private, container));
        let status = Some(Node::text(if call.execution == Execution::Provider {
            lifecycle_word(call.lifecycle)
        } else {
            status_word(item.status)
        }));
        match super::decode_item::call_kind(&item.body).map(|(_, kind)| kind) {
            Some(CallKind::Shell) => {
                let commands = call.commands.iter().flatten().map(|command| Node::text(command)).collect();
                let action = Node::object([("commands", Some(Node::List(commands)))]);
                let environment = container.map(|id| Node::typed("container_reference", [("container_id", Some(Node::text(&id)))]));
                Node::typed(
                    "shell_call",
                    [
                        ("status", status),
                        ("call_id", call_id),
                        ("action", Some(action)),
                        ("environment", environment),
                    ],
                )
            }
            Some(CallKind::LocalShell) => {
                let code = call.code.clone().unwrap_or_default();
                let words = Node::List(["bash", "-lc", &code].iter().map(|word| Node::text(word)).collect());
                let action = Node::typed("exec", [("command", Some(words)), ("env", Some(Node::Object(Vec::new())))]);
                Node::typed(
                    "local_shell_call",
                    [("status", status), ("call_id", call_id), ("action", Some(action))],
                )
            }
            Some(CallKind::Program) => {
                let fingerprint = kept::text(self.private, item.provider_data.as_ref(), kept::ENCRYPTED);
                Node::typed(
                    "program",
                    [
                        ("call_id", call_id),
                        ("code", call.code.as_deref().map(Node::text)),
                        ("fingerprint", fingerprint.as_deref().map(Node::text)),
                    ],
                )
            }
            Some(CallKind::Function | CallKind::Custom | CallKind::Computer | CallKind::ApplyPatch | CallKind::ToolSearch) | None => {
                let outputs = match second {
                    Some(UnifiedItemBody::CodeExecutionResult(result)) => Self::outputs(result),
                    _ => Vec::new(),
                };
                let container = container.or_else(|| (self.is_answer() && self.fills()).then(|| "none".to_owned()));
                Node::typed(
                    "code_interpreter_call",
                    [
                        ("status", status),
                        ("code", call.code.as_deref().map(Node::text)),
                        ("container_id", container.as_deref().map(Node::text)),
                        // The type demands the member, and takes null.
                        ("outputs", Some(if outputs.is_empty() { Node::null() } else { Node::List(outputs) })),
                    ],
                )
            }
        }
    }

    fn outputs(result: &CodeExecutionResultItem) -> Vec<Node> {
        let logs = |text: &str| Node::typed("logs", [("logs", Some(Node::text(text)))]);
        let mut outputs: Vec<Node> = result.stdout.iter().chain(&result.stderr).map(|text| logs(text)).collect();
        for part in &result.output {
            match &part.body {
                PartBody::Text(text) => outputs.push(logs(&text.text)),
                PartBody::Image(image) => {
                    let url = match &image.source {
                        UnifiedDataSource::Url(source) => source.url.clone(),
                        UnifiedDataSource::Inline(inline) => media::to_data_url(inline),
                        UnifiedDataSource::Artifact(_) | UnifiedDataSource::ProviderResource(_) => continue,
                    };
                    outputs.push(Node::typed("image", [("url", Some(Node::text(&url)))]));
                }
                // The type of an output is one of two.
                PartBody::Json(json) => outputs.push(logs(json.value.as_str())),
                PartBody::Reasoning(_)
                | PartBody::Refusal(_)
                | PartBody::Audio(_)
                | PartBody::Video(_)
                | PartBody::Document(_)
                | PartBody::File(_)
                | PartBody::Binary(_)
                | PartBody::Citation(_)
                | PartBody::GroundingSource(_)
                | PartBody::ArtifactReference(_) => {}
            }
        }
        outputs
    }

    fn execution_output(&mut self, item: &UnifiedItem, result: &CodeExecutionResultItem) -> Node {
        let call_id = Some(self.id_of(&result.call_id));
        self.remark(
            Feature::RecordBookkeeping,
            "/outcome",
            "the target says it by a status or an exit code",
        );
        let stdout = result.stdout.clone().unwrap_or_default();
        match self.calls.get(&result.call_id) {
            Some(CallKind::LocalShell) => Node::typed("local_shell_call_output", [("id", call_id), ("output", Some(Node::text(&stdout)))]),
            Some(CallKind::Program) => Node::typed(
                "program_output",
                [
                    ("status", Some(Node::text(status_word(item.status)))),
                    ("call_id", call_id),
                    ("result", result.stdout.as_deref().map(Node::text)),
                ],
            ),
            Some(
                CallKind::Shell | CallKind::Function | CallKind::Custom | CallKind::Computer | CallKind::ApplyPatch | CallKind::ToolSearch,
            )
            | None => {
                let outcome = match (&result.outcome, result.exit_code) {
                    (ExecutionOutcome::Timeout, _) => Node::typed("timeout", []),
                    (outcome, code) => {
                        let code = code.unwrap_or_else(|| i64::from(*outcome != ExecutionOutcome::Ok));
                        Node::typed("exit", [("exit_code", Some(Node::of(&code)))])
                    }
                };
                let chunk = Node::object([
                    ("stdout", Some(Node::text(&stdout))),
                    ("stderr", Some(Node::text(result.stderr.as_deref().unwrap_or_default()))),
                    ("outcome", Some(outcome)),
                ]);
                let status = self.is_answer().then(|| Node::text(status_word(item.status)));
                Node::typed(
                    "shell_call_output",
                    [("status", status), ("call_id", call_id), ("output", Some(Node::List(vec![chunk])))],
                )
            }
        }
    }
}

/// A search in the target's words, from a call of another protocol.
fn search_action(call: &ToolCallItem, found: Option<&FoundItem>, output: &[UnifiedContentPart]) -> Node {
    let given = call.input.as_ref().map(Node::open);
    let mut queries: Vec<String> = found.map(|found| found.queries.clone()).unwrap_or_default();
    let query = given
        .as_ref()
        .and_then(|given| given.str("query"))
        .or_else(|| queries.first().cloned());
    if queries.is_empty() {
        queries.extend(query.clone());
    }
    let parts = found.map_or(output, |found| found.parts.as_slice());
    let url = |part: &UnifiedContentPart| match &part.body {
        PartBody::GroundingSource(found) => found
            .source
            .uri
            .as_deref()
            .map(|uri| Node::typed("url", [("url", Some(Node::text(uri)))])),
        _ => None,
    };
    let sources: Vec<Node> = parts.iter().filter_map(url).collect();
    Node::typed(
        "search",
        [
            ("query", Some(Node::text(query.as_deref().unwrap_or_default()))),
            ("queries", Some(Node::List(queries.iter().map(|query| Node::text(query)).collect()))),
            ("sources", (!sources.is_empty()).then_some(Node::List(sources))),
        ],
    )
}

/// The output as one text, as it was said: a blank line of a program is its output too.
fn output_text(parts: &[UnifiedContentPart]) -> String {
    let said = |part: &UnifiedContentPart| {
        part.as_text()
            .map_or_else(|| visible_text(std::slice::from_ref(part)), str::to_owned)
    };
    parts.iter().map(said).collect::<Vec<_>>().join("\n")
}

fn approval_request(request: &ApprovalRequestItem) -> Option<Node> {
    (request.subject == ApprovalSubject::Mcp).then(|| {
        Node::typed(
            "mcp_approval_request",
            [
                ("id", Some(Node::text(&request.approval_id))),
                ("server_label", request.server_label.as_deref().map(Node::text)),
                ("name", request.name.as_deref().map(Node::text)),
                ("arguments", request.raw_arguments.as_deref().map(Node::text)),
            ],
        )
    })
}

fn approval_response(response: &ApprovalResponseItem) -> Node {
    let approve = response.decision == ApprovalDecision::Approved;
    Node::typed(
        "mcp_approval_response",
        [
            ("approval_request_id", Some(Node::text(&response.approval_id))),
            ("approve", Some(Node::of(&approve))),
            ("reason", response.reason.as_deref().map(Node::text)),
        ],
    )
}

/// The wire's word for the state of a call that the provider executes.
pub(super) const fn lifecycle_word(lifecycle: UnifiedToolLifecycle) -> &'static str {
    match lifecycle {
        UnifiedToolLifecycle::ArgumentsStreaming
        | UnifiedToolLifecycle::ArgumentsReady
        | UnifiedToolLifecycle::ApprovalRequired
        | UnifiedToolLifecycle::ApprovalApproved
        | UnifiedToolLifecycle::Executing => "in_progress",
        UnifiedToolLifecycle::OutputReady => "completed",
        UnifiedToolLifecycle::OutputError => "failed",
        UnifiedToolLifecycle::ApprovalDenied | UnifiedToolLifecycle::Cancelled => "incomplete",
    }
}
