//! Conversation, tools, cache, state, labels and transport of a request.

use super::samples::{HASH, items, request};
use super::{check, found, rows, set};
use crate::support::parse;
use serde_json::json;
use throughline_format::UnifiedRequestV2;
use throughline_format::validate::semantics;

fn table(rows: Vec<super::Row>) {
    check::<UnifiedRequestV2>(&request(), semantics::request, rows);
}

#[test]
fn history_says_how_much_of_it_is_there() {
    throughline_format::clause!("CONV-01", "CONV-02");
    table(rows! {
        "/conversation/missing" = [] => "/conversation/missing" "missing";
        "/conversation/completeness" = "partial" => "/conversation/missing" "missing";
        "/conversation/completeness" = "partial", "/conversation/missing" = [] => "/conversation/missing" "missing";
        "/conversation/completeness" = "partial", "/conversation/missing" = [{"reason": "not-sent"}] => ;
        "/conversation/completeness" = "partial", "/conversation/missing" = [{"reason": "expired", "afterItemId": "nowhere"}] => "/conversation/missing/0/afterItemId" "unknown-reference";
        "/conversation/completeness" = "partial", "/conversation/missing" = [{"reason": "expired", "afterItemId": "i3", "beforeItemId": "i2"}] => "/conversation/missing/0/beforeItemId" "range";
        "/conversation/completeness" = "partial", "/conversation/missing" = [{"reason": "expired", "count": 0}] => "/conversation/missing/0/count" "missing";
        "/conversation/completeness" = "reference-only" => ;
        "/conversation/completeness" = "reference-only", "/conversation/continuations" = null => "/conversation/continuations" "completeness";
        "/conversation/headItemId" = "i1" => "/conversation/headItemId" "branch-head";
        "/conversation/headItemId" = "pending" => "/conversation/headItemId" "branch-head", "/conversation/headItemId" "pending-id";
        "/conversation/conversationId" = null => "/conversation/branchId" "branch-head";
        "/conversation/branchId" = "pending" => "/conversation/branchId" "pending-id";
        "/conversation/continuations/0/resourceType" = "container" => "/conversation/continuations/0/resourceType" "continuation";
        "/conversation/continuations/-" = {"resourceId": "r1", "resourceType": "response", "ownerFingerprint": HASH} => "/conversation/continuations/1/resourceId" "duplicate-id";
        "/state/resources/0/resourceType" = "conversation" => "/state/resources/0/resourceType" "continuation";
        "/state/resources/-" = {"resourceId": "r3", "resourceType": "container", "ownerFingerprint": HASH} => "/state/resources/1/resourceId" "duplicate-id";
    });
}

#[test]
fn gaps_are_declared() {
    let mut gap = request();
    set(&mut gap, "/conversation/items/17", json!(null));
    set(&mut gap, "/conversation/completeness", json!("partial"));
    set(
        &mut gap,
        "/conversation/missing",
        json!([{"reason": "expired", "afterItemId": "i17", "beforeItemId": "i19"}]),
    );
    check::<UnifiedRequestV2>(
        &gap,
        semantics::request,
        rows! {
            "/conversation/missing/0" = {"reason": "expired"} => ;
            "/conversation/missing/0" = {"reason": "expired", "afterItemId": "i17"} => ;
            "/conversation/missing/0" = {"reason": "expired", "afterItemId": "i2"} => "/conversation/items/17/sequence" "missing";
            "/conversation/items/18/sequence" = 19 => "/conversation/items/18/sequence" "sequence", "/conversation/items/19/sequence" "missing";
        },
    );
}

#[test]
fn places_may_be_pending_in_a_request() {
    let mut pending = request();
    for index in 0..items().len() {
        set(
            &mut pending,
            &format!("/conversation/items/{index}/conversationId"),
            json!("pending"),
        );
        set(&mut pending, &format!("/conversation/items/{index}/branchId"), json!("pending"));
        if index > 0 {
            set(&mut pending, &format!("/conversation/items/{index}/parentId"), json!(null));
        }
    }
    assert_eq!(found(&semantics::request(&parse(&pending))), []);
}

#[test]
fn the_prefill_is_the_open_end_of_the_history() {
    let mut prefilled = request();
    set(
        &mut prefilled,
        "/generation/prefill",
        json!({"value": {"itemId": "i21"}, "requirement": "preferred"}),
    );
    set(&mut prefilled, "/conversation/items/20/status", json!("in-progress"));
    check::<UnifiedRequestV2>(
        &prefilled,
        semantics::request,
        rows! {
            "/conversation/items/20/status" = "completed" => "/generation/prefill/value/itemId" "prefill";
            "/conversation/items/20/role" = "user" => "/generation/prefill/value/itemId" "prefill";
            "/generation/prefill/value/itemId" = "i20" => "/conversation/items/20/status" "item-status", "/generation/prefill/value/itemId" "prefill";
        },
    );
}

#[test]
fn wishes_lie_in_their_ranges() {
    table(rows! {
        "/generation/temperature/value" = (-0.1) => "/generation/temperature/value" "number";
        "/generation/topP/value" = 1.1 => "/generation/topP/value" "number";
        "/generation/minP" = {"value": (-1), "requirement": "preferred"} => "/generation/minP/value" "number";
        "/generation/maxOutputTokens/value" = 9_007_199_254_740_993_u64 => "/generation/maxOutputTokens/value" "number";
        "/generation/maxOutputTokens/value" = 9_007_199_254_740_991_u64 => ;
        "/generation/media" = {"video": {"value": {"durationSeconds": (-1)}, "requirement": "preferred"}} => "/generation/media/video/value/durationSeconds" "number";
        "/model/requested" = "" => "/model/requested" "bound";
    });
}

#[test]
fn tools_are_complete_and_told_apart() {
    table(rows! {
        "/tools/0/name" = null => "/tools/0/name" "tool-name", "/toolChoice/tools/0" "unknown-reference";
        "/tools/-" = {"toolId": "t9", "kind": "custom", "execution": "client", "portability": "portable", "name": "run"} => "/tools/3/name" "tool-name";
        "/tools/-" = {"toolId": "t9", "kind": "custom", "execution": "client", "portability": "portable", "name": "run", "namespace": "n"} => ;
        "/tools/0/inputSchema" = "string" => "/tools/0/inputSchema" "tool-schema";
        "/tools/0/grammar" = {"syntax": "lark", "definition": "x"} => "/tools/0/grammar" "tool-schema";
        "/tools/0/cache/breakpoint" = false => "/tools/0/cache/breakpoint" "always-true";
        "/tools/0/config" = {"maxUses": 1} => "/tools/0/config/maxUses" "tool-config";
        "/tools/2/config" = {"serverLabel": "x", "zoom": true} => "/tools/2/config/serverLabel" "tool-config", "/tools/2/config/zoom" "tool-config";
        "/tools/2/config/userLocation" = {"latitude": 91.0} => "/tools/2/config/userLocation/latitude" "number";
        "/tools/2/kind" = "acme:search" => ;
        "/tools/1/config/serverUrl" = "https://mcp.example.org/x?key=1" => "/tools/1/config/serverUrl" "tool-config";
        "/tools/1/config/serverUrl" = "https://me:pw@mcp.example.org/x" => "/tools/1/config/serverUrl" "tool-config";
        "/tools/1/portability" = "equivalent" => "/tools/1/portability" "tool-resources";
        "/output/format/value/schema" = true => "/output/format/value/schema" "tool-schema";
        "/output/format/value" = {"kind": "media", "mediaType": "png"} => "/output/format/value/mediaType" "media-type";
    });
}

#[test]
fn choices_have_the_members_of_their_kind() {
    table(rows! {
        "/toolChoice/kind" = "auto" => "/toolChoice/mode" "tool-choice", "/toolChoice/tools" "tool-choice";
        "/toolChoice/kind" = "named" => "/toolChoice/mode" "tool-choice", "/toolChoice/tools" "tool-choice", "/toolChoice/tool" "tool-choice";
        "/toolChoice/mode" = null => "/toolChoice/mode" "tool-choice";
        "/toolChoice/validated" = false => "/toolChoice/validated" "always-true";
        "/toolChoice/tools/0/name" = "walk" => "/toolChoice/tools/0" "unknown-reference";
        "/toolChoice/tools/1/serverLabel" = "other" => "/toolChoice/tools/1" "unknown-reference";
        "/toolChoice/tools/1" = {"toolType": "web-search"} => ;
        "/toolChoice/tools/1" = {"toolType": "web-fetch"} => "/toolChoice/tools/1" "unknown-reference";
        "/toolChoice" = {"requirement": "required", "kind": "named", "tool": {"toolType": "function", "name": "run"}, "validated": true} => "/toolChoice/validated" "tool-choice";
    });
}

#[test]
fn cache_marks_have_a_place_and_one_life() {
    table(rows! {
        "/cache/breakpoints/0/itemId" = "nowhere" => "/cache/breakpoints/0/itemId" "unknown-reference";
        "/cache/breakpoints/1/partId" = "p4" => "/cache/breakpoints/1/partId" "unknown-reference";
        "/cache/breakpoints/0/ttl" = 300 => ;
        "/cache/breakpoints/0/ttl" = "1h" => "/cache/breakpoints/0/ttl" "cache-ttl";
        "/cache/breakpoints/0/ttl" = null => "/cache/breakpoints/0/ttl" "cache-ttl";
        "/cache/breakpoints/-" = {"itemId": "i2", "partId": "p1", "ttl": 10} => "/cache/breakpoints/2/ttl" "cache-ttl";
        "/cache/breakpoints/1/ttl" = 0 => "/cache/breakpoints/1/ttl" "number";
        "/cache/affinityKey" = "cachedContents/abc" => "/cache/affinityKey" "affinity-key";
        "/cache/affinityKey" = "projects/p/locations/l/cachedContents/abc" => "/cache/affinityKey" "affinity-key";
        "/cache/affinityKey" = "resp_68" => "/cache/affinityKey" "affinity-key";
        "/cache/affinityKey" = "" => "/cache/affinityKey" "bound";
    });
}

#[test]
fn labels_keep_their_bounds() {
    let (key, value) = ("k".repeat(65), "v".repeat(513));
    let many: serde_json::Map<_, _> = (0..65).map(|i| (format!("k{i}"), json!("v"))).collect();
    let mut long_key = request();
    set(&mut long_key, "/metadata/labels", json!({}));
    long_key["metadata"]["labels"][&key] = json!("v");
    let wrong = semantics::request(&parse(&long_key));
    assert_eq!(found(&wrong), [(format!("/metadata/labels/{key}"), "metadata")]);
    let user = "u".repeat(1_025);
    table(rows! {
        "/metadata/labels/team" = value => "/metadata/labels/team" "metadata";
        "/metadata/labels" = many => "/metadata/labels" "metadata";
        "/metadata/endUserRef" = user => "/metadata/endUserRef" "metadata";
        "/metadata/labels/Authorization" = "x" => "/metadata/labels/Authorization" "secret";
    });
}

#[test]
fn transport_holds_safe_fields_only() {
    throughline_format::clause!("TRAN-01");
    table(rows! {
        "/source/clientFamily" = "claude-cli/2.1 (external, cli)" => "/source/clientFamily" "transport-form";
        "/source/transport/clientFamily" = "two words" => "/source/transport/clientFamily" "transport-form";
        "/source/transport/method" = "post" => "/source/transport/method" "transport-form";
        "/source/transport/pathTemplate" = "/v1/x?key=1" => "/source/transport/pathTemplate" "transport-form";
        "/source/transport/pathTemplate" = "https://h/v1" => "/source/transport/pathTemplate" "transport-form";
        "/source/transport/requestId" = "a\nb" => "/source/transport/requestId" "transport-form";
        "/source/transport/contentType" = "json" => "/source/transport/contentType" "media-type";
        "/source/transport/betas/0" = "a, b" => "/source/transport/betas/0" "transport-form";
    });
    // A member that is no safe field is refused when the record is decoded.
    for member in ["authorization", "cookie", "headers", "apiKey", "userAgent"] {
        let mut record = request();
        record["source"]["transport"][member] = json!("x");
        let refused = throughline_format::json::decode_str::<UnifiedRequestV2>(&record.to_string()).unwrap_err();
        assert_eq!(
            (refused.code.as_str(), refused.pointer.as_str()),
            ("invalid-request.unknown-field", format!("/source/transport/{member}").as_str())
        );
    }
}

#[test]
fn no_text_beside_the_content_holds_a_credential() {
    throughline_format::clause!("TRAN-01");
    let key = crate::secrets::made_up("sk-");
    let token = format!("Bearer {}", crate::secrets::made_up(""));
    let places = [
        "/source/transport/requestId",
        "/source/transport/traceId",
        "/source/transport/idempotencyKey",
        "/source/transport/action",
        "/source/transport/betas/0",
        "/source/clientFamily",
        "/metadata/labels/team",
        "/metadata/endUserRef",
        "/cache/affinityKey",
        "/model/requested",
        "/conversation/items/18/error/message",
        "/conversation/items/18/error/providerCode",
        "/conversation/items/19/to/model",
        "/conversation/items/20/provenance/attribution/model",
    ];
    for place in places {
        for secret in [&key, &token] {
            let mut record = request();
            set(&mut record, place, json!(secret));
            let wrong = found(&semantics::request(&parse(&record)));
            assert!(wrong.contains(&(place.to_owned(), "secret")), "{place}: {wrong:?}");
        }
    }
    // What is said is content, and stays.
    for place in [
        "/conversation/items/20/parts/0/text",
        "/conversation/items/4/output/0/text",
        "/conversation/items/3/rawArguments",
    ] {
        let mut record = request();
        set(&mut record, place, json!(key));
        let wrong = found(&semantics::request(&parse(&record)));
        assert!(wrong.iter().all(|(_, rule)| *rule != "secret"), "{place}: {wrong:?}");
    }
}
