//! Strict decoding: what is refused, with which code, where.

use crate::round_trip::samples;
use crate::support::events::events;
use crate::support::parts::{annotations, items, parts, sources};
use crate::support::{MAP_KEY, is_map, is_opaque, json_of, parse, pointers, records, split};
use serde_json::{Value, json};
use throughline_format::json::decode::{DecodeCode, decode_unscanned};
use throughline_format::json::{DecodeError, decode_slice, decode_str};
use throughline_format::{
    UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedExportV2, UnifiedItem, UnifiedOperation, UnifiedRequestV2, UnifiedResultV2, UnifiedToolChoice,
};

/// The sample with the value at `pointer` replaced, or taken away for `None`.
fn changed(sample: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut out = sample.clone();
    if let Some(value) = value {
        *out.pointer_mut(pointer).unwrap() = value;
    } else {
        let (parent, token) = split(pointer);
        out.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(token).unwrap();
    }
    out
}

fn found(result: Result<Value, DecodeError>, context: &str) -> (DecodeCode, String) {
    let error = result.expect_err(context);
    assert!(!error.message.is_empty() && !error.message.contains(char::is_control), "{context}: {error:?}");
    (error.code, error.pointer)
}

#[test]
fn null_is_refused_everywhere_outside_opaque_json() {
    for sample in samples() {
        for pointer in sample.pointers() {
            let context = format!("{} with null at {pointer:?}", sample.name);
            let value = changed(&sample.value, &pointer, Some(Value::Null));
            let result = (sample.decode)(&value.to_string());
            if sample.value.pointer(&pointer).is_some_and(is_opaque) {
                assert_eq!(result.unwrap_or_else(|e| panic!("{context}: {e}")).pointer(&pointer), Some(&Value::Null), "{context}: null is a value of its own");
            } else {
                assert_eq!(found(result, &context), (DecodeCode::WrongType, pointer.clone()), "{context}");
            }
        }
    }
}

#[test]
fn absent_is_a_missing_field_or_a_state_of_its_own() {
    let (mut required, mut optional) = (0, 0);
    for sample in samples() {
        for pointer in sample.pointers() {
            let (parent, token) = split(&pointer);
            let holder = sample.value.pointer(parent).unwrap();
            if pointer.is_empty() || !holder.is_object() || is_map(holder) {
                continue;
            }
            let context = format!("{} without {pointer:?}", sample.name);
            let value = changed(&sample.value, &pointer, None);
            match (sample.decode)(&value.to_string()) {
                Ok(written) => {
                    assert_eq!(written, value, "{context}: absent stays absent");
                    optional += 1;
                }
                Err(error) => {
                    assert_eq!((error.code, error.pointer.as_str()), (DecodeCode::MissingField, parent), "{context}: {error:?}");
                    assert!(error.message.contains(&format!("`{token}`")), "{context}: {error:?}");
                    required += 1;
                }
            }
        }
    }
    assert!(required > 300 && optional > 300, "{required} {optional}");
}

#[test]
fn an_unknown_member_is_refused_in_every_record() {
    for sample in samples() {
        for pointer in sample.pointers() {
            let place = sample.value.pointer(&pointer).unwrap();
            if !place.is_object() || is_opaque(place) || is_map(place) {
                continue;
            }
            let context = format!("{} with an unknown member in {pointer:?}", sample.name);
            let mut value = sample.value.clone();
            value.pointer_mut(&pointer).unwrap()["zzz, expected nothing"] = json!("secret");
            let error = (sample.decode)(&value.to_string()).expect_err(&context);
            assert_eq!((error.code, error.pointer), (DecodeCode::UnknownField, format!("{pointer}/zzz, expected nothing")), "{context}");
            assert!(!error.message.contains("zzz") && !error.message.contains("secret"), "{context}: {}", error.message);
        }
    }
}

#[test]
fn another_json_type_is_refused_everywhere() {
    // Members that may be of more than one type.
    let either = ["/seed/value", "/ttl", "/approval", "/resolution"];
    for sample in samples() {
        for pointer in sample.pointers() {
            let value = sample.value.pointer(&pointer).unwrap();
            if is_opaque(value) || either.iter().any(|end| pointer.ends_with(end)) {
                continue;
            }
            let wrong = match value {
                Value::Object(_) => vec![json!([]), json!("text")],
                Value::Array(_) => vec![json!({})],
                Value::String(_) => vec![json!(1), json!({"a": 1})],
                Value::Number(_) => vec![json!("1"), json!(true)],
                Value::Bool(_) => vec![json!(0), json!("true")],
                Value::Null => vec![],
            };
            for wrong in wrong {
                let context = format!("{} with {wrong} at {pointer:?}", sample.name);
                let value = changed(&sample.value, &pointer, Some(wrong));
                assert_eq!(found((sample.decode)(&value.to_string()), &context), (DecodeCode::WrongType, pointer.clone()), "{context}");
            }
        }
    }
}

#[test]
fn absent_empty_and_zero_are_three_things() {
    let of = |members: Value| {
        let mut value = parts()[0].clone();
        for key in ["language", "style", "annotations", "logprobs", "providerData"] {
            value.as_object_mut().unwrap().shift_remove(key);
        }
        value.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let part: UnifiedContentPart = parse(&value);
        assert_eq!(json_of(&part), value);
        (throughline_format::fingerprint(&part).unwrap(), throughline_format::content_fingerprint(&part).unwrap())
    };
    let (absent, empty, filled) = (of(json!({})), of(json!({"logprobs": []})), of(json!({"logprobs": [{"token": "", "logprob": 0.0}]})));
    assert!(absent != empty && empty != filled && absent != filled);
    assert_ne!(of(json!({"language": ""})), absent);
}

#[test]
fn every_union_refuses_an_unknown_discriminator() {
    throughline_format::clause!("ITEM-02");
    // Words, not unions: a value outside the list is kept, or is no value of the list.
    let words = ["/caller/kind", "/contextManagement/value/0/kind", "/cost/0/kind"];
    let mut unions = 0;
    for sample in samples() {
        for pointer in pointers(&sample.value).into_iter().filter(|p| p.ends_with("/kind")) {
            if words.iter().any(|end| pointer.ends_with(end)) || sample.name == "tool" {
                continue;
            }
            let context = format!("{} with an unknown kind at {pointer:?}", sample.name);
            let value = changed(&sample.value, &pointer, Some(json!("zzz")));
            let error = (sample.decode)(&value.to_string()).expect_err(&context);
            assert_eq!((error.code, &error.pointer), (DecodeCode::UnknownDiscriminator, &pointer), "{context}");
            assert_eq!(error.code.as_str(), "invalid-request.unknown-discriminator");
            assert!(error.message.starts_with("unknown kind; known are: ") && !error.message.contains("zzz"), "{context}: {}", error.message);
            unions += 1;
        }
    }
    assert!(unions > 100, "{unions}");
}

#[test]
fn the_place_of_a_discriminator_is_told_from_the_root_on() {
    let at = |mut value: Value, pointer: &str, decode: fn(&str) -> Option<DecodeError>| {
        *value.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = json!("zzz");
        let error = decode(&value.to_string()).unwrap_or_else(|| panic!("{pointer} was taken"));
        assert_eq!((error.code, error.pointer.as_str()), (DecodeCode::UnknownDiscriminator, pointer));
    };
    let request = |text: &str| decode_str::<UnifiedRequestV2>(text).err();
    let result = |text: &str| decode_str::<UnifiedResultV2>(text).err();
    let event = |text: &str| decode_str::<UnifiedEventV2>(text).err();
    at(records::request(), "/conversation/items/3/kind", request);
    at(records::request(), "/conversation/items/0/parts/1/kind", request);
    at(records::request(), "/conversation/items/0/parts/0/annotations/2/kind", request);
    at(records::request(), "/conversation/items/0/parts/3/source/kind", request);
    at(records::request(), "/conversation/items/0/parts/11/parts/0/kind", request);
    at(records::request(), "/conversation/items/15/target/kind", request);
    at(records::request(), "/toolChoice/kind", request);
    at(records::request(), "/output/format/value/kind", request);
    at(records::result(), "/alternatives/0/output/0/parts/12/kind", result);
    at(events()[13].clone(), "/delta/kind", event);
    at(events()[13].clone(), "/delta/part/annotations/0/kind", event);
    at(events()[24].clone(), "/annotation/kind", event);
    at(events()[10].clone(), "/item/kind", event);
}

#[test]
fn the_discriminator_may_stand_anywhere() {
    for value in items() {
        let mut turned: Vec<(String, Value)> = value.as_object().unwrap().clone().into_iter().collect();
        turned.reverse();
        let turned = Value::Object(turned.into_iter().collect());
        assert_eq!(parse::<UnifiedItem>(&turned), parse::<UnifiedItem>(&value));
    }
}

#[test]
fn every_root_names_the_version_that_it_refuses() {
    throughline_format::clause!("VER-01");
    type Refusal = fn(&str) -> Option<DecodeError>;
    let roots: [(&str, Value, Refusal); 5] = [
        ("request", records::request(), |t| decode_str::<UnifiedRequestV2>(t).err()),
        ("result", records::result(), |t| decode_str::<UnifiedResultV2>(t).err()),
        ("event", events()[0].clone(), |t| decode_str::<UnifiedEventV2>(t).err()),
        ("operation", records::operation(), |t| decode_str::<UnifiedOperation>(t).err()),
        ("export", records::export(), |t| decode_str::<UnifiedExportV2>(t).err()),
    ];
    for (name, value, decode) in roots {
        assert_eq!(decode(&value.to_string()), None, "{name}");
        for version in ["1.0", "2.1", "3.0", "2", "2.0 ", ""] {
            let error = decode(&changed(&value, "/schemaVersion", Some(json!(version))).to_string()).unwrap();
            assert_eq!((error.code, error.pointer.as_str()), (DecodeCode::InvalidValue, "/schemaVersion"), "{name} {version:?}");
            if !version.contains(' ') {
                assert!(error.message.contains(&format!("schemaVersion {version} is not supported")), "{name}: {}", error.message);
            }
        }
        let hostile = decode(&changed(&value, "/schemaVersion", Some(json!("2.0\nBearer sk-1"))).to_string()).unwrap();
        assert!(!hostile.message.contains("Bearer"), "{}", hostile.message);
        let missing = decode(&changed(&value, "/schemaVersion", None).to_string()).unwrap();
        assert_eq!((missing.code, missing.pointer.as_str()), (DecodeCode::MissingField, ""), "{name}");
    }
    // A checkpoint has exactly the members of the specification.
    let members = ["checkpointId", "conversationId", "branchId", "journalHeadItemId", "owner", "resourceType", "encryptedPayload", "status", "createdAt", "expiresAt"];
    let known = crate::support::fields::fields_of::<throughline_format::UnifiedProviderCheckpoint>();
    assert_eq!(known, members.into_iter().map(str::to_owned).collect());
}

#[test]
fn text_that_is_no_json_is_told_apart() {
    for text in ["", "{", "{\"a\":}", "[1,]", "{} {}", "nul", "\"\\ud800\"", "{'a':1}"] {
        let error = decode_str::<UnifiedItem>(text).unwrap_err();
        assert_eq!((error.code, error.pointer.as_str()), (DecodeCode::Json, ""), "{text}: {error:?}");
    }
    assert_eq!(decode_slice::<UnifiedItem>(b"{\"id\":\"\xff\"}").unwrap_err().code, DecodeCode::Json);
}

#[test]
fn duplicate_keys_are_refused_also_inside_opaque_json() {
    let twice = |from: &str, to: &str| {
        let text = items()[2].to_string();
        assert!(text.contains(from), "{text}");
        let error = decode_str::<UnifiedItem>(&text.replacen(from, to, 1)).unwrap_err();
        (error.code, error.pointer)
    };
    assert_eq!(twice("\"id\":", "\"id\":\"x\",\"id\":"), (DecodeCode::DuplicateKey, "/id".into()));
    assert_eq!(twice("\"kind\":", "\"kind\":\"message\",\"kind\":"), (DecodeCode::DuplicateKey, "/kind".into()));
    assert_eq!(twice("\"kind\":", "\"k\\u0069nd\":\"message\",\"kind\":"), (DecodeCode::DuplicateKey, "/kind".into()));
    assert_eq!(twice("{\"opaque\":", "{\"opaque\":0,\"opaque\":"), (DecodeCode::DuplicateKey, "/input/opaque".into()));
    // What was not scanned is refused by the records themselves.
    let text = items()[2].to_string();
    for (from, to) in [("\"id\":", "\"id\":\"x\",\"id\":"), ("\"name\":", "\"name\":\"x\",\"name\":"), ("\"kind\":", "\"kind\":\"tool-call\",\"kind\":")] {
        assert!(decode_unscanned::<UnifiedItem>(text.replacen(from, to, 1).as_bytes()).is_err(), "{to}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        let mut value = items()[2].clone();
        value.as_object_mut().unwrap().shift_remove("input");
        value.to_string().replacen("\"rawArguments\"", &format!("\"input\":{}{},\"rawArguments\"", "[".repeat(levels), "]".repeat(levels)), 1)
    };
    assert!(decode_str::<UnifiedItem>(&nested(63)).is_ok());
    assert_eq!(decode_str::<UnifiedItem>(&nested(64)).unwrap_err().code, DecodeCode::TooDeep);
}

/// A part in a part in a part, `levels` deep, with a mistake in the innermost.
fn part_tower(levels: usize, innermost: &str) -> String {
    let floor = r#"{"partId":"p","kind":"grounding-source","source":{"sourceId":"s","type":"web"},"parts":["#;
    format!(r#"{}{{"partId":"p","kind":"text","text":{innermost}}}{}"#, floor.repeat(levels), "]}".repeat(levels))
}

#[test]
fn a_mistake_deep_inside_costs_no_more_than_one_on_top() {
    // Each level decodes raw text of its own; two tries a level would be 2^30 here.
    let error = decode_str::<UnifiedContentPart>(&part_tower(30, "1")).unwrap_err();
    assert_eq!((error.code, error.pointer), (DecodeCode::WrongType, format!("{}/text", "/parts/0".repeat(30))));
    let direct = serde_json::from_str::<UnifiedContentPart>(&part_tower(30, "1"));
    assert!(direct.is_err());
    // Text that nobody scanned must not take the stack with it.
    let error = decode_unscanned::<UnifiedContentPart>(part_tower(20_000, "\"\"").as_bytes()).unwrap_err();
    assert_eq!(error.code, DecodeCode::TooDeep);
    assert!(serde_json::from_str::<UnifiedContentPart>(&part_tower(20_000, "\"\"")).is_err());
}

#[test]
fn keys_of_free_maps_are_told_as_they_are() {
    let mut value = records::request();
    for key in ["a/b~c", "with \u{1f} mark", " at line 1 column 2"] {
        value["metadata"]["labels"] = json!({key: 1});
        let error = decode_str::<UnifiedRequestV2>(&value.to_string()).unwrap_err();
        let token = key.replace('~', "~0").replace('/', "~1");
        assert_eq!((error.code, error.pointer), (DecodeCode::WrongType, format!("/metadata/labels/{token}")));
        assert_eq!(error.message, "expected a string");
    }
    assert!(MAP_KEY.starts_with("map"));
}

#[test]
fn values_outside_their_range_are_told_apart_from_wrong_types() {
    let refused = |pointer: &str, value: Value| {
        let error = decode_str::<UnifiedResultV2>(&changed(&records::result(), pointer, Some(value)).to_string()).unwrap_err();
        assert_eq!((error.code, error.pointer.as_str()), (DecodeCode::InvalidValue, pointer), "{error:?}");
    };
    refused("/responseId", json!("with space"));
    refused("/responseId", json!(""));
    refused("/output/0/createdAt", json!("yesterday"));
    refused("/output/0/sequence", json!(-1));
    refused("/output/0/role", json!("robot"));
    refused("/output/14/sha256", json!("abc"));
    refused("/status/finishReason", json!("length "));
    refused("/output/0/parts/3/media/resolution", json!("huge"));
    let choice = json!({"requirement": "sometimes", "kind": "auto"});
    assert_eq!(decode_str::<UnifiedToolChoice>(&choice.to_string()).unwrap_err().code, DecodeCode::InvalidValue);
}

#[test]
fn a_decode_error_becomes_an_error_of_every_surface() {
    let error = UnifiedError::from(decode_str::<UnifiedItem>(&changed(&items()[0], "/kind", Some(json!("zzz"))).to_string()).unwrap_err());
    assert_eq!((error.code.as_str(), error.field_path.as_deref(), error.retryable), ("invalid-request.unknown-discriminator", Some("/kind"), false));
}

#[test]
fn open_words_keep_what_they_do_not_know() {
    let value = json!({"family": "acme:chat", "version": "", "revision": "r9"});
    let profile: throughline_format::UnifiedProtocolProfile = parse(&value);
    assert_eq!(json_of(&profile), value);
    for family in throughline_format::ProtocolFamily::WORDS {
        let profile: throughline_format::UnifiedProtocolProfile = parse(&json!({"family": family}));
        assert!(!matches!(profile.family, throughline_format::ProtocolFamily::Other(_)), "{family}");
    }
    assert!(sources().len() == 4 && annotations().as_array().unwrap().len() == 3);
}
