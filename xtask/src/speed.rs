//! How fast sessions are imported: `throughline session import` against `serde_json` that merely parses the same lines, in one run.
//!
//! The sessions are made up here, always the same ones, in the sizes that coding agents write: short questions, answers of a few
//! sentences, calls, and results of some kilobytes of source text. The program under test is that of `corpus`.

use crate::corpus::binary;
use crate::{Failure, repo};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Size of the folder, in megabytes, where none is named.
pub(crate) const MEGABYTES: usize = 100;
/// Size of one session.
const SESSION_BYTES: usize = 2_000_000;
/// An import may take so many times as long as parsing.
const TIMES: f64 = 3.0;
/// How often the memory of the import is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the command.
pub(crate) fn run(megabytes: usize) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        return Err("import-speed: parsing is measured here too, so run it with `cargo run --release -p xtask -- import-speed`".to_owned());
    }
    let program = binary();
    if !program.is_file() {
        return Err(format!("import-speed: {} is not there; build it first", program.display()));
    }
    let folder = repo::target().join("import-speed");
    let failed = |what: &str, e: std::io::Error| format!("import-speed: {what}: {e}");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| failed("the old folder stays", e))?;
    }
    let sessions = folder.join("sessions");
    std::fs::create_dir_all(&sessions).map_err(|e| failed("no folder", e))?;
    let mut files = Vec::new();
    for number in 0..(megabytes * 1_000_000).div_ceil(SESSION_BYTES) {
        let file = sessions.join(format!("5e551011-0000-4000-8000-{number:012}.jsonl"));
        repo::write(&file, &session(number))?;
        files.push(file);
    }
    let (parsed, bytes, lines) = parse(&files)?;
    let (imported, memory) = import(&program, &sessions, &folder.join("data"))?;
    std::fs::remove_dir_all(&folder).map_err(|e| failed("the folder stays", e))?;
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let speed = |time: f64| bytes as f64 / 1e6 / time;
    println!(
        "import-speed: {} sessions, {lines} lines, {:.0} MB: parsing {parsed:.2} s ({:.0} MB/s), import {imported:.2} s ({:.0} MB/s), {:.2} times as long; at most {memory} MB of memory",
        files.len(),
        speed(1.0),
        speed(parsed),
        speed(imported),
        imported / parsed
    );
    if imported > parsed * TIMES {
        return Err(format!("import-speed: an import may take {TIMES} times as long as parsing"));
    }
    Ok(())
}

/// Seconds that it takes to read and parse every line, the bytes and the lines.
fn parse(files: &[PathBuf]) -> Result<(f64, usize, usize), Failure> {
    let begin = Instant::now();
    let (mut bytes, mut lines) = (0, 0);
    for file in files {
        let text = repo::read(file)?;
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).map_err(|e| format!("import-speed: a made line is broken: {e}"))?;
            lines += usize::from(std::hint::black_box(value).is_object());
        }
        bytes += text.len();
    }
    Ok((begin.elapsed().as_secs_f64(), bytes, lines))
}

/// Seconds that the program takes, and the most memory that it was seen with, in megabytes.
fn import(program: &Path, sessions: &Path, data: &Path) -> Result<(f64, u64), Failure> {
    let begin = Instant::now();
    let mut child = Command::new(program)
        .args(["session", "import", "--from", "claude-code", "--db"])
        .arg(data)
        .arg(sessions)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| format!("import-speed: {} does not start: {e}", program.display()))?;
    let mut memory = 0;
    loop {
        if let Some(status) = child.try_wait().map_err(|e| format!("import-speed: {e}"))? {
            let time = begin.elapsed().as_secs_f64();
            return if status.success() {
                Ok((time, memory))
            } else {
                Err(format!("import-speed: the import failed ({status})"))
            };
        }
        memory = memory.max(resident(child.id()));
        std::thread::sleep(LOOK);
    }
}

/// Memory of a process where the system tells it.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

/// A session of Claude Code.
fn session(number: usize) -> String {
    let mut text = String::with_capacity(SESSION_BYTES + 20_000);
    let (mut line, mut turn) = (0, number);
    let id = format!("5e551011-0000-4000-8000-{number:012}");
    while text.len() < SESSION_BYTES {
        turn += 1;
        let call = format!("toolu_{number}_{turn}");
        let said = words(turn, 180);
        let code = (0..60 + turn % 50).map(|n| format!("    let value_{n} = \"{}\";\n\t// → {n}\n", words(turn + n, 5)));
        let records = [
            ("user", json!(words(turn, 40))),
            ("assistant", json!([{"type": "text", "text": said}])),
            (
                "assistant",
                json!([{"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": format!("/src/{turn}.rs"), "limit": 200}}]),
            ),
            (
                "user",
                json!([{"type": "tool_result", "tool_use_id": call, "content": code.collect::<String>()}]),
            ),
            ("assistant", json!([{"type": "text", "text": words(turn + 7, 90)}])),
        ];
        for (at, (role, content)) in records.into_iter().enumerate() {
            let parent = (line > 0).then(|| format!("{number}-{}", line - 1));
            let message = match role {
                "user" => json!({"role": role, "content": content}),
                _ => json!({
                    "id": format!("msg_{number}_{turn}_{}", at / 4), "type": "message", "role": role, "model": "claude-sonnet-4-5", "content": content,
                    "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 50, "cache_read_input_tokens": 9_000},
                }),
            };
            let time = format!("2026-03-01T{:02}:{:02}:{:02}.000Z", line / 3600 % 24, line / 60 % 60, line % 60);
            let record = json!({
                "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/work", "sessionId": id, "version": "2.1.332",
                "gitBranch": "main", "type": role, "message": message, "uuid": format!("{number}-{line}"), "timestamp": time,
            });
            text += &record.to_string();
            text.push('\n');
            line += 1;
        }
    }
    text
}

/// So many words, others for another seed.
fn words(seed: usize, count: usize) -> String {
    const WORDS: [&str; 12] = [
        "the", "session", "reads", "a", "file", "and", "writes", "its", "answer", "to", "über", "journal",
    ];
    let word = |n: usize| WORDS.get((seed * 7 + n * 5 + n / 3) % WORDS.len()).copied().unwrap_or_default();
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}
