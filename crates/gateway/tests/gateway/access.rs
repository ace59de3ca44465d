//! Who may use a gateway: keys, hosts, origins.

use crate::support::{Settings, World, chat, json};
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
