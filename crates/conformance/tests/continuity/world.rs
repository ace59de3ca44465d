//! A store, an engine over it, and an account of every family that answers as it is told.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use throughline_engine::ports::{Clock, IdKind, IdSource, ResumeCall, Router, Target, Upstream, UpstreamCall, UpstreamReply};
use throughline_engine::{Engine, EngineConfig, EngineLimits, Principal, Turn, TurnRequest};
use throughline_format::{ErrorCategory, ProtocolFamily, Timestamp, UnifiedError, UnifiedId, UnifiedItem, UnifiedResourceOwner};
use throughline_protocols::{Capabilities, codec_of};
use throughline_store::{ItemPage, KeyRing, MemorySettings, MemoryStore, OsRandom, UnifiedStateStore, Vault};
use throughline_store_sqlite::{SqliteConfig, SqliteStore};
use tokio::sync::mpsc;

pub type Chunks = mpsc::UnboundedReceiver<Result<Bytes, UnifiedError>>;

/// What an account does with its next request.
pub enum Answer {
    Json(String),
    Sse(String),
    Live(Chunks),
}

/// One account.
#[derive(Default)]
pub struct Account {
    pub answers: Mutex<VecDeque<Answer>>,
    pub calls: Mutex<Vec<Value>>,
    pub resumed: Mutex<Vec<Option<String>>>,
}

struct Driver(Arc<Account>);

impl Driver {
    fn answer(&self) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let answer = self.0.answers.lock().unwrap().pop_front().expect("an answer was prepared");
        async move {
            let (is_stream, body) = match answer {
                Answer::Json(text) => (false, futures_util::stream::iter([Ok(Bytes::from(text))]).boxed()),
                Answer::Sse(text) => (true, futures_util::stream::iter([Ok(Bytes::from(text))]).boxed()),
                Answer::Live(chunks) => (
                    true,
                    futures_util::stream::unfold(chunks, |mut c| async move { c.recv().await.map(|b| (b, c)) }).boxed(),
                ),
            };
            Ok(UpstreamReply {
                is_stream,
                provider_request_id: None,
                body,
            })
        }
        .boxed()
    }
}

impl Upstream for Driver {
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        self.0.calls.lock().unwrap().push(serde_json::from_slice(&call.body).unwrap());
        self.answer()
    }

    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        self.0.resumed.lock().unwrap().push(call.after);
        self.answer()
    }
}

struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

struct Numbers(AtomicU64);

impl IdSource for Numbers {
    fn next(&self, kind: IdKind) -> UnifiedId {
        UnifiedId::parse(&format!("{}{:08}", kind.prefix(), self.0.fetch_add(1, Ordering::SeqCst))).unwrap()
    }
}

/// One engine over one store.
pub struct World {
    pub engine: Arc<Engine>,
    pub store: Arc<dyn UnifiedStateStore>,
    accounts: Mutex<BTreeMap<String, Arc<Account>>>,
    vault: Arc<Vault>,
    folder: Option<tempfile::TempDir>,
    first_id: u64,
}

fn vault() -> Arc<Vault> {
    let ring = KeyRing::from_json(br#"{"current":1,"keys":[{"version":1,"createdAt":"2026-01-01T00:00:00.000Z","key":"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="}]}"#).unwrap();
    Arc::new(Vault::new(ring, Arc::new(OsRandom)).unwrap())
}

fn sqlite(folder: &Path) -> Arc<dyn UnifiedStateStore> {
    let config = SqliteConfig::new(folder.join("case.db"), folder.join("artifacts"));
    Arc::new(SqliteStore::open(config, &vault(), &OsRandom, Timestamp::EPOCH).unwrap())
}

impl World {
    /// An empty world on each store.
    pub fn both() -> [Self; 2] {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite(folder.path());
        [
            Self::over(Arc::new(MemoryStore::new(MemorySettings::default())), None, 1),
            Self::over(store, Some(folder), 1),
        ]
    }

    fn over(store: Arc<dyn UnifiedStateStore>, folder: Option<tempfile::TempDir>, first_id: u64) -> Self {
        let vault = vault();
        let engine = Engine::new(EngineConfig {
            store: Arc::clone(&store),
            vault: Arc::clone(&vault),
            clock: Arc::new(Ticks(AtomicI64::new(1_790_000_000_000 + i64::try_from(first_id).unwrap()))),
            ids: Arc::new(Numbers(AtomicU64::new(first_id))),
            limits: EngineLimits::default(),
        })
        .unwrap();
        Self {
            engine,
            store,
            accounts: Mutex::default(),
            vault,
            folder,
            first_id,
        }
    }

    /// What the next process finds after a kill: the files as they lie there now, or the same memory.
    pub fn after_a_kill(&self) -> Self {
        let first_id = self.first_id + 1_000_000;
        let Some(folder) = &self.folder else {
            return Self::over(Arc::clone(&self.store), None, first_id);
        };
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Shared memory and the lock do not outlive a process.
            if entry.file_type().unwrap().is_file() && !name.ends_with("-shm") && !name.ends_with("-lock") {
                std::fs::copy(entry.path(), copy.path().join(name)).unwrap();
            }
        }
        Self::over(sqlite(copy.path()), Some(copy), first_id)
    }

    pub fn principal() -> Principal {
        Principal::new("scenario")
    }

    pub fn account(&self, family: &ProtocolFamily) -> Arc<Account> {
        Arc::clone(self.accounts.lock().unwrap().entry(family.to_string()).or_default())
    }

    pub fn expect(&self, family: &ProtocolFamily, answer: Answer) {
        self.account(family).answers.lock().unwrap().push_back(answer);
    }

    pub fn last_call(&self, family: &ProtocolFamily) -> Value {
        self.account(family).calls.lock().unwrap().last().cloned().unwrap()
    }

    /// A turn of a chat client that names its conversation and sends only what is new. The model is the family that answers.
    pub async fn say(&self, conversation: Option<&UnifiedId>, family: &ProtocolFamily, messages: &Value, more: &Value) -> Turn {
        let mut body = json!({"model": family.as_str(), "messages": messages});
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let request = TurnRequest {
            principal: Self::principal(),
            codec: codec_of(&ProtocolFamily::OpenAiChat).unwrap(),
            body: body.to_string().into(),
            model: None,
            stream: None,
            conversation: conversation.cloned(),
            branch: None,
            require: Vec::new(),
            client_family: None,
            session: None,
            client_headers: Vec::new(),
            transport: None,
            options: throughline_engine::TurnOptions::default(),
        };
        self.begin(request).await
    }

    pub async fn begin(&self, request: TurnRequest) -> Turn {
        match self.engine.begin(request, self).await {
            Ok(turn) => turn,
            Err(error) => panic!("the turn did not begin: {error:?}"),
        }
    }

    pub async fn items(&self, branch: &UnifiedId) -> Vec<UnifiedItem> {
        self.store.branch_items(branch, ItemPage::default()).await.unwrap()
    }
}

impl Router for World {
    fn route(&self, _: &ProtocolFamily, model: &str) -> Result<Vec<Target>, UnifiedError> {
        let family = ProtocolFamily::from_word(model);
        let codec = codec_of(&family).ok_or_else(|| UnifiedError::new(ErrorCategory::NotFound, "model", "no route"))?;
        Ok(vec![Target {
            provider: family.to_string(),
            owner: UnifiedResourceOwner::of_account(
                codec.profile(),
                family.to_string(),
                self.vault.credential_fingerprint(model.as_bytes()).unwrap(),
                "e".repeat(32),
            ),
            capabilities: Capabilities::of(codec.capabilities()),
            codec,
            model: "gemini-2.5-flash".to_owned(),
            model_provider: None,
            upstream: Arc::new(Driver(self.account(&family))),
            requirements: Vec::new(),
            dialect: None,
            reasoning_tags: false,
            client_state_is_ours: false,
        }])
    }
}
