//! `session`: transcripts of coding agents, in and out.

use crate::support::{Run, throughline};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const ID: &str = "5f0d0000-0000-4000-8000-000000000001";

/// A machine of its own: a home directory and a place for a store.
pub(crate) struct Machine(tempfile::TempDir);

impl Machine {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    pub(crate) fn file(&self, below: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
        for name in [
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "XDG_DATA_HOME",
            "THROUGHLINE_DATA_DIR",
            "THROUGHLINE_MASTER_KEY_FILE",
        ] {
            command.env_remove(name);
        }
        let output = command
            .args(arguments)
            .env("HOME", self.0.path())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        Run {
            exit: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> Value {
        let run = self.run(arguments);
        assert_eq!(run.exit, 0, "{arguments:?}: {run:?}");
        run.json()
    }
}

/// Claude Code's lines of so many turns.
fn turns(count: usize) -> String {
    let mut out = String::new();
    for turn in 0..count {
        let parent = if turn == 0 { Value::Null } else { json!(format!("a{}", turn - 1)) };
        let line = |kind: &str, uuid: String, parent: Value, message: Value| {
            json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": ID, "cwd": "/nowhere", "timestamp": format!("2026-03-01T10:{turn:02}:00.000Z"), "message": message}).to_string() + "\n"
        };
        out += &line(
            "user",
            format!("u{turn}"),
            parent,
            json!({"role": "user", "content": format!("question {turn}")}),
        );
        let answer = json!({"id": format!("m{turn}"), "role": "assistant", "model": "claude-x", "content": [{"type": "text", "text": format!("answer {turn}")}]});
        out += &line("assistant", format!("a{turn}"), json!(format!("u{turn}")), answer);
    }
    out
}

/// The third turn alone.
fn last_turn() -> String {
    turns(3).strip_prefix(&turns(2)).unwrap().to_owned()
}

#[test]
fn convert_reports_what_it_wrote_and_what_was_lost() {
    let machine = Machine::new();
    let file = machine.file("s.jsonl", turns(2) + "{\"torn");
    let report = machine.ok(&["session", "convert", "--from", "claude-code", "--to", "codex", &file]);
    assert_eq!(
        (report["from"].as_str(), report["to"].as_str(), report["items"].as_u64()),
        (Some("claude-code"), Some("codex"), Some(4))
    );
    assert_eq!(report["warnings"][0]["code"], "transcript.torn-line");
    assert_eq!(report["loss"]["disposition"], "lossless");
    assert!(report["decodeLoss"]["entries"].is_array());
    let entry = &report["files"][0];
    let content = entry["content"].as_str().unwrap();
    assert_eq!(entry["bytes"].as_u64().unwrap(), content.len() as u64);

    let out = machine.path("out");
    let again = machine.ok(&[
        "session",
        "convert",
        "--from",
        "claude-code",
        "--to",
        "codex",
        &file,
        "-o",
        out.to_str().unwrap(),
    ]);
    assert_eq!(again["files"][0]["sha256"], entry["sha256"], "the same input gives the same bytes");
    let written = out.join(again["files"][0]["path"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(&written).unwrap(), content);
    // A file that is there is never replaced, unless it is the same.
    machine.ok(&[
        "session",
        "convert",
        "--from",
        "claude-code",
        "--to",
        "codex",
        &file,
        "-o",
        out.to_str().unwrap(),
    ]);
    std::fs::write(&written, "mine").unwrap();
    let refused = machine.run(&[
        "session",
        "convert",
        "--from",
        "claude-code",
        "--to",
        "codex",
        &file,
        "-o",
        out.to_str().unwrap(),
    ]);
    assert_eq!(
        (refused.exit, refused.error()["code"].as_str().unwrap()),
        (1, "conflict.file-exists")
    );
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "mine");

    let canonical = throughline(&["session", "convert", "--from", "claude-code", "--canonical", "-"], turns(1)).json();
    assert_eq!(
        canonical["items"][1]["provenance"]["attribution"],
        json!({"provider": "claude-code", "modelProvider": "anthropic", "model": "claude-x"})
    );
    assert!(canonical["warnings"].is_array() && canonical["loss"]["disposition"].is_string());
    let request = machine.ok(&[
        "session",
        "convert",
        "--from",
        "claude-code",
        "--to",
        "openai-chat",
        "--model",
        "m",
        &file,
    ]);
    let body: Value = serde_json::from_str(request["files"][0]["content"].as_str().unwrap()).unwrap();
    assert_eq!(
        (request["files"][0]["path"].as_str(), body["messages"].as_array().unwrap().len()),
        (Some("request.json"), 4)
    );
}

#[test]
fn bad_usage_is_exit_2_with_what_to_do() {
    let machine = Machine::new();
    let file = machine.file("s.jsonl", turns(1));
    let nothing = machine.file("n.jsonl", "not a session\n");
    let cases: [(&[&str], &str); 7] = [
        (
            &["session", "convert", "--from", "nobody", "--to", "codex", &file],
            "known are claude-code, codex, opencode, gemini-cli, sna-blocks",
        ),
        (
            &["session", "convert", "--from", "claude-code", "--to", "nobody", &file],
            "no such protocol",
        ),
        (&["session", "convert", "--from", "claude-code", &file], "--to"),
        (
            &[
                "session",
                "convert",
                "--from",
                "claude-code",
                "--to",
                "codex",
                "--form",
                "odd",
                &file,
            ],
            "rollout, response-items",
        ),
        (
            &["session", "convert", "--from", "claude-code", "--to", "codex", "absent.jsonl"],
            "cannot read",
        ),
        (
            &["session", "convert", "--from", "claude-code", "--to", "codex", &nothing],
            "no session of Claude Code",
        ),
        (
            &[
                "session",
                "convert",
                "--from",
                "claude-code",
                "--to",
                "codex",
                "--session",
                "x",
                &file,
            ],
            "no such session",
        ),
    ];
    for (arguments, expected) in cases {
        let run = machine.run(arguments);
        let message = run.error()["message"].as_str().unwrap().to_owned();
        assert!(run.exit == 2 && message.contains(expected), "{arguments:?}: {run:?}");
    }
}

#[test]
fn an_import_appends_what_is_new_and_nothing_else() {
    let machine = Machine::new();
    let store = machine.path("db").to_str().unwrap().to_owned();
    let file = machine.file(&format!("{ID}.jsonl"), turns(2));
    let import = || machine.ok(&["session", "import", "--from", "claude-code", &file, "--db", &store])["sessions"][0].clone();
    let first = import();
    assert_eq!(
        (first["added"].as_u64(), first["skipped"].as_u64(), first["id"].as_str()),
        (Some(4), Some(0), Some(ID))
    );
    let again = import();
    assert_eq!((again["added"].as_u64(), again["skipped"].as_u64()), (Some(0), Some(4)));
    // The file grew by three turns.
    machine.file(&format!("{ID}.jsonl"), turns(5));
    let grown = import();
    assert_eq!(
        (grown["added"].as_u64(), grown["skipped"].as_u64(), &grown["branchId"]),
        (Some(6), Some(4), &first["branchId"])
    );
    // What the agent gets back is its file, byte for byte.
    let export = machine.ok(&["session", "export", "--to", "claude-code", ID, "--db", &store]);
    assert_eq!(export["files"][0]["content"], turns(5));
    assert_eq!(export["loss"]["disposition"], "lossless");
    let conversation = first["conversationId"].as_str().unwrap();
    let verified = machine.ok(&["conversation", "verify", conversation, "--db", &store]);
    assert_eq!((verified["items"].as_u64(), verified["ok"].as_bool()), (Some(10), Some(true)));

    // The user went back to the second question: a fork, and the way that was left stays.
    let edited = turns(2)
        + &last_turn()
            .replace("u2", "v2")
            .replace("\"a2", "\"b2")
            .replace("question 2", "another");
    machine.file(&format!("{ID}.jsonl"), edited);
    let forked = import();
    assert_eq!((forked["added"].as_u64(), forked["skipped"].as_u64()), (Some(2), Some(4)));
    assert_ne!(forked["branchId"], first["branchId"]);
    assert_eq!((import()["added"].as_u64(), import()["skipped"].as_u64()), (Some(0), Some(6)));
    let shown = machine.run(&["session", "show", "--text", ID, "--db", &store]).stdout;
    assert!(shown.contains("another") && !shown.contains("question 2"), "{shown}");
    let left = machine.run(&["conversation", "show", conversation, "--db", &store]).lines();
    assert_eq!(left.len(), 10, "nothing that was stored is lost");
    assert_eq!(machine.ok(&["db", "check", "--db", &store])["ok"], true);
}

#[test]
fn copies_of_one_session_are_imported_one_after_the_other() {
    let machine = Machine::new();
    let store = machine.path("db").to_str().unwrap().to_owned();
    // The later in the list, the further the session has gone on; the others are read at the same time.
    for turns_of_copy in 1..=6 {
        machine.file(&format!("all/{turns_of_copy}/{ID}.jsonl"), turns(turns_of_copy));
    }
    let all = machine.path("all").to_str().unwrap().to_owned();
    let report = machine.ok(&["session", "import", "--from", "claude-code", &all, "--db", &store]);
    let counts = |session: &Value| (session["added"].as_u64().unwrap(), session["skipped"].as_u64().unwrap());
    let found: Vec<_> = report["sessions"].as_array().unwrap().iter().map(counts).collect();
    assert_eq!(found, [(2, 0), (2, 2), (2, 4), (2, 6), (2, 8), (2, 10)]);
    let export = machine.ok(&["session", "export", "--to", "claude-code", ID, "--db", &store]);
    assert_eq!(export["files"][0]["content"], turns(6));
}

#[test]
fn a_file_that_is_no_session_does_not_stop_the_others() {
    let machine = Machine::new();
    let store = machine.path("db").to_str().unwrap().to_owned();
    machine.file("all/bad.jsonl", "nothing\n");
    machine.file(&format!("all/{ID}.jsonl"), turns(1));
    let run = machine.run(&[
        "session",
        "import",
        "--from",
        "claude-code",
        machine.path("all").to_str().unwrap(),
        "--db",
        &store,
    ]);
    assert_eq!(run.exit, 1);
    let sessions = run.json()["sessions"].as_array().unwrap().clone();
    assert_eq!((sessions.len(), sessions[0]["added"].as_u64()), (2, Some(2)));
    assert_eq!(sessions[1]["error"]["code"], "invalid-request.transcript");
}

#[test]
fn sessions_of_this_machine_are_found_and_go_on_elsewhere() {
    let machine = Machine::new();
    let own = machine.file(&format!(".claude/projects/-nowhere/{ID}.jsonl"), turns(2));
    let listed = machine.ok(&["session", "list"]);
    let session = &listed["sessions"][0];
    assert_eq!(
        (session["runtime"].as_str(), session["id"].as_str(), session["turns"].as_u64()),
        (Some("claude-code"), Some(ID), Some(2))
    );
    assert_eq!(
        (session["path"].as_str(), session["cwd"].as_str(), &session["importedAs"]),
        (Some(own.as_str()), Some("/nowhere"), &Value::Null)
    );
    let imported = machine.ok(&["session", "import", "--from", "claude-code"]);
    assert_eq!(
        machine.ok(&["session", "list"])["sessions"][0]["importedAs"],
        imported["sessions"][0]["conversationId"]
    );

    let expected = [
        (
            "codex",
            ".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-",
            vec!["codex", "exec", "resume"],
        ),
        ("gemini-cli", ".gemini/tmp/", vec!["gemini", "--resume"]),
        ("claude-code", ".claude/projects/-", vec!["claude", "--resume"]),
        (
            "opencode",
            ".local/share/throughline/sessions/opencode/ses_",
            vec!["opencode", "run", "--session"],
        ),
    ];
    for (target, place, command) in expected {
        let report = machine.ok(&["session", "resume", "--to", target, ID]);
        let path = report["file"].as_str().unwrap();
        assert!(path.contains(place) && Path::new(path).is_file(), "{report}");
        let told: Vec<&str> = report["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        assert_eq!(told[..told.len() - 1], command[..]);
        assert_eq!(told.last().copied(), report["id"].as_str());
        assert_eq!(report.get("import").is_some(), target == "opencode");
        // Asked again it is the same file; a file that went on is never touched.
        assert_eq!(machine.ok(&["session", "resume", "--to", target, ID])["file"], report["file"]);
        std::fs::write(path, "went on").unwrap();
        assert_eq!(machine.run(&["session", "resume", "--to", target, ID]).exit, 1);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "went on");
    }
    assert_eq!(
        std::fs::read_to_string(&own).unwrap(),
        turns(2),
        "the agent's own session is as it was"
    );
}

#[test]
fn show_marks_where_the_model_changes() {
    let machine = Machine::new();
    let file = machine.file(
        "s.jsonl",
        turns(2).replacen("claude-x", "claude-y", 1) + &last_turn().replace("question 2", "\\u001b[2Jnext"),
    );
    let shown = machine.run(&["session", "show", "--from", "claude-code", "--text", &file]).stdout;
    let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} is missing: {shown}"));
    assert!(place("claude-code, claude-y") < place("answer 0") && place("answer 0") < place("switched to claude-code, claude-x"));
    assert_eq!(shown.matches("switched to").count(), 1);
    assert!(!shown.contains('\u{1b}'), "control characters could command the terminal");
    let lines = machine.run(&["session", "show", "--from", "claude-code", &file]).lines();
    assert_eq!((lines.len(), lines[0]["kind"].as_str()), (6, Some("message")));
}

#[test]
fn the_database_of_opencode_is_read_and_only_read() {
    let machine = Machine::new();
    let path = machine.path("opencode.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, slug TEXT, directory TEXT, title TEXT, version TEXT, summary_files INTEGER, time_created INTEGER, time_updated INTEGER);
             CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
             CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
             INSERT INTO session VALUES ('ses_b', 'p', 's', '/nowhere', 'T', '1.18.33', 0, 1772359200000, 1772359210000), ('ses_a', 'p', 's', '/nowhere', 'U', '1.18.33', 0, 1772359300000, 1772359310000);
             INSERT INTO message VALUES ('msg_1', 'ses_b', 0, '{\"role\":\"user\",\"time\":{\"created\":1772359200000}}'), ('msg_2', 'ses_b', 0, '{\"role\":\"assistant\",\"modelID\":\"m\",\"providerID\":\"x\"}');
             INSERT INTO part VALUES ('prt_2', 'msg_2', 'ses_b', '{\"type\":\"tool\",\"callID\":\"c\",\"tool\":\"bash\",\"state\":{\"status\":\"completed\",\"input\":{},\"output\":\"ok\"}}'), ('prt_1', 'msg_1', 'ses_b', '{\"type\":\"text\",\"text\":\"hi\"}');",
        )
        .unwrap();
    drop(database);
    let before = std::fs::read(&path).unwrap();
    let file = path.to_str().unwrap();
    let canonical = machine.ok(&[
        "session",
        "convert",
        "--from",
        "opencode",
        "--session",
        "ses_b",
        "--canonical",
        file,
    ]);
    let kinds: Vec<&str> = canonical["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["message", "tool-call", "tool-result"]);
    let several = machine.run(&["session", "convert", "--from", "opencode", "--to", "codex", file]);
    assert!(several.exit == 2 && several.stderr.contains("--session"), "{several:?}");
    let store = machine.path("db").to_str().unwrap().to_owned();
    let imported = machine.ok(&["session", "import", "--from", "opencode", file, "--db", &store]);
    assert_eq!(
        imported["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["added"].as_u64().unwrap())
            .sum::<u64>(),
        3
    );
    let export = machine.ok(&["session", "export", "--to", "opencode", "ses_b", "--db", &store]);
    let document: Value = serde_json::from_str(export["files"][0]["content"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&document["info"]["summary"], &document["info"]["time"]["created"]),
        (&json!({"files": 0}), &json!(1_772_359_200_000_u64))
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(
        std::fs::read_dir(machine.0.path())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("opencode.db"))
            .count(),
        1
    );
}
