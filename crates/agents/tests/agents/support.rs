//! Reading and writing small sessions.

use serde_json::Value;
use throughline_agents::{Source, Transcript, WriteOptions, Written, runtime_named};
use throughline_format::item::Visibility;
use throughline_format::{PartBody, UnifiedItem, UnifiedItemBody};

/// All transcripts of a file.
pub(crate) fn read_all(runtime: &str, name: &str, text: impl AsRef<[u8]>) -> Vec<Transcript> {
    runtime_named(runtime).unwrap().read(&Source::file(name, text.as_ref())).unwrap()
}

/// The main transcript of a file.
pub(crate) fn read(runtime: &str, name: &str, text: impl AsRef<[u8]>) -> Transcript {
    read_all(runtime, name, text).swap_remove(0)
}

pub(crate) fn write(runtime: &str, transcript: &Transcript) -> Written {
    runtime_named(runtime).unwrap().write(transcript, &WriteOptions::default()).unwrap()
}

pub(crate) fn write_form(runtime: &str, transcript: &Transcript, form: &str) -> Written {
    let options = WriteOptions {
        form: Some(form.to_owned()),
        ..WriteOptions::default()
    };
    runtime_named(runtime).unwrap().write(transcript, &options).unwrap()
}

/// The lines of the first file.
pub(crate) fn lines(written: &Written) -> Vec<Value> {
    written.files[0]
        .content
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// One word a leaf, for what a model sees: `user: hi`, `call: Bash`, `result: ok`, `summary: …`; `!` marks what the runtime put in.
pub(crate) fn said(items: &[UnifiedItem]) -> Vec<String> {
    let mut out = Vec::new();
    for item in items {
        let mark = match item.visibility {
            Visibility::Model => "",
            Visibility::Internal => "!",
            Visibility::Client => "-",
        };
        let texts = item.parts().iter().map(|part| match &part.body {
            PartBody::Image(_) => "[image]".to_owned(),
            _ => part.as_text().unwrap_or("[other]").to_owned(),
        });
        let texts = texts.collect::<Vec<_>>().join("|");
        out.push(match &item.body {
            UnifiedItemBody::Message(_) => format!("{mark}{}: {texts}", item.role.unwrap()),
            UnifiedItemBody::Reasoning(_) => format!("{mark}thinking: {texts}"),
            UnifiedItemBody::ToolCall(call) => format!("{mark}call: {}", call.name),
            UnifiedItemBody::ToolResult(result) if result.is_error == Some(true) => format!("{mark}failed: {texts}"),
            UnifiedItemBody::ToolResult(_) => format!("{mark}result: {texts}"),
            UnifiedItemBody::CompactionSummary(summary) => format!("{mark}summary of {}: {texts}", summary.covers.count),
            other => format!("{mark}{}", other.kind()),
        });
    }
    out
}

/// Reasons of the losses.
pub(crate) fn reasons(loss: &throughline_format::UnifiedLossReport) -> Vec<&str> {
    loss.entries.iter().map(|entry| entry.reason.as_str()).collect()
}

/// Values one a line.
pub(crate) fn joined<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> String {
    lines.into_iter().fold(String::new(), |all, line| format!("{all}{line}\n"))
}
