//! Files as this wire writes them: an address or a data URL, and a media type.

use crate::media::{source_of_url, to_data_url};
use throughline_format::PartBody;
use throughline_format::media::{UnifiedDataSource, UnifiedMediaMetadata};
use throughline_format::part::MediaPart;

/// The part that a file means, by its media type.
pub(super) fn body_of(url: &str, media_type: Option<String>, filename: Option<String>) -> PartBody {
    let source = source_of_url(url);
    let kind = media_type.clone().unwrap_or_default();
    let media = (media_type.is_some() || filename.is_some()).then(|| UnifiedMediaMetadata {
        name: filename,
        media_type,
        ..UnifiedMediaMetadata::default()
    });
    let part = MediaPart { source, media };
    match kind.split('/').next().unwrap_or_default() {
        "image" => PartBody::Image(part),
        "audio" => PartBody::Audio(part),
        "video" => PartBody::Video(part),
        "text" => PartBody::Document(part),
        _ if kind == "application/pdf" => PartBody::Document(part),
        _ => PartBody::File(part),
    }
}

/// Address and media type of a medium; none when only its owner or the artifact store has the data.
pub(super) fn address_of(kind: &str, part: &MediaPart) -> Option<(String, String)> {
    let named = part.media.as_ref().and_then(|media| media.media_type.clone());
    match &part.source {
        UnifiedDataSource::Inline(inline) => Some((to_data_url(inline), named.unwrap_or_else(|| inline.media_type.clone()))),
        UnifiedDataSource::Url(source) => Some((source.url.clone(), named.unwrap_or_else(|| usual_type(kind).to_owned()))),
        UnifiedDataSource::Artifact(_) | UnifiedDataSource::ProviderResource(_) => None,
    }
}

/// The media type of an address whose type nobody told.
fn usual_type(kind: &str) -> &'static str {
    match kind {
        "image" => "image/*",
        "audio" => "audio/*",
        "video" => "video/*",
        "document" => "application/pdf",
        _ => "application/octet-stream",
    }
}
