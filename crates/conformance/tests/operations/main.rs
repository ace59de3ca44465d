//! Scenarios of the specification about operations, over the store in memory and over SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

mod background;
mod health;
mod hostile;
mod journal;
mod keys;
mod support;
mod tools;
mod waiting;
