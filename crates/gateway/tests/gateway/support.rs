//! A gateway over a store in memory whose only provider is played by the test, chunk by chunk.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_engine::ports::{Target, Upstream, UpstreamCall, UpstreamReply};
use throughline_engine::{Engine, EngineConfig, EngineLimits};
use throughline_format::{ProtocolFamily, Timestamp, UnifiedError, UnifiedResourceOwner};
use throughline_gateway::auth::{Authenticator, ClientKeys, HostPolicy};
use throughline_gateway::config::{Choice, Placed, RouteConfig};
use throughline_gateway::http::{App, AppConfig, HttpLimits, Phase, router};
use throughline_gateway::routing::{RouteTable, Sources, TargetSource};
use throughline_gateway::system::{SystemClock, UuidSource};
use throughline_protocols::Capabilities;
use throughline_providers::TargetOptions;
use throughline_store::{KeyRing, MemorySettings, MemoryStore, OsRandom, Vault};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// What the provider does with one request.
pub enum Play {
    /// Refuses it.
    Refuse(Box<UnifiedError>),
    /// Answers with these chunks at once.
    Stream(Vec<String>),
    /// Answers with what the test sends.
    Live(mpsc::UnboundedReceiver<Result<Bytes, UnifiedError>>),
    /// Answers unstreamed.
    Whole(String),
}

/// The provider; speaks the chat protocol.
#[derive(Default)]
pub struct Provider {
    plays: Mutex<VecDeque<Play>>,
    calls: Mutex<Vec<Value>>,
}

impl Provider {
    pub fn play(&self, play: Play) {
        self.plays.lock().unwrap().push_back(play);
    }

    /// A stream that the test feeds.
    pub fn live(&self) -> mpsc::UnboundedSender<Result<Bytes, UnifiedError>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.play(Play::Live(receiver));
        sender
    }

    /// Bodies that arrived.
    pub fn calls(&self) -> Vec<Value> {
        self.calls.lock().unwrap().clone()
    }
}

impl Upstream for Provider {
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        self.calls.lock().unwrap().push(serde_json::from_slice(&call.body).unwrap());
        let play = self.plays.lock().unwrap().pop_front().expect("a play for each request");
        Box::pin(async move {
            let (is_stream, body) = match play {
                Play::Refuse(error) => return Err(*error),
                Play::Stream(chunks) => (true, stream::iter(chunks.into_iter().map(|c| Ok(Bytes::from(c)))).boxed()),
                Play::Live(receiver) => (
                    true,
                    stream::unfold(receiver, |mut r| async move { r.recv().await.map(|c| (c, r)) }).boxed(),
                ),
                Play::Whole(body) => (false, stream::iter([Ok(Bytes::from(body))]).boxed()),
            };
            Ok(UpstreamReply {
                is_stream,
                provider_request_id: Some("up_1".to_owned()),
                body,
            })
        })
    }
}

struct Source(Arc<Provider>);

impl TargetSource for Source {
    fn build_target(&self, model: &str, options: &TargetOptions) -> Result<Target, UnifiedError> {
        let codec = throughline_protocols::codec_of(&ProtocolFamily::OpenAiChat).unwrap();
        let mut capabilities = Capabilities::of(codec.capabilities());
        for (key, value) in &options.capabilities {
            capabilities.set(key, value)?;
        }
        Ok(Target {
            provider: "fake".to_owned(),
            owner: UnifiedResourceOwner::of_account(codec.profile(), "fake", "v1:0", "0"),
            codec,
            model: model.to_owned(),
            model_provider: None,
            upstream: self.0.clone(),
            capabilities,
            requirements: options.requirements.clone(),
            dialect: None,
            reasoning_tags: false,
            client_state_is_ours: false,
        })
    }
}

/// Settings of a test's gateway.
pub struct Settings {
    pub required: bool,
    pub keys: ClientKeys,
    /// File of the keys, in place of `keys`.
    pub key_file: Option<std::path::PathBuf>,
    pub limits: HttpLimits,
    pub engine: EngineLimits,
}

impl Default for Settings {
    fn default() -> Self {
        let limits = HttpLimits {
            request_body: 1 << 20,
            request_idle: Duration::from_secs(30),
            subscriber_lag: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
        };
        Self {
            required: false,
            keys: ClientKeys::default(),
            key_file: None,
            limits,
            engine: EngineLimits::default(),
        }
    }
}

/// A running gateway.
pub struct World {
    pub url: String,
    pub provider: Arc<Provider>,
    pub engine: Arc<Engine>,
    pub app: Arc<App>,
    pub http: reqwest::Client,
}

fn route(pattern: &str, inbound: Vec<ProtocolFamily>, model: Option<&str>) -> RouteConfig {
    RouteConfig {
        pattern: pattern.to_owned(),
        inbound,
        target: Choice {
            provider: Placed::built_in("fake".to_owned()),
            model: model.map(str::to_owned),
        },
        fallback: Vec::new(),
        requirements: Vec::new(),
        capabilities: Vec::new(),
        client_state_is_ours: false,
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let provider = Arc::new(Provider::default());
        let sources: Sources = BTreeMap::from([("fake".to_owned(), Arc::new(Source(Arc::clone(&provider))) as Arc<dyn TargetSource>)]);
        let routes = [
            route("plain", Vec::new(), None),
            route("only-messages", vec![ProtocolFamily::AnthropicMessages], Some("mapped")),
            route("any-*", Vec::new(), None),
        ];
        let vault = Arc::new(Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap());
        let engine = Engine::new(EngineConfig {
            store: Arc::new(MemoryStore::new(MemorySettings::default())),
            vault,
            clock: Arc::new(SystemClock),
            ids: Arc::new(UuidSource),
            limits: settings.engine,
        })
        .unwrap();
        let hosts = HostPolicy::new(&["127.0.0.1".to_owned()], &["https://app.example.com".to_owned()]);
        let app = App::new(AppConfig {
            engine: Arc::clone(&engine),
            ids: Arc::new(UuidSource),
            clock: Arc::new(SystemClock),
            routes: Arc::new(RouteTable::new(&routes, &sources, "test").unwrap()),
            auth: match settings.key_file {
                Some(path) => Authenticator::from_file(settings.required, hosts, path).unwrap(),
                None => Authenticator::new(settings.required, hosts, settings.keys),
            },
            limits: settings.limits,
        })
        .unwrap();
        app.enter(Phase::Serving);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = router(Arc::clone(&app));
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self {
            url,
            provider,
            engine,
            app,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    pub fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        self.http
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    pub fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}{path}", self.url))
    }

    /// Starts a streamed chat turn whose answer the test feeds.
    pub async fn start(&self) -> (reqwest::Response, Running, mpsc::UnboundedSender<Result<Bytes, UnifiedError>>) {
        let feed = self.provider.live();
        feed.send(Ok(Bytes::from(delta("one ")))).unwrap();
        let response = self
            .post("/v1/chat/completions", &chat("plain", true, "hello"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        let running = Running {
            operation: header(&response, "throughline-operation"),
            cursor: header(&response, "throughline-cursor"),
        };
        (response, running, feed)
    }
}

/// A turn that runs.
pub struct Running {
    pub operation: String,
    pub cursor: String,
}

impl Running {
    pub fn path(&self, rest: &str) -> String {
        format!("/unified/v2/operations/{}{rest}", self.operation)
    }
}

pub fn header(response: &reqwest::Response, name: &str) -> String {
    response
        .headers()
        .get(name)
        .unwrap_or_else(|| panic!("no header {name}"))
        .to_str()
        .unwrap()
        .to_owned()
}

pub async fn json(response: reqwest::Response) -> Value {
    let text = response.text().await.unwrap();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

pub fn chat(model: &str, stream: bool, text: &str) -> Value {
    serde_json::json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]})
}

pub fn messages(model: &str, stream: bool, text: &str) -> Value {
    serde_json::json!({"model": model, "stream": stream, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
}

fn chunk(choices: &Value, rest: &str) -> String {
    format!("data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m-1\",\"choices\":{choices}{rest}}}\n\n")
}

/// A piece of text as the provider sends it.
pub fn delta(text: &str) -> String {
    chunk(
        &serde_json::json!([{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": null}]),
        "",
    )
}

/// The end of a provider's stream.
pub fn done() -> String {
    let stop = chunk(&serde_json::json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), "");
    let usage = chunk(
        &serde_json::json!([]),
        ",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7}",
    );
    format!("{stop}{usage}data: [DONE]\n\n")
}

/// An unstreamed answer of the provider.
pub fn whole(text: &str) -> String {
    serde_json::json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "m-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
    .to_string()
}

/// A request of the native API with one user message.
pub fn unified(model: &str, text: &str) -> Value {
    serde_json::json!({
        "schemaVersion": "2.0", "requestId": "req_mine", "model": {"requested": model}, "generation": {}, "tools": [],
        "conversation": {"completeness": "complete", "items": [user_item("mine-1", text)]},
        "source": {"profile": {"family": "unified"}, "origin": "client", "receivedAt": "2026-01-01T00:00:00.000Z"},
    })
}

/// A user message as an item of the format.
pub fn user_item(id: &str, text: &str) -> Value {
    serde_json::json!({
        "id": id, "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-01T00:00:00.000Z",
        "role": "user", "visibility": "model", "status": "completed", "provenance": {"origin": "client", "attribution": {}},
        "kind": "message", "parts": [{"partId": format!("{id}-p"), "kind": "text", "text": text}],
    })
}

/// One frame of an event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
    pub comment: bool,
}

/// Reads frames as they arrive.
pub struct Frames {
    response: reqwest::Response,
    buffer: String,
}

impl Frames {
    pub fn new(response: reqwest::Response) -> Self {
        assert!(
            header(&response, "content-type").starts_with("text/event-stream"),
            "{:?}",
            response.headers()
        );
        Self {
            response,
            buffer: String::new(),
        }
    }

    /// The next frame; `None` at a clean end, an error when the connection was cut.
    pub async fn next(&mut self) -> Result<Option<Frame>, reqwest::Error> {
        loop {
            if let Some((frame, rest)) = self.buffer.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.buffer = rest;
                return Ok(Some(parse(&frame)));
            }
            match tokio::time::timeout(Duration::from_secs(10), self.response.chunk())
                .await
                .expect("a frame in time")?
            {
                Some(bytes) => self.buffer.push_str(std::str::from_utf8(&bytes).unwrap()),
                None => return Ok(None),
            }
        }
    }

    pub async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await.unwrap() {
            frames.push(frame);
        }
        frames
    }
}

pub fn parse(text: &str) -> Frame {
    let mut frame = Frame::default();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => frame.id = Some(value.to_owned()),
            Some(("event", value)) => frame.event = Some(value.to_owned()),
            Some(("data", value)) => value.clone_into(&mut frame.data),
            _ => frame.comment = true,
        }
    }
    frame
}

/// Text of a streamed chat answer.
pub fn chat_text(frames: &[Frame]) -> String {
    frames
        .iter()
        .filter(|frame| !frame.data.is_empty() && frame.data != "[DONE]")
        .filter_map(|frame| {
            serde_json::from_str::<Value>(&frame.data).unwrap()["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
}
