//! What a memory store holds: one [`Scope`] per conversation, and an index from IDs to conversations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use throughline_format::{
    Sha256, Timestamp, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease, UnifiedOperation,
    UnifiedProviderCheckpoint, UnifiedResultV2,
};

use crate::apply::BranchRow;
use crate::records::{
    CollectReport, CollectRequest, IntegrityReport, IssuedId, LineageRow, SealedResource, SessionKeyRow, StoredAnnotation, StoredArtifact,
    SweepReport, SweepRequest,
};

/// Kinds of rows whose IDs are unique in the whole store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Branch,
    Item,
    Revision,
    Operation,
    Resource,
    Checkpoint,
    Annotation,
    Lease,
}

/// A row with its place in the order of arrival.
#[derive(Clone, Debug)]
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) row: T,
}

/// An operation with what hangs on it.
#[derive(Clone, Debug)]
pub(super) struct OperationEntry {
    pub(super) record: UnifiedOperation,
    pub(super) events: Vec<Bytes>,
    pub(super) result: Option<Arc<UnifiedResultV2>>,
    pub(super) deleted: bool,
}

/// Everything of one conversation.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) conversation: UnifiedConversation,
    pub(super) deleted: bool,
    pub(super) branches: BTreeMap<UnifiedId, Numbered<BranchRow>>,
    pub(super) items: BTreeMap<UnifiedId, Arc<UnifiedItem>>,
    /// (branch, sequence) to item.
    pub(super) places: BTreeMap<(UnifiedId, u64), UnifiedId>,
    /// By item, in order.
    pub(super) revisions: BTreeMap<UnifiedId, Vec<Arc<UnifiedItemRevision>>>,
    pub(super) operations: BTreeMap<UnifiedId, Numbered<Arc<OperationEntry>>>,
    pub(super) resources: BTreeMap<UnifiedId, Numbered<SealedResource>>,
    pub(super) checkpoints: BTreeMap<UnifiedId, Numbered<UnifiedProviderCheckpoint>>,
    pub(super) annotations: BTreeMap<UnifiedId, StoredAnnotation>,
    pub(super) lineage: Vec<Numbered<LineageRow>>,
    pub(super) issued_ids: Vec<Numbered<IssuedId>>,
    pub(super) session_keys: Vec<Numbered<SessionKeyRow>>,
    pub(super) artifact_refs: BTreeSet<(UnifiedId, UnifiedId)>,
    pub(super) leases: BTreeMap<UnifiedId, UnifiedLease>,
}

impl Scope {
    pub(super) const fn new(conversation: UnifiedConversation) -> Self {
        Self {
            conversation,
            deleted: false,
            branches: BTreeMap::new(),
            items: BTreeMap::new(),
            places: BTreeMap::new(),
            revisions: BTreeMap::new(),
            operations: BTreeMap::new(),
            resources: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            annotations: BTreeMap::new(),
            lineage: Vec::new(),
            issued_ids: Vec::new(),
            session_keys: Vec::new(),
            artifact_refs: BTreeSet::new(),
            leases: BTreeMap::new(),
        }
    }

    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.operations.values().any(|entry| !entry.row.record.state.is_terminal())
            || self.leases.values().any(|lease| lease.expires_at > now)
    }

    /// The operations that reads may see.
    pub(super) fn live_operations(&self) -> impl Iterator<Item = &Numbered<Arc<OperationEntry>>> {
        self.operations.values().filter(|entry| !entry.row.deleted)
    }

    pub(super) fn revision(&self, id: &UnifiedId) -> Option<&Arc<UnifiedItemRevision>> {
        self.revisions.values().flatten().find(|revision| revision.revision_id == *id)
    }

    fn rows(&self) -> u64 {
        let operations: usize = self.operations.values().map(|entry| 1 + entry.row.events.len()).sum();
        let revisions: usize = self.revisions.values().map(Vec::len).sum();
        let others = [
            1,
            self.branches.len(),
            self.items.len(),
            self.resources.len(),
            self.checkpoints.len(),
            self.annotations.len(),
            self.lineage.len(),
            self.issued_ids.len(),
            self.session_keys.len(),
            self.artifact_refs.len(),
            self.leases.len(),
        ];
        (operations + revisions + others.iter().sum::<usize>()) as u64
    }
}

/// Rows that no single conversation owns.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    pub(super) artifacts: BTreeMap<UnifiedId, StoredArtifact>,
    pub(super) contents: BTreeMap<Sha256, Bytes>,
    pub(super) pins: BTreeMap<(Sha256, UnifiedId), Timestamp>,
    pub(super) pending_gc: BTreeMap<Sha256, Timestamp>,
}

/// A whole store.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) closed: bool,
    pub(super) scopes: BTreeMap<UnifiedId, Arc<Scope>>,
    /// Which conversation a row is in.
    pub(super) homes: HashMap<(Kind, UnifiedId), UnifiedId>,
    pub(super) shared: Arc<Shared>,
    pub(super) next_number: u64,
}

/// What a batch makes of the store.
pub(super) struct Changes {
    pub(super) conversation_id: UnifiedId,
    pub(super) scope: Option<Scope>,
    pub(super) added: Vec<(Kind, UnifiedId)>,
    pub(super) removed: Vec<(Kind, UnifiedId)>,
    pub(super) shared: Arc<Shared>,
    pub(super) next_number: u64,
}

impl State {
    /// Takes over a batch that has succeeded.
    pub(super) fn adopt(&mut self, changes: Changes) {
        for key in changes.removed {
            self.homes.remove(&key);
        }
        for key in changes.added {
            self.homes.insert(key, changes.conversation_id.clone());
        }
        if let Some(scope) = changes.scope {
            self.scopes.insert(changes.conversation_id, Arc::new(scope));
        }
        self.shared = changes.shared;
        self.next_number = changes.next_number;
    }

    /// A conversation that is not deleted.
    pub(super) fn live(&self, id: &UnifiedId) -> Option<&Scope> {
        self.scopes.get(id).map(Arc::as_ref).filter(|scope| !scope.deleted)
    }

    /// Every conversation that is not deleted.
    pub(super) fn all_live(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.values().map(Arc::as_ref).filter(|scope| !scope.deleted)
    }

    /// The conversation that a row is in, unless it is deleted.
    pub(super) fn home(&self, kind: Kind, id: &UnifiedId) -> Option<&Scope> {
        self.live(self.homes.get(&(kind, id.clone()))?)
    }

    /// An operation that reads may see.
    pub(super) fn live_operation(&self, id: &UnifiedId) -> Option<&Numbered<Arc<OperationEntry>>> {
        let entry = self.home(Kind::Operation, id)?.operations.get(id)?;
        (!entry.row.deleted).then_some(entry)
    }

    /// Removes deleted conversations until the bound is reached; one at least.
    pub(super) fn sweep(&mut self, request: SweepRequest) -> SweepReport {
        let mut report = SweepReport::default();
        self.drop_lapsed(request.now);
        report.rows += self.drop_deleted_events();
        let deleted: Vec<UnifiedId> = self
            .scopes
            .iter()
            .filter(|(_, scope)| scope.deleted)
            .map(|(id, _)| id.clone())
            .collect();
        for id in deleted {
            if report.rows >= request.max_rows as u64 {
                report.more = true;
                break;
            }
            let Some(scope) = self.scopes.remove(&id) else { continue };
            report.rows += scope.rows();
            report.conversations += 1;
            self.homes.retain(|_, home| *home != id);
            report.artifacts_pending += self.drop_references(&scope, request.now);
        }
        report
    }

    fn drop_lapsed(&mut self, now: Timestamp) {
        let shared = Arc::make_mut(&mut self.shared);
        shared.pins.retain(|_, expires_at| *expires_at > now);
        for scope in self.scopes.values_mut() {
            if scope.leases.values().any(|lease| lease.expires_at <= now) {
                let scope = Arc::make_mut(scope);
                scope.leases.retain(|id, lease| {
                    let live = lease.expires_at > now;
                    if !live {
                        self.homes.remove(&(Kind::Lease, id.clone()));
                    }
                    live
                });
            }
        }
    }

    /// Removes the events of deleted operations; how many there were.
    fn drop_deleted_events(&mut self) -> u64 {
        let mut rows = 0;
        let to_sweep = |entry: &Numbered<Arc<OperationEntry>>| entry.row.deleted && !entry.row.events.is_empty();
        for scope in self.scopes.values_mut().filter(|scope| scope.operations.values().any(to_sweep)) {
            for entry in Arc::make_mut(scope).operations.values_mut().filter(|entry| to_sweep(entry)) {
                rows += std::mem::take(&mut Arc::make_mut(&mut entry.row).events).len() as u64;
            }
        }
        rows
    }

    fn drop_references(&mut self, scope: &Scope, now: Timestamp) -> u64 {
        let shared = Arc::make_mut(&mut self.shared);
        let mut pending = 0;
        for (artifact_id, _) in &scope.artifact_refs {
            let Some(stored) = shared.artifacts.get_mut(artifact_id) else {
                continue;
            };
            stored.references = stored.references.saturating_sub(1);
            let sha256 = stored.artifact.sha256;
            // Several principals may have the same bytes: the file goes when nobody refers to it.
            let referred = shared
                .artifacts
                .values()
                .any(|stored| stored.artifact.sha256 == sha256 && stored.references > 0);
            let pinned = shared.pins.keys().any(|(pinned, _)| *pinned == sha256);
            if !referred && !pinned && shared.pending_gc.insert(sha256, now).is_none() {
                pending += 1;
            }
        }
        pending
    }

    /// Removes the metadata of artifacts that nothing has referred to since the cutoff. There is no content to remove.
    pub(super) fn collect(&mut self, request: CollectRequest) -> CollectReport {
        let shared = Arc::make_mut(&mut self.shared);
        let used = |shared: &Shared, sha256: &Sha256| {
            let referred = shared
                .artifacts
                .values()
                .any(|stored| stored.artifact.sha256 == *sha256 && stored.references > 0);
            referred
                || shared
                    .pins
                    .iter()
                    .any(|((pinned, _), until)| pinned == sha256 && *until > request.now)
        };
        // What was stored and never referred to is marked now, and goes when the grace time is over.
        let unused: Vec<Sha256> = shared.artifacts.values().map(|stored| stored.artifact.sha256).collect();
        for sha256 in unused {
            if !used(shared, &sha256) {
                shared.pending_gc.entry(sha256).or_insert(request.now);
            }
        }
        let mut report = CollectReport::default();
        let due: Vec<Sha256> = shared
            .pending_gc
            .iter()
            .filter(|(_, marked)| **marked <= request.cutoff())
            .map(|(sha256, _)| *sha256)
            .collect();
        report.more = due.len() > request.max_digests;
        for sha256 in due.into_iter().take(request.max_digests) {
            shared.pending_gc.remove(&sha256);
            if used(shared, &sha256) {
                continue;
            }
            let size = shared.artifacts.values().find(|stored| stored.artifact.sha256 == sha256);
            report.bytes += size.map_or(0, |stored| stored.artifact.size);
            report.artifacts += 1;
            shared.contents.remove(&sha256);
            shared.artifacts.retain(|_, stored| stored.artifact.sha256 != sha256);
        }
        report
    }

    /// The invariants that a database would check as well.
    pub(super) fn check(&self) -> IntegrityReport {
        let mut counts: BTreeMap<&UnifiedId, u64> = BTreeMap::new();
        for (artifact_id, _) in self.scopes.values().flat_map(|scope| &scope.artifact_refs) {
            *counts.entry(artifact_id).or_default() += 1;
        }
        let wrong: Vec<&UnifiedId> = self
            .shared
            .artifacts
            .iter()
            .filter(|(id, stored)| stored.references != counts.get(id).copied().unwrap_or(0))
            .map(|(id, _)| id)
            .collect();
        let refcounts = if wrong.is_empty() {
            "ok".to_owned()
        } else {
            format!("{} artifacts have a wrong count", wrong.len())
        };
        let referred = self.shared.artifacts.values().filter(|stored| stored.references > 0);
        let absent = referred
            .filter(|stored| !self.shared.contents.contains_key(&stored.artifact.sha256))
            .count();
        let problems = (absent > 0).then(|| format!("{absent} artifacts whose content is missing or altered"));
        IntegrityReport {
            integrity: "ok".to_owned(),
            foreign_keys: 0,
            refcounts,
            problems: problems.into_iter().collect(),
        }
    }
}
