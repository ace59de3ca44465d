//! The native API: resume, several subscribers, pages, cursors, cancel.

use crate::support::{Frame, Frames, Settings, World, chat, delta, done, header, json, parse};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use throughline_gateway::auth::ClientKeys;
use throughline_gateway::http::{HttpLimits, Phase};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

fn sequences(frames: &[Frame]) -> Vec<u64> {
    frames
        .iter()
        .filter(|f| f.id.is_some())
        .map(|f| serde_json::from_str::<Value>(&f.data).unwrap()["sequence"].as_u64().unwrap())
        .collect()
}

fn text(frames: &[Frame]) -> String {
    frames
        .iter()
        .filter(|f| f.event.as_deref() == Some("text.delta"))
        .map(|f| serde_json::from_str::<Value>(&f.data).unwrap()["text"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_dropped_connection_is_resumed_and_a_second_subscriber_sees_the_same() {
    throughline_format::clause!("LIVE-01", "LIVE-04");
    let world = World::new().await;
    let (response, running, feed) = world.start().await;
    drop(response);
    feed.send(Ok(Bytes::from(delta("two ")))).unwrap();

    let mut first = Frames::new(
        world
            .get(&format!("{}?cursor={}", running.path("/events"), running.cursor))
            .send()
            .await
            .unwrap(),
    );
    let mut seen = Vec::new();
    while text(&seen) != "one two " {
        seen.push(first.next().await.unwrap().unwrap());
    }
    let last = seen.last().unwrap().id.clone().unwrap();
    drop(first);

    let second = Frames::new(world.get(&running.path("/events")).send().await.unwrap());
    let resumed = Frames::new(
        world
            .get(&running.path("/events"))
            .header("last-event-id", &last)
            .send()
            .await
            .unwrap(),
    );
    feed.send(Ok(Bytes::from(delta("three")))).unwrap();
    feed.send(Ok(Bytes::from(done()))).unwrap();
    drop(feed);
    seen.extend(resumed.rest().await);
    let all = second.rest().await;
    assert_eq!(text(&seen), "one two three");
    assert_eq!(sequences(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        all.iter().map(|f| (&f.event, &f.data)).collect::<Vec<_>>(),
        seen.iter().map(|f| (&f.event, &f.data)).collect::<Vec<_>>()
    );
    assert_eq!(all.last().unwrap().event.as_deref(), Some("stream.completed"));

    // The same bytes as a page, and after a number.
    let page: Value = json(
        world
            .get(&format!("{}?limit=200", running.path("/events")))
            .header("accept", "application/json")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (page["data"].as_array().unwrap().len(), &page["hasMore"]),
        (all.len(), &json!(false))
    );
    let short: Value = json(
        world
            .get(&format!("{}?limit=2&after=1", running.path("/events")))
            .header("accept", "application/json")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!((short["data"][0]["sequence"].as_u64(), &short["hasMore"]), (Some(2), &json!(true)));
    let rest = Frames::new(
        world
            .get(&format!("{}?cursor={}", running.path("/events"), short["cursor"].as_str().unwrap()))
            .send()
            .await
            .unwrap(),
    )
    .rest()
    .await;
    assert_eq!(sequences(&rest)[0], 4);

    let operation = json(world.get(&running.path("")).send().await.unwrap()).await;
    assert_eq!(
        (&operation["state"], &operation["result"]["status"]["finishReason"]),
        (&json!("completed"), &json!("stop"))
    );
    assert_eq!(operation["lastSequence"].as_u64(), Some(all.len() as u64));
}

#[tokio::test]
async fn frames_have_id_event_and_data_in_this_order() {
    let world = World::new().await;
    let (response, running, feed) = world.start().await;
    feed.send(Ok(Bytes::from(done()))).unwrap();
    drop(feed);
    drop(Frames::new(response).rest().await);
    let raw = world.get(&running.path("/events")).send().await.unwrap().text().await.unwrap();
    for frame in raw.trim_end().split("\n\n") {
        let lines: Vec<&str> = frame.split('\n').collect();
        assert_eq!(lines.len(), 3, "{frame}");
        assert!(lines[0].starts_with("id: ") && lines[1].starts_with("event: "), "{frame}");
        let event: Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(event["kind"], lines[1]["event: ".len()..]);
    }
    assert!(!raw.contains('\r') && raw.ends_with("\n\n"));
}

#[tokio::test]
async fn idle_streams_carry_comments() {
    let limits = HttpLimits {
        keep_alive: Duration::from_millis(50),
        ..Settings::default().limits
    };
    let world = World::with(Settings {
        limits,
        ..Settings::default()
    })
    .await;
    let (response, running, _feed) = world.start().await;
    let mut native = Frames::new(world.get(&running.path("/events")).send().await.unwrap());
    let mut client = Frames::new(response);
    for frames in [&mut native, &mut client] {
        while !frames.next().await.unwrap().unwrap().comment {}
    }
}

#[tokio::test]
async fn cancel_is_separate_from_leaving() {
    throughline_format::clause!("LIVE-04");
    let world = World::new().await;
    let (response, running, feed) = world.start().await;
    let cancelled = world
        .post(&running.path("/cancel"), &json!({"reason": "enough"}))
        .send()
        .await
        .unwrap();
    assert_eq!(cancelled.status(), 202);
    assert!(json(cancelled).await["cancelRequestedAt"].is_string());
    // The client's own stream ends too.
    let mut frames = Frames::new(response);
    while let Ok(Some(_)) = frames.next().await {}
    let events = Frames::new(world.get(&running.path("/events")).send().await.unwrap()).rest().await;
    assert!(events.iter().any(|f| f.event.as_deref() == Some("operation.cancelled")));
    assert!(feed.is_closed(), "the connection to the provider is closed");
    let again = world.post(&running.path("/cancel"), &json!({})).send().await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(json(again).await["state"], "cancelled");
    assert_eq!(
        world
            .http
            .post(format!("{}{}", world.url, running.path("/cancel")))
            .send()
            .await
            .unwrap()
            .status(),
        200,
        "a body is optional"
    );
    assert_eq!(
        world
            .post(&running.path("/cancel"), &json!({"why": 1}))
            .send()
            .await
            .unwrap()
            .status(),
        400
    );
}

#[tokio::test]
async fn cursors_are_checked() {
    throughline_format::clause!("LIVE-02");
    let world = World::new().await;
    let (_response, running, feed) = world.start().await;
    feed.send(Ok(Bytes::from(done()))).unwrap();
    let events = Frames::new(world.get(&running.path("/events")).send().await.unwrap()).rest().await;
    let cursor = events[2].id.clone().unwrap();
    let (_other_response, other, _other_feed) = world.start().await;

    let mut altered = cursor.clone();
    let replaced = if altered.ends_with('A') { "B" } else { "A" };
    altered.replace_range(altered.len() - 1.., replaced);
    let mut texts = Vec::new();
    for (path, bad) in [
        (running.path("/events"), altered.as_str()),
        (running.path("/events"), "nonsense"),
        (other.path("/events"), cursor.as_str()),
    ] {
        let response = world.get(&path).header("last-event-id", bad).send().await.unwrap();
        assert_eq!(response.status(), 400);
        let body = json(response).await;
        assert_eq!(body["error"]["code"], "invalid-request.cursor");
        assert!(body["error"]["requestId"].as_str().unwrap().starts_with("req_"));
        texts.push(body["error"]["message"].clone());
    }
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "one text for all causes");

    let ahead = world.get(&format!("{}?after=999", running.path("/events"))).send().await.unwrap();
    assert_eq!(ahead.status(), 409);
    let body = json(ahead).await;
    assert_eq!(body["error"]["code"], "conflict.cursor-ahead");
    let head = body["error"]["cursor"].as_str().unwrap();
    assert!(
        Frames::new(
            world
                .get(&format!("{}?cursor={head}", running.path("/events")))
                .send()
                .await
                .unwrap()
        )
        .rest()
        .await
        .is_empty()
    );
    assert_eq!(
        world
            .get(&format!("{}?after=x", running.path("/events")))
            .send()
            .await
            .unwrap()
            .status(),
        400
    );
    for path in [
        "/unified/v2/operations/op_unknown",
        "/unified/v2/operations/op_unknown/events",
        "/unified/v2/operations/%20/events",
        "/unified/v2/nothing",
    ] {
        let response = world.get(path).send().await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
        assert_eq!(json(response).await["error"]["category"], "not-found");
    }
}

#[tokio::test]
async fn another_principals_operation_does_not_exist() {
    throughline_format::clause!("LIVE-02");
    let mut keys = ClientKeys::default();
    let (mine, yours) = (
        keys.create("mine", throughline_format::Timestamp::EPOCH).unwrap(),
        keys.create("yours", throughline_format::Timestamp::EPOCH).unwrap(),
    );
    let world = World::with(Settings {
        required: true,
        keys,
        ..Settings::default()
    })
    .await;
    let feed = world.provider.live();
    feed.send(Ok(Bytes::from(delta("one")))).unwrap();
    let response = world
        .post("/v1/chat/completions", &chat("plain", true, "hi"))
        .bearer_auth(mine.key.as_str())
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let path = format!("/unified/v2/operations/{}", header(&response, "throughline-operation"));
    let cursor = header(&response, "throughline-cursor");
    for path in [path.clone(), format!("{path}/events"), format!("{path}/events?cursor={cursor}")] {
        assert_eq!(
            world.get(&path).bearer_auth(yours.key.as_str()).send().await.unwrap().status(),
            404,
            "{path}"
        );
    }
    assert_eq!(
        world
            .post(&format!("{path}/cancel"), &json!({}))
            .bearer_auth(yours.key.as_str())
            .send()
            .await
            .unwrap()
            .status(),
        404
    );
    assert_eq!(world.get(&path).bearer_auth(mine.key.as_str()).send().await.unwrap().status(), 200);
}

/// A reader with a small receive buffer that asks and then reads nothing. HTTP/1.0, so that the body comes as it is.
async fn slow_reader(world: &World, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(world.url["http://".len()..].parse().unwrap()).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_reader_that_takes_no_bytes_is_detached_with_a_cursor() {
    throughline_format::clause!("SEC-04");
    let limits = HttpLimits {
        subscriber_lag: Duration::from_millis(300),
        ..Settings::default().limits
    };
    let world = World::with(Settings {
        limits,
        ..Settings::default()
    })
    .await;
    let (response, running, feed) = world.start().await;
    drop(response);
    let mut slow = slow_reader(&world, &running.path("/events")).await;
    // More than channel and connection hold.
    for _ in 0..70 {
        feed.send(Ok(Bytes::from(delta(&"x".repeat(100_000))))).unwrap();
    }
    let (mut head, mut before) = (0, 1);
    while head != before {
        tokio::time::sleep(Duration::from_millis(700)).await;
        before = head;
        head = json(world.get(&running.path("")).send().await.unwrap()).await["lastSequence"]
            .as_u64()
            .unwrap();
    }
    let mut text = String::new();
    tokio::time::timeout(Duration::from_secs(10), slow.read_to_string(&mut text))
        .await
        .unwrap()
        .unwrap();
    let mut frames: Vec<Frame> = text.split_once("\r\n\r\n").unwrap().1.trim_end().split("\n\n").map(parse).collect();
    let last = frames.pop().unwrap();
    assert_eq!((last.event.as_deref(), &last.id), (Some("detached"), &None));
    let data: Value = serde_json::from_str(&last.data).unwrap();
    assert_eq!(data["reason"], "lag");
    let seen = *sequences(&frames).last().unwrap();
    assert!(seen < head);
    feed.send(Ok(Bytes::from(done()))).unwrap();
    let resume = format!("{}?cursor={}", running.path("/events"), data["cursor"].as_str().unwrap());
    let rest = Frames::new(world.get(&resume).send().await.unwrap()).rest().await;
    assert_eq!(sequences(&rest)[0], seen + 1, "nothing is lost or doubled");
    assert_eq!(rest.last().unwrap().event.as_deref(), Some("stream.completed"));
}

#[tokio::test]
async fn closing_detaches_subscribers_and_draining_takes_no_turn() {
    let world = World::new().await;
    let (_response, running, _feed) = world.start().await;
    let events = Frames::new(world.get(&running.path("/events")).send().await.unwrap());
    assert_eq!(world.get("/readyz").send().await.unwrap().status(), 200);
    world.app.enter(Phase::Draining);
    let ready = world.get("/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 503);
    assert_eq!(json(ready).await["status"], "draining");
    assert_eq!(world.get("/healthz").send().await.unwrap().status(), 200);
    let refused = world
        .post("/v1/messages", &crate::support::messages("plain", true, "hi"))
        .send()
        .await
        .unwrap();
    assert!(refused.status().is_server_error());
    world.app.enter(Phase::Closing);
    let last = events.rest().await.pop().unwrap();
    assert_eq!(last.event.as_deref(), Some("detached"));
    assert!(last.data.contains("\"shutdown\""));
    world.engine.shutdown().await;
}
