//! Sealed resources, checkpoints and artifacts.

use rusqlite::{Connection, Row, params};
use throughline_format::operation::SealedBytes;
use throughline_format::resource::{Issuer, ResourceStatus, ResourceType};
use throughline_format::{Sha256, Timestamp, UnifiedArtifact, UnifiedId, UnifiedProviderCheckpoint};
use throughline_store::{
    RecordKind, ResourceHead, SealContext, Sealed, SealedPlace, SealedRecord, SealedResource, StoreError, StoredArtifact,
};

use super::index::{by_hashes, check_lookup};
use super::{all, count, encode, hash, id, number, one, opt_hash, opt_id, opt_time, page, record, run, text, time, word};
use crate::error::{Result, sql};

const RESOURCE: &str = "SELECT r.number, r.resource_id, c.conversation_id, r.resource_type, r.schema, r.issuer, r.owner, r.owner_fingerprint, r.subject, r.payload_hash,
    r.prefix_hash, r.sealed, r.status, r.created_at, r.expires_at
    FROM provider_resources r JOIN conversations c ON c.number = r.conversation";

fn resource(row: &Row<'_>) -> Result<SealedResource> {
    Ok(SealedResource {
        resource_id: id(row, 1)?,
        conversation_id: id(row, 2)?,
        resource_type: ResourceType::from_word(&text(row, 3)?),
        schema: text(row, 4)?,
        issuer: word(row, 5, Issuer::from_word)?,
        owner: record(row, 6)?,
        owner_fingerprint: hash(row, 7)?,
        subject: opt_id(row, 8)?,
        payload_hash: hash(row, 9)?,
        prefix_hash: opt_hash(row, 10)?,
        sealed: sealed(row, 11)?,
        status: word(row, 12, ResourceStatus::from_word)?,
        created_at: time(row, 13)?,
        expires_at: opt_time(row, 14)?,
    })
}

/// A sealed record; stored bytes that are none mean a damaged file.
fn sealed(row: &Row<'_>, column: usize) -> Result<Sealed> {
    let bytes: Vec<u8> = row.get(column).map_err(sql)?;
    Sealed::from_bytes(bytes).map_err(|_| StoreError::Corrupt {
        detail: "a sealed record has no valid layout".to_owned(),
    })
}

pub(crate) fn find(connection: &Connection, resource_id: &UnifiedId) -> Result<Option<SealedResource>> {
    one(
        connection,
        &format!("{RESOURCE} WHERE r.resource_id = ?1"),
        [resource_id.as_str()],
        resource,
    )
}

pub(crate) fn live(connection: &Connection, resource_id: &UnifiedId) -> Result<Option<SealedResource>> {
    one(
        connection,
        &format!("{RESOURCE} WHERE r.resource_id = ?1 AND c.deleted = 0"),
        [resource_id.as_str()],
        resource,
    )
}

pub(crate) fn live_list(connection: &Connection, conversation_id: &UnifiedId, owner: Option<&Sha256>) -> Result<Vec<SealedResource>> {
    let text = format!(
        "{RESOURCE} WHERE c.conversation_id = ?1 AND c.deleted = 0 AND {} ORDER BY r.number",
        if owner.is_some() {
            "r.owner_fingerprint = ?2"
        } else {
            "?2 IS NULL"
        }
    );
    all(
        connection,
        &text,
        params![conversation_id.as_str(), owner.map(Sha256::as_bytes)],
        resource,
    )
}

/// Reads no column behind the payload: to reach one, all pages of the payload would be read.
pub(crate) fn live_heads(connection: &Connection, conversation_id: &UnifiedId, after: u64, limit: usize) -> Result<Vec<ResourceHead>> {
    let query = "SELECT r.number, r.resource_id, r.resource_type, r.issuer, r.owner, r.subject, length(r.sealed)
        FROM provider_resources r JOIN conversations c ON c.number = r.conversation
        WHERE c.conversation_id = ?1 AND c.deleted = 0 AND r.number > ?2 ORDER BY r.number LIMIT ?3";
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    all(connection, query, params![conversation_id.as_str(), after, page(limit)], |row| {
        Ok(ResourceHead {
            number: count(row, 0)?,
            resource_id: id(row, 1)?,
            resource_type: ResourceType::from_word(&text(row, 2)?),
            issuer: word(row, 3, Issuer::from_word)?,
            owner: record(row, 4)?,
            subject: opt_id(row, 5)?,
            size: count(row, 6)?,
        })
    })
}

pub(crate) fn live_by_id(connection: &Connection, ids: &[UnifiedId]) -> Result<Vec<SealedResource>> {
    check_lookup(ids)?;
    let mut found = Vec::new();
    for id in ids {
        found.extend(live(connection, id)?);
    }
    Ok(found)
}

pub(crate) fn live_by_payload_hash(connection: &Connection, principal_ref: &str, hashes: &[Sha256]) -> Result<Vec<SealedResource>> {
    let query = format!("{RESOURCE} WHERE r.payload_hash = ?1 AND c.principal_ref = ?2 AND c.deleted = 0 ORDER BY r.number DESC LIMIT ?3");
    by_hashes(connection, &query, principal_ref, hashes, resource)
}

pub(crate) fn insert(connection: &Connection, conversation: i64, resource: &SealedResource) -> Result<()> {
    run(
        connection,
        "INSERT INTO provider_resources (resource_id, conversation, resource_type, schema, issuer, owner, owner_fingerprint, subject, payload_hash, prefix_hash, sealed,
            key_version, status, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            resource.resource_id.as_str(),
            conversation,
            resource.resource_type.as_str(),
            resource.schema,
            resource.issuer.as_str(),
            encode(&resource.owner)?,
            resource.owner_fingerprint.as_bytes(),
            resource.subject.as_ref().map(UnifiedId::as_str),
            resource.payload_hash.as_bytes(),
            resource.prefix_hash.as_ref().map(Sha256::as_bytes),
            resource.sealed.as_bytes(),
            resource.sealed.key_version(),
            resource.status.as_str(),
            resource.created_at.millis(),
            resource.expires_at.map(Timestamp::millis),
        ],
    )
    .map(drop)
}

pub(crate) fn set_status(connection: &Connection, resource_id: &UnifiedId, status: ResourceStatus) -> Result<()> {
    run(
        connection,
        "UPDATE provider_resources SET status = ?2 WHERE resource_id = ?1",
        params![resource_id.as_str(), status.as_str()],
    )
    .map(drop)
}

const CHECKPOINT: &str = "SELECT k.number, k.checkpoint_id, c.conversation_id, k.branch_id, k.journal_head_item_id, k.owner, k.resource_type, k.sealed, k.status, k.created_at,
    k.expires_at, k.owner_fingerprint
    FROM provider_checkpoints k JOIN conversations c ON c.number = k.conversation";

fn checkpoint(row: &Row<'_>) -> Result<UnifiedProviderCheckpoint> {
    Ok(UnifiedProviderCheckpoint {
        checkpoint_id: id(row, 1)?,
        conversation_id: id(row, 2)?,
        branch_id: id(row, 3)?,
        journal_head_item_id: id(row, 4)?,
        owner: record(row, 5)?,
        resource_type: ResourceType::from_word(&text(row, 6)?),
        encrypted_payload: SealedBytes(row.get(7).map_err(sql)?),
        status: word(row, 8, ResourceStatus::from_word)?,
        created_at: time(row, 9)?,
        expires_at: opt_time(row, 10)?,
    })
}

pub(crate) fn find_checkpoint(connection: &Connection, checkpoint_id: &UnifiedId) -> Result<Option<UnifiedProviderCheckpoint>> {
    one(
        connection,
        &format!("{CHECKPOINT} WHERE k.checkpoint_id = ?1"),
        [checkpoint_id.as_str()],
        checkpoint,
    )
}

pub(crate) fn live_checkpoint(connection: &Connection, checkpoint_id: &UnifiedId) -> Result<Option<UnifiedProviderCheckpoint>> {
    one(
        connection,
        &format!("{CHECKPOINT} WHERE k.checkpoint_id = ?1 AND c.deleted = 0"),
        [checkpoint_id.as_str()],
        checkpoint,
    )
}

pub(crate) fn live_checkpoints(
    connection: &Connection,
    conversation_id: &UnifiedId,
    branch_id: Option<&UnifiedId>,
) -> Result<Vec<UnifiedProviderCheckpoint>> {
    let text = format!(
        "{CHECKPOINT} WHERE c.conversation_id = ?1 AND c.deleted = 0 AND {} ORDER BY k.number DESC LIMIT {}",
        if branch_id.is_some() { "k.branch_id = ?2" } else { "?2 IS NULL" },
        throughline_store::MAX_PAGE
    );
    all(
        connection,
        &text,
        params![conversation_id.as_str(), branch_id.map(UnifiedId::as_str)],
        checkpoint,
    )
}

pub(crate) fn insert_checkpoint(
    connection: &Connection,
    conversation: i64,
    checkpoint: &UnifiedProviderCheckpoint,
    owner_fingerprint: &Sha256,
    sealed: &Sealed,
) -> Result<()> {
    run(
        connection,
        "INSERT INTO provider_checkpoints (checkpoint_id, conversation, branch_id, journal_head_item_id, owner, owner_fingerprint, resource_type, sealed, key_version, status,
            created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            checkpoint.checkpoint_id.as_str(),
            conversation,
            checkpoint.branch_id.as_str(),
            checkpoint.journal_head_item_id.as_str(),
            encode(&checkpoint.owner)?,
            owner_fingerprint.as_bytes(),
            checkpoint.resource_type.as_str(),
            sealed.as_bytes(),
            sealed.key_version(),
            checkpoint.status.as_str(),
            checkpoint.created_at.millis(),
            checkpoint.expires_at.map(Timestamp::millis),
        ],
    )
    .map(drop)
}

pub(crate) fn retire_checkpoints(connection: &Connection, conversation: i64, branch_id: &UnifiedId, keep: usize) -> Result<()> {
    run(
        connection,
        "DELETE FROM provider_checkpoints WHERE number IN (SELECT number FROM provider_checkpoints WHERE conversation = ?1 AND branch_id = ?2
            ORDER BY status = 'active' DESC, number DESC LIMIT -1 OFFSET ?3)",
        params![conversation, branch_id.as_str(), i64::try_from(keep).unwrap_or(i64::MAX)],
    )
    .map(drop)
}

pub(crate) fn set_checkpoint_status(connection: &Connection, checkpoint_id: &UnifiedId, status: ResourceStatus) -> Result<()> {
    run(
        connection,
        "UPDATE provider_checkpoints SET status = ?2 WHERE checkpoint_id = ?1",
        params![checkpoint_id.as_str(), status.as_str()],
    )
    .map(drop)
}

pub(crate) fn replace_sealed(connection: &Connection, kind: RecordKind, record_id: &UnifiedId, sealed: &Sealed) -> Result<()> {
    let text = match kind {
        RecordKind::Resource => "UPDATE provider_resources SET sealed = ?2, key_version = ?3 WHERE resource_id = ?1",
        RecordKind::Checkpoint => "UPDATE provider_checkpoints SET sealed = ?2, key_version = ?3 WHERE checkpoint_id = ?1",
        RecordKind::Diagnostic => return Err(StoreError::internal("a diagnostic record is no row")),
    };
    run(
        connection,
        text,
        params![record_id.as_str(), sealed.as_bytes(), sealed.key_version()],
    )
    .map(drop)
}

/// Records that another key than this one sealed, behind a place in their list.
pub(crate) fn live_under_other_keys(
    connection: &Connection,
    current: u32,
    after: Option<SealedPlace>,
    limit: usize,
) -> Result<Vec<SealedRecord>> {
    let number_after = |is_checkpoint| match after {
        Some(after) if after.is_checkpoint == is_checkpoint => i64::try_from(after.number).unwrap_or(i64::MAX),
        // Every resource stands before every checkpoint.
        Some(after) if after.is_checkpoint => i64::MAX,
        _ => 0,
    };
    let place = |row: &Row<'_>, is_checkpoint| {
        Ok(SealedPlace {
            is_checkpoint,
            number: count(row, 0)?,
        })
    };
    let others = "(x.key_version < ?1 OR x.key_version > ?1) AND c.deleted = 0 AND x.number > ?2 ORDER BY x.number LIMIT ?3";
    let text = format!("{RESOURCE} WHERE {}", others.replace("x.", "r."));
    let mut records = all(connection, &text, params![current, number_after(false), page(limit)], |row| {
        let resource = resource(row)?;
        Ok(SealedRecord {
            context: resource.seal_context(),
            sealed: resource.sealed,
            place: place(row, false)?,
        })
    })?;
    let text = format!("{CHECKPOINT} WHERE {}", others.replace("x.", "k."));
    let room = page(limit.min(throughline_store::MAX_PAGE) - records.len());
    records.extend(all(connection, &text, params![current, number_after(true), room], |row| {
        Ok(SealedRecord {
            context: SealContext::checkpoint(id(row, 1)?, id(row, 2)?, id(row, 3)?, id(row, 4)?, hash(row, 11)?),
            sealed: sealed(row, 7)?,
            place: place(row, true)?,
        })
    })?);
    Ok(records)
}

/// Whether anything is sealed with this key.
pub(crate) fn uses_key(connection: &Connection, key_version: u32) -> Result<bool> {
    let text = "SELECT 1 FROM provider_resources WHERE key_version = ?1 UNION ALL SELECT 1 FROM provider_checkpoints WHERE key_version = ?1 LIMIT 1";
    super::exists(connection, text, [key_version])
}

fn artifact(row: &Row<'_>) -> Result<StoredArtifact> {
    Ok(StoredArtifact {
        principal_ref: text(row, 0)?,
        artifact: record(row, 1)?,
        references: count(row, 2)?,
    })
}

pub(crate) fn find_artifact(connection: &Connection, artifact_id: &UnifiedId) -> Result<Option<StoredArtifact>> {
    one(
        connection,
        "SELECT principal_ref, body, ref_count FROM artifacts WHERE artifact_id = ?1",
        [artifact_id.as_str()],
        artifact,
    )
}

pub(crate) fn find_artifact_by_digest(connection: &Connection, principal_ref: &str, sha256: &Sha256) -> Result<Option<StoredArtifact>> {
    let text = "SELECT principal_ref, body, ref_count FROM artifacts WHERE sha256 = ?1 AND principal_ref = ?2 ORDER BY number LIMIT 1";
    one(connection, text, params![sha256.as_bytes(), principal_ref], artifact)
}

pub(crate) fn insert_artifact(connection: &Connection, principal_ref: &str, artifact: &UnifiedArtifact) -> Result<()> {
    let values = params![
        artifact.artifact_id.as_str(),
        principal_ref,
        artifact.sha256.as_bytes(),
        encode(artifact)?
    ];
    run(
        connection,
        "INSERT INTO artifacts (artifact_id, principal_ref, sha256, body) VALUES (?1, ?2, ?3, ?4)",
        values,
    )
    .map(drop)
}

/// Adds a reference; whether it is new.
pub(crate) fn put_artifact_ref(connection: &Connection, conversation: i64, artifact_id: &UnifiedId, subject: &UnifiedId) -> Result<bool> {
    let found = one(
        connection,
        "SELECT number, sha256 FROM artifacts WHERE artifact_id = ?1",
        [artifact_id.as_str()],
        |row| Ok((number(row, 0)?, hash(row, 1)?)),
    )?;
    let (artifact, sha256) = found.ok_or_else(|| StoreError::internal("a reference was written before its artifact"))?;
    let text = "INSERT INTO artifact_refs (artifact, conversation, subject) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    if run(connection, text, params![artifact, conversation, subject.as_str()])? == 0 {
        return Ok(false);
    }
    run(
        connection,
        "UPDATE artifacts SET ref_count = ref_count + 1 WHERE number = ?1",
        [artifact],
    )?;
    keep_from_collection(connection, &sha256)?;
    Ok(true)
}

pub(crate) fn put_pin(connection: &Connection, sha256: &Sha256, owner: &UnifiedId, expires_at: Timestamp) -> Result<()> {
    run(
        connection,
        "INSERT INTO artifact_pins (sha256, owner, expires_at) VALUES (?1, ?2, ?3) ON CONFLICT (sha256, owner) DO UPDATE SET expires_at = excluded.expires_at",
        params![sha256.as_bytes(), owner.as_str(), expires_at.millis()],
    )?;
    keep_from_collection(connection, sha256)
}

pub(crate) fn delete_pin(connection: &Connection, sha256: &Sha256, owner: &UnifiedId) -> Result<()> {
    run(
        connection,
        "DELETE FROM artifact_pins WHERE sha256 = ?1 AND owner = ?2",
        params![sha256.as_bytes(), owner.as_str()],
    )
    .map(drop)
}

fn keep_from_collection(connection: &Connection, sha256: &Sha256) -> Result<()> {
    run(
        connection,
        "DELETE FROM pending_artifact_gc WHERE sha256 = ?1",
        params![sha256.as_bytes()],
    )
    .map(drop)
}
