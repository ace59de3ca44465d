//! What an address says wrongly is an error in the shape of its path, on every path that reads an ID or a query.

use crate::support::World;
use serde_json::{Value, json};

/// A member that only this shape has.
fn has_shape(shape: &str, body: &Value) -> bool {
    match shape {
        "native" => body["error"]["requestId"].is_string() && body["error"]["code"].is_string(),
        "openai" => body["error"]["type"].is_string() && body["error"].get("param").is_some(),
        "google" => body["error"]["status"].is_string() && body["error"]["code"].is_u64(),
        "interactions" => body["error"]["code"].is_string() && body["error"].get("requestId").is_none(),
        "vercel" => body.is_object() && body.to_string().contains("error"),
        _ => false,
    }
}

#[tokio::test]
async fn an_error_of_the_address_has_the_shape_of_its_path() {
    let world = World::new().await;
    for (method, path, status, shape) in [
        // A segment that is no UTF-8.
        ("GET", "/unified/v2/conversations/%FF", 404, "native"),
        ("DELETE", "/unified/v2/conversations/%FF", 404, "native"),
        ("GET", "/unified/v2/conversations/%FF/branches", 404, "native"),
        ("POST", "/unified/v2/conversations/%FF/branches", 404, "native"),
        ("GET", "/unified/v2/conversations/%FF/items", 404, "native"),
        ("POST", "/unified/v2/conversations/%FF/items", 404, "native"),
        ("POST", "/unified/v2/conversations/%FF/compact", 404, "native"),
        ("GET", "/unified/v2/conversations/%FF/export", 404, "native"),
        ("GET", "/unified/v2/operations/%FF", 404, "native"),
        ("DELETE", "/unified/v2/operations/%FF", 404, "native"),
        ("GET", "/unified/v2/operations/%FF/events", 404, "native"),
        ("GET", "/unified/v2/operations/%FF/loss", 404, "native"),
        ("POST", "/unified/v2/operations/%FF/cancel", 404, "native"),
        ("POST", "/unified/v2/operations/%FF/approvals", 404, "native"),
        ("GET", "/v1/models/%FF", 404, "openai"),
        ("GET", "/v1/models/%FF?key=k", 404, "google"),
        ("GET", "/v1beta/models/%FF", 404, "google"),
        ("POST", "/v1beta/models/%FF:generateContent", 404, "google"),
        ("GET", "/v1beta/interactions/%FF", 404, "interactions"),
        ("GET", "/v1/interactions/%FF", 404, "interactions"),
        ("DELETE", "/v1/interactions/%FF", 404, "interactions"),
        ("POST", "/v1beta/interactions/%FF/cancel", 404, "interactions"),
        ("GET", "/vercel/chat/%FF/stream", 404, "vercel"),
        // A parameter twice.
        ("GET", "/unified/v2/conversations?limit=1&limit=2", 400, "native"),
        ("GET", "/unified/v2/conversations/conv_1/items?order=asc&order=asc", 400, "native"),
        (
            "GET",
            "/unified/v2/conversations/conv_1/export?artifacts=true&artifacts=true",
            400,
            "native",
        ),
        ("POST", "/unified/v2/import?keepIds=true&keepIds=true", 400, "native"),
        ("GET", "/unified/v2/operations?state=running&state=failed", 400, "native"),
        ("GET", "/unified/v2/operations/op_1/events?after=1&after=2", 400, "native"),
        ("GET", "/v1beta/interactions/op_1?stream=true&stream=true", 400, "interactions"),
        // A value that means nothing.
        ("GET", "/unified/v2/conversations?limit=many", 400, "native"),
        ("GET", "/unified/v2/conversations/conv_1/export?artifacts=1", 400, "native"),
        ("POST", "/unified/v2/import?keepIds=yes", 400, "native"),
    ] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let response = world
            .http
            .request(method.clone(), format!("{}{path}", world.url))
            .send()
            .await
            .unwrap();
        let (got, text) = (response.status().as_u16(), response.text().await.unwrap());
        let body = serde_json::from_str::<Value>(&text).unwrap_or_default();
        assert_eq!((got, has_shape(shape, &body)), (status, true), "{method} {path}: {text}");
    }
}

#[tokio::test]
async fn a_stream_of_an_interaction_is_asked_for_in_two_words() {
    let world = World::new().await;
    world.provider.play(crate::support::Play::Whole(crate::support::whole("hi")));
    let made = world.post("/v1/interactions", &json!({"model": "plain", "input": "hello"}));
    let made = crate::support::json(made.send().await.unwrap()).await;
    let path = format!("/v1/interactions/{}", made["id"].as_str().unwrap());
    for (query, status, begin) in [
        ("", 200, "application/json"),
        ("?stream=false", 200, "application/json"),
        ("?stream=true", 200, "text/event-stream"),
        ("?stream=yes", 400, "application/json"),
        ("?stream=", 400, "application/json"),
    ] {
        let response = world.get(&format!("{path}{query}")).send().await.unwrap();
        let kind = crate::support::header(&response, "content-type");
        assert_eq!(
            (response.status().as_u16(), kind.starts_with(begin)),
            (status, true),
            "{query}: {kind}"
        );
    }
}
