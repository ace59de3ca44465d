//! Admission: how many operations run at one time, and which of them may wait for their turn.
//!
//! An operation in the foreground runs at once or is refused. One in the background waits in order of arrival; its input is
//! committed and its state is `queued`, so it is listed, polled and cancelled like any other.

use crate::engine::Engine;
use crate::live::CancelRequest;
use crate::producer::{Producer, Stop, cancelled};
use std::sync::Arc;
use throughline_format::{ErrorCategory, OperationState, UnifiedError};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// The place of an operation among those that run or wait; it is free again when this is dropped.
pub(crate) enum Admission {
    /// It runs.
    Running {
        /// Its slot, held until its end is committed.
        _slot: OwnedSemaphorePermit,
    },
    /// It waits.
    Waiting {
        /// Its place in the queue.
        _place: OwnedSemaphorePermit,
    },
}

impl Admission {
    /// A slot at once; in the background also a place in the queue.
    pub(crate) fn ask(engine: &Engine, background: bool) -> Result<Self, UnifiedError> {
        if let Ok(slot) = Arc::clone(&engine.slots).try_acquire_owned() {
            return Ok(Self::Running { _slot: slot });
        }
        let place = background.then(|| Arc::clone(&engine.queue).try_acquire_owned());
        match place {
            Some(Ok(place)) => Ok(Self::Waiting { _place: place }),
            _ => Err(UnifiedError::new(
                ErrorCategory::Limit,
                "concurrency",
                "too many operations run at one time; ask again in a moment",
            )),
        }
    }

    pub(crate) const fn waits(&self) -> bool {
        matches!(self, Self::Waiting { .. })
    }
}

impl Producer {
    /// Waits for a slot when the operation is queued, and tells that it runs.
    pub(crate) async fn admit(
        &mut self,
        admission: &mut Admission,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<(), Stop> {
        if !admission.waits() {
            // One that was queued when the last process stopped may run at once in this one.
            return match self.operation.state {
                OperationState::Queued => self.begins().await,
                _ => Ok(()),
            };
        }
        let slot = tokio::select! {
            biased;
            request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
            slot = Arc::clone(&self.engine.slots).acquire_owned() => slot,
        };
        let closed = |_| {
            Stop::Failed(UnifiedError::new(
                ErrorCategory::Internal,
                "queue",
                "the queue of operations is closed",
            ))
        };
        *admission = Admission::Running {
            _slot: slot.map_err(closed)?,
        };
        match self.operation.state {
            OperationState::Queued => self.begins().await,
            _ => Ok(()),
        }
    }

    async fn begins(&mut self) -> Result<(), Stop> {
        self.operation.started_at = Some(self.engine.clock.now());
        self.step(Vec::new(), Some(OperationState::Running)).await.map_err(Stop::Failed)
    }
}
