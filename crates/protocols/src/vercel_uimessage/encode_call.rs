//! Calls with their approvals and results to tool parts.

use super::encode_part::{Out, is_whole_output, output};
use super::private::Kept;
use super::{Major, is_own};
use crate::feature::Feature;
use crate::object::Object;
use crate::raw::json;
use throughline_format::citation::UnifiedSource;
use throughline_format::item::{ApprovalDecision, ApprovalRequestItem, ApprovalResponseItem};
use throughline_format::loss::LossSeverity;
use throughline_format::{
    Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedItem, UnifiedItemBody, UnifiedToolLifecycle, UnifiedToolType,
};

/// Error of a call that was cancelled: the target has no state for it.
pub(super) const CANCELLED: &str = "The call was cancelled.";
/// Error of a call that was denied, for clients that know no approvals.
pub(super) const DENIED: &str = "The call was denied.";

/// A call of whatever kind, as a tool part names it.
pub(super) struct Called {
    pub call_id: String,
    pub name: String,
    pub is_hosted: bool,
    pub is_dynamic: bool,
    /// The input is text and not JSON.
    pub is_text: bool,
    pub raw: String,
    pub input: Option<Json>,
    pub lifecycle: UnifiedToolLifecycle,
}

/// What a result says.
pub(super) struct Outcome {
    pub output: Json,
    pub error: Option<String>,
}

/// The name of a tool on this wire: its namespace stands in front.
pub(super) fn wire_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    }
}

/// The call that an item is; none for other items.
pub(super) fn call_of(item: &UnifiedItem) -> Option<Called> {
    use throughline_format::tool::Execution;
    match &item.body {
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => Some(Called {
            call_id: call.call_id.clone(),
            name: wire_name(call.namespace.as_deref(), &call.name),
            is_hosted: call.provider_executed || call.execution == Execution::Provider,
            is_dynamic: call.server_label.is_some() || call.tool_type == UnifiedToolType::Mcp && !is_own(item.provenance.profile.as_ref()),
            is_text: call.tool_type == UnifiedToolType::Custom,
            raw: call.raw_arguments.clone(),
            input: call.input.clone(),
            lifecycle: call.lifecycle,
        }),
        UnifiedItemBody::CodeExecution(code) => {
            let input = Object::default()
                .with_some("language", code.language.as_ref())
                .with_some("code", code.code.as_ref())
                .with_some("commands", code.commands.as_ref());
            Some(made_up("code_execution", &code.call_id, code.execution, code.lifecycle, &input))
        }
        UnifiedItemBody::ComputerAction(action) => {
            let input = Object::default()
                .with_some("environment", action.environment.as_ref())
                .with("actions", &action.actions);
            Some(made_up("computer_use", &action.call_id, action.execution, action.lifecycle, &input))
        }
        UnifiedItemBody::Message(_)
        | UnifiedItemBody::Reasoning(_)
        | UnifiedItemBody::ToolResult(_)
        | UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_)
        | UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::Reference(_)
        | UnifiedItemBody::CompactionSummary(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_)
        | UnifiedItemBody::Error(_) => None,
    }
}

fn made_up(
    name: &str,
    call_id: &str,
    execution: throughline_format::tool::Execution,
    lifecycle: UnifiedToolLifecycle,
    input: &Object,
) -> Called {
    let input = input.to_json();
    Called {
        call_id: call_id.to_owned(),
        name: name.to_owned(),
        is_hosted: execution == throughline_format::tool::Execution::Provider,
        is_dynamic: false,
        is_text: false,
        raw: input.as_str().to_owned(),
        input: Some(input),
        lifecycle,
    }
}

/// The call ID of a result; none for other items.
pub(super) fn result_of(item: &UnifiedItem) -> Option<&str> {
    match &item.body {
        UnifiedItemBody::ToolResult(_)
        | UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_) => item.call_id(),
        UnifiedItemBody::Message(_)
        | UnifiedItemBody::Reasoning(_)
        | UnifiedItemBody::ToolCall(_)
        | UnifiedItemBody::ServerToolCall(_)
        | UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_)
        | UnifiedItemBody::ComputerAction(_)
        | UnifiedItemBody::CodeExecution(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::Reference(_)
        | UnifiedItemBody::CompactionSummary(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_)
        | UnifiedItemBody::Error(_) => None,
    }
}

impl Out<'_> {
    /// What a result says in this wire's form.
    pub(super) fn outcome(&mut self, item: &UnifiedItem, path: &str) -> Option<Outcome> {
        match &item.body {
            UnifiedItemBody::ToolResult(result) => {
                Some(self.result(&result.output, result.is_error == Some(true), result.error.as_ref(), path))
            }
            UnifiedItemBody::ServerToolResult(result) => {
                Some(self.result(&result.output, result.is_error == Some(true), result.error.as_ref(), path))
            }
            UnifiedItemBody::ComputerActionResult(result) => {
                if result.current_url.is_some() {
                    self.loss.info(
                        Feature::ToolCallHosted,
                        format!("{path}/currentUrl"),
                        "the target's output has no address",
                    );
                }
                Some(self.result(&result.output, result.is_error == Some(true), result.error.as_ref(), path))
            }
            UnifiedItemBody::CodeExecutionResult(result) => {
                self.loss
                    .info(Feature::ToolCallHosted, path, "as the output of a tool that the provider executed");
                let output = Object::default()
                    .with("outcome", result.outcome.as_str())
                    .with_some("exitCode", result.exit_code.as_ref())
                    .with_some("stdout", result.stdout.as_ref())
                    .with_some("stderr", result.stderr.as_ref());
                Some(Outcome {
                    output: output.to_json(),
                    error: result.error.as_ref().map(|error| error.message.clone()),
                })
            }
            UnifiedItemBody::SearchResult(found) | UnifiedItemBody::RetrievalResult(found) => {
                self.loss.info(
                    Feature::ToolCallHosted,
                    path,
                    "as the output of a tool: queries, addresses and titles",
                );
                let sources: Vec<Object> = found.parts.iter().filter_map(found_source).collect();
                let output = Object::default().with("queries", &found.queries).with("sources", &sources);
                Some(Outcome {
                    output: output.to_json(),
                    error: found.error.as_ref().map(|error| error.message.clone()),
                })
            }
            UnifiedItemBody::Message(_)
            | UnifiedItemBody::Reasoning(_)
            | UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => None,
        }
    }

    fn result(&mut self, parts: &[UnifiedContentPart], failed: bool, error: Option<&UnifiedError>, path: &str) -> Outcome {
        for (number, part) in parts.iter().enumerate() {
            if !is_whole_output(parts, part) {
                let path = format!("{path}/output/{number}");
                self.loss.info(Feature::ToolResultMedia, path, "in a JSON value of parts");
            }
        }
        let value = output(parts);
        if !failed && error.is_none() {
            return Outcome {
                output: value,
                error: None,
            };
        }
        if let Some(error) = error {
            let path = format!("{path}/error");
            let reason = if parts.is_empty() {
                "the target says only the message of an error"
            } else {
                "the target says the output as the error"
            };
            self.loss.info(Feature::ToolResultError, path, reason);
            if parts.is_empty() {
                return Outcome {
                    output: value,
                    error: Some(error.message.clone()),
                };
            }
        }
        let text = value.decode::<String>().unwrap_or_else(|_| value.as_str().to_owned());
        Outcome {
            output: value,
            error: Some(text),
        }
    }

    /// A call with everything that became of it, as one part.
    pub(super) fn tool(
        &mut self,
        item: &UnifiedItem,
        call: &Called,
        path: &str,
        approval: Option<(&ApprovalRequestItem, Option<&ApprovalResponseItem>)>,
        result: Option<(&UnifiedItem, &str)>,
    ) -> Object {
        use UnifiedToolLifecycle as S;
        let own = is_own(item.provenance.profile.as_ref());
        let linkage = match &item.body {
            UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => call.private_linkage.as_ref(),
            _ => None,
        };
        let references = item.provider_data.iter().flatten().chain(linkage);
        let mut kept = Kept::of(self.context.private.as_ref(), references);
        if let (Some(_), None) = (linkage, &kept.metadata) {
            self.loss.info(
                Feature::ReasoningSignature,
                format!("{path}/privateLinkage"),
                "private state stays with its provider",
            );
        }
        let outcome = result.and_then(|(result, path)| self.outcome(result, path));
        let result_kept = result.map(|(item, _)| Kept::of(self.context.private.as_ref(), item.provider_data.iter().flatten()));
        let approval = approval.filter(|_| self.major >= Major::Six);
        let denied = call.lifecycle == S::ApprovalDenied
            || approval.is_some_and(|(_, answer)| answer.is_some_and(|a| a.decision == ApprovalDecision::Denied));
        let (state, error) = match (&outcome, call.lifecycle) {
            (Some(Outcome { error: Some(error), .. }), _) => ("output-error", Some(error.clone())),
            (Some(Outcome { error: None, .. }), _) => ("output-available", None),
            (None, _) if denied && approval.is_some() => ("output-denied", None),
            (None, _) if denied => ("output-error", Some(DENIED.to_owned())),
            (None, S::ApprovalApproved) if approval.is_some() => ("approval-responded", None),
            (None, S::ApprovalRequired) if approval.is_some() => ("approval-requested", None),
            (None, S::Cancelled) if own => ("input-streaming", None),
            (None, S::ArgumentsStreaming) => ("input-streaming", None),
            (None, S::Cancelled) => {
                self.loss.warning(
                    Feature::ConversationInterruption,
                    path,
                    "the target has no state for a cancelled call",
                );
                ("output-error", Some(CANCELLED.to_owned()))
            }
            (
                None,
                S::ArgumentsReady
                | S::ApprovalRequired
                | S::ApprovalApproved
                | S::ApprovalDenied
                | S::Executing
                | S::OutputReady
                | S::OutputError,
            ) => ("input-available", None),
        };
        let dynamic = kept.form.dynamic || call.is_dynamic;
        let mut part = if dynamic {
            Object::of_type("dynamic-tool").with("toolName", &call.name)
        } else {
            Object::of_type(&format!("tool-{}", call.name))
        };
        part = part.with("toolCallId", &call.call_id).with("state", state);
        if state == "input-streaming" {
            part = part.with("rawInput", &call.raw);
        } else {
            part.set("input", input(call));
        }
        if call.is_hosted {
            part = part.with("providerExecuted", &true);
        }
        if let Some((request, answer)) = approval {
            part = part.with("approval", &approval_object(request, answer, state));
        }
        match (&outcome, &error) {
            (_, Some(error)) => part = part.with("errorText", error),
            (Some(outcome), None) => part.set("output", outcome.output.clone()),
            (None, None) => {}
        }
        if own && state == "output-available" && result.is_some_and(|(item, _)| item.parts().is_empty()) {
            part.remove("output");
        }
        let as_written = "as written, with the private state that its owner put into it";
        if let (Some(known), Some((_, path))) = (result_kept, result) {
            if known.form.get("output").is_some() {
                self.loss.renamed(format!("{path}/output"), as_written);
            }
            known.apply(&mut part);
        }
        if kept.form.get("input").is_some() {
            self.loss.renamed(format!("{path}/input"), as_written);
        }
        kept.form.dynamic = false;
        kept.apply(&mut part);
        part
    }

    /// What approvals say that the target's part has no place for.
    pub(super) fn approval_losses(&mut self, item: &UnifiedItem, path: &str) {
        if self.major < Major::Six {
            self.loss.add_for(
                LossSeverity::Warning,
                Feature::ToolApproval,
                path,
                "before major 6 there are no approvals",
                Some(&item.id),
            );
        } else if let UnifiedItemBody::ApprovalRequest(request) = &item.body {
            self.loss.renamed(format!("{path}/subject"), "whatever is approved is a call here");
            for (number, reason) in request.reasons.iter().flatten().enumerate() {
                if number > 0 || reason.code.is_some() || self.major < Major::Seven {
                    let path = format!("{path}/reasons/{number}");
                    self.loss
                        .info(Feature::ToolApproval, path, "from major 7 on the target says one reason, in words");
                }
            }
        } else if let UnifiedItemBody::ApprovalResponse(response) = &item.body
            && response.acknowledged.is_some()
        {
            self.loss
                .info(Feature::ToolApproval, format!("{path}/acknowledged"), "the target has no codes");
        }
    }
}

/// The approval of a part, in the members that its state may have.
pub(super) fn approval_object(request: &ApprovalRequestItem, answer: Option<&ApprovalResponseItem>, state: &str) -> Object {
    let mut object = Object::default().with("id", &request.approval_id);
    let reason = request.reasons.iter().flatten().find_map(|reason| reason.message.as_ref());
    object = object.with_some("requestReason", reason);
    if let Some(answer) = answer.filter(|_| state != "approval-requested") {
        object = object
            .with("approved", &(answer.decision == ApprovalDecision::Approved))
            .with_some("reason", answer.reason.as_ref());
    }
    object
}

/// The input of a call: its JSON as written, or text.
pub(super) fn input(call: &Called) -> Json {
    match &call.input {
        Some(input) => input.clone(),
        None if call.raw.trim().is_empty() && !call.is_text => json(&Object::default()),
        None => json(&call.raw),
    }
}

fn found_source(part: &UnifiedContentPart) -> Option<Object> {
    let PartBody::GroundingSource(found) = &part.body else {
        return None;
    };
    let UnifiedSource { uri, title, .. } = &found.source;
    Some(Object::default().with_some("url", uri.as_ref()).with_some("title", title.as_ref()))
}
