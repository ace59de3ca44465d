//! The closed list of features that loss entries name, each one documented here and generated into the docs.

use throughline_format::tool::UnifiedToolType;

/// Declares the features: the variant, the word of loss entries, and what it means (the documentation of both).
macro_rules! features {
    ($($variant:ident $word:literal $description:literal)*) => {
        /// A feature of the Unified record that a protocol may or may not be able to say.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Feature {
            $(#[doc = $description] $variant,)*
        }

        impl Feature {
            /// Every feature with its word and what it means.
            pub const ALL: &'static [(Self, &'static str, &'static str)] = &[$((Self::$variant, $word, $description),)*];

            /// The word that loss entries carry.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

features! {
    ConversationPortability "conversation.portability" "History that is incomplete or depends on one provider's private state."
    ConversationSystemInline "conversation.system.inline" "System text in the middle of a conversation."
    ConversationSystemRole "conversation.system.role" "The difference between system and developer messages."
    ConversationMessageBoundary "conversation.message.boundary" "Borders between messages and parts of one role."
    ConversationMessageName "conversation.message.name" "Names of participants."
    ConversationMessageEmpty "conversation.message.empty" "Messages or texts without content."
    ConversationOrder "conversation.order" "The order of texts, calls and results."
    ConversationInterruption "conversation.interruption" "A call without a result, or an answer that was cut."
    ConversationItem "conversation.item" "An item kind that the target has no form for."
    PartText "part.text" "Text."
    PartRefusal "part.refusal" "A refusal as such."
    PartImage "part.image" "Images."
    PartImageDetail "part.image.detail" "How closely an image is looked at."
    PartAudio "part.audio" "Audio."
    PartVideo "part.video" "Video."
    PartDocument "part.document" "Documents."
    PartDocumentContext "part.document.context" "Title, context and citation flag of a document."
    PartFile "part.file" "Files."
    PartJson "part.json" "JSON as content."
    PartArtifact "part.artifact" "Artifacts."
    PartLogprobs "part.logprobs" "Token probabilities of text."
    Citation "citation" "Citations."
    CitationSpan "citation.span" "Where a citation stands."
    GroundingSource "grounding.source" "Sources that were found."
    ReasoningText "reasoning.text" "Disclosed reasoning."
    ReasoningSignature "reasoning.signature" "Signatures and encrypted reasoning."
    ReasoningRedacted "reasoning.redacted" "Redacted reasoning."
    ToolFunction "tool.function" "Function tools."
    ToolCustom "tool.custom" "Custom tools with free text or a grammar."
    ToolStrict "tool.strict" "Strict enforcement of a tool's schema."
    ToolDescription "tool.description" "Descriptions and examples of tools."
    ToolName "tool.name" "Names of tools as written."
    ToolDeferLoading "tool.defer_loading" "Tools that are loaded when searched for."
    ToolAllowedCallers "tool.allowed_callers" "Who may call a tool."
    ToolApproval "tool.approval" "Approval of calls."
    ToolHosted "tool.hosted" "Hosted tools without a form at the target."
    ToolHostedWebSearch "tool.hosted.web_search" "Web search."
    ToolHostedWebFetch "tool.hosted.web_fetch" "Web fetch."
    ToolHostedCodeExecution "tool.hosted.code_execution" "Code execution."
    ToolHostedComputerUse "tool.hosted.computer_use" "Computer use."
    ToolHostedMcp "tool.hosted.mcp" "MCP servers."
    ToolHostedFileSearch "tool.hosted.file_search" "File search."
    ToolCallId "tool.call.id" "Call IDs as written."
    ToolCallArguments "tool.call.arguments" "Argument text as written."
    ToolCallHosted "tool.call.hosted" "Calls and results of hosted tools in history."
    ToolResultError "tool.result.error" "The error flag of a result."
    ToolResultMedia "tool.result.media" "Media in a result."
    ToolChoice "tool.choice" "What the model may or must do with tools."
    ToolChoiceAllowed "tool.choice.allowed" "A choice among some of the tools."
    GenerationMaxOutputTokens "generation.max_output_tokens" "Limit of output tokens."
    GenerationTemperature "generation.temperature" "Temperature."
    GenerationTopP "generation.top_p" "Nucleus sampling."
    GenerationTopK "generation.top_k" "Top-k sampling."
    GenerationMinP "generation.min_p" "Min-p sampling."
    GenerationStopSequences "generation.stop_sequences" "Stop sequences."
    GenerationCandidateCount "generation.candidate_count" "Several candidates."
    GenerationSeed "generation.seed" "Seed."
    GenerationPresencePenalty "generation.presence_penalty" "Presence penalty."
    GenerationFrequencyPenalty "generation.frequency_penalty" "Frequency penalty."
    GenerationRepetitionPenalty "generation.repetition_penalty" "Repetition penalty."
    GenerationLogitBias "generation.logit_bias" "Bias by token."
    GenerationLogprobs "generation.logprobs" "Log probabilities."
    GenerationReasoningMode "generation.reasoning.mode" "Reasoning on, off or left to the model."
    GenerationReasoningEffort "generation.reasoning.effort" "Reasoning effort."
    GenerationReasoningBudget "generation.reasoning.budget" "Reasoning budget in tokens."
    GenerationReasoningSummary "generation.reasoning.summary" "What is disclosed of the reasoning."
    GenerationParallelTools "generation.parallel_tools" "Parallel calls."
    GenerationMaxToolCalls "generation.max_tool_calls" "Limit of tool calls."
    GenerationServiceTier "generation.service_tier" "Class of service."
    GenerationPrediction "generation.prediction" "Predicted output."
    GenerationPrefill "generation.prefill" "A prefilled answer."
    GenerationSafetySettings "generation.safety_settings" "Safety thresholds."
    GenerationOutputModalities "generation.output_modalities" "Kinds of output."
    GenerationMedia "generation.media" "Media controls."
    OutputJsonObject "output.json_object" "Any JSON object as the answer."
    OutputSchema "output.schema" "An answer by JSON Schema."
    OutputSchemaName "output.schema.name" "Name and description of the answer's schema."
    OutputGrammar "output.grammar" "An answer by grammar."
    OutputMedia "output.media" "An answer of a media type."
    OutputVerbosity "output.verbosity" "Length of the answer."
    OutputIncludes "output.includes" "Things to include in the answer."
    CacheMode "cache.mode" "Who places cache marks."
    CacheAffinityKey "cache.affinity_key" "Key that groups requests on one cache."
    CacheBreakpoints "cache.breakpoints" "Cache marks."
    CacheRetention "cache.retention" "Whether a wish about caches holds for the conversation."
    StatePersist "state.persist" "Whether the provider may store."
    StateBackground "state.background" "Background execution."
    StateContextManagement "state.context_management" "Context management."
    StateResources "state.resources" "Provider resources of the request."
    MetadataLabels "metadata.labels" "Labels."
    MetadataEndUser "metadata.end_user" "End-user reference."
    ModelFallbacks "model.fallbacks" "Fallback models."
    ResponseCandidates "response.candidates" "Alternative candidates of an answer."
    ResponseUsage "response.usage" "Usage counters."
    ResponseFinishReason "response.finish_reason" "The exact finish reason."
    ResponseSafety "response.safety" "Safety detail of an ending."
    WireUnmapped "wire.unmapped" "A field of the wire without a Unified word."
    WireSpelling "wire.spelling" "The exact spelling of something that the wire can say in two ways."
    RecordBookkeeping "record.bookkeeping" "What a record says about itself and no wire has a place for: provenance, IDs, states of calls."
}

impl Feature {
    /// The feature that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, known, _)| *known == word)
            .map(|(feature, _, _)| *feature)
    }

    /// The feature of a tool by its kind: the kinds without a feature of their own are hosted tools.
    pub const fn of_tool(kind: &UnifiedToolType) -> Self {
        match kind {
            UnifiedToolType::Function => Self::ToolFunction,
            UnifiedToolType::Custom => Self::ToolCustom,
            UnifiedToolType::WebSearch => Self::ToolHostedWebSearch,
            UnifiedToolType::WebFetch => Self::ToolHostedWebFetch,
            UnifiedToolType::CodeExecution => Self::ToolHostedCodeExecution,
            UnifiedToolType::ComputerUse => Self::ToolHostedComputerUse,
            UnifiedToolType::Mcp => Self::ToolHostedMcp,
            UnifiedToolType::FileSearch => Self::ToolHostedFileSearch,
            UnifiedToolType::Retrieval
            | UnifiedToolType::UrlContext
            | UnifiedToolType::Maps
            | UnifiedToolType::Container
            | UnifiedToolType::Skill
            | UnifiedToolType::Memory
            | UnifiedToolType::ImageGeneration
            | UnifiedToolType::Shell
            | UnifiedToolType::ApplyPatch
            | UnifiedToolType::TextEditor
            | UnifiedToolType::ToolSearch
            | UnifiedToolType::ProgrammaticCalling
            | UnifiedToolType::Advisor
            | UnifiedToolType::Other(_) => Self::ToolHosted,
        }
    }

    /// Whether the feature covers the tools of a kind: its own, and hosted tools as a whole cover every hosted kind.
    pub fn covers_tool(self, kind: &UnifiedToolType) -> bool {
        let own = Self::of_tool(kind);
        self == own || self == Self::ToolHosted && !matches!(own, Self::ToolFunction | Self::ToolCustom)
    }
}
