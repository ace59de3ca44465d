//! Whatever comes in place of a body, OpenAI Responses neither panics nor breaks the event grammar.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, fold_stream, result_of, sse};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::openai_responses::OpenAiResponses;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext};

/// Items of every shape, with what belongs to them.
fn items() -> Vec<Value> {
    vec![
        json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "phase": "commentary", "content": [
            {"type": "output_text", "text": "é🌍", "annotations": [{"type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://example.org/", "title": "t"}], "logprobs": []},
            {"type": "refusal", "refusal": "no"}]}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}, {"type": "input_file", "file_id": "f"}]}),
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}], "content": [{"type": "reasoning_text", "text": "c"}], "encrypted_content": "g"}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "caller": {"type": "program", "caller_id": "p"}}),
        json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "t"}]}),
        json!({"type": "custom_tool_call", "call_id": "d", "name": "f", "input": "x"}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "u"}]}}),
        json!({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": [{"file_id": "f", "score": 0.5, "text": "t"}]}),
        json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "x", "container_id": "c", "outputs": [{"type": "logs", "logs": "l"}, {"type": "image", "url": "u"}]}),
        json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}),
        json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": "o", "error": {"message": "m"}}),
        json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": [{}]}),
        json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{}"}),
        json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true}),
        json!({"type": "computer_call", "call_id": "e", "action": {"type": "wait"}, "pending_safety_checks": [{"id": "s", "code": "x"}]}),
        json!({"type": "computer_call_output", "call_id": "e", "output": {"type": "computer_screenshot", "image_url": "u"}, "acknowledged_safety_checks": [{"id": "s"}]}),
        json!({"type": "local_shell_call", "call_id": "g", "action": {"type": "exec", "command": ["ls"], "env": {}}}),
        json!({"type": "local_shell_call_output", "id": "g", "output": "x"}),
        json!({"type": "shell_call", "call_id": "h", "action": {"commands": ["ls"]}}),
        json!({"type": "shell_call_output", "call_id": "h", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]}),
        json!({"type": "apply_patch_call", "call_id": "i", "operation": {"type": "delete_file", "path": "p"}}),
        json!({"type": "tool_search_call", "call_id": null, "execution": "server", "arguments": {}}),
        json!({"type": "tool_search_output", "call_id": null, "execution": "server", "tools": []}),
        json!({"type": "program", "id": "p", "call_id": "j", "code": "f()", "fingerprint": "x"}),
        json!({"type": "program_output", "call_id": "j", "result": "1"}),
        json!({"type": "compaction", "encrypted_content": "x"}),
        json!({"type": "item_reference", "id": "msg_9"}),
        json!({"type": "brand_new"}),
    ]
}

fn root() -> Value {
    json!({"model": "m", "instructions": "i", "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"}, "store": false, "metadata": {"a": "b"}, "prompt_cache_key": "k",
        "conversation": {"id": "c"}, "context_management": [{"type": "compaction", "compact_threshold": 2000}], "usage": {"input_tokens": 1, "output_tokens_details": {"reasoning_tokens": 1}},
        "status": "completed", "incomplete_details": {"reason": "x"}, "id": "resp_1", "object": "response",
        "tools": [{"type": "function", "name": "f", "parameters": {}}, {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c", "format": {"type": "grammar"}}]},
            {"type": "mcp", "server_label": "s", "headers": {"a": "b"}, "require_approval": {"always": {"tool_names": ["x"]}}}, {"type": "code_interpreter", "container": {"type": "auto"}}]})
}

/// A value that may stand anywhere.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(1.5e300)),
        Just(json!(u64::MAX)),
        Just(json!("")),
        Just(json!("x/~0\u{7}é")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[{"type": "output_text"}]])),
        Just(json!({"type": "message", "role": "assistant", "content": [{}]})),
    ]
}

/// Changes a value at a place that `path` leads to: a member is replaced, removed or renamed.
fn mutate(value: &mut Value, path: &[usize], how: usize, odd: &Value) {
    match (value, path) {
        (Value::Object(members), [first, rest @ ..]) if !members.is_empty() => {
            let key = members.keys().nth(first % members.len()).unwrap().clone();
            if rest.is_empty() {
                match how % 3 {
                    0 => drop(members.insert(key, odd.clone())),
                    1 => drop(members.shift_remove(&key)),
                    _ => {
                        let value = members.shift_remove(&key).unwrap();
                        members.insert(format!("{key}x"), value);
                    }
                }
            } else {
                mutate(members.get_mut(&key).unwrap(), rest, how, odd);
            }
        }
        (Value::Array(list), [first, rest @ ..]) if !list.is_empty() => {
            let at = first % list.len();
            if rest.is_empty() {
                list[at] = odd.clone();
            } else {
                mutate(&mut list[at], rest, how, odd);
            }
        }
        (value, _) => *value = odd.clone(),
    }
}

type Change = (Vec<usize>, usize, Value);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (proptest::collection::vec(0..40_usize, 1..6), 0..3_usize, odd());
    proptest::collection::vec(change, 0..6)
}

fn body(member: &str, picked: &[usize], changes: &[Change]) -> Value {
    let all = items();
    let mut body = root();
    body[member] = Value::Array(picked.iter().map(|n| all[n % all.len()].clone()).collect());
    for (path, how, odd) in changes {
        mutate(&mut body, path, *how, odd);
    }
    body
}

fn context(resources: &[throughline_protocols::SideResource]) -> EncodeContext {
    let mut context = EncodeContext::plain(Capabilities::of(OpenAiResponses.capabilities()));
    context.private = Arc::new(Everything::of(resources));
    context
}

fn are_unique(resources: &[throughline_protocols::SideResource]) -> bool {
    let ids: std::collections::BTreeSet<_> = resources.iter().map(|resource| &resource.resource_id).collect();
    ids.len() == resources.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests(picked in proptest::collection::vec(0..40_usize, 0..8), changes in changes()) {
        let body = body("input", &picked, &changes);
        if let Ok(decoded) = OpenAiResponses.decode_request(body.to_string().as_bytes(), &DecodeContext::offline()) {
            prop_assert!(are_unique(&decoded.resources), "a resource twice");
            for context in [context(&decoded.resources), context(&[])] {
                let encoded = OpenAiResponses.encode_request(&decoded.unified, &context).unwrap();
                let wire: Value = serde_json::from_str(&encoded.body).unwrap();
                prop_assert!(wire.is_object());
                // What was made of it is read again.
                OpenAiResponses.decode_request(encoded.body.as_bytes(), &DecodeContext::offline()).map_err(|error| TestCaseError::fail(format!("{error:?}: {wire}")))?;
            }
        }
    }

    #[test]
    fn answers(picked in proptest::collection::vec(0..40_usize, 0..8), changes in changes()) {
        let body = body("output", &picked, &changes);
        if let Ok(decoded) = OpenAiResponses.decode_response(body.to_string().as_bytes(), &DecodeContext::offline()) {
            let mut fold = OfflineFold::new();
            fold.push(decoded).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!(fold.fold.is_complete());
            prop_assert!(are_unique(&fold.resources), "a resource twice");
            let context = context(&fold.resources);
            OpenAiResponses.encode_response(&result_of(&fold), &context).unwrap();
            let mut encoder = OpenAiResponses.stream_encoder(&context);
            let frames: Vec<_> = fold.events.iter().flat_map(|event| encoder.push(event)).collect();
            fold_stream(&OpenAiResponses, sse(&frames).as_bytes(), 4096);
        }
    }

    #[test]
    fn streams(picked in proptest::collection::vec((0..60_usize, 0..4_u64), 0..24), changes in changes(), piece in 1..64_usize) {
        let mut events: Vec<Value> = items().into_iter().flat_map(|item| [
            json!({"type": "response.output_item.added", "item": item}),
            json!({"type": "response.output_item.done", "item": item}),
        ]).collect();
        events.extend([
            json!({"type": "response.created", "response": root()}),
            json!({"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}}),
            json!({"type": "response.output_text.delta", "delta": "d"}),
            json!({"type": "response.output_text.done", "text": "dd"}),
            json!({"type": "response.refusal.delta", "delta": "r"}),
            json!({"type": "response.reasoning_summary_text.delta", "delta": "s"}),
            json!({"type": "response.reasoning_text.delta", "delta": "t"}),
            json!({"type": "response.function_call_arguments.delta", "delta": "{"}),
            json!({"type": "response.custom_tool_call_input.done", "input": "x"}),
            json!({"type": "response.mcp_call_arguments.done", "arguments": "{}"}),
            json!({"type": "response.code_interpreter_call_code.delta", "delta": "x"}),
            json!({"type": "response.web_search_call.searching"}),
            json!({"type": "response.mcp_call.in_progress"}),
            json!({"type": "response.output_text.annotation.added", "annotation": {"type": "file_path", "file_id": "f", "index": 0}}),
            json!({"type": "error", "message": "m"}),
            json!({"type": "response.completed", "response": root()}),
        ]);
        let mut chosen: Vec<Value> = picked.iter().map(|(n, index)| {
            let mut event = events[n % events.len()].clone();
            event["output_index"] = json!(index);
            event["content_index"] = json!(n % 3);
            event
        }).collect();
        let mut all = Value::Array(chosen.clone());
        for (path, how, odd) in &changes {
            mutate(&mut all, path, *how, odd);
        }
        if let Value::Array(list) = all {
            chosen = list;
        }
        let text: String = chosen.iter().map(|event| ["data: ", &event.to_string(), "\n\n"].concat()).collect();
        let whole = fold_stream(&OpenAiResponses, text.as_bytes(), usize::MAX);
        let cut = fold_stream(&OpenAiResponses, text.as_bytes(), piece);
        prop_assert_eq!(result_of(&whole), result_of(&cut));
        prop_assert!(are_unique(&whole.resources), "a resource twice");
        let mut encoder = OpenAiResponses.stream_encoder(&context(&whole.resources));
        let frames: Vec<_> = whole.events.iter().flat_map(|event| encoder.push(event)).collect();
        fold_stream(&OpenAiResponses, sse(&frames).as_bytes(), piece);
    }
}
