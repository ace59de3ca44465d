//! Results: status, items, usage, losses, errors.

use super::samples::{counter, result};
use super::{check, found, rows, set};
use crate::support::parse;
use serde_json::json;
use throughline_format::status::ResponseState;
use throughline_format::validate::{Pending, semantics};
use throughline_format::{UnifiedFinishReason, UnifiedResultV2};

fn table(rows: Vec<super::Row>) {
    check::<UnifiedResultV2>(&result(), |r| semantics::result(r, Pending::Refused), rows);
}

#[test]
fn state_and_finish_reason_belong_together() {
    for reason in UnifiedFinishReason::ALL {
        for state in ResponseState::ALL {
            let mut record = result();
            set(&mut record, "/output", json!([]));
            set(&mut record, "/status", json!({"state": state, "finishReason": reason}));
            let wrong = semantics::result(&parse(&record), Pending::Refused);
            assert_eq!(wrong.is_empty(), reason.state() == *state, "{reason} {state}");
        }
    }
    table(rows! {
        "/status" = {"state": "completed"} => "/status/finishReason" "finish-reason";
        "/status" = {"state": "in-progress"} => ;
        "/status/finishReason" = "stop" => "/status/finishReason" "finish-reason";
        "/status/finishReason" = "stop", "/output/1/execution" = "ccr" => ;
        "/status/finishReason" = "stop", "/output/1/lifecycle" = "cancelled" => ;
        "/status/finishReason" = "stop", "/output/1" = null => ;
        "/alternatives/0/status/finishReason" = "length" => "/alternatives/0/status/finishReason" "finish-reason";
    });
}

#[test]
fn an_unanswered_approval_waits_for_somebody() {
    let mut asked = result();
    asked["output"][1] = json!({"id": "o2", "conversationId": "c1", "branchId": "b1", "sequence": 2, "createdAt": "2026-01-31T12:00:00.000Z", "visibility": "client", "status": "completed",
        "provenance": {"origin": "provider", "attribution": {}}, "kind": "approval-request", "approvalId": "a", "subject": "mcp"});
    asked["status"] = json!({"state": "requires-action", "finishReason": "requires-action"});
    check::<UnifiedResultV2>(
        &asked,
        |r| semantics::result(r, Pending::Refused),
        rows! {
            "/status" = {"state": "completed", "finishReason": "stop"} => "/status/finishReason" "finish-reason";
        },
    );
}

#[test]
fn items_of_an_answer() {
    table(rows! {
        "/output/0/status" = "in-progress" => "/output/0/status" "item-status";
        "/output/0/status" = "in-progress", "/status" = {"state": "in-progress"} => ;
        "/output/1/id" = "o1" => "/output/1/id" "duplicate-id";
        "/alternatives/0/output/0/id" = "o1" => "/alternatives/0/output/0/id" "duplicate-id";
        "/alternatives/0/output/0/parts/0/partId" = "p1" => "/alternatives/0/output/0/parts/0/partId" "duplicate-id";
        "/output/1/sequence" = 1 => "/output/1/sequence" "sequence";
        "/output/1/parentId" = "x" => "/output/1/parentId" "parent";
        "/output/0/conversationId" = "c2" => "/output/0/conversationId" "other-conversation";
        "/output/0/conversationId" = "pending", "/output/0/branchId" = "pending" => "/output/0/conversationId" "pending-id";
        "/responseId" = "pending" => "/responseId" "pending-id";
        "/alternatives/0/index" = 0 => "/alternatives/0/index" "alternatives";
        "/output/0/parts/0/annotations" = [{"kind": "citation", "source": {"sourceId": "s", "type": "web", "documentItemId": "in-the-request"}, "supports": {"partId": "nowhere", "relation": "supports"}}]
            => "/output/0/parts/0/annotations/0/supports/partId" "unknown-reference";
        "/output/0/parts/0/annotations" = [{"kind": "speech", "span": {"of": "answer", "start": 0, "end": 1, "unit": "utf16", "partId": "nowhere"}}]
            => "/output/0/parts/0/annotations/0/span/partId" "unknown-reference";
        "/state/checkpoints" = ["cp1", "cp1"] => "/state/checkpoints/1" "duplicate-id";
    });
    // A result may point into history that it does not hold.
    let mut later = result();
    set(&mut later, "/output/1", json!(null));
    set(
        &mut later,
        "/output/-",
        json!({"id": "o2", "conversationId": "c1", "branchId": "b1", "sequence": 2, "createdAt": "2026-01-31T12:00:00.000Z", "visibility": "model", "status": "completed",
        "provenance": {"origin": "engine", "attribution": {}}, "kind": "tool-result", "callId": "earlier", "output": [], "execution": "ccr"}),
    );
    set(&mut later, "/status/finishReason", json!("stop"));
    assert_eq!(found(&semantics::result(&parse(&later), Pending::Refused)), []);
}

#[test]
fn stand_alone_commands_leave_places_pending() {
    let mut record = result();
    for index in 0..2 {
        record["output"][index]["conversationId"] = json!("pending");
        record["output"][index]["branchId"] = json!("pending");
    }
    assert_eq!(found(&semantics::result(&parse(&record), Pending::Allowed)), []);
    assert_eq!(semantics::result(&parse(&record), Pending::Refused).len(), 2);
}

#[test]
fn usage_adds_up() {
    let session = |value: f64| json!({"value": value, "scope": "session", "source": "reported"});
    table(rows! {
        "/usage/inputTotal" = (counter(31.0)) => "/usage/inputTotal" "usage-sum", "/usage/total" "usage-sum";
        "/usage/cacheWrite" = null, "/usage/inputTotal" = (counter(30.0)) => ;
        "/usage/cacheRead" = (session(99.0)) => ;
        "/usage/reasoning" = (counter(21.0)) => "/usage/reasoning" "usage-sum";
        "/usage/reasoning" = (counter(21.0)), "/usage/outputTotal" = (counter(20.0)) => ;
        "/usage/reasoning" = (session(21.0)) => ;
        "/usage/total/value" = 51.0 => "/usage/total" "usage-sum";
        "/usage/total" = (counter(51.0)) => ;
        "/usage/toolPrompt" = (counter(5.0)) => ;
        "/usage/toolPrompt" = (counter(5.0)), "/usage/total/value" = 55.0 => ;
        "/usage/toolPrompt" = (counter(5.0)), "/usage/total/value" = 54.0 => "/usage/total" "usage-sum";
        "/usage/reasoning/value" = (-1.0) => "/usage/reasoning/value" "number";
        "/usage/cacheWriteByTtl" = {"5m": (counter(1.0))} => "/usage/cacheWriteByTtl/5m" "bound";
        "/usage/cacheWriteByTtl/300/value" = 6.0 => "/usage/cacheWriteByTtl" "usage-sum";
        "/usage/cost/0/value" = (-1.0) => "/usage/cost/0/value" "number";
        "/usage/cost/0/kind" = "credits-left", "/usage/cost/0/value" = (-1.0) => ;
        "/usage/cost/0/unit" = "" => "/usage/cost/0/unit" "bound";
        "/usage/others/0/total/scope" = "request" => "/usage/others/0/total" "usage-scope";
        "/usage/others/0/others" = [] => "/usage/others/0/others" "usage-scope";
    });
}

#[test]
fn losses_and_errors() {
    table(rows! {
        "/loss/disposition" = "lossless" => "/loss/disposition" "loss-disposition";
        "/loss/entries" = [] => "/loss/disposition" "loss-disposition";
        "/loss/entries/0/severity" = "error" => "/loss/disposition" "loss-disposition";
        "/loss/entries/0/severity" = "info" => ;
        "/loss/entries/0/path" = "generation" => "/loss/entries/0/path" "pointer";
        "/loss/entries/0/feature" = "" => "/loss/entries/0/feature" "bound";
        "/error" = {"category": "server", "code": "auth.x", "message": "m", "retryable": false} => "/error/code" "error-code";
    });
    let key = crate::secrets::made_up("sk-ant-");
    for place in [
        "/status/originalReason",
        "/provenance/providerRequestId",
        "/model/model",
        "/loss/entries/0/reason",
    ] {
        let mut record = result();
        set(&mut record, place, json!(key));
        assert_eq!(
            found(&semantics::result(&parse(&record), Pending::Refused)),
            [(place.to_owned(), "secret")]
        );
    }
}

#[test]
fn numbers_that_json_cannot_say_are_found_in_memory() {
    let mut record: UnifiedResultV2 = parse(&result());
    let usage = record.usage.as_mut().unwrap();
    usage.reasoning.as_mut().unwrap().value = f64::NAN;
    usage.others.as_mut().unwrap()[0].total.as_mut().unwrap().value = f64::INFINITY;
    let wrong = found(&semantics::result(&record, Pending::Refused));
    assert_eq!(
        wrong,
        [
            ("/usage/others/0/total/value".to_owned(), "number"),
            ("/usage/reasoning/value".to_owned(), "number")
        ]
    );
}
