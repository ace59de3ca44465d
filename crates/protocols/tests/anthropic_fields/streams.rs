//! Streams: what captured ones show beyond the types.

use super::*;
use crate::support::{fold_stream, result_of, sse};
use throughline_protocols::offline::OfflineFold;

fn stream(events: &[Value]) -> String {
    let frame = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(frame).collect()
}

/// A stream of these events between the begin and the end of a message.
fn around(events: &[Value]) -> String {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": [], "stop_reason": null, "usage": {"input_tokens": 5, "output_tokens": 1}}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}});
    let mut all = vec![start];
    all.extend(events.iter().cloned());
    all.extend([end, json!({"type": "message_stop"})]);
    stream(&all)
}

fn block(index: u64, block: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    events.extend(
        deltas
            .iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn fold(text: &str) -> (OfflineFold, Value) {
    let fold = fold_stream(&CODEC, text.as_bytes(), usize::MAX);
    assert_eq!(fold_stream(&CODEC, text.as_bytes(), 3).events, fold.events, "cuts show");
    let result = serde_json::to_value(result_of(&fold)).unwrap();
    (fold, result)
}

/// One block of a stream becomes an item of these values.
fn check(first: Value, deltas: &[Value], expected: &[(&str, Value)]) {
    let (_, result) = fold(&around(&block(0, first.clone(), deltas)));
    assert_record(&result["output"][0], expected, &first);
}

#[test]
fn every_delta() {
    check(
        json!({"type": "text", "text": "", "citations": []}),
        &[
            json!({"type": "text_delta", "text": "a"}),
            json!({"type": "text_delta", "text": "b"}),
        ],
        &[("/parts/0/text", json!("ab")), ("/parts/0/annotations", Value::Null)],
    );
    let cited = json!({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "q", "document_index": 0, "start_char_index": 1, "end_char_index": 2}});
    check(
        json!({"type": "text", "text": ""}),
        &[json!({"type": "text_delta", "text": "a"}), cited],
        &[("/parts/0/annotations/0/quotedText", json!("q"))],
    );
    let thinking = [
        json!({"type": "thinking_delta", "thinking": "hm", "estimated_tokens": 3}),
        json!({"type": "signature_delta", "signature": "old"}),
        json!({"type": "signature_delta", "signature": "new"}),
    ];
    check(
        json!({"type": "thinking", "thinking": ""}),
        &thinking,
        &[("/parts/0/text", json!("hm")), ("/parts/0/state", json!("disclosed"))],
    );
    let pieces = [
        json!({"type": "input_json_delta", "partial_json": ""}),
        json!({"type": "input_json_delta", "partial_json": "{\"code\": "}),
        json!({"type": "input_json_delta", "partial_json": "\"1\"}"}),
    ];
    check(
        json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
        &pieces,
        &[("/rawArguments", json!("{\"code\": \"1\"}"))],
    );
    check(
        json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {}}),
        &pieces,
        &[("/input", json!({"code": "1"}))],
    );
    check(
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}),
        &pieces,
        &[("/code", json!("1"))],
    );
    check(
        json!({"type": "tool_use", "id": "toolu_1", "name": "zoom", "input": {}, "toolset_name": "computer"}),
        &pieces,
        &[("/actions/0", json!({"action": "zoom", "code": "1"}))],
    );
    check(
        json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
        &[],
        &[("/rawArguments", json!("{}"))],
    );
    // Input that came whole counts when no pieces follow.
    check(
        json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}),
        &[],
        &[("/input", json!({"a": 1}))],
    );
    let compaction = json!({"type": "compaction_delta", "content": "so far", "encrypted_content": "x"});
    check(
        json!({"type": "compaction", "content": null}),
        &[compaction],
        &[("/kind", json!("compaction-summary")), ("/parts/0/text", json!("so far"))],
    );
}

#[test]
fn arguments_that_were_cut_stay_text() {
    for first in [
        json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
        json!({"type": "tool_use", "id": "toolu_1", "name": "zoom", "input": {}, "toolset_name": "computer"}),
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}),
    ] {
        check(
            first,
            &[json!({"type": "input_json_delta", "partial_json": "{\"code\": \"1"})],
            &[
                ("/status", json!("incomplete")),
                ("/rawArguments", json!("{\"code\": \"1")),
                ("/input", Value::Null),
            ],
        );
    }
}

#[test]
fn a_message_may_begin_with_all_of_its_content() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}});
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [call], "stop_reason": "tool_use", "usage": {"input_tokens": 0, "output_tokens": 0}}});
    let (_, result) = fold(&stream(&[start, json!({"type": "message_stop"})]));
    assert_record(
        &result,
        &[("/status/finishReason", json!("tool-calls")), ("/output/0/input", json!({"a": 1}))],
        &call,
    );
}

#[test]
fn usage_of_a_stream_replaces_by_member() {
    let more = json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0}});
    let (_, result) = fold(&around(&[more]));
    assert_record(
        &result["usage"],
        &[
            ("/inputUncached/value", json!(7)),
            ("/outputTotal/value", json!(9)),
            ("/cacheRead/value", json!(2)),
            ("/total/value", json!(18)),
        ],
        &Value::Null,
    );
}

#[test]
fn members_at_the_end_of_a_message() {
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_sequence": null, "stop_details": {"type": "refusal", "category": "bio"}, "container": {"id": "container_1", "expires_at": "2026-04-24T11:19:38Z"}},
        "usage": {"output_tokens": 3}, "context_management": {"applied_edits": []}});
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let (folded, result) = fold(&stream(&[start, end.clone(), json!({"type": "message_stop"})]));
    assert_record(
        &result,
        &[
            ("/status/finishReason", json!("refusal")),
            ("/status/safety/category", json!("bio")),
            ("/state/resources/0/resourceType", json!("container")),
        ],
        &end,
    );
    let frames = restream(&folded);
    let back: Value = serde_json::from_str(&frames[frames.len() - 2].data).unwrap();
    assert_eq!(
        (&back["delta"], &back["context_management"]),
        (&end["delta"], &end["context_management"])
    );
}

fn restream(fold: &OfflineFold) -> Vec<throughline_protocols::WireFrame> {
    let mut encoder = CODEC.stream_encoder(&owner(&fold.resources));
    fold.events.iter().flat_map(|event| encoder.push(event)).collect()
}

#[test]
fn what_is_not_understood_is_kept_named_and_comes_back() {
    let event = json!({"type": "brand_new_event", "a": [1, {"b": "ü"}]});
    let delta = json!({"type": "brand_new_delta", "c": 2});
    let mut events = vec![event.clone()];
    events.extend(block(
        0,
        json!({"type": "text", "text": ""}),
        &[json!({"type": "text_delta", "text": "a"}), delta.clone()],
    ));
    events.push(json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "lost"}}));
    let (folded, result) = fold(&around(&events));
    assert_eq!(result["status"]["finishReason"], "stop");
    let warnings: Vec<_> = folded
        .events
        .iter()
        .map(|e| serde_json::to_value(e).unwrap())
        .filter(|e| e["kind"] == "warning")
        .collect();
    let told: Vec<_> = warnings.iter().map(|w| w["message"].as_str().unwrap()).collect();
    for (n, message) in told.iter().enumerate() {
        assert!(message.starts_with(&format!("wire.unmapped at /events/{n}: ")), "{told:?}");
    }
    let kept: Vec<_> = folded
        .resources
        .iter()
        .filter(|r| r.schema == "anthropic-messages/event@1")
        .collect();
    assert_eq!((told.len(), kept.len()), (3, 3), "{told:?}");
    let frames: Vec<Value> = restream(&folded).iter().map(|f| serde_json::from_str(&f.data).unwrap()).collect();
    assert!(frames.contains(&event), "{frames:?}");
    assert!(
        frames.contains(&json!({"type": "content_block_delta", "index": 0, "delta": delta})),
        "{frames:?}"
    );
    let mut other = CODEC.stream_encoder(&stranger());
    let elsewhere: Vec<_> = folded.events.iter().flat_map(|event| other.push(event)).collect();
    assert!(!sse(&elsewhere).contains("brand_new"), "{}", sse(&elsewhere));
}

#[test]
fn errors_and_splices_in_the_middle() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "req_1"});
    let begun = |events: &[Value]| around(events).replace("event: message_delta", "event: late");
    let mut events = vec![json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}})];
    events.push(error);
    let (_, result) = fold(&begun(&events));
    assert_record(
        &result,
        &[
            ("/status/finishReason", json!("failed")),
            ("/error/category", json!("overloaded")),
            ("/output/0/status", json!("incomplete")),
        ],
        &Value::Null,
    );
    let other =
        json!({"type": "message_start", "message": {"id": "msg_2", "type": "message", "role": "assistant", "model": "m", "content": []}});
    let (_, spliced) = fold(&around(&[other]));
    assert_record(
        &spliced,
        &[
            ("/status/finishReason", json!("interrupted")),
            ("/error/category", json!("interrupted")),
        ],
        &Value::Null,
    );
    let same =
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}});
    let (_, retried) = fold(&around(&[same]));
    assert_eq!(retried["status"]["finishReason"], "stop");
}
