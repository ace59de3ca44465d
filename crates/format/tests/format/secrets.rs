//! The scanner for credentials. Every key here is made up when the test runs, so that no file holds anything like one.

use std::path::{Path, PathBuf};
use throughline_format::secrets::{SecretKind as K, find, is_credential_name};

/// Text that looks drawn at random, always the same.
fn random(alphabet: &str, length: usize) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            alphabet[usize::try_from(state % alphabet.len() as u64).unwrap()]
        })
        .collect()
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A key with this beginning.
pub(crate) fn made_up(prefix: &str) -> String {
    format!("{prefix}{}", random(ALNUM, 48))
}

fn base64(text: &str) -> String {
    throughline_format::media::encode_base64(text.as_bytes())
}

fn jwt() -> String {
    let unpadded = |text: &str| base64(text).trim_end_matches('=').replace('+', "-").replace('/', "_");
    let (header, claims) = (
        unpadded(r#"{"alg":"HS256","typ":"JWT"}"#),
        unpadded(r#"{"sub":"somebody","iat":1516239022}"#),
    );
    [header, claims, random(ALNUM, 43)].join(".")
}

#[test]
fn credentials_of_every_shape_are_found() {
    let k = |prefix: &str, length: usize| format!("{prefix}{}", random(ALNUM, length));
    let hex = |prefix: &str, length: usize| format!("{prefix}{}", random(HEX, length));
    let cases = [
        (k("sk-", 48), K::ApiKey),
        (k("sk-proj-", 100), K::ApiKey),
        (k("sk-svcacct-", 100), K::ApiKey),
        (k("sk-ant-api03-", 95), K::ApiKey),
        (k("sk-ant-oat01-", 95), K::ApiKey),
        (hex("sk-or-v1-", 64), K::ApiKey),
        (hex("sk-", 32), K::ApiKey),
        (k("AIza", 35), K::ApiKey),
        (format!("ya29.{}", random(ALNUM, 80)), K::ApiKey),
        (k("GOCSPX-", 28), K::ApiKey),
        (k("gsk_", 52), K::ApiKey),
        (k("xai-", 80), K::ApiKey),
        (k("pplx-", 48), K::ApiKey),
        (k("nvapi-", 64), K::ApiKey),
        (k("hf_", 34), K::ApiKey),
        (k("r8_", 37), K::ApiKey),
        (k("csk-", 48), K::ApiKey),
        (hex("crsr_", 64), K::ApiKey),
        (format!("AKIA{}", random(UPPER, 16)), K::ApiKey),
        (format!("ASIA{}", random(UPPER, 16)), K::ApiKey),
        (k("ghp_", 36), K::ApiKey),
        (k("github_pat_", 82), K::ApiKey),
        (k("glpat-", 20), K::ApiKey),
        (k("npm_", 36), K::ApiKey),
        (k("xoxb-", 48), K::ApiKey),
        (k("sk_live_", 24), K::ApiKey),
        (format!("SG.{}.{}", random(ALNUM, 22), random(ALNUM, 43)), K::ApiKey),
        (format!("Bearer {}", random(ALNUM, 40)), K::Bearer),
        (format!("bearer\t{}", random(HEX, 64)), K::Bearer),
        (format!("Basic {}", base64("someone:s3cretwords")), K::Basic),
        (format!("x-api-key: {}", random(HEX, 32)), K::Header),
        (format!("\"X-Goog-Api-Key\": \"{}\"", random(ALNUM, 40)), K::Header),
        (format!("api-key = '{}'", random(HEX, 32)), K::Header),
        (format!("Authorization: {}", random(ALNUM, 40)), K::Header),
        (format!("?access_token={}&x=1", random(ALNUM, 40)), K::Header),
        (format!("AWS_SECRET_ACCESS_KEY={}", random(ALNUM, 40)), K::Header),
        (format!("{{\\\"refresh_token\\\":\\\"{}\\\"}}", random(ALNUM, 40)), K::Header),
        (format!("Cookie: session={}", random(HEX, 32)), K::Cookie),
        (format!("set-cookie: __cf_bm={}; path=/", random(ALNUM, 60)), K::Cookie),
        (jwt(), K::Jwt),
        (format!("-----BEGIN {} KEY-----\n{}", "PRIVATE", random(ALNUM, 64)), K::PrivateKey),
        (
            format!("-----BEGIN RSA {} KEY-----\\n{}", "PRIVATE", random(ALNUM, 64)),
            K::PrivateKey,
        ),
        (
            format!("-----BEGIN OPENSSH {} KEY-----\r\n{}", "PRIVATE", random(ALNUM, 64)),
            K::PrivateKey,
        ),
        (format!("https://user:{}@example.org/", random(ALNUM, 20)), K::UrlPassword),
        (format!("postgres://u:{}@db.example.org:5432/x", random(HEX, 20)), K::UrlPassword),
    ];
    for (secret, kind) in cases {
        for text in [
            secret.clone(),
            format!("error: \"{secret}\""),
            format!("see\\n{secret}"),
            format!("ä({secret})ö"),
            format!("{} {secret}", "word ".repeat(400)),
        ] {
            assert_eq!(find(&text), Some(kind), "{text:.120}");
        }
    }
}

#[test]
fn talk_about_credentials_is_none() {
    let texts = [
        "",
        "Authorization: Bearer $OPENAI_API_KEY",
        "Authorization: Bearer <token>",
        "Bearer YOUR_API_KEY_GOES_HERE_123456789",
        "Authorization: Bearer ",
        "bearer of bad news 12345",
        "Basic authentication",
        "Basic dXNlcg==",
        "x-api-key: your-key-here-0123456789abcdef",
        "x-api-key: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "api_key = os.environ[\"ANTHROPIC_API_KEY\"]",
        "sk-your-key",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-learn-is-a-python-library-for-machine-learning-and-more",
        "AKIAIOSFODNN7EXAMPLE",
        "set the Cookie header",
        "Cookie: consent=yes",
        "-----BEGIN CERTIFICATE-----\nMIIB",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ is how a token begins",
        "https://user@example.org/",
        "https://user:password@example.org/",
        "scp me@host:/a/b",
        "call_abcdefghij1234567890ABCD",
        "toolu_01GHndag5wQmbzNihYmV2UBj",
        "resp_68a1b2c3d4e5f60718293a4b5c6d7e8f",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "cache-key-task-sk-",
        "prompt_cache_key: 019a2b3c-4d5e-7f80-9a0b-c1d2e3f40516",
    ];
    for text in texts {
        assert_eq!(find(text), None, "{text}");
    }
    // Random data is no key: neither base64 of an image nor sealed reasoning.
    assert_eq!(
        find(&random("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 200_000)),
        None
    );
    assert_eq!(find(&format!("gAAAAABo{}", random(&format!("{ALNUM}-_"), 20_000))), None);
}

#[test]
fn names_of_headers_are_known_in_every_spelling() {
    for name in [
        "Authorization",
        "proxy-authorization",
        "X-API-Key",
        "x_api_key",
        "Cookie",
        "Set-Cookie",
        "api_key",
        "X-Goog-Api-Key",
        "ACCESS_TOKEN",
    ] {
        assert!(is_credential_name(name), "{name}");
    }
    for name in [
        "",
        "key",
        "team",
        "author",
        "cookies-accepted",
        "token-count",
        "x-request-id",
        "idempotency-key",
    ] {
        assert!(!is_credential_name(name), "{name}");
    }
}

#[test]
fn hostile_text_costs_linear_time() {
    let pieces = [
        "Bearer ",
        "eyJ.",
        "eyJhbGciOiJIUzI1NiJ9.",
        "cookie:",
        "-----BEGIN ",
        "https://a:b@",
        "sk-",
        "x-api-key=\"",
        "\\",
        "ya29.",
        "basic ",
    ];
    for piece in pieces {
        let text = piece.repeat(2_000_000 / piece.len());
        let start = std::time::Instant::now();
        find(&text);
        assert!(start.elapsed().as_secs() < 20, "{piece}");
    }
    assert_eq!(find("\\"), None);
    assert_eq!(find("Bearer é\\"), None);
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, out);
        } else {
            out.push(path);
        }
    }
}

/// Captured payloads have their credentials taken out, so that whatever is found in them is found wrongly.
#[test]
fn captured_payloads_are_not_flagged() {
    let root = std::env::var_os("THROUGHLINE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from)
        .join("corpus");
    if !root.is_dir() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "the corpus is missing");
        eprintln!("skipped: no corpus");
        return;
    }
    let mut all = Vec::new();
    files(&root, &mut all);
    let flagged: Vec<_> = all
        .iter()
        .filter(|path| find(&String::from_utf8_lossy(&std::fs::read(path).unwrap())).is_some())
        .collect();
    assert!(
        flagged.len() * 1_000 <= all.len(),
        "{} of {} files are flagged: {flagged:?}",
        flagged.len(),
        all.len()
    );
}
