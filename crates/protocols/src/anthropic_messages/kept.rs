//! What the record cannot say, both ways: collected by decoders, put back by encoders for the same owner.
//!
//! Numbers of side resources of one subject: 0 signature or handle, 1 unmapped fields, 2 citations or the whole block, 3 fields
//! of the message that the subject begins.

use super::decode_call::Called;
use super::wire::Members;
use crate::context::{DecodeContext, EncodeContext};
use crate::feature::Feature;
use crate::projection::LossCollector;
use crate::side::{self, SideResource};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_format::json::escape_pointer_token;
use throughline_format::resource::{Issuer, ResourceType, UnmappedEntry, UnmappedPayload};
use throughline_format::{Json, ProviderDataScope, UnifiedId, UnifiedProtocolProfile, UnifiedProviderDataRef};

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

/// Collects side resources and decode losses.
pub(super) struct Keeper {
    /// Context of the payload.
    pub(super) context: Arc<DecodeContext>,
    /// Profile of the wire.
    pub(super) profile: UnifiedProtocolProfile,
    /// Who made private state of this payload, when it is not synthetic.
    pub(super) issuer: Issuer,
    /// Collected resources.
    pub(super) resources: Vec<SideResource>,
    /// Collected losses.
    pub(super) loss: LossCollector,
    /// Calls so far, by ID.
    pub(super) called: BTreeMap<String, Called>,
}

impl Keeper {
    /// An empty collector.
    pub(super) fn new(context: Arc<DecodeContext>, profile: UnifiedProtocolProfile, issuer: Issuer) -> Self {
        Self {
            context,
            profile,
            issuer,
            resources: Vec::new(),
            loss: LossCollector::new(),
            called: BTreeMap::new(),
        }
    }

    /// Keeps fields without a Unified word; `null` counts as absent. Returns the reference for the record.
    pub(super) fn unmapped(
        &mut self,
        subject: &UnifiedId,
        path: &str,
        fields: impl IntoIterator<Item = (String, Json)>,
    ) -> Option<UnifiedProviderDataRef> {
        self.fields(Some(subject), subject.resource(1), path, fields)
    }

    /// The same for a subject that may be the whole body.
    pub(super) fn fields(
        &mut self,
        subject: Option<&UnifiedId>,
        resource_id: UnifiedId,
        path: &str,
        fields: impl IntoIterator<Item = (String, Json)>,
    ) -> Option<UnifiedProviderDataRef> {
        let fields: Vec<_> = fields.into_iter().filter(|(_, value)| value.as_str() != "null").collect();
        for (pointer, _) in &fields {
            self.loss.info(
                Feature::WireUnmapped,
                format!("{path}{pointer}"),
                "no Unified word; kept for the same owner",
            );
        }
        let (resource, refused) = side::unmapped(&self.profile, subject, resource_id, path, fields);
        for pointer in refused {
            self.loss.warning(
                Feature::WireUnmapped,
                format!("{path}{pointer}"),
                "beyond the bounds of what is kept",
            );
        }
        resource.map(|resource| self.keep(resource))
    }

    /// Keeps one payload of its own schema.
    pub(super) fn payload(
        &mut self,
        schema: &str,
        resource_type: ResourceType,
        subject: Option<&UnifiedId>,
        resource_id: UnifiedId,
        payload: Vec<u8>,
        path: &str,
    ) -> UnifiedProviderDataRef {
        let synthetic = payload.starts_with(crate::synthetic::PREFIX.as_bytes());
        self.keep(SideResource {
            resource_id,
            profile: self.profile.clone(),
            schema: schema.to_owned(),
            scope: ProviderDataScope::OwnerPrivate,
            issuer: if synthetic { Issuer::Synthetic } else { self.issuer },
            resource_type,
            payload,
            wire_paths: vec![path.to_owned()],
            subject: subject.cloned(),
        })
    }

    /// Keeps a resource.
    fn keep(&mut self, resource: SideResource) -> UnifiedProviderDataRef {
        let reference = resource.reference();
        self.resources.push(resource);
        reference
    }
}

/// References that are there, as a record carries them.
pub(super) fn references(found: impl IntoIterator<Item = Option<UnifiedProviderDataRef>>) -> Option<Vec<UnifiedProviderDataRef>> {
    let list: Vec<_> = found.into_iter().flatten().collect();
    (!list.is_empty()).then_some(list)
}

/// Members of an object as pointers and values below `prefix`.
pub(super) fn below(prefix: &str, members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    members
        .into_iter()
        .map(|(key, value)| (format!("{prefix}/{}", escape_pointer_token(&key)), value))
        .collect()
}

/// The payload of this schema among the references, when the target may see it.
pub(super) fn payload_of(references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str, context: &EncodeContext) -> Option<Bytes> {
    references?
        .iter()
        .find(|r| r.schema == schema)
        .and_then(|r| context.private.payload(&r.resource_id))
}

/// The same as JSON.
pub(super) fn json_of(references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str, context: &EncodeContext) -> Option<Json> {
    to_json(&payload_of(references, schema, context)?)
}

/// A payload as JSON.
pub(super) fn to_json(payload: &Bytes) -> Option<Json> {
    Json::from_text(String::from_utf8(payload.to_vec()).ok()?).ok()
}

/// Fields to put back, when the target may see them.
pub(super) fn unmapped_of(
    references: Option<&Vec<UnifiedProviderDataRef>>,
    profile: &UnifiedProtocolProfile,
    context: &EncodeContext,
) -> Vec<UnmappedEntry> {
    payload_of(references, &side::unmapped_schema(profile), context)
        .map(|bytes| entries(&bytes))
        .unwrap_or_default()
}

/// The entries of an unmapped payload.
pub(super) fn entries(payload: &[u8]) -> Vec<UnmappedEntry> {
    serde_json::from_slice::<UnmappedPayload>(payload)
        .map(|p| p.entries)
        .unwrap_or_default()
}

/// Puts fields back into an object.
pub(super) fn put_all(json: Json, entries: &[UnmappedEntry]) -> Json {
    entries.iter().fold(json, |json, entry| put(&json, &entry.pointer, &entry.value))
}

/// The object with the value at the pointer; missing objects on the way are made, what cannot be placed is left out.
pub(super) fn put(json: &Json, pointer: &str, value: &Json) -> Json {
    let Some(rest) = pointer.strip_prefix('/') else {
        return value.clone();
    };
    let (token, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let token = token.replace("~1", "/").replace("~0", "~");
    let changed = if json.is_object() {
        let Ok(mut members) = json.decode::<Members>() else {
            return json.clone();
        };
        match members.extra.0.iter_mut().find(|(key, _)| *key == token) {
            Some((_, old)) => *old = put(old, rest, value),
            None => members.extra.0.push((token, put(&object(Vec::new()), rest, value))),
        }
        Json::from_serialize(&members)
    } else {
        let Ok(mut list) = json.decode::<Vec<Json>>() else {
            return json.clone();
        };
        if let Some(old) = token.parse::<usize>().ok().and_then(|index| list.get_mut(index)) {
            *old = put(old, rest, value);
        }
        Json::from_serialize(&list)
    };
    changed.unwrap_or_else(|_| json.clone())
}

/// An object of these members.
pub(super) fn object(members: Vec<(String, Json)>) -> Json {
    json(&Members {
        extra: crate::wire::Extra(members),
    })
}

/// Any value of this module as JSON; values of the wire always have a JSON form.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Json {
    Json::from_serialize(value).unwrap_or_else(|_| Json::null())
}

/// Whether the JSON holds a signature that this gateway made.
pub(super) fn holds_synthetic(json: &Json) -> bool {
    json.as_str().contains(crate::synthetic::PREFIX)
}
