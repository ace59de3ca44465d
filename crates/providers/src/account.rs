//! [`Account`]: one account of one provider over HTTP. What its drivers share: connections, slots, credentials, the head of an answer,
//! errors, whole bodies.

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::grant::Grant;
use crate::headers::HeaderFilter;
use crate::kind::ProviderKind;
use crate::redact::Redactor;
use crate::retry::RetryPolicy;
use crate::transport;
use bytes::{Bytes, BytesMut};
use reqwest::Method;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::ports::UpstreamCall;
use throughline_format::{ErrorCategory, UnifiedError};
use throughline_protocols::Codec;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

/// Most bytes of an error answer that are read.
const MAX_ERROR_BYTES: usize = 256 * 1024;
/// Longest time for reading an error answer.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a driver waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// From sending to the first byte of the answer's body.
    pub first_byte: Duration,
    /// Between two pieces of the body.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(2),
            idle: Duration::from_secs(90),
        }
    }
}

/// What an account is.
pub(crate) struct AccountConfig {
    pub(crate) kind: ProviderKind,
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: Option<Credential>,
    pub(crate) grant: Option<Grant>,
    pub(crate) codec: Arc<dyn Codec>,
    pub(crate) filter: HeaderFilter,
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_concurrency: Option<usize>,
}

/// An account with its connections and slots.
pub(crate) struct Account {
    pub(crate) config: AccountConfig,
    host: String,
    client: reqwest::Client,
    slots: Option<Arc<Semaphore>>,
}

/// The head of a 2xx answer, with the credential that it was asked with: whatever comes in with it is looked through for that.
pub(crate) struct Answer {
    pub(crate) response: reqwest::Response,
    credential: Option<Credential>,
}

impl Answer {
    /// The provider's trace ID.
    pub(crate) fn request_id(&self) -> Option<String> {
        clean_text(self.credential.as_ref(), transport::request_id(self.response.headers()))
    }

    /// What takes the credential out of a body that comes in pieces.
    pub(crate) fn redactor(&self) -> Option<Redactor> {
        self.credential.as_ref().and_then(Credential::redactable).map(Redactor::new)
    }
}

impl Account {
    /// An account with its own connection pool.
    pub(crate) fn new(config: AccountConfig) -> Result<Self, UnifiedError> {
        Ok(Self {
            host: config.endpoint.host(),
            client: http_client(&config.timeouts)?,
            slots: config.max_concurrency.map(|limit| Arc::new(Semaphore::new(limit))),
            config,
        })
    }

    /// The host, for messages.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Waits for a free slot, at most as long as for an answer.
    pub(crate) async fn slot(&self) -> Result<Option<OwnedSemaphorePermit>, UnifiedError> {
        let Some(slots) = &self.slots else { return Ok(None) };
        let waited = timeout(self.config.timeouts.first_byte, Arc::clone(slots).acquire_owned()).await;
        // A slot that came in time from a semaphore that is never closed is always a permit.
        if let Ok(Ok(permit)) = waited {
            return Ok(Some(permit));
        }
        let message = format!("too many requests to {} at once", self.host);
        let mut error = UnifiedError::new(ErrorCategory::Limit, "concurrency", message);
        error.retryable = true;
        Err(error)
    }

    /// After an attempt that failed: waits until the next one, or gives the error back when there is none.
    pub(crate) async fn wait_after(&self, call: &UpstreamCall, attempt: &mut u32, error: UnifiedError) -> Result<(), UnifiedError> {
        let Some(wait) = self.config.retry.wait(&call.request_id, *attempt, &error) else {
            return Err(error);
        };
        tracing::info!(operation = %call.operation_id, host = %self.host, attempt, code = %error.code, wait_ms = wait.as_millis(), "provider request is sent again");
        tokio::time::sleep(wait).await;
        *attempt += 1;
        Ok(())
    }

    /// When the first byte must be there of an answer to a request that is sent at this moment.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.config.timeouts.first_byte
    }

    /// Headers of a request, but for the credential and the type of the body.
    pub(crate) fn headers(&self, client_headers: &[(String, String)], stream: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.config.filter.apply(client_headers, &mut headers);
        headers.insert(
            ACCEPT,
            HeaderValue::from_static(if stream { "text/event-stream" } else { "application/json" }),
        );
        for (name, value) in self.config.kind.fixed_headers() {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    /// A request, without headers.
    pub(crate) fn request(&self, method: Method, url: reqwest::Url) -> reqwest::RequestBuilder {
        self.client.request(method, url)
    }

    /// The key, or a token that is good now.
    async fn credential(&self) -> Result<Option<Credential>, UnifiedError> {
        match &self.config.grant {
            Some(grant) => grant.token().await.map(Some),
            None => Ok(self.config.credential.clone()),
        }
    }

    /// Sends one request: the head of a 2xx answer, or an error.
    pub(crate) async fn send(
        &self,
        request: reqwest::RequestBuilder,
        mut headers: HeaderMap,
        deadline: Instant,
    ) -> Result<Answer, UnifiedError> {
        let credential = self.credential().await?;
        if let Some(credential) = &credential {
            let carrier = self.config.kind.credential_header();
            headers.insert(HeaderName::from_static(carrier.name), credential.header(carrier.prefix)?);
        }
        let response = timeout_at(deadline, request.headers(headers).send())
            .await
            .map_err(|_| self.first_byte_timeout())?
            .map_err(|error| transport::send_error(&self.host, &error))?;
        if response.status().is_success() {
            return Ok(Answer { response, credential });
        }
        let (status, mut advice) = (response.status().as_u16(), transport::error_headers(response.headers()));
        advice.request_id = clean_text(credential.as_ref(), advice.request_id.take());
        let body = timeout(ERROR_BODY_TIMEOUT, read_beginning(response)).await.unwrap_or_default();
        let body = clean(credential.as_ref(), body);
        if let (401, Some(grant), Some(credential)) = (status, &self.config.grant, &credential) {
            grant.forget(credential).await;
        }
        let mut error = self.config.codec.decode_error(status, &advice, &body);
        error.http_status.get_or_insert(u64::from(status));
        error.provider_request_id = error.provider_request_id.or(advice.request_id);
        error.retry_after_ms = error.retry_after_ms.or(advice.retry_after_ms);
        error.retryable = advice.should_retry.unwrap_or(error.retryable);
        Err(error)
    }

    /// The whole body of an answer.
    ///
    /// # Errors
    /// `limit.answer` beyond the limit, `network.connection-lost` and `timeout.idle` when it does not come to its end.
    pub(crate) async fn whole(&self, answer: Answer, limit: usize) -> Result<Bytes, UnifiedError> {
        let body = read_whole(answer.response, &self.host, limit, self.config.timeouts.idle).await?;
        Ok(clean(answer.credential.as_ref(), body))
    }

    /// A late answer is no reason to send again: the provider may still be working on the first request.
    pub(crate) fn first_byte_timeout(&self) -> UnifiedError {
        let mut error = UnifiedError::new(
            ErrorCategory::Timeout,
            "first-byte",
            format!("{} did not begin to answer in time", self.host),
        );
        error.retryable = false;
        error
    }

    /// The error for a body that fell silent.
    pub(crate) fn idle_timeout(&self) -> UnifiedError {
        silent(&self.host)
    }
}

fn silent(host: &str) -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::Timeout,
        "idle",
        format!("{host} stopped in the middle of the answer"),
    )
}

/// A header value without the credential that the request had.
fn clean_text(credential: Option<&Credential>, text: Option<String>) -> Option<String> {
    text.map(|text| credential.map_or_else(|| text.clone(), |c| c.redact(&text)))
}

/// A body without the credential that the request had.
fn clean(credential: Option<&Credential>, body: Bytes) -> Bytes {
    match credential.and_then(Credential::redactable) {
        Some(secret) => Redactor::whole(secret, body),
        None => body,
    }
}

/// A client with its own connection pool. It follows no redirect and reads no proxy setting of the environment.
pub(crate) fn http_client(timeouts: &Timeouts) -> Result<reqwest::Client, UnifiedError> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(timeouts.connect)
        .user_agent(concat!("throughline/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|_| {
            UnifiedError::new(
                ErrorCategory::Internal,
                "http-client",
                "the HTTP client could not be made; are the system's certificates readable?",
            )
        })
}

/// The beginning of the body of an error answer, as far as it comes: an error is worth telling without its whole text.
pub(crate) async fn read_beginning(mut response: reqwest::Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    body.freeze()
}

/// A whole body; `idle` is for each of its pieces.
///
/// # Errors
/// As those of [`Account::whole`].
pub(crate) async fn read_whole(mut response: reqwest::Response, host: &str, limit: usize, idle: Duration) -> Result<Bytes, UnifiedError> {
    let mut body = BytesMut::new();
    loop {
        let piece = timeout(idle, response.chunk()).await.map_err(|_| silent(host))?;
        let Some(piece) = piece.map_err(|error| transport::body_error(host, &error))? else {
            return Ok(body.freeze());
        };
        if body.len() + piece.len() > limit {
            let message = format!("the answer of {host} is over the limit of {limit} bytes");
            return Err(UnifiedError::new(ErrorCategory::Limit, "answer", message));
        }
        body.extend_from_slice(&piece);
    }
}
