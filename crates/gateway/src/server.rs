//! [`Server`]: a whole gateway, from configuration and data directory to a listening socket, and its orderly end.

use crate::auth::{Authenticator, HostPolicy};
use crate::config::{Config, ConfigError, Durability, Problem};
use crate::connections::{self, ConnectionLimits};
use crate::data_dir::{DataDir, Layout, open_vault};
use crate::demo::{self, DemoUpstream};
use crate::http::{App, AppConfig, HttpLimits, Phase, router};
use crate::routing::{RouteTable, Sources, TargetSource};
use crate::system::{SystemClock, UuidSource};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use throughline_engine::ports::{Clock, IdSource};
use throughline_engine::{Engine, EngineConfig, EngineLimits};
use throughline_format::{ErrorCategory, UnifiedError};
use throughline_providers::Provider;
use throughline_store::{DiagnosticFiles, DiagnosticLimits, KeyRing, OsRandom, StoreError, StoreLimits, UnifiedStateStore, Vault};
use throughline_store_sqlite::{SqliteConfig, SqliteStore};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// How long connections may take to end once everything was said.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// Pause between looks at the running operations while draining.
const DRAIN_PAUSE: Duration = Duration::from_millis(50);

/// Reads a variable of the environment.
pub type Variables<'v> = &'v (dyn Fn(&str) -> Option<String> + Sync);

/// What a server is started with.
pub struct ServeOptions {
    /// The configuration, overrides of the command line applied.
    pub config: Config,
    /// Name of its file, for messages.
    pub config_name: String,
    /// The data directory.
    pub data: DataDir,
    /// Whether the built-in upstreams run.
    pub demo: bool,
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is at fault.
    Config(ConfigError),
    /// Something else.
    Failed(UnifiedError),
}

impl From<UnifiedError> for StartError {
    fn from(error: UnifiedError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_unified())
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// What a checked configuration has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Number of providers.
    pub providers: usize,
    /// Number of routes.
    pub routes: usize,
}

/// Checks everything that can be checked without a data directory: values, credentials, routes.
///
/// # Errors
/// Every problem found.
pub fn check(config: &Config, file: &str, variables: Variables<'_>) -> Result<Checked, StartError> {
    let vault = Vault::new(KeyRing::generate(&OsRandom, SystemClock.now())?, Arc::new(OsRandom))?;
    check_listen(config, file)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sources = connect(config, file, variables, &vault, &clock)?;
    RouteTable::new(&config.routes, &sources, file)?;
    Ok(Checked {
        providers: config.providers.len(),
        routes: config.routes.len(),
    })
}

fn check_listen(config: &Config, file: &str) -> Result<(), ConfigError> {
    if config.server.listen.ip().is_loopback() || config.auth.required {
        return Ok(());
    }
    let message = "an address beyond this machine needs [auth] required = true and a client key; make one with `throughline key new`";
    Err(ConfigError {
        file: file.to_owned(),
        problems: vec![Problem {
            line: None,
            key: "server.listen".to_owned(),
            message: message.to_owned(),
        }],
    })
}

fn connect(config: &Config, file: &str, variables: Variables<'_>, vault: &Vault, clock: &Arc<dyn Clock>) -> Result<Sources, ConfigError> {
    let (mut sources, mut problems) = (Sources::new(), Vec::new());
    for provider in &config.providers {
        let connected = provider.resolve(&|name| variables(name), clock).and_then(|spec| {
            let line = (provider.name.line > 0).then_some(provider.name.line);
            Provider::connect(spec, vault).map_err(|error| Problem {
                line,
                key: provider.name.key.clone(),
                message: error.message,
            })
        });
        match connected {
            Ok(connected) => drop(sources.insert(provider.name.value.clone(), Arc::new(connected) as Arc<dyn TargetSource>)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(sources)
    } else {
        Err(ConfigError {
            file: file.to_owned(),
            problems,
        })
    }
}

/// A gateway that listens.
pub struct Server {
    app: Arc<App>,
    engine: Arc<Engine>,
    store: Arc<dyn UnifiedStateStore>,
    serving: Serving,
    address: SocketAddr,
    grace: Duration,
    data: DataDir,
    demo: Option<DemoUpstream>,
    routes: Vec<String>,
}

/// The task that serves the port; it is stopped when this is dropped before its end.
struct Serving {
    task: JoinHandle<()>,
    stop_accepting: Option<oneshot::Sender<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A gateway that answers `/healthz` and `/readyz`, and everything else with `overloaded.starting`.
pub struct Starting {
    server: Server,
    routes: Arc<RouteTable>,
    diagnostics: Option<Arc<DiagnosticFiles>>,
}

impl Starting {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Ends what a former process left running, or goes on with it, and takes requests from then on. This may take a while.
    ///
    /// # Errors
    /// When the store cannot be read; nothing listens then.
    pub async fn recover(self) -> Result<Server, StartError> {
        let Self {
            server,
            routes,
            diagnostics,
        } = self;
        let recovered = server.engine.recover(routes.as_ref()).await?;
        tracing::info!(?recovered, "recovered");
        tokio::spawn(Engine::tell_health(Arc::downgrade(&server.engine)));
        tokio::spawn(keep_clean(
            Arc::downgrade(&server.engine),
            Arc::downgrade(&server.store),
            diagnostics,
        ));
        server.app.enter(Phase::Serving);
        Ok(server)
    }
}

impl Server {
    /// Opens the store, binds the port, and recovers: [`Self::open`] and [`Starting::recover`].
    ///
    /// # Errors
    /// [`StartError`]; nothing listens then.
    pub async fn start(options: ServeOptions, variables: Variables<'_>) -> Result<Self, StartError> {
        Self::open(options, variables).await?.recover().await
    }

    /// Opens the store, binds the port and serves it, so that whoever watches the process sees it start.
    ///
    /// # Errors
    /// [`StartError`]; nothing listens then.
    pub async fn open(options: ServeOptions, variables: Variables<'_>) -> Result<Starting, StartError> {
        let ServeOptions {
            mut config,
            config_name,
            data,
            demo,
        } = options;
        let (clock, ids): (Arc<dyn Clock>, Arc<dyn IdSource>) = (Arc::new(SystemClock), Arc::new(UuidSource));
        check_listen(&config, &config_name)?;
        let auth = authenticator(&config, data.layout())?;
        if !config.server.listen.ip().is_loopback() && !auth.has_keys() {
            return Err(ConfigError::whole(
                config_name,
                "an address beyond this machine needs a client key, and keys/clients.json has none; make one with `throughline key new`",
            )
            .into());
        }
        let vault = Arc::new(open_vault(data.layout(), clock.now())?);
        let upstream = if demo {
            Some(DemoUpstream::start(Arc::clone(&clock), Arc::clone(&ids)).await?)
        } else {
            None
        };
        if let Some(upstream) = &upstream {
            demo::configure(&mut config, upstream.address(), upstream.key())?;
        }
        let sources = connect(&config, &config_name, variables, &vault, &clock)?;
        let mut routes = RouteTable::new(&config.routes, &sources, &config_name)?;
        let diagnostics = open_diagnostics(&config, data.layout(), &vault)?;
        if let (true, Some(files)) = (config.store.diagnostics, &diagnostics) {
            routes = routes.recorded(Arc::clone(files), Arc::clone(&clock));
        }
        let routes = Arc::new(routes);
        let store = open_store(&config, data.layout(), Arc::clone(&vault), clock.now()).await?;
        let engine = Engine::new(EngineConfig {
            store: Arc::clone(&store),
            vault,
            clock: Arc::clone(&clock),
            ids: Arc::clone(&ids),
            limits: engine_limits(&config),
        })?;
        let listener = TcpListener::bind(config.server.listen)
            .await
            .map_err(|error| cannot_listen(config.server.listen, &error))?;
        let address = listener.local_addr().map_err(|error| cannot_listen(config.server.listen, &error))?;
        let app = App::new(AppConfig {
            engine: Arc::clone(&engine),
            ids,
            clock,
            routes: Arc::clone(&routes),
            auth,
            limits: HttpLimits::from(&config.limits),
        })?;
        let told = config
            .routes
            .iter()
            .map(|route| format!("{} -> {}", route.pattern, route.target.provider.value))
            .collect();
        let (stop_accepting, stopped) = oneshot::channel::<()>();
        let bounds = ConnectionLimits {
            connections: config.limits.connections,
            idle: config.limits.request_idle,
        };
        let service = connections::serve(listener, router(Arc::clone(&app)), bounds, stopped);
        let server = Self {
            app,
            engine,
            store,
            serving: Serving {
                task: tokio::spawn(service),
                stop_accepting: Some(stop_accepting),
            },
            address,
            grace: config.server.shutdown_grace,
            data,
            demo: upstream,
            routes: told,
        };
        Ok(Starting {
            server,
            routes,
            diagnostics,
        })
    }

    /// Where it listens; the port that the system chose when none was asked for.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        self.data.layout().root()
    }

    /// Its routes, for people.
    pub fn routes(&self) -> &[String] {
        &self.routes
    }

    /// Whether the built-in upstreams run.
    pub const fn is_demo(&self) -> bool {
        self.demo.is_some()
    }

    /// Serves until the first stop, then drains: no new operation, running ones go on for the grace period or until the
    /// second stop, what runs then is interrupted with its end committed.
    ///
    /// # Errors
    /// When the socket or the store fails.
    pub async fn run(mut self, mut stops: mpsc::Receiver<()>) -> Result<(), UnifiedError> {
        let serving = &mut self.serving.task;
        tokio::select! {
            _ = &mut *serving => {
                return Err(UnifiedError::new(ErrorCategory::Internal, "serve", "serving stopped: its task panicked"));
            }
            _ = stops.recv() => {}
        }
        self.app.enter(Phase::Draining);
        if let Some(stop_accepting) = self.serving.stop_accepting.take() {
            // Nobody listens any more when serving has ended by itself.
            let _ = stop_accepting.send(());
        }
        tracing::info!(running = self.engine.running(), "draining");
        let engine = &self.engine;
        let drained = async {
            while engine.running() > 0 {
                tokio::time::sleep(DRAIN_PAUSE).await;
            }
        };
        tokio::select! {
            () = drained => {}
            () = tokio::time::sleep(self.grace) => {}
            _ = stops.recv() => {}
        }
        self.engine.shutdown().await;
        // Subscribers have the end of their operations by now; whoever still hangs on is detached.
        if tokio::time::timeout(CLOSE_GRACE, &mut *serving).await.is_err() {
            self.app.enter(Phase::Closing);
            if tokio::time::timeout(CLOSE_GRACE, &mut *serving).await.is_err() {
                serving.abort();
            }
        }
        self.store.close().await.map_err(|error| error.to_unified())
    }
}

fn authenticator(config: &Config, layout: &Layout) -> Result<Authenticator, UnifiedError> {
    let mut hosts = config.server.allowed_hosts.clone();
    hosts.push(config.server.listen.ip().to_string());
    Authenticator::from_file(
        config.auth.required,
        HostPolicy::new(&hosts, &config.server.allowed_origins),
        layout.client_keys(),
    )
}

async fn open_store(
    config: &Config,
    layout: &Layout,
    vault: Arc<Vault>,
    now: throughline_format::Timestamp,
) -> Result<Arc<dyn UnifiedStateStore>, StartError> {
    let mut sqlite = SqliteConfig::new(layout.database().to_owned(), layout.artifacts());
    sqlite.retention_days = config.store.retention_days;
    sqlite.durability = match config.store.durability {
        Durability::Full => throughline_store_sqlite::Durability::Full,
        Durability::Normal => throughline_store_sqlite::Durability::Normal,
    };
    sqlite.limits = StoreLimits {
        item_bytes: config.limits.item,
        event_bytes: config.limits.event,
        artifact_bytes: config.limits.artifact,
        ..StoreLimits::default()
    };
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(sqlite, &vault, &OsRandom, now)).await;
    let store = opened.map_err(|_| UnifiedError::new(ErrorCategory::Internal, "panic", "opening the database panicked"))??;
    Ok(Arc::new(store))
}

/// The raw bodies: when they are switched on, or to clean up those of an earlier time.
fn open_diagnostics(config: &Config, layout: &Layout, vault: &Arc<Vault>) -> Result<Option<Arc<DiagnosticFiles>>, StoreError> {
    if !config.store.diagnostics && !layout.diagnostics().is_dir() {
        return Ok(None);
    }
    let files = DiagnosticFiles::open(layout.diagnostics(), Arc::clone(vault), DiagnosticLimits::default())?;
    Ok(Some(Arc::new(files)))
}

/// How often conversations beyond the retention time are looked for.
const CLEANUP_INTERVAL: Duration = Duration::from_hours(1);

/// Removes what is beyond the retention time, at start and then every hour, for as long as the engine lives.
async fn keep_clean(engine: Weak<Engine>, store: Weak<dyn UnifiedStateStore>, diagnostics: Option<Arc<DiagnosticFiles>>) {
    while let (Some(engine), Some(store)) = (engine.upgrade(), store.upgrade()) {
        match engine.clean().await {
            Ok(report) if report.removed > 0 => tracing::info!(?report, "removed conversations beyond the retention time"),
            Ok(_) => {}
            Err(error) => tracing::warn!(code = %error.code, message = %error.message, "cleanup did not finish; it goes on in an hour"),
        }
        if let Some(files) = &diagnostics
            && let Err(error) = files.follow(store.as_ref()).await
        {
            tracing::warn!(code = error.code(), "raw bodies could not be cleaned up; it goes on in an hour");
        }
        drop((engine, store));
        tokio::time::sleep(CLEANUP_INTERVAL).await;
    }
}

/// An item of an answer may have this much, however small `limits.item` is.
const MIN_ITEM_BYTES: usize = 64 * 1024;

fn engine_limits(config: &Config) -> EngineLimits {
    let defaults = EngineLimits::default();
    // What an item of an answer is below the journal's own bound, so that an operation whose answer grows too large can still end.
    let headroom = StoreLimits::default().item_bytes.saturating_sub(defaults.item_bytes);
    EngineLimits {
        ring_events: config.limits.ring_events,
        ring_bytes: config.limits.ring,
        concurrent_operations: config.limits.concurrent_operations,
        queued_operations: config.limits.queued_operations,
        operation_millis: i64::try_from(config.limits.operation.as_millis()).unwrap_or(i64::MAX),
        items_per_request: config.limits.items_per_request,
        tools_per_request: config.limits.tools_per_request,
        answer_bytes: config.limits.answer,
        item_bytes: config.limits.item.saturating_sub(headroom).max(MIN_ITEM_BYTES),
        ..defaults
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::Internal,
        "listen",
        format!("cannot listen on {address}: {}", error.kind()),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};
    use throughline_store::contract::{World, samples};
    use throughline_store::{ConversationReader as _, MemoryStore};

    struct HandClock(AtomicI64);

    impl Clock for HandClock {
        fn now(&self) -> throughline_format::Timestamp {
            throughline_format::Timestamp::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_configuration_that_says_nothing_of_limits_changes_none() {
        let (limits, engine) = (engine_limits(&Config::default()), EngineLimits::default());
        assert_eq!(format!("{limits:?}"), format!("{engine:?}"));
        for (item, expected) in [(1 << 20, (1 << 20) - 256 * 1024), (300 * 1024, MIN_ITEM_BYTES), (0, MIN_ITEM_BYTES)] {
            let mut config = Config::default();
            config.limits.item = item;
            assert_eq!(engine_limits(&config).item_bytes, expected, "{item}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cleanup_runs_at_start_and_then_every_hour() {
        throughline_format::clause!("RET-05");
        let memory = MemoryStore::default();
        let store: Arc<dyn UnifiedStateStore> = Arc::new(memory.clone());
        let old = World::of(Arc::clone(&store), "old", samples::PRINCIPAL).await;
        let mut young = World::of(Arc::clone(&store), "young", samples::PRINCIPAL).await;
        young.now = samples::START.plus_millis(7 * samples::DAY);
        young.say(&young.branch_id.clone(), &["i1"]).await;
        let clock = Arc::new(HandClock(AtomicI64::new(young.now.millis())));
        let engine = Engine::new(EngineConfig {
            store: Arc::clone(&store),
            vault: Arc::clone(&old.vault),
            clock: Arc::<HandClock>::clone(&clock),
            ids: Arc::new(UuidSource),
            limits: EngineLimits::default(),
        })
        .unwrap();
        let cleaning = tokio::spawn(keep_clean(Arc::downgrade(&engine), Arc::downgrade(&store), None));
        let kept = async || {
            let mut kept = Vec::new();
            for id in ["conv_old", "conv_young"] {
                if memory.conversation(&samples::id(id)).await.unwrap().is_some() {
                    kept.push(id);
                }
            }
            kept
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(kept().await, ["conv_young"], "at start");
        clock.0.fetch_add(8 * samples::DAY, Ordering::Relaxed);
        tokio::time::sleep(CLEANUP_INTERVAL.saturating_sub(Duration::from_secs(10))).await;
        assert_eq!(kept().await, ["conv_young"]);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(kept().await, [""; 0], "an hour later");
        // It ends with the engine.
        drop(engine);
        tokio::time::sleep(CLEANUP_INTERVAL * 2).await;
        assert!(cleaning.is_finished());
    }
}
