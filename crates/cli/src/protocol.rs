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

    /// Whether a word that an option gives is a dialect of the protocol. A word that is none would change nothing, in silence.
    ///
    /// # Errors
    /// `invalid-request.usage` with the words that there are.
    pub fn check_dialect(&self, option: &str, word: Option<&str>) -> Result<(), CliError> {
        let known = self.codec.dialects();
        let Some(word) = word.filter(|word| !known.contains(word)) else {
            return Ok(());
        };
        let there = if known.is_empty() {
            "it has none".to_owned()
        } else {
            format!("known are {}", known.join(", "))
        };
        let message = format!("{option}: {word:?} is no dialect of {}; {there}", self.family);
        Err(CliError::usage(message).at(format!("/{option}")))
    }
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Protocol({})", self.family)
    }
}
