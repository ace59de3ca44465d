//! Atoms: the parts of a history that every client sends back the same way.
//!
//! * `["U", text]` for each text of a user message, CRLF to LF, outer white space off, empty ones dropped;
//! * `["M", role, sha256]` for each medium: of its bytes, or of the text of its address;
//! * `["T", text]` for all text and refusals of one assistant segment together, all white space removed, a leading
//!   `<think>…</think>` removed, none when empty;
//! * `["C", name, arguments]` for each call that the client executes, arguments parsed, whole numbers as integers; for actions on
//!   a computer, the name is that of the environment (`computer` when it has none), and the arguments are the actions.
//!
//! A segment of the assistant ends at a user message or a tool result; its T stands before its C's. Borders of messages and
//! parts do not count. No atom: system, developer, reasoning, tool results, hosted calls, engine items.

use throughline_format::item::{Role, UnifiedItemBody};
use throughline_format::json::Json;
use throughline_format::media::UnifiedDataSource;
use throughline_format::part::MediaPart;
use throughline_format::tool::Execution;
use throughline_format::{PartBody, Sha256, UnifiedItem, canonical};

/// What an atom stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomKind {
    /// Text of a user.
    User,
    /// A medium.
    Media,
    /// Text of an assistant segment.
    Text,
    /// A call that the client executes.
    Call,
}

/// One atom and where it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atom {
    /// What it stands for.
    pub kind: AtomKind,
    /// Its canonical JSON.
    pub canonical: String,
    /// Index of the last item that contributes to it.
    pub item: usize,
}

impl Atom {
    /// Whether it is part of an answer.
    pub const fn is_answer(&self) -> bool {
        matches!(self.kind, AtomKind::Text | AtomKind::Call)
    }

    /// SHA-256 of the canonical JSON.
    pub fn hash(&self) -> Sha256 {
        Sha256::of(self.canonical.as_bytes())
    }
}

/// Most atoms that a request may have (lineage.md, Security).
pub const MAX_ATOMS: usize = 20_000;

/// The atoms of a history.
pub fn atoms(items: &[UnifiedItem]) -> Vec<Atom> {
    let mut list = Builder::default();
    for (index, item) in items.iter().enumerate() {
        list.item(index, item);
    }
    list.end_segment();
    list.atoms
}

#[derive(Default)]
struct Builder {
    atoms: Vec<Atom>,
    text: String,
    text_item: usize,
    pending: Vec<Atom>,
}

impl Builder {
    fn item(&mut self, index: usize, item: &UnifiedItem) {
        match &item.body {
            UnifiedItemBody::Message(message) => match item.role {
                Some(Role::User) => {
                    self.end_segment();
                    for part in &message.parts {
                        match &part.body {
                            PartBody::Text(text) => self.user(index, &text.text),
                            PartBody::Json(json) => self.user(index, json.value.as_str()),
                            body => self.media(index, "user", body),
                        }
                    }
                }
                Some(Role::Assistant) => {
                    for part in &message.parts {
                        match &part.body {
                            PartBody::Text(text) => self.assistant(index, &text.text),
                            PartBody::Refusal(refusal) => self.assistant(index, &refusal.text),
                            body => {
                                if let Some(atom) = media_atom(index, "assistant", body) {
                                    self.pending.push(atom);
                                }
                            }
                        }
                    }
                }
                _ => {}
            },
            UnifiedItemBody::ToolCall(call) if call.execution == Execution::Client => {
                let arguments = arguments(call.input.as_ref(), &call.raw_arguments);
                let canonical = format!("[\"C\",{},{arguments}]", quote(&call.name));
                self.pending.push(Atom {
                    kind: AtomKind::Call,
                    canonical,
                    item: index,
                });
            }
            UnifiedItemBody::ComputerAction(call) if call.execution == Execution::Client => {
                let actions: Vec<String> = call.actions.iter().map(|action| arguments(Some(action), "")).collect();
                let name = quote(call.environment.as_deref().unwrap_or("computer"));
                self.pending.push(Atom {
                    kind: AtomKind::Call,
                    canonical: format!("[\"C\",{name},[{}]]", actions.join(",")),
                    item: index,
                });
            }
            UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ComputerActionResult(_) => self.end_segment(),
            _ => {}
        }
    }

    fn user(&mut self, item: usize, text: &str) {
        let unified = text.replace("\r\n", "\n");
        let trimmed = unified.trim();
        if !trimmed.is_empty() {
            self.atoms.push(Atom {
                kind: AtomKind::User,
                canonical: format!("[\"U\",{}]", quote(trimmed)),
                item,
            });
        }
    }

    fn media(&mut self, item: usize, role: &str, body: &PartBody) {
        self.atoms.extend(media_atom(item, role, body));
    }

    fn assistant(&mut self, item: usize, text: &str) {
        if !text.is_empty() {
            self.text.push_str(text);
            self.text_item = item;
        }
    }

    fn end_segment(&mut self) {
        let text = std::mem::take(&mut self.text);
        let bare: String = without_think(&text).chars().filter(|c| !c.is_whitespace()).collect();
        if !bare.is_empty() {
            self.atoms.push(Atom {
                kind: AtomKind::Text,
                canonical: format!("[\"T\",{}]", quote(&bare)),
                item: self.text_item,
            });
        }
        self.atoms.append(&mut self.pending);
    }
}

fn media_atom(item: usize, role: &str, body: &PartBody) -> Option<Atom> {
    let (PartBody::Image(media)
    | PartBody::Audio(media)
    | PartBody::Video(media)
    | PartBody::Document(media)
    | PartBody::File(media)
    | PartBody::Binary(media)) = body
    else {
        return None;
    };
    let canonical = format!("[\"M\",\"{role}\",\"{}\"]", media_hash(media));
    Some(Atom {
        kind: AtomKind::Media,
        canonical,
        item,
    })
}

/// What makes a part that is no text the same part in another copy: the digest of a medium, the text of a JSON value.
pub(super) fn part_identity(body: &PartBody) -> String {
    match (body, media_atom(0, "any", body)) {
        (_, Some(atom)) => atom.canonical,
        (PartBody::Json(json), None) => json.value.parse().to_string(),
        (other, None) => other.kind().to_owned(),
    }
}

fn media_hash(media: &MediaPart) -> Sha256 {
    match &media.source {
        UnifiedDataSource::Inline(inline) => Sha256::of(&inline.bytes().unwrap_or_else(|| inline.data.clone().into_bytes())),
        UnifiedDataSource::Url(url) => Sha256::of(url.url.as_bytes()),
        UnifiedDataSource::Artifact(artifact) => artifact.sha256,
        UnifiedDataSource::ProviderResource(held) => Sha256::of(held.resource.resource_id.as_str().as_bytes()),
    }
}

/// The text without one leading `<think>…</think>`.
fn without_think(text: &str) -> &str {
    let start = text.trim_start();
    match start.strip_prefix("<think>").and_then(|rest| rest.split_once("</think>")) {
        Some((_, after)) => after,
        None => text,
    }
}

/// Arguments in canonical JSON; text that is no JSON counts as a string, no text as an empty object.
fn arguments(input: Option<&Json>, raw: &str) -> String {
    let value = match input {
        Some(json) => json.parse(),
        None if raw.trim().is_empty() => serde_json::Value::Object(serde_json::Map::new()),
        None => serde_json::from_str(raw).unwrap_or_else(|_| serde_json::Value::String(raw.to_owned())),
    };
    let plain = with_integers(value);
    // A number beyond 2^53 has no canonical form; its text then stands for the arguments.
    canonical::to_bytes(&plain)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| quote(&plain.to_string()))
}

/// Whole numbers as integers: one client writes `1`, another `1.0`.
fn with_integers(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => match number.as_f64() {
            #[allow(clippy::cast_possible_truncation)] // whole and within ±2^53
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(list) => Value::Array(list.into_iter().map(with_integers).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(k, v)| (k, with_integers(v))).collect()),
        other => other,
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}
