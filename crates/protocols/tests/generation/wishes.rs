//! The strength of wishes: what is required is met or stops the request, and nothing else is lost in silence.

use crate::support::samples::{codecs, item, request};
use crate::{members, plain};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use throughline_format::intent::UnifiedOutputIntent;
use throughline_format::json::decode_slice;
use throughline_format::shape::ShapedRecord;
use throughline_format::{LossSeverity, ProtocolFamily, UnifiedGenerationIntent, UnifiedId, UnifiedRequestV2};
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, PrivateState};

/// Every intent of the record, with values that some wires can say and others cannot.
fn wishes() -> Vec<(&'static str, Value)> {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let part = json!({"partId": "op.i9.p0", "kind": "text", "text": "guess"});
    vec![
        ("/generation/maxOutputTokens", json!(2048)),
        ("/generation/temperature", json!(0.5)),
        ("/generation/temperature", json!(1.7)),
        ("/generation/topP", json!(0.5)),
        ("/generation/topK", json!(5)),
        ("/generation/topK", json!(5.5)),
        ("/generation/minP", json!(0.25)),
        ("/generation/stopSequences", json!(["x"])),
        ("/generation/stopSequences", json!(["a", "b", "c", "d", "e", "f"])),
        ("/generation/candidateCount", json!(2)),
        ("/generation/candidateCount", json!(1)),
        ("/generation/seed", json!(7)),
        ("/generation/seed", json!("9007199254740993")),
        ("/generation/presencePenalty", json!(0.5)),
        ("/generation/frequencyPenalty", json!(0.5)),
        ("/generation/repetitionPenalty", json!(1.5)),
        ("/generation/logitBias", json!({"50256": -100})),
        ("/generation/logprobs", json!({"enabled": true, "top": 3})),
        ("/generation/logprobs", json!({"enabled": true})),
        ("/generation/logprobs", json!({"enabled": false})),
        ("/generation/parallelTools", json!("one-at-a-time")),
        ("/generation/parallelTools", json!("allow")),
        ("/generation/maxToolCalls", json!(3)),
        ("/generation/serviceTier", json!("auto")),
        ("/generation/serviceTier", json!("standard")),
        ("/generation/serviceTier", json!("flex")),
        ("/generation/serviceTier", json!("priority")),
        ("/generation/prediction", json!({"parts": [part]})),
        ("/generation/prefill", json!({"itemId": "op.i1"})),
        (
            "/generation/safetySettings",
            json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}]),
        ),
        (
            "/generation/safetySettings",
            json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH", "method": "SEVERITY"}]),
        ),
        ("/generation/outputModalities", json!(["text"])),
        ("/generation/outputModalities", json!(["text", "image"])),
        ("/generation/outputModalities", json!(["text", "audio"])),
        ("/generation/outputModalities", json!(["video"])),
        ("/generation/reasoning/mode", json!("off")),
        ("/generation/reasoning/mode", json!("auto")),
        ("/generation/reasoning/mode", json!("on")),
        ("/generation/reasoning/effort", json!("none")),
        ("/generation/reasoning/effort", json!("minimal")),
        ("/generation/reasoning/effort", json!("low")),
        ("/generation/reasoning/effort", json!("medium")),
        ("/generation/reasoning/effort", json!("high")),
        ("/generation/reasoning/effort", json!("xhigh")),
        ("/generation/reasoning/effort", json!("max")),
        ("/generation/reasoning/budgetTokens", json!(1500)),
        ("/generation/reasoning/budgetTokens", json!(100)),
        ("/generation/reasoning/summary", json!("none")),
        ("/generation/reasoning/summary", json!("auto")),
        ("/generation/reasoning/summary", json!("concise")),
        ("/generation/reasoning/summary", json!("detailed")),
        ("/generation/reasoning/summary", json!("full")),
        ("/generation/media/inputResolution", json!("low")),
        ("/generation/media/inputResolution", json!("medium")),
        ("/generation/media/inputResolution", json!("high")),
        ("/generation/media/inputResolution", json!("ultra-high")),
        ("/generation/media/speech", json!({"voices": [{"voice": "alloy"}], "format": "wav"})),
        (
            "/generation/media/speech",
            json!({"voices": [{"voice": "Kore"}], "language": "de-DE"}),
        ),
        (
            "/generation/media/speech",
            json!({"voices": [{"voice": "Kore", "speaker": "A"}, {"voice": "Puck", "speaker": "B"}]}),
        ),
        ("/generation/media/image", json!({"aspectRatio": "16:9"})),
        (
            "/generation/media/image",
            json!({"size": "1024x1024", "quality": "high", "format": "png", "background": "opaque", "count": 2}),
        ),
        (
            "/generation/media/video",
            json!({"aspectRatio": "16:9", "resolution": "720p", "durationSeconds": 5}),
        ),
        ("/output/format", json!({"kind": "text"})),
        ("/output/format", json!({"kind": "json-object"})),
        ("/output/format", json!({"kind": "json-schema", "schema": schema})),
        ("/output/format", json!({"kind": "json-schema", "schema": schema, "name": "n"})),
        (
            "/output/format",
            json!({"kind": "json-schema", "schema": schema, "name": "n", "description": "what it is"}),
        ),
        (
            "/output/format",
            json!({"kind": "json-schema", "schema": schema, "name": "n", "strict": true}),
        ),
        (
            "/output/format",
            json!({"kind": "json-schema", "schema": schema, "name": "n", "strict": false}),
        ),
        (
            "/output/format",
            json!({"kind": "grammar", "syntax": "lark", "definition": "start: \"a\""}),
        ),
        ("/output/format", json!({"kind": "grammar", "syntax": "regex", "definition": "a+"})),
        (
            "/output/format",
            json!({"kind": "grammar", "syntax": "enum", "definition": "{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}"}),
        ),
        ("/output/format", json!({"kind": "media", "mediaType": "image/png"})),
        ("/output/format", json!({"kind": "media", "mediaType": "text/plain"})),
        ("/output/verbosity", json!("low")),
        ("/output/verbosity", json!("medium")),
        ("/output/verbosity", json!("high")),
        ("/output/includes", json!(["reasoning-private-state"])),
        ("/output/includes", json!(["search-sources"])),
        ("/output/includes", json!(["search-results"])),
        ("/output/includes", json!(["file-search-results"])),
        ("/output/includes", json!(["code-outputs"])),
        ("/output/includes", json!(["computer-screenshots"])),
        ("/output/includes", json!(["input-image-urls"])),
        ("/output/includes", json!(["output-logprobs"])),
        ("/output/includes", json!(["server-tool-invocations"])),
        ("/output/includes", json!(["stream-usage"])),
        ("/output/includes", json!(["citations"])),
        ("/state/persist", json!(true)),
        ("/state/persist", json!(false)),
        ("/state/background", json!({})),
        ("/state/background", json!({"completionWindow": "24h"})),
        (
            "/state/contextManagement",
            json!([{"kind": "clear-tool-uses", "triggerTokens": 100_000, "keep": 3}]),
        ),
        ("/state/background", json!({"webhookRef": "wh_1"})),
        ("/state/contextManagement", json!([{"kind": "clear-reasoning"}])),
        ("/state/contextManagement", json!([{"kind": "compact", "triggerTokens": 150_000}])),
    ]
}

/// A request that asks for one thing.
fn asking(path: &str, value: &Value, requirement: &str) -> UnifiedRequestV2 {
    let source = &ProtocolFamily::from_word("elsewhere:wire");
    let text = |number: usize, role: &str| {
        let part = json!({"partId": format!("op.i{number}.p0"), "kind": "text", "text": "hi"});
        item(source, number, role, &json!({"kind": "message", "parts": [part]}))
    };
    let mut items = vec![text(0, "user")];
    if path.ends_with("prefill") {
        let mut begun = text(1, "assistant");
        begun["status"] = json!("in-progress");
        items.push(begun);
    }
    let tool = json!({"toolId": "op.t0", "kind": "function", "execution": "client", "portability": "portable", "name": "f",
        "inputSchema": {"type": "object", "properties": {}}});
    let mut record = serde_json::to_value(request(source, &items, &[tool])).unwrap();
    let mut at = &mut record;
    for member in path.trim_start_matches('/').split('/') {
        if at.get(member).is_none() {
            at[member] = json!({});
        }
        at = &mut at[member];
    }
    *at = json!({"value": value, "requirement": requirement});
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}: {record}"))
}

/// Whether the wire says what is wished: as it is read again, or in a way that is no weaker.
fn is_met(family: &ProtocolFamily, path: &str, wanted: &Value, record: &Value) -> bool {
    let again = record.pointer(path).map(|intent| plain(&intent["value"]));
    if again.as_ref() == Some(&plain(wanted)) {
        return true;
    }
    let holds_all = |always: &[&str]| {
        let said = again.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        let all = wanted.as_array().unwrap();
        all.iter()
            .all(|word| said.contains(word) || always.contains(&word.as_str().unwrap()))
    };
    let gemini = matches!(
        family.as_str(),
        "gemini-generate-content" | "vertex-gemini" | "antigravity" | "gemini-interactions"
    );
    match path {
        // Free text is what every wire gives when it is asked for nothing else.
        "/output/format" if wanted["kind"] == "text" => again.is_none(),
        // A name, and enforcement where nobody spoke of it, are more than was wished; names and descriptions bind no answer.
        "/output/format" if wanted["kind"] == "json-schema" => again.is_some_and(|again| {
            let enforced = wanted["strict"] != true
                || again["strict"] == true
                || family.as_str() == "gemini-generate-content"
                || family.as_str() == "vertex-gemini";
            again["kind"] == "json-schema" && again["schema"] == plain(&wanted["schema"]) && enforced
        }),
        // These answers are given in any case, and an unstreamed one always counts.
        "/output/includes" if family.as_str() == "openai-responses" => holds_all(&["stream-usage", "citations"]),
        "/output/includes" if family.as_str() == "openai-chat" => holds_all(&["stream-usage"]),
        // The model decides by itself unless it is told otherwise.
        "/generation/reasoning/mode" if gemini => *wanted != "off" && record["generation"]["reasoning"]["mode"]["value"] != "off",
        "/generation/reasoning/mode" if family.as_str() == "anthropic-messages" => *wanted == "auto" && again == Some(json!("on")),
        "/generation/reasoning/effort" if *wanted == "none" => record["generation"]["reasoning"]["mode"]["value"] == "off",
        "/generation/reasoning/summary" if family.as_str() == "openai-responses" => *wanted == "none" && again.is_none(),
        "/generation/logprobs" if family.as_str() == "openai-responses" => {
            wanted["enabled"] == false && again.is_none()
                || wanted.get("top").is_none() && again.is_some_and(|again| again["enabled"] == true)
        }
        // What stores nothing needs no order not to.
        "/state/persist" => *wanted == false && again.is_none() && (gemini || family.as_str() == "anthropic-messages"),
        _ => false,
    }
}

/// Models whose generation decides what a wire may say, and one that nobody knows.
const MODELS: &[&str] = &["m", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-3-pro-preview"];

#[test]
fn a_required_wish_is_met_or_stops_the_request_and_no_other_is_lost_in_silence() {
    throughline_format::clause!("GEN-03");
    let mut weakened = Vec::new();
    for (family, codec) in codecs() {
        for (path, value) in wishes() {
            let required = MODELS.iter().map(|model| ("required", *model));
            for (strength, model) in required.chain([("preferred", "m"), ("optional", "m")]) {
                let request = asking(path, &value, strength);
                let carried = serde_json::to_value(&request).unwrap();
                assert_eq!(
                    carried.pointer(path).unwrap()["requirement"],
                    strength,
                    "{path} carries its strength"
                );
                let context = EncodeContext {
                    target_model: Some(model.to_owned()),
                    ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
                };
                let encoded = codec.encode_request(&request, &context).unwrap();
                let told: Vec<_> = encoded
                    .loss
                    .entries
                    .iter()
                    .filter(|entry| entry.path.starts_with(path) || path.starts_with(&entry.path))
                    .collect();
                let stops = encoded.loss.is_unsupported() && told.iter().any(|entry| entry.severity == LossSeverity::Error);
                let again = codec.decode_request(encoded.body.as_bytes(), &DecodeContext::offline()).unwrap();
                let met = is_met(family, path, &value, &serde_json::to_value(&again.unified).unwrap());
                if !met && (strength == "required" && !stops || told.is_empty()) {
                    weakened.push(format!("{family} {model} {strength} {path} = {value}: {told:?}: {}", encoded.body));
                }
                assert!(
                    strength == "required" || !stops,
                    "{family} stops for what is only {strength}: {path} = {value}"
                );
            }
        }
    }
    assert!(weakened.is_empty(), "weakened:\n{}", weakened.join("\n"));
}

#[test]
fn every_field_of_generation_and_output_carries_its_own_strength() {
    throughline_format::clause!("GEN-03");
    let mut all = members(UnifiedGenerationIntent::RECORD, "/generation");
    all.extend(members(UnifiedOutputIntent::RECORD, "/output"));
    let tried: BTreeSet<&str> = wishes().into_iter().map(|(path, _)| path).collect();
    let untried: Vec<_> = all.iter().filter(|path| !tried.contains(path.as_str())).collect();
    assert!(untried.is_empty(), "no wish tries {untried:?}");
    assert!(all.len() > 25, "{all:?}");
}

/// Words of a later version, at every place that takes words which this one does not know.
fn later() -> Vec<(&'static str, Value)> {
    vec![
        ("/generation/reasoning/mode", json!("elsewhere:later")),
        ("/generation/reasoning/effort", json!("elsewhere:later")),
        ("/generation/serviceTier", json!("elsewhere:later")),
        (
            "/output/format",
            json!({"kind": "grammar", "syntax": "elsewhere:later", "definition": "a"}),
        ),
        ("/output/verbosity", json!("elsewhere:later")),
        ("/output/includes", json!(["elsewhere:later"])),
        ("/state/contextManagement", json!([{"kind": "elsewhere:later"}])),
    ]
}

#[test]
fn what_nobody_knows_is_kept_in_the_record_and_stops_a_projection_that_needs_it() {
    throughline_format::clause!("VER-03");
    let mut wrong = Vec::new();
    for (family, codec) in codecs() {
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let mut check = |what: &str, place: &str, strength: &str, request: &UnifiedRequestV2| {
            let encoded = codec.encode_request(request, &context).unwrap();
            let told = encoded.loss.entries.iter().any(|entry| entry.path.starts_with(place));
            let fits = encoded.loss.is_unsupported() == (strength == "required") && told && !encoded.body.contains("elsewhere:later");
            if !fits {
                wrong.push(format!("{family}: {strength} {what}: {:?}: {}", encoded.loss, encoded.body));
            }
        };
        for strength in ["required", "preferred", "optional"] {
            for (path, value) in later() {
                let request = asking(path, &value, strength);
                // The record keeps the word and writes it again.
                let text = serde_json::to_string(&request).unwrap();
                assert!(text.contains("elsewhere:later"), "{text}");
                assert_eq!(decode_slice::<UnifiedRequestV2>(text.as_bytes()).unwrap(), request);
                check(path, path, strength, &request);
            }
            let mut record = serde_json::to_value(asking("/output/verbosity", &json!("low"), "optional")).unwrap();
            record["tools"] = json!([{"toolId": "op.t0", "kind": "elsewhere:later", "execution": "provider", "portability": "owner-bound",
                "name": "elsewhere_later", "requirement": strength}]);
            let request = decode_slice(record.to_string().as_bytes()).unwrap();
            check("tool", "/tools/0", strength, &request);
        }
        // Data of a later schema is referenced and never looked into: with it and without it the same is sent.
        let mut record = serde_json::to_value(asking("/output/verbosity", &json!("low"), "optional")).unwrap();
        let bare = decode_slice(record.to_string().as_bytes()).unwrap();
        record["conversation"]["items"][0]["providerData"] = json!([{"profile": {"family": family.as_str()}, "scope": "portable-annotation",
            "schema": "of-a-later/version@3", "resourceId": "op.i0.r9"}]);
        let with_data: UnifiedRequestV2 = decode_slice(record.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&with_data).unwrap(), record, "kept and written again");
        let later = |request: &UnifiedRequestV2| {
            let private: Arc<dyn PrivateState> = Arc::new(Later);
            let context = EncodeContext {
                private,
                ..context.clone()
            };
            codec.encode_request(request, &context).unwrap().body
        };
        assert_eq!(later(&with_data), later(&bare), "{family}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Hands out an order for whoever would obey it.
struct Later;

impl PrivateState for Later {
    fn payload(&self, resource_id: &UnifiedId) -> Option<bytes::Bytes> {
        (resource_id.as_str() == "op.i0.r9").then(|| bytes::Bytes::from_static(b"{\"entries\":[{\"pointer\":\"/x\",\"value\":\"run\"}]}"))
    }
}
