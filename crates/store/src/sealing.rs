//! Sealed records and what they are bound to.
//!
//! A sealed record is `1 ‖ key version (4 bytes, big-endian) ‖ nonce (24 bytes) ‖ ciphertext and tag`, XChaCha20-Poly1305. The
//! associated data is the header and every field of [`SealContext`], each with its length, so that a record opens only in
//! the row, conversation, branch position and owner scope that it was sealed for.

use throughline_format::{Sha256, UnifiedId};

use crate::StoreError;

/// The version of the record layout.
const LAYOUT: u8 = 1;
/// Layout byte and key version.
pub(crate) const HEADER_BYTES: usize = 5;
/// The nonce of XChaCha20-Poly1305.
pub(crate) const NONCE_BYTES: usize = 24;
/// The tag of Poly1305.
const TAG_BYTES: usize = 16;

/// An encrypted payload. Only [`crate::Vault`] makes one from plaintext.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes, key version {})", self.0.len(), self.key_version())
    }
}

impl Sealed {
    /// Takes bytes that were sealed before; refuses what has not the layout of a sealed record, so that no plaintext is stored
    /// by mistake.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, StoreError> {
        let long_enough = bytes.len() >= HEADER_BYTES + NONCE_BYTES + TAG_BYTES;
        let sealed = Self(bytes);
        if long_enough && sealed.0.first() == Some(&LAYOUT) && sealed.key_version() != 0 {
            Ok(sealed)
        } else {
            Err(StoreError::invalid(
                "/encryptedPayload",
                "the payload is not a sealed record; seal it with the vault first",
            ))
        }
    }

    /// Puts a record together.
    pub(crate) fn assemble(key_version: u32, nonce: &[u8; NONCE_BYTES], ciphertext: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + NONCE_BYTES + ciphertext.len());
        bytes.extend_from_slice(&header(key_version));
        bytes.extend_from_slice(nonce);
        bytes.extend_from_slice(ciphertext);
        Self(bytes)
    }

    /// Nonce and ciphertext.
    pub(crate) fn parts(&self) -> Option<([u8; NONCE_BYTES], &[u8])> {
        let (nonce, ciphertext) = self.0.get(HEADER_BYTES..)?.split_first_chunk()?;
        Some((*nonce, ciphertext))
    }

    /// The whole record.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The version of the key that it was sealed with.
    pub fn key_version(&self) -> u32 {
        self.0
            .get(1..)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    /// SHA-256 of the whole record.
    pub fn digest(&self) -> Sha256 {
        Sha256::of(&self.0)
    }
}

pub(crate) fn header(key_version: u32) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = key_version.to_be_bytes();
    [LAYOUT, a, b, c, d]
}

/// Which kind of row a sealed record stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A private resource.
    Resource,
    /// A provider checkpoint.
    Checkpoint,
    /// A raw body of the diagnostic store.
    Diagnostic,
}

impl RecordKind {
    /// The word that enters the associated data.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Checkpoint => "checkpoint",
            Self::Diagnostic => "diagnostic",
        }
    }
}

/// What a sealed record is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealContext {
    /// The kind of row.
    pub kind: RecordKind,
    /// The row.
    pub record_id: UnifiedId,
    /// The conversation.
    pub conversation_id: UnifiedId,
    /// [`crate::owner_fingerprint`] of the owner.
    pub owner_fingerprint: Sha256,
    /// The branch, of a checkpoint.
    pub branch_id: Option<UnifiedId>,
    /// The head of the branch, of a checkpoint.
    pub journal_head: Option<UnifiedId>,
}

impl SealContext {
    /// The context of a private resource.
    pub const fn resource(resource_id: UnifiedId, conversation_id: UnifiedId, owner_fingerprint: Sha256) -> Self {
        Self {
            kind: RecordKind::Resource,
            record_id: resource_id,
            conversation_id,
            owner_fingerprint,
            branch_id: None,
            journal_head: None,
        }
    }

    /// The context of a checkpoint.
    pub const fn checkpoint(
        checkpoint_id: UnifiedId,
        conversation_id: UnifiedId,
        branch_id: UnifiedId,
        journal_head: UnifiedId,
        owner_fingerprint: Sha256,
    ) -> Self {
        Self {
            kind: RecordKind::Checkpoint,
            record_id: checkpoint_id,
            conversation_id,
            owner_fingerprint,
            branch_id: Some(branch_id),
            journal_head: Some(journal_head),
        }
    }

    /// The associated data of a record under this key version.
    pub(crate) fn associated_data(&self, key_version: u32) -> Vec<u8> {
        let mut data = Vec::with_capacity(256);
        data.extend_from_slice(b"throughline-seal@1\n");
        data.extend_from_slice(&header(key_version));
        let id = |id: Option<&UnifiedId>| id.map(|id| id.as_str().as_bytes().to_vec());
        let fields = [
            Some(self.kind.as_str().as_bytes().to_vec()),
            id(Some(&self.record_id)),
            id(Some(&self.conversation_id)),
            Some(self.owner_fingerprint.as_bytes().to_vec()),
            id(self.branch_id.as_ref()),
            id(self.journal_head.as_ref()),
        ];
        for field in fields {
            // An absent field and an empty one must differ: 0 stands for absent, length + 1 for the rest.
            let length = field.as_ref().map_or(0, |bytes| bytes.len() as u64 + 1);
            data.extend_from_slice(&length.to_be_bytes());
            data.extend_from_slice(&field.unwrap_or_default());
        }
        data
    }
}
