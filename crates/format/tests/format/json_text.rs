//! Opaque JSON is kept byte for byte, and the JSON library is built as this crate needs it.

use crate::support::parts::items;
use crate::support::{parse, records};
use throughline_format::json::{decode_slice, decode_str};
use throughline_format::{
    EventBody, Json, PartBody, UnifiedContentPart, UnifiedEventV2, UnifiedItem, UnifiedItemBody, UnifiedRequestV2, fingerprint,
};

/// Spellings that a parser would change.
const SPELLINGS: &[&str] = &[
    "null",
    "1.0",
    "1",
    "1e5",
    "1E+5",
    "-0",
    "-0.0",
    "123456789012345678901234567890",
    "18446744073709551616",
    "0.1000000000000000055511151231257827",
    "{ \"b\" : 1.0 ,\n\t\"a\":[1 ,2] }",
    "{\"z\":1,\"a\":{\"y\":2,\"b\":3}}",
    "\"\\u0041\\/\\ud834\\udd1e\"",
    "[]",
    "{\"\":\"\"}",
    "{\"kind\":\"zzz\",\"itemId\":null}",
];

#[test]
fn every_place_keeps_the_text() {
    for spelling in SPELLINGS {
        let text = format!(r#"{{"value":{spelling},"kind":"json","partId":"p"}}"#);
        let part: UnifiedContentPart = decode_str(&text).unwrap();
        let PartBody::Json(json) = &part.body else { panic!("{part:?}") };
        assert_eq!(json.value.as_str(), *spelling);
        let written = serde_json::to_string(&part).unwrap();
        assert!(written.contains(spelling), "{written}");
        assert_eq!(decode_str::<UnifiedContentPart>(&written).unwrap(), part);
        let canonical = String::from_utf8(throughline_format::canonical::to_bytes(&part).unwrap()).unwrap();
        assert_eq!(canonical, format!(r#"{{"kind":"json","partId":"p","value":{spelling}}}"#));
    }
}

#[test]
fn text_survives_in_items_in_events_in_requests() {
    for spelling in SPELLINGS {
        let item = items()[2].to_string().replacen("{\"opaque\":100000.0}", spelling, 1);
        assert!(item.contains(&format!("\"input\":{spelling}")), "{item}");
        let event = format!(
            r#"{{"schemaVersion":"2.0","kind":"item.completed","operationId":"op","eventId":"e","sequence":1,"timestamp":"2026-01-31T12:00:00.123Z","status":"completed","item":{item}}}"#
        );
        let event: UnifiedEventV2 = decode_str(&event).unwrap();
        let EventBody::ItemCompleted(done) = &event.body else { panic!() };
        let UnifiedItemBody::ToolCall(call) = &done.item.as_ref().unwrap().body else {
            panic!()
        };
        assert_eq!(call.input.as_ref().unwrap().as_str(), *spelling);
        let again: UnifiedEventV2 = decode_slice(&serde_json::to_vec(&event).unwrap()).unwrap();
        assert_eq!(again, event);
    }
    let schema = "{\"type\":\"object\", \"properties\":{\"z\":{},\"a\":{}}}";
    let mut request: UnifiedRequestV2 = parse(&records::request());
    request.tools[0].input_schema = Some(Json::from_text(schema.to_owned()).unwrap());
    let again: UnifiedRequestV2 = decode_slice(&serde_json::to_vec(&request).unwrap()).unwrap();
    assert_eq!(again.tools[0].input_schema.as_ref().unwrap().as_str(), schema);
}

#[test]
fn another_spelling_is_another_value() {
    let of = |spelling: &str| {
        let part: UnifiedContentPart = decode_str(&format!(r#"{{"value":{spelling},"kind":"json","partId":"p"}}"#)).unwrap();
        fingerprint(&part).unwrap()
    };
    assert_ne!(of("1"), of("1.0"));
    assert_ne!(of("{\"a\":1,\"b\":2}"), of("{\"b\":2,\"a\":1}"));
    assert_ne!(of("{\"a\":1}"), of("{\"a\": 1}"));
    assert_ne!(of("9007199254740993"), of("9007199254740992"));
}

#[test]
fn text_that_is_no_single_value_is_refused() {
    for text in ["", "{", "1 2", "nope", "{\"a\":}"] {
        assert!(Json::from_text(text.to_owned()).is_err(), "{text}");
    }
    assert_eq!(Json::from_text("  {\"a\": 1}\n".to_owned()).unwrap().as_str(), "{\"a\": 1}");
    assert_eq!(
        Json::from_value(&serde_json::json!({"b": 1.0, "a": []})).as_str(),
        "{\"b\":1.0,\"a\":[]}"
    );
    assert!(Json::from_text("{}".into()).unwrap().is_object() && !Json::null().is_object());
}

#[test]
fn numbers_of_the_json_library_are_numbers() {
    // With serde_json's feature `arbitrary_precision`, which any dependency could switch on for everybody, a buffered
    // number is a map, and this decode fails.
    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(tag = "type", rename_all = "lowercase")]
    enum Tagged {
        A { x: f64 },
    }
    assert_eq!(
        serde_json::from_str::<Tagged>(r#"{"type":"a","x":1.5}"#).unwrap(),
        Tagged::A { x: 1.5 }
    );
    // `preserve_order` and `float_roundtrip` are on.
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(r#"{"b":1,"a":2}"#).unwrap().to_string(),
        r#"{"b":1,"a":2}"#
    );
    assert_eq!(
        serde_json::from_str::<f64>("0.3999999999999999667").unwrap().to_bits(),
        0.399_999_999_999_999_97_f64.to_bits()
    );
}

#[test]
fn an_item_is_the_same_after_many_trips() {
    for value in items() {
        let mut item: UnifiedItem = parse(&value);
        let first = item.clone();
        for _ in 0..3 {
            item = decode_slice(&serde_json::to_vec(&item).unwrap()).unwrap();
        }
        assert_eq!(item, first);
    }
}
