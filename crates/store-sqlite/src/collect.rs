//! Collection of artifacts that nothing refers to: metadata first, then the file.
//!
//! A digest without reference and pin is noted in `pending_artifact_gc`, and goes when it has stood there for the grace time. In
//! between a new reference or pin takes it off the list. From the transaction that removes the metadata until the file is gone
//! the digest is reserved, so that a new upload of the same content waits and writes its file anew. A crash in between leaves a
//! file without a row, which [`orphans`] finds; the other order would leave a row without a file.

use std::ops::RangeInclusive;

use rusqlite::{Connection, params};
use throughline_format::Sha256;
use throughline_store::{ArtifactFiles, CollectReport, CollectRequest};

use crate::error::{Result, sql};
use crate::rows::{all, exists, hash, page, run};

/// Nothing refers to the digest `?1`, and nobody has pinned it at the time `?2`.
const UNUSED: &str = "NOT EXISTS (SELECT 1 FROM artifacts WHERE sha256 = ?1 AND ref_count > 0)
    AND NOT EXISTS (SELECT 1 FROM artifact_pins WHERE sha256 = ?1 AND expires_at > ?2)";

/// One step, on the writer's connection.
pub(crate) fn step(connection: &Connection, files: &ArtifactFiles, request: CollectRequest) -> Result<CollectReport> {
    let due = due(connection, request)?;
    let more = due.len() > request.max_digests;
    let due: Vec<Sha256> = due.into_iter().take(request.max_digests).collect();
    // Reserved before the transaction looks again: whoever holds one has a reference on its way.
    let removal = files.begin_removal(&due);
    let transaction = rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate).map_err(sql)?;
    note_unreferenced(&transaction, request)?;
    let mut gone = Vec::new();
    for sha256 in removal.digests() {
        let text = format!("DELETE FROM artifacts WHERE sha256 = ?1 AND ref_count = 0 AND {UNUSED}");
        run(&transaction, &text, params![sha256.as_bytes(), request.now.millis()])?;
        if !exists(
            &transaction,
            "SELECT 1 FROM artifacts WHERE sha256 = ?1",
            params![sha256.as_bytes()],
        )? {
            let unused = format!("SELECT 1 WHERE {UNUSED}");
            if exists(&transaction, &unused, params![sha256.as_bytes(), request.now.millis()])? {
                gone.push(*sha256);
            }
        }
        run(
            &transaction,
            "DELETE FROM pending_artifact_gc WHERE sha256 = ?1",
            params![sha256.as_bytes()],
        )?;
    }
    transaction.commit().map_err(sql)?;
    let mut report = CollectReport {
        more,
        ..CollectReport::default()
    };
    for sha256 in &gone {
        report.bytes += removal.unlink(sha256)?;
        report.artifacts += 1;
    }
    Ok(report)
}

/// What has been on the list for the grace time; one more than asked for, if there are more.
fn due(connection: &Connection, request: CollectRequest) -> Result<Vec<Sha256>> {
    let limit = page(request.max_digests.saturating_add(1));
    all(
        connection,
        "SELECT sha256 FROM pending_artifact_gc WHERE marked_at <= ?1 ORDER BY marked_at LIMIT ?2",
        params![request.cutoff().millis(), limit],
        |row| hash(row, 0),
    )
}

/// Puts what was stored and never referred to, or whose pin has lapsed, on the list.
fn note_unreferenced(connection: &Connection, request: CollectRequest) -> Result<()> {
    let text = "INSERT INTO pending_artifact_gc (sha256, marked_at)
        SELECT DISTINCT a.sha256, ?1 FROM artifacts a WHERE a.ref_count = 0
          AND NOT EXISTS (SELECT 1 FROM pending_artifact_gc p WHERE p.sha256 = a.sha256)
          AND NOT EXISTS (SELECT 1 FROM artifacts b WHERE b.sha256 = a.sha256 AND b.ref_count > 0)
          AND NOT EXISTS (SELECT 1 FROM artifact_pins p WHERE p.sha256 = a.sha256 AND p.expires_at > ?1)
        LIMIT 500 ON CONFLICT DO NOTHING";
    run(connection, text, params![request.now.millis()]).map(drop)
}

/// The parts of the directory that a step looks through: all, or one in 256, so that hourly cleanups find within some days what a
/// crash has left. It goes by the time, since a process that is started often would begin with the same ones for ever; by hours
/// and days, since one that cleans up at the same hour of each day would see every eighth only.
pub(crate) fn shards(request: CollectRequest) -> RangeInclusive<u8> {
    if request.whole {
        return 0..=u8::MAX;
    }
    let hours = request.now.millis().div_euclid(60 * 60 * 1_000);
    let shard = hours.wrapping_add(hours.div_euclid(24)).rem_euclid(256);
    let shard = u8::try_from(shard).unwrap_or_default();
    shard..=shard
}

/// Files of one part of the directory that no row knows, older than the grace time. Runs on a reader's connection: the digest is
/// reserved before the rows are looked at once more, and whoever writes a file holds it or has pinned it first.
pub(crate) fn orphans(connection: &Connection, files: &ArtifactFiles, shard: u8, request: CollectRequest) -> Result<CollectReport> {
    let mut report = CollectReport::default();
    let cutoff = request.cutoff().millis();
    let found = files.shard(shard, cutoff)?;
    let old: Vec<Sha256> = found
        .into_iter()
        .filter(|file| file.modified_millis <= cutoff)
        .map(|file| file.digest)
        .collect();
    let removal = files.begin_removal(&old);
    for sha256 in removal.digests() {
        let text = "SELECT 1 FROM artifacts WHERE sha256 = ?1 UNION ALL SELECT 1 FROM artifact_pins WHERE sha256 = ?1";
        if !exists(connection, text, params![sha256.as_bytes()])? {
            report.bytes += removal.unlink(sha256)?;
            report.artifacts += 1;
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::shards;
    use std::collections::BTreeSet;
    use throughline_format::Timestamp;
    use throughline_store::CollectRequest;

    const HOUR: i64 = 60 * 60 * 1_000;

    #[test]
    fn every_part_has_its_turn_however_the_process_is_used() {
        let any: fn(i64) -> bool = |_| true;
        for (name, days, runs_at) in [
            ("without a pause", 22, any),
            ("restarted every morning, for eight hours", 64, |hour| (9..17).contains(&hour)),
            ("one hour of every day", 256, |hour| hour == 3),
        ] {
            let hours = (0..days * 24).filter(|hour| runs_at(hour % 24));
            let seen: BTreeSet<u8> = hours
                .flat_map(|hour| shards(CollectRequest::new(Timestamp::from_millis(1_790_000_000_000 + hour * HOUR))))
                .collect();
            assert_eq!(seen.len(), 256, "{name}");
        }
        assert_eq!(shards(CollectRequest::whole(Timestamp::EPOCH)).count(), 256);
    }
}
