//! [`ClientKeys`]: the file `keys/clients.json`. Keys stand in it as salted hashes.

use crate::system;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use subtle::ConstantTimeEq as _;
use throughline_format::{ErrorCategory, Sha256, Timestamp, UnifiedError, UnifiedId};
use zeroize::Zeroizing;

/// Begin of every client key.
const PREFIX: &str = "tlk_";

/// Longest name of a key, in characters.
const MAX_NAME: usize = 128;

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

/// What may be told of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo<'a> {
    /// Its ID.
    pub id: &'a UnifiedId,
    /// Its owner.
    pub name: &'a str,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it does not count any more.
    pub revoked_at: Option<Timestamp>,
}

impl Entry {
    fn info(&self) -> KeyInfo<'_> {
        KeyInfo {
            id: &self.id,
            name: &self.name,
            created_at: self.created_at,
            revoked_at: self.revoked_at,
        }
    }
}

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

    /// Reads the file at exactly this path, changes the keys, and writes it by a rename, for its owner only. Two processes that
    /// do so wait for one another. When the change fails, the file stays as it is.
    ///
    /// # Errors
    /// Those of the change; `storage.key-file`; `storage.io`.
    pub fn change<T>(path: &Path, change: impl FnOnce(&mut Self) -> Result<T, UnifiedError>) -> Result<(Self, T), UnifiedError> {
        // A file of its own, since the rename puts another one in place of the keys.
        let lock = private(&path.with_extension("lock"), OpenOptions::new().create(true).truncate(false))?;
        lock.lock().map_err(|error| unwritten(&error))?;
        let mut keys = Self::load(path)?;
        let changed = change(&mut keys)?;
        let temporary = path.with_extension("new");
        // What an earlier crash left may have other rights.
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unwritten(&error)),
            _ => {}
        }
        let mut file = private(&temporary, OpenOptions::new().create_new(true))?;
        let text = keys.to_json()?;
        file.write_all(&text)
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&temporary, path))
            .map_err(|error| unwritten(&error))?;
        Ok((keys, changed))
    }

    /// Makes a key for an owner.
    ///
    /// # Errors
    /// `invalid-request.invalid-value` for a name that is none; when the system gives no randomness.
    pub fn create(&mut self, name: &str, now: Timestamp) -> Result<NewKey, UnifiedError> {
        if name.trim() != name || !(1..=MAX_NAME).contains(&name.chars().count()) || name.chars().any(char::is_control) {
            return Err(UnifiedError::new(
                ErrorCategory::InvalidRequest,
                "invalid-value",
                format!("the name of a client key is 1 to {MAX_NAME} characters, without control characters and spaces around it"),
            ));
        }
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

    /// Every key, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = KeyInfo<'_>> {
        self.0.iter().map(Entry::info)
    }

    /// Whether a key counts.
    pub fn is_active(&self, id: &UnifiedId) -> bool {
        self.0.iter().any(|entry| entry.id == *id && entry.revoked_at.is_none())
    }

    /// Whether there is a key that counts.
    pub fn any_active(&self) -> bool {
        self.0.iter().any(|entry| entry.revoked_at.is_none())
    }

    /// What is known of a key that counts. The time does not depend on which key it is or where it differs.
    pub fn find(&self, key: &str) -> Option<KeyInfo<'_>> {
        let mut found = None;
        for entry in self.0.iter().filter(|entry| entry.revoked_at.is_none()) {
            if bool::from(hash(&entry.salt, key).as_bytes().ct_eq(entry.hash.as_bytes())) {
                found = Some(entry.info());
            }
        }
        found
    }
}

/// A file for its owner only, opened for writing.
fn private(path: &Path, options: &mut OpenOptions) -> Result<File, UnifiedError> {
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.open(path).map_err(|error| unwritten(&error))
}

fn unwritten(error: &std::io::Error) -> UnifiedError {
    let message = format!("keys/clients.json cannot be written: {}", error.kind());
    UnifiedError::new(ErrorCategory::Storage, "io", message)
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
        let owners = |keys: &ClientKeys| [&*first.key, &*second.key, "tlk_x"].map(|key| keys.find(key).map(|info| info.name.to_owned()));
        let laptop = Some("laptop".to_owned());
        assert_eq!(owners(&keys), [laptop.clone(), laptop.clone(), None]);
        assert_eq!(keys.find(&second.key).unwrap().id, &second.id);
        assert!(keys.revoke(&first.id, Timestamp::EPOCH) && !keys.revoke(&first.id, Timestamp::EPOCH));
        assert_eq!(owners(&keys), [None, laptop, None]);
        assert_eq!((keys.is_active(&first.id), keys.is_active(&second.id)), (false, true));
        assert_eq!(ClientKeys::from_json(b"{}").unwrap_err().code, "storage.key-file");
    }

    #[test]
    fn names() {
        for (name, taken) in [
            ("laptop", true),
            ("Ana's phone", true),
            (&"x".repeat(MAX_NAME), true),
            (&"x".repeat(MAX_NAME + 1), false),
            ("", false),
            (" laptop", false),
            ("a\nb", false),
        ] {
            assert_eq!(ClientKeys::default().create(name, Timestamp::EPOCH).is_ok(), taken, "{name:?}");
        }
    }

    #[test]
    fn the_file_is_private_and_a_failed_change_leaves_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        let (keys, made) = ClientKeys::change(&path, |keys| keys.create("laptop", Timestamp::EPOCH)).unwrap();
        assert!(keys.is_active(&made.id));
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
        let before = std::fs::read(&path).unwrap();
        assert!(ClientKeys::change(&path, |keys| keys.create("", Timestamp::EPOCH).map(drop)).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::write(&path, "[{}]").unwrap();
        let refused = ClientKeys::change(&path, |keys| keys.create("phone", Timestamp::EPOCH))
            .err()
            .unwrap();
        assert_eq!(refused.code, "storage.key-file");
        assert_eq!(std::fs::read(&path).unwrap(), b"[{}]", "what cannot be read is not written over");
    }
}
