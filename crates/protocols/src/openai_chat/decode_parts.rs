//! Content parts from the wire.

use super::decode_request::{Reading, RequestDecoder};
use super::private::{FILE_ID, private_text};
use super::wire;
use crate::media;
use crate::wire::TextOr;
use throughline_format::cache::{CacheBreakpoint, CacheTtl};
use throughline_format::media::{ImageDetail, ResourceSource, UnifiedDataSource, UnifiedMediaMetadata};
use throughline_format::part::{MediaPart, RefusalPart};
use throughline_format::resource::ResourceType;
use throughline_format::{Count, Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedProviderResourceRef};

impl RequestDecoder<'_> {
    /// Content parts of one item; `start` is the wire index of the first element of a list.
    pub(super) fn parts(
        &mut self,
        reading: &mut Reading,
        item: &UnifiedId,
        content: Option<TextOr<wire::Part>>,
        start: usize,
    ) -> Vec<UnifiedContentPart> {
        let list = match content {
            None => {
                reading.form.content = Some("null".into());
                return Vec::new();
            }
            Some(TextOr::Text(text)) => return vec![UnifiedContentPart::text(item.part(0), text)],
            Some(TextOr::List(list)) => list,
        };
        if list.is_empty() || list.len() == 1 && matches!(list.first(), Some(wire::Part::Text(_))) {
            reading.form.content = Some("parts".into());
        }
        let mut parts = Vec::new();
        for (offset, part) in list.into_iter().enumerate() {
            let number = parts.len() as Count;
            let pointer = format!("/content/{}", start + offset);
            match self.part(reading, &item.part(number), &pointer, part) {
                Ok((body, extra)) => {
                    let part = UnifiedContentPart::new(item.part(number), body);
                    for (key, value) in &extra.0 {
                        if key == "prompt_cache_breakpoint" || key == "cache_control" {
                            self.breakpoints.push(CacheBreakpoint {
                                item_id: item.clone(),
                                part_id: Some(part.part_id.clone()),
                                ttl: ttl_of(value),
                            });
                        }
                    }
                    reading.leftovers.extra(&pointer, extra);
                    parts.push(part);
                }
                Err(raw) => reading.leftovers.add(pointer, raw),
            }
        }
        parts
    }

    /// One content part with its unknown members, or the whole part when its type is unknown.
    pub(super) fn part(
        &mut self,
        reading: &mut Reading,
        part_id: &UnifiedId,
        pointer: &str,
        part: wire::Part,
    ) -> Result<(PartBody, crate::wire::Extra), Json> {
        let raw = |part: &wire::Part| Json::from_serialize(part).unwrap_or_else(|_| Json::null());
        Ok(match part {
            wire::Part::Text(text) => (
                PartBody::Text(throughline_format::part::TextPart {
                    text: text.text,
                    ..Default::default()
                }),
                text.extra,
            ),
            wire::Part::Refusal(refusal) => {
                reading.form.refusal_part = true;
                (
                    PartBody::Refusal(RefusalPart {
                        text: refusal.refusal,
                        category: None,
                    }),
                    refusal.extra,
                )
            }
            wire::Part::ImageUrl(image) => {
                let (url, detail) = address(reading, &format!("{pointer}/image_url"), image.image_url);
                let media = detail.map(|d| UnifiedMediaMetadata {
                    detail: Some(ImageDetail::from_word(&d)),
                    ..UnifiedMediaMetadata::default()
                });
                (
                    PartBody::Image(MediaPart {
                        source: media::source_of_url(&url),
                        media,
                    }),
                    image.extra,
                )
            }
            wire::Part::VideoUrl(video) => {
                let (url, _) = address(reading, &format!("{pointer}/video_url"), video.video_url);
                reading.leftovers.add_value(format!("{pointer}/type"), "video_url");
                (
                    PartBody::Video(MediaPart {
                        source: media::source_of_url(&url),
                        media: None,
                    }),
                    video.extra,
                )
            }
            wire::Part::FileUrl(file) => {
                let (url, _) = address(reading, &format!("{pointer}/file_url"), file.file_url);
                reading.leftovers.add_value(format!("{pointer}/type"), "file_url");
                (
                    PartBody::Document(MediaPart {
                        source: media::source_of_url(&url),
                        media: None,
                    }),
                    file.extra,
                )
            }
            wire::Part::DocumentUrl(document) => {
                let (url, _) = address(reading, &format!("{pointer}/document_url"), document.document_url);
                reading.leftovers.add_value(format!("{pointer}/type"), "document_url");
                (
                    PartBody::Document(MediaPart {
                        source: media::source_of_url(&url),
                        media: None,
                    }),
                    document.extra,
                )
            }
            wire::Part::InputAudio(audio) => {
                let format = audio.input_audio.format.unwrap_or_else(|| "wav".into());
                reading.form.member(format!("{pointer}/input_audio/format"), format.clone());
                reading.leftovers.extra(&format!("{pointer}/input_audio"), audio.input_audio.extra);
                (
                    PartBody::Audio(MediaPart {
                        source: media::inline(&media::audio_type(&format), &audio.input_audio.data),
                        media: None,
                    }),
                    audio.extra,
                )
            }
            wire::Part::File(file) => {
                let (body, extra) = (
                    self.file(part_id, &format!("{}{pointer}/file", reading.path), &file.file),
                    file.extra.clone(),
                );
                let Some(body) = body else {
                    return Err(raw(&wire::Part::File(file)));
                };
                reading.leftovers.extra(&format!("{pointer}/file"), file.file.extra);
                (body, extra)
            }
            wire::Part::Thinking(thinking) => return Err(raw(&wire::Part::Thinking(thinking))),
            wire::Part::Unknown(raw) => return Err(raw),
        })
    }

    pub(super) fn file(&mut self, part_id: &UnifiedId, path: &str, file: &wire::File) -> Option<PartBody> {
        let media = file.filename.clone().map(|name| UnifiedMediaMetadata {
            name: Some(name),
            ..UnifiedMediaMetadata::default()
        });
        let (source, is_document) = match (&file.file_data, &file.file_id) {
            (Some(data), None) => {
                let (media_type, _) = media::data_url(data)?;
                (
                    media::source_of_url(data),
                    media_type == "application/pdf" || media_type.starts_with("text/"),
                )
            }
            (None, Some(handle)) => (self.handle(part_id, FILE_ID, handle, format!("{path}/file_id")), false),
            _ => return None,
        };
        let part = MediaPart { source, media };
        Some(if is_document {
            PartBody::Document(part)
        } else {
            PartBody::File(part)
        })
    }

    /// A provider's handle, kept apart.
    pub(super) fn handle(&mut self, part_id: &UnifiedId, schema: &str, handle: &str, path: String) -> UnifiedDataSource {
        let mut resource = private_text(schema, Some(part_id), part_id.resource(0), handle.as_bytes().to_vec(), vec![path]);
        resource.resource_type = ResourceType::File;
        let reference = UnifiedProviderResourceRef {
            resource_id: resource.resource_id.clone(),
            resource_type: ResourceType::File,
            owner_fingerprint: self.context.owner_fingerprint,
            status: None,
            expires_at: None,
        };
        self.resources.push(resource);
        UnifiedDataSource::ProviderResource(ResourceSource { resource: reference })
    }
}

/// Address and detail; a plain string is remembered as such.
fn address(reading: &mut Reading, pointer: &str, value: wire::ObjectOrText) -> (String, Option<String>) {
    match value {
        wire::ObjectOrText::Object(address) => {
            reading.leftovers.extra(pointer, address.extra);
            (address.url, address.detail)
        }
        wire::ObjectOrText::Text(url) => {
            reading.leftovers.add_value(pointer, url.clone());
            (url, None)
        }
    }
}

/// Life of a cache mark.
pub(super) fn ttl_of(mark: &Json) -> Option<CacheTtl> {
    let value = mark.parse();
    match value.get("ttl")?.as_str()? {
        "5m" => Some(CacheTtl::FiveMinutes),
        "1h" => Some(CacheTtl::OneHour),
        other => {
            let (number, unit) = other.split_at_checked(other.len().checked_sub(1)?)?;
            let factor = match unit {
                "s" => 1,
                "m" => 60,
                "h" => 3_600,
                _ => return None,
            };
            number.parse::<Count>().ok().map(|n| CacheTtl::Seconds(n.saturating_mul(factor)))
        }
    }
}
