//! Behaviour of the store crate through its public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod diagnostics;
mod memory;
mod vault;
mod walls;
