//! POST /unified/v2/conversations/{id}/compact.

use crate::support::{Play, World, delta, done, json, unified, user_item};
use serde_json::{Value, json};

const CONVERSATIONS: &str = "/unified/v2/conversations";

struct Chat {
    world: World,
    path: String,
    id: Value,
}

impl Chat {
    /// A conversation of three messages.
    async fn new() -> Self {
        let world = World::new().await;
        let items: Vec<Value> = ["one", "two", "three"].iter().map(|text| user_item(text, text)).collect();
        let created = json(world.post(CONVERSATIONS, &json!({"items": items})).send().await.unwrap()).await;
        let id = created["conversationId"].clone();
        Self {
            world,
            path: format!("{CONVERSATIONS}/{}", id.as_str().unwrap()),
            id,
        }
    }

    async fn items(&self) -> Vec<Value> {
        let page = json(self.world.get(&format!("{}/items", self.path)).send().await.unwrap()).await;
        page["data"].as_array().unwrap().clone()
    }

    async fn compact(&self, body: &Value) -> (u16, Value) {
        let response = self.world.post(&format!("{}/compact", self.path), body).send().await.unwrap();
        (response.status().as_u16(), json(response).await)
    }
}

fn summary(text: &str) -> Value {
    json!([{"partId": "mine", "kind": "text", "text": text}])
}

#[tokio::test]
async fn a_summary_stands_for_the_beginning_of_a_branch() {
    let chat = Chat::new().await;
    let items = chat.items().await;
    let (status, item) = chat
        .compact(&json!({"throughItemId": items[1]["id"], "summary": summary("one and two")}))
        .await;
    assert_eq!(status, 201);
    assert_eq!(
        (&item["kind"], &item["replaces"], &item["sequence"]),
        (&json!("compaction-summary"), &json!(true), &json!(4))
    );
    let covers = json!({"fromItemId": items[0]["id"], "toItemId": items[1]["id"], "count": 2});
    assert_eq!((&item["covers"], &item["parentId"]), (&covers, &items[2]["id"]));
    assert_ne!(item["parts"][0]["partId"], "mine", "parts have IDs of the store");

    // It is appended; what it covers is still there, and a provider reads the summary instead.
    let after = chat.items().await;
    assert_eq!(after[..3], items[..]);
    assert_eq!(after[3], item);
    chat.world.provider.play(Play::Stream(vec![delta("answer"), done()]));
    let body = json!({"conversationId": chat.id, "request": unified("plain", "and?")});
    let done = chat
        .world
        .post("/unified/v2/operations", &body)
        .header("prefer", "wait=10")
        .send()
        .await
        .unwrap();
    assert_eq!(done.status(), 200);
    let sent = chat.world.provider.calls().last().unwrap().to_string();
    assert!(
        sent.contains("one and two") && sent.contains("three") && !sent.contains("\"two\""),
        "{sent}"
    );
    let bundle = chat
        .world
        .get(&format!("{}/export", chat.path))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(bundle.contains("\"two\""), "exports keep the whole history");
}

#[tokio::test]
async fn a_wrong_range_and_a_wrong_body_are_refused_and_nothing_is_appended() {
    let chat = Chat::new().await;
    let items = chat.items().await;
    let (first, foreign) = (&items[0]["id"], Chat::new().await.items().await[0]["id"].clone());
    for (name, body, status, code) in [
        ("no item", json!({"summary": summary("x")}), 400, "invalid-request.missing-field"),
        ("no summary", json!({"throughItemId": first}), 400, "invalid-request.missing-field"),
        (
            "an empty summary",
            json!({"throughItemId": first, "summary": []}),
            400,
            "invalid-request.invalid-value",
        ),
        (
            "a blank summary",
            json!({"throughItemId": first, "summary": summary(" ")}),
            400,
            "invalid-request.invalid-value",
        ),
        (
            "an unknown item",
            json!({"throughItemId": "op_x.i0", "summary": summary("x")}),
            400,
            "invalid-request.invalid-value",
        ),
        (
            "an item of another conversation",
            json!({"throughItemId": foreign, "summary": summary("x")}),
            400,
            "invalid-request.invalid-value",
        ),
        (
            "an unknown branch",
            json!({"branchId": "br_x", "throughItemId": first, "summary": summary("x")}),
            404,
            "not-found.resource",
        ),
        (
            "an unknown member",
            json!({"throughItemId": first, "summary": summary("x"), "keep": 1}),
            400,
            "invalid-request.unknown-field",
        ),
    ] {
        let (got, answer) = chat.compact(&body).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &json!(code)), "{name}: {answer}");
    }
    assert_eq!(chat.items().await, items);
    let body = json!({"throughItemId": first, "summary": summary("x")});
    let absent = chat
        .world
        .post(&format!("{CONVERSATIONS}/conv_x/compact"), &body)
        .send()
        .await
        .unwrap();
    assert_eq!(absent.status(), 404);
}
