//! Status of a response (open-types.md, section 7).

use crate::macros::{record, words};

words! {
    /// State of a response.
    pub enum ResponseState {
        Queued = "queued",
        InProgress = "in-progress",
        RequiresAction = "requires-action",
        Completed = "completed",
        Incomplete = "incomplete",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}
words! {
    /// Why a response ended.
    pub enum UnifiedFinishReason {
        Stop = "stop",
        Length = "length",
        ToolCalls = "tool-calls",
        ContentFilter = "content-filter",
        Refusal = "refusal",
        MaxContext = "max-context",
        MalformedToolCall = "malformed-tool-call",
        RequiresAction = "requires-action",
        Paused = "paused",
        Cancelled = "cancelled",
        Interrupted = "interrupted",
        Failed = "failed",
        Incomplete = "incomplete",
        Unknown = "unknown",
    }
}

impl UnifiedFinishReason {
    /// The state that goes with the reason.
    pub const fn state(self) -> ResponseState {
        match self {
            Self::Stop | Self::ToolCalls | Self::Refusal => ResponseState::Completed,
            Self::Length
            | Self::MaxContext
            | Self::ContentFilter
            | Self::MalformedToolCall
            | Self::Paused
            | Self::Incomplete
            | Self::Interrupted
            | Self::Unknown => ResponseState::Incomplete,
            Self::RequiresAction => ResponseState::RequiresAction,
            Self::Failed => ResponseState::Failed,
            Self::Cancelled => ResponseState::Cancelled,
        }
    }
}

record! {
    /// Safety detail of an ending.
    #[derive(Default)]
    pub struct SafetyDetail {
        /// Category.
        category?: String,
        /// In words.
        explanation?: String,
    }
}
record! {
    /// How a response stands.
    pub struct UnifiedResponseStatus {
        /// State.
        state: ResponseState,
        /// Why it ended; absent until the end.
        finish_reason?: UnifiedFinishReason,
        /// The provider's word.
        original_reason?: String,
        /// The stop sequence that matched.
        stop_sequence?: String,
        /// Safety detail.
        safety?: SafetyDetail,
    }
}

impl UnifiedResponseStatus {
    /// Status of a response that is being made.
    pub const fn in_progress() -> Self {
        Self {
            state: ResponseState::InProgress,
            finish_reason: None,
            original_reason: None,
            stop_sequence: None,
            safety: None,
        }
    }

    /// Status of a response that ended for `reason`, with the provider's own word.
    pub const fn finished(reason: UnifiedFinishReason, original_reason: Option<String>) -> Self {
        Self {
            state: reason.state(),
            finish_reason: Some(reason),
            original_reason,
            stop_sequence: None,
            safety: None,
        }
    }
}
