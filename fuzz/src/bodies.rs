//! What must hold of every decoder, whatever it is given: an error with a place, or a result that everything downstream takes.
//!
//! The first byte of an input chooses the family from the registry, so that a new codec is tried without a change here.

use std::sync::Arc;
use throughline_format::fold::Fold;
use throughline_format::json::{decode_slice, is_pointer};
use throughline_format::validate::validate_document;
use throughline_format::{
    UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItem, UnifiedRequestV2, UnifiedResultV2, content_fingerprint, fingerprint,
};
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, codec_of, families};

/// Longest message of an error, in characters.
const MAX_MESSAGE: usize = 1_024;

/// The codec that a byte chooses, and the rest of the input.
fn choose(data: &[u8]) -> Option<(Arc<dyn Codec>, &[u8])> {
    let (first, rest) = data.split_first()?;
    let family = families().get(usize::from(*first) % families().len().max(1))?;
    Some((codec_of(family)?, rest))
}

fn codecs() -> impl Iterator<Item = Arc<dyn Codec>> {
    families().iter().filter_map(codec_of)
}

fn plain(codec: &dyn Codec) -> EncodeContext {
    EncodeContext::plain(Capabilities::of(codec.capabilities()))
}

/// An error names a place by a JSON Pointer, and says no more than it may.
fn check_error(error: &UnifiedError) {
    if let Some(path) = &error.field_path {
        assert!(path.is_empty() || is_pointer(path), "{path:?} is no JSON Pointer: {error}");
    }
    assert!(
        error.message.chars().count() <= MAX_MESSAGE,
        "a message of {} bytes",
        error.message.len()
    );
    assert!(error.code.starts_with(error.category.as_str()), "{error}");
}

/// A request: refused with a place, or written in every protocol and read again.
pub fn decode_request(data: &[u8]) {
    let Some((codec, body)) = choose(data) else { return };
    let decoded = match codec.decode_request(body, &DecodeContext::offline()) {
        Ok(decoded) => decoded,
        Err(error) => return check_error(&error),
    };
    let _ = fingerprint(&decoded.unified);
    for target in codecs() {
        let encoded = target
            .encode_request(&decoded.unified, &plain(target.as_ref()))
            .expect("losses are no errors");
        let again = target.decode_request(encoded.body.as_bytes(), &DecodeContext::offline());
        // A wire may hold the same value some levels deeper; what was just within the bound may then be beyond it.
        if let Err(error) = again
            && error.code != "invalid-request.too-deep"
        {
            panic!(
                "{:?} does not read what it wrote: {error} at {:?}",
                target.profile().family,
                error.field_path
            );
        }
    }
}

/// A fold that is complete, has a fingerprint, and can be said in every protocol.
fn check_fold(fold: &OfflineFold) -> Option<String> {
    assert!(fold.fold.is_complete(), "an answer always ends");
    assert_eq!(
        fold.events.iter().filter(|e| e.body.is_terminal()).count(),
        1,
        "an operation ends once"
    );
    let result = fold.fold.result();
    for target in codecs() {
        target
            .encode_response(&result, &plain(target.as_ref()))
            .expect("losses are no errors");
        let mut encoder = target.stream_encoder(&plain(target.as_ref()));
        for event in &fold.events {
            for frame in encoder.push(event) {
                assert!(!frame.data.contains(['\n', '\r']), "a frame is one line");
            }
        }
    }
    fingerprint(&result).ok().map(|print| print.to_hex())
}

/// An unstreamed response: refused with a place, or events that fold.
pub fn decode_response(data: &[u8]) {
    let Some((codec, body)) = choose(data) else { return };
    match codec.decode_response(body, &DecodeContext::offline()) {
        Err(error) => check_error(&error),
        Ok(batch) => {
            let mut fold = OfflineFold::new();
            fold.push(batch).expect("a decoder keeps the event grammar");
            check_fold(&fold);
        }
    }
}

/// A stream: it always folds, and to the same whatever the transport cuts. The second and third byte choose the cuts.
pub fn decode_stream(data: &[u8]) {
    let Some((codec, rest)) = choose(data) else { return };
    let Some(([size, drift], bytes)) = rest.split_first_chunk::<2>() else {
        return;
    };
    let whole = fold(codec.as_ref(), bytes, usize::MAX, 0);
    let cut = fold(codec.as_ref(), bytes, usize::from(*size % 67) + 1, usize::from(*drift % 5));
    let (print, again) = (check_fold(&whole), check_fold(&cut));
    assert_eq!(print, again, "the transport's cuts show in the result");
}

/// Folds a stream in pieces that begin at `size` bytes and grow by `drift`, up to 256 and again.
fn fold(codec: &dyn Codec, mut bytes: &[u8], size: usize, drift: usize) -> OfflineFold {
    let (mut decoder, mut fold, mut next) = (codec.stream_decoder(&DecodeContext::offline()), OfflineFold::new(), size);
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(next.min(bytes.len()));
        fold.push(decoder.push(piece)).expect("a decoder keeps the event grammar");
        bytes = rest;
        next = if size == usize::MAX { size } else { (next + drift) % 256 + 1 };
    }
    fold.push(decoder.finish()).expect("a decoder keeps the event grammar");
    assert!(decoder.is_finished(), "a stream always ends");
    fold
}

/// An error answer: always an error, which every protocol can say. Two bytes are the status.
pub fn decode_error(data: &[u8]) {
    let Some((codec, rest)) = choose(data) else { return };
    let Some((status, body)) = rest.split_first_chunk::<2>() else {
        return;
    };
    let status = u16::from_be_bytes(*status);
    let error = codec.decode_error(status, &ErrorHeaders::default(), body);
    check_error(&error);
    for target in codecs() {
        let wire = target.encode_error(&error);
        assert!(
            serde_json::from_str::<serde_json::Value>(&wire.body).is_ok(),
            "an error body is JSON"
        );
        check_error(&target.decode_error(wire.status, &ErrorHeaders::default(), wire.body.as_bytes()));
    }
}

/// Unified records: read, validated, folded, and written as they were read.
pub fn unified_records(data: &[u8]) {
    for violation in validate_document(data).violations {
        assert!(violation.path.is_empty() || is_pointer(&violation.path), "{violation:?}");
    }
    reread::<UnifiedRequestV2>(data);
    reread::<UnifiedResultV2>(data);
    reread::<UnifiedItem>(data);
    reread::<UnifiedEventV2>(data);
    // Lines of events, as far as they are events: the fold refuses what breaks the grammar and stays as it was.
    let mut fold = Fold::new(UnifiedId::offline_operation());
    for event in data
        .split(|b| *b == b'\n')
        .filter_map(|line| decode_slice::<UnifiedEventV2>(line).ok())
    {
        let before = fold.events();
        if fold.push(&event).is_err() {
            assert_eq!(fold.events(), before, "a refused event leaves no trace");
        }
    }
    let result = fold.result();
    let _ = (fingerprint(&result), content_fingerprint(&result));
}

/// What can be read is written so that it reads the same.
fn reread<T: serde::de::DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
    let Ok(record) = decode_slice::<T>(data) else { return };
    let text = serde_json::to_string(&record).expect("a record is JSON");
    let again = decode_slice::<T>(text.as_bytes()).unwrap_or_else(|e| panic!("{e} in {text}"));
    assert_eq!(again, record);
}
