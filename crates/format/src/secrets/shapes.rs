//! The shapes of credentials. Each check looks at a bounded piece after its word, so that the whole scan stays linear.

use super::SecretKind;
use super::words::is_word_byte;
use crate::media::decode_base64;

/// How far behind a word anything is looked at.
const REACH: usize = 512;

/// A prefix that a vendor gives its keys, with the least length of what follows.
struct Prefix {
    text: &'static str,
    least: usize,
}

const fn prefix(text: &'static str, least: usize) -> Prefix {
    Prefix { text, least }
}

/// Prefixes of keys and tokens; what follows them must look random too.
const PREFIXES: &[Prefix] = &[
    // OpenAI, Anthropic, OpenRouter, DeepSeek and the many that write `sk-`.
    prefix("sk-", 24),
    prefix("csk-", 24),
    // Google: API keys, client secrets. OAuth tokens (`ya29.`) are told apart below.
    prefix("AIza", 35),
    prefix("GOCSPX-", 24),
    // Others that serve models.
    prefix("gsk_", 32),
    prefix("xai-", 40),
    prefix("pplx-", 32),
    prefix("nvapi-", 40),
    prefix("hf_", 30),
    prefix("r8_", 30),
    prefix("fw_", 22),
    prefix("crsr_", 32),
    prefix("vck_", 32),
    prefix("dapi", 32),
    prefix("tgp_v1_", 32),
    // Code hosts and package registries.
    prefix("ghp_", 30),
    prefix("gho_", 30),
    prefix("ghu_", 30),
    prefix("ghs_", 30),
    prefix("ghr_", 30),
    prefix("github_pat_", 40),
    prefix("glpat-", 20),
    prefix("npm_", 30),
    prefix("pypi-", 40),
    // The rest of what stands in tool arguments and environments.
    prefix("xoxb-", 24),
    prefix("xoxp-", 24),
    prefix("xoxa-", 24),
    prefix("xoxr-", 24),
    prefix("xapp-", 24),
    prefix("sk_live_", 16),
    prefix("rk_live_", 16),
    prefix("dop_v1_", 40),
];

/// Longest key of a vendor; a longer word is data.
const LONGEST_KEY: usize = 300;

/// Whether a word is a key in the shape of a vendor; `rest` is what follows it.
pub(super) fn is_vendor_key(word: &str, rest: &str) -> bool {
    if word == "ya29" {
        return rest
            .strip_prefix('.')
            .map(leading_word)
            .is_some_and(|token| token.len() >= 30 && is_random(token));
    }
    if word == "SG" {
        let mut pieces = head(rest).split('.').skip(1).map(leading_word);
        return matches!((pieces.next(), pieces.next()), (Some(a), Some(b)) if a.len() >= 20 && b.len() >= 40 && is_random(b));
    }
    if word.len() > LONGEST_KEY || word.len() < 18 {
        return false;
    }
    if let Some(key) = word.strip_prefix("AKIA").or_else(|| word.strip_prefix("ASIA")) {
        return key.len() == 16 && key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) && !key.ends_with("EXAMPLE");
    }
    PREFIXES.iter().any(|prefix| {
        word.strip_prefix(prefix.text)
            .is_some_and(|key| key.len() >= prefix.least && is_random(key.rsplit_once("v1-").map_or(key, |(_, k)| k)))
    })
}

/// A piece of the text that is looked at.
fn head(text: &str) -> &str {
    let mut end = text.len().min(REACH);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The word that a text begins with.
fn leading_word(text: &str) -> &str {
    leading(text, is_word_byte)
}

fn leading(text: &str, belongs: impl Fn(u8) -> bool) -> &str {
    let length = text.bytes().take(REACH).take_while(|b| belongs(*b)).count();
    text.get(..length).unwrap_or_default()
}

/// Bytes of tokens as headers carry them.
fn is_token_byte(byte: u8) -> bool {
    is_word_byte(byte) || matches!(byte, b'.' | b'+' | b'/' | b'=' | b'~')
}

/// Whether a value looks drawn at random: letters and digits in a mixture, many different ones, nothing that people write as a stand-in.
fn is_random(value: &str) -> bool {
    let (mut letters, mut digits, mut turns) = (0_usize, 0_usize, 0_usize);
    let mut seen = [false; 128];
    let mut last_was_digit = None;
    for byte in value.bytes() {
        if let Some(mark) = seen.get_mut(usize::from(byte)) {
            *mark = true;
        }
        let is_digit = byte.is_ascii_digit();
        if is_digit {
            digits += 1;
        } else if byte.is_ascii_alphabetic() {
            letters += 1;
        } else {
            continue;
        }
        if last_was_digit.is_some_and(|last| last != is_digit) {
            turns += 1;
        }
        last_was_digit = Some(is_digit);
    }
    let different = seen.iter().filter(|s| **s).count();
    letters >= 3 && digits >= 2 && turns >= 3 && different >= 9 && !is_stand_in(value)
}

/// Words that people write where a secret would stand.
const STAND_INS: &[&str] = &[
    "example",
    "your",
    "xxxx",
    "placeholder",
    "redacted",
    "dummy",
    "changeme",
    "insert",
    "0123456789",
    "1234567890",
    "abcdef",
];

fn is_stand_in(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    STAND_INS.iter().any(|word| lower.contains(word))
}

/// Whether the data of a private key follows its first words.
pub(super) fn is_private_key(rest: &str) -> bool {
    let Some((title, data)) = head(rest).split_once("-----") else {
        return false;
    };
    if title.len() > 40 || !title.ends_with("PRIVATE KEY") {
        return false;
    }
    // Line ends may be written as escapes; then the letter of the escape stands before the data.
    let data = data.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
    let data = data.strip_prefix('r').map_or(data, |d| d.trim_start_matches('\\'));
    let data = data.strip_prefix('n').unwrap_or(data);
    leading(data, |b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')).len() >= 32
}

/// Whether a word and what follows it are a signed token: header, claims and signature in base64, joined by dots.
pub(super) fn is_jwt(header: &str, rest: &str) -> bool {
    // Claims may be long; only where they end matters, and no other word begins inside them.
    let Some(claims) = rest.strip_prefix('.') else { return false };
    let length = claims.bytes().take_while(|b| is_word_byte(*b)).count();
    let signature = claims.get(length..).and_then(|r| r.strip_prefix('.')).map(leading_word);
    if length < 10 || signature.is_none_or(|s| s.len() < 32 || is_stand_in(s)) || header.len() > REACH {
        return false;
    }
    decode_base64(header).is_some_and(|bytes| serde_json::from_slice::<JwtHeader>(&bytes).is_ok_and(|h| !h.alg.is_empty()))
}

#[derive(serde::Deserialize)]
struct JwtHeader {
    alg: String,
}

/// Whether a token follows the word `Bearer`.
pub(super) fn is_bearer(rest: &str) -> bool {
    let value = rest.trim_start_matches([' ', '\t']);
    if value.len() == rest.len() {
        return false;
    }
    let token = leading(value, is_token_byte);
    token.len() >= 20 && is_random(token)
}

/// Whether a user name with a password follows the word `Basic`, in base64.
pub(super) fn is_basic(rest: &str) -> bool {
    let value = rest.trim_start_matches([' ', '\t']);
    if value.len() == rest.len() {
        return false;
    }
    let token = leading(value, is_token_byte);
    if token.len() < 8 || !token.len().is_multiple_of(4) {
        return false;
    }
    let opened = decode_base64(token).and_then(|bytes| String::from_utf8(bytes).ok());
    opened.is_some_and(|text| {
        text.chars().all(|c| !c.is_control())
            && text
                .split_once(':')
                .is_some_and(|(user, password)| !user.is_empty() && password.len() >= 3 && !is_stand_in(&text))
    })
}

/// Whether an address with user name and password follows its scheme.
pub(super) fn has_url_password(rest: &str) -> bool {
    let Some(authority) = rest.strip_prefix("://") else { return false };
    let authority = leading(authority, |b| {
        b.is_ascii_graphic() && !matches!(b, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\')
    });
    let Some((user_info, host)) = authority.rsplit_once('@') else {
        return false;
    };
    !host.is_empty()
        && user_info
            .split_once(':')
            .is_some_and(|(_, password)| password.len() >= 12 && is_random(password))
}

/// Names of headers and parameters whose values are credentials. Compared without case, `_` as `-`.
const NAMES: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "apikey",
    "x-goog-api-key",
    "x-goog-iam-authorization-token",
    "x-amz-security-token",
    "x-auth-token",
    "x-access-token",
    "ocp-apim-subscription-key",
    "openai-api-key",
    "anthropic-api-key",
    "gemini-api-key",
    "google-api-key",
    "aws-secret-access-key",
    "aws-session-token",
    "secret-access-key",
    "access-token",
    "refresh-token",
    "id-token",
    "client-secret",
];
/// Headers that carry cookies.
const COOKIES: &[&str] = &["cookie", "set-cookie"];

/// What the value of a header or parameter of this name is, when it is a credential.
pub(super) fn name_kind(name: &str) -> Option<SecretKind> {
    if !(6..=32).contains(&name.len()) {
        return None;
    }
    let same = |known: &str| {
        known.len() == name.len()
            && known
                .bytes()
                .zip(name.bytes())
                .all(|(k, n)| k == if n == b'_' { b'-' } else { n.to_ascii_lowercase() })
    };
    if NAMES.iter().any(|known| same(known)) {
        return Some(SecretKind::Header);
    }
    COOKIES.iter().any(|known| same(known)).then_some(SecretKind::Cookie)
}

/// Whether a value follows a name: a separator, perhaps quotes, then something that looks random.
pub(super) fn has_value(rest: &str, kind: SecretKind) -> bool {
    let rest = head(rest);
    let quotes = |c: char| matches!(c, '"' | '\'' | '\\' | ' ' | '\t' | '`');
    let value = rest.trim_start_matches(quotes);
    let Some(value) = value.strip_prefix(':').or_else(|| value.strip_prefix('=')) else {
        return false;
    };
    let value = value.trim_start_matches(quotes);
    if kind == SecretKind::Cookie {
        let Some((name, value)) = value.split_once('=') else { return false };
        let value = leading(value, |b| is_token_byte(b) || matches!(b, b'%' | b':'));
        return name.bytes().all(is_token_byte) && value.len() >= 16 && is_random(value);
    }
    let token = leading(value, is_token_byte);
    // `Bearer` and `Basic` are found as words of their own.
    token.len() >= 20 && is_random(token)
}
