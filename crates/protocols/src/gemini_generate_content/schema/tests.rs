//! Tests of the schema translations: one schema a line.
#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

fn text(value: &Value) -> Json {
    Json::from_value(value)
}

/// The schema in a proto subset, and the pointers of what could not be said as it was.
fn proto(subset: Subset, schema: Value, expected: Value, lost: &[&str]) {
    let (made, changes) = to_proto(&text(&schema), subset, &mut MAX_NODES.clone());
    assert_eq!(made.parse(), expected, "{schema}");
    let paths: Vec<_> = changes.iter().map(|c| c.path.as_str()).collect();
    assert_eq!(paths, lost, "{schema}");
}

#[test]
fn json_schema_moves_into_the_proto_subset() {
    use Subset::{Antigravity, Gemini, Vertex};
    let p = proto;
    p(Gemini, json!({"type": "string"}), json!({"type": "STRING"}), &[]);
    p(
        Gemini,
        json!({"type": ["string", "null"]}),
        json!({"type": "STRING", "nullable": true}),
        &[],
    );
    p(
        Gemini,
        json!({"type": ["string", "integer"]}),
        json!({"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        &[],
    );
    p(Gemini, json!({"const": "a"}), json!({"type": "STRING", "enum": ["a"]}), &[]);
    p(
        Gemini,
        json!({"type": "integer", "enum": [1, 2]}),
        json!({"type": "INTEGER", "enum": ["1", "2"]}),
        &["/enum"],
    );
    p(
        Gemini,
        json!({"enum": ["a", null]}),
        json!({"type": "STRING", "enum": ["a"], "nullable": true}),
        &[],
    );
    p(
        Gemini,
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "STRING", "format": "date-time"}),
        &[],
    );
    p(
        Gemini,
        json!({"type": "string", "format": "uri", "description": "d"}),
        json!({"type": "STRING", "description": "d (format: uri)"}),
        &["/format"],
    );
    p(
        Gemini,
        json!({"type": "number", "exclusiveMinimum": 0}),
        json!({"type": "NUMBER", "description": "(exclusiveMinimum: 0)"}),
        &["/exclusiveMinimum"],
    );
    p(
        Gemini,
        json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]}),
        json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "nullable": true}),
        &[],
    );
    p(
        Gemini,
        json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        json!({"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}),
        &["/oneOf"],
    );
    p(
        Gemini,
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"required": ["a"]}]}),
        json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}),
        &["/allOf"],
    );
    p(
        Gemini,
        json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}),
        json!({"type": "OBJECT", "properties": {"a": {}}, "required": ["a"]}),
        &["/required"],
    );
    p(Gemini, json!({"type": "array"}), json!({"type": "ARRAY", "items": {}}), &[]);
    p(
        Gemini,
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}),
        json!({"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}}),
        &["/prefixItems"],
    );
    // Names of properties are names, whatever they look like.
    p(
        Gemini,
        json!({"type": "object", "properties": {"$ref": {"type": "string"}, "const": {"type": "string"}}}),
        json!({"type": "OBJECT", "properties": {"$ref": {"type": "STRING"}, "const": {"type": "STRING"}}}),
        &[],
    );
    let with_ref = json!({"type": "object", "properties": {"s": {"$ref": "#/$defs/S"}}, "additionalProperties": false,
        "$defs": {"S": {"type": "string", "format": "uri"}}});
    p(
        Gemini,
        with_ref.clone(),
        json!({"type": "OBJECT", "properties": {"s": {"type": "STRING", "description": "(format: uri)"}}}),
        &["/properties/s/$ref", "/$defs/S/format", "/additionalProperties"],
    );
    p(
        Vertex,
        with_ref,
        json!({"type": "OBJECT", "properties": {"s": {"ref": "#/defs/S"}}, "additionalProperties": false,
            "defs": {"S": {"type": "STRING", "description": "(format: uri)"}}}),
        &["/$defs/S/format"],
    );
    p(
        Antigravity,
        json!({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}}]}),
        json!({"type": "OBJECT", "properties": {"a": {"type": "STRING", "description": "(minLength: 1)"}}}),
        &["/anyOf/1/properties/a/minLength", "/anyOf"],
    );
    p(
        Gemini,
        json!({"$ref": "https://example.org/s.json"}),
        json!({"type": "OBJECT", "description": "a s.json, as above"}),
        &["/$ref"],
    );
    p(
        Gemini,
        json!({"$defs": {"X": {"type": "string"}}, "type": "string"}),
        json!({"type": "STRING"}),
        &["/$defs/X"],
    );
}

#[test]
fn recursion_ends() {
    let node = json!({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "all": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}});
    let (made, changes) = to_proto(&text(&node), Subset::Gemini, &mut MAX_NODES.clone());
    assert!(!made.as_str().contains("$ref"));
    assert_eq!(changes.iter().filter(|c| c.reason.contains("recursive")).count(), 2);
    let (_, changes) = to_json_schema(&text(&node), &mut MAX_NODES.clone());
    assert_eq!(changes.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), ["/$defs/Node"]);
    // A schema that unfolds to a tree without end is bounded too.
    let mut defs = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/D{}", n + 1)});
        defs.insert(format!("D{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    defs.insert("D40".into(), json!({"type": "string"}));
    // So are many of them in one request: what goes beyond becomes any object, and a small one still has its place.
    let tree = text(&json!({"$ref": "#/$defs/D0", "$defs": defs}));
    let (mut nodes, mut length) = (MAX_NODES, 0);
    for _ in 0..8 {
        let (made, changes) = to_proto(&tree, Subset::Antigravity, &mut nodes);
        length += made.as_str().len();
        assert_eq!(
            changes.iter().map(|c| (c.path.as_str(), c.weakens)).collect::<Vec<_>>(),
            [("", true)]
        );
    }
    assert!(length < 1_000, "{length}");
    let small = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/D"}}, "$defs": {"D": {"type": "string"}}});
    let (made, _) = to_proto(&text(&small), Subset::Antigravity, &mut nodes);
    assert_eq!(made.parse(), json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}));
}

#[test]
fn what_a_request_unfolds_to_counts_its_text_and_what_is_merged_too() {
    // One long text that many references repeat.
    let texts: Map<String, Value> = (0..2_000).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/T"}))).collect();
    let texts = json!({"type": "object", "properties": texts, "$defs": {"T": {"type": "string", "description": "x".repeat(10_000)}}});
    // A tree that grows by what has to hold at once.
    let mut defs = Map::new();
    for n in 0..40 {
        let next = json!({"allOf": [{"$ref": format!("#/$defs/D{}", n + 1)}]});
        defs.insert(format!("D{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    defs.insert("D40".into(), json!({"type": "string"}));
    let merged = json!({"allOf": [{"$ref": "#/$defs/D0"}], "$defs": defs});
    for schema in [texts, merged] {
        for subset in [Subset::Gemini, Subset::Antigravity] {
            let (made, _) = to_proto(&text(&schema), subset, &mut MAX_NODES.clone());
            assert!(made.as_str().len() < 2_000_000, "{subset:?}: {}", made.as_str().len());
        }
        let (made, _) = to_json_schema(&text(&schema), &mut MAX_NODES.clone());
        assert!(made.as_str().len() < 2_000_000, "{}", made.as_str().len());
    }
}

#[test]
fn json_schema_keeps_to_the_documented_keywords() {
    let check = |schema: Value, expected: Value, lost: &[&str]| {
        let (made, changes) = to_json_schema(&text(&schema), &mut MAX_NODES.clone());
        assert_eq!(made.parse(), expected, "{schema}");
        assert_eq!(changes.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), lost, "{schema}");
    };
    let same = json!({"type": "object", "properties": {"a": {"type": ["string", "null"], "format": "uri"}}, "required": ["a"],
        "additionalProperties": false, "$defs": {"S": {"enum": [1, 2]}}});
    check(same.clone(), same, &[]);
    check(json!({"const": 1}), json!({"enum": [1]}), &[]);
    check(
        json!({"type": "string", "nullable": true}),
        json!({"type": ["string", "null"]}),
        &[],
    );
    check(
        json!({"type": "string", "pattern": "a"}),
        json!({"type": "string", "description": "(pattern: \"a\")"}),
        &["/pattern"],
    );
    check(
        json!({"definitions": {"S": {}}, "properties": {"s": {"$ref": "#/definitions/S", "description": "d"}}}),
        json!({"$defs": {"S": {}}, "properties": {"s": {"$ref": "#/$defs/S"}}}),
        &["/properties/s"],
    );
    check(json!({"$schema": "x", "type": "object"}), json!({"type": "object"}), &["/$schema"]);
}

#[test]
fn proto_schemas_open_to_json_schema() {
    let check = |schema: Value, expected: Value| assert_eq!(from_proto(&text(&schema)).parse(), expected, "{schema}");
    check(json!({"type": "STRING"}), json!({"type": "string"}));
    check(json!({"type": "STRING", "nullable": true}), json!({"type": ["string", "null"]}));
    check(
        json!({"anyOf": [{"type": "STRING"}], "nullable": true}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
    );
    check(
        json!({"type": "ARRAY", "min_items": "2", "items": {"type": "NUMBER"}}),
        json!({"type": "array", "minItems": 2, "items": {"type": "number"}}),
    );
    check(
        json!({"ref": "#/defs/S", "defs": {"S": {"type": "STRING"}}}),
        json!({"$ref": "#/$defs/S", "$defs": {"S": {"type": "string"}}}),
    );
    check(
        json!({"type": "STRING", "format": "enum", "enum": ["a"], "example": "a"}),
        json!({"type": "string", "enum": ["a"], "examples": ["a"]}),
    );
    let same = text(&json!({"type": "object", "properties": {"nullable": {"type": "boolean"}}}));
    assert_eq!(
        from_proto(&same).as_str(),
        same.as_str(),
        "nothing to change leaves the text as it is"
    );
}
