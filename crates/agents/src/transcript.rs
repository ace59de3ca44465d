//! [`Transcript`]: a session of any runtime as journal items, with the runtime's own records beside them.

use serde::{Deserialize, Serialize};
use throughline_format::{Sha256, Timestamp, UnifiedId, UnifiedItem, UnifiedLossReport, UnifiedUsage};
use throughline_protocols::SideResource;

/// What a session says of itself. What it does not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionFacts {
    /// The runtime's own ID.
    pub id: String,
    /// The session that this one is a subagent's of, or was forked from.
    pub parent: Option<String>,
    /// Working folder.
    pub cwd: Option<String>,
    /// Title.
    pub title: Option<String>,
    /// Version of the runtime that wrote it last.
    pub version: Option<String>,
    /// Branch of the repository.
    pub git_branch: Option<String>,
    /// The runtime's own name for where the model is, such as the provider of its configuration.
    pub model_source: Option<String>,
    /// When it began.
    pub created_at: Option<Timestamp>,
    /// When it was last written.
    pub updated_at: Option<Timestamp>,
}

/// A record as the runtime wrote it, with the items that it became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeRecord {
    /// What the text is within the runtime's file: `line`, `head`, `message`, `part`, or a path.
    pub kind: String,
    /// The text as it was written.
    pub text: String,
    /// The items that it became, in order; none for what the journal has no word for.
    pub items: Vec<UnifiedId>,
    /// Digest of the content of these items; absent exactly when there are none.
    pub digest: Option<Sha256>,
}

/// What one answer used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseUsage {
    /// The last item of the answer.
    pub item_id: UnifiedId,
    /// The counters.
    pub usage: UnifiedUsage,
}

/// Something that is wrong with the source and was worked around.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Stable code `transcript.detail`.
    pub code: &'static str,
    /// What it is; quotes no content.
    pub message: String,
    /// Where: `file:line`, or a JSON Pointer.
    pub place: String,
}

/// A session.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// Name of the runtime that wrote it.
    pub runtime: String,
    /// What it says of itself.
    pub session: SessionFacts,
    /// The conversation as the runtime would send it, before it is in a journal.
    pub items: Vec<UnifiedItem>,
    /// The runtime's records in the order of its file.
    pub records: Vec<NativeRecord>,
    /// Private payloads and annotations that items refer to.
    pub resources: Vec<SideResource>,
    /// What each answer used, in order.
    pub usage: Vec<ResponseUsage>,
    /// What was damaged.
    pub warnings: Vec<Warning>,
    /// What the items do not say. Paths are JSON Pointers whose first token is the number of the line or record, from 1.
    pub loss: UnifiedLossReport,
}

impl Transcript {
    /// When the session began, as far as anybody tells: its own word, else the time of its first item.
    pub(crate) fn began(&self) -> Option<Timestamp> {
        self.session.created_at.or_else(|| self.items.first().map(|item| item.created_at))
    }

    /// A transcript of a journal branch that no runtime's records stand beside.
    pub fn of_items(runtime: &str, session: SessionFacts, items: Vec<UnifiedItem>) -> Self {
        Self {
            runtime: runtime.to_owned(),
            session,
            items,
            records: Vec::new(),
            resources: Vec::new(),
            usage: Vec::new(),
            warnings: Vec::new(),
            loss: UnifiedLossReport::default(),
        }
    }

    /// Number of messages that the user sent.
    pub fn turns(&self) -> usize {
        use throughline_format::item::{Role, Visibility};
        let is_turn = |item: &&UnifiedItem| {
            item.role == Some(Role::User)
                && item.visibility == Visibility::Model
                && matches!(item.body, throughline_format::UnifiedItemBody::Message(_))
        };
        self.items.iter().filter(is_turn).count()
    }

    /// What all answers used: each counter is the sum of those that were told.
    pub fn usage_sum(&self) -> UnifiedUsage {
        let mut sum = UnifiedUsage::default();
        for response in &self.usage {
            let from = &response.usage;
            for (to, from) in [
                (&mut sum.input_total, from.input_total),
                (&mut sum.input_uncached, from.input_uncached),
                (&mut sum.cache_read, from.cache_read),
                (&mut sum.cache_write, from.cache_write),
                (&mut sum.output_total, from.output_total),
                (&mut sum.reasoning, from.reasoning),
                (&mut sum.tool_prompt, from.tool_prompt),
                (&mut sum.total, from.total),
            ] {
                let Some(from) = from else { continue };
                let value = to.map_or(0.0, |to| to.value) + from.value;
                *to = Some(throughline_format::UnifiedCounter {
                    value,
                    scope: throughline_format::usage::UsageScope::Session,
                    source: throughline_format::usage::UsageSource::Derived,
                });
            }
        }
        sum
    }
}
