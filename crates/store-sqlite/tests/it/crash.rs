//! Kill -9: a child process appends and prints what was acknowledged, and is killed at any moment.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use throughline_format::{OperationState, Timestamp, UnifiedId, UnifiedOperation, clause};
use throughline_store::contract::{World, samples};
use throughline_store::{
    CollectRequest, ConversationFilter, ConversationReader as _, DeletionCondition, OperationFilter, OperationReader as _, OsRandom,
    ResourceReader as _, StateWriter as _, StoreAdmin as _, SweepRequest, WriteBatch, WriteOp,
};
use throughline_store_sqlite::SqliteStore;

use crate::support::{config_at, new_vault};

const DIRECTORY: &str = "THROUGHLINE_TEST_CRASH_DIRECTORY";
const ROUND: &str = "THROUGHLINE_TEST_CRASH_ROUND";
/// How many kills; `xtask full` asks for more.
const ROUNDS_VARIABLE: &str = "THROUGHLINE_TEST_CRASH_ROUNDS";
const ROUNDS: u64 = 20;
const PRODUCERS: u64 = 4;

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(config_at(directory), &new_vault(), &OsRandom, Timestamp::EPOCH).unwrap()
}

/// One line per acknowledgement, written at once.
fn acknowledge(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ack {line}").unwrap();
    out.flush().unwrap();
}

/// The child. In the ordinary run of the suite there is nothing for it to do.
#[tokio::test]
async fn child_that_appends_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let store = Arc::new(open(Path::new(&directory)));
    acknowledge("open");
    let producers = (0..PRODUCERS).map(|producer| produce(store.clone(), format!("r{round}p{producer}")));
    futures_util::future::join(futures_util::future::join_all(producers), clean_up(store.clone(), round)).await;
}

/// Turn after turn in a conversation of its own: events one by one, then everything of the end in one batch.
async fn produce(store: Arc<SqliteStore>, name: String) {
    let mut world = World::of(store, &name, samples::PRINCIPAL).await;
    acknowledge(&format!("conversation conv_{name}"));
    let mut head: Option<String> = None;
    for turn in 0u64.. {
        let operation = world.start(&format!("op_{name}_{turn}")).await;
        let id = operation.operation_id.clone();
        for sequence in 1..=5 {
            world
                .commit(vec![samples::append_events(&id, sequence, &[&format!("{id}-{sequence}")])])
                .await
                .unwrap();
            acknowledge(&format!("event {id} {sequence}"));
        }
        let item = format!("{id}.i0");
        // The conversation's time is the number of its ended turns, in seconds.
        world.now = world.now.plus_millis(1_000);
        world.commit(end_of_turn(&world, &operation, head.as_deref(), &item)).await.unwrap();
        acknowledge(&format!("end {id} {item}"));
        head = Some(item);
    }
}

fn end_of_turn(world: &World, operation: &UnifiedOperation, head: Option<&str>, item: &str) -> Vec<WriteOp> {
    let id = operation.operation_id.clone();
    let mut ended = samples::in_state(operation, OperationState::Completed);
    ended.result_id = Some(samples::id(&format!("res_{id}")));
    // Every other answer has a picture that is kept as a file, one of few, so that conversations share them.
    let number = item.len() + item.bytes().map(usize::from).sum::<usize>();
    let answer = if number.is_multiple_of(2) {
        samples::message(item, &"answer ".repeat(300))
    } else {
        let data = throughline_format::media::encode_base64(&vec![u8::try_from(number % 7).unwrap(); 200_000]);
        let source = serde_json::json!({"kind": "inline", "mediaType": "image/png", "encoding": "base64", "data": data});
        let part = serde_json::json!({"kind": "image", "partId": format!("{item}.p0"), "source": source});
        samples::item(item, &serde_json::json!({"kind": "message", "role": "assistant", "parts": [part]}))
    };
    let mut checkpoint = samples::checkpoint(world, &format!("{item}.k0"), item, b"handle");
    let context = throughline_store::SealContext::checkpoint(
        checkpoint.checkpoint_id.clone(),
        world.conversation_id.clone(),
        world.branch_id.clone(),
        samples::id(item),
        throughline_store::owner_fingerprint(&checkpoint.owner).unwrap(),
    );
    let sealed = new_vault().seal(&context, b"handle").unwrap();
    checkpoint.encrypted_payload = throughline_format::operation::SealedBytes(sealed.as_bytes().to_vec());
    let mut resource = samples::resource(world, &format!("{item}.r0"), "a", b"signature");
    resource.sealed = new_vault().seal(&resource.seal_context(), b"signature").unwrap();
    vec![
        samples::append_events(&id, 6, &["operation.completed", "stream.completed"]),
        world.append(head, vec![answer]),
        WriteOp::PutResource(Box::new(resource)),
        WriteOp::PutCheckpoint(Box::new(checkpoint)),
        WriteOp::PutResult {
            operation_id: id.clone(),
            result: samples::result(&id),
        },
        WriteOp::UpdateOperation(ended),
    ]
}

/// Deletes the conversations of the round before last, so that a kill also falls into the middle of a removal.
async fn clean_up(store: Arc<SqliteStore>, round: u64) {
    let Some(old) = round.checked_sub(2) else { return };
    let conversations: Vec<UnifiedId> = (0..PRODUCERS)
        .map(|producer| samples::id(&format!("conv_r{old}p{producer}")))
        .collect();
    for conversation_id in conversations {
        let filter = OperationFilter {
            conversation_id: Some(conversation_id.clone()),
            states: vec![OperationState::Running],
            ..OperationFilter::default()
        };
        for operation in store.operations(filter).await.unwrap() {
            let mut batch = WriteBatch::new(samples::START, conversation_id.clone());
            batch.push(WriteOp::UpdateOperation(samples::in_state(&operation, OperationState::Failed)));
            store.commit(batch).await.unwrap();
        }
        if store.conversation(&conversation_id).await.unwrap().is_some() {
            let delete = WriteOp::DeleteConversation {
                only_if: DeletionCondition::Always,
            };
            store
                .commit(WriteBatch::new(samples::START, conversation_id.clone()).with(delete))
                .await
                .unwrap();
            acknowledge(&format!("deleted {conversation_id}"));
        }
    }
    while store
        .sweep(SweepRequest {
            now: samples::START,
            max_rows: 20,
        })
        .await
        .unwrap()
        .more
    {}
    // Collection goes on beside the producers, and everything is old enough for it.
    for _ in 0..1_000 {
        let request = CollectRequest {
            now: Timestamp::from_millis(i64::MAX / 4),
            grace_millis: 0,
            max_digests: 2,
            whole: false,
        };
        store.collect(request).await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Starts the child, kills it after a while, and gives the lines that it had printed.
fn run_and_kill(directory: &Path, round: u64, after: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "crash::child_that_appends_until_it_is_killed",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let (first_line, opened) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            // The harness begins the first line with the name of the test.
            if let Some(position) = line.find("ack ") {
                let _ = first_line.send(());
                lines.push(line[position + 4..].to_owned());
            }
        }
        lines
    });
    // In some rounds it is killed while it starts and recovers, in the others some time later.
    if round % 5 != 4 {
        let _ = opened.recv_timeout(Duration::from_mins(1));
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = reader.join().unwrap();
    let mut told = String::new();
    errors.read_to_string(&mut told).unwrap();
    assert!(!told.contains("panicked"), "{told}");
    lines
}

/// Everything that a round's acknowledgements promise, and everything that must hold without them.
async fn verify(store: &SqliteStore, acknowledged: &[String], deleted: &[String]) {
    let report = store.check().await.unwrap();
    assert!(report.is_ok(), "{report:?}");
    for line in acknowledged {
        let words: Vec<&str> = line.split(' ').collect();
        let gone = |id: &str| {
            deleted
                .iter()
                .any(|conversation| id.starts_with(&conversation.replacen("conv_", "op_", 1)) || id == conversation)
        };
        match words[..] {
            ["conversation", conversation] if !gone(conversation) => {
                assert!(store.conversation(&samples::id(conversation)).await.unwrap().is_some(), "{line}");
            }
            ["event", operation, sequence] if !gone(operation) => {
                let stored = throughline_store::EventReader::last_sequence(store, &samples::id(operation))
                    .await
                    .unwrap();
                assert!(stored >= sequence.parse::<u64>().unwrap(), "{line}, stored up to {stored}");
            }
            ["end", operation, item] if !gone(operation) => {
                let stored = store.operation(&samples::id(operation)).await.unwrap().unwrap();
                assert_eq!(stored.state, OperationState::Completed, "{line}");
                assert!(
                    throughline_store::JournalReader::item(store, &samples::id(item))
                        .await
                        .unwrap()
                        .is_some(),
                    "{line}"
                );
            }
            ["deleted", conversation] => assert!(store.conversation(&samples::id(conversation)).await.unwrap().is_none(), "{line}"),
            _ => {}
        }
    }
    // Acknowledged or not: the end of a turn is there with everything that belongs to it, or not at all.
    let mut after = None;
    loop {
        let page = store
            .operations(OperationFilter {
                after: after.clone(),
                ..OperationFilter::default()
            })
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.operation_id.clone());
        for operation in page {
            verify_operation(store, &operation).await;
        }
    }
}

async fn verify_operation(store: &SqliteStore, operation: &UnifiedOperation) {
    let id = &operation.operation_id;
    let item = samples::id(&format!("{id}.i0"));
    let ended = operation.state == OperationState::Completed;
    let parts = [
        operation.last_sequence == 7,
        throughline_store::JournalReader::item(store, &item).await.unwrap().is_some(),
        store.resource(&samples::id(&format!("{item}.r0"))).await.unwrap().is_some(),
        store.checkpoint(&samples::id(&format!("{item}.k0"))).await.unwrap().is_some(),
        store.result(id).await.unwrap().is_some(),
    ];
    assert!(
        parts.iter().all(|part| *part == ended),
        "{id} is {} with {parts:?}",
        operation.state
    );
    assert!(ended || operation.last_sequence <= 5, "{id}");
    let range = throughline_store::EventRange {
        after: 0,
        through: 99,
        max_events: 99,
        max_bytes: 9_999,
    };
    let events = throughline_store::EventReader::events_after(store, id, range).await.unwrap();
    for (event, sequence) in events.iter().zip(1u64..) {
        assert_eq!(event.sequence, sequence, "{id}");
        if sequence <= 5 {
            assert_eq!(event.bytes, samples::events(&[&format!("{id}-{sequence}")])[0], "{id}");
        }
    }
    if ended {
        let conversation = store.conversation(&operation.conversation_id).await.unwrap().unwrap();
        let branch = store.branch(&conversation.default_branch_id).await.unwrap().unwrap();
        assert!(branch.head_sequence >= 1);
        let turns = i64::try_from(branch.head_sequence).unwrap();
        assert_eq!(conversation.last_updated_at, samples::START.plus_millis(turns * 1_000), "{id}");
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_a_kill() {
    clause!("LIVE-06", "STORE-03", "OP-02", "RET-05");
    let directory = tempfile::tempdir().unwrap();
    let seed: u64 = std::env::var("THROUGHLINE_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()));
    println!("THROUGHLINE_TEST_SEED={seed}");
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut acknowledged = Vec::new();
    let mut deleted = Vec::new();
    let rounds = std::env::var(ROUNDS_VARIABLE)
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(ROUNDS);
    for round in 0..rounds {
        // xorshift
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let after = Duration::from_micros(random % 120_000);
        let lines = run_and_kill(directory.path(), round, after);
        deleted.extend(lines.iter().filter_map(|line| line.strip_prefix("deleted ")).map(str::to_owned));
        // A deletion may have been committed and its acknowledgement lost with the process.
        deleted.extend(
            round
                .checked_sub(2)
                .into_iter()
                .flat_map(|old| (0..PRODUCERS).map(move |producer| format!("conv_r{old}p{producer}"))),
        );
        acknowledged.extend(lines.into_iter().filter(|line| line != "open"));
        let store = open(directory.path());
        assert!(!store.meta().clean_start || round % 5 == 4, "it was killed");
        verify(&store, &acknowledged, &deleted).await;
        // What was half removed is removed completely when somebody goes on with it.
        while store.sweep(SweepRequest::new(samples::START)).await.unwrap().more {}
        assert!(store.check().await.unwrap().is_ok());
        store.close().await.unwrap();
    }
    let events = acknowledged.iter().filter(|line| line.starts_with("event ")).count();
    assert!(
        events > 50,
        "only {events} events were acknowledged in all rounds, so the test shows little"
    );
    let store = open(directory.path());
    assert!(!store.conversations(ConversationFilter::default()).await.unwrap().is_empty());
    println!("{rounds} kills, {} acknowledgements, {events} of events", acknowledged.len());
}
