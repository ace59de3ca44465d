//! Types of the wire. Unions are open: every step, content and event is one type whose members depend on its `type`, and
//! members that it does not name are collected in `extra`.

use crate::wire::wire;
use throughline_format::Json;

wire! {
    /// Body of a create request.
    pub struct Create {
        /// The model, or none with an agent.
        model?: String,
        /// The agent, or none with a model.
        agent?: String,
        /// A text, a content, contents, or steps.
        input?: Json,
        /// The interaction that this one goes on from.
        previous_interaction_id?: String,
        /// Instructions of this interaction only.
        system_instruction?: String,
        /// Tools.
        tools?: Vec<Json>,
        /// How to generate.
        generation_config?: GenerationConfig,
        /// Form of the answer.
        response_format?: Json,
        /// Whether a stream is wanted.
        stream?: bool,
        /// Whether it runs in the background.
        background?: bool,
        /// Whether the provider keeps it.
        store?: bool,
        /// Class of service.
        service_tier?: String,
        /// Safety thresholds.
        safety_settings?: Vec<SafetySetting>,
        /// Labels.
        labels?: std::collections::BTreeMap<String, String>,
        /// Goes on with an answer that was cut.
        continuation_token?: String,
    }
}
wire! {
    /// How to generate.
    pub struct GenerationConfig {
        /// Limit of output tokens.
        max_output_tokens?: u64,
        /// Seed.
        seed?: i64,
        /// Texts that end the answer.
        stop_sequences?: Vec<String>,
        /// `minimal` to `xhigh`.
        thinking_level?: String,
        /// `auto` or `none`.
        thinking_summaries?: String,
        /// A word, or the tools that are allowed.
        tool_choice?: Json,
        /// Deprecated.
        temperature?: f64,
        /// Deprecated.
        top_p?: f64,
    }
}
wire! {
    /// A safety threshold.
    pub struct SafetySetting {
        /// Category.
        kind = "type"?: String,
        /// Threshold.
        threshold?: String,
        /// Method.
        method?: String,
    }
}
wire! {
    /// One step of an interaction.
    pub struct Step {
        /// Kind of the step.
        kind = "type"?: String,
        /// Contents of a message.
        content?: Json,
        /// Summary of a thought.
        summary?: Vec<Content>,
        /// Private state of a thought or of a hosted tool's work.
        signature?: String,
        /// ID of a call.
        id?: String,
        /// Name of a function.
        name?: String,
        /// Arguments of a call.
        arguments?: Json,
        /// The call that a result answers.
        call_id?: String,
        /// A result.
        result?: Json,
        /// Whether it failed.
        is_error?: bool,
        /// What went wrong in a message.
        error?: Json,
    }
}
wire! {
    /// One content.
    pub struct Content {
        /// `text`, `image`, `audio`, `video`, `document`.
        kind = "type"?: String,
        /// Text.
        text?: String,
        /// Remarks on the text.
        annotations?: Vec<Json>,
        /// Base64.
        data?: String,
        /// Address.
        uri?: String,
        /// Media type.
        mime_type?: String,
        /// Name.
        name?: String,
        /// How finely it is read.
        resolution?: String,
        /// Audio channels.
        channels?: u64,
        /// Hertz.
        sample_rate?: u64,
    }
}
wire! {
    /// A remark on text; the indexes are bytes.
    pub struct Annotation {
        /// Kind of the remark.
        kind = "type"?: String,
        /// Address.
        url?: String,
        /// Address of a document.
        document_uri?: String,
        /// Title.
        title?: String,
        /// Name of a file.
        file_name?: String,
        /// Name of a place.
        name?: String,
        /// Words of the source.
        source?: String,
        /// First byte; absent is 0.
        start_index?: u64,
        /// Byte after the last.
        end_index?: u64,
    }
}
wire! {
    /// A tool.
    pub struct Tool {
        /// Kind of the tool.
        kind = "type"?: String,
        /// Name.
        name?: String,
        /// What it does.
        description?: String,
        /// JSON Schema of the arguments.
        parameters?: Json,
        /// Whether it is loaded only when searched for.
        defer_loading?: bool,
    }
}
wire! {
    /// An interaction: what a create request gives, and what is read again later.
    pub struct Interaction {
        /// The provider's handle; empty when nothing is stored.
        id?: String,
        /// How it stands.
        status?: String,
        /// The model that answers.
        model?: String,
        /// The agent that answers.
        agent?: String,
        /// The steps in order.
        steps?: Vec<Json>,
        /// Counters.
        usage?: Json,
        /// What went wrong.
        errors?: Vec<Json>,
        /// Class of service.
        service_tier?: String,
        /// Goes on with an answer that was cut.
        continuation_token?: String,
        /// An error in the place of an interaction.
        error?: Json,
    }
}
wire! {
    /// One event of a stream.
    pub struct Event {
        /// Kind of the event.
        event_type?: String,
        /// Token to go on from after this event.
        event_id?: String,
        /// The interaction.
        interaction?: Interaction,
        /// How the interaction stands.
        status?: String,
        /// Goes on with an answer that was cut.
        continuation_token?: String,
        /// Number of the step.
        index?: u64,
        /// The step as it begins.
        step?: Json,
        /// A piece of the step.
        delta?: Json,
        /// Counters.
        usage?: Json,
        /// What went wrong.
        error?: Json,
    }
}
wire! {
    /// Counters.
    pub struct Usage {
        /// Input.
        total_input_tokens?: f64,
        /// Input from a cache.
        total_cached_tokens?: f64,
        /// Output without thoughts.
        total_output_tokens?: f64,
        /// Thoughts.
        total_thought_tokens?: f64,
        /// Prompts of tools.
        total_tool_use_tokens?: f64,
        /// All together.
        total_tokens?: f64,
        /// Input by modality.
        input_tokens_by_modality?: Vec<ModalityCount>,
        /// Output by modality.
        output_tokens_by_modality?: Vec<ModalityCount>,
        /// Cached input by modality.
        cached_tokens_by_modality?: Vec<ModalityCount>,
        /// Prompts of tools by modality.
        tool_use_tokens_by_modality?: Vec<ModalityCount>,
        /// Calls of grounding tools.
        grounding_tool_count?: Vec<ToolCount>,
    }
}
wire! {
    /// Tokens of one modality.
    pub struct ModalityCount {
        /// The modality.
        modality?: String,
        /// Tokens.
        tokens?: f64,
    }
}
wire! {
    /// Calls of one tool.
    pub struct ToolCount {
        /// The tool.
        kind = "type"?: String,
        /// Calls.
        count?: f64,
    }
}
