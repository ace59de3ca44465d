//! Compaction on request: a summary of the caller in place of the beginning of a branch (spec, Canonical items).
//!
//! The covered items stay in the journal; projections read the summary instead, lists and exports the whole history.

use crate::checkpoints;
use crate::engine::Engine;
use crate::ports::IdKind;
use crate::principal::Principal;
use throughline_format::compaction::{self, CompactionError};
use throughline_format::item::SummaryAuthor;
use throughline_format::provenance::ItemOrigin;
use throughline_format::{
    ErrorCategory, UnifiedContentPart, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBase, UnifiedItemBody, UnifiedItemProvenance,
};
use throughline_store::{StoreError, WriteBatch, WriteOp};

/// What is to be compacted, and by which words.
#[derive(Clone, Debug)]
pub struct CompactRequest {
    /// The conversation.
    pub conversation_id: UnifiedId,
    /// The branch; absent = the one that clients land on.
    pub branch_id: Option<UnifiedId>,
    /// The last item that the summary stands for; the first is the first of the branch's path.
    pub through_item_id: UnifiedId,
    /// The summary; its parts get IDs of their own.
    pub summary: Vec<UnifiedContentPart>,
}

impl Engine {
    /// Appends a summary in place of everything up to an item. From the next turn on projections read it instead.
    ///
    /// # Errors
    /// `not-found.resource` for a conversation or branch of somebody else; `conflict.operation-active` while an answer is on its
    /// way, `conflict.head-moved` when something was appended meanwhile; `invalid-request.invalid-value` when the range is no
    /// whole prefix of the branch, with the nearest item before it at which it would be.
    pub async fn compact(&self, principal: &Principal, request: CompactRequest) -> Result<UnifiedItem, UnifiedError> {
        let conversation_id = &request.conversation_id;
        let branch = self.own_branch(principal, conversation_id, request.branch_id.as_ref()).await?;
        if self.is_busy(&branch).await? {
            let message = "an answer is on its way on this branch; ask again when it has ended";
            return Err(UnifiedError::new(ErrorCategory::Conflict, "operation-active", message));
        }
        let path = self.branch_path(&branch.branch_id).await?;
        let item_id = self.ids.next(IdKind::Request).item(0);
        let mut parts = request.summary;
        let says_something = |part: &UnifiedContentPart| part.as_text().is_some_and(|text| !text.trim().is_empty());
        if !parts.iter().any(says_something) {
            let message = "a summary stands in place of the history, so it needs a text that is not blank";
            return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message).at("/summary"));
        }
        for (number, part) in (0..).zip(&mut parts) {
            part.base.part_id = item_id.part(number);
        }
        let summary = compaction::compact(&path, &request.through_item_id, parts, SummaryAuthor::Client)
            .map_err(|error| refused(&error, &path, &request.through_item_id))?;
        let now = self.clock.now();
        let item = UnifiedItem {
            base: UnifiedItemBase {
                conversation_id: conversation_id.clone(),
                branch_id: branch.branch_id.clone(),
                sequence: path.last().map_or(0, |last| last.sequence) + 1,
                parent_id: path.last().map(|last| last.id.clone()),
                ..UnifiedItemBase::unplaced(item_id, None, now, UnifiedItemProvenance::of(ItemOrigin::Engine))
            },
            body: UnifiedItemBody::CompactionSummary(summary),
        };
        let mut batch = WriteBatch::new(now, conversation_id.clone()).with(WriteOp::AppendItems {
            branch_id: branch.branch_id.clone(),
            expected_head: path.last().map(|last| last.id.clone()),
            items: vec![item.clone()],
        });
        // What a provider holds up to the old head is not what is read from now on.
        let head = Some(&item.id);
        batch
            .ops
            .extend(checkpoints::outdated(self, conversation_id, &branch.branch_id, head, &[]).await?);
        match self.commit(batch).await {
            Ok(_) => Ok(item),
            Err(error @ StoreError::HeadMoved { .. }) => Err(UnifiedError::new(
                ErrorCategory::Conflict,
                "head-moved",
                format!("{error}; read the branch and ask again"),
            )),
            Err(error) => Err(error.to_unified()),
        }
    }
}

fn refused(error: &CompactionError, path: &[UnifiedItem], through: &UnifiedId) -> UnifiedError {
    let (place, advice) = match error {
        CompactionError::Empty => ("/summary", String::new()),
        CompactionError::SplitsCall => {
            let nearest = compaction::boundary(path, through);
            (
                "/throughItemId",
                nearest.map_or_else(String::new, |id| format!("; {id} is the nearest that is whole")),
            )
        }
        _ => ("/throughItemId", String::new()),
    };
    UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", format!("{error}{advice}")).at(place)
}
