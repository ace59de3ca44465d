//! Coding agents go on with what the program wrote: the real ones, by the suite of `tests/agents`, and what of it can be seen without them.

use crate::session::Machine;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Runs the tests of the suite whose names hold one of the words. Without the clients, which `tests/agents/run --install` brings, and
/// without the simulator they skip themselves and say so; in CI that is a failure.
fn real_clients(words: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut suite = Command::new(root.join("tests/agents/run"));
    suite.arg("--installed").env("THROUGHLINE_BIN", env!("CARGO_BIN_EXE_throughline"));
    for word in words {
        suite.args(["-k", word]);
    }
    let output = suite.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{told}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{told}");
}

#[test]
#[cfg(unix)]
fn claude_code_sends_the_whole_history_and_signatures_to_their_owner() {
    throughline_format::clause!("SNA-03");
    real_clients(&["claude_code_from_codex", "claude_code_as_a_copy"]);
}

#[test]
#[cfg(unix)]
fn codex_sends_the_whole_history_from_a_rollout_and_from_a_list_of_items() {
    throughline_format::clause!("SNA-04");
    real_clients(&["codex_from_opencode", "codex_app_server"]);
}

#[test]
#[cfg(unix)]
fn opencode_sends_the_whole_history_from_an_import_and_the_prelude_in_a_prompt() {
    throughline_format::clause!("SNA-05");
    real_clients(&["opencode_from_gemini_cli", "opencode_takes_the_prelude"]);
}

#[test]
#[cfg(unix)]
fn a_running_session_gets_the_next_message_alone() {
    throughline_format::clause!("SNA-09");
    real_clients(&["a_running_session_gets_the_next_message_alone"]);
}

/// A session with thinking, parallel calls, a failed result, and a picture.
fn session() -> String {
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let call = |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {"path": "a.txt"}});
    let records = [
        ("user", json!([{"type": "text", "text": "Look at this."}, picture])),
        (
            "assistant",
            json!([{"type": "thinking", "thinking": "Both at once.", "signature": "U0lHTg=="}]),
        ),
        ("assistant", json!([{"type": "text", "text": "I read both."}])),
        ("assistant", json!([call("toolu_1", "Read")])),
        ("assistant", json!([call("toolu_2", "Screenshot")])),
        (
            "user",
            json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such file", "is_error": true}]),
        ),
        (
            "user",
            json!([{"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "the screen"}, picture]}]),
        ),
        ("assistant", json!([{"type": "text", "text": "One is missing."}])),
    ];
    let mut out = String::new();
    for (n, (role, content)) in records.into_iter().enumerate() {
        let parent = (n > 0).then(|| format!("l{}", n - 1));
        let line = json!({"type": role, "uuid": format!("l{n}"), "parentUuid": parent, "sessionId": "s", "cwd": "/nowhere",
            "timestamp": format!("2026-03-01T10:00:{n:02}.000Z"), "message": {"id": "m", "role": role, "model": "claude-x", "content": content}});
        out += &line.to_string();
        out.push('\n');
    }
    out
}

/// The items of a rollout, each in a few words.
fn rollout(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let items = lines
        .filter(|line| line["type"] == "response_item")
        .map(|line| line["payload"].clone());
    let words = |content: &Value| match content {
        Value::String(text) => text.clone(),
        parts => {
            let parts = parts.as_array().unwrap().iter();
            parts
                .map(|part| part["text"].as_str().unwrap_or("[image]"))
                .collect::<Vec<_>>()
                .join("|")
        }
    };
    let told = |item: Value| match item["type"].as_str().unwrap() {
        "message" => format!("{}: {}", item["role"].as_str().unwrap(), words(&item["content"])),
        "function_call" => format!("call {}: {} {}", item["call_id"], item["name"], item["arguments"].as_str().unwrap()),
        "function_call_output" => format!("output {}: {}", item["call_id"], words(&item["output"])),
        other => other.to_owned(),
    };
    items.map(told).collect()
}

#[test]
fn an_id_and_blocks_are_all_that_a_fresh_process_needs() {
    throughline_format::clause!("SNA-07");
    let first = Machine::new();
    let file = first.file("s.jsonl", session());
    first.ok(&[
        "session",
        "convert",
        "--from",
        "claude-code",
        "--to",
        "sna-blocks",
        "-o",
        "out",
        &file,
    ]);
    let blocks = std::fs::read_dir(first.path("out")).unwrap().next().unwrap().unwrap();

    // Another machine, which has never seen the session or its agent: the blocks and an ID.
    let second = Machine::new();
    let file = second.file("blocks.json", std::fs::read(blocks.path()).unwrap());
    let imported = second.ok(&["session", "import", "--from", "sna-blocks", &file]);
    let id = imported["sessions"][0]["conversationId"].as_str().unwrap();
    let resume = |target: &str| second.ok(&["session", "resume", "--to", target, id]);
    let report = resume("codex");
    let path = report["file"].as_str().unwrap();
    let expected = [
        "user: Look at this.|[image]",
        "assistant: I read both.",
        "call \"toolu_1\": \"Read\" {\"path\":\"a.txt\"}",
        "call \"toolu_2\": \"Screenshot\" {\"path\":\"a.txt\"}",
        "output \"toolu_1\": no such file",
        "output \"toolu_2\": the screen|[image]",
        "assistant: One is missing.",
    ];
    assert_eq!(rollout(path), expected);
    assert_eq!(report.get("live"), None);

    // The agent goes on: from now on that conversation is the one, and nothing is built anew.
    let more = json!({"timestamp": "2026-03-01T11:00:00.000Z", "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]}});
    let gone_on = std::fs::read_to_string(path).unwrap() + &more.to_string() + "\n";
    std::fs::write(path, &gone_on).unwrap();
    let again = resume("codex");
    assert_eq!(
        (&again["file"], &again["command"], &again["live"]),
        (&report["file"], &report["command"], &json!(true))
    );
    assert_eq!(std::fs::read_to_string(path).unwrap(), gone_on);

    // Another agent is a boundary: its shape is built from the same blocks.
    let other = resume("claude-code");
    let text = std::fs::read_to_string(other["file"].as_str().unwrap()).unwrap();
    for words in [
        "Look at this.",
        "I read both.",
        "no such file",
        "the screen",
        "One is missing.",
        "iVBORw0KGgo=",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("U0lHTg=="), "a signature never stands in a block");
}
