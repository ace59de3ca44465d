//! Finding the conversation of a request in the store.

use super::LINEAGE_VERSION;
use super::atoms::{Atom, MAX_ATOMS, atoms};
use super::calls::CallPairs;
use super::chain::Link;
use super::issued;
use super::place::{self, Place};
use super::session::{ClientSession, SessionKeys};
use super::summary;
use crate::engine::{Engine, not_found};
use crate::private;
use std::collections::{HashMap, HashSet};
use throughline_format::item::RevisionChange;
use throughline_format::{
    ErrorCategory, UnifiedBranch, UnifiedContentPart, UnifiedConversation, UnifiedError, UnifiedId, UnifiedItem, UnifiedToolDefinition,
    revision,
};
use throughline_protocols::{Codec, SideResource};
use throughline_store::LineageRow;

/// Revisions that an item gets by copies of clients: two that go on side by side may tell a result in two ways for ever. Beyond
/// it each still reads its own text.
const MAX_REVISIONS: u64 = 64;

/// Links that are looked up at once, from the end of the history backwards.
const LOOKUP_BATCH: usize = 64;

/// Where a request belongs.
pub(crate) struct Found {
    /// The conversation and branch, or `None` for a new conversation.
    pub(crate) home: Option<(UnifiedConversation, UnifiedBranch)>,
    /// The shared part of the branch path, as it is now.
    pub(crate) path: Vec<UnifiedItem>,
    /// Those of its items that have revisions, as they were appended.
    appended: HashMap<UnifiedId, UnifiedItem>,
    /// New texts of results that the client's copy tells otherwise.
    pub(crate) revisions: Vec<Rewrite>,
    /// What is new, and whether it forks.
    pub(crate) place: Place,
    /// Whether the request carries only what is new, not the history.
    pub(crate) is_delta: bool,
    /// The chain over the client's view of everything up to the end of its input.
    pub(crate) link: Link,
    /// The calls of the shared history in the client's copy and in the journal.
    pub(crate) calls: CallPairs,
    /// Links of the user atoms among the new items: index of the item in the request, link.
    pub(crate) user_links: Vec<(usize, Link)>,
    /// What the client calls its session, as hashes.
    pub(crate) session: Option<SessionKeys>,
}

/// The last item of an answer that the gateway delivered and the request shows.
pub(super) struct Answered {
    pub(super) conversation: UnifiedId,
    pub(super) branch: UnifiedId,
    pub(super) item: UnifiedId,
}

/// Another text of a stored result.
pub(crate) struct Rewrite {
    pub(crate) item_id: UnifiedId,
    pub(crate) parts: Vec<UnifiedContentPart>,
    /// The number of its revision; `None` when the journal has as many of this item as it takes.
    pub(crate) number: Option<u64>,
}

impl Found {
    /// The shared part of the branch path as it was appended: what audit hashes are made of.
    pub(crate) fn appended_path(&self) -> impl Iterator<Item = &UnifiedItem> {
        self.path.iter().map(|item| self.appended.get(&item.id).unwrap_or(item))
    }
}

/// The whole path of a branch.
#[derive(Default)]
pub(super) struct BranchPath {
    /// As it is now.
    pub(super) items: Vec<UnifiedItem>,
    /// Those that have revisions, as they were appended.
    appended: HashMap<UnifiedId, UnifiedItem>,
    /// How many revisions each of those has.
    revisions: HashMap<UnifiedId, u64>,
}

/// A conversation and branch with its whole path, before it is cut to what is shared.
#[derive(Default)]
pub(super) struct Home {
    origin: Option<(UnifiedConversation, UnifiedBranch)>,
    path: BranchPath,
    calls: CallPairs,
}

impl Home {
    pub(super) fn new(conversation: UnifiedConversation, branch: UnifiedBranch, path: BranchPath) -> Self {
        Self {
            origin: Some((conversation, branch)),
            path,
            calls: CallPairs::default(),
        }
    }
}

pub(crate) struct Search<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) codec: &'a dyn Codec,
    pub(crate) principal_ref: &'a str,
    pub(crate) items: &'a [UnifiedItem],
    pub(crate) resources: &'a [SideResource],
    pub(crate) tools: &'a [UnifiedToolDefinition],
    /// The session that the client names.
    pub(crate) session: Option<&'a ClientSession>,
    pub(crate) conversation: Option<&'a UnifiedId>,
    pub(crate) branch: Option<&'a UnifiedId>,
    /// The items are what is new in the named conversation, whatever they look like.
    pub(crate) appends: bool,
    /// Take a branch of its own whatever the head is: others keep moving it.
    pub(crate) force_fork: bool,
}

impl Search<'_> {
    pub(crate) async fn run(&self) -> Result<Found, UnifiedError> {
        let asked = atoms(self.items);
        if asked.len() > MAX_ATOMS {
            return Err(UnifiedError::new(
                ErrorCategory::TooLarge,
                "items",
                format!("a request may have at most {MAX_ATOMS} texts and calls"),
            ));
        }
        let root = Link::root(self.engine.lineage_key.as_slice(), self.principal_ref);
        let links = root.along(&asked);
        let named = match (self.conversation, self.branch) {
            (Some(id), _) => Some(self.named_conversation(id).await?),
            // A branch alone names its conversation too.
            (None, Some(branch)) => Some(self.named_conversation(&self.branch(branch).await?.conversation_id).await?),
            (None, None) => None,
        };
        let evidence = if self.appends {
            None
        } else {
            let by_chain = self.evidence(&asked, &links, named.as_ref()).await?;
            let conversation = named.as_ref().map(|(conversation, _)| &conversation.conversation_id);
            let by_echo = self.by_echo(&asked, by_chain.as_ref().map(|(atom, _)| *atom), conversation).await?;
            by_echo.or(by_chain)
        };
        let session = self.session_keys(links.last().copied().unwrap_or(root), evidence.is_some())?;
        let (home, place) = match (evidence, named) {
            (Some((atom, answered)), _) => {
                let conversation = self
                    .engine
                    .store
                    .conversation(&answered.conversation)
                    .await
                    .map_err(|e| e.to_unified())?
                    .ok_or_else(|| not_found("conversation"))?;
                let branch = self.branch(&answered.branch).await?;
                let path = self.path(&branch.branch_id).await?;
                match place::index_of(&path.items, &answered.item) {
                    Some(on) => {
                        let last = asked.get(atom).map_or(0, |a| a.item);
                        let pairs = CallPairs::align(
                            self.items.get(..=last).unwrap_or_default(),
                            path.items.get(..=on).unwrap_or_default(),
                        );
                        let place = place::after_evidence(self.items, last, &path.items, on, &|a, k| self.same_call(&pairs, a, k));
                        let home = Home {
                            calls: pairs,
                            ..Home::new(conversation, branch, path)
                        };
                        (home, place)
                    }
                    None => (Home::default(), Place::fresh(self.items)),
                }
            }
            (None, Some((conversation, branch))) => {
                let path = self.path(&branch.branch_id).await?;
                let items = &path.items;
                let place = if items.is_empty() {
                    Place::fresh(self.items)
                } else if self.appends {
                    Place {
                        shared_through: items.len().checked_sub(1),
                        ..Place::fresh(self.items)
                    }
                } else if let Some(compacted) = summary::of_client(self.items, items) {
                    compacted
                } else {
                    place::in_named_conversation(self.items, items, &|a, k| self.same_call(&CallPairs::default(), a, k))
                };
                (Home::new(conversation, branch, path), place)
            }
            (None, None) => {
                let by_session = match &session {
                    Some(keys) => self.by_session(keys).await?,
                    None => None,
                };
                by_session.unwrap_or_else(|| (Home::default(), Place::fresh(self.items)))
            }
        };
        let found = self.settle(home, place, &asked, &links, root).await?;
        Ok(Found { session, ..found })
    }

    /// Cuts the path to what is shared, adds changed instructions, and works out the chain.
    async fn settle(&self, home: Home, mut place: Place, asked: &[Atom], links: &[Link], root: Link) -> Result<Found, UnifiedError> {
        let Home {
            origin: home,
            path: mut stored,
            calls,
        } = home;
        let revisions = self.rewrite(&place, &mut stored);
        let BranchPath {
            items: mut path, appended, ..
        } = stored;
        let history = place
            .new_items
            .iter()
            .filter(|i| self.items.get(**i).is_some_and(|item| !item.is_instructions()))
            .count();
        let sent = self.items.iter().filter(|item| !item.is_instructions()).count();
        let is_delta =
            home.is_some() && !path.is_empty() && history == sent && !place.forks && place.shared_through == path.len().checked_sub(1);
        path.truncate(place.shared_through.map_or(0, |i| i + 1));
        if let Some((_, branch)) = &home {
            // An answer on its way belongs to this branch; whoever asks meanwhile gets a branch of its own.
            place.forks |= self.force_fork || self.engine.is_busy(branch).await?;
            let adds_instructions = !place
                .new_items
                .iter()
                .any(|i| self.items.get(*i).is_some_and(UnifiedItem::is_instructions));
            if adds_instructions && place::instructions_changed(self.items, &path) {
                let mut all: Vec<usize> = (0..self.items.len())
                    .filter(|i| self.items.get(*i).is_some_and(UnifiedItem::is_instructions))
                    .collect();
                all.append(&mut place.new_items);
                place.new_items = all;
            }
        }
        let new_items: HashSet<usize> = place.new_items.iter().copied().collect();
        let is_new = |atom: &Atom| atom.kind == super::atoms::AtomKind::User && new_items.contains(&atom.item);
        let (link, user_links) = if is_delta {
            let before = root.along(&atoms(&path)).last().copied().unwrap_or(root);
            let along = before.along(asked);
            (along.last().copied().unwrap_or(before), pair(asked, &along, &is_new))
        } else {
            (links.last().copied().unwrap_or(root), pair(asked, links, &is_new))
        };
        Ok(Found {
            home,
            path,
            appended,
            revisions,
            place,
            is_delta,
            link,
            calls,
            user_links,
            session: None,
        })
    }

    pub(super) async fn path(&self, branch_id: &UnifiedId) -> Result<BranchPath, UnifiedError> {
        let mut items = self.engine.branch_path(branch_id).await?;
        let list = self.engine.store.branch_revisions(branch_id).await.map_err(|e| e.to_unified())?;
        let mut revisions: HashMap<UnifiedId, u64> = HashMap::new();
        for revision in &list {
            *revisions.entry(revision.item_id.clone()).or_default() += 1;
        }
        let revised = items.iter().filter(|item| revisions.contains_key(&item.id));
        let appended = revised.map(|item| (item.id.clone(), item.clone())).collect();
        revision::bring_up_to_date(&mut items, &list);
        Ok(BranchPath {
            items,
            appended,
            revisions,
        })
    }

    /// Gives the results of the path the text of the client's copy, and tells of each that changed.
    fn rewrite(&self, place: &Place, path: &mut BranchPath) -> Vec<Rewrite> {
        let mut rewrites = Vec::new();
        for (on, at) in &place.rewritten {
            let (Some(stored), Some(mut told)) = (path.items.get_mut(*on), self.items.get(*at).cloned()) else {
                continue;
            };
            // What the client's wire says beside the text was stored with the item, or is not this item's.
            private::retain_references(&mut told, &mut |_| false);
            path.appended.entry(stored.id.clone()).or_insert_with(|| stored.clone());
            let before = path.revisions.get(&stored.id).copied().unwrap_or_default();
            let change = RevisionChange {
                parts: Some(told.parts().to_vec()),
                ..RevisionChange::default()
            };
            stored.revise(&change);
            rewrites.push(Rewrite {
                item_id: stored.id.clone(),
                parts: change.parts.unwrap_or_default(),
                number: (before < MAX_REVISIONS).then_some(before + 1),
            });
        }
        rewrites
    }

    /// The deepest answer that this gateway delivered, looked up from the end backwards; within a named conversation only there.
    async fn evidence(
        &self,
        asked: &[Atom],
        links: &[Link],
        named: Option<&(UnifiedConversation, UnifiedBranch)>,
    ) -> Result<Option<(usize, Answered)>, UnifiedError> {
        let answers: Vec<usize> = asked.iter().enumerate().filter(|(_, a)| a.is_answer()).map(|(i, _)| i).collect();
        for batch in answers.rchunks(LOOKUP_BATCH) {
            let hashes: Vec<_> = batch.iter().filter_map(|i| links.get(*i)).map(|l| l.hash).collect();
            let rows = self
                .engine
                .store
                .lineage(self.principal_ref, &hashes)
                .await
                .map_err(|e| e.to_unified())?;
            for atom in batch.iter().rev() {
                let Some(link) = links.get(*atom) else { continue };
                let candidates: Vec<&LineageRow> = rows
                    .iter()
                    .filter(|r| r.evidence && r.link == link.hash && r.lineage_version == LINEAGE_VERSION)
                    .filter(|r| named.is_none_or(|(conversation, _)| conversation.conversation_id == r.conversation_id))
                    .collect();
                if let Some(row) = self.choose(&candidates).await? {
                    let answered = Answered {
                        conversation: row.conversation_id,
                        branch: row.branch_id,
                        item: row.item_id,
                    };
                    return Ok(Some((*atom, answered)));
                }
            }
        }
        Ok(None)
    }

    fn same_call(&self, pairs: &CallPairs, asked: &str, known: &str) -> bool {
        pairs.same(asked, known) || pairs.known(asked).is_none() && self.codec.wire_call_id(known) == asked
    }

    /// Between twins: most issued IDs echoed, then the client's session, then a branch head, then the most recent; rows come newest
    /// first.
    async fn choose(&self, candidates: &[&LineageRow]) -> Result<Option<LineageRow>, UnifiedError> {
        let [first, _, ..] = candidates else {
            return Ok(candidates.first().map(|row| (*row).clone()));
        };
        let hashes = issued::echoed(&self.engine.vault, self.items, self.resources)?;
        let issued = if hashes.is_empty() {
            Vec::new()
        } else {
            self.engine
                .store
                .issued_ids(self.principal_ref, &hashes)
                .await
                .map_err(|e| e.to_unified())?
        };
        let echoes = |row: &LineageRow| {
            let on_branch = issued.iter().filter(|i| i.branch_id == row.branch_id).count();
            let in_conversation = issued.iter().filter(|i| i.conversation_id == row.conversation_id).count();
            (on_branch, in_conversation)
        };
        let mut best = foremost(candidates.to_vec(), echoes);
        if best.len() > 1 {
            let session = self.of_session().await?;
            best = foremost(best, |row| {
                let on_branch = session.iter().any(|known| known.branch_id == row.branch_id);
                (on_branch, session.iter().any(|known| known.conversation_id == row.conversation_id))
            });
        }
        for row in &best {
            let branch = self.engine.store.branch(&row.branch_id).await.map_err(|e| e.to_unified())?;
            if branch.is_some_and(|b| b.head_item_id.as_ref() == Some(&row.item_id)) {
                return Ok(Some((*row).clone()));
            }
        }
        Ok(Some((*best.first().unwrap_or(first)).clone()))
    }

    async fn named_conversation(&self, id: &UnifiedId) -> Result<(UnifiedConversation, UnifiedBranch), UnifiedError> {
        let conversation = self.engine.store.conversation(id).await.map_err(|e| e.to_unified())?;
        let conversation = conversation
            .filter(|c| c.principal_ref == self.principal_ref)
            .ok_or_else(|| not_found("conversation"))?;
        let branch = self.branch(self.branch.unwrap_or(&conversation.default_branch_id)).await?;
        if branch.conversation_id != conversation.conversation_id {
            return Err(not_found("branch"));
        }
        Ok((conversation, branch))
    }

    pub(super) async fn branch(&self, id: &UnifiedId) -> Result<UnifiedBranch, UnifiedError> {
        self.engine
            .store
            .branch(id)
            .await
            .map_err(|e| e.to_unified())?
            .ok_or_else(|| not_found("branch"))
    }
}

/// The rows with the highest rank, in their order.
fn foremost<R: Ord + Default>(rows: Vec<&LineageRow>, rank: impl Fn(&LineageRow) -> R) -> Vec<&LineageRow> {
    let most = rows.iter().map(|row| rank(row)).max().unwrap_or_default();
    rows.into_iter().filter(|row| rank(row) == most).collect()
}

fn pair(asked: &[Atom], links: &[Link], is_new: &dyn Fn(&Atom) -> bool) -> Vec<(usize, Link)> {
    asked
        .iter()
        .zip(links)
        .filter(|(atom, _)| is_new(atom))
        .map(|(atom, link)| (atom.item, *link))
        .collect()
}
