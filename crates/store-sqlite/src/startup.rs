//! From a path to an open database: one process only, nothing written before everything has been checked.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use throughline_format::Timestamp;
use throughline_store::{RandomSource, StoreEpoch, StoreError, StoreMeta, Vault};

use crate::config::{DEFAULT_RETENTION_DAYS, SqliteConfig};
use crate::connection::{check_version, integrity, open_reader, open_writer};
use crate::error::{Result, sql};
use crate::migrate::{self, MIGRATIONS};
use crate::rows;

/// What an opened database is.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) epoch: StoreEpoch,
    pub(crate) schema_version: u32,
    pub(crate) clean_start: bool,
    /// Whether the file was too large to be checked before the start.
    pub(crate) check_later: bool,
    /// Held as long as the store is open; the system lets it go when the process dies.
    pub(crate) lock: File,
}

/// Row of `store_meta`: the version of the key that look-up hashes hang on.
const HASH_KEY: &str = "hash-key";
/// Row of `store_meta`: the retention that the store was last opened with, for maintenance that has no configuration.
const RETENTION_DAYS: &str = "retention-days";

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

pub(crate) fn open(config: &SqliteConfig, vault: &Vault, random: &dyn RandomSource, now: Timestamp) -> Result<Opened> {
    check_version()?;
    let lock = take_lock(&config.path)?;
    let is_new = !has_content(&config.path)?;
    let (mut was_clean, mut check_later) = (true, false);
    if !is_new {
        (was_clean, check_later) = examine(config, vault)?;
    }
    let connection = open_writer(&config.path, config.durability)?;
    let schema_version = migrate::run(&connection, MIGRATIONS, now)?;
    let epoch = begin(&connection, config, vault, random, is_new || !was_clean)?;
    Ok(Opened {
        connection,
        epoch,
        schema_version,
        clean_start: was_clean,
        check_later,
        lock,
    })
}

/// Whether a file begins as a database does.
pub(crate) fn is_database(path: &Path) -> Result<bool> {
    let fail = |error: std::io::Error| StoreError::io("opening the database", &error);
    let mut start = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(fail)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(fail(error)),
    };
    if start.is_empty() || start == MAGIC {
        return Ok(!start.is_empty());
    }
    Err(StoreError::Corrupt {
        detail: "the file is no SQLite database".to_owned(),
    })
}

/// Whether there is a database. An empty file, or none, becomes a new one, readable by its owner only.
fn has_content(path: &Path) -> Result<bool> {
    let fail = |error: std::io::Error| StoreError::io("opening the database", &error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path).map_err(fail)?);
    is_database(path)
}

/// Checks a database over a connection that cannot write, so that a damaged, newer or foreign one stays as it is.
/// Tells whether it had been closed properly, and whether its check was left for later.
fn examine(config: &SqliteConfig, vault: &Vault) -> Result<(bool, bool)> {
    let connection = open_reader(&config.path)?;
    if migrate::check(&connection, MIGRATIONS)? == 0 {
        // The process died between making the file and its first table.
        return Ok((true, false));
    }
    let was_clean = meta(&connection, "clean")?.as_deref() == Some(&[1]);
    let size = std::fs::metadata(&config.path)
        .map_err(|error| StoreError::io("opening the database", &error))?
        .len();
    let check_later = was_clean && size > config.quick_check_max_bytes;
    if !check_later {
        let problems = integrity(&connection, "quick_check")?;
        if problems != ["ok"] {
            return Err(StoreError::Corrupt {
                detail: format!("the quick check found {} problems", problems.len()),
            });
        }
    }
    check_keys(&connection, vault)?;
    connection.close().map_err(|(_, error)| sql(error))?;
    Ok((was_clean, check_later))
}

/// A ring that holds another key under a known version, or lacks one that is in use, is the wrong ring.
fn check_keys(connection: &Connection, vault: &Vault) -> Result<()> {
    // Look-up hashes hang on one key; with another nothing would be found again, and nobody would be told.
    if let Some(stored) = meta(connection, HASH_KEY)?.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
        && u32::from_be_bytes(stored) != vault.hash_version()
    {
        return Err(StoreError::WrongKey {
            key_version: u32::from_be_bytes(stored),
        });
    }
    let versions = vault.versions();
    let stored = rows::all(
        connection,
        "SELECT name, value FROM store_meta WHERE name LIKE 'key-check.%'",
        [],
        |row| Ok((rows::text(row, 0)?, row.get::<_, Vec<u8>>(1).map_err(sql)?)),
    )?;
    for (name, check) in stored {
        let key_version = name.trim_start_matches("key-check.").parse().unwrap_or(0);
        let fits = if versions.contains(&key_version) {
            vault.key_check(key_version)?.as_bytes().as_slice() == check.as_slice()
        } else {
            !rows::resources::uses_key(connection, key_version)?
        };
        if !fits {
            return Err(StoreError::WrongKey { key_version });
        }
    }
    Ok(())
}

/// Notes that the database is in use, and gives its epoch: a new one when events may have been lost since the last.
fn begin(connection: &Connection, config: &SqliteConfig, vault: &Vault, random: &dyn RandomSource, renew: bool) -> Result<StoreEpoch> {
    let stored = meta(connection, "epoch")?.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let epoch = match stored {
        Some(epoch) if !renew => epoch,
        _ => {
            let mut epoch = [0; 16];
            random.fill(&mut epoch)?;
            epoch
        }
    };
    let transaction = rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate).map_err(sql)?;
    set_meta(&transaction, "epoch", &epoch)?;
    set_meta(&transaction, "clean", &[0])?;
    set_meta(&transaction, HASH_KEY, &vault.hash_version().to_be_bytes())?;
    set_meta(&transaction, RETENTION_DAYS, &config.retention_days.to_be_bytes())?;
    for key_version in vault.versions() {
        set_meta(
            &transaction,
            &format!("key-check.{key_version}"),
            vault.key_check(key_version)?.as_bytes(),
        )?;
    }
    transaction.commit().map_err(sql)?;
    Ok(StoreEpoch::from_bytes(epoch))
}

/// What a reader may know of a database: its schema, its epoch, and the retention that it was last opened with.
pub(crate) fn describe(connection: &Connection) -> Result<Option<StoreMeta>> {
    let schema_version = migrate::check(connection, MIGRATIONS)?;
    if schema_version == 0 {
        return Ok(None);
    }
    let number = |name| Ok::<_, StoreError>(meta(connection, name)?.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()));
    let epoch = meta(connection, "epoch")?.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    Ok(Some(StoreMeta {
        epoch: StoreEpoch::from_bytes(epoch.unwrap_or_default()),
        schema_version,
        retention_days: number(RETENTION_DAYS)?.map_or(DEFAULT_RETENTION_DAYS, u32::from_be_bytes),
        clean_start: meta(connection, "clean")?.as_deref() == Some(&[1]),
    }))
}

/// The last write of a store that is closed properly.
pub(crate) fn mark_clean(connection: &Connection) -> Result<()> {
    set_meta(connection, "clean", &[1])
}

fn meta(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>> {
    rows::one(connection, "SELECT value FROM store_meta WHERE name = ?1", [name], |row| {
        row.get(0).map_err(sql)
    })
}

fn set_meta(connection: &Connection, name: &str, value: &[u8]) -> Result<()> {
    let text = "INSERT INTO store_meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    rows::run(connection, text, params![name, value]).map(drop)
}

/// Only one process, and in it only one store, may write. The lock is on a file beside the database.
fn take_lock(path: &Path) -> Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options
        .open(PathBuf::from(name))
        .map_err(|error| StoreError::io("locking the database", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked),
        Err(TryLockError::Error(error)) => Err(StoreError::io("locking the database", &error)),
    }
}
