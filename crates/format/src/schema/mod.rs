//! The format for other languages and for readers: JSON Schema, TypeScript declarations, a page of documentation.
//!
//! All three are made from the descriptions of the types ([`crate::shape`]), are the same on every run, and are committed:
//! `schema/unified-v2.schema.json`, `schema/unified-v2.d.ts`, `docs/format.md`. [`breaking_changes`] compares a schema with
//! the one that was published.

mod catalogue;
mod compatibility;
mod json_schema;
mod page;
mod typescript;

pub use compatibility::breaking_changes;
pub use json_schema::json_schema;
pub use page::page;
pub use typescript::typescript;

use crate::conversation::UnifiedLease;
use crate::part::UnifiedContentPart;
use crate::record_kind::RecordKind;
use crate::resource::UnmappedPayload;
use crate::shape::{ShapeOf, Shaped};

/// Where the collection of types begins: the records that stand alone, then types that other programs meet outside of them.
pub(crate) fn roots() -> impl Iterator<Item = ShapeOf> {
    let more: [ShapeOf; 3] = [UnifiedContentPart::shape, UnifiedLease::shape, UnmappedPayload::shape];
    RecordKind::ALL.into_iter().map(RecordKind::shape_of).chain(more)
}

/// The JSON Schema bundle as text.
pub fn json_schema_text() -> String {
    // An untyped value always has a JSON form.
    let mut text = serde_json::to_string_pretty(&json_schema()).unwrap_or_default();
    text.push('\n');
    text
}

/// Names in Unified v2 of types that are the same as others.
pub(crate) const ALIASES: [(&str, &str, &str); 1] = [(
    "UnifiedUsage",
    "UnifiedUsageCounters",
    "Usage of a result: the counters of the narrowest scope, with wider ones in `others`.",
)];
