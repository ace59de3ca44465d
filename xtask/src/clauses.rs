//! The ledger of the specification: which test shows which clause.
//!
//! A test names its clauses with `throughline_format::clause!("LIVE-03")`. A clause that no test names yet stands in
//! `conformance/open-clauses.tsv` (columns id, issue title). This check fails on a clause that is in neither place, on one
//! that is in both, on an ID that does not exist, and on a name outside a test.

use crate::{Failure, repo};
use std::collections::{BTreeMap, BTreeSet};

const OPEN: &str = "conformance/open-clauses.tsv";
const OPEN_HEADER: &str = "id\tissue";
/// Case functions of the store contract: tests without an attribute, since one runner calls them for every store.
const CONTRACT_CASES: &str = "crates/store/src/contract/";

/// A place where a clause is named.
#[derive(Debug, PartialEq, Eq)]
struct Mention {
    clause: String,
    function: Option<String>,
    is_test: bool,
    line: usize,
}

/// Runs the command.
pub(crate) fn run(prune: bool) -> Result<(), Failure> {
    let ledger = repo::shared().join("spec/clauses.tsv");
    if !repo::is_there(&ledger)? {
        return Ok(());
    }
    let known: Vec<(String, String)> = repo::table(&ledger)?
        .into_iter()
        .filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone())))
        .collect();
    let open_path = repo::root().join(OPEN);
    let mut open: BTreeMap<String, String> = repo::table(&open_path)?
        .into_iter()
        .filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone())))
        .collect();

    let (mut shown, mut problems) = (BTreeMap::<String, BTreeSet<String>>::new(), Vec::new());
    for (path, text) in repo::files()? {
        if !repo::is_rust(&path) || path.starts_with("xtask/") || path == "crates/format/src/macros.rs" {
            continue;
        }
        for mention in mentions(&text) {
            let Some(function) = mention.function.filter(|_| mention.is_test || path.starts_with(CONTRACT_CASES)) else {
                problems.push(format!("{path}:{}: {} is named outside a test", mention.line, mention.clause));
                continue;
            };
            shown.entry(mention.clause).or_default().insert(format!("{path} {function}"));
        }
    }

    if prune {
        open.retain(|id, _| !shown.contains_key(id));
        let rows = open.iter().map(|(id, issue)| format!("{id}\t{issue}"));
        let lines: Vec<String> = std::iter::once(OPEN_HEADER.to_owned()).chain(rows).collect();
        repo::write(&open_path, &format!("{}\n", lines.join("\n")))?;
    }
    for (id, section) in &known {
        match (shown.get(id), open.get(id)) {
            (Some(tests), listed) => {
                println!(
                    "{id}\t{section}\t{}",
                    tests.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
                );
                if listed.is_some() {
                    problems.push(format!(
                        "{id} is shown by a test and still in {OPEN}: run `cargo run -p xtask -- clauses --prune`"
                    ));
                }
            }
            (None, Some(issue)) => println!("{id}\t{section}\topen: {issue}"),
            (None, None) => problems.push(format!("{id} is shown by no test and is not in {OPEN}")),
        }
    }
    let ids: BTreeSet<&String> = known.iter().map(|(id, _)| id).collect();
    problems.extend(
        shown
            .keys()
            .filter(|id| !ids.contains(id))
            .map(|id| format!("a test names {id}, which is no clause")),
    );
    problems.extend(
        open.keys()
            .filter(|id| !ids.contains(id))
            .map(|id| format!("{OPEN} lists {id}, which is no clause")),
    );
    eprintln!("{} of {} clauses shown, {} open", shown.len(), known.len(), open.len());
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("clauses:\n  {}", problems.join("\n  ")))
    }
}

/// Every `clause!` of a source text with the function around it.
fn mentions(text: &str) -> Vec<Mention> {
    let (mut found, mut function, mut is_test, mut attribute) = (Vec::new(), None, false, false);
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        if code.starts_with("#[") && (code.contains("test]") || code.contains("test(")) {
            attribute = true;
        }
        if let Some(name) = function_name(code) {
            function = Some(name.to_owned());
            is_test = std::mem::take(&mut attribute);
        }
        let Some((_, rest)) = code.split_once("clause!(") else { continue };
        let inside = rest.split(')').next().unwrap_or_default();
        for clause in inside.split('"').skip(1).step_by(2) {
            found.push(Mention {
                clause: clause.to_owned(),
                function: function.clone(),
                is_test,
                line: number + 1,
            });
        }
    }
    found
}

/// Name of the function that a line begins, if it begins one.
fn function_name(code: &str) -> Option<&str> {
    let mut rest = code;
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_belong_to_the_function_around_them() {
        let text = "#[test]\nfn a() {\n    clause!(\"X-1\", \"X-2\");\n}\nfn helper() {\n    clause!(\"X-3\");\n}\n// clause!(\"X-4\")\n#[tokio::test(flavor = \"current_thread\")]\nasync fn b() { throughline_format::clause!(\"X-5\"); }\n";
        let found: Vec<(String, Option<String>, bool)> = mentions(text).into_iter().map(|m| (m.clause, m.function, m.is_test)).collect();
        let expected = [("X-1", "a", true), ("X-2", "a", true), ("X-3", "helper", false), ("X-5", "b", true)];
        assert_eq!(
            found,
            expected.map(|(clause, function, is_test)| (clause.to_owned(), Some(function.to_owned()), is_test))
        );
    }
}
