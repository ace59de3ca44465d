//! Compaction: what a summary covers, its audit hash, and which history a target reads.

use crate::rules::found;
use crate::support::parse;
use proptest::prelude::*;
use serde_json::{Value, json};
use throughline_format::compaction::{
    CompactionError as E, Passed, Reader, audit_hash, boundary, compact, history_for, record_untold, verify,
};
use throughline_format::item::{CompactionSummaryItem, ItemStatus, SummaryAuthor, UnifiedItemBody};
use throughline_format::validate::semantics;
use throughline_format::{Sha256, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedRequestV2, fingerprint};

/// One item of a small language: `s` instructions, `u` user, `a` answer, `c` and `r` call and result number n.
fn item(sequence: usize, what: &str) -> UnifiedItem {
    let (kind, name) = what.split_at(1);
    let text = json!([{"partId": format!("i{sequence}.p0"), "kind": "text", "text": what}]);
    let body = match kind {
        "s" => json!({"kind": "message", "role": "system", "placement": "instructions", "parts": text}),
        "u" => json!({"kind": "message", "role": "user", "parts": text}),
        "a" => json!({"kind": "message", "role": "assistant", "parts": text}),
        "c" => {
            json!({"kind": "tool-call", "callId": name, "name": "f", "toolType": "function", "rawArguments": "", "lifecycle": "arguments-ready", "execution": "client", "providerExecuted": false})
        }
        "r" => json!({"kind": "tool-result", "callId": name, "output": text, "execution": "client"}),
        "q" => json!({"kind": "approval-request", "approvalId": name, "subject": "plan"}),
        "n" => json!({"kind": "approval-response", "approvalId": name, "decision": "denied"}),
        other => panic!("no item {other}"),
    };
    let mut item = json!({"id": format!("i{sequence}"), "conversationId": "c1", "branchId": "b1", "sequence": sequence, "createdAt": "2026-01-31T12:00:00.000Z", "visibility": "model",
        "status": "completed", "provenance": {"origin": "client", "attribution": {}}});
    item.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    parse(&item)
}

fn path(words: &str) -> Vec<UnifiedItem> {
    words.split_whitespace().enumerate().map(|(i, word)| item(i + 1, word)).collect()
}

fn id(text: &str) -> UnifiedId {
    UnifiedId::parse(text).unwrap()
}

fn parts() -> Vec<UnifiedContentPart> {
    vec![UnifiedContentPart::text(id("sum.p0"), "a summary")]
}

/// The path with a summary at its end.
fn with(path: &[UnifiedItem], summary: CompactionSummaryItem) -> Vec<UnifiedItem> {
    let mut longer = path.to_vec();
    let mut item = item(longer.len() + 1, "u");
    item.body = UnifiedItemBody::CompactionSummary(summary);
    longer.push(item);
    longer
}

fn read(path: &[UnifiedItem], reader: Reader) -> String {
    let history = history_for(path, reader);
    history.items.iter().map(|i| i.id.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_audit_hash_is_spelled_out() {
    throughline_format::clause!("ITEM-04");
    let items = path("u a");
    let text = format!(
        "unified-compaction@1\n{}\n{}\n",
        fingerprint(&items[0]).unwrap(),
        fingerprint(&items[1]).unwrap()
    );
    assert_eq!(audit_hash(&items).unwrap(), Sha256::of(text.as_bytes()));
    assert_eq!(audit_hash(&[]).unwrap(), Sha256::of(b"unified-compaction@1\n"));
}

#[test]
fn a_summary_covers_a_whole_prefix_or_is_refused() {
    throughline_format::clause!("ITEM-04");
    let items = path("s u c1 r1 a u c2 c3 r3 r2 a");
    let through = |last: &str| compact(&items, &id(last), parts(), SummaryAuthor::Engine).map(|s| s.covers.count);
    assert_eq!(through("i1"), Ok(1));
    assert_eq!(through("i2"), Ok(2));
    assert_eq!(through("i3"), Err(E::SplitsCall));
    assert_eq!(through("i4"), Ok(4));
    assert_eq!(through("i7"), Err(E::SplitsCall));
    assert_eq!(through("i9"), Err(E::SplitsCall));
    assert_eq!(through("i10"), Ok(10));
    assert_eq!(through("i11"), Ok(11));
    assert_eq!(through("i12"), Err(E::UnknownItem));
    assert_eq!(compact(&items, &id("i2"), Vec::new(), SummaryAuthor::Engine), Err(E::Empty));
    assert_eq!(compact(&items[1..], &id("i2"), parts(), SummaryAuthor::Engine), Err(E::Broken));
    // The boundary before a split pair.
    for (asked, got) in [("i3", "i2"), ("i9", "i6"), ("i11", "i11"), ("i10", "i10")] {
        assert_eq!(boundary(&items, &id(asked)).map(UnifiedId::as_str), Some(got), "{asked}");
    }
    assert_eq!(boundary(&path("c1"), &id("i1")), None);
    assert_eq!(boundary(&path("u q1 a n1 a"), &id("i3")).map(UnifiedId::as_str), Some("i1"));
    let mut open = path("u a");
    open[1].status = ItemStatus::InProgress;
    assert_eq!(compact(&open, &id("i2"), parts(), SummaryAuthor::Engine), Err(E::Unfinished));
    let mut pending = path("u a");
    pending[0].conversation_id = UnifiedId::pending();
    assert_eq!(compact(&pending, &id("i2"), parts(), SummaryAuthor::Engine), Err(E::Unfinished));
}

#[test]
fn verification_says_what_does_not_agree() {
    throughline_format::clause!("ITEM-04");
    let items = path("u c1 r1 a");
    let summary = compact(&items, &id("i3"), parts(), SummaryAuthor::Engine).unwrap();
    assert_eq!(verify(&summary, &items), Ok(()));
    assert_eq!(verify(&summary, &with(&items, summary.clone())), Ok(()));
    let changed = |change: &dyn Fn(&mut CompactionSummaryItem)| {
        let mut other = summary.clone();
        change(&mut other);
        verify(&other, &items)
    };
    assert_eq!(changed(&|s| s.covers.from_item_id = id("i2")), Err(E::NotAPrefix));
    assert_eq!(changed(&|s| s.covers.to_item_id = id("i9")), Err(E::UnknownItem));
    assert_eq!(changed(&|s| s.covers.to_item_id = id("i4")), Err(E::Count { found: 4, told: 3 }));
    assert_eq!(changed(&|s| s.covers.count = 2), Err(E::Count { found: 3, told: 2 }));
    assert_eq!(changed(&|s| s.audit_hash = Sha256::of(b"")), Err(E::AuditHash));
    assert_eq!(verify(&summary, &items[1..]), Err(E::NotAPrefix));
    assert_eq!(verify(&summary, &[]), Err(E::NotAPrefix));
}

#[test]
fn a_target_reads_the_newest_summary_that_holds() {
    let items = path("s u c1 r1 a s u a");
    let sum = |path: &[UnifiedItem], last: &str, author| compact(path, &id(last), parts(), author).unwrap();
    assert_eq!(read(&items, Reader::AnyTarget), "i1 i2 i3 i4 i5 i6 i7 i8");
    let once = with(&items, sum(&items, "i5", SummaryAuthor::Engine));
    assert_eq!(read(&once, Reader::AnyTarget), "i9 i6 i7 i8", "newer instructions follow anyway");
    let all = with(&items, sum(&items, "i8", SummaryAuthor::Engine));
    assert_eq!(read(&all, Reader::AnyTarget), "i6 i9", "instructions outlive the summary");
    let twice = with(&once, sum(&once, "i9", SummaryAuthor::Client));
    assert_eq!(read(&twice, Reader::AnyTarget), "i6 i10");
    assert_eq!(history_for(&twice, Reader::AnyTarget).summary, Some(&id("i10")));
    // One whose items were changed behind its back is passed over.
    let mut forged = twice.clone();
    if let UnifiedItemBody::CompactionSummary(s) = &mut forged[9].body {
        s.audit_hash = Sha256::of(b"");
    }
    assert_eq!(read(&forged, Reader::AnyTarget), "i9 i6 i7 i8 i10");
    assert_eq!(
        history_for(&forged, Reader::AnyTarget).passed,
        [(&id("i10"), Passed::Refused(E::AuditHash))]
    );
    // One that would leave a result without its call too.
    let mut split = path("u c1 r1 a");
    let mut covers = sum(&split, "i1", SummaryAuthor::Provider);
    covers.covers.to_item_id = id("i2");
    covers.covers.count = 2;
    covers.audit_hash = audit_hash(&split[..2]).unwrap();
    split = with(&split, covers);
    assert_eq!(read(&split, Reader::AnyTarget), "i1 i2 i3 i4 i5");
    assert_eq!(
        history_for(&split, Reader::AnyTarget).passed,
        [(&id("i5"), Passed::Refused(E::SplitsCall))]
    );
}

#[test]
fn a_summary_of_untold_reach_replaces_nothing_but_for_its_owner() {
    let items = path("u a u");
    let untold = with(&items, record_untold(&items, parts(), SummaryAuthor::Provider).unwrap());
    assert_eq!(read(&untold, Reader::AnyTarget), "i1 i2 i3 i4");
    assert_eq!(
        history_for(&untold, Reader::AnyTarget).passed,
        [(&id("i4"), Passed::ReplacesNothing)]
    );
    assert_eq!(read(&untold, Reader::ContinuingOwner), "i4");
    let client = with(&items, record_untold(&items, parts(), SummaryAuthor::Client).unwrap());
    assert_eq!(read(&client, Reader::ContinuingOwner), "i1 i2 i3 i4");
    let UnifiedItemBody::CompactionSummary(summary) = &untold[3].body else {
        panic!("a summary")
    };
    assert_eq!((summary.covers.count, summary.replaces), (3, false));
    assert_eq!(verify(summary, &untold), Ok(()));
}

#[test]
fn many_summaries_that_do_not_hold_cost_one_pass() {
    let mut items = path(&"u ".repeat(1_000));
    let base = compact(&items, &id("i1000"), parts(), SummaryAuthor::Engine).unwrap();
    for _ in 0..1_000 {
        items = {
            let mut longer = items;
            let mut next = item(longer.len() + 1, "u");
            next.body = UnifiedItemBody::CompactionSummary(CompactionSummaryItem {
                audit_hash: Sha256::of(b"forged"),
                ..base.clone()
            });
            longer.push(next);
            longer
        };
    }
    let history = history_for(&items, Reader::AnyTarget);
    assert_eq!((history.items.len(), history.passed.len()), (2_000, 1_000));
}

/// A path whose calls have their results somewhere later.
fn paths() -> impl Strategy<Value = Vec<UnifiedItem>> {
    prop::collection::vec(0_u8..6, 1..24).prop_map(|choices| {
        let (mut words, mut open, mut calls) = (Vec::new(), Vec::new(), 0);
        for choice in choices {
            match choice {
                0 => words.push("s".to_owned()),
                1 | 2 => words.push("u".to_owned()),
                3 => {
                    calls += 1;
                    open.push(calls);
                    words.push(format!("c{calls}"));
                }
                4 if !open.is_empty() => words.push(format!("r{}", open.remove(0))),
                _ => words.push("a".to_owned()),
            }
        }
        path(&words.join(" "))
    })
}

proptest! {
    #[test]
    fn what_is_compacted_verifies_and_reads_whole(items in paths(), pick in any::<prop::sample::Index>()) {
        throughline_format::clause!("ITEM-04");
        let asked = items[pick.index(items.len())].id.clone();
        let Some(through) = boundary(&items, &asked) else {
            prop_assert_eq!(compact(&items, &asked, parts(), SummaryAuthor::Engine), Err(E::SplitsCall));
            return Ok(());
        };
        let summary = compact(&items, through, parts(), SummaryAuthor::Engine).unwrap();
        prop_assert_eq!(verify(&summary, &items), Ok(()));
        let count = usize::try_from(summary.covers.count).unwrap();
        let longer = with(&items, summary);
        let history = history_for(&longer, Reader::AnyTarget);
        prop_assert_eq!(history.summary, Some(&longer[items.len()].id));
        // Every item after the range is read once and in order, and no result has lost its call.
        let after: Vec<_> = history.items.iter().filter(|i| i.sequence > count as u64 && i.sequence <= items.len() as u64).map(|i| i.sequence).collect();
        prop_assert_eq!(after, (count as u64 + 1..=items.len() as u64).collect::<Vec<_>>());
        let mut calls = std::collections::BTreeSet::new();
        for item in &history.items {
            match &item.body {
                UnifiedItemBody::ToolCall(call) => drop(calls.insert(call.call_id.clone())),
                UnifiedItemBody::ToolResult(result) => prop_assert!(calls.contains(&result.call_id)),
                _ => {}
            }
        }
        // The newest instructions are always read.
        let newest = items.iter().rev().find(|i| i.is_instructions()).map(|i| &i.id);
        prop_assert!(newest.is_none_or(|id| history.items.iter().any(|i| i.id == *id)));
        // The validator finds the same to be right.
        let request: Value = json!({"schemaVersion": "2.0", "requestId": "r", "conversation": {"completeness": "complete", "items": longer}, "model": {"requested": "m"}, "generation": {},
            "tools": [], "source": {"profile": {"family": "f"}, "origin": "engine", "receivedAt": "2026-01-31T12:00:00.000Z"}});
        prop_assert_eq!(found(&semantics::request(&parse::<UnifiedRequestV2>(&request))), []);
    }

    #[test]
    fn any_change_of_a_covered_item_is_found(items in paths(), pick in any::<prop::sample::Index>(), how in 0_u8..4) {
        throughline_format::clause!("ITEM-04");
        let Some(through) = boundary(&items, &items.last().unwrap().id) else { return Ok(()) };
        let summary = compact(&items, through, parts(), SummaryAuthor::Engine).unwrap();
        let count = usize::try_from(summary.covers.count).unwrap();
        let at = pick.index(count);
        let mut changed = items.clone();
        match how {
            0 => drop(changed.remove(at)),
            1 => changed[at].created_at = changed[at].created_at.plus_millis(1),
            2 => changed[at].base.provenance.truncated = Some(true),
            _ if count > 1 => changed.swap(at, (at + 1) % count),
            _ => return Ok(()),
        }
        prop_assert!(verify(&summary, &changed).is_err());
        // What comes after the range may change.
        let mut later = items.clone();
        later.truncate(count);
        prop_assert_eq!(verify(&summary, &later), Ok(()));
    }
}
