//! Gemini GenerateContent: request, response and stream, with Vertex and the Antigravity envelope as dialects.
//!
//! A content is a run of parts of one role. Runs of text and media become one message item, runs of thoughts one reasoning
//! item; calls, results and hosted work become one item each. What the record cannot say is kept for the same owner
//! (`kept`): thought signatures on exactly the part that they came with, fields without a Unified word, spellings.
//!
//! What is peculiar: the URL names the model and chooses the stream ([`WireTraits`]); proto JSON takes `snake_case` too
//! (`spelling`); calls of older models have no ID, so one is made and left out again; arguments are objects; spans count
//! UTF-8 bytes; absent counters are unknown; there is no word for an answer that ends in calls.
//!
//! Validity rules of the wire that encoders keep whatever the history holds: a user's turn first and last; roles alternate;
//! every call answered in the next turn, results before anything else, by ID and name; a signature on the first call of a
//! step; no empty parts; no unknown field; hosted tools beside functions only where the model takes both.
//!
//! Reference: <https://ai.google.dev/api/generate-content>,
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference>. The envelope has no published contract.
//!
//! `versions` is what v1 of the Gemini API has less than v1beta.
//!
//! Where to start reading: [`wire`] and [`wire_answer`] (the types), then `decode_part` (what a part becomes) and
//! `encode_turns` (how a history becomes legal); `answer` is what streams and unstreamed responses share.

mod answer;
mod candidate;
mod capabilities;
mod decode_part;
mod decode_request;
mod decode_response;
mod decode_settings;
mod decode_stream;
mod decode_tools;
mod encode_item;
mod encode_part;
mod encode_request;
mod encode_response;
mod encode_settings;
mod encode_stream;
mod encode_tools;
mod encode_turns;
mod finish;
mod framing;
mod grounding;
mod kept;
mod models;
mod partial_args;
pub(crate) mod requirements;
mod schema;
mod spelling;
mod tool_names;
mod usage;
mod versions;
pub mod wire;
pub mod wire_answer;

use crate::capability::{Capabilities, CapabilityTable};
use crate::codec::{Codec, Decoded, DecodedRequest, Encoded, ErrorHeaders, StreamDecoder, StreamEncoder, WireError, WireTraits};
use crate::context::{DecodeContext, EncodeContext};
use crate::google::status;
use std::borrow::Cow;
use throughline_format::{ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition};

/// Longest call ID that is written; the service sets no bound.
const MAX_CALL_ID: usize = 512;

/// Which dialect is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The Gemini API.
    Gemini,
    /// Vertex.
    Vertex,
    /// The Antigravity envelope.
    Antigravity,
}

impl Dialect {
    /// The profile that is read and written.
    fn profile(self) -> UnifiedProtocolProfile {
        let (family, version) = match self {
            Self::Gemini => (ProtocolFamily::GeminiGenerateContent, Some("v1beta")),
            Self::Vertex => (ProtocolFamily::VertexGemini, Some("v1")),
            Self::Antigravity => (ProtocolFamily::Antigravity, None),
        };
        UnifiedProtocolProfile {
            family,
            version: version.map(str::to_owned),
            revision: None,
        }
    }

    /// Where the request stands in the body.
    const fn request_prefix(self) -> &'static str {
        match self {
            Self::Gemini | Self::Vertex => "",
            Self::Antigravity => "/request",
        }
    }

    /// The role that instructions carry by default.
    const fn system_role(self) -> Option<&'static str> {
        match self {
            Self::Gemini | Self::Vertex => None,
            Self::Antigravity => Some("user"),
        }
    }
}

/// The codec of one dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeminiGenerateContent {
    /// The dialect.
    pub dialect: Dialect,
}

impl GeminiGenerateContent {
    /// The Gemini API.
    pub const GEMINI: Self = Self { dialect: Dialect::Gemini };
    /// Vertex.
    pub const VERTEX: Self = Self { dialect: Dialect::Vertex };
    /// The Antigravity envelope.
    pub const ANTIGRAVITY: Self = Self {
        dialect: Dialect::Antigravity,
    };
}

impl Codec for GeminiGenerateContent {
    fn profile(&self) -> UnifiedProtocolProfile {
        self.dialect.profile()
    }

    fn capabilities(&self) -> &'static CapabilityTable {
        capabilities::of(self.dialect)
    }

    fn dialects(&self) -> Vec<&'static str> {
        match self.dialect {
            Dialect::Gemini => versions::WORDS.to_vec(),
            Dialect::Vertex | Dialect::Antigravity => Vec::new(),
        }
    }

    /// A client's body is of the whole API, whatever version its path names.
    fn takes_own_bytes(&self, dialect: Option<&str>) -> bool {
        !versions::is_reduced(self.dialect, dialect)
    }

    fn wire_traits(&self) -> WireTraits {
        WireTraits {
            model_in_url: self.dialect != Dialect::Antigravity,
            stream_in_url: true,
            envelope: self.dialect == Dialect::Antigravity,
        }
    }

    fn decode_request(&self, body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
        decode_request::decode(self.dialect, body, context)
    }

    fn encode_request(&self, request: &UnifiedRequestV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
        let context = &context.to_provider();
        Ok(encode_request::encode(self.dialect, request, context))
    }

    fn decode_response(&self, body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
        decode_response::decode(self.dialect, body, context)
    }

    fn encode_response(&self, result: &UnifiedResultV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
        Ok(encode_response::encode(self.dialect, result, context))
    }

    fn stream_decoder(&self, context: &DecodeContext) -> Box<dyn StreamDecoder> {
        Box::new(decode_stream::Decoder::new(self.dialect, context))
    }

    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder> {
        Box::new(encode_stream::Encoder::new(self.dialect, context))
    }

    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        status::decode(status, headers, body)
    }

    fn encode_error(&self, error: &UnifiedError) -> WireError {
        status::encode(error)
    }

    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, _: &Capabilities) -> String {
        let name = tool.name.as_deref().unwrap_or_default();
        tool_names::wire_name(tool.namespace.as_deref(), name).into_owned()
    }

    /// Any text is a call ID here; a made one stands for none.
    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(call_id)
    }
}
