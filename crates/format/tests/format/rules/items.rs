//! Items and parts, each for itself and on a path.

use super::samples::{HASH, items, request};
use super::{check, rows};
use serde_json::{Value, json};
use throughline_format::validate::semantics;
use throughline_format::{UnifiedId, UnifiedItem, UnifiedRequestV2};

fn history(rows: Vec<super::Row>) {
    check::<UnifiedRequestV2>(&request(), semantics::request, rows);
}

#[test]
fn ids_are_one_each_and_references_lead_somewhere() {
    history(rows! {
        "/conversation/items/20/id" = "i3", "/conversation/headItemId" = "i3" => "/conversation/items/20/id" "duplicate-id";
        "/conversation/items/2/parts/0/partId" = "p5" => "/conversation/items/4/output/0/partId" "duplicate-id";
        "/conversation/items/8/parts/0/parts/0/partId" = "p5" => "/conversation/items/8/parts/0/parts/0/partId" "duplicate-id";
        "/generation/prediction/value/parts/0/partId" = "p5" => "/generation/prediction/value/parts/0/partId" "duplicate-id";
        "/tools/1/toolId" = "t1" => "/tools/1/toolId" "duplicate-id";
        "/conversation/items/15/target/itemId" = "nowhere" => "/conversation/items/15/target/itemId" "unknown-reference";
        "/conversation/items/20/parts/0/annotations/0/source/documentItemId" = "nowhere" => "/conversation/items/20/parts/0/annotations/0/source/documentItemId" "unknown-reference";
        "/conversation/items/20/parts/0/annotations/0/source/documentPartId" = "nowhere" => "/conversation/items/20/parts/0/annotations/0/source/documentPartId" "unknown-reference";
        "/conversation/items/20/parts/0/annotations/0/spans/0/partId" = "nowhere" => "/conversation/items/20/parts/0/annotations/0/spans/0/partId" "unknown-reference";
        "/conversation/items/20/parts/0/annotations/0/supports/partId" = "nowhere" => "/conversation/items/20/parts/0/annotations/0/supports/partId" "unknown-reference";
        "/conversation/items/10/approvalId" = "nowhere" => "/conversation/items/10/approvalId" "unknown-reference";
        "/conversation/items/5/callId" = "nowhere" => "/conversation/items/5/callId" "unknown-reference";
        "/conversation/items/20/id" = "pending", "/conversation/headItemId" = null => "/conversation/items/20/id" "pending-id", "/conversation/items/20/id" "pending-id";
        "/conversation/items/20/conversationId" = "pending" => "/conversation/items/20/branchId" "pending-id";
        "/conversation/items/20/conversationId" = "c2" => "/conversation/items/20/conversationId" "other-conversation", "/conversation/items/20/conversationId" "other-conversation";
        "/conversation/conversationId" = null, "/conversation/branchId" = null, "/conversation/items/20/conversationId" = "c2" => "/conversation/items/20/conversationId" "other-conversation";
    });
}

#[test]
fn items_stand_in_order() {
    history(rows! {
        "/conversation/items/20/sequence" = 20 => "/conversation/items/20/sequence" "sequence";
        "/conversation/items/20/sequence" = 22 => "/conversation/items/20/sequence" "sequence";
        "/conversation/items/17/sequence" = 0 => "/conversation/items/17/sequence" "sequence", "/conversation/items/17/sequence" "sequence";
        "/conversation/items/20/parentId" = "i1" => "/conversation/items/20/parentId" "parent";
        "/conversation/items/20/parentId" = null => ;
        "/conversation/items/2/branchId" = "b0" => "/conversation/items/2/branchId" "branch-path", "/conversation/items/3/branchId" "branch-path";
    });
}

#[test]
fn messages_and_reasoning_have_their_form() {
    history(rows! {
        "/conversation/items/20/role" = null => "/conversation/items/20/role" "message-role";
        "/conversation/items/20/placement" = "inline" => "/conversation/items/20/placement" "placement";
        "/conversation/items/2/parts/0" = {"partId": "p4", "kind": "text", "text": "x"} => "/conversation/items/2/parts/0/kind" "part-kind";
        "/conversation/items/20/parts/0" = {"partId": "p10", "kind": "reasoning", "text": "x", "form": "full", "state": "disclosed"} => "/conversation/items/20/parts/0/kind" "part-kind";
        "/conversation/items/8/parts/0" = {"partId": "p6", "kind": "text", "text": "x"} => "/conversation/items/8/parts/0/kind" "part-kind";
        "/conversation/items/2/parts/0/state" = "redacted" => "/conversation/items/2/parts/0/text" "reasoning-state";
        "/conversation/items/2/parts/0/state" = "omitted", "/conversation/items/2/parts/0/text" = "" => ;
        "/conversation/items/20/status" = "in-progress" => "/conversation/items/20/status" "item-status";
        "/conversation/items/20/provenance/synthetic" = "repair" => "/conversation/items/20/provenance/synthetic" "synthetic-origin";
        "/conversation/items/20/provenance/truncated" = false => "/conversation/items/20/provenance/truncated" "always-true";
        "/conversation/items/20/cache" = {"breakpoint": false} => "/conversation/items/20/cache/breakpoint" "always-true";
    });
}

#[test]
fn calls_and_results_belong_together() {
    history(rows! {
        "/conversation/items/4/callId" = "k9" => "/conversation/items/4/callId" "result-without-call";
        "/conversation/items/9/callId" = "k1" => "/conversation/items/9/callId" "second-result";
        "/conversation/items/11/callId" = "k4" => "/conversation/items/11/callId" "result-without-call";
        "/conversation/items/8/callId" = "k4" => "/conversation/items/8/callId" "result-without-call";
        "/conversation/items/12/callId" = "k3" => "/conversation/items/13/callId" "result-without-call";
        "/conversation/items/10/callId" = "k2" => "/conversation/items/11/callId" "result-without-call";
        "/conversation/items/7/kind" = "tool-call" => "/conversation/items/9/kind" "result-kind";
        "/conversation/items/7/toolType" = "function" => "/conversation/items/7/toolType" "call-name";
        "/conversation/items/3/name" = "" => "/conversation/items/3/name" "call-name";
        "/conversation/items/3/rawArguments" = "{torn" => "/conversation/items/3/input" "call-input";
        "/conversation/items/3/lifecycle" = "arguments-streaming" => "/conversation/items/3/lifecycle" "lifecycle-status";
        "/conversation/items/3/caller" = {"kind": "code", "callId": ""} => "/conversation/items/3/caller/callId" "call-id";
        "/conversation/items/6/approvalId" = "" => "/conversation/items/6/approvalId" "call-id", "/conversation/items/6/approvalId" "approval";
        "/conversation/items/4/isError" = false, "/conversation/items/4/error" = {"category": "server", "code": "server.x", "message": "m", "retryable": true} => "/conversation/items/4/isError" "result-error";
        "/conversation/items/10/actions" = [{"x": 1}, 5] => "/conversation/items/10/actions/0" "computer-action", "/conversation/items/10/actions/1" "computer-action";
        "/conversation/items/6/approvalId" = "a9" => "/conversation/items/6/approvalId" "approval";
        "/conversation/items/17/openCallIds" = ["k1"] => "/conversation/items/17/openCallIds/0" "open-calls";
        "/conversation/items/17/openCallIds" = ["k9"] => "/conversation/items/17/openCallIds/0" "open-calls";
    });
}

#[test]
fn call_ids_may_be_used_again_once_they_are_answered() {
    let mut again = request();
    let (mut call, mut second) = (items()[3].clone(), items()[3].clone());
    for (item, number) in [(&mut call, 22), (&mut second, 23)] {
        item["id"] = json!(format!("i{number}"));
        item["sequence"] = json!(number);
        item["parentId"] = json!(format!("i{}", number - 1));
    }
    super::set(&mut again, "/conversation/items/-", call);
    super::set(&mut again, "/conversation/headItemId", json!("i22"));
    check::<UnifiedRequestV2>(
        &again,
        semantics::request,
        rows! {
            "/conversation/headItemId" = "i1" => "/conversation/headItemId" "branch-head";
        },
    );
    super::set(&mut again, "/conversation/items/-", second);
    super::set(&mut again, "/conversation/headItemId", json!("i23"));
    let twice = semantics::request(&crate::support::parse(&again));
    assert_eq!(super::found(&twice), [("/conversation/items/22/callId".to_owned(), "call-open")]);
}

#[test]
fn summaries_cover_a_prefix() {
    throughline_format::clause!("ITEM-04");
    history(rows! {
        "/conversation/items/16/covers/fromItemId" = "i2" => "/conversation/items/16/covers/fromItemId" "compaction-range";
        "/conversation/items/16/covers/count" = 3 => "/conversation/items/16/covers/count" "compaction-range";
        "/conversation/items/16/covers/toItemId" = "i20" => "/conversation/items/16/covers/toItemId" "compaction-range";
        "/conversation/items/16/covers/count" = 0 => "/conversation/items/16/covers/count" "compaction-range", "/conversation/items/16/covers/count" "compaction-range";
        "/conversation/items/16/auditHash" = HASH => "/conversation/items/16/auditHash" "audit-hash";
        "/conversation/items/1/parts/0/text" = "changed afterwards" => "/conversation/items/16/auditHash" "audit-hash";
        "/conversation/items/2/parts/0/text" = "changed afterwards, but not covered" => ;
    });
}

#[test]
fn data_and_ranges_of_parts() {
    throughline_format::clause!("PART-02");
    history(rows! {
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "image", "source": {"kind": "inline", "mediaType": "image/png", "data": "a===b", "encoding": "base64"}} => "/conversation/items/4/output/0/source/data" "inline-data";
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "inline", "mediaType": "a/b", "data": "aGVsbG8", "encoding": "base64"}} => ;
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "inline", "mediaType": "a/b", "data": "aGVsbG8", "encoding": "bytes"}} => "/conversation/items/4/output/0/source/data" "inline-data";
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "inline", "mediaType": "text", "data": "", "encoding": "utf8"}} => "/conversation/items/4/output/0/source/mediaType" "media-type";
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "inline", "mediaType": "text/plain; charset=utf-8", "data": "x", "encoding": "utf8"}} => ;
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "url", "url": ""}} => "/conversation/items/4/output/0/source/url" "url";
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "url", "url": "https://me:pw@example.org/"}} => "/conversation/items/4/output/0/source/url" "url";
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "artifact", "artifactId": "art1", "sha256": HASH}, "media": {"sha256": (super::samples::HELLO)}} => "/conversation/items/4/output/0/media/sha256" "media-facts";
        "/conversation/items/4/output/0" = {"partId": "p5", "kind": "file", "source": {"kind": "provider-resource", "resource": {"resourceId": "r9", "resourceType": "file", "ownerFingerprint": HASH}}} => ;
        "/conversation/items/11/currentUrl" = "https://me:pw@example.org/" => "/conversation/items/11/currentUrl" "url";
        "/conversation/items/14/media/sha256" = (super::samples::HELLO) => "/conversation/items/14/media/sha256" "media-facts";
        "/conversation/items/14/media" = {"pages": [{"from": 0, "to": 1}, {"from": 3, "to": 2}]} => "/conversation/items/14/media/pages/0/from" "range", "/conversation/items/14/media/pages/1/to" "range";
        "/conversation/items/14/media" = {"range": {"start": 3, "end": 2, "unit": "none"}} => "/conversation/items/14/media/range/end" "range";
        "/conversation/items/14/media" = {"time": {"startSeconds": 3, "endSeconds": 2}} => "/conversation/items/14/media/time/endSeconds" "range";
        "/conversation/items/14/media" = {"time": {"startSeconds": (-1)}} => "/conversation/items/14/media/time/startSeconds" "number";
        "/conversation/items/14/media" = {"fps": 0, "durationSeconds": (-0.5)} => "/conversation/items/14/media/fps" "number", "/conversation/items/14/media/durationSeconds" "number";
        "/conversation/items/14/media" = {"transcript": {"text": "", "words": [{"text": "", "startSeconds": 2, "endSeconds": 1}]}} => "/conversation/items/14/media/transcript/words/0/endSeconds" "range";
        "/conversation/items/14/media" = {"size": 9_007_199_254_740_992_u64} => "/conversation/items/14/media/size" "number";
        "/conversation/items/20/parts/0/annotations/0/spans/1/end" = 1 => "/conversation/items/20/parts/0/annotations/0/spans/1/end" "range";
        "/conversation/items/20/parts/0/annotations/0/confidence" = 1.5 => "/conversation/items/20/parts/0/annotations/0/confidence" "number";
    });
}

#[test]
fn size_and_digest_are_those_of_the_data() {
    let changed = |at: &'static str, value: Value| {
        let mut record = items()[1].clone();
        super::set(&mut record, at, value);
        super::found(&semantics::item(
            &crate::support::parse(&record),
            throughline_format::validate::Pending::Refused,
        ))
    };
    assert_eq!(changed("/parts/1/media/size", json!(5)), []);
    assert_eq!(
        changed("/parts/1/media/size", json!(4)),
        [("/parts/1/media/size".to_owned(), "media-facts")]
    );
    assert_eq!(
        changed("/parts/1/media/sha256", json!(HASH)),
        [("/parts/1/media/sha256".to_owned(), "media-facts")]
    );
}

#[test]
fn references_to_private_state_and_annotations_have_a_schema() {
    history(rows! {
        "/conversation/items/20/providerData" = [{"profile": {"family": "f"}, "scope": "owner-private", "schema": "not a name", "resourceId": "x"}] => "/conversation/items/20/providerData/0/schema" "schema-name";
        "/conversation/items/20/providerData" = [{"profile": {"family": "f"}, "scope": "owner-private", "schema": "message/phase@1", "resourceId": "x"}] => "/conversation/items/20/providerData/0/scope" "annotation-scope";
        "/conversation/items/20/providerData" = [{"profile": {"family": "f"}, "scope": "owner-private", "schema": "g/unmapped@1", "resourceId": "x"}] => "/conversation/items/20/providerData/0/schema" "annotation-scope";
        "/conversation/items/20/providerData" = [{"profile": {"family": "f"}, "scope": "portable-annotation", "schema": "of-a-later/version@2", "resourceId": "x"}] => ;
        "/conversation/items/2/parts/0/privateState" = {"issuer": "provider", "ref": {"profile": {"family": "f"}, "scope": "portable-annotation", "schema": "x/y@1", "resourceId": "x"}} => "/conversation/items/2/parts/0/privateState/ref/scope" "annotation-scope";
        "/conversation/items/3/privateLinkage" = {"profile": {"family": "f"}, "scope": "portable-annotation", "schema": "x/y@1", "resourceId": "x"} => "/conversation/items/3/privateLinkage/scope" "annotation-scope";
    });
}

#[test]
fn errors_in_history_are_clean() {
    let long = "x".repeat(1_025);
    history(rows! {
        "/conversation/items/18/error/code" = "server.tokens" => "/conversation/items/18/error/code" "error-code";
        "/conversation/items/18/error/code" = "rate-limit" => "/conversation/items/18/error/code" "error-code";
        "/conversation/items/18/error/message" = long => "/conversation/items/18/error/message" "error-text";
        "/conversation/items/18/error/message" = "two\nlines" => "/conversation/items/18/error/message" "error-text";
        "/conversation/items/18/error/httpStatus" = 42 => "/conversation/items/18/error/httpStatus" "number";
        "/conversation/items/18/error/fieldPath" = "messages/0" => "/conversation/items/18/error/fieldPath" "pointer";
    });
}

#[test]
fn parts_nest_to_a_bound() {
    let nested = |levels: usize| {
        let mut part = json!({"partId": "d0", "kind": "text", "text": ""});
        for level in 1..levels {
            part = json!({"partId": format!("d{level}"), "kind": "grounding-source", "source": {"sourceId": "s", "type": "web"}, "parts": [part]});
        }
        let mut record = items()[1].clone();
        record["parts"] = json!([part]);
        let mut item: UnifiedItem = crate::support::parse(&record);
        item.base.id = UnifiedId::parse("deep").unwrap();
        semantics::item(&item, throughline_format::validate::Pending::Refused)
    };
    assert_eq!(nested(16), []);
    let found = super::found(&nested(17));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, "part-depth");
}

#[test]
fn a_page_of_a_journal_is_a_piece_of_a_path() {
    let page = |list: &Vec<UnifiedItem>| semantics::items(list, throughline_format::validate::Pending::Refused);
    let piece = json!(items()[3..9].to_vec());
    check(
        &piece,
        page,
        rows! {
            "/1/id" = "i4" => "/1/id" "duplicate-id", "/2/parentId" "parent";
            "/1/sequence" = 4 => "/1/sequence" "sequence";
            "/1/parentId" = "i9" => "/1/parentId" "parent";
            "/1/conversationId" = "c2" => "/1/conversationId" "other-conversation";
            "/1/branchId" = "b0" => "/2/branchId" "branch-path";
            "/1/callId" = "answers-an-earlier-call" => ;
            "/4/callId" = "k1" => ;
            "/1/output/0/partId" = "p6" => "/5/parts/0/partId" "duplicate-id";
        },
    );
}
