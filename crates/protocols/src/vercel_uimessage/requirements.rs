//! Which members of a request body became which intent: the transport's body has the model, and nothing else with a strength.

use crate::requirement::{Became, RequirementPointer};

/// The table.
pub(crate) const POINTERS: &[RequirementPointer] = &[("/model", Became::Model)];
