//! Which members of a request became which intent.

use crate::requirement::{Became, RequirementPointer};

/// The table.
pub(crate) const POINTERS: &[RequirementPointer] = &[("/model", Became::Model)];
