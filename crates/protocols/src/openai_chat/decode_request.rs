//! Requests from the wire: messages to items. What stands beside the messages is in [`super::decode_settings`].

use super::decode_parts::ttl_of;
use super::private::{Form, Leftovers};
use super::{decode_settings, profile, wire};
use crate::codec::DecodedRequest;
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::projection::LossCollector;
use crate::side::SideResource;
use throughline_format::cache::CacheBreakpoint;
use throughline_format::item::{ItemStatus, MessageItem, Placement, Role, ToolResultItem};
use throughline_format::part::ReasoningPrivateState;
use throughline_format::provenance::ItemOrigin;
use throughline_format::tool::Execution;
use throughline_format::{
    Count, ErrorCategory, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedRequestV2, conversation::UnifiedConversationInput,
};

/// Reads a request body.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let mut request: wire::Request = throughline_format::json::decode_slice(body)?;
    if request.messages.is_empty() {
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", "expected at least one message").at("/messages"));
    }
    let messages = std::mem::take(&mut request.messages);
    let mut decoder = RequestDecoder::new(context);
    for (index, message) in messages.into_iter().enumerate() {
        decoder.message(index, message)?;
    }
    Ok(decode_settings::finish(request, decoder))
}

/// State of one decode.
pub(super) struct RequestDecoder<'a> {
    pub context: &'a DecodeContext,
    pub items: Vec<UnifiedItem>,
    pub resources: Vec<SideResource>,
    pub loss: LossCollector,
    pub breakpoints: Vec<CacheBreakpoint>,
    /// The last message is an assistant's that is to be continued.
    pub prefill: Option<UnifiedId>,
    pub leading: bool,
    pub after_assistant: bool,
    pub legacy_call: Option<(String, String)>,
}

/// One wire message while it is read.
pub(super) struct Reading {
    pub path: String,
    pub first: usize,
    pub leftovers: Leftovers,
    pub form: Form,
}

impl<'a> RequestDecoder<'a> {
    pub(super) fn new(context: &'a DecodeContext) -> Self {
        Self {
            context,
            items: Vec::new(),
            resources: Vec::new(),
            loss: LossCollector::new(),
            breakpoints: Vec::new(),
            prefill: None,
            leading: true,
            after_assistant: false,
            legacy_call: None,
        }
    }

    pub(super) fn message(&mut self, index: usize, mut message: wire::Message) -> Result<(), UnifiedError> {
        let mut reading = Reading {
            path: format!("/messages/{index}"),
            first: self.items.len(),
            leftovers: Leftovers::default(),
            form: Form::default(),
        };
        let Some(role) = message.role.take() else {
            return Err(
                UnifiedError::new(ErrorCategory::InvalidRequest, "missing-field", "missing field `role`")
                    .at(format!("{}/role", reading.path)),
            );
        };
        if let Some(name) = &message.name {
            reading.leftovers.add_value("/name", name.clone());
            self.loss.warning(
                Feature::ConversationMessageName,
                format!("{}/name", reading.path),
                "no word for it; kept for the same protocol",
            );
        }
        let extra = std::mem::take(&mut message.extra);
        let is_assistant = role == "assistant";
        self.leading &= matches!(role.as_str(), "system" | "developer");
        match role.as_str() {
            "system" => self.plain(&mut reading, message, Role::System),
            "developer" => self.plain(&mut reading, message, Role::Developer),
            "user" => self.plain(&mut reading, message, Role::User),
            "assistant" => self.assistant(&mut reading, message),
            "tool" | "function" => self.result(&mut reading, message, role == "function")?,
            _ => {
                let expected = "expected system, developer, user, assistant, tool or function";
                return Err(
                    UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", expected).at(format!("{}/role", reading.path))
                );
            }
        }
        if is_assistant && self.after_assistant {
            reading.form.items = Some(self.items.len() - reading.first);
        }
        self.after_assistant = is_assistant;
        for (key, value) in &extra.0 {
            let id = self.items.last().map(|i| i.id.clone());
            if let (true, Some(item_id)) = (key == "cache_control", id) {
                self.breakpoints.push(CacheBreakpoint {
                    item_id,
                    part_id: None,
                    ttl: ttl_of(value),
                });
            }
            if (key == "prefix" || key == "partial") && value.as_str() == "true" && is_assistant {
                self.prefill = self.items.last().map(|i| i.id.clone());
            }
        }
        reading.leftovers.extra("", extra);
        self.close(reading);
        Ok(())
    }

    /// System, developer and user messages.
    pub(super) fn plain(&mut self, reading: &mut Reading, message: wire::Message, role: Role) {
        let placement = match role {
            Role::User => None,
            _ if self.leading => Some(Placement::Instructions),
            _ => Some(Placement::Inline),
        };
        let id = self.next_id();
        let parts = self.parts(reading, &id, message.content, 0);
        self.push(id, role, UnifiedItemBody::Message(MessageItem { parts, placement }));
        if let Some(refusal) = message.refusal {
            reading.leftovers.add_value("/refusal", refusal);
        }
    }

    pub(super) fn result(&mut self, reading: &mut Reading, message: wire::Message, legacy: bool) -> Result<(), UnifiedError> {
        let id = self.next_id();
        let call_id = if legacy {
            reading.form.legacy = true;
            let name = message.name.as_deref().unwrap_or_default();
            let open = self.legacy_call.take().filter(|(_, called)| called == name || name.is_empty());
            open.map_or_else(
                || crate::call_id::wire(&format!("{id}/function"), super::CALL_ID_LENGTH).into_owned(),
                |(call_id, _)| call_id,
            )
        } else {
            message.tool_call_id.ok_or_else(|| {
                UnifiedError::new(ErrorCategory::InvalidRequest, "missing-field", "missing field `tool_call_id`")
                    .at(format!("{}/tool_call_id", reading.path))
            })?
        };
        let output = self.parts(reading, &id, message.content, 0);
        reading.form.media = output.iter().any(|p| p.as_text().is_none());
        let body = ToolResultItem {
            call_id,
            name: message.name,
            output,
            is_error: None,
            error: None,
            execution: Execution::Client,
        };
        self.push(id, Role::Tool, UnifiedItemBody::ToolResult(body));
        Ok(())
    }

    /// Attaches what was left over to the first item of the message.
    pub(super) fn close(&mut self, reading: Reading) {
        let Reading {
            path,
            first,
            leftovers,
            form,
        } = reading;
        self.report(&path, &leftovers);
        let Some(item) = self.items.get_mut(first) else { return };
        let id = item.id.clone();
        let (raw, refused) = leftovers.resource(Some(&id), id.resource(1), &path);
        for resource in [raw, form.resource(Some(&id), id.resource(2), &path)].into_iter().flatten() {
            item.provider_data.get_or_insert_default().push(resource.reference());
            self.resources.push(resource);
        }
        self.report_refused(&path, refused);
    }

    /// Says which members have no word.
    pub(super) fn report(&mut self, path: &str, leftovers: &Leftovers) {
        for (pointer, _) in &leftovers.0 {
            self.loss.info(
                Feature::WireUnmapped,
                format!("{path}{pointer}"),
                "no word for it; kept for the same protocol",
            );
        }
    }

    /// Says which members were too large to keep.
    pub(super) fn report_refused(&mut self, path: &str, refused: Vec<String>) {
        for pointer in refused {
            self.loss.warning(
                Feature::WireUnmapped,
                format!("{path}{pointer}"),
                "no word for it, and too large to be kept",
            );
        }
    }

    pub(super) fn next_id(&self) -> UnifiedId {
        self.context.item_id(self.items.len() as Count)
    }

    pub(super) fn push(&mut self, id: UnifiedId, role: Role, body: UnifiedItemBody) {
        let provenance = self.context.provenance(ItemOrigin::Client, profile(), None);
        let parent = self.items.last().map(|item| item.id.clone());
        let position = self.items.len() as Count;
        let item = self.context.item(id, position, parent, role, provenance, body);
        self.items.push(item);
    }

    /// The request around the items.
    pub(super) fn request(&mut self, model: Option<String>) -> UnifiedRequestV2 {
        if let Some(item) = self.prefill.clone().and_then(|id| self.items.iter_mut().find(|i| i.id == id)) {
            item.status = ItemStatus::InProgress;
        }
        let conversation = UnifiedConversationInput::complete(std::mem::take(&mut self.items));
        self.context.request(profile(), conversation, model)
    }
}

/// The private state of a reasoning part, as the record refers to it.
pub(super) fn private_state(resource: &SideResource) -> ReasoningPrivateState {
    ReasoningPrivateState {
        r#ref: resource.reference(),
        issuer: resource.issuer,
    }
}
