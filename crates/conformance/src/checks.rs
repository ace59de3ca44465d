//! One function per check. Each gives `Ok` when it holds.

use crate::compare;
use crate::emitted;
use crate::evidence::{Again, Evidence};
use crate::fold_check;
use crate::fold_view::FoldView;
use crate::invariants;
use crate::query::{at, compact, count_keys, equal, fits, has_text, select};
use crate::report::Verdict;
use regex::RegexBuilder;
use serde_json::Value;
use std::collections::BTreeSet;
use throughline_format::{LossDisposition, UnifiedError};

/// Why a check does not hold.
pub(crate) enum Miss {
    /// It is false.
    False(String),
    /// It could not be run.
    NotRun(String),
}

pub(crate) type Outcome = Result<(), Miss>;

pub(crate) fn fail<T>(why: impl Into<String>) -> Result<T, Miss> {
    Err(Miss::False(why.into()))
}

pub(crate) fn not_run<T>(why: impl Into<String>) -> Result<T, Miss> {
    Err(Miss::NotRun(why.into()))
}

/// `problem` as an outcome, with what it is about.
fn outcome(about: &str, problem: Option<String>) -> Outcome {
    problem.map_or(Ok(()), |p| fail(format!("{about} {p}")))
}

type Handler = fn(&Value, &Value, &Evidence<'_>) -> Outcome;

/// Checks by the member that names them. The first that a check has decides; the others are its operands.
const HANDLERS: &[(&str, Handler)] = &[
    ("pointer", pointer),
    ("count", count),
    ("count_keys", keys),
    ("nowhere", nowhere),
    ("somewhere", somewhere),
    ("text_order", text_order),
    ("text_count", text_count),
    ("unique", unique),
    ("unique_where", unique_where),
    ("each", each),
    ("find", find),
    ("distinct", distinct),
    ("pair", pair),
    ("json_string", json_string),
    ("sequence", sequence),
    ("joined_text", joined_text),
    ("joined_partial_json", joined_partial_json),
    ("last_finish_reason", last_finish_reason),
    ("invariant", invariant),
    ("loss", loss),
    ("fold", fold),
    ("fold_not_contains", fold_not_contains),
    ("canonical", canonical),
    ("chunking", chunking),
    ("replay", replay),
    ("repeatable", repeatable),
    ("roundtrip", roundtrip),
    ("terminal_events", terminal_events),
    ("as_next_request", as_next_request),
    ("second_target", second_target),
    ("any_of", any_of),
    ("op_result", op_result),
    ("error_path_contains", error_path_contains),
    ("parents", parents),
    ("size_at_most", size_at_most),
];

/// The members that name a check on a projection or fold; questions to a store are named by `ask`.
pub fn names() -> impl Iterator<Item = &'static str> {
    HANDLERS.iter().map(|(name, _)| *name)
}

/// Runs one check.
pub(crate) fn evaluate(check: &Value, evidence: &Evidence<'_>) -> Verdict {
    match run(check, evidence) {
        Ok(()) => Verdict::Pass,
        Err(Miss::False(why)) => Verdict::Fail(why),
        Err(Miss::NotRun(why)) => Verdict::NotRun(why),
    }
}

fn run(check: &Value, evidence: &Evidence<'_>) -> Outcome {
    let named = HANDLERS.iter().find_map(|(name, handler)| Some((check.get(*name)?, handler)));
    let Some((operand, handler)) = named else {
        let names: Vec<&String> = check.as_object().map(|o| o.keys().collect()).unwrap_or_default();
        return not_run(format!("no check has these members: {names:?}"));
    };
    handler(operand, check, evidence)
}

/// The projection; a check on it fails when there is none.
fn output<'a>(evidence: &'a Evidence<'_>) -> Result<&'a Value, Miss> {
    if let Some(why) = &evidence.unprojected {
        return not_run(why.as_str());
    }
    evidence
        .output
        .as_ref()
        .map_or_else(|| fail(format!("there is no output ({})", evidence.absence())), Ok)
}

fn text(operand: &Value) -> Result<&str, Miss> {
    operand.as_str().map_or_else(|| not_run(format!("{operand} is no text")), Ok)
}

fn list(operand: &Value) -> Result<&Vec<Value>, Miss> {
    operand.as_array().map_or_else(|| not_run(format!("{operand} is no list")), Ok)
}

fn member<'a>(operand: &'a Value, name: &str) -> Result<&'a Value, Miss> {
    operand.get(name).map_or_else(|| not_run(format!("the check has no {name}")), Ok)
}

/// The values at `path` that contain all of `where`.
fn matches<'a>(output: &'a Value, spec: &Value) -> Result<Vec<&'a Value>, Miss> {
    let path = text(member(spec, "path")?)?;
    let pattern = spec.get("where").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let all_of = pattern.as_object().is_some_and(serde_json::Map::is_empty);
    let found = select(output, path).into_iter();
    Ok(found.filter(|v| all_of || fits(Some(v), &pattern)).collect())
}

fn pointer(operand: &Value, check: &Value, evidence: &Evidence<'_>) -> Outcome {
    let pointer = text(operand)?;
    outcome(pointer, compare::problem(at(output(evidence)?, pointer), check))
}

fn count(operand: &Value, check: &Value, evidence: &Evidence<'_>) -> Outcome {
    let number = matches(output(evidence)?, operand)?.len();
    outcome(&format!("the count of {operand}"), compare::problem(Some(&number.into()), check))
}

fn keys(operand: &Value, check: &Value, evidence: &Evidence<'_>) -> Outcome {
    let number = count_keys(output(evidence)?, text(operand)?);
    outcome(
        &format!("the count of keys {operand}"),
        compare::problem(Some(&number.into()), check),
    )
}

fn nowhere(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if compact(output(evidence)?).contains(text(operand)?) {
        fail(format!("{operand} occurs"))
    } else {
        Ok(())
    }
}

fn somewhere(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if compact(output(evidence)?).contains(text(operand)?) {
        Ok(())
    } else {
        fail(format!("{operand} does not occur"))
    }
}

fn text_order(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let written = compact(output(evidence)?);
    let mut rest = written.as_str();
    for wanted in list(operand)? {
        let quoted = compact(wanted);
        let inner = quoted.trim_matches('"');
        match rest.split_once(inner) {
            Some((_, after)) => rest = after,
            None => return fail(format!("{wanted} is missing or out of order")),
        }
    }
    Ok(())
}

fn text_count(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let wanted = text(member(operand, "text")?)?;
    let leaves = match (&evidence.canonical, &evidence.unified) {
        (Some(canonical), _) => canonical.get("leaves").and_then(Value::as_array).cloned().unwrap_or_default(),
        (None, Some(unified)) => FoldView::new(unified).leaves(),
        (None, None) => return fail(format!("there is no fold ({})", evidence.absence())),
    };
    let found = leaves
        .iter()
        .filter(|leaf| leaf.get(1).and_then(Value::as_str) == Some(wanted))
        .count();
    outcome(&format!("the count of {wanted:?}"), compare::problem(Some(&found.into()), operand))
}

fn all_differ(what: &str, values: Vec<String>) -> Outcome {
    let number = values.len();
    let different: BTreeSet<String> = values.into_iter().collect();
    if different.len() == number {
        Ok(())
    } else {
        fail(format!("{what} repeats; {} of {number} differ", different.len()))
    }
}

fn unique(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let path = text(operand)?;
    all_differ(path, select(output(evidence)?, path).into_iter().map(compact).collect())
}

fn unique_where(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let field = text(member(operand, "field")?)?;
    let found = matches(output(evidence)?, operand)?;
    all_differ(
        field,
        found
            .into_iter()
            .map(|v| at(v, &format!("/{field}")).map(compact).unwrap_or_default())
            .collect(),
    )
}

fn each(operand: &Value, check: &Value, evidence: &Evidence<'_>) -> Outcome {
    let found = matches(output(evidence)?, operand)?;
    if found.is_empty() {
        return fail("nothing matches");
    }
    let field = check.get("field").or_else(|| operand.get("field"));
    for value in found {
        match field {
            Some(field) => outcome(text(field)?, compare::problem(at(value, &format!("/{}", text(field)?)), check))?,
            None => outcome("a match", compare::problem(Some(value), check))?,
        }
    }
    Ok(())
}

fn find(operand: &Value, check: &Value, evidence: &Evidence<'_>) -> Outcome {
    let (found, expected) = (matches(output(evidence)?, operand)?, member(check, "expect")?);
    if found.iter().any(|v| fits(Some(v), expected)) {
        return Ok(());
    }
    let shown: String = found
        .iter()
        .map(|v| compact(v))
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(300)
        .collect();
    fail(format!("{} candidates, none fits {expected}: {shown}", found.len()))
}

fn distinct(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let found: BTreeSet<String> = select(output(evidence)?, text(member(operand, "path")?)?)
        .into_iter()
        .map(compact)
        .collect();
    let wanted: BTreeSet<String> = list(member(operand, "equals")?)?.iter().map(compact).collect();
    if found == wanted {
        Ok(())
    } else {
        fail(format!("the distinct values are {found:?}, expected {wanted:?}"))
    }
}

fn pair(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let output = output(evidence)?;
    let (call, result) = (member(operand, "call")?, member(operand, "result")?);
    let calls = matches(output, call)?;
    let [one] = calls.as_slice() else {
        return fail(format!("{} calls match", calls.len()));
    };
    let call_id = at(one, &format!("/{}", text(member(call, "id")?)?));
    let id_of_result = format!("/{}", text(member(result, "id")?)?);
    let results: Vec<&Value> = matches(output, result)?
        .into_iter()
        .filter(|r| call_id.is_some() && at(r, &id_of_result) == call_id)
        .collect();
    let [one] = results.as_slice() else {
        return fail(format!("{} results for call {call_id:?}", results.len()));
    };
    let wanted = text(
        operand
            .get("result_contains")
            .or_else(|| result.get("result_contains"))
            .unwrap_or(&Value::Null),
    )?;
    if compact(one).contains(wanted) {
        Ok(())
    } else {
        fail(format!("the result of {call_id:?} lacks {wanted:?}"))
    }
}

fn json_string(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let (found, field) = (matches(output(evidence)?, operand)?, text(member(operand, "field")?)?);
    let wanted = member(operand, "equals")?;
    if found.is_empty() {
        return fail("nothing matches");
    }
    for value in found {
        let written = at(value, &format!("/{field}")).and_then(Value::as_str);
        let parsed = written.and_then(|t| serde_json::from_str::<Value>(t).ok());
        if !parsed.is_some_and(|p| equal(&p, wanted)) {
            return fail(format!("{field} is {written:?}"));
        }
    }
    Ok(())
}

fn sequence(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let mut elements = list(output(evidence)?)?.iter();
    for wanted in list(operand)? {
        if !elements.any(|e| fits(Some(e), wanted)) {
            return fail(format!("no element for {wanted} at its place"));
        }
    }
    Ok(())
}

fn joined_text(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let joined = emitted::text(output(evidence)?);
    if Some(joined.as_str()) == operand.as_str() {
        Ok(())
    } else {
        fail(format!("the joined text is {joined:?}"))
    }
}

fn joined_partial_json(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let joined = emitted::arguments(output(evidence)?);
    let Some(wanted) = operand.as_object() else {
        return not_run("joined_partial_json is no object");
    };
    for (name, wanted) in wanted {
        let Some(text) = joined.get(name) else {
            return fail(format!("no arguments for {name}"));
        };
        let parsed: Option<Value> = serde_json::from_str(if text.is_empty() { "{}" } else { text }).ok();
        if !parsed.is_some_and(|p| equal(&p, wanted)) {
            return fail(format!("the arguments of {name} are {text}"));
        }
    }
    Ok(())
}

fn last_finish_reason(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let last = select(output(evidence)?, "/*/choices/*/finish_reason")
        .into_iter()
        .rfind(|v| !v.is_null());
    if last == Some(operand) {
        Ok(())
    } else {
        fail(format!("the last finish reason is {last:?}"))
    }
}

fn invariant(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let name = text(operand)?;
    match invariants::named(name) {
        None => not_run(format!("no invariant is called {name}")),
        Some(rule) => outcome(&format!("{name}:"), rule(output(evidence)?)),
    }
}

fn loss(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if let Some(unknown) = operand
        .as_object()
        .into_iter()
        .flatten()
        .find(|(k, _)| !["disposition", "feature"].contains(&k.as_str()))
    {
        return not_run(format!("a loss has no {}", unknown.0));
    }
    if let Some(why) = &evidence.unprojected {
        return not_run(why.as_str());
    }
    if evidence.losses.is_empty() {
        return fail(format!("there is no loss report ({})", evidence.absence()));
    }
    let rank = |d: LossDisposition| ["lossless", "degraded", "unsupported"].iter().position(|w| *w == d.as_str());
    let worst = evidence.losses.iter().map(|r| r.disposition).max_by_key(|d| rank(*d));
    if let (Some(wanted), Some(worst)) = (operand.get("disposition"), worst)
        && wanted.as_str() != Some(worst.as_str())
    {
        return fail(format!("the disposition is {}, expected {wanted}", worst.as_str()));
    }
    let Some(feature) = operand.get("feature") else { return Ok(()) };
    let Ok(pattern) = RegexBuilder::new(text(feature)?).case_insensitive(true).build() else {
        return not_run(format!("{feature} is no regular expression"));
    };
    let entries = || evidence.losses.iter().flat_map(|r| &r.entries);
    if entries().any(|e| [&e.feature, &e.path, &e.reason].iter().any(|t| pattern.is_match(t))) {
        return Ok(());
    }
    fail(format!(
        "no entry for {feature}: {:?}",
        entries().map(|e| e.feature.as_str()).collect::<Vec<_>>()
    ))
}

fn fold(operand: &Value, check: &Value, evidence: &Evidence<'_>) -> Outcome {
    let source = match check.get("fold_of") {
        Some(name) => match evidence.folds.get(text(name)?) {
            Some(fold) => fold,
            None => return not_run(format!("there is no fold of {name}")),
        },
        None => match &evidence.unified {
            Some(unified) => unified,
            None => return fail(format!("there is no fold ({})", evidence.absence())),
        },
    };
    fold_check::check(&FoldView::new(source), operand)
}

fn fold_not_contains(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let wanted = text(operand)?;
    match &evidence.unified {
        None => fail(format!("there is no fold ({})", evidence.absence())),
        Some(unified) if has_text(unified, wanted) => fail(format!("a text of the fold contains {wanted:?}")),
        Some(_) => Ok(()),
    }
}

fn canonical(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    match &evidence.canonical {
        None => not_run("only transcripts have canonical leaves"),
        Some(canonical) => fold_check::check_canonical(canonical, operand),
    }
}

fn chunking(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if text(operand)? != "invariant" {
        return not_run(format!("chunking {operand} is not known"));
    }
    let found = asked(evidence.chunkings.as_ref(), "only a stream can be cut")?;
    let different: BTreeSet<&String> = found.values().collect();
    if different.len() == 1 {
        Ok(())
    } else {
        fail(format!("the folds differ: {found:?}"))
    }
}

fn replay(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if text(operand)? != "idempotent" {
        return not_run(format!("replay {operand} is not known"));
    }
    changed(asked(evidence.replay.as_ref(), "there are no events to replay")?)
}

fn roundtrip(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if text(operand)? != "store" {
        return not_run(format!("roundtrip {operand} is not known"));
    }
    changed(asked(evidence.roundtrip.as_ref(), "there is nothing to store")?)
}

fn changed(what: Option<String>) -> Outcome {
    what.map_or(Ok(()), fail)
}

fn repeatable(_: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let first = output(evidence)?;
    match asked(evidence.repeat.as_ref(), "there is nothing to repeat")? {
        Some(second) if equal(&second, first) => Ok(()),
        _ => fail("the second projection differs"),
    }
}

fn asked<T>(again: Option<&Again<'_, T>>, why_not: &str) -> Result<T, Miss> {
    match again {
        None => not_run(why_not),
        Some(again) => again().or_else(not_run),
    }
}

fn terminal_events(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    match evidence.terminal_events {
        None => not_run("there is no operation"),
        Some(found) if operand.as_u64() == Some(found as u64) => Ok(()),
        Some(found) => fail(format!("{found} terminal events")),
    }
}

fn as_next_request(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    nested(operand, &asked(evidence.next_request.as_ref(), "there is no next request")?)
}

fn second_target(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    nested(operand, &asked(evidence.second.as_ref(), "the case names no second target")?)
}

/// Checks on another projection: given as a list, or below `checks`.
fn nested(operand: &Value, evidence: &Evidence<'_>) -> Outcome {
    let checks = list(operand.get("checks").unwrap_or(operand))?;
    if checks.is_empty() {
        return not_run("there are no checks inside");
    }
    checks.iter().try_for_each(|check| run(check, evidence))
}

fn any_of(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let mut reasons = Vec::new();
    let mut open = None;
    for alternative in list(operand)? {
        match nested(alternative, evidence) {
            Ok(()) => return Ok(()),
            Err(Miss::False(why)) => reasons.push(why),
            Err(Miss::NotRun(why)) => open = Some(why),
        }
    }
    open.map_or_else(|| fail(format!("no alternative holds: {}", reasons.join(" | "))), not_run)
}

/// The word of the case format for an error.
pub(crate) fn op_word(error: &UnifiedError) -> String {
    let word = match error.code.as_str() {
        "storage.busy" | "storage.locked" => "busy",
        "storage.corrupt" => "corrupt",
        "storage.schema-too-new" => "schema-too-new",
        "invalid-request.cursor" => "invalid-cursor",
        "invalid-request.depth" | "invalid-request.too-deep" => "limit",
        code => match code.split('.').next().unwrap_or(code) {
            "limit" | "too-large" => "limit",
            "auth" | "permission" => "unauthorized",
            "conflict" => return "rejected".to_owned(),
            other => other,
        },
    };
    format!("error:{word}")
}

fn op_result(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if let Some(why) = &evidence.unprojected {
        return not_run(why.as_str());
    }
    let found = evidence.error.as_ref().map_or_else(|| "ok".to_owned(), op_word);
    if Some(found.as_str()) == operand.as_str() {
        Ok(())
    } else {
        fail(format!("the result is {found} ({})", evidence.absence()))
    }
}

fn error_path_contains(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let words: Vec<&str> = match operand {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        operand => vec![text(operand)?],
    };
    let path = evidence.error.as_ref().and_then(|e| e.field_path.as_deref()).unwrap_or_default();
    if words.iter().any(|w| path.contains(w)) {
        Ok(())
    } else {
        fail(format!("the path of the error is {path:?}"))
    }
}

fn parents(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    if text(operand)? != "single-line" {
        return not_run(format!("parents {operand} is not known"));
    }
    let lines: Vec<&Value> = list(output(evidence)?)?.iter().filter(|l| l.get("uuid").is_some()).collect();
    let broken = lines.windows(2).find_map(|pair| match pair {
        [a, b] if b.get("parentUuid") != a.get("uuid") => b.get("uuid"),
        _ => None,
    });
    broken.map_or(Ok(()), |uuid| fail(format!("the parent of {uuid} is not the line before")))
}

fn size_at_most(operand: &Value, _: &Value, evidence: &Evidence<'_>) -> Outcome {
    let size = compact(output(evidence)?).len();
    if operand.as_u64().is_some_and(|most| size as u64 <= most) {
        Ok(())
    } else {
        fail(format!("{size} bytes"))
    }
}
