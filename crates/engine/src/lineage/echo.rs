//! The place of a request by an ID that it echoes, where its chain does not find it (lineage.md, Issued ids).
//!
//! Some clients leave out the text that an assistant wrote beside a call, and every link behind it is another one then. The newest
//! call that they send back was issued here: the branch that it leads to and the request are walked together. Texts of answers may
//! be missing in the request, everything else must be equal, so an ID alone is no proof.

use super::atoms::{Atom, AtomKind, atoms};
use super::find::{Answered, Search};
use super::{issued, place};
use throughline_format::{UnifiedError, UnifiedId};

/// Places of one ID that are looked at, newest first: some providers number the calls of every answer alike.
const MAX_PLACES: usize = 8;

impl Search<'_> {
    /// The answer of the newest echoed call, when it comes after what the chain found; within a named conversation only there.
    pub(super) async fn by_echo(
        &self,
        asked: &[Atom],
        found: Option<usize>,
        named: Option<&UnifiedId>,
    ) -> Result<Option<(usize, Answered)>, UnifiedError> {
        let Some(at) = asked.iter().rposition(|atom| atom.kind == AtomKind::Call) else {
            return Ok(None);
        };
        let call = asked.get(at).and_then(|atom| self.items.get(atom.item)?.call_id());
        let (Some(call), Some(shared)) = (call, asked.get(..=at)) else {
            return Ok(None);
        };
        if found.is_some_and(|found| found >= at) {
            return Ok(None);
        }
        let hash = issued::hash(&self.engine.vault, call.as_bytes())?;
        let rows = self.engine.store.issued_ids(self.principal_ref, &[hash]).await;
        let rows = rows.map_err(|e| e.to_unified())?;
        let in_reach = rows
            .into_iter()
            .filter(|row| named.is_none_or(|named| *named == row.conversation_id));
        for row in in_reach.take(MAX_PLACES) {
            let path = self.path(&row.branch_id).await?;
            let Some(on) = place::index_of(&path.items, &row.item_id) else {
                continue;
            };
            if leaves_out_texts(shared, &atoms(path.items.get(..=on).unwrap_or_default())) {
                return Ok(Some((
                    at,
                    Answered {
                        conversation: row.conversation_id,
                        branch: row.branch_id,
                        item: row.item_id,
                    },
                )));
            }
        }
        Ok(None)
    }
}

/// Whether a request is the history without some of the texts of its answers.
fn leaves_out_texts(asked: &[Atom], known: &[Atom]) -> bool {
    let mut rest = asked.iter().peekable();
    for atom in known {
        if rest.peek().is_some_and(|next| next.canonical == atom.canonical) {
            rest.next();
        } else if atom.kind != AtomKind::Text {
            return false;
        }
    }
    rest.peek().is_none()
}
