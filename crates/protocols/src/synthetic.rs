//! Synthetic signatures: where a client's protocol demands a signature for reasoning that came from elsewhere.
//!
//! They begin with a fixed prefix, carry an HMAC, are recognised on the way back and never go to a provider
//! (architecture.md, Private state).

use hmac::{Hmac, KeyInit as _, Mac as _};
use throughline_format::resource::Issuer;

/// Begin of every synthetic signature.
pub const PREFIX: &str = "tl-synthetic:";

/// Makes and recognises synthetic signatures.
#[derive(Clone)]
pub struct SyntheticSealer {
    key: [u8; 32],
}

impl SyntheticSealer {
    /// With a key of the installation.
    pub const fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// With the fixed key of the stand-alone commands, whose output is reproducible and authenticates nothing.
    pub const fn offline() -> Self {
        Self { key: [0; 32] }
    }

    /// The signature for a reasoning text.
    pub fn seal(&self, text: &str) -> String {
        format!("{PREFIX}{}", data_encoding::BASE64URL_NOPAD.encode(&self.mac(text)))
    }

    /// Whether a signature claims to be synthetic. A forged one is treated the same: it never goes upstream.
    pub fn is_synthetic(signature: &str) -> bool {
        signature.starts_with(PREFIX)
    }

    /// Whether a payload holds a signature that claims to be synthetic, such as one of a list.
    pub fn holds_synthetic(payload: &[u8]) -> bool {
        payload.windows(PREFIX.len()).any(|bytes| bytes == PREFIX.as_bytes())
    }

    /// Who made a payload: this gateway when it holds a synthetic signature, whoever presents it.
    pub fn issuer(payload: &[u8], presented_by: Issuer) -> Issuer {
        if Self::holds_synthetic(payload) {
            Issuer::Synthetic
        } else {
            presented_by
        }
    }

    /// Whether this installation made the signature for this text.
    pub fn verify(&self, text: &str, signature: &str) -> bool {
        let Some(given) = signature
            .strip_prefix(PREFIX)
            .and_then(|s| data_encoding::BASE64URL_NOPAD.decode(s.as_bytes()).ok())
        else {
            return false;
        };
        let Ok(mut mac) = Hmac::<sha2::Sha256>::new_from_slice(&self.key) else {
            return false;
        };
        mac.update(text.as_bytes());
        mac.verify_slice(&given).is_ok()
    }

    fn mac(&self, text: &str) -> Vec<u8> {
        // An HMAC takes keys of any length, so this branch is never empty.
        Hmac::<sha2::Sha256>::new_from_slice(&self.key)
            .map(|mut mac| {
                mac.update(text.as_bytes());
                mac.finalize().into_bytes().to_vec()
            })
            .unwrap_or_default()
    }
}

impl std::fmt::Debug for SyntheticSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SyntheticSealer(..)")
    }
}
