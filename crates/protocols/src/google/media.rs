//! Media of the wire: kinds by media type, durations, resolutions.

use throughline_format::PartBody;
use throughline_format::intent::InputResolution;
use throughline_format::part::MediaPart;

/// The part of a medium, by its media type or, without one, by its address.
pub(crate) fn part(media_type: Option<&str>, url: Option<&str>, media: MediaPart) -> PartBody {
    let bare = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let (major, minor) = bare.split_once('/').unwrap_or((bare, ""));
    match major {
        "image" => PartBody::Image(media),
        "audio" => PartBody::Audio(media),
        "video" => PartBody::Video(media),
        "text" => PartBody::Document(media),
        "application" if minor == "pdf" => PartBody::Document(media),
        "" if url.is_some_and(is_youtube) => PartBody::Video(media),
        "application" if minor == "octet-stream" => PartBody::Binary(media),
        _ => PartBody::File(media),
    }
}

/// Whether an address is one that the provider takes as a video.
fn is_youtube(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or(url);
    let host = rest.split('/').next().unwrap_or_default();
    matches!(host, "youtu.be" | "youtube.com" | "www.youtube.com" | "m.youtube.com")
}

/// Seconds of a duration such as `1.5s` or `900ms`.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let value: f64 = number.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value * scale)
}

/// A duration of the wire.
pub(crate) fn duration(seconds: f64) -> String {
    format!("{seconds}s")
}

/// A resolution word of the wire, with or without its prefix.
pub(crate) fn resolution(word: &str) -> Option<InputResolution> {
    match word.strip_prefix("MEDIA_RESOLUTION_").unwrap_or(word).to_ascii_lowercase().as_str() {
        "low" => Some(InputResolution::Low),
        "medium" => Some(InputResolution::Medium),
        "high" => Some(InputResolution::High),
        "ultra_high" => Some(InputResolution::UltraHigh),
        _ => None,
    }
}

/// The bare word of a resolution.
pub(crate) const fn resolution_word(resolution: InputResolution) -> &'static str {
    match resolution {
        InputResolution::Low => "LOW",
        InputResolution::Medium => "MEDIUM",
        InputResolution::High => "HIGH",
        InputResolution::UltraHigh => "ULTRA_HIGH",
    }
}

/// The media type that the end of an address tells.
pub(crate) fn guessed_type(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let ending = path.rsplit('/').next()?.rsplit_once('.')?.1.to_ascii_lowercase();
    Some(match ending.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "heic" => "image/heic",
        "pdf" => "application/pdf",
        "txt" | "md" => "text/plain",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" => "audio/ogg",
        "flac" => "audio/flac",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mov" => "video/quicktime",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds() {
        for (text, expected) in [
            ("9s", Some(9.0)),
            ("1.5s", Some(1.5)),
            ("900ms", Some(0.9)),
            ("34.074824224s", Some(34.074_824_224)),
            ("9", None),
            ("-1s", None),
            ("s", None),
            ("NaNs", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!([duration(10.0), duration(1.5)], ["10s", "1.5s"]);
    }
}
