//! The configuration file: what is read, and one line for each thing that is wrong with it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use throughline_engine::ports::Clock;
use throughline_format::{ProtocolFamily, UnifiedRequirement};
use throughline_gateway::config::{CredentialSource, Durability, LogFormat, Problem, parse};
use throughline_gateway::system::SystemClock;
use throughline_protocols::Feature;
use throughline_providers::{GeminiApi, OpenAiApi, ProviderKind};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

const FULL: &str = r#"
[server]
listen = "127.0.0.1:9000"
allowed_hosts = ["localhost", "Gateway.Local"]
allowed_origins = ["https://app.example.com"]
shutdown_grace = "5s"

[auth]
required = true

[store]
retention_days = 30
durability = "normal"
diagnostics = false

[limits]
request_body = "1MiB"
request_idle = "5s"
connections = 99
subscriber_lag = "2m"
concurrent_operations = 8

[providers.anthropic]
kind = "anthropic"
api_key_env = "ANTHROPIC_API_KEY"
forward_headers = ["anthropic-beta"]
max_concurrency = 64
timeouts = { connect = "1s", first_byte = "2s", idle = "3s" }
retry = { attempts = 3, max_wait = "4s" }

[providers.openai]
kind = "openai"
api = "chat"
api_key_file = "keys/openai"

[providers.local]
kind = "openai-compatible"
dialect = "vllm"
base_url = "http://127.0.0.1:8000/v1"
reasoning_tags = true

[[routes]]
match = "claude-*"
inbound = ["anthropic-messages"]
provider = "anthropic"
client_state = "same-account"

[[routes]]
match = "fast"
provider = "openai"
model = "gpt-5.4-mini"
fallback = [{ provider = "local", model = "qwen3" }]
requirements = { "tool.hosted.web_search" = "required" }
capabilities = { mid_conversation_system = true, max_tool_id_length = 9 }

[telemetry]
log_format = "json"
metrics = true
otlp_endpoint = ""
"#;

#[test]
fn every_key_is_read() {
    let config = parse(FULL, Path::new("/etc/tl/throughline.toml")).unwrap();
    assert_eq!(config.server.listen, "127.0.0.1:9000".parse().unwrap());
    assert_eq!(config.server.allowed_hosts, ["localhost", "gateway.local"]);
    assert_eq!(config.server.allowed_origins, ["https://app.example.com"]);
    assert_eq!(config.server.shutdown_grace, Duration::from_secs(5));
    assert!(config.auth.required);
    assert_eq!((config.store.retention_days, config.store.durability), (30, Durability::Normal));
    assert_eq!(
        (
            config.limits.request_body,
            config.limits.request_idle,
            config.limits.connections,
            config.limits.subscriber_lag,
            config.limits.concurrent_operations
        ),
        (1 << 20, Duration::from_secs(5), 99, Duration::from_mins(2), 8)
    );
    assert_eq!(config.limits.answer, 32 << 20, "what is not written keeps its default");
    assert_eq!(config.telemetry.log_format, LogFormat::Json);

    let [anthropic, openai, local] = config.providers.as_slice() else {
        panic!("three providers")
    };
    assert_eq!(
        (anthropic.kind, openai.kind, local.kind),
        (
            ProviderKind::Anthropic,
            ProviderKind::OpenAi(OpenAiApi::Chat),
            ProviderKind::OpenAiCompatible
        )
    );
    assert!(matches!(&anthropic.credential, CredentialSource::Variable(name) if name.value == "ANTHROPIC_API_KEY" && name.line == 25));
    assert!(matches!(&openai.credential, CredentialSource::File(path) if path.value == Path::new("/etc/tl/keys/openai")));
    assert!(matches!(local.credential, CredentialSource::Absent));
    assert_eq!(
        (anthropic.timeouts.first_byte, anthropic.retry.attempts, anthropic.max_concurrency),
        (Duration::from_secs(2), 3, Some(64))
    );
    assert_eq!(local.dialect.as_deref(), Some("vllm"));
    assert!(local.reasoning_tags && !openai.reasoning_tags);

    let [claude, fast] = config.routes.as_slice() else {
        panic!("two routes")
    };
    assert_eq!(
        (claude.pattern.as_str(), claude.inbound.as_slice(), claude.client_state_is_ours),
        ("claude-*", [ProtocolFamily::AnthropicMessages].as_slice(), true)
    );
    assert_eq!(
        (fast.target.model.as_deref(), fast.fallback[0].provider.value.as_str()),
        (Some("gpt-5.4-mini"), "local")
    );
    assert_eq!(fast.requirements, [(Feature::ToolHostedWebSearch, UnifiedRequirement::Required)]);
    assert_eq!(fast.capabilities.len(), 2);
}

#[test]
fn an_empty_file_has_the_defaults() {
    let config = parse("", Path::new("throughline.toml")).unwrap();
    assert_eq!(config.server.listen, "127.0.0.1:8484".parse().unwrap());
    assert!(!config.auth.required && config.providers.is_empty() && config.routes.is_empty());
}

fn check(text: &str, expected: &[&str]) {
    let error = parse(text, Path::new("throughline.toml")).map(|_| ()).unwrap_err();
    assert_eq!(error.lines(), expected, "{text}");
}

const PROVIDER: &str = "[providers.a]\nkind = \"anthropic\"\napi_key_env = \"A\"\n";

#[test]
fn each_error_names_line_and_key() {
    check(
        "[providers.anthropic]\nkind = \"anthropic\"\n\napi_key = \"sk-secret\"\n",
        &["throughline.toml:4: providers.anthropic.api_key: keys do not belong in the file; name a variable with api_key_env"],
    );
    check(
        "[server]\nlistne = \"127.0.0.1:1\"\n",
        &["throughline.toml:2: server.listne: unknown key; known here are allowed_hosts, allowed_origins, listen, shutdown_grace"],
    );
    check(
        "[sever]\n",
        &["throughline.toml:1: sever: unknown key; known here are auth, limits, providers, routes, server, store, telemetry"],
    );
    check(
        "[server]\nlisten = 8484\nshutdown_grace = \"20\"\n",
        &[
            "throughline.toml:2: server.listen: expected a string, found a whole number",
            "throughline.toml:3: server.shutdown_grace: expected a duration such as \"30s\", with ms, s, m, h or d",
        ],
    );
    check(
        "[server]\nlisten = \"somewhere\"\nallowed_origins = [\"app.example.com\"]\n",
        &[
            "throughline.toml:2: server.listen: expected an address and port such as \"127.0.0.1:8484\"",
            "throughline.toml:3: server.allowed_origins: expected an origin such as \"https://app.example.com\", without a path",
        ],
    );
    check(
        "[limits]\nrequest_body = \"32\"\nring_events = 0\n",
        &[
            "throughline.toml:2: limits.request_body: expected a size such as \"32MiB\", with B, KiB, MiB, GiB, kB, MB or GB",
            "throughline.toml:3: limits.ring_events: expected a whole number from 1 to 1000000",
        ],
    );
    check(
        "[store]\ndurability = \"none\"\ndiagnostics = 1\n",
        &[
            "throughline.toml:2: store.durability: expected \"full\" or \"normal\"",
            "throughline.toml:3: store.diagnostics: expected true or false, found a whole number",
        ],
    );
    check("[server\nlisten = 1\n", &["throughline.toml:1: unclosed table, expected `]`"]);
    check(
        "[auth]\nrequired = \"yes\"\n",
        &["throughline.toml:2: auth.required: expected true or false, found a string"],
    );
}

#[test]
fn errors_of_providers() {
    check("[providers.x]\n", &["throughline.toml:1: providers.x.kind: is missing"]);
    check(
        "[providers.x]\nkind = \"replay\"\n",
        &[
            "throughline.toml:2: providers.x.kind: \"replay\" is not available in this version; known are anthropic, openai, azure, openai-compatible, gemini, vertex, antigravity, interactions, cursor",
        ],
    );
    check(
        "[providers.x]\nkind = \"antropic\"\n",
        &[
            "throughline.toml:2: providers.x.kind: unknown kind; known are anthropic, openai, azure, openai-compatible, gemini, vertex, antigravity, interactions, cursor",
        ],
    );
    check(
        "[providers.x]\nkind = \"azure\"\napi = \"chat\"\napi_key_env = \"KEY\"\n",
        &[
            "throughline.toml:1: providers.x.base_url: is missing; it is the resource's, such as \"https://NAME.openai.azure.com/openai/v1\"",
        ],
    );
    check(
        "[providers.x]\nkind = \"gemini\"\napi = \"chat\"\napi_key_env = \"KEY\"\n",
        &["throughline.toml:3: providers.x.api: expected \"v1beta\" or \"v1\""],
    );
    check(
        "[providers.x]\nkind = \"anthropic\"\napi = \"chat\"\napi_key_env = \"KEY\"\n",
        &["throughline.toml:3: providers.x.api: belongs to the kinds \"openai\", \"azure\" and \"gemini\" only"],
    );
    for (api, kind) in [("v1beta", GeminiApi::V1Beta), ("v1", GeminiApi::V1)] {
        let text = format!("[providers.x]\nkind = \"gemini\"\napi = \"{api}\"\napi_key_env = \"KEY\"\n");
        let config = parse(&text, Path::new("throughline.toml")).unwrap();
        assert_eq!(config.providers[0].kind, ProviderKind::Gemini(kind));
    }
    check(
        "[providers.x]\nkind = \"openai-compatible\"\n",
        &["throughline.toml:1: providers.x.base_url: is missing; a compatible server has no address of its own"],
    );
    check(
        "[providers.x]\nkind = \"anthropic\"\n",
        &["throughline.toml:1: providers.x.api_key_env: is missing; name the variable that holds the key, or a file with api_key_file"],
    );
    check(
        &format!("{PROVIDER}base_url = \"https://user:pw@host\"\n"),
        &["throughline.toml:4: providers.a.base_url: an address must not hold a user or password; name a variable with api_key_env"],
    );
    check(
        &format!("{PROVIDER}forward_headers = [\"x-a\",\n  \"Cookie\"]\n"),
        &["throughline.toml:5: providers.a.forward_headers: credentials, cookies, account and connection headers are never forwarded"],
    );
    check(
        &format!("{PROVIDER}timeouts = {{ conect = \"1s\" }}\nretry = {{ attempts = 0 }}\ndialect = \"klingon\"\n"),
        &[
            "throughline.toml:4: providers.a.timeouts.conect: unknown key; known here are connect, first_byte, idle",
            "throughline.toml:5: providers.a.retry.attempts: expected a whole number from 1 to 10",
            "throughline.toml:6: providers.a.dialect: unknown dialect; known are openai, azure, deepseek, openrouter, groq, mistral, xai, qwen, kimi, glm, minimax, vllm, llama-cpp, ollama",
        ],
    );
}

#[test]
fn kinds_of_google_have_their_own_keys() {
    const GOOGLE: &str = r#"
[providers.gemini]
kind = "gemini"
api_key_env = "GEMINI_API_KEY"

[providers.interactions]
kind = "interactions"
api_key_file = "keys/gemini"

[providers.vertex]
kind = "vertex"
project = "my-project"
location = "global"
credentials_file_env = "GOOGLE_APPLICATION_CREDENTIALS"

[providers.antigravity]
kind = "antigravity"
project = "mine"
access_token_env = "TOKEN"
"#;
    let config = parse(GOOGLE, Path::new("throughline.toml")).unwrap();
    let [gemini, interactions, vertex, antigravity] = config.providers.as_slice() else {
        panic!("four providers")
    };
    assert_eq!(
        [gemini, interactions, vertex, antigravity].map(|provider| provider.kind),
        [
            ProviderKind::Gemini(GeminiApi::V1Beta),
            ProviderKind::Interactions,
            ProviderKind::Vertex,
            ProviderKind::Antigravity
        ]
    );
    assert!(matches!(&interactions.credential, CredentialSource::File(_)));
    assert!(
        matches!(&vertex.credential, CredentialSource::CredentialsFile(name) if name.value == "GOOGLE_APPLICATION_CREDENTIALS" && name.line == 14)
    );
    assert_eq!(
        (vertex.project.as_deref(), vertex.location.as_deref()),
        (Some("my-project"), Some("global"))
    );
    assert!(matches!(&antigravity.credential, CredentialSource::Variable(name) if name.value == "TOKEN"));

    check(
        "[providers.v]\nkind = \"vertex\"\n",
        &[
            "throughline.toml:1: providers.v.credentials_file_env: is missing; name the variable that holds the path of the credentials file, or a token with access_token_env",
            "throughline.toml:1: providers.v.project: is missing; kind \"vertex\" has a project and a location such as \"global\"",
            "throughline.toml:1: providers.v.location: is missing; kind \"vertex\" has a project and a location such as \"global\"",
        ],
    );
    check(
        "[providers.v]\nkind = \"antigravity\"\nlocation = \"us\"\napi_key_env = \"A\"\n",
        &[
            "throughline.toml:3: providers.v.location: belongs to kind \"vertex\" only",
            "throughline.toml:4: providers.v.api_key_env: does not belong to this kind; name credentials_file_env or access_token_env",
        ],
    );
    check(
        "[providers.v]\nkind = \"gemini\"\nproject = \"p\"\naccess_token_env = \"A\"\n",
        &[
            "throughline.toml:3: providers.v.project: belongs to kinds \"vertex\" and \"antigravity\" only",
            "throughline.toml:4: providers.v.access_token_env: does not belong to this kind; name api_key_env or api_key_file",
        ],
    );
    check(
        "[providers.v]\nkind = \"antigravity\"\naccess_token_env = \"A\"\ncredentials_file_env = \"B\"\naccess_token = \"ya29\"\n",
        &[
            "throughline.toml:3: providers.v.access_token_env: name either credentials_file_env or access_token_env",
            "throughline.toml:5: providers.v.access_token: tokens do not belong in the file; name a variable with access_token_env",
        ],
    );
}

#[test]
fn a_credentials_file_is_named_by_a_variable_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("account.json");
    let text = "[providers.v]\nkind = \"vertex\"\nproject = \"p\"\nlocation = \"l\"\ncredentials_file_env = \"F\"\n";
    let config = parse(text, Path::new("throughline.toml")).unwrap();
    let provider = &config.providers[0];
    let resolve = || provider.resolve(&|name| (name == "F").then(|| path.display().to_string()), &clock());
    let told = |problem: Problem| {
        assert_eq!((problem.line, problem.key.as_str()), (Some(5), "providers.v.credentials_file_env"));
        problem.message
    };
    assert_eq!(
        told(provider.resolve(&|_| None, &clock()).unwrap_err()),
        "the variable F is not set"
    );
    assert!(told(resolve().unwrap_err()).ends_with("account.json cannot be read: entity not found"));
    std::fs::write(&path, r#"{"type":"service_account","client_email":"a@b","private_key":"hush"}"#).unwrap();
    let message = told(resolve().unwrap_err());
    assert!(message.contains("no RSA key") && !message.contains("hush"), "{message}");
    std::fs::write(
        &path,
        r#"{"type":"authorized_user","client_id":"id","client_secret":"hush","refresh_token":"hush-2"}"#,
    )
    .unwrap();
    let spec = resolve().unwrap();
    assert!(spec.grant.is_some() && spec.credential.is_none());
    assert!(!format!("{spec:?}").contains("hush"));
}

#[test]
fn errors_of_routes() {
    check(
        "[[routes]]\nmatch = \"*\"\n",
        &["throughline.toml:1: routes[0].provider: is missing"],
    );
    check(
        &format!("{PROVIDER}[[routes]]\nmatch = \"*\"\nprovider = \"b\"\n"),
        &["throughline.toml:6: routes[0].provider: no [providers.b] in this file"],
    );
    check(
        &format!(
            "{PROVIDER}[[routes]]\nmatch = \"*\"\nprovider = \"a\"\ninbound = [\"anthropic\"]\nrequirements = {{ seed = \"required\", \"generation.seed\" = \"must\" }}\n"
        ),
        &[
            "throughline.toml:7: routes[0].inbound: unknown protocol; known are openai-chat, openai-responses, anthropic-messages, gemini-generate-content, gemini-interactions, vertex-gemini, antigravity, cursor-sdk, vercel-uimessage",
            "throughline.toml:8: routes[0].requirements.generation.seed: expected \"required\", \"preferred\" or \"optional\"",
            "throughline.toml:8: routes[0].requirements.seed: unknown feature; docs/losses.md lists them",
        ],
    );
}

#[test]
fn keys_come_from_variables_and_files_and_are_never_shown() {
    let config = parse(PROVIDER, Path::new("throughline.toml")).unwrap();
    let provider = &config.providers[0];
    let missing = provider.resolve(&|_| None, &clock()).unwrap_err();
    assert_eq!(
        (missing.line, missing.key.as_str(), missing.message.as_str()),
        (Some(3), "providers.a.api_key_env", "the variable A is not set")
    );
    assert!(
        provider
            .resolve(&|_| Some("  ".to_owned()), &clock())
            .unwrap_err()
            .message
            .contains("empty")
    );
    let spec = provider
        .resolve(&|name| (name == "A").then(|| "sk-secret-1234".to_owned()), &clock())
        .unwrap();
    assert!(!format!("{spec:?} {config:?}").contains("sk-secret"));

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "sk-secret-5678\n").unwrap();
    let text = "[providers.a]\nkind = \"anthropic\"\napi_key_file = \"key\"\n";
    let config = parse(text, &folder.path().join("throughline.toml")).unwrap();
    assert!(config.providers[0].resolve(&|_| None, &clock()).unwrap().credential.is_some());
    std::fs::remove_file(folder.path().join("key")).unwrap();
    assert!(
        config.providers[0]
            .resolve(&|_| None, &clock())
            .unwrap_err()
            .message
            .ends_with("cannot be read: entity not found")
    );
}
