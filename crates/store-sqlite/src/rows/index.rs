//! Lineage, issued ids and session keys.

use rusqlite::{Connection, Row, params};
use throughline_format::Sha256;
use throughline_store::{IssuedId, LineageRow, MAX_LOOKUP, MAX_PAGE, SessionKeyRow, StoreError};

use super::{all, count, hash, id, int, number, run, text, time};
use crate::error::Result;

/// Refuses a look-up of more hashes than the bound.
pub(crate) fn check_lookup<T>(hashes: &[T]) -> Result<()> {
    if hashes.len() > MAX_LOOKUP {
        Err(StoreError::Limit {
            what: "batch",
            count: hashes.len() as u64,
            limit: MAX_LOOKUP as u64,
        })
    } else {
        Ok(())
    }
}

/// Looks up each hash by itself: one prepared statement whatever their number. Newest first over all of them.
pub(super) fn by_hashes<T>(
    connection: &Connection,
    query: &str,
    principal_ref: &str,
    hashes: &[Sha256],
    mut map: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    check_lookup(hashes)?;
    let mut distinct = hashes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut found = Vec::new();
    for hash in &distinct {
        let page = i64::try_from(MAX_PAGE).unwrap_or(i64::MAX);
        found.extend(all(connection, query, params![hash.as_bytes(), principal_ref, page], |row| {
            Ok((number(row, 0)?, map(row)?))
        })?);
    }
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    found.truncate(MAX_PAGE);
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

pub(crate) fn put_lineage(connection: &Connection, conversation: i64, row: &LineageRow) -> Result<()> {
    run(
        connection,
        "INSERT INTO lineage_links (conversation, principal_ref, link, lineage_version, branch_id, item_id, ordinal, evidence, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
        params![
            conversation,
            row.principal_ref,
            row.link.as_bytes(),
            row.lineage_version,
            row.branch_id.as_str(),
            row.item_id.as_str(),
            int(row.ordinal)?,
            row.evidence,
            row.created_at.millis(),
        ],
    )
    .map(drop)
}

pub(crate) fn live_lineage(connection: &Connection, principal_ref: &str, links: &[Sha256]) -> Result<Vec<LineageRow>> {
    let query = "SELECT l.number, l.principal_ref, l.link, l.lineage_version, c.conversation_id, l.branch_id, l.item_id, l.ordinal, l.evidence, l.created_at
        FROM lineage_links l JOIN conversations c ON c.number = l.conversation
        WHERE l.link = ?1 AND l.principal_ref = ?2 AND c.deleted = 0 ORDER BY l.number DESC LIMIT ?3";
    by_hashes(connection, query, principal_ref, links, |row| {
        Ok(LineageRow {
            principal_ref: text(row, 1)?,
            link: hash(row, 2)?,
            lineage_version: u32::try_from(count(row, 3)?).unwrap_or(u32::MAX),
            conversation_id: id(row, 4)?,
            branch_id: id(row, 5)?,
            item_id: id(row, 6)?,
            ordinal: count(row, 7)?,
            evidence: number(row, 8)? != 0,
            created_at: time(row, 9)?,
        })
    })
}

pub(crate) fn put_issued_id(connection: &Connection, conversation: i64, row: &IssuedId) -> Result<()> {
    run(
        connection,
        "INSERT INTO issued_ids (conversation, principal_ref, id_hash, branch_id, item_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        params![conversation, row.principal_ref, row.id_hash.as_bytes(), row.branch_id.as_str(), row.item_id.as_str(), row.created_at.millis()],
    )
    .map(drop)
}

pub(crate) fn live_issued_ids(connection: &Connection, principal_ref: &str, id_hashes: &[Sha256]) -> Result<Vec<IssuedId>> {
    let query = "SELECT i.number, i.principal_ref, i.id_hash, c.conversation_id, i.branch_id, i.item_id, i.created_at
        FROM issued_ids i JOIN conversations c ON c.number = i.conversation
        WHERE i.id_hash = ?1 AND i.principal_ref = ?2 AND c.deleted = 0 ORDER BY i.number DESC LIMIT ?3";
    by_hashes(connection, query, principal_ref, id_hashes, |row| {
        Ok(IssuedId {
            principal_ref: text(row, 1)?,
            id_hash: hash(row, 2)?,
            conversation_id: id(row, 3)?,
            branch_id: id(row, 4)?,
            item_id: id(row, 5)?,
            created_at: time(row, 6)?,
        })
    })
}

pub(crate) fn put_session_key(connection: &Connection, conversation: i64, row: &SessionKeyRow) -> Result<()> {
    run(
        connection,
        "INSERT INTO session_keys (conversation, principal_ref, key_hash, branch_id, operation_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO NOTHING",
        params![conversation, row.principal_ref, row.key_hash.as_bytes(), row.branch_id.as_str(), row.operation_id.as_str(), row.created_at.millis()],
    )
    .map(drop)
}

pub(crate) fn live_session_keys(connection: &Connection, principal_ref: &str, key_hash: &Sha256) -> Result<Vec<SessionKeyRow>> {
    let query = "SELECT s.number, s.principal_ref, s.key_hash, c.conversation_id, s.branch_id, s.operation_id, s.created_at
        FROM session_keys s JOIN conversations c ON c.number = s.conversation
        WHERE s.key_hash = ?1 AND s.principal_ref = ?2 AND c.deleted = 0 ORDER BY s.number DESC LIMIT ?3";
    by_hashes(connection, query, principal_ref, &[*key_hash], |row| {
        Ok(SessionKeyRow {
            principal_ref: text(row, 1)?,
            key_hash: hash(row, 2)?,
            conversation_id: id(row, 3)?,
            branch_id: id(row, 4)?,
            operation_id: id(row, 5)?,
            created_at: time(row, 6)?,
        })
    })
}
