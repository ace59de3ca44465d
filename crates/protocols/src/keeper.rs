//! [`Keeper`]: collects what the record cannot say while a payload is decoded, and hands it back to encoders of the same owner.
//!
//! Numbers of side resources of one subject: 0 signature or handle, 1 fields without a Unified word, 2 how the wire spelled it,
//! 3 the border of the wire object that the subject begins, 4 a second handle.

use crate::context::{DecodeContext, EncodeContext, PrivateState};
use crate::feature::Feature;
use crate::projection::LossCollector;
use crate::raw;
use crate::side::{self, SideResource};
use crate::synthetic::SyntheticSealer;
use bytes::Bytes;
use std::sync::Arc;
use throughline_format::item::Role;
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::{Issuer, ResourceType, UnmappedEntry};
use throughline_format::{
    Json, ProviderDataScope, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedProtocolProfile, UnifiedProviderDataRef,
    UnifiedProviderResourceRef,
};

/// Collects side resources and decode losses; `own` is what a protocol remembers besides.
pub struct Keeper<T = ()> {
    /// Context of the payload.
    pub context: Arc<DecodeContext>,
    /// Profile of the wire.
    pub profile: UnifiedProtocolProfile,
    /// Who made private state of this payload, when it is not synthetic.
    pub issuer: Issuer,
    /// Collected resources.
    pub resources: Vec<SideResource>,
    /// Collected losses.
    pub loss: LossCollector,
    /// What the protocol remembers besides.
    pub own: T,
}

/// What is kept under a schema of its own.
pub struct Keep<'a> {
    /// The schema.
    pub schema: &'a str,
    /// What it is bound to.
    pub resource_type: ResourceType,
    /// Item, part or tool; none for the payload as a whole.
    pub subject: Option<&'a UnifiedId>,
    /// Its ID.
    pub resource_id: UnifiedId,
    /// Pointers into the wire body.
    pub paths: Vec<String>,
}

impl<T: Default> Keeper<T> {
    /// An empty collector.
    pub fn new(context: &DecodeContext, profile: UnifiedProtocolProfile, issuer: Issuer) -> Self {
        Self {
            context: Arc::new(context.clone()),
            profile,
            issuer,
            resources: Vec::new(),
            loss: LossCollector::new(),
            own: T::default(),
        }
    }

    /// Keeps fields without a Unified word; `null` counts as absent. Returns the reference for the record.
    pub fn unmapped(
        &mut self,
        subject: &UnifiedId,
        path: &str,
        fields: impl IntoIterator<Item = (String, Json)>,
    ) -> Option<UnifiedProviderDataRef> {
        self.fields(Some(subject), subject.resource(1), path, fields)
    }

    /// Adds an item of the client to those of its request, after the last one and with the next ID.
    pub fn push_item(
        &self,
        items: &mut Vec<UnifiedItem>,
        role: Role,
        body: UnifiedItemBody,
        provider_data: Option<Vec<UnifiedProviderDataRef>>,
    ) {
        let position = items.len() as u64;
        let provenance = self.context.provenance(ItemOrigin::Client, self.profile.clone(), None);
        let parent = items.last().map(|item| item.id.clone());
        let mut item = self
            .context
            .item(self.context.item_id(position), position, parent, role, provenance, body);
        item.provider_data = provider_data;
        items.push(item);
    }

    /// The same for a subject that may be the whole body.
    pub fn fields(
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
        resource.map(|resource| self.push(resource))
    }

    /// Keeps one payload of its own schema.
    pub fn payload(&mut self, kept: Keep<'_>, payload: impl Into<Vec<u8>>) -> UnifiedProviderDataRef {
        let payload = payload.into();
        self.push(SideResource {
            resource_id: kept.resource_id,
            profile: self.profile.clone(),
            schema: kept.schema.to_owned(),
            scope: ProviderDataScope::OwnerPrivate,
            issuer: SyntheticSealer::issuer(&payload, self.issuer),
            resource_type: kept.resource_type,
            payload,
            wire_paths: kept.paths,
            subject: kept.subject.cloned(),
        })
    }

    /// Keeps a handle of something that the provider holds; the record gets a reference to it.
    pub fn handle(&mut self, kept: Keep<'_>, handle: String) -> UnifiedProviderResourceRef {
        let resource_type = kept.resource_type.clone();
        let reference = self.payload(kept, handle);
        self.reference(reference.resource_id, resource_type)
    }

    /// What a record says of a resource.
    pub fn reference(&self, resource_id: UnifiedId, resource_type: ResourceType) -> UnifiedProviderResourceRef {
        UnifiedProviderResourceRef {
            resource_id,
            resource_type,
            owner_fingerprint: self.context.owner_fingerprint,
            status: None,
            expires_at: None,
        }
    }

    /// Keeps a resource.
    pub fn push(&mut self, resource: SideResource) -> UnifiedProviderDataRef {
        let reference = resource.reference();
        self.resources.push(resource);
        reference
    }
}

/// References that are there, as a record carries them.
pub fn references(found: impl IntoIterator<Item = Option<UnifiedProviderDataRef>>) -> Option<Vec<UnifiedProviderDataRef>> {
    let list: Vec<_> = found.into_iter().flatten().collect();
    (!list.is_empty()).then_some(list)
}

/// The payload of the first reference with this schema that the target may see.
pub fn payload_in<'a>(
    private: &dyn PrivateState,
    references: impl IntoIterator<Item = &'a UnifiedProviderDataRef>,
    schema: &str,
) -> Option<Bytes> {
    let mut of_schema = references.into_iter().filter(|reference| reference.schema == schema);
    of_schema.find_map(|reference| private.payload(&reference.resource_id))
}

/// The same among the references of a record.
pub fn payload_of(references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str, context: &EncodeContext) -> Option<Bytes> {
    payload_in(context.private.as_ref(), references.into_iter().flatten(), schema)
}

/// The same as text.
pub fn text_of(references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str, context: &EncodeContext) -> Option<String> {
    String::from_utf8(payload_of(references, schema, context)?.to_vec()).ok()
}

/// A payload as JSON.
pub fn to_json(payload: &Bytes) -> Option<Json> {
    Json::from_text(String::from_utf8(payload.to_vec()).ok()?).ok()
}

/// Fields to put back, when the target may see them.
pub fn unmapped_of(
    references: Option<&Vec<UnifiedProviderDataRef>>,
    profile: &UnifiedProtocolProfile,
    context: &EncodeContext,
) -> Vec<UnmappedEntry> {
    unmapped_in(payload_of(references, &side::unmapped_schema(profile), context))
}

/// The fields of an unmapped payload; none without one.
pub fn unmapped_in(payload: Option<Bytes>) -> Vec<UnmappedEntry> {
    payload.map(|bytes| raw::entries(&bytes)).unwrap_or_default()
}
