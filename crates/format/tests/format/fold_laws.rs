//! Laws of the fold over random legal event logs.

use crate::support::log::{cut, draft, fold_of, joined, logs, operation, seen, stamp};
use crate::support::parts::{item_base, parts, with};
use crate::support::{json_of, parse};
use proptest::prelude::*;
use serde_json::{Value, json};
use throughline_format::item::ItemStatus;
use throughline_format::json::decode_slice;
use throughline_format::{Fold, UnifiedEventV2, UnifiedItem, UnifiedResultV2, content_fingerprint, fingerprint};

fn result_of(events: &[UnifiedEventV2]) -> UnifiedResultV2 {
    fold_of(events).unwrap_or_else(|e| panic!("{e} in {events:#?}")).result()
}

fn push_all(fold: &mut Fold, events: &[UnifiedEventV2]) {
    for event in events {
        fold.push(event).unwrap();
    }
}

fn heartbeat(sequence: u64, operation: &str) -> UnifiedEventV2 {
    parse(
        &json!({"schemaVersion": "2.0", "kind": "heartbeat", "operationId": operation, "eventId": "hb", "sequence": sequence, "timestamp": "2030-01-01T00:00:00Z"}),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_log_folds_into_a_result_that_can_be_stored(log in logs()) {
        let fold = fold_of(&log).unwrap();
        prop_assert!(fold.is_complete() && fold.operation_state().unwrap().is_terminal());
        prop_assert_eq!(fold.last_sequence(), log.len() as u64);
        let result = fold.result();
        let stored: UnifiedResultV2 = decode_slice(&serde_json::to_vec(&result).unwrap()).unwrap();
        prop_assert_eq!(&stored, &result);
        prop_assert_eq!(fingerprint(&stored).unwrap(), fingerprint(&result).unwrap());
    }

    #[test]
    fn events_that_were_stored_fold_alike(log in logs()) {
        let stored: Vec<UnifiedEventV2> = log.iter().map(|e| decode_slice(&serde_json::to_vec(e).unwrap()).unwrap()).collect();
        prop_assert_eq!(&stored, &log);
        prop_assert_eq!(result_of(&stored), result_of(&log));
    }

    #[test]
    fn stopping_and_going_on_changes_nothing(log in logs(), at in any::<prop::sample::Index>()) {
        let (a, b) = log.split_at(at.index(log.len() + 1));
        let mut fold = fold_of(a).unwrap();
        let _ = fold.result();
        // Going on from a copy, as a restart does, and with what was folded already sent again.
        let mut resumed = fold.clone();
        push_all(&mut fold, b);
        push_all(&mut resumed, &log);
        prop_assert_eq!(fold.result(), result_of(&log));
        prop_assert_eq!(resumed.result(), result_of(&log));
        prop_assert_eq!(seen(&fold), seen(&resumed));
    }

    #[test]
    fn delivering_twice_changes_nothing(log in logs(), again in proptest::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        throughline_format::clause!("EVT-03");
        let mut fold = Fold::new(operation());
        let mut again = again.into_iter();
        for (at, event) in log.iter().enumerate() {
            fold.push(event).unwrap();
            if let Some(index) = again.next() {
                let before = seen(&fold);
                fold.push(&log[index.index(at + 1)]).unwrap();
                prop_assert_eq!(seen(&fold), before);
            }
        }
        prop_assert_eq!(fold.result(), result_of(&log));
    }

    #[test]
    fn how_deltas_are_cut_or_joined_changes_nothing(log in logs(), cuts in proptest::collection::vec((any::<usize>(), any::<usize>()), 0..6)) {
        throughline_format::clause!("EVT-04");
        let mut other = log.clone();
        for (pick, at) in cuts {
            other = cut(&other, pick, at);
        }
        let whole = result_of(&log);
        for variant in [other.clone(), joined(&log), joined(&other)] {
            let result = result_of(&variant);
            prop_assert_eq!(&result, &whole);
            prop_assert_eq!(fingerprint(&result).unwrap(), fingerprint(&whole).unwrap());
            prop_assert_eq!(content_fingerprint(&result).unwrap(), content_fingerprint(&whole).unwrap());
        }
    }

    #[test]
    fn heartbeats_are_dropped(log in logs(), at in any::<prop::sample::Index>(), sequence in any::<u32>()) {
        throughline_format::clause!("EVT-01");
        let at = at.index(log.len() + 1);
        let mut fold = fold_of(&log[..at]).unwrap();
        let before = seen(&fold);
        // The number of a heartbeat repeats the last one, and nothing looks at it.
        fold.push(&heartbeat(at as u64, "op")).unwrap();
        fold.push(&heartbeat(u64::from(sequence), "other")).unwrap();
        prop_assert_eq!(seen(&fold), before);
        push_all(&mut fold, &log[at..]);
        prop_assert_eq!(fold.result(), result_of(&log));
    }

    #[test]
    fn nothing_is_open_after_a_torn_stream(log in logs()) {
        let result = result_of(&log);
        let all = result.output.iter().chain(result.alternatives.iter().flatten().flat_map(|a| &a.output));
        for item in all {
            prop_assert_ne!(item.status, ItemStatus::InProgress);
            if result.status.state != throughline_format::status::ResponseState::Completed
                && let throughline_format::UnifiedItemBody::ToolCall(call) = &item.body
            {
                prop_assert_ne!(call.lifecycle, throughline_format::UnifiedToolLifecycle::ArgumentsStreaming);
            }
        }
        for alternative in result.alternatives.iter().flatten() {
            prop_assert!(result.status.finish_reason == Some(throughline_format::UnifiedFinishReason::Stop) || alternative.status.finish_reason.is_some());
        }
    }

    #[test]
    fn candidates_do_not_see_each_other(log in logs()) {
        // The log without the other candidate gives the first candidate's items, and the other way round.
        let only = |index: Option<u64>| {
            let kept: Vec<Value> = log
                .iter()
                .filter(|e| e.item_id.is_none() || e.candidate == index)
                .map(json_of)
                .map(|mut v| {
                    for key in ["schemaVersion", "operationId", "eventId", "sequence", "timestamp"] {
                        v.as_object_mut().unwrap().shift_remove(key);
                    }
                    v
                })
                .collect();
            result_of(&stamp(kept.iter().map(draft).collect()))
        };
        let whole = result_of(&log);
        prop_assert_eq!(&only(None).output, &whole.output);
        let second = |r: &UnifiedResultV2| r.alternatives.clone().unwrap_or_default();
        prop_assert_eq!(second(&only(Some(1))), second(&whole));
    }
}

#[test]
fn one_item_has_the_same_id_in_two_candidates_without_a_clash() {
    let item = with(
        &with(&item_base("op.i0"), &json!({"status": "in-progress"})),
        &json!({"kind": "message", "parts": []}),
    );
    let text = json!({"partId": "op.i0.p0", "kind": "text", "text": ""});
    let mut drafts = Vec::new();
    for (candidate, words) in [(0, "first"), (2, "third")] {
        for event in [
            json!({"kind": "item.started", "itemId": "op.i0", "item": item}),
            json!({"kind": "item.delta", "itemId": "op.i0", "partId": "op.i0.p0", "delta": {"kind": "part-started", "part": text}}),
            json!({"kind": "text.delta", "itemId": "op.i0", "partId": "op.i0.p0", "text": words}),
        ] {
            drafts.push(draft(&event).candidate(candidate));
        }
    }
    let result = result_of(&stamp(drafts));
    assert_eq!(result.output[0].parts()[0].as_text(), Some("first"));
    let alternatives = result.alternatives.unwrap();
    assert_eq!((alternatives.len(), alternatives[0].index), (1, 2));
    assert_eq!(alternatives[0].output[0].parts()[0].as_text(), Some("third"));
}

#[test]
fn media_in_pieces_of_any_size_is_one_media() {
    let bytes: Vec<u8> = (0..=255).collect();
    let encode = throughline_format::media::encode_base64;
    let fold = |pieces: Vec<&[u8]>, begun: &str| {
        let item = with(
            &with(&item_base("op.i0"), &json!({"status": "in-progress"})),
            &json!({"kind": "message", "parts": []}),
        );
        let source = json!({"kind": "inline", "mediaType": "audio/wav", "data": begun, "encoding": "base64"});
        let mut events = vec![
            json!({"kind": "item.started", "itemId": "op.i0", "item": item}),
            json!({"kind": "item.delta", "itemId": "op.i0", "delta": {"kind": "part-started", "part": {"partId": "p", "kind": "audio", "source": source}}}),
        ];
        for piece in pieces {
            events
                .push(json!({"kind": "item.delta", "itemId": "op.i0", "partId": "p", "delta": {"kind": "media", "base64": encode(piece)}}));
        }
        json_of(&result_of(&stamp(events.iter().map(draft).collect())))
    };
    let whole = fold(vec![&bytes], "");
    assert_eq!(whole["output"][0]["parts"][0]["source"]["data"], encode(&bytes));
    for size in [1, 2, 3, 4, 7, 100] {
        assert_eq!(fold(bytes.chunks(size).collect(), ""), whole, "pieces of {size}");
    }
    // What stood there in another spelling of base64 is kept.
    assert_eq!(fold(vec![&bytes[3..]], "AAE C"), whole);
}

#[test]
fn thousands_of_items_parts_and_pieces_take_linear_time() {
    let open = |id: &str| {
        with(
            &with(&item_base(id), &json!({"status": "in-progress"})),
            &json!({"kind": "message", "parts": []}),
        )
    };
    let mut events = Vec::new();
    for n in 0..1_500 {
        let id = format!("op.i{n}");
        events.push(json!({"kind": "item.started", "itemId": id, "item": open(&id)}));
    }
    for n in 0..1_500 {
        let part = json!({"partId": format!("op.i0.p{n}"), "kind": "text", "text": ""});
        events.push(json!({"kind": "item.delta", "itemId": "op.i0", "delta": {"kind": "part-started", "part": part}}));
        events.push(json!({"kind": "text.delta", "itemId": "op.i0", "partId": format!("op.i0.p{}", n / 2), "text": "x"}));
        events.push(json!({"kind": "item.completed", "itemId": format!("op.i{}", 1_499 - n), "status": "completed"}));
    }
    events.truncate(1_500 + 3 * 1_499);
    let result = result_of(&stamp(events.iter().map(draft).collect()));
    assert_eq!((result.output.len(), result.output[0].parts().len()), (1_500, 1_499));
}

#[test]
fn a_whole_item_takes_the_place_of_the_one_that_began() {
    let begun = with(
        &item_base("op.i0"),
        &json!({"status": "in-progress", "sequence": 9, "kind": "message", "parts": []}),
    );
    let whole = with(
        &item_base("op.i0"),
        &json!({"conversationId": "pending", "branchId": "pending", "sequence": 1, "status": "in-progress", "kind": "message", "parts": [parts()[0]]}),
    );
    let events = [
        json!({"kind": "item.started", "itemId": "op.i0", "item": begun}),
        json!({"kind": "item.completed", "itemId": "op.i0", "status": "completed", "item": whole}),
        json!({"kind": "item.completed", "status": "incomplete", "item": with(&whole, &json!({"id": "op.i1"}))}),
    ];
    let result = result_of(&stamp(events.iter().map(draft).collect()));
    let expected: UnifiedItem = parse(&with(
        &whole,
        &json!({"conversationId": "c1", "branchId": "b1", "sequence": 9, "status": "completed"}),
    ));
    assert_eq!(
        result.output[0], expected,
        "the place in the journal is kept, the rest is the whole item"
    );
    assert_eq!(
        result.output[1].status,
        ItemStatus::Incomplete,
        "the event says how an item ended, not the item"
    );
}

#[test]
fn state_usage_errors_and_losses_come_into_the_result() {
    let counter = |n: u64| json!({"value": n, "scope": "request", "source": "reported"});
    let loss = |severity: &str| json!([{"path": "", "feature": "f", "severity": severity, "reason": "r"}]);
    let events = [
        json!({"kind": "response.started", "responseId": "rs1", "model": {"model": "m"}, "profile": {"family": "openai-chat"}, "attribution": {"model": "m"}}),
        json!({"kind": "usage.update", "usage": {"inputTotal": counter(5), "cacheRead": counter(1)}}),
        json!({"kind": "usage.update", "usage": {"inputTotal": counter(0)}}),
        json!({"kind": "loss.update", "entries": loss("warning")}),
        json!({"kind": "loss.update", "entries": loss("error")}),
        json!({"kind": "loss.update", "entries": loss("info")}),
        json!({"kind": "error", "error": {"category": "overloaded", "code": "overloaded.x", "message": "m", "retryable": true}}),
        json!({"kind": "response.metadata", "serviceTier": "flex", "model": {"model": "m-2"}, "resources": [], "providerRequestId": "req"}),
    ];
    let value = json_of(&result_of(&stamp(events.iter().map(draft).collect())));
    assert_eq!(value["usage"], json!({"inputTotal": counter(0)}), "the last report replaces");
    assert_eq!(value["loss"]["disposition"], "unsupported");
    assert_eq!(value["loss"]["entries"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&value["model"], &value["error"]["category"]),
        (&json!({"model": "m-2", "serviceTier": "flex"}), &json!("overloaded"))
    );
    assert_eq!(
        value["state"],
        json!({"checkpoints": [], "resources": [], "invalidated": []}),
        "told and empty is not absent"
    );
    assert_eq!(value["status"], json!({"state": "in-progress"}));
    assert_eq!(value["provenance"]["providerRequestId"], "req");
}
