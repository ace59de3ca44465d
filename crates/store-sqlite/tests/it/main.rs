//! Behaviour of the SQLite store through its public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod artifacts;
#[cfg(target_os = "linux")]
mod configuration;
mod contract;
mod crash;
mod faults;
mod files;
mod reader;
mod retention;
mod schema;
mod start;
mod support;
mod twins;
