//! [`RouteTable`]: from a requested model and a client's protocol to the targets that are tried.

use crate::config::{Choice, ConfigError, Problem, RouteConfig};
use crate::glob;
use std::collections::BTreeMap;
use std::sync::Arc;
use throughline_engine::diagnostics::Recorded;
use throughline_engine::ports::{Clock, Router, Target};
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError};
use throughline_providers::{Provider, TargetOptions};
use throughline_store::DiagnosticFiles;

/// Something that targets are built from: a provider, or what a test puts in its place.
pub trait TargetSource: Send + Sync {
    /// The target for a model.
    ///
    /// # Errors
    /// `invalid-request.usage` when a capability override is unknown.
    fn build_target(&self, model: &str, options: &TargetOptions) -> Result<Target, UnifiedError>;
}

impl TargetSource for Provider {
    fn build_target(&self, model: &str, options: &TargetOptions) -> Result<Target, UnifiedError> {
        Self::build_target(self, model, options)
    }
}

/// Providers by name.
pub type Sources = BTreeMap<String, Arc<dyn TargetSource>>;

struct Route {
    pattern: String,
    inbound: Vec<ProtocolFamily>,
    choices: Vec<(Arc<dyn TargetSource>, Option<String>)>,
    options: TargetOptions,
}

impl Route {
    fn serves(&self, inbound: &ProtocolFamily) -> bool {
        self.inbound.is_empty() || self.inbound.contains(inbound)
    }
}

/// The routes of a configuration in their order; the first match wins.
pub struct RouteTable {
    routes: Vec<Route>,
    recorder: Option<(Arc<DiagnosticFiles>, Arc<dyn Clock>)>,
}

impl RouteTable {
    /// Binds routes to providers and checks every override. `file` is the configuration's name for messages.
    ///
    /// # Errors
    /// Every problem with its line.
    pub fn new(routes: &[RouteConfig], sources: &Sources, file: &str) -> Result<Self, ConfigError> {
        let (mut table, mut problems) = (Vec::new(), Vec::new());
        for route in routes {
            let mut choices = Vec::new();
            for choice in std::iter::once(&route.target).chain(&route.fallback) {
                match sources.get(&choice.provider.value) {
                    Some(source) => choices.push((Arc::clone(source), choice.model.clone())),
                    None => problems.push(missing(choice)),
                }
            }
            let options = TargetOptions {
                capabilities: route
                    .capabilities
                    .iter()
                    .map(|(key, value)| (key.clone(), value.value.clone()))
                    .collect(),
                requirements: route.requirements.clone(),
                client_state_is_ours: route.client_state_is_ours,
            };
            problems.extend(bad_capabilities(route, &choices));
            table.push(Route {
                pattern: route.pattern.clone(),
                inbound: route.inbound.clone(),
                choices,
                options,
            });
        }
        if problems.is_empty() {
            Ok(Self {
                routes: table,
                recorder: None,
            })
        } else {
            Err(ConfigError {
                file: file.to_owned(),
                problems,
            })
        }
    }

    /// The same routes, with the raw bodies of every call kept.
    #[must_use]
    pub fn recorded(mut self, files: Arc<DiagnosticFiles>, clock: Arc<dyn Clock>) -> Self {
        self.recorder = Some((files, clock));
        self
    }

    /// Names that a client of this protocol can ask for, in the order of the routes: the patterns that are names.
    pub fn models(&self, inbound: &ProtocolFamily) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for route in self
            .routes
            .iter()
            .filter(|route| route.serves(inbound) && glob::is_literal(&route.pattern))
        {
            if !names.contains(&route.pattern.as_str()) {
                names.push(&route.pattern);
            }
        }
        names
    }

    /// Whether a route takes this model.
    pub fn knows(&self, inbound: &ProtocolFamily, model: &str) -> bool {
        self.find(inbound, model).is_some()
    }

    fn find(&self, inbound: &ProtocolFamily, model: &str) -> Option<&Route> {
        self.routes
            .iter()
            .find(|route| route.serves(inbound) && glob::matches(&route.pattern, model))
    }
}

fn missing(choice: &Choice) -> Problem {
    let line = (choice.provider.line > 0).then_some(choice.provider.line);
    Problem {
        line,
        key: choice.provider.key.clone(),
        message: format!("no [providers.{}] in this file", choice.provider.value),
    }
}

/// Overrides are checked one by one against every target of the route, so that the problem has its own line.
fn bad_capabilities(route: &RouteConfig, choices: &[(Arc<dyn TargetSource>, Option<String>)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in &route.capabilities {
        let one = TargetOptions {
            capabilities: vec![(key.clone(), value.value.clone())],
            ..TargetOptions::default()
        };
        if let Some(error) = choices.iter().find_map(|(source, _)| source.build_target("", &one).err()) {
            problems.push(Problem {
                line: (value.line > 0).then_some(value.line),
                key: value.key.clone(),
                message: error.message,
            });
        }
    }
    problems
}

impl Router for RouteTable {
    fn route(&self, inbound: &ProtocolFamily, model: &str) -> Result<Vec<Target>, UnifiedError> {
        let route = self.find(inbound, model).ok_or_else(|| no_model(model))?;
        route
            .choices
            .iter()
            .map(|(source, name)| {
                let mut target = source.build_target(name.as_deref().unwrap_or(model), &route.options)?;
                if let Some((files, clock)) = &self.recorder {
                    target.upstream = Arc::new(Recorded::new(target.upstream, Arc::clone(files), Arc::clone(clock)));
                }
                Ok(target)
            })
            .collect()
    }
}

/// The error for a model that no route takes. The name is shown only when it looks like one.
pub(crate) fn no_model(model: &str) -> UnifiedError {
    let plain = model.len() <= 128 && model.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/@+".contains(&b));
    let shown = if plain { format!("{model} ") } else { String::new() };
    UnifiedError::new(
        ErrorCategory::NotFound,
        "model",
        format!("no route takes the model {shown}from this protocol; GET /v1/models lists names"),
    )
    .at("/model")
}
