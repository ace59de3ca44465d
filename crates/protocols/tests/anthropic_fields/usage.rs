//! Counters of usage: value, scope and source.

use super::answers::{answer, result};
use super::*;

/// A usage becomes these counters, and comes back.
fn check(usage: Value, expected: &[(&str, f64, &str, &str)]) {
    let record = result(&answer(&json!({"usage": usage})));
    for (pointer, value, scope, source) in expected {
        let counter = &record["usage"].pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(counter["value"].as_f64(), Some(*value), "{pointer} of {usage}: {}", record["usage"]);
        assert_eq!(
            (counter["scope"].as_str(), counter["source"].as_str()),
            (Some(*scope), Some(*source)),
            "{pointer} of {usage}"
        );
    }
}

fn with(member: &str, value: Value) -> Value {
    let mut usage = json!({"input_tokens": 10, "output_tokens": 4});
    usage[member] = value;
    usage
}

#[test]
fn every_counter() {
    let (request, reported, derived) = ("request", "reported", "derived");
    check(
        with("input_tokens", json!(10)),
        &[
            ("/inputUncached", 10.0, request, reported),
            ("/outputTotal", 4.0, request, reported),
            ("/inputTotal", 10.0, request, derived),
            ("/total", 14.0, request, derived),
        ],
    );
    let cached = json!({"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2});
    check(
        cached,
        &[
            ("/cacheRead", 3.0, request, reported),
            ("/cacheWrite", 2.0, request, reported),
            ("/inputTotal", 15.0, request, derived),
            ("/total", 19.0, request, derived),
        ],
    );
    check(
        with(
            "cache_creation",
            json!({"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2}),
        ),
        &[
            ("/cacheWriteByTtl/300", 1.0, request, reported),
            ("/cacheWriteByTtl/3600", 2.0, request, reported),
        ],
    );
    check(
        with("output_tokens_details", json!({"thinking_tokens": 3})),
        &[("/reasoning", 3.0, request, reported)],
    );
    check(
        with(
            "server_tool_use",
            json!({"web_search_requests": 1, "web_fetch_requests": 2, "code_execution_requests": 3, "tool_search_requests": 4}),
        ),
        &[
            ("/serverToolCalls/web-search", 1.0, request, reported),
            ("/serverToolCalls/web-fetch", 2.0, request, reported),
            ("/serverToolCalls/code-execution", 3.0, request, reported),
            ("/serverToolCalls/tool-search", 4.0, request, reported),
        ],
    );
}

#[test]
fn work_beside_the_message_counts_for_the_operation() {
    let part = |kind: &str, input: u64| json!({"type": kind, "input_tokens": input, "output_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0});
    for beside in ["compaction", "advisor_message", "fallback_message"] {
        check(
            with("iterations", json!([part(beside, 100), part("message", 10)])),
            &[
                ("/inputUncached", 10.0, "request", "reported"),
                ("/others/0/inputUncached", 110.0, "operation", "derived"),
                ("/others/0/cacheRead", 4.0, "operation", "derived"),
                ("/others/0/outputTotal", 2.0, "operation", "derived"),
            ],
        );
    }
    let alone = result(&answer(&json!({"usage": with("iterations", json!([part("message", 10)]))})));
    assert_eq!(alone["usage"]["others"], Value::Null);
}

#[test]
fn unknown_is_not_zero() {
    let record = result(&answer(&json!({"usage": {"input_tokens": 1, "output_tokens": 2}})));
    for counter in ["cacheRead", "cacheWrite", "reasoning", "cacheWriteByTtl", "serverToolCalls"] {
        assert_eq!(record["usage"][counter], Value::Null, "{counter}");
    }
}

#[test]
fn words_of_the_usage() {
    for tier in ["standard", "priority", "batch"] {
        let record = result(&answer(&json!({"usage": with("service_tier", json!(tier))})));
        assert_eq!(record["model"]["serviceTier"], tier);
    }
    for member in ["inference_geo", "speed", "fallback_credit", "brand_new"] {
        let record = result(&answer(&json!({"usage": with(member, json!("x"))})));
        let entries = record["loss"]["entries"].as_array().unwrap();
        assert!(entries.iter().any(|e| e["path"] == format!("/usage/{member}")), "{record:#}");
    }
}
