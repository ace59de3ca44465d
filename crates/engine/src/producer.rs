//! The producer of one operation: sends the request, commits what comes back, publishes only what is committed.
//!
//! Chunks that arrive while a commit is on its way are decoded together afterwards and their deltas joined; the commit in
//! flight is the batching window, so an idle stream has no added latency and a fast one no commit per token.

use crate::engine::Engine;
use crate::lineage::chain::Link;
use crate::lineage::issued;
use crate::live::{CancelRequest, Live};
use crate::ports::{Target, UpstreamCall, UpstreamReply};
use crate::private;
use crate::projector::{Outgoing, Projector};
use crate::terminal::{self, Ending};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_format::item::{InterruptionCause, UnifiedItemBody};
use throughline_format::{
    ErrorCategory, EventBody, EventDraft, Fold, Sha256, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedOperation,
};
use throughline_protocols::{DecodeContext, Decoded, EncodeContext, StreamDecoder};
use throughline_store::{IssuedId, WriteBatch, WriteOp, owner_fingerprint};
use tokio::sync::watch;

/// Most bytes of chunks that one commit takes.
const GATHER_BYTES: usize = 256 * 1024;
/// Longest joined delta.
const MAX_DELTA_BYTES: usize = 4 * 1024;

/// Where the next item of an answer stands.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) conversation_id: UnifiedId,
    pub(crate) branch_id: UnifiedId,
    pub(crate) first_item: u64,
    pub(crate) next_sequence: u64,
    pub(crate) last_item: Option<UnifiedId>,
}

impl Seat {
    /// Gives an item its place in the journal.
    pub(crate) fn take(&mut self, item: &mut UnifiedItem) {
        item.base.conversation_id = self.conversation_id.clone();
        item.base.branch_id = self.branch_id.clone();
        item.base.sequence = self.next_sequence;
        self.next_sequence += 1;
        item.base.parent_id = self.last_item.replace(item.base.id.clone());
    }
}

/// Runs one operation to its end.
pub(crate) struct Producer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) operation: UnifiedOperation,
    pub(crate) seat: Seat,
    pub(crate) live: Arc<Live>,
    pub(crate) fold: Fold,
    pub(crate) projector: Projector,
    pub(crate) targets: Vec<Target>,
    pub(crate) first: Option<Outgoing>,
    pub(crate) encode: EncodeContext,
    pub(crate) link: Link,
    /// Bytes that each item of the answer has taken so far.
    pub(crate) item_bytes: BTreeMap<UnifiedId, usize>,
    /// Hashes of private payloads that the client got with this answer.
    pub(crate) issued_states: Vec<Sha256>,
}

/// Why the loop over the answer ended without a terminal event of its own.
enum Stop {
    Cancelled(CancelRequest),
    Failed(UnifiedError),
}

impl Producer {
    pub(crate) async fn run(mut self) {
        let closing = CloseOnDrop {
            engine: Arc::clone(&self.engine),
            live: Arc::clone(&self.live),
            operation_id: self.operation.operation_id.clone(),
        };
        let mut cancel = self.live.watch_cancel();
        if let Err(stop) = self.drive(&mut cancel).await
            && let Err(error) = self.end(stop).await
        {
            // The end could not be committed: recovery at the next start does it.
            tracing::error!(operation = %self.operation.operation_id, code = %error.code, "the end of the operation was not committed");
        }
        drop(closing);
    }

    async fn drive(&mut self, cancel: &mut watch::Receiver<Option<CancelRequest>>) -> Result<(), Stop> {
        let (target, mut reply) = self.send(cancel).await?;
        let context = self.decode_context(&target)?;
        if !reply.is_stream {
            let body = self.read_all(&mut reply, cancel).await?;
            let decoded = target.codec.decode_response(&body, &context).map_err(|mut e| {
                // The provider's body is at fault here, not the client's.
                e.category = ErrorCategory::Server;
                e.code = "server.response".into();
                e.field_path = None;
                Stop::Failed(e)
            })?;
            return self
                .commit(decoded, &target, reply.provider_request_id.as_deref())
                .await
                .map(|_| ())
                .map_err(Stop::Failed);
        }
        let mut decoder = target.codec.stream_decoder(&context);
        loop {
            let decoded = self.gather(&mut reply, decoder.as_mut(), cancel).await?;
            if self
                .commit(decoded, &target, reply.provider_request_id.as_deref())
                .await
                .map_err(Stop::Failed)?
            {
                return Ok(());
            }
        }
    }

    /// Sends to the first target that answers; later ones are tried only before the first byte.
    async fn send(&mut self, cancel: &mut watch::Receiver<Option<CancelRequest>>) -> Result<(Target, UpstreamReply), Stop> {
        let targets = std::mem::take(&mut self.targets);
        let last = targets.len().saturating_sub(1);
        for (index, target) in targets.into_iter().enumerate() {
            let outgoing = match self.first.take() {
                Some(outgoing) => outgoing,
                None => self.projector.project(&self.engine, &target).await.map_err(Stop::Failed)?,
            };
            if outgoing.loss.is_unsupported() {
                continue;
            }
            let loss = outgoing.loss;
            let call = UpstreamCall {
                operation_id: self.operation.operation_id.clone(),
                request_id: self.projector.prepared.request_id.clone(),
                model: target.model.clone(),
                body: outgoing.body,
                stream: outgoing.stream,
                client_headers: self.projector.prepared.turn.client_headers.clone(),
            };
            let answer = tokio::select! {
                biased;
                request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
                answer = target.upstream.call(call) => answer,
            };
            match answer {
                Ok(reply) => {
                    self.operation.owner = Some(target.owner.clone());
                    self.operation.loss = Some(loss);
                    return Ok((target, reply));
                }
                Err(error) if index < last && error.retryable => {
                    tracing::warn!(operation = %self.operation.operation_id, provider = %target.provider, code = %error.code, "falling back to the next target");
                }
                Err(error) => return Err(Stop::Failed(error)),
            }
        }
        Err(Stop::Failed(UnifiedError::new(
            ErrorCategory::Unsupported,
            "projection",
            "no target of the route can do what the request requires",
        )))
    }

    fn decode_context(&self, target: &Target) -> Result<DecodeContext, Stop> {
        let prepared = &self.projector.prepared;
        Ok(DecodeContext {
            operation_id: self.operation.operation_id.clone(),
            request_id: prepared.request_id.clone(),
            conversation_id: self.seat.conversation_id.clone(),
            branch_id: self.seat.branch_id.clone(),
            first_item: self.seat.first_item,
            first_sequence: self.seat.next_sequence,
            received_at: self.engine.clock.now(),
            runtime: prepared.turn.client_family.clone(),
            model_provider: target.model_provider.clone(),
            requested_model: Some(target.model.clone()),
            dialect: target.dialect.clone(),
            owner_fingerprint: owner_fingerprint(&target.owner).map_err(|e| Stop::Failed(e.to_unified()))?,
            synthetic: self.engine.synthetic.clone(),
        })
    }

    async fn read_all(&self, reply: &mut UpstreamReply, cancel: &mut watch::Receiver<Option<CancelRequest>>) -> Result<Vec<u8>, Stop> {
        let mut body = Vec::new();
        loop {
            let chunk = tokio::select! {
                biased;
                request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
                chunk = reply.body.next() => chunk,
            };
            match chunk {
                None => return Ok(body),
                Some(Ok(bytes)) if body.len() + bytes.len() <= self.engine.limits.answer_bytes => body.extend_from_slice(&bytes),
                Some(Ok(_)) => {
                    return Err(Stop::Failed(UnifiedError::new(
                        ErrorCategory::Limit,
                        "answer",
                        "the provider's answer is larger than this gateway takes",
                    )));
                }
                Some(Err(error)) => return Err(Stop::Failed(interrupted(error))),
            }
        }
    }

    /// Waits for one chunk and takes what else has arrived already.
    async fn gather(
        &self,
        reply: &mut UpstreamReply,
        decoder: &mut dyn StreamDecoder,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<Decoded, Stop> {
        let mut decoded = Decoded::default();
        let mut taken = 0;
        let mut chunk = tokio::select! {
            biased;
            request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
            chunk = reply.body.next() => chunk,
        };
        loop {
            match chunk {
                Some(Ok(bytes)) => {
                    taken += bytes.len();
                    decoded.extend(decoder.push(&bytes));
                }
                // A torn connection is the decoder's to judge: it knows whether the answer was complete.
                Some(Err(error)) => {
                    tracing::debug!(operation = %self.operation.operation_id, code = %error.code, "the provider's connection broke");
                    decoded.extend(decoder.finish());
                    return Ok(decoded);
                }
                None => {
                    decoded.extend(decoder.finish());
                    return Ok(decoded);
                }
            }
            if decoder.is_finished() || taken >= GATHER_BYTES {
                return Ok(decoded);
            }
            match reply.body.next().now_or_never() {
                Some(next) => chunk = next,
                None if decoded.drafts.is_empty() => {
                    chunk = tokio::select! {
                        biased;
                        request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
                        chunk = reply.body.next() => chunk,
                    };
                }
                None => return Ok(decoded),
            }
        }
    }

    /// Commits one batch of decoded events and publishes them; true when it was the end. After a failure the fold stands
    /// where the store does, so that whatever follows has no gap.
    async fn commit(&mut self, decoded: Decoded, target: &Target, provider_request_id: Option<&str>) -> Result<bool, UnifiedError> {
        let outcome = self.try_commit(decoded, target, provider_request_id).await;
        if outcome.is_err() {
            self.resume_from_store().await?;
        }
        outcome
    }

    async fn try_commit(&mut self, decoded: Decoded, target: &Target, provider_request_id: Option<&str>) -> Result<bool, UnifiedError> {
        let now = self.engine.clock.now();
        let mut batch = WriteBatch::new(now, self.operation.conversation_id.clone());
        let discloses = target.codec.profile().family == self.projector.prepared.turn.codec.profile().family;
        for side in &decoded.resources {
            batch.push(WriteOp::PutResource(Box::new(private::seal(
                &self.engine.vault,
                side,
                &self.operation.conversation_id,
                &target.owner,
                now,
            )?)));
            if discloses {
                let payload = Bytes::copy_from_slice(&side.payload);
                if private::is_provider_state(side) {
                    self.issued_states.push(issued::hash(&self.engine.vault, &payload)?);
                }
                if side.subject.is_none() {
                    self.live.disclose_root(side.schema.clone(), payload.clone());
                }
                self.live.disclose(side.resource_id.clone(), payload);
            }
        }
        let (drafts, ending) = terminal::split(decoded.drafts, provider_request_id);
        let mut events = self.stamp(join(drafts))?;
        match ending {
            None => {
                if events.is_empty() && batch.ops.is_empty() {
                    return Ok(false);
                }
                let first_sequence = events.first().map_or(0, |(sequence, _)| *sequence);
                if !events.is_empty() {
                    batch.push(WriteOp::AppendEvents {
                        operation_id: self.operation.operation_id.clone(),
                        first_sequence,
                        events: events.iter().map(|(_, b)| b.clone()).collect(),
                    });
                }
                terminal::persist(&self.engine, batch).await.map_err(|e| e.to_unified())?;
                self.live.publish(events);
                Ok(false)
            }
            Some(ending) => {
                events.extend(self.stamp(self.closing_drafts(ending))?);
                self.finish(batch, events).await?;
                Ok(true)
            }
        }
    }

    /// After a failed commit: goes on from what the store has, so that the end follows without a gap.
    async fn resume_from_store(&mut self) -> Result<(), UnifiedError> {
        self.fold = self.engine.fold_committed(&self.operation.operation_id).await?;
        self.seat = self.engine.seat_after(&self.operation, &self.fold, self.seat.first_item).await?;
        Ok(())
    }

    /// Ends an operation whose answer did not end by itself.
    async fn end(&mut self, stop: Stop) -> Result<(), UnifiedError> {
        let ending = match stop {
            Stop::Cancelled(request) if request.by_shutdown => Ending::interrupted(
                UnifiedError::new(
                    ErrorCategory::Interrupted,
                    "shutdown",
                    "the gateway was stopped while the answer was on its way",
                ),
                InterruptionCause::ProcessRestart,
            ),
            Stop::Cancelled(request) => Ending::Cancelled { reason: request.reason },
            Stop::Failed(error) if error.category == ErrorCategory::Interrupted => {
                Ending::interrupted(error, InterruptionCause::ConnectionLost)
            }
            Stop::Failed(error) => Ending::Failed { error },
        };
        let events = self.stamp(self.closing_drafts(ending))?;
        let batch = WriteBatch::new(self.engine.clock.now(), self.operation.conversation_id.clone());
        self.finish(batch, events).await
    }

    fn closing_drafts(&self, ending: Ending) -> Vec<EventDraft> {
        terminal::drafts(ending, &self.fold, &self.operation.operation_id, self.engine.clock.now())
    }

    /// Gives drafts their place, folds them and writes them as bytes.
    fn stamp(&mut self, drafts: Vec<EventDraft>) -> Result<Vec<(u64, Bytes)>, UnifiedError> {
        let now = self.engine.clock.now();
        let mut events = Vec::with_capacity(drafts.len());
        for mut draft in drafts {
            if draft.candidate.is_none() {
                match &mut draft.body {
                    EventBody::ItemStarted(started) => self.seat.take(&mut started.item),
                    EventBody::ItemCompleted(done) => {
                        if let Some(item) = &mut done.item
                            && !self.fold.items().iter().any(|i| i.id == item.id)
                        {
                            self.seat.take(item);
                        }
                    }
                    EventBody::StreamCompleted(done) => done.item_ids = self.fold.items().iter().map(|i| i.id.clone()).collect(),
                    _ => {}
                }
            }
            let event = draft.stamp(&self.operation.operation_id, self.fold.last_sequence() + 1, now);
            self.fold.push(&event).map_err(|e| {
                tracing::error!(operation = %self.operation.operation_id, error = %e, "a decoder broke the event grammar");
                UnifiedError::new(ErrorCategory::Internal, "event-grammar", e.to_string())
            })?;
            let bytes = to_bytes(&event)?;
            self.weigh(&event, bytes.len())?;
            events.push((event.sequence, bytes));
        }
        Ok(events)
    }

    /// Refuses what would make an item larger than the journal takes, while there is still room to end the operation.
    fn weigh(&mut self, event: &UnifiedEventV2, event_bytes: usize) -> Result<(), UnifiedError> {
        let Some(item_id) = &event.item_id else { return Ok(()) };
        let added = match &event.body {
            EventBody::TextDelta(d) | EventBody::ReasoningDelta(d) => written_bytes(&d.text),
            EventBody::ToolArgumentsDelta(d) => written_bytes(&d.text),
            _ => event_bytes,
        };
        let total = self.item_bytes.entry(item_id.clone()).or_default();
        *total += added;
        if *total > self.engine.limits.item_bytes {
            let limit = self.engine.limits.item_bytes;
            return Err(UnifiedError::new(
                ErrorCategory::Limit,
                "item",
                format!("an item of the answer is larger than {limit} bytes; what came before is kept"),
            ));
        }
        Ok(())
    }

    /// Commits the end: events, items, result, operation, lineage and lease in one transaction; then publishes.
    async fn finish(&mut self, batch: WriteBatch, events: Vec<(u64, Bytes)>) -> Result<(), UnifiedError> {
        let mut batch = batch;
        let issued = self.issued_ids()?;
        if !issued.is_empty() {
            batch.push(WriteOp::PutIssuedIds(issued));
        }
        let rows = self.lineage_rows();
        let mut ended = self.operation.clone();
        let batch = terminal::batch(
            batch,
            &mut ended,
            &self.fold,
            &events,
            rows,
            self.projector.prepared.request_id.clone(),
        )?;
        terminal::commit(&self.engine, batch, &ended, &self.seat.branch_id).await?;
        self.operation = ended;
        self.live.publish(events);
        Ok(())
    }

    /// What this answer issued to the client: its call IDs and the private payloads that went with it.
    fn issued_ids(&self) -> Result<Vec<IssuedId>, UnifiedError> {
        let codec = self.projector.prepared.turn.codec.as_ref();
        let items = self.fold.items();
        let calls = items
            .iter()
            .filter(|i| matches!(i.body, UnifiedItemBody::ToolCall(_)))
            .filter_map(|i| i.call_id().map(|call| (i, call)));
        let mut hashes: BTreeMap<Sha256, &UnifiedItem> = BTreeMap::new();
        for (item, call) in calls {
            hashes.insert(issued::of_call(&self.engine.vault, codec, call)?, item);
        }
        hashes.extend(self.issued_states.iter().filter_map(|hash| items.last().map(|item| (*hash, item))));
        let row = |(id_hash, item): (Sha256, &UnifiedItem)| IssuedId {
            principal_ref: self.operation.principal_ref.clone(),
            id_hash,
            conversation_id: self.operation.conversation_id.clone(),
            branch_id: self.operation.source_branch_id.clone(),
            item_id: item.id.clone(),
            created_at: self.engine.clock.now(),
        };
        Ok(hashes.into_iter().map(row).collect())
    }

    /// Evidence of what the client got: the answer as its own codec says it, decoded again by that codec.
    fn lineage_rows(&self) -> Vec<throughline_store::LineageRow> {
        let codec = self.projector.prepared.turn.codec.as_ref();
        let result = self.fold.result();
        let as_delivered = codec.encode_response(&result, &self.encode).ok().and_then(|encoded| {
            let context = DecodeContext {
                synthetic: self.engine.synthetic.clone(),
                ..DecodeContext::offline()
            };
            let decoded = codec.decode_response(encoded.body.as_bytes(), &context).ok()?;
            let mut offline = throughline_protocols::offline::OfflineFold::new();
            offline.push(decoded).ok()?;
            Some(offline.fold.items().to_vec())
        });
        terminal::evidence(
            &self.operation,
            self.link,
            &as_delivered.unwrap_or_else(|| result.output.clone()),
            &result.output,
            self.engine.clock.now(),
        )
    }
}

fn to_bytes(event: &UnifiedEventV2) -> Result<Bytes, UnifiedError> {
    serde_json::to_vec(event)
        .map(Bytes::from)
        .map_err(|e| UnifiedError::new(ErrorCategory::Internal, "event", e.to_string()))
}

/// Bytes of a text as JSON writes it.
fn written_bytes(text: &str) -> usize {
    text.len()
        + text.bytes().filter(|b| matches!(b, b'"' | b'\\' | b'\n' | b'\r' | b'\t')).count()
        + 5 * text.bytes().filter(u8::is_ascii_control).count()
}

/// Joins neighbouring deltas of the same text up to a bound; drops heartbeats, which are never stored.
fn join(drafts: Vec<EventDraft>) -> Vec<EventDraft> {
    let mut joined: Vec<EventDraft> = Vec::with_capacity(drafts.len());
    for draft in drafts.into_iter().filter(|d| !matches!(d.body, EventBody::Heartbeat(_))) {
        let draft = match joined.last_mut() {
            Some(last) if delta_bytes(last) < MAX_DELTA_BYTES => match last.join(draft) {
                Ok(()) => continue,
                Err(draft) => draft,
            },
            _ => draft,
        };
        joined.push(draft);
    }
    joined
}

fn delta_bytes(draft: &EventDraft) -> usize {
    match &draft.body {
        EventBody::TextDelta(d) | EventBody::ReasoningDelta(d) => d.text.len(),
        EventBody::ToolArgumentsDelta(d) => d.text.len(),
        _ => usize::MAX,
    }
}

/// An error of a connection that had begun to answer is an interruption.
fn interrupted(error: UnifiedError) -> UnifiedError {
    if matches!(error.category, ErrorCategory::Network | ErrorCategory::Timeout) {
        return UnifiedError::new(
            ErrorCategory::Interrupted,
            "connection",
            "the provider's connection broke before the answer was complete",
        );
    }
    error
}

/// Resolves when somebody asks to cancel.
async fn cancelled(cancel: &mut watch::Receiver<Option<CancelRequest>>) -> CancelRequest {
    let request = cancel
        .wait_for(Option::is_some)
        .await
        .map(|request| request.clone().unwrap_or_default());
    match request {
        Ok(request) => request,
        // The sender lives as long as the producer holds its `Live`.
        Err(_) => std::future::pending().await,
    }
}

/// Calls that have no result among the items.
pub(crate) fn open_calls(items: &[UnifiedItem]) -> Vec<String> {
    let answered: Vec<&str> = items
        .iter()
        .filter(|i| matches!(i.body, UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ServerToolResult(_)))
        .filter_map(UnifiedItem::call_id)
        .collect();
    items
        .iter()
        .filter(|i| matches!(i.body, UnifiedItemBody::ToolCall(_) | UnifiedItemBody::ServerToolCall(_)))
        .filter_map(UnifiedItem::call_id)
        .filter(|id| !answered.contains(id))
        .map(str::to_owned)
        .collect()
}

/// Whatever way the producer ends, its publisher is closed and taken off the list.
struct CloseOnDrop {
    engine: Arc<Engine>,
    live: Arc<Live>,
    operation_id: UnifiedId,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.live.close();
        self.engine.publishers.remove(&self.operation_id);
    }
}
