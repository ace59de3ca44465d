//! What the protocols of one vendor share: media, durations, `google.rpc` errors. No protocol of its own.

pub mod media;
pub mod status;
