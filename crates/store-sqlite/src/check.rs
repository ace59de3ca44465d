//! The integrity check: SQLite's own, and the invariants of the store.

use rusqlite::Connection;
use throughline_format::UnifiedArtifact;
use throughline_store::{ArtifactFiles, IntegrityReport};

use crate::connection::integrity;
use crate::error::Result;
use crate::rows::{all, count, hash, number, one, record};

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

/// Runs every check. Each query is a read transaction of its own, so that the log can be reset in between.
pub(crate) fn run(connection: &Connection, files: &ArtifactFiles) -> Result<IntegrityReport> {
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
    let wrong_files = artifact_files(connection, files)?;
    if wrong_files > 0 {
        problems.push(format!("{wrong_files} artifacts whose content is missing or altered"));
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

/// Reads every file that something refers to, and compares size and digest.
fn artifact_files(connection: &Connection, files: &ArtifactFiles) -> Result<u64> {
    let (mut wrong, mut after) = (0, 0);
    loop {
        let text = "SELECT number, sha256, body FROM artifacts WHERE number > ?1 AND ref_count > 0 ORDER BY number LIMIT 200";
        let rows = all(connection, text, [after], |row| {
            // A row that holds nonsense counts as wrong and hides no other.
            let artifact = hash(row, 1).and_then(|sha256| Ok((sha256, record::<UnifiedArtifact>(row, 2)?.size)));
            Ok((number(row, 0)?, artifact))
        })?;
        let Some((last, _)) = rows.last() else { return Ok(wrong) };
        after = *last;
        for (_, artifact) in &rows {
            let sound = matches!(artifact, Ok((sha256, size)) if files.is_sound(sha256, *size));
            wrong += u64::from(!sound);
        }
    }
}

fn violations(connection: &Connection, query: &str) -> Result<u64> {
    Ok(one(connection, query, [], |row| count(row, 0))?.unwrap_or(0))
}
