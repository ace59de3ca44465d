//! Cache marks to the wire, where the target takes some: which of the request's, and in which member.

use super::dialect::Dialect;
use crate::capability::{Capabilities, Support};
use crate::feature::Feature;
use crate::projection::LossCollector;
use crate::wire::Extra;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::cache::CacheTtl;
use throughline_format::{Json, UnifiedId, UnifiedRequestV2};

/// Marks per request where the route says nothing of their number: what both spellings document.
const MARKS: usize = 4;

/// Where a mark stands: an item, and the part of it.
type Place = (UnifiedId, Option<UnifiedId>);

/// The marks of one request.
#[derive(Debug, Default)]
pub(super) struct Marks {
    member: &'static str,
    wanted: BTreeMap<Place, (usize, Option<CacheTtl>)>,
    placed: BTreeSet<usize>,
}

impl Marks {
    /// The marks that the target is to get: the last ones, when there are too many.
    pub(super) fn of(request: &UnifiedRequestV2, dialect: &Dialect, capabilities: &Capabilities, loss: &mut LossCollector) -> Self {
        let all = request.cache.iter().flat_map(|c| c.breakpoints.iter().flatten());
        if capabilities.support(Feature::CacheBreakpoints) != Support::Lossless {
            return Self::default();
        }
        let max = match capabilities.knobs().max_cache_breakpoints {
            0 if !capabilities.is_overridden("max_cache_breakpoints") => MARKS,
            bound => bound,
        };
        let numbered: Vec<_> = all.enumerate().collect();
        let left_out = numbered.len().saturating_sub(max);
        for (index, _) in numbered.iter().take(left_out) {
            loss.info(
                Feature::CacheBreakpoints,
                format!("/cache/breakpoints/{index}"),
                "the target takes fewer marks; the last ones are sent",
            );
        }
        let member = dialect.cache_mark.unwrap_or("prompt_cache_breakpoint");
        loss.cache_lives(request.cache.as_ref(), |ttl| life(member, ttl).0);
        let kept = numbered.into_iter().skip(left_out);
        Self {
            member,
            wanted: kept
                .map(|(i, mark)| ((mark.item_id.clone(), mark.part_id.clone()), (i, mark.ttl)))
                .collect(),
            placed: BTreeSet::new(),
        }
    }

    /// Marks a part, when the request wants a mark on it or, on the last part, at the end of its item.
    pub(super) fn put(&mut self, item: &UnifiedId, part: &UnifiedId, is_last: bool, extra: &mut Extra) {
        let at = |part: Option<&UnifiedId>| self.wanted.get(&(item.clone(), part.cloned())).copied();
        let Some((index, ttl)) = at(Some(part)).or_else(|| at(None).filter(|_| is_last)) else {
            return;
        };
        self.placed.insert(index);
        if !extra
            .0
            .iter()
            .any(|(key, _)| key == "cache_control" || key == "prompt_cache_breakpoint")
        {
            extra.0.push((self.member.to_owned(), Json::from_value(&mark(self.member, ttl))));
        }
    }

    /// A mark on the message as a whole came back with it.
    pub(super) fn came_back(&mut self, item: &UnifiedId) {
        let of_item = self.wanted.iter().filter(|((id, _), _)| id == item);
        self.placed.extend(of_item.map(|(_, (index, _))| *index).collect::<Vec<_>>());
    }

    /// Says which marks found no place.
    pub(super) fn report(&self, loss: &mut LossCollector) {
        for (index, _) in self.wanted.values().filter(|(index, _)| !self.placed.contains(index)) {
            loss.info(
                Feature::CacheBreakpoints,
                format!("/cache/breakpoints/{index}"),
                "what the mark stands on has no content part at the target",
            );
        }
    }
}

/// The life that a mark of this member gets, in seconds and as its word; five minutes go without saying.
fn life(member: &str, ttl: CacheTtl) -> (u64, Option<&'static str>) {
    match (member == "cache_control", ttl.seconds()) {
        (true, ..=300) => (300, None),
        (true, _) => (3_600, Some("1h")),
        (false, ..=1_800) => (1_800, Some("30m")),
        (false, _) => (43_200, Some("12h")),
    }
}

/// A mark as a member's value.
pub(super) fn mark(member: &str, ttl: Option<CacheTtl>) -> Value {
    let base = if member == "cache_control" {
        json!({"type": "ephemeral"})
    } else {
        json!({"mode": "explicit"})
    };
    let word = ttl.and_then(|ttl| life(member, ttl).1);
    match (base, word) {
        (Value::Object(mut members), Some(word)) => {
            members.insert("ttl".into(), json!(word));
            Value::Object(members)
        }
        (base, _) => base,
    }
}
