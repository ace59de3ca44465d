//! Finding credentials in text, so that they enter no record.
//!
//! What is scanned: texts that come from transport, labels, errors, provenance, loss reports, event reasons and portable
//! annotations. What is not: what people and models say to each other (message text, reasoning, tool arguments and
//! results, file contents, schemas). Somebody who asks about a key that stands in his own file has said something, and a
//! refusal would lose history; such text is content, kept as content is. Credentials of the transport itself never reach
//! a record, because no type has a member for them.
//!
//! A finding is a shape that a real credential has, with a value that looks random. Placeholders (`$KEY`, `<token>`,
//! `sk-your-key`, `xxxx`) and names without a value are none. The work is linear in the text.

mod shapes;
mod words;

use std::borrow::Cow;
use words::{Word, Words};

/// What a text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SecretKind {
    /// `-----BEGIN PRIVATE KEY-----` with its data.
    PrivateKey,
    /// A signed JSON Web Token.
    Jwt,
    /// `Bearer` and a token.
    Bearer,
    /// `Basic` and user name with password.
    Basic,
    /// A key in the shape of a vendor.
    ApiKey,
    /// The name of a header or parameter that carries credentials, with a value.
    Header,
    /// A cookie with a value.
    Cookie,
    /// An address with user name and password.
    UrlPassword,
}

impl std::fmt::Display for SecretKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PrivateKey => "a private key",
            Self::Jwt => "a signed token",
            Self::Bearer => "a bearer token",
            Self::Basic => "a user name with a password",
            Self::ApiKey => "an API key",
            Self::Header => "a credential header with its value",
            Self::Cookie => "a cookie with its value",
            Self::UrlPassword => "an address with a password",
        })
    }
}

/// The first credential that the text holds.
pub fn find(text: &str) -> Option<SecretKind> {
    Words::of(text).find_map(|word| at(text, word))
}

/// What stands in the place of a credential.
const REDACTED: &str = "[credential]";

/// The text with every credential taken out, the words that belong to it included: for what others say about a request, such as
/// the message of an error. Nothing that [`find`] knows is left in it.
pub fn redact(text: &str) -> Cow<'_, str> {
    if find(text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((word, kind)) = Words::of(rest).find_map(|word| Some((word, at(rest, word)?))) {
        let begin = word.end - word.text.len();
        clean.push_str(rest.get(..begin).unwrap_or_default());
        clean.push_str(REDACTED);
        rest = rest.get(end_of(rest, word.end, kind)..).unwrap_or_default();
    }
    clean.push_str(rest);
    // What was apart may have come together: then no part of the text can be trusted.
    if find(&clean).is_some() {
        return Cow::Borrowed(REDACTED);
    }
    Cow::Owned(clean)
}

/// Where a credential ends whose first word ends at `from`.
fn end_of(text: &str, from: usize, kind: SecretKind) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let line = rest.find('\n').unwrap_or(rest.len());
    let run = |rest: &str| {
        let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | ')' | ']' | '}' | '>');
        rest.find(is_end).unwrap_or(rest.len())
    };
    from + match kind {
        SecretKind::ApiKey | SecretKind::Jwt | SecretKind::UrlPassword => run(rest),
        SecretKind::Bearer | SecretKind::Basic => {
            let value = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            rest.len() - value.len() + run(value)
        }
        // A header may hold a scheme and a token, or a list of values: its line is all of it.
        SecretKind::Header | SecretKind::Cookie => line,
        SecretKind::PrivateKey => rest.len(),
    }
}

/// Whether a header, cookie or parameter of this name carries credentials, so that its value never stands in a record.
pub fn is_credential_name(name: &str) -> bool {
    shapes::name_kind(name).is_some()
}

/// What begins at a word.
fn at(text: &str, word: Word<'_>) -> Option<SecretKind> {
    let rest = text.get(word.end..).unwrap_or_default();
    if shapes::is_vendor_key(word.text, rest) {
        return Some(SecretKind::ApiKey);
    }
    let first = word.text.as_bytes().first().map(u8::to_ascii_lowercase)?;
    match first {
        b'-' if word.text.starts_with("-----BEGIN") && shapes::is_private_key(rest) => Some(SecretKind::PrivateKey),
        b'e' if word.text.starts_with("eyJ") && shapes::is_jwt(word.text, rest) => Some(SecretKind::Jwt),
        b'b' if word.text.eq_ignore_ascii_case("bearer") && shapes::is_bearer(rest) => Some(SecretKind::Bearer),
        b'b' if word.text.eq_ignore_ascii_case("basic") && shapes::is_basic(rest) => Some(SecretKind::Basic),
        _ if shapes::has_url_password(rest) => Some(SecretKind::UrlPassword),
        _ => shapes::name_kind(word.text).filter(|kind| shapes::has_value(rest, *kind)),
    }
}
