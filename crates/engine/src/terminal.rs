//! The end of an operation: which events close it, and the one transaction that commits everything with them.

use crate::engine::Engine;
use crate::lineage::LINEAGE_VERSION;
use crate::lineage::atoms::atoms;
use crate::lineage::calls;
use crate::lineage::chain::Link;
use crate::progress::{Lifecycle, Progress};
use crate::scribe::{Scribe, Written};
use throughline_format::event::{ErrorEvent, ItemCompleted, OperationChanged, OperationCompleted, ResponseMetadata, StreamCompleted};
use throughline_format::item::{InterruptionCause, InterruptionItem, ItemStatus, UnifiedItemBody, Visibility};
use throughline_format::provenance::ItemOrigin;
use throughline_format::{
    ErrorCategory, EventBody, EventDraft, Fold, OperationState, Timestamp, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedItem,
    UnifiedItemBase, UnifiedItemProvenance, UnifiedOperation, UnifiedResponseStatus, UnifiedResultV2,
};
use throughline_store::{LineageRow, StoreError, WriteBatch, WriteOp};

/// How an operation ends.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    Completed { status: UnifiedResponseStatus },
    Failed { error: UnifiedError },
    Interrupted { error: UnifiedError, cause: InterruptionCause },
    Cancelled { reason: Option<String> },
    Expired,
}

impl Ending {
    pub(crate) const fn interrupted(error: UnifiedError, cause: InterruptionCause) -> Self {
        Self::Interrupted { error, cause }
    }
}

/// Takes the terminal events off a decoded batch: how an operation ends is written in one place, [`drafts`].
pub(crate) fn split(drafts: Vec<EventDraft>, provider_request_id: Option<&str>) -> (Vec<EventDraft>, Option<Ending>) {
    let mut kept = Vec::with_capacity(drafts.len());
    let mut ending = None;
    for draft in drafts {
        match draft.body {
            EventBody::OperationCompleted(OperationCompleted { status }) => ending = Some(Ending::Completed { status }),
            EventBody::OperationFailed(ErrorEvent { error }) if error.category == ErrorCategory::Interrupted => {
                ending = Some(Ending::interrupted(error, InterruptionCause::ConnectionLost));
            }
            EventBody::OperationFailed(ErrorEvent { error }) => ending = Some(Ending::Failed { error }),
            // A decoder's own word for what its runtime remembers; checkpoints are made where the end is committed.
            EventBody::StreamCompleted(_) | EventBody::CheckpointReady(_) => {}
            EventBody::ResponseStarted(_) => {
                kept.push(draft);
                if let Some(id) = provider_request_id {
                    let metadata = ResponseMetadata {
                        provider_request_id: Some(id.chars().take(128).collect()),
                        ..ResponseMetadata::default()
                    };
                    kept.push(EventDraft::new(EventBody::ResponseMetadata(metadata)));
                }
            }
            _ => kept.push(draft),
        }
    }
    (kept, ending)
}

/// Puts the item that tells of a switch before the answer that it is about, once that begins.
pub(crate) fn tell_switch(drafts: &mut Vec<EventDraft>, switch: &mut Option<UnifiedItem>) {
    let Some(at) = drafts.iter().position(|draft| matches!(draft.body, EventBody::ResponseStarted(_))) else {
        return;
    };
    if let Some(item) = switch.take() {
        drafts.insert(at + 1, whole(item));
    }
}

/// An item that is complete when it comes.
fn whole(item: UnifiedItem) -> EventDraft {
    EventDraft::of_item(
        item.id.clone(),
        EventBody::ItemCompleted(ItemCompleted {
            status: ItemStatus::Completed,
            item: Some(item),
        }),
    )
}

/// The events that close an operation: an interruption item where it was torn, the terminal event, `stream.completed`.
pub(crate) fn drafts(ending: Ending, fold: &Fold, operation_id: &UnifiedId, now: Timestamp) -> Vec<EventDraft> {
    let completed = |status: &UnifiedResponseStatus| {
        EventDraft::new(EventBody::StreamCompleted(StreamCompleted {
            status: status.clone(),
            item_ids: Vec::new(),
        }))
    };
    match ending {
        Ending::Completed { status } => {
            let last = completed(&status);
            vec![EventDraft::new(EventBody::OperationCompleted(OperationCompleted { status })), last]
        }
        Ending::Failed { error } => {
            let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Failed, error.provider_code.clone());
            let last = completed(&status);
            vec![EventDraft::new(EventBody::OperationFailed(ErrorEvent { error })), last]
        }
        Ending::Interrupted { error, cause } => {
            let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Interrupted, None);
            let last = completed(&status);
            vec![
                interruption(fold, operation_id, cause, now),
                EventDraft::new(EventBody::OperationFailed(ErrorEvent { error })),
                last,
            ]
        }
        Ending::Expired => {
            let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Incomplete, None);
            let reason = Some("the deadline of the operation passed".to_owned());
            let last = completed(&status);
            vec![
                interruption(fold, operation_id, InterruptionCause::Deadline, now),
                EventDraft::new(EventBody::OperationExpired(OperationChanged { reason })),
                last,
            ]
        }
        Ending::Cancelled { reason } => {
            let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Cancelled, None);
            let last = completed(&status);
            let terminal = EventDraft::new(EventBody::OperationCancelled(OperationChanged { reason }));
            vec![
                interruption(fold, operation_id, InterruptionCause::ClientCancel, now),
                terminal,
                last,
            ]
        }
    }
}

fn interruption(fold: &Fold, operation_id: &UnifiedId, cause: InterruptionCause, now: Timestamp) -> EventDraft {
    let items = fold.items();
    // The ordinal after the answer's last item; an answer without items has only this one.
    let id = UnifiedId::parse(&format!("{operation_id}.interruption")).unwrap_or_else(|_| operation_id.resource(0));
    let provenance = UnifiedItemProvenance {
        operation_id: Some(operation_id.clone()),
        ..UnifiedItemProvenance::of(ItemOrigin::Engine)
    };
    let item = UnifiedItem {
        base: UnifiedItemBase {
            visibility: Visibility::Client,
            ..UnifiedItemBase::unplaced(id, None, now, provenance)
        },
        body: UnifiedItemBody::Interruption(InterruptionItem {
            cause,
            operation_id: operation_id.clone(),
            open_call_ids: calls::open_calls(items),
        }),
    };
    whole(item)
}

/// The write of events that follow each other.
pub(crate) fn append(operation_id: &UnifiedId, events: &[Written]) -> WriteOp {
    WriteOp::AppendEvents {
        operation_id: operation_id.clone(),
        first_sequence: events.first().map_or(0, |(sequence, _)| *sequence),
        events: events.iter().map(|(_, bytes)| bytes.clone()).collect(),
    }
}

/// The calls that drafts move to another state.
pub(crate) fn lifecycles(drafts: &[EventDraft]) -> Vec<Lifecycle> {
    let moved = |draft: &EventDraft| match &draft.body {
        EventBody::ToolLifecycle(change) => Some((draft.item_id.clone()?, change.to)),
        _ => None,
    };
    drafts.iter().filter_map(moved).collect()
}

/// Adds everything that the end commits to a batch, and brings the operation record to its end.
pub(crate) fn batch(
    mut batch: WriteBatch,
    operation: &mut UnifiedOperation,
    fold: &Fold,
    events: &[Written],
    lineage: Vec<LineageRow>,
    request_id: Option<UnifiedId>,
    progress: &Progress,
) -> Result<WriteBatch, UnifiedError> {
    let mut result = fold.result();
    result.conversation_id = Some(operation.conversation_id.clone());
    result.provenance.request_id = request_id;
    operation.last_sequence = fold.last_sequence();
    if events.is_empty() {
        return Err(UnifiedError::new(
            ErrorCategory::Internal,
            "operation",
            "an operation cannot end without events",
        ));
    }
    batch.push(append(&operation.operation_id, events));
    batch.ops.extend(progress.rest(operation, &result.output));
    let state = fold.operation_state().unwrap_or(OperationState::Failed);
    let mut batch = close(batch, operation, state, result);
    if !lineage.is_empty() {
        batch.push(WriteOp::PutLineage(lineage));
    }
    Ok(batch)
}

/// Ends an operation whose own end the store will never take, such as one with an item beyond its bounds or with events that
/// cannot be read any more: with the error alone, and with no more items than stand in the journal already. Gives the operation
/// as it ended, and its last events.
pub(crate) async fn end_bare(
    engine: &Engine,
    operation: &UnifiedOperation,
    error: UnifiedError,
) -> Result<(UnifiedOperation, Vec<Written>), UnifiedError> {
    let (id, now) = (&operation.operation_id, engine.clock.now());
    let error = error.of_operation(id);
    let ending = Ending::Failed { error: error.clone() };
    let (fold, events) = match Scribe::resume(engine, operation, 0).await {
        Ok(mut scribe) => {
            let last = drafts(ending, &scribe.fold, id, now);
            let events = scribe.write_end(last, now)?;
            (scribe.fold, events)
        }
        Err(unread) if unread.retryable => return Err(unread),
        Err(_) => {
            let fold = Fold::new(id.clone());
            let last = engine.store.last_sequence(id).await.map_err(|e| e.to_unified())?;
            let events = (last + 1..).zip(drafts(ending, &fold, id, now)).map(|(sequence, draft)| {
                let event = serde_json::to_vec(&draft.stamp(id, sequence, now));
                let event = event.map_err(|e| UnifiedError::new(ErrorCategory::Internal, "event", e.to_string()))?;
                Ok((sequence, event.into()))
            });
            let events = events.collect::<Result<Vec<Written>, UnifiedError>>()?;
            (fold, events)
        }
    };
    let kept = Progress::find(engine, fold.items()).await.map_or(0, |progress| progress.appended);
    let mut result = fold.result();
    result.output.truncate(kept);
    result.alternatives = None;
    result.conversation_id = Some(operation.conversation_id.clone());
    result.status = UnifiedResponseStatus::finished(UnifiedFinishReason::Failed, error.provider_code.clone());
    result.error = Some(error);
    let mut ended = operation.clone();
    let batch = WriteBatch::new(now, operation.conversation_id.clone()).with(append(id, &events));
    let batch = close(batch, &mut ended, OperationState::Failed, result);
    persist(engine, batch).await.map_err(|e| e.to_unified())?;
    Ok((ended, events))
}

/// Brings the record of an operation to its end, with its result.
fn close(mut batch: WriteBatch, operation: &mut UnifiedOperation, state: OperationState, result: UnifiedResultV2) -> WriteBatch {
    operation.state = state;
    operation.result_id = Some(result.response_id.clone());
    operation.error.clone_from(&result.error);
    if state == OperationState::Expired {
        operation.error = Some(crate::deadline::expired().of_operation(&operation.operation_id));
    }
    operation.ended_at = Some(batch.now);
    operation.updated_at = batch.now;
    batch.push(WriteOp::PutResult {
        operation_id: operation.operation_id.clone(),
        result: Box::new(result),
    });
    let lease = operation.cleanup_lease.take();
    batch.push(WriteOp::UpdateOperation(operation.clone()));
    if let Some(lease) = lease {
        batch.push(WriteOp::ReleaseLease { lease_id: lease.lease_id });
    }
    batch
}

/// How often a commit is tried while the store says that it may work later, and the first pause between two tries.
const COMMIT_TRIES: u32 = 8;
const FIRST_PAUSE_MILLIS: u64 = 50;

/// Commits a batch, again while the store is busy or full: an answer on its way is worth waiting for. Batches are repeatable.
pub(crate) async fn persist(engine: &Engine, batch: WriteBatch) -> Result<(), StoreError> {
    let mut pause = std::time::Duration::from_millis(FIRST_PAUSE_MILLIS);
    for _ in 1..COMMIT_TRIES {
        match engine.commit(batch.clone()).await {
            Ok(_) => return Ok(()),
            // A head that moved stays moved: the caller decides where the answer goes.
            Err(error @ StoreError::HeadMoved { .. }) => return Err(error),
            Err(error) if error.is_retryable() => {
                tracing::warn!(code = error.code(), "the store refused a commit; trying again");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error),
        }
    }
    engine.commit(batch).await.map(|_| ())
}

/// Commits the end. When the branch head moved meanwhile, the answer goes to a branch of its own: it is never lost.
pub(crate) async fn commit(
    engine: &Engine,
    mut batch: WriteBatch,
    operation: &UnifiedOperation,
    progress: &Progress,
) -> Result<(), UnifiedError> {
    match persist(engine, batch.clone()).await {
        Ok(()) => return Ok(()),
        Err(StoreError::HeadMoved { .. }) => {}
        Err(e) => return Err(e.to_unified()),
    }
    progress.fork(engine, operation, &mut batch)?;
    persist(engine, batch).await.map_err(|e| e.to_unified())
}

/// Evidence rows for an answer: the atoms as the client got them, each at the journal item that it ends with.
pub(crate) fn evidence(
    operation: &UnifiedOperation,
    branch_id: &UnifiedId,
    link: Link,
    delivered: &[UnifiedItem],
    output: &[UnifiedItem],
    now: Timestamp,
) -> Vec<LineageRow> {
    let answer = atoms(delivered);
    let Some(last_item) = output
        .iter()
        .rev()
        .find(|i| i.provenance.origin != ItemOrigin::Engine)
        .or(output.last())
    else {
        return Vec::new();
    };
    let calls: Vec<&UnifiedItem> = output.iter().filter(|i| calls::is_call(i)).collect();
    let before_calls = calls
        .first()
        .and_then(|call| output.iter().position(|i| i.id == call.id))
        .and_then(|at| at.checked_sub(1))
        .and_then(|at| output.get(at));
    let (mut rows, mut at, mut seen_calls) = (Vec::new(), link, 0);
    for (index, atom) in answer.iter().enumerate() {
        at = at.then(atom);
        let is_call = atom.kind == crate::lineage::atoms::AtomKind::Call;
        seen_calls += usize::from(is_call);
        let item = if index + 1 == answer.len() {
            Some(last_item)
        } else if is_call {
            calls.get(seen_calls - 1).copied()
        } else {
            before_calls
        };
        // Without an item that ends before the first call, a place inside the answer is the call itself.
        let item = item.unwrap_or(last_item);
        rows.push(LineageRow {
            principal_ref: operation.principal_ref.clone(),
            link: at.hash,
            lineage_version: LINEAGE_VERSION,
            conversation_id: operation.conversation_id.clone(),
            branch_id: branch_id.clone(),
            item_id: item.id.clone(),
            ordinal: at.ordinal,
            evidence: atom.is_answer(),
            created_at: now,
        });
    }
    rows
}
