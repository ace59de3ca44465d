//! What both translations keep: the schema that references point into, what was lost, and how much may still be made.

use serde_json::Value;
use std::collections::BTreeMap;
use throughline_format::Json;
use throughline_format::json::escape_pointer_token;

/// Something that could not be said as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Change {
    /// Pointer into the schema.
    pub(in super::super) path: String,
    /// What became of it.
    pub(in super::super) reason: String,
    /// Whether the model could notice.
    pub(in super::super) weakens: bool,
}

/// Deepest nesting that is rewritten; bodies are refused long before.
pub(super) const MAX_DEPTH: usize = 64;
/// Most nodes that the schemas of one request may unfold to.
pub(in super::super) const MAX_NODES: usize = 20_000;
/// Text of a definition, in bytes, that counts as one node more each time that it stands in place of a reference.
const BYTES_PER_NODE: usize = 64;

/// State of one translation.
pub(super) struct Translator<'a> {
    root: &'a Value,
    pub(super) changes: Vec<Change>,
    /// Nodes that may still be made.
    nodes: usize,
    /// There were more.
    is_exhausted: bool,
    /// Length of what a reference means.
    lengths: BTreeMap<String, usize>,
}

impl<'a> Translator<'a> {
    pub(super) const fn new(root: &'a Value, nodes: usize) -> Self {
        Self {
            root,
            changes: Vec::new(),
            nodes,
            is_exhausted: false,
            lengths: BTreeMap::new(),
        }
    }

    pub(super) fn change(&mut self, path: &str, key: &str, reason: impl Into<String>, weakens: bool) {
        let path = if key.is_empty() {
            path.to_owned()
        } else {
            format!("{path}/{}", escape_pointer_token(key))
        };
        self.changes.push(Change {
            path,
            reason: reason.into(),
            weakens,
        });
    }

    /// Whether as many nodes may be made.
    pub(super) const fn charge(&mut self, nodes: usize) -> bool {
        match self.nodes.checked_sub(nodes) {
            Some(left) if !self.is_exhausted => self.nodes = left,
            _ => self.is_exhausted = true,
        }
        !self.is_exhausted
    }

    /// The schema that a local reference means.
    pub(super) fn resolve(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// The same, to stand in the place of the reference: it counts by its length.
    pub(super) fn expand(&mut self, reference: &str) -> Option<Value> {
        let target = self.resolve(reference)?;
        let known = self.lengths.get(reference).copied();
        let length = known.unwrap_or_else(|| target.to_string().len());
        self.lengths.entry(reference.to_owned()).or_insert(length);
        Some(if self.charge(length / BYTES_PER_NODE) {
            target.clone()
        } else {
            Value::Null
        })
    }

    /// What was made, and what it cost; `nodes` are those that the request has left. Where they were too few, it is a schema of any
    /// object, which takes half of them: the work for a request is bounded, and its next schemas have their chance.
    pub(super) fn finish(self, made: &Value, any: Value, nodes: &mut usize) -> (Json, Vec<Change>) {
        if self.is_exhausted {
            *nodes /= 2;
            let change = Change {
                path: String::new(),
                reason: "the schemas of the request unfold to more than is sent; any object is taken here".to_owned(),
                weakens: true,
            };
            return (Json::from_value(&any), vec![change]);
        }
        *nodes = self.nodes;
        (Json::from_value(made), self.changes)
    }
}
