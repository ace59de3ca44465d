//! The producer of one operation: sends the request, commits what comes back, publishes only what is committed.
//!
//! Chunks that arrive while a commit is on its way are decoded together afterwards and their deltas joined; the commit in
//! flight is the batching window, so an idle stream has no added latency and a fast one no commit per token.

use crate::actions;
use crate::admission::Admission;
use crate::catch_up::CatchUp;
use crate::checkpoints::{Handles, Refused};
use crate::deadline::Alarm;
use crate::engine::Engine;
use crate::lineage::chain::Link;
use crate::lineage::issued;
use crate::live::{CancelRequest, Live};
use crate::ports::{Target, UpstreamReply};
use crate::private;
use crate::progress::Progress;
use crate::projector::{Outgoing, Projector};
use crate::scribe::{self, Scribe, Written};
use crate::switch::Answerer;
use crate::terminal::{self, Ending};
use crate::tool_names::ToolNames;
use crate::usage;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use throughline_format::operation::WebhookState;
use throughline_format::{ErrorCategory, Sha256, Timestamp, UnifiedError, UnifiedId, UnifiedItem, UnifiedOperation, UnifiedUsage};
use throughline_protocols::{Codec, DecodeContext, Decoded, EncodeContext, Job, StreamDecoder};
use throughline_store::{WriteBatch, WriteOp, owner_fingerprint};
use tokio::sync::watch;

/// Most bytes of chunks that one commit takes.
const GATHER_BYTES: usize = 256 * 1024;

/// Runs one operation to its end.
pub(crate) struct Producer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) operation: UnifiedOperation,
    pub(crate) live: Arc<Live>,
    pub(crate) scribe: Scribe,
    /// Absent when an answer is gone on with after a restart and its request was not kept.
    pub(crate) projector: Option<Projector>,
    pub(crate) targets: Vec<Target>,
    /// The target whose work is gone on with, instead of sending anything.
    pub(crate) resumes: Option<Target>,
    pub(crate) asker: Asker,
    /// Work that goes on at the provider, once it is known.
    pub(crate) job: Option<Job>,
    /// What the stream has to repeat before anything of it is new.
    pub(crate) catch_up: Option<CatchUp>,
    pub(crate) first: Option<Outgoing>,
    /// The end of the last answer, when the operation was found waiting for decisions about it.
    pub(crate) held: Option<Ending>,
    /// Whether the request outlives this process.
    pub(crate) kept: bool,
    pub(crate) encode: EncodeContext,
    pub(crate) link: Link,
    /// Hashes of private payloads that the client got with this answer.
    pub(crate) issued_states: Vec<Sha256>,
    /// The client's names of tools that the target calls otherwise.
    pub(crate) tool_names: ToolNames,
    /// Handles of the answer that a checkpoint is made of.
    pub(crate) handles: Handles,
    /// Checkpoints that their owner refused on the way.
    pub(crate) refused: Vec<Refused>,
    /// Who answers for the branch as it is committed.
    pub(crate) answerer: Option<Answerer>,
    /// The item that tells of a fallback to another owner, until it is written.
    pub(crate) switch: Option<UnifiedItem>,
    /// What of the answer stands in the branch already.
    pub(crate) journal: Progress,
    /// How often the operation ran its own tools.
    pub(crate) rounds: usize,
    /// The last event before this answer.
    pub(crate) begun_after: u64,
    /// Usage of the answers before this one.
    pub(crate) usage: Option<UnifiedUsage>,
}

/// Who asked, as far as the answer needs to know.
pub(crate) struct Asker {
    /// The client's protocol.
    pub(crate) codec: Arc<dyn Codec>,
    pub(crate) request_id: UnifiedId,
    /// Allowlisted word for the client.
    pub(crate) runtime: Option<String>,
    /// Whether the provider keeps the answer.
    pub(crate) keeps: bool,
    /// When the answer began: the time of its items.
    pub(crate) received_at: Timestamp,
}

/// What a commit of decoded events was.
enum Committed {
    /// A part of the answer.
    More,
    /// The whole answer, with its ending; this process has something to do before the operation can end.
    Acts(Box<Ending>),
    /// The end of the operation.
    Ended,
}

/// What a look at the provider's connection brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Bytes, and it is open.
    More,
    /// Its end.
    End,
    /// Nothing, but the provider told something by a webhook.
    Reported(WebhookState),
}

/// Why the loop over the answer ended without a terminal event of its own.
pub(crate) enum Stop {
    Cancelled(CancelRequest),
    Failed(UnifiedError),
}

impl Producer {
    /// Runs to the end; `closing` and the slot are held until the end is committed.
    pub(crate) async fn run(mut self, closing: CloseOnDrop, mut admission: Admission) {
        let mut cancel = self.live.watch_cancel();
        let alarm = Alarm::set(&self.engine, &self.live, self.operation.deadline);
        // A codec that panics must not leave an operation that runs for ever.
        let driven = async {
            self.admit(&mut admission, &mut cancel).await?;
            self.drive(&mut cancel).await
        };
        let driven = AssertUnwindSafe(driven).catch_unwind().await;
        let stop = match driven {
            Ok(Ok(())) => None,
            Ok(Err(stop)) => Some(stop),
            Err(_) => Some(Stop::Failed(panicked())),
        };
        if let Some(stop) = stop
            && AssertUnwindSafe(self.end(stop)).catch_unwind().await.is_err()
            && let Err(error) = self.end_bare(panicked()).await
        {
            tracing::error!(operation = %self.operation.operation_id, code = %error.code, "the operation could not be ended; the next start tries again");
        }
        drop((closing, admission, alarm));
    }

    /// Answer after answer, as long as the last one leaves something to do here.
    async fn drive(&mut self, cancel: &mut watch::Receiver<Option<CancelRequest>>) -> Result<(), Stop> {
        if let Some(ending) = self.held.take()
            && !self.act(ending, cancel).await?
        {
            return Ok(());
        }
        while let Some(ending) = self.answer(cancel).await? {
            if !self.act(ending, cancel).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One answer of the provider; its ending, when it is not the operation's.
    async fn answer(&mut self, cancel: &mut watch::Receiver<Option<CancelRequest>>) -> Result<Option<Ending>, Stop> {
        let (target, mut reply) = if let Some(target) = self.resumes.take() {
            let reply = self.rejoin(&target, cancel).await?;
            (target, reply)
        } else {
            self.job = None;
            self.begun_after = self.scribe.fold.last_sequence();
            self.send(cancel).await?
        };
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
            let committed = self.commit(decoded, &target, reply.provider_request_id.as_deref()).await;
            return match committed.map_err(Stop::Failed)? {
                Committed::Acts(ending) => Ok(Some(self.next_from(target, *ending))),
                Committed::More | Committed::Ended => Ok(None),
            };
        }
        let mut decoder = target.codec.stream_decoder(&context);
        let mut failures = 0;
        loop {
            let (mut decoded, came) = self.gather(&mut reply, decoder.as_mut(), cancel).await?;
            if let Came::Reported(state) = came {
                self.note_report(state).await;
                if state == WebhookState::Received
                    && let Some(again) = self.read_at_once(&target, cancel).await?
                {
                    // What came of the old connection and was not committed comes again.
                    (reply, decoder) = (again, target.codec.stream_decoder(&context));
                    continue;
                }
            }
            let connected = came != Came::End;
            if self.job.is_none() {
                self.job = decoder.job();
            }
            if !connected && !decoder.is_finished() {
                failures = if decoded.drafts.is_empty() { failures + 1 } else { 1 };
                if let Some(again) = self.reconnect(&target, decoder.as_mut(), failures, cancel).await? {
                    reply = again;
                    self.commit(decoded, &target, None).await.map_err(Stop::Failed)?;
                    continue;
                }
                // A torn connection is the decoder's to judge: it knows whether the answer was complete.
                decoded.extend(decoder.finish());
            }
            let committed = self.commit(decoded, &target, reply.provider_request_id.as_deref()).await;
            match committed.map_err(Stop::Failed)? {
                Committed::Ended => return Ok(None),
                Committed::Acts(ending) => return Ok(Some(self.next_from(target, *ending))),
                Committed::More => {}
            }
            if !connected {
                return Err(Stop::Failed(connection_broke()));
            }
        }
    }

    /// What follows comes from the same target.
    fn next_from(&mut self, target: Target, ending: Ending) -> Ending {
        self.targets = vec![target];
        self.usage = self.scribe.fold.usage().cloned();
        ending
    }

    fn decode_context(&self, target: &Target) -> Result<DecodeContext, Stop> {
        Ok(DecodeContext {
            operation_id: actions::answer_id(&self.operation.operation_id, self.rounds),
            request_id: self.asker.request_id.clone(),
            conversation_id: self.scribe.seat.conversation_id.clone(),
            branch_id: self.scribe.seat.branch_id.clone(),
            first_item: self.scribe.seat.first_item,
            first_sequence: self.scribe.seat.next_sequence,
            received_at: self.asker.received_at,
            runtime: self.asker.runtime.clone(),
            model_provider: target.model_provider.clone(),
            requested_model: Some(target.model.clone()),
            dialect: target.dialect.clone(),
            reasoning_tags: target.reasoning_tags,
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
    ) -> Result<(Decoded, Came), Stop> {
        let mut decoded = Decoded::default();
        let mut taken = 0;
        let mut chunk = tokio::select! {
            biased;
            request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
            state = self.live.reports.news(self.webhook_state()) => return Ok((decoded, Came::Reported(state))),
            chunk = reply.body.next() => chunk,
        };
        loop {
            match chunk {
                Some(Ok(bytes)) => {
                    taken += bytes.len();
                    decoded.extend(decoder.push(&bytes));
                }
                Some(Err(error)) => {
                    tracing::debug!(operation = %self.operation.operation_id, code = %error.code, "the provider's connection broke");
                    return Ok((decoded, Came::End));
                }
                None => return Ok((decoded, Came::End)),
            }
            if decoder.is_finished() || taken >= GATHER_BYTES {
                return Ok((decoded, Came::More));
            }
            match reply.body.next().now_or_never() {
                Some(next) => chunk = next,
                None if decoded.drafts.is_empty() => {
                    chunk = tokio::select! {
                        biased;
                        request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
                        state = self.live.reports.news(self.webhook_state()) => return Ok((decoded, Came::Reported(state))),
                        chunk = reply.body.next() => chunk,
                    };
                }
                None => return Ok((decoded, Came::More)),
            }
        }
    }

    /// Commits one batch of decoded events and publishes them. After a failure the fold stands where the store does, so that
    /// whatever follows has no gap.
    async fn commit(&mut self, decoded: Decoded, target: &Target, provider_request_id: Option<&str>) -> Result<Committed, UnifiedError> {
        let (known_job, kept) = (self.operation.provider_job.clone(), self.kept);
        let outcome = self.try_commit(decoded, target, provider_request_id).await;
        if outcome.is_err() {
            (self.operation.provider_job, self.kept) = (known_job, kept);
            self.resume_from_store().await?;
        }
        outcome
    }

    async fn try_commit(
        &mut self,
        decoded: Decoded,
        target: &Target,
        provider_request_id: Option<&str>,
    ) -> Result<Committed, UnifiedError> {
        let now = self.engine.clock.now();
        let mut batch = WriteBatch::new(now, self.operation.conversation_id.clone());
        let discloses = target.codec.profile().family == self.asker.codec.profile().family;
        for side in &decoded.resources {
            if !self.is_stored(&side.resource_id).await? {
                batch.push(WriteOp::PutResource(Box::new(private::seal(
                    &self.engine.vault,
                    side,
                    &self.operation.conversation_id,
                    &target.owner,
                    now,
                )?)));
            }
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
        self.note_job(&mut batch, target, now)?;
        if self.asker.keeps {
            self.handles.note(target.codec.as_ref(), &decoded.resources);
        }
        let (mut drafts, ending) = terminal::split(decoded.drafts, provider_request_id);
        terminal::tell_switch(&mut drafts, &mut self.switch);
        self.tool_names.restore(&mut drafts);
        if self.rounds > 0 {
            actions::later(&self.operation.operation_id, &mut drafts);
            usage::add_to(self.usage.as_ref(), &mut drafts);
        }
        if let Some(catch_up) = &mut self.catch_up {
            drafts = catch_up.take_off(drafts)?;
            if catch_up.is_over() {
                self.catch_up = None;
            }
        }
        let mut groups = scribe::groups(self.scribe.write(drafts, now)?);
        let Some(ending) = ending else {
            self.commit_groups(batch, groups).await?;
            return Ok(Committed::More);
        };
        if matches!(ending, Ending::Completed { .. }) && self.acts() {
            self.commit_groups(batch, groups).await?;
            return Ok(Committed::Acts(Box::new(ending)));
        }
        // The end goes with the last events; whatever does not fit into one commit with it goes before.
        let last = groups.pop().unwrap_or_default();
        if !groups.is_empty() {
            self.commit_groups(batch, groups).await?;
            batch = WriteBatch::new(now, self.operation.conversation_id.clone());
        }
        self.finish(batch, last, ending).await?;
        Ok(Committed::Ended)
    }

    /// Commits groups of events one after the other and publishes each; the first takes what else the batch holds.
    async fn commit_groups(&self, batch: WriteBatch, groups: Vec<Vec<Written>>) -> Result<(), UnifiedError> {
        if groups.is_empty() && !batch.ops.is_empty() {
            return terminal::persist(&self.engine, batch).await.map_err(|e| e.to_unified());
        }
        let mut batch = Some(batch);
        for group in groups {
            let mut batch = batch
                .take()
                .unwrap_or_else(|| WriteBatch::new(self.engine.clock.now(), self.operation.conversation_id.clone()));
            batch.push(terminal::append(&self.operation.operation_id, &group));
            terminal::persist(&self.engine, batch).await.map_err(|e| e.to_unified())?;
            self.live.publish(group);
        }
        Ok(())
    }

    /// After a failed commit: goes on from what the store has, so that the end follows without a gap.
    pub(crate) async fn resume_from_store(&mut self) -> Result<(), UnifiedError> {
        self.scribe = Scribe::resume(&self.engine, &self.operation, self.scribe.seat.first_item).await?;
        if self.rounds > 0 {
            self.journal = Progress::find(&self.engine, self.scribe.fold.items()).await?;
        }
        Ok(())
    }
}

fn panicked() -> UnifiedError {
    UnifiedError::new(ErrorCategory::Internal, "panic", "the answer could not be read")
}

/// An error of a connection that had begun to answer is an interruption.
fn interrupted(error: UnifiedError) -> UnifiedError {
    if matches!(error.category, ErrorCategory::Network | ErrorCategory::Timeout) {
        return connection_broke();
    }
    error
}

fn connection_broke() -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::Interrupted,
        "connection",
        "the provider's connection broke before the answer was complete",
    )
}

/// Resolves when somebody asks to cancel.
pub(crate) async fn cancelled(cancel: &mut watch::Receiver<Option<CancelRequest>>) -> CancelRequest {
    let request = cancel.wait_for(Option::is_some).await.ok().and_then(|request| request.clone());
    match request {
        Some(request) => request,
        // The sender lives as long as the producer holds its `Live`.
        None => std::future::pending().await,
    }
}

/// A publisher on the list; whatever way its producer ends, it is closed and taken off.
pub(crate) struct CloseOnDrop {
    engine: Arc<Engine>,
    live: Arc<Live>,
    operation_id: UnifiedId,
}

impl CloseOnDrop {
    /// Puts a publisher on the list.
    pub(crate) fn open(engine: &Arc<Engine>, live: &Arc<Live>, operation_id: &UnifiedId) -> Self {
        engine.publishers.insert(operation_id.clone(), Arc::clone(live));
        Self {
            engine: Arc::clone(engine),
            live: Arc::clone(live),
            operation_id: operation_id.clone(),
        }
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.live.close();
        self.engine.publishers.remove(&self.operation_id);
    }
}
