//! `throughline session import`: sessions into a store, again and again; what is there already is left alone.

use super::sources::{self, Unit};
use super::{homes, runtime, stored};
use crate::data::{HeldStore, StoreArguments, block_on};
use crate::error::{CliError, EXIT_OTHER};
use crate::output::print_json;
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use throughline_agents::{Runtime, Warning};
use throughline_engine::ports::Clock as _;
use throughline_format::UnifiedId;
use throughline_gateway::system::SystemClock;
use throughline_store::StoreAdmin as _;

/// Arguments of `session import`.
#[derive(Debug, clap::Args)]
pub struct ImportArguments {
    /// Agent that wrote the sessions.
    #[arg(long, value_name = "AGENT", value_parser = agents())]
    from: String,
    #[command(flatten)]
    store: StoreArguments,
    /// Files, or folders that the agent keeps; default: where it keeps them on this machine.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

fn agents() -> PossibleValuesParser {
    PossibleValuesParser::new(throughline_agents::runtimes().map(Runtime::name))
}

#[derive(Serialize)]
struct Report {
    sessions: Vec<Imported>,
}

/// What became of one session, or of a source in which none was found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Imported {
    id: String,
    runtime: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<UnifiedId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_id: Option<UnifiedId>,
    added: usize,
    skipped: usize,
    warnings: Vec<Warning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CliError>,
}

/// Runs the command.
pub(super) fn run(arguments: &ImportArguments) -> Result<u8, CliError> {
    let from = runtime(&arguments.from)?;
    let paths = if arguments.paths.is_empty() {
        homes::sessions(from.name())
    } else {
        arguments.paths.clone()
    };
    if paths.is_empty() {
        return Err(CliError::usage("this agent keeps no sessions here; name a file or a folder"));
    }
    let mut units = Vec::new();
    for path in &paths {
        units.extend(sources::units(from.name(), path)?);
    }
    let held = arguments.store.writer()?;
    block_on(all(from, &units, &held))
}

/// One session after the other, so that no more than one is in memory.
async fn all(from: &'static dyn Runtime, units: &[Unit], held: &HeldStore) -> Result<u8, CliError> {
    let bar = progress(units);
    let mut sessions = Vec::new();
    for unit in units {
        match unit.load().and_then(|source| Ok(from.read(&source)?)) {
            Ok(transcripts) => {
                for transcript in transcripts {
                    let kept = stored::keep(&held.store, &held.vault, &transcript, SystemClock.now()).await;
                    let (kept, error) = match kept {
                        Ok(kept) => (Some(kept), None),
                        Err(error) => (None, Some(error)),
                    };
                    sessions.push(Imported {
                        id: transcript.session.id,
                        runtime: from.name(),
                        added: kept.as_ref().map_or(0, |kept| kept.added),
                        skipped: kept.as_ref().map_or(0, |kept| kept.skipped),
                        branch_id: kept.as_ref().map(|kept| kept.branch_id.clone()),
                        conversation_id: kept.map(|kept| kept.conversation_id),
                        warnings: transcript.warnings,
                        error,
                    });
                }
            }
            // A file that is no session is told, and does not stop the others.
            Err(error) => sessions.push(Imported {
                id: unit.path().display().to_string(),
                runtime: from.name(),
                conversation_id: None,
                branch_id: None,
                added: 0,
                skipped: 0,
                warnings: Vec::new(),
                error: Some(error),
            }),
        }
        bar.inc(unit.size().max(1));
    }
    bar.finish_and_clear();
    held.store.close().await?;
    let failed = sessions.iter().any(|session| session.error.is_some());
    print_json(&Report { sessions })?;
    Ok(if failed { EXIT_OTHER } else { 0 })
}

/// A bar on a terminal, and nothing elsewhere.
fn progress(units: &[Unit]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(units.iter().map(|unit| unit.size().max(1)).sum());
    match ProgressStyle::with_template("importing {wide_bar} {bytes}/{total_bytes} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
