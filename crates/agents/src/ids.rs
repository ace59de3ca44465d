//! IDs without a clock and without randomness: each is derived from what it names.

use crate::transcript::Transcript;
use std::fmt::Write as _;
use throughline_format::{Sha256, Timestamp, UnifiedId};

/// Hex digits of a digest that stand in a derived ID: 128 bits.
const DIGITS: usize = 32;
/// How many of them the IDs of one session have in common.
const COMMON: usize = 8;

/// Digest of several texts that cannot run into one another.
fn digest(pieces: &[&str]) -> String {
    let mut all = String::with_capacity(pieces.iter().map(|piece| piece.len() + 8).sum());
    for piece in pieces {
        // Writing to a `String` cannot fail.
        let _ = write!(all, "{}:{piece}", piece.len());
    }
    Sha256::of(all.as_bytes()).to_hex()
}

fn short(pieces: &[&str]) -> String {
    digest(pieces).chars().take(DIGITS).collect()
}

/// The ID that items of a record are numbered under: the same for the same record of the same session, whatever stands around it.
/// Those of one session begin alike, so that they are neighbours in an index.
pub(crate) fn of_record(runtime: &str, session: &str, key: &str) -> UnifiedId {
    let (common, own) = (digest(&[runtime, session]), digest(&[runtime, session, key]));
    let text = format!(
        "rec_{}{}",
        common.get(..COMMON).unwrap_or_default(),
        own.get(..DIGITS - COMMON).unwrap_or_default()
    );
    UnifiedId::parse(&text).unwrap_or_else(|_| UnifiedId::offline_operation())
}

/// The conversation that a session is imported as, for one principal: the same at every import.
pub fn conversation(principal: &str, runtime: &str, session: &str) -> UnifiedId {
    UnifiedId::parse(&format!("conv_{}", short(&[principal, runtime, session]))).unwrap_or_else(|_| UnifiedId::pending())
}

/// The branch that an import writes to.
pub fn branch(conversation: &UnifiedId) -> UnifiedId {
    UnifiedId::parse(&format!("br_{}", short(&["branch", conversation.as_str()]))).unwrap_or_else(|_| UnifiedId::pending())
}

/// A UUID (version 8: of its maker's choosing) derived from texts.
pub(crate) fn uuid(pieces: &[&str]) -> String {
    let hex = digest(pieces);
    let at = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    let variant = match hex.as_bytes().get(16) {
        Some(b'0' | b'4' | b'8' | b'c') => '8',
        Some(b'1' | b'5' | b'9' | b'd') => '9',
        Some(b'2' | b'6' | b'a' | b'e') => 'a',
        _ => 'b',
    };
    format!("{}-{}-8{}-{variant}{}-{}", at(0, 8), at(8, 12), at(13, 16), at(17, 20), at(20, 32))
}

/// The ID of a copy of a session for its own runtime, in the form that the runtime has.
pub fn copy_of(transcript: &Transcript) -> String {
    let (runtime, session) = (transcript.runtime.as_str(), transcript.session.id.as_str());
    match runtime {
        crate::opencode::NAME => {
            let began = transcript.began().unwrap_or(Timestamp::EPOCH);
            opencode("ses", began, 0, true, &["copy", session])
        }
        _ => uuid(&["copy", runtime, session]),
    }
}

/// The ID of a part of OpenCode's in a copy: another one at the same place of the order. One of another form stays.
pub(crate) fn opencode_copy(id: &str, session: &str) -> String {
    match id.get(..16) {
        Some(head) if id.len() == 30 && head.is_ascii() => {
            let made = opencode("", Timestamp::EPOCH, 0, false, &["copy", session, id]);
            let letters = made.get(made.len() - 14..).unwrap_or_default();
            format!("{head}{letters}")
        }
        _ => id.to_owned(),
    }
}

/// Whether a text has the form of a UUID.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A session's ID as a part of a file's name: what a foreign ID holds besides letters, digits and a few marks becomes a hyphen.
pub(crate) fn file_name(session: &str) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
            c
        } else {
            '-'
        }
    };
    let name: String = session.chars().take(128).map(legal).collect();
    if name.is_empty() { "session".to_owned() } else { name }
}

/// An ID of OpenCode: a prefix, 12 hex digits that ascend with time and number, 14 letters and digits.
pub(crate) fn opencode(prefix: &str, time: Timestamp, number: u64, descending: bool, pieces: &[&str]) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let millis = u64::try_from(time.millis()).unwrap_or(0);
    let ascending = millis.wrapping_mul(0x1000).wrapping_add(number) & 0xFFFF_FFFF_FFFF;
    let stamp = if descending { !ascending & 0xFFFF_FFFF_FFFF } else { ascending };
    let hex = digest(pieces);
    let letters: String = hex
        .as_bytes()
        .chunks(2)
        .take(14)
        .map(|pair| {
            let value = std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .unwrap_or(0);
            ALPHABET.get(usize::from(value) % ALPHABET.len()).copied().map_or('0', char::from)
        })
        .collect();
    format!("{prefix}_{stamp:012x}{letters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_have_their_form_and_depend_on_every_piece() {
        let id = uuid(&["a", "b"]);
        assert!(is_uuid(&id), "{id}");
        assert_eq!(id, uuid(&["a", "b"]));
        assert_ne!(uuid(&["ab", ""]), uuid(&["a", "b"]));
        assert_ne!(of_record("codex", "s", "1"), of_record("codex", "s", "2"));
        assert_ne!(of_record("codex", "s", "1"), of_record("codex", "t", "1"));
        assert!(!is_uuid("019-46") && !is_uuid(&"0".repeat(36)));
    }

    #[test]
    fn ids_of_opencode_ascend_with_time_and_number() {
        let time = Timestamp::from_millis(1_796_054_879_670);
        let ids: Vec<String> = (0..3).map(|n| opencode("msg", time, n, false, &["s", &n.to_string()])).collect();
        assert!(ids.is_sorted() && ids.iter().all(|id| id.len() == 30), "{ids:?}");
        // The digits of time are those of the runtime itself: its 48 bits wrap as they do there.
        assert!(ids.first().is_some_and(|id| id.starts_with("msg_22d368db6000")), "{ids:?}");
        let later = opencode("ses", time.plus_millis(5), 0, true, &["s"]);
        assert!(later < opencode("ses", time, 0, true, &["s"]));
    }
}
