//! Conversations, branches and leases.

use rusqlite::{Connection, Row, params};
use throughline_format::conversation::LeasePurpose;
use throughline_format::{Timestamp, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedLease};
use throughline_store::apply::BranchRow;
use throughline_store::{ConversationFilter, StoreError};

use super::{all, encode, exists, id, int, number, one, opt_id, opt_record, page, run, text, time, word};
use crate::error::{Result, sql};

const CONVERSATION: &str = "c.conversation_id, c.default_branch_id, c.created_at, c.last_updated_at, c.principal_ref, c.title, c.metadata";

fn conversation(row: &Row<'_>) -> Result<UnifiedConversation> {
    Ok(UnifiedConversation {
        conversation_id: id(row, 0)?,
        default_branch_id: id(row, 1)?,
        created_at: time(row, 2)?,
        last_updated_at: time(row, 3)?,
        principal_ref: text(row, 4)?,
        title: row.get(5).map_err(sql)?,
        metadata: opt_record(row, 6)?,
    })
}

/// A conversation, its number, and whether it is deleted.
pub(crate) fn find(connection: &Connection, conversation_id: &UnifiedId) -> Result<Option<(i64, UnifiedConversation, bool)>> {
    let text = format!("SELECT {CONVERSATION}, c.number, c.deleted FROM conversations c WHERE c.conversation_id = ?1");
    one(connection, &text, [conversation_id.as_str()], |row| {
        Ok((number(row, 7)?, conversation(row)?, number(row, 8)? != 0))
    })
}

/// The conversation itself, when it is not deleted.
pub(crate) fn live(connection: &Connection, conversation_id: &UnifiedId) -> Result<Option<UnifiedConversation>> {
    Ok(find(connection, conversation_id)?
        .filter(|(_, _, deleted)| !deleted)
        .map(|(_, conversation, _)| conversation))
}

pub(crate) fn insert(connection: &Connection, conversation: &UnifiedConversation) -> Result<i64> {
    let metadata = conversation.metadata.as_ref().map(encode).transpose()?;
    run(
        connection,
        "INSERT INTO conversations (conversation_id, principal_ref, default_branch_id, created_at, last_updated_at, title, metadata)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            conversation.conversation_id.as_str(),
            conversation.principal_ref,
            conversation.default_branch_id.as_str(),
            conversation.created_at.millis(),
            conversation.last_updated_at.millis(),
            conversation.title,
            metadata,
        ],
    )?;
    Ok(connection.last_insert_rowid())
}

pub(crate) fn set_last_updated_at(connection: &Connection, conversation: i64, time: Timestamp) -> Result<()> {
    run(
        connection,
        "UPDATE conversations SET last_updated_at = ?2 WHERE number = ?1",
        params![conversation, time.millis()],
    )
    .map(drop)
}

pub(crate) fn mark_deleted(connection: &Connection, conversation: i64) -> Result<()> {
    run(connection, "UPDATE conversations SET deleted = 1 WHERE number = ?1", [conversation]).map(drop)
}

/// Conversations by a filter, the one updated last first. Keyset paging, never OFFSET.
pub(crate) fn live_list(connection: &Connection, filter: &ConversationFilter) -> Result<Vec<UnifiedConversation>> {
    let after = match &filter.after {
        Some(after) => Some(live(connection, after)?.ok_or_else(|| StoreError::not_found("conversation", after))?),
        None => None,
    };
    let principal = if filter.principal_ref.is_some() {
        "c.principal_ref = ?1"
    } else {
        "?1 IS NULL"
    };
    let text = format!(
        "SELECT {CONVERSATION} FROM conversations c
         WHERE {principal} AND c.deleted = 0 AND c.last_updated_at >= ?2 AND (c.last_updated_at, c.conversation_id) < (?3, ?4)
         ORDER BY c.last_updated_at DESC, c.conversation_id DESC LIMIT ?5"
    );
    let since = filter.updated_since.map_or(i64::MIN, Timestamp::millis);
    let (time, name) = after.as_ref().map_or((i64::MAX, ""), |after| {
        (after.last_updated_at.millis(), after.conversation_id.as_str())
    });
    all(
        connection,
        &text,
        params![filter.principal_ref, since, time, name, page(filter.limit)],
        conversation,
    )
}

/// Conversations that retention may take, oldest first.
pub(crate) fn expired(connection: &Connection, not_updated_since: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<UnifiedId>> {
    all(
        connection,
        "SELECT c.conversation_id FROM conversations c
         WHERE c.deleted = 0 AND c.last_updated_at <= ?1
           AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.conversation = c.number AND o.state IN ('queued', 'running', 'requires-action'))
           AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.conversation = c.number AND l.expires_at > ?2)
         ORDER BY c.last_updated_at, c.conversation_id LIMIT ?3",
        params![not_updated_since.millis(), now.millis(), page(limit)],
        |row| id(row, 0),
    )
}

const BRANCH: &str =
    "SELECT b.branch_id, c.conversation_id, p.branch_id, b.fork_item_id, b.head_item_id, b.head_sequence, b.created_at, b.fork_sequence
    FROM branches b JOIN conversations c ON c.number = b.conversation LEFT JOIN branches p ON p.number = b.parent";

fn branch(row: &Row<'_>) -> Result<BranchRow> {
    let branch = UnifiedBranch {
        branch_id: id(row, 0)?,
        conversation_id: id(row, 1)?,
        parent_branch_id: opt_id(row, 2)?,
        fork_item_id: opt_id(row, 3)?,
        head_item_id: opt_id(row, 4)?,
        head_sequence: super::count(row, 5)?,
        created_at: time(row, 6)?,
    };
    Ok(BranchRow {
        branch,
        fork_sequence: super::count(row, 7)?,
    })
}

pub(crate) fn find_branch(connection: &Connection, branch_id: &UnifiedId) -> Result<Option<BranchRow>> {
    one(
        connection,
        &format!("{BRANCH} WHERE b.branch_id = ?1"),
        [branch_id.as_str()],
        branch,
    )
}

pub(crate) fn live_branch(connection: &Connection, branch_id: &UnifiedId) -> Result<Option<BranchRow>> {
    one(
        connection,
        &format!("{BRANCH} WHERE b.branch_id = ?1 AND c.deleted = 0"),
        [branch_id.as_str()],
        branch,
    )
}

pub(crate) fn live_branches(connection: &Connection, conversation_id: &UnifiedId) -> Result<Vec<BranchRow>> {
    all(
        connection,
        &format!("{BRANCH} WHERE c.conversation_id = ?1 AND c.deleted = 0 ORDER BY b.number"),
        [conversation_id.as_str()],
        branch,
    )
}

pub(crate) fn branch_number(connection: &Connection, branch_id: &UnifiedId) -> Result<i64> {
    let found = one(
        connection,
        "SELECT number FROM branches WHERE branch_id = ?1",
        [branch_id.as_str()],
        |row| number(row, 0),
    )?;
    found.ok_or_else(|| StoreError::internal("a row was written before its branch"))
}

pub(crate) fn branch_count(connection: &Connection, conversation: i64) -> Result<usize> {
    let found = one(
        connection,
        "SELECT count(*) FROM branches WHERE conversation = ?1",
        [conversation],
        |row| super::count(row, 0),
    )?;
    Ok(usize::try_from(found.unwrap_or(0)).unwrap_or(usize::MAX))
}

pub(crate) fn insert_branch(connection: &Connection, conversation: i64, row: &BranchRow) -> Result<()> {
    let branch = &row.branch;
    let parent = branch
        .parent_branch_id
        .as_ref()
        .map(|parent| branch_number(connection, parent))
        .transpose()?;
    run(
        connection,
        "INSERT INTO branches (branch_id, conversation, parent, fork_item_id, fork_sequence, head_item_id, head_sequence, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            branch.branch_id.as_str(),
            conversation,
            parent,
            branch.fork_item_id.as_ref().map(UnifiedId::as_str),
            int(row.fork_sequence)?,
            branch.head_item_id.as_ref().map(UnifiedId::as_str),
            int(branch.head_sequence)?,
            branch.created_at.millis(),
        ],
    )
    .map(drop)
}

pub(crate) fn set_branch_head(connection: &Connection, branch_id: &UnifiedId, item_id: &UnifiedId, sequence: u64) -> Result<()> {
    let values = params![branch_id.as_str(), item_id.as_str(), int(sequence)?];
    run(
        connection,
        "UPDATE branches SET head_item_id = ?2, head_sequence = ?3 WHERE branch_id = ?1",
        values,
    )
    .map(drop)
}

const LEASE: &str = "SELECT l.lease_id, l.holder, l.purpose, c.conversation_id, l.expires_at FROM leases l JOIN conversations c ON c.number = l.conversation";

fn lease(row: &Row<'_>) -> Result<UnifiedLease> {
    Ok(UnifiedLease {
        lease_id: id(row, 0)?,
        holder: text(row, 1)?,
        purpose: word(row, 2, LeasePurpose::from_word)?,
        conversation_id: id(row, 3)?,
        expires_at: time(row, 4)?,
    })
}

pub(crate) fn find_lease(connection: &Connection, lease_id: &UnifiedId) -> Result<Option<UnifiedLease>> {
    one(connection, &format!("{LEASE} WHERE l.lease_id = ?1"), [lease_id.as_str()], lease)
}

pub(crate) fn live_leases(connection: &Connection, conversation_id: &UnifiedId) -> Result<Vec<UnifiedLease>> {
    all(
        connection,
        &format!("{LEASE} WHERE c.conversation_id = ?1 AND c.deleted = 0 ORDER BY l.lease_id"),
        [conversation_id.as_str()],
        lease,
    )
}

pub(crate) fn has_live_lease(connection: &Connection, conversation: i64, now: Timestamp) -> Result<bool> {
    exists(
        connection,
        "SELECT 1 FROM leases WHERE conversation = ?1 AND expires_at > ?2",
        params![conversation, now.millis()],
    )
}

pub(crate) fn put_lease(connection: &Connection, conversation: i64, lease: &UnifiedLease) -> Result<()> {
    run(
        connection,
        "INSERT INTO leases (lease_id, conversation, holder, purpose, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (lease_id) DO UPDATE SET expires_at = excluded.expires_at",
        params![
            lease.lease_id.as_str(),
            conversation,
            lease.holder,
            lease.purpose.as_str(),
            lease.expires_at.millis()
        ],
    )
    .map(drop)
}

pub(crate) fn delete_lease(connection: &Connection, conversation: i64, lease_id: &UnifiedId) -> Result<()> {
    run(
        connection,
        "DELETE FROM leases WHERE lease_id = ?1 AND conversation = ?2",
        params![lease_id.as_str(), conversation],
    )
    .map(drop)
}
