//! [`KeyRing`]: the versioned master keys of one installation, and the file that holds them.
//!
//! Nothing here looks for a file: the caller names the path. A key is never printed and is wiped when dropped.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use throughline_format::Timestamp;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{RandomSource, StoreError};

/// One 32-byte master key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct MasterKey([u8; 32]);

impl MasterKey {
    /// The bytes, for deriving keys of a purpose only.
    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[derive(Clone)]
struct Entry {
    created_at: Timestamp,
    key: MasterKey,
}

/// Master keys by version, one of them current. Old ones stay as long as something is sealed with them.
#[derive(Clone)]
pub struct KeyRing {
    current: u32,
    keys: BTreeMap<u32, Entry>,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing")
            .field("current", &self.current)
            .field("versions", &self.versions())
            .finish_non_exhaustive()
    }
}

/// The file, contract.md section 4. Base64 text of a key is wiped as well.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    current: u32,
    keys: Vec<FileKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileKey {
    version: u32,
    created_at: Timestamp,
    key: SecretText,
}

#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(transparent)]
struct SecretText(String);

impl KeyRing {
    /// A ring of one new key, version 1.
    pub fn generate(random: &dyn RandomSource, now: Timestamp) -> Result<Self, StoreError> {
        Ok(Self {
            current: 1,
            keys: BTreeMap::from([(
                1,
                Entry {
                    created_at: now,
                    key: new_key(random)?,
                },
            )]),
        })
    }

    /// The ring with one more key, which becomes the current one.
    pub fn with_next_key(&self, random: &dyn RandomSource, now: Timestamp) -> Result<Self, StoreError> {
        let newest = self.keys.keys().next_back().copied().unwrap_or(0);
        let version = newest.checked_add(1).ok_or_else(|| unusable("no version is left"))?;
        let mut keys = self.keys.clone();
        keys.insert(
            version,
            Entry {
                created_at: now,
                key: new_key(random)?,
            },
        );
        Ok(Self { current: version, keys })
    }

    /// Reads the JSON of a key ring file.
    pub fn from_json(bytes: &[u8]) -> Result<Self, StoreError> {
        // serde's messages may quote values, and values are keys here: only the place is told.
        let file: File = serde_json::from_slice(bytes).map_err(|error| {
            unusable(&format!(
                "not the JSON of a key ring, line {} column {}",
                error.line(),
                error.column()
            ))
        })?;
        let mut keys = BTreeMap::new();
        for entry in file.keys {
            let bytes = Zeroizing::new(
                STANDARD
                    .decode(entry.key.0.as_bytes())
                    .map_err(|_| unusable(&format!("key {} is no base64", entry.version)))?,
            );
            let key: [u8; 32] = bytes
                .as_slice()
                .try_into()
                .map_err(|_| unusable(&format!("key {} has not 32 bytes", entry.version)))?;
            if entry.version == 0 {
                return Err(unusable("versions start at 1"));
            }
            if keys
                .insert(
                    entry.version,
                    Entry {
                        created_at: entry.created_at,
                        key: MasterKey(key),
                    },
                )
                .is_some()
            {
                return Err(unusable(&format!("key {} stands twice", entry.version)));
            }
        }
        if !keys.contains_key(&file.current) {
            return Err(unusable(&format!("the current key {} is not in it", file.current)));
        }
        Ok(Self {
            current: file.current,
            keys,
        })
    }

    /// The JSON of a key ring file.
    pub fn to_json(&self) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        let keys = self
            .keys
            .iter()
            .map(|(version, entry)| FileKey {
                version: *version,
                created_at: entry.created_at,
                key: SecretText(STANDARD.encode(entry.key.bytes())),
            })
            .collect();
        // Written at once into a buffer that is large enough, so that no partial copy stays behind in freed memory.
        let mut text = Zeroizing::new(Vec::with_capacity(64 + 160 * self.keys.len()));
        serde_json::to_writer(
            &mut *text,
            &File {
                current: self.current,
                keys,
            },
        )
        .map_err(|_| unusable("it cannot be written"))?;
        Ok(text)
    }

    /// The version that seals.
    pub const fn current_version(&self) -> u32 {
        self.current
    }

    /// Every version, oldest first.
    pub fn versions(&self) -> Vec<u32> {
        self.keys.keys().copied().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &MasterKey)> {
        self.keys.iter().map(|(version, entry)| (*version, &entry.key))
    }
}

/// Reads the key ring at exactly this path.
pub fn load(path: &Path) -> Result<KeyRing, StoreError> {
    let bytes = Zeroizing::new(std::fs::read(path).map_err(|error| StoreError::io("reading the key ring", &error))?);
    KeyRing::from_json(&bytes)
}

/// Writes the key ring to exactly this path, mode 0600, by a rename, so that a crash leaves the old or the new one.
pub fn save(path: &Path, ring: &KeyRing) -> Result<(), StoreError> {
    let fail = |error: std::io::Error| StoreError::io("writing the key ring", &error);
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let text = ring.to_json()?;
    let temporary = path.with_extension("new");
    // A left-over of an earlier crash may have other rights: never write a key into a file that is there already.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary).map_err(fail)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(fail)?;
    drop(file);
    std::fs::rename(&temporary, path).map_err(fail)?;
    crate::artifacts::sync_directory(parent).map_err(fail)
}

/// Reads the key ring at this path, or makes a new one there when there is none.
pub fn load_or_create(path: &Path, random: &dyn RandomSource, now: Timestamp) -> Result<KeyRing, StoreError> {
    match std::fs::exists(path) {
        Ok(true) => load(path),
        Ok(false) => {
            let ring = KeyRing::generate(random, now)?;
            save(path, &ring)?;
            Ok(ring)
        }
        Err(error) => Err(StoreError::io("looking for the key ring", &error)),
    }
}

fn new_key(random: &dyn RandomSource) -> Result<MasterKey, StoreError> {
    let mut bytes = Zeroizing::new([0u8; 32]);
    random.fill(bytes.as_mut())?;
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(unusable("the random source gave only zeros"));
    }
    Ok(MasterKey(*bytes))
}

fn unusable(detail: &str) -> StoreError {
    StoreError::KeyRing { detail: detail.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::OsRandom;

    #[test]
    fn json_round_trip_and_rotation() {
        let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH)
            .unwrap()
            .with_next_key(&OsRandom, Timestamp::EPOCH)
            .unwrap();
        let json = ring.to_json().unwrap();
        let read = KeyRing::from_json(&json).unwrap();
        assert_eq!((read.current_version(), read.versions()), (2, vec![1, 2]));
        assert_eq!(read.to_json().unwrap(), json);
    }

    #[test]
    fn debug_and_errors_show_no_key() {
        let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap();
        let json = String::from_utf8(ring.to_json().unwrap().to_vec()).unwrap();
        let secret = json.split("\"key\":\"").nth(1).unwrap().split('"').next().unwrap();
        assert!(!format!("{ring:?}").contains(secret));
        for broken in [
            json.replace("\"current\"", "\"curent\""),
            json.replace('=', "!"),
            json.replace(&secret[..8], ""),
            json.replace("\"version\":1", "\"version\":7"),
        ] {
            let error = KeyRing::from_json(broken.as_bytes()).unwrap_err();
            assert_eq!(error.code(), "storage.key-ring");
            assert!(!format!("{error} {error:?}").contains(&secret[10..]), "{error}");
        }
    }

    #[test]
    fn file_is_made_once_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keyring.json");
        let first = load_or_create(&path, &OsRandom, Timestamp::EPOCH).unwrap();
        let second = load_or_create(&path, &OsRandom, Timestamp::EPOCH).unwrap();
        assert_eq!(first.to_json().unwrap(), second.to_json().unwrap());
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
    }
}
