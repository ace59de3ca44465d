//! A gateway's engine over either store, with one provider that the test plays and a clock that it sets.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_engine::ports::{Clock, IdKind, IdSource, Router, Target, Upstream, UpstreamCall, UpstreamReply};
use throughline_engine::{Engine, EngineConfig, EngineLimits, Principal, Turn, TurnError, TurnOptions, TurnRequest};
use throughline_format::{OperationState, ProtocolFamily, Timestamp, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedResourceOwner};
use throughline_protocols::unified_native::UnifiedNative;
use throughline_protocols::{Capabilities, Codec, codec_of};
use throughline_store::{KeyRing, MemorySettings, MemoryStore, OsRandom, UnifiedStateStore, Vault};
use throughline_store_sqlite::{SqliteConfig, SqliteStore};
use tokio::sync::mpsc;

pub const START: i64 = 1_790_000_000_000;
pub const DAY: i64 = 24 * 3_600_000;

/// Stands still until the test moves it.
pub struct TestClock(pub AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct TestIds(AtomicU64);

impl IdSource for TestIds {
    fn next(&self, kind: IdKind) -> UnifiedId {
        UnifiedId::parse(&format!("{}{:08}", kind.prefix(), self.0.fetch_add(1, Ordering::SeqCst))).unwrap()
    }
}

pub type Feed = mpsc::UnboundedSender<Result<Bytes, UnifiedError>>;

/// Speaks Anthropic's protocol, from a list of answers.
#[derive(Default)]
pub struct Provider {
    answers: Mutex<VecDeque<mpsc::UnboundedReceiver<Result<Bytes, UnifiedError>>>>,
    pub bodies: Mutex<Vec<Value>>,
}

impl Upstream for Provider {
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        self.bodies.lock().unwrap().push(serde_json::from_slice(&call.body).unwrap());
        let answer = self.answers.lock().unwrap().pop_front().expect("an answer for each request");
        Box::pin(async move {
            let body = futures_util::stream::unfold(answer, |mut a| async move { a.recv().await.map(|b| (b, a)) }).boxed();
            Ok(UpstreamReply {
                is_stream: true,
                provider_request_id: None,
                body,
            })
        })
    }
}

/// Where the data of a world lives, so that a world can be restarted.
pub enum Home {
    Memory(MemoryStore),
    Sqlite(tempfile::TempDir),
}

/// Both stores, empty.
pub fn homes() -> Vec<Home> {
    vec![
        Home::Memory(MemoryStore::new(MemorySettings::default())),
        Home::Sqlite(tempfile::tempdir().unwrap()),
    ]
}

pub struct World {
    pub engine: Arc<Engine>,
    pub store: Arc<dyn UnifiedStateStore>,
    pub provider: Arc<Provider>,
    pub clock: Arc<TestClock>,
    vault: Arc<Vault>,
}

impl World {
    pub fn open(home: &Home, first_id: u64) -> Self {
        Self::with(home, first_id, EngineLimits::default())
    }

    pub fn with(home: &Home, first_id: u64, limits: EngineLimits) -> Self {
        Self::configured(home, first_id, limits, |_| {})
    }

    pub fn configured(home: &Home, first_id: u64, limits: EngineLimits, change: fn(&mut SqliteConfig)) -> Self {
        let ring = KeyRing::from_json(br#"{"current":1,"keys":[{"version":1,"createdAt":"2026-01-01T00:00:00.000Z","key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}]}"#).unwrap();
        let vault = Arc::new(Vault::new(ring, Arc::new(OsRandom)).unwrap());
        let store: Arc<dyn UnifiedStateStore> = match home {
            Home::Memory(store) => Arc::new(store.clone()),
            Home::Sqlite(folder) => {
                let mut config = SqliteConfig::new(folder.path().join("throughline.db"), folder.path().join("artifacts"));
                change(&mut config);
                Arc::new(SqliteStore::open(config, &vault, &OsRandom, Timestamp::from_millis(START)).unwrap())
            }
        };
        let clock = Arc::new(TestClock(AtomicI64::new(START)));
        let engine = Engine::new(EngineConfig {
            store: Arc::clone(&store),
            vault: Arc::clone(&vault),
            clock: Arc::<TestClock>::clone(&clock),
            ids: Arc::new(TestIds(AtomicU64::new(first_id))),
            limits,
        })
        .unwrap();
        Self {
            engine,
            store,
            provider: Arc::new(Provider::default()),
            clock,
            vault,
        }
    }

    /// The process ends; what is stored stays in its home.
    pub async fn close(&self, home: &Home) {
        if matches!(home, Home::Sqlite(_)) {
            self.store.close().await.unwrap();
        }
    }

    /// The next answer, fed by the test.
    pub fn live(&self) -> Feed {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.provider.answers.lock().unwrap().push_back(receiver);
        sender
    }

    /// The next answer, whole.
    pub fn answers(&self, frames: &[Value]) {
        let feed = self.live();
        send_all(&feed, frames);
    }

    pub async fn begin(&self, request: TurnRequest) -> Turn {
        self.try_begin(request).await.unwrap_or_else(|error| panic!("{:?}", error.error))
    }

    pub async fn try_begin(&self, request: TurnRequest) -> Result<Turn, TurnError> {
        self.engine.begin(request, self).await
    }

    pub async fn state(&self, id: &UnifiedId) -> OperationState {
        self.engine.operation(&me(), id).await.unwrap().state
    }

    pub async fn until(&self, id: &UnifiedId, state: OperationState) {
        for _ in 0..1_000 {
            if self.state(id).await == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{id} did not become {state}, it is {}", self.state(id).await);
    }

    /// When the conversation was last updated, in milliseconds after the start.
    pub async fn touched(&self, conversation: &UnifiedId) -> i64 {
        let conversation = self.store.conversation(conversation).await.unwrap().unwrap();
        conversation.last_updated_at.millis() - START
    }

    /// Events from a place on, up to the end or as many as asked for.
    pub async fn events(&self, id: &UnifiedId, after: u64, most: usize) -> Vec<UnifiedEventV2> {
        let mut subscription = self.engine.subscribe(&me(), id, after).await.unwrap();
        let mut events = Vec::new();
        while events.len() < most {
            match subscription.next().await.unwrap() {
                Some(delivery) => events.push(delivery.event().unwrap()),
                None => break,
            }
        }
        events
    }
}

impl Router for World {
    fn route(&self, _: &ProtocolFamily, model: &str) -> Result<Vec<Target>, UnifiedError> {
        let codec = codec_of(&ProtocolFamily::AnthropicMessages).unwrap();
        Ok(vec![Target {
            provider: "played".into(),
            owner: UnifiedResourceOwner {
                model: Some(model.to_owned()),
                ..UnifiedResourceOwner::of_account(
                    codec.profile(),
                    "played",
                    self.vault.credential_fingerprint(b"key").unwrap(),
                    "e".repeat(32),
                )
            },
            capabilities: Capabilities::of(codec.capabilities()),
            codec,
            model: model.to_owned(),
            model_provider: None,
            upstream: Arc::<Provider>::clone(&self.provider),
            requirements: Vec::new(),
            dialect: None,
            reasoning_tags: false,
            client_state_is_ours: false,
        }])
    }
}

pub fn me() -> Principal {
    Principal::new("me")
}

/// A native request in the background.
pub fn native(tools: &[Value], items: &[Value]) -> TurnRequest {
    let body = json!({"schemaVersion": "2.0", "requestId": "req_mine", "model": {"requested": "claude-x"}, "generation": {}, "tools": tools,
        "conversation": {"completeness": "complete", "items": items},
        "source": {"profile": {"family": "unified"}, "origin": "client", "receivedAt": "2026-01-01T00:00:00.000Z"}});
    request(
        Arc::new(UnifiedNative),
        &body,
        TurnOptions {
            background: true,
            waits_for_approvals: true,
            ..TurnOptions::default()
        },
    )
}

pub fn request(codec: Arc<dyn Codec>, body: &Value, options: TurnOptions) -> TurnRequest {
    TurnRequest {
        principal: me(),
        codec,
        body: Bytes::from(body.to_string()),
        model: None,
        stream: None,
        conversation: None,
        branch: None,
        require: Vec::new(),
        client_family: None,
        session: None,
        client_headers: Vec::new(),
        transport: None,
        options,
    }
}

pub fn said(text: &str) -> Value {
    json!({"id": "mine", "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-01T00:00:00.000Z", "role": "user",
        "visibility": "model", "status": "completed", "provenance": {"origin": "client", "attribution": {}}, "kind": "message",
        "parts": [{"partId": "mine-p", "kind": "text", "text": text}]})
}

pub fn send(feed: &Feed, frame: &Value) {
    let text = format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap());
    // A torn operation takes nothing more.
    drop(feed.send(Ok(Bytes::from(text))));
}

pub fn send_all(feed: &Feed, frames: &[Value]) {
    for frame in frames {
        send(feed, frame);
    }
}

pub fn message_start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 1}}})
}

pub fn text(index: u32, text: &str) -> Vec<Value> {
    vec![
        json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

pub fn call_start(index: u32, id: &str, name: &str) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}})
}

pub fn call_piece(index: u32, piece: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}})
}

pub fn block_stop(index: u32) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

pub fn stop(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
}

/// A whole answer of one text.
pub fn says(said: &str) -> Vec<Value> {
    [vec![message_start()], text(0, said), stop("end_turn")].concat()
}
