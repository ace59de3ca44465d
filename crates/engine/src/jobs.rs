//! Work that goes on at the provider: read again when a connection breaks, and after a restart.
//!
//! As soon as a stream tells of such work, what is needed to go on with it is sealed for its owner in the commit of the events
//! that it came with. A connection that breaks is followed by another one after the last event; after a restart the stream is
//! read from its begin, and what is committed of it is taken off (`catch_up`), so nothing is told twice.

use crate::actions;
use crate::admission::Admission;
use crate::catch_up::CatchUp;
use crate::checkpoints::Handles;
use crate::engine::Engine;
use crate::kept;
use crate::live::{CancelRequest, Live, StopCause};
use crate::ports::{ResumeCall, Router, Target, UpstreamReply};
use crate::private::{self, ClientState};
use crate::producer::{Asker, CloseOnDrop, Producer, Stop, cancelled};
use crate::progress::Progress;
use crate::scribe::Scribe;
use crate::tool_names::ToolNames;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use throughline_format::resource::{Issuer, ProviderDataScope, ResourceStatus, ResourceType, UnifiedProviderResourceRef};
use throughline_format::{
    ErrorCategory, OperationState, ProtocolFamily, Timestamp, UnifiedError, UnifiedId, UnifiedLease, UnifiedOperation,
};
use throughline_protocols::{Capabilities, Codec, EncodeContext, Job, SideResource, StreamDecoder, codec_of, unified_native};
use throughline_store::{WriteBatch, WriteOp};
use tokio::sync::watch;

/// Connections in a row that may bring nothing new.
const MAX_FAILURES: u32 = 5;
/// Wait before the second of them; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Schema of what is sealed for going on.
const SCHEMA: &str = "throughline/job@1";
/// How long a lease of work that was found at start lasts.
const LEASE_MILLIS: i64 = 24 * 3_600_000;

/// Where the work behind an answer is noted; each answer of an operation has its own.
fn resource_id(operation_id: &UnifiedId, round: usize) -> UnifiedId {
    let answer = actions::answer_id(operation_id, round);
    UnifiedId::parse(&format!("{answer}.job")).unwrap_or_else(|_| answer.resource(0))
}

impl Producer {
    /// Adds to a batch what is needed to go on with the provider's work, once.
    pub(crate) fn note_job(&mut self, batch: &mut WriteBatch, target: &Target, now: Timestamp) -> Result<(), UnifiedError> {
        let resource_id = resource_id(&self.operation.operation_id, self.rounds);
        let is_noted = |noted: &UnifiedProviderResourceRef| noted.resource_id == resource_id;
        let Some(job) = self
            .job
            .clone()
            .filter(|_| !self.operation.provider_job.as_ref().is_some_and(is_noted))
        else {
            return Ok(());
        };
        let requested = self.projector.as_ref().map(|p| &p.prepared.decoded.unified.model.requested);
        let record = json!({
            "ids": job.ids,
            "outlives": job.outlives_connection,
            "model": target.model,
            "requested": requested,
            "client": self.asker.codec.profile().family.as_str(),
            "requestId": self.asker.request_id.as_str(),
            "runtime": self.asker.runtime,
            "keeps": self.asker.keeps,
            "receivedAt": self.asker.received_at.millis(),
            "firstItem": self.scribe.seat.first_item,
            "toolNames": self.tool_names.to_json(),
            "round": self.rounds,
            "begunAfter": self.begun_after,
            "usage": self.usage,
        });
        let kind = ResourceType::Other("job".into());
        let side = SideResource {
            resource_id,
            profile: target.codec.profile(),
            schema: SCHEMA.to_owned(),
            scope: ProviderDataScope::OwnerPrivate,
            issuer: Issuer::Provider,
            resource_type: kind.clone(),
            payload: record.to_string().into_bytes(),
            wire_paths: Vec::new(),
            subject: Some(self.operation.operation_id.clone()),
        };
        let sealed = private::seal(&self.engine.vault, &side, &self.operation.conversation_id, &target.owner, now)?;
        self.operation.provider_job = Some(UnifiedProviderResourceRef {
            resource_id: side.resource_id,
            resource_type: kind,
            owner_fingerprint: sealed.owner_fingerprint,
            status: Some(ResourceStatus::Active),
            expires_at: None,
        });
        self.register_webhook(target, &job.ids);
        self.operation.updated_at = now;
        batch.push(WriteOp::PutResource(Box::new(sealed)));
        batch.push(WriteOp::UpdateOperation(self.operation.clone()));
        if let Some(projector) = self.projector.as_ref().filter(|projector| !self.kept && projector.may_act()) {
            // What the answer leaves to this process can be done after a restart as well.
            let keep = kept::keep(
                &self.engine,
                &projector.prepared,
                &self.operation.conversation_id,
                projector.is_delta,
            )?;
            self.kept = keep.is_some();
            batch.ops.extend(keep);
        }
        Ok(())
    }

    /// Whether a payload is stored already: only a stream that is read again brings one twice.
    pub(crate) async fn is_stored(&self, id: &UnifiedId) -> Result<bool, UnifiedError> {
        if self.catch_up.is_none() {
            return Ok(false);
        }
        Ok(self.engine.store.resource(id).await.map_err(|e| e.to_unified())?.is_some())
    }

    /// Whether the provider goes on although this process stops, or nothing is on its way: then the operation stays as it is, and
    /// the next start goes on with it.
    pub(crate) fn outlives(&self, stop: &Stop) -> bool {
        let by_shutdown = matches!(stop, Stop::Cancelled(request) if request.cause == StopCause::Shutdown);
        let waits = self.kept && matches!(self.operation.state, OperationState::Queued | OperationState::RequiresAction);
        let goes_on = self.operation.provider_job.is_some() && self.job.as_ref().is_some_and(|job| job.outlives_connection);
        by_shutdown && (waits || goes_on)
    }

    /// Another connection after one that broke, when there is work behind it that goes on by itself. The driver of work that
    /// ends with its connection follows it by itself.
    pub(crate) async fn reconnect(
        &mut self,
        target: &Target,
        decoder: &mut dyn StreamDecoder,
        failures: u32,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<Option<UpstreamReply>, Stop> {
        let Some(job) = self.job.clone().filter(|job| job.outlives_connection) else {
            return Ok(None);
        };
        for attempt in failures..=MAX_FAILURES {
            // Without a place to go on after, the decoder could not tell new events from old ones.
            let Some(after) = decoder.reconnect() else { return Ok(None) };
            match self.ask_again(target, &job, Some(after), attempt, cancel).await? {
                Ok(reply) => return Ok(Some(reply)),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The stream of the work from its begin, after a restart.
    pub(crate) async fn rejoin(
        &mut self,
        target: &Target,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<UpstreamReply, Stop> {
        let lost = || {
            let message = "the gateway was stopped while the answer was on its way, and the provider does not have it any more";
            Stop::Failed(UnifiedError::new(ErrorCategory::Interrupted, "process-restart", message))
        };
        let job = self.job.clone().ok_or_else(lost)?;
        let committed = CatchUp::load(&self.engine, &self.operation.operation_id, self.begun_after).await;
        self.catch_up = Some(committed.map_err(Stop::Failed)?);
        for attempt in 1..=MAX_FAILURES {
            match self.ask_again(target, &job, None, attempt, cancel).await? {
                Ok(reply) => return Ok(reply),
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    tracing::warn!(operation = %self.operation.operation_id, code = %error.code, "the provider's work cannot be gone on with");
                    break;
                }
            }
        }
        Err(lost())
    }

    async fn ask_again(
        &mut self,
        target: &Target,
        job: &Job,
        after: Option<String>,
        attempt: u32,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<Result<UpstreamReply, UnifiedError>, Stop> {
        let wait = match attempt {
            0 | 1 => Duration::ZERO,
            more => FIRST_WAIT * 2_u32.saturating_pow(more - 2),
        };
        let call = ResumeCall {
            conversation_id: self.operation.conversation_id.clone(),
            operation_id: self.operation.operation_id.clone(),
            request_id: self.asker.request_id.clone(),
            job: job.clone(),
            after,
        };
        let news = tokio::select! {
            biased;
            request = cancelled(cancel) => return Err(Stop::Cancelled(request)),
            // A report ends the wait.
            state = self.live.reports.news(self.webhook_state()) => Some(state),
            () = tokio::time::sleep(wait) => None,
        };
        if let Some(state) = news {
            self.note_report(state).await;
        }
        tokio::select! {
            biased;
            request = cancelled(cancel) => Err(Stop::Cancelled(request)),
            answer = target.upstream.resume(call) => Ok(answer),
        }
    }

    /// The stream of reported work from its begin, whatever the connection to it does; `None` when there is none to be had now.
    pub(crate) async fn read_at_once(
        &mut self,
        target: &Target,
        cancel: &mut watch::Receiver<Option<CancelRequest>>,
    ) -> Result<Option<UpstreamReply>, Stop> {
        let Some(job) = self.job.clone() else { return Ok(None) };
        let Ok(reply) = self.ask_again(target, &job, None, 1, cancel).await? else {
            return Ok(None);
        };
        let committed = CatchUp::load(&self.engine, &self.operation.operation_id, self.begun_after).await;
        self.catch_up = Some(committed.map_err(Stop::Failed)?);
        Ok(Some(reply))
    }
}

fn is_passing(error: &UnifiedError) -> bool {
    error.retryable || matches!(error.category, ErrorCategory::Network | ErrorCategory::Timeout)
}

/// The codec of a client's protocol; the native one is of no family.
pub(crate) fn client_codec(word: &str) -> Option<Arc<dyn Codec>> {
    match word {
        unified_native::WORD => Some(Arc::new(unified_native::UnifiedNative)),
        word => codec_of(&ProtocolFamily::from_word(word)),
    }
}

/// What was sealed for going on.
struct Record(Value);

impl Record {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.0.get(key)?.as_i64()
    }

    fn count<N: TryFrom<i64>>(&self, key: &str) -> Option<N> {
        self.number(key).and_then(|number| number.try_into().ok())
    }

    fn is(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool) == Some(true)
    }

    fn job(&self) -> Option<Job> {
        let ids = self.0.get("ids")?.as_array()?.iter().map(|id| id.as_str().map(str::to_owned));
        Some(Job {
            ids: ids.collect::<Option<_>>()?,
            outlives_connection: self.is("outlives"),
        })
    }

    fn asker(&self) -> Option<Asker> {
        Some(Asker {
            codec: client_codec(self.text("client")?)?,
            request_id: UnifiedId::parse(self.text("requestId")?).ok()?,
            runtime: self.text("runtime").map(str::to_owned),
            keeps: self.is("keeps"),
            received_at: Timestamp::from_millis(self.number("receivedAt")?),
        })
    }
}

impl Engine {
    /// Goes on with work that a provider has of an operation; false when it cannot, and the operation is to be ended.
    pub(crate) async fn resume_job(self: &Arc<Self>, operation: &UnifiedOperation, router: &dyn Router) -> Result<bool, UnifiedError> {
        let Some((record, target)) = self.job_of(operation, router).await? else {
            return Ok(false);
        };
        let (Some(job), Some(asker)) = (record.job(), record.asker()) else {
            return Ok(false);
        };
        let Some(first_item) = record.count("firstItem") else {
            return Ok(false);
        };
        let Some(link) = self.link_before(operation).await? else {
            return Ok(false);
        };
        let Ok(admission) = Admission::ask(self, false) else {
            return Ok(false);
        };
        let (mut scribe, journal, live) = self.reopened(operation, first_item).await?;
        let restored = match self.restored(operation).await {
            Ok(restored) => restored,
            Err(error) => {
                tracing::warn!(operation = %operation.operation_id, code = %error.code, "a kept request cannot be read; its answer is gone on with alone");
                None
            }
        };
        let (projector, covered) = restored.unzip();
        scribe.seat.covered = covered.flatten();
        live.questions.restore(scribe.fold.items());
        if let Some(webhook) = &operation.webhook {
            live.reports.expect(webhook, &job.ids);
        }
        let closing = CloseOnDrop::open(self, &live, &operation.operation_id);
        let encode = EncodeContext {
            private: Arc::new(ClientState(Arc::clone(&live))),
            synthetic: self.synthetic.clone(),
            answer_id: Some(operation.operation_id.clone()),
            created_at: asker.received_at,
            ..EncodeContext::plain(Capabilities::of(asker.codec.capabilities()))
        };
        let producer = Producer {
            engine: Arc::clone(self),
            operation: operation.clone(),
            live,
            scribe,
            kept: projector.is_some(),
            projector,
            targets: Vec::new(),
            resumes: Some(target),
            asker,
            job: Some(job),
            catch_up: None,
            first: None,
            held: None,
            encode,
            link,
            issued_states: Vec::new(),
            tool_names: record.0.get("toolNames").map(ToolNames::from_json).unwrap_or_default(),
            handles: Handles::default(),
            refused: Vec::new(),
            answerer: None,
            switch: None,
            journal,
            rounds: record.count("round").unwrap_or_default(),
            begun_after: record.count("begunAfter").unwrap_or_default(),
            usage: record
                .0
                .get("usage")
                .and_then(|usage| serde_json::from_str(&usage.to_string()).ok()),
        };
        tokio::spawn(producer.run(closing, admission));
        Ok(true)
    }

    /// The record of the work and the target that has it: the very owner, reached by the route that was taken.
    async fn job_of(&self, operation: &UnifiedOperation, router: &dyn Router) -> Result<Option<(Record, Target)>, UnifiedError> {
        let (Some(job), Some(owner)) = (&operation.provider_job, &operation.owner) else {
            return Ok(None);
        };
        let Some((stored, plain)) = self.open_own(operation, &job.resource_id, SCHEMA).await? else {
            return Ok(None);
        };
        let Ok(record) = serde_json::from_slice(&plain).map(Record) else {
            return Ok(None);
        };
        let (Some(client), Some(model)) = (record.text("client"), record.text("model")) else {
            return Ok(None);
        };
        let requested = record.text("requested").unwrap_or(model);
        let routed = router.route(&ProtocolFamily::from_word(client), requested).unwrap_or_default();
        let target = routed
            .into_iter()
            .find(|target| target.model == model && stored.owner == target.owner && *owner == target.owner);
        Ok(target.map(|target| (record, target)))
    }

    /// Where an operation of an earlier process stands: its events, its items in the branch, and a publisher to go on from there.
    pub(crate) async fn reopened(
        &self,
        operation: &UnifiedOperation,
        first_item: u64,
    ) -> Result<(Scribe, Progress, Arc<Live>), UnifiedError> {
        let scribe = Scribe::resume(self, operation, first_item).await?;
        let journal = Progress::find(self, scribe.fold.items()).await?;
        self.renew_lease(operation).await?;
        let (events, bytes) = (self.limits.ring_events, self.limits.ring_bytes);
        let live = Arc::new(Live::new(scribe.fold.last_sequence(), events, bytes));
        Ok((scribe, journal, live))
    }

    async fn renew_lease(&self, operation: &UnifiedOperation) -> Result<(), UnifiedError> {
        let Some(lease) = &operation.cleanup_lease else { return Ok(()) };
        let now = self.clock.now();
        let renewed = WriteOp::AcquireLease(UnifiedLease {
            lease_id: lease.lease_id.clone(),
            holder: operation.operation_id.to_string(),
            purpose: throughline_format::conversation::LeasePurpose::Operation,
            conversation_id: operation.conversation_id.clone(),
            expires_at: now.plus_millis(LEASE_MILLIS),
        });
        let batch = WriteBatch::new(now, operation.conversation_id.clone()).with(renewed);
        self.commit(batch).await.map(|_| ()).map_err(|e| e.to_unified())
    }
}
