//! What each event does to the state.

use super::candidate::{Candidate, finish};
use super::{FoldProblem, State};
use crate::event::{EventBody, ItemCompleted, ResponseMetadata, UnifiedEventV2};
use crate::item::{ItemStatus, UnifiedItem};
use crate::operation::OperationState;
use crate::status::{ResponseState, UnifiedFinishReason, UnifiedResponseStatus};
use crate::{Count, UnifiedId};

type Applied = Result<(), FoldProblem>;

impl State {
    /// Applies one event, or refuses it and changes nothing.
    pub(super) fn apply(&mut self, event: &UnifiedEventV2) -> Applied {
        if self.operation_state.is_some_and(OperationState::is_terminal) && !matches!(event.body, EventBody::StreamCompleted(_)) {
            return Err(FoldProblem::AfterEnd);
        }
        let index = event.candidate.unwrap_or(0);
        match &event.body {
            EventBody::OperationCreated(created) => {
                self.operate(OperationState::Queued)?;
                self.requested_model.clone_from(&created.requested_model);
                self.profile = Some(created.target.clone());
            }
            EventBody::OperationQueued(_) => self.operate(OperationState::Queued)?,
            EventBody::OperationRunning(_) => self.operate(OperationState::Running)?,
            EventBody::OperationRequiresAction(_) => self.operate(OperationState::RequiresAction)?,
            EventBody::OperationCompleted(done) => {
                self.operate(OperationState::Completed)?;
                self.stand(index, done.status.clone());
            }
            EventBody::OperationFailed(failed) => {
                self.operate(OperationState::Failed)?;
                self.stand(index, UnifiedResponseStatus::finished(UnifiedFinishReason::Failed, None));
                self.error = Some(failed.error.clone());
            }
            EventBody::OperationCancelled(_) => {
                self.operate(OperationState::Cancelled)?;
                self.stand(index, UnifiedResponseStatus::finished(UnifiedFinishReason::Cancelled, None));
            }
            EventBody::OperationExpired(_) => {
                self.operate(OperationState::Expired)?;
                self.stand(index, UnifiedResponseStatus::finished(UnifiedFinishReason::Incomplete, None));
            }
            EventBody::ResponseStarted(started) => {
                self.response_id = Some(started.response_id.clone());
                self.model = Some(started.model.clone());
                self.profile = Some(started.profile.clone());
                self.attribution = started.attribution.clone().unwrap_or_default();
            }
            EventBody::ResponseMetadata(metadata) => self.metadata(index, metadata),
            EventBody::ItemStarted(started) => self.begin(index, event.item_id.as_ref(), &started.item)?,
            EventBody::ItemCompleted(done) => self.complete(index, event.item_id.as_ref(), done)?,
            EventBody::ItemFailed(_)
            | EventBody::ItemDelta(_)
            | EventBody::TextDelta(_)
            | EventBody::ReasoningDelta(_)
            | EventBody::SignatureReady(_)
            | EventBody::ToolArgumentsDelta(_)
            | EventBody::ToolArgumentsReady(_)
            | EventBody::ToolLifecycle(_)
            | EventBody::CitationReady(_)
            | EventBody::SourceReady(_)
            | EventBody::ArtifactReady(_) => self.candidates.get_mut(&index).ok_or(FoldProblem::UnknownItem)?.apply(event)?,
            EventBody::UsageUpdate(update) => self.usage = Some(update.usage.clone()),
            EventBody::CheckpointReady(ready) => {
                self.has_state = true;
                self.output_state.checkpoints.push(ready.checkpoint_id.clone());
            }
            EventBody::CheckpointInvalidated(gone) => {
                self.has_state = true;
                self.output_state.invalidated.push(gone.checkpoint_id.clone());
            }
            EventBody::LossUpdate(update) => update.entries.iter().cloned().for_each(|entry| self.loss.push(entry)),
            EventBody::Error(error) => self.error = Some(error.error.clone()),
            EventBody::Warning(_) | EventBody::Heartbeat(_) => {}
            EventBody::StreamCompleted(done) => {
                self.stand(index, done.status.clone());
                if done.status.state != ResponseState::Completed {
                    self.candidates.values_mut().for_each(|candidate| candidate.close(&done.status));
                }
                self.completed = true;
            }
        }
        Ok(())
    }

    /// The operation goes to a state of its table; being told the same state again changes nothing.
    fn operate(&mut self, to: OperationState) -> Applied {
        match self.operation_state {
            Some(from) if from != to && !from.may_become(to) => Err(FoldProblem::IllegalOperation { from, to }),
            _ => {
                self.operation_state = Some(to);
                Ok(())
            }
        }
    }

    /// How a candidate stands.
    fn stand(&mut self, candidate: Count, status: UnifiedResponseStatus) {
        self.candidates.entry(candidate).or_default().status = Some(status);
    }

    fn begin(&mut self, candidate: Count, named: Option<&UnifiedId>, item: &UnifiedItem) -> Applied {
        same_item(named, item)?;
        Candidate::may_begin(self.candidates.get(&candidate), item)?;
        self.candidates.entry(candidate).or_default().begin(item.clone())
    }

    fn complete(&mut self, candidate: Count, named: Option<&UnifiedId>, done: &ItemCompleted) -> Applied {
        let Some(whole) = &done.item else {
            let item = self
                .candidates
                .get_mut(&candidate)
                .ok_or(FoldProblem::UnknownItem)?
                .open_item(named)?;
            finish(item.status, done.status)?;
            item.status = done.status;
            return Ok(());
        };
        same_item(named, whole)?;
        match self.candidates.get_mut(&candidate) {
            Some(known) if known.has(&whole.id) => known.replace(whole, done.status),
            _ => {
                finish(ItemStatus::InProgress, done.status)?;
                let mut item = whole.clone();
                item.status = done.status;
                self.begin(candidate, None, &item)
            }
        }
    }

    fn metadata(&mut self, candidate: Count, metadata: &ResponseMetadata) {
        if let Some(model) = &metadata.model {
            self.model = Some(model.clone());
        }
        if let (Some(tier), Some(model)) = (&metadata.service_tier, &mut self.model) {
            model.service_tier = Some(tier.clone());
        }
        if let Some(resources) = &metadata.resources {
            self.has_state = true;
            self.output_state.resources.extend(resources.iter().cloned());
        }
        if let Some(id) = &metadata.provider_request_id {
            self.provider_request_id = Some(id.clone());
        }
        if let Some(status) = &metadata.status {
            self.stand(candidate, status.clone());
        }
    }
}

/// An event that carries an item and names one must mean the same.
fn same_item(named: Option<&UnifiedId>, item: &UnifiedItem) -> Applied {
    if named.is_some_and(|id| *id != item.id) {
        Err(FoldProblem::OtherItem)
    } else {
        Ok(())
    }
}
