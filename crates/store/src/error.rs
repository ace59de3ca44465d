//! [`StoreError`]: everything that can go wrong in a store, with the stable code of each.

use throughline_format::{ErrorCategory, OperationState, UnifiedError, UnifiedId};

/// What is too large, and with it the detail of the code `too-large.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oversize {
    /// A journal item.
    Item,
    /// A stream event.
    Event,
    /// The result of an operation.
    Result,
    /// A sealed private payload.
    Payload,
    /// Any other record: operation, revision, annotation, conversation.
    Record,
    /// A whole batch.
    Batch,
    /// An artifact.
    Artifact,
}

/// Why a store refused or failed.
///
/// The text of each says what to do. It never quotes stored or sent content, only ids, numbers and names of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The branch has moved on since the caller read it.
    #[error("branch {branch_id} is at {}; read it and retry", head(actual.as_ref()))]
    HeadMoved {
        /// The branch.
        branch_id: UnifiedId,
        /// Where it stands now.
        actual: Option<UnifiedId>,
    },
    /// The same ID was stored before with other content.
    #[error("{what} {id} exists already with other content; use a new id")]
    Duplicate {
        /// The kind of record.
        what: &'static str,
        /// Its ID.
        id: UnifiedId,
    },
    /// Another event is stored under this number.
    #[error("event {sequence} of operation {operation_id} is stored with other bytes; the producer must stop and read the log again")]
    EventConflict {
        /// The operation.
        operation_id: UnifiedId,
        /// The number.
        sequence: u64,
    },
    /// The number does not follow the last stored one.
    #[error("operation {operation_id} expects event {expected}, not {found}; send the missing events first")]
    EventGap {
        /// The operation.
        operation_id: UnifiedId,
        /// The number that is next.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// The principal has used this idempotency key before.
    #[error("the idempotency key belongs to operation {operation_id}; use that operation, or a new key for another request")]
    Idempotency {
        /// The operation that holds the key.
        operation_id: UnifiedId,
        /// Whether its request was the same one, so that it is the answer.
        same_request: bool,
    },
    /// An operation runs or a lease is live.
    #[error("conversation {conversation_id} has an active operation or lease; cancel it or wait until it has ended")]
    OperationActive {
        /// The conversation.
        conversation_id: UnifiedId,
    },
    /// The step is not one of the table of operation states.
    #[error("operation {operation_id} cannot go from {from} to {to}; read it again")]
    OperationState {
        /// The operation.
        operation_id: UnifiedId,
        /// Its state.
        from: OperationState,
        /// The state asked for.
        to: OperationState,
    },
    /// The operation has ended and takes nothing more.
    #[error("operation {operation_id} has ended; start a new one")]
    OperationEnded {
        /// The operation.
        operation_id: UnifiedId,
    },
    /// Another revision of the item came first.
    #[error("the next revision of item {item_id} is number {expected}; read the item again")]
    RevisionConflict {
        /// The item.
        item_id: UnifiedId,
        /// The number that is next.
        expected: u64,
    },
    /// The conversation was used since, so retention must not remove it.
    #[error("conversation {conversation_id} was updated in the meantime and is kept")]
    Retained {
        /// The conversation.
        conversation_id: UnifiedId,
    },
    /// There is no such record, or it is being deleted.
    #[error("there is no {what} {id}; it may have been removed by retention")]
    NotFound {
        /// The kind of record.
        what: &'static str,
        /// Its ID.
        id: UnifiedId,
    },
    /// The batch breaks a rule of the store.
    #[error("{message} (at {path})")]
    Invalid {
        /// Where in the batch or record, as a pointer.
        path: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A record is over its bound.
    #[error("{} of {size} bytes is over the limit of {limit}; make it smaller or store the content as an artifact", what.as_str())]
    TooLarge {
        /// What.
        what: Oversize,
        /// Its size in bytes.
        size: u64,
        /// The bound.
        limit: u64,
    },
    /// A count is over its bound.
    #[error("{count} {what} are over the limit of {limit}; split them")]
    Limit {
        /// What was counted: `batch` or `branches`, the detail of the code.
        what: &'static str,
        /// How many.
        count: u64,
        /// The bound.
        limit: u64,
    },
    /// Another process has the store open.
    #[error("the database is in use by another process; stop it first, only one may write")]
    Locked,
    /// The store could not be reached in time.
    #[error("the database is busy; retry")]
    Busy,
    /// The file is damaged or no store at all. Nothing was written to it.
    #[error("the database is damaged ({detail}); nothing was written to it. Restore a backup, or move the file away to start empty")]
    Corrupt {
        /// What was found.
        detail: String,
    },
    /// The file was written by a newer program.
    #[error("the database has schema {found}, this program knows up to {supported}; use a newer program. Nothing was changed")]
    SchemaTooNew {
        /// The schema of the file.
        found: u32,
        /// The newest that this program knows.
        supported: u32,
    },
    /// The key ring is not the one that the data was sealed with.
    #[error(
        "the key ring does not hold key version {key_version} that the data was sealed with; give the key ring that belongs to this database"
    )]
    WrongKey {
        /// The version that is missing or different.
        key_version: u32,
    },
    /// A sealed record does not open: it was altered, or belongs to another record, conversation or owner.
    #[error("a sealed record does not open in this place; it was altered or moved")]
    SealedRecord,
    /// A key ring that cannot be used.
    #[error("the key ring cannot be used: {detail}")]
    KeyRing {
        /// What is wrong, without key material.
        detail: String,
    },
    /// The disk is full. Nothing of the batch was stored.
    #[error("the disk is full; free some space and retry. Nothing of the batch was stored")]
    Full,
    /// The operating system refused to read or write.
    #[error("reading or writing failed while {action}: {detail}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The system's word for it.
        detail: String,
    },
    /// The store is closed.
    #[error("the store is closed; open it again")]
    Closed,
    /// A broken promise inside the store.
    #[error("the store broke a rule of its own ({detail}); please report this")]
    Internal {
        /// Which.
        detail: String,
    },
}

fn head(item: Option<&UnifiedId>) -> &str {
    item.map_or("its beginning", UnifiedId::as_str)
}

impl Oversize {
    /// The detail of the code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Event => "event",
            Self::Result => "result",
            Self::Payload => "payload",
            Self::Record => "record",
            Self::Batch => "batch",
            Self::Artifact => "artifact",
        }
    }
}

impl StoreError {
    /// A rule of the store that a batch breaks.
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            path: path.into(),
            message: message.into(),
        }
    }

    /// There is no `what` with this ID.
    pub fn not_found(what: &'static str, id: &UnifiedId) -> Self {
        Self::NotFound { what, id: id.clone() }
    }

    /// The same ID with other content.
    pub fn duplicate(what: &'static str, id: &UnifiedId) -> Self {
        Self::Duplicate { what, id: id.clone() }
    }

    /// A broken promise inside the store.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::Internal { detail: detail.into() }
    }

    /// A failure of the operating system.
    pub fn io(action: &'static str, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::Full,
            kind => Self::Io {
                action,
                detail: kind.to_string(),
            },
        }
    }

    /// The stable code, `category.detail` (contract.md, section 1).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::HeadMoved { .. } => "conflict.head-moved",
            Self::Duplicate { .. } => "conflict.duplicate",
            Self::EventConflict { .. } => "conflict.event",
            Self::EventGap { .. } => "conflict.event-gap",
            Self::Idempotency { .. } => "conflict.idempotency",
            Self::OperationActive { .. } => "conflict.operation-active",
            Self::OperationState { .. } | Self::OperationEnded { .. } => "conflict.operation-state",
            Self::RevisionConflict { .. } => "conflict.revision",
            Self::Retained { .. } => "conflict.retained",
            Self::NotFound { .. } => "not-found.resource",
            Self::Invalid { .. } => "invalid-request.validation",
            Self::TooLarge { what, .. } => match what {
                Oversize::Item => "too-large.item",
                Oversize::Event => "too-large.event",
                Oversize::Result => "too-large.result",
                Oversize::Payload => "too-large.payload",
                Oversize::Record => "too-large.record",
                Oversize::Batch => "too-large.batch",
                Oversize::Artifact => "too-large.artifact",
            },
            Self::Limit { what, .. } => match what.as_bytes() {
                b"branches" => "limit.branches",
                _ => "limit.batch",
            },
            Self::Locked => "storage.locked",
            Self::Busy => "storage.busy",
            Self::Corrupt { .. } => "storage.corrupt",
            Self::SchemaTooNew { .. } => "storage.schema-too-new",
            Self::WrongKey { .. } => "storage.wrong-key",
            Self::SealedRecord => "storage.sealed-record",
            Self::KeyRing { .. } => "storage.key-ring",
            Self::Full => "storage.full",
            Self::Io { .. } => "storage.io",
            Self::Closed => "storage.closed",
            Self::Internal { .. } => "internal.store",
        }
    }

    /// The category of the code.
    pub const fn category(&self) -> ErrorCategory {
        match self {
            Self::HeadMoved { .. }
            | Self::Duplicate { .. }
            | Self::EventConflict { .. }
            | Self::EventGap { .. }
            | Self::Idempotency { .. }
            | Self::OperationActive { .. }
            | Self::OperationState { .. }
            | Self::OperationEnded { .. }
            | Self::RevisionConflict { .. }
            | Self::Retained { .. } => ErrorCategory::Conflict,
            Self::NotFound { .. } => ErrorCategory::NotFound,
            Self::Invalid { .. } => ErrorCategory::InvalidRequest,
            Self::TooLarge { .. } => ErrorCategory::TooLarge,
            Self::Limit { .. } => ErrorCategory::Limit,
            Self::Locked
            | Self::Busy
            | Self::Corrupt { .. }
            | Self::SchemaTooNew { .. }
            | Self::WrongKey { .. }
            | Self::SealedRecord
            | Self::KeyRing { .. }
            | Self::Full
            | Self::Io { .. }
            | Self::Closed => ErrorCategory::Storage,
            Self::Internal { .. } => ErrorCategory::Internal,
        }
    }

    /// Whether the same call may succeed later, after reading again where it says so.
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::HeadMoved { .. }
                | Self::RevisionConflict { .. }
                | Self::OperationActive { .. }
                | Self::Busy
                | Self::Full
                | Self::Io { .. }
        )
    }

    /// The error as the format writes it. The message carries ids and numbers only.
    pub fn to_unified(&self) -> UnifiedError {
        let code = self.code();
        let detail = code.split_once('.').map_or(code, |(_, detail)| detail);
        let mut error = UnifiedError::new(self.category(), detail, self.to_string());
        error.retryable = self.is_retryable();
        match self {
            Self::Invalid { path, .. } => error.at(path.clone()),
            Self::HeadMoved { .. } => error.at("/expectedHead"),
            _ => error,
        }
    }
}
