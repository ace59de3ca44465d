//! Clients that hold their own history and send all of it with every question, in three protocols.

use crate::world::{Rng, Shared, World};
use bytes::Bytes;
use serde_json::{Value, json};
use throughline_engine::{ClientSession, Turn, TurnRequest};
use throughline_format::status::ResponseState;
use throughline_format::{ProtocolFamily, UnifiedId, UnifiedResultV2};
use throughline_protocols::codec_of;

const MODELS: [&str; 8] = [
    "claude",
    "other-claude",
    "gpt",
    "o",
    "other-o",
    "o>gpt",
    "claude>gpt",
    "gpt>other-claude",
];

/// One client.
pub struct Client {
    family: ProtocolFamily,
    history: Vec<Value>,
    /// Texts of the history in order.
    texts: Vec<String>,
    /// Lengths of both before each question, to go back to.
    turns: Vec<(usize, usize)>,
    model: &'static str,
    /// Calls that wait for their results.
    calls: Vec<String>,
    session: Option<ClientSession>,
    pub is_busy: bool,
    /// Conversation and branch of its last turn.
    pub place: Option<(UnifiedId, UnifiedId)>,
}

impl Client {
    pub fn new(rng: &mut Rng) -> Self {
        let families = [
            ProtocolFamily::OpenAiChat,
            ProtocolFamily::AnthropicMessages,
            ProtocolFamily::OpenAiResponses,
        ];
        Self {
            family: families[rng.below(3) as usize].clone(),
            history: Vec::new(),
            texts: Vec::new(),
            turns: Vec::new(),
            model: MODELS[rng.below(8) as usize],
            calls: Vec::new(),
            // Some share one, some have none.
            session: rng.chance(60).then(|| ClientSession {
                family: "agent".into(),
                id: rng.below(2).to_string(),
                subagent: None,
                asks_again: false,
            }),
            is_busy: false,
            place: None,
        }
    }

    /// The next question, when no answer is awaited: the result of a call, a new question, or an earlier one in other words.
    pub fn ask(&mut self, shared: &Shared, rng: &mut Rng) -> Option<TurnRequest> {
        if self.is_busy {
            return None;
        }
        self.is_busy = true;
        if rng.chance(35) {
            self.model = MODELS[rng.below(8) as usize];
        }
        if self.calls.is_empty()
            && rng.chance(12)
            && let Some((items, texts)) = self.turns.get(rng.below(self.turns.len() as u64) as usize).copied()
        {
            self.history.truncate(items);
            self.texts.truncate(texts);
            self.turns.retain(|(n, _)| *n < items);
        }
        let ask = {
            let mut state = shared.lock();
            state.minted += 1;
            format!("ask{:06}.", state.minted)
        };
        if self.calls.is_empty() {
            self.turns.push((self.history.len(), self.texts.len()));
            self.history.push(json!({"role":"user","content":ask}));
        } else {
            let mut calls = std::mem::take(&mut self.calls);
            if rng.chance(10) {
                // Twice, and for a call that nobody made.
                calls.push(calls[0].clone());
                calls.push("call_nobody_made".to_owned());
            }
            self.answer(&calls, &ask);
        }
        self.texts.push(ask.clone());
        shared.lock().asks.insert(ask, self.texts.clone());
        Some(TurnRequest {
            principal: World::principal(),
            codec: codec_of(&self.family).unwrap(),
            body: Bytes::from(self.body(rng).to_string()),
            model: None,
            stream: None,
            conversation: None,
            branch: None,
            require: Vec::new(),
            client_family: None,
            session: self.session.clone(),
            client_headers: Vec::new(),
            transport: None,
            options: throughline_engine::TurnOptions {
                background: rng.chance(60),
                ..throughline_engine::TurnOptions::default()
            },
        })
    }

    fn answer(&mut self, calls: &[String], ask: &str) {
        match self.family {
            ProtocolFamily::AnthropicMessages => {
                let results: Vec<_> = calls
                    .iter()
                    .map(|id| json!({"type":"tool_result","tool_use_id":id,"content":ask}))
                    .collect();
                self.history.push(json!({"role":"user","content":results}));
            }
            _ => self
                .history
                .extend(calls.iter().map(|id| json!({"role":"tool","tool_call_id":id,"content":ask}))),
        }
    }

    fn body(&self, rng: &mut Rng) -> Value {
        let schema = json!({"type":"object","properties":{"at":{"type":"string"}}});
        match self.family {
            ProtocolFamily::AnthropicMessages => json!({
                "model": self.model, "max_tokens": 1000, "stream": true, "thinking": {"type": "adaptive"}, "messages": self.history,
                "tools": [{"name": "look", "input_schema": schema}],
            }),
            ProtocolFamily::OpenAiResponses => {
                // Only this provider works in the background.
                let background = matches!(self.model, "o" | "other-o") && rng.chance(70);
                let mut body = json!({"model": self.model, "stream": true, "input": self.history});
                if background {
                    body["background"] = json!(true);
                    body["store"] = json!(true);
                }
                body
            }
            _ => {
                let mut body = json!({
                    "model": self.model, "stream": true, "messages": self.history,
                    "tools": [{"type": "function", "function": {"name": "look", "parameters": schema}}],
                });
                if matches!(self.model, "o" | "other-o") {
                    body["store"] = json!(true);
                }
                body
            }
        }
    }

    pub fn began(&mut self, turn: &Turn) {
        self.place = Some((turn.conversation_id.clone(), turn.branch_id.clone()));
    }

    /// The answer as its own protocol says it; of one that did not end well nothing is kept.
    pub fn hear(&mut self, turn: &Turn, result: Option<&UnifiedResultV2>) {
        self.is_busy = false;
        let Some(result) = result.filter(|r| matches!(r.status.state, ResponseState::Completed | ResponseState::RequiresAction)) else {
            return;
        };
        let said: Vec<&str> = result
            .output
            .iter()
            .filter(|i| i.body.kind() == "message")
            .flat_map(throughline_format::UnifiedItem::parts)
            .filter_map(|p| p.as_text())
            .collect();
        let encoded = codec_of(&self.family).unwrap().encode_response(result, &turn.encode).unwrap();
        let answer: Value = serde_json::from_str(&encoded.body).unwrap();
        let ids = |list: &Value, kind: Option<&str>| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            let calls = list.filter(|call| kind.is_none_or(|kind| call["type"] == kind));
            calls.map(|call| call["id"].as_str().unwrap().to_owned()).collect()
        };
        match self.family {
            ProtocolFamily::AnthropicMessages => {
                self.history.push(json!({"role":"assistant","content":answer["content"]}));
                self.calls = ids(&answer["content"], Some("tool_use"));
            }
            ProtocolFamily::OpenAiResponses => {
                let text = said.concat();
                self.history
                    .push(json!({"role":"assistant","content":[{"type":"output_text","text":text}]}));
            }
            _ => {
                let message = &answer["choices"][0]["message"];
                self.history.push(message.clone());
                self.calls = ids(&message["tool_calls"], None);
            }
        }
        self.texts.extend(said.iter().map(|text| (*text).to_owned()));
    }
}
