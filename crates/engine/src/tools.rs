//! Tools that this process executes: the port, and which tools and calls are meant.

use crate::engine::Engine;
use crate::principal::Principal;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use throughline_format::tool::{ApprovalRule, Execution, ToolApproval};
use throughline_format::{ErrorCategory, Json, PartBody, UnifiedError, UnifiedId, UnifiedToolDefinition};

/// One call of a tool that this process executes.
#[derive(Clone, Debug)]
pub struct ToolInvocation {
    /// Who asked for the turn.
    pub principal: Principal,
    /// The conversation.
    pub conversation_id: UnifiedId,
    /// The operation.
    pub operation_id: UnifiedId,
    /// The call.
    pub call_id: String,
    /// The tool, as the request defined it.
    pub tool: UnifiedToolDefinition,
    /// The arguments as the model wrote them. They are data that a model made up: check them like any input.
    pub raw_arguments: String,
    /// The same parsed; absent when they are no JSON.
    pub input: Option<Json>,
}

/// Executes tools for the gateway. Whoever embeds the engine implements it; without one, no tool is executed here.
pub trait ToolExecutor: Send + Sync {
    /// Whether it executes this tool.
    fn executes(&self, tool: &UnifiedToolDefinition) -> bool;

    /// Runs a call; the parts are what the model gets. An error is a result too: the model is told, and the turn goes on.
    /// Dropping the future cancels.
    fn run(&self, call: ToolInvocation) -> BoxFuture<'static, Result<Vec<PartBody>, UnifiedError>>;
}

impl Engine {
    /// Names who executes tools whose execution is `ccr`. It can be named once; false when it was before.
    pub fn register_tools(&self, executor: Arc<dyn ToolExecutor>) -> bool {
        self.tools.set(executor).is_ok()
    }

    /// Refuses a request with a tool that this process is to execute and cannot, before anything is stored or sent.
    pub(crate) fn check_executors(&self, tools: &[UnifiedToolDefinition]) -> Result<(), UnifiedError> {
        let missing = tools
            .iter()
            .position(|tool| tool.execution == Execution::Ccr && !self.tools.get().is_some_and(|executor| executor.executes(tool)));
        match missing {
            Some(index) => Err(UnifiedError::new(
                ErrorCategory::Unsupported,
                "tool",
                "this gateway does not execute this tool; let the client execute it",
            )
            .at(format!("/tools/{index}/execution"))),
            None => Ok(()),
        }
    }
}

/// The tool of this process that a call names.
pub(crate) fn executed<'a>(tools: &'a [UnifiedToolDefinition], namespace: Option<&str>, name: &str) -> Option<&'a UnifiedToolDefinition> {
    tools
        .iter()
        .find(|tool| tool.execution == Execution::Ccr && tool.name.as_deref() == Some(name) && tool.namespace.as_deref() == namespace)
}

/// Whether somebody must allow a call of the tool first.
pub(crate) fn needs_approval(tool: &UnifiedToolDefinition, name: &str) -> bool {
    match &tool.approval {
        None | Some(ToolApproval::Rule(ApprovalRule::Never)) => false,
        Some(ToolApproval::Rule(ApprovalRule::Always)) => true,
        // Who lists names at all wants to be asked about the others.
        Some(ToolApproval::Lists(lists)) => {
            let named = |list: &Option<Vec<String>>| list.iter().flatten().any(|listed| listed == name);
            named(&lists.always_for) || !named(&lists.never_for)
        }
    }
}
