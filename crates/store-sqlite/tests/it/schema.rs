//! The tables and settings of the file.

use throughline_format::clause;
use throughline_store::StoreAdmin as _;
use throughline_store::contract::samples;

use crate::support::{Home, world};

/// The specification's list.
const REQUIRED: [&str; 13] = [
    "artifact_refs",
    "artifacts",
    "branches",
    "conversations",
    "journal_items",
    "journal_revisions",
    "leases",
    "operations",
    "pending_artifact_gc",
    "provider_checkpoints",
    "provider_resources",
    "schema_migrations",
    "stream_events",
];
/// What the design adds.
const OURS: [&str; 6] = [
    "annotations",
    "artifact_pins",
    "issued_ids",
    "lineage_links",
    "session_keys",
    "store_meta",
];

#[tokio::test]
async fn tables_are_the_specified_ones_and_strict() {
    clause!("STORE-05", "STORE-03");
    let home = Home::new();
    home.open().close().await.unwrap();
    let sql = home.sql();
    let mut statement = sql.prepare("SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name").unwrap();
    let tables: Vec<(String, bool)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut expected: Vec<&str> = REQUIRED.into_iter().chain(OURS).collect();
    expected.sort_unstable();
    assert_eq!(tables.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected);
    assert!(tables.iter().all(|(_, strict)| *strict));
    // Every child column of a foreign key has an index that begins with it.
    for (table, _) in &tables {
        let mut keys = sql
            .prepare(&format!("SELECT \"from\" FROM pragma_foreign_key_list('{table}')"))
            .unwrap();
        let columns: Vec<String> = keys.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        for column in columns {
            let text = format!(
                "SELECT count(*) FROM pragma_index_list('{table}') l, pragma_index_info(l.name) i WHERE i.seqno = 0 AND i.name = '{column}'"
            );
            let indexes: i64 = sql.query_row(&text, [], |row| row.get(0)).unwrap();
            assert!(indexes > 0, "{table}.{column} has no index");
        }
    }
}

#[tokio::test]
async fn the_file_has_the_settings_of_the_design() {
    clause!("STORE-03");
    let home = Home::new();
    let (store, world) = world(&home).await;
    world.say(&world.branch_id, &["i1"]).await;
    let sql = home.sql();
    let pragma = |name: &str| {
        sql.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0))
            .unwrap()
    };
    let text = |text: &str| rusqlite::types::Value::Text(text.to_owned());
    let integer = rusqlite::types::Value::Integer;
    assert_eq!(pragma("journal_mode"), text("wal"));
    assert_eq!(pragma("page_size"), integer(4096));
    assert_eq!(pragma("auto_vacuum"), integer(2));
    assert_eq!(pragma("application_id"), integer(0x5448_524C));
    assert_eq!(store.meta().schema_version, throughline_store_sqlite::SCHEMA_VERSION);
}

#[tokio::test]
async fn the_journal_cannot_be_changed_even_by_sql() {
    clause!("ITEM-03");
    let home = Home::new();
    let (_store, world) = world(&home).await;
    world.say(&world.branch_id, &["i1"]).await;
    let empty = serde_json::Value::Object(serde_json::Map::new());
    world
        .commit(vec![throughline_store::WriteOp::AddRevision(samples::revision(
            "rev_1", "i1", 1, &empty,
        ))])
        .await
        .unwrap();
    for statement in [
        "UPDATE journal_items SET body = '{}'",
        "UPDATE journal_revisions SET body = '{}'",
        "DELETE FROM journal_revisions",
        "DELETE FROM journal_items",
    ] {
        let error = home.sql().execute(statement, []).unwrap_err();
        assert!(error.to_string().contains("append-only"), "{statement}: {error}");
    }
}
