//! Usage counters, both ways.

use super::wire::Usage;
use crate::raw::{json, object};
use throughline_format::json::UserMap;
use throughline_format::usage::{UnifiedUsageCounters, UsageScope, UsageSource};
use throughline_format::{Json, UnifiedCounter, UnifiedToolType, UnifiedUsage};

/// Usage as the record says it; what it cannot say is in the private copy. A total is derived from the last report only:
/// before it the output is still being counted.
pub(super) fn decode(raw: &Json, last: bool) -> UnifiedUsage {
    let Ok(wire) = raw.decode::<Usage>() else {
        return UnifiedUsageCounters::default();
    };
    let reported = |value: Option<f64>| value.map(UnifiedCounter::reported);
    let (read, write) = (wire.cache_read_input_tokens, wire.cache_creation_input_tokens);
    // A sum is derived from what was told. Servers without a cache leave both fields out: then all input is uncached.
    let total = match (wire.input_tokens, read, write) {
        (Some(input), Some(read), Some(write)) => Some(input + read + write),
        (Some(input), None, None) => Some(input),
        _ => None,
    };
    let ttl: UserMap<_> = wire
        .cache_creation
        .iter()
        .flat_map(|c| [("300", c.ephemeral_5m_input_tokens), ("3600", c.ephemeral_1h_input_tokens)])
        .filter_map(|(seconds, value)| Some((seconds.to_owned(), UnifiedCounter::reported(value?))))
        .collect();
    let hosted: UserMap<_> = wire
        .server_tool_use
        .iter()
        .flat_map(|s| {
            [
                (UnifiedToolType::WebSearch, s.web_search_requests),
                (UnifiedToolType::WebFetch, s.web_fetch_requests),
                (UnifiedToolType::CodeExecution, s.code_execution_requests),
                (UnifiedToolType::ToolSearch, s.tool_search_requests),
            ]
        })
        .filter_map(|(kind, value)| Some((kind.as_str().to_owned(), UnifiedCounter::reported(value?))))
        .collect();
    let iterations: Option<Vec<Usage>> = wire.iterations.as_ref().and_then(|list| list.decode().ok());
    let others = iterations.as_deref().and_then(operation);
    UnifiedUsageCounters {
        others: others.map(|sum| vec![sum]),
        input_total: total.map(UnifiedCounter::derived),
        input_uncached: reported(wire.input_tokens),
        cache_read: reported(read),
        cache_write: reported(write),
        output_total: reported(wire.output_tokens),
        reasoning: reported(wire.output_tokens_details.and_then(|d| d.thinking_tokens)),
        total: total
            .filter(|_| last)
            .zip(wire.output_tokens)
            .map(|(input, output)| UnifiedCounter::derived(input + output)),
        cache_write_by_ttl: (!ttl.is_empty()).then_some(ttl),
        server_tool_calls: (!hosted.is_empty()).then_some(hosted),
        ..UnifiedUsageCounters::default()
    }
}

/// What all iterations of an answer took together, when some of them are no part of the message: compaction, an advisor, another
/// model. The message's own figures leave them out.
fn operation(iterations: &[Usage]) -> Option<UnifiedUsageCounters> {
    let beside = |usage: &Usage| {
        let kind = usage.extra.0.iter().find(|(key, _)| key == "type");
        kind.is_some_and(|(_, kind)| kind.as_str() != "\"message\"")
    };
    if !iterations.iter().any(beside) {
        return None;
    }
    // A sum is known when every summand is.
    let sum = |figure: fn(&Usage) -> Option<f64>| {
        let total: Option<f64> = iterations.iter().map(figure).sum();
        total.map(|value| UnifiedCounter {
            value,
            scope: UsageScope::Operation,
            source: UsageSource::Derived,
        })
    };
    Some(UnifiedUsageCounters {
        input_uncached: sum(|usage| usage.input_tokens),
        cache_read: sum(|usage| usage.cache_read_input_tokens),
        cache_write: sum(|usage| usage.cache_creation_input_tokens),
        output_total: sum(|usage| usage.output_tokens),
        ..UnifiedUsageCounters::default()
    })
}

/// Members of a usage that no counter and no other word of the record says.
pub(super) fn unsaid(usage: &[(String, Json)]) -> Vec<&str> {
    const SAID: &[&str] = &[
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cache_creation",
        "output_tokens",
        "output_tokens_details",
        "server_tool_use",
        "service_tier",
    ];
    let members = usage.iter().map(|(key, _)| key.as_str());
    members.filter(|key| !SAID.contains(key)).collect()
}

/// The word of the wire for a class of service that an answer reports.
pub(super) fn service_tier(word: &str) -> Option<&'static str> {
    match word {
        "standard" | "default" => Some("standard"),
        "priority" => Some("priority"),
        "batch" => Some("batch"),
        _ => None,
    }
}

/// Counters that the wire has no place for.
pub(super) fn unsayable(usage: &UnifiedUsage) -> Vec<(String, &'static str)> {
    let how = "the wire has no such counter";
    let members = [
        ("toolPrompt", usage.tool_prompt.is_some()),
        ("acceptedPrediction", usage.accepted_prediction.is_some()),
        ("rejectedPrediction", usage.rejected_prediction.is_some()),
        ("inputByModality", usage.input_by_modality.is_some()),
        ("outputByModality", usage.output_by_modality.is_some()),
        ("cacheReadByModality", usage.cache_read_by_modality.is_some()),
        ("toolPromptByModality", usage.tool_prompt_by_modality.is_some()),
        ("cost", usage.cost.is_some()),
        ("others", usage.others.is_some()),
    ];
    let mut found: Vec<_> = members
        .into_iter()
        .filter(|(_, is)| *is)
        .map(|(member, _)| (member.to_owned(), how))
        .collect();
    let maps = [
        ("cacheWriteByTtl", usage.cache_write_by_ttl.as_ref(), &["300", "3600"][..]),
        (
            "serverToolCalls",
            usage.server_tool_calls.as_ref(),
            &["web-search", "web-fetch", "code-execution", "tool-search"],
        ),
    ];
    for (member, map, known) in maps {
        for (key, _) in map.iter().flat_map(|map| &map.0).filter(|(key, _)| !known.contains(&key.as_str())) {
            found.push((format!("{member}/{}", throughline_format::json::escape_pointer_token(key)), how));
        }
    }
    found
}

/// Usage as the wire says it. Of all counters the type demands input and output: there zero has to stand for what nobody knows, and the
/// second value tells so.
pub(super) fn encode(usage: Option<&UnifiedUsage>) -> (Json, bool) {
    let none = UnifiedUsageCounters::default();
    let usage = usage.unwrap_or(&none);
    let value = |counter: Option<UnifiedCounter>| counter.map(|c| c.value);
    let (read, write) = (value(usage.cache_read), value(usage.cache_write));
    let input = value(usage.input_uncached)
        .or_else(|| value(usage.input_total).map(|total| (total - read.unwrap_or(0.0) - write.unwrap_or(0.0)).max(0.0)));
    let output = value(usage.output_total);
    let mut members = vec![("input_tokens".to_owned(), number(input.unwrap_or(0.0)))];
    let mut add = |key: &str, value: Option<Json>| members.extend(value.map(|v| (key.to_owned(), v)));
    add("cache_creation_input_tokens", write.map(number));
    add("cache_read_input_tokens", read.map(number));
    add(
        "cache_creation",
        usage.cache_write_by_ttl.as_ref().map(|map| {
            let lives = [("ephemeral_5m_input_tokens", "300"), ("ephemeral_1h_input_tokens", "3600")];
            object(known(map, &lives))
        }),
    );
    add("output_tokens", Some(number(output.unwrap_or(0.0))));
    add(
        "output_tokens_details",
        usage.reasoning.map(|c| object(vec![("thinking_tokens".into(), number(c.value))])),
    );
    add(
        "server_tool_use",
        usage.server_tool_calls.as_ref().map(|map| {
            let calls = [
                ("web_search_requests", "web-search"),
                ("web_fetch_requests", "web-fetch"),
                ("code_execution_requests", "code-execution"),
                ("tool_search_requests", "tool-search"),
            ];
            object(known(map, &calls))
        }),
    );
    (object(members), input.is_none() || output.is_none())
}

/// Those counters of a map that are known, under their names on the wire.
fn known(map: &UserMap<UnifiedCounter>, names: &[(&str, &str)]) -> Vec<(String, Json)> {
    let given = |(name, key): &(&str, &str)| Some(((*name).to_owned(), number(map.0.get(*key)?.value)));
    names.iter().filter_map(given).collect()
}

/// A count as a whole number.
fn number(value: f64) -> Json {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts are whole and far inside the range
    let whole = value.max(0.0) as u64;
    json(&whole)
}
