//! [`Codec`]: what every protocol can do, and the values that go in and out.

use crate::capability::{Capabilities, CapabilityTable};
use crate::context::{DecodeContext, EncodeContext};
use crate::continuation::{Continuation, Job};
use crate::side::SideResource;
use std::borrow::Cow;
use throughline_format::event::{ErrorEvent, EventBody, OperationCompleted, StreamCompleted};
use throughline_format::{
    ErrorCategory, EventDraft, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedLossReport, UnifiedProtocolProfile, UnifiedRequestV2,
    UnifiedResponseStatus, UnifiedResultV2, UnifiedToolDefinition,
};

/// A request as a decoder hands it on.
#[derive(Debug)]
pub struct DecodedRequest {
    /// The request.
    pub unified: UnifiedRequestV2,
    /// Private payloads and annotations that the request refers to.
    pub resources: Vec<SideResource>,
    /// What the decode lost or kept aside; paths are JSON Pointers into the wire body.
    pub loss: UnifiedLossReport,
    /// Whether the client wants a stream.
    pub stream: bool,
}

/// Events as a decoder makes them, with the payloads that they refer to.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Events in order, without a place yet. The last two of a response are its terminal event and `stream.completed`.
    pub drafts: Vec<EventDraft>,
    /// Private payloads and annotations that the events refer to.
    pub resources: Vec<SideResource>,
}

impl Decoded {
    /// Adds an event about the response as a whole.
    pub fn push(&mut self, body: EventBody) {
        self.drafts.push(EventDraft::new(body));
    }

    /// Ends the operation well: the terminal event and `stream.completed`.
    pub fn complete(&mut self, status: UnifiedResponseStatus, item_ids: Vec<UnifiedId>) {
        self.push(EventBody::OperationCompleted(OperationCompleted { status: status.clone() }));
        self.push(EventBody::StreamCompleted(StreamCompleted { status, item_ids }));
    }

    /// Ends the operation badly: the terminal event and `stream.completed`.
    pub fn fail(&mut self, error: UnifiedError, status: UnifiedResponseStatus, item_ids: Vec<UnifiedId>) {
        let error = error.sanitised();
        self.push(EventBody::OperationFailed(ErrorEvent { error }));
        self.push(EventBody::StreamCompleted(StreamCompleted { status, item_ids }));
    }

    /// Appends another batch.
    pub fn extend(&mut self, other: Self) {
        self.drafts.extend(other.drafts);
        self.resources.extend(other.resources);
    }
}

/// A body of the target's wire with what the projection lost.
#[derive(Debug)]
pub struct Encoded {
    /// JSON text of the body.
    pub body: String,
    /// Losses; paths are JSON Pointers into the Unified record. When [`UnifiedLossReport::is_unsupported`], nothing may be sent.
    pub loss: UnifiedLossReport,
}

/// One SSE frame of a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireFrame {
    /// Event name, where the protocol has one.
    pub event: Option<&'static str>,
    /// The data as sent; one line.
    pub data: String,
}

impl WireFrame {
    /// The frame as bytes of an event stream.
    pub fn to_sse(&self) -> String {
        match self.event {
            Some(event) => format!("event: {event}\ndata: {}\n\n", self.data),
            None => format!("data: {}\n\n", self.data),
        }
    }
}

/// An error in the client's own shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// HTTP status.
    pub status: u16,
    /// JSON text of the body.
    pub body: String,
}

/// HTTP status of an error of this category, on wires whose own words for errors say nothing about it.
pub const fn http_status(category: ErrorCategory) -> u16 {
    match category {
        ErrorCategory::InvalidRequest
        | ErrorCategory::MaxContext
        | ErrorCategory::ContentFilter
        | ErrorCategory::Unsupported
        | ErrorCategory::Checkpoint => 400,
        ErrorCategory::Auth => 401,
        ErrorCategory::Permission => 403,
        ErrorCategory::NotFound => 404,
        ErrorCategory::Conflict => 409,
        ErrorCategory::TooLarge => 413,
        ErrorCategory::RateLimit | ErrorCategory::Quota | ErrorCategory::Limit => 429,
        ErrorCategory::Overloaded | ErrorCategory::Storage => 503,
        ErrorCategory::Timeout => 504,
        ErrorCategory::Network | ErrorCategory::Interrupted => 502,
        ErrorCategory::Cancelled => 499,
        ErrorCategory::Server | ErrorCategory::Internal => 500,
    }
}

/// Turns the bytes of a stream into events, wherever the transport cuts them.
pub trait StreamDecoder: Send {
    /// Takes the next bytes. A stream that breaks the protocol ends with `operation.failed`; unknown events never fail it.
    fn push(&mut self, bytes: &[u8]) -> Decoded;

    /// Tells that no bytes follow. A stream without its end becomes `failed` with category `interrupted`.
    fn finish(&mut self) -> Decoded;

    /// Whether the terminal events were handed out.
    fn is_finished(&self) -> bool;

    /// The work behind the stream, once it is known and when it can be read again at the provider.
    fn job(&self) -> Option<Job> {
        None
    }

    /// Tells that another connection goes on after the last whole event: what was cut is forgotten. Gives the provider's own
    /// name of that place; `None` when the stream can only be read from its begin.
    fn reconnect(&mut self) -> Option<String> {
        None
    }
}

/// Turns committed events into frames of a protocol.
pub trait StreamEncoder: Send {
    /// Encodes one event. Heartbeats and events without a form on this wire give no frame.
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame>;

    /// What could not be said so far. Only entries about the answer as a whole have their place: [`crate::projection::stream_loss`]
    /// gives the report of a whole stream.
    fn loss(&self) -> &UnifiedLossReport;

    /// Bytes that keep an idle connection open.
    fn keep_alive(&self) -> Cow<'static, str> {
        Cow::Borrowed(": keep-alive\n\n")
    }
}

/// Headers of an error answer that mean something: trace ID and retry advice.
#[derive(Clone, Debug, Default)]
pub struct ErrorHeaders {
    /// `request-id` or `x-request-id`.
    pub request_id: Option<String>,
    /// Retry advice in milliseconds, from `retry-after-ms` or `retry-after`.
    pub retry_after_ms: Option<u64>,
    /// `x-should-retry`.
    pub should_retry: Option<bool>,
}

impl ErrorHeaders {
    /// The error of a body with what the headers tell, fit for a record; a body's own advice and ID stand where the headers have none.
    pub(crate) fn apply(&self, mut error: UnifiedError) -> UnifiedError {
        error.retryable = self.should_retry.unwrap_or(error.retryable);
        error.retry_after_ms = self.retry_after_ms.or(error.retry_after_ms);
        if self.request_id.is_some() {
            error.provider_request_id.clone_from(&self.request_id);
        }
        error.sanitised()
    }
}

/// What the body of a request does not say on this wire, and where it is said instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireTraits {
    /// The URL names the model: a body names none, decoders take it from [`DecodeContext::requested_model`], and whoever sends
    /// a body puts [`EncodeContext::target_model`] into the address.
    pub model_in_url: bool,
    /// The URL says whether the answer is a stream: [`DecodedRequest::stream`] is false whatever the client wants.
    pub stream_in_url: bool,
    /// The request proper stands inside an envelope, beside routing fields that are no part of the conversation.
    pub envelope: bool,
}

/// One wire protocol, both ways.
pub trait Codec: Send + Sync {
    /// Profile of what this codec reads and writes.
    fn profile(&self) -> UnifiedProtocolProfile;

    /// What the URL says in the place of the body; by default nothing.
    fn wire_traits(&self) -> WireTraits {
        WireTraits::default()
    }

    /// What the protocol can express.
    fn capabilities(&self) -> &'static CapabilityTable;

    /// Words for [`EncodeContext::dialect`] and [`DecodeContext::dialect`]; others are read as none.
    fn dialects(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether a target of this dialect takes a body of this protocol as a client wrote it. Otherwise it is always written anew.
    fn takes_own_bytes(&self, dialect: Option<&str>) -> bool {
        let _ = dialect;
        true
    }

    /// Reads a request body.
    ///
    /// # Errors
    /// `invalid-request.*` with the JSON Pointer of the place.
    fn decode_request(&self, body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError>;

    /// Writes a request body. The result is legal for the target whatever the history holds; repairs are loss entries.
    ///
    /// # Errors
    /// `internal.*` when a record cannot be written; losses are no errors.
    fn encode_request(&self, request: &UnifiedRequestV2, context: &EncodeContext) -> Result<Encoded, UnifiedError>;

    /// Reads an unstreamed response as the events that a stream of it would give, terminal ones included.
    ///
    /// # Errors
    /// `invalid-request.*` with the JSON Pointer of the place.
    fn decode_response(&self, body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError>;

    /// Writes a response body.
    ///
    /// # Errors
    /// `internal.*` when a record cannot be written.
    fn encode_response(&self, result: &UnifiedResultV2, context: &EncodeContext) -> Result<Encoded, UnifiedError>;

    /// A decoder for one stream.
    fn stream_decoder(&self, context: &DecodeContext) -> Box<dyn StreamDecoder>;

    /// An encoder for one stream.
    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder>;

    /// Reads an error answer of the provider; the message is sanitised.
    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError;

    /// Writes an error in this protocol's shape.
    fn encode_error(&self, error: &UnifiedError) -> WireError;

    /// The name under which a request of this wire offers a tool; an answer's calls come back with it.
    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, capabilities: &Capabilities) -> String;

    /// How a handle of an answer, kept under this schema, goes into the owner's next request; `None` for any other state.
    fn continuation(&self, schema: &str) -> Option<Continuation> {
        let _ = schema;
        None
    }

    /// Whether the provider keeps the answer to this request, so that its handle can be used afterwards.
    fn is_kept(&self, request: &UnifiedRequestV2, dialect: Option<&str>) -> bool {
        let _ = dialect;
        request
            .state
            .as_ref()
            .and_then(|state| state.persist.as_ref())
            .is_none_or(|persist| persist.value)
    }

    /// The names under which a request offers all of these tools, in their order; one may depend on what stands beside it.
    fn wire_tool_names(&self, tools: &[UnifiedToolDefinition], capabilities: &Capabilities) -> Vec<String> {
        tools.iter().map(|tool| self.wire_tool_name(tool, capabilities)).collect()
    }

    /// The call ID as this wire may carry it: the ID itself when it is legal, else its deterministic replacement.
    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str>;
}
