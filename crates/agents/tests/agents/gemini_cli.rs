//! Gemini CLI: logs and documents to a conversation, and back.

use crate::support::{joined, lines, read, reasons, said, write, write_form};
use serde_json::{Value, json};
use throughline_agents::Transcript;

fn head() -> Value {
    json!({"sessionId": "624a48a8-27c6-42d1-a0f6-6d3fee755f9c", "projectHash": "ab", "startTime": "2026-03-01T10:00:00.000Z", "lastUpdated": "2026-03-01T10:00:00.000Z", "kind": "main"})
}

fn record(id: &str, kind: &str, members: Value) -> Value {
    let mut record = json!({"id": id, "timestamp": "2026-03-01T10:00:01.000Z", "type": kind});
    record.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    record
}

fn user(id: &str, text: &str) -> Value {
    record(id, "user", json!({"content": [{"text": text}]}))
}

fn log(records: &[Value]) -> Transcript {
    let text: String = joined(records);
    read("gemini-cli", "session-2026-03-01T10-00-624a48a8.jsonl", text)
}

fn answer() -> Value {
    let response = json!([{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.txt"}}}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]);
    record(
        "m2",
        "gemini",
        json!({
            "content": "Looking.", "model": "gemini-x", "thoughts": [{"subject": "Plan", "description": "look"}],
            "tokens": {"input": 10, "output": 4, "cached": 3, "thoughts": 2, "tool": 0, "total": 16},
            "toolCalls": [{"id": "c1", "name": "ls", "args": {"dir": "."}, "status": "success", "result": response}, {"id": "c2", "name": "rm", "args": {}, "status": "cancelled"}],
        }),
    )
}

#[test]
fn what_counts_of_a_log_is_what_is_left() {
    let cases = [
        (
            vec![head(), user("m1", "hi"), record("m1", "user", json!({"content": "hello"}))],
            vec!["user: hello"],
        ),
        (
            vec![
                head(),
                user("m1", "one"),
                user("m2", "two"),
                json!({"$rewindTo": "m2"}),
                user("m3", "three"),
            ],
            vec!["user: one", "user: three"],
        ),
        (
            vec![head(), user("m1", "one"), json!({"$rewindTo": "gone"}), user("m3", "three")],
            vec!["user: three"],
        ),
        (
            vec![
                head(),
                user("m1", "one"),
                json!({"$set": {"messages": [user("m9", "nine")], "summary": "T"}}),
            ],
            vec!["user: nine"],
        ),
        (
            vec![
                head(),
                user("m0", "<session_context>x"),
                user("m1", "/help"),
                record("m2", "info", json!({"content": "usage"})),
                record("m3", "error", json!({"content": "failed"})),
            ],
            vec!["!user: <session_context>x", "-user: /help", "-system: usage", "error"],
        ),
        (
            vec![head(), user("m1", "hi"), answer()],
            vec![
                "user: hi",
                "thinking: **Plan**\nlook",
                "assistant: Looking.",
                "call: ls",
                "call: rm",
                "result: a.txt|[image]",
            ],
        ),
    ];
    for (records, expected) in cases {
        assert_eq!(said(&log(&records).items), expected);
    }
}

#[test]
fn both_forms_come_back_as_what_is_left() {
    let records = [head(), user("m1", "hi"), answer()];
    let transcript = log(&records);
    assert_eq!(lines(&write("gemini-cli", &transcript)), records);
    let document: Value = serde_json::from_str(&write_form("gemini-cli", &transcript, "json").files[0].content).unwrap();
    assert_eq!(document["messages"], json!([user("m1", "hi"), answer()]));
    let again = read("gemini-cli", "session-2026-03-01T10-00-624a48a8.json", document.to_string());
    assert_eq!(again.items, transcript.items);
    let sum = transcript.usage_sum();
    assert_eq!((sum.output_total.unwrap().value, sum.cache_read.unwrap().value), (6.0, 3.0));
}

#[test]
fn a_written_chat_keeps_every_rule_of_the_runtime() {
    let line = |n: u32, role: &str, content: Value| {
        let parent = if n == 0 { Value::Null } else { json!(format!("l{}", n - 1)) };
        json!({"type": role, "uuid": format!("l{n}"), "parentUuid": parent, "timestamp": "2026-03-01T10:00:00.000Z", "message": {"role": role, "content": content, "id": "m1", "model": "claude-x"}}).to_string() + "\n"
    };
    let text = [
        line(0, "user", json!("go")),
        line(1, "assistant", json!([{"type": "thinking", "thinking": "hm", "signature": "U0lH"}])),
        line(2, "assistant", json!([{"type": "text", "text": "Looking."}])),
        line(
            3,
            "assistant",
            json!([{"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1}}]),
        ),
        line(
            4,
            "assistant",
            json!([{"type": "tool_use", "id": "t2", "name": "Read", "input": {}}]),
        ),
        line(
            5,
            "user",
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}]),
        ),
    ];
    let written = write("gemini-cli", &read("claude-code", "s.jsonl", text.concat()));
    let lines = lines(&written);
    assert!(throughline_agents::ids::is_uuid(&written.session_id));
    let short = &written.session_id[..8];
    assert_eq!(written.files[0].path, format!("session-2026-03-01T10-00-{short}.jsonl"));
    for key in ["sessionId", "projectHash", "startTime", "lastUpdated"] {
        assert!(lines[0][key].is_string(), "{key}");
    }
    let answer = &lines[2];
    assert_eq!(
        (answer["type"].as_str(), answer["content"].as_str(), answer["model"].as_str()),
        (Some("gemini"), Some("Looking."), Some("claude-x"))
    );
    let calls = answer["toolCalls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert!(
            call["result"][0]["functionResponse"]["response"].is_object(),
            "every call has its result: {call}"
        );
    }
    assert_eq!(calls[0]["result"][1]["inlineData"]["mimeType"], "image/png");
    assert_eq!(calls[1]["status"], "error");
    assert!(!written.files[0].content.contains("U0lH") && !written.files[0].content.contains("thoughtSignature"));
}

#[test]
fn a_chat_that_was_gone_on_with_says_each_call_and_result_once() {
    // What the runtime writes when it goes on: calls in the content too, the results of all calls in each, and again as the user's.
    let response = |id: &str, text: &str| json!({"functionResponse": {"id": id, "name": "ls", "response": {"output": text}}});
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let all = json!([response("c1", "one"), picture, response("c2", "two")]);
    let call = |id: &str| json!({"functionCall": {"id": id, "name": "ls", "args": {}}});
    let own = |id: &str| json!({"id": id, "name": "ls", "args": {}, "status": "success", "result": all});
    let answer = record(
        "m2",
        "gemini",
        json!({"content": [{"text": "Both."}, call("c1"), call("c2"), {"text": "Wait."}], "toolCalls": [own("c1"), own("c2")]}),
    );
    let again = record("m2_response", "user", json!({"content": all}));
    let once_more = record("m4", "user", json!({"content": all}));
    let messages = json!({"$set": {"messages": [user("m1", "hi"), answer, again, once_more, user("m3", "go on")]}});
    let transcript = log(&[head(), messages]);
    let expected = [
        "user: hi",
        "assistant: Both.",
        "call: ls",
        "call: ls",
        "assistant: Wait.",
        "result: one|[image]",
        "result: two",
        "user: go on",
    ];
    assert_eq!(said(&transcript.items), expected);
}

#[test]
fn what_the_runtime_would_take_for_its_own_is_said_in_a_way_that_it_sends() {
    for (text, is_left_out) in [
        ("/etc/hosts is wrong", true),
        ("  ?why", true),
        ("<session_context> is a tag", true),
        ("<hook_context>", true),
        ("why?", false),
        ("<note>", false),
    ] {
        let line = json!({"uuid": "u1", "parentUuid": null, "type": "user", "timestamp": "2026-03-01T10:00:01.000Z", "message": {"role": "user", "content": text}});
        let transcript = read("claude-code", "s.jsonl", joined([line]));
        let written = write("gemini-cli", &transcript);
        let content = lines(&written)[1]["content"].clone();
        let told = json!({"text": text});
        if is_left_out {
            assert_eq!(content, json!([{"text": "The user says: "}, told]));
            assert_eq!(
                reasons(&written.loss),
                ["the runtime leaves out what begins like this; words stand before it"]
            );
        } else {
            assert_eq!((content, written.loss.entries.len()), (json!([told]), 0));
        }
        let back = read("gemini-cli", "session-2026-03-01T10-00-624a48a8.jsonl", &written.files[0].content);
        assert_eq!(said(&back.items), [format!("user: {text}")]);
    }
}

#[test]
fn text_behind_a_call_keeps_its_place_and_the_call_its_result() {
    let line = |n: usize, kind: &str, content: Value| {
        let parent = (n > 1).then(|| format!("u{}", n - 1));
        json!({"uuid": format!("u{n}"), "parentUuid": parent, "type": kind, "timestamp": "2026-03-01T10:00:01.000Z",
            "message": {"id": "msg_1", "role": kind, "content": content}})
    };
    let transcript = read(
        "claude-code",
        "s.jsonl",
        joined([
            line(1, "user", json!("hi")),
            line(2, "assistant", json!([{"type": "text", "text": "Look."}])),
            line(3, "assistant", json!([{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}])),
            line(4, "assistant", json!([{"type": "text", "text": "Wait."}])),
            line(5, "user", json!([{"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}])),
        ]),
    );
    let written = write("gemini-cli", &transcript);
    let answer = lines(&written)[2].clone();
    let call = json!({"functionCall": {"id": "c1", "name": "ls", "args": {}}});
    assert_eq!(answer["content"], json!([{"text": "Look."}, call, {"text": "Wait."}]));
    assert_eq!(
        answer["toolCalls"][0]["result"],
        json!([{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.txt"}}}])
    );
    let back = read("gemini-cli", "session-2026-03-01T10-00-624a48a8.jsonl", &written.files[0].content);
    assert_eq!(
        said(&back.items),
        ["user: hi", "assistant: Look.", "call: ls", "assistant: Wait.", "result: a.txt"]
    );
}
