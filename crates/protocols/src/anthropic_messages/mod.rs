//! Anthropic Messages: request, response and stream.
//!
//! A wire message is a run of blocks. Runs of text and media become one message item; thinking, calls and results become
//! one item each, in block order. Code and commands of the hosted environment are code executions, members of computer and
//! browser toolsets computer actions, what a web search found a search result, a compaction a summary; skills and MCP servers
//! are tools, a container is a resource of the state. What the record cannot say is kept for the same owner (`kept`):
//! signatures, redacted data and handles, blocks of hosted results as they were, citations with private indexes, fields
//! without a Unified word, events of a stream that are not understood.
//!
//! Validity rules of the wire that encoders keep whatever the history holds: a user message first; every call answered
//! in the next user message, results before anything else; results only for calls just before; hosted results behind their
//! call, and hosted calls without one only in a turn that goes on; no blank texts; call IDs
//! of `[A-Za-z0-9_-]`; arguments that are objects; thinking only with signatures of the owner, and first in a turn with
//! calls when a budget is set; at most four cache marks, longer lives first, none on thinking; an output limit; a
//! temperature of at most 1; no blank end of a prefilled answer.
//!
//! Where to start reading: [`wire`] (the types), then `decode_request` and `encode_request`; `answer` is what streams and
//! unstreamed responses share.

mod answer;
mod answer_blocks;
mod capabilities;
mod decode_block;
mod decode_call;
mod decode_citation;
mod decode_hosted;
mod decode_request;
mod decode_response;
mod decode_state;
mod decode_stream;
mod decode_tools;
mod encode_block;
mod encode_history;
mod encode_hosted;
mod encode_parameters;
mod encode_request;
mod encode_response;
mod encode_state;
mod encode_stream;
mod encode_tools;
mod encode_turns;
mod errors;
mod kept;
mod out_block;
pub(crate) mod requirements;
mod schema;
mod tool_names;
mod usage;
pub mod wire;
pub mod wire_events;

use crate::call_id;
use crate::capability::{Capabilities, CapabilityTable};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError};
use crate::context::{DecodeContext, EncodeContext};
use crate::continuation::{Continuation, Held};
use crate::history::WireHistory;
use std::borrow::Cow;
use throughline_format::{
    Json, ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition, UnifiedUsage,
};

/// Begin of the schema name of a JSON part that is a block of this wire.
const JSON_PREFIX: &str = "anthropic-messages/";
/// The dated code execution tool that a caller without a date is written as.
const DEFAULT_CODE_CALLER: &str = "code_execution_20260120";

/// Codes of warnings that tell of an event or change which is kept, and comes back in a stream for its owner.
const UNKNOWN_EVENT: &str = "stream.unknown-event";
const UNKNOWN_DELTA: &str = "stream.unknown-delta";
/// Codes of warnings that tell of something else which is kept.
const KEPT_ODD: &[&str] = &[
    UNKNOWN_EVENT,
    UNKNOWN_DELTA,
    "stream.unknown-block",
    "stream.misplaced-delta",
    "stream.unreadable-event",
];

/// The profile that this codec reads and writes.
fn profile() -> UnifiedProtocolProfile {
    UnifiedProtocolProfile {
        family: ProtocolFamily::AnthropicMessages,
        version: Some("2023-06-01".into()),
        revision: None,
    }
}

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnthropicMessages;

/// The messages of a request's history as blocks, paired and repaired as in a body of it; the instructions are left out.
pub fn history(request: &UnifiedRequestV2, context: &EncodeContext) -> WireHistory {
    encode_request::history(request, context)
}

/// The counters of a finished answer's `usage` object; what is no such object gives none.
pub fn usage_of(raw: &Json) -> UnifiedUsage {
    usage::decode(raw, true)
}

impl Codec for AnthropicMessages {
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
        errors::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        errors::encode(error)
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, capabilities: &Capabilities) -> String {
        tool_names::Names::of(std::slice::from_ref(tool), capabilities).of_tool(tool)
    }

    fn wire_tool_names(&self, tools: &[UnifiedToolDefinition], capabilities: &Capabilities) -> Vec<String> {
        let names = tool_names::Names::of(tools, capabilities);
        tools.iter().map(|tool| names.of_tool(tool)).collect()
    }

    fn continuation(&self, schema: &str) -> Option<Continuation> {
        (schema == kept::CONTAINER).then_some(Continuation {
            presented_as: kept::CONTAINER,
            holds: Held::Place,
        })
    }

    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        call_id::wire(call_id, capabilities::TABLE.knobs.max_tool_id_length)
    }
}
