//! Wire protocols of model providers, to and from Unified v2: one module per protocol, all of the same shape.
//!
//! What it does: bytes and values in, bytes and values out. What it never does: touch sockets, an async runtime,
//! credentials, a clock or randomness. No protocol module imports another; what they share stands here.
//!
//! Where to start reading: [`codec`] (the trait that every protocol implements), then one protocol, then [`projection`]
//! (how losses are found by table). A protocol module consists of
//!
//! ```text
//! mod.rs              profile, what the protocol is, its validity rules
//! wire.rs             types of the wire, nothing else
//! decode_request.rs   encode_request.rs
//! decode_response.rs  encode_response.rs
//! decode_stream.rs    encode_stream.rs     state machines
//! errors.rs           error bodies both ways
//! capabilities.rs     what the protocol can express: one table that projection and docs read
//! ```
//!
//! A response is decoded to the same event drafts as a stream, and the fold makes the result of both; so a stream and the
//! unstreamed response cannot differ by construction.

#![forbid(unsafe_code)]

mod address;
pub mod anthropic_messages;
pub mod bookkeeping;
mod call_arguments;
pub mod call_id;
pub mod capability;
mod cited;
pub mod codec;
mod compacted;
pub mod context;
pub mod continuation;
pub mod cursor_sdk;
pub mod drafting;
pub mod feature;
pub mod gemini_generate_content;
pub mod gemini_interactions;
pub mod google;
pub mod history;
mod item_writer;
pub mod keeper;
mod media;
mod missing;
mod object;
pub mod offline;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod pairing;
pub mod projection;
pub mod raw;
pub mod registry;
pub mod requirement;
pub mod side;
pub mod span;
pub mod sse;
pub mod strength;
pub mod synthetic;
mod told;
pub mod tool_name;
pub mod tool_offer;
mod turn_usage;
pub mod unified_native;
pub mod vercel_uimessage;
mod visible_text;
pub mod wire;

pub use capability::{Capabilities, CapabilityTable, Knobs, Support};
pub use codec::{Codec, Decoded, DecodedRequest, Encoded, StreamDecoder, StreamEncoder, WireError, WireFrame, WireTraits};
pub use context::{DecodeContext, EncodeContext, NoPrivateState, PrivateState};
pub use continuation::{Continuation, Held, Inherited, Job};
pub use feature::Feature;
pub use history::{HistoryPiece, WireHistory};
pub use registry::{codec_of, families};
pub use side::SideResource;
pub use synthetic::SyntheticSealer;

/// Model name of a payload that names none; it never goes upstream.
pub const UNSPECIFIED_MODEL: &str = "unspecified";

/// The examples of CONTRIBUTING.md, so that they stay true.
#[cfg(doctest)]
#[doc = include_str!("../../../CONTRIBUTING.md")]
struct Contributing;
