//! JSON Schema (draft 2020-12) of every type, in one bundle.
//!
//! Objects are closed: a record by `additionalProperties`, a kind of a union with common members by
//! `unevaluatedProperties`. Only maps whose keys are data, and opaque JSON, are open.

use super::ALIASES;
use super::catalogue::{Entry, Usage, collect, label};
use crate::MAX_SAFE_INTEGER;
use crate::profile::SchemaVersion;
use crate::record_kind::RecordKind;
use crate::shape::{Member, RecordShape, Scalar, Shape, UnionShape, WordsShape};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The bundle: a definition for each type, and as a whole any of the records that stand alone.
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    for Entry { label, shape, usage } in collect() {
        match shape {
            // Its members stand in the kinds of its unions.
            Shape::Record(_) if usage == Usage::Variant => {}
            Shape::Record(record) => {
                let definition = if usage == Usage::Base { open(record) } else { closed(record) };
                definitions.insert(label, Value::Object(definition));
            }
            Shape::Union(union) => add_union(&mut definitions, union),
            Shape::Words(words) => {
                definitions.insert(label, of_words(words));
            }
            Shape::Either(either) => {
                let forms: Vec<Value> = either.forms().map(|form| of_shape(&form)).collect();
                definitions.insert(label, json!({"description": either.doc, "anyOf": forms}));
            }
            Shape::Scalar(scalar) => {
                definitions.insert(label, described(of_scalar(scalar), scalar.doc()));
            }
            Shape::List(_) | Shape::Map(_) => {}
        }
    }
    for (name, target, doc) in ALIASES {
        definitions.insert(name.to_owned(), described(reference(target), doc));
    }
    let any_of: Vec<Value> = RecordKind::ALL
        .into_iter()
        .map(|kind| json!({"title": kind.name(), "$ref": pointer(&label(&kind.shape_of()()))}))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:throughline:unified:{}", SchemaVersion::TEXT),
        "title": "Unified v2",
        "description": "The provider-neutral format of conversations and inference. Rules across members stand in docs/rules.md.",
        "anyOf": any_of,
        "$defs": definitions,
    })
}

fn add_union(definitions: &mut Map<String, Value>, union: &UnionShape) {
    let label_of = |kind: &str| format!("{}.{kind}", union.name);
    let variants: Vec<Value> = union.variants.iter().map(|variant| reference(&label_of(variant.kind))).collect();
    definitions.insert(union.name.to_owned(), json!({"description": union.doc.text(), "oneOf": variants}));
    for variant in union.variants {
        let mut properties = Map::new();
        properties.insert(UnionShape::TAG.to_owned(), json!({"const": variant.kind}));
        properties.extend(properties_of(variant.record));
        let mut required = vec![UnionShape::TAG];
        required.extend(required_of(variant.record));
        let mut definition = Map::new();
        let mut say = |key: &str, value: Value| definition.insert(key.to_owned(), value);
        say("description", Value::from(variant.doc.text()));
        say("type", Value::from("object"));
        if let Some(base) = union.base {
            say("allOf", json!([reference(base.name)]));
        }
        say("properties", Value::Object(properties));
        say("required", json!(required));
        // What `allOf` brings in is known to the latter only.
        let closing = if union.base.is_some() {
            "unevaluatedProperties"
        } else {
            "additionalProperties"
        };
        say(closing, Value::Bool(false));
        definitions.insert(label_of(variant.kind), Value::Object(definition));
    }
}

fn closed(record: &RecordShape) -> Map<String, Value> {
    let mut definition = open(record);
    definition.insert("additionalProperties".to_owned(), Value::Bool(false));
    definition
}

/// A record that is closed where it is used.
fn open(record: &RecordShape) -> Map<String, Value> {
    let mut definition = Map::new();
    let mut say = |key: &str, value: Value| definition.insert(key.to_owned(), value);
    say("description", Value::from(record.doc.text()));
    say("type", Value::from("object"));
    say("properties", Value::Object(properties_of(record)));
    let required = required_of(record);
    if !required.is_empty() {
        say("required", json!(required));
    }
    definition
}

fn properties_of(record: &RecordShape) -> Map<String, Value> {
    record
        .members
        .iter()
        .map(|member| (member.name.to_owned(), of_member(member)))
        .collect()
}

fn required_of(record: &RecordShape) -> Vec<&'static str> {
    record
        .members
        .iter()
        .filter(|member| !member.is_optional)
        .map(|member| member.name)
        .collect()
}

fn of_member(member: &Member) -> Value {
    described(of_shape(&(member.shape)()), &member.doc.text())
}

/// The schema of a value: a reference to a named type, or the schema itself.
fn of_shape(shape: &Shape) -> Value {
    if shape.name().is_some() {
        return reference(&label(shape));
    }
    match shape {
        Shape::List(element) => json!({"type": "array", "items": of_shape(&element())}),
        Shape::Map(element) => json!({"type": "object", "additionalProperties": of_shape(&element())}),
        Shape::Scalar(scalar) => of_scalar(*scalar),
        // Every other shape has a name.
        _ => Value::Bool(true),
    }
}

fn of_scalar(scalar: Scalar) -> Value {
    match scalar {
        Scalar::Id => json!({"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"}),
        Scalar::Time => json!({"type": "string", "format": "date-time"}),
        Scalar::Digest => json!({"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"}),
        Scalar::Version => json!({"const": SchemaVersion::TEXT}),
        Scalar::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Scalar::Json => json!({}),
        Scalar::Count => json!({"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER}),
        Scalar::Integer | Scalar::SafeInteger => {
            let most = MAX_SAFE_INTEGER.cast_signed();
            json!({"type": "integer", "minimum": -most, "maximum": most})
        }
        Scalar::Byte => json!({"type": "integer", "minimum": 0, "maximum": u8::MAX}),
        Scalar::Number => json!({"type": "number"}),
        Scalar::Boolean => json!({"type": "boolean"}),
        Scalar::Text => json!({"type": "string"}),
        Scalar::Decimal => json!({"type": "string", "pattern": "^[+-]?[0-9]+$"}),
    }
}

fn of_words(words: &WordsShape) -> Value {
    let known: Vec<&str> = words.words.iter().map(|word| word.word).collect();
    let mut doc = words.doc.text();
    for word in words.words {
        let meaning = word.doc.text();
        if !meaning.is_empty() {
            let _ = write!(doc, "\n`{}`: {meaning}", word.word);
        }
    }
    if words.is_open {
        json!({"description": doc, "anyOf": [{"enum": known}, {"type": "string"}]})
    } else {
        json!({"description": doc, "enum": known})
    }
}

fn reference(label: &str) -> Value {
    json!({"$ref": pointer(label)})
}

fn pointer(label: &str) -> String {
    format!("#/$defs/{label}")
}

/// Puts a description first.
fn described(schema: Value, doc: &str) -> Value {
    let mut out = Map::new();
    if !doc.is_empty() {
        out.insert("description".to_owned(), Value::from(doc));
    }
    if let Value::Object(members) = schema {
        out.extend(members);
    }
    Value::Object(out)
}
