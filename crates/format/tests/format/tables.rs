//! The tables of open-types.md, sections 7 and 9, as they stand there.

use throughline_format::status::ResponseState;
use throughline_format::{OperationState as O, UnifiedFinishReason as F, UnifiedToolLifecycle as L};

#[test]
fn operations_go_where_the_table_says() {
    let table: [(O, &[O]); 7] = [
        (O::Queued, &[O::Running, O::Cancelled, O::Failed, O::Expired]),
        (O::Running, &[O::RequiresAction, O::Completed, O::Failed, O::Cancelled, O::Expired]),
        (O::RequiresAction, &[O::Running, O::Completed, O::Failed, O::Cancelled, O::Expired]),
        (O::Completed, &[]),
        (O::Failed, &[]),
        (O::Cancelled, &[]),
        (O::Expired, &[]),
    ];
    assert_eq!(table.map(|(from, _)| from), *O::ALL);
    for (from, next) in table {
        for to in O::ALL {
            assert_eq!(from.may_become(*to), next.contains(to), "{from} to {to}");
        }
        assert_eq!(from.is_terminal(), next.is_empty());
    }
}

#[test]
fn calls_go_where_the_table_says() {
    let table: [(L, &[L]); 9] = [
        (L::ArgumentsStreaming, &[L::ArgumentsReady, L::Cancelled]),
        (
            L::ArgumentsReady,
            &[L::ApprovalRequired, L::Executing, L::OutputReady, L::OutputError, L::Cancelled],
        ),
        (L::ApprovalRequired, &[L::ApprovalApproved, L::ApprovalDenied, L::Cancelled]),
        (L::ApprovalApproved, &[L::Executing, L::Cancelled]),
        (L::ApprovalDenied, &[]),
        (L::Executing, &[L::OutputReady, L::OutputError, L::Cancelled]),
        (L::OutputReady, &[]),
        (L::OutputError, &[]),
        (L::Cancelled, &[]),
    ];
    assert_eq!(table.map(|(from, _)| from), *L::ALL);
    for (from, next) in table {
        for to in L::ALL {
            assert_eq!(from.may_become(*to), next.contains(to), "{from} to {to}");
        }
    }
}

#[test]
fn every_finish_reason_has_its_state() {
    use ResponseState as S;
    for reason in F::ALL {
        let state = match reason {
            F::Stop | F::ToolCalls | F::Refusal => S::Completed,
            F::Length
            | F::MaxContext
            | F::ContentFilter
            | F::MalformedToolCall
            | F::Paused
            | F::Incomplete
            | F::Interrupted
            | F::Unknown => S::Incomplete,
            F::RequiresAction => S::RequiresAction,
            F::Failed => S::Failed,
            F::Cancelled => S::Cancelled,
        };
        assert_eq!(reason.state(), state, "{reason}");
    }
    assert_eq!(F::ALL.len(), 14);
}
