//! Fuzz targets for every decoder. The bodies are in [`bodies`]; the seeds, small ones written for this, in `seeds/`.
//!
//! `cargo run -p xtask -- fuzz [SECONDS]` runs each target for a while. The test suite of `crates/protocols` runs the same
//! bodies over mutated bodies and streams, with a stable compiler.

#![forbid(unsafe_code)]

pub mod bodies;
pub mod sessions;
