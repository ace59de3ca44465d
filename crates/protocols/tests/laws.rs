//! Laws that hold of every codec of the registry, new ones included.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::samples::{codecs, item, items, request, result, with};
use support::{Everything, corpus, files, fold_response, fold_stream, result_of, sse};
use throughline_format::content_fingerprint;
use throughline_format::{ProtocolFamily, UnifiedItemBody, UnifiedRequestV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, EncodeContext};

// ---- Encoding is prefix-stable ------------------------------------------------------------------------------------

/// What the last message of each request says.
const END: &str = "And now?";

/// A history with every kind of item, in steps after which nothing is open: a call goes with its result.
fn steps(family: &ProtocolFamily) -> Vec<Vec<Value>> {
    let mut steps: Vec<Vec<Value>> = vec![Vec::new()];
    let mut open = false;
    let mut samples: Vec<(usize, (&str, Value))> = items().into_iter().enumerate().collect();
    // Where top-level instructions stand is no place in the history, so they stand first.
    samples.sort_by_key(|(_, (_, body))| body["placement"] != "instructions");
    for round in 0..2 {
        for (number, (role, body)) in samples.clone() {
            let kind = body["kind"].as_str().unwrap().to_owned();
            // Only the newest run of them is sent.
            if round > 0 && body["placement"] == "instructions" {
                continue;
            }
            let mut body = with(&body, &json!({}));
            // A summary that stands for others begins the history anew; that is its purpose.
            if kind == "compaction-summary" {
                body["replaces"] = json!(false);
            }
            for id in ["callId", "approvalId"] {
                if body.get(id).is_some() {
                    let group = if kind.starts_with("approval") { "a" } else { call_group(&kind) };
                    body[id] = json!(format!("{group}_{round}"));
                }
            }
            if !open {
                steps.push(Vec::new());
            }
            open = opens(&kind);
            steps.last_mut().unwrap().push(item(family, round * 100 + number, role, &body));
        }
    }
    steps.retain(|s| !s.is_empty());
    steps
}

/// Calls and their results share an ID.
fn call_group(kind: &str) -> &str {
    ["server-tool", "tool", "computer-action", "code-execution"]
        .into_iter()
        .find(|group| kind.starts_with(group))
        .unwrap_or("found")
}

fn opens(kind: &str) -> bool {
    matches!(
        kind,
        "tool-call" | "server-tool-call" | "computer-action" | "code-execution" | "approval-request"
    )
}

/// The history of a body as blocks: every part of every message with its role, without cache marks. Codecs that say
/// messages and items in other words are read alike: an array of objects at the top is a history.
fn blocks(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    // A wrapped protocol has its history one level further in.
    let body = body.get("request").filter(|inner| inner.is_object()).unwrap_or(body);
    let histories = body
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "tools" && *name != "system");
    for message in histories.filter_map(|(_, v)| v.as_array()).flatten().filter_map(Value::as_object) {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let is_last = message.values().any(|value| value.to_string().contains(END));
        for (name, value) in message.iter().filter(|(name, _)| *name != "role" && *name != "cache_control") {
            match value {
                // Of the last message only what was joined in front of the last words is history.
                Value::Array(parts) => found.extend(
                    parts
                        .iter()
                        .take_while(|part| !part.to_string().contains(END))
                        .map(|part| format!("{role} {name} {}", unmarked(part))),
                ),
                _ if is_last => {}
                // A text alone and a list with this text are two spellings.
                Value::String(text) if name == "content" => found.push(format!("{role} content {}", json!({"type": "text", "text": text}))),
                other => found.push(format!("{role} {name} {other}")),
            }
        }
    }
    found
}

fn unmarked(part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(members) = part.as_object_mut() {
        members.remove("cache_control");
    }
    part
}

#[test]
fn encoding_a_history_begins_with_the_encoding_of_every_beginning_of_it() {
    let mut wrong = Vec::new();
    for (family, codec) in codecs() {
        for source in [family.clone(), ProtocolFamily::CursorSdk] {
            let steps = steps(&source);
            let kinds: std::collections::BTreeSet<&str> = steps.iter().flatten().map(|i| i["kind"].as_str().unwrap()).collect();
            assert_eq!(kinds.len(), UnifiedItemBody::KINDS.len(), "every kind of item is in the history");
            let encode = |number: usize| {
                // Every request ends with what somebody wants; what stands before it is the history.
                let mut history: Vec<Value> = steps[..number].concat();
                history.push(item(
                    &source,
                    900,
                    "user",
                    &json!({"kind": "message", "parts": [{"partId": "op.i900.p0", "kind": "text", "text": END}]}),
                ));
                let request: UnifiedRequestV2 = request(&source, &history, &[]);
                let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
                let encoded = codec.encode_request(&request, &context).unwrap();
                blocks(&serde_json::from_str(&encoded.body).unwrap())
            };
            // Without a user's word a body may need a stand-in for one.
            let mut before = encode(2);
            for number in 3..=steps.len() {
                let after = encode(number);
                let kept = after.len() >= before.len() && after[..before.len()] == before[..];
                let at = before.iter().zip(&after).position(|(a, b)| a != b).unwrap_or(after.len());
                if !kept {
                    wrong.push(format!(
                        "{family} with history of {source}: after {} the encoding changes at block {at}: {:?} became {:?}",
                        steps[number - 1][0]["kind"],
                        before.get(at),
                        after.get(at)
                    ));
                }
                before = after;
            }
            // A wire of one prompt has no history to keep.
            if before.len() < 7 && *family != ProtocolFamily::CursorSdk {
                wrong.push(format!(
                    "{family} with history of {source}: the history is hardly there: {before:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// ---- A response is what a stream of it says ---------------------------------------------------------------------

/// The same answer through the codec's own stream.
fn restreamed(codec: &dyn Codec, fold: &OfflineFold) -> OfflineFold {
    let context = EncodeContext {
        private: Arc::new(Everything::of(&fold.resources)),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    let mut encoder = codec.stream_encoder(&context);
    let frames: Vec<_> = fold.events.iter().flat_map(|event| encoder.push(event)).collect();
    fold_stream(codec, sse(&frames).as_bytes(), usize::MAX)
}

fn difference(fold: &OfflineFold, again: &OfflineFold) -> Option<String> {
    let (mut one, mut other) = (result_of(fold), result_of(again));
    // What a decode lost is told of its wire, and this is another wire.
    (one.loss, other.loss) = (None, None);
    if content_fingerprint(&one).unwrap() == content_fingerprint(&other).unwrap() {
        return None;
    }
    let (mut one, mut other) = (serde_json::to_value(&one).unwrap(), serde_json::to_value(&other).unwrap());
    if one["status"]["originalReason"].is_null() || other["status"]["originalReason"].is_null() {
        // Some bodies have no word for their ending where the stream needs one.
        one["status"]["originalReason"] = Value::Null;
        other["status"]["originalReason"] = Value::Null;
    }
    on_one_line(&mut one);
    on_one_line(&mut other);
    first_difference("", &one, &other)
}

/// Arguments that are JSON, as a frame of one line has to write them.
fn on_one_line(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("rawArguments")
                && let Ok(parsed) = serde_json::from_str::<Value>(text)
            {
                *text = parsed.to_string();
            }
            // An absent member and one that is null are two spellings.
            members.retain(|_, inner| !inner.is_null());
            members.values_mut().for_each(on_one_line);
        }
        Value::Array(elements) => elements.iter_mut().for_each(on_one_line),
        _ => {}
    }
}

fn first_difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let null = Value::Null;
            let get = |map: &serde_json::Map<String, Value>, key: &String| map.get(key).unwrap_or(&null).clone();
            keys.into_iter()
                .find_map(|key| first_difference(&format!("{path}/{key}"), &get(a, key), &get(b, key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            (0..a.len()).find_map(|i| first_difference(&format!("{path}/{i}"), &a[i], &b[i]))
        }
        (a, b) if a == b => None,
        (a, b) => Some(format!("{path}: {a:.200} became {b:.200}")),
    }
}

#[test]
fn an_answer_and_a_stream_of_it_fold_alike() {
    let mut wrong = Vec::new();
    for (family, codec) in codecs() {
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let body = codec.encode_response(&result(family), &context).unwrap().body;
        let fold = fold_response(codec.as_ref(), body.as_bytes());
        // Its stream has no place for the model.
        let known = (*family == ProtocolFamily::CursorSdk).then_some("/model/model: \"m\" became \"unspecified\"");
        let found = difference(&fold, &restreamed(codec.as_ref(), &fold));
        if found.as_deref() != known {
            wrong.push(format!("{family}: {found:?} in {body}"));
        }
        let kinds: Vec<_> = fold.fold.items().iter().map(|i| i.body.kind()).collect();
        // A wire of one text has no calls.
        if kinds != ["message", "tool-call", "tool-call"] && *family != ProtocolFamily::CursorSdk {
            wrong.push(format!("{family}: {kinds:?} in {body}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Captured answers whose stream says something else, by family and file, with the place where it begins. The list only
/// shrinks: an answer that is put right fails here until its row goes.
fn known() -> std::collections::BTreeMap<(String, String), String> {
    let table = include_str!("../../../conformance/answer-streams-open.tsv");
    let rows = table.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).skip(1);
    rows.map(|row| match row.split('\t').collect::<Vec<_>>()[..] {
        [family, file, place] => ((family.to_owned(), file.to_owned()), place.to_owned()),
        _ => panic!("a row is family, file, place: {row}"),
    })
    .collect()
}

#[test]
fn every_captured_answer_and_a_stream_of_it_fold_alike() {
    let (mut differ, mut known) = (Vec::new(), known());
    for (family, codec) in codecs() {
        let Some(folder) = corpus(&format!("wire/{family}/responses")) else {
            return;
        };
        let mut tried = 0;
        for file in files(&folder, ".json") {
            let body = std::fs::read(&file).unwrap();
            let context = throughline_protocols::DecodeContext::offline();
            let Ok(batch) = codec.decode_response(&body, &context) else {
                continue; // not an answer, such as an error page
            };
            let mut fold = OfflineFold::new();
            fold.push(batch).unwrap();
            // How a stream fails is another form than how a body does.
            if fold.fold.result().error.is_some() {
                continue;
            }
            tried += 1;
            let difference = difference(&fold, &restreamed(codec.as_ref(), &fold));
            let key = (family.to_string(), file.file_name().unwrap().to_string_lossy().into_owned());
            let (found, listed) = (difference, known.remove(&key));
            let place = found.as_deref().map(|d| d.split(": ").next().unwrap_or(d));
            if place != listed.as_deref() {
                differ.push(format!(
                    "{}\t{}\t{}\tlisted: {listed:?}",
                    key.0,
                    key.1,
                    found.as_deref().unwrap_or("agrees")
                ));
            }
        }
        assert!(tried > 0, "{family}: nothing of the corpus is an answer");
    }
    assert!(
        differ.is_empty(),
        "{} answers and their streams:\n{}",
        differ.len(),
        differ.join("\n")
    );
}
