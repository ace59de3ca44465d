//! [`ClientKeys`]: the file `keys/clients.json`. Keys stand in it as salted hashes.

use crate::system;
use serde::{Deserialize, Serialize};
use std::path::Path;
use subtle::ConstantTimeEq as _;
use throughline_format::{ErrorCategory, Sha256, Timestamp, UnifiedError, UnifiedId};
use zeroize::Zeroizing;

/// Begin of every client key.
const PREFIX: &str = "tlk_";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    id: UnifiedId,
    name: String,
    salt: String,
    hash: Sha256,
    created_at: Timestamp,
    #[serde(default)]
    revoked_at: Option<Timestamp>,
}

/// The keys of a gateway's clients. The name of a key is its owner: two keys of one name are one principal, so that a key
/// can be replaced without losing conversations.
#[derive(Clone, Debug, Default)]
pub struct ClientKeys(Vec<Entry>);

/// A key that was just made; it is shown once.
pub struct NewKey {
    /// Its ID.
    pub id: UnifiedId,
    /// The key.
    pub key: Zeroizing<String>,
}

impl ClientKeys {
    /// Reads the JSON of the file.
    ///
    /// # Errors
    /// `storage.key-file` with line and column; the content is never shown.
    pub fn from_json(bytes: &[u8]) -> Result<Self, UnifiedError> {
        serde_json::from_slice(bytes).map(Self).map_err(|error| {
            UnifiedError::new(
                ErrorCategory::Storage,
                "key-file",
                format!("keys/clients.json cannot be read, line {} column {}", error.line(), error.column()),
            )
        })
    }

    /// The JSON of the file.
    ///
    /// # Errors
    /// Never in practice; `internal.json` if the keys have no JSON form.
    pub fn to_json(&self) -> Result<Vec<u8>, UnifiedError> {
        serde_json::to_vec_pretty(&self.0)
            .map_err(|_| UnifiedError::new(ErrorCategory::Internal, "json", "the client keys cannot be written"))
    }

    /// Reads the file at exactly this path; there are no keys when it is not there.
    ///
    /// # Errors
    /// `storage.key-file`.
    pub fn load(path: &Path) -> Result<Self, UnifiedError> {
        match std::fs::read(path) {
            Ok(bytes) => Self::from_json(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(UnifiedError::new(
                ErrorCategory::Storage,
                "key-file",
                format!("keys/clients.json cannot be read: {}", error.kind()),
            )),
        }
    }

    /// Makes a key for an owner.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn create(&mut self, name: &str, now: Timestamp) -> Result<NewKey, UnifiedError> {
        let (mut secret, mut salt) = (Zeroizing::new([0u8; 32]), [0u8; 16]);
        for bytes in [secret.as_mut_slice(), salt.as_mut_slice()] {
            getrandom::fill(bytes).map_err(|_| UnifiedError::new(ErrorCategory::Internal, "random", "the system gives no randomness"))?;
        }
        let key = Zeroizing::new(format!("{PREFIX}{}", data_encoding::BASE64URL_NOPAD.encode(secret.as_slice())));
        let (id, salt) = (system::random_id("key_"), data_encoding::HEXLOWER.encode(&salt));
        self.0.push(Entry {
            id: id.clone(),
            name: name.to_owned(),
            hash: hash(&salt, &key),
            salt,
            created_at: now,
            revoked_at: None,
        });
        Ok(NewKey { id, key })
    }

    /// Takes a key out of use; false when there is no such active key.
    pub fn revoke(&mut self, id: &UnifiedId, now: Timestamp) -> bool {
        let found = self.0.iter_mut().find(|entry| entry.id == *id && entry.revoked_at.is_none());
        found.map(|entry| entry.revoked_at = Some(now)).is_some()
    }

    /// Whether there is a key that counts.
    pub fn any_active(&self) -> bool {
        self.0.iter().any(|entry| entry.revoked_at.is_none())
    }

    /// The owner of a key. The time does not depend on which key it is or where it differs.
    pub fn owner(&self, key: &str) -> Option<&str> {
        let mut found = None;
        for entry in self.0.iter().filter(|entry| entry.revoked_at.is_none()) {
            if bool::from(hash(&entry.salt, key).as_bytes().ct_eq(entry.hash.as_bytes())) {
                found = Some(entry.name.as_str());
            }
        }
        found
    }
}

/// Keys have 256 bits of randomness, so one round of a plain hash is enough; the salt keeps equal keys apart.
fn hash(salt: &str, key: &str) -> Sha256 {
    Sha256::of_all([salt.as_bytes(), b"\n", key.as_bytes()])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_checked_and_revoked() {
        let mut keys = ClientKeys::default();
        assert!(!keys.any_active());
        let first = keys.create("laptop", Timestamp::EPOCH).unwrap();
        let second = keys.create("laptop", Timestamp::EPOCH).unwrap();
        let json = keys.to_json().unwrap();
        assert!(!String::from_utf8(json.clone()).unwrap().contains(&first.key[4..]));
        let mut keys = ClientKeys::from_json(&json).unwrap();
        assert_eq!(
            (keys.owner(&first.key), keys.owner(&second.key), keys.owner("tlk_x")),
            (Some("laptop"), Some("laptop"), None)
        );
        assert!(keys.revoke(&first.id, Timestamp::EPOCH) && !keys.revoke(&first.id, Timestamp::EPOCH));
        assert_eq!((keys.owner(&first.key), keys.owner(&second.key)), (None, Some("laptop")));
        assert_eq!(ClientKeys::from_json(b"{}").unwrap_err().code, "storage.key-file");
    }
}
