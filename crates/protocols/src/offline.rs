//! What stand-alone commands need: stamping drafts without a clock and folding them.

use crate::codec::Decoded;
use crate::side::SideResource;
use throughline_format::fold::FoldError;
use throughline_format::{EventBody, EventDraft, Fold, Timestamp, UnifiedEventV2, UnifiedId};

/// Stamps drafts with dense sequences and one fixed time.
#[derive(Debug)]
pub struct Stamper {
    operation_id: UnifiedId,
    next: u64,
    time: Timestamp,
}

impl Stamper {
    /// A stamper that begins at sequence 1.
    pub const fn new(operation_id: UnifiedId, time: Timestamp) -> Self {
        Self {
            operation_id,
            next: 1,
            time,
        }
    }

    /// Gives a draft its place.
    pub fn stamp(&mut self, draft: EventDraft) -> UnifiedEventV2 {
        if matches!(draft.body, EventBody::Heartbeat(_)) {
            // A heartbeat has no number of its own: it repeats the last one.
            return draft.stamp(&self.operation_id, self.next - 1, self.time);
        }
        let event = draft.stamp(&self.operation_id, self.next, self.time);
        self.next += 1;
        event
    }
}

/// Decoded batches as events and as a fold, reproducibly.
#[derive(Debug)]
pub struct OfflineFold {
    stamper: Stamper,
    /// The fold so far.
    pub fold: Fold,
    /// The events so far.
    pub events: Vec<UnifiedEventV2>,
    /// The side resources so far.
    pub resources: Vec<SideResource>,
}

impl OfflineFold {
    /// An empty fold of the offline operation.
    pub fn new() -> Self {
        let operation = UnifiedId::offline_operation();
        Self {
            stamper: Stamper::new(operation.clone(), Timestamp::EPOCH),
            fold: Fold::new(operation),
            events: Vec::new(),
            resources: Vec::new(),
        }
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// When a decoder broke the event grammar: a fault of this program, reported with the sequence.
    pub fn push(&mut self, batch: Decoded) -> Result<(), FoldError> {
        self.resources.extend(batch.resources);
        for draft in batch.drafts {
            let event = self.stamper.stamp(draft);
            self.fold.push(&event)?;
            self.events.push(event);
        }
        Ok(())
    }
}

impl Default for OfflineFold {
    fn default() -> Self {
        Self::new()
    }
}
