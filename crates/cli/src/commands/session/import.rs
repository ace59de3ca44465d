//! `throughline session import`: sessions into a store, again and again; what is there already is left alone.

use super::keep::{self, Kept, Prepared};
use super::line_up::{LineUp, Turn};
use super::sources::{self, Unit};
use super::{homes, runtime};
use crate::data::{HeldStore, StoreArguments, block_on};
use crate::error::{CliError, EXIT_OTHER};
use crate::output::print_json;
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use throughline_agents::{Runtime, Transcript, Warning};
use throughline_engine::ports::Clock as _;
use throughline_format::UnifiedId;
use throughline_gateway::system::SystemClock;
use throughline_store::StoreAdmin as _;

/// Bytes of sessions that may be at work at once; a larger one is at work alone.
const ROOM: u64 = 32 * 1024 * 1024;
/// What a session of an unknown size counts for, and a small one.
const UNKNOWN_SIZE: u64 = 1024 * 1024;

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
    let sessions = all(from, &units, &held);
    block_on(async { Ok(held.store.close().await?) })?;
    let failed = sessions.iter().any(|session| session.error.is_some());
    print_json(&Report { sessions })?;
    Ok(if failed { EXIT_OTHER } else { 0 })
}

/// Several sessions at once, no more than there is room for: while one waits for the disk another one is read. Sessions of one
/// conversation, and the report, are in the order of the units.
fn all(from: &'static dyn Runtime, units: &[Unit], held: &HeldStore) -> Vec<Imported> {
    let bar = progress(units);
    let sizes = units.iter().map(|unit| unit.size().max(UNKNOWN_SIZE)).collect();
    let line_up = LineUp::new(sizes, ROOM);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(units.len()) {
            scope.spawn(|| {
                while let Some(mut turn) = line_up.take() {
                    let Some(unit) = units.get(turn.at()) else { continue };
                    let imported = one(from, unit, held, &mut turn);
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(turn.at(), imported);
                    bar.inc(unit.size().max(1));
                }
            });
        }
    });
    bar.finish_and_clear();
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.into_values().flatten().collect()
}

/// What became of the sessions of one unit.
fn one(from: &'static dyn Runtime, unit: &Unit, held: &HeldStore, turn: &mut Turn<'_, UnifiedId>) -> Vec<Imported> {
    let transcripts = match unit.load().and_then(|source| Ok(from.read(&source)?)) {
        Ok(transcripts) => transcripts,
        // A file that is no session is told, and does not stop the others.
        Err(error) => return vec![Imported::of(unit.path().display().to_string(), from, Vec::new(), Err(error))],
    };
    let prepare = |mut transcript: Transcript| {
        let told = (transcript.session.id.clone(), std::mem::take(&mut transcript.warnings));
        (told, Prepared::of(transcript))
    };
    let prepared: Vec<_> = transcripts.into_iter().map(prepare).collect();
    let conversations = prepared.iter().filter_map(|(_, prepared)| prepared.as_ref().ok());
    turn.pass(conversations.map(Prepared::conversation_id).collect());
    let keep = |((id, warnings), prepared): (_, Result<Prepared, CliError>)| {
        let now = SystemClock.now();
        let kept = prepared.and_then(|prepared| block_on(keep::keep(&held.store, &held.vault, prepared, now)));
        Imported::of(id, from, warnings, kept)
    };
    prepared.into_iter().map(keep).collect()
}

impl Imported {
    fn of(id: String, from: &'static dyn Runtime, warnings: Vec<Warning>, kept: Result<Kept, CliError>) -> Self {
        let (kept, error) = match kept {
            Ok(kept) => (Some(kept), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            id,
            runtime: from.name(),
            added: kept.as_ref().map_or(0, |kept| kept.added),
            skipped: kept.as_ref().map_or(0, |kept| kept.skipped),
            branch_id: kept.as_ref().map(|kept| kept.branch_id.clone()),
            conversation_id: kept.map(|kept| kept.conversation_id),
            warnings,
            error,
        }
    }
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
