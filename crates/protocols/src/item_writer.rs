//! Whole items as the events of a stream: for decoders that know an item only when it is complete.
//!
//! Text comes in the pieces that the wire had, a call goes through the states that its approvals and its result mean, and the
//! fold of all of it is the items again.

use std::collections::BTreeMap;
use throughline_format::event::{
    ArgumentsDelta, ArgumentsReady, CitationReady, ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, PartCompleted, PartStarted,
    SignatureReady, TextDelta, ToolLifecycleEvent,
};
use throughline_format::item::{ApprovalDecision, ItemStatus, MessageItem, ReasoningItem, ToolCallItem};
use throughline_format::{
    EventBody, EventDraft, PartBody, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedToolLifecycle,
};

/// Pieces of a part's text, or of a call's arguments, by the ID of the part or call item.
pub(crate) type Pieces = BTreeMap<UnifiedId, Vec<String>>;

/// Writes items as events and remembers where each call stands.
#[derive(Debug, Default)]
pub(crate) struct ItemWriter {
    calls: BTreeMap<String, (UnifiedId, UnifiedToolLifecycle)>,
    approvals: BTreeMap<String, String>,
}

impl ItemWriter {
    /// The events of an item. An item that is still in progress is left open: its stream broke.
    pub(crate) fn item(&mut self, item: UnifiedItem, pieces: &mut Pieces, out: &mut Vec<EventDraft>) {
        match &item.body {
            UnifiedItemBody::Message(message) => {
                let empty = UnifiedItemBody::Message(MessageItem {
                    parts: Vec::new(),
                    placement: message.placement,
                });
                Self::begin(&item, empty, out);
                Self::parts(&item, pieces, out);
                Self::end(&item, out);
            }
            UnifiedItemBody::Reasoning(_) => {
                Self::begin(&item, UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() }), out);
                Self::parts(&item, pieces, out);
                Self::end(&item, out);
            }
            UnifiedItemBody::ToolCall(call) => self.call(&item, call, UnifiedItemBody::ToolCall, pieces, out),
            UnifiedItemBody::ServerToolCall(call) => self.call(&item, call, UnifiedItemBody::ServerToolCall, pieces, out),
            UnifiedItemBody::ApprovalRequest(request) => {
                if let Some(call) = &request.call_id {
                    self.approvals.insert(request.approval_id.clone(), call.clone());
                    self.advance(call, &[UnifiedToolLifecycle::ApprovalRequired], out);
                }
                Self::whole(item, out);
            }
            UnifiedItemBody::ApprovalResponse(response) => {
                if let Some(call) = self.approvals.get(&response.approval_id).cloned() {
                    let to = match response.decision {
                        ApprovalDecision::Approved => UnifiedToolLifecycle::ApprovalApproved,
                        ApprovalDecision::Denied => UnifiedToolLifecycle::ApprovalDenied,
                    };
                    self.advance(&call, &[to], out);
                }
                Self::whole(item, out);
            }
            UnifiedItemBody::ToolResult(result) => {
                let (call, failed) = (result.call_id.clone(), result.is_error == Some(true) || result.error.is_some());
                self.result(item, &call, failed, out);
            }
            UnifiedItemBody::ServerToolResult(result) => {
                let (call, failed) = (result.call_id.clone(), result.is_error == Some(true) || result.error.is_some());
                self.result(item, &call, failed, out);
            }
            UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => Self::whole(item, out),
        }
    }

    /// A call goes on; states that it may not enter from where it stands are left out.
    pub(crate) fn advance(&mut self, call_id: &str, states: &[UnifiedToolLifecycle], out: &mut Vec<EventDraft>) {
        let Some((item, stands)) = self.calls.get_mut(call_id) else {
            return;
        };
        for to in states {
            if stands.may_become(*to) {
                let change = ToolLifecycleEvent {
                    from: *stands,
                    to: *to,
                    execution: None,
                };
                *stands = *to;
                out.push(EventDraft::of_call(
                    item.clone(),
                    call_id.to_owned(),
                    EventBody::ToolLifecycle(change),
                ));
            }
        }
    }

    fn result(&mut self, item: UnifiedItem, call: &str, failed: bool, out: &mut Vec<EventDraft>) {
        let to = if failed {
            UnifiedToolLifecycle::OutputError
        } else {
            UnifiedToolLifecycle::OutputReady
        };
        // A result that is not the last one means that the call is still executed.
        let states: &[UnifiedToolLifecycle] = match (item.status, self.calls.get(call).map(|(_, stands)| *stands)) {
            (ItemStatus::Incomplete, _) => &[UnifiedToolLifecycle::Executing],
            (_, Some(UnifiedToolLifecycle::ApprovalApproved)) => &[UnifiedToolLifecycle::Executing, to],
            _ => &[to],
        };
        let (before, after) = states.split_at(states.len() - 1);
        self.advance(call, before, out);
        Self::whole(item, out);
        self.advance(call, after, out);
    }

    fn call(
        &mut self,
        item: &UnifiedItem,
        call: &ToolCallItem,
        kind: fn(ToolCallItem) -> UnifiedItemBody,
        pieces: &mut Pieces,
        out: &mut Vec<EventDraft>,
    ) {
        let empty = ToolCallItem {
            input: None,
            raw_arguments: String::new(),
            lifecycle: UnifiedToolLifecycle::ArgumentsStreaming,
            private_linkage: None,
            ..call.clone()
        };
        Self::begin(item, kind(empty), out);
        let of_call = |body| EventDraft::of_call(item.id.clone(), call.call_id.clone(), body);
        for text in of_text(pieces, &item.id, &call.raw_arguments) {
            out.push(of_call(EventBody::ToolArgumentsDelta(ArgumentsDelta { text })));
        }
        if let Some(linkage) = &call.private_linkage {
            out.push(of_call(EventBody::SignatureReady(SignatureReady {
                provider_data: linkage.clone(),
                issuer: throughline_format::resource::Issuer::Provider,
            })));
        }
        let mut stands = UnifiedToolLifecycle::ArgumentsStreaming;
        if call.lifecycle != UnifiedToolLifecycle::Cancelled && item.status != ItemStatus::InProgress {
            stands = UnifiedToolLifecycle::ArgumentsReady;
            out.push(of_call(EventBody::ToolArgumentsReady(ArgumentsReady {
                raw_arguments: call.raw_arguments.clone(),
                input: call.input.clone(),
            })));
        }
        self.calls.insert(call.call_id.clone(), (item.id.clone(), stands));
        if call.lifecycle == UnifiedToolLifecycle::Cancelled && item.status != ItemStatus::InProgress {
            self.advance(&call.call_id, &[UnifiedToolLifecycle::Cancelled], out);
        }
        Self::end(item, out);
        if call.lifecycle == UnifiedToolLifecycle::Executing {
            self.advance(&call.call_id, &[UnifiedToolLifecycle::Executing], out);
        }
    }

    fn begin(item: &UnifiedItem, body: UnifiedItemBody, out: &mut Vec<EventDraft>) {
        let mut base = item.base.clone();
        base.status = ItemStatus::InProgress;
        let started = ItemStarted {
            item: UnifiedItem { base, body },
        };
        out.push(EventDraft::of_item(item.id.clone(), EventBody::ItemStarted(started)));
    }

    fn end(item: &UnifiedItem, out: &mut Vec<EventDraft>) {
        if item.status != ItemStatus::InProgress {
            let done = ItemCompleted {
                status: item.status,
                item: None,
            };
            out.push(EventDraft::of_item(item.id.clone(), EventBody::ItemCompleted(done)));
        }
    }

    fn whole(item: UnifiedItem, out: &mut Vec<EventDraft>) {
        let id = item.id.clone();
        let done = ItemCompleted {
            status: item.status,
            item: Some(item),
        };
        out.push(EventDraft::of_item(id, EventBody::ItemCompleted(done)));
    }

    fn parts(item: &UnifiedItem, pieces: &mut Pieces, out: &mut Vec<EventDraft>) {
        for part in item.parts() {
            let of_part = |body| EventDraft::of_part(item.id.clone(), part.part_id.clone(), body);
            let mut empty = part.clone();
            let mut later = Vec::new();
            let delta = |text| TextDelta { text, logprobs: None };
            match &mut empty.body {
                PartBody::Text(text) => {
                    let whole = std::mem::take(&mut text.text);
                    let mut list: Vec<_> = of_text(pieces, &part.part_id, &whole).into_iter().map(delta).collect();
                    let logprobs = text.logprobs.take();
                    if let Some(first) = list.first_mut() {
                        first.logprobs = logprobs;
                    } else {
                        text.logprobs = logprobs;
                    }
                    later.extend(list.into_iter().map(EventBody::TextDelta));
                    for annotation in text.annotations.take().into_iter().flatten() {
                        later.push(EventBody::CitationReady(CitationReady { annotation }));
                    }
                }
                PartBody::Refusal(refusal) => {
                    let whole = std::mem::take(&mut refusal.text);
                    later.extend(
                        of_text(pieces, &part.part_id, &whole)
                            .into_iter()
                            .map(delta)
                            .map(EventBody::TextDelta),
                    );
                }
                PartBody::Reasoning(reasoning) => {
                    let whole = std::mem::take(&mut reasoning.text);
                    later.extend(
                        of_text(pieces, &part.part_id, &whole)
                            .into_iter()
                            .map(delta)
                            .map(EventBody::ReasoningDelta),
                    );
                    if let Some(state) = reasoning.private_state.take() {
                        later.push(EventBody::SignatureReady(SignatureReady {
                            provider_data: state.r#ref,
                            issuer: state.issuer,
                        }));
                    }
                }
                PartBody::Image(_)
                | PartBody::Audio(_)
                | PartBody::Video(_)
                | PartBody::Document(_)
                | PartBody::File(_)
                | PartBody::Binary(_)
                | PartBody::Json(_)
                | PartBody::Citation(_)
                | PartBody::GroundingSource(_)
                | PartBody::ArtifactReference(_) => {}
            }
            out.push(of_part(started(empty)));
            out.extend(later.into_iter().map(of_part));
            if item.status != ItemStatus::InProgress {
                out.push(of_part(EventBody::ItemDelta(ItemDeltaEvent {
                    delta: ItemDelta::PartCompleted(PartCompleted {}),
                })));
            }
        }
    }
}

fn started(part: UnifiedContentPart) -> EventBody {
    EventBody::ItemDelta(ItemDeltaEvent {
        delta: ItemDelta::PartStarted(PartStarted { part }),
    })
}

/// The pieces of a text as the wire had them, else the text itself; nothing for an empty one.
fn of_text(pieces: &mut Pieces, id: &UnifiedId, whole: &str) -> Vec<String> {
    match pieces.remove(id) {
        Some(list) if list.concat() == whole => list,
        _ if whole.is_empty() => Vec::new(),
        _ => vec![whole.to_owned()],
    }
}
