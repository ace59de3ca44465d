//! Who may use a gateway: keys, hosts, origins.

use crate::support::{Frames, Settings, World, chat, delta, header, json};
use throughline_format::Timestamp;
use throughline_gateway::auth::ClientKeys;

#[tokio::test]
async fn the_matrix_of_keys() {
    let mut keys = ClientKeys::default();
    let good = keys.create("laptop", Timestamp::EPOCH).unwrap();
    let revoked = keys.create("laptop", Timestamp::EPOCH).unwrap();
    assert!(keys.revoke(&revoked.id, Timestamp::EPOCH));
    let world = World::with(Settings {
        required: true,
        keys,
        ..Settings::default()
    })
    .await;
    let bearer = |key: &str| ("authorization", format!("Bearer {key}"));
    for (path, header, status) in [
        ("/v1/models", None, 401),
        ("/v1/models", Some(bearer(&good.key)), 200),
        ("/v1/models", Some(bearer(&revoked.key)), 401),
        ("/v1/models", Some(bearer("tlk_wrong")), 401),
        ("/v1/models", Some(("authorization", format!("Basic {}", good.key.as_str()))), 401),
        ("/v1/models", Some(("x-api-key", good.key.to_string())), 200),
        ("/v1/models", Some(("x-goog-api-key", good.key.to_string())), 200),
        ("/unified/v2/operations/op_x", None, 401),
        ("/unified/v2/operations/op_x", Some(bearer(&good.key)), 404),
        ("/unified/v2/operations/op_x", Some(("x-api-key", good.key.to_string())), 401),
        ("/healthz", None, 200),
        ("/readyz", None, 200),
        ("/", None, 200),
        ("/nothing", None, 401),
    ] {
        let mut request = world.get(path);
        if let Some((name, value)) = &header {
            request = request.header(*name, value);
        }
        assert_eq!(
            request.send().await.unwrap().status(),
            status,
            "{path} {}",
            header.map(|(n, _)| n).unwrap_or_default()
        );
    }
    let parameter = world.get(&format!("/v1/models?key={}", good.key.as_str())).send().await.unwrap();
    assert_eq!(parameter.status(), 200);
    let refused = world.post("/v1/messages", &chat("plain", true, "hi")).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let body = json(refused).await;
    assert_eq!(
        (body["type"].as_str(), body["error"]["type"].as_str()),
        (Some("error"), Some("authentication_error"))
    );
}

#[tokio::test]
async fn without_keys_hosts_and_origins_are_checked() {
    let world = World::new().await;
    for (host, origin, status) in [
        (None, None, 200),
        (Some("evil.example.com"), None, 400),
        (None, Some("https://evil.example.com"), 403),
        (None, Some("https://app.example.com"), 200),
    ] {
        let mut request = world.get("/v1/models").header("authorization", "Bearer sk-anything");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        assert_eq!(request.send().await.unwrap().status(), status, "{host:?} {origin:?}");
    }
}

/// Every place where an ID can be presented, by its owner, by somebody else with a key of their own, and without a key. What
/// somebody else may not see looks exactly as what is not there.
#[tokio::test]
async fn the_matrix_of_ids() {
    throughline_format::clause!("SEC-01");
    let mut keys = ClientKeys::default();
    let (mine, yours) = (
        keys.create("mine", Timestamp::EPOCH).unwrap(),
        keys.create("yours", Timestamp::EPOCH).unwrap(),
    );
    let world = World::with(Settings {
        required: true,
        keys,
        ..Settings::default()
    })
    .await;
    let feed = world.provider.live();
    feed.send(Ok(bytes::Bytes::from(delta("one")))).unwrap();
    let begun = world
        .post("/v1/chat/completions", &chat("plain", true, "hi"))
        .bearer_auth(mine.key.as_str())
        .send()
        .await
        .unwrap();
    assert_eq!(begun.status(), 200);
    let [operation, conversation, cursor] =
        ["throughline-operation", "throughline-conversation", "throughline-cursor"].map(|name| header(&begun, name));
    assert!(
        [&operation, &conversation].iter().all(|id| !id.contains("mine") && id.len() > 26),
        "opaque"
    );
    // The same shape as the real ones, and nobody's.
    let (no_operation, no_conversation) = (format!("op_{}", "0".repeat(26)), format!("conv_{}", "0".repeat(26)));
    let operations = ["", "/events", "/events?after=0", &format!("/events?cursor={cursor}"), "/cancel"];
    for rest in operations {
        let ask = async |id: &str, key: Option<&str>| {
            let path = format!("/unified/v2/operations/{id}{rest}");
            let request = if rest == "/cancel" {
                world.post(&path, &serde_json::json!({}))
            } else {
                world.get(&path)
            };
            let request = match key {
                Some(key) => request.bearer_auth(key),
                None => request,
            };
            request.send().await.unwrap()
        };
        assert_eq!(ask(&operation, None).await.status(), 401, "{rest}");
        let [foreign, absent] = [&operation, &no_operation].map(|id| ask(id, Some(yours.key.as_str())));
        let (foreign, absent) = (foreign.await, absent.await);
        assert_eq!(
            (foreign.status(), absent.status()),
            (absent.status(), reqwest::StatusCode::NOT_FOUND),
            "{rest}"
        );
        let (mut foreign, mut absent) = (json(foreign).await, json(absent).await);
        for body in [&mut foreign, &mut absent] {
            body["error"]["requestId"].take();
        }
        assert_eq!(foreign, absent, "{rest}: both look alike");
        if rest != "/cancel" {
            assert_eq!(ask(&operation, Some(mine.key.as_str())).await.status(), 200, "{rest}");
        }
    }
    // A conversation that is named explicitly.
    for protocol in ["/v1/chat/completions", "/v1/messages"] {
        let ask = async |id: &str, key: &str| {
            let body = if protocol == "/v1/messages" {
                crate::support::messages("plain", false, "more")
            } else {
                chat("plain", false, "more")
            };
            let request = world.post(protocol, &body).bearer_auth(key).header("throughline-conversation", id);
            request.send().await.unwrap()
        };
        let (foreign, absent) = (
            ask(&conversation, yours.key.as_str()).await,
            ask(&no_conversation, yours.key.as_str()).await,
        );
        assert_eq!((foreign.status().as_u16(), absent.status().as_u16()), (404, 404), "{protocol}");
        let (foreign, absent) = (foreign.text().await.unwrap(), absent.text().await.unwrap());
        assert!(
            !foreign.contains(&conversation) || absent.contains(&no_conversation),
            "{foreign} {absent}"
        );
    }
    // Nobody cancelled it: the owner reads on, and cancels.
    feed.send(Ok(bytes::Bytes::from(delta("two")))).unwrap();
    let path = format!("/unified/v2/operations/{operation}");
    let state = json(world.get(&path).bearer_auth(mine.key.as_str()).send().await.unwrap()).await;
    assert_eq!(state["state"], "running");
    let cancelled = world
        .post(&format!("{path}/cancel"), &serde_json::json!({}))
        .bearer_auth(mine.key.as_str());
    assert_eq!(cancelled.send().await.unwrap().status(), 202);
}

/// Streams end with the key that opened them, and with no other one; the operation goes on.
#[tokio::test]
async fn a_revoked_key_detaches_its_streams() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clients.json");
    let new = || ClientKeys::change(&file, |keys| keys.create("laptop", Timestamp::EPOCH)).unwrap().1;
    let (lost, kept) = (new(), new());
    let world = World::with(Settings {
        required: true,
        key_file: Some(file.clone()),
        ..Settings::default()
    })
    .await;
    let feed = world.provider.live();
    feed.send(Ok(bytes::Bytes::from(delta("one")))).unwrap();
    let turn = world
        .post("/v1/chat/completions", &chat("plain", true, "hi"))
        .bearer_auth(lost.key.as_str());
    let turn = turn.send().await.unwrap();
    let path = format!("/unified/v2/operations/{}/events", header(&turn, "throughline-operation"));
    let read = async |key: &str| Frames::new(world.get(&path).bearer_auth(key).send().await.unwrap());
    let (mut ends, mut stays) = (read(&lost.key).await, read(&kept.key).await);
    ClientKeys::change(&file, |keys| Ok(keys.revoke(&lost.id, Timestamp::EPOCH))).unwrap();
    let mut last = None;
    while let Some(frame) = ends.next().await.unwrap() {
        last = Some(frame);
    }
    let last = last.unwrap();
    assert_eq!(last.event.as_deref(), Some("detached"));
    let data: serde_json::Value = serde_json::from_str(&last.data).unwrap();
    assert_eq!(data["reason"], "auth");
    // A client protocol has no word for it: its connection is cut.
    assert!(turn.bytes().await.is_err());
    assert_eq!(world.get(&path).bearer_auth(lost.key.as_str()).send().await.unwrap().status(), 401);
    // The cursor is good for the owner's other key, whose own stream never ended.
    let resumed = world.get(&format!("{path}?cursor={}", data["cursor"].as_str().unwrap()));
    let mut resumed = Frames::new(resumed.bearer_auth(kept.key.as_str()).send().await.unwrap());
    feed.send(Ok(bytes::Bytes::from(delta("two")))).unwrap();
    for frames in [&mut stays, &mut resumed] {
        loop {
            let frame = frames.next().await.unwrap().unwrap();
            assert_ne!(frame.event.as_deref(), Some("detached"));
            if frame.data.contains("two") {
                break;
            }
        }
    }
}
