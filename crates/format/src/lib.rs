//! Unified v2: the provider-neutral format of conversations and inference.
//!
//! What it is: the types of the specification, their JSON form, canonical form, fingerprints, the event grammar and the
//! deterministic fold. What it never does: read a clock or randomness, touch I/O, an async runtime or the environment.
//! Everything that varies comes in as an argument.
//!
//! Where to start reading: [`item`] (history), [`event`] (what streams consist of), [`fold`] (events to result),
//! [`canonical`] (bytes that fingerprints are taken of).
//!
//! Absent, null, empty and zero are four different things here: an optional member is `Option`, a literal `null` is
//! refused outside opaque [`json::Json`], and required lists may be empty.

#![forbid(unsafe_code)]

pub mod annotation;
pub mod cache;
pub mod canonical;
pub mod citation;
pub mod compaction;
pub mod conversation;
pub mod error;
pub mod event;
pub mod export;
pub mod fold;
pub mod id;
pub mod intent;
pub mod item;
pub mod json;
pub mod lifecycle;
pub mod loss;
mod macros;
pub mod media;
pub mod metadata;
pub mod operation;
pub mod part;
pub mod portability;
pub mod profile;
pub mod provenance;
mod record_kind;
pub mod rename;
pub mod request;
pub mod resource;
pub mod result;
pub mod revision;
pub mod schema;
pub mod secrets;
mod sha256;
pub mod shape;
pub mod status;
mod time;
pub mod tool;
pub mod transitions;
pub mod transport;
pub mod usage;
pub mod validate;

pub use canonical::{content_fingerprint, fingerprint};
pub use conversation::{
    UnifiedArtifact, UnifiedBranch, UnifiedConversation, UnifiedConversationInput, UnifiedLease, UnifiedPortabilityDecision,
};
pub use error::{ErrorCategory, UnifiedError};
pub use event::{EventBody, EventDraft, UnifiedEventV2};
pub use export::UnifiedExportV2;
pub use fold::Fold;
pub use id::{InvalidId, UnifiedId};
pub use intent::{UnifiedGenerationIntent, UnifiedIntent, UnifiedModelIntent, UnifiedOutputIntent, UnifiedRequirement};
pub use item::{UnifiedItem, UnifiedItemBase, UnifiedItemBody, UnifiedItemRevision};
pub use json::{DecodeError, Json};
pub use lifecycle::UnifiedToolLifecycle;
pub use loss::{LossDisposition, LossSeverity, UnifiedLossEntry, UnifiedLossReport};
pub use operation::{OperationState, UnifiedOperation, UnifiedProviderCheckpoint};
pub use part::{PartBody, UnifiedContentPart};
pub use profile::{ProtocolFamily, SchemaVersion, UnifiedProtocolProfile};
pub use provenance::{UnifiedAttribution, UnifiedItemProvenance, UnifiedSourceProvenance};
pub use record_kind::RecordKind;
pub use request::UnifiedRequestV2;
pub use resource::{
    ProviderDataScope, UnifiedPortableAnnotation, UnifiedProviderDataRef, UnifiedProviderResourceRef, UnifiedResourceOwner,
};
pub use result::UnifiedResultV2;
pub use sha256::Sha256;
pub use status::{UnifiedFinishReason, UnifiedResponseStatus};
pub use time::{InvalidTime, Timestamp};
pub use tool::{UnifiedToolChoice, UnifiedToolDefinition, UnifiedToolType};
pub use usage::{UnifiedCounter, UnifiedUsage};

/// A count: 0 to 2^53-1, so that every JSON reader keeps it exact.
pub type Count = u64;
/// A length of time in seconds.
pub type Seconds = f64;
/// Largest integer that every JSON reader keeps exact.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
