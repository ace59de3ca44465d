//! [`DataDir`]: the folder of one gateway (contract.md, section 4), held by one process at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use throughline_format::{ErrorCategory, UnifiedError};

/// A data directory that this process holds. The system lets it go when the process ends, however it ends.
pub struct DataDir {
    root: PathBuf,
    _lock: File,
    /// Removes the folder at the end, for a demo without one.
    _temporary: Option<tempfile::TempDir>,
}

impl DataDir {
    /// Opens the folder, made if need be, and locks it.
    ///
    /// # Errors
    /// `storage.locked` when another process serves it; `storage.io` when it cannot be made or written.
    pub fn open(root: &Path) -> Result<Self, UnifiedError> {
        Self::hold(root.to_path_buf(), None)
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
        Self::hold(folder.path().to_path_buf(), Some(folder))
    }

    fn hold(root: PathBuf, temporary: Option<tempfile::TempDir>) -> Result<Self, UnifiedError> {
        make_folder(&root)?;
        let lock = lock(&root.join("lock"))?;
        make_folder(&root.join("keys"))?;
        make_folder(&root.join("artifacts"))?;
        Ok(Self {
            root,
            _lock: lock,
            _temporary: temporary,
        })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `throughline.db`
    pub fn database(&self) -> PathBuf {
        self.root.join("throughline.db")
    }

    /// `artifacts`
    pub fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// `diagnostics`; there only when it was switched on.
    pub fn diagnostics(&self) -> PathBuf {
        self.root.join("diagnostics")
    }

    /// `keys/keyring.json`
    pub fn key_ring(&self) -> PathBuf {
        self.root.join("keys").join("keyring.json")
    }

    /// `keys/clients.json`
    pub fn client_keys(&self) -> PathBuf {
        self.root.join("keys").join("clients.json")
    }
}

/// Folders that are made here are for their owner only; one that is there already keeps its rights.
fn make_folder(path: &Path) -> Result<(), UnifiedError> {
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
                format!("another process{who} serves this data directory; stop it first"),
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
        let held = DataDir::open(&root).unwrap();
        #[cfg(unix)]
        for (path, mode) in [(root.clone(), 0o700), (root.join("keys"), 0o700), (root.join("lock"), 0o600)] {
            let found = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
            assert_eq!(found & 0o777, mode);
        }
        assert_eq!(
            std::fs::read_to_string(root.join("lock")).unwrap().trim(),
            std::process::id().to_string()
        );
        let second = DataDir::open(&root).err().unwrap();
        assert_eq!(second.code, "storage.locked");
        assert!(second.message.contains(&std::process::id().to_string()));
        drop(held);
        assert!(DataDir::open(&root).is_ok());
    }

    #[test]
    fn a_temporary_one_goes_away() {
        let held = DataDir::temporary().unwrap();
        let root = held.root().to_path_buf();
        assert!(root.is_dir());
        drop(held);
        assert!(!root.exists());
    }
}
