//! Raw bodies: kept only when asked for, sealed, and never needed.

use crate::demo::{Gateway, options};
use crate::support::{chat, header, json};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use throughline_format::{UnifiedId, clause};
use throughline_gateway::demo::{ANTHROPIC_MODEL, OPENAI_MODEL};
use throughline_store::{
    ConversationReader as _, DiagnosticFiles, DiagnosticLimits, Direction, ItemPage, JournalReader as _, OsRandom, Vault, keyring,
};
use throughline_store_sqlite::SqliteReader;

/// What stands only in a raw body of the upstream's wire: no record has such a word.
const RAW: &[u8] = b"\"stop_reason\"";

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

fn holders(folder: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle));
    files(folder).into_iter().filter(holds).collect()
}

/// Two turns with two models over one conversation, `between` in the middle: what the client got, and the journal's content.
async fn talk(folder: &Path, diagnostics: bool, between: impl FnOnce()) -> (Vec<String>, Vec<String>, [UnifiedId; 2]) {
    let mut options = options(folder);
    options.config.store.diagnostics = diagnostics;
    let gateway = Gateway::start_with(options).await;
    let first = gateway.ask("/v1/chat/completions", &chat(ANTHROPIC_MODEL, false, "Hello!")).await;
    let ids = ["throughline-conversation", "throughline-operation"].map(|name| UnifiedId::parse(&header(&first, name)).unwrap());
    let text = |body: serde_json::Value| body["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let first = text(json(first).await);
    between();
    let history =
        json!([{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": first}, {"role": "user", "content": "And now?"}]);
    let second = gateway
        .ask("/v1/chat/completions", &json!({"model": OPENAI_MODEL, "messages": history}))
        .await;
    assert_eq!(header(&second, "throughline-conversation"), ids[0].as_str());
    let second = text(json(second).await);
    gateway.stop().await;
    let reader = SqliteReader::open(folder.join("throughline.db"), folder.join("artifacts")).unwrap();
    let conversation = reader.conversation(&ids[0]).await.unwrap().unwrap();
    let items = reader
        .branch_items(&conversation.default_branch_id, ItemPage::default())
        .await
        .unwrap();
    let journal = items
        .iter()
        .map(|item| throughline_format::content_fingerprint(item).unwrap().to_hex())
        .collect();
    (vec![first, second], journal, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_journal_are_the_same_with_it_off_on_and_deleted() {
    clause!("PDATA-03");
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [off, on, deleted] = [0, 1, 2].map(|number: usize| folders[number].path());
    let without = talk(off, false, || {}).await;
    let with = talk(on, true, || {}).await;
    let gone = talk(deleted, true, || {
        let _ = std::fs::remove_dir_all(deleted.join("diagnostics"));
    })
    .await;
    assert!(without.1.len() >= 4, "two questions and two answers: {:?}", without.1);
    assert_eq!((&with.0, &with.1), (&without.0, &without.1));
    assert_eq!((&gone.0, &gone.1), (&without.0, &without.1));

    // Off by default: there is no such folder, and no raw body in any file.
    assert!(!throughline_gateway::config::Config::default().store.diagnostics);
    assert!(!off.join("diagnostics").exists());
    assert_eq!(holders(off, RAW), Vec::<PathBuf>::new());
    // On: sealed, so the bytes are nowhere in clear, and whoever has the key can read them.
    assert_eq!(holders(on, RAW), Vec::<PathBuf>::new());
    let vault = Arc::new(Vault::new(keyring::load(&on.join("keys").join("keyring.json")).unwrap(), Arc::new(OsRandom)).unwrap());
    let kept = DiagnosticFiles::open(on.join("diagnostics"), vault, DiagnosticLimits::default()).unwrap();
    let bodies = kept.read(&with.2[0], &with.2[1]).unwrap();
    let directions: Vec<Direction> = bodies.iter().map(|body| body.direction).collect();
    assert_eq!(directions, [Direction::UpstreamRequest, Direction::UpstreamResponse]);
    let asked = String::from_utf8(bodies[0].body.clone()).unwrap();
    assert!(asked.contains("Hello!"), "{asked}");
    assert!(
        bodies[1].body.windows(RAW.len()).any(|window| window == RAW),
        "what was looked for is in a raw body"
    );
}
