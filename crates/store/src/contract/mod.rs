//! What every store must do, as a suite of async functions that only know the traits.
//!
//! A store's own tests call [`run_all`] with a function that makes an empty store with given bounds. A case that does not hold
//! panics, as a test does. [`samples`] and [`World`] build the records; tests elsewhere may use them too.
//!
//! ```
//! # use std::sync::Arc;
//! # use throughline_store::{MemorySettings, MemoryStore, StoreLimits, contract};
//! # fn block_on<T>(future: impl Future<Output = T>) -> T {
//! #     let mut future = std::pin::pin!(future);
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     loop { if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) { return value } }
//! # }
//! let make = |limits: StoreLimits| Arc::new(MemoryStore::new(MemorySettings { limits, ..MemorySettings::default() })) as contract::Store;
//! let first = &contract::cases()[0];
//! block_on(first.run(make(first.limits())));
//! ```

// A suite of tests: a broken promise is to end in a panic with the place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::assigning_clones
)]

mod events;
mod index;
mod journal;
mod operations;
mod resources;
mod retention;
mod rotation;
pub mod samples;
mod sizes;
mod world;

use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use world::World;

use crate::{StoreLimits, UnifiedStateStore};

/// A store as the cases see it.
pub type Store = Arc<dyn UnifiedStateStore>;

/// One promise of a store.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it is about.
    pub name: &'static str,
    limits: fn() -> StoreLimits,
    run: fn(Store) -> BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Case {
    /// The bounds that the store of this case must have.
    pub fn limits(&self) -> StoreLimits {
        (self.limits)()
    }

    /// Runs the case over an empty store.
    pub async fn run(&self, store: Store) {
        (self.run)(store).await;
    }
}

macro_rules! cases {
    ($limits:expr; $($module:ident: $($name:ident),+;)+) => {
        vec![$($(Case { name: concat!(stringify!($module), "::", stringify!($name)), limits: $limits, run: |store| Box::pin($module::$name(store)) },)+)+]
    };
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut all = cases! { StoreLimits::default;
        journal: every_kind_makes_the_trip, pending_items_are_placed, placed_items_must_fit, head_must_be_the_expected_one, append_may_be_repeated,
            forks_share_their_ancestors, paths_are_read_in_pages, revisions_follow_each_other, states_of_calls_follow_their_table,
            summaries_cover_a_prefix, order_is_kept_whatever_the_batches, foreign_rows_are_absent, conversation_comes_with_its_branch;
        events: sequences_are_dense, append_is_repeatable, conflicts_and_gaps_change_nothing, replay_is_bounded, producers_do_not_disturb_each_other,
            one_bad_batch_fails_alone;
        operations: states_follow_the_table, fields_are_kept, idempotency_keys_are_unique_per_principal, ended_operations_are_frozen,
            the_end_is_one_step, whole_batches_may_be_repeated, a_deleted_operation_is_as_if_absent, lists_are_filtered;
        resources: payloads_are_sealed_in_their_place, resources_are_found_by_what_a_client_presents, owners_are_kept_apart,
            checkpoints_keep_every_field, checkpoints_belong_to_their_branch, keys_can_be_rotated, annotations_are_kept, annotations_are_validated,
            artifacts_are_counted, artifacts_without_references_are_collected;
        rotation: rotation_is_resumed_where_it_stopped, rotation_passes_by_what_does_not_open;
        index: links_are_scoped_to_the_principal, issued_ids_and_session_keys_are_scoped, rows_must_be_of_the_principal;
        retention: item_append_or_revision_touches, tool_or_approval_lifecycle_touches, provider_switch_touches,
            operation_lifecycle_or_output_touches, committed_stream_event_touches, checkpoint_or_resource_change_touches,
            artifact_reference_touches, background_end_touches, nothing_else_moves_the_clock, reading_listing_and_exporting_do_not_touch,
            reconstructing_target_input_does_not_touch, replaying_events_does_not_touch, attaching_and_detaching_do_not_touch,
            cleanup_and_integrity_scans_do_not_touch, checkpoint_validity_reads_do_not_touch, failed_requests_do_not_touch, the_clock_never_goes_back, old_conversations_are_found,
            deletion_is_checked_again, active_work_keeps_a_conversation, a_lease_keeps_without_touching, deletion_takes_the_whole_scope,
            deletion_keeps_shared_artifacts, lists_of_conversations, closing_ends_everything;
    };
    all.extend(cases! { sizes::small;
        sizes: items_are_bounded, events_are_bounded, payloads_are_bounded, records_are_bounded, batches_are_bounded, branches_are_bounded, artifacts_are_bounded, checkpoints_are_bounded;
    });
    let short = || StoreLimits {
        inline_bytes: sizes::small().inline_bytes,
        ..StoreLimits::default()
    };
    all.extend(cases! { short; resources: long_inline_data_is_read_back_identical; });
    let short_events = || StoreLimits {
        inline_bytes: sizes::small().inline_bytes,
        event_bytes: 2 * sizes::small().inline_bytes,
        ..StoreLimits::default()
    };
    all.extend(cases! { short_events; events: long_data_in_events_is_read_back_identical; });
    all
}

/// Runs every case, each over a store that `make` gives for its bounds.
pub async fn run_all(make: impl Fn(StoreLimits) -> Store) {
    for case in cases() {
        // Shown by the test harness when the case fails.
        println!("contract case {}", case.name);
        case.run(make(case.limits())).await;
    }
}
