//! A client's own compaction: a shorter history that begins with a summary of the earlier one (lineage.md, Side requests).
//!
//! The summary was an answer of this conversation, and comes back inside of a message: whoever names the conversation and says
//! the whole text of one of its answers goes on from there with nothing but that. Text alone proves nothing, so this is asked
//! only where the client names the conversation.

use super::place::Place;
use throughline_format::compaction::boundary;
use throughline_format::item::Role;
use throughline_format::{UnifiedItem, UnifiedItemBody};

/// Shorter answers stand in many a message by chance.
const LEAST_CHARS: usize = 40;

fn plain(item: &UnifiedItem) -> String {
    let texts = item.parts().iter().filter_map(|part| part.as_text());
    texts.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

fn is_message(item: &UnifiedItem) -> bool {
    matches!(item.body, UnifiedItemBody::Message(_)) && !item.is_instructions()
}

/// Whether an item is an answer whose whole text is said.
fn is_said(said: &str, item: &UnifiedItem) -> bool {
    let text = plain(item);
    is_message(item) && item.role == Some(Role::Assistant) && text.chars().count() >= LEAST_CHARS && said.contains(&text)
}

/// The text with which a request opens, for [`repeats`].
pub(crate) fn opening(request: &[UnifiedItem]) -> Option<String> {
    let text = request.iter().find(|item| is_message(item)).map(plain)?;
    (text.chars().count() >= LEAST_CHARS).then_some(text)
}

/// Whether an opening says one of these answers.
pub(crate) fn repeats(opening: &str, answers: &[UnifiedItem]) -> bool {
    answers.iter().any(|item| is_said(opening, item))
}

/// Where a request goes that shares no message with a branch but holds one of its answers; `None` when it is no compaction.
pub(crate) fn of_client(request: &[UnifiedItem], path: &[UnifiedItem]) -> Option<Place> {
    let (first, opening) = request.iter().enumerate().find(|(_, item)| is_message(item))?;
    let begins = path.iter().find(|item| is_message(item))?;
    if plain(begins) == plain(opening) {
        return None;
    }
    let said = plain(opening);
    let summed_up = path.iter().rev().find(|item| is_said(&said, item))?;
    // What the summary stands for ends where no call waits for its result.
    let last = boundary(path, &summed_up.id)?;
    let shared_through = path.iter().position(|item| item.id == *last)?;
    let new_items = (first..request.len()).filter(|at| request.get(*at).is_some_and(|item| !item.is_instructions()));
    Some(Place {
        shared_through: Some(shared_through),
        new_items: new_items.collect(),
        forks: true,
        summary: Some(first),
        rewritten: Vec::new(),
    })
}
