//! Requests from the wire: instructions and input to items. What stands beside them is in [`super::decode_settings`].

use super::decode_item::{Calls, Item, Made, Place, call_kind};
use super::encode_item::Mode;
use super::kept::{self, Form, Keeper, number};
use super::wire::Node;
use super::{decode_hosted, decode_item, decode_settings};
use crate::codec::DecodedRequest;
use crate::context::DecodeContext;
use crate::keeper::Keep;
use crate::side::SideResource;
use throughline_format::item::{MessageItem, Placement, Role};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::{
    ErrorCategory, Json, UnifiedContentPart, UnifiedError, UnifiedItem, UnifiedItemBody, UnifiedLossReport, UnifiedToolType,
    conversation::UnifiedConversationInput,
};

/// Reads a request body.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let root = Node::read(body)?;
    if !root.is_object() {
        return Err(wrong("wrong-type", "expected an object", ""));
    }
    let model = match root.get("model") {
        None => None,
        Some(model) => Some(model.as_text().ok_or_else(|| wrong("wrong-type", "expected a string", "/model"))?),
    };
    let has_state = ["previous_response_id", "conversation", "prompt"]
        .iter()
        .any(|key| root.get(key).is_some());
    let mut decoder = RequestDecoder::new(context);
    decoder.instructions(root.get("instructions"))?;
    let is_text = match root.get("input") {
        None if has_state => false,
        None => return Err(wrong("missing-field", "missing field `input`", "/input")),
        Some(input) => decoder.input(input, has_state)?,
    };
    let RequestDecoder { mut keeper, items, .. } = decoder;
    let request = context.request(super::profile(), UnifiedConversationInput::complete(items), model);
    let unified = decode_settings::settings(&mut keeper, &root, request, is_text);
    Ok(DecodedRequest {
        unified,
        resources: keeper.resources,
        loss: keeper.loss.finish(),
        stream: root.value("stream") == Some(true),
    })
}

/// Reads input items one after the other, for files that hold them one by one.
///
/// Calls are remembered, so that a result is read as what its call was. An item that cannot be read leaves no trace.
pub struct InputReader(RequestDecoder);

impl InputReader {
    /// A reader whose items get their IDs from this context, in order.
    pub fn new(context: &DecodeContext) -> Self {
        Self(RequestDecoder::new(context))
    }

    /// Reads one item; `path` is its place for losses. Gives the records that it became.
    ///
    /// # Errors
    /// `invalid-request.*` for what is no input item.
    pub fn push(&mut self, item: &Json, path: &str) -> Result<Vec<UnifiedItem>, UnifiedError> {
        let first = self.0.items.len();
        self.0.item(&Node::open(item), path.to_owned())?;
        Ok(self.0.items.get(first..).unwrap_or_default().to_vec())
    }

    /// The payloads that the records refer to, and what was lost.
    pub fn finish(self) -> (Vec<SideResource>, UnifiedLossReport) {
        (self.0.keeper.resources, self.0.keeper.loss.finish())
    }
}

pub(super) fn wrong(code: &str, message: &str, pointer: &str) -> UnifiedError {
    UnifiedError::new(ErrorCategory::InvalidRequest, code, message).at(pointer)
}

struct RequestDecoder {
    keeper: Keeper,
    items: Vec<UnifiedItem>,
    calls: Calls,
    /// No item but system and developer messages so far.
    leading: bool,
    /// The call of the last tool search that the provider made.
    search: Option<String>,
}

impl RequestDecoder {
    fn new(context: &DecodeContext) -> Self {
        Self {
            keeper: Keeper::new(context, super::profile(), Issuer::ClientAsserted),
            items: Vec::new(),
            calls: Calls::new(),
            leading: true,
            search: None,
        }
    }

    fn instructions(&mut self, instructions: Option<&Node>) -> Result<(), UnifiedError> {
        let Some(instructions) = instructions else { return Ok(()) };
        let Some(text) = instructions.as_text() else {
            return Err(wrong("wrong-type", "expected a string", "/instructions"));
        };
        let id = self.keeper.context.item_id(0);
        let form = Form {
            instructions: true,
            ..Form::default()
        };
        let kind = ResourceType::Other("form".into());
        let payload = serde_json::to_vec(&form).unwrap_or_default();
        let reference = self.keeper.payload(
            Keep {
                schema: kept::FORM,
                resource_type: kind,
                subject: Some(&id),
                resource_id: id.resource(number::FORM),
                paths: vec!["/instructions".into()],
            },
            payload,
        );
        let body = UnifiedItemBody::Message(MessageItem {
            parts: vec![UnifiedContentPart::text(id.part(0), text)],
            placement: Some(Placement::Instructions),
        });
        let mut made = Made::new(Role::Developer, body);
        made.provider_data = Some(vec![reference]);
        self.push(made);
        Ok(())
    }

    fn input(&mut self, input: &Node, has_state: bool) -> Result<bool, UnifiedError> {
        if let Some(text) = input.as_text() {
            let message = Node::typed(
                "message",
                [("role", Some(Node::text("user"))), ("content", Some(Node::text(&text)))],
            );
            self.item(&message, "/input".into())?;
            return Ok(true);
        }
        let Some(list) = input.as_list() else {
            return Err(wrong("wrong-type", "expected a string or an array", "/input"));
        };
        if list.is_empty() && !has_state && self.items.is_empty() {
            return Err(wrong("invalid-value", "expected at least one item", "/input"));
        }
        for (n, node) in list.iter().enumerate() {
            self.item(node, format!("/input/{n}"))?;
        }
        Ok(false)
    }

    fn item(&mut self, node: &Node, path: String) -> Result<(), UnifiedError> {
        check(node, &path)?;
        let next = self.items.len() as u64;
        let ids = [self.keeper.context.item_id(next), self.keeper.context.item_id(next + 1)];
        let item = Item {
            node,
            path,
            ids: &ids,
            calls: &self.calls,
            mode: Mode::Request,
        };
        let mut made = decode_item::decode(&mut self.keeper, &item);
        link_search(&mut made, node, &mut self.search);
        for mut made in made {
            let is_instruction = matches!(made.role, Role::System | Role::Developer);
            if let UnifiedItemBody::Message(message) = &mut made.body
                && is_instruction
                && self.leading
                && !message.parts.is_empty()
            {
                message.placement = Some(Placement::Instructions);
            }
            self.leading &= is_instruction;
            if let UnifiedItemBody::CompactionSummary(summary) = &mut made.body {
                decode_hosted::cover(summary, &self.items);
            }
            self.push(made);
        }
        Ok(())
    }

    fn push(&mut self, made: Made) {
        if let Some((call_id, kind)) = call_kind(&made.body) {
            self.calls.insert(call_id.to_owned(), kind);
        }
        let position = self.items.len() as u64;
        let place = Place {
            id: self.keeper.context.item_id(position),
            position,
            parent: self.items.last().map(|item| item.id.clone()),
            origin: ItemOrigin::Client,
            model: None,
        };
        let item = made.place(&self.keeper, place);
        self.items.push(item);
    }
}

/// What makes an item unreadable; everything else is kept.
fn check(node: &Node, path: &str) -> Result<(), UnifiedError> {
    if !node.is_object() {
        return Err(wrong("wrong-type", "expected an object", path));
    }
    let kind = node.kind();
    if kind.is_empty() && !node.has("role") {
        return Err(wrong("missing-field", "missing field `type`", &format!("{path}/type")));
    }
    if matches!(kind.as_str(), "" | "message") {
        let role = node.str("role");
        if !matches!(role.as_deref(), Some("user" | "assistant" | "system" | "developer")) {
            let expected = "expected user, assistant, system or developer";
            return Err(wrong("invalid-value", expected, &format!("{path}/role")));
        }
        let content = node.get("content");
        if content.is_some_and(|content| content.as_text().is_none() && content.as_list().is_none()) {
            return Err(wrong("wrong-type", "expected a string or an array", &format!("{path}/content")));
        }
    }
    Ok(())
}

/// An output of a tool search that names no call belongs to the search before it.
pub(super) fn link_search(made: &mut [Made], node: &Node, search: &mut Option<String>) {
    for made in made {
        match &mut made.body {
            UnifiedItemBody::ServerToolCall(call) if call.tool_type == UnifiedToolType::ToolSearch => {
                *search = Some(call.call_id.clone());
            }
            UnifiedItemBody::ServerToolResult(result) if result.tool_type == UnifiedToolType::ToolSearch => {
                if let (None, Some(call)) = (node.get("call_id"), search.take()) {
                    result.call_id = call;
                }
            }
            _ => {}
        }
    }
}
