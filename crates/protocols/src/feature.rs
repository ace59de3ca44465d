//! The closed list of features that loss entries name, each one documented here and generated into the docs.

/// A feature of the Unified record that a protocol may or may not be able to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// History that is incomplete or depends on one provider's private state.
    ConversationPortability,
    /// System text in the middle of a conversation.
    ConversationSystemInline,
    /// The difference between system and developer messages.
    ConversationSystemRole,
    /// Borders between messages and parts of one role.
    ConversationMessageBoundary,
    /// Names of participants.
    ConversationMessageName,
    /// Messages or texts without content.
    ConversationMessageEmpty,
    /// The order of texts, calls and results.
    ConversationOrder,
    /// A call without a result, or an answer that was cut.
    ConversationInterruption,
    /// An item kind that the target has no form for.
    ConversationItem,
    /// Text.
    PartText,
    /// A refusal as such.
    PartRefusal,
    /// Images.
    PartImage,
    /// How closely an image is looked at.
    PartImageDetail,
    /// Audio.
    PartAudio,
    /// Video.
    PartVideo,
    /// Documents.
    PartDocument,
    /// Title, context and citation flag of a document.
    PartDocumentContext,
    /// Files.
    PartFile,
    /// JSON as content.
    PartJson,
    /// Artifacts.
    PartArtifact,
    /// Token probabilities of text.
    PartLogprobs,
    /// Citations.
    Citation,
    /// Where a citation stands.
    CitationSpan,
    /// Sources that were found.
    GroundingSource,
    /// Disclosed reasoning.
    ReasoningText,
    /// Signatures and encrypted reasoning.
    ReasoningSignature,
    /// Redacted reasoning.
    ReasoningRedacted,
    /// Function tools.
    ToolFunction,
    /// Custom tools with free text or a grammar.
    ToolCustom,
    /// Strict enforcement of a tool's schema.
    ToolStrict,
    /// Descriptions and examples of tools.
    ToolDescription,
    /// Names of tools as written.
    ToolName,
    /// Tools that are loaded when searched for.
    ToolDeferLoading,
    /// Who may call a tool.
    ToolAllowedCallers,
    /// Approval of calls.
    ToolApproval,
    /// Hosted tools without a form at the target.
    ToolHosted,
    /// Web search.
    ToolHostedWebSearch,
    /// Web fetch.
    ToolHostedWebFetch,
    /// Code execution.
    ToolHostedCodeExecution,
    /// Computer use.
    ToolHostedComputerUse,
    /// MCP servers.
    ToolHostedMcp,
    /// File search.
    ToolHostedFileSearch,
    /// Call IDs as written.
    ToolCallId,
    /// Argument text as written.
    ToolCallArguments,
    /// Calls and results of hosted tools in history.
    ToolCallHosted,
    /// The error flag of a result.
    ToolResultError,
    /// Media in a result.
    ToolResultMedia,
    /// What the model may or must do with tools.
    ToolChoice,
    /// A choice among some of the tools.
    ToolChoiceAllowed,
    /// Limit of output tokens.
    GenerationMaxOutputTokens,
    /// Temperature.
    GenerationTemperature,
    /// Nucleus sampling.
    GenerationTopP,
    /// Top-k sampling.
    GenerationTopK,
    /// Min-p sampling.
    GenerationMinP,
    /// Stop sequences.
    GenerationStopSequences,
    /// Several candidates.
    GenerationCandidateCount,
    /// Seed.
    GenerationSeed,
    /// Presence penalty.
    GenerationPresencePenalty,
    /// Frequency penalty.
    GenerationFrequencyPenalty,
    /// Repetition penalty.
    GenerationRepetitionPenalty,
    /// Bias by token.
    GenerationLogitBias,
    /// Log probabilities.
    GenerationLogprobs,
    /// Reasoning on, off or left to the model.
    GenerationReasoningMode,
    /// Reasoning effort.
    GenerationReasoningEffort,
    /// Reasoning budget in tokens.
    GenerationReasoningBudget,
    /// What is disclosed of the reasoning.
    GenerationReasoningSummary,
    /// Parallel calls.
    GenerationParallelTools,
    /// Limit of tool calls.
    GenerationMaxToolCalls,
    /// Class of service.
    GenerationServiceTier,
    /// Predicted output.
    GenerationPrediction,
    /// A prefilled answer.
    GenerationPrefill,
    /// Safety thresholds.
    GenerationSafetySettings,
    /// Kinds of output.
    GenerationOutputModalities,
    /// Media controls.
    GenerationMedia,
    /// Any JSON object as the answer.
    OutputJsonObject,
    /// An answer by JSON Schema.
    OutputSchema,
    /// Name and description of the answer's schema.
    OutputSchemaName,
    /// An answer by grammar.
    OutputGrammar,
    /// An answer of a media type.
    OutputMedia,
    /// Length of the answer.
    OutputVerbosity,
    /// Things to include in the answer.
    OutputIncludes,
    /// Who places cache marks.
    CacheMode,
    /// Key that groups requests on one cache.
    CacheAffinityKey,
    /// Cache marks.
    CacheBreakpoints,
    /// Whether the provider may store.
    StatePersist,
    /// Background execution.
    StateBackground,
    /// Context management.
    StateContextManagement,
    /// Provider resources of the request.
    StateResources,
    /// Labels.
    MetadataLabels,
    /// End-user reference.
    MetadataEndUser,
    /// Fallback models.
    ModelFallbacks,
    /// Alternative candidates of an answer.
    ResponseCandidates,
    /// Usage counters.
    ResponseUsage,
    /// The exact finish reason.
    ResponseFinishReason,
    /// Safety detail of an ending.
    ResponseSafety,
    /// A field of the wire without a Unified word.
    WireUnmapped,
    /// The exact spelling of something that the wire can say in two ways.
    WireSpelling,
    /// What a record says about itself and no wire has a place for: provenance, IDs, states of calls.
    RecordBookkeeping,
}

impl Feature {
    /// Every feature with its word and its description, in the order of the documentation.
    pub const ALL: &'static [(Self, &'static str, &'static str)] = &[
        (
            Self::ConversationPortability,
            "conversation.portability",
            "History that is incomplete or depends on one provider's private state.",
        ),
        (
            Self::ConversationSystemInline,
            "conversation.system.inline",
            "System text in the middle of a conversation.",
        ),
        (
            Self::ConversationSystemRole,
            "conversation.system.role",
            "The difference between system and developer messages.",
        ),
        (
            Self::ConversationMessageBoundary,
            "conversation.message.boundary",
            "Borders between messages and parts of one role.",
        ),
        (Self::ConversationMessageName, "conversation.message.name", "Names of participants."),
        (
            Self::ConversationMessageEmpty,
            "conversation.message.empty",
            "Messages or texts without content.",
        ),
        (
            Self::ConversationOrder,
            "conversation.order",
            "The order of texts, calls and results.",
        ),
        (
            Self::ConversationInterruption,
            "conversation.interruption",
            "A call without a result, or an answer that was cut.",
        ),
        (
            Self::ConversationItem,
            "conversation.item",
            "An item kind that the target has no form for.",
        ),
        (Self::PartText, "part.text", "Text."),
        (Self::PartRefusal, "part.refusal", "A refusal as such."),
        (Self::PartImage, "part.image", "Images."),
        (Self::PartImageDetail, "part.image.detail", "How closely an image is looked at."),
        (Self::PartAudio, "part.audio", "Audio."),
        (Self::PartVideo, "part.video", "Video."),
        (Self::PartDocument, "part.document", "Documents."),
        (
            Self::PartDocumentContext,
            "part.document.context",
            "Title, context and citation flag of a document.",
        ),
        (Self::PartFile, "part.file", "Files."),
        (Self::PartJson, "part.json", "JSON as content."),
        (Self::PartArtifact, "part.artifact", "Artifacts."),
        (Self::PartLogprobs, "part.logprobs", "Token probabilities of text."),
        (Self::Citation, "citation", "Citations."),
        (Self::CitationSpan, "citation.span", "Where a citation stands."),
        (Self::GroundingSource, "grounding.source", "Sources that were found."),
        (Self::ReasoningText, "reasoning.text", "Disclosed reasoning."),
        (
            Self::ReasoningSignature,
            "reasoning.signature",
            "Signatures and encrypted reasoning.",
        ),
        (Self::ReasoningRedacted, "reasoning.redacted", "Redacted reasoning."),
        (Self::ToolFunction, "tool.function", "Function tools."),
        (Self::ToolCustom, "tool.custom", "Custom tools with free text or a grammar."),
        (Self::ToolStrict, "tool.strict", "Strict enforcement of a tool's schema."),
        (Self::ToolDescription, "tool.description", "Descriptions and examples of tools."),
        (Self::ToolName, "tool.name", "Names of tools as written."),
        (
            Self::ToolDeferLoading,
            "tool.defer_loading",
            "Tools that are loaded when searched for.",
        ),
        (Self::ToolAllowedCallers, "tool.allowed_callers", "Who may call a tool."),
        (Self::ToolApproval, "tool.approval", "Approval of calls."),
        (Self::ToolHosted, "tool.hosted", "Hosted tools without a form at the target."),
        (Self::ToolHostedWebSearch, "tool.hosted.web_search", "Web search."),
        (Self::ToolHostedWebFetch, "tool.hosted.web_fetch", "Web fetch."),
        (Self::ToolHostedCodeExecution, "tool.hosted.code_execution", "Code execution."),
        (Self::ToolHostedComputerUse, "tool.hosted.computer_use", "Computer use."),
        (Self::ToolHostedMcp, "tool.hosted.mcp", "MCP servers."),
        (Self::ToolHostedFileSearch, "tool.hosted.file_search", "File search."),
        (Self::ToolCallId, "tool.call.id", "Call IDs as written."),
        (Self::ToolCallArguments, "tool.call.arguments", "Argument text as written."),
        (
            Self::ToolCallHosted,
            "tool.call.hosted",
            "Calls and results of hosted tools in history.",
        ),
        (Self::ToolResultError, "tool.result.error", "The error flag of a result."),
        (Self::ToolResultMedia, "tool.result.media", "Media in a result."),
        (Self::ToolChoice, "tool.choice", "What the model may or must do with tools."),
        (Self::ToolChoiceAllowed, "tool.choice.allowed", "A choice among some of the tools."),
        (
            Self::GenerationMaxOutputTokens,
            "generation.max_output_tokens",
            "Limit of output tokens.",
        ),
        (Self::GenerationTemperature, "generation.temperature", "Temperature."),
        (Self::GenerationTopP, "generation.top_p", "Nucleus sampling."),
        (Self::GenerationTopK, "generation.top_k", "Top-k sampling."),
        (Self::GenerationMinP, "generation.min_p", "Min-p sampling."),
        (Self::GenerationStopSequences, "generation.stop_sequences", "Stop sequences."),
        (Self::GenerationCandidateCount, "generation.candidate_count", "Several candidates."),
        (Self::GenerationSeed, "generation.seed", "Seed."),
        (Self::GenerationPresencePenalty, "generation.presence_penalty", "Presence penalty."),
        (
            Self::GenerationFrequencyPenalty,
            "generation.frequency_penalty",
            "Frequency penalty.",
        ),
        (
            Self::GenerationRepetitionPenalty,
            "generation.repetition_penalty",
            "Repetition penalty.",
        ),
        (Self::GenerationLogitBias, "generation.logit_bias", "Bias by token."),
        (Self::GenerationLogprobs, "generation.logprobs", "Log probabilities."),
        (
            Self::GenerationReasoningMode,
            "generation.reasoning.mode",
            "Reasoning on, off or left to the model.",
        ),
        (Self::GenerationReasoningEffort, "generation.reasoning.effort", "Reasoning effort."),
        (
            Self::GenerationReasoningBudget,
            "generation.reasoning.budget",
            "Reasoning budget in tokens.",
        ),
        (
            Self::GenerationReasoningSummary,
            "generation.reasoning.summary",
            "What is disclosed of the reasoning.",
        ),
        (Self::GenerationParallelTools, "generation.parallel_tools", "Parallel calls."),
        (Self::GenerationMaxToolCalls, "generation.max_tool_calls", "Limit of tool calls."),
        (Self::GenerationServiceTier, "generation.service_tier", "Class of service."),
        (Self::GenerationPrediction, "generation.prediction", "Predicted output."),
        (Self::GenerationPrefill, "generation.prefill", "A prefilled answer."),
        (Self::GenerationSafetySettings, "generation.safety_settings", "Safety thresholds."),
        (Self::GenerationOutputModalities, "generation.output_modalities", "Kinds of output."),
        (Self::GenerationMedia, "generation.media", "Media controls."),
        (Self::OutputJsonObject, "output.json_object", "Any JSON object as the answer."),
        (Self::OutputSchema, "output.schema", "An answer by JSON Schema."),
        (
            Self::OutputSchemaName,
            "output.schema.name",
            "Name and description of the answer's schema.",
        ),
        (Self::OutputGrammar, "output.grammar", "An answer by grammar."),
        (Self::OutputMedia, "output.media", "An answer of a media type."),
        (Self::OutputVerbosity, "output.verbosity", "Length of the answer."),
        (Self::OutputIncludes, "output.includes", "Things to include in the answer."),
        (Self::CacheMode, "cache.mode", "Who places cache marks."),
        (
            Self::CacheAffinityKey,
            "cache.affinity_key",
            "Key that groups requests on one cache.",
        ),
        (Self::CacheBreakpoints, "cache.breakpoints", "Cache marks."),
        (Self::StatePersist, "state.persist", "Whether the provider may store."),
        (Self::StateBackground, "state.background", "Background execution."),
        (Self::StateContextManagement, "state.context_management", "Context management."),
        (Self::StateResources, "state.resources", "Provider resources of the request."),
        (Self::MetadataLabels, "metadata.labels", "Labels."),
        (Self::MetadataEndUser, "metadata.end_user", "End-user reference."),
        (Self::ModelFallbacks, "model.fallbacks", "Fallback models."),
        (
            Self::ResponseCandidates,
            "response.candidates",
            "Alternative candidates of an answer.",
        ),
        (Self::ResponseUsage, "response.usage", "Usage counters."),
        (Self::ResponseFinishReason, "response.finish_reason", "The exact finish reason."),
        (Self::ResponseSafety, "response.safety", "Safety detail of an ending."),
        (Self::WireUnmapped, "wire.unmapped", "A field of the wire without a Unified word."),
        (
            Self::WireSpelling,
            "wire.spelling",
            "The exact spelling of something that the wire can say in two ways.",
        ),
        (
            Self::RecordBookkeeping,
            "record.bookkeeping",
            "What a record says about itself and no wire has a place for: provenance, IDs, states of calls.",
        ),
    ];

    /// The word that loss entries carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConversationPortability => "conversation.portability",
            Self::ConversationSystemInline => "conversation.system.inline",
            Self::ConversationSystemRole => "conversation.system.role",
            Self::ConversationMessageBoundary => "conversation.message.boundary",
            Self::ConversationMessageName => "conversation.message.name",
            Self::ConversationMessageEmpty => "conversation.message.empty",
            Self::ConversationOrder => "conversation.order",
            Self::ConversationInterruption => "conversation.interruption",
            Self::ConversationItem => "conversation.item",
            Self::PartText => "part.text",
            Self::PartRefusal => "part.refusal",
            Self::PartImage => "part.image",
            Self::PartImageDetail => "part.image.detail",
            Self::PartAudio => "part.audio",
            Self::PartVideo => "part.video",
            Self::PartDocument => "part.document",
            Self::PartDocumentContext => "part.document.context",
            Self::PartFile => "part.file",
            Self::PartJson => "part.json",
            Self::PartArtifact => "part.artifact",
            Self::PartLogprobs => "part.logprobs",
            Self::Citation => "citation",
            Self::CitationSpan => "citation.span",
            Self::GroundingSource => "grounding.source",
            Self::ReasoningText => "reasoning.text",
            Self::ReasoningSignature => "reasoning.signature",
            Self::ReasoningRedacted => "reasoning.redacted",
            Self::ToolFunction => "tool.function",
            Self::ToolCustom => "tool.custom",
            Self::ToolStrict => "tool.strict",
            Self::ToolDescription => "tool.description",
            Self::ToolName => "tool.name",
            Self::ToolDeferLoading => "tool.defer_loading",
            Self::ToolAllowedCallers => "tool.allowed_callers",
            Self::ToolApproval => "tool.approval",
            Self::ToolHosted => "tool.hosted",
            Self::ToolHostedWebSearch => "tool.hosted.web_search",
            Self::ToolHostedWebFetch => "tool.hosted.web_fetch",
            Self::ToolHostedCodeExecution => "tool.hosted.code_execution",
            Self::ToolHostedComputerUse => "tool.hosted.computer_use",
            Self::ToolHostedMcp => "tool.hosted.mcp",
            Self::ToolHostedFileSearch => "tool.hosted.file_search",
            Self::ToolCallId => "tool.call.id",
            Self::ToolCallArguments => "tool.call.arguments",
            Self::ToolCallHosted => "tool.call.hosted",
            Self::ToolResultError => "tool.result.error",
            Self::ToolResultMedia => "tool.result.media",
            Self::ToolChoice => "tool.choice",
            Self::ToolChoiceAllowed => "tool.choice.allowed",
            Self::GenerationMaxOutputTokens => "generation.max_output_tokens",
            Self::GenerationTemperature => "generation.temperature",
            Self::GenerationTopP => "generation.top_p",
            Self::GenerationTopK => "generation.top_k",
            Self::GenerationMinP => "generation.min_p",
            Self::GenerationStopSequences => "generation.stop_sequences",
            Self::GenerationCandidateCount => "generation.candidate_count",
            Self::GenerationSeed => "generation.seed",
            Self::GenerationPresencePenalty => "generation.presence_penalty",
            Self::GenerationFrequencyPenalty => "generation.frequency_penalty",
            Self::GenerationRepetitionPenalty => "generation.repetition_penalty",
            Self::GenerationLogitBias => "generation.logit_bias",
            Self::GenerationLogprobs => "generation.logprobs",
            Self::GenerationReasoningMode => "generation.reasoning.mode",
            Self::GenerationReasoningEffort => "generation.reasoning.effort",
            Self::GenerationReasoningBudget => "generation.reasoning.budget",
            Self::GenerationReasoningSummary => "generation.reasoning.summary",
            Self::GenerationParallelTools => "generation.parallel_tools",
            Self::GenerationMaxToolCalls => "generation.max_tool_calls",
            Self::GenerationServiceTier => "generation.service_tier",
            Self::GenerationPrediction => "generation.prediction",
            Self::GenerationPrefill => "generation.prefill",
            Self::GenerationSafetySettings => "generation.safety_settings",
            Self::GenerationOutputModalities => "generation.output_modalities",
            Self::GenerationMedia => "generation.media",
            Self::OutputJsonObject => "output.json_object",
            Self::OutputSchema => "output.schema",
            Self::OutputSchemaName => "output.schema.name",
            Self::OutputGrammar => "output.grammar",
            Self::OutputMedia => "output.media",
            Self::OutputVerbosity => "output.verbosity",
            Self::OutputIncludes => "output.includes",
            Self::CacheMode => "cache.mode",
            Self::CacheAffinityKey => "cache.affinity_key",
            Self::CacheBreakpoints => "cache.breakpoints",
            Self::StatePersist => "state.persist",
            Self::StateBackground => "state.background",
            Self::StateContextManagement => "state.context_management",
            Self::StateResources => "state.resources",
            Self::MetadataLabels => "metadata.labels",
            Self::MetadataEndUser => "metadata.end_user",
            Self::ModelFallbacks => "model.fallbacks",
            Self::ResponseCandidates => "response.candidates",
            Self::ResponseUsage => "response.usage",
            Self::ResponseFinishReason => "response.finish_reason",
            Self::ResponseSafety => "response.safety",
            Self::WireUnmapped => "wire.unmapped",
            Self::WireSpelling => "wire.spelling",
            Self::RecordBookkeeping => "record.bookkeeping",
        }
    }

    /// The feature that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, known, _)| *known == word)
            .map(|(feature, _, _)| *feature)
    }
}
