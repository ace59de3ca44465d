//! [`HttpUpstream`]: one account of one provider over HTTP. Sends, retries before the first byte, watches over the body.

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::grant::Grant;
use crate::headers::HeaderFilter;
use crate::kind::ProviderKind;
use crate::redact::Redactor;
use crate::retry::RetryPolicy;
use crate::transport;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::ports::{ResumeCall, Upstream, UpstreamCall, UpstreamReply};
use throughline_format::{ErrorCategory, UnifiedError};
use throughline_protocols::Codec;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Most bytes of an error answer that are read.
const MAX_ERROR_BYTES: usize = 256 * 1024;
/// Longest time for reading an error answer.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the driver waits.
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

/// What a driver needs.
pub(crate) struct UpstreamConfig {
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

/// A driver for one account. Cloning shares connections and limits.
#[derive(Clone)]
pub struct HttpUpstream(Arc<Inner>);

struct Inner {
    config: UpstreamConfig,
    host: String,
    client: reqwest::Client,
    slots: Option<Arc<Semaphore>>,
}

impl std::fmt::Debug for HttpUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpUpstream")
            .field("kind", &self.0.config.kind)
            .field("host", &self.0.host)
            .finish_non_exhaustive()
    }
}

impl HttpUpstream {
    /// A driver with its own connection pool.
    pub(crate) fn new(config: UpstreamConfig) -> Result<Self, UnifiedError> {
        let client = http_client(&config.timeouts)?;
        let slots = config.max_concurrency.map(|limit| Arc::new(Semaphore::new(limit)));
        Ok(Self(Arc::new(Inner {
            host: config.endpoint.host(),
            client,
            slots,
            config,
        })))
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

impl Upstream for HttpUpstream {
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.call(call).await })
    }

    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.resume(&call).await })
    }
}

impl Inner {
    async fn call(self: &Arc<Self>, call: UpstreamCall) -> Result<UpstreamReply, UnifiedError> {
        let permit = self.slot().await?;
        let mut headers = self.headers(&call.client_headers, call.stream);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut attempt = 1;
        let (response, credential, deadline) = loop {
            let deadline = Instant::now() + self.config.timeouts.first_byte;
            let error = match self.send(&call, headers.clone(), deadline).await {
                Ok((response, credential)) => break (response, credential, deadline),
                Err(error) => error,
            };
            let Some(wait) = self.config.retry.wait(&call.request_id, attempt, &error) else {
                return Err(error);
            };
            tracing::info!(operation = %call.operation_id, host = %self.host, attempt, code = %error.code, wait_ms = wait.as_millis(), "provider request is sent again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        };
        Ok(self.reply(response, credential.as_ref(), deadline, call.stream, permit))
    }

    /// Reads the stream of stored work again. Whoever asks tries again by itself.
    async fn resume(self: &Arc<Self>, call: &ResumeCall) -> Result<UpstreamReply, UnifiedError> {
        let Some((path, query)) = self.config.kind.resume_path(&call.job, call.after.as_deref()) else {
            let message = format!("{} keeps no work that could be read again", self.host);
            return Err(UnifiedError::new(ErrorCategory::Unsupported, "resume", message));
        };
        let permit = self.slot().await?;
        let mut url = self.config.endpoint.join_encoded(&path)?;
        url.set_query(Some(&query));
        let deadline = Instant::now() + self.config.timeouts.first_byte;
        let (response, credential) = self.head(self.client.get(url), self.headers(&[], true), deadline).await?;
        Ok(self.reply(response, credential.as_ref(), deadline, true, permit))
    }

    fn reply(
        self: &Arc<Self>,
        response: reqwest::Response,
        credential: Option<&Credential>,
        deadline: Instant,
        is_asked_as_stream: bool,
        permit: Option<OwnedSemaphorePermit>,
    ) -> UpstreamReply {
        let is_stream = is_event_stream(response.headers(), is_asked_as_stream);
        let provider_request_id = clean_text(credential, transport::request_id(response.headers()));
        let body = Body {
            inner: Arc::clone(self),
            chunks: response.bytes_stream().boxed(),
            wait: WaitUntil::FirstByte(deadline),
            redactor: credential.and_then(Credential::redactable).map(Redactor::new),
            _permit: permit,
        };
        UpstreamReply {
            is_stream,
            provider_request_id,
            body: body.into_stream(),
        }
    }

    /// Waits for a free slot, at most as long as for an answer.
    async fn slot(&self) -> Result<Option<OwnedSemaphorePermit>, UnifiedError> {
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

    /// Headers of a request, but for the credential and the type of the body.
    fn headers(&self, client_headers: &[(String, String)], stream: bool) -> HeaderMap {
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

    /// The key, or a token that is good now.
    async fn credential(&self) -> Result<Option<Credential>, UnifiedError> {
        match &self.config.grant {
            Some(grant) => grant.token().await.map(Some),
            None => Ok(self.config.credential.clone()),
        }
    }

    /// Where a request for a model goes.
    fn url(&self, call: &UpstreamCall) -> Result<reqwest::Url, UnifiedError> {
        let Some((path, query)) = self.config.kind.path(&call.model, call.stream) else {
            let message = "the model's name cannot stand in an address";
            return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message).at("/model"));
        };
        let mut url = self.config.endpoint.join(&path);
        url.set_query(query);
        Ok(url)
    }

    /// One attempt: the head of a 2xx answer with the credential that it was asked with, or an error.
    async fn send(
        &self,
        call: &UpstreamCall,
        headers: HeaderMap,
        deadline: Instant,
    ) -> Result<(reqwest::Response, Option<Credential>), UnifiedError> {
        let request = self.client.post(self.url(call)?).body(call.body.clone());
        self.head(request, headers, deadline).await
    }

    /// Sends one request: the head of a 2xx answer with the credential that it was asked with, or an error.
    async fn head(
        &self,
        request: reqwest::RequestBuilder,
        mut headers: HeaderMap,
        deadline: Instant,
    ) -> Result<(reqwest::Response, Option<Credential>), UnifiedError> {
        let credential = self.credential().await?;
        if let Some(credential) = &credential {
            let carrier = self.config.kind.credential_header();
            headers.insert(HeaderName::from_static(carrier.name), credential.header(carrier.prefix)?);
        }
        let response = tokio::time::timeout_at(deadline, request.headers(headers).send())
            .await
            .map_err(|_| self.first_byte_timeout())?
            .map_err(|error| transport::send_error(&self.host, &error))?;
        if response.status().is_success() {
            return Ok((response, credential));
        }
        let (status, mut advice) = (response.status().as_u16(), transport::error_headers(response.headers()));
        advice.request_id = clean_text(credential.as_ref(), advice.request_id.take());
        let body = timeout(ERROR_BODY_TIMEOUT, read_bounded(response)).await.unwrap_or_default();
        let body = match credential.as_ref().and_then(Credential::redactable) {
            Some(secret) => Redactor::whole(secret, body),
            None => body,
        };
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

    /// A late answer is no reason to send again: the provider may still be working on the first request.
    fn first_byte_timeout(&self) -> UnifiedError {
        let mut error = UnifiedError::new(
            ErrorCategory::Timeout,
            "first-byte",
            format!("{} did not begin to answer in time", self.host),
        );
        error.retryable = false;
        error
    }

    fn idle_timeout(&self) -> UnifiedError {
        UnifiedError::new(
            ErrorCategory::Timeout,
            "idle",
            format!("{} stopped in the middle of the answer", self.host),
        )
    }
}

/// A header value without the credential that the request had.
fn clean_text(credential: Option<&Credential>, text: Option<String>) -> Option<String> {
    text.map(|text| credential.map_or_else(|| text.clone(), |c| c.redact(&text)))
}

/// Servers of the chat protocol exist that forget the content type of a stream, so a body that was asked for as a stream
/// counts as one unless it says that it is JSON.
fn is_event_stream(headers: &HeaderMap, asked: bool) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    content_type.starts_with("text/event-stream") || (asked && !content_type.contains("json"))
}

/// A body up to the bound of error answers.
pub(crate) async fn read_bounded(mut response: reqwest::Response) -> Bytes {
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

#[derive(Clone, Copy)]
enum WaitUntil {
    FirstByte(Instant),
    Idle,
}

/// The body of an answer with its time bounds; it ends after the first error. Dropping it closes the connection and frees the slot.
struct Body {
    inner: Arc<Inner>,
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    wait: WaitUntil,
    redactor: Option<Redactor>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Body {
    fn into_stream(self) -> BoxStream<'static, Result<Bytes, UnifiedError>> {
        futures_util::stream::unfold(Some(self), |body| async move {
            let mut body = body?;
            loop {
                match body.next().await {
                    Some(Ok(chunk)) => {
                        let clean = body.redactor.as_mut().map_or_else(|| chunk.clone(), |r| r.push(chunk.clone()));
                        // A piece of which everything is held back gives nothing yet.
                        if !clean.is_empty() || chunk.is_empty() {
                            return Some((Ok(clean), Some(body)));
                        }
                    }
                    Some(Err(error)) => return Some((Err(error), None)),
                    None => {
                        let rest = body.redactor.as_mut().map(Redactor::finish).filter(|rest| !rest.is_empty())?;
                        return Some((Ok(rest), None));
                    }
                }
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Bytes, UnifiedError>> {
        let waited = match self.wait {
            WaitUntil::FirstByte(deadline) => tokio::time::timeout_at(deadline, self.chunks.next())
                .await
                .map_err(|_| self.inner.first_byte_timeout()),
            WaitUntil::Idle => timeout(self.inner.config.timeouts.idle, self.chunks.next())
                .await
                .map_err(|_| self.inner.idle_timeout()),
        };
        self.wait = WaitUntil::Idle;
        match waited {
            Ok(chunk) => chunk.map(|chunk| chunk.map_err(|error| transport::body_error(&self.inner.host, &error))),
            Err(error) => Some(Err(error)),
        }
    }
}
