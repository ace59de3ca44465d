//! [`ArtifactFiles`]: the content-addressed directory of artifacts.
//!
//! A file is named by its SHA-256, `aa/bb/<64 hex digits>`, and never changes. Putting one always writes and hashes the whole
//! content first, so that the time it takes does not tell whether somebody stored the same before. The calls block; an async
//! caller runs them on a blocking thread.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use throughline_format::Sha256;

use crate::error::Oversize;
use crate::{StoreError, StoreLimits};

/// Artifacts in a directory of their own. Metadata and references are rows of the store, see
/// [`WriteOp::PutArtifact`](crate::WriteOp::PutArtifact).
#[derive(Debug)]
pub struct ArtifactFiles {
    directory: PathBuf,
    max_bytes: u64,
    next_temporary: AtomicU64,
}

impl ArtifactFiles {
    /// Opens, and if need be makes, exactly this directory.
    pub fn open(directory: PathBuf, limits: &StoreLimits) -> Result<Self, StoreError> {
        let files = Self {
            directory,
            max_bytes: limits.artifact_bytes,
            next_temporary: AtomicU64::new(0),
        };
        make_directory(&files.directory)?;
        make_directory(&files.directory.join(TEMPORARY))?;
        Ok(files)
    }

    /// Stores the bytes durably and returns their digest. The same bytes again are a success.
    pub fn put(&self, bytes: &[u8]) -> Result<Sha256, StoreError> {
        self.check_size(bytes.len() as u64)?;
        let digest = Sha256::of(bytes);
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self
            .directory
            .join(TEMPORARY)
            .join(format!("{}-{number}-{}", std::process::id(), digest.to_hex()));
        let written = self.write_and_name(&temporary, &digest, bytes);
        if written.is_err() {
            // The error of the write is the one to tell; a left-over temporary file is removed at the next opportunity.
            let _ = fs::remove_file(&temporary);
        }
        written.map(|()| digest)
    }

    fn write_and_name(&self, temporary: &Path, digest: &Sha256, bytes: &[u8]) -> Result<(), StoreError> {
        let fail = |error: std::io::Error| StoreError::io("writing an artifact", &error);
        let mut file = create_private(temporary).map_err(fail)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        let (outer, inner, name) = self.place(digest);
        make_directory(&outer)?;
        make_directory(&inner)?;
        fs::rename(temporary, &name).map_err(fail)?;
        for directory in [&inner, &outer, &self.directory] {
            sync_directory(directory).map_err(fail)?;
        }
        Ok(())
    }

    /// The bytes of an artifact, checked against size and digest.
    ///
    /// Content that does not fit its digest is set aside as `<digest>.damaged`, not deleted, and is `storage.corrupt`.
    pub fn get(&self, digest: &Sha256, size: u64) -> Result<Vec<u8>, StoreError> {
        self.check_size(size)?;
        let (_, _, name) = self.place(digest);
        let mut file = match open_plain(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StoreError::Corrupt {
                    detail: format!("the file of artifact {digest} is missing"),
                });
            }
            Err(error) => return Err(StoreError::io("reading an artifact", &error)),
        };
        let mut bytes = Vec::new();
        // One byte more than announced is enough to see that the size is wrong.
        let read = std::io::Read::by_ref(&mut file)
            .take(size.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|error| StoreError::io("reading an artifact", &error))?;
        if bytes.len() as u64 == size && Sha256::of(&bytes) == *digest {
            return Ok(bytes);
        }
        let aside = name.with_extension("damaged");
        let moved = fs::rename(&name, &aside).map_or("could not be set aside", |()| "was set aside");
        Err(StoreError::Corrupt {
            detail: format!("the file of artifact {digest} has other content and {moved}"),
        })
    }

    /// Whether there is a file for this digest.
    pub fn contains(&self, digest: &Sha256) -> bool {
        fs::symlink_metadata(self.place(digest).2).is_ok_and(|metadata| metadata.is_file())
    }

    fn check_size(&self, size: u64) -> Result<(), StoreError> {
        if size > self.max_bytes {
            Err(StoreError::TooLarge {
                what: Oversize::Artifact,
                size,
                limit: self.max_bytes,
            })
        } else {
            Ok(())
        }
    }

    /// The two directories and the file of a digest. Names come from the digest only.
    fn place(&self, digest: &Sha256) -> (PathBuf, PathBuf, PathBuf) {
        let hex = digest.to_hex();
        let outer = self.directory.join(hex.get(..2).unwrap_or_default());
        let inner = outer.join(hex.get(2..4).unwrap_or_default());
        let file = inner.join(&hex);
        (outer, inner, file)
    }
}

/// Files on their way; in the same file system as the artifacts, so that a rename is enough.
const TEMPORARY: &str = "tmp";

fn make_directory(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .recursive(true)
        .create(path)
        .map_err(|error| StoreError::io("making the artifact directory", &error))
}

fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Opens a file for reading, never through a symbolic link.
fn open_plain(path: &Path) -> std::io::Result<File> {
    if fs::symlink_metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(std::io::Error::from(ErrorKind::InvalidInput))
    }
}

/// Makes renames in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn files(max_bytes: u64) -> (tempfile::TempDir, ArtifactFiles) {
        let directory = tempfile::tempdir().unwrap();
        let limits = StoreLimits {
            artifact_bytes: max_bytes,
            ..StoreLimits::default()
        };
        let files = ArtifactFiles::open(directory.path().join("artifacts"), &limits).unwrap();
        (directory, files)
    }

    #[test]
    fn put_twice_get_once() {
        let (_directory, files) = files(1024);
        let digest = files.put(b"picture").unwrap();
        assert_eq!(files.put(b"picture").unwrap(), digest);
        assert_eq!(digest, Sha256::of(b"picture"));
        assert_eq!(files.get(&digest, 7).unwrap(), b"picture");
        assert!(files.contains(&digest));
        assert_eq!(fs::read_dir(files.directory.join(TEMPORARY)).unwrap().count(), 0);
    }

    #[test]
    fn bounds_at_and_beyond() {
        let (_directory, files) = files(4);
        assert!(files.put(b"1234").is_ok());
        assert_eq!(files.put(b"12345").unwrap_err().code(), "too-large.artifact");
    }

    #[test]
    fn damaged_content_is_set_aside_and_can_be_put_again() {
        let (_directory, files) = files(1024);
        let digest = files.put(b"picture").unwrap();
        let name = files.place(&digest).2;
        fs::write(&name, b"pictura").unwrap();
        assert_eq!(files.get(&digest, 7).unwrap_err().code(), "storage.corrupt");
        assert!(name.with_extension("damaged").exists() && !files.contains(&digest));
        files.put(b"picture").unwrap();
        assert_eq!(files.get(&digest, 7).unwrap(), b"picture");
        assert_eq!(files.get(&digest, 6).unwrap_err().code(), "storage.corrupt");
    }

    #[cfg(unix)]
    #[test]
    fn private_modes_and_no_links() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_directory, files) = files(1024);
        let digest = files.put(b"picture").unwrap();
        let (outer, inner, name) = files.place(&digest);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&outer), mode(&inner), mode(&name)], [0o700, 0o700, 0o600]);
        let other = Sha256::of(b"elsewhere");
        let (_, inner, link) = files.place(&other);
        make_directory(&inner).unwrap();
        std::os::unix::fs::symlink(&name, &link).unwrap();
        assert!(!files.contains(&other));
        assert_eq!(files.get(&other, 7).unwrap_err().code(), "storage.io");
    }
}
