//! [`Runtime`]: what every runtime can do, and the registry of those that this build knows.

use crate::source::Source;
use crate::transcript::Transcript;
use throughline_format::{UnifiedError, UnifiedLossReport};

/// What a writer needs besides the transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// ID of the written session; default: the transcript's own for its own runtime, else one derived from it.
    pub session_id: Option<String>,
    /// Working folder of the written session; default: the transcript's.
    pub cwd: Option<String>,
    /// The model that will go on, where the target records one per message.
    pub model: Option<String>,
    /// A second form of the target, by name.
    pub form: Option<String>,
}

impl WriteOptions {
    /// The ID of the written session: the one that is asked for, the transcript's own at its own runtime, else a made one.
    pub(crate) fn session_id(&self, transcript: &Transcript, runtime: &str, make: impl FnOnce() -> String) -> String {
        let own = || (transcript.runtime == runtime).then(|| transcript.session.id.clone());
        self.session_id.clone().or_else(own).unwrap_or_else(make)
    }
}

/// A file of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its name; below it, folders are separated by `/`.
    pub path: String,
    /// Its content, UTF-8.
    pub content: String,
}

/// A session of the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The session's ID at the target.
    pub session_id: String,
    /// Its files.
    pub files: Vec<WrittenFile>,
    /// What could not be said; paths are JSON Pointers into the journal, `/conversation/items/N/…`.
    pub loss: UnifiedLossReport,
}

/// How the target goes on with a written session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePlan {
    /// Variable that names the runtime's folder, and the folder below the home directory where it is unset.
    pub home: (&'static str, &'static str),
    /// Where the file belongs below that folder; `None` when the runtime takes it by a command of its own.
    pub path: Option<String>,
    /// The command that imports it first, without the file's path at its end.
    pub import: Option<Vec<String>>,
    /// The command that goes on.
    pub command: Vec<String>,
}

/// One runtime, both ways.
pub trait Runtime: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Names of the forms that it can be written in; the first is the default.
    fn forms(&self) -> &'static [&'static str];

    /// Reads sessions. Records that are damaged or unknown are skipped and told, never an error; a subagent's conversation is a
    /// transcript of its own after the one that it belongs to.
    ///
    /// # Errors
    /// `invalid-request.transcript` when there is no session in the source at all.
    fn read(&self, source: &Source) -> Result<Vec<Transcript>, UnifiedError>;

    /// Writes a session by the rules of this runtime. Losses are entries, no errors.
    ///
    /// # Errors
    /// `invalid-request.form` for a form that this runtime does not have.
    fn write(&self, transcript: &Transcript, options: &WriteOptions) -> Result<Written, UnifiedError>;

    /// How to go on with what [`Self::write`] wrote in its default form; `None` for a form that no runtime goes on with.
    fn resume(&self, written: &Written, cwd: Option<&str>) -> Option<ResumePlan>;
}

/// Every runtime, in the order of the documentation.
pub fn runtimes() -> [&'static dyn Runtime; 5] {
    [
        &crate::claude_code::ClaudeCode,
        &crate::codex::Codex,
        &crate::opencode::OpenCode,
        &crate::gemini_cli::GeminiCli,
        &crate::blocks::SnaBlocks,
    ]
}

/// The runtime of this name.
pub fn runtime_named(name: &str) -> Option<&'static dyn Runtime> {
    runtimes().into_iter().find(|runtime| runtime.name() == name)
}

/// The form that is wanted, checked.
pub(crate) fn form<'a>(runtime: &dyn Runtime, options: &'a WriteOptions) -> Result<&'a str, UnifiedError> {
    let default = runtime.forms().first().copied().unwrap_or_default();
    let wanted = options.form.as_deref().unwrap_or(default);
    if runtime.forms().contains(&wanted) {
        return Ok(wanted);
    }
    let known = runtime.forms().join(", ");
    let message = format!("{} has no such form; it has {known}", runtime.name());
    Err(UnifiedError::new(
        throughline_format::ErrorCategory::InvalidRequest,
        "form",
        message,
    ))
}
