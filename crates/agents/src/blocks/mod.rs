//! The flat block view: a sequence of blocks, each with an actor and a kind, derived from the journal and readable into it.
//!
//! | item | actor and kind |
//! | --- | --- |
//! | message of user or assistant | the same actor, `text`; one block a part |
//! | message of system or developer | `system`, `text`, with `meta.role` |
//! | reasoning | `assistant`, `thinking` |
//! | call of any kind | `assistant`, `tool_use`; the content is the tool's name |
//! | result of any kind | `system`, `tool_result` |
//! | error | `system`, `error` |
//! | everything else | `system`, `status`; `meta.item` is the item |
//!
//! Every block carries the three attributions, `null` where the source does not tell. Media stand in `embeds`, and the content refers to
//! them as `![name](embed://ID)`; text that looks so by itself is escaped ([`embeds`]). `meta` holds what the six kinds cannot say, so
//! that blocks of a journal are read into the same journal again, and a journal of blocks gives the same blocks. Signatures are never in
//! a block of a journal, only the ID of their resource.
//!
//! Blocks of another writer, such as the rows of SNA's own table, are read too; what they say in another way is kept as their record.
//! Forms: `blocks`, a JSON list; `rows`, the same in the columns of SNA's table `chat_messages`; `sql`, statements that make such a table.

pub mod embeds;
mod read;
mod tables;
mod view;

use crate::runtime::{ResumePlan, Runtime, WriteOptions, Written, WrittenFile, form};
use crate::source::Source;
use crate::transcript::Transcript;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use throughline_format::{Json, Sha256, Timestamp, UnifiedError, UnifiedId, UnifiedLossReport};

pub use view::blocks_of;

/// Name of the form.
pub const NAME: &str = "sna-blocks";

/// Who a block is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Everything else: results of tools, instructions, states, errors.
    System,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Text, with references to media.
    Text,
    /// Reasoning.
    Thinking,
    /// A call; the content is the tool's name.
    ToolUse,
    /// Its result.
    ToolResult,
    /// Something that happened.
    Status,
    /// An error.
    Error,
}

/// A medium that a block refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Embed {
    /// Media type; empty when nobody told it.
    pub mime_type: String,
    /// The artifact, where the journal keeps it as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<UnifiedId>,
    /// Digest of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Base64 text, where the journal holds the bytes themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Address, where the journal holds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One block (open-types.md, section 12).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnaBlock {
    /// Its ID.
    pub id: String,
    /// Who it is of.
    pub actor: Actor,
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub content: String,
    /// Media by the ID that the content names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeds: Option<BTreeMap<String, Embed>>,
    /// What actor, kind and content do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// The runtime.
    pub provider: Option<String>,
    /// The vendor of the model.
    pub model_provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The item that it is of.
    pub item_id: UnifiedId,
    /// The part of the item that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_id: Option<UnifiedId>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The view as a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnaBlocks;

impl Runtime for SnaBlocks {
    fn name(&self) -> &'static str {
        NAME
    }

    fn forms(&self) -> &'static [&'static str] {
        &["blocks", "rows", "sql"]
    }

    fn read(&self, source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
        read::read(source)
    }

    fn write(&self, transcript: &Transcript, options: &WriteOptions) -> Result<Written, UnifiedError> {
        let form = form(self, options)?;
        let session_id = options.session_id.clone().unwrap_or_else(|| transcript.session.id.clone());
        let blocks = read::written(transcript);
        let (end, content) = match form {
            "rows" => ("rows.jsonl", tables::rows(&session_id, &blocks)),
            "sql" => ("sql", tables::sql(transcript, &session_id, &blocks)),
            _ => ("blocks.json", format!("{}\n", throughline_protocols::raw::json(&blocks).as_str())),
        };
        Ok(Written {
            files: vec![WrittenFile {
                path: format!("{}.{end}", crate::ids::file_name(&session_id)),
                content,
            }],
            session_id,
            loss: UnifiedLossReport::default(),
        })
    }

    fn resume(&self, _: &Written, _: Option<&str>) -> Option<ResumePlan> {
        None
    }
}
