//! A log that a power failure has torn, a disk that is full, writes and syncs that fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use throughline_store::contract::{World, samples};
use throughline_store::{
    EventRange, EventReader as _, JournalReader as _, OperationReader as _, OsRandom, StateWriter as _, StoreAdmin as _, StoreError,
    WriteOp,
};
use throughline_store_sqlite::SqliteStore;

use crate::support::{Home, config_at, new_vault, world};

/// How many commits a torn log had.
const STEPS: u64 = 40;

/// Commits of one item, two events and the operation's own change each: what must stay together.
async fn commit_step(world: &World, step: u64) -> Result<(), StoreError> {
    let head = (step > 1).then(|| format!("i{}", step - 1));
    let text = "x".repeat(usize::try_from(step % 7).unwrap() * 300);
    world
        .commit(vec![
            world.append(head.as_deref(), vec![samples::message(&format!("i{step}"), &text)]),
            samples::append_events(&samples::id("op_1"), 2 * step - 1, &[&format!("a{step}"), &format!("b{step}")]),
        ])
        .await
        .map(drop)
}

/// How many steps there are: of items and of events the same, dense, with nothing half done.
async fn steps(store: &SqliteStore, directory: &Path) -> u64 {
    let report = store.check().await.unwrap();
    assert!(report.is_ok(), "{}: {report:?}", directory.display());
    let Some(operation) = store.operation(&samples::id("op_1")).await.unwrap() else {
        return 0;
    };
    let steps = operation.last_sequence / 2;
    assert_eq!(operation.last_sequence % 2, 0);
    let range = EventRange {
        after: 0,
        through: u64::MAX,
        max_events: 1_000,
        max_bytes: usize::MAX,
    };
    let events = store.events_after(&samples::id("op_1"), range).await.unwrap();
    assert!(events.iter().zip(1..).all(|(event, sequence)| event.sequence == sequence));
    for step in 1..=steps {
        assert!(store.item(&samples::id(&format!("i{step}"))).await.unwrap().is_some());
    }
    assert!(store.item(&samples::id(&format!("i{}", steps + 1))).await.unwrap().is_none());
    steps
}

#[tokio::test]
async fn a_torn_log_gives_a_prefix_of_the_commits() {
    let home = Home::new();
    let (store, world) = world(&home).await;
    world.start("op_1").await;
    for step in 1..=STEPS {
        commit_step(&world, step).await.unwrap();
    }
    let killed = home.copy_as_after_a_crash();
    store.close().await.unwrap();
    let database = std::fs::read(killed.path()).unwrap();
    let log = std::fs::read(killed.directory.path().join("throughline.db-wal")).unwrap();
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % bound as u64).unwrap()
    };
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..60 {
        let mut torn = log.clone();
        let place = 32 + below(log.len() - 32);
        match round % 3 {
            0 => torn.truncate(place),
            1 => torn[place..(place + 600).min(log.len())].fill(0),
            _ => torn[place] ^= 1 << below(8),
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("throughline.db"), &database).unwrap();
        std::fs::write(directory.path().join("throughline.db-wal"), &torn).unwrap();
        let opened = SqliteStore::open(config_at(directory.path()), &new_vault(), &OsRandom, samples::START);
        let store = opened.unwrap_or_else(|error| panic!("round {round} at {place}: {error}"));
        let found = steps(&store, directory.path()).await;
        seen.insert(found);
        // It goes on from where it is.
        if store.operation(&samples::id("op_1")).await.unwrap().is_some() {
            let again = World {
                store: Arc::new(store.clone()),
                vault: world.vault.clone(),
                conversation_id: world.conversation_id.clone(),
                branch_id: world.branch_id.clone(),
                now: world.now,
            };
            commit_step(&again, found + 1).await.unwrap();
            drop(again);
        }
        store.close().await.unwrap();
    }
    assert!(seen.len() > 10 && seen.iter().all(|found| *found <= STEPS), "{seen:?}");
}

/// Fills until the store says that it cannot, then goes on once there is room: clear error, nothing half done, no loss.
async fn fill(directory: &Path, make_room: impl FnOnce()) -> StoreError {
    let store = SqliteStore::open(config_at(directory), &new_vault(), &OsRandom, samples::START).unwrap();
    let world = World::new(Arc::new(store.clone())).await;
    world.start("op_1").await;
    let mut step = 0;
    let error = loop {
        if let Err(error) = commit_step(&world, step + 1).await {
            break error;
        }
        step += 1;
        assert!(step < 100_000, "it never gets full");
    };
    for _ in 0..3 {
        // It stays a clear error, and reading goes on.
        commit_step(&world, step + 1).await.unwrap_err();
        assert_eq!(store.last_sequence(&samples::id("op_1")).await.unwrap(), 2 * step);
    }
    let upload = store.put_content(bytes::Bytes::from(vec![1; 1 << 20])).await.unwrap_err();
    assert!(matches!(upload.code(), "storage.full" | "storage.io"), "{upload}");
    make_room();
    commit_step(&world, step + 1).await.unwrap();
    store.put_content(bytes::Bytes::from(vec![1; 1 << 20])).await.unwrap();
    assert_eq!(steps(&store, directory).await, step + 1);
    drop(world);
    store.close().await.unwrap();
    let again = SqliteStore::open(config_at(directory), &new_vault(), &OsRandom, samples::START).unwrap();
    assert_eq!(steps(&again, directory).await, step + 1);
    again.close().await.unwrap();
    error
}

/// A file system of a few megabytes, where mounting one is permitted; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"])
            .arg(place.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Says that a test has not run. Where everything must run that is a failure, unless the run itself says that it does without.
fn skipped(tool: &str, why: &str) {
    let without = std::env::var("THROUGHLINE_WITHOUT").unwrap_or_default();
    let is_told = without.split(',').any(|word| word.trim() == tool);
    assert!(
        is_told || std::env::var("CI").as_deref() != Ok("true"),
        "{why}; THROUGHLINE_WITHOUT={tool} does without"
    );
    println!("skipped: {why}");
}

#[tokio::test]
async fn a_full_disk_is_told_and_survived() {
    let Some(disk) = SmallDisk::mount() else {
        return skipped(
            "mount",
            "mounting a small file system is not permitted here; writer_tests has the same with a bounded file",
        );
    };
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![0; 1_200_000]).unwrap();
    let error = fill(disk.0.path(), || {
        // Room for what is left, the content of 1 MiB included.
        std::fs::remove_file(&ballast).unwrap();
        let status = Command::new("mount").args(["-o", "remount,size=64m"]).arg(disk.0.path()).status();
        assert!(status.unwrap().success());
    })
    .await;
    assert_eq!(error, StoreError::Full);
    assert!(error.to_string().contains("free some space"), "{error}");
}

const DIRECTORY: &str = "THROUGHLINE_TEST_FAULT_DIRECTORY";

/// The child. In the ordinary run of the suite there is nothing for it to do.
#[tokio::test]
async fn child_whose_writes_fail() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let mut signal = String::new();
    // The parent has set the bound of this process by now.
    std::io::stdin().read_line(&mut signal).unwrap();
    let error = fill(Path::new(&directory), || {
        println!("full");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    })
    .await;
    println!("error {}", error.code());
}

/// Writes beyond a size fail in the system as on a broken device: `SQLITE_IOERR_WRITE`, not "disk full".
#[test]
fn a_write_that_fails_is_told_and_survived() {
    use std::io::{BufRead as _, Write as _};
    let limit = |pid: u32, bytes: &str| {
        let status = Command::new("prlimit")
            .args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:unlimited")])
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !limit(std::process::id(), "unlimited") {
        return skipped("prlimit", "prlimit is not here");
    }
    let home = Home::new();
    let quoted = |path: PathBuf| path.to_str().unwrap().replace('\'', "'\\''");
    // The signal of a write beyond the bound is ignored, so that the write itself fails.
    let script = format!(
        "trap '' XFSZ; exec '{}' faults::child_whose_writes_fail --exact --nocapture",
        quoted(std::env::current_exe().unwrap())
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .env(DIRECTORY, home.directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(limit(child.id(), "700000"));
    let mut input = child.stdin.take().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    input.write_all(b"go\n").unwrap();
    let mut told = Vec::new();
    for line in lines.by_ref() {
        let full = line.ends_with("full");
        told.push(line);
        if full {
            break;
        }
    }
    assert!(limit(child.id(), "unlimited"), "{told:?}");
    input.write_all(b"go\n").unwrap();
    told.extend(lines);
    assert!(child.wait().unwrap().success(), "{told:?}");
    assert!(told.iter().any(|line| line == "error storage.io"), "{told:?}");
}

/// Syncs that fail, one a run, some while it starts and some of the writer (strace counts by thread): a commit whose sync failed is not acknowledged, and what was
/// acknowledged before is there.
#[test]
fn a_sync_that_fails_is_not_acknowledged() {
    let trace = |arguments: &[&str], directory: &Path| {
        Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null"])
            .args(arguments)
            .arg(std::env::current_exe().unwrap())
            .args(["faults::child_whose_syncs_fail", "--exact", "--nocapture"])
            .env(SYNC_DIRECTORY, directory)
            .stderr(Stdio::null())
            .output()
    };
    let home = Home::new();
    let plain = trace(&["-e", "trace=fsync,fdatasync"], home.directory.path());
    if !plain.as_ref().is_ok_and(|out| out.status.success()) {
        return skipped("strace", "strace cannot trace here");
    }
    let mut refused = 0;
    for nth in [2, 6, 14, 16, 18, 21] {
        let home = Home::new();
        let fault = format!("inject=fsync,fdatasync:error=EIO:when={nth}");
        let out = trace(&["-e", "trace=fsync,fdatasync", "-e", &fault], home.directory.path()).unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: Vec<&str> = text.lines().filter_map(|line| Some(&line[line.find("step ")? + 5..])).collect();
        refused += lines.iter().filter(|line| line.ends_with("storage.io")).count();
        let acknowledged: u64 = lines
            .iter()
            .filter_map(|line| line.strip_suffix(" ok")?.parse().ok())
            .max()
            .unwrap_or(0);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = home.open();
            let found = steps(&store, home.directory.path()).await;
            assert!(found >= acknowledged, "sync {nth}: {found} of {acknowledged}: {text}");
            store.close().await.unwrap();
        });
    }
    assert!(refused > 0, "no commit met a failing sync, so the test shows nothing");
}

const SYNC_DIRECTORY: &str = "THROUGHLINE_TEST_SYNC_DIRECTORY";

/// The child. In the ordinary run of the suite there is nothing for it to do.
#[tokio::test]
async fn child_whose_syncs_fail() {
    let Ok(directory) = std::env::var(SYNC_DIRECTORY) else { return };
    let Ok(store) = SqliteStore::open(config_at(Path::new(&directory)), &new_vault(), &OsRandom, samples::START) else {
        return;
    };
    let store = Arc::new(store);
    let open = samples::opening(&samples::id("conv_main"), &samples::id("br_main"), samples::PRINCIPAL);
    let batch = throughline_store::WriteBatch {
        now: samples::START,
        conversation_id: samples::id("conv_main"),
        ops: open,
    };
    // The fault may come anywhere; each call may be repeated.
    while store.commit(batch.clone()).await.is_err() {}
    let world = World {
        store: store.clone(),
        vault: Arc::new(new_vault()),
        conversation_id: samples::id("conv_main"),
        branch_id: samples::id("br_main"),
        now: samples::START,
    };
    let operation = samples::operation("op_1", &world);
    while world.commit(vec![WriteOp::PutOperation(operation.clone())]).await.is_err() {}
    for step in 1..=20 {
        loop {
            match commit_step(&world, step).await {
                Ok(()) => break println!("step {step} ok"),
                Err(error) => println!("step {step} {}", error.code()),
            }
        }
    }
    // Nothing is closed: it ends as by a kill.
    std::process::exit(0);
}
