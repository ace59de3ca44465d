//! [`MemoryStore`]: a store without durability, deliberately simple. It keeps the traits honest, and serves tests and demos.

mod read;
mod state;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use throughline_format::Sha256;

use crate::apply::{apply_batch, check_artifact_size, check_batch};
use crate::batch::{CommitReceipt, WriteBatch};
use crate::records::{CollectReport, CollectRequest, IntegrityReport, StoreEpoch, StoreHealth, StoreMeta, SweepReport, SweepRequest};
use crate::traits::{StateWriter, StoreAdmin, StoreFuture};
use crate::{StoreError, StoreLimits};
use state::State;
use tables::MemoryTables;

/// How a [`MemoryStore`] is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySettings {
    /// `conversationRetentionDays`.
    pub retention_days: u32,
    /// The epoch that its cursors carry.
    pub epoch: StoreEpoch,
    /// The bounds.
    pub limits: StoreLimits,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            retention_days: 7,
            epoch: StoreEpoch::default(),
            limits: StoreLimits::default(),
        }
    }
}

/// A store in memory. Clones share their content.
#[derive(Clone)]
pub struct MemoryStore {
    settings: Arc<MemorySettings>,
    state: Arc<Mutex<State>>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemorySettings::default())
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new(settings: MemorySettings) -> Self {
        Self {
            settings: Arc::new(settings),
            state: Arc::default(),
        }
    }

    /// The state. A panic of another thread cannot leave half a batch in it, since a batch is swapped in whole.
    fn lock(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed { Err(StoreError::Closed) } else { Ok(state) }
    }

    fn commit_now(&self, batch: &WriteBatch) -> Result<CommitReceipt, StoreError> {
        let checked = check_batch(batch, &self.settings.limits)?;
        let mut state = self.lock()?;
        let mut tables = MemoryTables::new(&state, &batch.conversation_id);
        let receipt = apply_batch(&mut tables, batch, &checked, &self.settings.limits)?;
        let changes = tables.into_changes();
        state.adopt(changes);
        Ok(receipt)
    }
}

impl StateWriter for MemoryStore {
    fn commit(&self, batch: WriteBatch) -> StoreFuture<'_, CommitReceipt> {
        Box::pin(async move { self.commit_now(&batch) })
    }

    fn put_content(&self, content: Bytes) -> StoreFuture<'_, Sha256> {
        Box::pin(async move {
            check_artifact_size(content.len() as u64, &self.settings.limits)?;
            let sha256 = Sha256::of(&content);
            Arc::make_mut(&mut self.lock()?.shared).contents.insert(sha256, content);
            Ok(sha256)
        })
    }

    fn sweep(&self, request: SweepRequest) -> StoreFuture<'_, SweepReport> {
        Box::pin(async move { Ok(self.lock()?.sweep(request)) })
    }

    fn collect(&self, request: CollectRequest) -> StoreFuture<'_, CollectReport> {
        Box::pin(async move { Ok(self.lock()?.collect(request)) })
    }
}

impl StoreAdmin for MemoryStore {
    fn meta(&self) -> StoreMeta {
        StoreMeta {
            epoch: self.settings.epoch,
            schema_version: 1,
            retention_days: self.settings.retention_days,
            clean_start: true,
        }
    }

    fn health(&self) -> StoreHealth {
        StoreHealth::Sound
    }

    fn check(&self) -> StoreFuture<'_, IntegrityReport> {
        Box::pin(async move { Ok(self.lock()?.check()) })
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
            Ok(())
        })
    }
}
