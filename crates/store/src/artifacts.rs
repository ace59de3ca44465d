//! [`ArtifactFiles`]: the content-addressed directory of artifacts.
//!
//! A file is named by its SHA-256, `aa/bb/<64 hex digits>`, and never changes. Putting one always writes and hashes the whole
//! content first, so that the time it takes does not tell whether somebody stored the same before. The calls block; an async
//! caller runs them on a blocking thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sha2::Digest as _;
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
    busy: Mutex<Busy>,
    /// Signalled when a removal has ended.
    removed: Condvar,
    /// Digests whose content was read and found right since the directory was opened.
    verified: Mutex<BTreeSet<Sha256>>,
}

/// What is being done with digests right now.
#[derive(Debug, Default)]
struct Busy {
    /// How many hold a digest: its file must stay.
    held: BTreeMap<Sha256, usize>,
    /// Digests whose metadata is going or gone, and whose file goes next.
    removing: BTreeSet<Sha256>,
    /// Temporary files that are being written.
    writing: BTreeSet<PathBuf>,
}

/// Keeps the file of a digest from being collected, from before it is written until its reference is committed.
#[derive(Debug)]
pub struct ArtifactHold {
    files: Arc<ArtifactFiles>,
    digest: Sha256,
}

impl Drop for ArtifactHold {
    fn drop(&mut self) {
        self.files.release(&self.digest);
    }
}

/// Digests that may be removed: nobody holds them, and whoever wants to write one waits until this is dropped.
#[derive(Debug)]
pub struct Removal<'a> {
    files: &'a ArtifactFiles,
    digests: Vec<Sha256>,
}

impl Removal<'_> {
    /// The digests, without those that somebody holds.
    pub fn digests(&self) -> &[Sha256] {
        &self.digests
    }

    /// Removes the file of one of them and gives its size; that there is none is a success.
    pub fn unlink(&self, digest: &Sha256) -> Result<u64, StoreError> {
        debug_assert!(self.digests.contains(digest), "only what was reserved is removed");
        let name = self.files.place(digest).2;
        let size = fs::symlink_metadata(&name).map_or(0, |metadata| metadata.len());
        lock(&self.files.verified).remove(digest);
        match fs::remove_file(&name) {
            Ok(()) => Ok(size),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(StoreError::io("removing an artifact", &error)),
        }
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        let mut busy = lock(&self.files.busy);
        for digest in &self.digests {
            busy.removing.remove(digest);
        }
        self.files.removed.notify_all();
    }
}

/// A file of the directory, found by looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// The digest that it is named by.
    pub digest: Sha256,
    /// When it was last written, in milliseconds since 1970.
    pub modified_millis: i64,
}

/// How many digests are remembered as verified before the memory begins anew: 4 MB of them.
const VERIFIED_MAX: usize = 100_000;
/// How much is read or written at once.
const CHUNK_BYTES: usize = 64 * 1024;

impl ArtifactFiles {
    /// Opens, and if need be makes, exactly this directory.
    pub fn open(directory: PathBuf, limits: &StoreLimits) -> Result<Self, StoreError> {
        make_directory(&directory)?;
        make_directory(&directory.join(TEMPORARY))?;
        Ok(Self::at(directory, limits))
    }

    /// The same for reading only: nothing is made, and a directory that is not there has no files.
    pub fn at(directory: PathBuf, limits: &StoreLimits) -> Self {
        Self {
            directory,
            max_bytes: limits.artifact_bytes,
            next_temporary: AtomicU64::new(0),
            busy: Mutex::default(),
            removed: Condvar::new(),
            verified: Mutex::default(),
        }
    }

    /// Stores the bytes durably and returns their digest. The same bytes again are a success.
    pub fn put(&self, bytes: &[u8]) -> Result<Sha256, StoreError> {
        self.check_size(bytes.len() as u64)?;
        self.put_reader(&mut &*bytes).map(|(digest, _)| digest)
    }

    /// Stores what a reader gives, piece by piece, and returns digest and size. At most the bound of an artifact is read.
    pub fn put_reader(&self, content: &mut dyn Read) -> Result<(Sha256, u64), StoreError> {
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.directory.join(TEMPORARY).join(format!("{}-{number}", std::process::id()));
        lock(&self.busy).writing.insert(temporary.clone());
        let written = self.write_and_name(&temporary, content);
        lock(&self.busy).writing.remove(&temporary);
        if written.is_err() {
            // The error of the write is the one to tell; a left-over temporary file is removed by a later scan.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn write_and_name(&self, temporary: &Path, content: &mut dyn Read) -> Result<(Sha256, u64), StoreError> {
        let fail = |error: std::io::Error| StoreError::io("writing an artifact", &error);
        // A process with the same number may have died before.
        match fs::remove_file(temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        let mut file = create_private(temporary).map_err(fail)?;
        let (mut hasher, mut size, mut chunk) = (sha2::Sha256::new(), 0u64, vec![0; CHUNK_BYTES]);
        loop {
            let read = match content.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(StoreError::io("reading the content of an artifact", &error)),
            };
            size += read as u64;
            self.check_size(size)?;
            let piece = chunk.get(..read).unwrap_or_default();
            hasher.update(piece);
            file.write_all(piece).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        let digest = Sha256::from_bytes(hasher.finalize().into());
        // A removal of the same digest that is under way ends first, and the file is there anew after it.
        self.hold_digest(&digest);
        let named = self.name(temporary, &digest);
        self.release(&digest);
        named.map(|()| (digest, size))
    }

    fn name(&self, temporary: &Path, digest: &Sha256) -> Result<(), StoreError> {
        let fail = |error: std::io::Error| StoreError::io("writing an artifact", &error);
        let (outer, inner, name) = self.place(digest);
        make_directory(&outer)?;
        make_directory(&inner)?;
        fs::rename(temporary, &name).map_err(fail)?;
        for directory in [&inner, &outer, &self.directory] {
            sync_directory(directory).map_err(fail)?;
        }
        Ok(())
    }

    /// Keeps the file of a digest, whether it is there yet or not, until the hold is dropped. Waits for a removal to end.
    pub fn hold(self: &Arc<Self>, digest: Sha256) -> ArtifactHold {
        self.hold_digest(&digest);
        ArtifactHold {
            files: self.clone(),
            digest,
        }
    }

    fn hold_digest(&self, digest: &Sha256) {
        let mut busy = lock(&self.busy);
        while busy.removing.contains(digest) {
            busy = self.removed.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        *busy.held.entry(*digest).or_default() += 1;
    }

    fn release(&self, digest: &Sha256) {
        let mut busy = lock(&self.busy);
        if let Some(count) = busy.held.get_mut(digest) {
            *count -= 1;
            if *count == 0 {
                busy.held.remove(digest);
            }
        }
    }

    /// Reserves digests for removal, without those that are held or reserved already. Metadata goes first, then
    /// [`Removal::unlink`].
    pub fn begin_removal(&self, digests: &[Sha256]) -> Removal<'_> {
        let mut busy = lock(&self.busy);
        let free: Vec<Sha256> = digests
            .iter()
            .filter(|digest| !busy.held.contains_key(*digest) && busy.removing.insert(**digest))
            .copied()
            .collect();
        Removal {
            files: self,
            digests: free,
        }
    }

    /// The bytes of an artifact, checked against size and digest.
    ///
    /// Content that does not fit its digest is set aside as `<digest>.damaged`, not deleted, and is `storage.corrupt`.
    pub fn get(&self, digest: &Sha256, size: u64) -> Result<Vec<u8>, StoreError> {
        let mut file = self.open_sized(digest, size)?;
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // One byte more than announced is enough to see that the size is wrong.
        let read = Read::by_ref(&mut file).take(size.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| StoreError::io("reading an artifact", &error))?;
        if bytes.len() as u64 == size && Sha256::of(&bytes) == *digest {
            self.remember(digest);
            return Ok(bytes);
        }
        Err(self.set_aside(digest))
    }

    /// The file of an artifact for reading piece by piece. Its size is checked always, its digest the first time.
    pub fn reader(&self, digest: &Sha256, size: u64) -> Result<File, StoreError> {
        if !lock(&self.verified).contains(digest) {
            self.verify(digest, size)?;
        }
        self.open_sized(digest, size)
    }

    /// Reads the whole file and compares size and digest; [`Self::get`] without keeping the bytes.
    pub fn verify(&self, digest: &Sha256, size: u64) -> Result<(), StoreError> {
        let file = self.open_sized(digest, size)?;
        if hash_file(file).map_err(|error| StoreError::io("reading an artifact", &error))? != *digest {
            return Err(self.set_aside(digest));
        }
        self.remember(digest);
        Ok(())
    }

    /// Whether the file is there with this size and digest. Changes nothing, whatever it finds.
    pub fn is_sound(&self, digest: &Sha256, size: u64) -> bool {
        open_plain(&self.place(digest).2).is_ok_and(|file| {
            let right_size = file.metadata().is_ok_and(|metadata| metadata.len() == size);
            right_size && hash_file(file).is_ok_and(|found| found == *digest)
        })
    }

    fn remember(&self, digest: &Sha256) {
        let mut verified = lock(&self.verified);
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert(*digest);
    }

    /// Opens a file that has the announced size.
    fn open_sized(&self, digest: &Sha256, size: u64) -> Result<File, StoreError> {
        self.check_size(size)?;
        let fail = |error: std::io::Error| StoreError::io("reading an artifact", &error);
        let mut file = match open_plain(&self.place(digest).2) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StoreError::Corrupt {
                    detail: format!("the file of artifact {digest} is missing"),
                });
            }
            Err(error) => return Err(fail(error)),
        };
        if file.metadata().map_err(fail)?.len() != size {
            return Err(self.set_aside(digest));
        }
        file.rewind().map_err(fail)?;
        Ok(file)
    }

    fn set_aside(&self, digest: &Sha256) -> StoreError {
        let name = self.place(digest).2;
        lock(&self.verified).remove(digest);
        let moved = fs::rename(&name, name.with_extension("damaged")).map_or("could not be set aside", |()| "was set aside");
        StoreError::Corrupt {
            detail: format!("the file of artifact {digest} has other content and {moved}"),
        }
    }

    /// Whether there is a file for this digest.
    pub fn contains(&self, digest: &Sha256) -> bool {
        fs::symlink_metadata(self.place(digest).2).is_ok_and(|metadata| metadata.is_file())
    }

    /// The files whose digest begins with this byte, for finding those that no row knows. Left-overs of writes that a dead
    /// process did not end, older than `before_millis`, are removed along the way.
    pub fn shard(&self, first_byte: u8, before_millis: i64) -> Result<Vec<FoundFile>, StoreError> {
        for (path, modified) in files_in(&self.directory.join(TEMPORARY))? {
            if modified < before_millis && !lock(&self.busy).writing.contains(&path) {
                // Somebody else may have been faster.
                let _ = fs::remove_file(path);
            }
        }
        let mut found = Vec::new();
        let outer = self.directory.join(format!("{first_byte:02x}"));
        for inner in directories_in(&outer)? {
            for (path, modified_millis) in files_in(&inner)? {
                let digest = path.file_name().and_then(|name| Sha256::from_hex(name.to_str()?));
                // Anything else, such as content that was set aside, is for people to look at.
                if let Some(digest) = digest.filter(|digest| self.place(digest).2 == path) {
                    found.push(FoundFile { digest, modified_millis });
                }
            }
        }
        Ok(found)
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

/// A panic of another thread leaves the sets as they are, which at worst keeps a file longer.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Entries of a directory; none when it is not there.
fn entries_in(path: &Path) -> Result<Vec<fs::DirEntry>, StoreError> {
    let fail = |error: std::io::Error| StoreError::io("looking through the artifacts", &error);
    match fs::read_dir(path) {
        Ok(entries) => entries.collect::<std::io::Result<_>>().map_err(fail),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(fail(error)),
    }
}

fn directories_in(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    Ok(entries_in(path)?
        .into_iter()
        .filter(is_directory)
        .map(|entry| entry.path())
        .collect())
}

/// Plain files with the time of their last change in milliseconds since 1970. One that goes away meanwhile is left out.
fn files_in(path: &Path) -> Result<Vec<(PathBuf, i64)>, StoreError> {
    let entries = entries_in(path)?.into_iter();
    let with_time = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let since = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some((entry.path(), i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
    });
    Ok(with_time.collect())
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

/// The digest of the rest of a file, read piece by piece.
fn hash_file(mut file: File) -> std::io::Result<Sha256> {
    let (mut hasher, mut chunk) = (sha2::Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(Sha256::from_bytes(hasher.finalize().into())),
            Ok(read) => hasher.update(chunk.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
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
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
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
    fn content_is_streamed_and_bounded() {
        let (_directory, files) = files(200_000);
        let long = vec![7u8; 200_000];
        let (digest, size) = files.put_reader(&mut long.as_slice()).unwrap();
        assert_eq!((digest, size), (Sha256::of(&long), 200_000));
        let mut read = Vec::new();
        files.reader(&digest, size).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, long);
        // A source without an end costs no more than the bound.
        let error = files.put_reader(&mut std::io::repeat(1)).unwrap_err();
        assert_eq!(error.code(), "too-large.artifact");
        assert_eq!(fs::read_dir(files.directory.join(TEMPORARY)).unwrap().count(), 0);
        // Streamed content is verified once before its first byte is given.
        let fresh = ArtifactFiles::at(files.directory.clone(), &StoreLimits::default());
        let name = files.place(&digest).2;
        let mut altered = long;
        altered[199_999] = 8;
        fs::write(&name, &altered).unwrap();
        assert_eq!(fresh.reader(&digest, size).unwrap_err().code(), "storage.corrupt");
        assert!(name.with_extension("damaged").exists());
    }

    #[test]
    fn a_write_waits_for_the_removal_of_the_same_digest() {
        let (_directory, files) = files(1024);
        let files = Arc::new(files);
        let digest = files.put(b"picture").unwrap();
        // Who holds it keeps it.
        let hold = files.hold(digest);
        assert!(files.begin_removal(&[digest]).digests().is_empty());
        drop(hold);
        let removal = files.begin_removal(&[digest, digest]);
        assert_eq!(removal.digests(), [digest]);
        let writer = std::thread::spawn({
            let files = files.clone();
            move || files.put(b"picture").unwrap()
        });
        // The writer has its temporary file, and the name only after the removal.
        while fs::read_dir(files.directory.join(TEMPORARY)).unwrap().count() == 0 && !writer.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(removal.unlink(&digest).unwrap(), 7);
        assert!(!files.contains(&digest));
        drop(removal);
        writer.join().unwrap();
        assert_eq!(files.get(&digest, 7).unwrap(), b"picture");
    }

    #[test]
    fn a_scan_finds_files_and_sweeps_leftovers() {
        let (_directory, files) = files(1024);
        let digest = files.put(b"picture").unwrap();
        let first = digest.as_bytes()[0];
        fs::write(files.directory.join(TEMPORARY).join("1-1"), b"half").unwrap();
        fs::write(files.place(&digest).2.with_extension("damaged"), b"x").unwrap();
        assert_eq!(files.shard(first.wrapping_add(1), 0).unwrap(), []);
        let found = files.shard(first, 0).unwrap();
        assert_eq!(found.iter().map(|file| file.digest).collect::<Vec<_>>(), [digest]);
        assert!(found[0].modified_millis > 1_700_000_000_000);
        assert_eq!(
            fs::read_dir(files.directory.join(TEMPORARY)).unwrap().count(),
            1,
            "it may still be written"
        );
        files.shard(first, i64::MAX).unwrap();
        assert_eq!(fs::read_dir(files.directory.join(TEMPORARY)).unwrap().count(), 0);
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
