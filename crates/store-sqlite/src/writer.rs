//! The writer thread: group commit.
//!
//! It takes one batch, then whatever waits already, up to a bound, and writes all of them in one transaction, each in a savepoint.
//! The flush in progress is the window in which the next group gathers. A batch that breaks a rule fails alone; a failing COMMIT
//! fails the whole group. Acknowledgements go out after COMMIT has returned, never before.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use rusqlite::Connection;
use throughline_store::apply::apply_batch;
use throughline_store::{ArtifactFiles, CommitReceipt, StoreError, StoreLimits};

use crate::background::Damage;
use crate::checkpointer::{self, WalGauge};
use crate::config::Durability;
use crate::connection::open_writer;
use crate::error::{MALFORMED, Result, is_fatal, sql};
use crate::queue::{Ack, BatchJob, Job};
use crate::tables::SqliteTables;
use crate::{backup, collect, startup, sweep};

/// A group is complete when it has reached one of these.
const GROUP_CALLS: usize = 256;
const GROUP_EVENTS: usize = 512;
const GROUP_BYTES: usize = 1024 * 1024;

pub(crate) struct Writer {
    path: PathBuf,
    durability: Durability,
    limits: StoreLimits,
    receiver: Receiver<Job>,
    gauge: Arc<WalGauge>,
    /// Absent after a failure of the file system, until it has been opened anew.
    connection: Option<Connection>,
    /// A damaged file is not written to any more.
    damage: Damage,
    artifacts: Arc<ArtifactFiles>,
    /// A job that was taken from the queue and did not belong into the group.
    carried: Option<Job>,
    checkpointer: Vec<JoinHandle<()>>,
}

impl Writer {
    #[allow(clippy::too_many_arguments)] // once, at the start
    pub(crate) fn new(
        path: PathBuf,
        durability: Durability,
        limits: StoreLimits,
        receiver: Receiver<Job>,
        gauge: Arc<WalGauge>,
        mut connection: Connection,
        checkpointer: JoinHandle<()>,
        damage: Damage,
        artifacts: Arc<ArtifactFiles>,
    ) -> Result<Self> {
        checkpointer::watch(&mut connection, &gauge)?;
        Ok(Self {
            path,
            durability,
            limits,
            receiver,
            gauge,
            connection: Some(connection),
            damage,
            artifacts,
            carried: None,
            checkpointer: vec![checkpointer],
        })
    }

    /// Works until it is closed, or until the store has been dropped.
    pub(crate) fn run(mut self) {
        loop {
            let job = self.carried.take().map_or_else(|| self.receiver.recv(), Ok);
            match job {
                Ok(Job::Batch(first)) => {
                    let group = self.gather(first);
                    self.commit(group);
                }
                Ok(Job::Sweep(request, ack)) => {
                    let report = self.with_connection(|connection| sweep::step(connection, request));
                    answer(ack, report);
                }
                Ok(Job::Collect(request, ack)) => {
                    let files = self.artifacts.clone();
                    let report = self.with_connection(|connection| collect::step(connection, &files, request));
                    answer(ack, report);
                }
                Ok(Job::Backup(destination, ack)) => {
                    let report = self.backup(destination);
                    answer(ack, report);
                }
                Ok(Job::Pass(ack)) => answer(ack, Ok(())),
                Ok(Job::Close(threads, ack)) => {
                    let closed = self.close(threads);
                    if let Some(ack) = ack {
                        answer(ack, closed);
                    }
                    return;
                }
                #[cfg(test)]
                Ok(Job::Run(run)) => {
                    if let Some(connection) = &mut self.connection {
                        run(connection);
                    }
                }
                Err(_) => {
                    // Nobody can ask for anything any more, so nobody can be told of an error either.
                    let _ = self.close(Vec::new());
                    return;
                }
            }
            self.limit_wal();
        }
    }

    /// Adds what waits already to a group. It never waits for more: a linger lowers throughput.
    fn gather(&mut self, first: BatchJob) -> Vec<BatchJob> {
        let (mut events, mut bytes) = (first.checked.cost.events, first.checked.cost.bytes);
        let mut group = vec![first];
        while group.len() < GROUP_CALLS && events < GROUP_EVENTS && bytes < GROUP_BYTES {
            match self.receiver.try_recv() {
                Ok(Job::Batch(next)) => {
                    events += next.checked.cost.events;
                    bytes += next.checked.cost.bytes;
                    group.push(next);
                }
                Ok(other) => {
                    self.carried = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        group
    }

    fn commit(&mut self, group: Vec<BatchJob>) {
        let limits = self.limits.clone();
        let outcome = self.with_connection(|connection| write_group(connection, &group, &limits));
        answer_group(group, outcome);
    }

    /// Runs with the connection, opening it anew if it was lost; notes when it cannot be trusted any more.
    fn with_connection<T>(&mut self, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if let Some(error) = self.damage.get() {
            return Err(error);
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reopen()?,
        };
        let outcome = run(&connection);
        match &outcome {
            Err(error @ StoreError::Corrupt { detail }) if detail == MALFORMED => self.damage.set(error.clone()),
            Err(error) if is_fatal(error) => {}
            _ => self.connection = Some(connection),
        }
        outcome
    }

    /// A failed sync is never retried on the same connection as if it had worked: the file is opened anew, and recovery decides.
    fn reopen(&self) -> Result<Connection> {
        let mut connection = open_writer(&self.path, self.durability)?;
        checkpointer::watch(&mut connection, &self.gauge)?;
        Ok(connection)
    }

    /// Copies the database while batches go on: a few pages, then the batches that wait, and so on. Changes made by the copying
    /// connection itself do not make the copy begin anew.
    fn backup(&mut self, destination: PathBuf) -> Result<throughline_store::BackupReport> {
        if let Some(error) = self.damage.get() {
            return Err(error);
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reopen()?,
        };
        let mut lost = None;
        let report = backup::run(&connection, &destination, || {
            let Some(Job::Batch(first)) = self.take_batch() else {
                return Ok(());
            };
            let group = self.gather(first);
            let outcome = write_group(&connection, &group, &self.limits);
            let error = outcome.as_ref().err().cloned();
            answer_group(group, outcome);
            match error {
                Some(error) if is_fatal(&error) => {
                    lost = Some(error.clone());
                    Err(error)
                }
                _ => Ok(()),
            }
        });
        match lost {
            Some(error @ StoreError::Corrupt { .. }) => self.damage.set(error),
            Some(_) => {}
            None => self.connection = Some(connection),
        }
        report
    }

    /// A batch that waits, if the next job is one.
    fn take_batch(&mut self) -> Option<Job> {
        if self.carried.is_some() {
            return None;
        }
        match self.receiver.try_recv() {
            Ok(job @ Job::Batch(_)) => Some(job),
            Ok(other) => {
                self.carried = Some(other);
                None
            }
            Err(_) => None,
        }
    }

    /// Under unbroken writing the checkpointer cannot reset the WAL; between two groups the writer can.
    fn limit_wal(&self) {
        if let Some(connection) = &self.connection {
            self.gauge.restart_if_long(connection);
        }
    }

    /// Writes what still waits, and closes the file so that the next start finds it clean.
    fn close(&mut self, threads: Vec<JoinHandle<()>>) -> Result<()> {
        while let Ok(job) = self.receiver.try_recv() {
            if let Job::Batch(first) = job {
                let group = self.gather(first);
                self.commit(group);
            }
            // Anything else that came after the closing is dropped, and so answered with `Closed`.
            self.carried = None;
        }
        for thread in threads {
            // A reader that panicked has nothing left to close.
            let _ = thread.join();
        }
        self.gauge.stop();
        for thread in std::mem::take(&mut self.checkpointer) {
            let _ = thread.join();
        }
        self.with_connection(startup::mark_clean)?;
        if let Some(connection) = self.connection.take() {
            connection.close().map_err(|(_, error)| sql(error))?;
        }
        Ok(())
    }
}

/// Writes a group in one transaction. The outer error is that of all, an inner one that of a single batch.
fn write_group(connection: &Connection, group: &[BatchJob], limits: &StoreLimits) -> Result<Vec<Result<CommitReceipt>>> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
    let mut outcomes = Vec::with_capacity(group.len());
    for job in group {
        match write_batch(connection, job, limits) {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                // SQLite may have rolled back by itself; either way nothing of the group stays.
                let _ = connection.execute_batch("ROLLBACK");
                return Err(error);
            }
        }
    }
    if let Err(error) = connection.execute_batch("COMMIT") {
        let _ = connection.execute_batch("ROLLBACK");
        return Err(sql(error));
    }
    Ok(outcomes)
}

/// Writes one batch in a savepoint. The outer error ends the group.
fn write_batch(connection: &Connection, job: &BatchJob, limits: &StoreLimits) -> Result<Result<CommitReceipt>> {
    run_cached(connection, "SAVEPOINT batch")?;
    let mut tables = SqliteTables::new(connection, &job.batch.conversation_id);
    let outcome = apply_batch(&mut tables, &job.batch, &job.checked, limits);
    match outcome {
        Ok(receipt) => {
            run_cached(connection, "RELEASE batch")?;
            Ok(Ok(receipt))
        }
        Err(error) if is_fatal(&error) || connection.is_autocommit() => Err(error),
        Err(error) => {
            run_cached(connection, "ROLLBACK TO batch")?;
            run_cached(connection, "RELEASE batch")?;
            Ok(Err(error))
        }
    }
}

fn run_cached(connection: &Connection, text: &str) -> Result<()> {
    connection.prepare_cached(text).map_err(sql)?.execute([]).map(drop).map_err(sql)
}

fn answer_group(group: Vec<BatchJob>, outcome: Result<Vec<Result<CommitReceipt>>>) {
    match outcome {
        Ok(outcomes) => group.into_iter().zip(outcomes).for_each(|(job, outcome)| job.answer(outcome)),
        Err(error) => group.into_iter().for_each(|job| job.answer(Err(error.clone()))),
    }
}

fn answer<T>(ack: Ack<T>, outcome: Result<T>) {
    // The caller may have gone away; what was stored stays stored.
    let _ = ack.send(outcome);
}
