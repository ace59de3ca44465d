//! Starting: migrations, the check beside the work, keys that look-up hashes hang on, and other people's files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use throughline_format::{Timestamp, clause};
use throughline_store::contract::{World, samples};
use throughline_store::{
    ConversationReader as _, DeletionCondition, JournalReader as _, KeyRing, OsRandom, StateWriter as _, StoreAdmin as _, StoreError,
    StoreHealth, SweepRequest, Vault, WriteOp,
};
use throughline_store_sqlite::{SCHEMA_VERSION, SqliteConfig, SqliteStore};

use crate::support::{Home, new_vault, world};

const FIRST: &str = include_str!("../../src/migrations/0001_initial.sql");
const SECOND: &str = include_str!("../../src/migrations/0002_unreferenced_artifacts.sql");

/// A database as the first version of the schema left it.
fn first_version(home: &Home) -> Connection {
    let connection = home.sql();
    connection
        .execute_batch(
            "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA application_id = 1414025804",
        )
        .unwrap();
    connection
        .execute_batch("CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 BLOB NOT NULL, applied_at INTEGER NOT NULL) STRICT")
        .unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection
        .execute(
            "INSERT INTO schema_migrations VALUES (1, 'initial', ?1, 0)",
            [throughline_format::Sha256::of(FIRST.as_bytes()).as_bytes().as_slice()],
        )
        .unwrap();
    connection
        .execute_batch(
            "INSERT INTO conversations (conversation_id, principal_ref, default_branch_id, created_at, last_updated_at) VALUES ('conv_old', 'p', 'br_old', 0, 0);
             INSERT INTO branches (branch_id, conversation, fork_sequence, head_sequence, created_at) VALUES ('br_old', 1, 0, 0, 0)",
        )
        .unwrap();
    connection
}

fn version(connection: &Connection) -> u32 {
    connection
        .query_row("SELECT max(number) FROM schema_migrations", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn an_older_schema_is_brought_up_and_keeps_its_rows() {
    clause!("VER-04");
    let home = Home::new();
    drop(first_version(&home));
    let store = home.open();
    assert_eq!(store.meta().schema_version, SCHEMA_VERSION);
    let old = store.conversation(&samples::id("conv_old")).await.unwrap().unwrap();
    // The version of the tables and that of the records are two things: the first has moved, the second is the same.
    let text = serde_json::to_string(&throughline_format::SchemaVersion).unwrap();
    assert_eq!((text.as_str(), old.conversation_id.as_str()), ("\"2.0\"", "conv_old"));
    assert!(store.check().await.unwrap().is_ok());
    store.close().await.unwrap();
    assert_eq!(version(&home.sql()), SCHEMA_VERSION);
}

#[tokio::test]
async fn an_interrupted_migration_leaves_the_old_version() {
    clause!("STORE-03");
    let home = Home::new();
    let connection = first_version(&home);
    // Killed after each statement of the step: the files as they are then, while the transaction is open.
    let lines = SECOND.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let statements: Vec<&str> = lines.split_inclusive(';').filter(|text| text.contains(';')).collect();
    assert!(statements.len() >= 3);
    connection
        .execute_batch("PRAGMA cache_spill = ON; PRAGMA cache_size = 1; BEGIN IMMEDIATE")
        .unwrap();
    for statement in statements {
        connection.execute_batch(statement).unwrap();
        connection.cache_flush().unwrap();
        let killed = home.copy_as_after_a_crash();
        let indexes = |connection: &Connection| -> i64 {
            let text = "SELECT count(*) FROM sqlite_schema WHERE name = 'artifacts_unreferenced'";
            connection.query_row(text, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((version(&killed.sql()), indexes(&killed.sql())), (1, 0));
        let store = killed.open();
        assert_eq!(store.meta().schema_version, SCHEMA_VERSION);
        assert!(store.conversation(&samples::id("conv_old")).await.unwrap().is_some());
        store.close().await.unwrap();
        assert_eq!(indexes(&killed.sql()), 1);
    }
}

fn large(home: &Home) -> SqliteConfig {
    SqliteConfig {
        quick_check_max_bytes: 0,
        ..home.config()
    }
}

async fn wait_for(store: &SqliteStore) -> StoreHealth {
    for _ in 0..10_000 {
        match store.health() {
            StoreHealth::Checking => tokio::time::sleep(Duration::from_millis(1)).await,
            ended => return ended,
        }
    }
    panic!("the check does not end");
}

#[tokio::test]
async fn a_large_database_is_checked_beside_the_work() {
    clause!("STORE-04");
    let home = Home::new();
    let (store, first) = world(&home).await;
    for number in 0..50 {
        let texts: Vec<String> = (0..10).map(|item| format!("i{number}x{item}")).collect();
        first
            .say(&first.branch_id, &texts.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
    }
    assert_eq!(store.health(), StoreHealth::Sound, "a small one is checked before the start");
    store.close().await.unwrap();
    let open = || SqliteStore::open(large(&home), &home.vault, &OsRandom, Timestamp::EPOCH).unwrap();
    let sound = open();
    assert_ne!(sound.health(), StoreHealth::Damaged);
    assert_eq!(wait_for(&sound).await, StoreHealth::Sound);
    sound.close().await.unwrap();
    // Rows of the journal are overwritten, which opening does not notice.
    let whole = std::fs::read(home.path()).unwrap();
    let place = whole.windows(8).rposition(|window| window == b"\"hello\"}").unwrap();
    let page = place / 4096 * 4096;
    let mut damaged = whole.clone();
    damaged[page..page + 4096].fill(0x5A);
    std::fs::write(home.path(), &damaged).unwrap();
    let store = open();
    let world = World {
        store: Arc::new(store.clone()),
        ..first
    };
    assert_eq!(wait_for(&store).await, StoreHealth::Damaged);
    let error = world
        .commit(vec![WriteOp::PutOperation(samples::operation("op_1", &world))])
        .await
        .unwrap_err();
    assert_eq!(error.code(), "storage.corrupt");
    assert!(
        store.branch(&world.branch_id).await.unwrap().is_some(),
        "what is sound stays readable"
    );
    // After an unclean stop, and when it is small, the same is told before the start.
    drop((store, world));
    let error = home.try_open().unwrap_err();
    assert_eq!(error.code(), "storage.corrupt");
}

#[tokio::test]
async fn a_check_that_is_not_needed_any_more_stops() {
    let home = Home::new();
    let (store, _) = world(&home).await;
    store.close().await.unwrap();
    for _ in 0..20 {
        let store = SqliteStore::open(large(&home), &home.vault, &OsRandom, Timestamp::EPOCH).unwrap();
        store.close().await.unwrap();
        assert_ne!(store.health(), StoreHealth::Checking);
        assert_ne!(store.health(), StoreHealth::Damaged);
    }
}

#[tokio::test]
async fn a_ring_without_the_key_of_the_hashes_is_refused() {
    let mut home = Home::new();
    let (store, world) = world(&home).await;
    world.say(&world.branch_id, &["i1"]).await;
    store.close().await.unwrap();
    let ring = KeyRing::from_json(crate::support::RING)
        .unwrap()
        .with_next_key(&OsRandom, Timestamp::EPOCH)
        .unwrap();
    home.vault = Vault::new(ring.clone(), Arc::new(OsRandom)).unwrap();
    home.open().close().await.unwrap();
    // Nothing is sealed with the first key. Lineage and look-up hashes hang on it all the same.
    let text = String::from_utf8(ring.to_json().unwrap().to_vec()).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["keys"].as_array_mut().unwrap().retain(|key| key["version"] == 2);
    let second_alone = KeyRing::from_json(value.to_string().as_bytes()).unwrap();
    home.vault = Vault::new(second_alone, Arc::new(OsRandom)).unwrap();
    let before = std::fs::read(home.path()).unwrap();
    assert_eq!(home.try_open().unwrap_err(), StoreError::WrongKey { key_version: 1 });
    assert_eq!(std::fs::read(home.path()).unwrap(), before);
    home.vault = Vault::new(ring, Arc::new(OsRandom)).unwrap();
    home.open();
}

/// Every file below a folder with its content and the time of its last change.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(snapshot(&path));
        } else {
            let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
            found.insert(path.clone(), (std::fs::read(&path).unwrap(), modified));
        }
    }
    found
}

#[tokio::test]
async fn a_new_store_is_empty_and_nothing_else_is_touched() {
    clause!("REP-02");
    let home = Home::new();
    let around = home.directory.path();
    // What an earlier program, its user or another one may have left: beside the store, and in the folder of artifacts.
    let decoys = [
        "config.json",
        "throughline.toml",
        "sessions/2024/session.jsonl",
        "unified.db",
        "earlier-sessions.sqlite",
        "throughline.db.bak",
        "runtime/state.json",
        "presets/default.json",
        "credentials.json",
        "logs/gateway.log",
        "artifacts/readme.txt",
        "artifacts/ab/notes.txt",
    ];
    for name in decoys {
        let path = around.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("content of {name}: conv_canary op_canary")).unwrap();
    }
    let sql = Connection::open(around.join("old.db")).unwrap();
    sql.execute_batch("CREATE TABLE conversations (id TEXT); INSERT INTO conversations VALUES ('conv_canary')")
        .unwrap();
    drop(sql);
    let before = snapshot(around);
    let (store, world) = world(&home).await;
    // Empty at first: what is in it now is what this test has put there.
    let listed = store.conversations(throughline_store::ConversationFilter::default()).await.unwrap();
    assert_eq!(listed.iter().map(|c| c.conversation_id.as_str()).collect::<Vec<_>>(), ["conv_main"]);
    assert!(store.conversation(&samples::id("conv_canary")).await.unwrap().is_none());
    world.say(&world.branch_id, &["i1"]).await;
    world
        .commit(vec![WriteOp::DeleteConversation {
            only_if: DeletionCondition::Always,
        }])
        .await
        .unwrap();
    while store.sweep(SweepRequest::new(world.now)).await.unwrap().more {}
    let far = Timestamp::from_millis(i64::MAX / 4);
    store.collect(throughline_store::CollectRequest::whole(far)).await.unwrap();
    assert!(store.item(&samples::id("i1")).await.unwrap().is_none());
    store.close().await.unwrap();
    // Deleted as a user would: the files of the store, and nothing else.
    for name in ["throughline.db", "throughline.db-lock"] {
        std::fs::remove_file(around.join(name)).unwrap();
    }
    assert_eq!(snapshot(around), before);
    assert_eq!(new_vault().hash_version(), 1);
    let again = home.open();
    assert!(
        again
            .conversations(throughline_store::ConversationFilter::default())
            .await
            .unwrap()
            .is_empty()
    );
}
