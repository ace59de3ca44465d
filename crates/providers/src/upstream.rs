//! [`HttpUpstream`]: one account of one provider over HTTP. Sends, retries before the first byte, watches over the body.

use crate::account::{Account, Answer};
use crate::redact::Redactor;
use crate::transport;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use std::sync::Arc;
use throughline_engine::ports::{ResumeCall, Upstream, UpstreamCall, UpstreamReply};
use throughline_format::{ErrorCategory, UnifiedError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};

/// A driver for one account. Cloning shares connections and limits.
#[derive(Clone)]
pub struct HttpUpstream(Arc<Account>);

impl std::fmt::Debug for HttpUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpUpstream")
            .field("kind", &self.0.config.kind)
            .field("host", &self.0.host())
            .finish_non_exhaustive()
    }
}

impl HttpUpstream {
    pub(crate) fn new(account: Account) -> Self {
        Self(Arc::new(account))
    }
}

impl Upstream for HttpUpstream {
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let account = Arc::clone(&self.0);
        Box::pin(async move { send(&account, call).await })
    }

    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let account = Arc::clone(&self.0);
        Box::pin(async move { resume(&account, &call).await })
    }
}

async fn send(account: &Arc<Account>, call: UpstreamCall) -> Result<UpstreamReply, UnifiedError> {
    let permit = account.slot().await?;
    let mut headers = account.headers(&call.client_headers, call.stream);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut attempt = 1;
    loop {
        let deadline = account.deadline();
        let request = account.request(Method::POST, url(account, &call)?).body(call.body.clone());
        match account.send(request, headers.clone(), deadline).await {
            Ok(answer) => return Ok(reply(account, answer, deadline, call.stream, permit)),
            Err(error) => account.wait_after(&call, &mut attempt, error).await?,
        }
    }
}

/// Reads the stream of stored work again. Whoever asks tries again by itself.
async fn resume(account: &Arc<Account>, call: &ResumeCall) -> Result<UpstreamReply, UnifiedError> {
    let Some((path, query)) = account.config.kind.resume_path(&call.job, call.after.as_deref()) else {
        let message = format!("{} keeps no work that could be read again", account.host());
        return Err(UnifiedError::new(ErrorCategory::Unsupported, "resume", message));
    };
    let permit = account.slot().await?;
    let mut url = account.config.endpoint.join_encoded(&path)?;
    url.set_query(Some(&query));
    let deadline = account.deadline();
    let answer = account
        .send(account.request(Method::GET, url), account.headers(&[], true), deadline)
        .await?;
    Ok(reply(account, answer, deadline, true, permit))
}

fn reply(
    account: &Arc<Account>,
    answer: Answer,
    deadline: Instant,
    is_asked_as_stream: bool,
    permit: Option<OwnedSemaphorePermit>,
) -> UpstreamReply {
    let (provider_request_id, redactor) = (answer.request_id(), answer.redactor());
    let is_stream = is_event_stream(answer.response.headers(), is_asked_as_stream);
    let body = Body {
        account: Arc::clone(account),
        chunks: answer.response.bytes_stream().boxed(),
        wait: WaitUntil::FirstByte(deadline),
        redactor,
        _permit: permit,
    };
    UpstreamReply {
        is_stream,
        provider_request_id,
        body: body.into_stream(),
    }
}

/// Where a request for a model goes.
fn url(account: &Account, call: &UpstreamCall) -> Result<reqwest::Url, UnifiedError> {
    let Some((path, query)) = account.config.kind.path(&call.model, call.stream) else {
        let message = "the model's name cannot stand in an address";
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message).at("/model"));
    };
    let mut url = account.config.endpoint.join(&path);
    url.set_query(query);
    Ok(url)
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

#[derive(Clone, Copy)]
enum WaitUntil {
    FirstByte(Instant),
    Idle,
}

/// The body of an answer with its time bounds; it ends after the first error. Dropping it closes the connection and frees the slot.
struct Body {
    account: Arc<Account>,
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
                .map_err(|_| self.account.first_byte_timeout()),
            WaitUntil::Idle => timeout(self.account.config.timeouts.idle, self.chunks.next())
                .await
                .map_err(|_| self.account.idle_timeout()),
        };
        self.wait = WaitUntil::Idle;
        match waited {
            Ok(chunk) => chunk.map(|chunk| chunk.map_err(|error| transport::body_error(self.account.host(), &error))),
            Err(error) => Some(Err(error)),
        }
    }
}
