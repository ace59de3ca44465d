//! The execution context: what runs a turn and must never be written into a record.

/// Does not compile when one of the types can be serialised: its name for `some_member` would have two meanings.
macro_rules! no_record_can_hold {
    ($($context:ty),+ $(,)?) => {
        [$({
            trait Ambiguous<A> {
                fn name() -> &'static str;
            }
            impl<T: ?Sized> Ambiguous<()> for T {
                fn name() -> &'static str {
                    std::any::type_name::<T>()
                }
            }
            #[allow(dead_code, reason = "it is here to make the call below ambiguous for a type that serialises")]
            struct Serialisable;
            impl<T: ?Sized + serde::Serialize> Ambiguous<Serialisable> for T {
                fn name() -> &'static str {
                    unreachable!("the compiler refuses this call")
                }
            }
            <$context as Ambiguous<_>>::name()
        }),+]
    };
}

#[test]
fn nothing_of_the_execution_context_can_be_serialised() {
    throughline_format::clause!("TRAN-02");
    let context = no_record_can_hold![
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
