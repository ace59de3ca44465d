//! Items, revisions and annotations.

use rusqlite::{Connection, params};
use throughline_format::{UnifiedId, UnifiedItem, UnifiedItemRevision};
use throughline_store::apply::{Segment, segments};
use throughline_store::{ItemPage, MAX_PAGE, Order, StoreError, StoredAnnotation};

use super::conversations::{branch_number, find_branch, live_branch};
use super::{all, encode, id, int, number, one, opt_id, record, run};
use crate::error::Result;

pub(crate) fn find_item(connection: &Connection, item_id: &UnifiedId) -> Result<Option<UnifiedItem>> {
    one(
        connection,
        "SELECT body FROM journal_items WHERE item_id = ?1",
        [item_id.as_str()],
        |row| record(row, 0),
    )
}

pub(crate) fn live_item(connection: &Connection, item_id: &UnifiedId) -> Result<Option<UnifiedItem>> {
    let text =
        "SELECT i.body FROM journal_items i JOIN conversations c ON c.number = i.conversation WHERE i.item_id = ?1 AND c.deleted = 0";
    one(connection, text, [item_id.as_str()], |row| record(row, 0))
}

/// Adds an item, which is `text` as JSON, unless its ID is taken; whether it was free.
pub(crate) fn insert_item(connection: &Connection, conversation: i64, branch: i64, item: &UnifiedItem, text: &str) -> Result<bool> {
    let changed = run(
        connection,
        "INSERT INTO journal_items (item_id, conversation, branch, sequence, kind, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (item_id) DO NOTHING",
        params![item.id.as_str(), conversation, branch, int(item.sequence)?, item.body.kind(), text],
    )?;
    Ok(changed > 0)
}

/// The stretches of a path, each with the number of its branch.
fn live_path(connection: &Connection, branch_id: &UnifiedId) -> Result<Vec<(i64, Segment)>> {
    let tip = live_branch(connection, branch_id)?.ok_or_else(|| StoreError::not_found("branch", branch_id))?;
    let path = segments(&tip, |id| find_branch(connection, id))?;
    path.into_iter()
        .map(|segment| Ok((branch_number(connection, &segment.branch_id)?, segment)))
        .collect()
}

/// A page of the path of a branch.
pub(crate) fn live_branch_items(connection: &Connection, branch_id: &UnifiedId, page: &ItemPage) -> Result<Vec<UnifiedItem>> {
    let mut path = live_path(connection, branch_id)?;
    let direction = match page.order {
        Order::Ascending => "ASC",
        Order::Descending => {
            path.reverse();
            "DESC"
        }
    };
    let text = format!(
        "SELECT body FROM journal_items WHERE branch = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence {direction} LIMIT ?4"
    );
    let limit = page.limit.min(MAX_PAGE);
    let mut items = Vec::new();
    for (branch, segment) in path {
        let after = segment.after.max(page.after_sequence);
        let through = segment.through.min(page.through_sequence.unwrap_or(u64::MAX));
        if after >= through || items.len() >= limit {
            continue;
        }
        let room = super::page(limit - items.len());
        items.extend(all(connection, &text, params![branch, int(after)?, int(through)?, room], |row| {
            record::<UnifiedItem>(row, 0)
        })?);
    }
    Ok(items)
}

pub(crate) fn find_revision(connection: &Connection, revision_id: &UnifiedId) -> Result<Option<UnifiedItemRevision>> {
    one(
        connection,
        "SELECT body FROM journal_revisions WHERE revision_id = ?1",
        [revision_id.as_str()],
        |row| record(row, 0),
    )
}

const REVISIONS: &str = "SELECT r.body FROM journal_revisions r JOIN journal_items i ON i.number = r.item";

pub(crate) fn revisions(connection: &Connection, item_id: &UnifiedId) -> Result<Vec<UnifiedItemRevision>> {
    all(
        connection,
        &format!("{REVISIONS} WHERE i.item_id = ?1 ORDER BY r.revision"),
        [item_id.as_str()],
        |row| record(row, 0),
    )
}

pub(crate) fn live_revisions(connection: &Connection, item_id: &UnifiedId) -> Result<Vec<UnifiedItemRevision>> {
    let text =
        format!("{REVISIONS} JOIN conversations c ON c.number = r.conversation WHERE i.item_id = ?1 AND c.deleted = 0 ORDER BY r.revision");
    all(connection, &text, [item_id.as_str()], |row| record(row, 0))
}

pub(crate) fn live_branch_revisions(connection: &Connection, branch_id: &UnifiedId) -> Result<Vec<UnifiedItemRevision>> {
    let mut found = Vec::new();
    let text = format!("{REVISIONS} WHERE i.branch = ?1 AND i.sequence > ?2 AND i.sequence <= ?3 ORDER BY i.sequence, r.revision");
    for (branch, segment) in live_path(connection, branch_id)? {
        found.extend(all(
            connection,
            &text,
            params![branch, int(segment.after)?, int(segment.through)?],
            |row| record::<UnifiedItemRevision>(row, 0),
        )?);
    }
    Ok(found)
}

pub(crate) fn insert_revision(connection: &Connection, conversation: i64, revision: &UnifiedItemRevision) -> Result<()> {
    let item = one(
        connection,
        "SELECT number FROM journal_items WHERE item_id = ?1",
        [revision.item_id.as_str()],
        |row| number(row, 0),
    )?;
    let item = item.ok_or_else(|| StoreError::internal("a revision was written before its item"))?;
    run(
        connection,
        "INSERT INTO journal_revisions (revision_id, conversation, item, revision, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            revision.revision_id.as_str(),
            conversation,
            item,
            int(revision.number)?,
            encode(revision)?
        ],
    )
    .map(drop)
}

/// An annotation and its conversation.
pub(crate) fn find_annotation(connection: &Connection, annotation_id: &UnifiedId) -> Result<Option<(UnifiedId, StoredAnnotation)>> {
    let text = "SELECT c.conversation_id, a.subject, a.body FROM annotations a JOIN conversations c ON c.number = a.conversation WHERE a.annotation_id = ?1";
    one(connection, text, [annotation_id.as_str()], |row| {
        Ok((
            id(row, 0)?,
            StoredAnnotation {
                subject: opt_id(row, 1)?,
                annotation: record(row, 2)?,
            },
        ))
    })
}

pub(crate) fn live_annotations(connection: &Connection, conversation_id: &UnifiedId) -> Result<Vec<StoredAnnotation>> {
    let text = "SELECT a.subject, a.body FROM annotations a JOIN conversations c ON c.number = a.conversation
        WHERE c.conversation_id = ?1 AND c.deleted = 0 ORDER BY a.annotation_id";
    all(connection, text, [conversation_id.as_str()], |row| {
        Ok(StoredAnnotation {
            subject: opt_id(row, 0)?,
            annotation: record(row, 1)?,
        })
    })
}

pub(crate) fn insert_annotation(connection: &Connection, conversation: i64, row: &StoredAnnotation) -> Result<()> {
    let values = params![
        row.annotation.resource_id.as_str(),
        conversation,
        row.subject.as_ref().map(UnifiedId::as_str),
        encode(&row.annotation)?
    ];
    run(
        connection,
        "INSERT INTO annotations (annotation_id, conversation, subject, body) VALUES (?1, ?2, ?3, ?4)",
        values,
    )
    .map(drop)
}
