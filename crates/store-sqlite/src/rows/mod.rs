//! Rows in and out, one module per concern. The writer and the readers use the same functions.
//!
//! A function whose name begins with `live_` hides what belongs to a deleted conversation; the others see everything.

pub(crate) mod conversations;
pub(crate) mod index;
pub(crate) mod journal;
pub(crate) mod operations;
pub(crate) mod resources;

use rusqlite::{Connection, Params, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;
use throughline_format::{Sha256, Timestamp, UnifiedId};
use throughline_store::StoreError;

use crate::error::{Result, sql};

/// Every row of a query.
pub(crate) fn all<T>(
    connection: &Connection,
    text: &str,
    params: impl Params,
    mut map: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(text).map_err(sql)?;
    let mut rows = statement.query(params).map_err(sql)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        found.push(map(row)?);
    }
    Ok(found)
}

/// The first row of a query.
pub(crate) fn one<T>(
    connection: &Connection,
    text: &str,
    params: impl Params,
    mut map: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(text).map_err(sql)?;
    let mut rows = statement.query(params).map_err(sql)?;
    rows.next().map_err(sql)?.map(&mut map).transpose()
}

/// Runs a statement and gives the number of rows that it changed.
pub(crate) fn run(connection: &Connection, text: &str, params: impl Params) -> Result<usize> {
    connection.prepare_cached(text).map_err(sql)?.execute(params).map_err(sql)
}

/// Whether a query finds a row.
pub(crate) fn exists(connection: &Connection, text: &str, params: impl Params) -> Result<bool> {
    connection.prepare_cached(text).map_err(sql)?.exists(params).map_err(sql)
}

/// A record as it is stored.
pub(crate) fn encode<T: Serialize>(record: &T) -> Result<String> {
    serde_json::to_string(record).map_err(|_| StoreError::internal("a record has no JSON form"))
}

/// A count as SQLite stores it.
pub(crate) fn int(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| StoreError::invalid("", "a number is larger than 2^63-1"))
}

pub(crate) fn count(row: &Row<'_>, column: usize) -> Result<u64> {
    let value: i64 = row.get(column).map_err(sql)?;
    u64::try_from(value).map_err(|_| damaged(column))
}

pub(crate) fn number(row: &Row<'_>, column: usize) -> Result<i64> {
    row.get(column).map_err(sql)
}

pub(crate) fn text(row: &Row<'_>, column: usize) -> Result<String> {
    row.get(column).map_err(sql)
}

pub(crate) fn id(row: &Row<'_>, column: usize) -> Result<UnifiedId> {
    opt_id(row, column)?.ok_or_else(|| damaged(column))
}

pub(crate) fn opt_id(row: &Row<'_>, column: usize) -> Result<Option<UnifiedId>> {
    let text = row.get_ref(column).map_err(sql)?.as_str_or_null().map_err(|_| damaged(column))?;
    text.map(|text| UnifiedId::parse(text).map_err(|_| damaged(column))).transpose()
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_millis).map_err(sql)
}

pub(crate) fn opt_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column).map_err(sql)?.map(Timestamp::from_millis))
}

pub(crate) fn hash(row: &Row<'_>, column: usize) -> Result<Sha256> {
    row.get(column).map(Sha256::from_bytes).map_err(sql)
}

pub(crate) fn opt_hash(row: &Row<'_>, column: usize) -> Result<Option<Sha256>> {
    Ok(row.get::<_, Option<[u8; 32]>>(column).map_err(sql)?.map(Sha256::from_bytes))
}

/// A record from its JSON.
pub(crate) fn record<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    opt_record(row, column)?.ok_or_else(|| damaged(column))
}

pub(crate) fn opt_record<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>> {
    let text = row.get_ref(column).map_err(sql)?.as_str_or_null().map_err(|_| damaged(column))?;
    text.map(|text| serde_json::from_str(text).map_err(|_| damaged(column))).transpose()
}

/// A word of a closed list.
pub(crate) fn word<T>(row: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T> {
    let text = row.get_ref(column).map_err(sql)?.as_str().map_err(|_| damaged(column))?;
    parse(text).ok_or_else(|| damaged(column))
}

fn damaged(column: usize) -> StoreError {
    StoreError::Corrupt {
        detail: format!("a row holds no valid record in column {column}"),
    }
}

/// A limit as SQLite takes it, cut down to the longest page.
pub(crate) fn page(limit: usize) -> i64 {
    i64::try_from(limit.min(throughline_store::MAX_PAGE)).unwrap_or(i64::MAX)
}
