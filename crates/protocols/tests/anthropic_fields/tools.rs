//! Tool definitions: every dated type.

use super::*;

/// A definition becomes these values and comes back.
fn check(tool: Value, expected: &[(&str, Value)]) {
    // At least one tool must not be deferred.
    let body = request(&json!({"tools": [tool, {"name": "other", "input_schema": {"type": "object"}}]}));
    let record = serde_json::to_value(decode(&body).unified).unwrap();
    assert_record(&record["tools"][0], expected, &tool);
    assert_comes_back(&body);
}

#[test]
fn functions() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let with = |member: &str, value: Value| {
        let mut tool = json!({"name": "f", "input_schema": schema});
        tool[member] = value;
        tool
    };
    check(
        json!({"name": "f", "input_schema": schema}),
        &[
            ("/kind", json!("function")),
            ("/name", json!("f")),
            ("/inputSchema", schema.clone()),
            ("/strict", Value::Null),
        ],
    );
    check(with("type", json!("custom")), &[("/kind", json!("function"))]);
    check(with("description", json!("d")), &[("/description", json!("d"))]);
    check(
        with("input_examples", json!([{"a": "x"}])),
        &[("/inputExamples/0", json!({"a": "x"}))],
    );
    check(with("strict", json!(true)), &[("/strict", json!(true))]);
    check(with("strict", json!(false)), &[("/strict", json!(false))]);
    check(with("defer_loading", json!(true)), &[("/deferLoading", json!(true))]);
    check(with("eager_input_streaming", json!(true)), &[("/eagerInput", json!(true))]);
    check(with("allowed_callers", json!(["direct"])), &[("/allowedCallers", json!(["model"]))]);
    for code in ["code_execution_20250825", "code_execution_20260120", "code_execution_20260521"] {
        check(
            with("allowed_callers", json!(["direct", code])),
            &[("/allowedCallers", json!(["model", "code"]))],
        );
    }
    check(with("brand_new", json!(1)), &[]);
}

#[test]
fn every_dated_type() {
    for (word, name, kind, execution) in [
        ("bash_20250124", Some("bash"), "shell", "client"),
        ("bash_20241022", Some("bash"), "shell", "client"),
        ("text_editor_20241022", Some("str_replace_editor"), "text-editor", "client"),
        ("text_editor_20250124", Some("str_replace_editor"), "text-editor", "client"),
        ("text_editor_20250429", Some("str_replace_based_edit_tool"), "text-editor", "client"),
        ("text_editor_20250728", Some("str_replace_based_edit_tool"), "text-editor", "client"),
        ("memory_20250818", Some("memory"), "memory", "client"),
        ("computer_20241022", Some("computer"), "computer-use", "client"),
        ("computer_20250124", Some("computer"), "computer-use", "client"),
        ("computer_20251124", Some("computer"), "computer-use", "client"),
        ("computer_toolset_20260801", None, "computer-use", "client"),
        ("browser_toolset_20260801", None, "computer-use", "client"),
        ("web_search_20250305", Some("web_search"), "web-search", "provider"),
        ("web_search_20260209", Some("web_search"), "web-search", "provider"),
        ("web_search_20260318", Some("web_search"), "web-search", "provider"),
        ("web_fetch_20250910", Some("web_fetch"), "web-fetch", "provider"),
        ("web_fetch_20260209", Some("web_fetch"), "web-fetch", "provider"),
        ("web_fetch_20260309", Some("web_fetch"), "web-fetch", "provider"),
        ("web_fetch_20260318", Some("web_fetch"), "web-fetch", "provider"),
        ("code_execution_20250522", Some("code_execution"), "code-execution", "provider"),
        ("code_execution_20250825", Some("code_execution"), "code-execution", "provider"),
        ("code_execution_20260120", Some("code_execution"), "code-execution", "provider"),
        ("code_execution_20260521", Some("code_execution"), "code-execution", "provider"),
        ("tool_search_tool_bm25", Some("tool_search_tool_bm25"), "tool-search", "provider"),
        (
            "tool_search_tool_bm25_20251119",
            Some("tool_search_tool_bm25"),
            "tool-search",
            "provider",
        ),
        ("tool_search_tool_regex", Some("tool_search_tool_regex"), "tool-search", "provider"),
        (
            "tool_search_tool_regex_20251119",
            Some("tool_search_tool_regex"),
            "tool-search",
            "provider",
        ),
        ("mcp_toolset", None, "mcp", "provider"),
        ("advisor_20260301", Some("advisor"), "advisor", "provider"),
        ("later_20300101", Some("later"), "anthropic-messages:later", "provider"),
    ] {
        let mut tool = json!({"type": word});
        if let Some(name) = name {
            tool["name"] = json!(name);
        }
        if word == "mcp_toolset" {
            tool["mcp_server_name"] = json!("wiki");
        }
        if matches!(word, "advisor_20260301" | "later_20300101") {
            tool["model"] = json!("claude-test");
        }
        let date = word.rsplit('_').next().filter(|date| date.len() == 8 && date.starts_with('2'));
        check(
            tool,
            &[
                ("/kind", json!(kind)),
                ("/execution", json!(execution)),
                ("/version", json!(date)),
                ("/name", json!(name)),
            ],
        );
    }
}

#[test]
fn options_of_hosted_tools() {
    let search = |member: &str, value: Value| {
        let mut tool = json!({"type": "web_search_20260318", "name": "web_search"});
        tool[member] = value;
        tool
    };
    check(
        search("allowed_domains", json!(["a.example"])),
        &[("/config/allowedDomains", json!(["a.example"]))],
    );
    check(
        search("blocked_domains", json!(["b.example"])),
        &[("/config/blockedDomains", json!(["b.example"]))],
    );
    check(search("max_uses", json!(3)), &[("/config/maxUses", json!(3))]);
    let place = json!({"type": "approximate", "city": "c", "region": "r", "country": "DE", "timezone": "Europe/Berlin"});
    check(
        search("user_location", place),
        &[
            ("/config/userLocation/city", json!("c")),
            ("/config/userLocation/timezone", json!("Europe/Berlin")),
        ],
    );
    check(search("response_inclusion", json!("excluded")), &[]);
    let fetch = |member: &str, value: Value| {
        let mut tool = json!({"type": "web_fetch_20260318", "name": "web_fetch"});
        tool[member] = value;
        tool
    };
    check(fetch("max_content_tokens", json!(900)), &[("/config/maxContentTokens", json!(900))]);
    check(fetch("citations", json!({"enabled": true})), &[("/config/citations", json!(true))]);
    check(fetch("url_sources", json!({"user_input": true})), &[]);
    check(fetch("use_cache", json!(false)), &[]);
    let computer = json!({"type": "computer_20251124", "name": "computer", "display_width_px": 800, "display_height_px": 600, "display_number": 1, "enable_zoom": true});
    check(
        computer,
        &[
            ("/config/displayWidth", json!(800)),
            ("/config/displayHeight", json!(600)),
            ("/config/zoom", json!(true)),
        ],
    );
    for what in ["computer", "browser"] {
        let tool = json!({"type": format!("{what}_toolset_20260801"), "configs": {"zoom": {"enabled": false}, "key": {"enabled": true, "defer_loading": true}}});
        check(
            tool,
            &[("/config/environment", json!(what)), ("/config/excludedActions", json!(["zoom"]))],
        );
    }
    check(
        json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9}),
        &[],
    );
    let advisor = json!({"type": "advisor_20260301", "name": "advisor", "model": "claude-test", "max_uses": 2, "max_tokens": 9, "caching": {"type": "ephemeral"}});
    check(advisor, &[("/config/maxUses", json!(2)), ("/portability", json!("owner-bound"))]);
}

#[test]
fn limits_of_the_route_hold_for_names_and_ids() {
    let (name, id) = ("a".repeat(40), "toolu_".to_owned() + &"b".repeat(40));
    let body = request(&json!({
        "tools": [{"name": name, "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": name},
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "r"}]}
        ]
    }));
    let decoded = decode(&body);
    let mut context = stranger();
    context.capabilities.set("max_tool_name_length", &json!(20)).unwrap();
    context.capabilities.set("max_tool_id_length", &json!(30)).unwrap();
    let (short, losses) = encode(&decoded, &context);
    let (tool, call) = (&short["tools"][0]["name"], &short["messages"][1]["content"][0]);
    assert!(
        tool.as_str().unwrap().len() <= 20 && call["id"].as_str().unwrap().len() <= 30,
        "{short}"
    );
    assert_eq!(
        (tool, &call["id"]),
        (&call["name"], &short["messages"][2]["content"][0]["tool_use_id"])
    );
    assert_eq!(tool, &short["tool_choice"]["name"]);
    assert!(losses.iter().any(|(path, _)| path == "/tools/0/name"), "{losses:?}");
}
