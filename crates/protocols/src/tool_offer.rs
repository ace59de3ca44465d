//! In which form a tool may be offered to a target: what its execution and its portability class decide (spec, Tools and agent
//! lifecycle), before the target's own table says which hosted tools it has.
//!
//! A tool that the wrong side would execute is worse than one that is not offered: the call would run twice, or never.

use crate::feature::Feature;
use crate::projection::LossCollector;
use throughline_format::tool::{Execution, Portability};
use throughline_format::{
    ProtocolFamily, UnifiedProviderDataRef, UnifiedRequestV2, UnifiedRequirement, UnifiedToolDefinition, UnifiedToolType,
};

/// Reports what another wire says of an MCP server and the record has no word for, such as a filter of its tools: where the server is
/// offered without it, more may be called than the client wanted.
pub(crate) fn report_restrictions(loss: &mut LossCollector, tool: &UnifiedToolDefinition, path: &str) {
    let is_unsaid = |reference: &UnifiedProviderDataRef| reference.schema.ends_with("/unmapped@1");
    if tool.kind == UnifiedToolType::Mcp && tool.provider_data.iter().flatten().any(is_unsaid) {
        let reason = "what its own wire says of the server besides has no word here; more of its tools may be called";
        let strength = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
        loss.intent(strength, Feature::ToolHostedMcp, format!("{path}/config"), reason);
    }
}

/// A form that a tool may have at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolOffer {
    /// In its own form: the target's function, custom tool, or tool of the same kind.
    OwnForm,
    /// In its own form where the target has one, else as a function with its name and input schema, since whoever executes it
    /// is on this side.
    OwnFormOrFunction,
    /// As a function only: the target must not execute it itself.
    Function,
    /// Not at all; the text says why.
    Withheld(&'static str),
}

impl ToolOffer {
    /// The form of `tool` at a target; `owner` tells whether the target is the one that the tool's resources and options belong to.
    pub fn of(tool: &UnifiedToolDefinition, owner: bool) -> Self {
        if tool.portability == Portability::OwnerBound && !owner {
            return Self::Withheld("the tool needs a resource or options of its owner");
        }
        let is_callable = tool.name.is_some() && tool.input_schema.is_some();
        let is_ours_to_define = matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom);
        match tool.execution {
            Execution::Client if is_ours_to_define || !is_callable => Self::OwnForm,
            Execution::Client => Self::OwnFormOrFunction,
            // The gateway runs it, whatever the kind: a hosted form would make the provider run it.
            Execution::Ccr if tool.kind == UnifiedToolType::Custom => Self::OwnForm,
            Execution::Ccr if is_callable || tool.kind == UnifiedToolType::Function => Self::Function,
            Execution::Ccr => Self::Withheld("this gateway executes the tool, and without a name and an input schema no model can call it"),
            Execution::Provider if is_ours_to_define && !owner => {
                Self::Withheld("its provider executes the tool, and the target is another one")
            }
            Execution::Provider => Self::OwnForm,
        }
    }
}

/// Whether a target whose tools of this kind are its own to run (`has_form`) gets the tool as a function.
///
/// # Errors
/// Why the tool is not offered at all.
pub fn as_function(tool: &UnifiedToolDefinition, owner: bool, has_form: bool) -> Result<bool, &'static str> {
    let is_function = matches!(tool.kind, UnifiedToolType::Function | UnifiedToolType::Custom);
    match ToolOffer::of(tool, owner) {
        ToolOffer::OwnForm => Ok(is_function),
        ToolOffer::OwnFormOrFunction => Ok(is_function || !has_form),
        ToolOffer::Function => Ok(true),
        ToolOffer::Withheld(why) => Err(why),
    }
}

/// Reports what a tool that is more than a function does not say when it is offered as one: its kind, and what only that has.
pub(crate) fn report_as_function(loss: &mut LossCollector, tool: &UnifiedToolDefinition, path: &str) {
    let feature = Feature::of_tool(&tool.kind);
    let reason = "who executes it is on this side; the target gets a function";
    loss.info(feature, format!("{path}/kind"), reason);
    for (member, is_there) in [("config", tool.config.is_some()), ("version", tool.version.is_some())] {
        if is_there {
            loss.info(feature, format!("{path}/{member}"), "a function has no such member");
        }
    }
}

/// Reports that a computer tool of another vendor's client is offered as Gemini's: who executes it gets calls of functions that the
/// target chose the names of.
pub(crate) fn report_actions(loss: &mut LossCollector, request: &UnifiedRequestV2, tool: &UnifiedToolDefinition, path: &str) {
    let family = &request.source.profile.family;
    let speaks_it = matches!(
        family,
        ProtocolFamily::GeminiGenerateContent | ProtocolFamily::VertexGemini | ProtocolFamily::GeminiInteractions
    );
    if !speaks_it {
        let reason = "its actions come as calls of the target's own functions, whose names this client did not offer";
        let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
        loss.intent(requirement, Feature::of_tool(&tool.kind), path, reason);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use throughline_format::tool::Execution::{Ccr, Client, Provider};
    use throughline_format::tool::Portability::{Equivalent, OwnerBound, Portable};
    use throughline_format::{Json, UnifiedId};

    #[test]
    fn execution_and_portability_decide_the_form() {
        use ToolOffer::{Function as AsFunction, OwnForm, OwnFormOrFunction};
        use UnifiedToolType::{Custom, Function, Shell, WebSearch};
        let rows = [
            // kind, execution, portability, has a schema → form at another provider, at the owner
            (Function, Client, Portable, true, Some(OwnForm), Some(OwnForm)),
            (Function, Ccr, Portable, true, Some(AsFunction), Some(AsFunction)),
            (Function, Provider, Portable, true, None, Some(OwnForm)),
            (Custom, Client, Portable, false, Some(OwnForm), Some(OwnForm)),
            (Custom, Ccr, Portable, false, Some(OwnForm), Some(OwnForm)),
            (WebSearch, Provider, Equivalent, false, Some(OwnForm), Some(OwnForm)),
            (WebSearch, Ccr, Portable, true, Some(AsFunction), Some(AsFunction)),
            (WebSearch, Ccr, Portable, false, None, None),
            (WebSearch, Provider, OwnerBound, false, None, Some(OwnForm)),
            (Shell, Client, Portable, false, Some(OwnForm), Some(OwnForm)),
            (Shell, Client, Portable, true, Some(OwnFormOrFunction), Some(OwnFormOrFunction)),
        ];
        for (kind, execution, portability, schema, elsewhere, at_owner) in rows {
            let mut tool = UnifiedToolDefinition::new(UnifiedId::pending(), kind, execution, portability, Some("t".into()));
            tool.input_schema = schema.then(|| Json::from_text(r#"{"type":"object"}"#.to_owned()).unwrap());
            let offered = |owner| match ToolOffer::of(&tool, owner) {
                ToolOffer::Withheld(_) => None,
                form => Some(form),
            };
            assert_eq!((offered(false), offered(true)), (elsewhere, at_owner), "{tool:?}");
        }
    }
}
