//! [`OfflinePrivateState`]: private state of a conversion, taken from the payload that is being converted.

use bytes::Bytes;
use std::collections::BTreeMap;
use throughline_format::UnifiedId;
use throughline_format::resource::{Issuer, ProviderDataScope};
use throughline_protocols::{PrivateState, SideResource};

/// The side resources of one decode, as far as the target may see them.
///
/// A synthetic payload authenticates nothing and goes to nobody. A portable annotation goes anywhere. For everything else
/// the owners decide.
#[derive(Debug, Default)]
pub struct OfflinePrivateState {
    by_id: BTreeMap<UnifiedId, Bytes>,
    of_root: BTreeMap<String, Bytes>,
}

impl OfflinePrivateState {
    /// Keeps what the target may see; `is_compatible` compares the owners for a resource.
    pub fn new(resources: &[SideResource], is_compatible: impl Fn(&SideResource) -> bool) -> Self {
        let mut state = Self::default();
        for resource in resources {
            let visible = resource.scope == ProviderDataScope::PortableAnnotation || is_compatible(resource);
            if !visible || resource.issuer == Issuer::Synthetic {
                continue;
            }
            let payload = Bytes::from(resource.payload.clone());
            if resource.subject.is_none() {
                state.of_root.insert(resource.schema.clone(), payload.clone());
            }
            state.by_id.insert(resource.resource_id.clone(), payload);
        }
        state
    }
}

impl PrivateState for OfflinePrivateState {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.by_id.get(resource_id).cloned()
    }

    fn root_payload(&self, schema: &str) -> Option<Bytes> {
        self.of_root.get(schema).cloned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use throughline_format::resource::ResourceType;
    use throughline_format::{ProtocolFamily, UnifiedProtocolProfile};

    fn resource(number: u64, scope: ProviderDataScope, issuer: Issuer, of_root: bool) -> SideResource {
        let subject = UnifiedId::offline_operation().item(number);
        SideResource {
            resource_id: subject.resource(0),
            profile: UnifiedProtocolProfile::of(ProtocolFamily::AnthropicMessages),
            schema: format!("anthropic-messages/example-{number}@1"),
            scope,
            issuer,
            resource_type: ResourceType::Reasoning,
            payload: number.to_string().into_bytes(),
            wire_paths: Vec::new(),
            subject: (!of_root).then_some(subject),
        }
    }

    #[test]
    fn owners_decide_but_synthetic_state_goes_to_nobody_and_annotations_to_everybody() {
        use ProviderDataScope::{OwnerPrivate, PortableAnnotation};
        let all = [
            resource(0, OwnerPrivate, Issuer::Provider, false),
            resource(1, OwnerPrivate, Issuer::Synthetic, false),
            resource(2, PortableAnnotation, Issuer::Provider, false),
            resource(3, OwnerPrivate, Issuer::ClientAsserted, true),
        ];
        let seen = |compatible: bool| {
            let state = OfflinePrivateState::new(&all, |_| compatible);
            let ids = all.iter().map(|r| state.payload(&r.resource_id).is_some()).collect::<Vec<_>>();
            (ids, state.root_payload("anthropic-messages/example-3@1").is_some())
        };
        assert_eq!(seen(true), (vec![true, false, true, true], true));
        assert_eq!(seen(false), (vec![false, false, true, false], false));
    }
}
