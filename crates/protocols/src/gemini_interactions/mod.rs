//! Gemini Interactions, in the revision of steps: create requests, interactions, typed events.
//!
//! A step is an item: a turn of the user or the model is a message, a thought is reasoning, calls and results of functions are
//! theirs. Steps of hosted tools hold private state of the provider, so they are kept as written beside what the record says
//! of them. The signature of a call stands in the thought before it.
//!
//! What is peculiar: an interaction is stored unless it says otherwise, and the next one may go on from it
//! (`previous_interaction_id`) instead of sending the history again; instructions, tools and settings are not inherited. A
//! `requires_continuation` comes with a token. Events have IDs after which a stream can be resumed.
//!
//! Validity rules of the wire that encoders keep whatever the history holds: input that is not empty; no empty texts or
//! messages; every call with a unique ID and answered in the input; no result without its call, unless the provider holds it;
//! arguments that are objects; nothing in the background and no parent for what is not stored.
//!
//! Reference: <https://ai.google.dev/api/interactions-api>.
//!
//! Where to start reading: [`wire`] (the types), then `decode_step` and `encode_step`; `answer` is what streams and whole
//! interactions share.

mod answer;
mod capabilities;
mod decode_request;
mod decode_response;
mod decode_step;
mod decode_stream;
mod encode_request;
mod encode_response;
mod encode_step;
mod encode_stream;
mod encode_tools;
mod errors;
mod kept;
mod pairs;
pub(crate) mod requirements;
mod usage;
pub mod wire;

use crate::capability::{Capabilities, CapabilityTable};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError};
use crate::context::{DecodeContext, EncodeContext};
use crate::continuation::{Continuation, Held, Inherited};
use crate::google::status;
use std::borrow::Cow;
use throughline_format::{ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition};

/// Longest call ID that is written; the service sets no bound.
const MAX_CALL_ID: usize = 512;
/// Longest function name.
const MAX_NAME: usize = 64;

/// The profile that this codec reads and writes.
fn profile() -> UnifiedProtocolProfile {
    UnifiedProtocolProfile {
        family: ProtocolFamily::GeminiInteractions,
        version: Some("v1beta".into()),
        revision: Some("2026-05-20".into()),
    }
}

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeminiInteractions;

impl Codec for GeminiInteractions {
    fn profile(&self) -> UnifiedProtocolProfile {
        profile()
    }

    fn capabilities(&self) -> &'static CapabilityTable {
        &capabilities::TABLE
    }

    fn decode_request(&self, body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
        decode_request::decode(body, context)
    }

    fn encode_request(&self, request: &UnifiedRequestV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
        let context = &context.to_provider();
        Ok(encode_request::encode(request, context))
    }

    fn decode_response(&self, body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
        decode_response::decode(body, context)
    }

    fn encode_response(&self, result: &UnifiedResultV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
        Ok(encode_response::encode(result, context))
    }

    fn stream_decoder(&self, context: &DecodeContext) -> Box<dyn StreamDecoder> {
        Box::new(decode_stream::Decoder::new(context))
    }

    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder> {
        Box::new(encode_stream::Encoder::new(context))
    }

    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        status::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        errors::encode(error)
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, _: &Capabilities) -> String {
        encode_step::wire_name(tool.namespace.as_deref(), tool.name.as_deref().unwrap_or_default())
    }

    /// Any text is a call ID here.
    fn continuation(&self, schema: &str) -> Option<Continuation> {
        (schema == kept::INTERACTION).then_some(Continuation {
            presented_as: kept::INTERACTION,
            holds: Held::History(Inherited::Nothing),
        })
    }

    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(call_id)
    }
}
