//! Cursor's prompts and runs: every message of every recorded form, every tool state, status, counter and error, and the prompt.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use support::{Everything, corpus, files, fold_response, fold_stream, result_of};
use throughline_format::status::ResponseState;
use throughline_format::usage::{UnifiedCounter, UsageScope, UsageSource};
use throughline_format::{ErrorCategory, UnifiedFinishReason, UnifiedItemBody, UnifiedRequestV2, UnifiedResultV2, UnifiedUsage};
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::cursor_sdk::CursorSdk;
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext};

/// Lines of a log: the SDK's own, its store's and the command line's.
fn lines(messages: &Value) -> String {
    messages
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|m| [m.to_string(), "\n".to_owned()])
        .collect()
}

/// Events of the Cloud API, whose names stand outside their data.
fn named(events: &[(&str, Value)]) -> String {
    let event = |(name, data): &(&str, Value)| ["event: ", name, "\ndata: ", &data.to_string(), "\n\n"].concat();
    events.iter().map(event).collect()
}

fn fold(text: &str) -> OfflineFold {
    let whole = fold_stream(&CursorSdk, text.as_bytes(), usize::MAX);
    for piece in [1, 7, 64] {
        let cut = fold_stream(&CursorSdk, text.as_bytes(), piece);
        assert_eq!(result_of(&cut), result_of(&whole), "in pieces of {piece}");
    }
    whole
}

/// What the items say, one line each.
fn said(result: &UnifiedResultV2) -> Vec<String> {
    let say = |item: &throughline_format::UnifiedItem| {
        let text: String = item.parts().iter().filter_map(|p| p.as_text()).collect();
        let text = match &item.body {
            UnifiedItemBody::ToolCall(call) => call.name.clone(),
            UnifiedItemBody::ServerToolCall(call) => call.name.clone(),
            _ => text,
        };
        format!("{} {text}", item.body.kind())
    };
    result.output.iter().map(say).collect()
}

fn check(messages: Value, expected: &[&str]) -> UnifiedResultV2 {
    let mut all = messages.as_array().unwrap().clone();
    all.push(json!({"type": "status", "status": "FINISHED"}));
    let result = result_of(&fold(&lines(&Value::Array(all))));
    assert_eq!(said(&result), expected, "{messages}");
    result
}

fn assistant(text: &str) -> Value {
    json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}})
}

fn envelope(message: &Value) -> Value {
    json!({"schemaVersion": 1, "type": "sdk_message", "agentId": "a", "runId": "r", "message": message})
}

const RUNNING: &str = r#"{"type": "tool_call", "call_id": "c", "name": "shell", "status": "running", "args": {"command": "ls"}}"#;

fn running() -> Value {
    serde_json::from_str(RUNNING).unwrap()
}

#[test]
fn every_message_of_every_form() {
    throughline_format::clause!("PROTO-08");
    let ok = json!({"status": "success", "value": {"exitCode": 0}});
    let completed =
        json!({"type": "tool_call", "call_id": "c", "name": "shell", "status": "completed", "args": {"command": "ls"}, "result": ok});
    // The SDK's run stream.
    check(
        json!([{"type": "system", "subtype": "init", "model": {"id": "auto"}, "tools": ["shell"]}]),
        &[],
    );
    check(
        json!([{"type": "user", "message": {"role": "user", "content": []}}, assistant("a")]),
        &["message a"],
    );
    check(json!([assistant("a"), assistant("b")]), &["message ab"]);
    check(
        json!([{"type": "thinking", "text": "hm", "thinking_duration_ms": 4}, assistant("a")]),
        &["reasoning hm", "message a"],
    );
    check(
        json!([assistant("a"), running(), completed, assistant("b")]),
        &["message a", "tool-call shell", "tool-result ", "message b"],
    );
    check(json!([{"type": "request", "request_id": "q"}, assistant("a")]), &["message a"]);
    check(
        json!([{"type": "task", "status": "running", "text": "t"}, assistant("a")]),
        &["message a"],
    );
    check(json!([{"type": "heartbeat"}, assistant("a")]), &["message a"]);
    check(json!([{"type": "not-yet-known", "x": 1}, assistant("a")]), &["message a"]);
    // The store's.
    check(
        json!([envelope(&assistant("a")), {"schemaVersion": 1, "type": "result", "status": "finished"}, {"schemaVersion": 1, "type": "done"}]),
        &["message a"],
    );
    check(
        json!([envelope(&running()), envelope(&completed)]),
        &["tool-call shell", "tool-result "],
    );
    check(
        json!([{"eventType": "assistant", "offset": 1, "payload": {"message": {"content": [{"type": "text", "text": "a"}]}}}]),
        &["message a"],
    );
    // The command line's.
    check(
        json!([{"type": "thinking", "subtype": "delta", "text": "h"}, {"type": "thinking", "subtype": "delta", "text": "m"}, {"type": "thinking", "subtype": "completed"}]),
        &["reasoning hm"],
    );
    check(
        json!([{"type": "tool_call", "subtype": "started", "call_id": "c", "tool_call": {"shellToolCall": {"args": {"command": "ls"}}}}, {"type": "tool_call", "subtype": "completed", "call_id": "c", "tool_call": {"shellToolCall": {"args": {"command": "ls"}, "result": {"success": {"exitCode": 0}}}}}]),
        &["tool-call shell", "tool-result "],
    );
    check(
        json!([assistant("a"), {"type": "result", "subtype": "success", "is_error": false, "result": "a"}]),
        &["message a"],
    );
    // Whole texts that nobody heard before.
    check(json!([{"type": "result", "status": "finished", "text": "all"}]), &["message all"]);
    check(
        json!([assistant("al"), {"type": "result", "status": "finished", "text": "all"}]),
        &["message all"],
    );
}

#[test]
fn plain_events_and_their_rich_twins_are_told_once() {
    let twin = |kind: &str, text: &str| json!({"type": kind, "text": text});
    let call = json!({"type": "tool-call-started", "callId": "c", "toolCall": {"type": "shell", "args": {"command": "ls"}}});
    let done = json!({"type": "tool-call-completed", "callId": "c", "toolCall": {"type": "shell", "args": {"command": "ls"}, "result": {"status": "success"}}});
    let end = ("result", json!({"runId": "r", "status": "FINISHED", "text": "ab"}));
    let both = [
        ("assistant", json!({"text": "a"})),
        ("interaction_update", twin("text-delta", "a")),
        ("assistant", json!({"text": "b"})),
        ("interaction_update", twin("text-delta", "b")),
        end.clone(),
        ("done", json!({})),
    ];
    assert_eq!(said(&result_of(&fold(&named(&both)))), ["message ab"]);
    let rich = [
        ("interaction_update", twin("thinking-delta", "hm")),
        ("interaction_update", json!({"type": "thinking-completed"})),
        ("interaction_update", call),
        ("interaction_update", done),
        ("interaction_update", twin("text-delta", "ab")),
        end,
        ("done", json!({})),
    ];
    assert_eq!(
        said(&result_of(&fold(&named(&rich)))),
        ["reasoning hm", "tool-call shell", "tool-result ", "message ab"]
    );
}

#[test]
fn every_status() {
    for (word, reason, state, category) in [
        ("FINISHED", Some(UnifiedFinishReason::Stop), ResponseState::Completed, None),
        ("finished", Some(UnifiedFinishReason::Stop), ResponseState::Completed, None),
        (
            "ERROR",
            Some(UnifiedFinishReason::Failed),
            ResponseState::Failed,
            Some(ErrorCategory::Server),
        ),
        ("CANCELLED", Some(UnifiedFinishReason::Cancelled), ResponseState::Cancelled, None),
    ] {
        let result = result_of(&fold(&lines(&json!([assistant("a"), {"type": "status", "status": word}]))));
        assert_eq!(result.status.finish_reason, reason, "{word}");
        assert_eq!(result.status.state, state, "{word}");
        if let Some(category) = category {
            assert_eq!(result.error.unwrap().category, category, "{word}");
        }
    }
    let cut = result_of(&fold(&lines(&json!([assistant("a"), {"type": "status", "status": "RUNNING"}]))));
    assert_eq!(cut.error.unwrap().category, ErrorCategory::Interrupted);
}

#[test]
fn no_torn_answer_of_another_protocol_is_called_finished() {
    let start = json!({"type": "message_start", "message": {"type": "message", "role": "assistant", "id": "m", "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let text = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}});
    let end =
        |word: &str| json!({"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"input_tokens": 1, "output_tokens": 1}});
    for (last, word) in [
        (vec![end("end_turn"), json!({"type": "message_stop"})], "finished"),
        // A limit is a reason to end.
        (vec![end("max_tokens"), json!({"type": "message_stop"})], "finished"),
        (vec![], "error"),
    ] {
        let events = [vec![start.clone(), block.clone(), text.clone()], last].concat();
        let frame = |e: &Value| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap());
        let stream = events.iter().map(frame).collect::<Vec<_>>().concat();
        let folded = fold_stream(&AnthropicMessages, stream.as_bytes(), 64);
        let context = EncodeContext::plain(Capabilities::of(CursorSdk.capabilities()));
        let body: Value = serde_json::from_str(&CursorSdk.encode_response(&result_of(&folded), &context).unwrap().body).unwrap();
        assert_eq!(body["status"], word, "{stream}");
    }
}

#[test]
fn a_tool_that_waits_for_its_client_ends_the_turn() {
    throughline_format::clause!("PROTO-08");
    let parked = json!({"type": "tool_call", "call_id": "c", "name": "mcp", "status": "running", "args": {"providerIdentifier": "custom-user-tools", "toolName": "ask", "args": {"q": 1}}});
    let result = result_of(&fold(&lines(&json!([parked, {"type": "status", "status": "FINISHED"}]))));
    assert_eq!(said(&result), ["tool-call ask"]);
    assert_eq!(result.status.state, ResponseState::RequiresAction);
    // One of the workspace is the provider's own affair.
    let own = check(json!([running()]), &["tool-call shell"]);
    assert_ne!(own.status.state, ResponseState::RequiresAction);
}

#[test]
fn counters_keep_their_scope() {
    throughline_format::clause!("USE-02");
    let usage = |messages: Value| {
        let mut all = messages.as_array().unwrap().clone();
        all.push(json!({"type": "status", "status": "FINISHED"}));
        result_of(&fold(&lines(&Value::Array(all)))).usage
    };
    let counter = |value, scope, source| Some(UnifiedCounter { value, scope, source });
    let turn = |input: u32, output: u32| json!({"type": "usage", "usage": {"inputTokens": input, "outputTokens": output, "cacheReadTokens": 0, "cacheWriteTokens": 0}});
    let one = usage(json!([turn(3, 4)])).unwrap();
    assert_eq!(one.output_total, counter(4.0, UsageScope::Request, UsageSource::Reported));
    assert_eq!(one.input_uncached, counter(3.0, UsageScope::Request, UsageSource::Reported));
    let two = usage(json!([turn(3, 4), turn(5, 6)])).unwrap();
    assert_eq!(two.output_total, counter(10.0, UsageScope::Operation, UsageSource::Derived));
    let run = usage(json!([{"type": "result", "status": "finished", "usage": {"outputTokens": 9}}])).unwrap();
    assert_eq!(run.output_total, counter(9.0, UsageScope::Operation, UsageSource::Reported));
    let estimate = usage(json!([{"type": "token-delta", "tokens": 2}, {"type": "token-delta", "tokens": 3}])).unwrap();
    assert_eq!(estimate.output_total, counter(5.0, UsageScope::Request, UsageSource::Estimated));
    // Zeros everywhere are no figures.
    assert_eq!(usage(json!([turn(0, 0)])), None);
    // What the agent used in all its runs stands beside, whatever else is known.
    let agent = |runs: Value| json!({"type": "agent-usage", "runId": "r", "usage": {"totalUsage": {"outputTokens": 700, "totalTokens": 900}, "runs": runs}});
    for (messages, turn) in [
        (json!([agent(json!([]))]), None),
        (json!([agent(json!([{"id": "other", "usage": {"outputTokens": 1}}]))]), None),
        (json!([agent(json!([{"id": "r", "usage": {"outputTokens": 0}}]))]), None),
        (
            json!([agent(json!([{"id": "r", "usage": {"outputTokens": 7}}]))]),
            counter(7.0, UsageScope::Operation, UsageSource::Reported),
        ),
        (
            json!([turn(3, 4), agent(json!([]))]),
            counter(4.0, UsageScope::Request, UsageSource::Reported),
        ),
    ] {
        let usage = usage(messages.clone()).unwrap();
        assert_eq!(usage.output_total, turn, "{messages}");
        let others = usage.others.unwrap();
        assert_eq!(others[0].output_total, counter(700.0, UsageScope::Session, UsageSource::Reported));
        // Nor does a codec show them as a turn's.
        let result = UnifiedResultV2 {
            usage: Some(UnifiedUsage {
                others: None,
                ..others[0].clone()
            }),
            ..result_of(&fold(&lines(&json!([assistant("a"), {"type": "status", "status": "FINISHED"}]))))
        };
        let context = EncodeContext::plain(Capabilities::of(CursorSdk.capabilities()));
        let body = CursorSdk.encode_response(&result, &context).unwrap().body;
        assert!(!body.contains("700"), "{body}");
    }
}

#[test]
fn every_code_has_a_category() {
    for (status, code, category, is_again) in [
        (400, "invalid_model", ErrorCategory::NotFound, false),
        (401, "unauthorized", ErrorCategory::Auth, false),
        (403, "plan_required", ErrorCategory::Permission, false),
        (404, "agent_not_found", ErrorCategory::NotFound, false),
        (409, "agent_busy", ErrorCategory::Conflict, true),
        (429, "usage_limit_exceeded", ErrorCategory::Quota, false),
        (429, "rate_limit_exceeded", ErrorCategory::RateLimit, true),
        (503, "stream_unavailable", ErrorCategory::Server, true),
    ] {
        let body = json!({"error": {"code": code, "message": "m"}}).to_string();
        let error = CursorSdk.decode_error(status, &ErrorHeaders::default(), body.as_bytes());
        assert_eq!((error.category, error.retryable), (category, is_again), "{code}");
        assert_eq!(error.provider_code.as_deref(), Some(code));
    }
}

fn request(body: &Value) -> UnifiedRequestV2 {
    CursorSdk
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap_or_else(|e| panic!("{body}: {e:?}"))
        .unified
}

#[test]
fn every_form_of_a_prompt_comes_back() {
    throughline_format::clause!("PROTO-08");
    let image = json!({"data": "AAAA", "mimeType": "image/png"});
    for body in [
        json!({"message": "go"}),
        json!({"message": {"text": "go"}}),
        json!({"message": {"text": "go", "images": [image]}}),
        json!({"prompt": {"text": "go"}}),
        json!({"prompt": {"text": "go", "images": [{"url": "https://x/i.png"}]}}),
        json!({"prompt": {"text": "go"}, "model": {"id": "m"}}),
        json!({"prompt": {"text": "go"}, "model": {"id": "m", "params": [{"id": "effort", "value": "high"}]}}),
        json!({"agentId": "bc-1", "prompt": {"text": "go"}}),
        json!({"prompt": {"text": "go"}, "repos": [{"url": "u"}], "unknown": {"x": 1}}),
    ] {
        let decoded = CursorSdk
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap_or_else(|e| panic!("{body}: {e:?}"));
        let owner = EncodeContext {
            private: Arc::new(Everything::of(&decoded.resources)),
            ..EncodeContext::plain(Capabilities::of(CursorSdk.capabilities()))
        };
        let again = CursorSdk
            .encode_request(&decoded.unified, &owner)
            .unwrap_or_else(|e| panic!("{body}: {e:?}"));
        assert_eq!(serde_json::from_str::<Value>(&again.body).unwrap(), body);
        assert_eq!(request(&body), decoded.unified, "twice alike");
    }
    for bad in [json!({}), json!({"prompt": {}}), json!({"message": 3}), json!([])] {
        assert!(
            CursorSdk
                .decode_request(bad.to_string().as_bytes(), &DecodeContext::offline())
                .is_err(),
            "{bad}"
        );
    }
}

fn of_messages(messages: &Value) -> UnifiedRequestV2 {
    let body = json!({"model": "m", "max_tokens": 5, "messages": messages}).to_string();
    AnthropicMessages
        .decode_request(body.as_bytes(), &DecodeContext::offline())
        .unwrap()
        .unified
}

fn prompt(messages: &Value) -> (String, Vec<String>) {
    let context = EncodeContext::plain(Capabilities::of(CursorSdk.capabilities()));
    let encoded = CursorSdk.encode_request(&of_messages(messages), &context).unwrap();
    let body: Value = serde_json::from_str(&encoded.body).unwrap();
    let text = body.pointer("/prompt/text").and_then(Value::as_str).unwrap().to_owned();
    (text, encoded.loss.entries.iter().map(|e| e.path.clone()).collect())
}

#[test]
fn a_history_stands_in_the_prompt_and_in_the_loss_report() {
    throughline_format::clause!("PROTO-08");
    let user = |text: &str| json!({"role": "user", "content": text});
    let (alone, paths) = prompt(&json!([user("go")]));
    assert_eq!(alone, "go", "a first message is itself");
    assert!(!paths.iter().any(|p| p.starts_with("/conversation/items/0")), "{paths:?}");
    let mut history = vec![
        user("one"),
        json!({"role": "assistant", "content": [{"type": "text", "text": "two"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "three"}]}),
        json!({"role": "assistant", "content": "four"}),
    ];
    let (before, _) = prompt(&json!(history));
    history.push(user("five"));
    let (whole, paths) = prompt(&json!(history));
    assert!(whole.starts_with(&before), "{before}\n---\n{whole}");
    for word in ["one", "two", "f", "three", "four", "five"] {
        assert!(whole.contains(word), "{word}: {whole}");
    }
    // Every entry but the newest is told.
    for index in 0..4 {
        let path = format!("/conversation/items/{index}");
        assert!(paths.iter().any(|p| p.starts_with(&path)), "{path} in {paths:?}");
    }
}

#[test]
fn no_more_images_than_a_prompt_holds() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    for (count, kept) in [(0, 0), (1, 1), (5, 5), (7, 5)] {
        let mut content = vec![json!({"type": "text", "text": "go"})];
        content.extend(std::iter::repeat_n(image.clone(), count));
        let context = EncodeContext::plain(Capabilities::of(CursorSdk.capabilities()));
        let request = of_messages(&json!([{"role": "user", "content": content}]));
        match CursorSdk.encode_request(&request, &context) {
            Ok(encoded) => {
                let body: Value = serde_json::from_str(&encoded.body).unwrap();
                let images = body.pointer("/prompt/images").and_then(Value::as_array).map_or(0, Vec::len);
                assert_eq!(images, kept);
                assert_eq!(encoded.loss.entries.iter().any(|e| e.path.contains("/parts/")), count > kept);
            }
            Err(failure) => panic!("{count}: {failure:?}"),
        }
    }
}

#[test]
fn a_run_has_every_member_of_its_owner() {
    for body in [
        json!({"id": "r", "agentId": "a", "status": "finished", "result": "done"}),
        json!({"id": "r", "agentId": "a", "status": "finished", "result": "done", "durationMs": 5, "model": {"id": "auto"}}),
        json!({"id": "r", "agentId": "a", "status": "error"}),
        json!({"id": "r", "agentId": "a", "status": "cancelled"}),
        json!({"id": "r", "agentId": "a", "status": "running"}),
        json!({"id": "r", "agentId": "a", "status": "finished", "result": "x", "git": {"branches": [{"repoUrl": "u", "branch": "b"}]}, "artifacts": [{"path": "p"}]}),
        json!({"id": "r", "agentId": "a", "status": "finished", "result": "x", "usage": {"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 3, "cacheWriteTokens": 4}}),
    ] {
        let fold = fold_response(&CursorSdk, body.to_string().as_bytes());
        let owner = EncodeContext {
            private: Arc::new(Everything::of(&fold.resources)),
            ..EncodeContext::plain(Capabilities::of(CursorSdk.capabilities()))
        };
        let again = CursorSdk.encode_response(&result_of(&fold), &owner).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&again.body).unwrap(), body);
    }
}

#[test]
fn recorded_runs_fold_alike_in_every_form() {
    let Some(folder) = corpus("wire/cursor-sdk/streams") else { return };
    let mut count = 0;
    for file in files(&folder, "jsonl") {
        let text = std::fs::read_to_string(&file).unwrap();
        let result = result_of(&fold(&text));
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(result.status.finish_reason.is_some(), "{name}");
        assert!(
            !result.output.is_empty() || result.error.is_some() || name.contains("cancelled"),
            "{name}"
        );
        // The store keeps the same run.
        let twin = file.with_file_name(name.replace(".jsonl", "-localstore.jsonl"));
        if twin.exists() {
            let stored = result_of(&fold(&std::fs::read_to_string(twin).unwrap()));
            assert_eq!(said(&stored), said(&result), "{name}");
        }
        count += 1;
    }
    assert!(count >= 10);
}
