//! Codex: rollouts, `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl` below `$CODEX_HOME` or `~/.codex`.
//!
//! Three generations: a head line and bare items; lines of `timestamp`, `type`, `payload`; the same with more types. The payload of a
//! `response_item` is an input item of OpenAI Responses. `turn_context` names the model of what follows, `compacted` replaces what came
//! before, `event_msg` repeats for display what items say, and tells of usage, rollbacks and aborted turns.
//!
//! What the runtime does when it goes on, and what the writer therefore takes care of: it finds a file by the ID in its name; the head
//! must hold five members; a line without a time is skipped in silence, and so is an item whose content has another form; an output is
//! text or a list of parts; the provider in the head must be the configured one, so none is written.
//!
//! Forms: `rollout` is the file, `response-items` the list of items that `thread/resume` and `thread/inject_items` of the app server take.
//! Where to start reading: `read`, then `write`.

mod read;
mod write;

use crate::runtime::{ResumePlan, Runtime, WriteOptions, Written, form};
use crate::source::Source;
use crate::transcript::Transcript;
use throughline_format::UnifiedError;

/// Name of the runtime.
pub const NAME: &str = "codex";

/// The runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codex;

impl Runtime for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn forms(&self) -> &'static [&'static str] {
        &["rollout", "response-items"]
    }

    fn read(&self, source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
        read::read(source)
    }

    fn write(&self, transcript: &Transcript, options: &WriteOptions) -> Result<Written, UnifiedError> {
        let form = form(self, options)?;
        Ok(write::write(transcript, options, form == "response-items"))
    }

    fn resume(&self, written: &Written, _: Option<&str>) -> Option<ResumePlan> {
        let file = written.files.first()?;
        // rollout-2026-03-01T10-00-00-<id>.jsonl
        let date = file.path.strip_prefix("rollout-")?.get(..10)?;
        Some(ResumePlan {
            home: ("CODEX_HOME", ".codex"),
            path: Some(format!("sessions/{}/{}", date.replace('-', "/"), file.path)),
            import: None,
            command: ["codex", "exec", "resume", &written.session_id].map(str::to_owned).to_vec(),
        })
    }
}
