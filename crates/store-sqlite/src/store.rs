//! [`SqliteStore`]: the handle that callers share.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use rusqlite::Connection;
use throughline_format::{Sha256, Timestamp, UnifiedId};
use throughline_store::apply::check_batch;
use throughline_store::inline;
use throughline_store::{
    ArtifactFiles, ArtifactHold, BackupHook, BackupReport, CollectReport, CollectRequest, CommitReceipt, IntegrityReport, RandomSource,
    StateWriter, StoreAdmin, StoreError, StoreFuture, StoreHealth, StoreLimits, StoreMeta, SweepReport, SweepRequest, Vault, WriteBatch,
    WriteOp,
};

use crate::background::{Damage, FileThread, LaterCheck};
use crate::checkpointer::{self, WalGauge};
use crate::config::SqliteConfig;
use crate::error::Result;
use crate::queue::{Job, Queue};
use crate::readers::ReadPool;
use crate::rows::{conversations, resources};
use crate::writer::Writer;
use crate::{check, collect, startup};

/// A store in one SQLite file. Clones share it; the last one that is dropped closes it.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Queue,
    readers: ReadPool,
    meta: StoreMeta,
    limits: StoreLimits,
    artifacts: Arc<ArtifactFiles>,
    files: FileThread,
    /// A large file is checked beside the work.
    later_check: LaterCheck,
    damage: Damage,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Nobody else may open the file as long as this is held.
    lock: Mutex<Option<File>>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("meta", &self.inner.meta)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens a database, or makes a new one, and starts its threads. Blocks while it checks the file.
    ///
    /// Fails without having changed anything when another store has the file open (`storage.locked`), when the file is damaged
    /// or somebody else's (`storage.corrupt`), written by a newer program (`storage.schema-too-new`), or sealed with keys that
    /// the vault does not hold (`storage.wrong-key`).
    pub fn open(config: SqliteConfig, vault: &Vault, random: &dyn RandomSource, now: Timestamp) -> Result<Self> {
        let artifacts = Arc::new(ArtifactFiles::open(config.artifact_dir.clone(), &config.limits)?);
        let opened = startup::open(&config, vault, random, now)?;
        let readers = ReadPool::open(&config.path, config.readers)?;
        let damage = Damage::default();
        let later_check = if opened.check_later {
            LaterCheck::start(&config.path, damage.clone())?
        } else {
            LaterCheck::done()
        };
        let (queue, receiver) = Queue::new(config.queue);
        let (gauge, wake) = WalGauge::new();
        let checkpointer = {
            let (path, gauge) = (config.path.clone(), gauge.clone());
            spawn("store-checkpointer", move || checkpointer::run(path, gauge, wake))?
        };
        let writer = Writer::new(
            config.path.clone(),
            config.durability,
            config.limits.clone(),
            receiver,
            gauge,
            opened.connection,
            checkpointer,
            damage.clone(),
            artifacts.clone(),
        )?;
        let writer = spawn("store-writer", move || writer.run())?;
        let meta = StoreMeta {
            epoch: opened.epoch,
            schema_version: opened.schema_version,
            retention_days: config.retention_days,
            clean_start: opened.clean_start,
        };
        let inner = Inner {
            queue,
            readers,
            meta,
            limits: config.limits,
            artifacts,
            files: FileThread::start()?,
            later_check,
            damage,
            writer: Mutex::new(Some(writer)),
            lock: Mutex::new(Some(opened.lock)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The artifact directory of this store.
    pub fn artifacts(&self) -> Arc<ArtifactFiles> {
        self.inner.artifacts.clone()
    }

    /// Moves long inline data of a batch into files, durable before the batch is queued.
    async fn externalise(&self, mut batch: WriteBatch) -> Result<(WriteBatch, Vec<ArtifactHold>)> {
        let reserved = inline::reserved(&batch);
        let needs_split = inline::needs_split(&batch, &self.inner.limits);
        if reserved.is_empty() && !needs_split {
            return Ok((batch, Vec::new()));
        }
        let principal_ref = self.principal_of(&batch).await?;
        if !reserved.is_empty() {
            let principal_ref = principal_ref.clone();
            self.read(move |connection| check_reserved(connection, &principal_ref, &reserved))
                .await?;
        }
        if !needs_split {
            return Ok((batch, Vec::new()));
        }
        let (files, limits) = (self.inner.artifacts.clone(), self.inner.limits.clone());
        let work = move || {
            let contents = inline::split(&mut batch, &principal_ref, &limits)?;
            let mut holds = Vec::with_capacity(contents.len());
            for content in contents {
                // Held before it is written and until the batch is stored, so that a collection cannot come in between.
                holds.push(files.hold(content.sha256));
                files.put(&content.bytes)?;
            }
            Ok((batch, holds))
        };
        self.inner.files.run(work).await
    }

    /// The principal of the batch's conversation, which the batch itself may create.
    async fn principal_of(&self, batch: &WriteBatch) -> Result<String> {
        for op in &batch.ops {
            if let WriteOp::CreateConversation(conversation) = op {
                return Ok(conversation.principal_ref.clone());
            }
        }
        let conversation_id = batch.conversation_id.clone();
        let found = self.read(move |connection| {
            conversations::live(connection, &conversation_id)?.ok_or_else(|| StoreError::not_found("conversation", &conversation_id))
        });
        Ok(found.await?.principal_ref)
    }

    /// Runs a read on one of the readers.
    pub(crate) fn read<T: Send + 'static>(&self, read: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> StoreFuture<'_, T> {
        Box::pin(self.inner.readers.read(read))
    }

    #[cfg(test)]
    pub(crate) fn on_writer(&self, run: impl FnOnce(&mut Connection) + Send + 'static) {
        self.inner
            .queue
            .send(Job::Run(Box::new(run)))
            .unwrap_or_else(|error| unreachable!("{error}"));
    }
}

/// An item may name externalised data of its own principal only: otherwise knowing a digest would be enough to read the bytes.
fn check_reserved(connection: &Connection, principal_ref: &str, reserved: &[UnifiedId]) -> Result<()> {
    for artifact_id in reserved {
        let stored = resources::find_artifact(connection, artifact_id)?;
        if stored.is_none_or(|stored| stored.principal_ref != principal_ref) {
            return Err(StoreError::not_found("artifact", artifact_id));
        }
    }
    Ok(())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| StoreError::io("starting a thread", &error))
}

impl StateWriter for SqliteStore {
    fn commit(&self, batch: WriteBatch) -> StoreFuture<'_, CommitReceipt> {
        Box::pin(async move {
            if self.inner.queue.is_closed() {
                return Err(StoreError::Closed);
            }
            let (batch, holds) = self.externalise(batch).await?;
            // Before it is queued, so that a bad batch costs nobody else anything.
            let checked = check_batch(&batch, &self.inner.limits)?;
            self.inner.queue.commit(batch, checked, holds).await
        })
    }

    fn put_content(&self, content: Bytes) -> StoreFuture<'_, Sha256> {
        let files = self.inner.artifacts.clone();
        Box::pin(self.inner.files.run(move || files.put(&content)))
    }

    fn collect(&self, request: CollectRequest) -> StoreFuture<'_, CollectReport> {
        Box::pin(async move {
            if self.inner.queue.is_half_full() && !self.inner.queue.is_closed() {
                self.inner.queue.ask(Job::Pass).await?;
                return Ok(CollectReport {
                    more: true,
                    ..CollectReport::default()
                });
            }
            let mut report = self.inner.queue.ask(|ack| Job::Collect(request, ack)).await?;
            for shard in collect::shards(request) {
                let files = self.inner.artifacts.clone();
                let found = self
                    .inner
                    .readers
                    .run(move |connection| collect::orphans(connection, &files, shard, request))
                    .await?;
                report.artifacts += found.artifacts;
                report.bytes += found.bytes;
            }
            Ok(report)
        })
    }

    fn sweep(&self, request: SweepRequest) -> StoreFuture<'_, SweepReport> {
        Box::pin(async move {
            if self.inner.queue.is_half_full() && !self.inner.queue.is_closed() {
                // Appends come first: those that wait now are written before the caller asks again.
                self.inner.queue.ask(Job::Pass).await?;
                return Ok(SweepReport {
                    more: true,
                    ..SweepReport::default()
                });
            }
            self.inner.queue.ask(|ack| Job::Sweep(request, ack)).await
        })
    }
}

impl StoreAdmin for SqliteStore {
    fn meta(&self) -> StoreMeta {
        self.inner.meta.clone()
    }

    fn health(&self) -> StoreHealth {
        match self.inner.damage.get() {
            // What the work came upon counts as well.
            Some(_) => StoreHealth::Damaged,
            None => self.inner.later_check.state(),
        }
    }

    fn check(&self) -> StoreFuture<'_, IntegrityReport> {
        let files = self.inner.artifacts.clone();
        Box::pin(self.inner.readers.run(move |connection| check::run(connection, &files)))
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (ack, answer) = tokio::sync::oneshot::channel();
            if !self.inner.begin_closing(Some(ack)) {
                return Ok(());
            }
            // Without an answer the writer has gone already, and everything that was acknowledged is stored.
            let closed = answer.await.unwrap_or(Ok(()));
            self.inner.finish_closing();
            closed
        })
    }
}

impl BackupHook for SqliteStore {
    fn backup(&self, destination: PathBuf) -> StoreFuture<'_, BackupReport> {
        Box::pin(self.inner.queue.ask(|ack| Job::Backup(destination, ack)))
    }
}

impl Inner {
    /// Tells every thread to end after what is queued. Whether this was the first call.
    fn begin_closing(&self, ack: Option<crate::queue::Ack<()>>) -> bool {
        self.queue.close();
        self.later_check.stop();
        self.files.stop();
        let threads = self.readers.close();
        if threads.is_empty() {
            return false;
        }
        self.queue.send(Job::Close(threads, ack)).is_ok()
    }

    /// Waits for the writer and lets the file go.
    fn finish_closing(&self) {
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A writer that panicked has let its connection go as well.
            let _ = writer.join();
        }
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.begin_closing(None);
        self.finish_closing();
    }
}
