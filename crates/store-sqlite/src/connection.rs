//! Connections with the settings that the design fixes (reference: durability of the event log).

use std::path::Path;
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use throughline_store::StoreError;

use crate::config::Durability;
use crate::error::{Result, sql};

/// Earlier versions have a race between a commit that resets the WAL and a checkpoint on another connection.
const OLDEST_SQLITE: i32 = 3_051_003;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// No value is larger than a batch may be.
const MAX_VALUE_BYTES: i32 = 256 * 1024 * 1024;

/// Refuses an SQLite that is too old for the way it is used here.
pub(crate) fn check_version() -> Result<()> {
    if rusqlite::version_number() >= OLDEST_SQLITE {
        Ok(())
    } else {
        Err(StoreError::internal(format!(
            "SQLite {} is too old, 3.51.3 is needed",
            rusqlite::version()
        )))
    }
}

/// Opens the one connection that writes. The file must exist.
pub(crate) fn open_writer(path: &Path, durability: Durability) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(sql)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES).map_err(sql)?;
    // The first two only before the first table exists.
    set(&connection, "page_size", "4096")?;
    set(&connection, "auto_vacuum", "INCREMENTAL")?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(sql)?;
    if !mode.eq_ignore_ascii_case("wal") {
        let detail = format!("the file system does not allow write-ahead logging (journal mode {mode})");
        return Err(StoreError::Io {
            action: "opening the database",
            detail,
        });
    }
    set(&connection, "synchronous", synchronous(durability))?;
    set(&connection, "foreign_keys", "ON")?;
    set(&connection, "cache_size", "-16000")?;
    // The checkpointer thread does it instead.
    set(&connection, "wal_autocheckpoint", "0")?;
    set(&connection, "journal_size_limit", "67108864")?;
    set(&connection, "secure_delete", "FAST")?;
    set(&connection, "trusted_schema", "OFF")?;
    set(&connection, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Opens a connection that cannot write.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(sql)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES).map_err(sql)?;
    set(&connection, "query_only", "ON")?;
    set(&connection, "trusted_schema", "OFF")?;
    set(&connection, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Opens the connection of the checkpointer.
pub(crate) fn open_checkpointer(path: &Path) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(sql)?;
    // It never waits: what it cannot do now it does the next time.
    connection.busy_timeout(Duration::ZERO).map_err(sql)?;
    set(&connection, "synchronous", "FULL")?;
    set(&connection, "trusted_schema", "OFF")?;
    Ok(connection)
}

const fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    }
}

/// Sets a pragma and takes whatever rows it answers with.
fn set(connection: &Connection, pragma: &str, value: &str) -> Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA {pragma} = {value}")).map_err(sql)?;
    let mut rows = statement.query([]).map_err(sql)?;
    while rows.next().map_err(sql)?.is_some() {}
    Ok(())
}

/// Rows of an integrity pragma; `["ok"]` when nothing is wrong.
pub(crate) fn integrity(connection: &Connection, pragma: &str) -> Result<Vec<String>> {
    pragma_rows(connection, &format!("PRAGMA {pragma}(20)"))
}

/// The first column of whatever a pragma answers.
pub(crate) fn pragma_rows(connection: &Connection, text: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare(text).map_err(sql)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(sql)?;
    rows.collect::<rusqlite::Result<_>>().map_err(sql)
}
