//! Members of Google's wires, one a line: each comes back to its owner as it was, and what the record has a word for stands there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, fold_response, result_of, there_and_back};
use throughline_format::ProtocolFamily;
use throughline_protocols::{Capabilities, EncodeContext, codec_of};

const GEMINI: ProtocolFamily = ProtocolFamily::GeminiGenerateContent;
const VERTEX: ProtocolFamily = ProtocolFamily::VertexGemini;
const ANTIGRAVITY: ProtocolFamily = ProtocolFamily::Antigravity;
const INTERACTIONS: ProtocolFamily = ProtocolFamily::GeminiInteractions;

/// The record of an answer, and the answer that its owner gets of it.
fn answered(family: &ProtocolFamily, body: &Value) -> (Value, Value) {
    let codec = codec_of(family).unwrap();
    let fold = fold_response(codec.as_ref(), body.to_string().as_bytes());
    let result = result_of(&fold);
    let context = EncodeContext {
        private: Arc::new(Everything::of(&fold.resources)),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    let back = codec.encode_response(&result, &context).unwrap().body;
    (serde_json::to_value(&result).unwrap(), serde_json::from_str(&back).unwrap())
}

/// Puts a value at a pointer of a body; the last step may be new.
fn with(mut body: Value, pointer: &str, value: &Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
        Value::Array(list) => list.push(value.clone()),
        object => object[key] = value.clone(),
    }
    body
}

fn ask(family: &ProtocolFamily) -> Value {
    let text = json!([{"text": "hi"}]);
    let inner = json!({"contents": [{"role": "user", "parts": text}], "generationConfig": {"seed": 1}});
    match family {
        ProtocolFamily::Antigravity => json!({"model": "gemini-3-flash", "request": inner}),
        ProtocolFamily::GeminiInteractions => {
            json!({"model": "m", "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}]})
        }
        _ => inner,
    }
}

fn answer(family: &ProtocolFamily) -> Value {
    let candidate = json!({"content": {"role": "model", "parts": [{"text": "Olá 北京."}]}, "finishReason": "STOP", "index": 0});
    let inner = json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
        "modelVersion": "m", "responseId": "r"});
    match family {
        ProtocolFamily::Antigravity => json!({"response": inner, "traceId": "t"}),
        ProtocolFamily::GeminiInteractions => json!({"id": "v1_x", "object": "interaction", "model": "m", "status": "completed",
            "steps": [{"type": "model_output", "content": [{"type": "text", "text": "Olá 北京."}]}]}),
        _ => inner,
    }
}

/// A row: the wire, the place, the value, and a place of the record with the value there; none where the record has no word.
type Row = (&'static ProtocolFamily, &'static str, Value, Option<(&'static str, Value)>);

fn none(family: &'static ProtocolFamily, at: &'static str, value: Value) -> Row {
    (family, at, value, None)
}

fn says(family: &'static ProtocolFamily, at: &'static str, value: Value, place: &'static str, word: Value) -> Row {
    (family, at, value, Some((place, word)))
}

fn requests() -> Vec<Row> {
    let schema = |member: &str, value: Value| {
        let mut schema = json!({"type": "OBJECT", "properties": {"a": {"type": "NUMBER"}}});
        schema[member] = value;
        json!([{"functionDeclarations": [{"name": "f", "description": "d", "parameters": schema}]}])
    };
    vec![
        none(&GEMINI, "/generationConfig/audioTranscriptionConfig", json!({})),
        none(&GEMINI, "/generationConfig/translationConfig", json!({"targetLanguageCode": "de"})),
        none(
            &GEMINI,
            "/generationConfig/modelSelectionConfig",
            json!({"featureSelectionPreference": "BALANCED"}),
        ),
        none(
            &GEMINI,
            "/generationConfig/responseFormat",
            json!([{"image": {"aspectRatio": "1:1", "delivery": "INLINE"}}, {"audio": {"bitRate": 1, "sampleRate": 2}}]),
        ),
        none(
            &GEMINI,
            "/generationConfig/imageConfig",
            json!({"aspectRatio": "1:1", "imageSize": "2K", "personGeneration": "ALLOW_ALL"}),
        ),
        says(
            &GEMINI,
            "/generationConfig/thinkingConfig",
            json!({"thinkingLevel": "MINIMAL"}),
            "/generation/reasoning/effort/value",
            json!("minimal"),
        ),
        says(
            &GEMINI,
            "/generationConfig/thinkingConfig",
            json!({"thinkingLevel": "MEDIUM"}),
            "/generation/reasoning/effort/value",
            json!("medium"),
        ),
        says(
            &GEMINI,
            "/generationConfig/mediaResolution",
            json!("MEDIA_RESOLUTION_MEDIUM"),
            "/generation/media/inputResolution/value",
            json!("medium"),
        ),
        says(
            &GEMINI,
            "/generationConfig/responseModalities",
            json!(["VIDEO"]),
            "/generation/outputModalities/value/0",
            json!("video"),
        ),
        says(
            &GEMINI,
            "/toolConfig",
            json!({"retrievalConfig": {"latLng": {"latitude": 1.5, "longitude": 2.5}, "languageCode": "de"}}),
            "/tools",
            json!([]),
        ),
        says(
            &VERTEX,
            "/toolConfig",
            json!({"functionCallingConfig": {"mode": "AUTO", "streamFunctionCallArguments": true}}),
            "/toolChoice/kind",
            json!("auto"),
        ),
        says(
            &GEMINI,
            "/tools",
            json!([{"googleSearch": {"searchTypes": {"webSearch": {}, "imageSearch": {}}}}]),
            "/tools/0/kind",
            json!("web-search"),
        ),
        says(
            &GEMINI,
            "/tools",
            json!([{"googleSearchRetrieval": {"dynamicRetrievalConfig": {"mode": "MODE_DYNAMIC", "dynamicThreshold": 0.5}}}]),
            "/tools/0/kind",
            json!("web-search"),
        ),
        says(
            &GEMINI,
            "/tools",
            json!([{"fileSearch": {"fileSearchStoreNames": ["s"], "metadataFilter": "a=1"}}]),
            "/tools/0/config/filter",
            json!("a=1"),
        ),
        says(
            &GEMINI,
            "/tools",
            json!([{"functionDeclarations": [{"name": "f", "description": "d", "behavior": "NON_BLOCKING"}]}]),
            "/tools/0/name",
            json!("f"),
        ),
        says(
            &GEMINI,
            "/tools",
            json!([{"mcpServers": [{"name": "w", "streamableHttpTransport": {"url": "https://h/", "timeout": "5s", "sseReadTimeout": "9s", "terminateOnClose": true}}]}]),
            "/tools/0/kind",
            json!("mcp"),
        ),
        says(
            &GEMINI,
            "/tools",
            schema("minProperties", json!("1")),
            "/tools/0/inputSchema/type",
            json!("object"),
        ),
        says(
            &GEMINI,
            "/tools",
            schema("maxProperties", json!("2")),
            "/tools/0/inputSchema/type",
            json!("object"),
        ),
        says(
            &GEMINI,
            "/tools",
            schema("propertyOrdering", json!(["a"])),
            "/tools/0/inputSchema/type",
            json!("object"),
        ),
        says(
            &VERTEX,
            "/tools",
            json!([{"retrieval": {"vertexRagStore": {"ragResources": [{"ragCorpus": "c"}]}}}]),
            "/tools/0/kind",
            json!("retrieval"),
        ),
        says(
            &VERTEX,
            "/tools",
            json!([{"retrieval": {"externalApi": {"endpoint": "https://h/"}}}]),
            "/tools/0/kind",
            json!("retrieval"),
        ),
        says(
            &VERTEX,
            "/tools",
            json!([{"enterpriseWebSearch": {"excludeDomains": ["a.example"], "blockingConfidence": "BLOCK_LOW_AND_ABOVE"}}]),
            "/tools/0/kind",
            json!("web-search"),
        ),
        says(
            &VERTEX,
            "/tools",
            json!([{"parallelAiSearch": {"customConfigs": {"a": 1}, "enableZeroDataRetention": true}}]),
            "/tools/0/execution",
            json!("provider"),
        ),
        says(
            &VERTEX,
            "/tools",
            json!([{"exaAiSearch": {"customConfigs": {"a": 1}}}]),
            "/tools/0/execution",
            json!("provider"),
        ),
        says(
            &VERTEX,
            "/tools",
            json!([{"googleSearch": {"excludeDomains": ["a.example"], "blockingConfidence": "BLOCK_LOW_AND_ABOVE"}}]),
            "/tools/0/config/blockedDomains/0",
            json!("a.example"),
        ),
        says(
            &VERTEX,
            "/tools",
            json!([{"googleMaps": {"groundingTypes": ["PLACE"]}}]),
            "/tools/0/kind",
            json!("maps"),
        ),
        none(
            &VERTEX,
            "/modelArmorConfig",
            json!({"promptTemplateName": "p", "responseTemplateName": "r"}),
        ),
        none(&VERTEX, "/outputConfig", json!({"outputUriPrefix": "gs://b/"})),
        none(
            &VERTEX,
            "/generationConfig/routingConfig",
            json!({"autoMode": {"modelRoutingPreference": "BALANCED"}}),
        ),
        none(
            &VERTEX,
            "/generationConfig/routingConfig",
            json!({"manualMode": {"modelName": "m"}}),
        ),
        none(
            &VERTEX,
            "/generationConfig/modelConfig",
            json!({"featureSelectionPreference": "BALANCED"}),
        ),
        none(
            &VERTEX,
            "/generationConfig/imageConfig",
            json!({"imageOutputOptions": {"mimeType": "image/png"}, "prominentPeople": "ALLOW"}),
        ),
        says(
            &VERTEX,
            "/safetySettings",
            json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE", "method": "PROBABILITY"}]),
            "/generation/safetySettings/value/0/method",
            json!("PROBABILITY"),
        ),
        none(
            &GEMINI,
            "/contents/0/parts/1",
            json!({"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}, "mediaProcessing": "AGENTIC"}),
        ),
        none(
            &GEMINI,
            "/contents/0/parts/1",
            json!({"text": "a", "speechMetadata": {"speaker": "s", "style": "calm"}}),
        ),
        none(
            &GEMINI,
            "/contents/0/parts/1",
            json!({"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}, "documentMetadata": {"pages": [1]}}),
        ),
        none(
            &GEMINI,
            "/contents/0/parts/1",
            json!({"inlineData": {"mimeType": "text/csv", "data": "AAAA"}, "spreadsheetMetadata": {"ranges": ["A1"]}}),
        ),
        none(
            &GEMINI,
            "/contents/0/parts/1",
            json!({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}, "audioMetadata": {"a": 1}}),
        ),
        says(
            &ANTIGRAVITY,
            "/request/sessionId",
            json!("-123"),
            "/state/resources/0/resourceType",
            json!("session"),
        ),
        none(&ANTIGRAVITY, "/requestId", json!("agent-1")),
        none(&ANTIGRAVITY, "/requestType", json!("agent")),
        none(&ANTIGRAVITY, "/userAgent", json!("antigravity")),
        none(&ANTIGRAVITY, "/user_prompt_id", json!("p")),
        none(&ANTIGRAVITY, "/enabledCreditTypes", json!(["GOOGLE_ONE_AI"])),
        none(&ANTIGRAVITY, "/enabled_credit_types", json!(["GOOGLE_ONE_AI"])),
        none(
            &INTERACTIONS,
            "/webhook_config",
            json!({"uris": ["https://h/"], "user_metadata": {"a": "b"}}),
        ),
        none(
            &INTERACTIONS,
            "/generation_config",
            json!({"transcription_config": {"language": "de"}}),
        ),
        none(&INTERACTIONS, "/generation_config", json!({"video_config": {"fps": 1}})),
        says(
            &INTERACTIONS,
            "/tools",
            json!([{"type": "google_maps", "enable_widget": true, "latitude": 1.5, "longitude": 2.5}]),
            "/tools/0/config/longitude",
            json!(2.5),
        ),
        says(
            &INTERACTIONS,
            "/tools",
            json!([{"type": "file_search", "file_search_store_names": ["s"], "metadata_filter": "a=1"}]),
            "/tools/0/config/filter",
            json!("a=1"),
        ),
        says(
            &INTERACTIONS,
            "/tools",
            json!([{"type": "function", "name": "f", "short_description": "s", "parameters": {"type": "object"}}]),
            "/tools/0/name",
            json!("f"),
        ),
        none(
            &INTERACTIONS,
            "/input/1",
            json!({"type": "user_input", "content": [{"type": "video", "uri": "https://h/v.mp4", "mime_type": "video/mp4", "processing": {"start_offset": "1s", "end_offset": "2s"}}]}),
        ),
    ]
}

#[test]
fn every_member_of_a_request_comes_back() {
    for (family, at, value, place) in requests() {
        let body = with(ask(family), at, &value);
        let (record, back) = there_and_back(family, &body);
        assert_eq!(back, body, "{family} {at}");
        if let Some((pointer, word)) = place {
            assert_eq!(record.pointer(pointer), Some(&word), "{family} {at}: {record}");
        }
    }
}

fn answers() -> Vec<Row> {
    const GROUND: &str = "/candidates/0/groundingMetadata";
    let chunk = |kind: &str, value: Value| json!({"groundingChunks": [{kind: value}]});
    vec![
        none(&GEMINI, "/candidates/0/finishMessage", json!("because")),
        none(&GEMINI, "/candidates/0/tokenCount", json!(4)),
        none(&GEMINI, "/candidates/0/avgLogprobs", json!(-0.5)),
        says(
            &GEMINI,
            "/candidates/0/logprobsResult",
            json!({"chosenCandidates": [{"token": "a", "logProbability": -0.5}], "topCandidates": [{"candidates": [{"token": "a", "logProbability": -0.5}]}], "logProbabilitySum": -0.5}),
            "/output/0/parts/0/logprobs/0/token",
            json!("a"),
        ),
        none(
            &GEMINI,
            "/candidates/0/safetyRatings",
            json!([{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW", "blocked": true}]),
        ),
        none(
            &VERTEX,
            "/candidates/0/safetyRatings",
            json!([{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW", "probabilityScore": 0.5, "severity": "HARM_SEVERITY_LOW", "severityScore": 0.5, "overwrittenThreshold": "OFF"}]),
        ),
        says(
            &GEMINI,
            "/candidates/0/citationMetadata",
            json!({"citationSources": [{"startIndex": 0, "endIndex": 4, "uri": "https://h/", "license": "mit"}]}),
            "/output/0/parts/0/annotations/0/source/license",
            json!("mit"),
        ),
        says(
            &VERTEX,
            "/candidates/0/citationMetadata",
            json!({"citations": [{"startIndex": 0, "endIndex": 4, "uri": "https://h/", "title": "T", "publicationDate": {"year": 2026, "month": 1, "day": 2}}]}),
            "/output/0/parts/0/annotations/0/source/publishedAt",
            json!("2026-01-02"),
        ),
        none(
            &GEMINI,
            "/modelStatus",
            json!({"modelStage": "DEPRECATED", "retirementTime": "2026-01-01T00:00:00Z", "message": "soon"}),
        ),
        none(&VERTEX, "/createTime", json!("2026-01-01T00:00:00Z")),
        none(&VERTEX, "/usageMetadata/trafficType", json!("ON_DEMAND_FLEX")),
        none(&VERTEX, "/usageMetadata/trafficType", json!("PROVISIONED_THROUGHPUT")),
        none(
            &GEMINI,
            "/usageMetadata/promptTokensDetails",
            json!([{"modality": "DOCUMENT", "tokenCount": 1}, {"modality": "VIDEO", "tokenCount": 2}]),
        ),
        says(
            &GEMINI,
            GROUND,
            json!({"webSearchQueries": ["q"], "imageSearchQueries": ["i"]}),
            "/output/1/kind",
            json!("search-result"),
        ),
        none(
            &GEMINI,
            GROUND,
            chunk(
                "image",
                json!({"sourceUri": "https://h/", "imageUri": "https://h/i.png", "title": "T", "domain": "h"}),
            ),
        ),
        none(
            &GEMINI,
            GROUND,
            chunk(
                "retrievedContext",
                json!({"uri": "u", "title": "T", "text": "x", "fileSearchStore": "s", "pageNumber": 3, "mediaId": "m", "customMetadata": [{"key": "k", "stringValue": "v"}]}),
            ),
        ),
        none(
            &VERTEX,
            GROUND,
            chunk(
                "retrievedContext",
                json!({"uri": "u", "title": "T", "documentName": "d", "ragChunk": {"text": "x", "chunkId": "c", "fileId": "f", "pageSpan": {"firstPage": 1, "lastPage": 2}}}),
            ),
        ),
        none(
            &GEMINI,
            GROUND,
            chunk(
                "maps",
                json!({"uri": "https://h/", "title": "T", "text": "x", "placeId": "p", "placeAnswerSources": {"reviewSnippets": [{"title": "r"}]}}),
            ),
        ),
        none(
            &GEMINI,
            GROUND,
            json!({"searchEntryPoint": {"renderedContent": "<div>", "sdkBlob": "AAAA"}}),
        ),
        none(
            &GEMINI,
            GROUND,
            json!({"retrievalMetadata": {"googleSearchDynamicRetrievalScore": 0.5}}),
        ),
        none(&GEMINI, GROUND, json!({"googleMapsWidgetContextToken": "w"})),
        none(
            &VERTEX,
            GROUND,
            json!({"retrievalQueries": ["q"], "sourceFlaggingUris": [{"sourceId": "s", "flagContentUri": "u"}]}),
        ),
        none(
            &GEMINI,
            "/candidates/0/urlContextMetadata",
            json!({"urlMetadata": [{"retrievedUrl": "https://h/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_PAYWALL"}]}),
        ),
        none(
            &GEMINI,
            "/candidates/0/urlContextMetadata",
            json!({"urlMetadata": [{"retrievedUrl": "https://h/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_UNSAFE"}]}),
        ),
        none(
            &GEMINI,
            "/candidates/0/urlContextMetadata",
            json!({"urlMetadata": [{"retrievedUrl": "https://h/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}]}),
        ),
        none(
            &GEMINI,
            "/candidates/0/content/parts/1",
            json!({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}, "audioTranscription": {"text": "x", "finished": true, "languageCode": "de", "speakerLabel": "s"}}),
        ),
        says(
            &GEMINI,
            "/candidates/0/content/parts/1",
            json!({"toolCall": {"id": "t", "toolType": "GOOGLE_MAPS", "args": {"a": 1}}}),
            "/output/1/kind",
            json!("server-tool-call"),
        ),
        none(
            &GEMINI,
            "/candidates/0/content/parts/1",
            json!({"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_IMAGE", "args": {"a": 1}}}),
        ),
        none(
            &GEMINI,
            "/candidates/0/content/parts/1",
            json!({"toolCall": {"id": "t", "toolType": "MEDIA_PROCESSING", "args": {}}}),
        ),
        says(
            &GEMINI,
            "/candidates/0/content/parts/1",
            json!({"toolResponse": {"id": "t", "toolType": "URL_CONTEXT", "response": {"a": 1}}}),
            "/output/1/kind",
            json!("server-tool-result"),
        ),
        none(
            &ANTIGRAVITY,
            "/consumedCredits",
            json!([{"creditType": "GOOGLE_ONE_AI", "creditAmount": "5"}]),
        ),
        none(
            &ANTIGRAVITY,
            "/remainingCredits",
            json!([{"creditType": "GOOGLE_ONE_AI", "creditAmount": "95"}]),
        ),
        none(&INTERACTIONS, "/updated", json!("2026-01-01T00:00:00Z")),
        none(&INTERACTIONS, "/environment_id", json!("env")),
        says(
            &INTERACTIONS,
            "/usage",
            json!({"total_input_tokens": 3, "total_output_tokens": 4, "total_tokens": 7, "initial_input_tokens": 2}),
            "/usage/inputTotal/value",
            json!(3),
        ),
        says(
            &INTERACTIONS,
            "/steps/1",
            json!({"type": "google_maps_call", "id": "t", "arguments": {"queries": ["q"]}}),
            "/output/1/kind",
            json!("server-tool-call"),
        ),
        says(
            &INTERACTIONS,
            "/steps/1",
            json!({"type": "google_maps_result", "call_id": "t", "result": [{"places": [{"place_id": "p", "name": "n", "url": "https://h/", "review_snippets": []}], "widget_context_token": "w"}]}),
            "/output/1/kind",
            json!("server-tool-result"),
        ),
        none(
            &INTERACTIONS,
            "/steps/1",
            json!({"type": "url_context_call", "id": "t", "arguments": {"urls": ["https://h/"]}}),
        ),
        none(
            &INTERACTIONS,
            "/steps/1",
            json!({"type": "url_context_result", "call_id": "t", "result": [{"url": "https://h/", "status": "paywall"}, {"url": "https://h/", "status": "unsafe"}]}),
        ),
        says(
            &INTERACTIONS,
            "/steps/1",
            json!({"type": "retrieval_call", "id": "t", "retrieval_type": "rag_store", "arguments": {"queries": ["q"]}}),
            "/output/1/kind",
            json!("server-tool-call"),
        ),
        none(
            &INTERACTIONS,
            "/steps/1",
            json!({"type": "processing_call", "id": "t", "signature": "c2ln"}),
        ),
        none(
            &INTERACTIONS,
            "/steps/1",
            json!({"type": "tool_search_call", "id": "t", "arguments": {"function_names": ["f"]}}),
        ),
        says(
            &INTERACTIONS,
            "/steps/0/content/0/annotations",
            json!([{"type": "place_citation", "place_id": "p", "name": "n", "url": "https://h/", "review_snippets": [], "start_index": 0, "end_index": 4}]),
            "/output/0/parts/0/annotations/0/kind",
            json!("citation"),
        ),
        says(
            &INTERACTIONS,
            "/steps/0/content/0/annotations",
            json!([{"type": "file_citation", "document_uri": "u", "file_name": "f", "page_number": 2, "media_id": "m", "custom_metadata": {"a": 1}, "start_index": 0, "end_index": 4}]),
            "/output/0/parts/0/annotations/0/kind",
            json!("citation"),
        ),
        none(
            &INTERACTIONS,
            "/steps/0/content/0/annotations",
            json!([{"type": "speech_metadata", "speaker": "s", "style": "calm", "start_index": 0, "end_index": 4}]),
        ),
        none(
            &INTERACTIONS,
            "/steps/0/content/0/annotations",
            json!([{"type": "word_info", "text": "Olá", "speaker": "s", "start_offset": "1s", "end_offset": "2s", "start_index": 0, "end_index": 4}]),
        ),
    ]
}

#[test]
fn every_member_of_an_answer_comes_back() {
    for (family, at, value, place) in answers() {
        let body = with(answer(family), at, &value);
        let (record, back) = answered(family, &body);
        assert_eq!(back, body, "{family} {at}");
        if let Some((pointer, word)) = place {
            assert_eq!(record.pointer(pointer), Some(&word), "{family} {at}: {record}");
        }
    }
}
