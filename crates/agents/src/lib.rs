//! Transcripts of coding agents, to and from the Unified v2 journal, and the flat block view of the journal.
//!
//! What it does: bytes of session files in, journal items out, and back. What it never does: touch a socket, the file system, a home
//! directory, a clock or randomness. Where a file lies, when it is now and what is stored already are the caller's; IDs are derived
//! from what the transcript says by hash.
//!
//! # One model
//!
//! A [`Transcript`] is three things side by side:
//!
//! * **items**: the conversation as the runtime would send it, as journal items. They are the truth.
//! * **records**: the runtime's own records as they were written, each with the items that it became. A record that the journal has no
//!   word for (an attachment, a title, a snapshot) stands there without items. Nothing of them is ever shown to another runtime.
//! * **losses and warnings**: what the items do not say, and what was damaged.
//!
//! Two laws follow from it.
//!
//! 1. *The journal decides.* On the way back to the same runtime a record is written again as it was only while it still says what its
//!    items say (by their content fingerprint). An item that was added or changed since is written by the rules of the runtime, the
//!    record that spoke for it is left out. So the same file comes back, and what was said later comes after it ([`native`]).
//! 2. *A target gets what it may see.* Signatures and encrypted reasoning go to the runtime that they came from. Another runtime gets
//!    paired calls and results, joined texts and its own IDs, parents and times, and whatever cannot be said is an entry of the
//!    loss report, with the words of [`throughline_protocols::Feature`].
//!
//! # Shape
//!
//! Each runtime is a folder of the same files: `mod.rs` (facts with links, the [`Runtime`] implementation), `read.rs`, `write.rs`, and
//! what it needs besides. Where a native record *is* a shape of a wire (blocks of Anthropic, input items of OpenAI, parts of Gemini),
//! the codec of that wire reads and writes it: there is no second decoder here. [`blocks`] is the flat block view: it is a runtime to
//! the caller, and a view of the journal by its rules.
//!
//! Where to start reading: [`transcript`], then [`claude_code`].

#![forbid(unsafe_code)]

pub mod archive;
pub mod blocks;
mod builder;
pub mod claude_code;
pub mod codex;
mod fields;
pub mod gemini_cli;
pub mod ids;
mod lines;
mod losses;
pub mod native;
pub mod opencode;
mod project;
pub mod runtime;
pub mod source;
pub mod transcript;
mod wire_blocks;

pub use builder::place_after;
pub use project::next_request;
pub use runtime::{ResumePlan, Runtime, WriteOptions, Written, WrittenFile, runtime_named, runtimes};
pub use source::{Source, SourceFile};
pub use transcript::{NativeRecord, ResponseUsage, SessionFacts, Transcript, Warning};
