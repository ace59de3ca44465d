//! What the record has no word for, and handles of the runtime; all of it goes back only to its owner.

use throughline_format::resource::ResourceType;

/// Schema of raw members.
pub(super) const UNMAPPED: &str = "cursor-sdk/unmapped@1";
/// Schema of spellings of a body.
pub(super) const FORM: &str = "cursor-sdk/form@1";
/// Schema of an agent's ID: it leads to the runtime's memory of a conversation.
pub(super) const AGENT: &str = "cursor-sdk/agent-id@1";
/// Schema of a run's ID.
pub(super) const RUN: &str = "cursor-sdk/run-id@1";
/// Schema of a reference to a local checkpoint, never looked into.
pub(super) const CHECKPOINT: &str = "cursor-sdk/checkpoint@1";
/// Schema of a call ID as the runtime wrote it, where the record has another form.
pub(super) const CALL_ID: &str = "cursor-sdk/call-id@1";
/// Schema of where a stored run can be read on.
pub(super) const OFFSET: &str = "cursor-sdk/offset@1";

/// Kind of resources that are no state of a provider.
pub(super) fn other() -> ResourceType {
    ResourceType::Other("unmapped".into())
}
