//! A block of an answer on its way to the wire: whole, or growing in a stream.

use super::encode_block::{text, typed};
use crate::raw::{self};
use crate::raw::{json, object, put_all};
use crate::synthetic::SyntheticSealer;
use throughline_format::Json;
use throughline_format::resource::UnmappedEntry;

/// A block of an answer, whole or growing.
#[derive(Clone, Debug)]
pub(super) struct OutBlock {
    pub(super) kind: OutKind,
    /// Fields to put back into the block.
    pub(super) entries: Vec<UnmappedEntry>,
    /// Whether an empty block is dropped: those of other protocols mean nothing here.
    pub(super) drop_empty: bool,
}

/// What a block of an answer holds.
#[derive(Clone, Debug)]
pub(super) enum OutKind {
    /// Text with its citations.
    Text { text: String, citations: Vec<Json> },
    /// Thinking; the signature may come last.
    Thinking { text: String, signature: Option<String> },
    /// A call without its input, and the text of that.
    Call { head: Json, raw: String },
    /// A block as it is.
    Raw(Json),
}

impl OutBlock {
    /// Whether the block says nothing, so that it is left out.
    pub(super) fn is_void(&self) -> bool {
        self.may_be_void()
            && match &self.kind {
                OutKind::Text { text, citations } => text.is_empty() && citations.is_empty(),
                OutKind::Thinking { text, signature } => text.is_empty() && signature.is_none(),
                _ => false,
            }
    }

    /// Whether the block may turn out to say nothing.
    pub(super) fn may_be_void(&self) -> bool {
        matches!(&self.kind, OutKind::Text { .. } if self.drop_empty) || matches!(&self.kind, OutKind::Thinking { .. })
    }

    /// The block of `content_block_start`.
    pub(super) fn start(&self) -> Json {
        let block = match &self.kind {
            OutKind::Text { .. } => text(""),
            OutKind::Thinking { .. } => typed("thinking", [("thinking", Some(json(""))), ("signature", Some(json("")))]),
            OutKind::Call { head, .. } => head.clone(),
            OutKind::Raw(raw) => return raw.clone(),
        };
        put_all(block, &self.entries)
    }

    /// The whole block.
    pub(super) fn whole(&self, sealer: &SyntheticSealer) -> Json {
        let block = match &self.kind {
            OutKind::Text { text, citations } => typed(
                "text",
                [
                    ("text", Some(json(text))),
                    ("citations", (!citations.is_empty()).then(|| json(citations))),
                ],
            ),
            OutKind::Thinking { text, signature } => typed(
                "thinking",
                [
                    ("thinking", Some(json(text))),
                    ("signature", Some(json(&signature.clone().unwrap_or_else(|| sealer.seal(text))))),
                ],
            ),
            OutKind::Call { head, raw } => raw::put(head, "/input", &input(raw)),
            OutKind::Raw(raw) => return raw.clone(),
        };
        put_all(block, &self.entries)
    }

    /// Adds text and tells the piece.
    pub(super) fn append(&mut self, more: &str) -> Option<Json> {
        if more.is_empty() {
            return None;
        }
        match &mut self.kind {
            OutKind::Text { text, .. } => {
                text.push_str(more);
                Some(typed("text_delta", [("text", Some(json(more)))]))
            }
            OutKind::Thinking { text, .. } => {
                text.push_str(more);
                Some(typed("thinking_delta", [("thinking", Some(json(more)))]))
            }
            OutKind::Call { raw, .. } => {
                raw.push_str(more);
                Some(argument_piece(more))
            }
            OutKind::Raw(_) => None,
        }
    }

    /// The arguments are complete; tells what no piece said yet.
    pub(super) fn arguments(&mut self, whole: &str) -> Option<Json> {
        let OutKind::Call { raw, .. } = &mut self.kind else { return None };
        if raw.is_empty() {
            whole.clone_into(raw);
            return (whole != "{}" && !whole.is_empty()).then(|| argument_piece(whole));
        }
        None
    }

    /// Sets the signature.
    pub(super) fn sign(&mut self, payload: String) {
        if let OutKind::Thinking { signature, .. } = &mut self.kind {
            *signature = Some(payload);
        }
    }

    /// Adds a citation.
    pub(super) fn cite(&mut self, citation: Json) {
        if let OutKind::Text { citations, .. } = &mut self.kind {
            citations.push(citation);
        }
    }

    /// Replaces the citations by those that were written.
    pub(super) fn set_citations(&mut self, list: Vec<Json>) {
        if let OutKind::Text { citations, .. } = &mut self.kind {
            *citations = list;
        }
    }

    /// Forgets arguments: they come in pieces.
    pub(super) fn empty_input(&mut self) {
        if let OutKind::Call { raw, .. } = &mut self.kind {
            raw.clear();
        }
    }

    /// The piece that carries text which stood in the part from the begin.
    pub(super) fn pieces_of_text(&self) -> Vec<Json> {
        match &self.kind {
            OutKind::Text { text, .. } if !text.is_empty() => vec![typed("text_delta", [("text", Some(json(text)))])],
            OutKind::Thinking { text, .. } if !text.is_empty() => vec![typed("thinking_delta", [("thinking", Some(json(text)))])],
            _ => Vec::new(),
        }
    }

    /// What is told last: citations after their text, the signature after the thinking.
    pub(super) fn last_pieces(&mut self, sealer: &SyntheticSealer) -> Vec<Json> {
        match &mut self.kind {
            OutKind::Text { citations, .. } => citations
                .iter()
                .map(|c| typed("citations_delta", [("citation", Some(c.clone()))]))
                .collect(),
            OutKind::Thinking { text, signature } => {
                if signature.is_none() && text.is_empty() {
                    return Vec::new();
                }
                let signature = signature.get_or_insert_with(|| sealer.seal(text));
                vec![typed("signature_delta", [("signature", Some(json(signature)))])]
            }
            _ => Vec::new(),
        }
    }
}

/// Arguments as the wire's object; text that is no object is wrapped.
fn input(raw: &str) -> Json {
    if raw.trim().is_empty() {
        return object(Vec::new());
    }
    match Json::of_arguments(raw) {
        Some(value) if value.is_object() => value,
        Some(value) => object(vec![("value".into(), value)]),
        None => object(vec![("raw".into(), json(raw))]),
    }
}

fn argument_piece(text: &str) -> Json {
    typed("input_json_delta", [("partial_json", Some(json(text)))])
}

impl OutBlock {
    /// Pieces of a block that is complete.
    pub(super) fn pieces(&self) -> Vec<Json> {
        let mut pieces = self.pieces_of_text();
        match &self.kind {
            OutKind::Text { citations, .. } => {
                pieces.extend(citations.iter().map(|c| typed("citations_delta", [("citation", Some(c.clone()))])));
            }
            OutKind::Thinking { signature, .. } => {
                pieces.extend(signature.iter().map(|s| typed("signature_delta", [("signature", Some(json(s)))])));
            }
            OutKind::Call { raw, .. } if raw != "{}" && !raw.is_empty() => pieces.push(argument_piece(raw)),
            _ => {}
        }
        pieces
    }
}
