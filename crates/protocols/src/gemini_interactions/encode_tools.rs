//! Tool definitions as tools of the wire.

use super::encode_step::{StepEncoder, typed, wire_name};
use super::kept;
use crate::call_arguments::object_schema;
use crate::feature::Feature;
use crate::keeper::unmapped_of;
use crate::raw::{json, number, object, put_all};
use crate::tool_offer::{as_function, report_actions, report_as_function, report_restrictions};
use throughline_format::loss::LossSeverity::{self};
use throughline_format::tool::{ApprovalRule, Portability, ToolApproval, UnifiedHostedToolConfig};
use throughline_format::{Json, UnifiedRequestV2, UnifiedRequirement, UnifiedToolDefinition, UnifiedToolType};

fn lost_tool(encoder: &mut StepEncoder<'_>, tool: &UnifiedToolDefinition, feature: Feature, path: &str, reason: &str) {
    let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
    encoder.loss.add(LossSeverity::of_requirement(requirement), feature, path, reason);
}

/// Tools with the names of the functions among them.
pub(super) fn tools(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> Vec<(Json, Option<String>)> {
    let mut found: Vec<(Json, Option<String>)> = Vec::new();
    for (n, tool) in request.tools.iter().enumerate() {
        let path = format!("/tools/{n}");
        let references = tool.provider_data.as_ref();
        let own = kept::form_of(references, encoder.context)
            .into_iter()
            .find(|(key, _)| key == "tool");
        if let Some((_, own)) = own {
            found.push((own, None));
            continue;
        }
        let is_function = match as_function(tool, native, tool.kind == UnifiedToolType::ComputerUse) {
            Ok(is_function) => is_function,
            Err(why) => {
                lost_tool(encoder, tool, Feature::of_tool(&tool.kind), &path, why);
                continue;
            }
        };
        if !is_function {
            found.extend(hosted(encoder, request, tool, &path).map(|json| (json, None)));
            continue;
        }
        let name = wire_name(tool.namespace.as_deref(), tool.name.as_deref().unwrap_or_default());
        if found.iter().any(|(_, known)| known.as_ref() == Some(&name)) {
            let reason = "another tool has this name; the second is left out";
            encoder.loss.warning(Feature::ToolName, path, reason);
            continue;
        }
        if Some(&name) != tool.name.as_ref() {
            let reason = "the target's alphabet for tool names is smaller";
            encoder.loss.warning(Feature::ToolName, path.clone(), reason);
        }
        let (mut description, mut schema) = (tool.description.clone(), tool.input_schema.clone());
        if tool.kind == UnifiedToolType::Custom {
            lost_tool(
                encoder,
                tool,
                Feature::ToolCustom,
                &path,
                "offered as a function with one text argument",
            );
            if let Some(grammar) = tool.grammar.as_ref().and_then(|g| g.definition.as_ref()) {
                let said = description.unwrap_or_default();
                description = Some(format!("{said}\n\nThe input follows this grammar:\n{grammar}"));
            }
            let wrapped = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;
            schema = Json::from_text(wrapped.to_owned()).ok();
        } else if let Some((object, is_other)) = schema.as_ref().filter(|_| !native).and_then(object_schema) {
            let at = format!("{path}/inputSchema");
            if is_other {
                lost_tool(
                    encoder,
                    tool,
                    Feature::ToolFunction,
                    &at,
                    "the target takes only schemas of objects",
                );
            } else {
                encoder
                    .loss
                    .info(Feature::ToolFunction, at, "the schema is named as one of an object");
            }
            schema = Some(object);
        }
        if !matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom) {
            report_as_function(&mut encoder.loss, tool, &path);
        }
        attributes(encoder, tool, &path, native);
        let made = typed(
            "function",
            vec![
                ("name", Some(json(&name))),
                ("description", description.map(|d| json(&d))),
                ("parameters", schema),
                ("defer_loading", tool.defer_loading.map(|d| json(&d))),
            ],
        );
        let entries = unmapped_of(references, &encoder.profile, encoder.context);
        if references.is_some_and(|r| r.iter().any(|r| r.profile.family != encoder.profile.family)) {
            let reason = "fields of another owner's wire stay with it";
            encoder.loss.info(Feature::WireUnmapped, path, reason);
        }
        found.push((put_all(made, &entries), Some(name)));
    }
    found
}

/// Attributes of a tool that the wire cannot say.
fn attributes(encoder: &mut StepEncoder<'_>, tool: &UnifiedToolDefinition, path: &str, native: bool) {
    if tool.strict == Some(false) {
        let at = format!("{path}/strict");
        encoder
            .loss
            .remark(Feature::ToolStrict, at, "not to be strict is what the target does anyway");
    }
    if tool.defer_loading.is_some() && !native {
        let at = format!("{path}/deferLoading");
        encoder.loss.remark(Feature::WireSpelling, at, "said by the flag of the wire");
    }
    for (is, feature, member, reason) in [
        (
            tool.strict == Some(true),
            Feature::ToolStrict,
            "strict",
            "schemas are not fully enforced",
        ),
        (
            tool.allowed_callers.is_some(),
            Feature::ToolAllowedCallers,
            "allowedCallers",
            "only the model calls",
        ),
        (tool.approval.is_some(), Feature::ToolApproval, "approval", "the target asks nobody"),
        (
            tool.input_examples.is_some(),
            Feature::ToolDescription,
            "inputExamples",
            "the target takes no examples",
        ),
        (
            tool.output_schema.is_some(),
            Feature::ToolDescription,
            "outputSchema",
            "the target takes no schema of results",
        ),
        (
            tool.eager_input.is_some(),
            Feature::ToolDescription,
            "eagerInput",
            "the target has no form for it",
        ),
        (
            tool.r#async.is_some(),
            Feature::ToolDescription,
            "async",
            "the target has no form for it",
        ),
        (
            tool.cache.is_some(),
            Feature::CacheBreakpoints,
            "cache",
            "the target takes no cache marks",
        ),
    ] {
        if is {
            lost_tool(encoder, tool, feature, &format!("{path}/{member}"), reason);
        }
    }
}

/// A hosted tool of another wire.
fn hosted(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, tool: &UnifiedToolDefinition, path: &str) -> Option<Json> {
    if tool.portability == Portability::OwnerBound {
        lost_tool(
            encoder,
            tool,
            Feature::of_tool(&tool.kind),
            path,
            "the tool needs a resource or options of its owner",
        );
        return None;
    }
    let config = tool.config.clone().unwrap_or_default();
    let made = match &tool.kind {
        UnifiedToolType::WebSearch => typed("google_search", Vec::new()),
        UnifiedToolType::WebFetch | UnifiedToolType::UrlContext => typed("url_context", Vec::new()),
        UnifiedToolType::CodeExecution => typed("code_execution", Vec::new()),
        UnifiedToolType::Maps => typed(
            "google_maps",
            vec![
                ("enable_widget", config.widget.map(|w| json(&w))),
                ("latitude", config.latitude.map(number)),
                ("longitude", config.longitude.map(number)),
            ],
        ),
        UnifiedToolType::ComputerUse => {
            let word = match config.environment.as_deref() {
                Some("mobile") => "mobile",
                Some("desktop" | "mac" | "windows" | "ubuntu" | "linux") => "desktop",
                _ => "browser",
            };
            report_actions(&mut encoder.loss, request, tool, path);
            typed(
                "computer_use",
                vec![
                    ("environment", Some(json(word))),
                    ("excluded_predefined_functions", config.excluded_actions.as_ref().map(json)),
                    ("enable_prompt_injection_detection", config.injection_check.map(|on| json(&on))),
                    ("disabled_safety_policies", config.disabled_safety_policies.as_ref().map(json)),
                ],
            )
        }
        UnifiedToolType::Mcp if config.server_url.is_some() => {
            report_restrictions(&mut encoder.loss, tool, path);
            let asks = |rule: &ToolApproval| *rule != ToolApproval::Rule(ApprovalRule::Never);
            if tool.approval.as_ref().is_some_and(asks) {
                let path = format!("{path}/approval");
                lost_tool(encoder, tool, Feature::ToolApproval, &path, "the target asks nobody for approval");
            }
            mcp_server(&config)
        }
        _ => {
            lost_tool(encoder, tool, Feature::of_tool(&tool.kind), path, "the target has no such tool");
            return None;
        }
    };
    encoder.loss.warning(
        Feature::of_tool(&tool.kind),
        path,
        "offered as the target's own tool; other options are not sent",
    );
    Some(made)
}

fn mcp_server(config: &UnifiedHostedToolConfig) -> Json {
    let allowed = config
        .allowed_tools
        .as_ref()
        .map(|names| json(&[object(vec![("tools".into(), json(names))])]));
    typed(
        "mcp_server",
        vec![
            ("name", config.server_label.as_ref().map(json)),
            ("url", config.server_url.as_ref().map(json)),
            ("allowed_tools", allowed),
        ],
    )
}
