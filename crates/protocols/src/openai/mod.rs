//! What the protocols of one vendor share: error bodies, words, and the schemas of strict mode. No protocol of its own.

pub(crate) mod errors;
pub(crate) mod strict_schema;

use throughline_format::intent::{ReasoningEffort, Verbosity};
use throughline_format::{ProtocolFamily, UnifiedRequestV2};

/// Why a word of another vendor is not sent: the provider refuses what it does not know.
pub(crate) const UNKNOWN_WORD: &str = "the target does not know this word";

/// The word for a class of service in an answer: the provider's own as it is, another vendor's where this one has it.
pub(crate) fn tier_of_answer(tier: &str, is_own: bool) -> Option<&str> {
    match tier {
        _ if is_own => Some(tier),
        "standard" => Some("default"),
        "auto" | "default" | "flex" | "scale" | "priority" | "fast" => Some(tier),
        _ => None,
    }
}

/// Why the class of service of an answer is left out.
pub(crate) const UNKNOWN_TIER: &str = "the wire has no word for this class of service";

/// Whether a request comes from one of the vendor's own protocols, which share their words, new ones included.
pub(crate) fn knows_words_of(request: &UnifiedRequestV2) -> bool {
    matches!(
        request.source.profile.family,
        ProtocolFamily::OpenAiChat | ProtocolFamily::OpenAiResponses
    )
}

/// Whether a request wants an effort by a word that is none of the vendor's.
pub(crate) fn is_foreign_effort(request: &UnifiedRequestV2, effort: &ReasoningEffort) -> bool {
    matches!(effort, ReasoningEffort::Other(_)) && !knows_words_of(request)
}

/// The same of a verbosity.
pub(crate) fn is_foreign_verbosity(request: &UnifiedRequestV2, verbosity: &Verbosity) -> bool {
    matches!(verbosity, Verbosity::Other(_)) && !knows_words_of(request)
}
