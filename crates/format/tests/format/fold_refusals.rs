//! What the fold refuses: with which problem, at which sequence, and without a trace.

use crate::support::log::{draft, fold_of, id, logs, operation, seen, stamp};
use crate::support::parts::{data_ref, item_base, parts, with};
use proptest::prelude::*;
use serde_json::{Value, json};
use throughline_format::fold::{Fold, FoldProblem};
use throughline_format::{EventBody, OperationState, Timestamp, UnifiedEventV2, UnifiedToolLifecycle};

fn open(item_id: &str, body: &Value) -> Value {
    with(&with(&item_base(item_id), &json!({"status": "in-progress"})), body)
}

fn call(item_id: &str, lifecycle: &str) -> Value {
    open(
        item_id,
        &json!({"kind": "tool-call", "callId": "c1", "name": "run", "toolType": "function", "rawArguments": "", "lifecycle": lifecycle, "execution": "client",
            "providerExecuted": false}),
    )
}

/// A fold with a message of a text, a reasoning, an image and a JSON part, a call, a finished item and one in candidate 1.
fn begun() -> Fold {
    let image = json!({"kind": "inline", "mediaType": "image/png", "data": "AAEC", "encoding": "base64"});
    let message = json!({"kind": "message", "parts": [
        {"partId": "text", "kind": "text", "text": "a"},
        {"partId": "reasoning", "kind": "reasoning", "text": "b", "form": "full", "state": "disclosed"},
        {"partId": "image", "kind": "image", "source": image},
        {"partId": "far", "kind": "image", "source": {"kind": "url", "url": "https://example.org/a.png"}},
        {"partId": "json", "kind": "json", "value": 1},
    ]});
    let events = [
        json!({"kind": "operation.created", "sourceBranchId": "b1", "target": {"family": "openai-chat"}}),
        json!({"kind": "operation.running"}),
        json!({"kind": "item.started", "item": open("message", &message)}),
        json!({"kind": "item.started", "item": call("call", "arguments-streaming")}),
        json!({"kind": "item.started", "item": open("output", &json!({"kind": "tool-result", "callId": "c1", "output": [{"partId": "o", "kind": "json", "value": 1}], "execution": "client"}))}),
        json!({"kind": "item.completed", "status": "completed", "item": with(&item_base("done"), &json!({"kind": "message", "parts": []}))}),
        json!({"kind": "item.started", "candidate": 1, "item": open("message", &json!({"kind": "message", "parts": []}))}),
    ];
    fold_of(&stamp(events.iter().map(draft).collect())).unwrap()
}

/// The problem of the next event; the fold must stay exactly as it was, and go on afterwards.
fn refused(fold: &Fold, members: &Value) -> FoldProblem {
    let mut fold = fold.clone();
    let (before, result) = (seen(&fold), fold.result());
    let sequence = fold.last_sequence() + 1;
    let event = draft(members).stamp(&operation(), sequence, Timestamp::EPOCH);
    let error = fold.push(&event).expect_err(&format!("{members} was taken"));
    assert_eq!(error.sequence, sequence);
    assert!(error.to_string().starts_with(&format!("event {sequence}: ")), "{error}");
    assert_eq!(seen(&fold), before, "{members} left a trace");
    assert_eq!(fold.result(), result, "{members} left a trace");
    let warning = draft(&json!({"kind": "warning", "code": "c", "message": "m"})).stamp(&operation(), sequence, Timestamp::EPOCH);
    if !fold.operation_state().is_some_and(OperationState::is_terminal) {
        fold.push(&warning).unwrap();
    }
    error.problem
}

#[test]
fn every_mistake_about_items_and_parts_is_refused_without_a_trace() {
    use FoldProblem as P;
    let part = |id: &str| json!({"partId": id, "kind": "text", "text": ""});
    let start = |part: Value| json!({"kind": "part-started", "part": part});
    let field = |pointer: &str, value: Value| json!({"kind": "field", "pointer": pointer, "value": value});
    let delta = |item: &str, part: Option<&str>, delta: Value| {
        let mut event = json!({"kind": "item.delta", "itemId": item, "delta": delta});
        if let Some(part) = part {
            event["partId"] = json!(part);
        }
        event
    };
    let twice = json!({"kind": "message", "parts": [part("same"), part("same")]});
    let whole = with(&item_base("message"), &json!({"kind": "message", "parts": []}));
    let cases: Vec<(Value, P)> = vec![
        // Items.
        (
            json!({"kind": "item.started", "item": open("message", &json!({"kind": "message", "parts": []}))}),
            P::ItemBegunTwice,
        ),
        (
            json!({"kind": "item.started", "itemId": "other", "item": open("new", &json!({"kind": "message", "parts": []}))}),
            P::OtherItem,
        ),
        (json!({"kind": "item.started", "item": open("new", &twice)}), P::PartBegunTwice),
        (
            json!({"kind": "item.started", "candidate": 7, "item": open("new", &twice)}),
            P::PartBegunTwice,
        ),
        (
            json!({"kind": "item.completed", "itemId": "nobody", "status": "completed"}),
            P::UnknownItem,
        ),
        (json!({"kind": "item.completed", "status": "completed"}), P::UnknownItem),
        (
            json!({"kind": "item.completed", "itemId": "call", "candidate": 1, "status": "completed"}),
            P::UnknownItem,
        ),
        (
            json!({"kind": "item.completed", "itemId": "message", "candidate": 9, "status": "completed"}),
            P::UnknownItem,
        ),
        (
            json!({"kind": "item.completed", "itemId": "done", "status": "failed"}),
            P::ItemFinished,
        ),
        (
            json!({"kind": "item.completed", "itemId": "message", "status": "completed", "item": with(&whole, &json!({"id": "new"}))}),
            P::OtherItem,
        ),
        (
            json!({"kind": "item.completed", "itemId": "done", "status": "completed", "item": with(&whole, &json!({"id": "done"}))}),
            P::ItemFinished,
        ),
        (
            json!({"kind": "item.completed", "itemId": "message", "status": "completed", "item": call("message", "arguments-ready")}),
            P::WrongKind,
        ),
        (
            json!({"kind": "item.completed", "itemId": "message", "status": "completed", "item": with(&whole, &twice)}),
            P::PartBegunTwice,
        ),
        (
            json!({"kind": "item.failed", "itemId": "done", "error": {"category": "server", "code": "server.x", "message": "m", "retryable": true}}),
            P::ItemFinished,
        ),
        // Parts.
        (delta("message", None, start(part("text"))), P::PartBegunTwice),
        (delta("call", None, start(part("new"))), P::WrongKind),
        (delta("done", None, start(part("new"))), P::ItemFinished),
        (delta("nobody", None, start(part("new"))), P::UnknownItem),
        (
            json!({"kind": "source.ready", "itemId": "message", "part": part("text")}),
            P::PartBegunTwice,
        ),
        (
            json!({"kind": "artifact.ready", "itemId": "call", "part": part("new")}),
            P::WrongKind,
        ),
        (delta("message", None, json!({"kind": "part-completed"})), P::UnknownPart),
        (delta("message", Some("nobody"), json!({"kind": "part-completed"})), P::UnknownPart),
        // Text.
        (
            json!({"kind": "text.delta", "itemId": "message", "partId": "nobody", "text": "x"}),
            P::UnknownPart,
        ),
        (json!({"kind": "text.delta", "itemId": "message", "text": "x"}), P::UnknownPart),
        (json!({"kind": "text.delta", "partId": "text", "text": "x"}), P::UnknownItem),
        (
            json!({"kind": "text.delta", "itemId": "message", "candidate": 1, "partId": "text", "text": "x"}),
            P::UnknownPart,
        ),
        (
            json!({"kind": "text.delta", "itemId": "message", "candidate": 9, "partId": "text", "text": "x"}),
            P::UnknownItem,
        ),
        (
            json!({"kind": "text.delta", "itemId": "message", "partId": "reasoning", "text": "x"}),
            P::WrongKind,
        ),
        (
            json!({"kind": "reasoning.delta", "itemId": "message", "partId": "text", "text": "x"}),
            P::WrongKind,
        ),
        (
            json!({"kind": "citation.ready", "itemId": "message", "partId": "image", "annotation": {"kind": "speech"}}),
            P::WrongKind,
        ),
        (
            json!({"kind": "signature.ready", "itemId": "message", "providerData": data_ref(), "issuer": "provider"}),
            P::WrongKind,
        ),
        (
            json!({"kind": "signature.ready", "itemId": "message", "partId": "nobody", "providerData": data_ref(), "issuer": "provider"}),
            P::UnknownPart,
        ),
        // Media.
        (
            delta("message", Some("text"), json!({"kind": "media", "base64": "AAEC"})),
            P::WrongKind,
        ),
        (
            delta("message", Some("far"), json!({"kind": "media", "base64": "AAEC"})),
            P::WrongKind,
        ),
        (
            delta("message", Some("image"), json!({"kind": "media", "base64": "*"})),
            P::BadField,
        ),
        (delta("message", None, json!({"kind": "media", "base64": "AAEC"})), P::UnknownPart),
        // Output: whatever comes first must not stay when the other is refused.
        (
            delta("output", Some("o"), json!({"kind": "output", "text": "x", "part": part("new")})),
            P::WrongKind,
        ),
        (
            delta("output", None, json!({"kind": "output", "text": "x", "part": part("new")})),
            P::UnknownPart,
        ),
        (
            delta(
                "output",
                Some("new"),
                json!({"kind": "output", "text": "x", "part": with(&parts()[9], &json!({"partId": "new"}))}),
            ),
            P::WrongKind,
        ),
        (
            delta("output", Some("t"), json!({"kind": "output", "text": "x", "part": part("o")})),
            P::PartBegunTwice,
        ),
        (delta("call", Some("t"), json!({"kind": "output", "text": "x"})), P::WrongKind),
        // Fields.
        (delta("message", None, field("/status", json!("failed"))), P::BadField),
        (delta("message", None, field("/providerData/-", json!({"schema": 1}))), P::BadField),
        (
            delta("message", Some("nobody"), field("/providerData/-", data_ref())),
            P::UnknownPart,
        ),
        (delta("done", None, field("/providerData/-", data_ref())), P::ItemFinished),
        // Calls.
        (
            json!({"kind": "tool-arguments.delta", "itemId": "message", "text": "x"}),
            P::WrongKind,
        ),
        (
            json!({"kind": "tool-arguments.ready", "itemId": "done", "rawArguments": "x"}),
            P::ItemFinished,
        ),
        (
            json!({"kind": "tool.lifecycle", "itemId": "message", "from": "executing", "to": "output-ready"}),
            P::WrongKind,
        ),
        (
            json!({"kind": "tool.lifecycle", "itemId": "nobody", "from": "executing", "to": "output-ready"}),
            P::UnknownItem,
        ),
        (
            json!({"kind": "tool.lifecycle", "itemId": "call", "from": "arguments-streaming", "to": "executing", "execution": "provider"}),
            P::IllegalTransition {
                from: UnifiedToolLifecycle::ArgumentsStreaming,
                to: UnifiedToolLifecycle::Executing,
            },
        ),
        (
            json!({"kind": "tool.lifecycle", "itemId": "call", "from": "arguments-ready", "to": "executing", "execution": "provider"}),
            P::IllegalTransition {
                from: UnifiedToolLifecycle::ArgumentsStreaming,
                to: UnifiedToolLifecycle::Executing,
            },
        ),
        // Operations.
        (
            json!({"kind": "operation.queued"}),
            P::IllegalOperation {
                from: OperationState::Running,
                to: OperationState::Queued,
            },
        ),
    ];
    let fold = begun();
    for (event, problem) in cases {
        assert_eq!(refused(&fold, &event), problem, "{event}");
    }
}

#[test]
fn calls_follow_their_table_and_no_other() {
    throughline_format::clause!("TOOL-04");
    let kinds = [
        (
            "tool-call",
            json!({"name": "run", "toolType": "function", "rawArguments": "", "providerExecuted": false}),
        ),
        (
            "server-tool-call",
            json!({"name": "run", "toolType": "web-search", "rawArguments": "", "providerExecuted": true}),
        ),
        ("computer-action", json!({"actions": []})),
        ("code-execution", json!({})),
    ];
    for (kind, members) in &kinds {
        for from in UnifiedToolLifecycle::ALL {
            let body = with(
                members,
                &json!({"kind": kind, "callId": "c1", "execution": "client", "lifecycle": from.as_str()}),
            );
            let fold = fold_of(&stamp(vec![draft(&json!({"kind": "item.started", "item": open("call", &body)}))])).unwrap();
            for (told, to) in UnifiedToolLifecycle::ALL
                .iter()
                .flat_map(|told| UnifiedToolLifecycle::ALL.iter().map(move |to| (told, to)))
            {
                let event =
                    json!({"kind": "tool.lifecycle", "itemId": "call", "from": told.as_str(), "to": to.as_str(), "execution": "provider"});
                if told == from && from.may_become(*to) {
                    let mut fold = fold.clone();
                    fold.push(&draft(&event).stamp(&operation(), 2, Timestamp::EPOCH)).unwrap();
                    let item = serde_json::to_value(&fold.items()[0]).unwrap();
                    assert_eq!((&item["lifecycle"], &item["execution"]), (&json!(to.as_str()), &json!("provider")));
                } else {
                    assert_eq!(
                        refused(&fold, &event),
                        FoldProblem::IllegalTransition { from: *from, to: *to },
                        "{kind}: {event}"
                    );
                }
            }
            if kind.ends_with("tool-call") && *from != UnifiedToolLifecycle::ArgumentsStreaming {
                // Arguments that are complete, or of a call that went on, are not written again.
                let more = json!({"kind": "tool-arguments.delta", "itemId": "call", "text": "x"});
                assert!(matches!(refused(&fold, &more), FoldProblem::IllegalTransition { .. }));
                let again = json!({"kind": "tool-arguments.ready", "itemId": "call", "rawArguments": "x"});
                assert!(matches!(refused(&fold, &again), FoldProblem::IllegalTransition { .. }));
            }
        }
    }
}

#[test]
fn a_result_may_follow_when_the_item_of_the_call_is_finished() {
    let events = [
        json!({"kind": "item.started", "item": call("call", "arguments-streaming")}),
        json!({"kind": "tool-arguments.delta", "itemId": "call", "text": "{}"}),
        json!({"kind": "tool-arguments.ready", "itemId": "call", "rawArguments": "{}", "input": {}}),
        json!({"kind": "item.completed", "itemId": "call", "status": "completed"}),
        json!({"kind": "signature.ready", "itemId": "call", "providerData": data_ref(), "issuer": "provider"}),
        json!({"kind": "tool.lifecycle", "itemId": "call", "from": "arguments-ready", "to": "output-ready"}),
    ];
    let fold = fold_of(&stamp(events.iter().map(draft).collect())).unwrap();
    let item = serde_json::to_value(&fold.items()[0]).unwrap();
    assert_eq!(
        (&item["lifecycle"], &item["rawArguments"], &item["privateLinkage"]),
        (&json!("output-ready"), &json!("{}"), &data_ref())
    );
}

#[test]
fn operations_follow_their_table_and_no_other() {
    let event_to = |state: OperationState| match state {
        OperationState::Completed => json!({"kind": "operation.completed", "status": {"state": "completed", "finishReason": "stop"}}),
        OperationState::Failed => {
            json!({"kind": "operation.failed", "error": {"category": "server", "code": "server.x", "message": "m", "retryable": true}})
        }
        other => json!({"kind": format!("operation.{other}")}),
    };
    for from in OperationState::ALL {
        let fold = fold_of(&stamp(vec![draft(&event_to(*from))])).unwrap();
        assert_eq!(fold.operation_state(), Some(*from));
        for to in OperationState::ALL {
            if from.may_become(*to) || (from == to && !from.is_terminal()) {
                let mut fold = fold.clone();
                fold.push(&draft(&event_to(*to)).stamp(&operation(), 2, Timestamp::EPOCH)).unwrap();
                assert_eq!(fold.operation_state(), Some(*to));
            } else {
                let expected = if from.is_terminal() {
                    FoldProblem::AfterEnd
                } else {
                    FoldProblem::IllegalOperation { from: *from, to: *to }
                };
                assert_eq!(refused(&fold, &event_to(*to)), expected, "{from} to {to}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_gap_is_refused_with_its_number(log in logs(), at in any::<prop::sample::Index>(), ahead in 1..5usize) {
        throughline_format::clause!("EVT-03");
        let at = at.index(log.len());
        let mut fold = fold_of(&log[..at]).unwrap();
        let before = seen(&fold);
        if let Some(event) = log.get(at + ahead) {
            let error = fold.push(event).unwrap_err();
            prop_assert_eq!((error.sequence, error.problem), (event.sequence, FoldProblem::Gap { expected: at as u64 + 1 }));
            prop_assert_eq!(seen(&fold), before);
            prop_assert!(log[at..].iter().all(|event| fold.push(event).is_ok()));
        }
    }

    #[test]
    fn another_event_with_a_folded_number_is_refused(log in logs(), at in any::<prop::sample::Index>()) {
        throughline_format::clause!("EVT-03");
        let mut fold = fold_of(&log).unwrap();
        let before = seen(&fold);
        let mut other = log[at.index(log.len())].clone();
        other.timestamp = other.timestamp.plus_millis(1);
        let error = fold.push(&other).unwrap_err();
        prop_assert_eq!((error.sequence, error.problem), (other.sequence, FoldProblem::ConflictingDuplicate));
        other.sequence = 0;
        prop_assert_eq!(fold.push(&other).unwrap_err().problem, FoldProblem::ConflictingDuplicate);
        prop_assert_eq!(seen(&fold), before);
    }

    #[test]
    fn nothing_comes_after_the_end(log in logs(), extra in any::<prop::sample::Index>()) {
        let mut fold = fold_of(&log).unwrap();
        let before = seen(&fold);
        let mut event = log[extra.index(log.len())].clone();
        for ahead in 1..3 {
            event.sequence = log.len() as u64 + ahead;
            let error = fold.push(&event).unwrap_err();
            prop_assert_eq!((error.sequence, error.problem), (event.sequence, FoldProblem::AfterEnd));
        }
        prop_assert_eq!(seen(&fold), before);
        // Between the terminal event and the last one there is nothing either.
        let mut fold = fold_of(&log[..log.len() - 1]).unwrap();
        let before = seen(&fold);
        event.sequence = log.len() as u64;
        if !matches!(event.body, EventBody::StreamCompleted(_)) {
            prop_assert_eq!(fold.push(&event).unwrap_err().problem, FoldProblem::AfterEnd);
        }
        prop_assert_eq!(seen(&fold), before);
    }

    #[test]
    fn another_operation_is_refused(log in logs(), at in any::<prop::sample::Index>()) {
        let at = at.index(log.len());
        let mut fold = fold_of(&log[..at]).unwrap();
        let before = seen(&fold);
        let mut event: UnifiedEventV2 = log[at].clone();
        event.operation_id = id("op2");
        let error = fold.push(&event).unwrap_err();
        prop_assert_eq!((error.sequence, error.problem), (event.sequence, FoldProblem::OtherOperation));
        prop_assert_eq!(seen(&fold), before);
    }

    #[test]
    fn events_in_any_order_never_break_the_fold(log in logs(), order in proptest::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        // Whatever is delivered, a refusal changes nothing, and the log folds in the end.
        let mut fold = Fold::new(operation());
        for index in order {
            let before = seen(&fold);
            let mut event = log[index.index(log.len())].clone();
            if index.index(3) == 0 {
                // Events at places where they do not belong.
                event.sequence = fold.last_sequence() + 1;
            }
            if fold.push(&event).is_err() {
                prop_assert_eq!(seen(&fold), before);
            }
        }
    }
}
