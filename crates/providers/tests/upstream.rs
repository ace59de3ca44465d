//! The driver against a server that answers byte by byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

mod support;

use bytes::Bytes;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use support::{ErrorCodec, Server, Step};
use throughline_engine::ports::{UpstreamCall, UpstreamReply};
use throughline_format::{ErrorCategory, Timestamp, UnifiedError, UnifiedId};
use throughline_providers::{Credential, GeminiApi, OpenAiApi, Provider, ProviderKind, ProviderSpec, RetryPolicy, TargetOptions, Timeouts};
use throughline_store::{KeyRing, OsRandom, Vault};

const KEY: &str = "sk-secret-0123456789";
const OK: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: up_1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";

fn vault() -> Vault {
    Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap()
}

fn spec(kind: ProviderKind, url: &str) -> ProviderSpec {
    ProviderSpec {
        base_url: Some(url.to_owned()),
        credential: Some(Credential::new(KEY).unwrap()),
        project: (kind == ProviderKind::Vertex).then(|| "p".to_owned()),
        location: (kind == ProviderKind::Vertex).then(|| "l".to_owned()),
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            idle: Duration::from_millis(300),
        },
        retry: RetryPolicy {
            attempts: 2,
            max_wait: Duration::from_secs(1),
        },
        ..ProviderSpec::new("test", kind)
    }
}

fn call(stream: bool) -> UpstreamCall {
    UpstreamCall {
        conversation_id: UnifiedId::parse("conv_1").unwrap(),
        operation_id: UnifiedId::parse("op_1").unwrap(),
        request_id: UnifiedId::parse("req_1").unwrap(),
        model: "m".to_owned(),
        body: Bytes::from_static(br#"{"model":"m"}"#),
        stream,
        client_headers: [
            ("authorization", "Bearer client"),
            ("x-api-key", "client"),
            ("cookie", "c=1"),
            ("x-trace", "7"),
            ("anthropic-beta", "interleaved-thinking-2025-05-14"),
        ]
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect(),
    }
}

async fn run(spec: ProviderSpec, stream: bool) -> Result<UpstreamReply, UnifiedError> {
    Provider::connect_with(spec, Arc::new(ErrorCodec), &vault())
        .unwrap()
        .upstream()
        .call(call(stream))
        .await
}

async fn body(reply: UpstreamReply) -> (String, Option<UnifiedError>) {
    let (mut text, mut failed) = (String::new(), None);
    let mut chunks = reply.body;
    while let Some(chunk) = chunks.next().await {
        assert!(failed.is_none(), "an error is the last element");
        match chunk {
            Ok(bytes) => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            Err(error) => failed = Some(error),
        }
    }
    (text, failed)
}

#[tokio::test]
async fn each_kind_has_its_path_and_headers_and_no_client_secret() {
    throughline_format::clause!("TRAN-03");
    for (kind, base, path, auth) in [
        (ProviderKind::Anthropic, "", "POST /v1/messages ", "x-api-key: sk-secret-0123456789"),
        (
            ProviderKind::Anthropic,
            "/v1/",
            "POST /v1/messages ",
            "anthropic-version: 2023-06-01",
        ),
        (
            ProviderKind::Gemini(GeminiApi::V1Beta),
            "/v1beta",
            "POST /v1beta/models/m:generateContent ",
            "x-goog-api-key: sk-secret-0123456789",
        ),
        (
            ProviderKind::Gemini(GeminiApi::V1),
            "/v1/",
            "POST /v1/models/m:generateContent ",
            "x-goog-api-key: sk-secret-0123456789",
        ),
        (
            ProviderKind::Vertex,
            "/v1",
            "POST /v1/projects/p/locations/l/publishers/google/models/m:generateContent ",
            "authorization: Bearer sk-secret-0123456789",
        ),
        (
            ProviderKind::Antigravity,
            "",
            "POST /v1internal:generateContent ",
            "authorization: Bearer sk-secret-0123456789",
        ),
        (
            ProviderKind::Interactions,
            "",
            "POST /v1beta/interactions ",
            "api-revision: 2026-05-20",
        ),
        (
            ProviderKind::OpenAi(OpenAiApi::Chat),
            "/v1",
            "POST /v1/chat/completions ",
            "authorization: Bearer sk-secret-0123456789",
        ),
        (
            ProviderKind::OpenAi(OpenAiApi::Responses),
            "/v1",
            "POST /v1/responses ",
            "authorization: Bearer sk-secret-0123456789",
        ),
        (
            ProviderKind::Azure(OpenAiApi::Responses),
            "/openai/v1",
            "POST /openai/v1/responses ",
            "api-key: sk-secret-0123456789",
        ),
        (
            ProviderKind::Azure(OpenAiApi::Chat),
            "/openai/v1",
            "POST /openai/v1/chat/completions ",
            "api-key: sk-secret-0123456789",
        ),
        (
            ProviderKind::OpenAiCompatible,
            "/openai/v1",
            "POST /openai/v1/chat/completions ",
            "x-trace: 7",
        ),
    ] {
        let server = Server::start(vec![vec![Step::Send(OK)]]).await;
        let mut spec = spec(kind, &format!("{}{base}", server.url));
        spec.forward_headers = vec!["x-trace".to_owned()];
        let reply = run(spec, false).await.unwrap();
        assert_eq!((reply.is_stream, reply.provider_request_id.as_deref()), (false, Some("up_1")));
        assert_eq!(body(reply).await.0, "{}");
        let request = server.requests().remove(0);
        assert!(request.starts_with(path), "{request}");
        assert!(request.contains(auth), "{request}");
        assert!(
            request.contains("user-agent: throughline/") && request.ends_with(r#"{"model":"m"}"#),
            "{request}"
        );
        assert!(!request.contains("client") && !request.contains("cookie"), "{request}");
        assert_eq!(request.contains("anthropic-beta"), kind == ProviderKind::Anthropic, "{request}");
    }
}

#[tokio::test]
async fn a_refused_request_is_sent_again_only_when_that_helps() {
    const LIMIT: &str =
        "HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: 20\r\nrequest-id: up_9\r\nconnection: close\r\ncontent-length: 4\r\n\r\nslow";
    const LONG: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\nconnection: close\r\ncontent-length: 4\r\n\r\nslow";
    const FINAL: &str = "HTTP/1.1 500 Oops\r\nx-should-retry: false\r\nconnection: close\r\ncontent-length: 4\r\n\r\noops";
    const KEY_ECHO: &str = "HTTP/1.1 401 No\r\nconnection: close\r\ncontent-length: 29\r\n\r\nwrong: sk-secret-0123456789 :(";
    const MOVED: &str = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    for (answers, sent, outcome) in [
        (vec![LIMIT, OK], 2, Ok(())),
        (vec![LIMIT, LIMIT, OK], 2, Err((ErrorCategory::RateLimit, 429, Some(20)))),
        (vec![LONG, OK], 1, Err((ErrorCategory::RateLimit, 429, Some(60_000)))),
        (vec![FINAL, OK], 1, Err((ErrorCategory::Server, 500, None))),
        (vec![KEY_ECHO, OK], 1, Err((ErrorCategory::Auth, 401, None))),
        (vec![MOVED, OK], 1, Err((ErrorCategory::InvalidRequest, 302, None))),
    ] {
        let server = Server::start(answers.iter().map(|a| vec![Step::Send(a)]).collect()).await;
        let result = run(spec(ProviderKind::Anthropic, &server.url), false).await;
        match (result, outcome) {
            (Ok(reply), Ok(())) => assert_eq!(body(reply).await.0, "{}"),
            (Err(error), Err((category, status, advice))) => {
                assert_eq!(
                    (error.category, error.http_status, error.retry_after_ms),
                    (category, Some(status), advice),
                    "{answers:?}"
                );
                assert!(!error.message.contains("secret"), "{error}");
            }
            (Ok(_), _) => panic!("{answers:?} succeeded"),
            (Err(error), _) => panic!("{answers:?}: {error}"),
        }
        assert_eq!(server.requests().len(), sent, "{answers:?}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_tried_again() {
    let server = Server::start(vec![vec![], vec![Step::Send(OK)]]).await;
    assert_eq!(
        body(run(spec(ProviderKind::Anthropic, &server.url), false).await.unwrap()).await.0,
        "{}"
    );
    assert_eq!(server.requests().len(), 2);

    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let error = run(spec(ProviderKind::Anthropic, &url), false).await.err().unwrap();
    assert_eq!(error.code, "network.connect");
    assert!(error.message.contains("connection refused"), "{error}");
}

#[tokio::test]
async fn a_body_that_is_cut_or_stops_ends_with_an_error_element() {
    for (rest, expected) in [
        (vec![Step::Send("5\r\ndata:\r\n"), Step::Send("0\r\n\r\n")], None),
        (vec![Step::Send("5\r\ndata:\r\n")], Some("network.connection-lost")),
        (vec![Step::Send("5\r\ndata:\r\n"), Step::Hang], Some("timeout.idle")),
        (
            vec![
                Step::Send("5\r\ndata:\r\n"),
                Step::Pause(Duration::from_millis(20)),
                Step::Send("0\r\n\r\n"),
            ],
            None,
        ),
    ] {
        let mut answer = vec![Step::Send(STREAM_HEAD)];
        answer.extend(rest);
        let server = Server::start(vec![answer]).await;
        let reply = run(spec(ProviderKind::OpenAiCompatible, &server.url), true).await.unwrap();
        assert!(reply.is_stream);
        let (text, failed) = body(reply).await;
        assert_eq!((text.as_str(), failed.as_ref().map(|e| e.code.as_str())), ("data:", expected));
    }
}

#[tokio::test]
async fn a_key_that_the_provider_quotes_does_not_come_in() {
    // In a stream whose status is 200, cut in the middle of the key; in a refusal; in the trace ID of both.
    let stream = vec![
        Step::Send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: id-sk-secret-0123456789\r\nconnection: close\r\n\r\n",
        ),
        Step::Send("data: sk-secret-01"),
        Step::Pause(Duration::from_millis(20)),
        Step::Send("23456789 is wrong\n\n"),
    ];
    let refusal = vec![Step::Send(
        "HTTP/1.1 401 no\r\nx-request-id: id-sk-secret-0123456789\r\nconnection: close\r\ncontent-length: 29\r\n\r\nsk-secret-0123456789 is wrong",
    )];
    let server = Server::start(vec![stream, refusal]).await;
    let reply = run(spec(ProviderKind::OpenAiCompatible, &server.url), true).await.unwrap();
    assert!(!reply.provider_request_id.clone().unwrap().contains("0123456789"));
    let (text, failed) = body(reply).await;
    assert_eq!((text.as_str(), failed), ("data: ******************** is wrong\n\n", None));
    let Err(error) = run(spec(ProviderKind::OpenAiCompatible, &server.url), true).await else {
        panic!("it was refused")
    };
    assert!(!format!("{error:?}").contains("0123456789"), "{error:?}");
}

#[tokio::test]
async fn a_late_answer_is_no_reason_to_send_again() {
    let server = Server::start(vec![vec![Step::Hang], vec![Step::Send(OK)]]).await;
    let mut spec = spec(ProviderKind::OpenAiCompatible, &server.url);
    spec.timeouts.first_byte = Duration::from_millis(200);
    let error = run(spec, true).await.err().unwrap();
    assert_eq!((error.code.as_str(), server.requests().len()), ("timeout.first-byte", 1));
}

#[tokio::test]
async fn slots_are_bounded_and_freed_with_the_body() {
    let server = Server::start(vec![vec![Step::Send(STREAM_HEAD), Step::Hang], vec![Step::Send(OK)]]).await;
    let mut spec = spec(ProviderKind::OpenAiCompatible, &server.url);
    spec.max_concurrency = Some(1);
    spec.timeouts.first_byte = Duration::from_millis(300);
    let upstream = Provider::connect_with(spec, Arc::new(ErrorCodec), &vault()).unwrap().upstream();
    let first = upstream.call(call(true)).await.unwrap();
    assert_eq!(upstream.call(call(true)).await.err().unwrap().code, "limit.concurrency");
    drop(first);
    assert_eq!(body(upstream.call(call(false)).await.unwrap()).await.0, "{}");
}

#[tokio::test]
async fn specifications_that_cannot_work_are_refused() {
    let vault = vault();
    for (change, code) in [
        (
            (|s: &mut ProviderSpec| s.credential = None) as fn(&mut ProviderSpec),
            "auth.credential",
        ),
        (|s| s.forward_headers = vec!["Cookie".to_owned()], "invalid-request.invalid-value"),
        (
            |s| s.base_url = Some("https://u:p@host".to_owned()),
            "invalid-request.invalid-value",
        ),
        (|s| s.retry.attempts = 0, "invalid-request.invalid-value"),
    ] {
        let mut spec = spec(ProviderKind::Anthropic, "http://127.0.0.1:1");
        change(&mut spec);
        assert_eq!(Provider::connect_with(spec, Arc::new(ErrorCodec), &vault).unwrap_err().code, code);
    }
    // Every kind of this version has a codec.
    for kind in [
        ProviderKind::Anthropic,
        ProviderKind::OpenAi(OpenAiApi::Responses),
        ProviderKind::OpenAi(OpenAiApi::Chat),
        ProviderKind::OpenAiCompatible,
    ] {
        Provider::connect(spec(kind, "http://127.0.0.1:1"), &vault).unwrap();
    }
}

#[tokio::test]
async fn owners_differ_by_key_and_place_and_show_neither() {
    let vault = vault();
    let owner = |url: &str, key: &str| {
        let mut spec = spec(ProviderKind::Anthropic, url);
        spec.credential = Some(Credential::new(key).unwrap());
        let provider = Provider::connect_with(spec, Arc::new(ErrorCodec), &vault).unwrap();
        provider.build_target("m", &TargetOptions::default()).unwrap().owner
    };
    let first = owner("http://127.0.0.1:1", KEY);
    assert_eq!(first, owner("http://127.0.0.1:1/v1", KEY));
    assert_ne!(first, owner("http://127.0.0.1:2", KEY));
    assert_ne!(first, owner("http://127.0.0.1:1", "sk-other-0123456789"));
    assert!(first.credential_fingerprint.starts_with("v1:") && first.endpoint_fingerprint.len() == 32);
    assert!(!format!("{first:?}").contains("secret"));
}
