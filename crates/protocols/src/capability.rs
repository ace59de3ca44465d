//! What a protocol can express: one table per protocol that projections and documentation both read.

use crate::feature::Feature;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::{ErrorCategory, UnifiedError};

/// How well a target says a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As it is.
    Lossless,
    /// In another way; the text says how.
    Degraded(&'static str),
    /// Not at all; the text says why.
    Unsupported(&'static str),
}

/// Why a feature that no table lists cannot be said.
pub const NO_FORM: &str = "the target has no form for it";

/// The fixed table of a protocol. A feature that it does not list is unsupported.
#[derive(Debug)]
pub struct CapabilityTable {
    /// Every feature that can be said, fully or in another way.
    pub features: &'static [(Feature, Support)],
    /// Limits and switches.
    pub knobs: Knobs,
}

impl CapabilityTable {
    /// How well the protocol says a feature.
    pub fn support(&self, feature: Feature) -> Support {
        self.features
            .iter()
            .find(|(f, _)| *f == feature)
            .map_or(Support::Unsupported(NO_FORM), |(_, s)| *s)
    }
}

/// Limits and switches of a target that a route may override; names are those of `--capabilities` in camel case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// System messages may stand in the middle of the conversation.
    pub mid_conversation_system: bool,
    /// Longest call ID.
    pub max_tool_id_length: usize,
    /// Longest tool name.
    pub max_tool_name_length: usize,
    /// Cache marks per request.
    pub max_cache_breakpoints: usize,
    /// Stop sequences per request.
    pub max_stop_sequences: usize,
    /// Largest temperature.
    pub max_temperature: f64,
    /// Output limit that is sent when the request has none and the protocol demands one.
    pub default_max_output_tokens: u64,
}

impl Knobs {
    /// Every limit and switch: its name, what it is, and its value for a person to read.
    pub fn entries(&self) -> [(&'static str, &'static str, String); 7] {
        // Named one by one, so that a new one cannot be forgotten here.
        let Self {
            mid_conversation_system,
            max_tool_id_length,
            max_tool_name_length,
            max_cache_breakpoints,
            max_stop_sequences,
            max_temperature,
            default_max_output_tokens,
        } = *self;
        let limit = |n: usize| if n == usize::MAX { "none".to_owned() } else { n.to_string() };
        [
            (
                "mid_conversation_system",
                "System messages may stand in the middle of the conversation.",
                mid_conversation_system.to_string(),
            ),
            ("max_tool_id_length", "Longest call ID, in characters.", limit(max_tool_id_length)),
            (
                "max_tool_name_length",
                "Longest tool name, in characters.",
                limit(max_tool_name_length),
            ),
            ("max_cache_breakpoints", "Cache marks per request.", limit(max_cache_breakpoints)),
            ("max_stop_sequences", "Stop sequences per request.", limit(max_stop_sequences)),
            ("max_temperature", "Largest temperature; fixed.", max_temperature.to_string()),
            (
                "default_max_output_tokens",
                "Output limit that is sent when the request has none and the protocol demands one.",
                default_max_output_tokens.to_string(),
            ),
        ]
    }
}

/// The table of a target with the overrides of one route.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    knobs: Knobs,
    features: BTreeMap<Feature, Support>,
    overridden: BTreeSet<String>,
    lists: BTreeMap<String, Vec<String>>,
}

impl Capabilities {
    /// The table as it is.
    pub fn of(table: &'static CapabilityTable) -> Self {
        Self {
            knobs: table.knobs,
            features: table.features.iter().copied().collect(),
            overridden: BTreeSet::new(),
            lists: BTreeMap::new(),
        }
    }

    /// Whether the route says something about a key; what it says stands over everything that a dialect knows.
    pub fn is_overridden(&self, key: &str) -> bool {
        self.overridden.contains(key)
    }

    /// Takes what a dialect of the protocol knows of a feature, unless the route says otherwise.
    pub(crate) fn learn(&mut self, feature: Feature, support: Support) {
        if !self.is_overridden(feature.as_str()) {
            self.features.insert(feature, support);
        }
    }

    /// A list that the route sets: `string_formats` or `enum_types` of the schemas that a target takes. Absent = what its
    /// protocol documents.
    pub fn list(&self, key: &str) -> Option<&[String]> {
        self.lists.get(key).map(Vec::as_slice)
    }

    /// Limits and switches, for a dialect that has others.
    pub(crate) const fn knobs_mut(&mut self) -> &mut Knobs {
        &mut self.knobs
    }

    /// Limits and switches.
    pub const fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// How well the target says a feature.
    pub fn support(&self, feature: Feature) -> Support {
        self.features.get(&feature).copied().unwrap_or(Support::Unsupported(NO_FORM))
    }

    /// Applies one override, as configuration and `--capabilities` write it.
    ///
    /// # Errors
    /// `invalid-request.usage` when the key is unknown or the value has the wrong type; the message names the known keys.
    pub fn set(&mut self, key: &str, value: &serde_json::Value) -> Result<(), UnifiedError> {
        let wrong = |expected: &str| {
            Err(UnifiedError::new(
                ErrorCategory::InvalidRequest,
                "usage",
                format!("capability {key}: expected {expected}"),
            )
            .at(format!("/{key}")))
        };
        let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
        match key {
            "mid_conversation_system" => match value.as_bool() {
                Some(on) => self.knobs.mid_conversation_system = on,
                None => return wrong("true or false"),
            },
            "string_formats" | "enum_types" => {
                let list = value
                    .as_array()
                    .map(|list| list.iter().map(|v| v.as_str().map(str::to_owned)).collect());
                match list {
                    Some(Some(list)) => drop(self.lists.insert(key.to_owned(), list)),
                    _ => return wrong("a list of words"),
                }
            }
            "max_tool_id_length"
            | "max_tool_name_length"
            | "max_cache_breakpoints"
            | "max_stop_sequences"
            | "default_max_output_tokens" => {
                let Some(number) = number else { return wrong("a whole number") };
                match key {
                    "max_tool_id_length" => self.knobs.max_tool_id_length = number,
                    "max_tool_name_length" => self.knobs.max_tool_name_length = number,
                    "max_cache_breakpoints" => self.knobs.max_cache_breakpoints = number,
                    "max_stop_sequences" => self.knobs.max_stop_sequences = number,
                    _ => self.knobs.default_max_output_tokens = number as u64,
                }
            }
            _ => match (Feature::from_word(key), value.as_bool()) {
                (Some(feature), Some(true)) => {
                    self.features.insert(feature, Support::Lossless);
                }
                (Some(feature), Some(false)) => {
                    self.features.insert(
                        feature,
                        Support::Unsupported("the route's configuration says that the target cannot do it"),
                    );
                }
                (Some(_), None) => return wrong("true or false"),
                (None, _) => {
                    return Err(UnifiedError::new(
                        ErrorCategory::InvalidRequest,
                        "usage",
                        format!("unknown capability {key:.40}; known are {KNOWN} and the features of docs/projections.md"),
                    )
                    .at(format!("/{key:.40}")));
                }
            },
        }
        self.overridden.insert(key.to_owned());
        Ok(())
    }
}

const KNOWN: &str = "mid_conversation_system, string_formats, enum_types, max_tool_id_length, max_tool_name_length, max_cache_breakpoints, max_stop_sequences, default_max_output_tokens";
