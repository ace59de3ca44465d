//! The words of a text: longest runs of letters, digits, `_` and `-`.

/// A word and where it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) end: usize,
}

/// Goes through the words of a text from the left.
///
/// An escape such as `\n` in text that was not decoded is no part of the word after it.
pub(super) struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) const fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

/// Whether a byte belongs to words.
pub(super) const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if byte == b'\\' {
                self.at += 2;
            } else if is_word_byte(byte) {
                break;
            } else {
                self.at += 1;
            }
        }
        let start = self.at;
        let length = bytes.get(start..)?.iter().take_while(|b| is_word_byte(**b)).count();
        if length == 0 {
            return None;
        }
        self.at = start + length;
        Some(Word {
            text: self.text.get(start..self.at)?,
            end: self.at,
        })
    }
}
