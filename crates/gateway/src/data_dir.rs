//! [`Layout`]: where the files of a store lie (a data directory, or a database file with its neighbours). [`DataDir`]: the same,
//! held by one process at a time. [`open_vault`]: its key ring.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use throughline_format::{ErrorCategory, Timestamp, UnifiedError};
use throughline_store::{KeyRing, OsRandom, StoreError, Vault, keyring};

/// Name of the database in a data directory.
const DATABASE: &str = "throughline.db";

/// Where the files of a store lie. Nothing is made or held by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
    database: PathBuf,
    key_ring: PathBuf,
}

impl Layout {
    /// What a path means: a database file, there or named `….db`, or else a data directory.
    pub fn named(path: &Path) -> Self {
        let is_file = path.is_file() || (!path.is_dir() && path.extension().is_some_and(|end| end == "db"));
        if !is_file {
            return Self::folder(path);
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self {
            database: path.to_owned(),
            ..Self::folder(parent.unwrap_or_else(|| Path::new(".")))
        }
    }

    /// A data directory.
    pub fn folder(root: &Path) -> Self {
        Self {
            database: root.join(DATABASE),
            key_ring: root.join("keys").join("keyring.json"),
            root: root.to_owned(),
        }
    }

    /// The same with its key ring elsewhere, when a place is named.
    #[must_use]
    pub fn with_key_ring(self, path: Option<PathBuf>) -> Self {
        let key_ring = path.unwrap_or(self.key_ring);
        Self { key_ring, ..self }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database, `throughline.db` unless a file was named.
    pub fn database(&self) -> &Path {
        &self.database
    }

    /// `keys/keyring.json`, or where else it is.
    pub fn key_ring(&self) -> &Path {
        &self.key_ring
    }

    /// `artifacts`
    pub fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// `backups`
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    /// `diagnostics`; there only when it was switched on.
    pub fn diagnostics(&self) -> PathBuf {
        self.root.join("diagnostics")
    }

    /// `keys/clients.json`
    pub fn client_keys(&self) -> PathBuf {
        self.root.join("keys").join("clients.json")
    }

    /// The key ring, which must be there.
    ///
    /// # Errors
    /// `storage.key-ring` when it is missing or cannot be used. None is made: a new one would open nothing.
    pub fn load_key_ring(&self) -> Result<KeyRing, StoreError> {
        if !self.key_ring.is_file() {
            return Err(StoreError::KeyRing {
                detail: "its file is missing; put it back, or name it with THROUGHLINE_MASTER_KEY_FILE. Without it, move the database away to begin anew".into(),
            });
        }
        keyring::load(&self.key_ring)
    }
}

/// The vault over the key ring of a store. A new ring is made only where there is no database yet, because no other key opens
/// an old one.
///
/// # Errors
/// `storage.key-ring`, `storage.io`.
pub fn open_vault(layout: &Layout, now: Timestamp) -> Result<Vault, StoreError> {
    let ring = if layout.database.exists() {
        layout.load_key_ring()?
    } else {
        keyring::load_or_create(&layout.key_ring, &OsRandom, now)?
    };
    Vault::new(ring, Arc::new(OsRandom))
}

/// The store of a layout, held by this process. The system lets it go when the process ends, however it ends.
pub struct DataDir {
    layout: Layout,
    _lock: File,
    /// Removes the folder at the end, for a demo without one.
    _temporary: Option<tempfile::TempDir>,
}

impl DataDir {
    /// Makes what is missing of its folders, and locks it.
    ///
    /// # Errors
    /// `storage.locked` when another process holds it; `storage.io` when it cannot be made or written.
    pub fn open(layout: Layout) -> Result<Self, UnifiedError> {
        Self::hold(layout, None)
    }

    /// A folder of its own that goes away at the end.
    ///
    /// # Errors
    /// `storage.io`.
    pub fn temporary() -> Result<Self, UnifiedError> {
        let folder = tempfile::Builder::new()
            .prefix("throughline-demo-")
            .tempdir()
            .map_err(|error| failed("making a temporary folder", &error))?;
        Self::hold(Layout::folder(folder.path()), Some(folder))
    }

    fn hold(layout: Layout, temporary: Option<tempfile::TempDir>) -> Result<Self, UnifiedError> {
        make_folder(&layout.root)?;
        let lock = lock(&layout.root.join("lock"))?;
        make_folder(&layout.root.join("keys"))?;
        make_folder(&layout.artifacts())?;
        Ok(Self {
            layout,
            _lock: lock,
            _temporary: temporary,
        })
    }

    /// Where its files lie.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// Folders that are made here are for their owner only; one that is there already keeps its rights.
///
/// # Errors
/// `storage.io`.
pub fn make_folder(path: &Path) -> Result<(), UnifiedError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| failed("making the data directory", &error))
}

fn lock(path: &Path) -> Result<File, UnifiedError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| failed("opening the lock file", &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known =
                (&mut file).take(20).read_to_string(&mut pid).is_ok() && !pid.is_empty() && pid.trim().bytes().all(|b| b.is_ascii_digit());
            let who = if known {
                format!(" (process {})", pid.trim())
            } else {
                String::new()
            };
            return Err(UnifiedError::new(
                ErrorCategory::Storage,
                "locked",
                format!("another process{who} holds this data directory; stop it first"),
            ));
        }
        Err(TryLockError::Error(error)) => return Err(failed("locking the data directory", &error)),
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(|error| failed("writing the lock file", &error))?;
    Ok(file)
}

fn failed(action: &str, error: &std::io::Error) -> UnifiedError {
    UnifiedError::new(ErrorCategory::Storage, "io", format!("{action} failed: {}", error.kind()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_process_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a").join("b");
        let held = DataDir::open(Layout::folder(&root)).unwrap();
        #[cfg(unix)]
        for (path, mode) in [(root.clone(), 0o700), (root.join("keys"), 0o700), (root.join("lock"), 0o600)] {
            let found = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
            assert_eq!(found & 0o777, mode);
        }
        assert_eq!(
            std::fs::read_to_string(root.join("lock")).unwrap().trim(),
            std::process::id().to_string()
        );
        let second = DataDir::open(Layout::folder(&root)).err().unwrap();
        assert_eq!(second.code, "storage.locked");
        assert!(second.message.contains(&std::process::id().to_string()));
        drop(held);
        assert!(DataDir::open(Layout::folder(&root)).is_ok());
    }

    #[test]
    fn a_temporary_one_goes_away() {
        let held = DataDir::temporary().unwrap();
        let root = held.layout().root().to_path_buf();
        assert!(root.is_dir());
        drop(held);
        assert!(!root.exists());
    }

    #[test]
    fn a_path_is_a_folder_or_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("looks-like.db")).unwrap();
        std::fs::write(root.join("store"), "").unwrap();
        for (named, expected_root, database) in [
            (root.to_owned(), root.to_owned(), root.join(DATABASE)),
            (root.join("new"), root.join("new"), root.join("new").join(DATABASE)),
            (root.join("new.db"), root.to_owned(), root.join("new.db")),
            (root.join("store"), root.to_owned(), root.join("store")),
            (
                root.join("looks-like.db"),
                root.join("looks-like.db"),
                root.join("looks-like.db").join(DATABASE),
            ),
            (PathBuf::from("mine.db"), PathBuf::from("."), PathBuf::from("mine.db")),
        ] {
            let layout = Layout::named(&named);
            assert_eq!(
                (layout.root(), layout.database()),
                (expected_root.as_path(), database.as_path()),
                "{named:?}"
            );
            assert_eq!(layout.key_ring(), expected_root.join("keys/keyring.json"), "{named:?}");
        }
        let elsewhere = Layout::folder(root).with_key_ring(Some(root.join("ring")));
        assert_eq!(elsewhere.key_ring(), root.join("ring"));
        assert_eq!(elsewhere.clone().with_key_ring(None), elsewhere);
    }

    #[test]
    fn a_key_ring_is_made_only_for_a_new_store() {
        let folder = tempfile::tempdir().unwrap();
        let held = DataDir::open(Layout::folder(folder.path())).unwrap();
        let layout = held.layout();
        assert_eq!(layout.load_key_ring().unwrap_err().code(), "storage.key-ring");
        assert!(open_vault(layout, Timestamp::EPOCH).is_ok());
        std::fs::write(layout.database(), "").unwrap();
        assert!(open_vault(layout, Timestamp::EPOCH).is_ok());
        std::fs::remove_file(layout.key_ring()).unwrap();
        assert_eq!(open_vault(layout, Timestamp::EPOCH).err().unwrap().code(), "storage.key-ring");
        assert!(!layout.key_ring().exists());
    }
}
