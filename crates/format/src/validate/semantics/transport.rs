//! Safe transport metadata, and where a request comes from.

use super::shared;
use crate::provenance::UnifiedSourceProvenance;
use crate::transport::UnifiedTransportMetadata;
use crate::validate::{Check, Rule};

/// Largest text of a member.
const MAX_TEXT: usize = 1_024;

/// Where a request comes from, which is the place of `check`.
pub(super) fn source(check: &mut Check, source: &UnifiedSourceProvenance) {
    if let Some(family) = &source.client_family {
        client_family(check, family);
    }
    if let Some(transport) = &source.transport {
        check.inside("transport", |check| self::transport(check, transport));
    }
    if let Some(import) = &source.import {
        check.inside("import", |check| {
            check.secret_free("runtime", &import.runtime);
            check.secret_free_option("runtimeVersion", import.runtime_version.as_ref());
        });
    }
}

/// An allowlisted word, never a raw user agent.
fn client_family(check: &mut Check, family: &str) {
    let word = (1..=64).contains(&family.len()) && family.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    check.require(
        word,
        "clientFamily",
        Rule::TransportForm,
        "one word of letters, digits, -, _ and . ; a raw user agent is none",
    );
    check.secret_free("clientFamily", family);
}

fn transport(check: &mut Check, transport: &UnifiedTransportMetadata) {
    let method = !transport.method.is_empty() && transport.method.bytes().all(|b| b.is_ascii_uppercase()) && transport.method.len() <= 16;
    check.require(method, "method", Rule::TransportForm, "an HTTP method in capitals");
    let path = &transport.path_template;
    let plain = path.starts_with('/') && !path.contains(['?', '#', '@', '\\']) && !path.chars().any(|c| c.is_control() || c == ' ');
    check.require(
        plain,
        "pathTemplate",
        Rule::TransportForm,
        "a path with placeholders; no query and no host",
    );
    let texts = [
        ("action", Some(&transport.action)),
        ("pathTemplate", Some(path)),
        ("requestId", transport.request_id.as_ref()),
        ("traceId", transport.trace_id.as_ref()),
        ("idempotencyKey", transport.idempotency_key.as_ref()),
        ("contentType", transport.content_type.as_ref()),
        ("contentEncoding", transport.content_encoding.as_ref()),
    ];
    for (member, text) in texts.into_iter().filter_map(|(member, text)| text.map(|t| (member, t))) {
        check.require(
            text.len() <= MAX_TEXT,
            member,
            Rule::Bound,
            format_args!("at most {MAX_TEXT} bytes"),
        );
        check.require(
            !text.chars().any(char::is_control),
            member,
            Rule::TransportForm,
            "no control characters",
        );
        check.secret_free(member, text);
    }
    if let Some(text) = &transport.content_type {
        shared::media_type(check, "contentType", text);
    }
    check.each("betas", transport.betas.iter().flatten(), |check, beta| {
        let word = (1..=128).contains(&beta.len())
            && beta
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'='));
        if !word {
            check.broken(Rule::TransportForm, "an allowlisted name of letters, digits, -, _, . and =");
        }
        if let Some(kind) = crate::secrets::find(beta) {
            check.broken(Rule::Secret, format_args!("it looks like {kind}"));
        }
    });
    if let Some(family) = &transport.client_family {
        client_family(check, family);
    }
}
