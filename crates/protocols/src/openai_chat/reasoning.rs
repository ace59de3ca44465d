//! Reasoning of the dialects: the members that carry its text, and `reasoning_details`.

use super::{decode_request, wire};
use crate::side::SideResource;
use crate::wire::TextOr;
use serde_json::{Value, json};
use throughline_format::part::{ReasoningForm, ReasoningPart, ReasoningState};
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedId};

/// Reasoning of one message or delta.
pub(super) struct Found {
    /// The text; absent when there was none, not even an empty one.
    pub text: Option<String>,
    /// `reasoning_details` as written.
    pub details: Option<Json>,
    /// Members that carried the text.
    pub fields: Vec<&'static str>,
    /// Members that carried another text: the record has room for one.
    pub others: Vec<(&'static str, Json)>,
    /// How much of the reasoning it is.
    pub form: ReasoningForm,
}

/// What a message or delta says. Equal text in two members counts once.
pub(super) fn of_message(message: &wire::Message) -> Found {
    let members = [
        ("reasoning_content", &message.reasoning_content),
        ("reasoning", &message.reasoning),
        ("reasoning_text", &message.reasoning_text),
    ];
    let mut found = Found {
        text: None,
        details: None,
        fields: Vec::new(),
        others: Vec::new(),
        form: ReasoningForm::Full,
    };
    for (name, value) in members {
        let Some(text) = value.as_ref().and_then(|v| v.decode::<String>().ok()) else {
            continue;
        };
        match (&mut found.text, value) {
            (Some(known), Some(value)) if !known.is_empty() && !text.is_empty() && *known != text => {
                found.others.push((name, value.clone()));
                continue;
            }
            (Some(known), _) if known.is_empty() => *known = text,
            (Some(_), _) => {}
            (None, _) => found.text = Some(text),
        }
        found.fields.push(name);
    }
    if let Some(details) = message
        .reasoning_details
        .as_ref()
        .filter(|d| d.as_str().starts_with('[') && d.parse().as_array().is_some_and(|l| !l.is_empty()))
    {
        let (text, is_summary) = text_of_details(&details.parse());
        if is_summary {
            found.form = ReasoningForm::Summary;
        }
        if found.text.is_none() && !text.is_empty() {
            found.text = Some(text);
        }
        found.details = Some(details.clone());
    }
    found
}

/// The text of `reasoning_details`, and whether it consists of summaries.
fn text_of_details(details: &Value) -> (String, bool) {
    let (mut text, mut is_summary) = (String::new(), false);
    for detail in details.as_array().into_iter().flatten() {
        if let Some(piece) = detail.get("text").and_then(Value::as_str) {
            text.push_str(piece);
        } else if let Some(piece) = detail.get("summary").and_then(Value::as_str) {
            is_summary = true;
            text.push_str(piece);
        }
    }
    (text, is_summary)
}

/// A piece of details that says nothing but that the text beside it is a summary.
pub(super) fn summary_begins() -> Value {
    json!({"type": "reasoning.summary", "summary": ""})
}

/// Joins the pieces that a stream sends: pieces of one kind and index are one detail.
pub(super) fn merge_details(into: &mut Vec<Value>, pieces: &Value) {
    let pieces = pieces.as_array().into_iter().flatten();
    for piece in pieces.filter(|piece| **piece != summary_begins()) {
        let same = |known: &Value| {
            known.get("type") == piece.get("type") && known.get("index") == piece.get("index") && piece.get("index").is_some()
        };
        let (Some(Value::Object(known)), Value::Object(more)) = (into.last_mut().filter(|k| same(k)), piece) else {
            into.push(piece.clone());
            continue;
        };
        for (key, value) in more {
            match (known.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more)) if matches!(key.as_str(), "text" | "summary") => text.push_str(more),
                (_, Value::Null) => {}
                _ => {
                    known.insert(key.clone(), value.clone());
                }
            }
        }
    }
}

/// A reasoning part; without text the provider left it out.
pub(super) fn part(part_id: UnifiedId, text: String, form: ReasoningForm) -> UnifiedContentPart {
    let state = if text.is_empty() {
        ReasoningState::Omitted
    } else {
        ReasoningState::Disclosed
    };
    UnifiedContentPart::new(
        part_id,
        PartBody::Reasoning(ReasoningPart {
            text,
            form,
            state,
            private_state: None,
        }),
    )
}

/// Binds private state to a reasoning part.
pub(super) fn sign(part: &mut UnifiedContentPart, resource: &SideResource) {
    if let PartBody::Reasoning(reasoning) = &mut part.body {
        reasoning.private_state = Some(decode_request::private_state(resource));
    }
}

/// The text of a thinking part.
pub(super) fn text_of_thinking(part: &wire::ThinkingPart) -> String {
    let text = |p: &wire::Part| if let wire::Part::Text(t) = p { Some(t.text.clone()) } else { None };
    part.thinking.iter().filter_map(text).collect()
}

/// Names the spelling of reasoning as `<think>` tags at the begin of the content.
pub(super) const TAGS: &str = "tags";
const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of content that begins with its reasoning in tags.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Reasoning.
    Thought(String),
    /// Text.
    Text(String),
}

/// Tells reasoning in tags from the text after it, wherever a stream cuts them.
///
/// Only content that begins with the tag is taken so; what follows the closing tag is text as it stands.
#[derive(Debug, Default)]
pub(super) struct TagSplitter {
    /// What may be the begin of a tag.
    held: String,
    state: TagState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TagState {
    #[default]
    Before,
    Inside,
    After,
}

impl TagSplitter {
    /// Takes the next piece of content.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let mut out = Vec::new();
        loop {
            match self.state {
                TagState::Before => {
                    if let Some(rest) = self.held.strip_prefix(OPEN) {
                        self.held = rest.to_owned();
                        self.state = TagState::Inside;
                    } else if OPEN.starts_with(&self.held) {
                        return out;
                    } else {
                        self.state = TagState::After;
                    }
                }
                TagState::Inside => {
                    if let Some((thought, rest)) = self.held.split_once(CLOSE) {
                        out.push(Piece::Thought(thought.to_owned()));
                        self.held = rest.to_owned();
                        self.state = TagState::After;
                        continue;
                    }
                    // The longest end of it that the closing tag may begin with stays behind.
                    let kept = (0..CLOSE.len())
                        .rev()
                        .find(|n| CLOSE.get(..*n).is_some_and(|begin| self.held.ends_with(begin)));
                    let rest = self.held.split_off(self.held.len() - kept.unwrap_or(0));
                    out.push(Piece::Thought(std::mem::replace(&mut self.held, rest)));
                    break;
                }
                TagState::After => {
                    out.push(Piece::Text(std::mem::take(&mut self.held)));
                    break;
                }
            }
        }
        out.retain(|piece| !matches!(piece, Piece::Thought(t) | Piece::Text(t) if t.is_empty()));
        out
    }

    /// What is left when the content ends.
    pub(super) fn finish(&mut self) -> Option<Piece> {
        let rest = std::mem::take(&mut self.held);
        let is_thought = self.state == TagState::Inside;
        let piece = if is_thought { Piece::Thought } else { Piece::Text };
        (!rest.is_empty()).then(|| piece(rest))
    }
}

/// Reasoning in tags.
pub(super) fn tagged(thought: &str) -> String {
    format!("{OPEN}{thought}{CLOSE}")
}

/// Content that begins with its reasoning in tags.
pub(super) fn with_tags(thought: &str, content: Option<TextOr<wire::Part>>) -> TextOr<wire::Part> {
    let tagged = tagged(thought);
    match content {
        None => TextOr::Text(tagged),
        Some(TextOr::Text(text)) => TextOr::Text(format!("{tagged}{text}")),
        Some(TextOr::List(mut list)) => {
            list.insert(0, super::encode_parts::text(tagged));
            TextOr::List(list)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece, TagSplitter};

    /// Thought and text of content that arrives in pieces of this size.
    fn split(text: &str, size: usize) -> (String, String) {
        let (mut splitter, mut thought, mut said) = (TagSplitter::default(), String::new(), String::new());
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(size).map(|c| c.iter().collect::<String>());
        let mut all: Vec<Piece> = Vec::new();
        for piece in pieces {
            all.extend(splitter.push(&piece));
        }
        all.extend(splitter.finish());
        for piece in all {
            match piece {
                Piece::Thought(t) => thought.push_str(&t),
                Piece::Text(t) => said.push_str(&t),
            }
        }
        (thought, said)
    }

    #[test]
    fn tags_are_found_wherever_they_are_cut() {
        let cases = [
            ("<think>a</think>b", ("a", "b")),
            ("<think>a < b </th</think>\n\nb</think>", ("a < b </th", "\n\nb</think>")),
            ("no <think>a</think>", ("", "no <think>a</think>")),
            ("<think>open", ("open", "")),
            ("<thi", ("", "<thi")),
            ("<think></think>é", ("", "é")),
        ];
        for (text, (thought, said)) in cases {
            for size in 1..=text.len() {
                assert_eq!(split(text, size), (thought.to_owned(), said.to_owned()), "{text} in {size}");
            }
        }
    }
}
