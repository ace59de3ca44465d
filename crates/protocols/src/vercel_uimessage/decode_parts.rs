//! Parts of messages to items: what a request's history, a stored answer and a stream have in common.
//!
//! Texts, files and sources next to each other become one message item, every reasoning part and every tool part an item of
//! its own. Calls of one step stand together and the client's results after them, so that parallel calls stay parallel; the
//! step is the response ID in the items' provenance.

use super::private::{Form, MESSAGE_MEMBERS, MessageForm};
use super::{media, profile, wire};
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::keeper::Keeper;
use throughline_format::citation::{SourceType, SpanOf, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation};
use throughline_format::item::{ItemStatus, MessageItem, Placement, ReasoningItem, Role, Visibility};
use throughline_format::media::UnifiedIndexUnit;
use throughline_format::part::{
    GroundingSourcePart, JsonPart, ReasoningForm, ReasoningPart, ReasoningPrivateState, ReasoningState, TextPart,
};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::Issuer;
use throughline_format::{
    Count, Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBase, UnifiedItemBody, UnifiedProviderDataRef,
};

/// Turns parts into items.
pub(super) struct PartDecoder {
    pub context: DecodeContext,
    pub keeper: Keeper,
    pub items: Vec<UnifiedItem>,
    /// Results of the client, which stand behind the calls of their step.
    pub results: Vec<UnifiedItem>,
    origin: ItemOrigin,
    model: Option<String>,
    /// Index of the message item that takes further parts.
    open: Option<usize>,
    /// The step that items belong to.
    step: Option<UnifiedId>,
    steps: Count,
    /// The step has begun and has no item yet.
    step_is_empty: bool,
    sources: Count,
    /// Index of the first item of the message.
    first: usize,
}

impl PartDecoder {
    /// A decoder of a request's history (`model` absent) or of an answer.
    pub(super) fn new(context: DecodeContext, model: Option<String>) -> Self {
        let (origin, issuer) = if model.is_some() {
            (ItemOrigin::Provider, Issuer::Provider)
        } else {
            (ItemOrigin::Client, Issuer::ClientAsserted)
        };
        Self {
            keeper: Keeper::new(&context, super::profile(), issuer),
            context,
            items: Vec::new(),
            results: Vec::new(),
            origin,
            model,
            open: None,
            step: None,
            steps: 0,
            step_is_empty: false,
            sources: 0,
            first: 0,
        }
    }

    /// A message of a request.
    pub(super) fn message(&mut self, path: &str, message: wire::Message, role: Role, placement: Option<Placement>) {
        let first = self.items.len();
        self.first = first;
        self.open = None;
        for (number, part) in message.parts.into_iter().flatten().enumerate() {
            let path = format!("{path}/parts/{number}");
            if role == Role::Assistant {
                self.part(&path, part);
            } else {
                self.plain(&path, part, role, placement);
            }
        }
        self.end_message();
        if self.items.len() == first {
            self.push(role, Visibility::Model, message_body(placement), ItemStatus::Completed);
        }
        let form = MessageForm {
            id: message.id,
            items: self.items.len() - first,
            steering: false,
        };
        self.belongs(path, first, &form, message.metadata, message.extra);
    }

    /// Attaches what belongs to a message to its first item.
    pub(super) fn belongs(&mut self, path: &str, first: usize, form: &MessageForm, metadata: Option<Json>, extra: crate::wire::Extra) {
        let Some(item) = self.items.get_mut(first) else { return };
        let id = item.id.clone();
        let mut references = self.keeper.message(&id, path, form, metadata);
        references.extend(
            self.keeper
                .fields(Some(&id), id.resource(MESSAGE_MEMBERS), path, extra.into_unmapped()),
        );
        item.provider_data.get_or_insert_default().extend(references);
    }

    /// A part of a user's or system's message.
    fn plain(&mut self, path: &str, part: wire::Part, role: Role, placement: Option<Placement>) {
        match part.kind.as_str() {
            "text" => self.text(path, part, role, placement),
            "file" if part.url.is_some() => self.file(path, part, role, placement),
            kind if kind.starts_with("data-") => self.data(path, part, role),
            _ => self.raw(path, &part, role),
        }
    }

    /// A part of an assistant's message.
    pub(super) fn part(&mut self, path: &str, part: wire::Part) {
        match part.kind.as_str() {
            "step-start" => {
                self.end_step();
                self.step_begins();
                for (pointer, _) in part.extra.into_unmapped() {
                    let path = format!("{path}{pointer}");
                    self.keeper
                        .loss
                        .warning(Feature::WireUnmapped, path, "the begin of a step has no place for members");
                }
            }
            "text" => self.text(path, part, Role::Assistant, None),
            "reasoning" => self.reasoning(path, part),
            "file" if part.url.is_some() => self.file(path, part, Role::Assistant, None),
            "source-url" | "source-document" => self.source(path, part),
            "steering-message" if self.model.is_none() => self.steering(path, part),
            kind if kind.starts_with("data-") => self.data(path, part, Role::Assistant),
            _ if part.is_tool() && !part.name().is_empty() && part.tool_call_id.as_deref().is_some_and(|id| !id.is_empty()) => {
                self.tool(path, part);
            }
            _ => self.raw(path, &part, Role::Assistant),
        }
    }

    /// Ends the assistant's message: a step without anything in it keeps its place by an empty item.
    pub(super) fn end_message(&mut self) {
        self.end_step();
        self.step = None;
    }

    /// Ends the step: the client's results stand behind its calls.
    pub(super) fn end_step(&mut self) {
        self.end_results();
        if std::mem::take(&mut self.step_is_empty) {
            self.push(Role::Assistant, Visibility::Model, message_body(None), ItemStatus::Completed);
        }
    }

    /// Gives the results that wait their place.
    pub(super) fn end_results(&mut self) {
        self.open = None;
        for mut result in std::mem::take(&mut self.results) {
            self.place(&mut result.base);
            self.items.push(result);
        }
    }

    fn step_begins(&mut self) {
        let id = UnifiedId::parse(&format!("{}.s{}", self.context.operation_id, self.steps)).ok();
        self.steps += 1;
        self.step_is_empty = id.is_some();
        self.step = id;
    }

    // ---- items -------------------------------------------------------------------------------------------------

    /// Gives an item its place behind the others.
    fn place(&self, base: &mut UnifiedItemBase) {
        base.sequence = self.context.first_sequence + self.items.len() as Count;
        base.parent_id = self.items.last().map(|item| item.id.clone());
    }

    /// ID of the next item. Results that wait have theirs already.
    pub(super) fn next_id(&self) -> UnifiedId {
        self.context.item_id((self.items.len() + self.results.len()) as Count)
    }

    /// A new item that is not in its place yet.
    pub(super) fn make(&self, role: Role, visibility: Visibility, body: UnifiedItemBody, status: ItemStatus) -> UnifiedItem {
        let mut provenance = self.context.provenance(self.origin, profile(), self.model.as_deref());
        if role == Role::Assistant || role == Role::Tool {
            provenance.response_id.clone_from(&self.step);
        }
        let mut item = self.context.item(self.next_id(), 0, None, role, provenance, body);
        item.sequence = 0;
        item.visibility = visibility;
        item.status = status;
        item
    }

    /// Adds an item and gives its ID.
    pub(super) fn push(&mut self, role: Role, visibility: Visibility, body: UnifiedItemBody, status: ItemStatus) -> UnifiedId {
        let mut item = self.make(role, visibility, body, status);
        self.place(&mut item.base);
        let id = item.id.clone();
        self.step_is_empty = false;
        self.open = None;
        self.items.push(item);
        id
    }

    /// Adds references to the last item.
    pub(super) fn refer(&mut self, references: impl IntoIterator<Item = UnifiedProviderDataRef>) {
        let mut references = references.into_iter().peekable();
        if let (true, Some(item)) = (references.peek().is_some(), self.items.last_mut()) {
            item.provider_data.get_or_insert_default().extend(references);
        }
    }

    /// Adds a part to the open message item; begins one when there is none of this role.
    fn content(&mut self, role: Role, placement: Option<Placement>, make: impl FnOnce(&mut Self, &UnifiedId) -> UnifiedContentPart) {
        let index = self.open.unwrap_or_else(|| {
            self.push(role, Visibility::Model, message_body(placement), ItemStatus::Completed);
            self.items.len() - 1
        });
        let Some(item) = self.items.get(index) else { return };
        let part_id = item.id.part(item.parts().len() as Count);
        let part = make(self, &part_id);
        if let Some(parts) = self.items.get_mut(index).and_then(UnifiedItem::parts_mut) {
            parts.push(part);
        }
        self.open = Some(index);
    }

    // ---- parts -------------------------------------------------------------------------------------------------

    fn text(&mut self, path: &str, part: wire::Part, role: Role, placement: Option<Placement>) {
        self.content(role, placement, |this, id| {
            let mut form = Form::default();
            form.spelled("state", part.state.as_deref(), usual_state(role));
            let annotations = part.citations.as_ref().map(|list| {
                form.member("citations", list);
                this.citations(id, list)
            });
            if part.text.is_none() {
                form.absent.push("text".into());
            }
            let mut content = UnifiedContentPart::new(
                id.clone(),
                PartBody::Text(TextPart {
                    text: part.text.unwrap_or_default(),
                    annotations: annotations.filter(|list| !list.is_empty()),
                    ..TextPart::default()
                }),
            );
            let more = id_member(part.id).into_iter().chain(part.extra.into_unmapped());
            let references = [
                this.keeper.metadata(id, path, vec![("providerMetadata", part.provider_metadata)]),
                this.keeper.fields(Some(id), id.resource(1), path, more),
                this.keeper.form(id, path, &form),
            ];
            attach(&mut content, references);
            content
        });
    }

    fn file(&mut self, path: &str, part: wire::Part, role: Role, placement: Option<Placement>) {
        self.content(role, placement, |this, id| {
            let body = media::body_of(part.url.as_deref().unwrap_or_default(), part.media_type.clone(), part.filename);
            let mut form = Form::default();
            if part.media_type.is_none() {
                form.absent.push("mediaType".into());
            }
            let mut content = UnifiedContentPart::new(id.clone(), body);
            let references = [
                this.keeper.metadata(id, path, vec![("providerMetadata", part.provider_metadata)]),
                this.keeper.fields(
                    Some(id),
                    id.resource(1),
                    path,
                    id_member(part.id).into_iter().chain(part.extra.into_unmapped()),
                ),
                this.keeper.form(id, path, &form),
            ];
            attach(&mut content, references);
            content
        });
    }

    fn source(&mut self, path: &str, part: wire::Part) {
        self.content(Role::Assistant, None, |this, id| {
            let (mut form, mut more) = (Form::default(), Vec::new());
            let is_url = part.kind == "source-url";
            let source_id = part.source_id.as_deref().and_then(|word| UnifiedId::parse(word).ok());
            if source_id.is_none() {
                form.spelled("sourceId", part.source_id.as_deref(), Some(""));
            }
            if let Some(text) = &part.media_type {
                more.push(("/mediaType".to_owned(), crate::raw::json(text)));
            } else if !is_url {
                form.absent.push("mediaType".into());
            }
            if let Some(text) = &part.filename {
                more.push(("/filename".to_owned(), crate::raw::json(text)));
            }
            if !is_url {
                form.spelled("title", part.title.as_deref(), part.title.as_deref().or(Some("")));
            }
            let kind = if is_url { SourceType::Web } else { SourceType::Document };
            let source = UnifiedSource {
                uri: part.url,
                title: part.title,
                ..this.new_source(source_id, kind)
            };
            let mut content = UnifiedContentPart::new(id.clone(), PartBody::GroundingSource(grounding(source)));
            more.extend(id_member(part.id));
            more.extend(part.extra.into_unmapped());
            let references = [
                this.keeper.metadata(id, path, vec![("providerMetadata", part.provider_metadata)]),
                this.keeper.fields(Some(id), id.resource(1), path, more),
                this.keeper.form(id, path, &form),
            ];
            attach(&mut content, references);
            content
        });
    }

    fn new_source(&mut self, id: Option<UnifiedId>, kind: SourceType) -> UnifiedSource {
        let number = self.sources;
        self.sources += 1;
        let operation = &self.context.operation_id;
        let derived = || UnifiedId::parse(&format!("{operation}.src{number}")).unwrap_or_else(|_| operation.clone());
        blank_source(id.unwrap_or_else(derived), kind)
    }

    /// Citations of a text; what cannot be read is kept as written like all of them.
    fn citations(&mut self, part: &UnifiedId, list: &Json) -> Vec<UnifiedTextAnnotation> {
        let list: Vec<Json> = list.decode().unwrap_or_default();
        let mut found = Vec::new();
        for citation in list.iter().filter_map(|raw| raw.decode::<wire::Citation>().ok()) {
            let cited = citation.source;
            let id = cited.id.as_deref().and_then(|word| UnifiedId::parse(word).ok());
            let kind = if cited.source_type.as_deref() == Some("document") {
                SourceType::Document
            } else {
                SourceType::Web
            };
            let source = UnifiedSource {
                uri: cited.url,
                title: cited.title,
                ..self.new_source(id, kind)
            };
            // The unit is not stated; JavaScript counts UTF-16 units.
            let spans = citation.start_index.zip(citation.end_index).map(|(start, end)| {
                vec![UnifiedSpan {
                    of: SpanOf::Answer,
                    start,
                    end,
                    unit: UnifiedIndexUnit::Utf16,
                    part_id: Some(part.clone()),
                }]
            });
            found.push(UnifiedTextAnnotation::Citation(UnifiedCitation {
                source,
                quoted_text: citation.cited_text,
                spans,
                supports: None,
                confidence: None,
                queries: None,
                retrieved_at: None,
            }));
        }
        found
    }

    fn reasoning(&mut self, path: &str, part: wire::Part) {
        let text = part.text.clone().unwrap_or_default();
        let body = UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() });
        let item = self.push(Role::Assistant, Visibility::Model, body, ItemStatus::Completed);
        let id = item.part(0);
        let mut form = Form::default();
        form.spelled("state", part.state.as_deref(), Some("done"));
        form.spelled("id", part.id.as_deref(), None);
        let private = self.keeper.metadata(&id, path, vec![("providerMetadata", part.provider_metadata)]);
        let state = if text.is_empty() {
            ReasoningState::Omitted
        } else {
            ReasoningState::Disclosed
        };
        let mut content = UnifiedContentPart::new(
            id.clone(),
            PartBody::Reasoning(ReasoningPart {
                text,
                form: ReasoningForm::Full,
                state,
                private_state: private.map(|reference| ReasoningPrivateState {
                    r#ref: reference,
                    issuer: self.keeper.issuer,
                }),
            }),
        );
        let references = [
            self.keeper.fields(Some(&id), id.resource(1), path, part.extra.into_unmapped()),
            self.keeper.form(&id, path, &form),
            None,
        ];
        attach(&mut content, references);
        if let Some(parts) = self.items.last_mut().and_then(UnifiedItem::parts_mut) {
            parts.push(content);
        }
    }

    /// Data of the application: for the client, not for the model.
    fn data(&mut self, path: &str, part: wire::Part, role: Role) {
        let item = self.push(role, Visibility::Client, message_body(None), ItemStatus::Completed);
        let id = item.part(0);
        let mut form = Form::default();
        if part.data.is_none() {
            form.absent.push("data".into());
        }
        let body = PartBody::Json(JsonPart {
            value: part.data.unwrap_or_else(Json::null),
            schema_name: Some(part.kind),
        });
        let mut content = UnifiedContentPart::new(id.clone(), body);
        let references = [
            self.keeper.fields(
                Some(&id),
                id.resource(1),
                path,
                id_member(part.id).into_iter().chain(part.extra.into_unmapped()),
            ),
            self.keeper.form(&id, path, &form),
            None,
        ];
        attach(&mut content, references);
        if let Some(parts) = self.items.last_mut().and_then(UnifiedItem::parts_mut) {
            parts.push(content);
        }
    }

    /// A part without a word: its place is kept by an item without content.
    pub(super) fn raw(&mut self, path: &str, part: &wire::Part, role: Role) {
        let id = self.push(role, Visibility::Client, message_body(None), ItemStatus::Completed);
        let whole = [(String::new(), crate::raw::json(part))];
        let reference = self.keeper.fields(Some(&id), id.resource(1), path, whole);
        if reference.is_none() {
            self.keeper
                .loss
                .warning(Feature::WireUnmapped, path, "a part of an unknown kind is too large to be kept");
        }
        self.refer(reference);
    }

    /// What the user said in the middle of the assistant's message (major 7).
    fn steering(&mut self, path: &str, part: wire::Part) {
        if self.items.len() == self.first {
            // What belongs to the message around it needs an item of the assistant.
            self.push(Role::Assistant, Visibility::Client, message_body(None), ItemStatus::Completed);
        }
        let first = self.items.len();
        self.open = None;
        let step = self.step.take();
        for (number, inner) in part.parts.into_iter().flatten().enumerate() {
            let path = format!("{path}/parts/{number}");
            match inner.decode::<wire::Part>() {
                Ok(inner) => self.plain(&path, inner, Role::User, None),
                Err(_) => self
                    .keeper
                    .loss
                    .warning(Feature::WireUnmapped, path, "a part of another shape was left out"),
            }
        }
        if self.items.len() == first {
            self.push(Role::User, Visibility::Model, message_body(None), ItemStatus::Completed);
        }
        self.open = None;
        self.step = step;
        let form = MessageForm {
            id: part.id,
            items: self.items.len() - first,
            steering: true,
        };
        self.belongs(path, first, &form, None, part.extra);
    }
}

/// A message item without parts.
const fn message_body(placement: Option<Placement>) -> UnifiedItemBody {
    UnifiedItemBody::Message(MessageItem {
        parts: Vec::new(),
        placement,
    })
}

/// The state of a finished text: only the assistant's has one.
pub(super) const fn usual_state(role: Role) -> Option<&'static str> {
    match role {
        Role::Assistant => Some("done"),
        Role::System | Role::Developer | Role::User | Role::Tool => None,
    }
}

/// A source of which nothing is known.
pub(super) const fn blank_source(source_id: UnifiedId, r#type: SourceType) -> UnifiedSource {
    UnifiedSource {
        source_id,
        r#type,
        uri: None,
        title: None,
        resource: None,
        document_index: None,
        document_item_id: None,
        document_part_id: None,
        license: None,
        published_at: None,
    }
}

/// A source with nothing else known of it.
pub(super) const fn grounding(source: UnifiedSource) -> GroundingSourcePart {
    GroundingSourcePart {
        source,
        score: None,
        excerpt: None,
        page_age: None,
        parts: None,
    }
}

fn id_member(id: Option<String>) -> Vec<(String, Json)> {
    id.map(|id| ("/id".to_owned(), crate::raw::json(&id))).into_iter().collect()
}

fn attach(part: &mut UnifiedContentPart, references: [Option<UnifiedProviderDataRef>; 3]) {
    for reference in references.into_iter().flatten() {
        part.provider_data.get_or_insert_default().push(reference);
    }
}
