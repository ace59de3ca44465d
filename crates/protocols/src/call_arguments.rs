//! The arguments of a call for wires that demand an object.

use crate::feature::Feature;
use crate::raw::{json, object};
use throughline_format::item::ToolCallItem;
use throughline_format::{Json, UnifiedToolType};

/// What stands in for the result of a call that was interrupted.
pub(crate) const NO_RESULT: &str = "The call was interrupted; there is no result.";

/// Arguments as an object, as they were written where they are one; and the feature and reason of a loss where they had to be wrapped.
pub(crate) fn object_of(call: &ToolCallItem) -> (Json, Option<(Feature, &'static str)>) {
    let wrapped = |member: &str, value: Json, feature, reason| (object(vec![(member.to_owned(), value)]), Some((feature, reason)));
    if call.tool_type == UnifiedToolType::Custom {
        let reason = "free text arguments are wrapped in an object";
        return wrapped("input", json(&call.raw_arguments), Feature::ToolCustom, reason);
    }
    let said = call.raw_arguments.trim();
    let parsed = if said.is_empty() {
        call.input.clone().or_else(|| Some(object(Vec::new())))
    } else {
        Json::of_arguments(said)
    };
    match parsed {
        Some(value) if value.is_object() => (value, None),
        Some(value) => {
            let reason = "arguments that are no object are wrapped in one";
            wrapped("value", value, Feature::ToolCallArguments, reason)
        }
        None => {
            let reason = "arguments that are no JSON by the rules of records are wrapped in an object";
            wrapped("raw", json(&call.raw_arguments), Feature::ToolCallArguments, reason)
        }
    }
}
