//! Calls that share an ID: a result is its call's by place, on every wire, in time that grows with the history.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Everything, fold_response, fold_stream, result_of};
use throughline_format::{ProtocolFamily, UnifiedItemBody, UnifiedRequestV2, UnifiedResultV2};
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, codec_of, families};

/// Names of calls with their results, in the order of the results.
type Pairs = Vec<(String, String)>;

fn decode(family: &ProtocolFamily, body: &Value) -> UnifiedRequestV2 {
    let codec = codec_of(family).unwrap();
    let context = DecodeContext::offline();
    codec.decode_request(body.to_string().as_bytes(), &context).unwrap().unified
}

fn encode(request: &UnifiedRequestV2, family: &ProtocolFamily) -> Value {
    let codec = codec_of(family).unwrap();
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    serde_json::from_str(&codec.encode_request(request, &context).unwrap().body).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Every call and every result of a body, in whatever words its wire has, paired by the ID alone.
fn pairs(body: &Value) -> Pairs {
    fn walk(value: &Value, calls: &mut Vec<(String, String)>, results: &mut Vec<(String, String)>) {
        if let Value::Object(map) = value {
            let get = |key: &str| map.get(key).map(text);
            let kind = get("type").unwrap_or_default();
            let said = ["RF", "RG"].iter().find(|said| value.to_string().contains(**said));
            if let (Some(id), Some(function)) = (get("id"), map.get("function")) {
                calls.push((id, text(&function["name"])));
            } else if matches!(&*kind, "tool_use" | "function_call") || map.contains_key("args") {
                calls.push((get("call_id").or_else(|| get("id")).unwrap(), get("name").unwrap()));
            } else if kind.starts_with("tool-") && map.contains_key("toolCallId") {
                // The result stands in the call.
                calls.push((get("toolCallId").unwrap(), kind.trim_start_matches("tool-").to_owned()));
                results.extend(said.map(|said| (get("toolCallId").unwrap(), (*said).to_owned())));
            } else if let Some(said) = said
                && (get("role").as_deref() == Some("tool")
                    || kind.ends_with("_result")
                    || kind.ends_with("_output")
                    || map.contains_key("response"))
            {
                let id = ["tool_call_id", "tool_use_id", "call_id", "id"].iter().find_map(|key| get(key));
                results.push((id.unwrap(), (*said).to_owned()));
                return;
            }
        }
        match value {
            Value::Object(map) => map.values().for_each(|inner| walk(inner, calls, results)),
            Value::Array(list) => list.iter().for_each(|inner| walk(inner, calls, results)),
            _ => {}
        }
    }
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    walk(body, &mut calls, &mut results);
    let ids: Vec<&String> = calls.iter().map(|(id, _)| id).collect();
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "IDs are unique: {body}");
    let name = |id: &str| calls.iter().find(|(known, _)| known == id).map(|(_, name)| name.clone());
    results
        .iter()
        .map(|(id, said)| (name(id).unwrap_or_else(|| panic!("no call {id}: {body}")), said.clone()))
        .collect()
}

/// Two calls of one turn with one ID, and their results, as each wire says them.
fn twins() -> Vec<(ProtocolFamily, Value)> {
    let call = |name: &str| json!({"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}});
    let part = |name: &str| json!({"functionCall": {"id": "c1", "name": name, "args": {}}});
    let answer = |name: &str, said: &str| json!({"functionResponse": {"id": "c1", "name": name, "response": {"output": said}}});
    vec![
        (
            ProtocolFamily::OpenAiChat,
            json!({"model": "m", "messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [call("f"), call("g")]},
                {"role": "tool", "tool_call_id": "c1", "content": "RF"}, {"role": "tool", "tool_call_id": "c1", "content": "RG"}]}),
        ),
        (
            ProtocolFamily::AnthropicMessages,
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "c1", "name": "g", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "RF"},
                    {"type": "tool_result", "tool_use_id": "c1", "content": "RG"}]}]}),
        ),
        (
            ProtocolFamily::OpenAiResponses,
            json!({"model": "m", "input": [{"role": "user", "content": "hi"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                {"type": "function_call", "call_id": "c1", "name": "g", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "RF"},
                {"type": "function_call_output", "call_id": "c1", "output": "RG"}]}),
        ),
        (
            ProtocolFamily::GeminiGenerateContent,
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [part("f"), part("g")]},
                {"role": "user", "parts": [answer("f", "RF"), answer("g", "RG")]}]}),
        ),
        (
            ProtocolFamily::GeminiInteractions,
            json!({"model": "m", "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
                {"type": "function_call", "id": "c1", "name": "f", "arguments": {}},
                {"type": "function_call", "id": "c1", "name": "g", "arguments": {}},
                {"type": "function_result", "call_id": "c1", "name": "f", "result": "RF"},
                {"type": "function_result", "call_id": "c1", "name": "g", "result": "RG"}]}),
        ),
    ]
}

#[test]
fn twins_of_one_turn_keep_their_results_on_every_wire() {
    let expected: Pairs = vec![("f".into(), "RF".into()), ("g".into(), "RG".into())];
    for (from, body) in twins() {
        let request = decode(&from, &body);
        // A prompt of text has no IDs.
        for to in families().iter().filter(|to| **to != ProtocolFamily::CursorSdk) {
            assert_eq!(pairs(&encode(&request, to)), expected, "{from} to {to}");
        }
    }
}

#[test]
fn many_calls_with_one_id_take_time_in_proportion() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let turns = |count: usize, with_result: bool| {
        let mut messages = vec![json!({"role": "user", "content": "hi"})];
        for _ in 0..count {
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            let answer = json!({"role": "tool", "tool_call_id": "c", "content": "r"});
            messages.push(if with_result {
                answer
            } else {
                json!({"role": "user", "content": "x"})
            });
        }
        decode(&ProtocolFamily::OpenAiChat, &json!({"model": "m", "messages": messages}))
    };
    for with_result in [true, false] {
        let (small, large) = (turns(150, with_result), turns(1_200, with_result));
        for family in families() {
            let time = |request: &UnifiedRequestV2| {
                let began = Instant::now();
                encode(request, family);
                began.elapsed()
            };
            let (short, long) = (time(&small).max(Duration::from_millis(20)), time(&large));
            // Eight times the calls; squared it would be 64 times the time.
            assert!(long < short * 30, "{family}, results: {with_result}: {short:?}, then {long:?}");
        }
    }
}

/// The calls of a result: their IDs and names.
fn calls(result: &UnifiedResultV2) -> Vec<(String, String)> {
    let call = |body: &UnifiedItemBody| match body {
        UnifiedItemBody::ToolCall(call) => Some((call.call_id.clone(), call.name.clone())),
        _ => None,
    };
    result.output.iter().filter_map(|item| call(&item.body)).collect()
}

#[test]
fn answers_that_repeat_an_id_get_another_for_each_call() {
    let codec = codec_of(&ProtocolFamily::OpenAiChat).unwrap();
    let call = |name: &str, index: u64| json!({"index": index, "id": "c1", "type": "function", "function": {"name": name, "arguments": "{\"a\":1}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call("f", 0), call("g", 1)]});
    let whole = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]});
    let of_whole = calls(&result_of(&fold_response(codec.as_ref(), whole.to_string().as_bytes())));
    let stream = |indexes: [u64; 2]| {
        let chunk = |delta: Value, finish: Value| {
            let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            format!("data: {chunk}\n\n")
        };
        let mut text = chunk(json!({"role": "assistant", "tool_calls": [call("f", indexes[0])]}), Value::Null);
        text += &chunk(json!({"tool_calls": [call("g", indexes[1])]}), Value::Null);
        text += &chunk(json!({}), json!("tool_calls"));
        text + "data: [DONE]\n\n"
    };
    assert_eq!(of_whole[0], ("c1".to_owned(), "f".to_owned()));
    assert_eq!(of_whole[1].1, "g");
    assert_ne!(of_whole[1].0, "c1");
    for indexes in [[0, 1], [0, 0]] {
        let text = stream(indexes);
        let of_stream = calls(&result_of(&fold_stream(codec.as_ref(), text.as_bytes(), 9)));
        assert_eq!(of_stream, of_whole, "{indexes:?}");
    }
}

#[test]
fn a_replaced_id_goes_back_to_its_wire_where_it_is_free() {
    let codec = codec_of(&ProtocolFamily::OpenAiChat).unwrap();
    let call = |name: &str| json!({"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}});
    let whole = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
        "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [call("f"), call("g")]}}]});
    let decoded = codec
        .decode_response(whole.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap();
    let private = Everything::of(&decoded.resources);
    let output = result_of(&fold_response(codec.as_ref(), whole.to_string().as_bytes())).output;
    let mut request = decode(
        &ProtocolFamily::OpenAiChat,
        &json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
    );
    let context = EncodeContext {
        private: std::sync::Arc::new(private),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    let mut ids = |keep: std::ops::Range<usize>| {
        request.conversation.items.truncate(1);
        request.conversation.items.extend(output[keep].iter().cloned());
        let body: Value = serde_json::from_str(&codec.encode_request(&request, &context).unwrap().body).unwrap();
        let calls = body["messages"][1]["tool_calls"].as_array().unwrap().clone();
        calls.iter().map(|call| text(&call["id"])).collect::<Vec<_>>()
    };
    let both = ids(0..2);
    assert_eq!(both[0], "c1");
    assert_ne!(both[1], "c1", "the wire refuses two calls of a message with one ID");
    assert_eq!(ids(1..2), ["c1"]);
}
