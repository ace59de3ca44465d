//! Issued IDs: what this gateway put into an answer, under keyed hashes. Echoed, they settle between equal histories.
//!
//! They are never proof alone: some providers answer with IDs that are not unique, and a client may make up any.

use super::calls;
use crate::private;
use std::collections::BTreeSet;
use throughline_format::resource::Issuer;
use throughline_format::{Sha256, UnifiedError, UnifiedItem};
use throughline_protocols::{Codec, SideResource};
use throughline_store::{HashPurpose, Vault};

/// IDs that a look-up takes, newest first.
const MAX_ECHOED: usize = 512;

/// Hashes of what a request echoes: call IDs and private payloads, newest first, each once.
pub(crate) fn echoed(vault: &Vault, items: &[UnifiedItem], resources: &[SideResource]) -> Result<Vec<Sha256>, UnifiedError> {
    let mut seen = BTreeSet::new();
    let mut hashes = Vec::new();
    let calls = items
        .iter()
        .rev()
        .filter(|i| calls::is_call(i))
        .filter_map(UnifiedItem::call_id)
        .map(str::as_bytes);
    let states = resources
        .iter()
        .rev()
        .filter(|r| private::is_provider_state(r) && r.issuer == Issuer::ClientAsserted)
        .map(|r| r.payload.as_slice());
    for id in calls.chain(states) {
        let hash = hash(vault, id)?;
        if seen.insert(hash) {
            hashes.push(hash);
        }
        if hashes.len() == MAX_ECHOED {
            break;
        }
    }
    Ok(hashes)
}

/// Hash of a call ID as the client's wire carries it.
pub(crate) fn of_call(vault: &Vault, codec: &dyn Codec, call_id: &str) -> Result<Sha256, UnifiedError> {
    hash(vault, codec.wire_call_id(call_id).as_bytes())
}

/// Hash of an issued ID or private payload.
pub(crate) fn hash(vault: &Vault, id: &[u8]) -> Result<Sha256, UnifiedError> {
    vault.keyed_hash(HashPurpose::IssuedId, id).map_err(|e| e.to_unified())
}
