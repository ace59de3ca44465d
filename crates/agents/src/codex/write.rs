//! A transcript to a rollout, or to the list of items that the app server takes.

use super::NAME;
use crate::fields::{Fields, member};
use crate::ids;
use crate::native::{self, Speakers};
use crate::project::{self, Told};
use crate::runtime::{WriteOptions, Written, WrittenFile};
use crate::transcript::{NativeRecord, Transcript};
use throughline_format::item::SummaryAuthor;
use throughline_format::{Json, LossSeverity, Timestamp, UnifiedItemBody, UnifiedLossReport};
use throughline_protocols::openai_responses::{self, OpenAiResponses};
use throughline_protocols::{Capabilities, Codec as _, Feature, HistoryPiece, raw};

/// Version that a head without one of its own is written for.
const VERSION: &str = "0.171.0";
/// What a head says that wrote the file.
const ORIGINATOR: &str = "throughline";

pub(super) fn write(transcript: &Transcript, options: &WriteOptions, bare: bool) -> Written {
    let is_own = transcript.runtime == NAME;
    let session_id = options.session_id(transcript, NAME, || ids::uuid(&[NAME, &transcript.runtime, &transcript.session.id]));
    let mut writer = Writer {
        transcript,
        options,
        session_id: &session_id,
        bare,
        out: Vec::new(),
        model: None,
        at: Timestamp::EPOCH,
        loss: UnifiedLossReport::default(),
    };
    let speakers = is_own.then(|| Speakers::of(transcript));
    let told = native::write(transcript, speakers.as_ref().filter(|_| !bare), &mut writer, || {
        let capabilities = Capabilities::of(OpenAiResponses.capabilities());
        project::tell(transcript, NAME, capabilities, openai_responses::history)
    });
    writer.loss.extend(told);
    let (loss, out) = (writer.loss, writer.out);
    let name = ids::file_name(&session_id);
    let file = if bare {
        let items: Vec<Json> = out.into_iter().filter_map(|item| Json::from_text(item).ok()).collect();
        WrittenFile {
            path: format!("{name}.response-items.json"),
            content: format!("{}\n", raw::json(&items).as_str()),
        }
    } else {
        let time = transcript.began().unwrap_or(Timestamp::EPOCH).to_string();
        let time = time.get(..19).unwrap_or_default().replace(':', "-");
        WrittenFile {
            path: format!("rollout-{time}-{name}.jsonl"),
            content: out.into_iter().fold(String::new(), |all, line| all + &line + "\n"),
        }
    };
    Written {
        session_id,
        files: vec![file],
        loss,
    }
}

struct Writer<'a> {
    transcript: &'a Transcript,
    options: &'a WriteOptions,
    session_id: &'a str,
    /// Items only, no lines.
    bare: bool,
    out: Vec<String>,
    model: Option<String>,
    at: Timestamp,
    loss: UnifiedLossReport,
}

impl native::Writer for Writer<'_> {
    fn open(&mut self, has_records: bool) {
        if !self.bare && !has_records {
            self.head();
        }
    }

    fn record(&mut self, record: &NativeRecord) {
        let fields = Fields::parse(&record.text).unwrap_or_default();
        let mut text = record.text.clone();
        let is_head = fields.text("type").as_deref() == Some("session_meta");
        if is_head
            && self.session_id != self.transcript.session.id
            && let Ok(line) = Json::from_text(text.clone())
        {
            raw::put(&line, "/payload/id", &raw::json(self.session_id))
                .as_str()
                .clone_into(&mut text);
        }
        if let Some(at) = fields.time("timestamp") {
            self.at = self.at.max(at);
        }
        if fields.text("type").as_deref() == Some("turn_context") {
            self.model = fields
                .object("payload")
                .and_then(|payload| payload.word("model"))
                .or(self.model.take());
        }
        self.out.push(text);
    }

    fn piece(&mut self, piece: &HistoryPiece, told: &Told) {
        let item = told.item(piece);
        let mut losses = Vec::new();
        let body = legal(&piece.body, &mut losses);
        for reason in losses {
            let path = told.path(piece);
            self.loss.push(crate::losses::entry(
                LossSeverity::Warning,
                Feature::PartFile,
                path,
                reason,
                Some(&piece.item),
            ));
        }
        if self.bare {
            self.out.push(body.as_str().to_owned());
            return;
        }
        if let Some(item) = item {
            self.at = item.created_at.max(self.at);
            let model = item.provenance.attribution.model.clone();
            if model.is_some() && model != self.model {
                self.model = model;
                let context = vec![member("cwd", self.cwd()), member("model", &self.model)];
                let (approval, sandbox) = (member("approval_policy", "on-request"), member("summary", "auto"));
                let policy = member("sandbox_policy", &serde_json::json!({"type": "read-only"}));
                let context = raw::object(context.into_iter().chain([approval, policy, sandbox]).collect());
                self.line("turn_context", context);
            }
            if let UnifiedItemBody::CompactionSummary(summary) = &item.body
                && summary.author == SummaryAuthor::Client
            {
                let words: Vec<&str> = summary.parts.iter().filter_map(|part| part.as_text()).collect();
                self.line("compacted", raw::object(vec![member("message", &words.join("\n\n"))]));
                return;
            }
        }
        self.line("response_item", body);
    }
}

impl Writer<'_> {
    fn line(&mut self, kind: &str, payload: Json) {
        let line = vec![member("timestamp", &self.at), member("type", kind), ("payload".to_owned(), payload)];
        self.out.push(raw::object(line).as_str().to_owned());
    }

    fn cwd(&self) -> &str {
        let told = self.options.cwd.as_deref().or(self.transcript.session.cwd.as_deref());
        told.unwrap_or("/")
    }

    fn head(&mut self) {
        let session = &self.transcript.session;
        self.at = self.transcript.began().unwrap_or(Timestamp::EPOCH);
        let own_version = session.version.as_deref().filter(|_| self.transcript.runtime == NAME);
        let payload = vec![
            member("id", self.session_id),
            member("timestamp", &self.at),
            member("cwd", self.cwd()),
            member("originator", ORIGINATOR),
            member("cli_version", own_version.unwrap_or(VERSION)),
            member("source", "cli"),
        ];
        self.line("session_meta", raw::object(payload));
    }
}

/// The item in the form that the runtime's own types have: contents are lists, parts are of the kinds that it knows.
fn legal(item: &Json, losses: &mut Vec<&'static str>) -> Json {
    let fields = Fields::parse(item.as_str()).unwrap_or_default();
    let kind = fields.text("type").unwrap_or_default();
    match kind.as_str() {
        "message" => {
            let is_assistant = fields.text("role").as_deref() == Some("assistant");
            let text_kind = if is_assistant { "output_text" } else { "input_text" };
            let parts = match fields.text("content") {
                Some(text) => vec![text_part(text_kind, &text)],
                None => fields
                    .list("content")
                    .into_iter()
                    .map(|part| legal_part(part.get(), text_kind, losses))
                    .collect(),
            };
            raw::put(item, "/content", &raw::json(&parts))
        }
        "function_call_output" | "custom_tool_call_output" if fields.text("output").is_none() => {
            let parts: Vec<Json> = fields
                .list("output")
                .into_iter()
                .map(|part| legal_part(part.get(), "input_text", losses))
                .collect();
            raw::put(item, "/output", &raw::json(&parts))
        }
        _ => item.clone(),
    }
}

fn legal_part(part: &str, text_kind: &str, losses: &mut Vec<&'static str>) -> Json {
    let fields = Fields::parse(part).unwrap_or_default();
    match fields.text("type").as_deref() {
        Some("input_text" | "output_text") => text_part(text_kind, &fields.text("text").unwrap_or_default()),
        Some("input_image" | "input_audio") => Json::from_text(part.to_owned()).unwrap_or_else(|_| Json::null()),
        Some("refusal") => text_part(text_kind, &fields.text("refusal").unwrap_or_default()),
        _ => {
            losses.push("the runtime takes no files in its history; their names stand in their place");
            let name = fields.word("filename").or_else(|| fields.word("file_url"));
            text_part(text_kind, &format!("[file: {}]", name.as_deref().unwrap_or("without a name")))
        }
    }
}

fn text_part(kind: &str, text: &str) -> Json {
    raw::object(vec![member("type", kind), member("text", text)])
}
