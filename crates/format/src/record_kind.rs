//! [`RecordKind`]: which record a JSON object is, told by its members.

use crate::shape::{ShapeOf, Shaped};
use crate::{
    UnifiedConversation, UnifiedEventV2, UnifiedExportV2, UnifiedItem, UnifiedOperation, UnifiedProviderCheckpoint, UnifiedRequestV2,
    UnifiedResultV2,
};

/// A record that may stand alone in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// [`UnifiedRequestV2`].
    Request,
    /// [`UnifiedResultV2`].
    Result,
    /// [`UnifiedEventV2`].
    Event,
    /// [`UnifiedOperation`].
    Operation,
    /// [`UnifiedExportV2`].
    Export,
    /// [`UnifiedItem`].
    Item,
    /// [`UnifiedConversation`].
    Conversation,
    /// [`UnifiedProviderCheckpoint`].
    Checkpoint,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Request,
        Self::Result,
        Self::Event,
        Self::Operation,
        Self::Export,
        Self::Item,
        Self::Conversation,
        Self::Checkpoint,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Result => "result",
            Self::Event => "event",
            Self::Operation => "operation",
            Self::Export => "export",
            Self::Item => "item",
            Self::Conversation => "conversation",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// The word for several of them.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Request => "requests",
            Self::Result => "results",
            Self::Event => "events",
            Self::Operation => "operations",
            Self::Export => "exports",
            Self::Item => "items",
            Self::Conversation => "conversations",
            Self::Checkpoint => "checkpoints",
        }
    }

    /// Gives the description of its type.
    pub fn shape_of(self) -> ShapeOf {
        match self {
            Self::Request => UnifiedRequestV2::shape,
            Self::Result => UnifiedResultV2::shape,
            Self::Event => UnifiedEventV2::shape,
            Self::Operation => UnifiedOperation::shape,
            Self::Export => UnifiedExportV2::shape,
            Self::Item => UnifiedItem::shape,
            Self::Conversation => UnifiedConversation::shape,
            Self::Checkpoint => UnifiedProviderCheckpoint::shape,
        }
    }

    /// Finds out which record an object is that has these members; it need not be a valid one.
    pub fn of_members(has: impl Fn(&str) -> bool) -> Option<Self> {
        let all = |names: &[&str]| names.iter().all(|name| has(name));
        Some(if all(&["kind", "eventId"]) {
            Self::Event
        } else if all(&["kind"]) {
            Self::Item
        } else if all(&["exportedAt"]) {
            Self::Export
        } else if all(&["conversation", "generation"]) {
            Self::Request
        } else if all(&["responseId", "output"]) {
            Self::Result
        } else if all(&["operationId", "state"]) {
            Self::Operation
        } else if all(&["checkpointId"]) {
            Self::Checkpoint
        } else if all(&["defaultBranchId"]) {
            Self::Conversation
        } else {
            return None;
        })
    }

    /// What to say about an object that is none of them.
    pub const NONE_OF_THEM: &'static str =
        "its members fit no Unified v2 record: expected a request, result, event, operation, export, conversation, checkpoint or item";
}

impl std::fmt::Display for RecordKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
