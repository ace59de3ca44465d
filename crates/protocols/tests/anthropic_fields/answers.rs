//! Members and endings of an answer, and its blocks through a response and through a stream.

use super::*;
use crate::support::{fold_response, fold_stream, result_of, sse};

/// An answer with these members.
pub(crate) fn answer(members: &Value) -> Value {
    let mut body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": [{"type": "text", "text": "a"}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 2}});
    for (key, value) in members.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// The result of an answer; the answer comes back to its owner, and as a stream it gives the same result.
pub(crate) fn result(body: &Value) -> Value {
    let fold = fold_response(&CODEC, body.to_string().as_bytes());
    let result = result_of(&fold);
    let context = owner(&fold.resources);
    let encoded = CODEC.encode_response(&result, &context).unwrap();
    assert_eq!(&serde_json::from_str::<Value>(&encoded.body).unwrap(), body);
    let mut encoder = CODEC.stream_encoder(&context);
    let frames: Vec<_> = fold.events.iter().flat_map(|event| encoder.push(event)).collect();
    let again = fold_stream(&CODEC, sse(&frames).as_bytes(), 13);
    assert_eq!(result_of(&again), result, "{}", sse(&frames));
    serde_json::to_value(result).unwrap()
}

fn check(members: Value, expected: &[(&str, Value)]) {
    assert_record(&result(&answer(&members)), expected, &members);
}

#[test]
fn every_stop_reason() {
    let call = json!([{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]);
    for (word, state, reason) in [
        ("end_turn", "completed", "stop"),
        ("max_tokens", "incomplete", "length"),
        ("pause_turn", "incomplete", "paused"),
        ("refusal", "completed", "refusal"),
        ("model_context_window_exceeded", "incomplete", "max-context"),
        ("compaction", "incomplete", "paused"),
        ("brand_new", "incomplete", "unknown"),
    ] {
        check(
            json!({"stop_reason": word}),
            &[
                ("/status/state", json!(state)),
                ("/status/finishReason", json!(reason)),
                ("/status/originalReason", json!(word)),
            ],
        );
    }
    check(
        json!({"stop_reason": "tool_use", "content": call}),
        &[
            ("/status/finishReason", json!("tool-calls")),
            ("/status/originalReason", json!("tool_use")),
        ],
    );
    // A call of the client ends in tool calls, whatever the provider's word.
    check(
        json!({"stop_reason": "end_turn", "content": call}),
        &[
            ("/status/finishReason", json!("tool-calls")),
            ("/status/originalReason", json!("end_turn")),
        ],
    );
    check(
        json!({"stop_reason": "stop_sequence", "stop_sequence": "END"}),
        &[("/status/finishReason", json!("stop")), ("/status/stopSequence", json!("END"))],
    );
    check(
        json!({"stop_reason": null}),
        &[("/status/finishReason", json!("unknown")), ("/status/originalReason", Value::Null)],
    );
    for category in ["cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms"] {
        let details = json!({"type": "refusal", "category": category, "explanation": "no", "recommended_model": "m"});
        check(
            json!({"stop_reason": "refusal", "stop_details": details}),
            &[("/status/safety", json!({"category": category, "explanation": "no"}))],
        );
    }
}

#[test]
fn the_state_of_an_answer() {
    let container = json!({"id": "container_1", "expires_at": "2026-04-24T11:19:38.758845Z", "skills": [{"type": "anthropic", "skill_id": "pptx", "version": "1"}]});
    check(
        json!({"container": container}),
        &[
            ("/state/resources/0/resourceType", json!("container")),
            ("/state/resources/0/expiresAt", json!("2026-04-24T11:19:38.758Z")),
        ],
    );
    for members in [
        json!({"diagnostics": {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 3}}}),
        json!({"context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2, "cleared_input_tokens": 50}]}}),
        json!({"input_transformations": [{"path": "/messages/1", "type": "thinking_dropped", "reason": "model_binding_mismatch"}]}),
        json!({"brand_new": 1}),
    ] {
        let told = result(&answer(&members));
        let (key, _) = members.as_object().unwrap().iter().next().unwrap();
        let entries = told["loss"]["entries"].as_array().unwrap();
        assert!(entries.iter().any(|e| e["path"] == format!("/{key}")), "{told:#}");
    }
}

#[test]
fn what_the_provider_cleared_is_told() {
    let members = json!({"context_management": {"applied_edits": [{"type": "clear_thinking_20251015", "cleared_thinking_turns": 2, "cleared_input_tokens": 50}]}});
    let fold = fold_response(&CODEC, answer(&members).to_string().as_bytes());
    let events = serde_json::to_string(&fold.events).unwrap();
    assert!(
        events.contains("state.context-edited") && events.contains("cleared_thinking_turns 2"),
        "{events}"
    );
}

#[test]
fn handles_and_sealed_state_never_stand_in_the_result() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "SECRET"},
        {"type": "redacted_thinking", "data": "SECRET"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "SECRET"}]},
        {"type": "text", "text": "a", "citations": [{"type": "web_search_result_location", "cited_text": "q", "url": "https://a.example", "title": "A", "encrypted_index": "SECRET"}]},
        {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "1"}},
        {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_2", "content": {"type": "encrypted_code_execution_result", "encrypted_stdout": "SECRET", "stderr": "", "return_code": 0, "content": [{"type": "code_execution_output", "file_id": "SECRET"}]}},
        {"type": "compaction", "content": "so far", "encrypted_content": "SECRET"}
    ]);
    let body =
        answer(&json!({"content": content, "id": "msg_SECRET", "container": {"id": "SECRET", "expires_at": "2026-04-24T11:19:38Z"}}));
    let record = result(&body);
    assert!(!record.to_string().contains("SECRET"), "{record:#}");
    let kinds: Vec<_> = record["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "reasoning",
            "reasoning",
            "server-tool-call",
            "search-result",
            "message",
            "code-execution",
            "code-execution-result",
            "compaction-summary"
        ]
    );
    let fold = fold_response(&CODEC, body.to_string().as_bytes());
    let elsewhere = CODEC.encode_response(&result_of(&fold), &stranger()).unwrap();
    assert!(!elsewhere.body.contains("SECRET"), "{}", elsewhere.body);
    assert!(elsewhere.loss.entries.iter().any(|e| e.path == "/output/3"), "{:?}", elsewhere.loss);
}

#[test]
fn blocks_of_an_answer() {
    for (block, kind) in [
        (
            json!({"type": "tool_use", "id": "toolu_1", "name": "zoom", "input": {"region": [1]}, "toolset_name": "computer"}),
            "computer-action",
        ),
        (
            json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}),
            "tool-call",
        ),
        (
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {"command": "ls"}, "caller": {"type": "direct"}}),
            "code-execution",
        ),
        (
            json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "wiki", "input": {}}),
            "server-tool-call",
        ),
        (json!({"type": "container_upload", "file_id": "file_1"}), "message"),
        (
            json!({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}),
            "provider-switch",
        ),
        (json!({"type": "brand_new_block", "a": {"b": [1]}}), "message"),
    ] {
        check(json!({"content": [block]}), &[("/output/0/kind", json!(kind))]);
    }
}

#[test]
fn error_bodies() {
    for (kind, category, retryable) in [
        ("invalid_request_error", "invalid-request", false),
        ("authentication_error", "auth", false),
        ("billing_error", "quota", false),
        ("permission_error", "permission", false),
        ("not_found_error", "not-found", false),
        ("conflict_error", "conflict", true),
        ("request_too_large", "too-large", false),
        ("rate_limit_error", "rate-limit", true),
        ("api_error", "server", true),
        ("timeout_error", "timeout", true),
        ("overloaded_error", "overloaded", true),
        ("brand_new_error", "server", true),
    ] {
        let body = json!({"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "req_1"});
        let fold = fold_response(&CODEC, body.to_string().as_bytes());
        let record = result_of(&fold);
        let encoded = CODEC.encode_response(&record, &owner(&fold.resources)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&encoded.body).unwrap(), body);
        let told = serde_json::to_value(record).unwrap();
        assert_record(
            &told,
            &[
                ("/status/finishReason", json!("failed")),
                ("/error/category", json!(category)),
                ("/error/retryable", json!(retryable)),
                ("/error/providerRequestId", json!("req_1")),
            ],
            &body,
        );
    }
}

#[test]
fn details_of_a_refusal_stand_with_refusals_only() {
    let body = answer(&json!({"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "bio"}}));
    let fold = fold_response(&CODEC, body.to_string().as_bytes());
    let mut record = result_of(&fold);
    record.provenance.profile.family = throughline_format::ProtocolFamily::CursorSdk;
    for (reason, details) in [
        (
            throughline_format::UnifiedFinishReason::ContentFilter,
            json!({"type": "refusal", "category": "bio"}),
        ),
        (throughline_format::UnifiedFinishReason::Stop, Value::Null),
    ] {
        record.status.finish_reason = Some(reason);
        let encoded = CODEC.encode_response(&record, &stranger()).unwrap();
        let made: Value = serde_json::from_str(&encoded.body).unwrap();
        assert_eq!(made["stop_details"], details);
        assert_eq!(encoded.loss.entries.iter().any(|e| e.path == "/status/safety"), details.is_null());
    }
}
