//! What several areas share: errors, loss reports, references, owners, addresses, media types.

use crate::annotation::is_schema_name;
use crate::cache::UnifiedCacheDirective;
use crate::error::{MAX_MESSAGE_CHARS, UnifiedError};
use crate::json::is_pointer;
use crate::loss::{LossDisposition, LossSeverity, UnifiedLossEntry, UnifiedLossReport};
use crate::provenance::UnifiedAttribution;
use crate::resource::{UnifiedProviderDataRef, UnifiedResourceOwner};
use crate::validate::{Check, Rule};
use crate::{UnifiedId, UnifiedPortabilityDecision};
use std::collections::HashSet;

/// IDs of one kind, each once.
pub(super) struct Ids<'a> {
    what: &'static str,
    seen: HashSet<&'a UnifiedId>,
}

impl<'a> Ids<'a> {
    pub(super) fn of(what: &'static str) -> Self {
        Self {
            what,
            seen: HashSet::new(),
        }
    }

    /// Notes an ID that stands in `member`.
    pub(super) fn add(&mut self, check: &mut Check, member: &str, id: &'a UnifiedId) {
        let what = self.what;
        if id.is_pending() {
            check.broken_at(member, Rule::PendingId, format_args!("a {what} has an ID of its own"));
        } else if !self.seen.insert(id) {
            check.broken_at(member, Rule::DuplicateId, format_args!("another {what} has this ID"));
        }
    }

    pub(super) fn has(&self, id: &UnifiedId) -> bool {
        self.seen.contains(id)
    }
}

/// A foreign ID of a call or approval: 1 to 512 bytes without control characters.
pub(super) fn foreign_id(check: &mut Check, member: &str, id: &str) {
    let kept = (1..=512).contains(&id.len()) && !id.chars().any(char::is_control);
    check.require(kept, member, Rule::CallId, "1 to 512 bytes, no control characters");
}

/// An error record that stands in `member`.
pub(super) fn error(check: &mut Check, member: &str, error: &UnifiedError) {
    check.inside(member, |check| {
        let detail = error
            .code
            .strip_prefix(error.category.as_str())
            .and_then(|rest| rest.strip_prefix('.'));
        let word =
            |d: &str| !d.is_empty() && d.len() <= 64 && d.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        check.require(
            detail.is_some_and(word),
            "code",
            Rule::ErrorCode,
            "expected the category, a dot and a word",
        );
        let short = error.message.chars().count() <= MAX_MESSAGE_CHARS && !error.message.chars().any(char::is_control);
        check.require(
            short,
            "message",
            Rule::ErrorText,
            "at most 1,024 characters, none of them a control character",
        );
        if let Some(status) = error.http_status {
            check.require(
                (100..=599).contains(&status),
                "httpStatus",
                Rule::Number,
                "an HTTP status lies between 100 and 599",
            );
        }
        if let Some(path) = &error.field_path {
            check.require(is_pointer(path), "fieldPath", Rule::Pointer, "expected a JSON Pointer");
        }
        check.secret_free("message", &error.message);
        check.secret_free_option("grpcStatus", error.grpc_status.as_ref());
        check.secret_free_option("providerCode", error.provider_code.as_ref());
        check.secret_free_option("providerRequestId", error.provider_request_id.as_ref());
        check.secret_free_option("fieldPath", error.field_path.as_ref());
    });
}

/// An error that may be absent.
pub(super) fn error_option(check: &mut Check, found: Option<&UnifiedError>) {
    if let Some(found) = found {
        error(check, "error", found);
    }
}

/// Entries of a loss report that stand in `member`.
pub(super) fn loss_entries(check: &mut Check, member: &str, entries: &[UnifiedLossEntry]) {
    check.each(member, entries, |check, entry| {
        check.require(is_pointer(&entry.path), "path", Rule::Pointer, "expected a JSON Pointer");
        check.require(!entry.feature.is_empty(), "feature", Rule::Bound, "a loss names its feature");
        check.secret_free("path", &entry.path);
        check.secret_free("reason", &entry.reason);
    });
}

/// A loss report that stands in `loss`.
pub(super) fn loss(check: &mut Check, report: Option<&UnifiedLossReport>) {
    let Some(report) = report else { return };
    check.inside("loss", |check| {
        let worst = report.entries.iter().map(|e| e.severity).max();
        let disposition = match worst {
            None => LossDisposition::Lossless,
            Some(LossSeverity::Info | LossSeverity::Warning) => LossDisposition::Degraded,
            Some(LossSeverity::Error) => LossDisposition::Unsupported,
        };
        check.require(
            report.disposition == disposition,
            "disposition",
            Rule::LossDisposition,
            format_args!("the entries make it {disposition}"),
        );
        loss_entries(check, "entries", &report.entries);
    });
}

/// A portability decision that stands in `portability`.
pub(super) fn portability(check: &mut Check, decision: Option<&UnifiedPortabilityDecision>) {
    let Some(decision) = decision else { return };
    check.inside("portability", |check| {
        let portable = decision.decision == crate::conversation::PortabilityVerdict::Portable;
        check.require(
            portable || !decision.reasons.is_empty(),
            "reasons",
            Rule::Portability,
            "say why it is not simply portable",
        );
        check.each("reasons", &decision.reasons, |check, reason| {
            check.secret_free("message", &reason.message);
        });
    });
}

/// References to annotations and private payloads.
pub(super) fn data_refs(check: &mut Check, references: Option<&Vec<UnifiedProviderDataRef>>) {
    check.each("providerData", references.into_iter().flatten(), data_ref);
}

/// One reference.
pub(super) fn data_ref(check: &mut Check, reference: &UnifiedProviderDataRef) {
    check.require(
        is_schema_name(&reference.schema),
        "schema",
        Rule::SchemaName,
        "expected `<name>@<version>` in lower case",
    );
    if let Some((schema, family)) = crate::annotation::lookup(&reference.schema) {
        check.require(
            schema.scope == reference.scope,
            "scope",
            Rule::AnnotationScope,
            format_args!("the schema is registered as {}", schema.scope),
        );
        let own = family.is_none_or(|f| f == reference.profile.family.as_str());
        check.require(
            own,
            "schema",
            Rule::AnnotationScope,
            "the schema belongs to another family than the profile",
        );
    }
}

/// A cache mark.
pub(super) fn cache_mark(check: &mut Check, mark: Option<&UnifiedCacheDirective>) {
    if let Some(mark) = mark {
        check.inside("cache", |check| {
            check.require(mark.breakpoint, "breakpoint", Rule::AlwaysTrue, "leave the mark out instead");
        });
    }
}

/// Names of runtime, vendor and model.
pub(super) fn attribution(check: &mut Check, member: &str, found: &UnifiedAttribution) {
    check.inside(member, |check| {
        check.secret_free_option("provider", found.provider.as_ref());
        check.secret_free_option("modelProvider", found.model_provider.as_ref());
        check.secret_free_option("model", found.model.as_ref());
    });
}

/// An owner that stands in `owner`.
pub(super) fn owner(check: &mut Check, owner: &UnifiedResourceOwner) {
    check.inside("owner", |check| {
        let hex = |text: &str| text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let credential = owner.credential_fingerprint.strip_prefix('v').and_then(|rest| rest.split_once(':'));
        let kept =
            credential.is_some_and(|(version, digits)| !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) && hex(digits));
        check.require(
            kept,
            "credentialFingerprint",
            Rule::Owner,
            "expected `v<key version>:` and 32 hex digits",
        );
        check.require(
            hex(&owner.endpoint_fingerprint),
            "endpointFingerprint",
            Rule::Owner,
            "expected 32 hex digits",
        );
        check.require(!owner.provider.is_empty(), "provider", Rule::Owner, "an owner names its service");
        for (member, text) in [
            ("provider", Some(&owner.provider)),
            ("project", owner.project.as_ref()),
            ("region", owner.region.as_ref()),
            ("tenant", owner.tenant.as_ref()),
            ("model", owner.model.as_ref()),
            ("modelFamily", owner.model_family.as_ref()),
        ] {
            check.secret_free_option(member, text);
        }
    });
}

/// An address; user name and password in it are credentials, a query is not looked into: signed links are content.
pub(super) fn url(check: &mut Check, member: &str, address: &str) {
    let plain = !address.is_empty() && !address.chars().any(|c| c.is_control() || c == ' ');
    check.require(plain, member, Rule::Url, "an address has no spaces or control characters");
    check.require(
        user_info(address).is_none(),
        member,
        Rule::Url,
        "user name and password belong in the execution context",
    );
}

/// What stands before the host of an address.
pub(super) fn user_info(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// A media type: `type/subtype`, then parameters.
pub(super) fn media_type(check: &mut Check, member: &str, text: &str) {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let token = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+*".contains(&b));
    let kept = text.len() <= 255
        && essence.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub))
        && !text.chars().any(char::is_control);
    check.require(kept, member, Rule::MediaType, "expected `type/subtype`");
}

/// A number in its range; a number that is not finite is told elsewhere.
pub(super) fn in_range(check: &mut Check, member: &str, value: Option<f64>, least: f64, most: f64) {
    if let Some(value) = value.filter(|v| v.is_finite()) {
        check.require(
            (least..=most).contains(&value),
            member,
            Rule::Number,
            format_args!("it lies between {least} and {most}"),
        );
    }
}

/// A number that is not negative.
pub(super) fn not_negative(check: &mut Check, member: &str, value: Option<f64>) {
    if let Some(value) = value {
        check.require(value.is_nan() || value >= 0.0, member, Rule::Number, "it is not negative");
    }
}

/// Start and end of a range, where both are known.
pub(super) fn ordered<T: PartialOrd>(check: &mut Check, member: &str, start: Option<T>, end: Option<T>) {
    if let (Some(start), Some(end)) = (start, end) {
        check.require(start <= end, member, Rule::Range, "the end comes before the start");
    }
}

/// Who a conversation or an operation belongs to: somebody, told without a credential.
pub(super) fn principal(check: &mut Check, principal_ref: &str) {
    check.require(!principal_ref.is_empty(), "principalRef", Rule::Bound, "it belongs to somebody");
    check.secret_free("principalRef", principal_ref);
}
