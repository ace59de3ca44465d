//! A rollout to a transcript.

use super::NAME;
use crate::builder::{Builder, Stamp};
use crate::fields::Fields;
use crate::lines;
use crate::source::{Source, SourceFile};
use crate::transcript::{SessionFacts, Transcript};
use throughline_format::item::{InterruptionCause, InterruptionItem, Role};
use throughline_format::{
    ErrorCategory, Json, LossSeverity, PartBody, Timestamp, UnifiedContentPart, UnifiedCounter, UnifiedError, UnifiedItem, UnifiedItemBody,
    UnifiedUsage,
};
use throughline_protocols::openai_responses::InputReader;
use throughline_protocols::{DecodeContext, Feature, raw};

/// Providers of a configuration that are the vendor of their models.
const VENDORS: &[&str] = &["openai", "anthropic", "google", "mistral", "xai", "deepseek"];
/// How texts begin that the runtime puts in as the user's.
const INJECTED: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<model_switch>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<subagent_notification>",
];
/// Members of an item that are the runtime's bookkeeping; the native record keeps them.
const BOOKKEEPING: &[&str] = &[
    "internal_chat_message_metadata_passthrough",
    "metadata",
    "content_item_kinds",
    "provenance",
];

pub(super) fn read(source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
    let found: Vec<Transcript> = source.files.iter().filter_map(rollout).collect();
    if found.is_empty() {
        let message = "there is no rollout of Codex in it: no line with a type and a payload, and no bare item";
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "transcript", message));
    }
    Ok(found)
}

fn rollout(file: &SourceFile) -> Option<Transcript> {
    // A list of items, as the app server takes it.
    let whole = std::str::from_utf8(&file.bytes)
        .ok()
        .map(str::trim)
        .filter(|text| text.starts_with('['));
    let listed: Option<Vec<Json>> = whole.and_then(|text| serde_json::from_str(text).ok());
    let mut texts: Vec<lines::Line<'_>> = match listed {
        Some(list) => {
            let line = |(number, item): (usize, Json)| lines::Line::of(number, lines::on_one_line(item.as_str()));
            (1..).zip(list).map(line).collect()
        }
        None => lines::lines(&file.bytes),
    };
    let id = session_id(file, &texts);
    let mut reader = Reader::new(id);
    for line in &mut texts {
        let (number, text) = (line.number, line.text.as_deref().map(str::to_owned));
        let Some(text) = text else {
            reader.builder.damaged(line, file.name());
            continue;
        };
        if let Some(fields) = line.take_fields() {
            reader.line(number, &text, &fields);
        }
    }
    reader.finish()
}

/// The thread's ID: the head's own, else that of the file's name.
fn session_id(file: &SourceFile, texts: &[lines::Line<'_>]) -> String {
    let told = texts
        .iter()
        .filter_map(|line| line.text.as_deref().and_then(Fields::parse))
        .find_map(|fields| {
            let meta = fields.text("type").as_deref() == Some("session_meta");
            let head = if meta { fields.object("payload")? } else { fields.clone() };
            let is_head = meta || fields.raw("instructions").is_some() || fields.raw("git").is_some();
            head.word("id").filter(|_| is_head)
        });
    // rollout-2026-03-01T10-00-00-<id>
    let named = file
        .stem()
        .strip_prefix("rollout-")
        .and_then(|rest| rest.get(20..))
        .map(str::to_owned);
    told.or(named).unwrap_or_else(|| file.stem().to_owned())
}

struct Reader {
    builder: Builder,
    input: InputReader,
    /// Where each turn of the user begins.
    turns: Vec<usize>,
    vendor: Option<String>,
    model: Option<String>,
    /// Totals of the last usage report.
    total: [f64; 4],
    has_head: bool,
    known: usize,
}

impl Reader {
    fn new(id: String) -> Self {
        let builder = Builder::new(
            NAME,
            SessionFacts {
                id,
                ..SessionFacts::default()
            },
        );
        let context: DecodeContext = builder.context("input");
        Self {
            builder,
            input: InputReader::new(&context),
            turns: Vec::new(),
            vendor: None,
            model: None,
            total: [0.0; 4],
            has_head: false,
            known: 0,
        }
    }

    fn finish(mut self) -> Option<Transcript> {
        if self.known == 0 {
            return None;
        }
        let (resources, loss) = self.input.finish();
        self.builder.resources(resources);
        self.builder.transcript.loss.extend(loss);
        Some(self.builder.finish())
    }

    fn stamp(&self, at: Option<Timestamp>, injected: bool) -> Stamp {
        Stamp {
            at,
            vendor: self.vendor.clone(),
            model: self.model.clone(),
            injected,
        }
    }

    fn line(&mut self, number: usize, text: &str, fields: &Fields<'_>) {
        let record = self.builder.record("line", text);
        let at = fields.time("timestamp");
        if at.is_some() {
            self.builder.transcript.session.updated_at = at.max(self.builder.transcript.session.updated_at);
        }
        let kind = fields.text("type").unwrap_or_default();
        let Some(payload) = fields.object("payload") else {
            self.early(number, record, text, fields);
            return;
        };
        self.known += 1;
        match kind.as_str() {
            "session_meta" => self.head(&payload),
            "response_item" => self.item(number, record, fields.json("payload"), &payload, at),
            "turn_context" => {
                self.model = payload.word("model").or(self.model.take());
                let cwd = payload.word("cwd");
                let session = &mut self.builder.transcript.session;
                session.cwd = cwd.or(session.cwd.take());
            }
            "compacted" => self.compacted(number, record, &payload, at),
            "event_msg" => self.event(record, &payload, at),
            // State of the client, which no item says.
            _ => {}
        }
    }

    /// A line of the first generation: the head, state, or an item without an envelope.
    fn early(&mut self, number: usize, record: usize, text: &str, fields: &Fields<'_>) {
        if fields.raw("record_type").is_some() {
            self.known += 1;
        } else if !self.has_head && fields.raw("type").is_none() && fields.raw("role").is_none() && fields.word("id").is_some() {
            self.known += 1;
            self.head(fields);
        } else if fields.raw("type").is_some() || fields.raw("role").is_some() {
            let at = fields.time("timestamp");
            self.item(number, record, Json::from_text(text.to_owned()).ok(), fields, at);
        }
    }

    fn head(&mut self, payload: &Fields<'_>) {
        // A forked or resumed thread repeats the heads of the threads before it; its own is the first.
        if std::mem::replace(&mut self.has_head, true) {
            return;
        }
        let session = &mut self.builder.transcript.session;
        session.cwd = payload.word("cwd");
        session.version = payload.word("cli_version");
        session.created_at = payload.time("timestamp");
        session.git_branch = payload.object("git").and_then(|git| git.word("branch"));
        session.parent = payload.word("forked_from_id");
        session.model_source = payload.word("model_provider");
        self.vendor = session.model_source.clone().filter(|name| VENDORS.contains(&name.as_str()));
    }

    fn item(&mut self, number: usize, record: usize, item: Option<Json>, fields: &Fields<'_>, at: Option<Timestamp>) {
        let path = format!("/{number}/payload");
        let Some(item) = item else { return };
        match fields.text("type").as_deref() {
            // Marks of the client in the history, which it leaves out itself.
            Some("ghost_snapshot" | "compaction_trigger" | "configuration_update") => {
                self.known += 1;
                return;
            }
            Some("compaction" | "compaction_summary" | "context_compaction") => {
                let reason = "a summary that only its provider can read; it is kept for the same runtime";
                self.builder
                    .lose(LossSeverity::Warning, Feature::ConversationItem, path.clone(), reason);
            }
            _ => {}
        }
        let clean = cleaned(&item, fields);
        match self.input.push(&clean, &path) {
            Ok(items) => {
                self.known += 1;
                self.push(record, items, at);
            }
            Err(error) => {
                let message = format!("the item cannot be read: {}", error.message);
                self.builder.warn("transcript.unreadable-record", message, format!("/{number}"));
                let reason = "an item that cannot be read; it is kept for the same runtime";
                self.builder.lose(LossSeverity::Warning, Feature::ConversationItem, path, reason);
            }
        }
    }

    fn push(&mut self, record: usize, items: Vec<UnifiedItem>, at: Option<Timestamp>) {
        for item in items {
            let injected = is_injected(&item);
            if item.role == Some(Role::User) && !injected && matches!(item.body, UnifiedItemBody::Message(_)) {
                self.turns.push(self.builder.transcript.items.len());
            }
            self.builder.item(Some(record), item, &self.stamp(at, injected));
        }
    }

    /// What came before is replaced: by a summary, or by a list of items that hold one.
    fn compacted(&mut self, number: usize, record: usize, payload: &Fields<'_>, at: Option<Timestamp>) {
        let key = format!("compacted-{record}");
        let id = self.builder.operation(&key).item(0);
        let mut texts: Vec<String> = Vec::new();
        for item in payload.objects("replacement_history") {
            texts.extend(item.text("content"));
            texts.extend(item.objects("content").iter().filter_map(|part| part.text("text")));
        }
        if texts.is_empty() {
            texts.extend(payload.word("message"));
        }
        if texts.is_empty() {
            let reason = "a compaction without words; what it replaced is told in full";
            self.builder
                .lose(LossSeverity::Info, Feature::ConversationItem, format!("/{number}"), reason);
            return;
        }
        let parts = texts
            .into_iter()
            .zip(0..)
            .map(|(text, n)| UnifiedContentPart::text(id.part(n), text))
            .collect();
        let covered = self.builder.transcript.items.len();
        let stamp = self.stamp(at, false);
        self.builder.summary(Some(record), id, parts, covered, &stamp);
    }

    fn event(&mut self, record: usize, payload: &Fields<'_>, at: Option<Timestamp>) {
        match payload.text("type").as_deref() {
            Some("token_count") => self.usage(payload),
            Some("thread_rolled_back") => {
                let turns = payload.raw("num_turns").and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
                let kept = self.turns.len().saturating_sub(turns);
                if let Some(first) = self.turns.get(kept).copied() {
                    self.turns.truncate(kept);
                    self.builder
                        .take_back(first, "the user took this turn back; it is kept for the same runtime");
                }
            }
            Some("turn_aborted") => {
                let operation = self.builder.operation(&format!("aborted-{record}"));
                let cause = InterruptionCause::ClientCancel;
                let body = UnifiedItemBody::Interruption(InterruptionItem {
                    cause,
                    operation_id: operation.clone(),
                    open_call_ids: self.open_calls(),
                });
                let item = self.builder.plain(operation.item(0), None, body);
                let stamp = Stamp { at, ..Stamp::default() };
                self.builder.item(Some(record), item, &stamp);
            }
            // For display: the items say the same.
            _ => {}
        }
    }

    fn open_calls(&self) -> Vec<String> {
        let mut open: Vec<String> = Vec::new();
        for item in &self.builder.transcript.items {
            let Some(id) = item.call_id() else { continue };
            if item.lifecycle().is_some() {
                open.push(id.to_owned());
            } else {
                open.retain(|known| known != id);
            }
        }
        open
    }

    /// Usage is reported as totals, and more than once: what counts is the difference.
    fn usage(&mut self, payload: &Fields<'_>) {
        let Some(total) = payload.object("info").and_then(|info| info.object("total_token_usage")) else {
            return;
        };
        let names = ["input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens"];
        let now = names.map(|name| total.number(name));
        let mut step = [None; 4];
        for ((step, now), before) in step.iter_mut().zip(now).zip(&mut self.total) {
            if let Some(now) = now {
                // A total that fell begins anew: the thread was forked or compacted.
                *step = Some(if now < *before { now } else { now - *before });
                *before = now;
            }
        }
        if step.iter().flatten().all(|step| *step == 0.0) {
            return;
        }
        let [input, cached, output, reasoning] = step.map(|step| step.map(UnifiedCounter::derived));
        let usage = UnifiedUsage {
            input_total: input,
            cache_read: cached,
            input_uncached: input
                .zip(cached)
                .map(|(input, cached)| UnifiedCounter::derived((input.value - cached.value).max(0.0))),
            output_total: output,
            reasoning,
            ..UnifiedUsage::default()
        };
        self.builder.usage(usage);
    }
}

/// Whether the runtime put a message in.
fn is_injected(item: &UnifiedItem) -> bool {
    match item.role {
        Some(Role::Developer | Role::System) => true,
        Some(Role::User) => item.parts().first().is_some_and(|part| match &part.body {
            PartBody::Text(text) => INJECTED.iter().any(|head| text.text.trim_start().starts_with(head)),
            _ => false,
        }),
        _ => false,
    }
}

/// The item as the wire has it: without bookkeeping and nulls, with an output of an older form opened.
fn cleaned(item: &Json, fields: &Fields<'_>) -> Json {
    let needs = fields
        .members()
        .any(|(key, value)| BOOKKEEPING.contains(&key) || value.get() == "null" || key == "output" && value.get().starts_with('{'));
    if !needs {
        return item.clone();
    }
    let members = raw::members(item).into_iter();
    let members = members.filter(|(key, value)| !BOOKKEEPING.contains(&key.as_str()) && value.as_str() != "null");
    let members = members.map(|(key, value)| {
        let opened = (key == "output").then(|| raw::get(&value, "content")).flatten();
        (key, opened.unwrap_or(value))
    });
    raw::object(members.collect())
}
