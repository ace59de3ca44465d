//! What the tests of Chat Completions share.
#![allow(dead_code, unreachable_pub)] // each test file uses a part of it

use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_format::{ProtocolFamily, UnifiedId, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, PrivateState, SideResource};

#[derive(Default)]
pub struct Private {
    by_id: BTreeMap<UnifiedId, Bytes>,
    root: BTreeMap<String, Bytes>,
}

impl Private {
    fn of(resources: &[SideResource]) -> Self {
        let mut state = Self::default();
        for r in resources {
            state.by_id.insert(r.resource_id.clone(), r.payload.clone().into());
            if r.subject.is_none() {
                state.root.insert(r.schema.clone(), r.payload.clone().into());
            }
        }
        state
    }
}

impl PrivateState for Private {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.by_id.get(resource_id).cloned()
    }

    fn root_payload(&self, schema: &str) -> Option<Bytes> {
        self.root.get(schema).cloned()
    }
}

pub fn encode_context(resources: Option<&[SideResource]>) -> EncodeContext {
    let mut context = EncodeContext::plain(Capabilities::of(OpenAiChat.capabilities()));
    if let Some(resources) = resources {
        context.private = Arc::new(Private::of(resources));
    }
    context
}

pub fn decode_request(body: &Value) -> DecodedRequest {
    OpenAiChat
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
}

pub fn encode_request(request: &UnifiedRequestV2, context: &EncodeContext) -> (Value, Vec<(String, String)>) {
    let encoded = OpenAiChat.encode_request(request, context).unwrap();
    let losses = encoded
        .loss
        .entries
        .iter()
        .map(|e| (e.severity.as_str().to_owned(), e.feature.clone()))
        .collect();
    (serde_json::from_str(&encoded.body).unwrap(), losses)
}

/// The request as a provider of another family would get it from a client of another family.
pub fn foreign(body: &Value) -> (Value, Vec<(String, String)>) {
    let mut request = decode_request(body).unified;
    let other = UnifiedProtocolProfile::of(ProtocolFamily::AnthropicMessages);
    request.source.profile = other.clone();
    for item in &mut request.conversation.items {
        item.provenance.profile = Some(other.clone());
        item.provider_data = None;
    }
    encode_request(&request, &encode_context(None))
}

pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k.clone(), without_nulls(v)))
                .collect(),
        ),
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}

pub fn fold_response(body: &Value) -> OfflineFold {
    let mut fold = OfflineFold::new();
    fold.push(
        OpenAiChat
            .decode_response(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap(),
    )
    .unwrap();
    assert!(fold.fold.is_complete());
    fold
}

pub fn fold_stream(bytes: &[u8], piece: usize) -> OfflineFold {
    let mut decoder = OpenAiChat.stream_decoder(&DecodeContext::offline());
    let mut fold = OfflineFold::new();
    for cut in bytes.chunks(piece.max(1)) {
        fold.push(decoder.push(cut)).unwrap();
    }
    fold.push(decoder.finish()).unwrap();
    assert!(decoder.is_finished() && fold.fold.is_complete());
    fold
}

pub fn sse(chunks: &[Value]) -> String {
    let mut text = chunks.iter().fold(String::new(), |text, c| text + &format!("data: {c}\n\n"));
    text.push_str("data: [DONE]\n\n");
    text
}

pub fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

pub fn answer(message: &Value, finish: &str) -> Value {
    json!({"id": "c1", "object": "chat.completion", "created": 7, "model": "m-1", "choices": [{"index": 0, "message": message, "finish_reason": finish}]})
}

/// What a reader of the result sees: without references to private state.
pub fn visible(result: &UnifiedResultV2) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|k, _| !matches!(k.as_str(), "providerData" | "privateState" | "privateLinkage" | "loss"));
                map.values_mut().for_each(strip);
            }
            Value::Array(list) => list.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(result).unwrap();
    strip(&mut value);
    value
}

pub fn kinds(request: &UnifiedRequestV2) -> Vec<&'static str> {
    request.conversation.items.iter().map(|i| i.body.kind()).collect()
}

/// Every call is answered directly after its message, exactly once, and no tool message stands elsewhere.
pub fn assert_paired(body: &Value) {
    let mut open: Vec<String> = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let at = open.iter().position(|o| o == id).unwrap_or_else(|| panic!("orphan {id} in {body}"));
            open.remove(at);
            continue;
        }
        assert!(open.is_empty(), "unanswered {open:?} in {body}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap();
            assert!(id.len() <= 40, "long id");
            assert!(!open.contains(&id.to_owned()), "id twice");
            open.push(id.to_owned());
        }
        if let Some(list) = message["content"].as_array() {
            assert!(!list.is_empty(), "empty content in {body}");
        }
    }
    assert!(open.is_empty(), "unanswered {open:?} in {body}");
}

pub fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}
