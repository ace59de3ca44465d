//! Helpers of the integration tests.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod samples;

use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use throughline_format::{ProtocolFamily, UnifiedId, UnifiedResultV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{
    Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, PrivateState, SideResource, WireFrame, codec_of,
};

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

/// What the record says of a request, and the body that its owner gets back of it.
pub fn there_and_back(family: &ProtocolFamily, body: &Value) -> (Value, Value) {
    let codec = codec_of(family).unwrap();
    let decoded = codec
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap();
    let context = EncodeContext {
        private: Arc::new(Everything::of(&decoded.resources)),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    let back = codec.encode_request(&decoded.unified, &context).unwrap().body;
    (
        serde_json::to_value(&decoded.unified).unwrap(),
        serde_json::from_str(&back).unwrap(),
    )
}

/// Captured requests of a protocol that are read, or `None` where there is no corpus.
pub fn captured_requests(family: &ProtocolFamily) -> Option<impl Iterator<Item = (PathBuf, Value, DecodedRequest)> + use<>> {
    let codec = codec_of(family).unwrap();
    let folder = corpus(&format!("wire/{family}/requests"))?;
    Some(files(&folder, ".json").into_iter().filter_map(move |file| {
        let bytes = std::fs::read(&file).unwrap();
        let body = serde_json::from_slice(&bytes).ok()?;
        let decoded = codec.decode_request(&bytes, &DecodeContext::offline()).ok()?;
        Some((file, body, decoded))
    }))
}

/// Captured answers of a protocol that are read, or `None` where there is no corpus.
pub fn captured_results(family: &ProtocolFamily) -> Option<impl Iterator<Item = (PathBuf, Value, UnifiedResultV2)> + use<>> {
    let codec = codec_of(family).unwrap();
    let folder = corpus(&format!("wire/{family}/responses"))?;
    Some(files(&folder, ".json").into_iter().filter_map(move |file| {
        let bytes = std::fs::read(&file).unwrap();
        let body = serde_json::from_slice(&bytes).unwrap();
        let decoded = codec.decode_response(&bytes, &DecodeContext::offline()).ok()?;
        let mut fold = OfflineFold::new();
        fold.push(decoded).unwrap();
        Some((file, body, result_of(&fold)))
    }))
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
