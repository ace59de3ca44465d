//! The scribe of one operation: gives drafts their place, folds them and writes them as bytes.
//!
//! Producer and recovery both write through it, so an event looks the same whoever ends the operation.

use crate::engine::{Engine, EngineLimits};
use crate::summaries;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_format::json::decode::decode_unscanned;
use throughline_format::{
    ErrorCategory, EventBody, EventDraft, Fold, Timestamp, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedOperation,
};
use throughline_store::EventRange;

/// Longest joined delta.
const MAX_JOINED_BYTES: usize = 4 * 1024;
/// Longest text of one event; longer ones are cut at a character, so that no event outgrows the store's bound.
const MAX_TEXT_BYTES: usize = 128 * 1024;
/// Events of one commit.
const GROUP_EVENTS: usize = 256;
/// Bytes of one commit.
const GROUP_BYTES: usize = 512 * 1024;

/// A committed or committable event: its sequence and its bytes.
pub(crate) type Written = (u64, Bytes);

/// Where the next item of an answer stands.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) conversation_id: UnifiedId,
    pub(crate) branch_id: UnifiedId,
    pub(crate) first_item: u64,
    pub(crate) next_sequence: u64,
    pub(crate) last_item: Option<UnifiedId>,
    /// The path before the answer, when a summary may come that covers it.
    pub(crate) covered: Option<Arc<[UnifiedItem]>>,
}

impl Seat {
    /// Gives an item its place in the journal, after the items of the answer so far.
    fn take(&mut self, item: &mut UnifiedItem, answer: &[UnifiedItem]) {
        item.base.conversation_id = self.conversation_id.clone();
        item.base.branch_id = self.branch_id.clone();
        item.base.sequence = self.next_sequence;
        self.next_sequence += 1;
        item.base.parent_id = self.last_item.replace(item.base.id.clone());
        summaries::cover(item, || {
            let before = self.covered.as_deref().unwrap_or_default();
            let known = if before.is_empty() { &[] } else { answer };
            before.iter().chain(known).cloned().collect()
        });
    }
}

/// Writes the events of one operation.
pub(crate) struct Scribe {
    pub(crate) fold: Fold,
    pub(crate) seat: Seat,
    operation_id: UnifiedId,
    limits: EngineLimits,
    weights: Weights,
}

/// What the events of an answer weigh so far.
#[derive(Default)]
struct Weights {
    items: BTreeMap<UnifiedId, usize>,
    answer: usize,
}

impl Weights {
    /// Adds an event; gives what its item weighs now.
    fn add(&mut self, event: &UnifiedEventV2, event_bytes: usize) -> usize {
        let Some(item_id) = &event.item_id else { return 0 };
        let added = delta_text(&event.body).map_or(event_bytes, written_bytes);
        self.answer += added;
        let item = self.items.entry(item_id.clone()).or_default();
        *item += added;
        *item
    }
}

impl Scribe {
    pub(crate) fn new(operation_id: UnifiedId, fold: Fold, seat: Seat, limits: EngineLimits) -> Self {
        Self {
            fold,
            seat,
            operation_id,
            limits,
            weights: Weights::default(),
        }
    }

    /// A scribe that goes on after what the store has of an operation.
    pub(crate) async fn resume(engine: &Engine, operation: &UnifiedOperation, first_item: u64) -> Result<Self, UnifiedError> {
        let (fold, weights) = fold_committed(engine, &operation.operation_id).await?;
        let before = operation.input_item_ids.last().or(operation.source_head_item_id.as_ref());
        let sequence = match before {
            Some(id) => engine
                .store
                .item(id)
                .await
                .map_err(|e| e.to_unified())?
                .map_or(0, |item| item.sequence),
            None => 0,
        };
        let seat = Seat {
            conversation_id: operation.conversation_id.clone(),
            branch_id: operation.source_branch_id.clone(),
            first_item,
            next_sequence: sequence + fold.items().len() as u64 + 1,
            last_item: fold.items().last().map(|i| i.id.clone()).or_else(|| before.cloned()),
            covered: None,
        };
        Ok(Self {
            weights,
            ..Self::new(operation.operation_id.clone(), fold, seat, engine.limits)
        })
    }

    /// Gives drafts their place, folds them and writes them.
    ///
    /// After an error the fold may be ahead of what is committed: resume from the store.
    pub(crate) fn write(&mut self, drafts: Vec<EventDraft>, now: Timestamp) -> Result<Vec<Written>, UnifiedError> {
        self.put(drafts, now, true)
    }

    /// [`Self::write`] of what ends the operation: the bounds of an answer leave room for it.
    pub(crate) fn write_end(&mut self, drafts: Vec<EventDraft>, now: Timestamp) -> Result<Vec<Written>, UnifiedError> {
        self.put(drafts, now, false)
    }

    fn put(&mut self, drafts: Vec<EventDraft>, now: Timestamp, is_bounded: bool) -> Result<Vec<Written>, UnifiedError> {
        let mut events = Vec::with_capacity(drafts.len());
        for mut draft in join(drafts) {
            self.seat_items(&mut draft);
            self.name_operation(&mut draft.body);
            let event = draft.stamp(&self.operation_id, self.fold.last_sequence() + 1, now);
            self.fold.push(&event).map_err(|e| {
                tracing::error!(operation = %self.operation_id, error = %e, "a decoder broke the event grammar");
                UnifiedError::new(ErrorCategory::Internal, "event-grammar", e.to_string())
            })?;
            let bytes = serde_json::to_vec(&event).map_err(|e| UnifiedError::new(ErrorCategory::Internal, "event", e.to_string()))?;
            let item = self.weights.add(&event, bytes.len());
            if is_bounded {
                self.check_weight(item)?;
            }
            events.push((event.sequence, bytes.into()));
        }
        Ok(events)
    }

    /// An error that stands in events, result and record says whose it is.
    fn name_operation(&self, body: &mut EventBody) {
        let error = match body {
            EventBody::OperationFailed(failed) | EventBody::Error(failed) => &mut failed.error,
            EventBody::ItemFailed(failed) => &mut failed.error,
            _ => return,
        };
        *error = error.clone().of_operation(&self.operation_id);
    }

    fn seat_items(&mut self, draft: &mut EventDraft) {
        if draft.candidate.is_some() {
            return;
        }
        match &mut draft.body {
            EventBody::ItemStarted(started) => self.seat.take(&mut started.item, self.fold.items()),
            EventBody::ItemCompleted(done) => {
                if let Some(item) = &mut done.item
                    && !self.fold.items().iter().any(|i| i.id == item.id)
                {
                    self.seat.take(item, self.fold.items());
                }
            }
            EventBody::StreamCompleted(done) => done.item_ids = self.fold.items().iter().map(|i| i.id.clone()).collect(),
            _ => {}
        }
    }

    /// Refuses what would make an item or the answer larger than the journal takes, while there is still room to end the operation.
    fn check_weight(&self, item: usize) -> Result<(), UnifiedError> {
        if self.fold.items().len() > self.limits.items_per_answer {
            let limit = self.limits.items_per_answer;
            return Err(UnifiedError::new(
                ErrorCategory::Limit,
                "items",
                format!("the answer has more than {limit} items; those before are kept"),
            ));
        }
        let too_large = |what: &str, detail: &str, limit: usize| {
            UnifiedError::new(
                ErrorCategory::Limit,
                detail,
                format!("{what} is larger than {limit} bytes; what came before is kept"),
            )
        };
        if self.weights.answer > self.limits.answer_bytes {
            return Err(too_large("the answer", "answer", self.limits.answer_bytes));
        }
        if item > self.limits.item_bytes {
            return Err(too_large("an item of the answer", "item", self.limits.item_bytes));
        }
        Ok(())
    }
}

/// The fold and the weights of everything that the store has of an operation.
async fn fold_committed(engine: &Engine, operation_id: &UnifiedId) -> Result<(Fold, Weights), UnifiedError> {
    let (mut fold, mut weights) = (Fold::new(operation_id.clone()), Weights::default());
    read_committed(engine, operation_id, |event, bytes| {
        weights.add(&event, bytes);
        fold.push(&event)
            .map_err(|e| UnifiedError::new(ErrorCategory::Storage, "corrupt", e.to_string()))
    })
    .await?;
    Ok((fold, weights))
}

/// Reads every event that the store has of an operation, in order, with its size.
pub(crate) async fn read_committed(
    engine: &Engine,
    operation_id: &UnifiedId,
    mut take: impl FnMut(UnifiedEventV2, usize) -> Result<(), UnifiedError> + Send,
) -> Result<(), UnifiedError> {
    let mut after = 0;
    loop {
        let range = EventRange {
            after,
            through: u64::from(u32::MAX),
            max_events: 1_000,
            max_bytes: 8 * 1024 * 1024,
        };
        let events = engine.store.events_after(operation_id, range).await.map_err(|e| e.to_unified())?;
        if events.is_empty() {
            return Ok(());
        }
        for stored in events {
            let event: UnifiedEventV2 = decode_unscanned(&stored.bytes).map_err(|_| {
                UnifiedError::new(
                    ErrorCategory::Storage,
                    "corrupt",
                    format!("event {} cannot be read", stored.sequence),
                )
            })?;
            after = stored.sequence;
            take(event, stored.bytes.len())?;
        }
    }
}

/// Events in groups that one commit takes.
pub(crate) fn groups(events: Vec<Written>) -> Vec<Vec<Written>> {
    let mut groups: Vec<Vec<Written>> = Vec::new();
    let mut bytes = 0;
    for event in events {
        bytes += event.1.len();
        match groups.last_mut() {
            Some(group) if group.len() < GROUP_EVENTS && bytes <= GROUP_BYTES => group.push(event),
            _ => {
                bytes = event.1.len();
                groups.push(vec![event]);
            }
        }
    }
    groups
}

/// Joins neighbouring deltas of the same text up to a bound, cuts long ones, and drops heartbeats, which are never stored.
fn join(drafts: Vec<EventDraft>) -> Vec<EventDraft> {
    let mut joined: Vec<EventDraft> = Vec::with_capacity(drafts.len());
    for draft in drafts
        .into_iter()
        .filter(|d| !matches!(d.body, EventBody::Heartbeat(_)))
        .flat_map(cut)
    {
        let is_short = |d: &EventDraft| delta_text(&d.body).is_some_and(|text| text.len() < MAX_JOINED_BYTES);
        let draft = match joined.last_mut() {
            Some(last) if is_short(last) && is_short(&draft) => match last.join(draft) {
                Ok(()) => continue,
                Err(draft) => draft,
            },
            _ => draft,
        };
        joined.push(draft);
    }
    joined
}

/// A draft with a long text as several with short ones; joining them again gives the same fold.
fn cut(draft: EventDraft) -> Vec<EventDraft> {
    let Some(text) = delta_text(&draft.body).filter(|text| text.len() > MAX_TEXT_BYTES) else {
        return vec![draft];
    };
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_TEXT_BYTES));
        let mut part = draft.clone();
        match &mut part.body {
            EventBody::TextDelta(d) | EventBody::ReasoningDelta(d) => {
                piece.clone_into(&mut d.text);
                // Probabilities of the whole text go with its first piece; the fold appends both in order.
                d.logprobs = d.logprobs.take().filter(|_| pieces.is_empty());
            }
            EventBody::ToolArgumentsDelta(d) => piece.clone_into(&mut d.text),
            _ => {}
        }
        pieces.push(part);
        rest = after;
    }
    pieces
}

fn delta_text(body: &EventBody) -> Option<&str> {
    match body {
        EventBody::TextDelta(d) | EventBody::ReasoningDelta(d) => Some(&d.text),
        EventBody::ToolArgumentsDelta(d) => Some(&d.text),
        _ => None,
    }
}

/// Bytes of a text as JSON writes it.
fn written_bytes(text: &str) -> usize {
    let escaped = text.bytes().filter(|b| matches!(b, b'"' | b'\\' | b'\n' | b'\r' | b'\t')).count();
    let control = text.bytes().filter(u8::is_ascii_control).count();
    text.len() + escaped + 5 * control
}
