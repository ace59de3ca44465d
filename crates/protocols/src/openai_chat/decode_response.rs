//! Unstreamed answers from the wire: the whole message goes through the state machine of the stream as one delta.

use super::decode_stream::AnswerDecoder;
use super::wire;
use crate::codec::Decoded;
use crate::context::DecodeContext;
use throughline_format::UnifiedError;

/// Reads a response body, which may be an error body of status 200.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
    let answer: wire::Answer = throughline_format::json::decode_slice(body)?;
    let mut decoder = AnswerDecoder::new(context.clone(), true);
    decoder.answer(answer);
    decoder.end();
    Ok(decoder.take())
}
