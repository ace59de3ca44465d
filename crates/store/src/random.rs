//! [`RandomSource`]: where nonces, keys and the epoch come from.

use crate::StoreError;

/// A source of unpredictable bytes. Tests give their own; everything else uses [`OsRandom`].
pub trait RandomSource: Send + Sync {
    /// Fills `bytes`, or fails without having given any that may be used.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), StoreError>;
}

/// The operating system's source.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl RandomSource for OsRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), StoreError> {
        getrandom::fill(bytes).map_err(|error| StoreError::Io {
            action: "asking the system for randomness",
            detail: error.to_string(),
        })
    }
}
