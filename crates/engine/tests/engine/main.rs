//! Behaviour of the engine through its public API, over the in-memory store and scripted providers.
#![allow(
    clippy::format_collect,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unused_self,
    missing_docs,
    unreachable_pub
)]

mod checkpoints;
mod compaction;
mod endings;
mod imports;
mod lineage;
mod live;
mod named_answers;
mod operations;
mod private_state;
mod recovery;
mod retention;
mod rewrites;
mod sessions;
mod support;
mod tool_recovery;
mod tools;
mod turns;
mod webhooks;
mod wire_clients;
