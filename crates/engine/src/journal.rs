//! The items of a branch: read in pages, and appended by their owner.

use crate::checkpoints;
use crate::engine::{Engine, not_found};
use crate::lineage::calls;
use crate::ports::IdKind;
use crate::principal::Principal;
use std::collections::BTreeSet;
use throughline_format::validate::{Pending, semantics};
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody};
use throughline_protocols::{DecodeContext, unified_native};
use throughline_store::{ItemPage, MAX_PAGE, Order, WriteBatch, WriteOp, export};

/// Which items of a branch to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemQuery {
    /// The branch; absent = the one that clients land on.
    pub branch: Option<UnifiedId>,
    /// After this item, in the direction of reading.
    pub after: Option<UnifiedId>,
    /// Which way.
    pub order: Order,
    /// At most this many.
    pub limit: usize,
}

/// Items of a branch, those that it shares with its ancestors included.
#[derive(Clone, Debug)]
pub struct JournalPage {
    /// The items as they were appended.
    pub items: Vec<UnifiedItem>,
    /// Whether more follow.
    pub has_more: bool,
}

/// Items to append.
#[derive(Clone, Debug, Default)]
pub struct NewItems {
    /// The branch; absent = the one that clients land on.
    pub branch: Option<UnifiedId>,
    /// Where the caller believes the branch to stand; absent = wherever it stands.
    pub expected_head: Option<UnifiedId>,
    /// The items in order.
    pub items: Vec<UnifiedItem>,
}

/// How often an append that names no head is tried again when others move it.
const APPEND_TRIES: usize = 4;

/// Others were faster; the same request may well go through the next time.
pub(crate) fn moved(message: &str) -> UnifiedError {
    UnifiedError {
        retryable: true,
        ..UnifiedError::new(ErrorCategory::Conflict, "head-moved", message)
    }
}

impl Engine {
    /// A page of a branch.
    ///
    /// # Errors
    /// `not-found.resource` when conversation, branch or item is absent or somebody else's.
    pub async fn items(&self, principal: &Principal, conversation: &UnifiedId, query: ItemQuery) -> Result<JournalPage, UnifiedError> {
        let branch = self.own_branch(principal, conversation, query.branch.as_ref()).await?;
        let limit = query.limit.clamp(1, MAX_PAGE - 1);
        let mut page = ItemPage {
            order: query.order,
            limit: limit + 1,
            ..ItemPage::default()
        };
        if let Some(after) = &query.after {
            let item = self.store.item(after).await.map_err(|e| e.to_unified())?;
            let item = item
                .filter(|item| item.conversation_id == *conversation)
                .ok_or_else(|| not_found("item"))?;
            match query.order {
                Order::Ascending => page.after_sequence = item.sequence,
                Order::Descending => page.through_sequence = Some(item.sequence - 1),
            }
        }
        if page.through_sequence == Some(0) {
            return Ok(JournalPage {
                items: Vec::new(),
                has_more: false,
            });
        }
        let mut items = self.store.branch_items(&branch.branch_id, page).await.map_err(|e| e.to_unified())?;
        let has_more = items.len() > limit;
        items.truncate(limit);
        export::bring_up_to_date(self.store.as_ref(), &branch.branch_id, &mut items)
            .await
            .map_err(|e| e.to_unified())?;
        Ok(JournalPage { items, has_more })
    }

    /// Appends items to a branch, all or none, and gives them as they stand there.
    ///
    /// # Errors
    /// `conflict.head-moved` when the branch stands elsewhere than expected; `invalid-request.*` when an item breaks a rule, is of
    /// a kind that only the engine writes, or answers a call that is not open; nothing is stored then.
    pub async fn append_items(
        &self,
        principal: &Principal,
        conversation: &UnifiedId,
        new: NewItems,
    ) -> Result<Vec<UnifiedItem>, UnifiedError> {
        if new.items.is_empty() {
            return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", "name at least one item").at("/items"));
        }
        for attempt in 1.. {
            let branch = self.own_branch(principal, conversation, new.branch.as_ref()).await?;
            let path = self.branch_path(&branch.branch_id).await?;
            let items = self.adopt_items(new.items.clone(), &path)?;
            let ids: BTreeSet<UnifiedId> = items.iter().map(|item| item.id.clone()).collect();
            let expected_head = new.expected_head.clone().or(path.last().map(|item| item.id.clone()));
            let head = items.last().map(|item| item.id.clone());
            let mut batch = WriteBatch::new(self.clock.now(), conversation.clone()).with(WriteOp::AppendItems {
                branch_id: branch.branch_id.clone(),
                expected_head,
                items,
            });
            batch
                .ops
                .extend(checkpoints::outdated(self, conversation, &branch.branch_id, head.as_ref(), &[]).await?);
            match self.commit(batch).await {
                Ok(_) => {
                    let after = ItemPage {
                        after_sequence: path.last().map_or(0, |item| item.sequence),
                        limit: ids.len().min(MAX_PAGE),
                        ..ItemPage::default()
                    };
                    let appended = self
                        .store
                        .branch_items(&branch.branch_id, after)
                        .await
                        .map_err(|e| e.to_unified())?;
                    return Ok(appended.into_iter().filter(|item| ids.contains(&item.id)).collect());
                }
                Err(throughline_store::StoreError::HeadMoved { .. }) if new.expected_head.is_none() && attempt < APPEND_TRIES => {}
                Err(error) => return Err(error.to_unified()),
            }
        }
        Err(moved("other requests keep moving this branch; ask again"))
    }

    /// Checks items that a client wrote and gives them IDs of this store; `path` is what stands before them.
    pub(crate) fn adopt_items(&self, mut items: Vec<UnifiedItem>, path: &[UnifiedItem]) -> Result<Vec<UnifiedItem>, UnifiedError> {
        let most = self.limits.items_per_request.min(MAX_PAGE);
        if items.len() > most {
            return Err(UnifiedError::new(
                ErrorCategory::TooLarge,
                "items",
                format!("at most {most} items are taken at once"),
            ));
        }
        let below = |mut error: UnifiedError| {
            error.field_path = Some(format!("/items{}", error.field_path.unwrap_or_default()));
            error
        };
        for (index, item) in items.iter().enumerate() {
            if let Some(violation) = semantics::item(item, Pending::Allowed).into_iter().next() {
                let mut error = UnifiedError::from(violation);
                error.field_path = Some(format!("/{index}{}", error.field_path.unwrap_or_default()));
                return Err(below(error));
            }
            if !item.status.is_terminal() || is_engines(&item.body) {
                let message = "only finished items of clients are appended; this kind or status is written by the gateway itself";
                return Err(below(
                    UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message).at(format!("/{index}")),
                ));
            }
        }
        check_answers(&items, path).map_err(below)?;
        // An ID of their own, as an operation's items have: what clients call them may be anything, and somebody else's.
        let request_id = self.ids.next(IdKind::Request);
        let context = DecodeContext {
            operation_id: request_id.clone(),
            request_id,
            received_at: self.clock.now(),
            ..DecodeContext::offline()
        };
        unified_native::adopt(&mut items, &context);
        for item in &mut items {
            item.base.provenance.operation_id = None;
        }
        Ok(items)
    }
}

/// Kinds that tell what the gateway did.
const fn is_engines(body: &UnifiedItemBody) -> bool {
    matches!(
        body,
        UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_)
    )
}

/// The same for the new items of a native request; `indexes` are their places in it.
pub(crate) fn check_new_answers(request: &[UnifiedItem], indexes: &[usize], path: &[UnifiedItem]) -> Result<(), UnifiedError> {
    let new: Vec<UnifiedItem> = indexes.iter().filter_map(|at| request.get(*at)).cloned().collect();
    check_answers(&new, path).map_err(|mut error| {
        let told = error
            .field_path
            .as_deref()
            .and_then(|path| path.split('/').nth(1)?.parse::<usize>().ok());
        if let Some(index) = told.and_then(|at| indexes.get(at)) {
            error.field_path = Some(format!("/conversation/items/{index}/callId"));
        }
        error
    })
}

/// Every result answers a call that is open at its place: one of this branch, once.
fn check_answers(items: &[UnifiedItem], path: &[UnifiedItem]) -> Result<(), UnifiedError> {
    let mut open: Vec<&str> = Vec::new();
    let mut answered: Vec<&str> = Vec::new();
    let mut settle = |item| -> Result<(), UnifiedError> {
        let Some(call) = UnifiedItem::call_id(item) else { return Ok(()) };
        if calls::is_call(item) {
            open.push(call);
        } else if calls::is_result(item) {
            let Some(at) = open.iter().rposition(|known| *known == call) else {
                return Err(if answered.contains(&call) {
                    UnifiedError::new(
                        ErrorCategory::Conflict,
                        "tool-result",
                        "this call has its result already; the first one counts",
                    )
                } else {
                    UnifiedError::new(
                        ErrorCategory::InvalidRequest,
                        "tool-result",
                        "no call with this ID is open on the branch",
                    )
                });
            };
            answered.push(open.remove(at));
        }
        Ok(())
    };
    for item in path {
        // What stands in the journal already was judged when it came.
        let _ = settle(item);
    }
    for (index, item) in items.iter().enumerate() {
        settle(item).map_err(|error| error.at(format!("/{index}/callId")))?;
    }
    Ok(())
}
