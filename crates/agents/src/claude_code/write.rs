//! A transcript to a file that the runtime goes on with.

use super::NAME;
use crate::fields::{Fields, member};
use crate::ids;
use crate::native::{self, Speakers, Step};
use crate::project::{self, Told};
use crate::runtime::{WriteOptions, Written, WrittenFile};
use crate::transcript::{NativeRecord, Transcript};
use crate::wire_blocks;
use std::collections::HashSet;
use throughline_format::{Json, Timestamp, UnifiedItemBody};
use throughline_protocols::{HistoryPiece, anthropic_messages, raw};

/// Version that lines without one of their own are written for.
const VERSION: &str = "2.1.332";

pub(super) fn write(transcript: &Transcript, options: &WriteOptions) -> Written {
    let is_own = transcript.runtime == NAME;
    let session_id = options.session_id(transcript, NAME, || ids::uuid(&[NAME, &transcript.runtime, &transcript.session.id]));
    let speakers = is_own.then(|| Speakers::of(transcript));
    let mut writer = Writer {
        transcript,
        options,
        session_id: &session_id,
        moved: is_own && session_id != transcript.session.id,
        lines: Vec::new(),
        gone: speakers.iter().flat_map(|speakers| gone(transcript, speakers)).collect(),
        parent: None,
        at: Timestamp::EPOCH,
        answer: None,
    };
    let loss = native::write(transcript, speakers.as_ref(), &mut writer, || {
        project::tell(transcript, NAME, wire_blocks::capabilities(), anthropic_messages::history)
    });
    let mut content = writer.lines.join("\n");
    if !content.is_empty() {
        content.push('\n');
    }
    Written {
        files: vec![WrittenFile {
            path: format!("{}.jsonl", ids::file_name(&session_id)),
            content,
        }],
        session_id,
        loss,
    }
}

/// UUIDs of the records that may not speak any more.
fn gone(transcript: &Transcript, speakers: &Speakers) -> Vec<String> {
    let left = transcript.records.iter().enumerate().filter(|(n, _)| !speakers.may(*n));
    left.filter_map(|(_, record)| Fields::parse(&record.text)?.word("uuid")).collect()
}

struct Writer<'a> {
    transcript: &'a Transcript,
    options: &'a WriteOptions,
    session_id: &'a str,
    /// Whether the session gets another ID, which every line repeats.
    moved: bool,
    lines: Vec<String>,
    /// UUIDs of records that are not written any more.
    gone: HashSet<String>,
    /// The last link of the chain.
    parent: Option<String>,
    at: Timestamp,
    /// Number of the message that the last assistant line belongs to, and its ID.
    answer: Option<(usize, String)>,
}

impl native::Writer for Writer<'_> {
    fn steps(&mut self, steps: &[Step<'_>], told: &Told) {
        let mut rest = steps;
        while let Some((first, tail)) = rest.split_first() {
            match first {
                Step::Record(record) => {
                    self.record(record);
                    rest = tail;
                }
                Step::Piece(piece) => {
                    // What the user says in one message is one line, except that each result has its own.
                    let joins = |other: &Step<'_>| matches!(other, Step::Piece(other) if other.message == piece.message && !is_result(other) && !is_result(piece));
                    let more = if piece.role == Some("user") {
                        tail.iter().take_while(|step| joins(step)).count()
                    } else {
                        0
                    };
                    let (same, tail) = tail.split_at(more);
                    let mut pieces = vec![*piece];
                    pieces.extend(same.iter().filter_map(|step| match step {
                        Step::Piece(piece) => Some(*piece),
                        Step::Record(_) => None,
                    }));
                    self.pieces(&pieces, told);
                    rest = tail;
                }
            }
        }
    }

    /// A record as it was, at its place in the chain.
    fn record(&mut self, record: &NativeRecord) {
        let fields = Fields::parse(&record.text).unwrap_or_default();
        let uuid = fields.word("uuid");
        let mut text = record.text.clone();
        let mut put = |pointer: &str, value: &Json| {
            if let Ok(line) = Json::from_text(std::mem::take(&mut text)) {
                raw::put(&line, pointer, value).as_str().clone_into(&mut text);
            }
        };
        if self.moved && fields.word("sessionId").is_some() {
            put("/sessionId", &raw::json(self.session_id));
        }
        // A parent that is not written any more is replaced by what stands in its place.
        if fields.word("parentUuid").is_some_and(|parent| self.gone.contains(&parent)) {
            put("/parentUuid", &raw::json(&self.parent));
        }
        self.lines.push(text);
        self.answer = None;
        if uuid.is_some() && (!fields.flag("isSidechain") || self.parent.is_none()) {
            self.parent = uuid;
        }
        if let Some(at) = fields.time("timestamp") {
            self.at = self.at.max(at);
        }
    }

    fn piece(&mut self, piece: &HistoryPiece, told: &Told) {
        self.pieces(&[piece], told);
    }
}

impl Writer<'_> {
    /// A line of pieces of one message.
    fn pieces(&mut self, pieces: &[&HistoryPiece], told: &Told) {
        let Some(first) = pieces.first() else { return };
        let item = told.item(first);
        let uuid = ids::uuid(&[NAME, self.session_id, first.item.as_str(), &self.lines.len().to_string()]);
        self.at = item.map_or(self.at, |item| item.created_at).max(self.at.plus_millis(1));
        let is_own = self.transcript.runtime == NAME;
        let bodies = pieces
            .iter()
            .map(|piece| if is_own { piece.body.clone() } else { plain_call(&piece.body) });
        let content: Vec<Json> = bodies.collect();
        let is_assistant = first.role == Some("assistant");
        let message = if is_assistant {
            let known = self.answer.as_ref().filter(|(message, _)| *message == first.message);
            let id = known.map_or_else(|| format!("msg_{}", uuid.replace('-', "")), |(_, id)| id.clone());
            self.answer = Some((first.message, id.clone()));
            let told = item.and_then(|item| item.provenance.attribution.model.as_deref());
            let model = told.or(self.options.model.as_deref());
            let mut message = vec![member("id", &id), member("type", "message"), member("role", "assistant")];
            message.extend(model.map(|model| member("model", model)));
            message.extend([
                member("content", &content),
                member("stop_reason", &()),
                member("stop_sequence", &()),
            ]);
            raw::object(message)
        } else {
            self.answer = None;
            raw::object(vec![member("role", "user"), ("content".to_owned(), plain(&content))])
        };
        let session = &self.transcript.session;
        let own_version = session.version.as_deref().filter(|_| self.transcript.runtime == NAME);
        let cwd = self.options.cwd.as_deref().or(session.cwd.as_deref()).unwrap_or("/");
        let mut line = vec![
            member("parentUuid", &self.parent),
            member("isSidechain", &false),
            member("userType", "external"),
            member("cwd", cwd),
            member("sessionId", self.session_id),
            member("version", own_version.unwrap_or(VERSION)),
            member("gitBranch", session.git_branch.as_deref().unwrap_or("")),
            member("type", if is_assistant { "assistant" } else { "user" }),
            ("message".to_owned(), message),
            member("uuid", &uuid),
            member("timestamp", &self.at),
        ];
        if item.is_some_and(|item| matches!(item.body, UnifiedItemBody::CompactionSummary(_))) {
            line.extend([member("isCompactSummary", &true), member("isVisibleInTranscriptOnly", &true)]);
        }
        self.lines.push(raw::object(line).as_str().to_owned());
        self.parent = Some(uuid);
    }
}

fn is_result(piece: &HistoryPiece) -> bool {
    Fields::parse(piece.body.as_str()).and_then(|block| block.text("type")).as_deref() == Some("tool_result")
}

/// A call without the tool set that another runtime's tools are grouped in: the API takes the name of one that it knows only.
fn plain_call(block: &Json) -> Json {
    let grouped = Fields::parse(block.as_str()).is_some_and(|fields| fields.raw("toolset_name").is_some());
    if grouped {
        raw::put(block, "/toolset_name", &Json::null())
    } else {
        block.clone()
    }
}

/// A content of one text is a string, as the runtime writes it.
fn plain(content: &[Json]) -> Json {
    let text = match content {
        [only] => Fields::parse(only.as_str())
            .filter(|block| block.members().count() == 2)
            .and_then(|block| block.json("text")),
        _ => None,
    };
    text.unwrap_or_else(|| raw::json(content))
}
