//! Whatever a provider sends, a decoder keeps the event grammar: every stream folds, ends once and reads back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::{Everything, fold_response, fold_stream, result_of};
use throughline_format::{ErrorCategory, EventBody, UnifiedEventV2, UnifiedFinishReason, UnifiedItemBody, UnifiedToolLifecycle};
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::cursor_sdk::CursorSdk;
use throughline_protocols::gemini_generate_content::GeminiGenerateContent;
use throughline_protocols::gemini_interactions::GeminiInteractions;
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::openai_responses::OpenAiResponses;
use throughline_protocols::sse::MAX_EVENT_BYTES;
use throughline_protocols::vercel_uimessage::VercelUiMessage;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext};

const CODECS: [&dyn Codec; 8] = [
    &OpenAiChat,
    &AnthropicMessages,
    &OpenAiResponses,
    &GeminiGenerateContent::GEMINI,
    &GeminiGenerateContent::ANTIGRAVITY,
    &GeminiInteractions,
    &CursorSdk,
    &VercelUiMessage,
];

/// One event: its name and its data.
type Wire = (Option<&'static str>, String);

fn bytes(events: &[Wire]) -> String {
    let line = |(name, data): &Wire| {
        let name = name.map(|n| format!("event: {n}\n")).unwrap_or_default();
        format!("{name}data: {data}\n\n")
    };
    events.iter().map(line).collect()
}

fn warnings(fold: &OfflineFold) -> Vec<&str> {
    let code = |event: &'_ UnifiedEventV2| match &event.body {
        EventBody::Warning(warning) => Some(warning.code.clone()),
        _ => None,
    };
    let codes: Vec<String> = fold.events.iter().filter_map(code).collect();
    codes.into_iter().map(|c| &*c.leak()).collect()
}

// ---- choices ---------------------------------------------------------------------------------------------------

fn choice(index: u64, text: &str) -> Value {
    json!({"index": index, "delta": {"content": text}, "finish_reason": "stop"})
}

fn chat_stream(choices: &[Value]) -> String {
    let chunk = json!({"id": "c", "model": "m", "choices": choices});
    format!("data: {chunk}\n\ndata: [DONE]\n\n")
}

#[test]
fn a_choice_with_an_impossible_index_is_left_out() {
    for index in [1_024, u64::MAX / 10_000 + 1, u64::MAX] {
        let stream = chat_stream(&[choice(0, "first"), choice(index, "lost"), choice(1_023, "last")]);
        let fold = fold_stream(&OpenAiChat, stream.as_bytes(), 7);
        let result = result_of(&fold);
        assert_eq!(result.output[0].parts()[0].as_text(), Some("first"));
        let alternatives = result.alternatives.as_ref().unwrap();
        assert_eq!(alternatives.iter().map(|a| a.index).collect::<Vec<_>>(), [1_023]);
        assert_eq!(warnings(&fold), ["response.choice-index"]);

        // When nothing else came, the answer is not one that is empty.
        let alone =
            json!({"id": "c", "model": "m", "choices": [{"index": index, "message": {"content": "lost"}, "finish_reason": "stop"}]});
        for fold in [
            fold_stream(&OpenAiChat, chat_stream(&[choice(index, "lost")]).as_bytes(), 64),
            fold_response(&OpenAiChat, alone.to_string().as_bytes()),
        ] {
            assert_eq!(result_of(&fold).error.unwrap().code, "server.malformed-answer");
        }
    }
}

#[test]
fn items_of_two_candidates_never_share_an_id() {
    let calls: Vec<_> = (0..10_003)
        .map(|n| json!({"id": format!("call_{n}"), "type": "function", "function": {"name": "f", "arguments": "{}"}}))
        .collect();
    let body = json!({"id": "c", "model": "m", "choices": [
        {"index": 0, "message": {"content": null, "tool_calls": calls}, "finish_reason": "tool_calls"},
        {"index": 1, "message": {"content": "a", "tool_calls": &calls[..5]}, "finish_reason": "tool_calls"}]});
    let result = result_of(&fold_response(&OpenAiChat, body.to_string().as_bytes()));
    let others = result.alternatives.iter().flatten().flat_map(|a| &a.output);
    let ids: Vec<_> = result.output.iter().chain(others).map(|item| item.id.clone()).collect();
    assert_eq!(ids.len(), 10_003 + 6);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

// ---- hosted results --------------------------------------------------------------------------------------------

fn messages_stream(events: &[Value]) -> String {
    let mut all = vec![
        json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1}}}),
    ];
    all.extend_from_slice(events);
    all.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}));
    all.push(json!({"type": "message_stop"}));
    all.iter().map(|e| ["data: ", &e.to_string(), "\n\n"].concat()).collect()
}

#[test]
fn a_hosted_result_ends_the_arguments_of_its_call() {
    let call = |index: u64| json!({"type": "content_block_start", "index": index, "content_block": {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}});
    let text = |index: u64| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": "{\"query\":\"q\"}"}});
    let found = |index: u64, content: Value| json!({"type": "content_block_start", "index": index, "content_block": {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let failed = json!({"type": "web_search_tool_result_error", "error_code": "unavailable"});
    let cases = [
        (
            "no stop of the call",
            vec![call(0), text(0), found(1, json!([])), stop(1)],
            UnifiedToolLifecycle::OutputReady,
        ),
        (
            "no stop at all",
            vec![call(0), text(0), found(1, json!([]))],
            UnifiedToolLifecycle::OutputReady,
        ),
        (
            "the result stands first",
            vec![call(5), text(5), found(1, json!([]))],
            UnifiedToolLifecycle::OutputReady,
        ),
        (
            "the stop comes late",
            vec![call(0), text(0), found(1, json!([])), stop(1), stop(0)],
            UnifiedToolLifecycle::OutputReady,
        ),
        (
            "an error",
            vec![call(0), text(0), found(1, failed), stop(1)],
            UnifiedToolLifecycle::OutputError,
        ),
    ];
    for (name, events, lifecycle) in cases {
        let fold = fold_stream(&AnthropicMessages, messages_stream(&events).as_bytes(), 11);
        let result = result_of(&fold);
        let UnifiedItemBody::ServerToolCall(call) = &result.output[0].body else {
            panic!("{name}")
        };
        assert_eq!(call.raw_arguments, r#"{"query":"q"}"#, "{name}");
        assert_eq!(call.lifecycle, lifecycle, "{name}");
        assert_eq!(result.output.len(), 2, "{name}");
        assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Stop), "{name}");
        assert!(warnings(&fold).contains(&"stream.block-left-open"), "{name}");
    }
}

// ---- events that cannot be taken -------------------------------------------------------------------------------

#[test]
fn an_oversized_event_is_the_providers_fault() {
    let long = "x".repeat(MAX_EVENT_BYTES);
    for codec in CODECS {
        let fold = fold_stream(codec, format!("data: {{\"a\":\"{long}\"}}\n\n").as_bytes(), 1 << 20);
        let error = result_of(&fold).error.unwrap();
        assert_eq!(
            (error.category, error.code.as_str()),
            (ErrorCategory::Server, "server.event-too-large")
        );
        assert!(codec.encode_error(&error).status >= 500);
    }
}

#[test]
fn events_of_another_shape_are_warnings_and_broken_ones_end_the_stream() {
    let chat = chat_stream(&[choice(0, "said")]);
    let text = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "said"}}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    let messages = messages_stream(&text);
    for (codec, stream, warning) in [
        (CODECS[0], &chat, "stream.unreadable-chunk"),
        (CODECS[1], &messages, "stream.unreadable-event"),
    ] {
        let (head, tail) = if codec.profile().family.as_str() == "openai-chat" {
            ("", stream.as_str())
        } else {
            stream.split_at(stream.find("\n\n").unwrap() + 2)
        };
        for odd in [
            "[]",
            "5",
            "null",
            "\"x\"",
            r#"{"type":"content_block_start","index":"x","choices":7}"#,
        ] {
            let fold = fold_stream(codec, format!("{head}data: {odd}\n\n{tail}").as_bytes(), 5);
            let result = result_of(&fold);
            assert_eq!(warnings(&fold), [warning], "{odd}");
            assert_eq!(result.output[0].parts()[0].as_text(), Some("said"), "{odd}");
            assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Stop), "{odd}");
        }
        for broken in ["{", "{\"a\":1,\"a\":2}", "nothing", &"[".repeat(500)] {
            let fold = fold_stream(codec, format!("{head}data: {broken}\n\n{tail}").as_bytes(), 5);
            assert_eq!(result_of(&fold).error.unwrap().category, ErrorCategory::Server, "{broken}");
        }
        let fold = fold_stream(codec, format!("{head}event: error\ndata: [1]\n\n{tail}").as_bytes(), 5);
        assert_eq!(result_of(&fold).error.unwrap().category, ErrorCategory::Server);
    }
}

// ---- whatever comes --------------------------------------------------------------------------------------------

fn chat_events() -> Vec<Value> {
    let base = |more: Value| {
        let mut chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"});
        chunk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        chunk
    };
    let say = |index: u64, delta: Value| base(json!({"choices": [{"index": index, "delta": delta, "finish_reason": null}]}));
    let call = |call: Value| say(0, json!({"tool_calls": [call]}));
    vec![
        say(0, json!({"role": "assistant", "content": ""})),
        say(0, json!({"reasoning_content": "think é"})),
        say(
            0,
            json!({"reasoning": "more", "reasoning_details": [{"type": "reasoning.text", "text": "more", "index": 0, "signature": "s"}]}),
        ),
        say(
            0,
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}]}),
        ),
        say(0, json!({"content": "Hel"})),
        base(
            json!({"choices": [{"index": 0, "delta": {"content": "lo 🌍"}, "logprobs": {"content": [{"token": "lo", "logprob": -0.5, "bytes": [108], "top_logprobs": []}], "refusal": null}}]}),
        ),
        say(1, json!({"content": "alternative"})),
        call(
            json!({"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": ""}, "extra_content": {"google": {"thought_signature": "s"}}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "{\"a\":"}})),
        call(json!({"index": 1, "id": "call_b", "type": "custom", "custom": {"name": "g", "input": "free"}})),
        call(json!({"index": 0, "function": {"arguments": "1}"}})),
        call(json!({"index": 1, "custom": {"input": " text"}})),
        say(1, json!({"function_call": {"name": "old", "arguments": "{}"}})),
        say(0, json!({"refusal": "no"})),
        say(1, json!({"audio": {"id": "a", "data": "AAAA", "transcript": "t"}})),
        say(
            0,
            json!({"annotations": [{"type": "url_citation", "url_citation": {"url": "http://x", "title": "t", "start_index": 0, "end_index": 3}}]}),
        ),
        base(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})),
        base(
            json!({"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": {"prompt_tokens": 1}}, "service_tier": "flex"}),
        ),
        base(
            json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 2}}}),
        ),
        json!("[DONE]"),
    ]
}

fn chat_answer() -> Value {
    json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "service_tier": "flex", "choices": [
        {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Hello", "reasoning_content": "think", "refusal": "no",
            "annotations": [{"type": "url_citation", "url_citation": {"url": "http://x", "title": "t", "start_index": 0, "end_index": 3}}],
            "tool_calls": [{"id": "call_a", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "call_b", "type": "custom", "custom": {"name": "g", "input": "i"}}]}},
        {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": [{"type": "text", "text": "a"}], "function_call": {"name": "old", "arguments": "{}"},
            "audio": {"id": "a", "data": "AAAA", "transcript": "t", "expires_at": 1}}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11, "completion_tokens_details": {"reasoning_tokens": 2}}})
}

fn messages_blocks() -> Vec<(Value, Vec<Value>)> {
    let json_delta = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
    vec![
        (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![
                json!({"type": "thinking_delta", "thinking": "hm é"}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
            ],
        ),
        (
            json!({"type": "text", "text": ""}),
            vec![
                json!({"type": "text_delta", "text": "Hello 🌍"}),
                json!({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": "t", "start_char_index": 0, "end_char_index": 1}}),
            ],
        ),
        (
            json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
            vec![json_delta("{\"a\":"), json_delta("1}")],
        ),
        (
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
            vec![json_delta("{\"query\":\"q\"}")],
        ),
        (
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "http://u", "title": "t", "page_age": null, "encrypted_content": "ZW5j"}]}),
            vec![],
        ),
        (
            json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "g", "server_name": "s", "input": {}}),
            vec![json_delta("{}")],
        ),
        (
            json!({"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": true, "content": [{"type": "text", "text": "r"}]}),
            vec![],
        ),
        (
            json!({"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "code_execution_result", "stdout": "o", "stderr": "", "return_code": 0, "content": []}}),
            vec![],
        ),
        (json!({"type": "redacted_thinking", "data": "ZGF0YQ=="}), vec![]),
        (
            json!({"type": "compaction", "content": null}),
            vec![json!({"type": "compaction_delta", "content": "summary"})],
        ),
        (json!({"type": "text", "text": "end"}), vec![]),
    ]
}

fn messages_answer() -> Value {
    let content: Vec<_> = messages_blocks().into_iter().map(|(block, _)| block).collect();
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 5, "output_tokens": 9, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0}})
}

fn messages_events() -> Vec<Value> {
    let mut start = messages_answer();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    let mut events = vec![json!({"type": "message_start", "message": start}), json!({"type": "ping"})];
    for (index, (block, deltas)) in messages_blocks().into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events
        .push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// Chunks of every kind of part, several candidates, streamed arguments and grounding.
fn gemini_events(enveloped: bool) -> Vec<Value> {
    let parts = [
        json!({"text": "hm", "thought": true}),
        json!({"text": "hmm", "thought": true, "thoughtSignature": "c2ln"}),
        json!({"text": "Torre de Belém"}),
        json!({"text": " ist schön.", "thoughtSignature": "c2ln"}),
        json!({"text": "", "thoughtSignature": "c2ln"}),
        json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
        json!({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}),
        json!({"functionCall": {"name": "g", "id": "x", "willContinue": true}}),
        json!({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "é", "willContinue": true}], "willContinue": true}}),
        json!({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "b"}, {"jsonPath": "$.l[0]", "numberValue": 1}]}}),
        json!({"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {}}}),
        json!({"toolResponse": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}}),
        json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
        json!({"novelty": {"a": 1}}),
    ];
    let usage = json!({"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8});
    let mut events: Vec<Value> = parts
        .into_iter()
        .enumerate()
        .map(|(n, part)| json!({"candidates": [{"index": n % 2, "content": {"role": "model", "parts": [part]}}], "usageMetadata": usage}))
        .collect();
    let grounding = json!({"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://a.example", "title": "a"}}],
        "groundingSupports": [{"segment": {"endIndex": 16, "text": "Torre de Belém"}, "groundingChunkIndices": [0], "confidenceScores": [0.5]}]});
    let ends = json!([{"index": 0, "finishReason": "STOP", "groundingMetadata": grounding,
        "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "https://a.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"}]}},
        {"index": 1, "finishReason": "MAX_TOKENS"}]);
    events.push(json!({"candidates": ends, "usageMetadata": usage, "modelVersion": "gemini-3-pro", "responseId": "r"}));
    if enveloped {
        return events.into_iter().map(|e| json!({"response": e, "traceId": "t"})).collect();
    }
    events
}

fn gemini_answer() -> Value {
    let mut answer = gemini_events(false).pop().unwrap();
    let mut parts = Vec::new();
    for event in gemini_events(false) {
        parts.extend(event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten().cloned());
    }
    answer["candidates"][0]["content"] = json!({"role": "model", "parts": parts});
    answer
}

/// Events of every kind of step.
fn interaction_events() -> Vec<Value> {
    let start = |index: u64, step: Value| json!({"event_type": "step.start", "index": index, "step": step});
    let delta = |index: u64, delta: Value| json!({"event_type": "step.delta", "index": index, "delta": delta});
    let stop = |index: u64| json!({"event_type": "step.stop", "index": index});
    let usage = json!({"total_input_tokens": 3, "total_output_tokens": 2, "total_thought_tokens": 1});
    vec![
        json!({"event_type": "interaction.created", "interaction": {"id": "v1", "model": "m", "status": "in_progress"}, "event_id": "1"}),
        start(0, json!({"type": "thought", "signature": ""})),
        delta(0, json!({"type": "thought_summary", "content": {"type": "text", "text": "hm"}})),
        delta(0, json!({"type": "thought_signature", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "model_output", "content": [{"type": "text", "text": "é"}]})),
        delta(1, json!({"type": "text", "text": "!"})),
        delta(
            1,
            json!({"type": "text_annotation_delta", "annotations": [{"type": "url_citation", "url": "https://a.example", "end_index": 2}]}),
        ),
        delta(1, json!({"type": "image", "mime_type": "image/png", "data": "AAAA"})),
        stop(1),
        start(2, json!({"type": "google_search_call", "id": "s", "arguments": {}})),
        delta(2, json!({"type": "google_search_call", "arguments": {"queries": ["q"]}})),
        stop(2),
        start(3, json!({"type": "function_call", "id": "c", "name": "f", "arguments": {}})),
        delta(3, json!({"type": "arguments_delta", "arguments": "{\"a\""})),
        delta(3, json!({"type": "arguments_delta", "arguments": ":1}"})),
        stop(3),
        json!({"event_type": "interaction.status_update", "status": "requires_action", "continuation_token": "t"}),
        json!({"event_type": "interaction.completed", "interaction": {"id": "v1", "status": "requires_action", "usage": usage}}),
    ]
}

fn cursor_events() -> Vec<Value> {
    vec![
        json!({"type": "system", "subtype": "init", "agent_id": "a", "run_id": "r", "model": {"id": "auto"}, "tools": ["shell"]}),
        json!({"type": "status", "agent_id": "a", "run_id": "r", "status": "RUNNING"}),
        json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "go"}]}}),
        json!({"type": "thinking", "text": "let me"}),
        json!({"type": "thinking", "text": " see", "thinking_duration_ms": 5}),
        json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "t", "name": "read", "input": {}}]}}),
        json!({"type": "tool_call", "call_id": "c\nf", "name": "shell", "status": "running", "args": {"command": "ls"}}),
        json!({"type": "tool_call", "call_id": "c\nf", "name": "shell", "status": "completed", "args": {"command": "ls"}, "result": {"status": "success", "value": {"exitCode": 0}}}),
        json!({"schemaVersion": 1, "type": "sdk_message", "agentId": "a", "runId": "r", "message": {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "done"}]}}}),
        json!({"eventType": "checkpoint", "offset": 3, "payload": {"checkpointRef": "k"}}),
        json!({"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 0, "cacheWriteTokens": 0}}),
        json!({"type": "task", "status": "running", "text": "t"}),
        json!({"type": "agent-usage", "runId": "r", "usage": {"totalUsage": {"totalTokens": 9}, "runs": []}}),
        json!({"type": "result", "status": "finished", "text": "I lookdone"}),
        json!({"type": "done"}),
    ]
}

fn cursor_answer() -> Value {
    json!({"id": "r", "agentId": "a", "status": "finished", "result": "done", "durationMs": 5, "model": {"id": "auto"}, "git": {"branches": [{"repoUrl": "u"}]}, "usage": {"inputTokens": 1, "outputTokens": 2}})
}

fn ui_events() -> Vec<Value> {
    vec![
        json!({"type": "start", "messageId": "m1", "messageMetadata": {"usage": {"inputTokens": 5}}}),
        json!({"type": "start-step"}),
        json!({"type": "reasoning-start", "id": "r1", "providerMetadata": {"x": {"signature": "s"}}}),
        json!({"type": "reasoning-delta", "id": "r1", "delta": "hm é"}),
        json!({"type": "text-start", "id": "t1"}),
        json!({"type": "text-delta", "id": "t1", "delta": "Hello 🌍"}),
        json!({"type": "reasoning-end", "id": "r1"}),
        json!({"type": "tool-input-start", "toolCallId": "call_a", "toolName": "f"}),
        json!({"type": "tool-input-delta", "toolCallId": "call_a", "inputTextDelta": "{\"a\":1}"}),
        json!({"type": "text-end", "id": "t1", "citations": [{"source": {"sourceType": "url", "id": "s", "url": "http://x"}, "startIndex": 0, "endIndex": 1}]}),
        json!({"type": "tool-input-available", "toolCallId": "call_a", "toolName": "f", "input": {"a": 1}}),
        json!({"type": "tool-approval-request", "approvalId": "q", "toolCallId": "call_a"}),
        json!({"type": "tool-approval-response", "approvalId": "q", "approved": true}),
        json!({"type": "tool-input-available", "toolCallId": "srvtoolu_1", "toolName": "web_search", "input": {}, "dynamic": true, "providerExecuted": true}),
        json!({"type": "tool-output-available", "toolCallId": "srvtoolu_1", "output": {"o": [1]}, "preliminary": true}),
        json!({"type": "tool-output-available", "toolCallId": "srvtoolu_1", "output": "found"}),
        json!({"type": "tool-input-error", "toolCallId": "call_c", "toolName": "g", "input": "x", "errorText": "bad"}),
        json!({"type": "finish-step"}),
        json!({"type": "start-step"}),
        json!({"type": "tool-output-error", "toolCallId": "call_a", "errorText": "bad"}),
        json!({"type": "reset-step"}),
        json!({"type": "file", "url": "data:image/png;base64,AAAA", "mediaType": "image/png"}),
        json!({"type": "source-url", "sourceId": "s1", "url": "http://x"}),
        json!({"type": "source-document", "sourceId": "s2", "mediaType": "text/plain", "title": "T"}),
        json!({"type": "data-w", "id": "d", "data": {"t": 1}}),
        json!({"type": "data-w", "id": "d", "data": {"t": 2}}),
        json!({"type": "custom", "kind": "a.b"}),
        json!({"type": "message-metadata", "messageMetadata": {"totalTokens": 7}}),
        json!({"type": "finish-step"}),
        json!({"type": "finish", "finishReason": "stop"}),
        json!("[DONE]"),
    ]
}

fn ui_answer() -> Value {
    json!([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]}, {"id": "a", "role": "assistant", "metadata": {"totalTokens": 7}, "parts": [
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm", "state": "done", "id": "r"},
        {"type": "tool-f", "toolCallId": "call_a", "state": "output-available", "input": {"a": 1}, "output": "o", "approval": {"id": "q", "approved": true}},
        {"type": "dynamic-tool", "toolName": "g", "toolCallId": "srvtoolu_1", "state": "output-error", "input": {}, "errorText": "e", "providerExecuted": true},
        {"type": "tool-h", "toolCallId": "call_b", "state": "input-streaming", "rawInput": "{"},
        {"type": "step-start"},
        {"type": "text", "text": "t", "state": "streaming"},
        {"type": "source-url", "sourceId": "s", "url": "http://x"},
        {"type": "data-w", "id": "d", "data": 1},
        {"type": "hologram"}]}])
}

/// One thing that goes wrong; the numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Fault {
    Remove(usize),
    Repeat(usize, usize),
    Swap(usize, usize),
    Set(usize, usize, Value),
    Take(usize, usize),
    /// Another index at an event, its choice or its call.
    Index(usize, Value),
    Insert(usize, Option<&'static str>, String),
    End(usize),
}

fn odd() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec![
        "",
        "x",
        "\0",
        "ééé",
        "function",
        "custom",
        "text",
        "tool_use",
        "srvtoolu_1",
        "call_a",
        "stop",
        "{",
        "error",
    ]);
    prop_oneof![
        texts.prop_map(Value::from),
        prop::sample::select(vec![0, 1, 2, 7, 1_023, 1_024, u64::MAX / 10_000, u64::MAX - 1, u64::MAX]).prop_map(Value::from),
        prop::sample::select(vec![-1.0, 1.5, 1e300, 1.7e308, -1e300]).prop_map(Value::from),
        prop::sample::select(vec![
            Value::Null,
            json!(true),
            json!([]),
            json!({}),
            json!([null]),
            json!({"a": 1}),
            json!([[]])
        ]),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let at = any::<usize>;
    let foreign = prop::sample::select(vec![
        "",
        "[]",
        "5",
        "null",
        "{}",
        "garbage{",
        "[DONE]",
        r#"{"type":"new_thing","x":1}"#,
        r#"{"error":{"message":"bad","code":5}}"#,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#,
    ]);
    prop_oneof![
        2 => at().prop_map(Fault::Remove),
        2 => (at(), at()).prop_map(|(a, b)| Fault::Repeat(a, b)),
        2 => (at(), at()).prop_map(|(a, b)| Fault::Swap(a, b)),
        4 => (at(), at(), odd()).prop_map(|(a, b, v)| Fault::Set(a, b, v)),
        3 => (at(), at()).prop_map(|(a, b)| Fault::Take(a, b)),
        3 => (at(), odd()).prop_map(|(a, v)| Fault::Index(a, v)),
        1 => (at(), prop::sample::select(vec![None, Some("error"), Some("bogus")]), foreign).prop_map(|(a, n, t)| Fault::Insert(a, n, t.to_owned())),
        1 => at().prop_map(Fault::End),
    ]
}

/// Pointers to every member and element.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (format!("{at}/{k}"), v)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(n, v)| (format!("{at}/{n}"), v)).collect(),
        _ => return,
    };
    for (path, value) in inner {
        places(value, &path, out);
        out.push(path);
    }
}

fn change(value: &mut Value, place: usize, with: Option<&Value>) {
    let mut all = Vec::new();
    places(value, "", &mut all);
    let Some(path) = all.get(place % all.len().max(1)).cloned() else {
        return;
    };
    if let Some(with) = with {
        *value.pointer_mut(&path).unwrap() = with.clone();
        return;
    }
    let (parent, key) = path.rsplit_once('/').unwrap();
    match value.pointer_mut(parent).unwrap() {
        Value::Object(map) => drop(map.remove(key)),
        Value::Array(list) => drop(list.remove(key.parse().unwrap())),
        _ => {}
    }
}

fn renumber(value: &mut Value, with: &Value) {
    for path in [
        "/choices/0/delta/tool_calls/0/index",
        "/choices/0/index",
        "/index",
        "/candidates/0/index",
    ] {
        if let Some(index) = value.pointer_mut(path) {
            *index = with.clone();
            return;
        }
    }
}

fn faulty(events: Vec<Value>, faults: &[Fault]) -> Vec<Wire> {
    let mut events: Vec<(Option<&'static str>, Result<Value, String>)> = events.into_iter().map(|e| (None, Ok(e))).collect();
    for fault in faults {
        let count = events.len();
        if count == 0 {
            break;
        }
        let edit = |at: usize, events: &mut Vec<(Option<&'static str>, Result<Value, String>)>, edit: &dyn Fn(&mut Value)| {
            if let Ok(value) = &mut events[at % count].1 {
                edit(value);
            }
        };
        match fault {
            Fault::Remove(at) => drop(events.remove(at % count)),
            Fault::Repeat(from, to) => {
                let event = events[from % count].clone();
                events.insert(to % count, event);
            }
            Fault::Swap(a, b) => events.swap(a % count, b % count),
            Fault::Set(at, place, with) => edit(*at, &mut events, &|value| change(value, *place, Some(with))),
            Fault::Take(at, place) => edit(*at, &mut events, &|value| change(value, *place, None)),
            Fault::Index(at, with) => edit(*at, &mut events, &|value| renumber(value, with)),
            Fault::Insert(at, name, text) => events.insert(at % count, (*name, Err(text.clone()))),
            Fault::End(at) => events.truncate(at % count),
        }
    }
    let data = |event: Result<Value, String>| match event {
        Ok(Value::String(word)) | Err(word) => word,
        Ok(value) => value.to_string(),
    };
    events.into_iter().map(|(name, event)| (name, data(event))).collect()
}

/// Every event and the result can be written and read back, and every client can be told.
fn check(fold: &OfflineFold) {
    for event in &fold.events {
        let text = serde_json::to_string(event).unwrap();
        let again: UnifiedEventV2 = throughline_format::json::decode_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
    let result = result_of(fold);
    let all = result
        .output
        .iter()
        .chain(result.alternatives.iter().flatten().flat_map(|a| &a.output));
    let ids: Vec<_> = all.map(|item| item.id.clone()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an ID twice");
    let resources: Vec<_> = fold.resources.iter().map(|r| r.resource_id.clone()).collect();
    assert_eq!(resources.iter().collect::<BTreeSet<_>>().len(), resources.len(), "a resource twice");
    for codec in CODECS {
        let context = EncodeContext {
            private: std::sync::Arc::new(Everything::of(&fold.resources)),
            ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
        };
        codec.encode_response(&result, &context).unwrap();
        let mut encoder = codec.stream_encoder(&context);
        let frames = fold.events.iter().flat_map(|event| encoder.push(event)).count();
        assert!(frames > 0);
    }
}

fn streams_fold(codec: &dyn Codec, events: Vec<Value>, faults: &[Fault], cut: usize, piece: usize) {
    let text = bytes(&faulty(events, faults));
    let torn = text.as_bytes().get(..cut).unwrap_or(text.as_bytes());
    let fold = fold_stream(codec, torn, usize::MAX);
    check(&fold);
    assert_eq!(
        result_of(&fold_stream(codec, torn, piece)),
        result_of(&fold),
        "in pieces of {piece}"
    );
}

fn answers_fold(codec: &dyn Codec, mut body: Value, faults: &[(usize, Option<Value>)]) {
    for (place, with) in faults {
        change(&mut body, *place, with.as_ref());
    }
    if let Ok(decoded) = codec.decode_response(body.to_string().as_bytes(), &DecodeContext::offline()) {
        let mut fold = OfflineFold::new();
        fold.push(decoded).expect("the decoder keeps the event grammar");
        assert!(fold.fold.is_complete());
        check(&fold);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_chat_stream_folds(faults in prop::collection::vec(fault(), 0..6), cut in 0..20_000_usize, piece in 1..40_usize) {
        streams_fold(&OpenAiChat, chat_events(), &faults, cut, piece);
    }

    #[test]
    fn every_messages_stream_folds(faults in prop::collection::vec(fault(), 0..6), cut in 0..20_000_usize, piece in 1..40_usize) {
        streams_fold(&AnthropicMessages, messages_events(), &faults, cut, piece);
    }

    #[test]
    fn every_gemini_stream_folds(faults in prop::collection::vec(fault(), 0..6), cut in 0..20_000_usize, piece in 1..40_usize) {
        streams_fold(&GeminiGenerateContent::GEMINI, gemini_events(false), &faults, cut, piece);
        streams_fold(&GeminiGenerateContent::ANTIGRAVITY, gemini_events(true), &faults, cut, piece);
    }

    #[test]
    fn every_interaction_stream_folds(faults in prop::collection::vec(fault(), 0..6), cut in 0..20_000_usize, piece in 1..40_usize) {
        streams_fold(&GeminiInteractions, interaction_events(), &faults, cut, piece);
    }

    #[test]
    fn every_ui_stream_folds(faults in prop::collection::vec(fault(), 0..6), cut in 0..20_000_usize, piece in 1..40_usize) {
        streams_fold(&VercelUiMessage, ui_events(), &faults, cut, piece);
    }

    #[test]
    fn every_run_folds(faults in prop::collection::vec(fault(), 0..6), cut in 0..20_000_usize, piece in 1..40_usize) {
        streams_fold(&CursorSdk, cursor_events(), &faults, cut, piece);
    }

    #[test]
    fn every_answer_folds(faults in prop::collection::vec((any::<usize>(), prop::option::of(odd())), 0..5)) {
        answers_fold(&OpenAiChat, chat_answer(), &faults);
        answers_fold(&AnthropicMessages, messages_answer(), &faults);
        answers_fold(&GeminiGenerateContent::GEMINI, gemini_answer(), &faults);
        answers_fold(&VercelUiMessage, ui_answer(), &faults);
        answers_fold(&CursorSdk, cursor_answer(), &faults);
    }
}
