//! Blocks of an answer under construction: how each kind begins, changes and ends.

use super::answer::{Answer, Open, Run};
use super::decode_block::{Whole, message};
use super::decode_call::{CallKind, needs_whole_input, query_of};
use super::decode_citation::citation;
use super::kept;
use super::wire::{Block, BlockDelta, Members, TextBlock, ToolUseBlock};
use crate::feature::Feature;
use crate::keeper;
use crate::raw;
use throughline_format::event::{
    ArgumentsDelta, ArgumentsReady, CitationReady, FieldDelta, ItemDelta, PartCompleted, PartStarted, SignatureReady, TextDelta,
    ToolLifecycleEvent,
};
use throughline_format::item::{ItemStatus, ReasoningItem};
use throughline_format::part::{ReasoningForm, ReasoningPart, ReasoningState};
use throughline_format::{EventBody, EventDraft, Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedToolLifecycle};

impl Answer {
    /// A block begins.
    pub(super) fn begin(&mut self, index: u64, block: Block) {
        if self.open.contains_key(&index) {
            self.left_out(
                "stream.block-reopened",
                Feature::ConversationInterruption,
                &format!("/content/{index}"),
                "a block began while its index was open; the first one ends there",
            );
            self.close(index);
        }
        let path = format!("/content/{index}");
        let open = match block {
            Block::Text(block) => self.begin_text(block, path),
            Block::Thinking(block) => {
                self.end_run();
                let item_id = self.next_item();
                let unmapped = self.keeper.unmapped(&item_id, &path, block.extra.into_unmapped());
                let whole = Whole {
                    body: UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() }),
                    provider_data: keeper::references([unmapped]),
                };
                self.started_item(&item_id, whole);
                let mut open = Open::Thinking {
                    item_id,
                    begun: false,
                    signature: block.signature.filter(|s| !s.is_empty()),
                    path,
                };
                self.think(&mut open, block.thinking);
                open
            }
            Block::RedactedThinking(block) => {
                self.end_run();
                Open::Redacted { block, path }
            }
            Block::ToolUse(block) => self.begin_call(block, CallKind::Client, path),
            Block::ServerToolUse(block) => self.begin_call(block, CallKind::Server, path),
            Block::McpToolUse(block) => self.begin_call(block, CallKind::Mcp, path),
            other => {
                self.end_run();
                Open::Whole {
                    raw: raw::json(&other),
                    path,
                }
            }
        };
        self.open.insert(index, open);
    }

    fn begin_text(&mut self, mut block: TextBlock, path: String) -> Open {
        if self.runs.last().is_none_or(|run| run.ending) {
            let item_id = self.next_item();
            self.started_item(
                &item_id,
                Whole {
                    body: message(Vec::new()),
                    provider_data: None,
                },
            );
            self.runs.push(Run {
                item_id,
                parts: 0,
                open: 0,
                ending: false,
            });
        }
        let (item_id, number) = match self.runs.last_mut() {
            Some(run) => {
                run.parts += 1;
                run.open += 1;
                (run.item_id.clone(), run.parts - 1)
            }
            None => (self.context().item_id(0), 0),
        };
        let part_id = item_id.part(number);
        let text = std::mem::take(&mut block.text);
        let citations = block.citations.take().unwrap_or_default();
        let part = self.keeper.text(&part_id, block, &path);
        self.item_delta(&item_id, Some(&part_id), ItemDelta::PartStarted(PartStarted { part }));
        if !text.is_empty() {
            self.tell(EventDraft::of_part(
                item_id.clone(),
                part_id.clone(),
                EventBody::TextDelta(TextDelta { text, logprobs: None }),
            ));
        }
        let mut open = Open::Text {
            item_id,
            part_id,
            citations: Vec::new(),
            path,
        };
        for raw in citations {
            self.cite(&mut open, raw);
        }
        open
    }

    fn cite(&mut self, open: &mut Open, raw: Json) {
        let Open::Text {
            item_id,
            part_id,
            citations,
            ..
        } = open
        else {
            return;
        };
        let annotation = citation(part_id, citations.len(), &raw);
        citations.push(raw);
        self.tell(EventDraft::of_part(
            item_id.clone(),
            part_id.clone(),
            EventBody::CitationReady(CitationReady { annotation }),
        ));
    }

    fn think(&mut self, open: &mut Open, text: String) {
        let Open::Thinking { item_id, begun, .. } = open else { return };
        if text.is_empty() {
            return;
        }
        let part_id = item_id.part(0);
        if !std::mem::replace(begun, true) {
            self.reasoning_part(item_id, ReasoningState::Disclosed);
        }
        self.tell(EventDraft::of_part(
            item_id.clone(),
            part_id,
            EventBody::ReasoningDelta(TextDelta { text, logprobs: None }),
        ));
    }

    fn reasoning_part(&mut self, item_id: &UnifiedId, state: ReasoningState) {
        let part_id = item_id.part(0);
        let body = PartBody::Reasoning(ReasoningPart {
            text: String::new(),
            form: ReasoningForm::Full,
            state,
            private_state: None,
        });
        let part = UnifiedContentPart::new(part_id.clone(), body);
        self.item_delta(item_id, Some(&part_id), ItemDelta::PartStarted(PartStarted { part }));
    }

    fn begin_call(&mut self, block: ToolUseBlock, kind: CallKind, path: String) -> Open {
        self.end_run();
        if kind == CallKind::Client {
            self.client_calls.insert(block.id.clone());
        }
        if needs_whole_input(&block, kind) {
            return Open::Held {
                block: Box::new(block),
                kind,
                text: String::new(),
                path,
            };
        }
        let item_id = self.next_item();
        let call_id = block.id.clone();
        let given = block
            .input
            .clone()
            .filter(|input| input.decode::<Members>().map_or(true, |m| !m.extra.is_empty()));
        if kind != CallKind::Client {
            self.hosted_calls.insert(call_id.clone(), item_id.clone());
        }
        let mut whole = self.keeper.call(&item_id, block, kind, &path);
        if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut whole.body {
            call.input = None;
            call.raw_arguments = String::new();
            call.lifecycle = UnifiedToolLifecycle::ArgumentsStreaming;
        }
        self.started_item(&item_id, whole);
        Open::Call {
            item_id,
            call_id,
            given,
            text: String::new(),
        }
    }

    /// A block changes.
    pub(super) fn change(&mut self, index: u64, delta: BlockDelta) {
        let Some(mut open) = self.open.remove(&index) else {
            self.odd("stream.unknown-block", &raw::json(&delta), "a change of a block that is not open");
            return;
        };
        if let Some(extra) = extra_of(&delta) {
            self.piece_fields(index, extra);
        }
        match (&mut open, delta) {
            (Open::Text { item_id, part_id, .. }, BlockDelta::Text(piece)) => {
                if !piece.text.is_empty() {
                    let draft = EventDraft::of_part(
                        item_id.clone(),
                        part_id.clone(),
                        EventBody::TextDelta(TextDelta {
                            text: piece.text,
                            logprobs: None,
                        }),
                    );
                    self.tell(draft);
                }
            }
            (Open::Text { .. }, BlockDelta::Citations(piece)) => self.cite(&mut open, piece.citation),
            (Open::Thinking { .. }, BlockDelta::Thinking(piece)) => self.think(&mut open, piece.thinking.unwrap_or_default()),
            (Open::Thinking { signature, .. }, BlockDelta::Signature(piece)) => {
                if !piece.signature.is_empty() {
                    *signature = Some(piece.signature);
                }
            }
            (
                Open::Call {
                    item_id, call_id, text, ..
                },
                BlockDelta::InputJson(piece),
            ) => {
                if !piece.partial_json.is_empty() {
                    text.push_str(&piece.partial_json);
                    let draft = EventDraft::of_call(
                        item_id.clone(),
                        call_id.clone(),
                        EventBody::ToolArgumentsDelta(ArgumentsDelta { text: piece.partial_json }),
                    );
                    self.tell(draft);
                }
            }
            (Open::Held { text, .. }, BlockDelta::InputJson(piece)) => text.push_str(&piece.partial_json),
            (Open::Whole { raw, .. }, BlockDelta::Compaction(members)) => {
                for (key, value) in members.extra.0 {
                    *raw = raw::put(raw, &format!("/{}", throughline_format::json::escape_pointer_token(&key)), &value);
                }
            }
            (_, BlockDelta::Unknown(raw)) => {
                let kind = crate::wire::peek_tag(raw.as_str(), "type").unwrap_or_default();
                self.odd(super::UNKNOWN_DELTA, &raw, &format!("a change of type {kind:.60}"));
            }
            (_, misplaced) => self.odd(
                "stream.misplaced-delta",
                &raw::json(&misplaced),
                "a change that does not fit its block",
            ),
        }
        self.open.insert(index, open);
    }

    /// A block ends.
    pub(super) fn close(&mut self, index: u64) {
        let Some(open) = self.open.remove(&index) else {
            self.left_out(
                "stream.unknown-end",
                Feature::WireUnmapped,
                &format!("/content/{index}"),
                "the end of a block that is not open",
            );
            return;
        };
        match open {
            Open::Text {
                item_id,
                part_id,
                citations,
                path,
            } => {
                if !citations.is_empty() {
                    let reference = self.keeper.citations(&part_id, &citations, &format!("{path}/citations"));
                    self.item_delta(
                        &item_id,
                        Some(&part_id),
                        ItemDelta::Field(FieldDelta {
                            pointer: "/providerData/-".into(),
                            value: raw::json(&reference),
                        }),
                    );
                }
                self.item_delta(&item_id, Some(&part_id), ItemDelta::PartCompleted(PartCompleted {}));
                if let Some(run) = self.runs.iter_mut().find(|run| run.item_id == item_id) {
                    run.open -= 1;
                }
                self.sweep_runs(false);
            }
            Open::Thinking {
                item_id,
                begun,
                signature,
                path,
            } => {
                let part_id = item_id.part(0);
                if !begun {
                    self.reasoning_part(
                        &item_id,
                        if signature.is_some() {
                            ReasoningState::Omitted
                        } else {
                            ReasoningState::Disclosed
                        },
                    );
                }
                if let Some(signature) = signature {
                    let state = self
                        .keeper
                        .private(&part_id, kept::SIGNATURE, signature, format!("{path}/signature"));
                    let ready = SignatureReady {
                        provider_data: state.r#ref,
                        issuer: state.issuer,
                    };
                    self.tell(EventDraft::of_part(
                        item_id.clone(),
                        part_id.clone(),
                        EventBody::SignatureReady(ready),
                    ));
                }
                self.item_delta(&item_id, Some(&part_id), ItemDelta::PartCompleted(PartCompleted {}));
                self.finish_item(&item_id, ItemStatus::Completed);
            }
            Open::Call {
                item_id,
                call_id,
                given,
                text,
            } => {
                let raw = if text.is_empty() {
                    given.as_ref().map_or_else(|| "{}".to_owned(), |input| input.as_str().to_owned())
                } else {
                    text
                };
                let input = Json::of_arguments(&raw);
                if let Some(called) = self.keeper.own.get_mut(&call_id) {
                    called.query = input.as_ref().and_then(query_of);
                }
                // Arguments that are no JSON were cut; those that only break a rule of records are whole.
                let status = if Json::from_text(raw.clone()).is_ok() {
                    ItemStatus::Completed
                } else {
                    ItemStatus::Incomplete
                };
                let ready = EventBody::ToolArgumentsReady(ArgumentsReady { raw_arguments: raw, input });
                self.tell(EventDraft::of_call(item_id.clone(), call_id, ready));
                self.finish_item(&item_id, status);
            }
            Open::Held { block, kind, text, path } => self.tell_held(*block, kind, &text, &path),
            Open::Whole { raw, path } => {
                self.close_call_of(&raw);
                let item_id = self.next_item();
                let whole = self.keeper.raw(&item_id, &raw, &path);
                let failed = match &whole.body {
                    UnifiedItemBody::ServerToolResult(result) => Some((result.call_id.clone(), result.is_error == Some(true))),
                    UnifiedItemBody::CodeExecutionResult(result) => Some((result.call_id.clone(), result.error.is_some())),
                    UnifiedItemBody::SearchResult(found) => found.call_id.clone().map(|id| (id, found.error.is_some())),
                    _ => None,
                };
                if let Some((call_id, failed)) = failed {
                    self.answered(&call_id, failed);
                }
                self.completed_item(&item_id, whole);
            }
            Open::Redacted { block, path } => {
                let item_id = self.next_item();
                let whole = self.keeper.redacted(&item_id, block, &path);
                self.completed_item(&item_id, whole);
            }
        }
    }

    /// A call whose input is whole.
    fn tell_held(&mut self, mut block: ToolUseBlock, kind: CallKind, text: &str, path: &str) {
        let item_id = self.next_item();
        let call_id = block.id.clone();
        let input = if text.is_empty() {
            Some(block.input.clone().unwrap_or_else(|| raw::object(Vec::new())))
        } else {
            Json::of_arguments(text)
        };
        if kind != CallKind::Client {
            self.hosted_calls.insert(call_id, item_id.clone());
        }
        if let Some(input) = input {
            block.input = Some(input);
            let whole = self.keeper.call(&item_id, block, kind, path);
            self.completed_item(&item_id, whole);
            return;
        }
        // Arguments that were cut: no more than a call with what there is of them.
        block.input = None;
        let mut whole = self.keeper.tool_call(&item_id, block, kind, path);
        if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut whole.body {
            call.input = None;
            text.clone_into(&mut call.raw_arguments);
        }
        self.ended_item(&item_id, ItemStatus::Incomplete, whole);
    }

    /// A result ends the block of its call, if that was left open.
    fn close_call_of(&mut self, result: &Json) {
        let Ok(Some(call_id)) = result.decode::<ResultOf>().map(|of| of.tool_use_id) else {
            return;
        };
        let is_its_block = |open: &Open| match open {
            Open::Call { call_id: of, .. } => *of == call_id,
            Open::Held { block, .. } => block.id == call_id,
            Open::Text { .. } | Open::Thinking { .. } | Open::Whole { .. } | Open::Redacted { .. } => false,
        };
        let left_open = self.open.iter().find(|(_, open)| is_its_block(open)).map(|(index, _)| *index);
        if let Some(index) = left_open {
            self.left_out(
                "stream.block-left-open",
                Feature::ConversationInterruption,
                &format!("/content/{index}"),
                "a call had its result before its block ended; the block ends there",
            );
            self.close(index);
        }
    }

    /// A hosted call has its result.
    fn answered(&mut self, call_id: &str, failed: bool) {
        if let Some(item_id) = self.hosted_calls.remove(call_id) {
            let to = if failed {
                UnifiedToolLifecycle::OutputError
            } else {
                UnifiedToolLifecycle::OutputReady
            };
            let change = ToolLifecycleEvent {
                from: UnifiedToolLifecycle::ArgumentsReady,
                to,
                execution: None,
            };
            self.tell(EventDraft::of_call(item_id, call_id.to_owned(), EventBody::ToolLifecycle(change)));
        }
    }
}

/// Members of a piece that this version does not know; those of a compaction are all its own.
fn extra_of(delta: &BlockDelta) -> Option<&crate::wire::Extra> {
    match delta {
        BlockDelta::Text(piece) => Some(&piece.extra),
        BlockDelta::InputJson(piece) => Some(&piece.extra),
        BlockDelta::Thinking(piece) => Some(&piece.extra),
        BlockDelta::Signature(piece) => Some(&piece.extra),
        BlockDelta::Citations(piece) => Some(&piece.extra),
        BlockDelta::Compaction(_) | BlockDelta::Unknown(_) => None,
    }
}

/// Whose result a block is.
#[derive(serde::Deserialize)]
struct ResultOf {
    tool_use_id: Option<String>,
}
