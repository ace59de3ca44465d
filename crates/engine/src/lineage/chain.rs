//! The chain of links: `link(0) = HMAC-SHA-256(installation key, principal)`, `link(n) = SHA-256(link(n-1) ‖ SHA-256(atom n))`.

use super::atoms::Atom;
use hmac::{Hmac, KeyInit as _, Mac as _};
use throughline_format::Sha256;

/// Where a chain stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Hash over the principal and all atoms so far.
    pub hash: Sha256,
    /// Number of atoms so far.
    pub ordinal: u64,
}

impl Link {
    /// The root of a principal: two principals with equal histories differ from the first byte on.
    pub fn root(installation_key: &[u8], principal: &str) -> Self {
        // An HMAC takes keys of any length, so the default is never used.
        let hash = Hmac::<sha2::Sha256>::new_from_slice(installation_key).map_or_else(
            |_| Sha256::of(b""),
            |mut mac| {
                mac.update(principal.as_bytes());
                Sha256::from_bytes(mac.finalize().into_bytes().into())
            },
        );
        Self { hash, ordinal: 0 }
    }

    /// The chain with one atom more.
    #[must_use]
    pub fn then(self, atom: &Atom) -> Self {
        let hash = Sha256::of_all([self.hash.as_bytes().as_slice(), atom.hash().as_bytes().as_slice()]);
        Self {
            hash,
            ordinal: self.ordinal + 1,
        }
    }

    /// The links after each of the atoms.
    pub fn along(self, atoms: &[Atom]) -> Vec<Self> {
        let mut links = Vec::with_capacity(atoms.len());
        let mut link = self;
        for atom in atoms {
            link = link.then(atom);
            links.push(link);
        }
        links
    }
}
