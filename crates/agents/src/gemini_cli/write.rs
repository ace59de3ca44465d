//! A transcript to a chat that the runtime goes on with.

use super::{NAME, log, project};
use crate::fields::Fields;
use crate::ids;
use crate::losses;
use crate::native::{self, Speakers};
use crate::project::{self as projection, Told};
use crate::runtime::{WriteOptions, Written, WrittenFile};
use crate::transcript::{NativeRecord, Transcript};
use crate::wire_blocks::{self, Block, Medium};
use serde_json::{Value, json};
use throughline_format::{Json, LossSeverity, Timestamp, UnifiedId, UnifiedLossReport};
use throughline_protocols::{Feature, HistoryPiece, anthropic_messages, raw};

pub(super) fn write(transcript: &Transcript, options: &WriteOptions, document: bool) -> Written {
    let is_own = transcript.runtime == NAME;
    let session = &transcript.session;
    let session_id = options.session_id(transcript, NAME, || ids::uuid(&[NAME, &transcript.runtime, &transcript.session.id]));
    let mut writer = Writer {
        options,
        session_id: &session_id,
        head: None,
        messages: Vec::new(),
        open: None,
        at: Timestamp::EPOCH,
        loss: UnifiedLossReport::default(),
    };
    let speakers = is_own.then(|| Speakers::of(transcript));
    let told = native::write(transcript, speakers.as_ref(), &mut writer, || {
        projection::tell(transcript, NAME, wire_blocks::capabilities(), anthropic_messages::history)
    });
    writer.loss.extend(told);
    let began = transcript.began().unwrap_or(Timestamp::EPOCH);
    let last = session.updated_at.unwrap_or(writer.at).max(writer.at);
    let cwd = options.cwd.as_deref().or(session.cwd.as_deref()).unwrap_or("/");
    let made = || log::head(&session_id, &project(cwd), &began.to_string(), &last.to_string());
    let head = match writer.head.take() {
        Some(head) => raw::put(&head, "/sessionId", &raw::json(&session_id)),
        None => made(),
    };
    let time = began.to_string().get(..16).unwrap_or_default().replace(':', "-");
    let short: String = ids::file_name(&session_id).chars().take(8).collect();
    let (path, content) = if document {
        let whole = raw::put(&head, "/messages", &raw::json(&writer.messages));
        (format!("session-{time}-{short}.json"), format!("{}\n", whole.as_str()))
    } else {
        let lines = std::iter::once(&head).chain(&writer.messages);
        let content = lines.fold(String::new(), |all, line| all + line.as_str() + "\n");
        (format!("session-{time}-{short}.jsonl"), content)
    };
    let loss = writer.loss;
    Written {
        files: vec![WrittenFile { path, content }],
        session_id,
        loss,
    }
}

/// What stands before words of the user that the runtime would take for a command or for a context of its own: it leaves such records
/// out. The reader leaves these words out in turn.
pub(super) const SPOKEN: &str = "The user says: ";

/// A record in the making.
struct Open {
    message: usize,
    is_user: bool,
    id: String,
    at: Timestamp,
    model: Option<String>,
    /// Place of its first item, and the item.
    first: (String, UnifiedId),
    /// Texts, media and calls in order.
    parts: Vec<Value>,
    /// The calls with their results, in order.
    calls: Vec<Value>,
}

impl Open {
    fn text(&mut self, text: &str) {
        self.parts.push(json!({"text": text}));
    }

    /// The content of an answer: its text, or where text stands behind a call the parts in order.
    fn content(&self) -> Value {
        let texts = self.parts.iter().map_while(|part| part.get("text").and_then(Value::as_str));
        let texts: Vec<&str> = texts.collect();
        if texts.len() + self.calls.len() == self.parts.len() {
            json!(texts.join("\n"))
        } else {
            json!(self.parts)
        }
    }
}

struct Writer<'a> {
    options: &'a WriteOptions,
    session_id: &'a str,
    head: Option<Json>,
    messages: Vec<Json>,
    open: Option<Open>,
    at: Timestamp,
    loss: UnifiedLossReport,
}

impl native::Writer for Writer<'_> {
    fn record(&mut self, record: &NativeRecord) {
        let (kind, text) = (record.kind.as_str(), record.text.as_str());
        let Ok(json) = Json::from_text(text.to_owned()) else { return };
        if kind == "head" {
            self.head = Some(json);
            return;
        }
        let at = Fields::parse(text).and_then(|fields| fields.time("timestamp"));
        self.at = at.unwrap_or(self.at).max(self.at);
        self.messages.push(json);
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open.is_user {
            let content = self.spoken(open.parts, open.first);
            let record = json!({"id": open.id, "timestamp": open.at, "type": "user", "content": content});
            self.messages.push(raw::json(&record));
            return;
        }
        let mut record = json!({"id": open.id, "timestamp": open.at, "type": "gemini", "content": open.content(), "thoughts": []});
        if let Some(members) = record.as_object_mut() {
            members.extend(open.model.map(|model| ("model".to_owned(), json!(model))));
            if !open.calls.is_empty() {
                members.insert("toolCalls".to_owned(), open.calls.into());
            }
        }
        self.messages.push(raw::json(&record));
    }

    fn piece(&mut self, piece: &HistoryPiece, told: &Told) {
        let item = told.item(piece);
        self.at = item.map_or(self.at, |item| item.created_at).max(self.at);
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
        let fits = |open: &Open| open.is_user == is_user && open.message == piece.message;
        if !self.open.as_ref().is_some_and(fits) {
            self.close();
            let attribution = item.map(|item| &item.provenance.attribution);
            let model = attribution.and_then(|a| a.model.clone()).or_else(|| self.options.model.clone());
            let id = ids::uuid(&[NAME, self.session_id, piece.item.as_str(), &self.messages.len().to_string()]);
            self.open = Some(Open {
                message: piece.message,
                is_user,
                id,
                at: self.at,
                model,
                first: (told.path(piece), piece.item.clone()),
                parts: Vec::new(),
                calls: Vec::new(),
            });
        }
        let at = self.at;
        let Some(open) = self.open.as_mut() else { return };
        let mut lost = None;
        match block {
            Block::Text(text) => open.text(&text),
            Block::Medium(medium) if is_user => open.parts.push(part_of(&medium)),
            Block::Medium(medium) => {
                open.text(&format!("[file: {}]", medium.name.as_deref().unwrap_or(&medium.media_type)));
                lost = Some((
                    Feature::PartFile,
                    "an answer of the runtime holds no files; a mark stands in its place",
                ));
            }
            Block::Thinking { .. } => lost = Some((Feature::ReasoningText, "the runtime drops thoughts when it goes on")),
            Block::Call { id, name, input } => {
                let args = input.parse();
                open.parts.push(json!({"functionCall": {"id": id, "name": name, "args": args}}));
                open.calls.push(json!({
                    "id": id, "name": name, "args": args, "status": "success", "timestamp": at, "displayName": name,
                }));
            }
            Block::Other(words) => {
                open.text(&words);
                lost = Some((
                    Feature::ConversationItem,
                    "a block that the runtime has no form for; its words are text",
                ));
            }
            Block::Result { .. } => {}
        }
        if let Some((feature, reason)) = lost {
            self.loss.push(losses::entry(
                LossSeverity::Warning,
                feature,
                told.path(piece),
                reason,
                Some(&piece.item),
            ));
        }
    }
}

impl Writer<'_> {
    /// What the user says so that the runtime sends it: it looks at the joined text.
    fn spoken(&mut self, mut parts: Vec<Value>, (path, item): (String, UnifiedId)) -> Vec<Value> {
        let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
        let text: String = texts.collect();
        // A medium alone is words to the runtime too.
        if !text.is_empty() && super::read::is_left_out(&text) {
            parts.insert(0, json!({"text": SPOKEN}));
            let reason = "the runtime leaves out what begins like this; words stand before it";
            self.loss
                .push(losses::entry(LossSeverity::Info, Feature::PartText, path, reason, Some(&item)));
        }
        parts
    }

    /// Ends a call: both are one record.
    fn result(&mut self, call_id: &str, text: &str, media: &[Medium], is_error: bool) {
        let Some(open) = self.open.as_mut() else { return };
        let is = |call: &&mut Value| call.get("id").and_then(Value::as_str) == Some(call_id);
        let Some(call) = open.calls.iter_mut().rev().find(is).and_then(Value::as_object_mut) else {
            return;
        };
        let response = if is_error {
            json!({"error": text})
        } else {
            json!({"output": text})
        };
        let name = call.get("name").cloned().unwrap_or_default();
        let mut result = vec![json!({"functionResponse": {"id": call_id, "name": name, "response": response}})];
        result.extend(media.iter().map(part_of));
        call.insert("result".to_owned(), result.into());
        call.insert("status".to_owned(), json!(if is_error { "error" } else { "success" }));
        call.insert("resultDisplay".to_owned(), json!(text));
    }
}

fn part_of(medium: &Medium) -> Value {
    match &medium.data {
        Some(data) => json!({"inlineData": {"mimeType": medium.media_type, "data": data}}),
        None => json!({"fileData": {"mimeType": medium.media_type, "fileUri": medium.url}}),
    }
}
