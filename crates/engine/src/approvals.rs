//! Approvals: questions of a running operation that somebody must decide before it goes on.

use crate::engine::{Engine, not_found};
use crate::principal::Principal;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use throughline_format::error::sanitise;
use throughline_format::item::ApprovalDecision;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedOperation};
use tokio::sync::{mpsc, oneshot};

/// An answer to a question of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The question.
    pub approval_id: String,
    /// Whether it may go on.
    pub decision: ApprovalDecision,
    /// Why, in the words of whoever decided; the model is told when it is a refusal.
    pub reason: Option<String>,
}

/// A decision on its way to the producer, who tells when it is committed.
pub(crate) struct Decided {
    pub(crate) approval: Approval,
    pub(crate) committed: oneshot::Sender<()>,
}

/// The open questions of one operation and the decisions about them.
pub(crate) struct Questions {
    asked: Mutex<BTreeMap<String, Option<ApprovalDecision>>>,
    sender: mpsc::UnboundedSender<Decided>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<Decided>>>,
}

impl Default for Questions {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            asked: Mutex::default(),
            sender,
            receiver: Mutex::new(Some(receiver)),
        }
    }
}

impl Questions {
    /// Takes a question; it can be decided from now on, once.
    pub(crate) fn ask(&self, approval_id: &str) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was restored may be decided already.
        asked.entry(approval_id.to_owned()).or_insert(None);
    }

    /// Takes the questions and decisions of an answer that was held when the last process stopped.
    pub(crate) fn restore(&self, answer: &[UnifiedItem]) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        for item in answer {
            match &item.body {
                UnifiedItemBody::ApprovalRequest(request) => {
                    asked.insert(request.approval_id.clone(), None);
                }
                UnifiedItemBody::ApprovalResponse(response) => {
                    asked.insert(response.approval_id.clone(), Some(response.decision));
                }
                _ => {}
            }
        }
    }

    /// The decisions, for the one producer.
    pub(crate) fn decisions(&self) -> Option<mpsc::UnboundedReceiver<Decided>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the decisions back, for what is asked later.
    pub(crate) fn put_back(&self, decisions: mpsc::UnboundedReceiver<Decided>) {
        *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(decisions);
    }

    /// Hands a decision on; `None` when the same was decided before.
    fn decide(&self, approval: Approval) -> Result<Option<oneshot::Receiver<()>>, UnifiedError> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let question = asked.get_mut(&approval.approval_id).ok_or_else(|| not_found("approval"))?;
        match question {
            Some(known) if *known == approval.decision => Ok(None),
            Some(_) => Err(UnifiedError::new(
                ErrorCategory::Conflict,
                "approval",
                "this was decided otherwise before; the first decision counts",
            )),
            None => {
                *question = Some(approval.decision);
                let (committed, done) = oneshot::channel();
                // The receiver lives in this struct or in the producer, which ends with it.
                drop(self.sender.send(Decided { approval, committed }));
                Ok(Some(done))
            }
        }
    }
}

impl Engine {
    /// Decides a question of an operation. Deciding the same again changes nothing.
    ///
    /// # Errors
    /// `not-found.resource` when operation or question is absent or somebody else's; `conflict.approval` when it was decided
    /// otherwise; `conflict.operation-state` when the operation has ended.
    pub async fn decide(&self, principal: &Principal, id: &UnifiedId, mut approval: Approval) -> Result<UnifiedOperation, UnifiedError> {
        // The publisher is looked up first: it is on the list for as long as its operation can go on.
        let live = self.publishers.get(id);
        let operation = self.operation(principal, id).await?;
        let Some(live) = live.filter(|_| !operation.state.is_terminal()) else {
            return Err(ended(id));
        };
        approval.reason = approval.reason.as_deref().map(sanitise);
        if let Some(committed) = live.questions.decide(approval)?
            && committed.await.is_err()
        {
            // It ended meanwhile, by whatever else, and nobody took the decision.
            return Err(ended(id));
        }
        self.operation(principal, id).await
    }
}

fn ended(id: &UnifiedId) -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::Conflict,
        "operation-state",
        format!("operation {id} has ended; nothing can be decided any more"),
    )
}
