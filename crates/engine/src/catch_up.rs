//! Catching up: what of an answer is committed already, while its stream is read again from the begin.
//!
//! The same bytes decode to the same events, but for where texts were cut. So the stream is decoded anew and what was
//! committed is taken off its front, text by text; what is left is exactly what subscribers have not seen.

use crate::engine::Engine;
use crate::scribe;
use std::collections::VecDeque;
use throughline_format::event::ResponseMetadata;
use throughline_format::provenance::ItemOrigin;
use throughline_format::{ErrorCategory, EventBody, EventDraft, UnifiedError, UnifiedEventV2, UnifiedId};

/// Committed events that the stream has still to repeat.
pub(crate) struct CatchUp(VecDeque<UnifiedEventV2>);

impl CatchUp {
    /// Everything that is committed of the answer that began after an event.
    pub(crate) async fn load(engine: &Engine, operation_id: &UnifiedId, begun_after: u64) -> Result<Self, UnifiedError> {
        let mut events = VecDeque::new();
        scribe::read_committed(engine, operation_id, |event, _| {
            if event.sequence > begun_after {
                events.push_back(event);
            }
            Ok(())
        })
        .await?;
        Ok(Self(events))
    }

    /// Whether the stream has repeated everything.
    pub(crate) fn is_over(&self) -> bool {
        self.0.iter().all(is_of_engine)
    }

    /// What is new among decoded events.
    ///
    /// # Errors
    /// `interrupted.diverged` when the stream does not repeat what was committed: it cannot be gone on with.
    pub(crate) fn take_off(&mut self, drafts: Vec<EventDraft>) -> Result<Vec<EventDraft>, UnifiedError> {
        let mut new = Vec::new();
        for draft in drafts {
            if !matches!(draft.body, EventBody::Heartbeat(_)) && !is_trace(&draft.body) {
                new.extend(self.take_one(draft)?);
            }
        }
        Ok(new)
    }

    fn take_one(&mut self, mut draft: EventDraft) -> Result<Option<EventDraft>, UnifiedError> {
        while self.0.front().is_some_and(is_of_engine) {
            self.0.pop_front();
        }
        loop {
            let Some(known) = self.0.front_mut() else {
                return Ok(Some(draft));
            };
            if !is_same_place(known, &draft) {
                return Err(UnifiedError::new(
                    ErrorCategory::Interrupted,
                    "diverged",
                    "the provider's stream does not repeat what was already told of it; ask again to go on",
                ));
            }
            let (Some(told), Some(again)) = (delta(&mut known.body), delta(&mut draft.body)) else {
                self.0.pop_front();
                return Ok(None);
            };
            let shared = told.len().min(again.len());
            if told.get(..shared) != again.get(..shared) {
                return Err(UnifiedError::new(
                    ErrorCategory::Interrupted,
                    "diverged",
                    "the provider's stream tells another text than before; ask again to go on",
                ));
            }
            told.drain(..shared);
            again.drain(..shared);
            let (is_told, is_repeated) = (told.is_empty(), again.is_empty());
            if is_told {
                self.0.pop_front();
            }
            if is_repeated {
                return Ok(None);
            }
            forget_probabilities(&mut draft.body);
        }
    }
}

/// What the engine itself adds to an answer, and what differs between two connections.
fn is_of_engine(event: &UnifiedEventV2) -> bool {
    match &event.body {
        EventBody::OperationCreated(_)
        | EventBody::OperationQueued(_)
        | EventBody::OperationRunning(_)
        | EventBody::CheckpointReady(_)
        | EventBody::CheckpointInvalidated(_) => true,
        EventBody::ItemCompleted(done) => done.item.as_ref().is_some_and(|item| item.provenance.origin == ItemOrigin::Engine),
        body => is_trace(body),
    }
}

/// Whether an event tells nothing but the ID of a connection.
fn is_trace(body: &EventBody) -> bool {
    let EventBody::ResponseMetadata(metadata) = body else {
        return false;
    };
    let only = ResponseMetadata {
        provider_request_id: metadata.provider_request_id.clone(),
        ..ResponseMetadata::default()
    };
    metadata.provider_request_id.is_some() && *metadata == only
}

fn is_same_place(known: &UnifiedEventV2, draft: &EventDraft) -> bool {
    known.body.kind() == draft.body.kind()
        && known.item_id == draft.item_id
        && known.part_id == draft.part_id
        && known.call_id == draft.call_id
        && known.candidate == draft.candidate
}

/// The text of a delta.
fn delta(body: &mut EventBody) -> Option<&mut String> {
    match body {
        EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) => Some(&mut delta.text),
        EventBody::ToolArgumentsDelta(delta) => Some(&mut delta.text),
        _ => None,
    }
}

/// Probabilities came with the text that they are of; of a text that was cut nobody can tell whose the rest are.
fn forget_probabilities(body: &mut EventBody) {
    if let EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) = body {
        delta.logprobs = None;
    }
}
