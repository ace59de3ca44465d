//! [`SqliteReader`]: a database for reading, beside the process that writes it or without one.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use throughline_store::{ArtifactFiles, BackupReport, IntegrityReport, StoreError, StoreFuture, StoreLimits, StoreMeta};

use crate::connection::{check_version, open_reader};
use crate::error::{Result, sql};
use crate::readers::ReadPool;
use crate::{backup, check, startup};

/// A database that is read and never written. It needs no key: everything but sealed payloads is readable without.
///
/// It takes no lock, so it works while another process writes. What it reads is a committed state of each call's moment.
#[derive(Clone)]
pub struct SqliteReader {
    inner: Arc<Inner>,
}

struct Inner {
    readers: ReadPool,
    artifacts: Arc<ArtifactFiles>,
    meta: StoreMeta,
}

impl std::fmt::Debug for SqliteReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteReader")
            .field("meta", &self.inner.meta)
            .finish_non_exhaustive()
    }
}

impl SqliteReader {
    /// Opens a database that exists. Makes neither it nor its artifact directory.
    ///
    /// `invalid-request.validation` when there is none, `storage.corrupt` when the file is no store of this program,
    /// `storage.schema-too-new` when a newer one wrote it.
    pub fn open(path: PathBuf, artifact_dir: PathBuf) -> Result<Self> {
        check_version()?;
        if !startup::is_database(&path)? {
            return Err(absent());
        }
        let connection = open_reader(&path)?;
        let meta = startup::describe(&connection)?.ok_or_else(absent)?;
        connection.close().map_err(|(_, error)| sql(error))?;
        let inner = Inner {
            readers: ReadPool::open(&path, 1)?,
            artifacts: Arc::new(ArtifactFiles::at(artifact_dir, &StoreLimits::default())),
            meta,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the store is. The retention is that of the process that opened it last for writing.
    pub fn meta(&self) -> &StoreMeta {
        &self.inner.meta
    }

    /// Checks the whole store, artifacts included.
    pub fn check(&self) -> StoreFuture<'_, IntegrityReport> {
        let files = self.artifacts();
        Box::pin(self.inner.readers.run(move |connection| check::run(connection, &files)))
    }

    /// Copies the database to a file that must not exist yet, in one read transaction: while it runs the log of a process that
    /// writes cannot be reset and grows.
    pub fn backup(&self, destination: PathBuf) -> StoreFuture<'_, BackupReport> {
        Box::pin(self.inner.readers.run(move |connection| backup::at_once(connection, &destination)))
    }

    /// The artifacts of the store.
    pub fn artifacts(&self) -> Arc<ArtifactFiles> {
        self.inner.artifacts.clone()
    }

    pub(crate) fn read<T: Send + 'static>(&self, read: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> StoreFuture<'_, T> {
        Box::pin(self.inner.readers.read(read))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for thread in self.readers.close() {
            // A reader that panicked has nothing left to close.
            let _ = thread.join();
        }
    }
}

fn absent() -> StoreError {
    StoreError::invalid("/path", "there is no store at this path; name a data directory or a database file")
}
