//! Content parts, annotations and token probabilities to the wire.

use super::encode_item::Writer;
use super::kept;
use super::wire::Node;
use crate::cited;
use crate::feature::Feature;
use crate::media;
use crate::visible_text::visible_text;
use throughline_format::cache::CacheTtl;
use throughline_format::citation::{SpanOf, UnifiedSpan, UnifiedTextAnnotation};
use throughline_format::loss::LossSeverity;
use throughline_format::media::{UnifiedDataSource, UnifiedIndexUnit};
use throughline_format::part::{MediaPart, TextPart, UnifiedTokenLogprob};
use throughline_format::{Count, PartBody, UnifiedContentPart};

/// Who says a part: that decides what it is called and which kinds are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// User, system, developer, and outputs of tools.
    Input,
    /// The assistant.
    Output,
}

impl Writer<'_> {
    /// The parts of a message or of an output that have a form; what has none is a note. Texts of others that are empty are left out.
    pub(super) fn parts(&mut self, parts: &[UnifiedContentPart], side: Side, own: bool, member: &str) -> Vec<Node> {
        let mut nodes = Vec::new();
        for (n, part) in parts.iter().enumerate() {
            let suffix = format!("/{member}/{n}");
            let entries = kept::entries(self.private, part.base.provider_data.as_ref());
            if let Some(whole) = entries.iter().find(|entry| entry.pointer.is_empty()) {
                nodes.push(Node::open(&whole.value));
                continue;
            }
            if part.as_text() == Some("") && part.base.provider_data.is_some() {
                self.note(
                    LossSeverity::Info,
                    Feature::WireUnmapped,
                    &format!("{suffix}/providerData"),
                    "stays with its owner",
                );
                continue;
            }
            let Some(mut node) = self.part(part, side, own, &suffix) else {
                continue;
            };
            if let Some(ttl) = self.marks.get(&part.part_id) {
                node.put("prompt_cache_breakpoint", mark(*ttl));
            }
            nodes.push(node);
        }
        nodes
    }

    fn part(&mut self, part: &UnifiedContentPart, side: Side, own: bool, suffix: &str) -> Option<Node> {
        let text_kind = if side == Side::Output { "output_text" } else { "input_text" };
        let told = (side == Side::Output && self.is_answer()).then(|| Node::List(Vec::new()));
        let text = |text: &str| Node::typed(text_kind, [("text", Some(Node::text(text))), ("annotations", told.clone())]);
        match &part.body {
            PartBody::Text(inner) => {
                if inner.text.is_empty() && !own {
                    self.note(
                        LossSeverity::Info,
                        Feature::ConversationMessageEmpty,
                        suffix,
                        "an empty text is left out",
                    );
                    return None;
                }
                Some(self.text(inner, text_kind, side, suffix))
            }
            PartBody::Refusal(inner) => {
                if side == Side::Input {
                    self.note(LossSeverity::Info, Feature::PartRefusal, suffix, "said as text");
                    return Some(text(&inner.text));
                }
                if inner.category.is_some() {
                    let path = format!("{suffix}/category");
                    self.note(
                        LossSeverity::Info,
                        Feature::PartRefusal,
                        &path,
                        "the target has no category of a refusal",
                    );
                }
                Some(Node::typed("refusal", [("refusal", Some(Node::text(&inner.text)))]))
            }
            PartBody::Json(json) => {
                self.note(LossSeverity::Info, Feature::PartJson, suffix, "said as text");
                Some(text(json.value.as_str()))
            }
            PartBody::Reasoning(_) => {
                self.note(
                    LossSeverity::Warning,
                    Feature::ReasoningText,
                    suffix,
                    "the target takes no reasoning of others",
                );
                None
            }
            PartBody::Citation(_) => {
                self.note(
                    LossSeverity::Warning,
                    Feature::Citation,
                    suffix,
                    "the target has citations only on a text",
                );
                None
            }
            PartBody::GroundingSource(_) => {
                let said = visible_text(std::slice::from_ref(part));
                self.note(
                    LossSeverity::Warning,
                    Feature::GroundingSource,
                    suffix,
                    "a source that was found is said in text",
                );
                (!said.is_empty()).then(|| text(&said))
            }
            PartBody::ArtifactReference(_) => {
                self.note(
                    LossSeverity::Warning,
                    Feature::PartArtifact,
                    suffix,
                    "the artifact was not resolved before the projection",
                );
                None
            }
            PartBody::Image(inner)
            | PartBody::Audio(inner)
            | PartBody::Video(inner)
            | PartBody::Document(inner)
            | PartBody::File(inner)
            | PartBody::Binary(inner) => self.media(&part.body, inner, side, own, suffix),
        }
    }

    fn text(&mut self, inner: &TextPart, kind: &str, side: Side, suffix: &str) -> Node {
        let mut node = Node::typed(kind, [("text", Some(Node::text(&inner.text)))]);
        if side == Side::Input {
            for (member, feature, is_there) in [
                ("annotations", Feature::Citation, inner.annotations.is_some()),
                ("logprobs", Feature::PartLogprobs, inner.logprobs.is_some()),
            ] {
                if is_there {
                    let reason = "the target has it only on the assistant's text";
                    self.note(LossSeverity::Warning, feature, &format!("{suffix}/{member}"), reason);
                }
            }
            return node;
        }
        if !self.is_answer() && !self.is_native {
            for (member, feature, is_there) in [
                ("annotations", Feature::Citation, inner.annotations.is_some()),
                ("logprobs", Feature::PartLogprobs, inner.logprobs.is_some()),
            ] {
                if is_there {
                    let reason = "the target takes it only on messages of its own";
                    self.note(LossSeverity::Warning, feature, &format!("{suffix}/{member}"), reason);
                }
            }
            return node;
        }
        let mut list = Vec::new();
        for (n, remark) in inner.annotations.iter().flatten().enumerate() {
            list.extend(self.annotation(remark, &inner.text, &format!("{suffix}/annotations/{n}")));
        }
        if !list.is_empty() || self.is_answer() || self.is_output {
            node.put("annotations", Node::List(list));
        }
        if let Some(tokens) = &inner.logprobs {
            node.put("logprobs", logprobs(tokens));
        }
        node
    }

    /// A remark on a text in the target's words.
    pub(super) fn annotation(&mut self, remark: &UnifiedTextAnnotation, text: &str, suffix: &str) -> Option<Node> {
        match remark {
            UnifiedTextAnnotation::Citation(citation) => {
                let answer = citation.spans.iter().flatten().find(|span| span.of == SpanOf::Answer);
                let place = answer.and_then(|span| characters(span, text));
                if place.is_some() {
                    let path = format!("{suffix}/spans");
                    self.remark(Feature::CitationSpan, &path, "said as places in the text");
                }
                let said: &[&str] = if citation.source.uri.is_some() {
                    &["source/title"]
                } else {
                    &["source/title", "source/type", "source/resource"]
                };
                let is_whole =
                    cited::untold(citation, said).is_empty() && citation.spans.iter().flatten().all(|span| span.of == SpanOf::Answer);
                let node = if let Some(uri) = &citation.source.uri {
                    let (start, end) = place.unwrap_or((0, text.chars().count() as u64));
                    let is_told = answer.is_some() || self.fills();
                    Some(Node::typed(
                        "url_citation",
                        [
                            ("start_index", is_told.then(|| Node::of(&start))),
                            ("end_index", is_told.then(|| Node::of(&end))),
                            ("url", Some(Node::text(uri))),
                            (
                                "title",
                                citation
                                    .source
                                    .title
                                    .as_deref()
                                    .map(Node::text)
                                    .or_else(|| self.fills().then(|| Node::text(""))),
                            ),
                        ],
                    ))
                } else {
                    let handle = citation
                        .source
                        .resource
                        .as_ref()
                        .and_then(|resource| kept::handle(self.private, resource));
                    handle.map(|handle| {
                        let (start, end) = place.unwrap_or((0, 0));
                        let mut members = vec![
                            ("file_id", Some(Node::text(&handle))),
                            ("filename", citation.source.title.as_deref().map(Node::text)),
                        ];
                        let kind = if start == end {
                            members.push(("index", place.map(|_| Node::of(&start))));
                            "file_citation"
                        } else {
                            members.push(("start_index", Some(Node::of(&start))));
                            members.push(("end_index", Some(Node::of(&end))));
                            "container_file_citation"
                        };
                        Node::typed(kind, members)
                    })
                };
                if node.is_none() || !is_whole || answer.is_some() && place.is_none() {
                    let (severity, reason) = if node.is_none() {
                        (LossSeverity::Warning, "the target cites only addresses and files of its own")
                    } else {
                        (LossSeverity::Info, "the target says only address, title and place")
                    };
                    self.note(severity, Feature::Citation, suffix, reason);
                } else if answer.is_some_and(|span| !matches!(span.unit, UnifiedIndexUnit::Character | UnifiedIndexUnit::CodePoint)) {
                    let reason = "the place is counted in characters at the target";
                    self.note(LossSeverity::Info, Feature::CitationSpan, suffix, reason);
                }
                node
            }
            UnifiedTextAnnotation::FilePath(path) => {
                let handle = path.resource.as_ref().and_then(|resource| kept::handle(self.private, resource));
                let index = path.span.as_ref().map(|span| span.start);
                if handle.is_none() {
                    self.note(
                        LossSeverity::Warning,
                        Feature::Citation,
                        suffix,
                        "the file belongs to somebody else",
                    );
                }
                handle.map(|handle| {
                    Node::typed(
                        "file_path",
                        [
                            ("file_id", Some(Node::text(&handle))),
                            ("index", index.map(|index| Node::of(&index))),
                        ],
                    )
                })
            }
            UnifiedTextAnnotation::Speech(_) => {
                self.note(
                    LossSeverity::Warning,
                    Feature::Citation,
                    suffix,
                    "the target has no remarks on speech",
                );
                None
            }
        }
    }

    /// One medium.
    fn media(&mut self, body: &PartBody, inner: &MediaPart, side: Side, own: bool, suffix: &str) -> Option<Node> {
        let feature = match body {
            PartBody::Image(_) => Feature::PartImage,
            PartBody::Audio(_) => Feature::PartAudio,
            PartBody::Video(_) => Feature::PartVideo,
            PartBody::Document(_) => Feature::PartDocument,
            PartBody::File(_)
            | PartBody::Binary(_)
            | PartBody::Text(_)
            | PartBody::Reasoning(_)
            | PartBody::Refusal(_)
            | PartBody::Json(_)
            | PartBody::Citation(_)
            | PartBody::GroundingSource(_)
            | PartBody::ArtifactReference(_) => Feature::PartFile,
        };
        if side == Side::Output && self.is_answer() && matches!(body, PartBody::Audio(_)) {
            let reason = "audio has no place in the items of an answer; a stream tells it beside them";
            self.note(LossSeverity::Info, feature, suffix, reason);
            return None;
        }
        if side == Side::Output && !own {
            self.note(
                LossSeverity::Warning,
                feature,
                suffix,
                "the target takes no media from the assistant",
            );
            return None;
        }
        let meta = inner.media.as_ref();
        let (url, handle) = match &inner.source {
            UnifiedDataSource::Url(source) if !own && !media::is_reachable(&source.url) => {
                self.note(LossSeverity::Warning, feature, suffix, media::UNREACHABLE);
                return None;
            }
            UnifiedDataSource::Url(source) => (Some(source.url.clone()), None),
            UnifiedDataSource::Inline(source) => (Some(media::to_data_url(source)), None),
            UnifiedDataSource::Artifact(_) => {
                self.note(
                    LossSeverity::Warning,
                    feature,
                    suffix,
                    "the artifact was not resolved before the projection",
                );
                return None;
            }
            UnifiedDataSource::ProviderResource(source) => {
                let Some(handle) = kept::handle(self.private, &source.resource) else {
                    self.note(LossSeverity::Warning, feature, suffix, "the file belongs to somebody else");
                    return None;
                };
                (None, Some(handle))
            }
        };
        if meta.is_some_and(|m| m.title.is_some() || m.context.is_some() || m.citations_enabled.is_some()) {
            let reason = "the target has no title, context and citation flag of a document";
            self.note(LossSeverity::Info, Feature::PartDocumentContext, &format!("{suffix}/media"), reason);
        }
        let is_image = matches!(body, PartBody::Image(_));
        for (member, reason) in meta.map(|meta| media::unsaid(meta, &inner.source, is_image)).unwrap_or_default() {
            self.note(LossSeverity::Info, feature, &format!("{suffix}{member}"), reason);
        }
        let said: &[&str] = if is_image { &["detail"] } else { &["name"] };
        let told = [&["mediaType", "resolution", "title", "context", "citationsEnabled"], said].concat();
        for (severity, member, reason) in media::untold(meta, &told) {
            let suffix = format!("{suffix}/media/{member}");
            match severity {
                Some(severity) => self.note(severity, feature, &suffix, reason),
                None => self.remark(feature, &suffix, reason),
            }
        }
        let handle = handle.as_deref().map(Node::text);
        let address = url.as_deref().map(Node::text);
        match body {
            PartBody::Image(_) => {
                let detail = meta.and_then(media::detail).map(|detail| Node::text(&detail));
                let detail = detail.or_else(|| (!own && self.fills()).then(|| Node::text("auto")));
                Some(Node::typed(
                    "input_image",
                    [("image_url", address), ("file_id", handle), ("detail", detail)],
                ))
            }
            PartBody::Audio(_) if own && matches!(inner.source, UnifiedDataSource::Inline(_)) => {
                let UnifiedDataSource::Inline(source) = &inner.source else {
                    return None;
                };
                let format = match source.media_type.as_str() {
                    "audio/mpeg" => "mp3",
                    other => other.strip_prefix("audio/").unwrap_or(other),
                };
                let data = Node::object([
                    ("data", Some(Node::text(&media::base64_of(source)))),
                    ("format", Some(Node::text(format))),
                ]);
                Some(Node::typed("input_audio", [("input_audio", Some(data))]))
            }
            PartBody::Audio(_) | PartBody::Video(_) => {
                self.note(LossSeverity::Warning, feature, suffix, "the target has no form for it");
                None
            }
            PartBody::Document(_) | PartBody::File(_) | PartBody::Binary(_) => self.file(inner, address, handle, own, suffix),
            // No media.
            PartBody::Text(_)
            | PartBody::Reasoning(_)
            | PartBody::Refusal(_)
            | PartBody::Json(_)
            | PartBody::Citation(_)
            | PartBody::GroundingSource(_)
            | PartBody::ArtifactReference(_) => None,
        }
    }

    fn file(&mut self, inner: &MediaPart, address: Option<Node>, handle: Option<Node>, own: bool, suffix: &str) -> Option<Node> {
        let meta = inner.media.as_ref();
        let name = meta.and_then(|m| m.name.clone().or_else(|| m.title.clone().filter(|_| !own)));
        let UnifiedDataSource::Inline(source) = &inner.source else {
            let members = [
                ("file_url", address),
                ("file_id", handle),
                ("filename", name.as_deref().map(Node::text)),
            ];
            return Some(Node::typed("input_file", members));
        };
        if source.media_type.starts_with("text/") && !own {
            let said = source.bytes().and_then(|bytes| String::from_utf8(bytes).ok());
            let Some(said) = said else {
                self.note(
                    LossSeverity::Warning,
                    Feature::PartDocument,
                    suffix,
                    "the text of the file cannot be read",
                );
                return None;
            };
            self.note(LossSeverity::Info, Feature::PartDocument, suffix, "a text document is said as text");
            return Some(Node::typed("input_text", [("text", Some(Node::text(&said)))]));
        }
        let name = name.or_else(|| (!own).then(|| "document.pdf".to_owned()));
        Some(Node::typed(
            "input_file",
            [("file_data", address), ("filename", name.as_deref().map(Node::text))],
        ))
    }
}

/// The life of a cache mark in seconds: one of the two that the wire knows.
pub(super) const fn life(ttl: CacheTtl) -> Count {
    if ttl.seconds() > 3_600 { 43_200 } else { 1_800 }
}

/// A cache mark.
pub(super) fn mark(ttl: Option<CacheTtl>) -> Node {
    let word = ttl.map(|ttl| if life(ttl) > 1_800 { "12h" } else { "30m" });
    Node::object([("mode", Some(Node::text("explicit"))), ("ttl", word.map(Node::text))])
}

/// Token probabilities.
pub(super) fn logprobs(tokens: &[UnifiedTokenLogprob]) -> Node {
    let bytes = |bytes: Option<&Vec<u8>>| bytes.map(Node::of);
    let token = |token: &UnifiedTokenLogprob| {
        let top = token.top.iter().flatten().map(|top| {
            Node::object([
                ("token", Some(Node::text(&top.token))),
                ("bytes", bytes(top.bytes.as_ref())),
                ("logprob", Some(Node::of(&top.logprob))),
            ])
        });
        let top = token.top.as_ref().map(|_| Node::List(top.collect()));
        Node::object([
            ("token", Some(Node::text(&token.token))),
            ("bytes", bytes(token.bytes.as_ref())),
            ("logprob", Some(Node::of(&token.logprob))),
            ("top_logprobs", top),
        ])
    };
    Node::List(tokens.iter().map(token).collect())
}

/// A span in characters of the text; none for units that do not count text.
pub(super) fn characters(span: &UnifiedSpan, text: &str) -> Option<(u64, u64)> {
    let convert = |index: u64| -> Option<u64> {
        match span.unit {
            UnifiedIndexUnit::Character | UnifiedIndexUnit::CodePoint => Some(index),
            UnifiedIndexUnit::Utf8Byte => Some(text.char_indices().take_while(|(at, _)| (*at as u64) < index).count() as u64),
            UnifiedIndexUnit::Utf16 => {
                let mut units = 0;
                let before = text.chars().take_while(|c| {
                    let is_before = units < index;
                    units += c.len_utf16() as u64;
                    is_before
                });
                Some(before.count() as u64)
            }
            UnifiedIndexUnit::Token | UnifiedIndexUnit::Page | UnifiedIndexUnit::Block | UnifiedIndexUnit::None => None,
        }
    };
    Some((convert(span.start)?, convert(span.end)?))
}
