//! The protocols that this build speaks.

use crate::codec::Codec;
use crate::gemini_generate_content::GeminiGenerateContent;

use std::sync::Arc;
use throughline_format::ProtocolFamily;

/// The codec of a family, when this build has one.
pub fn codec_of(family: &ProtocolFamily) -> Option<Arc<dyn Codec>> {
    match family {
        ProtocolFamily::AnthropicMessages => Some(Arc::new(crate::anthropic_messages::AnthropicMessages)),
        ProtocolFamily::OpenAiChat => Some(Arc::new(crate::openai_chat::OpenAiChat)),
        ProtocolFamily::OpenAiResponses => Some(Arc::new(crate::openai_responses::OpenAiResponses)),
        ProtocolFamily::GeminiGenerateContent => Some(Arc::new(GeminiGenerateContent::GEMINI)),
        ProtocolFamily::VertexGemini => Some(Arc::new(GeminiGenerateContent::VERTEX)),
        ProtocolFamily::Antigravity => Some(Arc::new(GeminiGenerateContent::ANTIGRAVITY)),
        ProtocolFamily::GeminiInteractions => Some(Arc::new(crate::gemini_interactions::GeminiInteractions)),
        ProtocolFamily::CursorSdk => Some(Arc::new(crate::cursor_sdk::CursorSdk)),
        ProtocolFamily::VercelUiMessage => Some(Arc::new(crate::vercel_uimessage::VercelUiMessage)),
        ProtocolFamily::Other(_) => None,
    }
}

/// Every family with a codec, in the order of the documentation.
pub fn families() -> &'static [ProtocolFamily] {
    &[
        ProtocolFamily::AnthropicMessages,
        ProtocolFamily::OpenAiChat,
        ProtocolFamily::OpenAiResponses,
        ProtocolFamily::GeminiGenerateContent,
        ProtocolFamily::VertexGemini,
        ProtocolFamily::Antigravity,
        ProtocolFamily::GeminiInteractions,
        ProtocolFamily::CursorSdk,
        ProtocolFamily::VercelUiMessage,
    ]
}
