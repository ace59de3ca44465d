//! A session for people: who said what, with a line wherever the runtime or the model changes.

use std::fmt::Write as _;
use throughline_format::item::{Role, Visibility};
use throughline_format::{UnifiedAttribution, UnifiedItem, UnifiedItemBody};

/// Most lines of a result that are shown.
const RESULT_LINES: usize = 12;

/// The text of items in order.
pub(super) fn readable(items: &[UnifiedItem]) -> String {
    let mut out = String::new();
    let mut last: Option<UnifiedAttribution> = None;
    for item in items.iter().filter(|item| item.visibility != Visibility::Internal) {
        let attribution = &item.provenance.attribution;
        // What tells no model is no change of it.
        let told = attribution.model.is_some() && item.role != Some(Role::User);
        if told && last.as_ref() != Some(attribution) {
            let words = words(attribution);
            let line = if last.is_some() { format!("switched to {words}") } else { words };
            let _ = writeln!(out, "── {} ──\n", clean(&line));
            last = Some(attribution.clone());
        }
        out += &said(item);
    }
    out
}

fn words(attribution: &UnifiedAttribution) -> String {
    let words = [&attribution.provider, &attribution.model].into_iter().flatten();
    words.cloned().collect::<Vec<_>>().join(", ")
}

fn said(item: &UnifiedItem) -> String {
    match &item.body {
        UnifiedItemBody::Message(_) => {
            let name = match item.role {
                Some(Role::User) => "you",
                Some(Role::Assistant) => "assistant",
                _ => "system",
            };
            block(name, &texts(item), usize::MAX)
        }
        UnifiedItemBody::Reasoning(_) => block("thinking", &texts(item), RESULT_LINES),
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => {
            format!("  → {} {}\n", clean(&call.name), shortened(&clean(&call.raw_arguments)))
        }
        UnifiedItemBody::ToolResult(result) => {
            let name = if result.is_error == Some(true) { "failed" } else { "result" };
            block(name, &texts(item), RESULT_LINES)
        }
        UnifiedItemBody::CompactionSummary(_) => block("summary of everything before", &texts(item), usize::MAX),
        UnifiedItemBody::Interruption(_) => "  (interrupted)\n\n".to_owned(),
        UnifiedItemBody::Error(error) => block("error", &error.error.message, usize::MAX),
        other => block(other.kind(), &texts(item), RESULT_LINES),
    }
}

fn texts(item: &UnifiedItem) -> String {
    let parts = item.parts().iter();
    let texts = parts.map(|part| part.as_text().map_or_else(|| format!("({})", part.body.kind()), str::to_owned));
    texts.collect::<Vec<_>>().join("\n")
}

fn block(name: &str, text: &str, most: usize) -> String {
    let mut out = format!("{name}:\n");
    let mut lines = text.lines();
    for line in lines.by_ref().take(most) {
        let _ = writeln!(out, "  {}", clean(line));
    }
    let left = lines.count();
    if left > 0 {
        let _ = writeln!(out, "  … {left} more lines");
    }
    out + "\n"
}

/// Control characters could command the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\t' { '\u{FFFD}' } else { c })
        .collect()
}

fn shortened(text: &str) -> String {
    const MOST: usize = 160;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}
