//! Parts of a message to items.

use super::read::Reader;
use crate::builder::Stamp;
use crate::fields::Fields;
use crate::wire_blocks::Content;
use throughline_format::LossSeverity;
use throughline_format::item::{Role, Visibility};
use throughline_protocols::Feature;

/// Where parts stand.
pub(super) struct Place<'a> {
    /// The record of their message.
    pub(super) record: usize,
    /// Number of the message, from 1.
    pub(super) number: usize,
    /// ID of the message.
    pub(super) key: &'a str,
    /// Who says it.
    pub(super) role: Role,
}

/// Parts of one message that are shown to the same readers.
#[derive(Default)]
struct Run {
    content: Content,
    injected: bool,
    /// Not sent to the model.
    hidden: bool,
}

/// Reads the parts of a message: what it says, then the results of its calls.
pub(super) fn read(reader: &mut Reader, parts: &[Fields<'_>], place: &Place<'_>, stamp: &Stamp) {
    let (mut runs, mut results) = (vec![Run::default()], Content::default());
    for (at, part) in parts.iter().enumerate() {
        let (injected, hidden) = (part.flag("synthetic"), part.flag("ignored"));
        if runs.last().is_none_or(|run| (run.injected, run.hidden) != (injected, hidden)) {
            runs.push(Run {
                content: Content::default(),
                injected,
                hidden,
            });
        }
        let Some(run) = runs.last_mut() else { continue };
        if !part_of(part, &mut run.content, &mut results) {
            let path = format!("/{}/parts/{at}", place.number);
            let reason = "a part of a kind that is not known; it is kept for the same runtime";
            reader.builder.lose(LossSeverity::Info, Feature::ConversationItem, path, reason);
        }
    }
    let role = if place.role == Role::User { "user" } else { "assistant" };
    let path = format!("/{}", place.number);
    for (run, number) in runs.into_iter().zip(0..) {
        let key = if number == 0 {
            place.key.to_owned()
        } else {
            format!("{}#{number}", place.key)
        };
        let stamp = Stamp {
            injected: run.injected,
            ..stamp.clone()
        };
        let mut items = if run.content.is_empty() {
            Vec::new()
        } else {
            run.content.read(role, &mut reader.builder, &key, &path)
        };
        if run.hidden {
            for item in &mut items {
                item.base.visibility = Visibility::Client;
            }
        }
        reader.builder.items(Some(place.record), items, &stamp);
    }
    if !results.is_empty() {
        let items = results.read("user", &mut reader.builder, &format!("{}#results", place.key), &path);
        reader.builder.items(Some(place.record), items, stamp);
    }
}

/// Adds one part; false when its kind is not known.
fn part_of(part: &Fields<'_>, said: &mut Content, results: &mut Content) -> bool {
    let text = |key: &str| part.text(key).unwrap_or_default();
    match text("type").as_str() {
        "text" => said.text(&text("text")),
        "reasoning" => {
            let metadata = part.object("metadata").unwrap_or_default();
            let signature = metadata.object("anthropic").and_then(|own| own.word("signature"));
            said.thinking(&text("text"), signature.as_deref());
        }
        "file" => said.medium(&text("mime"), &text("url"), part.word("filename").as_deref()),
        "subtask" => said.text(&text("prompt")),
        "tool" => tool(part, said, results),
        // Marks of steps, of the working tree and of what is shown; mentions stand in the text.
        "step-start" | "step-finish" | "snapshot" | "patch" | "agent" | "retry" | "compaction" => {}
        _ => return false,
    }
    true
}

/// A call and its result in one. One that is not finished has no result yet.
fn tool(part: &Fields<'_>, said: &mut Content, results: &mut Content) {
    let state = part.object("state").unwrap_or_default();
    let call_id = part
        .word("callID")
        .or_else(|| part.word("id"))
        .unwrap_or_else(|| "unknown".to_owned());
    said.call(&call_id, &part.text("tool").unwrap_or_default(), state.json("input"));
    let mut output = Content::default();
    match state.text("status").as_deref() {
        Some("pending" | "running") => {}
        Some("error") => {
            output.text(&state.text("error").unwrap_or_default());
            results.result(&call_id, output, true);
        }
        _ => {
            output.text(&state.text("output").unwrap_or_default());
            for file in state.objects("attachments") {
                let media_type = file.text("mime").unwrap_or_default();
                output.medium(&media_type, &file.text("url").unwrap_or_default(), file.word("filename").as_deref());
            }
            results.result(&call_id, output, false);
        }
    }
}
