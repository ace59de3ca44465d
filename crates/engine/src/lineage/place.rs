//! Where a request belongs on a branch, once its deepest evidence is known.
//!
//! Everything after the evidence is walked along the branch and reused while it is equal, so asking again adds an answer
//! and not a copy of the question. The first difference, or an answer on the branch that the client did not send, forks.
//!
//! Before the evidence only results of calls can differ: no link is made of them. Answers follow there, so the client pruned or
//! annotated its copy, and from now on its text counts (a revision). After the evidence another result is another run: a fork.

use super::atoms::{Atom, atoms, part_identity};
use super::calls::{is_result, result_places};
use throughline_format::item::{Placement, Role, UnifiedItemBody, newest_instructions};
use throughline_format::provenance::ItemOrigin;
use throughline_format::{UnifiedId, UnifiedItem};

/// Where new items go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the last item of the branch path that the request shares; `None` = nothing is shared.
    pub shared_through: Option<usize>,
    /// Indexes of the request's items that are new, in order.
    pub new_items: Vec<usize>,
    /// Whether the branch goes on after the shared items, so that a fork is needed.
    pub forks: bool,
    /// Index of the request's item by which the client sums up everything that is shared.
    pub summary: Option<usize>,
    /// Results that the client's copy tells otherwise, though answers follow them: index on the branch path, and in the request.
    pub rewritten: Vec<(usize, usize)>,
}

impl Place {
    /// A request that shares nothing.
    pub fn fresh(request: &[UnifiedItem]) -> Self {
        Self {
            shared_through: None,
            new_items: (0..request.len()).collect(),
            forks: false,
            summary: None,
            rewritten: Vec::new(),
        }
    }
}

/// Places a request whose evidence ends at `request_item` of the request and `path_item` of the branch path.
pub fn after_evidence(
    request: &[UnifiedItem],
    request_item: usize,
    path: &[UnifiedItem],
    path_item: usize,
    same_call: &dyn Fn(&str, &str) -> bool,
) -> Place {
    // What still belongs to the answer (reasoning, hosted calls) is on the branch already.
    let mut at = request_item + 1;
    while request.get(at).is_some_and(belongs_to_answer) {
        at += 1;
    }
    Place {
        rewritten: rewritten_results(
            request.get(..=request_item).unwrap_or_default(),
            path.get(..=path_item).unwrap_or_default(),
        ),
        ..walk(request, at, path, path_item + 1, Some(path_item), same_call)
    }
}

/// Places a request whose conversation the client named: by equal atoms from the root, without evidence.
///
/// A request that shares nothing with the branch is taken as what is new.
pub fn in_named_conversation(request: &[UnifiedItem], path: &[UnifiedItem], same_call: &dyn Fn(&str, &str) -> bool) -> Place {
    let (asked, known) = (atoms(request), atoms(path));
    let common = asked.iter().zip(&known).take_while(|(a, b)| a.canonical == b.canonical).count();
    let last_answer = |list: &[Atom]| list.get(..common).unwrap_or_default().iter().rposition(Atom::is_answer);
    match (
        last_answer(&asked).and_then(|i| asked.get(i)),
        last_answer(&known).and_then(|i| known.get(i)),
    ) {
        (Some(a), Some(b)) => after_evidence(request, a.item, path, end_of_answer(path, b.item), same_call),
        _ if common > 0 => from_the_begin(request, path, same_call),
        _ => Place {
            shared_through: path.len().checked_sub(1),
            new_items: (0..request.len())
                .filter(|i| request.get(*i).is_some_and(|item| !item.is_instructions()))
                .collect(),
            forks: false,
            summary: None,
            rewritten: Vec::new(),
        },
    }
}

/// Places a request whose whole history is known to be asked before on the branch: by equal items from the root.
pub fn from_the_begin(request: &[UnifiedItem], path: &[UnifiedItem], same_call: &dyn Fn(&str, &str) -> bool) -> Place {
    walk(request, 0, path, 0, None, same_call)
}

/// Results of the shared history whose text is another one in the client's copy, compared by the place of their call: IDs may
/// have been used twice or renamed. Nothing is said where the calls cannot be paired.
fn rewritten_results(request: &[UnifiedItem], path: &[UnifiedItem]) -> Vec<(usize, usize)> {
    let (asked, known) = (result_places(request), result_places(path));
    if asked.len() != known.len() {
        return Vec::new();
    }
    let both = known.into_iter().zip(asked).filter_map(|(on, at)| on.zip(at));
    both.filter(|(on, at)| {
        let pair = path.get(*on).zip(request.get(*at));
        pair.is_some_and(|(stored, told)| !same_content(told, stored))
    })
    .collect()
}

/// The last item of the answer that `item` belongs to.
fn end_of_answer(path: &[UnifiedItem], item: usize) -> usize {
    let mut end = item;
    while path.get(end + 1).is_some_and(|next| belongs_to_answer(next) && !has_atoms(next)) {
        end += 1;
    }
    end
}

fn walk(
    request: &[UnifiedItem],
    mut at: usize,
    path: &[UnifiedItem],
    mut on: usize,
    mut shared: Option<usize>,
    same_call: &dyn Fn(&str, &str) -> bool,
) -> Place {
    loop {
        while request.get(at).is_some_and(UnifiedItem::is_instructions) {
            at += 1;
        }
        while path.get(on).is_some_and(is_beside_history) {
            on += 1;
        }
        let (Some(asked), Some(known)) = (request.get(at), path.get(on)) else {
            break;
        };
        if is_result(asked) && is_result(known) {
            // Results of parallel calls may come in another order.
            let (run, stored) = (run_of_results(request, at), run_of_results(path, on));
            if !same_results(run, stored, same_call) {
                break;
            }
            at += run.len();
            on += stored.len();
        } else if same_item(asked, known) {
            at += 1;
            on += 1;
        } else {
            break;
        }
        shared = Some(on - 1);
    }
    let new_items = (at..request.len())
        .filter(|i| request.get(*i).is_some_and(|item| !item.is_instructions()))
        .collect();
    let forks = path.get(on..).unwrap_or_default().iter().any(|item| !is_beside_history(item));
    // At the head, items beside history (a switch, an error) stay before what is new.
    let shared_through = if forks { shared } else { path.len().checked_sub(1) };
    Place {
        shared_through,
        new_items,
        forks,
        summary: None,
        rewritten: Vec::new(),
    }
}

fn belongs_to_answer(item: &UnifiedItem) -> bool {
    match &item.body {
        UnifiedItemBody::Message(_) => item.role == Some(Role::Assistant),
        UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ApprovalResponse(_) | UnifiedItemBody::ComputerActionResult(_) => false,
        _ => true,
    }
}

fn has_atoms(item: &UnifiedItem) -> bool {
    !atoms(std::slice::from_ref(item)).is_empty()
}

/// Engine items and instructions: on the branch, but not something that a client sends back in place.
fn is_beside_history(item: &UnifiedItem) -> bool {
    let by_engine = item.provenance.origin == ItemOrigin::Engine;
    by_engine && !matches!(item.body, UnifiedItemBody::Message(_) | UnifiedItemBody::ToolResult(_)) || item.is_instructions()
}

fn run_of_results(items: &[UnifiedItem], from: usize) -> &[UnifiedItem] {
    let tail = items.get(from..).unwrap_or_default();
    let length = tail.iter().take_while(|item| is_result(item)).count();
    tail.get(..length).unwrap_or_default()
}

fn same_results(asked: &[UnifiedItem], known: &[UnifiedItem], same_call: &dyn Fn(&str, &str) -> bool) -> bool {
    let same = |a: &UnifiedItem, k: &UnifiedItem| a.call_id().zip(k.call_id()).is_some_and(|(x, y)| same_call(x, y)) && same_content(a, k);
    // Most come in the order in which they are stored; only the others are looked for.
    asked.len() == known.len()
        && asked
            .iter()
            .zip(known)
            .all(|(a, at)| same(a, at) || known.iter().any(|k| same(a, k)))
}

fn same_item(asked: &UnifiedItem, known: &UnifiedItem) -> bool {
    match (&asked.body, &known.body) {
        (UnifiedItemBody::CompactionSummary(_), UnifiedItemBody::CompactionSummary(_)) => same_content(asked, known),
        (UnifiedItemBody::Message(a), UnifiedItemBody::Message(k)) => {
            let inline = |p: Option<Placement>| p.is_none_or(|p| p == Placement::Inline);
            asked.role == known.role && inline(a.placement) == inline(k.placement) && same_content(asked, known)
        }
        _ => false,
    }
}

/// Equal texts up to white space and borders of parts, and equal media and JSON one by one.
fn same_content(a: &UnifiedItem, b: &UnifiedItem) -> bool {
    let text = |item: &UnifiedItem| -> String {
        item.parts()
            .iter()
            .filter_map(|part| part.as_text())
            .flat_map(str::chars)
            .filter(|c| !c.is_whitespace())
            .collect()
    };
    let others = |item: &UnifiedItem| -> Vec<String> {
        item.parts()
            .iter()
            .filter(|part| part.as_text().is_none())
            .map(|part| part_identity(&part.body))
            .collect()
    };
    text(a) == text(b) && others(a) == others(b)
}

/// Whether the request's instructions differ from the newest ones of the branch, compared block by block.
pub fn instructions_changed(request: &[UnifiedItem], path: &[UnifiedItem]) -> bool {
    let asked: Vec<&UnifiedItem> = request.iter().filter(|i| i.is_instructions()).collect();
    let known = path.get(newest_instructions(path)).unwrap_or_default();
    asked.len() != known.len() || asked.iter().zip(known).any(|(a, k)| a.role != k.role || !same_content(a, k))
}

/// Index of an item on a path.
pub fn index_of(path: &[UnifiedItem], item_id: &UnifiedId) -> Option<usize> {
    path.iter().rposition(|item| item.id == *item_id)
}
