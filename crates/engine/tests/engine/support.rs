//! A world for one test: store, keys, clock, IDs, scripted providers and a client that holds its own history.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use throughline_engine::ports::{Clock, IdKind, IdSource, ResumeCall, Router, Target, Upstream, UpstreamCall, UpstreamReply};
use throughline_engine::{Engine, EngineConfig, EngineLimits, Principal, Turn, TurnOptions, TurnRequest};
use throughline_format::{ErrorCategory, ProtocolFamily, Timestamp, UnifiedError, UnifiedId, UnifiedItem, UnifiedResourceOwner};
use throughline_protocols::{Capabilities, codec_of};
use throughline_store::{ConversationFilter, ItemPage, KeyRing, MemorySettings, MemoryStore, OsRandom, UnifiedStateStore, Vault};
use tokio::sync::mpsc;

pub struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

pub struct TestIds(AtomicU64);

impl IdSource for TestIds {
    fn next(&self, kind: IdKind) -> UnifiedId {
        UnifiedId::parse(&format!("{}{:08}", kind.prefix(), self.0.fetch_add(1, Ordering::SeqCst))).unwrap()
    }
}

/// What a scripted provider does with its next request.
pub enum Answer {
    /// These bytes as an event stream, then the end.
    Sse(String),
    /// Bytes as the test sends them; dropping the sender ends the stream.
    Live(mpsc::UnboundedReceiver<Result<Bytes, UnifiedError>>),
    /// An unstreamed body.
    Json(Value),
    /// A refusal.
    Refuse(UnifiedError),
}

#[derive(Default)]
pub struct Script {
    pub answers: Mutex<VecDeque<Answer>>,
    pub calls: Mutex<Vec<Value>>,
    pub raw_calls: Mutex<Vec<Bytes>>,
    /// Places after which its work was read again.
    pub resumed_after: Mutex<Vec<Option<String>>>,
    /// The provider's own names of that work.
    pub resumed: Mutex<Vec<Vec<String>>>,
    /// Webhooks of the account.
    pub webhooks: Mutex<Vec<&'static str>>,
}

impl Upstream for ScriptHandle {
    fn has_webhook(&self, webhook_ref: &UnifiedId) -> bool {
        self.0.webhooks.lock().unwrap().contains(&webhook_ref.as_str())
    }

    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        self.0.calls.lock().unwrap().push(serde_json::from_slice(&call.body).unwrap());
        self.0.raw_calls.lock().unwrap().push(call.body);
        self.answer()
    }

    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        self.0.resumed_after.lock().unwrap().push(call.after);
        self.0.resumed.lock().unwrap().push(call.job.ids);
        self.answer()
    }
}

impl ScriptHandle {
    fn answer(&self) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let answer = self
            .0
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .expect("the provider was asked more often than the test expected");
        async move {
            let (is_stream, body) = match answer {
                Answer::Sse(text) => (true, futures_util::stream::iter([Ok(Bytes::from(text))]).boxed()),
                Answer::Live(chunks) => (
                    true,
                    futures_util::stream::unfold(chunks, |mut c| async move { c.recv().await.map(|b| (b, c)) }).boxed(),
                ),
                Answer::Json(value) => (false, futures_util::stream::iter([Ok(Bytes::from(value.to_string()))]).boxed()),
                Answer::Refuse(error) => return Err(error),
            };
            Ok(UpstreamReply {
                is_stream,
                provider_request_id: Some("up_1".into()),
                body,
            })
        }
        .boxed()
    }
}

pub struct ScriptHandle(pub Script);

/// One engine with scripted providers: models `claude…` go to Anthropic, `gpt…` to OpenAI chat, `o…` to Responses, `gemini…`
/// to GenerateContent, `ia…` to Interactions; a word of the name is another credential.
pub struct World {
    pub engine: Arc<Engine>,
    pub store: Arc<dyn UnifiedStateStore>,
    pub anthropic: Arc<ScriptHandle>,
    pub chat: Arc<ScriptHandle>,
    pub responses: Arc<ScriptHandle>,
    pub gemini: Arc<ScriptHandle>,
    pub interactions: Arc<ScriptHandle>,
    /// A change of every target's owner.
    pub change_owner: Option<fn(&mut UnifiedResourceOwner)>,
    /// Models that are tried after the one of the request.
    pub fallbacks: Vec<String>,
    pub requirements: Vec<(throughline_protocols::Feature, throughline_format::UnifiedRequirement)>,
    pub vault: Arc<Vault>,
}

impl World {
    pub fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new(MemorySettings::default())), 1)
    }

    pub fn over(store: Arc<dyn UnifiedStateStore>, first_id: u64) -> Self {
        Self::bounded(store, first_id, EngineLimits::default())
    }

    pub fn bounded(store: Arc<dyn UnifiedStateStore>, first_id: u64, limits: EngineLimits) -> Self {
        let ring = KeyRing::from_json(br#"{"current":1,"keys":[{"version":1,"createdAt":"2026-01-01T00:00:00.000Z","key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}]}"#).unwrap();
        let vault = Arc::new(Vault::new(ring, Arc::new(OsRandom)).unwrap());
        let engine = Engine::new(EngineConfig {
            store: Arc::clone(&store),
            vault: Arc::clone(&vault),
            clock: Arc::new(TestClock(AtomicI64::new(1_790_000_000_000 + i64::try_from(first_id).unwrap()))),
            ids: Arc::new(TestIds(AtomicU64::new(first_id))),
            limits,
        })
        .unwrap();
        let script = || Arc::new(ScriptHandle(Script::default()));
        Self {
            engine,
            store,
            anthropic: script(),
            chat: script(),
            responses: script(),
            gemini: script(),
            interactions: script(),
            change_owner: None,
            fallbacks: Vec::new(),
            requirements: Vec::new(),
            vault,
        }
    }

    pub fn principal() -> Principal {
        Principal::new("tester")
    }

    /// The provider that speaks a family.
    pub const fn script(&self, family: &ProtocolFamily) -> &Arc<ScriptHandle> {
        match family {
            ProtocolFamily::AnthropicMessages => &self.anthropic,
            ProtocolFamily::OpenAiResponses => &self.responses,
            ProtocolFamily::GeminiGenerateContent => &self.gemini,
            ProtocolFamily::GeminiInteractions => &self.interactions,
            _ => &self.chat,
        }
    }

    pub fn target(&self, family: &ProtocolFamily, model: &str, credential: &str) -> Target {
        let codec = codec_of(family).unwrap();
        let script = self.script(family);
        let mut owner = UnifiedResourceOwner {
            model: Some(model.to_owned()),
            ..UnifiedResourceOwner::of_account(
                codec.profile(),
                family.to_string(),
                self.vault.credential_fingerprint(credential.as_bytes()).unwrap(),
                "e".repeat(32),
            )
        };
        if let Some(change) = self.change_owner {
            change(&mut owner);
        }
        Target {
            provider: family.to_string(),
            owner,
            capabilities: Capabilities::of(codec.capabilities()),
            codec,
            model: model.to_owned(),
            model_provider: None,
            upstream: Arc::<ScriptHandle>::clone(script),
            requirements: self.requirements.clone(),
            dialect: None,
            reasoning_tags: false,
            client_state_is_ours: false,
        }
    }

    pub fn request(&self, family: &ProtocolFamily, body: &Value) -> TurnRequest {
        TurnRequest {
            principal: Self::principal(),
            codec: codec_of(family).unwrap(),
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
            options: TurnOptions::default(),
        }
    }

    pub async fn begin(&self, family: &ProtocolFamily, body: &Value) -> Turn {
        let request = self.request(family, body);
        self.begin_with(request).await
    }

    pub async fn begin_with(&self, request: TurnRequest) -> Turn {
        match self.engine.begin(request, self).await {
            Ok(turn) => turn,
            Err(error) => panic!("the turn did not begin: {error:?}"),
        }
    }

    pub async fn conversations(&self) -> Vec<throughline_format::UnifiedConversation> {
        self.store
            .conversations(ConversationFilter {
                principal_ref: None,
                updated_since: None,
                after: None,
                limit: 100,
            })
            .await
            .unwrap()
    }

    pub async fn items(&self, branch: &UnifiedId) -> Vec<UnifiedItem> {
        self.store.branch_items(branch, ItemPage::default()).await.unwrap()
    }

    pub async fn kinds(&self, branch: &UnifiedId) -> Vec<&'static str> {
        self.items(branch).await.iter().map(|i| i.body.kind()).collect()
    }

    pub fn last_call(script: &ScriptHandle) -> Value {
        script.0.calls.lock().unwrap().last().cloned().unwrap()
    }

    pub fn expect(script: &ScriptHandle, answer: Answer) {
        script.0.answers.lock().unwrap().push_back(answer);
    }
}

impl Router for World {
    fn route(&self, _: &ProtocolFamily, model: &str) -> Result<Vec<Target>, UnifiedError> {
        let mut targets = Vec::new();
        for m in std::iter::once(model).chain(self.fallbacks.iter().map(String::as_str)) {
            let (family, credential) = match m {
                m if m.starts_with("claude") => (ProtocolFamily::AnthropicMessages, "key-1"),
                m if m.starts_with("gpt") => (ProtocolFamily::OpenAiChat, "key-3"),
                m if m.starts_with("gemini") => (ProtocolFamily::GeminiGenerateContent, "key-4"),
                m if m.starts_with("ia") => (ProtocolFamily::GeminiInteractions, "key-4"),
                m if m.starts_with('o') => (ProtocolFamily::OpenAiResponses, "key-3"),
                _ => return Err(UnifiedError::new(ErrorCategory::NotFound, "model", "no route")),
            };
            targets.push(self.target(&family, m, if m.contains("other") { "key-2" } else { credential }));
        }
        Ok(targets)
    }
}

/// A file or folder of the checkout beside this one; without it the test is skipped, and fails where everything must run.
pub fn shared(path: &str) -> Option<std::path::PathBuf> {
    let found = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if found.exists() {
        return Some(found);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "../shared is missing");
    eprintln!("skipped: ../shared is absent");
    None
}

pub const ANTHROPIC: ProtocolFamily = ProtocolFamily::AnthropicMessages;
pub const CHAT: ProtocolFamily = ProtocolFamily::OpenAiChat;

/// A whole Anthropic answer as an event stream.
pub fn anthropic_sse(blocks: &[Value], stop: &str) -> String {
    let mut out = frame(
        &json!({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}),
    );
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas): (Value, Vec<Value>) = match block["type"].as_str().unwrap() {
            "text" => (
                json!({"type":"text","text":""}),
                vec![json!({"type":"text_delta","text":block["text"]})],
            ),
            "thinking" => (
                json!({"type":"thinking","thinking":"","signature":""}),
                vec![
                    json!({"type":"thinking_delta","thinking":block["thinking"]}),
                    json!({"type":"signature_delta","signature":block["signature"]}),
                ],
            ),
            "tool_use" => (
                json!({"type":"tool_use","id":block["id"],"name":block["name"],"input":{}}),
                vec![json!({"type":"input_json_delta","partial_json":block["input"].to_string()})],
            ),
            _ => (block.clone(), vec![]),
        };
        out += &frame(&json!({"type":"content_block_start","index":index,"content_block":start}));
        for delta in deltas {
            out += &frame(&json!({"type":"content_block_delta","index":index,"delta":delta}));
        }
        out += &frame(&json!({"type":"content_block_stop","index":index}));
    }
    out += &frame(&json!({"type":"message_delta","delta":{"stop_reason":stop,"stop_sequence":null},"usage":{"output_tokens":7}}));
    out + &frame(&json!({"type":"message_stop"}))
}

fn frame(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

/// A whole chat answer as an event stream.
pub fn chat_sse(text: &str) -> String {
    let mut out = String::new();
    for choice in [json!({"role":"assistant","content":""}), json!({"content":text})] {
        out += &chat_frame(&json!([{"index":0,"delta":choice,"finish_reason":null}]));
    }
    out += &chat_frame(&json!([{"index":0,"delta":{},"finish_reason":"stop"}]));
    out + "data: [DONE]\n\n"
}

pub fn chat_frame(choices: &Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":choices})
    )
}

/// Frames of a whole Responses answer of one text.
pub fn responses_frames(id: &str, text: &str, background: bool) -> Vec<String> {
    let response = |status: &str, output: Value| json!({"id":id,"object":"response","created_at":1,"status":status,"model":"o-x","output":output,"background":background,"store":true});
    let part = json!({"type":"output_text","text":text,"annotations":[]});
    let item = |status: &str, content: Value| json!({"type":"message","id":format!("msg_{id}"),"role":"assistant","status":status,"content":content});
    let (at, item_id) = (json!(0), json!(format!("msg_{id}")));
    let mut events = vec![
        json!({"type":"response.created","response":response("in_progress", json!([]))}),
        json!({"type":"response.output_item.added","output_index":at,"item":item("in_progress", json!([]))}),
        json!({"type":"response.content_part.added","output_index":at,"content_index":at,"item_id":item_id,"part":{"type":"output_text","text":"","annotations":[]}}),
    ];
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(i, _)| i);
    for piece in [&text[..middle], &text[middle..]] {
        events.push(json!({"type":"response.output_text.delta","output_index":at,"content_index":at,"item_id":item_id,"delta":piece}));
    }
    events.push(json!({"type":"response.output_text.done","output_index":at,"content_index":at,"item_id":item_id,"text":text}));
    events.push(json!({"type":"response.content_part.done","output_index":at,"content_index":at,"item_id":item_id,"part":part}));
    events.push(json!({"type":"response.output_item.done","output_index":at,"item":item("completed", json!([part]))}));
    events.push(json!({"type":"response.completed","response":response("completed", json!([item("completed", json!([part]))]))}));
    let numbered = events.into_iter().enumerate().map(|(n, mut event)| {
        event["sequence_number"] = json!(n);
        frame(&event)
    });
    numbered.collect()
}

/// A whole Responses answer as an event stream.
pub fn responses_sse(id: &str, text: &str) -> String {
    responses_frames(id, text, false).concat()
}

pub fn user(text: &str) -> Value {
    json!({"role":"user","content":text})
}

pub fn anthropic_body(model: &str, messages: &[Value]) -> Value {
    json!({"model":model,"max_tokens":1000,"stream":true,"messages":messages})
}

pub fn chat_body(model: &str, messages: &[Value]) -> Value {
    json!({"model":model,"stream":true,"messages":messages})
}
