//! [`SqliteConfig`]: everything that a store is told.

use std::path::PathBuf;

use throughline_store::StoreLimits;

/// `conversationRetentionDays` when nobody says otherwise.
pub(crate) const DEFAULT_RETENTION_DAYS: u32 = 7;

/// How sure a commit is before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Synced to disk: nothing acknowledged is lost, not even by a power failure.
    #[default]
    Full,
    /// Written to the file: nothing acknowledged is lost when the process dies; a power failure may take the last commits.
    Normal,
}

/// How much may wait for the writer. When it is full, callers wait: back-pressure on their sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Batches that wait.
    pub entries: usize,
    /// Bytes of the batches that wait.
    pub bytes: usize,
    /// Further room for batches that end or cancel an operation, in entries. In bytes it is as much as `bytes`.
    pub urgent_entries: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            entries: 1_024,
            bytes: 16 * 1024 * 1024,
            urgent_entries: 64,
        }
    }
}

/// Where a store is and how it behaves. Nothing else is looked at: no environment, no home directory, no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteConfig {
    /// The database file. Its folder must exist; `-wal`, `-shm` and `-lock` files stand beside it.
    pub path: PathBuf,
    /// The directory of artifacts, made if need be.
    pub artifact_dir: PathBuf,
    /// How sure a commit is.
    pub durability: Durability,
    /// `conversationRetentionDays`.
    pub retention_days: u32,
    /// Bounds of records and batches.
    pub limits: StoreLimits,
    /// How many read-only connections.
    pub readers: usize,
    /// Bounds of the writer's queue.
    pub queue: QueueLimits,
    /// Up to this size the file is checked at every start; above it only after an unclean stop.
    pub quick_check_max_bytes: u64,
}

impl SqliteConfig {
    /// The defaults for these two paths.
    pub fn new(path: impl Into<PathBuf>, artifact_dir: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            artifact_dir: artifact_dir.into(),
            durability: Durability::Full,
            retention_days: DEFAULT_RETENTION_DAYS,
            limits: StoreLimits::default(),
            readers: 3,
            queue: QueueLimits::default(),
            quick_check_max_bytes: 64 * 1024 * 1024,
        }
    }
}
