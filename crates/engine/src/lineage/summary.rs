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

/// The texts of a request that may be a summary, for [`repeats`]: Codex keeps what its user wrote in front of it.
pub(crate) fn texts(request: &[UnifiedItem]) -> Vec<String> {
    let texts = request.iter().filter(|item| is_message(item)).map(plain);
    texts.filter(|text| text.chars().count() >= LEAST_CHARS).collect()
}

/// Whether one of the texts says one of these answers.
pub(crate) fn repeats(texts: &[String], answers: &[UnifiedItem]) -> bool {
    answers.iter().any(|item| texts.iter().any(|text| is_said(text, item)))
}

/// Where a request goes that opens with the summary of a branch, of which it shares no message; `None` when it is no compaction.
pub(crate) fn of_client(request: &[UnifiedItem], path: &[UnifiedItem]) -> Option<Place> {
    let opening = request.iter().position(is_message)?;
    let begins = path.iter().find(|item| is_message(item))?;
    if request.get(opening).map(plain) == Some(plain(begins)) {
        return None;
    }
    said_at(request, path, opening)
}

/// Where a request goes that holds the summary of a branch somewhere; `None` when it is no compaction.
pub(crate) fn of_session(request: &[UnifiedItem], path: &[UnifiedItem]) -> Option<Place> {
    let mut messages = (0..request.len()).filter(|at| request.get(*at).is_some_and(is_message));
    messages.find_map(|at| said_at(request, path, at))
}

/// The place of a request whose message at this index says an answer of the branch.
fn said_at(request: &[UnifiedItem], path: &[UnifiedItem], at: usize) -> Option<Place> {
    let said = plain(request.get(at)?);
    let summed_up = path.iter().rev().find(|item| is_said(&said, item))?;
    // What the summary stands for ends where no call waits for its result.
    let last = boundary(path, &summed_up.id)?;
    let shared_through = path.iter().position(|item| item.id == *last)?;
    let new_items = (0..request.len()).filter(|at| request.get(*at).is_some_and(|item| !item.is_instructions()));
    Some(Place {
        shared_through: Some(shared_through),
        new_items: new_items.collect(),
        forks: true,
        summary: Some(at),
        rewritten: Vec::new(),
    })
}
