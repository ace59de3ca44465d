//! Types of the wire, nothing else. Requests, answers and chunks; dialect members that mean something are in them too.
//!
//! Everything but `messages` is optional (some paths carry the model), because dialects leave out nearly anything; a `null` counts as absent.

use crate::wire::{TextOr, wire, wire_union};
use std::collections::BTreeMap;
use throughline_format::Json;

wire! {
    /// Body of `POST /chat/completions`.
    pub struct Request {
        model?: String,
        messages: Vec<Message>,
        max_completion_tokens?: u64,
        max_tokens?: u64,
        temperature?: f64,
        top_p?: f64,
        n?: u64,
        stop?: TextOr<String>,
        seed?: i64,
        frequency_penalty?: f64,
        presence_penalty?: f64,
        logit_bias?: BTreeMap<String, f64>,
        logprobs?: bool,
        top_logprobs?: u64,
        reasoning_effort?: String,
        verbosity?: String,
        modalities?: Vec<String>,
        audio?: AudioOutput,
        prediction?: Prediction,
        response_format?: ResponseFormat,
        tools?: Vec<Tool>,
        tool_choice?: Json,
        parallel_tool_calls?: bool,
        functions?: Vec<FunctionDefinition>,
        function_call?: Json,
        web_search_options?: WebSearchOptions,
        stream?: bool,
        stream_options?: StreamOptions,
        store?: bool,
        metadata?: Json,
        service_tier?: String,
        prompt_cache_key?: String,
        prompt_cache_options?: CacheOptions,
        user?: String,
    }
}

wire! {
    /// Speech that the answer is to contain.
    pub struct AudioOutput { format?: String, voice?: Json, }
}
wire! {
    /// Predicted content.
    pub struct Prediction { kind = "type"?: String, content?: TextOr<Part>, }
}
wire! {
    /// Form of the answer.
    pub struct ResponseFormat { kind = "type"?: String, json_schema?: SchemaFormat, }
}
wire! {
    /// A schema for the answer.
    pub struct SchemaFormat { name?: String, description?: String, schema?: Json, strict?: bool, }
}
wire! {
    /// Web search of the search models.
    pub struct WebSearchOptions { search_context_size?: String, user_location?: UserLocation, }
}
wire! {
    /// Where the user is.
    pub struct UserLocation { kind = "type"?: String, approximate?: Place, }
}
wire! {
    /// A place.
    pub struct Place { city?: String, country?: String, region?: String, timezone?: String, }
}
wire! {
    /// Options of a stream.
    pub struct StreamOptions { include_usage?: bool, }
}
wire! {
    /// Options of the prompt cache.
    pub struct CacheOptions { mode?: String, }
}

wire! {
    /// A tool definition.
    pub struct Tool { kind = "type"?: String, function?: FunctionDefinition, custom?: CustomDefinition, }
}
wire! {
    /// A function that the client executes.
    pub struct FunctionDefinition { name?: String, description?: String, parameters?: Json, strict?: bool, }
}
wire! {
    /// A tool with free text or a grammar.
    pub struct CustomDefinition { name?: String, description?: String, format?: CustomFormat, }
}
wire! {
    /// Form of a custom tool's input.
    pub struct CustomFormat { kind = "type"?: String, grammar?: Grammar, }
}
wire! {
    /// A grammar.
    pub struct Grammar { syntax?: String, definition?: String, }
}

wire! {
    /// A message of a request or an answer, or the delta of one.
    pub struct Message {
        role?: String,
        content?: TextOr<Part>,
        refusal?: String,
        tool_calls?: Vec<Call>,
        function_call?: FunctionCall,
        tool_call_id?: String,
        name?: String,
        audio?: Audio,
        annotations?: Vec<Json>,
        reasoning_content?: Json,
        reasoning?: Json,
        reasoning_text?: Json,
        reasoning_details?: Json,
    }
}
wire! {
    /// A tool call, or the delta of one.
    pub struct Call { index?: u64, id?: String, kind = "type"?: String, function?: FunctionCall, custom?: CustomCall, extra_content?: Json, }
}
wire! {
    /// Name and arguments; the arguments are JSON text, but some dialects send an object.
    pub struct FunctionCall { name?: String, arguments?: Json, }
}
wire! {
    /// Name and input of a custom call.
    pub struct CustomCall { name?: String, input?: String, }
}
wire! {
    /// Audio of an answer, or a reference to it.
    pub struct Audio { id?: String, data?: String, transcript?: String, expires_at?: Json, }
}

wire_union! {
    /// A content part.
    pub enum Part {
        /// Text.
        Text(TextPart) = "text",
        /// Refusal.
        Refusal(RefusalPart) = "refusal",
        /// Image.
        ImageUrl(ImagePart) = "image_url",
        /// Audio.
        InputAudio(InputAudioPart) = "input_audio",
        /// File.
        File(FilePart) = "file",
        /// Reasoning of a dialect.
        Thinking(ThinkingPart) = "thinking",
        /// Video of a dialect.
        VideoUrl(VideoPart) = "video_url",
        /// Document by address, of a dialect.
        FileUrl(FileUrlPart) = "file_url",
        /// Document by address, of another dialect.
        DocumentUrl(DocumentUrlPart) = "document_url",
    }
}
wire! {
    /// Text.
    pub struct TextPart { text: String, }
}
wire! {
    /// Refusal.
    pub struct RefusalPart { refusal: String, }
}
wire! {
    /// Image.
    pub struct ImagePart { image_url: ObjectOrText, }
}
wire! {
    /// Video.
    pub struct VideoPart { video_url: ObjectOrText, }
}
wire! {
    /// Document by address.
    pub struct FileUrlPart { file_url: ObjectOrText, }
}
wire! {
    /// Document by address.
    pub struct DocumentUrlPart { document_url: ObjectOrText, }
}
wire! {
    /// An address.
    pub struct Address { url: String, detail?: String, }
}
wire! {
    /// Audio.
    pub struct InputAudioPart { input_audio: InputAudio, }
}
wire! {
    /// Audio data.
    pub struct InputAudio { data: String, format?: String, }
}
wire! {
    /// File.
    pub struct FilePart { file: File, }
}
wire! {
    /// File data or handle.
    pub struct File { file_data?: String, file_id?: String, filename?: String, }
}
wire! {
    /// Reasoning in pieces.
    pub struct ThinkingPart { thinking: Vec<Part>, }
}

/// An address as an object, or as the plain string of some dialects.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectOrText {
    /// An object.
    Object(Address),
    /// The address alone.
    Text(String),
}

impl serde::Serialize for ObjectOrText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(address) => address.serialize(serializer),
            Self::Text(url) => serializer.serialize_str(url),
        }
    }
}

impl<'de> serde::Deserialize<'de> for ObjectOrText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de serde_json::value::RawValue as serde::Deserialize>::deserialize(deserializer)?;
        if raw.get().starts_with('"') {
            throughline_format::json::decode::decode_raw(raw.get()).map(Self::Text)
        } else {
            throughline_format::json::decode::decode_raw(raw.get()).map(Self::Object)
        }
    }
}

wire! {
    /// An answer or a chunk of one.
    pub struct Answer {
        id?: String,
        created?: Json,
        model?: String,
        choices?: Vec<Choice>,
        usage?: Json,
        service_tier?: String,
        error?: Json,
    }
}
wire! {
    /// A choice: the message of an answer, or the delta of a chunk.
    pub struct Choice {
        index?: u64,
        message?: Message,
        delta?: Message,
        text?: String,
        finish_reason?: String,
        logprobs?: Logprobs,
    }
}
wire! {
    /// Token probabilities.
    pub struct Logprobs { content?: Vec<TokenLogprob>, refusal?: Json, }
}
wire! {
    /// A token with its probability.
    pub struct TokenLogprob { token: String, logprob: f64, bytes?: Vec<u8>, top_logprobs?: Vec<TokenLogprob>, }
}

wire! {
    /// Usage with the spellings of the dialects.
    pub struct Usage {
        prompt_tokens?: f64,
        completion_tokens?: f64,
        total_tokens?: f64,
        prompt_tokens_details?: PromptDetails,
        completion_tokens_details?: CompletionDetails,
    }
}
wire! {
    /// What the prompt consists of.
    pub struct PromptDetails {
        cached_tokens?: f64,
        cache_write_tokens?: f64,
        audio_tokens?: f64,
        image_tokens?: f64,
        text_tokens?: f64,
        video_tokens?: f64,
    }
}
wire! {
    /// What the answer consists of.
    pub struct CompletionDetails {
        reasoning_tokens?: f64,
        audio_tokens?: f64,
        image_tokens?: f64,
        text_tokens?: f64,
        accepted_prediction_tokens?: f64,
        rejected_prediction_tokens?: f64,
    }
}
