//! Files: locking, start, damage, keys, modes, backup, and what may stand in them.

use std::sync::Arc;

use throughline_format::{OperationState, Timestamp, clause};
use throughline_store::contract::{World, samples};
use throughline_store::{
    BackupHook as _, ConversationReader as _, JournalReader as _, KeyRing, OperationReader as _, OsRandom, ResourceReader as _,
    StateWriter as _, StoreAdmin as _, StoreError, Vault, WriteOp,
};
use throughline_store_sqlite::{SCHEMA_VERSION, SqliteStore};

use crate::support::{Home, config_at, new_vault, world};

#[tokio::test]
async fn what_was_stored_is_there_after_closing() {
    let home = Home::new();
    let (store, first) = world(&home).await;
    first.say(&first.branch_id, &["i1", "i2"]).await;
    let operation = first.start("op_1").await;
    first
        .commit(vec![samples::append_events(&operation.operation_id, 1, &["a", "b"])])
        .await
        .unwrap();
    let (path, events, clock) = (
        first.path(&first.branch_id).await,
        first.events(&operation.operation_id).await,
        first.clock().await,
    );
    let epoch = store.meta().epoch;
    store.close().await.unwrap();
    assert!(
        !home.directory.path().join("throughline.db-wal").exists(),
        "everything is in the one file"
    );
    let again = home.open();
    assert!(again.meta().clean_start);
    assert_eq!(again.meta().epoch, epoch, "a clean stop loses nothing, so the epoch goes on");
    let second = World {
        store: Arc::new(again),
        ..first
    };
    assert_eq!(
        (
            second.path(&second.branch_id).await,
            second.events(&operation.operation_id).await,
            second.clock().await
        ),
        (path, events, clock)
    );
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let home = Home::new();
    let (store, world) = world(&home).await;
    let clone = store.clone();
    drop(store);
    world.say(&world.branch_id, &["i1"]).await;
    drop(clone);
    drop(world);
    let again = home.open();
    assert!(again.meta().clean_start);
    assert!(again.item(&samples::id("i1")).await.unwrap().is_some());
}

#[tokio::test]
async fn an_unclean_stop_renews_the_epoch_and_keeps_what_was_committed() {
    let home = Home::new();
    let (store, first) = world(&home).await;
    first.say(&first.branch_id, &["i1"]).await;
    let copy = home.copy_as_after_a_crash();
    let recovered = copy.open();
    assert!(!recovered.meta().clean_start);
    assert_ne!(recovered.meta().epoch, store.meta().epoch);
    assert!(recovered.item(&samples::id("i1")).await.unwrap().is_some());
    assert!(recovered.check().await.unwrap().is_ok());
    let epoch = recovered.meta().epoch;
    recovered.close().await.unwrap();
    assert_eq!(copy.open().meta().epoch, epoch, "renewed once");
}

#[tokio::test]
async fn only_one_store_at_a_time() {
    let home = Home::new();
    let store = home.open();
    let refused = home.try_open().unwrap_err();
    assert_eq!((refused.code(), refused), ("storage.locked", StoreError::Locked));
    store.close().await.unwrap();
    home.open();
}

#[tokio::test]
async fn a_newer_schema_is_refused_untouched() {
    clause!("STORE-03");
    let home = Home::new();
    home.open().close().await.unwrap();
    let next = SCHEMA_VERSION + 1;
    home.sql()
        .execute("INSERT INTO schema_migrations VALUES (?1, 'later', x'00', 0)", [next])
        .unwrap();
    let before = std::fs::read(home.path()).unwrap();
    assert_eq!(
        home.try_open().unwrap_err(),
        StoreError::SchemaTooNew {
            found: next,
            supported: SCHEMA_VERSION
        }
    );
    assert_eq!(std::fs::read(home.path()).unwrap(), before);
}

#[tokio::test]
async fn damage_is_told_and_not_written_to() {
    clause!("STORE-04");
    // No database at all, one of another program, one with overwritten pages, one that was cut.
    let home = Home::new();
    std::fs::write(home.path(), b"this is a text file and no database").unwrap();
    let refuse = |home: &Home| {
        let before = std::fs::read(home.path()).unwrap();
        let error = home.try_open().unwrap_err();
        assert_eq!(error.code(), "storage.corrupt", "{error}");
        assert_eq!(std::fs::read(home.path()).unwrap(), before);
    };
    refuse(&home);
    let home = Home::new();
    home.sql().execute_batch("CREATE TABLE theirs (a)").unwrap();
    refuse(&home);
    let home = Home::new();
    let (store, first) = world(&home).await;
    let names: Vec<String> = (0..200).map(|number| format!("i{number}")).collect();
    first
        .say(&first.branch_id, &names.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    store.close().await.unwrap();
    let whole = std::fs::read(home.path()).unwrap();
    let mut overwritten = whole.clone();
    overwritten[4096 * 3..].fill(0x5A);
    std::fs::write(home.path(), &overwritten).unwrap();
    refuse(&home);
    std::fs::write(home.path(), &whole[..whole.len() / 2]).unwrap();
    refuse(&home);
    std::fs::write(home.path(), &whole).unwrap();
    home.open();
}

#[tokio::test]
async fn a_foreign_key_ring_is_refused() {
    clause!("STORE-06", "SEC-03");
    let mut home = Home::new();
    let (store, first) = world(&home).await;
    let mut resource = samples::resource(&first, "r1", "a", b"signature");
    resource.sealed = home.vault.seal(&resource.seal_context(), b"signature").unwrap();
    first.commit(vec![WriteOp::PutResource(Box::new(resource))]).await.unwrap();
    store.close().await.unwrap();
    // Another key under the same version.
    home.vault = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let before = std::fs::read(home.path()).unwrap();
    assert_eq!(home.try_open().unwrap_err(), StoreError::WrongKey { key_version: 1 });
    assert_eq!(std::fs::read(home.path()).unwrap(), before);
    // The right ring with one more key is fine, and from then on the new key belongs to the database.
    let rotated = KeyRing::from_json(crate::support::RING)
        .unwrap()
        .with_next_key(&OsRandom, Timestamp::EPOCH)
        .unwrap();
    home.vault = Vault::new(rotated, Arc::new(OsRandom)).unwrap();
    let store = home.open();
    assert_eq!(store.sealed_under_other_keys(2, None, 10).await.unwrap().len(), 1);
    store.close().await.unwrap();
    // Without the first key what is sealed with it could not be opened.
    let only_second = String::from_utf8(crate::support::RING.to_vec())
        .unwrap()
        .replace("\"current\":1", "\"current\":2")
        .replace("\"version\":1", "\"version\":2");
    home.vault = Vault::new(KeyRing::from_json(only_second.as_bytes()).unwrap(), Arc::new(OsRandom)).unwrap();
    assert_eq!(home.try_open().unwrap_err().code(), "storage.wrong-key");
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let (_store, world) = world(&home).await;
    world.say(&world.branch_id, &["i1"]).await;
    for name in ["throughline.db", "throughline.db-wal", "throughline.db-shm", "throughline.db-lock"] {
        let mode = std::fs::metadata(home.directory.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let mode = std::fs::metadata(home.directory.path().join("artifacts"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_backup_is_whole_while_writing_goes_on() {
    clause!("STORE-04");
    let home = Home::new();
    let (store, world) = world(&home).await;
    let long = "x".repeat(50_000);
    for number in 0..60 {
        let head = store.branch(&world.branch_id).await.unwrap().unwrap().head_item_id;
        let items = vec![samples::message(&format!("i{number}"), &long)];
        world
            .commit(vec![WriteOp::AppendItems {
                branch_id: world.branch_id.clone(),
                expected_head: head,
                items,
            }])
            .await
            .unwrap();
    }
    let destination = home.directory.path().join("copy.db");
    let writing = async {
        for number in 0..40 {
            world.start(&format!("op_{number}")).await;
        }
    };
    let (report, ()) = futures_util::future::join(store.backup(destination.clone()), writing).await;
    let report = report.unwrap();
    assert_eq!(report.bytes, std::fs::metadata(&destination).unwrap().len());
    assert_eq!(report.sha256, throughline_format::Sha256::of(&std::fs::read(&destination).unwrap()));
    assert_eq!(
        store.backup(destination.clone()).await.unwrap_err().code(),
        "invalid-request.validation",
        "a backup is never written over"
    );
    // The copy is a database of its own, with an epoch of its own.
    let restored = tempfile::tempdir().unwrap();
    std::fs::copy(&destination, restored.path().join("throughline.db")).unwrap();
    let copy = SqliteStore::open(config_at(restored.path()), &new_vault(), &OsRandom, Timestamp::EPOCH).unwrap();
    assert_ne!(copy.meta().epoch, store.meta().epoch);
    assert!(copy.check().await.unwrap().is_ok());
    assert!(copy.item(&samples::id("i59")).await.unwrap().is_some());
    assert!(!home.directory.path().join("copy.db.partial").exists());
}

#[tokio::test]
async fn no_plaintext_of_private_state_in_any_file() {
    clause!("SEC-02", "SEC-03", "CONF-09", "STORE-06", "REAS-02");
    let home = Home::new();
    let (store, world) = world(&home).await;
    world.say(&world.branch_id, &["i1"]).await;
    let canary: &[u8] = b"canary-private-payload";
    world
        .commit(vec![WriteOp::PutResource(Box::new(samples::resource(&world, "r1", "a", canary)))])
        .await
        .unwrap();
    world
        .commit(vec![WriteOp::PutCheckpoint(Box::new(samples::checkpoint(
            &world, "ckpt_1", "i1", canary,
        )))])
        .await
        .unwrap();
    let scan = || {
        for entry in std::fs::read_dir(home.directory.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_file())
        {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(canary.len()).any(|window| window == canary), "{}", path.display());
        }
    };
    scan();
    store.close().await.unwrap();
    scan();
    // The sealed records themselves are there.
    let bytes = std::fs::read(home.path()).unwrap();
    assert!(bytes.windows(6).any(|window| window == b"ckpt_1"));
}

#[tokio::test]
async fn damage_in_a_row_is_found_by_the_check() {
    clause!("STORE-04");
    let home = Home::new();
    let (store, world) = world(&home).await;
    world.say(&world.branch_id, &["i1", "i2", "i3"]).await;
    let operation = world.start("op_1").await;
    world
        .commit(vec![samples::append_events(&operation.operation_id, 1, &["a", "b", "c"])])
        .await
        .unwrap();
    assert!(store.check().await.unwrap().is_ok());
    let damage = |statement: &str| home.sql().execute_batch(statement).unwrap();
    damage("DELETE FROM stream_events WHERE event_key & 4294967295 = 2");
    damage("UPDATE branches SET head_item_id = 'i1'");
    damage("INSERT INTO artifacts (artifact_id, principal_ref, sha256, body, ref_count) VALUES ('art_1', 'p', x'00', '{}', 3)");
    damage("PRAGMA foreign_keys = OFF; INSERT INTO annotations (annotation_id, conversation, body) VALUES ('n1', 999, '{}')");
    let report = store.check().await.unwrap();
    assert_eq!(report.integrity, "ok");
    assert_eq!(report.foreign_keys, 1);
    assert_ne!(report.refcounts, "ok");
    assert_eq!(
        report.problems,
        [
            "1 operations whose events are not dense",
            "1 branches whose head is another item",
            "1 artifacts whose content is missing or altered"
        ]
    );
    damage("UPDATE operations SET body = '{}'");
    assert_eq!(store.operation(&samples::id("op_1")).await.unwrap_err().code(), "storage.corrupt");
    // The rest still works, for reading and for writing.
    world.start("op_2").await;
    let ended = samples::in_state(&operation, OperationState::Failed);
    assert_eq!(world.refused(vec![WriteOp::UpdateOperation(ended)]).await, "storage.corrupt");
    world.start("op_3").await;
    store.sweep(throughline_store::SweepRequest::new(world.now)).await.unwrap();
}
