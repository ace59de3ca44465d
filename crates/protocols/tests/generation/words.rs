//! The words of each wire for what is asked for, read and written, and as captured requests say it.

use crate::support::samples::{codecs, with};
use crate::support::{Everything, captured_requests};
use crate::{members, plain};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use throughline_format::UnifiedGenerationIntent;
use throughline_format::shape::ShapedRecord;
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext};

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
            (
                json!({"thinking": {"type": "disabled"}}),
                "/generation/reasoning/mode",
                json!("off"),
            ),
            (json!({"thinking": {"type": "adaptive"}}), "/generation/reasoning/mode", json!("on")),
            (
                json!({"thinking": {"type": "enabled", "budget_tokens": 1500}}),
                "/generation/reasoning/budgetTokens",
                json!(1500),
            ),
            (
                json!({"output_config": {"effort": "high"}}),
                "/generation/reasoning/effort",
                json!("high"),
            ),
            (
                json!({"thinking": {"type": "adaptive", "display": "omitted"}}),
                "/generation/reasoning/summary",
                json!("none"),
            ),
            (
                json!({"tools": [{"name": "f", "input_schema": {"type": "object"}}],
                    "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
                "/generation/parallelTools",
                json!("one-at-a-time"),
            ),
            (
                json!({"service_tier": "standard_only"}),
                "/generation/serviceTier",
                json!("standard"),
            ),
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
            (
                json!({"logit_bias": {"50256": -100}}),
                "/generation/logitBias",
                json!({"50256": -100}),
            ),
            (
                json!({"logprobs": true, "top_logprobs": 3}),
                "/generation/logprobs",
                json!({"enabled": true, "top": 3}),
            ),
            (json!({"reasoning_effort": "xhigh"}), "/generation/reasoning/effort", json!("xhigh")),
            (
                json!({"tools": [tool()], "parallel_tool_calls": false}),
                "/generation/parallelTools",
                json!("one-at-a-time"),
            ),
            (json!({"service_tier": "flex"}), "/generation/serviceTier", json!("flex")),
            (
                json!({"prediction": {"type": "content", "content": "guess"}}),
                "/generation/prediction",
                json!({"parts": [{"kind": "text", "text": "guess"}]}),
            ),
            (
                json!({"modalities": ["text", "audio"]}),
                "/generation/outputModalities",
                json!(["text", "audio"]),
            ),
            (
                json!({"audio": {"voice": "alloy", "format": "wav"}}),
                "/generation/media/speech",
                json!({"voices": [{"voice": "alloy"}], "format": "wav"}),
            ),
            (
                json!({"response_format": {"type": "text"}}),
                "/output/format",
                json!({"kind": "text"}),
            ),
            (
                json!({"response_format": {"type": "json_object"}}),
                "/output/format",
                json!({"kind": "json-object"}),
            ),
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
            (
                json!({"reasoning": {"effort": "minimal"}}),
                "/generation/reasoning/effort",
                json!("minimal"),
            ),
            (
                json!({"reasoning": {"summary": "detailed"}}),
                "/generation/reasoning/summary",
                json!("detailed"),
            ),
            (
                json!({"parallel_tool_calls": false}),
                "/generation/parallelTools",
                json!("one-at-a-time"),
            ),
            (json!({"max_tool_calls": 3}), "/generation/maxToolCalls", json!(3)),
            (json!({"service_tier": "priority"}), "/generation/serviceTier", json!("priority")),
            (
                json!({"text": {"format": {"type": "text"}}}),
                "/output/format",
                json!({"kind": "text"}),
            ),
            (
                json!({"text": {"format": {"type": "json_object"}}}),
                "/output/format",
                json!({"kind": "json-object"}),
            ),
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
                json!([
                    "search-sources",
                    "code-outputs",
                    "file-search-results",
                    "computer-screenshots",
                    "input-image-urls",
                    "reasoning-private-state"
                ]),
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
                (
                    config(json!({"thinkingConfig": {"thinkingBudget": 1500}})),
                    "/generation/reasoning/budgetTokens",
                    json!(1500),
                ),
                (
                    config(json!({"thinkingConfig": {"thinkingBudget": 0}})),
                    "/generation/reasoning/mode",
                    json!("off"),
                ),
                (
                    config(json!({"thinkingConfig": {"thinkingLevel": "HIGH"}})),
                    "/generation/reasoning/effort",
                    json!("high"),
                ),
                (
                    config(json!({"thinkingConfig": {"includeThoughts": true}})),
                    "/generation/reasoning/summary",
                    json!("auto"),
                ),
                (
                    config(json!({"responseModalities": ["TEXT", "IMAGE"]})),
                    "/generation/outputModalities",
                    json!(["text", "image"]),
                ),
                (
                    config(json!({"mediaResolution": "MEDIA_RESOLUTION_LOW"})),
                    "/generation/media/inputResolution",
                    json!("low"),
                ),
                (
                    config(
                        json!({"speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}, "languageCode": "de-DE"}}),
                    ),
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
                (
                    config(json!({"responseMimeType": "application/json"})),
                    "/output/format",
                    json!({"kind": "json-object"}),
                ),
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
                (
                    config(json!({"responseMimeType": "audio/wav"})),
                    "/output/format",
                    json!({"kind": "media", "mediaType": "audio/wav"}),
                ),
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
            (
                steps(json!({"thinking_level": "high"})),
                "/generation/reasoning/effort",
                json!("high"),
            ),
            (
                steps(json!({"thinking_summaries": "auto"})),
                "/generation/reasoning/summary",
                json!("auto"),
            ),
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
            let decoded = codec
                .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
                .unwrap();
            let record = serde_json::to_value(&decoded.unified).unwrap();
            let found = record.pointer(path).map(|intent| plain(&intent["value"]));
            assert_eq!(found, Some(plain(&expected)), "{family}: {members} is {path}");
            let context = EncodeContext {
                private: Arc::new(Everything::of(&decoded.resources)),
                stream: decoded.stream,
                ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
            };
            let back: Value = serde_json::from_str(&codec.encode_request(&decoded.unified, &context).unwrap().body).unwrap();
            for (member, value) in members
                .as_object()
                .unwrap()
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "stream" | "messages" | "tools"))
            {
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
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["/output/format", "/output/includes", "/output/verbosity"]
    );
}

/// Members of captured bodies that are wishes, by the pointer of each.
const CAPTURED: &[(&str, &str, &str)] = &[
    ("anthropic-messages", "/max_tokens", "/generation/maxOutputTokens"),
    ("anthropic-messages", "/temperature", "/generation/temperature"),
    ("anthropic-messages", "/top_p", "/generation/topP"),
    ("anthropic-messages", "/top_k", "/generation/topK"),
    ("anthropic-messages", "/stop_sequences", "/generation/stopSequences"),
    (
        "anthropic-messages",
        "/thinking/budget_tokens",
        "/generation/reasoning/budgetTokens",
    ),
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
    (
        "gemini-generate-content",
        "/generationConfig/maxOutputTokens",
        "/generation/maxOutputTokens",
    ),
    (
        "gemini-generate-content",
        "/generationConfig/temperature",
        "/generation/temperature",
    ),
    ("gemini-generate-content", "/generationConfig/topP", "/generation/topP"),
    ("gemini-generate-content", "/generationConfig/topK", "/generation/topK"),
    (
        "gemini-generate-content",
        "/generationConfig/stopSequences",
        "/generation/stopSequences",
    ),
    ("gemini-generate-content", "/generationConfig/seed", "/generation/seed"),
    (
        "gemini-generate-content",
        "/generationConfig/thinkingConfig/thinkingBudget",
        "/generation/reasoning",
    ),
    (
        "gemini-generate-content",
        "/generationConfig/responseJsonSchema",
        "/output/format/value/schema",
    ),
    ("gemini-generate-content", "/safetySettings", "/generation/safetySettings"),
    ("vertex-gemini", "/generationConfig/maxOutputTokens", "/generation/maxOutputTokens"),
    ("vertex-gemini", "/generationConfig/temperature", "/generation/temperature"),
    (
        "antigravity",
        "/request/generationConfig/maxOutputTokens",
        "/generation/maxOutputTokens",
    ),
    ("antigravity", "/request/generationConfig/temperature", "/generation/temperature"),
    (
        "gemini-interactions",
        "/generation_config/max_output_tokens",
        "/generation/maxOutputTokens",
    ),
    ("gemini-interactions", "/generation_config/temperature", "/generation/temperature"),
];

#[test]
fn captured_wishes_are_read_as_they_are_written() {
    throughline_format::clause!("GEN-01");
    throughline_format::clause!("GEN-02");
    let mut seen = std::collections::BTreeMap::new();
    for (family, _) in codecs() {
        let Some(captured) = captured_requests(family) else { return };
        for (file, body, decoded) in captured {
            let record = serde_json::to_value(&decoded.unified).unwrap();
            for row in CAPTURED.iter().filter(|(of, ..)| *of == family.as_str()) {
                let (_, member, path) = row;
                let Some(wire) = body.pointer(member).filter(|value| !value.is_null()) else {
                    continue;
                };
                let found = record
                    .pointer(path)
                    .map(|found| found.get("requirement").map_or(found, |_| &found["value"]));
                let same = found.is_some_and(|found| plain(found) == plain(wire) || *path == "/generation/reasoning");
                assert!(same, "{}: {member} = {wire} is {path}, not {found:?}", file.display());
                *seen.entry(row).or_insert(0) += 1;
            }
        }
    }
    assert!(seen.values().sum::<i32>() > 700, "{seen:?}");
}
