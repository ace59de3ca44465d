//! Claude Code: lines to a conversation, and a conversation to lines that it goes on with.

use crate::support::{joined, lines, read, read_all, reasons, said, write};
use serde_json::{Value, json};
use std::collections::HashSet;

const ID: &str = "5f0d0000-0000-4000-8000-000000000001";
const FILE: &str = "5f0d0000-0000-4000-8000-000000000001.jsonl";

/// A line of the chain: `u1<u0` is the uuid and its parent.
fn line(link: &str, second: u32, members: Value) -> String {
    let (uuid, parent) = link.split_once('<').unwrap();
    let mut line = json!({
        "uuid": uuid, "parentUuid": if parent.is_empty() { Value::Null } else { json!(parent) }, "sessionId": ID, "isSidechain": false,
        "cwd": "/project", "version": "2.1.0", "timestamp": format!("2026-03-01T10:00:{second:02}.000Z"),
    });
    line.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    line.to_string()
}

fn user(link: &str, second: u32, content: Value) -> String {
    line(
        link,
        second,
        json!({"type": "user", "message": {"role": "user", "content": content}}),
    )
}

fn assistant(link: &str, second: u32, id: &str, block: Value) -> String {
    let usage = json!({"input_tokens": 5, "output_tokens": second});
    let message = json!({"id": id, "type": "message", "role": "assistant", "model": "claude-x", "content": [block], "usage": usage});
    line(link, second, json!({"type": "assistant", "message": message}))
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"n": 1.50}})
}

fn result(id: &str, text: &str) -> Value {
    json!([{"type": "tool_result", "tool_use_id": id, "content": text}])
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn file(lines: &[String]) -> String {
    joined(lines)
}

#[test]
fn the_conversation_is_the_path_of_the_last_leaf() {
    let parallel = [
        "user: go",
        "assistant: hm",
        "call: Bash",
        "call: Bash",
        "result: 1",
        "result: 2",
        "assistant: done",
    ];
    let begin = || {
        vec![
            user("u<", 0, json!("go")),
            assistant("a<u", 1, "m1", text("hm")),
            assistant("c1<a", 2, "m1", call("t1")),
        ]
    };
    let cases: [(&str, Vec<String>, Vec<&str>); 6] = [
        (
            "parallel results in a chain",
            [
                begin(),
                vec![
                    assistant("c2<c1", 3, "m1", call("t2")),
                    user("r1<c2", 4, result("t1", "1")),
                    user("r2<r1", 5, result("t2", "2")),
                    assistant("z<r2", 6, "m2", text("done")),
                ],
            ]
            .concat(),
            parallel.to_vec(),
        ),
        (
            "parallel results, each off its own call",
            [
                begin(),
                vec![
                    user("r1<c1", 3, result("t1", "1")),
                    assistant("c2<c1", 4, "m1", call("t2")),
                    user("r2<c2", 5, result("t2", "2")),
                    assistant("z<r2", 6, "m2", text("done")),
                ],
            ]
            .concat(),
            vec![
                "user: go",
                "assistant: hm",
                "call: Bash",
                "result: 1",
                "call: Bash",
                "result: 2",
                "assistant: done",
            ],
        ),
        (
            "a prompt that was edited",
            vec![
                user("u<", 0, json!("one")),
                assistant("a<u", 1, "m1", text("1")),
                user("v<u", 2, json!("two")),
                assistant("b<v", 3, "m2", text("2")),
            ],
            vec!["user: one", "user: two", "assistant: 2"],
        ),
        (
            "a parent that is not there is repaired by place",
            vec![
                user("u<", 0, json!("one")),
                assistant("a<gone", 1, "m1", text("1")),
                user("v<a", 2, json!("two")),
            ],
            vec!["user: one", "assistant: 1", "user: two"],
        ),
        (
            "a block that was streamed twice",
            vec![
                user("u<", 0, json!("one")),
                assistant("a<u", 1, "m1", text("1")),
                assistant("b<a", 1, "m1", text("1")),
            ],
            vec!["user: one", "assistant: 1"],
        ),
        (
            "links without content do not break the chain",
            vec![
                user("u<", 0, json!("one")),
                line("p<u", 1, json!({"type": "progress", "data": {}})),
                line(
                    "n<p",
                    2,
                    json!({"type": "attachment", "attachment": {"type": "date"}, "rendered": [{"content": "today"}]}),
                ),
                assistant("a<n", 3, "m1", text("1")),
            ],
            vec!["user: one", "!user: today", "assistant: 1"],
        ),
    ];
    for (what, session, expected) in cases {
        let transcript = read("claude-code", FILE, file(&session));
        assert_eq!(said(&transcript.items), expected, "{what}");
        assert!(transcript.warnings.is_empty(), "{what}: {:?}", transcript.warnings);
    }
}

#[test]
fn lines_without_a_tree_are_a_list_and_old_exports_are_read() {
    let bare = |role: &str, text: &str| json!({"type": role, "message": {"role": role, "content": text}});
    let expected = ["user: one", "assistant: two", "user: three"];
    let list = [bare("user", "one"), bare("assistant", "two"), bare("user", "three")];
    let text: String = joined(&list);
    assert_eq!(said(&read("claude-code", "s.jsonl", text).items), expected);
    let export = serde_json::to_string_pretty(&json!({"loglines": list})).unwrap();
    assert_eq!(said(&read("claude-code", "s.json", export).items), expected);
    let spread: String = list.iter().map(|line| serde_json::to_string_pretty(line).unwrap() + "\n").collect();
    assert_eq!(said(&read("claude-code", "s.jsonl", spread).items), expected);
}

#[test]
fn damage_costs_its_own_line_only() {
    let good = [user("u<", 0, json!("a\u{2028}b")), assistant("a<u", 1, "m1", text("1"))];
    let damaged = format!("\u{feff}{}\r\n\r\nno json\r\n{}\r\n{{\"type\":\"user\",\"mess", good[0], good[1]);
    let transcript = read("claude-code", FILE, damaged);
    assert_eq!(said(&transcript.items), ["user: a\u{2028}b", "assistant: 1"]);
    let told: Vec<(&str, &str)> = transcript.warnings.iter().map(|w| (w.code, w.place.as_str())).collect();
    let place = |number: u32| format!("{FILE}:{number}");
    assert_eq!(
        told,
        [
            ("transcript.damaged-line", place(3).as_str()),
            ("transcript.torn-line", place(5).as_str())
        ]
    );
}

#[test]
fn a_subagent_within_the_file_is_a_transcript_of_its_own() {
    let side = |link: &str, second: u32, text: &str| {
        line(
            link,
            second,
            json!({"type": "user", "isSidechain": true, "message": {"role": "user", "content": text}}),
        )
    };
    let session = [
        user("u<", 0, json!("go")),
        assistant("a<u", 1, "m1", call("t1")),
        side("s<a", 2, "aside"),
        side("t<s", 3, "more"),
        user("r<a", 4, result("t1", "1")),
    ];
    let found = read_all("claude-code", FILE, file(&session));
    assert_eq!(found.len(), 2);
    assert_eq!(said(&found[0].items), ["user: go", "call: Bash", "result: 1"]);
    assert_eq!(said(&found[1].items), ["user: aside", "user: more"]);
    assert_eq!(found[1].session.parent.as_deref(), Some(ID));
    // The lines stay in the file that they came from, and nowhere else.
    assert_eq!(write("claude-code", &found[0]).files[0].content, file(&session));
    assert!(!write("codex", &found[0]).files[0].content.contains("aside"));
    assert!(
        reasons(&found[0].loss)
            .iter()
            .any(|reason| reason.contains("a transcript of its own"))
    );
}

#[test]
fn a_compaction_stands_for_what_is_before_it_and_keeps_what_the_client_kept() {
    let boundary = |kept: Value| {
        line(
            "b<",
            4,
            json!({"type": "system", "subtype": "compact_boundary", "logicalParentUuid": "a2", "compactMetadata": kept}),
        )
    };
    let summary = line(
        "s<b",
        5,
        json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "so far"}}),
    );
    let before = [
        user("u1<", 0, json!("one")),
        assistant("a1<u1", 1, "m1", text("1")),
        user("u2<a1", 2, json!("two")),
        assistant("a2<u2", 3, "m2", text("2")),
    ];
    let session = |kept: Value| {
        [
            before.to_vec(),
            vec![boundary(kept), summary.clone(), user("u3<s", 6, json!("three"))],
        ]
        .concat()
    };
    let all = read("claude-code", FILE, file(&session(json!({"trigger": "auto"}))));
    assert_eq!(said(&all.items)[4..], ["summary of 4: so far", "user: three"]);
    let some = read(
        "claude-code",
        FILE,
        file(&session(json!({"preservedMessages": {"uuids": ["u2", "a2"]}}))),
    );
    assert_eq!(said(&some.items)[4..], ["summary of 2: so far", "user: three"]);
    // Another runtime is told what this one would send: the summary, what was kept, what follows.
    let told = read(
        "codex",
        "rollout-2026-03-01T10-00-00-x.jsonl",
        &write("codex", &some).files[0].content,
    );
    assert_eq!(said(&told.items), ["user: so far", "user: two", "assistant: 2", "user: three"]);
    let covered = write("codex", &some)
        .loss
        .entries
        .iter()
        .filter(|entry| entry.reason == "a summary stands in its place")
        .count();
    assert_eq!(covered, 2);
}

#[test]
fn what_the_client_made_up_is_no_answer() {
    let made_up = |link: &str, second: u32, members: Value| {
        let mut own = json!({"type": "assistant", "message": {"id": link, "role": "assistant", "model": "<synthetic>", "content": [text("API Error")]}});
        own.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        line(link, second, own)
    };
    let session = [
        line(
            "m<",
            0,
            json!({"type": "user", "isMeta": true, "message": {"role": "user", "content": "Caveat"}}),
        ),
        user("u<m", 1, json!("go")),
        made_up("e<u", 2, json!({"isApiErrorMessage": true, "apiErrorStatus": 529})),
        made_up("f<e", 3, json!({})),
        line(
            "l<f",
            4,
            json!({"type": "system", "subtype": "local_command", "content": "<local-command-stdout>ok"}),
        ),
    ];
    let transcript = read("claude-code", FILE, file(&session));
    assert_eq!(
        said(&transcript.items),
        ["!user: Caveat", "user: go", "error", "user: <local-command-stdout>ok"]
    );
    assert!(transcript.usage.is_empty());
}

#[test]
fn usage_counts_each_answer_once_with_its_last_line() {
    let session = [
        user("u<", 0, json!("go")),
        assistant("a<u", 3, "m1", text("1")),
        assistant("b<a", 7, "m1", call("t1")),
        user("r<b", 8, result("t1", "1")),
        assistant("c<r", 9, "m2", text("2")),
    ];
    let sum = read("claude-code", FILE, file(&session)).usage_sum();
    let value = |counter: Option<throughline_format::UnifiedCounter>| counter.map(|counter| counter.value);
    assert_eq!(
        (value(sum.output_total), value(sum.input_uncached), value(sum.cache_read)),
        (Some(16.0), Some(10.0), None)
    );
}

/// A session of another runtime with everything that a writer has to repair.
fn foreign() -> throughline_agents::Transcript {
    let item = |second: u32, payload: Value| {
        json!({"timestamp": format!("2026-03-01T10:00:{second:02}.000Z"), "type": "response_item", "payload": payload}).to_string()
    };
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": "{\"n\":1.50}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": format!("out {id}")});
    let head = json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta", "payload": {"id": "s1", "cwd": "/project", "model_provider": "openai"}});
    let session = [
        head.to_string(),
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "turn_context", "payload": {"model": "gpt-x"}}).to_string(),
        item(1, message("user", "input_text", "go")),
        item(
            2,
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "think"}], "encrypted_content": "SECRET"}),
        ),
        item(2, call("call.1|a")),
        item(2, call("call_2")),
        item(2, message("user", "input_text", "in between")),
        item(2, output("call_2")),
        item(2, output("call.1|a")),
        item(2, output("orphan")),
        item(2, message("assistant", "output_text", "done")),
        item(3, call("call_3")),
    ];
    read("codex", "rollout-2026-03-01T10-00-00-s1.jsonl", file(&session))
}

#[test]
fn a_written_file_keeps_every_rule_of_the_runtime() {
    let written = write("claude-code", &foreign());
    let lines = lines(&written);
    assert_eq!(written.files[0].path, format!("{}.jsonl", written.session_id));
    assert!(throughline_agents::ids::is_uuid(&written.session_id));
    let mut parent = Value::Null;
    let mut time = String::new();
    let mut open: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    let mut answers: Vec<String> = Vec::new();
    for line in &lines {
        assert_eq!(line["parentUuid"], parent, "the chain is one line");
        assert!(line["timestamp"].as_str().unwrap() > time.as_str(), "times ascend strictly");
        time = line["timestamp"].as_str().unwrap().to_owned();
        parent = line["uuid"].clone();
        for key in ["sessionId", "cwd", "version", "userType"] {
            assert!(line[key].is_string(), "{key}");
        }
        let content = &line["message"]["content"];
        if line["type"] == "assistant" {
            assert_eq!(content.as_array().unwrap().len(), 1, "one block a line");
            assert_eq!(line["message"]["model"], "gpt-x");
            answers.push(line["message"]["id"].as_str().unwrap().to_owned());
            if let Some(id) = content[0]["id"].as_str() {
                assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)), "{id}");
                assert!(ids.insert(id.to_owned()), "call IDs are unique");
                open.push(id.to_owned());
            }
        } else if let Some(id) = content[0]["tool_use_id"].as_str() {
            assert_eq!(content.as_array().unwrap().len(), 1, "one result a line");
            assert!(open.iter().any(|known| known == id), "a result has its call");
            open.retain(|known| known != id);
        } else {
            assert!(open.is_empty(), "results stand directly behind their calls");
        }
    }
    assert!(open.is_empty(), "every call is answered");
    // The two calls of one answer share a message; the answers after the results have their own.
    assert_eq!(answers.iter().collect::<HashSet<_>>().len(), 2, "{answers:?}");
    assert_eq!(answers[0], answers[1]);
    let text = &written.files[0].content;
    assert!(
        !text.contains("SECRET") && !text.contains("thinking"),
        "nothing private, no thinking without a signature"
    );
    assert!(text.contains("1.50"), "arguments stay as they were written");
    for reason in ["left out", "result without its call", "call has no result", "call ID is replaced"] {
        assert!(
            reasons(&written.loss).iter().any(|told| told.contains(reason)),
            "{reason}: {:?}",
            reasons(&written.loss)
        );
    }
}

#[test]
fn a_call_has_one_result_whatever_the_file_repeats() {
    let nameless = json!([{"type": "tool_result", "content": "of nobody"}]);
    let cases = [
        vec![result("t1", "one"), result("t1", "two")],
        // The first answers the call that waits; the others have none.
        vec![nameless.clone(), nameless.clone(), nameless],
    ];
    for results in cases {
        let mut file = vec![user("u0<", 0, json!("go")), assistant("a1<u0", 1, "m1", call("t1"))];
        let mut parent = "a1".to_owned();
        for (number, content) in results.iter().enumerate() {
            file.push(user(&format!("r{number}<{parent}"), 2, content.clone()));
            parent = format!("r{number}");
        }
        let transcript = read("claude-code", FILE, joined(&file));
        let told = said(&transcript.items);
        assert_eq!(
            told.iter().filter(|word| word.starts_with("result: ")).count(),
            results.len(),
            "{told:?}"
        );
        let items = serde_json::to_vec(&transcript.items).unwrap();
        let report = throughline_format::validate::validate_document(&items);
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        assert!(
            reasons(&transcript.loss).iter().any(|reason| reason.contains("stands alone")),
            "{:?}",
            transcript.loss
        );
        // Whoever goes on with it gets both.
        for target in ["codex", "opencode", "gemini-cli"] {
            let content = &write(target, &transcript).files[0].content;
            let last = results[1][0]["content"].as_str().unwrap();
            assert!(content.contains(last), "{target}: {content}");
        }
    }
}
