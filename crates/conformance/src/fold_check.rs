//! What a case says of a fold, compared key by key.

use crate::checks::{Outcome, fail, not_run};
use crate::fold_view::FoldView;
use crate::query::{compact, equal};
use serde_json::Value;

/// Compares every neutral key that the check names.
pub(crate) fn check(view: &FoldView<'_>, wanted: &Value) -> Outcome {
    let Some(keys) = wanted.as_object().filter(|k| !k.is_empty()) else {
        return not_run("the check names nothing of the fold");
    };
    for (key, wanted) in keys {
        let Some(found) = view.value(key) else {
            return not_run(format!("a fold has no {key}"));
        };
        match key.as_str() {
            "usage" | "error" => members(key, &found, wanted)?,
            "tool_calls" | "citations" => entries(key, &found, wanted)?,
            "leaves" => leaves(&found, wanted)?,
            _ if equal(&found, wanted) => {}
            _ => return fail(format!("{key} is {}, expected {}", compact(&found), compact(wanted))),
        }
    }
    Ok(())
}

/// The members that `wanted` has; `null` means unknown.
fn members(key: &str, found: &Value, wanted: &Value) -> Outcome {
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        let Some(have) = found.get(name) else {
            return if key == "error" && found.get("present").and_then(Value::as_bool) == Some(false) {
                fail("there is no error")
            } else {
                not_run(format!("{key} has no {name}"))
            };
        };
        if !equal(have, wanted) {
            return fail(format!("{key} {name} is {}, expected {}", compact(have), compact(wanted)));
        }
    }
    Ok(())
}

fn entries(key: &str, found: &Value, wanted: &Value) -> Outcome {
    let (empty, Some(wanted)) = (Vec::new(), wanted.as_array()) else {
        return not_run(format!("{key} is no list"));
    };
    let found = found.as_array().unwrap_or(&empty);
    if found.len() != wanted.len() {
        return fail(format!(
            "{key} has {} entries, expected {}: {}",
            found.len(),
            wanted.len(),
            compact(&Value::Array(found.clone()))
        ));
    }
    for (number, (have, want)) in found.iter().zip(wanted).enumerate() {
        for (name, value) in want.as_object().into_iter().flatten() {
            let (name, negated) = name.strip_suffix("_not").map_or((name.as_str(), false), |n| (n, true));
            match have.get(name) {
                None => return not_run(format!("{key} have no {name}")),
                Some(have) if equal(have, value) == negated => {
                    let but = if negated { "which it must not be" } else { "expected" };
                    return fail(format!("{key} {number}: {name} is {}, {but} {}", compact(have), compact(value)));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn leaves(found: &Value, wanted: &Value) -> Outcome {
    let empty = Vec::new();
    let (have, want) = (found.as_array().unwrap_or(&empty), wanted.as_array().unwrap_or(&empty));
    let same = have.len() == want.len()
        && have
            .iter()
            .zip(want)
            .all(|(h, w)| h.get(0) == w.get(0) && (w.get(1) == Some(&Value::from("*")) || h.get(1) == w.get(1)));
    if same {
        Ok(())
    } else {
        fail(format!("the leaves are {}, expected {}", compact(found), compact(wanted)))
    }
}

/// What a case says of a transcript.
pub(crate) fn check_canonical(found: &Value, wanted: &Value) -> Outcome {
    let Some(keys) = wanted.as_object().filter(|k| !k.is_empty()) else {
        return not_run("the check names nothing of the transcript");
    };
    for (key, wanted) in keys {
        let of = |name: &str| found.get(name).cloned().unwrap_or(Value::Null);
        match key.as_str() {
            "leaves" => leaves(&of("leaves"), wanted)?,
            "usage_sum" => members(key, &of(key), wanted)?,
            // Every leaf has the attribution, as far as the check names it.
            "attribution" => {
                let all = of(key);
                let each = all.as_array().filter(|a| !a.is_empty());
                let Some(each) = each else {
                    return fail("nothing has an attribution");
                };
                each.iter().try_for_each(|one| members(key, one, wanted))?;
            }
            "warnings_at_least" => {
                let number = of("warnings").as_u64().unwrap_or(0);
                if wanted.as_u64().is_none_or(|least| number < least) {
                    return fail(format!("{number} warnings, at least {wanted} expected"));
                }
            }
            "last_call_state" if equal(&of(key), wanted) => {}
            "last_call_state" => return fail(format!("the last call is {}, expected {wanted}", of(key))),
            _ => return not_run(format!("a transcript has no {key}")),
        }
    }
    Ok(())
}
