//! Turns over the client protocols: streamed and not, and errors in each protocol's own shape.

use crate::support::{Frames, Play, Settings, World, chat, chat_text, delta, done, header, json, messages, whole};
use bytes::Bytes;
use serde_json::json;
use std::io::Write as _;
use throughline_format::{ErrorCategory, UnifiedError};
use throughline_gateway::http::HttpLimits;

fn stream() -> Play {
    Play::Stream(vec![delta("Hello "), delta("there"), done()])
}

#[tokio::test]
async fn a_chat_client_streams() {
    let world = World::new().await;
    world.provider.play(stream());
    let response = world.post("/v1/chat/completions", &chat("plain", true, "hi")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    for (name, begin) in [
        ("throughline-conversation", "conv_"),
        ("throughline-operation", "op_"),
        ("throughline-request", "req_"),
        ("x-request-id", "req_"),
    ] {
        assert!(header(&response, name).starts_with(begin), "{name}");
    }
    assert!(!header(&response, "throughline-cursor").is_empty());
    assert_eq!(header(&response, "throughline-loss"), "lossless");
    let frames = Frames::new(response).rest().await;
    assert_eq!(chat_text(&frames), "Hello there");
    assert_eq!(frames.last().unwrap().data, "[DONE]");
}

#[tokio::test]
async fn a_messages_client_streams_from_a_chat_provider() {
    let world = World::new().await;
    world.provider.play(stream());
    let response = world
        .post("/v1/messages", &messages("any-model", true, "hi"))
        .header("anthropic-version", "2023-06-01")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert!(header(&response, "request-id").starts_with("req_"));
    let frames = Frames::new(response).rest().await;
    let names: Vec<&str> = frames.iter().filter_map(|f| f.event.as_deref()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("message_start", "message_stop"));
    let text: String = frames
        .iter()
        .filter_map(|f| {
            serde_json::from_str::<serde_json::Value>(&f.data).unwrap()["delta"]["text"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(text, "Hello there");
    assert_eq!(world.provider.calls()[0]["model"], "any-model");
}

#[tokio::test]
async fn unstreamed_answers() {
    let world = World::new().await;
    world.provider.play(Play::Whole(whole("Hello there")));
    let response = world
        .post("/v1/chat/completions", &chat("plain", false, "hi"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert!(header(&response, "throughline-operation").starts_with("op_"));
    let body = json(response).await;
    assert_eq!(
        (
            &body["object"],
            &body["choices"][0]["message"]["content"],
            &body["usage"]["total_tokens"]
        ),
        (&json!("chat.completion"), &json!("Hello there"), &json!(7))
    );

    world.provider.play(Play::Whole(whole("Hello again")));
    let response = world
        .post("/v1/messages", &messages("only-messages", false, "hi"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let body = json(response).await;
    assert_eq!(
        (&body["type"], &body["content"][0]["text"]),
        (&json!("message"), &json!("Hello again"))
    );
    assert_eq!(world.provider.calls()[1]["model"], "mapped", "the route's name goes upstream");
}

#[tokio::test]
async fn a_refusal_of_the_provider_is_an_http_error() {
    for is_stream in [true, false] {
        let world = World::new().await;
        let refusal = || UnifiedError {
            retry_after_ms: Some(1_500),
            ..UnifiedError::new(ErrorCategory::RateLimit, "provider", "slow down")
        };
        world.provider.play(Play::Refuse(Box::new(refusal())));
        let response = world
            .post("/v1/chat/completions", &chat("plain", is_stream, "hi"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 429);
        assert_eq!(
            (header(&response, "retry-after"), header(&response, "retry-after-ms")),
            ("2".to_owned(), "1500".to_owned())
        );
        assert!(header(&response, "throughline-operation").starts_with("op_"));
        assert!(response.headers().get("x-should-retry").is_none());
        assert_eq!(json(response).await["error"]["message"], "slow down");

        world.provider.play(Play::Refuse(Box::new(UnifiedError {
            retryable: false,
            ..UnifiedError::new(ErrorCategory::Quota, "provider", "pay first")
        })));
        let response = world
            .post("/v1/messages", &messages("plain", is_stream, "hi"))
            .send()
            .await
            .unwrap();
        assert!(response.status().is_client_error());
        let body = json(response).await;
        assert_eq!((&body["type"], &body["error"]["message"]), (&json!("error"), &json!("pay first")));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_in_the_middle_says_so() {
    let world = World::new().await;
    let (response, running, feed) = world.start().await;
    feed.send(Err(UnifiedError::new(
        ErrorCategory::Network,
        "connection-lost",
        "the connection broke",
    )))
    .unwrap();
    drop(feed);
    let frames = Frames::new(response).rest().await;
    assert!(frames.iter().any(|f| f.data.contains("\"error\"")), "{frames:?}");
    assert_ne!(frames.last().unwrap().data, "[DONE]");
    let operation = json(world.get(&running.path("")).send().await.unwrap()).await;
    assert_eq!(
        (&operation["state"], &operation["error"]["category"]),
        (&json!("failed"), &json!("interrupted"))
    );
    assert_eq!(operation["result"]["status"]["state"], "incomplete");
    assert!(operation.get("principalRef").is_none());
}

#[tokio::test]
async fn bad_requests_are_told_in_the_clients_shape() {
    let limits = HttpLimits {
        request_body: 2_000,
        ..Settings::default().limits
    };
    let world = World::with(Settings {
        limits,
        ..Settings::default()
    })
    .await;
    let long = "x".repeat(3_000);
    for (path, body, status) in [
        ("/v1/chat/completions", "{".to_owned(), 400),
        ("/v1/messages", "{\"messages\":3}".to_owned(), 400),
        ("/v1/chat/completions", chat("nobody", true, "hi").to_string(), 404),
        ("/v1/chat/completions", chat("only-messages", true, "hi").to_string(), 404),
        ("/v1/messages", messages("plain", true, &long).to_string(), 413),
        ("/v1/chat/completions", chat("plain", true, &long).to_string(), 413),
        ("/v1/nothing", "{}".to_owned(), 404),
    ] {
        let response = world
            .http
            .post(format!("{}{path}", world.url))
            .body(body.clone())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), status, "{path} {body:.80}");
        assert!(header(&response, "throughline-request").starts_with("req_"));
        let answer = json(response).await;
        assert!(answer["error"]["message"].is_string(), "{answer}");
        assert_eq!(answer.get("type").is_some(), path == "/v1/messages", "{answer}");
    }
    assert!(world.provider.calls().is_empty());

    // Without a length, the bound counts what arrives.
    let chunks = futures_util::stream::iter((0..10).map(|_| Ok::<_, std::io::Error>(Bytes::from("x".repeat(500)))));
    let response = world
        .http
        .post(format!("{}/v1/messages", world.url))
        .body(reqwest::Body::wrap_stream(chunks))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 413);

    for (name, value, status) in [
        ("throughline-require", "nonsense", 400),
        ("throughline-conversation", "not an id", 400),
        ("throughline-conversation", "conv_unknown", 404),
        // Not what it says, and nothing that is known here.
        ("content-encoding", "gzip", 400),
        ("content-encoding", "zstd", 400),
        ("content-encoding", "compress", 400),
    ] {
        let response = world
            .post("/v1/chat/completions", &chat("plain", true, "hi"))
            .header(name, value)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), status, "{name}: {value}");
    }
    assert_eq!(world.get("/v1/messages").send().await.unwrap().status(), 405);
}

#[tokio::test]
async fn a_client_that_comes_back_continues_its_conversation() {
    let world = World::new().await;
    world.provider.play(Play::Whole(whole("Hello there")));
    let first = world
        .post("/v1/chat/completions", &chat("plain", false, "hi"))
        .send()
        .await
        .unwrap();
    let conversation = header(&first, "throughline-conversation");
    let history = json!({"model": "plain", "max_tokens": 10, "messages": [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello there"}, {"role": "user", "content": "and now?"}]});
    world.provider.play(Play::Whole(whole("Now too")));
    let second = world.post("/v1/messages", &history).send().await.unwrap();
    assert_eq!(second.status(), 200);
    assert_eq!(header(&second, "throughline-conversation"), conversation);
    assert_eq!(world.provider.calls()[1]["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn models_are_listed_in_the_clients_shape() {
    let world = World::new().await;
    let list = json(world.get("/v1/models").send().await.unwrap()).await;
    assert_eq!(list["object"], "list");
    let names = |list: &serde_json::Value| {
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&list), ["plain"]);
    let list = json(
        world
            .get("/v1/models")
            .header("anthropic-version", "2023-06-01")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (names(&list), &list["has_more"], &list["last_id"]),
        (
            vec!["plain".to_owned(), "only-messages".to_owned()],
            &json!(false),
            &json!("only-messages")
        )
    );
    assert_eq!(
        json(world.get("/v1/models/any-thing").send().await.unwrap()).await["id"],
        "any-thing"
    );
    assert_eq!(world.get("/v1/models/nobody").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn compressed_bodies_are_opened_within_the_limit() {
    let limits = HttpLimits {
        request_body: 20_000,
        ..Settings::default().limits
    };
    let world = World::with(Settings {
        limits,
        ..Settings::default()
    })
    .await;
    let gzip = |text: &str| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let deflate = |text: &str| {
        let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 3).unwrap();
    let said = "as it was ".repeat(1_000);
    // A few hundred bytes that become far more than the limit.
    let bomb = "x".repeat(1 << 20);
    let short = chat("plain", false, &said).to_string();
    let long = chat("plain", false, &bomb).to_string();
    for (coding, small, large) in [
        ("gzip", gzip(&short), gzip(&long)),
        ("deflate", deflate(&short), deflate(&long)),
        ("zstd", zstd(&short), zstd(&long)),
        ("identity", short.clone().into_bytes(), long.clone().into_bytes()),
    ] {
        let send = |body: Vec<u8>| {
            let request = world.http.post(format!("{}/v1/chat/completions", world.url));
            request.header("content-encoding", coding).body(body).send()
        };
        world.provider.play(Play::Whole(whole("fine")));
        assert_eq!(send(small).await.unwrap().status(), 200, "{coding}");
        let heard = world.provider.calls().pop().unwrap().to_string();
        assert!(heard.contains(&said), "{coding}: {heard:.200}");
        assert_eq!(send(large).await.unwrap().status(), 413, "{coding}");
    }
}

#[tokio::test]
async fn an_agent_that_asks_again_is_known_by_its_session() {
    let world = World::new().await;
    let ask = async |session: &str, retry: &str, play: Play| {
        world.provider.play(play);
        let request = world.post("/v1/messages", &messages("any-model", false, "hi"));
        let request = request.header("user-agent", "claude-cli/2.1.332 (external, cli)");
        let request = request
            .header("x-claude-code-session-id", session)
            .header("x-stainless-retry-count", retry);
        header(&request.send().await.unwrap(), "throughline-conversation")
    };
    let refusal = || Play::Refuse(Box::new(UnifiedError::new(ErrorCategory::Server, "provider", "no")));
    let first = ask("s-1", "0", refusal()).await;
    assert_ne!(ask("s-2", "0", refusal()).await, first, "another session");
    assert_eq!(ask("s-1", "0", Play::Whole(whole("1"))).await, first, "asked in vain before");
    assert_eq!(ask("s-1", "1", Play::Whole(whole("2"))).await, first, "the answer did not reach it");
    assert_ne!(ask("s-1", "0", Play::Whole(whole("3"))).await, first, "the same question anew");
}

/// The head says more than what comes; the status is one that every client knows, the body has the shape of the path.
#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let limits = HttpLimits {
        request_idle: std::time::Duration::from_millis(100),
        ..Settings::default().limits
    };
    let world = World::with(Settings {
        limits,
        ..Settings::default()
    })
    .await;
    for (path, shape) in [
        ("/v1/messages", r#""type":"invalid_request_error""#),
        ("/v1/chat/completions", r#""type":"invalid_request_error""#),
        ("/unified/v2/conversations", r#""code":"invalid-request.slow-body""#),
    ] {
        // Silent at once, and with a byte every now and then.
        for drip in [false, true] {
            let mut socket = tokio::net::TcpStream::connect(&world.url["http://".len()..]).await.unwrap();
            let head = format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{{");
            socket.write_all(head.as_bytes()).await.unwrap();
            let (mut reader, mut writer) = socket.into_split();
            let dripping = tokio::spawn(async move {
                while drip && writer.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(std::time::Duration::from_millis(40)).await;
                }
                writer
            });
            let mut answer = vec![0; 4096];
            let read = tokio::time::timeout(std::time::Duration::from_secs(10), reader.read(&mut answer)).await;
            let answer = String::from_utf8_lossy(&answer[..read.unwrap().unwrap()]).into_owned();
            dripping.abort();
            assert!(
                answer.starts_with("HTTP/1.1 408 ") && answer.contains(shape),
                "{path} {drip}: {answer}"
            );
        }
    }
}
