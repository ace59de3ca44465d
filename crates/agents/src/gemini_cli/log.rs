//! What is left of a log when all its records are applied.

use crate::builder::Builder;
use crate::fields::{Fields, member};
use crate::lines;
use crate::source::SourceFile;
use std::collections::HashMap;
use throughline_format::Json;
use throughline_protocols::raw;

/// A chat as it stands.
#[derive(Debug, Default)]
pub(super) struct Chat {
    /// The head without the messages.
    pub(super) head: Vec<(String, Json)>,
    /// The messages in order, as they were written.
    pub(super) messages: Vec<Json>,
    /// Messages that were replaced or taken back.
    pub(super) gone: usize,
    /// Places of the messages by ID.
    places: HashMap<String, usize>,
}

impl Chat {
    /// Reads a file of either form. Damage is told to the builder.
    pub(super) fn read(file: &SourceFile, builder: &mut Builder) -> Self {
        let mut chat = Self::default();
        let whole = std::str::from_utf8(&file.bytes)
            .ok()
            .map(|text| text.trim_start_matches('\u{feff}'));
        let document = whole
            .and_then(Fields::parse)
            .filter(|root| root.raw("messages").is_some_and(|list| list.starts_with('[')));
        if let Some(document) = document {
            chat.merge(&document);
            return chat;
        }
        for mut line in lines::lines(&file.bytes) {
            let Some(text) = line.text.as_deref().map(str::to_owned) else {
                builder.damaged(&line, file.name());
                continue;
            };
            let Some(fields) = line.take_fields() else { continue };
            if let Some(set) = fields.object("$set") {
                chat.merge(&set);
            } else if let Some(id) = fields.text("$rewindTo") {
                // An ID that is not there drops everything.
                let at = chat.places.get(&id).copied().unwrap_or(0);
                chat.gone += chat.messages.len() - at;
                chat.messages.truncate(at);
                chat.places.retain(|_, place| *place < at);
            } else if fields.raw("type").is_some() {
                chat.message(&fields, &text);
            } else if fields.raw("sessionId").is_some() {
                chat.merge(&fields);
            }
        }
        chat
    }

    fn merge(&mut self, set: &Fields<'_>) {
        for (key, value) in set.members() {
            if key == "messages" {
                self.gone += self.messages.len();
                self.messages.clear();
                self.places.clear();
                for message in set.list("messages") {
                    if let Some(fields) = Fields::parse(message.get()) {
                        self.message(&fields, message.get());
                    }
                }
                continue;
            }
            let Ok(value) = Json::from_text(lines::on_one_line(value.get())) else {
                continue;
            };
            match self.head.iter_mut().find(|(known, _)| known == key) {
                Some((_, old)) => *old = value,
                None => self.head.push((key.to_owned(), value)),
            }
        }
    }

    fn message(&mut self, fields: &Fields<'_>, text: &str) {
        let Ok(json) = Json::from_text(lines::on_one_line(text)) else {
            return;
        };
        let id = fields.word("id");
        let known = id.as_ref().and_then(|id| self.places.get(id)).copied();
        if let Some(old) = known.and_then(|at| self.messages.get_mut(at)) {
            self.gone += usize::from(*old != json);
            *old = json;
            return;
        }
        if let Some(id) = id {
            self.places.insert(id, self.messages.len());
        }
        self.messages.push(json);
    }

    /// The head as one object.
    pub(super) fn head_json(&self) -> Json {
        raw::object(self.head.clone())
    }
}

/// The head of a chat that has none of its own.
pub(super) fn head(session_id: &str, project: &str, start: &str, last: &str) -> Json {
    raw::object(vec![
        member("sessionId", session_id),
        member("projectHash", project),
        member("startTime", start),
        member("lastUpdated", last),
        member("kind", "main"),
    ])
}
