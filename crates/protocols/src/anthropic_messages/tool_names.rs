//! Names of functions on the wire: its alphabet, namespaces in front, and none that a tool of the provider's has.
//!
//! A tool of the provider's has a fixed name, so it is the function that gives way where both stand in one request; the way
//! back goes by [`crate::Codec::wire_tool_names`].

use super::encode_tools::hosted_name;
use crate::capability::Capabilities;
use crate::tool_name;
use std::borrow::Cow;
use std::collections::BTreeSet;
use throughline_format::{UnifiedToolDefinition, UnifiedToolType};

/// The names of one request.
#[derive(Debug)]
pub(super) struct Names {
    max_length: usize,
    /// Names of functions that a tool of the provider's has too.
    shared: BTreeSet<String>,
    /// Namespaces of functions.
    namespaces: BTreeSet<String>,
}

impl Names {
    /// The names of these tools.
    pub(super) fn of(tools: &[UnifiedToolDefinition], capabilities: &Capabilities) -> Self {
        let max_length = capabilities.knobs().max_tool_name_length;
        let hosted: BTreeSet<String> = tools.iter().filter_map(hosted_name).collect();
        let functions = || tools.iter().filter(|tool| is_function(tool));
        let name = |tool: &UnifiedToolDefinition| {
            let name = tool.name.as_deref()?;
            Some(tool_name::wire(tool.namespace.as_deref(), name, max_length).into_owned())
        };
        Self {
            max_length,
            shared: functions().filter_map(name).filter(|name| hosted.contains(name)).collect(),
            namespaces: functions().filter_map(|tool| tool.namespace.clone()).collect(),
        }
    }

    /// The name of a function as the wire may carry it.
    pub(super) fn wire<'a>(&self, namespace: Option<&str>, name: &'a str) -> Cow<'a, str> {
        let wire = tool_name::wire(namespace, name, self.max_length);
        if !self.is_shared(&wire) {
            return wire;
        }
        // The blank is no letter of the alphabet, so that the name ends in a digest.
        Cow::Owned(tool_name::wire(None, &format!("{wire} function"), self.max_length).into_owned())
    }

    /// Whether a tool of the provider's has this name too.
    pub(super) fn is_shared(&self, name: &str) -> bool {
        self.shared.contains(name)
    }

    /// Whether functions of the request stand in this namespace.
    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// The name under which a tool is offered, whatever it is.
    pub(super) fn of_tool(&self, tool: &UnifiedToolDefinition) -> String {
        let name = tool.name.as_deref().unwrap_or_default();
        if is_function(tool) {
            return self.wire(tool.namespace.as_deref(), name).into_owned();
        }
        hosted_name(tool).unwrap_or_else(|| tool_name::wire(None, name, self.max_length).into_owned())
    }
}

/// Whether a tool can only be offered as a function.
fn is_function(tool: &UnifiedToolDefinition) -> bool {
    let is_own = matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom);
    is_own || !matches!(tool.kind, UnifiedToolType::Skill | UnifiedToolType::Mcp) && hosted_name(tool).is_none()
}
