//! The body for one target: the client's own bytes where that is safe, else a projection of the branch.

use crate::engine::Engine;
use crate::ports::Target;
use crate::private::OwnedState;
use crate::splice;
use crate::turn::Prepared;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use throughline_format::provenance::ItemOrigin;
use throughline_format::{UnifiedConversationInput, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedLossReport};
use throughline_protocols::EncodeContext;
use throughline_protocols::strength::set_strength;

/// A body for one target.
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    pub(crate) loss: UnifiedLossReport,
    pub(crate) stream: bool,
}

/// Writes the request for any of the targets of a turn.
pub(crate) struct Projector {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) history: Vec<UnifiedItem>,
    pub(crate) is_delta: bool,
    pub(crate) conversation_id: UnifiedId,
    /// Number of items at the end of the history that this operation itself made: its answer so far.
    pub(crate) answered: usize,
}

impl Projector {
    /// Goes on with the answer so far: the next request is a projection of the history with it.
    pub(crate) fn go_on(&mut self, answer: &[UnifiedItem]) {
        self.history.truncate(self.history.len() - self.answered);
        self.history.extend_from_slice(answer);
        self.answered = answer.len();
    }

    /// The body for a target: the client's own bytes where that is safe, else a projection of the branch.
    pub(crate) async fn project(&self, engine: &Engine, target: &Target) -> Result<Outgoing, UnifiedError> {
        let prepared = &self.prepared;
        let mut request = prepared.decoded.unified.clone();
        for (feature, requirement) in &target.requirements {
            set_strength(&mut request, *feature, *requirement);
        }
        let mut state = OwnedState::load(engine.store.as_ref(), &engine.vault, &self.conversation_id, &target.owner).await?;
        // A fallback has another owner than the first target, so what was presented is judged for each target anew.
        let claims = engine.claims(prepared, &[], Some(&self.conversation_id), target).await?;
        claims.lent.iter().for_each(|side| state.lend(side));
        if !claims.foreign
            && !self.is_delta
            && self.answered == 0
            && prepared.turn.codec.profile() == target.codec.profile()
            && self.calls_are_legal(target)
            && self.body_tells_all(target)
            && let Some(body) = splice::with_model(&prepared.turn.body, &target.model, target.codec.wire_traits().model_in_url)
        {
            return Ok(Outgoing {
                body,
                loss: UnifiedLossReport::default(),
                stream: prepared.decoded.stream,
            });
        }
        request.conversation = UnifiedConversationInput::complete(self.visible_history());
        let context = EncodeContext {
            target_model: Some(target.model.clone()),
            private: Arc::new(state),
            synthetic: engine.synthetic.clone(),
            stream: prepared.decoded.stream,
            ask_for_usage: true,
            dialect: target.dialect.clone(),
            project: target.owner.project.clone(),
            created_at: prepared.now,
            ..EncodeContext::plain(target.capabilities.clone())
        };
        let encoded = target.codec.encode_request(&request, &context)?;
        Ok(Outgoing {
            body: encoded.body.into(),
            loss: encoded.loss,
            stream: prepared.decoded.stream,
        })
    }

    /// The branch as this request sees it. A client that sends its whole history and no instructions has none any more,
    /// whatever the branch held before.
    fn visible_history(&self) -> Vec<UnifiedItem> {
        let has_instructions = self
            .prepared
            .decoded
            .unified
            .conversation
            .items
            .iter()
            .any(UnifiedItem::is_instructions);
        let holds = |item: &&UnifiedItem| self.is_delta || has_instructions || !item.is_instructions();
        self.history.iter().filter(holds).cloned().collect()
    }

    /// Whether every call ID of the request may stand on the target's wire as it is.
    fn calls_are_legal(&self, target: &Target) -> bool {
        self.prepared
            .decoded
            .unified
            .conversation
            .items
            .iter()
            .filter_map(UnifiedItem::call_id)
            .all(|id| target.codec.wire_call_id(id) == Cow::Borrowed(id))
    }

    /// Whether the client's own body says everything that the branch could tell this target: no turn of another provider,
    /// and no reasoning that the client's copy lacks and a dialect may demand back.
    fn body_tells_all(&self, target: &Target) -> bool {
        let family = target.codec.profile().family;
        let only_own = self
            .history
            .iter()
            .filter(|i| i.provenance.origin == ItemOrigin::Provider)
            .all(|i| i.provenance.profile.as_ref().is_some_and(|p| p.family == family));
        let reasoning = |items: &[UnifiedItem]| items.iter().filter(|i| matches!(i.body, UnifiedItemBody::Reasoning(_))).count();
        let complete = target.dialect.is_none() || reasoning(&self.history) <= reasoning(&self.prepared.decoded.unified.conversation.items);
        only_own && complete
    }
}
