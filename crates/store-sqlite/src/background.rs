//! What the store does beside its main work: durable files of externalised data, and the check of a large database after the start.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use rusqlite::{Connection, InterruptHandle};
use throughline_store::{StoreError, StoreHealth};
use tokio::sync::{Semaphore, oneshot};

use crate::connection::open_reader;
use crate::error::{Result, sql};

/// Why the database is not written to any more, once something was found. Shared by all threads of a store.
#[derive(Clone, Default)]
pub(crate) struct Damage(Arc<Mutex<Option<StoreError>>>);

impl Damage {
    pub(crate) fn get(&self) -> Option<StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, error: StoreError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

type FileJob = Box<dyn FnOnce() + Send>;

/// Batches whose files may be written or wait at one time: what bounds the memory that they hold.
const WAITING_FILES: usize = 16;

/// The thread that writes and syncs files, so that neither the writer nor an async runtime waits for it.
pub(crate) struct FileThread {
    sender: Mutex<Option<mpsc::Sender<FileJob>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    room: Semaphore,
}

impl FileThread {
    pub(crate) fn start() -> Result<Self> {
        let (sender, receiver) = mpsc::channel::<FileJob>();
        let work = move || {
            while let Ok(job) = receiver.recv() {
                job();
            }
        };
        let thread = std::thread::Builder::new().name("store-files".to_owned()).spawn(work);
        Ok(Self {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread.map_err(|error| StoreError::io("starting a thread", &error))?)),
            room: Semaphore::new(WAITING_FILES),
        })
    }

    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let _room = self.room.acquire().await.map_err(|_| StoreError::Closed)?;
        let (ack, answer) = oneshot::channel();
        // The caller may have gone away.
        let job: FileJob = Box::new(move || drop(ack.send(work())));
        match &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sender) => sender.send(job).map_err(|_| StoreError::Closed)?,
            None => return Err(StoreError::Closed),
        }
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Ends the thread after what waits.
    pub(crate) fn stop(&self) {
        self.room.close();
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

/// The check beside the work.
pub(crate) struct LaterCheck {
    state: Arc<Mutex<StoreHealth>>,
    stop: Arc<AtomicBool>,
    interrupt: Option<InterruptHandle>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LaterCheck {
    /// Nothing is left to do.
    pub(crate) fn done() -> Self {
        Self {
            state: Arc::new(Mutex::new(StoreHealth::Sound)),
            stop: Arc::default(),
            interrupt: None,
            thread: Mutex::default(),
        }
    }

    /// Starts it, table by table, each in a read transaction of its own so that the log can be reset in between.
    pub(crate) fn start(path: &std::path::Path, damage: Damage) -> Result<Self> {
        let connection = open_reader(path)?;
        let interrupt = connection.get_interrupt_handle();
        let (state, stop) = (Arc::new(Mutex::new(StoreHealth::Checking)), Arc::new(AtomicBool::new(false)));
        let work = {
            let (state, stop) = (state.clone(), stop.clone());
            move || {
                let outcome = check_tables(&connection, &stop);
                if let StoreHealth::Damaged = outcome {
                    damage.set(StoreError::Corrupt {
                        detail: "the check after the start found problems".to_owned(),
                    });
                }
                *state.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
            }
        };
        let thread = std::thread::Builder::new().name("store-check".to_owned()).spawn(work);
        Ok(Self {
            state,
            stop,
            interrupt: Some(interrupt),
            thread: Mutex::new(Some(thread.map_err(|error| StoreError::io("starting a thread", &error))?)),
        })
    }

    pub(crate) fn state(&self) -> StoreHealth {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It may be between two statements, where an interrupt is lost.
            while !thread.is_finished() {
                if let Some(interrupt) = &self.interrupt {
                    interrupt.interrupt();
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let _ = thread.join();
        }
    }
}

fn check_tables(connection: &Connection, stop: &AtomicBool) -> StoreHealth {
    let Ok(tables) = tables(connection) else {
        return StoreHealth::Unchecked;
    };
    for table in tables {
        if stop.load(Ordering::Relaxed) {
            return StoreHealth::Unchecked;
        }
        match crate::connection::pragma_rows(connection, &format!("PRAGMA quick_check('{table}')")) {
            Ok(rows) if rows == ["ok"] => {}
            Ok(_) | Err(StoreError::Corrupt { .. }) => return StoreHealth::Damaged,
            Err(_) => return StoreHealth::Unchecked,
        }
    }
    StoreHealth::Sound
}

fn tables(connection: &Connection) -> Result<Vec<String>> {
    let text = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut statement = connection.prepare(text).map_err(sql)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(sql)?;
    rows.collect::<rusqlite::Result<_>>().map_err(sql)
}
