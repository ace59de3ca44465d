//! Which state may follow which, for items, calls, operations and checkpoints: the tables that validators, the fold, the
//! store and the documentation read. Calls and operations have theirs beside their words ([`UnifiedToolLifecycle::next`],
//! [`OperationState::next`]).

use crate::item::ItemStatus;
use crate::lifecycle::UnifiedToolLifecycle;
use crate::operation::OperationState;
use crate::resource::ResourceStatus;

impl ItemStatus {
    /// The states that may follow this one: an item in progress ends in one way, and stays so.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::InProgress => &[Self::Completed, Self::Incomplete, Self::Failed, Self::Cancelled],
            Self::Completed | Self::Incomplete | Self::Failed | Self::Cancelled => &[],
        }
    }

    /// Whether nothing may follow.
    pub const fn is_terminal(self) -> bool {
        self.next().is_empty()
    }

    /// Whether an item may go from this state to `to`.
    pub fn may_become(self, to: Self) -> bool {
        self.next().contains(&to)
    }
}

impl ResourceStatus {
    /// The states that may follow this one, of checkpoints and other provider state.
    ///
    /// Stale state is kept for the record and never becomes active again: coming back to a provider makes a new checkpoint
    /// at the current head. What ended in one way stays so.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Active => &[Self::Stale, Self::Expired, Self::Revoked, Self::Invalid],
            Self::Stale => &[Self::Expired, Self::Revoked, Self::Invalid],
            Self::Expired | Self::Revoked | Self::Invalid => &[],
        }
    }

    /// Whether nothing may follow.
    pub const fn is_terminal(self) -> bool {
        self.next().is_empty()
    }

    /// Whether state may go from this status to `to`.
    pub fn may_become(self, to: Self) -> bool {
        self.next().contains(&to)
    }
}

/// One table: what has the states, and each state with those that may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionTable {
    /// What has the states.
    pub of: &'static str,
    /// Each state with those that may follow.
    pub rows: Vec<(&'static str, Vec<&'static str>)>,
}

/// All tables, for documentation.
pub fn tables() -> Vec<TransitionTable> {
    macro_rules! table {
        ($of:literal, $ty:ty) => {
            TransitionTable {
                of: $of,
                rows: <$ty>::ALL
                    .iter()
                    .map(|s| (s.as_str(), s.next().iter().map(|n| n.as_str()).collect()))
                    .collect(),
            }
        };
    }
    vec![
        table!("item", ItemStatus),
        table!("call", UnifiedToolLifecycle),
        table!("operation", OperationState),
        table!("checkpoint", ResourceStatus),
    ]
}
