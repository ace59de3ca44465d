//! Portable cache intent, apart from provider-owned cache resources (spec, Cache representation).

use crate::macros::{record, words};
use crate::{Count, UnifiedId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

words! {
    /// Who places cache marks.
    pub enum CacheMode { Automatic = "automatic", Explicit = "explicit", Disabled = "disabled", }
}
words! {
    /// How long the intent holds.
    pub enum CacheRetention { Request = "request", Conversation = "conversation", }
}

/// Life of a cache entry: `"5m"`, `"1h"` or a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheTtl {
    /// `"5m"`.
    FiveMinutes,
    /// `"1h"`.
    OneHour,
    /// Seconds.
    Seconds(Count),
}

impl CacheTtl {
    /// The life in seconds.
    pub const fn seconds(self) -> Count {
        match self {
            Self::FiveMinutes => 300,
            Self::OneHour => 3_600,
            Self::Seconds(n) => n,
        }
    }
}

impl Serialize for CacheTtl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::FiveMinutes => serializer.serialize_str("5m"),
            Self::OneHour => serializer.serialize_str("1h"),
            Self::Seconds(n) => serializer.serialize_u64(*n),
        }
    }
}

impl<'de> Deserialize<'de> for CacheTtl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl serde::de::Visitor<'_> for Visit {
            type Value = CacheTtl;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("\"5m\", \"1h\" or a number of seconds")
            }
            fn visit_u64<E>(self, n: u64) -> Result<CacheTtl, E> {
                Ok(CacheTtl::Seconds(n))
            }
            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<CacheTtl, E> {
                match word {
                    "5m" => Ok(CacheTtl::FiveMinutes),
                    "1h" => Ok(CacheTtl::OneHour),
                    _ => Err(E::custom("expected \"5m\", \"1h\" or a number of seconds")),
                }
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

record! {
    /// A place up to which the prompt is to be cached.
    pub struct CacheBreakpoint {
        /// The item.
        item_id: UnifiedId,
        /// The part of it; absent = its end.
        part_id?: UnifiedId,
        /// Life of the entry.
        ttl?: CacheTtl,
    }
}
record! {
    /// What a request wants from prompt caches.
    pub struct UnifiedCacheIntent {
        /// Who places the marks.
        mode: CacheMode,
        /// Key that groups requests on one cache; never a provider's name.
        affinity_key?: String,
        /// Explicit marks.
        breakpoints?: Vec<CacheBreakpoint>,
        /// How long the intent holds.
        retention?: CacheRetention,
    }
}
record! {
    /// A cache mark on something that has no item: tool definitions, and items written through the native API.
    pub struct UnifiedCacheDirective {
        /// Always true.
        breakpoint: bool,
        /// Life of the entry.
        ttl?: CacheTtl,
    }
}

impl UnifiedCacheDirective {
    /// A mark.
    pub const fn mark(ttl: Option<CacheTtl>) -> Self {
        Self { breakpoint: true, ttl }
    }
}
