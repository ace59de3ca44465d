//! A bundle: branches as a tree, items on their paths, revisions, annotations, artifacts, and the fingerprint of it all.

use super::conversation::{parent, part_ids};
use super::items::{self, Around};
use super::parts::Known;
use super::path::{Undo, Walk};
use super::revisions;
use super::shared::Ids;
use crate::canonical::{self, CanonicalError};
use crate::conversation::{UnifiedArtifact, UnifiedBranch, UnifiedConversation};
use crate::export::PrivateResourceEntry;
use crate::item::{UnifiedItem, UnifiedItemBody, UnifiedItemRevision};
use crate::media::UnifiedDataSource;
use crate::part::PartBody;
use crate::profile::SchemaVersion;
use crate::resource::{ProviderDataScope, UnifiedProviderDataRef};
use crate::validate::{Check, Pending, Rule};
use crate::{Sha256, Timestamp, UnifiedExportV2, UnifiedId, UnifiedPortableAnnotation};
use std::collections::{HashMap, HashSet};

/// A bundle without its fingerprint.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Unsigned<'a> {
    schema_version: SchemaVersion,
    exported_at: Timestamp,
    conversation: &'a UnifiedConversation,
    branches: &'a [UnifiedBranch],
    items: &'a [UnifiedItem],
    revisions: &'a [UnifiedItemRevision],
    annotations: &'a [UnifiedPortableAnnotation],
    artifacts: &'a [UnifiedArtifact],
    private_resources: &'a [PrivateResourceEntry],
}

/// The fingerprint of a bundle: of its canonical form without the member `fingerprint`.
///
/// # Errors
/// As [`canonical::fingerprint`].
pub fn export_fingerprint(export: &UnifiedExportV2) -> Result<Sha256, CanonicalError> {
    canonical::fingerprint(&Unsigned {
        schema_version: export.schema_version,
        exported_at: export.exported_at,
        conversation: &export.conversation,
        branches: &export.branches,
        items: &export.items,
        revisions: &export.revisions,
        annotations: &export.annotations,
        artifacts: &export.artifacts,
        private_resources: &export.private_resources,
    })
}

pub(super) fn check(check: &mut Check, export: &UnifiedExportV2) {
    conversation(check, export);
    branches(check, export);
    history(check, export);
    Tree::of(export).walk(check);
    item_revisions(check, export);
    stores(check, export);
    if !check.has(Rule::PartDepth) {
        let right = export_fingerprint(export).is_ok_and(|f| f == export.fingerprint);
        check.require(right, "fingerprint", Rule::Fingerprint, "the rest of the bundle has another one");
    }
}

fn conversation(check: &mut Check, export: &UnifiedExportV2) {
    check.inside("conversation", |check| {
        super::conversation::record(check, &export.conversation);
        let default = &export.conversation.default_branch_id;
        let known = export.branches.iter().any(|b| b.branch_id == *default);
        check.require(known, "defaultBranchId", Rule::UnknownReference, "no branch has this ID");
    });
}

/// Branches for themselves.
fn branches(check: &mut Check, export: &UnifiedExportV2) {
    let mut ids = Ids::of("branch");
    let all: HashSet<_> = export.branches.iter().map(|b| &b.branch_id).collect();
    check.each("branches", &export.branches, |check, branch| {
        ids.add(check, "branchId", &branch.branch_id);
        let own = branch.conversation_id == export.conversation.conversation_id;
        check.require(
            own,
            "conversationId",
            Rule::OtherConversation,
            "the branch belongs to another conversation",
        );
        let both = branch.parent_branch_id.is_some() == branch.fork_item_id.is_some();
        check.require(both, "forkItemId", Rule::BranchFork, "a fork names its parent and its item");
        if let Some(parent) = &branch.parent_branch_id {
            check.require(
                all.contains(parent),
                "parentBranchId",
                Rule::UnknownReference,
                "no branch has this ID",
            );
        }
        let empty = branch.head_item_id.is_none() == (branch.head_sequence == 0);
        check.require(
            empty,
            "headSequence",
            Rule::BranchHead,
            "a branch without a head has the sequence 0",
        );
    });
}

/// Items and their parts for themselves.
fn history(check: &mut Check, export: &UnifiedExportV2) {
    let known = Known::of(export.items.iter(), true);
    let around = Around {
        pending: Pending::Refused,
        conversation: Some(&export.conversation.conversation_id),
        known: &known,
    };
    let (mut ids, mut parts) = (Ids::of("item"), Ids::of("part"));
    check.each("items", &export.items, |check, item| {
        ids.add(check, "id", &item.id);
        part_ids(check, item, &mut parts);
        items::one(check, item, &around);
    });
}

/// The branches with their own items, and what forks where.
struct Tree<'a> {
    export: &'a UnifiedExportV2,
    /// Places of each branch's own items, in order.
    own: HashMap<&'a UnifiedId, Vec<usize>>,
    /// Places of the branches that fork at an item.
    forks: HashMap<&'a UnifiedId, Vec<usize>>,
    place_of: HashMap<&'a UnifiedId, usize>,
}

/// When the walk came to branches, and when it came to items and left them.
#[derive(Default)]
struct Visits {
    now: u64,
    branches: HashMap<usize, u64>,
    items: HashMap<usize, (u64, u64)>,
}

impl Visits {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Comes to a branch; false when it was here before.
    fn branch(&mut self, index: usize) -> bool {
        let now = self.tick();
        self.branches.insert(index, now).is_none()
    }

    fn enter(&mut self, place: usize) {
        let now = self.tick();
        self.items.insert(place, (now, u64::MAX));
    }

    fn leave(&mut self, place: usize) {
        let now = self.tick();
        if let Some((_, left)) = self.items.get_mut(&place) {
            *left = now;
        }
    }

    /// Whether an item stands on the path that leads to a branch.
    fn is_above(&self, place: usize, branch: usize) -> bool {
        matches!((self.items.get(&place), self.branches.get(&branch)), (Some((entered, left)), Some(came)) if entered < came && came < left)
    }
}

enum Step<'a> {
    Branch(usize),
    Item { branch: usize, nth: usize },
    Leave(usize, Undo<'a>),
}

impl<'a> Tree<'a> {
    fn of(export: &'a UnifiedExportV2) -> Self {
        let mut tree = Self {
            export,
            own: HashMap::new(),
            forks: HashMap::new(),
            place_of: HashMap::new(),
        };
        for (index, item) in export.items.iter().enumerate() {
            tree.own.entry(&item.branch_id).or_default().push(index);
            tree.place_of.entry(&item.id).or_insert(index);
        }
        for (index, branch) in export.branches.iter().enumerate() {
            if let Some(fork) = &branch.fork_item_id {
                tree.forks.entry(fork).or_default().push(index);
            }
        }
        tree
    }

    fn branch(&self, index: usize) -> Option<(&'a UnifiedBranch, &[usize])> {
        let branch = self.export.branches.get(index)?;
        Some((branch, self.own.get(&branch.branch_id).map_or(&[], Vec::as_slice)))
    }

    /// Goes once over every item of every branch, from the roots on.
    fn walk(&self, check: &mut Check) {
        let mut walk = Walk::new(true, Walk::needs_audit(&self.export.items));
        let mut visits = Visits::default();
        let roots = self.export.branches.iter().enumerate().filter(|(_, b)| b.fork_item_id.is_none());
        let mut open: Vec<Step<'a>> = roots.map(|(index, _)| Step::Branch(index)).rev().collect();
        while let Some(step) = open.pop() {
            match step {
                Step::Branch(index) => {
                    let Some((branch, own)) = self.branch(index).filter(|_| visits.branch(index)) else {
                        continue;
                    };
                    check.inside("branches", |check| {
                        check.element(index, |check| self.head(check, branch, own, walk.last()));
                    });
                    open.push(Step::Item { branch: index, nth: 0 });
                }
                Step::Item { branch, nth } => {
                    let Some(place) = self.branch(branch).and_then(|(_, own)| own.get(nth)).copied() else {
                        continue;
                    };
                    let Some(item) = self.export.items.get(place) else { continue };
                    visits.enter(place);
                    let undo = check.inside("items", |check| {
                        check.element(place, |check| {
                            let expected = walk.last().map_or(1, |before| before.sequence.saturating_add(1));
                            check.require(
                                item.sequence == expected,
                                "sequence",
                                Rule::Sequence,
                                format_args!("on its path this is item {expected}"),
                            );
                            parent(check, item, walk.last(), true);
                            walk.enter(check, item)
                        })
                    });
                    open.push(Step::Leave(place, undo));
                    open.push(Step::Item { branch, nth: nth + 1 });
                    if let Some(forks) = self.forks.get(&item.id).filter(|_| self.place_of.get(&item.id) == Some(&place)) {
                        open.extend(forks.iter().rev().map(|index| Step::Branch(*index)));
                    }
                }
                Step::Leave(place, undo) => {
                    visits.leave(place);
                    walk.leave(undo);
                }
            }
        }
        self.fork_places(check, &visits);
        self.circles(check);
        self.unreached(check, &visits);
    }

    /// Head and fork of a branch; `before` is the item that it goes on from.
    fn head(&self, check: &mut Check, branch: &UnifiedBranch, own: &[usize], before: Option<&UnifiedItem>) {
        let last = own.last().and_then(|place| self.export.items.get(*place)).or(before);
        let id = last.map(|i| &i.id) == branch.head_item_id.as_ref();
        check.require(id, "headItemId", Rule::BranchHead, "the head is the last item of the path");
        let sequence = last.map_or(0, |i| i.sequence) == branch.head_sequence;
        check.require(!id || sequence, "headSequence", Rule::BranchHead, "it is the sequence of the head");
    }

    /// Forks stand on the paths of their parents.
    fn fork_places(&self, check: &mut Check, visits: &Visits) {
        let places: HashMap<_, _> = self
            .export
            .branches
            .iter()
            .enumerate()
            .map(|(index, b)| (&b.branch_id, index))
            .collect();
        for (index, branch) in self.export.branches.iter().enumerate() {
            let fork = branch.fork_item_id.as_ref().and_then(|id| self.place_of.get(id)).copied();
            let parent = branch.parent_branch_id.as_ref().and_then(|id| places.get(id)).copied();
            let (Some(fork), Some(parent)) = (fork, parent) else { continue };
            let own = self.export.items.get(fork).map(|i| &i.branch_id) == branch.parent_branch_id.as_ref();
            if !own && !visits.is_above(fork, parent) {
                check.inside("branches", |check| {
                    check.element(index, |check| {
                        check.broken_at("forkItemId", Rule::BranchFork, "the item is not on the path of the parent branch");
                    });
                });
            }
        }
    }

    /// Branches that are their own ancestors.
    fn circles(&self, check: &mut Check) {
        let branches = &self.export.branches;
        let places: HashMap<_, _> = branches.iter().enumerate().map(|(index, b)| (&b.branch_id, index)).collect();
        // The walk up from a branch in which each one was seen first; one that meets itself goes in a circle.
        let mut seen: HashMap<usize, usize> = HashMap::new();
        for start in 0..branches.len() {
            let mut current = Some(start);
            while let Some(index) = current {
                match seen.get(&index) {
                    Some(walk) if *walk == start => {
                        check.inside("branches", |check| {
                            check.element(index, |check| {
                                check.broken_at("parentBranchId", Rule::BranchFork, "the branch is its own ancestor");
                            });
                        });
                        break;
                    }
                    Some(_) => break,
                    None => {
                        seen.insert(index, start);
                        current = branches
                            .get(index)
                            .and_then(|b| b.parent_branch_id.as_ref())
                            .and_then(|id| places.get(id))
                            .copied();
                    }
                }
            }
        }
    }

    fn unreached(&self, check: &mut Check, visits: &Visits) {
        for (index, branch) in self
            .export
            .branches
            .iter()
            .enumerate()
            .filter(|(index, _)| !visits.branches.contains_key(index))
        {
            let known = branch.fork_item_id.as_ref().is_some_and(|id| self.place_of.contains_key(id));
            let rule = if known { Rule::BranchFork } else { Rule::UnknownReference };
            check.inside("branches", |check| {
                check.element(index, |check| {
                    check.broken_at("forkItemId", rule, "no path from a root leads to it");
                });
            });
        }
        let known: HashSet<_> = self.export.branches.iter().map(|b| &b.branch_id).collect();
        for (index, item) in self
            .export
            .items
            .iter()
            .enumerate()
            .filter(|(index, _)| !visits.items.contains_key(index))
        {
            if !known.contains(&item.branch_id) {
                check.inside("items", |check| {
                    check.element(index, |check| {
                        check.broken_at("branchId", Rule::UnknownReference, "no branch has this ID");
                    });
                });
            }
        }
    }
}

fn item_revisions(check: &mut Check, export: &UnifiedExportV2) {
    let mut ids = Ids::of("revision");
    let mut of: HashMap<&UnifiedId, Vec<(usize, &UnifiedItemRevision)>> = HashMap::new();
    check.inside("revisions", |check| {
        for (index, revision) in export.revisions.iter().enumerate() {
            check.element(index, |check| ids.add(check, "revisionId", &revision.revision_id));
            of.entry(&revision.item_id).or_default().push((index, revision));
        }
        for item in &export.items {
            if let Some(list) = of.remove(&item.id) {
                revisions::of_item(check, item, list.into_iter());
            }
        }
        let mut left: Vec<usize> = of.into_values().flatten().map(|(index, _)| index).collect();
        left.sort_unstable();
        for index in left {
            check.element(index, |check| {
                check.broken_at("itemId", Rule::UnknownReference, "no item has this ID");
            });
        }
    });
}

/// Annotations, artifacts, private entries, and the references to them.
fn stores(check: &mut Check, export: &UnifiedExportV2) {
    let mut resources = Ids::of("resource");
    check.each("annotations", &export.annotations, |check, annotation| {
        resources.add(check, "resourceId", &annotation.resource_id);
        crate::annotation::annotation_rules(check, annotation);
    });
    check.each("privateResources", &export.private_resources, |check, entry| {
        resources.add(check, "resourceId", &entry.resource_id);
    });
    let mut artifact_ids = Ids::of("artifact");
    check.each("artifacts", &export.artifacts, |check, artifact| {
        artifact_ids.add(check, "artifactId", &artifact.artifact_id);
        super::shared::media_type(check, "mediaType", &artifact.media_type);
    });
    let stored = Stored {
        annotations: export.annotations.iter().map(|a| (&a.resource_id, a)).collect(),
        private: export.private_resources.iter().map(|p| &p.resource_id).collect(),
        artifacts: export.artifacts.iter().map(|a| (&a.artifact_id, &a.sha256)).collect(),
    };
    check.each("items", &export.items, |check, item| {
        stored.references(check, item.provider_data.as_ref());
        if let UnifiedItemBody::Artifact(artifact) = &item.body {
            stored.artifact(check, &artifact.artifact_id, &artifact.sha256);
        }
        check.each(super::conversation::list_member(item), item.parts(), |check, part| {
            stored.references(check, part.provider_data.as_ref());
            match &part.body {
                PartBody::ArtifactReference(reference) => stored.artifact(check, &reference.artifact_id, &reference.sha256),
                PartBody::Image(media)
                | PartBody::Audio(media)
                | PartBody::Video(media)
                | PartBody::Document(media)
                | PartBody::File(media)
                | PartBody::Binary(media) => {
                    if let UnifiedDataSource::Artifact(source) = &media.source {
                        check.inside("source", |check| stored.artifact(check, &source.artifact_id, &source.sha256));
                    }
                }
                PartBody::Text(_)
                | PartBody::Reasoning(_)
                | PartBody::Refusal(_)
                | PartBody::Json(_)
                | PartBody::Citation(_)
                | PartBody::GroundingSource(_) => {}
            }
        });
    });
}

/// What references in a bundle may name.
struct Stored<'a> {
    annotations: HashMap<&'a UnifiedId, &'a UnifiedPortableAnnotation>,
    private: HashSet<&'a UnifiedId>,
    artifacts: HashMap<&'a UnifiedId, &'a Sha256>,
}

impl Stored<'_> {
    fn references(&self, check: &mut Check, list: Option<&Vec<UnifiedProviderDataRef>>) {
        check.each("providerData", list.into_iter().flatten(), |check, reference| {
            match reference.scope {
                ProviderDataScope::OwnerPrivate => {
                    let listed = self.private.contains(&reference.resource_id);
                    check.require(
                        listed,
                        "resourceId",
                        Rule::UnknownReference,
                        "no entry of privateResources has this ID",
                    );
                }
                ProviderDataScope::PortableAnnotation => match self.annotations.get(&reference.resource_id) {
                    None => check.broken_at("resourceId", Rule::UnknownReference, "no annotation has this ID"),
                    Some(found) => {
                        let same = found.schema == reference.schema && found.profile == reference.profile;
                        check.require(
                            same,
                            "schema",
                            Rule::AnnotationScope,
                            "the annotation has another schema or profile",
                        );
                    }
                },
            }
        });
    }

    fn artifact(&self, check: &mut Check, id: &UnifiedId, sha256: &Sha256) {
        match self.artifacts.get(id) {
            None => check.broken_at("artifactId", Rule::UnknownReference, "no artifact has this ID"),
            Some(found) => check.require(*found == sha256, "sha256", Rule::Artifact, "the artifact has another digest"),
        }
    }
}
