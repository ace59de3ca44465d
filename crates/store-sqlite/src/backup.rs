//! A consistent copy by SQLite's online backup, made in steps between which the writer goes on.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use sha2::Digest as _;
use throughline_format::Sha256;
use throughline_store::{BackupReport, StoreError};

use crate::error::{Result, sql};

/// 1 MiB.
const STEP_PAGES: i32 = 256;

/// Copies to a file that does not exist yet. `between` runs after each step; its error ends the copy.
pub(crate) fn run(connection: &Connection, destination: &Path, between: impl FnMut() -> Result<()>) -> Result<BackupReport> {
    copy_to(connection, destination, STEP_PAGES, between)
}

/// Copies in one read transaction, from any connection. Steps would begin anew with every commit of another connection.
pub(crate) fn at_once(connection: &Connection, destination: &Path) -> Result<BackupReport> {
    copy_to(connection, destination, -1, || Ok(()))
}

fn copy_to(connection: &Connection, destination: &Path, pages: i32, between: impl FnMut() -> Result<()>) -> Result<BackupReport> {
    let fail = |error: std::io::Error| StoreError::io("writing the backup", &error);
    if std::fs::exists(destination).map_err(fail)? {
        return Err(StoreError::invalid(
            "/destination",
            "the file of a backup must not exist yet; choose another name",
        ));
    }
    let partial = partial_name(destination);
    let _ = std::fs::remove_file(&partial);
    let outcome = copy(connection, &partial, pages, between).and_then(|()| {
        File::open(&partial).and_then(|file| file.sync_all()).map_err(fail)?;
        let (bytes, sha256) = digest(&partial).map_err(fail)?;
        std::fs::rename(&partial, destination).map_err(fail)?;
        let parent = destination
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or_else(|| Path::new("."));
        if cfg!(unix) {
            File::open(parent).and_then(|directory| directory.sync_all()).map_err(fail)?;
        }
        Ok(BackupReport {
            path: destination.to_owned(),
            bytes,
            sha256,
        })
    });
    if outcome.is_err() {
        // The error of the copy is the one to tell.
        let _ = std::fs::remove_file(&partial);
    }
    outcome
}

fn copy(connection: &Connection, partial: &Path, pages: i32, mut between: impl FnMut() -> Result<()>) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(partial)
        .map_err(|error| StoreError::io("writing the backup", &error))?;
    let mut target = Connection::open(partial).map_err(sql)?;
    let backup = Backup::new(connection, &mut target).map_err(sql)?;
    loop {
        match backup.step(pages).map_err(sql)? {
            StepResult::Done => break,
            StepResult::More => between()?,
            // Somebody reads or checkpoints just now.
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    drop(backup);
    target.close().map_err(|(_, error)| sql(error))
}

fn partial_name(destination: &Path) -> PathBuf {
    let mut name = destination.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn digest(path: &Path) -> std::io::Result<(u64, Sha256)> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            return Ok((total, Sha256::from_bytes(hasher.finalize().into())));
        }
        total += read as u64;
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}
