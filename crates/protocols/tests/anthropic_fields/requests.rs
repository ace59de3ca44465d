//! Members of a request.

use super::*;

/// A member becomes these values of the record and comes back.
fn check(members: Value, expected: &[(&str, Value)]) {
    let body = request(&members);
    let record = serde_json::to_value(decode(&body).unified).unwrap();
    assert_record(&record, expected, &members);
    assert_comes_back(&body);
}

/// A member without a Unified word: kept, told by the decoder, back for its owner, absent for others.
fn check_kept(members: Value) {
    let body = request(&members);
    let decoded = decode(&body);
    let (key, _) = members.as_object().unwrap().iter().next().unwrap();
    let told = decoded.loss.entries.iter().any(|e| e.path.starts_with(&format!("/{key}")));
    assert!(told, "{key}: {:?}", decoded.loss.entries);
    assert_comes_back(&body);
    let (elsewhere, _) = encode(&decoded, &stranger());
    assert_eq!(elsewhere.get(key), None, "a stranger gets {key}");
}

fn value(value: Value) -> Value {
    json!({"value": value, "requirement": "preferred"})
}

#[test]
fn generation_and_output() {
    check(json!({"max_tokens": 7}), &[("/generation/maxOutputTokens", value(json!(7)))]);
    check(json!({"temperature": 0.5}), &[("/generation/temperature", value(json!(0.5)))]);
    check(json!({"top_p": 0.9}), &[("/generation/topP", value(json!(0.9)))]);
    check(json!({"top_k": 5}), &[("/generation/topK/value", json!(5.0))]);
    check(
        json!({"stop_sequences": ["a", "b"]}),
        &[("/generation/stopSequences", value(json!(["a", "b"])))],
    );
    check(
        json!({"service_tier": "auto"}),
        &[("/generation/serviceTier", value(json!("auto")))],
    );
    check(
        json!({"service_tier": "standard_only"}),
        &[("/generation/serviceTier", value(json!("standard")))],
    );
    for effort in ["low", "medium", "high", "xhigh", "max"] {
        let members = json!({"output_config": {"effort": effort}});
        check(members, &[("/generation/reasoning/effort", value(json!(effort)))]);
    }
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "schema": schema});
    for members in [json!({"output_config": {"format": format}}), json!({"output_format": format})] {
        check(
            members,
            &[
                ("/output/format/value/kind", json!("json-schema")),
                ("/output/format/value/schema", schema.clone()),
                ("/output/format/value/strict", json!(true)),
            ],
        );
    }
    check(json!({"metadata": {"user_id": "u"}}), &[("/metadata/endUserRef", json!("u"))]);
    check(json!({"stream": true}), &[]);
}

#[test]
fn thinking() {
    let reasoning = "/generation/reasoning";
    for (thinking, mode, budget, summary) in [
        (json!({"type": "adaptive"}), json!("on"), None, None),
        (
            json!({"type": "adaptive", "display": "summarized"}),
            json!("on"),
            None,
            Some("auto"),
        ),
        (json!({"type": "adaptive", "display": "omitted"}), json!("on"), None, Some("none")),
        (json!({"type": "enabled", "budget_tokens": 2000}), json!("on"), Some(2000), None),
        (
            json!({"type": "enabled", "budget_tokens": 2000, "display": "omitted"}),
            json!("on"),
            Some(2000),
            Some("none"),
        ),
        (json!({"type": "disabled"}), json!("off"), None, None),
        (
            json!({"type": "between_tools"}),
            json!("anthropic-messages:between_tools"),
            None,
            None,
        ),
        (json!({"type": "adaptive", "display": "updates"}), json!("on"), None, None),
        (
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}),
            json!("on"),
            None,
            None,
        ),
    ] {
        let expected = [
            (format!("{reasoning}/mode/value"), mode),
            (format!("{reasoning}/budgetTokens/value"), json!(budget)),
            (format!("{reasoning}/summary/value"), json!(summary)),
        ];
        let expected: Vec<_> = expected.iter().map(|(pointer, value)| (pointer.as_str(), value.clone())).collect();
        check(json!({"thinking": thinking}), &expected);
    }
}

#[test]
fn tool_choice() {
    let tools = json!([{"name": "f", "input_schema": {"type": "object"}}]);
    for (choice, kind, parallel) in [
        (json!({"type": "auto"}), "auto", None),
        (json!({"type": "any"}), "required", None),
        (json!({"type": "none"}), "none", None),
        (json!({"type": "tool", "name": "f"}), "named", None),
        (
            json!({"type": "auto", "disable_parallel_tool_use": true}),
            "auto",
            Some("one-at-a-time"),
        ),
        (
            json!({"type": "any", "disable_parallel_tool_use": false}),
            "required",
            Some("allow"),
        ),
    ] {
        check(
            json!({"tools": tools, "tool_choice": choice}),
            &[
                ("/toolChoice/kind", json!(kind)),
                ("/generation/parallelTools/value", json!(parallel)),
            ],
        );
    }
}

#[test]
fn cache_marks_and_their_lives() {
    check(
        json!({"cache_control": {"type": "ephemeral"}}),
        &[("/cache/mode", json!("automatic"))],
    );
    check(
        json!({"cache_control": {"type": "ephemeral", "ttl": "1h"}}),
        &[("/cache/mode", json!("automatic"))],
    );
    for ttl in [None, Some("5m"), Some("1h")] {
        let mut control = json!({"type": "ephemeral"});
        if let Some(ttl) = ttl {
            control["ttl"] = json!(ttl);
        }
        let marked = |block: Value| {
            let mut block = block;
            block["cache_control"] = control.clone();
            block
        };
        let text = marked(json!({"type": "text", "text": "x"}));
        let image = marked(json!({"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}}));
        check(
            json!({"system": [text], "messages": [{"role": "user", "content": [text, image]}]}),
            &[
                ("/cache/mode", json!("explicit")),
                ("/cache/breakpoints/0/ttl", json!(ttl)),
                ("/cache/breakpoints/2/partId", json!("op_offline.i1.p1")),
            ],
        );
        let tool = marked(json!({"name": "f", "input_schema": {"type": "object"}}));
        check(
            json!({"tools": [tool]}),
            &[("/tools/0/cache/ttl", json!(ttl)), ("/tools/0/cache/breakpoint", json!(true))],
        );
    }
}

#[test]
fn context_management() {
    let edit = "/state/contextManagement/value/0";
    for (rule, kind, trigger, keep) in [
        (json!({"type": "clear_tool_uses_20250919"}), "clear-tool-uses", None, None),
        (
            json!({"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 9}, "keep": {"type": "tool_uses", "value": 3}}),
            "clear-tool-uses",
            Some(9),
            Some(3),
        ),
        (
            json!({"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 9}, "clear_at_least": {"type": "input_tokens", "value": 5}, "clear_tool_inputs": true, "exclude_tools": ["f"]}),
            "clear-tool-uses",
            None,
            None,
        ),
        (
            json!({"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}}),
            "clear-reasoning",
            None,
            Some(2),
        ),
        (
            json!({"type": "clear_thinking_20251015", "keep": "all"}),
            "clear-reasoning",
            None,
            None,
        ),
        (
            json!({"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 150_000}, "instructions": "short", "pause_after_compaction": true}),
            "compact",
            Some(150_000),
            None,
        ),
        (
            json!({"type": "later_20300101", "keep": 4}),
            "anthropic-messages:later_20300101",
            None,
            None,
        ),
    ] {
        check(
            json!({"context_management": {"edits": [rule]}}),
            &[
                (&format!("{edit}/kind"), json!(kind)),
                (&format!("{edit}/triggerTokens"), json!(trigger)),
                (&format!("{edit}/keep"), json!(keep)),
            ],
        );
    }
    check(
        json!({"compaction": {"type": "summarize", "instructions": "short"}}),
        &[
            (&format!("{edit}/kind"), json!("compact")),
            (&format!("{edit}/triggerTokens"), json!(0)),
        ],
    );
}

#[test]
fn containers_skills_and_servers() {
    let container = ("/state/resources/0/resourceType", json!("container"));
    check(json!({"container": "container_1"}), std::slice::from_ref(&container));
    check(json!({"container": {"id": "container_1"}}), std::slice::from_ref(&container));
    let skills =
        json!([{"type": "anthropic", "skill_id": "pptx", "version": "latest"}, {"type": "custom", "skill_id": "skill_01", "version": "7"}]);
    check(
        json!({"container": {"id": "container_1", "skills": skills}}),
        &[
            container,
            ("/tools/0/kind", json!("skill")),
            ("/tools/0/name", json!("pptx")),
            ("/tools/0/version", json!("latest")),
            ("/tools/1/name", Value::Null),
            ("/tools/1/portability", json!("owner-bound")),
            ("/tools/1/resources/0/resourceType", json!("skill")),
        ],
    );
    let server = json!({"type": "url", "name": "wiki", "url": "https://a.example/mcp"});
    let config = "/tools/0/config";
    check(
        json!({"mcp_servers": [server]}),
        &[
            ("/tools/0/kind", json!("mcp")),
            (&format!("{config}/serverLabel"), json!("wiki")),
            (&format!("{config}/serverUrl"), json!("https://a.example/mcp")),
        ],
    );
    let mut older = server.clone();
    older["tool_configuration"] = json!({"allowed_tools": ["ask"], "enabled": true});
    check(
        json!({"mcp_servers": [older]}),
        &[(&format!("{config}/allowedTools"), json!(["ask"]))],
    );
    let toolset = json!({"type": "mcp_toolset", "mcp_server_name": "wiki", "default_config": {"enabled": false}, "configs": {"ask": {"enabled": true, "defer_loading": true}}});
    check(
        json!({"mcp_servers": [server], "tools": [toolset]}),
        &[
            (&format!("{config}/serverUrl"), json!("https://a.example/mcp")),
            (&format!("{config}/allowedTools"), json!(["ask"])),
            ("/tools/1", Value::Null),
        ],
    );
}

#[test]
fn no_handle_of_the_provider_stands_in_the_record() {
    for members in [
        json!({"container": "SECRET"}),
        json!({"container": {"id": "SECRET", "skills": [{"type": "custom", "skill_id": "SECRET"}]}}),
        json!({"thread": {"type": "continue", "previous_message_id": "SECRET"}}),
        json!({"diagnostics": {"previous_message_id": "SECRET"}}),
        json!({"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "SECRET"}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "SECRET"}}]}]}),
        json!({"mcp_servers": [{"type": "url", "name": "n", "url": "https://u:SECRET@a.example/mcp?key=SECRET"}]}),
    ] {
        let decoded = decode(&request(&members));
        let record = serde_json::to_string(&decoded.unified).unwrap();
        assert!(!record.contains("SECRET"), "{record}");
        let (elsewhere, losses) = encode(&decoded, &stranger());
        assert!(!elsewhere.to_string().contains("SECRET"), "{elsewhere}");
        assert!(!losses.is_empty() || !decoded.loss.entries.is_empty(), "{members}");
    }
}

#[test]
fn other_models_threads_and_fields_without_a_word() {
    check(
        json!({"fallbacks": [{"model": "a", "max_tokens": 5, "speed": "fast"}, {"model": "b"}]}),
        &[("/model/fallbacks", json!(["a", "b"]))],
    );
    check(
        json!({"thread": {"type": "continue", "previous_message_id": "msg_1"}}),
        &[
            ("/conversation/completeness", json!("reference-only")),
            ("/conversation/continuations/0/resourceType", json!("session")),
            ("/conversation/missing/0/reason", json!("provider-held")),
        ],
    );
    for members in [
        json!({"fallbacks": "default"}),
        json!({"thread": {"type": "create"}}),
        json!({"speed": "fast"}),
        json!({"inference_geo": "us"}),
        json!({"diagnostics": {"previous_message_id": "msg_1"}}),
        json!({"billing_policy": {"type": "billing_policy", "bill_to": "self"}}),
        json!({"betas": ["context-1m-2025-08-07"]}),
        json!({"user_profile_id": "p"}),
        json!({"brand_new": {"a": [1]}}),
    ] {
        check_kept(members);
    }
    check_kept(json!({"output_config": {"task_budget": {"type": "tokens", "total": 9}}}));
}

#[test]
fn a_request_that_only_fills_the_cache() {
    let body = request(&json!({"max_tokens": 0}));
    let decoded = decode(&body);
    assert_eq!(decoded.unified.generation.max_output_tokens, None);
    assert_comes_back(&body);
    let (elsewhere, losses) = encode(&decoded, &stranger());
    assert!(elsewhere["max_tokens"].as_u64() >= Some(1));
    assert!(losses.iter().any(|(path, _)| path == "/generation/maxOutputTokens"), "{losses:?}");
}

#[test]
fn a_body_without_a_model_gets_it_from_the_route() {
    let mut body = request(&json!({"anthropic_version": "bedrock-2023-05-31"}));
    body.as_object_mut().unwrap().remove("model");
    assert_comes_back(&body);
    let (_, losses) = encode(&decode(&body), &stranger());
    assert!(losses.contains(&("/model/requested".into(), "info".into())), "{losses:?}");
}
