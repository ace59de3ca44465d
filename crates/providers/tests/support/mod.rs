//! A scripted HTTP server on a raw socket, and a codec that only reads errors.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_format::{
    ErrorCategory, ProtocolFamily, UnifiedError, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2, UnifiedToolDefinition,
};
use throughline_protocols::capability::{CapabilityTable, Knobs};
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::{
    Capabilities, Codec, DecodeContext, Decoded, DecodedRequest, EncodeContext, Encoded, StreamDecoder, StreamEncoder, WireError,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// One step of an answer.
#[derive(Clone)]
pub enum Step {
    Send(&'static str),
    Pause(Duration),
    /// Never goes on.
    Hang,
}

/// A server that gives one scripted answer per connection, in order, and keeps what was asked.
pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub async fn start(answers: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answers) = (Arc::clone(&requests), Arc::new(Mutex::new(VecDeque::from(answers))));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
                tokio::spawn(serve(socket, seen, answers));
            }
        });
        Self { url, requests }
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut socket: TcpStream, seen: Arc<Mutex<Vec<String>>>, answers: Arc<Mutex<VecDeque<Vec<Step>>>>) {
    let mut request = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        let read = socket.read(&mut buffer).await.unwrap_or(0);
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let complete = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head
                .lines()
                .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            length.and_then(|l| l.parse::<usize>().ok()).is_none_or(|l| body.len() >= l)
        });
        if complete || read == 0 {
            seen.lock().unwrap().push(text);
            break;
        }
    }
    let answer = answers.lock().unwrap().pop_front().unwrap_or_default();
    for step in answer {
        match step {
            Step::Send(text) => socket.write_all(text.as_bytes()).await.unwrap(),
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Hang => std::future::pending().await,
        }
    }
}

/// Reads errors: 429 and 5xx may be tried again; everything else is not for this test.
pub struct ErrorCodec;

static TABLE: CapabilityTable = CapabilityTable {
    features: &[],
    knobs: Knobs {
        mid_conversation_system: false,
        max_tool_id_length: 64,
        max_tool_name_length: 64,
        max_cache_breakpoints: 0,
        max_stop_sequences: 4,
        max_temperature: 2.0,
        default_max_output_tokens: 4096,
    },
};

impl Codec for ErrorCodec {
    fn profile(&self) -> UnifiedProtocolProfile {
        UnifiedProtocolProfile::of(ProtocolFamily::OpenAiChat)
    }
    fn capabilities(&self) -> &'static CapabilityTable {
        &TABLE
    }
    fn decode_request(&self, _: &[u8], _: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
        unreachable!()
    }
    fn encode_request(&self, _: &UnifiedRequestV2, _: &EncodeContext) -> Result<Encoded, UnifiedError> {
        unreachable!()
    }
    fn decode_response(&self, _: &[u8], _: &DecodeContext) -> Result<Decoded, UnifiedError> {
        unreachable!()
    }
    fn encode_response(&self, _: &UnifiedResultV2, _: &EncodeContext) -> Result<Encoded, UnifiedError> {
        unreachable!()
    }
    fn stream_decoder(&self, _: &DecodeContext) -> Box<dyn StreamDecoder> {
        unreachable!()
    }
    fn stream_encoder(&self, _: &EncodeContext) -> Box<dyn StreamEncoder> {
        unreachable!()
    }
    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        let category = match status {
            401 => ErrorCategory::Auth,
            429 => ErrorCategory::RateLimit,
            529 => ErrorCategory::Overloaded,
            500.. => ErrorCategory::Server,
            _ => ErrorCategory::InvalidRequest,
        };
        let mut error = UnifiedError::new(category, "provider", String::from_utf8_lossy(body));
        error.retry_after_ms = headers.retry_after_ms;
        error
    }
    fn encode_error(&self, _: &UnifiedError) -> WireError {
        unreachable!()
    }
    fn wire_tool_name(&self, _: &UnifiedToolDefinition, _: &Capabilities) -> String {
        unreachable!()
    }
    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(call_id)
    }
}
