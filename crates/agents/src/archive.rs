//! What a store keeps of a transcript beside its items: the runtime's records and what the session says of itself.
//!
//! Records are kept in segments of a fixed number, so that a file that grew changes only the last one. A segment is named by its content;
//! the manifest names the segments, and a newer manifest takes the place of an older one. All of it is private to the runtime.

use crate::ids;
use crate::transcript::{NativeRecord, ResponseUsage, SessionFacts, Transcript};
use serde::{Deserialize, Serialize};
use throughline_format::{ProtocolFamily, Sha256, UnifiedError, UnifiedId, UnifiedItem, UnifiedProtocolProfile};
use throughline_protocols::SideResource;

/// Records of one segment.
const SEGMENT_RECORDS: usize = 64;
/// Most bytes of one segment; a record beyond it is left out, and its items are written by the rules of the runtime.
const SEGMENT_BYTES: usize = 4 * 1024 * 1024;

/// A payload to keep, or to find again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its ID: the same for the same content of the same session.
    pub resource_id: UnifiedId,
    /// The registered schema.
    pub schema: String,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Everything that is kept of one transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// The records.
    pub segments: Vec<Entry>,
    /// What names them.
    pub manifest: Entry,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    runtime: String,
    session: SessionFacts,
    segments: Vec<UnifiedId>,
    usage: Vec<ResponseUsage>,
}

#[derive(Serialize, Deserialize)]
struct Segment {
    records: Vec<NativeRecord>,
}

/// Word of the resource type of segments.
pub const RECORDS: &str = "native-records";
/// Word of the resource type of manifests.
pub const SESSION: &str = "session-manifest";

/// The profile that what a runtime says in its own way belongs to.
pub fn profile(runtime: &str) -> UnifiedProtocolProfile {
    UnifiedProtocolProfile::of(ProtocolFamily::from_word(runtime))
}

fn entry(transcript: &Transcript, word: &str, payload: Vec<u8>) -> Entry {
    let digest = Sha256::of(&payload).to_hex();
    let id = ids::of_record(&transcript.runtime, &transcript.session.id, &format!("{word}:{digest}"));
    Entry {
        resource_id: id.resource(0),
        schema: format!("{}/{word}@1", transcript.runtime),
        payload,
    }
}

fn bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, UnifiedError> {
    serde_json::to_vec(value).map_err(|e| UnifiedError::new(throughline_format::ErrorCategory::Internal, "encode", e.to_string()))
}

/// What is kept of a transcript. Transcripts that no runtime's records stand beside have a manifest without segments.
///
/// # Errors
/// `internal.encode` when a record has no JSON form: a fault of this program.
pub fn archive(transcript: &Transcript) -> Result<Archive, UnifiedError> {
    let mut segments = Vec::new();
    for records in transcript.records.chunks(SEGMENT_RECORDS) {
        let (mut held, mut size) = (Vec::new(), 0);
        for record in records.iter().filter(|record| record.text.len() < SEGMENT_BYTES) {
            if size + record.text.len() > SEGMENT_BYTES {
                segments.push(entry(
                    transcript,
                    RECORDS,
                    bytes(&Segment {
                        records: std::mem::take(&mut held),
                    })?,
                ));
                size = 0;
            }
            size += record.text.len();
            held.push(record.clone());
        }
        segments.push(entry(transcript, RECORDS, bytes(&Segment { records: held })?));
    }
    let manifest = Manifest {
        runtime: transcript.runtime.clone(),
        session: transcript.session.clone(),
        segments: segments.iter().map(|segment| segment.resource_id.clone()).collect(),
        usage: transcript.usage.clone(),
    };
    let manifest = entry(transcript, SESSION, bytes(&manifest)?);
    Ok(Archive { segments, manifest })
}

/// A transcript from what was kept. `segment` opens a payload by its ID; a segment that cannot be opened is as if it had never been.
/// With a manifest that cannot be read the items stand alone.
pub fn restore(
    manifest: &[u8],
    segment: impl Fn(&UnifiedId) -> Option<Vec<u8>>,
    items: Vec<UnifiedItem>,
    resources: Vec<SideResource>,
) -> Option<Transcript> {
    let manifest: Manifest = serde_json::from_slice(manifest).ok()?;
    let mut transcript = Transcript::of_items(&manifest.runtime, manifest.session, items);
    for id in &manifest.segments {
        let opened = segment(id).and_then(|payload| serde_json::from_slice::<Segment>(&payload).ok());
        transcript.records.extend(opened.into_iter().flat_map(|segment| segment.records));
    }
    transcript.resources = resources;
    transcript.usage = manifest.usage;
    Some(transcript)
}
