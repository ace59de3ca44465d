//! [`Vault`]: seals and opens private payloads, and makes keyed hashes. It holds the only copy of the key material.

use std::collections::BTreeMap;
use std::sync::Arc;

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use subtle::ConstantTimeEq as _;
use throughline_format::{Sha256, UnifiedResourceOwner};
use zeroize::Zeroizing;

use crate::sealing::{NONCE_BYTES, SealContext, Sealed};
use crate::{KeyRing, RandomSource, StoreError};

/// What a keyed hash is for. Hashes of two purposes never compare equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HashPurpose {
    /// Look-up of a private payload that a client presents.
    PrivatePayload,
    /// Look-up of an ID that was given to a client.
    IssuedId,
    /// Grouping by a client's session key.
    SessionKey,
    /// Look-up of an idempotency key.
    IdempotencyKey,
    /// Reference of a principal.
    Principal,
    /// Resume cursors.
    Cursor,
    /// Synthetic signatures.
    SyntheticSignature,
    /// The proof that a key ring belongs to a database.
    KeyCheck,
}

impl HashPurpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::PrivatePayload => b"throughline/private-payload@1",
            Self::IssuedId => b"throughline/issued-id@1",
            Self::SessionKey => b"throughline/session-key@1",
            Self::IdempotencyKey => b"throughline/idempotency-key@1",
            Self::Principal => b"throughline/principal@1",
            Self::Cursor => b"throughline/cursor@1",
            Self::SyntheticSignature => b"throughline/synthetic-signature@1",
            Self::KeyCheck => b"throughline/key-check@1",
        }
    }
}

const SEAL_LABEL: &[u8] = b"throughline/seal@1";
const CREDENTIAL_LABEL: &[u8] = b"throughline/credential@1";
const LINEAGE_LABEL: &[u8] = b"throughline/lineage@1";

/// Seals private payloads under the current key and opens those of every key in the ring.
///
/// Keys for the separate uses are derived from the master keys with HMAC-SHA-256. Look-up hashes, the lineage key and credential
/// fingerprints hang on the **oldest** key of the ring, so that they stay comparable when a new current key is added; dropping
/// the oldest key gives them up.
pub struct Vault {
    ring: KeyRing,
    oldest: u32,
    random: Arc<dyn RandomSource>,
    ciphers: BTreeMap<u32, XChaCha20Poly1305>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl Vault {
    /// A vault over this ring.
    pub fn new(ring: KeyRing, random: Arc<dyn RandomSource>) -> Result<Self, StoreError> {
        let mut ciphers = BTreeMap::new();
        for (version, master) in ring.iter() {
            let key = Zeroizing::new(*derive(master.bytes(), SEAL_LABEL)?.as_bytes());
            ciphers.insert(version, XChaCha20Poly1305::new(&Key::from(*key)));
        }
        let oldest = ciphers.keys().next().copied().ok_or_else(|| StoreError::KeyRing {
            detail: "it holds no key".to_owned(),
        })?;
        Ok(Self {
            ring,
            oldest,
            random,
            ciphers,
        })
    }

    /// A vault over the same keys and one more, which becomes the current one.
    pub fn with_next_key(&self, random: &dyn RandomSource, now: throughline_format::Timestamp) -> Result<Self, StoreError> {
        Self::new(self.ring.with_next_key(random, now)?, self.random.clone())
    }

    /// The version that seals.
    pub const fn current_version(&self) -> u32 {
        self.ring.current_version()
    }

    /// The version that every look-up hash, the lineage key and credential fingerprints hang on: the oldest of the ring.
    ///
    /// A store remembers it and refuses a ring with another one, since nothing would be found again under it.
    pub const fn hash_version(&self) -> u32 {
        self.oldest
    }

    /// Every version that can be opened, oldest first.
    pub fn versions(&self) -> Vec<u32> {
        self.ring.versions()
    }

    /// Seals a payload for one place.
    pub fn seal(&self, context: &SealContext, plaintext: &[u8]) -> Result<Sealed, StoreError> {
        let version = self.current_version();
        let mut nonce = [0u8; NONCE_BYTES];
        self.random.fill(&mut nonce)?;
        let payload = Payload {
            msg: plaintext,
            aad: &context.associated_data(version),
        };
        let ciphertext = self
            .cipher(version)?
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| StoreError::internal("a payload could not be sealed"))?;
        Ok(Sealed::assemble(version, &nonce, &ciphertext))
    }

    /// Opens a record, only in the place that it was sealed for.
    pub fn open(&self, context: &SealContext, sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        let version = sealed.key_version();
        let (nonce, ciphertext) = sealed.parts().ok_or(StoreError::SealedRecord)?;
        let payload = Payload {
            msg: ciphertext,
            aad: &context.associated_data(version),
        };
        let plaintext = self
            .cipher(version)?
            .decrypt(&XNonce::from(nonce), payload)
            .map_err(|_| StoreError::SealedRecord)?;
        Ok(Zeroizing::new(plaintext))
    }

    /// The same content under the current key.
    pub fn reseal(&self, context: &SealContext, sealed: &Sealed) -> Result<Sealed, StoreError> {
        self.seal(context, &self.open(context, sealed)?)
    }

    /// A hash for look-up, the same after a rotation.
    pub fn keyed_hash(&self, purpose: HashPurpose, bytes: &[u8]) -> Result<Sha256, StoreError> {
        self.hash_with(self.oldest, purpose.label(), bytes)
    }

    /// A MAC under the current key, and the version of that key.
    pub fn mac(&self, purpose: HashPurpose, bytes: &[u8]) -> Result<(u32, Sha256), StoreError> {
        let version = self.current_version();
        Ok((version, self.hash_with(version, purpose.label(), bytes)?))
    }

    /// Whether a MAC is right, in a time that does not depend on where it differs.
    pub fn verify_mac(&self, purpose: HashPurpose, key_version: u32, bytes: &[u8], mac: &[u8]) -> bool {
        self.hash_with(key_version, purpose.label(), bytes)
            .is_ok_and(|right| right.as_bytes().ct_eq(mac).into())
    }

    /// The fingerprint of an upstream credential: comparable inside this installation, not guessable outside.
    pub fn credential_fingerprint(&self, credential: &[u8]) -> Result<String, StoreError> {
        let hash = self.hash_with(self.oldest, CREDENTIAL_LABEL, credential)?.to_hex();
        Ok(format!("v{}:{}", self.oldest, hash.get(..32).unwrap_or(&hash)))
    }

    /// The installation's lineage key, the key of link(0).
    pub fn lineage_key(&self) -> Result<Zeroizing<[u8; 32]>, StoreError> {
        Ok(Zeroizing::new(*self.derive(self.oldest, LINEAGE_LABEL)?.as_bytes()))
    }

    /// What a database stores per key version to recognise a foreign key ring.
    pub fn key_check(&self, key_version: u32) -> Result<Sha256, StoreError> {
        self.hash_with(key_version, HashPurpose::KeyCheck.label(), b"throughline")
    }

    fn cipher(&self, version: u32) -> Result<&XChaCha20Poly1305, StoreError> {
        self.ciphers.get(&version).ok_or(StoreError::WrongKey { key_version: version })
    }

    fn derive(&self, version: u32, label: &[u8]) -> Result<Sha256, StoreError> {
        let (_, master) = self
            .ring
            .iter()
            .find(|(found, _)| *found == version)
            .ok_or(StoreError::WrongKey { key_version: version })?;
        derive(master.bytes(), label)
    }

    fn hash_with(&self, version: u32, label: &[u8], bytes: &[u8]) -> Result<Sha256, StoreError> {
        let key = Zeroizing::new(*self.derive(version, label)?.as_bytes());
        derive(key.as_ref(), bytes)
    }
}

/// HMAC-SHA-256.
fn derive(key: &[u8], bytes: &[u8]) -> Result<Sha256, StoreError> {
    let mut mac =
        <Hmac<sha2::Sha256> as hmac::KeyInit>::new_from_slice(key).map_err(|_| StoreError::internal("a key has no legal length"))?;
    mac.update(bytes);
    Ok(Sha256::from_bytes(mac.finalize().into_bytes().into()))
}

/// The fingerprint of an owner scope: SHA-256 of the canonical record. Two owners are the same scope only if it is equal.
pub fn owner_fingerprint(owner: &UnifiedResourceOwner) -> Result<Sha256, StoreError> {
    throughline_format::fingerprint(owner).map_err(|error| StoreError::invalid("/owner", error.to_string()))
}
