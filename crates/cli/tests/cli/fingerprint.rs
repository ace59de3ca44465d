//! `fingerprint`.

use crate::support::throughline;

const ITEM: &str = r#"{"kind":"message","id":"op_1.i0","conversationId":"pending","branchId":"pending","sequence":1,"role":"user","visibility":"model","status":"completed","createdAt":"1970-01-01T00:00:00.000Z","provenance":{"origin":"client","attribution":{}},"parts":[{"kind":"text","partId":"op_1.i0.p0","text":"hi"}]}"#;

#[test]
fn spelling_of_a_record_does_not_change_its_fingerprint_but_content_does() {
    let print = |text: &str| {
        let run = throughline(&["fingerprint", "-"], text);
        assert_eq!(run.exit, 0, "{run:?}");
        assert_eq!(run.json()["algorithm"], "sha-256");
        run.json()["fingerprint"].as_str().unwrap().to_owned()
    };
    let value: serde_json::Value = serde_json::from_str(ITEM).unwrap();
    let reversed: serde_json::Map<String, serde_json::Value> = value.as_object().unwrap().clone().into_iter().rev().collect();
    let respelled = serde_json::to_string_pretty(&reversed).unwrap();
    assert_eq!(print(ITEM), print(&respelled));
    assert_ne!(print(ITEM), print(&ITEM.replace("\"hi\"", "\"ho\"")));
}

#[test]
fn what_is_no_record_is_refused_with_its_place() {
    let unknown_kind = ITEM.replace("\"message\"", "\"telepathy\"");
    let cases = [
        ("{}", "invalid-request.unknown-discriminator", None),
        ("[]", "invalid-request.wrong-type", None),
        ("nothing", "invalid-request.json", None),
        (unknown_kind.as_str(), "invalid-request.unknown-discriminator", Some("/kind")),
        (r#"{"exportedAt":1}"#, "invalid-request.", None),
    ];
    for (input, code, path) in cases {
        let run = throughline(&["fingerprint", "-"], input);
        let error = run.error();
        assert!(
            run.exit == 2 && error["code"].as_str().unwrap().starts_with(code),
            "{input}: {run:?}"
        );
        if path.is_some() {
            assert_eq!(error["path"].as_str(), path, "{input}");
        }
    }
    let other_version = r#"{"kind":"response.started","eventId":"op_1.e1","schemaVersion":"3.0"}"#;
    assert!(
        throughline(&["fingerprint", "-"], other_version).error()["message"]
            .as_str()
            .unwrap()
            .contains("3.0")
    );
}
