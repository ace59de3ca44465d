//! One turn, up to the upstream call: decode, find the conversation, project, commit the input, open the operation.

use crate::admission::Admission;
use crate::checkpoints::Handles;
use crate::deadline;
use crate::engine::Engine;
use crate::idempotency::{self, IdempotencyKey};
use crate::journal;
use crate::kept;
use crate::lineage::find::Search;
use crate::lineage::session::ClientSession;
use crate::live::{CancelRequest, Live, StopCause, Subscription};
use crate::opening::Opening;
use crate::ports::{IdKind, Router, Target};
use crate::principal::Principal;
use crate::private::ClientState;
use crate::producer::{Asker, CloseOnDrop, Producer};
use crate::progress::Progress;
use crate::projector::Projector;
use crate::switch::Answerer;
use crate::tool_names::ToolNames;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use throughline_format::{
    ErrorCategory, Fold, LossSeverity, OperationState, Sha256, Timestamp, UnifiedError, UnifiedId, UnifiedItem, UnifiedLossEntry,
    UnifiedLossReport, UnifiedRequirement, UnifiedResultV2,
};
use throughline_protocols::{
    Codec, DecodeContext, DecodedRequest, EncodeContext, Feature, PrivateState, strength::set_strength, unified_native,
};
use throughline_store::StoreError;

/// How often a turn is placed anew when another one moves the branch head in between.
const PLACE_ATTEMPTS: usize = 4;

/// A client's request, authenticated, as it came in.
pub struct TurnRequest {
    /// Who asks.
    pub principal: Principal,
    /// The client's protocol.
    pub codec: Arc<dyn Codec>,
    /// The body.
    pub body: Bytes,
    /// Model, for protocols whose URL carries it.
    pub model: Option<String>,
    /// Whether the answer is a stream, for protocols whose URL says so.
    pub stream: Option<bool>,
    /// Conversation that the client names.
    pub conversation: Option<UnifiedId>,
    /// Branch of it.
    pub branch: Option<UnifiedId>,
    /// Features that the client requires.
    pub require: Vec<Feature>,
    /// Allowlisted word for the client.
    pub client_family: Option<String>,
    /// What the client calls the session that the request is of; never more than a hint.
    pub session: Option<ClientSession>,
    /// Client headers without credentials; drivers forward those of their allowlist.
    pub client_headers: Vec<(String, String)>,
    /// Safe transport metadata.
    pub transport: Option<throughline_format::transport::UnifiedTransportMetadata>,
    /// How the operation is to run.
    pub options: TurnOptions,
}

/// How an operation is to run; the default is a turn in the foreground.
#[derive(Clone, Debug, Default)]
pub struct TurnOptions {
    /// The client's name for this request: the same key with the same request is the same operation.
    pub idempotency_key: Option<String>,
    /// Nobody waits for the answer: when too many operations run, it is queued and not refused.
    pub background: bool,
    /// Until when it may take; the engine's own limit counts when that is earlier.
    pub deadline: Option<Timestamp>,
    /// The client can decide questions of a running operation ([`Engine::decide`]): one that its provider asks holds the
    /// operation, and does not end it.
    pub waits_for_approvals: bool,
}

/// Why a turn did not begin. Nothing was committed and nothing was sent.
#[derive(Debug)]
pub struct TurnError {
    /// The error, for the client's own shape.
    pub error: UnifiedError,
    /// What a refused projection would have lost.
    pub loss: Option<UnifiedLossReport>,
}

impl From<UnifiedError> for TurnError {
    fn from(error: UnifiedError) -> Self {
        Self { error, loss: None }
    }
}

/// A turn that runs.
pub struct Turn {
    /// The operation.
    pub operation_id: UnifiedId,
    /// The conversation.
    pub conversation_id: UnifiedId,
    /// The branch.
    pub branch_id: UnifiedId,
    /// The request.
    pub request_id: UnifiedId,
    /// Whether the client wants a stream.
    pub stream: bool,
    /// What decode and projection lost.
    pub loss: UnifiedLossReport,
    /// Cursor before the first event.
    pub cursor: String,
    /// The requesting client's own subscription.
    pub subscription: Subscription,
    /// Context for encoding the answer in the client's protocol.
    pub encode: EncodeContext,
}

impl Turn {
    /// Waits for the end and gives the result.
    ///
    /// # Errors
    /// The error of an operation that failed or was cancelled; the result then stays readable.
    pub async fn collect(self) -> Result<UnifiedResultV2, UnifiedError> {
        let id = self.operation_id.clone();
        self.ended().await.map_err(|error| error.of_operation(&id))
    }

    async fn ended(mut self) -> Result<UnifiedResultV2, UnifiedError> {
        let mut fold = Fold::new(self.operation_id.clone());
        while let Some(delivery) = self.subscription.next().await? {
            fold.push(&delivery.event()?)
                .map_err(|e| UnifiedError::new(ErrorCategory::Internal, "event-grammar", e.to_string()))?;
        }
        let result = fold.result();
        match fold.operation_state() {
            Some(OperationState::Failed) => Err(result
                .error
                .unwrap_or_else(|| UnifiedError::new(ErrorCategory::Internal, "operation", "the operation failed"))),
            Some(OperationState::Cancelled) => Err(UnifiedError::new(
                ErrorCategory::Cancelled,
                "operation",
                "the operation was cancelled",
            )),
            Some(OperationState::Expired) => Err(deadline::expired()),
            Some(OperationState::Completed) => Ok(result),
            // The producer could not commit the end: what came is in the store, and recovery ends the operation.
            _ => Err(UnifiedError::new(
                ErrorCategory::Interrupted,
                "stream",
                "the answer ended before its end was committed; ask again",
            )),
        }
    }
}

/// A request after decode, with everything that later steps need.
pub(crate) struct Prepared {
    pub(crate) turn: TurnRequest,
    pub(crate) principal_ref: String,
    pub(crate) decoded: DecodedRequest,
    pub(crate) operation_id: UnifiedId,
    pub(crate) request_id: UnifiedId,
    /// When the request came.
    pub(crate) received_at: Timestamp,
    /// When it is worked on.
    pub(crate) now: Timestamp,
    /// The client's key for this request.
    pub(crate) key: Option<IdempotencyKey>,
    /// Digest of what was asked and where.
    pub(crate) fingerprint: Sha256,
    /// Until when it may take.
    pub(crate) deadline: Timestamp,
    /// Whether it waits for a slot.
    pub(crate) waits: bool,
    /// Whether it carries only what is new in its conversation.
    pub(crate) appends: bool,
}

impl Engine {
    /// Begins a turn: decodes, finds the conversation, projects, commits the input and starts the producer.
    ///
    /// # Errors
    /// [`TurnError`]; nothing was committed and nothing was sent.
    pub async fn begin(self: &Arc<Self>, turn: TurnRequest, router: &dyn Router) -> Result<Turn, TurnError> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(UnifiedError::new(
                ErrorCategory::Overloaded,
                "draining",
                "the gateway is shutting down; ask again in a moment",
            )
            .into());
        }
        let mut prepared = self.prepare(turn)?;
        if let Some(turn) = self.known(&prepared).await? {
            return Ok(turn);
        }
        self.find_named_answer(&mut prepared).await?;
        self.check_executors(&prepared.decoded.unified.tools)?;
        let admission = Admission::ask(self, prepared.turn.options.background)?;
        prepared.waits = admission.waits();
        let targets = router.route(&prepared.turn.codec.profile().family, &prepared.decoded.unified.model.requested)?;
        // A caller that goes away in the middle must not leave an operation without a producer, so opening runs to its end by itself.
        let engine = Arc::clone(self);
        let opened = tokio::spawn(async move { engine.open(Arc::new(prepared), targets, admission).await });
        opened
            .await
            .unwrap_or_else(|_| Err(UnifiedError::new(ErrorCategory::Internal, "panic", "the turn could not be opened").into()))
    }

    async fn open(self: Arc<Self>, prepared: Arc<Prepared>, targets: Vec<Target>, admission: Admission) -> Result<Turn, TurnError> {
        let mut opening = TurnOpening {
            engine: self,
            prepared,
            targets,
            admission: Some(admission),
        };
        for attempt in 1..=PLACE_ATTEMPTS {
            if let Some(turn) = opening.place(attempt == PLACE_ATTEMPTS).await? {
                return Ok(turn);
            }
        }
        let message = "other requests keep moving this conversation; ask again";
        Err(crate::journal::moved(message).into())
    }

    fn prepare(&self, turn: TurnRequest) -> Result<Prepared, TurnError> {
        let now = self.clock.now();
        let (operation_id, request_id) = (self.ids.next(IdKind::Operation), self.ids.next(IdKind::Request));
        let decoded = self.decode(&turn, &operation_id, &request_id, now)?;
        if turn.model.is_none() && decoded.unified.model.requested == throughline_protocols::UNSPECIFIED_MODEL {
            return Err(
                UnifiedError::new(ErrorCategory::InvalidRequest, "missing-field", "missing field `model`")
                    .at("/model")
                    .into(),
            );
        }
        let too_many = |what: &str, limit: usize| {
            UnifiedError::new(ErrorCategory::TooLarge, what, format!("a request may have at most {limit} {what}"))
        };
        if decoded.unified.conversation.items.len() > self.limits.items_per_request {
            return Err(too_many("items", self.limits.items_per_request).into());
        }
        if decoded.unified.tools.len() > self.limits.tools_per_request {
            return Err(too_many("tools", self.limits.tools_per_request).into());
        }
        let principal_ref = turn.principal.reference(&self.vault)?;
        let key = turn
            .options
            .idempotency_key
            .as_deref()
            .map(|key| IdempotencyKey::read(&self.vault, key));
        Ok(Prepared {
            key: key.transpose()?,
            fingerprint: idempotency::fingerprint(&turn),
            deadline: self.deadline(now, turn.options.deadline)?,
            waits: false,
            appends: false,
            turn,
            principal_ref,
            decoded,
            operation_id,
            request_id,
            received_at: now,
            now,
        })
    }

    /// Reads the body of a request; the same IDs and time give the same items again.
    pub(crate) fn decode(
        &self,
        turn: &TurnRequest,
        operation_id: &UnifiedId,
        request_id: &UnifiedId,
        received_at: Timestamp,
    ) -> Result<DecodedRequest, UnifiedError> {
        let context = DecodeContext {
            operation_id: operation_id.clone(),
            request_id: request_id.clone(),
            received_at,
            runtime: turn.client_family.clone(),
            requested_model: turn.model.clone(),
            synthetic: self.synthetic.clone(),
            ..DecodeContext::offline()
        };
        let mut decoded = turn.codec.decode_request(&turn.body, &context)?;
        decoded.stream = turn.stream.unwrap_or(decoded.stream);
        decoded.unified.source.client_family.clone_from(&turn.client_family);
        decoded.unified.source.transport.clone_from(&turn.transport);
        for feature in &turn.require {
            set_strength(&mut decoded.unified, *feature, UnifiedRequirement::Required);
        }
        Ok(decoded)
    }

    pub(crate) fn client_context(&self, prepared: &Prepared, private: Arc<dyn PrivateState>) -> EncodeContext {
        let capabilities = throughline_protocols::Capabilities::of(prepared.turn.codec.capabilities());
        let usage = prepared.decoded.unified.output.as_ref().and_then(|o| o.includes.as_ref());
        EncodeContext {
            target_model: None,
            private,
            synthetic: self.synthetic.clone(),
            stream: prepared.decoded.stream,
            stream_usage: usage.is_some_and(|i| i.value.contains(&throughline_format::intent::Include::StreamUsage)),
            dialect: None,
            answer_id: Some(prepared.operation_id.clone()),
            created_at: prepared.now,
            ..EncodeContext::plain(capabilities)
        }
    }
}

/// A turn on its way to its first commit.
struct TurnOpening {
    engine: Arc<Engine>,
    prepared: Arc<Prepared>,
    targets: Vec<Target>,
    admission: Option<Admission>,
}

impl TurnOpening {
    /// One attempt; `None` when another turn moved the head in between.
    async fn place(&mut self, force_fork: bool) -> Result<Option<Turn>, TurnError> {
        let (engine, prepared) = (&self.engine, &self.prepared);
        let Some(target) = self.targets.first() else {
            return Err(UnifiedError::new(ErrorCategory::NotFound, "model", "no route leads to a provider for this model").into());
        };
        let search = Search {
            engine,
            codec: prepared.turn.codec.as_ref(),
            principal_ref: &prepared.principal_ref,
            items: &prepared.decoded.unified.conversation.items,
            resources: &prepared.decoded.resources,
            tools: &prepared.decoded.unified.tools,
            session: prepared.turn.session.as_ref(),
            conversation: prepared.turn.conversation.as_ref(),
            branch: prepared.turn.branch.as_ref(),
            appends: prepared.appends,
            force_fork,
        };
        let found = search.run().await?;
        if prepared.turn.codec.profile().family.as_str() == unified_native::WORD {
            // Other wires say of a stray result what they can; here it has a place to be refused.
            journal::check_new_answers(&prepared.decoded.unified.conversation.items, &found.place.new_items, &found.path)?;
        }
        let claims = engine
            .claims(
                prepared,
                &found.place.new_items,
                found.home.as_ref().map(|(c, _)| &c.conversation_id),
                target,
            )
            .await?;
        let last = Answerer::last(engine, &found.path).await?;
        let mut opening = Opening::new(engine, prepared, &found, target, &claims, last);
        let history: Vec<UnifiedItem> = found.path.iter().chain(&opening.sent_items).cloned().collect();
        let projector = Projector {
            prepared: Arc::clone(prepared),
            history,
            is_delta: found.is_delta,
            conversation_id: opening.conversation_id.clone(),
            shared: found.path.len(),
            rewritten: !found.revisions.is_empty(),
            head: opening.head(),
            answered: 0,
        };
        let outgoing = projector.project(engine, target).await?;
        if outgoing.loss.is_unsupported() {
            return Err(TurnError {
                error: unsupported(&outgoing.loss),
                loss: Some(outgoing.loss),
            });
        }
        opening.operation.loss = Some(bounded(outgoing.loss.clone()));
        let (scribe, events) = opening.first_events(engine, prepared, target)?;
        let cursor = engine.cursor(&prepared.turn.principal, &opening.conversation_id, &prepared.operation_id, 0)?;
        let keep = if prepared.waits {
            kept::keep(engine, prepared, &opening.conversation_id, found.is_delta)?
        } else {
            None
        };
        let kept = keep.is_some();
        let batch = opening.batch(engine, prepared, &found, &claims, &events, keep)?;
        // The publisher is there before the operation is, so nobody who finds the operation misses it.
        let live = Arc::new(Live::new(0, engine.limits.ring_events, engine.limits.ring_bytes));
        let closing = CloseOnDrop::open(engine, &live, &prepared.operation_id);
        match engine.commit(batch).await {
            Ok(_) => {}
            Err(StoreError::HeadMoved { .. } | StoreError::RevisionConflict { .. }) => return Ok(None),
            // Another request with the same key came first.
            Err(StoreError::Idempotency {
                operation_id,
                same_request: true,
            }) => {
                drop(closing);
                return engine.rejoin(prepared, &operation_id).await.map(Some);
            }
            Err(e) => return Err(e.to_unified().into()),
        }
        live.publish(events);
        if engine.stopping.load(Ordering::SeqCst) {
            live.cancel(CancelRequest {
                cause: StopCause::Shutdown,
                at: engine.clock.now(),
            });
        }

        let mut loss = prepared.decoded.loss.clone();
        loss.extend(outgoing.loss.clone());
        let encode = engine.client_context(prepared, Arc::new(ClientState(Arc::clone(&live))));
        let turn = Turn {
            operation_id: prepared.operation_id.clone(),
            conversation_id: opening.conversation_id.clone(),
            branch_id: opening.branch_id.clone(),
            request_id: prepared.request_id.clone(),
            stream: prepared.decoded.stream,
            loss,
            cursor,
            subscription: engine.attach(prepared.operation_id.clone(), Some(Arc::clone(&live)), 0),
            encode: encode.clone(),
        };
        let producer = Producer {
            engine: Arc::clone(engine),
            scribe,
            operation: opening.operation,
            live,
            asker: Asker {
                codec: Arc::clone(&prepared.turn.codec),
                request_id: prepared.request_id.clone(),
                runtime: prepared.turn.client_family.clone(),
                keeps: false,
                received_at: prepared.now,
            },
            projector: Some(projector),
            resumes: None,
            job: None,
            catch_up: None,
            targets: std::mem::take(&mut self.targets),
            first: Some(outgoing),
            held: None,
            kept,
            encode,
            link: found.link,
            issued_states: Vec::new(),
            tool_names: ToolNames::default(),
            handles: Handles::default(),
            refused: Vec::new(),
            answerer: opening.answerer,
            switch: None,
            journal: Progress::default(),
            rounds: 0,
            begun_after: 0,
            usage: None,
        };
        if let Some(admission) = self.admission.take() {
            tokio::spawn(producer.run(closing, admission));
        }
        Ok(Some(turn))
    }
}

/// Entries that an operation record keeps of its loss report.
const MAX_LOSS_ENTRIES: usize = 512;

/// A report that fits into an operation record however long the history is: errors first, then the rest up to the bound, and
/// one entry that counts what was left out.
pub(crate) fn bounded(mut report: UnifiedLossReport) -> UnifiedLossReport {
    let total = report.entries.len();
    if total <= MAX_LOSS_ENTRIES {
        return report;
    }
    report.entries.sort_by_key(|entry| std::cmp::Reverse(entry.severity));
    report.entries.truncate(MAX_LOSS_ENTRIES);
    report.note(UnifiedLossEntry {
        path: "/conversation".into(),
        feature: Feature::ConversationItem.as_str().to_owned(),
        severity: LossSeverity::Info,
        reason: format!("{} more entries of this kind were left out of the record", total - MAX_LOSS_ENTRIES),
        source_item_id: None,
        target_capability: None,
    });
    report
}

fn unsupported(loss: &UnifiedLossReport) -> UnifiedError {
    let first = loss.entries.iter().find(|e| e.severity == LossSeverity::Error);
    let reason = first.map_or_else(String::new, |e| format!(": {} ({})", e.feature, e.reason));
    UnifiedError::new(
        ErrorCategory::Unsupported,
        "projection",
        format!("the target cannot do what the request requires{reason}"),
    )
}
