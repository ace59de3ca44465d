//! [`World`]: one store with an engine over it, and what the steps do to them.

use super::live::{Answer, CaseClock, CaseIds, Provider, Route, Speaker, Subscriber};
use super::{Halt, PATIENCE};
use crate::case::Case;
use crate::checks::op_word;
use crate::journal::{self, Backend, Home};
use crate::query::word;
use crate::wire::Protocol;
use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use throughline_engine::{Engine, EngineConfig, EngineLimits, Principal, TurnOptions, TurnRequest};
use throughline_format::intent::UnifiedIntent;
use throughline_format::{ProtocolFamily, Sha256, Timestamp, UnifiedError, UnifiedId, UnifiedItem};
use throughline_protocols::{Capabilities, EncodeContext, families};
use throughline_store::{ItemPage, MAX_PAGE, StoreError, Vault, WriteBatch, WriteOp};
use tokio::sync::{mpsc, oneshot};

/// Where the clock of a case stands when no step has set it: 2026-03-01.
const START: i64 = 1_772_323_200_000;

/// An operation that the steps speak for.
pub(crate) struct Running {
    pub(crate) id: UnifiedId,
    sender: Option<mpsc::UnboundedSender<Result<Bytes, UnifiedError>>>,
    speaker: Speaker,
    sent: u64,
    /// Reads everything, so that steps can wait for what they sent.
    pub(crate) watcher: Subscriber,
}

/// One store, one engine.
pub(crate) struct World {
    pub(crate) backend: Backend,
    pub(crate) home: Home,
    pub(crate) engine: Arc<Engine>,
    pub(super) clock: Arc<CaseClock>,
    ids: Arc<CaseIds>,
    pub(crate) vault: Arc<Vault>,
    route: Arc<Route>,
    retention_days: u32,
    pub(crate) conversations: BTreeMap<String, (UnifiedId, UnifiedId)>,
    pub(crate) operations: BTreeMap<String, Running>,
    pub(crate) subscribers: BTreeMap<String, Subscriber>,
    pub(crate) artifacts: BTreeMap<String, Vec<u8>>,
    cursors: BTreeMap<String, String>,
    /// What each step gave.
    pub(crate) results: BTreeMap<String, Result<(), UnifiedError>>,
    pub(crate) last_error: Option<UnifiedError>,
    pub(crate) locks: Vec<std::thread::JoinHandle<()>>,
    next_item: u64,
}

fn engine(home: &Home, vault: &Arc<Vault>, clock: &Arc<CaseClock>, ids: &Arc<CaseIds>) -> Result<Arc<Engine>, String> {
    Engine::new(EngineConfig {
        store: Arc::clone(&home.store),
        vault: Arc::clone(vault),
        clock: Arc::<CaseClock>::clone(clock),
        ids: Arc::<CaseIds>::clone(ids),
        limits: EngineLimits::default(),
    })
    .map_err(|e| e.to_string())
}

impl World {
    /// An empty world as the case's `config` wants it.
    pub(crate) fn new(case: &Case, backend: Backend) -> Result<Self, String> {
        let days = case.input.pointer("/config/conversation_retention_days").and_then(Value::as_u64);
        let retention_days = days.and_then(|d| u32::try_from(d).ok()).unwrap_or(7);
        let named = case.protocol_in.as_deref().and_then(|name| Protocol::named(name).ok());
        let first = || {
            families()
                .first()
                .map(ToString::to_string)
                .ok_or_else(|| "this build has no codec".to_owned())
        };
        // A case about checkpoints needs a provider whose answers can be gone on from.
        let wants_checkpoints = case.input.to_string().contains("\"checkpoint\"");
        let default = || {
            if wants_checkpoints {
                Ok(ProtocolFamily::OpenAiResponses.to_string())
            } else {
                first()
            }
        };
        let protocol = named.map_or_else(|| Protocol::named(&default()?), Ok)?;
        let home = Home::with_retention(backend, retention_days)?;
        Self::over(home, backend, retention_days, protocol, START, 1)
    }

    fn over(home: Home, backend: Backend, retention_days: u32, protocol: Protocol, now: i64, first_id: u64) -> Result<Self, String> {
        let (vault, clock) = (journal::vault()?, Arc::new(CaseClock(AtomicI64::new(now))));
        let ids = Arc::new(CaseIds(AtomicU64::new(first_id)));
        Ok(Self {
            backend,
            engine: engine(&home, &vault, &clock, &ids)?,
            home,
            clock,
            ids,
            vault,
            route: Arc::new(Route {
                protocol,
                provider: Arc::new(Provider::default()),
            }),
            retention_days,
            conversations: BTreeMap::new(),
            operations: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            artifacts: BTreeMap::new(),
            cursors: BTreeMap::new(),
            results: BTreeMap::new(),
            last_error: None,
            locks: Vec::new(),
            next_item: 0,
        })
    }

    /// The same case over files that another process left; nothing runs in it yet.
    pub(crate) async fn after_a_crash(&self, directory: tempfile::TempDir) -> Result<Self, String> {
        let home = Home::opened(directory, self.retention_days)?;
        let next_id = self.ids.0.load(Ordering::SeqCst) + 1_000;
        let now = self.clock.0.load(Ordering::SeqCst);
        let mut world = Self::over(home, self.backend, self.retention_days, self.route.protocol.clone(), now, next_id)?;
        world.conversations.clone_from(&self.conversations);
        world.artifacts.clone_from(&self.artifacts);
        world.cursors.clone_from(&self.cursors);
        world.results.clone_from(&self.results);
        world.last_error.clone_from(&self.last_error);
        world.next_item = self.next_item + 1_000;
        for (name, running) in &self.operations {
            let speaker = Speaker::new(&self.route.protocol);
            let lost = Running {
                id: running.id.clone(),
                sender: None,
                speaker,
                sent: running.sent,
                watcher: Subscriber::default(),
            };
            world.operations.insert(name.clone(), lost);
        }
        world.engine.recover(world.route.as_ref()).await.map_err(|e| e.to_string())?;
        Ok(world)
    }

    /// Ends everything that runs.
    pub(crate) async fn close(mut self) {
        self.subscribers.clear();
        self.operations.clear();
        let _ = tokio::time::timeout(PATIENCE, self.engine.shutdown()).await;
        let _ = self.home.store.close().await;
        for lock in self.locks.drain(..) {
            let _ = lock.join();
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.0.load(Ordering::SeqCst))
    }

    pub(crate) fn principal() -> Principal {
        Principal::new("case")
    }

    pub(crate) fn conversation(&self, step: &Value) -> Result<(UnifiedId, UnifiedId), Halt> {
        let name = word(step, "conversation");
        self.conversations
            .get(name)
            .cloned()
            .ok_or_else(|| Halt::Unknown(format!("there is no conversation {name:?}")))
    }

    pub(crate) fn operation(&self, step: &Value) -> Result<&Running, Halt> {
        let name = word(step, "operation");
        self.operations
            .get(name)
            .ok_or_else(|| Halt::Unknown(format!("there is no operation {name:?}")))
    }

    pub(crate) async fn items(&self, branch: &UnifiedId) -> Result<Vec<UnifiedItem>, StoreError> {
        let mut path: Vec<UnifiedItem> = Vec::new();
        loop {
            let after_sequence = path.last().map_or(0, |i| i.sequence);
            let page = self
                .home
                .store
                .branch_items(
                    branch,
                    ItemPage {
                        after_sequence,
                        ..ItemPage::default()
                    },
                )
                .await?;
            let full = page.len() == MAX_PAGE;
            path.extend(page);
            if !full {
                return Ok(path);
            }
        }
    }

    pub(super) async fn create_conversation(&mut self, name: &str) -> Result<Result<(), UnifiedError>, Halt> {
        let fault = |e: String| Halt::Wrong(e);
        let (conversation, branch): (UnifiedId, UnifiedId) = (
            journal::record(&json!(format!("conv_{name}"))).map_err(fault)?,
            journal::record(&json!(format!("br_{name}"))).map_err(fault)?,
        );
        let principal = Self::principal().reference(&self.vault).map_err(|e| Halt::Wrong(e.to_string()))?;
        let now = self.now();
        let root = json!({"branchId": branch, "conversationId": conversation, "headSequence": 0, "createdAt": now});
        let batch = WriteBatch::new(now, conversation.clone())
            .with(WriteOp::CreateConversation(journal::record(&journal::conversation_record(
                &conversation,
                &branch,
                &principal,
                now,
            ))?))
            .with(WriteOp::CreateBranch(journal::record(&root)?));
        let outcome = self.home.store.commit(batch).await.map(|_| ()).map_err(|e| e.to_unified());
        self.conversations.insert(name.to_owned(), (conversation, branch));
        Ok(outcome)
    }

    /// Appends a user message at the head, as often as the head moves in between.
    pub(super) async fn append_item(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let (conversation, branch) = self.conversation(step)?;
        self.next_item += 1;
        let id: UnifiedId = journal::record(&json!(format!("item_{}", self.next_item)))?;
        let mut item = journal::user_message(&id, word(step, "text"))?;
        item.base.id = id;
        let home = &self.home;
        Ok(append(home, &conversation, &branch, item, self.now())
            .await
            .map_err(|e| e.to_unified()))
    }

    pub(super) async fn parallel_append(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let (conversation, branch) = self.conversation(step)?;
        let number = |key: &str| step.get(key).and_then(Value::as_u64).unwrap_or(1);
        let (writers, each, now) = (number("writers"), number("each"), self.now());
        let tasks = (0..writers).map(|writer| {
            let (store, conversation, branch) = (Arc::clone(&self.home.store), conversation.clone(), branch.clone());
            tokio::spawn(async move {
                for n in 0..each {
                    let id: UnifiedId = journal::record(&json!(format!("item_w{writer}_{n}"))).map_err(StoreError::internal)?;
                    let mut item = journal::user_message(&id, "written side by side").map_err(StoreError::internal)?;
                    item.base.id = id;
                    append_to(store.as_ref(), &conversation, &branch, item, now).await?;
                }
                Ok::<(), StoreError>(())
            })
        });
        for done in futures_util::future::join_all(tasks).await {
            match done {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Ok(Err(error.to_unified())),
                Err(panic) => return Err(Halt::Wrong(panic.to_string())),
            }
        }
        Ok(Ok(()))
    }

    fn turn_request(&self, conversation: &UnifiedId, stream: bool) -> Result<TurnRequest, Halt> {
        let protocol = &self.route.protocol;
        let item = journal::user_message(&UnifiedId::offline_operation(), "go")?;
        let context = EncodeContext {
            stream,
            ..EncodeContext::plain(Capabilities::of(protocol.codec.capabilities()))
        };
        let mut request = journal::request(vec![item], "m", &[])?;
        // What the provider keeps can be gone on from.
        request.state.get_or_insert_default().persist = Some(UnifiedIntent::preferred(true));
        let encoded = protocol
            .codec
            .encode_request(&request, &context)
            .map_err(|e| Halt::Wrong(e.to_string()))?;
        Ok(TurnRequest {
            principal: Self::principal(),
            codec: Arc::clone(&protocol.codec),
            body: encoded.body.into(),
            model: Some("m".to_owned()),
            stream: Some(stream),
            conversation: Some(conversation.clone()),
            branch: None,
            require: Vec::new(),
            client_family: None,
            session: None,
            client_headers: Vec::new(),
            transport: None,
            options: TurnOptions::default(),
        })
    }

    pub(super) async fn start_operation(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let (name, conversation) = (word(step, "operation").to_owned(), word(step, "conversation").to_owned());
        let conversation = if conversation.is_empty() {
            "default".to_owned()
        } else {
            conversation
        };
        if !self.conversations.contains_key(&conversation)
            && let Err(error) = self.create_conversation(&conversation).await?
        {
            return Ok(Err(error));
        }
        let (conversation, _) = self.conversation(&json!({"conversation": conversation}))?;
        let (sender, chunks) = mpsc::unbounded_channel();
        let (reads, is_read) = oneshot::channel();
        self.route.provider.expect(Answer::Live(chunks, reads));
        let turn = match self
            .engine
            .begin(self.turn_request(&conversation, true)?, self.route.as_ref())
            .await
        {
            Ok(turn) => turn,
            Err(refused) => return Ok(Err(refused.error)),
        };
        // What the engine writes before it waits for the provider belongs to the time of this step, not of the next one.
        let _ = tokio::time::timeout(PATIENCE, is_read).await;
        let mut watcher = Subscriber::default();
        watcher.attach(turn.subscription);
        let speaker = Speaker::new(&self.route.protocol);
        let running = Running {
            id: turn.operation_id,
            sender: Some(sender),
            speaker,
            sent: 0,
            watcher,
        };
        self.operations.insert(name, running);
        Ok(Ok(()))
    }

    /// Text deltas of the provider. With `wait` until they are committed.
    pub(super) async fn append_event(&mut self, step: &Value, wait: bool) -> Result<Result<(), UnifiedError>, Halt> {
        let id = self.operation(step)?.id.clone();
        let number = step.get("count").and_then(Value::as_u64).unwrap_or(1);
        let family = self.route.protocol.family.clone();
        let Some(running) = self.operations.get_mut(word(step, "operation")) else {
            return Err(Halt::Unknown("no operation".to_owned()));
        };
        let text = running.speaker.deltas(&family, number)?;
        let delivered = running.sender.as_ref().is_some_and(|s| s.send(Ok(text.into())).is_ok());
        if !delivered {
            return self.late_event(&id).await;
        }
        running.sent += number;
        let sent = running.sent;
        if wait && !running.watcher.wait_for(|s| s.deltas.len() as u64 >= sent || s.closed).await {
            return Err(Halt::Wrong(format!("{sent} deltas were sent and not all are committed")));
        }
        Ok(Ok(()))
    }

    /// The producer hung up, so late output can only come past it: the store must refuse that as well.
    async fn late_event(&self, id: &UnifiedId) -> Result<Result<(), UnifiedError>, Halt> {
        let fault = |e: StoreError| Halt::Wrong(e.to_string());
        let store = &self.home.store;
        let operation = store
            .operation(id)
            .await
            .map_err(fault)?
            .ok_or_else(|| Halt::Wrong("the operation is gone".to_owned()))?;
        let before = store.last_sequence(id).await.map_err(fault)?;
        let late = WriteOp::AppendEvents {
            operation_id: id.clone(),
            first_sequence: before + 1,
            events: vec![Bytes::from_static(b"{\"kind\":\"text.delta\"}")],
        };
        let outcome = store
            .commit(WriteBatch::new(self.now(), operation.conversation_id).with(late))
            .await;
        if store.last_sequence(id).await.map_err(fault)? != before {
            return Err(Halt::Wrong("an event was appended after the end".to_owned()));
        }
        Ok(outcome.map(|_| ()).map_err(|e| e.to_unified()))
    }

    pub(crate) async fn finish_operation(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        self.operation(step)?;
        let family = self.route.protocol.family.clone();
        let Some(running) = self.operations.get_mut(word(step, "operation")) else {
            return Err(Halt::Unknown("no operation".to_owned()));
        };
        let text = running.speaker.end(&family)?;
        if running.sender.take().is_none_or(|s| s.send(Ok(text.into())).is_err()) {
            let id = running.id.clone();
            return self.late_event(&id).await;
        }
        if running.watcher.wait_for(|s| s.closed).await {
            Ok(Ok(()))
        } else {
            Err(Halt::Wrong("the end of the answer was sent and is not committed".to_owned()))
        }
    }

    pub(super) async fn cancel_operation(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let running = self.operation(step)?;
        if let Err(error) = self.engine.cancel(&Self::principal(), &running.id, None).await {
            return Ok(Err(error));
        }
        if running.watcher.is_attached() && !running.watcher.wait_for(|s| s.closed).await {
            return Err(Halt::Wrong("the operation was cancelled and did not end".to_owned()));
        }
        Ok(Ok(()))
    }

    /// Our sequence for a number of the case, which counts text deltas.
    pub(crate) fn sequence_of(&self, operation: &str, number: u64) -> Result<u64, Halt> {
        let Some(index) = number.checked_sub(1) else { return Ok(0) };
        let running = self
            .operations
            .get(operation)
            .ok_or_else(|| Halt::Unknown(format!("there is no operation {operation:?}")))?;
        let known = running
            .watcher
            .with(|s| usize::try_from(index).ok().and_then(|i| s.deltas.get(i).copied()));
        known.ok_or_else(|| Halt::Wrong(format!("the operation has no event {number}")))
    }

    pub(super) async fn attach(&mut self, step: &Value, principal: &Principal, after: u64) -> Result<Result<(), UnifiedError>, Halt> {
        let running = self.operation(step)?;
        match self.engine.subscribe(principal, &running.id, after).await {
            Err(error) => Ok(Err(error)),
            Ok(subscription) => {
                let subscriber = self.subscribers.entry(word(step, "subscriber").to_owned()).or_default();
                word(step, "operation").clone_into(&mut subscriber.operation);
                subscriber.attach(subscription);
                Ok(Ok(()))
            }
        }
    }

    /// Goes away; what was committed before is read first, as the case's words have it.
    pub(super) async fn detach(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let name = word(step, "subscriber");
        let known = |s: &Subscriber| s.operation.clone();
        let operation = self
            .subscribers
            .get(name)
            .map(known)
            .ok_or_else(|| Halt::Unknown(format!("there is no subscriber {name:?}")))?;
        let id = self.operation(&json!({"operation": operation}))?.id.clone();
        let head = self.home.store.last_sequence(&id).await.map_err(|e| Halt::Wrong(e.to_string()))?;
        let Some(subscriber) = self.subscribers.get_mut(name) else {
            return Ok(Ok(()));
        };
        if !subscriber.wait_for(|s| s.sequences.last().is_some_and(|last| *last >= head)).await {
            return Err(Halt::Wrong(format!("subscriber {name} never saw event {head}")));
        }
        subscriber.stop();
        Ok(Ok(()))
    }

    pub(super) fn principal_of(step: &Value) -> Principal {
        step.get("principal")
            .and_then(Value::as_str)
            .map_or_else(Self::principal, Principal::new)
    }

    pub(super) fn issue_cursor(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let after = self.sequence_of(
            word(step, "operation"),
            step.get("after_sequence").and_then(Value::as_u64).unwrap_or(0),
        )?;
        let id = self.operation(step)?.id.clone();
        let conversation = self.conversation(step).or_else(|_| {
            let only = self.conversations.values().next().cloned();
            only.ok_or_else(|| Halt::Unknown("the cursor has no conversation".to_owned()))
        })?;
        let cursor = self.engine.cursor(&Self::principal_of(step), &conversation.0, &id, after);
        Ok(cursor.map(|text| {
            self.cursors.insert(word(step, "cursor").to_owned(), text);
        }))
    }

    pub(super) async fn resume_with_cursor(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let name = word(step, "cursor");
        // A cursor that no step issued is taken as its text: a forged one.
        let text = self.cursors.get(name).cloned().unwrap_or_else(|| name.to_owned());
        let principal = Self::principal_of(step);
        let id = self.operation(step)?.id.clone();
        match self.engine.read_cursor(&principal, &id, &text) {
            Ok(after) => self.attach(step, &principal, after).await,
            Err(error) => Ok(Err(error)),
        }
    }

    pub(super) async fn ref_artifact(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let (conversation, _) = self.conversation(step)?;
        let name = word(step, "artifact");
        let bytes = self
            .artifacts
            .get(name)
            .ok_or_else(|| Halt::Unknown(format!("there is no artifact {name:?}")))?;
        let artifact = json!({"artifactId": format!("art_{name}"), "sha256": Sha256::of(bytes), "size": bytes.len(),
            "mediaType": "text/plain", "sealed": false, "createdAt": Timestamp::from_millis(START)});
        let batch = WriteBatch::new(self.now(), conversation.clone())
            .with(WriteOp::PutArtifact {
                principal_ref: Self::principal().reference(&self.vault).map_err(|e| Halt::Wrong(e.to_string()))?,
                artifact: journal::record(&artifact)?,
            })
            .with(WriteOp::AddArtifactRef {
                artifact_id: journal::record(&json!(format!("art_{name}")))?,
                subject: conversation,
            });
        Ok(self.home.store.commit(batch).await.map(|_| ()).map_err(|e| e.to_unified()))
    }

    pub(super) async fn project(&self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let (_, branch) = self.conversation(step)?;
        let target = Protocol::named(word(step, "target")).map_err(Halt::Unknown)?;
        let path = match self.items(&branch).await {
            Ok(path) => path,
            Err(error) => return Ok(Err(error.to_unified())),
        };
        let request = journal::request(path, "m", &[])?;
        let context = EncodeContext::plain(Capabilities::of(target.codec.capabilities()));
        Ok(target.codec.encode_request(&request, &context).map(|_| ()))
    }

    pub(super) async fn replay(&self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let (conversation, _) = self.conversation(step)?;
        let filter = throughline_store::OperationFilter {
            conversation_id: Some(conversation),
            ..Default::default()
        };
        let operations = match self.home.store.operations(filter).await {
            Ok(operations) => operations,
            Err(error) => return Ok(Err(error.to_unified())),
        };
        for operation in operations {
            match self.engine.subscribe(&Self::principal(), &operation.operation_id, 0).await {
                // An operation that still runs has no end to wait for.
                Ok(mut subscription) => while let Some(Ok(Some(_))) = subscription.next().now_or_never() {},
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// An answer of the provider taken in as a whole turn of the conversation.
    pub(super) async fn ingest_response(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let (conversation, _) = self.conversation(step)?;
        let body = step
            .get("body")
            .ok_or_else(|| Halt::Unknown("ingest_response has no body".to_owned()))?;
        self.route.provider.expect(Answer::Whole(body.to_string()));
        match self
            .engine
            .begin(self.turn_request(&conversation, false)?, self.route.as_ref())
            .await
        {
            Ok(turn) => Ok(turn.collect().await.map(|_| ())),
            Err(refused) => Ok(Err(refused.error)),
        }
    }

    /// An upstream call that the provider refuses: what its answer means, through a turn of the engine. How a driver cleans
    /// what it was sent of credentials happens in the crate above, so what is persisted afterwards is not for this runner.
    pub(super) async fn upstream_call(&mut self, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
        let Some(answer) = step.get("response") else {
            return Err(Halt::Unknown(
                "a transport error is the HTTP driver's, which is not run in this process".to_owned(),
            ));
        };
        let conversation = match self.conversation(step) {
            Ok((conversation, _)) => conversation,
            Err(_) => self.conversations.values().next().map(|(c, _)| c.clone()).ok_or(Halt::NotHere)?,
        };
        let header = |name: &str| {
            let headers = answer.get("headers").and_then(Value::as_object);
            headers.and_then(|h| {
                h.iter()
                    .find(|(k, _)| k.eq_ignore_ascii_case(name))
                    .and_then(|(_, v)| v.as_str().map(str::to_owned))
            })
        };
        let advice = throughline_protocols::codec::ErrorHeaders {
            request_id: header("x-request-id").or_else(|| header("request-id")),
            retry_after_ms: None,
            should_retry: None,
        };
        let status = answer
            .get("status")
            .and_then(Value::as_u64)
            .and_then(|s| u16::try_from(s).ok())
            .unwrap_or(200);
        let body = answer.get("body").map(ToString::to_string).unwrap_or_default();
        self.route.provider.expect(if status >= 400 {
            Answer::Refuse(Box::new(self.route.protocol.codec.decode_error(status, &advice, body.as_bytes())))
        } else {
            Answer::Whole(body)
        });
        match self
            .engine
            .begin(self.turn_request(&conversation, false)?, self.route.as_ref())
            .await
        {
            Ok(turn) => Ok(turn.collect().await.map(|_| ())),
            Err(refused) => Ok(Err(refused.error)),
        }
    }
}

async fn append(home: &Home, conversation: &UnifiedId, branch: &UnifiedId, item: UnifiedItem, now: Timestamp) -> Result<(), StoreError> {
    append_to(home.store.as_ref(), conversation, branch, item, now).await
}

async fn append_to(
    store: &dyn throughline_store::UnifiedStateStore,
    conversation: &UnifiedId,
    branch: &UnifiedId,
    item: UnifiedItem,
    now: Timestamp,
) -> Result<(), StoreError> {
    loop {
        let head = store.branch(branch).await?.and_then(|b| b.head_item_id);
        let op = WriteOp::AppendItems {
            branch_id: branch.clone(),
            expected_head: head,
            items: vec![item.clone()],
        };
        match store.commit(WriteBatch::new(now, conversation.clone()).with(op)).await {
            Err(StoreError::HeadMoved { .. }) => tokio::task::yield_now().await,
            other => return other.map(|_| ()),
        }
    }
}

impl World {
    /// Puts another store under the same world.
    pub(crate) fn reopened(&mut self, home: Home) -> Result<(), String> {
        self.engine = engine(&home, &self.vault, &self.clock, &self.ids)?;
        self.home = home;
        Ok(())
    }

    /// The retention time of the case in days.
    pub(crate) const fn retention_days(&self) -> u32 {
        self.retention_days
    }

    /// The word for what a step gave.
    pub(crate) fn result_word(&self, step: &str) -> Option<String> {
        self.results
            .get(step)
            .map(|r| r.as_ref().err().map_or_else(|| "ok".to_owned(), op_word))
    }
}
