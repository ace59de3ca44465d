//! `convert --batch`.

use crate::support::{CHAT, CHAT_STREAM, throughline};
use serde_json::{Value, json};

#[test]
fn every_line_gets_its_answer_in_order_and_a_bad_one_stops_no_other() {
    let job = |id: Value, body: Value| json!({"id": id, "kind": "request", "from": CHAT, "body": body}).to_string();
    let deep = format!(
        r#"{{"id":"deep","kind":"request","from":"{CHAT}","body":{}{}}}"#,
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let lines = [
        (
            job(
                json!("good"),
                json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
            ),
            json!("good"),
            0,
            None,
        ),
        (
            job(json!(2), json!({"model": "m", "messages": 3})),
            json!(2),
            2,
            Some("invalid-request.wrong-type"),
        ),
        ("no json at all".into(), Value::Null, 2, Some("invalid-request.json")),
        (r#"{"id":"short"}"#.into(), json!("short"), 2, Some("invalid-request.missing-field")),
        (
            json!({"id": "odd", "kind": "request", "from": CHAT, "body": {}, "colour": 1}).to_string(),
            json!("odd"),
            2,
            Some("invalid-request.unknown-field"),
        ),
        (
            json!({"id": "list", "kind": "stream", "from": CHAT, "body": []}).to_string(),
            json!("list"),
            2,
            Some("invalid-request.wrong-type"),
        ),
        (deep, json!("deep"), 2, Some("invalid-request.too-deep")),
        (
            json!({"id": "s", "kind": "stream", "from": CHAT, "body": CHAT_STREAM}).to_string(),
            json!("s"),
            0,
            None,
        ),
        (
            format!(r#"{{"id":"half","kind":"stream","from":"{CHAT}","body":"data: \udcff\n\n"}}"#),
            json!("half"),
            0,
            None,
        ),
    ];
    let input = lines.iter().map(|(line, ..)| line.as_str()).collect::<Vec<_>>().join("\n\n");
    let run = throughline(&["convert", "--batch"], input);
    assert_eq!(run.exit, 0);
    let answers = run.lines();
    assert_eq!(answers.len(), lines.len(), "{run:?}");
    for (answer, (line, id, exit, code)) in answers.iter().zip(&lines) {
        let line: String = line.chars().take(90).collect();
        assert_eq!((&answer["id"], &answer["exit"]), (id, &json!(exit)), "{line}: {answer}");
        assert_eq!(answer["error"]["code"].as_str(), *code, "{line}: {answer}");
        assert_eq!(answer.get("unified").is_some(), *exit == 0, "{line}");
    }
}

#[test]
fn a_line_and_the_single_command_give_the_same() {
    let body = crate::support::CHAT_REQUEST;
    let single = throughline(
        &["convert", "--kind", "request", "--from", CHAT, "--to", "anthropic-messages", "-"],
        body,
    )
    .json();
    let line = format!(r#"{{"id":1,"kind":"request","from":"{CHAT}","to":"anthropic-messages","body":{body}}}"#);
    let mut batch = throughline(&["convert", "--batch", "-"], line).lines().remove(0);
    let members = batch.as_object_mut().unwrap();
    members.shift_remove("id");
    assert_eq!(members.shift_remove("exit"), Some(json!(0)));
    assert_eq!(batch, single);
}
