//! Cancelling an operation, and stopping all of them when the process goes down.

use crate::engine::Engine;
use crate::live::Live;
use crate::principal::Principal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use throughline_format::{UnifiedError, UnifiedId, UnifiedOperation};

/// What became of a request to cancel.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelOutcome {
    /// The operation as it stands.
    pub operation: UnifiedOperation,
    /// False when it had ended already.
    pub accepted: bool,
}

impl Engine {
    /// Asks a running operation to stop; its connection upstream is closed. Detaching a subscriber never does this.
    ///
    /// # Errors
    /// `not-found.resource` when the operation is absent or somebody else's.
    pub async fn cancel(&self, principal: &Principal, id: &UnifiedId, reason: Option<String>) -> Result<CancelOutcome, UnifiedError> {
        let mut operation = self.operation(principal, id).await?;
        let live = self.publishers.get(id);
        match live {
            Some(live) if !operation.state.is_terminal() => {
                live.cancel(crate::live::CancelRequest {
                    reason: reason.map(|r| throughline_format::error::sanitise(&r)),
                    by_shutdown: false,
                });
                operation.cancel_requested_at = Some(self.clock.now());
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
        let running: Vec<Arc<Live>> = self.publishers.all();
        for live in &running {
            live.cancel(crate::live::CancelRequest {
                reason: None,
                by_shutdown: true,
            });
        }
        for live in running {
            let mut head = live.watch_head();
            while !head.borrow_and_update().closed {
                if head.changed().await.is_err() {
                    break;
                }
            }
        }
    }
}
