//! [`Drafting`]: the event drafts of an answer under construction, and the bases of its items; decoders share it.

use crate::codec::Decoded;
use crate::keeper::Keeper;
use throughline_format::event::{
    ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, LossUpdate, PartCompleted, PartStarted, SignatureReady, TextDelta, Warning,
};
use throughline_format::item::{ItemStatus, Role};
use throughline_format::part::UnifiedTokenLogprob;
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::Issuer;
use throughline_format::{
    Count, EventBody, EventDraft, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedProviderDataRef,
};

/// Candidates of one answer; an index beyond is no index.
pub const CANDIDATES: Count = 1_024;
/// Ordinals in a row that a candidate has for its first items.
const ITEMS_PER_CANDIDATE: Count = 10_000;

/// Ordinal of item `number` of a candidate: no two items of an answer share one, however many there are.
pub const fn ordinal(candidate: Count, number: Count) -> Count {
    match number.checked_sub(ITEMS_PER_CANDIDATE) {
        None => candidate * ITEMS_PER_CANDIDATE + number,
        // Saturation is beyond what fits into memory.
        Some(beyond) => (CANDIDATES * ITEMS_PER_CANDIDATE + candidate).saturating_add(beyond.saturating_mul(CANDIDATES)),
    }
}

/// Events so far, and what they need.
pub struct Drafting {
    /// Side resources and losses.
    pub keeper: Keeper,
    /// Events that were not handed out yet.
    pub out: Decoded,
    /// The model that answers, once it is known.
    pub model: Option<String>,
    losses_told: usize,
}

/// The items of one candidate.
#[derive(Debug, Default)]
pub struct Row {
    /// Index of the candidate.
    pub candidate: Count,
    /// Its items in order.
    pub items: Vec<UnifiedId>,
}

impl Drafting {
    /// An answer that has not begun.
    pub fn new(keeper: Keeper) -> Self {
        Self {
            keeper,
            out: Decoded::default(),
            model: None,
            losses_told: 0,
        }
    }

    /// Hands out what came up since the last call.
    pub fn take(&mut self) -> Decoded {
        let mut out = std::mem::take(&mut self.out);
        out.resources.append(&mut self.keeper.resources);
        out
    }

    /// The answer begins.
    pub fn begin(&mut self, model: Option<String>) {
        let context = self.keeper.context.clone();
        let model = context.model(model);
        self.model = Some(model.clone());
        let started = context.started(self.keeper.profile.clone(), &model, None);
        self.out.push(started);
    }

    /// ID of the candidate's next item.
    pub fn next_item(&self, row: &mut Row) -> UnifiedId {
        let id = self.keeper.context.item_id(ordinal(row.candidate, row.items.len() as Count));
        row.items.push(id.clone());
        id
    }

    /// An item of the answer.
    pub fn item(&self, row: &Row, id: &UnifiedId, status: ItemStatus, body: UnifiedItemBody) -> UnifiedItem {
        let context = &self.keeper.context;
        let position = row.items.iter().rposition(|item| item == id).unwrap_or_default();
        let parent = position.checked_sub(1).and_then(|before| row.items.get(before)).cloned();
        let provenance = context.provenance(ItemOrigin::Provider, self.keeper.profile.clone(), self.model.as_deref());
        let mut item = context.item(id.clone(), position as Count, parent, Role::Assistant, provenance, body);
        item.status = status;
        item
    }

    /// Adds an event of a candidate.
    pub fn tell(&mut self, candidate: Count, draft: EventDraft) {
        self.out.drafts.push(draft.candidate(candidate));
    }

    /// An item begins.
    pub fn started(&mut self, row: &Row, id: &UnifiedId, body: UnifiedItemBody, provider_data: Option<Vec<UnifiedProviderDataRef>>) {
        let mut item = self.item(row, id, ItemStatus::InProgress, body);
        item.base.provider_data = provider_data;
        self.tell(
            row.candidate,
            EventDraft::of_item(id.clone(), EventBody::ItemStarted(ItemStarted { item })),
        );
    }

    /// An item that comes whole.
    pub fn whole(&mut self, row: &Row, id: &UnifiedId, body: UnifiedItemBody, provider_data: Option<Vec<UnifiedProviderDataRef>>) {
        let mut item = self.item(row, id, ItemStatus::Completed, body);
        item.base.provider_data = provider_data;
        let done = ItemCompleted {
            status: ItemStatus::Completed,
            item: Some(item),
        };
        self.tell(row.candidate, EventDraft::of_item(id.clone(), EventBody::ItemCompleted(done)));
    }

    /// An item that began is finished.
    pub fn finished(&mut self, candidate: Count, id: &UnifiedId, status: ItemStatus) {
        let done = ItemCompleted { status, item: None };
        self.tell(candidate, EventDraft::of_item(id.clone(), EventBody::ItemCompleted(done)));
    }

    /// A part begins.
    pub fn part_started(&mut self, candidate: Count, item: &UnifiedId, part: UnifiedContentPart) {
        let part_id = part.part_id.clone();
        let delta = ItemDelta::PartStarted(PartStarted { part });
        self.part_delta(candidate, item, &part_id, delta);
    }

    /// A part is finished.
    pub fn part_completed(&mut self, candidate: Count, item: &UnifiedId, part: &UnifiedId) {
        self.part_delta(candidate, item, part, ItemDelta::PartCompleted(PartCompleted {}));
    }

    /// A change of a part.
    pub fn part_delta(&mut self, candidate: Count, item: &UnifiedId, part: &UnifiedId, delta: ItemDelta) {
        let event = EventBody::ItemDelta(ItemDeltaEvent { delta });
        self.tell(candidate, EventDraft::of_part(item.clone(), part.clone(), event));
    }

    /// Text of a part.
    pub fn text(
        &mut self,
        candidate: Count,
        item: &UnifiedId,
        part: &UnifiedId,
        text: String,
        reasoning: bool,
        logprobs: Option<Vec<UnifiedTokenLogprob>>,
    ) {
        let delta = TextDelta { text, logprobs };
        let event = if reasoning {
            EventBody::ReasoningDelta(delta)
        } else {
            EventBody::TextDelta(delta)
        };
        self.tell(candidate, EventDraft::of_part(item.clone(), part.clone(), event));
    }

    /// Private state of a part, or of a call when no part is named.
    pub fn signed(
        &mut self,
        candidate: Count,
        item: &UnifiedId,
        part: Option<&UnifiedId>,
        provider_data: UnifiedProviderDataRef,
        issuer: Issuer,
    ) {
        let mut draft = EventDraft::of_item(item.clone(), EventBody::SignatureReady(SignatureReady { provider_data, issuer }));
        draft.part_id = part.cloned();
        self.tell(candidate, draft);
    }

    /// A remark that changes nothing.
    pub fn warn(&mut self, code: &str, text: impl Into<String>) {
        self.out.push(EventBody::Warning(Warning::new(code, &text.into())));
    }

    /// Tells the losses that were not told yet.
    pub fn tell_losses(&mut self) {
        let all = &self.keeper.loss.report().entries;
        let entries = all.get(self.losses_told..).unwrap_or_default().to_vec();
        self.losses_told += entries.len();
        if !entries.is_empty() {
            self.out.push(EventBody::LossUpdate(LossUpdate { entries }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CANDIDATES, ITEMS_PER_CANDIDATE, ordinal};
    use std::collections::BTreeSet;

    #[test]
    fn no_two_items_share_an_ordinal() {
        let numbers = || (0..3).chain(ITEMS_PER_CANDIDATE - 2..ITEMS_PER_CANDIDATE + 50);
        let all: BTreeSet<_> = (0..CANDIDATES).flat_map(|c| numbers().map(move |n| ordinal(c, n))).collect();
        assert_eq!(all.len() as u64, CANDIDATES * numbers().count() as u64);
        assert_eq!(ordinal(CANDIDATES - 1, u64::MAX), u64::MAX, "no overflow");
    }
}
