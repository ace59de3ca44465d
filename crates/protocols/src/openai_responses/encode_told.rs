//! Items without a form at the target, in words.

use super::encode_part::grounding_text;
use throughline_format::item::{CodeExecutionResultItem, FoundItem};
use throughline_format::{PartBody, UnifiedContentPart, UnifiedItem, UnifiedItemBody};

/// What an item says, for a model that knows no such item; none when it says nothing.
pub(super) fn told(item: &UnifiedItem) -> Option<String> {
    use UnifiedItemBody as B;
    match &item.body {
        B::ToolCall(call) | B::ServerToolCall(call) => Some(format!("[Call of the tool {}: {}]", call.name, call.raw_arguments)),
        B::ToolResult(result) => some("Result", &texts(&result.output)),
        B::ServerToolResult(result) => some("Result of a hosted tool", &texts(&result.output)),
        B::SearchResult(found) | B::RetrievalResult(found) => some("Found", &search(found)),
        B::CodeExecution(call) => {
            let lines = call.code.iter().chain(call.commands.iter().flatten()).cloned().collect::<Vec<_>>();
            some("Executed", &lines.join("\n"))
        }
        B::CodeExecutionResult(result) => some("Output", &execution(result)),
        B::ComputerAction(call) => {
            let actions: Vec<&str> = call.actions.iter().map(throughline_format::Json::as_str).collect();
            some("Actions on the computer", &actions.join("\n"))
        }
        B::ComputerActionResult(result) => some("Result on the computer", &texts(&result.output)),
        B::ApprovalRequest(request) => Some(format!(
            "[Approval {} was asked for: {} {}]",
            request.approval_id,
            request.name.as_deref().unwrap_or_default(),
            request.raw_arguments.as_deref().unwrap_or_default()
        )),
        B::ApprovalResponse(response) => Some(format!("[Approval {}: {}]", response.approval_id, response.decision.as_str())),
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

fn some(what: &str, text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("[{what}:\n{text}]"))
}

fn texts(parts: &[UnifiedContentPart]) -> String {
    let text = |part: &UnifiedContentPart| match &part.body {
        PartBody::GroundingSource(found) => grounding_text(found),
        PartBody::Json(json) => Some(json.value.as_str().to_owned()),
        _ => part.as_text().map(str::to_owned),
    };
    let texts: Vec<String> = parts.iter().filter_map(text).collect();
    texts.join("\n")
}

fn search(found: &FoundItem) -> String {
    let mut lines = found.queries.clone();
    lines.push(texts(&found.parts));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

fn execution(result: &CodeExecutionResultItem) -> String {
    let mut lines: Vec<String> = result.stdout.iter().chain(&result.stderr).cloned().collect();
    lines.push(texts(&result.output));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}
