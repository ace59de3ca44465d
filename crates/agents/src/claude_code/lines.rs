//! One record of a file.

use crate::fields::Fields;
use throughline_format::Timestamp;

/// What kind of record a line is, as far as the conversation is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `system`
    System,
    /// `attachment`
    Attachment,
    /// `progress`, and every other record with a `uuid`: a link of the chain without content.
    Link,
    /// No part of the chain.
    Beside,
}

/// A record.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// Number of the line in its file, from 1.
    pub(super) number: usize,
    /// Number of the native record.
    pub(super) record: usize,
    pub(super) kind: Kind,
    pub(super) fields: Fields<'a>,
    pub(super) message: Fields<'a>,
    pub(super) uuid: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) sidechain: bool,
    pub(super) at: Option<Timestamp>,
    /// `message.id`
    pub(super) message_id: Option<String>,
}

impl<'a> Line<'a> {
    pub(super) fn of(number: usize, record: usize, fields: Fields<'a>) -> Self {
        let message = fields.object("message").unwrap_or_default();
        let uuid = fields.word("uuid");
        let said = fields.raw("message").is_some();
        let kind = match (fields.text("type").as_deref(), uuid.is_some()) {
            (Some("user"), _) if said => Kind::User,
            (Some("assistant"), _) if said => Kind::Assistant,
            (Some("system"), true) => Kind::System,
            (Some("attachment"), true) => Kind::Attachment,
            (_, true) => Kind::Link,
            (_, false) => Kind::Beside,
        };
        Self {
            number,
            record,
            kind,
            uuid,
            parent: fields.word("parentUuid"),
            sidechain: fields.flag("isSidechain"),
            at: fields.time("timestamp"),
            message_id: message.word("id"),
            fields,
            message,
        }
    }

    /// Whether it is a link of the chain or part of a file without one.
    pub(super) fn is_chain(&self) -> bool {
        self.kind != Kind::Beside
    }

    /// Whether the client made it and no model said it: errors of the API, fillers.
    pub(super) fn is_made_up(&self) -> bool {
        self.message.text("model").as_deref() == Some("<synthetic>") || self.fields.flag("isApiErrorMessage")
    }

    /// The model that said it.
    pub(super) fn model(&self) -> Option<String> {
        self.message
            .word("model")
            .filter(|_| self.kind == Kind::Assistant && !self.is_made_up())
    }

    /// IDs of the calls whose results it holds.
    pub(super) fn results(&self) -> Vec<String> {
        self.blocks("tool_result", "tool_use_id")
    }

    /// IDs of the calls that it makes.
    pub(super) fn calls(&self) -> Vec<String> {
        self.blocks("tool_use", "id")
    }

    fn blocks(&self, kind: &str, id: &str) -> Vec<String> {
        let blocks = self.message.objects("content").into_iter();
        let blocks = blocks.filter(|block| block.text("type").as_deref() == Some(kind));
        blocks.filter_map(|block| block.text(id)).collect()
    }

    /// `system` records of this subtype.
    pub(super) fn is_system(&self, subtype: &str) -> bool {
        self.kind == Kind::System && self.fields.text("subtype").as_deref() == Some(subtype)
    }

    /// Whether it is the summary that a compaction left.
    pub(super) fn is_summary(&self) -> bool {
        self.kind == Kind::User && self.fields.flag("isCompactSummary")
    }
}
