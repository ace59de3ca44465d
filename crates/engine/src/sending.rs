//! From a turn to the head of an answer: which target is asked, with what, and what follows when it refuses.

use crate::checkpoints::Refused;
use crate::live::CancelRequest;
use crate::ports::{Target, UpstreamCall, UpstreamReply};
use crate::producer::{Producer, Stop, cancelled};
use crate::projector::{Outgoing, Projector};
use crate::switch::Answerer;
use crate::tool_names::ToolNames;
use throughline_format::item::SwitchReason;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId, UnifiedItem, UnifiedLossReport};
use tokio::sync::watch;

impl Producer {
    /// Sends to the first target that answers; later ones are tried only before the first byte.
    pub(crate) async fn send(&mut self, cancel: &mut watch::Receiver<Option<CancelRequest>>) -> Result<(Target, UpstreamReply), Stop> {
        let targets = std::mem::take(&mut self.targets);
        let last = targets.len().saturating_sub(1);
        let mut refusal = None;
        for (index, target) in targets.into_iter().enumerate() {
            let outgoing = match self.first.take() {
                Some(outgoing) => outgoing,
                None => self.projector()?.project(&self.engine, &target).await.map_err(Stop::Failed)?,
            };
            if outgoing.loss.is_unsupported() {
                continue;
            }
            match self.ask_to_go_on(&target, outgoing, cancel).await? {
                Ok((reply, loss)) => {
                    self.operation.owner = Some(target.owner.clone());
                    self.operation.loss = Some(crate::turn::bounded(loss));
                    self.switch = self.switch_to(&target);
                    if self.switch.is_some() {
                        self.answerer = Some(Answerer::of(&target));
                    }
                    let request = &self.projector()?.prepared.decoded.unified;
                    let keeps = target.codec.is_kept(request, target.dialect.as_deref());
                    self.tool_names = ToolNames::of(&request.tools, &target);
                    self.asker.keeps = keeps;
                    self.asker.received_at = self.engine.clock.now();
                    return Ok((target, reply));
                }
                Err(error) if index < last && error.retryable => {
                    tracing::warn!(operation = %self.operation.operation_id, provider = %target.provider, code = %error.code, "falling back to the next target");
                    refusal = Some(error);
                }
                Err(error) => return Err(Stop::Failed(error)),
            }
        }
        let none = || {
            UnifiedError::new(
                ErrorCategory::Unsupported,
                "projection",
                "no target of the route can do what the request requires",
            )
        };
        Err(Stop::Failed(refusal.unwrap_or_else(none)))
    }

    /// Asks a target; when it does not know the checkpoint that the body goes on by, with the whole history.
    async fn ask_to_go_on(
        &mut self,
        target: &Target,
        outgoing: Outgoing,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<Result<(UpstreamReply, UnifiedLossReport), UnifiedError>, Stop> {
        let (loss, goes_on_by) = (outgoing.loss.clone(), outgoing.goes_on_by.clone());
        let refusal = match self.call(target, outgoing, cancel).await? {
            Ok(reply) => return Ok(Ok((reply, loss))),
            Err(error) => error,
        };
        let Some(refused) = goes_on_by.filter(|_| Refused::may_be_why(&refusal)) else {
            return Ok(Err(refusal));
        };
        let rebuilt = self.projector()?.rebuild(&self.engine, target).await.map_err(Stop::Failed)?;
        if rebuilt.loss.is_unsupported() {
            return Ok(Err(refusal));
        }
        let loss = rebuilt.loss.clone();
        Ok(self.call(target, rebuilt, cancel).await?.map(|reply| {
            tracing::info!(operation = %self.operation.operation_id, provider = %target.provider, code = %refusal.code, "the provider does not know a checkpoint any more; the history was sent");
            self.refused.push(refused);
            (reply, loss)
        }))
    }

    async fn call(
        &self,
        target: &Target,
        outgoing: Outgoing,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<Result<UpstreamReply, UnifiedError>, Stop> {
        let call = UpstreamCall {
            conversation_id: self.operation.conversation_id.clone(),
            operation_id: self.operation.operation_id.clone(),
            request_id: self.asker.request_id.clone(),
            model: target.model.clone(),
            body: outgoing.body,
            stream: outgoing.stream,
            client_headers: self.projector()?.prepared.turn.client_headers.clone(),
        };
        tokio::select! {
            biased;
            request = cancelled(cancel) => Err(Stop::Cancelled(request)),
            answer = target.upstream.call(call) => Ok(answer),
        }
    }

    /// The item that tells of a fallback, when the target that answers is not who the input named.
    fn switch_to(&self, target: &Target) -> Option<UnifiedItem> {
        let id = &self.operation.operation_id;
        let item_id = UnifiedId::parse(&format!("{id}.switch")).unwrap_or_else(|_| id.resource(0));
        self.answerer
            .as_ref()?
            .switch(target, id, item_id, SwitchReason::Fallback, self.engine.clock.now())
    }

    /// What a producer that sends projects from; one that goes on with work after a restart sends nothing.
    fn projector(&self) -> Result<&Projector, Stop> {
        let missing = || Stop::Failed(UnifiedError::new(ErrorCategory::Internal, "request", "there is no request to send"));
        self.projector.as_ref().ok_or_else(missing)
    }
}
