//! Reading beside the process that writes, and the second process that would write too.

use std::process::Command;
use std::sync::Arc;

use throughline_store::contract::{World, samples};
use throughline_store::export::{export, summary, verify};
use throughline_store::{ConversationFilter, ConversationReader as _, JournalReader as _, ResourceReader as _, StoreAdmin as _};
use throughline_store_sqlite::{SCHEMA_VERSION, SqliteReader};

use crate::support::{Home, world};

fn reader(home: &Home) -> SqliteReader {
    SqliteReader::open(home.path(), home.directory.path().join("artifacts")).unwrap()
}

#[tokio::test]
async fn a_reader_sees_every_commit_and_changes_nothing() {
    let home = Home::new();
    let (store, world) = world(&home).await;
    let reader = reader(&home);
    assert_eq!(reader.meta().schema_version, SCHEMA_VERSION);
    for number in 1..=20 {
        let item = format!("i{number}");
        world.say(&world.branch_id, &[&item]).await;
        assert!(reader.item(&samples::id(&item)).await.unwrap().is_some());
    }
    assert!(reader.check().await.unwrap().is_ok());
    let clock = world.clock().await;
    let conversation = reader.conversation(&world.conversation_id).await.unwrap().unwrap();
    summary(&reader, conversation, 7).await.unwrap();
    export(&reader, &world.conversation_id, world.now).await.unwrap();
    assert!(verify(&reader, &world.conversation_id).await.unwrap().ok);
    assert_eq!(world.clock().await, clock);
    let copy = home.directory.path().join("copy.db");
    reader.backup(copy.clone()).await.unwrap();
    store.close().await.unwrap();
    // Without the writer as well, and of the copy.
    assert_eq!(reader.conversations(ConversationFilter::default()).await.unwrap().len(), 1);
    let of_copy = SqliteReader::open(copy, home.directory.path().join("artifacts")).unwrap();
    assert!(of_copy.item(&samples::id("i20")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_wrong_key_closes_the_private_state_and_leaves_the_history() {
    let mut home = Home::new();
    let (store, world) = world(&home).await;
    world.say(&world.branch_id, &["i1"]).await;
    let mut resource = samples::resource(&world, "r1", "a", b"secret");
    resource.sealed = home.vault.seal(&resource.seal_context(), b"secret").unwrap();
    world
        .commit(vec![throughline_store::WriteOp::PutResource(Box::new(resource))])
        .await
        .unwrap();
    store.close().await.unwrap();
    drop((store, world));
    let foreign = throughline_store::KeyRing::generate(&throughline_store::OsRandom, samples::START).unwrap();
    home.vault = throughline_store::Vault::new(foreign, Arc::new(throughline_store::OsRandom)).unwrap();
    let error = home.try_open().unwrap_err();
    assert_eq!(error.code(), "storage.wrong-key");
    assert!(error.to_string().contains("key ring that belongs to this database"), "{error}");
    let reader = reader(&home);
    assert!(reader.item(&samples::id("i1")).await.unwrap().is_some());
    let sealed = reader.resource(&samples::id("r1")).await.unwrap().unwrap();
    assert_eq!(
        home.vault.open(&sealed.seal_context(), &sealed.sealed).unwrap_err().code(),
        "storage.sealed-record"
    );
}

#[test]
fn there_must_be_a_store() {
    let home = Home::new();
    let open = |path| {
        SqliteReader::open(path, home.directory.path().join("artifacts"))
            .unwrap_err()
            .code()
    };
    assert_eq!(open(home.path()), "invalid-request.validation");
    std::fs::write(home.path(), b"").unwrap();
    assert_eq!(open(home.path()), "invalid-request.validation");
    std::fs::write(home.path(), b"some text").unwrap();
    assert_eq!(open(home.path()), "storage.corrupt");
    let foreign = home.directory.path().join("foreign.db");
    rusqlite::Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE theirs (a)")
        .unwrap();
    assert_eq!(open(foreign), "storage.corrupt");
    assert_eq!(std::fs::read_dir(home.directory.path()).unwrap().count(), 2, "nothing is made");
}

const PATH: &str = "THROUGHLINE_TEST_SECOND_PROCESS";

/// The child. In the ordinary run of the suite there is nothing for it to do.
#[tokio::test]
async fn child_that_opens_the_same_file() {
    let Ok(directory) = std::env::var(PATH) else { return };
    let directory = std::path::Path::new(&directory);
    let refused = throughline_store_sqlite::SqliteStore::open(
        crate::support::config_at(directory),
        &crate::support::new_vault(),
        &throughline_store::OsRandom,
        samples::START,
    );
    println!("write: {}", refused.unwrap_err());
    let reader = SqliteReader::open(directory.join("throughline.db"), directory.join("artifacts")).unwrap();
    println!("read: {}", reader.conversations(ConversationFilter::default()).await.unwrap().len());
    println!("check: {}", reader.check().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_second_process_may_read_and_not_write() {
    let home = Home::new();
    let (store, _world) = world(&home).await;
    World::of(Arc::new(store.clone()), "second", samples::PRINCIPAL).await;
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["reader::child_that_opens_the_same_file", "--exact", "--nocapture"])
        .env(PATH, home.directory.path())
        .output()
        .unwrap();
    let told = String::from_utf8(out.stdout).unwrap();
    assert!(
        told.contains("write: the database is in use by another process; stop it first"),
        "{told}"
    );
    assert!(told.contains("read: 2") && told.contains("check: true"), "{told}");
    store.close().await.unwrap();
}
