//! Cursor's Cloud Agents: a prompt begins a run, the run is followed over as many connections as it takes.
//!
//! One call is: a new agent, or another run of the agent that the body names; then its stream, gone on with after a broken
//! connection; then, when the stream is no longer kept, the run itself, asked for again and again; at the end the agent's
//! counters. Dropping the body cancels the run, since it would go on without anybody.

use crate::account::{Account, Answer};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use throughline_engine::ports::{ResumeCall, Upstream, UpstreamCall, UpstreamReply};
use throughline_format::{ErrorCategory, UnifiedError};
use throughline_protocols::cursor_sdk::cloud::{Begun, Follower, Polled, Prompt, code_of, end_frame, is_passing};
use throughline_protocols::sse::SseParser;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep, timeout};

/// Most bytes of one answer that is no stream: a run tells its whole text when it is asked for.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;
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
    account: Account,
    follow: FollowPolicy,
}

impl CursorUpstream {
    pub(crate) fn new(account: Account, follow: FollowPolicy) -> Self {
        Self(Arc::new(Inner { account, follow }))
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
            let permit = inner.account.slot().await?;
            Ok(inner.reply(begun, permit, None))
        })
    }
}

impl Inner {
    async fn call(self: &Arc<Self>, call: UpstreamCall) -> Result<UpstreamReply, UnifiedError> {
        let permit = self.account.slot().await?;
        let prompt = Prompt::of(&call.body)?;
        let mut attempt = 1;
        loop {
            match self.begin(&prompt, &call).await {
                Ok((begun, provider_request_id)) => return Ok(self.reply(begun, permit, provider_request_id)),
                Err(error) => self.account.wait_after(&call, &mut attempt, error).await?,
            }
        }
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

    /// Sends the prompt.
    async fn begin(&self, prompt: &Prompt, call: &UpstreamCall) -> Result<(Begun, Option<String>), UnifiedError> {
        let mut headers = self.account.headers(&[], false);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(key) = HeaderValue::from_str(call.request_id.as_str()) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let answer = self.send(Method::POST, &prompt.path(), headers, Some(prompt.body.clone())).await?;
        let id = answer.request_id();
        let body = self.account.whole(answer, MAX_ANSWER_BYTES).await?;
        Ok((Begun::of(&body)?, id))
    }

    /// The head of a 2xx answer, or an error.
    async fn send(&self, method: Method, path: &str, headers: HeaderMap, body: Option<String>) -> Result<Answer, UnifiedError> {
        let account = &self.account;
        let mut request = account.request(method, account.config.endpoint.join_encoded(path)?);
        if let Some(body) = body {
            request = request.body(body);
        }
        let sent = account.send(request, headers, account.deadline()).await;
        sent.map_err(|mut error| {
            // Here a second attempt is harmless: a prompt has its key, everything else may be asked for again.
            error.retryable |= error.code == "timeout.first-byte";
            error
        })
    }

    /// The whole of a 2xx answer to a question.
    async fn ask(&self, path: &str) -> Result<Bytes, UnifiedError> {
        let answer = self.send(Method::GET, path, self.account.headers(&[], false), None).await?;
        self.account.whole(answer, MAX_ANSWER_BYTES).await
    }

    fn overdue(&self) -> UnifiedError {
        let message = format!("{} did not end the run in time", self.account.host());
        UnifiedError::new(ErrorCategory::Timeout, "deadline", message)
    }

    /// Follows a run to its end; whoever reads may go away at any time.
    async fn follow(&self, begun: &Begun, is_over: &AtomicBool, sender: mpsc::Sender<Result<Bytes, UnifiedError>>) {
        let told = async {
            tell(&sender, begun.frame()).await?;
            self.stream(begun, &sender).await?;
            is_over.store(true, Ordering::Relaxed);
            // Counters come a while after the run, and nothing depends on them.
            if let Ok(body) = self.ask(&begun.usage_path()).await
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
                return Err(self.overdue().into());
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
        let mut headers = self.account.headers(&[], true);
        if let Some(cursor) = follower.cursor().and_then(|cursor| HeaderValue::from_str(cursor).ok()) {
            headers.insert(LAST_EVENT_ID, cursor);
        }
        let answer = self.send(Method::GET, &begun.path("/stream"), headers, None).await?;
        let mut redactor = answer.redactor();
        let (mut chunks, mut parser, mut is_new) = (answer.response.bytes_stream(), SseParser::new(), false);
        loop {
            // However a connection ends: the next one goes on.
            let Ok(Some(Ok(chunk))) = timeout(self.account.config.timeouts.idle, chunks.next()).await else {
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
            match self.ask(&begun.path("")).await {
                Ok(body) => {
                    let polled = Polled::of(&body)?;
                    if polled.is_terminal {
                        return tell(sender, polled.frames).await;
                    }
                }
                Err(error) if error.retryable => {}
                Err(error) => return Err(error.into()),
            }
            if Instant::now() >= deadline {
                return Err(self.overdue().into());
            }
            tokio::select! {
                () = sleep(self.follow.poll) => {}
                () = sender.closed() => return Err(Stop::Gone),
            }
        }
    }

    /// Cancels a run; one that has ended refuses, which is fine.
    async fn cancel(&self, begun: &Begun) {
        let headers = self.account.headers(&[], false);
        match self.send(Method::POST, &begun.path("/cancel"), headers, None).await {
            Ok(_) => {}
            Err(error) if error.http_status == Some(u64::from(StatusCode::CONFLICT.as_u16())) => {}
            Err(error) => tracing::warn!(host = %self.account.host(), code = %error.code, "a run could not be cancelled"),
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
