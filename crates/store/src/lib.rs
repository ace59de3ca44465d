//! The durable state of Throughline, independent of any database.
//!
//! What it is: the traits of a store ([`UnifiedStateStore`]), the one way to change it ([`WriteBatch`]), the rules that every
//! store applies ([`apply`]), sealing of private payloads ([`Vault`]), the artifact directory ([`ArtifactFiles`]), a store in
//! memory ([`MemoryStore`]) and the suite that every store must pass ([`contract`]).
//!
//! What it must never do: look for its configuration (paths, keys and times are arguments), read a clock, print or store
//! a key or a plaintext payload, or let the word of one database into a signature.
//!
//! Where to start reading: [`batch`], then [`traits`], then [`apply`].

#![forbid(unsafe_code)]

pub mod apply;
pub mod artifacts;
pub mod batch;
pub mod cleanup;
pub mod contract;
pub mod diagnostics;
mod error;
pub mod export;
pub mod inline;
pub mod keyring;
pub mod limits;
mod memory;
mod random;
pub mod records;
pub mod rotation;
pub mod sealing;
pub mod traits;
mod vault;

pub use artifacts::{ArtifactFiles, ArtifactHold};
pub use batch::{AppendedItem, BranchHead, CommitReceipt, DeletionCondition, OperationHead, WriteBatch, WriteOp};
pub use cleanup::{CleanupReport, clean, clean_with};
pub use diagnostics::{Diagnostic, DiagnosticFiles, DiagnosticLimits, Direction};
pub use error::{Oversize, StoreError};
pub use keyring::KeyRing;
pub use limits::{MAX_EVENT_SEQUENCE, MAX_LOOKUP, MAX_PAGE, StoreLimits};
pub use memory::{MemorySettings, MemoryStore};
pub use random::{OsRandom, RandomSource};
pub use records::{
    ARTIFACT_GRACE_MILLIS, BackupReport, CollectReport, CollectRequest, ConversationFilter, EventRange, IntegrityReport, IssuedId,
    ItemPage, LineageRow, OperationFilter, Order, ResealedRecord, ResourceHead, SealedPlace, SealedRecord, SealedResource, SessionKeyRow,
    StoreEpoch, StoreHealth, StoreMeta, StoredAnnotation, StoredArtifact, StoredEvent, SweepReport, SweepRequest,
};
pub use rotation::{RotationStep, rotate_step};
pub use sealing::{RecordKind, SealContext, Sealed};
pub use traits::{
    BackupHook, ConversationReader, EventReader, JournalReader, LineageReader, OperationReader, ResourceReader, StateReader, StateWriter,
    StoreAdmin, StoreFuture, UnifiedStateStore,
};
pub use vault::{HashPurpose, Vault, owner_fingerprint};
