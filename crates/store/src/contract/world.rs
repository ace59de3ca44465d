//! [`World`]: a store with one conversation in it.

use std::sync::Arc;

use bytes::Bytes;
use throughline_format::{Timestamp, UnifiedId, UnifiedItem, UnifiedOperation};

use super::{Store, samples};
use crate::batch::{CommitReceipt, WriteBatch, WriteOp};
use crate::records::{EventRange, ItemPage};
use crate::{KeyRing, OsRandom, StoreError, Vault};

/// A store with a conversation and its default branch, and the means to change and read it in few words.
pub struct World {
    /// The store.
    pub store: Store,
    /// A vault with keys of its own.
    pub vault: Arc<Vault>,
    /// The conversation.
    pub conversation_id: UnifiedId,
    /// Its default branch.
    pub branch_id: UnifiedId,
    /// The time of the next batch; moved by hand.
    pub now: Timestamp,
}

impl World {
    /// A conversation of [`samples::PRINCIPAL`], made at [`samples::START`].
    pub async fn new(store: Store) -> Self {
        Self::of(store, "main", samples::PRINCIPAL).await
    }

    /// A conversation with a name and a principal of its own.
    pub async fn of(store: Store, name: &str, principal: &str) -> Self {
        let ring = KeyRing::generate(&OsRandom, samples::START).unwrap();
        let vault = Arc::new(Vault::new(ring, Arc::new(OsRandom)).unwrap());
        let (conversation_id, branch_id) = (samples::id(&format!("conv_{name}")), samples::id(&format!("br_{name}")));
        let world = Self {
            store,
            vault,
            conversation_id,
            branch_id,
            now: samples::START,
        };
        world
            .commit(samples::opening(&world.conversation_id, &world.branch_id, principal))
            .await
            .unwrap();
        world
    }

    /// Commits operations at the world's time.
    pub async fn commit(&self, ops: Vec<WriteOp>) -> Result<CommitReceipt, StoreError> {
        self.store
            .commit(WriteBatch {
                now: self.now,
                conversation_id: self.conversation_id.clone(),
                ops,
            })
            .await
    }

    /// The code of the error that committing these gives.
    pub async fn refused(&self, ops: Vec<WriteOp>) -> &'static str {
        self.commit(ops).await.expect_err("the batch must be refused").code()
    }

    /// Appends text messages to a branch at its present head, and gives the new head.
    pub async fn say(&self, branch_id: &UnifiedId, ids: &[&str]) -> UnifiedId {
        let head = self.store.branch(branch_id).await.unwrap().unwrap().head_item_id;
        let items = ids.iter().map(|id| samples::message(id, "hello")).collect();
        self.commit(vec![WriteOp::AppendItems {
            branch_id: branch_id.clone(),
            expected_head: head,
            items,
        }])
        .await
        .unwrap();
        samples::id(ids.last().unwrap())
    }

    /// Stores the content of [`samples::artifact`] with the same bytes.
    pub async fn upload(&self, content: &[u8]) {
        let sha256 = self.store.put_content(Bytes::copy_from_slice(content)).await.unwrap();
        assert_eq!(sha256, throughline_format::Sha256::of(content));
    }

    /// An append to the default branch.
    pub fn append(&self, expected_head: Option<&str>, items: Vec<UnifiedItem>) -> WriteOp {
        WriteOp::AppendItems {
            branch_id: self.branch_id.clone(),
            expected_head: expected_head.map(samples::id),
            items,
        }
    }

    /// A running operation on the default branch, stored.
    pub async fn start(&self, id: &str) -> UnifiedOperation {
        let operation = samples::operation(id, self);
        self.commit(vec![WriteOp::PutOperation(operation.clone())]).await.unwrap();
        operation
    }

    /// Ids and sequences on the path of a branch.
    pub async fn path(&self, branch_id: &UnifiedId) -> Vec<(String, u64)> {
        let items = self.store.branch_items(branch_id, ItemPage::default()).await.unwrap();
        items.iter().map(|item| (item.id.to_string(), item.sequence)).collect()
    }

    /// The conversation's clock.
    pub async fn clock(&self) -> Timestamp {
        self.store
            .conversation(&self.conversation_id)
            .await
            .unwrap()
            .unwrap()
            .last_updated_at
    }

    /// Every stored event of an operation.
    pub async fn events(&self, operation_id: &UnifiedId) -> Vec<Bytes> {
        let range = EventRange {
            after: 0,
            through: u64::MAX,
            max_events: 1_000,
            max_bytes: usize::MAX,
        };
        let events = self.store.events_after(operation_id, range).await.unwrap();
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event.sequence, index as u64 + 1, "sequences are dense");
        }
        events.into_iter().map(|event| event.bytes).collect()
    }
}
