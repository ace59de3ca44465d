//! What an operation does between two answers of its provider: asks for approvals, runs its own tools, and goes on with what
//! came of it.
//!
//! An answer that leaves such work open is no end. Its items are committed, the state of the operation tells what it waits for
//! (`requires-action`, then `running` again), and the next answer follows in the same operation: one list of events, one result.

use crate::approvals::{Approval, Decided};
use crate::kept;
use crate::live::CancelRequest;
use crate::producer::{Producer, Stop, cancelled};
use crate::terminal::{self, Ending};
use crate::tools::{self, ToolInvocation};
use futures_util::FutureExt as _;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use throughline_format::event::{ItemCompleted, ResponseMetadata, ToolLifecycleEvent};
use throughline_format::item::{
    ApprovalDecision, ApprovalRequestItem, ApprovalResponseItem, ApprovalSubject, ItemStatus, Role, ToolCallItem, ToolResultItem,
};
use throughline_format::provenance::ItemOrigin;
use throughline_format::tool::Execution;
use throughline_format::{
    ErrorCategory, EventBody, EventDraft, OperationState, PartBody, UnifiedContentPart, UnifiedError, UnifiedId, UnifiedItem,
    UnifiedItemBase, UnifiedItemBody, UnifiedItemProvenance, UnifiedToolDefinition, UnifiedToolLifecycle,
};
use throughline_store::{WriteBatch, WriteOp};
use tokio::sync::watch;

/// What is to be done before the provider is asked again.
#[derive(Default)]
struct Work {
    /// Calls of tools of this process, with the item that each stands in.
    calls: Vec<(UnifiedId, ToolCallItem, UnifiedToolDefinition)>,
    /// Questions that the provider itself asked.
    questions: Vec<String>,
    /// A call of the client has no result: the answer ends here, and the client goes on.
    client_is_next: bool,
}

impl Producer {
    /// What the answer so far leaves to this process.
    fn work(&self) -> Work {
        // After a restart there is no request that more could be asked with.
        let Some(projector) = &self.projector else {
            return Work::default();
        };
        let items = self.scribe.fold.items();
        let prepared = &projector.prepared;
        let answered: BTreeSet<&str> = items
            .iter()
            .filter(|item| matches!(item.body, UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ComputerActionResult(_)))
            .filter_map(UnifiedItem::call_id)
            .collect();
        let decided: BTreeSet<&str> = items
            .iter()
            .filter_map(|item| match &item.body {
                UnifiedItemBody::ApprovalResponse(response) => Some(response.approval_id.as_str()),
                _ => None,
            })
            .collect();
        let mut work = Work::default();
        for item in items.iter().filter(|item| item.status == ItemStatus::Completed) {
            match &item.body {
                UnifiedItemBody::ToolCall(call) if answered.contains(call.call_id.as_str()) => {}
                UnifiedItemBody::ToolCall(call) => {
                    match tools::executed(&prepared.decoded.unified.tools, call.namespace.as_deref(), &call.name) {
                        Some(tool) => work.calls.push((item.id.clone(), call.clone(), tool.clone())),
                        None => work.client_is_next = true,
                    }
                }
                UnifiedItemBody::ComputerAction(call) => work.client_is_next |= !answered.contains(call.call_id.as_str()),
                UnifiedItemBody::ApprovalRequest(request) if !decided.contains(request.approval_id.as_str()) => {
                    work.questions.push(request.approval_id.clone());
                }
                _ => {}
            }
        }
        if !prepared.turn.options.waits_for_approvals {
            // A client protocol asks its user by itself, and answers with its next request.
            work.questions.clear();
        }
        work
    }

    /// Whether a completed answer leaves something to do here.
    pub(crate) fn acts(&self) -> bool {
        let work = self.work();
        !work.calls.is_empty() || !work.questions.is_empty()
    }

    /// Does what the answer left open; true when the provider is to be asked again, false when the operation has ended.
    pub(crate) async fn act(&mut self, ending: Ending, cancel: &mut watch::Receiver<Option<CancelRequest>>) -> Result<bool, Stop> {
        self.rounds += 1;
        if self.rounds > self.engine.limits.tool_rounds {
            let limit = self.engine.limits.tool_rounds;
            return Err(Stop::Failed(UnifiedError::new(
                ErrorCategory::Limit,
                "tool-rounds",
                format!("the model asked for tools more than {limit} times in one operation; what came before is kept"),
            )));
        }
        // The provider's work behind this answer is over; only that of the next one could be gone on with.
        (self.operation.provider_job, self.operation.webhook) = (None, None);
        let work = self.work();
        let mut decisions = self.decided_before(&work);
        let asked = self.ask(&work, &decisions).await.map_err(Stop::Failed)?;
        if asked.is_empty() && self.operation.state == OperationState::RequiresAction {
            self.step(Vec::new(), Some(OperationState::Running)).await.map_err(Stop::Failed)?;
        }
        decisions.extend(self.wait(asked, cancel).await?);
        for (item_id, call, tool) in work.calls {
            let decision = decisions.iter().find(|approval| approval.approval_id == approval_id(&call.call_id));
            match decision {
                Some(Approval {
                    decision: ApprovalDecision::Denied,
                    reason,
                    ..
                }) => self.deny(&call, reason.as_deref()).await.map_err(Stop::Failed)?,
                _ => self.execute(&item_id, call, tool, decision.is_some(), cancel).await?,
            }
        }
        if work.client_is_next {
            let batch = WriteBatch::new(self.engine.clock.now(), self.operation.conversation_id.clone());
            self.finish(batch, Vec::new(), ending).await.map_err(Stop::Failed)?;
            return Ok(false);
        }
        if let Some(projector) = &mut self.projector {
            projector.go_on(self.scribe.fold.items());
        }
        self.handles.go_on();
        Ok(true)
    }

    /// Asks for what must be allowed; the questions, when there are any.
    async fn ask(&mut self, work: &Work, decided: &[Approval]) -> Result<BTreeSet<String>, UnifiedError> {
        let mut asked: BTreeSet<String> = work.questions.iter().cloned().collect();
        let mut drafts = Vec::new();
        let known = self.known_questions();
        for (item_id, call, tool) in &work.calls {
            if !tools::needs_approval(tool, &call.name) {
                continue;
            }
            let approval_id = approval_id(&call.call_id);
            if known.contains(&approval_id) {
                // Asked before the process was started again.
                if !decided.iter().any(|approval| approval.approval_id == approval_id) {
                    asked.insert(approval_id);
                }
                continue;
            }
            let request = ApprovalRequestItem {
                approval_id: approval_id.clone(),
                call_id: Some(call.call_id.clone()),
                subject: ApprovalSubject::ToolCall,
                name: Some(call.name.clone()),
                server_label: None,
                raw_arguments: Some(call.raw_arguments.clone()),
                reasons: None,
            };
            drafts.push(moved(item_id, call, call.lifecycle, UnifiedToolLifecycle::ApprovalRequired));
            drafts.push(self.whole(drafts.len() / 2, None, UnifiedItemBody::ApprovalRequest(request)));
            asked.insert(approval_id);
        }
        if asked.is_empty() {
            return Ok(asked);
        }
        // Whoever reads of a question may decide it at once.
        for approval_id in &asked {
            self.live.questions.ask(approval_id);
        }
        if self.operation.state == OperationState::RequiresAction {
            return Ok(asked);
        }
        self.hold(drafts).await?;
        Ok(asked)
    }

    /// Questions of this process that the answer has asked already.
    fn known_questions(&self) -> BTreeSet<String> {
        let asked = self.scribe.fold.items().iter().filter_map(|item| match &item.body {
            UnifiedItemBody::ApprovalRequest(request) => Some(request.approval_id.clone()),
            _ => None,
        });
        asked.collect()
    }

    /// Decisions about these calls that came before the process was started again.
    fn decided_before(&self, work: &Work) -> Vec<Approval> {
        let about: BTreeSet<String> = work.calls.iter().map(|(_, call, _)| approval_id(&call.call_id)).collect();
        let made = self.scribe.fold.items().iter().filter_map(|item| match &item.body {
            UnifiedItemBody::ApprovalResponse(response) if about.contains(&response.approval_id) => Some(Approval {
                approval_id: response.approval_id.clone(),
                decision: response.decision,
                reason: response.reason.clone(),
            }),
            _ => None,
        });
        made.collect()
    }

    /// Commits questions with the state that waits for them. The request is kept with it, so that a restart changes nothing.
    async fn hold(&mut self, drafts: Vec<EventDraft>) -> Result<(), UnifiedError> {
        let mut keep = None;
        if let Some(projector) = self.projector.as_ref().filter(|_| !self.kept) {
            keep = kept::keep(
                &self.engine,
                &projector.prepared,
                &self.operation.conversation_id,
                projector.is_delta,
            )?;
        }
        let kept = self.kept || keep.is_some();
        self.step_with(drafts, Some(OperationState::RequiresAction), keep).await?;
        self.kept = kept;
        Ok(())
    }

    /// Waits until every question is decided, committing each decision as it comes.
    async fn wait(
        &mut self,
        mut asked: BTreeSet<String>,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<Vec<Approval>, Stop> {
        let mut decisions = Vec::new();
        if asked.is_empty() {
            return Ok(decisions);
        }
        let lost = || {
            Stop::Failed(UnifiedError::new(
                ErrorCategory::Internal,
                "approvals",
                "nobody can decide for this operation",
            ))
        };
        let mut receiver = self.live.questions.decisions().ok_or_else(lost)?;
        while !asked.is_empty() {
            let decided = tokio::select! {
                biased;
                request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
                decided = receiver.recv() => decided.ok_or_else(lost)?,
            };
            let Decided { approval, committed } = decided;
            asked.remove(&approval.approval_id);
            let next = asked.is_empty().then_some(OperationState::Running);
            let drafts = self.decided(&approval);
            self.step(drafts, next).await.map_err(Stop::Failed)?;
            // Whoever decided may have gone away.
            let _ = committed.send(());
            decisions.push(approval);
        }
        self.live.questions.put_back(receiver);
        Ok(decisions)
    }

    /// The events of a decision: the answer as an item, and the state of the call that it is about.
    fn decided(&self, approval: &Approval) -> Vec<EventDraft> {
        let response = ApprovalResponseItem {
            approval_id: approval.approval_id.clone(),
            decision: approval.decision,
            reason: approval.reason.clone(),
            acknowledged: None,
        };
        let to = match approval.decision {
            ApprovalDecision::Approved => UnifiedToolLifecycle::ApprovalApproved,
            ApprovalDecision::Denied => UnifiedToolLifecycle::ApprovalDenied,
        };
        let mut drafts = vec![self.whole(0, Some(Role::User), UnifiedItemBody::ApprovalResponse(response))];
        for item in self.scribe.fold.items() {
            if let UnifiedItemBody::ToolCall(call) = &item.body
                && approval_id(&call.call_id) == approval.approval_id
                && call.lifecycle == UnifiedToolLifecycle::ApprovalRequired
            {
                drafts.push(moved(&item.id, call, call.lifecycle, to));
            }
        }
        drafts
    }

    /// What the model is told of a call that was not allowed.
    async fn deny(&mut self, call: &ToolCallItem, reason: Option<&str>) -> Result<(), UnifiedError> {
        let text = reason.map_or_else(
            || "The call was not allowed.".to_owned(),
            |reason| format!("The call was not allowed: {reason}"),
        );
        let error = UnifiedError::new(ErrorCategory::Permission, "approval", "the call was not allowed");
        let result = self.result(call, vec![PartBody::Text(text_part(text))], Some(error));
        self.step(vec![result], None).await
    }

    /// Runs a call and records what came of it.
    async fn execute(
        &mut self,
        item_id: &UnifiedId,
        call: ToolCallItem,
        tool: UnifiedToolDefinition,
        approved: bool,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<(), Stop> {
        let from = if approved {
            UnifiedToolLifecycle::ApprovalApproved
        } else {
            call.lifecycle
        };
        let executing = vec![moved(item_id, &call, from, UnifiedToolLifecycle::Executing)];
        self.step(executing, None).await.map_err(Stop::Failed)?;
        let Some(principal) = self.projector.as_ref().map(|p| p.prepared.turn.principal.clone()) else {
            return Ok(());
        };
        let invocation = ToolInvocation {
            principal,
            conversation_id: self.operation.conversation_id.clone(),
            operation_id: self.operation.operation_id.clone(),
            call_id: call.call_id.clone(),
            tool,
            raw_arguments: call.raw_arguments.clone(),
            input: call.input.clone(),
        };
        let missing = || UnifiedError::new(ErrorCategory::Unsupported, "tool", "this gateway does not execute this tool");
        let executor = self.engine.tools.get().cloned().ok_or_else(|| Stop::Failed(missing()))?;
        let run = AssertUnwindSafe(async move { executor.run(invocation).await }).catch_unwind();
        let outcome = tokio::select! {
            biased;
            request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
            outcome = run => outcome,
        };
        let outcome = outcome.unwrap_or_else(|_| Err(UnifiedError::new(ErrorCategory::Internal, "tool", "the tool broke off")));
        let (parts, error, to) = match outcome {
            Ok(parts) => (parts, None, UnifiedToolLifecycle::OutputReady),
            Err(error) => {
                let told = vec![PartBody::Text(text_part(error.message.clone()))];
                (told, Some(error), UnifiedToolLifecycle::OutputError)
            }
        };
        let drafts = vec![
            moved(item_id, &call, UnifiedToolLifecycle::Executing, to),
            self.result(&call, parts, error),
        ];
        self.step(drafts, None).await.map_err(Stop::Failed)
    }

    fn result(&self, call: &ToolCallItem, parts: Vec<PartBody>, error: Option<UnifiedError>) -> EventDraft {
        let id = self.own_id(0);
        let output = (0..)
            .zip(parts)
            .map(|(n, body)| UnifiedContentPart::new(id.part(n), body))
            .collect();
        let result = ToolResultItem {
            call_id: call.call_id.clone(),
            name: Some(call.name.clone()),
            output,
            is_error: error.as_ref().map(|_| true),
            error,
            execution: Execution::Ccr,
        };
        self.whole(0, Some(Role::Tool), UnifiedItemBody::ToolResult(result))
    }

    /// An ID for an item of this process: none that an answer's item could have.
    fn own_id(&self, ahead: usize) -> UnifiedId {
        let id = &self.operation.operation_id;
        let number = self.scribe.fold.items().len() + ahead;
        UnifiedId::parse(&format!("{id}.x{number}")).unwrap_or_else(|_| id.resource(number as u64))
    }

    /// An item of this process, complete when it comes.
    fn whole(&self, ahead: usize, role: Option<Role>, body: UnifiedItemBody) -> EventDraft {
        let id = self.own_id(ahead);
        let provenance = UnifiedItemProvenance {
            operation_id: Some(self.operation.operation_id.clone()),
            ..UnifiedItemProvenance::of(ItemOrigin::Engine)
        };
        let item = UnifiedItem {
            base: UnifiedItemBase::unplaced(id.clone(), role, self.engine.clock.now(), provenance),
            body,
        };
        let status = ItemStatus::Completed;
        EventDraft::of_item(id, EventBody::ItemCompleted(ItemCompleted { status, item: Some(item) }))
    }

    /// Commits events, what they add to the journal, and the state that they lead to.
    pub(crate) async fn step(&mut self, drafts: Vec<EventDraft>, state: Option<OperationState>) -> Result<(), UnifiedError> {
        self.step_with(drafts, state, None).await
    }

    async fn step_with(
        &mut self,
        drafts: Vec<EventDraft>,
        state: Option<OperationState>,
        also: Option<WriteOp>,
    ) -> Result<(), UnifiedError> {
        let now = self.engine.clock.now();
        let lifecycles = terminal::lifecycles(&drafts);
        let mut events = self.scribe.write(drafts, now)?;
        if let Some(state) = state {
            events.extend(self.scribe.write(vec![state_event(state)], now)?);
            self.operation.state = state;
        }
        self.operation.updated_at = now;
        self.operation.last_sequence = self.scribe.fold.last_sequence();
        let mut batch = WriteBatch::new(now, self.operation.conversation_id.clone());
        batch.ops.extend(also);
        self.journal
            .step(&self.engine, &self.operation, self.scribe.fold.items(), &lifecycles, batch, &events)
            .await?;
        self.live.publish(events);
        Ok(())
    }
}

/// What the IDs of an answer's items and resources are derived from, so that no two answers of an operation share one.
pub(crate) fn answer_id(operation_id: &UnifiedId, round: usize) -> UnifiedId {
    if round == 0 {
        return operation_id.clone();
    }
    UnifiedId::parse(&format!("{operation_id}.a{round}")).unwrap_or_else(|_| operation_id.clone())
}

/// The drafts of a later answer as those of the operation, which has begun already.
pub(crate) fn later(operation_id: &UnifiedId, drafts: &mut [EventDraft]) {
    let own = |item: &mut UnifiedItem| item.base.provenance.operation_id = Some(operation_id.clone());
    for draft in drafts {
        match &mut draft.body {
            EventBody::ResponseStarted(started) => {
                let metadata = ResponseMetadata {
                    model: Some(started.model.clone()),
                    ..ResponseMetadata::default()
                };
                draft.body = EventBody::ResponseMetadata(metadata);
            }
            EventBody::ItemStarted(started) => own(&mut started.item),
            EventBody::ItemCompleted(done) => done.item.iter_mut().for_each(own),
            _ => {}
        }
    }
}

fn state_event(state: OperationState) -> EventDraft {
    let changed = throughline_format::event::OperationChanged::default();
    EventDraft::new(match state {
        OperationState::RequiresAction => EventBody::OperationRequiresAction(changed),
        _ => EventBody::OperationRunning(changed),
    })
}

/// The question about a call.
fn approval_id(call_id: &str) -> String {
    format!("approve:{call_id}")
}

fn moved(item_id: &UnifiedId, call: &ToolCallItem, from: UnifiedToolLifecycle, to: UnifiedToolLifecycle) -> EventDraft {
    let change = ToolLifecycleEvent {
        from,
        to,
        execution: Some(Execution::Ccr),
    };
    EventDraft::of_call(item_id.clone(), call.call_id.clone(), EventBody::ToolLifecycle(change))
}

fn text_part(text: String) -> throughline_format::part::TextPart {
    throughline_format::part::TextPart {
        text,
        ..Default::default()
    }
}
