//! Every named type that the roots reach, once, in the order in which a reader meets them.

use crate::shape::{RecordShape, Shape};
use std::collections::BTreeMap;

/// A named type.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its name, with the parameter's for a generic one.
    pub(super) label: String,
    /// Its description.
    pub(super) shape: Shape,
    /// How it is used.
    pub(super) usage: Usage,
}

/// How a type is used; the last of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Usage {
    /// Only as the members of one kind of a union.
    Variant,
    /// As a value of its own.
    Value,
    /// As the members that all kinds of a union have.
    Base,
}

/// Collects the types that are reached from the roots.
pub(super) fn collect() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    // Shapes still to be looked at, the next one last.
    let mut todo: Vec<(Shape, Usage)> = super::roots().map(|shape| (shape(), Usage::Value)).collect();
    todo.reverse();
    while let Some((shape, usage)) = todo.pop() {
        let mut inner = Vec::new();
        if shape.name().is_some() {
            let label = label(&shape);
            if let Some(known) = places.get(&label).and_then(|place| entries.get_mut(*place)) {
                known.usage = known.usage.max(usage);
                continue;
            }
            places.insert(label.clone(), entries.len());
            entries.push(Entry { label, shape, usage });
        }
        match shape {
            Shape::Record(record) => inner.extend(record.members.iter().map(|member| ((member.shape)(), Usage::Value))),
            Shape::Union(union) => {
                inner.extend(union.base.map(|base| (Shape::Record(base), Usage::Base)));
                inner.extend(union.variants.iter().map(|variant| (Shape::Record(variant.record), Usage::Variant)));
            }
            Shape::Either(either) => inner.extend(either.forms().map(|form| (form, Usage::Value))),
            Shape::List(element) | Shape::Map(element) => inner.push((element(), Usage::Value)),
            Shape::Words(_) | Shape::Scalar(_) => {}
        }
        todo.extend(inner.into_iter().rev());
    }
    entries
}

/// The name of a type, unique among all types: what has no name of its own is named after what it holds.
pub(super) fn label(shape: &Shape) -> String {
    match shape {
        Shape::List(element) => format!("List.{}", label(&element())),
        Shape::Map(element) => format!("Map.{}", label(&element())),
        Shape::Record(RecordShape {
            name,
            parameter: Some(parameter),
            ..
        }) => {
            format!("{name}.{}", label(&(parameter.shape)()))
        }
        Shape::Scalar(scalar) => scalar.name().map_or_else(|| format!("{scalar:?}"), str::to_owned),
        named => named.name().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    /// Two types of one name would share one definition.
    #[test]
    fn names_are_unique() {
        let mut todo: Vec<Shape> = super::super::roots().map(|shape| shape()).collect();
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        while let Some(shape) = todo.pop() {
            let text = match shape {
                Shape::Record(record) => format!("{record:?}"),
                Shape::Union(union) => format!("{union:?}"),
                Shape::Words(words) => format!("{words:?}"),
                Shape::Either(either) => format!("{either:?}"),
                Shape::List(element) | Shape::Map(element) => {
                    todo.push(element());
                    continue;
                }
                Shape::Scalar(_) => continue,
            };
            // Addresses of functions may differ between two copies of one description.
            let text: String = text
                .split("0x")
                .map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
                .collect();
            if let Some(known) = seen.insert(label(&shape), text.clone()) {
                assert_eq!(known, text, "two types are called {}", label(&shape));
                continue;
            }
            match shape {
                Shape::Record(record) => todo.extend(record.members.iter().map(|m| (m.shape)())),
                Shape::Union(union) => {
                    todo.extend(union.base.map(Shape::Record));
                    todo.extend(union.variants.iter().map(|v| Shape::Record(v.record)));
                }
                Shape::Either(either) => todo.extend(either.forms()),
                _ => {}
            }
        }
        assert!(seen.len() > 150, "{}", seen.len());
    }
}
