//! Bundles that come in: how many branches they may have, and in whatever order those stand.

use crate::support::{ANTHROPIC, Answer, World, anthropic_sse, user};
use serde_json::json;
use std::sync::Arc;
use throughline_engine::{EngineLimits, ImportIds};
use throughline_format::validate::semantics;
use throughline_format::{UnifiedBranch, UnifiedExportV2, UnifiedId};
use throughline_store::{MemorySettings, MemoryStore};

fn id(text: &str) -> UnifiedId {
    UnifiedId::parse(text).unwrap()
}

/// A bundle whose branches fork one from the other, the last one first.
async fn chain(forks: usize) -> UnifiedExportV2 {
    let world = World::new();
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"Hi."})], "end_turn")),
    );
    let body = json!({"model":"claude-x","max_tokens":100,"stream":true,"messages":[user("Hello")]});
    world.begin(&ANTHROPIC, &body).await.collect().await.unwrap();
    let conversation = world.conversations().await.remove(0);
    let mut bundle = world
        .engine
        .export(&World::principal(), &conversation.conversation_id)
        .await
        .unwrap();
    let root = bundle.branches[0].clone();
    for at in 0..forks {
        let parent = at
            .checked_sub(1)
            .map_or_else(|| root.branch_id.clone(), |before| id(&format!("br_fork{before}")));
        let fork = UnifiedBranch {
            branch_id: id(&format!("br_fork{at}")),
            parent_branch_id: Some(parent),
            fork_item_id: root.head_item_id.clone(),
            ..root.clone()
        };
        bundle.branches.insert(0, fork);
    }
    bundle.fingerprint = semantics::export_fingerprint(&bundle).unwrap();
    bundle
}

fn world(branches: usize) -> World {
    let limits = EngineLimits {
        branches,
        ..EngineLimits::default()
    };
    World::bounded(Arc::new(MemoryStore::new(MemorySettings::default())), 5_000, limits)
}

#[tokio::test]
async fn branches_are_stored_parents_first_whatever_their_order_in_the_bundle() {
    let bundle = serde_json::to_vec(&chain(300).await).unwrap();
    for ids in [ImportIds::Keep, ImportIds::New] {
        let world = world(301);
        world.engine.import(&World::principal(), bundle.clone().into(), ids).await.unwrap();
        let conversation = world.conversations().await.remove(0);
        let branches = world
            .engine
            .branches(&World::principal(), &conversation.conversation_id)
            .await
            .unwrap();
        let (mut depth, mut above) = (0, Some(&branches.last().unwrap().branch_id));
        while let Some(branch) = branches.iter().find(|branch| Some(&branch.branch_id) == above) {
            (depth, above) = (depth + 1, branch.parent_branch_id.as_ref());
        }
        assert_eq!((branches.len(), depth), (301, 301), "{ids:?}");
    }
}

#[tokio::test]
async fn a_bundle_with_more_branches_than_a_conversation_may_have_is_refused_before_anything_is_stored() {
    let bundle = serde_json::to_vec(&chain(3).await).unwrap();
    let world = world(3);
    let error = world
        .engine
        .import(&World::principal(), bundle.into(), ImportIds::New)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.field_path.as_deref()),
        ("limit.branches", Some("/branches"))
    );
    assert!(world.conversations().await.is_empty());
}
