//! The body for one target: the client's own bytes where that is safe, else a projection of the branch.

use crate::checkpoints::{self, Head, Refused, Usable};
use crate::engine::Engine;
use crate::ports::Target;
use crate::private::OwnedState;
use crate::splice;
use crate::turn::Prepared;
use crate::webhooks;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use throughline_format::compaction::{self, Reader};
use throughline_format::conversation::Completeness;
use throughline_format::item::newest_instructions;
use throughline_format::provenance::ItemOrigin;
use throughline_format::tool::Execution;
use throughline_format::{
    UnifiedConversationInput, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedLossReport, UnifiedToolType,
};
use throughline_protocols::EncodeContext;
use throughline_protocols::strength::set_strength;

/// A body for one target.
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    pub(crate) loss: UnifiedLossReport,
    pub(crate) stream: bool,
    /// The checkpoint that it goes on by, for when its owner does not know it any more.
    pub(crate) goes_on_by: Option<Refused>,
}

/// Writes the request for any of the targets of a turn.
pub(crate) struct Projector {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) history: Vec<UnifiedItem>,
    pub(crate) is_delta: bool,
    pub(crate) conversation_id: UnifiedId,
    /// Number of the history's items that the branch had before the turn's own input.
    pub(crate) shared: usize,
    /// Whether the client's copy tells results otherwise than they were sent: what a provider holds is not that history then.
    pub(crate) rewritten: bool,
    /// Where the branch stood then, when the input goes on there; none once the operation's own answer stands behind it.
    pub(crate) head: Option<Head>,
    /// Number of items at the end of the history that this operation itself made: its answer so far.
    pub(crate) answered: usize,
}

impl Projector {
    /// Whether an answer may leave something to this process: calls of its own tools, or questions of the provider.
    pub(crate) fn may_act(&self) -> bool {
        let (tools, options) = (&self.prepared.decoded.unified.tools, &self.prepared.turn.options);
        tools
            .iter()
            .any(|tool| tool.execution == Execution::Ccr || options.waits_for_approvals)
    }

    /// Goes on with the answer so far: the next request is a projection of the history with it. The branch has left the head
    /// behind, so no checkpoint there may be used any more.
    pub(crate) fn go_on(&mut self, answer: &[UnifiedItem]) {
        self.head = None;
        self.history.truncate(self.history.len() - self.answered);
        self.history.extend_from_slice(answer);
        self.answered = answer.len();
    }

    /// The body for a target: the client's own bytes where that is safe, else what is new behind a checkpoint of the target at
    /// the head, else the history.
    pub(crate) async fn project(&self, engine: &Engine, target: &Target) -> Result<Outgoing, UnifiedError> {
        self.write(engine, target, true).await
    }

    /// The body for a target without any checkpoint.
    pub(crate) async fn rebuild(&self, engine: &Engine, target: &Target) -> Result<Outgoing, UnifiedError> {
        self.write(engine, target, false).await
    }

    async fn write(&self, engine: &Engine, target: &Target, may_go_on: bool) -> Result<Outgoing, UnifiedError> {
        let prepared = &self.prepared;
        let mut request = prepared.decoded.unified.clone();
        webhooks::settle(&mut request, target);
        for (feature, requirement) in &target.requirements {
            set_strength(&mut request, *feature, *requirement);
        }
        // A fallback has another owner than the first target, so what was presented is judged for each target anew.
        let claims = engine.claims(prepared, &[], Some(&self.conversation_id), target).await?;
        if !claims.foreign
            && !self.is_delta
            && self.answered == 0
            && prepared.turn.codec.profile() == target.codec.profile()
            && target.codec.takes_own_bytes(target.dialect.as_deref())
            && self.calls_are_legal(target)
            && self.body_tells_all(target)
            && let Some(body) = splice::with_model(&prepared.turn.body, &target.model, target.codec.wire_traits().model_in_url)
        {
            return Ok(Outgoing {
                body,
                loss: UnifiedLossReport::default(),
                stream: prepared.decoded.stream,
                goes_on_by: None,
            });
        }
        let usable = match &self.head {
            Some(head) if may_go_on => checkpoints::usable(engine, &self.conversation_id, head, target, prepared.now).await?,
            _ => Vec::new(),
        };
        let new = self.history.get(self.shared..).unwrap_or_default();
        let may_go_on = |checkpoint: &&Usable| !self.rewritten && checkpoint.goes_on(&self.history, new);
        let goes_on = usable.iter().find(may_go_on);
        request.conversation = match goes_on {
            Some(checkpoint) => self.only_new(checkpoint),
            None => UnifiedConversationInput::complete(self.visible_history()),
        };
        // A provider refuses a place to work in beside tools that work nowhere.
        let works = request.tools.iter().any(|tool| {
            matches!(
                tool.kind,
                UnifiedToolType::CodeExecution | UnifiedToolType::Container | UnifiedToolType::Skill | UnifiedToolType::ProgrammaticCalling
            )
        });
        let places: Vec<&Usable> = usable.iter().filter(|checkpoint| works && checkpoint.is_place()).collect();
        if !places.is_empty() {
            let held = request.state.get_or_insert_default().resources.get_or_insert_default();
            // What the client itself names comes first, and there is one place at a time.
            if held.is_empty() {
                held.extend(places.iter().map(|place| place.reference.clone()));
            }
        }
        let mut state = OwnedState::of_request(engine, &self.conversation_id, &target.owner, &request).await?;
        claims.lent.iter().for_each(|side| state.lend(side));
        for checkpoint in goes_on.into_iter().chain(places.iter().copied()) {
            state.present(
                &checkpoint.reference.resource_id,
                checkpoint.continuation.presented_as,
                &checkpoint.payload,
            );
        }
        let goes_on_by = goes_on.or(places.first().copied()).map(Usable::refused);
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
            goes_on_by,
        })
    }

    /// What goes behind a handle of the whole history: exactly the new input, and the instructions, which no history holds.
    fn only_new(&self, checkpoint: &Usable) -> UnifiedConversationInput {
        let visible = self.visible_history();
        let instructions = newest_instructions(&visible);
        let new = self.history.get(self.shared..).unwrap_or_default();
        let mut items: Vec<UnifiedItem> = visible.get(instructions).unwrap_or_default().to_vec();
        let is_history = |item: &&UnifiedItem| !item.is_instructions() && !matches!(item.body, UnifiedItemBody::ProviderSwitch(_));
        items.extend(new.iter().filter(is_history).cloned());
        UnifiedConversationInput {
            completeness: Completeness::ReferenceOnly,
            continuations: Some(vec![checkpoint.reference.clone()]),
            ..UnifiedConversationInput::complete(items)
        }
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
        let read = compaction::history_for(&self.history, Reader::AnyTarget).items;
        read.into_iter().filter(holds).cloned().collect()
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

    /// Whether the client's own body says exactly what the branch would tell this target: no turn of another provider, no summary
    /// in place of what the client still sends,
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
        let is_whole = compaction::covered(&self.history, Reader::AnyTarget).is_empty();
        only_own && complete && is_whole
    }
}
