//! Gemini CLI: chats, `tmp/<project>/chats/session-<time>-<id>.jsonl` below `~/.gemini`; one `.json` document in old versions.
//!
//! The lines are a log: a head, messages (one with a known ID replaces the earlier one at its place), `$set` merges into the head or
//! replaces the whole list, `$rewindTo` drops a message and all after it. What counts is the list that is left. A call and its result
//! are in one record; thoughts are summaries without signatures.
//!
//! What the runtime does when it goes on: it leaves out records of its own (`info`, `warning`, `error`), the user's commands and the
//! contexts that it puts in; a call without a result stays unanswered and the API refuses it; a file without head is not listed.
//!
//! Forms: `jsonl`, and `json` for versions before 0.40. Where to start reading: `log` (what is left of a log), then `read` and `write`.

mod log;
mod read;
mod write;

use crate::runtime::{ResumePlan, Runtime, WriteOptions, Written, form};
use crate::source::Source;
use crate::transcript::Transcript;
use throughline_format::{Sha256, UnifiedError};

/// Name of the runtime.
pub const NAME: &str = "gemini-cli";

/// The runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeminiCli;

impl Runtime for GeminiCli {
    fn name(&self) -> &'static str {
        NAME
    }

    fn forms(&self) -> &'static [&'static str] {
        &["jsonl", "json"]
    }

    fn read(&self, source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
        read::read(source)
    }

    fn write(&self, transcript: &Transcript, options: &WriteOptions) -> Result<Written, UnifiedError> {
        let form = form(self, options)?;
        Ok(write::write(transcript, options, form == "json"))
    }

    fn resume(&self, written: &Written, cwd: Option<&str>) -> Option<ResumePlan> {
        let file = written.files.first()?;
        Some(ResumePlan {
            home: ("", ".gemini"),
            path: Some(format!("tmp/{}/chats/{}", project(cwd.unwrap_or("/")), file.path)),
            import: None,
            command: ["gemini", "--resume", &written.session_id].map(str::to_owned).to_vec(),
        })
    }
}

/// The project's folder where `projects.json` names none: the digest of its path.
pub fn project(cwd: &str) -> String {
    Sha256::of(cwd.as_bytes()).to_hex()
}
