//! Reasoning of the dialects: the members that carry its text, and `reasoning_details`.

use super::{decode_request, wire};
use crate::side::SideResource;
use serde_json::Value;
use throughline_format::part::{ReasoningForm, ReasoningPart, ReasoningState};
use throughline_format::resource::Issuer;
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedId};

/// Reasoning of one message or delta.
pub(super) struct Found {
    /// The text; absent when there was none, not even an empty one.
    pub text: Option<String>,
    /// `reasoning_details` as written.
    pub details: Option<Json>,
    /// Members that carried the text.
    pub fields: Vec<&'static str>,
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
        form: ReasoningForm::Full,
    };
    for (name, value) in members {
        let Some(text) = value.as_ref().and_then(|v| v.decode::<String>().ok()) else {
            continue;
        };
        found.fields.push(name);
        match &mut found.text {
            None => found.text = Some(text),
            Some(known) if known.is_empty() => *known = text,
            Some(_) => {}
        }
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

/// Joins the pieces that a stream sends: pieces of one kind and index are one detail.
pub(super) fn merge_details(into: &mut Vec<Value>, pieces: &Value) {
    for piece in pieces.as_array().into_iter().flatten() {
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
pub(super) fn sign(part: &mut UnifiedContentPart, resource: &SideResource, issuer: Issuer) {
    if let PartBody::Reasoning(reasoning) = &mut part.body {
        reasoning.private_state = Some(decode_request::private_state(resource, issuer));
    }
}

/// The text of a thinking part.
pub(super) fn text_of_thinking(part: &wire::ThinkingPart) -> String {
    let text = |p: &wire::Part| if let wire::Part::Text(t) = p { Some(t.text.clone()) } else { None };
    part.thinking.iter().filter_map(text).collect()
}
