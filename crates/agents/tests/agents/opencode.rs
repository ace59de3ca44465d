//! OpenCode: exports, folders and bundles to a conversation, and a conversation to a document that it imports.

use crate::support::{read, read_all, reasons, said, write, write_form};
use serde_json::{Value, json};
use throughline_agents::{Source, SourceFile, Transcript, runtime_named};

fn info() -> Value {
    json!({"id": "ses_1", "slug": "a", "projectID": "global", "directory": "/project", "title": "T", "version": "1.18.33", "time": {"created": 1_772_359_200_000_u64, "updated": 1_772_359_210_000_u64}})
}

fn user(id: &str, parts: Value) -> Value {
    json!({"info": {"id": id, "sessionID": "ses_1", "role": "user", "time": {"created": 1_772_359_200_000_u64}, "agent": "build", "model": {"providerID": "anthropic", "modelID": "claude-x"}}, "parts": parts})
}

fn assistant(id: &str, parts: Value, more: &Value) -> Value {
    let mut info = json!({
        "id": id, "sessionID": "ses_1", "role": "assistant", "parentID": "msg_1", "modelID": "claude-x", "providerID": "anthropic",
        "time": {"created": 1_772_359_201_000_u64}, "tokens": {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 1, "write": 0}}, "cost": 0.5,
    });
    info.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"info": info, "parts": parts})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool(id: &str, state: Value) -> Value {
    json!({"type": "tool", "callID": id, "tool": "bash", "state": state})
}

fn export(messages: &[Value]) -> Transcript {
    read("opencode", "ses_1.json", json!({"info": info(), "messages": messages}).to_string())
}

#[test]
fn parts_become_what_they_say() {
    let done = json!({"status": "completed", "input": {"command": "ls"}, "output": "a.txt", "title": "", "metadata": {}, "time": {"start": 1, "end": 2}});
    let picture = json!({"status": "completed", "input": {}, "output": "see", "attachments": [{"type": "file", "mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="}]});
    let failed = json!({"status": "error", "input": {}, "error": "denied", "time": {"start": 1, "end": 2}});
    let cases = [
        (
            vec![assistant(
                "msg_2",
                json!([{"type": "step-start"}, text("ok"), tool("c1", done), {"type": "step-finish"}]),
                &json!({}),
            )],
            vec!["assistant: ok", "call: bash", "result: a.txt"],
        ),
        (
            vec![assistant("msg_2", json!([tool("c1", picture), tool("c2", failed)]), &json!({}))],
            vec!["call: bash", "call: bash", "result: see|[image]", "failed: denied"],
        ),
        (
            vec![assistant(
                "msg_2",
                json!([tool("c1", json!({"status": "running", "input": {}}))]),
                &json!({"error": {"name": "MessageAbortedError", "data": {}}}),
            )],
            vec!["call: bash", "interruption"],
        ),
        (
            vec![assistant("msg_2", json!([]), &json!({"error": {"name": "APIError", "data": {}}}))],
            vec!["error"],
        ),
        (
            vec![assistant(
                "msg_2",
                json!([{"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "U0lH"}}}]),
                &json!({}),
            )],
            vec!["thinking: hm"],
        ),
        (
            vec![user(
                "msg_3",
                json!([text("read it"), {"type": "text", "text": "file content", "synthetic": true}, {"type": "text", "text": "note", "ignored": true}]),
            )],
            vec!["user: read it", "!user: file content", "-user: note"],
        ),
        (
            vec![
                assistant("msg_2", json!([text("1")]), &json!({})),
                user("msg_3", json!([{"type": "compaction", "auto": true}])),
                assistant("msg_4", json!([text("so far")]), &json!({"summary": true})),
                user("msg_5", json!([text("two")])),
            ],
            vec!["assistant: 1", "summary of 2: so far", "user: two"],
        ),
    ];
    for (messages, expected) in cases {
        let messages = [vec![user("msg_1", json!([text("go")]))], messages].concat();
        let transcript = export(&messages);
        assert_eq!(said(&transcript.items)[1..], expected);
        let back: Value = serde_json::from_str(&write("opencode", &transcript).files[0].content).unwrap();
        assert_eq!(back, json!({"info": info(), "messages": messages}), "the way back");
    }
}

#[test]
fn a_folder_and_a_bundle_of_it_are_the_same_session() {
    let part = json!({"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "hi"});
    let message = user("msg_1", json!([]))["info"].clone();
    let files = [
        ("session/global/ses_1.json", info()),
        ("message/ses_1/msg_1.json", message),
        ("part/msg_1/prt_1.json", part),
    ];
    let folder = Source {
        files: files.iter().map(|(path, json)| SourceFile::new(*path, json.to_string())).collect(),
    };
    let folder = runtime_named("opencode").unwrap().read(&folder).unwrap();
    let bundle: Value = files
        .iter()
        .map(|(path, json)| ((*path).to_owned(), json.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(read_all("opencode", "storage.bundle.json", bundle.to_string()), folder);
    assert_eq!(said(&folder[0].items), ["user: hi"]);
    let session = &folder[0].session;
    assert_eq!((session.title.as_deref(), session.cwd.as_deref()), (Some("T"), Some("/project")));
}

#[test]
fn usage_counts_a_message_and_reasoning_by_version() {
    let transcript = export(&[
        user("msg_1", json!([text("go")])),
        assistant("msg_2", json!([text("1")]), &json!({})),
    ]);
    assert_eq!(transcript.usage[0].usage.output_total.map(|counter| counter.value), Some(5.0));
    let newer = json!({"tokens": {"total": 18, "input": 10, "output": 5, "reasoning": 2, "cache": {"read": 1, "write": 0}}});
    let transcript = export(&[user("msg_1", json!([text("go")])), assistant("msg_2", json!([text("1")]), &newer)]);
    assert_eq!(transcript.usage[0].usage.output_total.map(|counter| counter.value), Some(7.0));
}

/// A rollout with parallel calls, a failed and an unanswered one.
fn foreign() -> Transcript {
    let item =
        |payload: Value| json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "response_item", "payload": payload}).to_string() + "\n";
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": "{\"command\":[\"ls\"]}"});
    let text = [
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta", "payload": {"id": "s1", "cwd": "/project", "timestamp": "2026-03-01T10:00:00.000Z"}}).to_string() + "\n",
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "turn_context", "payload": {"model": "gpt-x"}}).to_string() + "\n",
        item(message("user", "input_text", "go")),
        item(json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "think"}], "encrypted_content": "SECRET"})),
        item(message("assistant", "output_text", "Looking.")),
        item(call("c1")),
        item(call("c2")),
        item(json!({"type": "function_call_output", "call_id": "c2", "output": "two"})),
        item(json!({"type": "function_call_output", "call_id": "c1", "output": "one"})),
        item(message("assistant", "output_text", "Done.")),
        item(message("user", "input_text", "more")),
        item(call("c3")),
    ];
    read("codex", "rollout-2026-03-01T10-00-00-s1.jsonl", text.concat())
}

#[test]
fn a_written_document_keeps_every_rule_of_the_import() {
    let written = write("opencode", &foreign());
    let document: Value = serde_json::from_str(&written.files[0].content).unwrap();
    for key in ["id", "slug", "projectID", "directory", "title", "version", "time"] {
        assert!(document["info"].get(key).is_some(), "{key}");
    }
    let mut last = String::new();
    let mut ascends = |id: &Value| {
        let id = id.as_str().unwrap();
        let stamp = id.split_once('_').unwrap().1[..12].to_owned();
        assert!(stamp > last && id.len() == 30, "IDs ascend: {id}");
        last = stamp;
    };
    for message in document["messages"].as_array().unwrap() {
        let info = &message["info"];
        ascends(&info["id"]);
        let needed: &[&str] = if info["role"] == "user" {
            &["sessionID", "time", "agent", "model"]
        } else {
            &[
                "sessionID",
                "time",
                "parentID",
                "modelID",
                "providerID",
                "mode",
                "agent",
                "path",
                "cost",
                "tokens",
            ]
        };
        for key in needed {
            assert!(info.get(*key).is_some(), "{key}: {info}");
        }
        for part in message["parts"].as_array().unwrap() {
            ascends(&part["id"]);
            assert_eq!((&part["sessionID"], &part["messageID"]), (&document["info"]["id"], &info["id"]));
            assert!(
                ["text", "tool", "file"].contains(&part["type"].as_str().unwrap()),
                "no reasoning that another model would say aloud: {part}"
            );
            if part["type"] == "tool" {
                assert!(
                    ["completed", "error"].contains(&part["state"]["status"].as_str().unwrap()),
                    "every call is finished: {part}"
                );
            }
        }
    }
    let text = &written.files[0].content;
    assert!(!text.contains("SECRET") && !text.contains("think"));
    let outputs: Vec<&Value> = document["messages"][1]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| part.pointer("/state/output"))
        .collect();
    assert_eq!(outputs, ["one", "two"], "a result stands with its own call");
    assert_eq!(
        said(&read("opencode", "x.json", text).items),
        [
            "user: go",
            "assistant: Looking.",
            "call: shell",
            "call: shell",
            "result: one",
            "result: two",
            "assistant: Done.",
            "user: more",
            "call: shell",
            "failed: The call was interrupted; there is no result."
        ]
    );
}

#[test]
fn a_prelude_tells_the_conversation_in_order_and_says_that_it_only_tells_it() {
    let written = write_form("opencode", &foreign(), "prelude");
    let value: Value = serde_json::from_str(&written.files[0].content).unwrap();
    let text = value["prelude"].as_str().unwrap();
    assert_eq!(value["parts"][0]["text"], text);
    let expected = [
        "<conversation-history>",
        "**User:** go",
        "**Assistant:** Looking.",
        "**Tool call (shell):** {\"command\":[\"ls\"]}",
        "**Tool result:** two",
        "**Tool result:** one",
        "**Assistant:** Done.",
        "**User:** more",
        "**Tool result (error):**",
        "</conversation-history>",
    ];
    let mut rest = text;
    for wanted in expected {
        rest = rest
            .split_once(wanted)
            .unwrap_or_else(|| panic!("{wanted} is missing or out of order in {text}"))
            .1;
    }
    assert!(reasons(&written.loss)[0].contains("told in one text"));
}
