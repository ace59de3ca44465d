//! What the record cannot say, both ways: collected by decoders, put back by encoders for the same owner.
//!
//! Numbers of side resources of one subject: 0 signature or handle, 1 unmapped fields, 2 citations or the whole block, 3 fields
//! of the message that the subject begins.

use super::decode_call::Called;
use crate::context::EncodeContext;
use crate::keeper::{payload_of, to_json};
use std::collections::BTreeMap;
use throughline_format::{Json, UnifiedProviderDataRef};

/// Schema of a thinking block's signature.
pub(super) const SIGNATURE: &str = "anthropic-messages/thinking-signature@1";
/// Schema of withheld reasoning.
pub(super) const REDACTED: &str = "anthropic-messages/redacted-thinking@1";
/// Schema of a block that holds private state of the provider, as written.
pub(super) const BLOCK: &str = "anthropic-messages/block@1";
/// Schema of a text block's citations, as written.
pub(super) const CITATIONS: &str = "anthropic-messages/citations@1";
/// Schema of the fields of a message that its first item begins; present without fields when neighbours of one role are apart.
pub(super) const MESSAGE: &str = "anthropic-messages/message@1";
/// Schema of a provider file's handle.
pub(super) const FILE: &str = "anthropic-messages/file-id@1";
/// Schema of the provider's message ID.
pub(super) const MESSAGE_ID: &str = "anthropic-messages/message-id@1";
/// Schema of a response's usage, as written.
pub(super) const USAGE: &str = "anthropic-messages/usage@1";

/// Schema of an event or change of a stream that this version has no type for, as written.
pub(super) const EVENT: &str = "anthropic-messages/event@1";
/// Schema of a container's handle.
pub(super) const CONTAINER: &str = "anthropic-messages/container@1";
/// Schema of the handle of a skill of the workspace.
pub(super) const SKILL: &str = "anthropic-messages/skill@1";
/// Schema of the message that a thread of the provider goes on after.
pub(super) const THREAD: &str = "anthropic-messages/thread@1";

/// Schema of an error body, as written.
pub(super) const ERROR_BODY: &str = "anthropic-messages/error-body@1";

/// Collects side resources and decode losses, and remembers the calls so far by their ID.
pub(super) type Keeper = crate::keeper::Keeper<BTreeMap<String, Called>>;

/// The same as JSON.
pub(super) fn json_of(references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str, context: &EncodeContext) -> Option<Json> {
    to_json(&payload_of(references, schema, context)?)
}

/// Whether the JSON holds a signature that this gateway made.
pub(super) fn holds_synthetic(json: &Json) -> bool {
    json.as_str().contains(crate::synthetic::PREFIX)
}
