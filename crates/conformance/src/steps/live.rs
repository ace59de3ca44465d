//! A provider that the steps speak for, and subscribers that remember what they saw.

use super::PATIENCE;
use crate::wire::Protocol;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use throughline_engine::Subscription;
use throughline_engine::ports::{Clock, IdKind, IdSource, Router, Target, Upstream, UpstreamCall, UpstreamReply};
use throughline_format::event::{
    ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, PartCompleted, PartStarted, ResponseStarted, TextDelta,
};
use throughline_format::part::TextPart;
use throughline_format::result::UnifiedResolvedModel;
use throughline_format::{
    EventBody, EventDraft, PartBody, ProtocolFamily, Timestamp, UnifiedContentPart, UnifiedError, UnifiedFinishReason, UnifiedId,
    UnifiedResourceOwner, UnifiedResponseStatus,
};
use throughline_protocols::offline::Stamper;
use throughline_protocols::{Capabilities, Decoded, EncodeContext, StreamEncoder};
use tokio::sync::{mpsc, oneshot};

/// Text of one delta: long enough that the engine joins it with no other, so that deltas can be counted.
const DELTA_BYTES: usize = 4 * 1024;

/// Output tokens that the end of an answer reports.
pub(crate) const LAST_OUTPUT_TOKENS: u32 = 4_321;

/// The clock of a case.
pub(crate) struct CaseClock(pub(crate) AtomicI64);

impl Clock for CaseClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// IDs in order.
pub(crate) struct CaseIds(pub(crate) AtomicU64);

impl IdSource for CaseIds {
    fn next(&self, kind: IdKind) -> UnifiedId {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        UnifiedId::parse(&format!("{}{number:08}", kind.prefix())).unwrap_or_else(|_| UnifiedId::pending())
    }
}

type Chunks = mpsc::UnboundedReceiver<Result<Bytes, UnifiedError>>;

/// What the provider does with its next request.
pub(crate) enum Answer {
    /// A stream as the steps send it; the other end hears when somebody waits for its first chunk.
    Live(Chunks, oneshot::Sender<()>),
    /// A whole body.
    Whole(String),
    /// A refusal.
    Refuse(Box<UnifiedError>),
}

/// A provider that answers as it was told.
#[derive(Default)]
pub(crate) struct Provider(Mutex<VecDeque<Answer>>);

impl Provider {
    /// Tells it the answer of its next request.
    pub(crate) fn expect(&self, answer: Answer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
    }
}

/// The only route of a case.
pub(crate) struct Route {
    pub(crate) protocol: Protocol,
    pub(crate) provider: Arc<Provider>,
}

struct Account(Arc<Provider>);

impl Upstream for Account {
    fn call(&self, _: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let answer = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        async move {
            let (is_stream, body) = match answer {
                Some(Answer::Live(chunks, is_read)) => {
                    let body = futures_util::stream::unfold((chunks, Some(is_read)), |(mut chunks, is_read)| async move {
                        if let Some(is_read) = is_read {
                            let _ = is_read.send(());
                        }
                        chunks.recv().await.map(|chunk| (chunk, (chunks, None)))
                    });
                    (true, body.boxed())
                }
                Some(Answer::Whole(text)) => (false, futures_util::stream::iter([Ok(Bytes::from(text))]).boxed()),
                Some(Answer::Refuse(error)) => return Err(*error),
                None => {
                    return Err(UnifiedError::new(
                        throughline_format::ErrorCategory::Internal,
                        "case",
                        "no answer was prepared",
                    ));
                }
            };
            Ok(UpstreamReply {
                is_stream,
                provider_request_id: None,
                body,
            })
        }
        .boxed()
    }
}

impl Router for Route {
    fn route(&self, _: &ProtocolFamily, model: &str) -> Result<Vec<Target>, UnifiedError> {
        let codec = Arc::clone(&self.protocol.codec);
        Ok(vec![Target {
            provider: "case".to_owned(),
            owner: UnifiedResourceOwner {
                model: Some(model.to_owned()),
                ..UnifiedResourceOwner::of_account(codec.profile(), "case", "v1:case", "case")
            },
            capabilities: Capabilities::of(codec.capabilities()),
            codec,
            model: model.to_owned(),
            model_provider: None,
            upstream: Arc::new(Account(Arc::clone(&self.provider))),
            requirements: Vec::new(),
            dialect: None,
            reasoning_tags: false,
            client_state_is_ours: false,
        }])
    }
}

/// An answer of one text in the wire form of a protocol, piece by piece.
pub(crate) struct Speaker {
    encoder: Box<dyn StreamEncoder>,
    stamper: Stamper,
    item: UnifiedId,
    begun: bool,
}

impl Speaker {
    /// Nothing is said yet.
    pub(crate) fn new(protocol: &Protocol) -> Self {
        let context = EncodeContext::plain(Capabilities::of(protocol.codec.capabilities()));
        let operation = UnifiedId::offline_operation();
        Self {
            encoder: protocol.codec.stream_encoder(&context),
            stamper: Stamper::new(operation.clone(), Timestamp::EPOCH),
            item: operation.item(0),
            begun: false,
        }
    }

    fn write(&mut self, drafts: Vec<EventDraft>) -> String {
        let events = drafts.into_iter().map(|d| self.stamper.stamp(d)).collect::<Vec<_>>();
        events
            .iter()
            .flat_map(|e| self.encoder.push(e))
            .map(|frame| frame.to_sse())
            .collect()
    }

    fn begin(&mut self, family: &ProtocolFamily) -> Result<Vec<EventDraft>, String> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(Vec::new());
        }
        let started = ResponseStarted {
            response_id: UnifiedId::offline_operation(),
            model: UnifiedResolvedModel {
                requested: None,
                model: "m".to_owned(),
                model_provider: None,
                family: None,
                version: None,
                service_tier: None,
            },
            profile: throughline_format::UnifiedProtocolProfile::of(family.clone()),
            attribution: None,
        };
        let members = json!({"kind": "message", "role": "assistant", "status": "in-progress", "parts": [],
            "provenance": {"origin": "provider", "attribution": {}}});
        let item = crate::journal::item(&self.item, &members)?;
        let part = UnifiedContentPart::new(self.item.part(0), PartBody::Text(TextPart::default()));
        let part_started = EventBody::ItemDelta(ItemDeltaEvent {
            delta: ItemDelta::PartStarted(PartStarted { part }),
        });
        Ok(vec![
            EventDraft::new(EventBody::ResponseStarted(started)),
            EventDraft::of_item(self.item.clone(), EventBody::ItemStarted(ItemStarted { item })),
            EventDraft::of_part(self.item.clone(), self.item.part(0), part_started),
        ])
    }

    /// This many text deltas.
    pub(crate) fn deltas(&mut self, family: &ProtocolFamily, number: u64) -> Result<String, String> {
        let mut drafts = self.begin(family)?;
        for _ in 0..number {
            let text = "x".repeat(DELTA_BYTES);
            let delta = EventBody::TextDelta(TextDelta { text, logprobs: None });
            drafts.push(EventDraft::of_part(self.item.clone(), self.item.part(0), delta));
        }
        Ok(self.write(drafts))
    }

    /// The end of the answer.
    pub(crate) fn end(&mut self, family: &ProtocolFamily) -> Result<String, String> {
        let mut drafts = self.begin(family)?;
        let completed = EventBody::ItemDelta(ItemDeltaEvent {
            delta: ItemDelta::PartCompleted(PartCompleted {}),
        });
        drafts.push(EventDraft::of_part(self.item.clone(), self.item.part(0), completed));
        let done = ItemCompleted {
            status: throughline_format::item::ItemStatus::Completed,
            item: None,
        };
        drafts.push(EventDraft::of_item(self.item.clone(), EventBody::ItemCompleted(done)));
        let usage = json!({"inputTotal": {"value": 7, "scope": "request", "source": "reported"}, "outputTotal": {"value": LAST_OUTPUT_TOKENS, "scope": "request", "source": "reported"}});
        let usage = throughline_format::event::UsageUpdate {
            usage: crate::journal::record(&usage)?,
        };
        drafts.push(EventDraft::new(EventBody::UsageUpdate(usage)));
        let mut ended = Decoded::default();
        ended.complete(
            UnifiedResponseStatus::finished(UnifiedFinishReason::Stop, None),
            vec![self.item.clone()],
        );
        drafts.extend(ended.drafts);
        Ok(self.write(drafts))
    }
}

/// What a subscriber saw.
#[derive(Default)]
pub(crate) struct Seen {
    /// Sequences in order of arrival, over all its attachments.
    pub(crate) sequences: Vec<u64>,
    /// Sequences of text deltas.
    pub(crate) deltas: Vec<u64>,
    /// Whether its stream ended.
    pub(crate) closed: bool,
    /// Why it broke.
    pub(crate) error: Option<String>,
}

/// A subscriber.
#[derive(Default)]
pub(crate) struct Subscriber {
    pub(crate) operation: String,
    seen: Arc<Mutex<Seen>>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Subscriber {
    /// Reads a subscription in the background.
    pub(crate) fn attach(&mut self, mut subscription: Subscription) {
        self.stop();
        let seen = Arc::clone(&self.seen);
        self.task = Some(tokio::spawn(async move {
            loop {
                let next = subscription.next().await;
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                match next {
                    Ok(Some(delivery)) => {
                        seen.sequences.push(delivery.sequence);
                        // The kind is the first member of every event.
                        if delivery.bytes.starts_with(br#"{"kind":"text.delta""#) {
                            seen.deltas.push(delivery.sequence);
                        }
                    }
                    Ok(None) => {
                        seen.closed = true;
                        return;
                    }
                    Err(error) => {
                        seen.error = Some(error.to_string());
                        return;
                    }
                }
            }
        }));
    }

    /// Goes away without a word.
    pub(crate) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Whether it reads.
    pub(crate) fn is_attached(&self) -> bool {
        self.task.is_some()
    }

    /// Looks at what it saw.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until what it saw is enough; false when that does not come.
    pub(crate) async fn wait_for(&self, enough: impl Fn(&Seen) -> bool) -> bool {
        let until = tokio::time::Instant::now() + PATIENCE;
        while !self.with(&enough) {
            if tokio::time::Instant::now() > until || self.with(|s| s.error.is_some()) {
                return false;
            }
            tokio::time::sleep(std::time::Duration::from_micros(500)).await;
        }
        true
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.stop();
    }
}
