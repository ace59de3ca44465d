//! Argument text of a model that is JSON to a lenient reader and breaks the rules of records: it is kept as text, never parsed,
//! and every wire gets a body that its own reader takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use support::fold_response;
use throughline_format::validate::validate_document;
use throughline_format::{ProtocolFamily, UnifiedItemBody};
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, codec_of, families};

fn hostile() -> [(&'static str, String); 5] {
    [
        ("a key twice", r#"{"a":"one","a":2}"#.to_owned()),
        ("a key twice, once escaped", r#"{"a":1,"\u0061":2}"#.to_owned()),
        ("a key twice below", r#"{"x":{"b":1,"b":2}}"#.to_owned()),
        ("deep nesting", format!("{{\"a\":{}{}}}", "[".repeat(60), "]".repeat(60))),
        ("nesting without end", "[".repeat(200)),
    ]
}

/// Requests of the wires that carry arguments as text.
fn requests(text: &str) -> [(ProtocolFamily, Value); 2] {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}});
    [
        (
            ProtocolFamily::OpenAiChat,
            json!({"model": "m", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "done"}]}),
        ),
        (
            ProtocolFamily::OpenAiResponses,
            json!({"model": "m", "input": [{"role": "user", "content": "hi"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": text},
                {"type": "function_call_output", "call_id": "c1", "output": "done"}]}),
        ),
    ]
}

#[test]
fn requests_keep_the_text_and_every_wire_takes_what_it_gets() {
    for (what, text) in hostile() {
        for (from, body) in requests(&text) {
            let decoded = codec_of(&from)
                .unwrap()
                .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
                .unwrap();
            let record = serde_json::to_string(&decoded.unified).unwrap();
            let report = validate_document(record.as_bytes());
            assert!(report.violations.is_empty(), "{what}, {from:?}: {:?}", report.violations);
            let calls: Vec<_> = decoded
                .unified
                .conversation
                .items
                .iter()
                .filter_map(|item| match &item.body {
                    UnifiedItemBody::ToolCall(call) => Some(call),
                    _ => None,
                })
                .collect();
            let [call] = calls[..] else { panic!("{what}, {from:?}: one call") };
            assert_eq!(
                (call.raw_arguments.as_str(), &call.input),
                (text.as_str(), &None),
                "{what}, {from:?}"
            );
            for to in families() {
                let codec = codec_of(to).unwrap();
                let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
                let encoded = codec.encode_request(&decoded.unified, &context).unwrap();
                codec
                    .decode_request(encoded.body.as_bytes(), &DecodeContext::offline())
                    .unwrap_or_else(|error| panic!("{what}, {from:?} to {to:?}: {error} in {}", encoded.body));
            }
        }
    }
}

#[test]
fn answers_keep_the_text_too() {
    for (what, text) in hostile() {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}});
        let answers = [
            (
                ProtocolFamily::OpenAiChat,
                json!({"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "tool_calls",
                    "message": {"role": "assistant", "content": null, "tool_calls": [call]}}]}),
            ),
            (
                ProtocolFamily::OpenAiResponses,
                json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [
                    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": text, "status": "completed"}]}),
            ),
        ];
        for (from, body) in answers {
            let fold = fold_response(&*codec_of(&from).unwrap(), body.to_string().as_bytes());
            let result = support::result_of(&fold);
            let report = validate_document(serde_json::to_string(&result).unwrap().as_bytes());
            assert!(report.violations.is_empty(), "{what}, {from:?}: {:?}", report.violations);
            let kept = result.output.iter().any(|item| {
                matches!(&item.body,
                UnifiedItemBody::ToolCall(call) if call.raw_arguments == text && call.input.is_none())
            });
            assert!(kept, "{what}, {from:?}: {:?}", result.output);
        }
    }
}
