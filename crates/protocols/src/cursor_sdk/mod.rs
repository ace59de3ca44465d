//! Cursor: prompts for its agents, runs and their streams, of the SDK and of the Cloud API.
//!
//! What it is: an agent runtime and no completion API. One sends a prompt; the runtime owns model calls, instructions, history
//! and most tools, and tells what it does. So a request becomes a prompt and nothing else, and everything that a run tells
//! becomes items: texts, thinking, calls of the runtime's tools with their results. A tool of the SDK's host for which the run
//! waits stands at `executing` with the client as its executor: the run is parked.
//!
//! What it refuses, and what encoders therefore take care of: a prompt without text, more than five images, a second run on a
//! busy agent. An agent's memory cannot be rewritten: a history that is not its own needs a new agent, whose first prompt
//! carries it as a transcript.
//!
//! Streams come in four frames, and each message shows its own: the SDK's messages, a run as a store keeps it, the command
//! line's `stream-json`, the events of the Cloud API. A line of the first three is the data of one event. IDs of agents, runs
//! and sessions, checkpoints and offsets are handles of their owner and stand in no record.
//!
//! Where to start reading: `run` (the state machine of every answer), `encode_request` (the transcript).
//! Reference: <https://cursor.com/docs/background-agent/api/overview>.

mod capabilities;
pub mod cloud;
mod decode_request;
mod decode_response;
mod decode_stream;
mod encode_request;
mod encode_response;
mod encode_stream;
mod errors;
mod private;
pub(crate) mod requirements;
mod run;
mod tools;
mod usage;
#[allow(unreachable_pub)] // `wire!` writes `pub`; the module itself is private
mod wire;

use crate::capability::{Capabilities, CapabilityTable};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError};
use crate::context::{DecodeContext, EncodeContext};
use crate::continuation::{Continuation, Held, Inherited};
use std::borrow::Cow;
use throughline_format::{ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition};

pub use encode_request::MAX_IMAGES;

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorSdk;

/// Profile of everything here: the sources differ in their frames only.
fn profile() -> UnifiedProtocolProfile {
    UnifiedProtocolProfile::of(ProtocolFamily::CursorSdk)
}

/// Whether something was read from this wire.
fn is_own(profile: Option<&UnifiedProtocolProfile>) -> bool {
    profile.is_some_and(|p| p.family == ProtocolFamily::CursorSdk)
}

impl Codec for CursorSdk {
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
        Box::new(decode_stream::RunStreamDecoder::new(context.clone()))
    }

    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder> {
        Box::new(encode_stream::RunStreamEncoder::new(context.clone()))
    }

    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        errors::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        errors::encode(error)
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, _: &Capabilities) -> String {
        tool.name.clone().unwrap_or_default()
    }

    fn continuation(&self, schema: &str) -> Option<Continuation> {
        (schema == private::AGENT).then_some(Continuation {
            presented_as: private::AGENT,
            holds: Held::History(Inherited::Instructions),
        })
    }

    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(call_id)
    }
}
