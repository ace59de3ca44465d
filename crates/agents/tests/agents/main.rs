//! Behaviour of the transcripts through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod blocks;
mod claude_code;
mod codex;
mod corpus;
mod gemini_cli;
mod journal;
mod leaves;
mod opencode;
mod support;
