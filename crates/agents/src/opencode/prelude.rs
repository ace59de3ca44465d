//! The conversation told in one text, for versions that take no session: the first prompt begins with it.

use crate::losses;
use crate::project;
use crate::runtime::{WriteOptions, Written, WrittenFile};
use crate::transcript::Transcript;
use crate::wire_blocks::{self, Block, Medium};
use serde_json::json;
use std::fmt::Write as _;
use throughline_format::{LossSeverity, UnifiedLossReport};
use throughline_protocols::{Feature, anthropic_messages};

pub(super) fn write(transcript: &Transcript, options: &WriteOptions) -> Written {
    let told = project::tell(transcript, "", wire_blocks::capabilities(), anthropic_messages::history);
    let mut loss = UnifiedLossReport::default();
    let reason = "the conversation is told in one text of the user; it is not the history of the session";
    loss.push(losses::entry(
        LossSeverity::Warning,
        Feature::ConversationMessageBoundary,
        "/conversation/items",
        reason,
        None,
    ));
    let (mut lines, mut files): (Vec<String>, Vec<Medium>) = (Vec::new(), Vec::new());
    for piece in &told.pieces {
        let speaker = if piece.role == Some("assistant") { "Assistant" } else { "User" };
        match wire_blocks::open(piece) {
            Block::Text(text) | Block::Other(text) => lines.push(format!("**{speaker}:** {text}")),
            Block::Thinking { text, .. } => lines.push(format!("**Assistant (thinking):** {text}")),
            Block::Medium(medium) => {
                lines.push(format!(
                    "**{speaker}:** [file {}: {}]",
                    files.len() + 1,
                    medium.name.as_deref().unwrap_or(&medium.media_type)
                ));
                files.push(medium);
            }
            Block::Call { name, input, .. } => lines.push(format!("**Tool call ({name}):** {}", input.as_str())),
            Block::Result { text, media, is_error, .. } => {
                let word = if is_error { "Tool result (error)" } else { "Tool result" };
                let mut line = format!("**{word}:** {text}");
                for medium in media {
                    let _ = write!(
                        line,
                        " [file {}: {}]",
                        files.len() + 1,
                        medium.name.as_deref().unwrap_or(&medium.media_type)
                    );
                    files.push(medium);
                }
                lines.push(line);
            }
        }
    }
    let text = format!("<conversation-history>\n{}\n</conversation-history>", lines.join("\n\n"));
    let mut parts = vec![json!({"type": "text", "text": text})];
    parts.extend(files.iter().map(|medium| {
        let mut part = json!({"type": "file", "mime": medium.media_type, "url": medium.url});
        if let (Some(name), Some(part)) = (&medium.name, part.as_object_mut()) {
            part.insert("filename".to_owned(), json!(name));
        }
        part
    }));
    loss.extend(told.loss);
    let session_id = options.session_id.clone().unwrap_or_else(|| transcript.session.id.clone());
    let content = json!({"prelude": text, "parts": parts});
    Written {
        files: vec![WrittenFile {
            path: format!("{}.prelude.json", crate::ids::file_name(&session_id)),
            content: format!("{content}\n"),
        }],
        session_id,
        loss,
    }
}
