//! [`Engine`]: the state that all turns share, and reads of operations.

use crate::cursor::{self, ResumeCursor};
use crate::live::{Live, Publishers, Subscription};
use crate::ports::{Clock, IdSource};
use crate::principal::Principal;
use crate::tools::ToolExecutor;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use throughline_format::{
    ErrorCategory, OperationState, UnifiedBranch, UnifiedError, UnifiedId, UnifiedItem, UnifiedOperation, UnifiedResultV2,
};
use throughline_protocols::SyntheticSealer;
use throughline_store::{
    CommitReceipt, HashPurpose, ItemPage, MAX_PAGE, OperationFilter, StoreError, StoreHealth, StoreLimits, UnifiedStateStore, Vault,
    WriteBatch,
};
use tokio::sync::Semaphore;

/// How long a failure of the store makes the engine count as not ready.
const STORAGE_ERROR_MILLIS: i64 = 30_000;

/// Bounds of the engine; docs/limits.md lists them.
#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// Recent events that an operation keeps in memory.
    pub ring_events: usize,
    /// Bytes of them.
    pub ring_bytes: usize,
    /// Operations that run at one time.
    pub concurrent_operations: usize,
    /// Background operations that wait until one of them ends.
    pub queued_operations: usize,
    /// Milliseconds that an operation may take at most, waiting and approvals included; then it expires.
    pub operation_millis: i64,
    /// How often an operation may run its own tools and ask its provider again.
    pub tool_rounds: usize,
    /// Items of one request.
    pub items_per_request: usize,
    /// Items of one answer, so that the event that lists them all always fits.
    pub items_per_answer: usize,
    /// Branches of one conversation that is imported.
    pub branches: usize,
    /// Tools of one request.
    pub tools_per_request: usize,
    /// Bytes of an unstreamed answer.
    pub answer_bytes: usize,
    /// Bytes of one item of an answer; below the store's own bound, so that the operation can still end.
    pub item_bytes: usize,
    /// Bytes of a request that is kept while its operation waits; below the store's own bound. A longer one is not kept, and its
    /// operation ends with the process.
    pub kept_request_bytes: usize,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            ring_events: 4_096,
            ring_bytes: 4 * 1024 * 1024,
            concurrent_operations: 256,
            queued_operations: 1_024,
            operation_millis: 24 * 3_600_000,
            tool_rounds: 64,
            items_per_request: 20_000,
            items_per_answer: 4_096,
            branches: StoreLimits::default().branches,
            tools_per_request: 1_024,
            answer_bytes: 32 * 1024 * 1024,
            item_bytes: 8 * 1024 * 1024 - 256 * 1024,
            kept_request_bytes: 7 * 1024 * 1024,
        }
    }
}

/// Everything an engine is built from.
pub struct EngineConfig {
    /// The store.
    pub store: Arc<dyn UnifiedStateStore>,
    /// Keys for sealing, hashing and cursors.
    pub vault: Arc<Vault>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// IDs.
    pub ids: Arc<dyn IdSource>,
    /// Bounds.
    pub limits: EngineLimits,
}

/// Runs operations and hands out their events.
pub struct Engine {
    pub(crate) store: Arc<dyn UnifiedStateStore>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) limits: EngineLimits,
    pub(crate) publishers: Publishers,
    pub(crate) synthetic: SyntheticSealer,
    pub(crate) lineage_key: zeroize::Zeroizing<[u8; 32]>,
    pub(crate) stopping: std::sync::atomic::AtomicBool,
    /// When a commit last failed because of the store itself, in milliseconds; 0 after a success.
    pub(crate) storage_failed_at: std::sync::atomic::AtomicI64,
    /// One permit per operation that may run; a producer holds its own until its end is committed.
    pub(crate) slots: Arc<Semaphore>,
    /// One permit per background operation that may wait for a slot.
    pub(crate) queue: Arc<Semaphore>,
    /// Who executes tools of this process.
    pub(crate) tools: std::sync::OnceLock<Arc<dyn ToolExecutor>>,
}

impl Engine {
    /// An engine over a store.
    ///
    /// # Errors
    /// When the vault cannot derive its keys.
    pub fn new(config: EngineConfig) -> Result<Arc<Self>, UnifiedError> {
        let seed = config
            .vault
            .keyed_hash(HashPurpose::SyntheticSignature, b"synthetic-signature-key@1")
            .map_err(|e| e.to_unified())?;
        let lineage_key = config.vault.lineage_key().map_err(|e| e.to_unified())?;
        Ok(Arc::new(Self {
            store: config.store,
            vault: config.vault,
            clock: config.clock,
            ids: config.ids,
            limits: config.limits,
            publishers: Publishers::default(),
            synthetic: SyntheticSealer::new(*seed.as_bytes()),
            lineage_key,
            stopping: std::sync::atomic::AtomicBool::new(false),
            storage_failed_at: std::sync::atomic::AtomicI64::new(0),
            slots: Arc::new(Semaphore::new(config.limits.concurrent_operations)),
            tools: std::sync::OnceLock::new(),
            queue: Arc::new(Semaphore::new(config.limits.queued_operations)),
        }))
    }

    /// Commits a batch and remembers whether the store itself works.
    pub(crate) async fn commit(&self, batch: WriteBatch) -> Result<CommitReceipt, StoreError> {
        let outcome = self.store.commit(batch).await;
        let failing = outcome.as_ref().is_err_and(|error| error.category() == ErrorCategory::Storage);
        let failed_at = if failing { self.clock.now().millis() } else { 0 };
        self.storage_failed_at.store(failed_at, Ordering::Relaxed);
        outcome
    }

    /// Whether the store itself failed a moment ago: a full disk, an I/O error, a foreign lock. It is forgotten after a while
    /// without a further try, so that a gateway that gets no requests because of it is asked again. Damage of the data is not.
    pub fn is_storage_failing(&self) -> bool {
        if self.store.health() == StoreHealth::Damaged {
            return true;
        }
        let failed_at = self.storage_failed_at.load(Ordering::Relaxed);
        failed_at != 0 && self.clock.now().millis() - failed_at < STORAGE_ERROR_MILLIS
    }

    /// Number of operations that run.
    pub fn running(&self) -> usize {
        self.publishers.len()
    }

    /// The operation, when the principal may see it.
    ///
    /// # Errors
    /// `not-found.resource` when it is absent or somebody else's: the two look alike.
    pub async fn operation(&self, principal: &Principal, id: &UnifiedId) -> Result<UnifiedOperation, UnifiedError> {
        let reference = principal.reference(&self.vault)?;
        match self.store.operation(id).await.map_err(|e| e.to_unified())? {
            Some(operation) if operation.principal_ref == reference => Ok(operation),
            _ => Err(not_found("operation")),
        }
    }

    /// The result of an operation, once it has ended.
    ///
    /// # Errors
    /// As [`Self::operation`].
    pub async fn result(&self, principal: &Principal, id: &UnifiedId) -> Result<Option<UnifiedResultV2>, UnifiedError> {
        self.operation(principal, id).await?;
        self.store.result(id).await.map_err(|e| e.to_unified())
    }

    /// Every item on the path of a branch, ancestors included.
    pub(crate) async fn branch_path(&self, branch_id: &UnifiedId) -> Result<Vec<UnifiedItem>, UnifiedError> {
        let mut path: Vec<UnifiedItem> = Vec::new();
        loop {
            let page = ItemPage {
                after_sequence: path.last().map_or(0, |item| item.sequence),
                limit: MAX_PAGE,
                ..ItemPage::default()
            };
            let items = self.store.branch_items(branch_id, page).await.map_err(|e| e.to_unified())?;
            let full = items.len() == MAX_PAGE;
            path.extend(items);
            if !full {
                return Ok(path);
            }
        }
    }

    /// Whether an answer is on its way on a branch.
    pub(crate) async fn is_busy(&self, branch: &UnifiedBranch) -> Result<bool, UnifiedError> {
        let filter = OperationFilter {
            conversation_id: Some(branch.conversation_id.clone()),
            branch_id: Some(branch.branch_id.clone()),
            states: vec![OperationState::Queued, OperationState::Running, OperationState::RequiresAction],
            limit: 1,
            ..OperationFilter::default()
        };
        let running = self.store.operations(filter).await.map_err(|e| e.to_unified())?;
        Ok(!running.is_empty())
    }

    /// Attaches a subscriber after a sequence. It writes nothing.
    ///
    /// # Errors
    /// `not-found.resource`, or `conflict.cursor-ahead` when `after` lies beyond the committed head.
    pub async fn subscribe(&self, principal: &Principal, operation_id: &UnifiedId, after: u64) -> Result<Subscription, UnifiedError> {
        self.operation(principal, operation_id).await?;
        // The publisher is looked up before the head is read: whatever it commits later wakes the subscriber.
        let live = self.publishers.get(operation_id);
        let head = self.store.last_sequence(operation_id).await.map_err(|e| e.to_unified())?;
        if after > head {
            return Err(UnifiedError::new(
                ErrorCategory::Conflict,
                "cursor-ahead",
                format!("the operation has {head} events; attach after one of them"),
            ));
        }
        Ok(self.attach(operation_id.clone(), live, after))
    }

    pub(crate) fn attach(&self, operation_id: UnifiedId, live: Option<Arc<Live>>, after: u64) -> Subscription {
        Subscription::new(Arc::clone(&self.store), operation_id, live, after)
    }

    /// A cursor after an event.
    ///
    /// # Errors
    /// When the vault has no key.
    pub fn cursor(
        &self,
        principal: &Principal,
        conversation_id: &UnifiedId,
        operation_id: &UnifiedId,
        after: u64,
    ) -> Result<String, UnifiedError> {
        let meta = self.store.meta();
        let cursor = ResumeCursor {
            conversation_id: conversation_id.clone(),
            operation_id: operation_id.clone(),
            after_sequence: after,
            epoch: meta.epoch,
            expires_at: self.clock.now().plus_millis(i64::from(meta.retention_days.max(1)) * 86_400_000),
        };
        cursor::seal(&self.vault, principal, &cursor)
    }

    /// The sequence of a cursor of this principal and operation.
    ///
    /// # Errors
    /// `invalid-request.cursor`, with one text for every cause.
    pub fn read_cursor(&self, principal: &Principal, operation_id: &UnifiedId, text: &str) -> Result<u64, UnifiedError> {
        let cursor = cursor::open(&self.vault, principal, self.clock.now(), text)?;
        if cursor.operation_id == *operation_id {
            Ok(cursor.after_sequence)
        } else {
            Err(cursor::invalid())
        }
    }
}

pub(crate) fn not_found(what: &str) -> UnifiedError {
    UnifiedError::new(ErrorCategory::NotFound, "resource", format!("there is no such {what}"))
}
