//! `convert`: shapes, exit codes, private state.

use crate::support::{ANTHROPIC, ANTHROPIC_REQUEST, CHAT, CHAT_REQUEST, CHAT_RESPONSE, CHAT_STREAM, Folder, Run, throughline};
use serde_json::{Value, json};
use throughline_format::clause;

fn convert(kind: &str, from: &str, more: &[&str], input: &str) -> Run {
    throughline(&[&["convert", "--kind", kind, "--from", from], more, &["-"]].concat(), input)
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_report_has_the_documented_members() {
    let decoded = convert("request", CHAT, &[], CHAT_REQUEST).json();
    assert_eq!(keys(&decoded), ["unified", "resources", "decodeLoss"]);
    assert_eq!(decoded["unified"]["schemaVersion"], "2.0");
    assert_eq!(decoded["unified"]["conversation"]["items"][0]["conversationId"], "pending");
    assert_eq!(
        decoded["unified"]["conversation"]["items"][0]["createdAt"],
        "1970-01-01T00:00:00.000Z"
    );

    let projected = convert("request", CHAT, &["--to", ANTHROPIC], CHAT_REQUEST).json();
    assert_eq!(keys(&projected), ["unified", "resources", "decodeLoss", "output", "loss"]);
    assert_eq!(projected["unified"], decoded["unified"]);
    assert_eq!(projected["output"]["model"], "m");
    let seed = projected["loss"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["feature"] == "generation.seed")
        .unwrap();
    assert_eq!((&seed["path"], &seed["severity"]), (&json!("/generation/seed"), &json!("warning")));
}

#[test]
fn a_response_and_its_stream_become_the_same_items() {
    let response = convert("response", CHAT, &[], CHAT_RESPONSE).json();
    let stream = convert("stream", CHAT, &["--to", ANTHROPIC], CHAT_STREAM).json();
    assert_eq!(response["unified"]["output"], stream["unified"]["output"]);
    assert_eq!(response["unified"]["usage"], stream["unified"]["usage"]);
    let events = stream["output"].as_array().unwrap();
    assert_eq!(events[0]["event"], "message_start");
    assert_eq!(events.last().unwrap()["event"], "message_stop");
    let back = convert("response", CHAT, &["--to", ANTHROPIC], CHAT_RESPONSE).json();
    assert_eq!(back["output"]["content"], json!([{"type": "text", "text": "Grüß Gott"}]));
}

#[test]
fn raw_prints_the_body_alone_and_the_losses_apart() {
    let report = convert("request", CHAT, &["--to", ANTHROPIC], CHAT_REQUEST).json();
    let raw = convert("request", CHAT, &["--to", ANTHROPIC, "--raw"], CHAT_REQUEST);
    assert_eq!((raw.exit, raw.json()), (0, report["output"].clone()));
    assert_eq!(serde_json::from_str::<Value>(&raw.stderr).unwrap(), report["loss"]);

    let sse = convert("stream", CHAT, &["--to", ANTHROPIC, "--raw"], CHAT_STREAM).stdout;
    assert!(sse.starts_with("event: message_start\ndata: {") && sse.ends_with("\n\n"), "{sse}");
    let again = throughline(&["fold", "--from", ANTHROPIC, "-"], sse).json();
    assert_eq!(again["result"]["output"][0]["parts"][0]["text"], "Grüß Gott");
}

#[test]
fn a_required_intent_that_cannot_be_said_is_exit_3_with_the_report() {
    clause!("CONF-08");
    let folder = Folder::new();
    for (strength, exit, severity) in [("required", 3, "error"), ("preferred", 0, "warning"), ("optional", 0, "info")] {
        let requirements = folder.file("requirements.json", json!({"/seed": strength}).to_string());
        let run = convert("request", CHAT, &["--to", ANTHROPIC, "--requirements", &requirements], CHAT_REQUEST);
        let report = run.json();
        assert_eq!((run.exit, report.get("output").is_some()), (exit, exit == 0), "{strength}");
        let seed = report["loss"]["entries"]
            .as_array()
            .unwrap()
            .iter()
            .find(|e| e["feature"] == "generation.seed")
            .unwrap();
        assert_eq!(seed["severity"], severity);
        assert_eq!(report["unified"]["generation"]["seed"]["requirement"], strength);
    }
    let requirements = folder.file("requirements.json", r#"{"/seed":"required"}"#);
    let raw = convert(
        "request",
        CHAT,
        &["--to", ANTHROPIC, "--raw", "--requirements", &requirements],
        CHAT_REQUEST,
    );
    assert_eq!((raw.exit, raw.stdout.as_str()), (3, ""));
    assert_eq!(serde_json::from_str::<Value>(&raw.stderr).unwrap()["disposition"], "unsupported");
}

#[test]
fn a_capability_override_changes_what_is_lost() {
    let folder = Folder::new();
    let capabilities = folder.file("capabilities.json", r#"{"generation.temperature":false}"#);
    let request = r#"{"model":"m","temperature":0.5,"messages":[{"role":"user","content":"hi"}]}"#;
    let lost = |more: &[&str]| {
        let report = convert("request", CHAT, &[&["--to", ANTHROPIC], more].concat(), request).json();
        report["loss"]["entries"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["feature"] == "generation.temperature")
    };
    assert!(!lost(&[]));
    assert!(lost(&["--capabilities", &capabilities]));
}

#[test]
fn private_payloads_are_described_and_never_printed() {
    let run = convert("request", ANTHROPIC, &["--to", CHAT], ANTHROPIC_REQUEST);
    for secret in ["c2lnLW9uZQ==", "cmVkYWN0ZWQ="] {
        assert!(
            !run.stdout.contains(secret) && !run.stderr.contains(secret),
            "{secret} is in the output"
        );
    }
    let report = run.json();
    let paths: Vec<&str> = report["resources"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|r| r["paths"].as_array().unwrap())
        .map(|p| p.as_str().unwrap())
        .collect();
    for path in ["/messages/1/content/0/signature", "/messages/1/content/1/data"] {
        assert!(paths.contains(&path), "{path} is not among {paths:?}");
    }
    for resource in report["resources"].as_array().unwrap() {
        assert_eq!(resource["scope"], "owner-private");
        assert!(resource.get("payload").is_none() && resource["sha256"].as_str().unwrap().len() == 64 && resource["bytes"].is_u64());
    }
}

#[test]
fn private_state_goes_only_to_a_compatible_owner() {
    clause!("CKPT-05");
    let folder = Folder::new();
    let owner = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut owner = json!({
            "profile": {"family": ANTHROPIC}, "provider": "anthropic", "credentialFingerprint": "v1:00000000000000000000000000000000",
            "endpointFingerprint": "11111111111111111111111111111111", "model": "m", "modelFamily": "f",
        });
        change(&mut owner);
        folder.file(&format!("{name}.json"), owner.to_string())
    };
    let source = owner("source", &|_| {});
    let set = |member: &'static str| move |o: &mut Value| o[member] = json!("other");
    let targets: [(&str, String, bool); 9] = [
        ("the same", owner("same", &|_| {}), true),
        ("another model of the family", owner("model", &set("model")), true),
        ("another family of models", owner("family", &set("modelFamily")), false),
        ("another provider", owner("provider", &set("provider")), false),
        ("another credential", owner("credential", &set("credentialFingerprint")), false),
        ("another endpoint", owner("endpoint", &set("endpointFingerprint")), false),
        ("a project", owner("project", &set("project")), false),
        ("a region", owner("region", &set("region")), false),
        ("a tenant", owner("tenant", &set("tenant")), false),
    ];
    let is_sent = |more: &[&str]| {
        let run = convert("request", ANTHROPIC, &[&["--to", ANTHROPIC], more].concat(), ANTHROPIC_REQUEST);
        assert_eq!(run.exit, 0, "{run:?}");
        let signature = run.stdout.contains("c2lnLW9uZQ==");
        assert_eq!(
            signature,
            run.stdout.contains("cmVkYWN0ZWQ="),
            "signature and redacted data share their fate"
        );
        signature
    };
    assert!(is_sent(&[]), "one and the same owner by default");
    for (name, target, expected) in &targets {
        assert_eq!(is_sent(&["--source-owner", &source, "--target-owner", target]), *expected, "{name}");
    }
    assert!(!is_sent(&["--source-owner", &source]), "an owner that is not named is unknown");
    let foreign = folder.file(
        "foreign.json",
        json!({"profile": {"family": CHAT}, "provider": "openai", "credentialFingerprint": "v1:0", "endpointFingerprint": "1"}).to_string(),
    );
    let run = convert("request", ANTHROPIC, &["--source-owner", &foreign], ANTHROPIC_REQUEST);
    assert_eq!((run.exit, run.error()["code"].as_str()), (2, Some("invalid-request.usage")));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    clause!("CONF-10");
    for (kind, input) in [("request", CHAT_REQUEST), ("response", CHAT_RESPONSE), ("stream", CHAT_STREAM)] {
        let once = convert(kind, CHAT, &["--to", ANTHROPIC], input).stdout;
        assert_eq!(once, convert(kind, CHAT, &["--to", ANTHROPIC], input).stdout);
    }
}
