//! Why an answer ended, both ways.

use throughline_format::{ErrorCategory, UnifiedError, UnifiedFinishReason, UnifiedResponseStatus};

/// The reason behind a word of the wire; the provider has no word for calls.
pub(super) fn reason(word: &str, has_calls: bool) -> UnifiedFinishReason {
    match word {
        "STOP" if has_calls => UnifiedFinishReason::ToolCalls,
        // The Claude models behind the envelope end so when they call.
        "OTHER" if has_calls => UnifiedFinishReason::ToolCalls,
        "STOP" => UnifiedFinishReason::Stop,
        "MAX_TOKENS" => UnifiedFinishReason::Length,
        "CONTINUATION" => UnifiedFinishReason::Paused,
        "SAFETY"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "RECITATION"
        | "IMAGE_RECITATION"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "ESCALATION" => UnifiedFinishReason::ContentFilter,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => UnifiedFinishReason::MalformedToolCall,
        "TOO_MANY_TOOL_CALLS" => UnifiedFinishReason::Incomplete,
        "IMAGE_OTHER" | "NO_IMAGE" | "MALFORMED_RESPONSE" | "MISSING_THOUGHT_SIGNATURE" | "PUP_LIMITED_DISABLED" => {
            UnifiedFinishReason::Failed
        }
        _ => UnifiedFinishReason::Unknown,
    }
}

/// The error of a word that means failure.
pub(super) fn failure(word: &str, message: Option<&str>) -> UnifiedError {
    let (category, detail, retryable) = match word {
        "MISSING_THOUGHT_SIGNATURE" => (ErrorCategory::InvalidRequest, "thought-signature", false),
        "PUP_LIMITED_DISABLED" => (ErrorCategory::Permission, "account", false),
        "NO_IMAGE" | "IMAGE_OTHER" => (ErrorCategory::Server, "no-image", true),
        _ => (ErrorCategory::Server, "malformed-response", true),
    };
    let text = message.map_or_else(|| format!("the answer ended with {word:.60}"), str::to_owned);
    let mut error = UnifiedError::new(category, detail, text);
    error.retryable = retryable;
    error.provider_code = Some(word.chars().take(60).collect());
    error
}

/// The word of the wire for a status, and whether it says exactly that; none while nothing has ended.
pub(super) fn word(status: &UnifiedResponseStatus, native: bool) -> Option<(String, bool)> {
    if let Some(word) = status.original_reason.as_ref().filter(|_| native) {
        return Some((word.clone(), true));
    }
    let (word, exact) = match status.finish_reason? {
        UnifiedFinishReason::Stop => ("STOP", true),
        // There is no other word for it.
        UnifiedFinishReason::ToolCalls => ("STOP", true),
        UnifiedFinishReason::Length => ("MAX_TOKENS", true),
        UnifiedFinishReason::ContentFilter => ("SAFETY", true),
        UnifiedFinishReason::MalformedToolCall => ("MALFORMED_FUNCTION_CALL", true),
        UnifiedFinishReason::Refusal => ("SAFETY", false),
        UnifiedFinishReason::MaxContext => ("MAX_TOKENS", false),
        UnifiedFinishReason::RequiresAction => ("STOP", false),
        UnifiedFinishReason::Paused
        | UnifiedFinishReason::Cancelled
        | UnifiedFinishReason::Interrupted
        | UnifiedFinishReason::Failed
        | UnifiedFinishReason::Incomplete
        | UnifiedFinishReason::Unknown => ("OTHER", false),
    };
    Some((word.to_owned(), exact))
}
