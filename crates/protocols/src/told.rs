//! Items without a form at the target, in words: the model reads what happened, and the loss report says that it is text.
//!
//! The words stand in brackets, so that neither a model nor a reader takes them for what the assistant said itself.

use crate::feature::Feature;
use crate::visible_text::visible_text;
use throughline_format::item::{CodeExecutionResultItem, ExecutionOutcome, FoundItem, Role};
use throughline_format::{UnifiedError, UnifiedItem, UnifiedItemBody};

/// As what an item that is told as text is reported, and why.
pub(crate) const fn reported(item: &UnifiedItem) -> (Feature, &'static str) {
    match &item.body {
        UnifiedItemBody::ApprovalRequest(_) | UnifiedItemBody::ApprovalResponse(_) => (
            Feature::ToolApproval,
            "the target has no form for this approval; what was asked or answered is told as text",
        ),
        UnifiedItemBody::ToolCall(_) | UnifiedItemBody::ToolResult(_) => (
            Feature::ToolFunction,
            "the target has no form for calls of tools; what was called or answered is told as text",
        ),
        _ => (
            Feature::ToolCallHosted,
            "the target has no form for this work of a hosted tool; it is told as text",
        ),
    }
}

/// What an item says, for a model that knows no such item; none when it says nothing.
pub(crate) fn told(item: &UnifiedItem) -> Option<String> {
    use UnifiedItemBody as B;
    match &item.body {
        B::ToolCall(call) | B::ServerToolCall(call) => Some(format!("[Call of the tool {}: {}]", call.name, call.raw_arguments)),
        B::ToolResult(result) => told_text(
            &failed("Result", result.is_error, result.error.as_ref()),
            &with_error(visible_text(&result.output), result.error.as_ref()),
        ),
        B::ServerToolResult(result) => told_text(
            &failed("Result of a hosted tool", result.is_error, result.error.as_ref()),
            &with_error(visible_text(&result.output), result.error.as_ref()),
        ),
        B::SearchResult(found) | B::RetrievalResult(found) => told_text(&failed("Found", None, found.error.as_ref()), &search(found)),
        B::CodeExecution(call) => {
            let lines: Vec<&str> = call.code.iter().chain(call.commands.iter().flatten()).map(String::as_str).collect();
            let language = call.language.as_ref().map(|language| format!(" ({language})")).unwrap_or_default();
            told_text(&format!("Executed{language}"), &lines.join("\n"))
        }
        B::CodeExecutionResult(result) => told_text(&outcome(result), &execution(result)),
        B::ComputerAction(call) => {
            let actions: Vec<&str> = call.actions.iter().map(throughline_format::Json::as_str).collect();
            told_text("Actions on the computer", &actions.join("\n"))
        }
        B::ComputerActionResult(result) => told_text(
            &failed("Result on the computer", result.is_error, result.error.as_ref()),
            &with_error(visible_text(&result.output), result.error.as_ref()),
        ),
        B::ApprovalRequest(request) => Some(format!(
            "[Approval {} was asked for: {} {}]",
            request.approval_id,
            request.name.as_deref().unwrap_or_default(),
            request.raw_arguments.as_deref().unwrap_or_default()
        )),
        B::ApprovalResponse(response) => {
            let why = response.reason.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
            Some(format!("[Approval {}: {}{why}]", response.approval_id, response.decision.as_str()))
        }
        B::Message(_)
        | B::Reasoning(_)
        | B::Artifact(_)
        | B::Reference(_)
        | B::CompactionSummary(_)
        | B::ProviderSwitch(_)
        | B::Interruption(_)
        | B::Error(_) => None,
    }
}

/// Who says the words: only an approval is a word of the user, since what a tool found has no more authority than the model that
/// asked for it.
pub(crate) const fn teller(item: &UnifiedItem) -> Role {
    match &item.body {
        UnifiedItemBody::ApprovalResponse(_) => Role::User,
        _ => Role::Assistant,
    }
}

fn told_text(what: &str, text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| format!("[{what}:\n{}]", text.trim_end()))
}

fn failed(what: &str, is_error: Option<bool>, error: Option<&UnifiedError>) -> String {
    let word = if is_error == Some(true) || error.is_some() {
        ", failed"
    } else {
        ""
    };
    format!("{what}{word}")
}

/// Lines, and below them how it failed.
fn with_error(mut said: String, error: Option<&UnifiedError>) -> String {
    if let Some(error) = error {
        if !said.is_empty() {
            said.push('\n');
        }
        said.push_str(&error.message);
    }
    said
}

fn search(found: &FoundItem) -> String {
    let mut lines = found.queries.clone();
    lines.push(visible_text(&found.parts));
    lines.retain(|line| !line.is_empty());
    with_error(lines.join("\n"), found.error.as_ref())
}

/// How an execution ended, where it is more than that it did.
fn outcome(result: &CodeExecutionResultItem) -> String {
    let word = match &result.outcome {
        ExecutionOutcome::Ok => String::new(),
        other => format!(", {}", other.as_str()),
    };
    let code = result
        .exit_code
        .filter(|code| *code != 0)
        .map(|code| format!(" (exit code {code})"));
    format!("Output{word}{}", code.unwrap_or_default())
}

fn execution(result: &CodeExecutionResultItem) -> String {
    let mut lines: Vec<String> = result.stdout.iter().chain(&result.stderr).cloned().collect();
    lines.push(visible_text(&result.output));
    lines.retain(|line| !line.trim().is_empty());
    with_error(lines.join("\n"), result.error.as_ref())
}
