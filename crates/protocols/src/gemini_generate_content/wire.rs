//! Types of the wire, with the member names of proto JSON (lowerCamelCase). Other spellings are brought to these first
//! (`spelling`). Members that a type does not name are collected in `extra`.

use crate::wire::wire;
use throughline_format::Json;

wire! {
    /// Body of a request, without envelope.
    pub struct Request {
        /// Only in bodies of SDKs; the URL names the model.
        model?: String,
        /// The conversation.
        contents?: Vec<Content>,
        /// Instructions.
        system_instruction = "systemInstruction"?: Content,
        /// Tools.
        tools?: Vec<Tool>,
        /// What to do with them.
        tool_config = "toolConfig"?: ToolConfig,
        /// Safety thresholds.
        safety_settings = "safetySettings"?: Vec<SafetySetting>,
        /// How to generate.
        generation_config = "generationConfig"?: GenerationConfig,
        /// Name of a cache.
        cached_content = "cachedContent"?: String,
        /// Class of service.
        service_tier = "serviceTier"?: String,
        /// Labels.
        labels?: std::collections::BTreeMap<String, String>,
        /// Whether the request may be logged.
        store?: bool,
        /// Goes on with an answer that was cut.
        continuation_token = "continuationToken"?: String,
        /// Handle of the session, inside an envelope only.
        session_id = "sessionId"?: String,
    }
}
wire! {
    /// Who says what.
    pub struct Content {
        /// `user` or `model`; absent means user.
        role?: String,
        /// The parts.
        parts?: Vec<Part>,
    }
}
wire! {
    /// One part: exactly one data member, and what is said about it.
    pub struct Part {
        /// Text.
        text?: String,
        /// Data in the body.
        inline_data = "inlineData"?: Blob,
        /// Data at an address.
        file_data = "fileData"?: FileData,
        /// A call.
        function_call = "functionCall"?: FunctionCall,
        /// The result of a call.
        function_response = "functionResponse"?: FunctionResponse,
        /// Code that the provider runs.
        executable_code = "executableCode"?: ExecutableCode,
        /// What the code gave.
        code_execution_result = "codeExecutionResult"?: CodeExecutionResult,
        /// A call of a hosted tool.
        tool_call = "toolCall"?: HostedCall,
        /// Its result.
        tool_response = "toolResponse"?: HostedResponse,
        /// Whether the part belongs to the thinking.
        thought?: bool,
        /// Private state of the model, base64.
        thought_signature = "thoughtSignature"?: String,
        /// Which piece of a video.
        video_metadata = "videoMetadata"?: VideoMetadata,
        /// How finely a medium is read.
        media_resolution = "mediaResolution"?: MediaResolution,
    }
}
wire! {
    /// Data in the body.
    pub struct Blob {
        /// Media type.
        mime_type = "mimeType"?: String,
        /// Base64.
        data?: String,
        /// Name.
        display_name = "displayName"?: String,
    }
}
wire! {
    /// Data at an address.
    pub struct FileData {
        /// Address.
        file_uri = "fileUri"?: String,
        /// Media type.
        mime_type = "mimeType"?: String,
        /// Name.
        display_name = "displayName"?: String,
    }
}
wire! {
    /// A call.
    pub struct FunctionCall {
        /// Call ID; older models give none.
        id?: String,
        /// Function name; absent in later pieces of a streamed call.
        name?: String,
        /// Arguments, an object.
        args?: Json,
        /// Pieces of the arguments.
        partial_args = "partialArgs"?: Vec<PartialArg>,
        /// Whether more pieces follow.
        will_continue = "willContinue"?: bool,
    }
}
wire! {
    /// A piece of a call's arguments.
    pub struct PartialArg {
        /// RFC 9535 path of the value.
        json_path = "jsonPath"?: String,
        /// A piece of text.
        string_value = "stringValue"?: String,
        /// A number.
        number_value = "numberValue"?: Json,
        /// A flag.
        bool_value = "boolValue"?: bool,
        /// Null.
        null_value = "nullValue"?: Json,
        /// Whether more of this text follows.
        will_continue = "willContinue"?: bool,
    }
}
wire! {
    /// The result of a call.
    pub struct FunctionResponse {
        /// Call ID.
        id?: String,
        /// Function name.
        name?: String,
        /// The result, an object.
        response?: Json,
        /// Media of the result.
        parts?: Vec<Part>,
    }
}
wire! {
    /// Code that the provider runs.
    pub struct ExecutableCode {
        /// Call ID.
        id?: String,
        /// `PYTHON`.
        language?: String,
        /// The code.
        code?: String,
    }
}
wire! {
    /// What code gave.
    pub struct CodeExecutionResult {
        /// Call ID.
        id?: String,
        /// `OUTCOME_OK` and others.
        outcome?: String,
        /// Output, or what went wrong.
        output?: String,
    }
}
wire! {
    /// A call of a hosted tool.
    pub struct HostedCall {
        /// Call ID.
        id?: String,
        /// `GOOGLE_SEARCH_WEB` and others.
        tool_type = "toolType"?: String,
        /// Arguments.
        args?: Json,
    }
}
wire! {
    /// Result of a hosted tool.
    pub struct HostedResponse {
        /// Call ID.
        id?: String,
        /// `GOOGLE_SEARCH_WEB` and others.
        tool_type = "toolType"?: String,
        /// The result.
        response?: Json,
    }
}
wire! {
    /// Which piece of a video.
    pub struct VideoMetadata {
        /// Such as `1.5s`.
        start_offset = "startOffset"?: String,
        /// Such as `9s`.
        end_offset = "endOffset"?: String,
        /// Frames per second.
        fps?: f64,
    }
}
wire! {
    /// How finely a medium is read.
    pub struct MediaResolution {
        /// `MEDIA_RESOLUTION_LOW` and others.
        level?: String,
        /// Tokens.
        num_tokens = "numTokens"?: u64,
    }
}
wire! {
    /// A group of functions, or a hosted tool.
    pub struct Tool {
        /// Functions.
        function_declarations = "functionDeclarations"?: Vec<FunctionDeclaration>,
    }
}
wire! {
    /// A function.
    pub struct FunctionDeclaration {
        /// Name.
        name?: String,
        /// What it does.
        description?: String,
        /// Proto schema of the arguments.
        parameters?: Json,
        /// JSON Schema of the arguments.
        parameters_json_schema = "parametersJsonSchema"?: Json,
        /// Proto schema of the result.
        response?: Json,
        /// JSON Schema of the result.
        response_json_schema = "responseJsonSchema"?: Json,
    }
}
wire! {
    /// What to do with tools.
    pub struct ToolConfig {
        /// Functions.
        function_calling_config = "functionCallingConfig"?: FunctionCallingConfig,
        /// The user's place.
        retrieval_config = "retrievalConfig"?: RetrievalConfig,
        /// Whether calls of hosted tools are told.
        include_server_side_tool_invocations = "includeServerSideToolInvocations"?: bool,
    }
}
wire! {
    /// What to do with functions.
    pub struct FunctionCallingConfig {
        /// `AUTO`, `ANY`, `NONE`, `VALIDATED`.
        mode?: String,
        /// Only these.
        allowed_function_names = "allowedFunctionNames"?: Vec<String>,
    }
}
wire! {
    /// The user's place and language.
    pub struct RetrievalConfig {
        /// The place.
        lat_lng = "latLng"?: LatLng,
        /// The language.
        language_code = "languageCode"?: String,
    }
}
wire! {
    /// A place.
    pub struct LatLng {
        /// Degrees north.
        latitude?: f64,
        /// Degrees east.
        longitude?: f64,
    }
}
wire! {
    /// A safety threshold.
    pub struct SafetySetting {
        /// `HARM_CATEGORY_…`
        category?: String,
        /// `BLOCK_…`
        threshold?: String,
        /// `SEVERITY` or `PROBABILITY`.
        method?: String,
    }
}
wire! {
    /// How to generate.
    pub struct GenerationConfig {
        /// Number of answers.
        candidate_count = "candidateCount"?: u64,
        /// Limit of output tokens.
        max_output_tokens = "maxOutputTokens"?: u64,
        /// Temperature.
        temperature?: f64,
        /// Nucleus sampling.
        top_p = "topP"?: f64,
        /// Top-k sampling.
        top_k = "topK"?: f64,
        /// Texts that end the answer.
        stop_sequences = "stopSequences"?: Vec<String>,
        /// Seed.
        seed?: i64,
        /// Penalty.
        presence_penalty = "presencePenalty"?: f64,
        /// Penalty.
        frequency_penalty = "frequencyPenalty"?: f64,
        /// Whether log probabilities are wanted.
        response_logprobs = "responseLogprobs"?: bool,
        /// Alternatives per token.
        logprobs?: u64,
        /// Media type of the answer.
        response_mime_type = "responseMimeType"?: String,
        /// Proto schema of the answer.
        response_schema = "responseSchema"?: Json,
        /// JSON Schema of the answer.
        response_json_schema = "responseJsonSchema"?: Json,
        /// The same in its older spelling.
        old_response_json_schema = "_responseJsonSchema"?: Json,
        /// Kinds of output.
        response_modalities = "responseModalities"?: Vec<String>,
        /// Speech output.
        speech_config = "speechConfig"?: SpeechConfig,
        /// Image output.
        image_config = "imageConfig"?: ImageConfig,
        /// How finely input media are read.
        media_resolution = "mediaResolution"?: String,
        /// Thinking.
        thinking_config = "thinkingConfig"?: ThinkingConfig,
    }
}
wire! {
    /// Thinking.
    pub struct ThinkingConfig {
        /// Whether thoughts are told.
        include_thoughts = "includeThoughts"?: bool,
        /// Tokens; 0 is off, -1 is the model's choice.
        thinking_budget = "thinkingBudget"?: i64,
        /// `MINIMAL` to `XHIGH`.
        thinking_level = "thinkingLevel"?: String,
    }
}
wire! {
    /// Image output.
    pub struct ImageConfig {
        /// Such as `16:9`.
        aspect_ratio = "aspectRatio"?: String,
        /// `1K`, `2K`, `4K`.
        image_size = "imageSize"?: String,
    }
}
wire! {
    /// Speech output.
    pub struct SpeechConfig {
        /// One voice.
        voice_config = "voiceConfig"?: VoiceConfig,
        /// A voice for each speaker.
        multi_speaker_voice_config = "multiSpeakerVoiceConfig"?: MultiSpeakerVoiceConfig,
        /// Language.
        language_code = "languageCode"?: String,
    }
}
wire! {
    /// A voice.
    pub struct VoiceConfig {
        /// One of the vendor's voices.
        prebuilt_voice_config = "prebuiltVoiceConfig"?: PrebuiltVoiceConfig,
    }
}
wire! {
    /// One of the vendor's voices.
    pub struct PrebuiltVoiceConfig {
        /// Its name.
        voice_name = "voiceName"?: String,
    }
}
wire! {
    /// Voices by speaker.
    pub struct MultiSpeakerVoiceConfig {
        /// The voices.
        speaker_voice_configs = "speakerVoiceConfigs"?: Vec<SpeakerVoiceConfig>,
    }
}
wire! {
    /// The voice of a speaker.
    pub struct SpeakerVoiceConfig {
        /// The speaker.
        speaker?: String,
        /// The voice.
        voice_config = "voiceConfig"?: VoiceConfig,
    }
}
