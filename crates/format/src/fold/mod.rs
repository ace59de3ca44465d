//! The fold: an ordered list of events becomes one [`UnifiedResultV2`] and its items (spec, Typed event grammar).
//!
//! The result depends on the events only. Joining deltas, delivering an event twice or stopping and going on changes
//! nothing: `fold(a ++ b) = fold(fold(a), b)`. A gap, a conflicting duplicate and an event after the end are refused with
//! their sequence, and leave the fold as it was.

mod apply;
mod candidate;

use crate::event::{EventBody, UnifiedEventV2};
use crate::item::{ItemStatus, UnifiedItem};
use crate::lifecycle::UnifiedToolLifecycle;
use crate::operation::OperationState;
use crate::profile::{SchemaVersion, UnifiedProtocolProfile};
use crate::provenance::{UnifiedAttribution, UnifiedResponseProvenance};
use crate::result::{UnifiedAlternative, UnifiedResolvedModel, UnifiedResultV2, UnifiedStateOutput};
use crate::status::UnifiedResponseStatus;
use crate::{Count, Sha256, UnifiedError, UnifiedId, UnifiedLossReport, UnifiedUsage};
use candidate::Candidate;
use std::collections::BTreeMap;

/// Why an event was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {sequence}: {problem}")]
pub struct FoldError {
    /// Sequence of the refused event.
    pub sequence: Count,
    /// What is wrong with it.
    pub problem: FoldProblem,
}

/// What is wrong with an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldProblem {
    /// Events are missing before it.
    #[error("expected sequence {expected}; events are missing")]
    Gap {
        /// The sequence that should have come.
        expected: Count,
    },
    /// Another event has this sequence.
    #[error("another event was folded with this sequence")]
    ConflictingDuplicate,
    /// The operation had ended.
    #[error("the operation had ended before it")]
    AfterEnd,
    /// It belongs to another operation.
    #[error("it belongs to another operation")]
    OtherOperation,
    /// Its item has not begun.
    #[error("its item has not begun")]
    UnknownItem,
    /// Its part has not begun.
    #[error("its part has not begun")]
    UnknownPart,
    /// The item has begun already.
    #[error("its item has begun already")]
    ItemBegunTwice,
    /// The part has begun already.
    #[error("its part has begun already")]
    PartBegunTwice,
    /// The item that it carries is not the one that it names.
    #[error("the item that it carries is not the one that it names")]
    OtherItem,
    /// The item is finished.
    #[error("its item is finished")]
    ItemFinished,
    /// It does not fit the kind of its item or part.
    #[error("it does not fit the kind of its item or part")]
    WrongKind,
    /// The call may not go to that state.
    #[error("the call may not go from {from} to {to}")]
    IllegalTransition {
        /// State of the call.
        from: UnifiedToolLifecycle,
        /// State that the event names.
        to: UnifiedToolLifecycle,
    },
    /// The item may not go to that state.
    #[error("the item may not go from {from} to {to}")]
    IllegalStatus {
        /// State of the item.
        from: ItemStatus,
        /// State that the event names.
        to: ItemStatus,
    },
    /// The operation may not go to that state.
    #[error("the operation may not go from {from} to {to}")]
    IllegalOperation {
        /// State of the operation.
        from: OperationState,
        /// State that the event names.
        to: OperationState,
    },
    /// The pointer is not registered, or its value has another shape.
    #[error("its pointer is not registered or its value has another shape")]
    BadField,
}

/// A fold in progress.
#[derive(Clone, Debug)]
pub struct Fold {
    operation_id: UnifiedId,
    digests: Vec<Sha256>,
    state: State,
}

/// Everything that events change.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_field_names)] // the state of an operation and the state of a fold are two things
pub(crate) struct State {
    response_id: Option<UnifiedId>,
    requested_model: Option<String>,
    model: Option<UnifiedResolvedModel>,
    profile: Option<UnifiedProtocolProfile>,
    attribution: UnifiedAttribution,
    provider_request_id: Option<String>,
    candidates: BTreeMap<Count, Candidate>,
    usage: Option<UnifiedUsage>,
    error: Option<UnifiedError>,
    output_state: UnifiedStateOutput,
    has_state: bool,
    loss: UnifiedLossReport,
    operation_state: Option<OperationState>,
    completed: bool,
}

impl Fold {
    /// An empty fold of one operation.
    pub fn new(operation_id: UnifiedId) -> Self {
        Self {
            operation_id,
            digests: Vec::new(),
            state: State::default(),
        }
    }

    /// Folds the next event. A duplicate of a folded event is accepted and changes nothing; heartbeats are dropped.
    ///
    /// # Errors
    /// [`FoldError`] with the sequence; the fold is then as it was before.
    pub fn push(&mut self, event: &UnifiedEventV2) -> Result<(), FoldError> {
        if matches!(event.body, EventBody::Heartbeat(_)) {
            return Ok(());
        }
        let refuse = |problem| {
            Err(FoldError {
                sequence: event.sequence,
                problem,
            })
        };
        if event.operation_id != self.operation_id {
            return refuse(FoldProblem::OtherOperation);
        }
        let digest = digest(event);
        let expected = self.last_sequence() + 1;
        if event.sequence < expected {
            let index = usize::try_from(event.sequence).unwrap_or(usize::MAX).wrapping_sub(1);
            return if self.digests.get(index) == Some(&digest) {
                Ok(())
            } else {
                refuse(FoldProblem::ConflictingDuplicate)
            };
        }
        if self.state.completed {
            return refuse(FoldProblem::AfterEnd);
        }
        if event.sequence > expected {
            return refuse(FoldProblem::Gap { expected });
        }
        if let Err(problem) = self.state.apply(event) {
            return refuse(problem);
        }
        self.digests.push(digest);
        Ok(())
    }

    /// Sequence of the last folded event, 0 when none was.
    pub fn last_sequence(&self) -> Count {
        self.digests.len() as Count
    }

    /// Number of folded events.
    pub fn events(&self) -> Count {
        self.last_sequence()
    }

    /// State of the operation, once an event told it.
    pub const fn operation_state(&self) -> Option<OperationState> {
        self.state.operation_state
    }

    /// Whether `stream.completed` was folded.
    pub const fn is_complete(&self) -> bool {
        self.state.completed
    }

    /// Items of the first candidate as they stand, in order.
    pub fn items(&self) -> &[UnifiedItem] {
        self.state.candidates.get(&0).map_or(&[], |c| &c.items)
    }

    /// Usage as it stands.
    pub const fn usage(&self) -> Option<&UnifiedUsage> {
        self.state.usage.as_ref()
    }

    /// The result as it stands.
    pub fn result(&self) -> UnifiedResultV2 {
        let state = &self.state;
        let first = state.candidates.get(&0);
        let alternatives: Vec<_> = state
            .candidates
            .iter()
            .filter(|(index, _)| **index > 0)
            .map(|(index, c)| UnifiedAlternative {
                index: *index,
                status: c.status.clone().unwrap_or(UnifiedResponseStatus::in_progress()),
                output: c.items.clone(),
            })
            .collect();
        UnifiedResultV2 {
            schema_version: SchemaVersion,
            response_id: state.response_id.clone().unwrap_or_else(|| self.operation_id.clone()),
            conversation_id: None,
            operation_id: Some(self.operation_id.clone()),
            model: state
                .model
                .clone()
                .unwrap_or_else(|| unresolved_model(state.requested_model.as_deref())),
            status: first.and_then(|c| c.status.clone()).unwrap_or(UnifiedResponseStatus::in_progress()),
            output: first.map(|c| c.items.clone()).unwrap_or_default(),
            usage: state.usage.clone(),
            error: state.error.clone(),
            state: state.has_state.then(|| state.output_state.clone()),
            provenance: UnifiedResponseProvenance {
                profile: state
                    .profile
                    .clone()
                    .unwrap_or(UnifiedProtocolProfile::of(crate::ProtocolFamily::Other("unknown".into()))),
                attribution: state.attribution.clone(),
                request_id: None,
                provider_request_id: state.provider_request_id.clone(),
                attempts: None,
            },
            loss: (!state.loss.entries.is_empty()).then(|| state.loss.clone()),
            alternatives: (!alternatives.is_empty()).then_some(alternatives),
        }
    }
}

/// Model of a response that ended before the provider named one.
fn unresolved_model(requested: Option<&str>) -> UnifiedResolvedModel {
    UnifiedResolvedModel {
        requested: requested.map(str::to_owned),
        model: requested.unwrap_or("unspecified").to_owned(),
        model_provider: None,
        family: None,
        version: None,
        service_tier: None,
    }
}

fn digest(event: &UnifiedEventV2) -> Sha256 {
    Sha256::of(&serde_json::to_vec(event).unwrap_or_default())
}
