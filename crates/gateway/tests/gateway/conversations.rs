//! Conversations of the native API: begun, listed, forked, appended to, carried away and brought back.

use crate::support::{Play, Settings, World, delta, done, json, unified, user_item};
use bytes::Bytes;
use serde_json::{Value, json};
use throughline_format::media::encode_base64;
use throughline_format::validate::semantics;
use throughline_format::{Sha256, UnifiedExportV2};
use throughline_gateway::auth::ClientKeys;

const CONVERSATIONS: &str = "/unified/v2/conversations";
const OPERATIONS: &str = "/unified/v2/operations";

async fn create(world: &World, body: &Value) -> Value {
    let response = world.post(CONVERSATIONS, body).send().await.unwrap();
    assert_eq!(response.status(), 201);
    json(response).await
}

fn path(conversation: &Value, rest: &str) -> String {
    format!("{CONVERSATIONS}/{}{rest}", conversation["conversationId"].as_str().unwrap())
}

async fn texts(world: &World, path: &str) -> Vec<String> {
    let page = json(world.get(path).send().await.unwrap()).await;
    let items = page["data"].as_array().unwrap_or_else(|| panic!("{page}"));
    items
        .iter()
        .map(|item| item["parts"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_conversation_from_begin_to_end() {
    let world = World::new().await;
    let body = json!({"title": "plans", "metadata": {"labels": {"team": "blue"}}, "items": [user_item("a", "one"), user_item("b", "two")]});
    let conversation = create(&world, &body).await;
    assert_eq!(conversation["title"], "plans");
    assert_eq!(conversation["itemCount"], 2);
    assert_eq!(conversation["activeBranchId"], conversation["defaultBranchId"]);
    assert!(conversation["expiresAt"].is_string() && conversation.get("principalRef").is_none());
    assert_eq!(json(world.get(&path(&conversation, "")).send().await.unwrap()).await, conversation);
    let items = path(&conversation, "/items");
    assert_eq!(texts(&world, &items).await, ["one", "two"]);
    assert_eq!(texts(&world, &format!("{items}?order=desc&limit=1")).await, ["two"]);

    let page = json(world.get(&format!("{items}?limit=1")).send().await.unwrap()).await;
    let first = page["next"].as_str().unwrap().to_owned();
    assert_eq!(page["hasMore"], true);
    assert_ne!(first, "a", "items have IDs of the store");
    assert_eq!(texts(&world, &format!("{items}?after={first}")).await, ["two"]);
    assert!(texts(&world, &format!("{items}?order=desc&after={first}")).await.is_empty());

    // Appending: at the expected head, at whatever head, and at one that is not it.
    let head = json(world.get(&format!("{items}?order=desc&limit=1")).send().await.unwrap()).await["data"][0]["id"].clone();
    let appended = world
        .post(&items, &json!({"expectedHead": head, "items": [user_item("c", "three")]}))
        .send()
        .await
        .unwrap();
    assert_eq!(appended.status(), 201);
    let appended = json(appended).await;
    assert_eq!(appended["headItemId"], appended["items"][0]["id"]);
    assert_eq!(
        (&appended["items"][0]["sequence"], &appended["items"][0]["parentId"]),
        (&json!(3), &head)
    );
    let late = world
        .post(&items, &json!({"expectedHead": head, "items": [user_item("d", "late")]}))
        .send()
        .await
        .unwrap();
    assert_eq!(late.status(), 409);
    let error = json(late).await["error"].clone();
    assert_eq!(
        (&error["code"], &error["fieldPath"]),
        (&json!("conflict.head-moved"), &json!("/expectedHead"))
    );
    world
        .post(&items, &json!({"items": [user_item("d", "four")]}))
        .send()
        .await
        .unwrap();
    assert_eq!(texts(&world, &items).await, ["one", "two", "three", "four"]);

    // A fork shares what stands before it.
    let fork = world
        .post(&path(&conversation, "/branches"), &json!({"fromItemId": head}))
        .send()
        .await
        .unwrap();
    assert_eq!(fork.status(), 201);
    let fork = json(fork).await;
    let branch = fork["branchId"].as_str().unwrap();
    world
        .post(&items, &json!({"branchId": branch, "items": [user_item("e", "other")]}))
        .send()
        .await
        .unwrap();
    assert_eq!(texts(&world, &format!("{items}?branch={branch}")).await, ["one", "two", "other"]);
    assert_eq!(texts(&world, &items).await, ["one", "two", "three", "four"]);
    let branches = json(world.get(&path(&conversation, "/branches")).send().await.unwrap()).await;
    assert_eq!(branches["data"].as_array().unwrap().len(), 2);

    // A turn goes on in it.
    world.provider.play(Play::Stream(vec![delta("answer"), done()]));
    let body = json!({"conversationId": conversation["conversationId"], "branchId": branch, "request": unified("plain", "and?")});
    world.post(OPERATIONS, &body).header("prefer", "wait=10").send().await.unwrap();
    assert_eq!(
        texts(&world, &format!("{items}?branch={branch}")).await,
        ["one", "two", "other", "and?", "answer"]
    );

    let listed = json(world.get(CONVERSATIONS).send().await.unwrap()).await;
    assert_eq!(listed["data"][0]["conversationId"], conversation["conversationId"]);
    let deleted = world
        .http
        .delete(format!("{}{}", world.url, path(&conversation, "")))
        .send()
        .await
        .unwrap();
    assert_eq!(deleted.status(), 204);
    for rest in ["", "/items", "/branches", "/export"] {
        assert_eq!(world.get(&path(&conversation, rest)).send().await.unwrap().status(), 404, "{rest}");
    }
}

#[tokio::test]
async fn lists_come_newest_first_and_in_pages() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for title in ["a", "b", "c"] {
        ids.push(create(&world, &json!({"title": title, "items": [user_item("x", title)]})).await["conversationId"].clone());
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    ids.reverse();
    let list = async |query: &str| json(world.get(&format!("{CONVERSATIONS}?{query}")).send().await.unwrap()).await;
    let found = |page: &Value| {
        page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["conversationId"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&list("").await), ids);
    let page = list("limit=2").await;
    assert_eq!((found(&page), &page["next"]), (ids[..2].to_vec(), &ids[1]));
    let page = list(&format!("after={}", ids[1].as_str().unwrap())).await;
    assert_eq!((found(&page), page["hasMore"].clone()), (ids[2..].to_vec(), json!(false)));
    assert!(found(&list("updatedSince=2999-01-01T00:00:00.000Z").await).is_empty());
    assert_eq!(
        world
            .get(&format!("{CONVERSATIONS}?updatedSince=yesterday"))
            .send()
            .await
            .unwrap()
            .status(),
        400
    );
}

#[tokio::test]
async fn bad_items_are_refused_and_nothing_is_stored() {
    let world = World::new().await;
    let call = |id: &str| {
        json!({"id": "k", "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-01T00:00:00.000Z", "role": "assistant",
            "visibility": "model", "status": "completed", "provenance": {"origin": "client", "attribution": {}}, "kind": "tool-call", "callId": id, "name": "look",
            "toolType": "function", "input": {}, "rawArguments": "{}", "lifecycle": "arguments-ready", "execution": "client", "providerExecuted": false})
    };
    let result = |id: &str, text: &str| {
        json!({"id": format!("r-{text}"), "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-01T00:00:00.000Z", "role": "tool",
            "visibility": "model", "status": "completed", "provenance": {"origin": "client", "attribution": {}}, "kind": "tool-result", "callId": id,
            "output": [{"partId": "p", "kind": "text", "text": text}], "execution": "client"})
    };
    let conversation = create(&world, &json!({"items": [user_item("a", "one"), call("c1")]})).await;
    let items = path(&conversation, "/items");
    let mut running = user_item("x", "half");
    running["status"] = json!("in-progress");
    for (name, item, status, code) in [
        ("unknown call", result("c9", "x"), 400, "invalid-request.tool-result"),
        ("unfinished", running, 400, "invalid-request.invalid-value"),
        ("the first result", result("c1", "sunny"), 201, ""),
        ("a second result", result("c1", "rain"), 409, "conflict.tool-result"),
    ] {
        let response = world.post(&items, &json!({"items": [item]})).send().await.unwrap();
        assert_eq!(response.status(), status, "{name}");
        assert_eq!(json(response).await["error"]["code"].as_str().unwrap_or_default(), code, "{name}");
    }
    assert_eq!(world.post(&items, &json!({"items": []})).send().await.unwrap().status(), 400);
    assert_eq!(
        json(world.get(&path(&conversation, "")).send().await.unwrap()).await["itemCount"],
        3
    );
}

#[tokio::test]
async fn a_running_operation_keeps_its_conversation() {
    let world = World::new().await;
    let feed = world.provider.live();
    let body = json!({"request": unified("plain", "x"), "background": true});
    let operation = json(world.post(OPERATIONS, &body).send().await.unwrap()).await;
    let url = format!("{}{}", world.url, path(&operation, ""));
    let refused = world.http.delete(&url).send().await.unwrap();
    assert_eq!(refused.status(), 409);
    assert_eq!(json(refused).await["error"]["code"], "conflict.operation-active");
    feed.send(Ok(Bytes::from(done()))).unwrap();
    drop(feed);
    for _ in 0..200 {
        if world.http.delete(&url).send().await.unwrap().status() == 204 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it was never free");
}

#[tokio::test]
async fn a_bundle_comes_back_as_another_conversation() {
    let world = World::new().await;
    let conversation = create(
        &world,
        &json!({"title": "t", "items": [user_item("a", "one"), user_item("b", "two")]}),
    )
    .await;
    let head = json(world.get(&path(&conversation, "/items?limit=1")).send().await.unwrap()).await["next"].clone();
    let fork = json(
        world
            .post(&path(&conversation, "/branches"), &json!({"fromItemId": head}))
            .send()
            .await
            .unwrap(),
    )
    .await;
    let fork_id = fork["branchId"].clone();
    world
        .post(
            &path(&conversation, "/items"),
            &json!({"branchId": fork_id, "items": [user_item("c", "else")]}),
        )
        .send()
        .await
        .unwrap();
    let exported = world.get(&path(&conversation, "/export")).send().await.unwrap();
    assert_eq!(crate::support::header(&exported, "content-type"), "application/jsonl");
    let bundle = exported.text().await.unwrap();
    assert_eq!(bundle.lines().count(), 1);

    let import = async |body: String| world.post("/unified/v2/import", &json!(null)).body(body).send().await.unwrap();
    let response = import(bundle.clone()).await;
    assert_eq!(response.status(), 201);
    let copy = json(response).await;
    assert_ne!(copy["conversationId"], conversation["conversationId"]);
    assert_eq!((&copy["title"], &copy["itemCount"]), (&json!("t"), &json!(3)));
    assert_eq!(texts(&world, &path(&copy, "/items")).await, ["one", "two"]);
    let branches = json(world.get(&path(&copy, "/branches")).send().await.unwrap()).await;
    let other = branches["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|b| b["parentBranchId"].is_string())
        .unwrap();
    let items = format!("{}?branch={}", path(&copy, "/items"), other["branchId"].as_str().unwrap());
    assert_eq!(texts(&world, &items).await, ["one", "else"]);
    let again = world.get(&path(&copy, "/export")).send().await.unwrap().text().await.unwrap();
    assert_eq!(import(again).await.status(), 201, "what was imported can be exported again");

    // With its own IDs where they are free, as in another store; else with new ones.
    let other = World::new().await;
    let url = "/unified/v2/import?keepIds=true";
    let keep = async |body: String| json(other.post(url, &json!(null)).body(body).send().await.unwrap()).await;
    assert_eq!(keep(bundle.clone()).await["conversationId"], conversation["conversationId"]);
    assert_eq!(texts(&other, &path(&conversation, "/items")).await, ["one", "two"]);
    assert_ne!(keep(bundle.clone()).await["conversationId"], conversation["conversationId"]);
    let wrong = world.post("/unified/v2/import?keepIds=maybe", &json!(null)).body(bundle.clone());
    assert_eq!(wrong.send().await.unwrap().status(), 400);

    // The content of artifacts follows the record, line by line.
    let picture = Sha256::of(b"picture");
    let mut record: UnifiedExportV2 = serde_json::from_str(&bundle).unwrap();
    let part = json!({"partId": "p", "kind": "artifact-reference", "artifactId": "art_mine", "sha256": picture});
    record.items[0]
        .parts_mut()
        .unwrap()
        .push(serde_json::from_str(&part.to_string()).unwrap());
    let artifact = json!({"artifactId": "art_mine", "sha256": picture, "size": 7, "mediaType": "image/png", "sealed": false, "createdAt": "2026-01-01T00:00:00.000Z"});
    record.artifacts.push(serde_json::from_str(&artifact.to_string()).unwrap());
    record.fingerprint = semantics::export_fingerprint(&record).unwrap();
    let record = serde_json::to_string(&record).unwrap();
    assert_eq!(import(record.clone()).await.status(), 400, "its content is missing");
    let whole = format!("{record}\n{}\n", json!({"sha256": picture, "data": encode_base64(b"picture")}));
    let taken = json(import(whole).await).await;
    let exported = world
        .get(&format!("{}?artifacts=true", path(&taken, "/export")))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let line: Value = serde_json::from_str(exported.lines().nth(1).unwrap()).unwrap();
    assert_eq!(line, json!({"sha256": picture, "data": encode_base64(b"picture")}));

    for (name, body) in [
        ("changed", bundle.replace("\"two\"", "\"TWO\"")),
        ("cut", bundle[..bundle.len() / 2].to_owned()),
        ("nothing", String::new()),
    ] {
        assert_eq!(import(body).await.status(), 400, "{name}");
    }
    assert_eq!(
        json(world.get(CONVERSATIONS).send().await.unwrap()).await["data"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

#[tokio::test]
async fn somebody_elses_conversation_looks_absent() {
    let (mut keys, now) = (ClientKeys::default(), throughline_format::Timestamp::EPOCH);
    let mine = keys.create("mine", now).unwrap().key.to_string();
    let yours = keys.create("yours", now).unwrap().key.to_string();
    let world = World::with(Settings {
        required: true,
        keys,
        ..Settings::default()
    })
    .await;
    let body = json!({"items": [user_item("a", "secret plan")]});
    let conversation = json(world.post(CONVERSATIONS, &body).bearer_auth(&mine).send().await.unwrap()).await;
    let items = json(world.get(&path(&conversation, "/items")).bearer_auth(&mine).send().await.unwrap()).await;
    let (item, branch) = (items["data"][0]["id"].clone(), conversation["defaultBranchId"].as_str().unwrap());
    let own = json(world.post(CONVERSATIONS, &body).bearer_auth(&yours).send().await.unwrap()).await;
    for (method, path, body) in [
        ("GET", path(&conversation, ""), None),
        ("DELETE", path(&conversation, ""), None),
        ("GET", path(&conversation, "/branches"), None),
        ("POST", path(&conversation, "/branches"), Some(json!({"fromItemId": item}))),
        ("POST", path(&own, "/branches"), Some(json!({"fromItemId": item}))),
        ("GET", path(&conversation, "/items"), None),
        ("GET", path(&own, &format!("/items?branch={branch}")), None),
        ("GET", path(&own, &format!("/items?after={}", item.as_str().unwrap())), None),
        ("POST", path(&conversation, "/items"), Some(json!({"items": [user_item("b", "x")]}))),
        (
            "POST",
            path(&own, "/items"),
            Some(json!({"branchId": branch, "items": [user_item("b", "x")]})),
        ),
        ("GET", path(&conversation, "/export"), None),
        (
            "GET",
            format!("{CONVERSATIONS}?after={}", conversation["conversationId"].as_str().unwrap()),
            None,
        ),
    ] {
        let url = format!("{}{path}", world.url);
        let request = world.http.request(method.parse().unwrap(), url).bearer_auth(&yours);
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 404, "{method} {path}");
        assert!(!response.text().await.unwrap().contains("secret plan"));
    }
    let listed = json(world.get(CONVERSATIONS).bearer_auth(&yours).send().await.unwrap()).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
}
