//! Retention: conversations that nobody changed for the configured time are removed, in bounded steps.

use crate::engine::Engine;
use throughline_format::UnifiedError;

pub use throughline_store::CleanupReport;

impl Engine {
    /// Removes every conversation beyond the retention time that no operation and no lease holds, and the artifacts that nothing
    /// refers to any more. Reading, replaying and cleaning touch no clock; a conversation that is changed in between stays.
    ///
    /// # Errors
    /// `storage.*` when the store refuses; what was done stays done, and the next call goes on.
    pub async fn clean(&self) -> Result<CleanupReport, UnifiedError> {
        let clock = &self.clock;
        throughline_store::clean(self.store.as_ref(), &|| clock.now())
            .await
            .map_err(|e| e.to_unified())
    }
}
