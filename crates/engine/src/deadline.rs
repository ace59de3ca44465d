//! Deadlines: until when an operation may take, waiting in the queue and for approvals included.

use crate::engine::Engine;
use crate::live::{CancelRequest, Live, StopCause};
use std::sync::Arc;
use std::time::Duration;
use throughline_format::{ErrorCategory, Timestamp, UnifiedError};
use tokio::task::JoinHandle;

/// The error of an operation whose time is over.
pub(crate) fn expired() -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::Timeout,
        "deadline",
        "the deadline of the operation passed before its answer was complete; what came before is kept",
    )
}

impl Engine {
    /// The deadline of an operation that begins now.
    pub(crate) fn deadline(&self, now: Timestamp, asked: Option<Timestamp>) -> Result<Timestamp, UnifiedError> {
        let latest = now.plus_millis(self.limits.operation_millis);
        match asked {
            Some(asked) if asked <= now => {
                let message = "the deadline has passed already; name a time to come, or none";
                Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message).at("/deadline"))
            }
            Some(asked) => Ok(asked.min(latest)),
            None => Ok(latest),
        }
    }
}

/// Stops an operation at its deadline; dropping it disarms it.
pub(crate) struct Alarm(Option<JoinHandle<()>>);

impl Alarm {
    pub(crate) fn set(engine: &Engine, live: &Arc<Live>, deadline: Option<Timestamp>) -> Self {
        Self(deadline.map(|deadline| {
            let wait = u64::try_from(deadline.millis() - engine.clock.now().millis()).unwrap_or_default();
            let live = Arc::clone(live);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                live.cancel(CancelRequest {
                    cause: StopCause::Deadline,
                    at: deadline,
                });
            })
        }))
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
