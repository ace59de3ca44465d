//! Types of the wire, with the provider's member names; unknown members and blocks are kept raw.

pub use super::wire_events::*;
use crate::wire::{TextOr, wire, wire_union};
use throughline_format::Json;

wire! {
    /// Any object, as its members in order.
    pub struct Members {}
}
wire! {
    /// A cache mark.
    pub struct CacheControl {
        /// Always `ephemeral`.
        kind = "type"?: String,
        /// `5m` or `1h`.
        ttl?: String,
    }
}
wire! {
    /// Text.
    pub struct TextBlock {
        /// The text.
        text: String,
        /// Citations as written.
        citations?: Vec<Json>,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire! {
    /// Inline base64 data.
    pub struct Base64Source {
        /// Media type.
        media_type: String,
        /// Base64 text.
        data: String,
    }
}
wire! {
    /// Inline text.
    pub struct PlainSource {
        /// Media type, `text/plain`.
        media_type?: String,
        /// The text.
        data: String,
    }
}
wire! {
    /// Data at an address.
    pub struct AddressSource {
        /// The address.
        url: String,
    }
}
wire! {
    /// A file of the provider.
    pub struct FileSource {
        /// Its handle.
        file_id: String,
    }
}
wire_union! {
    /// Where the data of an image or document is.
    pub enum Source {
        /// Inline base64.
        Base64(Base64Source) = "base64",
        /// Inline text.
        Text(PlainSource) = "text",
        /// An address.
        Url(AddressSource) = "url",
        /// A file of the provider.
        File(FileSource) = "file",
    }
}
wire! {
    /// An image.
    pub struct ImageBlock {
        /// Its data.
        source: Source,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire! {
    /// Whether citations into a document are wanted.
    pub struct CitationSwitch {
        /// Wanted or not.
        enabled?: bool,
    }
}
wire! {
    /// A document.
    pub struct DocumentBlock {
        /// Its data.
        source: Source,
        /// Title.
        title?: String,
        /// Context that is not cited.
        context?: String,
        /// Citations wanted.
        citations?: CitationSwitch,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire! {
    /// Disclosed reasoning.
    pub struct ThinkingBlock {
        /// The text; empty when the display is omitted.
        thinking: String,
        /// The signature; some servers leave it out.
        signature?: String,
    }
}
wire! {
    /// Reasoning that the provider withheld.
    pub struct RedactedThinkingBlock {
        /// Opaque data.
        data: String,
    }
}
wire! {
    /// Who made a call.
    pub struct CallerBlock {
        /// `direct` or the dated code execution tool.
        kind = "type": String,
        /// The code execution's call.
        tool_id?: String,
    }
}
wire! {
    /// A call of a tool: the client's, the provider's or an MCP server's.
    pub struct ToolUseBlock {
        /// Call ID.
        id: String,
        /// Tool name.
        name: String,
        /// Arguments.
        input?: Json,
        /// Who made the call.
        caller?: CallerBlock,
        /// MCP server.
        server_name?: String,
        /// Toolset of a computer or browser.
        toolset_name?: String,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire! {
    /// The result of a client tool.
    pub struct ToolResultBlock {
        /// The call.
        tool_use_id: String,
        /// Text or blocks.
        content?: TextOr<Block>,
        /// Whether it failed.
        is_error?: bool,
        /// Toolset of a computer or browser.
        toolset_name?: String,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire! {
    /// Something that a search of the client's own found.
    pub struct SearchResultBlock {
        /// Where it is from.
        source?: String,
        /// Title.
        title?: String,
        /// Its texts.
        content?: Vec<Block>,
        /// Citations wanted.
        citations?: CitationSwitch,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire_union! {
    /// A content block.
    pub enum Block {
        /// Text.
        Text(TextBlock) = "text",
        /// Image.
        Image(ImageBlock) = "image",
        /// Document.
        Document(DocumentBlock) = "document",
        /// Search result of the client.
        SearchResult(SearchResultBlock) = "search_result",
        /// Reasoning.
        Thinking(ThinkingBlock) = "thinking",
        /// Withheld reasoning.
        RedactedThinking(RedactedThinkingBlock) = "redacted_thinking",
        /// Call of a client tool.
        ToolUse(ToolUseBlock) = "tool_use",
        /// Its result.
        ToolResult(ToolResultBlock) = "tool_result",
        /// Call of a hosted tool.
        ServerToolUse(ToolUseBlock) = "server_tool_use",
        /// Call of an MCP tool.
        McpToolUse(ToolUseBlock) = "mcp_tool_use",
    }
}
wire! {
    /// A message of the history.
    pub struct Message {
        /// `user`, `assistant` or `system`.
        role: String,
        /// Text or blocks.
        content?: TextOr<Block>,
    }
}
wire! {
    /// Reasoning switch.
    pub struct Thinking {
        /// `enabled`, `adaptive`, `disabled`, `between_tools`.
        kind = "type": String,
        /// Budget of `enabled`.
        budget_tokens?: u64,
        /// `summarized` or `omitted`.
        display?: String,
    }
}
wire! {
    /// Form of the answer.
    pub struct Format {
        /// `json_schema`.
        kind = "type": String,
        /// The schema.
        schema?: Json,
    }
}
wire! {
    /// Effort and form of the answer.
    pub struct OutputConfig {
        /// Effort word.
        effort?: String,
        /// Form.
        format?: Format,
    }
}
wire! {
    /// What the model may or must do with tools.
    pub struct ToolChoice {
        /// `auto`, `any`, `tool`, `none`.
        kind = "type": String,
        /// The tool of `tool`.
        name?: String,
        /// One call at a time.
        disable_parallel_tool_use?: bool,
    }
}
wire! {
    /// Labels of a request.
    pub struct Metadata {
        /// Opaque user reference.
        user_id?: String,
    }
}
wire! {
    /// A request.
    pub struct Request {
        /// Model; Bedrock and Vertex have it in the URL.
        model?: String,
        /// Output limit.
        max_tokens?: u64,
        /// Instructions.
        system?: TextOr<Block>,
        /// History.
        messages: Vec<Message>,
        /// Tools as written.
        tools?: Vec<Json>,
        /// Tool choice.
        tool_choice?: ToolChoice,
        /// Reasoning.
        thinking?: Thinking,
        /// Effort and form.
        output_config?: OutputConfig,
        /// Older spelling of the form.
        output_format?: Format,
        /// Stop sequences.
        stop_sequences?: Vec<String>,
        /// Temperature.
        temperature?: f64,
        /// Nucleus sampling.
        top_p?: f64,
        /// Top-k sampling.
        top_k?: f64,
        /// Whether a stream is wanted.
        stream?: bool,
        /// Automatic cache mark.
        cache_control?: CacheControl,
        /// Labels.
        metadata?: Metadata,
        /// Class of service.
        service_tier?: String,
    }
}
wire! {
    /// A function tool.
    pub struct CustomTool {
        /// Name.
        name: String,
        /// What it does.
        description?: String,
        /// Schema of the input.
        input_schema?: Json,
        /// Examples of inputs.
        input_examples?: Vec<Json>,
        /// Strict enforcement.
        strict?: bool,
        /// Loaded only when searched for.
        defer_loading?: bool,
        /// Arguments stream before they are complete.
        eager_input_streaming?: bool,
        /// Who may call it.
        allowed_callers?: Vec<String>,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire! {
    /// The user's place.
    pub struct UserLocation {
        /// Always `approximate`.
        kind = "type"?: String,
        /// City.
        city?: String,
        /// Region.
        region?: String,
        /// Country.
        country?: String,
        /// Time zone.
        timezone?: String,
    }
}
wire! {
    /// A tool that the vendor defines.
    pub struct VendorTool {
        /// Dated type.
        kind = "type": String,
        /// Name.
        name?: String,
        /// Only these domains.
        allowed_domains?: Vec<String>,
        /// Not these domains.
        blocked_domains?: Vec<String>,
        /// Limit of calls.
        max_uses?: u64,
        /// Limit of fetched tokens.
        max_content_tokens?: u64,
        /// The user's place.
        user_location?: UserLocation,
        /// Whether results are cited.
        citations?: CitationSwitch,
        /// Screen width.
        display_width_px?: u64,
        /// Screen height.
        display_height_px?: u64,
        /// Whether zooming is offered.
        enable_zoom?: bool,
        /// MCP server.
        mcp_server_name?: String,
        /// Examples of inputs.
        input_examples?: Vec<Json>,
        /// Strict enforcement.
        strict?: bool,
        /// Loaded only when searched for.
        defer_loading?: bool,
        /// Who may call it.
        allowed_callers?: Vec<String>,
        /// Cache mark.
        cache_control?: CacheControl,
    }
}
wire! {
    /// A citation of any kind.
    pub struct Citation {
        /// Kind.
        kind = "type"?: String,
        /// Quoted words.
        cited_text?: String,
        /// Document, counted over the request.
        document_index?: u64,
        /// Document title.
        document_title?: String,
        /// Address.
        url?: String,
        /// Title of a web page or search result.
        title?: String,
        /// Source of a search result.
        source?: String,
        /// Search result, counted over the request.
        search_result_index?: u64,
        /// First character.
        start_char_index?: u64,
        /// Character after the last.
        end_char_index?: u64,
        /// First page.
        start_page_number?: u64,
        /// Page after the last.
        end_page_number?: u64,
        /// First block.
        start_block_index?: u64,
        /// Block after the last.
        end_block_index?: u64,
    }
}
wire! {
    /// Detail of a refusal.
    pub struct StopDetails {
        /// `refusal`.
        kind = "type"?: String,
        /// Category.
        category?: String,
        /// In words.
        explanation?: String,
    }
}
wire! {
    /// Cache writes by life.
    pub struct CacheCreation {
        /// Five minutes.
        ephemeral_5m_input_tokens?: f64,
        /// One hour.
        ephemeral_1h_input_tokens?: f64,
    }
}
wire! {
    /// Detail of the output tokens.
    pub struct OutputDetails {
        /// Reasoning.
        thinking_tokens?: f64,
    }
}
wire! {
    /// Calls of hosted tools.
    pub struct ServerToolUsage {
        /// Searches.
        web_search_requests?: f64,
        /// Fetches.
        web_fetch_requests?: f64,
        /// Runs of code.
        code_execution_requests?: f64,
        /// Searches among tools.
        tool_search_requests?: f64,
    }
}
wire! {
    /// Usage.
    pub struct Usage {
        /// Uncached input.
        input_tokens?: f64,
        /// Cache reads.
        cache_read_input_tokens?: f64,
        /// Cache writes.
        cache_creation_input_tokens?: f64,
        /// Cache writes by life.
        cache_creation?: CacheCreation,
        /// Output, reasoning included.
        output_tokens?: f64,
        /// Detail of the output.
        output_tokens_details?: OutputDetails,
        /// Hosted tools.
        server_tool_use?: ServerToolUsage,
        /// Class of service.
        service_tier?: String,
        /// Parts of the work, each with figures of its own.
        iterations?: Json,
    }
}
wire! {
    /// A response.
    pub struct Response {
        /// The provider's handle.
        id?: String,
        /// `message`.
        kind = "type"?: String,
        /// `assistant`.
        role?: String,
        /// Resolved model.
        model?: String,
        /// Blocks.
        content?: Vec<Block>,
        /// Why it ended.
        stop_reason?: String,
        /// Matched stop sequence.
        stop_sequence?: String,
        /// Detail of a refusal.
        stop_details?: StopDetails,
        /// Usage as written.
        usage?: Members,
    }
}
wire! {
    /// The error inside an error body or event.
    pub struct ErrorBody {
        /// Error type.
        kind = "type"?: String,
        /// In words.
        message?: String,
    }
}
wire! {
    /// An error answer.
    pub struct ErrorAnswer {
        /// The error.
        error: ErrorBody,
        /// Trace ID.
        request_id?: String,
    }
}
wire! {
    /// An error answer of a server that may only resemble the provider.
    pub struct AnyError {
        /// The error.
        error: TextOrError,
        /// Trace ID.
        request_id?: String,
    }
}
/// An error as an object, or in words.
#[derive(Clone, Debug, PartialEq)]
pub enum TextOrError {
    /// The provider's shape.
    Error(ErrorBody),
    /// Words only.
    Text(String),
}

impl<'de> serde::Deserialize<'de> for TextOrError {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        if let Ok(text) = raw.decode() {
            return Ok(Self::Text(text));
        }
        raw.decode().map(Self::Error).map_err(serde::de::Error::custom)
    }
}

impl serde::Serialize for TextOrError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Error(error) => error.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}
