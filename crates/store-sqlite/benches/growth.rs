//! How the cost of a store grows with its size: `cargo bench -p throughline-store-sqlite --bench growth`.
//!
//! It fills a database step by step up to 10,000 conversations with 100 events each and measures, at each size, what one more
//! append, one resume and one removed conversation cost: processor time of all threads, the best of three series, so that other
//! work on the machine shows less (elsewhere than on Linux it is the time on the wall).
//! The step from a file that fits into the page cache (the first size) to one that does not is no growth, so the base is the
//! second size, a tenth of the whole. A cost that grows with the logarithm at most is then 1.2 times as large in the end; the
//! run fails beyond 2. Syncs are those of `durability = "normal"`: the figures are about the store, not about the disk.
//! `THROUGHLINE_BENCH_CONVERSATIONS` sets another size.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    missing_docs
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use throughline_format::{OperationState, Timestamp};
use throughline_store::contract::samples;
use throughline_store::{
    ConversationReader as _, DeletionCondition, EventRange, EventReader as _, ItemPage, JournalReader as _, KeyRing, OsRandom,
    StateWriter as _, StoreAdmin as _, SweepRequest, Vault, WriteBatch, WriteOp,
};
use throughline_store_sqlite::{Durability, SqliteConfig, SqliteStore};

const EVENTS: u64 = 100;
const EVENT_BYTES: usize = 300;
/// Calls that a figure is the mean of.
const SAMPLES: u64 = 400;
/// Conversations that one figure of cleanup is taken of.
const REMOVED: u64 = 50;

fn event(number: u64) -> Bytes {
    let mut text = format!("{{\"sequence\":{number},\"text\":\"");
    while text.len() < EVENT_BYTES - 2 {
        text.push_str("lorem ipsum ");
    }
    text.truncate(EVENT_BYTES - 2);
    text.push_str("\"}");
    Bytes::from(text)
}

/// A whole conversation in one batch: two items, an ended operation, its events.
fn conversation(number: u64) -> WriteBatch {
    let (conversation, branch) = (samples::id(&format!("conv_{number}")), samples::id(&format!("br_{number}")));
    let now = samples::START.plus_millis(i64::try_from(number).unwrap());
    let operation = serde_json::json!({
        "schemaVersion": "2.0", "operationId": format!("op_{number}"), "conversationId": conversation, "state": "completed",
        "principalRef": samples::PRINCIPAL, "sourceBranchId": branch, "inputItemIds": [], "cancellation": "supported",
        "requestFingerprint": throughline_format::Sha256::of(&number.to_be_bytes()), "createdAt": now, "updatedAt": now, "lastSequence": 0,
    });
    let mut batch = WriteBatch::new(now, conversation.clone());
    batch.ops = samples::opening(&conversation, &branch, samples::PRINCIPAL);
    batch.push(WriteOp::AppendItems {
        branch_id: branch,
        expected_head: None,
        items: (0..2)
            .map(|item| samples::message(&format!("i{number}x{item}"), &"text ".repeat(40)))
            .collect(),
    });
    batch.push(WriteOp::PutOperation(serde_json::from_value(operation).unwrap()));
    batch.push(WriteOp::AppendEvents {
        operation_id: samples::id(&format!("op_{number}")),
        first_sequence: 1,
        events: (1..=EVENTS).map(event).collect(),
    });
    batch
}

async fn fill(store: &SqliteStore, range: std::ops::Range<u64>) -> Duration {
    let begin = Instant::now();
    let commits = futures_util::stream::iter(range).map(|number| store.commit(conversation(number)));
    let mut commits = commits.buffer_unordered(64);
    while let Some(done) = commits.next().await {
        done.unwrap();
    }
    begin.elapsed()
}

/// Time so far: what all threads have used, where the system tells.
fn used(begin: Instant) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").ok().map(|tasks| {
        let nanos = tasks.map_while(Result::ok).filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    });
    threads.filter(|sum| !sum.is_zero()).unwrap_or_else(|| begin.elapsed())
}

/// Microseconds per call of some calls.
async fn per_call(calls: u64, work: impl Future<Output = ()>) -> f64 {
    let begin = Instant::now();
    let before = used(begin);
    work.await;
    used(begin).saturating_sub(before).as_secs_f64() * 1e6 / calls as f64
}

/// Numbers that jump over the whole store, the same in every run.
fn scattered(size: u64) -> impl Iterator<Item = u64> {
    (0..SAMPLES).map(move |sample| sample.wrapping_mul(0x9E37_79B9_7F4A_7C15) % size)
}

/// Microseconds of one event more, in a conversation somewhere in the store.
async fn append(store: &SqliteStore, size: u64, series: u64) -> f64 {
    let mut running = Vec::new();
    for (sample, number) in scattered(size).enumerate() {
        let operation = samples::id(&format!("op_{number}r{series}n{sample}"));
        let now = samples::START.plus_millis(i64::try_from(number).unwrap());
        let record = serde_json::json!({
            "schemaVersion": "2.0", "operationId": operation, "conversationId": format!("conv_{number}"), "state": "running",
            "principalRef": samples::PRINCIPAL, "sourceBranchId": format!("br_{number}"), "inputItemIds": [], "cancellation": "supported",
            "requestFingerprint": throughline_format::Sha256::of(b"x"), "createdAt": now, "updatedAt": now, "lastSequence": 0,
        });
        running.push((now, serde_json::from_value::<throughline_format::UnifiedOperation>(record).unwrap()));
    }
    let commit = async |now, conversation: &throughline_format::UnifiedId, op| {
        store.commit(WriteBatch::new(now, conversation.clone()).with(op)).await.unwrap();
    };
    for (now, operation) in &running {
        commit(*now, &operation.conversation_id, WriteOp::PutOperation(operation.clone())).await;
    }
    let appends = async {
        for (now, operation) in &running {
            let append = WriteOp::AppendEvents {
                operation_id: operation.operation_id.clone(),
                first_sequence: 1,
                events: vec![event(1)],
            };
            commit(*now, &operation.conversation_id, append).await;
        }
    };
    let cost = per_call(SAMPLES, appends).await;
    for (now, mut operation) in running {
        operation.state = OperationState::Completed;
        let conversation = operation.conversation_id.clone();
        commit(now, &conversation, WriteOp::UpdateOperation(operation)).await;
    }
    cost
}

/// Microseconds of what a reconnecting client needs: the conversation, its branch, the head, and the second half of the events.
async fn resume(store: &SqliteStore, size: u64) -> f64 {
    let resumes = async {
        for number in scattered(size) {
            let (conversation, operation) = (samples::id(&format!("conv_{number}")), samples::id(&format!("op_{number}")));
            let found = store.conversation(&conversation).await.unwrap().unwrap();
            let items = store.branch_items(&found.default_branch_id, ItemPage::default()).await.unwrap();
            let head = store.last_sequence(&operation).await.unwrap();
            let range = EventRange {
                after: EVENTS / 2,
                through: head,
                max_events: 256,
                max_bytes: 1 << 20,
            };
            let events = store.events_after(&operation, range).await.unwrap();
            assert_eq!((items.len(), events.len()), (2, 50));
        }
    };
    per_call(SAMPLES, resumes).await
}

/// Microseconds to find, mark and remove one old conversation with all that is in it, and the longest single step by the wall, in
/// milliseconds.
async fn cleanup(store: &SqliteStore, now: Timestamp) -> (f64, f64) {
    let mut longest = Duration::ZERO;
    let removal = async {
        let old = store.expired_conversations(now, now, REMOVED as usize).await.unwrap();
        assert_eq!(old.len() as u64, REMOVED);
        for conversation in old {
            let delete = WriteOp::DeleteConversation {
                only_if: DeletionCondition::NotUpdatedSince(now),
            };
            store.commit(WriteBatch::new(now, conversation).with(delete)).await.unwrap();
        }
        loop {
            let step = Instant::now();
            let report = store.sweep(SweepRequest::new(now)).await.unwrap();
            longest = longest.max(step.elapsed());
            if !report.more {
                break;
            }
        }
    };
    let cost = per_call(REMOVED, removal).await;
    (cost, longest.as_secs_f64() * 1e3)
}

async fn run(total: u64) {
    let directory = tempfile::tempdir().unwrap();
    let vault = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let mut config = SqliteConfig::new(directory.path().join("throughline.db"), directory.path().join("artifacts"));
    config.durability = Durability::Normal;
    let store = SqliteStore::open(config, &vault, &OsRandom, samples::START).unwrap();
    println!("conversations      events    fill ev/s   append us   resume us  cleanup us  longest step ms");
    let (mut filled, mut first) = (0, None);
    for (round, size) in [total / 100, total / 10, total / 3, total].into_iter().enumerate() {
        let took = fill(&store, filled..size).await;
        let rate = ((size - filled) * EVENTS) as f64 / took.as_secs_f64();
        let mut figures = [f64::MAX; 3];
        let mut longest = f64::MAX;
        for attempt in 0..3 {
            let series = round as u64 * 3 + attempt;
            let appended = append(&store, size, series).await;
            let resumed = resume(&store, size).await;
            // Others are removed than those that were counted, so that each size is what it says: they are the oldest.
            let extra = 1_000_000 + series * 1_000;
            let past = samples::START.plus_millis(-1_000_000_000);
            for number in extra..extra + REMOVED {
                let mut batch = conversation(number);
                batch.now = past;
                for op in &mut batch.ops {
                    if let WriteOp::CreateConversation(conversation) = op {
                        conversation.last_updated_at = past;
                    }
                }
                store.commit(batch).await.unwrap();
            }
            let (removed, step) = cleanup(&store, past).await;
            for (figure, found) in figures.iter_mut().zip([appended, resumed, removed]) {
                *figure = figure.min(found);
            }
            longest = longest.min(step);
        }
        let [append, resume, cleanup] = figures;
        println!(
            "{size:>13} {:>11} {rate:>12.0} {append:>11.1} {resume:>11.1} {cleanup:>11.1} {longest:>16.2}",
            size * EVENTS
        );
        filled = size;
        if round == 0 {
            continue;
        }
        let base = *first.get_or_insert(figures);
        for (name, (now, then)) in ["append", "resume", "cleanup"].into_iter().zip(figures.into_iter().zip(base)) {
            assert!(now < 2.0 * then, "{name} has grown from {then:.1} to {now:.1} microseconds");
        }
    }
    let bytes = std::fs::metadata(directory.path().join("throughline.db")).unwrap().len();
    println!("database: {} MB", bytes / 1_000_000);
    store.close().await.unwrap();
}

fn main() {
    let total = std::env::var("THROUGHLINE_BENCH_CONVERSATIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10_000);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(total));
}
