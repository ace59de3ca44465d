//! From the text of `throughline.toml` to a [`Config`].

use super::account::{self, SECRET_HINTS};
use super::reader::{Placed, Report, Section};
use super::{
    AuthConfig, Choice, Config, ConfigError, Durability, LimitsConfig, LogFormat, Problem, ProviderConfig, RouteConfig, ServerConfig,
    StoreConfig, TelemetryConfig,
};
use std::net::SocketAddr;
use std::path::Path;
use throughline_format::{ProtocolFamily, UnifiedRequirement};
use throughline_protocols::{Feature, codec_of};
use throughline_providers::headers::may_be_forwarded;
use throughline_providers::{Endpoint, ProviderKind, RetryPolicy, Timeouts};
use toml::de::DeTable;

/// Reads a configuration. `file` is its name for messages; paths in it count from its folder.
///
/// # Errors
/// Every problem of the file, each with its line and key.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    let name = file.display().to_string();
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let line = error.span().map(|span| Report::new(text).line(&span));
            return Err(ConfigError {
                file: name,
                problems: vec![Problem {
                    line,
                    key: String::new(),
                    message: error.message().to_owned(),
                }],
            });
        }
    };
    let report = Report::new(text);
    let config = read(&Section::new(&report, String::new(), 1, root.get_ref()), file);
    let problems = report.into_problems();
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError { file: name, problems })
    }
}

fn read(root: &Section<'_, '_>, file: &Path) -> Config {
    let mut config = Config {
        server: root.section("server").map(|s| server(&s)).unwrap_or_default(),
        auth: root.section("auth").map(|s| auth(&s)).unwrap_or_default(),
        store: root.section("store").map(|s| store(&s)).unwrap_or_default(),
        limits: root.section("limits").map(|s| limits(&s)).unwrap_or_default(),
        telemetry: root.section("telemetry").map(|s| telemetry(&s)).unwrap_or_default(),
        ..Config::default()
    };
    let providers = root.section("providers").map(|s| s.named_sections()).unwrap_or_default();
    let names: Vec<String> = providers.iter().map(|(name, _)| name.clone()).collect();
    config.providers = providers
        .into_iter()
        .filter_map(|(name, section)| provider(name, &section, file))
        .collect();
    config.routes = root
        .sections("routes")
        .iter()
        .filter_map(|section| route(section, &names))
        .collect();
    root.finish(&[]);
    config
}

fn server(section: &Section<'_, '_>) -> ServerConfig {
    let mut server = ServerConfig::default();
    if let Some(listen) = section.text("listen") {
        match listen_address(&listen.value) {
            Some(address) => server.listen = address,
            None => section.problem("listen", "expected an address and port such as \"127.0.0.1:8484\""),
        }
    }
    if let Some(hosts) = section.texts("allowed_hosts") {
        server.allowed_hosts = hosts.into_iter().map(|host| host.value.to_ascii_lowercase()).collect();
    }
    if let Some(origins) = section.texts("allowed_origins") {
        for origin in origins {
            match origin.value.split_once("://") {
                Some((_, rest)) if !rest.is_empty() && !rest.contains('/') => {
                    server.allowed_origins.push(origin.value.to_ascii_lowercase());
                }
                _ => section.report.add(
                    origin.line,
                    origin.key,
                    "expected an origin such as \"https://app.example.com\", without a path",
                ),
            }
        }
    }
    if let Some(grace) = section.duration("shutdown_grace") {
        server.shutdown_grace = grace;
    }
    section.finish(&[]);
    server
}

/// Reads where to listen; `localhost` is the IPv4 loopback address.
pub fn listen_address(text: &str) -> Option<SocketAddr> {
    text.strip_prefix("localhost:")
        .map_or_else(|| text.parse().ok(), |port| format!("127.0.0.1:{port}").parse().ok())
}

fn auth(section: &Section<'_, '_>) -> AuthConfig {
    let auth = AuthConfig {
        required: section.boolean("required").unwrap_or_default(),
    };
    section.finish(SECRET_HINTS);
    auth
}

fn store(section: &Section<'_, '_>) -> StoreConfig {
    let mut store = StoreConfig::default();
    if let Some(days) = section
        .number("retention_days", 1..=36_500)
        .and_then(|days| u32::try_from(days).ok())
    {
        store.retention_days = days;
    }
    if let Some(durability) = section.text("durability") {
        match durability.value.as_str() {
            "full" => store.durability = Durability::Full,
            "normal" => store.durability = Durability::Normal,
            _ => section.problem("durability", "expected \"full\" or \"normal\""),
        }
    }
    if let Some(diagnostics) = section.boolean("diagnostics") {
        store.diagnostics = diagnostics;
    }
    section.finish(&[]);
    store
}

fn limits(section: &Section<'_, '_>) -> LimitsConfig {
    let mut limits = LimitsConfig::default();
    let bytes = |key, target: &mut usize| {
        if let Some(size) = section.size(key).and_then(|size| usize::try_from(size).ok()) {
            *target = size;
        }
    };
    bytes("request_body", &mut limits.request_body);
    bytes("answer", &mut limits.answer);
    bytes("item", &mut limits.item);
    bytes("event", &mut limits.event);
    bytes("ring", &mut limits.ring);
    let count = |key, target: &mut usize| {
        if let Some(number) = section.number(key, 1..=1_000_000).and_then(|number| usize::try_from(number).ok()) {
            *target = number;
        }
    };
    count("connections", &mut limits.connections);
    count("items_per_request", &mut limits.items_per_request);
    count("tools_per_request", &mut limits.tools_per_request);
    count("concurrent_operations", &mut limits.concurrent_operations);
    count("queued_operations", &mut limits.queued_operations);
    count("ring_events", &mut limits.ring_events);
    if let Some(size) = section.size("artifact") {
        limits.artifact = size;
    }
    if let Some(idle) = section.duration("request_idle") {
        limits.request_idle = idle;
    }
    if let Some(lag) = section.duration("subscriber_lag") {
        limits.subscriber_lag = lag;
    }
    if let Some(longest) = section.duration("operation") {
        limits.operation = longest;
    }
    section.finish(&[]);
    limits
}

fn telemetry(section: &Section<'_, '_>) -> TelemetryConfig {
    let mut telemetry = TelemetryConfig::default();
    if let Some(format) = section.text("log_format") {
        match log_format(&format.value) {
            Some(format) => telemetry.log_format = format,
            None => section.problem("log_format", "expected \"pretty\" or \"json\""),
        }
    }
    // Metrics come in a later version; the switch is known so that a file written for it is read.
    section.boolean("metrics");
    if section.text("otlp_endpoint").is_some_and(|endpoint| !endpoint.value.is_empty()) {
        section.problem("otlp_endpoint", "is not available in this version");
    }
    section.finish(&[]);
    telemetry
}

/// Reads how log lines are written.
pub fn log_format(word: &str) -> Option<LogFormat> {
    match word {
        "pretty" => Some(LogFormat::Pretty),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
}

fn provider(name: String, section: &Section<'_, '_>, file: &Path) -> Option<ProviderConfig> {
    let kind = account::kind(section);
    let base_url = section.text("base_url").map(|text| text.value);
    if let Some(Err(error)) = base_url.as_deref().map(Endpoint::parse) {
        section.problem("base_url", error.message);
    }
    match kind {
        Some(ProviderKind::OpenAiCompatible) if base_url.is_none() => {
            section.problem("base_url", "is missing; a compatible server has no address of its own");
        }
        Some(ProviderKind::Azure(_)) if base_url.is_none() => {
            section.problem(
                "base_url",
                "is missing; it is the resource's, such as \"https://NAME.openai.azure.com/openai/v1\"",
            );
        }
        _ => {}
    }
    let credential = account::credential(section, kind, file);
    let (project, location) = account::place(section, kind);
    let mut forward_headers = Vec::new();
    for header in section.texts("forward_headers").unwrap_or_default() {
        if may_be_forwarded(&header.value) {
            forward_headers.push(header.value);
        } else {
            section.report.add(
                header.line,
                header.key,
                "credentials, cookies, account and connection headers are never forwarded",
            );
        }
    }
    let max_concurrency = section
        .number("max_concurrency", 1..=100_000)
        .and_then(|number| usize::try_from(number).ok());
    let mut timeouts = Timeouts::default();
    if let Some(times) = section.section("timeouts") {
        timeouts.connect = times.duration("connect").unwrap_or(timeouts.connect);
        timeouts.first_byte = times.duration("first_byte").unwrap_or(timeouts.first_byte);
        timeouts.idle = times.duration("idle").unwrap_or(timeouts.idle);
        times.finish(&[]);
    }
    let mut retry = RetryPolicy::default();
    if let Some(policy) = section.section("retry") {
        retry.attempts = policy
            .number("attempts", 1..=10)
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(retry.attempts);
        retry.max_wait = policy.duration("max_wait").unwrap_or(retry.max_wait);
        policy.finish(&[]);
    }
    let dialect = section.text("dialect").map(|dialect| dialect.value);
    let known = codec_of(&ProtocolFamily::OpenAiChat)
        .map(|codec| codec.dialects())
        .unwrap_or_default();
    if dialect.as_ref().is_some_and(|dialect| !known.contains(&dialect.as_str())) {
        section.problem("dialect", format!("unknown dialect; known are {}", known.join(", ")));
    }
    let reasoning_tags = section.boolean("reasoning_tags").unwrap_or(false);
    section.finish(SECRET_HINTS);
    let name = Placed {
        value: name,
        line: section.line,
        key: section.path.clone(),
    };
    Some(ProviderConfig {
        name,
        kind: kind?,
        base_url,
        credential,
        project,
        location,
        forward_headers,
        max_concurrency,
        timeouts,
        retry,
        dialect,
        reasoning_tags,
    })
}

fn route(section: &Section<'_, '_>, providers: &[String]) -> Option<RouteConfig> {
    let pattern = section.required("match");
    if pattern.as_ref().is_some_and(|pattern| pattern.value.is_empty()) {
        section.problem("match", "expected a model name or pattern such as \"claude-*\"");
    }
    let target = choice(section, providers);
    let mut inbound = Vec::new();
    for family in section.texts("inbound").unwrap_or_default() {
        match ProtocolFamily::from_word(&family.value) {
            ProtocolFamily::Other(_) => section.report.add(
                family.line,
                family.key,
                format!("unknown protocol; known are {}", ProtocolFamily::WORDS.join(", ")),
            ),
            known => inbound.push(known),
        }
    }
    let mut fallback = Vec::new();
    for entry in section.sections("fallback") {
        fallback.extend(choice(&entry, providers));
        entry.finish(&[]);
    }
    let mut requirements = Vec::new();
    for (word, strength) in section.section("requirements").map(|s| s.values()).unwrap_or_default() {
        match (
            Feature::from_word(&word),
            strength.value.as_str().and_then(UnifiedRequirement::from_word),
        ) {
            (Some(feature), Some(strength)) => requirements.push((feature, strength)),
            (None, _) => section
                .report
                .add(strength.line, strength.key, "unknown feature; docs/losses.md lists them"),
            (_, None) => section
                .report
                .add(strength.line, strength.key, "expected \"required\", \"preferred\" or \"optional\""),
        }
    }
    let capabilities = section.section("capabilities").map(|s| s.values()).unwrap_or_default();
    let client_state_is_ours = match section.text("client_state").map(|text| text.value).as_deref() {
        None => false,
        Some("same-account") => true,
        Some(_) => {
            section.problem("client_state", "expected \"same-account\"");
            false
        }
    };
    section.finish(&[]);
    Some(RouteConfig {
        pattern: pattern?.value,
        inbound,
        target: target?,
        fallback,
        requirements,
        capabilities,
        client_state_is_ours,
    })
}

fn choice(section: &Section<'_, '_>, providers: &[String]) -> Option<Choice> {
    let provider = section.required("provider");
    let model = section.text("model").map(|model| model.value);
    let provider = provider?;
    if !providers.contains(&provider.value) {
        section.problem("provider", format!("no [providers.{}] in this file", provider.value));
        return None;
    }
    Some(Choice { provider, model })
}
