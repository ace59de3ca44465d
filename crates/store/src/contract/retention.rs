//! The retention clock, deletion and closing.

use serde_json::json;
use throughline_format::resource::ResourceStatus;
use throughline_format::{OperationState, Sha256, UnifiedId, clause};

use super::{Store, World, samples};
use crate::batch::{DeletionCondition, WriteBatch, WriteOp};
use crate::records::{ConversationFilter, EventRange, ItemPage, OperationFilter, SweepRequest};
use samples::{DAY, append_events, id};

/// A conversation with something of everything in it: an item, a running operation, a resource, a checkpoint, an artifact.
async fn furnished(store: Store) -> World {
    let world = World::new(store).await;
    let operation = samples::operation("op_1", &world);
    world.upload(b"p").await;
    world
        .commit(vec![
            world.append(None, vec![samples::message("i1", "a")]),
            WriteOp::PutOperation(operation),
            append_events(&id("op_1"), 1, &["a"]),
            WriteOp::PutResource(Box::new(samples::resource(&world, "r1", "a", b"x"))),
            WriteOp::PutCheckpoint(Box::new(samples::checkpoint(&world, "ckpt_1", "i1", b"x"))),
            WriteOp::PutArtifact {
                principal_ref: samples::PRINCIPAL.to_owned(),
                artifact: samples::artifact("art_1", b"p"),
            },
        ])
        .await
        .unwrap();
    world
}

/// Commits each mutation by itself: it moves the clock in its own transaction, and repeated it changes nothing and so does not.
async fn check_touches(store: Store, mutations: impl FnOnce(&World) -> Vec<(&'static str, WriteOp)>) {
    let mut world = furnished(store).await;
    for (name, op) in mutations(&world) {
        world.now = world.now.plus_millis(1_000);
        let receipt = world.commit(vec![op.clone()]).await.unwrap();
        assert_eq!(
            (receipt.last_updated_at, world.clock().await),
            (Some(world.now), world.now),
            "{name}"
        );
        let before = world.now;
        world.now = world.now.plus_millis(1);
        world.commit(vec![op.clone()]).await.unwrap();
        assert_eq!(world.clock().await, before, "{name} repeated");
        // In the same transaction: a batch that is refused moves neither the record nor the clock.
        world.now = world.now.plus_millis(1_000);
        world.refused(vec![op, append_events(&id("op_1"), 99, &["gap"])]).await;
        assert_eq!(world.clock().await, before, "{name} refused");
    }
}

pub(super) async fn item_append_or_revision_touches(store: Store) {
    clause!("RET-02");
    check_touches(store, |world| {
        vec![
            ("item append", world.append(Some("i1"), vec![samples::message("i2", "b")])),
            ("revision", WriteOp::AddRevision(samples::revision("rev_1", "i1", 1, &json!({})))),
        ]
    })
    .await;
}

pub(super) async fn tool_or_approval_lifecycle_touches(store: Store) {
    clause!("RET-02");
    let calls = samples::every_kind();
    check_touches(store, |world| {
        // The kinds of the suite that are a call and an approval, so that their shapes are those of the format.
        let of_kind = |kind: &str| calls.iter().find(|item| item.body.kind() == kind).cloned().unwrap();
        let call = of_kind("tool-call");
        let request = of_kind("approval-request");
        let call_id = call.id.to_string();
        let next = call
            .lifecycle()
            .and_then(|from| {
                throughline_format::UnifiedToolLifecycle::ALL
                    .iter()
                    .copied()
                    .find(|to| from != *to && from.may_become(*to))
            })
            .unwrap();
        vec![
            ("tool call", world.append(Some("i1"), vec![call])),
            (
                "lifecycle",
                WriteOp::AddRevision(samples::revision("rev_1", &call_id, 1, &json!({"lifecycle": next}))),
            ),
            ("approval", world.append(Some(&call_id), vec![request])),
        ]
    })
    .await;
}

pub(super) async fn provider_switch_touches(store: Store) {
    clause!("RET-02");
    let switch = json!({"kind": "provider-switch", "to": {"modelProvider": "google"}, "toProfile": {"family": "gemini-generate-content"}, "reason": "route"});
    check_touches(store, |world| {
        vec![("switch", world.append(Some("i1"), vec![samples::item("i3", &switch)]))]
    })
    .await;
}

pub(super) async fn operation_lifecycle_or_output_touches(store: Store) {
    clause!("RET-02", "OP-02");
    check_touches(store, |world| {
        let running = samples::operation("op_1", world);
        vec![
            ("new operation", WriteOp::PutOperation(samples::operation("op_2", world))),
            (
                "lifecycle",
                WriteOp::UpdateOperation(samples::in_state(&running, OperationState::RequiresAction)),
            ),
        ]
    })
    .await;
}

pub(super) async fn committed_stream_event_touches(store: Store) {
    clause!("RET-02");
    check_touches(store, |_| vec![("event", append_events(&id("op_1"), 2, &["b"]))]).await;
}

pub(super) async fn checkpoint_or_resource_change_touches(store: Store) {
    clause!("RET-02");
    check_touches(store, |world| {
        let resource = |name, payload| WriteOp::PutResource(Box::new(samples::resource(world, name, "a", payload)));
        let checkpoint = |name, payload| WriteOp::PutCheckpoint(Box::new(samples::checkpoint(world, name, "i1", payload)));
        let resource_status = |status| WriteOp::SetResourceStatus {
            resource_id: id("r1"),
            status,
        };
        vec![
            ("creation of a resource", resource("r2", b"y")),
            ("creation of a checkpoint", checkpoint("ckpt_2", b"y")),
            (
                "replacement",
                WriteOp::SetCheckpointStatus {
                    checkpoint_id: id("ckpt_1"),
                    status: ResourceStatus::Stale,
                },
            ),
            (
                "invalidation",
                WriteOp::SetCheckpointStatus {
                    checkpoint_id: id("ckpt_1"),
                    status: ResourceStatus::Invalid,
                },
            ),
            ("expiry that was observed", resource_status(ResourceStatus::Expired)),
        ]
    })
    .await;
}

pub(super) async fn artifact_reference_touches(store: Store) {
    clause!("RET-02");
    check_touches(store, |_| {
        vec![(
            "reference",
            WriteOp::AddArtifactRef {
                artifact_id: id("art_1"),
                subject: id("i1"),
            },
        )]
    })
    .await;
}

pub(super) async fn background_end_touches(store: Store) {
    clause!("RET-02");
    check_touches(store, |world| {
        let running = samples::operation("op_1", world);
        let mut failed = samples::operation("op_3", world);
        failed.state = OperationState::Failed;
        vec![
            (
                "result",
                WriteOp::PutResult {
                    operation_id: id("op_1"),
                    result: samples::result(&id("op_1")),
                },
            ),
            (
                "cancellation",
                WriteOp::UpdateOperation(samples::in_state(&running, OperationState::Cancelled)),
            ),
            ("error", WriteOp::PutOperation(failed)),
        ]
    })
    .await;
}

pub(super) async fn nothing_else_moves_the_clock(store: Store) {
    clause!("RET-03", "RET-04");
    let mut world = furnished(store).await;
    let before = world.clock().await;
    world.now = world.now.plus_millis(1_000);
    let annotation = serde_json::from_str(
        "{\"resourceId\":\"n1\",\"profile\":{\"family\":\"openai-chat\"},\"schema\":\"message/phase@1\",\"payload\":{\"phase\":\"final\"}}",
    )
    .unwrap();
    let sha256 = Sha256::of(b"z");
    let quiet = vec![
        WriteOp::CreateBranch(samples::fork(&world, "br_side", &world.branch_id, "i1")),
        WriteOp::PutAnnotation { subject: None, annotation },
        WriteOp::PutLineage(vec![super::index::link(&world, samples::PRINCIPAL, "l", "i1")]),
        WriteOp::PutArtifact {
            principal_ref: samples::PRINCIPAL.to_owned(),
            artifact: samples::artifact("art_2", b"q"),
        },
        WriteOp::PinArtifact {
            sha256,
            owner: id("req_1"),
            expires_at: world.now,
        },
        WriteOp::UnpinArtifact {
            sha256,
            owner: id("req_1"),
        },
        WriteOp::AcquireLease(samples::lease(&world, "lease_1", world.now.plus_millis(DAY))),
        WriteOp::ReleaseLease { lease_id: id("lease_1") },
        world.append(Some("i1"), vec![]),
    ];
    for op in quiet {
        world.commit(vec![op.clone()]).await.unwrap();
        assert_eq!(world.clock().await, before, "{op:?}");
    }
    world
        .refused(vec![append_events(&id("op_1"), 2, &["b"]), append_events(&id("op_1"), 9, &["gap"])])
        .await;
    world.store.sweep(SweepRequest::new(world.now)).await.unwrap();
    assert_eq!(world.clock().await, before, "failed requests and cleanup do not touch");
}

/// Runs something that only looks, or that fails, at a later time: the clock stays.
async fn check_quiet(store: Store, look: impl AsyncFnOnce(&World)) {
    let mut world = furnished(store).await;
    let before = world.clock().await;
    world.now = world.now.plus_millis(DAY);
    look(&world).await;
    assert_eq!(world.clock().await, before);
}

pub(super) async fn reading_listing_and_exporting_do_not_touch(store: Store) {
    clause!("RET-03");
    check_quiet(store, async |world| {
        assert!(read_everything(world).await > 0);
    })
    .await;
}

pub(super) async fn reconstructing_target_input_does_not_touch(store: Store) {
    clause!("RET-03");
    check_quiet(store, async |world| {
        let items = world.store.branch_items(&world.branch_id, ItemPage::default()).await.unwrap();
        assert_eq!(items.len(), 1);
        world.store.branch_revisions(&world.branch_id).await.unwrap();
        let resources = world.store.resources(&world.conversation_id, None).await.unwrap();
        for resource in resources {
            world.vault.open(&resource.seal_context(), &resource.sealed).unwrap();
        }
    })
    .await;
}

pub(super) async fn replaying_events_does_not_touch(store: Store) {
    clause!("RET-03");
    check_quiet(store, async |world| assert_eq!(world.events(&id("op_1")).await.len(), 1)).await;
}

pub(super) async fn attaching_and_detaching_do_not_touch(store: Store) {
    clause!("RET-03");
    check_quiet(store, async |world| {
        // What a subscriber asks for when it comes; when it goes it asks for nothing.
        assert_eq!(world.store.last_sequence(&id("op_1")).await.unwrap(), 1);
        world.store.operation(&id("op_1")).await.unwrap().unwrap();
        let range = EventRange {
            after: 1,
            through: 1,
            max_events: 1,
            max_bytes: 1,
        };
        assert!(world.store.events_after(&id("op_1"), range).await.unwrap().is_empty());
        let lease = samples::lease(world, "lease_1", world.now.plus_millis(DAY));
        world.commit(vec![WriteOp::AcquireLease(lease)]).await.unwrap();
        world.commit(vec![WriteOp::ReleaseLease { lease_id: id("lease_1") }]).await.unwrap();
    })
    .await;
}

pub(super) async fn cleanup_and_integrity_scans_do_not_touch(store: Store) {
    clause!("RET-03");
    check_quiet(store, async |world| {
        let now = world.now;
        crate::clean(world.store.as_ref(), &|| now).await.unwrap();
        world.store.check().await.unwrap();
    })
    .await;
}

pub(super) async fn checkpoint_validity_reads_do_not_touch(store: Store) {
    clause!("RET-03");
    check_quiet(store, async |world| {
        let checkpoint = world.store.checkpoint(&id("ckpt_1")).await.unwrap().unwrap();
        assert_eq!(checkpoint.status, ResourceStatus::Active);
        world
            .store
            .checkpoints(&world.conversation_id, Some(&world.branch_id))
            .await
            .unwrap();
        world.store.resource(&id("r1")).await.unwrap().unwrap();
    })
    .await;
}

pub(super) async fn failed_requests_do_not_touch(store: Store) {
    clause!("RET-03");
    check_quiet(store, async |world| {
        for (ops, code) in [
            (
                vec![append_events(&id("op_1"), 2, &["b"]), append_events(&id("op_1"), 9, &["gap"])],
                "conflict.event-gap",
            ),
            (
                vec![world.append(Some("i9"), vec![samples::message("i2", "b")])],
                "conflict.head-moved",
            ),
            (
                vec![WriteOp::AddRevision(samples::revision("rev_1", "i1", 7, &json!({})))],
                "conflict.revision",
            ),
        ] {
            assert_eq!(world.refused(ops).await, code);
        }
    })
    .await;
}

/// Calls every read and gives how many rows they found together.
async fn read_everything(world: &World) -> usize {
    let store = &world.store;
    let (conversation, branch, operation) = (&world.conversation_id, &world.branch_id, &id("op_1"));
    let range = EventRange {
        after: 0,
        through: 100,
        max_events: 100,
        max_bytes: 1_000,
    };
    let principal = samples::PRINCIPAL;
    let hashes = [Sha256::of(b"l")];
    let one = |found: bool| usize::from(found);
    let payload_hash = world.vault.keyed_hash(crate::HashPurpose::PrivatePayload, b"x").unwrap();
    let listed = OperationFilter {
        conversation_id: Some(conversation.clone()),
        ..OperationFilter::default()
    };
    let counts = [
        one(store.conversation(conversation).await.unwrap().is_some()),
        store.conversations(ConversationFilter::default()).await.unwrap().len(),
        one(store.branch(branch).await.unwrap().is_some()),
        store.branches(conversation).await.unwrap().len(),
        store.leases(conversation).await.unwrap().len(),
        store.expired_conversations(world.now, world.now, 10).await.unwrap().len(),
        one(store.item(&id("i1")).await.unwrap().is_some()),
        store.branch_items(branch, ItemPage::default()).await.map_or(0, |items| items.len()),
        store.revisions(&id("i1")).await.unwrap().len(),
        store.branch_revisions(branch).await.map_or(0, |revisions| revisions.len()),
        store.annotations(conversation).await.unwrap().len(),
        one(store.operation(operation).await.unwrap().is_some()),
        store.operations(listed).await.unwrap().len(),
        one(store
            .operation_by_idempotency_key(principal, &Sha256::of(b"k"))
            .await
            .unwrap()
            .is_some()),
        one(store.result(operation).await.unwrap().is_some()),
        store.events_after(operation, range).await.map_or(0, |events| events.len()),
        store.last_sequence(operation).await.map_or(0, |_| 1),
        one(store.resource(&id("r1")).await.unwrap().is_some()),
        store.resources(conversation, None).await.unwrap().len(),
        store.resources_by_payload_hash(principal, &[payload_hash]).await.unwrap().len(),
        one(store.checkpoint(&id("ckpt_1")).await.unwrap().is_some()),
        store.checkpoints(conversation, None).await.unwrap().len(),
        store.sealed_under_other_keys(99, None, 10).await.unwrap().len(),
        store.lineage(principal, &hashes).await.unwrap().len(),
        store.issued_ids(principal, &hashes).await.unwrap().len(),
        store.session_keys(principal, &hashes[0]).await.unwrap().len(),
        one(!store.check().await.unwrap().is_ok()),
    ];
    // Artifacts belong to the principal, not to the conversation.
    store.artifact(&id("art_1")).await.unwrap();
    store.artifact_by_digest(principal, &Sha256::of(b"p")).await.unwrap();
    counts.iter().sum()
}

pub(super) async fn the_clock_never_goes_back(store: Store) {
    let mut world = World::new(store).await;
    world.now = samples::START.plus_millis(DAY);
    world.say(&world.branch_id, &["i1"]).await;
    world.now = samples::START;
    world.say(&world.branch_id, &["i2"]).await;
    assert_eq!(world.clock().await, samples::START.plus_millis(DAY));
}

pub(super) async fn old_conversations_are_found(store: Store) {
    clause!("RET-01", "CONF-07");
    let mut old = World::of(store.clone(), "old", samples::PRINCIPAL).await;
    let mut used = World::of(store.clone(), "used", samples::PRINCIPAL).await;
    for world in [&mut old, &mut used] {
        world.say(&world.branch_id, &[&format!("{}.i1", world.conversation_id)]).await;
    }
    assert_eq!(store.meta().retention_days, 7, "the default is seven days");
    // Six days old, and used today.
    used.now = samples::START.plus_millis(6 * DAY);
    used.say(&used.branch_id, &["today"]).await;
    let expired = async |days: i64| {
        let now = samples::START.plus_millis(days * DAY);
        store
            .expired_conversations(store.meta().retention_cutoff(now), now, 10)
            .await
            .unwrap()
            .iter()
            .map(UnifiedId::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(expired(6).await, [""; 0]);
    assert_eq!(expired(7).await, ["conv_old"]);
    assert_eq!(expired(12).await, ["conv_old"]);
    assert_eq!(expired(13).await, ["conv_old", "conv_used"]);
}

fn delete(only_if: DeletionCondition) -> Vec<WriteOp> {
    vec![WriteOp::DeleteConversation { only_if }]
}

pub(super) async fn deletion_is_checked_again(store: Store) {
    let mut world = World::new(store).await;
    let cutoff = samples::START.plus_millis(DAY);
    // Between the look for candidates and the deletion somebody appends.
    world.now = cutoff.plus_millis(1);
    world.say(&world.branch_id, &["i1"]).await;
    assert_eq!(
        world.refused(delete(DeletionCondition::NotUpdatedSince(cutoff))).await,
        "conflict.retained"
    );
    assert!(world.store.conversation(&world.conversation_id).await.unwrap().is_some());
    world.commit(delete(DeletionCondition::NotUpdatedSince(world.now))).await.unwrap();
    assert_eq!(world.store.conversation(&world.conversation_id).await.unwrap(), None);
    // And the other way round: an append that comes too late gets "gone".
    assert_eq!(
        world
            .refused(vec![world.append(Some("i1"), vec![samples::message("i2", "x")])])
            .await,
        "not-found.resource"
    );
    world
        .commit(delete(DeletionCondition::Always))
        .await
        .expect("deleting twice is a success");
    let mut two = delete(DeletionCondition::Always);
    two.push(WriteOp::ReleaseLease { lease_id: id("lease_1") });
    assert_eq!(world.refused(two).await, "invalid-request.validation");
}

pub(super) async fn active_work_keeps_a_conversation(store: Store) {
    clause!("RET-04");
    let world = furnished(store).await;
    let later = samples::START.plus_millis(100 * DAY);
    assert_eq!(
        world.refused(delete(DeletionCondition::NotUpdatedSince(later))).await,
        "conflict.operation-active"
    );
    assert_eq!(world.refused(delete(DeletionCondition::Always)).await, "conflict.operation-active");
    assert!(world.store.expired_conversations(later, later, 10).await.unwrap().is_empty());
    let ended = samples::in_state(&samples::operation("op_1", &world), OperationState::Failed);
    world.commit(vec![WriteOp::UpdateOperation(ended)]).await.unwrap();
    assert_eq!(
        world.store.expired_conversations(later, later, 10).await.unwrap(),
        std::slice::from_ref(&world.conversation_id)
    );
    world.commit(delete(DeletionCondition::NotUpdatedSince(later))).await.unwrap();
}

pub(super) async fn a_lease_keeps_without_touching(store: Store) {
    clause!("RET-04");
    let mut world = World::new(store).await;
    let until = samples::START.plus_millis(30 * DAY);
    world
        .commit(vec![WriteOp::AcquireLease(samples::lease(
            &world,
            "lease_1",
            until.plus_millis(-1),
        ))])
        .await
        .unwrap();
    world
        .commit(vec![WriteOp::AcquireLease(samples::lease(&world, "lease_1", until))])
        .await
        .expect("a lease can be renewed");
    assert_eq!(
        world.store.leases(&world.conversation_id).await.unwrap(),
        [samples::lease(&world, "lease_1", until)]
    );
    assert_eq!(world.clock().await, samples::START);
    let mut taken = samples::lease(&world, "lease_1", until);
    taken.holder = "another".to_owned();
    assert_eq!(world.refused(vec![WriteOp::AcquireLease(taken)]).await, "conflict.duplicate");
    world.now = until.plus_millis(-1);
    assert_eq!(world.refused(delete(DeletionCondition::Always)).await, "conflict.operation-active");
    assert!(
        world
            .store
            .expired_conversations(world.now, world.now, 10)
            .await
            .unwrap()
            .is_empty()
    );
    // A lease lapses by itself when its holder has died.
    world.now = until;
    assert_eq!(
        world.store.expired_conversations(world.now, world.now, 10).await.unwrap(),
        std::slice::from_ref(&world.conversation_id)
    );
    world.store.sweep(SweepRequest::new(world.now)).await.unwrap();
    assert!(world.store.leases(&world.conversation_id).await.unwrap().is_empty());
    world.commit(delete(DeletionCondition::Always)).await.unwrap();
}

pub(super) async fn deletion_takes_the_whole_scope(store: Store) {
    clause!("RET-01");
    let world = furnished(store.clone()).await;
    let neighbour = World::of(store.clone(), "neighbour", "principal-b").await;
    neighbour.say(&neighbour.branch_id, &["b1"]).await;
    let annotation = serde_json::from_str(
        "{\"resourceId\":\"n1\",\"profile\":{\"family\":\"openai-chat\"},\"schema\":\"message/phase@1\",\"payload\":{\"phase\":\"final\"}}",
    )
    .unwrap();
    let mut ended = samples::in_state(&samples::operation("op_1", &world), OperationState::Completed);
    ended.result_id = Some(id("res_1"));
    let many: Vec<_> = (0..400).map(|_| "e").collect();
    world
        .commit(vec![
            WriteOp::AddRevision(samples::revision("rev_1", "i1", 1, &json!({}))),
            WriteOp::PutAnnotation { subject: None, annotation },
            WriteOp::PutLineage(vec![super::index::link(&world, samples::PRINCIPAL, "l", "i1")]),
            append_events(&id("op_1"), 2, &many),
            WriteOp::PutResult {
                operation_id: id("op_1"),
                result: samples::result(&id("op_1")),
            },
            WriteOp::UpdateOperation(ended),
            WriteOp::AddArtifactRef {
                artifact_id: id("art_1"),
                subject: id("i1"),
            },
        ])
        .await
        .unwrap();
    let neighbours = 2; // In the list of all conversations, and in that of the expired ones.
    assert!(read_everything(&world).await > neighbours + 10);
    world.commit(delete(DeletionCondition::Always)).await.unwrap();
    assert_eq!(read_everything(&world).await, neighbours, "hidden at once");
    let mut rows = 0;
    let mut conversations = 0;
    let mut pending = 0;
    for _ in 0..1_000 {
        let report = store
            .sweep(SweepRequest {
                now: world.now,
                max_rows: 50,
            })
            .await
            .unwrap();
        rows += report.rows;
        conversations += report.conversations;
        pending += report.artifacts_pending;
        assert_eq!(read_everything(&world).await, neighbours);
        if !report.more {
            break;
        }
    }
    assert!(rows > 400, "{rows} rows");
    assert_eq!((conversations, pending), (1, 1));
    assert!(store.check().await.unwrap().is_ok());
    assert_eq!(neighbour.path(&neighbour.branch_id).await, [("b1".to_owned(), 1)]);
    assert_eq!(store.sweep(SweepRequest::new(world.now)).await.unwrap().rows, 0);
    // Nothing is left that the same IDs could collide with.
    furnished(store).await;
}

pub(super) async fn deletion_keeps_shared_artifacts(store: Store) {
    let one = World::of(store.clone(), "one", samples::PRINCIPAL).await;
    let two = World::of(store.clone(), "two", samples::PRINCIPAL).await;
    let put = WriteOp::PutArtifact {
        principal_ref: samples::PRINCIPAL.to_owned(),
        artifact: samples::artifact("art_1", b"p"),
    };
    let reference = |subject: &str| WriteOp::AddArtifactRef {
        artifact_id: samples::id("art_1"),
        subject: samples::id(subject),
    };
    one.commit(vec![put, reference("i1")]).await.unwrap();
    two.commit(vec![reference("i2")]).await.unwrap();
    let remove = async |world: &World| {
        world.commit(delete(DeletionCondition::Always)).await.unwrap();
        let mut pending = 0;
        loop {
            let report = store.sweep(SweepRequest::new(world.now)).await.unwrap();
            pending += report.artifacts_pending;
            if !report.more {
                return pending;
            }
        }
    };
    assert_eq!(remove(&one).await, 0);
    assert_eq!(store.artifact(&id("art_1")).await.unwrap().unwrap().references, 1);
    assert_eq!(remove(&two).await, 1);
    assert_eq!(store.artifact(&id("art_1")).await.unwrap().unwrap().references, 0);
    assert!(store.check().await.unwrap().is_ok());
}

pub(super) async fn lists_of_conversations(store: Store) {
    let mut worlds = Vec::new();
    for (number, name) in ["a", "b", "c"].iter().enumerate() {
        let mut world = World::of(store.clone(), name, if number == 1 { "principal-b" } else { samples::PRINCIPAL }).await;
        world.now = samples::START.plus_millis(i64::try_from(number).unwrap() * DAY + 1);
        world.say(&world.branch_id, &[&format!("i{number}")]).await;
        worlds.push(world);
    }
    let list = async |filter: ConversationFilter| {
        let found = store.conversations(filter).await.unwrap();
        found
            .iter()
            .map(|conversation| conversation.conversation_id.to_string())
            .collect::<Vec<_>>()
    };
    let all = ConversationFilter::default();
    assert_eq!(list(all.clone()).await, ["conv_c", "conv_b", "conv_a"]);
    assert_eq!(
        list(ConversationFilter {
            principal_ref: Some("principal-b".to_owned()),
            ..all.clone()
        })
        .await,
        ["conv_b"]
    );
    assert_eq!(
        list(ConversationFilter {
            updated_since: Some(worlds[1].now),
            ..all.clone()
        })
        .await,
        ["conv_c", "conv_b"]
    );
    assert_eq!(
        list(ConversationFilter {
            after: Some(id("conv_c")),
            limit: 1,
            ..all.clone()
        })
        .await,
        ["conv_b"]
    );
    assert_eq!(
        store
            .conversations(ConversationFilter {
                after: Some(id("conv_x")),
                ..all
            })
            .await
            .unwrap_err()
            .code(),
        "not-found.resource"
    );
}

pub(super) async fn closing_ends_everything(store: Store) {
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1"]).await;
    world.store.close().await.unwrap();
    assert_eq!(world.refused(vec![world.append(Some("i1"), vec![])]).await, "storage.closed");
    assert_eq!(world.store.item(&id("i1")).await.unwrap_err().code(), "storage.closed");
    assert_eq!(
        world.store.sweep(SweepRequest::new(world.now)).await.unwrap_err().code(),
        "storage.closed"
    );
    world.store.close().await.expect("closing twice is a success");
    let batch = WriteBatch::new(world.now, world.conversation_id.clone());
    assert_eq!(world.store.commit(batch).await.unwrap_err().code(), "storage.closed");
}
