//! Usage counters, both ways.

use super::kept::{json, object};
use super::wire::Usage;
use throughline_format::json::UserMap;
use throughline_format::usage::UnifiedUsageCounters;
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
            ]
        })
        .filter_map(|(kind, value)| Some((kind.as_str().to_owned(), UnifiedCounter::reported(value?))))
        .collect();
    UnifiedUsageCounters {
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

/// The word of the wire for a class of service that an answer reports.
pub(super) fn service_tier(word: &str) -> Option<&'static str> {
    match word {
        "standard" | "default" => Some("standard"),
        "priority" => Some("priority"),
        "batch" => Some("batch"),
        _ => None,
    }
}

/// Usage as the wire says it. The type demands input and output: unknown is written as zero, and the second value tells so.
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
            let life = |key: &str| map.0.get(key).map_or(0.0, |c| c.value);
            object(vec![
                ("ephemeral_5m_input_tokens".into(), number(life("300"))),
                ("ephemeral_1h_input_tokens".into(), number(life("3600"))),
            ])
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
            let calls = |kind: &UnifiedToolType| map.0.get(kind.as_str()).map_or(0.0, |c| c.value);
            object(vec![
                ("web_search_requests".into(), number(calls(&UnifiedToolType::WebSearch))),
                ("web_fetch_requests".into(), number(calls(&UnifiedToolType::WebFetch))),
            ])
        }),
    );
    (object(members), input.is_none() || output.is_none())
}

/// A count as a whole number.
fn number(value: f64) -> Json {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts are whole and far inside the range
    let whole = value.max(0.0) as u64;
    json(&whole)
}
