//! Clients of Google's protocols over a provider of another one: URLs, containers of streams, lists, errors.

use crate::support::{Play, World, delta, done, json, whole};
use serde_json::{Value, json};

fn ask() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]})
}

#[tokio::test]
async fn the_url_names_the_model_and_chooses_the_stream() {
    let world = World::new().await;
    for root in ["/v1beta", "/v1"] {
        world.provider.play(Play::Whole(whole("hi")));
        let answer = world
            .post(&format!("{root}/models/any-model:generateContent"), &ask())
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        let answer = json(answer).await;
        assert_eq!(
            answer["candidates"][0]["content"],
            json!({"role": "model", "parts": [{"text": "hi"}]})
        );

        for (query, is_events) in [("?alt=sse", true), ("", false)] {
            world.provider.play(Play::Stream(vec![delta("one "), delta("two"), done()]));
            let path = format!("{root}/models/any-model:streamGenerateContent{query}");
            let answer = world.post(&path, &ask()).send().await.unwrap();
            let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
            let text = answer.text().await.unwrap();
            let chunks: Vec<Value> = if is_events {
                assert!(kind.starts_with("text/event-stream"), "{kind}");
                text.split("\n\n")
                    .filter_map(|frame| frame.strip_prefix("data: "))
                    .map(|data| serde_json::from_str(data).unwrap())
                    .collect()
            } else {
                assert_eq!(kind, "application/json");
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("one array: {text}"))
            };
            let said: String = chunks
                .iter()
                .filter_map(|chunk| chunk["candidates"][0]["content"]["parts"][0]["text"].as_str())
                .collect();
            assert_eq!(said, "one two");
            assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], "STOP");
        }
    }
    let calls = world.provider.calls();
    assert_eq!(calls.len(), 6);
    assert!(calls.iter().all(|call| call["model"] == "any-model"), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call["stream"] == true).count(), 4);
}

#[tokio::test]
async fn lists_and_errors_have_the_shape_of_whoever_asks() {
    let world = World::new().await;
    let google = json!([{"name": "models/plain", "displayName": "plain",
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent"]}]);
    for (path, header) in [
        ("/v1beta/models", None),
        ("/v1/models?key=k", None),
        ("/v1/models", Some("x-goog-api-key")),
    ] {
        let mut request = world.get(path);
        if let Some(name) = header {
            request = request.header(name, "k");
        }
        assert_eq!(json(request.send().await.unwrap()).await["models"], google, "{path}");
    }
    assert_eq!(json(world.get("/v1/models").send().await.unwrap()).await["object"], "list");
    assert_eq!(
        json(world.get("/v1beta/models/any-x").send().await.unwrap()).await["name"],
        "models/any-x"
    );
    for (path, status, word) in [
        ("/v1beta/models/nobody:generateContent", 404, "NOT_FOUND"),
        ("/v1/models/nobody:streamGenerateContent", 404, "NOT_FOUND"),
        ("/v1beta/models/plain:embedContent", 404, "NOT_FOUND"),
        ("/v1beta/models/plain:countTokens", 501, "UNIMPLEMENTED"),
        ("/v1beta/files", 404, "NOT_FOUND"),
    ] {
        let answer = world.post(path, &ask()).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        let mut answer = json(answer).await;
        if path.contains(":stream") {
            // Whoever reads an array gets an array.
            answer = answer[0].take();
        }
        let error = answer["error"].clone();
        assert_eq!(
            (error["status"].as_str(), error["code"].as_u64()),
            (Some(word), Some(status.into())),
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_interaction_is_read_again_by_its_id() {
    let world = World::new().await;
    for root in ["/v1beta/interactions", "/v1/interactions"] {
        world.provider.play(Play::Whole(whole("hi")));
        let made = json(world.post(root, &json!({"model": "plain", "input": "hello"})).send().await.unwrap()).await;
        let id = made["id"].as_str().unwrap();
        let again = json(world.get(&format!("{root}/{id}")).send().await.unwrap()).await;
        assert_eq!((&again["status"], &again["steps"]), (&json!("completed"), &made["steps"]));
        let events = world
            .get(&format!("{root}/{id}?stream=true&last_event_id=2"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert!(
            events.contains("\"event_id\":\"3\"") && !events.contains("\"event_id\":\"2\""),
            "{events}"
        );
        let gone = world.get(&format!("{root}/op_none")).send().await.unwrap();
        assert_eq!(
            (gone.status().as_u16(), json(gone).await["error"]["code"].clone()),
            (404, json!("not_found"))
        );
    }
}

/// The status and the body of an answer.
async fn read(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_deleted_interaction_is_gone_and_its_followers_stay() {
    let world = World::new().await;
    let root = "/v1beta/interactions";
    let turn = async |input: &str, from: Option<&str>| {
        world.provider.play(Play::Whole(whole(&format!("answer to {input}"))));
        let mut body = json!({"model": "plain", "input": input});
        if let Some(from) = from {
            body["previous_interaction_id"] = json!(from);
        }
        let answer = world.post(root, &body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let conversation = crate::support::header(&answer, "throughline-conversation");
        (json(answer).await["id"].as_str().unwrap().to_owned(), conversation)
    };
    let delete = async |path: &str| read(world.http.delete(format!("{}{path}", world.url))).await;
    let (one, conversation) = turn("first", None).await;
    let (two, same) = turn("second", Some(&one)).await;
    assert_eq!(conversation, same);

    assert_eq!(delete(&format!("{root}/{one}")).await, (200, json!({})));
    // Nobody finds it, on any path, and nothing goes on from it.
    for path in [
        format!("{root}/{one}"),
        format!("{root}/{one}?stream=true"),
        format!("/v1/interactions/{one}"),
        format!("/unified/v2/operations/{one}"),
        format!("/unified/v2/operations/{one}/events"),
        format!("/unified/v2/operations/{one}/loss"),
    ] {
        assert_eq!(world.get(&path).send().await.unwrap().status(), 404, "{path}");
    }
    let (status, error) = delete(&format!("{root}/{one}")).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("not_found")));
    assert_eq!(read(world.post(&format!("{root}/{one}/cancel"), &json!({}))).await.0, 404);
    let goes_on = json!({"model": "plain", "input": "third", "previous_interaction_id": one});
    assert_eq!(read(world.post(root, &goes_on)).await.0, 404);
    let listed = read(world.get(&format!("/unified/v2/operations?conversation={conversation}")))
        .await
        .1;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);

    // What stands on it is whole, and goes on.
    let (status, kept) = read(world.get(&format!("{root}/{two}"))).await;
    assert_eq!((status, &kept["status"]), (200, &json!("completed")));
    let (three, _) = turn("third", Some(&two)).await;
    let texts = world.provider.calls().last().unwrap()["messages"].as_array().unwrap().len();
    assert_eq!(texts, 5, "the history of the deleted one is still told");

    // The conversation that only they made goes with the last of them.
    assert_eq!(read(world.get(&format!("/unified/v2/conversations/{conversation}"))).await.0, 200);
    assert_eq!(delete(&format!("/unified/v2/operations/{two}")).await, (204, Value::Null));
    assert_eq!(read(world.get(&format!("/unified/v2/conversations/{conversation}"))).await.0, 200);
    assert_eq!(delete(&format!("{root}/{three}")).await, (200, json!({})));
    assert_eq!(read(world.get(&format!("/unified/v2/conversations/{conversation}"))).await.0, 404);
}

#[tokio::test]
async fn a_conversation_with_other_history_outlives_its_interactions() {
    let world = World::new().await;
    let begun = json!({"items": [crate::support::user_item("mine-1", "by hand")]});
    let conversation = read(world.post("/unified/v2/conversations", &begun)).await.1["conversationId"]
        .as_str()
        .unwrap()
        .to_owned();
    world.provider.play(Play::Whole(whole("hi")));
    let request = world
        .post("/v1beta/interactions", &json!({"model": "plain", "input": "hello"}))
        .header("throughline-conversation", &conversation);
    let (status, made) = read(request).await;
    assert_eq!(status, 200, "{made}");
    let path = format!("{}/v1beta/interactions/{}", world.url, made["id"].as_str().unwrap());
    assert_eq!(read(world.http.delete(path)).await.0, 200);
    let (status, items) = read(world.get(&format!("/unified/v2/conversations/{conversation}/items"))).await;
    assert_eq!((status, items["data"].as_array().unwrap().len()), (200, 3));
}

#[tokio::test]
async fn a_running_interaction_is_cancelled_before_it_is_deleted() {
    let world = World::new().await;
    let feed = world.provider.live();
    feed.send(Ok(bytes::Bytes::from(delta("one ")))).unwrap();
    let body = json!({"model": "plain", "input": "hello", "stream": true});
    let running = world.post("/v1beta/interactions", &body).send().await.unwrap();
    let path = format!("/v1beta/interactions/{}", crate::support::header(&running, "throughline-operation"));
    assert_eq!(read(world.get(&path)).await.1["status"], "in_progress");
    let delete = async || read(world.http.delete(format!("{}{path}", world.url))).await;
    let (status, error) = delete().await;
    assert_eq!((status, &error["error"]["code"]), (409, &json!("aborted")), "{error}");
    let (_, kept) = read(world.get(&path)).await;
    assert_eq!(kept["status"], "in_progress", "what is refused stops nothing");
    let (status, cancelled) = read(world.post(&format!("{path}/cancel"), &json!({}))).await;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")));
    assert_eq!(delete().await.0, 200);
    assert_eq!(read(world.get(&path)).await.0, 404);
}
