//! Descriptions of the types say what the types do, and what is generated from them is fresh.

use crate::round_trip::{all_records, samples};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use throughline_format::RecordKind;
use throughline_format::schema::{breaking_changes, json_schema, json_schema_text, page, typescript};
use throughline_format::shape::{RecordShape, Scalar, Shape};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every shape that the records which stand alone reach, by name; kinds of unions included.
fn shapes() -> BTreeMap<&'static str, Shape> {
    let mut found = BTreeMap::new();
    let mut todo: Vec<Shape> = RecordKind::ALL.into_iter().map(|kind| kind.shape_of()()).collect();
    todo.push(<throughline_format::UnifiedLease as throughline_format::shape::Shaped>::shape());
    todo.push(<throughline_format::resource::UnmappedPayload as throughline_format::shape::Shaped>::shape());
    while let Some(shape) = todo.pop() {
        if let Shape::Record(RecordShape {
            parameter: Some(parameter),
            ..
        }) = shape
        {
            todo.push((parameter.shape)());
        }
        if let Some(name) = shape.name()
            && found.insert(name, shape).is_some()
        {
            continue;
        }
        match shape {
            Shape::Record(record) => todo.extend(record.members.iter().map(|m| (m.shape)())),
            Shape::Union(union) => {
                todo.extend(union.base.map(Shape::Record));
                todo.extend(union.variants.iter().map(|v| Shape::Record(v.record)));
            }
            Shape::Either(either) => todo.extend(either.forms()),
            Shape::List(element) | Shape::Map(element) => todo.push(element()),
            Shape::Words(_) | Shape::Scalar(_) => {}
        }
    }
    found
}

#[test]
fn descriptions_name_the_members_that_decoding_takes() {
    let shapes = shapes();
    let mut records = 0;
    for (name, members) in all_records() {
        let Some(Shape::Record(record)) = shapes.get(name) else {
            panic!("{name} is reached from no root")
        };
        assert_eq!(
            record.members.iter().map(|m| m.name.to_owned()).collect::<BTreeSet<_>>(),
            members,
            "{name}"
        );
        records += 1;
    }
    let described = shapes.values().filter(|s| matches!(s, Shape::Record(_))).count();
    assert_eq!(records, described, "each record is in both lists");
}

#[test]
fn everything_is_documented() {
    for (name, shape) in shapes() {
        let (doc, inner) = match shape {
            Shape::Record(r) => (r.doc.text(), r.members.iter().map(|m| (m.name, m.doc.text())).collect()),
            Shape::Union(u) => (u.doc.text(), u.variants.iter().map(|v| (v.kind, v.doc.text())).collect()),
            Shape::Words(w) => (w.doc.text(), Vec::new()),
            Shape::Either(e) => (e.doc.to_owned(), Vec::new()),
            Shape::Scalar(s) => (s.doc().to_owned(), Vec::new()),
            Shape::List(_) | Shape::Map(_) => continue,
        };
        assert!(!doc.is_empty(), "{name}");
        for (part, doc) in inner {
            assert!(!doc.is_empty() && !doc.contains("[`"), "{name}.{part}");
        }
    }
    assert!(Scalar::ALL.iter().all(|s| !s.doc().is_empty()));
}

/// Resolves a reference within the bundle.
fn definition<'a>(bundle: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => definition(
            bundle,
            bundle
                .pointer(reference.trim_start_matches('#'))
                .unwrap_or_else(|| panic!("{reference} leads nowhere")),
        ),
        None => schema,
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_object_is_closed() {
    let bundle = json_schema();
    let open_by_purpose = |schema: &Value| schema.get("additionalProperties").is_some_and(Value::is_object);
    let bases: BTreeSet<String> = bundle["$defs"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|d| d["allOf"].as_array().into_iter().flatten())
        .map(|r| r["$ref"].as_str().unwrap().trim_start_matches("#/$defs/").to_owned())
        .collect();
    assert_eq!(
        bases.iter().map(String::as_str).collect::<Vec<_>>(),
        ["UnifiedEventBase", "UnifiedItemBase", "UnifiedPartBase"]
    );
    let mut objects = 0;
    let mut todo: Vec<(String, &Value)> = bundle["$defs"].as_object().unwrap().iter().map(|(k, v)| (k.clone(), v)).collect();
    while let Some((at, schema)) = todo.pop() {
        definition(&bundle, schema);
        if schema["type"] == "object" && !bases.contains(&at) {
            let closed =
                schema["additionalProperties"] == false || (schema.get("allOf").is_some() && schema["unevaluatedProperties"] == false);
            assert!(closed || open_by_purpose(schema), "{at} takes any member");
            objects += 1;
        }
        match schema {
            Value::Object(members) => todo.extend(
                members
                    .iter()
                    .filter(|(_, v)| v.is_object() || v.is_array())
                    .map(|(k, v)| (format!("{at}/{k}"), v)),
            ),
            Value::Array(list) => todo.extend(list.iter().enumerate().map(|(i, v)| (format!("{at}/{i}"), v))),
            _ => {}
        }
    }
    assert!(objects > 150, "{objects}");
}

#[test]
fn no_root_holds_messages() {
    // A role stands on items only, and no list holds anything with a role but items.
    let with_role: Vec<&str> = shapes()
        .values()
        .filter_map(|s| if let Shape::Record(r) = s { Some(r) } else { None })
        .filter(|r| r.member("role").is_some() || r.member("messages").is_some())
        .map(|r| r.name)
        .collect();
    assert_eq!(with_role, ["UnifiedItemBase"]);
    for kind in RecordKind::ALL {
        let Shape::Record(record) = kind.shape_of()() else { continue };
        assert!(record.member("messages").is_none(), "{kind}");
    }
}

#[test]
fn generated_files_are_fresh() {
    for (name, text, command) in [
        ("schema/unified-v2.schema.json", json_schema_text(), "schema"),
        ("schema/unified-v2.d.ts", typescript(), "schema"),
        ("docs/format.md", page(), "docs"),
    ] {
        let committed = std::fs::read_to_string(repository().join(name)).unwrap_or_default();
        assert!(committed == text, "{name} is stale: run `cargo run -p xtask -- {command}`");
    }
    assert_eq!(json_schema_text(), json_schema_text(), "generating is deterministic");
}

#[test]
fn the_format_only_adds_to_its_published_version() {
    throughline_format::clause!("VER-05");
    let published = std::fs::read_to_string(repository().join("schema/published/unified-v2.0.schema.json")).unwrap();
    let published: Value = serde_json::from_str(&published).unwrap();
    assert_eq!(
        published["$id"], "urn:throughline:unified:2.0",
        "the version that this format is of"
    );
    assert_eq!(
        breaking_changes(&published, &json_schema()),
        Vec::<String>::new(),
        "a change of required members or meanings is a new major version"
    );
}

#[test]
fn samples_fit_the_declared_kinds() {
    // Each sample that stands alone is recognised by its members, whatever else is wrong with it.
    let expected = [
        ("request", "request"),
        ("result", "result"),
        ("operation", "operation"),
        ("export", "export"),
        ("checkpoint", "checkpoint"),
    ];
    for sample in samples() {
        let found = RecordKind::of_members(|name| sample.value.get(name).is_some()).map(RecordKind::name);
        let first = sample.name.split(' ').next().unwrap();
        if let Some((_, kind)) = expected.iter().find(|(name, _)| *name == first) {
            assert_eq!(found, Some(*kind), "{}", sample.name);
        } else if first == "event" || first == "item" {
            assert_eq!(found, Some(first), "{}", sample.name);
        }
    }
}
