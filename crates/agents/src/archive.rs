//! What a store keeps of a transcript beside its items: the runtime's records and what the session says of itself.
//!
//! Records are kept in segments of a fixed number, so that a file that grew changes only the last one. A segment is named by its content;
//! the manifest names the segments, and a newer manifest takes the place of an older one. All of it is private to the runtime,
//! and compressed, since it says once more what the items say.

use crate::ids;
use crate::transcript::{NativeRecord, ResponseUsage, SessionFacts, Transcript};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use throughline_format::{ProtocolFamily, Sha256, UnifiedError, UnifiedId, UnifiedItem, UnifiedProtocolProfile};
use throughline_protocols::SideResource;

/// Records of one segment.
const SEGMENT_RECORDS: usize = 64;
/// Most bytes of one segment; a record beyond it is left out, and its items are written by the rules of the runtime.
const SEGMENT_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes that a segment may unpack to: the texts, and as much again of what stands before them.
const MAX_SEGMENT: usize = 4 * SEGMENT_BYTES;
/// Most bytes that a manifest may unpack to. It grows with the session, whose file has a bound of its own.
const MAX_MANIFEST: usize = 512 * 1024 * 1024;
/// Level of compression. Records repeat what the items say and their own members line by line, so that the fastest takes most of it.
const LEVEL: i32 = 1;

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
struct Manifest<'a> {
    runtime: Cow<'a, str>,
    session: Cow<'a, SessionFacts>,
    segments: Vec<UnifiedId>,
    usage: Cow<'a, [ResponseUsage]>,
}

/// What stands before the texts of a segment: a line of JSON, so that the texts need no escapes.
#[derive(Serialize, Deserialize)]
struct Heads<'a> {
    #[serde(borrow)]
    records: Vec<Head<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Head<'a> {
    kind: Cow<'a, str>,
    /// Bytes of the text.
    length: usize,
    items: Cow<'a, [UnifiedId]>,
    digest: Option<Sha256>,
}

/// Word of the resource type of segments.
pub const RECORDS: &str = "native-records";
/// Word of the resource type of manifests.
pub const SESSION: &str = "session-manifest";

/// The profile that what a runtime says in its own way belongs to.
pub fn profile(runtime: &str) -> UnifiedProtocolProfile {
    UnifiedProtocolProfile::of(ProtocolFamily::from_word(runtime))
}

/// Packs what is kept: named by the plain text, so that another version of the compression gives no other name.
struct Packer<'a> {
    transcript: &'a Transcript,
    compressor: zstd::bulk::Compressor<'static>,
}

impl<'a> Packer<'a> {
    fn entry(&mut self, word: &str, plain: &[u8]) -> Result<Entry, UnifiedError> {
        let digest = Sha256::of(plain).to_hex();
        let runtime = &self.transcript.runtime;
        let id = ids::of_record(runtime, &self.transcript.session.id, &format!("{word}:{digest}"));
        Ok(Entry {
            resource_id: id.resource(0),
            schema: format!("{runtime}/{word}@1"),
            payload: self.compressor.compress(plain).map_err(fault)?,
        })
    }

    fn segment(&mut self, records: &[&'a NativeRecord]) -> Result<Entry, UnifiedError> {
        let head = |record: &&'a NativeRecord| Head {
            kind: Cow::Borrowed(&record.kind),
            length: record.text.len(),
            items: Cow::Borrowed(&record.items),
            digest: record.digest,
        };
        let heads = Heads {
            records: records.iter().map(head).collect(),
        };
        let mut plain = serde_json::to_vec(&heads).map_err(fault)?;
        plain.push(b'\n');
        plain.reserve_exact(records.iter().map(|record| record.text.len()).sum());
        for record in records {
            plain.extend_from_slice(record.text.as_bytes());
        }
        self.entry(RECORDS, &plain)
    }
}

fn fault(error: impl std::fmt::Display) -> UnifiedError {
    UnifiedError::new(throughline_format::ErrorCategory::Internal, "encode", error.to_string())
}

/// What is kept of a transcript. Transcripts that no runtime's records stand beside have a manifest without segments.
///
/// # Errors
/// `internal.encode` when a record has no JSON form: a fault of this program.
pub fn archive(transcript: &Transcript) -> Result<Archive, UnifiedError> {
    let compressor = zstd::bulk::Compressor::new(LEVEL).map_err(fault)?;
    let mut packer = Packer { transcript, compressor };
    let mut segments = Vec::new();
    for records in transcript.records.chunks(SEGMENT_RECORDS) {
        let (mut held, mut size) = (Vec::new(), 0);
        for record in records.iter().filter(|record| record.text.len() < SEGMENT_BYTES) {
            if size + record.text.len() > SEGMENT_BYTES {
                segments.push(packer.segment(&std::mem::take(&mut held))?);
                size = 0;
            }
            size += record.text.len();
            held.push(record);
        }
        segments.push(packer.segment(&held)?);
    }
    let manifest = Manifest {
        runtime: Cow::Borrowed(&transcript.runtime),
        session: Cow::Borrowed(&transcript.session),
        segments: segments.iter().map(|segment| segment.resource_id.clone()).collect(),
        usage: Cow::Borrowed(&transcript.usage),
    };
    let manifest = packer.entry(SESSION, &serde_json::to_vec(&manifest).map_err(fault)?)?;
    Ok(Archive { segments, manifest })
}

/// The plain text of a payload. Room is made for what the frame says that it holds, and not for the most.
fn unpack(payload: &[u8], most: usize) -> Option<Vec<u8>> {
    zstd::bulk::decompress(payload, most).ok()
}

/// The records of a segment.
fn open(payload: &[u8]) -> Option<Vec<NativeRecord>> {
    let plain = unpack(payload, MAX_SEGMENT)?;
    let at = plain.iter().position(|byte| *byte == b'\n')?;
    let heads: Heads<'_> = serde_json::from_slice(plain.get(..at)?).ok()?;
    let mut texts = std::str::from_utf8(plain.get(at + 1..)?).ok()?;
    let mut records = Vec::with_capacity(heads.records.len());
    for head in heads.records {
        let (text, rest) = texts.split_at_checked(head.length)?;
        texts = rest;
        records.push(NativeRecord {
            kind: head.kind.into_owned(),
            text: text.to_owned(),
            items: head.items.into_owned(),
            digest: head.digest,
        });
    }
    Some(records)
}

/// A transcript from what was kept. `segment` opens a payload by its ID; a segment that cannot be opened is as if it had never been.
/// With a manifest that cannot be read the items stand alone.
pub fn restore(
    manifest: &[u8],
    segment: impl Fn(&UnifiedId) -> Option<Vec<u8>>,
    items: Vec<UnifiedItem>,
    resources: Vec<SideResource>,
) -> Option<Transcript> {
    let manifest = unpack(manifest, MAX_MANIFEST)?;
    let manifest: Manifest<'_> = serde_json::from_slice(&manifest).ok()?;
    let mut transcript = Transcript::of_items(&manifest.runtime, manifest.session.into_owned(), items);
    for id in &manifest.segments {
        let opened = segment(id).and_then(|payload| open(&payload));
        transcript.records.extend(opened.into_iter().flatten());
    }
    transcript.resources = resources;
    transcript.usage = manifest.usage.into_owned();
    Some(transcript)
}
