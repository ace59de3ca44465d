//! [`Recorded`]: a driver whose raw bodies are kept for people who look for a fault. Opt-in; nothing reads them back.

use crate::ports::{Clock, ResumeCall, Upstream, UpstreamCall, UpstreamReply};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use throughline_format::{UnifiedError, UnifiedId};
use throughline_store::{Diagnostic, DiagnosticFiles, Direction};

/// Keeps the bodies of every call of a driver, as far as their bounds go. A failure to keep one changes nothing for the turn.
pub struct Recorded {
    upstream: Arc<dyn Upstream>,
    files: Arc<DiagnosticFiles>,
    clock: Arc<dyn Clock>,
}

impl Recorded {
    /// The driver with its bodies kept in these files.
    pub fn new(upstream: Arc<dyn Upstream>, files: Arc<DiagnosticFiles>, clock: Arc<dyn Clock>) -> Self {
        Self { upstream, files, clock }
    }
}

impl Upstream for Recorded {
    fn has_webhook(&self, webhook_ref: &UnifiedId) -> bool {
        self.upstream.has_webhook(webhook_ref)
    }

    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let keep = |direction, body: Bytes| Keep {
            files: Arc::clone(&self.files),
            clock: Arc::clone(&self.clock),
            conversation_id: call.conversation_id.clone(),
            operation_id: call.operation_id.clone(),
            direction,
            body: body.into(),
        };
        drop(keep(Direction::UpstreamRequest, call.body.clone()));
        let answer = keep(Direction::UpstreamResponse, Bytes::new());
        let reply = self.upstream.call(call);
        Box::pin(async move {
            let mut reply = reply.await?;
            reply.body = Box::pin(Tee { inner: reply.body, answer });
            Ok(reply)
        })
    }

    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let answer = Keep {
            files: Arc::clone(&self.files),
            clock: Arc::clone(&self.clock),
            conversation_id: call.conversation_id.clone(),
            operation_id: call.operation_id.clone(),
            direction: Direction::UpstreamResponse,
            body: Vec::new(),
        };
        let reply = self.upstream.resume(call);
        Box::pin(async move {
            let mut reply = reply.await?;
            reply.body = Box::pin(Tee { inner: reply.body, answer });
            Ok(reply)
        })
    }
}

/// A body that is stored when this is dropped: at its end, or wherever it was torn.
struct Keep {
    files: Arc<DiagnosticFiles>,
    clock: Arc<dyn Clock>,
    conversation_id: UnifiedId,
    operation_id: UnifiedId,
    direction: Direction,
    body: Vec<u8>,
}

impl Drop for Keep {
    fn drop(&mut self) {
        if self.body.is_empty() {
            return;
        }
        let files = Arc::clone(&self.files);
        let diagnostic = Diagnostic {
            conversation_id: self.conversation_id.clone(),
            operation_id: self.operation_id.clone(),
            direction: self.direction,
            created_at: self.clock.now(),
            body: std::mem::take(&mut self.body),
        };
        let record = move || {
            if let Err(error) = files.record(&diagnostic) {
                tracing::warn!(code = error.code(), "a raw body could not be kept");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(record)),
            Err(_) => record(),
        }
    }
}

/// Passes the body on and keeps its beginning.
struct Tee {
    inner: BoxStream<'static, Result<Bytes, UnifiedError>>,
    answer: Keep,
}

impl Stream for Tee {
    type Item = Result<Bytes, UnifiedError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(bytes))) = &polled {
            let room = self.answer.files.limits().body_bytes.saturating_sub(self.answer.body.len());
            let piece = bytes.get(..room).unwrap_or(bytes);
            self.answer.body.extend_from_slice(piece);
        }
        polled
    }
}
