//! Canonical items: the closed union that history consists of (spec, Canonical items; open-types.md, section 4).

use crate::cache::UnifiedCacheDirective;
use crate::error::UnifiedError;
use crate::json::Json;
use crate::lifecycle::UnifiedToolLifecycle;
use crate::macros::{open_words, record, standalone_union, tagged_union, union_with_base, words};
use crate::media::UnifiedMediaMetadata;
use crate::part::UnifiedContentPart;
use crate::profile::UnifiedProtocolProfile;
use crate::provenance::{UnifiedAttribution, UnifiedItemProvenance};
use crate::resource::{UnifiedProviderDataRef, UnifiedProviderResourceRef};
use crate::tool::{Caller, Execution, UnifiedToolType};
use crate::{Count, Sha256, Timestamp, UnifiedId};

words! {
    /// Role of an item.
    pub enum Role { System = "system", Developer = "developer", User = "user", Assistant = "assistant", Tool = "tool", }
}
words! {
    /// Who may see an item.
    pub enum Visibility { Model = "model", Client = "client", Internal = "internal", }
}
words! {
    /// Whether an item is finished.
    pub enum ItemStatus {
        InProgress = "in-progress", Completed = "completed", Incomplete = "incomplete", Failed = "failed", Cancelled = "cancelled",
    }
}
record! {
    /// What every item has.
    pub struct UnifiedItemBase {
        /// Stable ID.
        id: UnifiedId,
        /// Conversation; `pending` before it is in a journal.
        conversation_id: UnifiedId,
        /// Branch that it was appended to; `pending` before.
        branch_id: UnifiedId,
        /// Position along the path from the root, from 1.
        sequence: Count,
        /// The item before it on its path.
        parent_id?: UnifiedId,
        /// When it was made.
        created_at: Timestamp,
        /// Role.
        role?: Role,
        /// Who may see it.
        visibility: Visibility,
        /// Whether it is finished.
        status: ItemStatus,
        /// Where it comes from.
        provenance: UnifiedItemProvenance,
        /// Cache mark, for items written through the native API.
        cache?: UnifiedCacheDirective,
        /// Registered annotations and private payloads.
        provider_data?: Vec<UnifiedProviderDataRef>,
    }
}

words! {
    /// Where a system message stands.
    pub enum Placement {
        /// It came from the top of the request; the newest run is the target's instructions.
        Instructions = "instructions",
        /// It stands where it stands.
        Inline = "inline",
    }
}
record! {
    /// A message.
    pub struct MessageItem {
        /// Its parts in order.
        parts: Vec<UnifiedContentPart>,
        /// For system and developer.
        placement?: Placement,
    }
}
record! {
    /// Reasoning that the source disclosed, or its marker.
    pub struct ReasoningItem {
        /// Reasoning parts only.
        parts: Vec<UnifiedContentPart>,
    }
}
record! {
    /// Who made a call.
    pub struct CallerRef {
        /// Model or code.
        kind: Caller,
        /// The code execution's call.
        call_id?: String,
    }
}
record! {
    /// A call of a tool, or of a hosted tool.
    pub struct ToolCallItem {
        /// Stable call ID, a foreign string.
        call_id: String,
        /// Tool name.
        name: String,
        /// Kind of tool.
        tool_type: UnifiedToolType,
        /// Group of the name.
        namespace?: String,
        /// MCP server.
        server_label?: String,
        /// Parsed input as written; absent when the text does not parse.
        input?: Json,
        /// The argument text, fragments joined.
        raw_arguments: String,
        /// State of the call.
        lifecycle: UnifiedToolLifecycle,
        /// Who made it.
        caller?: CallerRef,
        /// Whose duty the execution is.
        execution: Execution,
        /// Whether the provider did run it.
        provider_executed: bool,
        /// Private state that belongs to the call.
        private_linkage?: UnifiedProviderDataRef,
    }
}
record! {
    /// The result of a call.
    pub struct ToolResultItem {
        /// The call.
        call_id: String,
        /// Tool name.
        name?: String,
        /// Output in order.
        output: Vec<UnifiedContentPart>,
        /// Whether it failed; absent is not false.
        is_error?: bool,
        /// How it failed.
        error?: UnifiedError,
        /// Who executed.
        execution: Execution,
    }
}
record! {
    /// The result of a hosted tool.
    pub struct ServerToolResultItem {
        /// The call.
        call_id: String,
        /// Kind of tool.
        tool_type: UnifiedToolType,
        /// Tool name.
        name?: String,
        /// Output in order.
        output: Vec<UnifiedContentPart>,
        /// Whether it failed; absent is not false.
        is_error?: bool,
        /// How it failed.
        error?: UnifiedError,
        /// Who executed.
        execution: Execution,
    }
}
open_words! {
    /// What is to be approved.
    pub enum ApprovalSubject { ToolCall = "tool-call", Mcp = "mcp", SafetyCheck = "safety-check", Plan = "plan", }
}
record! {
    /// Why approval is asked.
    #[derive(Default)]
    pub struct ApprovalReason {
        /// Code to acknowledge.
        code?: String,
        /// In words.
        message?: String,
    }
}
record! {
    /// Somebody is asked to approve.
    pub struct ApprovalRequestItem {
        /// The question's ID, a foreign string.
        approval_id: String,
        /// The call.
        call_id?: String,
        /// What is to be approved.
        subject: ApprovalSubject,
        /// Tool name.
        name?: String,
        /// MCP server.
        server_label?: String,
        /// Argument text.
        raw_arguments?: String,
        /// Why.
        reasons?: Vec<ApprovalReason>,
    }
}
words! {
    /// An answer to an approval request.
    pub enum ApprovalDecision { Approved = "approved", Denied = "denied", }
}
record! {
    /// The answer to an approval request.
    pub struct ApprovalResponseItem {
        /// The question.
        approval_id: String,
        /// The answer.
        decision: ApprovalDecision,
        /// In words.
        reason?: String,
        /// Codes that are acknowledged.
        acknowledged?: Vec<String>,
    }
}
record! {
    /// Actions on a computer.
    pub struct ComputerActionItem {
        /// Stable call ID.
        call_id: String,
        /// Environment word.
        environment?: String,
        /// Objects with `action`, as written.
        actions: Vec<Json>,
        /// State of the call.
        lifecycle: UnifiedToolLifecycle,
        /// Whose duty the execution is.
        execution: Execution,
        /// Approval that it waits for.
        approval_id?: String,
    }
}
record! {
    /// What the computer shows afterwards.
    pub struct ComputerActionResultItem {
        /// The call.
        call_id: String,
        /// Screenshot as image part.
        output: Vec<UnifiedContentPart>,
        /// Address shown.
        current_url?: String,
        /// Whether it failed.
        is_error?: bool,
        /// How it failed.
        error?: UnifiedError,
    }
}
record! {
    /// Code that is executed.
    pub struct CodeExecutionItem {
        /// Stable call ID.
        call_id: String,
        /// Language.
        language?: String,
        /// The code.
        code?: String,
        /// Shell commands.
        commands?: Vec<String>,
        /// State of the call.
        lifecycle: UnifiedToolLifecycle,
        /// Whose duty the execution is.
        execution: Execution,
        /// Who made it.
        caller?: CallerRef,
        /// Sealed container handle.
        container?: UnifiedProviderResourceRef,
    }
}
open_words! {
    /// How an execution ended.
    pub enum ExecutionOutcome { Ok = "ok", Failed = "failed", Timeout = "timeout", }
}
record! {
    /// What an execution gave.
    pub struct CodeExecutionResultItem {
        /// The call.
        call_id: String,
        /// How it ended.
        outcome: ExecutionOutcome,
        /// Exit code.
        exit_code?: i64,
        /// Standard output.
        stdout?: String,
        /// Standard error.
        stderr?: String,
        /// Files and images.
        output: Vec<UnifiedContentPart>,
        /// How it failed.
        error?: UnifiedError,
    }
}
record! {
    /// What a search or retrieval found.
    pub struct FoundItem {
        /// The call.
        call_id?: String,
        /// Queries.
        queries: Vec<String>,
        /// Grounding sources.
        parts: Vec<UnifiedContentPart>,
        /// When.
        retrieved_at?: Timestamp,
        /// How it failed.
        error?: UnifiedError,
    }
}
open_words! {
    /// What an artifact is for.
    pub enum ArtifactPurpose { Generated = "generated", Uploaded = "uploaded", Workspace = "workspace", }
}
record! {
    /// An artifact in history.
    pub struct ArtifactItem {
        /// The artifact.
        artifact_id: UnifiedId,
        /// Its digest.
        sha256: Sha256,
        /// What is known about it.
        media: UnifiedMediaMetadata,
        /// What it is for.
        purpose?: ArtifactPurpose,
    }
}
record! {
    /// Points to an item.
    pub struct ItemTarget {
        /// The item.
        item_id: UnifiedId,
    }
}
record! {
    /// Points to a provider resource.
    pub struct ResourceTarget {
        /// The resource.
        resource: UnifiedProviderResourceRef,
    }
}
record! {
    /// Points to an address.
    pub struct UrlTarget {
        /// The address.
        url: String,
    }
}
tagged_union! {
    /// What a reference points to.
    pub enum ReferenceTarget {
        /// An item.
        Item(ItemTarget) = "item",
        /// A provider resource.
        Resource(ResourceTarget) = "resource",
        /// An address.
        Url(UrlTarget) = "url",
    }
}
standalone_union!(ReferenceTarget);
record! {
    /// A reference in history.
    pub struct ReferenceItem {
        /// What it points to.
        target: ReferenceTarget,
    }
}
record! {
    /// A contiguous prefix of a branch.
    pub struct CoveredRange {
        /// First item.
        from_item_id: UnifiedId,
        /// Last item.
        to_item_id: UnifiedId,
        /// Number of items.
        count: Count,
    }
}
words! {
    /// Who wrote a summary.
    pub enum SummaryAuthor { Engine = "engine", Provider = "provider", Client = "client", }
}
record! {
    /// A summary of a prefix.
    pub struct CompactionSummaryItem {
        /// The summary.
        parts: Vec<UnifiedContentPart>,
        /// What it covers.
        covers: CoveredRange,
        /// SHA-256 over `unified-compaction@1` and a line end, then the fingerprint of each covered item in hex and a line end.
        audit_hash: Sha256,
        /// Whether projections use it in place of the items.
        replaces: bool,
        /// Who wrote it.
        author: SummaryAuthor,
    }
}
words! {
    /// Why the provider changed.
    pub enum SwitchReason { Client = "client", Route = "route", Fallback = "fallback", RuntimeBoundary = "runtime-boundary", }
}
record! {
    /// From here on another provider answers.
    pub struct ProviderSwitchItem {
        /// Who answered before.
        from?: UnifiedAttribution,
        /// Who answers now.
        to: UnifiedAttribution,
        /// Wire before.
        from_profile?: UnifiedProtocolProfile,
        /// Wire now.
        to_profile: UnifiedProtocolProfile,
        /// Why.
        reason: SwitchReason,
    }
}
open_words! {
    /// What interrupted.
    pub enum InterruptionCause {
        ProcessRestart = "process-restart",
        ConnectionLost = "connection-lost",
        ClientCancel = "client-cancel",
        Deadline = "deadline",
        Provider = "provider",
    }
}
record! {
    /// An answer ended before its end.
    pub struct InterruptionItem {
        /// What interrupted.
        cause: InterruptionCause,
        /// The operation.
        operation_id: UnifiedId,
        /// Calls that have no result.
        open_call_ids: Vec<String>,
    }
}
record! {
    /// An error in history.
    pub struct ErrorItem {
        /// The error.
        error: UnifiedError,
    }
}

tagged_union! {
    /// Kind of an item with the members of the kind.
    pub enum UnifiedItemBody {
        /// Message.
        Message(MessageItem) = "message",
        /// Reasoning.
        Reasoning(ReasoningItem) = "reasoning",
        /// Tool call.
        ToolCall(ToolCallItem) = "tool-call",
        /// Its result.
        ToolResult(ToolResultItem) = "tool-result",
        /// Question for approval.
        ApprovalRequest(ApprovalRequestItem) = "approval-request",
        /// Answer to it.
        ApprovalResponse(ApprovalResponseItem) = "approval-response",
        /// Call of a hosted tool.
        ServerToolCall(ToolCallItem) = "server-tool-call",
        /// Its result.
        ServerToolResult(ServerToolResultItem) = "server-tool-result",
        /// Computer actions.
        ComputerAction(ComputerActionItem) = "computer-action",
        /// Their result.
        ComputerActionResult(ComputerActionResultItem) = "computer-action-result",
        /// Code.
        CodeExecution(CodeExecutionItem) = "code-execution",
        /// Its result.
        CodeExecutionResult(CodeExecutionResultItem) = "code-execution-result",
        /// What a search found.
        SearchResult(FoundItem) = "search-result",
        /// What a retrieval found.
        RetrievalResult(FoundItem) = "retrieval-result",
        /// Artifact.
        Artifact(ArtifactItem) = "artifact",
        /// Reference.
        Reference(ReferenceItem) = "reference",
        /// Summary of a prefix.
        CompactionSummary(CompactionSummaryItem) = "compaction-summary",
        /// Change of provider.
        ProviderSwitch(ProviderSwitchItem) = "provider-switch",
        /// Interruption.
        Interruption(InterruptionItem) = "interruption",
        /// Error.
        Error(ErrorItem) = "error",
    }
}

union_with_base! {
    /// One item of history.
    pub struct UnifiedItem { base: UnifiedItemBase, body: UnifiedItemBody }
}

impl UnifiedItemBase {
    /// A completed item for the model that has no place in a journal yet: conversation and branch are `pending`.
    pub fn unplaced(id: UnifiedId, role: Option<Role>, created_at: Timestamp, provenance: UnifiedItemProvenance) -> Self {
        Self {
            id,
            conversation_id: UnifiedId::pending(),
            branch_id: UnifiedId::pending(),
            sequence: 1,
            parent_id: None,
            created_at,
            role,
            visibility: Visibility::Model,
            status: ItemStatus::Completed,
            provenance,
            cache: None,
            provider_data: None,
        }
    }
}

impl UnifiedItem {
    /// The parts of the item, whatever its kind calls them.
    pub fn parts(&self) -> &[UnifiedContentPart] {
        match &self.body {
            UnifiedItemBody::Message(i) => &i.parts,
            UnifiedItemBody::Reasoning(i) => &i.parts,
            UnifiedItemBody::ToolResult(i) => &i.output,
            UnifiedItemBody::ServerToolResult(i) => &i.output,
            UnifiedItemBody::ComputerActionResult(i) => &i.output,
            UnifiedItemBody::CodeExecutionResult(i) => &i.output,
            UnifiedItemBody::SearchResult(i) | UnifiedItemBody::RetrievalResult(i) => &i.parts,
            UnifiedItemBody::CompactionSummary(i) => &i.parts,
            UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => &[],
        }
    }

    /// The parts of the item for change, where its kind has any.
    pub fn parts_mut(&mut self) -> Option<&mut Vec<UnifiedContentPart>> {
        match &mut self.body {
            UnifiedItemBody::Message(i) => Some(&mut i.parts),
            UnifiedItemBody::Reasoning(i) => Some(&mut i.parts),
            UnifiedItemBody::ToolResult(i) => Some(&mut i.output),
            UnifiedItemBody::ServerToolResult(i) => Some(&mut i.output),
            UnifiedItemBody::ComputerActionResult(i) => Some(&mut i.output),
            UnifiedItemBody::CodeExecutionResult(i) => Some(&mut i.output),
            UnifiedItemBody::SearchResult(i) | UnifiedItemBody::RetrievalResult(i) => Some(&mut i.parts),
            UnifiedItemBody::CompactionSummary(i) => Some(&mut i.parts),
            _ => None,
        }
    }

    /// The call ID of calls and results.
    pub fn call_id(&self) -> Option<&str> {
        match &self.body {
            UnifiedItemBody::ToolCall(i) | UnifiedItemBody::ServerToolCall(i) => Some(&i.call_id),
            UnifiedItemBody::ToolResult(i) => Some(&i.call_id),
            UnifiedItemBody::ServerToolResult(i) => Some(&i.call_id),
            UnifiedItemBody::ComputerAction(i) => Some(&i.call_id),
            UnifiedItemBody::ComputerActionResult(i) => Some(&i.call_id),
            UnifiedItemBody::CodeExecution(i) => Some(&i.call_id),
            UnifiedItemBody::CodeExecutionResult(i) => Some(&i.call_id),
            UnifiedItemBody::SearchResult(i) | UnifiedItemBody::RetrievalResult(i) => i.call_id.as_deref(),
            _ => None,
        }
    }

    /// The state of a call as it was appended; none for items that are no calls.
    pub fn lifecycle(&self) -> Option<UnifiedToolLifecycle> {
        match &self.body {
            UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => Some(call.lifecycle),
            UnifiedItemBody::ComputerAction(call) => Some(call.lifecycle),
            UnifiedItemBody::CodeExecution(call) => Some(call.lifecycle),
            UnifiedItemBody::Message(_)
            | UnifiedItemBody::Reasoning(_)
            | UnifiedItemBody::ToolResult(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => None,
        }
    }

    /// Whether the item belongs to the top-level instructions of a request, as far as a model is told them.
    pub fn is_instructions(&self) -> bool {
        self.visibility == Visibility::Model
            && matches!(&self.body, UnifiedItemBody::Message(m) if m.placement == Some(Placement::Instructions))
    }
}

record! {
    /// What a revision changes.
    #[derive(Default)]
    pub struct RevisionChange {
        /// New status.
        status?: ItemStatus,
        /// New parts.
        parts?: Vec<UnifiedContentPart>,
        /// New state of the call.
        lifecycle?: UnifiedToolLifecycle,
        /// Error.
        error?: UnifiedError,
    }
}
record! {
    /// A change of an item that is already in the journal; never of kind, role, call ID or name.
    pub struct UnifiedItemRevision {
        /// Its ID.
        revision_id: UnifiedId,
        /// The item.
        item_id: UnifiedId,
        /// Number of the revision, from 1.
        number: Count,
        /// When.
        created_at: Timestamp,
        /// What changes.
        change: RevisionChange,
        /// Why.
        reason: String,
        /// Operation that made it.
        operation_id?: UnifiedId,
    }
}

/// Where the newest run of top-level instructions stands on a path: the only one that a projection sends.
pub fn newest_instructions(path: &[UnifiedItem]) -> std::ops::Range<usize> {
    let Some(last) = path.iter().rposition(UnifiedItem::is_instructions) else {
        return 0..0;
    };
    let before = path.iter().take(last).rposition(|item| !item.is_instructions());
    before.map_or(0, |at| at + 1)..last + 1
}
