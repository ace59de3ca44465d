//! The registry of annotation schemas (open-types.md, section 6): what may stand beside a record without a member of its own.
//!
//! Every schema is closed and bounded, portable ones are scanned for credentials too. A schema that this version does not
//! know is data of a later one: it is kept and written again, and never looked into, let alone executed ([`Finding::Unknown`]).
//! Nobody can depend on an annotation: what a request depends on is an intent or a tool with its strength, whose unknown words a
//! projection reports as losses (spec, Versioning).

mod shape;

pub use shape::{Member, Shape};

use crate::json::Json;
use crate::resource::{ProviderDataScope, UnifiedPortableAnnotation};
use crate::validate::{Check, Rule, Violation};
use shape::{member, optional};

/// A registered schema.
#[derive(Debug)]
pub struct Schema {
    /// `name@version`; for schemas of every family the part after `<family>/`.
    pub name: &'static str,
    /// Whether the name begins with the family that it belongs to.
    pub per_family: bool,
    /// Who may see it.
    pub scope: ProviderDataScope,
    /// Largest payload, in bytes of JSON text.
    pub max_bytes: usize,
    /// What it is for.
    pub about: &'static str,
    /// Its shape.
    pub shape: Shape,
}

/// Largest payload of a schema that is not known.
pub const MAX_UNKNOWN_BYTES: usize = 64 * 1024;
/// Entries of `<family>/unmapped@1`.
pub const MAX_UNMAPPED_ENTRIES: usize = 64;
/// Bytes of JSON text of one value of `<family>/unmapped@1`.
pub const MAX_UNMAPPED_BYTES: usize = 16 * 1024;

/// Bytes of JSON text of records of a coding agent.
pub const MAX_NATIVE_BYTES: usize = 7 * 1024 * 1024;

const PORTABLE: ProviderDataScope = ProviderDataScope::PortableAnnotation;

/// Every registered schema.
pub const SCHEMAS: &[Schema] = &[
    Schema {
        name: "status/original-reason@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 1_024,
        about: "The provider's word for why a response ended.",
        shape: Shape::Object(&[member("reason", Shape::Text { max: 128 })]),
    },
    Schema {
        name: "finish/matched-stop@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 4 * 1_024,
        about: "The stop text or stop token that matched.",
        shape: Shape::Object(&[optional("text", Shape::Text { max: 1_024 }), optional("token", Shape::Whole)]),
    },
    Schema {
        name: "message/phase@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 1_024,
        about: "Which phase of an answer a message belongs to, such as commentary or final answer.",
        shape: Shape::Object(&[member("phase", Shape::Text { max: 64 })]),
    },
    Schema {
        name: "request/instructions-form@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 1_024,
        about: "Whether top-level instructions were written as one string or as blocks.",
        shape: Shape::Object(&[member("form", Shape::Word(&["string", "blocks"]))]),
    },
    Schema {
        name: "safety/ratings@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 32 * 1_024,
        about: "Safety ratings as the provider reports them.",
        shape: Shape::Object(&[member(
            "ratings",
            Shape::List {
                max: 64,
                of: &Shape::Object(&[
                    member("category", Shape::Text { max: 128 }),
                    optional("probability", Shape::Text { max: 64 }),
                    optional("probabilityScore", Shape::Number),
                    optional("severity", Shape::Text { max: 64 }),
                    optional("severityScore", Shape::Number),
                    optional("blocked", Shape::Flag),
                    optional("overwrittenThreshold", Shape::Text { max: 64 }),
                ]),
            },
        )]),
    },
    Schema {
        name: "grounding/search-entry@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 128 * 1_024,
        about: "What a search provider wants shown beside a grounded answer; shown as data, never rendered by this gateway.",
        shape: Shape::Object(&[
            optional("renderedContent", Shape::Text { max: 64 * 1_024 }),
            optional("sdkBlob", Shape::Text { max: 48 * 1_024 }),
        ]),
    },
    Schema {
        name: "tool/family@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 1_024,
        about: "The vendor's family of a tool, where the type word alone does not tell it.",
        shape: Shape::Object(&[
            member("family", Shape::Text { max: 64 }),
            optional("variant", Shape::Text { max: 64 }),
        ]),
    },
    Schema {
        name: "subagent/progress@1",
        per_family: false,
        scope: PORTABLE,
        max_bytes: 16 * 1_024,
        about: "What a subagent was doing while its call ran.",
        shape: Shape::Object(&[
            member("agent", Shape::Text { max: 128 }),
            optional("callId", Shape::Text { max: 512 }),
            optional("state", Shape::Text { max: 64 }),
            optional("message", Shape::Text { max: 4_096 }),
            optional("step", Shape::Whole),
        ]),
    },
    Schema {
        name: "unmapped@1",
        per_family: true,
        scope: ProviderDataScope::OwnerPrivate,
        max_bytes: MAX_UNMAPPED_ENTRIES * (MAX_UNMAPPED_BYTES + 1_024),
        about: "Wire fields without a Unified word; only their owner sees them again.",
        shape: Shape::Object(&[member(
            "entries",
            Shape::List {
                max: MAX_UNMAPPED_ENTRIES,
                of: &Shape::Object(&[
                    member("pointer", Shape::Pointer { max: 512 }),
                    member("value", Shape::Opaque { max: MAX_UNMAPPED_BYTES }),
                ]),
            },
        )]),
    },
    Schema {
        name: "native-records@1",
        per_family: true,
        scope: ProviderDataScope::OwnerPrivate,
        max_bytes: MAX_NATIVE_BYTES,
        about: "Records of a coding agent's session as it wrote them, for that agent only: what they became, a line feed, their texts; kept in zstd.",
        shape: Shape::Object(&[member("records", Shape::Opaque { max: MAX_NATIVE_BYTES })]),
    },
    Schema {
        name: "session-manifest@1",
        per_family: true,
        scope: ProviderDataScope::OwnerPrivate,
        max_bytes: MAX_NATIVE_BYTES,
        about: "What a coding agent's session says of itself, and which of its records are kept; kept in zstd.",
        shape: Shape::Object(&[
            member("runtime", Shape::Text { max: 64 }),
            member("session", Shape::Opaque { max: 64 * 1_024 }),
            member("segments", Shape::Opaque { max: MAX_NATIVE_BYTES }),
            member("usage", Shape::Opaque { max: MAX_NATIVE_BYTES }),
        ]),
    },
];

/// The schema that a name means, with the family in front of it where it has one.
pub fn lookup(name: &str) -> Option<(&'static Schema, Option<&str>)> {
    if let Some(schema) = SCHEMAS.iter().find(|s| !s.per_family && s.name == name) {
        return Some((schema, None));
    }
    let (family, rest) = name.split_once('/')?;
    SCHEMAS
        .iter()
        .find(|s| s.per_family && s.name == rest && !family.is_empty())
        .map(|schema| (schema, Some(family)))
}

/// Whether a text is the name of a schema: `words/of-a-name@version`.
pub fn is_schema_name(name: &str) -> bool {
    let Some((stem, version)) = name.split_once('@') else {
        return false;
    };
    let word = |w: &str| {
        w.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.' | b':'))
            && !w.is_empty()
    };
    name.len() <= 128 && stem.split('/').all(word) && (1..=4).contains(&version.len()) && version.bytes().all(|b| b.is_ascii_digit())
}

/// What is known of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Its schema is registered and it has its shape.
    Valid,
    /// Its schema is not registered here: keep it, write it again, never act on it.
    Unknown,
    /// It breaks rules.
    Invalid(Vec<Violation>),
}

/// Checks the payload of a schema; pointers begin at the payload.
pub fn check(schema: &str, scope: ProviderDataScope, payload: &Json) -> Finding {
    let known = lookup(schema);
    let found = Check::run(|check| payload_rules(check, known.map(|(s, _)| s), scope, payload));
    match (found.is_empty(), known) {
        (false, _) => Finding::Invalid(found),
        (true, None) => Finding::Unknown,
        (true, Some(_)) => Finding::Valid,
    }
}

/// The rules of a payload.
pub(crate) fn payload_rules(check: &mut Check, schema: Option<&Schema>, scope: ProviderDataScope, payload: &Json) {
    let bound = schema.map_or(MAX_UNKNOWN_BYTES, |s| s.max_bytes);
    if payload.as_str().len() > bound {
        check.broken(Rule::AnnotationSize, format_args!("at most {bound} bytes of JSON text"));
        return;
    }
    // Before anything is parsed: hostile nesting costs nothing beyond this pass.
    if let Err(error) = crate::json::scan::check(payload.as_str().as_bytes()) {
        check.below(&error.pointer, |check| check.broken(Rule::AnnotationShape, error.message));
        return;
    }
    if let Some(schema) = schema {
        if schema.scope != scope {
            check.broken(
                Rule::AnnotationScope,
                format_args!("{} is registered as {}", schema.name, schema.scope),
            );
        }
        schema.shape.check(check, payload);
    }
    if scope == PORTABLE {
        shape::credentials(check, payload);
    }
}

/// The rules of a portable annotation as a record.
pub(crate) fn annotation_rules(check: &mut Check, annotation: &UnifiedPortableAnnotation) {
    if !is_schema_name(&annotation.schema) {
        check.broken_at("schema", Rule::SchemaName, "expected `<name>@<version>` in lower case");
    }
    let known = lookup(&annotation.schema);
    if let Some((_, Some(family))) = known
        && family != annotation.profile.family.as_str()
    {
        check.broken_at(
            "schema",
            Rule::AnnotationScope,
            "the schema belongs to another family than the profile",
        );
    }
    check.inside("payload", |check| {
        payload_rules(check, known.map(|(s, _)| s), PORTABLE, &annotation.payload);
    });
}

/// The JSON Schema (2020-12) of a registered schema, for documentation and other languages.
pub fn json_schema(schema: &Schema) -> serde_json::Value {
    let mut value = schema.shape.to_json_schema();
    if let Some(members) = value.as_object_mut() {
        members.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        members.insert("title".to_owned(), schema.name.into());
        members.insert("description".to_owned(), schema.about.into());
    }
    value
}
