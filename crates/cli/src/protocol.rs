//! From the name of a protocol to its codec.

use crate::error::CliError;
use std::sync::Arc;
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError};
use throughline_protocols::{Codec, codec_of};

/// A protocol that a command names and this build speaks.
#[derive(Clone)]
pub struct Protocol {
    /// Its family.
    pub family: ProtocolFamily,
    /// Its codec.
    pub codec: Arc<dyn Codec>,
}

impl Protocol {
    /// Looks a protocol up by name.
    ///
    /// # Errors
    /// `invalid-request.unknown-protocol` for a name that is none, `unsupported.direction` when this build has no codec for it.
    pub fn named(name: &str) -> Result<Self, CliError> {
        let family = ProtocolFamily::from_word(name);
        if matches!(family, ProtocolFamily::Other(_)) {
            let known = ProtocolFamily::WORDS.join(", ");
            return Err(CliError::input(
                "unknown-protocol",
                format!("there is no such protocol; known are {known}"),
            ));
        }
        let Some(codec) = codec_of(&family) else {
            return Err(UnifiedError::new(
                ErrorCategory::Unsupported,
                "direction",
                format!("this build has no codec for {family}"),
            )
            .into());
        };
        Ok(Self { family, codec })
    }
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Protocol({})", self.family)
    }
}
