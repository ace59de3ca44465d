//! Providers that answer, refuse, tear, hang and forget, as their seed has it, and that look for what is not theirs.

use crate::hands;
use crate::world::{Rng, Shared};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_engine::ports::{ResumeCall, Upstream, UpstreamCall, UpstreamReply};
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError};

/// One account of one provider.
pub struct Account {
    pub family: ProtocolFamily,
    pub name: &'static str,
    shared: Arc<Shared>,
    /// Frames of the work that it keeps, by ID.
    kept: Mutex<BTreeMap<String, Vec<String>>>,
}

/// What one connection does next.
enum Step {
    Bytes(Duration, Bytes),
    Tear,
    Hang,
}

impl Account {
    pub fn new(family: ProtocolFamily, name: &'static str, shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            family,
            name,
            shared: Arc::clone(shared),
            kept: Mutex::default(),
        })
    }

    /// Private state that this account issues; nobody else may ever be sent it.
    fn secret(&self, what: &str) -> String {
        let mut world = self.shared.lock();
        world.minted += 1;
        let secret = format!("{what}-{}-{}-private", self.name, world.minted);
        world.secrets.push((secret.clone(), self.name));
        secret
    }

    fn look_for_what_is_not_ours(&self, body: &str) {
        let mut world = self.shared.lock();
        let foreign: Vec<String> = world
            .secrets
            .iter()
            .filter(|(secret, owner)| *owner != self.name && body.contains(secret.as_str()))
            .map(|(secret, _)| format!("{} was sent {secret}", self.name))
            .collect();
        world.violations.extend(foreign);
        let ours = world
            .secrets
            .iter()
            .filter(|(secret, owner)| *owner == self.name && body.contains(secret.as_str()))
            .count();
        world.figures.returned += ours as u64;
    }

    fn call(&self, call: &UpstreamCall) -> Result<UpstreamReply, UnifiedError> {
        let text = std::str::from_utf8(&call.body).unwrap();
        self.look_for_what_is_not_ours(text);
        let body: Value = serde_json::from_str(text).unwrap();
        self.shared.lock().check_history(&self.family, &body, text);
        let refuse = |category, retryable| {
            let mut error = UnifiedError::new(category, "simulated", "the provider refuses");
            error.retryable = retryable;
            error
        };
        let mut rng = self.shared.rng();
        let previous = body["previous_response_id"].as_str();
        if let Some(previous) = previous {
            self.shared.lock().figures.direct += 1;
            if rng.chance(20) {
                self.shared.lock().figures.forgotten += 1;
                return Err(refuse(ErrorCategory::InvalidRequest, false));
            }
            assert!(previous.contains(self.name), "{previous} is of somebody else");
        }
        if rng.chance(8) {
            return Err(refuse(ErrorCategory::Overloaded, true));
        }
        if rng.chance(4) {
            return Err(refuse(ErrorCategory::InvalidRequest, false));
        }
        let frames = self.answer(&body, &mut rng);
        Ok(self.reply(&frames, &mut rng))
    }

    fn resume(&self, call: &ResumeCall) -> Result<UpstreamReply, UnifiedError> {
        let mut rng = self.shared.rng();
        let id = call.job.ids.first().unwrap();
        assert!(id.contains(self.name), "{id} is of somebody else");
        if rng.chance(10) {
            return Err(UnifiedError::new(ErrorCategory::NotFound, "simulated", "it is kept no longer"));
        }
        let frames = self.kept.lock().unwrap().get(id).cloned().unwrap();
        let from = call.after.as_ref().map_or(0, |after| after.parse::<usize>().unwrap() + 1);
        self.shared.lock().figures.rejoined += 1;
        Ok(self.reply(&frames[from..], &mut rng))
    }

    /// The frames cut into chunks that come one after the other, or do not.
    fn reply(&self, frames: &[String], rng: &mut Rng) -> UpstreamReply {
        let bytes = frames.concat().into_bytes();
        let mut steps = VecDeque::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at((1 + rng.below(160) as usize).min(rest.len()));
            let wait = if rng.chance(50) { 0 } else { rng.below(40) };
            steps.push_back(Step::Bytes(Duration::from_millis(wait), Bytes::copy_from_slice(chunk)));
            rest = after;
        }
        let fate = rng.below(100);
        let at = rng.below(steps.len() as u64 + 1) as usize;
        match fate {
            0..8 => {
                steps.truncate(at);
                self.shared.lock().figures.torn += 1;
                steps.push_back(Step::Tear);
            }
            8..12 => steps.truncate(at),
            12..16 => {
                steps.truncate(at);
                steps.push_back(Step::Hang);
            }
            _ => {}
        }
        let body = futures_util::stream::unfold(steps, |mut steps| async move {
            match steps.pop_front()? {
                Step::Bytes(wait, bytes) => {
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    Some((Ok(bytes), steps))
                }
                Step::Tear => Some((
                    Err(UnifiedError::new(ErrorCategory::Network, "simulated", "the connection broke")),
                    VecDeque::new(),
                )),
                Step::Hang => std::future::pending().await,
            }
        });
        UpstreamReply {
            is_stream: true,
            provider_request_id: None,
            body: body.boxed(),
        }
    }

    fn answer(&self, body: &Value, rng: &mut Rng) -> Vec<String> {
        let text = {
            let mut world = self.shared.lock();
            world.minted += 1;
            let words = (0..rng.below(12)).map(|n| format!(" word{n}")).collect::<String>();
            format!("answer{}{words}", world.minted)
        };
        let reaches = body["tools"].to_string().contains(hands::TOOL);
        let name = if reaches { hands::TOOL } else { "look" };
        let calls = body.get("tools").is_some() && rng.chance(if reaches { 60 } else { 25 });
        let calls: Vec<String> = (0..if calls { 1 + rng.below(2) } else { 0 })
            .map(|_| {
                let mut world = self.shared.lock();
                world.minted += 1;
                format!("call_{}", world.minted)
            })
            .collect();
        match self.family {
            ProtocolFamily::AnthropicMessages => {
                let signature = (body.get("thinking").is_some() && rng.chance(70)).then(|| self.secret("signature"));
                anthropic(&text, signature.as_deref(), &calls, name)
            }
            ProtocolFamily::OpenAiResponses => {
                let id = self.secret("resp");
                let keeps = body["background"] == json!(true);
                let frames = responses(&id, &text, &calls, name, keeps);
                if keeps {
                    self.kept.lock().unwrap().insert(id, frames.clone());
                }
                frames
            }
            _ => chat(&text, &calls, name),
        }
    }
}

impl Upstream for Account {
    fn call(&self, call: UpstreamCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let reply = Self::call(self, &call);
        let wait = Duration::from_millis(self.shared.rng().below(30));
        async move {
            tokio::time::sleep(wait).await;
            reply
        }
        .boxed()
    }

    fn resume(&self, call: ResumeCall) -> BoxFuture<'static, Result<UpstreamReply, UnifiedError>> {
        let reply = Self::resume(self, &call);
        async move { reply }.boxed()
    }
}

fn frame(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

/// Two halves of a text.
fn halves(text: &str) -> [&str; 2] {
    [&text[..text.len() / 2], &text[text.len() / 2..]]
}

fn anthropic(text: &str, signature: Option<&str>, calls: &[String], name: &str) -> Vec<String> {
    let mut events = vec![
        json!({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}),
    ];
    let mut block = |start: Value, deltas: Vec<Value>| {
        let index = events.iter().filter(|e| e["type"] == "content_block_start").count();
        events.push(json!({"type":"content_block_start","index":index,"content_block":start}));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type":"content_block_delta","index":index,"delta":delta})),
        );
        events.push(json!({"type":"content_block_stop","index":index}));
    };
    if let Some(signature) = signature {
        let deltas = vec![
            json!({"type":"thinking_delta","thinking":format!("about {text}")}),
            json!({"type":"signature_delta","signature":signature}),
        ];
        block(json!({"type":"thinking","thinking":"","signature":""}), deltas);
    }
    let pieces = halves(text).map(|half| json!({"type":"text_delta","text":half}));
    block(json!({"type":"text","text":""}), pieces.to_vec());
    for id in calls {
        let input = ["{\"at\":", "\"sky\"}"].map(|half| json!({"type":"input_json_delta","partial_json":half}));
        block(json!({"type":"tool_use","id":id,"name":name,"input":{}}), input.to_vec());
    }
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    events.push(json!({"type":"message_delta","delta":{"stop_reason":stop,"stop_sequence":null},"usage":{"output_tokens":7}}));
    events.push(json!({"type":"message_stop"}));
    events.iter().map(frame).collect()
}

fn chat(text: &str, calls: &[String], name: &str) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choices = json!([{"index":0,"delta":delta,"finish_reason":finish}]);
        format!(
            "data: {}\n\n",
            json!({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":choices})
        )
    };
    let mut frames = vec![chunk(json!({"role":"assistant","content":""}), Value::Null)];
    frames.extend(halves(text).map(|half| chunk(json!({"content":half}), Value::Null)));
    for (index, id) in calls.iter().enumerate() {
        let tool =
            json!({"tool_calls":[{"index":index,"id":id,"type":"function","function":{"name":name,"arguments":"{\"at\":\"sky\"}"}}]});
        frames.push(chunk(tool, Value::Null));
    }
    frames.push(chunk(json!({}), json!(if calls.is_empty() { "stop" } else { "tool_calls" })));
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}

fn responses(id: &str, text: &str, calls: &[String], name: &str, background: bool) -> Vec<String> {
    let response = |status: &str, output: Value| json!({"id":id,"object":"response","created_at":1,"status":status,"model":"o-x","output":output,"background":background,"store":true});
    let part = json!({"type":"output_text","text":text,"annotations":[]});
    let item = |status: &str, content: Value| json!({"type":"message","id":"msg_1","role":"assistant","status":status,"content":content});
    let mut events = vec![
        json!({"type":"response.created","response":response("in_progress", json!([]))}),
        json!({"type":"response.output_item.added","output_index":0,"item":item("in_progress", json!([]))}),
        json!({"type":"response.content_part.added","output_index":0,"content_index":0,"item_id":"msg_1","part":{"type":"output_text","text":"","annotations":[]}}),
    ];
    let delta = |half: &str| json!({"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"msg_1","delta":half});
    events.extend(halves(text).map(delta));
    events.push(json!({"type":"response.output_text.done","output_index":0,"content_index":0,"item_id":"msg_1","text":text}));
    events.push(json!({"type":"response.content_part.done","output_index":0,"content_index":0,"item_id":"msg_1","part":part}));
    events.push(json!({"type":"response.output_item.done","output_index":0,"item":item("completed", json!([part]))}));
    let mut output = vec![item("completed", json!([part]))];
    for call in calls {
        let item = json!({"type":"function_call","id":format!("fc_{call}"),"call_id":call,"name":name,"arguments":"{\"at\":\"sky\"}","status":"completed"});
        events.push(json!({"type":"response.output_item.done","output_index":output.len(),"item":item}));
        output.push(item);
    }
    events.push(json!({"type":"response.completed","response":response("completed", json!(output))}));
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = json!(number);
        frame(&event)
    });
    numbered.collect()
}
