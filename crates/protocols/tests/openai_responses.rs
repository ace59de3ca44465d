//! Requests of OpenAI Responses: what each member and each item becomes, and that it comes back as it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::Everything;
use throughline_format::json::decode_slice;
use throughline_format::{LossSeverity, UnifiedRequestV2};
use throughline_protocols::openai_responses::OpenAiResponses;
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, Encoded};

fn decode(body: &Value) -> DecodedRequest {
    OpenAiResponses
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap_or_else(|error| panic!("{error:?}: {body}"))
}

fn plain() -> EncodeContext {
    EncodeContext::plain(Capabilities::of(OpenAiResponses.capabilities()))
}

fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> (Value, Encoded) {
    let encoded = OpenAiResponses.encode_request(request, context).unwrap();
    (serde_json::from_str(&encoded.body).unwrap(), encoded)
}

/// The body that the same owner gets back.
fn back(decoded: DecodedRequest) -> Value {
    let mut context = plain();
    context.stream = decoded.stream;
    context.private = Arc::new(Everything::of(&decoded.resources));
    encode(&decoded.unified, &context).0
}

/// The body that another owner of the same protocol gets.
fn elsewhere(body: &Value) -> (Value, Encoded) {
    encode(&decode(body).unified, &plain())
}

fn input(items: &[Value]) -> Value {
    json!({"model": "m", "input": items})
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": text})
}

/// A member of the body: where it stands in the record, as what, and that it comes back.
fn member(members: Value, pointer: &str, expected: Value) {
    let mut body = json!({"model": "m", "input": "hi"});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let decoded = decode(&body);
    let record = serde_json::to_value(&decoded.unified).unwrap();
    assert_eq!(record.pointer(pointer), Some(&expected), "{members}: {record}");
    assert_eq!(back(decoded), body);
}

/// A member without a word: kept, reported, and back for its owner only.
fn kept(members: Value) {
    let mut body = json!({"model": "m", "input": "hi"});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let decoded = decode(&body);
    let key = members.as_object().unwrap().keys().next().unwrap().clone();
    let path = format!("/{key}");
    assert!(decoded.loss.entries.iter().any(|entry| entry.path.starts_with(&path)), "{members}");
    assert_eq!(back(decoded), body);
    assert!(elsewhere(&body).0.get(&key).is_none_or(|left| left != &members[&key]), "{members}");
}

#[test]
fn every_member_has_its_place_and_comes_back() {
    let strong = |value: Value| json!({"value": value, "requirement": "required"});
    let usual = |value: Value| json!({"value": value, "requirement": "preferred"});
    let weak = |value: Value| json!({"value": value, "requirement": "optional"});
    member(json!({}), "/model/requested", json!("m"));
    member(json!({"max_output_tokens": 99}), "/generation/maxOutputTokens", usual(json!(99)));
    member(json!({"max_tool_calls": 3}), "/generation/maxToolCalls", usual(json!(3)));
    member(json!({"temperature": 0.5}), "/generation/temperature", usual(json!(0.5)));
    member(json!({"top_p": 0.25}), "/generation/topP", usual(json!(0.25)));
    member(json!({"top_logprobs": 4}), "/generation/logprobs/value/top", json!(4));
    member(
        json!({"parallel_tool_calls": false}),
        "/generation/parallelTools",
        usual(json!("one-at-a-time")),
    );
    member(
        json!({"parallel_tool_calls": true}),
        "/generation/parallelTools",
        usual(json!("allow")),
    );
    member(
        json!({"service_tier": "default"}),
        "/generation/serviceTier",
        usual(json!("standard")),
    );
    member(json!({"service_tier": "flex"}), "/generation/serviceTier", usual(json!("flex")));
    member(
        json!({"reasoning": {"effort": "high"}}),
        "/generation/reasoning/effort",
        usual(json!("high")),
    );
    member(
        json!({"reasoning": {"summary": "detailed"}}),
        "/generation/reasoning/summary",
        usual(json!("detailed")),
    );
    member(
        json!({"reasoning": {"generate_summary": "auto"}}),
        "/generation/reasoning/summary",
        usual(json!("auto")),
    );
    member(
        json!({"text": {"format": {"type": "text"}}}),
        "/output/format/value/kind",
        json!("text"),
    );
    member(
        json!({"text": {"format": {"type": "json_object"}}}),
        "/output/format/value/kind",
        json!("json-object"),
    );
    member(
        json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true, "description": "d"}}}),
        "/output/format/value",
        json!({"kind": "json-schema", "schema": {"type": "object"}, "name": "n", "description": "d", "strict": true}),
    );
    member(
        json!({"text": {"format": {"type": "grammar", "syntax": "regex", "definition": "a+"}}}),
        "/output/format/value",
        json!({"kind": "grammar", "syntax": "regex", "definition": "a+"}),
    );
    member(json!({"text": {"verbosity": "low"}}), "/output/verbosity", weak(json!("low")));
    for (wire, word) in [
        ("file_search_call.results", "file-search-results"),
        ("web_search_call.results", "search-results"),
        ("web_search_call.action.sources", "search-sources"),
        ("message.input_image.image_url", "input-image-urls"),
        ("computer_call_output.output.image_url", "computer-screenshots"),
        ("code_interpreter_call.outputs", "code-outputs"),
        ("reasoning.encrypted_content", "reasoning-private-state"),
        ("message.output_text.logprobs", "output-logprobs"),
    ] {
        member(json!({"include": [wire]}), "/output/includes", weak(json!([word])));
    }
    member(json!({"store": false}), "/state/persist", strong(json!(false)));
    member(json!({"store": true}), "/state/persist", usual(json!(true)));
    member(json!({"background": true}), "/state/background/value", json!({}));
    member(
        json!({"background": true, "background_options": {"completion_window": "2h"}}),
        "/state/background/value/completionWindow",
        json!("2h"),
    );
    member(
        json!({"context_management": [{"type": "compaction", "compact_threshold": 2000}]}),
        "/state/contextManagement/value",
        json!([{"kind": "compact", "triggerTokens": 2000}]),
    );
    member(
        json!({"truncation": "auto"}),
        "/state/contextManagement/value/0/kind",
        json!("truncate"),
    );
    member(
        json!({"prompt": {"id": "pmpt_1", "variables": {"a": "b"}}}),
        "/state/resources/0/resourceType",
        json!("prompt"),
    );
    member(
        json!({"previous_response_id": "resp_1"}),
        "/conversation/continuations/0/resourceType",
        json!("response"),
    );
    member(
        json!({"previous_response_id": "resp_1"}),
        "/conversation/completeness",
        json!("reference-only"),
    );
    member(
        json!({"conversation": "conv_1"}),
        "/conversation/continuations/0/resourceType",
        json!("conversation"),
    );
    member(
        json!({"conversation": {"id": "conv_1"}}),
        "/conversation/continuations/0/resourceType",
        json!("conversation"),
    );
    member(json!({"prompt_cache_key": "k"}), "/cache/affinityKey", json!("k"));
    member(
        json!({"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}),
        "/cache/mode",
        json!("explicit"),
    );
    member(
        json!({"prompt_cache_options": {"mode": "implicit"}}),
        "/cache/mode",
        json!("automatic"),
    );
    member(json!({"metadata": {"a": "b"}}), "/metadata/labels/a", json!("b"));
    member(json!({"user": "u"}), "/metadata/endUserRef", json!("u"));
    member(
        json!({"instructions": "be brief"}),
        "/conversation/items/0/placement",
        json!("instructions"),
    );
    member(
        json!({"instructions": "be brief"}),
        "/conversation/items/0/role",
        json!("developer"),
    );
    member(json!({"stream": true}), "/schemaVersion", json!("2.0"));
}

#[test]
fn members_without_a_word_are_kept_for_their_owner() {
    kept(json!({"prompt_cache_retention": "24h"}));
    kept(json!({"safety_identifier": "s"}));
    kept(json!({"moderation": {"model": "omni"}}));
    kept(json!({"truncation": "disabled"}));
    kept(json!({"reasoning": {"context": "all_turns", "mode": "pro"}}));
    kept(json!({"stream_options": {"include_obfuscation": false}}));
    kept(json!({"image": {"context_compression": "auto"}}));
    kept(json!({"access_programs": {"cyber": true}}));
    kept(json!({"brand_new": {"a": [1.50, "x"]}}));
    kept(json!({"temperature": "hot"}));
    kept(json!({"tools": []}));
    kept(json!({"stream": false}));
    kept(json!({"background": false}));
}

/// One wire item between two messages: the kinds that it becomes, a value of the record, and that it comes back.
fn item(wire: &Value, kinds: &[&str], pointer: &str, expected: Value) {
    items(std::slice::from_ref(wire), kinds, pointer, expected);
}

fn items(wire: &[Value], kinds: &[&str], pointer: &str, expected: Value) {
    let mut list = vec![user("before")];
    list.extend_from_slice(wire);
    list.push(json!({"type": "message", "id": "msg_z", "role": "assistant", "content": [{"type": "output_text", "text": "after"}]}));
    let body = input(&list);
    let decoded = decode(&body);
    let record = serde_json::to_value(&decoded.unified.conversation.items).unwrap();
    let found: Vec<&str> = record
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(found[1..found.len() - 1], *kinds, "{wire:?}");
    assert_eq!(record.pointer(&format!("/1{pointer}")), Some(&expected), "{wire:?}: {}", record[1]);
    assert_eq!(back(decoded), body);
}

#[test]
fn messages() {
    let message = |role: &str, part: Value| json!({"type": "message", "role": role, "content": [part]});
    let m = &["message"];
    item(&user("hi"), m, "/parts/0/text", json!("hi"));
    item(&json!({"role": "user", "content": "no type"}), m, "/parts/0/text", json!("no type"));
    item(
        &message("user", json!({"type": "input_text", "text": "hi"})),
        m,
        "/parts/0/text",
        json!("hi"),
    );
    item(
        &message("system", json!({"type": "input_text", "text": "s"})),
        m,
        "/placement",
        json!("inline"),
    );
    item(
        &message("developer", json!({"type": "input_text", "text": "s"})),
        m,
        "/role",
        json!("developer"),
    );
    item(
        &message(
            "user",
            json!({"type": "input_image", "image_url": "https://example.org/a.png", "detail": "original"}),
        ),
        m,
        "/parts/0/media/detail",
        json!("original"),
    );
    item(
        &message(
            "user",
            json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}),
        ),
        m,
        "/parts/0/source/data",
        json!("AAAA"),
    );
    item(
        &message("user", json!({"type": "input_image", "file_id": "file-1", "detail": "low"})),
        m,
        "/parts/0/source/resource/resourceType",
        json!("file"),
    );
    item(
        &message(
            "user",
            json!({"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}),
        ),
        m,
        "/parts/0/kind",
        json!("document"),
    );
    item(
        &message("user", json!({"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"})),
        m,
        "/parts/0/source/mediaType",
        json!("application/pdf"),
    );
    item(
        &message("user", json!({"type": "input_file", "file_url": "https://example.org/a.pdf"})),
        m,
        "/parts/0/source/url",
        json!("https://example.org/a.pdf"),
    );
    item(
        &message("user", json!({"type": "input_file", "file_id": "file-1"})),
        m,
        "/parts/0/kind",
        json!("file"),
    );
    item(
        &message(
            "user",
            json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}),
        ),
        m,
        "/parts/0/source/mediaType",
        json!("audio/mpeg"),
    );
    item(
        &message("user", json!({"type": "input_smell", "scent": "rose"})),
        m,
        "/parts/0/text",
        json!(""),
    );
    item(
        &message(
            "user",
            json!({"type": "input_text", "text": "t", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}),
        ),
        m,
        "/parts/0/text",
        json!("t"),
    );
    item(
        &json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "t",
            "annotations": [{"type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://example.org/", "title": "x"}],
            "logprobs": [{"token": "t", "bytes": [116], "logprob": -0.5, "top_logprobs": [{"token": "u", "bytes": [117], "logprob": -1.5}]}]}]}),
        m,
        "/parts/0/annotations/0/spans/0",
        json!({"of": "answer", "start": 0, "end": 1, "unit": "character"}),
    );
    item(
        &message("assistant", json!({"type": "refusal", "refusal": "no"})),
        m,
        "/parts/0/kind",
        json!("refusal"),
    );
}

#[test]
fn annotations_keep_their_files_apart() {
    let text = |annotation: Value| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "abcd", "annotations": [annotation]}]});
    let at = "/parts/0/annotations/0";
    for (annotation, pointer, expected) in [
        (
            json!({"type": "file_citation", "file_id": "file-secret", "filename": "f", "index": 2}),
            "/source/title",
            json!("f"),
        ),
        (
            json!({"type": "container_file_citation", "container_id": "cntr-secret", "file_id": "file-secret", "filename": "f", "start_index": 1, "end_index": 2}),
            "/spans/0/end",
            json!(2),
        ),
        (
            json!({"type": "file_path", "file_id": "file-secret", "index": 3}),
            "/kind",
            json!("file-path"),
        ),
        (
            json!({"type": "url_citation", "url": "https://example.org/", "title": "t", "start_index": 0, "end_index": 4}),
            "/source/uri",
            json!("https://example.org/"),
        ),
    ] {
        let wire = text(annotation);
        item(&wire, &["message"], &format!("{at}{pointer}"), expected);
        let record = serde_json::to_string(&decode(&input(&[wire])).unified).unwrap();
        assert!(!record.contains("secret"), "{record}");
    }
    // One of an unknown type is no citation, and is kept.
    item(
        &text(json!({"type": "smell_citation", "nose": 1})),
        &["message"],
        "/parts/0/text",
        json!("abcd"),
    );
}

#[test]
fn reasoning_keeps_its_secret() {
    let one = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}], "content": [{"type": "reasoning_text", "text": "c"}], "encrypted_content": "gAAA-secret"});
    item(&one, &["reasoning"], "/parts/1/form", json!("full"));
    item(&one, &["reasoning"], "/parts/0/privateState/issuer", json!("client-asserted"));
    let empty = json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAA-secret"});
    item(&empty, &["reasoning"], "/parts/0/state", json!("omitted"));
    item(
        &json!({"type": "reasoning", "id": "rs_2", "summary": []}),
        &["reasoning"],
        "/parts/0/state",
        json!("omitted"),
    );
    item(
        &json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "open"}]}),
        &["reasoning"],
        "/parts/0/text",
        json!("open"),
    );
    let record = serde_json::to_string(&decode(&input(&[one, user("x")])).unified).unwrap();
    assert!(!record.contains("secret") && !record.contains("rs_1"), "{record}");
}

#[test]
fn calls_of_the_client_with_their_outputs() {
    let pair =
        |call: Value, output: Value, kinds: &[&str], pointer: &str, expected: Value| items(&[call, output], kinds, pointer, expected);
    let both = ["tool-call", "tool-result"];
    pair(
        json!({"type": "function_call", "id": "fc_1", "call_id": "c.1", "name": "f", "arguments": "{\"a\": 1}", "status": "completed", "namespace": "n", "caller": {"type": "program", "caller_id": "p"}}),
        json!({"type": "function_call_output", "call_id": "c.1", "output": "done"}),
        &both,
        "/caller",
        json!({"kind": "code", "callId": "p"}),
    );
    pair(
        json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "no json", "async": true, "caller": {"type": "direct"}}),
        json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"}, {"type": "input_file", "file_id": "file-1"}]}),
        &both,
        "/rawArguments",
        json!("no json"),
    );
    pair(
        json!({"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "SELECT 1"}),
        json!({"type": "custom_tool_call_output", "call_id": "c", "output": "1"}),
        &both,
        "/toolType",
        json!("custom"),
    );
    pair(
        json!({"type": "apply_patch_call", "call_id": "c", "status": "completed", "operation": {"type": "update_file", "path": "a", "diff": "+b"}}),
        json!({"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no such file"}),
        &both,
        "/input/path",
        json!("a"),
    );
    pair(
        json!({"type": "tool_search_call", "call_id": "c", "execution": "client", "status": "completed", "arguments": {"goal": "g"}}),
        json!({"type": "tool_search_output", "call_id": "c", "execution": "client", "status": "completed", "tools": [{"type": "function", "name": "f", "parameters": {}}]}),
        &both,
        "/execution",
        json!("client"),
    );
    pair(
        json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": ["ls", "a b"], "env": {"A": "1"}, "timeout_ms": 5, "working_directory": "/tmp", "user": "u"}}),
        json!({"type": "local_shell_call_output", "id": "c", "output": "x"}),
        &["code-execution", "code-execution-result"],
        "/code",
        json!("ls 'a b'"),
    );
    pair(
        json!({"type": "shell_call", "call_id": "c", "status": "completed", "action": {"commands": ["ls", "pwd"], "timeout_ms": 9, "max_output_length": 7}, "environment": {"type": "local"}}),
        json!({"type": "shell_call_output", "call_id": "c", "max_output_length": 7, "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 2}}]}),
        &["code-execution", "code-execution-result"],
        "/commands",
        json!(["ls", "pwd"]),
    );
    pair(
        json!({"type": "shell_call", "call_id": "c", "status": "completed", "action": {"commands": ["ls"]}, "environment": {"type": "container_reference", "container_id": "cntr_1"}}),
        json!({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "timeout"}}, {"stdout": "b", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
        &["code-execution", "code-execution-result"],
        "/execution",
        json!("provider"),
    );
    pair(
        json!({"type": "computer_call", "id": "cu_1", "call_id": "c", "status": "completed", "action": {"type": "click", "x": 1, "y": 2, "button": "left"}, "pending_safety_checks": [{"id": "s", "code": "malicious", "message": "m"}]}),
        json!({"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}, "acknowledged_safety_checks": [{"id": "s", "code": "malicious", "message": "m"}]}),
        &["computer-action", "approval-request", "computer-action-result", "approval-response"],
        "/actions/0",
        json!({"action": "click", "x": 1, "y": 2, "button": "left"}),
    );
    pair(
        json!({"type": "computer_call", "id": "cu_1", "call_id": "c", "status": "completed", "actions": [{"type": "screenshot"}, {"type": "wait"}], "pending_safety_checks": []}),
        json!({"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "file_id": "file-1"}}),
        &["computer-action", "computer-action-result"],
        "/lifecycle",
        json!("arguments-ready"),
    );
}

#[test]
fn hosted_calls_with_their_outcome() {
    let search = ["server-tool-call", "search-result"];
    item(
        &json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://example.org/"}]}}),
        &search,
        "/input/query",
        json!("q"),
    );
    item(
        &json!({"type": "web_search_call", "id": "ws_1", "status": "failed", "action": {"type": "open_page", "url": "https://example.org/"}}),
        &search,
        "/lifecycle",
        json!("output-error"),
    );
    item(
        &json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "find_in_page", "url": "https://example.org/", "pattern": "p"}}),
        &search,
        "/providerExecuted",
        json!(true),
    );
    item(
        &json!({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": [{"file_id": "file-1", "filename": "f", "score": 0.5, "text": "t", "attributes": {"a": 1}}]}),
        &["server-tool-call", "retrieval-result"],
        "/toolType",
        json!("file-search"),
    );
    for outputs in [
        json!([{"type": "logs", "logs": "1"}]),
        json!([{"type": "logs", "logs": "1"}, {"type": "image", "url": "https://example.org/a.png"}]),
    ] {
        item(
            &json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "print(1)", "container_id": "cntr_1", "outputs": outputs}),
            &["code-execution", "code-execution-result"],
            "/container/resourceType",
            json!("container"),
        );
    }
    item(
        &json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA", "revised_prompt": "p", "output_format": "webp", "size": "1x1", "quality": "low", "background": "opaque", "action": "generate"}),
        &["server-tool-call", "server-tool-result"],
        "/toolType",
        json!("image-generation"),
    );
    let mcp = ["server-tool-call", "server-tool-result"];
    item(
        &json!({"type": "mcp_call", "id": "mcp_1", "status": "completed", "server_label": "s", "name": "n", "arguments": "{}", "output": "o", "approval_request_id": "mcpr_1"}),
        &mcp,
        "/serverLabel",
        json!("s"),
    );
    item(
        &json!({"type": "mcp_call", "id": "mcp_1", "status": "failed", "server_label": "s", "name": "n", "arguments": "{}", "error": {"type": "http_error", "code": 500, "message": "m"}}),
        &mcp,
        "/lifecycle",
        json!("output-error"),
    );
    item(
        &json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": [{"name": "n", "description": "d", "input_schema": {"type": "object"}, "annotations": {}}]}),
        &["server-tool-result"],
        "/output/0/value/0/name",
        json!("n"),
    );
    items(
        &[
            json!({"type": "tool_search_call", "id": "tsc_1", "execution": "server", "status": "completed", "arguments": {"paths": ["a"]}}),
            json!({"type": "tool_search_output", "id": "tso_1", "execution": "server", "status": "completed", "tools": [{"type": "function", "name": "f"}]}),
        ],
        &["server-tool-call", "server-tool-result"],
        "/execution",
        json!("provider"),
    );
    items(
        &[
            json!({"type": "program", "id": "prog_1", "call_id": "c", "code": "f()", "fingerprint": "gAAA-secret"}),
            json!({"type": "program_output", "id": "po_1", "call_id": "c", "status": "completed", "result": "1"}),
        ],
        &["code-execution", "code-execution-result"],
        "/language",
        json!("javascript"),
    );
}

#[test]
fn approvals_references_compaction_and_unknown_items() {
    items(
        &[
            json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{\"a\":1}"}),
            json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": false, "reason": "r"}),
        ],
        &["approval-request", "approval-response"],
        "/approvalId",
        json!("mcpr_1"),
    );
    item(
        &json!({"type": "item_reference", "id": "msg_1"}),
        &["reference"],
        "/target/resource/resourceType",
        json!("item"),
    );
    item(
        &json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}),
        &["compaction-summary"],
        "/covers/count",
        json!(1),
    );
    let large = "x".repeat(20_000);
    for unknown in [
        json!({"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f", "parameters": {}}]}),
        json!({"type": "configuration_update", "reasoning": {"effort": "low"}}),
        json!({"type": "agent_message", "id": "am_1", "agent": {"agent_name": "a"}, "content": []}),
        json!({"type": "brand_new", "id": "bn_1", "deep": [{"x": 1.50}]}),
        json!({"type": "brand_new", "id": "bn_1", "text": large}),
    ] {
        item(&unknown, &["message"], "/parts", json!([]));
        let decoded = decode(&input(&[user("x"), unknown]));
        assert!(decoded.loss.entries.iter().any(|entry| entry.path.starts_with("/input/1")));
    }
    let trigger = input(&[user("x"), json!({"type": "compaction_trigger"})]);
    assert_eq!(back(decode(&trigger)), trigger);
}

/// A tool: its kind, a value of the definition, and that it comes back.
fn tool(wire: Value, kind: &str, pointer: &str, expected: Value) {
    let body = json!({"model": "m", "input": "hi", "tools": [wire]});
    let decoded = decode(&body);
    let record = serde_json::to_value(&decoded.unified.tools).unwrap();
    assert_eq!(record[0]["kind"], kind, "{body}");
    assert_eq!(record.pointer(&format!("/0{pointer}")), Some(&expected), "{record}");
    assert!(!record.to_string().contains("secret"), "{record}");
    assert_eq!(back(decoded), body);
}

#[test]
fn every_tool_comes_back() {
    tool(
        json!({"type": "function", "name": "f", "description": "d", "parameters": {"type": "object", "x": 1.0}, "strict": false, "defer_loading": true, "async": true, "allowed_callers": ["direct", "programmatic"], "output_schema": {"type": "string"}}),
        "function",
        "/allowedCallers",
        json!(["model", "code"]),
    );
    tool(
        json!({"type": "function", "name": "f"}),
        "function",
        "/portability",
        json!("portable"),
    );
    tool(
        json!({"type": "custom", "name": "c", "format": {"type": "text"}}),
        "custom",
        "/grammar/syntax",
        json!("text"),
    );
    tool(
        json!({"type": "custom", "name": "c", "description": "d", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}}),
        "custom",
        "/grammar/definition",
        json!("start: x"),
    );
    tool(json!({"type": "tool_search"}), "tool-search", "/execution", json!("provider"));
    tool(
        json!({"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}}),
        "tool-search",
        "/execution",
        json!("client"),
    );
    for word in [
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    ] {
        tool(
            json!({"type": word, "search_context_size": "low", "user_location": {"type": "approximate", "city": "c", "country": "DE", "region": "r", "timezone": "Europe/Berlin"}}),
            "web-search",
            "/config/userLocation/city",
            json!("c"),
        );
    }
    tool(
        json!({"type": "web_search", "filters": {"allowed_domains": ["example.org"]}, "external_web_access": false}),
        "web-search",
        "/config/allowedDomains",
        json!(["example.org"]),
    );
    tool(
        json!({"type": "file_search", "vector_store_ids": ["vs_secret"], "max_num_results": 3, "filters": {"type": "eq", "key": "a", "value": 1}, "ranking_options": {"ranker": "auto", "score_threshold": 0.5, "hybrid_search": {"embedding_weight": 1}}}),
        "file-search",
        "/config/maxResults",
        json!(3),
    );
    tool(json!({"type": "computer"}), "computer-use", "/execution", json!("client"));
    tool(
        json!({"type": "computer_use_preview", "display_width": 10, "display_height": 20, "environment": "browser"}),
        "computer-use",
        "/config/displayWidth",
        json!(10),
    );
    tool(
        json!({"type": "code_interpreter", "container": "cntr_secret"}),
        "code-execution",
        "/portability",
        json!("owner-bound"),
    );
    tool(
        json!({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-secret"], "memory_limit": "4g", "network_policy": {"type": "allowlist", "allowed_domains": ["example.org"]}}}),
        "code-execution",
        "/config/memoryLimit",
        json!("4g"),
    );
    tool(
        json!({"type": "image_generation", "size": "1x1", "quality": "low", "output_format": "png", "background": "opaque", "partial_images": 2, "moderation": "low"}),
        "image-generation",
        "/config/image/size",
        json!("1x1"),
    );
    tool(
        json!({"type": "mcp", "server_label": "s", "server_url": "https://example.org/mcp?key=secret", "headers": {"x": "secret"}, "authorization": "secret", "allowed_tools": ["a"], "require_approval": {"never": {"tool_names": ["a"]}}, "server_description": "d"}),
        "mcp",
        "/approval",
        json!({"neverFor": ["a"]}),
    );
    tool(
        json!({"type": "mcp", "server_label": "s", "connector_id": "connector_gmail", "require_approval": "always"}),
        "mcp",
        "/approval",
        json!("always"),
    );
    tool(json!({"type": "local_shell"}), "shell", "/execution", json!("client"));
    tool(
        json!({"type": "shell", "environment": {"type": "local", "skills": []}}),
        "shell",
        "/execution",
        json!("client"),
    );
    tool(
        json!({"type": "shell", "environment": {"type": "container_auto", "memory_limit": "1g"}}),
        "shell",
        "/execution",
        json!("provider"),
    );
    tool(
        json!({"type": "shell", "environment": {"type": "container_reference", "container_id": "cntr_secret"}}),
        "shell",
        "/resources/0/resourceType",
        json!("container"),
    );
    tool(json!({"type": "apply_patch"}), "apply-patch", "/execution", json!("client"));
    tool(
        json!({"type": "programmatic_tool_calling"}),
        "programmatic-calling",
        "/execution",
        json!("provider"),
    );
    tool(
        json!({"type": "x_search", "from": "secret"}),
        "openai-responses:x_search",
        "/portability",
        json!("owner-bound"),
    );
    tool(
        json!({"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}, {"type": "custom", "name": "g"}]}),
        "function",
        "/namespace",
        json!("n"),
    );
}

#[test]
fn every_tool_choice_comes_back() {
    let choice =
        |wire: Value, pointer: &str, expected: Value| member(json!({"tool_choice": wire}), &format!("/toolChoice{pointer}"), expected);
    choice(json!("auto"), "/kind", json!("auto"));
    choice(json!("none"), "/kind", json!("none"));
    choice(json!("required"), "/kind", json!("required"));
    choice(json!({"type": "function", "name": "f"}), "/tool/name", json!("f"));
    choice(json!({"type": "custom", "name": "c"}), "/tool/toolType", json!("custom"));
    choice(
        json!({"type": "mcp", "server_label": "s", "name": "n"}),
        "/tool/serverLabel",
        json!("s"),
    );
    choice(
        json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}, {"type": "image_generation"}]}),
        "/tools/1/toolType",
        json!("image-generation"),
    );
    for (word, kind) in [
        ("file_search", "file-search"),
        ("web_search_preview", "web-search"),
        ("web_search_preview_2025_03_11", "web-search"),
        ("computer", "computer-use"),
        ("computer_use", "computer-use"),
        ("computer_use_preview", "computer-use"),
        ("image_generation", "image-generation"),
        ("code_interpreter", "code-execution"),
        ("programmatic_tool_calling", "programmatic-calling"),
        ("apply_patch", "apply-patch"),
        ("shell", "shell"),
    ] {
        choice(json!({"type": word}), "/tool/toolType", json!(kind));
    }
    kept(json!({"tool_choice": {"type": "brand_new"}}));
}

#[test]
fn what_cannot_be_read_is_refused_at_its_place() {
    for (body, code, pointer) in [
        ("[]", "invalid-request.wrong-type", ""),
        ("{", "invalid-request.json", ""),
        (r#"{"model":"m"}"#, "invalid-request.missing-field", "/input"),
        (r#"{"model":1,"input":"x"}"#, "invalid-request.wrong-type", "/model"),
        (r#"{"model":"m","input":7}"#, "invalid-request.wrong-type", "/input"),
        (r#"{"model":"m","input":[]}"#, "invalid-request.invalid-value", "/input"),
        (r#"{"model":"m","input":[1]}"#, "invalid-request.wrong-type", "/input/0"),
        (r#"{"model":"m","input":[{}]}"#, "invalid-request.missing-field", "/input/0/type"),
        (
            r#"{"model":"m","input":[{"role":"king","content":"x"}]}"#,
            "invalid-request.invalid-value",
            "/input/0/role",
        ),
        (
            r#"{"model":"m","input":[{"role":"user","content":7}]}"#,
            "invalid-request.wrong-type",
            "/input/0/content",
        ),
        (
            r#"{"model":"m","input":"x","instructions":7}"#,
            "invalid-request.wrong-type",
            "/instructions",
        ),
        (
            r#"{"model":"m","model":"n","input":"x"}"#,
            "invalid-request.duplicate-key",
            "/model",
        ),
    ] {
        let error = OpenAiResponses
            .decode_request(body.as_bytes(), &DecodeContext::offline())
            .unwrap_err();
        assert_eq!((error.code.as_str(), error.field_path.as_deref()), (code, Some(pointer)), "{body}");
    }
}

// ---- what the target refuses -----------------------------------------------------------------------------------

/// The types of the input that another owner gets.
fn types(body: &Value) -> Vec<String> {
    let (wire, _) = elsewhere(body);
    let kind = |item: &Value| item["type"].as_str().unwrap_or_default().to_owned();
    wire["input"].as_array().unwrap().iter().map(kind).collect()
}

#[test]
fn private_state_goes_to_its_owner_only() {
    let reasoning =
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAA"});
    let answer = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "t", "annotations": []}]});
    let body = input(&[user("q"), reasoning, answer, user("r")]);
    assert_eq!(back(decode(&body)), body);
    let (wire, encoded) = elsewhere(&body);
    assert!(
        !encoded.body.contains("gAAA") && !encoded.body.contains("rs_1") && !encoded.body.contains("msg_1"),
        "{wire}"
    );
    assert_eq!(types(&body), ["message", "message", "message"]);
    assert!(encoded.loss.entries.iter().any(|entry| entry.feature == "reasoning.text"));
}

#[test]
fn without_store_no_item_has_an_id() {
    let mut body = input(&[
        user("q"),
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}),
        json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "t", "annotations": []}]}),
        json!({"type": "reasoning", "id": "rs_2", "summary": []}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c", "output": "x"}),
    ]);
    body["store"] = json!(false);
    let wire = back(decode(&body));
    let ids: Vec<&Value> = wire["input"].as_array().unwrap().iter().filter_map(|item| item.get("id")).collect();
    assert!(ids.is_empty(), "{wire}");
    // Reasoning that lives at the provider only is nothing without its state.
    assert_eq!(wire["input"].as_array().unwrap().len(), 5, "{wire}");
    assert_eq!(wire["input"][1]["encrypted_content"], "gAAA");
}

#[test]
fn reasoning_stands_before_what_it_was_made_with() {
    let reasoning = |n: u8| json!({"type": "reasoning", "id": format!("rs_{n}"), "summary": [], "encrypted_content": format!("gAAA{n}")});
    let answer = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "t", "annotations": []}]});
    let kinds = |items: &[Value]| {
        let wire = back(decode(&input(items)));
        let list = wire["input"].as_array().unwrap().clone();
        list.iter()
            .map(|item| item["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&[user("q"), reasoning(1), answer.clone()]),
        ["message", "reasoning", "message"]
    );
    assert_eq!(kinds(&[user("q"), reasoning(1), user("r")]), ["message", "message"]);
    assert_eq!(kinds(&[user("q"), reasoning(1)]), ["message"]);
    assert_eq!(kinds(&[user("q"), reasoning(1), reasoning(2), user("r")]), ["message", "message"]);
    assert_eq!(
        kinds(&[user("q"), reasoning(1), reasoning(2), answer]),
        ["message", "reasoning", "reasoning", "message"]
    );
    // Messages may leave their type out.
    assert_eq!(kinds(&[user("q"), reasoning(1), user("r")]).len(), 2);
    let wire = back(decode(&input(&[user("q"), reasoning(1), json!({"role": "user", "content": "r"})])));
    assert_eq!(wire["input"].as_array().unwrap().len(), 2, "{wire}");
    // A follower without its ID: then the reasoning goes without one too.
    let bare = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]});
    let wire = back(decode(&input(&[user("q"), reasoning(1), bare])));
    assert!(wire["input"][1].get("id").is_none(), "{wire}");
}

#[test]
fn calls_have_outputs_and_outputs_have_calls() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    for (items, expected) in [
        (
            vec![user("q"), call("a"), output("a")],
            vec!["message", "function_call", "function_call_output"],
        ),
        (
            vec![user("q"), call("a"), user("r")],
            vec!["message", "function_call", "function_call_output", "message"],
        ),
        (vec![user("q"), output("a")], vec!["message", "message"]),
        (
            vec![user("q"), output("a"), call("a")],
            vec!["message", "message", "function_call", "function_call_output"],
        ),
        (
            vec![user("q"), call("a"), call("b"), output("b"), output("a")],
            vec![
                "message",
                "function_call",
                "function_call",
                "function_call_output",
                "function_call_output",
            ],
        ),
        (
            vec![user("q"), call("a"), output("a"), output("a")],
            vec!["message", "function_call", "function_call_output", "message"],
        ),
        (
            vec![
                user("q"),
                json!({"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"}),
            ],
            vec!["message", "custom_tool_call", "custom_tool_call_output"],
        ),
        (
            vec![
                user("q"),
                json!({"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}}),
            ],
            vec!["message", "shell_call", "shell_call_output"],
        ),
        (
            vec![
                user("q"),
                json!({"type": "apply_patch_call", "call_id": "a", "operation": {"type": "delete_file", "path": "p"}}),
            ],
            vec!["message", "apply_patch_call", "apply_patch_call_output"],
        ),
        (
            vec![
                user("q"),
                json!({"type": "local_shell_call", "call_id": "a", "action": {"type": "exec", "command": ["ls"], "env": {}}}),
            ],
            vec!["message", "local_shell_call", "local_shell_call_output"],
        ),
        (
            vec![
                user("q"),
                json!({"type": "computer_call", "call_id": "a", "action": {"type": "wait"}, "pending_safety_checks": []}),
            ],
            vec!["message"],
        ),
    ] {
        assert_eq!(types(&input(&items)), expected);
        let (_, encoded) = elsewhere(&input(&items));
        let is_repaired = expected.len() != items.len() || expected.iter().filter(|kind| **kind == "message").count() > 1;
        let told = encoded.loss.entries.iter().any(|entry| entry.severity == LossSeverity::Warning);
        assert_eq!(told, is_repaired, "{items:?}");
    }
    // An output whose call is in state that the provider keeps.
    let mut body = input(&[output("a")]);
    body["previous_response_id"] = json!("resp_1");
    assert_eq!(back(decode(&body)), body);
}

#[test]
fn call_ids_are_mapped_one_to_one() {
    let long = "x".repeat(70);
    let longer = format!("{long}y");
    let pair = |id: &str| {
        [
            json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": id, "output": id}),
        ]
    };
    let items: Vec<Value> = [pair(&long), pair(&longer), pair("same"), pair("same")].concat();
    let (wire, encoded) = elsewhere(&input(&items));
    let ids: Vec<&str> = wire["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["call_id"].as_str().unwrap())
        .collect();
    assert!(ids.iter().all(|id| id.len() <= 64));
    for (n, id) in ids.iter().enumerate().step_by(2) {
        assert_eq!(ids[n + 1], *id, "an output follows its call");
    }
    let mut calls: Vec<&str> = ids.iter().copied().step_by(2).collect();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls.len(), 4);
    assert_eq!(encoded.body, elsewhere(&input(&items)).1.body);
    assert_eq!(ids[0], OpenAiResponses.wire_call_id(&long));
    assert!(encoded.loss.entries.iter().any(|entry| entry.feature == "tool.call.id"));
}

#[test]
fn the_encoding_of_a_history_begins_that_of_a_longer_one() {
    let items: Vec<Value> = vec![
        json!({"type": "message", "role": "developer", "content": "d"}),
        user("q"),
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}),
        json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "t", "annotations": []}]}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}),
        json!({"type": "function_call_output", "call_id": "c", "output": "x"}),
        user("r"),
        json!({"type": "message", "id": "msg_2", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "u", "annotations": []}]}),
        user("s"),
    ];
    let wire = |length: usize| back(decode(&input(&items[..length])))["input"].as_array().unwrap().clone();
    let whole = wire(items.len());
    // Ends of turns: where somebody else speaks next.
    for length in [2, 5, 7, 8, 9, 10] {
        let part = wire(length);
        assert_eq!(whole[..part.len()], part[..], "the first {length} items");
    }
}

// ---- other protocols -------------------------------------------------------------------------------------------

/// A request of another protocol with this history and these tools.
fn foreign(items: &[Value], tools: &Value) -> UnifiedRequestV2 {
    let numbered = items.iter().enumerate().map(|(n, item)| {
        let mut base = json!({"id": format!("op.i{n}"), "conversationId": "pending", "branchId": "pending", "sequence": n + 1,
            "createdAt": "2026-01-31T12:00:00.000Z", "visibility": "model", "status": "completed",
            "provenance": {"origin": "client", "attribution": {}, "profile": {"family": "anthropic-messages"}}});
        base.as_object_mut().unwrap().extend(item.as_object().unwrap().clone());
        base
    });
    let record = json!({"schemaVersion": "2.0", "requestId": "op", "conversation": {"completeness": "complete", "items": numbered.collect::<Vec<_>>()},
        "model": {"requested": "m"}, "generation": {}, "tools": tools,
        "source": {"profile": {"family": "anthropic-messages"}, "origin": "client", "receivedAt": "2026-01-31T12:00:00.000Z"}});
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {record}"))
}

fn text(role: &str, text: &str) -> Value {
    json!({"kind": "message", "role": role, "parts": [{"partId": "p", "kind": "text", "text": text}]})
}

#[test]
fn a_history_of_another_protocol_is_legal() {
    let system =
        json!({"kind": "message", "role": "system", "placement": "instructions", "parts": [{"partId": "p", "kind": "text", "text": "s"}]});
    let request = foreign(&[system, text("user", "q"), text("assistant", "a"), text("user", "r")], &json!([]));
    let (wire, _) = encode(&request, &plain());
    assert_eq!(wire["instructions"], "s");
    assert_eq!(wire["input"][1], json!({"type": "message", "role": "assistant", "content": "a"}));
    // Nothing of another protocol's conversation is stored, and reasoning has to come back.
    assert_eq!(wire["store"], false);
    assert_eq!(wire["include"], json!(["reasoning.encrypted_content"]));
}

#[test]
fn tools_of_another_protocol_are_offered_in_the_targets_words() {
    let tools = json!([
        {"toolId": "t0", "kind": "function", "execution": "client", "portability": "portable", "name": "a.b", "inputSchema": {"type": "object", "properties": {}}},
        {"toolId": "t1", "kind": "function", "execution": "client", "portability": "portable", "name": "s", "strict": true, "inputSchema": {"type": "object", "properties": {"x": {}}}},
        {"toolId": "t2", "kind": "web-search", "execution": "provider", "portability": "equivalent", "name": "web_search", "config": {"maxUses": 3, "allowedDomains": ["example.org"]}},
        {"toolId": "t3", "kind": "text-editor", "execution": "client", "portability": "portable", "name": "edit"},
        {"toolId": "t4", "kind": "advisor", "execution": "provider", "portability": "owner-bound", "requirement": "required", "name": "x"},
    ]);
    let (wire, encoded) = encode(&foreign(&[text("user", "q")], &tools), &plain());
    let kinds: Vec<&str> = wire["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["function", "function", "web_search", "function"]);
    assert_eq!(
        wire["tools"][0]["name"],
        OpenAiResponses.wire_tool_name(&foreign(&[], &tools).tools[0], &Capabilities::of(OpenAiResponses.capabilities()))
    );
    assert_eq!(wire["tools"][0]["strict"], false, "absent is not false here");
    assert_eq!(wire["tools"][1]["strict"], true, "the schema is closed for it");
    assert_eq!(wire["tools"][1]["parameters"]["required"], json!(["x"]));
    assert_eq!(wire["tools"][2]["filters"]["allowed_domains"], json!(["example.org"]));
    assert!(
        encoded.loss.is_unsupported(),
        "a required tool that cannot be offered ends the turn"
    );
    assert!(encoded.loss.entries.iter().any(|entry| entry.path == "/tools/2/config/maxUses"));
}

#[test]
fn the_codex_service_gets_only_what_its_client_sends() {
    let body = json!({"model": "m", "input": "hi", "max_output_tokens": 99, "temperature": 1.0, "user": "u", "metadata": {"a": "b"}});
    let mut context = plain();
    context.dialect = Some("codex".into());
    let (wire, encoded) = encode(&decode(&body).unified, &context);
    assert_eq!(wire["store"], false);
    assert_eq!(wire["instructions"], "");
    for member in ["max_output_tokens", "temperature", "user", "metadata"] {
        assert!(wire.get(member).is_none(), "{member}");
    }
    assert_eq!(
        encoded
            .loss
            .entries
            .iter()
            .filter(|entry| entry.reason == "this dialect refuses it")
            .count(),
        4
    );
}

#[test]
fn json_mode_has_the_word_in_its_input() {
    let mut request = foreign(&[text("user", "q")], &json!([]));
    request.output = Some(
        decode(&json!({"model": "m", "input": "x", "text": {"format": {"type": "json_object"}}}))
            .unified
            .output
            .unwrap(),
    );
    let (wire, _) = encode(&request, &plain());
    assert!(wire["input"].to_string().to_lowercase().contains("json"), "{wire}");
}
