//! A chat to a transcript.

use super::NAME;
use super::log::Chat;
use super::write::SPOKEN;
use crate::builder::{Builder, Stamp};
use crate::fields::Fields;
use crate::ids;
use crate::source::{Source, SourceFile};
use crate::transcript::{SessionFacts, Transcript};
use crate::wire_blocks::Content;
use std::collections::HashSet;
use throughline_format::item::{ErrorItem, Role, Visibility};
use throughline_format::{ErrorCategory, Json, LossSeverity, UnifiedCounter, UnifiedError, UnifiedItemBody, UnifiedUsage};
use throughline_protocols::Feature;

/// Vendor of the models that this runtime speaks with.
const VENDOR: &str = "google";
/// How texts begin that the runtime puts in as the user's.
const INJECTED: &[&str] = &["<session_context>", "<hook_context>"];
/// Longest message of an error that is kept.
const MAX_ERROR: usize = 1_024;

/// Whether the runtime put this in as the user's.
fn is_injected(text: &str) -> bool {
    INJECTED.iter().any(|head| text.trim_start().starts_with(head))
}

/// Whether this is a command to the program.
fn is_command(text: &str) -> bool {
    text.trim_start().starts_with(['/', '?'])
}

/// Whether the runtime leaves a record of the user with this text out when it goes on.
pub(super) fn is_left_out(text: &str) -> bool {
    text.trim().is_empty() || is_command(text) || is_injected(text)
}

pub(super) fn read(source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
    let found: Vec<Transcript> = source.files.iter().filter_map(chat).collect();
    if found.is_empty() {
        let message = "there is no chat of Gemini CLI in it: neither a head nor a message";
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "transcript", message));
    }
    Ok(found)
}

fn chat(file: &SourceFile) -> Option<Transcript> {
    let mut builder = Builder::new(NAME, SessionFacts::default());
    let chat = Chat::read(file, &mut builder);
    if chat.head.is_empty() && chat.messages.is_empty() {
        return None;
    }
    let head_json = chat.head_json();
    let head = Fields::parse(head_json.as_str()).unwrap_or_default();
    builder.transcript.session = SessionFacts {
        id: head.word("sessionId").unwrap_or_else(|| file.stem().to_owned()),
        title: head.word("summary"),
        created_at: head.time("startTime"),
        updated_at: head.time("lastUpdated"),
        ..SessionFacts::default()
    };
    if !chat.head.is_empty() {
        builder.record("head", head_json.as_str());
    }
    if chat.gone > 0 {
        let reason = "messages that were replaced or taken back; the conversation is what is left";
        builder.lose(LossSeverity::Info, Feature::ConversationItem, "", reason);
    }
    // What the user says belongs to the model that answers it.
    let opened: Vec<Fields<'_>> = chat
        .messages
        .iter()
        .map(|m| Fields::parse(m.as_str()).unwrap_or_default())
        .collect();
    let mut models = vec![None; opened.len()];
    let mut model = None;
    for (at, message) in opened.iter().enumerate().rev() {
        model = message.word("model").or(model);
        models.get_mut(at).into_iter().for_each(|place| place.clone_from(&model));
    }
    let mut reader = Reader {
        builder,
        answered: HashSet::new(),
    };
    for (((json, fields), model), number) in chat.messages.iter().zip(&opened).zip(models).zip(1..) {
        reader.message(json, fields, model, number);
    }
    Some(reader.builder.finish())
}

struct Reader {
    builder: Builder,
    /// Calls that have their result.
    answered: HashSet<String>,
}

impl Reader {
    fn message(&mut self, json: &Json, fields: &Fields<'_>, model: Option<String>, number: usize) {
        let record = self.builder.record("message", json.as_str());
        let key = fields.word("id").unwrap_or_else(|| format!("message-{number}"));
        let stamp = Stamp {
            at: fields.time("timestamp"),
            vendor: model.is_some().then(|| VENDOR.to_owned()),
            model,
            injected: false,
        };
        let place = format!("/{number}");
        match fields.text("type").as_deref() {
            Some("user") => self.user(fields, record, &key, stamp, &place),
            Some("gemini") => self.answer(fields, record, &key, &stamp, &place),
            Some("error") => {
                let text: String = fields.text("content").unwrap_or_default().chars().take(MAX_ERROR).collect();
                let error = UnifiedError::new(ErrorCategory::Server, "upstream", text);
                let id = self.builder.operation(&key).item(0);
                let item = self.builder.plain(id, None, UnifiedItemBody::Error(ErrorItem { error }));
                self.builder.item(Some(record), item, &stamp);
            }
            // Words of the program to the user.
            Some("info" | "warning") => {
                let id = self.builder.operation(&key).item(0);
                let mut item = self.builder.message(id, Role::System, fields.text("content").unwrap_or_default());
                item.base.visibility = Visibility::Client;
                self.builder.item(Some(record), item, &stamp);
            }
            _ => {
                let reason = "a record of a kind that is not known; it is kept for the same runtime";
                self.builder.lose(LossSeverity::Info, Feature::ConversationItem, place, reason);
            }
        }
    }

    fn user(&mut self, fields: &Fields<'_>, record: usize, key: &str, mut stamp: Stamp, place: &str) {
        let (mut content, mut results) = (Content::default(), Content::default());
        let first = self.parts(fields, key, &mut content, &mut results, place);
        stamp.injected = is_injected(&first);
        for (content, key) in [(results, format!("{key}#results")), (content, key.to_owned())] {
            if content.is_empty() {
                continue;
            }
            let mut items = content.read("user", &mut self.builder, &key, place);
            if is_command(&first) {
                for item in &mut items {
                    item.base.visibility = Visibility::Client;
                }
            }
            self.builder.items(Some(record), items, &stamp);
        }
    }

    fn answer(&mut self, fields: &Fields<'_>, record: usize, key: &str, stamp: &Stamp, place: &str) {
        let (mut said, mut results) = (Content::default(), Content::default());
        for thought in fields.objects("thoughts") {
            let (subject, description) = (thought.word("subject"), thought.word("description"));
            let subject = subject.map(|subject| format!("**{subject}**"));
            let words: Vec<String> = [subject, description].into_iter().flatten().collect();
            said.thinking(&words.join("\n"), None);
        }
        self.parts(fields, key, &mut said, &mut results, place);
        let content = fields.objects("content");
        let spoken: Vec<String> = content.iter().filter_map(|part| part.object("functionCall")?.word("id")).collect();
        for (call, number) in fields.objects("toolCalls").iter().zip(0..) {
            let id = call
                .word("id")
                .unwrap_or_else(|| format!("call_{}", ids::uuid(&[key, &number.to_string()]).replace('-', "")));
            // Newer versions repeat the calls in the content, in their place among the texts.
            if !spoken.contains(&id) {
                self.answered.remove(&id);
                said.call(&id, &call.text("name").unwrap_or_default(), call.json("args"));
            }
            let failed = matches!(call.text("status").as_deref(), Some("error" | "cancelled"));
            if let Some((output, is_error)) = output(call, &id) {
                self.answered.insert(id.clone());
                results.result(&id, output, is_error || failed);
            }
        }
        for (content, role, key) in [(said, "assistant", key.to_owned()), (results, "user", format!("{key}#results"))] {
            if !content.is_empty() {
                let items = content.read(role, &mut self.builder, &key, place);
                self.builder.items(Some(record), items, stamp);
            }
        }
        self.usage(fields);
    }

    /// Adds the parts of a content; gives its first text.
    fn parts(&mut self, fields: &Fields<'_>, key: &str, said: &mut Content, results: &mut Content, place: &str) -> String {
        if let Some(text) = fields.text("content") {
            if !text.is_empty() {
                said.text(&text);
            }
            return text;
        }
        let (mut first, mut repeated) = (None, false);
        let single: Vec<Fields<'_>> = fields.object("content").into_iter().collect();
        let list = fields.objects("content");
        for (part, number) in list.iter().chain(&single).zip(0..) {
            let blob = part.object("inlineData");
            let file = part.object("fileData");
            // Results stand in the records of the calls and in ones of the user, media behind them, and once more each time that the
            // runtime goes on with the chat.
            if let Some(response) = part.object("functionResponse") {
                repeated = response.word("id").is_some_and(|id| !self.answered.insert(id));
            }
            repeated &= part.text("text").is_none();
            if repeated {
                continue;
            }
            if let Some(text) = part.text("text") {
                if number == 0 && text == SPOKEN {
                    // Words of an exporter, which make the runtime send what follows.
                    first = Some(text);
                    continue;
                }
                first.get_or_insert_with(|| text.clone());
                if part.flag("thought") {
                    said.thinking(&text, None);
                } else {
                    said.text(&text);
                }
            } else if let Some(blob) = blob {
                let media_type = blob.text("mimeType").unwrap_or_default();
                let url = format!("data:{media_type};base64,{}", blob.text("data").unwrap_or_default());
                said.medium(&media_type, &url, blob.word("displayName").as_deref());
            } else if let Some(file) = file {
                said.medium(
                    &file.text("mimeType").unwrap_or_default(),
                    &file.text("fileUri").unwrap_or_default(),
                    None,
                );
            } else if let Some(call) = part.object("functionCall") {
                let id = call
                    .word("id")
                    .unwrap_or_else(|| format!("call_{}", ids::uuid(&[key, &format!("part-{number}")]).replace('-', "")));
                self.answered.remove(&id);
                said.call(&id, &call.text("name").unwrap_or_default(), call.json("args"));
            } else if let Some(response) = part.object("functionResponse") {
                let (output, is_error) = response_content(&response);
                results.result(&response.word("id").unwrap_or_else(|| "unknown".to_owned()), output, is_error);
            } else {
                let reason = "a part of a kind that is not known; it is kept for the same runtime";
                self.builder.lose(
                    LossSeverity::Info,
                    Feature::ConversationItem,
                    format!("{place}/content/{number}"),
                    reason,
                );
            }
        }
        first.unwrap_or_default()
    }

    fn usage(&mut self, fields: &Fields<'_>) {
        let Some(tokens) = fields.object("tokens") else { return };
        let reported = |key: &str| tokens.number(key).map(UnifiedCounter::reported);
        let visible = tokens.number("output");
        let thoughts = tokens.number("thoughts");
        self.builder.usage(UnifiedUsage {
            input_total: reported("input"),
            cache_read: reported("cached"),
            output_total: visible
                .zip(thoughts)
                .map(|(visible, thoughts)| UnifiedCounter::derived(visible + thoughts)),
            reasoning: reported("thoughts"),
            tool_prompt: reported("tool"),
            total: reported("total"),
            ..UnifiedUsage::default()
        });
    }
}

/// The result of a call, and whether it says of itself that it failed.
fn output(call: &Fields<'_>, id: &str) -> Option<(Content, bool)> {
    let raw = call.raw("result")?;
    if let Ok(text) = serde_json::from_str::<String>(raw) {
        let mut content = Content::default();
        content.text(&text);
        return Some((content, false));
    }
    let (mut content, mut is_error) = (Content::default(), false);
    let parts = call.objects("result");
    // A chat that was gone on with has the results of all calls of a turn in each of them; what follows a result belongs to it.
    let names_own = parts.iter().any(|part| response_id(part).as_deref() == Some(id));
    let mut is_own = true;
    for part in parts {
        if let Some(response) = part.object("functionResponse") {
            is_own = !names_own || response.word("id").as_deref() == Some(id);
            if is_own {
                let (own, failed) = response_content(&response);
                is_error |= failed;
                content.extend(own);
            }
        } else if let Some(blob) = part.object("inlineData").filter(|_| is_own) {
            let media_type = blob.text("mimeType").unwrap_or_default();
            let url = format!("data:{media_type};base64,{}", blob.text("data").unwrap_or_default());
            content.medium(&media_type, &url, blob.word("displayName").as_deref());
        } else if let Some(text) = part.text("text").filter(|_| is_own) {
            content.text(&text);
        }
    }
    Some((content, is_error))
}

fn response_id(part: &Fields<'_>) -> Option<String> {
    part.object("functionResponse")?.word("id")
}

/// The words of a function response: of its one member `output` or `error`, else the whole object.
fn response_content(response: &Fields<'_>) -> (Content, bool) {
    let mut content = Content::default();
    let object = response.object("response").unwrap_or_default();
    let mut members = object.members();
    let only = members.next().filter(|_| object.members().count() == 1);
    let mut is_error = false;
    match only {
        Some((key @ ("output" | "error"), _)) => {
            is_error = key == "error";
            content.text(&object.text(key).unwrap_or_else(|| object.raw(key).unwrap_or_default().to_owned()));
        }
        _ => content.text(response.raw("response").unwrap_or_default()),
    }
    for part in response.objects("parts") {
        if let Some(blob) = part.object("inlineData") {
            let media_type = blob.text("mimeType").unwrap_or_default();
            let url = format!("data:{media_type};base64,{}", blob.text("data").unwrap_or_default());
            content.medium(&media_type, &url, None);
        }
    }
    (content, is_error)
}
