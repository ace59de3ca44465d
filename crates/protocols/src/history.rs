//! A history on a wire, piece by piece: for files whose records are pieces of that wire.
//!
//! A request body says a history as a whole. Transcripts of coding agents hold the same pieces one by one, each with its own time,
//! model and parent, so their writers must know which item a piece says. The rules and repairs are those of the codec.

use throughline_format::{Json, UnifiedId, UnifiedLossReport};

/// One piece of a history: a block of a message, or an input item.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPiece {
    /// Number of the message that it belongs to, from 0. Where the wire has a flat list, each piece is one of its own.
    pub message: usize,
    /// Who says it, in the wire's word; absent where the piece tells itself.
    pub role: Option<&'static str>,
    /// The item that it says; for a stand-in, such as the result of a call that has none, the item that needs it.
    pub item: UnifiedId,
    /// The piece as it goes on the wire.
    pub body: Json,
}

/// A history on a wire.
#[derive(Clone, Debug, Default)]
pub struct WireHistory {
    /// The pieces in order; top-level instructions are not among them.
    pub pieces: Vec<HistoryPiece>,
    /// What was lost or repaired; paths are JSON Pointers into the request record.
    pub loss: UnifiedLossReport,
}
