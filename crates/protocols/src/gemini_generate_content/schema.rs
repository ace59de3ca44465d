//! JSON Schemas as the wire takes them: the proto `Schema` of `parameters` and `responseSchema`, and the documented keywords of
//! `parametersJsonSchema` and `responseJsonSchema`.
//!
//! Only schemas come here: arguments and history are never walked.

mod open;
mod translator;

pub(super) use open::from_proto;
use open::lower;
pub(super) use translator::{Change, MAX_NODES};
use translator::{MAX_DEPTH, Translator};

use serde_json::{Map, Value};
use throughline_format::Json;
use throughline_format::json::escape_pointer_token;

/// Which proto `Schema`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subset {
    /// Of the Gemini API.
    Gemini,
    /// Of Vertex: it has `additionalProperties`, `defs` and `ref`.
    Vertex,
    /// What the envelope endpoint takes: a few keywords and no unions.
    Antigravity,
}

/// Keywords that say nothing to a model.
const SILENT: &[&str] = &["$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "propertyOrdering"];
/// Keywords of the proto `Schema` whose value is taken as it is.
const PLAIN: &[&str] = &[
    "title",
    "description",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "propertyOrdering",
    "default",
];
/// Those that the envelope endpoint takes.
const PLAIN_ANTIGRAVITY: &[&str] = &["description"];
/// Documented keywords of the JSON Schema fields whose value is no schema.
const JSON_PLAIN: &[&str] = &[
    "$id",
    "$anchor",
    "format",
    "title",
    "description",
    "enum",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "required",
    "propertyOrdering",
];

fn describe(map: &mut Map<String, Value>, hints: &[String]) {
    if hints.is_empty() {
        return;
    }
    let old = map.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{old} ({})", hints.join(", "));
    map.insert("description".into(), text.trim().into());
}

/// The schema as a proto `Schema`, and what it cost. `nodes` are those that the request has left; a schema beyond them becomes one of
/// any object.
pub(super) fn to_proto(schema: &Json, subset: Subset, nodes: &mut usize) -> (Json, Vec<Change>) {
    let root = schema.parse();
    let mut translator = Proto {
        base: Translator::new(&root, *nodes),
        subset,
        open: Vec::new(),
        used: std::collections::BTreeSet::new(),
    };
    let mut made = translator.node(&root, "", 0);
    for key in ["$defs", "definitions"] {
        for name in root.get(key).and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            let used = translator.used.contains(&format!("#/{key}/{name}"));
            if subset != Subset::Vertex && !used {
                let path = format!("/{key}");
                translator
                    .base
                    .change(&path, name, "a definition that nothing refers to is left out", false);
            }
        }
    }
    if subset == Subset::Vertex {
        let mut defs = Map::new();
        for key in ["$defs", "definitions"] {
            for (name, inner) in root.get(key).and_then(Value::as_object).into_iter().flatten() {
                let inner = translator.node(inner, &format!("/{key}/{}", escape_pointer_token(name)), 1);
                defs.insert(name.clone(), inner);
            }
        }
        if let (Some(map), false) = (made.as_object_mut(), defs.is_empty()) {
            map.insert("defs".into(), defs.into());
        }
    }
    translator.base.finish(&made, object_stub(""), nodes)
}

struct Proto<'a> {
    base: Translator<'a>,
    subset: Subset,
    /// References that are being unfolded.
    open: Vec<String>,
    /// References that were unfolded.
    used: std::collections::BTreeSet<String>,
}

impl Proto<'_> {
    fn node(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        if !self.base.charge(1) {
            return Value::Null;
        }
        let Some(given) = schema.as_object() else {
            if schema == &Value::Bool(false) {
                self.base.change(path, "", "a schema that nothing satisfies is left out", true);
            }
            return Value::Object(Map::new());
        };
        if depth > MAX_DEPTH {
            self.base.change(path, "", "nested deeper than is sent", true);
            return object_stub("");
        }
        if let Some(reference) = given.get("$ref").and_then(Value::as_str) {
            return self.reference(given, reference, path, depth);
        }
        let mut map = given.clone();
        self.merge_all_of(&mut map, path);
        let mut out = Map::new();
        let mut hints = Vec::new();
        let mut nullable = map.get("nullable") == Some(&Value::Bool(true));
        let union = Self::types(&map, &mut out, &mut nullable);
        self.values(&map, &mut out, &mut nullable, &mut hints, path);
        for (key, value) in &map {
            self.keyword(key, value, &mut out, &mut hints, path, depth);
        }
        let mut branches = self.branches(&map, &mut nullable, path, depth);
        if let Some(types) = union {
            if branches.is_empty() {
                branches = types;
            } else {
                self.base.change(path, "type", "several types beside a union are left out", true);
            }
        }
        self.unite(branches, &mut out, &mut nullable, path);
        if out.get("type").is_none() && out.contains_key("properties") {
            out.insert("type".into(), "OBJECT".into());
        }
        if out.get("type").and_then(Value::as_str) == Some("ARRAY") && !out.contains_key("items") {
            out.insert("items".into(), Value::Object(Map::new()));
        }
        if nullable {
            out.insert("nullable".into(), true.into());
        }
        if let Some(list) = map.get("required").filter(|list| list.is_array()) {
            out.insert("required".into(), list.clone());
        }
        self.required(&mut out, path);
        describe(&mut out, &hints);
        Value::Object(out)
    }

    fn reference(&mut self, given: &Map<String, Value>, reference: &str, path: &str, depth: usize) -> Value {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if self.subset == Subset::Vertex && (reference.starts_with("#/$defs/") || reference.starts_with("#/definitions/")) {
            if given.len() > 1 {
                self.base
                    .change(path, "", "what stands beside a reference is left out", given.len() > 2);
            }
            let mut out = Map::new();
            out.insert("ref".into(), format!("#/defs/{name}").into());
            return Value::Object(out);
        }
        if self.open.iter().any(|open| open == reference) {
            self.base.change(path, "$ref", "a recursive reference is cut", true);
            return object_stub(name);
        }
        let Some(target) = self.base.expand(reference) else {
            self.base
                .change(path, "$ref", "a reference to something outside of the schema is left out", true);
            return object_stub(name);
        };
        // What stands beside the reference refines what it means.
        let mut merged = target.as_object().cloned().unwrap_or_default();
        for (key, value) in given.iter().filter(|(key, _)| *key != "$ref") {
            merged.insert(key.clone(), value.clone());
        }
        self.open.push(reference.to_owned());
        self.base.change(path, "$ref", "the definition stands in its place", false);
        // What is lost of it is lost where it is defined.
        let at = reference.strip_prefix('#').filter(|at| !at.is_empty()).unwrap_or(path);
        let made = self.node(&Value::Object(merged), at, depth + 1);
        self.used.insert(reference.to_owned());
        self.open.pop();
        made
    }

    /// Everything that has to hold at once, in one schema; the outer one wins.
    fn merge_all_of(&mut self, map: &mut Map<String, Value>, path: &str) {
        let Some(Value::Array(list)) = map.remove("allOf") else { return };
        self.base.change(path, "allOf", "merged into the schema", false);
        for part in list {
            let part = match part.get("$ref").and_then(Value::as_str) {
                Some(reference) if !self.open.iter().any(|open| open == reference) => self.base.expand(reference).unwrap_or(part),
                _ => part,
            };
            merge(map, part.as_object());
        }
    }

    /// The type; several types become a union, `null` makes nullable.
    fn types(map: &Map<String, Value>, out: &mut Map<String, Value>, nullable: &mut bool) -> Option<Vec<Value>> {
        let upper = |word: &str| Value::from(word.to_ascii_uppercase());
        match map.get("type") {
            Some(Value::String(word)) => {
                out.insert("type".into(), upper(word));
                None
            }
            Some(Value::Array(list)) => {
                let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
                *nullable |= words.contains(&"null");
                let rest: Vec<&str> = words.into_iter().filter(|w| *w != "null").collect();
                match rest.as_slice() {
                    [] => {
                        out.insert("type".into(), "NULL".into());
                        None
                    }
                    [only] => {
                        out.insert("type".into(), upper(only));
                        None
                    }
                    several => Some(several.iter().map(|word| serde_json::json!({"type": upper(word)})).collect()),
                }
            }
            _ => None,
        }
    }

    /// The values that are allowed: texts only.
    fn values(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>, nullable: &mut bool, hints: &mut Vec<String>, path: &str) {
        let (key, list) = match (map.get("enum"), map.get("const")) {
            (Some(Value::Array(list)), _) => ("enum", list.clone()),
            (_, Some(value)) => ("const", vec![value.clone()]),
            _ => return,
        };
        *nullable |= list.contains(&Value::Null);
        let list: Vec<_> = list.into_iter().filter(|v| !v.is_null()).collect();
        if list.iter().all(Value::is_boolean) && !list.is_empty() {
            hints.push(format!("{key}: {}", Value::from(list)));
            self.base
                .change(path, key, "only texts can be listed; told in the description", true);
            return;
        }
        if !list.iter().all(Value::is_string) {
            self.base
                .change(path, key, "only texts can be listed; the values are written as such", true);
        }
        let texts: Vec<Value> = list
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string().into(), Value::from))
            .collect();
        if out.get("type").is_none() && !map.contains_key("type") {
            out.insert("type".into(), "STRING".into());
        }
        if !texts.is_empty() {
            out.insert("enum".into(), texts.into());
        }
    }

    fn keyword(&mut self, key: &str, value: &Value, out: &mut Map<String, Value>, hints: &mut Vec<String>, path: &str, depth: usize) {
        let below = |name: &str| format!("{path}/{}", escape_pointer_token(name));
        let plain = if self.subset == Subset::Antigravity {
            PLAIN_ANTIGRAVITY
        } else {
            PLAIN
        };
        match key {
            // Said elsewhere.
            "type" | "enum" | "const" | "nullable" | "anyOf" | "oneOf" | "required" => {}
            "properties" => {
                let mut properties = Map::new();
                for (name, inner) in value.as_object().into_iter().flatten() {
                    let at = format!("{}/{}", below(key), escape_pointer_token(name));
                    properties.insert(name.clone(), self.node(inner, &at, depth + 1));
                }
                out.insert(key.into(), properties.into());
            }
            "items" if value.is_array() => self.tuple(key, value, out, path, depth),
            "prefixItems" => self.tuple(key, value, out, path, depth),
            "items" => {
                let items = self.node(value, &below(key), depth + 1);
                out.entry("items").or_insert(items);
            }
            "additionalProperties" if self.subset == Subset::Vertex => {
                let inner = if value.is_boolean() {
                    value.clone()
                } else {
                    self.node(value, &below(key), depth + 1)
                };
                out.insert(key.into(), inner);
            }
            "format" => self.format(value, out, hints, path),
            "examples" if self.subset != Subset::Antigravity => {
                let mut list = value.as_array().into_iter().flatten();
                if let Some(first) = list.next() {
                    out.entry("example").or_insert_with(|| first.clone());
                }
                if list.next().is_some() {
                    self.base.change(path, key, "the first example only", false);
                }
            }
            _ if plain.contains(&key) => {
                out.insert(key.into(), value.clone());
            }
            _ if SILENT.contains(&key) => {
                if !matches!(key, "$defs" | "definitions") {
                    self.base.change(path, key, "not a keyword of the target", false);
                }
            }
            "title" | "description" | "deprecated" | "example" => {
                self.base.change(path, key, "not a keyword of the target", false);
            }
            "additionalProperties" => {
                let closed = value == &Value::Bool(false);
                if !closed && value != &Value::Bool(true) {
                    hints.push(format!("{key}: {value}"));
                }
                self.base.change(path, key, "the target cannot say it", value != &Value::Bool(true));
            }
            _ if key.starts_with("x-") => self.base.change(path, key, "not a keyword of the target", false),
            _ => {
                hints.push(format!("{key}: {value}"));
                self.base
                    .change(path, key, "not a keyword of the target; told in the description", true);
            }
        }
    }

    /// A tuple becomes a list of any of its elements.
    fn tuple(&mut self, key: &str, value: &Value, out: &mut Map<String, Value>, path: &str, depth: usize) {
        let elements: Vec<_> = value.as_array().into_iter().flatten().enumerate().collect();
        let made: Vec<Value> = elements
            .into_iter()
            .map(|(n, inner)| self.node(inner, &format!("{path}/{key}/{n}"), depth + 1))
            .collect();
        self.base
            .change(path, key, "a tuple is told as a list of any of its elements", true);
        let items = match made.as_slice() {
            [only] => only.clone(),
            _ if self.subset == Subset::Antigravity => made.first().cloned().unwrap_or_else(|| Value::Object(Map::new())),
            _ => serde_json::json!({ "anyOf": made }),
        };
        out.insert("items".into(), items);
    }

    fn format(&mut self, value: &Value, out: &mut Map<String, Value>, hints: &mut Vec<String>, path: &str) {
        let word = value.as_str().unwrap_or_default();
        let kind = out.get("type").and_then(Value::as_str).unwrap_or_default();
        let known = match kind {
            "STRING" => matches!(word, "enum" | "date-time"),
            "NUMBER" => matches!(word, "float" | "double"),
            "INTEGER" => matches!(word, "int32" | "int64"),
            _ => false,
        };
        if known && self.subset != Subset::Antigravity {
            out.insert("format".into(), value.clone());
        } else {
            hints.push(format!("format: {word}"));
            self.base
                .change(path, "format", "a format that the target refuses; told in the description", true);
        }
    }

    /// The branches of a union without its `null`.
    fn branches(&mut self, map: &Map<String, Value>, nullable: &mut bool, path: &str, depth: usize) -> Vec<Value> {
        let mut made = Vec::new();
        for key in ["anyOf", "oneOf"] {
            let Some(list) = map.get(key).and_then(Value::as_array) else {
                continue;
            };
            if key == "oneOf" {
                self.base.change(path, key, "said as anyOf", false);
            }
            for (n, branch) in list.iter().enumerate() {
                if branch.get("type").and_then(Value::as_str) == Some("null") {
                    *nullable = true;
                } else {
                    made.push(self.node(branch, &format!("{path}/{key}/{n}"), depth + 1));
                }
            }
        }
        made
    }

    fn unite(&mut self, branches: Vec<Value>, out: &mut Map<String, Value>, nullable: &mut bool, path: &str) {
        let several = branches.len() > 1;
        if several && self.subset != Subset::Antigravity {
            out.insert("anyOf".into(), branches.into());
            return;
        }
        if several {
            self.base
                .change(path, "anyOf", "the target takes no unions; the branch that says most is sent", true);
        }
        // The only branch, or the one that says most, in the place of the union.
        let weight = |v: &Value| v.to_string().len();
        let Some(best) = branches.into_iter().reduce(|a, b| if weight(&b) > weight(&a) { b } else { a }) else {
            return;
        };
        *nullable |= best.get("nullable") == Some(&Value::Bool(true));
        merge(out, best.as_object());
    }

    /// Required properties that are there.
    fn required(&mut self, out: &mut Map<String, Value>, path: &str) {
        let names: Vec<String> = out
            .get("properties")
            .and_then(Value::as_object)
            .map(|p| p.keys().cloned().collect())
            .unwrap_or_default();
        let Some(list) = out.get_mut("required").and_then(Value::as_array_mut) else {
            return;
        };
        let before = list.len();
        list.retain(|name| name.as_str().is_some_and(|n| names.iter().any(|known| known == n)));
        let (pruned, empty) = (list.len() < before, list.is_empty());
        if pruned {
            self.base
                .change(path, "required", "names of properties that are not there are left out", false);
        }
        if empty {
            out.remove("required");
        }
    }
}

/// What stands for a schema that cannot be told.
fn object_stub(name: &str) -> Value {
    if name.is_empty() {
        serde_json::json!({"type": "OBJECT"})
    } else {
        serde_json::json!({"type": "OBJECT", "description": format!("a {name}, as above")})
    }
}

/// Adds members that are not there yet; properties and required names are united.
fn merge(into: &mut Map<String, Value>, from: Option<&Map<String, Value>>) {
    for (key, value) in from.into_iter().flatten() {
        match (into.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) if key == "properties" => {
                for (name, inner) in new {
                    old.entry(name.clone()).or_insert_with(|| inner.clone());
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) if key == "required" => {
                for name in new {
                    if !old.contains(name) {
                        old.push(name.clone());
                    }
                }
            }
            (Some(_), _) => {}
            (None, _) => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The schema with the documented keywords of the JSON Schema fields, and what it cost.
///
/// `nodes` are those that the request has left, as for [`to_proto`].
pub(super) fn to_json_schema(schema: &Json, nodes: &mut usize) -> (Json, Vec<Change>) {
    let root = schema.parse();
    let mut translator = Translator::new(&root, *nodes);
    let made = translator.documented(&root, "", 0);
    translator.recursion(&root);
    if made == root {
        return (schema.clone(), translator.changes);
    }
    translator.finish(&made, serde_json::json!({"type": "object"}), nodes)
}

impl Translator<'_> {
    fn documented(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        let Some(given) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else {
            return schema.clone();
        };
        if !self.charge(1) {
            return Value::Null;
        }
        if let Some(reference) = given.get("$ref").and_then(Value::as_str) {
            if self.resolve(reference).is_none() {
                self.change(path, "$ref", "a reference to something outside of the schema is left out", true);
                return Value::Object(Map::new());
            }
            if given.len() > 1 && given.keys().any(|key| !key.starts_with('$')) {
                self.change(path, "", "what stands beside a reference is left out", true);
            }
            let mut out = Map::new();
            out.insert("$ref".into(), reference.replacen("#/definitions/", "#/$defs/", 1).into());
            // The definitions of a root that is a reference itself.
            if depth == 0 {
                self.definitions(given, &mut out, path, depth);
            }
            return Value::Object(out);
        }
        let mut map = given.clone();
        if let Some(Value::Array(list)) = map.remove("allOf") {
            self.change(path, "allOf", "merged into the schema", false);
            for part in list {
                let target = part.get("$ref").and_then(Value::as_str).and_then(|r| self.expand(r));
                merge(&mut map, target.as_ref().unwrap_or(&part).as_object());
            }
        }
        let nullable = map.remove("nullable") == Some(Value::Bool(true));
        let (mut out, mut hints) = (Map::new(), Vec::new());
        for (key, value) in &map {
            let at = format!("{path}/{}", escape_pointer_token(key));
            match key.as_str() {
                "type" => {
                    out.insert(key.clone(), lower(value, nullable));
                }
                "properties" => {
                    let inner = value.as_object().into_iter().flatten();
                    let inner = inner.map(|(name, inner)| {
                        let at = format!("{at}/{}", escape_pointer_token(name));
                        (name.clone(), self.documented(inner, &at, depth + 1))
                    });
                    let inner: Map<_, _> = inner.collect();
                    out.insert(key.clone(), inner.into());
                }
                "$defs" | "definitions" => self.definitions(&map, &mut out, path, depth),
                "items" if value.is_array() => {
                    self.change(path, key, "said as prefixItems", false);
                    out.insert("prefixItems".into(), self.list(value, &at, depth));
                }
                "items" | "additionalProperties" => {
                    out.insert(key.clone(), self.documented(value, &at, depth + 1));
                }
                "prefixItems" | "anyOf" | "oneOf" => {
                    out.insert(key.clone(), self.list(value, &at, depth));
                }
                "const" => {
                    out.insert("enum".into(), vec![value.clone()].into());
                }
                key if JSON_PLAIN.contains(&key) => {
                    out.insert(key.into(), value.clone());
                }
                key if SILENT.contains(&key) || key.starts_with("x-") || key == "deprecated" => {
                    self.change(path, key, "not a documented keyword of the target", false);
                }
                key => {
                    hints.push(format!("{key}: {value}"));
                    self.change(path, key, "not a documented keyword of the target; told in the description", true);
                }
            }
        }
        if nullable && !out.contains_key("type") {
            self.change(path, "nullable", "left out where no type is named", true);
        }
        describe(&mut out, &hints);
        Value::Object(out)
    }

    fn list(&mut self, value: &Value, path: &str, depth: usize) -> Value {
        let list = value.as_array().into_iter().flatten().enumerate();
        let list: Vec<_> = list
            .map(|(n, inner)| self.documented(inner, &format!("{path}/{n}"), depth + 1))
            .collect();
        list.into()
    }

    fn definitions(&mut self, given: &Map<String, Value>, out: &mut Map<String, Value>, path: &str, depth: usize) {
        if out.contains_key("$defs") {
            return;
        }
        let mut defs = Map::new();
        for key in ["$defs", "definitions"] {
            for (name, inner) in given.get(key).and_then(Value::as_object).into_iter().flatten() {
                let at = format!("{path}/{key}/{}", escape_pointer_token(name));
                defs.insert(name.clone(), self.documented(inner, &at, depth + 1));
            }
        }
        if !defs.is_empty() {
            out.insert("$defs".into(), defs.into());
        }
    }

    /// Definitions that contain themselves: the service unrolls them to a limited depth.
    fn recursion(&mut self, root: &Value) {
        for key in ["$defs", "definitions"] {
            for (name, inner) in root.get(key).and_then(Value::as_object).into_iter().flatten() {
                let own = format!("#/{key}/{name}");
                let (mut seen, mut todo) = (vec![own.clone()], references(inner));
                while let Some(next) = todo.pop() {
                    if next == own {
                        self.change(&format!("/{key}"), name, "the target unrolls recursion to a limited depth", true);
                        break;
                    }
                    if !seen.contains(&next) {
                        todo.extend(self.resolve(&next).map(references).unwrap_or_default());
                        seen.push(next);
                    }
                }
            }
        }
    }
}

/// Every reference below a schema.
fn references(schema: &Value) -> Vec<String> {
    let (mut found, mut todo) = (Vec::new(), vec![schema]);
    while let Some(next) = todo.pop() {
        match next {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                todo.extend(map.values());
            }
            Value::Array(list) => todo.extend(list),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
