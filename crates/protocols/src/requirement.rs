//! Strength of intents by pointer into the wire body, as the command line names them (features: [`crate::strength`]).
//!
//! Each protocol says in one table, its `requirements.rs`, which members of a request body became which intent.

use crate::feature::Feature;
use crate::strength::set_strength;
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError, UnifiedRequestV2, UnifiedRequirement};

/// What a member of a request body became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// These intents.
    Intents(&'static [Feature]),
    /// The tool with the index that stands for `*`.
    Tool,
    /// The model.
    Model,
}

/// One row: a pointer into the wire body, `*` for an index, and what the member became.
pub type RequirementPointer = (&'static str, Became);

/// The table of a family; empty when it has none.
const fn pointers_of(family: &ProtocolFamily) -> &'static [RequirementPointer] {
    match family {
        ProtocolFamily::AnthropicMessages => crate::anthropic_messages::requirements::POINTERS,
        ProtocolFamily::OpenAiChat => crate::openai_chat::requirements::POINTERS,
        ProtocolFamily::OpenAiResponses => crate::openai_responses::requirements::POINTERS,
        ProtocolFamily::GeminiGenerateContent | ProtocolFamily::VertexGemini => crate::gemini_generate_content::requirements::POINTERS,
        ProtocolFamily::Antigravity => crate::gemini_generate_content::requirements::ENVELOPE_POINTERS,
        ProtocolFamily::GeminiInteractions => crate::gemini_interactions::requirements::POINTERS,
        ProtocolFamily::CursorSdk => crate::cursor_sdk::requirements::POINTERS,
        ProtocolFamily::VercelUiMessage => crate::vercel_uimessage::requirements::POINTERS,
        ProtocolFamily::Other(_) => &[],
    }
}

/// Sets the strength of what the member at a pointer into the wire body became. The most exact row counts; a pointer to
/// something inside a member means the member. Whether the body has anything at the pointer is for whoever holds the body;
/// what is judged here is the request that came out of it.
///
/// # Errors
/// `invalid-request.usage` when the pointer names nothing that has a strength, or nothing that this request has.
pub fn set_by_wire_pointer(
    request: &mut UnifiedRequestV2,
    family: &ProtocolFamily,
    pointer: &str,
    strength: UnifiedRequirement,
) -> Result<(), UnifiedError> {
    let refuse = |why: &str| Err(UnifiedError::new(ErrorCategory::InvalidRequest, "usage", format!("requirements: {why}")).at(pointer));
    let rows = pointers_of(family).iter();
    let matching = rows.filter_map(|(row, became)| Some((row.split('/').count(), match_row(row, pointer)?, *became)));
    let Some((_, index, became)) = matching.max_by_key(|(tokens, ..)| *tokens) else {
        return refuse("this pointer names nothing whose strength can be set");
    };
    let found = match became {
        // Counted, so that every one is set and not only the first that is there.
        Became::Intents(features) => features.iter().filter(|feature| set_strength(request, **feature, strength)).count() > 0,
        Became::Tool => request.tools.get_mut(index).map(|tool| tool.requirement = Some(strength)).is_some(),
        Became::Model => {
            request.model.requirement = Some(strength);
            true
        }
    };
    if found {
        Ok(())
    } else {
        refuse("the request has nothing at this pointer")
    }
}

/// Whether `pointer` is the row's place or lies inside it, and the index that stands for `*` (0 without one).
fn match_row(row: &str, pointer: &str) -> Option<usize> {
    let (mut given, mut index) = (pointer.split('/'), 0);
    for expected in row.split('/') {
        let token = given.next()?;
        if expected == "*" {
            index = token.parse().ok()?;
        } else if expected != token {
            return None;
        }
    }
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_match_their_place_and_what_lies_inside() {
        let cases = [
            ("/seed", "/seed", Some(0)),
            ("/seed", "/seeds", None),
            ("/tools/*", "/tools/3/strict", Some(3)),
            ("/tools/*", "/tools/x", None),
            ("/tools/*", "/tools", None),
            ("/tool_choice", "/tool_choice/name", Some(0)),
        ];
        for (row, pointer, expected) in cases {
            assert_eq!(match_row(row, pointer), expected, "{row} {pointer}");
        }
    }

    #[test]
    fn no_table_has_a_row_twice() {
        for family in crate::families() {
            let table = pointers_of(family);
            assert!(!table.is_empty(), "{family} has no table");
            let rows: std::collections::BTreeSet<&str> = table.iter().map(|(row, _)| *row).collect();
            assert_eq!(rows.len(), table.len(), "{family}");
        }
    }
}
