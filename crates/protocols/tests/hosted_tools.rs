//! Hosted tools of every wire: each is a kind of its own in the record, and comes back as the wire wrote it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::samples::{item, request, with};
use support::{corpus, files, there_and_back};
use throughline_format::{ProtocolFamily, UnifiedToolType};
use throughline_protocols::{Capabilities, EncodeContext, codec_of, families};

/// A tool as a wire offers it, and the kind that it is.
fn rows() -> Vec<(&'static str, Value, &'static str)> {
    let gemini = |member: &str| json!({ member: {} });
    vec![
        (
            "anthropic-messages",
            json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 3}),
            "web-search",
        ),
        (
            "anthropic-messages",
            json!({"type": "web_fetch_20250910", "name": "web_fetch"}),
            "web-fetch",
        ),
        (
            "anthropic-messages",
            json!({"type": "code_execution_20250825", "name": "code_execution"}),
            "code-execution",
        ),
        (
            "anthropic-messages",
            json!({"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600}),
            "computer-use",
        ),
        ("anthropic-messages", json!({"type": "memory_20250818", "name": "memory"}), "memory"),
        ("anthropic-messages", json!({"type": "bash_20250124", "name": "bash"}), "shell"),
        (
            "anthropic-messages",
            json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
            "text-editor",
        ),
        ("openai-responses", json!({"type": "web_search"}), "web-search"),
        (
            "openai-responses",
            json!({"type": "file_search", "vector_store_ids": ["vs_1"]}),
            "file-search",
        ),
        (
            "openai-responses",
            json!({"type": "code_interpreter", "container": {"type": "auto"}}),
            "code-execution",
        ),
        (
            "openai-responses",
            json!({"type": "computer_use_preview", "display_width": 800, "display_height": 600, "environment": "browser"}),
            "computer-use",
        ),
        (
            "openai-responses",
            json!({"type": "mcp", "server_label": "m", "server_url": "https://m.example/y"}),
            "mcp",
        ),
        ("openai-responses", json!({"type": "image_generation"}), "image-generation"),
        ("openai-responses", json!({"type": "apply_patch"}), "apply-patch"),
        ("gemini-generate-content", gemini("googleSearch"), "web-search"),
        ("gemini-generate-content", gemini("urlContext"), "url-context"),
        ("gemini-generate-content", gemini("codeExecution"), "code-execution"),
        ("gemini-generate-content", gemini("googleMaps"), "maps"),
        (
            "vertex-gemini",
            json!({"retrieval": {"vertexAiSearch": {"datastore": "d"}}}),
            "retrieval",
        ),
        ("gemini-interactions", json!({"type": "google_search"}), "web-search"),
        ("gemini-interactions", json!({"type": "url_context"}), "url-context"),
        (
            "gemini-interactions",
            json!({"type": "mcp_server", "name": "m", "url": "https://m.example/y"}),
            "mcp",
        ),
    ]
}

fn body(family: &str, tool: &Value) -> Value {
    let base = match family {
        "anthropic-messages" => json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
        "openai-responses" | "gemini-interactions" => json!({"model": "m", "input": "hi"}),
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    };
    with(&base, &json!({"tools": [tool]}))
}

#[test]
fn every_hosted_tool_of_every_wire_has_its_kind_and_comes_back_as_it_was_offered() {
    throughline_format::clause!("TOOL-02");
    let mut seen = BTreeSet::from(["function", "custom"]);
    for (family, tool, kind) in rows() {
        let (record, back) = there_and_back(&ProtocolFamily::from_word(family), &body(family, &tool));
        assert_eq!(record["tools"][0]["kind"], kind, "{family}: {tool}");
        assert_eq!(back["tools"][0], tool, "{family}: {tool}");
        seen.insert(kind);
    }
    // Skills stand in the container of a request, and are tools of their own.
    let skills = json!({"container": {"skills": [{"type": "anthropic", "skill_id": "pdf", "version": "latest"}]}});
    let code = json!({"type": "code_execution_20250825", "name": "code_execution"});
    let (record, back) = there_and_back(
        &ProtocolFamily::AnthropicMessages,
        &with(&body("anthropic-messages", &code), &skills),
    );
    assert!(
        record["tools"].as_array().unwrap().iter().any(|tool| tool["kind"] == "skill"),
        "{record}"
    );
    assert_eq!(back["container"], skills["container"], "{back}");
    seen.insert("skill");
    // Of the other kinds no wire offers a tool in a form of its own; their records are tried below.
    let rest: Vec<_> = UnifiedToolType::WORDS.iter().filter(|word| !seen.contains(*word)).collect();
    assert_eq!(rest, [&"container", &"tool-search", &"programmatic-calling", &"advisor"]);
}

#[test]
fn every_kind_of_tool_is_typed_and_a_later_one_is_kept_as_the_word_that_it_is() {
    throughline_format::clause!("TOOL-02");
    for kind in UnifiedToolType::WORDS.iter().chain(&["elsewhere:later-tool"]) {
        let tool = json!({"toolId": "op.t0", "kind": kind, "execution": "provider", "portability": "owner-bound", "name": "mark_of_it"});
        let text = json!({"kind": "message", "parts": [{"partId": "op.i0.p0", "kind": "text", "text": "hi"}]});
        let source = ProtocolFamily::from_word("elsewhere:wire");
        let request = request(&source, &[item(&source, 0, "user", &text)], std::slice::from_ref(&tool));
        assert_eq!(serde_json::to_value(&request).unwrap()["tools"][0], tool, "{kind}");
        for family in families() {
            let codec = codec_of(family).unwrap();
            let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
            let encoded = codec.encode_request(&request, &context).unwrap();
            // Another provider's tool is no tool of this one, so it is told and never offered.
            let told = encoded.loss.entries.iter().any(|entry| entry.path.starts_with("/tools/0"));
            assert!(told && !encoded.body.contains("mark_of_it"), "{family}: {kind}: {}", encoded.body);
        }
    }
    // A type that a wire has and this version does not know.
    for (family, tool) in [
        (
            "anthropic-messages",
            json!({"type": "frobnicator_20991231", "name": "frobnicator", "depth": 3}),
        ),
        ("openai-responses", json!({"type": "frobnicator", "depth": 3})),
        ("gemini-interactions", json!({"type": "frobnicator", "depth": 3})),
    ] {
        let (record, back) = there_and_back(&ProtocolFamily::from_word(family), &body(family, &tool));
        let kind = record["tools"][0]["kind"].as_str().unwrap().to_owned();
        assert!(
            !UnifiedToolType::WORDS.contains(&kind.as_str()) && kind.contains("frobnicator"),
            "{family}: {kind}"
        );
        assert_eq!(back["tools"][0], tool, "{family}");
    }
}

#[test]
fn captured_hosted_tools_are_none_of_the_functions_and_come_back() {
    throughline_format::clause!("TOOL-02");
    let mut seen = 0;
    for family in ["anthropic-messages", "openai-responses", "gemini-interactions"] {
        let Some(folder) = corpus(&format!("wire/{family}/requests")) else {
            return;
        };
        for file in files(&folder, ".json") {
            let body: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            let hosted = |tool: &&Value| {
                tool["type"]
                    .as_str()
                    .is_some_and(|kind| !matches!(kind, "function" | "custom" | "namespace" | "mcp_toolset"))
            };
            let tools: Vec<&Value> = body["tools"].as_array().into_iter().flatten().filter(hosted).collect();
            if tools.is_empty() {
                continue;
            }
            let (record, back) = there_and_back(&ProtocolFamily::from_word(family), &body);
            let kinds = |record: &Value| -> usize {
                let all = record["tools"].as_array().into_iter().flatten();
                all.filter(|tool| !matches!(tool["kind"].as_str(), Some("function" | "custom")))
                    .count()
            };
            assert!(kinds(&record) >= tools.len(), "{}: {}", file.display(), record["tools"]);
            for tool in tools {
                let there = back["tools"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|given| given["type"] == tool["type"]);
                assert!(there, "{}: {tool} is not in {}", file.display(), back["tools"]);
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "only {seen} tools");
}
