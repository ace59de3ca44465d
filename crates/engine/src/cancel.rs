//! Cancelling an operation, and stopping all of them when the process goes down.

use crate::engine::Engine;
use crate::live::{CancelRequest, StopCause};
use crate::principal::Principal;
use std::sync::atomic::Ordering;
use std::time::Duration;
use throughline_format::error::sanitise;
use throughline_format::{UnifiedError, UnifiedId, UnifiedOperation};

/// How often a shutdown looks for turns that began to run meanwhile.
const SWEEP: Duration = Duration::from_millis(50);

/// How long an answer waits for the end of the operation to be committed.
const DURABLE: Duration = Duration::from_secs(1);

/// What became of a request to cancel.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelOutcome {
    /// The operation as it stands.
    pub operation: UnifiedOperation,
    /// False when it had ended already.
    pub accepted: bool,
}

impl Engine {
    /// Asks an operation to stop, running or waiting; its connection upstream is closed. Asking again changes nothing, and
    /// detaching a subscriber never does this.
    ///
    /// # Errors
    /// `not-found.resource` when the operation is absent or somebody else's.
    pub async fn cancel(&self, principal: &Principal, id: &UnifiedId, reason: Option<String>) -> Result<CancelOutcome, UnifiedError> {
        // The publisher is looked up first: it is on the list for as long as its operation can be stopped.
        let live = self.publishers.get(id);
        let mut operation = self.operation(principal, id).await?;
        match live {
            Some(live) if !operation.state.is_terminal() => {
                let reason = reason.map(|r| sanitise(&r));
                let asked = live.cancel(CancelRequest {
                    cause: StopCause::Client { reason },
                    at: self.clock.now(),
                });
                operation.cancel_requested_at = Some(asked.at);
                // The publisher closes behind the commit of the end: only then would a kill of the process take nothing back. An
                // operation whose connection is slow to close is answered all the same.
                let mut head = live.watch_head();
                let _ = tokio::time::timeout(DURABLE, head.wait_for(|head| head.closed)).await;
                Ok(CancelOutcome { operation, accepted: true })
            }
            _ => Ok(CancelOutcome {
                operation,
                accepted: false,
            }),
        }
    }

    /// Refuses new turns and interrupts those that run; returns when all of them have committed their end.
    pub async fn shutdown(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let all = u32::try_from(self.limits.concurrent_operations).unwrap_or(u32::MAX);
        let waiting = u32::try_from(self.limits.queued_operations).unwrap_or(u32::MAX);
        loop {
            for live in self.publishers.all() {
                live.cancel(CancelRequest {
                    cause: StopCause::Shutdown,
                    at: self.clock.now(),
                });
            }
            // A turn that was being opened may join the list late, so the list is looked at again until every slot is free.
            let idle = async { (self.queue.acquire_many(waiting).await, self.slots.acquire_many(all).await) };
            if tokio::time::timeout(SWEEP, idle).await.is_ok() {
                return;
            }
        }
    }
}
