//! No silent loss, leaf by leaf: every leaf of a captured payload is changed, one at a time, and something must change with it: the
//! record, what is kept beside it, the projection, or a report. Where nothing does, the leaf was dropped in silence.
//!
//! Leaves at the same place of the same kind of thing are one case, of which the smallest payloads give a few samples.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{Everything, corpus, files, fold_stream, sse};
use throughline_format::json::escape_pointer_token;
use throughline_format::{ProtocolFamily, UnifiedEventV2, UnifiedLossReport, UnifiedRequestV2, UnifiedResultV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::projection::stream_loss;
use throughline_protocols::{
    Capabilities, Codec, DecodeContext, EncodeContext, SideResource, UNSPECIFIED_MODEL, bookkeeping, codec_of, families,
};

/// Samples of one case.
const SAMPLES: usize = 2;
/// Objects whose keys users and tools choose: all that stands below is one case.
const OPAQUE: &[&str] = &[
    "input",
    "arguments",
    "args",
    "parameters",
    "schema",
    "input_schema",
    "inputSchema",
    "properties",
    "metadata",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
    "response_schema",
    "output",
];
/// Members of a record that tell which thing is meant and whose it is, not what it says: every wire has names of its own for that.
const NAMES: &[&str] = &[
    "id",
    "conversationId",
    "branchId",
    "parentId",
    "createdAt",
    "requestId",
    "responseId",
    "operationId",
    "partId",
    "itemId",
    "eventId",
    "resourceId",
    "sequence",
    "schemaVersion",
    "headItemId",
    "itemIds",
    "source",
    "timestamp",
    "callId",
    "kind",
    "role",
    "status",
    "portability",
    "completeness",
    "requirement",
    "attribution",
    "providerData",
    "privateState",
    "privateLinkage",
    "profile",
    "lifecycle",
    "execution",
    "toolType",
    "providerExecuted",
    "resourceType",
];
/// A leaf that says nothing, or again what other leaves say: what it stands in, how its case ends, why.
type Row = (&'static str, &'static str, &'static str);

/// Such leaves of records, whatever wire they came from.
const OF_RECORDS: &[Row] = &[
    ("stream to(loss.update)", "", "a report, and no part of the answer"),
    ("stream to(warning)", "", "about how the answer was read, and no part of it"),
    ("stream to(tool.lifecycle)", "", "how far a call is, which follows from its events"),
    ("stream to(tool-arguments.delta)", "/text", "`tool-arguments.ready` has them whole"),
    ("stream to(tool-arguments.ready)", "", "the pieces before it said it"),
    (
        "stream to(response.metadata)",
        "/providerRequestId",
        "an ID of the provider's log, which is a header",
    ),
    ("stream to(item.delta)/delta(field)", "", "what is kept for the owner"),
    ("stream to(item.completed)/item(message)", "/text", "the pieces before it said it"),
    (
        "",
        "/scope",
        "a counter of a request and one of an operation are shown alike, and one of a session never",
    ),
    (
        "",
        "/parts(reasoning)/state",
        "how a provider shows its thought; a wire with one form for it says no more",
    ),
    (
        "",
        "/part(reasoning)/state",
        "how a provider shows its thought; a wire with one form for it says no more",
    ),
    ("", "(server-tool-result)/isError", "its error says it"),
    (
        "",
        "/usage/others/inputUncached/value",
        "sums; their owner gets back the counters as written",
    ),
    (
        "",
        "/usage/others/outputTotal/value",
        "sums; their owner gets back the counters as written",
    ),
    ("", "/usage/total/value", "sums; their owner gets back the counters as written"),
    ("", "/usage/cost(cost)/value", "an amount; its owner gets back the units as written"),
    ("", "/rawArguments", "the input of the call, as text"),
    ("", "(tool-call)/input", "the arguments, as a value"),
    ("", "(server-tool-call)/input", "the arguments, as a value"),
    ("", "(tool-result)/name", "its call says it"),
    ("", "(server-tool-result)/name", "its call says it"),
];

/// Such leaves of the payloads of a wire. Each row must be needed.
fn of_wire(family: &ProtocolFamily) -> &'static [Row] {
    match family.as_str() {
        "openai-chat" => &[
            ("response", "/object", "names the shape; what it says stands beside"),
            ("response", "/type", "names the shape; what it says stands beside"),
            ("response", "/role", "an answer is the assistant's"),
            ("stream", "/object", "names the shape of the chunk"),
            ("stream", "/obfuscation", "noise against listeners"),
            ("stream", "/p", "noise against listeners"),
        ],
        "anthropic-messages" => &[
            ("response", "/type", "names the shape; what it says stands beside"),
            ("response", "/role", "an answer is the assistant's"),
        ],
        "openai-responses" => &[
            ("stream", "/type", "names the shape of the event; what it says stands beside"),
            ("stream", "/sequence_number", "counts the events"),
            ("stream", "/obfuscation", "noise against listeners"),
            (
                "stream(response.created)",
                "",
                "the state at the begin; a later event says it again",
            ),
            ("stream(response.queued)", "", "the state at the begin; a later event says it again"),
            (
                "stream(response.in_progress)",
                "",
                "the state at the begin; a later event says it again",
            ),
            (
                "stream(response.output_item.added)",
                "",
                "the item at its begin; `response.output_item.done` has it whole",
            ),
            (
                "stream(response.content_part.added)",
                "",
                "the part at its begin; the item has it whole",
            ),
            ("stream(response.content_part.done)", "", "`response.output_item.done` has it again"),
            ("stream(response.output_text.done)", "", "`response.output_item.done` has it again"),
            (
                "stream(response.output_text.delta)/logprobs",
                "",
                "`response.output_item.done` has them again",
            ),
            ("stream(response.completed)/response/output", "", "the items were said one by one"),
            ("stream(error)/error", "", "after `response.failed`, which says it"),
        ],
        "gemini-interactions" => &[
            ("stream", "/event_type", "names the shape of the event; what it says stands beside"),
            (
                "stream(interaction.created)/interaction/status",
                "",
                "the state at the begin; a later event says it again",
            ),
            (
                "stream(interaction.status_update)/status",
                "",
                "the state at the time; a later event says it again",
            ),
            ("stream(step.delta)/metadata", "", "counters so far; later ones replace them"),
        ],
        "cursor-sdk" => &[(
            "request to/conversation/missing",
            "",
            "a history held elsewhere, which is reported as a whole",
        )],
        "vercel-uimessage" => &[
            (
                "stream(reasoning-start)/providerMetadata",
                "",
                "`reasoning-end` says it again, whole",
            ),
            ("stream(tool-input-", "/dynamic", "the state of a call; its later chunks replace it"),
            (
                "stream(tool-input-",
                "/providerExecuted",
                "the state of a call; its later chunks replace it",
            ),
            ("stream(tool-output-", "/dynamic", "its call said it"),
        ],
        _ => &[],
    }
}

/// A leaf: its place, and the case that it belongs to.
struct Leaf {
    pointer: String,
    case: String,
}

fn leaves(value: &Value, what: &str) -> Vec<Leaf> {
    let mut found = Vec::new();
    walk(value, &mut String::new(), what, false, &mut found);
    found
}

fn walk(value: &Value, pointer: &mut String, case: &str, opaque: bool, found: &mut Vec<Leaf>) {
    let length = pointer.len();
    match value {
        Value::Null => {}
        Value::Object(object) => {
            let kind = ["type", "kind", "event_type"].iter().find_map(|key| object.get(*key)?.as_str());
            let case = match kind.filter(|_| !opaque) {
                Some(kind) => format!("{case}({kind})"),
                None => case.to_owned(),
            };
            for (key, value) in object {
                pointer.push('/');
                pointer.push_str(&escape_pointer_token(key));
                let inner = if opaque { case.clone() } else { format!("{case}/{key}") };
                let opaque = opaque || OPAQUE.contains(&key.as_str()) && value.is_object();
                walk(value, pointer, &inner, opaque, found);
                pointer.truncate(length);
            }
        }
        Value::Array(array) => {
            for (at, value) in array.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&at.to_string());
                walk(value, pointer, case, opaque, found);
                pointer.truncate(length);
            }
        }
        _ => found.push(Leaf {
            pointer: pointer.clone(),
            case: case.to_owned(),
        }),
    }
}

/// Another value of the same sort. A time stays a time, and Base64 and JSON stay what they are.
fn changed(value: &Value) -> Value {
    let replaced = |text: &str, at: usize, by: &str| json!(format!("{}{by}{}", &text[..at], &text[at + 1..]));
    match value {
        Value::Bool(flag) => json!(!flag),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => json!(number + 1),
            (_, Some(number)) => json!(number - 1),
            _ => json!(number.as_f64().unwrap() + 0.125),
        },
        Value::String(text) => {
            let digit = text.rfind(|c: char| c.is_ascii_digit());
            match (digit, text.rfind(|c: char| c.is_ascii_alphanumeric())) {
                (Some(at), _) => replaced(text, at, if text[at..].starts_with('7') { "8" } else { "7" }),
                (None, Some(at)) => replaced(text, at, if text[at..].starts_with('q') { "r" } else { "q" }),
                (None, None) => json!(format!("{text}q")),
            }
        }
        _ => value.clone(),
    }
}

/// The words that stand under each key, for those that must be one of several.
#[derive(Default)]
struct Words(BTreeMap<String, BTreeSet<String>>);

impl Words {
    fn learn(&mut self, value: &Value) {
        for Leaf { pointer, .. } in leaves(value, "") {
            if let Some(Value::String(word)) = value.pointer(&pointer).filter(|word| word.as_str().is_some_and(|w| w.len() < 40)) {
                let known = self.0.entry(key(&pointer).to_owned()).or_default();
                if known.len() < 20 {
                    known.insert(word.clone());
                }
            }
        }
    }

    /// The value with another leaf at this place: the first one that is still such a value.
    fn other<T: serde::de::DeserializeOwned>(&self, value: &Value, pointer: &str) -> Option<T> {
        let leaf = value.pointer(pointer)?;
        let words = self.0.get(key(pointer)).into_iter().flatten().map(|word| json!(word));
        let candidates = std::iter::once(changed(leaf)).chain(words.filter(|word| leaf.is_string() && word != leaf));
        candidates.into_iter().find_map(|candidate| {
            let mut other = value.clone();
            *other.pointer_mut(pointer)? = candidate;
            serde_json::from_str(&other.to_string()).ok()
        })
    }
}

fn key(pointer: &str) -> &str {
    pointer
        .rsplit('/')
        .find(|token| token.parse::<usize>().is_err())
        .unwrap_or_default()
}

/// Whether the report speaks of this place, of something inside it, or of what it stands in (but for a whole history).
fn named(pointer: &str, loss: &UnifiedLossReport) -> bool {
    let holds = |outer: &str, inner: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    loss.entries.iter().any(|entry| {
        let path = entry.path.as_str();
        let is_blanket = ["", "/", "/conversation", "/conversation/items", "/output", "/messages", "/contents"].contains(&path);
        holds(pointer, path) || !is_blanket && holds(path, pointer)
    })
}

/// Whether a leaf stands somewhere as it is.
fn stands_in(leaf: &Value, text: &str) -> bool {
    match leaf {
        Value::String(word) => text
            .to_lowercase()
            .contains(json!(word.to_lowercase()).to_string().trim_matches('"')),
        Value::Number(number) => text.contains(&leaf.to_string()) || text.contains(&number.as_f64().unwrap().to_string()),
        _ => false,
    }
}

/// What came out of a payload: the record and what is kept beside it, or a projection; and the report.
#[derive(PartialEq)]
struct Outcome {
    said: String,
    loss: UnifiedLossReport,
}

/// Where a value comes from: its file, the place in the answer that it is about, and what else the report says of it.
struct Origin<'a> {
    file: &'a Path,
    root: &'a str,
    remarks: UnifiedLossReport,
}

impl<'a> Origin<'a> {
    fn new(file: &'a Path, root: &'a str, remarks: UnifiedLossReport) -> Self {
        Self { file, root, remarks }
    }

    fn wire(file: &'a Path) -> Self {
        Self::new(file, "", UnifiedLossReport::default())
    }
}

/// What was tried of one family, and what was dropped in silence.
#[derive(Default)]
struct Trial {
    samples: BTreeMap<String, usize>,
    silent: BTreeSet<String>,
}

impl Trial {
    fn wants(&mut self, case: &str) -> bool {
        let count = self.samples.entry(case.to_owned()).or_default();
        *count += 1;
        *count <= SAMPLES
    }

    /// Changes every leaf that is wanted. `outcome_with` gives what comes of the value with another leaf; `None`: it is refused.
    /// What a wire says twice may be read once, and its owner gets back what was kept: with `again`, a leaf that stands in the outcome is said.
    fn change(
        &mut self,
        what: &str,
        origin: &Origin<'_>,
        value: &Value,
        outcome: &Outcome,
        again: bool,
        mut outcome_with: impl FnMut(&str) -> Option<Outcome>,
    ) {
        for Leaf { pointer, case } in leaves(value, what) {
            let Origin { file, root, remarks } = origin;
            let is_about_item = root.starts_with("/output/");
            let place = if is_about_item {
                (*root).to_owned()
            } else {
                // A report speaks of the whole answer, of which a chunk brings a piece.
                format!("{root}{pointer}").replace("/delta/", "/message/")
            };
            if !self.wants(&case) || named(&place, &outcome.loss) || named(&pointer, remarks) {
                continue;
            }
            let leaf = value.pointer(&pointer).unwrap();
            if *leaf == UNSPECIFIED_MODEL {
                continue;
            }
            let is_silent = outcome_with(&pointer).is_some_and(|other| other == *outcome) && !(again && stands_in(leaf, &outcome.said));
            if is_silent {
                let file = file.file_name().unwrap().to_string_lossy();
                self.silent.insert(format!("{case}\t{file}\t{pointer}\t{leaf}"));
            }
        }
    }
}

fn is_name(pointer: &str) -> bool {
    pointer.split('/').any(|token| NAMES.contains(&token))
}

/// Captured payloads of a folder, the smallest first.
fn captured(family: &ProtocolFamily, folder: &str, ending: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Some(root) = corpus("wire") else { return Vec::new() };
    let all = files(&root.join(family.as_str()).join(folder), ending);
    let mut all: Vec<_> = all.into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect();
    all.sort_by_key(|(_, bytes)| bytes.len());
    all
}

fn beside(resources: &[SideResource]) -> String {
    let page = |r: &SideResource| format!("{} {:?} {}\n", r.schema, r.subject, String::from_utf8_lossy(&r.payload));
    resources.iter().map(page).collect()
}

fn context(codec: &dyn Codec, private: &Arc<Everything>) -> EncodeContext {
    EncodeContext {
        private: private.clone(),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    }
}

/// Every protocol, as a target.
fn targets() -> impl Iterator<Item = (&'static ProtocolFamily, Arc<dyn Codec>)> {
    families().iter().map(|family| (family, codec_of(family).unwrap()))
}

fn request_of(codec: &dyn Codec, body: &Value) -> Option<(Outcome, UnifiedRequestV2, Arc<Everything>)> {
    let decoded = codec.decode_request(body.to_string().as_bytes(), &DecodeContext::offline()).ok()?;
    let record = serde_json::to_value(&decoded.unified).unwrap();
    let said = format!("{record}\n{}{}", beside(&decoded.resources), decoded.stream);
    let private = Arc::new(Everything::of(&decoded.resources));
    let loss = decoded.loss;
    Some((Outcome { said, loss }, decoded.unified, private))
}

fn outcome_of(fold: &OfflineFold) -> Outcome {
    let result = fold.fold.result();
    Outcome {
        said: format!("{}\n{}", serde_json::to_value(&result).unwrap(), beside(&fold.resources)),
        loss: result.loss.unwrap_or_default(),
    }
}

fn answer_of(codec: &dyn Codec, body: &Value) -> Option<OfflineFold> {
    let decoded = codec.decode_response(body.to_string().as_bytes(), &DecodeContext::offline()).ok()?;
    let mut fold = OfflineFold::new();
    fold.push(decoded).ok()?;
    Some(fold)
}

fn stream_of(codec: &dyn Codec, lines: &[String]) -> Option<OfflineFold> {
    let mut decoder = codec.stream_decoder(&DecodeContext::offline());
    let mut fold = OfflineFold::new();
    fold.push(decoder.push((lines.join("\n") + "\n\n").as_bytes())).ok()?;
    fold.push(decoder.finish()).ok()?;
    Some(fold)
}

fn with_leaf(value: &Value, pointer: &str) -> Value {
    Words::default().other(value, pointer).unwrap()
}

/// What a record says about itself, which no wire tells.
fn remarks(record: &Value) -> UnifiedLossReport {
    UnifiedLossReport {
        entries: bookkeeping::remarks(record),
        ..UnifiedLossReport::default()
    }
}

/// Requests: wire → record, and record → every wire.
fn requests(trial: &mut Trial, family: &ProtocolFamily, codec: &dyn Codec) {
    let (mut records, mut words) = (Vec::new(), Words::default());
    for (file, bytes) in captured(family, "requests", ".json") {
        let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
            continue;
        };
        let Some((outcome, record, private)) = request_of(codec, &body) else {
            continue;
        };
        trial.change("request", &Origin::wire(&file), &body, &outcome, false, |pointer| {
            Some(request_of(codec, &with_leaf(&body, pointer))?.0)
        });
        let value = serde_json::to_value(record).unwrap();
        words.learn(&value);
        records.push((file, value, private));
    }
    for (file, value, private) in &records {
        for (target, to) in targets() {
            let outcome = |record: &UnifiedRequestV2| {
                let encoded = to.encode_request(record, &context(to.as_ref(), private)).ok()?;
                Some(Outcome {
                    said: encoded.body,
                    loss: encoded.loss,
                })
            };
            let Some(plain) = outcome(&serde_json::from_str(&value.to_string()).unwrap()) else {
                continue;
            };
            trial.change(
                &format!("request to {target}"),
                &Origin::new(file, "", remarks(value)),
                value,
                &plain,
                target == family,
                |pointer| outcome(&words.other(value, pointer).filter(|_| !is_name(pointer))?),
            );
        }
    }
}

/// Answers and streams: wire → record, and record → every wire, as an answer and as a stream.
fn answers(trial: &mut Trial, family: &ProtocolFamily, codec: &dyn Codec) {
    let (mut folds, mut words) = (Vec::new(), Words::default());
    for (file, bytes) in captured(family, "responses", ".json") {
        let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
            continue;
        };
        let Some(fold) = answer_of(codec, &body) else { continue };
        trial.change("response", &Origin::wire(&file), &body, &outcome_of(&fold), false, |pointer| {
            Some(outcome_of(&answer_of(codec, &with_leaf(&body, pointer))?))
        });
        folds.push((file, fold));
    }
    for (file, bytes) in captured(family, "streams", ".sse") {
        let fold = fold_stream(codec, &bytes, 4096);
        let outcome = outcome_of(&fold);
        let mut lines: Vec<String> = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
        for at in 0..lines.len() {
            let Some(Ok(data)) = lines[at]
                .strip_prefix("data:")
                .map(|data| serde_json::from_str::<Value>(data.trim()))
            else {
                continue;
            };
            let line = lines[at].clone();
            trial.change("stream", &Origin::wire(&file), &data, &outcome, true, |pointer| {
                lines[at] = format!("data: {}", with_leaf(&data, pointer));
                Some(outcome_of(&stream_of(codec, &lines)?))
            });
            lines[at] = line;
        }
        folds.push((file, fold));
    }
    for (_, fold) in &folds {
        words.learn(&serde_json::to_value(fold.fold.result()).unwrap());
        fold.events
            .iter()
            .for_each(|event| words.learn(&serde_json::to_value(event).unwrap()));
    }
    for (file, fold) in &folds {
        let private = Arc::new(Everything::of(&fold.resources));
        let value = serde_json::to_value(fold.fold.result()).unwrap();
        for (target, to) in targets() {
            let outcome = |record: &UnifiedResultV2| {
                let encoded = to.encode_response(record, &context(to.as_ref(), &private)).ok()?;
                Some(Outcome {
                    said: encoded.body,
                    loss: encoded.loss,
                })
            };
            if let Some(plain) = outcome(&fold.fold.result()) {
                trial.change(
                    &format!("answer to {target}"),
                    &Origin::new(file, "", remarks(&value)),
                    &value,
                    &plain,
                    target == family,
                    |pointer| outcome(&words.other(&value, pointer).filter(|_| !is_name(pointer))?),
                );
            }
            streamed(trial, (file, fold), &format!("stream to {target}"), to.as_ref(), &words);
        }
    }
}

/// The events of an answer as a stream of another wire. An event that completes an item says again what its deltas said.
fn streamed(trial: &mut Trial, (file, fold): (&Path, &OfflineFold), what: &str, to: &dyn Codec, words: &Words) {
    let private = Arc::new(Everything::of(&fold.resources));
    let result = fold.fold.result();
    let outcome = |events: &[UnifiedEventV2]| {
        let context = context(to, &private);
        let mut encoder = to.stream_encoder(&context);
        let frames: Vec<_> = events.iter().flat_map(|event| encoder.push(event)).collect();
        let loss = stream_loss(to, &result, &context, encoder.as_ref()).unwrap();
        Outcome { said: sse(&frames), loss }
    };
    let output = &result.output;
    let mut events = fold.events.clone();
    let plain = outcome(&events);
    for at in 0..events.len() {
        let value = serde_json::to_value(&events[at]).unwrap();
        let item = output.iter().position(|item| value["itemId"] == item.id.as_str());
        let root = match (item, value["kind"].as_str()) {
            (Some(item), _) => format!("/output/{item}"),
            (None, Some("response.metadata")) if value["resources"].is_array() => "/state".into(),
            (None, Some("response.metadata")) => "/model".into(),
            _ => String::new(),
        };
        trial.change(what, &Origin::new(file, &root, remarks(&value)), &value, &plain, true, |pointer| {
            let other = words.other(&value, pointer).filter(|_| !is_name(pointer))?;
            let event = std::mem::replace(&mut events[at], other);
            let outcome = outcome(&events);
            events[at] = event;
            Some(outcome)
        });
    }
}

fn check(family: &str) {
    let family = ProtocolFamily::from_word(family);
    let codec = codec_of(&family).unwrap();
    if corpus("wire").is_none() {
        return;
    }
    let mut trial = Trial::default();
    requests(&mut trial, &family, codec.as_ref());
    answers(&mut trial, &family, codec.as_ref());
    for what in ["request", "response", "stream", "request to ", "answer to ", "stream to "] {
        assert!(
            trial.samples.keys().any(|case| case.starts_with(what)),
            "{family}: no {what} was tried"
        );
    }
    // A case names the target that it was tried with; a row does not.
    let case = |line: &String| {
        let case = line.split('\t').next().unwrap().to_owned();
        let to = |case: String, family: &ProtocolFamily| case.replace(&format!(" to {family}"), " to");
        families().iter().fold(case, to)
    };
    let is_of = |line: &String, (begin, end, _): &Row| case(line).starts_with(begin) && case(line).ends_with(end);
    let unneeded: Vec<_> = of_wire(&family)
        .iter()
        .filter(|row| !trial.silent.iter().any(|line| is_of(line, row)))
        .collect();
    assert!(unneeded.is_empty(), "{family} needs no such rows: {unneeded:?}");
    let known = |line: &&String| OF_RECORDS.iter().chain(of_wire(&family)).any(|row| is_of(line, row));
    let silent: Vec<_> = trial.silent.iter().filter(|line| !known(line)).cloned().collect();
    assert!(silent.is_empty(), "{family} is dropped in silence:\n{}", silent.join("\n"));
}

macro_rules! every_family {
    ($($test:ident $family:literal)*) => { $(
        #[test]
        fn $test() {
            throughline_format::clause!("LOSS-03");
            check($family);
        }
    )* };
}

every_family! {
    no_leaf_of_openai_chat_is_dropped_in_silence "openai-chat"
    no_leaf_of_openai_responses_is_dropped_in_silence "openai-responses"
    no_leaf_of_anthropic_messages_is_dropped_in_silence "anthropic-messages"
    no_leaf_of_gemini_generate_content_is_dropped_in_silence "gemini-generate-content"
    no_leaf_of_vertex_gemini_is_dropped_in_silence "vertex-gemini"
    no_leaf_of_antigravity_is_dropped_in_silence "antigravity"
    no_leaf_of_gemini_interactions_is_dropped_in_silence "gemini-interactions"
    no_leaf_of_cursor_sdk_is_dropped_in_silence "cursor-sdk"
    no_leaf_of_vercel_uimessage_is_dropped_in_silence "vercel-uimessage"
}
