//! Access tokens from credentials files, against a server that plays both the token endpoint and the provider.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[allow(dead_code)] // Other tests use the rest.
mod support;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use bytes::Bytes;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use support::{ErrorCodec, Server, Step};
use throughline_engine::ports::{Clock, Upstream, UpstreamCall};
use throughline_format::{Timestamp, UnifiedError, UnifiedId};
use throughline_providers::{Grant, Provider, ProviderKind, ProviderSpec, RetryPolicy};
use throughline_store::{KeyRing, OsRandom, Vault};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
const REFUSED: &str = "HTTP/1.1 401 No\r\nconnection: close\r\ncontent-length: 32\r\n\r\nthe token ya29.one-1234567 ended";
const DOWN: &str = "HTTP/1.1 503 Down\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[derive(Default)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn key() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    KEY.get_or_init(|| KeyPair::generate(KeySize::Rsa2048).unwrap())
}

fn pem() -> String {
    let der: Pkcs8V1Der<'_> = key().as_der().unwrap();
    format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        BASE64.encode(der.as_ref())
    )
}

fn service_account(token_uri: &str) -> Value {
    json!({"type": "service_account", "client_email": "robot@p.iam.example.com", "private_key_id": "k1", "private_key": pem(), "token_uri": token_uri})
}

fn token(name: &str, seconds: u64) -> &'static str {
    let body = json!({"access_token": name, "expires_in": seconds, "token_type": "Bearer"}).to_string();
    let text = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    Box::leak(text.into_boxed_str())
}

/// A provider whose token endpoint is the same server.
struct World {
    server: Server,
    clock: Arc<TestClock>,
    upstream: Arc<dyn Upstream>,
}

impl World {
    async fn new(answers: Vec<&'static str>, file: impl FnOnce(&str) -> Value) -> Self {
        let server = Server::start(answers.into_iter().map(|answer| vec![Step::Send(answer)]).collect()).await;
        let clock = Arc::new(TestClock::default());
        let file = file(&format!("{}/token", server.url)).to_string();
        let spec = ProviderSpec {
            base_url: Some(server.url.clone()),
            grant: Some(Grant::from_json(&file, Arc::clone(&clock) as Arc<dyn Clock>).unwrap()),
            project: Some("p".to_owned()),
            location: Some("l".to_owned()),
            retry: RetryPolicy {
                attempts: 1,
                ..RetryPolicy::default()
            },
            ..ProviderSpec::new("v", ProviderKind::Vertex)
        };
        let vault = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
        let upstream = Provider::connect_with(spec, Arc::new(ErrorCodec), &vault).unwrap().upstream();
        Self { server, clock, upstream }
    }

    async fn ask(&self) -> Result<(), UnifiedError> {
        let call = UpstreamCall {
            conversation_id: UnifiedId::parse("conv_1").unwrap(),
            operation_id: UnifiedId::parse("op_1").unwrap(),
            request_id: UnifiedId::parse("req_1").unwrap(),
            model: "m".to_owned(),
            body: Bytes::from_static(b"{}"),
            stream: false,
            client_headers: Vec::new(),
        };
        self.upstream.call(call).await.map(|_| ())
    }

    /// What arrived: `token`, or the token of a provider request.
    fn seen(&self) -> Vec<String> {
        let of = |request: String| {
            if request.starts_with("POST /token ") {
                return "token".to_owned();
            }
            assert!(
                request.starts_with("POST /v1/projects/p/locations/l/publishers/google/models/m:generateContent "),
                "{request}"
            );
            let bearer = request.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
            bearer.unwrap_or_else(|| panic!("no bearer: {request}")).to_owned()
        };
        self.server.requests().into_iter().map(of).collect()
    }
}

#[tokio::test]
async fn a_service_account_signs_for_a_token_that_is_used_until_it_is_about_to_end() {
    let world = World::new(vec![token("one", 3_600), OK, OK, token("two", 3_600), OK], service_account).await;
    world.ask().await.unwrap();
    world.clock.0.store(54 * 60 * 1_000, Ordering::SeqCst);
    world.ask().await.unwrap();
    world.clock.0.store(56 * 60 * 1_000, Ordering::SeqCst);
    world.ask().await.unwrap();
    assert_eq!(world.seen(), ["token", "one", "one", "token", "two"]);

    let question = world.server.requests().remove(0);
    let (_, form) = question.split_once("\r\n\r\n").unwrap();
    let assertion = form
        .strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
        .unwrap_or_else(|| panic!("{form}"));
    let parts: Vec<&str> = assertion.split('.').collect();
    let decode = |part: &str| serde_json::from_slice::<Value>(&BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).unwrap();
    assert_eq!(decode(parts[0]), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    let claims = json!({"iss": "robot@p.iam.example.com", "sub": "robot@p.iam.example.com", "scope": "https://www.googleapis.com/auth/cloud-platform",
        "aud": format!("{}/token", world.server.url), "iat": 0, "exp": 3_600});
    assert_eq!(decode(parts[1]), claims);
    let signature = BASE64URL_NOPAD.decode(parts[2].as_bytes()).unwrap();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key().public_key().as_ref())
        .verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &signature)
        .expect("the signature of the account's own key");
}

#[tokio::test]
async fn a_users_file_has_a_refresh_token() {
    let file =
        |uri: &str| json!({"type": "authorized_user", "client_id": "id", "client_secret": "s&c", "refresh_token": "r/1", "token_uri": uri});
    let world = World::new(vec![token("one", 3_600), OK], file).await;
    world.ask().await.unwrap();
    assert_eq!(world.seen(), ["token", "one"]);
    let question = world.server.requests().remove(0);
    assert!(
        question.ends_with("\r\n\r\ngrant_type=refresh_token&client_id=id&client_secret=s%26c&refresh_token=r%2F1"),
        "{question}"
    );
}

#[tokio::test]
async fn a_refused_token_is_renewed_and_does_not_come_back_in_the_error() {
    let world = World::new(
        vec![token("ya29.one-1234567", 3_600), REFUSED, token("two", 3_600), OK],
        service_account,
    )
    .await;
    let error = world.ask().await.unwrap_err();
    assert_eq!(error.message, "the token **************** ended");
    world.ask().await.unwrap();
    assert_eq!(world.seen(), ["token", "ya29.one-1234567", "token", "two"]);
}

#[tokio::test]
async fn while_the_endpoint_is_down_the_old_token_goes_on_until_its_end() {
    let world = World::new(vec![token("one", 3_600), OK, DOWN, OK, DOWN], service_account).await;
    world.ask().await.unwrap();
    world.clock.0.store(59 * 60 * 1_000, Ordering::SeqCst);
    world.ask().await.unwrap();
    world.clock.0.store(60 * 60 * 1_000, Ordering::SeqCst);
    let error = world.ask().await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("server.token", true));
    assert_eq!(world.seen(), ["token", "one", "token", "one", "token"]);
}

#[tokio::test]
async fn a_refusal_of_the_endpoint_says_what_to_do_and_shows_no_secret() {
    const NO: &str =
        "HTTP/1.1 400 No\r\nconnection: close\r\n\r\n{\"error\":\"invalid_grant\",\"error_description\":\"robot@p.iam is unknown\"}";
    let world = World::new(vec![NO], service_account).await;
    let error = world.ask().await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("auth.token", false));
    assert_eq!(
        error.message,
        "the token endpoint 127.0.0.1 gave no token (invalid_grant); check the credentials file"
    );
}

#[test]
fn files_that_are_no_credentials_are_refused_without_showing_them() {
    let clock = || Arc::new(TestClock::default()) as Arc<dyn Clock>;
    let with = |member: &str, value: Value| {
        let mut file = service_account("https://oauth2.example.com/token");
        file[member] = value;
        file.to_string()
    };
    for (file, said) in [
        ("{\"private_key\":\"hush\"".to_owned(), "no JSON"),
        ("{\"type\":\"service_account\",\"private_key\":7}".to_owned(), "lack `client_email`"),
        (with("type", json!("external_account")), "`service_account` or `authorized_user`"),
        (with("client_email", Value::Null), "lack `client_email`"),
        (with("private_key", json!("hush")), "no RSA key"),
        (
            with(
                "private_key",
                json!("-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n"),
            ),
            "no RSA key",
        ),
        (with("token_uri", json!("http://oauth2.example.com/token")), "https://"),
        (
            json!({"type": "authorized_user", "client_id": "hush"}).to_string(),
            "lack `client_secret`",
        ),
    ] {
        let error = Grant::from_json(&file, clock()).unwrap_err();
        assert_eq!(error.code, "auth.credential", "{error:?}");
        assert!(error.message.contains(said) && !error.message.contains("hush"), "{}", error.message);
    }
    let grant = Grant::from_json(&service_account("https://oauth2.example.com/token").to_string(), clock()).unwrap();
    assert_eq!(format!("{grant:?}"), "Grant(..)");
}
