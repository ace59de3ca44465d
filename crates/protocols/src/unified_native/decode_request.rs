//! A request of the native API: the record itself, with IDs and provenance of this operation.

use super::profile;
use crate::codec::DecodedRequest;
use crate::context::DecodeContext;
use std::collections::BTreeMap;
use throughline_format::provenance::{ItemOrigin, RequestOrigin};
use throughline_format::validate::semantics;
use throughline_format::{UnifiedError, UnifiedId, UnifiedItem, UnifiedLossReport, UnifiedRequestV2, rename};

/// Reads a request, checks every rule of the format and gives its items their place.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let mut request: UnifiedRequestV2 = throughline_format::json::decode_slice(body)?;
    if let Some(violation) = semantics::request(&request).into_iter().next() {
        return Err(violation.into());
    }
    adopt(&mut request.conversation.items, context);
    if let Some(prefill) = &mut request.generation.prefill
        && let Some(last) = request.conversation.items.last()
    {
        // The rules of the format say that it names the last item.
        prefill.value.item_id = last.id.clone();
    }
    request.conversation.conversation_id = None;
    request.conversation.branch_id = None;
    request.conversation.head_item_id = None;
    request.request_id = context.request_id.clone();
    request.source.profile = profile();
    request.source.origin = RequestOrigin::Client;
    request.source.received_at = context.received_at;
    Ok(DecodedRequest {
        unified: request,
        resources: Vec::new(),
        loss: UnifiedLossReport::default(),
        // The journal always wants the events as they come; what the client reads is decided by how it asks.
        stream: true,
    })
}

/// Gives items the IDs of this operation. Whatever a client says about who wrote them, it is the client who says so.
pub(super) fn adopt(items: &mut [UnifiedItem], context: &DecodeContext) {
    let mut renamed = BTreeMap::new();
    for (ordinal, item) in (0..).zip(items.iter_mut()) {
        let id = context.item_id(ordinal);
        renamed.insert(item.base.id.clone(), id.clone());
        let mut own = Vec::new();
        item.parts().iter().for_each(|part| rename::part_ids(part, &mut own));
        renamed.extend((0..).zip(own).map(|(part, old)| (old, id.part(part))));
        item.base.conversation_id = UnifiedId::pending();
        item.base.branch_id = UnifiedId::pending();
        item.base.sequence = context.first_sequence + ordinal;
        item.base.parent_id = None;
        let mut provenance = context.provenance(ItemOrigin::Client, profile(), None);
        provenance.attribution = std::mem::take(&mut item.base.provenance.attribution);
        provenance.truncated = item.base.provenance.truncated;
        item.base.provenance = provenance;
    }
    for item in items {
        rename::item(item, &mut |id| {
            if let Some(new) = renamed.get(id) {
                *id = new.clone();
            }
        });
    }
}
