//! `throughline session resume`: a session where an agent looks for it, and the command that goes on.

use super::{choose, convert, export, homes, runtime, sources};
use crate::data::{StoreArguments, block_on, default_directory};
use crate::error::{CliError, EXIT_UNSUPPORTED};
use crate::output::print_json;
use serde::Serialize;
use std::path::{Path, PathBuf};
use throughline_agents::{ResumePlan, Runtime, Transcript, WriteOptions, Written, runtimes};
use throughline_format::UnifiedLossReport;

/// Arguments of `session resume`.
#[derive(Debug, clap::Args)]
pub struct ResumeArguments {
    /// A conversation of the store, a session by its own ID (stored, or of an agent on this machine), or with --from a file.
    #[arg(value_name = "ID|FILE")]
    id: String,
    /// Agent that is to go on.
    #[arg(long, value_name = "AGENT")]
    to: String,
    /// Agent that wrote the file, or the session of this ID.
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Model that will go on, for messages that do not tell theirs.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Working folder of the session; default: its own where it is there, else the current one.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    runtime: &'static str,
    id: String,
    file: String,
    cwd: String,
    /// To be run first, where the agent takes sessions by a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<Vec<String>>,
    command: Vec<String>,
    /// The agent went on with this session before: nothing was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    live: bool,
    loss: UnifiedLossReport,
}

/// Runs the command.
pub(super) fn run(arguments: &ResumeArguments) -> Result<u8, CliError> {
    let to = runtime(&arguments.to)?;
    let transcript = transcript(arguments)?;
    let cwd = working_folder(arguments.cwd.as_deref(), &transcript)?;
    let mut options = WriteOptions {
        cwd: Some(cwd.clone()),
        model: arguments.model.clone(),
        ..WriteOptions::default()
    };
    // The agent's own session is there already: what goes on is a copy of it.
    if transcript.runtime == to.name() {
        options.session_id = Some(throughline_agents::ids::copy_of(&transcript));
    }
    let written = to.write(&transcript, &options)?;
    if written.loss.is_unsupported() {
        print_json(&written.loss)?;
        return Ok(EXIT_UNSUPPORTED);
    }
    let plan = to
        .resume(&written, Some(&cwd))
        .ok_or_else(|| CliError::usage("--to: nothing goes on with this form"))?;
    let path = place(to, &plan, &written, &cwd)?;
    let content = written.files.first().map(|file| file.content.as_str()).unwrap_or_default();
    let live = is_live(&path, content);
    if !live {
        convert::create(&path, content)?;
    }
    let file = path.display().to_string();
    let import = plan.import.map(|mut import| {
        import.push(file.clone());
        import
    });
    print_json(&Report {
        runtime: to.name(),
        id: written.session_id,
        file,
        cwd,
        import,
        command: plan.command,
        live,
        loss: written.loss,
    })?;
    Ok(0)
}

/// Whether the agent has gone on with this session already: what was written is there, with more behind it. Then that conversation
/// is the one to go on with, and nothing is written.
fn is_live(path: &Path, content: &str) -> bool {
    let known = std::fs::read(path).unwrap_or_default();
    known.len() > content.len() && known.starts_with(content.as_bytes())
}

/// The session that is meant: in a file, in the store, or of an agent on this machine.
fn transcript(arguments: &ResumeArguments) -> Result<Transcript, CliError> {
    let path = Path::new(&arguments.id);
    if let Some(from) = arguments.from.as_deref().filter(|_| path.exists()) {
        let from = runtime(from)?;
        let mut found = Vec::new();
        for unit in sources::units(from.name(), path)? {
            found.extend(from.read(&unit.load()?)?);
        }
        return choose(found, None);
    }
    let stored = block_on(export::load(&arguments.store, &arguments.id, arguments.from.as_deref()));
    match stored {
        Ok((_, transcript)) => Ok(transcript),
        // A store that was named is where it has to be.
        Err(error) if arguments.store.db.is_some() => Err(error),
        Err(_) => on_this_machine(&arguments.id, arguments.from.as_deref()),
    }
}

/// A session of an agent by its ID. File names tell it, or the IDs in a database; only what may be it is opened.
fn on_this_machine(id: &str, from: Option<&str>) -> Result<Transcript, CliError> {
    for runtime in runtimes()
        .into_iter()
        .filter(|runtime| from.is_none_or(|from| from == runtime.name()))
    {
        for folder in homes::sessions(runtime.name()) {
            for unit in sources::units(runtime.name(), &folder)? {
                if !may_be(&unit, id) {
                    continue;
                }
                let found = unit.load().and_then(|source| Ok(runtime.read(&source)?)).unwrap_or_default();
                if let Some(transcript) = found.into_iter().find(|transcript| transcript.session.id == id) {
                    return Ok(transcript);
                }
            }
        }
    }
    Err(CliError::usage(
        "there is no session of this ID, neither in the store nor of an agent on this machine",
    ))
}

fn may_be(unit: &sources::Unit, id: &str) -> bool {
    let name = unit
        .path()
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // Gemini CLI names its files by the first eight characters.
    let short: String = id.chars().take(8).collect();
    match unit {
        sources::Unit::Database(_, session) => session == id,
        sources::Unit::Folder(_) => true,
        sources::Unit::File(_) | sources::Unit::Storage(..) => name.contains(id) || name.contains(&short),
    }
}

fn working_folder(named: Option<&Path>, transcript: &Transcript) -> Result<String, CliError> {
    if let Some(named) = named {
        let whole = std::fs::canonicalize(named).map_err(|e| CliError::usage(format!("--cwd: {}: {e}", named.display())))?;
        return Ok(whole.display().to_string());
    }
    if let Some(own) = transcript.session.cwd.as_deref().filter(|cwd| Path::new(cwd).is_dir()) {
        return Ok(own.to_owned());
    }
    let here = std::env::current_dir().map_err(|e| CliError::io("there is no current folder", &e))?;
    Ok(here.display().to_string())
}

/// Where the file goes.
fn place(to: &dyn Runtime, plan: &ResumePlan, written: &Written, cwd: &str) -> Result<PathBuf, CliError> {
    let no_home = || CliError::usage("there is no home directory; set HOME, or the agent's own variable");
    let Some(path) = &plan.path else {
        let name = written.files.first().map(|file| file.path.clone()).unwrap_or_default();
        return Ok(default_directory().ok_or_else(no_home)?.join("sessions").join(to.name()).join(name));
    };
    let root = homes::root(to.name()).ok_or_else(no_home)?;
    if to.name() == throughline_agents::gemini_cli::NAME {
        let file = written.files.first().map(|file| file.path.clone()).unwrap_or_default();
        return Ok(root.join("tmp").join(homes::gemini_project(&root, cwd)).join("chats").join(file));
    }
    Ok(root.join(path))
}
