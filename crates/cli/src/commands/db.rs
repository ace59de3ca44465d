//! `throughline db`: maintenance of a store.

use crate::data::{StoreArguments, block_on, open_store};
use crate::error::{CliError, EXIT_OTHER};
use crate::output;
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use throughline_engine::ports::Clock as _;
use throughline_format::Sha256;
use throughline_gateway::data_dir::{DataDir, Layout, make_folder};
use throughline_gateway::system::SystemClock;
use throughline_store::{
    DiagnosticFiles, DiagnosticLimits, OsRandom, ResourceReader as _, StoreAdmin as _, StoreError, Vault, clean_with, keyring, rotate_step,
};

/// Arguments of `db`.
#[derive(Debug, clap::Args)]
pub struct DbArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: DbCommand,
}

/// A maintenance command.
#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Checks the database, its references and its artifacts; changes nothing and works while a gateway runs.
    Check(CheckArguments),
    /// Copies the database to one file; works while a gateway runs.
    Backup(BackupArguments),
    /// Seals private data with a new key, or goes on where a rotation stopped.
    RotateKey(RotateArguments),
    /// Removes what is beyond the retention time, and artifacts that nothing refers to.
    Cleanup(CleanupArguments),
}

/// Arguments of `db check`.
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    #[command(flatten)]
    store: StoreArguments,
}

/// Arguments of `db backup`.
#[derive(Debug, clap::Args)]
pub struct BackupArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// The file to write, which must not exist; default: one named by the time in the folder backups.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Arguments of `db rotate-key`.
#[derive(Debug, clap::Args)]
pub struct RotateArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Stop after about this many records; the next run goes on.
    #[arg(long, value_name = "N")]
    max_records: Option<u64>,
}

/// Arguments of `db cleanup`.
#[derive(Debug, clap::Args)]
pub struct CleanupArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Days after the last update; default: what the gateway was last started with.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    retention_days: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    ok: bool,
    schema_version: u32,
    integrity: String,
    foreign_keys: u64,
    refcounts: String,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct BackedUp {
    path: String,
    bytes: u64,
    sha256: Sha256,
}

#[derive(Serialize)]
struct Rotated {
    from: u32,
    to: u32,
    resealed: u64,
    remaining: u64,
}

#[derive(Serialize)]
struct Cleaned {
    conversations: u64,
    artifacts: u64,
    bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// `storage.*`, with exit code 1; bad arguments with 2.
pub fn run(arguments: &DbArguments) -> Result<u8, CliError> {
    match &arguments.command {
        DbCommand::Check(arguments) => block_on(check(arguments)),
        DbCommand::Backup(arguments) => block_on(backup(arguments)),
        DbCommand::RotateKey(arguments) => block_on(rotate_key(arguments)),
        DbCommand::Cleanup(arguments) => block_on(cleanup(arguments)),
    }
}

async fn check(arguments: &CheckArguments) -> Result<u8, CliError> {
    let (reader, _) = arguments.store.reader()?;
    let report = reader.check().await?;
    let checked = Checked {
        ok: report.is_ok(),
        schema_version: reader.meta().schema_version,
        integrity: report.integrity,
        foreign_keys: report.foreign_keys,
        refcounts: report.refcounts,
        problems: report.problems,
    };
    output::print_json(&checked)?;
    Ok(if checked.ok { 0 } else { EXIT_OTHER })
}

async fn backup(arguments: &BackupArguments) -> Result<u8, CliError> {
    let (reader, layout) = arguments.store.reader()?;
    let destination = match &arguments.output {
        Some(path) => path.clone(),
        None => default_backup(&layout)?,
    };
    let report = reader.backup(destination).await?;
    output::print_json(&BackedUp {
        path: report.path.display().to_string(),
        bytes: report.bytes,
        sha256: report.sha256,
    })?;
    Ok(0)
}

/// A name that sorts by time, without characters that some file systems refuse.
fn default_backup(layout: &Layout) -> Result<PathBuf, CliError> {
    make_folder(&layout.backups())?;
    let time = SystemClock.now().to_string().replace([':', '.'], "-");
    Ok(layout.backups().join(format!("throughline-{time}.db")))
}

async fn rotate_key(arguments: &RotateArguments) -> Result<u8, CliError> {
    let held = DataDir::open(arguments.store.existing()?)?;
    let layout = held.layout();
    let ring = layout.load_key_ring()?;
    let mut vault = Vault::new(ring.clone(), Arc::new(OsRandom))?;
    // With the right ring and nobody else at work: only then a new key may be added.
    let mut store = open_store(layout, &vault)?;
    let left = store.sealed_under_other_keys(vault.current_version(), None, 1).await?;
    let from = if let Some(record) = left.first() {
        // A rotation stopped before its end: go on with its key.
        record.sealed.key_version()
    } else {
        let from = vault.current_version();
        store.close().await?;
        let next = ring.with_next_key(&OsRandom, SystemClock.now())?;
        // Durable before anything is sealed with it.
        keyring::save(layout.key_ring(), &next)?;
        vault = Vault::new(next, Arc::new(OsRandom))?;
        store = open_store(layout, &vault)?;
        from
    };
    let (mut resealed, mut damaged, mut after) = (0, 0, None);
    while arguments.max_records.is_none_or(|bound| resealed < bound) {
        let step = rotate_step(&store, &vault, after, SystemClock.now()).await?;
        resealed += step.resealed;
        damaged += step.damaged;
        after = step.after;
        if step.done {
            break;
        }
    }
    let remaining = store
        .sealed_under_other_keys(vault.current_version(), None, throughline_store::MAX_PAGE)
        .await?;
    store.close().await?;
    output::print_json(&Rotated {
        from,
        to: vault.current_version(),
        resealed,
        remaining: remaining.len() as u64,
    })?;
    if damaged > 0 {
        return Err(StoreError::SealedRecord.into());
    }
    Ok(0)
}

async fn cleanup(arguments: &CleanupArguments) -> Result<u8, CliError> {
    let held = DataDir::open(arguments.store.existing()?)?;
    let layout = held.layout();
    let vault = Arc::new(Vault::new(layout.load_key_ring()?, Arc::new(OsRandom))?);
    let store = open_store(layout, &vault)?;
    let days = arguments.retention_days.unwrap_or_else(|| store.meta().retention_days);
    let report = clean_with(&store, days, &|| SystemClock.now()).await?;
    let (mut artifacts, mut bytes) = (report.artifacts, report.bytes);
    // The files that a crash has left, of all of the directory at once.
    loop {
        let step = throughline_store::StateWriter::collect(&store, throughline_store::CollectRequest::whole(SystemClock.now())).await?;
        artifacts += step.artifacts;
        bytes += step.bytes;
        if !step.more {
            break;
        }
    }
    if layout.diagnostics().is_dir() {
        DiagnosticFiles::open(layout.diagnostics(), vault, DiagnosticLimits::default())?
            .follow(&store)
            .await?;
    }
    store.close().await?;
    output::print_json(&Cleaned {
        conversations: report.removed,
        artifacts,
        bytes,
    })?;
    Ok(0)
}
