//! What a request asks for: every field of generation and output, through every protocol that has it and past every one that has not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::samples::{codecs, item, request, with};
use support::{Everything, corpus, files};
use std::collections::BTreeSet;
use throughline_format::intent::UnifiedOutputIntent;
use throughline_format::json::decode_slice;
use throughline_format::shape::{RecordShape, Shape, ShapedRecord};
use throughline_format::{LossSeverity, ProtocolFamily, UnifiedGenerationIntent, UnifiedRequestV2};
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext};

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
        ("/generation/safetySettings", json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}])),
        ("/generation/safetySettings", json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH", "method": "SEVERITY"}])),
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
        ("/generation/media/speech", json!({"voices": [{"voice": "Kore"}], "language": "de-DE"})),
        ("/generation/media/speech", json!({"voices": [{"voice": "Kore", "speaker": "A"}, {"voice": "Puck", "speaker": "B"}]})),
        ("/generation/media/image", json!({"aspectRatio": "16:9"})),
        ("/generation/media/image", json!({"size": "1024x1024", "quality": "high", "format": "png", "background": "opaque", "count": 2})),
        ("/generation/media/video", json!({"aspectRatio": "16:9", "resolution": "720p", "durationSeconds": 5})),
        ("/output/format", json!({"kind": "text"})),
        ("/output/format", json!({"kind": "json-object"})),
        ("/output/format", json!({"kind": "json-schema", "schema": schema})),
        ("/output/format", json!({"kind": "json-schema", "schema": schema, "name": "n"})),
        ("/output/format", json!({"kind": "json-schema", "schema": schema, "name": "n", "description": "what it is"})),
        ("/output/format", json!({"kind": "json-schema", "schema": schema, "name": "n", "strict": true})),
        ("/output/format", json!({"kind": "json-schema", "schema": schema, "name": "n", "strict": false})),
        ("/output/format", json!({"kind": "grammar", "syntax": "lark", "definition": "start: \"a\""})),
        ("/output/format", json!({"kind": "grammar", "syntax": "regex", "definition": "a+"})),
        ("/output/format", json!({"kind": "grammar", "syntax": "enum", "definition": "{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}"})),
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
        ("/state/contextManagement", json!([{"kind": "clear-tool-uses", "triggerTokens": 100000, "keep": 3}])),
        ("/state/background", json!({"webhookRef": "wh_1"})),
        ("/state/contextManagement", json!([{"kind": "clear-reasoning"}])),
        ("/state/contextManagement", json!([{"kind": "compact", "triggerTokens": 150000}])),
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

/// A value without what is no wish: IDs that the reader gives, and whether a figure has a fraction.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let wishes = members.iter().filter(|(name, _)| !matches!(name.as_str(), "partId" | "itemId"));
            Value::Object(wishes.map(|(name, member)| (name.clone(), plain(member))).collect())
        }
        Value::Array(elements) => elements.iter().map(plain).collect(),
        Value::Number(figure) => json!(figure.as_f64()),
        other => other.clone(),
    }
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
        all.iter().all(|word| said.contains(word) || always.contains(&word.as_str().unwrap()))
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
            let enforced = wanted["strict"] != true || again["strict"] == true || family.as_str() == "gemini-generate-content" || family.as_str() == "vertex-gemini";
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
            wanted["enabled"] == false && again.is_none() || wanted.get("top").is_none() && again.is_some_and(|again| again["enabled"] == true)
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
                assert_eq!(carried.pointer(path).unwrap()["requirement"], strength, "{path} carries its strength");
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
                assert!(strength == "required" || !stops, "{family} stops for what is only {strength}: {path} = {value}");
            }
        }
    }
    assert!(weakened.is_empty(), "weakened:\n{}", weakened.join("\n"));
}

/// Names of the members of a record that are wishes, those of the records in it included.
fn members(record: &'static RecordShape, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for member in record.members {
        let at = format!("{path}/{}", member.name);
        match (member.shape)() {
            Shape::Record(inner) if inner.name != "UnifiedIntent" => found.extend(members(inner, &at)),
            _ => {
                assert!(member.written.starts_with("UnifiedIntent<"), "{at} carries no strength");
                found.push(at);
            }
        }
    }
    found
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

/// Members of a body, the field of the record that they are, and its value there.
type Row = (Value, &'static str, Value);

fn rows(family: &str) -> Vec<Row> {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let config = |members: Value| json!({"generationConfig": members});
    let steps = |members: Value| json!({"generation_config": members});
    let tool = || json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}});
    match family {
        "anthropic-messages" => vec![
            (json!({"max_tokens": 77}), "/generation/maxOutputTokens", json!(77)),
            (json!({"temperature": 0.5}), "/generation/temperature", json!(0.5)),
            (json!({"top_p": 0.5}), "/generation/topP", json!(0.5)),
            (json!({"top_k": 5}), "/generation/topK", json!(5)),
            (json!({"stop_sequences": ["x"]}), "/generation/stopSequences", json!(["x"])),
            (json!({"thinking": {"type": "disabled"}}), "/generation/reasoning/mode", json!("off")),
            (json!({"thinking": {"type": "adaptive"}}), "/generation/reasoning/mode", json!("on")),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 1500}}), "/generation/reasoning/budgetTokens", json!(1500)),
            (json!({"output_config": {"effort": "high"}}), "/generation/reasoning/effort", json!("high")),
            (json!({"thinking": {"type": "adaptive", "display": "omitted"}}), "/generation/reasoning/summary", json!("none")),
            (
                json!({"tools": [{"name": "f", "input_schema": {"type": "object"}}],
                    "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
                "/generation/parallelTools",
                json!("one-at-a-time"),
            ),
            (json!({"service_tier": "standard_only"}), "/generation/serviceTier", json!("standard")),
            (
                json!({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "So"}]}),
                "/generation/prefill",
                json!({"itemId": "op_offline.i1"}),
            ),
            (
                json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
                "/output/format",
                json!({"kind": "json-schema", "schema": schema, "strict": true}),
            ),
        ],
        "openai-chat" => vec![
            (json!({"max_completion_tokens": 77}), "/generation/maxOutputTokens", json!(77)),
            (json!({"max_tokens": 77}), "/generation/maxOutputTokens", json!(77)),
            (json!({"temperature": 0.5}), "/generation/temperature", json!(0.5)),
            (json!({"top_p": 0.5}), "/generation/topP", json!(0.5)),
            (json!({"stop": ["x", "y"]}), "/generation/stopSequences", json!(["x", "y"])),
            (json!({"n": 2}), "/generation/candidateCount", json!(2)),
            (json!({"seed": 7}), "/generation/seed", json!(7)),
            (json!({"presence_penalty": 0.5}), "/generation/presencePenalty", json!(0.5)),
            (json!({"frequency_penalty": 0.5}), "/generation/frequencyPenalty", json!(0.5)),
            (json!({"logit_bias": {"50256": -100}}), "/generation/logitBias", json!({"50256": -100})),
            (
                json!({"logprobs": true, "top_logprobs": 3}),
                "/generation/logprobs",
                json!({"enabled": true, "top": 3}),
            ),
            (json!({"reasoning_effort": "xhigh"}), "/generation/reasoning/effort", json!("xhigh")),
            (json!({"tools": [tool()], "parallel_tool_calls": false}), "/generation/parallelTools", json!("one-at-a-time")),
            (json!({"service_tier": "flex"}), "/generation/serviceTier", json!("flex")),
            (
                json!({"prediction": {"type": "content", "content": "guess"}}),
                "/generation/prediction",
                json!({"parts": [{"kind": "text", "text": "guess"}]}),
            ),
            (json!({"modalities": ["text", "audio"]}), "/generation/outputModalities", json!(["text", "audio"])),
            (
                json!({"audio": {"voice": "alloy", "format": "wav"}}),
                "/generation/media/speech",
                json!({"voices": [{"voice": "alloy"}], "format": "wav"}),
            ),
            (json!({"response_format": {"type": "text"}}), "/output/format", json!({"kind": "text"})),
            (json!({"response_format": {"type": "json_object"}}), "/output/format", json!({"kind": "json-object"})),
            (
                json!({"response_format": {"type": "json_schema", "json_schema":
                    {"name": "n", "description": "what it is", "schema": schema, "strict": true}}}),
                "/output/format",
                json!({"kind": "json-schema", "name": "n", "description": "what it is", "schema": schema, "strict": true}),
            ),
            (json!({"verbosity": "low"}), "/output/verbosity", json!("low")),
            (
                json!({"stream": true, "stream_options": {"include_usage": true}}),
                "/output/includes",
                json!(["stream-usage"]),
            ),
        ],
        "openai-responses" => vec![
            (json!({"max_output_tokens": 77}), "/generation/maxOutputTokens", json!(77)),
            (json!({"temperature": 0.5}), "/generation/temperature", json!(0.5)),
            (json!({"top_p": 0.5}), "/generation/topP", json!(0.5)),
            (
                json!({"top_logprobs": 3, "include": ["message.output_text.logprobs"]}),
                "/generation/logprobs",
                json!({"enabled": true, "top": 3}),
            ),
            (json!({"reasoning": {"effort": "minimal"}}), "/generation/reasoning/effort", json!("minimal")),
            (json!({"reasoning": {"summary": "detailed"}}), "/generation/reasoning/summary", json!("detailed")),
            (json!({"parallel_tool_calls": false}), "/generation/parallelTools", json!("one-at-a-time")),
            (json!({"max_tool_calls": 3}), "/generation/maxToolCalls", json!(3)),
            (json!({"service_tier": "priority"}), "/generation/serviceTier", json!("priority")),
            (json!({"text": {"format": {"type": "text"}}}), "/output/format", json!({"kind": "text"})),
            (json!({"text": {"format": {"type": "json_object"}}}), "/output/format", json!({"kind": "json-object"})),
            (
                json!({"text": {"format": {"type": "json_schema", "name": "n", "description": "what", "schema": schema, "strict": true}}}),
                "/output/format",
                json!({"kind": "json-schema", "name": "n", "description": "what", "schema": schema, "strict": true}),
            ),
            (json!({"text": {"verbosity": "high"}}), "/output/verbosity", json!("high")),
            (
                json!({"include": ["web_search_call.action.sources", "code_interpreter_call.outputs", "file_search_call.results",
                    "computer_call_output.output.image_url", "message.input_image.image_url", "reasoning.encrypted_content"]}),
                "/output/includes",
                json!(["search-sources", "code-outputs", "file-search-results", "computer-screenshots", "input-image-urls",
                    "reasoning-private-state"]),
            ),
        ],
        "gemini-generate-content" | "vertex-gemini" | "antigravity" => {
            let mut rows = vec![
                (config(json!({"maxOutputTokens": 77})), "/generation/maxOutputTokens", json!(77)),
                (config(json!({"temperature": 0.5})), "/generation/temperature", json!(0.5)),
                (config(json!({"topP": 0.5})), "/generation/topP", json!(0.5)),
                (config(json!({"topK": 5})), "/generation/topK", json!(5)),
                (config(json!({"stopSequences": ["x"]})), "/generation/stopSequences", json!(["x"])),
                (config(json!({"candidateCount": 2})), "/generation/candidateCount", json!(2)),
                (config(json!({"seed": 7})), "/generation/seed", json!(7)),
                (config(json!({"presencePenalty": 0.5})), "/generation/presencePenalty", json!(0.5)),
                (config(json!({"frequencyPenalty": 0.5})), "/generation/frequencyPenalty", json!(0.5)),
                (
                    config(json!({"responseLogprobs": true, "logprobs": 3})),
                    "/generation/logprobs",
                    json!({"enabled": true, "top": 3}),
                ),
                (config(json!({"thinkingConfig": {"thinkingBudget": 1500}})), "/generation/reasoning/budgetTokens", json!(1500)),
                (config(json!({"thinkingConfig": {"thinkingBudget": 0}})), "/generation/reasoning/mode", json!("off")),
                (config(json!({"thinkingConfig": {"thinkingLevel": "HIGH"}})), "/generation/reasoning/effort", json!("high")),
                (config(json!({"thinkingConfig": {"includeThoughts": true}})), "/generation/reasoning/summary", json!("auto")),
                (config(json!({"responseModalities": ["TEXT", "IMAGE"]})), "/generation/outputModalities", json!(["text", "image"])),
                (config(json!({"mediaResolution": "MEDIA_RESOLUTION_LOW"})), "/generation/media/inputResolution", json!("low")),
                (
                    config(json!({"speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}, "languageCode": "de-DE"}})),
                    "/generation/media/speech",
                    json!({"voices": [{"voice": "Kore"}], "language": "de-DE"}),
                ),
                (
                    config(json!({"imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"}})),
                    "/generation/media/image",
                    json!({"aspectRatio": "16:9", "size": "2K"}),
                ),
                (
                    json!({"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}]}),
                    "/generation/safetySettings",
                    json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}]),
                ),
                (config(json!({"responseMimeType": "application/json"})), "/output/format", json!({"kind": "json-object"})),
                (
                    config(json!({"responseMimeType": "application/json", "responseJsonSchema": schema})),
                    "/output/format",
                    json!({"kind": "json-schema", "schema": schema}),
                ),
                (
                    config(json!({"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a", "b"]}})),
                    "/output/format",
                    json!({"kind": "grammar", "syntax": "enum", "definition": "{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}"}),
                ),
                (config(json!({"responseMimeType": "audio/wav"})), "/output/format", json!({"kind": "media", "mediaType": "audio/wav"})),
            ];
            if family == "gemini-generate-content" {
                rows.push((json!({"serviceTier": "flex"}), "/generation/serviceTier", json!("flex")));
            }
            rows
        }
        "gemini-interactions" => vec![
            (steps(json!({"max_output_tokens": 77})), "/generation/maxOutputTokens", json!(77)),
            (steps(json!({"temperature": 0.5})), "/generation/temperature", json!(0.5)),
            (steps(json!({"top_p": 0.5})), "/generation/topP", json!(0.5)),
            (steps(json!({"stop_sequences": ["x"]})), "/generation/stopSequences", json!(["x"])),
            (steps(json!({"seed": 7})), "/generation/seed", json!(7)),
            (steps(json!({"thinking_level": "high"})), "/generation/reasoning/effort", json!("high")),
            (steps(json!({"thinking_summaries": "auto"})), "/generation/reasoning/summary", json!("auto")),
            (json!({"service_tier": "flex"}), "/generation/serviceTier", json!("flex")),
            (
                json!({"response_format": {"type": "text", "mime_type": "application/json"}}),
                "/output/format",
                json!({"kind": "json-object"}),
            ),
            (
                json!({"response_format": {"type": "text", "mime_type": "application/json", "schema": schema}}),
                "/output/format",
                json!({"kind": "json-schema", "schema": schema}),
            ),
        ],
        // A prompt and a chat ask for an answer, and say nothing of how.
        "cursor-sdk" | "vercel-uimessage" => Vec::new(),
        other => panic!("no row for {other}"),
    }
}

/// A body with these members beside a question.
fn body_with(family: &str, members: &Value) -> Value {
    let base = match family {
        "anthropic-messages" => json!({"model": "m", "max_tokens": 2000, "messages": [{"role": "user", "content": "hi"}]}),
        "openai-chat" => json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        "openai-responses" | "gemini-interactions" => json!({"model": "m", "input": "hi"}),
        "antigravity" => {
            let inner = with(&json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}), members);
            return json!({"model": "m", "project": "p", "request": inner});
        }
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    };
    with(&base, members)
}

/// Where the members of a request stand in a body.
fn inner<'a>(family: &str, body: &'a Value) -> &'a Value {
    if family == "antigravity" { &body["request"] } else { body }
}

/// Every wire's own word for every field is read and written.
fn check_rows(of: &str) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for (family, codec) in codecs() {
        let family = family.as_str();
        for (members, path, expected) in rows(family).into_iter().filter(|(_, path, _)| path.starts_with(of)) {
            let body = body_with(family, &members);
            let decoded = codec.decode_request(body.to_string().as_bytes(), &DecodeContext::offline()).unwrap();
            let record = serde_json::to_value(&decoded.unified).unwrap();
            let found = record.pointer(path).map(|intent| plain(&intent["value"]));
            assert_eq!(found, Some(plain(&expected)), "{family}: {members} is {path}");
            let context = EncodeContext {
                private: Arc::new(Everything::of(&decoded.resources)),
                stream: decoded.stream,
                ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
            };
            let back: Value = serde_json::from_str(&codec.encode_request(&decoded.unified, &context).unwrap().body).unwrap();
            for (member, value) in members.as_object().unwrap().iter().filter(|(name, _)| !matches!(name.as_str(), "stream" | "messages" | "tools")) {
                assert_eq!(plain(&inner(family, &back)[member]), plain(value), "{family}: {path} is {member}");
            }
            seen.insert(path);
        }
    }
    seen
}

#[test]
fn every_field_of_generation_is_read_and_written_in_the_words_of_each_wire() {
    throughline_format::clause!("GEN-01");
    let seen = check_rows("/generation");
    // Words of dialects of OpenAI Chat are tried with those dialects; no wire orders a video.
    let elsewhere = ["/generation/minP", "/generation/repetitionPenalty", "/generation/media/video"];
    let all = members(UnifiedGenerationIntent::RECORD, "/generation");
    let untried: Vec<_> = all
        .iter()
        .filter(|path| !seen.contains(path.as_str()) && !elsewhere.contains(&path.as_str()))
        .collect();
    assert!(untried.is_empty(), "no wire is tried with {untried:?}");
}

#[test]
fn every_form_of_the_answer_is_read_and_written_in_the_words_of_each_wire() {
    throughline_format::clause!("GEN-02");
    let seen = check_rows("/output");
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["/output/format", "/output/includes", "/output/verbosity"]);
}

/// Members of captured bodies that are wishes, by the pointer of each.
const CAPTURED: &[(&str, &str, &str)] = &[
    ("anthropic-messages", "/max_tokens", "/generation/maxOutputTokens"),
    ("anthropic-messages", "/temperature", "/generation/temperature"),
    ("anthropic-messages", "/top_p", "/generation/topP"),
    ("anthropic-messages", "/top_k", "/generation/topK"),
    ("anthropic-messages", "/stop_sequences", "/generation/stopSequences"),
    ("anthropic-messages", "/thinking/budget_tokens", "/generation/reasoning/budgetTokens"),
    ("anthropic-messages", "/output_config/effort", "/generation/reasoning/effort"),
    ("anthropic-messages", "/output_config/format/schema", "/output/format/value/schema"),
    ("openai-chat", "/max_tokens", "/generation/maxOutputTokens"),
    ("openai-chat", "/max_completion_tokens", "/generation/maxOutputTokens"),
    ("openai-chat", "/temperature", "/generation/temperature"),
    ("openai-chat", "/top_p", "/generation/topP"),
    ("openai-chat", "/n", "/generation/candidateCount"),
    ("openai-chat", "/seed", "/generation/seed"),
    ("openai-chat", "/presence_penalty", "/generation/presencePenalty"),
    ("openai-chat", "/frequency_penalty", "/generation/frequencyPenalty"),
    ("openai-chat", "/logprobs", "/generation/logprobs/value/enabled"),
    ("openai-chat", "/top_logprobs", "/generation/logprobs/value/top"),
    ("openai-chat", "/reasoning_effort", "/generation/reasoning/effort"),
    ("openai-chat", "/modalities", "/generation/outputModalities"),
    ("openai-chat", "/response_format/json_schema/schema", "/output/format/value/schema"),
    ("openai-chat", "/verbosity", "/output/verbosity"),
    ("openai-responses", "/max_output_tokens", "/generation/maxOutputTokens"),
    ("openai-responses", "/temperature", "/generation/temperature"),
    ("openai-responses", "/top_p", "/generation/topP"),
    ("openai-responses", "/reasoning/effort", "/generation/reasoning/effort"),
    ("openai-responses", "/reasoning/summary", "/generation/reasoning/summary"),
    ("openai-responses", "/max_tool_calls", "/generation/maxToolCalls"),
    ("openai-responses", "/text/format/schema", "/output/format/value/schema"),
    ("openai-responses", "/text/verbosity", "/output/verbosity"),
    ("gemini-generate-content", "/generationConfig/maxOutputTokens", "/generation/maxOutputTokens"),
    ("gemini-generate-content", "/generationConfig/temperature", "/generation/temperature"),
    ("gemini-generate-content", "/generationConfig/topP", "/generation/topP"),
    ("gemini-generate-content", "/generationConfig/topK", "/generation/topK"),
    ("gemini-generate-content", "/generationConfig/stopSequences", "/generation/stopSequences"),
    ("gemini-generate-content", "/generationConfig/seed", "/generation/seed"),
    ("gemini-generate-content", "/generationConfig/thinkingConfig/thinkingBudget", "/generation/reasoning"),
    ("gemini-generate-content", "/generationConfig/responseJsonSchema", "/output/format/value/schema"),
    ("gemini-generate-content", "/safetySettings", "/generation/safetySettings"),
    ("vertex-gemini", "/generationConfig/maxOutputTokens", "/generation/maxOutputTokens"),
    ("vertex-gemini", "/generationConfig/temperature", "/generation/temperature"),
    ("antigravity", "/request/generationConfig/maxOutputTokens", "/generation/maxOutputTokens"),
    ("antigravity", "/request/generationConfig/temperature", "/generation/temperature"),
    ("gemini-interactions", "/generation_config/max_output_tokens", "/generation/maxOutputTokens"),
    ("gemini-interactions", "/generation_config/temperature", "/generation/temperature"),
];

#[test]
fn captured_wishes_are_read_as_they_are_written() {
    throughline_format::clause!("GEN-01");
    throughline_format::clause!("GEN-02");
    let mut seen = std::collections::BTreeMap::new();
    for (family, codec) in codecs() {
        let Some(folder) = corpus(&format!("wire/{family}/requests")) else { return };
        for file in files(&folder, ".json") {
            let bytes = std::fs::read(&file).unwrap();
            let Ok(body) = serde_json::from_slice::<Value>(&bytes) else { continue };
            let Ok(decoded) = codec.decode_request(&bytes, &DecodeContext::offline()) else { continue };
            let record = serde_json::to_value(&decoded.unified).unwrap();
            for row in CAPTURED.iter().filter(|(of, ..)| *of == family.as_str()) {
                let (_, member, path) = row;
                let Some(wire) = body.pointer(member).filter(|value| !value.is_null()) else { continue };
                let found = record.pointer(path).map(|found| found.get("requirement").map_or(found, |_| &found["value"]));
                let same = found.is_some_and(|found| plain(found) == plain(wire) || *path == "/generation/reasoning");
                assert!(same, "{}: {member} = {wire} is {path}, not {found:?}", file.display());
                *seen.entry(row).or_insert(0) += 1;
            }
        }
    }
    assert!(seen.values().sum::<i32>() > 900, "{seen:?}");
}
