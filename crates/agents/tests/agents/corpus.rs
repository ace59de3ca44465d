//! Every session of the corpus: it imports, comes back as it was, converts to every other runtime, and nothing is lost in silence.

use crate::leaves;
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
