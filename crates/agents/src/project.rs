//! From a transcript to what a target is told: which items it gets, with which private state.

use crate::builder::{place, profile};
use crate::ids;
use crate::losses;
use crate::transcript::Transcript;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use throughline_format::compaction::{Reader, history_for};
use throughline_format::item::Visibility;
use throughline_format::provenance::RequestOrigin;
use throughline_format::{
    LossSeverity, UnifiedConversationInput, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedLossReport, UnifiedRequestV2,
};
use throughline_protocols::{
    Capabilities, Codec, DecodeContext, EncodeContext, Encoded, Feature, HistoryPiece, PrivateState, SideResource, WireHistory,
};

/// Why an item is not told.
const PUT_IN: &str = "what a runtime puts in by itself; the target puts its own in";
const NOT_SENT: &str = "words between the program and the user, which no model is sent";

/// What a target runtime is told.
pub(crate) struct Told {
    /// The pieces in order.
    pub(crate) pieces: Vec<HistoryPiece>,
    /// The items, all of the transcript, at their places.
    items: Vec<UnifiedItem>,
    /// Position of each by its ID.
    places: HashMap<UnifiedId, usize>,
    /// What was not said; paths count the items of the transcript.
    pub(crate) loss: UnifiedLossReport,
}

impl Told {
    /// The item that a piece says.
    pub(crate) fn item(&self, piece: &HistoryPiece) -> Option<&UnifiedItem> {
        self.places.get(&piece.item).and_then(|at| self.items.get(*at))
    }

    /// Pointer to that item.
    pub(crate) fn path(&self, piece: &HistoryPiece) -> String {
        format!("/conversation/items/{}", self.places.get(&piece.item).copied().unwrap_or_default())
    }
}

/// The private state of a runtime's own transcript, for that runtime only.
struct OwnState(BTreeMap<UnifiedId, Bytes>);

impl PrivateState for OwnState {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.0.get(resource_id).cloned()
    }
}

fn own_state(resources: &[SideResource]) -> OwnState {
    let visible = resources.iter().filter(|r| r.subject.is_some());
    OwnState(visible.map(|r| (r.resource_id.clone(), Bytes::from(r.payload.clone()))).collect())
}

/// A request whose history is these items, for a codec.
fn request(transcript: &Transcript, items: Vec<UnifiedItem>, model: Option<&str>) -> UnifiedRequestV2 {
    let said = transcript
        .items
        .iter()
        .rev()
        .find_map(|item| item.provenance.attribution.model.as_deref());
    let context = DecodeContext {
        runtime: Some(transcript.runtime.clone()),
        ..DecodeContext::offline()
    };
    let model = model.or(said).map(str::to_owned);
    let mut request = context.request(profile(&transcript.runtime), UnifiedConversationInput::complete(items), model);
    request.source.origin = RequestOrigin::Import;
    request
}

/// The items with a place of their own, so that summaries can be checked.
fn placed(transcript: &Transcript) -> Vec<UnifiedItem> {
    let mut items = transcript.items.clone();
    let conversation = ids::conversation("", &transcript.runtime, &transcript.session.id);
    place(&mut items, &conversation, &ids::branch(&conversation));
    items
}

/// Says a transcript to a runtime whose records are pieces of a wire.
///
/// What the runtime it came from put in is left out, since the target puts its own in; what a summary covers is left out, since the
/// target would not send it either. Both are entries. Private state is visible to the runtime that it came from only.
pub(crate) fn tell(
    transcript: &Transcript,
    target: &str,
    capabilities: Capabilities,
    history: impl FnOnce(&UnifiedRequestV2, &EncodeContext) -> WireHistory,
) -> Told {
    let items = placed(transcript);
    let places = places(&items);
    let (kept, mut loss) = choose(&items, &places, |item| match item.visibility {
        Visibility::Client => Some(NOT_SENT),
        Visibility::Internal => Some(PUT_IN),
        Visibility::Model => item.is_instructions().then_some(PUT_IN),
    });
    let chosen: Vec<UnifiedItem> = kept.iter().filter_map(|at| items.get(*at)).cloned().collect();
    let mut context = EncodeContext::plain(capabilities);
    if transcript.runtime == target {
        context.private = Arc::new(own_state(&transcript.resources));
    } else {
        for at in &kept {
            let Some(UnifiedItemBody::ToolCall(call)) = items.get(*at).map(|item| &item.body) else {
                continue;
            };
            if call.namespace.is_some() || call.server_label.is_some() {
                let (path, id) = (format!("/conversation/items/{at}"), items.get(*at).map(|item| &item.id));
                let reason = "the target knows tools by their names alone";
                loss.push(losses::entry(LossSeverity::Info, Feature::ToolName, path, reason, id));
            }
        }
    }
    let said = history(&request(transcript, chosen, None), &context);
    extend_mapped(&mut loss, said.loss, &kept);
    Told {
        pieces: said.pieces,
        items,
        places,
        loss,
    }
}

fn places(items: &[UnifiedItem]) -> HashMap<UnifiedId, usize> {
    items.iter().enumerate().map(|(at, item)| (item.id.clone(), at)).collect()
}

/// Positions of the items that a target is told, in the order in which it is told them, and an entry for each of the others.
fn choose(
    items: &[UnifiedItem],
    places: &HashMap<UnifiedId, usize>,
    why_not: impl Fn(&UnifiedItem) -> Option<&'static str>,
) -> (Vec<usize>, UnifiedLossReport) {
    let history = history_for(items, Reader::AnyTarget);
    let mut seen = vec![false; items.len()];
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for item in history.items {
        let Some(at) = places.get(&item.id).copied() else { continue };
        seen.get_mut(at).into_iter().for_each(|seen| *seen = true);
        match why_not(item) {
            None => kept.push(at),
            Some(reason) => left.push((at, reason)),
        }
    }
    let covered = seen.iter().enumerate().filter(|(_, seen)| !**seen);
    left.extend(covered.map(|(at, _)| (at, "a summary stands in its place")));
    left.sort_unstable();
    let mut loss = UnifiedLossReport::default();
    for (at, reason) in left {
        let id = items.get(at).map(|item| &item.id);
        let path = format!("/conversation/items/{at}");
        loss.push(losses::entry(LossSeverity::Info, Feature::ConversationItem, path, reason, id));
    }
    (kept, loss)
}

/// Adds losses whose paths count chosen items, as paths that count all of them.
fn extend_mapped(loss: &mut UnifiedLossReport, other: UnifiedLossReport, kept: &[usize]) {
    const HEAD: &str = "/conversation/items/";
    let disposition = other.disposition;
    for mut entry in other.entries {
        let moved = entry.path.strip_prefix(HEAD).and_then(|rest| {
            let (number, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let at = kept.get(number.parse::<usize>().ok()?)?;
            Some(format!("{HEAD}{at}{tail}"))
        });
        entry.path = moved.unwrap_or(entry.path);
        loss.note(entry);
    }
    loss.disposition = loss.disposition.max(disposition);
}

/// The next request body of a protocol that goes on with this transcript, as far as it is told: no prompt of a user is added, and
/// nothing that belongs to an owner is in it.
///
/// # Errors
/// Those of the codec.
pub fn next_request(transcript: &Transcript, codec: &dyn Codec, model: Option<&str>) -> Result<Encoded, UnifiedError> {
    let items = placed(transcript);
    let (kept, mut loss) = choose(&items, &places(&items), |item| {
        (item.visibility == Visibility::Client).then_some(NOT_SENT)
    });
    let mut chosen: Vec<UnifiedItem> = kept.iter().filter_map(|at| items.get(*at)).cloned().collect();
    for item in &mut chosen {
        // What the runtime puts in by itself is for no other runtime, and its own model does see it.
        item.visibility = Visibility::Model;
    }
    let context = EncodeContext {
        target_model: model.map(str::to_owned),
        ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
    };
    let encoded = codec.encode_request(&request(transcript, chosen, model), &context)?;
    extend_mapped(&mut loss, encoded.loss, &kept);
    Ok(Encoded { body: encoded.body, loss })
}
