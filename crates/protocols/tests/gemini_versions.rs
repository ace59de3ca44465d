//! Version v1 of the Gemini API: a body has nothing but its members, whatever the request holds, and what is missing is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, captured_requests, samples};
use throughline_format::{LossDisposition, ProtocolFamily, UnifiedLossReport, UnifiedRequestV2};
use throughline_protocols::gemini_generate_content::GeminiGenerateContent;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, Encoded, SideResource, families};

const GEMINI: GeminiGenerateContent = GeminiGenerateContent::GEMINI;

fn written(request: &UnifiedRequestV2, resources: &[SideResource], version: &str) -> Encoded {
    let context = EncodeContext {
        dialect: Some(version.to_owned()),
        private: Arc::new(Everything::of(resources)),
        ..EncodeContext::plain(Capabilities::of(GEMINI.capabilities()))
    };
    GEMINI.encode_request(request, &context).unwrap()
}

fn loss_of(request: &UnifiedRequestV2, resources: &[SideResource], version: &str) -> UnifiedLossReport {
    written(request, resources, version).loss
}

fn encode(request: &UnifiedRequestV2, resources: &[SideResource], version: &str) -> (Value, Vec<String>) {
    let encoded = written(request, resources, version);
    let words = encoded.loss.entries.iter().map(|e| format!("{} {}", e.feature, e.path)).collect();
    (serde_json::from_str(&encoded.body).unwrap(), words)
}

fn decoded(body: &Value) -> (UnifiedRequestV2, Vec<SideResource>) {
    let decoded = GEMINI
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap();
    (decoded.unified, decoded.resources)
}

/// Members of an object that v1 does not have there.
fn unknown(at: &str, value: &Value, known: &[&str]) -> Vec<String> {
    let members = value.as_object().into_iter().flat_map(|object| object.keys());
    members
        .filter(|key| !known.contains(&key.as_str()))
        .map(|key| format!("{at}/{key}"))
        .collect()
}

/// Everything of a body that the published messages of v1 lack.
fn foreign_members(body: &Value) -> Vec<String> {
    let mut found = unknown("", body, &["contents", "safetySettings", "generationConfig"]);
    let settings = [
        "candidateCount",
        "stopSequences",
        "maxOutputTokens",
        "temperature",
        "topP",
        "topK",
        "seed",
        "responseJsonSchema",
        "presencePenalty",
        "frequencyPenalty",
        "responseLogprobs",
        "logprobs",
        "enableEnhancedCivicAnswers",
    ];
    found.extend(unknown("/generationConfig", &body["generationConfig"], &settings));
    for content in body["contents"].as_array().unwrap() {
        found.extend(unknown("/contents", content, &["role", "parts"]));
        for part in content["parts"].as_array().unwrap() {
            found.extend(unknown("/parts", part, &["text", "inlineData", "videoMetadata"]));
            found.extend(unknown("/inlineData", &part["inlineData"], &["mimeType", "data"]));
        }
    }
    found
}

/// Every member of v1beta that v1 lacks: where it stands, and the loss that tells of it.
fn lacking() -> Vec<(&'static str, Value, &'static str)> {
    let function = json!([{"functionDeclarations": [{"name": "f", "description": "d"}]}]);
    vec![
        (
            "/systemInstruction",
            json!({"parts": [{"text": "be brief"}]}),
            "conversation.system.inline /conversation/items/0",
        ),
        ("/tools", function, "tool.function /tools/0"),
        ("/tools", json!([{"googleSearch": {}}]), "tool.hosted.web_search /tools/0"),
        (
            "/tools",
            json!([{"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}]),
            "tool.hosted.computer_use /tools/0",
        ),
        (
            "/toolConfig",
            json!({"functionCallingConfig": {"mode": "ANY"}}),
            "tool.choice /toolChoice",
        ),
        ("/cachedContent", json!("cachedContents/x"), "state.resources /state/resources/0"),
        ("/serviceTier", json!("flex"), "generation.service_tier /generation/serviceTier"),
        ("/labels", json!({"a": "b"}), "metadata.labels /metadata/labels"),
        ("/store", json!(true), "state.persist /state/persist"),
        (
            "/continuationToken",
            json!("dA=="),
            "conversation.portability /conversation/continuations/0",
        ),
        (
            "/generationConfig/responseMimeType",
            json!("application/json"),
            "output.json_object /output/format",
        ),
        (
            "/generationConfig/responseModalities",
            json!(["IMAGE"]),
            "generation.output_modalities /generation/outputModalities",
        ),
        (
            "/generationConfig/speechConfig",
            json!({"languageCode": "de"}),
            "generation.media /generation/media/speech",
        ),
        (
            "/generationConfig/imageConfig",
            json!({"aspectRatio": "1:1"}),
            "generation.media /generation/media/image",
        ),
        (
            "/generationConfig/mediaResolution",
            json!("MEDIA_RESOLUTION_LOW"),
            "generation.media /generation/media/inputResolution",
        ),
        (
            "/generationConfig/thinkingConfig",
            json!({"thinkingLevel": "LOW"}),
            "generation.reasoning.effort /generation/reasoning/effort",
        ),
        (
            "/generationConfig/thinkingConfig",
            json!({"thinkingBudget": 5}),
            "generation.reasoning.budget /generation/reasoning/budgetTokens",
        ),
        (
            "/generationConfig/thinkingConfig",
            json!({"includeThoughts": true}),
            "generation.reasoning.summary /generation/reasoning/summary",
        ),
        (
            "/generationConfig/enableAffectiveDialog",
            json!(true),
            "wire.unmapped /generationConfig/enableAffectiveDialog",
        ),
        (
            "/contents/0/parts/1",
            json!({"fileData": {"fileUri": "https://h/a.png", "mimeType": "image/png"}}),
            "part.image /conversation/items/0/parts/1",
        ),
        (
            "/contents/0/parts/1",
            json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}),
            "part.image.detail /conversation/items/0/parts/1",
        ),
        (
            "/contents/0/parts/1",
            json!({"text": "x", "partMetadata": {"a": 1}}),
            "wire.unmapped /conversation/items/0/parts/1",
        ),
    ]
}

fn with(pointer: &str, value: &Value) -> Value {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"seed": 1}});
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Array(list) => list.push(value.clone()),
        object => object[key] = value.clone(),
    }
    body
}

#[test]
fn every_member_that_v1_lacks_is_left_out_and_told() {
    for (pointer, value, loss) in lacking() {
        let body = with(pointer, &value);
        let (request, resources) = decoded(&body);
        let (made, losses) = encode(&request, &resources, "v1");
        assert_eq!(foreign_members(&made), [""; 0], "{pointer}: {made}");
        assert!(losses.iter().any(|told| told == loss), "{pointer}: {losses:?}");
        // The other version says it, and loses nothing.
        let (made, _) = encode(&request, &resources, "v1beta");
        assert_eq!(made, body, "{pointer}");
        assert_eq!(
            loss_of(&request, &resources, "v1beta").disposition,
            LossDisposition::Lossless,
            "{pointer}"
        );
    }
}

#[test]
fn what_v1_has_stays() {
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}, "videoMetadata": {"fps": 2}}]}],
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "generationConfig": {"candidateCount": 2, "maxOutputTokens": 9, "temperature": 0.5, "topP": 0.5, "topK": 40, "stopSequences": ["x"], "seed": 7,
            "presencePenalty": 0.1, "frequencyPenalty": 0.2, "responseLogprobs": true, "logprobs": 3, "enableEnhancedCivicAnswers": true},
    });
    let (request, resources) = decoded(&body);
    assert_eq!(encode(&request, &resources, "v1").0, body);
    // A schema of the answer goes by its newer name, which is the only one that v1 has.
    let schema = with("/generationConfig/responseMimeType", &json!("application/json"));
    let mut schema = schema;
    schema["generationConfig"]["responseSchema"] = json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}});
    let (request, resources) = decoded(&schema);
    let made = encode(&request, &resources, "v1").0;
    assert_eq!(
        made["generationConfig"],
        json!({"seed": 1, "responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string"}}}})
    );
}

#[test]
fn calls_and_thoughts_of_the_history_are_told_or_left_out() {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [
        {"text": "t", "thought": true}, {"text": "a", "thoughtSignature": "b25l"},
        {"functionCall": {"id": "c", "name": "f", "args": {"q": 1}}, "thoughtSignature": "dHdv"}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"output": "found"}}}]}]});
    let (request, resources) = decoded(&body);
    let (made, losses) = encode(&request, &resources, "v1");
    assert_eq!(
        made["contents"],
        json!([{"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"text": "a"}, {"text": "[Call of the tool f: {\"q\":1}]"}]},
            {"role": "user", "parts": [{"text": "[Result:\nfound]"}]}])
    );
    for told in [
        "reasoning.text /conversation/items/1",
        "tool.function /conversation/items/3",
        "tool.function /conversation/items/4",
    ] {
        assert!(losses.iter().any(|loss| loss == told), "{told}: {losses:?}");
    }
}

#[test]
fn what_is_required_and_not_there_is_an_error() {
    let (mut request, resources) = decoded(&with(
        "/tools",
        &json!([{"functionDeclarations": [{"name": "f", "description": "d"}]}]),
    ));
    request.tools[0].requirement = Some(throughline_format::UnifiedRequirement::Required);
    for (version, refused) in [("v1", true), ("v1beta", false)] {
        let loss = loss_of(&request, &resources, version);
        assert_eq!(loss.is_unsupported(), refused, "{version}");
    }
}

#[test]
fn no_item_part_or_tool_of_anybody_brings_another_member() {
    for (family, _) in samples::codecs() {
        for (kind, body) in samples::items() {
            let item = samples::item(family, 0, "assistant", &body);
            let request = samples::request(family, &[item], &[]);
            let (made, losses) = encode(&request, &[], "v1");
            assert_eq!(foreign_members(&made), [""; 0], "{kind} of {family}: {made}");
            let said = made.to_string().contains(support::samples::MARK);
            assert!(said || !losses.is_empty(), "{kind} of {family}");
        }
        for part in samples::parts() {
            let body = json!({"kind": "message", "parts": [part]});
            let request = samples::request(family, &[samples::item(family, 0, "user", &body)], &[]);
            let made = encode(&request, &[], "v1").0;
            assert_eq!(foreign_members(&made), [""; 0], "{part} of {family}: {made}");
        }
    }
}

#[test]
fn no_captured_request_brings_another_member() {
    let families: Vec<&ProtocolFamily> = families().iter().collect();
    for family in families {
        let Some(captured) = captured_requests(family) else { return };
        for (file, _, decoded) in captured {
            let made = encode(&decoded.unified, &decoded.resources, "v1").0;
            assert_eq!(foreign_members(&made), [""; 0], "{}", file.display());
        }
    }
}
