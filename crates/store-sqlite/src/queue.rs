//! The queue in front of the writer, bounded in entries and in bytes. A full queue makes callers wait.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use throughline_store::apply::CheckedBatch;
use throughline_store::{
    ArtifactHold, BackupReport, CollectReport, CollectRequest, CommitReceipt, StoreError, SweepReport, SweepRequest, WriteBatch,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::config::QueueLimits;
use crate::error::Result;

/// Where an answer goes. A caller that has gone away is no error.
pub(crate) type Ack<T> = oneshot::Sender<Result<T>>;

/// What the writer is asked to do.
pub(crate) enum Job {
    Batch(BatchJob),
    Sweep(SweepRequest, Ack<SweepReport>),
    Collect(CollectRequest, Ack<CollectReport>),
    Backup(PathBuf, Ack<BackupReport>),
    /// Does nothing but wait for its turn.
    Pass(Ack<()>),
    /// Ends the writer after everything before it; the threads are waited for first.
    Close(Vec<JoinHandle<()>>, Option<Ack<()>>),
    /// Lets a test change the writer's connection.
    #[cfg(test)]
    Run(Box<dyn FnOnce(&mut rusqlite::Connection) + Send>),
}

/// A batch that waits, with the room that it takes.
pub(crate) struct BatchJob {
    pub(crate) batch: WriteBatch,
    pub(crate) checked: CheckedBatch,
    ack: Ack<CommitReceipt>,
    room: Room,
    /// Keep the files that the batch refers to until it is stored, even when the caller has gone away.
    holds: Vec<ArtifactHold>,
}

/// Given back just before the batch is answered, so that a caller who has its answer finds the room free.
struct Room {
    _entry: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl BatchJob {
    /// Gives the room back, then answers. A caller that has gone away is no error: what was stored stays stored.
    pub(crate) fn answer(self, outcome: Result<CommitReceipt>) {
        drop(self.room);
        drop(self.holds);
        let _ = self.ack.send(outcome);
    }
}

/// Room of one kind.
struct Lane {
    entries: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    bytes_total: usize,
}

impl Lane {
    fn new(entries: usize, bytes: usize) -> Self {
        let bytes_total = bytes.clamp(1, u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Self {
            entries: Arc::new(Semaphore::new(entries.max(1))),
            bytes: Arc::new(Semaphore::new(bytes_total)),
            bytes_total,
        }
    }

    /// Waits for room. A batch that is larger than everything waits until it is alone.
    async fn room(&self, bytes: usize) -> Result<Room> {
        let bytes = u32::try_from(bytes.min(self.bytes_total)).unwrap_or(u32::MAX);
        let entry = take(&self.entries, 1).await?;
        let bytes = take(&self.bytes, bytes).await?;
        Ok(Room {
            _entry: entry,
            _bytes: bytes,
        })
    }

    fn close(&self) {
        self.entries.close();
        self.bytes.close();
    }
}

/// Takes permits, at once when there are some: only waiting counts against the budget of an async task.
async fn take(semaphore: &Arc<Semaphore>, permits: u32) -> Result<OwnedSemaphorePermit> {
    if let Ok(permit) = semaphore.clone().try_acquire_many_owned(permits) {
        return Ok(permit);
    }
    semaphore.clone().acquire_many_owned(permits).await.map_err(|_| StoreError::Closed)
}

pub(crate) struct Queue {
    sender: mpsc::Sender<Job>,
    normal: Lane,
    /// For batches that end or cancel an operation: they get through when producers have filled the rest.
    urgent: Lane,
    entries: usize,
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits) -> (Self, mpsc::Receiver<Job>) {
        let (sender, receiver) = mpsc::channel();
        let queue = Self {
            sender,
            normal: Lane::new(limits.entries, limits.bytes),
            urgent: Lane::new(limits.urgent_entries, limits.bytes),
            entries: limits.entries.max(1),
        };
        (queue, receiver)
    }

    /// Queues a batch, and gives the writer's answer.
    pub(crate) async fn commit(&self, batch: WriteBatch, checked: CheckedBatch, holds: Vec<ArtifactHold>) -> Result<CommitReceipt> {
        let lane = if batch.is_urgent() { &self.urgent } else { &self.normal };
        let room = lane.room(checked.cost.bytes).await?;
        let job = |ack| BatchJob {
            batch,
            checked,
            ack,
            room,
            holds,
        };
        self.ask(|ack| Job::Batch(job(ack))).await
    }

    /// Queues any other job, and gives the writer's answer.
    pub(crate) async fn ask<T>(&self, job: impl FnOnce(Ack<T>) -> Job) -> Result<T> {
        if self.is_closed() {
            return Err(StoreError::Closed);
        }
        let (ack, answer) = oneshot::channel();
        self.send(job(ack))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    pub(crate) fn send(&self, job: Job) -> Result<()> {
        self.sender.send(job).map_err(|_| StoreError::Closed)
    }

    /// Whether more than half of the room is taken: then cleanup waits.
    pub(crate) fn is_half_full(&self) -> bool {
        self.normal.entries.available_permits() * 2 < self.entries || self.normal.bytes.available_permits() * 2 < self.normal.bytes_total
    }

    /// Lets nobody in any more; who waits for room is told.
    pub(crate) fn close(&self) {
        self.normal.close();
        self.urgent.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.normal.entries.is_closed()
    }
}
