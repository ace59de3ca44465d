//! Behaviour of the transcripts through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod corpus;
mod leaves;
