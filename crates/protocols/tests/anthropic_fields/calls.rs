//! Blocks of a history.

use super::*;

/// Blocks of a message become an item of these values and come back.
fn check(role: &str, block: Value, expected: &[(&str, Value)]) {
    check_after(json!([]), role, block, expected);
}

/// The same behind blocks of the assistant, such as the call of a result.
fn check_after(before: Value, role: &str, block: Value, expected: &[(&str, Value)]) {
    let mut blocks = before.as_array().unwrap().clone();
    let mut messages = vec![json!({"role": "user", "content": "hi"})];
    if role == "assistant" {
        blocks.push(block.clone());
        messages.push(json!({"role": "assistant", "content": blocks}));
        if block["type"] == "tool_use" {
            messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "r"}]}));
        } else if block["type"] != "server_tool_use" && block["type"] != "mcp_tool_use" {
            messages.push(json!({"role": "user", "content": "go on"}));
        }
    } else {
        if !blocks.is_empty() {
            messages.push(json!({"role": "assistant", "content": blocks}));
        }
        messages.push(json!({"role": role, "content": [block]}));
        if blocks.is_empty() && role == "user" {
            messages.remove(0);
        }
    }
    let body = request(&json!({"messages": messages, "tools": [{"name": "f", "input_schema": {"type": "object"}}]}));
    let record = serde_json::to_value(decode(&body).unified).unwrap();
    let items = record["conversation"]["items"].as_array().unwrap();
    let own = messages
        .iter()
        .rposition(|m| m["content"].as_array().is_some_and(|list| list.contains(&block)))
        .unwrap();
    let before: usize = messages[..own].iter().map(|m| m["content"].as_array().map_or(1, Vec::len)).sum();
    let at = before + messages[own]["content"].as_array().unwrap().len() - 1;
    assert_record(&items[at], expected, &block);
    assert_comes_back(&body);
}

fn call(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": name, "input": input})
}

#[test]
fn texts_media_and_documents() {
    check(
        "user",
        json!({"type": "text", "text": "a"}),
        &[("/kind", json!("message")), ("/role", json!("user")), ("/parts/0/text", json!("a"))],
    );
    check(
        "system",
        json!({"type": "text", "text": "a"}),
        &[("/role", json!("system")), ("/placement", json!("inline"))],
    );
    let part = "/parts/0";
    for media_type in ["image/jpeg", "image/png", "image/gif", "image/webp"] {
        let source = json!({"type": "base64", "media_type": media_type, "data": "AAAA"});
        check(
            "user",
            json!({"type": "image", "source": source}),
            &[("/parts/0/kind", json!("image")), ("/parts/0/source/mediaType", json!(media_type))],
        );
    }
    for (source, kind) in [
        (json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"}), "inline"),
        (json!({"type": "text", "media_type": "text/plain", "data": "words"}), "inline"),
        (json!({"type": "content", "content": [{"type": "text", "text": "words"}]}), "inline"),
        (json!({"type": "content", "content": "words"}), "inline"),
        (json!({"type": "url", "url": "https://a.example/d.pdf"}), "url"),
        (json!({"type": "file", "file_id": "file_1"}), "provider-resource"),
    ] {
        let block = json!({"type": "document", "source": source, "title": "t", "context": "c", "citations": {"enabled": true}});
        check(
            "user",
            block,
            &[
                ("/parts/0/kind", json!("document")),
                ("/parts/0/source/kind", json!(kind)),
                ("/parts/0/media/title", json!("t")),
                ("/parts/0/media/context", json!("c")),
                ("/parts/0/media/citationsEnabled", json!(true)),
            ],
        );
    }
    let image = json!({"type": "image", "source": {"type": "file", "file_id": "file_1"}, "transformations": {"oversized_image": "error"}});
    check("user", image, &[(&format!("{part}/source/resource/resourceType"), json!("file"))]);
    check(
        "user",
        json!({"type": "container_upload", "file_id": "file_1"}),
        &[(&format!("{part}/kind"), json!("file"))],
    );
    let found = json!({"type": "search_result", "source": "https://a.example", "title": "A", "content": [{"type": "text", "text": "words"}], "citations": {"enabled": true}});
    check(
        "user",
        found,
        &[
            ("/parts/0/kind", json!("grounding-source")),
            ("/parts/0/source/type", json!("search")),
            ("/parts/0/source/uri", json!("https://a.example")),
            ("/parts/0/parts/0/text", json!("words")),
        ],
    );
}

#[test]
fn reasoning() {
    check(
        "assistant",
        json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        &[
            ("/kind", json!("reasoning")),
            ("/parts/0/text", json!("hm")),
            ("/parts/0/state", json!("disclosed")),
            ("/parts/0/privateState/issuer", json!("client-asserted")),
        ],
    );
    check(
        "assistant",
        json!({"type": "thinking", "thinking": "", "signature": "c2ln"}),
        &[("/parts/0/state", json!("omitted"))],
    );
    check(
        "assistant",
        json!({"type": "redacted_thinking", "data": "ZGF0YQ=="}),
        &[("/parts/0/state", json!("redacted")), ("/parts/0/text", json!(""))],
    );
}

#[test]
fn calls() {
    let tool = json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1.50}});
    check(
        "assistant",
        tool,
        &[
            ("/kind", json!("tool-call")),
            ("/callId", json!("toolu_1")),
            ("/toolType", json!("function")),
            ("/execution", json!("client")),
        ],
    );
    for caller in ["code_execution_20250825", "code_execution_20260120", "code_execution_20260521"] {
        let block =
            json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": caller, "tool_id": "srvtoolu_9"}});
        check(
            "assistant",
            block,
            &[("/caller/kind", json!("code")), ("/caller/callId", json!("srvtoolu_9"))],
        );
    }
    let direct = json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": "direct"}});
    check("assistant", direct, &[("/caller", json!({"kind": "model"}))]);
    for toolset in ["computer", "browser"] {
        let block = json!({"type": "tool_use", "id": "toolu_1", "name": "left_click", "input": {"coordinate": [1, 2]}, "toolset_name": toolset, "caller": {"type": "direct"}});
        check(
            "assistant",
            block,
            &[
                ("/kind", json!("computer-action")),
                ("/environment", json!(toolset)),
                ("/actions/0", json!({"action": "left_click", "coordinate": [1, 2]})),
            ],
        );
    }
    for (name, kind) in [
        ("web_search", "web-search"),
        ("web_fetch", "web-fetch"),
        ("text_editor_code_execution", "code-execution"),
        ("tool_search_tool_regex", "tool-search"),
        ("tool_search_tool_bm25", "tool-search"),
        ("advisor", "advisor"),
    ] {
        check(
            "assistant",
            call("srvtoolu_1", name, json!({"x": 1})),
            &[
                ("/kind", json!("server-tool-call")),
                ("/toolType", json!(kind)),
                ("/providerExecuted", json!(true)),
            ],
        );
    }
    check(
        "assistant",
        call("srvtoolu_1", "code_execution", json!({"code": "1", "later": 2})),
        &[
            ("/kind", json!("code-execution")),
            ("/code", json!("1")),
            ("/language", json!("python")),
        ],
    );
    check(
        "assistant",
        call("srvtoolu_1", "bash_code_execution", json!({"command": "ls"})),
        &[
            ("/kind", json!("code-execution")),
            ("/commands", json!(["ls"])),
            ("/language", json!("bash")),
        ],
    );
    check(
        "assistant",
        call("srvtoolu_1", "bash_code_execution", json!({"restart": true})),
        &[("/kind", json!("server-tool-call"))],
    );
    let mcp = json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "wiki", "input": {}});
    check(
        "assistant",
        mcp,
        &[
            ("/kind", json!("server-tool-call")),
            ("/toolType", json!("mcp")),
            ("/serverLabel", json!("wiki")),
        ],
    );
}

#[test]
fn results_of_client_tools() {
    let before = json!([{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]);
    // A failed result holds text only.
    let result =
        |content: Value, failed: bool| json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": failed});
    let whole = result(
        json!([
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "words"}]},
            {"type": "tool_reference", "tool_name": "f"}
        ]),
        false,
    );
    let kinds = ["text", "image", "document", "grounding-source", "json"];
    let kinds: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(n, kind)| (format!("/output/{n}/kind"), json!(kind)))
        .collect();
    let mut expected: Vec<_> = kinds.iter().map(|(pointer, kind)| (pointer.as_str(), kind.clone())).collect();
    expected.extend([
        ("/kind", json!("tool-result")),
        ("/name", json!("f")),
        ("/isError", json!(false)),
        ("/role", json!("tool")),
    ]);
    check_after(before.clone(), "user", whole, &expected);
    let text = [("/output/0/text", json!("text")), ("/isError", json!(true))];
    check_after(before.clone(), "user", result(json!("text"), true), &text);
    check_after(
        before,
        "user",
        json!({"type": "tool_result", "tool_use_id": "toolu_1"}),
        &[("/output", json!([])), ("/isError", Value::Null)],
    );
    let action = json!([{"type": "tool_use", "id": "toolu_1", "name": "navigate", "input": {"url": "https://a.example"}, "toolset_name": "browser"}]);
    let state = json!({"type": "browser_state", "tabs": [{"tab_id": "1", "title": "A", "url": "https://a.example/", "active": true}], "state_changes": [{"type": "tab_opened", "tab_id": "1"}]});
    let shown = json!({"type": "tool_result", "tool_use_id": "toolu_1", "toolset_name": "browser", "content": [state]});
    check_after(
        action,
        "user",
        shown,
        &[
            ("/kind", json!("computer-action-result")),
            ("/currentUrl", json!("https://a.example/")),
            ("/output/0/kind", json!("json")),
        ],
    );
}

#[test]
fn results_of_hosted_tools() {
    let check = |name: &str, input: Value, content: Value, expected: &[(&str, Value)]| {
        let result = match name {
            "tool_search_tool_regex" => "tool_search_tool_result".to_owned(),
            name => format!("{name}_tool_result"),
        };
        let block = json!({"type": result, "tool_use_id": "srvtoolu_1", "content": content, "caller": {"type": "direct"}});
        check_after(json!([call("srvtoolu_1", name, input)]), "assistant", block, expected);
    };
    let found =
        json!([{"type": "web_search_result", "url": "https://a.example", "title": "A", "page_age": "1 day", "encrypted_content": "x"}]);
    check(
        "web_search",
        json!({"query": "q"}),
        found,
        &[
            ("/kind", json!("search-result")),
            ("/callId", json!("srvtoolu_1")),
            ("/queries", json!(["q"])),
            ("/parts/0/source/uri", json!("https://a.example")),
            ("/parts/0/pageAge", json!("1 day")),
        ],
    );
    let fetched = json!({"type": "web_fetch_result", "url": "https://a.example", "retrieved_at": "2026-01-01T00:00:00Z", "content": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "page"}, "title": "A"}});
    check(
        "web_fetch",
        json!({"url": "https://a.example"}),
        fetched,
        &[
            ("/kind", json!("server-tool-result")),
            ("/output/0/kind", json!("grounding-source")),
            ("/output/1/kind", json!("document")),
            ("/output/1/source/data", json!("page")),
        ],
    );
    for (name, input) in [
        ("code_execution", json!({"code": "1"})),
        ("bash_code_execution", json!({"command": "ls"})),
    ] {
        let ran = json!({"type": format!("{name}_result"), "stdout": "out", "stderr": "err", "return_code": 3, "content": [{"type": format!("{name}_output"), "file_id": "file_1"}], "abort_reason": null});
        check(
            name,
            input.clone(),
            ran,
            &[
                ("/kind", json!("code-execution-result")),
                ("/stdout", json!("out")),
                ("/stderr", json!("err")),
                ("/exitCode", json!(3)),
                ("/outcome", json!("failed")),
                ("/output/0/kind", json!("file")),
            ],
        );
        let late = json!({"type": format!("{name}_tool_result_error"), "error_code": "execution_time_exceeded"});
        check(
            name,
            input,
            late,
            &[
                ("/outcome", json!("timeout")),
                ("/error/category", json!("timeout")),
                ("/error/providerCode", json!("execution_time_exceeded")),
            ],
        );
    }
    let sealed = json!({"type": "encrypted_code_execution_result", "encrypted_stdout": "x", "stderr": "", "return_code": 0, "content": []});
    check(
        "code_execution",
        json!({"code": "1"}),
        sealed,
        &[("/outcome", json!("ok")), ("/stdout", Value::Null)],
    );
    let edit = |kind: &str, members: Value| {
        let mut content = members;
        content["type"] = json!(format!("text_editor_code_execution_{kind}"));
        content
    };
    let editor = "text_editor_code_execution";
    let view = edit(
        "view_result",
        json!({"file_type": "text", "content": "lines", "num_lines": 1, "start_line": 1, "total_lines": 1}),
    );
    check(
        editor,
        json!({"command": "view"}),
        view,
        &[("/kind", json!("server-tool-result")), ("/output/0/text", json!("lines"))],
    );
    check(
        editor,
        json!({"command": "create"}),
        edit("create_result", json!({"is_file_update": false})),
        &[("/output", json!([]))],
    );
    let replaced = edit(
        "str_replace_result",
        json!({"old_start": 1, "old_lines": 1, "new_start": 1, "new_lines": 1, "lines": ["-a", "+b"]}),
    );
    check(
        editor,
        json!({"command": "str_replace"}),
        replaced,
        &[("/output/0/text", json!("-a")), ("/output/1/text", json!("+b"))],
    );
    let refused = edit(
        "tool_result_error",
        json!({"error_code": "file_not_found", "error_message": "no such file"}),
    );
    check(
        editor,
        json!({"command": "view"}),
        refused,
        &[
            ("/isError", json!(true)),
            ("/error/category", json!("not-found")),
            ("/error/message", json!("no such file")),
        ],
    );
    let tools = json!({"type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "f"}]});
    check(
        "tool_search_tool_regex",
        json!({"pattern": "f"}),
        tools,
        &[("/toolType", json!("tool-search")), ("/output/0/text", json!("f"))],
    );
    check(
        "advisor",
        json!({}),
        json!({"type": "advisor_result", "text": "do it", "stop_reason": "end_turn"}),
        &[("/toolType", json!("advisor")), ("/output/0/text", json!("do it"))],
    );
    check(
        "advisor",
        json!({}),
        json!({"type": "advisor_redacted_result", "encrypted_content": "x"}),
        &[("/output", json!([]))],
    );
}

#[test]
fn errors_of_hosted_tools() {
    for (code, category) in [
        ("invalid_tool_input", "invalid-request"),
        ("unavailable", "server"),
        ("max_uses_exceeded", "limit"),
        ("too_many_requests", "rate-limit"),
        ("query_too_long", "invalid-request"),
        ("request_too_large", "too-large"),
        ("url_too_long", "invalid-request"),
        ("url_not_allowed", "permission"),
        ("url_not_in_prior_context", "invalid-request"),
        ("url_not_accessible", "not-found"),
        ("unsupported_content_type", "unsupported"),
        ("content_too_large", "too-large"),
        ("execution_time_exceeded", "timeout"),
        ("output_file_too_large", "too-large"),
        ("file_not_found", "not-found"),
        ("prompt_too_long", "max-context"),
        ("overloaded", "overloaded"),
        ("model_not_found", "not-found"),
        ("brand_new", "server"),
    ] {
        for name in ["web_search", "web_fetch"] {
            let block = json!({"type": format!("{name}_tool_result"), "tool_use_id": "srvtoolu_1", "content": {"type": format!("{name}_tool_result_error"), "error_code": code}});
            check_after(
                json!([call("srvtoolu_1", name, json!({}))]),
                "assistant",
                block,
                &[("/error/category", json!(category)), ("/error/providerCode", json!(code))],
            );
        }
    }
}

#[test]
fn blocks_of_servers_compaction_and_other_models() {
    let before = json!([{"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "wiki", "input": {}}]);
    let result =
        json!({"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": false, "content": [{"type": "text", "text": "it is"}]});
    check_after(
        before,
        "assistant",
        result,
        &[
            ("/kind", json!("server-tool-result")),
            ("/toolType", json!("mcp")),
            ("/isError", json!(false)),
            ("/output/0/text", json!("it is")),
        ],
    );
    let compaction = json!({"type": "compaction", "content": "so far", "encrypted_content": "x", "signature": "s"});
    check(
        "assistant",
        compaction,
        &[
            ("/kind", json!("compaction-summary")),
            ("/parts/0/text", json!("so far")),
            (
                "/covers",
                json!({"fromItemId": "op_offline.i0", "toItemId": "op_offline.i0", "count": 1}),
            ),
            ("/replaces", json!(false)),
            ("/author", json!("provider")),
        ],
    );
    let fallback =
        json!({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal", "category": "cyber"}});
    check(
        "assistant",
        fallback,
        &[
            ("/kind", json!("provider-switch")),
            ("/from/model", json!("a")),
            ("/to/model", json!("b")),
            ("/reason", json!("fallback")),
        ],
    );
    for block in [
        json!({"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "f"}}),
        json!({"type": "tool_removal", "tool": {"type": "mcp_toolset_reference", "mcp_server_name": "wiki"}}),
        json!({"type": "mcp_tool_listing", "mcp_server_name": "wiki", "tools": []}),
        json!({"type": "brand_new_block", "a": [1]}),
    ] {
        let kind = block["type"].clone();
        check("system", block, &[("/kind", json!("message")), ("/parts", json!([]))]);
        assert!(kind.is_string());
    }
}

#[test]
fn citations_of_every_location() {
    let part = "/parts/0/annotations/0";
    for (citation, source, span) in [
        (
            json!({"type": "char_location", "cited_text": "q", "document_index": 1, "document_title": "T", "start_char_index": 2, "end_char_index": 5}),
            "document",
            Some((2, 5, "code-point")),
        ),
        (
            json!({"type": "page_location", "cited_text": "q", "document_index": 1, "document_title": "T", "start_page_number": 2, "end_page_number": 3}),
            "document",
            Some((2, 3, "page")),
        ),
        (
            json!({"type": "content_block_location", "cited_text": "q", "document_index": 1, "document_title": "T", "start_block_index": 0, "end_block_index": 2}),
            "document",
            Some((0, 2, "block")),
        ),
        (
            json!({"type": "search_result_location", "cited_text": "q", "source": "s", "title": "T", "search_result_index": 1, "start_block_index": 0, "end_block_index": 1}),
            "search",
            Some((0, 1, "block")),
        ),
        (
            json!({"type": "web_search_result_location", "cited_text": "q", "url": "https://a.example", "title": "T", "encrypted_index": "x"}),
            "web",
            None,
        ),
    ] {
        let index = citation
            .get("document_index")
            .or(citation.get("search_result_index"))
            .cloned()
            .unwrap_or_default();
        let span = span.map(|(start, end, unit)| json!({"of": "source", "start": start, "end": end, "unit": unit}));
        let block = json!({"type": "text", "text": "a", "citations": [citation]});
        check(
            "assistant",
            block,
            &[
                (&format!("{part}/source/type"), json!(source)),
                (&format!("{part}/source/title"), json!("T")),
                (&format!("{part}/source/documentIndex"), index),
                (&format!("{part}/quotedText"), json!("q")),
                (&format!("{part}/spans/0"), span.unwrap_or_default()),
                (&format!("{part}/supports/partId"), json!("op_offline.i1.p0")),
            ],
        );
    }
}
