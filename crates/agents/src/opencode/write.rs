//! A transcript to a document that `opencode import` takes.

use super::NAME;
use crate::fields::Fields;
use crate::ids;
use crate::losses;
use crate::native::{self, Speakers};
use crate::project::{self, Told};
use crate::runtime::{WriteOptions, Written, WrittenFile};
use crate::transcript::{NativeRecord, Transcript};
use crate::wire_blocks::{self, Block, Medium};
use serde_json::{Map, Value, json};
use throughline_format::{Json, LossSeverity, Timestamp, UnifiedLossReport};
use throughline_protocols::{Feature, HistoryPiece, anthropic_messages, raw};

/// Version that a session without one of its own is written for.
const VERSION: &str = "1.18.33";
/// Agent that a message without one of its own is written for.
const AGENT: &str = "build";
/// Model and provider of messages that do not tell theirs.
const UNKNOWN: &str = "unknown";

pub(super) fn write(transcript: &Transcript, options: &WriteOptions) -> Written {
    let is_own = transcript.runtime == NAME;
    let began = transcript.began().unwrap_or(Timestamp::EPOCH);
    let session_id = options.session_id(transcript, NAME, || {
        ids::opencode("ses", began, 0, true, &[&transcript.runtime, &transcript.session.id])
    });
    let mut writer = Writer {
        transcript,
        options,
        session_id: &session_id,
        messages: Vec::new(),
        open: None,
        parent: None,
        at: began,
        number: 0,
        loss: UnifiedLossReport::default(),
    };
    let speakers = is_own.then(|| Speakers::of(transcript));
    let told = native::write(transcript, speakers.as_ref(), &mut writer, || {
        project::tell(transcript, NAME, wire_blocks::capabilities(), anthropic_messages::history)
    });
    writer.loss.extend(told);
    let info = writer.info(began);
    let document = raw::object(vec![
        ("info".to_owned(), info),
        ("messages".to_owned(), raw::json(&writer.messages)),
    ]);
    let loss = writer.loss;
    Written {
        files: vec![WrittenFile {
            path: format!("{}.json", ids::file_name(&session_id)),
            content: format!("{}\n", document.as_str()),
        }],
        session_id,
        loss,
    }
}

/// A message in the making.
struct Open {
    /// Number of the wire's message.
    message: usize,
    is_user: bool,
    id: String,
    info: Map<String, Value>,
    parts: Vec<Value>,
}

struct Writer<'a> {
    transcript: &'a Transcript,
    options: &'a WriteOptions,
    session_id: &'a str,
    messages: Vec<Json>,
    open: Option<Open>,
    /// The last message of the user.
    parent: Option<String>,
    at: Timestamp,
    /// IDs made so far.
    number: u64,
    loss: UnifiedLossReport,
}

impl native::Writer for Writer<'_> {
    fn record(&mut self, record: &NativeRecord) {
        let (kind, text) = (record.kind.as_str(), record.text.as_str());
        let Some(message) = (kind == "message").then(|| Json::from_text(text.to_owned()).ok()).flatten() else {
            return;
        };
        let fields = Fields::parse(text).unwrap_or_default();
        let info = fields.object("info").unwrap_or_default();
        let from = &self.transcript.session.id;
        let moved = self.session_id != from;
        if info.text("role").as_deref() == Some("user") {
            let id = info.word("id");
            self.parent = if moved {
                id.map(|id| ids::opencode_copy(&id, self.session_id))
            } else {
                id
            };
        }
        if let Some(at) = info.object("time").and_then(|time| time.time("created")) {
            self.at = self.at.max(at);
        }
        self.messages
            .push(if moved { in_copy(&message, from, self.session_id) } else { message });
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.messages.push(raw::json(&json!({"info": open.info, "parts": open.parts})));
        }
    }

    fn piece(&mut self, piece: &HistoryPiece, told: &Told) {
        let item = told.item(piece);
        if let Some(item) = item {
            self.at = self.at.max(item.created_at);
        }
        let block = wire_blocks::open(piece);
        if let Block::Result {
            call_id,
            text,
            media,
            is_error,
        } = block
        {
            self.result(&call_id, &text, &media, is_error);
            return;
        }
        let is_user = piece.role != Some("assistant");
        // A result of the answer before stands in that answer, so a message may go on behind it.
        if self
            .open
            .as_ref()
            .is_none_or(|open| open.is_user != is_user || open.message != piece.message)
        {
            self.close();
            self.begin(piece, told, is_user);
        }
        let id = self.id("prt");
        let part = match block {
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::Thinking { text, signature } => {
                let time = json!({"start": self.at.millis(), "end": self.at.millis()});
                json!({"type": "reasoning", "text": text, "time": time, "metadata": {"anthropic": {"signature": signature}}})
            }
            Block::Medium(medium) => file(&medium),
            Block::Call { id, name, input } => json!({
                "type": "tool", "callID": id, "tool": name,
                "state": {"status": "pending", "input": input.parse(), "raw": ""},
            }),
            Block::Other(words) => {
                let path = told.path(piece);
                let reason = "a block that the runtime has no part for; its words are text";
                self.loss.push(losses::entry(
                    LossSeverity::Warning,
                    Feature::ConversationItem,
                    path,
                    reason,
                    Some(&piece.item),
                ));
                json!({"type": "text", "text": words})
            }
            Block::Result { .. } => return,
        };
        let (session_id, Some(open)) = (self.session_id, self.open.as_mut()) else {
            return;
        };
        open.parts.push(placed(part, &id, session_id, &open.id));
    }
}

impl Writer<'_> {
    fn id(&mut self, prefix: &str) -> String {
        self.number += 1;
        let number = self.number.to_string();
        // More IDs than a millisecond has numbers take the next one.
        let time = self.at.plus_millis(i64::try_from(self.number / 0xFFF).unwrap_or(0));
        ids::opencode(prefix, time, self.number % 0xFFF, false, &[self.session_id, prefix, &number])
    }

    /// Ends the call of an answer: both are one part.
    fn result(&mut self, call_id: &str, text: &str, media: &[Medium], is_error: bool) {
        let now = self.at.millis();
        let message = self.open.as_ref().map_or_else(String::new, |open| open.id.clone());
        let mut files = Vec::new();
        for medium in media {
            let id = self.id("prt");
            files.push(placed(file(medium), &id, self.session_id, &message));
        }
        let Some(open) = self.open.as_mut() else { return };
        let call = open
            .parts
            .iter_mut()
            .rev()
            .find(|part| part.get("callID").and_then(Value::as_str) == Some(call_id));
        let Some(state) = call.and_then(|call| call.get_mut("state")) else {
            return;
        };
        let input = state.get("input").cloned().unwrap_or_default();
        let time = json!({"start": now, "end": now});
        *state = if is_error {
            json!({"status": "error", "input": input, "error": text, "time": time})
        } else {
            let mut state = json!({"status": "completed", "input": input, "output": text, "title": "", "metadata": {}, "time": time});
            if let (false, Some(state)) = (files.is_empty(), state.as_object_mut()) {
                state.insert("attachments".to_owned(), files.into());
            }
            state
        };
    }

    fn begin(&mut self, piece: &HistoryPiece, told: &Told, is_user: bool) {
        let id = self.id("msg");
        let attribution = told.item(piece).map(|item| &item.provenance.attribution);
        let model = attribution
            .and_then(|a| a.model.as_deref())
            .or(self.options.model.as_deref())
            .unwrap_or(UNKNOWN);
        let vendor = attribution.and_then(|a| a.model_provider.as_deref()).unwrap_or(UNKNOWN);
        let cwd = self.cwd();
        let created = self.at.millis();
        let info = if is_user {
            self.parent = Some(id.clone());
            json!({
                "id": id, "sessionID": self.session_id, "role": "user", "time": {"created": created}, "agent": AGENT,
                "model": {"providerID": vendor, "modelID": model},
            })
        } else {
            json!({
                "id": id, "sessionID": self.session_id, "role": "assistant", "time": {"created": created, "completed": created},
                "parentID": self.parent.as_deref().unwrap_or(""), "modelID": model, "providerID": vendor, "mode": AGENT, "agent": AGENT,
                "path": {"cwd": cwd, "root": cwd}, "cost": 0,
                "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}, "finish": "stop",
            })
        };
        let info = info.as_object().cloned().unwrap_or_default();
        self.open = Some(Open {
            message: piece.message,
            is_user,
            id,
            info,
            parts: Vec::new(),
        });
    }

    fn cwd(&self) -> &str {
        self.options
            .cwd
            .as_deref()
            .or(self.transcript.session.cwd.as_deref())
            .unwrap_or("/")
    }

    /// The session's own object.
    fn info(&self, began: Timestamp) -> Json {
        let session = &self.transcript.session;
        let own = self.transcript.records.iter().find(|record| record.kind == "info");
        let own = own
            .filter(|_| self.transcript.runtime == NAME)
            .and_then(|record| Json::from_text(record.text.clone()).ok());
        if let Some(own) = own {
            return raw::put(&own, "/id", &raw::json(self.session_id));
        }
        let slug: String = self.session_id.chars().rev().take(8).collect();
        raw::json(&json!({
            "id": self.session_id, "slug": slug.to_ascii_lowercase(), "projectID": "global", "directory": self.cwd(),
            "title": session.title.as_deref().unwrap_or("Imported session"), "version": VERSION,
            "time": {"created": began.millis(), "updated": session.updated_at.unwrap_or(self.at).millis()},
        }))
    }
}

/// A message in a copy of its session: IDs name a message or part of all sessions, so it has others there.
fn in_copy(message: &Json, from: &str, to: &str) -> Json {
    let fields = Fields::parse(message.as_str()).unwrap_or_default();
    let info = fields.object("info").unwrap_or_default();
    let mut known: Vec<String> = [info.word("id"), info.word("parentID")].into_iter().flatten().collect();
    for part in fields.objects("parts") {
        known.extend(part.word("id"));
        let attached = part.object("state").map(|state| state.objects("attachments")).unwrap_or_default();
        known.extend(attached.iter().filter_map(|file| file.word("id")));
    }
    // A quoted ID is a whole value: within another text its quotes would be escaped.
    let quoted = |id: &str| format!("\"{id}\"");
    let text = message.as_str().replace(&quoted(from), &quoted(to));
    let text = known
        .iter()
        .fold(text, |text, id| text.replace(&quoted(id), &quoted(&ids::opencode_copy(id, to))));
    Json::from_text(text).unwrap_or_else(|_| message.clone())
}

fn file(medium: &Medium) -> Value {
    let mut part = json!({"type": "file", "mime": medium.media_type, "url": medium.url});
    if let (Some(name), Some(part)) = (&medium.name, part.as_object_mut()) {
        part.insert("filename".to_owned(), json!(name));
    }
    part
}

/// A part with its own ID and those of what it belongs to.
fn placed(part: Value, id: &str, session_id: &str, message_id: &str) -> Value {
    let mut placed = Map::new();
    placed.insert("id".to_owned(), json!(id));
    placed.insert("sessionID".to_owned(), json!(session_id));
    placed.insert("messageID".to_owned(), json!(message_id));
    placed.extend(part.as_object().cloned().unwrap_or_default());
    Value::Object(placed)
}
