//! Every captured request that its provider accepted, projected to every target and held to the target's rules, the strict ones
//! included: what a careful encoder does not send either.

use crate::corpus::{Figures, binary, piped};
use crate::{Failure, repo};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A captured request.
struct Captured {
    /// Its place in the list.
    number: usize,
    file: String,
    protocol: String,
    /// Features of the manifest, which tell the rules about model and dialect.
    features: String,
    body: Value,
}

/// Figures `rules from->to`: requests without a finding, of those that are projected.
pub(crate) fn figures(protocols: &[String]) -> Result<(Figures, String), Failure> {
    let wire = repo::shared().join("corpus/wire");
    let requests = captured(&wire, protocols)?;
    let folder = repo::target().join("projected");
    let _ = std::fs::remove_dir_all(&folder);
    let mut manifest = "file\tprotocol\tkind\tfeatures\n".to_owned();
    let mut pairs: BTreeMap<String, (String, String)> = BTreeMap::new();
    for target in protocols {
        let jobs: String = requests.iter().map(|r| job(r, target) + "\n").collect();
        let answers = piped(Command::new(binary()).args(["convert", "--batch"]), &jobs)?;
        for answer in answers.lines() {
            let answer: Value = serde_json::from_str(answer).map_err(|e| format!("convert --batch: {e}"))?;
            let index = answer.get("id").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            // Without an output nothing is sent: the check of decoding counts what is not read.
            let (Some(request), Some(output)) = (index.and_then(|n| requests.get(n)), answer.get("output")) else {
                continue;
            };
            let file = format!("{}/{target}/requests/{}.json", request.protocol, pairs.len());
            repo::write(&folder.join(&file), &output.to_string())?;
            // Another target has nothing of the dialect that the request was written for, but the same name of a model.
            let model = request.body.get("model").and_then(Value::as_str);
            let features = if request.protocol == *target {
                request.features.clone()
            } else {
                model
                    .filter(|m| !m.contains([',', '\t', '\n']))
                    .map_or_else(String::new, |m| format!("model={m}"))
            };
            let _ = writeln!(manifest, "{file}\t{target}\trequests\t{features}");
            pairs.insert(file, (format!("{}->{target}", request.protocol), request.file.clone()));
        }
    }
    repo::write(&folder.join("MANIFEST.tsv"), &manifest)?;
    Ok(count(&pairs, &strict(&folder)?, &strict(&wire)?))
}

/// What the strict rules find in a folder like the corpus.
fn strict(folder: &Path) -> Result<String, Failure> {
    let script = repo::shared().join("acceptance/wire_rules.py");
    piped(Command::new("python3").arg(script).arg("--corpus").arg(folder).arg("--strict"), "")
}

/// Holding and all per pair, and the findings with the names of the captured files. What a client wrote in its own way goes
/// to the same protocol that way, so a rule that the captured request breaks itself does not count there.
fn count(pairs: &BTreeMap<String, (String, String)>, found: &str, captured: &str) -> (Figures, String) {
    // A line is file, level, code, path, message.
    let rule = |line: &str| -> Option<(String, String)> {
        let mut columns = line.split('\t');
        Some((columns.next()?.to_owned(), columns.nth(1)?.to_owned()))
    };
    let own: BTreeSet<(String, String)> = captured.lines().filter_map(rule).collect();
    let (mut flagged, mut findings) = (BTreeSet::new(), String::new());
    for line in found.lines() {
        let Some((file, finding)) = line.split_once('\t') else { continue };
        if let Some((pair, source)) = pairs.get(file) {
            let (from, to) = pair.split_once("->").unwrap_or_default();
            if from == to && rule(line).is_some_and(|(_, code)| own.contains(&(source.clone(), code))) {
                continue;
            }
            flagged.insert(file);
            let _ = writeln!(findings, "FAIL rules {pair} {source}: {}", finding.replace('\t', " "));
        }
    }
    let mut figures = Figures::new();
    for (file, (pair, _)) in pairs {
        let (holding, all) = figures.entry(("rules".to_owned(), pair.clone())).or_default();
        *holding += u64::from(!flagged.contains(file.as_str()));
        *all += 1;
    }
    (figures, findings)
}

/// The captured requests of these protocols that were accepted, by the manifest.
fn captured(wire: &Path, protocols: &[String]) -> Result<Vec<Captured>, Failure> {
    let rows = repo::table(&wire.join("MANIFEST.tsv"))?;
    let features = |row: &[String]| -> Vec<String> { row.get(3).map(|f| f.split(',').map(str::to_owned).collect()).unwrap_or_default() };
    let refused = |row: &[String]| {
        features(row)
            .iter()
            .any(|f| f.starts_with("http-4") || f.starts_with("answer-http-4"))
    };
    let answers_refused: BTreeSet<&str> = rows
        .iter()
        .filter(|row| row.get(2).is_some_and(|kind| kind == "responses") && refused(row))
        .filter_map(|row| row.first().map(String::as_str))
        .collect();
    let mut found = Vec::new();
    for row in &rows {
        let (Some(file), Some(protocol), Some(kind)) = (row.first(), row.get(1), row.get(2)) else {
            continue;
        };
        let synthetic = features(row).iter().any(|f| f.starts_with("origin=") && f != "origin=captured");
        let answer = file.replace("/requests/", "/responses/");
        if kind != "requests" || !protocols.contains(protocol) || synthetic || refused(row) || answers_refused.contains(answer.as_str()) {
            continue;
        }
        let text = repo::read(&wire.join(file))?;
        let body = serde_json::from_str(&text).map_err(|e| format!("{file}: {e}"))?;
        found.push(Captured {
            number: found.len(),
            file: file.clone(),
            protocol: protocol.clone(),
            features: row.get(3).cloned().unwrap_or_default(),
            body,
        });
    }
    Ok(found)
}

fn job(request: &Captured, target: &str) -> String {
    let number = request.number;
    serde_json::json!({"id": number, "kind": "request", "from": request.protocol, "to": target, "body": request.body}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_a_finding_of_its_own_does_not_hold() {
        let pair = |pair: &str, name: &str| (pair.to_owned(), name.to_owned());
        let pairs = BTreeMap::from([
            ("1.json".to_owned(), pair("a->b", "x")),
            ("2.json".to_owned(), pair("a->b", "y")),
            ("3.json".to_owned(), pair("a->a", "x")),
            ("4.json".to_owned(), pair("a->a", "y")),
        ]);
        let found = ["1", "3", "4"].map(|n| format!("{n}.json\tstrict\tcode\t/p\tmessage\n")).concat();
        let (figures, findings) = count(&pairs, &(found + "1 of 4 pass\n"), "x\tstrict\tcode\t/q\tmessage\n");
        let key = |pair: &str| ("rules".to_owned(), pair.to_owned());
        assert_eq!(figures, Figures::from([(key("a->b"), (1, 2)), (key("a->a"), (1, 2))]));
        assert_eq!(findings.lines().count(), 2, "{findings}");
        assert!(findings.starts_with("FAIL rules a->b x: strict code /p message"));
    }
}
