//! [`CliError`]: the one error of every command, with its exit code and its JSON form.

use serde::Serialize;
use throughline_format::{ErrorCategory, UnifiedError};

/// Exit code of bad usage and bad input.
pub const EXIT_BAD_INPUT: u8 = 2;
/// Exit code of a required intent that the target cannot say.
pub const EXIT_UNSUPPORTED: u8 = 3;
/// Exit code of anything else.
pub const EXIT_OTHER: u8 = 1;

/// Why a command failed. Serialises to the object that stands on stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CliError {
    /// Stable code `category.detail`.
    pub code: String,
    /// What is wrong and what to do; quotes no content of the input.
    pub message: String,
    /// JSON Pointer into the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip)]
    exit: u8,
}

impl CliError {
    /// Bad usage: an option or argument is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::input("usage", message)
    }

    /// Bad input with the code `invalid-request.<detail>`.
    pub fn input(detail: &str, message: impl Into<String>) -> Self {
        Self {
            code: format!("invalid-request.{detail}"),
            message: message.into(),
            path: None,
            exit: EXIT_BAD_INPUT,
        }
    }

    /// Input beyond its bound.
    pub fn too_large(what: &str, limit_bytes: usize) -> Self {
        Self {
            code: "too-large.body".into(),
            message: format!("{what} is larger than {limit_bytes} bytes"),
            path: None,
            exit: EXIT_BAD_INPUT,
        }
    }

    /// A file or pipe that cannot be read or written.
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        Self {
            code: "internal.io".into(),
            message: format!("{what}: {error}"),
            path: None,
            exit: EXIT_OTHER,
        }
    }

    /// A fault of this program.
    pub fn internal(detail: &str, message: impl Into<String>) -> Self {
        Self {
            code: format!("internal.{detail}"),
            message: message.into(),
            path: None,
            exit: EXIT_OTHER,
        }
    }

    /// An error that is no fault of the input, whatever its category: exit code 1.
    pub fn other(error: UnifiedError) -> Self {
        Self {
            exit: EXIT_OTHER,
            ..Self::from(error)
        }
    }

    /// The same error with a place.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.path = Some(pointer.into());
        self
    }

    /// The exit code that this error gives.
    pub const fn exit(&self) -> u8 {
        self.exit
    }
}

impl From<UnifiedError> for CliError {
    fn from(error: UnifiedError) -> Self {
        let bad_input = matches!(
            error.category,
            ErrorCategory::InvalidRequest | ErrorCategory::TooLarge | ErrorCategory::Unsupported | ErrorCategory::Limit
        );
        let exit = if bad_input { EXIT_BAD_INPUT } else { EXIT_OTHER };
        Self {
            code: error.code,
            message: error.message,
            path: error.field_path.filter(|p| !p.is_empty()),
            exit,
        }
    }
}

impl From<throughline_store::StoreError> for CliError {
    fn from(error: throughline_store::StoreError) -> Self {
        error.to_unified().into()
    }
}

impl From<throughline_format::DecodeError> for CliError {
    fn from(error: throughline_format::DecodeError) -> Self {
        UnifiedError::from(error).into()
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for CliError {}
