//! Codex: rollouts of three generations to a conversation, and back.

use crate::support::{joined, lines, read, reasons, said, write, write_form};
use serde_json::{Value, json};
use throughline_agents::Transcript;

const FILE: &str = "rollout-2026-03-01T10-00-00-s1.jsonl";

fn line(kind: &str, payload: Value) -> String {
    json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": kind, "payload": payload}).to_string()
}

fn item(payload: Value) -> String {
    line("response_item", payload)
}

fn message(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

fn head() -> String {
    line(
        "session_meta",
        json!({"id": "s1", "cwd": "/project", "cli_version": "0.171.0", "model_provider": "openai", "timestamp": "2026-03-01T10:00:00.000Z", "originator": "codex_exec"}),
    )
}

fn rollout(lines: &[String]) -> Transcript {
    let text: String = joined(lines);
    let transcript = read("codex", FILE, &text);
    // Whatever was read, the same runtime gets the same lines.
    assert_eq!(write("codex", &transcript).files[0].content, text);
    transcript
}

#[test]
fn all_generations_are_read() {
    let early = [
        json!({"id": "s1", "timestamp": "2026-03-01T10:00:00.000Z", "instructions": null, "git": {}}).to_string(),
        message("user", "hi").to_string(),
        json!({"record_type": "state"}).to_string(),
        message("assistant", "yo").to_string(),
    ];
    let late = [
        head(),
        line("world_state", json!({"full": true})),
        item(message("user", "hi")),
        line("event_msg", json!({"type": "agent_message", "message": "yo"})),
        item(message("assistant", "yo")),
    ];
    for session in [&early[..], &late[..]] {
        let transcript = rollout(session);
        assert_eq!(said(&transcript.items), ["user: hi", "assistant: yo"]);
        assert_eq!(transcript.session.id, "s1");
    }
    let list = json!([message("user", "hi"), message("assistant", "yo")]).to_string();
    assert_eq!(said(&read("codex", "items.json", list).items), ["user: hi", "assistant: yo"]);
}

#[test]
fn what_the_runtime_puts_in_is_not_what_the_user_said() {
    let session = [
        head(),
        item(message("developer", "permissions")),
        item(message("user", "<environment_context>\n</environment_context>")),
        item(message("user", "hi")),
    ];
    let transcript = rollout(&session);
    assert_eq!(
        said(&transcript.items),
        [
            "!developer: permissions",
            "!user: <environment_context>\n</environment_context>",
            "user: hi"
        ]
    );
    assert_eq!(transcript.turns(), 1);
    let told = write("claude-code", &transcript);
    assert!(!told.files[0].content.contains("environment_context"));
    assert_eq!(reasons(&told.loss).len(), 2);
}

#[test]
fn the_model_of_a_turn_is_the_one_of_its_context() {
    let context = |model: &str| line("turn_context", json!({"model": model, "cwd": "/project"}));
    let session = [
        head(),
        item(message("user", "zero")),
        context("gpt-a"),
        item(message("user", "one")),
        context("gpt-b"),
        item(message("user", "two")),
    ];
    let models: Vec<Option<String>> = rollout(&session)
        .items
        .into_iter()
        .map(|item| item.base.provenance.attribution.model)
        .collect();
    assert_eq!(models, [None, Some("gpt-a".to_owned()), Some("gpt-b".to_owned())]);
}

#[test]
fn compaction_rollback_and_abort_are_told() {
    let summary = line("compacted", json!({"message": "so far"}));
    let replaced = line(
        "compacted",
        json!({"message": "", "replacement_history": [message("user", "one"), message("user", "so far")]}),
    );
    let cases = [
        (
            vec![
                item(message("user", "one")),
                item(message("assistant", "1")),
                summary,
                item(message("user", "two")),
            ],
            vec!["user: one", "assistant: 1", "summary of 2: so far", "user: two"],
        ),
        (
            vec![item(message("user", "one")), replaced],
            vec!["user: one", "summary of 1: one|so far"],
        ),
        (
            vec![
                item(message("user", "one")),
                item(message("assistant", "1")),
                item(message("user", "two")),
                item(message("assistant", "2")),
                line("event_msg", json!({"type": "thread_rolled_back", "num_turns": 1})),
                item(message("user", "three")),
            ],
            vec!["user: one", "assistant: 1", "user: three"],
        ),
        (
            vec![
                item(message("user", "one")),
                item(json!({"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"})),
                line("event_msg", json!({"type": "turn_aborted", "reason": "interrupted"})),
            ],
            vec!["user: one", "call: shell", "interruption"],
        ),
    ];
    for (session, expected) in cases {
        let session = [vec![head()], session].concat();
        assert_eq!(said(&rollout(&session).items), expected);
    }
}

#[test]
fn outputs_of_every_form_are_results_of_their_calls() {
    let image = "data:image/png;base64,iVBORw0KGgo=";
    let outputs = [
        (json!("plain"), "result: plain"),
        (
            json!([{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": image}]),
            "result: see|[image]",
        ),
        (json!({"content": "older", "success": true}), "result: older"),
    ];
    for (output, expected) in outputs {
        let call = item(json!({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** patch"}));
        let result = item(json!({"type": "custom_tool_call_output", "call_id": "c", "output": output}));
        let transcript = rollout(&[head(), item(message("user", "go")), call, result]);
        assert_eq!(said(&transcript.items)[1..], ["call: apply_patch", expected]);
    }
}

#[test]
fn usage_is_the_difference_of_totals_that_repeat() {
    let count = |input: u32, output: u32| {
        line(
            "event_msg",
            json!({"type": "token_count", "info": {"total_token_usage": {"input_tokens": input, "cached_input_tokens": 0, "output_tokens": output, "reasoning_output_tokens": 0}}}),
        )
    };
    let session = [
        head(),
        item(message("user", "go")),
        item(message("assistant", "1")),
        count(10, 2),
        count(10, 2),
        item(message("assistant", "2")),
        count(25, 5),
        line("event_msg", json!({"type": "token_count", "info": null})),
    ];
    let transcript = rollout(&session);
    assert_eq!(transcript.usage.len(), 2);
    let sum = transcript.usage_sum();
    assert_eq!((sum.input_total.unwrap().value, sum.output_total.unwrap().value), (25.0, 5.0));
}

/// An answer of Claude Code with a signature, a parallel call with an image, and a document.
fn foreign() -> Transcript {
    let line = |n: u32, role: &str, content: Value| {
        let mut message = json!({"role": role, "content": content});
        if role == "assistant" {
            message["id"] = json!("m1");
            message["model"] = json!("claude-x");
        }
        let parent = if n == 0 { Value::Null } else { json!(format!("l{}", n - 1)) };
        json!({"type": role, "uuid": format!("l{n}"), "parentUuid": parent, "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/project", "sessionId": "s", "message": message}).to_string() + "\n"
    };
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let document =
        json!({"type": "document", "title": "a.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}});
    let text = [
        line(0, "user", json!([{"type": "text", "text": "look"}, picture, document])),
        line(1, "assistant", json!([{"type": "thinking", "thinking": "hm", "signature": "U0lH"}])),
        line(
            2,
            "assistant",
            json!([{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]),
        ),
        line(
            3,
            "assistant",
            json!([{"type": "tool_use", "id": "t2", "name": "Read", "input": {}}]),
        ),
        line(
            4,
            "user",
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": [picture]}]),
        ),
        line(
            5,
            "user",
            json!([{"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": true}]),
        ),
    ];
    read("claude-code", "s.jsonl", text.concat())
}

#[test]
fn a_written_rollout_keeps_every_rule_of_the_runtime() {
    let written = write("codex", &foreign());
    let lines = lines(&written);
    assert_eq!(
        written.files[0].path,
        format!("rollout-2026-03-01T10-00-00-{}.jsonl", written.session_id)
    );
    let head = &lines[0];
    assert_eq!(head["type"], "session_meta");
    for key in ["id", "timestamp", "cwd", "originator", "cli_version"] {
        assert!(head["payload"][key].is_string(), "{key}");
    }
    assert!(
        head["payload"].get("model_provider").is_none(),
        "the configured provider is the runtime's own business"
    );
    for line in &lines {
        assert!(
            line["timestamp"].is_string() && line["type"].is_string() && line["payload"].is_object(),
            "{line}"
        );
        let payload = &line["payload"];
        assert!(payload.get("content").is_none_or(Value::is_array), "a content is a list: {payload}");
        for part in payload["content"]
            .as_array()
            .into_iter()
            .chain(payload["output"].as_array())
            .flatten()
        {
            assert!(
                ["input_text", "output_text", "input_image"].contains(&part["type"].as_str().unwrap()),
                "{part}"
            );
        }
    }
    let kinds: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "response_item")
        .map(|line| line["payload"]["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output"
        ]
    );
    let text = &written.files[0].content;
    assert!(text.contains("data:image/png;base64,iVBORw0KGgo=") && !text.contains("U0lH") && !text.contains("encrypted_content"));
    for reason in ["no reasoning", "no files"] {
        assert!(
            reasons(&written.loss).iter().any(|told| told.contains(reason)),
            "{reason}: {:?}",
            reasons(&written.loss)
        );
    }
    // The form of the app server is the same items.
    let bare: Vec<Value> = serde_json::from_str(&write_form("codex", &foreign(), "response-items").files[0].content).unwrap();
    let items: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "response_item")
        .map(|line| &line["payload"])
        .collect();
    assert_eq!(bare.iter().collect::<Vec<_>>(), items);
}
