//! What a codec needs to know besides the bytes.

use crate::capability::Capabilities;
use crate::synthetic::SyntheticSealer;
use bytes::Bytes;
use std::sync::Arc;
use throughline_format::conversation::UnifiedConversationInput;
use throughline_format::event::{EventBody, ResponseStarted};
use throughline_format::item::Role;
use throughline_format::provenance::{ItemOrigin, RequestOrigin};
use throughline_format::result::UnifiedResolvedModel;
use throughline_format::{
    Count, SchemaVersion, Sha256, Timestamp, UnifiedAttribution, UnifiedGenerationIntent, UnifiedId, UnifiedItem, UnifiedItemBase,
    UnifiedItemBody, UnifiedItemProvenance, UnifiedModelIntent, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedSourceProvenance,
};

/// Everything that a decoder puts into records and that the wire does not say.
#[derive(Clone, Debug)]
pub struct DecodeContext {
    /// Operation that IDs are derived from.
    pub operation_id: UnifiedId,
    /// Request that the payload belongs to.
    pub request_id: UnifiedId,
    /// Conversation of the items; `pending` for requests and stand-alone commands.
    pub conversation_id: UnifiedId,
    /// Branch of the items; `pending` likewise.
    pub branch_id: UnifiedId,
    /// Ordinal of the first item, so that items of input and answer of one operation never share an ID.
    pub first_item: Count,
    /// Sequence of the first item along its branch.
    pub first_sequence: Count,
    /// Time for everything that has none on the wire.
    pub received_at: Timestamp,
    /// The runtime that items are attributed to, such as a client family; absent when unknown.
    pub runtime: Option<String>,
    /// Vendor of the model, when the configuration tells it.
    pub model_provider: Option<String>,
    /// Model that was requested, for answers that do not name one and for protocols whose URL carries it.
    pub requested_model: Option<String>,
    /// Dialect, for what a payload cannot show.
    pub dialect: Option<String>,
    /// Whether a `<think>` block at the begin of an answer's text is reasoning, although the dialect does not say so.
    pub reasoning_tags: bool,
    /// Fingerprint of the owner of private resources in the payload.
    pub owner_fingerprint: Sha256,
    /// Recognises signatures that this gateway made.
    pub synthetic: SyntheticSealer,
}

impl DecodeContext {
    /// Context of the stand-alone commands: fixed IDs, the epoch, no runtime.
    pub fn offline() -> Self {
        Self {
            operation_id: UnifiedId::offline_operation(),
            request_id: UnifiedId::offline_operation(),
            conversation_id: UnifiedId::pending(),
            branch_id: UnifiedId::pending(),
            first_item: 0,
            first_sequence: 1,
            received_at: Timestamp::EPOCH,
            runtime: None,
            model_provider: None,
            requested_model: None,
            dialect: None,
            reasoning_tags: false,
            owner_fingerprint: Sha256::of(b"unknown"),
            synthetic: SyntheticSealer::offline(),
        }
    }

    /// ID of the item with this ordinal, counted from the context's first one.
    pub fn item_id(&self, ordinal: Count) -> UnifiedId {
        self.operation_id.item(self.first_item + ordinal)
    }

    /// An item of this payload: completed, for the model, at a position counted from the context's first sequence.
    pub fn item(
        &self,
        id: UnifiedId,
        position: Count,
        parent_id: Option<UnifiedId>,
        role: Role,
        provenance: UnifiedItemProvenance,
        body: UnifiedItemBody,
    ) -> UnifiedItem {
        let base = UnifiedItemBase {
            conversation_id: self.conversation_id.clone(),
            branch_id: self.branch_id.clone(),
            sequence: self.first_sequence + position,
            parent_id,
            ..UnifiedItemBase::unplaced(id, Some(role), self.received_at, provenance)
        };
        UnifiedItem { base, body }
    }

    /// The model that a payload names, else the one that was requested, else [`crate::UNSPECIFIED_MODEL`].
    pub fn model(&self, named: Option<String>) -> String {
        named
            .or_else(|| self.requested_model.clone())
            .unwrap_or_else(|| crate::UNSPECIFIED_MODEL.to_owned())
    }

    /// The event that an answer has begun, in a protocol and by the model that it names (open-types: ResponseStarted).
    pub fn started(&self, profile: UnifiedProtocolProfile, model: &str, service_tier: Option<String>) -> EventBody {
        let attribution = self.provenance(ItemOrigin::Provider, profile.clone(), Some(model)).attribution;
        EventBody::ResponseStarted(ResponseStarted {
            response_id: self.operation_id.clone(),
            model: UnifiedResolvedModel {
                requested: self.requested_model.clone(),
                model: model.to_owned(),
                model_provider: self.model_provider.clone(),
                family: None,
                version: None,
                service_tier,
            },
            profile,
            attribution: Some(attribution),
        })
    }

    /// A request of a client in a protocol, with its conversation, the model that it names and no settings. What the items
    /// only point to, or a summary alone stands for, is declared missing.
    pub fn request(
        &self,
        profile: UnifiedProtocolProfile,
        mut conversation: UnifiedConversationInput,
        model: Option<String>,
    ) -> UnifiedRequestV2 {
        crate::missing::declare(&mut conversation);
        UnifiedRequestV2 {
            schema_version: SchemaVersion,
            request_id: self.request_id.clone(),
            conversation,
            model: UnifiedModelIntent {
                requested: self.model(model),
                model_provider: None,
                fallbacks: None,
                requirement: None,
            },
            generation: UnifiedGenerationIntent::default(),
            tools: Vec::new(),
            tool_choice: None,
            cache: None,
            state: None,
            output: None,
            metadata: None,
            source: UnifiedSourceProvenance {
                profile,
                origin: RequestOrigin::Client,
                received_at: self.received_at,
                client_family: self.runtime.clone(),
                transport: None,
                import: None,
            },
        }
    }

    /// Provenance of an item of this payload.
    pub fn provenance(
        &self,
        origin: ItemOrigin,
        profile: throughline_format::UnifiedProtocolProfile,
        model: Option<&str>,
    ) -> UnifiedItemProvenance {
        UnifiedItemProvenance {
            attribution: UnifiedAttribution {
                provider: self.runtime.clone(),
                model_provider: if matches!(origin, ItemOrigin::Provider) {
                    self.model_provider.clone()
                } else {
                    None
                },
                model: model.map(str::to_owned),
            },
            profile: Some(profile),
            operation_id: Some(self.operation_id.clone()),
            request_id: Some(self.request_id.clone()),
            ..UnifiedItemProvenance::of(origin)
        }
    }
}

/// Hands out private payloads that the target may see; whoever implements it has already checked the owner.
pub trait PrivateState: Send + Sync {
    /// The payload of a resource, or `None` when it is unknown or belongs to somebody else.
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes>;

    /// Resources that belong to the request or response as a whole and not to an item of it, by schema.
    fn root_payload(&self, schema: &str) -> Option<Bytes> {
        let _ = schema;
        None
    }
}

/// Hands out nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrivateState;

impl PrivateState for NoPrivateState {
    fn payload(&self, _: &UnifiedId) -> Option<Bytes> {
        None
    }
}

/// Private state without what this gateway made up: no provider ever gets that.
struct Genuine(Arc<dyn PrivateState>);

impl PrivateState for Genuine {
    fn payload(&self, resource_id: &UnifiedId) -> Option<Bytes> {
        self.0
            .payload(resource_id)
            .filter(|payload| !SyntheticSealer::holds_synthetic(payload))
    }

    fn root_payload(&self, schema: &str) -> Option<Bytes> {
        self.0
            .root_payload(schema)
            .filter(|payload| !SyntheticSealer::holds_synthetic(payload))
    }
}

/// Everything that an encoder needs and that the record does not say.
#[derive(Clone)]
pub struct EncodeContext {
    /// Model name for the target; absent = the record's own.
    pub target_model: Option<String>,
    /// What the target can express, overrides applied.
    pub capabilities: Capabilities,
    /// Private state that the target may see.
    pub private: Arc<dyn PrivateState>,
    /// Makes signatures for clients whose protocol demands one.
    pub synthetic: SyntheticSealer,
    /// Whether the request asks for a stream.
    pub stream: bool,
    /// Whether a streaming client wants usage where that is optional.
    pub stream_usage: bool,
    /// Whether a request asks for usage at the end of a stream even when the record does not: the journal wants it.
    pub ask_for_usage: bool,
    /// Dialect to write; for UI messages the major of the client's SDK.
    pub dialect: Option<String>,
    /// Project of the account, for envelopes that name it.
    pub project: Option<String>,
    /// ID of the client's message that the answer goes on with, where a protocol has such.
    pub message_id: Option<String>,
    /// ID under which the client can ask for the answer again, where a protocol has such; absent = the provider's own, where the
    /// client may see it.
    pub answer_id: Option<UnifiedId>,
    /// Time for fields such as `created`.
    pub created_at: Timestamp,
}

impl EncodeContext {
    /// The same context for what goes to a provider: without synthetic signatures, however they came back.
    #[must_use]
    pub(crate) fn to_provider(&self) -> Self {
        Self {
            private: Arc::new(Genuine(self.private.clone())),
            ..self.clone()
        }
    }

    /// A context with the table's own capabilities and no private state.
    pub fn plain(capabilities: Capabilities) -> Self {
        Self {
            target_model: None,
            capabilities,
            private: Arc::new(NoPrivateState),
            synthetic: SyntheticSealer::offline(),
            stream: false,
            stream_usage: true,
            ask_for_usage: false,
            dialect: None,
            project: None,
            message_id: None,
            answer_id: None,
            created_at: Timestamp::EPOCH,
        }
    }
}

impl std::fmt::Debug for EncodeContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncodeContext")
            .field("target_model", &self.target_model)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}
