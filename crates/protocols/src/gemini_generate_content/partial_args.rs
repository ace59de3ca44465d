//! Streamed arguments: values at paths (RFC 9535) become JSON text, piece by piece.
//!
//! The text so far is always the beginning of a JSON object. Values come in document order; one that goes back to what was
//! closed cannot be written any more: from there on nothing is streamed, and the whole object stands at the end.

use super::wire::PartialArg;
use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Arguments under construction.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    tree: Value,
    /// Path of the value that was written last, its containers open.
    last: Vec<Step>,
    /// Whether the text at `last` goes on.
    in_text: bool,
    begun: bool,
    /// Whether a value came out of order, so that the text written is not the beginning of the object.
    broken: bool,
}

impl Arguments {
    /// Takes a piece; gives the text that it adds. `None` when the piece says nothing that can be placed.
    pub(super) fn push(&mut self, piece: &PartialArg) -> Option<String> {
        let path = parse(piece.json_path.as_deref()?)?;
        let (value, is_text) = if let Some(text) = &piece.string_value {
            (Value::from(text.clone()), true)
        } else if let Some(number) = &piece.number_value {
            (number.parse(), false)
        } else if let Some(flag) = piece.bool_value {
            (Value::from(flag), false)
        } else if piece.null_value.is_some() {
            (Value::Null, false)
        } else if self.in_text && path == self.last {
            // Nothing but the end of a text.
            (Value::from(""), true)
        } else {
            return None;
        };
        let goes_on = piece.will_continue == Some(true);
        let appends = self.in_text && is_text && path == self.last;
        set(&mut self.tree, &path, value.clone(), appends);
        let mut out = String::new();
        if appends {
            out.push_str(&inner(&value));
            if !goes_on {
                out.push('"');
            }
        } else {
            self.move_to(&path, &mut out);
            if is_text && goes_on {
                out.push('"');
                out.push_str(&inner(&value));
            } else {
                out.push_str(&value.to_string());
            }
        }
        self.in_text = is_text && goes_on;
        self.last = path;
        Some(if self.broken { String::new() } else { out })
    }

    /// Closes what the last value leaves behind and opens what leads to the next one.
    fn move_to(&mut self, path: &[Step], out: &mut String) {
        if std::mem::take(&mut self.in_text) {
            out.push('"');
        }
        if !self.begun {
            self.begun = true;
            self.broken |= !matches!(path.first(), Some(Step::Key(_)));
            out.push('{');
            self.open(path, out);
            return;
        }
        let shared = self.last.iter().zip(path).take_while(|(a, b)| a == b).count();
        // The step at which both part ways must go forward in the same container.
        let forward = match (self.last.get(shared), path.get(shared)) {
            (Some(Step::Key(_)), Some(Step::Key(_))) => true,
            (Some(Step::Index(from)), Some(Step::Index(to))) => *to == from + 1,
            _ => false,
        };
        self.broken |= !forward;
        close(self.last.get(shared + 1..).unwrap_or_default(), out);
        out.push(',');
        self.open(path.get(shared..).unwrap_or_default(), out);
    }

    /// Opens the containers below a step: the first one stands in a container that is open.
    fn open(&mut self, steps: &[Step], out: &mut String) {
        for (n, step) in steps.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    if n > 0 {
                        out.push('{');
                    }
                    out.push_str(&Value::from(key.clone()).to_string());
                    out.push(':');
                }
                Step::Index(index) => {
                    if n > 0 {
                        self.broken |= *index != 0;
                        out.push('[');
                    }
                }
            }
        }
    }

    /// The end: what is still to be written, and the whole text.
    pub(super) fn finish(&mut self) -> (String, String) {
        let whole = if self.tree.is_null() {
            "{}".to_owned()
        } else {
            self.tree.to_string()
        };
        if self.broken {
            return (String::new(), whole);
        }
        if !self.begun {
            return ("{}".to_owned(), "{}".to_owned());
        }
        let mut out = String::new();
        if std::mem::take(&mut self.in_text) {
            out.push('"');
        }
        close(self.last.get(1..).unwrap_or_default(), &mut out);
        out.push('}');
        (out, whole)
    }
}

/// Closes the containers of these steps, the innermost first.
fn close(steps: &[Step], out: &mut String) {
    for step in steps.iter().rev() {
        out.push(match step {
            Step::Key(_) => '}',
            Step::Index(_) => ']',
        });
    }
}

/// Text as it stands between quotes.
fn inner(value: &Value) -> String {
    let quoted = value.to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// Most elements that an index may skip.
const MAX_INDEX: usize = 10_000;

fn set(tree: &mut Value, path: &[Step], value: Value, append: bool) {
    let mut place = tree;
    for step in path {
        place = match step {
            Step::Key(key) => {
                if !place.is_object() {
                    *place = Value::Object(serde_json::Map::new());
                }
                let Some(map) = place.as_object_mut() else { return };
                map.entry(key.clone()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                let Some(list) = place.as_array_mut().filter(|_| *index < MAX_INDEX) else {
                    return;
                };
                if list.len() <= *index {
                    list.resize(index + 1, Value::Null);
                }
                let Some(element) = list.get_mut(*index) else { return };
                element
            }
        };
    }
    match (place, &value) {
        (Value::String(old), Value::String(more)) if append => old.push_str(more),
        (place, _) => *place = value,
    }
}

/// The steps of a path such as `$.a.b[0]['c d']`; `None` when it is no such path.
fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, next) = after.split_at(end);
            if name.is_empty() {
                return None;
            }
            steps.push(Step::Key(name.to_owned()));
            rest = next;
        } else {
            let after = rest.strip_prefix('[')?;
            if let Some(quote) = after.chars().next().filter(|c| matches!(c, '\'' | '"')) {
                let (key, next) = quoted(after.get(1..)?, quote)?;
                steps.push(Step::Key(key));
                rest = next.strip_prefix(']')?;
            } else {
                let (index, next) = after.split_once(']')?;
                steps.push(Step::Index(index.parse().ok()?));
                rest = next;
            }
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// A quoted name and what stands behind it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            c if c == quote => return Some((name, text.get(at + c.len_utf8()..)?)),
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn piece(path: &str, value: &Value, goes_on: bool) -> PartialArg {
        let text = serde_json::json!({
            "jsonPath": path,
            "stringValue": value.as_str(),
            "numberValue": value.as_number(),
            "boolValue": value.as_bool(),
            "nullValue": value.is_null().then_some("NULL_VALUE"),
            "willContinue": goes_on.then_some(true),
        });
        serde_json::from_value(text).unwrap()
    }

    fn check(pieces: &[(&str, Value, bool)], whole: &str, streams: bool) {
        let mut arguments = Arguments::default();
        let mut text = String::new();
        for (path, value, goes_on) in pieces {
            text.push_str(&arguments.push(&piece(path, value, *goes_on)).unwrap());
        }
        let (rest, made) = arguments.finish();
        text.push_str(&rest);
        assert_eq!(made, whole, "{pieces:?}");
        if streams {
            assert_eq!(text, whole, "{pieces:?}");
        }
    }

    #[test]
    fn pieces_join_to_the_object() {
        let v = |value: serde_json::Value| value;
        check(&[], "{}", true);
        check(
            &[
                ("$.a", v("x\"".into()), true),
                ("$.a", v("ü".into()), true),
                ("$.a", v("".into()), false),
            ],
            r#"{"a":"x\"ü"}"#,
            true,
        );
        check(
            &[
                ("$.a", v(1.into()), false),
                ("$.b.c", v(true.into()), false),
                ("$.d", Value::Null, false),
            ],
            r#"{"a":1,"b":{"c":true},"d":null}"#,
            true,
        );
        check(
            &[
                ("$.l[0].x", v("1".into()), true),
                ("$.l[0].y", v(2.into()), false),
                ("$.l[1].x", v("3".into()), false),
                ("$['a b'][0][0]", v(4.into()), false),
            ],
            r#"{"l":[{"x":"1","y":2},{"x":"3"}],"a b":[[4]]}"#,
            true,
        );
        check(
            &[
                ("$.a.b", v(1.into()), false),
                ("$.c", v(2.into()), false),
                ("$.a.d", v(3.into()), false),
            ],
            r#"{"a":{"b":1,"d":3},"c":2}"#,
            false,
        );
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in ["", "$", "a", "$.", "$[", "$[x]", "$['a"] {
            assert_eq!(parse(path), None, "{path}");
        }
    }
}
