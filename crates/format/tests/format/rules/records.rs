//! Operations and checkpoints, and how they change; tables of states.

use super::samples::{HASH, LATER, TIME, checkpoint, operation, owner};
use super::{check, found, rows, set};
use crate::support::parse;
use serde_json::{Value, json};
use throughline_format::item::ItemStatus;
use throughline_format::resource::ResourceStatus;
use throughline_format::transitions::tables;
use throughline_format::validate::semantics;
use throughline_format::{UnifiedOperation, UnifiedProviderCheckpoint};

#[test]
fn operations_are_whole() {
    throughline_format::clause!("OP-01");
    check::<UnifiedOperation>(
        &operation(),
        semantics::operation,
        rows! {
            "/operationId" = "pending" => "/operationId" "pending-id";
            "/principalRef" = "" => "/principalRef" "bound";
            "/inputItemIds" = ["i2", "i2"] => "/inputItemIds/1" "duplicate-id";
            "/inputItemIds" = ["i1"] => "/sourceHeadItemId" "branch-head";
            "/startedAt" = "2026-01-31T11:00:00.000Z" => "/startedAt" "operation-times";
            "/updatedAt" = "2026-01-31T11:00:00.000Z" => "/updatedAt" "operation-times", "/updatedAt" "operation-times";
            "/deadline" = "2026-01-31T11:00:00.000Z" => "/deadline" "operation-times";
            "/cancelRequestedAt" = "2026-01-31T11:00:00.000Z" => "/cancelRequestedAt" "operation-times";
            "/startedAt" = null => "/startedAt" "operation-end";
            "/state" = "queued" => "/startedAt" "operation-end";
            "/endedAt" = LATER => "/endedAt" "operation-end";
            "/error" = {"category": "server", "code": "server.x", "message": "m", "retryable": true} => "/error" "operation-end";
            "/providerJob" = null => "/polling" "operation-job";
            "/providerJob" = null, "/polling" = null, "/webhook" = {"webhookRef": "w", "state": "registered"} => "/webhook" "operation-job";
            "/providerJob/ownerFingerprint" = HASH => "/providerJob/ownerFingerprint" "operation-job";
            "/owner" = null => "/providerJob" "operation-job";
            "/polling/intervalMs" = 0 => "/polling/intervalMs" "number";
            "/owner/credentialFingerprint" = "my key" => "/owner/credentialFingerprint" "owner", "/providerJob/ownerFingerprint" "operation-job";
            "/owner/endpointFingerprint" = "https://api.example.org" => "/owner/endpointFingerprint" "owner", "/providerJob/ownerFingerprint" "operation-job";
            "/portability/decision" = "owner-only" => "/portability/reasons" "portability";
            "/loss" = {"disposition": "unsupported", "entries": [{"path": "", "feature": "f", "severity": "error", "reason": "r"}]} => "/state" "operation-loss";
            "/lastSequence" = 9_007_199_254_740_992_u64 => "/lastSequence" "number";
        },
    );
    let mut done = operation();
    for member in ["cleanupLease", "polling"] {
        set(&mut done, &format!("/{member}"), json!(null));
    }
    for (member, value) in [("state", "completed"), ("endedAt", LATER), ("resultId", "rs1")] {
        set(&mut done, &format!("/{member}"), json!(value));
    }
    check::<UnifiedOperation>(
        &done,
        semantics::operation,
        rows! {
            "/endedAt" = null => "/endedAt" "operation-end";
            "/resultId" = null => "/resultId" "operation-end";
            "/state" = "failed" => "/error" "operation-end";
            "/state" = "cancelled", "/resultId" = null => ;
            "/owner" = null, "/providerJob" = null => "/owner" "owner";
            "/cleanupLease" = {"leaseId": "l", "expiresAt": LATER} => "/cleanupLease" "operation-end";
            "/polling" = {"nextAt": LATER, "intervalMs": 1, "attempts": 0} => "/polling" "operation-end";
            "/endedAt" = "2026-01-31T11:00:00.000Z" => "/endedAt" "operation-times", "/endedAt" "operation-times";
        },
    );
}

#[test]
fn operations_change_along_their_table() {
    let before = operation();
    let change = |after: &UnifiedOperation| semantics::operation_change(&parse(&before), after);
    check::<UnifiedOperation>(
        &before,
        change,
        rows! {
            "/state" = "requires-action" => ;
            "/conversationId" = "c2" => "/conversationId" "identity";
            "/principalRef" = "pr2" => "/principalRef" "identity";
            "/requestFingerprint" = (super::samples::HELLO) => "/requestFingerprint" "identity";
            "/lastSequence" = 2 => "/lastSequence" "event-order";
            "/updatedAt" = TIME => "/updatedAt" "operation-times";
            "/state" = "queued", "/startedAt" = null => "/state" "transition", "/startedAt" "identity";
        },
    );
    let mut ended = operation();
    for (member, value) in [
        ("state", json!("cancelled")),
        ("endedAt", json!(LATER)),
        ("cleanupLease", json!(null)),
        ("polling", json!(null)),
    ] {
        set(&mut ended, &format!("/{member}"), value);
    }
    let again = |after: &UnifiedOperation| semantics::operation_change(&parse(&ended), after);
    check::<UnifiedOperation>(
        &ended,
        again,
        rows! {
            "/resultId" = "rs9" => "" "identity";
            "/state" = "expired" => "/state" "transition";
        },
    );
}

#[test]
fn checkpoints_are_sealed_and_change_only_their_status() {
    check::<UnifiedProviderCheckpoint>(
        &checkpoint(),
        semantics::checkpoint,
        rows! {
            "/encryptedPayload" = "" => "/encryptedPayload" "checkpoint";
            "/expiresAt" = "2026-01-31T11:00:00.000Z" => "/expiresAt" "checkpoint";
            "/branchId" = "pending" => "/branchId" "pending-id";
            "/owner/credentialFingerprint" = "v1:x" => "/owner/credentialFingerprint" "owner";
            "/owner/provider" = "" => "/owner/provider" "owner";
        },
    );
    let before = checkpoint();
    let change = |after: &UnifiedProviderCheckpoint| semantics::checkpoint_change(&parse(&before), after);
    check::<UnifiedProviderCheckpoint>(
        &before,
        change,
        rows! {
            "/status" = "stale" => ;
            "/status" = "revoked", "/encryptedPayload" = "BBBB" => ;
            "/journalHeadItemId" = "i9" => "/journalHeadItemId" "identity";
            "/owner/model" = "other" => "/owner" "identity";
        },
    );
    let mut stale = checkpoint();
    set(&mut stale, "/status", json!("stale"));
    let change = |after: &UnifiedProviderCheckpoint| semantics::checkpoint_change(&parse(&stale), after);
    check::<UnifiedProviderCheckpoint>(&stale, change, rows! { "/status" = "active" => "/status" "transition"; });
    // Exactly the specification's members: the decoder refuses any other, a schema version included.
    for member in ["schemaVersion", "title", "payload"] {
        let mut more = checkpoint();
        more[member] = json!("2.0");
        let refused = throughline_format::json::decode_str::<UnifiedProviderCheckpoint>(&more.to_string()).unwrap_err();
        assert_eq!(refused.pointer, format!("/{member}"));
    }
    assert_eq!(owner(), checkpoint()["owner"]);
}

#[test]
fn items_and_checkpoints_have_tables_too() {
    use ItemStatus as I;
    use ResourceStatus as R;
    for from in I::ALL {
        for to in I::ALL {
            assert_eq!(
                from.may_become(*to),
                *from == I::InProgress && *to != I::InProgress,
                "{from} to {to}"
            );
        }
        assert_eq!(from.is_terminal(), *from != I::InProgress);
    }
    let table: [(R, &[R]); 5] = [
        (R::Active, &[R::Stale, R::Expired, R::Revoked, R::Invalid]),
        (R::Stale, &[R::Expired, R::Revoked, R::Invalid]),
        (R::Expired, &[]),
        (R::Revoked, &[]),
        (R::Invalid, &[]),
    ];
    assert_eq!(table.map(|(from, _)| from), *R::ALL);
    for (from, next) in table {
        for to in R::ALL {
            assert_eq!(from.may_become(*to), next.contains(to), "{from} to {to}");
        }
    }
    let all = tables();
    assert_eq!(
        all.iter().map(|t| (t.of, t.rows.len())).collect::<Vec<_>>(),
        [("item", 5), ("call", 9), ("operation", 7), ("checkpoint", 5)]
    );
}

#[test]
fn revisions_change_what_the_item_has() {
    let call: Value = super::samples::items()[3].clone();
    let message: Value = super::samples::items()[1].clone();
    let revision = |number: u64, change: Value| json!({"revisionId": format!("r{number}"), "itemId": "i4", "number": number, "createdAt": LATER, "change": change, "reason": "why"});
    let list = json!([
        revision(1, json!({"lifecycle": "executing"})),
        revision(2, json!({"lifecycle": "output-ready"}))
    ]);
    let of_call = |list: &Vec<throughline_format::UnifiedItemRevision>| semantics::item_revisions(&parse(&call), list);
    check(
        &list,
        of_call,
        rows! {
            "/1/number" = 3 => "/1/number" "revision-number";
            "/0/itemId" = "i9" => "/0/itemId" "unknown-reference";
            "/0/createdAt" = "2026-01-31T11:00:00.000Z" => "/0/createdAt" "revision-change";
            "/0/change" = {} => "/0/change" "revision-change";
            "/0/change" = {"status": "failed"} => "/0/change/status" "transition";
            "/0/change/parts" = [] => "/0/change/parts" "revision-change";
            "/1/change" = {"lifecycle": "approval-required"} => "/1/change/lifecycle" "transition";
            "/0/change/status" = "completed" => ;
        },
    );
    let running = |list: &Vec<throughline_format::UnifiedItemRevision>| {
        let mut item: throughline_format::UnifiedItem = parse(&message);
        item.status = ItemStatus::InProgress;
        item.base.id = throughline_format::UnifiedId::parse("i4").unwrap();
        semantics::item_revisions(&item, list)
    };
    let list = json!([
        revision(1, json!({"status": "completed"})),
        revision(2, json!({"parts": [{"partId": "n", "kind": "text", "text": "new"}]}))
    ]);
    check(
        &list,
        running,
        rows! {
            "/1/change/status" = "failed" => "/1/change/status" "transition";
            "/1/change/lifecycle" = "executing" => "/1/change/lifecycle" "revision-change";
            "/1/change/parts/0" = {"partId": "n", "kind": "reasoning", "text": "", "form": "full", "state": "disclosed"} => "/1/change/parts/0/kind" "part-kind";
        },
    );
    let empty = json!([revision(1, json!({}))]);
    assert_eq!(found(&running(&parse(&empty))), [("/0/change".to_owned(), "revision-change")]);
}

#[test]
fn conversations_are_whole() {
    let valid = json!({"conversationId": "c1", "defaultBranchId": "b1", "createdAt": TIME, "lastUpdatedAt": LATER, "principalRef": "pr1", "metadata": {"labels": {"a": "b"}}});
    check::<throughline_format::UnifiedConversation>(
        &valid,
        semantics::conversation,
        rows! {
            "/conversationId" = "pending" => "/conversationId" "pending-id";
            "/lastUpdatedAt" = "2026-01-31T11:00:00.000Z" => "/lastUpdatedAt" "operation-times";
            "/principalRef" = "" => "/principalRef" "bound";
            "/metadata/labels/cookie" = "x" => "/metadata/labels/cookie" "secret";
        },
    );
}
