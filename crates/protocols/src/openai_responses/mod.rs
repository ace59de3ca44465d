//! OpenAI Responses, and the dialects of it that other providers speak.
//!
//! What it is: requests, answers and streams of `POST /responses`, both ways
//! (<https://platform.openai.com/docs/api-reference/responses>). Keeping responses and conversations is not done here: a request
//! that goes on from one names it as a continuation. Decoding needs no configuration; a dialect is named for encoding only:
//! `codex` is the service behind ChatGPT accounts, which refuses what its own client does not send.
//!
//! What it refuses, and what encoders therefore take care of: a call of the client without its output, an output without its call,
//! reasoning without the item that it was made with, IDs of somebody else, call IDs beyond [`CALL_ID_LENGTH`], two texts of one
//! role in the other one's part type. With `store: false` no item has an ID, and reasoning lives in its encrypted content only.
//!
//! One wire item becomes one Unified item; a hosted call with its outcome becomes two. Where to start reading: `wire` (a body is a
//! tree, and what a record does not say is found by writing it back), `decode_item`, `encode_item`, `answer`.

mod answer;
mod answer_item;
mod capabilities;
mod decode_hosted;
mod decode_item;
mod decode_part;
mod decode_request;
mod decode_response;
mod decode_settings;
mod decode_stream;
mod decode_tools;
mod encode_deltas;
mod encode_history;
mod encode_hosted;
mod encode_item;
mod encode_part;
mod encode_repairs;
mod encode_request;
mod encode_response;
mod encode_settings;
mod encode_stream;
mod encode_tools;
mod kept;
pub(crate) mod requirements;
mod usage;
mod wire;

use crate::capability::{Capabilities, CapabilityTable};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError};
use crate::context::{DecodeContext, EncodeContext};
use crate::continuation::{Continuation, Held, Inherited};
use crate::history::WireHistory;
use crate::openai::errors;
use std::borrow::Cow;
use throughline_format::{ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition};

/// Longest call ID.
pub const CALL_ID_LENGTH: usize = 64;

/// Dialect of the service behind Codex.
const CODEX: &str = "codex";

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenAiResponses;

pub use decode_request::InputReader;

/// The history of a request as input items, paired and repaired as in a body of it; the instructions are left out.
pub fn history(request: &UnifiedRequestV2, context: &EncodeContext) -> WireHistory {
    encode_request::history(request, context)
}

/// Profile of everything here: the family has no versions.
fn profile() -> UnifiedProtocolProfile {
    UnifiedProtocolProfile::of(ProtocolFamily::OpenAiResponses)
}

impl Codec for OpenAiResponses {
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
        Box::new(decode_stream::ResponsesStreamDecoder::new(context.clone()))
    }

    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder> {
        Box::new(encode_stream::ResponsesStreamEncoder::new(context.clone()))
    }

    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        errors::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        errors::encode(error)
    }

    fn dialects(&self) -> Vec<&'static str> {
        vec!["openai", "azure", CODEX]
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, capabilities: &Capabilities) -> String {
        let name = tool.name.as_deref().unwrap_or_default();
        crate::tool_name::wire(None, name, capabilities.knobs().max_tool_name_length).into_owned()
    }

    fn continuation(&self, schema: &str) -> Option<Continuation> {
        (schema == kept::RESPONSE_ID).then_some(Continuation {
            presented_as: kept::PREVIOUS,
            holds: Held::History(Inherited::NothingButOneText),
        })
    }

    fn is_kept(&self, request: &UnifiedRequestV2, dialect: Option<&str>) -> bool {
        // Nothing is kept for a client of another protocol that did not ask for it, and the service of one dialect keeps nothing.
        let persist = request.state.as_ref().and_then(|state| state.persist.as_ref());
        let is_own = request.source.profile.family == ProtocolFamily::OpenAiResponses;
        dialect != Some(CODEX) && persist.map_or(is_own, |persist| persist.value)
    }

    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        crate::call_id::wire(call_id, CALL_ID_LENGTH)
    }
}
