//! Claude Code: sessions as JSON lines, `projects/<slug>/<session>.jsonl` below `$CLAUDE_CONFIG_DIR` or `~/.claude`.
//!
//! A line is a record. `user`, `assistant`, `system`, `attachment` and `progress` records form a tree by `uuid` and `parentUuid`; the
//! conversation is the path from the last leaf to the root. `message` is a message of the Anthropic API, with one content block a line:
//! lines of one answer share `message.id`, and repeat model and usage. Everything else (titles, snapshots, queue operations, request
//! logs) stands beside the tree.
//!
//! What the runtime does when it goes on, and what the writer therefore takes care of: it finds a file by its name in the folder of
//! the working folder; without `uuid` and `parentUuid` only the last line arrives; a parent that does not exist is repaired by time, so
//! times ascend strictly; blocks with different message IDs are different turns; thinking without a signature is sent as it is and
//! refused by the API; a second call with an ID is dropped.
//!
//! Where to start reading: `lines` (one record), `path` (which of them are the conversation), then `read` and `write`.

mod lines;
mod path;
mod read;
mod repair;
mod write;

use crate::runtime::{ResumePlan, Runtime, WriteOptions, Written};
use crate::source::Source;
use crate::transcript::Transcript;
use throughline_format::UnifiedError;

/// Name of the runtime.
pub const NAME: &str = "claude-code";

/// The runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeCode;

impl Runtime for ClaudeCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn forms(&self) -> &'static [&'static str] {
        &["jsonl"]
    }

    fn read(&self, source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
        read::read(source)
    }

    fn write(&self, transcript: &Transcript, options: &WriteOptions) -> Result<Written, UnifiedError> {
        crate::runtime::form(self, options)?;
        Ok(write::write(transcript, options))
    }

    fn resume(&self, written: &Written, cwd: Option<&str>) -> Option<ResumePlan> {
        let file = written.files.first()?;
        Some(ResumePlan {
            home: ("CLAUDE_CONFIG_DIR", ".claude"),
            path: Some(format!("projects/{}/{}", slug(cwd.unwrap_or("/")), file.path)),
            import: None,
            command: vec!["claude".to_owned(), "--resume".to_owned(), written.session_id.clone()],
        })
    }
}

/// The folder of a working folder: everything that is no letter and no digit is a hyphen.
pub fn slug(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
