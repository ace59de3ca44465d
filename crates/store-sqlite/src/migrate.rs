//! Migrations: numbered SQL files, each applied once, in a transaction of its own.

use rusqlite::{Connection, OptionalExtension as _, params};
use throughline_format::{Sha256, Timestamp};
use throughline_store::StoreError;

use crate::error::{Result, sql};

/// One step of the schema. A step that has been released is never edited; its digest is stored and compared.
pub(crate) struct Migration {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// Every step in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "initial",
        sql: include_str!("migrations/0001_initial.sql"),
    },
    Migration {
        number: 2,
        name: "unreferenced artifacts",
        sql: include_str!("migrations/0002_unreferenced_artifacts.sql"),
    },
    Migration {
        number: 3,
        name: "deleted operations",
        sql: include_str!("migrations/0003_deleted_operations.sql"),
    },
];

/// The schema that this program writes: the number of the last migration. Independent of the format's version.
#[allow(clippy::cast_possible_truncation)] // a handful of migrations
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Marks the file as one of ours, in its header.
pub(crate) const APPLICATION_ID: i32 = 0x5448_524C;

const SCHEMA_MIGRATIONS: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    sha256     BLOB NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT";

/// The schema of a database, 0 when it is empty. Refuses a newer one, one with edited steps, and a database of somebody else.
pub(crate) fn check(connection: &Connection, migrations: &[Migration]) -> Result<u32> {
    let corrupt = |detail: String| StoreError::Corrupt { detail };
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(sql)?;
    if tables == 0 {
        return Ok(0);
    }
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(sql)?;
    if application != APPLICATION_ID {
        return Err(corrupt("it is the database of another program".to_owned()));
    }
    let found: Option<i64> = connection
        .query_row("SELECT max(number) FROM schema_migrations", [], |row| row.get(0))
        .optional()
        .map_err(sql)?
        .flatten();
    let found = u32::try_from(found.unwrap_or(0)).unwrap_or(u32::MAX);
    let supported = migrations.last().map_or(0, |migration| migration.number);
    if found > supported {
        return Err(StoreError::SchemaTooNew { found, supported });
    }
    for migration in migrations.iter().filter(|migration| migration.number <= found) {
        let digest = connection
            .query_row(
                "SELECT sha256 FROM schema_migrations WHERE number = ?1",
                [migration.number],
                |row| row.get::<_, Vec<u8>>(0),
            )
            .optional()
            .map_err(sql)?;
        if digest.as_deref() != Some(Sha256::of(migration.sql.as_bytes()).as_bytes().as_slice()) {
            return Err(corrupt(format!(
                "its schema step {} is not the one of this program",
                migration.number
            )));
        }
    }
    Ok(found)
}

/// Applies what is missing, each step with its row of `schema_migrations` in one transaction: a crash leaves whole steps.
pub(crate) fn run(connection: &Connection, migrations: &[Migration], now: Timestamp) -> Result<u32> {
    let found = check(connection, migrations)?;
    for migration in migrations.iter().filter(|migration| migration.number > found) {
        let transaction = rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate).map_err(sql)?;
        transaction.execute_batch(SCHEMA_MIGRATIONS).map_err(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
        transaction.execute_batch(migration.sql).map_err(sql)?;
        transaction
            .execute(
                "INSERT INTO schema_migrations (number, name, sha256, applied_at) VALUES (?1, ?2, ?3, ?4)",
                params![
                    migration.number,
                    migration.name,
                    Sha256::of(migration.sql.as_bytes()).as_bytes(),
                    now.millis()
                ],
            )
            .map_err(sql)?;
        transaction.commit().map_err(sql)?;
    }
    check(connection, migrations)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const STEPS: &[Migration] = &[
        Migration {
            number: 1,
            name: "one",
            sql: "CREATE TABLE one (a INTEGER) STRICT",
        },
        Migration {
            number: 2,
            name: "two",
            sql: "CREATE TABLE two (a INTEGER) STRICT; INSERT INTO two SELECT a FROM one",
        },
    ];

    fn tables(connection: &Connection) -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            .unwrap();
        statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(std::result::Result::unwrap)
            .collect()
    }

    #[test]
    fn steps_run_once_and_in_order() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(run(&connection, &STEPS[..1], Timestamp::EPOCH).unwrap(), 1);
        connection.execute("INSERT INTO one VALUES (7)", []).unwrap();
        assert_eq!(run(&connection, STEPS, Timestamp::EPOCH).unwrap(), 2);
        assert_eq!(run(&connection, STEPS, Timestamp::EPOCH).unwrap(), 2);
        let kept: i64 = connection.query_row("SELECT a FROM two", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 7);
    }

    #[test]
    fn newer_edited_and_foreign_databases_are_refused() {
        let connection = Connection::open_in_memory().unwrap();
        run(&connection, STEPS, Timestamp::EPOCH).unwrap();
        assert_eq!(
            run(&connection, &STEPS[..1], Timestamp::EPOCH).unwrap_err(),
            StoreError::SchemaTooNew { found: 2, supported: 1 }
        );
        let edited = [Migration {
            number: 1,
            name: "one",
            sql: "CREATE TABLE other (a INTEGER) STRICT",
        }];
        connection.execute("DELETE FROM schema_migrations WHERE number = 2", []).unwrap();
        assert_eq!(run(&connection, &edited, Timestamp::EPOCH).unwrap_err().code(), "storage.corrupt");
        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute("CREATE TABLE theirs (a)", []).unwrap();
        assert_eq!(run(&foreign, STEPS, Timestamp::EPOCH).unwrap_err().code(), "storage.corrupt");
        assert_eq!(tables(&foreign), ["theirs"]);
    }

    #[test]
    fn a_failing_step_leaves_the_one_before() {
        throughline_format::clause!("STORE-03");
        let connection = Connection::open_in_memory().unwrap();
        let broken = [
            Migration {
                number: 1,
                name: "one",
                sql: STEPS[0].sql,
            },
            Migration {
                number: 2,
                name: "two",
                sql: "CREATE TABLE two (a INTEGER) STRICT; INSERT INTO nowhere VALUES (1)",
            },
        ];
        run(&connection, &broken, Timestamp::EPOCH).unwrap_err();
        assert_eq!(tables(&connection), ["one", "schema_migrations"]);
        assert_eq!(run(&connection, STEPS, Timestamp::EPOCH).unwrap(), 2);
    }
}
