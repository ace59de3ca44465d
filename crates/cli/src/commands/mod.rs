//! One module per command. Each takes its arguments and returns the exit code.

pub mod conversation;
pub mod convert;
pub mod convert_batch;
pub mod db;
pub mod fingerprint;
pub mod fold;
pub mod key;
pub mod schema;
pub mod serve;
pub mod session;
pub mod validate;
