//! What a driver of the Cloud API needs of the protocol: how a prompt is sent, where its run is followed, what came already.
//!
//! A driver sends bytes and no wire JSON of its own, so the frames that it adds to a stream are made here: which agent and run
//! it is of, the result of a run whose stream is no longer kept, the counters of the agent.

use super::{errors, wire};
use crate::object::Object;
use crate::sse::SseEvent;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use throughline_format::{ErrorCategory, Json, UnifiedError};

/// Frames that are remembered for telling a repetition; a reader goes on at most so far before what it took last.
const MAX_SEEN: usize = 16_384;

/// A prompt on its way: a new agent, or another run of one that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The agent that goes on.
    pub agent: Option<String>,
    /// The body to send.
    pub body: String,
}

impl Prompt {
    /// Splits a projected body: the agent stands in the address, and only a new one gets a model.
    ///
    /// # Errors
    /// `invalid-request.json` when the body is no object.
    pub fn of(body: &[u8]) -> Result<Self, UnifiedError> {
        let json: Json = throughline_format::json::decode_slice(body)?;
        let mut object =
            Object::of(&json).ok_or_else(|| UnifiedError::new(ErrorCategory::InvalidRequest, "json", "expected an object as the body"))?;
        let agent = object.get("agentId").and_then(|id| id.decode::<String>().ok());
        if agent.is_some() {
            object.remove("agentId");
            object.remove("model");
        }
        Ok(Self {
            agent,
            body: object.to_json().as_str().to_owned(),
        })
    }

    /// Path of the request.
    pub fn path(&self) -> String {
        match &self.agent {
            Some(agent) => format!("/v1/agents/{}/runs", escape(agent)),
            None => "/v1/agents".to_owned(),
        }
    }
}

/// A run that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its agent.
    pub agent: String,
    /// Its ID.
    pub run: String,
}

impl Begun {
    /// Reads the answer to a prompt.
    ///
    /// # Errors
    /// `server.malformed-answer` when it names no run.
    pub fn of(body: &[u8]) -> Result<Self, UnifiedError> {
        let created: Option<wire::Created> = throughline_format::json::decode_slice(body).ok();
        let ids = created.and_then(|created| Some((created.run.agent_id?, created.run.id?)));
        let (agent, run) =
            ids.ok_or_else(|| UnifiedError::new(ErrorCategory::Server, "malformed-answer", "the answer to a prompt names no run"))?;
        Ok(Self { agent, run })
    }

    /// Path of the run below the base address, with more behind it.
    pub fn path(&self, more: &str) -> String {
        format!("/v1/agents/{}/runs/{}{more}", escape(&self.agent), escape(&self.run))
    }

    /// Path of the agent's counters.
    pub fn usage_path(&self) -> String {
        format!("/v1/agents/{}/usage", escape(&self.agent))
    }

    /// The first frame of a stream: whose it is.
    pub fn frame(&self) -> String {
        let message = Object::of_type("system")
            .with("subtype", "init")
            .with("agent_id", &self.agent)
            .with("run_id", &self.run);
        frame(None, &message.to_json())
    }

    /// The counters of the agent as a frame; nothing when they cannot be read.
    pub fn usage_frame(&self, body: &[u8]) -> Option<String> {
        let usage: Json = throughline_format::json::decode_slice(body).ok()?;
        let message = Object::of_type("agent-usage").with("runId", &self.run).with("usage", &usage);
        Some(frame(None, &message.to_json()))
    }
}

/// A run as it stands, for a reader that asks again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Whether it has ended.
    pub is_terminal: bool,
    /// Its end as frames of a stream.
    pub frames: String,
}

impl Polled {
    /// Reads a run.
    ///
    /// # Errors
    /// `server.malformed-answer` when it is none.
    pub fn of(body: &[u8]) -> Result<Self, UnifiedError> {
        let run: wire::Run = throughline_format::json::decode_slice(body)
            .map_err(|_| UnifiedError::new(ErrorCategory::Server, "malformed-answer", "the provider's run cannot be read"))?;
        let message = Object::default()
            .with_some("runId", run.id.as_ref())
            .with("status", &run.status)
            .with_some("text", run.result.as_ref());
        Ok(Self {
            is_terminal: matches!(run.status.as_str(), "FINISHED" | "ERROR" | "CANCELLED" | "EXPIRED"),
            frames: frame(Some("result"), &message.to_json()),
        })
    }
}

/// Follows a stream over several connections: what came already is not told twice, and where to go on is known.
#[derive(Debug, Default)]
pub struct Follower {
    cursor: Option<String>,
    seen: BTreeSet<(String, String)>,
    order: VecDeque<(String, String)>,
    /// The ID of a plain event whose twin may still come.
    pending: Option<String>,
    is_done: bool,
}

impl Follower {
    /// The ID to go on after.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Whether the stream said that it is complete.
    pub const fn is_done(&self) -> bool {
        self.is_done
    }

    /// The provider no longer knows where to go on: everything comes again, and what was taken is still known.
    pub fn restart(&mut self) {
        self.cursor = None;
        self.pending = None;
    }

    /// Takes an event; gives its frame when it is new.
    ///
    /// A plain event and its rich twin share an ID, so the twin moves the cursor, or the next ID does: whoever went on after
    /// the plain one would miss the other.
    pub fn take(&mut self, event: &SseEvent) -> Option<String> {
        let name = event.event.as_deref().unwrap_or_default();
        if name == "done" {
            self.is_done = true;
            return None;
        }
        if let Some(id) = &event.id {
            if let Some(before) = self.pending.take_if(|before| before != id) {
                self.cursor = Some(before);
            }
            if matches!(name, "assistant" | "thinking" | "tool_call") {
                self.pending = Some(id.clone());
            } else {
                self.pending = None;
                self.cursor = Some(id.clone());
            }
            let key = (id.clone(), name.to_owned());
            if self.seen.contains(&key) {
                return None;
            }
            self.order.push_back(key.clone());
            self.seen.insert(key);
            if self.order.len() > MAX_SEEN
                && let Some(oldest) = self.order.pop_front()
            {
                self.seen.remove(&oldest);
            }
        }
        if name == "heartbeat" {
            return None;
        }
        let data = event.data.replace('\n', "\ndata: ");
        Some(match name {
            "" => format!("data: {data}\n\n"),
            name => format!("event: {name}\ndata: {data}\n\n"),
        })
    }
}

/// The last frame of a stream.
pub fn end_frame() -> String {
    frame(None, &Object::of_type("done").to_json())
}

/// The code of an error answer, by which a driver knows what to do.
pub fn code_of(error: &UnifiedError) -> &str {
    error.provider_code.as_deref().unwrap_or_default()
}

/// An `error` event of a stream that is worth another connection.
pub fn is_passing(event: &SseEvent) -> bool {
    let Ok(message) = throughline_format::json::decode_str::<wire::Message>(&event.data) else {
        return true;
    };
    let error = errors::of_code(message.code.as_deref().unwrap_or_default(), None, None);
    error.retryable
}

fn frame(event: Option<&str>, data: &Json) -> String {
    let data = crate::object::one_line(data);
    match event {
        Some(event) => format!("event: {event}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// An ID in a path: the provider's own alphabet passes, everything else is escaped.
fn escape(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, name: &str, data: &str) -> SseEvent {
        SseEvent {
            id: id.map(str::to_owned),
            event: Some(name.to_owned()),
            data: data.to_owned(),
        }
    }

    #[test]
    fn a_prompt_goes_to_a_new_agent_or_to_the_one_that_it_names() {
        let new = Prompt::of(br#"{"model":{"id":"m"},"prompt":{"text":"hi"}}"#).unwrap();
        assert_eq!(
            (new.path().as_str(), new.body.as_str()),
            ("/v1/agents", r#"{"model":{"id":"m"},"prompt":{"text":"hi"}}"#)
        );
        let next = Prompt::of(br#"{"agentId":"bc-1/..","model":{"id":"m"},"prompt":{"text":"hi"}}"#).unwrap();
        assert_eq!(
            (next.path().as_str(), next.body.as_str()),
            ("/v1/agents/bc-1%2F%2E%2E/runs", r#"{"prompt":{"text":"hi"}}"#)
        );
        assert!(Prompt::of(b"[]").is_err());
    }

    #[test]
    fn only_the_twin_moves_the_cursor_and_nothing_is_told_twice() {
        let mut follower = Follower::default();
        assert!(follower.take(&event(None, "status", "{}")).is_some());
        assert!(follower.take(&event(Some("1"), "assistant", "{}")).is_some());
        assert_eq!(follower.cursor(), None);
        assert!(follower.take(&event(Some("1"), "interaction_update", "{}")).is_some());
        assert_eq!(follower.cursor(), Some("1"));
        assert!(follower.take(&event(Some("2"), "assistant", "{}")).is_some());
        // The connection broke: the provider begins after 1.
        assert!(follower.take(&event(Some("2"), "assistant", "{}")).is_none());
        assert!(follower.take(&event(Some("2"), "interaction_update", "{}")).is_some());
        assert!(follower.take(&event(Some("3"), "heartbeat", "{}")).is_none());
        follower.restart();
        assert_eq!(follower.cursor(), None);
        assert!(follower.take(&event(Some("1"), "assistant", "{}")).is_none());
        assert!(follower.take(&event(None, "done", "")).is_none());
        assert!(follower.is_done());
    }
}
