//! Tool parts to items: one part is a call, its approval and its result.

use super::decode_parts::PartDecoder;
use super::hosted_state;
use super::private::Form;
use super::wire;
use crate::feature::Feature;
use crate::raw::json;
use throughline_format::item::{
    ApprovalDecision, ApprovalReason, ApprovalRequestItem, ApprovalResponseItem, ApprovalSubject, ItemStatus, Role, ServerToolResultItem,
    ToolCallItem, ToolResultItem, Visibility,
};
use throughline_format::part::JsonPart;
use throughline_format::tool::{Execution, UnifiedToolType};
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedToolLifecycle};

/// How a call ended.
struct Ending {
    failed: bool,
    output: Option<Json>,
    is_preliminary: bool,
}

impl PartDecoder {
    pub(super) fn tool(&mut self, path: &str, mut part: wire::Part) {
        let (mut form, mut more) = (Form::default(), Vec::new());
        form.dynamic = part.kind == "dynamic-tool";
        let name = part.name().to_owned();
        let call_id = part.tool_call_id.take().unwrap_or_default();
        let state = part.state.take().unwrap_or_default();
        let hosted = part.provider_executed == Some(true);
        if part.provider_executed == Some(false) {
            form.member("providerExecuted", &false);
        }
        if let Some(public) = part.input.as_ref().filter(|_| hosted).and_then(hosted_state::without) {
            self.holds_state(format!("{path}/input"));
            form.member("input", &part.input.replace(public));
        }
        let (tool_type, raw_arguments, input) = arguments(&mut part, &state, &mut form);
        let approval = part.approval.take();
        let decision = approval.as_ref().and_then(|a| a.approved);
        let ending = ending(&state, &mut part);
        let mut lifecycle = lifecycle(&state, decision);
        if ending.as_ref().is_some_and(|ending| ending.is_preliminary) {
            lifecycle.0 = UnifiedToolLifecycle::Executing;
        }
        if lifecycle.1 == state {
            let reason = format!("the record says {}", lifecycle.0);
            self.keeper.loss.renamed(format!("{path}/state"), reason);
        } else {
            form.member("state", &state);
        }
        for (key, value) in [
            ("/title", part.title.take().map(|t| json(&t))),
            ("/inputEncoding", part.input_encoding.take().map(|t| json(&t))),
            ("/errorText", part.error_text.take().map(|t| json(&t))),
            ("/output", part.output.take()),
            ("/id", part.id.take().map(|t| json(&t))),
            ("/preliminary", part.preliminary.take().map(|t| json(&t))),
        ] {
            more.extend(value.map(|value| (key.to_owned(), value)));
        }
        if let Some(approval) = &approval {
            more.extend(
                approval
                    .extra
                    .clone()
                    .into_unmapped()
                    .map(|(key, value)| (format!("/approval{key}"), value)),
            );
            if decision.is_none() && approval.reason.is_some() {
                more.push(("/approval/reason".into(), json(&approval.reason)));
            }
        }
        if ending.is_none()
            && let Some(metadata) = part.result_provider_metadata.take()
        {
            more.push(("/resultProviderMetadata".into(), metadata));
        }
        more.extend(part.extra.into_unmapped());
        let item = self.next_id();
        let metadata = vec![
            ("providerMetadata", part.provider_metadata),
            ("callProviderMetadata", part.call_provider_metadata),
        ];
        let call = ToolCallItem {
            call_id: call_id.clone(),
            name: name.clone(),
            tool_type: if hosted { hosted_type(&name) } else { tool_type },
            namespace: None,
            server_label: None,
            input,
            raw_arguments: raw_arguments.clone(),
            lifecycle: lifecycle.0,
            caller: None,
            execution: execution(hosted),
            provider_executed: hosted,
            private_linkage: self.keeper.metadata(&item, path, metadata),
        };
        let status = if lifecycle.0 == UnifiedToolLifecycle::Cancelled {
            ItemStatus::Incomplete
        } else {
            ItemStatus::Completed
        };
        let kind = if hosted {
            UnifiedItemBody::ServerToolCall
        } else {
            UnifiedItemBody::ToolCall
        };
        self.push(Role::Assistant, Visibility::Model, kind(call), status);
        let references = [
            self.keeper.fields(Some(&item), item.resource(1), path, more),
            self.keeper.form(&item, path, &form),
        ];
        self.refer(references.into_iter().flatten());
        if let Some(approval) = approval {
            self.approval(&call_id, &name, raw_arguments, approval);
        }
        if let Some(ending) = ending {
            self.result(path, call_id, name, hosted, ending, part.result_provider_metadata);
        }
    }

    fn approval(&mut self, call_id: &str, name: &str, raw_arguments: String, approval: wire::Approval) {
        let reasons = approval.request_reason.map(|message| {
            vec![ApprovalReason {
                code: None,
                message: Some(message),
            }]
        });
        let request = ApprovalRequestItem {
            approval_id: approval.id.clone(),
            call_id: Some(call_id.to_owned()),
            subject: ApprovalSubject::ToolCall,
            name: Some(name.to_owned()),
            server_label: None,
            raw_arguments: Some(raw_arguments),
            reasons,
        };
        self.push(
            Role::Assistant,
            Visibility::Model,
            UnifiedItemBody::ApprovalRequest(request),
            ItemStatus::Completed,
        );
        if let Some(approved) = approval.approved {
            let response = ApprovalResponseItem {
                approval_id: approval.id,
                decision: if approved {
                    ApprovalDecision::Approved
                } else {
                    ApprovalDecision::Denied
                },
                reason: approval.reason,
                acknowledged: None,
            };
            self.push(
                Role::User,
                Visibility::Model,
                UnifiedItemBody::ApprovalResponse(response),
                ItemStatus::Completed,
            );
        }
    }

    fn holds_state(&mut self, path: String) {
        let reason = "private state of the provider in it is kept for its owner only";
        self.keeper.loss.info(Feature::WireUnmapped, path, reason);
    }

    /// The result of a call: a hosted one stands behind its call, a client's behind all calls of the step.
    fn result(&mut self, path: &str, call_id: String, name: String, hosted: bool, mut ending: Ending, metadata: Option<Json>) {
        let id = self.next_id();
        let mut form = Form::default();
        if let Some(public) = ending.output.as_ref().filter(|_| hosted).and_then(hosted_state::without) {
            let member = if ending.failed { "errorText" } else { "output" };
            self.holds_state(format!("{path}/{member}"));
            form.member(member, &ending.output.replace(public));
        }
        let (is_error, status) = (
            ending.failed.then_some(true),
            if ending.is_preliminary {
                ItemStatus::Incomplete
            } else {
                ItemStatus::Completed
            },
        );
        let output: Vec<_> = ending.output.map(|value| output_part(id.part(0), value)).into_iter().collect();
        let body = if hosted {
            UnifiedItemBody::ServerToolResult(ServerToolResultItem {
                call_id,
                tool_type: hosted_type(&name),
                name: Some(name),
                output,
                is_error,
                error: None,
                execution: execution(true),
            })
        } else {
            UnifiedItemBody::ToolResult(ToolResultItem {
                call_id,
                name: Some(name),
                output,
                is_error,
                error: None,
                execution: execution(false),
            })
        };
        let metadata = self.keeper.metadata(&id, path, vec![("resultProviderMetadata", metadata)]);
        let references = metadata.into_iter().chain(self.keeper.form(&id, path, &form));
        if hosted {
            self.push(Role::Tool, Visibility::Model, body, status);
            self.refer(references);
        } else {
            let mut item = self.make(Role::Tool, Visibility::Model, body, status);
            let references: Vec<_> = references.collect();
            item.provider_data = (!references.is_empty()).then_some(references);
            self.results.push(item);
        }
    }

    /// The result of a call whose step has ended already.
    pub(super) fn late_result(&mut self, path: &str, mut part: wire::Part) {
        let state = part.state.take().unwrap_or_default();
        let (name, hosted) = (part.name().to_owned(), part.provider_executed == Some(true));
        if let (Some(ending), Some(call_id)) = (ending(&state, &mut part), part.tool_call_id) {
            self.result(path, call_id, name, hosted, ending, part.result_provider_metadata);
        }
    }
}

/// Type, argument text and parsed input of a call.
fn arguments(part: &mut wire::Part, state: &str, form: &mut Form) -> (UnifiedToolType, String, Option<Json>) {
    let text_of = |value: &Json| value.decode::<String>().ok();
    if state == "input-streaming" {
        // What has been written so far; the parsed beginning is the client's reading of it.
        let raw = part
            .raw_input
            .take()
            .map(|value| text_of(&value).unwrap_or_else(|| value.as_str().to_owned()));
        if raw.is_none() {
            form.absent.push("rawInput".into());
        }
        if let Some(input) = part.input.take() {
            form.member("input", &input);
        }
        return (UnifiedToolType::Function, raw.unwrap_or_default(), None);
    }
    match (part.input.take(), part.raw_input.take()) {
        (Some(input), raw) => {
            if let Some(raw) = raw {
                form.member("rawInput", &raw);
            }
            match text_of(&input) {
                Some(text) => (UnifiedToolType::Custom, text, None),
                None => (UnifiedToolType::Function, input.as_str().to_owned(), Some(input)),
            }
        }
        (None, Some(raw)) => {
            form.absent.push("input".into());
            form.member("rawInput", &raw);
            match text_of(&raw) {
                Some(text) => (UnifiedToolType::Custom, text, None),
                None => (UnifiedToolType::Function, raw.as_str().to_owned(), Some(raw)),
            }
        }
        (None, None) => {
            form.absent.push("input".into());
            (UnifiedToolType::Function, String::new(), None)
        }
    }
}

/// Where a call stands, and the state that an encoder writes for it.
fn lifecycle(state: &str, approved: Option<bool>) -> (UnifiedToolLifecycle, &'static str) {
    use UnifiedToolLifecycle as S;
    match state {
        "input-streaming" => (S::Cancelled, "input-streaming"),
        "approval-requested" => (S::ApprovalRequired, "approval-requested"),
        "approval-responded" if approved == Some(false) => (S::ApprovalDenied, "output-denied"),
        "approval-responded" => (S::ApprovalApproved, "approval-responded"),
        "output-denied" => (S::ApprovalDenied, "output-denied"),
        "output-available" => (S::OutputReady, "output-available"),
        "output-error" => (S::OutputError, "output-error"),
        // `input-available`, and whatever a later major adds: the call was made.
        _ => (S::ArgumentsReady, "input-available"),
    }
}

fn ending(state: &str, part: &mut wire::Part) -> Option<Ending> {
    match state {
        "output-available" => Some(Ending {
            failed: false,
            output: part.output.take(),
            is_preliminary: part.preliminary == Some(true),
        }),
        "output-error" => Some(Ending {
            failed: true,
            output: part.error_text.take().map(|text| json(&text)),
            is_preliminary: false,
        }),
        _ => None,
    }
}

/// Output as a part: text, or any other value as it was written.
fn output_part(id: UnifiedId, value: Json) -> UnifiedContentPart {
    match value.decode::<String>() {
        Ok(text) => UnifiedContentPart::text(id, text),
        Err(_) => UnifiedContentPart::new(id, PartBody::Json(JsonPart { value, schema_name: None })),
    }
}

const fn execution(hosted: bool) -> Execution {
    if hosted { Execution::Provider } else { Execution::Client }
}

/// The kind of a tool that a provider executes, by the names that providers' packages give it.
fn hosted_type(name: &str) -> UnifiedToolType {
    let word: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    match word.trim_start_matches("server") {
        "websearch" | "websearchpreview" | "googlesearch" | "xsearch" => UnifiedToolType::WebSearch,
        "webfetch" => UnifiedToolType::WebFetch,
        "filesearch" => UnifiedToolType::FileSearch,
        "codeexecution" | "codeinterpreter" => UnifiedToolType::CodeExecution,
        "urlcontext" => UnifiedToolType::UrlContext,
        "googlemaps" => UnifiedToolType::Maps,
        "computer" | "computeruse" => UnifiedToolType::ComputerUse,
        "imagegeneration" => UnifiedToolType::ImageGeneration,
        "shell" | "localshell" | "bash" => UnifiedToolType::Shell,
        "applypatch" => UnifiedToolType::ApplyPatch,
        "texteditor" | "strreplacebasededittool" => UnifiedToolType::TextEditor,
        "toolsearch" | "toolsearchtoolregex" | "toolsearchtoolbm25" => UnifiedToolType::ToolSearch,
        "advisor" => UnifiedToolType::Advisor,
        "memory" => UnifiedToolType::Memory,
        word if word.starts_with("mcp") => UnifiedToolType::Mcp,
        _ => UnifiedToolType::Other("vercel-uimessage:provider-executed".into()),
    }
}
