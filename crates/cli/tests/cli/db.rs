//! `throughline db`.

use crate::store::{Data, SECRET};
use crate::support::throughline;
use serde_json::json;
use std::io::BufRead as _;
use std::process::{Command, Stdio};
use throughline_format::Timestamp;
use throughline_store::contract::samples;
use throughline_store::{ConversationReader as _, ResourceReader as _};

#[test]
fn check_tells_what_it_found() {
    let data = Data::new();
    let run = data.run(&["db", "check"]);
    assert_eq!(
        (run.exit, run.json()),
        (
            0,
            json!({"ok": true, "schemaVersion": 3, "integrity": "ok", "foreignKeys": 0, "refcounts": "ok", "problems": []})
        )
    );
    // A file instead of a folder is as good.
    let file = data.path().join("throughline.db");
    assert_eq!(throughline(&["db", "check", "--db", file.to_str().unwrap()], "").exit, 0);
    std::fs::remove_dir_all(data.path().join("artifacts")).unwrap();
    let run = data.run(&["db", "check"]);
    assert_eq!((run.exit, &run.json()["ok"]), (1, &json!(false)));
    assert_eq!(run.json()["problems"], json!(["2 artifacts whose content is missing or altered"]));
    assert!(!data.path().join("artifacts").exists(), "a check makes nothing");
}

#[test]
fn a_place_without_a_store_is_bad_usage() {
    let empty = tempfile::tempdir().unwrap();
    for command in [
        &["db", "check"][..],
        &["db", "backup"],
        &["db", "cleanup"],
        &["conversation", "list"],
    ] {
        let mut arguments = command.to_vec();
        arguments.extend(["--db", empty.path().to_str().unwrap()]);
        let run = throughline(&arguments, "");
        assert_eq!((run.exit, run.error()["code"].as_str().unwrap()), (2, "invalid-request.usage"));
    }
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
    let text = empty.path().join("notes.txt");
    std::fs::write(&text, "no database").unwrap();
    let run = throughline(&["db", "check", "--db", text.to_str().unwrap()], "");
    assert_eq!((run.exit, run.error()["code"].as_str().unwrap()), (1, "storage.corrupt"));
}

#[test]
fn backup_can_be_opened_and_is_never_written_over() {
    let data = Data::new();
    let report = data.run(&["db", "backup"]).json();
    let path = report["path"].as_str().unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert!(path.contains("backups"), "{path}");
    assert_eq!(report["bytes"], bytes.len());
    assert_eq!(report["sha256"], throughline_format::Sha256::of(&bytes).to_hex());
    let target = data.path().join("copy.db");
    let arguments = ["db", "backup", "--output", target.to_str().unwrap()];
    assert_eq!(data.run(&arguments).exit, 0);
    assert_eq!(data.run(&arguments).error()["code"], "invalid-request.validation");
    let listed = throughline(&["conversation", "list", "--db", target.to_str().unwrap()], "").json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
}

#[test]
fn rotation_moves_everything_and_goes_on_where_it_stopped() {
    let data = Data::new();
    data.with_store(async |store| {
        let vault = data.vault();
        let world = throughline_store::contract::World::of(store, "third", samples::PRINCIPAL).await;
        for number in 0..40 {
            let mut resource = samples::resource(&world, &format!("t{number}"), "a", SECRET);
            resource.sealed = vault.seal(&resource.seal_context(), SECRET).unwrap();
            world
                .commit(vec![throughline_store::WriteOp::PutResource(Box::new(resource))])
                .await
                .unwrap();
        }
    });
    let stopped = data.run(&["db", "rotate-key", "--max-records", "1"]).json();
    assert_eq!(stopped, json!({"from": 1, "to": 2, "resealed": 32, "remaining": 9}));
    let ended = data.run(&["db", "rotate-key"]).json();
    assert_eq!(ended, json!({"from": 1, "to": 2, "resealed": 9, "remaining": 0}));
    let vault = data.vault();
    assert_eq!(
        (vault.versions(), vault.hash_version()),
        (vec![1, 2], 1),
        "the first key stays for the hashes"
    );
    data.with_store(async |store| {
        let resource = store.resource(&samples::id("r1")).await.unwrap().unwrap();
        assert_eq!(resource.sealed.key_version(), 2);
        assert_eq!(vault.open(&resource.seal_context(), &resource.sealed).unwrap().as_slice(), SECRET);
    });
    // Nothing is left, so the next run begins a rotation of its own.
    assert_eq!(
        data.run(&["db", "rotate-key"]).json(),
        json!({"from": 2, "to": 3, "resealed": 41, "remaining": 0})
    );
}

#[test]
fn cleanup_keeps_to_the_retention_of_the_store() {
    let data = Data::new();
    // Everything in it is of 1970; its artifacts lose their last reference now, and go an hour later.
    let cleaned = data.run(&["db", "cleanup"]);
    assert_eq!(
        (cleaned.exit, cleaned.json()),
        (0, json!({"conversations": 2, "artifacts": 0, "bytes": 0}))
    );
    data.with_store(async |store| assert!(store.conversation(&samples::id("conv_first")).await.unwrap().is_none()));
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    data.collect(Timestamp::from_millis(i64::try_from(now).unwrap() + 2 * 3_600_000));
    assert_eq!(data.run(&["db", "check"]).json()["ok"], true);
    let files = walk(&data.path().join("artifacts"));
    assert_eq!(files, Vec::<std::path::PathBuf>::new());

    let data = Data::new();
    let kept = data.run(&["db", "cleanup", "--retention-days", "36500"]).json();
    assert_eq!(kept["conversations"], 0);
    // The option is for this run only.
    assert_eq!(data.run(&["db", "cleanup"]).json()["conversations"], 2);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] })
        .collect()
}

#[test]
fn reading_goes_on_beside_a_gateway_and_writing_is_refused() {
    let data = Data::new();
    let path = data.path();
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_throughline"))
        .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    std::io::BufReader::new(gateway.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    assert!(ready.starts_with("throughline ready"), "{ready}");
    let reads: Vec<i32> = [&["db", "check"][..], &["db", "backup"], &["conversation", "list"]]
        .iter()
        .map(|arguments| data.run(arguments).exit)
        .collect();
    let writes: Vec<_> = ["rotate-key", "cleanup"].map(|command| data.run(&["db", command])).into();
    let holder = format!("another process (process {})", gateway.id());
    assert_eq!(data.run(&["key", "new", "--name", "laptop"]).exit, 0, "keys are made while it runs");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    assert_eq!(reads, [0, 0, 0]);
    for run in writes {
        let error = run.error();
        assert_eq!((run.exit, error["code"].as_str().unwrap()), (1, "storage.locked"));
        assert!(error["message"].as_str().unwrap().contains(&holder), "{error}");
    }
    let ring = String::from_utf8(std::fs::read(data.key_ring()).unwrap()).unwrap();
    assert!(ring.contains("\"current\":1"), "a refused rotation adds no key");
}
