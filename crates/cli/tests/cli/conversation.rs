//! `throughline conversation`.

use crate::store::{Data, SECRET};
use crate::support::throughline;
use serde_json::{Value, json};

#[test]
fn list_has_the_summary_of_each_and_pages() {
    let data = Data::new();
    let all = data.run(&["conversation", "list"]).json();
    assert_eq!(all["hasMore"], false);
    let ids: Vec<&str> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["conversationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["conv_second", "conv_first"]);
    let second = &all["data"][0];
    assert_eq!(
        (&second["itemCount"], &second["activeBranchId"], &second["expiresAt"]),
        (&json!(3), &json!("br_second"), &json!("1970-01-08T00:00:00.000Z"))
    );
    assert_eq!(second.get("principalRef"), None);
    let page = data.run(&["conversation", "list", "--limit", "1"]).json();
    assert_eq!(
        (&page["hasMore"], &page["next"], page["data"].as_array().unwrap().len()),
        (&json!(true), &json!("conv_second"), 1)
    );
    let rest = data.run(&["conversation", "list", "--limit", "1", "--after", "conv_second"]).json();
    assert_eq!(
        (&rest["hasMore"], &rest["data"][0]["conversationId"]),
        (&json!(false), &json!("conv_first"))
    );
}

#[test]
fn show_gives_one_item_a_line_in_a_pipe() {
    let data = Data::new();
    let items = data.run(&["conversation", "show", "conv_second"]).lines();
    assert_eq!(
        items.iter().map(|i| i["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["b1", "b2", "b3"]
    );
    // What was kept as a file is back in its place.
    assert_eq!(items[1]["parts"][0]["source"]["data"].as_str().unwrap().len(), 400_000);
    let fork = data.run(&["conversation", "show", "conv_second", "--branch", "br_fork"]).lines();
    assert_eq!(fork.len(), 1);
    for arguments in [
        ["conversation", "show", "conv_none"].as_slice(),
        &["conversation", "show", "conv_first", "--branch", "br_second"],
    ] {
        let run = data.run(arguments);
        assert_eq!((run.exit, run.error()["code"].as_str().unwrap()), (1, "not-found.resource"));
    }
}

#[test]
fn export_is_a_valid_bundle_without_private_payloads() {
    let data = Data::new();
    let run = data.run(&["conversation", "export", "conv_second", "--artifacts"]);
    let lines = run.lines();
    assert_eq!((run.exit, lines.len()), (0, 2));
    let bundle = &lines[0];
    assert_eq!(bundle["items"].as_array().unwrap().len(), 3);
    assert_eq!(bundle["branches"].as_array().unwrap().len(), 2);
    assert_eq!(bundle["artifacts"][0]["artifactId"], "art_1");
    assert_eq!(bundle["privateResources"][0]["resourceId"], "r1");
    assert_eq!(lines[1], json!({"sha256": bundle["artifacts"][0]["sha256"], "data": "cmVwb3J0"}));
    assert!(!run.stdout.contains(std::str::from_utf8(SECRET).unwrap()));
    let valid = throughline(&["validate", "-"], bundle.to_string()).json();
    assert_eq!(valid, json!({"valid": true, "record": "export", "violations": []}));
    // To a file, which is never written over.
    let target = data.path().join("bundle.jsonl");
    let arguments = ["conversation", "export", "conv_second", "-o", target.to_str().unwrap()];
    assert_eq!(data.run(&arguments).exit, 0);
    let written: Value = serde_json::from_slice(&std::fs::read(&target).unwrap()).unwrap();
    assert_eq!(written["items"], bundle["items"]);
    assert_eq!(data.run(&arguments).exit, 1);
}

#[test]
fn verify_finds_what_was_altered() {
    let data = Data::new();
    let sound = data.run(&["conversation", "verify", "conv_second"]);
    let report = sound.json();
    assert_eq!(
        (sound.exit, &report["ok"], &report["items"], &report["problems"]),
        (0, &json!(true), &json!(3), &json!([]))
    );
    assert_eq!(
        report["fingerprint"],
        data.run(&["conversation", "verify", "conv_second"]).json()["fingerprint"]
    );
    let sha256 = throughline_format::Sha256::of(b"report").to_hex();
    let file = data.path().join("artifacts").join(&sha256[..2]).join(&sha256[2..4]).join(&sha256);
    std::fs::write(file, b"Report").unwrap();
    let altered = data.run(&["conversation", "verify", "conv_second"]);
    assert_eq!((altered.exit, &altered.json()["ok"]), (1, &json!(false)));
    assert!(altered.json()["problems"][0].as_str().unwrap().contains("art_1"));
}

#[test]
fn public_history_needs_no_key() {
    let data = Data::new();
    std::fs::remove_dir_all(data.path().join("keys")).unwrap();
    for arguments in [
        ["conversation", "list"].as_slice(),
        &["conversation", "show", "conv_second"],
        &["conversation", "export", "conv_second", "--artifacts"],
        &["conversation", "verify", "conv_second"],
        &["db", "check"],
        &["db", "backup"],
    ] {
        assert_eq!(data.run(arguments).exit, 0, "{arguments:?}");
    }
    for command in ["rotate-key", "cleanup"] {
        let run = data.run(&["db", command]);
        assert_eq!((run.exit, run.error()["code"].as_str().unwrap()), (1, "storage.key-ring"));
    }
}
