//! Operations of the native API: begun, polled, listed, cancelled, and what each lost.

use crate::support::{Frames, Play, Settings, World, chat, delta, done, header, json, messages, unified, whole};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use throughline_engine::EngineLimits;
use throughline_gateway::auth::ClientKeys;

const OPERATIONS: &str = "/unified/v2/operations";

fn answer(text: &str) -> Play {
    Play::Stream(vec![delta(text), done()])
}

/// Asks until the operation is in a state.
async fn poll(world: &World, id: &str, state: &str) -> Value {
    for _ in 0..500 {
        let operation = json(world.get(&format!("{OPERATIONS}/{id}")).send().await.unwrap()).await;
        if operation["state"] == state {
            return operation;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} did not become {state}");
}

fn id(operation: &Value) -> String {
    operation["operationId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_background_operation_is_accepted_and_goes_on_without_its_client() {
    let world = World::new().await;
    let feed = world.provider.live();
    feed.send(Ok(Bytes::from(delta("one ")))).unwrap();
    let body = json!({"request": unified("plain", "hello"), "background": true});
    let response = world.post(OPERATIONS, &body).send().await.unwrap();
    assert_eq!(response.status(), 202);
    let operation_header = header(&response, "throughline-operation");
    assert!(!header(&response, "throughline-cursor").is_empty());
    let operation = json(response).await;
    assert_eq!(operation["operationId"], operation_header.as_str());
    assert_eq!(operation["state"], "running");
    assert!(operation.get("principalRef").is_none() && operation.get("result").is_none());

    feed.send(Ok(Bytes::from(delta("two")))).unwrap();
    feed.send(Ok(Bytes::from(done()))).unwrap();
    let operation = poll(&world, &id(&operation), "completed").await;
    assert_eq!(operation["result"]["output"][0]["parts"][0]["text"], "one two");
    assert_eq!(operation["result"]["status"]["finishReason"], "stop");
    assert!(operation["endedAt"].is_string() && operation["cursor"].is_string());
    assert_eq!(world.provider.calls()[0]["messages"][0]["content"], "hello");

    let created = json(
        world
            .get(&format!("{OPERATIONS}/{}/events?limit=1", id(&operation)))
            .header("accept", "application/json")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(created["data"][0]["background"], true);
}

#[tokio::test]
async fn a_streamed_operation_gives_its_events_with_cursors() {
    let world = World::new().await;
    world.provider.play(answer("hello"));
    let body = json!({"request": unified("plain", "hi"), "stream": true});
    let response = world.post(OPERATIONS, &body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let operation = header(&response, "throughline-operation");
    let frames = Frames::new(response).rest().await;
    assert_eq!(frames.first().unwrap().event.as_deref(), Some("operation.created"));
    assert_eq!(frames.last().unwrap().event.as_deref(), Some("stream.completed"));
    let again = Frames::new(world.get(&format!("{OPERATIONS}/{operation}/events")).send().await.unwrap());
    let data = |frames: &[crate::support::Frame]| frames.iter().map(|f| f.data.clone()).collect::<Vec<_>>();
    assert_eq!(data(&again.rest().await), data(&frames));
}

#[tokio::test]
async fn a_client_may_wait_for_the_end() {
    let world = World::new().await;
    world.provider.play(answer("done"));
    let body = json!({"request": unified("plain", "hi")});
    let response = world.post(OPERATIONS, &body).header("prefer", "wait=10").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), header(&response, "preference-applied")),
        (200, "wait".to_owned())
    );
    assert_eq!(json(response).await["state"], "completed");

    let feed = world.provider.live();
    let response = world.post(OPERATIONS, &body).header("prefer", "wait=0").send().await.unwrap();
    assert_eq!(response.status(), 202, "what takes longer is told as it stands");
    assert_eq!(json(response).await["state"], "running");
    drop(feed);
}

#[tokio::test]
async fn the_next_turn_of_a_conversation_sends_the_whole_history() {
    let world = World::new().await;
    world.provider.play(answer("first"));
    let body = json!({"request": unified("plain", "one")});
    let first = json(world.post(OPERATIONS, &body).header("prefer", "wait=10").send().await.unwrap()).await;
    world.provider.play(answer("second"));
    let body = json!({"conversationId": first["conversationId"], "request": unified("plain", "two")});
    let second = json(world.post(OPERATIONS, &body).header("prefer", "wait=10").send().await.unwrap()).await;
    assert_eq!(second["conversationId"], first["conversationId"]);
    assert_eq!(second["sourceBranchId"], first["sourceBranchId"]);
    let sent: Vec<String> = world.provider.calls()[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sent, ["one", "first", "two"]);
}

#[tokio::test]
async fn bad_bodies_are_refused_with_their_place() {
    let world = World::new().await;
    let mut unnamed = unified("plain", "x");
    unnamed["model"]["requested"] = json!("");
    let mut wrong = unified("plain", "x");
    wrong["conversation"]["items"][0]["kind"] = json!("poem");
    for (name, body, status, code, path) in [
        ("no request", json!({}), 400, "invalid-request.missing-field", ""),
        (
            "unknown member",
            json!({"request": unified("plain", "x"), "colour": 1}),
            400,
            "invalid-request.unknown-field",
            "",
        ),
        (
            "no model",
            json!({"request": unnamed}),
            400,
            "invalid-request.validation",
            "/request/model/requested",
        ),
        (
            "unknown kind",
            json!({"request": wrong}),
            400,
            "invalid-request.unknown-discriminator",
            "/request/conversation/items/0",
        ),
        ("no route", json!({"request": unified("nobody", "x")}), 404, "not-found.model", ""),
        (
            "past",
            json!({"request": unified("plain", "x"), "deadline": "2020-01-01T00:00:00.000Z"}),
            400,
            "invalid-request.invalid-value",
            "/deadline",
        ),
        (
            "not there",
            json!({"request": unified("plain", "x"), "conversationId": "conv_none"}),
            404,
            "not-found.resource",
            "",
        ),
    ] {
        let response = world.post(OPERATIONS, &body).send().await.unwrap();
        assert_eq!(response.status(), status, "{name}");
        let error = json(response).await["error"].clone();
        assert_eq!(error["code"], code, "{name}: {error}");
        assert!(error["fieldPath"].as_str().unwrap_or_default().starts_with(path), "{name}: {error}");
    }
    assert!(world.provider.calls().is_empty());
    let listed = json(world.get(OPERATIONS).send().await.unwrap()).await;
    assert_eq!(listed, json!({"data": [], "hasMore": false}));
}

#[tokio::test]
async fn the_same_key_and_request_is_the_same_operation() {
    let world = World::new().await;
    let body = json!({"request": unified("plain", "hello"), "background": true});
    let begin = async |body: &Value, key: &str| {
        let response = world.post(OPERATIONS, body).header("idempotency-key", key).send().await.unwrap();
        (response.status().as_u16(), json(response).await)
    };
    world.provider.play(answer("once"));
    let (status, first) = begin(&body, "k1").await;
    assert_eq!(status, 202);
    poll(&world, &id(&first), "completed").await;
    let (status, again) = begin(&body, "k1").await;
    assert_eq!((status, id(&again)), (202, id(&first)), "a finished one is told as it stands");
    assert_eq!(again["result"]["output"][0]["parts"][0]["text"], "once");

    let other = json!({"request": unified("plain", "something else"), "background": true});
    let (status, refused) = begin(&other, "k1").await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("conflict.idempotency")));
    for key in ["", &"x".repeat(256)] {
        assert_eq!(begin(&body, key).await.0, 400);
    }
    world.provider.play(answer("twice"));
    let (_, second) = begin(&body, "k2").await;
    assert_ne!(id(&second), id(&first));
    poll(&world, &id(&second), "completed").await;
    assert_eq!(world.provider.calls().len(), 2, "nothing was sent again");
}

#[tokio::test]
async fn client_protocols_take_the_key_too() {
    let world = World::new().await;
    world.provider.play(Play::Whole(whole("once")));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let response = world
            .post("/v1/messages", &messages("plain", false, "hello"))
            .header("idempotency-key", "retry-1")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        ids.push(header(&response, "throughline-operation"));
        assert_eq!(json(response).await["content"][0]["text"], "once");
    }
    assert_eq!(ids[0], ids[1]);
    let response = world
        .post("/v1/messages", &messages("plain", false, "other"))
        .header("idempotency-key", "retry-1")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 409);
    assert_eq!(json(response).await["type"], "error", "in the client's own shape");
    assert_eq!(world.provider.calls().len(), 1);

    // Two at the same time: one of them begins, the other one joins.
    let feed = world.provider.live();
    let one = || {
        world
            .post("/v1/chat/completions", &chat("plain", true, "hi"))
            .header("idempotency-key", "race")
            .send()
    };
    let (a, b) = tokio::join!(one(), async {
        feed.send(Ok(Bytes::from(delta("both")))).unwrap();
        one().await
    });
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(header(&a, "throughline-operation"), header(&b, "throughline-operation"));
    feed.send(Ok(Bytes::from(done()))).unwrap();
    let (a, b) = (Frames::new(a).rest().await, Frames::new(b).rest().await);
    assert_eq!(crate::support::chat_text(&a), "both");
    assert_eq!(crate::support::chat_text(&b), "both");
}

#[tokio::test]
async fn beyond_the_bound_the_background_waits_and_the_foreground_is_refused() {
    let world = World::with(Settings {
        engine: EngineLimits {
            concurrent_operations: 1,
            queued_operations: 1,
            ..EngineLimits::default()
        },
        ..Settings::default()
    })
    .await;
    let feed = world.provider.live();
    let (running, queued) = (
        json!({"request": unified("plain", "a")}),
        json!({"request": unified("plain", "b"), "background": true}),
    );
    let first = json(world.post(OPERATIONS, &running).send().await.unwrap()).await;
    let refused = world.post(OPERATIONS, &running).send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(json(refused).await["error"]["code"], "limit.concurrency");
    let waiting = world.post(OPERATIONS, &queued).send().await.unwrap();
    assert_eq!(waiting.status(), 202);
    let waiting = json(waiting).await;
    assert_eq!(waiting["state"], "queued");
    assert!(waiting.get("startedAt").is_none());
    assert_eq!(
        world.post(OPERATIONS, &queued).send().await.unwrap().status(),
        503,
        "one beyond the queue"
    );
    let listed = json(world.get(&format!("{OPERATIONS}?state=queued,running")).send().await.unwrap()).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    assert_eq!(world.provider.calls().len(), 1, "what waits was not sent");

    world.provider.play(answer("second"));
    feed.send(Ok(Bytes::from(done()))).unwrap();
    drop(feed);
    poll(&world, &id(&first), "completed").await;
    let ended = poll(&world, &id(&waiting), "completed").await;
    assert!(ended["startedAt"].is_string());
    let page = json(
        world
            .get(&format!("{OPERATIONS}/{}/events?limit=3", id(&waiting)))
            .header("accept", "application/json")
            .send()
            .await
            .unwrap(),
    )
    .await;
    let kinds: Vec<&str> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["operation.created", "operation.queued", "operation.running"]);
}

#[tokio::test]
async fn cancelling_is_idempotent_and_reaches_what_waits() {
    let world = World::with(Settings {
        engine: EngineLimits {
            concurrent_operations: 1,
            ..EngineLimits::default()
        },
        ..Settings::default()
    })
    .await;
    let feed = world.provider.live();
    let body = json!({"request": unified("plain", "a"), "background": true});
    let running = json(world.post(OPERATIONS, &body).send().await.unwrap()).await;
    let waiting = json(world.post(OPERATIONS, &body).send().await.unwrap()).await;
    for operation in [&waiting, &running] {
        let path = format!("{OPERATIONS}/{}/cancel", id(operation));
        let first = world.post(&path, &json!({"reason": "changed my mind"})).send().await.unwrap();
        assert_eq!(first.status(), 202);
        assert!(json(first).await["cancelRequestedAt"].is_string());
        let mut ended = poll(&world, &id(operation), "cancelled").await;
        assert_eq!(ended["result"]["status"]["finishReason"], "cancelled");
        let again = world.post(&path, &json!({})).send().await.unwrap();
        assert_eq!(again.status(), 200, "finished already");
        let mut again = json(again).await;
        // A cursor is made anew for each answer.
        again["cursor"].take();
        ended["cursor"].take();
        assert_eq!(again, ended, "unchanged");
    }
    feed.closed().await;
    assert_eq!(world.provider.calls().len(), 1, "what waited was never sent");
}

#[tokio::test]
async fn a_deadline_ends_the_operation_and_its_upstream() {
    let world = World::new().await;
    let feed = world.provider.live();
    feed.send(Ok(Bytes::from(delta("half")))).unwrap();
    let now = throughline_engine::ports::Clock::now(&throughline_gateway::system::SystemClock);
    let body = json!({"request": unified("plain", "a"), "background": true, "deadline": now.plus_millis(300)});
    let begun = json(world.post(OPERATIONS, &body).send().await.unwrap()).await;
    assert_eq!(begun["deadline"], json!(now.plus_millis(300)));
    let ended = poll(&world, &id(&begun), "expired").await;
    feed.closed().await;
    assert_eq!(ended["error"]["code"], "timeout.deadline");
    assert_eq!(ended["result"]["output"][0]["parts"][0]["text"], "half", "what came is kept");
    assert_eq!(ended["result"]["output"][1]["cause"], "deadline");
}

#[tokio::test]
async fn lists_have_filters_and_pages() {
    let world = World::new().await;
    let mut begun = Vec::new();
    for text in ["a", "b", "c"] {
        world.provider.play(answer(text));
        let body = json!({"request": unified("plain", text)});
        begun.push(json(world.post(OPERATIONS, &body).header("prefer", "wait=10").send().await.unwrap()).await);
    }
    let list = async |query: &str| json(world.get(&format!("{OPERATIONS}?{query}")).send().await.unwrap()).await;
    let ids = |page: &Value| page["data"].as_array().unwrap().iter().map(id).collect::<Vec<_>>();
    let all: Vec<String> = begun.iter().map(id).collect();
    assert_eq!(ids(&list("").await), all);
    let page = list("limit=2").await;
    assert_eq!(
        (ids(&page), &page["hasMore"], &page["next"]),
        (all[..2].to_vec(), &json!(true), &json!(all[1]))
    );
    let page = list(&format!("limit=2&after={}", all[1])).await;
    assert_eq!(
        (ids(&page), &page["hasMore"], page.get("next")),
        (all[2..].to_vec(), &json!(false), None)
    );
    let conversation = begun[1]["conversationId"].as_str().unwrap();
    assert_eq!(ids(&list(&format!("conversation={conversation}")).await), all[1..2]);
    assert_eq!(ids(&list("state=completed").await), all);
    assert!(ids(&list("state=running").await).is_empty());
    assert_eq!(page["data"][0]["result"]["output"][0]["parts"][0]["text"], "c");
    for (query, status) in [("state=asleep", 400), ("limit=0", 400), ("limit=201", 400), ("after=op_none", 404)] {
        let response = world.get(&format!("{OPERATIONS}?{query}")).send().await.unwrap();
        assert_eq!(response.status(), status, "{query}");
    }
}

#[tokio::test]
async fn the_losses_of_an_operation_are_kept() {
    let world = World::new().await;
    world.provider.play(answer("hello"));
    let mut body = messages("plain", true, "hello");
    body["top_k"] = json!(5);
    let response = world.post("/v1/messages", &body).send().await.unwrap();
    let operation = header(&response, "throughline-operation");
    Frames::new(response).rest().await;
    let loss = json(world.get(&format!("{OPERATIONS}/{operation}/loss")).send().await.unwrap()).await;
    assert_eq!(loss["operationId"], operation.as_str());
    let ends = |report: &str| (loss[report]["from"].clone(), loss[report]["to"].clone());
    assert_eq!(ends("decodeLoss"), (json!("anthropic-messages"), json!("unified")));
    assert_eq!(ends("projectionLoss"), (json!("unified"), json!("openai-chat")));
    assert_eq!(ends("resultLoss"), (json!("openai-chat"), json!("anthropic-messages")));
    assert_eq!(loss["decodeLoss"]["disposition"], "lossless");
    assert_eq!(loss["projectionLoss"]["disposition"], "degraded");
    assert_eq!(loss["projectionLoss"]["entries"][0]["feature"], "generation.top_k");
    assert!(loss["resultLoss"]["entries"].is_array());
}

#[tokio::test]
async fn another_principal_sees_nothing_of_it() {
    let (mut keys, now) = (ClientKeys::default(), throughline_format::Timestamp::EPOCH);
    let mine = keys.create("mine", now).unwrap().key.to_string();
    let yours = keys.create("yours", now).unwrap().key.to_string();
    let world = World::with(Settings {
        required: true,
        keys,
        ..Settings::default()
    })
    .await;
    let feed = world.provider.live();
    let body = json!({"request": unified("plain", "secret plan"), "background": true});
    let begun = world
        .post(OPERATIONS, &body)
        .bearer_auth(&mine)
        .header("idempotency-key", "k")
        .send()
        .await
        .unwrap();
    assert_eq!(begun.status(), 202);
    let begun = json(begun).await;
    let (operation, conversation) = (id(&begun), begun["conversationId"].as_str().unwrap().to_owned());
    let path = |rest: &str| format!("{OPERATIONS}/{operation}{rest}");
    for (method, path, body) in [
        ("GET", path(""), None),
        ("GET", path("/events"), None),
        ("GET", path("/loss"), None),
        ("POST", path("/cancel"), Some(json!({}))),
        ("GET", format!("{OPERATIONS}?after={operation}"), None),
        (
            "POST",
            OPERATIONS.to_owned(),
            Some(json!({"conversationId": conversation, "request": unified("plain", "x")})),
        ),
    ] {
        let ask = |key: Option<&str>| {
            let request = match &body {
                Some(body) => world.post(&path, body),
                None => world.get(&path),
            };
            key.map_or(request.try_clone().unwrap(), |key| request.bearer_auth(key)).send()
        };
        assert_eq!(ask(None).await.unwrap().status(), 401, "{method} {path}");
        let foreign = ask(Some(&yours)).await.unwrap();
        assert_eq!(foreign.status(), 404, "{method} {path}");
        assert!(!foreign.text().await.unwrap().contains("secret"), "{method} {path}");
    }
    let listed = json(world.get(OPERATIONS).bearer_auth(&yours).send().await.unwrap()).await;
    assert_eq!(listed["data"], json!([]));
    // The same key of another principal is another key.
    world.provider.play(answer("yours"));
    let other = world
        .post(OPERATIONS, &body)
        .bearer_auth(&yours)
        .header("idempotency-key", "k")
        .send()
        .await
        .unwrap();
    assert_eq!(other.status(), 202);
    assert_ne!(id(&json(other).await), operation);
    let listed = json(world.get(OPERATIONS).bearer_auth(&mine).send().await.unwrap()).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    drop(feed);
}
