//! The case files of the repository, which test the runner, and those of the shared folder, which test the product.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use throughline_conformance::{Case, CaseReport, Verdict, check_names, run};

/// Repeats of one case; the command line runs as many as the case wants.
const MOST_REPEATS: u64 = 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "json")).collect();
    found.sort();
    found
}

fn load(file: &Path) -> Case {
    let mut case = Case::parse(&std::fs::read_to_string(file).unwrap()).unwrap();
    if let Some(repeat) = case.input.get_mut("repeat") {
        *repeat = repeat.as_u64().unwrap().min(MOST_REPEATS).into();
    }
    case
}

/// The runner's own cases with this first word.
fn own(word: &str) -> Vec<(Case, CaseReport)> {
    let files = files(&root().join("conformance/cases"));
    let named = files.iter().filter(|f| f.file_name().unwrap().to_str().unwrap().starts_with(word));
    let found: Vec<_> = named.map(|f| load(f)).map(|case| (case.clone(), run(&case))).collect();
    assert!(!found.is_empty(), "there are no cases {word}*");
    found
}

#[test]
fn what_is_true_passes() {
    for (_, report) in own("holds-") {
        assert!(report.holds(), "{report}");
    }
}

#[test]
fn what_is_false_fails() {
    for (_, report) in own("fails-") {
        let all = report.checks.iter().all(|c| matches!(c.verdict, Verdict::Fail(_)));
        assert!(all && !report.checks.is_empty(), "{report}");
    }
}

#[test]
fn what_cannot_be_run_does_not_pass() {
    for (_, report) in own("open-") {
        let all = report.checks.iter().all(|c| matches!(c.verdict, Verdict::NotRun(_)));
        assert!(all && !report.checks.is_empty(), "{report}");
    }
}

#[test]
fn every_check_has_a_true_and_a_false_example() {
    let used = |word: &str| -> BTreeSet<String> {
        let cases = own(word);
        let checks = cases.iter().flat_map(|(case, _)| case.expect.iter().flat_map(|e| &e.checks));
        checks.flat_map(|c| c.as_object().unwrap().keys().cloned()).collect()
    };
    let (holds, fails) = (used("holds-"), used("fails-"));
    // Of these no case can have both, or either: the product would have to be wrong, or to read transcripts. `checks_tests`
    // has them with evidence of its own.
    let by_hand = ["canonical", "parents", "repeatable", "replay", "roundtrip", "chunking"];
    for name in check_names().filter(|name| !by_hand.contains(name)) {
        assert!(holds.contains(name), "no holds-* case has {name}");
        assert!(fails.contains(name), "no fails-* case has {name}");
    }
}

#[test]
fn the_shared_cases_stand_as_the_table_says() {
    let folder = root().join("../shared/cases");
    if !folder.is_dir() {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "{} is missing; with CI=true it must be there",
            folder.display()
        );
        eprintln!("skipped: {} is missing", folder.display());
        return;
    }
    let table = std::fs::read_to_string(root().join("conformance/cases.tsv")).unwrap();
    let rows = table.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).skip(1);
    let expected: BTreeMap<&str, bool> = rows
        .map(|row| {
            let columns: Vec<&str> = row.split('\t').collect();
            match columns[..] {
                [case, "holds"] => (case, true),
                [case, "open", reason] if !reason.trim().is_empty() => (case, false),
                _ => panic!("conformance/cases.tsv: a row is `case holds` or `case open reason`: {row}"),
            }
        })
        .collect();
    let (mut problems, mut seen) = (String::new(), BTreeSet::new());
    for file in files(&folder) {
        let case = load(&file);
        let report = run(&case);
        seen.insert(case.id.clone());
        match (expected.get(case.id.as_str()), report.holds()) {
            (Some(true), true) | (Some(false), false) => {}
            (Some(true), false) => writeln!(problems, "it held, and holds no more:\n{report}").unwrap(),
            (Some(false), true) => writeln!(problems, "it is listed as open and holds now; write `{}\tholds`", case.id).unwrap(),
            (None, _) => writeln!(problems, "it has no row:\n{report}").unwrap(),
        }
    }
    for gone in expected.keys().filter(|case| !seen.contains(**case)) {
        writeln!(problems, "there is no case {gone} any more").unwrap();
    }
    assert!(problems.is_empty(), "conformance/cases.tsv does not say what is so:\n{problems}");
}
