//! A bundle on its way in: what it says, checked, and its IDs.

use crate::ports::{Clock, IdKind, IdSource};
use crate::private;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use throughline_format::compaction;
use throughline_format::json::decode_slice;
use throughline_format::media::decode_base64;
use throughline_format::validate::semantics;
use throughline_format::{
    ErrorCategory, Sha256, Timestamp, UnifiedConversation, UnifiedError, UnifiedExportV2, UnifiedId, UnifiedItem, UnifiedItemBody, rename,
};
use throughline_store::WriteOp;

/// The contents of artifacts by their digests.
pub(crate) type Contents = BTreeMap<Sha256, Bytes>;

/// Reads and checks the lines of a bundle: the record, then the content of each artifact that it names.
pub(crate) fn read(lines: &[u8], most_branches: usize) -> Result<(UnifiedExportV2, Contents), UnifiedError> {
    let mut lines = lines.split(|byte| *byte == b'\n');
    let bundle: UnifiedExportV2 = decode_slice(lines.next().unwrap_or_default())?;
    // The store would refuse it too, but with half of the conversation stored.
    if bundle.branches.len() > most_branches {
        let message = format!("the bundle has more than {most_branches} branches");
        return Err(UnifiedError::new(ErrorCategory::Limit, "branches", message).at("/branches"));
    }
    if let Some(violation) = semantics::export(&bundle).into_iter().next() {
        return Err(violation.into());
    }
    let mut contents = Contents::new();
    for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
        let line: BTreeMap<String, String> = decode_slice(line)?;
        let (Some(told), Some(data), 2) = (line.get("sha256"), line.get("data"), line.len()) else {
            return Err(broken("after its first line a bundle has lines of `sha256` and `data`"));
        };
        let content = decode_base64(data).map(Bytes::from);
        let Some((sha256, content)) = content.map(|c| (Sha256::of(&c), c)).filter(|(sha256, _)| sha256.to_hex() == *told) else {
            return Err(broken("the content of an artifact is not what its digest says"));
        };
        contents.insert(sha256, content);
    }
    for artifact in &bundle.artifacts {
        match contents.get(&artifact.sha256) {
            Some(content) if content.len() as u64 == artifact.size => {}
            Some(_) => return Err(broken("the content of an artifact is not of the size that is told")),
            None => {
                return Err(broken(
                    "the bundle has artifacts without their content; export it with ?artifacts=true",
                ));
            }
        }
    }
    let named: BTreeSet<Sha256> = bundle.artifacts.iter().map(|artifact| artifact.sha256).collect();
    contents.retain(|sha256, _| named.contains(sha256));
    Ok((bundle, contents))
}

fn broken(message: &str) -> UnifiedError {
    UnifiedError::new(ErrorCategory::InvalidRequest, "artifacts", message).at("/artifacts")
}

/// Where an import takes its time and its IDs from.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    /// Whose the conversation will be.
    pub(crate) principal_ref: String,
}

/// A bundle on its way to IDs of this store.
pub(crate) struct Import {
    pub(crate) bundle: UnifiedExportV2,
    pub(crate) now: Timestamp,
    /// What IDs of items and parts are derived from.
    pub(crate) base: UnifiedId,
    conversation_id: UnifiedId,
    branches: BTreeMap<UnifiedId, UnifiedId>,
    artifacts: BTreeMap<UnifiedId, UnifiedId>,
}

impl Import {
    /// With the IDs of the bundle.
    pub(crate) fn keeping(source: Source, mut bundle: UnifiedExportV2) -> Self {
        let now = source.clock.now();
        bundle.conversation.last_updated_at = now;
        bundle.conversation.principal_ref = source.principal_ref;
        let annotations: BTreeSet<UnifiedId> = bundle.annotations.iter().map(|a| a.resource_id.clone()).collect();
        for item in &mut bundle.items {
            private::retain_references(item, &mut |reference| annotations.contains(&reference.resource_id));
        }
        Self {
            conversation_id: bundle.conversation.conversation_id.clone(),
            bundle,
            now,
            base: source.ids.next(IdKind::Request),
            branches: BTreeMap::new(),
            artifacts: BTreeMap::new(),
        }
    }

    /// With new IDs.
    pub(crate) fn renaming(source: Source, mut bundle: UnifiedExportV2) -> Result<Self, UnifiedError> {
        let now = source.clock.now();
        let artifacts = bundle
            .artifacts
            .iter()
            .map(|artifact| (artifact.artifact_id.clone(), source.ids.next(IdKind::Artifact)));
        let artifacts = artifacts.collect();
        let branches = bundle
            .branches
            .iter()
            .map(|branch| (branch.branch_id.clone(), source.ids.next(IdKind::Branch)))
            .collect();
        let conversation_id = source.ids.next(IdKind::Conversation);
        bundle.conversation = UnifiedConversation {
            conversation_id: conversation_id.clone(),
            last_updated_at: now,
            principal_ref: source.principal_ref,
            ..bundle.conversation
        };
        let mut import = Self {
            bundle,
            now,
            base: source.ids.next(IdKind::Request),
            conversation_id,
            branches,
            artifacts,
        };
        import.rename()?;
        Ok(import)
    }

    /// The references of items to artifacts, one for each pair.
    pub(crate) fn artifact_references(&self) -> Vec<WriteOp> {
        let mut found = BTreeSet::new();
        for item in &self.bundle.items {
            rename::artifacts(&mut item.clone(), &mut |id| {
                found.insert((id.clone(), item.id.clone()));
            });
        }
        for revision in &self.bundle.revisions {
            for part in revision.change.parts.iter().flatten() {
                rename::part_artifacts(&mut part.clone(), &mut |id| {
                    found.insert((id.clone(), revision.item_id.clone()));
                });
            }
        }
        let known: BTreeSet<&UnifiedId> = self.bundle.artifacts.iter().map(|artifact| &artifact.artifact_id).collect();
        let named = found.into_iter().filter(|(artifact, _)| known.contains(artifact));
        named
            .map(|(artifact_id, subject)| WriteOp::AddArtifactRef { artifact_id, subject })
            .collect()
    }

    fn branch(&self, id: &mut UnifiedId) {
        if let Some(new) = self.branches.get(id) {
            *id = new.clone();
        }
    }

    fn artifact(&self, id: &mut UnifiedId) {
        if let Some(new) = self.artifacts.get(id) {
            *id = new.clone();
        }
    }

    fn rename(&mut self) -> Result<(), UnifiedError> {
        let mut ids: BTreeMap<UnifiedId, UnifiedId> = BTreeMap::new();
        for (ordinal, item) in (0..).zip(&self.bundle.items) {
            let id = self.base.item(ordinal);
            let mut own = Vec::new();
            item.parts().iter().for_each(|part| rename::part_ids(part, &mut own));
            ids.extend((0..).zip(own).map(|(part, old)| (old, id.part(part))));
            ids.insert(item.id.clone(), id);
        }
        let annotations: BTreeMap<UnifiedId, UnifiedId> = (0..)
            .zip(&self.bundle.annotations)
            .map(|(ordinal, annotation)| (annotation.resource_id.clone(), self.base.resource(ordinal)))
            .collect();
        let follow = |id: &mut UnifiedId| {
            if let Some(new) = ids.get(id) {
                *id = new.clone();
            }
        };
        let mut items = std::mem::take(&mut self.bundle.items);
        for item in &mut items {
            rename::item(item, &mut |id| follow(id));
            rename::artifacts(item, &mut |id| self.artifact(id));
            item.base.conversation_id = self.conversation_id.clone();
            self.branch(&mut item.base.branch_id);
            private::retain_references(item, &mut |reference| match annotations.get(&reference.resource_id) {
                Some(new) => {
                    reference.resource_id = new.clone();
                    true
                }
                None => false,
            });
        }
        audit(&mut items)?;
        self.bundle.items = items;
        let mut branches = std::mem::take(&mut self.bundle.branches);
        for branch in &mut branches {
            self.branch(&mut branch.branch_id);
            branch.conversation_id = self.conversation_id.clone();
            branch.parent_branch_id.iter_mut().for_each(|id| self.branch(id));
            branch.fork_item_id.iter_mut().for_each(follow);
            branch.head_item_id.iter_mut().for_each(follow);
        }
        self.bundle.branches = branches;
        let mut default = self.bundle.conversation.default_branch_id.clone();
        self.branch(&mut default);
        self.bundle.conversation.default_branch_id = default;
        let follow_artifact = |id: &mut UnifiedId| {
            if let Some(new) = self.artifacts.get(id) {
                *id = new.clone();
            }
        };
        for artifact in &mut self.bundle.artifacts {
            follow_artifact(&mut artifact.artifact_id);
        }
        let known: BTreeSet<&UnifiedId> = ids.values().collect();
        for revision in &mut self.bundle.revisions {
            follow(&mut revision.item_id);
            revision.revision_id = UnifiedId::parse(&format!("{}.r{}", revision.item_id, revision.number))
                .map_err(|e| UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", e.to_string()).at("/revisions"))?;
            let new = revision.item_id.clone();
            for (ordinal, part) in (0..).zip(revision.change.parts.iter_mut().flatten()) {
                rename::part(part, &mut |id| follow(id));
                rename::part_artifacts(part, &mut |id| follow_artifact(id));
                if !known.contains(&part.base.part_id) {
                    part.base.part_id = new.part(ordinal);
                }
            }
        }
        for annotation in &mut self.bundle.annotations {
            if let Some(new) = annotations.get(&annotation.resource_id) {
                annotation.resource_id = new.clone();
            }
        }
        Ok(())
    }
}

/// Summaries name what they cover by hashes of items with their IDs, so those are made anew; the old ones were checked with
/// the bundle. A summary stands after what it covers, so each is final when a later one is made.
fn audit(items: &mut [UnifiedItem]) -> Result<(), UnifiedError> {
    let places: BTreeMap<UnifiedId, usize> = items.iter().enumerate().map(|(at, item)| (item.id.clone(), at)).collect();
    let mut summaries: Vec<usize> = (0..items.len())
        .filter(|at| {
            items
                .get(*at)
                .is_some_and(|item| matches!(item.body, UnifiedItemBody::CompactionSummary(_)))
        })
        .collect();
    summaries.sort_by_key(|at| items.get(*at).map(|item| item.sequence));
    for at in summaries {
        let Some(UnifiedItemBody::CompactionSummary(summary)) = items.get(at).map(|item| &item.body) else {
            continue;
        };
        let mut covered = Vec::new();
        let mut next = Some(summary.covers.to_item_id.clone());
        while let Some(item) = next.as_ref().and_then(|id| places.get(id)).and_then(|place| items.get(*place)) {
            covered.push(item);
            next = item.parent_id.clone();
        }
        if covered.len() as u64 != summary.covers.count {
            let message = "a summary covers items whose parents are not told";
            return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "validation", message).at("/items"));
        }
        let hash = compaction::audit_hash(covered.into_iter().rev())
            .map_err(|e| UnifiedError::new(ErrorCategory::InvalidRequest, "validation", e.to_string()))?;
        if let Some(UnifiedItemBody::CompactionSummary(summary)) = items.get_mut(at).map(|item| &mut item.body) {
            summary.audit_hash = hash;
        }
    }
    Ok(())
}
