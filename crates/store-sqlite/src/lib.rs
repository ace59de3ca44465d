//! The SQLite store of Throughline.
//!
//! What it is: [`SqliteStore`], an implementation of [`throughline_store::UnifiedStateStore`] over one SQLite file: one writer
//! thread with group commit, a pool of read-only connections, a checkpointer thread, migrations, checks at start and backup.
//! The rules of a commit are those of [`throughline_store::apply`]; here are only rows, threads and files.
//!
//! What it must never do: look for its configuration (paths, keys and times are arguments), read a clock for data, run SQL on the
//! threads of an async runtime, or acknowledge a batch before its COMMIT has returned.
//!
//! Where to start reading: [`SqliteStore::open`], then `writer` (group commit), then `migrations/0001_initial.sql` (the tables).

#![forbid(unsafe_code)]

mod background;
mod backup;
mod check;
mod checkpointer;
mod collect;
mod config;
mod connection;
mod error;
mod migrate;
mod queue;
mod read;
mod reader;
mod readers;
mod rows;
mod startup;
mod store;
mod sweep;
mod tables;
mod writer;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod writer_tests;

pub use config::{Durability, QueueLimits, SqliteConfig};
pub use migrate::SCHEMA_VERSION;
pub use reader::SqliteReader;
pub use store::SqliteStore;
