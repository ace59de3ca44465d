//! Carries a subscription to a connection: encodes, keeps the connection open, watches how fast the other side takes bytes.
//!
//! A task reads the subscription and fills a short channel that the connection empties. When the connection goes away the
//! task ends, and with it the subscription; the operation knows nothing of that. A connection that takes no bytes for too
//! long is detached with a valid cursor where its protocol can say so.

use super::gate::Scope;
use super::{App, Phase};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use throughline_engine::{Delivery, Subscription};
use throughline_format::{UnifiedError, UnifiedId};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Chunks between the task and its connection.
const CHANNEL: usize = 8;

/// Why a subscriber is detached before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detached {
    Lag,
    Shutdown,
    /// The key that let it in does not count any more.
    Auth,
}

impl Detached {
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Lag => "lag",
            Self::Shutdown => "shutdown",
            Self::Auth => "auth",
        }
    }
}

/// How events look on one connection.
pub(super) trait Framing: Send + 'static {
    /// The bytes of one event; may be empty.
    fn event(&mut self, delivery: &Delivery) -> Result<Bytes, UnifiedError>;
    /// The last bytes when reading fails. Empty = the connection is cut, so that nobody takes it for the end.
    fn failed(&mut self, error: UnifiedError) -> Bytes;
    /// The last bytes after the last event; may be empty.
    fn end(&mut self) -> Bytes {
        Bytes::new()
    }
    /// The last bytes when the subscriber is detached; `after` is the last event that the connection took, when it took one.
    /// Empty = the connection is cut.
    fn detached(&mut self, why: Detached, after: Option<u64>) -> Bytes;
    /// Bytes that keep an idle connection open.
    fn keep_alive(&self) -> Bytes;
}

/// How a connection ends.
#[derive(Default)]
enum End {
    /// The task is running, or died: the connection is cut.
    #[default]
    Cut,
    /// Everything was said.
    Clean,
    /// These bytes, then a clean end.
    With(Bytes),
}

/// The body of an event stream. `first` was encoded already.
pub(super) fn body(app: &Arc<App>, scope: &Scope, subscription: Subscription, framing: impl Framing, first: Bytes) -> Body {
    let (sender, receiver) = mpsc::channel::<Bytes>(CHANNEL);
    let end = Arc::new(Mutex::new(End::default()));
    let (app, key, task_end) = (Arc::clone(app), scope.key.clone(), Arc::clone(&end));
    tokio::spawn(async move {
        let outcome = pump(&app, key, subscription, framing, first, &sender).await;
        *task_end.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    });
    Body::from_stream(stream::unfold((receiver, end), |(mut receiver, end)| async move {
        if let Some(bytes) = receiver.recv().await {
            return Some((Ok(bytes), (receiver, end)));
        }
        let last = std::mem::replace(&mut *end.lock().unwrap_or_else(PoisonError::into_inner), End::Clean);
        match last {
            End::Clean => None,
            End::With(bytes) => Some((Ok(bytes), (receiver, end))),
            End::Cut => Some((Err(io::Error::other("the stream was detached")), (receiver, end))),
        }
    }))
}

async fn pump(
    app: &App,
    key: Option<UnifiedId>,
    mut subscription: Subscription,
    mut framing: impl Framing,
    first: Bytes,
    sender: &mpsc::Sender<Bytes>,
) -> End {
    let mut phase = app.phase.subscribe();
    let mut revoked = pin!(async {
        match &key {
            Some(key) => app.auth.revoked(key).await,
            None => std::future::pending().await,
        }
    });
    let lag = app.limits.subscriber_lag;
    let mut bytes = first;
    // An event counts as taken once the channel has it; the one that found no room is sent again after a resume.
    let (mut offered, mut taken) = (None, None);
    loop {
        if !bytes.is_empty() {
            tokio::select! {
                biased;
                () = &mut revoked => return end_with(framing.detached(Detached::Auth, taken)),
                sent = timeout(lag, sender.send(bytes)) => match sent {
                    Ok(Ok(())) => taken = offered,
                    Ok(Err(_)) => return End::Clean,
                    Err(_) => return end_with(framing.detached(Detached::Lag, taken)),
                },
            }
        }
        // `Subscription::next` is cancel-safe, so losing this race loses no event.
        bytes = tokio::select! {
            biased;
            () = sender.closed() => return End::Clean,
            () = &mut revoked => return end_with(framing.detached(Detached::Auth, taken)),
            next = subscription.next() => match next {
                Ok(Some(delivery)) => match framing.event(&delivery) {
                    Ok(bytes) => {
                        offered = Some(delivery.sequence);
                        bytes
                    }
                    Err(error) => return end_with(framing.failed(error)),
                },
                Ok(None) => {
                    let last = framing.end();
                    return if last.is_empty() { End::Clean } else { End::With(last) };
                }
                Err(error) => return end_with(framing.failed(error)),
            },
            _ = phase.wait_for(|phase| *phase >= Phase::Closing) => return end_with(framing.detached(Detached::Shutdown, taken)),
            () = sleep(app.limits.keep_alive) => framing.keep_alive(),
        };
    }
}

fn end_with(bytes: Bytes) -> End {
    if bytes.is_empty() { End::Cut } else { End::With(bytes) }
}
