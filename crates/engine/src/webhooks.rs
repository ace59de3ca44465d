//! Reports of providers: whoever receives a webhook tells the engine, and the work that it is about is read at once.
//!
//! Targets, secrets and signatures of webhooks are no business of the engine: a driver says whether its account has a webhook
//! of a name, and who calls [`Engine::webhook_received`] has checked that the report is the provider's. A report carries no
//! content; what became of the work is read from its provider, by the owner, as ever.

use crate::engine::Engine;
use crate::ports::Target;
use crate::producer::Producer;
use crate::terminal;
use std::sync::{Mutex, PoisonError};
use throughline_format::operation::{WebhookState, WebhookStatus};
use throughline_format::{UnifiedId, UnifiedRequestV2};
use throughline_store::{WriteBatch, WriteOp};
use tokio::sync::watch;

/// What a webhook tells of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// The provider reported that the work has an end, or needs somebody.
    Received,
    /// The provider does not report it any more: a delivery that it gave up, a webhook that was taken off.
    Failed,
}

/// The report that one operation waits for.
#[derive(Default)]
pub(crate) struct Reports {
    expected: Mutex<Option<(UnifiedId, Vec<String>)>>,
    told: watch::Sender<Option<WebhookState>>,
}

impl Reports {
    /// Waits for a report about this work, and about no other any more.
    pub(crate) fn expect(&self, webhook: &WebhookStatus, job_ids: &[String]) {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        *expected = Some((webhook.webhook_ref.clone(), job_ids.to_vec()));
        self.told.send_replace(Some(webhook.state));
    }

    /// Takes a report; false when it is about other work. One that came counts, whatever is said of its webhook later.
    fn tell(&self, webhook_ref: &UnifiedId, job_id: &str, outcome: WebhookOutcome) -> bool {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        let is_expected = |(name, ids): &(UnifiedId, Vec<String>)| name == webhook_ref && ids.iter().any(|id| id == job_id);
        if !expected.as_ref().is_some_and(is_expected) {
            return false;
        }
        self.told.send_if_modified(|told| {
            let next = match outcome {
                WebhookOutcome::Received => WebhookState::Received,
                WebhookOutcome::Failed => WebhookState::Failed,
            };
            let changes = *told != Some(WebhookState::Received) && *told != Some(next);
            if changes {
                *told = Some(next);
            }
            changes
        });
        true
    }

    /// Resolves when more was told than is known.
    pub(crate) async fn news(&self, known: Option<WebhookState>) -> WebhookState {
        let mut told = self.told.subscribe();
        let news = told
            .wait_for(|told| told.is_some() && *told != known)
            .await
            .ok()
            .and_then(|told| *told);
        match news {
            Some(state) => state,
            // The sender lives in this struct.
            None => std::future::pending().await,
        }
    }
}

/// The webhook that a request names for its background work.
pub(crate) fn asked(request: &UnifiedRequestV2) -> Option<&UnifiedId> {
    request.state.as_ref()?.background.as_ref()?.value.webhook_ref.as_ref()
}

/// Takes the wish for a webhook out of a request for a target whose account has it: no body has to say it then.
pub(crate) fn settle(request: &mut UnifiedRequestV2, target: &Target) {
    if asked(request).is_some_and(|name| target.upstream.has_webhook(name))
        && let Some(background) = request.state.as_mut().and_then(|state| state.background.as_mut())
    {
        background.value.webhook_ref = None;
    }
}

impl Producer {
    /// Registers the webhook that the request names for the work that just became known.
    pub(crate) fn register_webhook(&mut self, target: &Target, job_ids: &[String]) {
        let request = self.projector.as_ref().map(|projector| &projector.prepared.decoded.unified);
        let name = request.and_then(asked).filter(|name| target.upstream.has_webhook(name));
        self.operation.webhook = name.map(|name| WebhookStatus {
            webhook_ref: name.clone(),
            state: WebhookState::Registered,
        });
        if let Some(webhook) = &self.operation.webhook {
            self.live.reports.expect(webhook, job_ids);
        }
    }

    /// What is known of the webhook.
    pub(crate) fn webhook_state(&self) -> Option<WebhookState> {
        self.operation.webhook.as_ref().map(|webhook| webhook.state)
    }

    /// Writes down what was told. The record of the next commit says it too, so a store that refuses changes nothing.
    pub(crate) async fn note_report(&mut self, state: WebhookState) {
        let Some(webhook) = &mut self.operation.webhook else { return };
        webhook.state = state;
        self.operation.updated_at = self.engine.clock.now();
        let batch = WriteBatch::new(self.operation.updated_at, self.operation.conversation_id.clone());
        let batch = batch.with(WriteOp::UpdateOperation(self.operation.clone()));
        if let Err(error) = terminal::persist(&self.engine, batch).await {
            tracing::warn!(operation = %self.operation.operation_id, code = %error.code(), "a report of a provider was not written down");
        }
    }
}

impl Engine {
    /// Takes a report of a provider about background work, by the provider's own ID of it: its operation shows it, and when the
    /// report came through, the work is read at once instead of when its connection or the next try tells. Reports come more
    /// than once; only the first one does something. False when no operation of this process waits for it.
    ///
    /// Whoever calls this has verified that the report is the provider's: the signature over ID, time and body that the
    /// webhook's secret makes, and that its time is near.
    pub fn webhook_received(&self, webhook_ref: &UnifiedId, provider_job_id: &str, outcome: WebhookOutcome) -> bool {
        let mut running = self.publishers.all().into_iter();
        running.any(|live| live.reports.tell(webhook_ref, provider_job_id, outcome))
    }
}
