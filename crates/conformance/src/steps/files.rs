//! Steps at the files of the SQLite store, done as an outside tool would do them.

use super::Halt;
use super::world::World;
use crate::journal::{Backend, Home};
use crate::query::word;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use throughline_format::UnifiedError;
use throughline_store::{ArtifactFiles, StoreLimits};

type Step = Result<Result<(), UnifiedError>, Halt>;

fn wrong(error: impl std::fmt::Display) -> Halt {
    Halt::Wrong(error.to_string())
}

/// The folder of the store; the one in memory has none.
pub(crate) fn folder(world: &World) -> Result<PathBuf, Halt> {
    match (world.backend, &world.home.directory) {
        (Backend::Sqlite, Some(directory)) => Ok(directory.path().to_owned()),
        _ => Err(Halt::NotHere),
    }
}

/// The database file of a folder.
pub(crate) fn database(folder: &Path) -> PathBuf {
    folder.join("case.db")
}

/// The artifacts of a world's store.
pub(crate) fn artifacts(world: &World) -> Result<ArtifactFiles, Halt> {
    ArtifactFiles::open(folder(world)?.join("artifacts"), &StoreLimits::default()).map_err(wrong)
}

/// Keeps the bytes; the row follows with the first reference, since rows belong to conversations.
pub(crate) fn put_artifact(world: &mut World, step: &Value) -> Step {
    let bytes = word(step, "bytes_utf8").as_bytes().to_vec();
    if world.backend == Backend::Sqlite {
        artifacts(world)?.put(&bytes).map_err(wrong)?;
    }
    world.artifacts.insert(word(step, "artifact").to_owned(), bytes);
    Ok(Ok(()))
}

/// Another program holds the write lock for a while.
pub(crate) fn hold_write_lock(world: &mut World, step: &Value) -> Step {
    let file = database(&folder(world)?);
    let time = Duration::from_millis(step.get("for_ms").and_then(Value::as_u64).unwrap_or(1_000));
    let (held, is_held) = std::sync::mpsc::channel();
    world.locks.push(std::thread::spawn(move || {
        let locked = rusqlite::Connection::open(file).and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            Ok(connection)
        });
        let _ = held.send(locked.is_ok());
        if let Ok(connection) = locked {
            std::thread::sleep(time);
            let _ = connection.execute_batch("ROLLBACK");
        }
    }));
    match is_held.recv_timeout(super::PATIENCE) {
        Ok(true) => Ok(Ok(())),
        _ => Err(Halt::Wrong("the write lock could not be taken".to_owned())),
    }
}

/// Waits for every lock to go.
pub(crate) fn wait_lock_released(world: &mut World) -> Step {
    for lock in world.locks.drain(..) {
        lock.join().map_err(|_| Halt::Wrong("the holder of the lock panicked".to_owned()))?;
    }
    Ok(Ok(()))
}

/// Overwrites some bytes of the closed database: `offset` (0), `bytes` (64).
pub(crate) fn corrupt_file(world: &mut World, step: &Value) -> Step {
    let file = database(&folder(world)?);
    let number = |key: &str, default: usize| {
        step.get(key)
            .and_then(Value::as_u64)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(default)
    };
    let mut bytes = std::fs::read(&file).map_err(wrong)?;
    bytes
        .iter_mut()
        .skip(number("offset", 0))
        .take(number("bytes", 64))
        .for_each(|b| *b ^= 0x5a);
    std::fs::write(&file, bytes).map_err(wrong)?;
    Ok(Ok(()))
}

/// Opens the store again where it was.
pub(crate) fn open(world: &mut World) -> Step {
    folder(world)?;
    let Some(directory) = world.home.directory.take() else {
        return Err(Halt::NotHere);
    };
    match Home::try_open(directory, world.retention_days()) {
        Ok(home) => {
            world.reopened(home)?;
            Ok(Ok(()))
        }
        Err((directory, error)) => {
            world.home.directory = Some(directory);
            Ok(Err(error.to_unified()))
        }
    }
}

/// Copies database, log and artifacts as a crash would leave them.
pub(crate) fn copy_as_after_a_crash(folder: &Path) -> std::io::Result<tempfile::TempDir> {
    let copy = tempfile::tempdir()?;
    copy_folder(folder, copy.path())?;
    Ok(copy)
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else if !name.ends_with("-shm") && !name.ends_with("-lock") {
            // Shared memory and lock do not outlive a process.
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Whether some file below a folder holds the bytes.
pub(crate) fn holds(folder: &Path, needle: &[u8]) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = if entry.file_type()?.is_dir() {
            holds(&entry.path(), needle)?
        } else {
            let bytes = std::fs::read(entry.path())?;
            bytes.windows(needle.len().max(1)).any(|window| window == needle)
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rows of every table that belong to no conversation which is there: what a removal left behind.
///
/// A conversation that is gone has no number any more, so what is counted is everything that hangs on an unknown number.
pub(crate) fn orphaned_rows(folder: &Path) -> Result<u64, rusqlite::Error> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(database(folder), flags)?;
    let mut tables = connection.prepare(
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'conversation'",
    )?;
    let names: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut rows = 0;
    for name in names {
        let query =
            format!("SELECT count(*) FROM {name} t WHERE NOT EXISTS (SELECT 1 FROM conversations c WHERE c.number = t.conversation)");
        rows += connection.query_row(&query, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))?;
    }
    let events = "SELECT count(*) FROM stream_events e WHERE NOT EXISTS (SELECT 1 FROM operations o WHERE o.number = e.event_key >> 32)";
    Ok(rows + connection.query_row(events, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))?)
}

/// Whether a conversation has a row of its own, marked as deleted or not.
pub(crate) fn conversation_rows(folder: &Path, id: &str) -> Result<u64, rusqlite::Error> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(database(folder), flags)?;
    connection.query_row("SELECT count(*) FROM conversations WHERE conversation_id = ?1", [id], |row| {
        row.get::<_, i64>(0).map(i64::unsigned_abs)
    })
}
