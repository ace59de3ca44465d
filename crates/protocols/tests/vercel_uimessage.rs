//! UI messages: parts of every kind and tools in every state to items and back, and the histories of others as messages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, fold_response, result_of};
use throughline_format::{PartBody, UnifiedItem, UnifiedItemBody, UnifiedRequestV2};
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::vercel_uimessage::{Chat, VercelUiMessage};
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext};

fn decode(messages: &Value) -> DecodedRequest {
    let body = json!({"id": "chat", "messages": messages, "trigger": "submit-message"});
    VercelUiMessage
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
}

fn context(codec: &dyn Codec) -> EncodeContext {
    EncodeContext::plain(Capabilities::of(codec.capabilities()))
}

fn major(word: &str) -> EncodeContext {
    EncodeContext {
        dialect: Some(word.to_owned()),
        ..context(&VercelUiMessage)
    }
}

/// One item in a few words.
fn say(item: &UnifiedItem) -> String {
    let part = |part: &throughline_format::UnifiedContentPart| match &part.body {
        PartBody::Text(text) => format!("{:?}", text.text),
        PartBody::Json(data) => format!("json {}{}", data.schema_name.as_deref().unwrap_or(""), data.value.as_str()),
        PartBody::GroundingSource(source) => format!("source {:?}", source.source.uri.as_ref().or(source.source.title.as_ref()).unwrap()),
        PartBody::Reasoning(reasoning) => format!("{:?} {}", reasoning.text, reasoning.state),
        body => body.kind().to_owned(),
    };
    let parts: Vec<_> = item.parts().iter().map(part).collect();
    let parts = parts.join(", ");
    match &item.body {
        UnifiedItemBody::Message(_) => format!("{}: {parts}", item.role.unwrap()),
        UnifiedItemBody::ToolCall(c) | UnifiedItemBody::ServerToolCall(c) => {
            format!("{} {} {} {} {}", item.body.kind(), c.name, c.call_id, c.raw_arguments, c.lifecycle)
        }
        UnifiedItemBody::ToolResult(r) => format!(
            "result {}{}: {parts}",
            r.call_id,
            if r.is_error == Some(true) { " failed" } else { "" }
        ),
        UnifiedItemBody::ServerToolResult(r) => format!("hosted result {}: {parts}", r.call_id),
        UnifiedItemBody::ApprovalRequest(r) => format!("ask {} {}", r.approval_id, r.call_id.as_ref().unwrap()),
        UnifiedItemBody::ApprovalResponse(r) => format!("answer {} {}", r.approval_id, r.decision),
        body => format!("{}: {parts}", body.kind()),
    }
}

/// Parts of an assistant's message become these items, and the same message again for their owner.
fn check(parts: &Value, expected: &[&str]) {
    let messages =
        json!([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]}, {"id": "a", "role": "assistant", "parts": parts}]);
    let decoded = decode(&messages);
    let items: Vec<_> = decoded.unified.conversation.items[1..].iter().map(say).collect();
    assert_eq!(items, expected, "{parts}");
    assert_eq!(back(&decoded), messages, "{parts}");
    // A stored answer is the same parts.
    let stored = json!([{"id": "a", "role": "assistant", "parts": parts}]);
    let fold = fold_response(&VercelUiMessage, stored.to_string().as_bytes());
    let result = result_of(&fold);
    let steering = parts.as_array().unwrap().iter().any(|part| part["type"] == "steering-message");
    // What a user said is no part of an answer, and an empty answer has no item to stand for it.
    if !steering && *parts != json!([]) {
        assert_eq!(result.output.iter().map(say).collect::<Vec<_>>(), expected, "stored {parts}");
    }
    let owner = EncodeContext {
        private: Arc::new(Everything::of(&fold.resources)),
        ..context(&VercelUiMessage)
    };
    let again = VercelUiMessage.encode_response(&result, &owner).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&again.body).unwrap(), stored, "stored {parts}");
}

/// The messages that their owner gets back.
fn back(decoded: &DecodedRequest) -> Value {
    let owner = EncodeContext {
        private: Arc::new(Everything::of(&decoded.resources)),
        ..context(&VercelUiMessage)
    };
    let encoded = VercelUiMessage.encode_request(&decoded.unified, &owner).unwrap();
    serde_json::from_str::<Value>(&encoded.body).unwrap()["messages"].clone()
}

#[test]
fn every_kind_of_part() {
    let text = |text: &str| json!({"type": "text", "text": text, "state": "done"});
    check(&json!([text("hi")]), &["assistant: \"hi\""]);
    check(&json!([text("a"), text("b")]), &["assistant: \"a\", \"b\""]);
    check(
        &json!([{"type": "text", "text": "cut", "state": "streaming"}]),
        &["assistant: \"cut\""],
    );
    check(&json!([{"type": "text", "text": "old"}]), &["assistant: \"old\""]);
    check(
        &json!([{"type": "text", "text": "m", "state": "done", "providerMetadata": {"openai": {"itemId": "msg_1"}}, "later": [1.0]}]),
        &["assistant: \"m\""],
    );
    check(
        &json!([{"type": "text", "text": "cited", "state": "done", "citations": [{"source": {"type": "source", "sourceType": "url", "id": "s", "url": "http://x"}, "startIndex": 0, "endIndex": 2, "citedText": "c"}]}]),
        &["assistant: \"cited\""],
    );
    check(
        &json!([{"type": "reasoning", "text": "hm", "state": "done", "id": "r1", "providerMetadata": {"anthropic": {"signature": "s"}}}]),
        &["reasoning: \"hm\" disclosed"],
    );
    check(
        &json!([{"type": "reasoning", "text": "", "state": "done", "providerMetadata": {"openai": {"reasoningEncryptedContent": null}}}]),
        &["reasoning: \"\" omitted"],
    );
    check(
        &json!([{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}]),
        &["assistant: image"],
    );
    check(
        &json!([{"type": "file", "mediaType": "audio/mpeg", "url": "http://x/a"}]),
        &["assistant: audio"],
    );
    check(
        &json!([{"type": "file", "mediaType": "video/mp4", "url": "http://x/v"}]),
        &["assistant: video"],
    );
    check(
        &json!([{"type": "file", "mediaType": "application/pdf", "filename": "a.pdf", "url": "http://x/p"}]),
        &["assistant: document"],
    );
    check(
        &json!([{"type": "file", "mediaType": "application/zip", "url": "http://x/z", "providerReference": {"openai": "file-1"}}]),
        &["assistant: file"],
    );
    check(
        &json!([{"type": "reasoning-file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}]),
        &["assistant: "],
    );
    check(
        &json!([{"type": "source-url", "sourceId": "s1", "url": "http://x", "title": "X"}]),
        &["assistant: source \"http://x\""],
    );
    check(
        &json!([{"type": "source-url", "sourceId": "not an ID!", "url": "http://x"}]),
        &["assistant: source \"http://x\""],
    );
    check(
        &json!([{"type": "source-document", "sourceId": "s1", "mediaType": "text/plain", "title": "T", "filename": "t.txt"}]),
        &["assistant: source \"T\""],
    );
    check(
        &json!([{"type": "data-weather", "id": "w", "data": {"t": 1.50}}]),
        &["assistant: json data-weather{\"t\":1.5}"],
    );
    check(
        &json!([{"type": "custom", "kind": "openai.compaction", "providerMetadata": {"openai": {}}}]),
        &["assistant: "],
    );
    check(&json!([{"type": "hologram", "depth": 3}]), &["assistant: "]);
    check(&json!([{"type": "tool-nameless", "state": "output-available"}]), &["assistant: "]);
    check(
        &json!([{"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "also"}, {"type": "file", "mediaType": "image/png", "url": "http://x/i"}]}]),
        &["assistant: ", "user: \"also\", image"],
    );
    check(&json!([]), &["assistant: "]);
}

#[test]
fn every_state_of_a_tool() {
    let tool = |more: Value| {
        let mut part = json!({"type": "tool-f", "toolCallId": "c"});
        part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([part])
    };
    let call = |state: &str| format!("tool-call f c {{\"a\":1}} {state}");
    let with = |more: &[&str], state: &str| {
        let mut all = vec![call(state)];
        all.extend(more.iter().map(|line| (*line).to_owned()));
        all
    };
    let input = json!({"a": 1});
    let asked = json!({"id": "q"});
    let granted = json!({"id": "q", "approved": true, "reason": "fine"});
    let denied = json!({"id": "q", "approved": false});
    let cases = [
        (json!({"state": "input-available", "input": input}), with(&[], "arguments-ready")),
        (json!({"state": "invented-later", "input": input}), with(&[], "arguments-ready")),
        (
            json!({"state": "output-available", "input": input, "output": "ok"}),
            with(&["result c: \"ok\""], "output-ready"),
        ),
        (
            json!({"state": "output-available", "input": input, "output": {"n": 1.0}}),
            with(&["result c: json {\"n\":1.0}"], "output-ready"),
        ),
        (
            json!({"state": "output-available", "input": input, "output": 3, "preliminary": true}),
            with(&["result c: json 3"], "executing"),
        ),
        (
            json!({"state": "output-error", "input": input, "errorText": "bad"}),
            with(&["result c failed: \"bad\""], "output-error"),
        ),
        (
            json!({"state": "approval-requested", "input": input, "approval": asked}),
            with(&["ask q c"], "approval-required"),
        ),
        (
            json!({"state": "approval-requested", "input": input, "approval": {"id": "q", "requestReason": "costs", "isAutomatic": true, "signature": "s"}}),
            with(&["ask q c"], "approval-required"),
        ),
        (
            json!({"state": "approval-responded", "input": input, "approval": granted}),
            with(&["ask q c", "answer q approved"], "approval-approved"),
        ),
        (
            json!({"state": "approval-responded", "input": input, "approval": denied}),
            with(&["ask q c", "answer q denied"], "approval-denied"),
        ),
        (
            json!({"state": "output-denied", "input": input, "approval": denied}),
            with(&["ask q c", "answer q denied"], "approval-denied"),
        ),
        (
            json!({"state": "output-available", "input": input, "output": "ok", "approval": granted}),
            with(&["ask q c", "answer q approved", "result c: \"ok\""], "output-ready"),
        ),
        (
            json!({"state": "input-streaming", "input": {"a": 1}, "rawInput": "{\"a\":1"}),
            vec!["tool-call f c {\"a\":1 cancelled".to_owned()],
        ),
        (json!({"state": "input-streaming"}), vec!["tool-call f c  cancelled".to_owned()]),
        (
            json!({"state": "output-error", "rawInput": "SELECT", "errorText": "e"}),
            vec!["tool-call f c SELECT output-error".to_owned(), "result c failed: \"e\"".to_owned()],
        ),
        (
            json!({"state": "output-error", "rawInput": {"b": 2}, "errorText": "e"}),
            vec![
                "tool-call f c {\"b\":2} output-error".to_owned(),
                "result c failed: \"e\"".to_owned(),
            ],
        ),
        (
            json!({"state": "input-available", "input": "SELECT 1"}),
            vec!["tool-call f c SELECT 1 arguments-ready".to_owned()],
        ),
        (
            json!({"state": "input-available", "input": input, "title": "F", "toolMetadata": {"x": 1}, "providerExecuted": false, "callProviderMetadata": {"google": {"thoughtSignature": "s"}}}),
            with(&[], "arguments-ready"),
        ),
        (
            json!({"state": "output-available", "input": input, "output": "ok", "resultProviderMetadata": {"x": {}}}),
            with(&["result c: \"ok\""], "output-ready"),
        ),
        (
            json!({"state": "output-available", "input": input, "output": "ok", "providerExecuted": true}),
            vec![
                "server-tool-call f c {\"a\":1} output-ready".to_owned(),
                "hosted result c: \"ok\"".to_owned(),
            ],
        ),
    ];
    for (more, expected) in cases {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&tool(more.clone()), &expected);
        let mut dynamic = tool(more)[0].clone();
        dynamic["type"] = json!("dynamic-tool");
        dynamic["toolName"] = json!("f");
        check(&json!([dynamic]), &expected);
    }
}

#[test]
fn calls_of_a_step_stand_together_and_steps_stay_apart() {
    let tool = |id: &str| json!({"type": "tool-f", "toolCallId": id, "state": "output-available", "input": {}, "output": id});
    let step = json!({"type": "step-start"});
    let text = json!({"type": "text", "text": "t", "state": "done"});
    check(
        &json!([step, tool("a"), tool("b"), step, text]),
        &[
            "tool-call f a {} output-ready",
            "tool-call f b {} output-ready",
            "result a: \"a\"",
            "result b: \"b\"",
            "assistant: \"t\"",
        ],
    );
    check(
        &json!([step, text, step, text, step]),
        &["assistant: \"t\"", "assistant: \"t\"", "assistant: "],
    );
    // Parallel calls are parallel for another protocol too.
    let decoded = decode(&json!([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]},
        {"id": "a", "role": "assistant", "parts": [step, tool("a"), tool("b"), step, text]}]));
    let body: Value = serde_json::from_str(&OpenAiChat.encode_request(&decoded.unified, &context(&OpenAiChat)).unwrap().body).unwrap();
    let roles: Vec<_> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
}

#[test]
fn bodies_come_back_and_bad_ones_name_their_place() {
    for body in [
        json!({"id": "c", "messages": [{"id": "u", "role": "user", "metadata": {"n": 1.0}, "parts": [{"type": "text", "text": "q"}], "more": {"x": [1]}}], "trigger": "regenerate-message", "messageId": "m", "model": "x", "custom": {"deep": 1e2}}),
        json!([{"id": "s", "role": "system", "parts": [{"type": "text", "text": "be kind"}]}, {"role": "user", "parts": []}]),
    ] {
        let decoded = VercelUiMessage
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap();
        let owner = EncodeContext {
            private: Arc::new(Everything::of(&decoded.resources)),
            ..context(&VercelUiMessage)
        };
        let encoded = VercelUiMessage.encode_request(&decoded.unified, &owner).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&encoded.body).unwrap(), body);
    }
    for (body, pointer) in [
        ("{}", ""),
        (r#"{"messages":[]}"#, "/messages"),
        (r#"{"messages":[{"role":"tool","parts":[]}]}"#, "/messages/0/role"),
        (
            r#"{"messages":[{"role":"user","parts":[{"type":"text","text":5}]}]}"#,
            "/messages/0/parts/0/text",
        ),
        (r#"[{"role":"user","parts":[{"text":"x"}]}]"#, "/0/parts/0"),
    ] {
        let error = VercelUiMessage
            .decode_request(body.as_bytes(), &DecodeContext::offline())
            .unwrap_err();
        assert_eq!(error.field_path.as_deref(), Some(pointer), "{body}");
    }
    let chat = |body: Value| Chat::of(body.to_string().as_bytes());
    let ends_with = |role: &str| chat(json!({"id": "c", "messages": [{"id": "m", "role": role, "parts": []}]}));
    assert_eq!((ends_with("user").id.as_deref(), ends_with("user").continues), (Some("c"), None));
    assert_eq!(ends_with("assistant").continues.as_deref(), Some("m"));
    assert_eq!(chat(json!([])), Chat::default());
}

#[test]
fn private_state_goes_to_its_owner_only() {
    let messages = json!([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]}, {"id": "a", "role": "assistant", "metadata": {"secret": "SECRET0"},
        "parts": [{"type": "reasoning", "text": "hm", "state": "done", "providerMetadata": {"anthropic": {"signature": "SECRET1"}}},
            {"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {}, "output": "o", "callProviderMetadata": {"g": "SECRET2"}, "resultProviderMetadata": {"g": "SECRET3"}},
            {"type": "text", "text": "t", "state": "done", "providerMetadata": {"openai": "SECRET4"}, "unknown": "SECRET5"}]}]);
    let decoded = decode(&messages);
    let record = serde_json::to_string(&decoded.unified).unwrap();
    assert!(!record.contains("SECRET"), "nothing of it stands in the record");
    assert!(
        decoded
            .resources
            .iter()
            .all(|r| r.scope == throughline_format::ProviderDataScope::OwnerPrivate)
    );
    for codec in [&VercelUiMessage as &dyn Codec, &AnthropicMessages, &OpenAiChat] {
        let encoded = codec.encode_request(&decoded.unified, &context(codec)).unwrap();
        assert!(!encoded.body.contains("SECRET"), "{}", encoded.body);
        assert!(!encoded.loss.entries.is_empty());
    }
    assert_eq!(back(&decoded), messages);
}

#[test]
fn a_history_of_another_protocol_is_one_message_a_turn() {
    let history = json!({"model": "m", "max_tokens": 9, "system": "be kind", "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "look"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [{"type": "text", "text": "bad"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        {"role": "user", "content": "more"}]});
    let request = AnthropicMessages
        .decode_request(history.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
        .unified;
    let encoded = VercelUiMessage.encode_request(&request, &context(&VercelUiMessage)).unwrap();
    let body: Value = serde_json::from_str(&encoded.body).unwrap();
    let shown: Vec<String> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let kinds: Vec<_> = message["parts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| p["type"].as_str().unwrap())
                .collect();
            format!("{}: {}", message["role"].as_str().unwrap(), kinds.join(" "))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "system: text",
            "user: text",
            "assistant: step-start reasoning text tool-f step-start text",
            "user: text"
        ]
    );
    let tool = &body["messages"][2]["parts"][3];
    assert_eq!(
        (tool["state"].as_str(), tool["input"].clone()),
        (Some("output-error"), json!({"a": 1}))
    );
    assert!(tool["errorText"].as_str().unwrap().contains("bad"));
    assert!(!encoded.body.contains("c2ln"));
    let features: Vec<_> = encoded.loss.entries.iter().map(|e| e.feature.as_str()).collect();
    for feature in ["generation.max_output_tokens", "reasoning.signature", "tool.result.media"] {
        assert!(features.contains(&feature), "{feature}: {features:?}");
    }
    prefix_stable(&request);
}

/// A history with one more turn begins with the history, message by message.
fn prefix_stable(request: &UnifiedRequestV2) {
    let messages = |count: usize| -> Vec<Value> {
        let mut shorter = request.clone();
        shorter.conversation.items.truncate(count);
        let body = VercelUiMessage.encode_request(&shorter, &context(&VercelUiMessage)).unwrap().body;
        serde_json::from_str::<Value>(&body).unwrap()["messages"]
            .as_array()
            .unwrap()
            .clone()
    };
    let items = &request.conversation.items;
    let whole = messages(items.len());
    for count in 1..items.len() {
        // Where a turn of the assistant goes on, its message does; everything before it stays.
        let shorter = messages(count);
        let settled = shorter.len() - usize::from(shorter.last().is_some_and(|m| m["role"] == "assistant"));
        assert_eq!(shorter[..settled], whole[..settled], "{count} items");
    }
}

#[test]
fn what_a_major_cannot_say_is_said_otherwise_and_reported() {
    let parts = json!([{"type": "tool-f", "toolCallId": "c", "state": "output-denied", "input": {}, "approval": {"id": "q", "approved": false}},
        {"type": "text", "text": "x🌍y", "state": "done", "citations": [{"source": {"type": "source", "sourceType": "url", "id": "s", "url": "http://x"}, "startIndex": 1, "endIndex": 3, "citedText": "c"}]}]);
    let request = decode(&json!([{"id": "a", "role": "assistant", "parts": parts}])).unified;
    let encoded = |word: &str| {
        let encoded = VercelUiMessage.encode_request(&request, &major(word)).unwrap();
        let body: Value = serde_json::from_str(&encoded.body).unwrap();
        (body["messages"][0]["parts"].clone(), encoded.loss.entries)
    };
    let (five, losses) = encoded("5");
    assert_eq!(five[0]["state"], "output-error");
    assert!(five[0].get("approval").is_none());
    assert!(
        losses
            .iter()
            .any(|e| e.feature == "tool.approval" && e.path == "/conversation/items/1")
    );
    let (six, losses) = encoded("6");
    assert_eq!(six[0]["state"], "output-denied");
    assert!(six[1].get("citations").is_none());
    assert_eq!(six[2]["url"], "http://x");
    assert!(losses.iter().any(|e| e.feature == "citation.span"));
    let (seven, _) = encoded("7");
    assert_eq!(
        (&seven[1]["citations"][0]["startIndex"], &seven[1]["citations"][0]["endIndex"]),
        (&json!(1), &json!(3))
    );
}

#[test]
fn call_ids_are_mapped_only_when_two_calls_share_one() {
    let call = |id: &str| json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "q"}, call("a"), result("a", "1"), {"role": "user", "content": "again"}, call("a"), result("a", "2"), result("orphan", "3")]});
    let request = OpenAiChat
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
        .unified;
    let encode = || VercelUiMessage.encode_request(&request, &context(&VercelUiMessage)).unwrap();
    let body: Value = serde_json::from_str(&encode().body).unwrap();
    assert_eq!(encode().body, body.to_string(), "the same every time");
    let tools: Vec<&Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|m| m["parts"].as_array().unwrap())
        .filter(|p| p.get("toolCallId").is_some())
        .collect();
    let told: Vec<_> = tools.iter().map(|t| t["output"].as_str().unwrap()).collect();
    assert_eq!(told, ["1", "2", "3"]);
    assert_eq!(tools[0]["toolCallId"], "a");
    assert_ne!(tools[1]["toolCallId"], "a");
    assert!(encode().loss.entries.iter().any(|e| e.feature == "tool.call.id"));
}

#[test]
fn private_state_in_a_hosted_tool_comes_back_to_its_owner_and_reaches_nobody_else() {
    let found =
        json!([{"type": "web_search_result", "url": "https://a.example", "title": "A", "encryptedContent": "sealed-1", "pageAge": null}]);
    let tools = [
        json!({"type": "tool-web_search", "toolCallId": "w", "state": "output-available", "input": {"query": "x"}, "providerExecuted": true, "output": found}),
        json!({"type": "tool-code_interpreter", "toolCallId": "c", "state": "output-available", "input": {"code": "1 + 1", "containerId": "sealed-2"}, "providerExecuted": true, "output": {"outputs": [{"type": "logs", "logs": "2"}]}}),
        json!({"type": "tool-web_search", "toolCallId": "t", "state": "output-available", "input": {"query": "y"}, "providerExecuted": true,
            "output": "[{\"url\": \"https://b.example\", \"encrypted\\u0043ontent\": \"sealed-3\"}]"}),
        json!({"type": "tool-code_execution", "toolCallId": "e", "state": "output-error", "input": {"code": "2"}, "providerExecuted": true,
            "errorText": "{\"reason\": \"expired\", \"container\": {\"id\": \"sealed-4\"}}"}),
    ];
    let step = json!({"type": "step-start"});
    let messages = json!([
        {"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]},
        {"id": "a", "role": "assistant", "parts": [step, tools[0], tools[1], tools[2], tools[3], {"type": "text", "text": "done"}]}]);
    let decoded = decode(&messages);
    assert!(
        !serde_json::to_string(&decoded.unified).unwrap().contains("sealed"),
        "not in the record"
    );
    let owner = EncodeContext {
        private: Arc::new(Everything::of(&decoded.resources)),
        ..context(&VercelUiMessage)
    };
    let again: Value = serde_json::from_str(&VercelUiMessage.encode_request(&decoded.unified, &owner).unwrap().body).unwrap();
    assert_eq!(again["messages"], messages);
    for codec in [&VercelUiMessage as &dyn Codec, &AnthropicMessages, &OpenAiChat] {
        let body = codec.encode_request(&decoded.unified, &context(codec)).unwrap().body;
        assert!(!body.contains("sealed"), "{body}");
        for word in ["https://a.example", "1 + 1", "https://b.example", "expired"] {
            assert!(body.contains(word), "{word} in {body}");
        }
    }
}

#[test]
fn a_client_executed_tool_may_say_whatever_it_wants() {
    let tool = json!({"type": "tool-docker", "toolCallId": "d", "state": "output-available", "input": {"containerId": "mine"}, "output": {"containerId": "mine"}});
    let decoded = decode(&json!([{"id": "a", "role": "assistant", "parts": [tool]}]));
    let said = serde_json::to_value(&decoded.unified.conversation.items).unwrap();
    assert_eq!(said[0]["input"], json!({"containerId": "mine"}));
    assert_eq!(said[1]["output"][0]["value"], json!({"containerId": "mine"}));
}
