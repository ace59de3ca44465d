//! The direction that this wire does not have: no provider speaks it.

use crate::codec::{Decoded, StreamDecoder};
use throughline_format::{ErrorCategory, UnifiedError, UnifiedFinishReason, UnifiedResponseStatus};

/// What every attempt to read an answer says.
pub(super) fn refused() -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::Unsupported,
        "direction",
        "answers of providers are not read in the native form; use the provider's own protocol",
    )
}

/// Ends at once.
#[derive(Default)]
pub(super) struct NoStream {
    finished: bool,
}

impl NoStream {
    fn end(&mut self) -> Decoded {
        let mut out = Decoded::default();
        if !std::mem::replace(&mut self.finished, true) {
            let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Failed, None);
            out.fail(refused(), status, Vec::new());
        }
        out
    }
}

impl StreamDecoder for NoStream {
    fn push(&mut self, _: &[u8]) -> Decoded {
        self.end()
    }

    fn finish(&mut self) -> Decoded {
        self.end()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
