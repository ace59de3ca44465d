//! Tools and tool choice for the wire.

use super::Dialect;
use super::decode_tools::place_of_tool;
use super::encode_part::{PartEncoder, part_of};
use super::encode_settings;
use super::models::Generation;
use super::tool_names::wire_name;
use crate::call_arguments::object_schema;
use crate::feature::Feature;
use crate::keeper::unmapped_of;
use crate::raw::{json, number, object, put_all};
use crate::tool_name::namespace_of;
use crate::tool_offer::{as_function, report_actions, report_as_function};
use std::collections::BTreeSet;
use throughline_format::intent::{Include, ParallelTools};
use throughline_format::loss::LossSeverity;
use throughline_format::tool::{AllowedMode, Portability, ToolChoiceKind, UnifiedHostedToolConfig};
use throughline_format::{Json, UnifiedRequestV2, UnifiedRequirement, UnifiedToolDefinition, UnifiedToolType};

/// Tools as the wire takes them, with what the choice needs to know.
#[derive(Default)]
pub(super) struct WireTools {
    /// The tools.
    pub(super) list: Vec<Json>,
    /// Names of the functions.
    names: BTreeSet<String>,
    /// Whether hosted tools are among them.
    hosted: bool,
}

/// One definition on its way into a group.
enum Made {
    Function(Json),
    Hosted(String, Json),
}

/// All tools that the target can offer.
pub(super) fn tools(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> WireTools {
    let mut out = WireTools::default();
    let no_tools = request.tool_choice.as_ref().is_some_and(|c| c.kind == ToolChoiceKind::None);
    // Computer use is the only hosted tool of the wire that the client executes.
    let offer = |tool: &UnifiedToolDefinition, is_own: bool| as_function(tool, native || is_own, tool.kind == UnifiedToolType::ComputerUse);
    let has_functions = request
        .tools
        .iter()
        .any(|tool| offer(tool, place_of_tool(tool, encoder.context).is_some()) == Ok(true));
    // Groups in the order of their first tool.
    let mut groups: Vec<(Option<usize>, Vec<Made>)> = Vec::new();
    for (n, tool) in request.tools.iter().enumerate() {
        let path = format!("/tools/{n}");
        let place = place_of_tool(tool, encoder.context);
        let is_function = match offer(tool, place.is_some()) {
            Ok(is_function) => is_function,
            Err(why) => {
                lost(encoder, tool, &path, why);
                continue;
            }
        };
        let made = if is_function {
            let name = wire_name(tool.namespace.as_deref(), tool.name.as_deref().unwrap_or_default()).into_owned();
            if !out.names.insert(name.clone()) {
                encoder
                    .loss
                    .warning(Feature::ToolName, path, "another tool has this name; the second is left out");
                continue;
            }
            if !matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom) {
                report_as_function(&mut encoder.loss, tool, &path);
            }
            let written = place.as_ref().map(|p| p.written.as_slice()).unwrap_or_default();
            Made::Function(function(encoder, tool, &name, written, native, &path))
        } else {
            if !native && no_tools {
                lost(
                    encoder,
                    tool,
                    &path,
                    "the target runs hosted tools whatever the choice is; they are left out",
                );
                continue;
            }
            if !native && has_functions && mixes_not(encoder) {
                lost(encoder, tool, &path, "the target takes no hosted tools beside functions");
                continue;
            }
            let own = place.as_ref().and_then(|p| {
                let member = p.member.clone()?;
                Some((member, p.written.first()?.1.clone()))
            });
            if own.is_some() && tool.config.is_some() {
                let at = format!("{path}/config");
                encoder
                    .loss
                    .remark(Feature::WireSpelling, at, "said by the member as it was written");
            }
            let made = own.or_else(|| hosted(encoder, request, tool, &path));
            let Some((member, value)) = made else { continue };
            out.hosted = true;
            Made::Hosted(member, value)
        };
        // Functions of other wires stand together, every hosted tool alone.
        let group = place.map(|p| p.group);
        let joins = |known: &(Option<usize>, Vec<Made>)| match (group, &made) {
            (Some(group), _) => known.0 == Some(group),
            (None, Made::Function(_)) => known.0.is_none() && matches!(known.1.first(), Some(Made::Function(_))),
            (None, Made::Hosted(..)) => false,
        };
        match groups.iter_mut().find(|g| joins(g)) {
            Some((_, list)) => list.push(made),
            None => groups.push((group, vec![made])),
        }
    }
    for (_, group) in groups {
        let (mut functions, mut members) = (Vec::new(), Vec::new());
        for made in group {
            match made {
                Made::Function(json) => functions.push(json),
                Made::Hosted(member, value) => members.push((member, value)),
            }
        }
        if !functions.is_empty() {
            members.insert(0, ("functionDeclarations".to_owned(), json(&functions)));
        }
        out.list.push(object(members));
    }
    out
}

/// Whether hosted tools cannot stand beside functions.
fn mixes_not(encoder: &PartEncoder<'_>) -> bool {
    encoder.dialect == Dialect::Antigravity || encoder.generation() == Generation::Second
}

/// A tool that is not offered, by its own strength.
pub(super) fn lost(encoder: &mut PartEncoder<'_>, tool: &UnifiedToolDefinition, path: &str, reason: &str) {
    let feature = Feature::of_tool(&tool.kind);
    let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
    encoder.loss.add(LossSeverity::of_requirement(requirement), feature, path, reason);
}

fn function(
    encoder: &mut PartEncoder<'_>,
    tool: &UnifiedToolDefinition,
    name: &str,
    written: &[(String, Json)],
    native: bool,
    path: &str,
) -> Json {
    let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
    if Some(name) != tool.name.as_deref() {
        encoder
            .loss
            .warning(Feature::ToolName, path, "the target's alphabet for tool names is smaller");
    }
    let mut members = vec![("name".to_owned(), json(name))];
    if tool.kind == UnifiedToolType::Custom {
        encoder.loss.intent(
            requirement,
            Feature::ToolCustom,
            path,
            "offered as a function with one text argument",
        );
        let grammar = tool.grammar.as_ref().and_then(|g| g.definition.as_ref());
        let mut said = tool.description.clone().unwrap_or_default();
        if let Some(grammar) = grammar {
            if !said.is_empty() {
                said.push_str("\n\n");
            }
            said.push_str("The input follows this grammar:\n");
            said.push_str(grammar);
        }
        members.push(("description".into(), json(&said)));
        let schema = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;
        let schema = Json::from_text(schema.to_owned()).unwrap_or_else(|_| Json::null());
        let (is_json, schema) = encode_settings::schema(encoder, &schema, false, requirement, Feature::ToolFunction, path);
        members.push(((if is_json { "parametersJsonSchema" } else { "parameters" }).into(), schema));
        return object(members);
    }
    match &tool.description {
        Some(description) => members.push(("description".into(), json(description))),
        // The published proto demands one.
        None if !native => members.push(("description".into(), json(""))),
        None => {}
    }
    let is_written = native || written.iter().any(|(key, _)| key == "parameters");
    let arguments = tool.input_schema.as_ref().filter(|_| !is_written).and_then(object_schema);
    let at = format!("{path}/inputSchema");
    match &arguments {
        Some((_, true)) => {
            let reason = "the target takes only schemas of objects";
            encoder.loss.intent(requirement, Feature::ToolFunction, at, reason);
        }
        Some((_, false)) => encoder
            .loss
            .info(Feature::ToolFunction, at, "the schema is named as one of an object"),
        None => {}
    }
    let mut put = |members: &mut Vec<(String, Json)>, schema: Option<&Json>, proto: &str, json_key: &str, at: &str| {
        if let Some((_, value)) = written.iter().find(|(key, _)| key == proto) {
            members.push((proto.to_owned(), value.clone()));
            return;
        }
        let Some(schema) = schema else { return };
        let at = format!("{path}/{at}");
        let (is_json, schema) = encode_settings::schema(encoder, schema, native, requirement, Feature::ToolFunction, &at);
        members.push(((if is_json { json_key } else { proto }).to_owned(), schema));
    };
    put(
        &mut members,
        arguments.as_ref().map(|(made, _)| made).or(tool.input_schema.as_ref()),
        "parameters",
        "parametersJsonSchema",
        "inputSchema",
    );
    put(
        &mut members,
        tool.output_schema.as_ref(),
        "response",
        "responseJsonSchema",
        "outputSchema",
    );
    attributes(encoder, tool, path);
    let entries = unmapped_of(tool.provider_data.as_ref(), &encoder.profile, encoder.context);
    let foreign = |r: &throughline_format::UnifiedProviderDataRef| r.profile.family != encoder.profile.family;
    if tool.provider_data.as_ref().is_some_and(|d| d.iter().any(foreign)) {
        encoder
            .loss
            .info(Feature::WireUnmapped, path, "fields of another owner's wire stay with it");
    }
    put_all(object(members), &entries)
}

/// Attributes of a tool that the wire cannot say.
fn attributes(encoder: &mut PartEncoder<'_>, tool: &UnifiedToolDefinition, path: &str) {
    if tool.strict == Some(false) {
        let at = format!("{path}/strict");
        encoder
            .loss
            .remark(Feature::ToolStrict, at, "not to be strict is what the target does anyway");
    }
    let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
    let mut lost = |is: bool, feature, member: &str, reason: &str| {
        if is {
            encoder.loss.intent(requirement, feature, format!("{path}/{member}"), reason);
        }
    };
    lost(
        tool.strict == Some(true),
        Feature::ToolStrict,
        "strict",
        "calls are checked for the request as a whole, not by tool",
    );
    lost(
        tool.eager_input.is_some(),
        Feature::ToolDescription,
        "eagerInput",
        "the target has no form for it",
    );
    lost(
        tool.r#async.is_some(),
        Feature::ToolDescription,
        "async",
        "the target has no form for it",
    );
    lost(
        tool.defer_loading.is_some(),
        Feature::ToolDeferLoading,
        "deferLoading",
        "the tool is loaded at once",
    );
    lost(
        tool.allowed_callers.is_some(),
        Feature::ToolAllowedCallers,
        "allowedCallers",
        "only the model calls",
    );
    lost(tool.approval.is_some(), Feature::ToolApproval, "approval", "the target asks nobody");
    lost(
        tool.input_examples.is_some(),
        Feature::ToolDescription,
        "inputExamples",
        "the target takes no examples",
    );
    lost(
        tool.cache.is_some(),
        Feature::CacheBreakpoints,
        "cache",
        "the target takes no cache marks",
    );
}

/// A hosted tool of another wire.
fn hosted(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2, tool: &UnifiedToolDefinition, path: &str) -> Option<(String, Json)> {
    if tool.portability == Portability::OwnerBound {
        lost(encoder, tool, path, "the tool needs a resource or options of its owner");
        return None;
    }
    let antigravity = encoder.dialect == Dialect::Antigravity;
    let made = match &tool.kind {
        UnifiedToolType::WebSearch => ("googleSearch", search(encoder, tool, path)),
        UnifiedToolType::WebFetch | UnifiedToolType::UrlContext => ("urlContext", object(Vec::new())),
        UnifiedToolType::CodeExecution if !antigravity => ("codeExecution", object(Vec::new())),
        UnifiedToolType::Maps if !antigravity => {
            let widget = tool.config.as_ref().and_then(|c| c.widget);
            let members = widget.map(|w| ("enableWidget".to_owned(), json(&w)));
            ("googleMaps", object(members.into_iter().collect()))
        }
        UnifiedToolType::ComputerUse if !antigravity => {
            let config = tool.config.clone().unwrap_or_default();
            let word = match config.environment.as_deref() {
                Some("mobile") => "ENVIRONMENT_MOBILE",
                Some("desktop" | "mac" | "windows" | "ubuntu" | "linux") => "ENVIRONMENT_DESKTOP",
                _ => "ENVIRONMENT_BROWSER",
            };
            let mut members = vec![("environment".to_owned(), json(word))];
            let mut add = |key: &str, value: Option<Json>| members.extend(value.map(|v| (key.to_owned(), v)));
            add("excludedPredefinedFunctions", config.excluded_actions.map(|a| json(&a)));
            add("enablePromptInjectionDetection", config.injection_check.map(|on| json(&on)));
            let policies = config.disabled_safety_policies.as_ref();
            let policies = policies.map(|words| words.iter().map(|word| word.to_ascii_uppercase()).collect::<Vec<_>>());
            add("disabledSafetyPolicies", policies.map(|words| json(&words)));
            report_actions(&mut encoder.loss, request, tool, path);
            ("computerUse", object(members))
        }
        _ => {
            lost(encoder, tool, path, "the target has no such tool");
            return None;
        }
    };
    options(encoder, tool, made.0, path);
    Some((made.0.to_owned(), made.1))
}

/// Search of another wire: domains that are blocked are known on Vertex, the rest is not.
fn search(encoder: &mut PartEncoder<'_>, tool: &UnifiedToolDefinition, path: &str) -> Json {
    let blocked = tool.config.as_ref().and_then(|c| c.blocked_domains.clone());
    match blocked {
        Some(list) if encoder.dialect == Dialect::Vertex => part_of("excludeDomains", json(&list)),
        Some(_) => {
            encoder.loss.warning(
                Feature::ToolHostedWebSearch,
                format!("{path}/config/blockedDomains"),
                "the target blocks no domains",
            );
            object(Vec::new())
        }
        None => object(Vec::new()),
    }
}

/// Options that the member cannot say.
fn options(encoder: &mut PartEncoder<'_>, tool: &UnifiedToolDefinition, member: &str, path: &str) {
    if tool.name.is_some() || tool.version.is_some() || tool.description.is_some() {
        encoder.loss.info(
            Feature::ToolHosted,
            path,
            format!("offered as {member}, whose name and version are its own"),
        );
    }
    let Some(config) = &tool.config else { return };
    let rest = UnifiedHostedToolConfig {
        blocked_domains: None,
        widget: None,
        language: None,
        latitude: None,
        longitude: None,
        user_location: None,
        environment: None,
        excluded_actions: None,
        injection_check: None,
        disabled_safety_policies: None,
        ..config.clone()
    };
    if rest != UnifiedHostedToolConfig::default() {
        encoder.loss.warning(
            Feature::ToolHosted,
            format!("{path}/config"),
            "options of another vendor's tool are not sent",
        );
    }
}

/// Writes `toolConfig`; none when there is nothing to say.
pub(super) fn config(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2, tools: &WireTools, native: bool) -> Option<Json> {
    let mut members = Vec::new();
    members.extend(choice(encoder, request, tools, native).map(|c| ("functionCallingConfig".to_owned(), c)));
    members.extend(retrieval(request).map(|r| ("retrievalConfig".to_owned(), r)));
    let includes = request.output.as_ref().and_then(|o| o.includes.as_ref());
    let mut invocations = false;
    for (n, include) in includes.iter().flat_map(|i| &i.value).enumerate() {
        if *include == Include::ServerToolInvocations && (native || encoder.dialect == Dialect::Gemini) {
            invocations = true;
            let at = format!("/output/includes/value/{n}");
            encoder.loss.remark(Feature::WireSpelling, at, "said by the switch of the wire");
        } else if let Some(intent) = includes {
            encoder.loss.intent(
                intent.requirement,
                Feature::OutputIncludes,
                format!("/output/includes/value/{n}"),
                "the target has no such switch",
            );
        }
    }
    // The service mixes hosted tools with functions only when it may tell what they did.
    if !native && encoder.dialect == Dialect::Gemini && tools.hosted && !tools.names.is_empty() && !invocations {
        encoder.loss.info(
            Feature::OutputIncludes,
            "/output/includes",
            "calls of hosted tools are told, without which the target takes none beside functions",
        );
        invocations = true;
    }
    if invocations {
        members.push(("includeServerSideToolInvocations".into(), json(&true)));
    }
    if let Some(policy) = &request.generation.parallel_tools
        && policy.value == ParallelTools::OneAtATime
    {
        encoder.loss.intent(
            policy.requirement,
            Feature::GenerationParallelTools,
            "/generation/parallelTools",
            "the target cannot be kept from calling several tools at once",
        );
    }
    (!members.is_empty()).then(|| object(members))
}

/// The user's place and language, from the tools that have them.
fn retrieval(request: &UnifiedRequestV2) -> Option<Json> {
    let mut members = Vec::new();
    let config = request.tools.iter().filter_map(|t| t.config.as_ref()).find(|c| {
        let place = c.user_location.as_ref();
        c.language.is_some() || c.latitude.is_some() || place.is_some_and(|p| p.latitude.is_some())
    })?;
    let place = config.user_location.clone().unwrap_or_default();
    let (north, east) = (config.latitude.or(place.latitude), config.longitude.or(place.longitude));
    let mut at = Vec::new();
    at.extend(north.map(|v| ("latitude".to_owned(), number(v))));
    at.extend(east.map(|v| ("longitude".to_owned(), number(v))));
    if !at.is_empty() {
        members.push(("latLng".to_owned(), object(at)));
    }
    members.extend(config.language.as_ref().map(|l| ("languageCode".to_owned(), json(l))));
    (!members.is_empty()).then(|| object(members))
}

fn choice(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2, tools: &WireTools, native: bool) -> Option<Json> {
    let strict = request.tools.iter().any(|t| t.strict == Some(true));
    let of = |mode: &str, names: Option<Vec<String>>| {
        let mut members = vec![("mode".to_owned(), json(mode))];
        members.extend(names.map(|n| ("allowedFunctionNames".to_owned(), json(&n))));
        object(members)
    };
    let foreign_model = encoder.generation() == Generation::Foreign && !native;
    if request.tool_choice.as_ref().is_some_and(|c| c.validated.is_some()) {
        encoder
            .loss
            .remark(Feature::WireSpelling, "/toolChoice/validated", "said by the mode of the wire");
    }
    let Some(choice) = &request.tool_choice else {
        let checked = (strict || foreign_model) && !tools.names.is_empty();
        return checked.then(|| of("VALIDATED", None));
    };
    if foreign_model && choice.kind != ToolChoiceKind::Auto {
        encoder.loss.intent(
            choice.requirement,
            Feature::ToolChoice,
            "/toolChoice",
            "the service checks calls of this model and takes no other choice",
        );
        return (!tools.names.is_empty()).then(|| of("VALIDATED", None));
    }
    let mut lost = |reason: &str| {
        encoder.loss.intent(choice.requirement, Feature::ToolChoice, "/toolChoice", reason);
        None
    };
    let known = |name: &str| {
        let wire = wire_name(namespace_of(&request.tools, name), name).into_owned();
        (native || tools.names.contains(&wire)).then_some(wire)
    };
    let selected = || {
        let all = choice.tools.iter().flatten();
        all.filter_map(|t| t.name.as_deref()).filter_map(known).collect::<Vec<String>>()
    };
    match choice.kind {
        ToolChoiceKind::Auto if choice.validated == Some(true) || strict || foreign_model => Some(of("VALIDATED", None)),
        ToolChoiceKind::Auto => Some(of("AUTO", None)),
        ToolChoiceKind::None => Some(of("NONE", None)),
        ToolChoiceKind::Required if native || !tools.names.is_empty() => Some(of("ANY", None)),
        ToolChoiceKind::Required => lost("no function is offered that could be called"),
        ToolChoiceKind::Named => {
            let name = choice.tool.as_ref().and_then(|t| t.name.as_deref()).and_then(known);
            match name {
                Some(name) => Some(of("ANY", Some(vec![name]))),
                None => lost("the tool is not offered"),
            }
        }
        ToolChoiceKind::Allowed => {
            let names = selected();
            if names.is_empty() {
                return lost("none of the tools is offered");
            }
            if choice.tools.as_ref().is_some_and(|t| t.len() > names.len()) {
                lost("some of the tools are not offered");
            }
            let mode = if choice.mode == Some(AllowedMode::Required) {
                "ANY"
            } else {
                "VALIDATED"
            };
            Some(of(mode, Some(names)))
        }
    }
}
