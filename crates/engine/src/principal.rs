//! [`Principal`]: who a request belongs to.

use throughline_format::UnifiedError;
use throughline_store::{HashPurpose, Vault};

/// The authenticated owner of conversations: the owner of a key, not the key, so that rotation loses nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    id: String,
}

impl Principal {
    /// A principal by its stable ID, such as `local` on a loopback gateway without keys.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into() }
    }

    /// The stable ID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What records carry in place of the ID: a keyed hash.
    ///
    /// # Errors
    /// When the vault cannot hash.
    pub fn reference(&self, vault: &Vault) -> Result<String, UnifiedError> {
        vault
            .keyed_hash(HashPurpose::Principal, self.id.as_bytes())
            .map(|hash| hash.to_hex())
            .map_err(|e| e.to_unified())
    }
}
