//! Computer use across protocols: options of the tool both ways between Google's wires, its calls and screens whole, and what a
//! client of another vendor is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use serde_json::{Value, json};
use throughline_format::{ProtocolFamily, UnifiedItem};
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, codec_of};

const GEMINI: ProtocolFamily = ProtocolFamily::GeminiGenerateContent;
const VERTEX: ProtocolFamily = ProtocolFamily::VertexGemini;
const INTERACTIONS: ProtocolFamily = ProtocolFamily::GeminiInteractions;

fn projected(from: &ProtocolFamily, to: &ProtocolFamily, body: &Value) -> (Value, Vec<String>) {
    let decoded = codec_of(from)
        .unwrap()
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap();
    let target = codec_of(to).unwrap();
    let context = EncodeContext::plain(Capabilities::of(target.capabilities()));
    let encoded = target.encode_request(&decoded.unified, &context).unwrap();
    let told = encoded.loss.entries.iter().map(|e| format!("{} {}", e.feature, e.path)).collect();
    (serde_json::from_str(&encoded.body).unwrap(), told)
}

/// A request of GenerateContent, or of Interactions, that offers a tool.
fn offers(family: &ProtocolFamily, tool: &Value) -> Value {
    match family {
        ProtocolFamily::GeminiInteractions => json!({"model": "gemini-3-pro", "input": "hi", "tools": [tool]}),
        ProtocolFamily::AnthropicMessages => {
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": [tool]})
        }
        ProtocolFamily::OpenAiResponses => json!({"model": "m", "input": "hi", "tools": [tool]}),
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "tools": [tool]}),
    }
}

#[test]
fn every_option_of_the_tool_goes_both_ways() {
    let options = [
        (json!({}), json!({})),
        (
            json!({"excludedPredefinedFunctions": ["drag_and_drop"]}),
            json!({"excluded_predefined_functions": ["drag_and_drop"]}),
        ),
        (
            json!({"enablePromptInjectionDetection": true}),
            json!({"enable_prompt_injection_detection": true}),
        ),
        (
            json!({"disabledSafetyPolicies": ["ACCOUNT_CREATION"]}),
            json!({"disabled_safety_policies": ["account_creation"]}),
        ),
    ];
    for (word, camel) in [
        ("browser", "ENVIRONMENT_BROWSER"),
        ("mobile", "ENVIRONMENT_MOBILE"),
        ("desktop", "ENVIRONMENT_DESKTOP"),
    ] {
        for (newer, older) in &options {
            let mut member = newer.clone();
            member["environment"] = json!(camel);
            let generate = json!({"computerUse": member});
            let mut interact = older.clone();
            interact["type"] = json!("computer_use");
            interact["environment"] = json!(word);
            for (from, to, tool, expected) in [
                (&GEMINI, &VERTEX, &generate, &generate),
                (&VERTEX, &GEMINI, &generate, &generate),
                (&GEMINI, &INTERACTIONS, &generate, &interact),
                (&INTERACTIONS, &GEMINI, &interact, &generate),
                (&INTERACTIONS, &VERTEX, &interact, &generate),
            ] {
                let (made, told) = projected(from, to, &offers(from, tool));
                assert_eq!(&made["tools"], &json!([expected]), "{from} to {to}");
                // Interactions says of every hosted tool that it is the target's own.
                let lost = told.iter().any(|loss| loss == "tool.hosted.computer_use /tools/0");
                assert_eq!(lost, *to == INTERACTIONS, "{from} to {to}: {told:?}");
            }
        }
    }
}

#[test]
fn who_executes_another_vendors_actions_is_told() {
    for (from, tool) in [
        (
            ProtocolFamily::AnthropicMessages,
            json!({"type": "computer_20250124", "name": "computer", "display_width_px": 8, "display_height_px": 6}),
        ),
        (
            ProtocolFamily::OpenAiResponses,
            json!({"type": "computer_use_preview", "display_width": 8, "display_height": 6, "environment": "browser"}),
        ),
    ] {
        for to in [&GEMINI, &VERTEX, &INTERACTIONS] {
            let (_, told) = projected(&from, to, &offers(&from, &tool));
            assert!(
                told.iter().any(|loss| loss == "tool.hosted.computer_use /tools/0"),
                "{from} to {to}: {told:?}"
            );
        }
    }
    // And the other way round: the tool of Google's is left out.
    for to in [
        ProtocolFamily::AnthropicMessages,
        ProtocolFamily::OpenAiResponses,
        ProtocolFamily::OpenAiChat,
    ] {
        let tool = json!({"computerUse": {"environment": "ENVIRONMENT_BROWSER"}});
        let (made, told) = projected(&GEMINI, &to, &offers(&GEMINI, &tool));
        assert_eq!(made.get("tools"), None, "{to}");
        assert!(
            told.iter().any(|loss| loss == "tool.hosted.computer_use /tools/0"),
            "{to}: {told:?}"
        );
    }
}

/// A call of a predefined function with a decision that somebody is to confirm, and its answer with a screen.
fn history(family: &ProtocolFamily) -> Value {
    let args = json!({"x": 1, "y": 2, "safety_decision": {"decision": "require_confirmation", "explanation": "e"}});
    let response = json!({"url": "https://h.example/", "safety_acknowledgement": "true"});
    if *family == INTERACTIONS {
        return json!({"model": "gemini-3-pro", "tools": [{"type": "computer_use", "environment": "browser"}], "input": [
            {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
            {"type": "function_call", "id": "c1", "name": "click_at", "arguments": args},
            {"type": "function_result", "call_id": "c1", "name": "click_at",
                "result": [{"type": "text", "text": response.to_string()}, {"type": "image", "data": "AAAA", "mime_type": "image/png"}]}]});
    }
    json!({"tools": [{"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}], "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "click_at", "args": args}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "click_at", "response": response,
            "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]}}]}]})
}

#[test]
fn calls_decisions_and_screens_come_through_whole() {
    for from in [&GEMINI, &VERTEX, &INTERACTIONS] {
        let body = history(from);
        let codec = codec_of(from).unwrap();
        let decoded = codec
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap()
            .unified;
        let items = serde_json::to_value(&decoded.conversation.items).unwrap();
        assert_eq!(items[1]["input"]["safety_decision"]["decision"], "require_confirmation", "{from}");
        assert_eq!(items[2]["output"][1]["kind"], "image", "{from}");
        for to in throughline_protocols::families() {
            let (made, told) = projected(from, to, &body);
            let text = made.to_string();
            for word in ["click_at", "require_confirmation", "safety_acknowledgement", "https://h.example/"] {
                assert!(text.contains(word), "{from} to {to}: {word}: {text}");
            }
            assert!(
                text.contains("AAAA") || told.iter().any(|loss| loss.contains("/conversation/items/2")),
                "{from} to {to}: {told:?}"
            );
        }
    }
}

#[test]
fn an_answer_calls_predefined_functions_like_any_other() {
    let call =
        json!({"name": "type_text_at", "args": {"x": 1, "y": 2, "text": "a", "safety_decision": {"decision": "require_confirmation"}}});
    let answer =
        json!({"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}, "finishReason": "STOP", "index": 0}]});
    let codec = codec_of(&GEMINI).unwrap();
    let mut fold = throughline_protocols::offline::OfflineFold::new();
    fold.push(
        codec
            .decode_response(answer.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap(),
    )
    .unwrap();
    let result = fold.fold.result();
    let calls: Vec<&UnifiedItem> = result.output.iter().collect();
    assert_eq!(calls.len(), 1);
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    let back: Value = serde_json::from_str(&codec.encode_response(&result, &context).unwrap().body).unwrap();
    assert_eq!(back["candidates"][0]["content"]["parts"][0]["functionCall"], call);
}
