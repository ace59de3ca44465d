//! Cases with transcript files. No crate reads transcripts yet; this is the one place to fill when one does.

use crate::case::Case;
use crate::evidence::Evidence;

/// The evidence of a case whose input is the files of an agent.
pub(crate) fn evidence(case: &Case) -> Result<Evidence<'_>, String> {
    let name = case.protocol_in.as_deref().unwrap_or("an agent");
    Err(format!("no crate reads the transcripts of {name}"))
}
