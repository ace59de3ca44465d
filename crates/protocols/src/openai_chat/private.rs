//! What the record has no word for: members kept raw, and how a message was spelled. Both go back only to their owner.
//!
//! One wire message has at most one resource of each schema, on the first item that it became; pointers in it start at
//! the message. A tool has its own, and the body as a whole too.

use super::profile;
use crate::context::{EncodeContext, PrivateState};
use crate::side::{SideResource, unmapped};
use crate::synthetic::SyntheticSealer;
use crate::wire::Extra;
use serde::{Deserialize, Serialize};
use throughline_format::resource::{Issuer, ProviderDataScope, ResourceType, UnmappedEntry, UnmappedPayload};
use throughline_format::{Json, UnifiedId, UnifiedProviderDataRef};

/// Schema of raw members.
pub(super) const UNMAPPED: &str = "openai-chat/unmapped@1";
/// Schema of spellings.
pub(super) const FORM: &str = "openai-chat/form@1";
/// Schema of `reasoning_details`, as JSON text of the list.
pub(super) const REASONING_DETAILS: &str = "openai-chat/reasoning-details@1";
/// Schema of the signature that comes with a call.
pub(super) const THOUGHT_SIGNATURE: &str = "openai-chat/thought-signature@1";
/// Schema of file handles.
pub(super) const FILE_ID: &str = "openai-chat/file-id@1";
/// Marks a call ID that only its own provider takes; the payload is the ID.
pub(super) const CALL_ID: &str = "openai-chat/call-id@1";
/// Schema of the hosted tools that a provider ran for an answer: pointer and value, as in [`UNMAPPED`], without its bounds.
pub(super) const EXECUTED: &str = "openai-chat/executed-tools@1";
/// Member of a message that holds them.
pub(super) const EXECUTED_TOOLS: &str = "executed_tools";
/// Schema of handles of audio answers.
pub(super) const AUDIO_ID: &str = "openai-chat/audio-id@1";

/// How a message was spelled where the wire has two ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    /// Number of items that the message became, where neighbours would join otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<usize>,
    /// Members that carry the reasoning text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<String>,
    /// `parts`, `empty` or `null`, where another spelling would be chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The refusal is a content part.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refusal_part: bool,
    /// Deprecated function calling.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub legacy: bool,
    /// The body names the mode of the prompt cache.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cache_mode: bool,
    /// Members as written whose record has another shape: pointer and value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<(String, Json)>,
    /// Members that an encoder writes and that were not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// A tool message carries media.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub media: bool,
}

impl Form {
    /// The form as a resource; none for the usual form.
    pub(super) fn resource(&self, subject: Option<&UnifiedId>, resource_id: UnifiedId, wire_path: &str) -> Option<SideResource> {
        if *self == Self::default() {
            return None;
        }
        let paths = self.members.iter().map(|(pointer, _)| format!("{wire_path}{pointer}")).collect();
        Some(private_text(
            FORM,
            subject,
            resource_id,
            serde_json::to_vec(self).unwrap_or_default(),
            paths,
        ))
    }

    /// Remembers a member as it was written.
    pub(super) fn member(&mut self, pointer: impl Into<String>, value: impl Into<serde_json::Value>) {
        self.members.push((pointer.into(), Json::from_value(&value.into())));
    }

    /// A member as it was written.
    pub(super) fn written(&self, pointer: &str) -> Option<&Json> {
        self.members.iter().find(|(p, _)| p == pointer).map(|(_, value)| value)
    }

    /// The form of an item, as far as the target may see it.
    pub(super) fn of(private: &dyn PrivateState, references: Option<&Vec<UnifiedProviderDataRef>>) -> Self {
        payload(private, references, FORM)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// The form of the body as a whole.
    pub(super) fn of_root(private: &dyn PrivateState) -> Self {
        private
            .root_payload(FORM)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }
}

/// A private resource of this family.
pub(super) fn private_text(
    schema: &str,
    subject: Option<&UnifiedId>,
    resource_id: UnifiedId,
    payload: Vec<u8>,
    wire_paths: Vec<String>,
) -> SideResource {
    SideResource {
        resource_id,
        profile: profile(),
        schema: schema.to_owned(),
        scope: ProviderDataScope::OwnerPrivate,
        issuer: SyntheticSealer::issuer(&payload, Issuer::ClientAsserted),
        resource_type: ResourceType::Other("unmapped".into()),
        payload,
        wire_paths,
        subject: subject.cloned(),
    }
}

/// Hosted tools that ran, for their owner; a stream tells each of them more than once, and the last telling counts.
pub(super) fn executed_tools(id: UnifiedId, told: Vec<(String, Json)>) -> Option<SideResource> {
    let mut entries: Vec<UnmappedEntry> = Vec::new();
    for (pointer, value) in told {
        match entries.iter_mut().find(|e| e.pointer == pointer) {
            Some(known) => known.value = value,
            None => entries.push(UnmappedEntry { pointer, value }),
        }
    }
    let paths: Vec<String> = entries.iter().map(|e| e.pointer.clone()).collect();
    let payload = serde_json::to_vec(&UnmappedPayload { entries }).unwrap_or_default();
    (!paths.is_empty()).then(|| SideResource {
        issuer: Issuer::Provider,
        ..private_text(EXECUTED, None, id, payload, paths)
    })
}

/// Keeps a call ID that the usual rules refuse, or that the record says in another way, so that it goes back unchanged to whoever
/// gave it.
pub(super) fn own_call_id(item: &UnifiedId, call_id: &str, is_replaced: bool) -> Option<SideResource> {
    let is_plain = crate::call_id::is_legal(call_id, super::CALL_ID_LENGTH) && !is_replaced;
    (!is_plain).then(|| private_text(CALL_ID, Some(item), item.resource(3), call_id.as_bytes().to_vec(), Vec::new()))
}

/// The payload of the first reference with this schema that the target may see.
pub(super) fn payload(private: &dyn PrivateState, references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str) -> Option<bytes::Bytes> {
    references?
        .iter()
        .filter(|r| r.schema == schema)
        .find_map(|r| private.payload(&r.resource_id))
}

/// Raw members collected from one wire object.
#[derive(Debug, Default)]
pub(super) struct Leftovers(pub Vec<(String, Json)>);

impl Leftovers {
    /// Adds a member; a `null` means nothing and is dropped.
    pub(super) fn add(&mut self, pointer: impl Into<String>, value: Json) {
        if value.as_str() != "null" {
            self.0.push((pointer.into(), value));
        }
    }

    /// Adds a value of this program.
    pub(super) fn add_value(&mut self, pointer: impl Into<String>, value: impl Into<serde_json::Value>) {
        self.add(pointer, Json::from_value(&value.into()));
    }

    /// Adds the unknown members of an object inside.
    pub(super) fn extra(&mut self, prefix: &str, extra: Extra) {
        for (pointer, value) in extra.into_unmapped() {
            self.add(format!("{prefix}{pointer}"), value);
        }
    }

    /// The resource, and the pointers that went beyond its bounds.
    pub(super) fn resource(
        self,
        subject: Option<&UnifiedId>,
        resource_id: UnifiedId,
        wire_path: &str,
    ) -> (Option<SideResource>, Vec<String>) {
        unmapped(&profile(), subject, resource_id, wire_path, self.0)
    }
}

/// Raw members to put back.
#[derive(Debug, Default)]
pub(super) struct Entries(Vec<UnmappedEntry>);

impl Entries {
    /// Those of an item or tool.
    pub(super) fn of(private: &dyn PrivateState, references: Option<&Vec<UnifiedProviderDataRef>>) -> Self {
        Self::parse(payload(private, references, UNMAPPED))
    }

    /// Those of the body as a whole.
    pub(super) fn of_root(context: &EncodeContext) -> Self {
        let mut all = Self::parse(context.private.root_payload(UNMAPPED));
        all.0.extend(Self::parse(context.private.root_payload(EXECUTED)).0);
        all
    }

    fn parse(bytes: Option<bytes::Bytes>) -> Self {
        let payload: Option<UnmappedPayload> = bytes.and_then(|b| serde_json::from_slice(&b).ok());
        Self(payload.map(|p| p.entries).unwrap_or_default())
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value at a pointer.
    pub(super) fn get(&self, pointer: &str) -> Option<&Json> {
        self.0.iter().find(|e| e.pointer == pointer).map(|e| &e.value)
    }

    /// Whether the message is marked as one that the answer continues.
    pub(super) fn is_prefix(&self) -> bool {
        ["/prefix", "/partial"].iter().any(|pointer| self.get(pointer).is_some())
    }

    /// Whether something stands at or below a pointer.
    pub(super) fn covers(&self, pointer: &str) -> bool {
        self.0.iter().any(|e| {
            e.pointer
                .strip_prefix(pointer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Direct members of the object at `prefix`, without those named in `but`.
    pub(super) fn level(&self, prefix: &str, but: &[&str]) -> Extra {
        let members = self.0.iter().filter_map(|e| {
            let token = e.pointer.strip_prefix(prefix)?.strip_prefix('/')?;
            (!token.contains('/')).then(|| {
                (
                    throughline_format::json::unescape_pointer_token(token).into_owned(),
                    e.value.clone(),
                )
            })
        });
        Extra(members.filter(|(key, _)| !but.contains(&key.as_str())).collect())
    }

    /// Puts everything into a value, where nothing stands yet; skips pointers that `skip` tells.
    pub(super) fn put_all(&self, target: &mut serde_json::Value, skip: impl Fn(&str) -> bool) {
        for entry in self.0.iter().filter(|e| !skip(&e.pointer)) {
            put(target, &entry.pointer, entry.value.parse());
        }
    }
}

/// Puts a value at a pointer. Missing objects on the way are made, and missing lists where `0` stands for their first element;
/// a list grows by the element after its last one, and by no other.
fn put(target: &mut serde_json::Value, pointer: &str, value: serde_json::Value) {
    use serde_json::Value;
    let mut place = target;
    for token in pointer.split('/').skip(1) {
        if place.is_null() {
            *place = if token == "0" {
                Value::Array(Vec::new())
            } else {
                Value::Object(serde_json::Map::new())
            };
        }
        let next = match place {
            Value::Object(map) => Some(
                map.entry(throughline_format::json::unescape_pointer_token(token).into_owned())
                    .or_insert(Value::Null),
            ),
            Value::Array(list) => {
                let index = token.parse::<usize>().ok();
                if index == Some(list.len()) {
                    list.push(Value::Null);
                }
                index.and_then(|i| list.get_mut(i))
            }
            _ => None,
        };
        let Some(next) = next else { return };
        place = next;
    }
    *place = value;
}

/// Takes the member at a pointer away.
pub(super) fn remove(target: &mut serde_json::Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(serde_json::Value::Object(map)) = target.pointer_mut(parent) {
        map.shift_remove(&*throughline_format::json::unescape_pointer_token(key));
    }
}
