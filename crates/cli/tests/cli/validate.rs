//! `validate` and `schema`.

use crate::support::{CHAT, CHAT_REQUEST, CHAT_STREAM, Folder, throughline};
use serde_json::{Value, json};

const ITEM: &str = r#"{"kind":"message","id":"op_1.i0","conversationId":"pending","branchId":"pending","sequence":1,"role":"user","visibility":"model","status":"completed","createdAt":"1970-01-01T00:00:00.000Z","provenance":{"origin":"client","attribution":{}},"parts":[{"kind":"text","partId":"op_1.i0.p0","text":"hi"}]}"#;

fn check(input: &str, exit: i32, record: &str) -> Vec<Value> {
    let run = throughline(&["validate", "-"], input);
    let report = run.json();
    assert_eq!((run.exit, &report["record"]), (exit, &json!(record)), "{run:?}");
    assert_eq!(report["valid"], exit == 0, "{run:?}");
    assert_eq!(run.stderr, "");
    report["violations"].as_array().unwrap().clone()
}

#[test]
fn what_is_sound_is_valid() {
    assert_eq!(check(ITEM, 0, "item"), Vec::<Value>::new());
    assert_eq!(check("[]", 0, "items"), Vec::<Value>::new());
    assert_eq!(check(&format!("[{ITEM}]"), 0, "items"), Vec::<Value>::new());
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(ITEM).unwrap()).unwrap();
    assert_eq!(check(&pretty, 0, "item"), Vec::<Value>::new());
    let folder = Folder::new();
    let run = throughline(&["validate", &folder.file("item.json", ITEM)], "");
    assert_eq!(
        (run.exit, run.stdout.as_str()),
        (0, "{\"valid\":true,\"record\":\"item\",\"violations\":[]}\n")
    );
}

#[test]
fn what_this_program_prints_is_valid() {
    let converted = throughline(&["convert", "--kind", "request", "--from", CHAT, "-"], CHAT_REQUEST).json();
    assert_eq!(check(&converted["unified"].to_string(), 0, "request"), Vec::<Value>::new());
    let folded = throughline(&["fold", "--from", CHAT, "-"], CHAT_STREAM).json();
    assert_eq!(check(&folded["result"].to_string(), 0, "result"), Vec::<Value>::new());
}

#[test]
fn every_violation_is_listed_with_code_place_and_message() {
    let broken = ITEM
        .replace("\"message\"", "\"telepathy\"")
        .replace("\"role\":\"user\"", "\"role\":\"robot\"");
    let violations = check(&broken, 2, "item");
    let found: Vec<_> = violations
        .iter()
        .map(|v| (v["code"].as_str().unwrap(), v["path"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            ("invalid-request.unknown-discriminator", "/kind"),
            ("invalid-request.invalid-value", "/role")
        ]
    );
    assert!(violations.iter().all(|v| !v["message"].as_str().unwrap().is_empty()));
    // The place in a list, and in lines.
    let second = ITEM.replace("\"user\"", "3");
    for (input, record) in [(format!("[{ITEM},{second}]"), "items"), (format!("{ITEM}\n\n{second}\n"), "items")] {
        let violations = check(&input, 2, record);
        assert_eq!((violations.len(), &violations[0]["path"]), (1, &json!("/1/role")), "{violations:?}");
    }
}

#[test]
fn what_is_no_record_is_told_as_such() {
    for (input, code, path) in [
        ("", "invalid-request.json", ""),
        ("{\"kind\":", "invalid-request.json", ""),
        ("nothing", "invalid-request.json", ""),
        ("3", "invalid-request.wrong-type", ""),
        ("{}", "invalid-request.unknown-discriminator", ""),
        ("[{}]", "invalid-request.unknown-discriminator", "/0"),
        ("[3]", "invalid-request.wrong-type", "/0"),
    ] {
        let violations = check(input, 2, "unknown");
        assert_eq!(
            (violations.len(), &violations[0]["code"], &violations[0]["path"]),
            (1, &json!(code), &json!(path)),
            "{input}"
        );
    }
    let torn = format!("{ITEM}\n{}", &ITEM[..40]);
    let violations = check(&torn, 2, "items");
    assert_eq!(
        (&violations[0]["code"], &violations[0]["path"]),
        (&json!("invalid-request.json"), &json!("/1"))
    );
    let run = throughline(&["validate", "/no/such/file"], "");
    assert_eq!((run.exit, run.error()["code"].as_str()), (2, Some("invalid-request.usage")));
    // Nesting is no danger.
    let deep = format!("{{\"kind\":{}", "[".repeat(1_000_000));
    assert_eq!(check(&deep, 2, "unknown")[0]["code"], "invalid-request.json");
}

#[test]
fn the_schema_is_the_committed_one() {
    let committed = |name: &str| std::fs::read_to_string(format!("{}/../../schema/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for (arguments, name) in [
        (&["schema"][..], "unified-v2.schema.json"),
        (&["schema", "--format", "json-schema"], "unified-v2.schema.json"),
        (&["schema", "--format", "typescript"], "unified-v2.d.ts"),
    ] {
        let run = throughline(arguments, "");
        assert_eq!((run.exit, run.stdout), (0, committed(name)), "{arguments:?}");
    }
    let run = throughline(&["schema", "--format", "xsd"], "");
    assert_eq!((run.exit, run.error()["code"].as_str()), (2, Some("invalid-request.usage")));
}
