//! Items as contents of the wire, legal whatever the history holds: calls answered by the next turn, roles that alternate, a
//! user first, a signature on the first call of every step.

use super::encode_item::{Piece, with_id};
use super::encode_part::{Border, PartEncoder, Place, part_of, text};
use super::kept::SENTINEL;
use super::models::Generation;
use crate::call_arguments::NO_RESULT;
use crate::feature::Feature;
use crate::pairing::{self, FreeIds};
use crate::raw::{self, json, object, put};
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::item::{ReasoningItem, Role, newest_instructions};
use throughline_format::loss::LossSeverity::{Info, Warning};
use throughline_format::{Json, UnifiedId, UnifiedItem, UnifiedItemBody};

/// Who says a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `user`
    User,
    /// `model`
    Model,
}

/// What a part is, as far as the rules of the wire care.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A call with its ID.
    Call(String),
    /// A result with its call's ID.
    Result(String),
    /// Anything else.
    Other,
    /// A turn without parts.
    Nothing,
}

/// One part with what decides its place.
#[derive(Clone, Debug)]
struct Atom {
    side: Side,
    kind: Kind,
    json: Json,
    border: Option<Border>,
    native: bool,
    /// Media of a result that stand beside it.
    beside: Vec<Json>,
    path: String,
    item: UnifiedId,
}

/// One content of the wire.
struct Turn {
    side: Side,
    atoms: Vec<Atom>,
}

/// A model's turn and what the user says to it.
#[derive(Default)]
struct Exchange {
    model: Vec<Atom>,
    user: Vec<Atom>,
}

/// What stands where the wire demands a user's turn and the history has none.
const PLACEHOLDER: &str = "Continue.";

/// The contents of a request, without the instructions.
pub(super) fn contents(encoder: &mut PartEncoder<'_>, items: &[UnifiedItem]) -> Vec<Json> {
    let atoms = atoms(encoder, items);
    let mut exchanges = vec![Exchange::default()];
    for atom in atoms {
        if atom.side == Side::Model && exchanges.last().is_some_and(|e| !e.user.is_empty()) {
            exchanges.push(Exchange::default());
        }
        if let Some(exchange) = exchanges.last_mut() {
            if atom.side == Side::Model {
                exchange.model.push(atom);
            } else {
                exchange.user.push(atom);
            }
        }
    }
    pair(encoder, &mut exchanges);
    let mut turns: Vec<Turn> = Vec::new();
    for exchange in exchanges {
        push(&mut turns, Side::Model, exchange.model);
        push(&mut turns, Side::User, exchange.user);
    }
    ends(encoder, &mut turns);
    sign(encoder, &mut turns);
    turns.into_iter().map(content).collect()
}

fn atoms(encoder: &mut PartEncoder<'_>, items: &[UnifiedItem]) -> Vec<Atom> {
    // Calls that the provider answered in its own turn need no answer of the user.
    let answered: BTreeSet<&str> = items
        .iter()
        .filter(|item| item.role == Some(Role::Assistant) && encoder.is_own(item))
        .filter_map(|item| match &item.body {
            UnifiedItemBody::ToolResult(result) => Some(result.call_id.as_str()),
            _ => None,
        })
        .collect();
    let covered = crate::compacted::covered(items);
    let said_by_the_user = if encoder.reduced { newest_instructions(items) } else { 0..0 };
    let is_sent =
        |(index, item): &(usize, &UnifiedItem)| (!item.is_instructions() || said_by_the_user.contains(index)) && !covered.contains(index);
    let mut atoms = Vec::new();
    for (index, item) in items.iter().enumerate().filter(is_sent) {
        let path = format!("/conversation/items/{index}");
        let native = encoder.is_own(item);
        let side = side_of(encoder, item, &path);
        let mut border = encoder.border(item);
        for (piece, path) in encoder.item(item, &path, false) {
            let call_id = item.call_id().unwrap_or_default().to_owned();
            let (kind, json, beside) = match piece {
                Piece::Part(json) => (Kind::Other, json, Vec::new()),
                Piece::Call(json) if answered.contains(call_id.as_str()) => (Kind::Other, json, Vec::new()),
                Piece::Call(json) => (Kind::Call(call_id), json, Vec::new()),
                Piece::Result(json, beside) => (Kind::Result(call_id), json, beside),
                Piece::Nothing => (Kind::Nothing, Json::null(), Vec::new()),
            };
            atoms.push(Atom {
                side,
                kind,
                json,
                border: border.take(),
                native,
                beside,
                path,
                item: item.id.clone(),
            });
        }
    }
    atoms
}

fn side_of(encoder: &mut PartEncoder<'_>, item: &UnifiedItem, path: &str) -> Side {
    match (&item.role, &item.body) {
        (Some(Role::System | Role::Developer), _) => {
            let place = Place { path, item: &item.id };
            let reason = "the target takes no system text in the conversation; it is said by the user";
            encoder.lost(Warning, Feature::ConversationSystemInline, place, reason);
            Side::User
        }
        // What a provider's tool found is no word of the user, whoever carried it here.
        (
            _,
            UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::ComputerActionResult(_),
        ) => Side::Model,
        // What another provider answered in its own turn is said by the user here.
        (Some(Role::Assistant), UnifiedItemBody::ToolResult(_)) if !encoder.is_own(item) => Side::User,
        (Some(Role::Assistant), _) => Side::Model,
        (Some(Role::User | Role::Tool), _) => Side::User,
        (
            None,
            UnifiedItemBody::Reasoning(ReasoningItem { .. })
            | UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::CodeExecution(_),
        ) => Side::Model,
        (None, _) => Side::User,
    }
}

/// Moves every result behind its call, makes stand-ins for missing ones and turns orphans into text.
fn pair(encoder: &mut PartEncoder<'_>, exchanges: &mut [Exchange]) {
    let mut ids = FreeIds::default();
    let spell = |id: &str| crate::call_id::wire(id, super::MAX_CALL_ID).into_owned();
    let heads: Vec<_> = exchanges.iter_mut().map(take_border).collect();
    let mut answers = take_results(exchanges);
    for (index, head) in heads.into_iter().enumerate() {
        let calls: Vec<(usize, String)> = exchanges
            .get(index)
            .map(|e| {
                e.model
                    .iter()
                    .enumerate()
                    .filter_map(|(at, atom)| call_of(atom).map(|id| (at, id)))
                    .collect()
            })
            .unwrap_or_default();
        let mut results = Vec::new();
        for (at, call) in calls {
            let id = ids.take(&call, call.clone(), spell);
            let result = answers.remove(&(index, at));
            let Some(atom) = exchanges.get_mut(index).and_then(|e| e.model.get_mut(at)) else {
                continue;
            };
            if id != call {
                let place = Place {
                    path: &atom.path,
                    item: &atom.item,
                };
                encoder.lost(Info, Feature::ToolCallId, place, "another call of the request has this ID");
                atom.json = with_id(&atom.json, "functionCall", Some(&id));
            }
            let name = raw::get(&atom.json, "functionCall").and_then(|call| raw::get(&call, "name"));
            // A client of this very wire knows whether its model wants every call answered.
            if result.is_none() && atom.native && matches!(encoder.generation(), Generation::Second | Generation::Unknown) {
                atom.kind = Kind::Other;
                continue;
            }
            let (order, mut result) = result.unwrap_or_else(|| (usize::MAX, stand_in(encoder, atom)));
            if order == LATE {
                let place = Place {
                    path: &result.path,
                    item: &result.item,
                };
                encoder.lost(Info, Feature::ConversationOrder, place, "the result is moved behind its call");
            }
            if id != call {
                result.json = with_id(&result.json, "functionResponse", Some(&id));
            }
            if let Some(name) = name.filter(|_| !result.native || order == usize::MAX) {
                result.json = put(&result.json, "/functionResponse/name", &name);
            }
            result.border = None;
            results.push((order, result));
        }
        // A client of this very wire keeps its own order; others get that of the calls.
        if results.iter().all(|(_, result)| result.native) {
            results.sort_by_key(|(order, _)| *order);
        }
        let Some(exchange) = exchanges.get_mut(index) else { continue };
        let rest = std::mem::take(&mut exchange.user);
        for (_, mut result) in results {
            let beside = std::mem::take(&mut result.beside);
            let template = result.clone();
            exchange.user.push(result);
            exchange.user.extend(beside.into_iter().map(|json| Atom {
                kind: Kind::Other,
                json,
                ..template.clone()
            }));
        }
        // Results first, whatever stands beside them afterwards.
        exchange.user.sort_by_key(|atom| !matches!(atom.kind, Kind::Result(_)));
        exchange.user.extend(rest);
        if let (Some(border), Some(first)) = (head, exchange.user.first_mut()) {
            first.border = Some(border);
        }
    }
    for exchange in exchanges {
        let answers = exchange.model.iter().filter(|a| call_of(a).is_some()).count();
        let user = std::mem::take(&mut exchange.user);
        for (n, atom) in user.into_iter().enumerate() {
            if n >= answers && matches!(atom.kind, Kind::Result(_)) {
                exchange.user.extend(orphan(encoder, atom));
            } else {
                exchange.user.push(atom);
            }
        }
    }
}

/// The border of the user's first content goes over to whatever comes to stand first in it.
fn take_border(exchange: &mut Exchange) -> Option<Border> {
    exchange.model.iter().find(|atom| call_of(atom).is_some())?;
    exchange.user.first_mut()?.border.take()
}

/// Order of a result that stood further on.
const LATE: usize = usize::MAX - 1;

fn call_of(atom: &Atom) -> Option<String> {
    match &atom.kind {
        Kind::Call(id) => Some(id.clone()),
        Kind::Result(_) | Kind::Other | Kind::Nothing => None,
    }
}

/// Takes the results that have a call out of the user's words; by exchange and place of the call, each with its order.
fn take_results(exchanges: &mut [Exchange]) -> BTreeMap<(usize, usize), (usize, Atom)> {
    let answers = pairing::answers(exchanges.iter().map(|exchange| {
        let calls = exchange.model.iter().enumerate().filter_map(|(at, atom)| match &atom.kind {
            Kind::Call(id) => Some((at, id.as_str())),
            _ => None,
        });
        let results = exchange.user.iter().enumerate().filter_map(|(at, atom)| match &atom.kind {
            Kind::Result(id) => Some((at, id.as_str())),
            _ => None,
        });
        (calls.collect(), results.collect())
    }));
    let mut taken = BTreeMap::new();
    for (index, exchange) in exchanges.iter_mut().enumerate() {
        let mut left: Vec<Atom> = Vec::with_capacity(exchange.user.len());
        let mut atoms = std::mem::take(&mut exchange.user).into_iter().enumerate().peekable();
        while let Some((at, mut atom)) = atoms.next() {
            let Some(call) = answers.get(&(index, at)) else {
                left.push(atom);
                continue;
            };
            if let Some((_, next)) = atoms.peek_mut().filter(|(_, next)| next.border.is_none()) {
                next.border = atom.border.take();
            }
            let order = if call.0 == index { order_of(&atom) } else { LATE };
            taken.insert(*call, (order, atom));
        }
        exchange.user = left;
    }
    taken
}

/// Number of the item in the path, which is its order in the history.
fn order_of(atom: &Atom) -> usize {
    let rest = atom.path.strip_prefix("/conversation/items/").unwrap_or_default();
    rest.split('/').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A result for a call that has none.
fn stand_in(encoder: &mut PartEncoder<'_>, call: &Atom) -> Atom {
    let place = Place {
        path: &call.path,
        item: &call.item,
    };
    encoder.lost(
        Warning,
        Feature::ConversationInterruption,
        place,
        "the call has no result; a stand-in says so",
    );
    let inner = raw::get(&call.json, "functionCall").unwrap_or_else(Json::null);
    let mut members = Vec::new();
    members.extend(raw::get(&inner, "id").map(|id| ("id".to_owned(), id)));
    members.extend(raw::get(&inner, "name").map(|name| ("name".to_owned(), name)));
    members.push(("response".into(), object(vec![("error".into(), json(NO_RESULT))])));
    Atom {
        side: Side::User,
        kind: Kind::Result(call_of(call).unwrap_or_default()),
        json: part_of("functionResponse", object(members)),
        border: None,
        native: false,
        beside: Vec::new(),
        path: call.path.clone(),
        item: call.item.clone(),
    }
}

/// A result without a call, as text and media of the user.
fn orphan(encoder: &mut PartEncoder<'_>, atom: Atom) -> Vec<Atom> {
    let place = Place {
        path: &atom.path,
        item: &atom.item,
    };
    encoder.lost(
        Warning,
        Feature::ConversationOrder,
        place,
        "a result without its call is told as text",
    );
    let inner = raw::get(&atom.json, "functionResponse").unwrap_or_else(Json::null);
    let response = raw::get(&inner, "response").unwrap_or_else(|| object(Vec::new()));
    let said = match raw::members(&response).as_slice() {
        [(key, value)] if matches!(key.as_str(), "output" | "error") => value.decode().unwrap_or_else(|_| response.as_str().to_owned()),
        _ => response.as_str().to_owned(),
    };
    let media: Vec<Json> = raw::get(&inner, "parts").and_then(|p| p.decode().ok()).unwrap_or_default();
    let first = text(&format!("Result of an earlier tool call: {said}"));
    let mut border = atom.border.clone();
    std::iter::once(first)
        .chain(media)
        .chain(atom.beside.clone())
        .map(|json| Atom {
            kind: Kind::Other,
            json,
            border: border.take(),
            beside: Vec::new(),
            ..atom.clone()
        })
        .collect()
}

/// Adds parts of one side, split where the source kept neighbours of one role apart.
fn push(turns: &mut Vec<Turn>, side: Side, atoms: Vec<Atom>) {
    for atom in atoms {
        let apart = atom.border.as_ref().is_some_and(|b| b.apart);
        let last = turns.last_mut().filter(|turn| turn.side == side && !apart);
        match last {
            // A turn without parts says nothing beside another one.
            Some(_) if atom.kind == Kind::Nothing => {}
            Some(turn) => {
                turn.atoms.retain(|a| a.kind != Kind::Nothing);
                turn.atoms.push(atom);
            }
            None => turns.push(Turn { side, atoms: vec![atom] }),
        }
    }
}

/// A user's turn first and last, unless the client of this very wire had it otherwise.
fn ends(encoder: &mut PartEncoder<'_>, turns: &mut Vec<Turn>) {
    let placeholder = |item: UnifiedId| Turn {
        side: Side::User,
        atoms: vec![Atom {
            side: Side::User,
            kind: Kind::Other,
            json: text(PLACEHOLDER),
            border: None,
            native: false,
            beside: Vec::new(),
            path: "/conversation/items".to_owned(),
            item,
        }],
    };
    let is_foreign_model = |turn: Option<&Turn>| turn.is_some_and(|t| t.side == Side::Model && t.atoms.iter().any(|a| !a.native));
    let item = |turn: Option<&Turn>| {
        turn.and_then(|t| t.atoms.first())
            .map_or_else(UnifiedId::pending, |a| a.item.clone())
    };
    if turns.is_empty() || is_foreign_model(turns.first()) {
        encoder.loss.warning(
            Feature::ConversationMessageBoundary,
            "/conversation/items",
            "the target demands a user's turn first; a placeholder stands there",
        );
        let first = placeholder(item(turns.first()));
        turns.insert(0, first);
    }
    if is_foreign_model(turns.last()) {
        let path = turns
            .last()
            .and_then(|t| t.atoms.last())
            .map(|a| a.path.clone())
            .unwrap_or_default();
        encoder.loss.warning(
            Feature::GenerationPrefill,
            path,
            "the target takes no beginning of its answer; it is asked to continue",
        );
        let last = placeholder(item(turns.last()));
        turns.push(last);
    }
}

/// The first call of every step carries a signature: the provider's own, else the documented value that skips validation.
fn sign(encoder: &mut PartEncoder<'_>, turns: &mut [Turn]) {
    // The value is documented for Gemini's own models. Whoever serves another vendor's by this wire refuses it.
    if encoder.serves_another_vendor() || encoder.reduced {
        return;
    }
    let enforced = match encoder.generation() {
        Generation::Second | Generation::Foreign => return,
        Generation::Third => true,
        Generation::Unknown => false,
    };
    for turn in turns.iter_mut().filter(|turn| turn.side == Side::Model) {
        let first = turn.atoms.iter_mut().find(|a| raw::get(&a.json, "functionCall").is_some());
        let Some(atom) = first.filter(|a| raw::get(&a.json, "thoughtSignature").is_none()) else {
            continue;
        };
        // A client of this very wire knows whether its model checks.
        if atom.native && !enforced {
            continue;
        }
        let place = Place {
            path: &atom.path,
            item: &atom.item,
        };
        encoder.lost(
            Info,
            Feature::ReasoningSignature,
            place,
            "no signature of the target's owner; a synthetic value that skips validation is sent, and the reasoning does not go on",
        );
        atom.json = put(&atom.json, "/thoughtSignature", &json(SENTINEL));
    }
}

fn content(turn: Turn) -> Json {
    let role = match turn.side {
        Side::User => "user",
        Side::Model => "model",
    };
    let border = turn.atoms.first().and_then(|a| a.border.clone()).unwrap_or_default();
    let parts: Vec<Json> = turn.atoms.into_iter().filter(|a| a.kind != Kind::Nothing).map(|a| a.json).collect();
    let made = object(vec![("role".into(), json(role)), ("parts".into(), json(&parts))]);
    raw::put_all(made, &border.members)
}
