//! Types of the events of a stream.

use super::wire::{Block, ErrorAnswer, Members, Response, StopDetails};
use crate::wire::{wire, wire_union};
use throughline_format::Json;

wire! {
    /// A piece of text.
    pub struct TextPiece {
        /// The text.
        text: String,
    }
}
wire! {
    /// A piece of argument text.
    pub struct JsonPiece {
        /// The text.
        partial_json: String,
    }
}
wire! {
    /// A piece of reasoning.
    pub struct ThinkingPiece {
        /// The text.
        thinking?: String,
    }
}
wire! {
    /// The signature, whole.
    pub struct SignaturePiece {
        /// The signature.
        signature: String,
    }
}
wire! {
    /// A citation, whole.
    pub struct CitationPiece {
        /// The citation as written.
        citation: Json,
    }
}
wire_union! {
    /// A change of the open block.
    pub enum BlockDelta {
        /// Text.
        Text(TextPiece) = "text_delta",
        /// Arguments.
        InputJson(JsonPiece) = "input_json_delta",
        /// Reasoning.
        Thinking(ThinkingPiece) = "thinking_delta",
        /// Signature.
        Signature(SignaturePiece) = "signature_delta",
        /// Citation.
        Citations(CitationPiece) = "citations_delta",
        /// Members of a compaction block, to assign.
        Compaction(Members) = "compaction_delta",
    }
}
wire! {
    /// The message begins.
    pub struct MessageStart {
        /// The message so far.
        message: Response,
    }
}
wire! {
    /// A block begins.
    pub struct BlockStart {
        /// Its index.
        index: u64,
        /// The block so far.
        content_block: Block,
    }
}
wire! {
    /// A block changes.
    pub struct BlockChange {
        /// Its index.
        index: u64,
        /// The change.
        delta: BlockDelta,
    }
}
wire! {
    /// A block ends.
    pub struct BlockStop {
        /// Its index.
        index: u64,
    }
}
wire! {
    /// How the message ends.
    pub struct Ending {
        /// Why.
        stop_reason?: String,
        /// Matched stop sequence.
        stop_sequence?: String,
        /// Detail of a refusal.
        stop_details?: StopDetails,
    }
}
wire! {
    /// The message changes.
    pub struct MessageDelta {
        /// How it ends.
        delta?: Ending,
        /// Usage as written, cumulative.
        usage?: Members,
    }
}
wire_union! {
    /// An event of a stream.
    pub enum Event {
        /// The message begins.
        MessageStart(MessageStart) = "message_start",
        /// A block begins.
        BlockStart(BlockStart) = "content_block_start",
        /// A block changes.
        BlockDelta(BlockChange) = "content_block_delta",
        /// A block ends.
        BlockStop(BlockStop) = "content_block_stop",
        /// The message changes.
        MessageDelta(MessageDelta) = "message_delta",
        /// The message ends.
        MessageStop(Members) = "message_stop",
        /// Nothing.
        Ping(Members) = "ping",
        /// It failed.
        Error(ErrorAnswer) = "error",
    }
}
