//! Lineage, issued ids and session keys.

use throughline_format::Sha256;

use super::{Store, World, samples};
use crate::batch::WriteOp;
use crate::records::{IssuedId, LineageRow, SessionKeyRow};
use crate::{MAX_LOOKUP, UnifiedStateStore};
use samples::id;

/// A link that leads to an item of the default branch.
pub(super) fn link(world: &World, principal: &str, link: &str, item: &str) -> LineageRow {
    LineageRow {
        principal_ref: principal.to_owned(),
        link: Sha256::of(link.as_bytes()),
        lineage_version: 1,
        conversation_id: world.conversation_id.clone(),
        branch_id: world.branch_id.clone(),
        item_id: id(item),
        ordinal: 1,
        evidence: true,
        created_at: world.now,
    }
}

fn issued(world: &World, principal: &str, name: &str, item: &str) -> IssuedId {
    IssuedId {
        principal_ref: principal.to_owned(),
        id_hash: Sha256::of(name.as_bytes()),
        conversation_id: world.conversation_id.clone(),
        branch_id: world.branch_id.clone(),
        item_id: id(item),
        created_at: world.now,
    }
}

fn session(world: &World, principal: &str, name: &str, operation: &str) -> SessionKeyRow {
    SessionKeyRow {
        principal_ref: principal.to_owned(),
        key_hash: Sha256::of(name.as_bytes()),
        conversation_id: world.conversation_id.clone(),
        branch_id: world.branch_id.clone(),
        operation_id: id(operation),
        created_at: world.now,
    }
}

async fn find_links(store: &dyn UnifiedStateStore, principal: &str, links: &[&str]) -> Vec<String> {
    let links: Vec<Sha256> = links.iter().map(|link| Sha256::of(link.as_bytes())).collect();
    store
        .lineage(principal, &links)
        .await
        .unwrap()
        .iter()
        .map(|row| row.item_id.to_string())
        .collect()
}

pub(super) async fn links_are_scoped_to_the_principal(store: Store) {
    let world = World::new(store.clone()).await;
    let other = World::of(store.clone(), "other", "principal-b").await;
    let mut unproven = link(&world, samples::PRINCIPAL, "l2", "i2");
    (unproven.evidence, unproven.ordinal, unproven.lineage_version) = (false, 20_000, 7);
    world
        .commit(vec![WriteOp::PutLineage(vec![
            link(&world, samples::PRINCIPAL, "l1", "i1"),
            unproven.clone(),
        ])])
        .await
        .unwrap();
    // Twins exist: one link, two items.
    world
        .commit(vec![WriteOp::PutLineage(vec![link(&world, samples::PRINCIPAL, "l1", "i9")])])
        .await
        .unwrap();
    world
        .commit(vec![WriteOp::PutLineage(vec![link(&world, samples::PRINCIPAL, "l1", "i9")])])
        .await
        .unwrap();
    other
        .commit(vec![WriteOp::PutLineage(vec![link(&other, "principal-b", "l1", "b1")])])
        .await
        .unwrap();
    assert_eq!(
        find_links(&*store, samples::PRINCIPAL, &["l1"]).await,
        ["i9", "i1"],
        "newest first, once each"
    );
    assert_eq!(
        find_links(&*store, samples::PRINCIPAL, &["l2", "l1", "l3"]).await,
        ["i9", "i2", "i1"]
    );
    assert_eq!(find_links(&*store, "principal-b", &["l1", "l2"]).await, ["b1"]);
    assert_eq!(find_links(&*store, "principal-c", &["l1", "l2"]).await, [""; 0]);
    assert_eq!(find_links(&*store, samples::PRINCIPAL, &[]).await, [""; 0]);
    assert_eq!(
        store.lineage(samples::PRINCIPAL, &[unproven.link]).await.unwrap(),
        [unproven],
        "every field is kept"
    );
    let many = vec![Sha256::of(b"x"); MAX_LOOKUP + 1];
    assert!(store.lineage(samples::PRINCIPAL, &many[..MAX_LOOKUP]).await.unwrap().is_empty());
    assert_eq!(store.lineage(samples::PRINCIPAL, &many).await.unwrap_err().code(), "limit.batch");
}

pub(super) async fn issued_ids_and_session_keys_are_scoped(store: Store) {
    let world = World::new(store.clone()).await;
    let other = World::of(store.clone(), "other", "principal-b").await;
    let row = issued(&world, samples::PRINCIPAL, "toolu_1", "i1");
    let key = session(&world, samples::PRINCIPAL, "session", "op_1");
    for _ in 0..2 {
        world
            .commit(vec![
                WriteOp::PutIssuedIds(vec![row.clone()]),
                WriteOp::PutSessionKeys(vec![key.clone()]),
            ])
            .await
            .unwrap();
    }
    let newer = session(&world, samples::PRINCIPAL, "session", "op_2");
    world.commit(vec![WriteOp::PutSessionKeys(vec![newer.clone()])]).await.unwrap();
    other
        .commit(vec![WriteOp::PutIssuedIds(vec![issued(&other, "principal-b", "toolu_1", "b1")])])
        .await
        .unwrap();
    let hash = Sha256::of(b"toolu_1");
    assert_eq!(
        store.issued_ids(samples::PRINCIPAL, &[hash, Sha256::of(b"?")]).await.unwrap(),
        [row]
    );
    assert_eq!(store.issued_ids("principal-b", &[hash]).await.unwrap()[0].item_id, id("b1"));
    assert!(store.issued_ids("principal-c", &[hash]).await.unwrap().is_empty());
    let session_hash = Sha256::of(b"session");
    assert_eq!(store.session_keys(samples::PRINCIPAL, &session_hash).await.unwrap(), [newer, key]);
    assert!(store.session_keys("principal-b", &session_hash).await.unwrap().is_empty());
}

pub(super) async fn rows_must_be_of_the_principal(store: Store) {
    let world = World::new(store.clone()).await;
    let other = World::of(store, "other", "principal-b").await;
    let wrong = "principal-b";
    for op in [
        WriteOp::PutLineage(vec![link(&world, wrong, "l", "i1")]),
        WriteOp::PutIssuedIds(vec![issued(&world, wrong, "l", "i1")]),
        WriteOp::PutSessionKeys(vec![session(&world, wrong, "l", "op_1")]),
        WriteOp::PutLineage(vec![link(&other, wrong, "l", "i1")]),
    ] {
        assert_eq!(world.refused(vec![op]).await, "invalid-request.validation");
    }
}
