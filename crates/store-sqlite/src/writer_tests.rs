//! Group commit, failures and back-pressure, with a hand on the writer's connection.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};
use throughline_format::{OperationState, Timestamp, clause};
use throughline_store::contract::{World, samples};
use throughline_store::{
    CommitReceipt, ConversationReader as _, KeyRing, OperationReader as _, OsRandom, StateWriter as _, StoreAdmin as _, StoreError, Vault,
    WriteBatch, WriteOp,
};

use crate::{Durability, QueueLimits, SqliteConfig, SqliteStore};

fn config(directory: &Path) -> SqliteConfig {
    SqliteConfig::new(directory.join("throughline.db"), directory.join("artifacts"))
}

fn open(config: SqliteConfig) -> SqliteStore {
    let vault = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    SqliteStore::open(config, &vault, &OsRandom, Timestamp::EPOCH).unwrap()
}

async fn world(config: SqliteConfig) -> (SqliteStore, World) {
    let store = open(config);
    let world = World::new(Arc::new(store.clone())).await;
    (store, world)
}

/// Keeps the writer from working until the sender is dropped.
fn hold(store: &SqliteStore) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    store.on_writer(move |_| {
        let _ = held.recv();
    });
    release
}

/// Queues every batch while the writer is held, so that they meet in one group.
async fn commit_together(store: &SqliteStore, batches: Vec<WriteBatch>) -> Vec<Result<CommitReceipt, StoreError>> {
    let release = hold(store);
    let mut futures: Vec<BoxFuture<'_, _>> = batches.into_iter().map(|batch| store.commit(batch)).collect();
    // Each is polled once in order, and the last one lets the writer go.
    let last = async move {
        drop(release);
        Ok(CommitReceipt::default())
    };
    futures.push(last.boxed());
    let mut outcomes = join_all(futures).await;
    outcomes.pop();
    outcomes
}

fn start(world: &World, number: usize) -> WriteBatch {
    let operation = samples::operation(&format!("op_{number}"), world);
    WriteBatch::new(world.now, world.conversation_id.clone()).with(WriteOp::PutOperation(operation))
}

async fn stored(store: &SqliteStore) -> usize {
    store.operations(throughline_store::OperationFilter::default()).await.unwrap().len()
}

#[tokio::test]
async fn what_waits_is_written_in_one_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = world(config(directory.path())).await;
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = commits.clone();
    store.on_writer(move |connection| {
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.commit_hook(Some(count)).unwrap();
    });
    let outcomes = commit_together(&store, (0..200).map(|number| start(&world, number)).collect()).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!((stored(&store).await, commits.load(Ordering::Relaxed)), (200, 1));
    // A group is bounded in calls.
    commit_together(&store, (200..800).map(|number| start(&world, number)).collect()).await;
    assert_eq!((stored(&store).await, commits.load(Ordering::Relaxed)), (800, 1 + 3));
}

#[tokio::test]
async fn a_failing_commit_fails_the_whole_group() {
    clause!("LIVE-06", "OP-02");
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = world(config(directory.path())).await;
    store.on_writer(|connection| connection.commit_hook(Some(|| true)).unwrap());
    let outcomes = commit_together(&store, (0..10).map(|number| start(&world, number)).collect()).await;
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    assert_eq!(stored(&store).await, 0);
    store.on_writer(|connection| connection.commit_hook(None::<fn() -> bool>).unwrap());
    let outcomes = commit_together(&store, (0..10).map(|number| start(&world, number)).collect()).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(stored(&store).await, 10);
}

#[tokio::test]
async fn a_full_disk_is_told_and_survived() {
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = world(config(directory.path())).await;
    store.on_writer(|connection| {
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        connection
            .query_row(&format!("PRAGMA max_page_count = {}", pages + 20), [], |_| Ok(()))
            .unwrap();
    });
    let long = |number: usize| {
        let item = samples::message(&format!("i{number}"), &"x".repeat(60_000));
        let branch = samples::root(&world.conversation_id, &samples::id(&format!("br_{number}")));
        let append = WriteOp::AppendItems {
            branch_id: branch.branch_id.clone(),
            expected_head: None,
            items: vec![item],
        };
        WriteBatch::new(world.now, world.conversation_id.clone())
            .with(WriteOp::CreateBranch(branch))
            .with(append)
    };
    let outcomes = commit_together(&store, (0..5).map(long).collect()).await;
    for outcome in &outcomes {
        assert_eq!(
            outcome,
            &Err(StoreError::Full),
            "no acknowledgement of a group that was not committed"
        );
    }
    assert_eq!(store.branches(&world.conversation_id).await.unwrap().len(), 1);
    // The file was opened anew, which took the bound away, as freed space would.
    let outcomes = commit_together(&store, (0..5).map(long).collect()).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert!(store.check().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_full_queue_waits_and_lets_ends_through() {
    let directory = tempfile::tempdir().unwrap();
    let queue = QueueLimits {
        entries: 3,
        urgent_entries: 1,
        ..QueueLimits::default()
    };
    let (store, world) = world(SqliteConfig {
        queue,
        ..config(directory.path())
    })
    .await;
    let running = world.start("op_running").await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let release = hold(&store);
    let note = |name: String, batch| {
        let order = order.clone();
        let store = &store;
        async move {
            store.commit(batch).await.unwrap();
            order.lock().unwrap().push(name);
        }
        .boxed()
    };
    let mut futures: Vec<BoxFuture<'_, ()>> = (0..10).map(|number| note(format!("n{number}"), start(&world, number))).collect();
    let ended = samples::in_state(&running, OperationState::Cancelled);
    futures.push(note(
        "end".to_owned(),
        WriteBatch::new(world.now, world.conversation_id.clone()).with(WriteOp::UpdateOperation(ended)),
    ));
    futures.push(async move { drop(release) }.boxed());
    join_all(futures).await;
    let order = order.lock().unwrap().clone();
    let place = |name: &str| order.iter().position(|found| found == name).unwrap();
    assert_eq!(order.len(), 11, "nothing is lost");
    assert!(place("end") < place("n3"), "{order:?}");
    assert_eq!(stored(&store).await, 11);
}

#[tokio::test]
async fn a_caller_that_went_away_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = world(config(directory.path())).await;
    let release = hold(&store);
    let mut gone = store.commit(start(&world, 0));
    assert!(futures_util::future::poll_immediate(&mut gone).await.is_none());
    drop(gone);
    drop(release);
    world.start("op_1").await;
    assert_eq!(stored(&store).await, 2, "what was queued is written");
}

#[tokio::test]
async fn closing_writes_what_is_queued() {
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = world(config(directory.path())).await;
    let release = hold(&store);
    let closing = async {
        drop(release);
        store.close().await.unwrap();
        Ok(CommitReceipt::default())
    };
    let mut futures: Vec<BoxFuture<'_, _>> = (0..300).map(|number| store.commit(start(&world, number))).collect();
    futures.push(closing.boxed());
    let outcomes = join_all(futures).await;
    assert!(outcomes.iter().all(Result::is_ok));
    drop((store, world));
    let vault = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let other_ring = SqliteStore::open(config(directory.path()), &vault, &OsRandom, Timestamp::EPOCH);
    assert_eq!(other_ring.unwrap_err().code(), "storage.wrong-key");
}

#[tokio::test]
async fn the_log_stays_short() {
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = world(SqliteConfig {
        durability: Durability::Normal,
        ..config(directory.path())
    })
    .await;
    let wal = directory.path().join("throughline.db-wal");
    let mut longest = 0;
    let operation = world.start("op_1").await.operation_id;
    let megabyte = bytes::Bytes::from(vec![b'x'; 1024 * 1024]);
    for first_sequence in 1..=110 {
        let events = vec![megabyte.clone()];
        world
            .commit(vec![WriteOp::AppendEvents {
                operation_id: operation.clone(),
                first_sequence,
                events,
            }])
            .await
            .unwrap();
        // Readers come and go, as in life.
        store.branch(&world.branch_id).await.unwrap();
        longest = longest.max(std::fs::metadata(&wal).unwrap().len());
    }
    assert!(longest < 72 * 1024 * 1024, "{longest}");
}

#[tokio::test]
async fn connections_have_the_settings_of_the_design() {
    clause!("STORE-03");
    let directory = tempfile::tempdir().unwrap();
    let (store, _world) = world(config(directory.path())).await;
    let settings = |connection: &rusqlite::Connection, names: &[&str]| -> Vec<(String, String)> {
        let value = |name: &str| {
            let value: rusqlite::types::Value = connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap();
            match value {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => panic!("{name} is {other:?}"),
            }
        };
        names.iter().map(|name| ((*name).to_owned(), value(name))).collect()
    };
    let expect = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let writer = [
        ("page_size", "4096"),
        ("auto_vacuum", "2"),
        ("journal_mode", "wal"),
        ("synchronous", "2"),
        ("foreign_keys", "1"),
        ("busy_timeout", "5000"),
        ("cache_size", "-16000"),
        ("wal_autocheckpoint", "0"),
        ("journal_size_limit", "67108864"),
        ("secure_delete", "2"),
        ("trusted_schema", "0"),
        ("temp_store", "2"),
    ];
    let (send, found) = mpsc::channel();
    store.on_writer(move |connection| {
        let names: Vec<&str> = writer.iter().map(|(name, _)| *name).collect();
        send.send(settings(connection, &names)).unwrap();
    });
    assert_eq!(found.recv().unwrap(), expect(&writer));
    let reader = [
        ("query_only", "1"),
        ("busy_timeout", "5000"),
        ("trusted_schema", "0"),
        ("mmap_size", "0"),
    ];
    let found = store
        .read(move |connection| {
            let names: Vec<&str> = reader.iter().map(|(name, _)| *name).collect();
            assert!(connection.execute("DELETE FROM conversations", []).is_err());
            Ok(settings(connection, &names))
        })
        .await
        .unwrap();
    assert_eq!(found, expect(&reader));
    // Less durability is a choice, and never "off".
    let directory = tempfile::tempdir().unwrap();
    let (store, _world) = world(SqliteConfig {
        durability: Durability::Normal,
        ..config(directory.path())
    })
    .await;
    let (send, found) = mpsc::channel();
    store.on_writer(move |connection| send.send(settings(connection, &["synchronous"])).unwrap());
    assert_eq!(found.recv().unwrap(), expect(&[("synchronous", "1")]));
}

/// Full at every page on the way: whatever the point, the error is the same and nothing of the group stays.
#[tokio::test]
async fn a_disk_that_is_full_at_any_point_is_told_and_survived() {
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = world(config(directory.path())).await;
    let mut refused = 0;
    for room in 0..12 {
        store.on_writer(move |connection| {
            let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
            connection
                .query_row(&format!("PRAGMA max_page_count = {}", pages + room), [], |_| Ok(()))
                .unwrap();
        });
        let batch = |kind: &str| {
            let branch = samples::root(&world.conversation_id, &samples::id(&format!("br_{kind}{room}")));
            let append = WriteOp::AppendItems {
                branch_id: branch.branch_id.clone(),
                expected_head: None,
                items: vec![samples::message(&format!("i{kind}{room}"), &"x".repeat(30_000))],
            };
            WriteBatch::new(world.now, world.conversation_id.clone())
                .with(WriteOp::CreateBranch(branch))
                .with(append)
        };
        match store.commit(batch("a")).await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, StoreError::Full, "room for {room} pages");
                refused += 1;
                let branch = samples::id(&format!("br_a{room}"));
                assert!(store.branch(&branch).await.unwrap().is_none(), "room for {room} pages");
            }
        }
        // The file was opened anew after an error, which took the bound away, as freed space would.
        store.on_writer(|connection| {
            connection.query_row("PRAGMA max_page_count = 1073741823", [], |_| Ok(())).unwrap();
        });
        store.commit(batch("b")).await.unwrap();
    }
    assert!((5..12).contains(&refused), "{refused}");
    assert!(store.check().await.unwrap().is_ok());
}

#[tokio::test]
async fn cleanup_waits_while_the_queue_is_more_than_half_full() {
    clause!("RET-05");
    let directory = tempfile::tempdir().unwrap();
    let queue = QueueLimits {
        entries: 4,
        ..QueueLimits::default()
    };
    let (store, world) = world(SqliteConfig {
        queue,
        ..config(directory.path())
    })
    .await;
    let gone = World::of(Arc::new(store.clone()), "gone", samples::PRINCIPAL).await;
    let delete = WriteOp::DeleteConversation {
        only_if: throughline_store::DeletionCondition::Always,
    };
    gone.commit(vec![delete]).await.unwrap();
    let release = hold(&store);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str, store: &SqliteStore, batch: WriteBatch| {
        let (order, store) = (order.clone(), store.clone());
        async move {
            store.commit(batch).await.unwrap();
            order.lock().unwrap().push(name);
        }
        .boxed()
    };
    let mut futures: Vec<BoxFuture<'_, ()>> = (0..3).map(|number| note("append", &store, start(&world, number))).collect();
    let (swept, sweeping) = (order.clone(), store.clone());
    futures.push(
        async move {
            let request = throughline_store::SweepRequest::new(samples::START);
            let step = sweeping.sweep(request).await.unwrap();
            assert_eq!((step.rows, step.more), (0, true), "nothing is removed before the appends");
            swept.lock().unwrap().push("sweep");
        }
        .boxed(),
    );
    futures.push(async move { drop(release) }.boxed());
    join_all(futures).await;
    assert_eq!(*order.lock().unwrap(), ["append", "append", "append", "sweep"]);
    assert!(
        store
            .sweep(throughline_store::SweepRequest::new(samples::START))
            .await
            .unwrap()
            .rows
            > 0
    );
}
