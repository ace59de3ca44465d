//! Finding the conversation of a request in the store.

use super::LINEAGE_VERSION;
use super::atoms::{Atom, atoms};
use super::chain::Link;
use super::place::{self, Place};
use crate::engine::{Engine, not_found};
use throughline_format::{OperationState, UnifiedBranch, UnifiedConversation, UnifiedError, UnifiedId, UnifiedItem};
use throughline_protocols::Codec;
use throughline_store::{ItemPage, LineageRow, OperationFilter};

/// Links that are looked up at once, from the end of the history backwards.
const LOOKUP_BATCH: usize = 64;
/// Items per page of a branch.
const PAGE: usize = 1_000;

/// Where a request belongs.
pub(crate) struct Found {
    /// The conversation and branch, or `None` for a new conversation.
    pub(crate) home: Option<(UnifiedConversation, UnifiedBranch)>,
    /// The shared part of the branch path.
    pub(crate) path: Vec<UnifiedItem>,
    /// What is new, and whether it forks.
    pub(crate) place: Place,
    /// Whether the request carries only what is new, not the history.
    pub(crate) is_delta: bool,
    /// The chain over the client's view of everything up to the end of its input.
    pub(crate) link: Link,
    /// Links of the user atoms among the new items: index of the item in the request, link.
    pub(crate) user_links: Vec<(usize, Link)>,
}

pub(crate) struct Search<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) codec: &'a dyn Codec,
    pub(crate) principal_ref: &'a str,
    pub(crate) items: &'a [UnifiedItem],
    pub(crate) conversation: Option<&'a UnifiedId>,
    pub(crate) branch: Option<&'a UnifiedId>,
}

impl Search<'_> {
    pub(crate) async fn run(&self) -> Result<Found, UnifiedError> {
        let asked = atoms(self.items);
        let root = Link::root(self.engine.lineage_key.as_slice(), self.principal_ref);
        let links = root.along(&asked);
        let named = match self.conversation {
            Some(id) => Some(self.named_conversation(id).await?),
            None => None,
        };
        let evidence = self.evidence(&asked, &links, named.as_ref()).await?;
        let same_call = |asked: &str, known: &str| asked == known || self.codec.wire_call_id(known) == asked;
        let (home, path, place) = match (evidence, named) {
            (Some((atom, row)), _) => {
                let conversation = self.engine.store.conversation(&row.conversation_id).await.map_err(|e| e.to_unified())?.ok_or_else(|| not_found("conversation"))?;
                let branch = self.branch(&row.branch_id).await?;
                let path = self.path(&branch).await?;
                match place::index_of(&path, &row.item_id) {
                    Some(on) => {
                        let place = place::after_evidence(self.items, asked.get(atom).map_or(0, |a| a.item), &path, on, &same_call);
                        (Some((conversation, branch)), path, place)
                    }
                    None => (None, Vec::new(), Place::fresh(self.items)),
                }
            }
            (None, Some((conversation, branch))) => {
                let path = self.path(&branch).await?;
                let place = if path.is_empty() { Place::fresh(self.items) } else { place::in_named_conversation(self.items, &path, &same_call) };
                (Some((conversation, branch)), path, place)
            }
            (None, None) => (None, Vec::new(), Place::fresh(self.items)),
        };
        self.settle(home, path, place, &asked, &links, root).await
    }

    /// Cuts the path to what is shared, adds changed instructions, and works out the chain.
    async fn settle(
        &self,
        home: Option<(UnifiedConversation, UnifiedBranch)>,
        mut path: Vec<UnifiedItem>,
        mut place: Place,
        asked: &[Atom],
        links: &[Link],
        root: Link,
    ) -> Result<Found, UnifiedError> {
        let history = place.new_items.iter().filter(|i| self.items.get(**i).is_some_and(|item| !item.is_instructions())).count();
        let sent = self.items.iter().filter(|item| !item.is_instructions()).count();
        let is_delta = home.is_some() && !path.is_empty() && history == sent && !place.forks && place.shared_through == path.len().checked_sub(1);
        path.truncate(place.shared_through.map_or(0, |i| i + 1));
        if let Some((_, branch)) = &home {
            // An answer on its way belongs to this branch; whoever asks meanwhile gets a branch of its own.
            place.forks |= self.is_busy(branch).await?;
            let adds_instructions = !place.new_items.iter().any(|i| self.items.get(*i).is_some_and(UnifiedItem::is_instructions));
            if adds_instructions && place::instructions_changed(self.items, &path) {
                let mut all: Vec<usize> = (0..self.items.len()).filter(|i| self.items.get(*i).is_some_and(UnifiedItem::is_instructions)).collect();
                all.append(&mut place.new_items);
                place.new_items = all;
            }
        }
        let is_new = |atom: &Atom| atom.kind == super::atoms::AtomKind::User && place.new_items.contains(&atom.item);
        let (link, user_links) = if is_delta {
            let before = root.along(&atoms(&path)).last().copied().unwrap_or(root);
            let along = before.along(asked);
            (along.last().copied().unwrap_or(before), pair(asked, &along, &is_new))
        } else {
            (links.last().copied().unwrap_or(root), pair(asked, links, &is_new))
        };
        Ok(Found { home, path, place, is_delta, link, user_links })
    }

    /// The deepest answer that this gateway delivered, looked up from the end backwards; within a named conversation only there.
    async fn evidence(&self, asked: &[Atom], links: &[Link], named: Option<&(UnifiedConversation, UnifiedBranch)>) -> Result<Option<(usize, LineageRow)>, UnifiedError> {
        let answers: Vec<usize> = asked.iter().enumerate().filter(|(_, a)| a.is_answer()).map(|(i, _)| i).collect();
        for batch in answers.rchunks(LOOKUP_BATCH) {
            let hashes: Vec<_> = batch.iter().filter_map(|i| links.get(*i)).map(|l| l.hash).collect();
            let rows = self.engine.store.lineage(self.principal_ref, &hashes).await.map_err(|e| e.to_unified())?;
            for atom in batch.iter().rev() {
                let Some(link) = links.get(*atom) else { continue };
                let candidates: Vec<&LineageRow> = rows
                    .iter()
                    .filter(|r| r.evidence && r.link == link.hash && r.lineage_version == LINEAGE_VERSION)
                    .filter(|r| named.is_none_or(|(conversation, _)| conversation.conversation_id == r.conversation_id))
                    .collect();
                if let Some(row) = self.choose(&candidates).await? {
                    return Ok(Some((*atom, row)));
                }
            }
        }
        Ok(None)
    }

    /// Between twins: a branch head, then the most recent; rows come newest first.
    async fn choose(&self, candidates: &[&LineageRow]) -> Result<Option<LineageRow>, UnifiedError> {
        if let [_, _, ..] = candidates {
            for row in candidates {
                let branch = self.engine.store.branch(&row.branch_id).await.map_err(|e| e.to_unified())?;
                if branch.is_some_and(|b| b.head_item_id.as_ref() == Some(&row.item_id)) {
                    return Ok(Some((*row).clone()));
                }
            }
        }
        Ok(candidates.first().map(|row| (*row).clone()))
    }

    async fn named_conversation(&self, id: &UnifiedId) -> Result<(UnifiedConversation, UnifiedBranch), UnifiedError> {
        let conversation = self.engine.store.conversation(id).await.map_err(|e| e.to_unified())?;
        let conversation = conversation.filter(|c| c.principal_ref == self.principal_ref).ok_or_else(|| not_found("conversation"))?;
        let branch = self.branch(self.branch.unwrap_or(&conversation.default_branch_id)).await?;
        if branch.conversation_id != conversation.conversation_id {
            return Err(not_found("branch"));
        }
        Ok((conversation, branch))
    }

    async fn branch(&self, id: &UnifiedId) -> Result<UnifiedBranch, UnifiedError> {
        self.engine.store.branch(id).await.map_err(|e| e.to_unified())?.ok_or_else(|| not_found("branch"))
    }

    async fn path(&self, branch: &UnifiedBranch) -> Result<Vec<UnifiedItem>, UnifiedError> {
        let mut path: Vec<UnifiedItem> = Vec::new();
        loop {
            let page = ItemPage { after_sequence: path.last().map_or(0, |i| i.sequence), limit: PAGE, ..ItemPage::default() };
            let items = self.engine.store.branch_items(&branch.branch_id, page).await.map_err(|e| e.to_unified())?;
            let full = items.len() == PAGE;
            path.extend(items);
            if !full {
                return Ok(path);
            }
        }
    }

    async fn is_busy(&self, branch: &UnifiedBranch) -> Result<bool, UnifiedError> {
        let filter = OperationFilter {
            conversation_id: Some(branch.conversation_id.clone()),
            principal_ref: None,
            states: vec![OperationState::Queued, OperationState::Running, OperationState::RequiresAction],
            after: None,
            limit: 256,
        };
        let running = self.engine.store.operations(filter).await.map_err(|e| e.to_unified())?;
        Ok(running.iter().any(|operation| operation.source_branch_id == branch.branch_id))
    }
}

fn pair(asked: &[Atom], links: &[Link], is_new: &dyn Fn(&Atom) -> bool) -> Vec<(usize, Link)> {
    asked.iter().zip(links).filter(|(atom, _)| is_new(atom)).map(|(atom, link)| (atom.item, *link)).collect()
}
