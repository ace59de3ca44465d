//! Operations, live streams, lineage and recovery.
//!
//! What it does: takes a client's request, finds its conversation, projects the history to a target, sends it, commits
//! what comes back as events, and lets any number of subscribers read them. What it never does: HTTP, SQL, reading a clock
//! or making IDs by itself (both are [`ports`]), or handing private state to anybody but its owner.
//!
//! Where to start reading: [`turn`] (one turn up to the upstream call), `producer` (from the call to the end of the answer,
//! which `finish` commits), [`live`] (how subscribers read), [`lineage`] (how a stateless client finds its conversation).

#![forbid(unsafe_code)]

mod actions;
mod admission;
mod approvals;
mod bundles;
mod cancel;
mod catch_up;
mod checkpoints;
mod claims;
mod compaction;
mod conversations;
pub mod cursor;
mod deadline;
pub mod diagnostics;
mod engine;
mod finish;
mod framed;
mod health;
mod idempotency;
mod import;
mod jobs;
mod journal;
mod kept;
pub mod lineage;
pub mod live;
mod named_answer;
mod opening;
mod operations;
pub mod owner;
pub mod ports;
mod principal;
mod private;
mod producer;
mod progress;
mod projector;
mod recovery;
mod retention;
mod scribe;
mod sending;
mod splice;
mod summaries;
mod switch;
mod terminal;
mod tool_names;
mod tools;
pub mod turn;
mod usage;
mod webhooks;

pub use approvals::Approval;
pub use bundles::ImportIds;
pub use cancel::CancelOutcome;
pub use compaction::CompactRequest;
pub use conversations::{ConversationPage, ConversationQuery, NewConversation};
pub use engine::{Engine, EngineConfig, EngineLimits};
pub use journal::{ItemQuery, JournalPage, NewItems};
pub use lineage::session::ClientSession;
pub use live::{Delivery, Subscription};
pub use operations::{OperationLosses, OperationPage, OperationQuery, TranslationLoss};
pub use principal::Principal;
pub use recovery::RecoveryReport;
pub use retention::CleanupReport;
pub use tools::{ToolExecutor, ToolInvocation};
pub use turn::{Turn, TurnError, TurnOptions, TurnRequest};
pub use webhooks::WebhookOutcome;
