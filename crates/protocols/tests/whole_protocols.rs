//! Every captured payload of every protocol: read, written again for its owner, and projected to every other protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use support::{Everything, corpus, files, fold_stream, sse};
use throughline_format::loss::LossDisposition;
use throughline_format::{LossSeverity, ProtocolFamily, UnifiedLossReport, UnifiedResultV2, content_fingerprint};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, SideResource, codec_of, families};

/// Payloads that say something else when their owner gets them back, each with the reason; a row that is no longer so fails.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "anthropic-messages/requests/anthpy-test-runners-testsyncruntools-9fde1-c2.json",
        "a result without its call is told as text",
    ),
    (
        "anthropic-messages/streams/vai-anthropic-anthropic-json-other-t-12fb8.sse",
        "the class of service is told at the begin, and the usage at the end has none",
    ),
    (
        "anthropic-messages/streams/vai-anthropic-anthropic-web-search-t-78950.sse",
        "the class of service is told at the begin, and the usage at the end has none",
    ),
    (
        "vertex-gemini/streams/fantasy-googlecommon-vertex-gemini-2-6a736-c2.sse",
        "a signature in the middle of a text gets a chunk of its own, which is read as reasoning",
    ),
    (
        "vertex-gemini/streams/pai-google-vertex-service-tier-flex-stream.sse",
        "a signature in the middle of a text gets a chunk of its own, which is read as reasoning",
    ),
    (
        "antigravity/requests/cliproxy-fix-clitool-response-backfi-14f9d.json",
        "calls of another vendor get a signature that skips validation",
    ),
    (
        "antigravity/streams/agyderived-gcli-context-compress-int-09be9-c1.sse",
        "a signature in the middle of a text gets a chunk of its own, which is read as reasoning",
    ),
    (
        "antigravity/streams/agyderived-gcli-context-compress-int-3e40a-c2.sse",
        "a signature in the middle of a text gets a chunk of its own, which is read as reasoning",
    ),
    (
        "antigravity/streams/agyderived-pai-test-google-test-goog-e94a8.sse",
        "a signature in the middle of a text gets a chunk of its own, which is read as reasoning",
    ),
    (
        "gemini-interactions/requests/cliproxy-int-convert-open-airesponse-a6415.json",
        "a message without content is not told apart from the turn beside it",
    ),
];

fn owner(codec: &dyn Codec, resources: &[SideResource]) -> EncodeContext {
    EncodeContext {
        private: Arc::new(Everything::of(resources)),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    }
}

/// What an answer says, without what was lost on the way to saying it.
fn said(mut result: UnifiedResultV2) -> String {
    result.loss = None;
    content_fingerprint(&result).unwrap().to_string()
}

/// The record of a request, and whether it is the same when its owner gets it back.
fn request(codec: &dyn Codec, bytes: &[u8]) -> (Value, bool) {
    let decoded = codec.decode_request(bytes, &DecodeContext::offline()).unwrap();
    let context = EncodeContext {
        stream: decoded.stream,
        ..owner(codec, &decoded.resources)
    };
    let body = codec.encode_request(&decoded.unified, &context).unwrap().body;
    let again = codec.decode_request(body.as_bytes(), &DecodeContext::offline()).unwrap();
    let same = content_fingerprint(&decoded.unified).unwrap() == content_fingerprint(&again.unified).unwrap();
    (serde_json::to_value(&decoded.unified).unwrap(), same)
}

fn fold(codec: &dyn Codec, bytes: &[u8]) -> (UnifiedResultV2, Vec<SideResource>) {
    let mut decoded = codec.decode_response(bytes, &DecodeContext::offline()).unwrap();
    let resources = std::mem::take(&mut decoded.resources);
    let mut fold = OfflineFold::new();
    fold.push(decoded).unwrap();
    (fold.fold.result(), resources)
}

/// The same for an answer.
fn response(codec: &dyn Codec, bytes: &[u8]) -> (Value, bool) {
    let (result, resources) = fold(codec, bytes);
    let body = codec.encode_response(&result, &owner(codec, &resources)).unwrap().body;
    let record = serde_json::to_value(&result).unwrap();
    (record, said(result) == said(fold(codec, body.as_bytes()).0))
}

/// The same for a stream.
fn stream(codec: &dyn Codec, bytes: &[u8]) -> (Value, bool) {
    let fold = fold_stream(codec, bytes, 4096);
    let mut encoder = codec.stream_encoder(&owner(codec, &fold.resources));
    let frames: Vec<_> = fold.events.iter().flat_map(|event| encoder.push(event)).collect();
    let again = fold_stream(codec, sse(&frames).as_bytes(), 4096);
    let record = serde_json::to_value(fold.fold.result()).unwrap();
    (record, said(fold.fold.result()) == said(again.fold.result()))
}

/// There and back: the record, and whether it says the same afterwards.
type Way = fn(&dyn Codec, &[u8]) -> (Value, bool);

/// Takes every captured payload of a family there and back; what its records hold must include all of `words`.
fn check(family: &str, extra: &[Value], words: &[&str]) {
    let codec = codec_of(&ProtocolFamily::from_word(family)).unwrap();
    let Some(root) = corpus("wire").map(|root| root.join(family)) else {
        return;
    };
    let (mut records, mut wrong) = (Vec::new(), Vec::new());
    let mut take = |name: String, (record, same): (Value, bool)| {
        if same == OTHERWISE.iter().any(|(listed, _)| *listed == name) {
            wrong.push(format!("{name} is the same: {same}"));
        }
        records.push(record.to_string());
    };
    for (folder, ending, way) in [
        ("requests", ".json", request as Way),
        ("responses", ".json", response),
        ("streams", ".sse", stream),
    ] {
        let all = files(&root.join(folder), ending);
        assert!(!all.is_empty(), "{family} has no captured {folder}");
        for file in all {
            let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
            take(
                format!("{family}/{folder}/{}", name(&file)),
                way(codec.as_ref(), &std::fs::read(&file).unwrap()),
            );
        }
    }
    for body in extra {
        take(body.to_string(), request(codec.as_ref(), body.to_string().as_bytes()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let absent: Vec<_> = words
        .iter()
        .filter(|word| !records.iter().any(|record| record.contains(**word)))
        .collect();
    assert!(absent.is_empty(), "no record of {family} holds {absent:?}");
}

#[test]
fn openai_chat_is_read_and_written_whole() {
    throughline_format::clause!("PROTO-01");
    check(
        "openai-chat",
        &[],
        &[
            "\"alternatives\":[",
            "\"logprobs\":[",
            "\"kind\":\"tool-call\"",
            "\"kind\":\"reasoning\"",
            "\"kind\":\"image\"",
        ],
    );
}

#[test]
fn openai_responses_is_read_and_written_whole() {
    throughline_format::clause!("PROTO-02");
    let turn = json!([{"type": "message", "role": "user", "content": "hi"}]);
    check(
        "openai-responses",
        &[
            json!({"model": "m", "conversation": "conv_1", "input": turn}),
            json!({"model": "m", "previous_response_id": "resp_1", "input": turn}),
            json!({"model": "m", "background": true, "store": true, "input": turn}),
        ],
        &[
            "\"completeness\":\"reference-only\"",
            "\"resourceType\":\"conversation\"",
            "\"resourceType\":\"response\"",
            "\"background\":{",
            "\"kind\":\"server-tool-call\"",
            "\"kind\":\"code-execution\"",
            "\"kind\":\"search-result\"",
        ],
    );
}

#[test]
fn anthropic_messages_is_read_and_written_whole() {
    throughline_format::clause!("PROTO-03");
    check(
        "anthropic-messages",
        &[],
        &[
            "\"privateState\":{",
            "\"kind\":\"citation\"",
            "\"kind\":\"document\"",
            "\"breakpoints\":[",
            "\"kind\":\"server-tool-call\"",
            "\"resourceType\":\"container\"",
            "\"contextManagement\":{",
        ],
    );
}

#[test]
fn gemini_generate_content_is_read_and_written_whole() {
    throughline_format::clause!("PROTO-04");
    check(
        "gemini-generate-content",
        // Both versions have one body, and either spelling of its members is read.
        &[json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generation_config": {"max_output_tokens": 5}})],
        &[
            "\"kind\":\"tool-call\"",
            "\"kind\":\"code-execution\"",
            "\"kind\":\"grounding-source\"",
            "\"kind\":\"image\"",
            "\"safetySettings\":{",
            "\"kind\":\"reasoning\"",
        ],
    );
}

#[test]
fn vertex_gemini_is_read_and_written_whole() {
    throughline_format::clause!("PROTO-05");
    check(
        "vertex-gemini",
        &[],
        &["\"kind\":\"tool-call\"", "\"kind\":\"grounding-source\"", "\"kind\":\"reasoning\""],
    );
}

#[test]
fn antigravity_is_read_and_written_whole() {
    throughline_format::clause!("PROTO-06");
    check(
        "antigravity",
        &[],
        &["\"kind\":\"tool-call\"", "\"kind\":\"reasoning\"", "\"privateLinkage\":{"],
    );
}

#[test]
fn gemini_interactions_is_read_and_written_whole() {
    throughline_format::clause!("PROTO-07");
    check(
        "gemini-interactions",
        &[
            json!({"model": "m", "previous_interaction_id": "v1_1", "input": "hi"}),
            json!({"model": "m", "background": true, "input": "hi"}),
        ],
        &[
            "\"continuations\":[",
            "\"background\":{",
            "\"resourceType\":\"interaction\"",
            "\"kind\":\"tool-call\"",
        ],
    );
}

/// What is wrong with a report: nothing when it is one, however little it says.
fn mistake(report: &UnifiedLossReport) -> Option<String> {
    let worst = report.entries.iter().map(|entry| entry.severity).max();
    let is_one = match report.disposition {
        LossDisposition::Lossless => worst.is_none_or(|worst| worst == LossSeverity::Info),
        LossDisposition::Degraded => worst.is_some_and(|worst| worst < LossSeverity::Error),
        LossDisposition::Unsupported => worst == Some(LossSeverity::Error),
    };
    (!is_one).then(|| format!("{report:?}"))
}

#[test]
fn every_captured_payload_is_projected_to_every_protocol_with_a_report() {
    throughline_format::clause!("PROTO-09");
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::<(String, String), [usize; 3]>::new());
    for source in families() {
        let codec = codec_of(source).unwrap();
        let Some(root) = corpus("wire").map(|root| root.join(source.as_str())) else {
            return;
        };
        let some = |folder: &str, ending: &str| {
            let all = files(&root.join(folder), ending);
            let step = all.len().div_ceil(40).max(1);
            all.into_iter().step_by(step)
        };
        for target in families() {
            let other = codec_of(target).unwrap();
            let context = EncodeContext::plain(Capabilities::of(other.capabilities()));
            let counts = seen.entry((source.to_string(), target.to_string())).or_default();
            for file in some("requests", ".json") {
                let request = codec
                    .decode_request(&std::fs::read(&file).unwrap(), &DecodeContext::offline())
                    .unwrap()
                    .unified;
                let encoded = other.encode_request(&request, &context).unwrap();
                let again = other.decode_request(encoded.body.as_bytes(), &DecodeContext::offline());
                wrong.extend(again.err().map(|e| format!("{} to {target}: {e}", file.display())));
                wrong.extend(mistake(&encoded.loss).map(|m| format!("{} to {target}: {m}", file.display())));
                counts[0] += 1;
            }
            for file in some("responses", ".json") {
                let (result, _) = fold(codec.as_ref(), &std::fs::read(&file).unwrap());
                let encoded = other.encode_response(&result, &context).unwrap();
                let again = other.decode_response(encoded.body.as_bytes(), &DecodeContext::offline());
                wrong.extend(again.err().map(|e| format!("{} to {target}: {e}", file.display())));
                wrong.extend(mistake(&encoded.loss).map(|m| format!("{} to {target}: {m}", file.display())));
                counts[1] += 1;
            }
            // A run of Cursor's is captured as lines, which its own tests read.
            let ending = if *source == ProtocolFamily::CursorSdk { ".jsonl" } else { ".sse" };
            for file in some("streams", ending) {
                let fold = fold_stream(codec.as_ref(), &std::fs::read(&file).unwrap(), 4096);
                let mut encoder = other.stream_encoder(&context);
                let frames: Vec<_> = fold.events.iter().flat_map(|event| encoder.push(event)).collect();
                fold_stream(other.as_ref(), sse(&frames).as_bytes(), 4096);
                wrong.extend(mistake(encoder.loss()).map(|m| format!("{} to {target}: {m}", file.display())));
                counts[2] += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (pair, counts) in seen {
        assert!(counts.iter().all(|count| *count > 0), "{pair:?}: {counts:?}");
    }
}
