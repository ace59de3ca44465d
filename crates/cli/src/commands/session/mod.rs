//! `throughline session`: sessions of coding agents, from one to another, and in and out of a store.
//!
//! The crate `throughline-agents` reads and writes what is in the files; here is where they lie, when it is now, and what is stored.

mod convert;
mod database;
mod export;
mod homes;
mod import;
mod keep;
mod line_up;
mod list;
mod resume;
mod show;
mod sources;
mod stored;
mod text;

use crate::error::CliError;
use clap::Subcommand;
use throughline_agents::{Runtime, Transcript, runtime_named, runtimes};

/// Arguments of `session`.
#[derive(Debug, clap::Args)]
pub struct SessionArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: SessionCommand,
}

/// A command on sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Converts a session to another agent's form, or to the next request body of a protocol.
    Convert(convert::ConvertArguments),
    /// Takes sessions into a store; what is there already is left alone.
    Import(import::ImportArguments),
    /// Lists the sessions of the agents on this machine, the newest first.
    List(list::ListArguments),
    /// Shows a session: readable on a terminal, one JSON item a line in a pipe.
    Show(show::ShowArguments),
    /// Writes a stored session in an agent's form.
    Export(export::ExportArguments),
    /// Writes a session where an agent looks for it, and prints the command that goes on.
    Resume(resume::ResumeArguments),
}

/// Runs the command.
///
/// # Errors
/// [`CliError`] with the exit code.
pub fn run(arguments: &SessionArguments) -> Result<u8, CliError> {
    match &arguments.command {
        SessionCommand::Convert(arguments) => convert::run(arguments),
        SessionCommand::Import(arguments) => import::run(arguments),
        SessionCommand::List(arguments) => list::run(arguments),
        SessionCommand::Show(arguments) => show::run(arguments),
        SessionCommand::Export(arguments) => export::run(arguments),
        SessionCommand::Resume(arguments) => resume::run(arguments),
    }
}

/// The runtime of a name.
fn runtime(name: &str) -> Result<&'static dyn Runtime, CliError> {
    runtime_named(name).ok_or_else(|| {
        let known: Vec<&str> = runtimes().iter().map(|runtime| runtime.name()).collect();
        CliError::input(
            "unknown-protocol",
            format!("there is no such agent; known are {}", known.join(", ")),
        )
    })
}

/// The one session that is meant: by its ID, or the only one that is nobody's subagent.
fn choose(found: Vec<Transcript>, id: Option<&str>) -> Result<Transcript, CliError> {
    let ids: Vec<String> = found.iter().filter(|t| is_main(t, &found)).map(|t| t.session.id.clone()).collect();
    let wanted = match (id, ids.as_slice()) {
        (Some(id), _) => id.to_owned(),
        (None, [only]) => only.clone(),
        (None, _) => {
            let some: Vec<&str> = ids.iter().take(10).map(String::as_str).collect();
            let message = format!(
                "there are {} sessions in it; name one with --session: {}",
                ids.len(),
                some.join(", ")
            );
            return Err(CliError::usage(message));
        }
    };
    let mut found = found.into_iter();
    found
        .find(|t| t.session.id == wanted)
        .ok_or_else(|| CliError::usage("--session: there is no such session in it"))
}

/// Whether a session is nobody's subagent within what was found.
fn is_main(transcript: &Transcript, found: &[Transcript]) -> bool {
    let parent = transcript.session.parent.as_deref();
    parent.is_none_or(|parent| !found.iter().any(|other| other.session.id == parent))
}
