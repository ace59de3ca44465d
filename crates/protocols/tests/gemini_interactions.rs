//! Gemini Interactions: one line per field, step, delta, status and counter; histories that the target would refuse.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, fold_response, fold_stream, result_of, sse};
use throughline_format::conversation::Completeness;
use throughline_format::{ProtocolFamily, UnifiedRequestV2};
use throughline_protocols::gemini_interactions::GeminiInteractions;
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, SideResource, codec_of};

const CODEC: GeminiInteractions = GeminiInteractions;

fn decode(codec: &dyn Codec, body: &Value) -> DecodedRequest {
    codec
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap_or_else(|e| panic!("{e}: {body}"))
}

fn owner(resources: &[SideResource], stream: bool) -> EncodeContext {
    EncodeContext {
        private: Arc::new(Everything::of(resources)),
        stream,
        ..EncodeContext::plain(Capabilities::of(CODEC.capabilities()))
    }
}

fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> (Value, Vec<String>) {
    let encoded = CODEC.encode_request(request, context).unwrap();
    let words = encoded.loss.entries.iter().map(|e| format!("{} {}", e.feature, e.path)).collect();
    (serde_json::from_str(&encoded.body).unwrap(), words)
}

fn round_trip(body: &Value) -> Value {
    let decoded = decode(&CODEC, body);
    encode(&decoded.unified, &owner(&decoded.resources, decoded.stream)).0
}

fn projected(messages: &Value, more: &Value) -> (Value, Vec<String>) {
    let mut body = json!({"model": "m", "messages": messages});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let decoded = decode(codec_of(&ProtocolFamily::OpenAiChat).unwrap().as_ref(), &body);
    encode(&decoded.unified, &EncodeContext::plain(Capabilities::of(CODEC.capabilities())))
}

#[test]
fn every_field_comes_back_and_has_its_place_in_the_record() {
    let cases = [
        (
            "system_instruction",
            json!("be"),
            "/conversation/items/0/placement",
            json!("instructions"),
        ),
        (
            "generation_config",
            json!({"max_output_tokens": 9}),
            "/generation/maxOutputTokens/value",
            json!(9),
        ),
        ("generation_config", json!({"seed": 7}), "/generation/seed/value", json!(7)),
        (
            "generation_config",
            json!({"stop_sequences": ["x"]}),
            "/generation/stopSequences/value/0",
            json!("x"),
        ),
        (
            "generation_config",
            json!({"temperature": 0.5, "top_p": 0.5}),
            "/generation/topP/value",
            json!(0.5),
        ),
        (
            "generation_config",
            json!({"thinking_level": "xhigh"}),
            "/generation/reasoning/effort/value",
            json!("xhigh"),
        ),
        (
            "generation_config",
            json!({"thinking_summaries": "none"}),
            "/generation/reasoning/summary/value",
            json!("none"),
        ),
        (
            "generation_config",
            json!({"tool_choice": "any"}),
            "/toolChoice/kind",
            json!("required"),
        ),
        (
            "generation_config",
            json!({"tool_choice": "validated"}),
            "/toolChoice/validated",
            json!(true),
        ),
        (
            "generation_config",
            json!({"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["f"]}}}),
            "/toolChoice/mode",
            json!("required"),
        ),
        (
            "generation_config",
            json!({"speech_config": [{"voice": "Kore"}]}),
            "/generation",
            json!({}),
        ),
        ("generation_config", json!({}), "/generation", json!({})),
        (
            "response_format",
            json!({"type": "text", "mime_type": "application/json", "schema": {"type": "object"}}),
            "/output/format/value/schema/type",
            json!("object"),
        ),
        (
            "response_format",
            json!([{"type": "image", "aspect_ratio": "1:1"}]),
            "/tools",
            json!([]),
        ),
        (
            "tools",
            json!([{"type": "function", "name": "f", "parameters": {"type": "object"}, "defer_loading": true}]),
            "/tools/0/deferLoading",
            json!(true),
        ),
        (
            "tools",
            json!([{"type": "google_search", "search_types": ["web_search"]}]),
            "/tools/0/config/searchTypes/0",
            json!("web_search"),
        ),
        (
            "tools",
            json!([{"type": "code_execution"}, {"type": "url_context"}]),
            "/tools/1/kind",
            json!("url-context"),
        ),
        (
            "tools",
            json!([{"type": "google_maps", "latitude": 1.5}]),
            "/tools/0/config/latitude",
            json!(1.5),
        ),
        (
            "tools",
            json!([{"type": "file_search", "file_search_store_names": ["s"], "top_k": 2}]),
            "/tools/0/config/maxResults",
            json!(2),
        ),
        (
            "tools",
            json!([{"type": "computer_use", "environment": "browser"}]),
            "/tools/0/config/environment",
            json!("browser"),
        ),
        (
            "tools",
            json!([{"type": "computer_use", "environment": "desktop", "excluded_predefined_functions": ["drag_and_drop"]}]),
            "/tools/0/config/excludedActions/0",
            json!("drag_and_drop"),
        ),
        (
            "tools",
            json!([{"type": "computer_use", "environment": "mobile", "enable_prompt_injection_detection": false}]),
            "/tools/0/config/injectionCheck",
            json!(false),
        ),
        (
            "tools",
            json!([{"type": "computer_use", "environment": "browser", "disabled_safety_policies": ["account_creation"]}]),
            "/tools/0/config/disabledSafetyPolicies/0",
            json!("account_creation"),
        ),
        (
            "tools",
            json!([{"type": "mcp_server", "name": "w", "url": "https://h/"}]),
            "/tools/0/config/serverLabel",
            json!("w"),
        ),
        (
            "tools",
            json!([{"type": "retrieval", "configs": []}]),
            "/tools/0/kind",
            json!("retrieval"),
        ),
        ("background", json!(true), "/state/background/value", json!({})),
        ("store", json!(false), "/state/persist/requirement", json!("required")),
        (
            "service_tier",
            json!("deferred"),
            "/generation/serviceTier/value",
            json!("gemini-interactions:deferred"),
        ),
        (
            "safety_settings",
            json!([{"type": "harassment", "threshold": "block_none"}]),
            "/generation/safetySettings/value/0/category",
            json!("harassment"),
        ),
        ("labels", json!({"team": "a"}), "/metadata/labels/team", json!("a")),
        ("stream", json!(true), "/tools", json!([])),
        ("stream", json!(false), "/tools", json!([])),
        (
            "previous_interaction_id",
            json!("v1_x"),
            "/conversation/continuations/0/resourceType",
            json!("interaction"),
        ),
        (
            "continuation_token",
            json!("t"),
            "/conversation/continuations/0/resourceType",
            json!("response"),
        ),
        ("environment", json!({"type": "remote"}), "/tools", json!([])),
    ];
    for (member, value, pointer, expected) in cases {
        let body = json!({"model": "gemini-3-flash", "input": "hi", member: value});
        let record = serde_json::to_value(decode(&CODEC, &body).unified).unwrap();
        assert_eq!(record.pointer(pointer), Some(&expected), "{body}");
        assert_eq!(round_trip(&body), body);
    }
    let agent = json!({"agent": "deep-research", "input": "hi", "background": true});
    assert_eq!(round_trip(&agent), agent);
}

#[test]
fn every_form_of_input_and_every_step_comes_back() {
    let text = json!({"type": "text", "text": "hi"});
    let inputs = [
        json!("hi"),
        text.clone(),
        json!([text, {"type": "image", "data": "_-8=", "mime_type": "image/png", "resolution": "low"}]),
        json!([{"type": "user_input", "content": [text, {"type": "audio", "uri": "https://a.example/x.wav", "channels": 1, "sample_rate": 8000}]}]),
        json!([{"type": "user_input", "content": [{"type": "video", "uri": "https://a.example/x.mp4", "processing": {"fps": 1}}, {"type": "document", "data": "AA==", "mime_type": "application/pdf"}]}]),
        json!([{"type": "user_input", "content": "hi"}]),
        json!([{"type": "user_input", "content": [text]}, {"type": "thought", "signature": "c2ln", "summary": [text]}, {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1.50}}, {"type": "function_result", "call_id": "c", "name": "f", "result": {"r": 1}, "is_error": false}]),
        json!([{"type": "thought", "signature": "c2ln"}, {"type": "function_call", "id": "c", "name": "f", "arguments": {}}, {"type": "function_result", "call_id": "c", "result": "r"}]),
        json!([{"type": "function_call", "id": "c", "name": "f", "arguments": {}}, {"type": "function_result", "call_id": "c", "result": [text, {"type": "image", "data": "AA==", "mime_type": "image/png"}]}]),
        json!([{"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}, "signature": "c2ln"}, {"type": "google_search_result", "call_id": "s", "result": [{"search_suggestions": "x"}], "signature": "c2ln"}]),
        json!([{"type": "code_execution_call", "id": "s", "arguments": {"language": "python", "code": "1"}}, {"type": "code_execution_result", "call_id": "s", "result": "1", "is_error": true}]),
        json!([{"type": "mcp_server_tool_call", "id": "s", "server_name": "w", "name": "f", "arguments": {}}, {"type": "mcp_server_tool_result", "call_id": "s", "result": "x"}]),
        json!([{"type": "model_output", "content": [{"type": "text", "text": "a", "annotations": [{"type": "url_citation", "url": "https://a.example", "start_index": 0, "end_index": 1}, {"type": "word_info", "text": "a"}]}]}]),
        json!([{"type": "model_output", "error": {"code": 1, "message": "x"}}]),
        json!([{"type": "future_step", "novelty": [1.50]}]),
    ];
    for input in inputs {
        let body = json!({"model": "m", "input": input});
        assert_eq!(round_trip(&body), body);
    }
}

#[test]
fn what_the_provider_holds_is_named_and_stays_with_it() {
    let body =
        json!({"model": "m", "input": [{"type": "function_result", "call_id": "c", "result": "r"}], "previous_interaction_id": "v1_x"});
    let decoded = decode(&CODEC, &body);
    assert_eq!(decoded.unified.conversation.completeness, Completeness::ReferenceOnly);
    assert_eq!(round_trip(&body), body, "its call is with the provider");
    let (bare, losses) = encode(&decoded.unified, &EncodeContext::plain(Capabilities::of(CODEC.capabilities())));
    assert!(!bare.to_string().contains("v1_x"));
    assert!(losses.iter().any(|l| l.starts_with("conversation.portability")), "{losses:?}");
}

#[test]
fn whatever_the_history_holds_the_input_is_legal() {
    let call = |id: &str| json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let user = json!({"role": "user", "content": "u"});
    let cases = [
        (
            json!([user, call("a"), user]),
            "user_input function_call function_result user_input",
        ),
        (json!([user, call("a"), result("a")]), "user_input function_call function_result"),
        (json!([user, result("z")]), "user_input user_input"),
        (
            json!([user, call("a"), result("a"), call("a"), result("a")]),
            "user_input function_call function_result function_call function_result",
        ),
        (json!([user, {"role": "assistant", "content": ""}]), "user_input"),
        (
            json!([user, {"role": "system", "content": "s"}, user]),
            "user_input user_input user_input",
        ),
    ];
    for (messages, expected) in cases {
        let (made, _) = projected(&messages, &json!({}));
        let steps = made["input"].as_array().unwrap();
        let kinds: Vec<_> = steps.iter().map(|s| s["type"].as_str().unwrap()).collect();
        assert_eq!(kinds.join(" "), expected, "{messages}");
        let ids: std::collections::BTreeSet<_> = steps.iter().filter_map(|s| s.get("id")).map(Value::to_string).collect();
        assert_eq!(ids.len(), kinds.iter().filter(|k| **k == "function_call").count(), "{messages}");
    }
    let (made, _) = projected(&json!([{"role": "user", "content": ""}]), &json!({}));
    assert_eq!(made["input"], "Continue.");
}

#[test]
fn settings_that_the_wire_has_no_word_for_are_reported() {
    for (setting, feature) in [
        (json!({"temperature": 0.5}), "generation.temperature"),
        (json!({"presence_penalty": 0.5}), "generation.presence_penalty"),
        (json!({"logprobs": true}), "generation.logprobs"),
        (json!({"n": 2}), "generation.candidate_count"),
        (json!({"reasoning_effort": "none"}), "generation.reasoning.effort"),
        (json!({"parallel_tool_calls": false}), "generation.parallel_tools"),
    ] {
        let (made, losses) = projected(&json!([{"role": "user", "content": "u"}]), &setting);
        assert!(losses.iter().any(|l| l.starts_with(feature)), "{setting}: {losses:?}");
        assert!(made.get("temperature").is_none());
    }
}

#[test]
fn work_in_the_background_is_asked_for_where_it_may_be_stored() {
    for (members, background, store) in [
        (json!({"background": true}), json!(true), Value::Null),
        (json!({"background": true, "store": true}), json!(true), json!(true)),
        // The other provider refuses both together.
        (json!({"background": true, "store": false}), Value::Null, json!(false)),
        (json!({}), Value::Null, json!(false)),
    ] {
        let mut body = json!({"model": "m", "input": "u"});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let target = codec_of(&ProtocolFamily::OpenAiResponses).unwrap();
        let context = EncodeContext::plain(Capabilities::of(target.capabilities()));
        let encoded = target.encode_request(&decode(&CODEC, &body).unified, &context).unwrap();
        let made: Value = serde_json::from_str(&encoded.body).unwrap();
        assert_eq!((&made["background"], &made["store"]), (&background, &store), "{members}");
        let told = encoded
            .loss
            .entries
            .iter()
            .any(|e| e.feature == "state.background" && e.path == "/state/background");
        assert_eq!(told, members["background"] == true && background.is_null(), "{members}");
    }
}

// ---- answers ---------------------------------------------------------------------------------------------------

fn interaction(status: &str, steps: &Value) -> Value {
    json!({"id": "v1_x", "object": "interaction", "model": "m", "status": status, "steps": steps})
}

#[test]
fn an_answer_has_the_id_under_which_its_client_finds_it_again() {
    let body = interaction(
        "completed",
        &json!([{"type": "model_output", "content": [{"type": "text", "text": "hi"}]}]),
    );
    let fold = fold_response(&CODEC, body.to_string().as_bytes());
    let (resources, events) = (&fold.resources, &fold.events);
    for (ours, expected) in [(None, "v1_x"), (Some("op_mine"), "op_mine")] {
        let context = |stream| EncodeContext {
            answer_id: ours.map(|id| throughline_format::UnifiedId::parse(id).unwrap()),
            ..owner(resources, stream)
        };
        let whole: Value = serde_json::from_str(&CODEC.encode_response(&result_of(&fold), &context(false)).unwrap().body).unwrap();
        assert_eq!(whole["id"], expected);
        let mut encoder = CODEC.stream_encoder(&context(true));
        let frames: Vec<Value> = events
            .iter()
            .flat_map(|event| encoder.push(event))
            .map(|frame| serde_json::from_str(&frame.data).unwrap())
            .collect();
        assert_eq!(frames.last().unwrap()["interaction"]["id"], expected);
    }
}

fn answer_again(body: &Value) -> Value {
    let fold = fold_response(&CODEC, body.to_string().as_bytes());
    let encoded = CODEC.encode_response(&result_of(&fold), &owner(&fold.resources, false)).unwrap();
    serde_json::from_str(&encoded.body).unwrap()
}

#[test]
fn every_status_has_its_meaning() {
    let call = json!([{"type": "function_call", "id": "c", "name": "f", "arguments": {}}]);
    let text = json!([{"type": "model_output", "content": [{"type": "text", "text": "x"}]}]);
    for (word, steps, reason, state) in [
        ("completed", &text, json!("stop"), "completed"),
        ("completed", &call, json!("tool-calls"), "completed"),
        ("requires_action", &call, json!("tool-calls"), "completed"),
        ("incomplete", &text, json!("length"), "incomplete"),
        ("requires_continuation", &text, json!("paused"), "incomplete"),
        ("budget_exceeded", &text, json!("incomplete"), "incomplete"),
        ("failed", &text, json!("failed"), "failed"),
        ("cancelled", &text, json!("cancelled"), "cancelled"),
        ("idle", &text, json!("unknown"), "incomplete"),
        ("queued", &text, Value::Null, "in-progress"),
        ("in_progress", &text, Value::Null, "in-progress"),
    ] {
        let body = interaction(word, steps);
        let status = serde_json::to_value(result_of(&fold_response(&CODEC, body.to_string().as_bytes())).status).unwrap();
        assert_eq!((&status["finishReason"], &status["state"]), (&reason, &json!(state)), "{word}");
        assert_eq!(status["originalReason"], word);
        assert_eq!(answer_again(&body), body, "{word}");
    }
}

#[test]
fn counters_are_kept_apart_and_an_agents_cover_its_run() {
    let mut body = interaction(
        "completed",
        &json!([{"type": "model_output", "content": [{"type": "text", "text": "x"}]}]),
    );
    body["usage"] = json!({"total_input_tokens": 10, "total_cached_tokens": 4, "total_output_tokens": 3, "total_thought_tokens": 2,
        "total_tool_use_tokens": 1, "total_tokens": 16, "input_tokens_by_modality": [{"modality": "image", "tokens": 10}],
        "grounding_tool_count": [{"type": "google_search", "count": 2}]});
    let usage = serde_json::to_value(result_of(&fold_response(&CODEC, body.to_string().as_bytes())).usage).unwrap();
    for (pointer, value, source) in [
        ("/inputTotal", 10, "reported"),
        ("/inputUncached", 6, "derived"),
        ("/cacheRead", 4, "reported"),
        ("/outputTotal", 5, "derived"),
        ("/reasoning", 2, "reported"),
        ("/toolPrompt", 1, "reported"),
        ("/total", 16, "reported"),
        ("/inputByModality/image", 10, "reported"),
        ("/serverToolCalls/web-search", 2, "reported"),
    ] {
        let counter = usage.pointer(pointer).unwrap();
        assert_eq!(counter, &json!({"value": value, "scope": "request", "source": source}), "{pointer}");
    }
    assert_eq!(usage.get("cacheWrite"), None);
    assert_eq!(answer_again(&body), body);
    body.as_object_mut().unwrap().remove("model");
    body["agent"] = json!("deep-research");
    let usage = result_of(&fold_response(&CODEC, body.to_string().as_bytes())).usage.unwrap();
    assert_eq!(usage.input_total.unwrap().scope, throughline_format::usage::UsageScope::Operation);
}

fn events() -> Vec<Value> {
    let start = |index: u64, step: Value| json!({"event_type": "step.start", "index": index, "step": step});
    let delta = |index: u64, delta: Value| json!({"event_type": "step.delta", "index": index, "delta": delta});
    let stop = |index: u64| json!({"event_type": "step.stop", "index": index});
    vec![
        json!({"event_type": "interaction.created", "interaction": {"id": "v1_x", "model": "m", "status": "in_progress"}, "event_id": "e1"}),
        start(0, json!({"type": "thought"})),
        delta(0, json!({"type": "thought_summary", "content": {"type": "text", "text": "hm"}})),
        delta(0, json!({"type": "thought_signature", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "model_output", "content": [{"type": "text", "text": "Grüße "}]})),
        delta(1, json!({"type": "text", "text": "🌍"})),
        delta(
            1,
            json!({"type": "text_annotation_delta", "annotations": [{"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 7}]}),
        ),
        stop(1),
        start(
            2,
            json!({"type": "google_search_call", "id": "s", "arguments": {}, "signature": ""}),
        ),
        delta(
            2,
            json!({"type": "google_search_call", "arguments": {"queries": ["q"]}, "signature": "c2ln"}),
        ),
        stop(2),
        start(3, json!({"type": "function_call", "id": "c", "name": "f", "arguments": {}})),
        delta(3, json!({"type": "arguments_delta", "arguments": "{\"a\""})),
        delta(3, json!({"type": "arguments_delta", "arguments": ":1}"})),
        stop(3),
        start(4, json!({"type": "function_call", "id": "d", "name": "g"})),
        stop(4),
        json!({"event_type": "interaction.status_update", "status": "requires_action"}),
        json!({"event_type": "interaction.completed", "interaction": {"id": "v1_x", "status": "requires_action", "usage": {"total_tokens": 3}}, "event_id": "e9"}),
    ]
}

fn bytes(events: &[Value]) -> String {
    events.iter().fold(String::new(), |text, e| {
        text + &format!("event: {}\ndata: {e}\n\n", e["event_type"].as_str().unwrap())
    })
}

#[test]
fn a_stream_folds_like_the_interaction_wherever_it_is_cut() {
    let text = bytes(&events());
    let whole = result_of(&fold_stream(&CODEC, text.as_bytes(), usize::MAX));
    for piece in (1..80).chain([97, 512]) {
        assert_eq!(
            result_of(&fold_stream(&CODEC, text.as_bytes(), piece)),
            whole,
            "in pieces of {piece}"
        );
    }
    let annotation = json!({"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 7});
    let body = json!({"id": "v1_x", "model": "m", "status": "requires_action", "usage": {"total_tokens": 3}, "steps": [
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "hm"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Grüße 🌍", "annotations": [annotation]}]},
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}, "signature": "c2ln"},
        {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}},
        {"type": "function_call", "id": "d", "name": "g", "arguments": {}}]});
    let at_once = result_of(&fold_response(&CODEC, body.to_string().as_bytes()));
    let content = |result: &throughline_format::UnifiedResultV2| -> Vec<Value> {
        result
            .output
            .iter()
            .map(|i| {
                let parts: Vec<_> = i.parts().iter().map(|p| p.as_text().map(str::to_owned)).collect();
                let call = serde_json::to_value(i).unwrap();
                json!([i.body.kind(), parts, call.get("rawArguments"), call.pointer("/parts/0/annotations")])
            })
            .collect()
    };
    assert_eq!(content(&whole), content(&at_once));
    assert_eq!((whole.status, whole.usage), (at_once.status, at_once.usage));
}

#[test]
fn the_last_event_and_the_handles_are_kept_for_their_owner() {
    let fold = fold_stream(&CODEC, bytes(&events()).as_bytes(), 7);
    let payload = |schema: &str| {
        let found = fold.resources.iter().find(|r| r.schema.ends_with(schema)).unwrap();
        String::from_utf8(found.payload.clone()).unwrap()
    };
    assert_eq!(
        (payload("event-id@1").as_str(), payload("interaction-id@1").as_str()),
        ("e9", "v1_x")
    );
    let state = result_of(&fold).state.unwrap();
    assert_eq!(state.resources[0].resource_type.as_str(), "interaction");
    let mut paused = events();
    paused.truncate(9);
    paused.push(json!({"event_type": "interaction.status_update", "status": "requires_continuation", "continuation_token": "t1"}));
    paused.push(json!({"event_type": "interaction.completed", "interaction": {"id": "v1_x", "status": "requires_continuation", "continuation_token": "t2"}}));
    let fold = fold_stream(&CODEC, bytes(&paused).as_bytes(), 7);
    assert_eq!(result_of(&fold).status.finish_reason.unwrap().as_str(), "paused");
    let token = fold.resources.iter().find(|r| r.schema.ends_with("continuation-token@1")).unwrap();
    assert_eq!(token.payload, b"t2");
}

#[test]
fn a_stream_that_is_encoded_again_folds_to_the_same() {
    let fold = fold_stream(&CODEC, bytes(&events()).as_bytes(), 7);
    let mut encoder = CODEC.stream_encoder(&owner(&fold.resources, true));
    let frames: Vec<_> = fold.events.iter().flat_map(|e| encoder.push(e)).collect();
    let ids: Vec<Value> = frames
        .iter()
        .map(|f| serde_json::from_str::<Value>(&f.data).unwrap()["event_id"].clone())
        .collect();
    assert_eq!(
        ids.first(),
        Some(&json!("1")),
        "events are numbered, so that a client can say where it stopped"
    );
    let again = fold_stream(&CODEC, sse(&frames).as_bytes(), 11);
    let shape = |fold: &OfflineFold| -> Vec<Value> {
        result_of(fold)
            .output
            .iter()
            .map(|i| {
                json!([
                    i.body.kind(),
                    i.parts().iter().map(|p| p.as_text()).collect::<Vec<_>>(),
                    serde_json::to_value(i).unwrap().get("rawArguments")
                ])
            })
            .collect()
    };
    assert_eq!(shape(&again), shape(&fold));
    assert_eq!(result_of(&again).status, result_of(&fold).status);
    let payloads = |fold: &OfflineFold| {
        fold.resources
            .iter()
            .filter(|r| r.schema.ends_with("signature@1"))
            .map(|r| r.payload.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(payloads(&again), payloads(&fold));
}

#[test]
fn a_stream_without_its_end_is_interrupted_and_an_error_fails_it() {
    let text = bytes(&events()[..7]);
    for (tail, reason, code) in [
        ("", "interrupted", "interrupted.stream"),
        ("data: [DONE]\n\n", "interrupted", "interrupted.stream"),
        (
            "data: {\"event_type\":\"error\",\"error\":{\"code\":\"https://x/overloaded\",\"message\":\"x\"}}\n\n",
            "failed",
            "server.provider",
        ),
        (
            "data: {\"event_type\":\"error\",\"error\":{\"code\":429,\"message\":\"x\"}}\n\n",
            "failed",
            "rate-limit.provider",
        ),
        ("data: {broken\n\n", "failed", "server.malformed-event"),
    ] {
        let result = result_of(&fold_stream(&CODEC, format!("{text}{tail}").as_bytes(), 5));
        assert_eq!(result.status.finish_reason.unwrap().as_str(), reason, "{tail}");
        assert_eq!(result.error.unwrap().code, code, "{tail}");
    }
}
