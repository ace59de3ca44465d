//! What the record cannot say: its schemas, and how it is kept.
//!
//! A part has its thought signature, fields without a Unified word, and its form where the wire can say one thing in two ways.
//! The first item of a content has the content's border. A tool has its group and, for hosted ones, its member as written.

use crate::keeper::{Keep, Keeper, payload_of, text_of};
use crate::raw;
use crate::side::SideResource;
use crate::synthetic::SyntheticSealer;
use throughline_format::part::ReasoningPrivateState;
use throughline_format::resource::{Issuer, ResourceType, UnmappedEntry, UnmappedPayload};
use throughline_format::{Json, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedProviderDataRef};

use crate::context::EncodeContext;

/// Schema of a thought signature.
pub(super) const SIGNATURE: &str = "gemini-generate-content/thought-signature@1";
/// Schema of the form of a part: members to put, or to take away where the value is null.
pub(super) const FORM: &str = "gemini-generate-content/form@1";
/// Schema of a content's border: its members besides the parts.
pub(super) const CONTENT: &str = "gemini-generate-content/content@1";
/// Schema of a tool's place and spelling.
pub(super) const TOOL: &str = "gemini-generate-content/tool@1";
/// Schema of a provider file's address.
pub(super) const FILE: &str = "gemini-generate-content/file-uri@1";
/// Schema of a cache's name.
pub(super) const CACHE: &str = "gemini-generate-content/cached-content@1";
/// Schema of a continuation token.
pub(super) const CONTINUATION: &str = "gemini-generate-content/continuation-token@1";
/// Schema of a session handle of an envelope.
pub(super) const SESSION: &str = "antigravity/session@1";
/// Schema of the form of a body.
pub(super) const BODY: &str = "gemini-generate-content/body-form@1";
/// Schema of an answer without its parts.
pub(super) const ANSWER: &str = "gemini-generate-content/answer@1";
/// Schema of usage as written.
pub(super) const USAGE: &str = "gemini-generate-content/usage@1";
/// Schema of an error body as written.
pub(super) const ERROR_BODY: &str = "gemini-generate-content/error-body@1";
/// Schema of safety ratings, a registered annotation.
pub(super) const RATINGS: &str = "safety/ratings@1";

/// The documented value that skips validation of thought signatures.
pub(super) const SENTINEL: &str = "skip_thought_signature_validator";
/// The documented values, plain and as base64 of a bytes field.
const SENTINELS: &[&str] = &[
    SENTINEL,
    "context_engineering_is_the_way_to_go",
    "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
    "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I",
    "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
];

/// Whether a signature is one of the documented values that skip validation.
pub(super) fn is_sentinel(signature: &str) -> bool {
    SENTINELS.contains(&signature)
}

/// Keeps a thought signature of a part or item.
pub(super) fn signature(keeper: &mut Keeper, subject: &UnifiedId, signature: String, path: &str) -> ReasoningPrivateState {
    // A value that skips validation is nobody's state, whoever sent it.
    let presented_by = if is_sentinel(&signature) {
        Issuer::Synthetic
    } else {
        keeper.issuer
    };
    let path = format!("{path}/thoughtSignature");
    let resource = SideResource::reasoning(
        keeper.profile.clone(),
        SIGNATURE,
        subject,
        signature.into_bytes(),
        presented_by,
        path,
    );
    let issuer = resource.issuer;
    ReasoningPrivateState {
        r#ref: keeper.push(resource),
        issuer,
    }
}

/// Keeps how the wire spelled something.
pub(super) fn form(keeper: &mut Keeper, subject: &UnifiedId, path: &str, members: Vec<(String, Json)>) -> Option<UnifiedProviderDataRef> {
    if members.is_empty() {
        return None;
    }
    let paths = members
        .iter()
        .filter(|(_, v)| v.as_str() != "null")
        .map(|(p, _)| format!("{path}{p}"))
        .collect();
    let entries = members
        .into_iter()
        .map(|(pointer, value)| UnmappedEntry { pointer, value })
        .collect();
    let payload = serde_json::to_vec(&UnmappedPayload { entries }).unwrap_or_default();
    let kept = Keep {
        schema: FORM,
        resource_type: ResourceType::Other("form".into()),
        subject: Some(subject),
        resource_id: subject.resource(2),
        paths,
    };
    Some(keeper.payload(kept, payload))
}

/// The form of something, when the target may see it.
pub(super) fn form_of(references: Option<&Vec<UnifiedProviderDataRef>>, context: &EncodeContext) -> Vec<UnmappedEntry> {
    payload_of(references, FORM, context)
        .map(|bytes| raw::entries(&bytes))
        .unwrap_or_default()
}

/// The signature among the references, when the target may see it. Our own synthetic ones never go to a provider.
pub(super) fn signature_of(references: Option<&Vec<UnifiedProviderDataRef>>, context: &EncodeContext) -> Option<String> {
    text_of(references, SIGNATURE, context).filter(|s| !s.is_empty() && !SyntheticSealer::is_synthetic(s))
}

/// The signature of an item that is one part of the wire.
pub(super) fn signature_of_item(item: &UnifiedItem, context: &EncodeContext) -> Option<String> {
    let linked = match &item.body {
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => call.private_linkage.clone(),
        _ => None,
    };
    signature_of(linked.map(|r| vec![r]).as_ref(), context).or_else(|| signature_of(item.base.provider_data.as_ref(), context))
}

/// Begin of call IDs that were made here because the wire gave none.
const MADE: &str = "call_gemini_";

/// A call ID for a call without one: a function of its item's ID.
pub(super) fn made_call_id(item_id: &UnifiedId) -> String {
    let digest = throughline_format::Sha256::of_all([b"throughline-gemini-call@1\n".as_slice(), item_id.as_str().as_bytes()]);
    let text = data_encoding::BASE32_NOPAD.encode(digest.as_bytes()).to_ascii_lowercase();
    format!("{MADE}{}", text.get(..26).unwrap_or(&text))
}

/// Whether a call ID was made here, so that the wire has none.
pub(super) fn is_made(call_id: &str) -> bool {
    call_id.strip_prefix(MADE).is_some_and(|rest| rest.len() == 26)
}
