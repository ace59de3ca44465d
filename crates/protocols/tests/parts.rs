//! What parts say beside their content: media metadata (PART-03), and citations with their sources and spans (PART-04).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use support::samples::{HASH, codecs, item, request};
use support::there_and_back;
use throughline_format::ProtocolFamily;
use throughline_protocols::{Capabilities, EncodeContext, codec_of};

fn anthropic(block: &Value) -> Value {
    json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]})
}

fn responses(part: &Value) -> Value {
    json!({"model": "m", "input": [{"type": "message", "role": "user", "content": [part]}]})
}

fn chat(part: &Value) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": [part]}]})
}

fn gemini(part: &Value) -> Value {
    json!({"contents": [{"role": "user", "parts": [part]}]})
}

fn interactions(content: &Value) -> Value {
    json!({"model": "m", "input": [{"type": "user_input", "content": [content]}]})
}

#[test]
fn metadata_of_media_have_their_words_on_the_wires_that_say_them() {
    throughline_format::clause!("PART-03");
    use ProtocolFamily as F;
    let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
        "title": "Report", "context": "of May", "citations": {"enabled": true}});
    let video = json!({"fileData": {"fileUri": "https://e.org/v.mp4", "mimeType": "video/mp4"},
        "videoMetadata": {"startOffset": "1.5s", "endOffset": "9s", "fps": 2.5}});
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "QQ=="}, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}});
    let file = json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="});
    let picture = json!({"type": "input_image", "image_url": "https://e.org/a.png", "detail": "low"});
    let in_chat = json!({"type": "image_url", "image_url": {"url": "https://e.org/a.png", "detail": "high"}});
    let interaction = json!({"type": "image", "data": "QQ==", "mime_type": "image/png", "resolution": "high"});
    let prompt = json!({"prompt": {"text": "look", "images": [{"url": "https://e.org/a.png", "mimeType": "image/png", "dimension": {"width": 640, "height": 480}}]}});
    let shown = json!({"id": "c", "trigger": "submit-message", "messages": [{"id": "u", "role": "user", "parts": [
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": "https://e.org/a.png"}]}]});
    let cases = [
        // wire, body, member of the part's metadata, its value
        (F::AnthropicMessages, anthropic(&document), "/title", json!("Report")),
        (F::AnthropicMessages, anthropic(&document), "/context", json!("of May")),
        (F::AnthropicMessages, anthropic(&document), "/citationsEnabled", json!(true)),
        (F::OpenAiResponses, responses(&file), "/name", json!("a.pdf")),
        (F::OpenAiResponses, responses(&picture), "/detail", json!("low")),
        (F::OpenAiChat, chat(&in_chat), "/detail", json!("high")),
        (F::GeminiGenerateContent, gemini(&video), "/mediaType", json!("video/mp4")),
        (F::GeminiGenerateContent, gemini(&video), "/time/startSeconds", json!(1.5)),
        (F::GeminiGenerateContent, gemini(&video), "/time/endSeconds", json!(9.0)),
        (F::GeminiGenerateContent, gemini(&video), "/fps", json!(2.5)),
        (F::GeminiGenerateContent, gemini(&image), "/resolution", json!("high")),
        (F::GeminiInteractions, interactions(&interaction), "/resolution", json!("high")),
        (F::CursorSdk, prompt.clone(), "/width", json!(640)),
        (F::CursorSdk, prompt, "/height", json!(480)),
        (F::VercelUiMessage, shown.clone(), "/name", json!("a.png")),
        (F::VercelUiMessage, shown, "/mediaType", json!("image/png")),
    ];
    for (family, body, member, value) in cases {
        let (record, back) = there_and_back(&family, &body);
        let parts = record["conversation"]["items"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|item| item["parts"].as_array().unwrap());
        let media: Vec<&Value> = parts.filter_map(|part| part.get("media")).collect();
        let found: Vec<_> = media.iter().filter_map(|media| media.pointer(member)).collect();
        let is_same = |found: &Value| found == &value || found.as_f64().is_some_and(|number| Some(number) == value.as_f64());
        assert!(found.len() == 1 && is_same(found[0]), "{family}: {member} in {media:?}");
        assert_eq!(back, body, "{family}: {member}");
    }
}

/// Every member of media metadata, with the part that it belongs to.
fn media_members() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("image", "name", json!("name.png")),
        ("document", "name", json!("name.pdf")),
        ("image", "size", json!(4)),
        ("image", "sha256", json!(HASH)),
        ("document", "title", json!("A title")),
        ("document", "context", json!("A context")),
        ("document", "citationsEnabled", json!(true)),
        ("image", "altText", json!("Words in its place")),
        ("document", "pages", json!([{"from": 2, "to": 3}])),
        ("document", "range", json!({"start": 1, "end": 4, "unit": "code-point"})),
        ("video", "time", json!({"startSeconds": 1, "endSeconds": 2})),
        ("video", "fps", json!(3)),
        ("image", "detail", json!("high")),
        ("image", "resolution", json!("high")),
        ("image", "resolution", json!({"tokens": 256})),
        ("image", "width", json!(640)),
        ("image", "height", json!(480)),
        ("audio", "durationSeconds", json!(7)),
        ("audio", "sampleRate", json!(16_000)),
        ("audio", "channels", json!(2)),
        ("audio", "transcript", json!({"text": "What is said"})),
        (
            "video",
            "constraints",
            json!([{"family": "vertex-gemini", "rule": "region", "value": "eu"}]),
        ),
    ]
}

#[test]
fn no_metadata_of_media_are_dropped_in_silence() {
    throughline_format::clause!("PART-03");
    let mut silent = Vec::new();
    for (kind, member, value) in media_members() {
        let media_type = match kind {
            "image" => "image/png",
            "document" => "application/pdf",
            "video" => "video/mp4",
            _ => "audio/wav",
        };
        let with = |media: Value| {
            json!({"kind": "message", "parts": [{"partId": "op.i0.p0", "kind": kind, "media": media,
                "source": {"kind": "inline", "mediaType": media_type, "data": "QUFBQQ==", "encoding": "base64"}}]})
        };
        let path = "/conversation/items/0/parts/0";
        for (family, codec) in codecs() {
            let source = match family {
                ProtocolFamily::CursorSdk => ProtocolFamily::AnthropicMessages,
                _ => ProtocolFamily::CursorSdk,
            };
            let encode = |media: Value| {
                let request = request(&source, &[item(&source, 0, "user", &with(media))], &[]);
                let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
                codec.encode_request(&request, &context).unwrap()
            };
            let (without, with) = (encode(json!({})), encode(json!({ member: value })));
            let told = |loss: &throughline_format::UnifiedLossReport| loss.entries.iter().filter(|e| e.path.starts_with(path)).count();
            // Said on the wire, or told by the report. What is left out whole takes its metadata with it.
            let is_left_out = without
                .loss
                .entries
                .iter()
                .any(|e| e.path == path && e.severity != throughline_format::LossSeverity::Info);
            if with.body == without.body && told(&with.loss) == told(&without.loss) && !is_left_out {
                silent.push(format!("{family}: {kind} {member}: {}", with.body));
            }
        }
    }
    assert!(silent.is_empty(), "dropped in silence:\n{}", silent.join("\n"));
}

/// A text that the units count differently: two bytes, three bytes, and a character outside the basic plane.
const SAID: &str = "é 猫 🐈 and the cat";

/// An answer of another protocol than `family`, with this citation on its text.
fn cited(family: &ProtocolFamily, citation: &Value) -> throughline_format::UnifiedResultV2 {
    let source = match family {
        ProtocolFamily::CursorSdk => ProtocolFamily::AnthropicMessages,
        _ => ProtocolFamily::CursorSdk,
    };
    let mut record = serde_json::to_value(support::samples::result(&source)).unwrap();
    record["output"][0]["parts"][0]["text"] = json!(SAID);
    record["output"][0]["parts"][0]["annotations"] = json!([citation]);
    serde_json::from_str(&record.to_string()).unwrap()
}

/// Every member of a citation beside its source's address, each in a citation that is whole without it.
fn citation_members() -> Vec<(&'static str, Value)> {
    let span = |of: &str, unit: &str, start: u64, end: u64| json!([{"of": of, "start": start, "end": end, "unit": unit}]);
    let mut members = vec![
        ("/source/title", json!("A title")),
        ("/source/type", json!("place")),
        ("/source/documentIndex", json!(2)),
        ("/source/license", json!("CC0")),
        ("/source/publishedAt", json!("2026-01-02")),
        ("/quotedText", json!("the words of the source")),
        ("/supports", json!({"partId": "op.i0.p0", "relation": "quotes"})),
        ("/confidence", json!(0.75)),
        ("/queries", json!(["what was asked"])),
        ("/retrievedAt", json!("2026-01-02T03:04:05.000Z")),
    ];
    for unit in ["utf8-byte", "utf16", "code-point", "character"] {
        members.push(("/spans", span("answer", unit, 0, 1)));
    }
    for unit in ["page", "block", "code-point", "token"] {
        members.push(("/spans", span("source", unit, 1, 2)));
    }
    members
}

#[test]
fn no_member_of_a_citation_is_dropped_in_silence() {
    throughline_format::clause!("PART-04");
    let plain = json!({"kind": "citation", "source": {"sourceId": "s1", "type": "web", "uri": "https://e.org/a"}});
    let mut silent = Vec::new();
    for (pointer, value) in citation_members() {
        let mut full = plain.clone();
        match pointer.strip_prefix("/source/") {
            Some(member) => full["source"][member] = value.clone(),
            None => full[&pointer[1..]] = value.clone(),
        }
        for (family, codec) in codecs() {
            let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
            let encode = |citation: &Value| codec.encode_response(&cited(family, citation), &context).unwrap();
            let (without, with) = (encode(&plain), encode(&full));
            let names = |loss: &throughline_format::UnifiedLossReport| -> Vec<String> {
                let on_text = |path: &str| path.starts_with("/output/0/parts/0") || "/output/0/parts/0/annotations/0".starts_with(path);
                loss.entries
                    .iter()
                    .filter(|e| on_text(&e.path))
                    .map(|e| format!("{} {}", e.path, e.reason))
                    .collect()
            };
            // Said on the wire, told by the report, or the citation as a whole is told to be reduced.
            let is_told = names(&with.loss) != names(&without.loss);
            let covers = |path: &str| "/output/0/parts/0/annotations/0".starts_with(path) && path.len() > "/output".len();
            let is_reduced = with.loss.entries.iter().any(|e| covers(&e.path) && e.feature.contains("citation"));
            if with.body == without.body && !is_told && !is_reduced {
                silent.push(format!("{family}: {pointer} {value}: {:?}", names(&with.loss)));
            }
        }
    }
    assert!(silent.is_empty(), "dropped in silence:\n{}", silent.join("\n"));
}

#[test]
fn every_wire_keeps_who_is_cited_where_and_in_which_words() {
    throughline_format::clause!("PART-04");
    use ProtocolFamily as F;
    let claude = |citation: Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [{"type": "text", "text": SAID, "citations": [citation]}]})
    };
    let gpt = |annotation: Value| {
        json!({"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [{"type": "message", "id": "msg_1", "role": "assistant",
            "status": "completed", "content": [{"type": "output_text", "text": SAID, "annotations": [annotation]}]}]})
    };
    let chat = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant",
        "content": SAID, "annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.org/a", "title": "A", "start_index": 2, "end_index": 3}}]}}]});
    // The service counts bytes: the character stands behind three of them, and takes three.
    let google = json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [{"text": SAID}]}, "groundingMetadata": {
        "webSearchQueries": ["cats"], "groundingChunks": [{"web": {"uri": "https://e.org/a", "title": "A"}}],
        "groundingSupports": [{"segment": {"startIndex": 3, "endIndex": 6, "text": "猫"}, "groundingChunkIndices": [0], "confidenceScores": [0.5]}]}}]});
    let in_pages = json!({"type": "page_location", "cited_text": "words", "document_index": 1, "document_title": "A", "start_page_number": 2, "end_page_number": 3});
    let in_text = json!({"type": "char_location", "cited_text": "words", "document_index": 1, "document_title": "A", "start_char_index": 4, "end_char_index": 9});
    let in_blocks = json!({"type": "content_block_location", "cited_text": "words", "document_index": 1, "document_title": "A", "start_block_index": 0, "end_block_index": 1});
    let of_web = json!({"type": "web_search_result_location", "cited_text": "words", "url": "https://e.org/a", "title": "A", "encrypted_index": "x"});
    let url = json!({"type": "url_citation", "start_index": 2, "end_index": 3, "url": "https://e.org/a", "title": "A"});
    let span = |of: &str, unit: &str, start: u64, end: u64| json!({"of": of, "start": start, "end": end, "unit": unit});
    let cases = [
        // wire, answer, member of the citation, its value
        (F::AnthropicMessages, claude(in_pages.clone()), "/quotedText", json!("words")),
        (F::AnthropicMessages, claude(in_pages.clone()), "/source/title", json!("A")),
        (F::AnthropicMessages, claude(in_pages.clone()), "/source/documentIndex", json!(1)),
        (F::AnthropicMessages, claude(in_pages), "/spans/0", span("source", "page", 2, 3)),
        (
            F::AnthropicMessages,
            claude(in_text),
            "/spans/0",
            span("source", "code-point", 4, 9),
        ),
        (F::AnthropicMessages, claude(in_blocks), "/spans/0", span("source", "block", 0, 1)),
        (
            F::AnthropicMessages,
            claude(of_web.clone()),
            "/source/uri",
            json!("https://e.org/a"),
        ),
        (F::AnthropicMessages, claude(of_web), "/quotedText", json!("words")),
        (F::OpenAiResponses, gpt(url.clone()), "/spans/0", span("answer", "character", 2, 3)),
        (F::OpenAiResponses, gpt(url), "/source/title", json!("A")),
        (F::OpenAiChat, chat.clone(), "/spans/0", span("answer", "character", 2, 3)),
        (F::OpenAiChat, chat, "/source/title", json!("A")),
        (
            F::GeminiGenerateContent,
            google.clone(),
            "/spans/0",
            span("answer", "utf8-byte", 3, 6),
        ),
        (F::GeminiGenerateContent, google.clone(), "/confidence", json!(0.5)),
        (F::GeminiGenerateContent, google, "/source/title", json!("A")),
    ];
    for (family, answer, member, value) in cases {
        let fold = support::fold_response(codec_of(&family).unwrap().as_ref(), answer.to_string().as_bytes());
        let result = support::result_of(&fold);
        let record = serde_json::to_value(&result).unwrap();
        let citation = record
            .pointer("/output/0/parts/0/annotations/0")
            .unwrap_or_else(|| panic!("{family}: {record}"));
        let mut found = citation.pointer(member).cloned().unwrap_or_default();
        if let Some(span) = found.as_object_mut() {
            span.remove("partId");
        }
        assert_eq!(found, value, "{family}: {member} of {citation}");
        // A place in the answer is the same words at every target, however it counts.
        if member == "/spans/0" && value["of"] == "answer" {
            for target in [F::OpenAiResponses, F::OpenAiChat, F::GeminiInteractions, F::VercelUiMessage] {
                let codec = codec_of(&target).unwrap();
                let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
                let body: Value = serde_json::from_str(&codec.encode_response(&result, &context).unwrap().body).unwrap();
                assert_eq!(words_of(&target, &body), "猫", "{family} to {target}: {body}");
            }
        }
    }
}

/// The words that an answer of a wire says to be cited.
fn words_of(family: &ProtocolFamily, body: &Value) -> String {
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap_or_else(|| panic!("{body}"))).unwrap();
    let (start, end) = match family {
        ProtocolFamily::OpenAiResponses => {
            let at = &body["output"][0]["content"][0]["annotations"][0];
            (number(&at["start_index"]), number(&at["end_index"]))
        }
        ProtocolFamily::OpenAiChat => {
            let at = &body["choices"][0]["message"]["annotations"][0]["url_citation"];
            (number(&at["start_index"]), number(&at["end_index"]))
        }
        ProtocolFamily::GeminiInteractions => {
            // Bytes.
            let at = &body["steps"][0]["content"][0]["annotations"][0];
            return SAID[number(&at["start_index"])..number(&at["end_index"])].to_owned();
        }
        _ => {
            let message = body.as_array().and_then(|chat| chat.last()).unwrap_or(body);
            let part = message["parts"]
                .as_array()
                .unwrap()
                .iter()
                .find(|part| part["type"] == "text")
                .unwrap();
            let at = &part["citations"][0];
            let units: Vec<u16> = SAID.encode_utf16().collect();
            return String::from_utf16(&units[number(&at["startIndex"])..number(&at["endIndex"])]).unwrap();
        }
    };
    SAID.chars().skip(start).take(end - start).collect()
}

#[test]
fn a_place_is_the_same_in_every_unit() {
    throughline_format::clause!("PART-04");
    use throughline_format::media::UnifiedIndexUnit as U;
    use throughline_protocols::span;
    for text in [
        "plain",
        SAID,
        "日本語のテキスト",
        "नमस्ते दुनिया",
        "👩‍👩‍👧 and 🇩🇪",
        "e\u{301}\u{200d}",
        "مرحبا",
    ] {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let units = [U::Utf8Byte, U::Utf16, U::CodePoint];
        for at in places {
            for from in &units {
                let index = span::of_byte(text, at, from).unwrap();
                assert_eq!(span::to_byte(text, index, from), Some(at), "{text}: byte {at} in {from:?}");
                for to in &units {
                    let there = span::convert(text, index, from, to).unwrap();
                    assert_eq!(
                        span::convert(text, there, to, from),
                        Some(index),
                        "{text}: {index} {from:?} in {to:?}"
                    );
                }
            }
        }
        // No unit has a place behind the end.
        for unit in &units {
            let end = span::of_byte(text, text.len(), unit).unwrap();
            assert_eq!(span::to_byte(text, end + 1, unit), None, "{text} {unit:?}");
        }
    }
}
