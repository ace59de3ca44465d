//! References to media within text: `![name](embed://ID)`.
//!
//! Text that looks like a reference by itself is escaped with a backslash behind the `!`; text that looks escaped gets one more. So
//! every text has a form of its own, and comes back as it was.

/// A piece of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text, opened.
    Text(String),
    /// A reference: the name and the ID.
    Reference {
        /// What stands in the brackets.
        name: String,
        /// What the address names.
        id: String,
    },
}

const SCHEME: &str = "](embed://";

/// Where something that looks like a reference stands: number of backslashes, and the ends of the name and of the ID, from the `!` on.
struct Look {
    slashes: usize,
    name: std::ops::Range<usize>,
    id: std::ops::Range<usize>,
}

/// What stands at a `!`.
fn look(text: &str) -> Option<Look> {
    let rest = text.strip_prefix('!')?;
    let slashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    let open = 1 + slashes;
    let inner = text.get(open..)?.strip_prefix('[')?;
    let length = inner.find(']')?;
    // Of two beginnings it is the second one's end.
    if inner.get(..length)?.contains("![") {
        return None;
    }
    let name_end = open + 1 + length;
    let after = text.get(name_end..)?.strip_prefix(SCHEME)?;
    let length = after.find(|c: char| c == ')' || c.is_whitespace())?;
    let id = name_end + SCHEME.len();
    if length == 0 || !after.get(length..)?.starts_with(')') {
        return None;
    }
    Some(Look {
        slashes,
        name: open + 1..name_end,
        id: id..id + length,
    })
}

/// Text of a content that holds no references.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('!') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        out.push('!');
        if look(from).is_some() {
            out.push('\\');
        }
        rest = from.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// A reference. What would end the brackets or the address is left out of the name.
pub fn reference(name: &str, id: &str) -> String {
    let name: String = name.chars().filter(|c| !matches!(c, '[' | ']')).collect();
    format!("![{name}{SCHEME}{id})")
}

/// The pieces of a content in order.
pub fn split(content: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = content;
    while let Some(at) = rest.find('!') {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let Some(found) = look(from) else {
            text.push('!');
            rest = from.get(1..).unwrap_or_default();
            continue;
        };
        if found.slashes > 0 {
            // One backslash is the escape's own.
            text.push('!');
            rest = from.get(2..).unwrap_or_default();
            continue;
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Reference {
            name: from.get(found.name).unwrap_or_default().to_owned(),
            id: from.get(found.id.clone()).unwrap_or_default().to_owned(),
        });
        rest = from.get(found.id.end + 1..).unwrap_or_default();
    }
    text.push_str(rest);
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}
