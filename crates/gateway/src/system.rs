//! The real clock and the real source of IDs; nothing else in the gateway asks for time or randomness on its own.

use std::time::{SystemTime, UNIX_EPOCH};
use throughline_engine::ports::{Clock, IdKind, IdSource};
use throughline_format::{Timestamp, UnifiedId};

/// The clock of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let millis = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_millis())
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }
}

/// IDs as prefix and UUIDv7 in lower-case Crockford base32. They sort by time, also within a millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct UuidSource;

impl IdSource for UuidSource {
    fn next(&self, kind: IdKind) -> UnifiedId {
        id(kind.prefix(), uuid::Uuid::now_v7())
    }
}

/// An ID of a record that the engine has no word for, such as a client key.
pub(crate) fn random_id(prefix: &str) -> UnifiedId {
    id(prefix, uuid::Uuid::now_v7())
}

fn id(prefix: &str, uuid: uuid::Uuid) -> UnifiedId {
    // Prefix and alphabet are legal in an ID, so the fallback is never taken.
    UnifiedId::parse(&format!("{prefix}{}", crockford(uuid.as_u128()))).unwrap_or_else(|_| UnifiedId::pending())
}

/// 26 digits, the highest first, so that text order is number order.
fn crockford(value: u128) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digit = |place: u32| {
        usize::try_from((value >> (place * 5)) & 31)
            .ok()
            .and_then(|index| DIGITS.get(index))
    };
    (0..26).rev().filter_map(digit).map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let ids: Vec<UnifiedId> = (0..1_000).map(|_| UuidSource.next(IdKind::Operation)).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ids.iter().all(|id| id.as_str().len() == 29 && id.as_str().starts_with("op_")));
        assert_eq!(crockford(0), "0".repeat(26));
        assert_eq!(crockford(u128::MAX), "7zzzzzzzzzzzzzzzzzzzzzzzzz");
    }
}
