//! The join of replay and live stream, checked over every interleaving.
//!
//! One producer and one reader; readers share nothing but what the producer writes, so one stands for all. The producer's steps
//! are those that another thread can see one by one: stored, in the ring, head moved, closed, taken off the list. The reader's
//! are: attached, and each poll. Within a poll it reads the head and then the ring; the head is not touched by what changes
//! the ring, so nothing that happens between the two makes a state that is not among those checked here.

use super::publisher::Live;
use super::subscription::Subscription;
use bytes::Bytes;
use std::future::Future as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use throughline_format::UnifiedId;
use throughline_store::contract::{World, samples};
use throughline_store::{MemoryStore, UnifiedStateStore, WriteBatch, WriteOp};

/// Whether a task was woken since it was last polled.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Store(usize, usize),
    Ring(usize, usize),
    Head(usize),
    Close,
    Remove,
}

/// The producer's steps for batches of these sizes.
fn program(batches: &[usize]) -> Vec<Step> {
    let (mut steps, mut from) = (Vec::new(), 0);
    for size in batches {
        let to = from + size;
        steps.extend([Step::Store(from, to), Step::Ring(from, to), Step::Head(to)]);
        from = to;
    }
    steps.extend([Step::Close, Step::Remove]);
    steps
}

fn event(number: usize, last: usize) -> Bytes {
    let kind = if number == last { "stream.completed" } else { "text.delta" };
    Bytes::from(format!("{{\"kind\":\"{kind}\",\"n\":{number}}}"))
}

struct Run {
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn UnifiedStateStore>,
    world: World,
    operations: usize,
}

impl Run {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store: Arc<dyn UnifiedStateStore> = Arc::new(MemoryStore::default());
        let world = runtime.block_on(World::of(Arc::clone(&store), "model", samples::PRINCIPAL));
        Self {
            runtime,
            store,
            world,
            operations: 0,
        }
    }

    fn commit(&self, op: WriteOp) {
        let batch = WriteBatch::new(self.world.now, self.world.conversation_id.clone()).with(op);
        self.runtime.block_on(self.store.commit(batch)).unwrap();
    }

    /// A new operation without events.
    fn operation(&mut self) -> UnifiedId {
        self.operations += 1;
        let operation = samples::operation(&format!("op_{}", self.operations), &self.world);
        let id = operation.operation_id.clone();
        self.commit(WriteOp::PutOperation(operation));
        id
    }

    /// Runs one interleaving: `true` = the reader goes, `false` = the producer; then both to their ends, the producer first.
    fn check(&mut self, batches: &[usize], ring: usize, after: usize, schedule: &[bool]) {
        let (id, total) = (self.operation(), batches.iter().sum::<usize>());
        let live = Arc::new(Live::new(0, ring, usize::MAX));
        let list = Mutex::new(Some(Arc::clone(&live)));
        let mut steps = program(batches).into_iter();
        let store_id = id.clone();
        let mut produce = |run: &Self| {
            let Some(step) = steps.next() else { return false };
            let events = |from: usize, to: usize| (from + 1..=to).map(|n| (n as u64, event(n, total)));
            match step {
                Step::Store(from, to) => run.commit(WriteOp::AppendEvents {
                    operation_id: store_id.clone(),
                    first_sequence: from as u64 + 1,
                    events: events(from, to).map(|(_, bytes)| bytes).collect(),
                }),
                Step::Ring(from, to) => drop(live.push(events(from, to))),
                Step::Head(to) => live.advance(to as u64),
                Step::Close => live.close(),
                Step::Remove => drop(list.lock().unwrap().take()),
            }
            true
        };
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, mut ended) = (None, false);
        let mut read = |ended: &mut bool| {
            let reader = reader.get_or_insert_with(|| {
                let live = list.lock().unwrap().clone();
                let subscription = Subscription::new(Arc::clone(&self.store), id.clone(), live, after as u64);
                Box::pin(follow(subscription, Arc::clone(&seen)))
            });
            // Who was not woken is not asked: a head that moves unheard leaves its reader waiting for ever.
            if !*ended && woken.0.swap(false, Ordering::SeqCst) {
                *ended = reader.as_mut().poll(&mut context).is_ready();
            }
        };
        for reads in schedule {
            if *reads {
                read(&mut ended);
            } else {
                produce(self);
            }
        }
        while produce(self) {}
        for _ in 0..total + 4 {
            read(&mut ended);
        }
        let seen = seen.lock().unwrap().clone();
        let expected: Vec<u64> = (after as u64 + 1..=total as u64).collect();
        let what = format!("batches {batches:?}, ring {ring}, after {after}, schedule {schedule:?}");
        assert_eq!(seen, expected, "{what}");
        assert!(ended, "{what}");
    }
}

/// A reader that stops after each event, so that others can go between.
async fn follow(mut subscription: Subscription, seen: Arc<Mutex<Vec<u64>>>) {
    while let Some(delivery) = subscription.next().await.unwrap() {
        seen.lock().unwrap().push(delivery.sequence);
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// Every order of `producer` and `reader` steps.
fn schedules(producer: usize, reader: usize, so_far: &mut Vec<bool>, each: &mut dyn FnMut(&[bool])) {
    if producer == 0 && reader == 0 {
        return each(so_far);
    }
    for (reads, left) in [(false, producer), (true, reader)] {
        if left > 0 {
            so_far.push(reads);
            schedules(producer - usize::from(!reads), reader - usize::from(reads), so_far, each);
            so_far.pop();
        }
    }
}

#[test]
fn every_interleaving_gives_every_event_once_and_in_order() {
    throughline_format::clause!("LIVE-03");
    let mut checked = 0_u32;
    for batches in [&[2_usize, 1][..], &[1, 2], &[3]] {
        let mut run = Run::new();
        let steps = program(batches).len();
        for (ring, after) in [(1, 0), (2, 0), (8, 0), (1, 1), (8, 1)] {
            schedules(steps, 5, &mut Vec::new(), &mut |schedule| {
                run.check(batches, ring, after, schedule);
                checked += 1;
                // The store in memory copies what it changes, so a full one is a slow one.
                if checked.is_multiple_of(16) {
                    run = Run::new();
                }
            });
        }
    }
    assert!(checked > 10_000, "{checked}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    /// Longer runs than can be enumerated: any batches, any ring, any start, any schedule.
    #[test]
    fn any_interleaving_gives_every_event_once_and_in_order(
        batches in proptest::collection::vec(1_usize..6, 1..8), ring in 1_usize..12, start in 0_usize..100,
        schedule in proptest::collection::vec(proptest::bool::ANY, 0..80),
    ) {
        let total: usize = batches.iter().sum();
        Run::new().check(&batches, ring, start % total, &schedule);
    }
}
