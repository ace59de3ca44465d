//! Answers of OpenAI Responses: what items, events, endings and counters become, streams like the whole response, and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, corpus, files, fold_response, fold_stream, result_of, sse};
use throughline_format::ProtocolFamily;
use throughline_format::{EventBody, UnifiedFinishReason, UnifiedItemBody, content_fingerprint};
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::openai_responses::OpenAiResponses;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, WireFrame, codec_of, families};

fn response(members: Value) -> Value {
    let mut body = json!({"id": "resp_1", "object": "response", "created_at": 7, "status": "completed", "model": "m", "output": []});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

fn fold(body: &Value) -> OfflineFold {
    fold_response(&OpenAiResponses, body.to_string().as_bytes())
}

fn context(fold: &OfflineFold) -> EncodeContext {
    let mut context = EncodeContext::plain(Capabilities::of(OpenAiResponses.capabilities()));
    context.private = Arc::new(Everything::of(&fold.resources));
    context
}

/// The body that the same owner's client gets.
fn back(fold: &OfflineFold) -> Value {
    let encoded = OpenAiResponses.encode_response(&result_of(fold), &context(fold)).unwrap();
    serde_json::from_str(&encoded.body).unwrap()
}

/// The frames that a client gets of these events.
fn frames(fold: &OfflineFold, context: &EncodeContext) -> Vec<WireFrame> {
    let mut encoder = OpenAiResponses.stream_encoder(context);
    fold.events.iter().flat_map(|event| encoder.push(event)).collect()
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// What must hold of every response: it comes back, and a stream of it folds to the same.
fn both_ways(body: &Value) -> OfflineFold {
    let whole = fold(body);
    assert_eq!(without_nulls(&back(&whole)), without_nulls(body));
    let frames = frames(&whole, &context(&whole));
    let bytes = sse(&frames);
    for piece in [1, 7, usize::MAX] {
        let again = fold_stream(&OpenAiResponses, bytes.as_bytes(), piece);
        let (one, two) = (result_of(&whole), result_of(&again));
        assert_eq!(one.output, two.output, "{bytes}");
        assert_eq!((&one.status, &one.usage), (&two.status, &two.usage));
        assert_eq!(content_fingerprint(&one).unwrap(), content_fingerprint(&two).unwrap());
    }
    grammar(&frames);
    // What the stream ends with is the whole response.
    let last: Value = serde_json::from_str(&frames.last().unwrap().data).unwrap();
    assert_eq!(last["response"]["output"], back(&whole)["output"]);
    whole
}

/// What the official accumulators check.
fn grammar(frames: &[WireFrame]) {
    let events: Vec<Value> = frames.iter().map(|frame| serde_json::from_str(&frame.data).unwrap()).collect();
    let mut open: Vec<Value> = Vec::new();
    for (n, (event, frame)) in events.iter().zip(frames).enumerate() {
        assert_eq!(event["sequence_number"], n, "{event}");
        assert_eq!(frame.event, event["type"].as_str());
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(event["output_index"], open.len(), "{event}");
                open.push(event["item"].clone());
            }
            "response.output_item.done" => {
                let begun = &open[usize::try_from(event["output_index"].as_u64().unwrap()).unwrap()];
                for member in ["type", "id", "call_id"] {
                    assert_eq!(begun[member], event["item"][member], "{event}");
                }
            }
            _ if event.get("item_id").is_some() => {
                let begun = &open[usize::try_from(event["output_index"].as_u64().unwrap()).unwrap()];
                assert_eq!(begun["id"], event["item_id"], "{event}");
            }
            _ => {}
        }
    }
    assert_eq!(events[0]["type"], "response.created");
    let is_terminal = |event: &Value| {
        [
            "response.completed",
            "response.incomplete",
            "response.failed",
            "response.queued",
            "response.in_progress",
        ]
        .contains(&event["type"].as_str().unwrap())
    };
    assert!(is_terminal(events.last().unwrap()));
    assert!(events[2..events.len() - 1].iter().all(|event| !is_terminal(event)));
}

/// An output item: the kinds that it becomes, the ending, and that it comes back.
fn output(items: &[Value], kinds: &[&str], finish: UnifiedFinishReason) {
    let result = result_of(&both_ways(&response(json!({"output": items}))));
    let record = serde_json::to_value(&result.output).unwrap();
    let found: Vec<&str> = record
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(found, kinds, "{items:?}");
    assert_eq!(result.status.finish_reason, Some(finish), "{items:?}");
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
}

#[test]
fn every_item_of_an_answer_comes_back_whole_and_streamed() {
    use UnifiedFinishReason::{Refusal, RequiresAction, Stop, ToolCalls};
    let one = |item: Value, kinds: &[&str], finish| output(&[item], kinds, finish);
    one(message("hi"), &["message"], Stop);
    one(
        json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "phase": "final_answer", "content": [
            {"type": "output_text", "text": "see it", "annotations": [
                {"type": "url_citation", "start_index": 0, "end_index": 3, "url": "https://example.org/", "title": "t"},
                {"type": "file_citation", "file_id": "file-1", "filename": "f", "index": 2},
                {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "file-2", "filename": "g", "start_index": 1, "end_index": 2},
                {"type": "file_path", "file_id": "file-3", "index": 1}],
             "logprobs": [{"token": "see", "bytes": [115], "logprob": -0.5, "top_logprobs": [{"token": "saw", "bytes": [115], "logprob": -2.0}]}]},
            {"type": "output_text", "text": "more", "annotations": []}]}),
        &["message"],
        Stop,
    );
    one(
        json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}),
        &["message"],
        Refusal,
    );
    one(
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}], "content": [{"type": "reasoning_text", "text": "c"}], "encrypted_content": "gAAA"}),
        &["reasoning"],
        Stop,
    );
    one(
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}),
        &["reasoning"],
        Stop,
    );
    one(
        json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{\"a\": 1}", "status": "completed"}),
        &["tool-call"],
        ToolCalls,
    );
    one(
        json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "", "status": "completed", "namespace": "n", "caller": {"type": "program", "caller_id": "p"}}),
        &["tool-call"],
        ToolCalls,
    );
    one(
        json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "f", "input": "free", "status": "completed"}),
        &["tool-call"],
        ToolCalls,
    );
    one(
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://example.org/"}]}}),
        &["server-tool-call", "search-result"],
        Stop,
    );
    one(
        json!({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": [{"file_id": "file-1", "filename": "f", "score": 0.25, "text": "t", "attributes": {}}]}),
        &["server-tool-call", "retrieval-result"],
        Stop,
    );
    one(
        json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "print(1)", "container_id": "cntr_1", "outputs": [{"type": "logs", "logs": "1"}]}),
        &["code-execution", "code-execution-result"],
        Stop,
    );
    one(
        json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA", "output_format": "png", "size": "1x1"}),
        &["server-tool-call", "server-tool-result"],
        Stop,
    );
    one(
        json!({"type": "mcp_call", "id": "mcp_1", "status": "completed", "server_label": "s", "name": "n", "arguments": "{\"a\":1}", "output": "o"}),
        &["server-tool-call", "server-tool-result"],
        Stop,
    );
    one(
        json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []}),
        &["server-tool-result"],
        Stop,
    );
    one(
        json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{}"}),
        &["approval-request"],
        RequiresAction,
    );
    one(
        json!({"type": "computer_call", "id": "cu_1", "call_id": "c", "status": "completed", "action": {"type": "wait"}, "pending_safety_checks": []}),
        &["computer-action"],
        ToolCalls,
    );
    one(
        json!({"type": "computer_call", "id": "cu_1", "call_id": "c", "status": "completed", "action": {"type": "wait"}, "pending_safety_checks": [{"id": "s", "code": "x", "message": "m"}]}),
        &["computer-action", "approval-request"],
        RequiresAction,
    );
    one(
        json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": ["ls"], "env": {}}}),
        &["code-execution"],
        ToolCalls,
    );
    one(
        json!({"type": "shell_call", "id": "sh_1", "call_id": "c", "status": "completed", "action": {"commands": ["ls"]}}),
        &["code-execution"],
        ToolCalls,
    );
    output(
        &[
            json!({"type": "shell_call", "id": "sh_1", "call_id": "c", "status": "completed", "action": {"commands": ["ls"]}, "environment": {"type": "container_reference", "container_id": "cntr_1"}}),
            json!({"type": "shell_call_output", "id": "sho_1", "call_id": "c", "status": "completed", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
        ],
        &["code-execution", "code-execution-result"],
        Stop,
    );
    one(
        json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "c", "status": "completed", "operation": {"type": "delete_file", "path": "p"}}),
        &["tool-call"],
        ToolCalls,
    );
    one(
        json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "c", "execution": "client", "status": "completed", "arguments": {"goal": "g"}}),
        &["tool-call"],
        ToolCalls,
    );
    output(
        &[
            json!({"type": "tool_search_call", "id": "tsc_1", "execution": "server", "status": "completed", "arguments": {"paths": ["a"]}}),
            json!({"type": "tool_search_output", "id": "tso_1", "execution": "server", "status": "completed", "tools": [{"type": "function", "name": "f"}]}),
        ],
        &["server-tool-call", "server-tool-result"],
        Stop,
    );
    output(
        &[
            json!({"type": "program", "id": "prog_1", "call_id": "c", "code": "f()", "fingerprint": "gAAA"}),
            json!({"type": "program_output", "id": "po_1", "call_id": "c", "status": "completed", "result": "1"}),
        ],
        &["code-execution", "code-execution-result"],
        Stop,
    );
    one(
        json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}),
        &["compaction-summary"],
        Stop,
    );
    one(json!({"type": "brand_new", "id": "bn_1", "x": [1.50]}), &["message"], Stop);
    output(
        &[
            json!({"type": "reasoning", "id": "rs_1", "summary": []}),
            message("first"),
            json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}),
        ],
        &["reasoning", "message", "tool-call"],
        ToolCalls,
    );
}

#[test]
fn every_ending() {
    use UnifiedFinishReason as R;
    for (members, finish, original) in [
        (json!({"status": "completed"}), Some(R::Stop), Some("completed")),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            Some(R::Length),
            Some("max_output_tokens"),
        ),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
            Some(R::ContentFilter),
            Some("content_filter"),
        ),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "max_messages"}}),
            Some(R::Unknown),
            Some("max_messages"),
        ),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "steered"}}),
            Some(R::Interrupted),
            Some("steered"),
        ),
        (json!({"status": "incomplete"}), Some(R::Incomplete), Some("incomplete")),
        (json!({"status": "cancelled"}), Some(R::Cancelled), Some("cancelled")),
        (json!({"status": "queued"}), None, Some("queued")),
        (json!({"status": "in_progress"}), None, Some("in_progress")),
    ] {
        let body = response(members);
        let result = result_of(&fold(&body));
        assert_eq!(result.status.finish_reason, finish, "{body}");
        assert_eq!(result.status.original_reason.as_deref(), original, "{body}");
        assert_eq!(without_nulls(&back(&fold(&body))), body);
    }
    let failed = response(json!({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}}));
    let result = result_of(&both_ways(&failed));
    assert_eq!(result.status.finish_reason, Some(R::Failed));
    let error = result.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.retryable, error.message.as_str()),
        ("rate-limit.provider", true, "slow")
    );
}

#[test]
fn every_counter() {
    for (members, pointer, expected) in [
        (json!({"usage": {"input_tokens": 9}}), "/inputTotal/value", json!(9)),
        (
            json!({"usage": {"input_tokens_details": {"cached_tokens": 4}}}),
            "/cacheRead/value",
            json!(4),
        ),
        (
            json!({"usage": {"input_tokens_details": {"cache_write_tokens": 3}}}),
            "/cacheWrite/value",
            json!(3),
        ),
        (
            json!({"usage": {"input_tokens_details": {"cache_write_tokens_details": {"ttl_30m_tokens": 2, "ttl_12h_tokens": 1}}}}),
            "/cacheWriteByTtl/43200/value",
            json!(1),
        ),
        (json!({"usage": {"output_tokens": 8}}), "/outputTotal/value", json!(8)),
        (
            json!({"usage": {"output_tokens_details": {"reasoning_tokens": 5}}}),
            "/reasoning/value",
            json!(5),
        ),
        (json!({"usage": {"total_tokens": 17}}), "/total/value", json!(17)),
        (
            json!({"usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}}),
            "/inputUncached",
            json!({"value": 2, "scope": "request", "source": "derived"}),
        ),
        (
            json!({"tool_usage": {"web_search": {"num_requests": 2}}}),
            "/serverToolCalls/web-search/value",
            json!(2),
        ),
        (
            json!({"usage": {"server_side_tool_usage_details": {"mcp_calls": 2}, "num_sources_used": 1}}),
            "/serverToolCalls/mcp/value",
            json!(2),
        ),
        (
            json!({"usage": {"cost_in_usd_ticks": 5_000_000_000_u64}}),
            "/cost/0/value",
            json!(0.5),
        ),
    ] {
        let body = response(members);
        let usage = serde_json::to_value(result_of(&both_ways(&body)).usage.unwrap()).unwrap();
        assert_eq!(usage.pointer(pointer), Some(&expected), "{usage}");
    }
    assert_eq!(result_of(&fold(&response(json!({})))).usage, None, "unknown is not zero");
}

#[test]
fn what_a_response_repeats_comes_back() {
    let echo = json!({"completed_at": 8, "background": false, "instructions": "be brief", "max_output_tokens": 9, "parallel_tool_calls": true, "temperature": 1.0,
        "tool_choice": "auto", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "x": 1.50}}], "top_p": 0.5, "truncation": "disabled", "user": "u",
        "metadata": {"a": "b"}, "reasoning": {"effort": "low", "summary": null}, "text": {"format": {"type": "text"}}, "store": true, "service_tier": "default",
        "content_filters": [{"x": 1}], "brand_new": 1, "moderation": {"a": 1}});
    let whole = both_ways(&response(echo));
    // Schemas keep their line ends, and a frame is one line all the same.
    let text = response(json!({"tools": []})).to_string().replace(
        "\"tools\":[]",
        "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\n\"a\" : 1}}]",
    );
    let pretty = fold_response(&OpenAiResponses, text.as_bytes());
    assert!(frames(&pretty, &context(&pretty)).iter().all(|frame| !frame.data.contains('\n')));
    let losses: Vec<String> = result_of(&whole)
        .loss
        .unwrap()
        .entries
        .into_iter()
        .map(|entry| entry.path)
        .collect();
    assert_eq!(losses, ["/brand_new"], "what repeats the request is not worth a word");
    assert_eq!(result_of(&whole).model.service_tier.as_deref(), Some("default"));
}

#[test]
fn error_bodies_in_place_of_a_response() {
    for (body, code) in [
        (
            json!({"error": {"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded", "param": null}}),
            "max-context.prompt",
        ),
        (
            json!({"error": {"message": "m", "type": "server_error", "code": null}}),
            "server.provider",
        ),
        (
            json!({"error": {"message": "m", "code": "previous_response_not_found"}}),
            "checkpoint.provider",
        ),
        (
            json!({"error": {"message": "m", "code": "invalid_encrypted_content"}}),
            "checkpoint.provider",
        ),
        (json!({"code": "400", "error": "flat"}), "invalid-request.provider"),
        (json!({"error": "flat", "code": "insufficient_quota"}), "quota.exhausted"),
    ] {
        let whole = fold(&body);
        assert_eq!(result_of(&whole).error.unwrap().code, code, "{body}");
        assert_eq!(back(&whole), body);
    }
    let wire = OpenAiResponses.encode_error(&OpenAiResponses.decode_error(
        429,
        &ErrorHeaders::default(),
        br#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#,
    ));
    assert_eq!(wire.status, 429);
    assert_eq!(
        serde_json::from_str::<Value>(&wire.body).unwrap()["error"]["code"],
        "rate_limit_exceeded"
    );
}

#[test]
fn an_answer_goes_back_as_a_request_takes_it() {
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}),
        json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "t", "annotations": []}]}),
        json!({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBB"}),
        json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "f", "input": "x", "status": "completed"}),
    ];
    let answer = fold(&response(json!({"output": items})));
    for (store, keeps_ids) in [(None, true), (Some(false), false)] {
        let mut body = json!({"model": "m", "input": "q"});
        if let Some(store) = store {
            body["store"] = json!(store);
        }
        let decoded = OpenAiResponses
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap();
        let mut request = decoded.unified;
        request.conversation.items.extend(result_of(&answer).output);
        let mut context = EncodeContext::plain(Capabilities::of(OpenAiResponses.capabilities()));
        context.private = Arc::new(Everything::of(&answer.resources));
        let encoded = OpenAiResponses.encode_request(&request, &context).unwrap();
        let wire: Value = serde_json::from_str(&encoded.body).unwrap();
        let input = wire["input"].as_array().unwrap();
        let kinds: Vec<&str> = input.iter().map(|item| item["type"].as_str().unwrap()).collect();
        let expected = [
            "message",
            "reasoning",
            "message",
            "reasoning",
            "custom_tool_call",
            "custom_tool_call_output",
        ];
        assert_eq!(kinds, expected, "the call is answered");
        assert_eq!(input[1]["encrypted_content"], "gAAA");
        assert_eq!(input[2]["content"][0]["annotations"], json!([]));
        assert_eq!(input[2]["status"], "completed");
        assert!(input[4].get("status").is_none(), "a request takes none of a custom call");
        assert_eq!(input.iter().all(|item| item.get("id").is_none()), !keeps_ids, "{wire}");
    }
}

// ---- streams ---------------------------------------------------------------------------------------------------

fn stream(events: &[Value]) -> String {
    let mut all = vec![json!({"type": "response.created", "response": response(json!({"status": "in_progress"}))})];
    all.extend_from_slice(events);
    all.iter().map(|event| ["data: ", &event.to_string(), "\n\n"].concat()).collect()
}

fn ends(events: &[Value], members: Value) -> String {
    let mut all = events.to_vec();
    all.push(json!({"type": "response.completed", "response": response(members)}));
    stream(&all)
}

fn folded(text: &str) -> OfflineFold {
    let whole = fold_stream(&OpenAiResponses, text.as_bytes(), usize::MAX);
    for piece in [1, 3, 64] {
        let cut = fold_stream(&OpenAiResponses, text.as_bytes(), piece);
        assert_eq!(result_of(&whole), result_of(&cut), "pieces of {piece}");
    }
    let crlf = fold_stream(&OpenAiResponses, text.replace('\n', "\r\n").as_bytes(), 5);
    assert_eq!(result_of(&whole), result_of(&crlf));
    whole
}

fn text_of(fold: &OfflineFold, item: usize, part: usize) -> String {
    result_of(fold).output[item].parts()[part].as_text().unwrap_or_default().to_owned()
}

fn warnings(fold: &OfflineFold) -> Vec<String> {
    let code = |event: &throughline_format::UnifiedEventV2| match &event.body {
        EventBody::Warning(warning) => Some(warning.code.clone()),
        _ => None,
    };
    fold.events.iter().filter_map(code).collect()
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

#[test]
fn deltas_and_what_repeats_them() {
    let item = json!({"type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant", "content": []});
    let event = |kind: &str, more: Value| {
        let mut event = json!({"type": kind, "item_id": "msg_1", "output_index": 0, "content_index": 0, "obfuscation": "xxxx"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let part = json!({"type": "output_text", "text": "", "annotations": []});
    let begin = [added(0, item.clone()), event("response.content_part.added", json!({"part": part}))];
    let delta = |text: &str| event("response.output_text.delta", json!({"delta": text}));
    let all = |middle: Vec<Value>| [begin.to_vec(), middle].concat();
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("deltas alone", all(vec![delta("Hel"), delta("lo"), done(0, message("Hello"))])),
        (
            "done repeats the text",
            all(vec![
                delta("Hel"),
                delta("lo"),
                event("response.output_text.done", json!({"text": "Hello"})),
                done(0, message("Hello")),
            ]),
        ),
        (
            "a delta is missing",
            all(vec![
                delta("Hel"),
                event("response.output_text.done", json!({"text": "Hello"})),
                done(0, message("Hello")),
            ]),
        ),
        ("only the item tells", all(vec![done(0, message("Hello"))])),
        (
            "no begin of the part",
            vec![added(0, item.clone()), delta("Hello"), done(0, message("Hello"))],
        ),
        ("no begin of the item", vec![delta("Hello"), done(0, message("Hello"))]),
        ("no item at all", vec![]),
        ("another text in the end", all(vec![delta("Bye"), done(0, message("Hello"))])),
        ("no end of the item", all(vec![delta("Hello")])),
    ];
    for (name, events) in cases {
        let fold = folded(&ends(&events, json!({"output": [message("Hello")]})));
        assert_eq!(result_of(&fold).output.len(), 1, "{name}");
        assert_eq!(text_of(&fold, 0, 0), "Hello", "{name}");
        assert_eq!(result_of(&fold).status.finish_reason, Some(UnifiedFinishReason::Stop), "{name}");
        let told = warnings(&fold);
        assert_eq!(
            told.contains(&"stream.done-differs".to_owned()),
            name == "another text in the end",
            "{name}: {told:?}"
        );
        let told: String = fold
            .events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::TextDelta(delta) => Some(delta.text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(
            told,
            if name == "another text in the end" { "Bye" } else { "Hello" },
            "{name}: nothing is said twice"
        );
    }
}

#[test]
fn every_event_does_its_part() {
    let at = |kind: &str, more: Value| {
        let mut event = json!({"type": kind, "output_index": 0, "content_index": 0, "summary_index": 0, "item_id": "x"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "ab"}], "content": [{"type": "reasoning_text", "text": "cd"}], "encrypted_content": "final"});
    let fold = folded(&ends(
        &[
            added(
                0,
                json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "early"}),
            ),
            at(
                "response.reasoning_summary_part.added",
                json!({"part": {"type": "summary_text", "text": ""}}),
            ),
            at("response.reasoning_summary_text.delta", json!({"delta": "a"})),
            at("response.reasoning_summary_text.done", json!({"text": "ab"})),
            at(
                "response.reasoning_summary_part.done",
                json!({"part": {"type": "summary_text", "text": "ab"}}),
            ),
            at(
                "response.content_part.added",
                json!({"part": {"type": "reasoning_text", "text": ""}}),
            ),
            at("response.reasoning_text.delta", json!({"delta": "c"})),
            at("response.reasoning_text.done", json!({"text": "cd"})),
            at(
                "response.content_part.done",
                json!({"part": {"type": "reasoning_text", "text": "cd"}}),
            ),
            done(0, reasoning.clone()),
        ],
        json!({"output": [reasoning]}),
    ));
    assert_eq!((text_of(&fold, 0, 0).as_str(), text_of(&fold, 0, 1).as_str()), ("ab", "cd"));
    assert!(
        fold.resources.iter().any(|resource| resource.payload == b"final"),
        "what counts is the end"
    );
    assert!(fold.resources.iter().all(|resource| resource.payload != b"early"));

    for (kind, member, events) in [
        (
            "function_call",
            "arguments",
            ["response.function_call_arguments.delta", "response.function_call_arguments.done"],
        ),
        (
            "custom_tool_call",
            "input",
            ["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"],
        ),
    ] {
        let call = |text: &str| json!({"type": kind, "id": "fc_1", "call_id": "c", "name": "f", member: text, "status": "completed"});
        let fold = folded(&ends(
            &[
                added(0, call("")),
                at(events[0], json!({"delta": "{\"a\":"})),
                at(events[1], json!({member: "{\"a\":1}"})),
                done(0, call("{\"a\":1}")),
            ],
            json!({"output": [call("{\"a\":1}")]}),
        ));
        let record = serde_json::to_value(result_of(&fold)).unwrap();
        assert_eq!(record["output"][0]["rawArguments"], "{\"a\":1}");
        assert_eq!(record["status"]["finishReason"], "tool-calls");
    }

    let refusal = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "refusal", "refusal": "no way"}]});
    let fold = folded(&ends(
        &[
            added(0, json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
            at("response.content_part.added", json!({"part": {"type": "refusal", "refusal": ""}})),
            at("response.refusal.delta", json!({"delta": "no"})),
            at("response.refusal.done", json!({"refusal": "no way"})),
            done(0, refusal.clone()),
        ],
        json!({"output": [refusal]}),
    ));
    assert_eq!(text_of(&fold, 0, 0), "no way");
    assert_eq!(result_of(&fold).status.finish_reason, Some(UnifiedFinishReason::Refusal));

    let cited = json!({"type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://example.org/", "title": "t"});
    let item = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "t", "annotations": [cited]}]});
    let fold = folded(&ends(
        &[
            added(0, json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
            at("response.output_text.delta", json!({"delta": "t", "logprobs": []})),
            at(
                "response.output_text.annotation.added",
                json!({"annotation_index": 0, "annotation": cited}),
            ),
            done(0, item.clone()),
        ],
        json!({"output": [item]}),
    ));
    let citations = fold
        .events
        .iter()
        .filter(|event| matches!(event.body, EventBody::CitationReady(_)))
        .count();
    assert_eq!(citations, 1, "a citation is told once");
}

#[test]
fn hosted_tools_tell_their_progress() {
    let at = |kind: &str| json!({"type": kind, "output_index": 0, "item_id": "x"});
    for (item, events) in [
        (
            json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}),
            vec![
                "response.web_search_call.in_progress",
                "response.web_search_call.searching",
                "response.web_search_call.completed",
            ],
        ),
        (
            json!({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"]}),
            vec![
                "response.file_search_call.in_progress",
                "response.file_search_call.searching",
                "response.file_search_call.completed",
            ],
        ),
        (
            json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "x", "container_id": "c"}),
            vec![
                "response.code_interpreter_call.in_progress",
                "response.code_interpreter_call.interpreting",
                "response.code_interpreter_call.completed",
            ],
        ),
        (
            json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}),
            vec![
                "response.image_generation_call.in_progress",
                "response.image_generation_call.generating",
                "response.image_generation_call.partial_image",
                "response.image_generation_call.completed",
            ],
        ),
    ] {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        let mut all = vec![added(0, begun)];
        all.extend(events.iter().map(|kind| at(kind)));
        all.push(done(0, item.clone()));
        let streamed = folded(&ends(&all, json!({"output": [item]})));
        let lifecycles = streamed
            .events
            .iter()
            .filter(|event| matches!(event.body, EventBody::ToolLifecycle(_)))
            .count();
        assert_eq!(lifecycles, 1, "{item}");
        let whole = fold(&response(json!({"output": [item]})));
        assert_eq!(result_of(&streamed).output, result_of(&whole).output, "{item}");
    }
    for kind in [
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
        "response.compaction.compacting",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
        "response.queued",
        "response.in_progress",
    ] {
        let fold = folded(&ends(
            &[
                added(0, json!({"type": "brand_new"})),
                at(kind),
                done(0, json!({"type": "brand_new"})),
            ],
            json!({}),
        ));
        assert!(warnings(&fold).is_empty(), "{kind}: {:?}", warnings(&fold));
    }
}

#[test]
fn unknown_events_are_warnings_and_never_fail_a_stream() {
    for (event, code) in [
        (json!({"type": "response.brand_new.delta", "delta": "x"}), "stream.unknown-event"),
        (json!({"type": "brand_new"}), "stream.unknown-event"),
        (json!({}), "stream.unknown-event"),
        (json!([]), "stream.unreadable-event"),
        (json!(7), "stream.unreadable-event"),
        (json!({"type": "response.audio.delta", "delta": "!"}), "stream.audio"),
    ] {
        let fold = folded(&ends(
            &[event.clone(), done(0, message("said"))],
            json!({"output": [message("said")]}),
        ));
        assert_eq!(warnings(&fold), [code], "{event}");
        assert_eq!(text_of(&fold, 0, 0), "said");
    }
    let text = ends(&[], json!({})).replace(
        "data: {\"type\":\"response.completed\"",
        "data: {broken\n\ndata: {\"type\":\"response.completed\"",
    );
    assert_eq!(result_of(&folded(&text)).error.unwrap().code, "server.malformed-stream");
    let alive = ends(
        &[json!({"type": "keepalive", "sequence_number": 3}), done(0, message("said"))],
        json!({}),
    );
    assert_eq!(text_of(&folded(&alive), 0, 0), "said");
}

#[test]
fn audio_is_a_message_of_its_own() {
    let event = |kind: &str, delta: &str| json!({"type": kind, "delta": delta});
    let fold = folded(&ends(
        &[
            event("response.audio.delta", "AAAA"),
            event("response.audio.transcript.delta", "he"),
            event("response.audio.delta", "AQ=="),
            event("response.audio.transcript.delta", "llo"),
            event("response.audio.done", ""),
            event("response.audio.transcript.done", ""),
        ],
        json!({}),
    ));
    let record = serde_json::to_value(result_of(&fold)).unwrap();
    let part = &record["output"][0]["parts"][0];
    assert_eq!(
        (&part["source"]["data"], &part["media"]["transcript"]["text"]),
        (&json!("AAAAAQ=="), &json!("hello"))
    );
    let kinds: Vec<_> = frames(&fold, &context(&fold)).iter().filter_map(|frame| frame.event).collect();
    assert!(
        kinds.contains(&"response.audio.delta") && kinds.contains(&"response.audio.transcript.delta"),
        "{kinds:?}"
    );
}

#[test]
fn an_error_is_told_once() {
    let nested = json!({"type": "error", "sequence_number": 2, "error": {"type": "tokens", "code": "insufficient_quota", "message": "m", "param": null}});
    let flat = json!({"type": "error", "code": "insufficient_quota", "message": "m", "param": null});
    let failed = json!({"type": "response.failed", "response": response(json!({"status": "failed", "error": {"code": "insufficient_quota", "message": "m"}}))});
    for events in [
        vec![nested.clone()],
        vec![flat.clone()],
        vec![nested, failed.clone()],
        vec![flat, failed.clone()],
        vec![failed],
    ] {
        let fold = folded(&stream(&events));
        let error = result_of(&fold).error.unwrap();
        assert_eq!((error.code.as_str(), error.message.as_str()), ("quota.exhausted", "m"));
        let told = fold
            .events
            .iter()
            .filter(|event| matches!(event.body, EventBody::Error(_) | EventBody::OperationFailed(_)))
            .count();
        assert_eq!(told, 1);
    }
}

#[test]
fn a_torn_stream_is_interrupted_and_keeps_what_was_said() {
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
    let delta = json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"});
    let code = json!({"type": "code_interpreter_call", "id": "ci_1", "status": "in_progress", "container_id": "c"});
    let more = json!({"type": "response.code_interpreter_call_code.delta", "output_index": 1, "delta": "print("});
    let fold = folded(&stream(&[added(0, item), delta, added(1, code), more]));
    let record = serde_json::to_value(result_of(&fold)).unwrap();
    assert_eq!(record["error"]["category"], "interrupted");
    assert_eq!(record["output"][0]["status"], "incomplete");
    assert_eq!(record["output"][0]["parts"][0]["text"], "Hel");
    assert_eq!(record["output"][1]["code"], "print(");
}

#[test]
fn ids_that_change_between_events_do_no_harm() {
    let call = |id: &str, call: &str, arguments: &str| json!({"type": "function_call", "id": id, "call_id": call, "name": "f", "arguments": arguments, "status": "completed"});
    let fold = folded(&ends(
        &[
            added(0, call("a", "c1", "")),
            json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "b", "delta": "{}"}),
            done(0, call("d", "c2", "{}")),
        ],
        json!({"id": "resp_other", "output": [call("e", "c2", "{}")]}),
    ));
    let result = result_of(&fold);
    assert_eq!(result.output[0].call_id(), Some("c2"));
    assert_eq!(back(&fold)["output"][0]["id"], "d", "the last one that the item itself had");
    // The call ID of a client's tool search is told only when it is final.
    let search = |call: &str| json!({"type": "tool_search_call", "id": "t", "call_id": call, "execution": "client", "status": "completed", "arguments": {}});
    let fold = folded(&ends(
        &[added(0, search("early")), done(0, search("final"))],
        json!({"output": [search("final")]}),
    ));
    assert!(!serde_json::to_string(&fold.events).unwrap().contains("early"));
}

#[test]
fn items_may_interleave() {
    let call = |n: u8, arguments: &str| json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("c{n}"), "name": "f", "arguments": arguments, "status": "completed"});
    let delta = |index: u64, text: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": text});
    let fold = folded(&ends(
        &[
            added(0, call(0, "")),
            added(1, call(1, "")),
            delta(1, "[1"),
            delta(0, "[0"),
            delta(1, "]"),
            delta(0, "]"),
            done(1, call(1, "[1]")),
            done(0, call(0, "[0]")),
        ],
        json!({"output": [call(0, "[0]"), call(1, "[1]")]}),
    ));
    let record = serde_json::to_value(result_of(&fold)).unwrap();
    assert_eq!(
        (&record["output"][0]["rawArguments"], &record["output"][1]["rawArguments"]),
        (&json!("[0]"), &json!("[1]"))
    );
}

#[test]
fn a_providers_own_tool_by_an_item_of_the_clients_is_no_open_call() {
    let call = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "x_keyword_search", "input": "{}", "status": "completed"});
    let tools = json!([{"type": "custom", "name": "mine"}]);
    let result = result_of(&both_ways(&response(json!({"output": [call], "tools": tools}))));
    assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Stop));
}

// ---- captured answers ------------------------------------------------------------------------------------------

#[test]
fn captured_responses_fold_alike_streamed_and_whole() {
    let Some(folder) = corpus("wire/openai-responses/responses") else {
        return;
    };
    for path in files(&folder, ".json") {
        // On one line: a stream cannot carry the line ends that schemas keep.
        let body: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let whole = fold(&body);
        if result_of(&whole).status.finish_reason.is_none() || body.get("output").is_none() {
            // One that is not finished yet has no stream that ends, and an error body no stream at all.
            continue;
        }
        let bytes = sse(&frames(&whole, &context(&whole)));
        let again = fold_stream(&OpenAiResponses, bytes.as_bytes(), usize::MAX);
        let (one, two) = (result_of(&whole), result_of(&again));
        let prints = [&one, &two].map(|result| content_fingerprint(result).unwrap());
        assert_eq!(prints[0], prints[1], "{}", path.display());
    }
}

#[test]
fn captured_streams_keep_the_grammar_when_they_go_on() {
    let Some(folder) = corpus("wire/openai-responses/streams") else {
        return;
    };
    for path in files(&folder, ".sse") {
        let whole = fold_stream(&OpenAiResponses, &std::fs::read(&path).unwrap(), usize::MAX);
        grammar(&frames(&whole, &context(&whole)));
        // Another owner's client gets the same grammar.
        grammar(&frames(
            &whole,
            &EncodeContext::plain(Capabilities::of(OpenAiResponses.capabilities())),
        ));
    }
}

#[test]
fn streams_of_other_protocols_keep_the_grammar_and_the_text() {
    for family in families() {
        let Some(folder) = corpus(&format!("wire/{family}/streams")) else {
            return;
        };
        let codec = codec_of(family).unwrap();
        for path in files(&folder, ".sse") {
            let whole = fold_stream(codec.as_ref(), &std::fs::read(&path).unwrap(), usize::MAX);
            let frames = frames(&whole, &EncodeContext::plain(Capabilities::of(OpenAiResponses.capabilities())));
            grammar(&frames);
            let again = fold_stream(&OpenAiResponses, sse(&frames).as_bytes(), usize::MAX);
            let texts = |fold: &OfflineFold| -> Vec<String> {
                let items = result_of(fold).output;
                let said = items.iter().filter(|item| item.body.kind() == "message");
                let texts = said.flat_map(|item| {
                    item.parts()
                        .iter()
                        .filter_map(|part| part.as_text().map(str::to_owned))
                        .collect::<Vec<_>>()
                });
                texts.filter(|text| !text.is_empty()).collect()
            };
            let (said, mut again_said) = (texts(&whole), texts(&again));
            if *family == ProtocolFamily::VercelUiMessage {
                // Sources without an item of their own come as texts besides.
                again_said.retain(|text| said.contains(text));
            }
            assert_eq!(said, again_said, "{}", path.display());
            let calls = |fold: &OfflineFold| -> Vec<(String, String)> {
                let call = |item: &throughline_format::UnifiedItem| match &item.body {
                    UnifiedItemBody::ToolCall(call) => Some((call.call_id.clone(), call.name.clone())),
                    _ => None,
                };
                result_of(fold).output.iter().filter_map(call).collect()
            };
            assert_eq!(calls(&whole), calls(&again), "{}", path.display());
        }
    }
}
