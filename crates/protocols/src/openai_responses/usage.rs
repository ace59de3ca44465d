//! Usage and endings, both ways.

use super::wire::Node;
use crate::turn_usage;
use std::collections::BTreeMap;
use throughline_format::json::UserMap;
use throughline_format::status::ResponseState;
use throughline_format::usage::{CostKind, UnifiedCost, UsageScope, UsageSource};
use throughline_format::{UnifiedCounter, UnifiedFinishReason, UnifiedResponseStatus, UnifiedUsage};

/// What xAI counts a dollar in.
const TICKS_PER_USD: f64 = 10_000_000_000.0;

/// Counters of tools and the kinds that they count.
const TOOL_COUNTERS: &[(&str, &str)] = &[
    ("web_search_calls", "web-search"),
    ("x_search_calls", "x-search"),
    ("code_interpreter_calls", "code-execution"),
    ("file_search_calls", "file-search"),
    ("mcp_calls", "mcp"),
    ("document_search_calls", "retrieval"),
    ("image_generation_calls", "image-generation"),
];

/// The counters of a response; absent stays unknown.
pub(super) fn decode(root: &Node) -> Option<UnifiedUsage> {
    let usage = root.get("usage");
    let number = |keys: &[&str]| -> Option<UnifiedCounter> {
        let value = usage?.at(keys)?.to_json().decode::<f64>().ok()?;
        Some(UnifiedCounter::reported(value))
    };
    let by_ttl: BTreeMap<String, UnifiedCounter> = [("ttl_30m_tokens", "1800"), ("ttl_12h_tokens", "43200")]
        .iter()
        .filter_map(|(key, ttl)| {
            let counter = number(&["input_tokens_details", "cache_write_tokens_details", key])?;
            Some(((*ttl).to_owned(), counter))
        })
        .collect();
    let mut found = UnifiedUsage {
        input_total: number(&["input_tokens"]),
        output_total: number(&["output_tokens"]),
        total: number(&["total_tokens"]),
        cache_read: number(&["input_tokens_details", "cached_tokens"]),
        cache_write: number(&["input_tokens_details", "cache_write_tokens"]),
        reasoning: number(&["output_tokens_details", "reasoning_tokens"]),
        cache_write_by_ttl: (!by_ttl.is_empty()).then_some(UserMap(by_ttl)),
        ..UnifiedUsage::default()
    };
    if let (Some(input), Some(read), Some(write)) = (found.input_total, found.cache_read, found.cache_write) {
        found.input_uncached = Some(UnifiedCounter::derived((input.value - read.value - write.value).max(0.0)));
    }
    let mut tools: BTreeMap<String, UnifiedCounter> = TOOL_COUNTERS
        .iter()
        .filter_map(|(key, kind)| Some(((*kind).to_owned(), number(&["server_side_tool_usage_details", key])?)))
        .collect();
    let searches = root.at(&["tool_usage", "web_search", "num_requests"]);
    if let Some(value) = searches.and_then(|node| node.to_json().decode::<f64>().ok()) {
        tools.insert("web-search".to_owned(), UnifiedCounter::reported(value));
    }
    found.server_tool_calls = (!tools.is_empty()).then_some(UserMap(tools));
    found.cost = number(&["cost_in_usd_ticks"]).map(|ticks| {
        vec![UnifiedCost {
            value: ticks.value / TICKS_PER_USD,
            scope: UsageScope::Request,
            source: UsageSource::Reported,
            unit: "USD".into(),
            kind: CostKind::Cost,
        }]
    });
    (found != UnifiedUsage::default()).then_some(found)
}

/// A number, whole where it is whole.
fn number(value: f64) -> Node {
    #[allow(clippy::cast_possible_truncation)] // checked
    if value.fract() == 0.0 && value.abs() < 9e15 {
        Node::of(&(value as i64))
    } else {
        Node::of(&value)
    }
}

/// Writes the counters. With `fill`, members that the type demands are there: null where nobody knows them, since zero would be a
/// figure. The second value names counters that have no place.
pub(super) fn encode(usage: &UnifiedUsage, fill: bool) -> (Node, Vec<&'static str>) {
    let known = |counter: Option<UnifiedCounter>| counter.map(|counter| counter.value);
    let sum = usage.input_uncached.map(|uncached| {
        let more = [usage.cache_read, usage.cache_write].into_iter().flatten();
        uncached.value + more.map(|counter| counter.value).sum::<f64>()
    });
    let (input, output) = (known(usage.input_total).or(sum), known(usage.output_total));
    if fill && (input.is_none() || output.is_none()) {
        // A usage demands both; without one of them nothing is said but that there is none.
        return (Node::null(), turn_usage::known(usage));
    }
    let total = known(usage.total).or_else(|| Some(input? + output?).filter(|_| fill));
    let ttl = |seconds: &str| {
        usage
            .cache_write_by_ttl
            .as_ref()
            .and_then(|map| map.0.get(seconds))
            .map(|counter| number(counter.value))
    };
    let written = Node::object([("ttl_30m_tokens", ttl("1800")), ("ttl_12h_tokens", ttl("43200"))]);
    let details = Node::object([
        ("cached_tokens", known(usage.cache_read).map(number)),
        ("cache_write_tokens", known(usage.cache_write).map(number)),
        (
            "cache_write_tokens_details",
            (written != Node::Object(Vec::new())).then_some(written),
        ),
    ]);
    let outputs = Node::object([("reasoning_tokens", known(usage.reasoning).map(number))]);
    // The type demands both details, and their counters in them: what nobody knows is null.
    let there = |node: Node, is_known: bool| {
        if fill && !is_known {
            return Some(Node::null());
        }
        (node != Node::Object(Vec::new())).then_some(node)
    };
    let node = Node::object([
        ("input_tokens", input.map(number)),
        ("input_tokens_details", there(details, usage.cache_read.is_some())),
        ("output_tokens", output.map(number)),
        ("output_tokens_details", there(outputs, usage.reasoning.is_some())),
        ("total_tokens", total.map(number)),
    ]);
    // Writes stand in the details of the input, which are null where nobody counted the reads.
    let lost = without_place(usage, fill && usage.cache_read.is_none());
    (node, lost)
}

/// Known counters that the wire has no place for.
fn without_place(usage: &UnifiedUsage, without_details: bool) -> Vec<&'static str> {
    let has_place = |ttl: &String| !without_details && (ttl == "1800" || ttl == "43200");
    let by_ttl = usage.cache_write_by_ttl.as_ref();
    let other_ttl = by_ttl.is_some_and(|map| !map.0.keys().all(has_place));
    turn_usage::named(&[
        ("inputUncached", usage.input_uncached.is_some()),
        ("cacheWrite", without_details && usage.cache_write.is_some()),
        ("toolPrompt", usage.tool_prompt.is_some()),
        ("acceptedPrediction", usage.accepted_prediction.is_some()),
        ("rejectedPrediction", usage.rejected_prediction.is_some()),
        ("cacheWriteByTtl", other_ttl),
        ("inputByModality", usage.input_by_modality.is_some()),
        ("outputByModality", usage.output_by_modality.is_some()),
        ("cacheReadByModality", usage.cache_read_by_modality.is_some()),
        ("toolPromptByModality", usage.tool_prompt_by_modality.is_some()),
        ("serverToolCalls", usage.server_tool_calls.is_some()),
        ("cost", usage.cost.is_some()),
        ("others", usage.others.is_some()),
    ])
}

/// Searches that the provider made, which stand apart from the tokens.
pub(super) fn tool_usage(usage: &UnifiedUsage) -> Option<Node> {
    let searches = usage.server_tool_calls.as_ref()?.0.get("web-search")?;
    let inner = Node::object([("num_requests", Some(number(searches.value)))]);
    Some(Node::object([("web_search", Some(inner))]))
}

/// What is open at the end of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// A call that the client must answer.
    pub has_call: bool,
    /// An approval that somebody must give.
    pub has_approval: bool,
    /// The last message declines.
    pub has_refusal: bool,
}

/// How a response stands. Open calls and approvals decide over `completed`.
pub(super) fn status(root: &Node, ending: Ending) -> UnifiedResponseStatus {
    use UnifiedFinishReason as R;
    let word = root.str("status");
    let reason = root.at(&["incomplete_details", "reason"]).and_then(Node::as_text);
    let (finish, original) = match word.as_deref() {
        Some("completed") | None if ending.has_approval => (R::RequiresAction, word),
        Some("completed") | None if ending.has_call => (R::ToolCalls, word),
        Some("completed") | None if ending.has_refusal => (R::Refusal, word),
        Some("completed") => (R::Stop, word),
        None => (R::Unknown, None),
        Some("incomplete") => {
            let finish = match reason.as_deref() {
                Some("max_output_tokens" | "max_tokens") => R::Length,
                Some("content_filter") => R::ContentFilter,
                Some("steered") => R::Interrupted,
                Some(_) => R::Unknown,
                None => R::Incomplete,
            };
            (finish, reason.or(word))
        }
        Some("failed") => (R::Failed, word),
        Some("cancelled") => (R::Cancelled, word),
        Some("queued") => return pending(ResponseState::Queued, word),
        Some("in_progress") => return pending(ResponseState::InProgress, word),
        Some(_) => (R::Unknown, word),
    };
    UnifiedResponseStatus::finished(finish, original)
}

fn pending(state: ResponseState, word: Option<String>) -> UnifiedResponseStatus {
    UnifiedResponseStatus {
        state,
        finish_reason: None,
        original_reason: word,
        stop_sequence: None,
        safety: None,
    }
}

/// The words for an ending: status, and the reason where it is incomplete. The flag tells whether that is all of it.
pub(super) fn words(status: &UnifiedResponseStatus) -> (&'static str, Option<String>, bool) {
    use UnifiedFinishReason as R;
    let own = |word: &str| status.original_reason.as_deref() == Some(word);
    match status.finish_reason {
        Some(R::Stop | R::ToolCalls | R::Refusal | R::RequiresAction) => ("completed", None, true),
        Some(R::Length) => ("incomplete", Some("max_output_tokens".into()), true),
        Some(R::ContentFilter) => ("incomplete", Some("content_filter".into()), true),
        Some(R::MaxContext) => ("incomplete", Some("max_output_tokens".into()), false),
        Some(R::Interrupted) if own("steered") => ("incomplete", Some("steered".into()), true),
        Some(R::Unknown | R::Paused | R::MalformedToolCall) => ("incomplete", status.original_reason.clone(), false),
        Some(R::Interrupted) => ("incomplete", None, false),
        Some(R::Incomplete) => ("incomplete", None, true),
        Some(R::Failed) => ("failed", None, true),
        Some(R::Cancelled) => ("cancelled", None, true),
        None => match status.state {
            ResponseState::Queued => ("queued", None, true),
            ResponseState::InProgress => ("in_progress", None, true),
            ResponseState::RequiresAction | ResponseState::Completed => ("completed", None, true),
            ResponseState::Incomplete => ("incomplete", None, true),
            ResponseState::Failed => ("failed", None, true),
            ResponseState::Cancelled => ("cancelled", None, true),
        },
    }
}
