//! [`UnifiedRequestV2`] and the state that it names (spec, Root records; open-types.md, section 1).

use crate::cache::UnifiedCacheIntent;
use crate::conversation::UnifiedConversationInput;
use crate::intent::{UnifiedGenerationIntent, UnifiedIntent, UnifiedModelIntent, UnifiedOutputIntent};
use crate::macros::{open_words, record};
use crate::metadata::UnifiedSemanticMetadata;
use crate::profile::SchemaVersion;
use crate::provenance::UnifiedSourceProvenance;
use crate::resource::UnifiedProviderResourceRef;
use crate::tool::{UnifiedToolChoice, UnifiedToolDefinition};
use crate::{Count, UnifiedId};

record! {
    /// Background execution.
    #[derive(Default)]
    pub struct BackgroundIntent {
        /// Until when.
        completion_window?: String,
        /// Webhook, resolved by the execution context only.
        webhook_ref?: UnifiedId,
    }
}
open_words! {
    /// How a context is kept small.
    pub enum ContextEditKind {
        Compact = "compact", ClearToolUses = "clear-tool-uses", ClearReasoning = "clear-reasoning", Truncate = "truncate",
    }
}
record! {
    /// One rule of context management.
    pub struct ContextEdit {
        /// What is done.
        kind: ContextEditKind,
        /// From how many tokens on.
        trigger_tokens?: Count,
        /// How much is kept.
        keep?: Count,
    }
}
record! {
    /// State that a request uses or wants.
    #[derive(Default)]
    pub struct UnifiedStateInput {
        /// Whether the provider may store; a privacy statement.
        persist?: UnifiedIntent<bool>,
        /// Background execution.
        background?: UnifiedIntent<BackgroundIntent>,
        /// Context management.
        context_management?: UnifiedIntent<Vec<ContextEdit>>,
        /// Container, cached content, prompt template, environment.
        resources?: Vec<UnifiedProviderResourceRef>,
    }
}
record! {
    /// A request.
    pub struct UnifiedRequestV2 {
        /// Always 2.0.
        schema_version: SchemaVersion,
        /// Its ID.
        request_id: UnifiedId,
        /// The history.
        conversation: UnifiedConversationInput,
        /// The model.
        model: UnifiedModelIntent,
        /// How to generate.
        generation: UnifiedGenerationIntent,
        /// The tools in order.
        tools: Vec<UnifiedToolDefinition>,
        /// What to do with them.
        tool_choice?: UnifiedToolChoice,
        /// Caching.
        cache?: UnifiedCacheIntent,
        /// State.
        state?: UnifiedStateInput,
        /// Form of the answer.
        output?: UnifiedOutputIntent,
        /// Labels.
        metadata?: UnifiedSemanticMetadata,
        /// Where it comes from.
        source: UnifiedSourceProvenance,
    }
}
