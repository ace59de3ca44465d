//! The comparisons that `pointer`, `count`, `each` and the questions to a store share.

use crate::query::{compact, equal};
use regex::Regex;
use serde_json::Value;

/// Names of the comparisons; a check without any of them would be true of everything.
pub(crate) const WORDS: [&str; 14] = [
    "present",
    "absent",
    "not_in",
    "equals",
    "not_equals",
    "one_of",
    "matches",
    "contains",
    "not_contains",
    "length",
    "max_length",
    "same_set",
    "at_least",
    "at_most",
];

/// Why the value does not fit, or `None` when every comparison of the check holds.
pub(crate) fn problem(value: Option<&Value>, check: &Value) -> Option<String> {
    let Some(members) = check.as_object() else {
        return Some("the check is no object".to_owned());
    };
    let mut compared = false;
    for word in WORDS {
        if let Some(wanted) = members.get(word) {
            compared = true;
            if let Some(found) = one(word, value, wanted) {
                return Some(found);
            }
        }
    }
    (!compared).then(|| "the check compares nothing".to_owned())
}

fn shown(value: &Value) -> String {
    compact(value).chars().take(160).collect()
}

fn one(word: &str, value: Option<&Value>, wanted: &Value) -> Option<String> {
    let unless = |holds: bool, text: String| (!holds).then_some(text);
    let Some(value) = value else {
        return match word {
            "absent" | "not_in" => None,
            _ => Some("is missing".to_owned()),
        };
    };
    let among = |list: &Value| list.as_array().is_some_and(|l| l.iter().any(|w| equal(value, w)));
    let is = || format!("is {}", shown(value));
    let text = value.as_str().map_or_else(|| compact(value), str::to_owned);
    let length = match value {
        Value::Array(a) => Some(a.len()),
        Value::Object(o) => Some(o.len()),
        Value::String(s) => Some(s.chars().count()),
        _ => None,
    };
    let limit = |least: bool| match (value.as_f64(), wanted.as_f64()) {
        (Some(a), Some(b)) => {
            if least {
                a >= b
            } else {
                a <= b
            }
        }
        _ => false,
    };
    match word {
        "present" => None,
        "absent" => Some(format!("is there: {}", shown(value))),
        "not_in" => unless(!among(wanted), is()),
        "equals" => unless(equal(value, wanted), format!("{}, expected {}", is(), shown(wanted))),
        "not_equals" => unless(!equal(value, wanted), is()),
        "one_of" => unless(among(wanted), format!("{}, expected one of {}", is(), shown(wanted))),
        "matches" => match wanted.as_str().map(Regex::new) {
            Some(Ok(pattern)) => unless(
                value.as_str().is_some_and(|s| pattern.is_match(s)),
                format!("{}, expected a match of {wanted}", is()),
            ),
            _ => Some(format!("{wanted} is no regular expression")),
        },
        "contains" => unless(
            text.contains(wanted.as_str().unwrap_or("\0")),
            format!("lacks {wanted}: {}", shown(value)),
        ),
        "not_contains" => unless(wanted.as_str().is_some_and(|w| !text.contains(w)), format!("contains {wanted}")),
        "length" => unless(
            length.is_some() && length.map(|l| l as u64) == wanted.as_u64(),
            format!("has length {length:?}, expected {wanted}: {}", shown(value)),
        ),
        "max_length" => unless(
            matches!((length, wanted.as_u64()), (Some(l), Some(w)) if l as u64 <= w),
            format!("has length {length:?}, at most {wanted}"),
        ),
        "same_set" => unless(same_set(value, wanted), format!("{}, expected the set {}", is(), shown(wanted))),
        "at_least" => unless(limit(true), format!("{}, at least {wanted} expected", is())),
        _ => unless(limit(false), format!("{}, at most {wanted} expected", is())),
    }
}

/// Two lists with the same elements, in any order.
pub(crate) fn same_set(a: &Value, b: &Value) -> bool {
    let sorted = |list: &Value| {
        let mut texts: Vec<String> = list.as_array()?.iter().map(compact).collect();
        texts.sort();
        Some(texts)
    };
    sorted(a).is_some() && sorted(a) == sorted(b)
}
