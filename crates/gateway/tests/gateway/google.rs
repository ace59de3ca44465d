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
        let error = json(answer).await["error"].clone();
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
        let kept = world.http.delete(format!("{}{root}/{id}", world.url)).send().await.unwrap();
        assert_eq!(kept.status(), 400);
        assert_eq!(json(kept).await["error"]["code"], "invalid_argument");
        let gone = world.get(&format!("{root}/op_none")).send().await.unwrap();
        assert_eq!(
            (gone.status().as_u16(), json(gone).await["error"]["code"].clone()),
            (404, json!("not_found"))
        );
    }
}
