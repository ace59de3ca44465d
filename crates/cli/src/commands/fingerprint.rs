//! `throughline fingerprint`: SHA-256 of the canonical form of a record.

use crate::args::FingerprintArguments;
use crate::error::CliError;
use crate::input::Source;
use crate::output::print_json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use throughline_format::json::decode_slice;
use throughline_format::{
    RecordKind, Sha256, UnifiedConversation, UnifiedEventV2, UnifiedExportV2, UnifiedItem, UnifiedOperation, UnifiedProviderCheckpoint,
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
    match RecordKind::of_members(|name| members.contains_key(name)) {
        Some(RecordKind::Request) => of::<UnifiedRequestV2>(bytes),
        Some(RecordKind::Result) => of::<UnifiedResultV2>(bytes),
        Some(RecordKind::Event) => of::<UnifiedEventV2>(bytes),
        Some(RecordKind::Operation) => of::<UnifiedOperation>(bytes),
        Some(RecordKind::Export) => of::<UnifiedExportV2>(bytes),
        Some(RecordKind::Item) => of::<UnifiedItem>(bytes),
        Some(RecordKind::Conversation) => of::<UnifiedConversation>(bytes),
        Some(RecordKind::Checkpoint) => of::<UnifiedProviderCheckpoint>(bytes),
        None => Err(CliError::input("unknown-discriminator", RecordKind::NONE_OF_THEM)),
    }
}

fn of<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<Sha256, CliError> {
    let record: T = decode_slice(bytes)?;
    fingerprint(&record).map_err(|e| CliError::input("validation", e.to_string()))
}
