//! Whatever is done to a valid body or stream of any codec of the registry: an error with a place, or a result. Never a panic,
//! and never long. What must hold is what the fuzz targets ask for as well; here it is tried with every run of the tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../../../fuzz/src/bodies.rs"]
#[allow(unreachable_pub)]
mod bodies;
mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::samples::{codecs, item, items, request, result};
use throughline_format::{UnifiedEventV2, UnifiedRequestV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, WireFrame};

/// Inputs per test, unless `THROUGHLINE_TEST_INPUTS` says another number.
const INPUTS: u32 = 96;

fn inputs() -> u32 {
    std::env::var("THROUGHLINE_TEST_INPUTS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(INPUTS)
}

/// Most time for one input, in a debug build on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

/// One thing done to a JSON value; the number says where.
#[derive(Clone, Debug)]
enum Fault {
    Drop(usize),
    Duplicate(usize),
    Replace(usize, Value),
    Nest(usize, u8),
    Swap(usize, usize),
}

fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!(1e300)),
        Just(json!("")),
        Just(json!("\u{0}\u{7f}\u{fffd}é🧭\r\n")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{"type": "text", "text": 1}])),
        Just(json!({"type": "unheard-of", "id": null})),
        "[a-z_]{1,12}".prop_map(Value::from),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let at = any::<usize>;
    prop_oneof![
        at().prop_map(Fault::Drop),
        at().prop_map(Fault::Duplicate),
        (at(), odd()).prop_map(|(at, value)| Fault::Replace(at, value)),
        (at(), 1..80_u8).prop_map(|(at, depth)| Fault::Nest(at, depth)),
        (at(), at()).prop_map(|(a, b)| Fault::Swap(a, b)),
    ]
}

/// Pointers of every value below the root.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut below = |token: &str, inner: &Value| {
        let place = format!("{at}/{}", token.replace('~', "~0").replace('/', "~1"));
        found.push(place.clone());
        places(inner, &place, found);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(key, inner)| below(key, inner)),
        Value::Array(elements) => elements.iter().enumerate().for_each(|(i, inner)| below(&i.to_string(), inner)),
        _ => {}
    }
}

fn spoil(value: &mut Value, fault: &Fault) {
    let mut all = Vec::new();
    places(value, "", &mut all);
    let place = |number: &usize| all.get(number % all.len().max(1)).cloned();
    let (Fault::Drop(at) | Fault::Duplicate(at) | Fault::Replace(at, _) | Fault::Nest(at, _) | Fault::Swap(at, _)) = fault;
    let Some(pointer) = place(at) else { return };
    let (parent, token) = pointer.rsplit_once('/').unwrap();
    let token = throughline_format::json::unescape_pointer_token(token).into_owned();
    match fault {
        Fault::Drop(_) => match value.pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.remove(&token)),
            Some(Value::Array(elements)) => drop(elements.remove(token.parse().unwrap())),
            _ => {}
        },
        Fault::Duplicate(_) => {
            let copy = value.pointer(&pointer).cloned().unwrap_or_default();
            match value.pointer_mut(parent) {
                Some(Value::Array(elements)) => elements.insert(token.parse().unwrap(), copy),
                Some(Value::Object(members)) => drop(members.insert(format!("{token}_again"), copy)),
                _ => {}
            }
        }
        Fault::Replace(_, other) => value.pointer_mut(&pointer).into_iter().for_each(|v| *v = other.clone()),
        Fault::Nest(_, depth) => {
            if let Some(inner) = value.pointer_mut(&pointer) {
                for level in 0..*depth {
                    let held = inner.take();
                    *inner = if level % 2 == 0 { json!([held]) } else { json!({"type": held}) };
                }
            }
        }
        Fault::Swap(_, other) => {
            let other = place(other).and_then(|p| value.pointer(&p).cloned());
            if let (Some(inner), Some(other)) = (value.pointer_mut(&pointer), other) {
                *inner = other;
            }
        }
    }
}

/// The first byte that chooses this family, and the spoilt text, cut where `end` says.
fn input(family: usize, head: &[u8], text: &str, end: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(family).unwrap()];
    bytes.extend_from_slice(head);
    let end = end.map_or(text.len(), |e| usize::from(e) % (text.len() + 1));
    bytes.extend_from_slice(text.as_bytes().get(..end).unwrap());
    bytes
}

fn in_time(what: &str, input: &[u8], body: impl FnOnce(&[u8])) {
    let began = Instant::now();
    body(input);
    assert!(
        began.elapsed() < LONGEST,
        "{what}: {} bytes took {:?}",
        input.len(),
        began.elapsed()
    );
}

fn plain(codec: &dyn Codec) -> EncodeContext {
    EncodeContext::plain(Capabilities::of(codec.capabilities()))
}

/// A body with everything that the codec has a form for.
fn request_of(codec: &dyn Codec) -> Value {
    let family = codec.profile().family;
    let history: Vec<Value> = items()
        .iter()
        .enumerate()
        .map(|(n, (role, body))| item(&family, n, role, body))
        .collect();
    let tool = json!({"toolId": "op.t0", "kind": "function", "execution": "client", "portability": "portable", "name": "look",
        "inputSchema": {"type": "object", "properties": {"at": {"type": "string", "enum": ["sea", "sky"]}}}});
    let unified: UnifiedRequestV2 = request(&family, &history, &[tool]);
    serde_json::from_str(&codec.encode_request(&unified, &plain(codec)).unwrap().body).unwrap()
}

fn response_of(codec: &dyn Codec) -> Value {
    let body = codec.encode_response(&result(&codec.profile().family), &plain(codec)).unwrap().body;
    serde_json::from_str(&body).unwrap()
}

fn stream_of(codec: &dyn Codec) -> Vec<WireFrame> {
    let mut fold = OfflineFold::new();
    let batch = codec
        .decode_response(response_of(codec).to_string().as_bytes(), &DecodeContext::offline())
        .unwrap();
    fold.push(batch).unwrap();
    let mut encoder = codec.stream_encoder(&plain(codec));
    fold.events.iter().flat_map(|event: &UnifiedEventV2| encoder.push(event)).collect()
}

fn spoilt(mut body: Value, faults: &[Fault]) -> String {
    for fault in faults {
        spoil(&mut body, fault);
    }
    body.to_string()
}

/// Frames dropped, doubled and swapped, their data spoilt like a body.
fn spoilt_stream(frames: &[WireFrame], faults: &[(usize, u8, Fault)]) -> String {
    let mut frames: Vec<(Option<&str>, String)> = frames.iter().map(|f| (f.event, f.data.clone())).collect();
    for (at, what, fault) in faults {
        let (length, at) = (frames.len(), at % frames.len().max(1));
        match what % 4 {
            0 if length > 0 => drop(frames.remove(at)),
            1 if length > 0 => frames.insert(at, frames.get(at).unwrap().clone()),
            2 if length > 1 => frames.swap(at, (at + 1) % length),
            _ => {
                if let Some((_, data)) = frames.get_mut(at)
                    && let Ok(value) = serde_json::from_str(data)
                {
                    *data = spoilt(value, std::slice::from_ref(fault));
                }
            }
        }
    }
    let text = |(event, data): &(Option<&str>, String)| match event {
        Some(event) => format!("event: {event}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    };
    frames.iter().map(text).collect()
}

#[test]
fn what_is_spoilt_here_was_valid() {
    for (number, (family, codec)) in codecs().enumerate() {
        let request = request_of(codec.as_ref()).to_string();
        codec
            .decode_request(request.as_bytes(), &DecodeContext::offline())
            .unwrap_or_else(|e| panic!("{family}: {e} {request}"));
        bodies::decode_request(&input(number, &[], &request, None));
        bodies::decode_response(&input(number, &[], &response_of(codec.as_ref()).to_string(), None));
        let stream = spoilt_stream(&stream_of(codec.as_ref()), &[]);
        bodies::decode_stream(&input(number, &[3, 1], &stream, None));
        let fold = support::fold_stream(codec.as_ref(), stream.as_bytes(), 5);
        assert!(fold.fold.result().error.is_none(), "{family}: {stream}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: inputs(), failure_persistence: None, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_spoilt_request_is_refused_with_a_place_or_read(faults in prop::collection::vec(fault(), 1..6), end in prop::option::weighted(0.1, any::<u16>())) {
        for (number, (family, codec)) in codecs().enumerate() {
            let text = spoilt(request_of(codec.as_ref()), &faults);
            in_time(family.as_str(), &input(number, &[], &text, end), bodies::decode_request);
        }
    }

    #[test]
    fn a_spoilt_answer_is_refused_with_a_place_or_folds(faults in prop::collection::vec(fault(), 1..6), end in prop::option::weighted(0.1, any::<u16>())) {
        for (number, (family, codec)) in codecs().enumerate() {
            let text = spoilt(response_of(codec.as_ref()), &faults);
            in_time(family.as_str(), &input(number, &[], &text, end), bodies::decode_response);
        }
    }

    #[test]
    fn a_spoilt_stream_folds_wherever_it_is_cut(
        faults in prop::collection::vec((any::<usize>(), any::<u8>(), fault()), 0..6),
        cuts in any::<[u8; 2]>(),
        end in prop::option::weighted(0.3, any::<u16>()),
    ) {
        for (number, (family, codec)) in codecs().enumerate() {
            let text = spoilt_stream(&stream_of(codec.as_ref()), &faults);
            in_time(family.as_str(), &input(number, &cuts, &text, end), bodies::decode_stream);
        }
    }

    #[test]
    fn a_spoilt_error_is_an_error(faults in prop::collection::vec(fault(), 0..4), status in any::<[u8; 2]>(), end in prop::option::weighted(0.2, any::<u16>())) {
        for (number, (family, codec)) in codecs().enumerate() {
            let error = throughline_format::UnifiedError::new(throughline_format::ErrorCategory::RateLimit, "requests", "slow down");
            let body: Value = serde_json::from_str(&codec.encode_error(&error).body).unwrap();
            in_time(family.as_str(), &input(number, &status, &spoilt(body, &faults), end), bodies::decode_error);
        }
    }

    #[test]
    fn a_spoilt_record_is_refused_with_a_place_or_read(faults in prop::collection::vec(fault(), 1..5), pick in any::<usize>(), end in prop::option::weighted(0.1, any::<u16>())) {
        let family = throughline_format::ProtocolFamily::CursorSdk;
        let history: Vec<Value> = items().iter().enumerate().map(|(n, (role, body))| item(&family, n, role, body)).collect();
        let record = match pick % 3 {
            0 => serde_json::to_value(request(&family, &history, &[])).unwrap(),
            1 => serde_json::to_value(result(&family)).unwrap(),
            _ => history.get(pick / 3 % history.len()).unwrap().clone(),
        };
        let text = spoilt(record, &faults);
        let end = end.map_or(text.len(), |e| usize::from(e) % (text.len() + 1));
        in_time("a record", text.as_bytes().get(..end).unwrap(), bodies::unified_records);
    }
}
