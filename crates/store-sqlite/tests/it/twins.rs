//! The memory store and the SQLite store give the same answer to the same random batches.

use std::sync::Arc;

use serde_json::json;
use throughline_format::resource::ResourceStatus;
use throughline_format::{OperationState, Sha256, clause};
use throughline_store::contract::{Store, World, samples};
use throughline_store::{
    ConversationFilter, DeletionCondition, EventRange, IssuedId, ItemPage, LineageRow, MemoryStore, OperationFilter, SweepRequest, WriteOp,
};

use crate::support::Home;

/// A small generator, so that a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn id(&mut self, prefix: &str, bound: u64) -> String {
        format!("{prefix}{}", self.below(bound))
    }
}

/// One operation over few IDs, so that repetitions, conflicts and references to absent rows are frequent.
async fn random_op(random: &mut Random, world: &World) -> WriteOp {
    let branch = samples::id(&random.id("br_", 4));
    let operation = samples::operation(&random.id("op_", 8), world);
    match random.below(16) {
        0 => {
            let mut fork = samples::fork(world, branch.as_str(), &samples::id(&random.id("br_", 4)), &random.id("i", 30));
            if random.below(4) == 0 {
                (fork.parent_branch_id, fork.fork_item_id) = (None, None);
            }
            WriteOp::CreateBranch(fork)
        }
        1..=3 => {
            let head = world.store.branch(&branch).await.unwrap().and_then(|branch| branch.head_item_id);
            let expected_head = if random.below(5) == 0 {
                Some(samples::id(&random.id("i", 30)))
            } else {
                head
            };
            let items = (0..=random.below(2)).map(|_| samples::message(&random.id("i", 30), "x")).collect();
            WriteOp::AppendItems {
                branch_id: branch,
                expected_head,
                items,
            }
        }
        4 => {
            let change = if random.below(2) == 0 {
                json!({"status": "completed"})
            } else {
                json!({})
            };
            WriteOp::AddRevision(samples::revision(
                &random.id("rev_", 6),
                &random.id("i", 30),
                random.below(3) + 1,
                &change,
            ))
        }
        5 => {
            let mut keyed = operation;
            keyed.idempotency_key_hash = (random.below(2) == 0).then(|| Sha256::of(&[u8::try_from(random.below(2)).unwrap()]));
            WriteOp::PutOperation(keyed)
        }
        6 => {
            let states = OperationState::ALL;
            let stored = world.store.operation(&operation.operation_id).await.unwrap().unwrap_or(operation);
            WriteOp::UpdateOperation(samples::in_state(
                &stored,
                states[usize::try_from(random.below(states.len() as u64)).unwrap()],
            ))
        }
        7..=9 => {
            let words: Vec<String> = (0..random.below(3)).map(|_| random.id("e", 2)).collect();
            samples::append_events(
                &operation.operation_id,
                random.below(6) + 1,
                &words.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        }
        10 => WriteOp::PutResult {
            operation_id: operation.operation_id.clone(),
            result: samples::result(&operation.operation_id),
        },
        11 => WriteOp::SetCheckpointStatus {
            checkpoint_id: samples::id(&random.id("ckpt_", 3)),
            status: if random.below(2) == 0 {
                ResourceStatus::Stale
            } else {
                ResourceStatus::Active
            },
        },
        12 => WriteOp::PutLineage(vec![LineageRow {
            principal_ref: samples::PRINCIPAL.to_owned(),
            link: Sha256::of(&[u8::try_from(random.below(3)).unwrap()]),
            lineage_version: 1,
            conversation_id: world.conversation_id.clone(),
            branch_id: branch,
            item_id: samples::id(&random.id("i", 30)),
            ordinal: random.below(2),
            evidence: random.below(2) == 0,
            created_at: world.now,
        }]),
        13 => WriteOp::PutIssuedIds(vec![IssuedId {
            principal_ref: samples::PRINCIPAL.to_owned(),
            id_hash: Sha256::of(&[u8::try_from(random.below(3)).unwrap()]),
            conversation_id: world.conversation_id.clone(),
            branch_id: branch,
            item_id: samples::id(&random.id("i", 30)),
            created_at: world.now,
        }]),
        14 => {
            let name = random.id("art_", 3);
            if random.below(2) == 0 {
                WriteOp::PutArtifact {
                    principal_ref: samples::PRINCIPAL.to_owned(),
                    artifact: samples::artifact(&name, b"same bytes"),
                }
            } else {
                WriteOp::AddArtifactRef {
                    artifact_id: samples::id(&name),
                    subject: samples::id(&random.id("i", 3)),
                }
            }
        }
        _ => {
            let expires_at = world.now.plus_millis(i64::try_from(random.below(3_000)).unwrap());
            WriteOp::AcquireLease(samples::lease(world, &random.id("lease_", 2), expires_at))
        }
    }
}

/// Everything that can be read, in words.
async fn everything(store: &Store, now: throughline_format::Timestamp) -> Vec<String> {
    let mut told = Vec::new();
    for conversation in store.conversations(ConversationFilter::default()).await.unwrap() {
        let id = &conversation.conversation_id;
        told.push(format!("{conversation:?}"));
        for branch in store.branches(id).await.unwrap() {
            told.push(format!("{branch:?}"));
            told.push(format!(
                "{:?}",
                store.branch_items(&branch.branch_id, ItemPage::default()).await.unwrap()
            ));
            told.push(format!("{:?}", store.branch_revisions(&branch.branch_id).await.unwrap()));
        }
        told.push(format!("{:?}", store.leases(id).await.unwrap()));
        told.push(format!("{:?}", store.resources(id, None).await.unwrap().len()));
    }
    for operation in store.operations(OperationFilter::default()).await.unwrap() {
        let range = EventRange {
            after: 0,
            through: 99,
            max_events: 99,
            max_bytes: 9_999,
        };
        told.push(format!("{:?}", store.events_after(&operation.operation_id, range).await.unwrap()));
        told.push(format!("{:?}", store.result(&operation.operation_id).await.unwrap()));
        told.push(format!("{operation:?}"));
    }
    let hashes: Vec<Sha256> = (0..3u8).map(|number| Sha256::of(&[number])).collect();
    told.push(format!("{:?}", store.lineage(samples::PRINCIPAL, &hashes).await.unwrap()));
    told.push(format!("{:?}", store.issued_ids(samples::PRINCIPAL, &hashes).await.unwrap()));
    for number in 0..3 {
        told.push(format!(
            "{:?}",
            store.artifact(&samples::id(&format!("art_{number}"))).await.unwrap()
        ));
    }
    told.push(format!("{:?}", store.expired_conversations(now, now, 10).await.unwrap()));
    told.push(format!("{:?}", store.check().await.unwrap()));
    told
}

#[tokio::test]
async fn both_stores_answer_alike() {
    clause!("STORE-01", "ITEM-05", "EVT-03");
    let mut accepted = 0;
    for seed in 1..=12u64 {
        let home = Home::new();
        let memory = World::new(Arc::new(MemoryStore::default())).await;
        let sqlite = World::new(Arc::new(home.open())).await;
        let mut worlds = [memory, sqlite];
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for world in &worlds {
            world
                .commit(vec![WriteOp::CreateBranch(samples::root(
                    &world.conversation_id,
                    &samples::id("br_0"),
                ))])
                .await
                .unwrap();
        }
        for step in 0..250 {
            for world in &mut worlds {
                world.now = samples::START.plus_millis(step * 100);
            }
            let mut ops = Vec::new();
            for _ in 0..=random.below(2) {
                ops.push(random_op(&mut random, &worlds[0]).await);
            }
            if step == 200 || step == 249 {
                // Refused while an operation runs or a lease is live.
                ops = vec![WriteOp::DeleteConversation {
                    only_if: DeletionCondition::Always,
                }];
            }
            let outcomes = [worlds[0].commit(ops.clone()).await, worlds[1].commit(ops.clone()).await];
            assert_eq!(outcomes[0], outcomes[1], "seed {seed}, step {step}: {ops:?}");
            accepted += usize::from(outcomes[0].is_ok());
            if step % 25 == 24 {
                let told = [
                    everything(&worlds[0].store, worlds[0].now).await,
                    everything(&worlds[1].store, worlds[1].now).await,
                ];
                assert_eq!(told[0], told[1], "seed {seed}, step {step}");
            }
        }
        for world in &worlds {
            while world.store.sweep(SweepRequest::new(world.now)).await.unwrap().more {}
        }
        let told = [
            everything(&worlds[0].store, worlds[0].now).await,
            everything(&worlds[1].store, worlds[1].now).await,
        ];
        assert_eq!(told[0], told[1], "seed {seed}, swept");
    }
    assert!(accepted > 600, "only {accepted} batches were accepted, so the test shows little");
}
