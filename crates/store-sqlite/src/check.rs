//! The integrity check: SQLite's own, and the invariants of the store.

use rusqlite::Connection;
use throughline_store::IntegrityReport;

use crate::connection::integrity;
use crate::error::Result;
use crate::rows::{all, count, one};

/// Invariants as queries that count violations. Each is a promise that the writer keeps and nothing else enforces.
const INVARIANTS: &[(&str, &str)] = &[
    (
        "operations whose events are not dense",
        "SELECT count(*) FROM (SELECT count(*) AS events, max(event_key & 4294967295) AS last FROM stream_events GROUP BY event_key >> 32) WHERE events <> last",
    ),
    (
        "events of no operation",
        "SELECT count(*) FROM (SELECT DISTINCT event_key >> 32 AS operation FROM stream_events) e
         WHERE NOT EXISTS (SELECT 1 FROM operations o WHERE o.number = e.operation)",
    ),
    (
        "branches whose items are not dense up to the head",
        "SELECT count(*) FROM branches b JOIN conversations c ON c.number = b.conversation WHERE c.deleted = 0
         AND b.head_sequence - b.fork_sequence <> (SELECT count(*) FROM journal_items i WHERE i.branch = b.number AND i.sequence > b.fork_sequence AND i.sequence <= b.head_sequence)",
    ),
    (
        "branches whose head is another item",
        "SELECT count(*) FROM branches b JOIN conversations c ON c.number = b.conversation WHERE c.deleted = 0 AND b.head_sequence > b.fork_sequence
         AND b.head_item_id IS NOT (SELECT i.item_id FROM journal_items i WHERE i.branch = b.number AND i.sequence = b.head_sequence)",
    ),
    (
        "conversations without their default branch",
        "SELECT count(*) FROM conversations c WHERE c.deleted = 0
         AND NOT EXISTS (SELECT 1 FROM branches b WHERE b.branch_id = c.default_branch_id AND b.conversation = c.number)",
    ),
];

/// Runs every check.
pub(crate) fn run(connection: &Connection) -> Result<IntegrityReport> {
    let complaints = integrity(connection, "integrity_check")?;
    let foreign_keys = all(connection, "PRAGMA foreign_key_check", [], |_| Ok(()))?.len() as u64;
    let wrong_counts = violations(
        connection,
        "SELECT count(*) FROM artifacts a WHERE a.ref_count <> (SELECT count(*) FROM artifact_refs r WHERE r.artifact = a.number)",
    )?;
    let mut problems: Vec<String> = complaints.iter().filter(|complaint| *complaint != "ok").cloned().collect();
    for (what, query) in INVARIANTS {
        let found = violations(connection, query)?;
        if found > 0 {
            problems.push(format!("{found} {what}"));
        }
    }
    Ok(IntegrityReport {
        integrity: complaints.first().cloned().unwrap_or_else(|| "ok".to_owned()),
        foreign_keys,
        refcounts: if wrong_counts == 0 {
            "ok".to_owned()
        } else {
            format!("{wrong_counts} artifacts have a wrong count")
        },
        problems,
    })
}

fn violations(connection: &Connection, query: &str) -> Result<u64> {
    Ok(one(connection, query, [], |row| count(row, 0))?.unwrap_or(0))
}
