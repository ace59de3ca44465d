//! Blocks to items, and back to what they were.

use super::embeds::{self, Piece};
use super::{Actor, Embed, Kind, NAME, view};
use crate::builder::{Builder, Stamp, profile};
use crate::fields::Fields;
use crate::lines;
use crate::native::{Speakers, Step, merge};
use crate::source::{Source, SourceFile};
use crate::transcript::{SessionFacts, Transcript};
use crate::wire_blocks::Content;
use throughline_format::item::{ErrorItem, MessageItem, Placement, ReasoningItem, Role, ToolCallItem, ToolResultItem, Visibility};
use throughline_format::media::{ArtifactSource, InlineEncoding, InlineSource, UnifiedDataSource, UnifiedMediaMetadata, UrlSource};
use throughline_format::part::{MediaPart, ReasoningForm, ReasoningPart, ReasoningState, RefusalPart};
use throughline_format::tool::Execution;
use throughline_format::{
    ErrorCategory, Json, LossSeverity, PartBody, Timestamp, UnifiedAttribution, UnifiedContentPart, UnifiedCounter, UnifiedError,
    UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedToolLifecycle, UnifiedToolType, UnifiedUsage,
};
use throughline_protocols::{Feature, HistoryPiece, raw};

pub(super) fn read(source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
    let found: Vec<Transcript> = source.files.iter().filter_map(session).collect();
    if found.is_empty() {
        let message = "there are no blocks in it: expected a list of objects with actor, kind and content";
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "transcript", message));
    }
    Ok(found)
}

fn session(file: &SourceFile) -> Option<Transcript> {
    let text = std::str::from_utf8(&file.bytes)
        .ok()
        .map(|text| text.trim_start_matches('\u{feff}').trim());
    let listed: Option<Vec<Json>> = text
        .filter(|text| text.starts_with('['))
        .and_then(|text| serde_json::from_str(text).ok());
    let mut facts = SessionFacts {
        id: file.stem().trim_end_matches(".blocks").trim_end_matches(".rows").to_owned(),
        ..SessionFacts::default()
    };
    let all = lines::lines(if listed.is_some() { &[] } else { &file.bytes });
    let objects: Vec<String> = match &listed {
        Some(list) => list.iter().map(|block| lines::on_one_line(block.as_str())).collect(),
        None => all.iter().filter_map(|line| line.text.as_deref().map(str::to_owned)).collect(),
    };
    let objects: Vec<String> = objects.into_iter().map(opened).collect();
    let told = objects.iter().find_map(|text| Fields::parse(text)?.word("session_id"));
    facts.id = told.unwrap_or(facts.id);
    let mut reader = Reader {
        builder: Builder::new(NAME, facts),
        open: None,
    };
    all.iter()
        .filter(|line| line.text.is_none())
        .for_each(|line| reader.builder.damaged(line, file.name()));
    let mut known = 0;
    for (text, number) in objects.iter().zip(1..) {
        let Some(fields) = Fields::parse(text) else { continue };
        if fields.raw("actor").is_some() || fields.raw("role").is_some() {
            known += 1;
            reader.block(text, &fields, number);
        }
    }
    reader.close();
    let mut transcript = reader.builder.finish();
    transcript.session.created_at = transcript.items.first().map(|item| item.created_at);
    transcript.session.updated_at = transcript.items.last().map(|item| item.created_at);
    (known > 0 || listed.is_some_and(|list| list.is_empty())).then_some(transcript)
}

/// A row whose columns of JSON are texts, as a table gives them.
fn opened(text: String) -> String {
    let Some(fields) = Fields::parse(&text) else { return text };
    let columns = ["meta", "embeds"].into_iter().filter_map(|key| {
        let json = Json::from_text(fields.text(key)?).ok().filter(Json::is_object)?;
        Some((format!("/{key}"), json))
    });
    let columns: Vec<_> = columns.collect();
    let Ok(row) = Json::from_text(text.clone()) else { return text };
    columns
        .iter()
        .fold(row, |row, (pointer, json)| raw::put(&row, pointer, json))
        .as_str()
        .to_owned()
}

/// The blocks that a transcript is written as: its own as they were while they say the same, the others from their items.
pub(super) fn written(transcript: &Transcript) -> Vec<Json> {
    let views = view::blocks_of(&transcript.items);
    if transcript.runtime != NAME {
        return views.iter().map(raw::json).collect();
    }
    let speakers = Speakers::of(transcript);
    let pieces: Vec<HistoryPiece> = views
        .iter()
        .enumerate()
        .map(|(message, view)| HistoryPiece {
            message,
            role: None,
            item: view.item_id.clone(),
            body: raw::json(view),
        })
        .collect();
    let steps = merge(transcript, &speakers, &pieces).into_iter();
    let texts = steps.filter_map(|step| match step {
        Step::Record(record) => Json::from_text(record.text.clone()).ok(),
        Step::Piece(piece) => Some(piece.body.clone()),
    });
    texts.collect()
}

/// Blocks of one item, in the making.
struct Open {
    item: UnifiedItem,
    records: Vec<usize>,
    stamp: Stamp,
    attribution: UnifiedAttribution,
    visibility: Visibility,
}

struct Reader {
    builder: Builder,
    open: Option<Open>,
}

impl Reader {
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let id = open.item.id.clone();
        self.builder.item(open.records.first().copied(), open.item, &open.stamp);
        if let Some(item) = self.builder.transcript.items.last_mut().filter(|item| item.id == id) {
            // The attribution of a block is its own, not that of whoever reads it.
            item.base.provenance.attribution = open.attribution;
            item.base.visibility = open.visibility;
        }
        for record in open.records.iter().skip(1) {
            if let Some(record) = self.builder.transcript.records.get_mut(*record) {
                record.items.push(id.clone());
            }
        }
    }

    fn block(&mut self, text: &str, fields: &Fields<'_>, number: usize) {
        let record = self.builder.record("block", text);
        let row = Row::of(fields, number, &self.builder);
        if let Some(open) = self.open.as_mut().filter(|open| open.item.id == row.item_id && row.told_item) {
            open.records.push(record);
            let parts = row.parts();
            open.item.parts_mut().into_iter().for_each(|own| own.extend(parts.clone()));
            return;
        }
        self.close();
        self.usage(&row);
        let Some(item) = self.item(&row) else { return };
        self.open = Some(Open {
            item,
            records: vec![record],
            stamp: Stamp {
                at: row.at,
                ..Stamp::default()
            },
            attribution: row.attribution.clone(),
            visibility: row.visibility,
        });
    }

    /// A status of another writer tells what the answer before it used.
    fn usage(&mut self, row: &Row<'_>) {
        if row.kind != Kind::Status || row.meta.raw("item").is_some() {
            return;
        }
        let Some(usage) = row.meta.object("usage") else { return };
        let number = |names: [&str; 2]| names.iter().find_map(|name| usage.number(name)).map(UnifiedCounter::reported);
        self.builder.usage(UnifiedUsage {
            input_uncached: number(["inputTokens", "input_tokens"]),
            output_total: number(["outputTokens", "output_tokens"]),
            cache_read: number(["cacheReadTokens", "cache_read_input_tokens"]),
            cache_write: number(["cacheWriteTokens", "cache_creation_input_tokens"]),
            ..UnifiedUsage::default()
        });
    }

    fn item(&mut self, row: &Row<'_>) -> Option<UnifiedItem> {
        let id = row.item_id.clone();
        // An item that stands in `meta` says everything itself.
        if let Some(mut whole) = row.meta.json("item").and_then(|json| json.decode::<UnifiedItem>().ok()) {
            whole.base.id = id;
            if matches!(whole.body, UnifiedItemBody::ToolResult(_)) {
                whole.parts_mut().into_iter().for_each(|parts| *parts = row.parts());
            }
            return Some(whole);
        }
        let (role, body) = match (row.kind, row.actor) {
            (Kind::Text, actor) => {
                let role = row.meta.json("role").and_then(|role| role.decode().ok());
                let role = match actor {
                    Actor::User => Role::User,
                    Actor::Assistant => Role::Assistant,
                    Actor::System => role.unwrap_or(Role::System),
                };
                let placement = row.meta.json("placement").and_then(|placement| placement.decode().ok());
                let placement = placement.or((actor == Actor::System).then_some(Placement::Inline));
                (
                    role,
                    UnifiedItemBody::Message(MessageItem {
                        parts: row.parts(),
                        placement,
                    }),
                )
            }
            (Kind::Thinking, _) => {
                // A signature of another writer is private state; the codec of its wire keeps it apart.
                if let Some(signature) = row.meta.word("signature") {
                    let mut content = Content::default();
                    content.thinking(&row.content, Some(&signature));
                    let key = row.key.clone();
                    let made = content.read("assistant", &mut self.builder, &key, "");
                    return made.into_iter().next().map(|mut item| {
                        item.base.id = id;
                        item
                    });
                }
                (Role::Assistant, UnifiedItemBody::Reasoning(ReasoningItem { parts: row.parts() }))
            }
            (Kind::ToolUse, _) => (Role::Assistant, UnifiedItemBody::ToolCall(row.call())),
            (Kind::ToolResult, _) => {
                let call_id = row
                    .meta
                    .word("callId")
                    .or_else(|| row.meta.word("toolUseId"))
                    .unwrap_or_else(|| "unknown".to_owned());
                let is_error = row.meta.raw("isError").map(|_| row.meta.flag("isError"));
                let result = ToolResultItem {
                    call_id,
                    name: row.meta.word("name"),
                    output: row.parts(),
                    is_error,
                    error: None,
                    execution: Execution::Client,
                };
                (Role::Tool, UnifiedItemBody::ToolResult(result))
            }
            (Kind::Error, _) => {
                let told = row.meta.json("error").and_then(|error| error.decode::<UnifiedError>().ok());
                let text: String = row.text().chars().take(1_024).collect();
                let error = told.unwrap_or_else(|| UnifiedError::new(ErrorCategory::Server, "upstream", text));
                let mut item = self.builder.plain(id, None, UnifiedItemBody::Error(ErrorItem { error }));
                item.base.role = None;
                return Some(item);
            }
            (Kind::Status, _) => {
                let reason = "a state of another writer, which no item says; it is kept for the same form";
                self.builder
                    .lose(LossSeverity::Info, Feature::ConversationItem, format!("/{}", row.number), reason);
                return None;
            }
        };
        let mut item = self.builder.plain(id, Some(role), body);
        item.base.provenance.profile = Some(profile(NAME));
        Some(item)
    }
}

/// A block as it was written, by the view or by SNA.
struct Row<'a> {
    number: usize,
    key: String,
    actor: Actor,
    kind: Kind,
    content: String,
    meta: Fields<'a>,
    embeds: Fields<'a>,
    attribution: UnifiedAttribution,
    visibility: Visibility,
    item_id: UnifiedId,
    /// Whether the block names its item.
    told_item: bool,
    part_id: UnifiedId,
    at: Option<Timestamp>,
}

impl<'a> Row<'a> {
    fn of(fields: &Fields<'a>, number: usize, builder: &Builder) -> Self {
        let meta = fields.object("meta").unwrap_or_default();
        let in_row = |key: &str| fields.word(key).or_else(|| meta.word(&format!("throughline:{key}")));
        let key = in_row("id").unwrap_or_else(|| fields.raw("id").map_or_else(|| format!("block-{number}"), str::to_owned));
        let word = |key: &str| fields.text(key).unwrap_or_default();
        let (actor, kind) = actor_and_kind(&word("actor"), &word("kind"), &word("role"));
        let parse = |key: &str| in_row(key).and_then(|id| UnifiedId::parse(&id).ok());
        let told = parse("itemId");
        let item_id = told.clone().unwrap_or_else(|| builder.operation(&key).item(0));
        let attribution = |key: &str, column: &str| fields.word(key).or_else(|| fields.word(column)).or_else(|| meta.word(key));
        let visibility = meta.json("visibility").and_then(|visibility| visibility.decode().ok());
        Self {
            number,
            key,
            actor,
            kind,
            content: word("content"),
            embeds: fields.object("embeds").unwrap_or_default(),
            attribution: UnifiedAttribution {
                provider: attribution("provider", "provider"),
                model_provider: attribution("modelProvider", "model_provider"),
                model: attribution("model", "model"),
            },
            visibility: visibility.unwrap_or(Visibility::Model),
            part_id: parse("partId").unwrap_or_else(|| item_id.part(0)),
            told_item: told.is_some(),
            item_id,
            at: fields.time("createdAt").or_else(|| fields.time("created_at")),
            meta,
        }
    }

    /// The content with its escapes opened.
    fn text(&self) -> String {
        let texts = embeds::split(&self.content).into_iter().map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Reference { name, id } => embeds::reference(&name, &id),
        });
        texts.collect()
    }

    /// The parts that the block is.
    fn parts(&self) -> Vec<UnifiedContentPart> {
        if self.meta.raw("parts") == Some("0") {
            return Vec::new();
        }
        if let Some(mut part) = self.meta.json("part").and_then(|part| part.decode::<UnifiedContentPart>().ok()) {
            self.fill(&mut part);
            return vec![part];
        }
        if self.kind == Kind::Thinking {
            let decode = |key: &str| self.meta.json(key);
            let part = ReasoningPart {
                text: self.text(),
                form: decode("form").and_then(|form| form.decode().ok()).unwrap_or(ReasoningForm::Full),
                state: decode("state")
                    .and_then(|state| state.decode().ok())
                    .unwrap_or(ReasoningState::Disclosed),
                private_state: decode("privateState").and_then(|private| private.decode().ok()),
            };
            return vec![UnifiedContentPart::new(self.part_id.clone(), PartBody::Reasoning(part))];
        }
        if self.meta.raw("refusal").is_some() {
            let part = RefusalPart {
                text: self.text(),
                category: self.meta.text("refusal"),
            };
            return vec![UnifiedContentPart::new(self.part_id.clone(), PartBody::Refusal(part))];
        }
        let pieces = embeds::split(&self.content);
        let alone = pieces.len() == 1;
        let parts = pieces.into_iter().zip(0..).map(|(piece, number)| {
            let id = if alone { self.part_id.clone() } else { self.item_id.part(number) };
            match piece {
                Piece::Text(text) => UnifiedContentPart::text(id, text),
                Piece::Reference { name, id: embed } => match self.embeds.json(&embed) {
                    Some(json) => medium(id, &name, &json),
                    // A reference to nothing is what it looks like.
                    None => UnifiedContentPart::text(id, embeds::reference(&name, &embed)),
                },
            }
        });
        parts.collect()
    }

    /// Puts the bytes of an embed back into the part that was written without them.
    fn fill(&self, part: &mut UnifiedContentPart) {
        let embed = self
            .embeds
            .json(part.base.part_id.as_str())
            .and_then(|json| json.decode::<Embed>().ok());
        let data = embed.and_then(|embed| embed.data);
        if let PartBody::Image(m)
        | PartBody::Audio(m)
        | PartBody::Video(m)
        | PartBody::Document(m)
        | PartBody::File(m)
        | PartBody::Binary(m) = &mut part.body
            && let (UnifiedDataSource::Inline(inline), Some(data)) = (&mut m.source, data)
        {
            inline.data = match inline.encoding {
                InlineEncoding::Utf8 => throughline_format::media::decode_base64(&data)
                    .and_then(|bytes| String::from_utf8(bytes).ok())
                    .unwrap_or_default(),
                InlineEncoding::Bytes | InlineEncoding::Base64 => data,
            };
        }
    }

    fn call(&self) -> ToolCallItem {
        let input = self.meta.json("input");
        let arguments = self.meta.text("rawArguments");
        let raw_arguments = arguments
            .or_else(|| input.as_ref().map(|input| input.as_str().to_owned()))
            .unwrap_or_default();
        let tool_type = self
            .meta
            .json("kind")
            .and_then(|kind| kind.decode().ok())
            .unwrap_or(UnifiedToolType::Function);
        ToolCallItem {
            call_id: self
                .meta
                .word("callId")
                .or_else(|| self.meta.word("id"))
                .unwrap_or_else(|| self.key.clone()),
            name: self.content.clone(),
            // The text of a custom tool is no JSON, whatever it looks like.
            input: (tool_type != UnifiedToolType::Custom)
                .then(|| Json::from_text(raw_arguments.clone()).ok())
                .flatten(),
            tool_type,
            namespace: None,
            server_label: None,
            raw_arguments,
            lifecycle: UnifiedToolLifecycle::ArgumentsReady,
            caller: None,
            execution: Execution::Client,
            provider_executed: false,
            private_linkage: None,
        }
    }
}

/// Actor and kind, also of the older rows that had only a role.
fn actor_and_kind(actor: &str, kind: &str, role: &str) -> (Actor, Kind) {
    let old = if actor.is_empty() { role } else { "" };
    let actor = match (actor, old) {
        ("user", _) | (_, "user") => Actor::User,
        ("assistant", _) | (_, "assistant" | "thinking" | "tool" | "tool_use") => Actor::Assistant,
        _ => Actor::System,
    };
    let kind = match if kind.is_empty() { old } else { kind } {
        "thinking" => Kind::Thinking,
        "tool_use" | "tool" => Kind::ToolUse,
        "tool_result" => Kind::ToolResult,
        "status" => Kind::Status,
        "error" => Kind::Error,
        _ => Kind::Text,
    };
    (actor, kind)
}

/// A medium of an embed: of the view, or of SNA (`mime_type`, `path`).
fn medium(id: UnifiedId, name: &str, embed: &Json) -> UnifiedContentPart {
    let fields = Fields::parse(embed.as_str()).unwrap_or_default();
    let media_type = fields.word("mimeType").or_else(|| fields.word("mime_type")).unwrap_or_default();
    let artifact = fields.word("artifactId").and_then(|id| UnifiedId::parse(&id).ok());
    let sha256 = fields.text("sha256").and_then(|text| throughline_format::Sha256::from_hex(&text));
    let source = if let Some(data) = fields.text("data") {
        UnifiedDataSource::Inline(InlineSource {
            media_type: media_type.clone(),
            data,
            encoding: InlineEncoding::Base64,
        })
    } else if let Some((artifact_id, sha256)) = artifact.zip(sha256) {
        UnifiedDataSource::Artifact(ArtifactSource { artifact_id, sha256 })
    } else {
        // A path of the writer's own folder.
        let url = fields.word("url").or_else(|| fields.word("path")).unwrap_or_default();
        UnifiedDataSource::Url(UrlSource { url, headers_ref: None })
    };
    let media = UnifiedMediaMetadata {
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        media_type: Some(media_type.clone()).filter(|media_type| !media_type.is_empty()),
        ..UnifiedMediaMetadata::default()
    };
    let part = MediaPart {
        source,
        media: (media != UnifiedMediaMetadata::default()).then_some(media),
    };
    let body = match media_type.split('/').next().unwrap_or_default() {
        "image" => PartBody::Image(part),
        "audio" => PartBody::Audio(part),
        "video" => PartBody::Video(part),
        _ if media_type == "application/pdf" => PartBody::Document(part),
        _ => PartBody::File(part),
    };
    UnifiedContentPart::new(id, body)
}
