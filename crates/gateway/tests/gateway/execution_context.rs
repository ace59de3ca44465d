//! The execution context: what runs a turn and must never be written into a record.

/// The names of types; it does not compile when one of them has the trait: its name would have two meanings.
macro_rules! without {
    ($forbidden:path: $($given:ty),+ $(,)?) => {
        [$({
            trait Ambiguous<A> {
                fn name() -> &'static str;
            }
            impl<T: ?Sized> Ambiguous<()> for T {
                fn name() -> &'static str {
                    std::any::type_name::<T>()
                }
            }
            #[allow(dead_code, reason = "it is here to make the call below ambiguous for a type that has the trait")]
            struct Forbidden;
            impl<T: ?Sized + $forbidden> Ambiguous<Forbidden> for T {
                fn name() -> &'static str {
                    unreachable!("the compiler refuses this call")
                }
            }
            <$given as Ambiguous<_>>::name()
        }),+]
    };
}

#[test]
fn nothing_of_the_execution_context_can_be_serialised() {
    throughline_format::clause!("TRAN-02");
    let context = without![serde::Serialize:
        // Credentials and the clients that carry them.
        throughline_providers::Credential,
        throughline_providers::Provider,
        throughline_providers::ProviderSpec,
        throughline_providers::HttpUpstream,
        reqwest::Client,
        reqwest::RequestBuilder,
        // Raw headers, sockets and bodies on their way.
        throughline_engine::ports::UpstreamCall,
        throughline_engine::ports::UpstreamReply,
        throughline_engine::TurnRequest,
        axum::http::HeaderMap,
        tokio::net::TcpStream,
        // Handles of a running operation, and retry state.
        throughline_engine::ports::Target,
        throughline_engine::Turn,
        throughline_engine::Engine,
        throughline_engine::live::Subscription,
        throughline_providers::RetryPolicy,
        dyn throughline_engine::ports::Upstream,
        dyn throughline_protocols::StreamDecoder,
        // Keys.
        throughline_store::Vault,
        throughline_store::KeyRing,
    ];
    assert_eq!(context.len(), 20);
    assert!(context.iter().any(|name| name.ends_with("Credential")), "{context:?}");
}

#[test]
fn a_root_record_is_never_a_body_of_a_provider() {
    throughline_format::clause!("ROOT-03");
    // What is sent is bytes, what an encoder gives is text of a wire, and no record is either of them.
    let sent: fn(throughline_engine::ports::UpstreamCall) -> bytes::Bytes = |call| call.body;
    let written: fn(throughline_protocols::Encoded) -> String = |encoded| encoded.body;
    let _ = (sent, written);
    let records = without![Into<bytes::Bytes>:
        throughline_format::UnifiedRequestV2,
        throughline_format::UnifiedResultV2,
        throughline_format::UnifiedEventV2,
    ];
    assert_eq!(records.len(), 3);

    // The records stand in a crate that knows none of the wires, so no type of a wire can be a field of one.
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../format/Cargo.toml")).unwrap();
    let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    assert!(!dependencies.contains("throughline-"), "{dependencies}");

    // And what an encoder writes is none of them: no protocol of a provider has their version.
    let request = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let anthropic = throughline_protocols::codec_of(&throughline_format::ProtocolFamily::AnthropicMessages).unwrap();
    let context = throughline_protocols::DecodeContext::offline();
    let request = anthropic.decode_request(request.as_bytes(), &context).unwrap().unified;
    for family in throughline_protocols::families() {
        let codec = throughline_protocols::codec_of(family).unwrap();
        let context = throughline_protocols::EncodeContext::plain(throughline_protocols::Capabilities::of(codec.capabilities()));
        let body = codec.encode_request(&request, &context).unwrap().body;
        assert!(!body.contains("schemaVersion"), "{family}: {body}");
        assert!(
            throughline_format::json::decode_str::<throughline_format::UnifiedRequestV2>(&body).is_err(),
            "{family}"
        );
    }
}
