//! Physical removal of deleted conversations, and of the events of deleted operations: children first, parent last, in transactions of a few hundred rows.
//!
//! A conversation that is marked stays marked, so a step that is killed is simply gone on with at the next one.

use rusqlite::{Connection, params};
use throughline_store::{SweepReport, SweepRequest};

use crate::error::{Result, sql};
use crate::rows::{all, count, exists, hash, number, one, run};

/// Tables with nothing below them but the ones named before, in the order of removal, each with what its rows take beyond their
/// columns of a few bytes.
const CHILDREN: &[(&str, &str)] = &[
    ("journal_revisions", "octet_length(body)"),
    ("journal_items", "octet_length(body)"),
    ("provider_checkpoints", "octet_length(sealed)"),
    ("provider_resources", "octet_length(sealed)"),
    ("annotations", "octet_length(body)"),
    ("lineage_links", "0"),
    ("issued_ids", "0"),
    ("session_keys", "0"),
    ("leases", "0"),
    ("branches", "0"),
];

/// How much content the rows of one step may hold: many pages take long even when they are few rows. One row may be more.
const STEP_BYTES: u64 = 4 * 1024 * 1024;

/// Pages given back to the file system in one step, when much of the file is free.
const VACUUM_PAGES: i64 = 100;

/// One step.
pub(crate) fn step(connection: &Connection, request: SweepRequest) -> Result<SweepReport> {
    let mut report = SweepReport::default();
    let transaction = rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate).map_err(sql)?;
    let mut step = Step {
        connection: &transaction,
        request,
        room: request.max_rows.max(1),
        bytes: STEP_BYTES,
        report: &mut report,
    };
    step.lapsed()?;
    while step.room > 0 {
        let next = one(
            &transaction,
            "SELECT number FROM conversations WHERE deleted = 1 ORDER BY last_updated_at LIMIT 1",
            [],
            |row| number(row, 0),
        )?;
        match next {
            Some(conversation) => step.conversation(conversation)?,
            None => break,
        }
    }
    step.deleted_operations()?;
    transaction.commit().map_err(sql)?;
    report.more = exists(
        connection,
        "SELECT 1 FROM conversations WHERE deleted = 1 UNION ALL SELECT 1 FROM operations WHERE deleted = 1",
        [],
    )?;
    if !report.more {
        give_back_pages(connection)?;
    }
    Ok(report)
}

struct Step<'a> {
    connection: &'a Connection,
    request: SweepRequest,
    room: usize,
    bytes: u64,
    report: &'a mut SweepReport,
}

impl Step<'_> {
    fn took(&mut self, rows: usize) {
        self.room = self.room.saturating_sub(rows);
        self.report.rows += rows as u64;
    }

    fn room(&self) -> i64 {
        i64::try_from(self.room).unwrap_or(i64::MAX)
    }

    /// How far the rows of a query, given by key and size from the highest key down, may be removed: the lowest key, and whether
    /// these were all that the query gave. The row that reaches the bound is in.
    fn measure(&mut self, text: &str, params: impl rusqlite::Params) -> Result<Option<(i64, bool)>> {
        let rows = all(self.connection, text, params, |row| Ok((number(row, 0)?, count(row, 1)?)))?;
        let mut lowest = None;
        let mut taken = 0;
        for (key, size) in &rows {
            if self.bytes == 0 {
                break;
            }
            self.bytes = self.bytes.saturating_sub(*size);
            lowest = Some(*key);
            taken += 1;
        }
        Ok(lowest.map(|lowest| (lowest, taken == rows.len())))
    }

    /// Leases and pins whose time is over. They are not counted: they belong to no deletion.
    fn lapsed(&mut self) -> Result<()> {
        let now = self.request.now.millis();
        let text = "DELETE FROM leases WHERE number IN (SELECT number FROM leases WHERE expires_at <= ?1 LIMIT ?2)";
        run(self.connection, text, params![now, self.room()])?;
        run(self.connection, "DELETE FROM artifact_pins WHERE expires_at <= ?1", [now])?;
        Ok(())
    }

    /// As much of a conversation as there is room for.
    fn conversation(&mut self, conversation: i64) -> Result<()> {
        self.artifact_refs(conversation)?;
        self.operations(conversation)?;
        for (table, size) in CHILDREN {
            // Newest first: a fork goes before the branch that it left.
            let text = format!("SELECT number, {size} FROM {table} WHERE conversation = ?1 ORDER BY number DESC LIMIT ?2");
            let Some((smallest, whole)) = self.measure(&text, params![conversation, self.room()])? else {
                continue;
            };
            let text = format!("DELETE FROM {table} WHERE conversation = ?1 AND number >= ?2");
            let rows = run(self.connection, &text, params![conversation, smallest])?;
            self.took(rows);
            if !whole || self.bytes == 0 {
                self.room = 0;
            }
            if self.room == 0 {
                return Ok(());
            }
        }
        if self.room > 0 {
            run(self.connection, "DELETE FROM conversations WHERE number = ?1", [conversation])?;
            self.took(1);
            self.report.conversations += 1;
        }
        Ok(())
    }

    fn operations(&mut self, conversation: i64) -> Result<()> {
        while self.room > 0 {
            let text = "SELECT number, ifnull(octet_length(result), 0) FROM operations WHERE conversation = ?1 LIMIT 1";
            let found = one(self.connection, text, [conversation], |row| Ok((number(row, 0)?, count(row, 1)?)))?;
            let Some((operation, result_bytes)) = found else {
                return Ok(());
            };
            self.events(operation)?;
            if self.room > 0 {
                run(self.connection, "DELETE FROM operations WHERE number = ?1", [operation])?;
                self.took(1);
                self.bytes = self.bytes.saturating_sub(result_bytes);
                if self.bytes == 0 {
                    self.room = 0;
                }
            }
        }
        Ok(())
    }

    /// As many events of an operation as there is room for; without room left they were not all.
    fn events(&mut self, operation: i64) -> Result<()> {
        let (first, last) = (operation << 32, (operation << 32) | 0xFFFF_FFFF);
        let text =
            "SELECT event_key, octet_length(body) FROM stream_events WHERE event_key BETWEEN ?1 AND ?2 ORDER BY event_key DESC LIMIT ?3";
        if let Some((lowest, whole)) = self.measure(text, params![first, last, self.room()])? {
            let rows = run(
                self.connection,
                "DELETE FROM stream_events WHERE event_key BETWEEN ?1 AND ?2",
                params![lowest, last],
            )?;
            self.took(rows);
            if !whole {
                self.room = 0;
            }
        }
        if self.bytes == 0 {
            self.room = 0;
        }
        Ok(())
    }

    /// The events of operations that were deleted by themselves. Their rows stay, so that nothing takes their numbers or names.
    fn deleted_operations(&mut self) -> Result<()> {
        while self.room > 0 {
            let text = "SELECT number FROM operations WHERE deleted = 1 ORDER BY number LIMIT 1";
            let Some(operation) = one(self.connection, text, [], |row| number(row, 0))? else {
                return Ok(());
            };
            self.events(operation)?;
            if self.room > 0 {
                run(self.connection, "UPDATE operations SET deleted = 2 WHERE number = ?1", [operation])?;
                self.took(1);
            }
        }
        Ok(())
    }

    /// References go one by one, since each may be the last one to its artifact.
    fn artifact_refs(&mut self, conversation: i64) -> Result<()> {
        let text = "SELECT r.number, a.number, a.sha256 FROM artifact_refs r JOIN artifacts a ON a.number = r.artifact WHERE r.conversation = ?1 LIMIT ?2";
        let references = all(self.connection, text, params![conversation, self.room()], |row| {
            Ok((number(row, 0)?, number(row, 1)?, hash(row, 2)?))
        })?;
        for (reference, artifact, sha256) in references {
            run(self.connection, "DELETE FROM artifact_refs WHERE number = ?1", [reference])?;
            run(
                self.connection,
                "UPDATE artifacts SET ref_count = ref_count - 1 WHERE number = ?1",
                [artifact],
            )?;
            self.took(1);
            // Several principals may have the same bytes: the file goes when nobody refers to it.
            let text = "INSERT INTO pending_artifact_gc (sha256, marked_at) SELECT ?1, ?2
                WHERE NOT EXISTS (SELECT 1 FROM artifacts WHERE sha256 = ?1 AND ref_count > 0)
                  AND NOT EXISTS (SELECT 1 FROM artifact_pins WHERE sha256 = ?1)
                ON CONFLICT DO NOTHING";
            let pending = run(self.connection, text, params![sha256.as_bytes(), self.request.now.millis()])?;
            self.report.artifacts_pending += pending as u64;
        }
        Ok(())
    }
}

/// Shrinks the file a little when more than a quarter of it is free.
fn give_back_pages(connection: &Connection) -> Result<()> {
    let pragma = |name: &str| one(connection, &format!("PRAGMA {name}"), [], |row| number(row, 0));
    let (free, pages) = (pragma("freelist_count")?.unwrap_or(0), pragma("page_count")?.unwrap_or(0));
    if free * 4 > pages && free > VACUUM_PAGES {
        // It gives a row per page, and works only as far as the rows are read.
        all(connection, &format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"), [], |_| Ok(()))?;
    }
    Ok(())
}
