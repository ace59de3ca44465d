//! Media as wires write them: data URLs, bare base64 with a format word, addresses and handles.

use throughline_format::intent::InputResolution;
use throughline_format::loss::LossSeverity;
use throughline_format::media::{
    InlineEncoding, InlineSource, MediaResolution, UnifiedDataSource, UnifiedMediaMetadata, UrlSource, encode_base64,
};

/// The source that an address means: a base64 data URL is data, everything else stays an address.
pub(crate) fn source_of_url(url: &str) -> UnifiedDataSource {
    match data_url(url) {
        Some((media_type, data)) => inline(media_type, data),
        None => UnifiedDataSource::Url(UrlSource {
            url: url.to_owned(),
            headers_ref: None,
        }),
    }
}

/// Why a medium does not go to a target that cannot fetch it.
pub(crate) const UNREACHABLE: &str = "the target fetches nothing from such an address";

/// Whether anybody can fetch what stands at an address: `gs://`, `s3://`, `file://` and their kind are known to their owners only.
pub(crate) fn is_reachable(url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    ["http", "https", "data"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// How closely an image is to be looked at: the word of these wires, else the one that a resolution comes nearest to.
pub(crate) fn detail(meta: &UnifiedMediaMetadata) -> Option<String> {
    let of_resolution = |resolution: &MediaResolution| match resolution {
        MediaResolution::Word(InputResolution::Low) => Some("low"),
        MediaResolution::Word(InputResolution::Medium) => Some("auto"),
        MediaResolution::Word(InputResolution::High | InputResolution::UltraHigh) => Some("high"),
        MediaResolution::Tokens(_) => None,
    };
    let told = meta.detail.as_ref().map(|detail| detail.as_str().to_owned());
    told.or_else(|| meta.resolution.as_ref().and_then(of_resolution).map(str::to_owned))
}

/// Members of a medium that these wires do not say, with why not: the type of what is fetched, and a resolution.
pub(crate) fn unsaid(meta: &UnifiedMediaMetadata, source: &UnifiedDataSource, is_image: bool) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let is_elsewhere = matches!(source, UnifiedDataSource::Url(_) | UnifiedDataSource::ProviderResource(_));
    if meta.media_type.is_some() && is_elsewhere {
        found.push(("/media/mediaType", "the target learns the type from what it fetches"));
    }
    if meta.resolution.is_some() {
        let reason = if is_image && detail(meta).is_some() {
            "said by the nearest detail that the target knows"
        } else {
            "the target has a detail of images only, and words for it"
        };
        found.push(("/media/resolution", reason));
    }
    found
}

/// Members of a medium that are in none of the wire's, with why not; without a severity it loses nothing.
pub(crate) fn untold(media: Option<&UnifiedMediaMetadata>, told: &[&str]) -> Vec<(Option<LossSeverity>, String, &'static str)> {
    let Some(serde_json::Value::Object(members)) = media.and_then(|media| serde_json::to_value(media).ok()) else {
        return Vec::new();
    };
    let untold = members
        .into_iter()
        .map(|(member, _)| member)
        .filter(|member| !told.contains(&member.as_str()));
    untold
        .map(|member| {
            let (severity, reason) = match member.as_str() {
                "pages" | "range" | "time" | "fps" | "constraints" => (
                    Some(LossSeverity::Warning),
                    "the target reads the medium as a whole and in its own way",
                ),
                "mediaType" | "size" | "sha256" | "width" | "height" | "durationSeconds" | "sampleRate" | "channels" => {
                    (None, "the target learns it from the data")
                }
                _ => (Some(LossSeverity::Info), "the target has no place for it beside the medium"),
            };
            (severity, member, reason)
        })
        .collect()
}

/// Media type and base64 text of a data URL.
pub(crate) fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?
        .split_once(";base64,")
        .filter(|(media_type, _)| !media_type.is_empty() && !media_type.contains(','))
}

/// A media type without its parameters, for wires that take a bare one.
pub(crate) fn bare_type(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or(media_type)
}

/// Base64 data of a media type, as it was written.
pub(crate) fn inline(media_type: &str, data: &str) -> UnifiedDataSource {
    UnifiedDataSource::Inline(InlineSource {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
        encoding: InlineEncoding::Base64,
    })
}

/// The base64 text of inline data.
pub(crate) fn base64_of(source: &InlineSource) -> String {
    match source.encoding {
        InlineEncoding::Utf8 => encode_base64(source.data.as_bytes()),
        InlineEncoding::Bytes | InlineEncoding::Base64 => source.data.clone(),
    }
}

/// A data URL of inline data.
pub(crate) fn to_data_url(source: &InlineSource) -> String {
    format!("data:{};base64,{}", source.media_type, base64_of(source))
}

/// The media type that a file name tells, for data that comes without one.
pub(crate) fn type_of_name(name: Option<&str>) -> &'static str {
    match name.and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending) {
        Some("pdf") => "application/pdf",
        Some("txt" | "md") => "text/plain",
        Some("json") => "application/json",
        Some("csv") => "text/csv",
        _ => "application/octet-stream",
    }
}

/// Whether a medium is read as a document.
pub(crate) fn is_document(media_type: &str) -> bool {
    media_type == "application/pdf" || media_type.starts_with("text/")
}

/// The media type of an audio format word.
pub(crate) fn audio_type(format: &str) -> String {
    match format {
        "mp3" => "audio/mpeg".to_owned(),
        other => format!("audio/{other}"),
    }
}

/// The audio format word of a media type.
pub(crate) fn audio_format(media_type: &str) -> &str {
    match bare_type(media_type) {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wave" | "audio/x-wav" | "audio/vnd.wave" => "wav",
        other => other.strip_prefix("audio/").unwrap_or(other),
    }
}
