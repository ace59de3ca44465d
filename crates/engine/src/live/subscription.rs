//! A subscriber: a cursor over committed events.

use super::publisher::{Head, Live};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use throughline_format::json::decode::decode_unscanned;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedEventV2, UnifiedId};
use throughline_store::{EventRange, UnifiedStateStore};
use tokio::sync::watch;

/// Events per read.
const PAGE_EVENTS: usize = 256;
/// Bytes per read.
const PAGE_BYTES: usize = 1024 * 1024;

/// One committed event on its way to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its sequence.
    pub sequence: u64,
    /// Compact JSON of the event: the same bytes live, replayed and after a restart.
    pub bytes: Bytes,
}

impl Delivery {
    /// The event.
    ///
    /// # Errors
    /// `storage.corrupt` when the stored bytes are no event.
    pub fn event(&self) -> Result<UnifiedEventV2, UnifiedError> {
        decode_unscanned(&self.bytes).map_err(|_| {
            UnifiedError::new(
                ErrorCategory::Storage,
                "corrupt",
                format!("event {} cannot be read; run `throughline db check`", self.sequence),
            )
        })
    }

    /// Whether this is `stream.completed`, after which nothing follows. The kind is the first member of every event.
    pub fn is_last(&self) -> bool {
        self.bytes.starts_with(br#"{"kind":"stream.completed""#)
    }
}

/// Reads the committed events of one operation in order, each exactly once.
pub struct Subscription {
    store: Arc<dyn UnifiedStateStore>,
    operation_id: UnifiedId,
    live: Option<(Arc<Live>, watch::Receiver<Head>)>,
    cursor: u64,
    ready: VecDeque<Delivery>,
    ended: bool,
}

impl Subscription {
    pub(crate) fn new(store: Arc<dyn UnifiedStateStore>, operation_id: UnifiedId, live: Option<Arc<Live>>, after: u64) -> Self {
        let live = live.map(|live| {
            let head = live.watch_head();
            (live, head)
        });
        Self {
            store,
            operation_id,
            live,
            cursor: after,
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// The operation.
    pub const fn operation_id(&self) -> &UnifiedId {
        &self.operation_id
    }

    /// The next event; `None` after `stream.completed`. Cancel-safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// `storage.*` when the store cannot be read. The subscription may be asked again.
    pub async fn next(&mut self) -> Result<Option<Delivery>, UnifiedError> {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                self.ended = delivery.is_last();
                return Ok(Some(delivery));
            }
            if self.ended {
                return Ok(None);
            }
            // The head is read before the data, so a later move wakes this subscriber again.
            let head = match &mut self.live {
                Some((_, head)) => *head.borrow_and_update(),
                None => Head {
                    sequence: self.store.last_sequence(&self.operation_id).await.map_err(|e| e.to_unified())?,
                    closed: true,
                },
            };
            if self.cursor < head.sequence {
                self.read_up_to(head.sequence).await?;
                continue;
            }
            match &mut self.live {
                // The publisher closed: whatever it committed last is in the store.
                Some(_) if head.closed => self.live = None,
                Some((_, watch)) => {
                    if watch.changed().await.is_err() {
                        self.live = None;
                    }
                }
                None => self.ended = true,
            }
        }
    }

    async fn read_up_to(&mut self, head: u64) -> Result<(), UnifiedError> {
        let from_ring = self.live.as_ref().and_then(|(live, _)| live.after(self.cursor, head, PAGE_EVENTS));
        let events = match from_ring {
            Some(events) if !events.is_empty() => events.into_iter().map(|(sequence, bytes)| Delivery { sequence, bytes }).collect(),
            _ => {
                let range = EventRange {
                    after: self.cursor,
                    through: head,
                    max_events: PAGE_EVENTS,
                    max_bytes: PAGE_BYTES,
                };
                let stored = self
                    .store
                    .events_after(&self.operation_id, range)
                    .await
                    .map_err(|e| e.to_unified())?;
                stored
                    .into_iter()
                    .map(|e| Delivery {
                        sequence: e.sequence,
                        bytes: e.bytes,
                    })
                    .collect::<Vec<_>>()
            }
        };
        match events.last() {
            Some(last) => self.cursor = last.sequence,
            None => {
                return Err(UnifiedError::new(
                    ErrorCategory::Storage,
                    "corrupt",
                    format!("events after {} are missing; run `throughline db check`", self.cursor),
                ));
            }
        }
        self.ready.extend(events);
        Ok(())
    }
}
