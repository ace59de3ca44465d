//! The whole process with its built-in upstreams: over a real database, through the real driver.

use crate::support::{Frames, chat, chat_text, header, json, messages};
use serde_json::{Value, json};
use std::path::Path;
use throughline_gateway::config::Config;
use throughline_gateway::data_dir::{DataDir, Layout};
use throughline_gateway::demo::{ANTHROPIC_MODEL, OPENAI_MODEL};
use throughline_gateway::server::{ServeOptions, Server, StartError, check};
use tokio::sync::mpsc;

pub(crate) struct Gateway {
    pub(crate) url: String,
    http: reqwest::Client,
    stop: mpsc::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), throughline_format::UnifiedError>>,
}

pub(crate) fn options(folder: &Path) -> ServeOptions {
    let mut config = Config::default();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    ServeOptions {
        config,
        config_name: "test".to_owned(),
        data: DataDir::open(Layout::folder(folder)).unwrap(),
        demo: true,
    }
}

impl Gateway {
    async fn start(folder: &Path) -> Self {
        Self::start_with(options(folder)).await
    }

    pub(crate) async fn start_with(options: ServeOptions) -> Self {
        let server = Server::start(options, &|_| None).await.unwrap();
        let (stop, stops) = mpsc::channel(2);
        Self {
            url: server.url(),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            task: tokio::spawn(server.run(stops)),
            stop,
        }
    }

    pub(crate) async fn ask(&self, path: &str, body: &Value) -> reqwest::Response {
        let response = self
            .http
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        response
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).await.unwrap();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_conversation_two_models_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path()).await;
    // First turn: a chat client, Anthropic's wire upstream.
    let response = gateway.ask("/v1/chat/completions", &chat(ANTHROPIC_MODEL, true, "Hello!")).await;
    let (conversation, operation) = (
        header(&response, "throughline-conversation"),
        header(&response, "throughline-operation"),
    );
    let frames = Frames::new(response).rest().await;
    let first = chat_text(&frames);
    assert!(first.starts_with("Hello! I am demo-anthropic"), "{first}");
    assert_eq!(frames.last().unwrap().data, "[DONE]");
    // Second turn: the other model, with the history.
    let mut history = json!([{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": first}, {"role": "user", "content": "What did I say first?"}]);
    let response = gateway
        .ask("/v1/chat/completions", &json!({"model": OPENAI_MODEL, "messages": history}))
        .await;
    assert_eq!(header(&response, "throughline-conversation"), conversation);
    let answer = json(response).await["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(answer.contains("message number 2") && answer.contains("“Hello!”"), "{answer}");
    // Third turn: the client changes its protocol as well, and is shown thinking.
    history.as_array_mut().unwrap().extend([
        json!({"role": "assistant", "content": answer}),
        json!({"role": "user", "content": "Please count."}),
    ]);
    let response = gateway
        .ask(
            "/v1/messages",
            &json!({"model": ANTHROPIC_MODEL, "max_tokens": 500, "messages": history}),
        )
        .await;
    assert_eq!(header(&response, "throughline-conversation"), conversation);
    let body = json(response).await;
    assert_eq!(
        (body["content"][0]["type"].as_str(), body["content"][1]["type"].as_str()),
        (Some("thinking"), Some("text")),
        "{body}"
    );

    let events = format!("{}/unified/v2/operations/{operation}/events", gateway.url);
    let before = gateway.http.get(&events).send().await.unwrap().text().await.unwrap();
    gateway.stop().await;
    let gateway = Gateway::start(folder.path()).await;
    let events = format!("{}/unified/v2/operations/{operation}/events", gateway.url);
    let after = gateway.http.get(&events).send().await.unwrap().text().await.unwrap();
    let data = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("data: "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(!data(&before).is_empty());
    assert_eq!(data(&before), data(&after), "the same bytes after a restart");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_and_its_result_used() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path()).await;
    for model in [OPENAI_MODEL, ANTHROPIC_MODEL] {
        let tools = json!([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]);
        let mut request = chat(model, false, "How is the weather?");
        request["tools"] = tools.clone();
        let body = json(gateway.ask("/v1/chat/completions", &request).await).await;
        let message = body["choices"][0]["message"].clone();
        let call = &message["tool_calls"][0];
        assert_eq!(
            (call["function"]["name"].as_str(), body["choices"][0]["finish_reason"].as_str()),
            (Some("get_weather"), Some("tool_calls")),
            "{body}"
        );
        request["messages"].as_array_mut().unwrap().extend([
            message.clone(),
            json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny, 21 degrees"}),
        ]);
        let body = json(gateway.ask("/v1/chat/completions", &request).await).await;
        let answer = body["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(answer.contains("sunny, 21 degrees"), "{answer}");
    }
    let response = gateway.ask("/v1/messages", &messages(OPENAI_MODEL, true, "hello")).await;
    assert!(
        Frames::new(response)
            .rest()
            .await
            .iter()
            .any(|f| f.event.as_deref() == Some("message_stop"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn what_a_server_refuses_to_start_with() {
    let folder = tempfile::tempdir().unwrap();
    let held = options(folder.path());
    assert_eq!(DataDir::open(Layout::folder(folder.path())).err().unwrap().code, "storage.locked");
    let mut open = held;
    open.config.server.listen = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(check(&open.config, "test", &|_| None), Err(StartError::Config(error)) if error.lines()[0].contains("server.listen")));
    open.config.auth.required = true;
    match Server::start(open, &|_| None).await {
        Err(StartError::Config(error)) => assert!(error.lines()[0].contains("keys/clients.json has none"), "{error}"),
        _ => panic!("it listens to everybody without a key"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_starts_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let starting = Server::open(options(folder.path()), &|_| None).await.unwrap();
    let url = format!("http://{}", starting.address());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |path: &str| {
        let response = http.get(format!("{url}{path}")).send().await.unwrap();
        let retry = response
            .headers()
            .get("retry-after")
            .map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), retry, json(response).await)
    };
    let (status, _, body) = get("/healthz").await;
    assert_eq!((status, &body["status"]), (200, &json!("ok")));
    let (status, _, body) = get("/readyz").await;
    assert_eq!((status, body), (503, json!({"status": "starting"})));
    for (path, member, value) in [
        ("/unified/v2/operations", "/error/code", "overloaded.starting"),
        ("/v1/models", "/error/code", "server_is_overloaded"),
        ("/v1beta/models", "/error/status", "UNAVAILABLE"),
    ] {
        let (status, retry, body) = get(path).await;
        assert_eq!(
            (status, retry.as_deref(), body.pointer(member)),
            (503, Some("1"), Some(&json!(value))),
            "{path}: {body}"
        );
    }
    let refused = http
        .post(format!("{url}/v1/messages"))
        .body(messages(ANTHROPIC_MODEL, false, "hi").to_string());
    let refused = refused.send().await.unwrap();
    assert_eq!(
        (header(&refused, "retry-after").as_str(), json(refused).await["type"].as_str()),
        ("1", Some("error"))
    );
    let server = starting.recover().await.unwrap();
    assert_eq!(server.url(), url);
    let (status, _, body) = get("/readyz").await;
    assert_eq!((status, body), (200, json!({"status": "ok"})));
    let (stop, stops) = mpsc::channel(2);
    let running = tokio::spawn(server.run(stops));
    assert_eq!(get("/v1/models").await.0, 200);
    stop.send(()).await.unwrap();
    running.await.unwrap().unwrap();
    assert!(http.get(format!("{url}/healthz")).send().await.is_err(), "the port is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_given_up_frees_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let starting = Server::open(options(folder.path()), &|_| None).await.unwrap();
    let address = starting.address();
    drop(starting);
    let freed = async {
        while tokio::net::TcpListener::bind(address).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), freed).await.unwrap();
}
