//! STORE-02: the store is told where everything is, and looks nowhere else.
//!
//! A child process works with a store while its home directory, its working directory and every variable of the environment that
//! could name a place lead to decoys, and the system tells of each of them that is opened.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::fs::inotify;
use throughline_format::{Timestamp, clause};
use throughline_store::contract::{World, samples};
use throughline_store::{CollectRequest, OsRandom, StateWriter as _, StoreAdmin as _, SweepRequest};
use throughline_store_sqlite::{SqliteReader, SqliteStore};

use crate::support::{config_at, new_vault};

const DIRECTORY: &str = "THROUGHLINE_TEST_CONFIGURATION_DIRECTORY";

/// Where a program that looks for its configuration would find something, below a home or a working directory.
const DECOYS: [&str; 14] = [
    "throughline.toml",
    "throughline.db",
    ".env",
    ".throughline.toml",
    ".throughline/throughline.toml",
    ".throughline/throughline.db",
    ".config/throughline/throughline.toml",
    ".config/throughline/keyring.json",
    ".local/share/throughline/throughline.db",
    ".local/share/throughline/lock",
    ".local/share/throughline/keys/keyring.json",
    ".local/share/throughline/artifacts/aa",
    "keys/keyring.json",
    "artifacts/aa",
];

/// Everything that a store can be asked for, once. In the ordinary run of the suite there is nothing for it to do.
#[tokio::test]
async fn child_that_works_among_decoys() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let store = SqliteStore::open(config_at(directory), &new_vault(), &OsRandom, Timestamp::EPOCH).unwrap();
    let world = World::new(Arc::new(store.clone())).await;
    world.say(&world.branch_id, &["i1"]).await;
    world.upload(b"content").await;
    // Long enough to become a file.
    let picture = serde_json::json!({"kind": "message", "role": "user", "parts": [{"kind": "image", "partId": "p", "source": {"kind": "inline", "mediaType": "image/png",
        "encoding": "base64", "data": "AAAA".repeat(100_000)}}]});
    world
        .commit(vec![world.append(Some("i1"), vec![samples::item("i2", &picture)])])
        .await
        .unwrap();
    assert_eq!(world.path(&world.branch_id).await.len(), 2);
    let now = samples::START;
    store.sweep(SweepRequest { now, max_rows: 100 }).await.unwrap();
    let request = CollectRequest {
        now,
        grace_millis: 0,
        max_digests: 10,
        whole: false,
    };
    store.collect(request).await.unwrap();
    assert!(store.check().await.unwrap().problems.is_empty());
    store.close().await.unwrap();
    drop(SqliteReader::open(directory.join("throughline.db"), directory.join("artifacts")).unwrap());
    println!("worked");
}

/// A tree of decoys, each poisoned: whoever reads one fails, or works with the wrong place.
fn decoys() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for name in DECOYS {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "decoy = [[[").unwrap();
    }
    root
}

fn directories(root: &Path, found: &mut Vec<PathBuf>) {
    found.push(root.to_owned());
    for entry in std::fs::read_dir(root).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            directories(&entry.path(), found);
        }
    }
}

/// What is in a tree, so that a new file or a change shows.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut folders = Vec::new();
    directories(root, &mut folders);
    let entries = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(Result::unwrap));
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Tells of everything that happens to the files and folders of some trees.
struct Trace(std::os::fd::OwnedFd);

impl Trace {
    fn of(roots: &[&Path]) -> Self {
        let watcher = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        let mut folders = Vec::new();
        for root in roots {
            directories(root, &mut folders);
        }
        for folder in folders {
            inotify::add_watch(&watcher, folder, inotify::WatchFlags::ALL_EVENTS).unwrap();
        }
        Self(watcher)
    }

    fn events(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut found = Vec::new();
        while let Ok(event) = reader.next() {
            found.push(format!("{:?} of {:?}", event.events(), event.file_name()));
        }
        found
    }
}

#[test]
fn nothing_but_what_it_is_told_is_opened() {
    clause!("STORE-02");
    let (home, working, store) = (decoys(), decoys(), tempfile::tempdir().unwrap());
    let (before, before_working) = (contents(home.path()), contents(working.path()));
    let trace = Trace::of(&[home.path(), working.path()]);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "configuration::child_that_works_among_decoys",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .current_dir(working.path())
        .env(DIRECTORY, store.path())
        .env("PWD", working.path());
    for variable in [
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "XDG_RUNTIME_DIR",
        "TMPDIR",
        "SQLITE_TMPDIR",
        "THROUGHLINE_DATA_DIR",
    ] {
        child.env(variable, home.path());
    }
    for (variable, file) in [
        ("THROUGHLINE_CONFIG", "throughline.toml"),
        ("THROUGHLINE_MASTER_KEY_FILE", "keys/keyring.json"),
        ("SQLITE_HISTORY", ".env"),
    ] {
        child.env(variable, home.path().join(file));
    }
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("worked"), "{said}");
    let opened = trace.events();
    assert!(opened.is_empty(), "{opened:?}");
    assert!(store.path().join("throughline.db").is_file(), "it worked where it was told to");

    // The trace sees what it is there for.
    drop(std::fs::read(home.path().join(".config/throughline/throughline.toml")).unwrap());
    assert!(!trace.events().is_empty());
    assert_eq!((contents(home.path()), contents(working.path())), (before, before_working));
}
