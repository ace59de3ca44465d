//! Behaviour of the format through its public surface.

#![recursion_limit = "512"]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod canonical;
mod compaction;
mod decoding;
mod fold_laws;
mod fold_refusals;
mod ids;
mod json_text;
mod portability;
mod revisions;
mod round_trip;
mod rules;
mod secrets;
mod shapes;
mod structure;
mod support;
mod tables;
mod vectors;
