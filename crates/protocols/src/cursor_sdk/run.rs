//! A run on its way to events: messages of any source go in, items come out as they grow.
//!
//! One text and one piece of thinking are open at most. A call is told when its arguments are known; the runtime executes it
//! at once, so it stands at `executing` until its result comes. A tool of the SDK's host that waits for it stays there: the
//! run is parked.

mod ending;

use super::private::{AGENT, CALL_ID, CHECKPOINT, RUN};
use super::{profile, tools, wire};
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::continuation::Job;
use crate::feature::Feature;
use crate::item_writer::{ItemWriter, Pieces};
use crate::keeper::{Keep, Keeper};
use crate::raw::json;
use crate::wire::Extra;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::event::{
    CheckpointReady, EventBody, ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, PartCompleted, PartStarted, ResponseMetadata,
    TextDelta, Warning,
};
use throughline_format::item::{ItemStatus, MessageItem, ReasoningItem, Role, ToolCallItem, ToolResultItem};
use throughline_format::part::{JsonPart, ReasoningForm, ReasoningPart, ReasoningState};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::tool::Execution;
use throughline_format::{
    Count, EventDraft, Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedProviderDataRef,
    UnifiedToolLifecycle, UnifiedUsage,
};

/// First resource of an answer as a whole; those of the request of the same operation come before.
const ROOT_RESOURCE: Count = 16;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Finished(String),
    Failed(String, Option<String>),
    Cancelled(Option<String>),
    Expired,
}

/// An item that takes text.
struct Open {
    item: UnifiedId,
    is_thinking: bool,
}

/// A call of the run.
struct Call {
    wire_name: String,
    named: tools::Named,
    args: Option<Json>,
    is_told: bool,
    is_done: bool,
}

/// State of one run.
pub(super) struct Run {
    pub keeper: Keeper,
    out: Decoded,
    writer: ItemWriter,
    items: Vec<UnifiedId>,
    open: Option<Open>,
    calls: BTreeMap<String, Call>,
    order: Vec<String>,
    model: Option<String>,
    has_begun: bool,
    has_ended: bool,
    handles: BTreeSet<(&'static str, String)>,
    resources: Count,
    leftovers: Vec<(String, Json)>,
    told: BTreeSet<String>,
    turn: Option<UnifiedUsage>,
    session: Option<UnifiedUsage>,
    estimate: f64,
    offset: Option<Json>,
    pub ended: Option<Ended>,
    /// Text that was said so far.
    said: String,
    has_text: bool,
    losses: usize,
}

impl Run {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            keeper: Keeper::new(&context, super::profile(), Issuer::Provider),
            out: Decoded::default(),
            writer: ItemWriter::default(),
            items: Vec::new(),
            open: None,
            calls: BTreeMap::new(),
            order: Vec::new(),
            model: None,
            has_begun: false,
            has_ended: false,
            handles: BTreeSet::new(),
            resources: 0,
            leftovers: Vec::new(),
            told: BTreeSet::new(),
            turn: None,
            session: None,
            estimate: 0.0,
            offset: None,
            ended: None,
            said: String::new(),
            has_text: false,
            losses: 0,
        }
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What came out since the last time.
    pub(super) fn take(&mut self) -> Decoded {
        std::mem::take(&mut self.out)
    }

    /// Says something that changes nothing.
    pub(super) fn warn(&mut self, code: &str, message: &str) {
        self.begin();
        self.out.push(EventBody::Warning(Warning::new(code, message)));
    }

    /// A member that only describes the source's frame: told once, whatever it says.
    pub(super) fn frame(&mut self, member: &str) {
        if self.told.insert(member.to_owned()) {
            let path = format!("/{member}");
            self.keeper
                .loss
                .info(Feature::WireUnmapped, path, "describes the frame of a message, and has no word");
        }
    }

    /// Keeps a member of the run as a whole; the last value counts.
    pub(super) fn keep(&mut self, pointer: &str, value: Json) {
        self.leftovers.retain(|(known, _)| known != pointer);
        self.leftovers.push((pointer.to_owned(), value));
    }

    /// Keeps unknown members of a message.
    pub(super) fn extra(&mut self, extra: Extra) {
        for (pointer, value) in extra.into_unmapped() {
            self.keep(&pointer, value);
        }
    }

    pub(super) fn model(&mut self, raw: &Json) {
        let name = raw
            .decode::<String>()
            .ok()
            .or_else(|| raw.decode::<wire::Model>().ok().map(|model| model.id));
        if self.model.is_none() {
            self.model = name;
        }
        if let Ok(model) = raw.decode::<wire::Model>() {
            for (pointer, value) in model.extra.into_unmapped() {
                self.keep(&format!("/model{pointer}"), value);
            }
        }
    }

    /// The run, for whoever reads its events again. Its driver cancels a run that nobody reads any more.
    pub(super) fn job(&self) -> Option<Job> {
        let id = |schema: &str| self.handles.iter().find(|(known, _)| *known == schema).map(|(_, id)| id.clone());
        let (agent, run) = (id(AGENT)?, id(RUN)?);
        Some(Job {
            ids: vec![agent, run],
            outlives_connection: false,
        })
    }

    // ---- handles -----------------------------------------------------------------------------------------------

    fn next_resource(&mut self) -> UnifiedId {
        self.resources += 1;
        self.keeper.context.operation_id.resource(ROOT_RESOURCE + self.resources)
    }

    /// The agent, session or run that an answer comes from.
    pub(super) fn handle(&mut self, schema: &'static str, id: Option<&str>, path: &str) {
        let Some(id) = id.filter(|id| !id.is_empty()) else { return };
        if !self.handles.insert((schema, id.to_owned())) {
            return;
        }
        let kept = Keep {
            schema,
            resource_type: if schema == RUN { ResourceType::Run } else { ResourceType::Session },
            subject: None,
            resource_id: self.next_resource(),
            paths: vec![path.to_owned()],
        };
        let reference = self.keeper.handle(kept, id.to_owned());
        self.begin();
        self.out.push(EventBody::ResponseMetadata(ResponseMetadata {
            resources: Some(vec![reference]),
            ..ResponseMetadata::default()
        }));
    }

    /// Agent and run of a message, in the spelling of its source.
    pub(super) fn frame_of(&mut self, message: &wire::Message) {
        self.handle(AGENT, message.agent_id.as_deref(), "/agent_id");
        self.handle(AGENT, message.agent.as_deref(), "/agentId");
        self.handle(AGENT, message.session_id.as_deref(), "/session_id");
        self.handle(RUN, message.run_id.as_deref(), "/run_id");
        self.handle(RUN, message.run.as_deref(), "/runId");
        for (member, there) in [
            ("timestamp_ms", message.timestamp_ms.is_some()),
            ("model_call_id", message.model_call_id.is_some()),
        ] {
            if there {
                self.frame(member);
            }
        }
        if message.offset.is_some() {
            self.offset.clone_from(&message.offset);
        }
    }

    /// A reference to what the runtime remembers at this point.
    pub(super) fn checkpoint(&mut self, raw: &Json) {
        let resource_id = self.next_resource();
        let payload = raw.as_str().as_bytes().to_vec();
        let reference = self.keeper.payload(
            Keep {
                schema: CHECKPOINT,
                resource_type: ResourceType::Session,
                subject: None,
                resource_id,
                paths: vec!["/checkpoint".to_owned()],
            },
            payload,
        );
        self.begin();
        self.out.push(EventBody::CheckpointReady(CheckpointReady {
            checkpoint_id: reference.resource_id,
            resource_type: ResourceType::Session,
        }));
    }

    pub(super) fn provider_request(&mut self, id: &str) {
        self.begin();
        self.out.push(EventBody::ResponseMetadata(ResponseMetadata {
            provider_request_id: Some(id.to_owned()),
            ..ResponseMetadata::default()
        }));
    }

    // ---- the answer --------------------------------------------------------------------------------------------

    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let context = &self.keeper.context;
        let model = context.model(self.model.clone());
        self.out.push(context.started(profile(), &model, None));
    }

    fn item(&mut self, role: Role, body: UnifiedItemBody, status: ItemStatus) -> UnifiedItem {
        self.begin();
        let context = &self.keeper.context;
        let number = self.items.len() as Count;
        let provenance = context.provenance(ItemOrigin::Provider, profile(), self.model.as_deref());
        let mut item = context.item(context.item_id(number), number, self.items.last().cloned(), role, provenance, body);
        item.status = status;
        self.items.push(item.id.clone());
        item
    }

    /// A piece of text or thinking; a piece of the other kind closes what is open.
    pub(super) fn text(&mut self, text: &str, is_thinking: bool) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.is_thinking != is_thinking) {
            self.close();
        }
        if self.open.is_none() {
            let body = if is_thinking {
                UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() })
            } else {
                UnifiedItemBody::Message(MessageItem {
                    parts: Vec::new(),
                    placement: None,
                })
            };
            let item = self.item(Role::Assistant, body, ItemStatus::InProgress);
            let (id, part) = (item.id.clone(), item.id.part(0));
            self.out
                .drafts
                .push(EventDraft::of_item(id.clone(), EventBody::ItemStarted(ItemStarted { item })));
            let part = if is_thinking {
                UnifiedContentPart::new(
                    part,
                    PartBody::Reasoning(ReasoningPart {
                        text: String::new(),
                        form: ReasoningForm::Full,
                        state: ReasoningState::Disclosed,
                        private_state: None,
                    }),
                )
            } else {
                UnifiedContentPart::text(part, "")
            };
            let started = ItemDelta::PartStarted(PartStarted { part: part.clone() });
            self.out.drafts.push(EventDraft::of_part(
                id.clone(),
                part.part_id.clone(),
                EventBody::ItemDelta(ItemDeltaEvent { delta: started }),
            ));
            self.open = Some(Open { item: id, is_thinking });
        }
        if !is_thinking {
            self.said.push_str(text);
            self.has_text = true;
        }
        if let Some(open) = &self.open {
            let delta = TextDelta {
                text: text.to_owned(),
                logprobs: None,
            };
            let body = if is_thinking {
                EventBody::ReasoningDelta(delta)
            } else {
                EventBody::TextDelta(delta)
            };
            self.out
                .drafts
                .push(EventDraft::of_part(open.item.clone(), open.item.part(0), body));
        }
    }

    /// Closes the open text or thinking.
    pub(super) fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let completed = ItemDelta::PartCompleted(PartCompleted {});
        self.out.drafts.push(EventDraft::of_part(
            open.item.clone(),
            open.item.part(0),
            EventBody::ItemDelta(ItemDeltaEvent { delta: completed }),
        ));
        let done = ItemCompleted {
            status: ItemStatus::Completed,
            item: None,
        };
        self.out.drafts.push(EventDraft::of_item(open.item, EventBody::ItemCompleted(done)));
    }

    /// The thinking is complete.
    pub(super) fn thought(&mut self, duration: Option<Json>) {
        if duration.is_some() {
            self.frame("thinking_duration_ms");
        }
        if self.open.as_ref().is_some_and(|open| open.is_thinking) {
            self.close();
        }
    }

    /// A call with what is known of it.
    pub(super) fn call(&mut self, id: &str, name: &str, args: Option<Json>) {
        let known = self.calls.contains_key(id);
        if !known {
            self.order.push(id.to_owned());
        }
        let call = self.calls.entry(id.to_owned()).or_insert_with(|| Call {
            wire_name: name.to_owned(),
            named: tools::named(name, args.as_ref()),
            args: None,
            is_told: false,
            is_done: false,
        });
        if call.is_told {
            return;
        }
        if call.wire_name.is_empty() {
            name.clone_into(&mut call.wire_name);
        }
        if args.is_some() {
            call.named = tools::named(&call.wire_name, args.as_ref());
            call.args = args;
            self.tell(id);
        }
    }

    /// Tells a call as it is known now.
    fn tell(&mut self, id: &str) {
        let Some(mut call) = self.calls.remove(id) else { return };
        if !std::mem::replace(&mut call.is_told, true) {
            self.close();
            let record_id = tools::record_id(id).into_owned();
            let args = call.named.inner.clone().or_else(|| call.args.clone());
            let raw = args.as_ref().map_or_else(String::new, |args| args.as_str().to_owned());
            let is_hosts = call.named.execution == Execution::Client;
            let body = ToolCallItem {
                call_id: record_id.clone(),
                name: if call.named.name.is_empty() {
                    "tool".to_owned()
                } else {
                    call.named.name.clone()
                },
                tool_type: call.named.kind.clone(),
                namespace: None,
                server_label: call.named.server.clone(),
                input: args,
                raw_arguments: raw,
                lifecycle: UnifiedToolLifecycle::Executing,
                caller: None,
                execution: call.named.execution,
                provider_executed: !is_hosts,
                private_linkage: None,
            };
            let is_server = call.named.kind == throughline_format::UnifiedToolType::Mcp;
            let kind = if is_server {
                UnifiedItemBody::ServerToolCall
            } else {
                UnifiedItemBody::ToolCall
            };
            let mut item = self.item(Role::Assistant, kind(body), ItemStatus::Completed);
            let mut references: Vec<UnifiedProviderDataRef> = Vec::new();
            if record_id != id {
                let resource = item.id.resource(3);
                references.push(self.keeper.payload(
                    Keep {
                        schema: CALL_ID,
                        resource_type: super::private::other(),
                        subject: Some(&item.id),
                        resource_id: resource,
                        paths: Vec::new(),
                    },
                    id.as_bytes(),
                ));
            }
            if let (Some(_), Some(args)) = (&call.named.inner, &call.args) {
                // What the runtime says around the arguments of the tool itself.
                let resource = item.id.resource(1);
                references.extend(
                    self.keeper
                        .fields(Some(&item.id), resource, "/tool_call", [("/args".to_owned(), args.clone())]),
                );
            }
            if !references.is_empty() {
                item.provider_data = Some(references);
            }
            self.writer.item(item, &mut Pieces::new(), &mut self.out.drafts);
        }
        self.calls.insert(id.to_owned(), call);
    }

    /// The result of a call, with what of both was cut.
    pub(super) fn result(
        &mut self,
        id: &str,
        name: &str,
        args: Option<Json>,
        result: Option<Json>,
        failed: bool,
        cut: Option<&wire::Truncated>,
    ) {
        self.call(id, name, args);
        self.tell(id);
        let Some(call) = self.calls.get_mut(id) else { return };
        if std::mem::replace(&mut call.is_done, true) {
            return;
        }
        let (name, execution) = (call.named.name.clone(), call.named.execution);
        let is_server = call.named.kind == throughline_format::UnifiedToolType::Mcp;
        let kind = call.named.kind.clone();
        let call_id = tools::record_id(id).into_owned();
        self.close();
        let body = UnifiedItemBody::ToolResult(ToolResultItem {
            call_id: call_id.clone(),
            name: Some(name.clone()),
            output: Vec::new(),
            is_error: Some(failed),
            error: None,
            execution,
        });
        let mut item = self.item(Role::Tool, body, ItemStatus::Completed);
        if is_server {
            item.body = UnifiedItemBody::ServerToolResult(throughline_format::item::ServerToolResultItem {
                call_id,
                tool_type: kind,
                name: Some(name),
                output: Vec::new(),
                is_error: Some(failed),
                error: None,
                execution,
            });
        }
        let is_cut = cut.is_some_and(|cut| cut.args == Some(true) || cut.result == Some(true));
        if is_cut {
            item.base.provenance.truncated = Some(true);
            self.keeper.loss.warning(
                Feature::ConversationPortability,
                "/truncated",
                "the source cut arguments or results of a call",
            );
        }
        let part = item.id.part(0);
        let output = result.map(|value| match value.decode::<String>() {
            Ok(text) => UnifiedContentPart::text(part, text),
            Err(_) => UnifiedContentPart::new(part, PartBody::Json(JsonPart { value, schema_name: None })),
        });
        if let Some(parts) = item.parts_mut() {
            parts.extend(output);
        }
        self.writer.item(item, &mut Pieces::new(), &mut self.out.drafts);
    }

    /// A summary by which the runtime replaced what it remembers; how far it reaches is not told.
    pub(super) fn summary(&mut self, text: &str) {
        self.close();
        // A summary item names what it covers and its digest, and of this one neither is told.
        self.warn("response.summary", "the runtime summarised what it remembers");
        self.keep("/summary", json(text));
    }
}

/// The message of an error object, or the text that stands in its place.
pub(super) fn as_message(raw: &Json) -> Option<String> {
    raw.decode::<String>()
        .ok()
        .or_else(|| crate::object::Object::of(raw).and_then(|o| o.get("message")?.decode().ok()))
}

/// The text of a message or result, which may stand in an object.
pub(super) fn as_text(raw: &Json) -> Option<String> {
    raw.decode::<String>()
        .ok()
        .or_else(|| crate::object::Object::of(raw).and_then(|o| o.get("text")?.decode().ok()))
}
