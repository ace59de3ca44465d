//! Calls of the runtime's tools: names, kinds, IDs and results in the forms that differ by source.

use super::wire;
use crate::object::Object;
use std::borrow::Cow;
use throughline_format::Json;
use throughline_format::tool::{Execution, UnifiedToolType};

/// MCP server under which the SDK offers the host's own tools.
const CUSTOM_SERVER: &str = "custom-user-tools";

/// A call as the record names it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named {
    pub name: String,
    pub kind: UnifiedToolType,
    pub server: Option<String>,
    pub execution: Execution,
    /// Arguments of the tool itself, where they stand inside others.
    pub inner: Option<Json>,
}

/// What a call is: a tool of the runtime, one of an MCP server, or one that the host of the SDK executes.
pub(super) fn named(name: &str, args: Option<&Json>) -> Named {
    if name == "mcp" {
        let mcp: Option<wire::McpArguments> = args.and_then(|args| args.decode().ok());
        let tool = mcp.as_ref().and_then(|m| m.tool.clone().or_else(|| m.name.clone()));
        let server = mcp.as_ref().and_then(|m| m.provider.clone());
        if server.as_deref() == Some(CUSTOM_SERVER) {
            return Named {
                name: tool.unwrap_or_else(|| name.to_owned()),
                kind: UnifiedToolType::Function,
                server,
                execution: Execution::Client,
                inner: mcp.and_then(|m| m.args),
            };
        }
        return Named {
            name: tool.unwrap_or_else(|| name.to_owned()),
            kind: UnifiedToolType::Mcp,
            server,
            execution: Execution::Provider,
            inner: mcp.and_then(|m| m.args),
        };
    }
    Named {
        name: name.to_owned(),
        kind: kind(name),
        server: None,
        execution: Execution::Provider,
        inner: None,
    }
}

/// The kind of a tool by its name: the SDK's words and those of the Cloud API.
fn kind(name: &str) -> UnifiedToolType {
    match name {
        "shell" | "run_terminal_cmd" => UnifiedToolType::Shell,
        "webSearch" | "web_search" => UnifiedToolType::WebSearch,
        "webFetch" | "web_fetch" => UnifiedToolType::WebFetch,
        "semSearch" | "codebase_search" => UnifiedToolType::Retrieval,
        "generateImage" => UnifiedToolType::ImageGeneration,
        "applyAgentDiff" | "edit" | "write" | "edit_file" => UnifiedToolType::TextEditor,
        _ => UnifiedToolType::Other("cursor-sdk:workspace".into()),
    }
}

/// Name, arguments and result of a call as the command line writes it: `{"shellToolCall": {"args", "result"}}`.
pub(super) fn of_command_line(raw: &Json) -> Option<(String, Option<Json>, Option<Json>)> {
    let object = Object::of(raw)?;
    let (key, inner) = object.first()?;
    let name = key.strip_suffix("ToolCall").unwrap_or(key).to_owned();
    let call: wire::ToolCall = inner.decode().ok()?;
    Some((name, call.args, call.result))
}

/// Whether a result is one of a call that failed: `{"status": "error"}` in the SDK, a first key other than `success` on the command line.
pub(super) fn is_failed(result: &Json) -> bool {
    let Some(object) = Object::of(result) else { return false };
    match object.get("status").and_then(|word| word.decode::<String>().ok()) {
        Some(word) => word == "error",
        None => ["error", "failure", "rejected", "permissionDenied", "timeout"]
            .iter()
            .any(|key| object.get(key).is_some()),
    }
}

/// A call ID as the record may have it. The runtime joins two IDs by a line feed, which becomes a bar; both ways need no table.
pub(super) fn record_id(id: &str) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= 512 && !id.chars().any(char::is_control) {
        return Cow::Borrowed(id);
    }
    let barred = id.replace('\n', "|");
    let is_plain = !barred.is_empty() && barred.len() <= 512 && !barred.chars().any(char::is_control) && !id.contains('|');
    if is_plain {
        Cow::Owned(barred)
    } else {
        Cow::Owned(crate::call_id::wire(&format!("cursor:{id}"), 40).into_owned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_a_line_feed_are_one_to_one() {
        for (id, record) in [("call_1", "call_1"), ("call_a\nfc_b", "call_a|fc_b"), ("a|b", "a|b")] {
            assert_eq!(record_id(id), record);
        }
        let digests = [record_id("a|b\nc"), record_id("a\nb|c"), record_id(""), record_id("\t")];
        for (at, id) in digests.iter().enumerate() {
            assert!(id.starts_with("call_"), "{id}");
            assert!(!digests.iter().skip(at + 1).any(|other| other == id));
        }
    }

    #[test]
    fn the_hosts_own_tools_are_executed_by_it() {
        let args = Json::from_text(r#"{"providerIdentifier":"custom-user-tools","toolName":"deploy","args":{"to":"x"}}"#.into()).unwrap();
        let call = named("mcp", Some(&args));
        assert_eq!((call.name.as_str(), call.execution), ("deploy", Execution::Client));
        assert_eq!(call.inner.unwrap().as_str(), r#"{"to":"x"}"#);
        assert_eq!(named("shell", None).kind, UnifiedToolType::Shell);
        assert_eq!(named("mcp", None).kind, UnifiedToolType::Mcp);
    }
}
