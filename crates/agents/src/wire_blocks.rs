//! Histories in blocks of Anthropic's wire: the paired form through which runtimes without a wire of their own are read and written.
//!
//! The codec makes items of blocks and blocks of items, keeps signatures apart, pairs calls with results and tells losses. Here blocks
//! are made from what such a runtime says, and opened again.

use crate::builder::Builder;
use crate::fields::{Fields, member};
use crate::losses;
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedItem, media::UnifiedDataSource};
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::{Capabilities, Codec as _, DecodeContext, DecodedRequest, HistoryPiece, raw};

/// What the wire can express in a file: no runtime takes system text in the middle of one.
pub(crate) fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::of(AnthropicMessages.capabilities());
    // A known key with a value of its type is never refused.
    let _ = capabilities.set("mid_conversation_system", &serde_json::Value::Bool(false));
    capabilities
}

/// Reads the content of one message.
pub(crate) fn decode(role: &str, content: &str, context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let body = format!("{{\"max_tokens\":1,\"messages\":[{{\"role\":\"{role}\",\"content\":{content}}}]}}");
    AnthropicMessages.decode_request(body.as_bytes(), context)
}

/// Content in the making.
#[derive(Debug, Default)]
pub(crate) struct Content(Vec<Json>);

impl Content {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of another content.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn push(&mut self, kind: &str, members: Vec<(String, Json)>) {
        let mut block = vec![member("type", kind)];
        block.extend(members);
        self.0.push(raw::object(block));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.push("text", vec![member("text", text)]);
    }

    pub(crate) fn thinking(&mut self, text: &str, signature: Option<&str>) {
        let mut members = vec![member("thinking", text)];
        members.extend(signature.map(|signature| member("signature", signature)));
        self.push("thinking", members);
    }

    /// A call; input that is no object stands in one.
    pub(crate) fn call(&mut self, id: &str, name: &str, input: Option<Json>) {
        let input = match input {
            Some(input) if input.is_object() => input,
            Some(other) => raw::object(vec![("input".to_owned(), other)]),
            None => raw::object(Vec::new()),
        };
        self.push(
            "tool_use",
            vec![member("id", id), member("name", name), ("input".to_owned(), input)],
        );
    }

    pub(crate) fn result(&mut self, call_id: &str, content: Self, is_error: bool) {
        let mut members = vec![member("tool_use_id", call_id), member("content", &content.0)];
        members.extend(is_error.then(|| member("is_error", &true)));
        self.push("tool_result", members);
    }

    /// A medium at a `data:` URL or another address.
    pub(crate) fn medium(&mut self, media_type: &str, url: &str, name: Option<&str>) {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        let source = match data {
            Some((told, data)) => {
                let media_type = if media_type.is_empty() { told } else { media_type };
                vec![member("type", "base64"), member("media_type", media_type), member("data", data)]
            }
            None => vec![member("type", "url"), member("url", url)],
        };
        let kind = if media_type.starts_with("image/") { "image" } else { "document" };
        let mut members = vec![("source".to_owned(), raw::object(source))];
        members.extend(name.filter(|_| kind == "document").map(|name| member("title", name)));
        self.push(kind, members);
    }

    /// The items that the content is, in the builder's transcript; `place` is where losses are told.
    pub(crate) fn read(self, role: &str, builder: &mut Builder, key: &str, place: &str) -> Vec<UnifiedItem> {
        let content = raw::json(&self.0);
        match decode(role, content.as_str(), &builder.context(key)) {
            Ok(decoded) => {
                losses::extend_moved(&mut builder.transcript.loss, decoded.loss, "/messages/0", place);
                builder.resources(decoded.resources);
                let profile = crate::builder::profile(&builder.transcript.runtime);
                let mut items = decoded.unified.conversation.items;
                for item in &mut items {
                    // The wire is only the way here: the item comes from the runtime's own shape.
                    item.base.provenance.profile = Some(profile.clone());
                    item.parts_mut().into_iter().flatten().for_each(name_medium);
                }
                items
            }
            Err(error) => {
                builder.warn(
                    "transcript.unreadable-record",
                    format!("it cannot be read: {}", error.message),
                    place,
                );
                Vec::new()
            }
        }
    }
}

/// Media that are no documents are what their type says.
fn name_medium(part: &mut UnifiedContentPart) {
    let PartBody::Document(medium) = &part.body else { return };
    let UnifiedDataSource::Inline(inline) = &medium.source else {
        return;
    };
    let (medium, kind) = (medium.clone(), inline.media_type.split('/').next().unwrap_or_default());
    part.body = match kind {
        "audio" => PartBody::Audio(medium),
        "video" => PartBody::Video(medium),
        "text" => return,
        _ if inline.media_type == "application/pdf" => return,
        _ => PartBody::File(medium),
    };
}

/// A medium within a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Medium {
    pub(crate) media_type: String,
    /// A `data:` URL or an address.
    pub(crate) url: String,
    /// Base64 text, where it stands in the history.
    pub(crate) data: Option<String>,
    pub(crate) name: Option<String>,
}

/// One block, as far as a runtime can say it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Medium(Medium),
    Call {
        id: String,
        name: String,
        input: Json,
    },
    Result {
        call_id: String,
        text: String,
        media: Vec<Medium>,
        is_error: bool,
    },
    /// Anything else; its words, if there are any.
    Other(String),
}

/// Opens a piece.
pub(crate) fn open(piece: &HistoryPiece) -> Block {
    Fields::parse(piece.body.as_str()).map_or_else(|| Block::Other(String::new()), |fields| block(&fields))
}

fn block(fields: &Fields<'_>) -> Block {
    let text = |key: &str| fields.text(key).unwrap_or_default();
    match text("type").as_str() {
        "text" => Block::Text(text("text")),
        "thinking" => Block::Thinking {
            text: text("thinking"),
            signature: text("signature"),
        },
        "image" | "document" => medium(fields).map_or_else(|| Block::Other(String::new()), Block::Medium),
        "tool_use" => Block::Call {
            id: text("id"),
            name: text("name"),
            input: fields.json("input").unwrap_or_else(Json::null),
        },
        "tool_result" => {
            let (mut words, mut media) = (Vec::new(), Vec::new());
            words.extend(fields.text("content"));
            for part in fields.objects("content") {
                match block(&part) {
                    Block::Text(text) | Block::Other(text) => words.push(text),
                    Block::Medium(medium) => media.push(medium),
                    Block::Call { .. } | Block::Result { .. } | Block::Thinking { .. } => {}
                }
            }
            Block::Result {
                call_id: text("tool_use_id"),
                text: words.join("\n"),
                media,
                is_error: fields.flag("is_error"),
            }
        }
        "search_result" => {
            let content = fields.objects("content");
            let words: Vec<String> = content.iter().filter_map(|part| part.text("text")).collect();
            Block::Other(format!("{}\n{}\n{}", text("title"), text("source"), words.join("\n")))
        }
        _ => Block::Other(String::new()),
    }
}

fn medium(fields: &Fields<'_>) -> Option<Medium> {
    let source = fields.object("source")?;
    let media_type = source.text("media_type");
    let name = fields.word("title");
    let inline = |media_type: String, data: String| Medium {
        url: format!("data:{media_type};base64,{data}"),
        media_type,
        data: Some(data),
        name: name.clone(),
    };
    match source.text("type")?.as_str() {
        "base64" => Some(inline(media_type?, source.text("data")?)),
        "text" => {
            let data = throughline_format::media::encode_base64(source.text("data")?.as_bytes());
            Some(inline(media_type.unwrap_or_else(|| "text/plain".to_owned()), data))
        }
        "url" => Some(Medium {
            media_type: media_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
            url: source.text("url")?,
            data: None,
            name,
        }),
        _ => None,
    }
}
