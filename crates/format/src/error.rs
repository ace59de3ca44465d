//! [`UnifiedError`]: the error of every surface (open-types.md, section 7).

use crate::macros::{record, words};
use crate::{Count, UnifiedId};

words! {
    /// Category of an error.
    pub enum ErrorCategory {
        InvalidRequest = "invalid-request",
        MaxContext = "max-context",
        TooLarge = "too-large",
        Auth = "auth",
        Permission = "permission",
        NotFound = "not-found",
        Conflict = "conflict",
        RateLimit = "rate-limit",
        Quota = "quota",
        Overloaded = "overloaded",
        Server = "server",
        Timeout = "timeout",
        Network = "network",
        ContentFilter = "content-filter",
        Checkpoint = "checkpoint",
        Unsupported = "unsupported",
        Interrupted = "interrupted",
        Cancelled = "cancelled",
        Limit = "limit",
        Storage = "storage",
        Internal = "internal",
    }
}

impl ErrorCategory {
    /// Whether asking again may help, when nothing else is known.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimit | Self::Overloaded | Self::Server | Self::Timeout | Self::Network | Self::Interrupted
        )
    }
}

/// Longest message, in characters.
pub const MAX_MESSAGE_CHARS: usize = 1_024;

record! {
    /// An error: no credential, no unsanitised provider content.
    pub struct UnifiedError {
        /// Category.
        category: ErrorCategory,
        /// Stable code `category.detail`.
        code: String,
        /// Sanitised, at most 1,024 characters, without quoted request content.
        message: String,
        /// HTTP status.
        http_status?: Count,
        /// gRPC status word.
        grpc_status?: String,
        /// The provider's code.
        provider_code?: String,
        /// Whether asking again may help.
        retryable: bool,
        /// When to ask again.
        retry_after_ms?: Count,
        /// JSON Pointer.
        field_path?: String,
        /// Operation.
        operation_id?: UnifiedId,
        /// Item.
        item_id?: UnifiedId,
        /// The provider's trace ID.
        provider_request_id?: String,
        /// Sealed diagnostic record, opt-in.
        diagnostic_ref?: UnifiedId,
    }
}

impl UnifiedError {
    /// An error with code `category.detail` and the category's usual retryability.
    pub fn new(category: ErrorCategory, detail: &str, message: impl Into<String>) -> Self {
        Self {
            category,
            code: format!("{}.{detail}", category.as_str()),
            message: sanitise(&message.into()),
            http_status: None,
            grpc_status: None,
            provider_code: None,
            retryable: category.is_retryable(),
            retry_after_ms: None,
            field_path: None,
            operation_id: None,
            item_id: None,
            provider_request_id: None,
            diagnostic_ref: None,
        }
    }

    /// The same error with the words of a provider bounded and without credentials, as its message is.
    #[must_use]
    pub fn sanitised(mut self) -> Self {
        let word = |text: &String| sanitise(text).chars().take(MAX_WORD_CHARS).collect::<String>();
        self.message = sanitise(&self.message);
        for told in [&mut self.grpc_status, &mut self.provider_code, &mut self.provider_request_id] {
            *told = told.as_ref().map(word);
        }
        // A place with a credential in it is none.
        self.field_path = self.field_path.take().filter(|place| sanitise(place) == *place);
        self
    }

    /// The same error as one of an operation, unless it tells of one already.
    #[must_use]
    pub fn of_operation(mut self, operation_id: &UnifiedId) -> Self {
        self.operation_id.get_or_insert_with(|| operation_id.clone());
        self
    }

    /// The same error with a place.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.field_path = Some(pointer.into());
        self
    }
}

impl std::fmt::Display for UnifiedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for UnifiedError {}

impl From<crate::json::DecodeError> for UnifiedError {
    fn from(error: crate::json::DecodeError) -> Self {
        let detail = error.code.as_str().trim_start_matches("invalid-request.").to_owned();
        Self::new(ErrorCategory::InvalidRequest, &detail, error.message).at(error.pointer)
    }
}

/// Longest word of a provider, such as its code or its trace ID, in characters.
pub const MAX_WORD_CHARS: usize = 128;

/// Cuts a message to its bound, takes credentials out of it and replaces control characters.
pub fn sanitise(text: &str) -> String {
    crate::secrets::redact(text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_MESSAGE_CHARS)
        .collect()
}
