//! Every field, block, ending and counter of Anthropic Messages, one line each: what the record makes of it, and that it comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod answers;
mod calls;
mod legal;
mod openapi;
mod requests;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod usage;

use serde_json::{Value, json};
use std::sync::Arc;
use support::Everything;
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::{Capabilities, Codec as _, DecodeContext, DecodedRequest, EncodeContext, SideResource};

pub(crate) const CODEC: AnthropicMessages = AnthropicMessages;

/// A context of the owner of these resources.
pub(crate) fn owner(resources: &[SideResource]) -> EncodeContext {
    EncodeContext {
        private: Arc::new(Everything::of(resources)),
        ..stranger()
    }
}

/// A context of somebody who owns nothing.
pub(crate) fn stranger() -> EncodeContext {
    EncodeContext::plain(Capabilities::of(CODEC.capabilities()))
}

pub(crate) fn decode(body: &Value) -> DecodedRequest {
    CODEC
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap_or_else(|e| panic!("{e:?}: {body}"))
}

/// A request with these members, over a question of the user.
pub(crate) fn request(members: &Value) -> Value {
    let mut body = json!({"model": "claude-test", "max_tokens": 9000, "messages": [{"role": "user", "content": "hi"}]});
    for (key, value) in members.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// The body that a request becomes, and the paths of its losses with their severities.
pub(crate) fn encode(decoded: &DecodedRequest, context: &EncodeContext) -> (Value, Vec<(String, String)>) {
    let encoded = CODEC.encode_request(&decoded.unified, context).unwrap();
    let losses = encoded
        .loss
        .entries
        .iter()
        .map(|e| (e.path.clone(), e.severity.to_string()))
        .collect();
    (serde_json::from_str(&encoded.body).unwrap(), losses)
}

/// Texts as lists of blocks and no nulls: spellings that the wire takes for the same.
pub(crate) fn listed(mut body: Value) -> Value {
    fn lift(value: &mut Value) {
        if let Value::String(text) = value {
            *value = json!([{"type": "text", "text": text}]);
        }
    }
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        lift(&mut message["content"]);
        for block in message["content"].as_array_mut().into_iter().flatten() {
            if block["type"] == "tool_result" && block.get("content").is_some() {
                lift(&mut block["content"]);
            }
        }
    }
    if let Some(system) = body.get_mut("system") {
        lift(system);
    }
    body
}

/// The request comes back to its owner as it was.
pub(crate) fn assert_comes_back(body: &Value) {
    let decoded = decode(body);
    let mut context = owner(&decoded.resources);
    context.stream = decoded.stream;
    let (back, losses) = encode(&decoded, &context);
    assert_eq!(listed(back), listed(body.clone()), "{losses:?}");
}

/// The record has each of these values at its pointer; `null` stands for nothing.
pub(crate) fn assert_record(record: &Value, expected: &[(&str, Value)], what: &Value) {
    for (pointer, value) in expected {
        let found = record.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(&found, value, "{pointer} of {what}\n{record:#}");
    }
}
