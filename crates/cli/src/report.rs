//! What `convert` prints.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use throughline_format::resource::ProviderDataScope;
use throughline_format::{Json, Sha256, UnifiedId, UnifiedLossReport, UnifiedRequestV2, UnifiedResultV2};
use throughline_protocols::SideResource;

/// The decoded record.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum UnifiedRecord {
    /// Of a request.
    Request(Box<UnifiedRequestV2>),
    /// Of a response or a folded stream.
    Result(Box<UnifiedResultV2>),
}

/// A side resource without its private payload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceEntry {
    /// The ID that the record refers to.
    pub resource_id: UnifiedId,
    /// Registered schema.
    pub schema: String,
    /// Who may see the payload.
    pub scope: ProviderDataScope,
    /// Digest of the payload.
    pub sha256: Sha256,
    /// Size of the payload.
    pub bytes: usize,
    /// Pointers into the wire body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The payload of a portable annotation; never a private one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

impl ResourceEntry {
    /// Describes a side resource.
    pub fn of(resource: &SideResource) -> Self {
        let payload = (resource.scope == ProviderDataScope::PortableAnnotation).then(|| {
            let text = String::from_utf8_lossy(&resource.payload).into_owned();
            Json::from_text(text.clone()).unwrap_or_else(|_| Json::from_value(&text.into()))
        });
        Self {
            resource_id: resource.resource_id.clone(),
            schema: resource.schema.clone(),
            scope: resource.scope,
            sha256: resource.sha256(),
            bytes: resource.payload.len(),
            paths: resource.wire_paths.clone(),
            payload,
        }
    }
}

/// One event of a projected stream.
#[derive(Debug, Serialize)]
pub struct WireEvent {
    /// Event name, where the protocol has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<&'static str>,
    /// The data as sent.
    pub data: String,
}

/// The projection.
#[derive(Debug)]
pub enum Output {
    /// A body.
    Body(Box<RawValue>),
    /// The events of a stream.
    Events(Vec<WireEvent>),
}

impl Output {
    /// As it goes over the wire: the body and a line end, or SSE.
    pub fn to_wire(&self) -> String {
        match self {
            Self::Body(body) => format!("{}\n", body.get()),
            Self::Events(events) => events
                .iter()
                .map(|e| match e.event {
                    Some(event) => format!("event: {event}\ndata: {}\n\n", e.data),
                    None => format!("data: {}\n\n", e.data),
                })
                .collect(),
        }
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Body(body) => body.serialize(serializer),
            Self::Events(events) => events.serialize(serializer),
        }
    }
}

/// The result of one conversion.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionReport {
    /// The decoded record.
    pub unified: UnifiedRecord,
    /// Its side resources.
    pub resources: Vec<ResourceEntry>,
    /// What the decode lost; paths are pointers into the wire body.
    pub decode_loss: UnifiedLossReport,
    /// The projection; absent without a target, and when a required intent is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// What the projection lost; paths are pointers into the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<UnifiedLossReport>,
    /// Exit code: 0, or 3 when a required intent is lost.
    #[serde(skip)]
    pub exit: u8,
}
