//! A file to transcripts.

use super::lines::{Kind, Line};
use super::{NAME, path, repair};
use crate::builder::{Builder, Stamp};
use crate::fields::Fields;
use crate::lines;
use crate::losses;
use crate::source::{Source, SourceFile};
use crate::transcript::{SessionFacts, Transcript};
use crate::wire_blocks;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use throughline_format::item::{ErrorItem, Role};
use throughline_format::{ErrorCategory, LossSeverity, UnifiedError, UnifiedItem, UnifiedItemBody};
use throughline_protocols::Feature;
use throughline_protocols::anthropic_messages::usage_of;

/// Vendor of the models that this runtime speaks with: its API is that of the vendor.
const VENDOR: &str = "anthropic";

pub(super) fn read(source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
    let mut found = Vec::new();
    for file in &source.files {
        found.extend(session(file));
    }
    if found.is_empty() {
        let message = "there is no session of Claude Code in it: no line with a type and a message";
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "transcript", message));
    }
    Ok(found)
}

/// The lines of a file: JSON lines, or a document of an older export that lists them.
fn texts(file: &SourceFile) -> Vec<lines::Line<'_>> {
    let whole = std::str::from_utf8(&file.bytes).ok();
    let listed = whole
        .filter(|text| text.contains("\"loglines\""))
        .and_then(Fields::parse)
        .map(|root| root.list("loglines"));
    match listed.filter(|list| !list.is_empty()) {
        Some(list) => {
            let line = |(number, raw): (usize, &RawValue)| lines::Line::of(number, lines::on_one_line(raw.get()));
            (1..).zip(list).map(line).collect()
        }
        None => lines::lines(&file.bytes),
    }
}

fn session(file: &SourceFile) -> Vec<Transcript> {
    let mut texts = texts(file);
    let mut builder = Builder::new(NAME, SessionFacts::default());
    let mut all: Vec<Line<'_>> = Vec::new();
    for line in &mut texts {
        let (number, text) = (line.number, line.text.as_deref().map(str::to_owned));
        let Some(text) = text else {
            builder.damaged(line, file.name());
            continue;
        };
        if let Some(fields) = line.take_fields() {
            let record = builder.record("line", text);
            all.push(Line::of(number, record, fields));
        }
    }
    if !all.iter().any(|line| line.fields.text("type").is_some()) {
        return Vec::new();
    }
    let only_side = !all.iter().any(|line| line.is_chain() && !line.sidechain);
    facts(&mut builder.transcript.session, file, &all, only_side);
    let members: Vec<usize> = (0..all.len())
        .filter(|at| all.get(*at).is_some_and(|line| line.is_chain() && (only_side || !line.sidechain)))
        .collect();
    let conversation = path::conversation(&all, &members);
    let mut reader = Reader::new(builder, &all);
    reader.read(&conversation, true);
    let sides = if only_side { BTreeMap::new() } else { sides(&all) };
    let aside: HashSet<usize> = conversation.iter().chain(sides.values().flatten()).copied().collect();
    let every: Vec<usize> = (0..all.len()).collect();
    reader.tell_rest(&every, &aside);
    for members in sides.values() {
        let number = members.first().and_then(|at| all.get(*at)).map_or(0, |line| line.number);
        let reason = "a subagent's conversation; it is a transcript of its own";
        reader
            .builder
            .lose(LossSeverity::Info, Feature::ConversationItem, format!("/{number}"), reason);
    }
    let main = reader.builder.finish();
    let mut found = Vec::new();
    for (root, members) in sides {
        let session = SessionFacts {
            id: format!("{}.{root}", main.session.id),
            parent: Some(main.session.id.clone()),
            title: None,
            ..main.session.clone()
        };
        let mut side = Reader::new(Builder::new(NAME, session), &all);
        let conversation = path::conversation(&all, &members);
        side.read(&conversation, false);
        side.tell_rest(&members, &conversation.into_iter().collect());
        found.push(side.builder.finish());
    }
    found.insert(0, main);
    found
}

/// Lines of subagents within the file, by the first line of each.
fn sides(all: &[Line<'_>]) -> BTreeMap<String, Vec<usize>> {
    let mut roots: HashMap<&str, String> = HashMap::new();
    let mut sides: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, line) in all.iter().enumerate().filter(|(_, line)| line.sidechain && line.is_chain()) {
        let inherited = line.parent.as_deref().and_then(|parent| roots.get(parent)).cloned();
        let own = || {
            line.fields
                .word("agentId")
                .or_else(|| line.uuid.clone())
                .unwrap_or_else(|| format!("record-{}", line.record))
        };
        let root = inherited.unwrap_or_else(own);
        if let Some(uuid) = line.uuid.as_deref() {
            roots.insert(uuid, root.clone());
        }
        sides.entry(root).or_default().push(at);
    }
    sides
}

/// What the lines say of the session.
fn facts(session: &mut SessionFacts, file: &SourceFile, all: &[Line<'_>], only_side: bool) {
    let first = |key: &str| all.iter().find_map(|line| line.fields.word(key));
    let last = |key: &str| all.iter().rev().find_map(|line| line.fields.word(key));
    let told = last("sessionId");
    let agent = first("agentId").filter(|_| only_side);
    session.parent = agent.as_ref().and(told.clone());
    // The file's name is what the runtime finds it by, where it has the form of one.
    let name = Some(file.stem().to_owned()).filter(|stem| crate::ids::is_uuid(stem));
    session.id = match (agent, name, told) {
        (Some(agent), _, Some(told)) => format!("{told}.agent-{agent}"),
        (_, Some(name), _) => name,
        (_, None, Some(told)) => told,
        _ => file.stem().to_owned(),
    };
    session.cwd = last("cwd");
    session.version = last("version");
    session.git_branch = last("gitBranch");
    session.title = last("customTitle").or_else(|| last("aiTitle")).or_else(|| last("summary"));
    session.created_at = all.iter().find_map(|line| line.at);
    session.updated_at = all.iter().filter_map(|line| line.at).max();
}

/// Turns lines of a conversation to items.
struct Reader<'a> {
    builder: Builder,
    all: &'a [Line<'a>],
    /// Keys of the records that were read.
    keys: HashSet<String>,
    /// Lines of one answer that were read, by message ID and content.
    said: HashSet<(String, &'a str)>,
    /// Item positions that stand at the beginning of a line, by the line's uuid.
    starts: HashMap<&'a str, usize>,
    /// Position of the first item that the next summary leaves standing, where the client kept some.
    preserved: Option<usize>,
}

impl<'a> Reader<'a> {
    fn new(builder: Builder, all: &'a [Line<'a>]) -> Self {
        Self {
            builder,
            all,
            keys: HashSet::new(),
            said: HashSet::new(),
            starts: HashMap::new(),
            preserved: None,
        }
    }

    /// Reads a conversation; with `owns` its records are linked to their items.
    fn read(&mut self, conversation: &[usize], owns: bool) {
        let lines: Vec<&'a Line<'a>> = conversation.iter().filter_map(|at| self.all.get(*at)).collect();
        // What the user says belongs to the model that answers it.
        let mut models = vec![None; lines.len()];
        let mut model = None;
        for (at, line) in lines.iter().enumerate().rev() {
            model = line.model().or(model);
            models.get_mut(at).into_iter().for_each(|place| place.clone_from(&model));
        }
        for (line, model) in lines.iter().zip(models) {
            let stamp = Stamp {
                at: line.at,
                vendor: model.is_some().then(|| VENDOR.to_owned()),
                model,
                injected: false,
            };
            if let Some(uuid) = line.uuid.as_deref() {
                self.starts.insert(uuid, self.builder.transcript.items.len());
            }
            self.line(line, owns.then_some(line.record), stamp);
        }
        self.usage(&lines);
    }

    fn line(&mut self, line: &'a Line<'a>, record: Option<usize>, mut stamp: Stamp) {
        let mut key = line.uuid.clone().unwrap_or_else(|| format!("record-{}", line.record));
        if !self.keys.insert(key.clone()) {
            // Two records with one uuid are two records all the same.
            key = format!("{key}#{}", line.record);
        }
        match line.kind {
            Kind::Assistant if line.is_made_up() => self.made_up(line, record, &key),
            Kind::User if line.is_summary() => self.summary(line, record, &key, &stamp),
            Kind::User | Kind::Assistant => {
                stamp.injected = line.fields.flag("isMeta");
                let content = line.message.raw("content").unwrap_or_default();
                if let Some(id) = line.message_id.clone().filter(|_| line.kind == Kind::Assistant)
                    && !self.said.insert((id, content))
                {
                    let reason = "the block stands in the file twice; it was said once";
                    self.builder
                        .lose(LossSeverity::Info, Feature::ConversationItem, format!("/{}", line.number), reason);
                    return;
                }
                self.message(line, record, &key, &stamp);
            }
            Kind::System if line.is_system("local_command") => {
                // Sent to the model as the user's text.
                if let Some(text) = line.fields.word("content") {
                    let item = self.builder.message(self.builder.operation(&key).item(0), Role::User, text);
                    self.builder.item(record, item, &stamp);
                }
            }
            Kind::System if line.is_system("compact_boundary") => {
                let kept = line.fields.object("compactMetadata").unwrap_or_default();
                let ids = kept
                    .object("preservedMessages")
                    .map(|messages| messages.list("uuids"))
                    .unwrap_or_default();
                let ids = ids.into_iter().filter_map(|raw| serde_json::from_str::<String>(raw.get()).ok());
                let head = kept.object("preservedSegment").and_then(|segment| segment.word("headUuid"));
                self.preserved = ids.chain(head).filter_map(|uuid| self.starts.get(uuid.as_str()).copied()).min();
            }
            Kind::Attachment => self.attachment(line, record, &key, stamp),
            Kind::System | Kind::Link | Kind::Beside => {}
        }
    }

    /// A message of the API.
    fn message(&mut self, line: &Line<'_>, record: Option<usize>, key: &str, stamp: &Stamp) {
        if let Some(items) = self.decode(line, key) {
            self.builder.items(record, items, stamp);
        }
    }

    /// The items of a message; what cannot be read is told.
    fn decode(&mut self, line: &Line<'_>, key: &str) -> Option<Vec<UnifiedItem>> {
        let role = if line.kind == Kind::User { "user" } else { "assistant" };
        let place = format!("/{}/message", line.number);
        let context = self.builder.context(key);
        let read = |content: &str| wire_blocks::decode(role, content, &context);
        let content = line.message.raw("content").unwrap_or("{}");
        let decoded = read(content).or_else(|error| {
            let message = format!("the message is not of the API's shape: {}", error.message);
            self.builder.warn("transcript.unreadable-record", message, place.clone());
            let (repaired, lost) = repair::content(&line.message, key, &self.builder.transcript.items, |block| {
                read(&format!("[{}]", block.as_str())).is_ok()
            });
            for at in lost {
                let reason = "a block that cannot be read; it is kept for the same runtime";
                self.builder.lose(
                    LossSeverity::Warning,
                    Feature::ConversationItem,
                    format!("{place}/content/{at}"),
                    reason,
                );
            }
            read(repaired.as_str())
        });
        let decoded = decoded.ok()?;
        losses::extend_moved(&mut self.builder.transcript.loss, decoded.loss, "/messages/0", &place);
        self.builder.resources(decoded.resources);
        Some(decoded.unified.conversation.items)
    }

    /// What the client wrote in the model's place: an error, or a filler that is nothing.
    fn made_up(&mut self, line: &Line<'_>, record: Option<usize>, key: &str) {
        let stamp = Stamp {
            at: line.at,
            ..Stamp::default()
        };
        if line.fields.flag("isApiErrorMessage") {
            let category = match line.fields.raw("apiErrorStatus") {
                Some("401") => ErrorCategory::Auth,
                Some("403") => ErrorCategory::Permission,
                Some("429") => ErrorCategory::RateLimit,
                Some("529") => ErrorCategory::Overloaded,
                Some(status) if status.starts_with('4') => ErrorCategory::InvalidRequest,
                _ => ErrorCategory::Server,
            };
            let error = UnifiedError::new(category, "upstream", "the API refused or failed");
            let id = self.builder.operation(key).item(0);
            let item = self.builder.plain(id, None, UnifiedItemBody::Error(ErrorItem { error }));
            self.builder.item(record, item, &stamp);
        }
        let reason = "the client's own words in the model's place; kept for the same runtime";
        self.builder.lose(
            LossSeverity::Info,
            Feature::ConversationItem,
            format!("/{}/message", line.number),
            reason,
        );
    }

    /// The summary that a compaction left.
    fn summary(&mut self, line: &Line<'_>, record: Option<usize>, key: &str, stamp: &Stamp) {
        let items = self.decode(line, key).unwrap_or_default();
        let parts = items.iter().flat_map(|item| item.parts().to_vec()).collect();
        let covered = self.preserved.take().unwrap_or(self.builder.transcript.items.len());
        let id = self.builder.operation(key).item(0);
        self.builder.summary(record, id, parts, covered, stamp);
    }

    /// What the client adds to a request by itself: told when the exact text was kept.
    fn attachment(&mut self, line: &Line<'_>, record: Option<usize>, key: &str, mut stamp: Stamp) {
        stamp.injected = true;
        let role = match line.fields.text("renderedRole").as_deref() {
            Some("system") => Role::System,
            _ => Role::User,
        };
        let texts: Vec<String> = line.fields.objects("rendered").iter().filter_map(|r| r.word("content")).collect();
        if texts.is_empty() {
            let reason = "an attachment whose text was not recorded; kept for the same runtime";
            self.builder.lose(
                LossSeverity::Info,
                Feature::ConversationItem,
                format!("/{}/attachment", line.number),
                reason,
            );
            return;
        }
        let operation = self.builder.operation(key);
        for (text, number) in texts.into_iter().zip(0..) {
            let mut item = self.builder.message(operation.item(number), role, text);
            if let (Role::System, UnifiedItemBody::Message(message)) = (role, &mut item.body) {
                message.placement = Some(throughline_format::item::Placement::Inline);
            }
            self.builder.item(record, item, &stamp);
        }
    }

    /// Counts each answer once, with the figures of its last line.
    fn usage(&mut self, lines: &[&'a Line<'a>]) {
        let mut last: HashMap<&str, &Line<'_>> = HashMap::new();
        for line in lines.iter().filter(|line| line.kind == Kind::Assistant && !line.is_made_up()) {
            if let Some(id) = line.message_id.as_deref().filter(|_| line.message.raw("usage").is_some()) {
                last.insert(id, line);
            }
        }
        let mut found: Vec<(usize, _)> = Vec::new();
        for line in last.into_values() {
            let Some(usage) = line.message.json("usage") else { continue };
            let record = self.builder.transcript.records.get(line.record);
            let item = record
                .and_then(|record| record.items.last())
                .and_then(|id| self.builder.place_of(id));
            let start = || line.uuid.as_deref().and_then(|uuid| self.starts.get(uuid)).copied();
            if let Some(at) = item.or_else(start) {
                found.push((at, usage_of(&usage)));
            }
        }
        found.sort_by_key(|(at, _)| *at);
        for (at, usage) in found {
            if let Some(item) = self.builder.transcript.items.get(at) {
                let item_id = item.id.clone();
                self.builder
                    .transcript
                    .usage
                    .push(crate::transcript::ResponseUsage { item_id, usage });
            }
        }
    }

    /// Tells of lines that say something and are no part of any conversation that was read.
    fn tell_rest(&mut self, members: &[usize], told: &HashSet<usize>) {
        for line in members.iter().filter(|at| !told.contains(at)).filter_map(|at| self.all.get(*at)) {
            let reason = match line.kind {
                Kind::User | Kind::Assistant => "another branch of the session; kept for the same runtime",
                Kind::Beside if line.fields.text("type").as_deref().is_some_and(is_notable) => {
                    "a record beside the conversation; kept for the same runtime"
                }
                Kind::System | Kind::Attachment | Kind::Link | Kind::Beside => continue,
            };
            self.builder
                .lose(LossSeverity::Info, Feature::ConversationItem, format!("/{}", line.number), reason);
        }
    }
}

/// Records beside the conversation that hold words of it.
fn is_notable(kind: &str) -> bool {
    matches!(
        kind,
        "summary" | "queue-operation" | "last-prompt" | "custom-title" | "ai-title" | "api-request-blob" | "api-request-shape"
    ) || matches!(kind, "user" | "assistant")
}
