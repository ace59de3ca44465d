//! `throughline serve`: the gateway as a process. Flags win over the environment, the environment over the file.

use crate::data::{default_directory, layout_of, variable};
use crate::error::{CliError, EXIT_BAD_INPUT};
use crate::output;
use serde::Serialize;
use std::path::{Path, PathBuf};
use throughline_format::UnifiedError;
use throughline_gateway::config::{self, Config, ConfigError, LogFormat};
use throughline_gateway::data_dir::DataDir;
use throughline_gateway::demo;
use throughline_gateway::server::{self, ServeOptions, Server, StartError};
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub struct ServeArguments {
    /// Configuration file; else THROUGHLINE_CONFIG, ./throughline.toml, then the user's configuration folder.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory; else THROUGHLINE_DATA_DIR, then the user's data folder.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Add built-in models that need neither key nor network, in a temporary data directory unless one is given.
    #[arg(long)]
    pub demo: bool,
    /// Write a JSON file with URL, port and process once the gateway is ready.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Check the configuration and end.
    #[arg(long)]
    pub check: bool,
}

/// What `--ready-file` says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready<'a> {
    url: &'a str,
    host: String,
    port: u16,
    pid: u32,
    version: &'a str,
    data_dir: String,
}

/// What `--check` prints.
#[derive(Serialize)]
struct Checked {
    ok: bool,
    providers: usize,
    routes: usize,
}

/// An error of the configuration, with every problem beside the first.
#[derive(Serialize)]
struct ConfigReport {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    problems: Vec<String>,
}

/// Why the command ended.
enum Failure {
    Config(ConfigError),
    Other(CliError),
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

impl From<UnifiedError> for Failure {
    fn from(error: UnifiedError) -> Self {
        Self::Other(CliError::other(error))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Config(error) => Self::Config(error),
            StartError::Failed(error) => error.into(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Whatever is not the configuration's fault; problems of the configuration are reported here, with exit code 2.
pub fn run(arguments: &ServeArguments) -> Result<u8, CliError> {
    match serve(arguments) {
        Ok(()) => Ok(0),
        Err(Failure::Config(error)) => {
            let problems = error.lines();
            let message = problems.first().cloned().unwrap_or_default();
            output::report(&ConfigReport {
                code: "invalid-request.config",
                message,
                path: error.pointer(),
                problems,
            });
            Ok(EXIT_BAD_INPUT)
        }
        Err(Failure::Other(error)) => Err(error),
    }
}

fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let (mut config, name) = load(arguments)?;
    if let Some(text) = arguments.listen.clone().or_else(|| variable("THROUGHLINE_LISTEN")) {
        config.server.listen = config::listen_address(&text)
            .ok_or_else(|| CliError::usage("--listen: expected an address and port such as 127.0.0.1:8484"))?;
    }
    if arguments.check {
        let checked = server::check(&config, &name, &variable)?;
        output::print_json(&Checked {
            ok: true,
            providers: checked.providers,
            routes: checked.routes,
        })?;
        return Ok(());
    }
    start_log(config.telemetry.log_format)?;
    let data = match data_dir(arguments)? {
        Some(path) => DataDir::open(layout_of(&path))?,
        None => DataDir::temporary()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::io("cannot start the runtime", &error))?;
    let options = ServeOptions {
        config,
        config_name: name,
        data,
        demo: arguments.demo,
    };
    runtime.block_on(async {
        let server = Server::start(options, &variable).await?;
        // Before the ready line: whoever reads it may send a signal at once.
        let stops = stop_signals()?;
        announce(&server, arguments.ready_file.as_deref())?;
        server.run(stops).await.map_err(Failure::from)
    })
}

/// The configuration and the name of its file. Without one, only the demo has something to serve.
fn load(arguments: &ServeArguments) -> Result<(Config, String), Failure> {
    let named = arguments
        .config
        .clone()
        .or_else(|| variable("THROUGHLINE_CONFIG").map(PathBuf::from));
    let path = match named {
        Some(path) => path,
        None if arguments.demo => return Ok((Config::default(), "the demo".to_owned())),
        None => find_config().ok_or_else(|| {
            CliError::usage("there is no configuration: write throughline.toml (docs/configuration.md), name one with --config, or try throughline serve --demo")
        })?,
    };
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(&path).map_err(|error| ConfigError::whole(name.clone(), format!("cannot be read: {}", error.kind())))?;
    Ok((config::parse(&text, &path)?, name))
}

fn find_config() -> Option<PathBuf> {
    let user = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    let candidates = [
        Some(PathBuf::from("throughline.toml")),
        user.map(|folder| folder.join("throughline").join("throughline.toml")),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}

/// The data directory; `None` means one that goes away at the end.
fn data_dir(arguments: &ServeArguments) -> Result<Option<PathBuf>, CliError> {
    let named = arguments
        .data_dir
        .clone()
        .or_else(|| variable("THROUGHLINE_DATA_DIR").map(PathBuf::from));
    if named.is_some() || arguments.demo {
        return Ok(named);
    }
    let found = default_directory();
    found
        .map(Some)
        .ok_or_else(|| CliError::usage("there is no home directory; name a data directory with --data-dir"))
}

fn start_log(from_file: LogFormat) -> Result<(), CliError> {
    let filter = match variable("THROUGHLINE_LOG") {
        Some(text) => EnvFilter::try_new(text)
            .map_err(|_| CliError::usage("THROUGHLINE_LOG: expected a filter such as info or throughline_gateway=debug"))?,
        None => EnvFilter::new("warn"),
    };
    let format = match variable("THROUGHLINE_LOG_FORMAT") {
        Some(word) => config::log_format(&word).ok_or_else(|| CliError::usage("THROUGHLINE_LOG_FORMAT: expected pretty or json"))?,
        None => from_file,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let ansi = variable("NO_COLOR").is_none() && std::io::IsTerminal::is_terminal(&std::io::stderr());
    match format {
        LogFormat::Pretty => builder.with_ansi(ansi).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

/// SIGINT and SIGTERM, one message each.
fn stop_signals() -> Result<mpsc::Receiver<()>, CliError> {
    let (sender, receiver) = mpsc::channel(2);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let mut signals = signal(kind).map_err(|error| CliError::io("cannot listen for signals", &error))?;
            let sender = sender.clone();
            tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(()).await.is_ok() {} });
        }
    }
    #[cfg(not(unix))]
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).await.is_ok() {} });
    Ok(receiver)
}

/// The ready file, what a person wants to know on stderr, and the one line on stdout.
fn announce(server: &Server, ready_file: Option<&Path>) -> Result<(), CliError> {
    let url = server.url();
    if let Some(path) = ready_file {
        let address = server.address();
        let ready = Ready {
            url: &url,
            host: address.ip().to_string(),
            port: address.port(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION"),
            data_dir: server.data_dir().display().to_string(),
        };
        let text = serde_json::to_vec(&ready).map_err(|error| CliError::internal("output", error.to_string()))?;
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, text)
            .and_then(|()| std::fs::rename(&temporary, path))
            .map_err(|error| CliError::io("cannot write the ready file", &error))?;
    }
    eprintln!("data: {}", server.data_dir().display());
    for route in server.routes() {
        eprintln!("route: {route}");
    }
    if server.is_demo() {
        eprintln!("\nAsk a demo model, in another terminal:\n\n  {}\n", curl(&url, demo::OPENAI_MODEL));
        eprintln!(
            "The same conversation goes on with \"{}\", and /v1/messages takes both.\n",
            demo::ANTHROPIC_MODEL
        );
    }
    output::print_bytes(format!("throughline ready {url}\n").as_bytes())?;
    Ok(())
}

fn curl(url: &str, model: &str) -> String {
    format!(
        "curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\\n    -d '{{\"model\":\"{model}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello! Please count for me.\"}}]}}'"
    )
}
