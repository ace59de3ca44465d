//! The publisher of one operation: a bounded ring and the committed head.

use crate::approvals::Questions;
use crate::webhooks::Reports;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use throughline_format::{Timestamp, UnifiedId};
use tokio::sync::watch;

/// Recent committed events of one operation, and how far it is committed.
pub(crate) struct Live {
    ring: Mutex<Ring>,
    head: watch::Sender<Head>,
    cancel: watch::Sender<Option<CancelRequest>>,
    /// What somebody must decide.
    pub(crate) questions: Questions,
    /// What its provider reports by a webhook.
    pub(crate) reports: Reports,
    /// Private payloads that the requesting client may see, by resource; filled before the events that name them.
    secrets: RwLock<HashMap<UnifiedId, Bytes>>,
    /// The same for payloads of the answer as a whole, by schema.
    root_secrets: RwLock<HashMap<String, Bytes>>,
}

/// How far an operation is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Last committed sequence.
    pub(crate) sequence: u64,
    /// Nothing more comes from this publisher; the store has whatever there is.
    pub(crate) closed: bool,
}

/// Why an operation is to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// Somebody asked to cancel.
    Client {
        /// Why, in their words.
        reason: Option<String>,
    },
    /// The process is going down, which is an interruption and no cancellation.
    Shutdown,
    /// Its time is over.
    Deadline,
}

/// A request to stop an operation.
#[derive(Clone, Debug)]
pub(crate) struct CancelRequest {
    pub(crate) cause: StopCause,
    pub(crate) at: Timestamp,
}

struct Ring {
    events: VecDeque<(u64, Bytes)>,
    bytes: usize,
    max_events: usize,
    max_bytes: usize,
}

impl Live {
    pub(crate) fn new(head: u64, max_events: usize, max_bytes: usize) -> Self {
        Self {
            ring: Mutex::new(Ring {
                events: VecDeque::new(),
                bytes: 0,
                max_events,
                max_bytes,
            }),
            head: watch::Sender::new(Head {
                sequence: head,
                closed: false,
            }),
            cancel: watch::Sender::new(None),
            questions: Questions::default(),
            reports: Reports::default(),
            secrets: RwLock::default(),
            root_secrets: RwLock::default(),
        }
    }

    /// Publishes committed events: first the ring, then the head, so that whoever sees the head finds the events.
    pub(crate) fn publish(&self, events: impl IntoIterator<Item = (u64, Bytes)>) {
        if let Some(last) = self.push(events) {
            self.advance(last);
        }
    }

    /// Puts events into the ring, and gives the last of them.
    pub(super) fn push(&self, events: impl IntoIterator<Item = (u64, Bytes)>) -> Option<u64> {
        let mut last = None;
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        for (sequence, bytes) in events {
            ring.bytes += bytes.len();
            ring.events.push_back((sequence, bytes));
            last = Some(sequence);
        }
        while ring.events.len() > ring.max_events || ring.bytes > ring.max_bytes && ring.events.len() > 1 {
            if let Some((_, dropped)) = ring.events.pop_front() {
                ring.bytes -= dropped.len();
            }
        }
        last
    }

    /// Moves the head to the last committed event.
    pub(super) fn advance(&self, sequence: u64) {
        self.head.send_modify(|head| head.sequence = sequence);
    }

    /// Events after `after` up to `through`, when the ring still has the first of them.
    pub(crate) fn after(&self, after: u64, through: u64, limit: usize) -> Option<Vec<(u64, Bytes)>> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, _) = ring.events.front()?;
        if *first > after + 1 {
            return None;
        }
        let skip = usize::try_from(after + 1 - first).ok()?;
        Some(
            ring.events
                .iter()
                .skip(skip)
                .take_while(|(sequence, _)| *sequence <= through)
                .take(limit)
                .cloned()
                .collect(),
        )
    }

    /// Tells every subscriber that nothing more comes from here.
    pub(crate) fn close(&self) {
        self.head.send_modify(|head| head.closed = true);
    }

    pub(crate) fn watch_head(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    pub(crate) fn watch_cancel(&self) -> watch::Receiver<Option<CancelRequest>> {
        self.cancel.subscribe()
    }

    /// Asks the producer to stop; the first request counts, and is given back.
    pub(crate) fn cancel(&self, request: CancelRequest) -> CancelRequest {
        let mut first = request.clone();
        self.cancel.send_if_modified(|pending| {
            if let Some(earlier) = pending {
                first = earlier.clone();
                return false;
            }
            *pending = Some(request);
            true
        });
        first
    }

    pub(crate) fn disclose(&self, resource_id: UnifiedId, payload: Bytes) {
        self.secrets
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(resource_id, payload);
    }

    pub(crate) fn disclose_root(&self, schema: String, payload: Bytes) {
        self.root_secrets
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(schema, payload);
    }

    pub(crate) fn root_secret(&self, schema: &str) -> Option<Bytes> {
        self.root_secrets
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(schema)
            .cloned()
    }

    pub(crate) fn secret(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.secrets
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(resource_id)
            .cloned()
    }
}

/// The publishers of running operations, in the order of their IDs: what is done with all of them is done in this order.
#[derive(Default)]
pub(crate) struct Publishers {
    live: Mutex<BTreeMap<UnifiedId, Arc<Live>>>,
}

impl Publishers {
    pub(crate) fn insert(&self, operation_id: UnifiedId, live: Arc<Live>) {
        self.map().insert(operation_id, live);
    }

    pub(crate) fn get(&self, operation_id: &UnifiedId) -> Option<Arc<Live>> {
        self.map().get(operation_id).cloned()
    }

    pub(crate) fn remove(&self, operation_id: &UnifiedId) {
        self.map().remove(operation_id);
    }

    pub(crate) fn len(&self) -> usize {
        self.map().len()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.map().values().cloned().collect()
    }

    fn map(&self) -> std::sync::MutexGuard<'_, BTreeMap<UnifiedId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
