//! The registry of annotation schemas.

use super::found;
use crate::support::parse;
use serde_json::{Value, json};
use throughline_format::annotation::{self, Finding, SCHEMAS, json_schema, lookup};
use throughline_format::validate::semantics;
use throughline_format::{Json, ProviderDataScope as Scope};

/// Places and rules.
type Found = &'static [(&'static str, &'static str)];

fn look(schema: &str, payload: &Value) -> Vec<(String, &'static str)> {
    let scope = lookup(schema).map_or(Scope::PortableAnnotation, |(s, _)| s.scope);
    match annotation::check(schema, scope, &Json::from_value(payload)) {
        Finding::Valid => Vec::new(),
        Finding::Unknown => vec![(String::new(), "unknown")],
        Finding::Invalid(violations) => found(&violations),
    }
}

#[test]
fn payloads_have_exactly_the_registered_shape() {
    let long = "x".repeat(129);
    let many: Vec<Value> = (0..65).map(|i| json!({"pointer": format!("/{i}"), "value": 1})).collect();
    let rating = json!({"category": "c", "probability": "LOW", "probabilityScore": 0.5, "blocked": false});
    let cases: Vec<(&str, Value, Found)> = vec![
        ("status/original-reason@1", json!({"reason": "SAFETY"}), &[]),
        (
            "status/original-reason@1",
            json!({"reason": long}),
            &[("/reason", "annotation-shape")],
        ),
        ("status/original-reason@1", json!({}), &[("", "annotation-shape")]),
        ("status/original-reason@1", json!("SAFETY"), &[("", "annotation-shape")]),
        (
            "status/original-reason@1",
            json!({"reason": "x", "more": 1}),
            &[("/more", "annotation-shape")],
        ),
        ("finish/matched-stop@1", json!({"text": "END"}), &[]),
        ("finish/matched-stop@1", json!({"token": 128_009}), &[]),
        ("finish/matched-stop@1", json!({"token": 1.5}), &[("/token", "annotation-shape")]),
        ("message/phase@1", json!({"phase": "commentary"}), &[]),
        ("request/instructions-form@1", json!({"form": "blocks"}), &[]),
        (
            "request/instructions-form@1",
            json!({"form": "lines"}),
            &[("/form", "annotation-shape")],
        ),
        ("safety/ratings@1", json!({"ratings": [rating]}), &[]),
        (
            "safety/ratings@1",
            json!({"ratings": [{"probability": 1}]}),
            &[("/ratings/0", "annotation-shape"), ("/ratings/0/probability", "annotation-shape")],
        ),
        ("grounding/search-entry@1", json!({"renderedContent": "<div>"}), &[]),
        ("tool/family@1", json!({"family": "text_editor"}), &[]),
        ("subagent/progress@1", json!({"agent": "a", "state": "running", "step": 2}), &[]),
        (
            "openai-chat/unmapped@1",
            json!({"entries": [{"pointer": "/x", "value": {"any": [null]}}]}),
            &[],
        ),
        (
            "openai-chat/unmapped@1",
            json!({"entries": many}),
            &[("/entries", "annotation-shape")],
        ),
        (
            "openai-chat/unmapped@1",
            json!({"entries": [{"pointer": "x", "value": 1}]}),
            &[("/entries/0/pointer", "annotation-shape")],
        ),
        (
            "openai-chat/unmapped@1",
            json!({"entries": [{"pointer": "", "value": "v".repeat(16 * 1_024 - 2)}]}),
            &[],
        ),
        (
            "openai-chat/unmapped@1",
            json!({"entries": [{"pointer": "", "value": "v".repeat(16 * 1_024 - 1)}]}),
            &[("/entries/0/value", "annotation-shape")],
        ),
        ("message/phase@1", json!({"phase": "x".repeat(2_000)}), &[("", "annotation-size")]),
        ("of-a-later/version@1", json!({"anything": [1, 2]}), &[("", "unknown")]),
        ("of-a-later/version@1", json!("x".repeat(64 * 1_024)), &[("", "annotation-size")]),
    ];
    for (schema, payload, expected) in cases {
        let mut expected: Vec<_> = expected.iter().map(|(path, rule)| ((*path).to_owned(), *rule)).collect();
        expected.sort();
        assert_eq!(look(schema, &payload), expected, "{schema} {payload:.80}");
    }
}

#[test]
fn no_registered_portable_schema_is_open() {
    throughline_format::clause!("PDATA-01");
    for schema in SCHEMAS {
        assert!(schema.scope == Scope::OwnerPrivate || !schema.shape.is_open(), "{}", schema.name);
        let text = json_schema(schema).to_string();
        assert_eq!(
            text.matches("\"type\":\"object\"").count(),
            text.matches("\"additionalProperties\":false").count(),
            "{}",
            schema.name
        );
        assert!(annotation::is_schema_name(schema.name));
    }
}

#[test]
fn portable_annotations_hold_no_credential() {
    let key = crate::secrets::made_up("sk-");
    let secret = |payload: Value| look("of-a-later/version@1", &payload);
    assert_eq!(secret(json!({"a": [{"b": key}]})), [("/a/0/b".to_owned(), "secret")]);
    assert_eq!(secret(json!({"authorization": "anything"})), [(String::new(), "secret")]);
    assert_eq!(secret(json!({key.as_str(): 1})), [(String::new(), "secret")]);
    // The same, escaped: values are looked at as what they mean.
    let escaped = Json::from_text(format!("{{\"a\":\"\\u0073{}\"}}", &key[1..])).unwrap();
    assert!(matches!(
        annotation::check("x/y@1", Scope::PortableAnnotation, &escaped),
        Finding::Invalid(_)
    ));
    // What only its owner sees again is sealed, not scanned.
    assert_eq!(
        look("openai-chat/unmapped@1", &json!({"entries": [{"pointer": "/x", "value": key}]})),
        []
    );
    let record = json!({"resourceId": "r", "profile": {"family": "f"}, "schema": "message/phase@1", "payload": {"phase": key}});
    assert_eq!(
        found(&semantics::annotation(&parse(&record))),
        [("/payload/phase".to_owned(), "secret")]
    );
}

#[test]
fn hostile_payloads_cost_one_pass() {
    let deep = Json::from_text(format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap();
    let Finding::Invalid(violations) = annotation::check("x/y@1", Scope::PortableAnnotation, &deep) else {
        panic!("too deep")
    };
    assert_eq!(violations.len(), 1);
    let twice = Json::from_text("{\"phase\":\"a\",\"phase\":\"b\"}".to_owned()).unwrap();
    let Finding::Invalid(violations) = annotation::check("message/phase@1", Scope::PortableAnnotation, &twice) else {
        panic!("twice")
    };
    assert_eq!(found(&violations), [("/phase".to_owned(), "annotation-shape")]);
}

#[test]
fn annotations_name_their_schema_and_scope() {
    let record =
        |schema: &str| json!({"resourceId": "r", "profile": {"family": "openai-chat"}, "schema": schema, "payload": {"entries": []}});
    let look = |schema: &str| {
        found(&semantics::annotation(&parse(&record(schema))))
            .into_iter()
            .map(|(_, rule)| rule)
            .collect::<Vec<_>>()
    };
    assert_eq!(look("openai-chat/unmapped@1"), ["annotation-scope"]);
    assert_eq!(look("gemini/unmapped@1"), ["annotation-scope", "annotation-scope"]);
    for bad in ["", "x", "x@", "@1", "X@1", "a//b@1", "a b@1", "a@x", "a@12345"] {
        assert_eq!(look(bad), ["schema-name"], "{bad}");
    }
}

#[test]
fn what_is_not_known_is_kept_as_it_was_written() {
    throughline_format::clause!("VER-03");
    // Optional data of a later version: found to be unknown, and written again byte for byte.
    let text = r#"{"resourceId":"r","profile":{"family":"openai-chat","revision":"9"},"schema":"of-a-later/version@2","payload":{ "z":1.0, "a":[ 1e3 ]}}"#;
    let record: throughline_format::UnifiedPortableAnnotation = throughline_format::json::decode_str(text).unwrap();
    assert_eq!(
        annotation::check(&record.schema, Scope::PortableAnnotation, &record.payload),
        Finding::Unknown
    );
    assert_eq!(semantics::annotation(&record), []);
    assert_eq!(serde_json::to_string(&record).unwrap(), text);
}
