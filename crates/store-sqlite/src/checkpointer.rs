//! The checkpointer thread: keeps the write-ahead log short without stalling a commit.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use crate::connection::open_checkpointer;
use crate::error::{Result, sql};

/// 4 MiB of pages of 4 KiB: whenever the log has grown by so much, the checkpointer works beside the writer. Under unbroken
/// writing it cannot reset the log, so waking it for each commit beyond would only slow every commit down.
const PASSIVE_PAGES: u32 = 1_024;
/// 64 MiB: from here on the writer itself resets the log between two groups.
const RESTART_PAGES: u32 = 16_384;
/// How much the log must have grown before the writer tries again, when a reader stood in the way.
const RESTART_STEP_PAGES: u32 = 1_024;
/// How long nothing must have been written before the log is cut to nothing.
const IDLE: Duration = Duration::from_secs(2);
/// How long the writer waits for readers when it resets the log.
const RESTART_WAIT: Duration = Duration::from_millis(50);

/// The length of the log, told by the writer after each commit.
pub(crate) struct WalGauge {
    pages: AtomicU32,
    next_passive: AtomicU32,
    next_restart: AtomicU32,
    /// Held during a checkpoint: two at once would only refuse each other.
    at_work: Mutex<()>,
    /// Absent once the checkpointer is to end.
    wake: Mutex<Option<SyncSender<()>>>,
}

impl WalGauge {
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (wake, receiver) = sync_channel(1);
        (
            Arc::new(Self {
                pages: AtomicU32::new(0),
                next_passive: AtomicU32::new(PASSIVE_PAGES),
                next_restart: AtomicU32::new(RESTART_PAGES),
                at_work: Mutex::new(()),
                wake: Mutex::new(Some(wake)),
            }),
            receiver,
        )
    }

    fn set(&self, pages: u32) {
        let before = self.pages.swap(pages, Ordering::Relaxed);
        if pages < before {
            // The log begins anew.
            self.next_passive.store(PASSIVE_PAGES, Ordering::Relaxed);
        }
        if pages >= self.next_passive.load(Ordering::Relaxed) {
            self.next_passive.store(pages.saturating_add(PASSIVE_PAGES), Ordering::Relaxed);
            // It is awake already when the channel is full, and when it has died the writer's own limit still holds.
            if let Some(wake) = &*self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = wake.try_send(());
            }
        }
    }

    /// Ends the checkpointer.
    pub(crate) fn stop(&self) {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn checkpoint(&self, connection: &Connection, mode: CheckpointMode) -> bool {
        let _at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        connection.wal_checkpoint_v2(Some("main"), mode).is_ok()
    }

    /// Called by the writer between two groups.
    pub(crate) fn restart_if_long(&self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.next_restart.load(Ordering::Relaxed) {
            return;
        }
        let _ = connection.busy_timeout(RESTART_WAIT);
        let done = self.checkpoint(connection, CheckpointMode::RESTART);
        let _ = connection.busy_timeout(Duration::from_secs(5));
        let next = if done {
            RESTART_PAGES
        } else {
            pages.saturating_add(RESTART_STEP_PAGES)
        };
        self.next_restart.store(next, Ordering::Relaxed);
    }
}

/// Makes the writer's connection tell the gauge after each commit.
pub(crate) fn watch(connection: &mut Connection, gauge: &Arc<WalGauge>) -> Result<()> {
    let gauge = Arc::downgrade(gauge);
    connection
        .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
            if let Some(gauge) = gauge.upgrade() {
                gauge.set(u32::try_from(pages).unwrap_or(0));
            }
            Ok(())
        }))
        .map_err(sql)
}

/// The thread. It ends when the gauge is stopped.
pub(crate) fn run(path: PathBuf, gauge: Arc<WalGauge>, wake: Receiver<()>) {
    let Ok(connection) = open_checkpointer(&path) else { return };
    let mut seen = 0;
    loop {
        let signal = wake.recv_timeout(IDLE);
        let pages = gauge.pages.load(Ordering::Relaxed);
        match signal {
            // What cannot be done now is done after a later commit; an error shows itself in the next commit as well.
            Ok(()) => drop(gauge.checkpoint(&connection, CheckpointMode::PASSIVE)),
            Err(RecvTimeoutError::Timeout) if pages > 0 && pages == seen => {
                if gauge.checkpoint(&connection, CheckpointMode::TRUNCATE) {
                    // A commit in between has set another number, which must stay.
                    let _ = gauge.pages.compare_exchange(pages, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        seen = pages;
    }
}
