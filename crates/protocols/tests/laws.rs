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
    let histories = body
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "tools" && *name != "system");
    for message in histories.filter_map(|(_, v)| v.as_array()).flatten().filter_map(Value::as_object) {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        for (name, value) in message.iter().filter(|(name, _)| *name != "role" && *name != "cache_control") {
            match value {
                Value::Array(parts) => found.extend(parts.iter().map(|part| format!("{role} {name} {}", unmarked(part)))),
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
    for (family, codec) in codecs() {
        for source in [family.clone(), ProtocolFamily::CursorSdk] {
            let steps = steps(&source);
            let kinds: std::collections::BTreeSet<&str> = steps.iter().flatten().map(|i| i["kind"].as_str().unwrap()).collect();
            assert_eq!(kinds.len(), UnifiedItemBody::KINDS.len(), "every kind of item is in the history");
            let encode = |number: usize| {
                let history: Vec<Value> = steps[..number].concat();
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
                let at = before.iter().zip(&after).position(|(a, b)| a != b).unwrap_or(before.len());
                assert!(
                    kept,
                    "{family} with history of {source} ({} of {} blocks): after {} the encoding changes at block {at}: {:?} became {:?}",
                    after.len(),
                    before.len(),
                    steps[number - 1][0]["kind"],
                    before.get(at),
                    after.get(at)
                );
                before = after;
            }
            assert!(before.len() > 6, "{family}: the history is hardly there: {before:?}");
        }
    }
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
    let (one, other) = (serde_json::to_value(&one).unwrap(), serde_json::to_value(&other).unwrap());
    Some(first_difference("", &one, &other).unwrap_or_else(|| "only in what a fingerprint sees".to_owned()))
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
    for (family, codec) in codecs() {
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let body = codec.encode_response(&result(family), &context).unwrap().body;
        let fold = fold_response(codec.as_ref(), body.as_bytes());
        let again = restreamed(codec.as_ref(), &fold);
        assert_eq!(difference(&fold, &again), None, "{family}: {body}");
        let kinds = |fold: &OfflineFold| fold.fold.items().iter().map(|i| i.body.kind()).collect::<Vec<_>>();
        assert_eq!(kinds(&fold), ["message", "tool-call", "tool-call"], "{family}");
    }
}

/// Captured answers whose stream says something else, and what. One that is put right fails here until its row goes.
const DIFFER: [(&str, &str); 6] = [
    ("fantasy-openroutercommon-grok-tool-c1.json", FORM),
    ("fantasy-openroutercommon-grok-tool-c2.json", FORM),
    ("fantasy-vercelthinking-gpt-5-thinking-c1.json", FORM),
    ("fantasy-vercelthinking-gpt-5-thinking-c2.json", FORM),
    ("pai-openrouter-preserve-reasoning-block-c2.json", FORM),
    // The server gave no word for the ending, and a stream has to.
    (
        "pai-snowflake-tool-calling-c1.json",
        "/status/originalReason: null became \"tool_calls\"",
    ),
];
/// A summary of reasoning streams as if it were the reasoning.
const FORM: &str = "/output/0/parts/0/form: \"summary\" became \"full\"";

#[test]
fn every_captured_answer_and_a_stream_of_it_fold_alike() {
    let mut differ = Vec::new();
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
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let known = DIFFER.iter().find(|(known, _)| *known == name).map(|(_, what)| (*what).to_owned());
            if difference != known {
                differ.push(format!("{name}: {difference:?}, expected {known:?}"));
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
