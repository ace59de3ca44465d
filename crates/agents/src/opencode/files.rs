//! The objects of sessions, whatever they lie in: an export, a folder, a bundle of a folder, rows of a database.

use crate::fields::Fields;
use crate::lines::on_one_line;
use crate::source::Source;
use std::collections::BTreeMap;
use throughline_format::Json;
use throughline_protocols::raw;

/// A session with its messages in order.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The session's own object, when there is one.
    pub(super) info: Option<String>,
    pub(super) messages: Vec<Message>,
}

/// A message with its parts in order.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) info: String,
    pub(super) parts: Vec<String>,
}

/// Objects that were found and what could not be read.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) sessions: BTreeMap<String, Session>,
    /// Paths that hold no JSON object.
    pub(super) damaged: Vec<String>,
}

/// Sorts the objects of a source.
pub(super) fn sort(source: &Source) -> Found {
    let mut tree = Tree::default();
    for file in &source.files {
        let text = std::str::from_utf8(&file.bytes).unwrap_or_default().trim_start_matches('\u{feff}');
        let Some(fields) = Fields::parse(text) else {
            tree.found.damaged.push(file.path.clone());
            continue;
        };
        if fields.raw("messages").is_some() && fields.raw("info").is_some() {
            tree.export(&fields);
        } else if fields.members().any(|(key, _)| kind_of(key).is_some()) {
            for (path, content) in fields.members() {
                tree.object(path, content.get());
            }
        } else {
            tree.object(&file.path, text);
        }
    }
    tree.finish()
}

/// What lies at a path of the folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Session,
    Message,
    Part,
}

fn kind_of(path: &str) -> Option<Kind> {
    if !path.contains('/') {
        return None;
    }
    // `session/message/…` of the oldest versions: the innermost word counts.
    let folders: Vec<&str> = path.split('/').rev().skip(1).collect();
    folders.iter().find_map(|folder| match *folder {
        "part" => Some(Kind::Part),
        "message" => Some(Kind::Message),
        "session" | "info" => Some(Kind::Session),
        _ => None,
    })
}

#[derive(Default)]
struct Tree {
    found: Found,
    /// Parts by message, each with its ID.
    parts: BTreeMap<String, Vec<(String, String)>>,
    /// Messages by session, each with its ID.
    messages: BTreeMap<String, Vec<(String, String)>>,
}

impl Tree {
    fn export(&mut self, fields: &Fields<'_>) {
        let info = fields.object("info").unwrap_or_default();
        let id = info.word("id").unwrap_or_default();
        let session = self.found.sessions.entry(id).or_default();
        session.info = fields.raw("info").map(on_one_line);
        for message in fields.objects("messages") {
            session.messages.push(Message {
                info: on_one_line(message.raw("info").unwrap_or("{}")),
                parts: message.list("parts").into_iter().map(|part| on_one_line(part.get())).collect(),
            });
        }
    }

    fn object(&mut self, path: &str, content: &str) {
        let Some(kind) = kind_of(path) else { return };
        // A bundle may hold the files as text.
        let opened: Option<String> = serde_json::from_str(content).ok();
        let text = on_one_line(opened.as_deref().unwrap_or(content));
        let text = text.as_str();
        let Some(fields) = Fields::parse(text) else {
            self.found.damaged.push(path.to_owned());
            return;
        };
        let mut above = path.rsplit('/');
        let stem = above.next().unwrap_or_default().trim_end_matches(".json").to_owned();
        let folder = above.next().unwrap_or_default().to_owned();
        let id = fields.word("id").unwrap_or(stem);
        match kind {
            Kind::Session => {
                self.found.sessions.entry(id).or_default().info = Some(text.to_owned());
            }
            Kind::Message => {
                let session = fields.word("sessionID").unwrap_or(folder);
                self.messages.entry(session).or_default().push((id, text.to_owned()));
            }
            Kind::Part => {
                let message = fields.word("messageID").unwrap_or(folder);
                self.parts.entry(message).or_default().push((id, text.to_owned()));
            }
        }
    }

    fn finish(mut self) -> Found {
        for (session, mut messages) in self.messages {
            messages.sort();
            let session = self.found.sessions.entry(session).or_default();
            for (id, info) in messages {
                let mut parts = self.parts.remove(&id).unwrap_or_default();
                parts.sort();
                session.messages.push(Message {
                    info,
                    parts: parts.into_iter().map(|(_, text)| text).collect(),
                });
            }
        }
        // Parts whose message is not there.
        let lost = self
            .parts
            .into_iter()
            .flat_map(|(message, parts)| parts.into_iter().map(move |(id, _)| format!("part/{message}/{id}")));
        self.found.damaged.extend(lost);
        self.found
    }
}

impl Message {
    /// The message as an export has it.
    pub(super) fn to_export(&self) -> Json {
        let parts: Vec<Json> = self.parts.iter().filter_map(|part| Json::from_text(part.clone()).ok()).collect();
        let info = Json::from_text(self.info.clone()).unwrap_or_else(|_| Json::null());
        raw::object(vec![("info".to_owned(), info), ("parts".to_owned(), raw::json(&parts))])
    }
}
