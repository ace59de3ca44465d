//! Cursor's Cloud Agents: a prompt begins a run, the run is followed over as many connections as it takes.
//!
//! One call is: a new agent, or another run of the agent that the body names; then its stream, gone on with after a broken
//! connection; then, when the stream is no longer kept, the run itself, asked for again and again; at the end the agent's
//! counters. Dropping the body cancels the run, since it would go on without anybody.

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::redact::Redactor;
use crate::retry::RetryPolicy;
use crate::transport;
use crate::upstream::{Timeouts, UpstreamConfig, http_client, read_bounded};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use throughline_engine::ports::{ResumeCall, Upstream, UpstreamCall, UpstreamReply};
use throughline_format::{ErrorCategory, UnifiedError};
use throughline_protocols::Codec;
use throughline_protocols::cursor_sdk::cloud::{Begun, Follower, Polled, Prompt, code_of, end_frame, is_passing};
use throughline_protocols::sse::SseParser;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};

/// Frames between the follower and whoever reads the answer.
const CHANNEL: usize = 8;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How a run is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowPolicy {
    /// Connections in a row that may bring nothing new before the run itself is asked for.
    pub reconnects: u32,
    /// Wait before the first of them; it doubles.
    pub first_wait: Duration,
    /// Longest wait.
    pub max_wait: Duration,
    /// Between two questions how a run stands.
    pub poll: Duration,
    /// For the whole run.
    pub deadline: Duration,
}

impl Default for FollowPolicy {
    /// What the vendor's own SDK does.
    fn default() -> Self {
        Self {
            reconnects: 6,
            first_wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(30),
            poll: Duration::from_secs(15),
            deadline: Duration::from_hours(2),
        }
    }
}

/// The driver of one account.
#[derive(Clone)]
pub(crate) struct CursorUpstream(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    host: String,
    credential: Option<Credential>,
    codec: Arc<dyn Codec>,
    client: reqwest::Client,
    timeouts: Timeouts,
    retry: RetryPolicy,
    follow: FollowPolicy,
    slots: Option<Arc<Semaphore>>,
}

impl CursorUpstream {
    pub(crate) fn new(config: UpstreamConfig, follow: FollowPolicy) -> Result<Self, UnifiedError> {
        Ok(Self(Arc::new(Inner {
            host: config.endpoint.host(),
            client: http_client(&config.timeouts)?,
            endpoint: config.endpoint,
            credential: config.credential,
            codec: config.codec,
            timeouts: config.timeouts,
            retry: config.retry,
            follow,
            slots: config.max_concurrency.map(|limit| Arc::new(Semaphore::new(limit))),
        })))
    }
}

impl Upstream for CursorUpstream {
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.call(call).await })
    }

    /// Follows a run that was begun before, from the begin of its stream.
    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let [agent, run] = call.job.ids.as_slice() else {
                return Err(UnifiedError::new(
                    ErrorCategory::Internal,
                    "resume",
                    "a run is named by its agent and its own ID",
                ));
            };
            let begun = Begun {
                agent: agent.clone(),
                run: run.clone(),
            };
            let permit = inner.permit().await?;
            Ok(inner.reply(begun, permit, None))
        })
    }
}

impl Inner {
    async fn call(self: &Arc<Self>, call: UpstreamCall) -> Result<UpstreamReply, UnifiedError> {
        let permit = self.permit().await?;
        let prompt = Prompt::of(&call.body)?;
        let mut attempt = 1;
        let (begun, provider_request_id) = loop {
            let error = match self.begin(&prompt, &call).await {
                Ok(begun) => break begun,
                Err(error) => error,
            };
            let Some(wait) = self.retry.wait(&call.request_id, attempt, &error) else {
                return Err(error);
            };
            sleep(wait).await;
            attempt += 1;
        };
        Ok(self.reply(begun, permit, provider_request_id))
    }

    /// Waits for a free slot, at most as long as for an answer.
    async fn permit(&self) -> Result<Option<OwnedSemaphorePermit>, UnifiedError> {
        let Some(slots) = &self.slots else { return Ok(None) };
        let Ok(Ok(permit)) = timeout(self.timeouts.first_byte, Arc::clone(slots).acquire_owned()).await else {
            let message = format!("too many requests to {} at once", self.host);
            let mut error = UnifiedError::new(ErrorCategory::Limit, "concurrency", message);
            error.retryable = true;
            return Err(error);
        };
        Ok(Some(permit))
    }

    /// The answer of a run: what its follower tells.
    fn reply(self: &Arc<Self>, begun: Begun, permit: Option<OwnedSemaphorePermit>, provider_request_id: Option<String>) -> UpstreamReply {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let is_over = Arc::new(AtomicBool::new(false));
        let guard = CancelOnDrop {
            inner: Arc::clone(self),
            begun: begun.clone(),
            is_over: Arc::clone(&is_over),
        };
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let _permit = permit;
            inner.follow(&begun, &is_over, sender).await;
        });
        let body = futures_util::stream::unfold((receiver, guard), |(mut receiver, guard)| async move {
            let next = receiver.recv().await?;
            Some((next, (receiver, guard)))
        });
        UpstreamReply {
            is_stream: true,
            provider_request_id,
            body: body.boxed(),
        }
    }

    /// Sends the prompt. The key makes a second attempt harmless: the first one may have begun the run.
    async fn begin(&self, prompt: &Prompt, call: &UpstreamCall) -> Result<(Begun, Option<String>), UnifiedError> {
        let request = self
            .request(Method::POST, &prompt.path())?
            .header(CONTENT_TYPE, "application/json")
            .header(IDEMPOTENCY_KEY, call.request_id.as_str())
            .body(prompt.body.clone());
        let response = self.send(request).await?;
        let id = transport::request_id(response.headers());
        let body = self.body(response).await?;
        Ok((Begun::of(&body)?, id))
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, UnifiedError> {
        let mut request = self.client.request(method, self.endpoint.join_encoded(path)?);
        if let Some(credential) = &self.credential {
            request = request.header(AUTHORIZATION, credential.header("Bearer ")?);
        }
        Ok(request)
    }

    /// The head of a 2xx answer, or an error.
    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, UnifiedError> {
        let response = timeout(self.timeouts.first_byte, request.send())
            .await
            .map_err(|_| self.late("first-byte", "did not begin to answer in time"))?
            .map_err(|error| transport::send_error(&self.host, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, advice) = (response.status().as_u16(), transport::error_headers(response.headers()));
        let body = self.clean(timeout(self.timeouts.idle, read_bounded(response)).await.unwrap_or_default());
        Err(self.codec.decode_error(status, &advice, &body))
    }

    async fn body(&self, response: reqwest::Response) -> Result<Bytes, UnifiedError> {
        let body = timeout(self.timeouts.idle, read_bounded(response))
            .await
            .map_err(|_| self.late("idle", "stopped in the middle of the answer"))?;
        Ok(self.clean(body))
    }

    fn clean(&self, body: Bytes) -> Bytes {
        match self.credential.as_ref().and_then(Credential::redactable) {
            Some(secret) => Redactor::whole(secret, body),
            None => body,
        }
    }

    fn late(&self, detail: &str, what: &str) -> UnifiedError {
        UnifiedError::new(ErrorCategory::Timeout, detail, format!("{} {what}", self.host))
    }

    /// Follows a run to its end; whoever reads may go away at any time.
    async fn follow(&self, begun: &Begun, is_over: &AtomicBool, sender: mpsc::Sender<Result<Bytes, UnifiedError>>) {
        let told = async {
            tell(&sender, begun.frame()).await?;
            self.stream(begun, &sender).await?;
            is_over.store(true, Ordering::Relaxed);
            // Counters come a while after the run, and nothing depends on them.
            if let Ok(response) = self.send(self.request(Method::GET, &begun.usage_path())?).await
                && let Ok(body) = self.body(response).await
                && let Some(frame) = begun.usage_frame(&body)
            {
                tell(&sender, frame).await?;
            }
            tell(&sender, end_frame()).await
        };
        if let Err(Stop::Failed(error)) = told.await {
            let _ = sender.send(Err(*error)).await;
        }
    }

    async fn stream(&self, begun: &Begun, sender: &mpsc::Sender<Result<Bytes, UnifiedError>>) -> Result<(), Stop> {
        let deadline = Instant::now() + self.follow.deadline;
        let (mut follower, mut failures) = (Follower::default(), 0);
        loop {
            if Instant::now() >= deadline {
                return Err(self.late("deadline", "did not end the run in time").into());
            }
            match self.connection(begun, &mut follower, sender).await {
                Ok(_) if follower.is_done() => return Ok(()),
                Ok(true) => failures = 0,
                Ok(false) => {}
                Err(Stop::Failed(error)) => match (code_of(&error), error.category) {
                    ("invalid_last_event_id", _) => follower.restart(),
                    ("stream_expired", _) => return self.poll(begun, deadline, sender).await,
                    (_, ErrorCategory::Auth | ErrorCategory::Permission | ErrorCategory::NotFound) => return Err(Stop::Failed(error)),
                    _ => {}
                },
                Err(Stop::Gone) => return Err(Stop::Gone),
            }
            failures += 1;
            if failures > self.follow.reconnects {
                return self.poll(begun, deadline, sender).await;
            }
            let doubled = self.follow.first_wait.saturating_mul(1 << (failures - 1).min(16));
            sleep(doubled.min(self.follow.max_wait)).await;
        }
    }

    /// One connection to the stream; tells whether it brought anything new.
    async fn connection(
        &self,
        begun: &Begun,
        follower: &mut Follower,
        sender: &mpsc::Sender<Result<Bytes, UnifiedError>>,
    ) -> Result<bool, Stop> {
        let mut request = self
            .request(Method::GET, &begun.path("/stream"))?
            .header(ACCEPT, "text/event-stream");
        if let Some(cursor) = follower.cursor().and_then(|cursor| HeaderValue::from_str(cursor).ok()) {
            request = request.header(LAST_EVENT_ID, cursor);
        }
        let response = self.send(request).await?;
        let (mut chunks, mut parser, mut is_new) = (response.bytes_stream(), SseParser::new(), false);
        let mut redactor = self.credential.as_ref().and_then(Credential::redactable).map(Redactor::new);
        loop {
            // However a connection ends: the next one goes on.
            let Ok(Some(Ok(chunk))) = timeout(self.timeouts.idle, chunks.next()).await else {
                return Ok(is_new);
            };
            let chunk = redactor
                .as_mut()
                .map_or_else(|| chunk.clone(), |redactor| redactor.push(chunk.clone()));
            for event in parser.push(&chunk) {
                let event = event.map_err(UnifiedError::from)?;
                if event.event.as_deref() == Some("error") && is_passing(&event) {
                    return Ok(is_new);
                }
                let has_id = event.id.is_some();
                if let Some(frame) = follower.take(&event) {
                    is_new |= has_id;
                    tell(sender, frame).await?;
                }
                if follower.is_done() {
                    return Ok(true);
                }
            }
        }
    }

    /// Asks how the run stands until it has ended.
    async fn poll(&self, begun: &Begun, deadline: Instant, sender: &mpsc::Sender<Result<Bytes, UnifiedError>>) -> Result<(), Stop> {
        loop {
            match self.send(self.request(Method::GET, &begun.path(""))?).await {
                Ok(response) => {
                    let polled = Polled::of(&self.body(response).await?)?;
                    if polled.is_terminal {
                        return tell(sender, polled.frames).await;
                    }
                }
                Err(error) if error.retryable => {}
                Err(error) => return Err(error.into()),
            }
            if Instant::now() >= deadline {
                return Err(self.late("deadline", "did not end the run in time").into());
            }
            tokio::select! {
                () = sleep(self.follow.poll) => {}
                () = sender.closed() => return Err(Stop::Gone),
            }
        }
    }

    /// Cancels a run; one that has ended refuses, which is fine.
    async fn cancel(&self, begun: &Begun) {
        let Ok(request) = self.request(Method::POST, &begun.path("/cancel")) else {
            return;
        };
        match self.send(request).await {
            Ok(_) => {}
            Err(error) if error.http_status == Some(u64::from(StatusCode::CONFLICT.as_u16())) => {}
            Err(error) => tracing::warn!(host = %self.host, code = %error.code, "a run could not be cancelled"),
        }
    }
}

/// Why a run is no longer followed.
enum Stop {
    /// Nobody reads.
    Gone,
    /// It cannot go on.
    Failed(Box<UnifiedError>),
}

impl From<UnifiedError> for Stop {
    fn from(error: UnifiedError) -> Self {
        Self::Failed(Box::new(error))
    }
}

async fn tell(sender: &mpsc::Sender<Result<Bytes, UnifiedError>>, frame: String) -> Result<(), Stop> {
    sender.send(Ok(Bytes::from(frame))).await.map_err(|_| Stop::Gone)
}

/// Cancels the run when the body is dropped before its end.
struct CancelOnDrop {
    inner: Arc<Inner>,
    begun: Begun,
    is_over: Arc<AtomicBool>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (inner, begun) = (Arc::clone(&self.inner), self.begun.clone());
            runtime.spawn(async move { inner.cancel(&begun).await });
        }
    }
}
