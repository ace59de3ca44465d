//! What must hold when everything has ended, whatever happened before.

use crate::world::World;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::item::ApprovalDecision;
use throughline_format::resource::ResourceStatus;
use throughline_format::{EventBody, Fold, Sha256, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedToolLifecycle};
use throughline_store::{EventRange, ItemPage};

async fn events(world: &World, id: &UnifiedId) -> Vec<(u64, Bytes)> {
    let range = EventRange {
        after: 0,
        through: u64::from(u32::MAX),
        max_events: 1_000,
        max_bytes: usize::MAX,
    };
    let stored = world.store.events_after(id, range).await.unwrap();
    stored.into_iter().map(|event| (event.sequence, event.bytes)).collect()
}

/// The items of an operation's answer as its events tell them so far.
pub async fn answer(world: &World, id: &UnifiedId) -> Vec<UnifiedItem> {
    let mut fold = Fold::new(id.clone());
    for (_, bytes) in events(world, id).await {
        fold.push(&throughline_format::json::decode::decode_unscanned(&bytes).unwrap())
            .unwrap();
    }
    fold.items().to_vec()
}

/// A digest over every event, in the order in which operations began.
pub async fn digest(world: &World) -> [u8; 32] {
    let operations = world.shared.lock().operations.clone();
    let mut all = Vec::new();
    for id in operations {
        for (_, bytes) in events(world, &id).await {
            all.extend_from_slice(&bytes);
        }
    }
    *Sha256::of(&all).as_bytes()
}

pub async fn check(world: &World) {
    let (operations, attachments, violations) = {
        let mut state = world.shared.lock();
        (
            state.operations.clone(),
            std::mem::take(&mut state.attachments),
            std::mem::take(&mut state.violations),
        )
    };
    assert!(violations.is_empty(), "{violations:#?}");
    let mut answers: BTreeMap<UnifiedId, Vec<UnifiedItem>> = BTreeMap::new();
    for id in &operations {
        answers.insert(id.clone(), operation(world, id).await);
        let stored = events(world, id).await;
        for attachment in attachments.get(id).into_iter().flatten() {
            let after = usize::try_from(attachment.after).unwrap();
            let expected = &stored[after..after + attachment.got.len()];
            assert_eq!(
                attachment.got, expected,
                "{id}: a subscriber after {after} saw something else than what is stored"
            );
        }
    }
    journal(world, &answers).await;
}

/// Events without a hole, one terminal, and a fold that is the stored result. Gives the answer's items.
async fn operation(world: &World, id: &UnifiedId) -> Vec<UnifiedItem> {
    let record = world.store.operation(id).await.unwrap().unwrap();
    assert!(record.state.is_terminal(), "{id} is {}", record.state);
    let stored = events(world, id).await;
    let numbers: Vec<u64> = stored.iter().map(|(number, _)| *number).collect();
    assert_eq!(
        numbers,
        (1..=record.last_sequence).collect::<Vec<_>>(),
        "{id}: events are lost or doubled"
    );
    let mut fold = Fold::new(id.clone());
    let (mut ends, mut last) = (0, "");
    let mut hands = Hands::default();
    for (_, bytes) in &stored {
        let event: UnifiedEventV2 = throughline_format::json::decode::decode_unscanned(bytes).unwrap();
        ends += usize::from(matches!(
            event.body,
            EventBody::OperationCompleted(_)
                | EventBody::OperationFailed(_)
                | EventBody::OperationCancelled(_)
                | EventBody::OperationExpired(_)
        ));
        last = event.body.kind();
        hands.see(id, &event);
        fold.push(&event).unwrap();
    }
    assert_eq!((ends, last), (1, "stream.completed"), "{id}: one end, and nothing after it");
    hands.check(world, id);
    let result = world.store.result(id).await.unwrap().unwrap();
    let mut folded = fold.result();
    folded.conversation_id.clone_from(&result.conversation_id);
    folded.provenance.request_id.clone_from(&result.provenance.request_id);
    assert_eq!(folded, result, "{id}: the fold is not the stored result");
    world.shared.lock().figures.completed += u64::from(result.error.is_none());
    result.output
}

/// What the events of one operation tell of its tools, in their order.
#[derive(Default)]
struct Hands {
    asked: BTreeSet<String>,
    decided: BTreeMap<String, ApprovalDecision>,
    executed: BTreeSet<String>,
}

impl Hands {
    fn see(&mut self, id: &UnifiedId, event: &UnifiedEventV2) {
        match &event.body {
            EventBody::ItemCompleted(done) => match done.item.as_ref().map(|item| &item.body) {
                Some(UnifiedItemBody::ApprovalRequest(request)) => {
                    assert!(self.asked.insert(request.approval_id.clone()), "{id}: asked twice");
                }
                Some(UnifiedItemBody::ApprovalResponse(response)) => {
                    assert!(self.asked.contains(&response.approval_id), "{id}: decided before it was asked");
                    let first = self.decided.insert(response.approval_id.clone(), response.decision);
                    assert_eq!(first, None, "{id}: decided twice");
                }
                _ => {}
            },
            EventBody::ToolLifecycle(change) if change.to == UnifiedToolLifecycle::Executing => {
                let call = event.call_id.clone().unwrap();
                let question = format!("approve:{call}");
                if self.asked.contains(&question) {
                    let decision = self.decided.get(&question);
                    assert_eq!(decision, Some(&ApprovalDecision::Approved), "{id}: {call} is run without leave");
                }
                assert!(self.executed.insert(call), "{id}: run twice");
            }
            _ => {}
        }
    }

    fn check(&self, world: &World, id: &UnifiedId) {
        for (operation, call) in &world.shared.lock().ran {
            assert!(
                operation != id || self.executed.contains(call),
                "{id}: {call} was run and nothing tells of it"
            );
        }
    }
}

/// Every branch is dense and every answer stands on one of them, whole, once and in order; checkpoints stand at heads.
async fn journal(world: &World, answers: &BTreeMap<UnifiedId, Vec<UnifiedItem>>) {
    let mut owned: BTreeMap<UnifiedId, Vec<UnifiedId>> = BTreeMap::new();
    for conversation in world.conversations().await.into_keys() {
        let branches = world.store.branches(&conversation).await.unwrap();
        world.shared.lock().figures.forked += branches.len() as u64 - 1;
        for branch in &branches {
            let path = world.store.branch_items(&branch.branch_id, ItemPage::default()).await.unwrap();
            let mut parent = None;
            let mut ids = BTreeSet::new();
            for (item, number) in path.iter().zip(1..) {
                assert_eq!(item.sequence, number, "{}: the path has a hole", branch.branch_id);
                assert_eq!(item.parent_id, parent, "{}: an item hangs on another one", item.id);
                assert!(ids.insert(item.id.clone()), "{} stands twice on a path", item.id);
                assert!(item.status.is_terminal());
                if let UnifiedItemBody::CompactionSummary(summary) = &item.body {
                    assert_eq!(throughline_format::compaction::verify(summary, &path), Ok(()));
                }
                parent = Some(item.id.clone());
            }
            assert_eq!(branch.head_item_id, parent);
            for item in path.iter().filter(|item| item.branch_id == branch.branch_id) {
                if matches!(item.body, UnifiedItemBody::ProviderSwitch(_)) {
                    world.shared.lock().figures.switched += 1;
                }
                if let Some(operation) = &item.provenance.operation_id {
                    owned.entry(operation.clone()).or_default().push(item.id.clone());
                }
            }
        }
        for checkpoint in world.store.checkpoints(&conversation, None).await.unwrap() {
            let branch = branches.iter().find(|b| b.branch_id == checkpoint.branch_id).unwrap();
            let is_at_head = branch.head_item_id.as_ref() == Some(&checkpoint.journal_head_item_id);
            assert!(
                is_at_head || checkpoint.status != ResourceStatus::Active,
                "{} is active behind the head",
                checkpoint.checkpoint_id
            );
        }
    }
    for (operation, output) in answers {
        let stored = owned.get(operation).cloned().unwrap_or_default();
        let ids: Vec<UnifiedId> = output.iter().map(|item| item.id.clone()).collect();
        let tail = stored.len().checked_sub(ids.len()).map(|at| &stored[at..]);
        assert_eq!(
            tail,
            Some(&ids[..]),
            "{operation}: the answer is not in the journal, whole and once"
        );
    }
}
