//! The validator that lists every mistake agrees with decoding, which stops at the first.

use crate::round_trip::{Sample, samples};
use crate::support::parts::{items, parts};
use crate::support::{is_opaque, pointers, records, split};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;
use throughline_format::json::decode::DecodeCode;
use throughline_format::shape::Shaped;
use throughline_format::validate::{MAX_EVENT_BYTES, MAX_ITEM_BYTES, Violation, structure, validate_document};
use throughline_format::{UnifiedContentPart, UnifiedItem, UnifiedRequestV2};

/// What the validator found, as (code, path).
fn found(text: &[u8], shape: throughline_format::shape::Shape) -> Vec<(&'static str, String)> {
    structure(text, shape).into_iter().map(|v| (v.code, v.path)).collect()
}

/// Decoding fails exactly when the validator finds something, and what it fails with is among the findings.
fn check_agreement(sample: &Sample, text: &str) {
    let listed = structure(text.as_bytes(), sample.shape);
    match (sample.read)(text) {
        Ok(()) => assert_eq!(listed, Vec::<Violation>::new(), "{} decodes: {text}", sample.name),
        Err(error) => {
            assert!(
                !listed.is_empty(),
                "{} does not decode ({error}), and nothing is listed: {text}",
                sample.name
            );
            // Text that is no JSON is told as such alone. A number beyond all bounds, or an escape that is no character, is found
            // by the parser while it is on its way. A sign on a number of seconds is of another type to the one and out of
            // range to the other.
            let is_told = listed
                .iter()
                .any(|v| v.path == error.pointer && (v.code == error.code.as_str() || error.pointer.ends_with("/ttl")));
            let is_json = |code: &str| code == DecodeCode::Json.as_str();
            let is_no_json = is_json(error.code.as_str()) || listed.iter().any(|v| is_json(v.code) && v.path.is_empty());
            assert!(
                is_told || is_no_json,
                "{}: {error:?} is not among {listed:?} of {text}",
                sample.name
            );
        }
    }
}

#[test]
fn sound_samples_have_nothing_wrong_with_them() {
    for sample in samples() {
        check_agreement(&sample, &sample.value.to_string());
        check_agreement(&sample, &serde_json::to_string_pretty(&sample.value).unwrap());
        // The discriminator may stand anywhere.
        if let Value::Object(members) = &sample.value {
            let reversed: serde_json::Map<String, Value> = members.clone().into_iter().rev().collect();
            check_agreement(&sample, &Value::Object(reversed).to_string());
        }
    }
}

#[test]
fn every_single_change_is_told_as_decoding_tells_it() {
    let replacements = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(300),
        json!(9_007_199_254_740_993_u64),
        json!(-9_007_199_254_740_993_i64),
        json!(u64::MAX),
        json!(""),
        json!("zzz"),
        json!("5m"),
        json!("12"),
        json!([]),
        json!([1]),
        json!({}),
        json!({"kind": "zzz"}),
        json!({"kind": 1}),
        json!({"tokens": 1}),
    ];
    let mut checked = 0;
    for sample in samples() {
        for (number, pointer) in sample.pointers().into_iter().enumerate() {
            // Some at each place, so that all come to every type; the random changes below do the rest.
            for replacement in replacements.iter().cycle().skip(number * 5).take(3) {
                let mut value = sample.value.clone();
                *value.pointer_mut(&pointer).unwrap() = replacement.clone();
                check_agreement(&sample, &value.to_string());
                checked += 1;
            }
            let (parent, token) = split(&pointer);
            if let Some(Value::Object(_)) = sample.value.pointer(parent)
                && !pointer.is_empty()
            {
                let mut value = sample.value.clone();
                value
                    .pointer_mut(parent)
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .shift_remove(token)
                    .unwrap();
                check_agreement(&sample, &value.to_string());
            }
            if let Some(Value::Object(_)) = sample.value.pointer(&pointer) {
                let mut value = sample.value.clone();
                value.pointer_mut(&pointer).unwrap()["zz/z"] = json!({"a": [1]});
                check_agreement(&sample, &value.to_string());
                // A key twice: the second is put into the text.
                let text = sample.value.pointer(&pointer).unwrap().to_string();
                if let Some(key) = sample.value.pointer(&pointer).unwrap().as_object().unwrap().keys().next() {
                    let twice = text.replacen('{', &format!("{{{}:1,", Value::from(key.as_str())), 1);
                    check_agreement(&sample, &sample.value.to_string().replacen(&text, &twice, 1));
                }
            }
        }
    }
    assert!(checked > 3_000, "{checked}");
}

/// Samples once, since they are taken thousands of times.
fn all_samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(samples)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
        "[a-z0-9:._-]{0,6}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("2026-01-31T12:00:00.123Z")),
        Just(json!("completed")),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(
                (
                    prop_oneof!["kind|id|partId|text|value|requirement|parts|source", "[a-z]{0,4}"],
                    inner
                ),
                0..4
            )
            .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn decoding_fails_exactly_when_something_is_listed(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any_json(), any::<bool>()), 1..4),
    ) {
        let sample = which.get(all_samples());
        let mut value = sample.value.clone();
        for (place, replacement, inserts) in changes {
            let places = pointers(&value);
            let target = value.pointer_mut(place.get::<String>(&places)).unwrap();
            match target {
                Value::Array(list) if inserts => list.push(replacement),
                Value::Object(members) if inserts => { members.insert("x".to_owned(), replacement); }
                _ => *target = replacement,
            }
        }
        check_agreement(sample, &value.to_string());
    }

    #[test]
    fn so_it_does_with_text_that_was_cut_about(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        cut in 0..12_usize,
        put in prop_oneof![
            "[\\[\\]{},:\"\\\\0-9a-z+-. ]{0,4}".prop_map(|s| s),
            Just("\\ud800".to_owned()), Just("\\u0041".to_owned()), Just("1e999".to_owned()), Just("-0".to_owned()), Just("1E2".to_owned()),
            Just("18446744073709551616".to_owned()), Just("\u{e9}".to_owned()),
        ],
    ) {
        let sample = which.get(all_samples());
        let text = sample.value.to_string();
        let begins: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
        let begin = *at.get(&begins);
        let end = text[begin..].char_indices().map(|(i, _)| begin + i).nth(cut).unwrap_or(text.len());
        check_agreement(sample, &format!("{}{put}{}", &text[..begin], &text[end..]));
    }
}

#[test]
fn numbers_are_read_as_the_parser_reads_them() {
    let with_numbers: Vec<&Sample> = all_samples()
        .iter()
        .filter(|s| s.name.starts_with("request") || s.name == "part \"image\"" || s.name == "part \"text\"")
        .collect();
    let numbers = [
        "0",
        "-0",
        "-1",
        "1",
        "255",
        "256",
        "1.0",
        "1e2",
        "1E+2",
        "1e-400",
        "1e999",
        "-1e999",
        "0e999",
        "9007199254740991",
        "9007199254740992",
    ];
    let more = [
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "\"-5\"",
        "\"+5\"",
        "\"5.0\"",
        "\"99999999999999999999\"",
    ];
    for sample in with_numbers {
        for pointer in sample.pointers() {
            let place = sample.value.pointer(&pointer).unwrap();
            if !place.is_number() && !pointer.ends_with("/seed/value") {
                continue;
            }
            for number in numbers.iter().chain(&more) {
                let mut value = sample.value.clone();
                *value.pointer_mut(&pointer).unwrap() = json!("NUMBER");
                check_agreement(sample, &value.to_string().replacen("\"NUMBER\"", number, 1));
            }
        }
    }
}

#[test]
fn every_mistake_is_listed_with_its_place() {
    throughline_format::clause!("ITEM-02");
    let mut item = items()[0].clone();
    item["sequence"] = json!("1");
    item["role"] = json!("robot");
    item["parts"][0]["kind"] = json!("telepathy");
    item["parts"][1]["state"] = Value::Null;
    item["parts"][2]["zzz"] = json!(1);
    item.as_object_mut().unwrap().shift_remove("status");
    item["cache"]["ttl"] = json!({});
    assert_eq!(
        found(item.to_string().as_bytes(), UnifiedItem::shape()),
        [
            ("invalid-request.wrong-type", "/sequence".to_owned()),
            ("invalid-request.invalid-value", "/role".to_owned()),
            ("invalid-request.wrong-type", "/cache/ttl".to_owned()),
            ("invalid-request.unknown-discriminator", "/parts/0/kind".to_owned()),
            ("invalid-request.wrong-type", "/parts/1/state".to_owned()),
            ("invalid-request.unknown-field", "/parts/2/zzz".to_owned()),
            ("invalid-request.missing-field", String::new()),
        ]
    );
    // A kind that is not known leaves the common members to be checked.
    let found_of = |text: &str| found(text.as_bytes(), UnifiedItem::shape());
    assert_eq!(
        found_of(r#"{"kind":"zzz","id":"","whatever":1}"#)[..2],
        [
            ("invalid-request.unknown-discriminator", "/kind".to_owned()),
            ("invalid-request.invalid-value", "/id".to_owned())
        ]
    );
    assert!(
        structure(b"{}", UnifiedItem::shape())
            .iter()
            .any(|v| v.message == "missing field `kind`")
    );
    assert_eq!(found_of("[]"), [("invalid-request.wrong-type", String::new())]);
    assert_eq!(found_of("{"), [("invalid-request.json", String::new())]);
    assert_eq!(found(b"\"\xff\"", UnifiedItem::shape()), [("invalid-request.json", String::new())]);
}

#[test]
fn messages_quote_nothing_of_the_input() {
    for sample in samples() {
        for pointer in sample.pointers() {
            let mut value = sample.value.clone();
            let place = value.pointer_mut(&pointer).unwrap();
            // An unknown version is named, so that the reader knows which program to use.
            if is_opaque(place) || pointer == "/schemaVersion" {
                continue;
            }
            *place = json!("hunter2");
            for violation in structure(value.to_string().as_bytes(), sample.shape) {
                assert!(
                    !violation.message.contains("hunter2") && !violation.message.is_empty(),
                    "{violation:?}"
                );
            }
        }
    }
}

#[test]
fn hostile_input_costs_a_bounded_report_and_no_machine_stack() {
    let shape = UnifiedContentPart::shape();
    let floor = r#"{"partId":"p","kind":"grounding-source","source":{"sourceId":"s","type":"web"},"parts":["#;
    let tower = |levels: usize| {
        format!(
            r#"{}{{"partId":"p","kind":"text","text":1}}{}"#,
            floor.repeat(levels),
            "]}".repeat(levels)
        )
    };
    assert_eq!(
        found(tower(30).as_bytes(), shape),
        [("invalid-request.wrong-type", format!("{}/text", "/parts/0".repeat(30)))]
    );
    assert_eq!(
        found(tower(5_000).as_bytes(), shape),
        [("invalid-request.too-deep", "/parts/0".repeat(32))]
    );
    let deep = format!("{}{}", "[".repeat(300_000), "]".repeat(300_000));
    assert_eq!(found(deep.as_bytes(), shape).len(), 2);
    // The kind stands behind everything else on every level, so that each level is looked through for it.
    let late = r#"{"partId":"p","source":{"sourceId":"s","type":"web"},"parts":["#;
    let text = format!("{}{}", late.repeat(30), r#"],"kind":"grounding-source"}"#.repeat(30));
    assert_eq!(found(text.as_bytes(), shape), []);
    // Many mistakes under a long key.
    let key = "k".repeat(1_000_000);
    let list = vec!["1"; 50_000].join(",");
    let text = format!(r#"{{"metadata":{{"labels":{{"{key}":[{list}]}}}},"zz":[{list}]}}"#);
    let report = structure(text.as_bytes(), UnifiedRequestV2::shape());
    assert!(report.iter().all(|v| v.path.len() < 1_000), "a long key is not named");
    let text = format!(r#"{{"tools":[{list}]}}"#);
    let report = structure(text.as_bytes(), UnifiedRequestV2::shape());
    assert_eq!(report.len(), 10_001);
    assert!(report.last().unwrap().message.starts_with("unlisted: "), "{:?}", report.last());
    assert!(!parts().is_empty() && records::request().is_object());
}

#[test]
fn items_and_events_keep_their_size() {
    let with_text = |bytes: usize| {
        let mut item = items()[0].clone();
        item["parts"] = json!([{"partId": "op.i0.p0", "kind": "text", "text": ""}]);
        let room = bytes - item.to_string().len();
        item["parts"][0]["text"] = json!("x".repeat(room));
        item
    };
    let codes = |text: &str| {
        validate_document(text.as_bytes())
            .violations
            .into_iter()
            .map(|v| (v.code, v.path))
            .collect::<Vec<_>>()
    };
    let too_large = |path: &str| vec![("too-large.item", path.to_owned())];
    assert!(!codes(&with_text(MAX_ITEM_BYTES).to_string()).contains(&too_large("")[0]));
    assert_eq!(codes(&with_text(MAX_ITEM_BYTES + 1).to_string()), too_large(""));
    assert_eq!(
        codes(&format!("[{},{}]", items()[0], with_text(MAX_ITEM_BYTES + 1))),
        too_large("/1")
    );
    let event = |bytes: usize| {
        let begin = r#"{"schemaVersion":"2.0","kind":"warning","operationId":"op","eventId":"op.e1","sequence":1,"timestamp":"2026-01-31T12:00:00.123Z","code":"c.d","message":""#;
        format!("{begin}{}\"}}", "x".repeat(bytes - begin.len() - 2))
    };
    assert!(codes(&event(MAX_EVENT_BYTES)).iter().all(|(code, _)| *code != "too-large.event"));
    assert_eq!(codes(&event(MAX_EVENT_BYTES + 1)), [("too-large.event", String::new())]);
    // Decoding does not look at sizes, and what agrees with it does neither.
    assert_eq!(
        structure(event(MAX_EVENT_BYTES + 1).as_bytes(), throughline_format::UnifiedEventV2::shape()),
        []
    );
}

#[test]
fn a_document_is_a_record_a_list_or_lines() {
    let of = |text: &str| {
        let report = validate_document(text.as_bytes());
        (
            report.record,
            report.violations.into_iter().map(|v| (v.code, v.path)).collect::<Vec<_>>(),
        )
    };
    let sound = r#"{"schemaVersion":"2.0","kind":"operation.created","operationId":"op","eventId":"op.e1","sequence":1,"timestamp":"2026-01-31T12:00:00.123Z","sourceBranchId":"b1","target":{"family":"openai-chat"}}"#;
    let second = sound
        .replace("e1", "e2")
        .replace("\"sequence\":1", "\"sequence\":2")
        .replace("operation.created", "operation.running")
        .replace(r#","sourceBranchId":"b1","target":{"family":"openai-chat"}"#, "");
    assert_eq!(of(sound), ("event", vec![]));
    assert_eq!(of(&format!("{sound}\n{second}\n")), ("events", vec![]));
    assert_eq!(of(&format!("{sound}\r\n\r\n{second}")), ("events", vec![]));
    assert_eq!(of(&format!("[{sound},{second}]")), ("events", vec![]));
    // A log is checked as one: a gap is told with its place.
    let gap = second.replace("e2", "e3").replace("\"sequence\":2", "\"sequence\":3");
    for text in [format!("{sound}\n{gap}\n"), format!("[{sound},{gap}]")] {
        let (record, found) = of(&text);
        assert_eq!(
            (record, found[0].0, found[0].1.as_str()),
            ("events", "invalid-request.validation", "/1/sequence"),
            "{found:?}"
        );
    }
    // What is wrong with a line is told at the line, and a torn end is one of them.
    assert_eq!(
        of(&format!("{sound}\n{}\n{{\"kind\"", second.replace("op.e2", ""))),
        (
            "events",
            vec![
                ("invalid-request.invalid-value", "/1/eventId".to_owned()),
                ("invalid-request.json", "/2".to_owned())
            ]
        )
    );
    assert_eq!(of("[]"), ("items", vec![]));
    assert_eq!(of(" \n "), ("unknown", vec![("invalid-request.json", String::new())]));
    assert_eq!(of("{}\n{}"), ("unknown", vec![("invalid-request.json", String::new())]));
    assert_eq!(of("\"text\""), ("unknown", vec![("invalid-request.wrong-type", String::new())]));
    for sample in samples() {
        let name = sample.name.split(' ').next().unwrap();
        if ["request", "result", "event", "operation", "export", "item", "checkpoint"].contains(&name) {
            let (record, found) = of(&sample.value.to_string());
            // Samples have every member, whether or not they go together; their structure is sound.
            assert!(
                record == name && found.iter().all(|(code, _)| *code == "invalid-request.validation"),
                "{}: {found:?}",
                sample.name
            );
        }
    }
}
