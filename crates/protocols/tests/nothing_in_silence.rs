//! No encoder drops anything in silence: every kind of item, part and tool, one at a time, is in the body or in the loss report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use support::samples::{MARK, codecs, item, items, parts, request};
use throughline_format::{LossSeverity, PartBody, ProtocolFamily, UnifiedItemBody, UnifiedRequestV2, UnifiedToolType};
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, codec_of, families};

/// A codec that wrote nothing of a sample and reported nothing either.
type Silence = String;

/// What is wrong with the answer to a request whose sample stands at `path`: nothing when the body holds the mark, or an entry
/// names the path, something inside it, or what it stands in.
fn silence(what: &str, path: &str, mark: &str, family: &ProtocolFamily, codec: &dyn Codec, request: &UnifiedRequestV2) -> Option<Silence> {
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    let encoded = codec.encode_request(request, &context).expect("losses are no errors");
    let holds = |outer: &str, inner: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let names = |entry: &str| holds(path, entry) || entry.len() > "/conversation/items".len() && holds(entry, path);
    if encoded.body.contains(mark) || encoded.loss.entries.iter().any(|entry| names(&entry.path)) {
        return None;
    }
    Some(format!("{family}: {what}: {} {:?}", encoded.body, encoded.loss.entries))
}

/// Tries a sample with every codec, as history of that very protocol and of another one.
fn try_all(what: &str, path: &str, mark: &str, make: impl Fn(&ProtocolFamily) -> UnifiedRequestV2) -> Vec<Silence> {
    let own_and_other = |family: &ProtocolFamily| [family.clone(), ProtocolFamily::CursorSdk];
    codecs()
        .flat_map(|(family, codec)| own_and_other(family).map(|source| (family, codec.clone(), source)))
        .filter_map(|(family, codec, source)| silence(&format!("{what} of {source}"), path, mark, family, codec.as_ref(), &make(&source)))
        .collect()
}

/// Every word of a list stands as `kind` in one of the samples at least.
fn assert_covered<'a>(words: &[&str], samples: impl Iterator<Item = &'a Value>) {
    let seen: Vec<&str> = samples.filter_map(|sample| sample["kind"].as_str()).collect();
    let absent: Vec<_> = words.iter().filter(|word| !seen.contains(word)).collect();
    assert!(absent.is_empty(), "no sample of {absent:?}");
}

fn assert_nothing(silences: &[Silence]) {
    assert!(silences.is_empty(), "dropped in silence:\n{}", silences.join("\n"));
}

/// Work of hosted tools and approvals: kinds that few protocols have a form for.
const OF_HOSTED_TOOLS: &[&str] = &[
    "server-tool-call",
    "server-tool-result",
    "code-execution",
    "code-execution-result",
    "search-result",
    "retrieval-result",
    "computer-action",
    "computer-action-result",
    "approval-request",
    "approval-response",
];

#[test]
fn what_a_hosted_tool_did_reaches_the_model_of_every_protocol() {
    let samples: Vec<_> = items()
        .into_iter()
        .filter(|(_, body)| OF_HOSTED_TOOLS.contains(&body["kind"].as_str().unwrap_or_default()))
        .collect();
    assert_covered(OF_HOSTED_TOOLS, samples.iter().map(|(_, body)| body));
    // A user interface shows approvals at their calls only; there is no model that would miss them.
    for (family, codec) in codecs().filter(|(family, _)| **family != ProtocolFamily::VercelUiMessage) {
        for (role, body) in &samples {
            let request = request(&ProtocolFamily::CursorSdk, &[item(&ProtocolFamily::CursorSdk, 0, role, body)], &[]);
            let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
            let encoded = codec.encode_request(&request, &context).expect("losses are no errors");
            assert!(encoded.body.contains(MARK), "{family}: {}: {}", body["kind"], encoded.body);
        }
    }
}

#[test]
fn every_kind_of_item_is_written_or_reported() {
    let samples = items();
    assert_covered(UnifiedItemBody::KINDS, samples.iter().map(|(_, body)| body));
    let try_item = |(role, body): &(&str, Value)| {
        try_all(&format!("{role} {}", body["kind"]), "/conversation/items/0", MARK, |source| {
            request(source, &[item(source, 0, role, body)], &[])
        })
    };
    assert_nothing(&samples.iter().flat_map(try_item).collect::<Vec<_>>());
}

#[test]
fn every_kind_of_part_is_written_or_reported_wherever_it_stands() {
    let samples = parts();
    assert_covered(PartBody::KINDS, samples.iter());
    let mut silences = Vec::new();
    for part in &samples {
        for role in ["user", "assistant"] {
            let what = format!("{role} message with {part}");
            let body = json!({"kind": "message", "parts": [part]});
            silences.extend(try_all(&what, "/conversation/items/0/parts/0", MARK, |source| {
                request(source, &[item(source, 0, role, &body)], &[])
            }));
        }
        let call = json!({"kind": "tool-call", "callId": "c1", "name": "f", "toolType": "function", "rawArguments": "{}", "input": {},
            "lifecycle": "output-ready", "execution": "client", "providerExecuted": false});
        let result = json!({"kind": "tool-result", "callId": "c1", "output": [part], "execution": "client"});
        silences.extend(try_all(
            &format!("result with {part}"),
            "/conversation/items/1/output/0",
            MARK,
            |source| {
                let items = [item(source, 0, "assistant", &call), item(source, 1, "tool", &result)];
                request(source, &items, &[])
            },
        ));
    }
    assert_nothing(&silences);
}

#[test]
fn every_kind_of_tool_is_written_or_reported() {
    let hello = json!({"kind": "message", "parts": [{"partId": "op.i0.p0", "kind": "text", "text": "hello"}]});
    let try_tool = |kind: &&str| {
        let execution = if matches!(*kind, "function" | "custom") {
            "client"
        } else {
            "provider"
        };
        let tool = json!({"toolId": "op.t0", "kind": kind, "execution": execution, "portability": "portable", "name": MARK});
        // A hosted tool may be a member of its own, which holds no name.
        let mark = if execution == "client" {
            MARK.to_owned()
        } else {
            kind.replace('-', "_")
        };
        try_all(kind, "/tools/0", &mark, |source| {
            request(source, &[item(source, 0, "user", &hello)], std::slice::from_ref(&tool))
        })
    };
    let kinds = UnifiedToolType::WORDS.iter().chain(&["cursor-sdk:unheard-of"]);
    assert_nothing(&kinds.flat_map(try_tool).collect::<Vec<_>>());
}

/// Requests that only point to their history: (wire, body, what is declared, severity at every wire that cannot continue it).
#[test]
fn history_that_a_provider_holds_is_declared_and_never_left_out_in_silence() {
    let turn = json!([{"type": "message", "role": "user", "content": "go on"}]);
    let with = |first: Value| json!([first, turn[0]]);
    let cases = [
        (
            "openai-responses",
            json!({"model": "m", "previous_response_id": "resp_1", "input": turn}),
            "reference-only",
        ),
        (
            "openai-responses",
            json!({"model": "m", "conversation": "conv_1", "input": turn}),
            "reference-only",
        ),
        (
            "gemini-interactions",
            json!({"model": "m", "previous_interaction_id": "v1_1", "input": "go on"}),
            "reference-only",
        ),
        (
            "openai-responses",
            json!({"model": "m", "input": with(json!({"type": "item_reference", "id": "msg_1"}))}),
            "partial",
        ),
        (
            "openai-responses",
            json!({"model": "m", "input": with(json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "E"}))}),
            "partial",
        ),
    ];
    for (from, body, completeness) in cases {
        let from = ProtocolFamily::from_word(from);
        let codec = codec_of(&from).unwrap();
        let decoded = codec
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap();
        let record = serde_json::to_value(&decoded.unified).unwrap();
        assert_eq!(record["conversation"]["completeness"], completeness, "{body}");
        let report = throughline_format::validate::validate_document(record.to_string().as_bytes());
        assert!(report.violations.is_empty(), "{body}: {:?}", report.violations);
        let severity = if completeness == "partial" {
            LossSeverity::Warning
        } else {
            LossSeverity::Error
        };
        for to in families() {
            let codec = codec_of(to).unwrap();
            let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
            let encoded = codec.encode_request(&decoded.unified, &context).unwrap();
            let told = encoded
                .loss
                .entries
                .iter()
                .any(|entry| entry.severity == severity && (entry.feature == "conversation.portability" || *to == from));
            assert!(told, "{body} to {to:?}: {:?}", encoded.loss.entries);
        }
    }
}

#[test]
fn what_only_its_owner_can_fetch_is_not_sent_to_others_as_an_address() {
    let body = json!({"contents": [{"role": "user", "parts": [
        {"fileData": {"fileUri": "gs://bucket/x.png", "mimeType": "image/png"}}, {"text": "look"}]}]});
    let google = [
        ProtocolFamily::GeminiGenerateContent,
        ProtocolFamily::GeminiInteractions,
        ProtocolFamily::VertexGemini,
        ProtocolFamily::Antigravity,
    ];
    let source = codec_of(&ProtocolFamily::VertexGemini).unwrap();
    let decoded = source
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap();
    for (family, codec) in codecs() {
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let encoded = codec.encode_request(&decoded.unified, &context).unwrap();
        // A user interface shows what it is given.
        let keeps = google.contains(family) || *family == ProtocolFamily::VercelUiMessage;
        assert_eq!(encoded.body.contains("gs://"), keeps, "{family}: {}", encoded.body);
        let told = encoded
            .loss
            .entries
            .iter()
            .any(|e| e.path.starts_with("/conversation/items/0/parts/0") && e.severity == LossSeverity::Warning);
        assert_eq!(told, !keeps, "{family}: {:?}", encoded.loss.entries);
    }
}

#[test]
fn what_is_not_for_the_model_is_sent_to_none() {
    let samples = items();
    for (family, codec) in codecs() {
        for visibility in ["client", "internal"] {
            // A user interface is the client.
            if *family == ProtocolFamily::VercelUiMessage && visibility == "client" {
                continue;
            }
            for (role, body) in &samples {
                for source in [family, &ProtocolFamily::OpenAiChat, &ProtocolFamily::AnthropicMessages] {
                    let mut hidden = item(source, 0, role, body);
                    hidden["visibility"] = json!(visibility);
                    let said = json!({"kind": "message", "parts": [{"kind": "text", "partId": "op.i1.p0", "text": "go on"}]});
                    let request = request(source, &[hidden, item(source, 1, "user", &said)], &[]);
                    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
                    let encoded = codec.encode_request(&request, &context).unwrap();
                    let what = format!("{family}: {visibility} {} of {source}: {}", body["kind"], encoded.body);
                    assert!(!encoded.body.contains(MARK), "{what}");
                    assert!(encoded.body.contains("go on"), "{what}");
                    let is_told = encoded
                        .loss
                        .entries
                        .iter()
                        .any(|entry| entry.path.starts_with("/conversation/items/0"));
                    assert!(is_told, "{what} {:?}", encoded.loss.entries);
                }
            }
        }
    }
}
