//! Resume cursors: where a subscriber stands, bound to its principal and under a MAC (spec, Resumable live streams).
//!
//! Bytes, all under the MAC: format version, conversation, operation, sequence, store epoch, principal hash, expiry. The
//! key version stands in front. Text is base64url without padding. A cursor is never authorisation by itself.

use crate::principal::Principal;
use throughline_format::{ErrorCategory, Sha256, Timestamp, UnifiedError, UnifiedId};
use throughline_store::{HashPurpose, StoreEpoch, Vault};

const FORMAT: u8 = 1;
const MAC_BYTES: usize = 32;
/// Longest cursor text: two IDs of 128 characters and the fixed fields, encoded.
const MAX_TEXT: usize = 600;

/// What a cursor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeCursor {
    /// Conversation.
    pub conversation_id: UnifiedId,
    /// Operation.
    pub operation_id: UnifiedId,
    /// Last event that the subscriber has.
    pub after_sequence: u64,
    /// Epoch of the store that issued it.
    pub epoch: StoreEpoch,
    /// Until when it is valid.
    pub expires_at: Timestamp,
}

/// The one error of every cursor that cannot be used: it does not tell which part was wrong.
pub fn invalid() -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::InvalidRequest,
        "cursor",
        "this cursor is not valid here; attach without one, or with one that this operation gave you",
    )
}

/// Writes a cursor.
///
/// # Errors
/// When the vault has no key.
pub fn seal(vault: &Vault, principal: &Principal, cursor: &ResumeCursor) -> Result<String, UnifiedError> {
    let key_version = vault.current_version();
    let body = body(principal, cursor);
    let mut bytes = key_version.to_be_bytes().to_vec();
    bytes.extend(&body);
    let (_, mac) = vault.mac(HashPurpose::Cursor, &bytes).map_err(|e| e.to_unified())?;
    bytes.extend(mac.as_bytes());
    Ok(data_encoding::BASE64URL_NOPAD.encode(&bytes))
}

/// Reads a cursor of this principal; the MAC is checked before anything is parsed.
///
/// # Errors
/// [`invalid`], whatever is wrong.
pub fn open(vault: &Vault, principal: &Principal, now: Timestamp, text: &str) -> Result<ResumeCursor, UnifiedError> {
    read(vault, principal, now, text).ok_or_else(invalid)
}

fn read(vault: &Vault, principal: &Principal, now: Timestamp, text: &str) -> Option<ResumeCursor> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let bytes = data_encoding::BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
    let (signed, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
    let (key_version, rest) = signed.split_first_chunk::<4>()?;
    if !vault.verify_mac(HashPurpose::Cursor, u32::from_be_bytes(*key_version), signed, mac) {
        return None;
    }
    let (format, rest) = rest.split_first()?;
    let (conversation_id, rest) = take_id(rest)?;
    let (operation_id, rest) = take_id(rest)?;
    let (after, rest) = rest.split_first_chunk::<8>()?;
    let (epoch, rest) = rest.split_first_chunk::<16>()?;
    let (owner, rest) = rest.split_first_chunk::<32>()?;
    let (expiry, rest) = rest.split_first_chunk::<8>()?;
    let expires_at = Timestamp::from_millis(i64::from_be_bytes(*expiry));
    let valid = *format == FORMAT && rest.is_empty() && owner == principal_hash(principal).as_bytes() && now <= expires_at;
    valid.then(|| ResumeCursor {
        conversation_id,
        operation_id,
        after_sequence: u64::from_be_bytes(*after),
        epoch: StoreEpoch::from_bytes(*epoch),
        expires_at,
    })
}

fn body(principal: &Principal, cursor: &ResumeCursor) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    for id in [&cursor.conversation_id, &cursor.operation_id] {
        // An ID has at most 128 characters.
        bytes.push(u8::try_from(id.as_str().len()).unwrap_or(u8::MAX));
        bytes.extend(id.as_str().as_bytes());
    }
    bytes.extend(cursor.after_sequence.to_be_bytes());
    bytes.extend(cursor.epoch.as_bytes());
    bytes.extend(principal_hash(principal).as_bytes());
    bytes.extend(cursor.expires_at.millis().to_be_bytes());
    bytes
}

fn principal_hash(principal: &Principal) -> Sha256 {
    Sha256::of_all([b"throughline-cursor-principal@1\n".as_slice(), principal.id().as_bytes()])
}

fn take_id(bytes: &[u8]) -> Option<(UnifiedId, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (id, rest) = rest.split_at_checked(usize::from(*length))?;
    let id = UnifiedId::parse(std::str::from_utf8(id).ok()?).ok()?;
    Some((id, rest))
}
