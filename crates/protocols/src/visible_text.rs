//! What a reader sees of parts, for places of a wire that take text only.

use throughline_format::media::{InlineEncoding, UnifiedDataSource};
use throughline_format::{PartBody, UnifiedContentPart};

/// The visible text of parts, one part or line of a source below the other; what has no text gives none.
pub(crate) fn visible_text(parts: &[UnifiedContentPart]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for part in parts {
        match &part.body {
            PartBody::Json(inner) => texts.push(inner.value.as_str().to_owned()),
            PartBody::Document(media) | PartBody::File(media) => match &media.source {
                UnifiedDataSource::Inline(inline) if inline.encoding == InlineEncoding::Utf8 => texts.push(inline.data.clone()),
                _ => {}
            },
            PartBody::GroundingSource(found) => {
                let told = [&found.source.title, &found.source.uri, &found.excerpt];
                texts.extend(told.into_iter().flatten().cloned());
                texts.extend(found.parts.iter().flatten().filter_map(|part| part.as_text()).map(str::to_owned));
            }
            _ => texts.extend(part.as_text().map(str::to_owned)),
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    texts.join("\n")
}
