//! `throughline fingerprint`: SHA-256 of the canonical form of a record.

use crate::args::FingerprintArguments;
use crate::error::CliError;
use crate::input::Source;
use crate::output::print_json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use throughline_format::json::decode_slice;
use throughline_format::{
    Sha256, UnifiedConversation, UnifiedEventV2, UnifiedExportV2, UnifiedItem, UnifiedOperation, UnifiedProviderCheckpoint,
    UnifiedRequestV2, UnifiedResultV2, fingerprint,
};

/// What the command prints.
#[derive(Debug, Serialize)]
struct FingerprintReport {
    fingerprint: Sha256,
    algorithm: &'static str,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`] with the exit code.
pub fn run(arguments: &FingerprintArguments) -> Result<u8, CliError> {
    let input = Source::parse(&arguments.file).read()?;
    print_json(&FingerprintReport {
        fingerprint: of_record(&input)?,
        algorithm: "sha-256",
    })?;
    Ok(0)
}

/// Finds out by its members which record it is, decodes it strictly and takes the fingerprint.
fn of_record(bytes: &[u8]) -> Result<Sha256, CliError> {
    let members: serde_json::Map<String, serde_json::Value> = decode_slice(bytes)?;
    let has = |names: &[&str]| names.iter().all(|name| members.contains_key(*name));
    if has(&["kind", "eventId"]) {
        of::<UnifiedEventV2>(bytes)
    } else if has(&["kind"]) {
        of::<UnifiedItem>(bytes)
    } else if has(&["exportedAt"]) {
        of::<UnifiedExportV2>(bytes)
    } else if has(&["conversation", "generation"]) {
        of::<UnifiedRequestV2>(bytes)
    } else if has(&["responseId", "output"]) {
        of::<UnifiedResultV2>(bytes)
    } else if has(&["operationId", "state"]) {
        of::<UnifiedOperation>(bytes)
    } else if has(&["checkpointId"]) {
        of::<UnifiedProviderCheckpoint>(bytes)
    } else if has(&["defaultBranchId"]) {
        of::<UnifiedConversation>(bytes)
    } else {
        let known = "request, result, event, operation, export, conversation, checkpoint or item";
        Err(CliError::input(
            "unknown-discriminator",
            format!("its members fit no Unified v2 record: expected a {known}"),
        ))
    }
}

fn of<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<Sha256, CliError> {
    let record: T = decode_slice(bytes)?;
    fingerprint(&record).map_err(|e| CliError::input("validation", e.to_string()))
}
