//! What must hold of every reader of sessions, whatever it is given: an error, or transcripts whose items are valid and that every runtime
//! can be told; and what the same runtime is given back says the same.

use throughline_agents::{Source, Transcript, WriteOptions, runtimes};
use throughline_format::validate::validate_document;

/// Reads a session of the runtime that the first byte chooses, and writes it for every one.
pub fn read_session(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let Some(from) = runtimes().into_iter().nth(usize::from(*first) % runtimes().len()) else {
        return;
    };
    let Ok(found) = from.read(&Source::file("session.jsonl", rest)) else {
        return;
    };
    for transcript in &found {
        check(transcript);
        for target in runtimes() {
            let written = target.write(transcript, &WriteOptions::default()).expect("losses are no errors");
            let file = written.files.first().expect("a session has a file");
            assert!(!file.path.contains(['/', '\\']), "{:?} leaves its folder", file.path);
            // A subagent's lines are in the file of the session that it belongs to.
            if target.name() != from.name() || transcript.records.is_empty() {
                continue;
            }
            let again = target
                .read(&Source::file(&file.path, file.content.as_bytes()))
                .expect("what was written is read");
            assert_eq!(
                again.first().map(|t| &t.items),
                Some(&transcript.items),
                "{} gets another conversation back",
                from.name()
            );
        }
    }
}

/// The items are valid, and every record names items that are there.
fn check(transcript: &Transcript) {
    let items = serde_json::to_vec(&transcript.items).expect("items have a JSON form");
    let report = validate_document(&items);
    assert!(
        transcript.items.is_empty() || report.violations.is_empty(),
        "{:?}",
        report.violations
    );
    for id in transcript.records.iter().flat_map(|record| &record.items) {
        assert!(transcript.items.iter().any(|item| item.id == *id), "{id} is gone");
    }
}
