//! OpenCode: sessions as JSON files, later a database, always exportable as one document.
//!
//! The export of all of 1.x is `{info, messages: [{info, parts}]}`. The folder `storage` of old versions holds the same objects one a
//! file (`session/…`, `message/<session>/…`, `part/<message>/…`), the database of newer ones has them in the columns `data`. The caller
//! reads folder and database and gives what is in them as files of `storage`; a bundle is such a folder in one JSON object.
//!
//! A user message and each call of the model is a message; a tool part is a call and its result in one. The order of messages and parts
//! is that of their IDs, so IDs that are made ascend.
//!
//! What the runtime does when it goes on: reasoning of another model is sent as text of the assistant, so it is written only with its
//! own signature; a part of an unknown kind refuses the whole import; a call that is not finished gets a result that says so.
//!
//! Forms: `export` for `opencode import`; `prelude` is one text that a first prompt begins with, for versions without an import: it tells
//! the conversation instead of being it, and that is reported. Where to start reading: `files`, then `read` and `write`.

mod files;
mod parts;
mod prelude;
mod read;
mod write;

use crate::runtime::{ResumePlan, Runtime, WriteOptions, Written, form};
use crate::source::Source;
use crate::transcript::Transcript;
use throughline_format::UnifiedError;

/// Name of the runtime.
pub const NAME: &str = "opencode";

/// The runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenCode;

impl Runtime for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn forms(&self) -> &'static [&'static str] {
        &["export", "prelude"]
    }

    fn read(&self, source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
        read::read(source)
    }

    fn write(&self, transcript: &Transcript, options: &WriteOptions) -> Result<Written, UnifiedError> {
        Ok(match form(self, options)? {
            "prelude" => prelude::write(transcript, options),
            _ => write::write(transcript, options),
        })
    }

    fn resume(&self, written: &Written, _: Option<&str>) -> Option<ResumePlan> {
        written.files.first()?;
        Some(ResumePlan {
            home: ("XDG_DATA_HOME", ".local/share"),
            path: None,
            import: Some(["opencode", "import"].map(str::to_owned).to_vec()),
            command: ["opencode", "run", "--session", &written.session_id].map(str::to_owned).to_vec(),
        })
    }
}
