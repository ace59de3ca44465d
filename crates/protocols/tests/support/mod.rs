//! Helpers of the integration tests.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod samples;

use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use throughline_format::{UnifiedId, UnifiedResultV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Codec, DecodeContext, PrivateState, SideResource, WireFrame};

/// Private state of one and the same owner: everything that a decode handed out.
#[derive(Default)]
pub struct Everything {
    by_id: BTreeMap<UnifiedId, Bytes>,
    of_root: BTreeMap<String, Bytes>,
}

impl Everything {
    pub fn of(resources: &[SideResource]) -> Self {
        let mut all = Self::default();
        for resource in resources {
            let payload = Bytes::from(resource.payload.clone());
            all.by_id.insert(resource.resource_id.clone(), payload.clone());
            if resource.subject.is_none() {
                all.of_root.insert(resource.schema.clone(), payload);
            }
        }
        all
    }
}

impl PrivateState for Everything {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.by_id.get(resource_id).cloned()
    }

    fn root_payload(&self, schema: &str) -> Option<Bytes> {
        self.of_root.get(schema).cloned()
    }
}

/// Folds a stream that arrives in pieces of this size.
pub fn fold_stream(codec: &dyn Codec, bytes: &[u8], piece: usize) -> OfflineFold {
    let mut decoder = codec.stream_decoder(&DecodeContext::offline());
    let mut fold = OfflineFold::new();
    for chunk in bytes.chunks(piece.max(1)) {
        fold.push(decoder.push(chunk)).expect("the decoder keeps the event grammar");
    }
    fold.push(decoder.finish()).expect("the decoder keeps the event grammar");
    assert!(decoder.is_finished());
    assert!(fold.fold.is_complete(), "a stream always ends");
    fold
}

/// Folds an unstreamed response.
pub fn fold_response(codec: &dyn Codec, body: &[u8]) -> OfflineFold {
    let mut fold = OfflineFold::new();
    fold.push(
        codec
            .decode_response(body, &DecodeContext::offline())
            .expect("the response is valid"),
    )
    .expect("the decoder keeps the event grammar");
    fold
}

/// The result without what a stream and an unstreamed response may differ in: nothing but private payloads, which are not in it.
pub fn result_of(fold: &OfflineFold) -> UnifiedResultV2 {
    fold.fold.result()
}

/// Frames as bytes.
pub fn sse(frames: &[WireFrame]) -> String {
    frames.iter().map(WireFrame::to_sse).collect()
}

/// A folder of the shared corpus, or `None` where it is absent; in CI it has to be there.
pub fn corpus(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("THROUGHLINE_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join("corpus").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "the corpus is missing: {folder}");
    eprintln!("skipped: no corpus at {folder}");
    None
}

/// Files of a folder with this ending, in order.
pub fn files(folder: &PathBuf, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.filter_map(|e| e.ok().map(|e| e.path())).collect())
        .unwrap_or_default();
    files.retain(|path| path.to_string_lossy().ends_with(ending) && !path.to_string_lossy().ends_with(".meta.json"));
    files.sort();
    files
}
