//! Scenarios of the specification about continuity: a change of provider, checkpoints, a restart. On both stores.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

mod leaves;
mod pictures;
mod scenarios;
mod world;
