//! What the protocols of one vendor share: error bodies and the schemas of strict mode. No protocol of its own.

pub(crate) mod errors;
pub(crate) mod strict_schema;
