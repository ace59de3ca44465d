//! Gemini GenerateContent with its dialects: requests both ways, one line per field; histories that the target would refuse.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::Everything;
use throughline_format::{ProtocolFamily, UnifiedRequestV2};
use throughline_protocols::gemini_generate_content::GeminiGenerateContent;
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, codec_of};

const GEMINI: GeminiGenerateContent = GeminiGenerateContent::GEMINI;
const VERTEX: GeminiGenerateContent = GeminiGenerateContent::VERTEX;
const ANTIGRAVITY: GeminiGenerateContent = GeminiGenerateContent::ANTIGRAVITY;

fn decode(codec: &dyn Codec, body: &Value) -> DecodedRequest {
    codec
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap_or_else(|e| panic!("{e}: {body}"))
}

fn encode(codec: &dyn Codec, request: &UnifiedRequestV2, context: &EncodeContext) -> (Value, Vec<String>) {
    let encoded = codec.encode_request(request, context).unwrap();
    let words = encoded.loss.entries.iter().map(|e| format!("{} {}", e.feature, e.path)).collect();
    (serde_json::from_str(&encoded.body).unwrap(), words)
}

/// The same owner's request comes back as it was, `snake_case` names aside.
fn round_trip(codec: &dyn Codec, body: &Value) -> Value {
    let decoded = decode(codec, body);
    let context = EncodeContext {
        private: Arc::new(Everything::of(&decoded.resources)),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    encode(codec, &decoded.unified, &context).0
}

/// A request of another protocol, for a model.
fn projected(codec: &dyn Codec, family: &ProtocolFamily, body: &Value, model: &str) -> (Value, Vec<String>) {
    let source = codec_of(family).unwrap();
    let decoded = decode(source.as_ref(), body);
    let context = EncodeContext {
        target_model: Some(model.to_owned()),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    encode(codec, &decoded.unified, &context)
}

fn chat(messages: &Value) -> Value {
    json!({"model": "m", "messages": messages})
}

// ---- fields ----------------------------------------------------------------------------------------------------

#[test]
fn every_field_comes_back_and_has_its_place_in_the_record() {
    // Member of the body, its value, pointer into the record, value there.
    let cases = [
        (
            "generationConfig",
            json!({"maxOutputTokens": 9}),
            "/generation/maxOutputTokens/value",
            json!(9),
        ),
        (
            "generationConfig",
            json!({"temperature": 0.5}),
            "/generation/temperature/value",
            json!(0.5),
        ),
        ("generationConfig", json!({"topP": 0.5}), "/generation/topP/value", json!(0.5)),
        ("generationConfig", json!({"topK": 40}), "/generation/topK/value", json!(40.0)),
        (
            "generationConfig",
            json!({"candidateCount": 2}),
            "/generation/candidateCount/value",
            json!(2),
        ),
        (
            "generationConfig",
            json!({"stopSequences": ["x"]}),
            "/generation/stopSequences/value/0",
            json!("x"),
        ),
        ("generationConfig", json!({"seed": 7}), "/generation/seed/value", json!(7)),
        (
            "generationConfig",
            json!({"presencePenalty": 0.1}),
            "/generation/presencePenalty/value",
            json!(0.1),
        ),
        (
            "generationConfig",
            json!({"frequencyPenalty": 0.2}),
            "/generation/frequencyPenalty/value",
            json!(0.2),
        ),
        (
            "generationConfig",
            json!({"responseLogprobs": true, "logprobs": 3}),
            "/generation/logprobs/value/top",
            json!(3),
        ),
        (
            "generationConfig",
            json!({"responseMimeType": "application/json"}),
            "/output/format/value/kind",
            json!("json-object"),
        ),
        (
            "generationConfig",
            json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}),
            "/output/format/value/schema/type",
            json!("object"),
        ),
        (
            "generationConfig",
            json!({"responseMimeType": "application/json", "responseSchema": {"type": "STRING", "nullable": true}}),
            "/output/format/value/schema/type",
            json!(["string", "null"]),
        ),
        (
            "generationConfig",
            json!({"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}}),
            "/output/format/value/syntax",
            json!("enum"),
        ),
        (
            "generationConfig",
            json!({"responseModalities": ["TEXT", "IMAGE"]}),
            "/generation/outputModalities/value/1",
            json!("image"),
        ),
        (
            "generationConfig",
            json!({"speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}, "languageCode": "de"}}),
            "/generation/media/speech/value/voices/0/voice",
            json!("Kore"),
        ),
        (
            "generationConfig",
            json!({"speechConfig": {"multiSpeakerVoiceConfig": {"speakerVoiceConfigs": [
                {"speaker": "A", "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}]}}}),
            "/generation/media/speech/value/voices/0/speaker",
            json!("A"),
        ),
        (
            "generationConfig",
            json!({"imageConfig": {"aspectRatio": "1:1", "imageSize": "2K"}}),
            "/generation/media/image/value/size",
            json!("2K"),
        ),
        (
            "generationConfig",
            json!({"mediaResolution": "MEDIA_RESOLUTION_LOW"}),
            "/generation/media/inputResolution/value",
            json!("low"),
        ),
        (
            "generationConfig",
            json!({"thinkingConfig": {"thinkingBudget": 0}}),
            "/generation/reasoning/mode/value",
            json!("off"),
        ),
        (
            "generationConfig",
            json!({"thinkingConfig": {"thinkingBudget": -1}}),
            "/generation/reasoning/mode/value",
            json!("auto"),
        ),
        (
            "generationConfig",
            json!({"thinkingConfig": {"thinkingBudget": 512}}),
            "/generation/reasoning/budgetTokens/value",
            json!(512),
        ),
        (
            "generationConfig",
            json!({"thinkingConfig": {"thinkingLevel": "XHIGH"}}),
            "/generation/reasoning/effort/value",
            json!("xhigh"),
        ),
        (
            "generationConfig",
            json!({"thinkingConfig": {"includeThoughts": true}}),
            "/generation/reasoning/summary/value",
            json!("auto"),
        ),
        ("generationConfig", json!({}), "/generation", json!({})),
        ("generationConfig", json!({"audioTimestamp": true}), "/generation", json!({})),
        ("serviceTier", json!("flex"), "/generation/serviceTier/value", json!("flex")),
        ("store", json!(false), "/state/persist/requirement", json!("required")),
        ("labels", json!({"team": "a"}), "/metadata/labels/team", json!("a")),
        (
            "cachedContent",
            json!("cachedContents/1"),
            "/state/resources/0/resourceType",
            json!("cached-content"),
        ),
        (
            "continuationToken",
            json!("AAAA"),
            "/conversation/continuations/0/resourceType",
            json!("response"),
        ),
        (
            "safetySettings",
            json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]),
            "/generation/safetySettings/value/0/threshold",
            json!("BLOCK_NONE"),
        ),
        (
            "systemInstruction",
            json!({"parts": [{"text": "be"}], "role": "user"}),
            "/conversation/items/0/placement",
            json!("instructions"),
        ),
        (
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "AUTO"}}),
            "/toolChoice/kind",
            json!("auto"),
        ),
        (
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "NONE"}}),
            "/toolChoice/kind",
            json!("none"),
        ),
        (
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "ANY"}}),
            "/toolChoice/kind",
            json!("required"),
        ),
        (
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "VALIDATED"}}),
            "/toolChoice/validated",
            json!(true),
        ),
        (
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}),
            "/toolChoice/tool/name",
            json!("f"),
        ),
        (
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}}),
            "/toolChoice/mode",
            json!("required"),
        ),
        (
            "toolConfig",
            json!({"includeServerSideToolInvocations": true}),
            "/output/includes/value/0",
            json!("server-tool-invocations"),
        ),
        (
            "tools",
            json!([{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}]),
            "/tools/0/inputSchema/type",
            json!("object"),
        ),
        (
            "tools",
            json!([{"functionDeclarations": [{"name": "f", "responseJsonSchema": {"type": "object"}}]}]),
            "/tools/0/outputSchema/type",
            json!("object"),
        ),
        (
            "tools",
            json!([{"googleSearch": {"timeRangeFilter": {"startTime": "a", "endTime": "b"}}}]),
            "/tools/0/kind",
            json!("web-search"),
        ),
        (
            "tools",
            json!([{"googleSearchRetrieval": {}}]),
            "/tools/0/version",
            json!("googleSearchRetrieval"),
        ),
        (
            "tools",
            json!([{"urlContext": {}}, {"codeExecution": {}}]),
            "/tools/1/kind",
            json!("code-execution"),
        ),
        (
            "tools",
            json!([{"googleMaps": {"enableWidget": true}}]),
            "/tools/0/config/widget",
            json!(true),
        ),
        (
            "tools",
            json!([{"fileSearch": {"fileSearchStoreNames": ["s"], "topK": 3}}]),
            "/tools/0/config/maxResults",
            json!(3),
        ),
        (
            "tools",
            json!([{"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}]),
            "/tools/0/config/environment",
            json!("browser"),
        ),
        (
            "tools",
            json!([{"computerUse": {"environment": "ENVIRONMENT_MOBILE", "excludedPredefinedFunctions": ["drag_and_drop"]}}]),
            "/tools/0/config/excludedActions/0",
            json!("drag_and_drop"),
        ),
        (
            "tools",
            json!([{"computerUse": {"environment": "ENVIRONMENT_DESKTOP", "enablePromptInjectionDetection": true}}]),
            "/tools/0/config/injectionCheck",
            json!(true),
        ),
        (
            "tools",
            json!([{"computerUse": {"environment": "ENVIRONMENT_BROWSER", "disabledSafetyPolicies": ["ACCOUNT_CREATION"]}}]),
            "/tools/0/config/disabledSafetyPolicies/0",
            json!("account_creation"),
        ),
        (
            "tools",
            json!([{"mcpServers": [{"name": "w", "streamableHttpTransport": {"url": "https://h/mcp"}}]}]),
            "/tools/0/config/serverLabel",
            json!("w"),
        ),
        (
            "tools",
            json!([{"functionDeclarations": [{"name": "f"}]}, {"functionDeclarations": [{"name": "g"}]}]),
            "/tools/1/name",
            json!("g"),
        ),
        (
            "tools",
            json!([{"futureTool": {"a": 1}}]),
            "/tools/0/kind",
            json!("gemini-generate-content:futureTool"),
        ),
        ("novelty", json!({"a": [1.50]}), "/tools", json!([])),
    ];
    for (member, value, pointer, expected) in cases {
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], member: value});
        let record = serde_json::to_value(decode(&GEMINI, &body).unified).unwrap();
        assert_eq!(record.pointer(pointer), Some(&expected), "{body}");
        assert_eq!(round_trip(&GEMINI, &body), body);
    }
}

#[test]
fn every_part_comes_back_and_has_its_place_in_the_record() {
    let cases = [
        ("user", json!({"text": "a"}), "/parts/0/text", json!("a")),
        (
            "user",
            json!({"inlineData": {"mimeType": "image/png", "data": "_-8="}}),
            "/parts/0/kind",
            json!("image"),
        ),
        (
            "user",
            json!({"inlineData": {"mimeType": "application/pdf", "data": "AA=="}}),
            "/parts/0/kind",
            json!("document"),
        ),
        (
            "user",
            json!({"inlineData": {"mimeType": "audio/wav", "data": "AA==", "displayName": "n"}}),
            "/parts/0/media/name",
            json!("n"),
        ),
        (
            "user",
            json!({"fileData": {"fileUri": "https://youtu.be/x"}, "videoMetadata": {"startOffset": "1.5s", "endOffset": "9s", "fps": 2}}),
            "/parts/0/media/time/startSeconds",
            json!(1.5),
        ),
        (
            "user",
            json!({"fileData": {"fileUri": "https://youtu.be/x"}, "videoMetadata": {"startOffset": "1.50s"}}),
            "/parts/0/kind",
            json!("video"),
        ),
        (
            "user",
            json!({"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1", "mimeType": "image/png"}}),
            "/parts/0/source/kind",
            json!("provider-resource"),
        ),
        (
            "user",
            json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}, "mediaResolution": {"level": "MEDIA_RESOLUTION_ULTRA_HIGH"}}),
            "/parts/0/media/resolution",
            json!("ultra-high"),
        ),
        (
            "user",
            json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}, "mediaResolution": {"numTokens": 70}}),
            "/parts/0/media/resolution/tokens",
            json!(70),
        ),
        (
            "user",
            json!({"text": "a", "partMetadata": {"k_k": 1}}),
            "/parts/0/text",
            json!("a"),
        ),
        ("user", json!({"novelty": {"a": 1}}), "/parts/0/text", json!("")),
        ("model", json!({"text": "t", "thought": true}), "/kind", json!("reasoning")),
        (
            "model",
            json!({"text": "t", "thought": true, "thoughtSignature": "c2ln"}),
            "/parts/0/privateState/issuer",
            json!("client-asserted"),
        ),
        (
            "model",
            json!({"text": "", "thoughtSignature": "c2ln"}),
            "/parts/0/state",
            json!("omitted"),
        ),
        (
            "model",
            json!({"thought": true, "thoughtSignature": "c2ln"}),
            "/parts/0/state",
            json!("omitted"),
        ),
        (
            "model",
            json!({"text": "a", "thoughtSignature": "c2ln"}),
            "/parts/0/providerData/0/scope",
            json!("owner-private"),
        ),
        (
            "model",
            json!({"executableCode": {"id": "c", "language": "PYTHON", "code": "1"}}),
            "/language",
            json!("python"),
        ),
        (
            "model",
            json!({"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2ln"}),
            "/code",
            json!("1"),
        ),
        (
            "model",
            json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
            "/stdout",
            json!("1"),
        ),
        (
            "model",
            json!({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "e"}}),
            "/stderr",
            json!("e"),
        ),
        (
            "model",
            json!({"codeExecutionResult": {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}}),
            "/outcome",
            json!("timeout"),
        ),
        (
            "model",
            json!({"codeExecutionResult": {"outcome": "OUTCOME_NEW"}}),
            "/outcome",
            json!("gemini-generate-content:OUTCOME_NEW"),
        ),
        (
            "model",
            json!({"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {"q": 1}}, "thoughtSignature": "c2ln"}),
            "/toolType",
            json!("web-search"),
        ),
        (
            "model",
            json!({"toolResponse": {"id": "t", "toolType": "FILE_SEARCH", "response": {"r": 1}}}),
            "/toolType",
            json!("file-search"),
        ),
    ];
    for (role, part, pointer, expected) in cases {
        let mut contents = vec![json!({"role": "user", "parts": [{"text": "hi"}]})];
        if role == "user" {
            contents.clear();
        }
        contents.push(json!({"role": role, "parts": [part]}));
        let body = json!({"contents": contents});
        let record = serde_json::to_value(decode(&GEMINI, &body).unified).unwrap();
        let item = &record["conversation"]["items"].as_array().unwrap().last().unwrap();
        assert_eq!(item.pointer(pointer), Some(&expected), "{part}");
        assert_eq!(round_trip(&GEMINI, &body), body);
    }
}

#[test]
fn snake_case_is_read_and_reported_in_its_own_spelling() {
    let body = json!({"generation_config": {"top_p": 0.5, "new_field": 1}, "contents": [{"parts": [
        {"inline_data": {"mime_type": "image/png", "data": "AA=="}}]}]});
    let decoded = decode(&GEMINI, &body);
    assert_eq!(decoded.unified.generation.top_p.unwrap().value.to_string(), "0.5");
    let paths: Vec<_> = decoded.loss.entries.iter().map(|e| e.path.as_str()).collect();
    assert!(paths.contains(&"/generation_config/new_field"), "{paths:?}");
}

#[test]
fn the_url_names_the_model() {
    let traits = [GEMINI, VERTEX, ANTIGRAVITY].map(|c| (c.wire_traits().model_in_url, c.wire_traits().envelope));
    assert_eq!(traits, [(true, false), (true, false), (false, true)]);
    let context = DecodeContext {
        requested_model: Some("gemini-3-pro".into()),
        ..DecodeContext::offline()
    };
    let body = br#"{"contents":[{"parts":[{"text":"hi"}]}]}"#;
    let decoded = GEMINI.decode_request(body, &context).unwrap();
    assert_eq!(decoded.unified.model.requested, "gemini-3-pro");
    let (body, _) = projected(
        &GEMINI,
        &ProtocolFamily::OpenAiChat,
        &chat(&json!([{"role": "user", "content": "hi"}])),
        "gemini-3-pro",
    );
    assert_eq!(body, json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
}

#[test]
fn the_envelope_comes_back_and_is_made() {
    let body = json!({"project": "p", "model": "gemini-3-flash", "userAgent": "antigravity", "requestType": "agent", "requestId": "agent-1",
        "request": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "sessionId": "-1",
            "systemInstruction": {"role": "user", "parts": [{"text": "be"}]}}});
    assert_eq!(round_trip(&ANTIGRAVITY, &body), body);
    assert_eq!(decode(&ANTIGRAVITY, &body).unified.model.requested, "gemini-3-flash");
    let source = chat(&json!([{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}]));
    let (made, _) = projected(&ANTIGRAVITY, &ProtocolFamily::OpenAiChat, &source, "gemini-3-flash");
    assert_eq!(
        made["request"]["systemInstruction"],
        json!({"role": "user", "parts": [{"text": "be"}]})
    );
    assert_eq!(made["model"], "gemini-3-flash");
}

#[test]
fn credentials_of_hosted_tools_are_never_kept() {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "tools": [{"mcpServers": [{"name": "w", "streamableHttpTransport": {"url": "https://h/", "headers": {"Authorization": "Bearer sesame"}}}]}]});
    let decoded = decode(&GEMINI, &body);
    let all: Vec<u8> = decoded.resources.iter().flat_map(|r| r.payload.clone()).collect();
    assert!(!String::from_utf8_lossy(&all).contains("sesame"));
    assert!(decoded.loss.entries.iter().any(|e| e.path.ends_with("/headers/Authorization")));
}

// ---- calls, results, signatures --------------------------------------------------------------------------------

#[test]
fn calls_without_an_id_get_one_and_lose_it_again() {
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}, {"functionCall": {"name": "f", "args": {"a": 2}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "f", "response": {"output": "1"}}}, {"functionResponse": {"name": "f", "response": {"error": "2"}}}]}]});
    let decoded = decode(&GEMINI, &body);
    let items = &decoded.unified.conversation.items;
    let ids: Vec<_> = items.iter().filter_map(|i| i.call_id()).collect();
    assert_eq!((ids[0], ids[1]), (ids[2], ids[3]), "results answer calls in order");
    assert_ne!(ids[0], ids[1]);
    assert_eq!(round_trip(&GEMINI, &body), body);
    // Without private state too: the ID itself tells that it was made.
    let (bare, _) = encode(
        &GEMINI,
        &decoded.unified,
        &EncodeContext::plain(Capabilities::of(GEMINI.capabilities())),
    );
    assert_eq!(bare["contents"][1]["parts"][1]["functionCall"].get("id"), None);
}

#[test]
fn a_signature_goes_back_to_its_part_and_to_nobody_else() {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [
        {"text": "t", "thought": true}, {"text": "a", "thoughtSignature": "b25l"},
        {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "dHdv"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "1"}}}]}]});
    assert_eq!(round_trip(&GEMINI, &body), body);
    let decoded = decode(&GEMINI, &body);
    for family in throughline_protocols::families() {
        let codec = codec_of(family).unwrap();
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let (made, losses) = encode(codec.as_ref(), &decoded.unified, &context);
        assert!(!made.to_string().contains("b25l") && !made.to_string().contains("dHdv"), "{family}");
        assert!(losses.iter().any(|l| l.starts_with("reasoning.")), "{family}: {losses:?}");
    }
}

#[test]
fn the_first_call_of_a_step_skips_validation_where_a_model_checks() {
    let source = chat(&json!([{"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "1"}, {"role": "tool", "tool_call_id": "b", "content": "2"}]));
    for (codec, model, expected) in [
        (GEMINI, "gemini-3-pro", true),
        (GEMINI, "fast", true),
        (GEMINI, "gemini-2.5-flash", false),
        (ANTIGRAVITY, "claude-sonnet-4-6", false),
        // Another vendor's model behind this wire: the value is documented for Gemini's own only.
        (GEMINI, "claude-sonnet-4-6", false),
        (VERTEX, "gpt-oss-120b-medium", false),
        (ANTIGRAVITY, "gemini-3-flash", true),
    ] {
        let (made, losses) = projected(&codec, &ProtocolFamily::OpenAiChat, &source, model);
        let contents = made.pointer("/request/contents").or_else(|| made.get("contents")).unwrap();
        let signed = |n: usize| contents[1]["parts"][n].get("thoughtSignature").cloned();
        let skip = expected.then(|| json!("skip_thought_signature_validator"));
        assert_eq!((signed(0), signed(1)), (skip, None), "{model}");
        assert_eq!(losses.iter().any(|l| l.starts_with("reasoning.signature")), expected, "{model}");
    }
}

#[test]
fn whatever_the_history_holds_the_body_is_legal() {
    let call = |id: &str| json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let user = json!({"role": "user", "content": "u"});
    // Messages, and the roles and kinds of the contents that come of them.
    let cases = [
        (
            json!([user, call("a"), user]),
            "user:text model:functionCall user:functionResponse,text",
        ),
        (
            json!([user, call("a"), user, result("a")]),
            "user:text model:functionCall user:functionResponse,text",
        ),
        (json!([user, result("z")]), "user:text,text"),
        (
            json!([call("a"), result("a")]),
            "user:text model:functionCall user:functionResponse",
        ),
        (
            json!([user, call("a"), result("a"), call("a"), result("a")]),
            "user:text model:functionCall user:functionResponse model:functionCall user:functionResponse",
        ),
        (
            json!([user, {"role": "assistant", "content": "x"}]),
            "user:text model:text user:text",
        ),
        (
            json!([user, {"role": "assistant", "content": "x"}, {"role": "system", "content": "s"}, user]),
            "user:text model:text user:text,text",
        ),
        (json!([user, user]), "user:text,text"),
        (json!([user, {"role": "assistant", "content": ""}, user]), "user:text,text"),
    ];
    for (messages, expected) in cases {
        let (made, _) = projected(&GEMINI, &ProtocolFamily::OpenAiChat, &chat(&messages), "gemini-2.5-flash");
        let shape: Vec<String> = made["contents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| {
                let kinds: Vec<_> = c["parts"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|p| p.as_object().unwrap().keys().next().unwrap().clone())
                    .collect();
                format!("{}:{}", c["role"].as_str().unwrap(), kinds.join(","))
            })
            .collect();
        assert_eq!(shape.join(" "), expected, "{messages}");
    }
}

#[test]
fn a_longer_history_begins_with_the_shorter_one() {
    let messages = json!([{"role": "user", "content": "u"},
        {"role": "assistant", "content": "t", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "r"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "v"}]);
    let all = messages.as_array().unwrap();
    let made = |n: usize| projected(&GEMINI, &ProtocolFamily::OpenAiChat, &chat(&json!(all[..n])), "gemini-3-pro").0["contents"].clone();
    let whole = made(all.len());
    for n in [1, 3] {
        let part = made(n);
        let part = part.as_array().unwrap();
        assert_eq!(part.as_slice(), &whole.as_array().unwrap()[..part.len()], "{n} messages");
    }
}

// ---- settings for models ---------------------------------------------------------------------------------------

#[test]
fn thinking_is_said_as_the_model_takes_it() {
    let cases = [
        (
            "gemini-3-flash",
            json!({"reasoning_effort": "low"}),
            json!({"thinkingLevel": "LOW"}),
            "",
        ),
        (
            "gemini-3-pro-preview",
            json!({"reasoning_effort": "minimal"}),
            json!({"thinkingLevel": "LOW"}),
            "generation.reasoning.effort",
        ),
        (
            "gemini-3-flash",
            json!({"reasoning_effort": "xhigh"}),
            json!({"thinkingLevel": "HIGH"}),
            "generation.reasoning.effort",
        ),
        (
            "gemini-4-hydrogen",
            json!({"reasoning_effort": "xhigh"}),
            json!({"thinkingLevel": "XHIGH"}),
            "",
        ),
        (
            "gemini-2.5-flash",
            json!({"reasoning_effort": "none"}),
            json!({"thinkingBudget": 0}),
            "",
        ),
        (
            "gemini-2.5-pro",
            json!({"reasoning_effort": "none"}),
            json!({"thinkingBudget": 128}),
            "generation.reasoning.mode",
        ),
        (
            "gemini-2.5-flash",
            json!({"reasoning_effort": "medium"}),
            json!({"thinkingBudget": 8192}),
            "generation.reasoning.effort",
        ),
    ];
    for (model, setting, expected, loss) in cases {
        let mut source = chat(&json!([{"role": "user", "content": "u"}]));
        source.as_object_mut().unwrap().extend(setting.as_object().unwrap().clone());
        let (made, losses) = projected(&GEMINI, &ProtocolFamily::OpenAiChat, &source, model);
        assert_eq!(made["generationConfig"]["thinkingConfig"], expected, "{model} {setting}");
        assert!(
            loss.is_empty() || losses.iter().any(|l| l.starts_with(loss)),
            "{model} {setting}: {losses:?}"
        );
    }
}

#[test]
fn hosted_tools_stand_beside_functions_only_where_the_model_takes_both() {
    let source = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "u"}], "tools": [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}, {"name": "f", "input_schema": {"type": "object"}}]});
    for (codec, model, hosted) in [
        (GEMINI, "gemini-3-pro", true),
        (GEMINI, "gemini-2.5-flash", false),
        (VERTEX, "gemini-3-pro", true),
        (ANTIGRAVITY, "gemini-3-flash", false),
    ] {
        let (made, losses) = projected(&codec, &ProtocolFamily::AnthropicMessages, &source, model);
        assert_eq!(made.to_string().contains("googleSearch"), hosted, "{model}");
        assert!(
            losses.iter().any(|l| l.ends_with("/tools/0") || l.ends_with("/tools/0/config")),
            "{losses:?}"
        );
        let mixed = made.pointer("/toolConfig/includeServerSideToolInvocations").is_some();
        assert_eq!(mixed, hosted && codec == GEMINI, "{model}");
    }
}
