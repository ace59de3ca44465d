//! OpenAI Chat Completions, and the dialects of it that other providers speak.
//!
//! What it is: requests, answers and streams of `POST /chat/completions`, both ways. Decoding needs no configuration: every
//! dialect member has its own name or shape and is read wherever it occurs. A dialect is named for encoding, and for reasoning
//! in tags; `dialect` is the table of what each carries, spells otherwise and refuses.
//!
//! What it refuses, and what encoders therefore take care of: a call without its answer directly after it, an answer without
//! a call, call IDs beyond [`CALL_ID_LENGTH`], tool names outside `[A-Za-z0-9_-]{1,64}`, media outside user messages, empty
//! lists of content.
//!
//! One wire message becomes up to one reasoning item, one message item and one item a call, in this order. Where to start
//! reading: `decode_request` and `decode_choice`; `private` says how members without a word are kept.

mod answer;
mod capabilities;
mod decode_assistant;
mod decode_call;
mod decode_choice;
mod decode_dialect;
mod decode_message;
mod decode_parts;
mod decode_request;
mod decode_response;
mod decode_settings;
mod decode_stream;
mod dialect;
mod encode_output;
mod encode_parts;
mod encode_reasoning;
mod encode_request;
mod encode_response;
mod encode_settings;
mod encode_stream;
mod encode_tools;
mod encode_turn;
mod marks;
mod private;
mod reasoning;
pub(crate) mod requirements;
mod usage;
#[allow(unreachable_pub)] // `wire!` writes `pub`; the module itself is private
mod wire;

use crate::capability::{Capabilities, CapabilityTable};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError};
use crate::context::{DecodeContext, EncodeContext};
use crate::openai::errors;
use std::borrow::Cow;
use throughline_format::item::ToolCallItem;
use throughline_format::{
    Json, ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition,
};

/// Longest call ID that every server takes.
pub const CALL_ID_LENGTH: usize = 40;

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenAiChat;

/// Profile of everything here: the family has no versions.
fn profile() -> UnifiedProtocolProfile {
    UnifiedProtocolProfile::of(ProtocolFamily::OpenAiChat)
}

/// The argument text of a call; some dialects send an object in place of its text.
fn arguments_text(arguments: Option<&Json>) -> String {
    match arguments {
        None => String::new(),
        Some(json) if json.as_str() == "null" => String::new(),
        Some(json) => json.decode::<String>().unwrap_or_else(|_| json.as_str().to_owned()),
    }
}

/// The parsed arguments; no text at all means none, and text that is not JSON cannot be parsed.
fn parse_arguments(text: &str) -> Option<Json> {
    Json::of_arguments(if text.trim().is_empty() { "{}" } else { text })
}

/// The argument text that a client gets.
fn arguments_for_client(call: &ToolCallItem) -> String {
    match (&call.input, call.raw_arguments.as_str()) {
        (Some(input), "") if input.as_str() != "{}" => input.as_str().to_owned(),
        _ => call.raw_arguments.clone(),
    }
}

impl Codec for OpenAiChat {
    fn profile(&self) -> UnifiedProtocolProfile {
        profile()
    }

    fn capabilities(&self) -> &'static CapabilityTable {
        &capabilities::TABLE
    }

    fn dialects(&self) -> Vec<&'static str> {
        dialect::DIALECTS.iter().map(|dialect| dialect.name).collect()
    }

    fn decode_request(&self, body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
        decode_request::decode(body, context)
    }

    fn encode_request(&self, request: &UnifiedRequestV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
        let context = &context.to_provider();
        encode_request::encode(request, context)
    }

    fn decode_response(&self, body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
        decode_response::decode(body, context)
    }

    fn encode_response(&self, result: &UnifiedResultV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
        Ok(encode_response::encode(result, context))
    }

    fn stream_decoder(&self, context: &DecodeContext) -> Box<dyn StreamDecoder> {
        Box::new(decode_stream::ChatStreamDecoder::new(context.clone()))
    }

    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder> {
        Box::new(encode_stream::ChatStreamEncoder::new(context.clone()))
    }

    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        errors::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        errors::encode(error)
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, capabilities: &Capabilities) -> String {
        let name = tool.name.as_deref().unwrap_or_default();
        crate::tool_name::wire(tool.namespace.as_deref(), name, capabilities.knobs().max_tool_name_length).into_owned()
    }

    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        crate::call_id::wire(call_id, CALL_ID_LENGTH)
    }
}
