//! The client protocols: one row each, read by the router, by the shape of errors and by the request ID's header.

use std::sync::Arc;
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError};
use throughline_protocols::Codec;

/// Where the clients of a protocol ask, and what they look for in an answer.
#[derive(Debug)]
pub(crate) struct ClientProtocol {
    /// The protocol.
    pub(crate) family: ProtocolFamily,
    /// Paths of a turn (POST), as the router writes them.
    pub(crate) turns: &'static [&'static str],
    /// Begins of the paths that answer in this protocol's shapes; the longest one counts.
    pub(crate) prefixes: &'static [&'static str],
    /// Header in which its SDKs look for the request ID.
    pub(crate) request_id: &'static str,
}

/// Every client protocol of the gateway.
const ROWS: &[ClientProtocol] = &[
    ClientProtocol {
        family: ProtocolFamily::AnthropicMessages,
        turns: &["/v1/messages"],
        prefixes: &["/v1/messages"],
        request_id: "request-id",
    },
    ClientProtocol {
        family: ProtocolFamily::OpenAiChat,
        turns: &["/v1/chat/completions"],
        prefixes: &["/v1/"],
        request_id: "x-request-id",
    },
    ClientProtocol {
        family: ProtocolFamily::OpenAiResponses,
        turns: &["/v1/responses"],
        prefixes: &["/v1/responses"],
        request_id: "x-request-id",
    },
    ClientProtocol {
        family: ProtocolFamily::GeminiGenerateContent,
        turns: &["/v1beta/models/{*id}", "/v1/models/{*id}"],
        prefixes: &["/v1beta/"],
        request_id: "x-request-id",
    },
    ClientProtocol {
        family: ProtocolFamily::GeminiInteractions,
        turns: super::interactions::TURNS,
        prefixes: super::interactions::TURNS,
        request_id: "x-request-id",
    },
    ClientProtocol {
        family: ProtocolFamily::VercelUiMessage,
        turns: &[super::chats::TURN],
        prefixes: &["/vercel/"],
        request_id: "x-request-id",
    },
];

/// A row with its codec.
#[derive(Clone)]
pub(crate) struct Spoken {
    /// The row.
    pub(crate) protocol: &'static ClientProtocol,
    /// Its codec.
    pub(crate) codec: Arc<dyn Codec>,
}

/// The rows with their codecs.
pub(crate) struct Surface(Vec<Spoken>);

impl Surface {
    /// Takes the codecs from the registry.
    ///
    /// # Errors
    /// `unsupported.direction` when this build lacks the codec of a row.
    pub(crate) fn new() -> Result<Self, UnifiedError> {
        let with_codec = |protocol: &'static ClientProtocol| {
            throughline_protocols::codec_of(&protocol.family)
                .map(|codec| Spoken { protocol, codec })
                .ok_or_else(|| {
                    let message = format!("this build has no codec for {}", protocol.family);
                    UnifiedError::new(ErrorCategory::Unsupported, "direction", message)
                })
        };
        ROWS.iter().map(with_codec).collect::<Result<_, _>>().map(Self)
    }

    /// Every protocol.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Spoken> {
        self.0.iter()
    }

    /// The protocol in whose shapes a path answers; `None` = the native one.
    pub(crate) fn of_path(&self, path: &str) -> Option<&Spoken> {
        let length = |spoken: &Spoken| {
            let begins = spoken.protocol.prefixes.iter().filter(|prefix| path.starts_with(**prefix));
            begins.map(|prefix| prefix.len()).max()
        };
        let matching = self.0.iter().filter_map(|spoken| Some((length(spoken)?, spoken)));
        matching.max_by_key(|(length, _)| *length).map(|(_, spoken)| spoken)
    }

    /// The row of a family.
    pub(crate) fn of_family(&self, family: &ProtocolFamily) -> Option<&Spoken> {
        self.0.iter().find(|spoken| spoken.protocol.family == *family)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_begin_decides_the_shape() {
        let surface = Surface::new().unwrap();
        for (path, family) in [
            ("/v1/messages", Some(ProtocolFamily::AnthropicMessages)),
            ("/v1/messages/count_tokens", Some(ProtocolFamily::AnthropicMessages)),
            ("/v1/chat/completions", Some(ProtocolFamily::OpenAiChat)),
            ("/v1/responses", Some(ProtocolFamily::OpenAiResponses)),
            ("/v1beta/models/m:generateContent", Some(ProtocolFamily::GeminiGenerateContent)),
            ("/v1beta/interactions/op_1", Some(ProtocolFamily::GeminiInteractions)),
            ("/v1beta/files", Some(ProtocolFamily::GeminiGenerateContent)),
            ("/v1/nothing", Some(ProtocolFamily::OpenAiChat)),
            ("/vercel/chat/c1/stream", Some(ProtocolFamily::VercelUiMessage)),
            ("/unified/v2/operations", None),
            ("/healthz", None),
        ] {
            let found = surface.of_path(path).map(|spoken| spoken.protocol.family.clone());
            assert_eq!(found, family, "{path}");
        }
    }

    #[test]
    fn every_turn_answers_in_its_own_shapes() {
        let surface = Surface::new().unwrap();
        for spoken in surface.iter() {
            let protocol = spoken.protocol;
            // Under /v1/models the request says whose shapes it wants.
            for turn in protocol.turns.iter().filter(|turn| !turn.starts_with("/v1/models")) {
                assert_eq!(surface.of_path(turn).unwrap().protocol.family, protocol.family, "{turn}");
            }
            assert_eq!(spoken.codec.profile().family, protocol.family);
        }
    }
}
