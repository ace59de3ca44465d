//! Files of artifacts: externalised data, collection, orphans, and the race between a reference and a removal.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use throughline_format::media::encode_base64;
use throughline_format::{Sha256, Timestamp, UnifiedItem, clause};
use throughline_store::contract::{World, samples};
use throughline_store::{
    ARTIFACT_GRACE_MILLIS, CollectRequest, DeletionCondition, ItemPage, JournalReader as _, ResourceReader as _, StateWriter as _,
    StoreAdmin as _, SweepRequest, WriteOp,
};
use throughline_store_sqlite::{SqliteConfig, SqliteStore};

use crate::support::{Home, world};

fn picture(item_id: &str, seed: u8, length: usize) -> UnifiedItem {
    let bytes: Vec<u8> = (0..length).map(|at| seed.wrapping_add(u8::try_from(at % 251).unwrap())).collect();
    let source = json!({"kind": "inline", "mediaType": "image/png", "encoding": "base64", "data": encode_base64(&bytes)});
    let part = json!({"kind": "image", "partId": format!("{item_id}.p0"), "source": source});
    samples::item(item_id, &json!({"kind": "message", "role": "user", "parts": [part]}))
}

/// The plain files below a folder, temporary ones included.
fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

fn artifact_files(home: &Home) -> Vec<PathBuf> {
    files(&home.directory.path().join("artifacts"))
}

/// Later than now by this many grace times; files carry the real time.
fn later(times: i64) -> Timestamp {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    Timestamp::from_millis(i64::try_from(now).unwrap() + times * i64::try_from(ARTIFACT_GRACE_MILLIS).unwrap())
}

async fn collect_all(store: &SqliteStore, now: Timestamp) -> u64 {
    let mut gone = 0;
    loop {
        let step = store.collect(CollectRequest::whole(now)).await.unwrap();
        gone += step.artifacts;
        if !step.more {
            return gone;
        }
    }
}

#[tokio::test]
async fn long_inline_data_stands_in_a_file_and_not_in_the_database() {
    clause!("PART-05");
    let home = Home::new();
    let (store, world) = world(&home).await;
    let bound = SqliteConfig::new("a", "b").limits.inline_bytes;
    // Base64 has four characters for three bytes: exactly at the bound, and the next length beyond it.
    let (at, beyond) = (picture("i1", 1, bound / 4 * 3), picture("i2", 2, bound / 4 * 3 + 1));
    world
        .commit(vec![world.append(None, vec![at.clone(), beyond.clone()])])
        .await
        .unwrap();
    let lengths: Vec<i64> = home
        .sql()
        .prepare("SELECT length(body) FROM journal_items ORDER BY number")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(lengths[0] > i64::try_from(bound).unwrap() && lengths[1] < 2_000, "{lengths:?}");
    assert_eq!(artifact_files(&home).len(), 1);
    let stored = store.branch_items(&world.branch_id, ItemPage::default()).await.unwrap();
    for (stored, sent) in stored.iter().zip([&at, &beyond]) {
        assert_eq!(stored.body, sent.body);
        let fingerprint = |item| throughline_format::content_fingerprint(item).unwrap();
        assert_eq!(fingerprint(stored), fingerprint(sent));
    }
    // The record that stands in the database has the fingerprint of the one that was sent, too.
    let body: String = home
        .sql()
        .query_row("SELECT body FROM journal_items WHERE item_id = 'i2'", [], |row| row.get(0))
        .unwrap();
    let externalised: UnifiedItem = serde_json::from_str(&body).unwrap();
    assert_ne!(externalised, stored[1]);
    let content = |item: &UnifiedItem| throughline_format::content_fingerprint(item).unwrap();
    assert_eq!(content(&externalised), content(&stored[1]));
    let whole = |item: &UnifiedItem| throughline_format::fingerprint(item).unwrap();
    assert_eq!(whole(&externalised), whole(&stored[1]));
    assert!(store.check().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_missing_or_altered_file_is_told() {
    let home = Home::new();
    let (store, world) = world(&home).await;
    world
        .commit(vec![
            world.append(None, vec![picture("i1", 1, 300_000), samples::message("i2", "text")]),
        ])
        .await
        .unwrap();
    let file = artifact_files(&home).remove(0);
    let content = std::fs::read(&file).unwrap();
    std::fs::write(&file, &content[1..]).unwrap();
    assert_eq!(
        store.check().await.unwrap().problems,
        ["1 artifacts whose content is missing or altered"]
    );
    assert!(file.exists(), "a check changes nothing");
    assert_eq!(store.item(&samples::id("i1")).await.unwrap_err().code(), "storage.corrupt");
    assert!(store.item(&samples::id("i2")).await.unwrap().is_some(), "the rest is readable");
    // The same content once more mends it.
    let fork = samples::fork(&world, "br_2", &world.branch_id, "i2");
    let append = WriteOp::AppendItems {
        branch_id: samples::id("br_2"),
        expected_head: Some(samples::id("i2")),
        items: vec![picture("i3", 1, 300_000)],
    };
    world.commit(vec![WriteOp::CreateBranch(fork), append]).await.unwrap();
    assert!(store.item(&samples::id("i1")).await.unwrap().is_some());
    assert!(store.check().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_digest_does_not_open_somebody_elses_file() {
    let home = Home::new();
    let (store, mine) = world(&home).await;
    let theirs = World::of(Arc::new(store.clone()), "theirs", "principal-b").await;
    mine.commit(vec![mine.append(None, vec![picture("i1", 1, 300_000)])]).await.unwrap();
    let stolen: String = home
        .sql()
        .query_row("SELECT body FROM journal_items WHERE item_id = 'i1'", [], |row| row.get(0))
        .unwrap();
    let stolen: UnifiedItem = serde_json::from_str(&stolen.replace("i1", "b1")).unwrap();
    let pending = samples::item("b1", &json!({"kind": "message", "role": "user", "parts": stolen.parts()}));
    assert_eq!(theirs.refused(vec![theirs.append(None, vec![pending])]).await, "not-found.resource");
    // The same content, sent by both, is one file under two IDs.
    theirs
        .commit(vec![theirs.append(None, vec![picture("b2", 1, 300_000)])])
        .await
        .unwrap();
    assert_eq!(artifact_files(&home).len(), 1);
    let ids: i64 = home
        .sql()
        .query_row("SELECT count(*) FROM artifacts", [], |row| row.get(0))
        .unwrap();
    assert_eq!(ids, 2);
}

#[tokio::test]
async fn only_unshared_artifacts_go_with_their_conversation() {
    clause!("RET-05");
    let home = Home::new();
    let (store, first) = world(&home).await;
    let second = World::of(Arc::new(store.clone()), "second", samples::PRINCIPAL).await;
    first
        .commit(vec![first.append(None, vec![picture("a1", 1, 300_000), picture("a2", 2, 300_000)])])
        .await
        .unwrap();
    second
        .commit(vec![second.append(None, vec![picture("b1", 1, 300_000)])])
        .await
        .unwrap();
    assert_eq!(artifact_files(&home).len(), 2);
    let delete = WriteOp::DeleteConversation {
        only_if: DeletionCondition::Always,
    };
    first.commit(vec![delete.clone()]).await.unwrap();
    while store.sweep(SweepRequest::new(later(0))).await.unwrap().more {}
    assert_eq!(collect_all(&store, later(0)).await, 0, "the grace time has not passed");
    assert_eq!(collect_all(&store, later(2)).await, 1);
    assert_eq!(artifact_files(&home).len(), 1);
    assert_eq!(
        store.item(&samples::id("b1")).await.unwrap().unwrap().body,
        picture("b1", 1, 300_000).body
    );
    second.commit(vec![delete]).await.unwrap();
    while store.sweep(SweepRequest::new(later(2))).await.unwrap().more {}
    assert_eq!(collect_all(&store, later(4)).await, 1);
    assert_eq!(artifact_files(&home), Vec::<PathBuf>::new());
    let rows: i64 = home
        .sql()
        .query_row(
            "SELECT (SELECT count(*) FROM artifacts) + (SELECT count(*) FROM pending_artifact_gc)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn files_that_no_row_knows_are_found() {
    let home = Home::new();
    let (store, world) = world(&home).await;
    world.upload(b"orphan").await;
    world.upload(b"pinned").await;
    let pin = WriteOp::PinArtifact {
        sha256: Sha256::of(b"pinned"),
        owner: samples::id("req_1"),
        expires_at: later(100),
    };
    world
        .commit(vec![pin, world.append(None, vec![picture("i1", 1, 300_000)])])
        .await
        .unwrap();
    let half = home.directory.path().join("artifacts").join("tmp").join("1-1");
    std::fs::write(&half, b"half").unwrap();
    assert_eq!(collect_all(&store, later(0)).await, 0, "it may be on its way");
    assert_eq!(collect_all(&store, later(2)).await, 1);
    assert_eq!(artifact_files(&home).len(), 2);
    assert!(!half.exists());
    assert!(store.item(&samples::id("i1")).await.unwrap().is_some());
}

/// Writers that refer to the same content again and again, against a collector for which everything is old enough: whatever was
/// committed can be read at every moment, and in the end everything agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reference_and_a_removal_never_miss_each_other() {
    let home = Home::new();
    let store = Arc::new(home.open());
    let far = later(1_000_000);
    let writers = (0..3).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..12 {
                let name = format!("w{writer}r{round}");
                let world = World::of(store.clone(), &name, samples::PRINCIPAL).await;
                let item = format!("{name}.i1");
                // The same few contents from everybody.
                world
                    .commit(vec![world.append(None, vec![picture(&item, round % 3, 270_000)])])
                    .await
                    .unwrap();
                let stored = store.item(&samples::id(&item)).await.unwrap().unwrap();
                assert_eq!(stored.body, picture(&item, round % 3, 270_000).body);
                let delete = WriteOp::DeleteConversation {
                    only_if: DeletionCondition::Always,
                };
                world.commit(vec![delete]).await.unwrap();
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let collector = tokio::spawn({
        let store = store.clone();
        async move {
            let mut gone = 0;
            loop {
                while store.sweep(SweepRequest::new(samples::START)).await.unwrap().more {}
                let request = CollectRequest {
                    grace_millis: 0,
                    ..CollectRequest::new(far)
                };
                gone += store.collect(request).await.unwrap().artifacts;
                if Arc::strong_count(&store) <= 2 {
                    return gone;
                }
                tokio::task::yield_now().await;
            }
        }
    });
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(collector.await.unwrap() > 0, "the collector had something to do");
    while store.sweep(SweepRequest::new(samples::START)).await.unwrap().more {}
    collect_all(&store, later(1_000_002)).await;
    assert_eq!(store.artifact_by_digest(samples::PRINCIPAL, &Sha256::of(b"x")).await.unwrap(), None);
    assert!(store.check().await.unwrap().is_ok());
    assert_eq!(artifact_files(&home), Vec::<PathBuf>::new());
}
