//! UI messages of the Vercel AI SDK: the chat transport's body, stored messages, and the UI message stream.
//!
//! What it is: what `useChat` and its relatives send and read. It is a state format of user interfaces and no provider's API:
//! one assistant message holds a whole turn with all its steps, calls and results. Every direction is read and written; the
//! "response" is the list of messages after the turn, of which the last one is the answer.
//!
//! What its reader refuses, and what the encoder therefore takes care of: chunk types that the client's major does not know
//! ([`Major`]), a delta without its start, an output for a call that was not made, an answer to an approval that nobody asked
//! for. A client can see everything in it, so signatures and other private state of providers are never written into it;
//! provider metadata that came in on this very wire goes back to its owner only.
//!
//! Where to start reading: `decode_parts` (parts to items, for all three forms), then `encode_message` and `encode_stream`.
//! Reference: <https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol>.

mod answer;
mod capabilities;
mod chunks;
mod decode_parts;
mod decode_request;
mod decode_response;
mod decode_stream;
mod decode_tool;
mod encode_call;
mod encode_message;
mod encode_part;
mod encode_request;
mod encode_response;
mod encode_stream;
mod errors;
mod hosted_state;
mod media;
mod private;
pub(crate) mod requirements;
mod stream_parts;
mod usage;
#[allow(unreachable_pub)] // `wire!` writes `pub`; the module itself is private
mod wire;

use crate::capability::{Capabilities, CapabilityTable};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError};
use crate::context::{DecodeContext, EncodeContext};
use std::borrow::Cow;
use throughline_format::{ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition};

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct VercelUiMessage;

/// Major version of the client's SDK. The header of the stream says `v1` for all of them, but each refuses chunk types that it
/// does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Major {
    /// 5.x.
    Five,
    /// 6.x: approvals, finish reasons, reasons of an abort.
    Six,
    /// 7.x: answers to approvals, citations of texts, custom parts.
    #[default]
    Seven,
}

impl Major {
    /// The major that a number names.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "5" => Some(Self::Five),
            "6" => Some(Self::Six),
            "7" => Some(Self::Seven),
            _ => None,
        }
    }

    /// The number.
    const fn number(self) -> u8 {
        match self {
            Self::Five => 5,
            Self::Six => 6,
            Self::Seven => 7,
        }
    }

    /// The major that a context asks for by its dialect.
    fn of(context: &EncodeContext) -> Self {
        context.dialect.as_deref().and_then(Self::named).unwrap_or_default()
    }
}

/// What a gateway needs to know of a transport's body besides the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// ID of the chat, under which a client asks for a running stream.
    pub id: Option<String>,
    /// ID of the assistant's message that the answer goes on with: the client wants its own ID back, or it shows it twice.
    pub continues: Option<String>,
}

impl Chat {
    /// Reads a body; what cannot be read is nothing, since the decoder of the request tells what is wrong with it.
    pub fn of(body: &[u8]) -> Self {
        let Ok(head) = throughline_format::json::decode_slice::<wire::Head>(body) else {
            return Self::default();
        };
        let last = head.messages.and_then(|mut list| list.pop());
        Self {
            id: head.id,
            continues: last.filter(|m| m.role.as_deref() == Some("assistant")).and_then(|m| m.id),
        }
    }
}

/// Profile of everything here: `v1` is the value of the stream's header for every major.
fn profile() -> UnifiedProtocolProfile {
    UnifiedProtocolProfile {
        version: Some("v1".into()),
        ..UnifiedProtocolProfile::of(ProtocolFamily::VercelUiMessage)
    }
}

/// Whether something was read from this wire.
fn is_own(profile: Option<&UnifiedProtocolProfile>) -> bool {
    profile.is_some_and(|p| p.family == ProtocolFamily::VercelUiMessage)
}

impl Codec for VercelUiMessage {
    fn profile(&self) -> UnifiedProtocolProfile {
        profile()
    }

    fn capabilities(&self) -> &'static CapabilityTable {
        &capabilities::TABLE
    }

    fn dialects(&self) -> Vec<&'static str> {
        vec!["5", "6", "7"]
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
        Box::new(decode_stream::UiStreamDecoder::new(context.clone()))
    }

    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder> {
        Box::new(encode_stream::UiStreamEncoder::new(context.clone()))
    }

    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        errors::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        errors::encode(error)
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, _: &Capabilities) -> String {
        encode_call::wire_name(tool.namespace.as_deref(), tool.name.as_deref().unwrap_or_default())
    }

    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(call_id)
    }
}
