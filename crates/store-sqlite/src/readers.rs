//! The pool of read-only connections, each on a thread of its own.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use rusqlite::Connection;
use throughline_store::StoreError;
use tokio::sync::{Semaphore, oneshot};

use crate::connection::open_reader;
use crate::error::{Result, sql};

type ReadJob = Box<dyn FnOnce(&Connection) + Send>;

/// How many reads may wait.
const WAITING_READS: usize = 1_024;

pub(crate) struct ReadPool {
    /// Absent after closing.
    sender: Mutex<Option<mpsc::Sender<ReadJob>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    room: Arc<Semaphore>,
}

impl ReadPool {
    /// Opens the connections; they see what was committed before.
    pub(crate) fn open(path: &Path, readers: usize) -> Result<Self> {
        let (sender, receiver) = mpsc::channel::<ReadJob>();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for number in 0..readers.max(1) {
            let connection = open_reader(path)?;
            let receiver = receiver.clone();
            let thread = std::thread::Builder::new().name(format!("store-reader-{number}")).spawn(move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    job(&connection);
                }
            });
            threads.push(thread.map_err(|error| StoreError::io("starting a reader thread", &error))?);
        }
        Ok(Self {
            sender: Mutex::new(Some(sender)),
            threads: Mutex::new(threads),
            room: Arc::new(Semaphore::new(WAITING_READS)),
        })
    }

    /// Runs a read in one transaction of its own, which ends before the answer goes out: a read transaction that lives on would
    /// keep the log from being reset.
    pub(crate) async fn read<T: Send + 'static>(&self, read: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        self.run(move |connection| in_transaction(connection, read)).await
    }

    /// Runs on one of the connections without a transaction around it, for work that takes long: each statement is its own.
    pub(crate) async fn run<T: Send + 'static>(&self, read: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        let _room = self.room.acquire().await.map_err(|_| StoreError::Closed)?;
        let (ack, answer) = oneshot::channel();
        let job: ReadJob = Box::new(move |connection| {
            let outcome = read(connection);
            // The caller may have gone away.
            let _ = ack.send(outcome);
        });
        match &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sender) => sender.send(job).map_err(|_| StoreError::Closed)?,
            None => return Err(StoreError::Closed),
        }
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Lets no read in any more and gives the threads, which end after the reads that wait.
    pub(crate) fn close(&self) -> Vec<JoinHandle<()>> {
        self.room.close();
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn in_transaction<T>(connection: &Connection, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let transaction = connection.unchecked_transaction().map_err(sql)?;
    let outcome = read(&transaction);
    transaction.finish().map_err(sql)?;
    outcome
}
