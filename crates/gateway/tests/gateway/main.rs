//! Behaviour of the gateway through its public API.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

mod access;
mod addresses;
mod chats;
mod compact;
mod config;
mod conversations;
mod demo;
mod diagnostics;
mod events;
mod execution_context;
mod google;
mod operations;
mod support;
mod turns;
