//! The driver of Cursor's Cloud Agents against a small simulator of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_cmp,
    missing_docs,
    unreachable_pub
)]

use bytes::Bytes;
use futures_util::StreamExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_engine::ports::{UpstreamCall, UpstreamReply};
use throughline_format::usage::UsageScope;
use throughline_format::{ErrorCategory, Timestamp, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedResultV2};
use throughline_protocols::cursor_sdk::CursorSdk;
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Codec as _, DecodeContext};
use throughline_providers::{Credential, FollowPolicy, Provider, ProviderKind, ProviderSpec, RetryPolicy, TargetOptions, Timeouts};
use throughline_store::{KeyRing, OsRandom, Vault};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const KEY: &str = "key-secret-0123456789";

/// What the simulator does with a run's stream.
#[derive(Clone, Copy, Default)]
struct Behaviour {
    /// Events after which a connection breaks; 0 = never.
    breaks_after: usize,
    /// The stream is no longer kept from this connection on; 0 = never.
    expires_at: usize,
    /// Refuses the first cursor that it is asked to go on from.
    forgets_cursor: bool,
    /// Answers to a prompt before one is taken.
    refusals: usize,
    /// Status of the refusals.
    refusal: (u16, &'static str),
    /// Never ends the run.
    hangs: bool,
    /// Length of the text that the run itself tells; 0 = what its stream says.
    text_bytes: usize,
    /// Answers about the run that break in their middle.
    cut_polls: usize,
}

#[derive(Default)]
struct State {
    requests: Vec<String>,
    prompts: usize,
    connections: usize,
    polls: usize,
    has_forgotten: bool,
    is_cancelled: bool,
}

/// The events of the run: ID, name, data. Plain events and their rich twins share an ID.
fn events() -> Vec<(&'static str, &'static str, String)> {
    let twin = |kind: &str, text: &str| format!(r#"{{"type":"{kind}","text":"{text}"}}"#);
    let call = r#"{"callId":"c1","name":"run_terminal_cmd","status":"running","args":{"command":"ls"}}"#;
    let done = r#"{"callId":"c1","name":"run_terminal_cmd","status":"completed","args":{"command":"ls"},"result":{"status":"success","value":{"exitCode":0}}}"#;
    vec![
        ("e1", "thinking", r#"{"text":"let me "}"#.into()),
        ("e1", "interaction_update", twin("thinking-delta", "let me ")),
        ("e2", "thinking", r#"{"text":"see"}"#.into()),
        ("e2", "interaction_update", twin("thinking-delta", "see")),
        ("e3", "tool_call", call.into()),
        ("e4", "tool_call", done.into()),
        ("e5", "heartbeat", "{}".into()),
        ("e6", "assistant", r#"{"text":"All "}"#.into()),
        ("e6", "interaction_update", twin("text-delta", "All ")),
        ("e7", "assistant", r#"{"text":"done."}"#.into()),
        ("e7", "interaction_update", twin("text-delta", "done.")),
        (
            "e8",
            "interaction_update",
            r#"{"type":"turn-ended","usage":{"inputTokens":5,"outputTokens":7,"cacheReadTokens":2,"cacheWriteTokens":0}}"#.into(),
        ),
        (
            "e9",
            "result",
            r#"{"runId":"run-1","status":"FINISHED","text":"All done.","durationMs":9}"#.into(),
        ),
    ]
}

struct Simulator {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Simulator {
    async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&shared), behaviour));
            }
        });
        Self { url, state }
    }

    fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Method and path of each request.
    fn lines(&self) -> Vec<String> {
        let line = |request: &String| request.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        self.requests().iter().map(line).collect()
    }
}

async fn read(socket: &mut TcpStream) -> String {
    let (mut request, mut buffer) = (Vec::new(), [0u8; 4096]);
    loop {
        let count = socket.read(&mut buffer).await.unwrap_or(0);
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let is_whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head
                .lines()
                .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            length.and_then(|l| l.parse::<usize>().ok()).is_none_or(|l| body.len() >= l)
        });
        if is_whole || count == 0 {
            return text;
        }
    }
}

fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn error(status: u16, code: &str) -> String {
    answer(
        status,
        &format!(r#"{{"error":{{"code":"{code}","message":"refused with {KEY}"}}}}"#),
    )
}

async fn serve(mut socket: TcpStream, state: Arc<Mutex<State>>, behaviour: Behaviour) {
    let request = read(&mut socket).await;
    let line = request.lines().next().unwrap_or_default().to_owned();
    let is_mine = request.contains(&format!("authorization: Bearer {KEY}"));
    state.lock().unwrap().requests.push(request.clone());
    let text = if !is_mine {
        error(401, "unauthorized")
    } else if line.starts_with("POST /v1/agents ") || line.contains("/runs HTTP") {
        let mut state = state.lock().unwrap();
        state.prompts += 1;
        if state.prompts <= behaviour.refusals {
            error(behaviour.refusal.0, behaviour.refusal.1)
        } else {
            let begun = answer(
                201,
                r#"{"agent":{"id":"bc-1"},"run":{"id":"run-1","agentId":"bc-1","status":"CREATING"}}"#,
            );
            begun.replacen("\r\n", &format!("\r\nx-request-id: trace-of-{KEY}\r\n"), 1)
        }
    } else if line.contains("/cancel ") {
        state.lock().unwrap().is_cancelled = true;
        answer(200, r#"{"id":"run-1"}"#)
    } else if line.contains("/usage ") {
        answer(
            200,
            r#"{"totalUsage":{"inputTokens":500,"outputTokens":700,"cacheReadTokens":0,"cacheWriteTokens":0,"totalTokens":1200},"runs":[{"id":"run-0","usage":{"inputTokens":495}}]}"#,
        )
    } else if line.contains("/stream ") {
        stream(&mut socket, &request, &state, behaviour).await;
        return;
    } else {
        let mut state = state.lock().unwrap();
        state.polls += 1;
        let text = match behaviour.text_bytes {
            0 => "All done.".to_owned(),
            length => "x".repeat(length),
        };
        let (status, result) = if state.polls > 1 {
            ("FINISHED", format!(r#","result":"{text}""#))
        } else {
            ("RUNNING", String::new())
        };
        let mut whole = answer(200, &format!(r#"{{"id":"run-1","agentId":"bc-1","status":"{status}"{result}}}"#));
        if state.polls <= behaviour.cut_polls {
            whole.truncate(whole.len() - 9);
        }
        whole
    };
    // Whoever asked may have heard enough.
    let _ = socket.write_all(text.as_bytes()).await;
}

async fn stream(socket: &mut TcpStream, request: &str, state: &Arc<Mutex<State>>, behaviour: Behaviour) {
    let cursor = request
        .lines()
        .find_map(|line| line.strip_prefix("last-event-id: ").map(str::to_owned));
    let refusal = {
        let mut state = state.lock().unwrap();
        state.connections += 1;
        if behaviour.expires_at > 0 && state.connections >= behaviour.expires_at {
            Some(error(410, "stream_expired"))
        } else if behaviour.forgets_cursor && cursor.is_some() && !std::mem::replace(&mut state.has_forgotten, true) {
            Some(error(400, "invalid_last_event_id"))
        } else {
            None
        }
    };
    if let Some(refusal) = refusal {
        socket.write_all(refusal.as_bytes()).await.unwrap();
        return;
    }
    let all = events();
    // It goes on after the last event with this ID: a reader that names a plain event would miss its twin.
    let begin = cursor
        .and_then(|cursor| all.iter().rposition(|(id, ..)| *id == cursor))
        .map_or(0, |at| at + 1);
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    text.push_str("event: status\ndata: {\"runId\":\"run-1\",\"status\":\"RUNNING\"}\n\n");
    let count = if behaviour.breaks_after > 0 {
        behaviour.breaks_after
    } else {
        all.len()
    };
    for (id, name, data) in all.iter().skip(begin).take(count) {
        text.extend(["id: ", id, "\nevent: ", name, "\ndata: ", data, "\n\n"]);
    }
    let is_whole = begin + count >= all.len();
    if is_whole && !behaviour.hangs {
        text.push_str("event: done\ndata: \n\n");
    }
    // A connection may die before its reader took everything.
    let _ = socket.write_all(text.as_bytes()).await;
    if behaviour.hangs {
        std::future::pending::<()>().await;
    }
}

fn provider(url: &str) -> Provider {
    let vault = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let spec = ProviderSpec {
        base_url: Some(url.to_owned()),
        credential: Some(Credential::new(KEY).unwrap()),
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            idle: Duration::from_secs(5),
        },
        retry: RetryPolicy {
            attempts: 2,
            max_wait: Duration::from_secs(1),
        },
        follow: FollowPolicy {
            reconnects: 3,
            first_wait: Duration::from_millis(1),
            max_wait: Duration::from_millis(4),
            poll: Duration::from_millis(1),
            deadline: Duration::from_secs(20),
        },
        ..ProviderSpec::new("cursor", ProviderKind::Cursor)
    };
    Provider::connect(spec, &vault).unwrap()
}

async fn call(simulator: &Simulator, body: &'static str) -> Result<UpstreamReply, UnifiedError> {
    let call = UpstreamCall {
        operation_id: UnifiedId::parse("op_1").unwrap(),
        conversation_id: UnifiedId::parse("conv_1").unwrap(),
        request_id: UnifiedId::parse("req_1").unwrap(),
        model: "m".to_owned(),
        body: Bytes::from_static(body.as_bytes()),
        stream: true,
        client_headers: Vec::new(),
    };
    let target = provider(&simulator.url).build_target("m", &TargetOptions::default()).unwrap();
    target.upstream.call(call).await
}

/// The result of a run, and how often each of its texts came.
async fn result(reply: UpstreamReply) -> UnifiedResultV2 {
    let mut decoder = CursorSdk.stream_decoder(&DecodeContext::offline());
    let (mut fold, mut body) = (OfflineFold::new(), reply.body);
    while let Some(chunk) = body.next().await {
        fold.push(decoder.push(&chunk.unwrap())).unwrap();
    }
    fold.push(decoder.finish()).unwrap();
    fold.fold.result()
}

fn texts(result: &UnifiedResultV2) -> Vec<String> {
    let say = |item: &throughline_format::UnifiedItem| {
        let text: Vec<_> = item
            .parts()
            .iter()
            .filter_map(throughline_format::UnifiedContentPart::as_text)
            .collect();
        format!("{} {}", item.body.kind(), text.concat())
    };
    result.output.iter().map(say).collect()
}

const PROMPT: &str = r#"{"model":{"id":"m"},"prompt":{"text":"list"}}"#;
const WHOLE: [&str; 4] = ["reasoning let me see", "tool-call ", "tool-result ", "message All done."];

#[tokio::test]
async fn a_run_is_followed_to_its_end_however_its_connections_break() {
    for behaviour in [
        Behaviour::default(),
        Behaviour {
            breaks_after: 1,
            ..Behaviour::default()
        },
        Behaviour {
            breaks_after: 2,
            ..Behaviour::default()
        },
        Behaviour {
            breaks_after: 5,
            ..Behaviour::default()
        },
        Behaviour {
            breaks_after: 8,
            forgets_cursor: true,
            ..Behaviour::default()
        },
    ] {
        let simulator = Simulator::start(behaviour).await;
        let result = result(call(&simulator, PROMPT).await.unwrap()).await;
        // A connection that breaks after one event has only the plain one and goes on before it: it would never end.
        let is_stuck = behaviour.breaks_after == 1;
        assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Stop), "{:?}", result.error);
        if is_stuck {
            assert!(simulator.state.lock().unwrap().polls > 0);
        } else {
            assert_eq!(texts(&result), WHOLE, "after {}", behaviour.breaks_after);
        }
        assert!(!simulator.state.lock().unwrap().is_cancelled);
        let usage = result.usage.unwrap();
        if !is_stuck {
            assert_eq!(usage.output_total.unwrap().value, 7.0, "the turn's own");
        }
        let agent = &usage.others.unwrap()[0];
        assert_eq!(
            (agent.total.unwrap().value, agent.total.unwrap().scope),
            (1_200.0, UsageScope::Session)
        );
        assert!(simulator.lines()[0].starts_with("POST /v1/agents"));
        assert!(simulator.requests()[0].contains("idempotency-key: req_1"));
    }
}

#[tokio::test]
async fn a_stream_that_is_no_longer_kept_ends_with_the_run_itself() {
    let simulator = Simulator::start(Behaviour {
        breaks_after: 4,
        expires_at: 2,
        ..Behaviour::default()
    })
    .await;
    let result = result(call(&simulator, PROMPT).await.unwrap()).await;
    assert_eq!(texts(&result), ["reasoning let me see", "message All done."]);
    assert_eq!(simulator.state.lock().unwrap().polls, 2, "asked again while it ran");
}

#[tokio::test]
async fn a_known_agent_gets_another_run() {
    let simulator = Simulator::start(Behaviour::default()).await;
    let reply = call(&simulator, r#"{"agentId":"bc-1","model":{"id":"m"},"prompt":{"text":"more"}}"#)
        .await
        .unwrap();
    assert_eq!(texts(&result(reply).await), WHOLE);
    let first = &simulator.requests()[0];
    assert!(first.starts_with("POST /v1/agents/bc-1/runs HTTP"));
    assert!(first.ends_with(r#"{"prompt":{"text":"more"}}"#), "{first}");
}

#[tokio::test]
async fn refusals_are_errors_before_anything_of_an_answer() {
    for (status, code, category, is_again) in [
        (401, "unauthorized", ErrorCategory::Auth, false),
        (403, "plan_required", ErrorCategory::Permission, false),
        (409, "agent_busy", ErrorCategory::Conflict, true),
        (429, "usage_limit_exceeded", ErrorCategory::Quota, false),
        (503, "stream_unavailable", ErrorCategory::Server, true),
    ] {
        let simulator = Simulator::start(Behaviour {
            refusals: 9,
            refusal: (status, code),
            ..Behaviour::default()
        })
        .await;
        let error = call(&simulator, PROMPT).await.err().expect("a refusal");
        assert_eq!((error.category, error.provider_code.as_deref()), (category, Some(code)));
        assert_eq!(error.http_status, Some(u64::from(status)));
        assert!(!error.message.contains(KEY), "{}", error.message);
        assert_eq!(simulator.state.lock().unwrap().prompts, if is_again { 2 } else { 1 }, "{code}");
    }
    // Busy for a moment: the second attempt is taken.
    let simulator = Simulator::start(Behaviour {
        refusals: 1,
        refusal: (409, "agent_busy"),
        ..Behaviour::default()
    })
    .await;
    assert_eq!(texts(&result(call(&simulator, PROMPT).await.unwrap()).await), WHOLE);
}

#[tokio::test]
async fn dropping_the_answer_cancels_the_run() {
    let simulator = Simulator::start(Behaviour {
        hangs: true,
        ..Behaviour::default()
    })
    .await;
    let mut reply = call(&simulator, PROMPT).await.unwrap();
    assert!(reply.body.next().await.unwrap().is_ok());
    drop(reply);
    for _ in 0..500 {
        if simulator.state.lock().unwrap().is_cancelled {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(simulator.lines().contains(&"POST /v1/agents/bc-1/runs/run-1/cancel".to_owned()));
}

/// What the run itself tells is read whole, or asked for again: a beginning of it is nothing.
#[tokio::test]
async fn a_run_that_is_asked_for_is_read_whole() {
    for (text_bytes, cut_polls, polls) in [(1_000_000, 0, 2), (1_000_000, 3, 4), (0, 3, 4)] {
        let simulator = Simulator::start(Behaviour {
            breaks_after: 4,
            expires_at: 2,
            text_bytes,
            cut_polls,
            ..Behaviour::default()
        })
        .await;
        let result = result(call(&simulator, PROMPT).await.unwrap()).await;
        assert_eq!(result.status.finish_reason, Some(UnifiedFinishReason::Stop), "{:?}", result.error);
        let said = texts(&result).pop().unwrap();
        let length = if text_bytes == 0 { "All done.".len() } else { text_bytes };
        assert_eq!(said.len(), "message ".len() + length);
        assert_eq!(simulator.state.lock().unwrap().polls, polls, "{text_bytes} {cut_polls}");
    }
}

#[tokio::test]
async fn a_run_beyond_the_bound_of_an_answer_fails_by_that_name() {
    let simulator = Simulator::start(Behaviour {
        breaks_after: 4,
        expires_at: 2,
        text_bytes: 32 * 1024 * 1024,
        ..Behaviour::default()
    })
    .await;
    let mut body = call(&simulator, PROMPT).await.unwrap().body;
    let mut ends = None;
    while let Some(chunk) = body.next().await {
        ends = chunk.err().or(ends);
    }
    assert_eq!(ends.unwrap().code, "limit.answer");
}

#[tokio::test]
async fn the_trace_id_comes_without_the_key() {
    let simulator = Simulator::start(Behaviour::default()).await;
    let reply = call(&simulator, PROMPT).await.unwrap();
    let id = reply.provider_request_id.unwrap();
    assert!(id.starts_with("trace-of-") && !id.contains(KEY), "{id}");
}
