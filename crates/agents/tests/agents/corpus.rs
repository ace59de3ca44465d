//! Every session of the corpus: it imports, comes back as it was, converts to every other runtime, and nothing is lost in silence.

use crate::leaves;
use crate::support;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use throughline_agents::{Runtime, Source, SourceFile, Transcript, WriteOptions, Written, runtime_named, runtimes};

/// The corpus, or nothing when it is not beside the checkout and nobody insists.
fn corpus() -> Option<PathBuf> {
    let places = ["../../../shared", "../../../../shared"];
    let found = places
        .iter()
        .map(|up| Path::new(env!("CARGO_MANIFEST_DIR")).join(up).join("corpus/sessions"));
    let folder = found.into_iter().find(|folder| folder.is_dir());
    if folder.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "the corpus of sessions is not beside the checkout"
        );
        eprintln!("skipped: the corpus of sessions is not beside the checkout");
    }
    folder
}

/// Every session file of a runtime, as sources.
fn sources(runtime: &str) -> Vec<(String, Source)> {
    let Some(folder) = corpus() else { return Vec::new() };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join(runtime))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    let wanted = |path: &PathBuf| matches!(path.extension().and_then(|e| e.to_str()), Some("jsonl" | "json"));
    let sources = files.into_iter().filter(wanted).map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        let file = SourceFile::new(name.clone(), bytes);
        (name, Source { files: vec![file] })
    });
    sources.collect()
}

/// Runs a check over every file, and tells all that fail.
fn each(check: impl Fn(&dyn Runtime, &Source) -> Result<(), String>) {
    let mut failures = Vec::new();
    for runtime in runtimes().into_iter().filter(|runtime| runtime.name() != "sna-blocks") {
        let sources = sources(runtime.name());
        assert!(
            corpus().is_none() || sources.len() > 5,
            "{}: the corpus has too few files",
            runtime.name()
        );
        for (name, source) in sources {
            if let Err(why) = check(runtime, &source) {
                failures.push(format!("{}/{name}: {why}", runtime.name()));
            }
        }
    }
    assert!(failures.is_empty(), "{} files fail:\n{}", failures.len(), failures.join("\n"));
}

fn read(runtime: &dyn Runtime, source: &Source) -> Result<Vec<Transcript>, String> {
    runtime.read(source).map_err(|e| format!("{}: {}", e.code, e.message))
}

fn write(runtime: &dyn Runtime, transcript: &Transcript) -> Written {
    runtime.write(transcript, &WriteOptions::default()).unwrap()
}

fn again(runtime: &dyn Runtime, written: &Written) -> Result<Vec<Transcript>, String> {
    let files = written.files.iter().map(|f| SourceFile::new(f.path.clone(), f.content.clone()));
    read(runtime, &Source { files: files.collect() })
}

#[test]
fn every_file_imports_and_says_what_it_does_not_take() {
    each(|runtime, source| {
        let found = read(runtime, source)?;
        let lost = leaves::missing(source, &found);
        if lost.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "{} leaves disappear in silence: {:?}",
                lost.len(),
                lost.iter().take(3).collect::<Vec<_>>()
            ))
        }
    });
}

/// Equivalent means: the same records in the same order, each with the same JSON value, and the same conversation when it is read again.
/// A byte order mark, line ends, blank and damaged lines, spacing between tokens, and records of a log that later ones replaced are none
/// of it.
#[test]
fn the_same_runtime_gets_an_equivalent_file_back() {
    each(|runtime, source| {
        for transcript in read(runtime, source)?.into_iter().filter(|t| !t.records.is_empty()) {
            let written = write(runtime, &transcript);
            if !written.loss.entries.is_empty() {
                return Err(format!("the way back loses {:?}", written.loss.entries.first()));
            }
            let second = again(runtime, &written)?.swap_remove(0);
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let records = |t: &Transcript| t.records.iter().map(|r| (r.kind.clone(), value(&r.text))).collect::<Vec<_>>();
            let (before, after) = (records(&transcript), records(&second));
            if before != after {
                let differs = before.iter().zip(&after).position(|(a, b)| a != b);
                return Err(format!("other records, {} and {}, from {differs:?}", before.len(), after.len()));
            }
            if transcript.items != second.items {
                let differs = transcript.items.iter().zip(&second.items).position(|(a, b)| a != b);
                return Err(format!(
                    "other items, {} and {}, from {differs:?}",
                    transcript.items.len(),
                    second.items.len()
                ));
            }
            if write(runtime, &second) != written {
                return Err("writing again gives another file".to_owned());
            }
        }
        Ok(())
    });
}

#[test]
fn every_pair_of_runtimes_converts_and_loses_nothing_in_silence() {
    for target in runtimes() {
        each(|runtime, source| {
            if runtime.name() == target.name() {
                return Ok(());
            }
            for transcript in read(runtime, source)? {
                let written = write(target, &transcript);
                let lost = leaves::lost_between(&transcript, &written, &again(target, &written)?);
                if !lost.is_empty() {
                    return Err(format!(
                        "to {}: {} leaves disappear in silence: {:?}",
                        target.name(),
                        lost.len(),
                        lost.iter().take(3).collect::<Vec<_>>()
                    ));
                }
                if write(target, &transcript) != written {
                    return Err(format!("to {}: writing again gives another file", target.name()));
                }
            }
            Ok(())
        });
    }
    assert!(runtime_named("sna-blocks").is_some());
}

/// Signatures and encrypted reasoning of a file, as far as they are long enough to be told from other text; not what recordings have in
/// the place of a long one.
fn secrets(source: &Source) -> Vec<String> {
    let text = String::from_utf8_lossy(&source.files[0].bytes).into_owned();
    let mut found = Vec::new();
    for key in [
        "\"signature\":\"",
        "\"signature\": \"",
        "\"encrypted_content\":\"",
        "\"encrypted_content\": \"",
    ] {
        found.extend(
            text.split(key)
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .filter(|secret| secret.len() > 8 && !secret.starts_with('['))
                .map(str::to_owned),
        );
    }
    found
}

/// Every call has exactly one result, behind it and before the next thing that the user says; no result is without a call.
fn paired(transcript: &Transcript) -> Result<(), String> {
    let (mut open, mut seen) = (HashSet::new(), HashSet::new());
    for item in &transcript.items {
        match item.call_id() {
            Some(id) if item.lifecycle().is_some() => {
                if !seen.insert(id) {
                    return Err(format!("the call {id} stands twice"));
                }
                open.insert(id);
            }
            Some(id) if !open.remove(id) => return Err(format!("the result {id} has no call")),
            None if !open.is_empty() && item.role == Some(throughline_format::item::Role::User) => {
                return Err(format!("the user speaks before the results of {open:?}"));
            }
            _ => {}
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("{open:?} have no result"))
    }
}

#[test]
fn every_mapping_handles_signatures_order_and_partial_texts() {
    throughline_format::clause!("SNA-08");
    let mut known = 0;
    for target in runtimes().into_iter().filter(|target| target.name() != "sna-blocks") {
        let count = std::cell::Cell::new(0);
        each(|runtime, source| {
            let secrets = secrets(source);
            count.set(count.get() + secrets.len());
            for mut transcript in read(runtime, source)? {
                // By the rules of the target, also for its own sessions.
                transcript.records.clear();
                let written = write(target, &transcript);
                let is_own = runtime.name() == target.name();
                if let Some(secret) = secrets.iter().find(|secret| !is_own && written.files[0].content.contains(*secret)) {
                    return Err(format!("to {}: a signature goes to a stranger: {}…", target.name(), &secret[..8]));
                }
                // A session that says nothing is a file without lines.
                if written.files[0].content.is_empty() {
                    continue;
                }
                for again in again(target, &written)? {
                    paired(&again).map_err(|why| format!("to {}: {why}", target.name()))?;
                }
            }
            Ok(())
        });
        known += count.get();
    }
    assert!(corpus().is_none() || known > 20, "the corpus has signatures");
    // An answer in pieces is one answer at every target.
    let line = |n: u32, role: &str, text: &str| {
        let content = serde_json::json!([{"type": "text", "text": text}]);
        let parent = if n == 0 {
            serde_json::Value::Null
        } else {
            format!("l{}", n - 1).into()
        };
        serde_json::json!({"type": role, "uuid": format!("l{n}"), "parentUuid": parent, "message": {"role": role, "id": format!("m{n}"), "content": content}}).to_string() + "\n"
    };
    let session = support::read(
        "claude-code",
        "s.jsonl",
        line(0, "user", "go") + &line(1, "assistant", "one") + &line(2, "assistant", "two"),
    );
    let mut session = session;
    session.records.clear();
    let claude = support::lines(&support::write("claude-code", &session));
    assert_eq!(claude[1]["message"]["id"], claude[2]["message"]["id"]);
    let opencode: serde_json::Value = serde_json::from_str(&support::write("opencode", &session).files[0].content).unwrap();
    assert_eq!(opencode["messages"][1]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(support::lines(&support::write("gemini-cli", &session))[2]["content"], "one\ntwo");
    let codex = support::lines(&support::write("codex", &session));
    assert_eq!(
        codex.iter().filter(|line| line["payload"]["role"] == "assistant").count(),
        2,
        "each text is an item of its own there"
    );
}
