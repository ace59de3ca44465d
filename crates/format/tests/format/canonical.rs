//! Canonical form, fingerprint and content fingerprint.

use crate::round_trip::{all_records, samples};
use crate::support::log::text;
use crate::support::parts::{items, media};
use crate::support::{MAP_KEY, OPAQUE, is_opaque, parse, pointers, records};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use throughline_format::canonical::{CONTENT_SKIPS, to_bytes};
use throughline_format::json::{UserMap, decode_str};
use throughline_format::media::InlineSource;
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::part::{TextPart, UnifiedTokenLogprob};
use throughline_format::{
    PartBody, Sha256, UnifiedContentPart, UnifiedCounter, UnifiedId, UnifiedItem, UnifiedProtocolProfile, UnifiedRequestV2,
    UnifiedResultV2, UnifiedUsage, content_fingerprint, fingerprint,
};

fn canonical<T: Serialize>(record: &T) -> String {
    String::from_utf8(to_bytes(record).unwrap()).unwrap()
}

fn by_oracle<T: Serialize>(record: &T) -> String {
    String::from_utf8(serde_json_canonicalizer::to_vec(record).unwrap()).unwrap()
}

/// Figures of every size that a record may hold: whole ones within 2^53-1, others at will.
fn figure() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |n| n.is_finite()),
        (-9_007_199_254_740_991..=9_007_199_254_740_991_i64).prop_map(|n| n as f64),
        prop_oneof![Just(-0.0), Just(1e21), Just(1e-7), Just(5e-324), Just(0.1), Just(f64::MAX)],
    ]
}

fn part() -> impl Strategy<Value = UnifiedContentPart> {
    (
        text(),
        proptest::option::of(text()),
        proptest::option::of(proptest::collection::vec((text(), figure()), 0..3)),
    )
        .prop_map(|(text, language, logprobs)| {
            let logprobs = logprobs.map(|list| {
                list.into_iter()
                    .map(|(token, logprob)| UnifiedTokenLogprob {
                        token,
                        bytes: Some(vec![0, 255]),
                        logprob,
                        top: None,
                    })
                    .collect()
            });
            UnifiedContentPart::new(
                UnifiedId::parse("p").unwrap(),
                PartBody::Text(TextPart {
                    text,
                    language,
                    style: None,
                    annotations: None,
                    logprobs,
                }),
            )
        })
}

proptest! {
    #[test]
    fn records_without_opaque_json_are_written_as_rfc_8785_writes_them(
        labels in proptest::collection::btree_map(text(), text(), 0..6),
        figures in proptest::collection::btree_map(text(), figure(), 0..4),
        part in part(),
    ) {
        throughline_format::clause!("VAL-02");
        let metadata = UnifiedSemanticMetadata { labels: Some(UserMap(labels)), end_user_ref: None };
        prop_assert_eq!(canonical(&metadata), by_oracle(&metadata));
        let usage = UnifiedUsage { server_tool_calls: Some(figures.into_iter().map(|(k, n)| (k, UnifiedCounter::reported(n))).collect()), ..UnifiedUsage::default() };
        prop_assert_eq!(canonical(&usage), by_oracle(&usage));
        prop_assert_eq!(canonical(&part), by_oracle(&part));
    }

    #[test]
    fn the_canonical_form_decodes_to_the_same_record(part in part()) {
        let text = canonical(&part);
        let again: UnifiedContentPart = decode_str(&text).unwrap();
        prop_assert_eq!(canonical(&again), text);
    }

    #[test]
    fn inline_data_and_its_artifact_have_one_fingerprint(bytes in proptest::collection::vec(any::<u8>(), 0..64), word in "[a-z]{1,8}/[a-z}\"~,]{1,8}", filled in any::<bool>()) {
        let data = throughline_format::media::encode_base64(&bytes);
        let inline = json!({"kind": "inline", "mediaType": word, "data": data, "encoding": "base64"});
        let mut stored_media = if filled { media() } else { json!({}) };
        let mut inline_part = json!({"partId": "p", "kind": "file", "source": inline});
        if filled {
            stored_media.as_object_mut().unwrap().shift_remove("mediaType");
            inline_part["media"] = stored_media.clone();
        }
        stored_media["mediaType"] = json!(word);
        let artifact = json!({"kind": "artifact", "artifactId": "a1", "sha256": Sha256::of(&bytes).to_hex()});
        let stored = json!({"partId": "p", "kind": "file", "source": artifact, "media": stored_media});
        let (inline, stored): (UnifiedContentPart, UnifiedContentPart) = (parse(&inline_part), parse(&stored));
        prop_assert_eq!(canonical(&inline), canonical(&stored));
        prop_assert_eq!(content_fingerprint(&inline).unwrap(), content_fingerprint(&stored).unwrap());
    }
}

#[test]
fn samples_without_opaque_json_are_written_as_rfc_8785_writes_them() {
    let mut compared = 0;
    for sample in samples() {
        let text = sample.value.to_string();
        if text.contains(OPAQUE) || text.contains("\"inline\"") || text.contains("\"artifact\"") {
            continue;
        }
        let written = (sample.decode)(&text).unwrap();
        // The record itself and the value of its JSON have one form.
        assert_eq!(canonical(&written), by_oracle(&written), "{}", sample.name);
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
    let usage: UnifiedUsage = parse(&records::usage());
    assert_eq!(canonical(&usage), by_oracle(&usage));
    let operation: throughline_format::UnifiedOperation = parse(&records::operation());
    assert_eq!(canonical(&operation), by_oracle(&operation));
}

#[test]
fn one_content_in_three_encodings_has_one_form() {
    let of = |data: &str, encoding: &str| {
        let source = json!({"kind": "inline", "mediaType": "text/plain", "data": data, "encoding": encoding});
        canonical(&parse::<UnifiedContentPart>(
            &json!({"partId": "p", "kind": "file", "source": source}),
        ))
    };
    assert_eq!(of("hi?>", "utf8"), of("aGk/Pg==", "base64"));
    assert_eq!(of("aGk/Pg", "base64"), of("aGk_Pg==", "bytes"));
    assert_ne!(of("hi?>", "utf8"), of("hi?", "utf8"));
    // Text that is no base64 counts as text.
    assert_eq!(of("no base64!", "base64"), of("no base64!", "utf8"));
    // Standing alone, inline data is what its artifact is.
    let source: throughline_format::media::UnifiedDataSource =
        parse(&json!({"kind": "inline", "mediaType": "a/b", "data": "hi", "encoding": "utf8"}));
    assert_eq!(
        canonical(&source),
        format!("{{\"kind\":\"content\",\"sha256\":\"{}\"}}", Sha256::of(b"hi"))
    );
}

#[test]
fn media_that_holds_large_figures_keeps_them() {
    let source = json!({"kind": "inline", "mediaType": "a/b", "data": "", "encoding": "utf8"});
    let part: UnifiedContentPart =
        parse(&json!({"partId": "p", "kind": "file", "source": source, "media": {"fps": 1e17, "durationSeconds": 1e300}}));
    assert!(
        canonical(&part).contains(r#""media":{"durationSeconds":1e+300,"fps":100000000000000000,"mediaType":"a/b"}"#),
        "{}",
        canonical(&part)
    );
}

#[test]
fn data_of_a_free_map_is_no_data_source() {
    let labels: UserMap<String> = [("kind", "inline"), ("data", "aGk="), ("encoding", "base64"), ("mediaType", "a/b")]
        .into_iter()
        .map(|(k, v)| (k.into(), v.into()))
        .collect();
    let metadata = UnifiedSemanticMetadata {
        labels: Some(labels),
        end_user_ref: None,
    };
    assert_eq!(canonical(&metadata), by_oracle(&metadata));
}

#[test]
fn the_order_of_keys_does_not_count_and_the_order_of_items_and_parts_does() {
    throughline_format::clause!("ITEM-05", "VAL-02");
    fn turned(value: &Value) -> Value {
        match value {
            Value::Object(members) if !is_opaque(value) => members.iter().rev().map(|(k, v)| (k.clone(), turned(v))).collect(),
            Value::Array(list) => list.iter().map(turned).collect(),
            other => other.clone(),
        }
    }
    let request: UnifiedRequestV2 = parse(&records::request());
    assert_eq!(
        fingerprint(&parse::<UnifiedRequestV2>(&turned(&records::request()))).unwrap(),
        fingerprint(&request).unwrap()
    );

    for at in 1..request.conversation.items.len() {
        let mut other = request.clone();
        other.conversation.items.swap(at - 1, at);
        assert_ne!(fingerprint(&other).unwrap(), fingerprint(&request).unwrap());
        assert_ne!(content_fingerprint(&other).unwrap(), content_fingerprint(&request).unwrap());
    }
    let message: UnifiedItem = parse(&items()[0]);
    for at in 1..message.parts().len() {
        let mut other = message.clone();
        other.parts_mut().unwrap().swap(at - 1, at);
        assert_ne!(fingerprint(&other).unwrap(), fingerprint(&message).unwrap());
        assert_ne!(content_fingerprint(&other).unwrap(), content_fingerprint(&message).unwrap());
    }
    let mut other = request.clone();
    other.tools.swap(0, 1);
    assert_ne!(fingerprint(&other).unwrap(), fingerprint(&request).unwrap());
}

#[test]
fn unknown_is_not_zero_and_empty_is_not_absent() {
    throughline_format::clause!("VAL-02");
    let unknown = UnifiedUsage::default();
    let zero = UnifiedUsage {
        cache_read: Some(UnifiedCounter::reported(0.0)),
        ..UnifiedUsage::default()
    };
    let empty = UnifiedUsage {
        cost: Some(Vec::new()),
        ..UnifiedUsage::default()
    };
    let prints: BTreeSet<Sha256> = [&unknown, &zero, &empty]
        .into_iter()
        .flat_map(|u| [fingerprint(u).unwrap()])
        .collect();
    assert_eq!(prints.len(), 3);
    assert_eq!(canonical(&unknown), "{}");
}

#[test]
fn the_revision_of_a_profile_counts() {
    throughline_format::clause!("VER-02");
    let of = |value: Value| fingerprint(&parse::<UnifiedProtocolProfile>(&value)).unwrap();
    let prints: BTreeSet<Sha256> = [
        of(json!({"family": "openai-chat"})),
        of(json!({"family": "openai-chat", "version": "v1"})),
        of(json!({"family": "openai-chat", "revision": "v1"})),
        of(json!({"family": "openai-chat", "version": "v1", "revision": "1"})),
        of(json!({"family": "acme:chat"})),
    ]
    .into();
    assert_eq!(prints.len(), 5);
}

#[test]
fn integers_that_others_cannot_keep_are_refused() {
    let mut item: UnifiedItem = parse(&items()[0]);
    item.sequence = 9_007_199_254_740_991;
    assert!(fingerprint(&item).is_ok());
    item.sequence += 1;
    assert!(
        fingerprint(&item).is_err() && content_fingerprint(&item).is_ok(),
        "the content does not hold the sequence"
    );
    for number in [i64::MIN, -9_007_199_254_740_992, 9_007_199_254_740_992] {
        assert!(to_bytes(&number).is_err(), "{number}");
    }
    assert_eq!(to_bytes(&-9_007_199_254_740_991_i64).unwrap(), b"-9007199254740991");
    assert!(to_bytes(&u64::MAX).is_err() && to_bytes(&f64::NAN).is_err() && to_bytes(&f64::INFINITY).is_err());
    // A 64-bit seed is text.
    let seed = throughline_format::intent::Seed::from_i64(i64::MAX);
    assert_eq!(canonical(&seed), "\"9223372036854775807\"");
}

/// Replaces every value of the members in `names`.
fn renamed(value: &mut Value, names: &[&str], in_map: bool) {
    match value {
        Value::Object(members) if !members.contains_key(OPAQUE) => {
            for (key, member) in members.iter_mut() {
                if names.contains(&key.as_str()) && !in_map {
                    match member {
                        Value::String(text) if key.ends_with("At") || key == "timestamp" || key == "deadline" => {
                            *text = "2030-05-05T05:05:05.005Z".into();
                        }
                        Value::String(text) => text.push_str("-x"),
                        Value::Number(_) => *member = json!(77),
                        Value::Array(list) if key.ends_with("Ids") || key == "checkpoints" || key == "invalidated" => {
                            list.push(json!("more"));
                        }
                        _ => {}
                    }
                }
                let map = member
                    .as_object()
                    .is_some_and(|m| !m.is_empty() && m.keys().all(|k| k.starts_with(MAP_KEY)));
                renamed(member, names, map);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|v| renamed(v, names, false)),
        _ => {}
    }
}

#[test]
fn the_content_fingerprint_leaves_out_ids_times_provenance_and_private_state() {
    for sample in [records::result(), items()[0].clone(), items()[2].clone()] {
        let mut other = sample.clone();
        renamed(&mut other, CONTENT_SKIPS, false);
        assert_ne!(other, sample);
        let print = |value: &Value| {
            if value.get("schemaVersion").is_some() {
                let record: UnifiedResultV2 = parse(value);
                (fingerprint(&record).unwrap(), content_fingerprint(&record).unwrap())
            } else {
                let record: UnifiedItem = parse(value);
                (fingerprint(&record).unwrap(), content_fingerprint(&record).unwrap())
            }
        };
        let (before, after) = (print(&sample), print(&other));
        assert_eq!(before.1, after.1, "content is the same");
        assert_ne!(before.0, after.0, "the record is not");
    }
    let item: UnifiedItem = parse(&items()[0]);
    let mut other = item.clone();
    other.provenance = throughline_format::UnifiedItemProvenance::of(throughline_format::provenance::ItemOrigin::Import);
    (other.cache, other.provider_data, other.parent_id) = (None, None, None);
    for part in other.parts_mut().unwrap() {
        part.provider_data = None;
        if let PartBody::Reasoning(reasoning) = &mut part.body {
            reasoning.private_state = None;
        }
    }
    assert_eq!(content_fingerprint(&other).unwrap(), content_fingerprint(&item).unwrap());
    // `source` of a request is provenance; `source` of a part is content.
    let request: UnifiedRequestV2 = parse(&records::request());
    let mut other = request.clone();
    other.source.client_family = None;
    assert_eq!(content_fingerprint(&other).unwrap(), content_fingerprint(&request).unwrap());
    assert_ne!(fingerprint(&other).unwrap(), fingerprint(&request).unwrap());
}

#[test]
fn the_content_fingerprint_sees_every_content() {
    // Every value that is not left out changes it.
    for sample in samples()
        .into_iter()
        .filter(|s| s.name.starts_with("item ") || s.name.starts_with("part "))
    {
        let before = content_of(&sample.value, &sample.name);
        for pointer in pointers(&sample.value) {
            let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
            let is_left_out = tokens.iter().any(|t| CONTENT_SKIPS.contains(t));
            let value = sample.value.pointer(&pointer).unwrap();
            let other = match value {
                Value::Bool(b) if !pointer.ends_with("/breakpoint") => json!(!b),
                Value::Number(n) if n.is_f64() => json!(0.0625),
                Value::Number(n) if pointer.ends_with("/bytes/0") => json!(n.as_u64().unwrap() + 1),
                Value::Number(_) => json!(78),
                Value::String(text)
                    if [
                        "text",
                        "name",
                        "title",
                        "uri",
                        "quotedText",
                        "rawArguments",
                        "code",
                        "stdout",
                        "url",
                    ]
                    .contains(&tokens[tokens.len() - 1]) =>
                {
                    json!(format!("{text}!"))
                }
                _ if is_opaque(value) => json!({OPAQUE: "other"}),
                _ => continue,
            };
            let mut changed = sample.value.clone();
            *changed.pointer_mut(&pointer).unwrap() = other;
            let after = content_of(&changed, &sample.name);
            assert_eq!(after == before, is_left_out, "{} at {pointer}", sample.name);
        }
    }
}

fn content_of(value: &Value, name: &str) -> Sha256 {
    if name.starts_with("part ") {
        content_fingerprint(&parse::<UnifiedContentPart>(value)).unwrap()
    } else {
        content_fingerprint(&parse::<UnifiedItem>(value)).unwrap()
    }
}

#[test]
fn keys_of_free_maps_named_like_left_out_members_stay() {
    let of = |key: &str, value: &str| {
        let labels = [(key.to_owned(), value.to_owned())].into_iter().collect();
        content_fingerprint(&UnifiedSemanticMetadata {
            labels: Some(labels),
            end_user_ref: None,
        })
        .unwrap()
    };
    for key in CONTENT_SKIPS {
        assert_ne!(of(key, "a"), of(key, "b"), "{key}");
        let counted = |n| {
            let calls = [((*key).to_owned(), UnifiedCounter::reported(n))].into_iter().collect();
            content_fingerprint(&UnifiedUsage {
                server_tool_calls: Some(calls),
                ..UnifiedUsage::default()
            })
            .unwrap()
        };
        assert_ne!(counted(1.0), counted(2.0), "{key}");
        let input = |value: &str| {
            let part: UnifiedContentPart = decode_str(&format!(r#"{{"partId":"p","kind":"json","value":{{"{key}":"{value}"}}}}"#)).unwrap();
            content_fingerprint(&part).unwrap()
        };
        assert_ne!(input("a"), input("b"), "{key} inside opaque JSON");
    }
}

#[test]
fn every_id_and_time_is_left_out_or_content_on_purpose() {
    let content = ["publishedAt", "retrievedAt", "principalRef", "endUserRef"];
    let mut known = BTreeSet::new();
    for (name, fields) in all_records() {
        for field in fields {
            if ["Id", "Ids", "At", "Ref"].iter().any(|end| field.ends_with(end)) {
                assert!(
                    CONTENT_SKIPS.contains(&field.as_str()) != content.contains(&field.as_str()),
                    "{field} of {name}"
                );
            }
            known.insert(field);
        }
    }
    for skipped in CONTENT_SKIPS {
        assert!(known.contains(*skipped), "no record has {skipped}");
    }
}

#[test]
fn inline_sources_say_what_bytes_they_are() {
    let source: InlineSource = parse(&json!({"mediaType": "a/b", "data": "aGVs\nbG8", "encoding": "base64"}));
    assert_eq!(source.bytes().unwrap(), b"hello");
}
