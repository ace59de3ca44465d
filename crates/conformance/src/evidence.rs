//! [`Evidence`]: what the product answered for a case, and ways to ask it again.

use serde_json::Value;
use std::collections::BTreeMap;
use throughline_format::{UnifiedError, UnifiedLossReport};

/// Asks the product once more. `Err` is why it cannot be asked.
pub(crate) type Again<'a, T> = Box<dyn Fn() -> Result<T, String> + 'a>;

/// What the product answered.
#[derive(Default)]
pub(crate) struct Evidence<'a> {
    /// The projection.
    pub(crate) output: Option<Value>,
    /// The request or the folded result.
    pub(crate) unified: Option<Value>,
    /// What decode and projection lost.
    pub(crate) losses: Vec<UnifiedLossReport>,
    /// Why there is no answer.
    pub(crate) error: Option<UnifiedError>,
    /// Why no projection could be asked for.
    pub(crate) unprojected: Option<String>,
    /// That the case's time was not enough.
    pub(crate) overtime: Option<String>,
    /// Folds by name: `turn:N`, `journal`.
    pub(crate) folds: BTreeMap<String, Value>,
    /// Terminal events of the operation.
    pub(crate) terminal_events: Option<usize>,
    /// What became of a transcript: `{leaves, usage_sum, attribution, warnings, last_call_state}`.
    pub(crate) canonical: Option<Value>,
    /// The projection once more.
    pub(crate) repeat: Option<Again<'a, Option<Value>>>,
    /// Fingerprints of the fold by the way in which the stream is cut.
    pub(crate) chunkings: Option<Again<'a, BTreeMap<String, String>>>,
    /// The projection to the second target.
    pub(crate) second: Option<Again<'a, Evidence<'a>>>,
    /// The next request to the same owner.
    pub(crate) next_request: Option<Again<'a, Evidence<'a>>>,
    /// Feeds the same events again; `Ok(None)` when nothing changed.
    pub(crate) replay: Option<Again<'a, Option<String>>>,
    /// Stores and loads; `Ok(None)` when nothing changed.
    pub(crate) roundtrip: Option<Again<'a, Option<String>>>,
}

impl Evidence<'_> {
    /// Evidence of a refusal.
    pub(crate) fn refused(error: UnifiedError) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    /// What to say when a part of the evidence is not there.
    pub(crate) fn absence(&self) -> String {
        self.error.as_ref().map_or_else(
            || "no error".to_owned(),
            |e| format!("{} {} at {}", e.code, e.message, e.field_path.as_deref().unwrap_or("-")),
        )
    }
}
