//! States of a tool call and the transitions between them (spec, Calls and results; open-types.md, section 9).

use crate::macros::words;

words! {
    /// State of a tool call.
    pub enum UnifiedToolLifecycle {
        ArgumentsStreaming = "arguments-streaming",
        ArgumentsReady = "arguments-ready",
        ApprovalRequired = "approval-required",
        ApprovalApproved = "approval-approved",
        ApprovalDenied = "approval-denied",
        Executing = "executing",
        OutputReady = "output-ready",
        OutputError = "output-error",
        Cancelled = "cancelled",
    }
}

impl UnifiedToolLifecycle {
    /// The states that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        use UnifiedToolLifecycle as S;
        match self {
            S::ArgumentsStreaming => &[S::ArgumentsReady, S::Cancelled],
            S::ArgumentsReady => &[S::ApprovalRequired, S::Executing, S::OutputReady, S::OutputError, S::Cancelled],
            S::ApprovalRequired => &[S::ApprovalApproved, S::ApprovalDenied, S::Cancelled],
            S::ApprovalApproved => &[S::Executing, S::Cancelled],
            S::Executing => &[S::OutputReady, S::OutputError, S::Cancelled],
            S::ApprovalDenied | S::OutputReady | S::OutputError | S::Cancelled => &[],
        }
    }

    /// Whether a call may go from this state to `to`.
    pub fn may_become(self, to: Self) -> bool {
        self.next().contains(&to)
    }
}
