//! Types of the wire, nothing else: the transport's body, messages with their parts, chunks of the stream.
//!
//! Parts and chunks are one type each, whose `type` says which members mean something: every kind shares most of them, and a
//! kind that this version does not know keeps its members all the same.

use crate::wire::wire;
use throughline_format::Json;

wire! {
    /// Body of the transport's POST; what applications add stands in `extra`.
    pub struct Body {
        id?: Json,
        messages: Vec<Message>,
        trigger?: Json,
        message_id = "messageId"?: Json,
        model?: String,
    }
}
wire! {
    /// What of a body tells where it belongs.
    pub struct Head { id?: String, messages?: Vec<Named>, }
}
wire! {
    /// A message's role and ID.
    pub struct Named { id?: String, role?: String, }
}
wire! {
    /// A message of a user interface.
    pub struct Message {
        id?: String,
        role: String,
        metadata?: Json,
        parts?: Vec<Part>,
    }
}
wire! {
    /// A part of a message.
    pub struct Part {
        kind = "type": String,
        id?: String,
        text?: String,
        state?: String,
        citations?: Json,
        url?: String,
        media_type = "mediaType"?: String,
        filename?: String,
        source_id = "sourceId"?: String,
        title?: String,
        tool_call_id = "toolCallId"?: String,
        tool_name = "toolName"?: String,
        input?: Json,
        raw_input = "rawInput"?: Json,
        input_encoding = "inputEncoding"?: String,
        output?: Json,
        error_text = "errorText"?: String,
        preliminary?: bool,
        provider_executed = "providerExecuted"?: bool,
        approval?: Approval,
        data?: Json,
        parts?: Vec<Json>,
        provider_metadata = "providerMetadata"?: Json,
        call_provider_metadata = "callProviderMetadata"?: Json,
        result_provider_metadata = "resultProviderMetadata"?: Json,
    }
}
wire! {
    /// Where the approval of a call stands.
    pub struct Approval {
        id: String,
        approved?: bool,
        reason?: String,
        request_reason = "requestReason"?: String,
    }
}
wire! {
    /// A citation of a text (major 7).
    pub struct Citation {
        source: CitedSource,
        start_index = "startIndex"?: u64,
        end_index = "endIndex"?: u64,
        cited_text = "citedText"?: String,
    }
}
wire! {
    /// What is cited.
    pub struct CitedSource {
        source_type = "sourceType"?: String,
        id?: String,
        url?: String,
        media_type = "mediaType"?: String,
        title?: String,
        filename?: String,
    }
}
wire! {
    /// A chunk of the stream.
    pub struct Chunk {
        kind = "type": String,
        id?: String,
        message_id = "messageId"?: String,
        message_metadata = "messageMetadata"?: Json,
        delta?: String,
        citations?: Json,
        url?: String,
        media_type = "mediaType"?: String,
        filename?: String,
        source_id = "sourceId"?: String,
        title?: String,
        tool_call_id = "toolCallId"?: String,
        tool_name = "toolName"?: String,
        tool_metadata = "toolMetadata"?: Json,
        input_text_delta = "inputTextDelta"?: String,
        input?: Json,
        input_encoding = "inputEncoding"?: String,
        output?: Json,
        error_text = "errorText"?: String,
        preliminary?: bool,
        provider_executed = "providerExecuted"?: bool,
        dynamic?: bool,
        approval_id = "approvalId"?: String,
        approval_descriptor = "approvalDescriptor"?: Json,
        input_schema_input = "inputSchemaInput"?: Json,
        is_automatic = "isAutomatic"?: bool,
        signature?: String,
        approved?: bool,
        reason?: String,
        data?: Json,
        transient?: bool,
        finish_reason = "finishReason"?: String,
        provider_metadata = "providerMetadata"?: Json,
    }
}

wire! {
    /// What metadata may hold.
    pub struct Metadata { total_tokens = "totalTokens"?: Json, usage?: Json, }
}
wire! {
    /// The SDK's usage record, with the flat members of major 5 and the details of later ones.
    pub struct Usage {
        input_tokens = "inputTokens"?: f64,
        input_details = "inputTokenDetails"?: InputDetails,
        output_tokens = "outputTokens"?: f64,
        output_details = "outputTokenDetails"?: OutputDetails,
        total_tokens = "totalTokens"?: f64,
        reasoning_tokens = "reasoningTokens"?: f64,
        cached_input_tokens = "cachedInputTokens"?: f64,
    }
}
wire! {
    /// What the input consists of.
    pub struct InputDetails {
        no_cache_tokens = "noCacheTokens"?: f64,
        cache_read_tokens = "cacheReadTokens"?: f64,
        cache_write_tokens = "cacheWriteTokens"?: f64,
    }
}
wire! {
    /// What the output consists of.
    pub struct OutputDetails { reasoning_tokens = "reasoningTokens"?: f64, }
}
wire! {
    /// A counter as the record writes it.
    pub struct Figure { value: Json, }
}

impl Part {
    /// A part with nothing but its kind.
    pub fn of(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            id: None,
            text: None,
            state: None,
            citations: None,
            url: None,
            media_type: None,
            filename: None,
            source_id: None,
            title: None,
            tool_call_id: None,
            tool_name: None,
            input: None,
            raw_input: None,
            input_encoding: None,
            output: None,
            error_text: None,
            preliminary: None,
            provider_executed: None,
            approval: None,
            data: None,
            parts: None,
            provider_metadata: None,
            call_provider_metadata: None,
            result_provider_metadata: None,
            extra: crate::wire::Extra::default(),
        }
    }

    /// Whether it is a tool's part.
    pub fn is_tool(&self) -> bool {
        self.kind == "dynamic-tool" || self.kind.starts_with("tool-")
    }

    /// The tool's name, wherever the part has it.
    pub fn name(&self) -> &str {
        match self.kind.strip_prefix("tool-") {
            Some(name) => name,
            None => self.tool_name.as_deref().unwrap_or_default(),
        }
    }
}
