//! The program as a user runs it: arguments in, JSON and an exit code out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod agents;
mod batch;
mod canary;
mod conversation;
mod convert;
mod db;
mod fingerprint;
mod fold;
mod key;
mod replacement;
mod session;
mod store;
mod support;
mod usage;
mod validate;
