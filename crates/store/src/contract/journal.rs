//! Items, branches and revisions.

use serde_json::json;
use throughline_format::clause;

use super::{Store, World, samples};
use crate::batch::{AppendedItem, BranchHead, WriteBatch, WriteOp};
use crate::records::{ItemPage, Order};
use crate::{MAX_PAGE, StoreError};
use samples::id;

pub(super) async fn every_kind_makes_the_trip(store: Store) {
    clause!("STORE-01");
    let world = World::new(store).await;
    let items = samples::every_kind();
    assert_eq!(items.len(), 21, "two messages and one of every other kind");
    world.commit(vec![world.append(None, items.clone())]).await.unwrap();
    let stored = world.store.branch_items(&world.branch_id, ItemPage::default()).await.unwrap();
    assert_eq!(stored.len(), items.len());
    for (stored, sent) in stored.iter().zip(&items) {
        assert_eq!(stored.body, sent.body, "the kind and its members are unchanged");
        assert_eq!(
            (&stored.provenance, stored.role, stored.status),
            (&sent.provenance, sent.role, sent.status)
        );
        assert_eq!(world.store.item(&sent.id).await.unwrap().as_ref(), Some(stored));
    }
}

pub(super) async fn pending_items_are_placed(store: Store) {
    let world = World::new(store).await;
    let receipt = world
        .commit(vec![
            world.append(None, vec![samples::message("i1", "a"), samples::message("i2", "b")]),
        ])
        .await
        .unwrap();
    let place = |item: &str, sequence| AppendedItem {
        item_id: id(item),
        branch_id: world.branch_id.clone(),
        sequence,
    };
    assert_eq!(receipt.appended, [place("i1", 1), place("i2", 2)]);
    assert_eq!(
        receipt.heads,
        [BranchHead {
            branch_id: world.branch_id.clone(),
            head_item_id: Some(id("i2")),
            head_sequence: 2
        }]
    );
    let stored = world.store.item(&id("i2")).await.unwrap().unwrap();
    assert_eq!(
        (&stored.conversation_id, &stored.branch_id, stored.sequence),
        (&world.conversation_id, &world.branch_id, 2)
    );
    assert_eq!(stored.parent_id, Some(id("i1")));
    assert_eq!(world.store.item(&id("i1")).await.unwrap().unwrap().parent_id, None);
    let branch = world.store.branch(&world.branch_id).await.unwrap().unwrap();
    assert_eq!((branch.head_item_id, branch.head_sequence), (Some(id("i2")), 2));
}

pub(super) async fn placed_items_must_fit(store: Store) {
    clause!("ITEM-01");
    let world = World::new(store).await;
    let placed = |sequence, branch: &str, parent: Option<&str>| {
        let mut item = samples::message("i1", "a");
        item.conversation_id = world.conversation_id.clone();
        item.branch_id = id(branch);
        item.sequence = sequence;
        item.parent_id = parent.map(id);
        item
    };
    for wrong in [
        placed(2, "br_main", None),
        placed(1, "br_other", None),
        placed(1, "br_main", Some("i0")),
    ] {
        assert_eq!(
            world.refused(vec![world.append(None, vec![wrong])]).await,
            "invalid-request.validation"
        );
    }
    let right = placed(1, "br_main", None);
    world.commit(vec![world.append(None, vec![right.clone()])]).await.unwrap();
    assert_eq!(world.store.item(&id("i1")).await.unwrap(), Some(right));
}

pub(super) async fn head_must_be_the_expected_one(store: Store) {
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1", "i2"]).await;
    for stale in [None, Some("i1"), Some("unknown")] {
        let error = world
            .commit(vec![world.append(stale, vec![samples::message("i3", "c")])])
            .await
            .unwrap_err();
        assert_eq!(
            error,
            StoreError::HeadMoved {
                branch_id: world.branch_id.clone(),
                actual: Some(id("i2"))
            }
        );
        assert_eq!(error.code(), "conflict.head-moved");
    }
    world.commit(vec![world.append(Some("i2"), vec![])]).await.unwrap();
    assert_eq!(world.refused(vec![world.append(Some("i1"), vec![])]).await, "conflict.head-moved");
    // An ID is used once, wherever it is.
    assert_eq!(
        world
            .refused(vec![world.append(Some("i2"), vec![samples::message("i1", "c")])])
            .await,
        "conflict.duplicate"
    );
}

pub(super) async fn append_may_be_repeated(store: Store) {
    let mut world = World::new(store).await;
    let batch = vec![world.append(None, vec![samples::message("i1", "a"), samples::message("i2", "b")])];
    let first = world.commit(batch.clone()).await.unwrap();
    world.now = world.now.plus_millis(1_000);
    let second = world.commit(batch).await.unwrap();
    assert_eq!(
        (first.appended, first.heads, first.last_updated_at),
        (second.appended, second.heads, second.last_updated_at)
    );
    assert_eq!(world.path(&world.branch_id).await, [("i1".to_owned(), 1), ("i2".to_owned(), 2)]);
    // The same IDs with other content are no repetition.
    assert_eq!(
        world.refused(vec![world.append(None, vec![samples::message("i1", "z")])]).await,
        "conflict.head-moved"
    );
}

pub(super) async fn forks_share_their_ancestors(store: Store) {
    clause!("ITEM-01", "STORE-01");
    let world = World::new(store).await;
    let main = &world.branch_id;
    world.say(main, &["i1", "i2", "i3"]).await;
    let receipt = world
        .commit(vec![WriteOp::CreateBranch(samples::fork(&world, "br_side", main, "i2"))])
        .await
        .unwrap();
    assert_eq!(
        receipt.heads,
        [BranchHead {
            branch_id: id("br_side"),
            head_item_id: Some(id("i2")),
            head_sequence: 2
        }]
    );
    world.say(&id("br_side"), &["s3", "s4"]).await;
    world.say(main, &["i4"]).await;
    let path = |ids: &[&str]| {
        ids.iter()
            .zip(1u64..)
            .map(|(id, sequence)| ((*id).to_owned(), sequence))
            .collect::<Vec<_>>()
    };
    assert_eq!(world.path(main).await, path(&["i1", "i2", "i3", "i4"]));
    assert_eq!(world.path(&id("br_side")).await, path(&["i1", "i2", "s3", "s4"]));
    // A shared item keeps the branch that it was appended to, and the first own one hangs on it.
    assert_eq!(world.store.item(&id("i2")).await.unwrap().unwrap().branch_id, *main);
    assert_eq!(world.store.item(&id("s3")).await.unwrap().unwrap().parent_id, Some(id("i2")));
    // A fork of the fork, at an item that the fork itself only shares, and one at an own item.
    world
        .commit(vec![WriteOp::CreateBranch(samples::fork(&world, "br_early", &id("br_side"), "i1"))])
        .await
        .unwrap();
    world
        .commit(vec![WriteOp::CreateBranch(samples::fork(&world, "br_late", &id("br_side"), "s3"))])
        .await
        .unwrap();
    world.say(&id("br_early"), &["e2"]).await;
    world.say(&id("br_late"), &["l4"]).await;
    assert_eq!(world.path(&id("br_early")).await, path(&["i1", "e2"]));
    assert_eq!(world.path(&id("br_late")).await, path(&["i1", "i2", "s3", "l4"]));
    // Items that are not on the path of the parent cannot be forked from.
    assert_eq!(
        world
            .refused(vec![WriteOp::CreateBranch(samples::fork(&world, "br_x", &id("br_side"), "i3"))])
            .await,
        "invalid-request.validation"
    );
    assert_eq!(
        world
            .refused(vec![WriteOp::CreateBranch(samples::fork(&world, "br_x", main, "s3"))])
            .await,
        "invalid-request.validation"
    );
    assert_eq!(
        world
            .refused(vec![WriteOp::CreateBranch(samples::fork(&world, "br_x", main, "none"))])
            .await,
        "not-found.resource"
    );
    let branches = world.store.branches(&world.conversation_id).await.unwrap();
    assert_eq!(
        branches.iter().map(|branch| branch.branch_id.as_str()).collect::<Vec<_>>(),
        ["br_main", "br_side", "br_early", "br_late"]
    );
    assert_eq!(
        world.store.branch_items(&id("br_x"), ItemPage::default()).await.unwrap_err().code(),
        "not-found.resource"
    );
}

pub(super) async fn paths_are_read_in_pages(store: Store) {
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1", "i2", "i3"]).await;
    world
        .commit(vec![WriteOp::CreateBranch(samples::fork(
            &world,
            "br_side",
            &world.branch_id,
            "i2",
        ))])
        .await
        .unwrap();
    world.say(&id("br_side"), &["s3", "s4", "s5"]).await;
    let page = async |page: ItemPage| {
        let items = world.store.branch_items(&id("br_side"), page).await.unwrap();
        items.iter().map(|item| item.sequence).collect::<Vec<_>>()
    };
    assert_eq!(
        page(ItemPage {
            after_sequence: 1,
            limit: 2,
            ..ItemPage::default()
        })
        .await,
        [2, 3]
    );
    assert_eq!(
        page(ItemPage {
            after_sequence: 3,
            limit: 9,
            ..ItemPage::default()
        })
        .await,
        [4, 5]
    );
    assert_eq!(
        page(ItemPage {
            through_sequence: Some(3),
            ..ItemPage::default()
        })
        .await,
        [1, 2, 3]
    );
    assert_eq!(
        page(ItemPage {
            order: Order::Descending,
            limit: 4,
            ..ItemPage::default()
        })
        .await,
        [5, 4, 3, 2]
    );
    assert_eq!(
        page(ItemPage {
            order: Order::Descending,
            through_sequence: Some(2),
            ..ItemPage::default()
        })
        .await,
        [2, 1]
    );
    assert_eq!(
        page(ItemPage {
            after_sequence: 5,
            ..ItemPage::default()
        })
        .await,
        [] as [u64; 0]
    );
    assert_eq!(
        page(ItemPage {
            after_sequence: u64::MAX,
            through_sequence: Some(u64::MAX),
            ..ItemPage::default()
        })
        .await,
        [] as [u64; 0]
    );
}

pub(super) async fn revisions_follow_each_other(store: Store) {
    clause!("ITEM-03");
    let world = World::new(store).await;
    let mut running = samples::message("i1", "a");
    running.status = serde_json::from_str("\"in-progress\"").unwrap();
    world
        .commit(vec![world.append(None, vec![running.clone(), samples::message("i2", "b")])])
        .await
        .unwrap();
    let revision = |revision_id: &str, number, status: &str| {
        WriteOp::AddRevision(samples::revision(revision_id, "i1", number, &json!({"status": status})))
    };
    assert_eq!(world.refused(vec![revision("rev_1", 2, "completed")]).await, "conflict.revision");
    world.commit(vec![revision("rev_1", 1, "completed")]).await.unwrap();
    world.commit(vec![revision("rev_1", 1, "completed")]).await.unwrap();
    assert_eq!(world.refused(vec![revision("rev_1", 1, "failed")]).await, "conflict.duplicate");
    assert_eq!(world.refused(vec![revision("rev_2", 1, "completed")]).await, "conflict.revision");
    // A terminal status is never left.
    assert_eq!(
        world.refused(vec![revision("rev_2", 2, "in-progress")]).await,
        "invalid-request.validation"
    );
    let parts = json!({"parts": [{"kind": "text", "partId": "i1.p0", "text": "pruned"}]});
    world
        .commit(vec![WriteOp::AddRevision(samples::revision("rev_2", "i1", 2, &parts))])
        .await
        .unwrap();
    world
        .commit(vec![WriteOp::AddRevision(samples::revision("rev_3", "i2", 1, &parts))])
        .await
        .unwrap();
    let numbers = |revisions: Vec<throughline_format::UnifiedItemRevision>| {
        revisions.iter().map(|r| (r.revision_id.to_string(), r.number)).collect::<Vec<_>>()
    };
    let expected = [("rev_1".to_owned(), 1), ("rev_2".to_owned(), 2), ("rev_3".to_owned(), 1)];
    assert_eq!(numbers(world.store.revisions(&id("i1")).await.unwrap()), expected[..2]);
    assert_eq!(numbers(world.store.branch_revisions(&world.branch_id).await.unwrap()), expected);
    // The item itself is what was appended.
    assert_eq!(world.store.item(&id("i1")).await.unwrap().unwrap().body, running.body);
    assert_eq!(
        world
            .refused(vec![WriteOp::AddRevision(samples::revision("rev_9", "none", 1, &parts))])
            .await,
        "not-found.resource"
    );
}

pub(super) async fn states_of_calls_follow_their_table(store: Store) {
    let world = World::new(store).await;
    let call = samples::every_kind().swap_remove(3);
    world
        .commit(vec![world.append(None, vec![call, samples::message("i2", "b")])])
        .await
        .unwrap();
    let step = |revision_id: &str, item: &str, number, to: &str| {
        WriteOp::AddRevision(samples::revision(revision_id, item, number, &json!({"lifecycle": to})))
    };
    world
        .commit(vec![
            step("rev_1", "k3", 1, "approval-required"),
            step("rev_2", "k3", 2, "approval-denied"),
        ])
        .await
        .unwrap();
    assert_eq!(
        world.refused(vec![step("rev_3", "k3", 3, "executing")]).await,
        "invalid-request.validation"
    );
    assert_eq!(
        world.refused(vec![step("rev_3", "i2", 1, "executing")]).await,
        "invalid-request.validation"
    );
}

pub(super) async fn summaries_cover_a_prefix(store: Store) {
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1", "i2", "i3"]).await;
    let summary = |item: &str, from: &str, to: &str, count: u64| {
        let covers = json!({"fromItemId": from, "toItemId": to, "count": count});
        let members = json!({"kind": "compaction-summary", "parts": [], "covers": covers, "auditHash": throughline_format::Sha256::of(b""), "replaces": true, "author": "engine"});
        world.append(Some("i3"), vec![samples::item(item, &members)])
    };
    for (from, to, count) in [("i2", "i3", 2), ("i1", "i2", 3), ("i1", "i3", 2)] {
        assert_eq!(
            world.refused(vec![summary("c", from, to, count)]).await,
            "invalid-request.validation"
        );
    }
    assert_eq!(world.refused(vec![summary("c", "i1", "none", 3)]).await, "not-found.resource");
    world.commit(vec![summary("c", "i1", "i2", 2)]).await.unwrap();
    assert_eq!(world.path(&world.branch_id).await.len(), 4, "covered items stay");
}

pub(super) async fn order_is_kept_whatever_the_batches(store: Store) {
    clause!("ITEM-05");
    // The same items cut into batches of every size give the same journal.
    let mut seen = Vec::new();
    for size in 1..=7 {
        let world = World::of(store.clone(), &format!("n{size}"), samples::PRINCIPAL).await;
        let names: Vec<String> = (0..7).map(|number| format!("n{size}.i{number}")).collect();
        for chunk in names.chunks(size) {
            world
                .say(&world.branch_id, &chunk.iter().map(String::as_str).collect::<Vec<_>>())
                .await;
        }
        let path = world.path(&world.branch_id).await;
        seen.push(
            path.into_iter()
                .map(|(name, sequence)| (name.split('.').nth(1).unwrap().to_owned(), sequence))
                .collect::<Vec<_>>(),
        );
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    // More than a page, read page by page.
    let world = World::of(store, "long", samples::PRINCIPAL).await;
    let names: Vec<String> = (0..MAX_PAGE + 5).map(|number| format!("x{number}")).collect();
    world
        .say(&world.branch_id, &names.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let first = world
        .store
        .branch_items(
            &world.branch_id,
            ItemPage {
                limit: usize::MAX,
                ..ItemPage::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(first.len(), MAX_PAGE);
    let rest = world
        .store
        .branch_items(
            &world.branch_id,
            ItemPage {
                after_sequence: MAX_PAGE as u64,
                ..ItemPage::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(rest.iter().map(|item| item.id.to_string()).collect::<Vec<_>>(), names[MAX_PAGE..]);
}

pub(super) async fn foreign_rows_are_absent(store: Store) {
    let one = World::of(store.clone(), "one", samples::PRINCIPAL).await;
    let two = World::of(store, "two", "principal-b").await;
    one.say(&one.branch_id, &["i1"]).await;
    let operation = one.start("op_1").await;
    let into_one = WriteOp::AppendItems {
        branch_id: one.branch_id.clone(),
        expected_head: Some(id("i1")),
        items: vec![samples::message("i2", "x")],
    };
    let ops = [
        into_one,
        WriteOp::AddRevision(samples::revision("rev_1", "i1", 1, &json!({}))),
        samples::append_events(&operation.operation_id, 1, &["a"]),
        WriteOp::PutResult {
            operation_id: operation.operation_id.clone(),
            result: samples::result(&operation.operation_id),
        },
    ];
    for op in ops {
        assert_eq!(two.refused(vec![op]).await, "not-found.resource");
    }
    assert_eq!(
        two.refused(vec![WriteOp::UpdateOperation(operation.clone())]).await,
        "invalid-request.validation"
    );
    assert_eq!(
        two.refused(vec![WriteOp::CreateBranch(samples::root(&one.conversation_id, &id("br_x")))])
            .await,
        "invalid-request.validation"
    );
    assert_eq!(
        two.refused(vec![WriteOp::CreateBranch(samples::root(&two.conversation_id, &one.branch_id))])
            .await,
        "conflict.duplicate"
    );
    assert_eq!(
        two.refused(vec![two.append(None, vec![samples::message("i1", "hello")])]).await,
        "conflict.duplicate"
    );
}

pub(super) async fn conversation_comes_with_its_branch(store: Store) {
    let (conversation, branch) = (id("conv_1"), id("br_1"));
    let mut opening = samples::opening(&conversation, &branch, samples::PRINCIPAL);
    let alone = WriteBatch {
        now: samples::START,
        conversation_id: conversation.clone(),
        ops: vec![opening[0].clone()],
    };
    assert_eq!(store.commit(alone).await.unwrap_err().code(), "invalid-request.validation");
    assert_eq!(
        store.conversation(&conversation).await.unwrap(),
        None,
        "nothing of a refused batch is stored"
    );
    let whole = WriteBatch {
        now: samples::START,
        conversation_id: conversation.clone(),
        ops: opening.clone(),
    };
    store.commit(whole.clone()).await.unwrap();
    store.commit(whole).await.unwrap();
    assert_eq!(
        store.conversation(&conversation).await.unwrap(),
        Some(samples::conversation(&conversation, &branch, samples::PRINCIPAL))
    );
    opening[0] = WriteOp::CreateConversation(samples::conversation(&conversation, &branch, "principal-b"));
    let other = WriteBatch {
        now: samples::START,
        conversation_id: conversation.clone(),
        ops: opening,
    };
    assert_eq!(store.commit(other).await.unwrap_err().code(), "conflict.duplicate");
    let nowhere = WriteBatch::new(samples::START, id("conv_2")).with(WriteOp::ReleaseLease { lease_id: id("lease_1") });
    assert_eq!(store.commit(nowhere).await.unwrap_err().code(), "not-found.resource");
}
