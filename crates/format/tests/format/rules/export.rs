//! Bundles: branches as a tree, references, revisions, and the fingerprint.

use super::samples::{HASH, HELLO, LATER, TIME, items};
use super::{Row, found, rows, set};
use crate::support::parse;
use serde_json::{Value, json};
use throughline_format::UnifiedExportV2;
use throughline_format::validate::semantics::{self, export_fingerprint};

/// A conversation with a fork at its second item and a fork of the fork.
fn export() -> Value {
    let mut all = items();
    for (id, branch, sequence, parent) in [("f3", "b2", 3, "i2"), ("f4", "b2", 4, "f3"), ("g4", "b3", 4, "f3")] {
        let mut item = items()[20].clone();
        for (member, value) in [
            ("id", json!(id)),
            ("branchId", json!(branch)),
            ("sequence", json!(sequence)),
            ("parentId", json!(parent)),
        ] {
            item[member] = value;
        }
        item["parts"] = json!([{"partId": format!("{id}.p0"), "kind": "text", "text": "fork"}]);
        all.push(item);
    }
    let branch = |id: &str, head: &str, sequence: u64| json!({"branchId": id, "conversationId": "c1", "headItemId": head, "headSequence": sequence, "createdAt": TIME});
    let mut fork = branch("b2", "f4", 4);
    (fork["parentBranchId"], fork["forkItemId"]) = (json!("b1"), json!("i2"));
    let mut deeper = branch("b3", "g4", 4);
    (deeper["parentBranchId"], deeper["forkItemId"]) = (json!("b2"), json!("f3"));
    json!({
        "schemaVersion": "2.0", "exportedAt": LATER,
        "conversation": {"conversationId": "c1", "defaultBranchId": "b1", "createdAt": TIME, "lastUpdatedAt": LATER, "principalRef": "pr1"},
        "branches": [deeper, branch("b1", "i21", 21), fork], "items": all,
        "revisions": [{"revisionId": "rv1", "itemId": "i4", "number": 1, "createdAt": LATER, "change": {"lifecycle": "executing"}, "reason": "r"}],
        "annotations": [{"resourceId": "an1", "profile": {"family": "openai-responses"}, "schema": "message/phase@1", "payload": {"phase": "commentary"}}],
        "artifacts": [{"artifactId": "art1", "sha256": HASH, "size": 5, "mediaType": "image/png", "sealed": false, "createdAt": TIME}],
        "privateResources": [{"resourceId": "pv1", "resourceType": "reasoning", "sha256": HASH, "size": 1}], "fingerprint": HASH,
    })
}

/// Gives a bundle its fingerprint, so that a table shows the other rules.
fn signed(record: &Value) -> Value {
    let mut record = record.clone();
    record["fingerprint"] = json!(export_fingerprint(&parse::<UnifiedExportV2>(&record)).unwrap());
    record
}

fn table(rows: Vec<Row>) {
    assert_eq!(found(&semantics::export(&parse(&signed(&export())))), []);
    for row in rows {
        let mut record = export();
        for (at, value) in &row.set {
            set(&mut record, at, value.clone());
        }
        let mut expected: Vec<_> = row.found.iter().map(|(path, rule)| ((*path).to_owned(), *rule)).collect();
        expected.sort();
        assert_eq!(found(&semantics::export(&parse(&signed(&record)))), expected, "{:?}", row.set);
    }
}

#[test]
fn branches_form_a_tree_with_true_heads() {
    table(rows! {
        "/branches/1/headItemId" = "i20" => "/branches/1/headItemId" "branch-head";
        "/branches/1/headSequence" = 20 => "/branches/1/headSequence" "branch-head";
        "/branches/1/headSequence" = 0 => "/branches/1/headSequence" "branch-head", "/branches/1/headSequence" "branch-head";
        "/branches/2/conversationId" = "c2" => "/branches/2/conversationId" "other-conversation";
        "/branches/2/parentBranchId" = null => "/branches/2/forkItemId" "branch-fork";
        "/branches/2/parentBranchId" = "nowhere" => "/branches/2/parentBranchId" "unknown-reference";
        "/branches/2/parentBranchId" = "b3" => "/branches/0/parentBranchId" "branch-fork";
        "/branches/2/parentBranchId" = "b2" => "/branches/2/parentBranchId" "branch-fork";
        "/branches/0/parentBranchId" = "b1" => "/branches/0/forkItemId" "branch-fork";
        "/branches/0/forkItemId" = "i2" => "/items/23/sequence" "sequence", "/items/23/parentId" "parent";
        "/conversation/defaultBranchId" = "nowhere" => "/conversation/defaultBranchId" "unknown-reference";
        "/conversation/lastUpdatedAt" = "2026-01-31T11:00:00.000Z" => "/conversation/lastUpdatedAt" "operation-times";
        "/items/22/sequence" = 5 => "/items/22/sequence" "sequence", "/branches/2/headSequence" "branch-head";
        "/items/22/parentId" = "i2" => "/items/22/parentId" "parent";
        "/items/22/conversationId" = "c2" => "/items/22/conversationId" "other-conversation";
        "/items/23/branchId" = "nowhere" => "/items/23/branchId" "unknown-reference", "/branches/0/headItemId" "branch-head";
    });
}

#[test]
fn forks_in_a_circle_are_found() {
    let mut circle = export();
    set(&mut circle, "/branches/2/forkItemId", json!("g4"));
    set(&mut circle, "/branches/2/parentBranchId", json!("b3"));
    let wrong = found(&semantics::export(&parse(&signed(&circle))));
    assert!(wrong.contains(&("/branches/0/forkItemId".to_owned(), "branch-fork")), "{wrong:?}");
    assert!(wrong.contains(&("/branches/2/forkItemId".to_owned(), "branch-fork")), "{wrong:?}");
}

#[test]
fn calls_are_paired_on_each_path() {
    // The call stands before the fork, so each branch may answer it once.
    let mut record = export();
    set(&mut record, "/branches/2/forkItemId", json!("i4"));
    for (index, sequence) in [(21, 5), (22, 6), (23, 6)] {
        record["items"][index]["sequence"] = json!(sequence);
    }
    record["items"][21]["parentId"] = json!("i4");
    record["branches"][2]["headSequence"] = json!(6);
    record["branches"][0]["headSequence"] = json!(6);
    for (index, id) in [(22, "f4"), (23, "g4")] {
        let mut result = items()[4].clone();
        for (member, value) in [
            ("id", json!(id)),
            ("branchId", record["items"][index]["branchId"].clone()),
            ("sequence", json!(6)),
            ("parentId", json!("f3")),
        ] {
            result[member] = value;
        }
        result["output"] = json!([{"partId": format!("{id}.p0"), "kind": "text", "text": "r"}]);
        record["items"][index] = result;
    }
    assert_eq!(found(&semantics::export(&parse(&signed(&record)))), []);
}

#[test]
fn references_lead_to_what_the_bundle_holds() {
    let reference = |scope: &str, schema: &str, id: &str| json!([{"profile": {"family": "openai-responses"}, "scope": scope, "schema": schema, "resourceId": id}]);
    table(rows! {
        "/items/20/providerData" = (reference("portable-annotation", "message/phase@1", "an1")) => ;
        "/items/20/providerData" = (reference("portable-annotation", "message/phase@1", "nowhere")) => "/items/20/providerData/0/resourceId" "unknown-reference";
        "/items/20/providerData" = (reference("portable-annotation", "safety/ratings@1", "an1")) => "/items/20/providerData/0/schema" "annotation-scope";
        "/items/20/providerData" = (reference("owner-private", "x/y@1", "pv1")) => ;
        "/items/20/parts/0/providerData" = (reference("owner-private", "x/y@1", "nowhere")) => "/items/20/parts/0/providerData/0/resourceId" "unknown-reference";
        "/annotations/0/payload" = {"phase": 1} => "/annotations/0/payload/phase" "annotation-shape";
        "/annotations/0/resourceId" = "pv1" => "/privateResources/0/resourceId" "duplicate-id";
        "/artifacts/0/artifactId" = "art2" => "/items/14/artifactId" "unknown-reference";
        "/artifacts/0/sha256" = HELLO => "/items/14/sha256" "artifact";
        "/artifacts/0/mediaType" = "png" => "/artifacts/0/mediaType" "media-type";
        "/revisions/0/itemId" = "nowhere" => "/revisions/0/itemId" "unknown-reference";
        "/revisions/0/number" = 2 => "/revisions/0/number" "revision-number";
        "/revisions/0/change" = {"lifecycle": "approval-denied"} => "/revisions/0/change/lifecycle" "transition";
        "/items/20/conversationId" = "pending", "/items/20/branchId" = "pending" => "/items/20/conversationId" "pending-id", "/branches/1/headItemId" "branch-head", "/items/20/branchId" "unknown-reference";
    });
}

#[test]
fn the_fingerprint_is_of_everything_else() {
    let record = signed(&export());
    for at in [
        "/conversation/title",
        "/items/20/createdAt",
        "/annotations/0/payload",
        "/exportedAt",
    ] {
        let mut changed = record.clone();
        let value = if at.ends_with("payload") {
            json!({"phase": "final"})
        } else if at.ends_with("title") {
            json!("t")
        } else {
            json!("2026-02-01T00:00:00.000Z")
        };
        set(&mut changed, at, value);
        assert_eq!(
            found(&semantics::export(&parse(&changed))),
            [("/fingerprint".to_owned(), "fingerprint")],
            "{at}"
        );
    }
    let mut reordered = record;
    reordered["items"].as_array_mut().unwrap().swap(21, 20);
    assert!(!semantics::export(&parse(&reordered)).is_empty());
}

#[test]
fn a_deep_and_wide_tree_costs_no_more_than_its_size() {
    let mut record = export();
    let mut branches = vec![record["branches"][1].clone()];
    for number in 0..3_000 {
        let parent = if number == 0 { "b1".to_owned() } else { format!("n{}", number - 1) };
        branches.push(json!({"branchId": format!("n{number}"), "conversationId": "c1", "parentBranchId": parent, "forkItemId": "i21", "headItemId": "i21", "headSequence": 21, "createdAt": TIME}));
    }
    record["branches"] = json!(branches);
    record["items"].as_array_mut().unwrap().truncate(21);
    assert_eq!(found(&semantics::export(&parse(&signed(&record)))), []);
}
