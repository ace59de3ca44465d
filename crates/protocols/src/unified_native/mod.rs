//! The format as a wire of its own: what the native API takes and gives.
//!
//! A request is a [`UnifiedRequestV2`], an answer a
//! [`UnifiedResultV2`], a stream the committed events as SSE. Nothing is lost, since nothing
//! is translated. It is no family of the registry: no provider speaks it and no route leads to it, so answers in it are not read.
//!
//! IDs of a request's items are the client's own and may be anything, so each item gets the one that an item of any other wire
//! would have: the operation's ID with its ordinal. What refers to an item or part of the same request follows.

mod decode_request;
mod decode_response;
mod errors;

use crate::capability::{Capabilities, CapabilityTable, Knobs, Support};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError, WireFrame};
use crate::context::{DecodeContext, EncodeContext};
use crate::feature::Feature;
use std::borrow::Cow;
use std::sync::LazyLock;
use throughline_format::UnifiedItem;
use throughline_format::{
    ErrorCategory, ProtocolFamily, UnifiedError, UnifiedEventV2, UnifiedLossReport, UnifiedProtocolProfile, UnifiedRequestV2,
    UnifiedResultV2, UnifiedToolDefinition,
};

/// Word of the native wire in provenance and loss reports.
pub const WORD: &str = "unified";

/// Every feature can be said: it is the record itself.
static CAPABILITIES: LazyLock<CapabilityTable> = LazyLock::new(|| CapabilityTable {
    features: Vec::leak(Feature::ALL.iter().map(|(feature, _, _)| (*feature, Support::Lossless)).collect()),
    knobs: Knobs {
        mid_conversation_system: true,
        max_tool_id_length: usize::MAX,
        max_tool_name_length: usize::MAX,
        max_cache_breakpoints: usize::MAX,
        max_stop_sequences: usize::MAX,
        max_temperature: f64::MAX,
        default_max_output_tokens: 4_096,
    },
});

/// Profile of the native wire.
pub fn profile() -> UnifiedProtocolProfile {
    UnifiedProtocolProfile {
        version: Some("2.0".into()),
        ..UnifiedProtocolProfile::of(ProtocolFamily::Other(WORD.into()))
    }
}

/// The codec of the native API.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnifiedNative;

impl Codec for UnifiedNative {
    fn profile(&self) -> UnifiedProtocolProfile {
        profile()
    }

    fn capabilities(&self) -> &'static CapabilityTable {
        &CAPABILITIES
    }

    fn decode_request(&self, body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
        decode_request::decode(body, context)
    }

    fn encode_request(&self, request: &UnifiedRequestV2, _: &EncodeContext) -> Result<Encoded, UnifiedError> {
        written(request)
    }

    fn decode_response(&self, _: &[u8], _: &DecodeContext) -> Result<Decoded, UnifiedError> {
        Err(decode_response::refused())
    }

    fn encode_response(&self, result: &UnifiedResultV2, _: &EncodeContext) -> Result<Encoded, UnifiedError> {
        written(result)
    }

    fn stream_decoder(&self, _: &DecodeContext) -> Box<dyn StreamDecoder> {
        Box::<decode_response::NoStream>::default()
    }

    fn stream_encoder(&self, _: &EncodeContext) -> Box<dyn StreamEncoder> {
        Box::<Events>::default()
    }

    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        errors::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        errors::encode(error)
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, _: &Capabilities) -> String {
        tool.name.clone().unwrap_or_else(|| tool.kind.as_str().to_owned())
    }

    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(call_id)
    }
}

/// Gives items that a client wrote IDs, place and provenance of the context's operation; references between them follow.
pub fn adopt(items: &mut [UnifiedItem], context: &DecodeContext) {
    decode_request::adopt(items, context);
}

fn written(record: &impl serde::Serialize) -> Result<Encoded, UnifiedError> {
    serde_json::to_string(record)
        .map(|body| Encoded {
            body,
            loss: UnifiedLossReport::default(),
        })
        .map_err(|_| UnifiedError::new(ErrorCategory::Internal, "json", "a record cannot be written"))
}

/// Events as they are, one frame each.
#[derive(Default)]
struct Events {
    loss: UnifiedLossReport,
}

impl StreamEncoder for Events {
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame> {
        let data = serde_json::to_string(event).unwrap_or_default();
        vec![WireFrame {
            event: Some(event.body.kind()),
            data,
        }]
    }

    fn loss(&self) -> &UnifiedLossReport {
        &self.loss
    }
}
