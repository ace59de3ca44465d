//! Types of the wire, nothing else. What the SDK, its stored runs, the command line and the Cloud API write differs in the
//! frame and in spellings, so one type reads the messages of all four.

use crate::wire::wire;
use throughline_format::Json;

wire! {
    /// A prompt that is sent: the SDK's arguments (`message`) or the body of the Cloud API (`prompt`).
    pub struct Request {
        agent_id = "agentId"?: String,
        message?: Json,
        prompt?: Prompt,
        model?: Json,
        metadata?: Json,
    }
}
wire! {
    /// Text and images.
    pub struct Prompt { text?: String, images?: Vec<Image>, }
}
wire! {
    /// An image, as data or by address.
    pub struct Image { data?: String, mime_type = "mimeType"?: String, url?: String, dimension?: Dimension, }
}
wire! {
    /// Pixels.
    pub struct Dimension { width?: u64, height?: u64, }
}
wire! {
    /// A model with its parameters.
    pub struct Model { id: String, }
}
wire! {
    /// The result of a run: the SDK's, or a run of the Cloud API.
    pub struct Run {
        id?: String,
        agent_id = "agentId"?: String,
        request_id = "requestId"?: String,
        status: String,
        result?: String,
        model?: Json,
        usage?: Json,
        error?: Json,
    }
}
wire! {
    /// A run as an answer of the Cloud API holds it.
    pub struct Created { run: Run, }
}
wire! {
    /// A message of a stream, in any of the forms.
    pub struct Message {
        kind = "type"?: String,
        subtype?: String,
        schema_version = "schemaVersion"?: Json,
        event_type = "eventType"?: String,
        offset?: Json,
        agent_id?: String,
        agent = "agentId"?: String,
        run_id?: String,
        run = "runId"?: String,
        session_id?: String,
        model?: Json,
        tools?: Json,
        status?: String,
        message?: Json,
        payload?: Json,
        text?: String,
        thinking_duration_ms?: Json,
        call_id?: String,
        call = "callId"?: String,
        name?: String,
        args?: Json,
        result?: Json,
        truncated?: Truncated,
        tool_call?: Json,
        tool = "toolCall"?: Json,
        model_call_id?: Json,
        timestamp_ms?: Json,
        request_id?: String,
        usage?: Json,
        is_error?: bool,
        code?: String,
        summary?: String,
        tokens?: f64,
        checkpoint?: Json,
        path?: String,
    }
}
wire! {
    /// What of a call was cut.
    pub struct Truncated { args?: bool, result?: bool, }
}
wire! {
    /// What somebody said.
    pub struct Said { role?: String, content?: Vec<Content>, }
}
wire! {
    /// A piece of it.
    pub struct Content { kind = "type": String, text?: String, id?: String, name?: String, input?: Json, }
}
wire! {
    /// A call as rich updates and the command line have it.
    pub struct ToolCall { kind = "type"?: String, args?: Json, result?: Json, }
}
wire! {
    /// Arguments of a tool of an MCP server.
    pub struct McpArguments { provider = "providerIdentifier"?: String, tool = "toolName"?: String, name?: String, args?: Json, }
}
wire! {
    /// Token counters.
    pub struct Usage {
        input_tokens = "inputTokens"?: f64,
        output_tokens = "outputTokens"?: f64,
        cache_read_tokens = "cacheReadTokens"?: f64,
        cache_write_tokens = "cacheWriteTokens"?: f64,
        reasoning_tokens = "reasoningTokens"?: f64,
        total_tokens = "totalTokens"?: f64,
        cost?: Cost,
    }
}
wire! {
    /// What it cost, in hundredths of a US dollar.
    pub struct Cost { raw_cost_cents = "rawCostCents"?: f64, charged_cents = "chargedCents"?: f64, }
}
wire! {
    /// Counters of an agent and of its runs, as `GET /v1/agents/{id}/usage` has them.
    pub struct AgentUsage { total_usage = "totalUsage"?: Json, runs?: Vec<RunUsage>, }
}
wire! {
    /// Counters of one run.
    pub struct RunUsage { id?: String, usage?: Json, }
}
