//! Tool definitions and tool choice (spec, Tools and agent lifecycle; open-types.md, sections 1 and 2).

use crate::cache::UnifiedCacheDirective;
use crate::intent::{GrammarSyntax, ImageIntent, UnifiedRequirement};
use crate::json::{Json, WordOrRecord};
use crate::macros::{open_words, record, words};
use crate::resource::{UnifiedProviderDataRef, UnifiedProviderResourceRef};
use crate::{Count, UnifiedId};
use serde::{Deserialize, Deserializer};

open_words! {
    /// Kind of a tool: the specification's, then registered ones.
    pub enum UnifiedToolType {
        Function = "function",
        Custom = "custom",
        WebSearch = "web-search",
        WebFetch = "web-fetch",
        FileSearch = "file-search",
        Retrieval = "retrieval",
        UrlContext = "url-context",
        Maps = "maps",
        CodeExecution = "code-execution",
        ComputerUse = "computer-use",
        Mcp = "mcp",
        Container = "container",
        Skill = "skill",
        Memory = "memory",
        ImageGeneration = "image-generation",
        Shell = "shell",
        ApplyPatch = "apply-patch",
        TextEditor = "text-editor",
        ToolSearch = "tool-search",
        ProgrammaticCalling = "programmatic-calling",
        Advisor = "advisor",
    }
}
words! {
    /// Whose duty the execution is.
    pub enum Execution {
        /// The client executes.
        Client = "client",
        /// This gateway executes; the literal is the specification's.
        Ccr = "ccr",
        /// The provider executes.
        Provider = "provider",
    }
}
words! {
    /// How far a tool travels.
    pub enum Portability {
        /// Any target with function tools can offer it.
        Portable = "portable",
        /// Another vendor has the same hosted tool; options may differ.
        Equivalent = "equivalent",
        /// It needs a resource of one owner.
        OwnerBound = "owner-bound",
    }
}
open_words! {
    /// Who may call a tool.
    pub enum Caller { Model = "model", Code = "code", }
}
record! {
    /// Grammar of a custom tool's input.
    pub struct ToolGrammar {
        /// Its language.
        syntax: GrammarSyntax,
        /// Its text; absent for free text.
        definition?: String,
    }
}
words! {
    /// When a call needs approval, without exceptions.
    pub enum ApprovalRule { Always = "always", Never = "never", }
}
record! {
    /// When a call needs approval, by tool name.
    #[derive(Default)]
    pub struct ApprovalLists {
        /// Names that always need it.
        always_for?: Vec<String>,
        /// Names that never need it.
        never_for?: Vec<String>,
    }
}
/// When a call needs approval.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum ToolApproval {
    /// One rule for all.
    Rule(ApprovalRule),
    /// By name.
    Lists(ApprovalLists),
}

impl<'de> Deserialize<'de> for ToolApproval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::json::word_or_record(deserializer, "\"always\", \"never\" or an object").map(|either| match either {
            WordOrRecord::Word(rule) => Self::Rule(rule),
            WordOrRecord::Record(lists) => Self::Lists(lists),
        })
    }
}
record! {
    /// Where the user is, as far as a search may know.
    #[derive(Default)]
    pub struct UserLocation {
        /// City.
        city?: String,
        /// Region.
        region?: String,
        /// Country code.
        country?: String,
        /// IANA time zone.
        timezone?: String,
        /// Degrees north.
        latitude?: f64,
        /// Degrees east.
        longitude?: f64,
    }
}
record! {
    /// Network access of an execution environment.
    pub struct NetworkPolicy {
        /// Policy word.
        mode: String,
        /// Domains that are open.
        allowed_domains?: Vec<String>,
    }
}
record! {
    /// Options of hosted tools: every member optional, closed; which kind has which members is the rule `tool-config`.
    #[derive(Default)]
    pub struct UnifiedHostedToolConfig {
        /// Search and fetch: only these.
        allowed_domains?: Vec<String>,
        /// Search and fetch: not these.
        blocked_domains?: Vec<String>,
        /// Limit of calls.
        max_uses?: Count,
        /// Search context size word.
        context_size?: String,
        /// Limit of fetched tokens.
        max_content_tokens?: Count,
        /// The user's place.
        user_location?: UserLocation,
        /// Kinds of search.
        search_types?: Vec<String>,
        /// Time range of a search.
        time_range?: String,
        /// Whether results are cited.
        citations?: bool,
        /// Retrieval: limit of results.
        max_results?: Count,
        /// Retrieval: least score.
        score_threshold?: f64,
        /// Retrieval: filter as written.
        filter?: Json,
        /// Retrieval: ranker word.
        ranker?: String,
        /// Maps: degrees north.
        latitude?: f64,
        /// Maps: degrees east.
        longitude?: f64,
        /// Maps and code: language.
        language?: String,
        /// Maps: whether a widget is wanted.
        widget?: bool,
        /// Code and containers: memory word.
        memory_limit?: String,
        /// Code and containers: network.
        network?: NetworkPolicy,
        /// Computer use: environment word.
        environment?: String,
        /// Computer use: pixels.
        display_width?: Count,
        /// Computer use: pixels.
        display_height?: Count,
        /// Computer use: actions that are not offered.
        excluded_actions?: Vec<String>,
        /// Computer use: whether zooming is offered.
        zoom?: bool,
        /// Computer use: whether what stands on the screen is looked through for prompts of somebody else.
        injection_check?: bool,
        /// Computer use: kinds of actions that need no confirmation, in the provider's words.
        disabled_safety_policies?: Vec<String>,
        /// MCP: label of the server.
        server_label?: String,
        /// MCP: address without user info and query.
        server_url?: String,
        /// MCP: vendor's connector.
        connector?: String,
        /// MCP: only these tools.
        allowed_tools?: Vec<String>,
        /// MCP: what the server is for.
        description?: String,
        /// MCP: resolved by the execution context only.
        credential_ref?: UnifiedId,
        /// Image generation.
        image?: ImageIntent,
    }
}
record! {
    /// A tool that the model may use.
    pub struct UnifiedToolDefinition {
        /// ID of the definition.
        tool_id: UnifiedId,
        /// Kind of tool.
        kind: UnifiedToolType,
        /// Whose duty the execution is.
        execution: Execution,
        /// How far it travels.
        portability: Portability,
        /// Absent = preferred.
        requirement?: UnifiedRequirement,
        /// Required for function and custom tools.
        name?: String,
        /// Group of the name.
        namespace?: String,
        /// What it does.
        description?: String,
        /// JSON Schema of the input, as written.
        input_schema?: Json,
        /// JSON Schema of the output, as written.
        output_schema?: Json,
        /// Examples of inputs.
        input_examples?: Vec<Json>,
        /// Grammar of a custom tool.
        grammar?: ToolGrammar,
        /// Strict enforcement; absent is not false.
        strict?: bool,
        /// Loaded only when searched for.
        defer_loading?: bool,
        /// Arguments are streamed before they are complete.
        eager_input?: bool,
        /// The call does not block the turn.
        r#async?: bool,
        /// Who may call it.
        allowed_callers?: Vec<Caller>,
        /// Approval rule.
        approval?: ToolApproval,
        /// Cache breakpoint after this definition.
        cache?: UnifiedCacheDirective,
        /// Dated vendor type.
        version?: String,
        /// Options of a hosted tool.
        config?: UnifiedHostedToolConfig,
        /// Vector stores, containers, skills, connectors.
        resources?: Vec<UnifiedProviderResourceRef>,
        /// Registered annotations and private payloads.
        provider_data?: Vec<UnifiedProviderDataRef>,
    }
}

impl UnifiedToolDefinition {
    /// A function tool that the client executes.
    pub fn function(tool_id: UnifiedId, name: String) -> Self {
        Self::new(
            tool_id,
            UnifiedToolType::Function,
            Execution::Client,
            Portability::Portable,
            Some(name),
        )
    }

    /// A tool of any kind with nothing else set.
    pub fn new(tool_id: UnifiedId, kind: UnifiedToolType, execution: Execution, portability: Portability, name: Option<String>) -> Self {
        Self {
            tool_id,
            kind,
            execution,
            portability,
            requirement: None,
            name,
            namespace: None,
            description: None,
            input_schema: None,
            output_schema: None,
            input_examples: None,
            grammar: None,
            strict: None,
            defer_loading: None,
            eager_input: None,
            r#async: None,
            allowed_callers: None,
            approval: None,
            cache: None,
            version: None,
            config: None,
            resources: None,
            provider_data: None,
        }
    }
}

record! {
    /// Names one tool of the request.
    pub struct UnifiedToolSelector {
        /// Kind of tool.
        tool_type: UnifiedToolType,
        /// Its name.
        name?: String,
        /// Its MCP server.
        server_label?: String,
    }
}
words! {
    /// How a choice is made among allowed tools.
    pub enum AllowedMode { Auto = "auto", Required = "required", }
}
words! {
    /// What the model may or must do with tools.
    pub enum ToolChoiceKind as discriminator {
        /// The model decides.
        Auto = "auto",
        /// No calls.
        None = "none",
        /// At least one call.
        Required = "required",
        /// This tool.
        Named = "named",
        /// One of these tools.
        Allowed = "allowed",
    }
}
record! {
    /// What the model may or must do with tools. `tool` stands with `named`, `mode` and `tools` with `allowed`.
    pub struct UnifiedToolChoice {
        /// Strength.
        requirement: UnifiedRequirement,
        /// Which rule.
        kind: ToolChoiceKind,
        /// The tool of `named`.
        tool?: UnifiedToolSelector,
        /// The mode of `allowed`.
        mode?: AllowedMode,
        /// The tools of `allowed`.
        tools?: Vec<UnifiedToolSelector>,
        /// Free choice, but calls are checked against their schema; never false.
        validated?: bool,
    }
}

impl UnifiedToolChoice {
    /// A choice without selectors, preferred.
    pub const fn simple(kind: ToolChoiceKind) -> Self {
        Self {
            requirement: UnifiedRequirement::Preferred,
            kind,
            tool: None,
            mode: None,
            tools: None,
            validated: None,
        }
    }

    /// The function or custom tool of this name, preferred.
    pub fn named(tool_type: UnifiedToolType, name: String) -> Self {
        let tool = UnifiedToolSelector {
            tool_type,
            name: Some(name),
            server_label: None,
        };
        Self {
            tool: Some(tool),
            ..Self::simple(ToolChoiceKind::Named)
        }
    }
}
