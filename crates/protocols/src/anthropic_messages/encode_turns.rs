//! Puts blocks together to messages: pairs calls and results, joins roles, keeps system text in place, counts cache marks.

use super::encode_block::{BlockEncoder, Place, text, typed};
use super::encode_history::{Atom, Kind, Mark, Side};
use super::encode_hosted;
use crate::call_arguments::NO_RESULT;
use crate::feature::Feature;
use crate::history::HistoryPiece;
use crate::pairing::{self, FreeIds};
use crate::raw::{self};
use crate::raw::{json, object};
use std::collections::BTreeMap;
use throughline_format::Json;
use throughline_format::cache::CacheTtl;
use throughline_format::loss::LossSeverity::{Info, Warning};

/// One message of the wire.
#[derive(Debug)]
pub(super) struct Turn {
    /// Who speaks.
    pub(super) side: Side,
    /// Its blocks.
    pub(super) atoms: Vec<Atom>,
}

/// An assistant turn and what the user says to it.
#[derive(Default)]
pub(super) struct Exchange {
    /// Its blocks.
    pub(super) assistant: Vec<Atom>,
    /// What the user says to it.
    pub(super) user: Vec<Atom>,
}

/// What stands where the wire demands a user message and the history has none.
const PLACEHOLDER: &str = "Continue.";

/// Messages from blocks in order.
pub(super) fn turns(encoder: &mut BlockEncoder<'_>, atoms: Vec<Atom>) -> Vec<Turn> {
    let mut exchanges = vec![Exchange::default()];
    for atom in atoms {
        let open = exchanges.last().is_some_and(|e| !e.user.is_empty());
        if atom.side == Side::Assistant && open {
            exchanges.push(Exchange::default());
        }
        if let Some(exchange) = exchanges.last_mut() {
            if atom.side == Side::Assistant {
                exchange.assistant.push(atom);
            } else {
                exchange.user.push(atom);
            }
        }
    }
    encode_hosted::pair_hosted(encoder, &mut exchanges);
    pair(encoder, &mut exchanges);
    let mut turns = Vec::new();
    for exchange in exchanges {
        let after_server = exchange.assistant.last().is_some_and(|a| matches!(a.kind, Kind::ServerResult(..)));
        push(&mut turns, Side::Assistant, exchange.assistant);
        user_turns(encoder, &mut turns, exchange.user, after_server);
    }
    if turns.first().is_none_or(|turn| turn.side != Side::User) {
        encoder.loss.warning(
            Feature::ConversationMessageBoundary,
            "/conversation/items",
            "the target demands a user message first; a placeholder stands there",
        );
        let path = "/conversation/items/0".to_owned();
        let item = encoder_item(&turns);
        turns.insert(
            0,
            Turn {
                side: Side::User,
                atoms: vec![Atom {
                    side: Side::User,
                    kind: Kind::Text,
                    json: text(PLACEHOLDER),
                    mark: None,
                    apart: None,
                    path,
                    item,
                }],
            },
        );
    }
    turns
}

/// An item for placeholders, which belong to none.
fn encoder_item(turns: &[Turn]) -> throughline_format::UnifiedId {
    turns
        .first()
        .and_then(|t| t.atoms.first())
        .map_or_else(throughline_format::UnifiedId::pending, |a| a.item.clone())
}

/// Adds blocks of one side, split where the source kept neighbours of one role apart.
fn push(turns: &mut Vec<Turn>, side: Side, atoms: Vec<Atom>) {
    for atom in atoms {
        match turns.last_mut().filter(|turn| turn.side == side && atom.apart.is_none()) {
            Some(turn) => turn.atoms.push(atom),
            None => turns.push(Turn { side, atoms: vec![atom] }),
        }
    }
}

/// Moves every result behind its call, makes stand-ins for missing ones and turns orphans into text.
fn pair(encoder: &mut BlockEncoder<'_>, exchanges: &mut [Exchange]) {
    let max_length = encoder.context.capabilities.knobs().max_tool_id_length;
    let mut ids = FreeIds::default();
    let spell = |id: &str| crate::call_id::wire(id, max_length).into_owned();
    let heads: Vec<_> = exchanges.iter_mut().map(take_head).collect();
    let mut answers = take_results(exchanges);
    for index in 0..exchanges.len() {
        let calls: Vec<(usize, String)> = exchanges
            .get(index)
            .map(|e| &e.assistant)
            .into_iter()
            .flatten()
            .enumerate()
            .filter_map(|(at, atom)| call_of(atom).map(|id| (at, id)))
            .collect();
        let (mut results, mut behind) = (Vec::new(), Vec::new());
        for (at, call_id) in calls {
            let wire_id = ids.take(&call_id, spell(&call_id), spell);
            let result = answers.remove(&(index, at));
            let Some(call) = exchanges.get_mut(index).and_then(|e| e.assistant.get_mut(at)) else {
                continue;
            };
            if wire_id != call_id {
                encoder.loss.add_for(
                    Info,
                    Feature::ToolCallId,
                    call.path.clone(),
                    "the call ID is replaced by one of the target's alphabet",
                    Some(&call.item),
                );
            }
            call.json = raw::put(&call.json, "/id", &json(&wire_id));
            let (order, mut result) = result.unwrap_or_else(|| {
                encoder.loss.add_for(
                    Warning,
                    Feature::ConversationInterruption,
                    call.path.clone(),
                    "the call has no result; a stand-in says so",
                    Some(&call.item),
                );
                let block = typed(
                    "tool_result",
                    [
                        ("tool_use_id", Some(json(""))),
                        ("content", Some(json(NO_RESULT))),
                        ("is_error", Some(json(&true))),
                    ],
                );
                let atom = Atom {
                    side: Side::User,
                    kind: Kind::Result(call_id.clone(), Vec::new()),
                    json: block,
                    mark: None,
                    apart: None,
                    path: call.path.clone(),
                    item: call.item.clone(),
                };
                (usize::MAX, atom)
            });
            if order == LATE {
                encoder.loss.add_for(
                    Info,
                    Feature::ConversationOrder,
                    result.path.clone(),
                    "the result is moved behind its call",
                    Some(&result.item),
                );
            }
            result.json = raw::put(&result.json, "/tool_use_id", &json(&wire_id));
            // All results of a turn stand in one message.
            drop_border(encoder, &mut result);
            behind.push((order, take_media_of_error(encoder, &mut result)));
            results.push((order, result));
        }
        results.sort_by_key(|(order, _)| *order);
        behind.sort_by_key(|(order, _)| *order);
        let Some(exchange) = exchanges.get_mut(index) else { continue };
        let rest = std::mem::take(&mut exchange.user);
        exchange.user = results.into_iter().map(|(_, atom)| atom).collect();
        exchange.user.extend(behind.into_iter().flat_map(|(_, media)| media));
        exchange.user.extend(rest);
    }
    for (exchange, head) in exchanges.iter_mut().zip(heads) {
        let paired = exchange.assistant.iter().filter(|a| call_of(a).is_some()).count();
        let mut user = Vec::new();
        for (n, atom) in std::mem::take(&mut exchange.user).into_iter().enumerate() {
            if n >= paired && matches!(atom.kind, Kind::Result(..)) {
                user.extend(orphan(encoder, atom));
            } else {
                user.push(atom);
            }
        }
        exchange.user = user;
        let Some(mut head) = head else { continue };
        match exchange.user.first_mut() {
            Some(first) if first.side == Side::User && first.apart.is_none() => first.apart = head.apart,
            _ => drop_border(encoder, &mut head),
        }
    }
}

/// The provider refuses a failed result that holds anything but text, so its media stand behind the results, as the user's.
fn take_media_of_error(encoder: &mut BlockEncoder<'_>, result: &mut Atom) -> Vec<Atom> {
    let Kind::Result(_, inner) = &result.kind else { return Vec::new() };
    if raw::get(&result.json, "is_error") != Some(json(&true)) {
        return Vec::new();
    }
    let is_medium = |block: &Json| {
        let kind = crate::wire::peek_tag(block.as_str(), "type");
        matches!(kind.as_deref(), Some("image" | "document" | "search_result"))
    };
    let (media, words): (Vec<Json>, Vec<Json>) = inner.iter().cloned().partition(is_medium);
    if media.is_empty() {
        return Vec::new();
    }
    encoder.loss.add_for(
        Info,
        Feature::ToolResultMedia,
        result.path.clone(),
        "a failed result holds text only; its media stand behind the results",
        Some(&result.item),
    );
    let content = if words.is_empty() { Json::null() } else { json(&words) };
    result.json = raw::put(&result.json, "/content", &content);
    let behind = media.into_iter().map(|json| Atom {
        kind: Kind::Other,
        json,
        mark: None,
        apart: None,
        ..result.clone()
    });
    behind.collect()
}

/// Fields of the user's first message after an assistant turn, with its first block; they stay with whatever comes to stand first.
fn take_head(exchange: &mut Exchange) -> Option<Atom> {
    let first = exchange.user.first_mut().filter(|a| a.side == Side::User && a.apart.is_some())?;
    let head = first.clone();
    first.apart = None;
    Some(head)
}

/// A block leaves its message; the border before that message goes over to the block behind it.
fn take_out(atoms: &mut Vec<Atom>, at: usize) -> Atom {
    let mut atom = atoms.remove(at);
    if let Some(next) = atoms.get_mut(at) {
        hand_on_border(&mut atom, next);
    }
    atom
}

/// The border before a block that leaves its message goes over to the block behind it.
fn hand_on_border(atom: &mut Atom, next: &mut Atom) {
    if next.side == atom.side && next.apart.is_none() {
        next.apart = atom.apart.take();
    }
}

/// A block begins no message of its own; fields of that message are lost.
fn drop_border(encoder: &mut BlockEncoder<'_>, atom: &mut Atom) {
    let fields = atom.apart.take().and_then(|f| f.decode::<super::wire::Members>().ok());
    if fields.is_some_and(|f| !f.extra.is_empty()) {
        encoder.loss.add_for(
            Warning,
            Feature::WireUnmapped,
            atom.path.clone(),
            "the message is joined to its neighbour, and its own fields are left out",
            Some(&atom.item),
        );
    }
}

/// Order of a result that stood further on.
const LATE: usize = usize::MAX - 1;

fn call_of(atom: &Atom) -> Option<String> {
    match &atom.kind {
        Kind::Call(id) => Some(id.clone()),
        _ => None,
    }
}

/// Takes the results that have a call out of the user's words; by exchange and place of the call, each with its order.
fn take_results(exchanges: &mut [Exchange]) -> BTreeMap<(usize, usize), (usize, Atom)> {
    let answers = pairing::answers(exchanges.iter().map(|exchange| {
        let calls = exchange.assistant.iter().enumerate().filter_map(|(at, atom)| match &atom.kind {
            Kind::Call(id) => Some((at, id.as_str())),
            _ => None,
        });
        let results = exchange.user.iter().enumerate().filter_map(|(at, atom)| match &atom.kind {
            Kind::Result(id, _) => Some((at, id.as_str())),
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
            if let Some((_, next)) = atoms.peek_mut() {
                hand_on_border(&mut atom, next);
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
    atom.path
        .strip_prefix("/conversation/items/")
        .and_then(|rest| rest.split('/').next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// A result without a call, as text and media of the user.
fn orphan(encoder: &mut BlockEncoder<'_>, atom: Atom) -> Vec<Atom> {
    encoder.loss.add_for(
        Warning,
        Feature::ConversationOrder,
        atom.path.clone(),
        "a result without its call is told as text",
        Some(&atom.item),
    );
    let Kind::Result(_, inner) = &atom.kind else { return Vec::new() };
    let inner = inner.iter().filter(|block| {
        matches!(
            crate::wire::peek_tag(block.as_str(), "type").as_deref(),
            Some("text" | "image" | "document" | "search_result")
        )
    });
    let blocks = std::iter::once(text("Result of an earlier tool call:")).chain(inner.cloned());
    let mut atoms: Vec<_> = blocks
        .map(|json| Atom {
            kind: Kind::Text,
            json,
            mark: None,
            apart: None,
            ..atom.clone()
        })
        .collect();
    if let Some(last) = atoms.last_mut() {
        last.mark = atom.mark;
    }
    if let Some(first) = atoms.first_mut() {
        first.apart = atom.apart;
    }
    atoms
}

/// The user's blocks after an assistant turn, with system text where the wire allows it.
fn user_turns(encoder: &mut BlockEncoder<'_>, turns: &mut Vec<Turn>, mut atoms: Vec<Atom>, after_server: bool) {
    let trailing = atoms.iter().rev().take_while(|a| a.side == Side::System).count();
    let begin = atoms.len() - trailing;
    let may_stand = encoder.context.capabilities.knobs().mid_conversation_system && (begin > 0 || after_server);
    let stands = |n: usize| may_stand && n >= begin;
    let mut lost = Vec::new();
    for (n, atom) in atoms.iter_mut().enumerate() {
        if atom.side == Side::System && !stands(n) {
            if matches!(tag(&atom.json).as_deref(), Some("tool_addition" | "tool_removal")) {
                // A change of the tools is no word that a user could say.
                encoder.loss.add_for(
                    Warning,
                    Feature::ConversationSystemInline,
                    atom.path.clone(),
                    "the target takes no change of tools at this place",
                    Some(&atom.item),
                );
                lost.push(n);
                continue;
            }
            let place = Place {
                path: &atom.path,
                item: &atom.item,
            };
            encoder.lost(
                Warning,
                Feature::ConversationSystemInline,
                place,
                "the target takes no system text at this place; it is said by the user",
            );
            atom.side = Side::User;
            // The user's neighbouring messages are one, unless fields of their own keep them apart.
            atom.apart.take_if(|fields| fields.as_str() == "{}");
        }
    }
    for n in lost.into_iter().rev() {
        take_out(&mut atoms, n);
    }
    let system = atoms.split_off(atoms.iter().position(|a| a.side == Side::System).unwrap_or(atoms.len()));
    push(turns, Side::User, atoms);
    push(turns, Side::System, system);
}

/// Ends the request legally: no assistant text where the target refuses it, no blank end.
pub(super) fn finish_prefill(encoder: &mut BlockEncoder<'_>, turns: &mut Vec<Turn>, refused: bool) {
    let Some(last) = turns.last_mut().filter(|turn| turn.side == Side::Assistant) else {
        return;
    };
    if last
        .atoms
        .last()
        .is_some_and(|a| matches!(a.kind, Kind::ServerCall(..) | Kind::ServerResult(..) | Kind::Other))
    {
        return;
    }
    let path = last.atoms.last().map(|a| a.path.clone()).unwrap_or_default();
    if refused {
        encoder.loss.warning(
            Feature::GenerationPrefill,
            path.clone(),
            "the target takes no beginning of its answer; it is asked to continue",
        );
        let item = last
            .atoms
            .last()
            .map_or_else(throughline_format::UnifiedId::pending, |a| a.item.clone());
        let atoms = vec![Atom {
            side: Side::User,
            kind: Kind::Text,
            json: text(PLACEHOLDER),
            mark: None,
            apart: None,
            path,
            item,
        }];
        turns.push(Turn { side: Side::User, atoms });
        return;
    }
    // What is left after a blank end was taken away may end blank too.
    while let Some(last) = turns.last_mut().filter(|turn| turn.side == Side::Assistant) {
        let Some(atom) = last.atoms.last_mut() else {
            turns.pop();
            continue;
        };
        let Some(block) = Some(&atom.json)
            .filter(|_| atom.kind == Kind::Text)
            .and_then(|json| json.decode::<super::wire::TextBlock>().ok())
        else {
            return;
        };
        let trimmed = block.text.trim_end_matches(is_blank);
        if trimmed == block.text {
            return;
        }
        encoder.loss.add_for(
            Info,
            Feature::PartText,
            atom.path.clone(),
            "the end of a prefilled answer must not be white space",
            Some(&atom.item),
        );
        if !trimmed.is_empty() {
            atom.json = raw::put(&atom.json, "/text", &json(trimmed));
            return;
        }
        if atom.mark.is_some() {
            encoder
                .loss
                .info(Feature::CacheBreakpoints, atom.path.clone(), "the marked part is not sent");
        }
        last.atoms.pop();
    }
}

/// The type of a block.
fn tag(block: &Json) -> Option<String> {
    crate::wire::peek_tag(block.as_str(), "type")
}

/// White space for the target, which counts the separators of ASCII among it.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Takes thinking blocks out: without the switch the target may refuse them.
pub(super) fn drop_thinking(encoder: &mut BlockEncoder<'_>, turns: &mut Vec<Turn>) {
    for mut turn in std::mem::take(turns) {
        let border = turn.atoms.first_mut().and_then(|a| a.apart.take());
        turn.atoms.retain(|atom| {
            if atom.kind == Kind::Thinking {
                encoder.loss.add_for(
                    Info,
                    Feature::ReasoningText,
                    atom.path.clone(),
                    "thinking is off for this request",
                    Some(&atom.item),
                );
            }
            atom.kind != Kind::Thinking
        });
        if let Some(first) = turn.atoms.first_mut() {
            first.apart = border;
        }
        // Where a whole turn went, its neighbours may be of one side.
        push(turns, turn.side, turn.atoms);
    }
}

/// The wire takes citations into all documents or into none, and into none beside a form of the answer.
pub(super) fn agree_on_citations(encoder: &mut BlockEncoder<'_>, turns: &mut [Turn], has_format: bool) {
    let mut documents: Vec<(&mut Atom, bool)> = turns
        .iter_mut()
        .flat_map(|turn| &mut turn.atoms)
        .filter(|atom| tag(&atom.json).as_deref() == Some("document"))
        .map(|atom| {
            let block = atom.json.decode::<super::wire::DocumentBlock>().ok();
            let on = block.and_then(|block| block.citations?.enabled).unwrap_or(false);
            (atom, on)
        })
        .collect();
    let wanted = documents.iter().any(|(_, on)| *on);
    let reason = if has_format {
        "the target cites nothing beside a form of the answer"
    } else {
        "the target cites all documents or none"
    };
    for (atom, on) in &mut documents {
        if *on == (wanted && !has_format) {
            continue;
        }
        atom.json = raw::put(&atom.json, "/citations", &object(vec![("enabled".into(), json(&!*on))]));
        encoder
            .loss
            .add_for(Warning, Feature::PartDocumentContext, atom.path.clone(), reason, Some(&atom.item));
    }
}

/// Whether an assistant turn since the last real user turn calls tools without thinking first.
pub(super) fn lacks_thinking(turns: &[Turn]) -> bool {
    let real_user = |turn: &Turn| turn.side == Side::User && !turn.atoms.iter().any(|a| matches!(a.kind, Kind::Result(..)));
    let start = turns.iter().rposition(real_user).map_or(0, |at| at + 1);
    turns.get(start..).unwrap_or_default().iter().any(|turn| {
        turn.side == Side::Assistant
            && turn.atoms.iter().any(|a| matches!(a.kind, Kind::Call(_)))
            && turn.atoms.first().is_none_or(|a| a.kind != Kind::Thinking)
    })
}

/// A mark somewhere in the prompt.
pub(super) struct MarkSlot<'a> {
    /// The mark; emptied when it has to go.
    pub(super) mark: &'a mut Option<Mark>,
    /// Whether the wire takes a mark here.
    pub(super) allowed: bool,
    /// Pointer into the record.
    pub(super) path: String,
}

/// Takes away marks beyond the limit, in illegal places or in an order that the wire refuses; never moves one.
pub(super) fn limit_marks(encoder: &mut BlockEncoder<'_>, mut slots: Vec<MarkSlot<'_>>, automatic: bool) {
    let mut drop_mark = |slot: &mut MarkSlot<'_>, reason: &str| {
        *slot.mark = None;
        encoder.loss.info(Feature::CacheBreakpoints, slot.path.clone(), reason);
    };
    slots.retain(|slot| slot.mark.is_some());
    for slot in slots.iter_mut().filter(|slot| !slot.allowed) {
        drop_mark(slot, "the target takes no mark here");
    }
    let mut short = false;
    for slot in &mut slots {
        match *slot.mark {
            Some(Mark(Some(ttl))) if is_long(ttl) && short => drop_mark(slot, "a mark of an hour must not follow one of five minutes"),
            Some(Mark(ttl)) => short |= !ttl.is_some_and(is_long),
            None => {}
        }
    }
    slots.retain(|slot| slot.mark.is_some());
    let limit = encoder
        .context
        .capabilities
        .knobs()
        .max_cache_breakpoints
        .saturating_sub(usize::from(automatic));
    let excess = slots.len().saturating_sub(limit);
    // The first mark anchors tools and instructions, the last ones the newest turns: what goes is in between.
    let first = usize::from(limit > 1);
    for slot in slots.iter_mut().skip(first).take(excess) {
        *slot.mark = None;
        encoder
            .loss
            .info(Feature::CacheBreakpoints, slot.path.clone(), "more marks than the target takes");
    }
}

/// Whether a life is the longer of the two that the wire knows.
pub(super) const fn is_long(ttl: CacheTtl) -> bool {
    ttl.seconds() > 300
}

/// The mark as the wire says it.
pub(super) fn control(ttl: Option<CacheTtl>) -> Json {
    let word = ttl.map(|ttl| if is_long(ttl) { "1h" } else { "5m" });
    typed("ephemeral", [("ttl", word.map(json))])
}

/// The wire's word for a side.
const fn role(side: Side) -> &'static str {
    match side {
        Side::User => "user",
        Side::Assistant => "assistant",
        Side::System => "system",
    }
}

/// Blocks one by one, each with its message and its item.
pub(super) fn pieces(turns: Vec<Turn>) -> Vec<HistoryPiece> {
    let turns = turns.into_iter().enumerate();
    let pieces = turns.flat_map(|(message, turn)| {
        turn.atoms.into_iter().map(move |atom| HistoryPiece {
            message,
            role: Some(role(turn.side)),
            item: atom.item,
            body: atom.json,
        })
    });
    pieces.collect()
}

/// Messages as JSON.
pub(super) fn to_json(turns: Vec<Turn>) -> Json {
    let messages: Vec<Json> = turns
        .into_iter()
        .map(|turn| {
            let role = role(turn.side);
            let fields = turn
                .atoms
                .first()
                .and_then(|a| a.apart.clone())
                .and_then(|f| f.decode::<super::wire::Members>().ok());
            let blocks: Vec<Json> = turn.atoms.into_iter().map(|atom| marked(atom.json, atom.mark)).collect();
            let mut members = vec![("role".to_owned(), json(role)), ("content".to_owned(), json(&blocks))];
            members.extend(fields.map(|f| f.extra.0).unwrap_or_default());
            object(members)
        })
        .collect();
    json(&messages)
}

/// A block with its mark.
pub(super) fn marked(block: Json, mark: Option<Mark>) -> Json {
    match mark {
        Some(Mark(ttl)) => raw::put(&block, "/cache_control", &control(ttl)),
        None => block,
    }
}
