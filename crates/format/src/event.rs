//! The event grammar: what an operation consists of, and what folds into a result (spec, Typed event grammar; open-types.md, section 8).

use crate::citation::UnifiedTextAnnotation;
use crate::error::UnifiedError;
use crate::item::{ItemStatus, UnifiedItem};
use crate::json::Json;
use crate::lifecycle::UnifiedToolLifecycle;
use crate::loss::UnifiedLossEntry;
use crate::macros::{record, standalone_union, tagged_union, union_with_base};
use crate::part::{UnifiedContentPart, UnifiedTokenLogprob};
use crate::profile::{SchemaVersion, UnifiedProtocolProfile};
use crate::provenance::UnifiedAttribution;
use crate::resource::{Issuer, ResourceType, UnifiedProviderDataRef, UnifiedProviderResourceRef};
use crate::result::UnifiedResolvedModel;
use crate::status::UnifiedResponseStatus;
use crate::tool::Execution;
use crate::usage::UnifiedUsage;
use crate::{Count, Timestamp, UnifiedId};

record! {
    /// What every event has. Sequences start at 1 and are dense; a heartbeat repeats the last one.
    pub struct UnifiedEventBase {
        /// Always 2.0.
        schema_version: SchemaVersion,
        /// Operation.
        operation_id: UnifiedId,
        /// Derived from operation and sequence.
        event_id: UnifiedId,
        /// Position within the operation.
        sequence: Count,
        /// When it was committed.
        timestamp: Timestamp,
        /// Item that it is about.
        item_id?: UnifiedId,
        /// Part that it is about.
        part_id?: UnifiedId,
        /// Call that it is about.
        call_id?: String,
        /// Candidate; absent for the first.
        candidate?: Count,
    }
}

record! {
    /// An operation was made.
    pub struct OperationCreated {
        /// Branch that it appends to.
        source_branch_id: UnifiedId,
        /// Head before its own input.
        source_head_item_id?: UnifiedId,
        /// Target wire.
        target: UnifiedProtocolProfile,
        /// Model as the client requested it; names the model of a result that no provider began.
        requested_model?: String,
        /// Whether it runs in the background.
        background?: bool,
    }
}
record! {
    /// An operation changed its state.
    #[derive(Default)]
    pub struct OperationChanged {
        /// Why.
        reason?: String,
    }
}
record! {
    /// An operation completed.
    pub struct OperationCompleted {
        /// How the response stands.
        status: UnifiedResponseStatus,
    }
}
record! {
    /// An operation or item failed, or an error occurred.
    pub struct ErrorEvent {
        /// The error.
        error: UnifiedError,
    }
}
record! {
    /// The provider began to answer.
    pub struct ResponseStarted {
        /// Our ID of the response.
        response_id: UnifiedId,
        /// The model.
        model: UnifiedResolvedModel,
        /// Upstream wire.
        profile: UnifiedProtocolProfile,
        /// Runtime, vendor, model of the answer.
        attribution?: UnifiedAttribution,
    }
}
record! {
    /// More became known about the response, or about one candidate.
    #[derive(Default)]
    pub struct ResponseMetadata {
        /// The model.
        model?: UnifiedResolvedModel,
        /// Class of service, as reported.
        service_tier?: String,
        /// Resources made or renewed.
        resources?: Vec<UnifiedProviderResourceRef>,
        /// The provider's trace ID.
        provider_request_id?: String,
        /// How the candidate stands.
        status?: UnifiedResponseStatus,
    }
}
record! {
    /// An item began; the item stands here without its content.
    pub struct ItemStarted {
        /// The item.
        item: UnifiedItem,
    }
}
record! {
    /// An item is finished.
    pub struct ItemCompleted {
        /// Final status.
        status: ItemStatus,
        /// The whole item, when no deltas came before.
        item?: UnifiedItem,
    }
}
record! {
    /// A part begins; it stands here without its content, or whole.
    pub struct PartStarted {
        /// The part.
        part: UnifiedContentPart,
    }
}
record! {
    /// A part is finished.
    #[derive(Default)]
    pub struct PartCompleted {}
}
record! {
    /// A piece of media.
    pub struct MediaDelta {
        /// Standard base64 of the piece; pieces are cut at whole groups.
        base64: String,
    }
}
record! {
    /// A piece of a tool's output.
    #[derive(Default)]
    pub struct OutputDelta {
        /// Text to append.
        text?: String,
        /// A whole part.
        part?: UnifiedContentPart,
    }
}
record! {
    /// A member of the item at a registered pointer.
    pub struct FieldDelta {
        /// JSON Pointer into the item or part; see [`FIELD_POINTERS`].
        pointer: String,
        /// Its value.
        value: Json,
    }
}

/// Pointers that [`FieldDelta`] may name. `/providerData/-` appends a reference to the part, or to the item when no part is named.
pub const FIELD_POINTERS: &[&str] = &["/providerData/-"];

tagged_union! {
    /// A change of an item that is being made.
    pub enum ItemDelta {
        /// A part begins.
        PartStarted(PartStarted) = "part-started",
        /// A part is finished.
        PartCompleted(PartCompleted) = "part-completed",
        /// Media.
        Media(MediaDelta) = "media",
        /// Tool output.
        Output(OutputDelta) = "output",
        /// A member.
        Field(FieldDelta) = "field",
    }
}
standalone_union!(ItemDelta);

record! {
    /// A change of an item that is being made.
    pub struct ItemDeltaEvent {
        /// The change.
        delta: ItemDelta,
    }
}
record! {
    /// Text to append to a part.
    pub struct TextDelta {
        /// The text.
        text: String,
        /// Probabilities of its tokens, to append too.
        logprobs?: Vec<UnifiedTokenLogprob>,
    }
}
record! {
    /// Private state for a part or item is sealed; the payload never stands in an event.
    pub struct SignatureReady {
        /// The reference.
        provider_data: UnifiedProviderDataRef,
        /// Who made the payload.
        issuer: Issuer,
    }
}
record! {
    /// Argument text to append to a call.
    pub struct ArgumentsDelta {
        /// The text.
        text: String,
    }
}
record! {
    /// The arguments of a call are complete.
    pub struct ArgumentsReady {
        /// The whole text.
        raw_arguments: String,
        /// Parsed; absent when it is not JSON.
        input?: Json,
    }
}
record! {
    /// A call changed its state.
    pub struct ToolLifecycleEvent {
        /// From.
        from: UnifiedToolLifecycle,
        /// To.
        to: UnifiedToolLifecycle,
        /// Whose duty the execution is, when it became known.
        execution?: Execution,
    }
}
record! {
    /// A remark on a text part is complete.
    pub struct CitationReady {
        /// The remark.
        annotation: UnifiedTextAnnotation,
    }
}
record! {
    /// A part of an item is complete: a source, an artifact.
    pub struct PartReady {
        /// The part.
        part: UnifiedContentPart,
    }
}
record! {
    /// Usage as it stands now; replaces what was known.
    pub struct UsageUpdate {
        /// The usage.
        usage: UnifiedUsage,
    }
}
record! {
    /// A checkpoint was made.
    pub struct CheckpointReady {
        /// Its ID.
        checkpoint_id: UnifiedId,
        /// Kind.
        resource_type: ResourceType,
    }
}
record! {
    /// A checkpoint can no longer be used.
    pub struct CheckpointInvalidated {
        /// Its ID.
        checkpoint_id: UnifiedId,
        /// Kind.
        resource_type: ResourceType,
        /// Why.
        reason: String,
    }
}
record! {
    /// Something worth knowing that changes nothing.
    pub struct Warning {
        /// Stable code.
        code: String,
        /// In words.
        message: String,
    }
}
record! {
    /// More losses; they are appended to the result's report.
    pub struct LossUpdate {
        /// The losses.
        entries: Vec<UnifiedLossEntry>,
    }
}
record! {
    /// Nothing happened; never stored.
    #[derive(Default)]
    pub struct Heartbeat {}
}
record! {
    /// The last event of an operation.
    pub struct StreamCompleted {
        /// How the response stands.
        status: UnifiedResponseStatus,
        /// Its items in order.
        item_ids: Vec<UnifiedId>,
    }
}

tagged_union! {
    /// Kind of an event with its payload.
    pub enum EventBody {
        /// Made.
        OperationCreated(OperationCreated) = "operation.created",
        /// Waits.
        OperationQueued(OperationChanged) = "operation.queued",
        /// Runs.
        OperationRunning(OperationChanged) = "operation.running",
        /// Waits for somebody.
        OperationRequiresAction(OperationChanged) = "operation.requires-action",
        /// Ended well; terminal.
        OperationCompleted(OperationCompleted) = "operation.completed",
        /// Ended badly; terminal.
        OperationFailed(ErrorEvent) = "operation.failed",
        /// Ended on request; terminal.
        OperationCancelled(OperationChanged) = "operation.cancelled",
        /// Ended by time; terminal.
        OperationExpired(OperationChanged) = "operation.expired",
        /// The answer begins.
        ResponseStarted(ResponseStarted) = "response.started",
        /// More about the answer.
        ResponseMetadata(ResponseMetadata) = "response.metadata",
        /// An item begins.
        ItemStarted(ItemStarted) = "item.started",
        /// An item changes.
        ItemDelta(ItemDeltaEvent) = "item.delta",
        /// An item is finished.
        ItemCompleted(ItemCompleted) = "item.completed",
        /// An item failed.
        ItemFailed(ErrorEvent) = "item.failed",
        /// Text.
        TextDelta(TextDelta) = "text.delta",
        /// Reasoning text.
        ReasoningDelta(TextDelta) = "reasoning.delta",
        /// Private state.
        SignatureReady(SignatureReady) = "signature.ready",
        /// Argument text.
        ToolArgumentsDelta(ArgumentsDelta) = "tool-arguments.delta",
        /// Arguments complete.
        ToolArgumentsReady(ArgumentsReady) = "tool-arguments.ready",
        /// State of a call.
        ToolLifecycle(ToolLifecycleEvent) = "tool.lifecycle",
        /// Citation.
        CitationReady(CitationReady) = "citation.ready",
        /// Source.
        SourceReady(PartReady) = "source.ready",
        /// Artifact.
        ArtifactReady(PartReady) = "artifact.ready",
        /// Usage.
        UsageUpdate(UsageUpdate) = "usage.update",
        /// Checkpoint made.
        CheckpointReady(CheckpointReady) = "checkpoint.ready",
        /// Checkpoint lost.
        CheckpointInvalidated(CheckpointInvalidated) = "checkpoint.invalidated",
        /// Warning.
        Warning(Warning) = "warning",
        /// Losses.
        LossUpdate(LossUpdate) = "loss.update",
        /// Error; terminal only together with `operation.failed`.
        Error(ErrorEvent) = "error",
        /// Nothing.
        Heartbeat(Heartbeat) = "heartbeat",
        /// The last event.
        StreamCompleted(StreamCompleted) = "stream.completed",
    }
}

impl Warning {
    /// A warning whose text may quote what somebody sent: cut to its bound, without control characters.
    pub fn new(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: crate::error::sanitise(message),
        }
    }
}

impl EventBody {
    /// Whether this is the one terminal event of its operation; `stream.completed` follows it.
    pub const fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::OperationCompleted(_) | Self::OperationFailed(_) | Self::OperationCancelled(_) | Self::OperationExpired(_)
        )
    }
}

union_with_base! {
    /// One event of an operation.
    pub struct UnifiedEventV2 { base: UnifiedEventBase, body: EventBody }
}

/// An event before it has a place: what decoders make. Whoever commits it stamps operation, sequence and time.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDraft {
    /// Item that it is about.
    pub item_id: Option<UnifiedId>,
    /// Part that it is about.
    pub part_id: Option<UnifiedId>,
    /// Call that it is about.
    pub call_id: Option<String>,
    /// Candidate; absent for the first.
    pub candidate: Option<Count>,
    /// The kind with its payload.
    pub body: EventBody,
}

impl EventDraft {
    /// A draft about the operation or response as a whole.
    pub const fn new(body: EventBody) -> Self {
        Self {
            item_id: None,
            part_id: None,
            call_id: None,
            candidate: None,
            body,
        }
    }

    /// A draft about an item.
    pub fn of_item(item_id: UnifiedId, body: EventBody) -> Self {
        Self {
            item_id: Some(item_id),
            ..Self::new(body)
        }
    }

    /// A draft about a part of an item.
    pub fn of_part(item_id: UnifiedId, part_id: UnifiedId, body: EventBody) -> Self {
        Self {
            item_id: Some(item_id),
            part_id: Some(part_id),
            ..Self::new(body)
        }
    }

    /// A draft about a call.
    pub fn of_call(item_id: UnifiedId, call_id: String, body: EventBody) -> Self {
        Self {
            item_id: Some(item_id),
            call_id: Some(call_id),
            ..Self::new(body)
        }
    }

    /// The same draft for another candidate; candidate 0 is written as absent.
    #[must_use]
    pub const fn candidate(mut self, index: Count) -> Self {
        self.candidate = if index == 0 { None } else { Some(index) };
        self
    }

    /// The event at its place.
    pub fn stamp(self, operation_id: &UnifiedId, sequence: Count, timestamp: Timestamp) -> UnifiedEventV2 {
        UnifiedEventV2 {
            base: UnifiedEventBase {
                schema_version: SchemaVersion,
                operation_id: operation_id.clone(),
                event_id: operation_id.event(sequence),
                sequence,
                timestamp,
                item_id: self.item_id,
                part_id: self.part_id,
                call_id: self.call_id,
                candidate: self.candidate,
            },
            body: self.body,
        }
    }

    /// Appends `next` to this draft when both are deltas of the same text; otherwise hands `next` back.
    ///
    /// Joining changes no fold: deltas of one part, or of one call's arguments, concatenate.
    ///
    /// # Errors
    /// `next` itself, unchanged, when the two do not join.
    #[allow(clippy::result_large_err)] // the draft goes back to where it came from; a box would cost more than the move
    pub fn join(&mut self, next: Self) -> Result<(), Self> {
        if self.item_id != next.item_id || self.part_id != next.part_id || self.call_id != next.call_id || self.candidate != next.candidate
        {
            return Err(next);
        }
        match (&mut self.body, next.body) {
            (EventBody::TextDelta(a), EventBody::TextDelta(b)) | (EventBody::ReasoningDelta(a), EventBody::ReasoningDelta(b)) => {
                a.text.push_str(&b.text);
                if let Some(more) = b.logprobs {
                    a.logprobs.get_or_insert_default().extend(more);
                }
                Ok(())
            }
            (EventBody::ToolArgumentsDelta(a), EventBody::ToolArgumentsDelta(b)) => {
                a.text.push_str(&b.text);
                Ok(())
            }
            (_, body) => Err(Self {
                item_id: next.item_id,
                part_id: next.part_id,
                call_id: next.call_id,
                candidate: next.candidate,
                body,
            }),
        }
    }
}
