//! Calls of the wire, and the results of client tools.

use super::decode_block::Whole;
use super::decode_hosted::hosted_type;
use super::kept::Keeper;
use super::wire::{Block, CallerBlock, Members, ToolResultBlock, ToolUseBlock};
use crate::feature::Feature;
use crate::keeper::references;
use crate::raw;
use crate::wire::{TextOr, peek_tag};
use serde::Deserialize;
use throughline_format::item::{CallerRef, CodeExecutionItem, ComputerActionItem, ComputerActionResultItem, ToolCallItem, ToolResultItem};
use throughline_format::part::JsonPart;
use throughline_format::tool::{Caller, Execution};
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedToolLifecycle, UnifiedToolType};

/// Whose tool a call block calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// `tool_use`
    Client,
    /// `server_tool_use`
    Server,
    /// `mcp_tool_use`
    Mcp,
}

/// What the record makes of a call; its result follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    /// A call of a tool, hosted or not.
    Tool,
    /// An action on a computer or in a browser.
    Computer,
    /// Code of a hosted environment.
    Code,
}

/// What is known of a call when its result comes.
#[derive(Clone, Debug)]
pub(super) struct Called {
    /// The tool.
    pub(super) name: String,
    /// What the record makes of it.
    pub(super) form: CallForm,
    /// What a hosted search was asked.
    pub(super) query: Option<String>,
}

/// Whether the record may hold the call as something else than a tool call, which takes its whole input.
pub(super) fn needs_whole_input(block: &ToolUseBlock, kind: CallKind) -> bool {
    match kind {
        CallKind::Client => block.toolset_name.is_some(),
        CallKind::Server => matches!(block.name.as_str(), "code_execution" | "bash_code_execution"),
        CallKind::Mcp => false,
    }
}

impl Keeper {
    /// A call block with its whole input.
    pub(super) fn call(&mut self, item_id: &UnifiedId, block: ToolUseBlock, kind: CallKind, path: &str) -> Whole {
        let special = match kind {
            CallKind::Client => self.computer_action(item_id, &block, path),
            CallKind::Server => self.code(item_id, &block, path),
            CallKind::Mcp => None,
        };
        let form = match special.as_ref().map(|whole| &whole.body) {
            Some(UnifiedItemBody::ComputerAction(_)) => CallForm::Computer,
            Some(_) => CallForm::Code,
            None => CallForm::Tool,
        };
        let query = block.input.as_ref().and_then(query_of);
        let called = Called {
            name: block.name.clone(),
            form,
            query,
        };
        self.own.insert(block.id.clone(), called);
        special.unwrap_or_else(|| self.tool_call(item_id, block, kind, path))
    }

    /// A call block as the call of a tool.
    pub(super) fn tool_call(&mut self, item_id: &UnifiedId, block: ToolUseBlock, kind: CallKind, path: &str) -> Whole {
        let mut fields: Vec<_> = block.extra.into_unmapped().collect();
        let caller = block.caller.map(|caller| {
            fields.extend(caller_fields(&caller));
            caller_ref(caller)
        });
        let unmapped = self.unmapped(item_id, path, fields);
        let raw = block.input.as_ref().map_or("{}", Json::as_str).to_owned();
        let item = ToolCallItem {
            call_id: block.id,
            tool_type: match kind {
                CallKind::Client => UnifiedToolType::Function,
                CallKind::Server => hosted_type(&block.name),
                CallKind::Mcp => UnifiedToolType::Mcp,
            },
            name: block.name,
            namespace: block.toolset_name,
            server_label: block.server_name,
            input: Some(block.input.unwrap_or_else(|| raw::object(Vec::new()))),
            raw_arguments: raw,
            lifecycle: UnifiedToolLifecycle::ArgumentsReady,
            caller,
            execution: if kind == CallKind::Client {
                Execution::Client
            } else {
                Execution::Provider
            },
            provider_executed: kind != CallKind::Client,
            private_linkage: None,
        };
        let body = if kind == CallKind::Client {
            UnifiedItemBody::ToolCall(item)
        } else {
            UnifiedItemBody::ServerToolCall(item)
        };
        Whole {
            body,
            provider_data: references([unmapped]),
        }
    }

    /// A call of a member of a computer or browser toolset, when an action can say it.
    fn computer_action(&mut self, item_id: &UnifiedId, block: &ToolUseBlock, path: &str) -> Option<Whole> {
        let environment = block.toolset_name.clone()?;
        let input = match &block.input {
            Some(input) => input.decode::<Members>().ok().filter(|_| input.is_object())?.extra.0,
            None => Vec::new(),
        };
        if input.iter().any(|(key, _)| key == "action") {
            return None;
        }
        let mut action = vec![("action".to_owned(), raw::json(&block.name))];
        action.extend(input);
        let mut fields: Vec<_> = block.extra.clone().into_unmapped().collect();
        fields.extend(block.caller.as_ref().map(|caller| ("/caller".to_owned(), raw::json(caller))));
        let unmapped = self.unmapped(item_id, path, fields);
        Some(Whole {
            body: UnifiedItemBody::ComputerAction(ComputerActionItem {
                call_id: block.id.clone(),
                environment: Some(environment),
                actions: vec![raw::object(action)],
                lifecycle: UnifiedToolLifecycle::ArgumentsReady,
                execution: Execution::Client,
                approval_id: None,
            }),
            provider_data: references([unmapped]),
        })
    }

    /// Code or a command of the hosted environment.
    fn code(&mut self, item_id: &UnifiedId, block: &ToolUseBlock, path: &str) -> Option<Whole> {
        let mut input = block.input.as_ref()?.decode::<Members>().ok()?;
        let (language, member) = match block.name.as_str() {
            "code_execution" => ("python", "code"),
            "bash_code_execution" => ("bash", "command"),
            _ => return None,
        };
        let said: String = input.extra.take(member)?.decode().ok()?;
        let mut fields: Vec<_> = block.extra.clone().into_unmapped().collect();
        fields.extend(raw::below("/input", input.extra.0));
        let caller = block.caller.clone().map(|caller| {
            fields.extend(caller_fields(&caller));
            caller_ref(caller)
        });
        for spelled in ["name", "input"] {
            let how = "said by the language and the words of the code";
            self.loss.remark(Feature::WireSpelling, format!("{path}/{spelled}"), how);
        }
        let unmapped = self.unmapped(item_id, path, fields);
        let (code, commands) = if member == "code" {
            (Some(said), None)
        } else {
            (None, Some(vec![said]))
        };
        Some(Whole {
            body: UnifiedItemBody::CodeExecution(CodeExecutionItem {
                call_id: block.id.clone(),
                language: Some(language.to_owned()),
                code,
                commands,
                lifecycle: UnifiedToolLifecycle::ArgumentsReady,
                execution: Execution::Provider,
                caller,
                container: None,
            }),
            provider_data: references([unmapped]),
        })
    }

    /// The result of a client tool. Marks inside its content are moved by the encoder and reported by the caller.
    pub(super) fn tool_result(&mut self, item_id: &UnifiedId, block: ToolResultBlock, path: &str) -> Whole {
        let called = self.own.get(&block.tool_use_id).cloned();
        let computer = called
            .as_ref()
            .map_or(block.toolset_name.is_some(), |called| called.form == CallForm::Computer);
        let mut fields: Vec<_> = block.extra.into_unmapped().collect();
        fields.extend(block.toolset_name.map(|name| ("/toolset_name".to_owned(), raw::json(&name))));
        let unmapped = self.unmapped(item_id, path, fields);
        let mut output = Vec::new();
        let mut current_url = None;
        match block.content {
            None => {}
            Some(TextOr::Text(text)) => output.push(UnifiedContentPart::text(item_id.part(0), text)),
            Some(TextOr::List(blocks)) => {
                for (n, block) in blocks.into_iter().enumerate() {
                    let part_id = item_id.part(n as u64);
                    let part = self.part(&part_id, block, &format!("{path}/content/{n}"));
                    let part = part.unwrap_or_else(|other| json_part(part_id, &other));
                    current_url = active_address(&part).or(current_url);
                    output.push(part);
                }
            }
        }
        let body = if computer {
            UnifiedItemBody::ComputerActionResult(ComputerActionResultItem {
                call_id: block.tool_use_id,
                output,
                current_url,
                is_error: block.is_error,
                error: None,
            })
        } else {
            UnifiedItemBody::ToolResult(ToolResultItem {
                call_id: block.tool_use_id,
                name: called.map(|called| called.name),
                output,
                is_error: block.is_error,
                error: None,
                execution: Execution::Client,
            })
        };
        Whole {
            body,
            provider_data: references([unmapped]),
        }
    }
}

/// What a search is asked.
pub(super) fn query_of(input: &Json) -> Option<String> {
    input.decode::<Query>().ok()?.query
}

/// A block without a Unified part, as JSON with its type as the name of the schema.
fn json_part(part_id: UnifiedId, block: &Block) -> UnifiedContentPart {
    let value = raw::json(block);
    let kind = peek_tag(value.as_str(), "type").unwrap_or_default();
    UnifiedContentPart::new(
        part_id,
        PartBody::Json(JsonPart {
            schema_name: Some(format!("{}{kind}", super::JSON_PREFIX)),
            value,
        }),
    )
}

/// The address of the active tab that a browser's state names, unless it holds a password.
fn active_address(part: &UnifiedContentPart) -> Option<String> {
    let PartBody::Json(state) = &part.body else { return None };
    let state: BrowserState = state.value.decode().ok()?;
    let tab = state.tabs.into_iter().find(|tab| tab.active == Some(true))?;
    let authority = tab.url.split_once("://").map_or("", |(_, rest)| rest).split(['/', '?', '#']).next();
    (!authority.unwrap_or_default().contains('@')).then_some(tab.url)
}

/// Who made a call.
fn caller_ref(caller: CallerBlock) -> CallerRef {
    if caller.kind == "direct" {
        CallerRef {
            kind: Caller::Model,
            call_id: None,
        }
    } else {
        CallerRef {
            kind: Caller::Code,
            call_id: caller.tool_id,
        }
    }
}

/// What `caller` says beyond model or code.
fn caller_fields(caller: &CallerBlock) -> Vec<(String, Json)> {
    let mut fields = raw::below("/caller", caller.extra.0.clone());
    if caller.kind != "direct" && caller.kind != super::DEFAULT_CODE_CALLER {
        fields.push(("/caller/type".into(), raw::json(&caller.kind)));
    }
    fields
}

#[derive(Deserialize)]
struct Query {
    query: Option<String>,
}

#[derive(Deserialize)]
struct BrowserState {
    tabs: Vec<Tab>,
}

#[derive(Deserialize)]
struct Tab {
    url: String,
    active: Option<bool>,
}
