//! The provider switch: the item that tells that from here on another owner answers (spec, Canonical items).

use crate::engine::Engine;
use crate::ports::Target;
use throughline_format::item::{ProviderSwitchItem, SwitchReason, UnifiedItemBody, Visibility};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::ResourceType;
use throughline_format::{
    Timestamp, UnifiedAttribution, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBase, UnifiedItemProvenance, UnifiedProtocolProfile,
    UnifiedResourceOwner,
};

/// Who gave the last answer of a path.
#[derive(Clone, Debug)]
pub(crate) struct Answerer {
    profile: UnifiedProtocolProfile,
    attribution: UnifiedAttribution,
    /// Absent for answers that came from outside of this store.
    owner: Option<UnifiedResourceOwner>,
}

impl Answerer {
    /// Who gave the last answer of a path; `None` when nobody has.
    pub(crate) async fn last(engine: &Engine, path: &[UnifiedItem]) -> Result<Option<Self>, UnifiedError> {
        let Some(last) = path.iter().rev().find(|i| i.provenance.origin == ItemOrigin::Provider) else {
            return Ok(None);
        };
        let Some(profile) = last.provenance.profile.clone() else {
            return Ok(None);
        };
        let operation = match &last.provenance.operation_id {
            Some(id) => engine.store.operation(id).await.map_err(|e| e.to_unified())?,
            None => None,
        };
        Ok(Some(Self {
            profile,
            attribution: last.provenance.attribution.clone(),
            owner: operation.and_then(|operation| operation.owner),
        }))
    }

    /// A target as the one that answers.
    pub(crate) fn of(target: &Target) -> Self {
        Self {
            profile: target.codec.profile(),
            attribution: attribution(target),
            owner: Some(target.owner.clone()),
        }
    }

    /// Whether a target is the same owner: the exact scope, but for the model. Of an answer from elsewhere only protocol and
    /// vendor are known.
    fn is(&self, target: &Target) -> bool {
        match &self.owner {
            Some(owner) => owner.is_compatible(&target.owner, &ResourceType::Response),
            None => self.profile.family == target.codec.profile().family && self.attribution.model_provider == target.model_provider,
        }
    }

    /// The item that tells of a switch to a target; `None` when it is the same owner.
    pub(crate) fn switch(
        &self,
        target: &Target,
        operation_id: &UnifiedId,
        item_id: UnifiedId,
        reason: SwitchReason,
        now: Timestamp,
    ) -> Option<UnifiedItem> {
        if self.is(target) {
            return None;
        }
        let provenance = UnifiedItemProvenance {
            operation_id: Some(operation_id.clone()),
            ..UnifiedItemProvenance::of(ItemOrigin::Engine)
        };
        Some(UnifiedItem {
            base: UnifiedItemBase {
                visibility: Visibility::Client,
                ..UnifiedItemBase::unplaced(item_id, None, now, provenance)
            },
            body: UnifiedItemBody::ProviderSwitch(ProviderSwitchItem {
                from: Some(self.attribution.clone()),
                to: attribution(target),
                from_profile: Some(self.profile.clone()),
                to_profile: target.codec.profile(),
                reason,
            }),
        })
    }
}

fn attribution(target: &Target) -> UnifiedAttribution {
    UnifiedAttribution {
        provider: None,
        model_provider: target.model_provider.clone(),
        model: Some(target.model.clone()),
    }
}
