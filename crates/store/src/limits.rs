//! [`StoreLimits`]: every bound of a store in one place.

/// The bounds that a store enforces. What is at the bound is taken, one beyond is refused with its own code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Canonical size of one journal item.
    pub item_bytes: usize,
    /// Size of one stream event.
    pub event_bytes: usize,
    /// Size of the result of an operation.
    pub result_bytes: usize,
    /// Size of one sealed payload, sealing included.
    pub payload_bytes: usize,
    /// Size of any other record: operation, revision, annotation, metadata.
    pub record_bytes: usize,
    /// Inline data of a part that stays in its item; longer data is kept as an artifact and put back on reading.
    pub inline_bytes: usize,
    /// Size of one artifact.
    pub artifact_bytes: u64,
    /// Size of all that one batch carries.
    pub batch_bytes: usize,
    /// Operations on the store in one batch.
    pub batch_ops: usize,
    /// Items in one batch.
    pub batch_items: usize,
    /// Stream events in one batch.
    pub batch_events: usize,
    /// Lineage rows, issued ids and session keys in one batch.
    pub batch_index_rows: usize,
    /// Branches of one conversation.
    pub branches: usize,
    /// Checkpoints of one branch; beyond it the oldest ones go, active ones last. What went is rebuilt from the journal.
    pub checkpoints: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            item_bytes: 8 * MIB,
            event_bytes: MIB,
            result_bytes: 64 * MIB,
            payload_bytes: 8 * MIB,
            record_bytes: MIB,
            inline_bytes: 256 * 1024,
            artifact_bytes: 256 * MIB as u64,
            batch_bytes: 128 * MIB,
            batch_ops: 4_096,
            batch_items: 20_000,
            batch_events: 512,
            batch_index_rows: 60_000,
            branches: 4_096,
            checkpoints: 64,
        }
    }
}

const MIB: usize = 1024 * 1024;

/// Most rows that one read gives; a larger limit is cut down to it.
pub const MAX_PAGE: usize = 1_000;

/// Most hashes that one look-up takes; the caller asks in batches.
pub const MAX_LOOKUP: usize = 1_000;

/// The highest sequence of an event: sequences share one integer key with the number of their operation.
pub const MAX_EVENT_SEQUENCE: u64 = u32::MAX as u64;
