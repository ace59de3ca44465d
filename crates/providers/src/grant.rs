//! [`Grant`]: access tokens for Google's services, from a credentials file.
//!
//! A service account signs a claim with its key (RFC 7523), a user's file has a refresh token (RFC 6749); the token endpoint
//! gives an access token for either. It is used for every request and renewed before it ends. Neither file nor token prints.

use crate::account::{Timeouts, http_client, read_beginning, read_whole};
use crate::credential::Credential;
use crate::transport;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use data_encoding::BASE64URL_NOPAD;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::ports::Clock;
use throughline_format::{ErrorCategory, Timestamp, UnifiedError};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// What the tokens are for.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Token endpoint of files that name none.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// How long a signed claim counts, in seconds; the endpoint takes no longer one.
const CLAIM_SECONDS: i64 = 3_600;
/// A token is renewed this long before it ends.
const RENEW_BEFORE: Duration = Duration::from_mins(5);
/// Life of a token whose answer names none.
const DEFAULT_LIFE_SECONDS: u64 = 3_600;
/// Longest wait for the token endpoint.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(20);
/// Most bytes of an answer with a token.
const MAX_TOKEN_BYTES: usize = 256 * 1024;

/// Access tokens of one account. Cloning shares the token.
#[derive(Clone)]
pub struct Grant(Arc<Inner>);

struct Inner {
    form: Form,
    endpoint: Url,
    client: reqwest::Client,
    clock: Arc<dyn Clock>,
    token: Mutex<Option<Token>>,
}

/// What the endpoint is asked with.
enum Form {
    ServiceAccount {
        email: String,
        key_id: Option<String>,
        key: KeyPair,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: SecretString,
        refresh_token: SecretString,
    },
}

struct Token {
    credential: Credential,
    ends: Timestamp,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Grant(..)")
    }
}

/// Members of a credentials file.
struct File {
    kind: Option<String>,
    client_email: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<SecretString>,
    token_uri: Option<String>,
    client_id: Option<String>,
    client_secret: Option<SecretString>,
    refresh_token: Option<SecretString>,
}

/// An answer of the token endpoint.
struct Answer {
    access_token: Option<SecretString>,
    expires_in: Option<u64>,
    error: Option<String>,
}

/// A member that is a text; no type of the execution context can be read from or written to JSON.
fn text(object: &serde_json::Value, member: &str) -> Option<String> {
    object.get(member).and_then(serde_json::Value::as_str).map(str::to_owned)
}

fn secret(object: &serde_json::Value, member: &str) -> Option<SecretString> {
    text(object, member).map(SecretString::from)
}

impl File {
    fn of(json: &serde_json::Value) -> Self {
        Self {
            kind: text(json, "type"),
            client_email: text(json, "client_email"),
            private_key_id: text(json, "private_key_id"),
            private_key: secret(json, "private_key"),
            token_uri: text(json, "token_uri"),
            client_id: text(json, "client_id"),
            client_secret: secret(json, "client_secret"),
            refresh_token: secret(json, "refresh_token"),
        }
    }
}

impl Answer {
    fn of(json: &serde_json::Value) -> Self {
        Self {
            access_token: secret(json, "access_token"),
            expires_in: json.get("expires_in").and_then(serde_json::Value::as_u64),
            error: text(json, "error"),
        }
    }
}

impl Grant {
    /// Reads a credentials file: a service account's, or that of a user (`gcloud auth application-default login`).
    ///
    /// # Errors
    /// `auth.credential` when it is no such file; `internal.http-client`. The text shows nothing of the file.
    pub fn from_json(text: &str, clock: Arc<dyn Clock>) -> Result<Self, UnifiedError> {
        let json = serde_json::from_str(text).map_err(|error: serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            refused(format!("the credentials are no JSON of a known form, line {line} column {column}"))
        })?;
        let file = File::of(&json);
        let missing = |member: &str| refused(format!("the credentials lack `{member}`"));
        let form = match file.kind.as_deref() {
            Some("service_account") => {
                let email = file.client_email.ok_or_else(|| missing("client_email"))?;
                let key = signing_key(&file.private_key.ok_or_else(|| missing("private_key"))?)?;
                let key_id = file.private_key_id;
                Form::ServiceAccount { email, key_id, key }
            }
            Some("authorized_user") => Form::AuthorizedUser {
                client_id: file.client_id.ok_or_else(|| missing("client_id"))?,
                client_secret: file.client_secret.ok_or_else(|| missing("client_secret"))?,
                refresh_token: file.refresh_token.ok_or_else(|| missing("refresh_token"))?,
            },
            _ => return Err(refused("the credentials are of type `service_account` or `authorized_user`")),
        };
        Ok(Self(Arc::new(Inner {
            form,
            endpoint: token_endpoint(file.token_uri.as_deref().unwrap_or(TOKEN_URI))?,
            client: http_client(&Timeouts::default())?,
            clock,
            token: Mutex::new(None),
        })))
    }

    /// What tells this account from others; tokens change, it does not.
    pub(crate) fn identity(&self) -> &[u8] {
        match &self.0.form {
            Form::ServiceAccount { email, .. } => email.as_bytes(),
            Form::AuthorizedUser { refresh_token, .. } => refresh_token.expose_secret().as_bytes(),
        }
    }

    /// A token that is good now. Whoever comes first asks for a new one, the others wait for it.
    ///
    /// # Errors
    /// `auth.token` when the endpoint refuses the account; `network.*`, `timeout.token`, `server.token` otherwise.
    pub(crate) async fn token(&self) -> Result<Credential, UnifiedError> {
        let mut held = self.0.token.lock().await;
        let now = self.0.clock.now();
        let left = held.as_ref().map_or(0, |token| token.ends.millis() - now.millis());
        let early = i64::try_from(RENEW_BEFORE.as_millis()).unwrap_or(i64::MAX);
        if let Some(token) = held.as_ref().filter(|_| left > early) {
            return Ok(token.credential.clone());
        }
        match self.0.ask(now).await {
            Ok(token) => Ok(held.insert(token).credential.clone()),
            Err(error) => match held.as_ref().filter(|_| left > 0 && error.retryable) {
                Some(token) => Ok(token.credential.clone()),
                None => Err(error),
            },
        }
    }

    /// Forgets a token that the service refused, so that the next request gets another one.
    pub(crate) async fn forget(&self, refused: &Credential) {
        let mut held = self.0.token.lock().await;
        if held.as_ref().is_some_and(|token| token.credential.bytes() == refused.bytes()) {
            *held = None;
        }
    }
}

impl Inner {
    async fn ask(&self, now: Timestamp) -> Result<Token, UnifiedError> {
        let host = self.endpoint.host_str().unwrap_or_default();
        let request = self
            .client
            .post(self.endpoint.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(self.form.body(now, self.endpoint.as_str())?);
        let late = || retryable(ErrorCategory::Timeout, format!("the token endpoint {host} did not answer in time"));
        let response = timeout(ENDPOINT_TIMEOUT, request.send())
            .await
            .map_err(|_| late())?
            .map_err(|error| transport::send_error(host, &error))?;
        let status = response.status();
        let body = async {
            if status.is_success() {
                read_whole(response, host, MAX_TOKEN_BYTES, ENDPOINT_TIMEOUT).await
            } else {
                Ok(read_beginning(response).await)
            }
        };
        let body = timeout(ENDPOINT_TIMEOUT, body).await.map_err(|_| late())??;
        let answer = serde_json::from_slice(&body).ok().map(|json| Answer::of(&json));
        if status.is_server_error() || status.as_u16() == 429 {
            let message = format!("the token endpoint {host} answered with status {}", status.as_u16());
            return Err(retryable(ErrorCategory::Server, message));
        }
        let word = answer.as_ref().and_then(|a| a.error.clone()).filter(|word| is_word(word));
        let Some((token, life)) = answer
            .and_then(|a| Some((a.access_token?, a.expires_in)))
            .filter(|_| status.is_success())
        else {
            let word = word.unwrap_or_else(|| format!("status {}", status.as_u16()));
            let message = format!("the token endpoint {host} gave no token ({word}); check the credentials file");
            return Err(UnifiedError::new(ErrorCategory::Auth, "token", message));
        };
        let millis = life.unwrap_or(DEFAULT_LIFE_SECONDS).min(86_400) * 1_000;
        Ok(Token {
            credential: Credential::new(token.expose_secret())?,
            ends: now.plus_millis(i64::try_from(millis).unwrap_or_default()),
        })
    }
}

impl Form {
    /// The body of a question for a token.
    fn body(&self, now: Timestamp, audience: &str) -> Result<String, UnifiedError> {
        Ok(match self {
            Self::ServiceAccount { email, key_id, key } => encoded(&[
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("assertion", &assertion(email, key_id.as_deref(), key, now, audience)?),
            ]),
            Self::AuthorizedUser {
                client_id,
                client_secret,
                refresh_token,
            } => encoded(&[
                ("grant_type", "refresh_token"),
                ("client_id", client_id),
                ("client_secret", client_secret.expose_secret()),
                ("refresh_token", refresh_token.expose_secret()),
            ]),
        })
    }
}

/// A claim of a service account as a JWT, signed with RS256.
fn assertion(email: &str, key_id: Option<&str>, key: &KeyPair, now: Timestamp, audience: &str) -> Result<String, UnifiedError> {
    let mut header = serde_json::json!({"alg": "RS256", "typ": "JWT"});
    if let (Some(id), Some(members)) = (key_id, header.as_object_mut()) {
        members.insert("kid".to_owned(), id.into());
    }
    let claims = serde_json::json!({
        "iss": email,
        "sub": email,
        "scope": SCOPE,
        "aud": audience,
        "iat": now.seconds(),
        "exp": now.seconds() + CLAIM_SECONDS,
    });
    let part = |value: &serde_json::Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| UnifiedError::new(ErrorCategory::Internal, "signature", "the claim for a token could not be signed"))?;
    Ok(format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature)))
}

fn signing_key(pem: &SecretString) -> Result<KeyPair, UnifiedError> {
    let unreadable = || refused("the `private_key` of the credentials is no RSA key in PKCS #8 (PEM)");
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.expose_secret().as_bytes()).map_err(|_| unreadable())?;
    KeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| unreadable())
}

/// The endpoint that the file names. What is sent there opens the account, so it does not travel in clear beyond this machine.
fn token_endpoint(text: &str) -> Result<Url, UnifiedError> {
    let url = Url::parse(text).map_err(|_| refused("the `token_uri` of the credentials is no address"))?;
    let host = url.host_str().unwrap_or_default();
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    if url.scheme() == "https" || (url.scheme() == "http" && is_local) {
        Ok(url)
    } else {
        Err(refused("the `token_uri` of the credentials must begin with https://"))
    }
}

/// A form as `application/x-www-form-urlencoded`.
fn encoded(fields: &[(&str, &str)]) -> String {
    let escape = |text: &str| -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        let one = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
        text.bytes().map(one).collect()
    };
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    pairs.join("&")
}

/// Whether an error of the endpoint is one of its words, such as `invalid_grant`; other texts are not shown.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

fn refused(message: impl Into<String>) -> UnifiedError {
    UnifiedError::new(ErrorCategory::Auth, "credential", message.into())
}

fn retryable(category: ErrorCategory, message: String) -> UnifiedError {
    let mut error = UnifiedError::new(category, "token", message);
    error.retryable = true;
    error
}
