//! Operations, events and results.

use bytes::Bytes;
use rusqlite::{Connection, Row, params, params_from_iter, types::Value};
use throughline_format::{OperationState, Sha256, UnifiedId, UnifiedOperation, UnifiedResultV2};
use throughline_store::{EventRange, MAX_EVENT_SEQUENCE, MAX_PAGE, OperationFilter, StoreError, StoredEvent};

use super::{all, count, encode, exists, number, one, opt_record, page, record, run};
use crate::error::{Result, sql};

/// The record of an operation with the number of its last event.
fn operation(connection: &Connection, row: &Row<'_>) -> Result<UnifiedOperation> {
    let mut operation: UnifiedOperation = record(row, 1)?;
    operation.last_sequence = last_sequence(connection, number(row, 0)?)?;
    Ok(operation)
}

const OPERATION: &str = "SELECT o.number, o.body FROM operations o JOIN conversations c ON c.number = o.conversation";

pub(crate) fn find(connection: &Connection, operation_id: &UnifiedId) -> Result<Option<UnifiedOperation>> {
    one(
        connection,
        "SELECT number, body FROM operations WHERE operation_id = ?1",
        [operation_id.as_str()],
        |row| operation(connection, row),
    )
}

pub(crate) fn live(connection: &Connection, operation_id: &UnifiedId) -> Result<Option<UnifiedOperation>> {
    one(
        connection,
        &format!("{OPERATION} WHERE o.operation_id = ?1 AND o.deleted = 0 AND c.deleted = 0"),
        [operation_id.as_str()],
        |row| operation(connection, row),
    )
}

pub(crate) fn live_by_key(connection: &Connection, principal_ref: &str, key_hash: &Sha256) -> Result<Option<UnifiedOperation>> {
    let text = format!("{OPERATION} WHERE o.idempotency_key_hash = ?1 AND o.principal_ref = ?2 AND o.deleted = 0 AND c.deleted = 0");
    one(connection, &text, params![key_hash.as_bytes(), principal_ref], |row| {
        operation(connection, row)
    })
}

pub(crate) fn live_list(connection: &Connection, filter: &OperationFilter) -> Result<Vec<UnifiedOperation>> {
    let after = match &filter.after {
        Some(after) => live_number(connection, after)?.ok_or_else(|| StoreError::not_found("operation", after))?,
        None => 0,
    };
    let mut text = format!("{OPERATION} WHERE c.deleted = 0 AND (o.deleted > 0) = ? AND o.number > ?");
    let mut values = vec![Value::Integer(i64::from(filter.deleted)), Value::Integer(after)];
    if let Some(conversation_id) = &filter.conversation_id {
        text.push_str(" AND c.conversation_id = ?");
        values.push(Value::Text(conversation_id.to_string()));
    }
    if let Some(principal_ref) = &filter.principal_ref {
        text.push_str(" AND o.principal_ref = ?");
        values.push(Value::Text(principal_ref.clone()));
    }
    if let Some(branch_id) = &filter.branch_id {
        text.push_str(" AND json_extract(o.body, '$.sourceBranchId') = ?");
        values.push(Value::Text(branch_id.to_string()));
    }
    let mut states = filter.states.clone();
    states.sort_unstable();
    states.dedup();
    if !states.is_empty() {
        let marks = vec!["?"; states.len()].join(", ");
        text.push_str(" AND o.state IN (");
        text.push_str(&marks);
        text.push(')');
        values.extend(states.iter().map(|state| Value::Text(state.as_str().to_owned())));
    }
    text.push_str(" ORDER BY o.number LIMIT ?");
    values.push(Value::Integer(page(filter.limit)));
    all(connection, &text, params_from_iter(values), |row| operation(connection, row))
}

fn find_number(connection: &Connection, operation_id: &UnifiedId) -> Result<i64> {
    let found = one(
        connection,
        "SELECT number FROM operations WHERE operation_id = ?1",
        [operation_id.as_str()],
        |row| number(row, 0),
    )?;
    found.ok_or_else(|| StoreError::internal("a row was written before its operation"))
}

fn live_number(connection: &Connection, operation_id: &UnifiedId) -> Result<Option<i64>> {
    let text = "SELECT o.number FROM operations o JOIN conversations c ON c.number = o.conversation WHERE o.operation_id = ?1 AND o.deleted = 0 AND c.deleted = 0";
    one(connection, text, [operation_id.as_str()], |row| number(row, 0))
}

pub(crate) fn has_active(connection: &Connection, conversation: i64) -> Result<bool> {
    let active: Vec<&str> = OperationState::ALL
        .iter()
        .filter(|state| !state.is_terminal())
        .map(|state| state.as_str())
        .collect();
    let text = format!(
        "SELECT 1 FROM operations WHERE conversation = ?1 AND state IN ('{}')",
        active.join("', '")
    );
    exists(connection, &text, [conversation])
}

pub(crate) fn insert(connection: &Connection, conversation: i64, operation: &UnifiedOperation) -> Result<()> {
    run(
        connection,
        "INSERT INTO operations (operation_id, conversation, principal_ref, state, idempotency_key_hash, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            operation.operation_id.as_str(),
            conversation,
            operation.principal_ref,
            operation.state.as_str(),
            operation.idempotency_key_hash.as_ref().map(Sha256::as_bytes),
            encode(operation)?,
        ],
    )
    .map(drop)
}

pub(crate) fn update(connection: &Connection, operation: &UnifiedOperation) -> Result<()> {
    let values = params![operation.operation_id.as_str(), operation.state.as_str(), encode(operation)?];
    run(
        connection,
        "UPDATE operations SET state = ?2, body = ?3 WHERE operation_id = ?1",
        values,
    )
    .map(drop)
}

/// Whether it was there to be seen.
pub(crate) fn delete(connection: &Connection, operation_id: &UnifiedId) -> Result<bool> {
    let text = "UPDATE operations SET deleted = 1, result = NULL WHERE operation_id = ?1 AND deleted = 0";
    run(connection, text, [operation_id.as_str()]).map(|rows| rows > 0)
}

pub(crate) fn find_result(connection: &Connection, operation_id: &UnifiedId) -> Result<Option<UnifiedResultV2>> {
    Ok(one(
        connection,
        "SELECT result FROM operations WHERE operation_id = ?1",
        [operation_id.as_str()],
        |row| opt_record(row, 0),
    )?
    .flatten())
}

pub(crate) fn live_result(connection: &Connection, operation_id: &UnifiedId) -> Result<Option<UnifiedResultV2>> {
    let text = "SELECT o.result FROM operations o JOIN conversations c ON c.number = o.conversation WHERE o.operation_id = ?1 AND o.deleted = 0 AND c.deleted = 0";
    Ok(one(connection, text, [operation_id.as_str()], |row| opt_record(row, 0))?.flatten())
}

pub(crate) fn insert_result(connection: &Connection, operation_id: &UnifiedId, result: &UnifiedResultV2) -> Result<()> {
    run(
        connection,
        "UPDATE operations SET result = ?2 WHERE operation_id = ?1",
        params![operation_id.as_str(), encode(result)?],
    )
    .map(drop)
}

/// The key of an event. Sequence 0 stands before the first one.
fn event_key(operation: i64, sequence: u64) -> Result<i64> {
    if sequence > MAX_EVENT_SEQUENCE {
        return Err(StoreError::invalid("/sequence", "event numbers end at 4294967295"));
    }
    Ok((operation << 32) | super::int(sequence)?)
}

/// The number of the last event of an operation, 0 before the first: one step in the index.
fn last_sequence(connection: &Connection, operation: i64) -> Result<u64> {
    let bounds = params![event_key(operation, 0)?, event_key(operation, MAX_EVENT_SEQUENCE)?];
    let text = "SELECT event_key & 4294967295 FROM stream_events WHERE event_key > ?1 AND event_key <= ?2 ORDER BY event_key DESC LIMIT 1";
    Ok(one(connection, text, bounds, |row| count(row, 0))?.unwrap_or(0))
}

pub(crate) fn find_last_sequence(connection: &Connection, operation_id: &UnifiedId) -> Result<u64> {
    last_sequence(connection, find_number(connection, operation_id)?)
}

pub(crate) fn live_last_sequence(connection: &Connection, operation_id: &UnifiedId) -> Result<u64> {
    let operation = live_number(connection, operation_id)?.ok_or_else(|| StoreError::not_found("operation", operation_id))?;
    last_sequence(connection, operation)
}

pub(crate) fn events(connection: &Connection, operation_id: &UnifiedId, first: u64, last: u64) -> Result<Vec<Bytes>> {
    let operation = find_number(connection, operation_id)?;
    let bounds = params![event_key(operation, first)?, event_key(operation, last)?];
    all(
        connection,
        "SELECT body FROM stream_events WHERE event_key >= ?1 AND event_key <= ?2 ORDER BY event_key",
        bounds,
        body,
    )
}

fn body(row: &Row<'_>) -> Result<Bytes> {
    row.get::<_, Vec<u8>>(0).map(Bytes::from).map_err(sql)
}

pub(crate) fn insert_event(connection: &Connection, operation_id: &UnifiedId, sequence: u64, bytes: &[u8]) -> Result<()> {
    let operation = find_number(connection, operation_id)?;
    run(
        connection,
        "INSERT INTO stream_events (event_key, body) VALUES (?1, ?2)",
        params![event_key(operation, sequence)?, bytes],
    )
    .map(drop)
}

/// A page of events, bounded in number and bytes.
pub(crate) fn live_events(connection: &Connection, operation_id: &UnifiedId, range: EventRange) -> Result<Vec<StoredEvent>> {
    let operation = live_number(connection, operation_id)?.ok_or_else(|| StoreError::not_found("operation", operation_id))?;
    let (after, through) = (range.after.min(MAX_EVENT_SEQUENCE), range.through.min(MAX_EVENT_SEQUENCE));
    let text =
        "SELECT event_key & 4294967295, body FROM stream_events WHERE event_key > ?1 AND event_key <= ?2 ORDER BY event_key LIMIT ?3";
    let mut statement = connection.prepare_cached(text).map_err(sql)?;
    let limit = page(range.max_events.min(MAX_PAGE));
    let mut rows = statement
        .query(params![event_key(operation, after)?, event_key(operation, through)?, limit])
        .map_err(sql)?;
    let mut budget = range.max_bytes;
    let mut events = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        let bytes = row.get_ref(1).map_err(sql)?.as_blob().map_err(|_| StoreError::Corrupt {
            detail: "an event is no blob".to_owned(),
        })?;
        if bytes.len() > budget && !events.is_empty() {
            break;
        }
        budget = budget.saturating_sub(bytes.len());
        events.push(StoredEvent {
            sequence: count(row, 0)?,
            bytes: Bytes::copy_from_slice(bytes),
        });
    }
    Ok(events)
}
