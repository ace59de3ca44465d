//! What the record has no word for, and handles of the provider: private resources that go back to their owner only.
//!
//! A wire item has at most one resource of each schema, on the first item that it became. Which members are kept is not a list
//! that somebody has to keep up to date: it is the difference between what was read and what the encoder writes.

use super::wire::{Difference, Node};
use crate::context::PrivateState;
use crate::feature::Feature;
use crate::keeper::{Keep, payload_in, unmapped_in};
use crate::side::{MAX_UNMAPPED_BYTES, SideResource, unmapped};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use throughline_format::cache::CacheBreakpoint;
use throughline_format::resource::{ProviderDataScope, ResourceType, UnmappedEntry};
use throughline_format::{Json, UnifiedId, UnifiedProviderDataRef, UnifiedProviderResourceRef};

/// Members without a word.
pub(super) const UNMAPPED: &str = "openai-responses/unmapped@1";
/// How something was spelled.
pub(super) const FORM: &str = "openai-responses/form@1";
/// The provider's ID of an item.
pub(super) const ITEM_ID: &str = "openai-responses/item-id@1";
/// Encrypted reasoning, encrypted compaction, fingerprint of a program.
pub(super) const ENCRYPTED: &str = "openai-responses/encrypted-content@1";
/// ID of a file, container, vector store or stored item.
pub(super) const HANDLE: &str = "openai-responses/handle@1";
/// The provider's ID of a response.
pub(super) const RESPONSE_ID: &str = "openai-responses/response-id@1";
/// ID of the response that a request goes on from.
pub(super) const PREVIOUS: &str = "openai-responses/previous-response-id@1";
/// Conversation that a request belongs to, as written.
pub(super) const CONVERSATION: &str = "openai-responses/conversation@1";
/// Prompt template of a request, as written.
pub(super) const PROMPT: &str = "openai-responses/prompt@1";
/// An item of a type that has no word and is beyond the bounds of [`UNMAPPED`].
pub(super) const ITEM: &str = "openai-responses/item@1";
/// A namespace of tools, without its tools.
pub(super) const NAMESPACE: &str = "openai-responses/namespace@1";
/// Credentials that a request carries for an MCP server or a container.
pub(super) const CREDENTIALS: &str = "openai-responses/tool-credentials@1";
/// Registered annotation: commentary or final answer.
pub(super) const PHASE: &str = "message/phase@1";

/// Numbers of the resources of one item, part or tool.
pub(super) mod number {
    /// Encrypted content.
    pub(in super::super) const ENCRYPTED: u64 = 0;
    /// Members without a word.
    pub(in super::super) const UNMAPPED: u64 = 1;
    /// Spelling.
    pub(in super::super) const FORM: u64 = 2;
    /// The provider's ID.
    pub(in super::super) const ITEM_ID: u64 = 3;
    /// Whole item, or namespace.
    pub(in super::super) const WHOLE: u64 = 4;
    /// Phase.
    pub(in super::super) const PHASE: u64 = 5;
    /// The provider's ID, when an event names another one later.
    pub(in super::super) const OTHER_ID: u64 = 6;
    /// Credentials.
    pub(in super::super) const CREDENTIALS: u64 = 7;
    /// The first handle.
    pub(in super::super) const HANDLE: u64 = 8;
    /// First resource of an answer's root, apart from those of the request of the same operation.
    pub(in super::super) const ROOT: u64 = 16;
}

/// How something was spelled where the wire has two ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    /// Content, output or input is one string and not a list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub text: bool,
    /// The item has a status.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub status: bool,
    /// The message came as `instructions`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub instructions: bool,
    /// Nothing private stands on the item, and it is this owner's all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Members as written that are beyond the bounds of the schema for unknown ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<(String, Json)>,
    /// Members as written whose record has another shape; only for whoever looks them up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spelled: Vec<(String, Json)>,
    /// Members that an encoder writes and that were not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// Members that may be large: known to the protocol, repeated or summed up elsewhere in the record.
const LARGE: &[&str] = &[
    "action",
    "annotations",
    "content",
    "error",
    "file_data",
    "image_url",
    "input",
    "instructions",
    "metadata",
    "moderation",
    "operation",
    "output",
    "outputs",
    "prompt",
    "result",
    "results",
    "sources",
    "summary",
    "text",
    "tool_choice",
    "tools",
];

/// Collects private resources and losses of one decode, and remembers where cache marks stood.
pub(super) type Keeper = crate::keeper::Keeper<Vec<CacheBreakpoint>>;

impl Keeper {
    /// Keeps a registered annotation that everybody may see.
    pub(super) fn annotate(
        &mut self,
        schema: &str,
        subject: &UnifiedId,
        number: u64,
        payload: &Node,
        path: String,
    ) -> UnifiedProviderDataRef {
        let kind = ResourceType::Other("annotation".into());
        let reference = self.payload(
            Keep {
                schema,
                resource_type: kind,
                subject: Some(subject),
                resource_id: subject.resource(number),
                paths: vec![path],
            },
            payload.to_text(),
        );
        if let Some(last) = self.resources.last_mut() {
            last.scope = ProviderDataScope::PortableAnnotation;
        }
        UnifiedProviderDataRef {
            scope: ProviderDataScope::PortableAnnotation,
            ..reference
        }
    }

    /// Keeps a handle of the provider and returns what a record may say of it.
    pub(super) fn hold(
        &mut self,
        subject: &UnifiedId,
        number: u64,
        resource_type: ResourceType,
        handle: &str,
        path: String,
    ) -> UnifiedProviderResourceRef {
        let kept = Keep {
            schema: HANDLE,
            resource_type,
            subject: Some(subject),
            resource_id: subject.resource(number),
            paths: vec![path],
        };
        self.handle(kept, handle.to_owned())
    }

    /// Keeps what an encoder would not say, and how the rest was spelled. `number` is the first of two resource numbers.
    pub(super) fn difference(
        &mut self,
        subject: Option<&UnifiedId>,
        number: u64,
        path: &str,
        difference: Difference,
        mut form: Form,
        is_told: impl Fn(&str) -> bool,
    ) -> Vec<UnifiedProviderDataRef> {
        let base = subject.unwrap_or(&self.context.operation_id).clone();
        let name = |pointer: &str| {
            pointer
                .rsplit('/')
                .find(|token| token.parse::<usize>().is_err())
                .unwrap_or_default()
                .to_owned()
        };
        let (mut fields, mut large) = (Vec::new(), Vec::new());
        for (pointer, value) in difference.set {
            if value.as_str().len() > MAX_UNMAPPED_BYTES && LARGE.contains(&name(&pointer).as_str()) {
                large.push((pointer, value));
            } else {
                fields.push((pointer, value));
            }
        }
        let mut told: Vec<&String> = fields.iter().chain(&large).map(|(pointer, _)| pointer).collect();
        // The order of members is no content, and the report is.
        told.sort();
        for pointer in told.into_iter().filter(|pointer| is_told(pointer)) {
            let reason = "no word for it; kept for the same protocol";
            self.loss.info(Feature::WireUnmapped, format!("{path}{pointer}"), reason);
        }
        form.members.append(&mut large);
        form.absent = difference.absent;
        let (resource, refused) = unmapped(&super::profile(), subject, base.resource(number), path, fields);
        for pointer in refused {
            let reason = "no word for it, and too large to be kept";
            self.loss.warning(Feature::WireUnmapped, format!("{path}{pointer}"), reason);
        }
        let mut references = Vec::new();
        if let Some(mut resource) = resource {
            resource.issuer = self.issuer;
            references.push(resource.reference());
            self.resources.push(resource);
        }
        if form != Form::default() {
            let payload = serde_json::to_vec(&form).unwrap_or_default();
            let members = form.members.iter().chain(&form.spelled);
            let kept = Keep {
                schema: FORM,
                resource_type: ResourceType::Other("form".into()),
                subject,
                resource_id: base.resource(number + 1),
                paths: members.map(|(pointer, _)| format!("{path}{pointer}")).collect(),
            };
            references.push(self.payload(kept, payload));
        }
        references
    }
}

/// Resources that were just made, to encode with what a decoder found.
pub(super) struct Just<'a>(pub &'a [SideResource]);

impl PrivateState for Just<'_> {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        let found = self.0.iter().rev().find(|resource| resource.resource_id == *resource_id)?;
        Some(Bytes::from(found.payload.clone()))
    }
}

/// The payload of the last reference with this schema that the target may see.
pub(super) fn payload(private: &dyn PrivateState, references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str) -> Option<Bytes> {
    payload_in(private, references?.iter().rev(), schema)
}

/// Likewise, as text.
pub(super) fn text(private: &dyn PrivateState, references: Option<&Vec<UnifiedProviderDataRef>>, schema: &str) -> Option<String> {
    payload(private, references, schema).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
}

/// The handle behind a resource of the record.
pub(super) fn handle(private: &dyn PrivateState, resource: &UnifiedProviderResourceRef) -> Option<String> {
    private
        .payload(&resource.resource_id)
        .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
}

/// A payload as a tree.
pub(super) fn tree(bytes: &Bytes) -> Option<Node> {
    Node::read(bytes).ok()
}

/// How something was spelled, as far as the target may see it.
pub(super) fn form(private: &dyn PrivateState, references: Option<&Vec<UnifiedProviderDataRef>>) -> Form {
    parse_form(payload(private, references, FORM))
}

/// Likewise of a body as a whole.
pub(super) fn root_form(private: &dyn PrivateState) -> Form {
    parse_form(private.root_payload(FORM))
}

fn parse_form(bytes: Option<Bytes>) -> Form {
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Keep members of an item, part or tool.
pub(super) fn entries(private: &dyn PrivateState, references: Option<&Vec<UnifiedProviderDataRef>>) -> Vec<UnmappedEntry> {
    unmapped_in(payload(private, references, UNMAPPED))
}

/// Keep members of a body as a whole.
pub(super) fn root_entries(private: &dyn PrivateState) -> Vec<UnmappedEntry> {
    unmapped_in(private.root_payload(UNMAPPED))
}

/// Puts back what was kept of a value.
pub(super) fn restore(node: &mut Node, entries: &[UnmappedEntry], form: &Form) {
    for pointer in &form.absent {
        node.remove(pointer);
    }
    for entry in entries {
        node.set(&entry.pointer, &entry.value);
    }
    for (pointer, value) in &form.members {
        node.set(pointer, value);
    }
}

/// References as a record has them: none instead of an empty list.
pub(super) fn listed(references: Vec<UnifiedProviderDataRef>) -> Option<Vec<UnifiedProviderDataRef>> {
    (!references.is_empty()).then_some(references)
}
