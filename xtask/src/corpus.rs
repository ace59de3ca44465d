//! The acceptance scripts against the release binary: `$THROUGHLINE_BIN`, else `release/throughline` of the target folder.
//!
//! `conformance/corpus-floor.tsv` (columns check, name, holds) keeps how many files held. A figure below its row fails, so
//! figures can only rise. Streams are held to all of them, and so are the requests of real clients.

use crate::{Failure, repo};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use throughline_protocols::{codec_of, families};

const FLOOR: &str = "conformance/corpus-floor.tsv";
const FLOOR_HEADER: &str = "check\tname\tholds";
/// Names another binary, for a quick look with a debug build.
const BINARY_VARIABLE: &str = "THROUGHLINE_BIN";
/// Checks whose figures are held to the floor; `streams` must hold for every file.
const CHECKS: &str = "roundtrip,decode,matrix,streams";
/// Figures of one run: (check, name) → (holding, all).
pub(crate) type Figures = BTreeMap<(String, String), (u64, u64)>;

/// Runs the command.
pub(crate) fn run(raise: bool) -> Result<(), Failure> {
    let wire = repo::shared().join("corpus/wire");
    if !repo::is_there(&wire)? {
        return Ok(());
    }
    let protocols: Vec<String> = families()
        .iter()
        .filter(|f| codec_of(f).is_some())
        .map(ToString::to_string)
        .collect();
    if protocols.is_empty() {
        return Err("corpus: this build has no codec".to_owned());
    }
    let program = binary();
    if !program.is_file() {
        return Err(format!(
            "corpus: {} is not there; build it with `cargo build --release -p throughline-cli`, or name another one in {BINARY_VARIABLE}",
            program.display()
        ));
    }
    let (mut measured, mut findings) = figures(&protocols)?;
    let (projected, broken) = crate::projected::figures(&protocols)?;
    measured.extend(projected);
    findings.push_str(&broken);
    // Whoever wants to raise a figure needs the files that fail.
    let kept = repo::target().join("corpus.txt");
    repo::write(&kept, &findings)?;
    eprintln!("corpus: all findings are in {}", kept.display());
    let mut problems = held_to_floor(&measured, raise)?;
    problems.extend(real_clients()?);
    problems.extend(leaves(raise)?);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("corpus:\n  {}", problems.join("\n  ")))
    }
}

/// What the checker misses and what it misjudges: nothing of ours may be left, and `conformance/corpus-exceptions.tsv` is fresh.
fn leaves(raise: bool) -> Result<Option<String>, Failure> {
    let mut command = Command::new("python3");
    command
        .current_dir(repo::root())
        .arg("tests/corpus/check.py")
        .arg("--bin")
        .arg(binary())
        .arg("--shared")
        .arg(repo::shared());
    if raise {
        command.arg("--write");
    }
    let status = command.status().map_err(|e| format!("corpus: python3 does not start: {e}"))?;
    Ok((!status.success()).then(|| "tests/corpus/check.py failed (above)".to_owned()))
}

/// Everything that takes long, in the order of likely failure.
pub(crate) fn full(fuzz_seconds: u64) -> Result<(), Failure> {
    crate::tidy::run()?;
    crate::docs::run(true)?;
    crate::clauses::run(false)?;
    repo::execute("./test", &[])?;
    repo::execute("cargo", &["fmt", "--all", "--check"])?;
    repo::execute(
        "cargo",
        &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"],
    )?;
    // The suite kills the store a few times; here it is enough times to hit the rare moments.
    let kills = [
        "THROUGHLINE_TEST_CRASH_ROUNDS=200",
        "cargo",
        "test",
        "--locked",
        "-p",
        "throughline-store-sqlite",
        "--test",
        "it",
        "crash::",
    ];
    repo::execute("env", &kills)?;
    repo::execute("cargo", &["build", "--locked", "--release", "-p", "throughline-cli"])?;
    run(false)?;
    repo::execute("tests/agents/run", &["--all"])?;
    crate::fuzz::run(fuzz_seconds)
}

/// The program under test.
pub(crate) fn binary() -> PathBuf {
    // Every program here runs in the root, so a relative path counts from there.
    repo::root().join(std::env::var_os(BINARY_VARIABLE).map_or_else(|| repo::target().join("release/throughline"), PathBuf::from))
}

/// Runs the corpus checker: its figures and everything that it said.
fn figures(protocols: &[String]) -> Result<(Figures, String), Failure> {
    let script = repo::shared().join("acceptance/corpus_check.py");
    let mut command = Command::new("python3");
    command
        .arg(script)
        .arg("--bin")
        .arg(binary())
        .args(["--check", CHECKS, "-v", "--corpus"])
        .arg(repo::shared().join("corpus/wire"));
    command.arg("--protocol").args(protocols).arg("--to").args(protocols);
    let output = command
        .current_dir(repo::root())
        .output()
        .map_err(|e| format!("cannot run python3: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = parse(&text);
    if found.is_empty() {
        return Err(format!(
            "the corpus checker printed no figures:\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    eprintln!("corpus: {}", text.lines().last().unwrap_or_default());
    Ok((found, text.into_owned()))
}

/// Lines `check name n/m`.
fn parse(text: &str) -> Figures {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (check, name, figure) = (words.next()?, words.next()?, words.next()?);
        let (holding, all) = figure.split_once('/')?;
        if words.next().is_some() {
            return None;
        }
        Some(((check.to_owned(), name.to_owned()), (holding.parse().ok()?, all.parse().ok()?)))
    };
    text.lines().filter_map(line).collect()
}

/// Compares with the floor. Better figures are announced, or written with `raise`.
fn held_to_floor(figures: &Figures, raise: bool) -> Result<Vec<String>, Failure> {
    let path = repo::root().join(FLOOR);
    let mut floor: BTreeMap<(String, String), u64> = if path.exists() {
        repo::table(&path)?
            .into_iter()
            .filter_map(|r| Some(((r.first()?.clone(), r.get(1)?.clone()), r.get(2)?.parse().ok()?)))
            .collect()
    } else {
        BTreeMap::new()
    };
    let mut problems = Vec::new();
    for (key, (holding, all)) in figures {
        let (check, name) = key;
        println!("{check:10} {name:45} {holding}/{all}");
        if check == "streams" && holding < all {
            problems.push(format!("streams {name}: {holding} of {all} hold; all of them must"));
        }
        let least = floor.get(key).copied();
        if least.is_some_and(|least| *holding < least) {
            problems.push(format!("{check} {name}: {holding} hold, {} did before", least.unwrap_or_default()));
        } else if least.is_none_or(|least| *holding > least) {
            if raise {
                floor.insert(key.clone(), *holding);
            } else {
                eprintln!("corpus: {check} {name} rose to {holding}: run `cargo run -p xtask -- corpus --raise` and commit {FLOOR}");
            }
        }
    }
    problems.extend(
        floor
            .keys()
            .filter(|key| !figures.contains_key(key))
            .map(|(check, name)| format!("{check} {name} has a floor, but was not measured")),
    );
    if raise {
        let rows = floor.iter().map(|((check, name), holds)| format!("{check}\t{name}\t{holds}"));
        let lines: Vec<String> = std::iter::once(FLOOR_HEADER.to_owned()).chain(rows).collect();
        repo::write(&path, &format!("{}\n", lines.join("\n")))?;
    }
    Ok(problems)
}

/// Requests that real coding agents sent: each decodes and projects to openai-chat, and the body breaks no rule of the provider.
fn real_clients() -> Result<Vec<String>, Failure> {
    let folder = repo::shared().join("corpus/wire-clients/claude-code");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .map_err(|e| format!("cannot read {}: {e}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    let (mut jobs, mut requests) = (String::new(), 0);
    for path in &files {
        let capture: serde_json::Value = serde_json::from_str(&repo::read(path)?).map_err(|e| format!("{}: {e}", path.display()))?;
        // Clients also ask with HEAD whether somebody is there; that has no body.
        let Some(body) = capture.get("body").filter(|body| body.is_object()) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let job = serde_json::json!({"id": name, "kind": "request", "from": "anthropic-messages", "to": "openai-chat", "body": body});
        jobs.push_str(&job.to_string());
        jobs.push('\n');
        requests += 1;
    }
    let answers = piped(Command::new(binary()).args(["convert", "--batch"]), &jobs)?;
    let rules = repo::shared().join("acceptance/wire_rules.py");
    let mut problems = Vec::new();
    for line in answers.lines() {
        let answer: serde_json::Value = serde_json::from_str(line).map_err(|e| format!("convert --batch: {e}"))?;
        let (name, output) = (answer.get("id").and_then(|n| n.as_str()).unwrap_or("?"), answer.get("output"));
        let Some(output) = output else {
            problems.push(format!(
                "claude-code {name}: no projection: {}",
                answer.get("error").unwrap_or(&serde_json::Value::Null)
            ));
            continue;
        };
        let findings = piped(Command::new("python3").arg(&rules).args(["openai-chat", "-"]), &output.to_string())?;
        problems.extend(
            findings
                .lines()
                .filter(|l| l.starts_with("refused"))
                .map(|finding| format!("claude-code {name}: {finding}")),
        );
    }
    if answers.lines().count() != requests {
        problems.push(format!(
            "claude-code: {} of {} requests were answered",
            answers.lines().count(),
            requests
        ));
    }
    println!(
        "{:10} {:45} {}/{}",
        "clients",
        "claude-code->openai-chat",
        requests.saturating_sub(problems.len()),
        requests
    );
    Ok(problems)
}

/// Feeds a program and returns what it prints, whatever its exit code.
pub(crate) fn piped(command: &mut Command, input: &str) -> Result<String, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .current_dir(repo::root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run {program}: {e}"))?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // In a thread, so that neither side waits for the other's full pipe.
        scope.spawn(move || stdin.map(|mut pipe| pipe.write_all(input.as_bytes())));
        child.wait_with_output()
    });
    let output = output.map_err(|e| format!("cannot read from {program}: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_other_lines_are_not() {
        let found = parse("decode     openai-chat          10/12\nFAIL decode a/b.json: 3/4 leaves lost\n22 of 24 hold, 2 fail\n");
        assert_eq!(found, BTreeMap::from([(("decode".to_owned(), "openai-chat".to_owned()), (10, 12))]));
    }
}
