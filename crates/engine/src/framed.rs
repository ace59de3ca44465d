//! Words in one run of bytes.

/// Each word behind its length, so that no two lists of words give the same bytes.
pub(crate) fn framed(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.iter().map(|word| word.len() + 8).sum());
    for word in words {
        bytes.extend((word.len() as u64).to_be_bytes());
        bytes.extend_from_slice(word);
    }
    bytes
}
