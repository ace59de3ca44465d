//! Who a request belongs to: client keys, or the one principal of a loopback gateway without keys.

pub mod hosts;
pub mod keys;

pub use hosts::HostPolicy;
pub use keys::{ClientKeys, KeyInfo, NewKey};

use axum::http::{HeaderMap, Uri};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use throughline_engine::Principal;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId};

/// Principal of a loopback gateway without keys.
pub const LOCAL: &str = "local";

/// How often the key file is looked at again, so that a new or revoked key counts without a restart.
const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// Who a request is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Whose everything is that it makes or sees.
    pub principal: Principal,
    /// The key that it was let in with.
    pub key: Option<UnifiedId>,
}

/// Decides who a request belongs to.
pub struct Authenticator {
    required: bool,
    hosts: HostPolicy,
    keys: Mutex<Watched>,
}

struct Watched {
    keys: ClientKeys,
    path: Option<PathBuf>,
    modified: Option<SystemTime>,
    looked: Instant,
}

impl Authenticator {
    /// With fixed keys.
    pub fn new(required: bool, hosts: HostPolicy, keys: ClientKeys) -> Self {
        Self {
            required,
            hosts,
            keys: Mutex::new(Watched {
                keys,
                path: None,
                modified: None,
                looked: Instant::now(),
            }),
        }
    }

    /// With the keys of a file, which is read again when it changes. A file that is not there has no keys.
    ///
    /// # Errors
    /// When the file is there and cannot be read as client keys.
    pub fn from_file(required: bool, hosts: HostPolicy, path: PathBuf) -> Result<Self, UnifiedError> {
        let (keys, modified) = (ClientKeys::load(&path)?, modified(&path));
        Ok(Self {
            required,
            hosts,
            keys: Mutex::new(Watched {
                keys,
                path: Some(path),
                modified,
                looked: Instant::now(),
            }),
        })
    }

    /// Whether a key could be accepted.
    pub fn has_keys(&self) -> bool {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).keys.any_active()
    }

    /// Ends once a key does not count any more.
    pub async fn revoked(&self, key: &UnifiedId) {
        loop {
            tokio::time::sleep(RELOAD_EVERY).await;
            if !self.current().keys.is_active(key) {
                return;
            }
        }
    }

    /// Who a request is from.
    ///
    /// # Errors
    /// `auth.key` without a valid key where one is required; `invalid-request.host` or `permission.origin` on a gateway
    /// without keys when another web page or name stands behind the request.
    pub fn authenticate(&self, headers: &HeaderMap, uri: &Uri, native: bool) -> Result<Client, UnifiedError> {
        if let Some(key) = presented_key(headers, uri, native)
            && let Some(found) = self.current().keys.find(&key)
        {
            return Ok(Client {
                principal: Principal::new(format!("client:{}", found.name)),
                key: Some(found.id.clone()),
            });
        }
        if self.required {
            return Err(UnifiedError::new(ErrorCategory::Auth, "key", "a valid client key is needed"));
        }
        // SDKs send some key in any case, so an unknown one means nothing here.
        self.hosts.check(headers)?;
        Ok(Client {
            principal: Principal::new(LOCAL),
            key: None,
        })
    }

    /// The keys as the file has them now, or as it had them a moment ago.
    fn current(&self) -> MutexGuard<'_, Watched> {
        let mut watched = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        watched.reload();
        watched
    }
}

impl Watched {
    fn reload(&mut self) {
        let Some(path) = &self.path else { return };
        if self.looked.elapsed() < RELOAD_EVERY {
            return;
        }
        self.looked = Instant::now();
        let now = modified(path);
        if now == self.modified {
            return;
        }
        self.modified = now;
        match ClientKeys::load(path) {
            Ok(keys) => self.keys = keys,
            Err(error) => tracing::warn!(code = %error.code, "the client keys cannot be read; the former ones stay"),
        }
    }
}

fn modified(path: &std::path::Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

/// The key that a client presents: `Authorization: Bearer`, and for client protocols the header or parameter of their own.
fn presented_key(headers: &HeaderMap, uri: &Uri, native: bool) -> Option<String> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
            .filter(|value| !value.is_empty())
    };
    if let Some((scheme, key)) = text("authorization").and_then(|value| value.split_once(' '))
        && scheme.eq_ignore_ascii_case("bearer")
    {
        return Some(key.trim().to_owned());
    }
    if native {
        return None;
    }
    let parameter = || uri.query()?.split('&').find_map(|pair| pair.strip_prefix("key="));
    text("x-api-key")
        .or_else(|| text("x-goog-api-key"))
        .or_else(parameter)
        .map(str::to_owned)
}
